// SPDX-License-Identifier: Apache-2.0
// Making an untyped function: what the parser and the tracer share, so that equal math gives equal functions.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "frontend/functions.hpp"
#include "frontend/report.hpp"
#include "ir/function.hpp"
#include "ir/literals.hpp"

namespace codetta::frontend {

using ir::ValueId;

inline constexpr size_t max_values = size_t{1} << 17;
// Of an entry: the memory of every output is checked against every other.
inline constexpr uint32_t max_operands = 4096, max_outputs = 256;

class FunctionBuilder {
 public:
  // `report` outlives the builder.
  explicit FunctionBuilder(ir::Function function, Report* report = nullptr)
      : function_(std::move(function)), report_(report) {}

  // Once for each parameter, before everything else.
  ValueId parameter(std::string name, diag::Span span, std::optional<ir::TypeAnnotation> type = std::nullopt);
  // Of a branch or a loop: without a type, of a known number of dims.
  ValueId parameter(std::string name, diag::Span span, int rank);
  ValueId literal(ir::LiteralAttr attr, diag::Span span);
  ValueId real(double value, diag::Span span) { return literal({ir::LiteralAttr::Kind::Float, 0, value}, span); }
  // The operands are valid. Minus folds into a literal; Op::input stands for unary plus.
  ValueId unary(types::Op op, ValueId x, diag::Span span);
  ValueId op(types::Op op, std::vector<ValueId> operands, ir::Attr attr, diag::Span span);
  // Where the attribute and the operands don't say how many dims the result has.
  ValueId op(types::Op op, std::vector<ValueId> operands, ir::Attr attr, diag::Span span, int rank);

  // A value as a size: the symbol that it gives its value to, named after it, and the same for the same expression; a
  // number written in the text is a constant. Nothing, with a report, where it has dims.
  std::optional<ir::Dim> size_of(ValueId value, diag::Span span);
  // The results of a call_extern in alloc-form give values to dims that are symbols without one.
  void define_sizes(ValueId call, const std::vector<ir::TensorType>& results);
  // Whether a value gives this symbol its value, here or around this function.
  [[nodiscard]] bool defines(std::string_view symbol) const {
    return sources_.find(symbol) != sources_.end() || defined_outside_.find(symbol) != defined_outside_.end();
  }
  // Whether it is a size somewhere in the program.
  [[nodiscard]] bool has_symbol(std::string_view symbol) const { return symbols_->find(symbol) != symbols_->end(); }
  // Whether it is one here or around this function.
  [[nodiscard]] bool sees_symbol(std::string_view symbol) const { return seen_.find(symbol) != seen_.end(); }
  [[nodiscard]] bool defines_by_call(std::string_view symbol) const {
    const auto source = sources_.find(symbol);
    return source != sources_.end() && function_[source->second].op == types::Op::call_extern;
  }
  // What is made from now on belongs to a function of a branch or a loop of what `outer` makes. Sizes of all of them
  // have names of their own.
  void set_inside(const FunctionBuilder& outer) {
    symbols_ = outer.symbols_;
    seen_ = outer.seen_;
    defined_outside_ = outer.defined_outside_;
    for (const auto& [symbol, source] : outer.sources_) defined_outside_.insert(symbol);
  }

  // To be asked of what is a result without an operation. Reports arithmetic of literals that gave an integer of more
  // than 64 bits: between other literals it is exact, as in Python, and everywhere else it is an error.
  void check_number(ValueId id);
  // An integer from 2^63 on, which is a u64. To arithmetic of literals it is the number that it is.
  ValueId unsigned_literal(uint64_t value, diag::Span span);

  // Where in C++ what is made from now on comes from.
  void set_site(CallSite site) { site_ = site; }
  [[nodiscard]] ir::Function& function() { return function_; }
  [[nodiscard]] const ir::Function& function() const { return function_; }
  [[nodiscard]] const ir::Value& operator[](ValueId id) const { return function_[id]; }
  // `more`: values elsewhere that count, too.
  [[nodiscard]] bool full(size_t more = 0) const { return function_.values.size() + more >= max_values; }
  // Number of dims; -1 when it depends on what is bound.
  [[nodiscard]] int rank(ValueId id) const { return ranks_[id.index()]; }

 private:
  [[nodiscard]] int result_rank(types::Op op, const std::vector<ValueId>& operands, const ir::Attr& attr) const;
  [[nodiscard]] std::optional<ir::ExactLiteral> number(ValueId id) const;
  ValueId append(types::Op op, std::vector<ValueId> operands, ir::Attr attr, diag::Span span, int rank);
  [[nodiscard]] bool same(ValueId a, ValueId b, int depth = 0) const;
  std::optional<ir::Dim> no_size(diag::Span span, std::string reason, std::string help);

  ir::Function function_;
  Report* report_;
  std::vector<int> ranks_;
  std::unordered_map<size_t, ir::ExactLiteral> numbers_;  // what operations of literals give
  std::unordered_map<size_t, ValueId> first_beyond_;      // of numbers without a value: the one that had none
  CallSite site_{};
  // Every symbol of a program and of the functions inside of it.
  std::shared_ptr<std::set<std::string, std::less<>>> symbols_ = std::make_shared<std::set<std::string, std::less<>>>();
  std::set<std::string, std::less<>> seen_;  // of these: the function's own, and those of the functions around it
  std::map<std::string, ValueId, std::less<>> sources_;  // by symbol: size_value or call_extern
  std::set<std::string, std::less<>> defined_outside_;   // symbols with such a source in a function around this one
  std::map<size_t, std::string> symbol_of_value_;        // by value that is a size
};

// One argument of a call as the table's parameter kinds see it.
struct CallArgument {
  enum class Kind : uint8_t { Absent, None, Value, Text, Integers, Shape, Flag, DType, Function, Types };
  Kind kind = Kind::Absent;
  ValueId value;                      // Value
  std::string text;                   // Text
  bool flag = false;                  // Flag
  DType dtype = DType::f32;           // DType
  std::vector<int64_t> integers;      // Integers: of integers, dims; one element for an integer
  std::vector<ir::Dim> shape;         // Shape
  std::vector<ir::TensorType> types;  // Types
  ir::FunctionRef function;           // Function
  std::vector<int> ranks;             // Function: of its results
};

// What is wrong with the arguments of a call.
struct CallProblem {
  size_t argument = 0;  // which one
  std::string headline;
  std::string reason;
  std::string help;
};

using CallOutcome = std::variant<std::vector<ValueId>, CallProblem>;
// arguments[i] belongs to the i-th parameter; a parameter that takes any number of arguments has as many, at least one,
// which may be absent. Absent ones take their default. Not for Unavailable functions.
CallOutcome emit_call(FunctionBuilder& builder, const FunctionInfo& info, const std::vector<CallArgument>& arguments,
                      diag::Span span);
// Of functions that only programs may call (build_program.cpp).
CallOutcome emit_program_call(FunctionBuilder& builder, const FunctionInfo& info,
                              const std::vector<CallArgument>& arguments, diag::Span span);
// "f32[m, n // 8]", "i64" of a scalar: the type of a result.
std::optional<ir::TensorType> type_of_text(std::string_view text);
CallProblem dim_problem(size_t argument, int64_t dim);
inline bool fits_dim(int64_t dim) { return dim >= -max_rank && dim < max_rank; }

// Drops what no output needs; parameters stay.
void keep_reachable(ir::Function& function);
// The same, and checks: every parameter is used, no output is a constant. `whole`: where the function is, for
// parameters without a place of their own.
void finish_function(ir::Function& function, Report& report, CallSite whole = {});

}  // namespace codetta::frontend

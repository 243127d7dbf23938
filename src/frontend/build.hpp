// SPDX-License-Identifier: Apache-2.0
// Making an untyped function: what the parser and the tracer share, so that equal math gives equal functions.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "frontend/functions.hpp"
#include "frontend/report.hpp"
#include "ir/function.hpp"

namespace codetta::frontend {

using ir::ValueId;

inline constexpr size_t max_values = size_t{1} << 17;
// Of an entry: the memory of every output is checked against every other.
inline constexpr uint32_t max_operands = 4096, max_outputs = 256;

class FunctionBuilder {
 public:
  explicit FunctionBuilder(ir::Function function) : function_(std::move(function)) {}

  // Once for each parameter, before everything else.
  ValueId parameter(std::string name, diag::Span span, std::optional<ir::TypeAnnotation> type = std::nullopt);
  ValueId literal(ir::LiteralAttr attr, diag::Span span);
  ValueId real(double value, diag::Span span) { return literal({ir::LiteralAttr::Kind::Float, 0, value}, span); }
  // The operands are valid. Minus folds into a literal; Op::input stands for unary plus.
  ValueId unary(types::Op op, ValueId x, diag::Span span);
  ValueId op(types::Op op, std::vector<ValueId> operands, ir::Attr attr, diag::Span span);

  [[nodiscard]] ir::Function& function() { return function_; }
  [[nodiscard]] const ir::Value& operator[](ValueId id) const { return function_[id]; }
  [[nodiscard]] bool full() const { return function_.values.size() >= max_values; }
  // Number of dims; -1 when it depends on what is bound.
  [[nodiscard]] int rank(ValueId id) const { return ranks_[id.index()]; }

 private:
  [[nodiscard]] int result_rank(types::Op op, const std::vector<ValueId>& operands, const ir::Attr& attr) const;

  ir::Function function_;
  std::vector<int> ranks_;
};

// One argument of a call as the table's parameter kinds see it.
struct CallArgument {
  enum class Kind : uint8_t { Absent, None, Value, Text, Integers, Shape, Flag, DType };
  Kind kind = Kind::Absent;
  ValueId value;                  // Value
  std::string text;               // Text
  bool flag = false;              // Flag
  DType dtype = DType::f32;       // DType
  std::vector<int64_t> integers;  // Integers: of integers, dims; one element for an integer
  std::vector<ir::Dim> shape;     // Shape
};

// What is wrong with the arguments of a call.
struct CallProblem {
  size_t argument = 0;  // which one
  std::string headline;
  std::string reason;
  std::string help;
};

// arguments[i] belongs to the i-th parameter; of a variadic function the leading ones are the values, then the other
// parameters follow. Absent ones take their default. Not for Unavailable functions.
std::variant<std::vector<ValueId>, CallProblem> emit_call(FunctionBuilder& builder, const FunctionInfo& info,
                                                          const std::vector<CallArgument>& arguments, diag::Span span);

// Drops what no output needs, and checks: every parameter is used, no output is a constant.
void finish_function(ir::Function& function, Report& report);

}  // namespace codetta::frontend

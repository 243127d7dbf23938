// SPDX-License-Identifier: Apache-2.0
// The walk from the syntax tree to values: statements (lower.cpp), expressions (lower_expressions.cpp), arguments of
// calls (lower_call.cpp) and types (lower_types.cpp).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontend/ast.hpp"
#include "frontend/build.hpp"
#include "frontend/typing.hpp"

namespace codetta::frontend {

// Calls inside of calls that are inlined.
inline constexpr size_t max_inlining = 100;

class Lowerer {
 public:
  Lowerer(const ast::Module& module, Report& report, bool program);

  // Nullopt, with a report, when something is wrong.
  std::optional<ir::Function> lower(std::string_view function_name);

 private:
  // An invalid id stands for something that was reported: what uses it stays silent.
  using Values = std::vector<ValueId>;

  struct NamedSize {
    ir::Dim size;
    diag::Span parameter;  // that says it
  };
  struct Scope {
    const ast::Function* function = nullptr;
    std::unordered_map<std::string_view, ValueId> values;
    std::unordered_map<std::string_view, diag::Span> definitions;
    std::unordered_map<std::string_view, bool> is_parameter;
    std::set<std::string, std::less<>> read;  // names that something is made of, and sizes that values say
    std::unordered_map<std::string_view, std::optional<uint32_t>> devices;  // the block in which a name was defined
    // Sizes by what texts call them: of results of this function's extern calls, and of the functions that called it.
    std::map<std::string, std::string, std::less<>> sizes;
    // Sizes that types of parameters name, of this function where it is called, and of those that called it.
    std::map<std::string, NamedSize, std::less<>> named;
    std::set<std::string, std::less<>> own_sizes;    // symbols of the former
    std::set<std::string, std::less<>> value_sizes;  // symbols of values that texts of sizes name
  };
  struct Frame;
  struct PendingCall;

  // statements
  [[nodiscard]] std::string_view text(diag::Span span) const { return module_.text(span); }
  void collect_functions();
  const ast::Function* find_entry(std::string_view name);
  bool check_name(diag::Span name, std::string_view what);
  void entry_parameters(const ast::Function& function);
  bool declare(Scope& scope, diag::Span name, ValueId value, bool parameter);
  Values run(Scope& scope, bool entry);
  void assign(Scope& scope, const ast::Statement& statement);
  void enter_device(const ast::Statement& statement);
  // Where to_device, or a block, has brought what it is made of; none where none of that is said.
  std::optional<uint32_t> place_of(ValueId value);
  // In a block of a device: the value there, which is brought unless it lies there or was made there of nothing else.
  ValueId brought(const Scope& scope, std::string_view name, ValueId value, diag::Span span);
  void define(Scope& scope, diag::Span name, ValueId value);
  Values helper_return(Scope& scope, const ast::Statement& statement);
  void entry_return(Scope& scope, const ast::Statement& statement);
  void add_output(Scope& scope, const ast::Expr& name);
  void bad_return(const ast::Expr& value);

  // expressions
  Values evaluate(Scope& scope, ast::ExprId root);
  ValueId evaluate_one(Scope& scope, ast::ExprId root);
  ValueId one_of(const Values& values, const ast::Expr& expr);
  Values leaf(Scope& scope, const ast::Expr& expr);
  ValueId name(Scope& scope, const ast::Expr& expr);
  void undefined(const Scope& scope, const ast::Expr& expr);
  Values finish_frame(Frame& frame, const std::vector<ValueId>& operands);
  ValueId integer(const ast::Expr& expr, bool negated, diag::Span span);

  // calls
  void prepare_call(Frame& frame);
  bool match_builtin(PendingCall& call, const ast::Expr& expr);
  bool match_helper(PendingCall& call, const ast::Expr& expr);
  void unknown_keyword(diag::Span keyword, const std::vector<std::string>& names, std::string_view callee);
  std::optional<CallArgument> convert(const FunctionInfo& info, const FunctionParameter& parameter, ast::ExprId id);
  std::optional<int64_t> integer_argument(ast::ExprId id) const;
  std::optional<CallArgument> types_argument(const FunctionInfo& info, const FunctionParameter& parameter,
                                             ast::ExprId id);
  void bad_argument(const FunctionInfo& info, const FunctionParameter& parameter, ast::ExprId id, std::string expected,
                    std::string help);
  Values call(Frame& frame, const std::vector<ValueId>& operands);
  Values call_helper(const PendingCall& call, const std::vector<ValueId>& operands);
  // Functions with types of their own (lower_typed_call.cpp): what is passed for each parameter has its type, and gives
  // the sizes that the types name their values in this call. False, with a report.
  [[nodiscard]] bool has_types(const ast::Function& function) const;
  bool check_types(Scope& scope, std::span<const ir::TensorType> passed, std::span<const diag::Span> places);
  bool check_type(const ast::Function& function, uint32_t at, const ir::TensorType& declared, bool number,
                  const ir::TensorType& passed, diag::Span place);
  bool name_sizes_of(Scope& scope, const std::vector<types::Shape>& declared, std::span<const ir::TensorType> passed,
                     std::span<const diag::Span> places);
  // Of values of the function that is being lowered. Nullopt, with a report.
  std::optional<std::vector<ir::TensorType>> types_of(const std::vector<ValueId>& values, bool of_branch);
  // A size of that name that a type of a parameter here says; the parameter counts as read.
  std::optional<ir::Dim> named_size(std::string_view name);
  void find_unread(const Scope& scope);
  void report_unread();
  bool may_enter(const ast::Function& function, diag::Span span);
  bool lower_functions(PendingCall& call, const std::vector<ValueId>& operands);
  bool lower_branch(const ast::Function& function, const std::vector<int>& ranks,
                    const std::vector<ir::TensorType>& types, const std::vector<diag::Span>& places, diag::Span span,
                    CallArgument& argument);

  // sizes and subscripts (lower_subscript.cpp)
  // `values`: a value may say it, too. Where that is none, size_is_told() tells.
  std::optional<ir::Dim> size_argument(ast::ExprId id, bool values = true);
  // Whether it has been reported why the last size is none; arithmetic that has no value is, now, with this code.
  bool size_is_told(diag::Code code);
  std::optional<ir::Dim> size_part(ast::ExprId id, bool values, int depth);
  std::optional<ir::Dim> size_from_value(ast::ExprId id, int depth);
  // A size that a string says. Symbols are parameters' sizes; else those of this function's extern calls; else values
  // of that name; else sizes of the calls of functions that called it.
  ir::Dim size_of_text(const ir::Dim& size, diag::Span span);
  // Sizes that only the results of this call have, where a call of another function has named one so: a symbol each.
  void name_sizes(PendingCall& call);
  [[nodiscard]] bool is_size(std::string_view name) const;
  [[nodiscard]] bool is_least_or_most(const ast::Expr& expr) const;
  ValueId subscript(const ast::Expr& expr, ValueId object);
  [[nodiscard]] bool is_computed(const ast::Expr& item) const;
  ValueId computed_index(ast::ExprId id);
  bool slice_item(const ast::Expr& item, ir::SliceAttr& attr, bool& whole);
  void bad_subscript(diag::Span span, std::string headline, std::string reason, std::string help);

  // types
  std::optional<DType> dtype(std::string_view name, diag::Span span);
  std::optional<ir::TypeAnnotation> parameter_type(const ast::Parameter& parameter);

  const ast::Module& module_;
  Report& report_;
  bool program_;
  FunctionBuilder builder_{ir::Function{}, &report_};
  std::unique_ptr<Typing> typing_;      // of builder_'s function, once it is asked for
  std::vector<ir::TensorType> passed_;  // where that is a branch's or a loop's: the types of its parameters
  bool typed_calls_ = false;            // whether a function beside the entry has types
  std::unordered_map<std::string_view, const ast::Function*> functions_;
  std::vector<const ast::Function*> active_;    // being inlined
  std::set<std::string, std::less<>> symbols_;  // in the types of the entry's parameters
  // Of functions that are called: by function, parameters that it does not read; and functions of branches and loops,
  // which take what the others do.
  std::map<const ast::Function*, std::vector<diag::Span>> unread_;
  std::set<const ast::Function*> of_branches_;
  Scope* scope_ = nullptr;      // of the function being lowered
  int size_depth_ = 0;          // sizes inside of values that are sizes
  bool size_reported_ = false;  // why the last one is none
  std::string size_trouble_;    // of its arithmetic
  diag::Span size_trouble_at_{};
  diag::Span size_told_at_{};  // where that was reported last
  size_t elsewhere_ = 0;       // values of branches that are done, and calls
  // Of blocks `with device(n):` around the statement, the last one inside; of the function that is lowered.
  std::vector<std::optional<uint32_t>> devices_;
  std::vector<std::optional<uint32_t>> places_;  // by value of that function, as far as asked for
  [[nodiscard]] std::optional<uint32_t> device() const { return devices_.empty() ? std::nullopt : devices_.back(); }
  bool stopped_ = false;
};

struct Lowerer::PendingCall {
  const FunctionInfo* builtin = nullptr;
  const ast::Function* helper = nullptr;
  bool failed = false;
  std::vector<CallArgument> arguments;                             // builtin
  std::vector<ast::ExprId> argument_exprs;                         // by parameter; invalid for defaults
  std::vector<size_t> operand_slots;                               // child i is argument operand_slots[i]
  std::vector<std::pair<size_t, const ast::Function*>> functions;  // arguments that name functions
};

// An expression on the way: its children are evaluated one after the other.
struct Lowerer::Frame {
  ast::ExprId id;
  std::vector<ast::ExprId> children;
  size_t next = 0;
  size_t first_operand = 0;
  std::unique_ptr<PendingCall> call;
};

}  // namespace codetta::frontend

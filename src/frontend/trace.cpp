// SPDX-License-Identifier: Apache-2.0
// From traced expressions to an untyped function, by a walk over the outputs that no compiler's order of evaluation can
// change.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/result.hpp"
#include "base/text.hpp"
#include "diag/display.hpp"
#include "frontend/lower.hpp"
#include "frontend/parser_impl.hpp"
#include "frontend/trace_node.hpp"

namespace codetta {

namespace detail {

ExprNode::~ExprNode() {
  std::vector<NodeRef> pending = std::move(operands);
  while (!pending.empty()) {
    const NodeRef node = std::move(pending.back());
    pending.pop_back();
    if (node.use_count() != 1) continue;
    auto& inner = const_cast<ExprNode&>(*node).operands;  // nobody else sees the node any more
    std::move(inner.begin(), inner.end(), std::back_inserter(pending));
    inner.clear();
  }
}

}  // namespace detail

EpilogueTracer::EpilogueTracer() : state_(std::make_shared<detail::TraceState>()) {}

Expr EpilogueTracer::accum(CallSite at) const {
  auto node = std::make_shared<detail::ExprNode>();
  node->site = at;
  node->kind = detail::ExprNode::Kind::Accum;
  node->owner = state_;
  return detail::TraceAccess::make(std::move(node));
}

Expr EpilogueTracer::input(std::string name, CallSite at) const {
  auto node = std::make_shared<detail::ExprNode>();
  node->site = at;
  node->kind = detail::ExprNode::Kind::Input;
  node->owner = state_;
  node->name = name;
  state_->inputs.push_back({std::move(name), at});
  return detail::TraceAccess::make(std::move(node));
}

void EpilogueTracer::output(std::string name, const Expr& value, CallSite at) {
  state_->outputs.push_back({std::move(name), value, at});
}

namespace frontend {

namespace {

using detail::ExprNode;
using diag::Code;
using Kind = ExprNode::Kind;

constexpr std::string_view traced_name = "epilogue";

class Trace {
 public:
  Trace(const detail::TraceState& state, CallSite at) : state_(state), at_(at) {}

  Result<ir::EpilogueFunction> run() {
    for (const auto& output : state_.outputs) visit(output);
    for (const auto& input : state_.inputs) add_input(input.name, input.site);
    check_outputs();
    if (!report_.empty()) return report_.finish();
    emit();
    if (!report_.empty()) return report_.finish();
    finish_function(builder_.function(), report_, at_);
    if (!report_.empty()) return report_.finish();
    // Positions in messages of later stages point into the printed function.
    const std::string text = ir::print(builder_.function());
    CODETTA_TRY(auto parsed, parse_epilogue(std::make_shared<const diag::SourceText>("<traced epilogue>", text)));
    if (ir::equivalent(parsed, builder_.function())) {
      parsed.source = ir::with_sites(parsed, builder_.function());
      return parsed;
    }
    return diag::error(Code::internal, "a traced epilogue does not read back from its text")
        .help("please report this as a bug of Codetta");
  }

 private:
  // Nodes in order_: operands before users, left before right.
  void visit(const detail::TraceState::Output& output) {
    const ExprNode* root = detail::TraceAccess::node(output.value).get();
    if (root == nullptr) {
      empty_expression(fmt::format("output '{}'", output.name), output.site);
      return;
    }
    struct Step {
      const ExprNode* node;
      size_t next;
    };
    std::vector<Step> steps;
    if (values_.emplace(root, Values{}).second) steps.push_back({root, 0});
    while (!steps.empty()) {
      Step& step = steps.back();
      const ExprNode& node = *step.node;
      if (step.next < node.operands.size()) {
        const ExprNode* operand = node.operands[step.next++].get();
        if (operand == nullptr) {
          empty_expression(node.function != nullptr ? fmt::format("an argument of {}", node.function->name)
                                                    : std::string("an operand"),
                           node.site);
        } else if (values_.emplace(operand, Values{}).second) {
          steps.push_back({operand, 0});
        }
        continue;
      }
      enter(node);
      steps.pop_back();
    }
  }

  void enter(const ExprNode& node) {
    order_.push_back(&node);
    if (node.kind == Kind::Broken && node.problem) {
      report_.error(static_cast<Code>(node.problem->code), node.site, node.problem->headline)
          .reason(node.problem->reason)
          .help(node.problem->help);
    }
    if (node.kind != Kind::Accum && node.kind != Kind::Input) return;
    if (node.owner.lock().get() != &state_) {
      report_
          .error(Code::trace_foreign, node.site,
                 node.kind == Kind::Accum ? std::string("accum of another tracer is used")
                                          : fmt::format("operand '{}' of another tracer is used", node.name))
          .reason("accum and operands belong to the tracer they were asked from")
          .help("ask the tracer that the function is called with");
    } else if (node.kind == Kind::Input) {
      add_input(node.name, node.site);
    }
  }

  void empty_expression(const std::string& where, CallSite site) {
    report_.error(Code::trace_empty_expression, site, fmt::format("{} holds no value", where))
        .reason("a default-made Expr stands for nothing")
        .help("assign it before its first use");
  }

  bool check_name(const std::string& name, std::string_view what, CallSite site) {
    std::string reason;
    if (!base::is_identifier(name)) {
      reason = "a name is made of letters, digits and _, and does not begin with a digit";
    } else if (name.size() > Lexer::max_name) {
      reason = fmt::format("names have at most {} characters", Lexer::max_name);
    } else if (is_keyword(name)) {
      reason = "it is a keyword of Python";
    } else if (is_reserved(name, false)) {
      reason = "it is a name of the language";
    } else if (name == traced_name) {
      reason = "the traced function itself has that name";
    } else if (name == "_" || (name == "accum" && what == "operand")) {
      reason = name == "_" ? "in text it stands for a result that is not wanted" : "accum() gives the accumulator";
    }
    if (reason.empty()) return true;
    report_
        .error(Code::trace_name, site,
               fmt::format("{} can not be named '{}'", what, diag::displayable(name.substr(0, 64))))
        .reason(reason)
        .help("choose another name");
    return false;
  }

  bool is_input(const std::string& name) const {
    return std::any_of(inputs_.begin(), inputs_.end(), [&](const auto& input) { return input.name == name; });
  }

  void add_input(const std::string& name, CallSite site) {
    if (is_input(name)) return;
    check_name(name, "operand", site);
    inputs_.push_back({name, site});
  }

  void check_outputs() {
    std::vector<const detail::TraceState::Output*> seen;
    for (const auto& output : state_.outputs) {
      const auto& [name, value, site] = output;
      check_name(name, "output", site);
      const auto first =
          std::find_if(seen.begin(), seen.end(), [&](const auto* other) { return other->name == output.name; });
      if (first != seen.end()) {
        auto& error = report_.error(Code::output_duplicate, site, fmt::format("output '{}' is returned twice", name))
                          .reason("outputs are bound by name")
                          .help("give every output a name of its own");
        if ((*first)->site.known()) error.note("first here", diag::location_of((*first)->site));
      }
      seen.push_back(&output);
      const ExprNode* node = detail::TraceAccess::node(value).get();
      const bool is_accum = name == "accum" && node != nullptr && node->kind == Kind::Accum;
      if ((name == "accum" && !is_accum) || is_input(name)) {
        report_.error(Code::output_is_operand, site, fmt::format("output '{}' has the name of an operand", name))
            .reason("outputs and operands are bound by name, and one name can not be both")
            .help("give the output a name of its own");
      }
    }
    if (state_.outputs.size() > max_outputs) {
      report_.error(Code::text_too_large, at_, fmt::format("{} values are returned", state_.outputs.size()))
          .reason(fmt::format("at most {} outputs are written", max_outputs))
          .help("return fewer, or join those that have one shape");
    }
    if (state_.outputs.empty()) {
      report_.error(Code::return_missing, at_, "the traced function has no output")
          .reason("what it computes is given out by output()")
          .help("call e.output(\"D\", value)");
    }
  }

  void emit() {
    builder_.function().name = traced_name;
    const ValueId accum = builder_.parameter("accum", {});
    std::unordered_map<std::string, ValueId> inputs;
    for (const auto& [name, site] : inputs_) {
      builder_.set_site(site);
      inputs.emplace(name, builder_.parameter(name, {}));
    }
    for (const ExprNode* node : order_) {
      if (builder_.full()) {
        report_.error(Code::text_too_large, node->site, "the function has too many operations")
            .reason(fmt::format("at most {} are built", max_values))
            .help("split the function");
        return;
      }
      Values& values = values_[node];
      builder_.set_site(node->site);
      if (node->kind == Kind::Accum) {
        values = {accum};
      } else if (node->kind == Kind::Input) {
        values = {inputs[node->name]};
      } else {
        values = emit_node(*node);
      }
      if (values.empty()) return;
    }
    for (const auto& [name, value, site] : state_.outputs) {
      const ValueId id = values_[detail::TraceAccess::node(value).get()][0];
      ir::Value& named = builder_.function().values[id.index()];
      if (named.name.empty()) named.name = name;
      builder_.function().outputs.push_back({name, id, {}, site});
    }
  }

  using Values = std::vector<ValueId>;

  Values emit_node(const ExprNode& node) {
    const auto operand = [&](size_t i) { return values_[node.operands[i].get()][0]; };
    if (node.kind == Kind::Literal && node.is_unsigned)
      return {builder_.unsigned_literal(static_cast<uint64_t>(node.literal.i), {})};
    if (node.kind == Kind::Literal) return {builder_.literal(node.literal, {})};
    if (node.kind == Kind::Part) return {values_[node.operands[0].get()][node.part]};
    if (node.kind == Kind::Operator) {
      if (node.operands.size() == 1) return {builder_.unary(node.op, operand(0), {})};
      return {builder_.op(node.op, {operand(0), operand(1)}, {}, {})};
    }
    std::vector<CallArgument> arguments = node.arguments;
    size_t next = 0;
    for (CallArgument& argument : arguments) {
      if (argument.kind == CallArgument::Kind::Value) argument.value = operand(next++);
    }
    auto outcome = emit_call(builder_, *node.function, arguments, {});
    if (auto* values = std::get_if<Values>(&outcome)) return std::move(*values);
    const auto& problem = std::get<CallProblem>(outcome);
    report_.error(Code::argument_kind, node.site, fmt::format("{}: {}", node.function->name, problem.headline))
        .reason(problem.reason)
        .help(problem.help);
    return {};
  }

  const detail::TraceState& state_;
  CallSite at_;
  Report report_{nullptr};
  FunctionBuilder builder_{ir::Function{}, &report_};
  std::unordered_map<const ExprNode*, Values> values_;
  std::vector<const ExprNode*> order_;
  std::vector<detail::TraceState::Input> inputs_;
};

}  // namespace

Result<ir::EpilogueFunction> trace_epilogue(const detail::TraceState& state, CallSite at) {
  return Trace(state, at).run();
}

}  // namespace frontend
}  // namespace codetta

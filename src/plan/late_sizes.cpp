// SPDX-License-Identifier: Apache-2.0
// Sizes that a run computes: a unit that reads the value defines its symbol and checks what rests on it, and every unit
// with the symbol in it comes behind. That order is told by a buffer for each symbol, which no step names.
#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "ir/analyses.hpp"
#include "ir/input_sources.hpp"
#include "plan/planner.hpp"

namespace codetta::plan {

using ir::NodeId;
using types::Dim;
using types::Op;

namespace {

// Calls f for every size in a step that is known when it runs.
class SizeVisitor {
 public:
  SizeVisitor(const Plan& plan, const std::function<void(const Dim&)>& f) : plan_(plan), f_(f) {}

  void step(package::Step& step) const {
    each_buffer(step, [&](uint32_t& buffer) {
      if (buffer == no_buffer) return;
      const package::Buffer& named = plan_.buffers[buffer];
      all(named.shape), all(named.strides), all(named.begin), f_(named.offset);
    });
    if (const auto* launch = std::get_if<package::LaunchKernel>(&step)) launched(*launch);
    if (const auto* check = std::get_if<package::Check>(&step)) {
      if (const auto* index = std::get_if<package::IndexGuard>(&check->guard)) f_(index->size);
      if (const auto* range = std::get_if<package::RangeGuard>(&check->guard))
        f_(range->value), f_(range->least), f_(range->most);
    }
  }

 private:
  void all(const std::vector<Dim>& dims) const {
    for (const Dim& dim : dims) f_(dim);
  }
  void launched(const package::LaunchKernel& launch) const {
    f_(launch.batch), f_(launch.m), f_(launch.n);
    for (const auto* dims : {&launch.options.grid, &launch.options.block}) {
      for (const Dim& dim : *dims) f_(dim);
    }
    f_(launch.options.shared_bytes), all(launch.options.sizes);
    if (launch.options.window) f_(launch.options.window->bytes);
    program(plan_.kernels[launch.kernel].lowered.program);
    if (!launch.product) return;
    f_(launch.product->k);
    for (const auto* view : {&launch.product->a_view, &launch.product->b_view}) {
      for (const package::FactorDim& dim : *view) f_(dim.scale), f_(dim.size);
    }
    for (const package::Prologue& made : launch.product->b_made) program(plan_.kernels[made.kernel].lowered.program);
  }
  void program(const package::EpilogueProgram& program) const {
    f_(program.split.chunk), all(program.sizes);
    for (const package::Argument& argument : program.arguments) all(argument.shape);
    for (const package::Operand& operand : program.operands) {
      for (const package::IndexTerm& term : operand.terms) f_(term.scale);
      for (const auto& [dim, offset] : operand.offsets) f_(offset);
    }
  }

  const Plan& plan_;
  const std::function<void(const Dim&)>& f_;
};

// `x[:k]`, line 4, column 9
std::string place_of(const ir::Graph& graph, NodeId node) {
  const diag::Span span = graph.span(node);
  if (!graph.source() || !span.known()) return {};
  const SourceLocation at = graph.source()->locate(span);
  const std::string_view text = graph.source()->text().substr(span.begin, span.end - span.begin);
  constexpr size_t most_shown = 60;
  const bool shown = text.size() <= most_shown && text.find('\n') == std::string_view::npos;
  return fmt::format("{}, line {}, column {}", shown ? fmt::format("`{}`", text) : "an expression", at.line, at.column);
}

template <class G>
void add_check(Unit& unit, G guard) {
  package::Check& step = *std::get_if<package::Check>(&unit.steps.emplace_back(std::in_place_type<package::Check>));
  step.guard.emplace<G>(std::move(guard));
}

}  // namespace

bool ProgramPlanner::is_known(std::string_view symbol) const {
  if (late_.find(symbol) != late_.end()) return true;
  const std::vector<types::SymbolSource> sources = ir::input_sources(graph_);
  return std::any_of(sources.begin(), sources.end(),
                     [&](const types::SymbolSource& source) { return source.symbol == symbol; });
}

bool ProgramPlanner::is_late(const Dim& dim) const {
  if (late_.empty() || dim.is_constant()) return false;
  const std::vector<std::string> symbols = dim.symbols();
  return std::any_of(symbols.begin(), symbols.end(), [this](const std::string& symbol) {
    const auto found = late_.find(symbol);
    if (found == late_.end()) return false;
    const auto& [token, source, graph, order, most] = found->second;
    if (graph != &graph_ || graph->node(source.node).op != Op::size_value) return true;
    const NodeId value = graph->operands(source.node)[0];
    return std::none_of(graph->inputs().begin(), graph->inputs().end(),
                        [&](const ir::GraphInput& input) { return input.node == value && input.is_scalar; });
  });
}

void ProgramPlanner::find_late_sizes(const ir::Graph& graph, uint32_t block) {
  // What a function returns in a branch or a loop is checked against sizes that are known around it.
  ir::SizeSources sizes = ir::size_sources(graph);
  std::erase_if(sizes.sources, [&](const ir::SizeSource& source) { return is_known(source.symbol); });
  for (const ir::SizeSource& source : sizes.sources) {
    const uint32_t token =
        add_buffer({source.symbol, package::Buffer::Role::Temporary, DType::i64, false, {}, {}}, no_block);
    late_.emplace(source.symbol, LateSize{token, source, &graph, late_.size(), {}});
  }
  const auto is_own = [&](const Dim& dim) {
    const std::vector<std::string> symbols = dim.symbols();
    return std::any_of(symbols.begin(), symbols.end(), [&](const std::string& s) { return sizes.find(s) != nullptr; });
  };
  for (const ir::SizeCheck& check : ir::size_checks(graph)) {
    const bool own = is_own(check.value) || is_own(check.least) || is_own(check.most);
    (own ? late_checks_ : units_.blocks[block].checks)
        .push_back({check.value, check.least, check.most, place_of(graph, check.node)});
  }
  // A bound is at most what it bounds, which is the best guess of it.
  for (const package::RangeGuard& check : late_checks_) {
    const auto symbol = check.value.as_symbol();
    const auto late = symbol ? late_.find(*symbol) : late_.end();
    if (late != late_.end() && !late->second.most) late->second.most = check.most;
  }
}

// In a run the first that is known decides; each is defined behind those in front of it in the graph, so that the last
// of several is where what rests on all of them can be checked.
void ProgramPlanner::define_late_size(const ir::SizeSource& source, uint32_t place, Unit& unit) {
  const LateSize& late = late_.find(source.symbol)->second;
  const bool value = late.graph->node(source.node).op == Op::size_value;
  using From = package::DefineSymbol::From;
  unit.steps.emplace_back(package::DefineSymbol{source.symbol, place, value ? 0 : source.dim,
                                                value ? From::Value : From::OutputSize,
                                                static_cast<uint32_t>(source.output)});
  for (const auto& [symbol, other] : late_) {
    const bool here = std::find(unit.makes.begin(), unit.makes.end(), other.token) != unit.makes.end();
    if (other.graph == late.graph && other.order < late.order && !here) add_once(unit.reads, other.token);
  }
  add_once(unit.makes, late.token);
  for (const package::RangeGuard& check : late_checks_) {
    size_t last = 0;
    bool any = false;
    for (const Dim* dim : {&check.value, &check.least, &check.most}) {
      for (const std::string& symbol : dim->symbols()) {
        const auto known = late_.find(symbol);
        if (known == late_.end()) continue;
        last = std::max(last, known->second.order);
        any = true;
      }
    }
    if (any && last == late.order) add_check(unit, check);
  }
}

std::vector<uint32_t> ProgramPlanner::define_late_sizes(const ir::Graph& graph, NodeId node, uint32_t place,
                                                        Unit& unit) {
  std::map<size_t, const LateSize*> found;
  for (const auto& [symbol, late] : late_) {
    if (late.graph == &graph && late.source.node == node) found.emplace(late.order, &late);
  }
  std::vector<uint32_t> tokens;
  for (const auto& [order, late] : found) {
    define_late_size(late->source, place, unit);
    tokens.push_back(late->token);
  }
  return tokens;
}

void ProgramPlanner::add_size(GraphScope& scope, const KernelRegion& region) {
  const NodeId node = *region.step;
  const uint32_t buffer = buffer_at(scope, scope.graph.operands(node)[0]);
  device_ = plan_.buffers[buffer].device;
  Unit unit;
  if (!plan_.buffers[buffer].is_scalar) unit.reads = {buffer};
  define_late_sizes(scope.graph, node, buffer, unit);
  add_unit(scope.block, std::move(unit));
}

uint32_t ProgramPlanner::add_output(const ir::GraphOutput& output, const ir::OutputRoom& room) {
  const std::vector<Dim>& shape = graph_.type(output.node).shape;
  const uint32_t buffer =
      add_buffer({output.name, package::Buffer::Role::Output, output.dtype, false, room.shape, {}}, no_block);
  if (!room.computed()) return buffer;
  plan_.buffers[buffer].filled = shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    // Where the part lies follows from how the caller's memory does.
    user_strides_[{buffer, static_cast<int32_t>(d)}] = stride_symbol(buffer, static_cast<int32_t>(d));
    if (!room.names[d].empty())
      late_checks_.push_back(
          {shape[d], Dim::constant(0), room.shape[d], fmt::format("room in dim {} of output {}", d, output.name)});
  }
  return buffer;
}

void ProgramPlanner::fill_outputs(GraphScope& scope) {
  for (const auto& [made, output] : filled_) {
    package::Buffer part{plan_.buffers[output].name + "_part", package::Buffer::Role::Temporary,
                         plan_.buffers[output].dtype,          false,
                         plan_.buffers[output].filled,         {}};
    for (size_t d = 0; d < part.shape.size(); ++d)
      part.strides.push_back(Dim::symbol(user_strides_.at({output, static_cast<int32_t>(d)})));
    part.device = device_ = plan_.buffers[output].device;
    const uint32_t view = add_buffer(std::move(part), no_block);
    Unit unit;
    unit.steps.emplace_back(package::Reinterpret{output, view});
    unit.steps.emplace_back(package::Copy{made, view});
    unit.makes = {output};
    add_unit(scope.block, std::move(unit));
  }
}

void ProgramPlanner::come_behind_size(const Dim& dim, Unit& unit) const {
  if (dim.is_constant()) return;
  for (const std::string& symbol : dim.symbols()) {
    if (const auto late = late_.find(symbol); late != late_.end()) add_once(unit.reads, late->second.token);
  }
}

void ProgramPlanner::come_behind_sizes(Unit& unit) {
  if (late_.empty()) return;
  const std::function<void(const Dim&)> add = [&](const Dim& dim) { come_behind_size(dim, unit); };
  const SizeVisitor visitor(plan_, add);
  for (package::Step& step : unit.steps) visitor.step(step);
}

}  // namespace codetta::plan

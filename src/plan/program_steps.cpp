// SPDX-License-Identifier: Apache-2.0
// What no kernel computes: writes at indices, code of the user, branches and loops.
//
// A loop keeps its carried values in buffers around it. Its body makes the next ones in buffers of its own, which are
// copied over at its end; where the old value has no reader left when the new one is written, it is written in place.
// Branches read their operands where they lie, and make their results where these are to lie: in the memory of an
// operand that ends with the branches, where both may write there (takeover.hpp).
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "base/result.hpp"
#include "ir/devices.hpp"
#include "plan/families_metal.hpp"
#include "plan/planner.hpp"
#include "plan/takeover.hpp"

namespace codetta::plan {

using ir::NodeId;
using types::Dim;
using types::Op;

namespace {

// Whether elements are counted in 64 bits, those of 8 bytes in bytes. A size of 0 or a symbol does not make up for the
// others: kernels multiply those that they know.
bool is_countable(const std::vector<Dim>& shape) {
  int64_t count = sizeof(int64_t);
  for (const Dim& size : shape) {
    const int64_t known = size.as_constant().value_or(1);
    const auto product = base::checked_mul(count, std::max<int64_t>(known, 1));
    if (!product) return false;
    count = *product;
  }
  return true;
}

// The graph with some of its outputs; inputs stay. At least one is kept.
Result<ir::GraphRef> with_outputs(const ir::GraphRef& ref, const std::vector<bool>& kept) {
  const ir::Graph& graph = *ref;
  if (std::find(kept.begin(), kept.end(), false) == kept.end()) return ref;
  ir::GraphBuilder builder(graph.source());
  std::vector<NodeId> now(graph.size());
  for (const ir::GraphInput& input : graph.inputs()) {
    now[input.node.index()] = builder.add_input(graph, input);
  }
  for (size_t i = 0; i < graph.size(); ++i) {
    const NodeId id(i);
    if (graph.node(id).op == Op::input) continue;
    std::vector<NodeId> operands;
    for (const NodeId operand : graph.operands(id)) operands.push_back(now[operand.index()]);
    now[i] = builder.add_unchecked(graph.node(id).op, operands, graph.attr(id), graph.type(id), graph.span(id),
                                   graph.name_hint(id));
  }
  for (size_t o = 0; o < kept.size(); ++o) {
    const ir::GraphOutput& output = graph.outputs()[o];
    if (kept[o]) builder.add_output(output.name, now[output.node.index()], output.dtype);
  }
  CODETTA_TRY(ir::Graph pruned, std::move(builder).finish());
  return ir::GraphRef(std::make_shared<const ir::Graph>(std::move(pruned)));
}

}  // namespace

// Every operation has a step on this target, and every value a number of elements.
Result<void> ProgramPlanner::check_graph(const ir::Graph& graph, int depth) const {
  const bool cpu = plan_.target.backend == Backend::cpu;
  const bool kernels = plan_.target.backend == Backend::cuda || plan_.target.backend == Backend::hip;
  if (plan_.target.backend == Backend::metal) CODETTA_CHECK_OK(check_for_metal(graph));
  for (size_t i = 0; i < graph.size(); ++i) {
    const NodeId node(i);
    const Op op = graph.node(node).op;
    if (!is_countable(graph.type(node).shape)) {
      return diag::error(diag::Code::tensor_overflow,
                         fmt::format("the extent of {} overflows", ir::to_string(graph.type(node))))
          .at(graph.source(), graph.span(node))
          .reason("the sizes that are known give 2^60 elements or more")
          .help("use smaller sizes");
    }
    std::string why, help = "compute it outside of the program and pass the result, or choose another target";
    if (!cpu && !kernels && (op == Op::index_put || op == Op::scatter))
      why = "writes at computed indices are host work, and the tensors lie on the device";
    if (!cpu && !kernels && op == Op::call_extern)
      why = "extern functions work on host memory, and the tensors lie on the device";
    if (!cpu && !kernels && op == Op::size_value) why = "a value says a size, and Metal's host text does not read any";
    const bool elsewhere = op == Op::input && depth == 0 && graph.inputs()[i].device != 0;
    if (!cpu && !kernels && (op == Op::to_device || elsewhere)) why = "its programs run on one GPU";
    if (op == Op::user_kernel) {
      const std::string& name = graph.attr_as<ir::UserKernelAttr>(node).name;
      why = user_refusal(name);
      if (source_of(name) == nullptr)
        help = fmt::format("give its source: Program::with_kernels, or `codetta run --kernel {}=FILE`", name);
      else if (!why.empty())
        help = fmt::format("give the source of {} in a language that the target takes, or choose another target", name);
    }
    const auto children = ir::children(graph.attr(node));
    if (!children.empty() && !cpu && !kernels) {
      const NodeId decides = graph.operands(node).empty() ? node : graph.operands(node)[0];
      const auto& inputs = graph.inputs();
      const bool given = op == Op::cond && std::any_of(inputs.begin(), inputs.end(), [&](const ir::GraphInput& input) {
                           return input.is_scalar && input.node == decides;
                         });
      why = given ? "Metal's host text has no branches, also where a number of the caller's decides"
                  : "a value in device memory decides what runs next, and Metal's host text does not read any";
      help = "let the caller decide or repeat, with a program for each part, or choose a cpu, cuda or hip target";
    }
    if (!children.empty() && depth == package::max_step_depth)
      why = fmt::format("branches and loops are nested more than {} deep", package::max_step_depth);
    if (!why.empty()) {
      return diag::error(diag::Code::target_lacks, fmt::format("this target cannot run {}", types::op_info(op).name))
          .at(graph.source(), graph.span(node), ir::to_string(graph.type(node)))
          .reason(why)
          .help(help);
    }
    for (const ir::GraphRef& child : children) CODETTA_CHECK_OK(check_graph(*child, depth + 1));
  }
  return {};
}

Result<void> ProgramPlanner::add_step(GraphScope& scope, const KernelRegion& region, KernelAccount account) {
  switch (scope.graph.node(*region.step).op) {
    case Op::index_put:
      add_index_put(scope, region);
      return {};
    case Op::scatter:
      add_scatter(scope, region);
      return {};
    case Op::cond:
      return add_cond(scope, region);
    case Op::while_loop:
      return add_while(scope, region);
    case Op::size_value:
      add_size(scope, region);
      return {};
    case Op::to_device:
      add_transfer(scope, region);
      return {};
    case Op::user_kernel:
      return add_user_kernel(scope, region, std::move(account));
    default:
      add_call(scope, region);
      return {};
  }
}

std::vector<uint32_t> ProgramPlanner::result_buffers(GraphScope& scope, const KernelRegion& region, size_t count) {
  return result_buffers(scope, *region.step, region.stores, count);
}

std::vector<uint32_t> ProgramPlanner::result_buffers(GraphScope& scope, NodeId step,
                                                     const std::vector<StoredValue>& stores, size_t count) {
  std::vector<uint32_t> buffers(count, no_buffer);
  for (const StoredValue& store : stores) {
    const bool first = store.node == step;
    const size_t index = first ? 0 : static_cast<size_t>(scope.graph.attr_as<ir::ResultAttr>(store.node).index);
    buffers[index] = stored_buffer(scope, store);
  }
  return buffers;
}

uint32_t ProgramPlanner::add_view(uint32_t source, const std::vector<size_t>& order, const std::vector<Dim>* shape) {
  const package::Buffer& from = plan_.buffers[source];
  const std::vector<Dim>& sizes = shape != nullptr ? *shape : from.shape;
  std::vector<Dim> steps(sizes.size(), Dim::constant(1));
  for (size_t d = steps.size(); d-- > 1;) steps[d - 1] = steps[d] * sizes[d];
  // An output lies as the caller's memory does.
  for (size_t d = 0; from.role == package::Buffer::Role::Output && shape == nullptr && d < steps.size(); ++d) {
    const auto dim = static_cast<int32_t>(d);
    std::string& symbol = user_strides_[{source, dim}];
    if (symbol.empty()) symbol = stride_symbol(source, dim);
    steps[d] = Dim::symbol(symbol);
  }
  package::Buffer view{from.name + "_view", package::Buffer::Role::Temporary, from.dtype, false, {}, {}};
  view.device = from.device;
  const bool turned = !std::is_sorted(order.begin(), order.end());
  if (order.empty()) view.shape = sizes;
  for (const size_t d : order) {
    view.shape.push_back(sizes[d]);
    if (turned) view.strides.push_back(steps[d]);
  }
  return add_buffer(std::move(view), no_block);
}

// What no kernel has the axes for is copied.
void ProgramPlanner::add_copied_view(GraphScope& scope, const KernelRegion& region) {
  const CopiedView& view = *region.copied_view;
  const uint32_t source = read_buffer(scope, region.leaves[0]);
  const std::vector<Dim>& own = scope.graph.type(region.leaves[0]).shape;
  const std::vector<size_t> order(view.order.begin(), view.order.end());
  const bool as_it_is = view.shape == own && std::is_sorted(order.begin(), order.end());
  Unit unit;
  uint32_t from = source;
  if (!as_it_is && !view.in_place) {
    from = add_view(source, order, &view.shape);
    unit.steps.emplace_back(package::Reinterpret{source, from});
  }
  for (const StoredValue& store : region.stores) {
    uint32_t to = stored_buffer(scope, store);
    unit.makes.push_back(to);
    if (view.in_place) {
      const uint32_t made = std::exchange(to, add_view(to, {}, &own));
      unit.steps.emplace_back(package::Reinterpret{made, to});
    }
    unit.steps.emplace_back(package::Copy{from, to});
  }
  unit.reads = {source};
  add_unit(scope.block, std::move(unit));
}

// The one way from device to device. What lies anyhow is copied as it lies: the run brings it in order where it has to.
void ProgramPlanner::add_transfer(GraphScope& scope, const KernelRegion& region) {
  const uint32_t target = result_buffers(scope, region, 1)[0];
  if (target == no_buffer) return;
  Unit unit;
  unit.steps.emplace_back(package::Copy{buffer_at(scope, scope.graph.operands(*region.step)[0]), target});
  add_unit(scope.block, std::move(unit));
}

// The step indexes leading dims: where another one is meant, it works on views in which that leads. A view of an output
// takes its strides, which are numbers of 0 or more: for other outputs it is one of a temporary beside it.
void ProgramPlanner::add_index_put(GraphScope& scope, const KernelRegion& region) {
  const auto operands = scope.graph.operands(*region.step);
  const auto& attr = scope.graph.attr_as<ir::IndexPutAttr>(*region.step);
  const uint32_t x = read_buffer(scope, operands[0]), index = read_buffer(scope, operands[1]);
  uint32_t values = read_buffer(scope, operands[2]);
  const uint32_t stored = result_buffers(scope, region, 1)[0];
  const auto is_beside = [&](uint32_t buffer) {
    return attr.dim != 0 && alignment_ >= Alignment::Uneven &&
           plan_.buffers[buffer].role == package::Buffer::Role::Output;
  };
  const auto beside_of = [&](uint32_t buffer, NodeId node) {
    return add_temporary(plan_.buffers[buffer].name + "_beside", scope.graph.type(node), scope.block);
  };
  if (is_beside(values)) {
    Unit front;
    const uint32_t from = std::exchange(values, beside_of(values, operands[2]));
    front.steps.emplace_back(package::Copy{from, values});
    add_unit(scope.block, std::move(front));
  }
  const uint32_t result = is_beside(stored) ? beside_of(stored, *region.step) : stored;
  Unit unit;
  unit.steps.emplace_back(package::Copy{x, result});
  package::IndexPut put{result, {index}, values, attr.accumulate};
  if (attr.dim != 0) {
    const auto dim = static_cast<size_t>(attr.dim);
    const size_t rank = plan_.buffers[result].shape.size(), places = plan_.buffers[index].shape.size();
    std::vector<size_t> of_target{dim}, of_values;
    for (size_t d = 0; d < places; ++d) of_values.push_back(dim + d);
    for (size_t d = 0; d < rank; ++d) {
      if (d == dim) continue;
      of_target.push_back(d);
      of_values.push_back(d < dim ? d : d - 1 + places);
    }
    put.target = add_view(result, of_target);
    put.values = add_view(values, of_values);
    unit.steps.emplace_back(package::Reinterpret{result, put.target});
    unit.steps.emplace_back(package::Reinterpret{values, put.values});
  }
  unit.steps.emplace_back(std::move(put));
  unit.reads = {index};
  add_once(unit.reads, values);
  add_unit(scope.block, std::move(unit));
  if (result == stored) return;
  Unit behind;
  behind.steps.emplace_back(package::Copy{result, stored});
  add_unit(scope.block, std::move(behind));
}

void ProgramPlanner::add_scatter(GraphScope& scope, const KernelRegion& region) {
  const auto operands = scope.graph.operands(*region.step);
  const auto& attr = scope.graph.attr_as<ir::ScatterAttr>(*region.step);
  constexpr package::ScatterReduce reductions[] = {package::ScatterReduce::None, package::ScatterReduce::Sum,
                                                   package::ScatterReduce::Max, package::ScatterReduce::Min};
  const uint32_t x = read_buffer(scope, operands[0]), index = read_buffer(scope, operands[1]),
                 values = read_buffer(scope, operands[2]);
  const uint32_t result = result_buffers(scope, region, 1)[0];
  Unit unit;
  unit.steps.emplace_back(package::Copy{x, result});
  unit.steps.emplace_back(
      package::Scatter{result, index, values, attr.dim, reductions[static_cast<size_t>(attr.reduce)]});
  unit.reads = {index};
  add_once(unit.reads, values);
  add_unit(scope.block, std::move(unit));
}

// What an extern allocates may lie anyhow, so that it is copied to where kernels expect it.
void ProgramPlanner::add_call(GraphScope& scope, const KernelRegion& region) {
  const auto& attr = scope.graph.attr_as<ir::ExternAttr>(*region.step);
  const auto operands = scope.graph.operands(*region.step);
  const std::vector<uint32_t> results = result_buffers(scope, region, attr.results.size());
  package::CallExtern call;
  call.name = attr.symbol;
  for (const NodeId operand : operands) call.inputs.push_back(read_buffer(scope, operand));
  Unit unit;
  unit.reads.clear();
  for (const uint32_t input : call.inputs) {
    if (!plan_.buffers[input].is_scalar) add_once(unit.reads, input);
  }
  const auto name_of = [&](size_t r) {
    return fmt::format("{}_{}_{}", scope.block == 0 ? "t" : fmt::format("t{}", scope.block), region.step->index(), r);
  };
  if (attr.form == ir::ExternForm::Out) {
    for (size_t r = 0; r < results.size(); ++r) {
      const uint32_t output =
          results[r] != no_buffer ? results[r] : add_temporary(name_of(r), attr.results[r], scope.block);
      call.outputs.push_back(output);
      unit.makes.push_back(output);
    }
    unit.steps.emplace_back(std::move(call));
    add_unit(scope.block, std::move(unit));
    return;
  }
  call.form = package::CallExtern::Form::Alloc;
  call.result = plan_.result_count++;
  call.output_count = static_cast<uint32_t>(attr.results.size());
  const uint32_t result = call.result;
  unit.steps.emplace_back(std::move(call));
  const std::vector<uint32_t> sized = define_late_sizes(scope.graph, *region.step, result, unit);
  if (!sized.empty()) {  // memory of these sizes is taken behind it
    add_unit(scope.block, std::exchange(unit, {}));
    unit.reads = sized;
  }
  std::vector<package::Step> copies;
  for (size_t r = 0; r < results.size(); ++r) {
    if (results[r] == no_buffer) continue;
    const uint32_t selected = add_temporary(name_of(r), attr.results[r], no_block);
    unit.steps.emplace_back(package::SelectOutput{result, static_cast<uint32_t>(r), selected});
    copies.emplace_back(package::Copy{selected, results[r]});
    copies.emplace_back(package::Free{selected});
  }
  for (package::Step& step : copies) unit.steps.push_back(std::move(step));
  if (!unit.steps.empty()) add_unit(scope.block, std::move(unit));
}

uint32_t ProgramPlanner::add_block() {
  units_.blocks.emplace_back();
  return static_cast<uint32_t>(units_.blocks.size() - 1);
}

// The block of a graph over these buffers; an output without one is not computed.
Result<uint32_t> ProgramPlanner::plan_child(const ir::GraphRef& graph, std::vector<uint32_t> inputs,
                                            const std::vector<uint32_t>& outputs, std::optional<double> turn_bytes) {
  const uint32_t block = add_block();
  std::vector<bool> kept;
  std::vector<uint32_t> wanted;
  for (const uint32_t output : outputs) {
    kept.push_back(output != no_buffer);
    if (output != no_buffer) wanted.push_back(output);
  }
  if (wanted.empty()) return block;
  CODETTA_TRY(const ir::GraphRef child, with_outputs(graph, kept));
  children_.push_back(child);
  find_late_sizes(*child, block);
  GraphScope scope{*child, child, block, std::move(inputs), std::move(wanted)};
  scope.turn_bytes = turn_bytes;
  const uint32_t around = device_;
  if (ir::uses_devices(graph_)) scope.devices = ir::devices_of(*child, around);
  CODETTA_CHECK_OK(plan_graph(scope));
  device_ = around;
  if (plan_.nested.size() < block) plan_.nested.resize(block);
  plan_.nested[block - 1] = {child, std::move(scope.inputs)};
  return block;
}

// A unit whose last step runs blocks: with what these read and make outside of themselves.
void ProgramPlanner::add_blocks(uint32_t block, Unit unit) {
  for (const uint32_t child : unit.blocks) {
    for (const package::RangeGuard& check : units_.blocks[child].checks) {
      for (const Dim* dim : {&check.value, &check.least, &check.most}) come_behind_size(*dim, unit);
    }
    for (const Unit& inner : units_.blocks[child].units) {
      for (const uint32_t buffer : inner.reads) {
        if (units_.home[buffer] != child) add_once(unit.reads, buffer);
      }
      for (const uint32_t buffer : inner.makes) {
        if (units_.home[buffer] != child) add_once(unit.makes, buffer);
      }
    }
  }
  add_unit(block, std::move(unit));
}

Result<void> ProgramPlanner::add_cond(GraphScope& scope, const KernelRegion& region) {
  const auto operands = scope.graph.operands(*region.step);
  const auto& attr = scope.graph.attr_as<ir::CondAttr>(*region.step);
  const std::vector<uint32_t> results = result_buffers(scope, region, attr.then->outputs().size());
  std::vector<uint32_t> inputs;
  for (const NodeId operand : operands.subspan(1)) inputs.push_back(read_buffer(scope, operand));
  const uint32_t predicate = buffer_at(scope, operands[0]);
  Unit unit;
  for (const ir::GraphRef& branch : {attr.then, attr.otherwise}) {
    CODETTA_TRY(const uint32_t block, plan_child(branch, inputs, results, scope.turn_bytes));
    unit.blocks.push_back(block);
  }
  if (!plan_.buffers[predicate].is_scalar) unit.reads = {predicate};
  unit.steps.emplace_back(package::If{predicate, unit.blocks[0] - 1, unit.blocks[1] - 1});
  if (!plan_.buffers[predicate].is_scalar) device_ = plan_.buffers[predicate].device;
  add_blocks(scope.block, std::move(unit));
  return {};
}

Result<void> ProgramPlanner::add_while(GraphScope& scope, const KernelRegion& region) {
  const auto operands = scope.graph.operands(*region.step);
  const auto& attr = scope.graph.attr_as<ir::WhileAttr>(*region.step);
  const ir::Graph& body = *attr.body;
  const size_t count = operands.size();
  std::vector<uint32_t> carried = result_buffers(scope, region, count);
  std::vector<uint32_t> next(count, no_buffer);  // made by the body; none: the value stays as it is
  const std::string prefix = fmt::format("loop{}_{}", scope.block, region.step->index());
  Unit unit;
  Unit behind;  // what is carried beside an output gets there
  const bool by_user = runs_user_kernel(body) || runs_user_kernel(*attr.condition);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t initial = read_buffer(scope, operands[i]);
    const bool stays = body.outputs()[i].node == body.inputs()[i].node;
    if (stays && carried[i] == no_buffer) {
      carried[i] = initial;
      continue;
    }
    const ir::TensorType& type = scope.graph.type(operands[i]);
    if (by_user && carried[i] != no_buffer && writes_beside(carried[i])) {
      const uint32_t output = std::exchange(carried[i], no_buffer);
      carried[i] = add_temporary(fmt::format("{}_{}", prefix, i), type, scope.block);
      behind.steps.emplace_back(package::Copy{carried[i], output});
    }
    if (carried[i] == no_buffer) carried[i] = add_temporary(fmt::format("{}_{}", prefix, i), type, scope.block);
    unit.steps.emplace_back(package::Copy{initial, carried[i]});
    if (!stays) next[i] = add_temporary(fmt::format("{}_{}_next", prefix, i), type, no_block);
  }
  const ir::Graph& condition = *attr.condition;
  const uint32_t predicate =
      add_temporary(prefix + "_goes_on", condition.type(condition.outputs()[0].node), scope.block);
  CODETTA_TRY(const uint32_t test, plan_child(attr.condition, carried, {predicate}));
  const auto inside = static_cast<uint32_t>(units_.blocks.size());
  for (const uint32_t buffer : next) {
    if (buffer != no_buffer) units_.home[buffer] = inside;
  }
  CODETTA_TRY(const uint32_t turn, plan_child(attr.body, carried, next));
  write_back(turn, carried, next);
  unit.blocks = {test, turn};
  unit.steps.emplace_back(package::While{test - 1, predicate, turn - 1, 0});
  add_blocks(scope.block, std::move(unit));
  if (!behind.steps.empty()) add_unit(scope.block, std::move(behind));
  return {};
}

bool ProgramPlanner::seen_turned(uint32_t block, uint32_t buffer) const {
  const std::vector<Unit>& units = units_.blocks[block].units;
  return std::any_of(units.begin(), units.end(), [&](const Unit& unit) {
    const bool here = std::any_of(unit.steps.begin(), unit.steps.end(), [&](const package::Step& step) {
      const auto* view = std::get_if<package::Reinterpret>(&step);
      return view != nullptr && view->source == buffer && !plan_.buffers[view->buffer].strides.empty();
    });
    return here || std::any_of(unit.blocks.begin(), unit.blocks.end(),
                               [&](uint32_t child) { return seen_turned(child, buffer); });
  });
}

void ProgramPlanner::launches_of_users(uint32_t block, uint32_t buffer, std::vector<package::LaunchKernel*>& found) {
  for (Unit& unit : units_.blocks[block].units) {
    auto* launch = unit.steps.empty() ? nullptr : std::get_if<package::LaunchKernel>(&unit.steps.back());
    if (launch != nullptr && plan_.kernels[launch->kernel].user &&
        std::find(launch->arguments.begin(), launch->arguments.end(), buffer) != launch->arguments.end())
      found.push_back(launch);
    for (const uint32_t child : unit.blocks) launches_of_users(child, buffer, found);
  }
}

bool ProgramPlanner::tell_users(uint32_t block, uint32_t from, uint32_t to) {
  std::vector<package::LaunchKernel*> launches;
  launches_of_users(block, from, launches);
  std::vector<PlannedKernel> told;
  for (const package::LaunchKernel* launch : launches) {
    PlannedKernel& kernel = told.emplace_back(plan_.kernels[launch->kernel]);
    std::vector<uint32_t> arguments = launch->arguments;
    std::replace(arguments.begin(), arguments.end(), from, to);
    kernel.configurations.clear();
    kernel.discovery.candidates.clear();
    if (!add_gpu_user(kernel, arguments)) return false;
  }
  for (size_t i = 0; i < launches.size(); ++i) {
    launches[i]->options = told[i].configurations[0].options;
    plan_.kernels[launches[i]->kernel] = std::move(told[i]);
  }
  return true;
}

// The end of a turn: what the body has made becomes what is carried.
void ProgramPlanner::write_back(uint32_t block, const std::vector<uint32_t>& carried,
                                const std::vector<uint32_t>& next) {
  std::vector<Unit> copies;
  for (size_t i = 0; i < carried.size(); ++i) {
    if (next[i] == no_buffer) continue;
    // A view has been told how a temporary lies, and so have kernels of the user's, which are told anew.
    const bool output = plan_.buffers[carried[i]].role == package::Buffer::Role::Output;
    const bool turned = output && seen_turned(block, next[i]), by_user = output && runs_on_gpu();
    if (!turned && may_write_at_once(plan_, units_, block, next[i], carried[i]) &&
        (!by_user || tell_users(block, next[i], carried[i]))) {
      rename(units_, block, next[i], carried[i]);
      for (NestedGraph& nested : plan_.nested)
        std::replace(nested.inputs.begin(), nested.inputs.end(), next[i], carried[i]);
      continue;
    }
    Unit copy;
    copy.steps.emplace_back(package::Copy{next[i], carried[i]});
    copies.push_back(std::move(copy));
  }
  for (Unit& copy : copies) add_unit(block, std::move(copy));
}

}  // namespace codetta::plan

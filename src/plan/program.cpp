// SPDX-License-Identifier: Apache-2.0
// plan_program: a kernel a region, temporaries between them.
#include <algorithm>
#include <deque>

#include <fmt/format.h>

#include "ir/devices.hpp"
#include "plan/behind.hpp"
#include "plan/families.hpp"
#include "plan/families_cuda.hpp"
#include "plan/families_hip.hpp"
#include "plan/family_map.hpp"
#include "plan/guards.hpp"
#include "plan/parameters.hpp"
#include "plan/planner.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {

using ir::NodeId;
using package::Buffer;
using types::Dim;

Result<Plan> ProgramPlanner::run() {
  CODETTA_CHECK_OK(check_graph(graph_, 0));
  units_.blocks.emplace_back();
  find_late_sizes(graph_, 0);
  GraphScope scope{graph_, nullptr, 0, {}, {}};
  if (ir::uses_devices(graph_)) scope.devices = ir::devices_of(graph_);
  for (const ir::GraphInput& input : graph_.inputs()) {
    const ir::TensorType& type = graph_.type(input.node);
    scope.inputs.push_back(
        add_buffer({input.name, Buffer::Role::Argument, type.dtype, input.is_scalar, type.shape, {}}, no_block));
    plan_.buffers.back().donated = input.donated;
    plan_.buffers.back().device = input.device;
  }
  const std::vector<ir::OutputRoom> rooms = ir::output_rooms(graph_);
  for (size_t o = 0; o < rooms.size(); ++o) {
    scope.outputs.push_back(add_output(graph_.outputs()[o], rooms[o]));
    plan_.buffers.back().device = device_of(scope, graph_.outputs()[o].node);
  }
  for (uint32_t& output : scope.outputs) {  // behind all that the caller binds
    if (plan_.buffers[output].filled.empty()) continue;
    const Buffer& given = plan_.buffers[output];
    const uint32_t made = add_buffer(
        {given.name + "_filled", Buffer::Role::Temporary, given.dtype, false, given.filled, {}}, scope.block);
    plan_.buffers[made].device = plan_.buffers[output].device;
    filled_.emplace_back(made, std::exchange(output, made));
  }
  CODETTA_CHECK_OK(plan_graph(scope));
  define_symbols(plan_.buffers, plan_.steps);
  add_all_guards();
  add_user_strides();
  for (auto& [key, decision] : decisions_) plan_.decisions.push_back(std::move(decision));
  CODETTA_CHECK_OK(schedule(plan_, units_, [this](const Dim& dim) { return hint(dim); }));
  if (plan_.numerics.strict) {
    for (PlannedKernel& kernel : plan_.kernels) {
      if (!kernel.user || kernel.hook) kernel.lowered.program.contracts = false;  // a user's is compiled as in any case
    }
  }
  return std::move(plan_);
}

uint32_t ProgramPlanner::add_buffer(Buffer buffer, uint32_t home) {
  plan_.buffers.push_back(std::move(buffer));
  units_.home.push_back(home);
  return static_cast<uint32_t>(plan_.buffers.size() - 1);
}

uint32_t ProgramPlanner::add_temporary(std::string name, const ir::TensorType& type, uint32_t home) {
  const uint32_t buffer =
      add_buffer({std::move(name), Buffer::Role::Temporary, type.dtype, false, type.shape, {}}, home);
  plan_.buffers[buffer].device = device_;
  return buffer;
}

// Every kernel and step of a graph, as units of its block.
Result<void> ProgramPlanner::plan_graph(GraphScope& scope) {
  const ir::Graph& graph = scope.graph;
  const bool cpu = plan_.target.backend == Backend::cpu;
  RegionOptions options;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    scope.input_buffer[graph.inputs()[i].node] = scope.inputs[i];
    options.contiguous.push_back(plan_.buffers[scope.inputs[i]].role == Buffer::Role::Temporary);
    options.apart_inputs.push_back(anywhere() && !options.contiguous.back());
  }
  for (const uint32_t output : scope.outputs) {
    // What a loop's body makes may become what is carried, which lies where the loop's result does.
    options.gaps.push_back(plan_.buffers[output].role == Buffer::Role::Output || scope.block != 0);
    options.apart_outputs.push_back(anywhere() && options.gaps.back());
    options.users_beside.push_back(writes_beside(output));
  }
  options.check_indices = options.turned_copies = plan_.target.backend != Backend::metal;
  // What a loop's body makes may yet lie where the loop's result does, an output with strides of its own.
  options.turned_puts = scope.block == 0;
  // Beside tensor maps of A, B and up to four copied operands (copies_of).
  options.parameter_bytes = cpu ? 0 : free_parameter_bytes(6);
  const bool gpu = runs_on_gpu();
  options.even_factors = anywhere() && alignment_ >= Alignment::Uneven;
  options.dims_as_one = plan_.target.backend != Backend::metal && alignment_ < Alignment::Uneven;
  options.offset_bytes = cpu ? 1 : gpu ? whole_alignment : 0;
  options.whole_when_empty = alignment_ == Alignment::Empty;
  if (runs_on_gpu() && !late_.empty()) options.is_late = [this](const Dim& dim) { return is_late(dim); };
  options.inside = !cpu && !options.whole_when_empty;  // there is hardly anything to be computed
  options.together = options.prologues = cpu || options.inside;
  // On a CPU a launch costs next to nothing, and each product has threads enough by itself.
  if (gpu && options.together)
    options.spaces = [this, &scope](const KernelRegion& region) { return refuses_spaces(scope, region); };
  CODETTA_TRY(options.hooks, hooks_of(graph));
  options.devices = scope.devices;
  options.size = [this](const Dim& dim) { return hint(dim); };
  if (gpu) {
    options.map_us = [this](const LoweredMap& map) { return selection_us(map); };
    options.selects = [this, &scope](NodeId join, double together, double apart) {
      return !is_apart(scope, Question::Join, join, together, apart, together >= apart);
    };
  }
  if (plan_.target.backend == Backend::cuda) find_factor_rows(scope);
  if (cpu) {
    scope.reads = read_bytes(graph, options.size);
    if (!scope.turn_bytes) scope.turn_bytes = scope.reads.all;
  }
  std::map<NodeId, Discovery> found;  // of products, by matmul: the last one is of the region that stays
  StatisticsCosts statistics_us;
  const Refusal refuses = [&](const KernelRegion& region) -> std::optional<Rejection> {
    Discovery& discovery = found[*region.matmul];
    discovery = discovered(region.lowered.program, gemm_shape(scope, region));
    if (discovery.candidates.empty()) {
      // Of a GPU's families the first takes what others do not: of a product as it is, why it does not is the cause.
      const bool plain = region.more.empty() && region.a_made.empty() && region.b_made.empty();
      return cpu || !plain ? discovery.rejections.back() : discovery.rejections.front();
    }
    if (options.inside && !(region.a_made.empty() && region.b_made.empty())) {
      if (auto no = better_in_front(scope, region, discovery.candidates[0], statistics_us)) return no;
    }
    if (region.statistics) return better_by_map(scope, region, discovery.candidates[0], statistics_us);
    return region.more.empty() ? better_behind(scope, region, discovery.candidates[0])
                               : better_apart(scope, region, discovery.candidates[0]);
  };
  if (gpu) {
    options.places = [&](const KernelRegion& with, const KernelRegion& without, NodeId part,
                         double copies) -> std::optional<Rejection> {
      const Discovery& there = discovered(with.lowered.program, gemm_shape(scope, with));
      const Discovery& alone = discovered(without.lowered.program, gemm_shape(scope, without));
      const double together = there.candidates[0].microseconds, product = alone.candidates[0].microseconds;
      if (!is_apart(scope, Question::Parts, part, together, product + copies, together >= product + copies))
        return std::nullopt;
      return Rejection{static_cast<uint16_t>(diag::Code::better_behind),
                       {},
                       fmt::format("stored in the join by its product, {:.1f} us ({}); copied there, {:.1f} us, and "
                                   "{:.1f} us for the product ({})",
                                   together, there.candidates[0].name, copies, product, alone.candidates[0].name),
                       {}};
    };
  }
  CODETTA_TRY(ProgramRegions regions, find_regions(graph, refuses, options));
  plan_.tries += regions.tries;
  if (scope.block == 0) plan_.notes = std::move(regions.notes);  // they name nodes of the program's own graph
  std::vector<KernelAccount> accounts = account_for(graph, regions.kernels);
  for (size_t k = 0; k < regions.kernels.size(); ++k) {
    KernelRegion& region = regions.kernels[k];
    device_ = device_of(scope, region.step ? *region.step : region.matmul ? *region.matmul : region.stores[0].target);
    if (region.step) {
      CODETTA_CHECK_OK(add_step(scope, region, std::move(accounts[k])));
      continue;
    }
    if (region.copied_view) {
      add_copied_view(scope, region);
      continue;
    }
    if (add_copies(scope, region)) continue;
    PlannedKernel kernel;
    kernel.account = std::move(accounts[k]);
    std::vector<PlannedKernel> makers;
    for (MadeFactor& made : region.b_made) {
      if (options.inside) break;
      PlannedKernel& maker = makers.emplace_back();
      maker.discovery = discover_map(made.lowered.program, {1, hint(made.lowered.rows), hint(made.lowered.cols)},
                                     plan_.target, machine_);
      if (maker.discovery.candidates.empty()) {
        const Rejection& last = maker.discovery.rejections.back();
        return diag::error(static_cast<diag::Code>(last.code), "no kernel computes this factor")
            .at(graph.source(), graph.span(made.value))
            .reason(last.text)
            .help("choose another target");
      }
    }
    if (region.matmul) {
      kernel.shape = gemm_shape(scope, region);
      kernel.discovery = std::move(found[*region.matmul]);
    } else {
      const MapShape shape{hint(region.batch), hint(region.rows), hint(region.cols), hinted(region.cols).has_value(),
                           region.cols.as_constant().has_value()};
      kernel.discovery = discover_map(region.lowered.program, shape, plan_.target, machine_);
      if (kernel.discovery.candidates.empty()) {
        const Rejection& last = kernel.discovery.rejections.back();
        return diag::error(static_cast<diag::Code>(last.code), "no kernel computes this")
            .at(graph.source(), graph.span(region.stores[0].node))
            .reason(last.text)
            .help("choose another target");
      }
    }
    add_kernel(scope, std::move(region), std::move(kernel), std::move(makers));
  }
  if (scope.block == 0) fill_outputs(scope);
  return order_units(plan_, units_, scope.block, [this](const Dim& dim) { return hint(dim); });
}

// Where a value is stored; parts of a join share a buffer.
uint32_t ProgramPlanner::stored_buffer(GraphScope& scope, const StoredValue& store) {
  const ir::TensorType& type = scope.graph.type(store.target);
  if (store.output) {
    const uint32_t buffer = scope.outputs[*store.output];
    if (plan_.buffers[buffer].dtype == type.dtype && scope.graph.node(store.target).op != types::Op::input)
      scope.buffer_of.emplace(store.target, buffer);
    return buffer;
  }
  const auto known = scope.buffer_of.find(store.target);
  if (known != scope.buffer_of.end()) return known->second;
  const size_t index = store.target.index();
  const std::string name = scope.block == 0 ? fmt::format("t{}", index) : fmt::format("t{}_{}", scope.block, index);
  const uint32_t made = add_temporary(name, type, scope.block);
  plan_.buffers[made].device = device_of(scope, store.target);
  scope.buffer_of.emplace(store.target, made);
  return made;
}

uint32_t ProgramPlanner::buffer_at(const GraphScope& scope, NodeId node) {
  const auto stored = scope.buffer_of.find(node);
  return stored != scope.buffer_of.end() ? stored->second : scope.input_buffer.at(node);
}

uint32_t ProgramPlanner::read_buffer(GraphScope& scope, NodeId node) {
  const uint32_t source = buffer_at(scope, node);
  if (plan_.buffers[source].is_scalar || plan_.buffers[source].device == device_) return source;
  const auto [known, fresh] = scope.brought.try_emplace({source, device_}, source);
  if (!fresh) return known->second;
  known->second =
      add_temporary(fmt::format("{}_on{}", plan_.buffers[source].name, device_), scope.graph.type(node), scope.block);
  Unit unit;
  unit.steps.emplace_back(package::Copy{source, known->second});
  add_unit(scope.block, std::move(unit));
  return known->second;
}

std::optional<int64_t> ProgramPlanner::hinted(const Dim& dim, std::optional<int64_t> otherwise, int depth) const {
  constexpr int most_guesses = 8;
  const auto size = dim.evaluate([&](std::string_view symbol) -> std::optional<int64_t> {
    for (const auto& [name, value] : hints_) {
      if (name == symbol) return value;
    }
    const auto late = late_.find(symbol);  // what bounds it may have such sizes in turn
    if (late == late_.end() || !late->second.most || depth == most_guesses) return otherwise;
    return hinted(*late->second.most, otherwise, depth + 1);
  });
  return size && *size >= 0 ? size : otherwise;  // n - 600 is no size where n is not known
}

int64_t ProgramPlanner::hint(const Dim& dim) const {
  constexpr int64_t unknown = 512;
  return hinted(dim, unknown).value_or(unknown);
}

const Discovery& ProgramPlanner::discovered(const package::EpilogueProgram& program, const GemmShape& shape) const {
  size_t digest = program.phases.size();
  const auto add = [&digest](size_t value) { digest = digest * 1099511628211u + value; };
  for (const int64_t size : {shape.batch, shape.m, shape.n, shape.k}) add(static_cast<size_t>(size));
  for (const package::Phase& phase : program.phases) add(phase.insts.size());
  for (const package::Argument& argument : program.arguments) add(std::hash<std::string>{}(argument.name));
  const auto [first, last] = discovered_.equal_range(digest);
  for (auto known = first; known != last; ++known) {
    if (known->second.program == program && known->second.shape == shape) return known->second.discovery;
  }
  return discovered_.emplace(digest, Discovered{program, shape, discover(program, shape, plan_.target, machine_)})
      ->second.discovery;
}

// What a measurement says, else the cost model. Asked again of the same node, as what is cut off around it changes, the
// last answer stands.
bool ProgramPlanner::is_apart(const GraphScope& scope, Question question, NodeId node, double together, double apart,
                              bool by_model) const {
  const bool nested = scope.block != 0;
  Decision decision{fmt::format("{} {}%{}", name_of(question), nested ? std::to_string(scope.block) : "", node.index()),
                    question,
                    node,
                    nested,
                    together,
                    apart,
                    by_model};
  if (const auto known = choices_.find(decision.key); known != choices_.end()) {
    decision.is_apart = known->second.apart;
    decision.measured = true;
    decision.choice = known->second;
  }
  const bool result = decision.is_apart;
  std::string key = decision.key;
  decisions_.insert_or_assign(std::move(key), std::move(decision));
  return result;
}

// Why factors are better stored in front of the product than made by it, for every tile that reads them.
std::optional<Rejection> ProgramPlanner::better_in_front(const GraphScope& scope, const KernelRegion& region,
                                                         const Candidate& inside,
                                                         const StatisticsCosts& statistics_us) const {
  KernelRegion stored = region;
  const std::optional<double> in_front = store_factors(stored);
  if (!in_front) return std::nullopt;
  double beside = 0;  // what reduces rows of a factor first
  bool untried = false;
  for (const std::vector<MadeFactor>* factors : {&region.a_made, &region.b_made}) {
    for (const MadeFactor& made : *factors) {
      if (made.reductions) beside += map_us(*made.reductions).value_or(0);
      if (made.reduced_by) beside += statistics_us.at(*made.reduced_by);
      untried = untried || made.untried;
    }
  }
  const Discovery& plain = discovered(stored.lowered.program, gemm_shape(scope, stored));
  if (plain.candidates.empty()) return std::nullopt;
  const double product = plain.candidates[0].microseconds;
  // Reductions that may take less behind an earlier product are tried there before the factor is given up.
  const double made = (untried ? 0 : beside) + inside.microseconds, apart = *in_front + product;
  if (!is_apart(scope, Question::Factors, *region.matmul, made, apart, made > apart)) return std::nullopt;
  return Rejection{static_cast<uint16_t>(diag::Code::outside_product),
                   {},
                   fmt::format("made by the product, again for each tile that reads it, {:.1f} us ({}){}; stored in "
                               "front {:.1f} us, and {:.1f} us for the product of it ({})",
                               inside.microseconds, inside.name,
                               beside > 0 ? fmt::format(" and {:.1f} us for reductions of its rows", beside) : "",
                               *in_front, product, plain.candidates[0].name),
                   scope.graph.span(*region.matmul)};
}

// Why reductions of rows that a product stores are better made by a map of their own, which reads the rows again.
std::optional<Rejection> ProgramPlanner::better_by_map(const GraphScope& scope, const KernelRegion& region,
                                                       const Candidate& together,
                                                       StatisticsCosts& statistics_us) const {
  const std::optional<double> map = map_us(region.statistics->map);
  KernelRegion without = region;
  without.lowered = region.statistics->plain;
  without.stores = region.statistics->stores;
  without.leaves = region.statistics->leaves;
  const Discovery& plain = discovered(without.lowered.program, gemm_shape(scope, without));
  statistics_us[*region.matmul] = 0;
  if (!map || plain.candidates.empty()) return std::nullopt;
  const Candidate& alone = plain.candidates[0];
  const double rest = region.statistics->rest ? map_us(*region.statistics->rest).value_or(0) : 0;
  statistics_us[*region.matmul] = together.microseconds + rest - alone.microseconds;
  const double by_product = together.microseconds + rest, by_map = alone.microseconds + *map;
  if (!is_apart(scope, Question::Rows, *region.matmul, by_product, by_map, by_product >= by_map)) return std::nullopt;
  return Rejection{
      static_cast<uint16_t>(diag::Code::better_behind),
      {},
      fmt::format("behind the product, {:.1f} us with it ({}); in a kernel of its own {:.1f} us, and {:.1f} us "
                  "for the product ({})",
                  together.microseconds, together.name, *map, alone.microseconds, alone.name),
      scope.graph.span(region.stores[0].node)};
}

GpuFacts ProgramPlanner::facts_of_gpu() const {
  const std::string& arch = plan_.target.arch;
  const HipArchitecture* hip = plan_.target.backend == Backend::hip ? find_hip(arch) : nullptr;
  return hip != nullptr ? hip->facts : machine_.gpu.arch == arch ? machine_.gpu : gpu_facts(arch);
}

// Why what a GPU does behind row reductions is better cut off: later phases of a product read its accumulators from
// memory, each of them all; a map reads once what it is handed, and finishes rows in the caches.
std::optional<Rejection> ProgramPlanner::better_behind(const GraphScope& scope, const KernelRegion& region,
                                                       const Candidate& together) const {
  const ir::Graph& graph = scope.graph;
  const package::EpilogueProgram& program = region.lowered.program;
  const Backend backend = plan_.target.backend;
  if ((backend != Backend::cuda && backend != Backend::hip) || program.split.ways != 1) return std::nullopt;
  const bool by_rows = std::all_of(program.reductions.begin(), program.reductions.end(),
                                   [](const auto& r) { return r.axis == package::ReduceAxis::Row; });
  const bool keeps = std::any_of(program.phases.begin() + 1, program.phases.end(),
                                 [](const package::Phase& phase) { return phase.reads_accumulator; });
  const auto behind =
      by_rows && keeps ? behind_reductions(graph, region, [this](const Dim& dim) { return hint(dim); }) : std::nullopt;
  if (!behind) return std::nullopt;
  double later = 0;
  for (const CostTerm& term : together.terms) {
    if (term.name == "later phases") later += term.microseconds;
  }
  const GpuFacts gpu = facts_of_gpu();
  const MapShape shape{hint(region.batch), hint(region.rows), hint(region.cols)};
  const double elements =
      static_cast<double>(shape.batch) * static_cast<double>(shape.rows) * static_cast<double>(shape.cols);
  const double apart = map_launch_us(program, shape, gpu.sms) +
                       elements * (behind->handed_over + behind->read + behind->stored) / gpu.memory_rate / 1000;
  if (!is_apart(scope, Question::Behind, *region.matmul, later, apart, apart < later)) return std::nullopt;
  return Rejection{
      static_cast<uint16_t>(diag::Code::better_behind),
      {},
      fmt::format("behind the product about {:.1f} us more, in a kernel of its own {:.1f} us, which reads {}", later,
                  apart, read_text(graph, *behind)),
      graph.span(behind->nodes[0])};
}

std::optional<double> ProgramPlanner::map_us(const LoweredMap& map) const {
  const MapShape shape{hint(map.batch), hint(map.rows), hint(map.cols), hinted(map.cols).has_value(),
                       map.cols.as_constant().has_value()};
  const Discovery found = discover_map(map.program, shape, plan_.target, machine_);
  if (found.candidates.empty()) return std::nullopt;
  return found.candidates[0].microseconds;
}

// Of a map on a GPU, with what it reads at indices that it computes: each is 64-bit arithmetic, and takes no vectors.
std::optional<double> ProgramPlanner::selection_us(const LoweredMap& map) const {
  constexpr double load_clocks = 16, lanes = 128;  // of a thread; of a multiprocessor
  std::optional<double> microseconds = map_us(map);
  if (!microseconds) return std::nullopt;
  const GpuFacts gpu = facts_of_gpu();
  const double elements =
      static_cast<double>(hint(map.batch)) * static_cast<double>(hint(map.rows)) * static_cast<double>(hint(map.cols));
  for (const package::Phase& phase : map.program.phases) {
    const auto loads = std::count_if(phase.insts.begin(), phase.insts.end(), [](const package::Inst& inst) {
      return inst.kind == package::Inst::Kind::LoadAt;
    });
    *microseconds += elements * static_cast<double>(loads) * load_clocks / (gpu.sms * lanes * gpu.ghz) / 1000;
  }
  for (const package::Operand& operand : map.program.operands) {
    if (operand.gathered.empty()) continue;
    const package::Argument& argument = map.program.arguments[operand.argument];
    double bytes = static_cast<double>(types::byte_size(argument.dtype));
    for (const Dim& size : argument.shape) bytes *= static_cast<double>(hint(size));
    *microseconds += bytes / gpu.memory_rate / 1000;
  }
  return microseconds;
}

// What it takes to store factors that the product makes; `region` reads them then. Nothing where no kernel does.
std::optional<double> ProgramPlanner::store_factors(KernelRegion& region) const {
  double microseconds = 0;
  for (std::vector<MadeFactor>* factors : {&region.a_made, &region.b_made}) {
    for (const MadeFactor& made : *factors) {
      const std::optional<double> map = map_us(made.whole ? *made.whole : made.lowered);
      if (!map) return std::nullopt;
      microseconds += *map;
    }
    factors->clear();
  }
  region.lowered.program.factors.clear();
  return microseconds;
}

// What a region stores without computing anything is copied, but for inputs of the program, which a kernel reads
// whatever their strides are. False: it computes.
bool ProgramPlanner::add_copies(GraphScope& scope, const KernelRegion& region) {
  if (region.matmul) return false;
  std::vector<std::pair<NodeId, StoredValue>> copies;
  for (const StoredValue& store : region.stores) {
    const bool input = scope.graph.node(store.node).op == types::Op::input;
    if (!(input && scope.block != 0) && (input || !is_step(scope.graph.node(store.node).op))) return false;
    const uint32_t source = buffer_at(scope, store.node);
    const DType target = store.output ? plan_.buffers[scope.outputs[*store.output]].dtype : plan_.buffers[source].dtype;
    const bool plain = plan_.target.backend == Backend::cpu ||
                       (plan_.buffers[source].role == Buffer::Role::Temporary &&
                        (!store.output || plan_.buffers[scope.outputs[*store.output]].role == Buffer::Role::Temporary));
    if (store.node != store.target || plan_.buffers[source].is_scalar || plan_.buffers[source].dtype != target ||
        !plain)
      return false;
    copies.emplace_back(store.node, store);
  }
  for (const auto& [node, store] : copies) {
    const uint32_t source = buffer_at(scope, node);
    const uint32_t target = stored_buffer(scope, store);
    Unit unit;
    unit.steps.emplace_back(package::Copy{source, target});
    add_unit(scope.block, std::move(unit));
  }
  return true;
}

// What computes a factor block by block is a kernel of the plan that no step launches.
package::Prologue ProgramPlanner::add_maker(GraphScope& scope, MadeFactor made, PlannedKernel maker) {
  package::Prologue prologue;
  prologue.kernel = static_cast<uint32_t>(plan_.kernels.size());
  const size_t last = made.lowered.argument_input.size() - 1;
  for (size_t i = 0; i < last; ++i)
    prologue.arguments.push_back(read_buffer(scope, made.leaves[made.lowered.argument_input[i]]));
  maker.region.kind = Region::Kind::Map;
  maker.region.matmul = made.value;
  maker.region.graph = scope.ref;
  maker.region.inputs = std::move(made.leaves);
  maker.region.outputs = {made.value};
  maker.lowered = std::move(made.lowered);
  maker.is_prologue = true;
  plan_.kernels.push_back(std::move(maker));
  return prologue;
}

// The buffer of a factor that is read where it lies. One that is a slice is a view, which the unit makes.
uint32_t ProgramPlanner::factor_buffer(GraphScope& scope, const Factor& factor, Unit& unit) {
  const uint32_t source = read_buffer(scope, factor.source);
  if (factor.offsets.empty()) return source;
  const Buffer& whole = plan_.buffers[source];
  Buffer slice{whole.name + "_slice", Buffer::Role::Temporary, whole.dtype, false, whole.shape, {}};
  slice.device = whole.device;
  slice.begin = factor.offsets;
  for (size_t d = 0; d < slice.begin.size(); ++d) slice.shape[d] = slice.shape[d] - slice.begin[d];
  const uint32_t buffer = add_buffer(std::move(slice), no_block);
  unit.steps.emplace_back(package::Reinterpret{source, buffer});
  add_once(unit.reads, source);
  slices_.emplace(buffer, source);
  return buffer;
}

void ProgramPlanner::add_kernel(GraphScope& scope, KernelRegion region, PlannedKernel kernel,
                                std::vector<PlannedKernel> makers) {
  std::vector<package::Prologue> prologues;
  for (size_t i = 0; i < makers.size(); ++i)
    prologues.push_back(add_maker(scope, std::move(region.b_made[i]), std::move(makers[i])));
  package::LaunchKernel launch;
  launch.kernel = static_cast<uint32_t>(plan_.kernels.size());
  launch.batch = region.batch;
  launch.m = region.rows;
  launch.n = region.all_cols();
  Region& planned = kernel.region;
  planned.kind = region.matmul ? Region::Kind::Product : Region::Kind::Map;
  planned.matmul = region.matmul.value_or(region.stores[0].node);
  planned.graph = scope.ref;
  std::vector<uint32_t> buffers;
  for (NodeId leaf : region.leaves) buffers.push_back(read_buffer(scope, leaf));
  // A tensor that a factor is computed from stands for it.
  const package::EpilogueProgram& program = region.lowered.program;
  const auto source_of = [&](package::FactorProgram::Which which, size_t i) {
    const package::FactorProgram& made = *program.made(which, static_cast<uint32_t>(i));
    const auto load = std::find_if(made.insts.begin(), made.insts.end(),
                                   [](const package::Inst& inst) { return inst.kind == package::Inst::Kind::Load; });
    return buffers[region.lowered.argument_input[program.operands[load->index].argument]];
  };
  Unit unit;
  if (region.matmul) {
    using Which = package::FactorProgram::Which;
    package::Product& product = launch.product.emplace();
    product.a = program.makes_a() ? source_of(Which::A, 0) : factor_buffer(scope, region.a, unit);
    const auto factor = [&](const Factor& b, size_t i) {
      if (program.makes_b()) return source_of(Which::B, i);
      if (prologues.empty()) return factor_buffer(scope, b, unit);
      for (const uint32_t buffer : prologues[i].arguments) {
        if (!plan_.buffers[buffer].is_scalar) return buffer;
      }
      return prologues[i].arguments.front();
    };
    product.b = factor(region.b, 0);
    for (size_t i = 0; i < region.more.size(); ++i) product.more_b.push_back(factor(region.more[i].b, i + 1));
    product.b_made = std::move(prologues);
    product.a_transposed = region.a.transposed;
    product.b_transposed = region.b.transposed;
    product.a_view = std::move(region.a.view);
    product.b_view = std::move(region.b.view);
    product.k = scope.graph.type(scope.graph.operands(*region.matmul)[0]).shape.back();
  }
  for (const IndexRead& read : region.indexed) {
    package::Check& check = *std::get_if<package::Check>(&unit.steps.emplace_back(std::in_place_type<package::Check>));
    check.guard.emplace<package::IndexGuard>(package::IndexGuard{read_buffer(scope, read.index), read.size});
  }
  // What is read is known before anything is stored: a copy reads its input.
  for (const StoredValue& store : region.stores) buffers.push_back(stored_buffer(scope, store));
  for (uint32_t from : region.lowered.argument_input) launch.arguments.push_back(buffers[from]);
  for (size_t i = 0; i < program.more_b.size(); ++i)
    launch.arguments[program.operands[program.more_b[i]].argument] = launch.product->more_b[i];
  planned.inputs = std::move(region.leaves);
  for (const StoredValue& store : region.stores) planned.outputs.push_back(store.node);
  kernel.lowered = std::move(region.lowered);
  plan_.kernels.push_back(std::move(kernel));
  unit.steps.emplace_back(std::move(launch));
  add_unit(scope.block, std::move(unit));
}

void ProgramPlanner::add_unit(uint32_t block, Unit unit) {
  unit.device = device_;
  come_behind_sizes(unit);
  const auto is_view = [&](uint32_t buffer) {
    return units_.home[buffer] == no_block && plan_.buffers[buffer].role == Buffer::Role::Temporary;
  };
  const auto reads = [&](uint32_t buffer) { add_once(unit.reads, buffer); };
  for (const package::Step& step : unit.steps) {
    if (const auto* launch = std::get_if<package::LaunchKernel>(&step)) {
      if (launch->product) {
        launch->product->each_buffer([&](uint32_t buffer) {
          if (!is_view(buffer)) reads(buffer);
        });
      }
      const auto& arguments = plan_.kernels[launch->kernel].lowered.program.arguments;
      for (size_t i = 0; i < arguments.size(); ++i) {
        if (arguments[i].is_output) {
          add_once(unit.makes, launch->arguments[i]);
        } else if (!is_view(launch->arguments[i])) {
          reads(launch->arguments[i]);
        }
      }
    } else if (const auto* copy = std::get_if<package::Copy>(&step)) {
      if (!is_view(copy->source)) reads(copy->source);
      if (!is_view(copy->target)) add_once(unit.makes, copy->target);
    } else if (const auto* check = std::get_if<package::Check>(&step)) {
      if (const auto* indices = std::get_if<package::IndexGuard>(&check->guard)) reads(indices->buffer);
    }
  }
  std::erase_if(unit.reads, [&](uint32_t buffer) {
    return std::find(unit.makes.begin(), unit.makes.end(), buffer) != unit.makes.end();
  });
  units_.blocks[block].units.push_back(std::move(unit));
}

namespace {

// Of a unit without a kernel: whether it is nothing but work on tensors, and what it copies in front of that.
void add_copies_of(const Unit& unit, KernelUse& use) {
  use.in_order = unit.blocks.empty();
  bool leading = true;
  for (package::Step step : unit.steps) {
    const auto* copy = std::get_if<package::Copy>(&step);
    leading = leading && copy != nullptr;
    if (leading) {
      use.copies.push_back(*copy);
      continue;
    }
    const bool on_tensors =
        copy != nullptr || std::holds_alternative<package::Reinterpret>(step) ||
        std::holds_alternative<package::IndexPut>(step) || std::holds_alternative<package::Scatter>(step) ||
        std::holds_alternative<package::CallExtern>(step) || std::holds_alternative<package::SelectOutput>(step) ||
        std::holds_alternative<package::Free>(step) || std::holds_alternative<package::Check>(step) ||
        std::holds_alternative<package::DefineSymbol>(step);
    use.in_order = use.in_order && on_tensors;
    each_buffer(step, [&](uint32_t& buffer) { add_once(use.behind_copies, buffer); });
  }
}

}  // namespace

// Kernels of branches and loops, functions and kernels of the user's never update what the caller gives in place of an
// output; those of the program's own block may write an output where an input lies that others have read before.
void ProgramPlanner::add_all_guards() {
  std::vector<std::vector<uint32_t>> touched;
  std::vector<KernelUse> uses;
  std::deque<std::vector<uint32_t>> arguments;  // by launch
  for (const UnitBlock& block : units_.blocks) {
    for (const Unit& unit : block.units)
      touched.emplace_back(unit.reads).insert(touched.back().end(), unit.makes.begin(), unit.makes.end());
  }
  size_t next = 0;
  for (const UnitBlock& block : units_.blocks) {
    for (const Unit& unit : block.units) {
      const std::vector<uint32_t>& all = touched[next++];
      const auto* launch = std::get_if<package::LaunchKernel>(&unit.steps.back());
      if (launch == nullptr) {
        uses.push_back({std::nullopt, false, nullptr, &all, true});
        add_copies_of(unit, uses.back());
      } else {
        std::optional<package::Product> product = launch->product;
        const auto whole = [&](uint32_t& buffer) {
          if (const auto slice = slices_.find(buffer); slice != slices_.end()) buffer = slice->second;
        };
        if (product) {
          whole(product->a), whole(product->b);
          for (uint32_t& b : product->more_b) whole(b);
        }
        for (uint32_t& argument : arguments.emplace_back(launch->arguments)) whole(argument);
        uses.push_back({std::move(product), !(launch->batch == Dim::constant(1)),
                        &plan_.kernels[launch->kernel].lowered.program, &arguments.back(),
                        &block != units_.blocks.data() || plan_.kernels[launch->kernel].user.has_value()});
        uses.back().in_order = true;
        if (launch->product) {
          for (const package::Prologue& made : launch->product->b_made)
            uses.back().makers.push_back(&plan_.kernels[made.kernel].lowered.program);
        }
      }
      uses.back().touched = all;
      uses.back().in_order = uses.back().in_order && &block == units_.blocks.data();
    }
  }
  add_guards(plan_.buffers, uses, plan_.steps);
}

Result<Plan> plan_program(const ir::Graph& graph, const Target& target, const MachineFacts& machine,
                          const std::vector<std::pair<std::string, int64_t>>& size_hints,
                          const std::vector<UserSource>& user_sources, Alignment alignment, const Numerics& numerics,
                          const Choices& choices) {
  return ProgramPlanner(graph, target, machine, size_hints, user_sources, alignment, numerics, choices).run();
}

}  // namespace codetta::plan

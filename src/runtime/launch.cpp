// SPDX-License-Identifier: Apache-2.0
// Resolving a LaunchKernel step: strides, addresses, phases and reductions as the engine takes them.
#include "runtime/launch.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "package/cpu_call.hpp"
#include "runtime/cpu/layout.hpp"
#include "runtime/cpu/workspace.hpp"
#include "runtime/empty.hpp"

namespace codetta::runtime {

using package::Access;
using package::Axis;

namespace {

cpu::Scope scope_of(package::Scope scope) {
  switch (scope) {
    case package::Scope::Tile:
      return cpu::Scope::Tile;
    case package::Scope::RowPanel:
      return cpu::Scope::RowPanel;
    case package::Scope::Whole:
      break;
  }
  return cpu::Scope::Whole;
}

cpu::Reduction reduction_of(const package::Reduction& reduction) {
  cpu::Reduction result;
  result.kind = static_cast<cpu::ReductionKind>(reduction.kind);
  result.axis = static_cast<cpu::ReductionAxis>(reduction.axis);
  result.dtype = reduction.type;
  result.mean = reduction.mean;
  result.parts = reduction.parts;
  result.phase = static_cast<int32_t>(reduction.phase);
  return result;
}
static_assert(static_cast<int>(cpu::Space::Once) == static_cast<int>(package::CpuSpace::Once));
static_assert(static_cast<int>(cpu::ReductionKind::LogSumExp) == static_cast<int>(package::ReduceKind::LogSumExp));
static_assert(static_cast<int>(cpu::ReductionKind::SumExp) == static_cast<int>(package::ReduceKind::SumExp));
static_assert(static_cast<int>(cpu::ReductionAxis::Item) == static_cast<int>(package::ReduceAxis::Item));

void add_phases(const package::EpilogueProgram& program, std::vector<cpu::Phase>& phases) {
  phases.clear();
  for (size_t i = 0; i < program.phases.size(); ++i)
    phases.push_back({scope_of(program.phases[i].scope), static_cast<cpu::Space>(package::space_of(program, i)),
                      program.phases[i].reads_accumulator});
}

void add_reductions(const package::EpilogueProgram& program, const cpu::GemmProblem& problem,
                    std::vector<cpu::Reduction>& reductions) {
  reductions.clear();
  for (const package::Reduction& reduction : program.reductions) {
    reductions.push_back(reduction_of(reduction));
    reductions.back().of_nothing = reduces_nothing(reduction.axis, problem);
  }
}

bool is_empty(const cpu::GemmProblem& problem) { return problem.batch == 0 || problem.m == 0 || problem.n == 0; }

// What may be written of one row or one column of a root space with stand-ins, vectors past the end included. It lies
// behind the engine's own scratch.
size_t sink_bytes(const cpu::GemmProblem& problem) {
  const int64_t reach = std::max({problem.m, problem.n, int64_t{problem.split.ways}, int64_t{1}});
  return static_cast<size_t>(cpu::times(reach, 16) + 512);
}
size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

bool owes_stores(const package::EpilogueProgram& program) {
  return std::any_of(program.phases.begin(), program.phases.end(),
                     [](const package::Phase& phase) { return !phase.stores.empty(); });
}

}  // namespace

size_t scratch_bytes(const package::CpuGemmConfig& config, const package::EpilogueProgram& program,
                     const cpu::GemmProblem& problem, const std::vector<bool>& argument_empty, int threads,
                     bool compiled) {
  if (is_empty(problem)) {
    const package::EpilogueProgram owed = owed_stores(program, argument_empty, problem);
    cpu::GemmProblem small = problem;
    cpu::EpilogueCall call;
    std::vector<cpu::Phase> phases;
    std::vector<cpu::Reduction> reductions;
    add_phases(owed, phases);
    add_reductions(owed, problem, reductions);
    call.phases = phases;
    call.reductions = reductions;
    small.packed_b = nullptr;
    if (owes_stores(owed)) stand_in(small);
    const bool by_code = compiled && config.family != package::CpuFamily::Fused;
    const bool plain = !by_code && package::only_stores(owed);
    const package::CpuGemmConfig unfused = cpu::packing_of(config);
    if (plain) return cpu::workspace_size(unfused, small, threads);
    const size_t scratch = cpu::workspace_size(unfused, small, call, threads);
    return by_code && owes_stores(owed) ? aligned(scratch) + sink_bytes(small) : scratch;
  }
  if (config.family == package::CpuFamily::Fused) {
    if (compiled) return cpu::fused_workspace_size(config, problem);
    return scratch_bytes(cpu::packing_of(config), program, problem, argument_empty, threads, false);
  }
  if (!compiled && package::only_stores(program)) return cpu::workspace_size(config, problem, threads);
  cpu::EpilogueCall call;
  std::vector<cpu::Phase> phases;
  std::vector<cpu::Reduction> reductions;
  add_phases(program, phases);
  add_reductions(program, problem, reductions);
  call.phases = phases;
  call.reductions = reductions;
  return cpu::workspace_size(config, problem, call, threads);
}

Result<void> Launch::plan_operands(const Symbols& symbols) {
  plans_.resize(program_->operands.size());
  for (size_t i = 0; i < plans_.size(); ++i) CODETTA_CHECK_OK(plan_operand(program_->operands[i], symbols, plans_[i]));
  return plan_sizes(*program_, symbols, sizes_);
}

void Launch::set_phases(const package::EpilogueProgram& program, const cpu::GemmProblem& problem) {
  add_phases(program, phases_);
  add_reductions(program, problem, reductions_);
}

// Compiled, or by the tape.
void Launch::interpret(const KernelEntry& entry) {
  call_.function = entry.function;
  if (entry.function != nullptr) return;
  if (taped_ != program_) tape_ = std::make_unique<cpu::Tape>(*program_);
  taped_ = program_;
  call_.interpret = &cpu::Tape::run_tile;
  call_.context = tape_.get();
}

// For a root space without elements: whether results are owed. Compiled code runs where there is any, so that its bits
// are those of the same code in a library; a tape runs without the stores to what has no element.
bool Launch::set_empty(const package::Package& package, const Bindings& bindings, const KernelEntry& compiled,
                       const cpu::GemmProblem& problem) {
  const package::EpilogueProgram& program = package.kernels[step_->kernel].epilogue;
  std::vector<bool> argument_empty;
  for (const uint32_t argument : step_->arguments)
    argument_empty.push_back(!package.buffers[argument].is_scalar && bindings.tensors[argument].empty());
  auto owed = std::make_unique<const package::EpilogueProgram>(owed_stores(program, argument_empty, problem));
  sinks_.clear();
  for (const package::Operand& operand : program.operands)
    sinks_.push_back(operand.is_store && writes_nothing(operand, problem));
  const bool owes = owes_stores(*owed);
  if (!owes || compiled.function == nullptr) empty_program_ = std::move(owed);
  return owes;
}

Result<void> Launch::make_map(const package::Package& package, const Bindings& bindings, const KernelEntry& compiled,
                              const Symbols& symbols) {
  const package::Kernel& kernel = package.kernels[step_->kernel];
  is_map_ = true;
  map_config_ = package::cpu_map(kernel.config);
  cpu::GemmProblem space;  // what of the root space is empty, as products ask it
  CODETTA_TRY(space.batch, value_of(step_->batch, symbols, "the batch"));
  CODETTA_TRY(space.m, value_of(step_->m, symbols, "the number of rows"));
  CODETTA_TRY(space.n, value_of(step_->n, symbols, "the number of columns"));
  const bool owes = is_empty(space) && set_empty(package, bindings, compiled, space);
  program_ = empty_program_ != nullptr ? empty_program_.get() : &kernel.epilogue;
  for (const uint32_t argument : step_->arguments) {
    const package::Buffer& buffer = package.buffers[argument];
    if (!buffer.is_scalar) CODETTA_CHECK_OK(check_view(buffer, bindings.tensors[argument], symbols));
  }
  set_phases(*program_, space);
  CODETTA_CHECK_OK(plan_operands(symbols));
  const KernelEntry entry = empty_program_ != nullptr ? KernelEntry{} : compiled;
  module_ = entry.module;
  interpret(entry);
  if (owes) stand_in(space);
  if (owes && entry.function != nullptr) sink_bytes_ = sink_bytes(space);
  map_ = {space.batch, space.m, space.n};
  resolve(bindings);
  workspace_bytes = cpu::map_workspace_size(map_config_, map_, call_);
  add_sink();
  return {};
}

// The B of every product: where it lies, or what makes it.
Result<void> Launch::plan_factors(const package::Package& package, const Bindings& bindings,
                                  const std::vector<KernelEntry>& compiled, const Symbols& symbols) {
  const package::Product& product = *step_->product;
  problem_.products = static_cast<int32_t>(product.products());
  const int64_t columns = problem_.n / problem_.products;
  for (size_t i = 0; i < product.products() && product.b_made.empty(); ++i) {
    const uint32_t b = product.factor_b(i);
    CODETTA_CHECK_OK(check_view(package.buffers[b], bindings.tensors[b], symbols));
    CODETTA_CHECK_OK(plan_factor(package.buffers[b], product.b_view, bindings.tensors[b], symbols, b_plan_));
    const TensorView view = factor_of(bindings.tensors[b], b_plan_);
    CODETTA_CHECK_OK(check_factor(package.buffers[b], view, product.b_transposed, problem_.batch, problem_.k, columns));
    if (!view.empty()) CODETTA_CHECK_OK(check_agree(problem_.inner, *items_of(view), package.buffers[b]));
  }
  for (const package::Prologue& made : product.b_made) {
    Maker& maker = makers_.emplace_back();
    const KernelEntry& entry = compiled[made.kernel];
    maker.program = &package.kernels[made.kernel].epilogue;
    maker.step = &made;
    for (size_t i = 0; i < made.arguments.size(); ++i) {
      const package::Buffer& buffer = package.buffers[made.arguments[i]];
      if (!buffer.is_scalar) CODETTA_CHECK_OK(check_view(buffer, bindings.tensors[made.arguments[i]], symbols));
    }
    for (const package::Operand& operand : maker.program->operands) {
      CODETTA_CHECK_OK(plan_operand(operand, symbols, maker.plans.emplace_back()));
    }
    CODETTA_CHECK_OK(plan_sizes(*maker.program, symbols, maker.sizes));
    maker.module = entry.module;
    maker.call.function = entry.function;
    maker.call.transposed = product.b_transposed;
    if (entry.function == nullptr) {
      maker.tape = std::make_unique<cpu::Tape>(*maker.program);
      maker.call.interpret = &cpu::Tape::run_tile;
      maker.call.context = maker.tape.get();
    }
  }
  return {};
}

Result<Launch> Launch::make(const package::Package& package, const package::LaunchKernel& step,
                            const Bindings& bindings, const std::vector<KernelEntry>& compiled, const Symbols& symbols,
                            int threads) {
  Launch launch;
  CODETTA_CHECK_OK(launch.set(package, step, bindings, compiled, symbols, threads));
  return launch;
}

Result<void> check_rows(const std::string& a, int64_t k, int64_t stride) {
  if (k <= 1 || stride == 1) return {};
  return diag::error(diag::Code::guard_failed, fmt::format("{} does not fit the kernel", a))
      .reason(fmt::format("consecutive k are {} elements apart, and the kernel reads them side by side", stride))
      .help("find a kernel with this view, or pass rows whose elements lie side by side");
}

Result<void> Launch::set(const package::Package& package, const package::LaunchKernel& step, const Bindings& bindings,
                         const std::vector<KernelEntry>& compiled_kernels, const Symbols& symbols, int threads) {
  const package::Kernel& kernel = package.kernels[step.kernel];
  const KernelEntry& compiled = compiled_kernels[step.kernel];
  if (empty_program_ != nullptr) taped_ = nullptr;  // a program that goes, and another may have its address
  empty_program_.reset();
  sink_bytes_ = 0;
  step_ = &step;
  fused_ = nullptr;
  problem_ = {};
  call_ = {};
  packed_ = nullptr;
  makers_.clear();
  if (kernel.epilogue.phases.size() > cpu::max_phases || kernel.epilogue.reductions.size() > cpu::max_reductions) {
    return diag::error(diag::Code::guard_failed, fmt::format("the epilogue of {} is too large", kernel.name))
        .reason(fmt::format("it has {} phases and {} reductions; {} and {} can run", kernel.epilogue.phases.size(),
                            kernel.epilogue.reductions.size(), cpu::max_phases, cpu::max_reductions))
        .help("split the epilogue in several kernels");
  }
  if (!step.product) {
    return make_map(package, bindings, compiled, symbols);
  }
  const package::Product& product = *step.product;
  config_ = package::cpu(kernel.config);
  cpu::GemmProblem& problem = problem_;
  CODETTA_TRY(problem.batch, value_of(step.batch, symbols, "the batch"));
  CODETTA_TRY(problem.m, value_of(step.m, symbols, "M"));
  CODETTA_TRY(problem.n, value_of(step.n, symbols, "N"));
  CODETTA_TRY(problem.k, value_of(product.k, symbols, "K"));
  const bool empty = is_empty(problem);
  const bool owes = empty && set_empty(package, bindings, compiled, problem);
  const package::EpilogueProgram& program = empty_program_ != nullptr ? *empty_program_ : kernel.epilogue;
  const KernelEntry entry = empty_program_ != nullptr ? KernelEntry{} : compiled;
  program_ = &program;
  problem.split.ways = program.split.ways;
  CODETTA_TRY(problem.split.chunk, value_of(program.split.chunk, symbols, "the chunk of a split"));
  const int64_t root_cols = problem.n / problem.split.ways;
  problem_.products = program.split.products;
  if (problem.split.ways > 1 && problem.n > 0 &&
      (problem.n % problem.split.ways != 0 || problem.split.chunk < 1 || root_cols % problem.split.chunk != 0)) {
    return diag::error(diag::Code::guard_failed, fmt::format("{} columns cannot be split", problem.n))
        .reason(fmt::format("the kernel takes {} parts in chunks of {}", problem.split.ways, problem.split.chunk))
        .help("use a number of columns that is a multiple of both");
  }
  const std::shared_ptr<const cpu::PackedB> packed =
      step.kernel < bindings.packed_b.size() ? bindings.packed_b[step.kernel] : nullptr;
  CODETTA_CHECK_OK(check_view(package.buffers[product.a], bindings.tensors[product.a], symbols));
  CODETTA_CHECK_OK(
      plan_factor(package.buffers[product.a], product.a_view, bindings.tensors[product.a], symbols, a_plan_));
  const TensorView a = factor_of(bindings.tensors[product.a], a_plan_);
  CODETTA_CHECK_OK(
      check_factor(package.buffers[product.a], a, product.a_transposed, problem.batch, problem.m, problem.k));
  if (!a.empty()) CODETTA_CHECK_OK(check_agree(problem.inner, *items_of(a), package.buffers[product.a]));
  reads_b_ = packed == nullptr || bindings.tensors[product.b].data() != nullptr;
  if (reads_b_) CODETTA_CHECK_OK(plan_factors(package, bindings, compiled_kernels, symbols));
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    const package::Buffer& buffer = package.buffers[step.arguments[i]];
    if (!buffer.is_scalar) CODETTA_CHECK_OK(check_view(buffer, bindings.tensors[step.arguments[i]], symbols));
  }

  set_phases(program, problem);
  CODETTA_CHECK_OK(plan_operands(symbols));

  module_ = entry.module;
  if (config_.family == package::CpuFamily::Fused) {
    fused_ = entry.fused;
    if (fused_ == nullptr) {
      config_ = cpu::packing_of(config_);  // no compiler: the same panels with an interpreted epilogue
    }
  }
  if (problem.batch > 1 && package::rows_fold(program))
    call_.folding_operands = static_cast<int32_t>(program.operands.size());
  plain_ = entry.function == nullptr && fused_ == nullptr && package::only_stores(program);
  if (!plain_ && fused_ == nullptr) interpret(entry);
  if (owes && entry.function != nullptr) sink_bytes_ = sink_bytes(problem);
  resolve(bindings);
  if (fused_ != nullptr) CODETTA_CHECK_OK(check_rows(package.buffers[product.a].name, problem.k, problem.a_k));
  if (packed != nullptr) {
    const package::CpuGemmConfig reads = cpu::packing_of(config_);
    if (!cpu::packed_matches(packed->bytes.data(), packed->bytes.byte_size(), reads, problem)) {
      cpu::PackedHeader have;
      std::memcpy(&have, packed->bytes.data(), std::min(sizeof have, packed->bytes.byte_size()));
      const cpu::PackedHeader want = cpu::packed_wanted(reads, problem);
      return diag::error(diag::Code::guard_failed, "the packed weights do not fit this kernel and these sizes")
          .reason(fmt::format("they are {}; the kernel reads {}", packed_layout(have),
                              want.magic == 0 ? "B where it lies" : packed_layout(want)))
          .help("pack B with Kernel::pack of the same kernel, for the same K and N and as many matrices");
    }
    packed_ = packed;
    problem.packed_b = empty ? nullptr : packed->bytes.data();
  }
  if (owes) stand_in(problem);
  if (fused_ != nullptr) {
    workspace_bytes = cpu::fused_workspace_size(config_, problem);
    return {};
  }
  workspace_bytes =
      plain_ ? cpu::workspace_size(config_, problem, threads) : cpu::workspace_size(config_, problem, call_, threads);
  add_sink();
  return {};
}

void Launch::add_sink() {
  if (sink_bytes_ == 0) return;
  sink_at_ = aligned(workspace_bytes);
  workspace_bytes = sink_at_ + sink_bytes_;
}

// What is not there is read as zeros, indices among it.
void Launch::place_sink(void* workspace) {
  std::byte* sink = static_cast<std::byte*>(workspace) + sink_at_;
  std::memset(sink, 0, sink_bytes_);
  for (const size_t operand : sunk_) operands_[operand].data = sink;
}

std::string packed_layout(const cpu::PackedHeader& header) {
  std::string text = fmt::format("packed {} k={} n={} nr={} {}", dtype_name(static_cast<DType>(header.dtype)), header.k,
                                 header.n, header.nr, isa_name(static_cast<CpuIsa>(header.isa)));
  if (header.batches != 1) text += fmt::format(" batch={}", header.batches);
  if (header.ways != 1) text += fmt::format(" split={}", header.ways);
  return text;
}

void Launch::resolve(const Bindings& bindings) {
  if (step_->product) {
    const package::Product& product = *step_->product;
    const TensorView a = factor_of(bindings.tensors[product.a], a_plan_);
    const auto place = [&](const TensorView& view, int64_t& stride, int64_t& skip) {
      const items::Items items = items_of(view).value_or(items::Items());
      stride = items.stride;
      skip = items.skip;
      if (items.inner != 0) problem_.inner = items.inner;
    };
    problem_.inner = 0;
    problem_.a = a.data();
    place(a, problem_.a_batch, problem_.a_skip);
    problem_.a_row = a.stride(a.rank() - (product.a_transposed ? 1 : 2));
    problem_.a_k = a.stride(a.rank() - (product.a_transposed ? 2 : 1));
    for (size_t i = 1; i < product.products() && reads_b_ && product.b_made.empty(); ++i) {
      const TensorView further = factor_of(bindings.tensors[product.factor_b(i)], b_plan_);
      cpu::FactorB& one = problem_.more_b[i - 1];
      one.data = further.data();
      place(further, one.batch, one.skip);
      one.k = further.stride(further.rank() - (product.b_transposed ? 1 : 2));
      one.col = further.stride(further.rank() - (product.b_transposed ? 2 : 1));
    }
    maker_calls_.clear();
    for (Maker& maker : makers_) {
      maker.operands.clear();
      maker.scalars.clear();
      const auto& arguments = maker.program->arguments;
      for (size_t i = 0; i < maker.plans.size(); ++i) {
        const package::Operand& operand = maker.program->operands[i];
        if (operand.is_store) {
          maker.call.output = static_cast<int32_t>(i);
          maker.operands.emplace_back();
        } else {
          maker.operands.push_back(
              resolve_operand(operand, maker.plans[i], bindings.tensors[maker.step->arguments[operand.argument]]));
        }
      }
      for (size_t i = 0; i < arguments.size(); ++i) {
        maker.scalars.push_back(arguments[i].is_scalar ? bindings.scalars[maker.step->arguments[i]]
                                                       : codetta::cpu::ScalarValue{});
      }
      for (const int64_t size : maker.sizes) maker.scalars.push_back({.i = size});
      maker.call.operands = maker.operands.data();
      maker.call.scalars = maker.scalars.data();
      maker.call.operand_count = static_cast<int32_t>(maker.operands.size());
      maker_calls_.push_back(maker.call);
    }
    problem_.makers = maker_calls_.empty() ? nullptr : maker_calls_.data();
    if (reads_b_ && product.b_made.empty()) {
      const TensorView b = factor_of(bindings.tensors[product.b], b_plan_);
      problem_.b = b.data();
      place(b, problem_.b_batch, problem_.b_skip);
      problem_.b_k = b.stride(b.rank() - (product.b_transposed ? 1 : 2));
      problem_.b_col = b.stride(b.rank() - (product.b_transposed ? 2 : 1));
    }
  }

  const auto view_of = [&](uint32_t argument) -> const TensorView& {
    return bindings.tensors[step_->arguments[argument]];
  };
  if (plain_) {
    const TensorView& out = view_of(program_->operands[program_->phases[0].stores[0].operand].argument);
    store_ = {out.data(), stride_from_end(out, 2), stride_from_end(out, 1)};
    return;
  }
  operands_.clear();
  sunk_.clear();
  for (size_t i = 0; i < plans_.size(); ++i) {
    operands_.push_back(resolve_operand(program_->operands[i], plans_[i], view_of(program_->operands[i].argument)));
    if (sink_bytes_ == 0 || !(sinks_[i] || meets_nothing(plans_[i], view_of(program_->operands[i].argument)))) continue;
    operands_.back() = codetta::cpu::Operand{};
    sunk_.push_back(i);
  }
  scalars_.clear();
  for (size_t i = 0; i < program_->arguments.size(); ++i) {
    scalars_.push_back(program_->arguments[i].is_scalar ? bindings.scalars[step_->arguments[i]]
                                                        : codetta::cpu::ScalarValue{});
  }
  for (const int64_t size : sizes_) scalars_.push_back({.i = size});
  call_.operands = operands_.data();
  call_.scalars = scalars_.data();
  call_.phases = phases_;
  call_.reductions = reductions_;
}

}  // namespace codetta::runtime

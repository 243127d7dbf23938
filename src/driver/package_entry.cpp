// SPDX-License-Identifier: Apache-2.0
// Keys of package entries, and how entries are found and kept.
#include "driver/package_entry.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "driver/build_id.hpp"
#include "ir/graph.hpp"

namespace codetta::driver {
namespace {

void add_machine(toolchain::CacheKey& key, ContextState& context, const Target& target) {
  const plan::MachineFacts m = context.machine(target);
  if (target.backend == Backend::cuda) {
    const plan::GpuFacts& g = m.gpu;
    key.add("machine", fmt::format("{}, {} multiprocessors, {} GHz, shared {} {}, L2 {}, rates {} {}", g.arch, g.sms,
                                   g.ghz, g.shared_per_block, g.shared_per_sm, g.l2, g.l2_rate, g.memory_rate));
  } else {
    key.add("machine", fmt::format("{} cores, {} GHz, {} vectors, caches {} {} {}, rates {} {} {}", m.cores, m.ghz,
                                   m.fma_vectors_per_clock, m.l1, m.l2, m.l3, m.l2_rate, m.l3_rate, m.memory_rate));
  }
  key.add("build", build_id());
}

std::string kind_of(const Target& target, std::string_view what) {
  return fmt::format("{} {}",
                     target.backend == Backend::cuda  ? "cuda"
                     : target.backend == Backend::hip ? "hip"
                                                      : "cpu",
                     what);
}

toolchain::CacheKey package_key(const FoundState& found, std::optional<size_t> candidate) {
  toolchain::CacheKey key = problem_key(toolchain::EntryKind::Package, kind_of(found.target, "gemm"), found);
  add_machine(key, *found.context, found.target);
  key.add("tuning", found.tuning);
  if (found.target.backend == Backend::cuda) {
    key.add("vendor", found.context->cuda.vendor().identity(found.target));
    for (const std::string& scalar : found.problem.shape.nonzero_scalars) key.add("not 0", scalar);
  }
  if (found.breadth.all) key.add("candidates", "all");  // those that it names are in the tuning's digest
  key.add("candidate", candidate ? std::to_string(*candidate) : "first");
  if (found.context->options.no_compiler) key.add("compiler", "none");  // workspaces are those of the tape
  return key;
}

}  // namespace

toolchain::CacheKey problem_key(toolchain::EntryKind kind, std::string_view what, const FoundState& found) {
  const Problem& problem = found.problem;
  const plan::GemmShape& shape = problem.shape;
  toolchain::CacheKey key(kind, what);
  key.add("program", ir::print(problem.bound));
  key.add("sizes", fmt::format("{} {} {} {}", shape.batch, shape.m, shape.n, shape.k));
  key.add("strides", fmt::format("{} {} {} {} {} {}", shape.a_batch_stride, shape.a_row_stride, shape.a_k_stride,
                                 shape.b_batch_stride, shape.b_k_stride, shape.b_col_stride));
  if (found.target.backend != Backend::cpu)
    key.add("alignment", fmt::format("{} {} {}", shape.a_alignment, shape.b_alignment, shape.epilogue_alignment));
  key.add("types", fmt::format("{} {} {}", dtype_name(shape.a), dtype_name(shape.b), dtype_name(shape.accumulator)));
  std::string layouts;
  for (const plan::ArgumentLayout& layout : problem.layouts)
    layouts += layout.unit_stride ? '1' : layout.column_major ? 'c' : '0';
  key.add("unit strides", layouts);
  // What decides whether items of a batch are rows, and what a library is asked.
  const bool items = shape.batch > 1 && shape.b_batch_stride == 0;
  if (items || found.target.backend == Backend::cuda) {
    for (const plan::ArgumentLayout& layout : problem.layouts)
      key.add("lies", fmt::format("{}", fmt::join(layout.strides, " ")));
  }
  key.add("options", fmt::format("{}{}", problem.strict ? "strict " : "", shape.b_packed ? "packed" : ""));
  if (shape.math != MathMode::Strict) key.add("math", math_mode_name(shape.math));
  key.add("target", found.target.to_string());
  return key;
}

std::optional<KeptPackage> find_package(const FoundState& found, std::optional<size_t> candidate) {
  if (!found.context->cache->enabled() || found.context->debug.any()) return std::nullopt;
  const auto entry = found.context->cache->lookup(package_key(found, candidate));
  if (!entry) return std::nullopt;
  auto package = package::Package::decode(entry->payload);
  auto ranking = decode_ranking(entry->metadata, found.target);
  if (!package || !ranking || package->kernels.size() != 1) return std::nullopt;
  KeptPackage kept{*std::move(package), *std::move(ranking), candidate.value_or(0)};
  if (candidate) return kept;
  for (size_t i = 0; i < kept.ranking.kernels.size(); ++i) {
    if (kept.ranking.kernels[i].name != kept.package.name) continue;
    kept.candidate = i;
    return kept;
  }
  return std::nullopt;
}

void keep_package(const FoundState& found, std::optional<size_t> candidate, const KeptPackage& kept) {
  if (!found.context->cache->enabled() || found.context->debug.any()) return;
  found.context->cache->store(package_key(found, candidate), {encode_ranking(kept.ranking), kept.package.encode()});
}

toolchain::CacheKey program_key(const CompiledProgramState& state) {
  const ProgramState& program = *state.program;
  const Target& target = state.target;
  toolchain::CacheKey key(toolchain::EntryKind::Package, kind_of(target, "program"));
  key.add("program", ir::print(program.graph));
  for (const plan::UserSource& source : program.user_sources) {
    key.add("kernel", source.name);
    key.add("language", std::to_string(static_cast<int>(source.language)));
    key.add("file", source.file);
    key.add("source", source.source);
    if (source.keeps_hooked) key.add("hooked", "kept");
  }
  for (const auto& [symbol, value] : state.hints) key.add("hint", fmt::format("{} {}", symbol, value));
  if (state.alignment != plan::Alignment::Hinted)
    key.add("alignment", std::to_string(static_cast<int>(state.alignment)));
  if (program.numerics.strict) key.add("strict", "yes");
  if (program.numerics.math != MathMode::Strict) key.add("math", math_mode_name(program.numerics.math));
  key.add("target", target.to_string());
  add_machine(key, *state.context, target);
  if (!state.tuning.empty()) key.add("tuning", to_string(state.tuning));
  if (!state.times.medians.empty()) key.add("times", encode_tuning(state.times));
  return key;
}

}  // namespace codetta::driver

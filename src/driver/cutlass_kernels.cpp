// SPDX-License-Identifier: Apache-2.0
// CUTLASS as a family: the configurations of its collectives, each emitted to learn what refuses it, and ranked.
#include <algorithm>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "codetta/evt.hpp"
#include "driver/context.hpp"
#include "driver/evt.hpp"
#include "plan/cutlass.hpp"
#include "plan/plan.hpp"
#include "types/dtype.hpp"

namespace codetta {
namespace {

using emit::evt::Arch;
using Sizes3 = std::array<int, 3>;

constexpr size_t most_listed = 16;

struct Shown {
  EvtSchedule schedule;
  const char* name;
};
// In the order in which equal estimates are listed.
constexpr Shown schedules_sm80[] = {{EvtSchedule::Multistage, "multistage"}};
constexpr Shown schedules_sm90[] = {{EvtSchedule::TmaWarpSpecializedCooperative, "cooperative"},
                                    {EvtSchedule::TmaWarpSpecializedPingpong, "pingpong"},
                                    {EvtSchedule::TmaWarpSpecialized, "ws"}};
constexpr Shown schedules_sm100[] = {{EvtSchedule::TmaWarpSpecialized1Sm, "1sm"},
                                     {EvtSchedule::TmaWarpSpecialized2Sm, "2sm"}};

std::span<const Shown> schedules_of(Arch arch) {
  if (arch == Arch::Sm80) return schedules_sm80;
  if (arch == Arch::Sm90) return schedules_sm90;
  return schedules_sm100;
}

// Tiles that the schedule takes and whose accumulators fit the registers of its warps.
std::vector<Sizes3> tiles_of(EvtSchedule schedule, int depth) {
  switch (schedule) {
    case EvtSchedule::Multistage:
      depth = std::max(depth / 2, 16);  // f64: no less
      return {{128, 128, depth}, {128, 64, depth}, {64, 128, depth}, {64, 64, depth}};
    case EvtSchedule::TmaWarpSpecializedCooperative:
      return {{128, 128, depth}, {128, 256, depth}, {256, 128, depth}, {128, 64, depth}};
    case EvtSchedule::TmaWarpSpecializedPingpong:
      return {{64, 128, depth}, {64, 256, depth}, {64, 64, depth}, {128, 128, depth}};
    case EvtSchedule::TmaWarpSpecialized2Sm:
      return {{256, 128, depth}, {256, 256, depth}, {256, 64, depth}};
    default:
      return {{64, 64, depth}, {64, 128, depth}, {128, 64, depth}, {128, 128, depth}};
  }
}

std::vector<Sizes3> clusters_of(EvtSchedule schedule) {
  if (schedule == EvtSchedule::Multistage) return {{1, 1, 1}};
  if (schedule == EvtSchedule::TmaWarpSpecialized2Sm) return {{2, 1, 1}};
  if (schedule == EvtSchedule::TmaWarpSpecialized1Sm) return {{1, 1, 1}};
  return {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}};
}

// Whoever asks for sm_90 means the collectives, which need the architecture's own instructions.
std::string model_arch(Arch arch, const std::string& target) {
  return arch == Arch::Sm90 ? "sm_90a" : arch == Arch::Sm100 ? "sm_100a" : target;
}

std::string sentence(const Error& error) {
  const Diagnostic& first = error.diagnostics().front();
  std::string text;
  if (first.where.line != 0) text = fmt::format("{}:{}:{}: ", first.where.file, first.where.line, first.where.column);
  return text + diag::sentence(first) + "; " + first.help;
}

class Finder {
 public:
  Finder(driver::EvtProblem& problem, const EvtOptions& options, Arch arch)
      : problem_(problem), options_(options), arch_(arch) {}

  Result<CutlassKernels> run(Context& context) {
    const Target target{Backend::cuda, CpuIsa::generic, model_arch(arch_, options_.target.arch)};
    plan::MachineFacts machine = context.shared_state()->machine(target);
    if (machine.gpu.arch != target.arch) machine.gpu = plan::gpu_facts(target.arch);
    gpu_ = machine.gpu;
    const int depth = 128 / std::max(static_cast<int>(types::byte_size(problem_.gemm.shape.a)), 1);
    for (const auto& [schedule, name] : schedules_of(arch_)) {
      if (options_.schedule != EvtSchedule::Auto && options_.schedule != schedule) continue;
      const bool own = options_.tile[0] != 0;
      for (const Sizes3& tile : own ? std::vector<Sizes3>{options_.tile} : tiles_of(schedule, depth))
        try_tile(schedule, name, tile);
    }
    // A schedule of another architecture: the emitter says which there are.
    if (tried_.empty() && !first_) try_tile(options_.schedule, "", options_.tile);
    if (tried_.empty()) return *std::move(first_);
    CODETTA_TRY(const plan::Plan plan,
                plan::plan_gemm(problem_.graph, problem_.gemm.shape, problem_.gemm.layouts, target, machine));
    for (const Tried& tried : tried_) add(tried, plan.kernels[0].lowered.program);
    return finished();
  }

 private:
  struct Tried {
    EvtOptions options;
    std::string schedule;
    emit::evt::Tree tree;
    Sizes3 tile;
  };

  void try_tile(EvtSchedule schedule, const char* name, const Sizes3& tile) {
    EvtOptions options = options_;
    options.schedule = schedule;
    options.tile = tile;
    const std::string kernel = fmt::format("cutlass_{}x{}x{}_{}", tile[0], tile[1], tile[2], name);
    auto text = driver::emit_whole(problem_, options, "candidate");
    if (!text) {
      const Error& error = text.error();
      found_.rejections.push_back({error.code(), kernel, sentence(error)});
      if (!first_) first_ = error;
      return;
    }
    tried_.push_back({std::move(options), name, std::move(text->tree), tile});
  }

  void add(const Tried& tried, const package::EpilogueProgram& program) {
    const plan::GemmShape& shape = problem_.gemm.shape;
    const auto [m, n, k] = tried.tile;
    const bool pair = tried.options.schedule == EvtSchedule::TmaWarpSpecialized2Sm;
    plan::CutlassConfig config;
    config.kind = arch_ == Arch::Sm80   ? plan::CutlassKind::Sm80
                  : arch_ == Arch::Sm90 ? plan::CutlassKind::Sm90
                                        : plan::CutlassKind::Sm100;
    config.tile = tried.tile;
    config.persistent = tried.options.schedule != EvtSchedule::TmaWarpSpecialized && arch_ != Arch::Sm80;
    config.pingpong = tried.options.schedule == EvtSchedule::TmaWarpSpecializedPingpong;
    config.pair = pair;
    const auto [warp_m, warp_n] = emit::evt::warp_shape_sm80(tried.tile, problem_.evt.a);
    config.warps = std::max(m / warp_m * (n / warp_n), 1);
    const int parts = pair ? 2 : 1;
    const int64_t stage = int64_t{k} * (m / parts * types::byte_size(shape.a) + n / parts * types::byte_size(shape.b));
    const int64_t capacity = emit::evt::shared_capacity(options_.target.arch);
    config.stages = arch_ == Arch::Sm80 ? static_cast<int>(std::min<int64_t>(capacity / stage, 4))
                                        : static_cast<int>((capacity - tried.tree.shared_bytes - 1024) / stage);
    config.piece_rows = tried.tree.shape.tile_m;
    config.piece_cols = tried.tree.shape.tile_n;
    const bool given = options_.cluster[0] != 0;
    for (const Sizes3& cluster : given ? std::vector<Sizes3>{options_.cluster} : clusters_of(tried.options.schedule)) {
      // A cluster beyond the tiles that there are would be idle blocks.
      if (!given && cluster[0] * cluster[1] > 1 && !pair &&
          (shape.m <= int64_t{m} * (cluster[0] - 1) || shape.n <= int64_t{n} * (cluster[1] - 1)))
        continue;
      config.cluster = cluster;
      CutlassKernel kernel;
      kernel.options = tried.options;
      kernel.options.cluster = cluster;
      kernel.shared_bytes = tried.tree.shared_bytes;
      KernelMetadata& metadata = kernel.metadata;
      metadata.name = fmt::format("cutlass_{}_{}x{}x{}_{}_c{}x{}",
                                  arch_ == Arch::Sm80   ? "sm80"
                                  : arch_ == Arch::Sm90 ? "sm90"
                                                        : "sm100",
                                  m, n, k, tried.schedule, cluster[0], cluster[1]);
      metadata.family = "cutlass";
      metadata.target = options_.target;
      metadata.config = {{"tile_m", m},
                         {"tile_n", n},
                         {"tile_k", k},
                         {"cluster_m", cluster[0]},
                         {"cluster_n", cluster[1]},
                         {"stages", config.stages},
                         {"epilogue_tile_m", config.piece_rows},
                         {"epilogue_tile_n", config.piece_cols},
                         {"epilogue_shared_bytes", kernel.shared_bytes}};
      for (const plan::CostTerm& term : plan::cutlass_cost_terms(program, shape, gpu_, config)) {
        metadata.terms.push_back({term.name, term.microseconds, term.note});
        metadata.estimated_us += term.microseconds;
      }
      found_.kernels.push_back(std::move(kernel));
    }
  }

  CutlassKernels finished() {
    std::stable_sort(found_.kernels.begin(), found_.kernels.end(), [](const CutlassKernel& a, const CutlassKernel& b) {
      return a.metadata.estimated_us < b.metadata.estimated_us;
    });
    if (found_.kernels.size() > most_listed) {
      found_.rejections.push_back({static_cast<uint16_t>(diag::Code::ranked_out), "cutlass",
                                   fmt::format("{} of {} configurations are left out: they are expected to be slower",
                                               found_.kernels.size() - most_listed, found_.kernels.size())});
      found_.kernels.resize(most_listed);
    }
    return std::move(found_);
  }

  driver::EvtProblem& problem_;
  const EvtOptions& options_;
  Arch arch_;
  plan::GpuFacts gpu_;
  CutlassKernels found_;
  std::vector<Tried> tried_;
  std::optional<Error> first_;
};

}  // namespace

Result<CutlassKernels> find_cutlass_kernels(const GemmArguments& arguments, const EvtOptions& options,
                                            Context& context) {
  CODETTA_TRY(driver::EvtProblem problem, driver::make_evt_problem(arguments));
  emit::evt::Problem checked;
  EvtOptions names = options;  // what depends on neither tile nor schedule is refused once
  names.schedule = EvtSchedule::Auto;
  names.tile = names.cluster = {};
  CODETTA_CHECK_OK(driver::apply(names, checked));
  return Finder(problem, options, checked.arch).run(context);
}

}  // namespace codetta

// SPDX-License-Identifier: Apache-2.0
// Discovery: every family answers with candidates or a reason; ranking by the cost model.
#include "plan/candidates.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>
#include <tuple>

#include "base/checked.hpp"
#include "plan/copy_engine.hpp"
#include "plan/families.hpp"
#include "plan/families_cuda.hpp"
#include "plan/families_hip.hpp"
#include "plan/families_metal.hpp"
#include "plan/parameters.hpp"
#include "plan/vendor.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {
namespace {

size_t family_of(const package::KernelConfig& config) {
  if (package::is_vendor(config)) return static_cast<size_t>(package::GpuFamily::Vendor);
  const auto* cuda = std::get_if<package::GpuGemmConfig>(&config);
  if (cuda != nullptr) return static_cast<size_t>(cuda->family);
  const auto* cpu = std::get_if<package::CpuGemmConfig>(&config);
  return cpu != nullptr ? static_cast<size_t>(cpu->family) : 0;
}

void rank(std::vector<Candidate>& candidates) {
  for (Candidate& candidate : candidates) {
    candidate.microseconds = 0;
    for (const CostTerm& term : candidate.terms) candidate.microseconds += term.microseconds;
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    if (a.microseconds != b.microseconds) return a.microseconds < b.microseconds;
    if (family_of(a.config) != family_of(b.config)) return family_of(a.config) < family_of(b.config);
    return a.name < b.name;
  });
}

// Of each family what the cost model keeps: nothing that it puts far behind, and not more than one can look through.
constexpr std::ptrdiff_t kept_of_family = 16;
constexpr double kept_within = 3;

// How the families of one kind of GPU are listed, named and judged.
struct GpuKind {
  std::span<const GpuFamilyInfo> (*families)();
  std::string (*name)(const GpuGemmConfig&, std::string_view arch);
  std::vector<CostTerm> (*cost)(const GpuProblem&, const GpuFamilyInfo&, const GpuGemmConfig&);
  Rejection (*rejection)(GpuFamily, diag::Code, std::string);
};
constexpr GpuKind cuda_kind{cuda_families, cuda_kernel_name, cuda_cost_terms, cuda_rejection};
constexpr GpuKind metal_kind{metal_families, metal_kernel_name, metal_cost_terms, metal_rejection};
constexpr GpuKind hip_kind{hip_families, hip_kernel_name, cuda_cost_terms, hip_rejection};

// Why the family does not compute a factor where it reads it; empty if nobody asks, or it does.
std::string made_obstacle(const GpuProblem& problem, GpuFamily family) {
  const GemmShape& s = problem.shape;
  if (!s.a_made && !s.b_made) return {};
  const std::string which = s.a_made && s.b_made ? "A and B are" : s.a_made ? "A is" : "B is";
  if (s.b_made && !package::makes_factor(family, false))
    return fmt::format("{} computed where it is read, and the copy engine brings B from memory", which);
  if (feeds_on_copies(family)) {
    if (!brought_for_a(problem.epilogue))
      return "A is computed where it is read, and of other than one matrix of 16-bit elements, which the copy engine "
             "would bring";
    if (s.a_k_stride != 1) return "A is computed where it is read, and not along its rows";
    return {};
  }
  if (s.b_made && s.products > 1)
    return fmt::format("B is computed where it is read, and kernels of {} products read each B from memory",
                       s.products);
  // Their stages take what is made of a split's columns along K alone.
  const bool along_k = family == GpuFamily::Sm80 || family == GpuFamily::Stream;
  const bool columns = along_k && s.b_made && s.b_k_stride != 1 && problem.ways() > 1;
  if (columns) return fmt::format("B is computed along its rows, and columns are in {} parts", problem.ways());
  return {};
}

// Whether the planned sizes are whole tiles but for one of a hundred, and these whole pieces, which copies don't come
// in. Where rows of factors may begin anywhere, those of other matrices do, too, and no piece is of whole vectors.
bool is_even(const GpuProblem& p, const GpuGemmConfig& c) {
  const int64_t width = c.tile_n / p.ways(), rows = p.shape.m;
  const std::vector<int64_t> spaces = p.shape.widths.empty() ? std::vector<int64_t>{p.root_cols()} : p.shape.widths;
  bool aligned = c.family != package::GpuFamily::Sm80 || c.alignment >= 16;
  int64_t whole = 0;  // along the columns
  for (const int64_t cols : spaces) aligned = aligned && cols % 8 == 0, whole += cols / width;
  const int64_t tiles = base::ceil_div<int64_t>(rows, c.tile_m) * p.column_tiles(width);
  const int64_t complete = rows / c.tile_m * whole;
  return aligned && !c.copied && (tiles - complete) * 100 <= tiles && c.tile_m % c.piece_rows == 0 &&
         width % c.piece_cols == 0;
}

auto tile_of(const GpuGemmConfig& c) {
  return std::make_tuple(c.tile_m, c.tile_n, c.consumers, c.pingpong, c.k_split, c.spread_a);
}

// The same with groups of other heights, as far as that is another order of the tiles there are: which shares most of
// L2 depends on what else is in it.
void add_rasters(const GpuProblem& p, const GpuGemmConfig& config, std::vector<GpuGemmConfig>& result) {
  if (config.family != package::GpuFamily::Sm90) return;
  const int64_t rows = (p.shape.m + config.tile_m - 1) / config.tile_m;
  std::set<int64_t> heights{std::min<int64_t>(config.group, rows)};
  for (const int32_t group : {4, 8, 16, 32}) {
    if (group % config.cluster_m != 0 || !heights.insert(std::min<int64_t>(group, rows)).second) continue;
    result.push_back(config);
    result.back().group = group;
  }
}

Discovery discover_gpu(const GpuProblem& problem, const GpuKind& kind, const Breadth& breadth) {
  const auto named = [&](const Candidate& candidate) {
    return breadth.all || std::find(breadth.also.begin(), breadth.also.end(), candidate.name) != breadth.also.end();
  };
  const bool rasters =
      breadth.all || std::any_of(breadth.also.begin(), breadth.also.end(),
                                 [](const std::string& name) { return name.find("_g") != std::string::npos; });
  Discovery discovery;
  for (const GpuFamilyInfo& family : kind.families()) {
    if (!family.concerns(problem)) continue;
    if (!problem.epilogue.spaces.empty() && !package::has_spaces(family.family)) {
      discovery.rejections.push_back(
          kind.rejection(family.family, diag::Code::family_split,
                         fmt::format("{} products have {} columns, and its tiles have parts of each product",
                                     problem.epilogue.spaces.size(), fmt::join(problem.shape.widths, ", "))));
      continue;
    }
    if (std::string made = made_obstacle(problem, family.family); !made.empty()) {
      discovery.rejections.push_back(kind.rejection(family.family, diag::Code::factor_made, std::move(made)));
      continue;
    }
    if (auto no = family.refuse(problem)) {
      discovery.rejections.push_back(*std::move(no));
      continue;
    }
    std::vector<Candidate> offered;
    const auto offer = [&](GpuGemmConfig config, std::vector<Candidate>& to) {
      config.even = is_even(problem, config);
      to.push_back({config, kind.name(config, problem.gpu.arch), kind.cost(problem, family, config), 0});
    };
    const std::vector<GpuGemmConfig> configurations = family.configurations(problem);
    for (const GpuGemmConfig& config : configurations) offer(config, offered);
    rank(offered);
    // One of each tile first, so that tuning a few compares what matters; then other clusters, warps and spans of K.
    const auto end = std::find_if(offered.begin(), offered.end(), [&](const Candidate& c) {
      return c.microseconds > kept_within * offered[0].microseconds;
    });
    std::set<decltype(tile_of(GpuGemmConfig{}))> tiles;
    std::stable_partition(offered.begin(), end, [&](const Candidate& candidate) {
      return tiles.insert(tile_of(package::gpu(candidate.config))).second;
    });
    const auto kept = offered.begin() + std::min(end - offered.begin(), kept_of_family);
    const auto listed = std::stable_partition(kept, offered.end(), named);
    if (listed != offered.end()) {
      discovery.rejections.push_back(
          kind.rejection(family.family, diag::Code::ranked_out,
                         fmt::format("{} of {} configurations are left out: variants of tiles that are listed, and "
                                     "tiles that are expected to be slower",
                                     offered.end() - listed, offered.size())));
    }
    discovery.candidates.insert(discovery.candidates.end(), std::make_move_iterator(offered.begin()),
                                std::make_move_iterator(listed));
    if (!rasters) continue;
    std::vector<GpuGemmConfig> others;
    for (const GpuGemmConfig& config : configurations) add_rasters(problem, config, others);
    std::vector<Candidate> variants;
    for (const GpuGemmConfig& config : others) offer(config, variants);
    std::copy_if(std::make_move_iterator(variants.begin()), std::make_move_iterator(variants.end()),
                 std::back_inserter(discovery.candidates), named);
  }
  const GemmShape& s = problem.shape;
  if (problem.gpu.vendor != nullptr && !s.a_made && !s.b_made && s.products == 1) discover_vendor(problem, discovery);
  rank(discovery.candidates);
  return discovery;
}

}  // namespace

double factor_rounding(MathMode math, DType factors) {
  if (factors != DType::f32) return 0;
  return math == MathMode::Tf32 ? 0x1p-10 : math == MathMode::Tf32x3 ? 0x1p-21 : 0;
}

bool same_tile(const package::KernelConfig& a, const package::KernelConfig& b) {
  const auto *x = std::get_if<GpuGemmConfig>(&a), *y = std::get_if<GpuGemmConfig>(&b);
  return x != nullptr && y != nullptr && x->family == y->family && tile_of(*x) == tile_of(*y);
}

namespace {

// How far two configurations of a family are apart in each respect.
using Distances = std::array<int, 10>;

std::optional<Distances> distances(const package::KernelConfig& a, const package::KernelConfig& b) {
  const auto *x = std::get_if<GpuGemmConfig>(&a), *y = std::get_if<GpuGemmConfig>(&b);
  if (x == nullptr || y == nullptr || x->family != y->family) return std::nullopt;
  const auto octaves = [](int32_t p, int32_t q) {
    return static_cast<int>(std::ceil(4 * std::abs(std::log2(static_cast<double>(p) / q)) - 1e-9));
  };
  const auto read = [](const GpuGemmConfig& c) {
    return std::tuple(c.spread_a, c.pack_a, c.pack_b, c.a_k_major, c.b_k_major, c.a_rows);
  };
  const auto way = [](const GpuGemmConfig& c) { return std::pair(c.copied, c.from_registers); };
  return Distances{
      x->cluster_m != y->cluster_m || x->cluster_n != y->cluster_n,
      way(*x) != way(*y),
      x->k_split != y->k_split || x->stream_k != y->stream_k,
      x->consumers != y->consumers || x->pingpong != y->pingpong || x->persistent != y->persistent,
      x->group != y->group,
      x->stages != y->stages && tile_of(*x) == tile_of(*y) && way(*x) == way(*y),
      read(*x) == read(*y) ? 0 : 2,
      octaves(x->tile_m, y->tile_m),
      octaves(x->tile_n, y->tile_n),
      octaves(x->tile_k, y->tile_k),
  };
}

}  // namespace

std::optional<int> steps_between(const package::KernelConfig& a, const package::KernelConfig& b) {
  const auto each = distances(a, b);
  return each ? std::optional(std::accumulate(each->begin(), each->end(), 0)) : std::nullopt;
}

uint32_t respects_between(const package::KernelConfig& a, const package::KernelConfig& b) {
  const auto each = distances(a, b);
  uint32_t respects = 0;
  for (size_t i = 0; each && i < each->size(); ++i) respects |= ((*each)[i] != 0 ? 1U : 0U) << i;
  return respects;
}

bool same_schedule(const package::KernelConfig& a, const package::KernelConfig& b) {
  const auto *x = std::get_if<GpuGemmConfig>(&a), *y = std::get_if<GpuGemmConfig>(&b);
  return x != nullptr && y != nullptr && x->family == y->family && x->pingpong == y->pingpong;
}

ProductRounding product_rounding(MathMode math, DType a, DType b) {
  if (!types::is_fp8(a) || !types::is_fp8(b)) return {};
  if (math == MathMode::Fp8TwoLevelAccumulation) return {0x1p-13, 128};
  return math == MathMode::Fp8FastAccumulation ? ProductRounding{0x1p-13, 0} : ProductRounding{};
}

MathMode math_of(MathMode math, DType a, DType b) {
  const bool says =
      std::max(factor_rounding(math, a), factor_rounding(math, b)) > 0 || product_rounding(math, a, b).each > 0;
  return says ? math : MathMode::Strict;
}

Discovery discover(const package::EpilogueProgram& epilogue, const GemmShape& shape, const Target& target,
                   const MachineFacts& machine, const Breadth& breadth) {
  Discovery discovery;
  const auto refuse_all = [&](diag::Code code, std::string text) {
    discovery.rejections.push_back({static_cast<uint16_t>(code), {}, std::move(text), {}});
    return std::move(discovery);
  };
  if (target.backend == Backend::cutlass) {
    return refuse_all(
        diag::Code::target_without_families,
        fmt::format("{} has no kernel families in this version; cpu, cuda, hip and metal have", target.to_string()));
  }
  constexpr int64_t free = free_parameter_bytes(2);
  if (target.backend != Backend::cpu && parameter_bytes(epilogue) > free)
    return refuse_all(diag::Code::epilogue_large, too_many_parameters(epilogue, free));
  if (target.backend == Backend::cuda) {
    if (arch_number(target.arch) == 0) {
      return refuse_all(diag::Code::target_without_families,
                        "the target names no architecture, and there is no device to take it from");
    }
    if (shape.b_packed) {
      return refuse_all(diag::Code::packed_unused, "a packed B is given, and CUDA kernels read B where it lies");
    }
    const GpuFacts gpu = machine.gpu.arch == target.arch ? machine.gpu : gpu_facts(target.arch);
    return discover_gpu({epilogue, shape, gpu}, cuda_kind, breadth);
  }
  if (target.backend == Backend::metal) {
    if (shape.accumulator == DType::f64)
      return refuse_all(diag::Code::accumulator_unsupported,
                        "the product accumulates in f64, which Metal does not have");
    if (shape.b_packed)
      return refuse_all(diag::Code::packed_unused, "a packed B is given, and Metal kernels read B where it lies");
    const GpuFacts gpu = metal_facts(target.arch);
    return discover_gpu({epilogue, shape, gpu}, metal_kind, breadth);
  }
  if (target.backend == Backend::hip) {
    const HipArchitecture* const arch = find_hip(target.arch);
    if (arch == nullptr) {
      return refuse_all(diag::Code::target_without_families,
                        fmt::format("kernels are made for {}, not for {}", hip_names(), target.arch));
    }
    if (shape.b_packed)
      return refuse_all(diag::Code::packed_unused, "a packed B is given, and HIP kernels read B where it lies");
    return discover_gpu({epilogue, shape, arch->facts}, hip_kind, breadth);
  }
  MachineFacts facts = machine;
  facts.isa = target.isa;
  const codetta::cpu::MicroTable* table = codetta::cpu::micro_table(target.isa);
  if (table == nullptr)
    table = codetta::cpu::micro_table(
        CpuIsa::generic);  // another architecture: its blocks are those of the generic kernels
  for (const CpuFamilyInfo& family : cpu_families()) {
    FamilyProblem problem{epilogue, shape, facts, family, table};
    if (auto no = refuse(problem)) {
      discovery.rejections.push_back(*std::move(no));
      continue;
    }
    for (const CpuGemmConfig& config : configurations(problem)) {
      discovery.candidates.push_back({config, kernel_name(problem, config), cost_terms(problem, config), 0});
    }
  }
  rank(discovery.candidates);
  return discovery;
}

}  // namespace codetta::plan

// SPDX-License-Identifier: Apache-2.0
// What CUTLASS's collective builders decide for an epilogue: steps, buffers, shared memory. Read in the builders of
// CUTLASS 4.2 (epilogue/collective/builders/sm90_builder.inl, sm100_builder.inl) and held against them by tests/evt.
#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "emit/evt/evt.hpp"
#include "emit/host/text.hpp"
#include "ir/analyses.hpp"
#include "types/dtype.hpp"

namespace codetta::emit::evt {
namespace {

struct Known {
  EvtSchedule schedule;
  std::string_view name;
  bool on[3];  // Sm80, Sm90, Sm100
};
constexpr Known schedules[] = {
    {EvtSchedule::Multistage, "multistage", {true, false, false}},
    {EvtSchedule::TmaWarpSpecialized, "tma_warp_specialized", {false, true, false}},
    {EvtSchedule::TmaWarpSpecializedPingpong, "tma_warp_specialized_pingpong", {false, true, false}},
    {EvtSchedule::TmaWarpSpecializedCooperative, "tma_warp_specialized_cooperative", {false, true, false}},
    {EvtSchedule::TmaWarpSpecialized1Sm, "tma_warp_specialized_1sm", {false, false, true}},
    {EvtSchedule::TmaWarpSpecialized2Sm, "tma_warp_specialized_2sm", {false, false, true}},
};
const Known& known(EvtSchedule schedule) {
  return *std::find_if(std::begin(schedules), std::end(schedules),
                       [&](const Known& k) { return k.schedule == schedule; });
}

}  // namespace

std::string_view name_of(Arch arch) { return arch == Arch::Sm80 ? "Sm80" : arch == Arch::Sm90 ? "Sm90" : "Sm100"; }

Error wrong_tile(const Problem& problem, const std::string& why, const std::string& help) {
  return diag::error(diag::Code::family_size,
                     fmt::format("CUTLASS has no {} epilogue for tile {}x{}x{} with schedule {}", name_of(problem.arch),
                                 problem.tile[0], problem.tile[1], problem.tile[2], known(problem.schedule).name))
      .reason(why)
      .help(help);
}

Result<Arch> arch_of(const Target& target) {
  const int number = target.arch.size() > 3 ? std::atoi(target.arch.c_str() + 3) : 0;
  if (number >= 80 && number < 90) return Arch::Sm80;
  if (number == 90) return Arch::Sm90;
  if (number == 100 || number == 103) return Arch::Sm100;
  return diag::error(diag::Code::target_without_families,
                     number < 80 ? "Only SM80+ is supported for EVT"
                                 : fmt::format("there are no EVT visitors for {}", target.arch))
      .reason("CUTLASS has visitor trees for Sm80 (2.x kernels), Sm90 and Sm100 (3.x collectives); " + target.arch +
              " takes none of these")
      .help(number < 80 ? "use cutlass:sm_80, or Codetta's own kernels: cuda:" + target.arch
                        : "use Codetta's own kernels: cuda:" + target.arch);
}

int64_t shared_capacity(std::string_view arch) {
  const int number = std::atoi(std::string(arch.substr(std::min(arch.find('_') + 1, arch.size()))).c_str());
  const int kib = number == 86 || number == 89 ? 99 : number < 90 ? 163 : 227;
  return int64_t{kib} * 1024;
}

int64_t stage_bytes_sm80(const Problem& problem) {
  const auto [m, n, k] = problem.tile;
  const int64_t bytes = problem.a ? types::byte_size(*problem.a) : 2;  // without factors as 16-bit ones
  return int64_t{k} * (m + n) * bytes;
}
int stages_sm80(const Problem& problem) {
  return static_cast<int>(std::min<int64_t>(problem.shared_capacity / stage_bytes_sm80(problem), 4));
}
// Accumulators of f64 take two registers each: a warp has half as many.
std::array<int, 2> warp_shape_sm80(const std::array<int, 3>& tile, std::optional<DType> a) {
  return {tile[0] >= 128 && a != DType::f64 ? 64 : 32, tile[1] >= 128 ? 64 : std::min(tile[1], 32)};
}

namespace {
// As CUTLASS deals a tile of `extent` rows (columns of B) and `depth` steps of K out to warps: PitchLinearWarpRaked-
// ThreadMap, and of f64 that does not lie along K PitchLinearWarpStripedThreadMap. Their own static assertions let pass
// what leaves a rest of the tile out.
bool copies_all(int bits, bool k_major, int extent, int depth, int warps) {
  const bool doubles = bits == 64;
  const int access = doubles ? 1 : 128 / bits;
  const int along = (k_major ? depth : extent) / access, across = k_major ? extent : depth;
  const int lanes = doubles ? 16 : k_major ? along : std::min(along, 8);
  if (lanes == 0 || 32 % lanes != 0 || along % lanes != 0 || across % (32 / lanes) != 0) return false;
  const int pieces_along = along / lanes, pieces_across = across / (32 / lanes);
  int warps_across = std::min(pieces_across, warps), warps_along = warps / warps_across;
  if (doubles && !k_major && warps > pieces_across) {
    warps_across = warps / pieces_across;
    warps_along = pieces_along / warps_across;
  }
  return warps_along > 0 && warps_across * warps_along == warps && pieces_across % warps_across == 0 &&
         pieces_along % warps_along == 0;
}
bool copies_all(const Problem& problem, const std::array<int, 3>& tile, bool a_k_major, bool b_k_major, bool& of_a) {
  const auto [warp_m, warp_n] = warp_shape_sm80(tile, problem.a);
  const int warps = tile[0] / warp_m * (tile[1] / warp_n), bits = types::bits(*problem.a);
  of_a = !copies_all(bits, a_k_major, tile[0], tile[2], warps);
  return !of_a && copies_all(bits, b_k_major, tile[1], tile[2], warps);
}
}  // namespace

int store_access_sm80(const Problem& problem, int bits, int most) {
  const int columns = problem.tile[1];
  const int rows_of_warp = 8 / (columns / warp_shape_sm80(problem.tile, problem.a)[1]);
  for (int access = most; access > 1; access /= 2) {
    const int width = columns / access, preferred = 256 * 8 / (access * bits);  // lanes side by side
    const bool tall = 32 / preferred > rows_of_warp;
    const int lanes = tall ? 32 / rows_of_warp : std::min({width, preferred, 32});
    if (lanes == 0 || width % lanes != 0) continue;
    const int rows = tall ? rows_of_warp : std::min(8, 32 / lanes);
    if (lanes * rows == 32 && rows_of_warp % rows == 0) return access;
  }
  return 1;
}

// DefaultIteratorsTensorOp of CUTLASS 4.2 (epilogue/threadblock/default_epilogue_tensor_op.h).
bool hands_over_sm80(DType accumulator, DType d, int access) {
  const bool vectors = access == 4 || access == 8 || access == 16;
  if (types::is_fp8(d) && accumulator == DType::f32) return vectors;
  if (accumulator != DType::i32 || d == DType::i32 || d == DType::f32) return true;
  if (d == DType::i8 || d == DType::u8) return vectors;
  return (d == DType::f16 || d == DType::bf16) && access == 8;
}

Result<void> check_copies_sm80(const Problem& problem, bool a_k_major, bool b_k_major) {
  bool of_a = false, other = false;
  if (problem.a == DType::f32 && !b_k_major && problem.tile[1] == 16)
    return wrong_tile(problem, "a warp reads at least 32 columns of a B of f32 that lies along N",
                      fmt::format("try {}x32x{}", problem.tile[0], problem.tile[2]));
  const auto [m, n, k] = problem.tile;
  if (copies_all(problem, problem.tile, a_k_major, b_k_major, of_a)) return {};
  const auto [warp_m, warp_n] = warp_shape_sm80(problem.tile, problem.a);
  const int warps = m / warp_m * (n / warp_n);
  const bool k_major = of_a ? a_k_major : b_k_major;
  std::array<int, 3> next{128, 128, problem.tile[2]};
  for (const std::array<int, 3>& tile :
       {std::array{m, n, 2 * k}, {m, 2 * n, k}, {m / 2, n, k}, {m / 2, 2 * n, k}, {m / 2, n / 2, k}}) {
    Problem tried = problem;
    tried.tile = tile;
    if (!check_tile(tried) || !copies_all(problem, tile, a_k_major, b_k_major, other)) continue;
    if (stage_bytes_sm80(tried) * least_stages_sm80 > problem.shared_capacity) continue;
    next = tile;
    break;
  }
  return wrong_tile(
      problem,
      fmt::format("{} warps cannot divide the copy of {}'s {} x {} elements, which lie along {}, in equal "
                  "parts",
                  warps, of_a ? "A" : "B", of_a ? m : n, k,
                  k_major ? "K"
                  : of_a  ? "M"
                          : "N"),
      fmt::format("try {}x{}x{}", next[0], next[1], next[2]));
}

std::optional<int64_t> longest_sum(const Problem& problem) {
  if (problem.arch != Arch::Sm80 || !problem.a || problem.accumulator != DType::i32) return std::nullopt;
  const int64_t largest = *problem.a == DType::u8 ? 255 * 255 : 128 * 128;
  return std::numeric_limits<int32_t>::max() / largest;
}

Result<void> check_tile(Problem& problem) {
  const size_t arch = static_cast<size_t>(problem.arch);
  if (problem.schedule == EvtSchedule::Auto) {
    problem.schedule = problem.arch == Arch::Sm80   ? EvtSchedule::Multistage
                       : problem.arch == Arch::Sm90 ? EvtSchedule::TmaWarpSpecializedCooperative
                                                    : EvtSchedule::TmaWarpSpecialized1Sm;
  }
  const Known& schedule = known(problem.schedule);
  if (!schedule.on[arch]) {
    std::string there;
    for (const Known& other : schedules) {
      if (other.on[arch]) there += (there.empty() ? "" : ", ") + std::string(other.name);
    }
    return diag::error(diag::Code::family_size,
                       schedule.on[1] && problem.arch == Arch::Sm80
                           ? fmt::format("Only SM90+ is supported for EVT with schedule {}", schedule.name)
                           : fmt::format("schedule {} is not one of {}", schedule.name, name_of(problem.arch)))
        .reason(fmt::format("{} has {}", name_of(problem.arch), there))
        .help("leave out the schedule, or name one of these");
  }
  const int k = problem.a ? 128 / (types::bits(*problem.a) / 8) : 64;
  // Of f64 CUTLASS's copies need rows of 128 bytes.
  const int usual = problem.arch == Arch::Sm80 ? std::max(k / 2, 16) : k;
  if (problem.tile[0] == 0) problem.tile = {128, 128, usual};
  if (problem.cluster[0] == 0) problem.cluster = {problem.schedule == EvtSchedule::TmaWarpSpecialized2Sm ? 2 : 1, 1, 1};
  const auto [m, n, depth] = problem.tile;
  const auto [blocks_m, blocks_n, blocks_k] = problem.cluster;
  // Factors are multicast in equal parts, and no GPU has clusters of more than 16 blocks.
  const auto is_part = [](int blocks) { return blocks >= 1 && blocks <= 16 && (blocks & (blocks - 1)) == 0; };
  const int most = problem.arch == Arch::Sm80 ? 1 : 16;
  if (!is_part(blocks_m) || !is_part(blocks_n) || blocks_k != 1 || blocks_m * blocks_n > most)
    return diag::error(diag::Code::family_size, fmt::format("{} has no cluster of {}x{}x{}", name_of(problem.arch),
                                                            blocks_m, blocks_n, blocks_k))
        .reason(most == 1 ? "its blocks run one by one"
                          : "1, 2, 4, 8 or 16 blocks each in M and N, at most 16 together, and 1 in K")
        .help(most == 1 ? "leave out the cluster" : "try 2x1x1");
  if (m % 64 != 0 || n % 16 != 0 || depth % 16 != 0 || m > 256 || n > 256 || depth > 512 || m <= 0 || n <= 0 ||
      depth <= 0)
    return wrong_tile(problem, "M must be a multiple of 64 up to 256, N one of 16 up to 256, K one of 16",
                      fmt::format("try 128x128x{}", usual));
  if (problem.schedule == EvtSchedule::TmaWarpSpecializedCooperative && m < 128)
    return wrong_tile(problem, "two warp groups of 64 rows each share a cooperative tile, so M is at least 128",
                      "use a tile of 128 rows, or schedule tma_warp_specialized_pingpong");
  if (problem.schedule == EvtSchedule::TmaWarpSpecializedCooperative && m % 128 != 0)
    return wrong_tile(problem, "the steps of a cooperative epilogue have 128 rows, and must divide the tile",
                      fmt::format("try {}x{}x{}", 128, n, depth));
  if (problem.arch == Arch::Sm80) {
    const int bits = problem.a ? types::bits(*problem.a) : 16, most_depth = 1024 / bits;
    const int least = std::max(512 / bits, 16);
    if (depth != least && depth != most_depth)
      return wrong_tile(problem,
                        bits == 64 ? fmt::format("rows of A and B in shared memory have 128 bytes: K is {}", least)
                                   : fmt::format("rows of A and B in shared memory have 64 or 128 bytes: K is {} or {}",
                                                 least, most_depth),
                        fmt::format("try {}x{}x{}", m, n, depth < most_depth ? least : most_depth));
    // Of other numbers of warps CUTLASS's copies and stores leave a rest out, or do not compile.
    const auto is_power = [](int size) { return (size & (size - 1)) == 0; };
    if (!is_power(m) || !is_power(n)) {
      const auto below = [](int size) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(size))); };
      return wrong_tile(problem, "M and N must be powers of two, so that warps divide the tile in equal parts",
                        fmt::format("try {}x{}x{}", below(m), below(n), depth));
    }
    const auto [warp_m, warp_n] = warp_shape_sm80(problem.tile, problem.a);
    if (const int warps = m / warp_m * (n / warp_n); warps > 8)
      return wrong_tile(
          problem,
          fmt::format("{} warps have {} registers a thread, and CUTLASS compiles for 255", warps, 65536 / (32 * warps)),
          m >= n ? fmt::format("try {}x{}x{}", m / 2, n, depth) : fmt::format("try {}x{}x{}", m, n / 2, depth));
  }
  if (problem.arch == Arch::Sm100) {
    const bool two = problem.schedule == EvtSchedule::TmaWarpSpecialized2Sm;
    if (two ? m != 128 && m != 256 : m != 64 && m != 128)
      return wrong_tile(problem, two ? "an MMA of two SMs has 128 or 256 rows" : "an MMA of one SM has 64 or 128 rows",
                        two ? "try 256x128x64" : "try 128x128x64");
    if (two && problem.cluster[0] % 2 != 0)
      return wrong_tile(problem, "two SMs need an even cluster in M", "use a cluster of 2x1x1");
    if (two && m == 128 && n < 32)
      return wrong_tile(problem, "the epilogue divides 128 rows of two SMs into steps of at least 32 columns",
                        fmt::format("try {}x{}x{}", m, 32, depth));
  }
  return {};
}

namespace {
// Which products the tensor cores of an architecture have, as CUTLASS multiplies them.
bool multiplies(const Problem& problem) {
  const bool sm80 = problem.arch == Arch::Sm80;
  const DType acc = problem.accumulator;
  const std::optional<DType> a = problem.a, b = problem.b;
  if (!a || !b) return acc == DType::f32 || acc == DType::i32 || (acc == DType::f64 && sm80);
  const bool eight_bit_integers =
      types::is_integer(*a) && types::is_integer(*b) && types::bits(*a) == 8 && types::bits(*b) == 8;
  const bool fp8 = types::is_fp8(*a) && types::is_fp8(*b) && !sm80;
  const bool same = a == b && (a == DType::f16 || a == DType::bf16 || a == DType::f32);
  const bool doubles = a == DType::f64 && b == DType::f64 && acc == DType::f64 && sm80;
  return ((same || fp8) && acc == DType::f32) || (eight_bit_integers && acc == DType::i32 && (!sm80 || a == b)) ||
         doubles;
}
}  // namespace

Result<void> check_types(const Problem& problem) {
  if (multiplies(problem)) return {};
  const bool sm80 = problem.arch == Arch::Sm80;
  const DType acc = problem.accumulator;
  const std::optional<DType> a = problem.a, b = problem.b;
  const std::string what =
      a && b ? fmt::format("{} times {} accumulated in {}", dtype_name(*a), dtype_name(*b), dtype_name(acc))
             : fmt::format("an accumulator of {}", dtype_name(acc));
  auto error = diag::error(diag::Code::family_dtypes, "Unsupported arg type: " + what);
  const ir::Graph& graph = *problem.graph;
  for (const ir::NodeId product : ir::matmuls(graph)) {
    if (graph.span(product).known()) error.at(graph.source(), graph.span(product));
  }
  // The accumulator that these factors have.
  const auto usual = [&]() -> std::optional<DType> {
    if (!a || !b) return std::nullopt;
    for (const DType accumulator : {DType::f32, DType::i32, DType::f64}) {
      Problem other = problem;
      other.accumulator = accumulator;
      if (multiplies(other)) return accumulator;
    }
    return std::nullopt;
  }();
  std::string help = "convert A and B, or use a cpu or cuda target";
  if (usual) {
    help = fmt::format("accumulate in {} (--accumulator {}), or use a cpu or cuda target", dtype_name(*usual),
                       dtype_name(*usual));
  } else if (acc == DType::f64 && !sm80 && (!a || (a == DType::f64 && b == DType::f64))) {
    help = fmt::format("{}, use cutlass:sm_80, whose kernels multiply f64, or a cpu or cuda target",
                       a ? "convert A and B" : "accumulate in f32");
  }
  return error
      .reason(fmt::format("{} multiplies two of f16, two of bf16 or two of f32 (as tf32){} in f32, two of i8 or two of "
                          "u8{} in i32{}",
                          name_of(problem.arch), sm80 ? "" : ", and 8-bit floats", sm80 ? "" : ", also one of each,",
                          sm80 ? ", and f64 in f64" : ""))
      .help(help);
}

EpilogueShape shape_of(const Problem& problem, std::optional<DType> c, DType d, bool c_is_m_major, bool d_is_m_major) {
  EpilogueShape shape;
  int m = problem.tile[0];
  const int n = problem.tile[1];
  const int c_bits = c ? types::bits(*c) : 0, d_bits = types::bits(d);
  if (problem.arch == Arch::Sm80) return {m, n, 1, 1, 1, false, false};
  if (problem.arch == Arch::Sm90) {
    const bool cooperative = problem.schedule == EvtSchedule::TmaWarpSpecializedCooperative;
    const int best_n = !cooperative && d_bits == 8 && n % 64 == 0 ? 64 : 32;
    shape.tile_m = std::min(cooperative ? 128 : 64, m);
    shape.tile_n = std::gcd(std::min(best_n, n), n);
    shape.reuses_c = c_bits == d_bits && d_bits > 8;
  } else {
    const bool two = problem.schedule == EvtSchedule::TmaWarpSpecialized2Sm;
    const int warps_m = two && m == 128 ? 2 : 4, warps_n = two && m == 128 ? 2 : 1;
    if (two) m /= 2;
    shape.tile_m = std::min(m, 32 * warps_m);
    const int widest = std::max(c ? c_bits : d_bits, d_bits);
    int best_n = 64;
    if (!c) {
      best_n = (widest == 4 ? 8192 : 4096) / shape.tile_m;
    } else if (widest == 32) {
      best_n = m > 64 && n <= 128 ? 16 : 32;
    } else if (widest == 16) {
      best_n = n <= 128 ? 32 : 64;
    }
    const int least_c = (!c || c_is_m_major ? 8 : 128 / c_bits) * warps_n;
    const int least_d = (d_is_m_major ? 8 : 128 / d_bits) * warps_n;
    shape.tile_n = std::min(n, std::max({best_n, least_c, least_d}));
    shape.reuses_c = c_bits > 8;
  }
  shape.steps = (m / shape.tile_m) * (n / shape.tile_n);
  shape.delays_store = !c;
  shape.stages_d = std::min(shape.steps, 2);
  shape.stages_c = shape.reuses_c ? std::max(std::min(shape.steps, 4), shape.stages_d + 1) : std::min(shape.steps, 4);
  return shape;
}

std::string cpp_type(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return "cutlass::half_t";
    case DType::bf16:
      return "cutlass::bfloat16_t";
    case DType::f8e4m3:
      return "cutlass::float_e4m3_t";
    case DType::f8e5m2:
      return "cutlass::float_e5m2_t";
    case DType::boolean:
      return "uint8_t";
    default:
      return std::string(host::c_type(dtype));
  }
}

}  // namespace codetta::emit::evt

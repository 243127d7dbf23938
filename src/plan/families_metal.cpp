// SPDX-License-Identifier: Apache-2.0
#include "plan/families_metal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "plan/families.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {
namespace {

// Which machines a family is: Apple's Metal feature set tables. Cores, memory rate: Apple's pages of the machine named
// first, its smallest chip with all cores; clock: what its stated TFLOP/s need with 128 lanes a core (M1: 2.6, M2: 3.6;
// M3 and later state none, M2's is taken); the cache that all share is the system level cache as measured and published
// by others for M1, assumed of the rest. Remembered, not checked against the pages; they only rank.
constexpr std::array known_families{
    MetalFamily{"apple7", "M1, A14", true, 8, 1.278, 61, 8 << 20},
    MetalFamily{"apple8", "M2, A15, A16", true, 10, 1.398, 90, 8 << 20},
    MetalFamily{"apple9", "M3, M4, A17", true, 10, 1.398, 100, 8 << 20},
    MetalFamily{"apple10", "M5, A19", true, 10, 1.398, 138, 8 << 20},
    MetalFamily{"metal3", "any Mac with Metal 3", false, 8, 1.278, 61, 8 << 20},
    MetalFamily{"metal4", "any Mac with Metal 4, M1 and later", true, 8, 1.278, 61, 8 << 20},
    MetalFamily{"mac2", "Intel Macs with AMD GPUs", false, 24, 1.3, 172, 4 << 20},
};

constexpr int64_t metal_grid_threads = UINT32_MAX;  // along a dim: their positions have 32 bits

int64_t groups_for(int64_t elements, int64_t size) { return elements / size + (elements % size != 0 ? 1 : 0); }

int64_t sixteens(int64_t bytes) { return (bytes + 15) / 16 * 16; }

// The type in which the matrices of a SIMD group hold a factor: 8-bit floats become f16, exactly.
DType multiplied(DType stored) { return types::byte_size(stored) == 1 ? DType::f16 : stored; }

bool anywhere_metal(const GpuProblem&) { return true; }

int64_t metal_groups(const GpuProblem& p, const GpuGemmConfig& c) {
  const auto groups = static_cast<double>(groups_for(std::max<int64_t>(p.shape.m, 1), c.tile_m)) *
                      static_cast<double>(groups_for(std::max<int64_t>(p.root_cols(), 1), c.tile_n / p.ways())) *
                      static_cast<double>(std::max<int64_t>(p.shape.batch, 1)) * c.k_split;
  return groups > 1e18 ? INT64_MAX : static_cast<int64_t>(groups);
}

// Whether threadgroup memory, threads and grid suffice; pieces of fewer rows need less memory. An empty product has no
// grid.
bool fits_metal(const GpuProblem& p, GpuGemmConfig& c) {
  const auto needed = [&] { return metal_shared_bytes(p.epilogue, c); };
  while (c.piece_rows > 8 && c.piece_rows % 16 == 0 && needed() > metal_threadgroup_bytes) c.piece_rows /= 2;
  c.shared_bytes = static_cast<int32_t>(std::min<int64_t>(needed(), package::max_gpu_shared));
  return needed() <= metal_threadgroup_bytes && c.threads <= metal_threadgroup_threads &&
         (p.empty() || metal_groups(p, c) <= metal_grid_threads / c.threads);
}

// Slices of K where there are few tiles: each of at least 256 steps.
void add_with_slices(const GpuProblem& p, GpuGemmConfig c, std::vector<GpuGemmConfig>& result) {
  if (!fits_metal(p, c)) return;
  result.push_back(c);
  const int64_t split =
      std::min<int64_t>({2 * p.gpu.sms / std::max<int64_t>(metal_groups(p, c), 1), p.shape.k / 256, 16});
  if (split < 2 || p.empty()) return;
  c.k_split = static_cast<int32_t>(split);
  result.push_back(c);
}

GpuGemmConfig metal_base(const GpuProblem& p, GpuFamily family, int tile_m, int width) {
  GpuGemmConfig c;
  c.family = family;
  c.a_dtype = p.shape.a;
  c.b_dtype = p.shape.b;
  c.accumulator = p.shape.accumulator;
  c.a_k_major = p.shape.a_k_stride == 1;
  c.b_k_major = p.shape.b_k_stride == 1;
  c.tile_m = c.piece_rows = tile_m;
  c.tile_n = static_cast<int32_t>(width * p.ways());
  c.piece_cols = width;
  return c;
}

std::vector<GpuGemmConfig> metal_simt_configurations(const GpuProblem& p) {
  static constexpr std::array<std::pair<int, int>, 8> tiles{
      {{64, 64}, {64, 32}, {32, 64}, {32, 32}, {16, 64}, {16, 32}, {16, 16}, {16, 8}}};
  std::vector<GpuGemmConfig> result;
  const auto base = [&](int rows, int width) {
    GpuGemmConfig c = metal_base(p, GpuFamily::Simt, rows, width);
    c.tile_k = std::min(c.tile_m, c.tile_n) < 32 ? 8 : 16;
    c.threads = static_cast<int32_t>(groups_for(int64_t{rows} / 4 * (c.tile_n / 4), 32) * 32);
    return c;
  };
  for (const auto& [rows, width] : tiles) {
    if (int64_t{width} * p.ways() > 256) continue;
    add_with_slices(p, base(rows, width), result);
  }
  if (result.empty()) {  // columns in as many parts as the language allows
    GpuGemmConfig c = base(16, 4);
    if (fits_metal(p, c)) result.push_back(c);
  }
  return result;
}

Rejection beyond_metal_grid(const GpuProblem& p, GpuFamily family) {
  return metal_rejection(family, diag::Code::family_size,
                         fmt::format("{} x {} in {} batch items are more tiles than a grid of {} threads computes",
                                     p.shape.m, p.shape.n, p.shape.batch, metal_grid_threads));
}

std::optional<Rejection> refuse_metal_simt(const GpuProblem& p) {
  if (!metal_simt_configurations(p).empty()) return std::nullopt;
  GpuGemmConfig least = metal_base(p, GpuFamily::Simt, 16, 4);
  least.tile_k = 8;
  least.piece_rows = 8;
  least.threads = static_cast<int32_t>(groups_for(int64_t{4} * (least.tile_n / 4), 32) * 32);
  if (const int64_t needed = metal_shared_bytes(p.epilogue, least); needed > metal_threadgroup_bytes) {
    return metal_rejection(GpuFamily::Simt, diag::Code::family_size,
                           fmt::format("the smallest tile needs {} bytes of threadgroup memory, {} are available",
                                       needed, metal_threadgroup_bytes))
        .limited("bytes of threadgroup memory", needed, metal_threadgroup_bytes);
  }
  return beyond_metal_grid(p, GpuFamily::Simt);
}

Mainloop metal_simt_mainloop(const GpuProblem&, const GpuGemmConfig& c) {
  // 8 loads from threadgroup memory for 16 multiply-adds, and a thread's own of what a tile brings. Assumed, not
  // measured.
  constexpr double lanes = 128;
  const double efficiency = 0.4 / (1 + 4.0 / c.tile_m + 4.0 / c.tile_n);
  Mainloop loop;
  loop.clocks = c.tile_m * static_cast<double>(c.tile_n) / lanes / efficiency;  // a step of K
  loop.blocks_per_sm = std::clamp(1024 / c.threads, 1, 4);
  loop.exposed = 0.5;
  loop.prologue_us = 8;
  loop.note = fmt::format("{:.0f} multiply-adds a clock at {:.0f} %", lanes, 100 * efficiency);
  return loop;
}

bool takes_simdgroup(DType a, DType b) {
  const bool wide = a == b && (a == DType::f32 || a == DType::f16 || a == DType::bf16);
  return wide || (types::is_float8(a) && types::is_float8(b));
}

// Rows, root columns, SIMD groups: 16 x 16 to 32 x 32 accumulators each.
std::vector<GpuGemmConfig> metal_simdgroup_configurations(const GpuProblem& p) {
  static constexpr std::array<std::array<int, 3>, 9> tiles{{{64, 64, 4},
                                                            {128, 64, 8},
                                                            {64, 128, 8},
                                                            {64, 32, 4},
                                                            {32, 64, 4},
                                                            {32, 32, 4},
                                                            {16, 64, 4},
                                                            {16, 32, 2},
                                                            {8, 32, 2}}};
  std::vector<GpuGemmConfig> result;
  for (const auto& [rows, width, groups] : tiles) {
    // The parts of a split lie side by side in a tile: as many columns together as without one, where they divide.
    for (const int own : {width / static_cast<int>(p.ways()), width}) {
      if (own < 8 || own % 8 != 0 || own * p.ways() > 256) continue;
      GpuGemmConfig c = metal_base(p, GpuFamily::Simdgroup, rows, own);
      c.tile_k = types::byte_size(multiplied(p.shape.a)) == 4 ? 16 : 32;
      c.stages = 2;
      c.consumers = groups;
      c.threads = 32 * groups;
      c.alignment = static_cast<int32_t>(types::byte_size(p.shape.a));
      if (metal_groups_along_m(c) == 0) continue;
      // What makes a factor makes whole vectors of the epilogue's lanes, of which it is brought.
      const int64_t brought = types::byte_size(p.shape.a) == 4 ? 4 : 8;
      if ((p.shape.a_made || p.shape.b_made) && brought % piece_layout(p.epilogue, c).lanes != 0) continue;
      const bool listed = std::any_of(result.begin(), result.end(), [&](const GpuGemmConfig& other) {
        return other.tile_m == c.tile_m && other.tile_n == c.tile_n;
      });
      if (!listed) add_with_slices(p, c, result);
    }
  }
  return result;
}

std::optional<Rejection> refuse_metal_simdgroup(const GpuProblem& p) {
  constexpr GpuFamily own = GpuFamily::Simdgroup;
  const GemmShape& s = p.shape;
  const MetalFamily* family = metal_family(p.gpu.arch);
  if (family == nullptr || !family->simdgroup_matrix) {
    return metal_rejection(
        own, diag::Code::isa_lacks,
        fmt::format("{} does not promise matrices of a SIMD group; apple7 and later have them", p.gpu.arch));
  }
  if (!takes_simdgroup(s.a, s.b)) {
    return metal_rejection(
        own, diag::Code::family_dtypes,
        fmt::format("{} x {}; matrices of a SIMD group multiply f32, f16, bf16, and 8-bit floats as f16",
                    dtype_name(s.a), dtype_name(s.b)));
  }
  const auto apart = [](int64_t k, int64_t other) { return k != 1 && other != 1; };
  if (apart(s.a_k_stride, s.a_row_stride) || apart(s.b_k_stride, s.b_col_stride)) {
    const bool a = apart(s.a_k_stride, s.a_row_stride);
    return metal_rejection(
        own, diag::Code::family_layout,
        fmt::format("{} has strides {} and {}; it reads elements that lie side by side along one dim", a ? "A" : "B",
                    a ? s.a_row_stride : s.b_k_stride, a ? s.a_k_stride : s.b_col_stride));
  }
  if (!metal_simdgroup_configurations(p).empty()) return std::nullopt;
  GpuGemmConfig least = metal_base(p, own, 8, 8);
  least.tile_k = types::byte_size(multiplied(s.a)) == 4 ? 16 : 32;
  least.stages = 2;
  least.threads = 64;
  least.piece_rows = 8;
  const int64_t needed = metal_shared_bytes(p.epilogue, least);
  if (needed <= metal_threadgroup_bytes) return beyond_metal_grid(p, own);
  return metal_rejection(own, diag::Code::family_size,
                         fmt::format("{} parts of 8 columns need {} bytes of threadgroup memory, {} are available",
                                     p.ways(), needed, metal_threadgroup_bytes))
      .limited("bytes of threadgroup memory", needed, metal_threadgroup_bytes);
}

Mainloop metal_simdgroup_mainloop(const GpuProblem&, const GpuGemmConfig& c) {
  // The matrices run on the cores' own multipliers; larger blocks of a SIMD group load less for each product. Assumed,
  // not measured.
  constexpr double lanes = 128;
  const int along_m = metal_groups_along_m(c), along_n = c.consumers / std::max(along_m, 1);
  const double rows = c.tile_m / std::max(along_m, 1), cols = c.tile_n / std::max(along_n, 1);
  const double efficiency = 0.9 / (1 + 4 / rows + 4 / cols);
  Mainloop loop;
  loop.clocks = c.tile_m * static_cast<double>(c.tile_n) / lanes / efficiency;
  loop.blocks_per_sm = std::clamp(1024 / c.threads, 1, 4);
  loop.exposed = 0.5;
  loop.prologue_us = 8;
  loop.note = fmt::format("{:.0f} multiply-adds a clock at {:.0f} %", lanes, 100 * efficiency);
  return loop;
}

}  // namespace

const MetalFamily* metal_family(std::string_view name) {
  if (name.empty()) name = default_metal_family;
  const auto* found = std::find_if(known_families.begin(), known_families.end(),
                                   [&](const MetalFamily& family) { return family.name == name; });
  return found == known_families.end() ? nullptr : found;
}

GpuFacts metal_facts(std::string_view name) {
  const MetalFamily* family = metal_family(name);
  if (family == nullptr) family = known_families.data();
  GpuFacts facts;
  facts.arch = family->name;
  facts.sms = family->cores;
  facts.ghz = family->ghz;
  facts.shared_per_block = facts.shared_per_sm = metal_threadgroup_bytes;
  facts.l2 = family->cache;
  facts.memory_rate = family->memory_rate;
  facts.l2_rate = 3 * family->memory_rate;
  return facts;
}

std::span<const GpuFamilyInfo> metal_families() {
  static constexpr std::array families{
      GpuFamilyInfo{GpuFamily::Simt, anywhere_metal, refuse_metal_simt, metal_simt_configurations, metal_simt_mainloop},
      GpuFamilyInfo{GpuFamily::Simdgroup, anywhere_metal, refuse_metal_simdgroup, metal_simdgroup_configurations,
                    metal_simdgroup_mainloop},
  };
  return families;
}

Rejection metal_rejection(GpuFamily family, diag::Code code, std::string text) {
  return {static_cast<uint16_t>(code), fmt::format("metal_{}", package::name_of(family)), std::move(text), {}};
}

std::string metal_kernel_name(const GpuGemmConfig& c, std::string_view family) {
  std::string name = fmt::format("metal_{}_{}x{}x{}", package::name_of(c.family), c.tile_m, c.tile_n, c.tile_k);
  if (c.k_split > 1) name += fmt::format("_k{}", c.k_split);
  return fmt::format("{}_{}", name, family);
}

int64_t metal_shared_bytes(const package::EpilogueProgram& epilogue, const GpuGemmConfig& c) {
  const int64_t scratch = sixteens(piece_layout(epilogue, c).scratch_bytes(c.threads));
  if (c.family == GpuFamily::Simdgroup) {
    const int64_t size = types::byte_size(multiplied(c.a_dtype)), pad = 16 / size;
    const auto stage = [&](bool k_major, int64_t wide) {
      return size * (k_major ? wide * (c.tile_k + pad) : c.tile_k * (wide + pad));
    };
    const int64_t stages = c.stages * (stage(c.a_k_major, c.tile_m) + stage(c.b_k_major, c.tile_n));
    return sixteens(std::max<int64_t>(stages, int64_t{c.piece_rows} * (c.tile_n + 4) * 4)) + scratch;
  }
  const int64_t element = types::byte_size(c.accumulator), pad = 16 / element;
  const int64_t operands = c.tile_k * (c.tile_m + c.tile_n + 2 * pad) * element;
  const int64_t piece = c.piece_rows * (c.tile_n + pad) * element;
  return sixteens(std::max(operands, piece)) + scratch;
}

int metal_groups_along_m(const GpuGemmConfig& c) {
  int best = 0, square = 0;
  for (int along = 1; along <= c.consumers; along *= 2) {
    const int others = c.consumers / along;
    if (c.consumers % along != 0 || c.tile_m % (8 * along) != 0 || c.tile_n % (8 * others) != 0) continue;
    const int off = std::abs(c.tile_m / along - c.tile_n / others);
    if (best == 0 || off < square) best = along, square = off;
  }
  return best;
}

Result<void> check_for_metal(const ir::Graph& graph) {
  for (const ir::GraphInput& input : graph.inputs()) {  // A and B are not in an epilogue's text: the name tells
    if (graph.type(input.node).dtype != DType::f64) continue;
    return diag::error(diag::Code::target_lacks, "Metal has no f64")
        .at(graph.source(), graph.span(input.node))
        .about(input.name)
        .reason(input.name + " is " + ir::to_string(graph.type(input.node)) + "; Metal's widest float is f32")
        .help("bind one of f32, or choose another target");
  }
  for (size_t i = 0; i < graph.size(); ++i) {
    const ir::NodeId node(i);
    if (graph.type(node).dtype != DType::f64) continue;
    return diag::error(diag::Code::target_lacks, "Metal has no f64")
        .at(graph.source(), graph.span(node))
        .reason(ir::to_string(graph.type(node)) + " is computed here; Metal's widest float is f32")
        .help("cast to f32, or choose another target");
  }
  for (const ir::GraphOutput& output : graph.outputs()) {
    if (output.dtype != DType::f64) continue;
    return diag::error(diag::Code::target_lacks, "Metal has no f64")
        .at(graph.source(), graph.span(output.node))
        .reason("output " + output.name + " is f64; Metal's widest float is f32")
        .help("bind an output of f32, or choose another target");
  }
  return {};
}

std::vector<CostTerm> metal_cost_terms(const GpuProblem& p, const GpuFamilyInfo& family, const GpuGemmConfig& c) {
  Mainloop loop = family.mainloop(p, c);
  add_making(p, c, 1, loop);  // clocks are of one step
  const auto bytes_of = [](DType dtype, double n) { return static_cast<double>(types::byte_size(dtype)) * n; };
  const double m = static_cast<double>(p.shape.m), n = static_cast<double>(p.shape.n),
               k = static_cast<double>(p.shape.k), batch = static_cast<double>(p.shape.batch),
               cols = static_cast<double>(p.root_cols()), width = c.tile_n / static_cast<double>(p.ways());
  const double cores = std::max(p.gpu.sms, 1);
  const double units = batch * std::ceil(m / c.tile_m) * std::ceil(cols / width) * c.k_split;
  const double rounds = std::ceil(units / cores);
  const double steps = std::ceil(std::ceil(k / c.k_split) / c.tile_k) * c.tile_k;
  const auto us = [&](double clocks) { return clocks / (p.gpu.ghz * 1000); };
  std::vector<CostTerm> terms;
  const auto add = [&](std::string name, double microseconds, std::string note) {
    if (microseconds > 0) terms.push_back({std::move(name), microseconds, std::move(note)});
  };
  const double multiply = us(loop.clocks * steps * rounds);
  add("multiply", multiply,
      fmt::format("{:.0f} tiles on {:.0f} cores, {:.0f} each at most; {}", units, cores, rounds, loop.note));
  // Of elements of a factor, or of what they are computed from.
  const double a_bytes = p.shape.a_made ? p.shape.a_read_bytes : bytes_of(c.a_dtype, 1);
  const double b_bytes = p.shape.b_made ? p.shape.b_read_bytes : bytes_of(c.b_dtype, 1);
  const double a = a_bytes * m * k * (p.shape.one_a() ? 1 : batch);
  const double b = b_bytes * n * k * (p.shape.one_b() ? 1 : batch);
  const double brought = units * steps * (a_bytes * c.tile_m + b_bytes * c.tile_n);
  const double memory = (a + b) / p.gpu.memory_rate, cache = brought / p.gpu.l2_rate;
  add("operands beyond", std::max(memory, cache) / 1000 - multiply,
      fmt::format("{:.1f} MB of memory, {:.1f} MB of the shared cache; {} decides", (a + b) / 1e6, brought / 1e6,
                  memory > cache ? "memory" : "the cache"));
  constexpr double lanes = 128, dispatch_us = 4;
  double exposed = loop.exposed, entries = 0;
  const double elements = batch * m * cols;
  for (size_t i = 0; i < p.epilogue.phases.size(); ++i) {
    const package::Phase& phase = p.epilogue.phases[i];
    double clocks = phase.reads_accumulator ? 4.0 * static_cast<double>(p.ways()) : 0, bytes = 0;
    const auto touch = [&](const package::Operand& o) {
      if (o.access == package::Access::Full || o.access == package::Access::Indexed)
        bytes += static_cast<double>(types::byte_size(o.dtype)) * (o.unit_stride ? 1 : 4);
    };
    for (const package::Inst& inst : phase.insts) {
      if (inst.kind == package::Inst::Kind::Op) clocks += vector_clocks(inst.op, inst.type);
      if (inst.kind == package::Inst::Kind::Load) touch(p.epilogue.operands[inst.index]);
    }
    for (const package::Store& store : phase.stores) touch(p.epilogue.operands[store.operand]);
    if (i > 0 && phase.reads_accumulator) bytes += 2 * bytes_of(c.accumulator, static_cast<double>(p.ways()));
    const double arithmetic = us(clocks * elements / lanes / cores),
                 moved = elements * bytes / p.gpu.memory_rate / 1000;
    if (i > 0) ++entries;
    if (std::any_of(p.epilogue.reductions.begin(), p.epilogue.reductions.end(),
                    [&](const package::Reduction& r) { return r.phase == i; }))
      ++entries;
    add(i == 0 ? "epilogue" : "later phase", std::max(exposed * arithmetic, moved),
        fmt::format("{:.1f} clocks and {:.0f} bytes an element", clocks, bytes));
    exposed = 1;
  }
  if (c.k_split > 1) {
    const double slices = 2 * c.k_split * bytes_of(c.accumulator, elements * static_cast<double>(p.ways()));
    ++entries;
    add("slices of K", slices / p.gpu.memory_rate / 1000,
        fmt::format("{} slices, summed by the next kernel", c.k_split));
  }
  add("further kernels", entries * dispatch_us, fmt::format("{:.0f} dispatches behind the first", entries));
  add("prologue", loop.prologue_us, "encoding, first loads, last stores");
  return terms;
}

}  // namespace codetta::plan

// SPDX-License-Identifier: Apache-2.0
// Configurations: what they share, and their file form.
#include "package/kernel_config.hpp"

#include <utility>

#include "package/serialize.hpp"

namespace codetta {

namespace {
constexpr std::string_view math_modes[] = {"strict", "3xtf32", "tf32", "fp8_fast_accum"};
}

std::string_view math_mode_name(MathMode mode) { return math_modes[static_cast<size_t>(mode) % 4]; }

std::optional<MathMode> math_mode_from_name(std::string_view name) {
  for (size_t i = 0; i < std::size(math_modes); ++i) {
    if (math_modes[i] == name) return static_cast<MathMode>(i);
  }
  return std::nullopt;
}

}  // namespace codetta

namespace codetta::package {

std::string_view name_of(CpuFamily family) {
  constexpr std::string_view names[] = {"packed", "in_place", "convert", "fused"};
  return names[static_cast<size_t>(family)];
}
std::string_view name_of(CudaFamily family) {
  constexpr std::string_view names[] = {"simt", "sm80", "sm90", "stream", "sm100", "vendor"};
  return names[static_cast<size_t>(family)];
}

CudaGemmConfig pieces_of(const CudaMapConfig& config) {
  CudaGemmConfig pieces;
  pieces.tile_m = pieces.piece_rows = config.piece_rows;
  pieces.tile_n = pieces.piece_cols = config.piece_cols;
  pieces.threads = config.threads;
  pieces.lanes = config.lanes;
  return pieces;
}

namespace {

template <class Read>
auto of_product(const KernelConfig& config, decltype(std::declval<Read>()(CpuGemmConfig{})) otherwise, Read&& read) {
  if (const auto* c = std::get_if<CpuGemmConfig>(&config)) return read(*c);
  if (const auto* c = std::get_if<CudaGemmConfig>(&config)) return read(*c);
  return otherwise;
}

}  // namespace

DType a_dtype(const KernelConfig& config) {
  return of_product(config, DType::f32, [](const auto& c) { return c.a_dtype; });
}
DType b_dtype(const KernelConfig& config) {
  return of_product(config, DType::f32, [](const auto& c) { return c.b_dtype; });
}
DType accumulator(const KernelConfig& config) {
  return of_product(config, DType::f32, [](const auto& c) { return c.accumulator; });
}
std::string_view family_name(const KernelConfig& config) {
  return of_product(config, std::string_view("map"), [](const auto& c) { return name_of(c.family); });
}

namespace {

void check_accumulator(ByteReader& in, DType acc) {
  if (in.ok() && acc != DType::f32 && acc != DType::f64 && acc != DType::i32 && acc != DType::i64)
    in.damage("a kernel accumulates in no accumulator dtype");
}

void write_cpu(ByteWriter& out, const CpuGemmConfig& config) {
  out.choice(config.family);
  out.choice(config.isa);
  for (DType dtype : {config.a_dtype, config.b_dtype, config.accumulator}) out.choice(dtype);
  for (int32_t size :
       {config.mr, config.nr, config.tile_rows, config.tile_cols, config.kc, config.mc, config.nc, config.k_split})
    out.integer(size);
  out.flag(config.pack_a);
}

// The engine trusts a configuration, so its sizes are held to what plan/ may choose.
CpuGemmConfig read_cpu(ByteReader& in) {
  CpuGemmConfig config;
  config.family = in.choice<CpuFamily>(4, "kernel family");
  config.isa = in.choice<CpuIsa>(7, "instruction set");
  config.a_dtype = in.dtype();
  config.b_dtype = in.dtype();
  config.accumulator = in.dtype();
  config.mr = in.small(1, max_block_rows, "mr");
  config.nr = in.small(1, max_block_cols, "nr");
  config.tile_rows = in.small(1, max_tile_rows, "tile_rows");
  config.tile_cols = in.small(1, max_tile_cols, "tile_cols");
  config.kc = in.small(1, max_cache_block, "kc");
  config.mc = in.small(1, max_cache_block, "mc");
  config.nc = in.small(1, max_cache_block, "nc");
  config.k_split = in.small(1, max_k_split, "k_split");
  config.pack_a = in.flag();
  check_accumulator(in, config.accumulator);
  return config;
}

struct Field {
  int32_t CudaGemmConfig::*member;
  int32_t least, most;
  std::string_view name;
};
constexpr Field cuda_fields[] = {
    {&CudaGemmConfig::tile_m, 1, max_cuda_tile, "tile_m"},
    {&CudaGemmConfig::tile_n, 1, max_cuda_tile, "tile_n"},
    {&CudaGemmConfig::tile_k, 1, max_cuda_tile, "tile_k"},
    {&CudaGemmConfig::stages, 1, 64, "stages"},
    {&CudaGemmConfig::cluster_m, 1, 16, "cluster_m"},
    {&CudaGemmConfig::cluster_n, 1, 16, "cluster_n"},
    {&CudaGemmConfig::consumers, 1, 32, "consumers"},
    {&CudaGemmConfig::k_split, 1, max_k_split, "k_split"},
    {&CudaGemmConfig::group, 1, max_cuda_tile, "group"},
    {&CudaGemmConfig::alignment, 1, 256, "alignment"},
    {&CudaGemmConfig::piece_rows, 1, max_cuda_tile, "piece_rows"},
    {&CudaGemmConfig::piece_cols, 1, max_cuda_tile, "piece_cols"},
    {&CudaGemmConfig::lanes, 1, 16, "lanes"},
    {&CudaGemmConfig::threads, 1, max_cuda_threads, "threads"},
    {&CudaGemmConfig::shared_bytes, 0, max_cuda_shared, "shared_bytes"},
};

void write_cuda_config(ByteWriter& out, const CudaGemmConfig& config) {
  out.choice(config.family);
  for (DType dtype : {config.a_dtype, config.b_dtype, config.accumulator}) out.choice(dtype);
  out.choice(config.math);
  for (bool flag : {config.a_k_major, config.b_k_major, config.pingpong, config.persistent, config.from_registers,
                    config.pack_a, config.pack_b})
    out.flag(flag);
  for (const Field& field : cuda_fields) out.integer(config.*field.member);
}

CudaGemmConfig read_cuda_config(ByteReader& in) {
  CudaGemmConfig config;
  config.family = in.choice<CudaFamily>(6, "kernel family");
  config.a_dtype = in.dtype();
  config.b_dtype = in.dtype();
  config.accumulator = in.dtype();
  config.math = in.choice<MathMode>(4, "math mode");
  for (bool* flag : {&config.a_k_major, &config.b_k_major, &config.pingpong, &config.persistent, &config.from_registers,
                     &config.pack_a, &config.pack_b})
    *flag = in.flag();
  for (const Field& field : cuda_fields) config.*field.member = in.small(field.least, field.most, field.name);
  check_accumulator(in, config.accumulator);
  return config;
}

}  // namespace

void write_config(ByteWriter& out, const KernelConfig& config) {
  out.number(config.index());
  if (const auto* cpu_config = std::get_if<CpuGemmConfig>(&config)) write_cpu(out, *cpu_config);
  if (const auto* cuda_config = std::get_if<CudaGemmConfig>(&config)) write_cuda_config(out, *cuda_config);
  if (const auto* map = std::get_if<CpuMapConfig>(&config)) {
    out.choice(map->isa);
    for (int32_t size : {map->tile_rows, map->tile_cols}) out.integer(size);
  }
  if (const auto* map = std::get_if<CudaMapConfig>(&config)) {
    for (int32_t size : {map->threads, map->piece_rows, map->piece_cols, map->lanes}) out.integer(size);
    out.flag(map->panels);
  }
}

KernelConfig read_config(ByteReader& in) {
  switch (in.number_up_to(std::variant_size_v<KernelConfig> - 1, "backend of a kernel")) {
    case 0:
      return read_cpu(in);
    case 1:
      return read_cuda_config(in);
    case 2: {
      CpuMapConfig config;
      config.isa = in.choice<CpuIsa>(7, "instruction set");
      config.tile_rows = in.small(1, max_map_rows, "tile_rows");
      config.tile_cols = in.small(1, max_map_cols, "tile_cols");
      return config;
    }
    default: {
      CudaMapConfig config;
      config.threads = in.small(1, max_cuda_threads, "threads");
      config.piece_rows = in.small(1, max_map_rows, "piece_rows");
      config.piece_cols = in.small(1, max_map_cols, "piece_cols");
      config.lanes = in.small(1, 16, "lanes");
      config.panels = in.flag();
      return config;
    }
  }
}

void write_entries(ByteWriter& out, const std::vector<CudaEntry>& entries) {
  out.number(entries.size());
  for (const CudaEntry& entry : entries) {
    out.choice(entry.kind);
    out.number(entry.index);
    out.text(entry.symbol);
    for (int32_t size : {entry.threads, entry.shared_bytes, entry.results_per_block}) out.integer(size);
  }
}

std::vector<CudaEntry> read_entries(ByteReader& in) {
  std::vector<CudaEntry> entries;
  for (size_t n = in.count(4096, "number of entry points"); n > 0 && in.ok(); --n) {
    CudaEntry entry;
    entry.kind = in.choice<CudaEntry::Kind>(5, "kind of an entry point");
    entry.index = in.index("what an entry point computes");
    entry.symbol = in.text(max_name_bytes, "length of a symbol");
    entry.threads = in.small(1, max_cuda_threads, "threads");
    entry.shared_bytes = in.small(0, max_cuda_shared, "shared_bytes");
    entry.results_per_block = in.small(1, max_cuda_tile, "results_per_block");
    entries.push_back(std::move(entry));
  }
  return entries;
}

void write_maps(ByteWriter& out, const std::vector<CudaTensorMap>& maps) {
  out.number(maps.size());
  for (const CudaTensorMap& map : maps) {
    out.choice(map.source);
    out.number(map.operand);
    for (int32_t size : {map.box_fast, map.box_slow, map.swizzle_bytes}) out.integer(size);
  }
}

std::vector<CudaTensorMap> read_maps(ByteReader& in) {
  std::vector<CudaTensorMap> maps;
  for (size_t n = in.count(256, "number of tensor maps"); n > 0 && in.ok(); --n) {
    CudaTensorMap map;
    map.source = in.choice<CudaTensorMap::Source>(3, "source of a tensor map");
    map.operand = in.index("operand of a tensor map");
    map.box_fast = in.small(1, 256, "box_fast");
    map.box_slow = in.small(1, 256, "box_slow");
    map.swizzle_bytes = in.small(0, 128, "swizzle_bytes");
    maps.push_back(map);
  }
  return maps;
}

}  // namespace codetta::package

// SPDX-License-Identifier: Apache-2.0
// Configurations: what they share, and their file form.
#include "package/kernel_config.hpp"

#include <bit>
#include <utility>

#include "package/config_fields.hpp"
#include "package/serialize.hpp"

namespace codetta {

namespace {
constexpr std::string_view math_modes[] = {"strict", "3xtf32", "tf32", "fp8_fast_accum", "fp8_two_level_accum"};
}

std::string_view math_mode_name(MathMode mode) { return math_modes[static_cast<size_t>(mode) % std::size(math_modes)]; }

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

bool shares_a(GpuFamily family) { return family != GpuFamily::Vendor; }

bool has_spaces(GpuFamily family) {
  switch (family) {
    case GpuFamily::Simt:
    case GpuFamily::Sm80:
    case GpuFamily::Sm90:
    case GpuFamily::Sm100:
    case GpuFamily::Stream:
    case GpuFamily::Mfma:
    case GpuFamily::Wmma:
      return true;
    default:  // Metal's kernels, and the vendor's, have one number of columns
      return false;
  }
}

bool makes_factor(GpuFamily family, bool is_a) {
  const bool copied = family == GpuFamily::Sm90 || family == GpuFamily::Sm100;  // B comes by the copy engine
  return shares_a(family) && (is_a || !copied);
}

std::string_view name_of(GpuFamily family) {
  constexpr std::string_view names[] = {"simt",   "sm80", "sm90", "stream",   "sm100",
                                        "vendor", "mfma", "wmma", "simdgroup"};
  static_assert(std::size(names) == gpu_families);
  return names[static_cast<size_t>(family)];
}

std::string_view name_of(CudaVendorConfig::Activation activation) {
  constexpr std::string_view names[] = {"none", "relu", "gelu", "dgelu"};
  return names[static_cast<size_t>(activation)];
}

GpuGemmConfig pieces_of(const GpuMapConfig& config) {
  GpuGemmConfig pieces;
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
  if (const auto* c = std::get_if<GpuGemmConfig>(&config)) return read(*c);
  if (const auto* c = std::get_if<CudaVendorConfig>(&config)) return read(*c);
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
  if (is_vendor(config)) return name_of(GpuFamily::Vendor);
  if (const auto* c = std::get_if<CpuGemmConfig>(&config)) return name_of(c->family);
  if (const auto* c = std::get_if<GpuGemmConfig>(&config)) return name_of(c->family);
  return "map";
}

namespace {

void check_accumulator(ByteReader& in, DType acc) {
  if (in.ok() && acc != DType::f32 && acc != DType::f64 && acc != DType::i32 && acc != DType::i64)
    in.damage("a kernel accumulates in no accumulator dtype");
}

template <class Config>
void write_numbers(ByteWriter& out, const Config& config) {
  for (const auto& field : ConfigFields<Config>::numbers) out.integer(config.*field.member);
}
template <class Config>
void write_flags(ByteWriter& out, const Config& config) {
  for (const auto& field : ConfigFields<Config>::flags) out.flag(config.*field.member);
}
template <class Config>
void read_numbers(ByteReader& in, Config& config) {
  for (const auto& field : ConfigFields<Config>::numbers)
    config.*field.member = in.small(field.least, field.most, field.name);
}
template <class Config>
void read_flags(ByteReader& in, Config& config) {
  for (const auto& field : ConfigFields<Config>::flags) config.*field.member = in.flag();
}

void write_one(ByteWriter& out, const CpuGemmConfig& config) {
  out.choice(config.family);
  out.choice(config.isa);
  for (DType dtype : {config.a_dtype, config.b_dtype, config.accumulator}) out.choice(dtype);
  write_numbers(out, config);
  write_flags(out, config);
}
void write_one(ByteWriter& out, const GpuGemmConfig& config) {
  out.choice(config.family);
  for (DType dtype : {config.a_dtype, config.b_dtype, config.accumulator}) out.choice(dtype);
  out.choice(config.math);
  write_flags(out, config);
  write_numbers(out, config);
}
void write_one(ByteWriter& out, const CpuMapConfig& config) {
  out.choice(config.isa);
  write_numbers(out, config);
}
void write_one(ByteWriter& out, const GpuMapConfig& config) {
  write_numbers(out, config);
  write_flags(out, config);
}

void write_one(ByteWriter&, const CpuUserConfig&) {}

void write_one(ByteWriter& out, const GpuUserConfig& config) { write_numbers(out, config); }

void write_one(ByteWriter& out, const CudaVendorConfig& config) {
  for (DType dtype : {config.a_dtype, config.b_dtype, config.accumulator}) out.choice(dtype);
  out.choice(config.math);
  out.choice(config.activation);
  for (double value : {config.alpha, config.beta}) out.number(std::bit_cast<uint64_t>(value));
  write_numbers(out, config);
}

// The engine trusts a configuration, so its sizes are held to what plan/ may choose.
CpuGemmConfig read_cpu(ByteReader& in) {
  CpuGemmConfig config;
  config.family = in.choice<CpuFamily>(4, "kernel family");
  config.isa = in.choice<CpuIsa>(7, "instruction set");
  config.a_dtype = in.dtype();
  config.b_dtype = in.dtype();
  config.accumulator = in.dtype();
  read_numbers(in, config);
  read_flags(in, config);
  check_accumulator(in, config.accumulator);
  return config;
}
GpuGemmConfig read_cuda(ByteReader& in) {
  GpuGemmConfig config;
  config.family = in.choice<GpuFamily>(gpu_families, "kernel family");
  config.a_dtype = in.dtype();
  config.b_dtype = in.dtype();
  config.accumulator = in.dtype();
  config.math = in.choice<MathMode>(std::size(codetta::math_modes), "math mode");
  read_flags(in, config);
  read_numbers(in, config);
  check_accumulator(in, config.accumulator);
  return config;
}
CpuMapConfig read_cpu_map(ByteReader& in) {
  CpuMapConfig config;
  config.isa = in.choice<CpuIsa>(7, "instruction set");
  read_numbers(in, config);
  return config;
}
GpuMapConfig read_gpu_map(ByteReader& in) {
  GpuMapConfig config;
  read_numbers(in, config);
  read_flags(in, config);
  return config;
}

GpuUserConfig read_gpu_user(ByteReader& in) {
  GpuUserConfig config;
  read_numbers(in, config);
  return config;
}

CudaVendorConfig read_vendor(ByteReader& in) {
  CudaVendorConfig config;
  config.a_dtype = in.dtype();
  config.b_dtype = in.dtype();
  config.accumulator = in.dtype();
  config.math = in.choice<MathMode>(std::size(codetta::math_modes), "math mode");
  config.activation = in.choice<CudaVendorConfig::Activation>(4, "activation");
  config.alpha = std::bit_cast<double>(in.number());
  config.beta = std::bit_cast<double>(in.number());
  read_numbers(in, config);
  check_accumulator(in, config.accumulator);
  return config;
}

}  // namespace

void write_config(ByteWriter& out, const KernelConfig& config) {
  out.number(config.index());
  std::visit([&](const auto& one) { write_one(out, one); }, config);
}

KernelConfig read_config(ByteReader& in) {
  switch (in.number_up_to(std::variant_size_v<KernelConfig> - 1, "backend of a kernel")) {
    case 0:
      return read_cpu(in);
    case 1:
      return read_cuda(in);
    case 2:
      return read_cpu_map(in);
    case 3:
      return read_gpu_map(in);
    case 4:
      return CpuUserConfig{};
    case 5:
      return read_vendor(in);
    default:
      return read_gpu_user(in);
  }
}

void write_entries(ByteWriter& out, const std::vector<GpuEntry>& entries) {
  out.number(entries.size());
  for (const GpuEntry& entry : entries) {
    out.choice(entry.kind);
    out.number(entry.index);
    out.text(entry.symbol);
    for (int32_t size : {entry.threads, entry.shared_bytes, entry.results_per_block}) out.integer(size);
  }
}

std::vector<GpuEntry> read_entries(ByteReader& in) {
  std::vector<GpuEntry> entries;
  for (size_t n = in.count(4096, "number of entry points"); n > 0 && in.ok(); --n) {
    GpuEntry entry;
    entry.kind = in.choice<GpuEntry::Kind>(5, "kind of an entry point");
    entry.index = in.index("what an entry point computes");
    entry.symbol = in.text(max_name_bytes, "length of a symbol");
    entry.threads = in.small(1, max_gpu_threads, "threads");
    entry.shared_bytes = in.small(0, max_gpu_shared, "shared_bytes");
    entry.results_per_block = in.small(1, max_gpu_tile, "results_per_block");
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
    out.flag(map.column_major);
  }
}

std::vector<CudaTensorMap> read_maps(ByteReader& in) {
  std::vector<CudaTensorMap> maps;
  for (size_t n = in.count(256, "number of tensor maps"); n > 0 && in.ok(); --n) {
    CudaTensorMap map;
    map.source = in.choice<CudaTensorMap::Source>(6, "source of a tensor map");
    map.operand = in.index("operand of a tensor map");
    map.box_fast = in.small(1, 256, "box_fast");
    map.box_slow = in.small(1, 256, "box_slow");
    map.swizzle_bytes = in.small(0, 128, "swizzle_bytes");
    map.column_major = in.flag();
    maps.push_back(map);
  }
  return maps;
}

}  // namespace codetta::package

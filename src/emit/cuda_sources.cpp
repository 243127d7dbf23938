// SPDX-License-Identifier: Apache-2.0
#include "emit/cuda_sources.hpp"

#include <algorithm>
#include <array>

#include "plan/copy_engine.hpp"
#include "plan/families_cuda.hpp"
#include "types/dtype.hpp"

namespace codetta::emit {

using base::CodeWriter;
using package::GpuFamily;
using package::GpuGemmConfig;

namespace {

void no_defines(CodeWriter&, const GpuGemmConfig&) {}
void no_constants(CodeWriter&, const GpuGemmConfig&) {}
void no_maps(const package::EpilogueProgram&, const GpuGemmConfig&, std::vector<package::CudaTensorMap>&) {}

// The matrix instruction: 32 bytes of K a step; 16-bit operands may lie along M and N.
void wgmma_defines(CodeWriter& out, const GpuGemmConfig& config) {
  const auto type = [](DType d) -> std::string_view {
    return d == DType::f16      ? "f16"
           : d == DType::bf16   ? "bf16"
           : d == DType::f32    ? "tf32"
           : d == DType::f8e4m3 ? "e4m3"
           : d == DType::f8e5m2 ? "e5m2"
           : d == DType::i8     ? "s8"
                                : "u8";
  };
  const bool integers = config.accumulator == DType::i32, half = types::byte_size(config.a_dtype) == 2;
  out.line("#define CODETTA_WGMMA_N ", config.tile_n);
  out.line("#define CODETTA_WGMMA_TYPES \"k", 32 / types::byte_size(config.a_dtype), integers ? ".s32." : ".f32.",
           type(config.a_dtype), ".", type(config.b_dtype), "\"");
  if (half) {
    out.line("#define CODETTA_WGMMA_FLAGS \", 1, 1, ", config.a_k_major ? 0 : 1, ", ", config.b_k_major ? 0 : 1, "\"");
  } else {
    out.line("#define CODETTA_WGMMA_FLAGS \"", integers ? "" : ", 1, 1", "\"");
  }
}
// Products of a stage stay in flight while the next is waited for: 1.2 times as fast where consumers take turns.
void sm90_constants(CodeWriter& out, const GpuGemmConfig&) { out.line("static constexpr int wait_depth = 1;"); }
// An A that is made comes from another tensor.
void bring_for_a(const package::EpilogueProgram& program, package::CudaTensorMap& map) {
  const package::FactorProgram* a = program.made(package::FactorProgram::Which::A);
  if (a == nullptr) return;
  map.source = a->batch_in_rows ? package::CudaTensorMap::Source::MadeRows : package::CudaTensorMap::Source::MadeA;
  map.operand = plan::brought_for_a(program).value_or(0);
}
// Boxes of 128 bytes along the fast dim: 64 of K, or 64 rows or columns of tile_k steps.
void sm90_maps(const package::EpilogueProgram& program, const GpuGemmConfig& config,
               std::vector<package::CudaTensorMap>& maps) {
  const plan::Sm90Shape shape = plan::sm90_shape(program, config);
  const auto box = [&](package::CudaTensorMap::Source source, bool k_major, int64_t rows) {
    const auto fast = static_cast<int32_t>(128 / types::byte_size(config.a_dtype));
    maps.push_back({source, 0, fast, k_major ? static_cast<int32_t>(rows) : config.tile_k, 128});
  };
  box(package::CudaTensorMap::Source::A, config.a_k_major, shape.a_box_rows);
  bring_for_a(program, maps[0]);
  box(package::CudaTensorMap::Source::B, config.b_k_major, shape.b_box_rows);
}
// Of the epilogue: a warp's rows of a piece, at most 128 bytes wide, or columns of 16 rows
// (device/cuda/kernels/copies.h).
void copied_maps(const package::EpilogueProgram& program, const GpuGemmConfig& config,
                 std::vector<package::CudaTensorMap>& maps) {
  const plan::Copies copies = plan::copies_of(program).value_or(plan::Copies{});
  for (const auto* list : {&copies.loads, &copies.stores}) {
    for (const uint32_t k : *list) {
      const auto size = static_cast<int32_t>(types::byte_size(program.operands[k].dtype));
      const bool column_major = program.operands[k].column_major;
      const int32_t fast = column_major ? 16 : std::min(config.piece_cols, 128 / size);
      const int32_t slow = column_major ? config.piece_cols : 16;
      maps.push_back({package::CudaTensorMap::Source::Operand, k, fast, slow, fast * size, column_major});
    }
  }
  for (const uint32_t k : plan::tables_of(program))
    maps.push_back({package::CudaTensorMap::Source::Operand, k, 32, 16, 0, false});
}

// Launched whole, a grid hands tiles to blocks that have become free.
void sm100_constants(CodeWriter& out, const GpuGemmConfig& config) {
  out.line("static constexpr bool dynamic = ", !config.persistent, ";");
}
void sm100_maps(const package::EpilogueProgram& program, const GpuGemmConfig& config,
                std::vector<package::CudaTensorMap>& maps) {
  const plan::Sm100Shape shape = plan::sm100_shape(program, config);
  const auto fast = static_cast<int32_t>(128 / types::byte_size(config.a_dtype));
  const auto columns = static_cast<int32_t>(shape.b_box_cols);
  maps.push_back({package::CudaTensorMap::Source::A, 0, fast, config.a_k_major ? config.tile_m : config.tile_k, 128});
  bring_for_a(program, maps[0]);
  maps.push_back({package::CudaTensorMap::Source::B, 0, fast, config.b_k_major ? columns : config.tile_k, 128});
}

constexpr std::array family_sources{
    FamilySource{GpuFamily::Simt, "device/gpu/kernels/simt.h", "gemm_simt", false, no_defines, no_constants, no_maps},
    FamilySource{GpuFamily::Sm90, "device/cuda/kernels/sm90.h", "gemm_sm90", true, wgmma_defines, sm90_constants,
                 sm90_maps},
    FamilySource{GpuFamily::Sm80, "device/cuda/kernels/sm80.h", "gemm_sm80", true, no_defines, no_constants, no_maps},
    FamilySource{GpuFamily::Sm100, "device/cuda/kernels/sm100.h", "gemm_sm100", true, no_defines, sm100_constants,
                 sm100_maps},
    FamilySource{GpuFamily::Stream, "device/cuda/kernels/stream.h", "gemm_stream", true, no_defines, no_constants,
                 no_maps},
    FamilySource{GpuFamily::Mfma, "device/hip/kernels/mfma.h", "gemm_mfma", false, no_defines, no_constants, no_maps},
    FamilySource{GpuFamily::Wmma, "device/hip/kernels/wmma.h", "gemm_wmma", false, no_defines, no_constants, no_maps},
};

constexpr FamilySource map_source{GpuFamily::Simt, "device/gpu/kernels/map.h", {}, false, no_defines, no_constants,
                                  no_maps};

}  // namespace

const FamilySource* find_source(GpuFamily family) {
  const auto* found =
      std::find_if(family_sources.begin(), family_sources.end(), [&](const auto& f) { return f.family == family; });
  return found == family_sources.end() ? nullptr : found;
}

const FamilySource& source_of_maps() { return map_source; }

std::vector<package::CudaTensorMap> maps_of(const FamilySource& family, const package::EpilogueProgram& program,
                                            const GpuGemmConfig& config) {
  std::vector<package::CudaTensorMap> maps;
  family.maps(program, config, maps);
  if (maps.empty()) return maps;
  const bool spaces = !program.spaces.empty();
  const auto copied = [&](size_t product) {
    if (config.copied) copied_maps(spaces ? package::program_of(program, product) : program, config, maps);
  };
  copied(0);
  for (size_t p = 0; p < program.more_b.size(); ++p) {
    package::CudaTensorMap map = maps[1];
    map.source = package::CudaTensorMap::Source::MoreB;
    map.operand = program.more_b[p];
    maps.push_back(map);
    if (spaces) copied(p + 1);
  }
  for (uint32_t item = 1; item < static_cast<uint32_t>(config.spread_a); ++item) {
    package::CudaTensorMap map = maps[0];
    map.operand = item;
    maps.push_back(map);
  }
  return maps;
}

}  // namespace codetta::emit

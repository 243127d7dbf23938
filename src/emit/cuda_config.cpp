// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "emit/cuda_sources.hpp"
#include "emit/dialect.hpp"
#include "plan/copy_engine.hpp"
#include "types/dtype.hpp"

namespace codetta::emit {

using base::CodeWriter;
using package::GpuFamily;
using package::GpuGemmConfig;

namespace {

std::string_view storage_name(DType d) {
  switch (d) {
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::f8e4m3:
      return "f8e4m3";
    case DType::f8e5m2:
      return "f8e5m2";
    default:
      return cuda_dialect().type(d).element;
  }
}

}  // namespace

void print_cuda_config(CodeWriter& out, const package::EpilogueProgram& program, const GpuGemmConfig& c,
                       const FamilySource& family, std::string_view arch, int warp_rows) {
  const bool by_warpgroups = plan::feeds_on_copies(c.family), hip = arch.starts_with("gfx");
  const auto config = out.block_with("};", "struct Config");
  out.line("using A = ", storage_name(c.a_dtype), ";");
  out.line("using B = ", storage_name(c.b_dtype), ";");
  out.line("using Accumulator = ", storage_name(c.accumulator), ";");
  const auto number = [&](std::string_view name, int value) {
    out.line("static constexpr int ", name, " = ", value, ";");
  };
  number("tile_m", c.tile_m);
  number("tile_n", c.tile_n);
  number("tile_k", c.tile_k);
  number("stages", c.stages);
  number("cluster_m", c.cluster_m);
  number("cluster_n", c.cluster_n);
  number("consumers", c.consumers);
  number("k_split", c.k_split);
  number("piece_rows", c.piece_rows);
  number("piece_cols", c.piece_cols);
  number("threads", c.threads);
  number("shared_bytes", c.shared_bytes);
  number("ways", program.split.ways);
  number("alignment", c.alignment);
  number("warp_rows", warp_rows);
  if (hip) out.line("static constexpr int gfx = 0x", arch.substr(3), ";");
  constexpr std::string_view math[] = {"Strict", "Tf32x3", "Tf32", "Fp8FastAccumulation", "Fp8TwoLevelAccumulation"};
  out.line("static constexpr MathMode math = MathMode::", math[static_cast<size_t>(c.math)], ";");
  out.line("static constexpr bool pingpong = ", c.pingpong, ";");
  out.line("static constexpr bool from_registers = ", c.from_registers, ";");
  if (c.family == GpuFamily::Sm90) {
    out.line("static constexpr bool copied = ", c.copied, ";");
    out.line("static constexpr bool stream_k = ", c.stream_k, ";");
  }
  if (by_warpgroups) out.line("static constexpr bool makes_a = ", program.makes_a(), ";");
  if (c.family == GpuFamily::Sm90) {
    number("spread_a", c.spread_a);
    number("a_rows", c.a_rows > 0 ? c.a_rows : c.tile_m);
    number("b_run", plan::columns_side_by_side(program, c));
  }
  out.line("static constexpr bool a_k_major = ", c.a_k_major, ";");
  out.line("static constexpr bool b_k_major = ", c.b_k_major, ";");
  family.constants(out, c);
}

}  // namespace codetta::emit

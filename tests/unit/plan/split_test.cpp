// SPDX-License-Identifier: Apache-2.0
// Splits of columns whose number is a symbol's: a likely number of columns says nothing of where the parts of a run
// lie.
#include <gtest/gtest.h>

#include <set>

#include "plan/families_cuda.hpp"
#include "support/plain_store.hpp"
#include "types/dtype.hpp"
#include "unit/plan/gpu_discovery.hpp"

namespace {

using namespace codetta;
using package::GpuFamily;
using package::GpuGemmConfig;

// Columns of a part of which a copy, or a load, takes neighbours; 1: it takes each by itself.
int64_t neighbours(const package::EpilogueProgram& program, const GpuGemmConfig& c) {
  if (c.family == GpuFamily::Sm90) return plan::sm90_shape(program, c).b_box_rows;
  if (c.family == GpuFamily::Sm100) return plan::sm100_shape(program, c).b_box_cols;
  const int64_t element = types::byte_size(c.b_dtype), bytes = c.alignment >= 4 ? c.alignment : 16;
  const bool hip = c.family == GpuFamily::Mfma || c.family == GpuFamily::Wmma;
  return c.b_k_major || c.family == GpuFamily::Simt ? 1 : (hip ? 16 : bytes) / element;
}

TEST(SplitsOfAnyColumns, NoNeighboursBeyondAChunk) {
  const struct {
    Backend backend;
    const char* arch;
    int64_t chunk;
    GpuFamily family;
  } cases[] = {
      {Backend::cuda, "sm_80", 255, GpuFamily::Sm80},     {Backend::cuda, "sm_90a", 1272, GpuFamily::Sm90},
      {Backend::cuda, "sm_100a", 1272, GpuFamily::Sm100}, {Backend::hip, "gfx942", 252, GpuFamily::Mfma},
      {Backend::hip, "gfx1100", 252, GpuFamily::Wmma},
  };
  for (const auto& [backend, arch, chunk, family] : cases) {
    package::EpilogueProgram program = test::plain_store(DType::f32, DType::bf16);
    program.split.ways = 2;
    program.split.chunk = types::Dim::constant(chunk);
    plan::GemmShape shape = test::gpu_shape(4096, 2 * chunk, 256, DType::bf16);
    const Target target{backend, CpuIsa::generic, arch};
    const auto beyond = [&] {
      std::set<GpuFamily> families;
      for (const plan::Candidate& candidate : plan::discover(program, shape, target, {}).candidates) {
        const GpuGemmConfig& c = package::gpu(candidate.config);
        if (chunk % neighbours(program, c) != 0) families.insert(c.family);
      }
      return families;
    };
    EXPECT_TRUE(beyond().contains(family)) << arch;  // one chunk is all columns of a part
    shape.any_n = true;
    EXPECT_TRUE(beyond().empty()) << arch;
  }
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// What Metal's families refuse, with which code and which numbers; and what their configurations keep to.
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/families_metal.hpp"
#include "support/code_recorder.hpp"
#include "support/plain_store.hpp"
#include "types/dtype.hpp"
#include "unit/plan/bind_text.hpp"
#include "unit/plan/gpu_discovery.hpp"

namespace {

using namespace codetta;
using package::GpuFamily;
using plan::Discovery;
using plan::GemmShape;
using test::has_family;
using test::reasons_of;

GemmShape metal_shape(int64_t m, int64_t n, int64_t k, DType dtype = DType::f16) {
  return test::gpu_shape(m, n, k, dtype);
}

package::EpilogueProgram metal_parts(int ways, int64_t chunk) {
  package::EpilogueProgram program = test::plain_store(DType::f32, DType::f16);
  program.split.ways = ways;
  program.split.chunk = types::Dim::constant(chunk);
  return program;
}

Discovery metal_found(const GemmShape& shape, const std::string& family,
                      const package::EpilogueProgram* program = nullptr) {
  const package::EpilogueProgram plain = test::plain_store(shape.accumulator, shape.accumulator);
  return plan::discover(program != nullptr ? *program : plain, shape, {Backend::metal, CpuIsa::generic, family}, {});
}

TEST(MetalCandidates, MatricesAreOfferedWhereTheFamilyPromisesThem) {
  for (const char* family : {"apple7", "apple8", "apple9", "apple10", "metal4"}) {
    const Discovery found = metal_found(metal_shape(512, 512, 512), family);
    EXPECT_TRUE(has_family(found, GpuFamily::Simdgroup)) << family;
    EXPECT_TRUE(has_family(found, GpuFamily::Simt)) << family;
    EXPECT_EQ(reasons_of(found, "metal_simdgroup"), "");
  }
  for (const char* family : {"metal3", "mac2"}) {
    const Discovery found = metal_found(metal_shape(512, 512, 512), family);
    EXPECT_FALSE(has_family(found, GpuFamily::Simdgroup)) << family;
    EXPECT_TRUE(has_family(found, GpuFamily::Simt)) << family;
    EXPECT_EQ(
        reasons_of(found, "metal_simdgroup"),
        "E0404: " + std::string(family) + " does not promise matrices of a SIMD group; apple7 and later have them\n");
  }
}

// More than the parameters of a launch hold.
TEST(MetalCandidates, TooManyTensors) {
  package::EpilogueProgram program = test::plain_store(DType::f32, DType::f16), most = program;
  while (program.operands.size() < 60) program.operands.push_back(program.operands[0]);
  while (most.operands.size() < 49) most.operands.push_back(most.operands[0]);
  for (const auto& [backend, arch] :
       {std::pair(Backend::metal, "apple9"), {Backend::hip, "gfx942"}, {Backend::cuda, "sm_90a"}}) {
    const auto found_for = [&, backend = backend, arch = arch] {
      return plan::discover(program, metal_shape(64, 64, 64), {backend, CpuIsa::generic, arch}, {});
    };
    const Discovery found = found_for();
    EXPECT_TRUE(found.candidates.empty()) << arch;
    ASSERT_EQ(found.rejections.size(), 1U) << arch;
    EXPECT_EQ(found.rejections[0].code, 419) << arch;
    EXPECT_EQ(found.rejections[0].text,
              "4344 bytes of a launch's parameters are needed: 4320 bytes for 60 operands, 8 bytes for 1 argument, 16 "
              "bytes for 1 place for a reduction; 3608 are free");
    // The last that is passed: one place of a reduction is there without any.
    std::swap(program, most);
    for (const size_t arguments : {8, 9}) {
      while (program.arguments.size() < arguments) program.arguments.push_back(program.arguments[0]);
      EXPECT_EQ(found_for().candidates.empty(), arguments == 9) << arch;
    }
    program.arguments.resize(1);
    std::swap(program, most);
  }
}

TEST(MetalCandidates, WhatTheMatricesDoNotMultiplyIsNamed) {
  for (const DType dtype : {DType::i8, DType::u8}) {
    const Discovery found = metal_found(metal_shape(64, 64, 64, dtype), "apple9");
    EXPECT_TRUE(has_family(found, GpuFamily::Simt)) << dtype_name(dtype);
    const std::string why = reasons_of(found, "metal_simdgroup"), name(dtype_name(dtype));
    EXPECT_TRUE(why.starts_with("E0405: " + name + " x " + name)) << why;
  }
  GemmShape shape = metal_shape(64, 64, 64, DType::f8e4m3);
  EXPECT_TRUE(has_family(metal_found(shape, "apple9"), GpuFamily::Simdgroup));
  shape.math = MathMode::Fp8FastAccumulation;
  EXPECT_TRUE(has_family(metal_found(shape, "apple9"), GpuFamily::Simdgroup))
      << "a permission, which nothing has to use";
}

TEST(MetalCandidates, FactorsWithoutNeighboursAreRefusedWithTheirStrides) {
  GemmShape shape = metal_shape(64, 64, 64);
  shape.a_row_stride = 256;
  shape.a_k_stride = 3;
  std::string why = reasons_of(metal_found(shape, "apple9"), "metal_simdgroup");
  EXPECT_TRUE(why.starts_with("E0407: A has strides 256 and 3")) << why;
  shape = metal_shape(64, 64, 64);
  shape.b_k_stride = 128;
  shape.b_col_stride = 2;
  const Discovery found = metal_found(shape, "apple9");
  why = reasons_of(found, "metal_simdgroup");
  EXPECT_TRUE(why.starts_with("E0407: B has strides 128 and 2")) << why;
  EXPECT_TRUE(has_family(found, GpuFamily::Simt));
}

TEST(MetalCandidates, ConfigurationsKeepToThreadgroupMemoryAndThreads) {
  for (const int ways : {1, 2, 4, 8, 16}) {
    const package::EpilogueProgram program = metal_parts(ways, 4096 / ways);
    const GemmShape shape = metal_shape(256, 4096, 4096);
    const plan::GpuProblem problem{program, shape, plan::metal_facts("apple9")};
    for (const plan::GpuFamilyInfo& family : plan::metal_families()) {
      if (family.refuse(problem)) continue;
      const auto configs = family.configurations(problem);
      EXPECT_FALSE(configs.empty()) << ways;
      for (const package::GpuGemmConfig& c : configs) {
        EXPECT_LE(plan::metal_shared_bytes(program, c), plan::metal_threadgroup_bytes);
        EXPECT_LE(c.threads, plan::metal_threadgroup_threads);
        EXPECT_EQ(c.threads % 32, 0);
      }
    }
  }
}

// Positions of threads have 32 bits: larger tiles reach further.
TEST(MetalCandidates, WithinAGrid) {
  const GemmShape many = metal_shape(int64_t{1} << 30, 24, 2);
  const Discovery found = metal_found(many, "metal3");
  EXPECT_FALSE(found.candidates.empty());
  for (const plan::Candidate& candidate : found.candidates) {
    const package::GpuGemmConfig& c = package::gpu(candidate.config);
    const int64_t tiles = (many.m + c.tile_m - 1) / c.tile_m * ((many.n + c.tile_n - 1) / c.tile_n);
    EXPECT_LE(tiles * c.threads, int64_t{UINT32_MAX}) << candidate.name;
  }
  for (const auto& [name, family] : {std::pair{"metal_simt", "metal3"}, {"metal_simdgroup", "apple9"}}) {
    EXPECT_EQ(
        reasons_of(metal_found(metal_shape(int64_t{1} << 40, 512, 512), family), name),
        "E0406: 1099511627776 x 512 in 1 batch items are more tiles than a grid of 4294967295 threads computes\n");
    // Without columns there are no tiles.
    EXPECT_EQ(reasons_of(metal_found(metal_shape(int64_t{1} << 40, 0, 512), family), name), "");
  }
}

TEST(MetalCandidates, TooManyPartsForThreadgroupMemorySayHowMuchTheyNeed) {
  const package::EpilogueProgram program = metal_parts(2048, 2);
  const Discovery found = metal_found(metal_shape(64, 4096, 64), "apple9", &program);
  EXPECT_TRUE(found.candidates.empty());
  for (const char* kernel : {"metal_simt", "metal_simdgroup"}) {
    const std::string why = reasons_of(found, kernel);
    EXPECT_TRUE(why.starts_with("E0406: ")) << why;
    EXPECT_NE(why.find("bytes of threadgroup memory, 32768 are available"), std::string::npos) << why;
  }
}

TEST(MetalCandidates, F64IsRefusedAsAccumulatorValueAndOutput) {
  const Discovery found = metal_found(metal_shape(64, 64, 64, DType::f64), "apple9");
  EXPECT_TRUE(found.candidates.empty());
  ASSERT_EQ(found.rejections.size(), 1u);
  EXPECT_EQ(found.rejections[0].code, static_cast<uint16_t>(diag::Code::accumulator_unsupported));
  test::record_code(found.rejections[0].code);
  auto facts = test::gemm_facts(64, 64, 64, DType::f16);
  const auto refused = [&](const char* text, DType out) {
    const auto graph = test::bind_text(text, {test::tensor("D", out, {64, 64})}, facts);
    if (!graph) return graph.error().render();
    const auto checked = plan::check_for_metal(*graph);
    return checked ? std::string() : checked.error().render();
  };
  const std::string value = refused("def f(accum):\n    D = cast(accum, f64) * 2.0\n    return D\n", DType::f32);
  EXPECT_NE(value.find("E0311"), std::string::npos) << value;
  EXPECT_NE(value.find("e.py:2"), std::string::npos) << value;
  const std::string output = refused("def f(accum):\n    D = accum * 2.0\n    return D\n", DType::f64);
  EXPECT_NE(output.find("E0311"), std::string::npos) << output;
  EXPECT_NE(output.find("output D is f64"), std::string::npos) << output;
  EXPECT_EQ(refused("def f(accum):\n    D = accum * 2.0\n    return D\n", DType::f32), "");
  // What is not in the text is named.
  facts.b = facts.accumulator = DType::f64;
  const std::string factor = refused("def f(accum):\n    D = accum * 2.0\n    return D\n", DType::f32);
  EXPECT_NE(factor.find("E0311"), std::string::npos) << factor;
  EXPECT_NE(factor.find("B is f64["), std::string::npos) << factor;
}

TEST(MetalCandidates, PackedFactorsAreRefused) {
  GemmShape shape = metal_shape(64, 64, 64);
  shape.b_packed = true;
  const Discovery found = metal_found(shape, "apple9");
  EXPECT_TRUE(found.candidates.empty());
  ASSERT_EQ(found.rejections.size(), 1u);
  EXPECT_EQ(found.rejections[0].code, static_cast<uint16_t>(diag::Code::packed_unused));
}

}  // namespace

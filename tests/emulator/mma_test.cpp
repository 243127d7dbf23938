// SPDX-License-Identifier: Apache-2.0
// mma.sync and ldmatrix against elements that are named by hand from the tables of the PTX ISA.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "emulator/compile.hpp"
#include "emulator/object.hpp"

namespace codetta::emulator {
namespace {

Result<Object> load(const std::string& body) {
  CODETTA_TRY(const Compiler compiler, Compiler::find());
  CODETTA_TRY(const std::string object,
              compiler.compile("#define CODETTA_LANES 1\n#include \"emulator/include/device/cuda/mma.h\"\n"
                               "namespace codetta::gpu {\n" +
                                   body + "}\n",
                               {"--gpu-architecture=sm_89"}));
  return Object::load(object);
}

std::string run(const Object& object, void* out, Bits shared = 0) {
  const void* addresses[] = {&out};
  Grid grid;
  grid.threads.x = 32;
  grid.dynamic_shared = shared;
  return launch(object.kernel("probe"), grid, addresses).value_or("");
}

// One element of A and one of B are 1; D says where they met.
TEST(EmulatedMma, ElementsAsTheTablesSay) {
  struct Element {
    const char *type, *word, *one, *sum;
    int a_lane, a_element, b_lane, b_element, d_lane, d_register;
  };
  const Element elements[] = {
      // A (9, 5), B (5, 3), D (9, 3).
      {"bf16", "u16", "0x3f80", "float", 6, 3, 14, 1, 5, 3},
      {"f16", "u16", "0x3c00", "float", 6, 3, 14, 1, 5, 3},
      // A (2, 6), B (6, 7), D (2, 7).
      {"f32", "u32", "0x3f800000", "float", 10, 2, 30, 1, 11, 1},
      // A (12, 22), B (22, 0), D (12, 0).
      {"i8", "u8", "1", "int", 17, 14, 1, 6, 16, 2},
      {"f8e4m3", "u8", "0x38", "float", 17, 14, 1, 6, 16, 2},
      {"f8e5m2", "u8", "0x3c", "float", 17, 14, 1, 6, 16, 2},
  };
  for (const Element& e : elements) {
    const int per_word = std::string(e.word) == "u32" ? 1 : std::string(e.word) == "u16" ? 2 : 4;
    auto object = load(fmt::format(
        R"(extern "C" __global__ void probe({0}* out) {{
  {1} a[{2}] = {{}}, b[{3}] = {{}};
  if (threadIdx.x == {4}) a[{5}] = {6};
  if (threadIdx.x == {7}) b[{8}] = {6};
  u32 x[4], y[2];
  memcpy(x, a, sizeof x), memcpy(y, b, sizeof y);
  {0} d[4] = {{}};
  Mma<{9}, {9}>::add(d, x, y[0], y[1]);
  for (int r = 0; r < 4; ++r) out[threadIdx.x * 4 + r] = d[r];
}}
)",
        e.sum, e.word, 4 * per_word, 2 * per_word, e.a_lane, e.a_element, e.one, e.b_lane, e.b_element, e.type));
    ASSERT_TRUE(object) << object.error().render();
    std::vector<float> out(128, 7);
    EXPECT_EQ(run(*object, out.data()), "");
    for (int i = 0; i < 128; ++i) {
      int whole = 0;
      std::memcpy(&whole, &out[static_cast<size_t>(i)], sizeof whole);
      const double got = std::string(e.sum) == "int" ? whole : static_cast<double>(out[static_cast<size_t>(i)]);
      EXPECT_EQ(got, i == e.d_lane * 4 + e.d_register ? 1 : 0)
          << e.type << ", lane " << i / 4 << ", register " << i % 4;
    }
  }
}

// Four matrices of 8 x 8 whose element (r, c) of matrix m is 64 m + 8 r + c.
TEST(EmulatedMma, LdmatrixAsTheTableSays) {
  for (const bool transposed : {false, true}) {
    auto object = load(fmt::format(R"(extern "C" __global__ void probe(u32* out) {{
  extern __shared__ __align__(128) unsigned char shared[];
  for (int i = threadIdx.x; i < 256; i += 32) ((u16*)shared)[i] = (u16)i;
  __syncthreads();
  u32 r[4];
  ptx::load_matrices<{}>(r, ptx::shared_address(shared) + threadIdx.x * 16);
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = r[i];
}}
)",
                                   transposed));
    ASSERT_TRUE(object) << object.error().render();
    std::vector<Word> out(128);
    EXPECT_EQ(run(*object, out.data(), 512), "");
    // Lane 13 = 4 * 3 + 1 has elements (3, 2), (3, 3) of each matrix, or of the transposed one: (2, 3), (3, 3).
    for (Word m = 0; m < 4; ++m) {
      const Word base = 64 * m;
      EXPECT_EQ(out[13 * 4 + m], transposed ? (base + 19) | (base + 27) << 16 : (base + 26) | (base + 27) << 16);
    }
    EXPECT_NE(run(*object, out.data(), 256), "");  // less shared memory than the kernel uses
  }
}

}  // namespace
}  // namespace codetta::emulator

// SPDX-License-Identifier: Apache-2.0
// AMD's matrix instructions: the emulated ones against elements named by hand, and the products of device/hip/kernels,
// with their own layouts, against plain loops.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "device/gpu/abi.h"
#include "emulator/compile.hpp"
#include "emulator/faults.hpp"
#include "emulator/object.hpp"
#include "types/convert.hpp"

namespace codetta::emulator {
namespace {

Result<Object> load(const std::string& source, const std::string& gfx) {
  CODETTA_TRY(const Compiler compiler, Compiler::find());
  CODETTA_TRY(const std::string object, compiler.compile(source, {"--offload-arch=" + gfx}));
  return Object::load(object);
}

struct Case {
  std::string gfx, name;  // of the storage type in kernels
  DType dtype;
  int tile_k;
  bool a_k_major, b_k_major;
};

constexpr int tile_m = 64, tile_n = 32, waves = 2;

// A configuration as emission prints it, and an epilogue that stores accumulators as they are.
std::string source_of(const Case& c) {
  const bool cdna = c.gfx == "gfx90a" || c.gfx == "gfx942";
  const std::string sum = c.dtype == DType::f64 ? "f64" : dtype_size(c.dtype) == 1 ? "i32" : "f32";
  const int size = static_cast<int>(dtype_size(c.dtype));
  const int wide = c.dtype == DType::f64 ? 8 : 4;
  const int stages = 2 * (tile_m + tile_n) * (c.tile_k * size + 16);
  const int piece = tile_m * (tile_n + (cdna ? 4 : 16)) * wide + 16;
  return fmt::format(R"(#define CODETTA_LANES 1
#define CODETTA_F64
#define CODETTA_INT
#include "device/gpu/phase.h"
#include "device/hip/kernels/{0}.h"
namespace codetta::gpu {{
struct Config {{
  using A = {1};
  using B = {1};
  using Accumulator = {2};
  static constexpr int gfx = 0x{3}, tile_m = {4}, tile_n = {5}, tile_k = {6}, consumers = {7}, threads = {8}, k_split = 1;
  static constexpr int piece_rows = {4}, piece_cols = {5}, ways = 1, alignment = {9}, shared_bytes = {10};
  static constexpr bool a_k_major = {11}, b_k_major = {12};
}};
using Parameters = Params<0, 1, 0, 0>;
struct Epilogue {{
  static constexpr int scratch_bytes(int) {{ return 16; }}
  template <class P>
  static void phase_0(const P& params, const Tile& t) {{
    for (int i = t.thread; i < t.rows * t.cols; i += t.threads) {{
      const int r = i / t.cols, c = i % t.cols;
      (({2}*)params.operand[0].data)[(t.row + r) * params.operand[0].stride[1] + t.col + c] =
          (({2}*)t.acc)[r * t.acc_ld + c];
    }}
  }}
}};
extern "C" __global__ void product(const Parameters params) {{ gemm_{0}<Config, Epilogue>(params); }}
}}
)",
                     cdna ? "mfma" : "wmma", c.name, sum, c.gfx.substr(3), tile_m, tile_n, c.tile_k, waves,
                     waves * (cdna ? 64 : 32), size, std::max(stages, piece) + 16, c.a_k_major, c.b_k_major);
}

class Guarded {
 public:
  explicit Guarded(size_t bytes) : memory_(static_cast<unsigned char*>(allocate_guarded(bytes, false))) {}
  ~Guarded() { free_guarded(memory_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  unsigned char* operator()() const { return memory_; }

 private:
  unsigned char* memory_;
};

std::string run(const Case& c, int64_t m, int64_t n, int64_t k) {
  auto object = load(source_of(c), c.gfx);
  if (!object) return object.error().render();
  const int64_t size = dtype_size(c.dtype), wide = c.dtype == DType::f64 ? 8 : 4;
  const DType sum = c.dtype == DType::f64 ? DType::f64 : size == 1 ? DType::i32 : DType::f32;
  const Guarded a(static_cast<size_t>(m * k * size)), b(static_cast<size_t>(k * n * size)),
      d(static_cast<size_t>(m * n * wide));
  const auto at_a = [&](int64_t row, int64_t col) { return c.a_k_major ? row * k + col : col * m + row; };
  const auto at_b = [&](int64_t row, int64_t col) { return c.b_k_major ? col * k + row : row * n + col; };
  // Small integers, so that sums are exact and every misplaced element shows.
  const auto fill = [&](const Guarded& to, int64_t count, int64_t step) {
    for (int64_t i = 0; i < count; ++i)
      types::store_f64(to() + i * size, c.dtype, static_cast<double>((i * step + i / 7) % 15 - 7));
  };
  fill(a, m * k, 5);
  fill(b, k * n, 11);
  using Parameters = gpu::Params<0, 1, 0, 0>;
  Parameters params{};
  gpu::Problem& p = params.problem;
  p.a = a(), p.b = b();
  p.a_row = c.a_k_major ? k : 1, p.a_k = c.a_k_major ? 1 : m;
  p.b_k = c.b_k_major ? 1 : n, p.b_col = c.b_k_major ? k : 1;
  p.batches = 1, p.m = p.rows = m, p.n = p.cols = p.chunk = n, p.k = k;
  p.tiles_m = p.pieces_m = (m + tile_m - 1) / tile_m, p.tiles_n = p.pieces_n = (n + tile_n - 1) / tile_n;
  p.k_split = 1, p.k_slice = (k + c.tile_k - 1) / c.tile_k * c.tile_k, p.group = 2;
  params.operand[0].data = d();
  params.operand[0].stride[1] = n;
  Grid grid;
  grid.blocks.x = static_cast<Word>(p.tiles_m * p.tiles_n);
  grid.lanes = c.gfx == "gfx90a" || c.gfx == "gfx942" ? 64 : 32;
  grid.threads.x = static_cast<Word>(waves) * grid.lanes;
  const void* addresses[] = {&params};
  if (auto failure = launch(object->kernel("product"), grid, addresses)) return *failure;
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t col = 0; col < n; ++col) {
      double expected = 0;
      for (int64_t i = 0; i < k; ++i)
        expected +=
            types::load_f64(a() + at_a(row, i) * size, c.dtype) * types::load_f64(b() + at_b(i, col) * size, c.dtype);
      const double got = types::load_f64(d() + (row * n + col) * wide, sum);
      if (got != expected) return fmt::format("({}, {}) is {} instead of {}", row, col, got, expected);
    }
  }
  return "";
}

TEST(EmulatedHip, ProductsOfEveryInstruction) {
  int which = 0;
  for (const std::string gfx : {"gfx90a", "gfx942", "gfx1100", "gfx1201"}) {
    for (const auto& [name, dtype] : {std::pair("f16", DType::f16),
                                      {"bf16", DType::bf16},
                                      {"i8", DType::i8},
                                      {"u8", DType::u8},
                                      {"f32", DType::f32},
                                      {"f64", DType::f64}}) {
      const bool cdna = gfx == "gfx90a" || gfx == "gfx942";
      if (dtype_size(dtype) >= 4 ? !cdna : dtype == DType::u8 && cdna) continue;
      Case c{gfx, name, dtype, static_cast<int>(64 / dtype_size(dtype)), which % 2 == 0, which % 3 == 0};
      ++which;
      EXPECT_EQ(run(c, 70, 45, 100), "") << gfx << " " << name << (c.a_k_major ? ", A along K" : "")
                                         << (c.b_k_major ? ", B along K" : "");
    }
  }
}

TEST(EmulatedHip, NothingIsReadWhereKIsEmpty) {
  EXPECT_EQ(run({"gfx942", "f16", DType::f16, 32, true, false}, 5, 3, 0), "");
  EXPECT_EQ(run({"gfx1100", "bf16", DType::bf16, 32, false, true}, 5, 3, 0), "");
}

// One wave; lane l gives A its number and B 1 in one element, so that D says which elements met.
TEST(EmulatedHip, InstructionsAsTheVendorsTablesSay) {
  struct Element {
    const char *gfx, *call;
    int lanes, words, results, size;
    int a_lane, a_element, b_lane, b_element;  // of the same k
    int d_lane, d_register;                    // where their product comes
  };
  const Element elements[] = {
      // A (row 5, k 6): lane 5 + 16 * 1, element 2. B (k 6, column 3): lane 3 + 16, element 2. D (5, 3): 4 * 1 + 1.
      {"gfx942", "mfma_f32_16x16x16_f16", 64, 2, 4, 2, 21, 2, 19, 2, 19, 1},
      {"gfx90a", "mfma_f32_16x16x16_bf16", 64, 2, 4, 2, 21, 2, 19, 2, 19, 1},
      // A (row 9, k 21): 8 elements a lane: lane 9 + 16 * 2, element 5. B likewise. D (9, 14): lanes 32 on, register 1.
      {"gfx942", "mfma_i32_16x16x32_i8", 64, 2, 4, 1, 41, 5, 46, 5, 46, 1},
      // gfx11: everything twice. A (row 7, k 11), D (7, 2): odd rows are in the upper half.
      {"gfx1100", "wmma_f32_16x16x16_f16", 32, 8, 8, 2, 7, 11, 2, 11, 18, 3},
      {"gfx1100", "wmma_i32_16x16x16_iu8<true, true>", 32, 4, 8, 1, 7, 11, 2, 11, 18, 3},
      // gfx12: k 8 to 15 and rows 8 to 15 are in the upper half.
      {"gfx1201", "wmma_f32_16x16x16_bf16", 32, 4, 8, 2, 28, 3, 20, 3, 20, 4},
      {"gfx1201", "wmma_i32_16x16x16_iu8<false, true>", 32, 2, 8, 1, 28, 3, 20, 3, 20, 4},
  };
  for (const Element& e : elements) {
    const bool sums = e.size == 1;
    const std::string one = sums ? "1" : std::string(e.call).find("bf16") != std::string::npos ? "0x3f80" : "0x3c00";
    const std::string source = fmt::format(
        R"(#define CODETTA_LANES 1
#include "device/gpu/convert.h"
#include "emulator/include/device/hip/matrix.h"
namespace codetta::gpu {{
extern "C" __global__ void probe({0}* out) {{
  {1} a[{2}] = {{}}, b[{2}] = {{}};
  const int lane = threadIdx.x;
  if (lane{3} == {4}) a[{5}] = {6};
  if (lane{3} == {7}) b[{8}] = {6};
  u32 x[{9}], y[{9}];
  memcpy(x, a, sizeof x), memcpy(y, b, sizeof y);
  {0} d[{10}] = {{}};
  {11}(d, x, y);
  for (int r = 0; r < {10}; ++r) out[lane * {10} + r] = d[r];
}}
}}
)",
        sums ? "int" : "float", sums ? "u8" : "u16", e.words * 4 / e.size,
        std::string(e.gfx) == "gfx1100" ? " % 16" : "", e.a_lane, e.a_element, one, e.b_lane, e.b_element, e.words,
        e.results, e.call);
    auto object = load(source, e.gfx);
    ASSERT_TRUE(object) << object.error().render();
    std::vector<float> out(static_cast<size_t>(e.lanes * e.results), 7);
    float* parameter = out.data();
    const void* addresses[] = {&parameter};
    Grid grid;
    grid.lanes = grid.threads.x = static_cast<Word>(e.lanes);
    EXPECT_EQ(launch(object->kernel("probe"), grid, addresses).value_or(""), "") << e.call;
    for (int i = 0; i < e.lanes * e.results; ++i) {
      int whole = 0;
      std::memcpy(&whole, &out[static_cast<size_t>(i)], sizeof whole);
      const double got = sums ? whole : static_cast<double>(out[static_cast<size_t>(i)]);
      EXPECT_EQ(got, i == e.d_lane * e.results + e.d_register ? 1 : 0)
          << e.gfx << " " << e.call << ", lane " << i / e.results << ", register " << i % e.results;
    }
  }
}

}  // namespace
}  // namespace codetta::emulator

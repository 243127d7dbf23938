// SPDX-License-Identifier: Apache-2.0
// AMD's matrix instructions: the emulated ones element by element, and the products of device/hip/kernels,
// with their own layouts, against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "device/gpu/abi.h"
#include "emulator/compile.hpp"
#include "emulator/faults.hpp"
#include "emulator/object.hpp"
#include "support/slice.hpp"
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
      if (!test::commit_takes(static_cast<uint64_t>(which + which / 3), 5)) continue;
      EXPECT_EQ(run(c, 70, 45, 100), "") << gfx << " " << name << (c.a_k_major ? ", A along K" : "")
                                         << (c.b_k_major ? ", B along K" : "");
    }
  }
}

TEST(EmulatedHip, NothingIsReadWhereKIsEmpty) {
  EXPECT_EQ(run({"gfx942", "f16", DType::f16, 32, true, false}, 5, 3, 0), "");
  EXPECT_EQ(run({"gfx1100", "bf16", DType::bf16, 32, false, true}, 5, 3, 0), "");
}

// An instruction of 16 x 16 x depth and where its elements are: A (row, k); B (k, column) lies likewise; D.
struct Instruction {
  const char *gfx, *call;  // x, y: the operands' words; a, b: their elements
  const char *element, *one, *sum;
  int lanes, size, words, results, depth;
  int (*lane)(int row, int k), (*place)(int k);  // of A
  int (*d_lane)(int row, int column), (*d_register)(int row);
};
// CDNA: 4 groups of 16 lanes, each with a part of k; D in rows of 4 registers, of f64 every fourth row.
int by_1(int row, int k) { return row + 16 * k; }
int by_4(int row, int k) { return row + 16 * (k / 4); }
int by_8(int row, int k) { return row + 16 * (k / 8); }
int first(int) { return 0; }
int of_4(int k) { return k % 4; }
int of_8(int k) { return k % 8; }
int cdna_lane(int row, int column) { return column + 16 * (row / 4); }
int f64_lane(int row, int column) { return column + 16 * (row % 4); }
int f64_register(int row) { return row / 4; }
// gfx11: the lower half of the wave has all of A (its upper half the same); D's odd rows are in the upper half.
int same_row(int row, int) { return row; }
int same_k(int k) { return k; }
int gfx11_lane(int row, int column) { return column + 16 * (row % 2); }
int gfx11_register(int row) { return row / 2; }
// gfx12: k from 8 on, and rows from 8 on, are in the upper half.
int gfx12_lane(int row, int column) { return column + 16 * (row / 8); }

const Instruction instructions[] = {
    {"gfx942", "mfma_f32_16x16x16_f16(d, x, y)", "u16", "0x3c00", "float", 64, 2, 2, 4, 16, by_4, of_4, cdna_lane,
     of_4},
    {"gfx90a", "mfma_f32_16x16x16_bf16(d, x, y)", "u16", "0x3f80", "float", 64, 2, 2, 4, 16, by_4, of_4, cdna_lane,
     of_4},
    {"gfx942", "mfma_f32_16x16x4_f32(d, a[0], b[0])", "float", "1", "float", 64, 4, 1, 4, 4, by_1, first, cdna_lane,
     of_4},
    {"gfx90a", "mfma_f64_16x16x4_f64(d, a[0], b[0])", "double", "1", "double", 64, 8, 2, 4, 4, by_1, first, f64_lane,
     f64_register},
    {"gfx90a", "mfma_i32_16x16x16_i8(d, x[0], y[0])", "u8", "1", "int", 64, 1, 1, 4, 16, by_4, of_4, cdna_lane, of_4},
    {"gfx942", "mfma_i32_16x16x32_i8(d, x, y)", "u8", "1", "int", 64, 1, 2, 4, 32, by_8, of_8, cdna_lane, of_4},
    {"gfx1100", "wmma_f32_16x16x16_f16(d, x, y)", "u16", "0x3c00", "float", 32, 2, 8, 8, 16, same_row, same_k,
     gfx11_lane, gfx11_register},
    {"gfx1100", "wmma_f32_16x16x16_bf16(d, x, y)", "u16", "0x3f80", "float", 32, 2, 8, 8, 16, same_row, same_k,
     gfx11_lane, gfx11_register},
    {"gfx1100", "wmma_i32_16x16x16_iu8<true, true>(d, x, y)", "u8", "1", "int", 32, 1, 4, 8, 16, same_row, same_k,
     gfx11_lane, gfx11_register},
    {"gfx1201", "wmma_f32_16x16x16_f16(d, x, y)", "u16", "0x3c00", "float", 32, 2, 4, 8, 16, by_8, of_8, gfx12_lane,
     of_8},
    {"gfx1201", "wmma_f32_16x16x16_bf16(d, x, y)", "u16", "0x3f80", "float", 32, 2, 4, 8, 16, by_8, of_8, gfx12_lane,
     of_8},
    {"gfx1201", "wmma_i32_16x16x16_iu8<false, true>(d, x, y)", "u8", "1", "int", 32, 1, 2, 8, 16, by_8, of_8,
     gfx12_lane, of_8},
};

// One wave in which A has a 1 in one element and B in another one: where D has one.
class Probe {
 public:
  explicit Probe(const Instruction& i)
      : lanes_(i.lanes),
        results_(i.results),
        object_(load(fmt::format(
                         R"(#define CODETTA_LANES 1
#define CODETTA_F64
#include "device/gpu/convert.h"
#include "emulator/include/device/hip/matrix.h"
namespace codetta::gpu {{
extern "C" __global__ void probe(double* out, const int* where) {{
  {0} a[{1}] = {{}}, b[{1}] = {{}};
  const int lane = threadIdx.x;
  if (lane{2} == where[0]) a[where[1]] = {3};
  if (lane{2} == where[2]) b[where[3]] = {3};
  u32 x[{4}], y[{4}];
  memcpy(x, a, sizeof x), memcpy(y, b, sizeof y);
  Registers<{5}, {6}> d = {{}};
  {7};
  for (int r = 0; r < {6}; ++r) out[lane * {6} + r] = d[r];
}}
}}
)",
                         i.element, i.words * 4 / i.size, std::string(i.gfx) == "gfx1100" ? " % 16" : "", i.one,
                         i.words, i.sum, i.results, i.call),
                     i.gfx)) {}

  // "" or what is wrong: all of D but (d_lane, d_register) is 0, and that is 1.
  std::string run(int a_lane, int a_element, int b_lane, int b_element, int d_lane, int d_register) {
    if (!object_) return object_.error().render();
    std::vector<double> out(static_cast<size_t>(lanes_ * results_), 7);
    const int where[] = {a_lane, a_element, b_lane, b_element};
    double* to = out.data();
    const int* from = where;
    const void* addresses[] = {&to, &from};
    Grid grid;
    grid.lanes = grid.threads.x = static_cast<Word>(lanes_);
    if (auto failure = launch(object_->kernel("probe"), grid, addresses)) return *failure;
    for (int e = 0; e < lanes_ * results_; ++e) {
      const double expected = e == d_lane * results_ + d_register ? 1 : 0, got = out[static_cast<size_t>(e)];
      if (got != expected)
        return fmt::format("A of lane {} element {}, B of lane {} element {}: D of lane {} register {} is {}", a_lane,
                           a_element, b_lane, b_element, e / results_, e % results_, got);
    }
    return "";
  }

 private:
  int lanes_, results_;
  Result<Object> object_;
};

// Every element of A, of B and of D, in some product.
TEST(EmulatedHip, EveryElementOfEveryInstruction) {
  uint64_t which = 0;
  for (const Instruction& i : instructions) {
    if (!test::commit_takes(which++, 3)) continue;
    Probe probe(i);
    for (int at = 0; at < 16 * 16 * std::max(i.depth / 16, 1); ++at) {
      const int row = at % 16, column = at / 16 % 16, k = (row + column + 16 * (at / 256)) % i.depth;
      const std::string wrong = probe.run(i.lane(row, k), i.place(k), i.lane(column, k), i.place(k),
                                          i.d_lane(row, column), i.d_register(row));
      ASSERT_EQ(wrong, "") << i.gfx << " " << i.call << ": row " << row << ", k " << k << ", column " << column;
    }
  }
}

// The formulas above against elements that were looked up one by one.
TEST(EmulatedHip, InstructionsAsTheVendorsTablesSay) {
  struct Element {
    const char *gfx, *call;
    int a_lane, a_element, b_lane, b_element;  // of the same k
    int d_lane, d_register;                    // where their product comes
  };
  const Element elements[] = {
      // A (row 5, k 6): lane 5 + 16 * 1, element 2. B (k 6, column 3): lane 3 + 16, element 2. D (5, 3): 4 * 1 + 1.
      {"gfx942", "mfma_f32_16x16x16_f16", 21, 2, 19, 2, 19, 1},
      {"gfx90a", "mfma_f32_16x16x16_bf16", 21, 2, 19, 2, 19, 1},
      // A (row 5, k 2), B (k 2, column 3): one element a lane, 32 lanes on. D as above.
      {"gfx942", "mfma_f32_16x16x4_f32", 37, 0, 35, 0, 19, 1},
      // D (6, 3) of f64: row 6 = 4 * 1 + 2 is register 1 of the lanes from 32 on.
      {"gfx90a", "mfma_f64_16x16x4_f64", 22, 0, 19, 0, 35, 1},
      // A (row 9, k 13): 4 elements a lane: lane 9 + 16 * 3, element 1. D (9, 14): lanes 32 on, register 1.
      {"gfx90a", "mfma_i32_16x16x16_i8", 57, 1, 62, 1, 46, 1},
      // A (row 9, k 21): 8 elements a lane: lane 9 + 16 * 2, element 5. B likewise. D (9, 14): lanes 32 on, register 1.
      {"gfx942", "mfma_i32_16x16x32_i8", 41, 5, 46, 5, 46, 1},
      // gfx11: everything twice. A (row 7, k 11), D (7, 2): odd rows are in the upper half.
      {"gfx1100", "wmma_f32_16x16x16_f16", 7, 11, 2, 11, 18, 3},
      {"gfx1100", "wmma_i32_16x16x16_iu8<true, true>", 7, 11, 2, 11, 18, 3},
      // gfx12: k 8 to 15 and rows 8 to 15 are in the upper half.
      {"gfx1201", "wmma_f32_16x16x16_bf16", 28, 3, 20, 3, 20, 4},
      {"gfx1201", "wmma_i32_16x16x16_iu8<false, true>", 28, 3, 20, 3, 20, 4},
  };
  for (const Element& e : elements) {
    const auto* const found = std::find_if(std::begin(instructions), std::end(instructions), [&](const Instruction& i) {
      return std::string(i.gfx) == e.gfx && std::string(i.call).starts_with(std::string(e.call) + "(");
    });
    ASSERT_NE(found, std::end(instructions)) << e.call;
    EXPECT_EQ(Probe(*found).run(e.a_lane, e.a_element, e.b_lane, e.b_element, e.d_lane, e.d_register), "")
        << e.gfx << " " << e.call;
  }
}

}  // namespace
}  // namespace codetta::emulator

// SPDX-License-Identifier: Apache-2.0
// What lanes hold of an epilogue's vectors (device/cuda/kernels/vectors.h): every element where it is asked for, the
// last one beyond the edge, and no read behind it.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "emulator/compile.hpp"
#include "emulator/object.hpp"
#include "support/slice.hpp"

namespace codetta::emulator {
namespace {

// A kernel "probe" of a warpgroup whose threads write down what they are given: of a vector along the rows two lanes of
// every even column, of one along the columns their upper and lower row.
Result<Object> load(const std::string& element, const std::string& value, const std::string& body) {
  CODETTA_TRY(const Compiler compiler, Compiler::find());
  CODETTA_TRY(const std::string object, compiler.compile(fmt::format(R"(#define CODETTA_LANES 2
#include "device/gpu/phase.h"
#include "device/cuda/kernels/vectors.h"
namespace codetta::gpu {{
struct Given {{
  Operand operand[1];
}};
using E = {};
using V = {};
extern "C" __global__ void probe(const E* in, i64 stride, int count, E* out) {{
  Given params{{}};
  params.operand[0].data = (void*)in;
  params.operand[0].stride[1] = params.operand[0].stride[2] = stride;
  Tile tile{{}};
  tile.thread = (i32)threadIdx.x;
  tile.threads = 128;
  tile.rows = tile.cols = count;
  const TileFragment<false, 1, Given> f(params, tile);
{}}}
}}
)",
                                                                     element, value, body),
                                                         {"--gpu-architecture=sm_80"}));
  return Object::load(object);
}

template <class E>
std::vector<E> run(const Object& object, const std::vector<E>& in, int64_t stride, int count, size_t results) {
  std::vector<E> out(results, static_cast<E>(-1));
  const E* from = in.data();
  E* to = out.data();
  const void* addresses[] = {&from, &stride, &count, &to};
  Grid grid;
  grid.threads.x = 128;
  EXPECT_EQ(launch(object.kernel("probe"), grid, addresses).value_or(""), "");
  return out;
}

// `count` elements `stride` apart, and what nobody may be given between and behind them.
template <class E>
std::vector<E> vector_of(int count, int64_t stride) {
  std::vector<E> in(static_cast<size_t>(count * stride), static_cast<E>(99));
  for (int i = 0; i < count; ++i) in[static_cast<size_t>(i * stride)] = static_cast<E>(i % 97 + 1);
  return in;
}

template <class E>
void expect_along_rows(const std::string& element, const std::string& value, int cols) {
  auto object = load(element, value,
                     fmt::format("  AlongRows<E, {0}> vector;\n"
                                 "  vector.bring(f, 0);\n"
                                 "  for (int column = 0; column < {0}; column += 2) {{\n"
                                 "    const V v = vector.at<V>(column);\n"
                                 "    for (int i = 0; i < 2; ++i) out[threadIdx.x * {0} + column + i] = v.e[i];\n"
                                 "  }}\n",
                                 cols));
  ASSERT_TRUE(object) << object.error().render();
  for (const int count : {1, 2, 3, cols / 2 - 1, cols / 2, cols - 1, cols}) {
    for (const int64_t stride : {1, 3}) {
      const std::vector<E> in = vector_of<E>(count, stride);
      const auto out = run(*object, in, stride, count, static_cast<size_t>(128 * cols));
      int wrong = 0;
      for (int at = 0; at < 128 * cols; ++at) {
        const int column = std::min(at % cols, count - 1);
        wrong += out[static_cast<size_t>(at)] != in[static_cast<size_t>(column * stride)] ? 1 : 0;
      }
      EXPECT_EQ(wrong, 0) << element << ", " << cols << " columns of which " << count << " exist, " << stride
                          << " apart";
    }
  }
}

TEST(EmulatedVectors, AlongTheRowsEachLaneGetsAnyColumn) {
  uint64_t which = 0;
  const auto takes = [&] { return test::commit_takes(which++, 3); };  // of four types each width has another one
  for (const int cols : {32, 64, 96, 128, 160}) {
    if (takes()) expect_along_rows<uint8_t>("u8", "u8v", cols);
    if (takes()) expect_along_rows<uint16_t>("u16", "u16v", cols);
    if (takes()) expect_along_rows<float>("f32", "f32v", cols);
    if (takes()) expect_along_rows<double>("f64", "f64v", cols);
  }
}

TEST(EmulatedVectors, DownTheColumnsEachLaneHasBothOfItsRows) {
  auto object = load("f32", "f32v",
                     "  DownColumns<E> vector;\n"
                     "  vector.bring(f, 0);\n"
                     "  for (int half = 0; half < 2; ++half) out[threadIdx.x * 2 + half] = vector.of_row[half];\n");
  ASSERT_TRUE(object) << object.error().render();
  for (const int count : {1, 7, 8, 9, 16, 17, 63, 64}) {
    const std::vector<float> in = vector_of<float>(count, 2);
    const auto out = run(*object, in, 2, count, 256);
    for (int at = 0; at < 256; ++at) {
      const int thread = at / 2, row = thread / 32 * 16 + thread % 32 / 4 + at % 2 * 8;
      EXPECT_EQ(out[static_cast<size_t>(at)], in[static_cast<size_t>(std::min(row, count - 1) * 2)])
          << "thread " << thread << ", half " << at % 2 << " of " << count << " rows";
    }
  }
}

}  // namespace
}  // namespace codetta::emulator

// SPDX-License-Identifier: Apache-2.0
#include "device/host/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace codetta::host {
namespace {

TEST(HostSupport, NumbersAreThoseOfPython) {
  for (i64 a = -7; a <= 7; ++a) {
    for (i64 b : {-3, -2, -1, 1, 2, 5}) {
      const i64 q = floordiv(Number(a), Number(b)).value;
      EXPECT_LE(q * b * (b < 0 ? -1 : 1), a * (b < 0 ? -1 : 1));
      EXPECT_EQ(q * b + mod(Number(a), Number(b)).value, a);
      EXPECT_TRUE(mod(Number(a), Number(b)).value == 0 || (mod(Number(a), Number(b)).value < 0) == (b < 0));
    }
  }
  EXPECT_TRUE(floordiv(Number(1), Number(0)).bad);
  EXPECT_TRUE(mod(Number(1), Number(0)).bad);
  EXPECT_TRUE((Number(int64_max) + Number(1)).bad);
  EXPECT_TRUE((Number(int64_max) * Number(2) + Number(1)).bad);
  EXPECT_TRUE(floordiv(Number(-int64_max - 1), Number(-1)).bad);
  EXPECT_TRUE((Number::none() + Number(1)).bad);
}

View view_of(std::vector<float>& data, std::vector<i64> sizes, std::vector<i64> strides) {
  View view;
  view.data = reinterpret_cast<char*>(data.data());
  view.dtype = 13;
  view.rank = static_cast<i32>(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    view.size[i] = sizes[i];
    view.stride[i] = strides[i];
  }
  return view;
}

TEST(HostSupport, CopiesAndFillsAnyStrides) {
  std::vector<float> source(12), target(20, -1.0f);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>(i);
  const View from = view_of(source, {3, 4}, {4, 1}), to = view_of(target, {3, 4}, {1, 5});
  Frame frame;
  EXPECT_EQ(copy(frame, to, from, "t"), ok);
  EXPECT_EQ(target[1], -1.0f);  // nothing is done while sizes are measured
  frame.running = true;
  EXPECT_EQ(copy(frame, to, from, "t"), ok);
  for (size_t r = 0; r < 3; ++r) {
    for (size_t c = 0; c < 4; ++c) EXPECT_EQ(target[r + 5 * c], source[4 * r + c]);
  }
  EXPECT_EQ(target[3], -1.0f);
  fill(to, 0x3f800000u);
  EXPECT_EQ(target[16], 1.0f);
  EXPECT_EQ(target[4], -1.0f);
  EXPECT_EQ(copy(frame, view_of(target, {3, 3}, {1, 5}), from, "t"), bad_sizes);
  EXPECT_NE(strstr(error_text, "f32[3, 3]"), nullptr);
}

TEST(HostSupport, ViewsOfOtherMemoryStayInside) {
  std::vector<float> data(12);
  const View source = view_of(data, {3, 4}, {4, 1});
  View view;
  const Number six[] = {Number(6)}, two[] = {Number(2)}, step[] = {Number(6)};
  EXPECT_EQ(reinterpret(view, source, Number(24), 13, six, nullptr, 1, "t"), ok);
  EXPECT_EQ(view.data, source.data + 24);
  EXPECT_EQ(reinterpret(view, source, Number(28), 13, six, nullptr, 1, "t"), bad_sizes);
  EXPECT_EQ(reinterpret(view, source, Number(-4), 13, six, nullptr, 1, "t"), bad_sizes);
  EXPECT_EQ(reinterpret(view, source, Number(20), 13, two, step, 1, "t"), ok);
  EXPECT_EQ(reinterpret(view, source, Number(24), 13, two, step, 1, "t"), bad_sizes);
}

TEST(HostSupport, WorkspacesAreKeptAndGivenBack) {
  const Block first = take_block(1000);
  EXPECT_EQ(reinterpret_cast<u64>(first.memory) % 64, 0u);
  put_block(first);
  const Block again = take_block(500);
  EXPECT_EQ(again.memory, first.memory);
  const Block other = take_block(500);
  EXPECT_NE(other.memory, first.memory);
  put_block(again);
  put_block(other);
  drop_blocks();
  for (const Block& block : library.blocks) EXPECT_EQ(block.memory, nullptr);
  EXPECT_EQ(take_block(int64_max / 4).memory, nullptr);
}

TEST(HostSupport, AllocatorsComeInPairs) {
  EXPECT_EQ(set_allocator([](void*, size_t, size_t) -> void* { return nullptr; }, nullptr, nullptr), bad_argument);
  EXPECT_EQ(set_threads(-1, nullptr, nullptr), bad_argument);
  EXPECT_EQ(set_threads(
                0, [](void*, i32, void (*)(void*, i32), void*) {}, nullptr),
            bad_argument);
}

const char* const header =
    R"({"__metadata__":{"a":"{\"x\":1}"},"w\u0031":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]} , "b":{"shape":[],"dtype":"BF16","data_offsets":[24,26]}})";

TEST(HostSupport, WeightsAreFoundByName) {
  Weight found{};
  bool damaged = false;
  ASSERT_TRUE(find_entry(header, strlen(header), "w1", &found, &damaged));
  EXPECT_EQ(found.rank, 2);
  EXPECT_EQ(found.shape[1], 3);
  EXPECT_EQ(found.offsets[1], 24);
  EXPECT_STREQ(found.dtype, "F32");
  ASSERT_TRUE(find_entry(header, strlen(header), "b", &found, &damaged));
  EXPECT_EQ(found.rank, 0);
  EXPECT_FALSE(find_entry(header, strlen(header), "x", &found, &damaged));
  EXPECT_FALSE(damaged);
  EXPECT_FALSE(find_entry(header, strlen(header), "__metadata__", &found, &damaged));
}

TEST(HostSupport, DamagedHeadersAreToldFromMissingNames) {
  const std::string whole = header;
  Weight found{};
  for (size_t n = 0; n < whole.size(); ++n) {  // every cut
    bool damaged = false;
    const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_FALSE(find_entry(cut.data(), cut.size(), "b", &found, &damaged)) << n;
    EXPECT_TRUE(damaged) << n;
  }
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {  // and any change: an answer, and nothing read outside (sanitizers)
    std::vector<char> changed(whole.begin(), whole.end());
    for (int k = 0; k < 3; ++k) changed[random() % changed.size()] = static_cast<char>(random());
    bool damaged = false;
    if (find_entry(changed.data(), changed.size(), "w1", &found, &damaged)) {
      EXPECT_LE(found.rank, max_rank);
      EXPECT_GE(found.rank, 0);
    }
  }
}

// Kernels for other sizes read the same weights, mostly in the same form.
TEST(HostSupport, WeightsArePackedOnceForEachForm) {
  const std::vector<float> b(64 * 64, 0.5F), other(64 * 64, 0.25F);
  const GemmConfig config{.family = 0,
                          .isa = 0,
                          .a_dtype = 13,
                          .b_dtype = 13,
                          .accumulator = 13,
                          .pack_a = false,
                          .mr = 4,
                          .nr = 8,
                          .tile_rows = 48,
                          .tile_cols = 64,
                          .kc = 64,
                          .mc = 192,
                          .nc = 4096,
                          .k_split = 1};
  Gemm gemm{};
  gemm.batch = gemm.m = 1, gemm.n = gemm.k = 64;
  gemm.b = b.data(), gemm.b_k = 64, gemm.b_col = 1;
  const auto packed = [](const GemmConfig& how, const Gemm& what) {
    const void* memory = nullptr;
    EXPECT_EQ(pack_weight(&memory, how, what), ok);
    EXPECT_NE(memory, nullptr);
    return memory;
  };
  const void* const first = packed(config, gemm);
  EXPECT_EQ(packed(config, gemm), first);
  GemmConfig tiles = config;
  tiles.tile_rows = 96;
  EXPECT_EQ(packed(tiles, gemm), first);  // no matter of B's form
  Gemm transposed = gemm;
  std::swap(transposed.b_k, transposed.b_col);
  EXPECT_NE(packed(config, transposed), first);
  Gemm others = gemm;
  others.b = other.data();
  EXPECT_NE(packed(config, others), first);
  others = gemm;
  others.products = others.split_ways = 2, others.split_chunk = 64, others.n = 128;
  others.more_b[0] = {other.data(), 0, 64, 1, 0};
  const void* const both = packed(config, others);
  EXPECT_EQ(packed(config, others), both);
  others.more_b[0].data = b.data();
  EXPECT_NE(packed(config, others), both);
  EXPECT_EQ(packed(config, gemm), first);
  EXPECT_EQ(weights.copy_count, 10);  // five forms, each with its entry
  weights.close();
  EXPECT_EQ(weights.packed, nullptr);
  EXPECT_EQ(weights.copy_count, 0);
}

// Heads of rows [2, 5, 3, 8] as [2, 3, 5, 8], and one that all heads share.
TEST(HostSupport, FactorsAsProductsSeeThem) {
  std::vector<float> memory(2 * 5 * 3 * 8);
  View lies;
  lies.data = reinterpret_cast<char*>(memory.data());
  lies.dtype = 13;
  lies.rank = 4;
  const i64 sizes[] = {2, 5, 3, 8}, strides[] = {120, 24, 8, 1};
  std::copy_n(sizes, 4, lies.size);
  std::copy_n(strides, 4, lies.stride);
  View heads, shared;
  ASSERT_EQ(see(heads, lies, {{3, 1, 2}, {1, 1, 3}, {2, 1, 5}, {0, 1, 8}}, "q"), ok);
  ASSERT_EQ(see(shared, lies, {{3, 1, 2}, {0, 0, 3}, {0, 1, 8}, {2, 1, 5}}, "k"), ok);
  Gemm gemm{};
  ASSERT_EQ(set_sizes(gemm, 6, 5, 5, 8), ok);
  ASSERT_EQ(set_a(gemm, heads, "q", false), ok);
  ASSERT_EQ(set_b(gemm, shared, "k", false), ok);
  EXPECT_EQ(std::tuple(gemm.inner, gemm.a_batch, gemm.a_skip, gemm.a_row, gemm.a_k), std::tuple(3, 8, 96, 24, 1));
  EXPECT_EQ(std::tuple(gemm.b_batch, gemm.b_skip, gemm.b_k, gemm.b_col), std::tuple(0, 120, 1, 24));
  // Not as many items inside of the second stride; a size that nobody knows.
  View other;
  ASSERT_EQ(see(other, lies, {{1, 1, 3}, {3, 1, 2}, {0, 1, 8}, {2, 1, 5}}, "k"), ok);
  unaligned = false;
  EXPECT_EQ(set_b(gemm, other, "k", false), bad_sizes);
  EXPECT_TRUE(unaligned);
  EXPECT_STREQ(error_text, "E0610: k does not fit: the leading dims of f32[3, 2, 8, 5] are not evenly spaced");
  // Rows that are several dims: as they lie, and where one is no multiple of the other.
  ASSERT_EQ(see(other, lies, {{2, 1, 10}, {0, 1, 8}}, "x"), ok);
  EXPECT_EQ(std::tuple(other.size[0], other.size[1], other.stride[0], other.stride[1]), std::tuple(10, 8, 24, 1));
  lies.stride[0] = 128;
  unaligned = false;
  EXPECT_EQ(see(other, lies, {{2, 1, 10}, {0, 1, 8}}, "x"), bad_sizes);
  EXPECT_TRUE(unaligned);
  EXPECT_STREQ(error_text, "E0610: x does not fit: dims of f32[2, 5, 3, 8] are not evenly spaced");
  EXPECT_EQ(see(other, lies, {{1, 1, Number::none()}, {0, 1, 8}}, "k"), bad_sizes);
  EXPECT_STREQ(error_text, "E0610: a size of k has no value");
}

TEST(HostSupport, SymbolsThatHaveNoSizeAreTold) {
  Number k = Number::none();
  EXPECT_EQ(define_value(k, "k", {-7}, {1}), bad_sizes);
  EXPECT_STREQ(error_text, "E0610: k is negative: it is -7");
  EXPECT_EQ(define_value(k, "k", {7}, {2}), bad_sizes);
  EXPECT_STREQ(error_text, "E0610: k is no whole number: 7 is divided by 2");
  EXPECT_EQ(define_value(k, "k", {7}, {0}), bad_sizes);
  EXPECT_STREQ(error_text, "E0610: k is no whole number: 7 is divided by 0");
  EXPECT_EQ(define_value(k, "k", {8}, {2}), ok);
  EXPECT_EQ(define_value(k, "k", {5}, {1}), bad_sizes);
  EXPECT_STREQ(error_text, "E0610: k is 5 here but 4 elsewhere");
}

TEST(HostSupport, SizesOutOfRangeAreTold) {
  EXPECT_EQ(check_range({5}, {0}, {5}, "k", "`x[:k]`"), ok);
  EXPECT_EQ(check_range({6}, {0}, {5}, "k", "`x[:k]`"), bad_sizes);
  EXPECT_STREQ(error_text, "E0610: k is 6, outside of 0 to 5; `x[:k]`");
  EXPECT_EQ(check_range({0}, {0}, {int64_max}, "n - m", "`zeros(n - m)`"), ok);
  EXPECT_EQ(check_range({-3}, {0}, {int64_max}, "n - m", "`zeros(n - m)`"), bad_sizes);
  EXPECT_STREQ(error_text, "E0610: n - m is -3, and 0 or more is wanted; `zeros(n - m)`");
  EXPECT_EQ(check_range(floordiv({4}, {0}), {0}, {5}, "n // k", "`x[:n // k]`"), bad_sizes);
  EXPECT_STREQ(error_text, "E0610: n // k has no value: it divides by 0, or 64 bits do not hold it; `x[:n // k]`");
  EXPECT_EQ(check_range(Number::none(), {0}, {int64_max}, "n - m", ""), bad_sizes);
  EXPECT_EQ(check_range({1}, {0}, floordiv({4}, {0}), "k", "`x[:k]`"), bad_sizes);
  EXPECT_STREQ(error_text, "E0610: a bound of k has no value: it divides by 0, or 64 bits do not hold it; `x[:k]`");
  EXPECT_EQ(check_range({1}, Number::none(), {int64_max}, "k", "`x[:k]`"), bad_sizes);
  EXPECT_STREQ(error_text, "E0610: a bound of k has no value: it divides by 0, or 64 bits do not hold it; `x[:k]`");
}

TEST(HostSupport, CopiesOfWeightsAreToldByPlaceAndSize) {
  const char file[16] = {};
  EXPECT_EQ(weights.copy_of(file, 8), nullptr);
  const void* const copy = weights.keep(8, file);
  EXPECT_EQ(weights.copy_of(file, 8), copy);
  EXPECT_EQ(weights.copy_of(file, 9), nullptr);  // of a larger one that begins there
  EXPECT_EQ(weights.copy_of(file + 1, 8), nullptr);
  weights.close();
  EXPECT_EQ(weights.copy_of(file, 8), nullptr);
}

}  // namespace
}  // namespace codetta::host

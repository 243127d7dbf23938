// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/reduce.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace codetta::runtime::cpu {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

template <class T>
std::vector<T> finish(const Reduction& r, const ReductionGrid& g, const std::vector<T>& partials) {
  EXPECT_EQ(static_cast<int64_t>(partials.size()), partial_count(r, g));
  std::vector<T> out(static_cast<size_t>(result_count(r, g)), T(77));
  finish_reduction(r, g, partials.data(), out.data(), 0, static_cast<int64_t>(out.size()));
  return out;
}

TEST(Reduce, RowsColumnsAndAll) {
  const ReductionGrid g{2, 2, 3, 1, 2};  // 2 items of 2 x 3, one tile row, two tile columns
  Reduction r;
  EXPECT_EQ(finish<float>(r, g, {1, 2, 3, 4, 5, 6, 7, 8}), (std::vector<float>{4, 6, 12, 14}));
  r.axis = ReductionAxis::Column;
  EXPECT_EQ(finish<float>(r, g, {1, 2, 3, 4, 5, 6}), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  r.axis = ReductionAxis::All;
  EXPECT_EQ(finish<float>(r, g, {1, 2, 3, 4}), (std::vector<float>{10}));
  r.mean = true;
  EXPECT_EQ(finish<float>(r, g, {1, 2, 3, 6}), (std::vector<float>{1}));
}

TEST(Reduce, FloatSumsKeepSmallTerms) {
  const ReductionGrid g{1, 1, 4, 1, 4};
  EXPECT_EQ(finish<float>(Reduction{}, g, {1e8f, 1, -1e8f, 1}), (std::vector<float>{2}));
}

TEST(Reduce, IntegersWrap) {
  const ReductionGrid g{1, 1, 2, 1, 2};
  Reduction r;
  r.dtype = DType::i32;
  EXPECT_EQ(finish<int32_t>(r, g, {INT32_MAX, 1}), (std::vector<int32_t>{INT32_MIN}));
  r.dtype = DType::u8;
  EXPECT_EQ(finish<uint8_t>(r, g, {200, 100}), (std::vector<uint8_t>{44}));
  r.kind = ReductionKind::Max;
  r.dtype = DType::i64;
  EXPECT_EQ(finish<int64_t>(r, g, {-5, INT64_MIN}), (std::vector<int64_t>{-5}));
}

TEST(Reduce, ExtremesPropagateNaN) {
  const ReductionGrid g{1, 1, 3, 1, 3};
  Reduction r;
  for (ReductionKind kind : {ReductionKind::Max, ReductionKind::Min}) {
    r.kind = kind;
    EXPECT_TRUE(std::isnan(finish<float>(r, g, {1, NAN, 2})[0]));
    EXPECT_TRUE(std::isnan(finish<float>(r, g, {NAN, 1, 2})[0]));
    EXPECT_EQ(finish<float>(r, g, {1, 3, 2})[0], kind == ReductionKind::Max ? 3.0f : 1.0f);
  }
}

TEST(Reduce, LogSumExp) {
  const ReductionGrid g{1, 1, 4, 1, 2};
  Reduction r;
  r.kind = ReductionKind::LogSumExp;
  const float expected = static_cast<float>(1000 + std::log(1.5 + 2 * std::exp(-1.0)));
  EXPECT_FLOAT_EQ(finish<float>(r, g, {1000, 1.5f, 999, 2})[0], expected);
  EXPECT_EQ(finish<float>(r, g, {-inf, 0, 5, 1})[0], 5.0f);
  EXPECT_EQ(finish<float>(r, g, {-inf, 0, -inf, 0})[0], -inf);
  EXPECT_EQ(finish<float>(r, g, {inf, 1, 5, 1})[0], inf);
  EXPECT_TRUE(std::isnan(finish<float>(r, g, {NAN, 1, 5, 1})[0]));
}

// What sum(exp(x - max(x))) is: of an infinite largest value NaN.
TEST(Reduce, SumExp) {
  const ReductionGrid g{1, 1, 4, 1, 2};
  Reduction r;
  r.kind = ReductionKind::SumExp;
  EXPECT_FLOAT_EQ(finish<float>(r, g, {1000, 1.5f, 999, 2})[0], static_cast<float>(1.5 + 2 * std::exp(-1.0)));
  EXPECT_EQ(finish<float>(r, g, {-inf, 2, 5, 1})[0], 1.0f);
  EXPECT_TRUE(std::isnan(finish<float>(r, g, {-inf, 2, -inf, 2})[0]));
  EXPECT_TRUE(std::isnan(finish<float>(r, g, {inf, 1, 5, 1})[0]));
  EXPECT_TRUE(std::isnan(finish<float>(r, g, {NAN, 1, 5, 1})[0]));
  EXPECT_EQ(partial_count(r, g), 4);
}

TEST(Reduce, NoTilesGiveTheIdentity) {
  const ReductionGrid g{1, 2, 0, 1, 0};
  Reduction r;
  EXPECT_EQ(finish<float>(r, g, {}), (std::vector<float>{0, 0}));
  r.kind = ReductionKind::Max;
  EXPECT_EQ(finish<float>(r, g, {}), (std::vector<float>{-inf, -inf}));
  r.kind = ReductionKind::Min;
  EXPECT_EQ(finish<float>(r, g, {}), (std::vector<float>{inf, inf}));
  r.kind = ReductionKind::LogSumExp;
  EXPECT_EQ(finish<float>(r, g, {}), (std::vector<float>{-inf, -inf}));
  r.kind = ReductionKind::SumExp;
  EXPECT_EQ(finish<float>(r, g, {}), (std::vector<float>{0, 0}));
  r.kind = ReductionKind::Sum;
  r.mean = true;
  EXPECT_TRUE(std::isnan(finish<float>(r, g, {})[0]));
  r = Reduction{};
  r.kind = ReductionKind::Max;
  r.dtype = DType::i32;
  EXPECT_EQ(finish<int32_t>(r, g, {}), (std::vector<int32_t>{INT32_MIN, INT32_MIN}));
}

}  // namespace
}  // namespace codetta::runtime::cpu

// SPDX-License-Identifier: Apache-2.0
// Packed weights: layout tag, digest, repeatable bytes, and what they are refused for.
#include "tests/unit/runtime_cpu/harness.hpp"

namespace codetta::runtime::cpu::test {
namespace {

Case packed_case(DType type = DType::f32) {
  Case c;
  c.config.isa = usable_isas().back();
  c.config.a_dtype = c.config.b_dtype = type;
  c.config.accumulator = type == DType::i8 ? DType::i32 : DType::f32;
  c.m = 10;
  c.n = 100;
  c.k = 33;
  c.packed = true;
  return c;
}

TEST(Packed, MatchesItsOwnProblemOnly) {
  const Case c = packed_case();
  const Problem p(c, 1);
  ASSERT_NE(p.packed, nullptr);
  const size_t bytes = p.packed->bytes();
  EXPECT_TRUE(packed_matches(p.packed->data(), bytes, c.config, p.problem));
  EXPECT_FALSE(packed_matches(nullptr, bytes, c.config, p.problem));
  EXPECT_FALSE(packed_matches(p.packed->data(), bytes - 1, c.config, p.problem));
  EXPECT_FALSE(packed_matches(p.packed->data(), 10, c.config, p.problem));
  GemmProblem other = p.problem;
  other.k = 34;
  EXPECT_FALSE(packed_matches(p.packed->data(), bytes, c.config, other));
  other = p.problem;
  other.n = 99;
  EXPECT_FALSE(packed_matches(p.packed->data(), bytes, c.config, other));
  other = p.problem;
  other.split = {2, 50};
  EXPECT_FALSE(packed_matches(p.packed->data(), bytes, c.config, other));
  CpuGemmConfig config = c.config;
  config.nr = 16;
  if (config.isa == CpuIsa::avx2) config.mr = config.nr = 8;  // whose widest block has 16 columns
  EXPECT_FALSE(packed_matches(p.packed->data(), bytes, config, p.problem));
  config = c.config;
  config.b_dtype = DType::f64;
  config.a_dtype = DType::f64;
  config.accumulator = DType::f64;
  EXPECT_FALSE(packed_matches(p.packed->data(), bytes, config, p.problem));
}

TEST(Packed, SeesDamage) {
  const Case c = packed_case();
  const Problem p(c, 1);
  EXPECT_TRUE(packed_intact(p.packed->data(), p.packed->bytes()));
  EXPECT_FALSE(packed_intact(p.packed->data(), p.packed->bytes() - 1));
  std::vector<std::byte> longer(p.packed->bytes() + 1);  // as of a file with something behind
  std::memcpy(longer.data(), p.packed->data(), p.packed->bytes());
  EXPECT_FALSE(packed_intact(longer.data(), longer.size()));
  for (int64_t at : {int64_t{0}, int64_t{9}, static_cast<int64_t>(sizeof(PackedHeader)),
                     static_cast<int64_t>(p.packed->bytes()) - 1}) {
    std::byte* byte = p.packed->at(at);
    *byte ^= std::byte{4};
    EXPECT_FALSE(packed_intact(p.packed->data(), p.packed->bytes())) << at;
    *byte ^= std::byte{4};
  }
  EXPECT_TRUE(packed_intact(p.packed->data(), p.packed->bytes()));
}

TEST(Packed, BytesAreRepeatableForAnyOrderAndThreads) {
  for (DType type : {DType::f32, DType::bf16, DType::i8}) {
    Case c = packed_case(type);
    const Problem row(c, 1);
    c.b_order = Order::ColumnMajor;
    Problem column(c, 1);
    for (int64_t k = 0; k < c.k; ++k) {
      for (int64_t n = 0; n < c.n; ++n) {
        std::memcpy(column.b.at(0, k, n), row.b.at(0, k, n), static_cast<size_t>(dtype_size(type)));
      }
    }
    const auto pool = make_thread_pool(3);
    pack_b(c.config, column.problem, pool.get(), column.packed->data());
    ASSERT_EQ(row.packed->bytes(), column.packed->bytes());
    EXPECT_EQ(std::memcmp(row.packed->data(), column.packed->data(), row.packed->bytes()), 0) << dtype_name(type);
  }
}

TEST(Packed, InPlaceHasNothingToPack) {
  Case c = packed_case();
  c.config.family = CpuFamily::InPlace;
  const Problem p(c, 1);
  EXPECT_EQ(packed_size(c.config, p.problem), 0u);
  EXPECT_EQ(p.packed, nullptr);
}

}  // namespace
}  // namespace codetta::runtime::cpu::test

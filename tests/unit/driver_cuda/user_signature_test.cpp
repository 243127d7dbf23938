// SPDX-License-Identifier: Apache-2.0
// What device/cuda/user.h takes as a parameter of the declared type: its check knows nothing of a GPU, so that this
// compiler runs it, too.
#include <gtest/gtest.h>

#define __device__
#define asm(...) static_cast<void>(0)
inline unsigned __float_as_uint(float) { return 0; }
inline float __uint_as_float(unsigned) { return 0; }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"  // what only instructions read
#include "device/cuda/user.h"
#pragma GCC diagnostic pop
#undef asm
#undef __device__

namespace {

namespace user = codetta::user;
struct half_of_theirs {
  unsigned short bits;
};
struct byte_of_theirs {
  unsigned char bits;
};
template <class T, class P>
constexpr bool passes = user::takes<void (*)(const P*, P*, P), user::Operand<T>, user::Result<T>, user::Number<T>>;
template <class T, class P>
constexpr bool any = user::takes<void (*)(const P*), user::Operand<T>> || user::takes<void (*)(P*), user::Result<T>> ||
                     user::takes<void (*)(P), user::Number<T>>;

TEST(UserSignatures, TypesOfTheSameSizeAreNotTheSame) {
  EXPECT_TRUE((passes<float16, float16>));
  EXPECT_TRUE((passes<bfloat16, bfloat16>));
  EXPECT_TRUE((passes<float8_e4m3, float8_e4m3>));
  EXPECT_TRUE((passes<float8_e5m2, float8_e5m2>));
  EXPECT_FALSE((any<bfloat16, float16>));
  EXPECT_FALSE((any<float16, bfloat16>));
  EXPECT_FALSE((any<float8_e4m3, float8_e5m2>));
  EXPECT_FALSE((any<float8_e5m2, float8_e4m3>));
  EXPECT_FALSE((any<float16, float8_e4m3>));
  EXPECT_FALSE((any<float8_e4m3, float16>));
  EXPECT_FALSE((any<int16_t, float16>));
  EXPECT_FALSE((any<float16, int16_t>));
  EXPECT_FALSE((any<uint32_t, int32_t>));
  EXPECT_FALSE((any<float, int32_t>));
}

TEST(UserSignatures, ClassesOfTheSourcesOwn) {
  EXPECT_TRUE((passes<float16, half_of_theirs>));
  EXPECT_TRUE((passes<bfloat16, half_of_theirs>));
  EXPECT_TRUE((passes<float8_e4m3, byte_of_theirs>));
  EXPECT_FALSE((any<float16, byte_of_theirs>));
  EXPECT_FALSE((any<float8_e5m2, half_of_theirs>));
  EXPECT_TRUE((passes<int64_t, long long>));
}

}  // namespace

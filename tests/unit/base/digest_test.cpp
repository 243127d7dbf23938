// SPDX-License-Identifier: Apache-2.0
// Digests: the published XXH3-128 value of the empty input, framing, hex.
#include "base/digest.hpp"

#include <gtest/gtest.h>

#include <set>

namespace codetta::base {
namespace {

TEST(Digest, IsXxh3) {
  // Test vector of the xxHash specification (seed 0, no bytes).
  EXPECT_EQ(digest_of("").hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_NE(digest_of("a"), digest_of(""));
}

TEST(Digest, Hex) {
  EXPECT_EQ((Digest128{0x0123456789abcdef, 0xfedcba9876543210}.hex()), "0123456789abcdeffedcba9876543210");
}

TEST(Hasher, FramesFields) {
  std::set<Digest128> seen;
  const auto add = [&seen](const Hasher& hasher) { EXPECT_TRUE(seen.insert(hasher.digest()).second); };
  add(Hasher());
  add(std::move(Hasher().add("")));
  add(std::move(Hasher().add("").add("")));
  add(std::move(Hasher().add("ab").add("c")));
  add(std::move(Hasher().add("a").add("bc")));
  add(std::move(Hasher().add("abc")));
  add(std::move(Hasher().add(1)));
  add(std::move(Hasher().add(1U)));
  add(std::move(Hasher().add("1")));
  add(std::move(Hasher().add(-1)));
  add(std::move(Hasher().add(0.0)));
  add(std::move(Hasher().add(-0.0)));
  add(std::move(Hasher().add(uint64_t{0})));
  add(std::move(Hasher().add(Digest128{0, 1})));
  add(std::move(Hasher().add(Digest128{1, 0})));
}

TEST(Hasher, IsRepeatableAndIncremental) {
  Hasher one;
  one.add("key").add(uint64_t{7});
  const Digest128 middle = one.digest();
  EXPECT_EQ(one.digest(), middle);
  one.add(true);
  Hasher two;
  two.add(std::string_view("key")).add(uint64_t{7});
  EXPECT_EQ(two.digest(), middle);
  Hasher three = std::move(two);
  three.add(true);
  EXPECT_EQ(three.digest(), one.digest());
  const std::string large(1 << 20, 'x');
  Hasher four;
  Hasher five;
  EXPECT_EQ(four.add(large).digest(), five.add(large).digest());
}

}  // namespace
}  // namespace codetta::base

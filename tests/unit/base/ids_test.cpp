// SPDX-License-Identifier: Apache-2.0
// Ids, stores and interning.
#include "base/ids.hpp"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <unordered_set>

namespace codetta::base {
namespace {

struct NodeTag;
struct TypeTag;
using NodeId = Id<NodeTag>;
using TypeId = Id<TypeTag>;

static_assert(sizeof(NodeId) == 4);
static_assert(!std::is_convertible_v<NodeId, TypeId> && !std::is_constructible_v<NodeId, TypeId>);
static_assert(!std::is_convertible_v<int, NodeId>);
static_assert(std::is_trivially_copyable_v<NodeId>);

TEST(Id, InvalidByDefaultAndLast) {
  EXPECT_FALSE(NodeId().valid());
  EXPECT_TRUE(NodeId(0).valid());
  EXPECT_EQ(NodeId(7).index(), 7U);
  EXPECT_LT(NodeId(1), NodeId(2));
  EXPECT_LT(NodeId(size_t{1000000}), NodeId());
  EXPECT_EQ(NodeId(3U), NodeId(3));
  EXPECT_EQ((std::unordered_set<NodeId>{NodeId(1), NodeId(1), NodeId(2)}.size()), 2U);
}

TEST(IdVector, HandsOutIdsInOrder) {
  IdVector<NodeId, std::string> names;
  EXPECT_TRUE(names.empty());
  const NodeId a = names.push_back("a");
  const NodeId b = names.push_back("b");
  EXPECT_EQ(a.index(), 0U);
  EXPECT_EQ(names[b], "b");
  names[a] = "c";
  EXPECT_EQ(names.values(), (std::vector<std::string>{"c", "b"}));
  EXPECT_TRUE(names.contains(b));
  EXPECT_FALSE(names.contains(NodeId(2)));
  EXPECT_FALSE(names.contains(NodeId()));
  std::string all;
  for (const std::string& name : names) all += name;
  EXPECT_EQ(all, "cb");

  IdVector<NodeId, bool> flags(3, true);
  flags[NodeId(1)] = false;
  EXPECT_TRUE(flags[NodeId(0)]);
  EXPECT_FALSE(flags[NodeId(1)]);
}

struct Colliding {
  size_t operator()(const std::string&) const { return 1; }
};

TEST(Interner, EqualValuesShareAnIdAndIdsAreInOrderOfFirstSight) {
  Interner<TypeId, std::string, Colliding> types;
  const TypeId f32 = types.intern("f32");
  const TypeId bf16 = types.intern("bf16");
  EXPECT_EQ(types.intern("f32"), f32);
  EXPECT_EQ(f32.index(), 0U);
  EXPECT_EQ(bf16.index(), 1U);
  EXPECT_EQ(types.size(), 2U);
  EXPECT_EQ(types[bf16], "bf16");
  EXPECT_EQ(types.find("bf16"), bf16);
  EXPECT_EQ(types.find("s8"), std::nullopt);

  // A copy lives on its own.
  auto copy = types;
  copy.intern("s8");
  EXPECT_EQ(types.size(), 2U);
  EXPECT_EQ(copy.find("f32"), f32);
}

TEST(Interner, Many) {
  Interner<TypeId, std::string> texts;
  for (int round = 0; round < 2; ++round) {
    for (uint32_t i = 0; i < 10000; ++i) ASSERT_EQ(texts.intern(std::to_string(i)).index(), i);
  }
  EXPECT_EQ(texts.size(), 10000U);
}

}  // namespace
}  // namespace codetta::base

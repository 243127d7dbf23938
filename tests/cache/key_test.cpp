// SPDX-License-Identifier: Apache-2.0
// The key text: every field decides, and no two lists of fields give one text.
#include <gtest/gtest.h>

#include <set>

#include "cache_fixture.hpp"

namespace codetta::toolchain {
namespace {

TEST(CacheKey, EveryFieldDecides) {
  const std::vector<std::pair<std::string, std::string>> fields = {
      {"source", "int x;"}, {"flags", "-O2 -march=native"}, {"target", "cpu:avx2"}, {"compiler", "0123"},
      {"headers", "4567"},  {"library", "0.1.0+abc"},       {"math", "strict"},     {"abi", "1"},
  };
  const auto make = [&](size_t changed, EntryKind kind, const std::string& what) {
    CacheKey key(kind, what);
    for (size_t i = 0; i < fields.size(); ++i) key.add(fields[i].first, fields[i].second + (i == changed ? "'" : ""));
    return key;
  };
  std::set<std::string> texts;
  std::set<std::string> digests;
  for (size_t changed = 0; changed <= fields.size(); ++changed) {
    const CacheKey key = make(changed, EntryKind::Binary, "kernel");
    texts.insert(key.text());
    digests.insert(key.digest_hex());
    EXPECT_EQ(key.digest_hex().size(), 32U);
    EXPECT_EQ(key.text(), make(changed, EntryKind::Binary, "kernel").text());
  }
  EXPECT_EQ(texts.size(), fields.size() + 1);
  EXPECT_EQ(digests.size(), fields.size() + 1);
  const std::string base = make(fields.size(), EntryKind::Binary, "kernel").digest_hex();
  EXPECT_NE(base, make(fields.size(), EntryKind::Package, "kernel").digest_hex());
  EXPECT_NE(base, make(fields.size(), EntryKind::Binary, "other").digest_hex());
}

TEST(CacheKey, FieldsDoNotRunIntoEachOther) {
  std::set<std::string> texts;
  const std::string awkward[] = {"", "a", "ab", "b", "1", "1 1 a b\n", "\n", " ", std::string(1, '\0'), "a\n1 1 b c"};
  size_t made = 0;
  for (const std::string& name : awkward) {
    for (const std::string& value : awkward) {
      texts.insert(CacheKey(EntryKind::Binary, "t").add(name, value).text());
      texts.insert(CacheKey(EntryKind::Binary, "t").add(name, value).add(value, name).text());
      made += 2;
    }
  }
  EXPECT_EQ(texts.size(), made);
}

}  // namespace
}  // namespace codetta::toolchain

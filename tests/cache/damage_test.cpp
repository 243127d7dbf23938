// SPDX-License-Identifier: Apache-2.0
// A damaged entry is one miss that heals itself: truncation at every byte, every bit flipped, lying sizes.
#include <gtest/gtest.h>
#include <unistd.h>

#include "cache_fixture.hpp"
#include "toolchain/entry_format.hpp"

namespace codetta::toolchain {
namespace {

class CacheDamage : public CacheTest {
 protected:
  CacheDamage() : cache_(open()), file_(cache_->path_of(key_of(1))) {
    cache_->store(key_of(1), entry_of(1, CODETTA_TEST_FULL ? 3000 : 200));
    good_ = *base::read_file(file_, 1 << 20);
  }
  void put(std::string_view bytes) const {
    ASSERT_TRUE(base::write_file_atomically(file_, bytes, {base::Publish::Replace, 0600, false}));
  }
  void expect_one_miss(const std::string& what) {
    const int64_t before = cache_->statistics().damaged;
    EXPECT_FALSE(cache_->lookup(key_of(1))) << what;
    EXPECT_EQ(cache_->statistics().damaged, before + 1) << what;
    EXPECT_FALSE(base::read_file(file_, 1 << 20)) << what << ": still there";
  }

  std::shared_ptr<Cache> cache_;
  std::string file_;
  std::string good_;
};

TEST_F(CacheDamage, TruncatedAnywhere) {
  for (size_t size = 0; size < good_.size(); ++size) {
    put(std::string_view(good_).substr(0, size));
    expect_one_miss("cut to " + std::to_string(size));
  }
  put(good_ + "x");
  expect_one_miss("one byte more");
}

TEST_F(CacheDamage, AnyBitFlipped) {
  for (size_t bit = 0; bit < good_.size() * 8; ++bit) {
    std::string bytes = good_;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(decode_entry(bytes)) << bit;
    if (bit % 8 != (bit / 8) % 8 && CODETTA_TEST_FULL == 0) continue;  // through the file system: one bit of each byte
    put(bytes);
    expect_one_miss("bit " + std::to_string(bit));
  }
}

TEST_F(CacheDamage, HealsWithTheNextStore) {
  put(good_.substr(0, 20));
  bool hit = true;
  const auto made = cache_->get_or_make(
      key_of(1), [] { return Result<CacheEntry>(entry_of(1)); }, &hit);
  ASSERT_TRUE(made);
  EXPECT_FALSE(hit);
  EXPECT_TRUE(same(*cache_->lookup(key_of(1)), entry_of(1)));
}

TEST_F(CacheDamage, LyingSizes) {
  for (const size_t field : {size_t{16}, size_t{24}, size_t{32}}) {
    for (const uint64_t lie : {UINT64_MAX, uint64_t{1} << 63, uint64_t{1} << 40, uint64_t{0}, UINT64_MAX - 15}) {
      std::string bytes = good_;
      for (size_t i = 0; i < 8; ++i) bytes[field + i] = static_cast<char>(lie >> (8 * i) & 255);
      EXPECT_FALSE(decode_entry(bytes)) << field << " " << lie;
    }
  }
}

TEST_F(CacheDamage, ASparseGiantIsNotRead) {
  put(good_);
  ASSERT_EQ(::truncate(file_.c_str(), int64_t{1} << 40), 0);
  expect_one_miss("a file of 1 TiB");
}

TEST(EntryFormat, RoundTrip) {
  for (const size_t size : {0, 1, 100, 100000}) {
    const CacheKey key = key_of(static_cast<int>(size), EntryKind::Tuning);
    const std::string bytes = encode_entry(key, entry_of(7, size));
    const auto view = decode_entry(bytes);
    ASSERT_TRUE(view);
    EXPECT_EQ(view->kind, EntryKind::Tuning);
    EXPECT_EQ(view->key, key.text());
    EXPECT_EQ(view->metadata, entry_of(7).metadata);
    EXPECT_EQ(view->payload, entry_of(7, size).payload);
  }
}

}  // namespace
}  // namespace codetta::toolchain

// SPDX-License-Identifier: Apache-2.0
// Images of one file and of several, whole and damaged; what emitted libraries read of them.
#include "package/image.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "device/host/image_parts.h"

namespace codetta::package {
namespace {

TEST(Images, AreOneFileAsItIs) {
  const std::string image = image_of({"ELF of one"});
  EXPECT_EQ(image, "ELF of one");
  EXPECT_EQ(files_of(image), std::vector<std::string_view>{"ELF of one"});
  EXPECT_EQ(files_of("codett"), std::vector<std::string_view>{"codett"});
  const void* parts[gpu::host::most_image_parts] = {};
  EXPECT_EQ(gpu::host::image_parts(image.data(), parts), 1);
  EXPECT_EQ(parts[0], image.data());
  EXPECT_EQ(parts[1], nullptr);
}

TEST(Images, AreSeveralFilesBehindATable) {
  const std::string first(100, 'x'), second = "second\0file";
  const std::string image = image_of({first, second});
  const auto files = files_of(image);
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0], first);
  EXPECT_EQ(files[1], second);
  const void* parts[gpu::host::most_image_parts] = {};
  ASSERT_EQ(gpu::host::image_parts(image.data(), parts), 2);
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(parts[i], files[i].data());
    EXPECT_EQ((files[i].data() - image.data()) % 64, 0);
  }
}

TEST(Images, AreRefusedWhereTheTableIsDamaged) {
  const std::string image = image_of({"first", "second"});
  for (const size_t size : {size_t{8}, size_t{63}, image.size() - 1})
    EXPECT_TRUE(files_of(image.substr(0, size)).empty());
  const auto with = [&](size_t at, uint64_t value) {
    std::string changed = image;
    std::memcpy(changed.data() + at, &value, sizeof value);
    return changed;
  };
  for (const uint64_t count : {uint64_t{0}, uint64_t{3}, ~uint64_t{0}}) EXPECT_TRUE(files_of(with(8, count)).empty());
  for (const uint64_t begin : {uint64_t{1}, uint64_t{1} << 20, ~uint64_t{63}})
    EXPECT_TRUE(files_of(with(16, begin)).empty());
  EXPECT_TRUE(files_of(with(24, ~uint64_t{0})).empty());
}

}  // namespace
}  // namespace codetta::package

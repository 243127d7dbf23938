// SPDX-License-Identifier: Apache-2.0
// codetta_embed() carries files byte for byte, whatever characters they hold.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "device/embedded.hpp"

namespace codetta::device {

std::span<const EmbeddedFile> fixture_files();

namespace {

std::string read(const std::string& path) {
  std::ifstream in(std::string(CODETTA_SOURCE_DIR) + "/" + path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Embed, FilesKeepEveryByte) {
  const auto files = fixture_files();
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0].path, "awkward.txt");
  EXPECT_EQ(files[1].path, "empty.txt");
  EXPECT_EQ(files[2].path, "sub/short.txt");
  for (const EmbeddedFile& file : files) {
    EXPECT_EQ(file.text, read("tests/unit/tools/fixtures/" + std::string(file.path))) << file.path;
  }
}

TEST(Embed, DigestIsTheStartOfSha256) {
  EXPECT_EQ(fixture_files()[1].digest_hex, "e3b0c44298fc1c149afbf4c8996fb924");  // of no bytes
}

TEST(Embed, TheLibraryCarriesTheFilesOfThisTree) {
  for (const EmbeddedFile& file : files()) {
    EXPECT_EQ(file.text, read("device/" + std::string(file.path))) << file.path;
    EXPECT_EQ(find_file(file.path), &file);
  }
  EXPECT_EQ(find_file("cpu/no_such_file.h"), nullptr);
}

}  // namespace
}  // namespace codetta::device

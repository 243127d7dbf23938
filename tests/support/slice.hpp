// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace codetta::test {

// Any text picks a slice of a campaign (FNV-1a).
inline uint64_t slice_of(const char* text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (; *text != '\0'; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001B3u;
  return hash % 1000000;
}

// That of the commit that is tested; told once.
inline uint64_t commit_slice() {
  static const uint64_t slice = [] {
    std::string commit(40, '\0');
    FILE* const git = ::popen("git -C '" CODETTA_SOURCE_DIR "' rev-parse HEAD 2>/dev/null", "r");
    if (git == nullptr) return uint64_t{0};
    const size_t size = std::fread(commit.data(), 1, commit.size(), git);
    if (::pclose(git) != 0 || size != commit.size()) return uint64_t{0};
    std::printf("slice of %s\n", commit.c_str());
    return slice_of(commit.c_str());
  }();
  return slice;
}

#ifdef CODETTA_TEST_FULL
// Whether case `which` of a list runs: of `of` cases in a row each commit runs another one, the full suites all.
inline bool commit_takes(uint64_t which, uint64_t of) {
  return CODETTA_TEST_FULL != 0 || (which + commit_slice()) % of == 0;
}
#endif

}  // namespace codetta::test

// SPDX-License-Identifier: Apache-2.0
// Finding libraries of others, which are loaded when they are first needed and stay loaded.
#pragma once

#include <span>
#include <string>

namespace codetta::base {

struct LibrarySearch {
  std::string file{};                    // this one and no other; "" = look for the names
  std::string toolkit{};                 // its lib64 and lib come first; "" = none
  std::span<const char* const> names{};  // by preference
  std::string folder{};                  // looked at last, behind the loader's own search
};

struct FoundLibrary {
  void* handle = nullptr;  // as of dlopen; nullptr: there is none
  std::string refused{};   // what the loader says of a file that is there and cannot be loaded
  std::string looked{};    // "there is no file x", "looked for a, b by the loader and in /c"
};
FoundLibrary find_library(const LibrarySearch& search);

// The file, links resolved, that an address of a loaded library or of the program comes from; "" when the loader does
// not know it.
std::string library_file_of(const void* address);

}  // namespace codetta::base

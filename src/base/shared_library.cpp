// SPDX-License-Identifier: Apache-2.0
#include "base/shared_library.hpp"

#include <dlfcn.h>

#if defined(__linux__)
#include <sys/auxv.h>
#endif

#include <cstdlib>
#include <string_view>
#include <vector>

namespace codetta::base {
namespace {

std::vector<std::string> candidates_of(const LibrarySearch& search) {
  if (!search.file.empty()) return {search.file};
  std::vector<std::string> candidates;
  const auto add = [&](const std::string& folder) {
    for (const char* name : search.names) candidates.push_back(folder + name);
  };
  if (!search.toolkit.empty()) {
    add(search.toolkit + "/lib64/");
    add(search.toolkit + "/lib/");
  }
  add("");
  if (!search.folder.empty()) add(search.folder + "/");
  return candidates;
}

std::string looked_text(const LibrarySearch& search) {
  if (!search.file.empty()) return "there is no file " + search.file;
  std::string places = "by the loader";
  if (!search.folder.empty()) places += ", in " + search.folder;
  if (!search.toolkit.empty()) places += " and in lib64 and lib of " + search.toolkit;
  std::string names;
  for (const char* name : search.names) names += (names.empty() ? "" : ", ") + std::string(name);
  return "looked for " + names + " " + places;
}

}  // namespace

FoundLibrary find_library(const LibrarySearch& search) {
  FoundLibrary found;
  for (const std::string& candidate : candidates_of(search)) {
    found.handle = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (found.handle != nullptr) return found;
    const char* why = ::dlerror();
    const std::string_view text = why != nullptr ? why : "";
    // One that is there but damaged says more than those that are not.
    if (found.refused.empty() && text.find("No such file") == std::string_view::npos) found.refused = text;
  }
  found.looked = looked_text(search);
  return found;
}

std::string library_file_of(const void* address) {
  Dl_info info{};
  if (address == nullptr || ::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
  const char* name = info.dli_fname;
#if defined(__linux__)
  // Of the program the loader knows the word that started it, which may be one that a search path completed.
  Dl_info program{};
  const auto* headers = reinterpret_cast<const void*>(::getauxval(AT_PHDR));  // NOLINT(performance-no-int-to-ptr)
  if (::dladdr(headers, &program) != 0 && program.dli_fbase == info.dli_fbase) name = "/proc/self/exe";
#endif
  char* resolved = ::realpath(name, nullptr);
  std::string file = resolved != nullptr ? resolved : info.dli_fname;
  std::free(resolved);  // NOLINT(cppcoreguidelines-no-malloc): realpath allocates so
  return file;
}

}  // namespace codetta::base

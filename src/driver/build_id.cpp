// SPDX-License-Identifier: Apache-2.0
// The build id from the notes of the loaded object.
#include "driver/build_id.hpp"

#if defined(__linux__)
#include <link.h>
#include <sys/stat.h>
#endif

#include <cstdint>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "base/kept.hpp"
#include "codetta/version.hpp"

namespace codetta::driver {
namespace {

#if defined(__linux__)
struct Search {
  uintptr_t address = 0;  // of a function of this library
  std::string path;       // of the object that holds it; empty: the program itself
  std::string id;         // hex digits
};

// Notes are records of name size, description size and type, then both texts, each padded to 4 bytes (ELF gABI).
std::string build_id_in(const unsigned char* notes, size_t size) {
  ElfW(Nhdr) header{};
  const auto padded = [](size_t bytes) { return (bytes + 3) & ~size_t{3}; };
  while (size >= sizeof header) {
    std::memcpy(&header, notes, sizeof header);
    const size_t name = padded(header.n_namesz), text = padded(header.n_descsz);
    if (name > size - sizeof header || text > size - sizeof header - name) break;
    const unsigned char* found = notes + sizeof header;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && std::memcmp(found, "GNU", 4) == 0) {
      std::string hex;
      for (size_t i = 0; i < header.n_descsz; ++i) hex += fmt::format("{:02x}", found[name + i]);
      return hex;
    }
    notes = found + name + text;
    size -= sizeof header + name + text;
  }
  return {};
}

int look_at(dl_phdr_info* object, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  bool holds = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    const uintptr_t start = object->dlpi_addr + segment.p_vaddr;
    holds |= segment.p_type == PT_LOAD && search.address >= start && search.address - start < segment.p_memsz;
  }
  if (!holds) return 0;
  search.path = object->dlpi_name;
  for (int i = 0; i < object->dlpi_phnum && search.id.empty(); ++i) {
    const auto& segment = object->dlpi_phdr[i];
    if (segment.p_type == PT_NOTE)
      search.id =
          build_id_in(reinterpret_cast<const unsigned char*>(object->dlpi_addr + segment.p_vaddr), segment.p_memsz);
  }
  return 1;
}

std::string find_build_id() {
  Search search;
  search.address = reinterpret_cast<uintptr_t>(&build_id);
  dl_iterate_phdr(look_at, &search);
  if (!search.id.empty()) return fmt::format("{} {}", version(), search.id);
  struct stat info {};
  if (::stat(search.path.empty() ? "/proc/self/exe" : search.path.c_str(), &info) != 0) return version();
  return fmt::format("{} {} {}.{} {}", version(), info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_ino);
}
#else
std::string find_build_id() { return version(); }
#endif

}  // namespace

const std::string& build_id() {
  static const auto& id = base::kept(find_build_id());
  return id;
}

}  // namespace codetta::driver

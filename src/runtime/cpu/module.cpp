// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/module.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "base/files.hpp"
#include "diag/diagnostic.hpp"

#if defined(__linux__)
#include <elf.h>
#endif

namespace codetta::runtime::cpu {

namespace {

// Counts the loads of this process. It is process-wide because the table of the loader, whose entries it tells apart,
// is.
std::atomic<uint64_t>& load_counter() {
  static std::atomic<uint64_t> counter = 0;
  return counter;
}

// "/" and "/." change nothing in a path, so a run of them writes a number in bits: no two numbers give one spelling.
// The address of the counter is part of it, lest a second copy of this library in the process write the same.
std::string slashes(uint64_t number) {
  std::string text;
  for (int bit = 0; bit < 64; ++bit) text += (number >> bit & 1) != 0 ? "/." : "/";
  return text;
}

std::string fresh_spelling(const std::string& folder, const std::string& name) {
  std::atomic<uint64_t>& counter = load_counter();
  return folder + slashes(counter++) + slashes(reinterpret_cast<uintptr_t>(&counter)) + "/" + name;
}

// Why the bytes are no shared object; "" when they may be one. The loader maps segments unchecked, and a segment beyond
// the end of the file would end the process when it is touched.
std::string defect_of(std::string_view bytes) {
#if defined(__linux__) && defined(__LP64__)
  Elf64_Ehdr header{};
  if (bytes.size() < sizeof header) return fmt::format("{} bytes are too few for a shared object", bytes.size());
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_type != ET_DYN) {
    return "the bytes are no 64-bit ELF shared object";
  }
  const uint64_t table_bytes = uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phoff > bytes.size() ||
      table_bytes > bytes.size() - header.e_phoff) {
    return "the program headers lie outside of the bytes";
  }
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    std::memcpy(&segment, bytes.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type != PT_LOAD && segment.p_type != PT_DYNAMIC) continue;
    if (segment.p_offset > bytes.size() || segment.p_filesz > bytes.size() - segment.p_offset) {
      return fmt::format("a segment ends beyond the {} bytes", bytes.size());
    }
  }
#else
  if (bytes.empty()) return "there are no bytes";
#endif
  return {};
}

void* open_library(const std::string& path, std::string& why) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* said = ::dlerror();
    why = said != nullptr ? said : "the loader gave no reason";
    // The spelling says nothing to a reader.
    if (why.starts_with(path)) why = "the object" + why.substr(path.size());
  }
  return handle;
}

void* load_from_memory(std::string_view bytes, const base::SystemCalls& calls, std::string& why) {
  const auto file = base::make_sealed_file("codetta-kernel", bytes, calls);
  if (!file) {
    why = file.error().message();
    return nullptr;
  }
  return open_library(fresh_spelling("/proc/self/fd", std::to_string(file->get())), why);
}

// For systems without memfd, without /proc, or that forbid executing a memfd. The folder is removed at once; the
// mapping stays.
void* load_from_folder(const char* parent, std::string_view bytes, std::string& why) {
  const auto folder = base::TemporaryDirectory::make(parent, "codetta-load-");
  if (!folder) {
    why = folder.error().message();
    return nullptr;
  }
  base::WriteOptions options;
  options.mode = 0600;
  options.sync = false;
  const auto written = base::write_file_atomically(folder->path() + "/kernel.so", bytes, options);
  if (!written) {
    why = written.error().message();
    return nullptr;
  }
  return open_library(fresh_spelling(folder->path(), "kernel.so"), why);
}

}  // namespace

Result<std::shared_ptr<const Module>> Module::load(std::string_view bytes, const std::string& digest_symbol,
                                                   const std::string& digest, const base::SystemCalls& calls) {
  const auto refuse = [&](std::string reason) {
    return diag::error(diag::Code::module_load, "a compiled kernel can not be loaded")
        .reason(std::move(reason))
        .help(
            "clear the cache and try again; if the reason names a symbol or the kernel's format, choose another "
            "compiler");
  };
  if (const std::string defect = defect_of(bytes); !defect.empty()) return refuse(defect);
  std::string reason;
  void* handle = load_from_memory(bytes, calls, reason);
  std::string last = reason;
  for (const char* parent : {"/dev/shm", "/tmp", "/var/tmp"}) {
    if (handle != nullptr) break;
    std::string why;
    handle = load_from_folder(parent, bytes, why);
    if (handle == nullptr) reason += fmt::format("; from {}: {}", parent, why == last ? "the same" : why);
    last = why;
  }
  if (handle == nullptr) return refuse(reason);

  std::shared_ptr<const Module> module(new Module(handle));
  const auto* found = static_cast<const char*>(module->symbol(digest_symbol));
  if (found == nullptr || std::strncmp(found, digest.c_str(), digest.size() + 1) != 0) {
    return diag::error(diag::Code::module_digest, "a loaded kernel is not the one that was asked for")
        .reason(found == nullptr ? fmt::format("it has no symbol {}", digest_symbol)
                                 : fmt::format("its digest is {}, and {} was expected",
                                               std::string_view(found, ::strnlen(found, digest.size())), digest))
        .help("clear the cache and try again; report it if it happens again");
  }
  return module;
}

Module::~Module() { ::dlclose(handle_); }

void* Module::symbol(const std::string& name) const { return ::dlsym(handle_, name.c_str()); }

}  // namespace codetta::runtime::cpu

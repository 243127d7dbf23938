// SPDX-License-Identifier: Apache-2.0
// Weights beside an emitted library: a safetensors file, mapped read-only. The file is not trusted: every offset is
// checked against its size. (Format: https://github.com/huggingface/safetensors#format)
#pragma once

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/host/support.h"

namespace codetta::host {

// A mapped file, and what else the weights need: copies of those that lie misaligned, packed forms. All of it is given
// back when the library is unloaded.
struct Weights {
  const char* base = nullptr;
  u64 bytes = 0;
  static constexpr i32 most_copies = 4096;
  struct Copy {
    void* memory;
    const void* of;  // what lies there in the file, `size` bytes; null: something else
    i64 size;
  };
  Copy* copies = nullptr;
  i32 copy_count = 0;
  void* packed = nullptr;  // the last PackedWeight of weights.h

  ~Weights() { close(); }
  void close() {
    if (base != nullptr) munmap(const_cast<char*>(base), bytes);
    base = nullptr;
    for (i32 i = 0; i < copy_count; ++i) free(copies[i].memory);
    free(copies);
    copies = nullptr;
    copy_count = 0;
    packed = nullptr;
  }
  // Memory that lives as long as the weights, 64-byte aligned; null without memory. What is large asks for huge pages,
  // since every call reads all of it.
  void* keep(i64 size, const void* of = nullptr) {
    constexpr i64 huge_page = i64{2} << 20;
    if (copies == nullptr) copies = static_cast<Copy*>(calloc(most_copies, sizeof(Copy)));
    if (copies == nullptr || copy_count == most_copies) return nullptr;
    const i64 alignment = size >= 2 * huge_page ? huge_page : 64;
    const Number room = round_up(size == 0 ? 64 : size, alignment);
    void* memory = room.bad ? nullptr : aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(room.value));
    if (memory == nullptr) return nullptr;
#if defined(MADV_HUGEPAGE)
    if (alignment == huge_page) (void)madvise(memory, static_cast<size_t>(room.value), MADV_HUGEPAGE);
#endif
    copies[copy_count++] = {memory, of, size};
    return memory;
  }
  [[nodiscard]] const void* copy_of(const void* place, i64 size) const {
    for (i32 i = 0; i < copy_count; ++i) {
      if (copies[i].of == place && copies[i].size == size) return copies[i].memory;
    }
    return nullptr;
  }
};
inline Weights weights;

// A reader of the header's JSON: an object of objects, nothing deeper than what the format has.
struct Json {
  const char* at;
  const char* end;
  bool bad = false;

  void blanks() {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) ++at;
  }
  bool take(char c) {
    blanks();
    if (at == end || *at != c) return false;
    ++at;
    return true;
  }
  bool need(char c) {
    if (!take(c)) bad = true;
    return !bad;
  }
  // A string, its escapes decoded to bytes; cut to the size of the buffer (and then `cut` is true). \u beyond ASCII
  // becomes '?': no name of a program holds one.
  bool string(char* text, u64 size, bool* cut) {
    u64 n = 0;
    *cut = false;
    if (!need('"')) return false;
    while (at < end && *at != '"') {
      char c = *at++;
      if (c == '\\') {
        if (at == end) break;
        c = *at++;
        if (c == 'n') c = '\n';
        if (c == 't') c = '\t';
        if (c == 'r') c = '\r';
        if (c == 'b') c = '\b';
        if (c == 'f') c = '\f';
        if (c == 'u') {
          unsigned code = 0;
          for (int i = 0; i < 4; ++i, ++at) {
            const char h = at < end ? *at : 'x';
            const int digit = h >= '0' && h <= '9'   ? h - '0'
                              : h >= 'a' && h <= 'f' ? h - 'a' + 10
                              : h >= 'A' && h <= 'F' ? h - 'A' + 10
                                                     : -1;
            if (digit < 0) return !(bad = true);
            code = code * 16 + static_cast<unsigned>(digit);
          }
          c = code < 0x80 ? static_cast<char>(code) : '?';
        }
      }
      if (n + 1 < size) {
        text[n++] = c;
      } else {
        *cut = true;
      }
    }
    text[n] = '\0';
    return need('"');
  }
  bool number(i64* value) {
    blanks();
    Number n(0);
    const char* start = at;
    for (; at < end && *at >= '0' && *at <= '9'; ++at) n = n * Number(10) + Number(*at - '0');
    *value = n.value;
    if (at == start || n.bad) bad = true;
    return !bad;
  }
  // Up to `most` numbers in brackets; their count.
  i32 numbers(i64* values, i32 most) {
    i32 n = 0;
    if (!need('[')) return 0;
    if (take(']')) return 0;
    do {
      i64 value = 0;
      if (!number(&value)) return 0;
      if (n == most) {
        bad = true;
        return 0;
      }
      values[n++] = value;
    } while (take(','));
    need(']');
    return n;
  }
};

struct Weight {
  char dtype[16];
  i64 shape[max_rank];
  i32 rank;
  i64 offsets[2];
};

inline const char* safetensors_dtype(i32 dtype) {
  static const char* const names[dtype_count] = {"BOOL", "I8",      "I16",     "I32", "I64",  "U8",  "U16", "U32",
                                                 "U64",  "F8_E4M3", "F8_E5M2", "F16", "BF16", "F32", "F64"};
  return names[dtype];
}

// The entry of this name. false: there is none, or the header is damaged (then *damaged).
inline bool find_entry(const char* header, u64 size, const char* wanted, Weight* found, bool* damaged) {
  Json json{header, header + size};
  bool there = false, cut = false;
  char name[512];
  *damaged = true;
  if (!json.need('{')) return false;
  if (!json.take('}')) {
    do {
      if (!json.string(name, sizeof name, &cut) || !json.need(':') || !json.need('{')) return false;
      const bool metadata = !cut && strcmp(name, "__metadata__") == 0;
      const bool match = !cut && !there && strcmp(name, wanted) == 0;
      Weight entry{};
      bool have_dtype = false, have_shape = false, have_offsets = false;
      if (!json.take('}')) {
        do {
          char key[32], text[16];
          if (!json.string(key, sizeof key, &cut) || !json.need(':')) return false;
          if (!metadata && strcmp(key, "dtype") == 0) {
            have_dtype = json.string(entry.dtype, sizeof entry.dtype, &cut);
          } else if (!metadata && strcmp(key, "shape") == 0) {
            entry.rank = json.numbers(entry.shape, max_rank);
            have_shape = true;
          } else if (!metadata && strcmp(key, "data_offsets") == 0) {
            have_offsets = json.numbers(entry.offsets, 2) == 2;
          } else {
            json.string(text, sizeof text, &cut);
          }
          if (json.bad) return false;
        } while (json.take(','));
        if (!json.need('}')) return false;
      }
      if (metadata) continue;
      if (!have_dtype || !have_shape || !have_offsets) return false;
      if (match) {
        *found = entry;
        there = true;
      }
    } while (json.take(','));
    if (!json.need('}')) return false;
  }
  *damaged = false;
  return there;
}

// `path` null: `file_name` in the folder that holds this library.
inline Status open_weights(const char* path, const char* file_name) {
  char beside[4096];
  if (path == nullptr) {
    Dl_info info;
    if (dladdr(&weights, &info) == 0 || info.dli_fname == nullptr)
      return fail(bad_weights, "E0620: the folder of this library is not known; pass the path of %s", file_name);
    const char* slash = strrchr(info.dli_fname, '/');
    const int folder = slash == nullptr ? 0 : static_cast<int>(slash - info.dli_fname) + 1;
    const int length = snprintf(beside, sizeof beside, "%.*s%s", folder, info.dli_fname, file_name);
    if (length < 0 || length >= static_cast<int>(sizeof beside))
      return fail(bad_weights, "E0620: the path of %s is too long", file_name);
    path = beside;
  }
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return fail(bad_weights, "E0620: the weights %.700s cannot be read: %s", path, strerror(errno));
  struct stat info {};
  const bool known = fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  const u64 size = known ? static_cast<u64>(info.st_size) : 0;
  void* mapped = size >= 8 ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
  ::close(file);
  if (mapped == MAP_FAILED)
    return fail(bad_weights, "E0621: the weights %.700s are no safetensors file: it has %lld bytes", path,
                static_cast<long long>(size));
  weights.close();
  weights.base = static_cast<const char*>(mapped);
  weights.bytes = size;
  u64 header = 0;
  memcpy(&header, weights.base, 8);
  if (header <= size - 8) return ok;
  weights.close();
  return fail(
      bad_weights,
      "E0621: the weights %.700s are truncated or no safetensors file: the header takes %llu bytes, %lld are there",
      path, static_cast<unsigned long long>(header), static_cast<long long>(size - 8));
}

// The weight of this name, dtype and shape as a row-major view.
inline Status load_weight(View& view, const char* name, i32 dtype, const i64* sizes, i32 rank) {
  u64 header = 0;
  memcpy(&header, weights.base, 8);
  Weight found{};
  bool damaged = false;
  if (!find_entry(weights.base + 8, header, name, &found, &damaged)) {
    return damaged ? fail(bad_weights, "E0621: the header of the weights is damaged")
                   : fail(bad_weights, "E0621: the weights lack the tensor %s", name);
  }
  if (strcmp(found.dtype, safetensors_dtype(dtype)) != 0)
    return fail(bad_weights, "E0622: the weight %s is %s; the program takes %s", name, found.dtype,
                safetensors_dtype(dtype));
  Number bytes(dtype_bytes(dtype));
  bool same = found.rank == rank;
  Number wanted[max_rank];
  for (i32 i = 0; i < found.rank; ++i) {
    same = same && found.shape[i] == sizes[i];
    bytes = bytes * Number(found.shape[i]);
    wanted[i] = Number(found.shape[i]);
  }
  View declared, there;
  declared.dtype = there.dtype = dtype;
  declared.rank = rank;
  there.rank = found.rank;
  for (i32 i = 0; i < rank; ++i) declared.size[i] = sizes[i];
  for (i32 i = 0; i < found.rank; ++i) there.size[i] = found.shape[i];
  if (!same)
    return fail(bad_weights, "E0621: the weight %s is %s; the program takes %s", name, describe(there),
                describe(declared));
  const u64 data = weights.bytes - 8 - header;
  if (bytes.bad || found.offsets[0] < 0 || found.offsets[1] < found.offsets[0] ||
      static_cast<u64>(found.offsets[1]) > data || found.offsets[1] - found.offsets[0] != bytes.value)
    return fail(bad_weights, "E0621: the weights are truncated or damaged: %s lies in bytes %lld to %lld of %lld", name,
                static_cast<long long>(found.offsets[0]), static_cast<long long>(found.offsets[1]),
                static_cast<long long>(data));
  const char* place = weights.base + 8 + header + found.offsets[0];
  if (reinterpret_cast<u64>(place) % static_cast<u64>(dtype_bytes(dtype)) != 0) {
    const void* known = weights.copy_of(place, bytes.value);  // of another function's kernels
    void* copy = known == nullptr ? weights.keep(bytes.value, place) : nullptr;
    if (known == nullptr && copy == nullptr)
      return fail(no_memory, "E0606: no memory for a copy of the weight %s", name);
    if (copy != nullptr) memcpy(copy, place, static_cast<size_t>(bytes.value));
    place = static_cast<const char*>(known == nullptr ? copy : known);
  }
  return bind(view, place, dtype, wanted, rank, name);
}

}  // namespace codetta::host

// SPDX-License-Identifier: Apache-2.0
// Pretended code objects: what a loader and the reader of metadata look at is there (ELF for AMD GPUs, the note with
// each kernel's registers and LDS), and instead of instructions a payload for the pretended runtime that loads it.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace codetta::test {

struct PretendedKernel {
  std::string name;
  uint32_t registers = 64, spilled = 0, scratch_bytes = 0, lds_bytes = 0;
};

namespace code_object {

constexpr size_t header_bytes = 64, section_bytes = 64;

inline void put(std::string& to, size_t at, uint64_t value, int size) {
  for (int i = 0; i < size; ++i) to[at + static_cast<size_t>(i)] = static_cast<char>(value >> (8 * i));
}
inline uint64_t get(const char* from, size_t at, int size) {
  uint64_t value = 0;
  for (int i = size; i-- > 0;) value = value << 8 | static_cast<uint8_t>(from[at + static_cast<size_t>(i)]);
  return value;
}

// MessagePack: texts of up to 65535 bytes, numbers of 32 bits.
inline void add_text(std::string& to, std::string_view text) {
  to += '\xda';
  to += static_cast<char>(text.size() >> 8);
  to += static_cast<char>(text.size());
  to += text;
}
inline void add_number(std::string& to, uint32_t value) {
  to += '\xce';
  for (int i = 3; i >= 0; --i) to += static_cast<char>(value >> (8 * i));
}

inline std::string metadata(const std::vector<PretendedKernel>& kernels) {
  std::string text = "\x81";
  add_text(text, "amdhsa.kernels");
  text += '\xdc';
  text += static_cast<char>(kernels.size() >> 8);
  text += static_cast<char>(kernels.size());
  for (const PretendedKernel& kernel : kernels) {
    text += '\x85';
    add_text(text, ".name");
    add_text(text, kernel.name);
    const std::pair<const char*, uint32_t> numbers[] = {{".vgpr_count", kernel.registers},
                                                        {".vgpr_spill_count", kernel.spilled},
                                                        {".private_segment_fixed_size", kernel.scratch_bytes},
                                                        {".group_segment_fixed_size", kernel.lds_bytes}};
    for (const auto& [name, value] : numbers) {
      add_text(text, name);
      add_number(text, value);
    }
  }
  return text;
}

}  // namespace code_object

// The payload begins at the "entry", and has as many bytes as the place of the (missing) program headers says.
inline std::string make_code_object(const std::vector<PretendedKernel>& kernels, std::string_view payload) {
  using namespace code_object;
  const std::string description = metadata(kernels);
  std::string note(12, '\0');
  put(note, 0, 7, 4);
  put(note, 4, description.size(), 4);
  put(note, 8, 32, 4);
  note += std::string("AMDGPU\0\0", 8) + description;
  note.resize((note.size() + 15) / 16 * 16);
  std::string object(header_bytes + section_bytes, '\0');
  std::memcpy(object.data(), "\177ELF\2\1\1", 7);
  put(object, 18, 224, 2);  // for AMD GPUs
  put(object, 24, object.size() + note.size(), 8);
  put(object, 32, payload.size(), 8);
  put(object, 40, header_bytes, 8);  // sections: one
  put(object, 58, section_bytes, 2);
  put(object, 60, 1, 2);
  put(object, header_bytes + 4, 7, 4);  // of notes
  put(object, header_bytes + 24, object.size(), 8);
  put(object, header_bytes + 32, note.size(), 8);
  object += note;
  object += payload;
  return object;
}

// Of an image of any length that begins as an ELF file; empty for a code object that a true compiler has made.
inline std::string payload_of(const void* image) {
  using namespace code_object;
  const char* bytes = static_cast<const char*>(image);
  if (get(bytes, 18, 2) != 224 || get(bytes, 24, 8) == 0) return {};
  return {bytes + get(bytes, 24, 8), static_cast<size_t>(get(bytes, 32, 8))};
}

}  // namespace codetta::test

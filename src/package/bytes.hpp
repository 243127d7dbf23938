// SPDX-License-Identifier: Apache-2.0
// The byte form that packages and epilogue programs share: LEB128 integers, length-prefixed strings. Reading treats the
// bytes as untrusted: the first problem is kept, every later read gives zero, and no count exceeds the bytes that are
// left.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "codetta/tensor.hpp"
#include "types/dim.hpp"

namespace codetta::package {

class ByteWriter {
 public:
  void number(uint64_t value) {
    while (value >= 0x80) {
      bytes_.push_back(static_cast<char>(value | 0x80));
      value >>= 7;
    }
    bytes_.push_back(static_cast<char>(value));
  }
  void integer(int64_t value) {  // zigzag: small magnitudes are short
    number((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
  }
  void flag(bool value) { bytes_.push_back(value ? 1 : 0); }
  template <class Enum>
  void choice(Enum value) {
    bytes_.push_back(static_cast<char>(value));
  }
  void text(std::string_view value) {
    number(value.size());
    bytes_.append(value);
  }
  void dim(const types::Dim& value) { text(value.to_string()); }
  void raw(std::string_view value) { bytes_.append(value); }
  // As many bytes, to be written there before anything follows.
  char* room(size_t size) {
    bytes_.resize(bytes_.size() + size);
    return bytes_.data() + (bytes_.size() - size);
  }
  void expect(size_t more) { bytes_.reserve(bytes_.size() + more); }  // what follows, about: it is not moved then
  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  [[nodiscard]] std::string take() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  uint64_t number();
  // Above `limit` is damage; `what` names the field in the reason.
  uint64_t number_up_to(uint64_t limit, std::string_view what);
  uint32_t index(std::string_view what) { return static_cast<uint32_t>(number_up_to(UINT32_MAX, what)); }
  int64_t integer();
  int32_t small(int32_t least, int32_t most, std::string_view what);
  bool flag();
  template <class Enum>
  Enum choice(uint64_t count, std::string_view what) {
    return static_cast<Enum>(choice_value(count, what));
  }
  DType dtype() { return choice<DType>(dtype_count, "dtype"); }
  std::string text(uint64_t limit, std::string_view what);
  types::Dim dim();
  // How many elements follow; each takes at least a byte, so nothing larger than the input is ever allocated.
  size_t count(uint64_t limit, std::string_view what);
  std::string_view raw(size_t size);

  void damage(std::string reason);
  [[nodiscard]] bool ok() const { return reason_.empty(); }
  [[nodiscard]] const std::string& reason() const { return reason_; }
  [[nodiscard]] size_t left() const { return bytes_.size() - at_; }

 private:
  uint8_t choice_value(uint64_t count, std::string_view what);
  std::string_view bytes_;
  size_t at_ = 0;
  std::string reason_;
};

}  // namespace codetta::package

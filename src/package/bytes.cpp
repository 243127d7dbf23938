// SPDX-License-Identifier: Apache-2.0
// Reading untrusted bytes.
#include "package/bytes.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace codetta::package {

void ByteReader::damage(std::string reason) {
  if (reason_.empty()) reason_ = fmt::format("{} (byte {} of {})", reason, at_, bytes_.size());
  at_ = bytes_.size();
}

uint64_t ByteReader::number() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at_ >= bytes_.size()) {
      damage("it ends within a number");
      return 0;
    }
    const auto byte = static_cast<uint8_t>(bytes_[at_++]);
    const uint64_t part = byte & 0x7F;
    if (shift == 63 && part > 1) break;
    value |= part << shift;
    if ((byte & 0x80) == 0) {
      if (byte == 0 && shift != 0) break;  // one form a value: no padding
      return value;
    }
  }
  damage("a number is malformed");
  return 0;
}

uint64_t ByteReader::number_up_to(uint64_t limit, std::string_view what) {
  const uint64_t value = number();
  if (value <= limit) return value;
  damage(fmt::format("{} is {}, above {}", what, value, limit));
  return 0;
}

int64_t ByteReader::integer() {
  const uint64_t value = number();
  return static_cast<int64_t>((value >> 1) ^ (~(value & 1) + 1));
}

int32_t ByteReader::small(int32_t least, int32_t most, std::string_view what) {
  const int64_t value = integer();
  if (value >= least && value <= most) return static_cast<int32_t>(value);
  damage(fmt::format("{} is {}, not {} to {}", what, value, least, most));
  return least;
}

uint8_t ByteReader::choice_value(uint64_t count, std::string_view what) {
  if (at_ >= bytes_.size()) {
    damage(fmt::format("it ends before {}", what));
    return 0;
  }
  const auto value = static_cast<uint8_t>(bytes_[at_++]);
  if (value < count) return value;
  damage(fmt::format("{} {} is not known", what, value));
  return 0;
}

bool ByteReader::flag() { return choice_value(2, "flag") != 0; }

size_t ByteReader::count(uint64_t limit, std::string_view what) {
  return static_cast<size_t>(number_up_to(std::min<uint64_t>(limit, left()), what));
}

std::string_view ByteReader::raw(size_t size) {
  if (size > left()) {
    damage(fmt::format("it ends {} bytes early", size - left()));
    return {};
  }
  const std::string_view part = bytes_.substr(at_, size);
  at_ += size;
  return part;
}

std::string ByteReader::text(uint64_t limit, std::string_view what) {
  const size_t size = count(limit, what);
  return std::string(raw(size));
}

types::Dim ByteReader::dim() {
  const std::string source = text(1 << 16, "length of a size");
  if (!ok()) return {};
  types::DimSyntaxError error;
  const auto value = types::parse_dim(source, &error);
  if (value && value->to_string() == source) return *value;
  damage(value ? "a size is not in its canonical form" : "a size is malformed: " + error.reason);
  return {};
}

}  // namespace codetta::package

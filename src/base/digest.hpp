// SPDX-License-Identifier: Apache-2.0
// XXH3-128 digests. They name things; equality of what they name is decided by comparing the things.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace codetta::base {

struct Digest128 {
  uint64_t high = 0;
  uint64_t low = 0;

  constexpr auto operator<=>(const Digest128&) const = default;
  [[nodiscard]] std::string hex() const;  // 32 lower case digits, high half first
};

// The digest of the bytes alone, without any framing.
Digest128 digest_of(std::string_view bytes);

// Incremental. Every field is framed by its kind and length, so that ("ab", "c") and ("a", "bc") differ.
class Hasher {
 public:
  Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  ~Hasher();

  Hasher& add(std::string_view bytes);
  Hasher& add(const char* text) { return add(std::string_view(text)); }
  Hasher& add(const Digest128& digest);
  Hasher& add(uint64_t value);
  Hasher& add(int64_t value);
  Hasher& add(uint32_t value) { return add(uint64_t{value}); }
  Hasher& add(int32_t value) { return add(int64_t{value}); }
  Hasher& add(bool value) { return add(uint64_t{value}); }
  Hasher& add(double value);               // by bits: -0.0 and 0.0 differ
  [[nodiscard]] Digest128 digest() const;  // of all fields so far

 private:
  void frame(char kind, uint64_t length);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace codetta::base

template <>
struct std::hash<codetta::base::Digest128> {
  size_t operator()(const codetta::base::Digest128& digest) const noexcept { return digest.low; }
};

// SPDX-License-Identifier: Apache-2.0
// The only file that sees xxHash. Fields are framed as kind byte + 8 bytes of length or value, little endian.
#include "base/digest.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <bit>
#include <system_error>

namespace codetta::base {

namespace {

Digest128 from_xxh(XXH128_hash_t hash) { return {hash.high64, hash.low64}; }

}  // namespace

struct Hasher::State {
  XXH3_state_t xxh{};
};

std::string Digest128::hex() const {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text(32, '0');
  for (size_t i = 0; i < 16; ++i) {
    text[15 - i] = digits[(high >> (4 * i)) & 15];
    text[31 - i] = digits[(low >> (4 * i)) & 15];
  }
  return text;
}

Digest128 digest_of(std::string_view bytes) { return from_xxh(XXH3_128bits(bytes.data(), bytes.size())); }

Hasher::Hasher() : state_(std::make_unique<State>()) {
  XXH3_INITSTATE(&state_->xxh);
  XXH3_128bits_reset(&state_->xxh);
}
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;
Hasher::~Hasher() = default;

void Hasher::frame(char kind, uint64_t length) {
  std::array<char, 9> bytes{kind};
  for (size_t i = 0; i < 8; ++i) bytes[i + 1] = static_cast<char>(static_cast<unsigned char>(length >> (8 * i)));
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
}

Hasher& Hasher::add(std::string_view bytes) {
  frame('s', bytes.size());
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
  return *this;
}

Hasher& Hasher::add(const Digest128& digest) {
  frame('d', digest.high);
  frame('d', digest.low);
  return *this;
}

Hasher& Hasher::add(uint64_t value) {
  frame('u', value);
  return *this;
}

Hasher& Hasher::add(int64_t value) {
  frame('i', static_cast<uint64_t>(value));
  return *this;
}

Hasher& Hasher::add(double value) {
  frame('f', std::bit_cast<uint64_t>(value));
  return *this;
}

Digest128 Hasher::digest() const { return from_xxh(XXH3_128bits_digest(&state_->xxh)); }

}  // namespace codetta::base

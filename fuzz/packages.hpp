// SPDX-License-Identifier: Apache-2.0
// Bytes as packages, for the targets that differ in what mutation starts from.
#pragma once

#include <algorithm>
#include <random>

#include "base/digest.hpp"
#include "package/package.hpp"
#include "support.hpp"

namespace codetta::fuzz {

constexpr size_t digest_digits = 32;

// The bytes of a package without its digest, which is made again for whatever they become.
inline std::string bytes_of(const package::Package& package) {
  std::string bytes = package.encode();
  const auto again = package::Package::decode(bytes);
  require(again.has_value() && *again == package);
  bytes.resize(bytes.size() - digest_digits);
  return bytes;
}

// Refused, or exactly what encode() gives for what was read, and fit for printing: an epilogue program, and a package.
inline void read_package(std::string_view bytes) {
  if (const auto program = package::EpilogueProgram::decode(bytes)) {
    require(program->encode() == bytes && !find_defect(*program) && !program->to_string().empty());
  } else {
    check_error(program.error(), 500, 599);
  }
  // The digest hides what lies before it from random bytes: the same with a right one.
  const std::string whole = std::string(bytes) + base::digest_of(bytes).hex();
  if (const auto package = package::Package::decode(whole)) {
    require(package->encode() == whole && !package->manifest_json().empty());
  } else {
    check_error(package.error(), 500, 599);
  }
}

// One mutation of `often` begins anew, from what `make` gives for a random number; "" is for nothing.
template <class Mutate, class Make>
size_t begin_anew(uint8_t* data, size_t size, size_t max_size, unsigned seed, unsigned often, Mutate mutate,
                  Make make) {
  std::minstd_rand random(seed);
  if (random() % often != 0) return mutate(data, size, max_size);
  const std::string bytes = make(random());
  if (bytes.empty() || bytes.size() > max_size) return mutate(data, size, max_size);
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}

}  // namespace codetta::fuzz

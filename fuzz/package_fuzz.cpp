// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as a package and as an epilogue program: refused, or exactly what encode() gives for what was read,
// and fit for printing. Mutation starts from samples that have every kind of field, step and guard.
#include "packages.hpp"
#include "unit/package/samples.hpp"

namespace {

using namespace codetta;

std::string sample_bytes(uint64_t which) {
  switch (which % 3) {
    case 0:
      return test::sample_program().encode();
    case 1:
      return fuzz::bytes_of(test::sample_package());
    default:
      return fuzz::bytes_of(test::every_step());
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return fuzz::begin_anew(data, size, max_size, seed, 512, LLVMFuzzerMutate, sample_bytes);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::read_package(fuzz::view_of(data, size));
  return 0;
}

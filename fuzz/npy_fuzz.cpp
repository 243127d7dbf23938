// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as a .npy file: refused, or read and written to the same elements.
#include "runtime/io/npy.hpp"
#include "support.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace io = codetta::runtime::io;
  using codetta::fuzz::require;
  const std::string_view bytes = codetta::fuzz::view_of(data, size);
  const auto tensor = io::read_npy(io::Source::memory(bytes, "fuzz.npy"), {});
  if (!tensor) {
    codetta::fuzz::check_error(tensor.error(), 600, 699);
    return 0;
  }
  const std::string written = io::npy_bytes(*tensor);
  const auto again = io::read_npy(io::Source::memory(written, "again.npy"), {});
  require(again.has_value() && again->view().shape() == tensor->view().shape() &&
          again->view().dtype() == tensor->view().dtype());
  require(io::npy_bytes(*again) == written);
  return 0;
}

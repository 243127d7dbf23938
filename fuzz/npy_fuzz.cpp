// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as a .npy file: refused, or read and written to the same elements.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "runtime/io/npy.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace io = codetta::runtime::io;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto tensor = io::read_npy(io::Source::memory(bytes, "fuzz.npy"), {});
  if (!tensor) {
    (void)tensor.error().render();
    return 0;
  }
  const std::string written = io::npy_bytes(*tensor);
  const auto again = io::read_npy(io::Source::memory(written, "again.npy"), {});
  if (!again || !(again->view().shape() == tensor->view().shape()) || again->view().dtype() != tensor->view().dtype())
    std::abort();
  if (io::npy_bytes(*again) != written) std::abort();
  return 0;
}

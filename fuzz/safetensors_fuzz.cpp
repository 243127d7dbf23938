// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as a .safetensors file: refused, or every tensor lies inside of the file.
#include "runtime/io/safetensors.hpp"
#include "support.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace io = codetta::runtime::io;
  const std::string_view bytes = codetta::fuzz::view_of(data, size);
  const auto tensors = io::read_safetensors(io::Source::memory(bytes, "fuzz.safetensors"));
  if (!tensors) {
    codetta::fuzz::check_error(tensors.error(), 600, 699);
    return 0;
  }
  size_t total = 0;
  for (const auto& [name, tensor] : *tensors)
    total += static_cast<size_t>(tensor.view().element_count() * codetta::dtype_size(tensor.view().dtype()));
  codetta::fuzz::require(total <= size);
  return 0;
}

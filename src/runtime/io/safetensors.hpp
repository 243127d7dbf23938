// SPDX-License-Identifier: Apache-2.0
// The safetensors format: 8 bytes of header length, a JSON object of {name: {dtype, shape, data_offsets}}, the data.
#pragma once

#include <utility>
#include <vector>

#include "runtime/io/source.hpp"

namespace codetta::runtime::io {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
Result<NamedTensors> read_safetensors(const Source& source);
// The whole file; `path` is what messages call it. Errors: those of write_safetensors().
Result<std::string> safetensors_bytes(const std::string& path,
                                      const std::vector<std::pair<std::string, TensorView>>& tensors);

}  // namespace codetta::runtime::io

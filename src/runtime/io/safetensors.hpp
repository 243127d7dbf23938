// SPDX-License-Identifier: Apache-2.0
// The safetensors format: 8 bytes of header length, a JSON object of {name: {dtype, shape, data_offsets}}, the data.
#pragma once

#include <utility>
#include <vector>

#include "runtime/io/source.hpp"

namespace codetta::runtime::io {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
Result<NamedTensors> read_safetensors(const Source& source);

}  // namespace codetta::runtime::io

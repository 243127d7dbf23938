// SPDX-License-Identifier: Apache-2.0
// The .npy format, versions 1.0 to 3.0 (NumPy, numpy.lib.format).
#pragma once

#include "runtime/io/source.hpp"

namespace codetta::runtime::io {

Result<Tensor> read_npy(const Source& source, std::optional<DType> as);
// The whole file, version 1.0.
std::string npy_bytes(const TensorView& view);

}  // namespace codetta::runtime::io

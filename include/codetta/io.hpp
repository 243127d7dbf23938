// SPDX-License-Identifier: Apache-2.0
// Tensors in and out: .npy, .safetensors, DLPack. Files are untrusted: sizes are checked before anything is allocated.
// Writing goes to a temporary in the same folder and is renamed, so a failure leaves no partial file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "codetta/tensor.hpp"

struct DLManagedTensorVersioned;  // dlpack.h, ABI 1.x
struct DLManagedTensor;           // dlpack.h, before 1.0

namespace codetta {

// Reads one array; a Fortran-ordered array is returned as its row-major copy. bf16 and fp8, which NumPy lacks, are
// written as "<V2" and "|V1", which it reads as bytes, and a comment behind the header's dictionary, "# codetta_dtype:
// bf16", by which they are read back (`as` overrides; older files have an entry of that name). Errors: E0620 not
// readable, E0621 malformed, truncated, oversized, or a lying shape, E0622 dtype not supported, E0606.
CODETTA_API Result<Tensor> read_npy(const std::string& path, std::optional<DType> as = {});
// Errors: E0623 cannot write (folder missing, not writable, disk full), E0604. Any strides; written row-major.
CODETTA_API Result<void> write_npy(const std::string& path, const TensorView& tensor);

// All tensors of a file in file order. Errors as read_npy.
CODETTA_API Result<std::vector<std::pair<std::string, Tensor>>> read_safetensors(const std::string& path);
// What a file holds, in file order, without its data; the header is checked as by read_safetensors. Errors: E0620,
// E0621, E0622, E0606.
struct SafetensorsEntry {
  std::string name;
  DType dtype = f32;
  Dims shape;
};
CODETTA_API Result<std::vector<SafetensorsEntry>> list_safetensors(const std::string& path);
// One tensor; of the others only the header is read. Errors: as read_safetensors, and E0620 (no tensor of that name).
CODETTA_API Result<Tensor> read_safetensor(const std::string& path, const std::string& name);
// Under these names. Errors: as write_npy; E0210 (two of one name), E0209 (a name that the format has no room
// for:
// __metadata__, invalid UTF-8).
CODETTA_API Result<void> write_safetensors(const std::string& path,
                                           const std::vector<std::pair<std::string, TensorView>>& tensors);

// The first `most` bytes of a file, or of a pipe until its writers close it. Errors: E0620 (also for a device, and for
// a pipe that nobody opens for writing within five seconds), E0606.
CODETTA_API Result<std::string> read_bytes(const std::string& path, size_t most);

// DLPack exchange without copies. import: the view is valid until the caller calls the deleter of `managed` (ownership
// stays with the caller); it is read-only where the flags of `managed` say so, and so is an export of it. Errors: E0624
// (device, dtype, lanes, rank, version or alignment that Codetta cannot use).
CODETTA_API Result<TensorView> from_dlpack(const DLManagedTensorVersioned* managed);
CODETTA_API Result<TensorView> from_dlpack(const DLManagedTensor* managed);
// export: a new managed tensor that shares the view's memory; its deleter frees only the record. Memory must outlive
// it. Errors: E0624 (TensorView(), which has no memory).
CODETTA_API Result<DLManagedTensorVersioned*> to_dlpack(const TensorView& view);

}  // namespace codetta

// SPDX-License-Identifier: Apache-2.0
// Where the bytes of a tensor file come from, and what the readers of both formats share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/files.hpp"
#include "codetta/tensor.hpp"
#include "diag/diagnostic.hpp"

namespace codetta::runtime::io {

// A file whose size is known before anything is read, or bytes in memory. Pipes are read whole (at most 4 GiB);
// devices are refused.
class Source {
 public:
  static Result<Source> open(const std::string& path);             // E0620, E0606
  static Source memory(std::string_view bytes, std::string name);  // the bytes must stay

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] uint64_t size() const { return size_; }
  // [offset, offset + bytes) must lie inside of the file; E0621 when it has shrunk since, E0620.
  Result<void> read(uint64_t offset, void* out, size_t bytes) const;

 private:
  std::string name_;
  uint64_t size_ = 0;
  base::FileDescriptor file_;
  std::string slurped_;
  std::string_view bytes_;
  bool in_memory_ = false;
};

diag::ErrorBuilder malformed(const Source& source, std::string what);                 // E0621
diag::ErrorBuilder unsupported_dtype(const Source& source, const std::string& what);  // E0622
Error unwritable(const std::string& path, const std::string& reason);                 // E0623

// E0604 for a view that was never made, or was moved from: it has elements and no memory.
Result<void> check_memory(const TensorView& view);

// Bytes of `shape` elements; nullopt on overflow.
std::optional<int64_t> byte_count(const Dims& shape, DType dtype);
// A tensor from row-major bytes of the source. Truth values become 0 or 1.
Result<Tensor> read_tensor(const Source& source, uint64_t offset, DType dtype, const Dims& shape);
// All elements in row-major order, whatever the strides.
std::string row_major_bytes(const TensorView& view);

}  // namespace codetta::runtime::io

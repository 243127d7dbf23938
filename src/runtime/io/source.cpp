// SPDX-License-Identifier: Apache-2.0
#include "runtime/io/source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "base/result.hpp"
#include "base/retry.hpp"
#include "codetta/io.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta::runtime::io {
namespace {

constexpr size_t largest_pipe = size_t{4} << 30;
constexpr size_t largest_read = size_t{1} << 30;  // Linux reads less than 2 GiB at once

Error unreadable(const std::string& path, const std::string& reason) {
  return diag::error(diag::Code::file_unreadable, fmt::format("cannot read {}", path))
      .reason(reason)
      .help("check the path and its permissions");
}

Error unreadable(const std::string& path, const base::SystemError& error) {
  switch (error.errno_value) {
    case ENOMEM:
      return diag::error(diag::Code::out_of_memory, fmt::format("no memory for what {} holds", path))
          .reason("it is read whole")
          .help("free memory, or give a file that holds less");
    case ENXIO:
      return unreadable(path, "it is a socket, or a device that is not there");
    case EISDIR:
      return unreadable(path, "it is a folder");
    case EINVAL:
      return unreadable(path, "it is a device, neither a file nor a pipe");
    case ETIMEDOUT:
      return unreadable(path, fmt::format("it is a pipe that nobody has opened for writing in {} seconds",
                                          base::pipe_patience_ms / 1000));
    default:
      return unreadable(path, error.message());
  }
}

}  // namespace

Result<Source> Source::open(const std::string& path) {
  Source source;
  source.name_ = path;
  if (path.find('\0') != std::string::npos) return unreadable("a path with a NUL byte", "no file has such a name");
  source.file_ = base::FileDescriptor(
      base::retry_interrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (!source.file_.valid()) return unreadable(path, base::last_error("open", path));
  struct stat info {};
  if (::fstat(source.file_.get(), &info) != 0) return unreadable(path, base::last_error("fstat", path));
  if (S_ISREG(info.st_mode)) {
    source.size_ = static_cast<uint64_t>(info.st_size);
    return source;
  }
  auto bytes = base::read_file(path, largest_pipe);
  if (!bytes) return unreadable(path, bytes.error());
  source.file_ = base::FileDescriptor();
  source.slurped_ = *std::move(bytes);
  source.in_memory_ = true;
  source.size_ = source.slurped_.size();
  return source;
}

Source Source::memory(std::string_view bytes, std::string name) {
  Source source;
  source.name_ = std::move(name);
  source.size_ = bytes.size();
  source.bytes_ = bytes;
  source.in_memory_ = true;
  return source;
}

Result<void> Source::read(uint64_t offset, void* out, size_t bytes) const {
  auto* to = static_cast<std::byte*>(out);
  if (in_memory_) {
    const std::string_view all = slurped_.empty() ? bytes_ : std::string_view(slurped_);
    if (bytes != 0) std::memcpy(to, all.data() + offset, bytes);
    return {};
  }
  while (bytes != 0) {
    const size_t part = std::min(bytes, largest_read);
    const ssize_t got =
        base::retry_interrupted([&] { return ::pread(file_.get(), to, part, static_cast<off_t>(offset)); });
    if (got < 0) return unreadable(name_, base::last_error("read", name_));
    if (got == 0)
      return malformed(*this, "ends before its data")
          .reason(fmt::format("{} bytes are missing; it was cut while it was read", bytes));
    to += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
  return {};
}

diag::ErrorBuilder malformed(const Source& source, std::string what) {
  return diag::error(diag::Code::file_malformed, fmt::format("{} {}", source.name(), what))
      .help("write the file again; it is damaged or no tensor file");
}

diag::ErrorBuilder unsupported_dtype(const Source& source, const std::string& what) {
  return diag::error(diag::Code::file_dtype, fmt::format("{} holds {}", source.name(), what));
}

Error unwritable(const std::string& path, const std::string& reason) {
  return diag::error(diag::Code::file_unwritable, fmt::format("cannot write {}", path))
      .reason(reason)
      .help("check that the folder exists, is writable and has room; nothing was left behind");
}

Result<void> check_memory(const TensorView& view) {
  if (view.data() != nullptr || view.empty()) return {};
  return diag::error(diag::Code::tensor_null, "a view without memory cannot be given out")
      .reason(
          fmt::format("it is {}, as a default-made view is, or one of a tensor that was moved from", view.describe()))
      .help("make the view with TensorView::make, and pass a tensor that still owns its memory");
}

std::optional<int64_t> byte_count(const Dims& shape, DType dtype) {
  std::array<int64_t, max_rank + 1> sizes{};
  size_t count = 0;
  for (const int64_t size : shape) sizes[count++] = size;
  sizes[count++] = dtype_size(dtype);
  return base::checked_product({sizes.data(), count});
}

Result<Tensor> read_tensor(const Source& source, uint64_t offset, DType dtype, const Dims& shape) {
  CODETTA_TRY(Tensor tensor, Tensor::make(dtype, shape));
  const int64_t count = tensor.view().element_count();
  if (count == 0) return tensor;
  CODETTA_CHECK_OK(source.read(offset, tensor.data(), static_cast<size_t>(count * dtype_size(dtype))));
  if (dtype == DType::boolean) types::convert(tensor.data(), dtype, tensor.data(), dtype, count);
  return tensor;
}

std::string row_major_bytes(const TensorView& view) {
  const auto size = static_cast<size_t>(dtype_size(view.dtype()));
  const int64_t count = view.element_count();
  std::string bytes;
  if (count == 0) return bytes;
  const auto* data = static_cast<const char*>(view.data());
  if (view.is_row_major()) {
    bytes.assign(data, static_cast<size_t>(count) * size);
  } else {
    bytes.resize(static_cast<size_t>(count) * size);
    std::array<int64_t, max_rank> index{};
    int64_t at = 0;
    for (size_t i = 0; i < bytes.size(); i += size) {
      std::memcpy(bytes.data() + i, data + at * static_cast<int64_t>(size), size);
      for (int d = view.rank() - 1; d >= 0; --d) {
        at += view.stride(d);
        if (++index[static_cast<size_t>(d)] < view.size(d)) break;
        at -= view.stride(d) * view.size(d);
        index[static_cast<size_t>(d)] = 0;
      }
    }
  }
  if (view.dtype() == DType::boolean) types::convert(bytes.data(), DType::boolean, bytes.data(), DType::boolean, count);
  return bytes;
}

}  // namespace codetta::runtime::io

namespace codetta {

Result<std::string> read_bytes(const std::string& path, size_t most) {
  if (path.find('\0') != std::string::npos)
    return runtime::io::unreadable("a path with a NUL byte", "no file has such a name");
  auto bytes = base::read_front(path, most);
  if (!bytes) return runtime::io::unreadable(path, bytes.error());
  return *std::move(bytes);
}

}  // namespace codetta

// SPDX-License-Identifier: Apache-2.0
// Tensors of other libraries as views, and views as tensors for other libraries; nothing is copied.
#include "runtime/io/dlpack_abi.hpp"

#include <array>
#include <new>

#include <fmt/format.h>

#include "base/result.hpp"
#include "codetta/io.hpp"
#include "diag/diagnostic.hpp"

namespace codetta {
namespace {

using namespace runtime::io;

struct DTypeCode {
  DType dtype;
  uint8_t code, bits;
};
constexpr DTypeCode codes[] = {{DType::boolean, dl_bool, 8},      {DType::i8, dl_int, 8},
                               {DType::i16, dl_int, 16},          {DType::i32, dl_int, 32},
                               {DType::i64, dl_int, 64},          {DType::u8, dl_uint, 8},
                               {DType::u16, dl_uint, 16},         {DType::u32, dl_uint, 32},
                               {DType::u64, dl_uint, 64},         {DType::f16, dl_float, 16},
                               {DType::f32, dl_float, 32},        {DType::f64, dl_float, 64},
                               {DType::bf16, dl_bfloat, 16},      {DType::f8e4m3, dl_float8_e4m3fn, 8},
                               {DType::f8e5m2, dl_float8_e5m2, 8}};

diag::ErrorBuilder unusable(const std::string& reason, std::string help) {
  return diag::error(diag::Code::dlpack_unusable, "the DLPack tensor cannot be used")
      .reason(reason)
      .help(std::move(help));
}

Result<TensorView> view_of(const DLTensor& tensor) {
  const int32_t device = tensor.device.device_type;
  if (device != dl_cpu && device != dl_cuda_host && device != dl_rocm_host) {
    return unusable(fmt::format("it lies on a device of type {}", device), "copy it to the CPU first");
  }
  if (tensor.dtype.lanes != 1)
    return unusable(fmt::format("its elements are vectors of {} lanes", tensor.dtype.lanes),
                    "export elements of one lane");
  const DTypeCode* known = nullptr;
  for (const DTypeCode& c : codes) {
    if (c.code == tensor.dtype.code && c.bits == tensor.dtype.bits) known = &c;
  }
  if (known == nullptr) {
    return unusable(fmt::format("its dtype has code {} and {} bits", tensor.dtype.code, tensor.dtype.bits),
                    "convert it to a dtype that Codetta has");
  }
  if (tensor.ndim < 0 || tensor.ndim > max_rank)
    return unusable(fmt::format("it has {} dims; 0 to {} are possible", tensor.ndim, max_rank), "reshape it");
  if (tensor.ndim > 0 && tensor.shape == nullptr) return unusable("its shape is null", "export a tensor with a shape");
  const auto dims = static_cast<size_t>(tensor.ndim);
  const Dims shape{std::span<const int64_t>(tensor.shape, dims)};
  const Dims strides = tensor.strides != nullptr || dims == 0 ? Dims{std::span<const int64_t>(tensor.strides, dims)}
                                                              : row_major_strides(shape);
  const uintptr_t address = reinterpret_cast<uintptr_t>(tensor.data);
  uintptr_t start = 0;
  if (__builtin_add_overflow(address, tensor.byte_offset, &start))
    return unusable("its byte offset overflows", "export it again");
  // Without data an offset has nothing to count from.
  void* data = tensor.data == nullptr ? nullptr : static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  auto view = TensorView::make(data, known->dtype, shape, strides);
  if (view) return view;
  const Diagnostic& cause = view.error().diagnostics().front();
  return unusable(fmt::format("{}: {}", cause.headline, cause.reason), cause.help);
}

struct Exported {
  DLManagedTensorVersioned managed;
  std::array<int64_t, max_rank> shape, strides;
};

}  // namespace

Result<TensorView> from_dlpack(const DLManagedTensorVersioned* managed) {
  if (managed == nullptr) return unusable("the pointer is null", "pass the tensor of a capsule");
  if (managed->version.major != dl_major) {  // nothing behind the version can be relied on
    return unusable(
        fmt::format("it has version {}.{}; {}.x is known", managed->version.major, managed->version.minor, dl_major),
        "export it with a library that speaks DLPack 1");
  }
  CODETTA_TRY(const TensorView view, view_of(managed->dl_tensor));
  return (managed->flags & dl_flag_read_only) != 0 ? view.as_read_only() : view;
}

Result<TensorView> from_dlpack(const DLManagedTensor* managed) {
  if (managed == nullptr) return unusable("the pointer is null", "pass the tensor of a capsule");
  return view_of(managed->dl_tensor);
}

Result<DLManagedTensorVersioned*> to_dlpack(const TensorView& view) {
  if (view.data() == nullptr && !view.empty()) {
    return diag::error(diag::Code::dlpack_unusable, "the view cannot be exported over DLPack")
        .reason("it has no memory")
        .help("pass the view of a tensor; TensorView() has nothing to share");
  }
  auto* record = new (std::nothrow) Exported{};
  if (record == nullptr) {
    return diag::error(diag::Code::out_of_memory, "no memory for a DLPack record")
        .reason(fmt::format("{} bytes were refused", sizeof(Exported)))
        .help("free memory");
  }
  for (int i = 0; i < view.rank(); ++i) {
    record->shape[static_cast<size_t>(i)] = view.size(i);
    record->strides[static_cast<size_t>(i)] = view.stride(i);
  }
  DLManagedTensorVersioned& managed = record->managed;
  managed.version = {dl_major, dl_minor};
  managed.manager_ctx = record;
  managed.deleter = [](DLManagedTensorVersioned* self) { delete static_cast<Exported*>(self->manager_ctx); };
  managed.flags = view.read_only() ? dl_flag_read_only : 0;
  managed.dl_tensor.data = view.data();
  managed.dl_tensor.device = {dl_cpu, 0};
  managed.dl_tensor.ndim = view.rank();
  for (const DTypeCode& c : codes) {
    if (c.dtype == view.dtype()) managed.dl_tensor.dtype = {c.code, c.bits, 1};
  }
  managed.dl_tensor.shape = record->shape.data();
  managed.dl_tensor.strides = record->strides.data();
  return &managed;
}

}  // namespace codetta

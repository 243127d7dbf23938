// SPDX-License-Identifier: Apache-2.0
// The DLPack ABI, version 1 (https://dmlc.github.io/dlpack/latest/c_api.html), declared from its documentation: names,
// values and layout are its.
#pragma once

#include <cstddef>
#include <cstdint>

struct DLDevice {
  int32_t device_type;  // 1 CPU, 3 CUDA host memory, 11 ROCm host memory; others are not addressable
  int32_t device_id;
};

struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null = row-major
  uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

struct DLPackVersion {
  uint32_t major;
  uint32_t minor;
};

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor dl_tensor;
};

static_assert(sizeof(void*) != 8 ||
              (sizeof(DLTensor) == 48 && offsetof(DLTensor, ndim) == 16 && offsetof(DLTensor, dtype) == 20 &&
               offsetof(DLTensor, shape) == 24 && offsetof(DLTensor, byte_offset) == 40));
static_assert(sizeof(DLDataType) == 4 && sizeof(DLDevice) == 8);
static_assert(sizeof(void*) != 8 || (sizeof(DLManagedTensor) == 64 && offsetof(DLManagedTensor, deleter) == 56));
static_assert(sizeof(void*) != 8 ||
              (sizeof(DLManagedTensorVersioned) == 80 && offsetof(DLManagedTensorVersioned, flags) == 24 &&
               offsetof(DLManagedTensorVersioned, dl_tensor) == 32));

namespace codetta::runtime::io {

inline constexpr uint64_t dl_flag_read_only = 1;  // of DLManagedTensorVersioned::flags

enum DLCode : uint8_t {
  dl_int = 0,
  dl_uint = 1,
  dl_float = 2,
  dl_bfloat = 4,
  dl_bool = 6,
  dl_float8_e4m3fn = 10,
  dl_float8_e5m2 = 12
};
inline constexpr int32_t dl_cpu = 1, dl_cuda_host = 3, dl_rocm_host = 11;
inline constexpr uint32_t dl_major = 1, dl_minor = 1;

}  // namespace codetta::runtime::io

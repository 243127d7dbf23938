// SPDX-License-Identifier: Apache-2.0
// The part of cuBLASLt's binary interface that Codetta uses, declared here so that building needs no CUDA toolkit.
// Names follow this library; values and layouts follow cublasLt.h of CUDA 12 and 13, which keep them stable.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cuda/abi.hpp"

namespace codetta::runtime::cuda::lt {

using Handle = struct OpaqueHandle*;
using Descriptor = struct OpaqueDescriptor*;  // of a product
using Layout = struct OpaqueLayout*;          // of a matrix
using Preference = struct OpaquePreference*;

// cublasStatus_t, as far as it is told apart here.
enum class Status : int {
  Success = 0,
  NotInitialized = 1,
  AllocationFailed = 3,
  InvalidValue = 7,
  ArchitectureMismatch = 8,
  ExecutionFailed = 13,
  InternalError = 14,
  NotSupported = 15,
};

// cudaDataType_t.
enum class Type : int { F32 = 0, F64 = 1, F16 = 2, I8 = 3, I32 = 10, Bf16 = 14, F8e4m3 = 28, F8e5m2 = 29 };

// cublasComputeType_t.
enum class Compute : int { F32 = 68, F64 = 70, I32 = 72, F32FastTf32 = 77 };

enum LayoutAttribute : int { layout_batch_count = 5, layout_batch_stride = 6 };

enum DescriptorAttribute : int {
  product_transpose_a = 3,
  product_transpose_b = 4,
  product_epilogue = 7,
  product_bias_pointer = 8,
  product_bias_batch_stride = 10,
  product_aux_pointer = 11,
  product_aux_leading = 12,
  product_aux_batch_stride = 13,
  product_scale_a_pointer = 17,
  product_scale_b_pointer = 18,
  product_aux_type = 22,
  product_fast_accumulation = 25,
  product_bias_type = 26,
};
inline constexpr int32_t transpose_none = 0, transpose_yes = 1;

enum PreferenceAttribute : int {
  preference_workspace = 1,
  preference_reductions = 3,
  preference_alignment_a = 5,
  preference_alignment_b = 6,
  preference_alignment_c = 7,
  preference_alignment_d = 8,
};
// Slices of K are summed in the compute type: partial sums in D's type would round more than once.
inline constexpr uint32_t reductions_exact = 2;

// Bits of an epilogue; none is 1.
inline constexpr uint32_t epilogue_none = 1, epilogue_relu = 2, epilogue_bias = 4, epilogue_gelu = 32,
                          epilogue_dgelu = 64, epilogue_aux = 128;

struct Algorithm {
  uint64_t opaque[8];
};
struct Proposal {
  Algorithm algorithm;
  size_t workspace;  // bytes
  Status state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(void*) != 8 || sizeof(Proposal) == 96);

}  // namespace codetta::runtime::cuda::lt

// SPDX-License-Identifier: Apache-2.0
// A pretended cuBLASLt: computes products of f32 by columns, as the true one's documentation says, in memory that the
// host can read.
#include "unit/driver_cuda/fake_cublaslt.hpp"

#include <cmath>
#include <cstring>

#include "runtime/cuda/cublaslt_abi.hpp"

namespace {

using namespace codetta::runtime::cuda::lt;
codetta::test::FakeCublasLt state;

struct Matrix {
  Type type;
  int64_t rows, cols, leading, batch_stride = 0;
  int32_t batch = 1;
  [[nodiscard]] int64_t at(bool transposed, int64_t row, int64_t col) const {
    return transposed ? col + row * leading : row + col * leading;
  }
};
struct Product {
  int32_t transpose_a = 0, transpose_b = 0, bias_type = 0;
  uint32_t epilogue = 1;
  const void* bias = nullptr;
  void* aux = nullptr;
  int64_t aux_leading = 0, bias_batch = 0, aux_batch = 0;
  const void *scale_a = nullptr, *scale_b = nullptr;
};

Matrix* matrix(Layout layout) { return reinterpret_cast<Matrix*>(layout); }
Product* product(Descriptor descriptor) { return reinterpret_cast<Product*>(descriptor); }

float gelu(float x) { return 0.5F * x * (1 + std::tanh(std::sqrt(2 / 3.14159265F) * (x + 0.044715F * x * x * x))); }

}  // namespace

extern "C" {

codetta::test::FakeCublasLt* codetta_fake_cublaslt() { return &state; }

size_t cublasLtGetVersion() { return state.version; }
const char* cublasLtGetStatusName(Status) { return "CUBLAS_STATUS_PRETENDED"; }

Status cublasLtCreate(Handle* handle) {
  if (state.fail_create != 0) return static_cast<Status>(state.fail_create);
  ++state.handles;
  *handle = reinterpret_cast<Handle>(&state);
  return Status::Success;
}
Status cublasLtDestroy(Handle) {
  --state.handles;
  return Status::Success;
}
Status cublasLtMatmulDescCreate(Descriptor* descriptor, Compute compute, Type) {
  ++state.descriptors;
  state.compute = static_cast<int>(compute);
  *descriptor = reinterpret_cast<Descriptor>(new Product);
  return Status::Success;
}
Status cublasLtMatmulDescDestroy(Descriptor descriptor) {
  --state.descriptors;
  delete product(descriptor);
  return Status::Success;
}
Status cublasLtMatmulDescSetAttribute(Descriptor descriptor, int attribute, const void* value, size_t bytes) {
  Product& p = *product(descriptor);
  void* to = nullptr;
  size_t wanted = 8;
  switch (attribute) {
    case product_transpose_a:
      to = &p.transpose_a, wanted = 4;
      break;
    case product_transpose_b:
      to = &p.transpose_b, wanted = 4;
      break;
    case product_epilogue:
      to = &p.epilogue, wanted = 4;
      break;
    case product_bias_type:
      to = &p.bias_type, wanted = 4;
      break;
    case product_bias_pointer:
      to = &p.bias;
      break;
    case product_bias_batch_stride:
      to = &p.bias_batch;
      break;
    case product_aux_pointer:
      to = &p.aux;
      break;
    case product_aux_leading:
      to = &p.aux_leading;
      break;
    case product_aux_batch_stride:
      to = &p.aux_batch;
      break;
    case product_scale_a_pointer:
      to = &p.scale_a;
      break;
    case product_scale_b_pointer:
      to = &p.scale_b;
      break;
    case product_fast_accumulation:
      state.fast_accumulation = *static_cast<const int8_t*>(value) != 0;
      return bytes == 1 ? Status::Success : Status::InvalidValue;
    default:
      return Status::InvalidValue;
  }
  if (bytes != wanted) return Status::InvalidValue;
  std::memcpy(to, value, bytes);
  return Status::Success;
}
Status cublasLtMatrixLayoutCreate(Layout* layout, Type type, uint64_t rows, uint64_t cols, int64_t leading) {
  if (leading < static_cast<int64_t>(rows)) return Status::InvalidValue;
  ++state.layouts;
  *layout = reinterpret_cast<Layout>(new Matrix{type, static_cast<int64_t>(rows), static_cast<int64_t>(cols), leading});
  return Status::Success;
}
Status cublasLtMatrixLayoutDestroy(Layout layout) {
  --state.layouts;
  delete matrix(layout);
  return Status::Success;
}
Status cublasLtMatrixLayoutSetAttribute(Layout layout, int attribute, const void* value, size_t bytes) {
  if (attribute == layout_batch_count && bytes == 4) {
    std::memcpy(&matrix(layout)->batch, value, bytes);
  } else if (attribute == layout_batch_stride && bytes == 8) {
    std::memcpy(&matrix(layout)->batch_stride, value, bytes);
  } else {
    return Status::InvalidValue;
  }
  return Status::Success;
}
Status cublasLtMatmulPreferenceCreate(Preference* preference) {
  ++state.preferences;
  *preference = reinterpret_cast<Preference>(&state);
  return Status::Success;
}
Status cublasLtMatmulPreferenceDestroy(Preference) {
  --state.preferences;
  return Status::Success;
}
Status cublasLtMatmulPreferenceSetAttribute(Preference, int attribute, const void* value, size_t bytes) {
  if (attribute == preference_reductions) std::memcpy(&state.reductions, value, 4);
  return bytes == (attribute == preference_workspace ? 8U : 4U) ? Status::Success : Status::InvalidValue;
}
Status cublasLtMatmulAlgoGetHeuristic(Handle, Descriptor, Layout, Layout, Layout, Layout d, Preference, int wanted,
                                      Proposal* proposals, int* found) {
  ++state.asked;
  state.questions.push_back({matrix(d)->batch, matrix(d)->cols, matrix(d)->leading});
  *found = state.proposals < wanted ? state.proposals : wanted;
  for (int i = 0; i < *found; ++i) {
    proposals[i] = {};
    proposals[i].algorithm.opaque[0] = static_cast<uint64_t>(i) + 1;
    proposals[i].workspace = state.workspace;
    proposals[i].waves = 0.5F;
  }
  return *found == 0 ? Status::NotSupported : Status::Success;
}
Status cublasLtMatmul(Handle, Descriptor descriptor, const void* alpha, const void* a, Layout layout_a, const void* b,
                      Layout layout_b, const void* beta, const void* c, Layout layout_c, void* d, Layout layout_d,
                      const Algorithm* algorithm, void* workspace, size_t workspace_bytes,
                      codetta::runtime::cuda::StreamHandle) {
  if (state.fail_multiply != 0) return static_cast<Status>(state.fail_multiply);
  if (workspace_bytes != 0 && (workspace == nullptr || reinterpret_cast<uintptr_t>(workspace) % 256 != 0))
    return Status::InvalidValue;
  const Product& p = *product(descriptor);
  const Matrix &ma = *matrix(layout_a), &mb = *matrix(layout_b), &mc = *matrix(layout_c), &md = *matrix(layout_d);
  ++state.multiplied;
  state.algorithm = algorithm->opaque[0];
  state.epilogue = p.epilogue;
  state.workspace_given = workspace_bytes;
  if (ma.type != Type::F32 || md.type != Type::F32) return Status::NotSupported;
  const int64_t depth = p.transpose_a != 0 ? ma.rows : ma.cols;
  const float factor = *static_cast<const float*>(alpha), other = *static_cast<const float*>(beta);
  for (int32_t item = 0; item < md.batch; ++item) {
    const float* fa = static_cast<const float*>(a) + item * ma.batch_stride;
    const float* fb = static_cast<const float*>(b) + item * mb.batch_stride;
    const float* fc = static_cast<const float*>(c) + item * mc.batch_stride;
    float* fd = static_cast<float*>(d) + item * md.batch_stride;
    auto* aux = static_cast<float*>(p.aux) + item * p.aux_batch;
    for (int64_t col = 0; col < md.cols; ++col) {
      for (int64_t row = 0; row < md.rows; ++row) {
        float sum = 0;
        for (int64_t k = 0; k < depth; ++k)
          sum += fa[ma.at(p.transpose_a != 0, row, k)] * fb[mb.at(p.transpose_b != 0, k, col)];
        float x = factor * sum;
        if (other != 0) x += other * fc[mc.at(false, row, col)];
        if ((p.epilogue & epilogue_bias) != 0) x += (static_cast<const float*>(p.bias) + item * p.bias_batch)[row];
        if ((p.epilogue & epilogue_gelu) != 0) {
          if ((p.epilogue & epilogue_aux) != 0) aux[row + col * p.aux_leading] = x;
          x = gelu(x);
        }
        fd[md.at(false, row, col)] = x;
      }
    }
  }
  return Status::Success;
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// Weights of a library for a CPU: those of the file, and forms of them that its kernels read best.
#pragma once

#include "device/host/library.h"
#include "device/host/safetensors.h"

namespace codetta::host {

struct PackedWeight {
  Gemm of;
  i64 bytes;
  void* memory;
  PackedWeight* next;
};

// Whether both are the same elements of the same weights, in the same order.
inline bool same_factors(const Gemm& x, const Gemm& y) {
  bool same = x.b == y.b && x.b_batch == y.b_batch && x.b_k == y.b_k && x.b_col == y.b_col && x.inner == y.inner &&
              x.b_skip == y.b_skip && x.batch == y.batch && x.n == y.n && x.k == y.k && x.products == y.products &&
              x.split_chunk == y.split_chunk;
  for (i32 p = 0; same && p + 1 < x.products; ++p) {
    const FactorB &one = x.more_b[p], &other = y.more_b[p];
    same = one.data == other.data && one.batch == other.batch && one.k == other.k && one.col == other.col &&
           one.skip == other.skip;
  }
  return same;
}

// B in the form that the kernel reads best, kept as long as the weights; kernels that read it in one form share it.
inline Status pack_weight(const void** packed, const GemmConfig& config, const Gemm& gemm) {
  const i64 bytes = codetta_engine_packed_size(&config, &gemm);
  *packed = nullptr;
  if (bytes == 0) return ok;
  for (const auto* known = static_cast<PackedWeight*>(weights.packed); known != nullptr; known = known->next) {
    if (known->bytes != bytes || !same_factors(known->of, gemm) ||
        !codetta_engine_packed_matches(known->memory, bytes, &config, &gemm))
      continue;
    *packed = known->memory;
    return ok;
  }
  void* memory = weights.keep(bytes);
  void* entry = weights.keep(sizeof(PackedWeight));
  if (memory == nullptr || entry == nullptr)
    return fail(no_memory, "E0606: no memory for packed weights, %lld bytes", static_cast<long long>(bytes));
  const Threads threads = current_threads();
  codetta_engine_pack(&config, &gemm, &threads, memory);
  const PackedWeight made = {gemm, bytes, memory, static_cast<PackedWeight*>(weights.packed)};
  memcpy(entry, &made, sizeof made);
  weights.packed = entry;
  *packed = memory;
  return ok;
}

}  // namespace codetta::host

// SPDX-License-Identifier: Apache-2.0
// The CPU engine as emitted libraries call it: plain data, C linkage, no libcodetta. The functions are in
// libcodetta_engine.a (src/runtime/cpu/engine.cpp), which is made of the objects that libcodetta itself runs.
// Header-free like device/cpu/abi.h. Sizes and strides count elements; DType, CpuFamily and CpuIsa travel as their
// numbers, which are part of file formats.
#pragma once

#include "device/cpu/abi.h"

namespace codetta::host {

using cpu::i32;
using cpu::i64;
using cpu::u64;
using cpu::u8;

// Of the functions of src/runtime/cpu/host_library.cpp and the structs that they take: raised when one changes, so that
// a module that was emitted before says so. device/host/program.py has it, too.
inline constexpr i32 host_interface = 6;

// package::CpuGemmConfig.
struct GemmConfig {
  u8 family, isa, a_dtype, b_dtype, accumulator;
  bool pack_a;
  i32 mr, nr, tile_rows, tile_cols, kc, mc, nc, k_split;
};

// package::CpuMapConfig.
struct MapConfig {
  u8 isa;
  i32 tile_rows, tile_cols;
};

inline constexpr i32 max_products = 8;

// B of one product.
struct FactorB {
  const void* data;
  i64 batch, k, col, skip;
};

// runtime::cpu::BlockMaker, of a compiled kernel.
struct Maker {
  cpu::EpilogueFunction tiles;
  const cpu::Operand* operands;
  const cpu::ScalarValue* scalars;
  i32 operand_count, output;
  bool transposed;
};

// runtime::cpu::GemmProblem. Of a map, which has no product: batch, m rows and n columns of its root space.
struct Gemm {
  i64 batch, m, n, k;
  const void* a;
  i64 a_batch, a_row, a_k;
  const void* b;
  i64 b_batch, b_k, b_col;
  i64 inner, a_skip, b_skip;
  const void* packed_b;  // what codetta_engine_pack wrote for the same configuration, k, n and split; 64-byte aligned
  i32 split_ways;
  i64 split_chunk;
  i32 products;  // 0 and 1: one
  FactorB more_b[max_products - 1];
  const Maker* makers;  // one a product, or null
};

// runtime::cpu::Phase and Reduction, their enumerations as numbers.
struct Phase {
  u8 scope, space;
  bool accumulators;
};
struct Reduction {
  u8 kind, axis, dtype;
  bool mean;
  i32 phase, parts;
  bool of_nothing;
};

// What follows the product. One of: `tiles`, an epilogue called over tiles; `fused`, a kernel that does all of it;
// neither: the accumulators are stored to `out` as they are.
struct Epilogue {
  cpu::EpilogueFunction tiles;
  cpu::FusedFunction fused;
  const cpu::Operand* operands;
  const cpu::ScalarValue* scalars;
  const Phase* phases;
  const Reduction* reductions;
  i32 phase_count, reduction_count;
  void* out;
  i64 out_batch, out_row;
  i32 folds;  // runtime::cpu::EpilogueCall::folding_operands, plus 1
};

// Threads of whoever has some: codetta::ThreadPool as data. run() calls task(context, 0) to task(context, tasks - 1) on
// any threads and returns when all have returned.
struct Threads {
  i32 size;
  void (*run)(void* self, i32 tasks, void (*task)(void* context, i32 index), void* context);
  void* self;
};

// A tensor in memory, for copies and the overlap tests.
struct Extent {
  const void* data;
  i64 element_bytes;
  i32 rank;
  const i64* sizes;
  const i64* strides;
};

inline constexpr i64 packed_header_bytes = 128;  // before the panels of a packed B

extern "C" {
// Bytes of 64-byte-aligned scratch for codetta_engine_run with up to `threads` threads.
i64 codetta_engine_workspace(const GemmConfig* config, const Gemm* gemm, const Epilogue* epilogue, i32 threads);
void codetta_engine_run(const GemmConfig* config, const Gemm* gemm, const Epilogue* epilogue, const Threads* threads,
                        void* workspace);
// The same for a kernel without a product: `tiles` of the epilogue over the root space.
i64 codetta_engine_map_workspace(const MapConfig* config, const Gemm* space, const Epilogue* epilogue);
void codetta_engine_map_run(const MapConfig* config, const Gemm* space, const Epilogue* epilogue,
                            const Threads* threads, void* workspace);
// Bytes of a packed B, its header included; 0: the configuration reads B where it lies.
i64 codetta_engine_packed_size(const GemmConfig* config, const Gemm* gemm);
void codetta_engine_pack(const GemmConfig* config, const Gemm* gemm, const Threads* threads, void* out);
// Whether these bytes are what codetta_engine_run needs for this configuration and product; reads the header only.
bool codetta_engine_packed_matches(const void* packed, i64 bytes, const GemmConfig* config, const Gemm* gemm);

// Every element of `source` to where `target`, of the same sizes, has it; they share no byte. On the threads where that
// is large.
void codetta_engine_copy(const Extent* target, const Extent* source, const Threads* threads);

// Whether this process may run code of an instruction-set level (CpuIsa). Asks the system for AMX, once.
bool codetta_engine_runs(i32 isa);
// Byte-exact; true also where the search gives up (types/view.hpp).
bool codetta_engine_overlap(const Extent* a, const Extent* b);
bool codetta_engine_overlaps_itself(const Extent* view);

// A pool of `threads` threads (0: one per processor that the process may use), as codetta::make_thread_pool makes it;
// null without memory.
void* codetta_engine_threads_make(i32 threads);
void codetta_engine_threads_free(void* pool);  // joins the workers
i32 codetta_engine_threads_size(void* pool);
void codetta_engine_threads_run(void* pool, i32 tasks, void (*task)(void* context, i32 index), void* context);
i32 codetta_engine_processors();  // that the process may use

// One element of a float type of 8 or 16 bits; stored to nearest even, 8-bit floats saturate.
float codetta_engine_load(i32 dtype, const void* element);
void codetta_engine_store(i32 dtype, void* element, float value);
}

}  // namespace codetta::host

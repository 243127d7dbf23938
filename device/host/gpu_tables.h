// SPDX-License-Identifier: Apache-2.0
// What gpu_plan.h is given, a kernel's tables, and what it answers where a launch cannot be: troubles. No standard C++
// headers.
#pragma once

#include <stdarg.h>
#include <stdio.h>

#include "device/gpu/abi.h"

namespace codetta::gpu::host {

// ---- tables: package::Kernel as plain data; enumerations travel as their numbers ----
enum Family : u8 { family_simt = 0 };  // of package::GpuFamily: the only one that takes any stride and alignment
enum EntryKind : u8 { entry_gemm, entry_combine, entry_phase, entry_pack, entry_panel };   // package::GpuEntry::Kind
enum MapSource : u8 { map_a, map_b, map_operand, map_more_b, map_made_a, map_made_rows };  // package::CudaTensorMap
enum ReduceAxis : u8 { axis_row, axis_column, axis_all, axis_item };                       // package::ReduceAxis

struct Entry {
  u8 kind;
  u32 index;
  const char* symbol;
  i32 threads, shared_bytes, results_per_block;
};
struct Map {
  u8 source;
  bool column_major;  // of an operand: its rows are the fast dim
  u32 operand;        // of A: which item, where its rows are dealt out
  i32 box_fast, box_slow, swizzle_bytes;
};
struct Reduction {
  u8 axis;
  u32 phase;
  i32 element_bytes;
  i32 values;  // of a partial: 2 for logsumexp and sums of exponents
};
struct OperandFacts {
  u8 dtype;  // DType
  bool is_store;
  i8 batch, row;  // which strides follow the batch and rows, where `folds`; -1: none
};
struct Kernel {
  const char* name;
  u8 family, a_dtype, b_dtype;
  bool has_product, a_k_major, b_k_major, pack_a, pack_b, persistent, stream_k;
  bool keeps_accumulators;  // a later phase reads them
  bool folds;               // batch items may be taken for further rows: nothing in the epilogue tells them apart
  u8 missing_when = 0;      // bit e: no kernel for sizes of which those are 0 that e says: 1 batch, 2 rows, 4 columns
  i32 accumulator_bytes, tile_m, tile_n, tile_k, cluster_m, cluster_n, k_split, group, alignment, piece_rows,
      piece_cols;
  i32 ways;                 // of the split
  i32 loaded_bytes;         // by the first phase for an element of the root space
  i32 spread_a = 1;         // rows of A between two that an item has; 1: all rows of a matrix are one item's
  i32 a_rows = 0;           // > 0: M is at most so many
  bool combines = false;    // the product's last block combines the reductions of phase 0
  bool whole_rows = false;  // pieces of the product have whole rows, and all phases: columns are 1 to piece_cols
  const Entry* entries;
  const Map* maps;
  const Reduction* reductions;
  const OperandFacts* operands;
  i32 entry_count, map_count, reduction_count, operand_count, argument_count;
};
// What the grids depend on.
struct DeviceLimits {
  const char* name;
  i32 multiprocessors;
  i64 max_grid[3];
};

// ---- troubles ----
// Why a launch cannot be: the number of a diagnostic, its headline, the reason with numbers, and a next step.
struct Trouble {
  i32 code = 0;
  char headline[256] = "";
  char reason[448] = "";
  const char* help = "";
  // Tensors are aligned less, or lie less densely, than the kernel relies on, or a size is 0 that it needs for what it
  // stores beside: which another kernel need not do.
  bool unaligned = false;
};
inline constexpr i32 trouble_misfit = 610, trouble_overflow = 603, trouble_index = 618, trouble_map = 649,
                     trouble_limits = 650;

template <u64 n>
__attribute__((format(printf, 2, 3))) inline void say(char (&text)[n], const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, n, format, arguments);
  va_end(arguments);
}
// All of these return false.
__attribute__((format(printf, 3, 4))) inline bool misfit(Trouble& trouble, const char* name, const char* format, ...) {
  trouble.code = trouble_misfit;
  say(trouble.headline, "%.200s does not fit the kernel", name);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(trouble.reason, sizeof trouble.reason, format, arguments);
  va_end(arguments);
  trouble.help = "find a kernel with this view";
  return false;
}
inline bool unaligned(Trouble& trouble) {
  trouble.unaligned = true;
  trouble.help =
      "find a kernel with this view; a program takes other kernels once it is prepared with such tensors where it may "
      "compile";
  return false;
}
__attribute__((format(printf, 2, 3))) inline bool beyond(Trouble& trouble, const char* format, ...) {
  trouble.code = trouble_limits;
  say(trouble.headline, "the launch exceeds a limit of the device");
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(trouble.reason, sizeof trouble.reason, format, arguments);
  va_end(arguments);
  trouble.help = "choose another kernel of the list, or split the problem";
  return false;
}

}  // namespace codetta::gpu::host

// SPDX-License-Identifier: Apache-2.0
// The parameters of the kernels of host steps (device/gpu/kernels/steps.h), each by value as the only one. Header-free
// as abi.h, and like it on both sides. Strides count elements; dtypes travel as the numbers of DType.
#pragma once

#include "device/gpu/abi.h"

namespace codetta::gpu {

CODETTA_CONSTANT int step_threads = 256;  // of a block, of every one of these kernels
CODETTA_CONSTANT int step_rank = 8;

// What a kernel has found wrong, in memory that the host reads without asking the device. The first one stays.
struct Fault {
  u32 state;   // 0: nothing; 1: being written; 2: written; 3: being read
  u32 step;    // StepFault::number
  u32 which;   // of the step's index tensors
  u32 huge;    // 1: an index of 2^63 or more, whose bits `value` has
  i64 offset;  // of the element, from its tensor's first
  i64 value;   // an index: what it was; a number: 1 for NaN, 2 for an infinity
  i64 size;    // an index: of what it picks from; a number: -1
};
// Where to write it: null where nothing is checked.
struct StepFault {
  CODETTA_DEVICE Fault* fault;
  u64 number;
};

enum class PutHow : i32 { none = 0, sum = 1, product = 2, min = 3, max = 4 };  // by the numbers of ScatterReduce

// target[slot(i0[p], i1[p], ...), lane] = values[p, lane], or combined with what is there, for positions p in order.
struct PutParams {
  CODETTA_DEVICE void* target;
  const CODETTA_DEVICE void* values;
  CODETTA_DEVICE float* wide;  // slots * lanes values, where sums and products are formed; null: in the target
  StepFault fault;
  i64 positions, lanes, slots;  // elements of each space
  i32 dtype, how;
  i32 indices;  // index tensors, and dims that they are for
  i32 position_rank, lane_rank, reserved;
  i64 position_size[step_rank], lane_size[step_rank];
  i64 slot_size[step_rank], slot_stride[step_rank];  // by index tensor; strides of the target
  i64 value_position[step_rank], value_lane[step_rank], target_lane[step_rank];
  i64 index_lane[step_rank];  // of the only index tensor of a scatter
  const CODETTA_DEVICE void* index[step_rank];
  i32 index_dtype[step_rank];
  i64 index_position[step_rank][step_rank];
};

// Elements of a space, from one tensor to another; `from` null: all become `bits`.
struct MoveParams {
  CODETTA_DEVICE void* to;
  const CODETTA_DEVICE void* from;
  u64 bits;
  i64 count;
  i32 rank, element_bytes;
  i64 size[step_rank], to_stride[step_rank], from_stride[step_rank];
};

enum class Looks : i32 { index = 0, nan = 1, finite = 2 };  // 0 <= i < limit; no NaN; no infinity either
struct LookParams {
  const CODETTA_DEVICE void* data;
  StepFault fault;
  i64 count, limit;
  i32 dtype, looks, rank, reserved;
  i64 size[step_rank], stride[step_rank];
};

// Entries of the kernel, by GpuEntry::index.
enum class StepEntry : u32 { put, move, look };
CODETTA_CONSTANT int step_entries = 3;

}  // namespace codetta::gpu

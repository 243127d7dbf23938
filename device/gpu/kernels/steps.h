// SPDX-License-Identifier: Apache-2.0
// Host steps that work on elements: writes at indices, copies of strided views, fills, and checks of contents. One
// source serves all dtypes and shapes, so that it is compiled once for a device. Each element of a target belongs to
// one thread, which goes through the positions in order: repeated indices give the same bits as on a CPU, whatever the
// grid.
#pragma once

#include "device/gpu/convert.h"
#include "device/gpu/step_abi.h"

namespace codetta::gpu {

// Called rather than inlined: what serves every dtype and rank would else take a compiler minutes.
#define CODETTA_CALLED static __device__ __attribute__((noinline))

CODETTA_CALLED i64 offset_in(i64 at, i32 rank, const i64* size, const i64* stride) {
  i64 offset = 0;
#pragma unroll 1
  for (i32 d = rank - 1; d > 0; --d) {
    const i64 above = at / size[d];
    offset += (at - above * size[d]) * stride[d];
    at = above;
  }
  return offset + at * stride[0];
}
// The offset of element `at`, in row-major order, of a space.
CODETTA_FN i64 offset_of(i64 at, i32 rank, const i64* size, const i64* stride) {
  if (rank > 1) return offset_in(at, rank, size, stride);
  return rank == 0 ? 0 : at * stride[0];
}

CODETTA_FN i64 step_thread() { return (i64)blockIdx.x * step_threads + threadIdx.x; }
CODETTA_FN i64 all_step_threads() { return (i64)gridDim.x * step_threads; }

// The record lies in the host's memory, where a device need not be able to update a word at once (PCIe has that as an
// option): who may write it is settled in the device's own.
static __device__ u32 report_gate = 0;
CODETTA_CALLED void report(const StepFault& to, u32 which, i64 offset, i64 value, i64 size, bool huge) {
  if (to.fault == nullptr) return;
  // Who holds the gate gives it back within the same turn, so that lanes that step together don't wait for each other.
  for (bool over = false; !over;) {
    over = look_up(&to.fault->state) != 0;  // the first one stays
    if (over || !claim(&report_gate)) continue;
    if (look_up(&to.fault->state) == 0) {
      to.fault->step = (u32)to.number;
      to.fault->which = which;
      to.fault->huge = huge ? 1 : 0;
      to.fault->offset = offset;
      to.fault->value = value;
      to.fault->size = size;
      publish(&to.fault->state, 2);
    }
    give_back(&report_gate);
    over = true;
  }
}

// An integer of any type; those of u64 as their bits.
CODETTA_CALLED i64 integer_at(const void* data, i64 at, i32 dtype) {
  switch (dtype) {
    case 1:
      return ((const i8*)data)[at];
    case 2:
      return ((const i16*)data)[at];
    case 3:
      return ((const i32*)data)[at];
    case 5:
      return ((const u8*)data)[at];
    case 6:
      return ((const u16*)data)[at];
    case 7:
      return ((const u32*)data)[at];
    default:
      return ((const i64*)data)[at];
  }
}
// Whether such an index is 2^63 or more, which no size reaches.
CODETTA_FN bool is_huge(i64 index, i32 dtype) { return dtype == 8 && index < 0; }

// ---- elements, in the type that they are combined in ----
CODETTA_FN i32 bytes_of(i32 dtype) {
  return dtype == 4 || dtype == 8 || dtype == 14                  ? 8
         : dtype == 3 || dtype == 7 || dtype == 13                ? 4
         : dtype == 2 || dtype == 6 || dtype == 11 || dtype == 12 ? 2
                                                                  : 1;
}
CODETTA_FN u64 bits_at(const void* data, i64 at, i32 bytes) {
  if (bytes == 1) return ((const u8*)data)[at];
  if (bytes == 2) return ((const u16*)data)[at];
  if (bytes == 4) return ((const u32*)data)[at];
  return ((const u64*)data)[at];
}
CODETTA_FN void set_bits(void* data, i64 at, i32 bytes, u64 bits) {
  if (bytes == 1) ((u8*)data)[at] = (u8)bits;
  if (bytes == 2) ((u16*)data)[at] = (u16)bits;
  if (bytes == 4) ((u32*)data)[at] = (u32)bits;
  if (bytes == 8) ((u64*)data)[at] = bits;
}

// Whatever is only moved, and integers: sums and products wrap, of which the low bytes are all that counts.
struct Whole {
  using Value = u64;
  CODETTA_MEMBER static u64 load(const void* data, i64 at, i32 dtype) { return bits_at(data, at, bytes_of(dtype)); }
  CODETTA_MEMBER static void store(void* data, i64 at, i32 dtype, u64 bits) {
    set_bits(data, at, bytes_of(dtype), bits);
  }
  CODETTA_MEMBER static u64 together(u64 a, u64 b, i32 how, i32 dtype) {
    const PutHow in = (PutHow)how;
    if (in == PutHow::none) return b;
    if (dtype == 0) return in == PutHow::sum || in == PutHow::max ? (a | b) != 0 : a != 0 && b != 0;
    if (in == PutHow::sum) return a + b;
    if (in == PutHow::product) return a * b;
    const int unused = 64 - 8 * bytes_of(dtype);
    const bool below = dtype < 5 ? (i64)(b << unused) < (i64)(a << unused) : b < a;
    return below == (in == PutHow::min) ? b : a;
  }
};
template <class W>
CODETTA_FN W numbers_together(W a, W b, i32 how) {
  const PutHow in = (PutHow)how;
  if (in == PutHow::sum || a != a || b != b) return a + b;  // NaN stays
  if (in == PutHow::product) return a * b;
  if (in == PutHow::min) return b < a ? b : a;
  return a < b ? b : a;
}
CODETTA_CALLED f32 float_at(const void* data, i64 at, i32 dtype) {
  switch (dtype) {
    case 9:
      return widen(((const f8e4m3*)data)[at]);
    case 10:
      return widen(((const f8e5m2*)data)[at]);
    case 11:
      return widen(((const f16*)data)[at]);
    case 12:
      return widen(((const bf16*)data)[at]);
    default:
      return ((const f32*)data)[at];
  }
}
CODETTA_CALLED void set_float(void* data, i64 at, i32 dtype, f32 x) {
  switch (dtype) {
    case 9:
      ((u8*)data)[at] = narrow_f8e4m3(f32v{{x}}).e[0];
      break;
    case 10:
      ((u8*)data)[at] = narrow_f8e5m2(f32v{{x}}).e[0];
      break;
    case 11:
      ((u16*)data)[at] = narrow_f16(f32v{{x}}).e[0];
      break;
    case 12:
      ((u16*)data)[at] = narrow_bf16(f32v{{x}}).e[0];
      break;
    default:
      ((f32*)data)[at] = x;
  }
}
struct Single {
  using Value = f32;
  CODETTA_MEMBER static f32 load(const void* data, i64 at, i32 dtype) { return float_at(data, at, dtype); }
  CODETTA_MEMBER static void store(void* data, i64 at, i32 dtype, f32 x) { set_float(data, at, dtype, x); }
  CODETTA_MEMBER static f32 together(f32 a, f32 b, i32 how, i32) { return numbers_together(a, b, how); }
};
struct Double {
  using Value = f64;
  CODETTA_MEMBER static f64 load(const void* data, i64 at, i32) { return ((const f64*)data)[at]; }
  CODETTA_MEMBER static void store(void* data, i64 at, i32, f64 x) { ((f64*)data)[at] = x; }
  CODETTA_MEMBER static f64 together(f64 a, f64 b, i32 how, i32) { return numbers_together(a, b, how); }
};

// ---- writes at indices ----
template <class Elements>
CODETTA_CALLED void put(const PutParams& p) {
  using Value = typename Elements::Value;
  // A lane has a thread for each of `ways` classes of slots, as far as there are threads.
  const i64 threads = all_step_threads(), thread = step_thread();
  const i64 lanes = p.lanes < 1 ? 1 : p.lanes;  // without lanes the indices are checked all the same
  i64 ways = 1;
  while (ways * 2 * lanes <= threads && ways < p.slots) ways *= 2;
  const bool spread = lanes <= threads;
  const i64 way = spread ? thread / lanes : 0;
  if (way >= ways) return;
#pragma unroll 1
  for (i64 lane = spread ? thread - way * lanes : thread; lane < lanes; lane += threads) {
    const i64 target = offset_of(lane, p.lane_rank, p.lane_size, p.target_lane),
              value = offset_of(lane, p.lane_rank, p.lane_size, p.value_lane),
              begin = offset_of(lane, p.lane_rank, p.lane_size, p.index_lane);
    // Only of narrow floats, whose Value is f32.
    Value* const wide = p.lanes > 0 ? (Value*)p.wide : nullptr;
#pragma unroll 1
    for (i64 slot = way; wide != nullptr && slot < p.slots; slot += ways)
      wide[slot * lanes + lane] =
          Elements::load(p.target, target + offset_of(slot, p.indices, p.slot_size, p.slot_stride), p.dtype);
#pragma unroll 1
    for (i64 position = 0; position < p.positions; ++position) {
      i64 slot = 0, to = target;
      bool some = p.lanes > 0;
#pragma unroll 1
      for (i32 n = 0; n < p.indices; ++n) {
        const i64 from = begin + offset_of(position, p.position_rank, p.position_size, p.index_position[n]);
        const i64 size = p.slot_size[n], given = integer_at(p.index[n], from, p.index_dtype[n]);
        i64 index = given;
        if (index < 0 || index >= size) {
          const bool huge = is_huge(given, p.index_dtype[n]);
          report(p.fault, (u32)n, from, given, size, huge);
          index = (index < 0 && !huge) || size == 0 ? 0 : size - 1;
          some = some && size > 0;
        }
        slot = slot * size + index;
        to += index * p.slot_stride[n];
      }
      if (!some || (slot & (ways - 1)) != way) continue;
      const i64 from = value + offset_of(position, p.position_rank, p.position_size, p.value_position);
      const Value x = Elements::load(p.values, from, p.dtype);
      if (wide != nullptr) {
        wide[slot * lanes + lane] = Elements::together(wide[slot * lanes + lane], x, p.how, p.dtype);
      } else if ((PutHow)p.how == PutHow::none) {
        Elements::store(p.target, to, p.dtype, x);
      } else {
        Elements::store(p.target, to, p.dtype,
                        Elements::together(Elements::load(p.target, to, p.dtype), x, p.how, p.dtype));
      }
    }
#pragma unroll 1
    for (i64 slot = way; wide != nullptr && slot < p.slots; slot += ways)
      Elements::store(p.target, target + offset_of(slot, p.indices, p.slot_size, p.slot_stride), p.dtype,
                      wide[slot * lanes + lane]);
  }
}

CODETTA_FN void step_put(const PutParams& p) {
  if (p.dtype < 9 || (PutHow)p.how == PutHow::none) return put<Whole>(p);
  if (p.dtype == 14) return put<Double>(p);
  return put<Single>(p);
}

// ---- copies and fills ----
CODETTA_FN void step_move(const MoveParams& p) {
#pragma unroll 1
  for (i64 at = step_thread(); at < p.count; at += all_step_threads()) {
    const u64 bits =
        p.from == nullptr ? p.bits : bits_at(p.from, offset_of(at, p.rank, p.size, p.from_stride), p.element_bytes);
    set_bits(p.to, offset_of(at, p.rank, p.size, p.to_stride), p.element_bytes, bits);
  }
}

// ---- checks of contents ----
// 0: nothing is wrong; 1: NaN; 2: an infinity, where there may be none.
template <class T>
CODETTA_FN i32 wrong_with(T x, bool finite) {
  if (x != x) return 1;
  return finite && x - x != (T)0 ? 2 : 0;
}
CODETTA_FN i32 wrong_at(const LookParams& p, i64 at) {
  const bool finite = (Looks)p.looks == Looks::finite;
  if (p.dtype < 9) return 0;  // integers are numbers
  if (p.dtype == 14) return wrong_with(((const f64*)p.data)[at], finite);
  return wrong_with(float_at(p.data, at, p.dtype), finite);
}
CODETTA_FN void step_look(const LookParams& p) {
#pragma unroll 1
  for (i64 at = step_thread(); at < p.count; at += all_step_threads()) {
    const i64 offset = offset_of(at, p.rank, p.size, p.stride);
    if ((Looks)p.looks == Looks::index) {
      const i64 index = integer_at(p.data, offset, p.dtype);
      if (index < 0 || index >= p.limit) report(p.fault, 0, offset, index, p.limit, is_huge(index, p.dtype));
    } else if (const i32 wrong = wrong_at(p, offset); wrong != 0) {
      report(p.fault, 0, offset, wrong, -1, false);
    }
  }
}

}  // namespace codetta::gpu

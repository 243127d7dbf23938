// SPDX-License-Identifier: Apache-2.0
// What a host step on elements is for the kernels of device/gpu/kernels/steps.h, from views to parameters and blocks:
// for runs in process and for emitted host text alike. Nothing is allocated and no driver is called.
#pragma once

#include "device/gpu/step_abi.h"
#include "device/host/gpu_plan.h"

namespace codetta::gpu::host {

// A tensor as a step sees it; strides count elements.
struct StepView {
  const char* name;
  char* data;
  i32 dtype, rank;
  i64 size[step_rank], stride[step_rank];
};

inline i64 elements_of(const StepView& view) {
  i64 count = 1;
  for (i32 i = 0; i < view.rank; ++i) count *= view.size[i];
  return count;
}
inline bool is_row_major(const StepView& view) {
  i64 step = 1;
  if (elements_of(view) == 0) return true;
  for (i32 i = view.rank; i-- > 0;) {
    if (view.size[i] != 1 && view.stride[i] != step) return false;
    step *= view.size[i];
  }
  return true;
}

// Drops dims of size 1 and joins those that all tensors walk as one. strides[t]: those of tensor t.
template <i32 tensors>
inline void fold(i32& rank, i64* size, i64* const (&strides)[tensors], i32 used = tensors) {
  i32 kept = 0;
  for (i32 d = 0; d < rank; ++d) {
    if (size[d] == 0) return void(rank = 0);  // nothing is walked
  }
  for (i32 d = 0; d < rank; ++d) {
    if (size[d] == 1) continue;
    bool joins = kept > 0;
    for (i32 t = 0; joins && t < used; ++t) joins = strides[t][kept - 1] == strides[t][d] * size[d];
    const i32 at = joins ? kept - 1 : kept++;
    size[at] = joins ? size[at] * size[d] : size[d];
    for (i32 t = 0; t < used; ++t) strides[t][at] = strides[t][d];
  }
  rank = kept;
}

// Enough threads that each has an element, up to what fills any device.
inline i64 step_blocks(i64 elements, i64 most) { return larger(1, smaller(ceil_div(elements, step_threads), most)); }

__attribute__((format(printf, 3, 4))) inline bool step_misfit(Trouble& trouble, const char* name, const char* format,
                                                              ...) {
  trouble.code = trouble_misfit;
  say(trouble.headline, "%.200s has the wrong shape", name);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(trouble.reason, sizeof trouble.reason, format, arguments);
  va_end(arguments);
  trouble.help = "bind tensors whose sizes agree";
  return false;
}

// ---- writes at indices ----
// Of narrow floats sums and products are formed in f32 and rounded once.
inline bool widens(i32 dtype, i32 how) {
  const bool narrow = dtype >= 9 && dtype <= 12;
  return narrow && (how == static_cast<i32>(PutHow::sum) || how == static_cast<i32>(PutHow::product));
}
// Bytes of workspace that params.wide points to; below 0: more than can be counted.
inline i64 wide_bytes(const PutParams& params) {
  i64 bytes = 0;
  if (!widens(params.dtype, params.how)) return 0;
  if (__builtin_mul_overflow(params.slots, params.lanes, &bytes) || __builtin_mul_overflow(bytes, i64{4}, &bytes) ||
      bytes > (i64{1} << 61))
    return -1;
  return (bytes + workspace_step - 1) / workspace_step * workspace_step;
}
inline i64 put_blocks(const PutParams& params) {
  const i64 lanes = larger(params.lanes, 1), slots = larger(1, smaller(params.slots, params.positions));
  i64 elements = 0;
  if (__builtin_mul_overflow(lanes, slots, &elements)) elements = i64{1} << 61;
  return step_blocks(elements, 1024);
}
inline void put_ends(PutParams& params, const StepView& target, const StepView& values, i32 how) {
  params.target = target.data;
  params.values = values.data;
  params.dtype = target.dtype;
  params.how = how;
  params.positions = params.lanes = params.slots = 1;
  for (i32 d = 0; d < params.position_rank; ++d) params.positions *= params.position_size[d];
  for (i32 d = 0; d < params.lane_rank; ++d) params.lanes *= params.lane_size[d];
  for (i32 n = 0; n < params.indices; ++n) params.slots *= params.slot_size[n];
}

// target[i0[p], i1[p], ..., rest] = values[p, rest]. Pointers of scratch and faults are the caller's to set.
inline bool plan_index_put(const StepView& target, const StepView* indices, i32 count, const StepView& values, i32 how,
                           PutParams& params, Trouble& trouble) {
  const StepView& first = indices[0];
  bool fits = values.rank == first.rank + target.rank - count;
  for (i32 i = 0; fits && i < values.rank; ++i)
    fits = values.size[i] == (i < first.rank ? first.size[i] : target.size[i - first.rank + count]);
  for (i32 n = 1; fits && n < count; ++n) {
    fits = indices[n].rank == first.rank;
    for (i32 i = 0; fits && i < first.rank; ++i) fits = indices[n].size[i] == first.size[i];
  }
  if (!fits)
    return step_misfit(trouble, values.name, "what is put at %.100s into %.100s has its shape and that of the rest",
                       first.name, target.name);
  params = {};
  params.indices = count;
  params.position_rank = first.rank;
  i64* strides[step_rank + 1] = {params.value_position};
  for (i32 i = 0; i < first.rank; ++i) {
    params.position_size[i] = first.size[i];
    params.value_position[i] = values.stride[i];
  }
  for (i32 n = 0; n < count; ++n) {
    strides[n + 1] = params.index_position[n];
    for (i32 i = 0; i < first.rank; ++i) params.index_position[n][i] = indices[n].stride[i];
    params.index[n] = indices[n].data;
    params.index_dtype[n] = indices[n].dtype;
    params.slot_size[n] = target.size[n];
    params.slot_stride[n] = target.stride[n];
  }
  params.lane_rank = target.rank - count;
  for (i32 i = 0; i < params.lane_rank; ++i) {
    params.lane_size[i] = target.size[count + i];
    params.target_lane[i] = target.stride[count + i];
    params.value_lane[i] = values.stride[first.rank + i];
  }
  put_ends(params, target, values, how);
  fold(params.position_rank, params.position_size, strides, count + 1);
  i64* const of_lanes[] = {params.target_lane, params.value_lane, params.index_lane};
  fold(params.lane_rank, params.lane_size, of_lanes);
  return true;
}

// target[p with p[dim] = index[p]] = source[p].
inline bool plan_scatter(const StepView& target, const StepView& index, const StepView& source, i32 dim, i32 how,
                         PutParams& params, Trouble& trouble) {
  for (i32 i = 0; i < index.rank; ++i) {
    if (index.size[i] > source.size[i] || (i != dim && index.size[i] > target.size[i]))
      return step_misfit(trouble, index.name, "it has %lld elements along dim %d; %.100s has %lld and %.100s %lld",
                         index.size[i], i, source.name, source.size[i], target.name, target.size[i]);
  }
  params = {};
  params.indices = 1;
  params.index[0] = index.data;
  params.index_dtype[0] = index.dtype;
  params.slot_size[0] = target.size[dim];
  params.slot_stride[0] = target.stride[dim];
  params.position_rank = 1;
  params.position_size[0] = index.size[dim];
  params.index_position[0][0] = index.stride[dim];
  params.value_position[0] = source.stride[dim];
  for (i32 i = 0; i < index.rank; ++i) {
    if (i == dim) continue;
    const i32 at = params.lane_rank++;
    params.lane_size[at] = index.size[i];
    params.index_lane[at] = index.stride[i];
    params.value_lane[at] = source.stride[i];
    params.target_lane[at] = target.stride[i];
  }
  put_ends(params, target, source, how);
  if (params.lanes == 0) params.positions = 0;  // lanes are the index's own: there is none to read
  i64* const of_lanes[] = {params.target_lane, params.value_lane, params.index_lane};
  fold(params.lane_rank, params.lane_size, of_lanes);
  return true;
}

// ---- copies and fills ----
// `from` null: all elements become `bits`.
inline bool plan_move(const StepView& to, const StepView* from, u64 bits, MoveParams& params, Trouble& trouble) {
  params = {};
  params.to = to.data;
  params.bits = bits;
  params.element_bytes = static_cast<i32>(element_bytes(static_cast<u8>(to.dtype)));
  params.rank = to.rank;
  bool fits = from == nullptr || (from->rank == to.rank && from->dtype == to.dtype);
  for (i32 i = 0; fits && i < to.rank; ++i) {
    fits = from == nullptr || from->size[i] == to.size[i];
    params.size[i] = to.size[i];
    params.to_stride[i] = to.stride[i];
    params.from_stride[i] = from == nullptr ? 0 : from->stride[i];
  }
  if (!fits) return step_misfit(trouble, from->name, "it is copied to %.200s, which has other sizes", to.name);
  if (from != nullptr) params.from = from->data;
  params.count = elements_of(to);
  i64* const strides[] = {params.to_stride, params.from_stride};
  fold(params.rank, params.size, strides);
  return true;
}
inline i64 move_blocks(const MoveParams& params) { return step_blocks(params.count, 4096); }
// All bytes of an element are alike, so that the driver fills what lies together.
inline bool one_byte(i32 dtype, u64 bits) {
  for (i64 i = 1; i < element_bytes(static_cast<u8>(dtype)); ++i) {
    if ((bits >> (8 * i) & 0xFF) != (bits & 0xFF)) return false;
  }
  return true;
}

// ---- checks of contents ----
inline LookParams plan_look(const StepView& view, Looks looks, i64 limit) {
  LookParams params{};
  params.data = view.data;
  params.count = elements_of(view);
  params.limit = limit;
  params.dtype = view.dtype;
  params.looks = static_cast<i32>(looks);
  params.rank = view.rank;
  for (i32 i = 0; i < view.rank; ++i) {
    params.size[i] = view.size[i];
    params.stride[i] = view.stride[i];
  }
  i64* const strides[] = {params.stride};
  fold(params.rank, params.size, strides);
  return params;
}
inline i64 look_blocks(const LookParams& params) { return step_blocks(params.count, 4096); }

// ---- faults ----
// "[1, 2]": where an element stands that lies `offset` elements behind its tensor's first.
inline void place_text(const StepView& view, i64 offset, char* text, u64 bytes) {
  i64 at[step_rank] = {};
  bool done[step_rank] = {};
  for (i32 i = 0; i < view.rank; ++i) {
    if (view.stride[i] < 0) offset -= (view.size[i] - 1) * view.stride[i];  // counted from the last
  }
  for (i32 round = 0; round < view.rank; ++round) {
    i32 widest = -1;
    const auto length = [&](i32 i) { return view.stride[i] < 0 ? -view.stride[i] : view.stride[i]; };
    for (i32 i = 0; i < view.rank; ++i) {
      if (!done[i] && (widest < 0 || length(i) > length(widest))) widest = i;
    }
    done[widest] = true;
    if (length(widest) == 0) continue;
    const i64 steps = smaller(offset / length(widest), view.size[widest] - 1);
    offset -= steps * length(widest);
    at[widest] = view.stride[widest] < 0 ? view.size[widest] - 1 - steps : steps;
  }
  u64 used = 0;
  text[0] = '\0';
  for (i32 i = 0; i < view.rank && used + 24 < bytes; ++i)
    used += static_cast<u64>(snprintf(text + used, bytes - used, "%s%lld", i == 0 ? "[" : ", ", at[i]));
  snprintf(text + used, bytes - used, view.rank == 0 ? "[]" : "]");
}
// The index as a kernel has met it.
inline const char* index_text(const Fault& fault, char (&text)[24]) {
  snprintf(text, sizeof text, fault.huge != 0 ? "%llu" : "%lld", fault.value);
  return text;
}
// The host's side of report(): true once where a kernel has found something, whoever else asks. Nothing waits for the
// device. While one thread reads the word, no kernel and no other thread takes it.
inline bool take_fault(Fault* word, Fault& found) {
  u32 written = 2;
  if (word == nullptr ||
      !__atomic_compare_exchange_n(&word->state, &written, 3U, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
    return false;
  found = *word;
  __atomic_store_n(&word->state, 0U, __ATOMIC_RELEASE);
  return true;
}

}  // namespace codetta::gpu::host

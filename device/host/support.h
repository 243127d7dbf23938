// SPDX-License-Identifier: Apache-2.0
// What emitted C++ host text includes: checks of what the caller passes, calls and their memory, launches over the
// engine. One library is made of several such texts; what they share (library.h) is inline and hidden, so there is one
// of it in a library.
#pragma once

#include "device/host/items.h"
#include "device/host/views.h"

namespace codetta::host {

// The sizes that the calling thread's last call which succeeded has computed for outputs, and of which function.
struct ComputedSizes {
  i32 function = -1;
  i32 count = 0;
  i64 sizes[64] = {};
};
inline thread_local ComputedSizes computed_sizes;

// ---- checks ----
inline Status wrong_rank(const View& view, const char* name, i32 declared) {
  return fail(bad_argument, "E0610: %s does not fit: it is %s, of rank %d; the program takes rank %d", name,
              describe(view), view.rank, declared);
}

// symbol = size of a dim, counted from the first of `declared` dims, which is `factor` times it plus `rest`; the view
// has that dim.
inline Status define(Number& symbol, const char* symbol_name, const View& view, const char* name, i32 dim, i32 declared,
                     i64 factor = 1, Number rest = Number(0)) {
  if (declared - 1 - dim >= view.rank) return wrong_rank(view, name, declared);
  const i64 whole = view.size_from_last(declared - 1 - dim);
  const Number times = Number(whole) + rest * Number(-1);
  const i64 size = times.value / factor;
  if (times.bad || times.value < 0 || times.value % factor != 0) {
    const char* const what = times.bad ? "out of range" : times.value < 0 ? "negative" : "no whole number";
    if (rest.value == 0)
      return fail(bad_sizes, "E0610: %s is %s: dim %d of %s is %lld, and is %lld times it", symbol_name, what, dim,
                  name, static_cast<long long>(whole), static_cast<long long>(factor));
    return fail(bad_sizes, "E0610: %s is %s: dim %d of %s is %lld, and is %lld times it plus %lld", symbol_name, what,
                dim, name, static_cast<long long>(whole), static_cast<long long>(factor),
                static_cast<long long>(rest.value));
  }
  if (symbol.unset) {
    symbol = Number(size);
    return ok;
  }
  if (symbol.value == size) return ok;
  return fail(bad_sizes, "E0610: %s is %lld here but %lld elsewhere: dim %d of %s is %s", symbol_name,
              static_cast<long long>(size), static_cast<long long>(symbol.value), dim, name, describe(view));
}

// With this many dims: leading ones of size 1 are left out, or added.
inline void set_rank(View& view, i32 rank) {
  View result = view;
  result.rank = rank;
  for (i32 i = 0; i < rank; ++i) {
    const i32 from = view.rank - rank + i;
    result.size[i] = from < 0 ? 1 : view.size[from];
    result.stride[i] = from < 0 ? 0 : view.stride[from];
  }
  view = result;
}

// The view is what the program declares; sizes align at the last dim, and a dim that either lacks counts as 1. From
// then on it has the declared dims: steps count them from the first.
inline Status fits(View& view, const char* name, i32 dtype, const Number* sizes, i32 declared) {
  if (view.dtype != dtype)
    return fail(bad_argument, "E0610: %s does not fit: it is %s, the program takes %s", name, describe(view),
                dtype_name(dtype));
  for (i32 i = 0; i < (declared > view.rank ? declared : view.rank); ++i) {
    const Number wanted = i < declared ? sizes[declared - 1 - i] : Number(1);
    if (wanted.bad) return fail(bad_sizes, "E0610: a size of %s has no value", name);
    if (view.size_from_last(i) != wanted.value && view.rank != declared) return wrong_rank(view, name, declared);
    if (view.size_from_last(i) != wanted.value)
      return fail(bad_sizes, "E0610: %s does not fit: it is %s; the program takes %lld in dim %d from the last", name,
                  describe(view), static_cast<long long>(wanted.value), i);
  }
  if (view.rank != declared) set_rank(view, declared);
  return ok;
}

inline Status check_equal(Number left, Number right, const char* headline, const char* why) {
  if (!left.bad && !right.bad && left.value == right.value) return ok;
  return fail(bad_sizes, "E0610: %s: they are %lld and %lld; %s", headline, static_cast<long long>(left.value),
              static_cast<long long>(right.value), why);
}

// Whether elements of the last dim do not lie side by side.
inline bool lies_apart(const View& view) {
  const i32 last = view.rank - 1;
  return view.rank > 0 && view.size[last] > 1 && view.stride[last] != 1 && !view.empty();
}
inline Status check_unit_stride(const View& view, const char* name) {
  if (!lies_apart(view)) return ok;
  unaligned = true;
  return fail(bad_sizes, "E0610: %s must be contiguous in its last dimension: its stride there is %lld", name,
              static_cast<long long>(view.stride[view.rank - 1]));
}

// symbol = value / divisor.
inline Status define_value(Number& symbol, const char* symbol_name, Number value, Number divisor) {
  const Number quotient = floordiv(value, divisor);
  if (quotient.bad || quotient.value * divisor.value != value.value)
    return fail(bad_sizes, "E0610: %s is no whole number: %lld is divided by %lld", symbol_name,
                static_cast<long long>(value.value), static_cast<long long>(divisor.value));
  if (quotient.value < 0)
    return fail(bad_sizes, "E0610: %s is negative: it is %lld", symbol_name, static_cast<long long>(quotient.value));
  if (symbol.unset) symbol = quotient;
  if (symbol.value == quotient.value) return ok;
  return fail(bad_sizes, "E0610: %s is %lld here but %lld elsewhere", symbol_name,
              static_cast<long long>(quotient.value), static_cast<long long>(symbol.value));
}

inline Status check_stride(const View& view, i32 from_last, Number stride, const char* name) {
  if (view.empty() || view.size_from_last(from_last) <= 1) return ok;
  return check_equal(Number(view.step(from_last)), stride, "a stride does not fit the kernel", name);
}

inline Status check_alignment(const View& view, i64 bytes, const char* name) {
  if (view.empty()) return ok;
  bool fits = reinterpret_cast<u64>(view.data) % static_cast<u64>(bytes) == 0;
  for (i32 i = 0; i + 1 < view.rank; ++i)
    fits = fits && (view.size[i] <= 1 || view.stride[i] * dtype_bytes(view.dtype) % bytes == 0);
  if (fits) return ok;
  return fail(bad_sizes, "E0610: %s and its rows must be aligned to %lld bytes", name, static_cast<long long>(bytes));
}

// Of an output that a kernel of the caller's writes where it lies, if it lies as a temporary would, row-major and at a
// multiple of 16 bytes; or, where the copy engine writes it, as that takes it. Another program serves other ones.
inline Status check_written(const View& view, i32 from_last, Number stride, const char* name) {
  constexpr u64 whole = 16;
  if (view.empty() || view.size_from_last(from_last) <= 1) return ok;
  const u64 over = reinterpret_cast<u64>(view.data) % whole;
  const Status status = over != 0
                            ? fail(bad_sizes, "E0610: %s must be aligned to 16 bytes: its address is %lld modulo 16",
                                   name, static_cast<long long>(over))
                            : check_stride(view, from_last, stride, name);
  if (status != ok) unaligned = true;
  return status;
}
inline Status check_written_at(const View& view, i64 bytes, const char* name) {
  const Status status = check_alignment(view, bytes, name);
  if (status != ok) unaligned = true;
  return status;
}

inline bool in_range(Number value, Number least, Number most) {
  return !value.bad && !least.bad && !most.bad && least.value <= value.value && value.value <= most.value;
}

inline Status check_range(Number value, Number least, Number most, const char* what, const char* why) {
  if (in_range(value, least, most)) return ok;
  if (const char* of = value.bad ? "" : "a bound of "; value.bad || least.bad || most.bad)
    return fail(bad_sizes, "E0610: %s%s has no value: it divides by 0, or 64 bits do not hold it; %s", of, what, why);
  if (most.value == int64_max)
    return fail(bad_sizes, "E0610: %s is %lld, and %lld or more is wanted; %s", what,
                static_cast<long long>(value.value), static_cast<long long>(least.value), why);
  return fail(bad_sizes, "E0610: %s is %lld, outside of %lld to %lld; %s", what, static_cast<long long>(value.value),
              static_cast<long long>(least.value), static_cast<long long>(most.value), why);
}

inline bool identical(const View& a, const View& b) {
  if (a.dtype != b.dtype || a.rank != b.rank) return false;
  for (i32 i = 0; i < a.rank; ++i) {
    if (a.size[i] != b.size[i]) return false;
  }
  if (a.empty()) return true;
  for (i32 i = 0; i < a.rank; ++i) {
    if (a.size[i] > 1 && a.stride[i] != b.stride[i]) return false;
  }
  return a.data == b.data;
}

// Nothing else lies in the memory of an argument that the caller gives up.
inline Status check_donated(const View& given, const char* given_name, const View& other, const char* name) {
  const Extent a = extent_of(given), b = extent_of(other);
  if (!codetta_engine_overlap(&a, &b)) return ok;
  return fail(bad_overlap, "E0613: donated %s, %s, overlaps %s, %s", given_name, describe(given), name,
              describe(other));
}

inline Status check_no_overlap(const View& output, const char* output_name, const View& other, const char* name,
                               bool in_place_ok) {
  const Extent a = extent_of(output), b = extent_of(other);
  if (!codetta_engine_overlap(&a, &b) || (in_place_ok && identical(output, other))) return ok;
  return fail(bad_overlap, "E0613: output %s, %s, overlaps %s, %s%s", output_name, describe(output), name,
              describe(other), in_place_ok ? "; only the identical view is allowed" : "");
}

inline Status check_apart(const View& output, const char* name) {
  const Extent e = extent_of(output);
  if (!codetta_engine_overlaps_itself(&e)) return ok;
  return fail(bad_overlap, "E0613: output %s overlaps itself: elements of %s share memory", name, describe(output));
}

// ---- running ----
// One call of a program. Its steps run twice: once to check and to measure, once, with memory, to compute; so nothing
// is written before everything is known to be right.
struct Frame {
  View* views = nullptr;
  const cpu::ScalarValue* scalars = nullptr;
  const Threads* threads = nullptr;
  char* memory = nullptr;
  bool running = false;
  bool sizes_only = false;  // the views lie nowhere
  i64 placed = 0;           // bytes of temporaries so far
  i64 unit = 64;            // alignment of what is placed
  i64 temporary_bytes = 0;
  i64 counter_bytes = 0;  // behind them, of kernels of a GPU: cleared once a call
  i64 engine_bytes = 0;   // behind those

  i64 bytes() const { return temporary_bytes + counter_bytes + engine_bytes; }
  bool checking() const { return !running && !sizes_only; }
};

// Bytes from the first element to behind the last; row-major without strides, which are not negative.
inline Number span_bytes(i32 dtype, const Number* sizes, const Number* strides, i32 rank) {
  Number count(1), reach(1);
  bool empty = false;
  for (i32 i = 0; i < rank; ++i) {
    count = count * sizes[i];
    if (strides != nullptr) reach = reach + (sizes[i] + Number(-1)) * strides[i];
    empty = empty || (!sizes[i].bad && sizes[i].value == 0);
  }
  if (empty) return Number(0);
  return (strides != nullptr ? reach : count) * Number(dtype_bytes(dtype));
}

// Memory of the workspace behind all that was placed before.
inline Status place(Frame& frame, i64& offset, Number bytes) {
  const Number end = round_up(Number(frame.placed) + bytes, frame.unit);
  if (end.bad || bytes.value < 0 || end.value > int64_max / 2)
    return fail(bad_sizes, "E0603: the size of the temporaries overflows");
  offset = frame.placed;
  frame.placed = end.value;
  if (frame.placed > frame.temporary_bytes) frame.temporary_bytes = frame.placed;
  return ok;
}

// A temporary at `offset` bytes of the workspace, in memory that was placed.
inline Status allocate(Frame& frame, View& view, i32 dtype, Number offset, const Number* sizes, const Number* strides,
                       i32 rank) {
  const Number end = offset + span_bytes(dtype, sizes, strides, rank);
  if (end.bad || offset.value < 0 || end.value > frame.placed)
    return fail(bad_sizes, "E0603: the size of a temporary overflows");
  // While sizes are measured it seems to lie at a small address: never read, but distinct and not null.
  char* base = frame.running ? frame.memory : reinterpret_cast<char*>(static_cast<u64>(4096));
  return bind(view, base + offset.value, dtype, sizes, rank, "a temporary", strides);
}

// Another view of the memory of `source`, `offset` bytes behind its first element.
inline Status reinterpret(View& view, const View& source, Number offset, i32 dtype, const Number* sizes,
                          const Number* strides, i32 rank, const char* name) {
  const Number span = span_bytes(dtype, sizes, strides, rank);
  const Number need = !span.bad && span.value == 0 ? span : offset + span;
  i64 have = source.empty() ? 0 : 1;
  for (i32 i = 0; i < source.rank; ++i) have += have == 0 ? 0 : (source.size[i] - 1) * source.stride[i];
  if (need.bad || offset.bad || offset.value < 0 || need.value > have * dtype_bytes(source.dtype))
    return fail(bad_sizes, "E0610: %s would leave the memory that it is a view of", name);
  return bind(view, source.data + offset.value, dtype, sizes, rank, name, strides);
}

// Of an output that a call computes the size of; behind all work, so that a call that fails leaves what was there.
inline void begin_computed(i32 function) { computed_sizes = {function, 0, {}}; }
inline void add_computed(Number size) { computed_sizes.sizes[computed_sizes.count++] = size.value; }

// `call`: of which function, in the text of an error.
inline Status output_sizes(i32 function, const char* call, i32 wanted, i64* sizes, i32 count) {
  if (computed_sizes.function != function)
    return fail(bad_argument, "E0608: %s has not succeeded in this thread, or another function has since", call);
  if (sizes == nullptr) return fail(bad_argument, "E0604: sizes is null");
  if (count != wanted)
    return fail(bad_argument, "E0701: %d sizes are asked for, and %s computes %d", count, call, wanted);
  memcpy(sizes, computed_sizes.sizes, static_cast<size_t>(count) * sizeof(i64));
  return ok;
}

inline bool is_row_major(const View& view) {
  i64 step = 1;
  for (i32 i = view.rank; i-- > 0;) {
    if (view.size[i] > 1 && view.stride[i] != step) return false;
    step *= view.size[i];
  }
  return true;
}

// What takes over the memory of `given`, an argument that the caller gives up: it lies in one piece, and is large and
// aligned enough.
inline Status reuse_donated(View& view, const View& from, const char* given, i64 alignment, i32 dtype,
                            const Number* sizes, const Number* strides, i32 rank, const char* name) {
  const u64 over = from.empty() ? 0 : reinterpret_cast<u64>(from.data) % static_cast<u64>(alignment);
  if (over != 0)
    return fail(bad_sizes, "E0610: donated %s can not be reused: its address is %lld modulo %lld", given,
                static_cast<long long>(over), static_cast<long long>(alignment));
  if (!from.empty() && !is_row_major(from))
    return fail(bad_sizes, "E0610: donated %s can not be reused: it lies in pieces", given);
  return reinterpret(view, from, Number(0), dtype, sizes, strides, rank, name);
}

// The one integer that a tensor of the caller's holds; 0 where its memory is not there.
inline i64 integer_in(const View& view) {
  if (view.data == nullptr || view.empty()) return 0;
  i64 value = 0;
  const i64 bytes = dtype_bytes(view.dtype);
  memcpy(&value, view.data, static_cast<u64>(bytes));
  if (view.dtype >= 1 && view.dtype <= 3) {  // i8 to i32: the sign is carried on
    const int shift = static_cast<int>(64 - 8 * bytes);
    value = static_cast<i64>(static_cast<u64>(value) << shift) >> shift;
  }
  return value;
}
// Of a number of u64 that is read as a size.
inline Status check_size(i64 value, const char* name) {
  if (value >= 0) return ok;
  return fail(bad_sizes, "E0610: %s is %llu, and sizes are up to 9223372036854775807", name,
              static_cast<unsigned long long>(value));
}
inline bool is_true(const View& view) { return !view.empty() && *view.data != 0; }

// Every element of `view`, in row-major order, with its address.
template <class F>
void for_elements(const View& view, F&& f) {
  if (view.empty()) return;
  i64 at[max_rank] = {};
  const i64 bytes = dtype_bytes(view.dtype);
  for (;;) {
    i64 offset = 0;
    for (i32 i = 0; i < view.rank; ++i) offset += at[i] * view.stride[i];
    f(view.data + offset * bytes, static_cast<const i64*>(at));
    i32 dim = view.rank;
    while (dim > 0 && ++at[dim - 1] == view.size[dim - 1]) at[--dim] = 0;
    if (dim == 0) return;
  }
}

inline void fill(const View& view, u64 bits) {
  const auto bytes = static_cast<u64>(dtype_bytes(view.dtype));
  for_elements(view, [&](char* element, const i64*) { memcpy(element, &bits, bytes); });
}

inline Status copy(const Frame& frame, const View& target, const View& source, const char* name) {
  bool same = target.dtype == source.dtype && target.rank == source.rank;
  for (i32 i = 0; same && i < target.rank; ++i) same = target.size[i] == source.size[i];
  if (!same)
    return fail(bad_sizes, "E0610: %s is copied from a tensor of another form: %s from %s", name, describe(target),
                describe(source));
  if (!frame.running) return ok;
  const Extent to = extent_of(target), from = extent_of(source);
  codetta_engine_copy(&to, &from, frame.threads);
  return ok;
}

inline Status set_sizes(Gemm& gemm, Number batch, Number m, Number n, Number k) {
  if (batch.bad || m.bad || n.bad || k.bad) return fail(bad_sizes, "E0610: a size of a kernel has no value");
  gemm.batch = batch.value;
  gemm.m = m.value;
  gemm.n = n.value;
  gemm.k = k.value;
  return ok;
}

// Columns in `ways` parts of chunks.
inline Status set_split(Gemm& gemm, i32 ways, Number chunk) {
  gemm.split_ways = ways;
  gemm.split_chunk = chunk.value;
  if (ways <= 1 || gemm.n == 0) return ok;
  if (!chunk.bad && gemm.n % ways == 0 && chunk.value >= 1 && gemm.n / ways % chunk.value == 0) return ok;
  return fail(bad_sizes, "E0610: %lld columns cannot be split: the kernel takes %d parts in chunks of %lld",
              static_cast<long long>(gemm.n), ways, static_cast<long long>(chunk.value));
}

inline Status uneven(const char* which, const View& view, const char* name) {
  unaligned = true;
  return fail(bad_sizes, "E0610: %s does not fit: %sdims of %s are not evenly spaced", name, which, describe(view));
}
// A dim of a factor as its product sees it (package::FactorDim).
struct SeenDim {
  i32 dim;             // from the last, of the tensor
  Number scale, size;  // more than there are: of the dims around it, too
};
// The factor's view of a tensor. The plan has made it of the tensor's declared sizes, which have been looked at.
template <i32 n>
Status see(View& seen, const View& view, const SeenDim (&dims)[n], const char* name) {
  seen = view;
  seen.rank = n;
  for (i32 i = 0; i < n; ++i) {
    const auto& [dim, scale, size] = dims[i];
    long long step = 0;
    const i64 count = scale.value == 1 ? size.value : 1;
    if (!items::as_one(view.size, view.stride, view.rank - 1 - dim, count, step)) return uneven("", view, name);
    const Number stride = scale * Number(step);
    if (stride.bad || size.bad) return fail(bad_sizes, "E0610: a size of %s has no value", name);
    seen.size[i] = size.value;
    seen.stride[i] = stride.value;
  }
  return ok;
}

// In front of a call's work: `count` dims, `last` from the last and those around it, that a product takes for one.
inline Status check_as_one(const View& view, i32 last, i32 count, const char* name) {
  if (view.empty()) return ok;
  i64 elements = 1;
  for (i32 i = 0; i < count; ++i) elements *= view.size_from_last(last + i);
  long long step = 0;
  const bool even = items::as_one(view.size, view.stride, view.rank - 1 - last, elements, step);
  return even ? ok : uneven("", view, name);
}
// And the leading dims of a factor. `inner`: of the factors in front; they agree on it.
inline Status check_even(const View& view, const char* name, i64& inner) {
  if (view.empty()) return ok;
  items::Items items;
  long long both = inner;
  const bool even = items::find(view.size, view.stride, view.rank - 2, items) && items::agree(both, items);
  inner = both;
  return even ? ok : uneven("the leading ", view, name);
}

// `inner`: of the factors in front; they agree on it.
inline Status check_factor(const View& view, const char* name, bool transposed, i64 batch, i64 rows, i64 cols,
                           i64& inner, i64& stride, i64& skip) {
  if (view.rank < 2)
    return fail(bad_sizes, "E0610: %s does not fit: it is %s; a factor has two dims or more", name, describe(view));
  const i64 have_rows = view.size_from_last(transposed ? 0 : 1), have_cols = view.size_from_last(transposed ? 1 : 0);
  i64 have_batch = 1;
  for (i32 dim = 0; dim + 2 < view.rank; ++dim) have_batch *= view.size[dim];
  items::Items items;
  long long both = inner;
  const bool even = items::find(view.size, view.stride, view.rank - 2, items) && items::agree(both, items);
  inner = both;
  stride = items.stride;
  skip = items.skip;
  if (!even && !view.empty()) return uneven("the leading ", view, name);
  if (have_rows == rows && have_cols == cols && (have_batch == batch || have_batch == 1)) return ok;
  return fail(bad_sizes, "E0610: %s does not fit: it is %s%s; the product takes [%lld, %lld] in a batch of %lld", name,
              describe(view), transposed ? " transposed" : "", static_cast<long long>(rows),
              static_cast<long long>(cols), static_cast<long long>(batch));
}

inline i64 columns_of_one(const Gemm& gemm) { return gemm.products > 1 ? gemm.n / gemm.products : gemm.n; }
inline Status set_a(Gemm& gemm, const View& view, const char* name, bool transposed) {
  CODETTA_OK(check_factor(view, name, transposed, gemm.batch, gemm.m, gemm.k, gemm.inner, gemm.a_batch, gemm.a_skip));
  gemm.a = view.data;
  gemm.a_row = view.stride[view.rank - (transposed ? 1 : 2)];
  gemm.a_k = view.stride[view.rank - (transposed ? 2 : 1)];
  return ok;
}
inline Status set_b(Gemm& gemm, const View& view, const char* name, bool transposed, const void*& data, i64& batch,
                    i64& skip, i64& k, i64& col) {
  CODETTA_OK(check_factor(view, name, transposed, gemm.batch, gemm.k, columns_of_one(gemm), gemm.inner, batch, skip));
  data = view.data;
  k = view.stride[view.rank - (transposed ? 1 : 2)];
  col = view.stride[view.rank - (transposed ? 2 : 1)];
  return ok;
}
inline Status set_b(Gemm& gemm, const View& view, const char* name, bool transposed) {
  return set_b(gemm, view, name, transposed, gemm.b, gemm.b_batch, gemm.b_skip, gemm.b_k, gemm.b_col);
}
// B of product `i`, from 1, of the products of one A.
inline Status set_more_b(Gemm& gemm, i32 i, const View& view, const char* name, bool transposed) {
  FactorB& b = gemm.more_b[i - 1];
  return set_b(gemm, view, name, transposed, b.data, b.batch, b.skip, b.k, b.col);
}

// An operand of an epilogue; `start` elements from the view's first. Its strides are set by the text that calls this.
inline cpu::Operand operand(const View& view, Number start = Number(0)) {
  cpu::Operand result{};
  if (!view.empty()) result.data = view.data + start.value * dtype_bytes(view.dtype);
  return result;
}

inline Status add_stride(cpu::Operand& operand, i32 slot, Number scale, i64 step) {
  const Number stride = scale * Number(step) + Number(operand.stride[slot]);
  if (stride.bad) return fail(bad_sizes, "E0610: an index has no value");
  operand.stride[slot] = stride.value;
  return ok;
}

inline Status set_packed(Gemm& gemm, const GemmConfig& config, const void* packed, i64 bytes, const char* name) {
  if (!codetta_engine_packed_matches(packed, bytes, &config, &gemm))
    return fail(bad_sizes, "E0610: the packed weights %s do not fit these sizes", name);
  gemm.packed_b = packed;
  return ok;
}

// How a launch writes an operand: not at all (0), or an element for each place along some axes of its root space.
enum Written : u8 { is_written = 1, by_batch = 2, by_row = 4, by_column = 8 };
inline bool writes_nothing(u8 store, const Gemm& gemm) {
  return ((store & by_batch) != 0 && gemm.batch == 0) || ((store & by_row) != 0 && gemm.m == 0) ||
         ((store & by_column) != 0 && gemm.n == 0);
}

// What one launch works on beside the product itself.
struct Work {
  Epilogue epilogue{};
  cpu::Operand* operands = nullptr;
  const View* const* views = nullptr;  // of each operand
  const u8* stores = nullptr;          // of Written
  i32 operand_count = 0;
  cpu::EpilogueFunction tiles = nullptr;  // a fused kernel's epilogue over tiles, for products without elements
};

template <i32 n>
void set_operands(Work& work, cpu::Operand (&operands)[n], const View* const (&views)[n], const u8 (&stores)[n]) {
  work.epilogue.operands = work.operands = operands;
  work.views = views;
  work.stores = stores;
  work.operand_count = n;
}
// Batch items may be taken for further rows.
inline void set_folding(Work& work) { work.epilogue.folds = work.operand_count + 1; }
template <i32 n>
void set_phases(Work& work, const Phase (&phases)[n]) {
  work.epilogue.phases = phases;
  work.epilogue.phase_count = n;
}
template <i32 n>
void set_reductions(Work& work, const Reduction (&reductions)[n]) {
  work.epilogue.reductions = reductions;
  work.epilogue.reduction_count = n;
}

inline bool reduces_nothing(u8 axis, const Gemm& gemm) {
  switch (axis) {
    case 0:
      return gemm.n == 0;
    case 1:
      return gemm.m == 0;
    case 3:
      return gemm.m == 0 || gemm.n == 0;
    default:
      return gemm.batch == 0 || gemm.m == 0 || gemm.n == 0;
  }
}

// How a kernel of either kind is measured and run; a map has its root space in place of a product.
inline i64 workspace_of(const GemmConfig& config, const Gemm& gemm, const Epilogue& epilogue, i32 threads) {
  return codetta_engine_workspace(&config, &gemm, &epilogue, threads);
}
inline i64 workspace_of(const MapConfig& config, const Gemm& space, const Epilogue& epilogue, i32) {
  return codetta_engine_map_workspace(&config, &space, &epilogue);
}
inline void run_kernel(const GemmConfig& config, const Gemm& gemm, const Epilogue& epilogue, const Threads* threads,
                       void* workspace) {
  codetta_engine_run(&config, &gemm, &epilogue, threads, workspace);
}
inline void run_kernel(const MapConfig& config, const Gemm& space, const Epilogue& epilogue, const Threads* threads,
                       void* workspace) {
  codetta_engine_map_run(&config, &space, &epilogue, threads, workspace);
}

// Whether an operand begins outside of its view: it has no elements, or those wanted are none of its own (a slice that
// is empty and begins behind the last).
inline bool is_nowhere(const View& view, const cpu::Operand& operand) {
  if (view.empty()) return true;
  const i64 bytes = dtype_bytes(view.dtype);
  i64 low = 0, high = 0;
  for (i32 i = 0; i < view.rank; ++i) (view.stride[i] < 0 ? low : high) += (view.size[i] - 1) * view.stride[i] * bytes;
  const char* at = static_cast<const char*>(operand.data);
  return at < view.data + low || at > view.data + high;
}

// A kernel over no elements may still owe results of rows, of columns and of everything. It runs over a space in which
// each empty extent counts as 1, with accumulators of K = 0; what belongs to tensors without elements, or to a part of
// one that has none, goes to a sink.
template <class Config>
Status launch_empty(Frame& frame, const Config& config, Gemm gemm, Work work) {
  bool owes = false;
  const Gemm given = gemm;
  for (i32 i = 0; i < work.operand_count; ++i)
    owes = owes || (work.stores[i] != 0 && !work.views[i]->empty() && !writes_nothing(work.stores[i], given));
  if (work.tiles != nullptr) work.epilogue.tiles = work.tiles;
  work.epilogue.fused = nullptr;
  if (!owes || work.epilogue.tiles == nullptr) return ok;
  Reduction reductions[64];
  for (i32 i = 0; i < work.epilogue.reduction_count; ++i) {
    reductions[i] = work.epilogue.reductions[i];
    reductions[i].of_nothing = reduces_nothing(reductions[i].axis, gemm);
  }
  work.epilogue.reductions = reductions;
  if (gemm.batch == 0) gemm.batch = 1;
  if (gemm.m == 0) gemm.m = 1;
  gemm.k = 0;
  gemm.packed_b = nullptr;
  if (gemm.n == 0) {
    gemm.n = gemm.split_ways > 1 ? gemm.split_ways : 1;
    gemm.split_chunk = 1;
  }
  const i64 scratch = round_up(workspace_of(config, gemm, work.epilogue, frame.threads->size), 64).value;
  const i64 sink_bytes = round_up((Number(gemm.m) + Number(gemm.n) + Number(64)) * Number(8), 64).value;
  if (!frame.running) {
    if (scratch + sink_bytes > frame.engine_bytes) frame.engine_bytes = scratch + sink_bytes;
    return ok;
  }
  char* memory = frame.memory + frame.temporary_bytes;
  memset(memory + scratch, 0, static_cast<u64>(sink_bytes));
  for (i32 i = 0; i < work.operand_count; ++i) {
    if (!is_nowhere(*work.views[i], work.operands[i]) && !writes_nothing(work.stores[i], given)) continue;
    work.operands[i] = cpu::Operand{};
    work.operands[i].data = memory + scratch;
  }
  run_kernel(config, gemm, work.epilogue, frame.threads, memory);
  return ok;
}

template <class Config>
Status launch(Frame& frame, const Config& config, const Gemm& gemm, const Work& work) {
  if (gemm.batch == 0 || gemm.m == 0 || gemm.n == 0) return launch_empty(frame, config, gemm, work);
  if (!frame.running) {
    if (work.epilogue.fused != nullptr && gemm.k > 1 && gemm.a_k != 1)
      return fail(bad_sizes, "E0610: the kernel reads consecutive k side by side, and they are %lld elements apart",
                  static_cast<long long>(gemm.a_k));
    const i64 bytes = workspace_of(config, gemm, work.epilogue, frame.threads->size);
    if (bytes > frame.engine_bytes) frame.engine_bytes = bytes;
    return ok;
  }
  alignas(16) static const char zeros[16] = {};  // what a tensor without elements is read as, where it is not checked
  for (i32 i = 0; i < work.operand_count; ++i) {
    if (work.stores[i] != 0 || !is_nowhere(*work.views[i], work.operands[i])) continue;
    work.operands[i] = cpu::Operand{};
    work.operands[i].data = const_cast<char*>(zeros);
  }
  run_kernel(config, gemm, work.epilogue, frame.threads, frame.memory + frame.temporary_bytes);
  return ok;
}

}  // namespace codetta::host

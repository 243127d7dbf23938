// SPDX-License-Identifier: Apache-2.0
// The micro-kernels as data, for ranking without linking the engine: which register blocks exist, and what a pair of
// operand dtypes runs on. tests/unit/runtime_cpu/blocks_test.cpp compares it with the tables themselves.
#pragma once

#include <span>

#include "codetta/target.hpp"
#include "codetta/tensor.hpp"
#include "device/cpu/micro/micro.hpp"

namespace codetta::cpu {

// Rows x columns of accumulators in registers: CpuGemmConfig::mr (at most) and nr.
struct RegisterBlock {
  int mr, nr;
};

// Which kernels a level adds over the one below it; the level that an ISA takes a product from is product_level().
constexpr CpuIsa product_level(CpuIsa isa, Product p) {
  const bool bytes = p >= Product::u8s8 && p <= Product::s8u8;
  if (p == Product::bf16) return isa == CpuIsa::amx || isa == CpuIsa::avx512_bf16 ? isa : CpuIsa::generic;
  if (bytes) {
    if (isa == CpuIsa::avx512_bf16) return CpuIsa::avx512_vnni;
    return isa == CpuIsa::amx || isa == CpuIsa::avx512_vnni ? isa : CpuIsa::generic;
  }
  return isa > CpuIsa::avx512 ? CpuIsa::avx512 : isa;
}
// bf16 and the 8-bit products exist at some levels only; the others everywhere.
constexpr bool has_product(CpuIsa isa, Product p) {
  return p < Product::bf16 || p == Product::int64 || product_level(isa, p) != CpuIsa::generic;
}

// What the Packed (convert == false) or Convert family computes a product of these dtypes with.
constexpr Product product_for(CpuIsa isa, DType a, DType b, DType accumulator, bool convert) {
  const auto byte = [](DType d) { return d == DType::i8 || d == DType::u8; };
  const auto narrow = [&](DType d) { return byte(d) || d == DType::i16 || d == DType::boolean; };
  if (accumulator == DType::f64) return Product::f64;
  if (accumulator == DType::i64) return Product::int64;
  if (accumulator == DType::f32) {
    const bool native = !convert && a == DType::bf16 && b == DType::bf16 && has_product(isa, Product::bf16);
    return native ? Product::bf16 : Product::f32;
  }
  if (!convert && byte(a) && byte(b)) {
    const Product p = b == DType::i8 ? (a == DType::i8 ? Product::s8s8 : Product::u8s8)
                                     : (a == DType::i8 ? Product::s8u8 : Product::u8u8);
    if (has_product(isa, p)) return p;
  }
  return narrow(a) && narrow(b) ? Product::int16 : Product::int32;
}

// Whether InPlace can read B of this dtype where it lies (contiguous along columns or along k; A of any dtype and
// strides is converted and copied row by row unless it is of the accumulator dtype with contiguous k). Fills `source`.
constexpr bool in_place_source(DType b, DType accumulator, Source& source) {
  switch (accumulator) {
    case DType::f64:
      source = Source::f64;
      return b == DType::f64;
    case DType::i64:
      return false;
    case DType::f32:
      source = b == DType::bf16 ? Source::bf16 : b == DType::f16 ? Source::f16 : Source::f32;
      return b == DType::f32 || b == DType::bf16 || b == DType::f16;
    default:
      source = b == DType::i8 ? Source::int8 : b == DType::u8 ? Source::uint8 : Source::int32;
      return b == DType::i8 || b == DType::u8 || b == DType::i32 || b == DType::u32;
  }
}

namespace blocks {
inline constexpr RegisterBlock avx512_f32[] = {{6, 64}, {8, 48}, {14, 32}, {16, 16}};
inline constexpr RegisterBlock avx512_f64[] = {{6, 32}, {8, 24}, {12, 16}, {12, 8}};
inline constexpr RegisterBlock avx512_int32[] = {{4, 64}, {6, 32}, {6, 16}};
inline constexpr RegisterBlock avx512_int64[] = {{4, 32}, {6, 16}, {6, 8}};
inline constexpr RegisterBlock avx512_int16[] = {{5, 64}, {8, 32}};
inline constexpr RegisterBlock avx512_dot[] = {{6, 64}, {12, 32}};  // bf16 and bytes
inline constexpr RegisterBlock avx512_widened[] = {{6, 64}, {6, 32}, {6, 16}};
inline constexpr RegisterBlock amx[] = {{32, 32}};
inline constexpr RegisterBlock avx2_f32[] = {{6, 16}, {8, 8}};
inline constexpr RegisterBlock avx2_f64[] = {{6, 8}, {8, 4}};
inline constexpr RegisterBlock avx2_int32[] = {{4, 16}, {6, 8}};
inline constexpr RegisterBlock avx2_int64[] = {{4, 8}, {6, 4}};
inline constexpr RegisterBlock avx2_int16[] = {{5, 16}, {6, 8}};
inline constexpr RegisterBlock avx2_widened[] = {{6, 16}, {6, 8}};
inline constexpr RegisterBlock neon_f32[] = {{6, 16}, {8, 4}};
inline constexpr RegisterBlock neon_f64[] = {{6, 8}, {8, 2}};
inline constexpr RegisterBlock generic_f32[] = {{4, 8}, {4, 4}};
inline constexpr RegisterBlock generic_f64[] = {{4, 4}, {4, 2}};
}  // namespace blocks

// Register blocks of a product in packed panels (Packed, Convert), widest first. Empty: the level lacks the product.
constexpr std::span<const RegisterBlock> packed_blocks(CpuIsa isa, Product p) {
  if (!has_product(isa, p)) return {};
  switch (product_level(isa, p)) {
    case CpuIsa::amx:
      return blocks::amx;
    case CpuIsa::avx512_vnni:
    case CpuIsa::avx512_bf16:
      return blocks::avx512_dot;
    case CpuIsa::avx512:
      return p == Product::f32     ? std::span<const RegisterBlock>(blocks::avx512_f32)
             : p == Product::f64   ? blocks::avx512_f64
             : p == Product::int64 ? blocks::avx512_int64
             : p == Product::int16 ? std::span<const RegisterBlock>(blocks::avx512_int16)
                                   : blocks::avx512_int32;
    case CpuIsa::avx2:
      return p == Product::f32     ? std::span<const RegisterBlock>(blocks::avx2_f32)
             : p == Product::f64   ? blocks::avx2_f64
             : p == Product::int64 ? blocks::avx2_int64
             : p == Product::int16 ? std::span<const RegisterBlock>(blocks::avx2_int16)
                                   : blocks::avx2_int32;
    case CpuIsa::neon:
      return p == Product::f64 || p == Product::int64 ? std::span<const RegisterBlock>(blocks::neon_f64)
                                                      : blocks::neon_f32;
    default:
      return p == Product::f64 || p == Product::int64 ? std::span<const RegisterBlock>(blocks::generic_f64)
                                                      : blocks::generic_f32;
  }
}

// Register blocks of InPlace when the columns of B are contiguous. Along k, dot-product blocks are chosen by the engine
// and mr, nr are ignored.
constexpr std::span<const RegisterBlock> in_place_blocks(CpuIsa isa, Source s) {
  if (s == Source::f32) return packed_blocks(isa, Product::f32);
  if (s == Source::f64) return packed_blocks(isa, Product::f64);
  if (s == Source::bf16 || s == Source::f16) {
    if (isa >= CpuIsa::avx512) return blocks::avx512_widened;
    if (isa == CpuIsa::avx2) return blocks::avx2_widened;
    return packed_blocks(isa, Product::f32);
  }
  return packed_blocks(isa, Product::int32);
}

// Whether the engine reads rows of B in place with the kernels that fetch them: B lies beyond the caches of a core, and
// a block of k is short enough for its rows, which are often a multiple of a page apart, to wait in L2. Up to twelve
// rows of f32 come as fast without.
constexpr bool fetches_rows(const KernelSet& set, i64 vectors, i64 m, i64 k, i64 n, i64 b_bytes, i64 kc) {
  constexpr i64 near = i64{1} << 20, rows_waiting = 256;
  constexpr i64 best = 3;  // vectors, of several widths that fetch
  return m > (b_bytes < 4 ? 1 : 12) && kc <= rows_waiting && k > near / b_bytes / n &&
         set.fetching[vectors - 1] != nullptr && (vectors == best || set.fetching[best - 1] == nullptr);
}

// Whether tiles of `cols` columns read rows of B in place with KernelSet::long_rows: where B lies beyond the caches of
// a core, blocks of columns that come back to each row of B wait for memory. Sources of 16 bits that are fetched
// (fetches_rows) come as fast in blocks.
constexpr bool reads_long_rows(const KernelSet& set, i64 m, i64 k, i64 n, i64 b_bytes, i64 cols) {
  constexpr i64 near = i64{1} << 20, least_cols = 512;
  return m >= 2 && m <= most_long_rows && cols >= least_cols && k > near / b_bytes / n &&
         set.long_rows[m - 2] != nullptr && !(b_bytes < 4 && set.fetching[max_vectors - 1] != nullptr);
}

// How far ahead of its use packed B is fetched by the kernels of few rows, in bytes; 0: not at all. One row reads
// faster than the hardware fetches, which starts anew with each page, where B comes from memory and not from a shared
// cache. With two to four rows the hardware's own fetching is as fast. From five on multiplying takes as long as memory
// and must not wait for it; of more than a block's rows all but the first find B in the caches, and the next block of k
// comes meanwhile (bench/NOTES.md).
constexpr i64 fetched_ahead(const KernelSet& set, i64 vectors, i64 m, i64 k, i64 n, i64 b_bytes) {
  constexpr i64 near = i64{1} << 20, shared = i64{16} << 20, whole_block = i64{1} << 20;
  if ((m > 1 && m < 5) || m > 48 || set.fetching[vectors - 1] == nullptr) return 0;
  if (k <= (m == 1 ? shared : near) / b_bytes / n) return 0;
  return m == 1 ? 4096 : m <= 12 ? 32768 : whole_block;
}

// Whether kernels of packed B fetch the panel that comes after the one they multiply: where B comes from beyond the
// caches of a core, the first rows of each panel wait for it. In tall tiles, which are planned where that takes long,
// and in all where a vector of 64 bytes is none of `halves`: such a processor multiplies twice as fast, and waits as
// long. A Zen 4 gains nothing elsewhere, and loses 1 to 2 % in pages of 4 KiB (bench/NOTES.md).
constexpr bool fetches_panels(const KernelSet& set, i64 vectors, i64 tile_rows, bool halves, i64 k, i64 n,
                              i64 b_bytes) {
  constexpr i64 near = i64{1} << 20, tall = 96;
  return (tile_rows > tall || !halves) && k > near / b_bytes / n && set.fetching[vectors - 1] != nullptr;
}

// Rows of a call for the items of a batch that come from memory: a call of so few ends so soon that the loads of the
// next ones are under way meanwhile. For processors that multiply two vectors of 64 bytes a clock; where a vector is
// two halves, multiplying takes longer than memory (bench/NOTES.md).
constexpr int streamed_rows = 4;
constexpr bool streams_items(const KernelSet& set, i64 m, i64 k, i64 item_bytes, i64 batch) {
  constexpr i64 shared = i64{16} << 20;
  return m > streamed_rows && k <= short_steps * set.group && item_bytes > 0 && batch > shared / item_bytes;
}
// Whether the engine fetches the next item while it multiplies one, a share of it before each call: where calls are of
// so few rows, and items are larger than what a core reads ahead by itself.
constexpr i64 least_fetched_item = i64{4} << 10;
constexpr bool fetches_items(const KernelSet& set, i64 rows, i64 m, i64 k, i64 item_bytes, i64 batch) {
  return rows <= streamed_rows && item_bytes >= least_fetched_item && streams_items(set, m, k, item_bytes, batch);
}

// Products of one row with a block of k that is no longer read rows of B with KernelSet::fetching_row where there is
// one. It pays on processors whose vectors of 64 bytes are two halves: there the accumulators, read and written for
// each row of B, take longer than B from memory. On others one row at a time is faster (bench/NOTES.md).
constexpr i64 fetching_row_k = 64;
constexpr bool fetches_row(const KernelSet& set, i64 kc) { return set.fetching_row != nullptr && kc <= fetching_row_k; }

}  // namespace codetta::cpu

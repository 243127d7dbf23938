// SPDX-License-Identifier: Apache-2.0
// AMX: 2 x 2 accumulator tiles of 16 x 16, panels of 32 columns in the same pair and quad layouts as the AVX-512
// kernels. A is packed with rows padded to 32 (16 are run where no more are left) and k padded to one tile row of 64
// bytes.
#include <immintrin.h>

#include "device/cpu/micro/micro.hpp"
#include "device/cpu/micro/sets.hpp"

namespace codetta::cpu {
namespace amx {

enum class Op { bf16, u8s8, s8s8, u8u8, s8u8 };

struct alignas(64) TileConfig {
  u8 palette = 1;
  u8 start_row = 0;
  u8 reserved[14] = {};
  u16 bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  u8 rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfig tile_config{};

void enter() { _tile_loadconfig(&tile_config); }
void leave() { _tile_release(); }

// Tiles 0..3: accumulators, 4 and 5: A, 6 and 7: B.
#define CODETTA_TILE_OP(c, a, b)           \
  do {                                     \
    if constexpr (op == Op::bf16) {        \
      _tile_dpbf16ps(c, a, b);             \
    } else if constexpr (op == Op::u8s8) { \
      _tile_dpbusd(c, a, b);               \
    } else if constexpr (op == Op::s8s8) { \
      _tile_dpbssd(c, a, b);               \
    } else if constexpr (op == Op::u8u8) { \
      _tile_dpbuud(c, a, b);               \
    } else {                               \
      _tile_dpbsud(c, a, b);               \
    }                                      \
  } while (false)

template <Op op, bool Tall>
void block(const void* a_start, i64 lda, const void* b_start, i64 ldb, void* c_start, i64 ldc, i64 k, i64,
           const void* init) {
  constexpr i64 unit = op == Op::bf16 ? 32 : 64;
  const char* a = static_cast<const char*>(a_start);
  const char* b = static_cast<const char*>(b_start);
  char* c = static_cast<char*>(c_start);
  char* c_low = c + 16 * ldc;
  if (init != nullptr) {
    _tile_loadd(0, c, ldc);
    _tile_loadd(1, c + 64, ldc);
    if constexpr (Tall) {
      _tile_loadd(2, c_low, ldc);
      _tile_loadd(3, c_low + 64, ldc);
    }
  } else {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (Tall) {
      _tile_zero(2);
      _tile_zero(3);
    }
  }
  for (; k > 0; k -= unit) {
    _tile_loadd(6, b, ldb);
    _tile_loadd(4, a, lda);
    CODETTA_TILE_OP(0, 4, 6);
    _tile_loadd(7, b + 64, ldb);
    CODETTA_TILE_OP(1, 4, 7);
    if constexpr (Tall) {
      _tile_loadd(5, a + 16 * lda, lda);
      CODETTA_TILE_OP(2, 5, 6);
      CODETTA_TILE_OP(3, 5, 7);
    }
    a += 64;
    b += 16 * ldb;
  }
  _tile_stored(0, c, ldc);
  _tile_stored(1, c + 64, ldc);
  if constexpr (Tall) {
    _tile_stored(2, c_low, ldc);
    _tile_stored(3, c_low + 64, ldc);
  }
}
#undef CODETTA_TILE_OP

template <Op op>
struct Blocks {
  static constexpr Kernel low = &block<op, false>;
  static constexpr Kernel tall = &block<op, true>;
  static constexpr Kernel table[32] = {low,  low,  low,  low,  low,  low,  low,  low,  low,  low,  low,
                                       low,  low,  low,  low,  low,  tall, tall, tall, tall, tall, tall,
                                       tall, tall, tall, tall, tall, tall, tall, tall, tall, tall};
};
template <Op op>
constexpr KernelSet tile_set() {
  KernelSet set;
  set.lanes = 16;
  set.group = op == Op::bf16 ? 2 : 4;
  set.k_unit = op == Op::bf16 ? 32 : 64;
  set.padded = true;
  set.max_rows[1] = 32;
  set.full[1] = Blocks<op>::table;
  return set;
}
constexpr MicroTable make_table() {
  MicroTable t;
  t.packed[static_cast<int>(Product::bf16)] = tile_set<Op::bf16>();
  t.packed[static_cast<int>(Product::u8s8)] = tile_set<Op::u8s8>();
  t.packed[static_cast<int>(Product::s8s8)] = tile_set<Op::s8s8>();
  t.packed[static_cast<int>(Product::u8u8)] = tile_set<Op::u8u8>();
  t.packed[static_cast<int>(Product::s8u8)] = tile_set<Op::s8u8>();
  t.enter = &enter;
  t.leave = &leave;
  return t;
}
constexpr MicroTable table = make_table();

}  // namespace amx

const MicroTable& amx_table() { return amx::table; }

}  // namespace codetta::cpu

CODETTA_MICRO_SET(amx, packed, 4)
CODETTA_MICRO_BYTE_SETS(amx)
extern "C" void codetta_micro_amx_enter() { codetta::cpu::amx::enter(); }
extern "C" void codetta_micro_amx_leave() { codetta::cpu::amx::leave(); }

// SPDX-License-Identifier: Apache-2.0
// 8-bit products with VPDPBUSD, which multiplies unsigned by signed bytes. Where both operands have the same signedness
// the bytes of A flip their top bit (+-128) as they are broadcast; the engine starts the accumulators at the
// compensation
// (-128 resp. +128 times the column sums of B).
#define CODETTA_MICRO_ISA avx512_vnni
#include "device/cpu/micro/policies_avx512.inl"
#include "device/cpu/micro/sets.hpp"

namespace codetta::cpu {
namespace avx512_vnni {

template <bool SignedA, bool SignedB>
struct Bytes : AccI32 {
  using A = u8;
  using BVec = Vec;
  static constexpr int group = 4, b_step = 64;
  CODETTA_INLINE static AVec flip(AVec a) {
    return SignedA == SignedB ? _mm512_xor_si512(a, _mm512_set1_epi8(static_cast<char>(0x80))) : a;
  }
  // Loaded as floats: short products are up to a tenth slower on Zen 4 with the instructions for integers.
  CODETTA_INLINE static AVec broadcast(const void* p) { return flip(_mm512_castps_si512(AccF32::broadcast(p))); }
  CODETTA_INLINE static AVec broadcast_tail(const void* p, i64 n) {
    u32 word = 0;
    for (i64 i = 0; i < n; ++i) word |= static_cast<u32>(static_cast<const u8*>(p)[i]) << (8 * i);
    return flip(_mm512_set1_epi32(static_cast<i32>(word)));
  }
  CODETTA_INLINE static BVec load_b(const void* p) { return _mm512_castps_si512(AccF32::load_c(p)); }
  CODETTA_INLINE static Vec madd(Vec c, AVec a, BVec b) {
    if constexpr (SignedB) {
      asm("vpdpbusd %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    } else {
      asm("vpdpbusd %2, %1, %0" : "+v"(c) : "v"(b), "v"(a));
    }
    return c;
  }
};

template <bool SignedA, bool SignedB>
constexpr KernelSet byte_set() {
  KernelSet set;
  add_blocks<Bytes<SignedA, SignedB>, 4, 6, false>(set);
  add_blocks<Bytes<SignedA, SignedB>, 2, 12, false>(set);
  return set;
}
constexpr MicroTable make_table() {
  MicroTable t;
  t.packed[static_cast<int>(Product::u8s8)] = byte_set<false, true>();
  t.packed[static_cast<int>(Product::s8s8)] = byte_set<true, true>();
  t.packed[static_cast<int>(Product::u8u8)] = byte_set<false, false>();
  t.packed[static_cast<int>(Product::s8u8)] = byte_set<true, false>();
  return t;
}
constexpr MicroTable table = make_table();

}  // namespace avx512_vnni

const MicroTable& avx512_vnni_table() { return avx512_vnni::table; }

}  // namespace codetta::cpu

CODETTA_MICRO_BYTE_SETS(avx512_vnni)

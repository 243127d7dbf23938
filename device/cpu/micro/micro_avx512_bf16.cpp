// SPDX-License-Identifier: Apache-2.0
// bf16 products with VDPBF16PS (pairs of k into f32; the instruction flushes subnormals and rounds to nearest even).
#define CODETTA_MICRO_ISA avx512_bf16
#include "device/cpu/micro/policies_avx512.inl"
#include "device/cpu/micro/sets.hpp"

namespace codetta::cpu {
namespace avx512_bf16 {

struct Bf16 : AccF32 {
  using A = u16;
  using BVec = Vec;
  static constexpr int group = 2, b_step = 64;
  CODETTA_INLINE static AVec broadcast_tail(const void* p, i64) {
    return _mm512_castsi512_ps(_mm512_set1_epi32(*static_cast<const u16*>(p)));
  }
  CODETTA_INLINE static BVec load_b(const void* p) { return load_c(p); }
  // Spelled in assembly because the compilers disagree on the types of the builtin.
  CODETTA_INLINE static Vec madd(Vec c, AVec a, BVec b) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
  }
};

constexpr MicroTable make_table() {
  MicroTable t;
  KernelSet set;
  add_blocks<Bf16, 4, 6, false>(set);
  add_blocks<Bf16, 2, 12, false>(set);
  add_fetching<Bf16, 4, 6>(set);
  t.packed[static_cast<int>(Product::bf16)] = set;
  return t;
}
constexpr MicroTable table = make_table();

}  // namespace avx512_bf16

const MicroTable& avx512_bf16_table() { return avx512_bf16::table; }

}  // namespace codetta::cpu

CODETTA_MICRO_SET(avx512_bf16, packed, 4)

// SPDX-License-Identifier: Apache-2.0
// AArch64 Advanced SIMD: 32 registers, so 6 x 16 f32 blocks.
#define CODETTA_MICRO_ISA neon
#include "device/cpu/micro/policies_vector.inl"
#include "device/cpu/micro/sets.hpp"

namespace codetta::cpu {
namespace neon {
constexpr MicroTable table = make_table<4, 6, 8>();
}  // namespace neon

const MicroTable& neon_table() { return neon::table; }

}  // namespace codetta::cpu

CODETTA_MICRO_SETS(neon)

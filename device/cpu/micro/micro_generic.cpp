// SPDX-License-Identifier: Apache-2.0
// Kernels for any machine: compiled with no instruction-set flags.
#define CODETTA_MICRO_ISA generic
#include "device/cpu/micro/policies_vector.inl"
#include "device/cpu/micro/sets.hpp"

namespace codetta::cpu {
namespace generic {
constexpr MicroTable table = make_table<2, 4, 4>();
}  // namespace generic

const MicroTable& generic_table() { return generic::table; }

}  // namespace codetta::cpu

CODETTA_MICRO_SETS(generic)

// SPDX-License-Identifier: Apache-2.0
// Tails: one extent goes through 1 to 65, the others stay at sizes that are no multiple of any vector or block.
#include <fmt/format.h>

#include "ir/bind.hpp"
#include "unit.hpp"

namespace codetta::numerics {
namespace {

constexpr int64_t last_size = 65;

struct Factors {
  DType a, b;
};
constexpr Factors all_factors[] = {
    {DType::f32, DType::f32},  {DType::f64, DType::f64},       {DType::bf16, DType::bf16},
    {DType::f16, DType::f16},  {DType::i8, DType::i8},         {DType::u8, DType::i8},
    {DType::u8, DType::u8},    {DType::f8e4m3, DType::f8e4m3}, {DType::f8e5m2, DType::f8e5m2},
    {DType::bf16, DType::f32}, {DType::i16, DType::i16},       {DType::i32, DType::u32},
    {DType::u16, DType::i8},   {DType::i64, DType::i64},       {DType::u64, DType::i32},
};

Unit tail(const Factors& factors, char extent, int64_t size, bool plain) {
  Unit unit;
  unit.a = factors.a;
  unit.b = factors.b;
  unit.m = extent == 'M' ? size : 13;
  unit.n = extent == 'N' ? size : 37;
  unit.k = extent == 'K' ? size : 19;
  unit.operations = 1;
  unit.every_family = true;
  unit.name = fmt::format("{} x {} tail {} = {}{}", dtype_name(unit.a), dtype_name(unit.b), extent, size,
                          plain ? ", plain" : "");
  const DType accumulator = ir::default_accumulator(unit.a, unit.b).value_or(DType::f32);
  if (plain) {
    unit.text = "def tail(accum):\n    return accum\n";
    unit.outputs = {{"accum", accumulator, {unit.m, unit.n}}};
    return unit;
  }
  unit.text =
      "def tail(accum, row, column, whole):\n"
      "    D = accum * column + row\n"
      "    E = relu(D) - whole\n"
      "    F = D - whole\n"
      "    return D, E, F\n";
  const DType type = accumulator == DType::f64 ? DType::f64 : DType::f32;
  unit.operands = {{"row", type, {unit.n}}, {"column", type, {unit.m, 1}}, {"whole", DType::bf16, {unit.m, unit.n}}};
  const Dims shape = {unit.m, unit.n};
  unit.outputs = {{"D", type, shape}, {"E", DType::f16, shape}, {"F", DType::bf16, shape}};
  return unit;
}

}  // namespace

std::vector<Unit> tail_units() {
  std::vector<Unit> units;
  for (const Factors& factors : all_factors) {
    for (const char extent : {'M', 'N', 'K'}) {
      for (int64_t size = 1; size <= last_size; ++size) {
        for (const bool plain : {false, true}) units.push_back(tail(factors, extent, size, plain));
      }
    }
  }
  return units;
}

}  // namespace codetta::numerics

// SPDX-License-Identifier: Apache-2.0
// The Op enumeration and its table (ops.def).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace codetta::types {

enum class OpRule : uint8_t {
  special,   // input, literal
  index,     // i64
  arith,     // join of the operands' compute types; bool counts as i32
  real,      // as arith, then integers become f32
  compare,   // bool; operands are joined first
  logical,   // bool; operands must be bool
  select,    // operand 0 is bool; join of the rest (all-bool stays bool)
  cast,      // the dtype of the attribute
  reduce,    // arith for sum/max/min/amax/sum_of_squares, real for mean/logsumexp
  layout,    // dtype of the operands' join, new shape
  matmul,    // accumulator type: f32 for floats up to f32, f64 for f64, i32 for 8-bit integers, i64 for wider ones
  indexed,   // dtype of operand 0; operand 1 is integer indices
  control,   // the outputs of the graphs in the attribute; result: one of them
  external,  // the result types in the attribute
};

struct OpTraits {
  uint8_t bits = 0;
  constexpr OpTraits operator|(OpTraits o) const { return {static_cast<uint8_t>(bits | o.bits)}; }
  [[nodiscard]] constexpr bool has(OpTraits o) const { return (bits & o.bits) == o.bits && o.bits != 0; }
};
namespace traits {
inline constexpr OpTraits none{0}, elementwise{1}, commutative{2}, discontinuous{4};
inline constexpr OpTraits program{8};  // only programs have it, no epilogue
}  // namespace traits

enum class Op : uint8_t {
#define CODETTA_OP(name, spelling, arity, rule, traits, doc) name,
#include "types/ops.def"
#undef CODETTA_OP
};

struct OpInfo {
  Op op;
  std::string_view name;      // "gelu_erf"
  std::string_view spelling;  // "gelu"
  int8_t arity;               // -1: any number >= 1
  OpRule rule;
  OpTraits traits;
  std::string_view doc;
  [[nodiscard]] constexpr bool elementwise() const { return traits.has(traits::elementwise); }
  [[nodiscard]] constexpr bool commutative() const { return traits.has(traits::commutative); }
  [[nodiscard]] constexpr bool discontinuous() const { return traits.has(traits::discontinuous); }
  [[nodiscard]] constexpr bool program_only() const { return traits.has(traits::program); }
  [[nodiscard]] constexpr bool is_reduction() const { return rule == OpRule::reduce; }
};

namespace detail {
using traits::commutative;
using traits::discontinuous;
using traits::elementwise;
using traits::none;
using traits::program;
inline constexpr OpInfo op_table[] = {
#define CODETTA_OP(name, spelling, arity, rule, traits, doc) \
  {Op::name, #name, spelling, arity, OpRule::rule, traits, doc},
#include "types/ops.def"
#undef CODETTA_OP
};
}  // namespace detail

inline constexpr std::span<const OpInfo> all_ops() { return detail::op_table; }
inline constexpr const OpInfo& op_info(Op op) { return detail::op_table[static_cast<size_t>(op)]; }
// By table name ("gelu_erf"); nullptr when unknown.
inline constexpr const OpInfo* find_op(std::string_view name) {
  for (const OpInfo& info : detail::op_table) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

}  // namespace codetta::types

// SPDX-License-Identifier: Apache-2.0
// Operations between literals, done before anything has a type: what decides which integer type holds a number is the
// number itself.
#pragma once

#include <optional>
#include <span>

#include "ir/attr.hpp"
#include "types/op.hpp"

namespace codetta::ir {

// A literal, or what arithmetic of literals gives: integers beyond 64 bits stand between, as in `2**63 - 1`.
struct ExactLiteral {
  LiteralAttr::Kind kind = LiteralAttr::Kind::Int;
  __int128 i = 0;       // Int, Bool
  double f = 0;         // Float
  bool beyond = false;  // Int: the number is above 2^125, and so does whatever depends on it

  static ExactLiteral of(const LiteralAttr& literal) { return {literal.kind, literal.i, literal.f, false}; }
  // Nullopt for an integer that no literal has.
  [[nodiscard]] std::optional<LiteralAttr> narrow() const;
};

// What the op gives: integers exactly, f64 where one of the numbers is a float; comparisons and logic a bool. Nullopt
// for what is no arithmetic, or has no such value: functions whose accuracy is the target's (exp, sqrt, ...), layout, a
// negative or a boolean exponent of an integer, a condition or a logical operand that is a number.
std::optional<ExactLiteral> fold_exact(types::Op op, std::span<const ExactLiteral> operands);
// The same of literals; also nullopt for an integer that no literal has.
std::optional<LiteralAttr> fold_literals(types::Op op, std::span<const LiteralAttr* const> operands);

// Whether the integer type has the number.
bool holds(DType integer, int64_t value);

// Comparisons of two numbers of one type.
template <class T>
bool compared(types::Op op, T x, T y) {
  switch (op) {
    case types::Op::eq:
      return x == y;
    case types::Op::ne:
      return x != y;
    case types::Op::lt:
      return x < y;
    case types::Op::le:
      return x <= y;
    case types::Op::gt:
      return x > y;
    default:
      return x >= y;
  }
}

// Operations that every kernel gives the same bits of, over operands of one type; nullopt for others. Integers modulo
// 2^64, sign or zero extended: storing wraps further.
std::optional<uint64_t> exact_integer(types::Op op, const uint64_t* operands, bool is_signed);
template <class T>  // float, double
std::optional<T> exact_float(types::Op op, const T* operands);

}  // namespace codetta::ir

// SPDX-License-Identifier: Apache-2.0
// Symbolic integers: sizes and strides that are known only at run time. A Dim is a polynomial in symbols, which stand
// for integers >= 0, and in opaque atoms x // y, x % y, min and max; both with Python's meaning (rounding toward minus
// infinity). It is kept in one canonical form, so that equal forms print, compare and hash alike.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace codetta::types {

// Why a Dim, or its evaluation, has no value.
enum class DimFault : uint8_t {
  none,
  overflow,          // a coefficient or a value leaves 64 bits
  division_by_zero,  // also % 0
  too_large,         // more than max_dim_nodes nodes
  unbound,           // evaluation met a symbol without a value
};
std::string_view to_string(DimFault fault);  // "overflow", "division by zero", ...

// Bounds the work and the recursion that a hostile expression can cause.
inline constexpr int max_dim_nodes = 2000;

// An immutable value; copies share. Arithmetic never wraps: what can't be said becomes a faulty Dim, which every
// further operation keeps (as NaN does). A faulty Dim equals nothing, itself included.
class Dim {
 public:
  Dim() = default;  // 0
  static Dim constant(int64_t value);
  static Dim symbol(std::string name);  // an integer >= 0; the name is an identifier
  static Dim faulty(DimFault fault);    // fault != none

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a);
  // Simplified where that is exact for all symbols >= 0: (8*n + 3) // 8 is n, (8*n + 3) % 8 is 3, n % 8 // 8 is 0.
  friend Dim floordiv(const Dim& a, const Dim& b);
  friend Dim mod(const Dim& a, const Dim& b);
  friend Dim min(const Dim& a, const Dim& b);
  friend Dim max(const Dim& a, const Dim& b);

  [[nodiscard]] DimFault fault() const { return fault_; }
  [[nodiscard]] bool is_constant() const { return fault_ == DimFault::none && node_ == nullptr; }
  [[nodiscard]] std::optional<int64_t> as_constant() const;
  // The name when the Dim is one symbol and nothing else.
  [[nodiscard]] std::optional<std::string_view> as_symbol() const;
  // What is known of the value for all symbols >= 0; nullopt: unbounded or unknown.
  [[nodiscard]] std::optional<int64_t> lower_bound() const;
  [[nodiscard]] std::optional<int64_t> upper_bound() const;
  // All symbols, also those inside of atoms, sorted, once each.
  [[nodiscard]] std::vector<std::string> symbols() const;

  // The value under `value_of`; nullopt when something fails, and then *why says what. Sums and products of a
  // polynomial are formed in 128 bits, so only values that matter overflow.
  using Lookup = std::function<std::optional<int64_t>(std::string_view)>;
  [[nodiscard]] std::optional<int64_t> evaluate(const Lookup& value_of, DimFault* why = nullptr) const;
  [[nodiscard]] std::optional<int64_t> evaluate(const std::map<std::string, int64_t>& values,
                                                DimFault* why = nullptr) const;
  [[nodiscard]] std::optional<int64_t> evaluate(std::span<const std::pair<std::string, int64_t>> values,
                                                DimFault* why = nullptr) const;

  // "2*n + 1", "n // 8", "4096": parse_dim reads it back to an equal Dim. Faulty: "<overflow>".
  [[nodiscard]] std::string to_string() const;

  // Structural. Equal Dims have equal values; unequal ones may, too.
  bool operator==(const Dim& o) const;
  // A total order of non-faulty Dims, the same in every process; it says nothing about values.
  static std::strong_ordering order(const Dim& a, const Dim& b);

  struct Node;  // canonical polynomial, dim.cpp

 private:
  friend struct DimBuilder;
  int64_t constant_ = 0;
  DimFault fault_ = DimFault::none;
  std::shared_ptr<const Node> node_;  // null: the Dim is constant_
};

Dim floordiv(const Dim& a, const Dim& b);
Dim mod(const Dim& a, const Dim& b);
Dim min(const Dim& a, const Dim& b);
Dim max(const Dim& a, const Dim& b);
inline std::string to_string(const Dim& dim) { return dim.to_string(); }

// Is the value >= 0 for all symbols >= 0? False where that is not found; it knows that c * (x // c) lies within c of x,
// so n - n // 2 is found. Needs more than bounds: lower_bound() of such a difference is unknown.
bool is_non_negative(const Dim& dim);

// q with q * b == a for all values of the symbols, where b is a product (one term, such as 4*batch) that divides every
// term of a, or a is a multiple of b; else nullopt. Unlike floordiv it may divide by symbols, whose value 0 then needs
// a check.
std::optional<Dim> exact_quotient(const Dim& a, const Dim& b);

// Byte range of the text and what is wrong there.
struct DimSyntaxError {
  size_t begin = 0;
  size_t end = 0;
  std::string reason;
};
// Integers, names, + - * // %, unary -, parentheses, min(a, b, ...), max(a, b, ...). A faulty result is an error, too.
std::optional<Dim> parse_dim(std::string_view text, DimSyntaxError* error = nullptr);

using Shape = std::vector<Dim>;
std::string to_string(const Shape& shape);  // "[batch, 4096]"

}  // namespace codetta::types

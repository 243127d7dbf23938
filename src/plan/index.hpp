// SPDX-License-Identifier: Apache-2.0
// Index expressions over the root coordinates (batch, row, column) of an epilogue: sums of coef * ((axis / div) % mod).
// They say where in a value's own index space a root element lies; permutes, reshapes, splits and joins transform them.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "package/epilogue_program.hpp"

namespace codetta::plan {

struct IndexTerm {
  int64_t coef = 1;
  package::Axis axis = package::Axis::Row;
  int64_t div = 1;
  int64_t mod = 0;     // 0: none
  int64_t extent = 0;  // how many values (axis / div) % mod takes: 0 .. extent - 1; 0 = symbolic, unknown
  types::Dim factor = types::Dim::constant(1);  // the symbolic part of the coefficient, of dims that are merged
  bool operator==(const IndexTerm&) const = default;
  std::strong_ordering operator<=>(const IndexTerm& o) const;
  [[nodiscard]] bool is_scaled() const { return !(factor == types::Dim::constant(1)); }
};

struct Index {
  std::vector<IndexTerm>
      terms;  // canonical: sorted, no zero coefficients, no terms that are always 0, mergeable ones merged
  int64_t constant = 0;
  types::Dim shift{};  // a symbolic start, added to it: of slices such as x[n // 2:]; 0 where there is none
  // A value of the program, added to it: where a part of a join is needed. It may lie outside of the dim; loads take
  // the nearest element. There is no arithmetic with it but sums.
  std::optional<uint32_t> value{};
  bool operator==(const Index&) const = default;
  bool operator<(const Index& o) const;

  static Index axis(package::Axis axis, int64_t extent);  // extent 0 = symbolic
  static Index of(int64_t value) { return {{}, value, {}, {}}; }
  static Index of(const types::Dim& value);
  [[nodiscard]] bool is_symbolic() const;  // a start or a coefficient is
  [[nodiscard]] bool is_shifted() const { return !(shift == types::Dim()); }
  [[nodiscard]] bool uses(package::Axis axis) const;
  [[nodiscard]] std::optional<int64_t> maximum() const;  // largest value; none when symbolic or computed
};

Index operator+(const Index& a, const Index& b);
Index scaled(const Index& a, int64_t factor);
Index scaled(const Index& a, const types::Dim& factor);
// Exact quotient and remainder for every root element, or nothing when they can't be written in this form; so it is
// where the start is symbolic or computed.
struct Division {
  Index quotient, remainder;
};
std::optional<Division> divide(const Index& a, int64_t divisor);

// The index in each dim of a value.
using Location = std::vector<Index>;
// Row-major position in `shape`, and back. `delinearize` fails where a division does.
Index linearize(const Location& location, const std::vector<int64_t>& shape);
std::optional<Location> delinearize(const Index& index, const std::vector<int64_t>& shape);

}  // namespace codetta::plan

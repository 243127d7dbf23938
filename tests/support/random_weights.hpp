// SPDX-License-Identifier: Apache-2.0
// Weights of random programs that lie inside of larger tensors, as several layers' or several heads' do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "types/dim.hpp"

namespace codetta::test {

struct WeightSlice {
  std::vector<types::Dim> whole;  // the parameter's shape
  std::string items;              // what reads the weight behind its name; empty: all of it
};

// Half of the weights [k, n] are tensors of their own; the others an item, columns or rows of one. `pick(n)`: below n.
template <typename Pick>
WeightSlice weight_slice(const std::vector<types::Dim>& shape, const Pick& pick) {
  using types::Dim;
  const int64_t form = pick(6), front = pick(4), behind = pick(4);
  const auto columns = shape.back().as_constant();
  std::vector<Dim> whole = shape;
  if (form == 0) {
    whole.insert(whole.begin(), Dim::constant(front + 1 + behind));
    return {whole, "[" + std::to_string(front) + "]"};
  }
  if (form == 1 && columns) {
    whole.back() = Dim::constant(front + *columns + behind);
    return {whole, "[:, " + std::to_string(front) + ":" + std::to_string(front + *columns) + "]"};
  }
  if (form == 2) {
    whole.front() = whole.front() + Dim::constant(front);
    return {whole, front == 0 ? "" : "[" + std::to_string(front) + ":]"};
  }
  return {shape, ""};
}

}  // namespace codetta::test

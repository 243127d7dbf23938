// SPDX-License-Identifier: Apache-2.0
// What random programs are made of, and what is known of one.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "codetta/tensor.hpp"
#include "support/random_devices.hpp"
#include "types/dim.hpp"

namespace codetta::test {

struct RandomProgramOptions {
  int operations = 12;
  bool symbolic = true;       // some sizes are names
  bool indices = true;        // take, gather, index_put, scatter
  bool puts = true;           // index_put and scatter, where there are indices
  bool control = false;       // cond and while_loop
  bool composites = true;     // softmax, rms_norm, layer_norm
  bool products = true;       // the first operation is one
  bool across = false;        // reshapes that cut across the dims of a value; values are returned that others use, too
  int donated = 0;            // of 100 parameters, so many give their memory up
  bool broadcasts = false;    // values of one row or column beside others
  bool counts = false;        // sizes that values give
  bool parts = false;         // and outputs of such sizes
  bool inner_counts = false;  // sizes that branches and loops compute
  bool items = false;         // products of several batch dims, some of them the same for all items
  bool ones = false;          // a third of the sizes are 1
  bool f16 = false;           // beside bf16
  int devices = 1;            // that the work is spread over
  int64_t largest_size = 9;   // of a symbol
  int64_t widths = 6;         // weights have 2 to twice as many columns
  int64_t max_elements = 4096;  // of what operations make larger
  std::string name = "program";
};

// Options drawn one by one, so that each meets every other; those of a backend that lacks some are turned off by the
// caller, who wants programs of a certain number of operations, too.
inline RandomProgramOptions drawn_options(uint64_t seed) {
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 0xD1B54A32D192ED03u;
  const auto one_of = [&](uint64_t n) {  // splitmix64, as the generator's own numbers, from another start
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (z ^ (z >> 31)) % n == 0;
  };
  RandomProgramOptions options;
  options.symbolic = !one_of(3);
  options.products = !one_of(5);
  options.control = one_of(2);
  options.across = one_of(3);
  options.donated = one_of(2) ? 40 : 0;
  options.broadcasts = one_of(2);
  options.counts = options.parts = one_of(3);
  options.inner_counts = one_of(2);
  options.items = one_of(3);
  options.ones = one_of(3);
  options.f16 = !one_of(4);
  options.devices = one_of(4) ? 2 : one_of(16) ? 3 : 1;
  if (one_of(4)) options.largest_size = 40, options.widths = 40;  // several vectors in a row
  return options;
}

// Of a value X; what has reductions of its last dim comes last.
inline constexpr const char* unary_forms[] = {"relu(X)",
                                              "tanh(X)",
                                              "sigmoid(X)",
                                              "abs(X) * 0.5",
                                              "X * 0.5 - 1.0",
                                              "maximum(X, -0.25)",
                                              "where(X > 0.0, X, X * 0.25)",
                                              "cast(X, bf16)",
                                              "clamp(X, -2.0, 2.0)",
                                              "where(X >= max(X, dim=-1), X, X * 0.25)",
                                              "where(X > min(X, dim=-1), X * 0.5, X)"};

// Sizes as a text has them: "3, n", in a type "3, "n"".
inline std::string list(const std::vector<types::Dim>& shape, bool quoted) {
  std::string out;
  for (const types::Dim& dim : shape) {
    const bool quotes = quoted && !dim.is_constant();
    out += (out.empty() ? "" : ", ") + (quotes ? "\"" + dim.to_string() + "\"" : dim.to_string());
  }
  return out;
}

inline std::string as_reshaped(const std::string& x, const std::vector<types::Dim>& shape) {
  return "reshape(" + x + ", (" + list(shape, false) + (shape.size() == 1 ? ",))" : "))");
}

// Of as many dims, some of one element.
inline bool spreads_over(const std::vector<types::Dim>& part, const std::vector<types::Dim>& whole) {
  if (part.size() != whole.size() || part == whole) return false;
  for (size_t d = 0; d < part.size(); ++d) {
    if (!(part[d] == whole[d] || part[d] == types::Dim::constant(1))) return false;
  }
  return true;
}

struct RandomParameter {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;  // under `sizes`
  int64_t index_limit = 0;     // integers: values 0..index_limit - 1; floats: 0, any value
  bool weights = false;        // integers that are no indices: the limit holds for any sizes
  bool donated = false;        // a run may leave anything there
};

struct RandomProgram {
  std::string text;
  std::vector<RandomParameter> parameters;  // in order
  std::vector<std::string> outputs;
  std::vector<std::pair<std::string, int64_t>> sizes;  // a value of each symbol for which everything is defined
};

}  // namespace codetta::test

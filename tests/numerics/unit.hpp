// SPDX-License-Identifier: Apache-2.0
// One unit of the numerics matrix: an epilogue that holds a group of operations as outputs, what it is bound to, and
// its run and judgement.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codetta/kernel.hpp"

namespace codetta::numerics {

struct Operand {
  std::string name;
  DType dtype = DType::f32;
  Dims shape;
  bool positive = false;
};
struct Output {
  std::string name;
  DType dtype = DType::f32;
  Dims shape;
};
struct Unit {
  std::string name;  // "bf16 column reals": dtype, operand form, group
  std::string text;
  DType a = DType::f32, b = DType::f32;
  int64_t batch = 0, m = 0, n = 0, k = 0;  // batch 0: not batched
  std::vector<Operand> operands;
  std::vector<Output> outputs;
  size_t operations = 0;      // how many the text holds
  bool refused = false;       // the language does not have it: a diagnostic of binding is what is right
  bool every_family = false;  // runs the best kernel of each family instead of the best of all
};

// Every operation of the language x dtype x operand form, and what is refused. Fixed order.
std::vector<Unit> operation_units();
// Products of every pair of dtypes whose M, N or K goes through 1 to 65, with an epilogue and without one.
std::vector<Unit> tail_units();

struct Outcome {
  std::string failure;  // for people; empty when fine
  int64_t runs = 0, interpreted = 0, elements = 0;
};
// Random operands of the seed, outputs poisoned, memory around the outputs watched, judged by the oracle.
Outcome run_unit(const Unit& unit, const Target& target, uint64_t seed, Context& context);

}  // namespace codetta::numerics

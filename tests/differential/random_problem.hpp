// SPDX-License-Identifier: Apache-2.0
// A random problem for a random epilogue: sizes, and views with every kind of strides over host memory that nothing
// else may write.
#pragma once

#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "codetta/gemm.hpp"
#include "codetta/kernel.hpp"
#include "differential/random_epilogue_text.hpp"

namespace codetta::test {

// Memory with a view in it, and room around.
struct Buffer {
  std::vector<unsigned char> bytes;
  TensorView view;
  // True when only the view's bytes may have changed since all were as made.
  [[nodiscard]] bool surroundings_kept() const;
};

class RandomProblem {
 public:
  // `probe`: a problem of a usual form, to see what can be expected of the epilogue. What decides the kernel's source
  // (strides, rounding) is drawn from `form` alone.
  RandomProblem(const EpilogueSpec& spec, uint64_t seed, bool probe, uint64_t form_seed)
      : random(seed), form(form_seed), spec_(spec), probe_(probe) {}
  RandomProblem(const EpilogueSpec& spec, uint64_t seed, bool probe)
      : RandomProblem(spec, seed, probe, seed ^ 0x9E3779B97F4A7C15u) {}

  void sizes();
  // Inputs filled, outputs poisoned. Errors: of the views.
  Result<void> arguments(const Epilogue& epilogue);
  // The text, and what its names are bound to, for people.
  [[nodiscard]] std::string describe() const;
  size_t pick(size_t below) { return static_cast<size_t>(random() % below); }
  bool one_in(size_t count) { return pick(count) == 0; }
  size_t pick_form(size_t below) { return static_cast<size_t>(form() % below); }
  bool form_in(size_t count) { return pick_form(count) == 0; }

  std::mt19937_64 random, form;
  bool usual_sizes = false;  // none is 1, which would change the kernel's source
  bool many_empty = false;   // every fifth size is 0
  bool aligned = false;      // row-major tensors whose rows begin at multiples of 16 bytes
  int64_t m = 0, n = 0, k = 0, batch = 0;
  GemmArguments call;
  // By address stable; an operand that is overwritten is among the inputs, and its former values are in `before`.
  std::vector<std::unique_ptr<Buffer>> inputs, outputs;
  std::vector<std::pair<std::string, TensorView>> before;

 private:
  [[nodiscard]] Dims concrete(const std::vector<int64_t>& shape) const;
  Result<std::unique_ptr<Buffer>> buffer(DType dtype, const Dims& shape, bool is_input);
  Result<TensorView> input(DType dtype, const Dims& shape);
  void special(const TensorView& view);

  const EpilogueSpec& spec_;
  bool probe_ = false, integers_ = false;
  std::set<const Buffer*> in_place_;  // with the copy of what it held
};

}  // namespace codetta::test

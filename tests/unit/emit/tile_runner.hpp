// SPDX-License-Identifier: Apache-2.0
// A whole problem in memory: operands behind guard pages, accumulators, the tiled run of an emitted epilogue, and the
// scalar reference for it.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "device/cpu/abi.h"
#include "package/epilogue_program.hpp"
#include "types/convert.hpp"

namespace codetta::emit {

struct ProblemSize {
  int64_t batches = 1, rows = 1, cols = 1;
  int64_t tile_rows = 1, tile_cols = 1;
  bool past_caches =
      false;  // the kernel is told of so many batch items that stores go past the caches; rows are aligned
};

// Memory that ends exactly where a page without access begins.
class GuardedBytes {
 public:
  explicit GuardedBytes(size_t bytes);
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  ~GuardedBytes();
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] size_t size() const { return size_; }

 private:
  std::byte* map_ = nullptr;
  size_t mapped_ = 0;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

class Problem {
 public:
  // Random operands, scalars and accumulators (values in about [-2, 2], integers small), outputs poisoned. Strides of
  // indexed operands are given by the caller: one vector per operand, empty for the affine ones.
  Problem(const package::EpilogueProgram& program, const ProblemSize& size, uint64_t seed,
          std::vector<std::vector<int64_t>> indexed_strides = {});

  // Runs the tiles of every phase, finishing reductions between phases.
  void run(cpu::EpilogueFunction function);
  // Compares every output with the reference and everything else in the outputs with the poison. Empty if all is well.
  // `tolerance` is relative to max(1, |expected|), on top of the rounding of the output's type.
  std::string compare(double tolerance, bool discontinuous);

 private:
  using Scalar = types::Scalar;
  struct Bound {
    std::unique_ptr<GuardedBytes> memory;
    cpu::Operand operand{};
    int64_t elements = 0;
  };
  [[nodiscard]] int64_t address(uint32_t operand, int64_t b, int64_t r, int64_t c) const;
  [[nodiscard]] Scalar accumulator(uint32_t part, int64_t b, int64_t r, int64_t c) const;
  void finish_reductions(uint32_t phase);
  // Reference: values of all instructions of a phase at one element.
  void evaluate(uint32_t phase, int64_t b, int64_t r, int64_t c, std::vector<Scalar>& values) const;
  [[nodiscard]] Scalar evaluate_op(const package::Inst& inst, const std::vector<Scalar>& values) const;
  void reference_reductions(uint32_t phase);

  const package::EpilogueProgram& program_;
  ProblemSize size_;
  std::mt19937_64 random_;
  std::vector<Bound> bound_;
  std::vector<cpu::Operand> operands_;
  std::vector<cpu::ScalarValue> scalars_;
  std::vector<Scalar> scalar_values_;  // by argument
  std::vector<Scalar> acc_;            // [part][batch][row][col]
  std::vector<std::vector<std::byte>> partials_, results_;
  std::vector<void*> partial_pointers_;
  std::vector<const void*> result_pointers_;
  std::vector<std::vector<Scalar>> expected_results_;
};

}  // namespace codetta::emit

// SPDX-License-Identifier: Apache-2.0
// Times of prepared executions: by the clock on a CPU, by events around the replay of a graph on a GPU.
#pragma once

#include <memory>
#include <span>

#include "codetta/kernel.hpp"

namespace codetta::driver {

// The executions are taken in turn and outlive the sampler; all run on the same device.
class Sampler {
 public:
  // Runs each a few times to warm up and to choose how many runs make a sample: enough for the clock, 0.2 to 1 ms.
  // Errors: those of Execution::run.
  static Result<Sampler> make(std::span<Execution> executions);
  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;
  ~Sampler();
  // Microseconds of one run, the mean of a sample. Errors: as above.
  Result<double> sample();

 private:
  struct State;
  struct Clocked;
  struct Replayed;
  explicit Sampler(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace codetta::driver

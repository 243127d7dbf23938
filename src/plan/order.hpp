// SPDX-License-Identifier: Apache-2.0
// The order of steps that needs the least memory at once, over an abstract graph of steps.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "codetta/error.hpp"

namespace codetta::plan {

struct OrderStep {
  std::vector<uint32_t> reads, makes;  // indices of buffers; a buffer is made by at most one step
  std::vector<uint32_t> behind;        // steps that must have run, whatever they make
  int64_t scratch = 0;                 // bytes that only this step needs
};
struct OrderBuffer {
  int64_t bytes = 0;     // with hints where symbolic; 0 for memory of the caller
  bool is_kept = false;  // an output of the whole: alive to the end
};

struct StepOrder {
  std::vector<uint32_t> steps;  // every step once, each behind what it needs
  int64_t peak = 0;             // bytes at the fullest step
  std::string_view by;          // "as written", "least peak", "breadth first", "depth first"
  int64_t as_written = 0;       // the peak of the order of the list
};

// A buffer lives from the step that makes it (from the start, where none does) to the last step that reads it. What a
// step reads and what it makes are there at the same time.
int64_t peak_of(const std::vector<OrderStep>& steps, const std::vector<OrderBuffer>& buffers,
                const std::vector<uint32_t>& order);

// The best of several orders; the order of the list where no other is better. Near-linear and deterministic. The list
// itself need not be in a possible order. Errors: E0901 a cycle, a buffer or step that is not there, one made twice.
Result<StepOrder> order_for_memory(const std::vector<OrderStep>& steps, const std::vector<OrderBuffer>& buffers);

}  // namespace codetta::plan

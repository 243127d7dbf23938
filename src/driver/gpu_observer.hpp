// SPDX-License-Identifier: Apache-2.0
// Observers of the public interface on a GPU.
#pragma once

#include <memory>

#include "codetta/program.hpp"
#include "driver/step_records.hpp"
#include "runtime/cuda/execution.hpp"

namespace codetta::driver {

// Tells `observer` of each step with copies in host memory of what it looks at, over the same strides; tensors that
// share bytes share them there, too. What the observer changes in them is written back before the run goes on. Errors
// of a run that is observed, beside the observer's own: E0606 (host memory), those of copies (E0644, E0647), with the
// step.
runtime::cuda::Observer gpu_observer(std::shared_ptr<const StepRecords> records, StepObserver observer,
                                     Observed observed);

}  // namespace codetta::driver

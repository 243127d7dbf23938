// SPDX-License-Identifier: Apache-2.0
// Kernels for host steps on a GPU (package/gpu_steps.hpp).
#pragma once

#include "package/gpu_steps.hpp"

namespace codetta::emit {

// For CUDA and HIP.
package::Kernel emit_steps_kernel(const Target& target);
// Adds it, as the last kernel, to a package for these that needs it and has none. `contents`: of needs_steps_kernel.
void add_steps_kernel(package::Package& package, bool contents = true);

}  // namespace codetta::emit

// SPDX-License-Identifier: Apache-2.0
// The packages of features with kernels for a GPU, which are named and not there.
#pragma once

#include "feature_packages.hpp"

namespace codetta::features {

// In place of those for a CPU. `inside`: factors that are made, and the B of further products, are parts of the kernel.
package::Package gpu_package(const Feature& feature, const Target& target, bool inside = true);

}  // namespace codetta::features

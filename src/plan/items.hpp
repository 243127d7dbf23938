// SPDX-License-Identifier: Apache-2.0
// Items of a batch as rows of one product, of a single GEMM whose tensors are known.
#pragma once

#include <vector>

#include "plan/candidates.hpp"
#include "plan/lower.hpp"

namespace codetta::plan {

// The shape as it runs: engines and launches take items for further rows where one B serves them all and the strides
// of A and of the epilogue's tensors allow it (device/host/fold.h), and so has it to be planned. Says
// where the epilogue's operands lie, too.
GemmShape shape_of_run(GemmShape shape, const Lowered& lowered, const std::vector<ArgumentLayout>& layouts,
                       Backend backend);

}  // namespace codetta::plan

// SPDX-License-Identifier: Apache-2.0
// Products of slices, for targets whose kernels read the items of a factor by two strides as fast as by one.
#pragma once

#include "opt/passes.hpp"

namespace codetta::opt {

// In front of the passes: rows that are several dims of a slice become the items and rows of a product, which reads
// them where they lie. Of the graph itself; in branches and loops such rows are copied.
Result<ir::Graph> items_of_slices(const ir::Graph& graph, std::vector<Fired>& fired);

}  // namespace codetta::opt

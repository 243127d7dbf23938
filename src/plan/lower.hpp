// SPDX-License-Identifier: Apache-2.0
// Lowering of a fusion region (one matmul and what follows it) to an EpilogueProgram: layout ops become index terms and
// split or join parts, reductions become reductions with phases, composite reductions become simple ones.
#pragma once

#include <variant>
#include <vector>

#include "ir/graph.hpp"
#include "package/epilogue_program.hpp"

namespace codetta::plan {

// Why something cannot be done; the printed reason of explain, and the public Rejection.
struct Rejection {
  uint16_t code = 0;   // E03xx legality, E04xx planning; has a docs page
  std::string kernel;  // family or kernel name; empty for a region
  std::string text;    // one sentence with the limiting numbers
  diag::Span span;     // in the graph's source, where the fact comes from
};

// Facts about how the arguments lie in memory that the program may specialize on.
struct ArgumentLayout {
  bool unit_stride = true;  // last dim has stride 1 or size <= 1
};

struct Lowered {
  package::EpilogueProgram program;
  std::vector<uint32_t> argument_input;  // program argument -> graph input or (inputs + output index)
};

// The matmul's region must hold every node between it and the outputs. Errors are Rejections turned into E03xx
// diagnostics: accumulator needed at two positions at once, a split along rows, more than max_terms index terms, ...
Result<Lowered> lower_epilogue(const ir::Graph& graph, ir::NodeId matmul, const std::vector<ArgumentLayout>& layouts);

}  // namespace codetta::plan

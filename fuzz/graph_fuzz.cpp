// SPDX-License-Identifier: Apache-2.0
// Any bytes as the text of a graph: refused with a place, or a graph that verifies, prints back to the same text and
// passes the optimizer, whose result verifies, too.
#include "ir/analyses.hpp"
#include "ir/graph.hpp"
#include "opt/passes.hpp"
#include "plan/lower.hpp"
#include "support.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace codetta;
  using namespace codetta::fuzz;
  const auto graph = ir::parse_graph(source_of(std::string(view_of(data, size))));
  if (!graph) {
    check_error(graph.error(), 100, 299);
    return 0;
  }
  require(ir::verify(*graph).has_value());
  const std::string printed = ir::print(*graph);
  const auto again = ir::parse_graph(source_of(printed));
  require(again.has_value() && *again == *graph && again->hash() == graph->hash() && ir::print(*again) == printed);
  const auto optimized = opt::optimize(*graph);
  require(optimized.has_value() && ir::verify(optimized->graph).has_value());
  for (const ir::NodeId product : ir::matmuls(optimized->graph)) {
    const auto lowered = plan::lower_epilogue(optimized->graph, product, {});
    if (!lowered) {
      check_error(lowered.error(), 300, 399);
    } else {
      require(!package::find_defect(lowered->program));
    }
  }
  return 0;
}

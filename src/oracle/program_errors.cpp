// SPDX-License-Identifier: Apache-2.0
#include "oracle/program_errors.hpp"

#include <fmt/format.h>

namespace codetta::oracle {

Error index_error(const ir::Graph& graph, ir::NodeId node, Wide index, int64_t size, const Sizes& at) {
  const std::string text =
      index < 0 ? std::to_string(static_cast<int64_t>(index)) : std::to_string(static_cast<uint64_t>(index));
  return diag::error(diag::Code::index_range, fmt::format("index {} is out of range for the size {}", text, size))
      .at(graph.source(), graph.span(node))
      .reason(fmt::format("it stands at [{}] of the indices of {}", fmt::join(at, ", "),
                          types::op_info(graph.node(node).op).name))
      .help(size == 0 ? std::string("there is nothing to index") : fmt::format("pass indices from 0 to {}", size - 1));
}

Error loop_error(const ir::Graph& graph, ir::NodeId node, int64_t iterations) {
  return diag::error(diag::Code::loop_endless, fmt::format("the loop still runs after {} iterations", iterations))
      .at(graph.source(), graph.span(node))
      .reason("its condition has not become false")
      .help("carry a count, and let the condition compare it with a limit");
}

Error unknown_function_error(const ir::Graph& graph, ir::NodeId node, const std::string& name) {
  return diag::error(diag::Code::target_lacks, fmt::format("the oracle does not know {}", name))
      .at(graph.source(), graph.span(node))
      .reason("it is code of the user, which the oracle cannot look into")
      .help(
          "pass the results that it had in a run (`given` of VerifyOptions and BisectOptions), or check a program that "
          "has the same work as operations");
}

Error stopped_error() {
  return diag::error(diag::Code::compile_cancelled, "the check by the oracle was cancelled")
      .reason("the context's cancel flag was set")
      .help("start it again when you want it; a smaller problem takes less");
}

bool ends_runs(const Error& error) {
  const auto is = [&](diag::Code code) { return error.code() == static_cast<uint16_t>(code); };
  return is(diag::Code::guard_failed) || is(diag::Code::index_range);
}

}  // namespace codetta::oracle

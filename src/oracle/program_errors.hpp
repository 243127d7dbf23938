// SPDX-License-Identifier: Apache-2.0
// What can go wrong while a program is interpreted.
#pragma once

#include <string>

#include "ir/graph.hpp"
#include "oracle/block.hpp"

namespace codetta::oracle {

// `index`: of i64 or u64; `at`: where it stands among the indices.
Error index_error(const ir::Graph& graph, ir::NodeId node, Wide index, int64_t size, const Sizes& at);
Error loop_error(const ir::Graph& graph, ir::NodeId node, int64_t iterations);
Error unknown_function_error(const ir::Graph& graph, ir::NodeId node, const std::string& name);
// OracleOptions::goes_on said no.
Error stopped_error();
// Whether every run that computes the value ends with this error, too. What only the oracle does not know is none.
bool ends_runs(const Error& error);

}  // namespace codetta::oracle

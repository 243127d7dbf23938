// SPDX-License-Identifier: Apache-2.0
// Where the text has what a temporary of a plan holds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "diag/diagnostic.hpp"
#include "plan/plan.hpp"

namespace codetta::driver {

struct ValuePlace {
  diag::SourceRef source;
  diag::Span span;
  std::string name;  // of the value in the text; empty where it has none
};

// Whether a buffer has such a name.
bool is_temporary(std::string_view name);
// Of the temporaries "t3" and, of graphs inside of the program's, "t2_3" and "loop0_5_1": the second value that the
// loop of node 5 carries, where the loop reads indices of it, if it does. `graph`: that the plan was made of. Nullopt
// for other names, and for what has no place.
std::optional<ValuePlace> place_of_temporary(const ir::Graph& graph, const plan::Plan& plan,
                                             std::string_view temporary);

// What host texts call the temporaries whose contents steps look at, by buffer: "i (rows.py:3:9)", or "a value
// (rows.py:3:9)" where the text has no name for it. `plan`: that the package was made of.
std::map<uint32_t, std::string> told_temporaries(const package::Package& package, const ir::Graph& graph,
                                                 const plan::Plan& plan);
// Whether there are any.
bool looks_at_temporaries(const package::Package& package);

}  // namespace codetta::driver

// SPDX-License-Identifier: Apache-2.0
// Decisions of a program's plan between one kernel and several that hang on how long each takes: the cost model takes
// them, or a measurement that was made of both.
#pragma once

#include <map>
#include <string>

#include "ir/graph.hpp"

namespace codetta::plan {

// What is done in one kernel, or apart from it.
enum class Question : uint8_t {
  Factors,   // what is in front of a product: made by it, or stored by a kernel in front (E0310)
  Products,  // several products of one factor (E0308)
  Behind,    // what reduces rows behind a product (E0312)
  Rows,      // reductions of the rows of a later product's factor, by the product in front of it (E0312)
  Join,      // the parts of a join: chosen by one kernel, or stored one by one
  Columns,   // products of one factor that differ in columns (E0308)
  Parts,     // a part of a join: stored there by its product's kernel, or copied (E0312)
};

// How a measurement answers; microseconds are of a run of the whole program.
struct Choice {
  bool apart = false;
  double together_us = 0, apart_us = 0;  // 0: that way did not run, or is not known
};
// By Decision::key.
using Choices = std::map<std::string, Choice>;

struct Decision {
  // "factors %12", of a branch or a loop "factors 3%12": the same for the same graph, target and build.
  std::string key;
  Question question = Question::Factors;
  ir::NodeId node;                 // of that graph: the product, or the join
  bool nested = false;             // in a branch or a loop
  double together = 0, apart = 0;  // microseconds by the cost model, of what differs
  bool is_apart = false;           // how it went
  bool measured = false;           // by `choice`
  Choice choice{};
};

// "together", "apart", in the words of the question: "made by the product", "in kernels of their own".
std::string_view way_of(Question question, bool apart);
std::string_view name_of(Question question);  // "factors"

}  // namespace codetta::plan

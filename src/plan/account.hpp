// SPDX-License-Identifier: Apache-2.0
// What kernels of a program stand for in the user's text, and what fusing them saved: for explain, reports and
// comments in emitted text. docs/explain.md defines the figures.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.hpp"
#include "types/dim.hpp"

namespace codetta::plan {

struct KernelRegion;

// An operation that a kernel carries out. By itself, as a kernel, it would read each of its operands once and write
// its result once; a View would be no kernel.
struct HeldOperation {
  enum class How : uint8_t {
    Product,
    Element,  // element by element
    Reduction,
    Indexed,  // reads at computed indices
    Join,     // its parts are stored where they belong
    View,     // index arithmetic of loads and stores, or of the product
    User,     // the source of a kernel of the user's
    Select,   // a join of which each element takes the part that its position says
  };
  ir::NodeId node;
  How how = How::Element;
  types::Op op = types::Op::input;
  std::string name;        // in the user's text; may be empty
  std::string type;        // "f32[b, s, 256]"
  uint32_t line = 0;       // of the user's text, from 1; 0: unknown
  types::Dim bytes;        // of its value
  bool in_memory = false;  // the program stores it, or a view of it
  bool repeated = false;   // an earlier kernel carries it out, too
  types::Dim saved;        // bytes that are neither written nor read, counted once where it is repeated
};

struct OriginLine {
  uint32_t line = 0;
  std::string text;
  bool operator==(const OriginLine&) const = default;
};

struct KernelAccount {
  std::string file;                 // of the text, without its folder; empty: there is none
  std::vector<OriginLine> origins;  // in the order of the text, each once
  std::vector<HeldOperation> held;  // in graph order
  std::vector<ir::NodeId> stored;   // in the order of the region's stores
  types::Dim saved;                 // sum over `held`
};

// In the order of the kernels, which are all that compute something of `graph`. Near-linear.
std::vector<KernelAccount> account_for(const ir::Graph& graph, const std::vector<KernelRegion>& kernels);

// "file.py:4: y = relu(x @ w)", a line an origin.
std::vector<std::string> origin_texts(const KernelAccount& account);

}  // namespace codetta::plan

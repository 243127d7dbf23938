// SPDX-License-Identifier: Apache-2.0
// Cutting a program into kernels: each product with what can run behind it, and map kernels for everything else. Values
// are stored where another kernel reads them; what depends on no product is computed where it is used, unless it has to
// be stored.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.hpp"

namespace codetta::plan {

// A factor of a product: where it is read, and whether its last two dims are swapped on the way.
struct Factor {
  ir::NodeId source;  // a graph input, or a stored value
  bool transposed = false;
  bool operator==(const Factor&) const = default;
};

// What a kernel stores: a node, or one of the parts that a stored join is put together from.
struct StoredValue {
  ir::NodeId node;               // computed
  ir::NodeId target;             // stored: the node itself, or the join
  size_t part = 0;               // of the join
  std::optional<size_t> output;  // of the program; none: a temporary
  bool operator==(const StoredValue&) const = default;
};

// What a FusionNote says was done.
namespace action {
inline constexpr std::string_view cut_off = "cut off behind its product";
inline constexpr std::string_view in_front = "computed in front of the product";
inline constexpr std::string_view stored = "stored in front of its user";
inline constexpr std::string_view copied = "copied";
inline constexpr std::string_view apart = "a kernel of its own";  // not put where the value that it reads is made
}  // namespace action

struct KernelRegion {
  std::optional<ir::NodeId> matmul;  // none: a map
  Factor a, b;
  std::vector<StoredValue> stores;
  std::vector<ir::NodeId> leaves;  // loaded, in graph order: inputs and stored values
  Lowered lowered;                 // arguments: leaves, then stores
  types::Dim batch, rows, cols;    // of the product, or of a map's root space
};

struct ProgramRegions {
  std::vector<KernelRegion> kernels;  // in execution order
  std::vector<FusionNote> notes;
};

// `takes`: why no kernel computes a product with this epilogue, if so. Errors: E03xx where even a kernel for one
// operation alone cannot be made.
using Refusal = std::function<std::optional<Rejection>(const KernelRegion&)>;
Result<ProgramRegions> find_regions(const ir::Graph& graph, const Refusal& refuses);

}  // namespace codetta::plan

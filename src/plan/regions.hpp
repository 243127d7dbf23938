// SPDX-License-Identifier: Apache-2.0
// Cutting a program into kernels: each product with what can run behind it, map kernels for everything else, and steps
// between them for what no kernel computes: writes at indices, branches, loops, code of the user. Values are stored
// where another kernel or a step reads them; what depends on no product is computed where it is used, unless it has to
// be stored.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.hpp"

namespace codetta::plan {

// A factor of a product: where it is read, and whether its last two dims are swapped on the way, or what else the
// product sees of it.
struct Factor {
  ir::NodeId source;  // a graph input, or a stored value
  bool transposed = false;
  package::FactorView view{};         // none: as it lies
  std::vector<types::Dim> offsets{};  // by dim of the source: where the view begins; none: at its first element
  bool operator==(const Factor&) const = default;
};

// Which part of a join: the first number counts its operands; where that is a join again, of which no memory is, the
// next one counts that one's, and so on. Empty: no part.
using PartPath = std::vector<uint32_t>;

// What a kernel stores: a node, or one of the parts that a stored join is put together from.
struct StoredValue {
  ir::NodeId node;               // computed
  ir::NodeId target;             // stored: the node itself, or the join
  PartPath part{};               // of the join
  std::optional<size_t> output;  // of the program; none: a temporary
  bool operator==(const StoredValue&) const = default;
};

// What a FusionNote says was done.
namespace action {
inline constexpr std::string_view cut_off = "cut off behind its kernel";
inline constexpr std::string_view in_front = "computed in front of the product";
inline constexpr std::string_view stored = "stored in front of its user";
inline constexpr std::string_view copied = "copied";
inline constexpr std::string_view apart = "a kernel of its own";  // not put where the value that it reads is made
inline constexpr std::string_view part_copied = "copied to its place in a join";
inline constexpr std::string_view products_apart = "products of one A apart";  // of the first of them
}  // namespace action
// An index that a kernel reads by: the value in memory that holds it, and the size of what it counts in.
struct IndexRead {
  ir::NodeId index;
  types::Dim size;
  bool operator==(const IndexRead&) const = default;
};

// A product that is computed beside another of the same A.
struct FurtherProduct {
  ir::NodeId matmul;
  Factor b;
  types::Dim cols;
};

// A factor that lies nowhere as a whole: computed block by block where its product reads it.
struct MadeFactor {
  ir::NodeId value;                // what Factor::source says
  std::vector<ir::NodeId> leaves;  // loaded, in graph order
  LoweredMap lowered;              // arguments: leaves, then the factor
  // Where reductions of its rows are among the leaves, for no other's sake: what computes these, and what would compute
  // them and the factor, by what it costs.
  std::optional<LoweredMap> reductions{}, whole{};
  // These, or what others need too, may still be tried by the product that stores what they reduce; or the product that
  // makes them for it.
  bool untried = false;
  std::optional<ir::NodeId> reduced_by{};
};

// A step that hands one of its results over to what follows it; region.stores are those of the latter.
struct HookedResult {
  ir::NodeId value;
  std::vector<ir::NodeId> leaves;   // of what follows; those of the region are the operands as well
  std::vector<StoredValue> others;  // further results that are used
};

// Reductions of rows that a product's kernel stores, made by it for a factor of a later product: the kernel without
// them with what it stores and loads, the map that they are otherwise, and what is left of that for others.
struct RowStatistics {
  Lowered plain;
  std::vector<StoredValue> stores;
  std::vector<ir::NodeId> leaves;
  LoweredMap map;
  std::optional<LoweredMap> rest{};
};

// A leaf that is stored as it is, but for its shape and then the order of its dims: more of them are symbolic than a
// kernel has axes. In its own shape it may lie anyhow, else it has no gaps.
struct CopiedView {
  std::vector<types::Dim> shape;
  std::vector<int32_t> order;
  bool in_place = false;  // the leaf lies anyhow, and what is stored is a temporary that is seen in the leaf's shape
};

struct KernelRegion {
  std::optional<ir::NodeId> matmul;  // none: a map, or a step
  std::vector<FurtherProduct> more;  // products of the same A, each with a B of its own, in the order of their parts
  std::optional<ir::NodeId> step;    // no kernel: leaves are its operands, stores those of its results that are used
  std::optional<HookedResult> hook;  // of the step
  Factor a, b;
  std::vector<MadeFactor> a_made;  // none, or A
  std::vector<MadeFactor> b_made;  // none, or the B of every product
  std::optional<RowStatistics> statistics;
  std::optional<CopiedView> copied_view;  // no kernel: of the only leaf
  std::vector<StoredValue> stores;
  std::vector<ir::NodeId> leaves;  // loaded, in graph order: inputs and stored values
  std::vector<IndexRead> indexed;  // to be looked at before the kernel runs; empty unless asked for
  Lowered lowered;                 // arguments: leaves, then stores
  types::Dim batch, rows, cols;    // of one product, or of a map's root space
  [[nodiscard]] bool computes(ir::NodeId product) const;
  // Whether the products have columns, and root spaces, of their own (EpilogueProgram::spaces).
  [[nodiscard]] bool has_spaces() const;
  [[nodiscard]] std::vector<ir::NodeId> products() const;  // matmul, then those of `more`
  [[nodiscard]] types::Dim all_cols() const;               // of all products
};

struct ProgramRegions {
  std::vector<KernelRegion> kernels;  // in execution order
  std::vector<FusionNote> notes;
  size_t tries = 0;  // how often a product, or the maps of a level, were tried
};

// What a size is expected to be.
using SizeOf = std::function<int64_t(const types::Dim&)>;

struct RegionOptions {
  // By graph input: it lies row-major without gaps; empty: not known of any. By output: it may lie otherwise; empty:
  // none.
  std::vector<bool> contiguous{}, gaps{};
  // By graph input and output: elements of its last dim may lie apart; empty: those of none do.
  std::vector<bool> apart_inputs{}, apart_outputs{};
  // What a product reads where one of these lies is copied where a launch may not take the strides of its leading dims.
  bool even_factors = false;
  // Products may take several dims of one of these for one, where launches check that they lie so.
  bool dims_as_one = false;
  // Products may read slices of what lies in memory that begin behind its first element, of last dims multiples of so
  // many bytes behind it; 0: they may not.
  int64_t offset_bytes = 1;
  bool turned_copies = true;   // a step may copy what has its dims in another order
  bool turned_puts = true;     // a write at indices of another dim than the first may be to an output's own memory
  bool check_indices = false;  // what kernels read by is in memory in front of them, so that it can be looked at
  // By output: what a kernel of the user's makes, or reads, lies in a temporary beside it; empty: of none.
  std::vector<bool> users_beside{};
  // On GPUs: of sizes that may be 0 a kernel makes what it stores also where they are (package::missing_when), as far
  // as values can be stored in front of others.
  bool whole_when_empty = false;
  // On GPUs: the same of sizes that a run computes, where it is too late for another plan; null: there are none.
  std::function<bool(const types::Dim&)> is_late{};
  bool together = false;  // products of one A are tried as one kernel
  // Why such products of different numbers of columns are not, whatever is behind them; null: they never are. Of the
  // region its products are known, with their factors and sizes.
  std::function<std::optional<Rejection>(const KernelRegion&)> spaces{};
  bool prologues = false;  // what is element-wise in front of B is tried where the product reads it
  // Then: in front of A, too, and by the product's own kernel, of whose program the factors are a part.
  bool inside = false;
  int64_t parameter_bytes = 0;  // of what a launch passes for a kernel's tensors, numbers and reductions; 0: any number
  // By user_kernel: which of its results it hands over, and whether that is stored in any case.
  struct Hook {
    size_t result = 0;
    bool kept = false;
  };
  std::map<ir::NodeId, Hook> hooks{};
  std::vector<uint32_t> devices{};  // by node: where it lies, of which a kernel has one; empty: all on one
  SizeOf size = [](const types::Dim& dim) { return dim.as_constant().value_or(512); };
  // Microseconds of a map, by the cost model. Where there is one, a map that chooses parts of a join by the element's
  // position is tried against those that store each part where it belongs.
  std::function<std::optional<double>(const LoweredMap&)> map_us{};
  // Whether it is to choose, by what that takes and what the others take.
  std::function<bool(ir::NodeId join, double chosen, double stored)> selects =
      [](ir::NodeId, double chosen, double stored) { return chosen < stored; };
  // Why a product's kernel does not store a part of a join where that has it; `copies`: microseconds of the maps that
  // would copy it. Null: it does wherever it can.
  std::function<std::optional<Rejection>(const KernelRegion& with, const KernelRegion& without, ir::NodeId part,
                                         double copies)>
      places{};
};

// Whether no kernel computes the operation: a step carries it out, or refers to one (result).
bool is_step(types::Op op);
// Whether the step is a kernel of the user's, or runs one in a branch or a loop; whether any of the graph's is or does.
bool runs_user_kernel(const ir::Graph& graph, ir::NodeId step);
bool runs_user_kernel(const ir::Graph& graph);

// `refuses`: why no kernel computes a product with this epilogue, if so; of several products, or why they are better
// computed one by one; of factors made inside, or why they are better made in front. Errors: E03xx where even a kernel
// for one operation alone cannot be made.
using Refusal = std::function<std::optional<Rejection>(const KernelRegion&)>;
Result<ProgramRegions> find_regions(const ir::Graph& graph, const Refusal& refuses, const RegionOptions& options = {});

}  // namespace codetta::plan

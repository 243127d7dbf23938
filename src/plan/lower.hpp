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
  // Those numbers, where values stand against limits.
  struct Limit {
    std::string name;
    int64_t given = 0, limit = 0;
  };
  std::vector<Limit> limits{};
  Rejection limited(std::string what, int64_t given, int64_t limit) && {
    limits.push_back({std::move(what), given, limit});
    return std::move(*this);
  }
};

// Facts about how the arguments lie in memory that the program may specialize on.
struct ArgumentLayout {
  bool unit_stride = true;  // last dim has stride 1 or size <= 1
  // Row-major without gaps, so that any reshape of it is index arithmetic.
  bool contiguous = false;
  // By dim; of a size of 1 they are 0. Nothing: it is not known where the tensor lies.
  std::vector<int64_t> strides{};
  bool column_major = false;  // no unit_stride, and the dim before the last has stride 1
};

// What of a graph becomes one kernel: the nodes between `leaves`, which it loads, and `outputs`, which it stores.
struct LoweringScope {
  struct Leaf {
    ir::NodeId node;
    std::string name;
    bool is_scalar = false;
    ArgumentLayout layout{};
  };
  struct Output {
    ir::NodeId node;
    std::string name;
    DType dtype = DType::f32;  // one rounding there
    // Where it is a part of what is stored (a join): the whole shape, and where the part lies in it.
    struct Along {
      size_t dim = 0;
      types::Dim start{};  // index i of the part is start + i * step
      int64_t step = 1;
    };
    std::vector<types::Dim> whole{};
    std::vector<Along> along{};  // by dim, each once; of others the part has what the whole has
    ArgumentLayout layout{};
  };
  std::vector<Leaf> leaves;
  std::vector<Output> outputs;
  // Products that are computed beside the region's own: of the same A, and of the same type.
  std::vector<ir::NodeId> more_products{};
  // How columns are split where nothing behind the product splits them: in `ways` parts by chunks; 1: they are not.
  int32_t ways = 1;
  int64_t chunk = 0;
  // sum(exp(x - max(x))) of rows of one value becomes a reduction of x beside its largest
  // (package::ReduceKind::SumExp), with no phase between them.
  bool sums_exponents = false;
  // By node: joins whose parts, of whatever sizes, a map chooses by the element's position; null: none.
  const std::vector<bool>* selected = nullptr;
  // Where lowerings of one graph keep what they know of all of its nodes (Lowering::loses_index); null: each for
  // itself.
  std::vector<bool>* loses_index = nullptr;
  // The same of compared_with_itself() (compared.hpp).
  std::vector<bool>* compared = nullptr;
};

struct Lowered {
  package::EpilogueProgram program;
  std::vector<uint32_t> argument_input;  // program argument -> graph input (or leaf) or (inputs + output index)
};
// A map kernel: the root space is its own.
struct LoweredMap : Lowered {
  types::Dim batch, rows, cols;
};

// The matmul's region must hold every node between it and the outputs. Errors are Rejections turned into E03xx
// diagnostics: accumulator needed at two positions at once, a split along rows, more than max_terms index terms, ...
Result<Lowered> lower_epilogue(const ir::Graph& graph, ir::NodeId matmul, const std::vector<ArgumentLayout>& layouts);
// The same for a part of a program. Where it fails and `failed` is given, it says which node is to blame.
Result<Lowered> lower_region(const ir::Graph& graph, ir::NodeId matmul, const LoweringScope& scope,
                             ir::NodeId* failed = nullptr);
// Products of one A whose numbers of columns differ, each with what follows it alone: one program, in which each has a
// root space (package::EpilogueProgram::spaces). `products` are those of the scope, whose more_products are not looked
// at. Errors: as above; E0308 where a value needs two of them, where something is reduced, and where columns are split
// in several ways.
Result<Lowered> lower_products(const ir::Graph& graph, const std::vector<ir::NodeId>& products,
                               const LoweringScope& scope, ir::NodeId* failed = nullptr);
// Work without a product. The root space is that of the largest reduction's operand, else of the largest output; dims
// fold to [batch, rows, cols] such that reductions are over rows, columns, items or everything.
Result<LoweredMap> lower_map(const ir::Graph& graph, const LoweringScope& scope, ir::NodeId* failed = nullptr);

}  // namespace codetta::plan

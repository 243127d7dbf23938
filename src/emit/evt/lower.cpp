// SPDX-License-Identifier: Apache-2.0
// From a typed graph to the nodes of a visitor tree.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/code_writer.hpp"
#include "emit/evt/functions.hpp"
#include "emit/evt/nodes.hpp"
#include "emit/evt/views.hpp"
#include "emit/host/text.hpp"
#include "ir/analyses.hpp"
#include "ir/print.hpp"
#include "ir/report.hpp"
#include "types/dtype.hpp"

namespace codetta::emit::evt {
namespace {

using ir::NodeId;
using types::Op;

class Lowering {
 public:
  explicit Lowering(const Problem& problem) : problem_(problem), graph_(*problem.graph), made_(graph_.size()) {}

  Result<Dag> run() {
    matmul_ = ir::matmuls(graph_)[0];
    reaches_ = ir::reachable_from(graph_, matmul_);
    // What binds booleans: every number of such an epilogue computes in this type.
    carrier_ = types::is_float(problem_.accumulator) ? problem_.accumulator : DType::i32;
    CODETTA_CHECK_OK(choose_destination());
    choose_source();
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      if (i != destination_) CODETTA_CHECK_OK(store_output(i));
    }
    CODETTA_CHECK_OK(finish_root());
    return std::move(dag_);
  }

 private:
  [[nodiscard]] diag::ErrorBuilder at(diag::Code code, std::string headline, NodeId node,
                                      std::string label = {}) const {
    auto error = diag::error(code, std::move(headline));
    if (graph_.span(node).known()) error.at(graph_.source(), graph_.span(node), std::move(label));
    return error;
  }
  [[nodiscard]] const Operand& operand(size_t i) const { return problem_.operands[i]; }
  [[nodiscard]] std::optional<size_t> operand_of(const std::string& name, bool is_output) const {
    for (size_t i = 0; i < problem_.operands.size(); ++i) {
      if (problem_.operands[i].name == name && problem_.operands[i].is_output == is_output) return i;
    }
    return std::nullopt;
  }
  [[nodiscard]] Views views() const { return Views(problem_); }

  uint32_t push(Node node) {
    dag_.nodes.push_back(std::move(node));
    return static_cast<uint32_t>(dag_.nodes.size() - 1);
  }
  uint32_t compute(std::string function, DType works_in, DType result, std::vector<uint32_t> inputs, NodeId origin) {
    Node node;
    node.kind = Kind::Compute;
    node.function = std::move(function);
    node.compute = works_in;
    node.type = result;
    node.inputs = std::move(inputs);
    node.origin = origin;
    node.comment = comment_of(origin);
    return push(std::move(node));
  }
  [[nodiscard]] std::string comment_of(NodeId id) const {
    const std::string& name = ir::source_name(graph_, id);
    std::string text =
        fmt::format("%{} = {}", id.index(), ir::node_text(graph_.node(id).op, graph_.operands(id), graph_.attr(id)));
    if (!name.empty()) text = name + ": " + text;
    return host::comment_text(text);
  }

  // Outputs

  [[nodiscard]] bool is_full(NodeId id) const {
    const auto& shape = graph_.type(id).shape;
    return reaches_[id.index()] && !types::op_info(graph_.node(id).op).is_reduction() &&
           shape.size() == graph_.type(matmul_).shape.size() && shape == graph_.type(matmul_).shape;
  }
  Result<std::array<Dim, 3>> output_strides(size_t output) const {
    const ir::GraphOutput& result = graph_.outputs()[output];
    const auto index = operand_of(result.name, true);
    if (!index) {
      return at(diag::Code::argument_missing, "Example input for " + result.name + " is not provided.", result.node)
          .reason("every returned name needs the shape, the strides and the element type that it is stored with")
          .help("add an example tensor named " + result.name);
    }
    return views().stored(*index, result.node);
  }
  // D is the output of that name; without one the first that a collective can store.
  Result<void> choose_destination() {
    std::optional<Error> why;
    for (const bool named : {true, false}) {
      for (size_t i = 0; i < graph_.outputs().size() && !destination_; ++i) {
        const ir::GraphOutput& output = graph_.outputs()[i];
        if ((output.name == "D") != named || !is_full(output.node)) continue;
        if (problem_.arch == Arch::Sm100 && types::bits(output.dtype) > 32) {
          why =
              Error(at(diag::Code::target_lacks,
                       fmt::format("Sm100's collective does not store {} as D", dtype_name(output.dtype)), output.node)
                        .reason("its builder knows elements of 4 to 32 bits beside accumulators of 32")
                        .help("store a narrower type, return another D beside it, or use a cuda target"));
          continue;
        }
        auto strides = output_strides(i);
        if (!strides) {
          why = std::move(strides).error();
          continue;
        }
        const size_t index = *operand_of(output.name, true);
        if (auto ok = views().collective(index, *strides, output.node); !ok && problem_.arch != Arch::Sm80) {
          why = std::move(ok).error();
          continue;
        }
        destination_ = i;
        dag_.destination = index;
        dag_.destination_strides = *strides;
      }
    }
    if (destination_ || problem_.arch == Arch::Sm80) return {};
    if (why) return *why;
    const ir::GraphOutput& first = graph_.outputs()[0];
    return at(diag::Code::target_lacks,
              "On SM90 or higher, D is expected to be a output node with 0 users to enable smem reuse between C and D, "
              "but got []",
              first.node, first.name + " is not as large as the accumulator")
        .reason(
            "CUTLASS's collective epilogue stores one tensor of the accumulator's shape at the end; no output has it")
        .help("return such a tensor too (D = accum), or use Codetta's own kernel: --target cuda:" +
              std::string(problem_.arch == Arch::Sm90 ? "sm_90a" : "sm_100a"));
  }
  void choose_source() {
    if (problem_.arch == Arch::Sm80) return;
    // What is loaded as it lies: not those that only permutes and reshapes look at.
    std::vector<bool> computed_with(graph_.size());
    for (uint32_t id = 0; id < graph_.size(); ++id) {
      if (types::op_info(graph_.nodes()[id].op).rule == types::OpRule::layout) continue;
      for (const NodeId from : graph_.operands(NodeId(id))) computed_with[from.index()] = true;
    }
    int best = 0;
    for (uint32_t i = 0; i < graph_.inputs().size(); ++i) {
      const ir::GraphInput& input = graph_.inputs()[i];
      if (i < 2 || input.is_scalar || !computed_with[input.node.index()]) continue;
      const auto index = operand_of(input.name, false);
      if (!index) continue;
      const auto strides = views().loaded(View::of(problem_, *index), input.node);
      if (!strides || !views().collective(*index, *strides, input.node)) continue;
      const int bits = types::bits(operand(*index).dtype);
      const bool reused = bits > 8 && bits == types::bits(graph_.outputs()[*destination_].dtype);
      const int worth = input.name == "C" ? 3 : reused ? 2 : 1;
      if (worth <= best) continue;
      best = worth;
      dag_.source = index;
      dag_.source_strides = *strides;
    }
  }
  // To an integer: rounded to nearest and saturated, or wrapped; everything else is the converter's of the store.
  Result<uint32_t> as_stored(uint32_t value, DType type, DType to, NodeId origin) {
    const DType from = type;
    if (to == DType::boolean) return compute("nonzero", carried(from), carried(from), {value}, origin);
    if (types::is_integer(to)) {
      if (types::is_float(from))
        return compute("quantize_" + std::string(dtype_name(to)), carried(from), to, {value}, origin);
      if (!types::is_bool(from) && !holds(to, from))
        return compute("wrap_" + std::string(dtype_name(to)), from, to, {value}, origin);
      return value;
    }
    if (types::is_bool(from) || holds(to, from)) return value;
    if (types::is_float(from) && (types::bits(from) == 32 || to == DType::f32)) return value;
    if (to == DType::f32) return value;
    if (types::bits(from) > 32 && !types::is_float(from))
      return unsupported(origin, fmt::format("storing {} as {}", dtype_name(from), dtype_name(to)));
    return compute("round_" + std::string(dtype_name(to)), DType::f64, DType::f64, {value}, origin);
  }
  Result<void> store_output(size_t index) {
    const ir::GraphOutput& output = graph_.outputs()[index];
    if (types::op_info(graph_.node(output.node).op).is_reduction()) return reduce_output(index);
    if (!reaches_[output.node.index()]) {
      return at(diag::Code::target_lacks, "output " + output.name + " does not depend on the accumulator", output.node)
          .reason("what a visitor stores, it makes of the accumulators that it visits")
          .help("compute it outside of the epilogue, or use Codetta's own kernels: --target cuda");
    }
    if (!is_full(output.node)) {
      return at(diag::Code::target_lacks, "output " + output.name + " is not as large as the accumulator", output.node)
          .reason(fmt::format("its shape is {}, the accumulator's {}: CUTLASS stores whole tensors and reductions",
                              to_string(graph_.type(output.node).shape), to_string(problem_.shape)))
          .help("compute it outside of the epilogue, or return something of the accumulator's shape");
    }
    CODETTA_TRY(const auto strides, output_strides(index));
    CODETTA_TRY(const uint32_t value, use(output.node));
    CODETTA_TRY(const uint32_t stored, as_stored(value, type_of(output.node), output.dtype, output.node));
    Node node;
    node.kind = Kind::Store;
    node.inputs = {stored};
    node.type = dag_.nodes[stored].type;
    node.operand = *operand_of(output.name, true);
    node.strides = strides;
    node.comment = host::comment_text("store of " + output.name);
    node.origin = output.node;
    const uint32_t id = push(std::move(node));
    stored_at(output.node, value, stored, id);
    return {};
  }
  // Later users of the value take it from the store, which passes it on.
  void stored_at(NodeId value, uint32_t before, uint32_t input, uint32_t store) {
    if (before == input && !is_free(dag_.nodes[before].kind)) made_[value.index()] = store;
    stores_.push_back(store);
  }

  Result<void> reduce_output(size_t index) {
    const ir::GraphOutput& output = graph_.outputs()[index];
    const Op op = graph_.node(output.node).op;
    const NodeId from = graph_.operands(output.node)[0];
    CODETTA_TRY(const Reduction reduction, reduction_of(output, from));
    CODETTA_TRY(uint32_t value, use(from));
    const uint32_t before = value;
    const DType type = graph_.type(output.node).dtype;
    if (op == Op::reduce_amax)
      value = compute(types::is_float(type) ? "abs" : "abs_int", type, type, {value}, output.node);
    if (op == Op::reduce_sum_of_squares)
      value = compute(function_for(Op::mul, type), type, type, {value, value}, output.node);
    Node node;
    node.kind = reduction.kind;
    node.inputs = {value};
    node.type = dag_.nodes[value].type;
    node.compute = type;
    node.reduce = op == Op::reduce_max || op == Op::reduce_amax ? ReduceFunction::Max
                  : op == Op::reduce_min                        ? ReduceFunction::Min
                                                                : ReduceFunction::Sum;
    node.operand = reduction.operand;
    node.strides = reduction.strides;
    node.immediate = op == Op::reduce_amax || op == Op::reduce_sum || op == Op::reduce_sum_of_squares
                         ? zero_text(type)
                         : limit_text(type, op == Op::reduce_min);
    node.comment = comment_of(output.node);
    node.origin = output.node;
    const uint32_t id = push(std::move(node));
    stored_at(from, before, value, id);
    return {};
  }
  // What the architecture's atomic reductions can be computed in.
  [[nodiscard]] bool has_atomics(DType type) const {
    return types::bits(type) == 32 || (types::bits(type) == 64 && problem_.arch == Arch::Sm80);
  }
  struct Reduction {
    Kind kind = Kind::RowReduce;
    size_t operand = 0;
    std::array<Dim, 3> strides{};
  };
  Result<Reduction> reduction_of(const ir::GraphOutput& output, NodeId from) const {
    const Op op = graph_.node(output.node).op;
    if (op == Op::reduce_mean || op == Op::reduce_logsumexp) {
      return at(diag::Code::family_reductions, fmt::format("CUTLASS cannot reduce by {}", types::op_info(op).spelling),
                output.node)
          .reason("its reduction nodes have a sum, a largest and a smallest value, stored as they are")
          .help(op == Op::reduce_mean ? "return the sum, and divide it by the number of elements afterwards"
                                      : "return max(x), and in a second pass the sum of exp(x - max)");
    }
    if (!is_full(from)) {
      return at(diag::Code::family_reductions, "CUTLASS reduces values of the accumulator's shape only", output.node)
          .reason(fmt::format("this one is {}, the accumulator {}", to_string(graph_.type(from).shape),
                              to_string(problem_.shape)))
          .help("add the accumulator before reducing, or reduce the operand outside of the epilogue");
    }
    const size_t rank = problem_.shape.size();
    const auto& dims = graph_.attr_as<ir::ReduceAttr>(output.node).dims;
    const auto has = [&](size_t dim) {
      return std::find(dims.begin(), dims.end(), static_cast<int32_t>(dim)) != dims.end();
    };
    const bool over_n = has(rank - 1), over_m = has(rank - 2), over_batch = rank == 3 && has(0);
    Reduction result;
    result.kind = over_n && over_m ? Kind::ScalarReduce : over_n ? Kind::ColumnReduce : Kind::RowReduce;
    if ((!over_n && !over_m) || (over_batch && !(over_n && over_m))) {
      return at(diag::Code::family_reductions, "CUTLASS reduces rows, columns, items or everything", output.node)
          .reason("its visitors hold one result per row, per column or per item of the batch")
          .help("reduce the rows or columns here, and the rest outside of the epilogue");
    }
    const auto index = operand_of(output.name, true);
    if (!index) {
      return at(diag::Code::argument_missing, "Example input for " + output.name + " is not provided.", output.node)
          .reason("every returned name needs the shape, the strides and the element type that it is stored with")
          .help("add an example tensor named " + output.name);
    }
    result.operand = *index;
    const bool atomic = problem_.arch == Arch::Sm80 || result.kind == Kind::ScalarReduce;
    if (atomic && problem_.deterministic) {
      return at(diag::Code::family_reductions,
                fmt::format("the reduction {} is only there with atomic operations, whose order is not fixed",
                            output.name),
                output.node)
          .reason(problem_.arch == Arch::Sm80 ? "the visitors of Sm80 add to memory as blocks finish"
                                              : "Sm90ScalarReduction has no final reduction of its own")
          .help(problem_.arch == Arch::Sm80
                    ? "allow it with deterministic=false (--nondeterministic), or use a target with Sm90 visitors"
                    : "allow it with deterministic=false (--nondeterministic), or reduce over rows or columns only");
    }
    const DType type = graph_.type(output.node).dtype;
    if (atomic && !has_atomics(type)) {
      const bool narrow = types::bits(type) < 32;
      return at(diag::Code::family_reductions,
                fmt::format("the reduction {} has no atomic operations of {}", output.name, dtype_name(type)),
                output.node)
          .reason(narrow ? "devices have them of 32 and 64 bits"
                         : "what fills memory for Sm90ScalarReduction has no values of 64 bits")
          .help(narrow ? "cast what is reduced to i32" : "cast what is reduced to i32 or f32, or use a cuda target");
    }
    if (output.dtype != type && (atomic || !types::is_float(type) || !types::is_float(output.dtype))) {
      return at(diag::Code::family_reductions,
                fmt::format("the reduction {} cannot be stored as {}", output.name, dtype_name(output.dtype)),
                output.node)
          .reason(fmt::format(
              "it computes in {}, and {}", dtype_name(type),
              atomic ? "atomic operations store that type" : "the converter would not round as Codetta does"))
          .help(fmt::format("bind {} to a tensor of {}", output.name, dtype_name(type)));
    }
    CODETTA_TRY(result.strides, views().reduced(*index, result.kind, output.node));
    if (rank == 3 && !over_batch && result.strides[2].as_constant() == 0 && problem_.shape[0].as_constant() != 1) {
      return at(diag::Code::family_layout, fmt::format("output {} lacks the batch dimension", output.name), output.node)
          .reason(
              fmt::format("every one of the {} products would write the same elements", problem_.shape[0].to_string()))
          .help("bind a tensor with a batch dimension, or reduce over the batch, too");
    }
    return result;
  }

  Result<void> finish_root() {
    if (!destination_) {
      dag_.root = stores_.back();
      std::vector<uint32_t> sinks;
      for (const uint32_t store : stores_) {
        if (!needed(store)) sinks.push_back(store);
      }
      dag_.sinks = std::move(sinks);
      return {};
    }
    const ir::GraphOutput& output = graph_.outputs()[*destination_];
    CODETTA_TRY(const uint32_t value, use(output.node));
    CODETTA_TRY(uint32_t root, as_stored(value, type_of(output.node), output.dtype, output.node));
    const DType stored = output.dtype == DType::boolean ? DType::u8 : output.dtype;
    if (problem_.arch == Arch::Sm80) {
      Node node;
      node.kind = Kind::Store;
      node.inputs = {root};
      node.type = dag_.nodes[root].type;
      node.operand = *dag_.destination;
      node.strides = dag_.destination_strides;
      node.comment = host::comment_text("store of " + output.name);
      node.origin = output.node;
      dag_.root = push(std::move(node));
    } else {
      // The collective stores fragments as they are, so the last node gives D's type; where others use the value, or
      // nothing computes it, that is one more node.
      std::vector<uint32_t> users(dag_.nodes.size());
      for (const Node& node : dag_.nodes) {
        for (const uint32_t input : node.inputs) ++users[input];
      }
      const Node& last = dag_.nodes[root];
      if (last.kind != Kind::Compute || users[root] > 0)
        root = compute("identity", last.type == DType::boolean ? DType::u8 : types::compute_dtype(last.type), stored,
                       {root}, output.node);
      dag_.nodes[root].type = stored;
      dag_.root = root;
    }
    for (const uint32_t store : stores_) {
      if (!needed(store)) dag_.sinks.push_back(store);
    }
    return {};
  }
  // Does the root depend on it?
  [[nodiscard]] bool needed(uint32_t id) const {
    std::vector<bool> needed(dag_.nodes.size());
    needed[dag_.root] = true;
    for (uint32_t node = static_cast<uint32_t>(dag_.nodes.size()); node-- > 0;) {
      if (!needed[node]) continue;
      for (const uint32_t input : dag_.nodes[node].inputs) needed[input] = true;
    }
    return needed[id];
  }

  // Values

  // The type that the value has in the graph, where booleans are what carries them.
  [[nodiscard]] DType type_of(NodeId id) const { return graph_.type(id).dtype; }
  [[nodiscard]] DType carried(DType type) const { return types::is_bool(type) ? carrier_ : types::compute_dtype(type); }
  // Every value of `from` is one of `to`.
  static bool holds(DType to, DType from) {
    if (to == from || types::is_bool(from)) return true;
    if (types::is_float(to)) {
      if (types::is_float(from)) {
        return types::mantissa_bits(to) >= types::mantissa_bits(from) &&
               types::exponent_bits(to) >= types::exponent_bits(from);
      }
      return types::bits(from) <= types::mantissa_bits(to) + 1;
    }
    if (types::is_float(from)) return false;
    if (types::is_unsigned(to)) return types::is_unsigned(from) && types::bits(to) >= types::bits(from);
    return types::bits(to) > types::bits(from) || (types::bits(to) == types::bits(from) && !types::is_unsigned(from));
  }
  Error unsupported(NodeId id, const std::string& what, const std::string& help = {}) const {
    return at(diag::Code::target_lacks, "CUTLASS's visitors have no form of " + what, id)
        .reason("a visitor sees values, neither their place nor those of other rows and columns")
        .help(help.empty() ? "use Codetta's own kernel for this epilogue: a cuda target, such as cuda:sm_90a" : help);
  }

  Result<uint32_t> use(NodeId id) {
    if (made_[id.index()]) return *made_[id.index()];
    CODETTA_TRY(const uint32_t made, make(id));
    if (!is_free(dag_.nodes[made].kind)) made_[id.index()] = made;
    return made;
  }
  // Operands first, iteratively: graphs may be deep.
  Result<uint32_t> make(NodeId top) {
    for (const NodeId id : ir::topological_order(graph_, std::span(&top, 1))) {
      if (made_[id.index()] || id == top || !wanted(id)) continue;
      CODETTA_TRY(const uint32_t made, make_one(id));
      if (!is_free(dag_.nodes[made].kind)) made_[id.index()] = made;
    }
    return make_one(top);
  }
  // Everything but what only its users look at: views of tensors, and what is made anew for each use.
  [[nodiscard]] bool wanted(NodeId id) const {
    const Op op = graph_.node(id).op;
    const types::OpInfo& info = types::op_info(op);
    return op != Op::input && op != Op::literal && op != Op::matmul && info.rule != types::OpRule::layout;
  }

  Result<uint32_t> make_one(NodeId id) {
    const ir::Node& node = graph_.node(id);
    const types::OpInfo& info = types::op_info(node.op);
    if (node.op == Op::matmul) {
      Node accumulator;
      accumulator.type = problem_.accumulator;
      accumulator.origin = id;
      accumulator.comment = "accum";
      return push(std::move(accumulator));
    }
    if (node.op == Op::literal) return literal(id);
    if (node.op == Op::input || info.rule == types::OpRule::layout) return load(id);
    if (info.is_reduction()) {
      return at(diag::Code::family_reductions, "a reduction is used as a value", id)
          .reason("a visitor stores a reduction when the kernel ends, so nothing in the same epilogue can use it")
          .help("return the reduction and use it in a second pass, or use a cuda target, whose kernels hold rows");
    }
    if (!info.elementwise() || node.op == Op::dropout || info.rule == types::OpRule::index)
      return unsupported(id, "the position of an element: " + std::string(info.spelling),
                         node.op == Op::dropout ? "make the mask outside and multiply by it, or use a cuda target"
                                                : "bind a tensor with these positions, or use a cuda target");
    if (node.op == Op::cast) return cast(id);
    return elementwise(id);
  }

  Result<uint32_t> literal(NodeId id) {
    const auto& value = graph_.attr_as<ir::LiteralAttr>(id);
    const DType type = graph_.type(id).dtype;
    Node node;
    node.kind = Kind::Immediate;
    node.type = carried(type);
    node.origin = id;
    node.comment = comment_of(id);
    const bool is_float = value.kind == ir::LiteralAttr::Kind::Float;
    const double real = is_float ? value.f : static_cast<double>(value.i);
    node.immediate = node.type == DType::f32
                         ? base::float_literal(is_float ? static_cast<float>(value.f) : static_cast<float>(value.i))
                     : node.type == DType::f64 ? base::double_literal(real)
                                               : integer_text(is_float ? static_cast<int64_t>(value.f) : value.i);
    return push(std::move(node));
  }
  static std::string integer_text(int64_t value) {
    return value == INT64_MIN ? "(-9223372036854775807 - 1)" : std::to_string(value);
  }

  Result<uint32_t> load(NodeId id) {
    if (reaches_[id.index()]) {
      const auto op = graph_.node(id).op;
      return at(diag::Code::target_lacks,
                fmt::format("{} of a computed value cannot be part of a visitor tree", types::op_info(op).name), id)
          .reason("every thread keeps its place from the accumulator to the store")
          .help(
              "move the layout change to the operands or behind the kernel, or use a cuda target, whose kernels store "
              "elsewhere");
    }
    CODETTA_TRY(const View view, views().of(id));
    const Operand& from = operand(view.operand);
    Node node;
    node.origin = id;
    node.operand = view.operand;
    node.comment = host::comment_text(from.name);
    if (from.is_scalar) {
      node.kind = Kind::Number;
      node.type = carried(from.dtype);
      return push(std::move(node));
    }
    CODETTA_TRY(node.strides, views().loaded(view, id));
    const bool rows = !is_zero(node.strides[0]), columns = !is_zero(node.strides[1]);
    node.kind = rows && columns ? Kind::AuxLoad : columns ? Kind::Row : rows ? Kind::Column : Kind::Scalar;
    node.type = from.dtype == DType::boolean                          ? DType::u8
                : node.kind == Kind::Row || node.kind == Kind::Column ? types::compute_dtype(from.dtype)
                                                                      : from.dtype;
    if (dag_.source == view.operand && node.kind == Kind::AuxLoad && node.strides == dag_.source_strides)
      node.kind = Kind::Source;
    return push(std::move(node));
  }
  static bool is_zero(const Dim& dim) { return dim.as_constant() == 0; }

  Result<uint32_t> elementwise(NodeId id) {
    const ir::Node& node = graph_.node(id);
    const types::OpInfo& info = types::op_info(node.op);
    DType works_in = info.rule == types::OpRule::compare ? ir::operand_dtype(graph_, id) : graph_.type(id).dtype;
    works_in = carried(works_in);
    std::vector<uint32_t> inputs;
    for (const NodeId operand : graph_.operands(id)) {
      CODETTA_TRY(const uint32_t input, use(operand));
      inputs.push_back(input);
    }
    if (node.op == Op::floor || node.op == Op::ceil || node.op == Op::round || node.op == Op::trunc) {
      if (!types::is_float(works_in)) return compute("identity", works_in, works_in, std::move(inputs), id);
    }
    return compute(function_for(node.op, works_in), works_in, works_in, std::move(inputs), id);
  }

  Result<uint32_t> cast(NodeId id) {
    const NodeId from_node = graph_.operands(id)[0];
    const DType to = graph_.attr_as<ir::CastAttr>(id).dtype, from = type_of(from_node);
    CODETTA_TRY(const uint32_t value, use(from_node));
    const DType carries = carried(from);
    const std::string name(dtype_name(to));
    if (to == DType::boolean) return compute("nonzero", carries, carrier_, {value}, id);
    if (types::is_integer(to)) {
      if (types::is_bool(from)) return compute("identity", carries, to, {value}, id);
      if (types::is_float(from)) return compute("truncate_" + name, carries, to, {value}, id);
      return compute(holds(to, from) ? "identity" : "wrap_" + name, holds(to, from) ? to : from, to, {value}, id);
    }
    if (to == DType::f64) return compute("identity", DType::f64, DType::f64, {value}, id);
    if (to == DType::f32)
      return compute("identity",
                     types::is_bool(from) ? carries
                     : from == DType::f64 ? DType::f64
                                          : DType::f32,
                     DType::f32, {value}, id);
    if (types::is_bool(from)) return compute("identity", carries, DType::f32, {value}, id);
    if (types::bits(from) > 32 && !types::is_float(from))
      return unsupported(id, fmt::format("a cast of {} to {}", dtype_name(from), name));
    const DType works_in = carries == DType::f32 ? DType::f32 : DType::f64;
    return compute("round_" + name, works_in, DType::f32, {value}, id);
  }

  const Problem& problem_;
  const ir::Graph& graph_;
  NodeId matmul_{};
  std::vector<bool> reaches_;
  DType carrier_ = DType::f32;
  std::optional<size_t> destination_;  // output
  Dag dag_;
  std::vector<std::optional<uint32_t>> made_;
  std::vector<uint32_t> stores_;
};

}  // namespace

Result<Dag> lower(const Problem& problem) { return Lowering(problem).run(); }

}  // namespace codetta::emit::evt

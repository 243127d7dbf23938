// SPDX-License-Identifier: Apache-2.0
// A visitor tree as text: one alias a node, and the arguments in the nesting of its Arguments structs.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/code_writer.hpp"
#include "emit/evt/functions.hpp"
#include "emit/evt/nodes.hpp"
#include "emit/evt/views.hpp"
#include "ir/analyses.hpp"
#include "types/dtype.hpp"

namespace codetta::emit::evt {
namespace {

// 0 and 1 are part of the type, but where rows and columns both are 1 apart, as those of one column are: other sizes
// have other rows.
bool is_fixed(const std::array<Dim, 3>& strides, size_t axis) {
  if (is(strides[axis], 0)) return true;
  return is(strides[axis], 1) && (axis == 1 || (axis == 0 && !is(strides[1], 1)));
}

// Visitors within one another: nvcc 13.0 instantiates one template 64 times within itself (CUTLASS's transform_apply
// for each visitor: 63 do not compile), g++ ends at 900 templates. Beyond `most_walked` nodes no tree is looked for,
// which takes time and stack.
constexpr int most_nested = 48, most_walked = 2000;

Error too_nested(const Problem& problem, const Dag& dag, const std::string& how_deep) {
  auto error =
      diag::error(diag::Code::target_lacks, "CUTLASS's visitors would lie " + how_deep + " deep in one another");
  const ir::Graph& graph = *problem.graph;
  if (const ir::NodeId origin = dag.nodes[dag.root].origin; graph.span(origin).known())
    error.at(graph.source(), graph.span(origin));
  return error
      .reason(fmt::format(
          "nvcc instantiates a template 64 times within itself, which CUTLASS has it do for each: {} visitors are "
          "emitted at most",
          most_nested))
      .help("compute a part of it outside of the epilogue, or use a cuda target, whose kernels are plain code");
}

// "cute::Stride<int64_t, cute::Int<1>, cute::Int<0>>"
std::string stride_type(const std::array<Dim, 3>& strides, const char* dynamic = "int64_t") {
  std::string text = "cute::Stride<";
  for (size_t axis = 0; axis < 3; ++axis) {
    if (axis > 0) text += ", ";
    text += !is_fixed(strides, axis) ? dynamic : is(strides[axis], 0) ? "cute::Int<0>" : "cute::Int<1>";
  }
  return text + ">";
}

class Printer {
 public:
  Printer(const Problem& problem, const Spelling& spelling, const Dag& dag)
      : problem_(problem), spelling_(spelling), dag_(dag) {}

  Result<Tree> run(const Part& part) {
    measure();
    const std::string last = declare(part);
    if (problem_.emit_cd) print_cd();
    print_descriptor();
    out_.raw(aliases_.str());
    out_.line("using ", problem_.name, " = ", last, ";");
    tree_.types = out_.str();
    tree_.functors = functor_text(functions_);
    add_arguments(part, 0);
    if (failed_) return *failed_;
    CODETTA_CHECK_OK(check_shared_memory());
    return std::move(tree_);
  }

 private:
  [[nodiscard]] const Operand& operand(size_t i) const { return problem_.operands[i]; }
  [[nodiscard]] bool is_sm80() const { return problem_.arch == Arch::Sm80; }
  [[nodiscard]] std::string space() const {
    return is_sm80() ? "cutlass::epilogue::threadblock::" : "cutlass::epilogue::fusion::";
  }
  static std::string rounding() { return "cutlass::FloatRoundStyle::round_to_nearest"; }

  // Facts of the whole

  void measure() {
    tree_.source = dag_.source;
    tree_.destination = dag_.destination;
    for (const Operand& tensor : problem_.operands)
      tree_.alignments.push_back(static_cast<int>(types::byte_size(tensor.dtype)));
    tree_.whole_along.resize(problem_.operands.size(), -1);
    if (!is_sm80() && tree_.source) in_vectors(*tree_.source, dag_.source_strides, 16);
    if (!is_sm80() && tree_.destination) in_vectors(*tree_.destination, dag_.destination_strides, 16);
    const DType d = tree_.destination ? operand(*tree_.destination).dtype : problem_.accumulator;
    tree_.element_d = tree_.destination ? cpp_type(d) : cpp_type(problem_.accumulator);
    tree_.stride_d = tree_.destination ? stride_type(dag_.destination_strides) : "";
    std::optional<DType> c;
    if (tree_.source) {
      c = operand(*tree_.source).dtype;
      tree_.element_c = cpp_type(*c);
      tree_.stride_c = stride_type(dag_.source_strides);
    } else {
      tree_.element_c = "void";
      tree_.stride_c = tree_.stride_d;
    }
    tree_.shape =
        shape_of(problem_, c, d, c && !is_row_major(dag_.source_strides), !is_row_major(dag_.destination_strides));
    if (tree_.source) tree_.source_stride = collective_stride(*tree_.source, dag_.source_strides);
    if (tree_.destination) tree_.destination_stride = collective_stride(*tree_.destination, dag_.destination_strides);
    const int64_t step = int64_t{tree_.shape.tile_m} * tree_.shape.tile_n;
    if (!is_sm80()) {
      // Memory that both use holds the wider of the two in each of its stages.
      const int64_t c_size = !c                     ? 0
                             : tree_.shape.reuses_c ? std::max(types::byte_size(*c), types::byte_size(d))
                                                    : types::byte_size(*c);
      const int64_t c_bytes = step * c_size * tree_.shape.stages_c;
      const int64_t d_bytes = step * types::byte_size(d) * tree_.shape.stages_d;
      if (c_bytes > 0) used_.emplace_back("C " + operand(*tree_.source).name, c_bytes);
      if (!tree_.shape.reuses_c || c_bytes == 0) used_.emplace_back("D " + operand(*tree_.destination).name, d_bytes);
    } else {
      set_access();
    }
  }
  // It is read or written so many bytes at a time, none of which is left over at the end of a row.
  void in_vectors(size_t operand, const std::array<Dim, 3>& strides, int bytes) {
    tree_.alignments[operand] = std::max(tree_.alignments[operand], bytes);
    tree_.whole_along[operand] = is_row_major(strides) ? 1 : 0;
  }
  // Sm80: one width, in elements, for all that threads read and write along rows. Of values by column, which are read
  // in vectors as well, wide ones may take several.
  void set_access() {
    DType stored = tree_.destination ? operand(*tree_.destination).dtype : problem_.accumulator;
    bool assumed = false;
    int together = access_elements({Dim(), Dim::constant(1), Dim()}, problem_.shape.back(), 8, problem_.hints, assumed);
    const auto is_along_rows = [](const Node& node) {
      return node.kind == Kind::AuxLoad || node.kind == Kind::Store || node.kind == Kind::Row;
    };
    for (const Node& node : dag_.nodes) {
      if (!is_along_rows(node)) continue;
      if (!is_row_major(node.strides)) {
        fail(node,
             fmt::format(
                 "Cannot create example tensor for {} with non-contiguous layout, received stride: {} and shape: {}",
                 operand(node.operand).name, to_string(operand(node.operand).strides),
                 to_string(operand(node.operand).shape)),
             "the visitors of Sm80 go through a tile row by row",
             "make a row-major copy of it, or use a target with Sm90 visitors");
        return;
      }
      const int bits = types::bits(operand(node.operand).dtype);
      const int own = access_elements(node.strides, problem_.shape.back(), bits, problem_.hints, assumed);
      if (node.kind != Kind::Row || own < 128 / bits) together = std::min(together, own);
    }
    const auto access_of = [&](DType type) {
      return store_access_sm80(problem_, types::bits(type), std::min(together, 128 / types::bits(type)));
    };
    // Visitors store what they like; what the map takes D for is what threads hand over.
    if (!hands_over_sm80(problem_.accumulator, stored, access_of(stored))) stored = problem_.accumulator;
    together = access_of(stored);
    tree_.elements_per_access = together;
    tree_.element_map = cpp_type(stored);
    for (const Node& node : dag_.nodes) {
      if (is_along_rows(node))
        in_vectors(node.operand, node.strides, std::min(16, together * types::bits(operand(node.operand).dtype) / 8));
    }
    if (assumed)
      tree_.notes.emplace_back(fmt::format(
          "rows of tensors begin at multiples of {} elements for the likely sizes; others need another kernel",
          together));
  }
  void fail(const Node& node, const std::string& headline, const std::string& reason, const std::string& help) {
    if (failed_) return;
    auto error = diag::error(diag::Code::family_layout, headline);
    const ir::Graph& graph = *problem_.graph;
    if (graph.span(node.origin).known()) error.at(graph.source(), graph.span(node.origin));
    failed_ = error.reason(reason).help(help);
  }

  // At the first of these that the text has, else at the product.
  void place(diag::ErrorBuilder& error, std::vector<ir::NodeId> nodes) const {
    const ir::Graph& graph = *problem_.graph;
    for (const ir::NodeId product : ir::matmuls(graph)) nodes.push_back(product);
    for (const ir::NodeId node : nodes) {
      if (!graph.span(node).known()) continue;
      error.at(graph.source(), graph.span(node));
      return;
    }
  }

  Result<void> check_shared_memory() {
    int64_t total = 0;
    std::string list;
    for (const auto& [name, bytes] : used_) {
      total += bytes;
      list += fmt::format("{}{} {}", list.empty() ? "" : ", ", name, bytes);
    }
    tree_.shared_bytes = total;
    if (is_sm80()) {
      const int64_t stage = stage_bytes_sm80(problem_), needed = least_stages_sm80 * stage;
      if (needed <= problem_.shared_capacity) return {};
      auto error = diag::error(diag::Code::epilogue_large, "the tile consumes too much shared memory");
      place(error, {});
      return error
          .reason(fmt::format("{} bytes are needed for three stages of A and B, {} each, the fewest that the main loop "
                              "takes, and {} are available",
                              needed, stage, problem_.shared_capacity))
          .help(fmt::format("use a smaller tile than {}x{}x{}", problem_.tile[0], problem_.tile[1], problem_.tile[2]));
    }
    // Two stages of the mainloop are the least that a collective takes; without factors they count as 16-bit ones.
    const int64_t a = problem_.a ? types::byte_size(*problem_.a) : 2,
                  b = problem_.b ? types::byte_size(*problem_.b) : 2;
    const int rows = problem_.schedule == EvtSchedule::TmaWarpSpecialized2Sm ? problem_.tile[0] / 2 : problem_.tile[0];
    const int64_t stage =
        problem_.tile[2] *
        (rows * a + problem_.tile[1] * b / (problem_.schedule == EvtSchedule::TmaWarpSpecialized2Sm ? 2 : 1));
    const int64_t needed = total + 2 * stage + 1024, available = problem_.shared_capacity;
    if (needed <= available) return {};
    auto error = diag::error(diag::Code::epilogue_large, "the epilogue consumes too much shared memory");
    place(error, full_.empty() ? std::vector<ir::NodeId>() : std::vector<ir::NodeId>{full_.back()});
    return error
        .reason(
            fmt::format("{} bytes are needed and {} available: {} for the epilogue ({}), {} for two stages of A and B",
                        needed, available, total, list, 2 * stage))
        .help(fmt::format("use a smaller tile than {}x{}x{}, or fewer full-size operands", problem_.tile[0],
                          problem_.tile[1], problem_.tile[2]));
  }

  void print_cd() {
    if (is_sm80()) return;
    out_.line("using ElementC = ", tree_.element_c, ";");
    out_.line("using StrideC = ", tree_.stride_c, ";");
    out_.line("using ElementD = ", tree_.element_d, ";");
    out_.line("using StrideD = ", tree_.stride_d, ";");
  }
  [[nodiscard]] std::string shape_text(const std::array<int, 3>& shape) const {
    return fmt::format("cute::Shape<cute::Int<{}>, cute::Int<{}>, cute::Int<{}>>", shape[0], shape[1], shape[2]);
  }
  void print_descriptor() {
    if (is_sm80()) {
      if (!uses_map_) return;
      out_.line("using OutputTileThreadMap = cutlass::epilogue::threadblock::OutputTileThreadLayout<");
      out_.line("  ThreadblockShape, WarpShape, ", tree_.element_map, ", ", tree_.elements_per_access, ", 1>;");
      return;
    }
    const bool needed = aliases_.str().find("EpilogueDescriptor") != std::string::npos;
    if (!needed) return;
    const bool cooperative = problem_.schedule == EvtSchedule::TmaWarpSpecializedCooperative;
    const std::string schedule =
        problem_.arch == Arch::Sm100
            ? (problem_.schedule == EvtSchedule::TmaWarpSpecialized2Sm ? "TmaWarpSpecialized2Sm"
                                                                       : "TmaWarpSpecialized1Sm")
            : (cooperative ? "TmaWarpSpecializedCooperative" : "TmaWarpSpecialized");
    const bool sm100 = problem_.arch == Arch::Sm100;
    const auto c = problem_.emit_cd ? std::string("ElementC") : tree_.element_c;
    const auto d = problem_.emit_cd ? std::string("ElementD") : tree_.element_d;
    out_.line("using EpilogueDescriptor = cutlass::epilogue::collective::detail::", sm100 ? "Sm100" : "",
              "EpilogueDescriptor<");
    if (sm100) out_.line("  cutlass::arch::OpClassTensorOp,");
    out_.line("  ", shape_text(problem_.tile), ", cutlass::epilogue::collective::EpilogueTileAuto,");
    out_.line("  ", sm100 ? cpp_type(problem_.accumulator) + ", " : std::string(), c, ", ", d, ",");
    out_.line("  cutlass::epilogue::", schedule, sm100 ? "," : ">;");
    if (!sm100) return;
    out_.line("  ", problem_.emit_cd ? "StrideC" : tree_.stride_c, ", ", problem_.emit_cd ? "StrideD" : tree_.stride_d,
              ", false, false>;");
  }

  // Types

  // Equal types have one alias; names are made here, so that no two names of the epilogue's text can meet.
  std::string alias(std::string_view kind, const std::string& type, const std::string& comment) {
    const auto found = names_.find(type);
    if (found != names_.end()) return found->second;
    const std::string name = fmt::format("{}{}{}", problem_.prefix, kind, counts_[std::string(kind)]++);
    if (!comment.empty()) aliases_.line("// ", comment);
    aliases_.line("using ", name, " = ", type, ";");
    names_.emplace(type, name);
    return name;
  }
  std::string declare(const Part& part) {
    const Node& node = dag_.nodes[part.node];
    if (part.form == Part::Form::Leaf) return node_type(part.node);
    std::string list;
    std::vector<std::string> names;
    for (const Part& child : part.parts) names.push_back(declare(child));
    if (part.form == Part::Form::Tree) {
      for (const std::string& name : names) list += ", " + name;
      const std::string type = space() + (is_sm80() ? "Sm80EVT<" : "Sm90EVT<") + node_type(part.node) + list + ">";
      return alias("Tree", type, {});
    }
    std::string edges;
    for (size_t i = 0; i < part.parts.size(); ++i) {
      std::string inputs;
      for (const uint32_t input : part.edges[i]) inputs += (inputs.empty() ? "" : ", ") + std::to_string(input);
      edges += (i > 0 ? ", " : "") + ("cute::seq<" + inputs + ">");
      list += ", " + names[i];
    }
    const auto common = common_type(part);
    if (!common) {
      fail(node, "values of different types meet in one topological visitor",
           "it converts every value to one type, and none holds all of these exactly",
           "cast 64-bit integers before values are used several times, or use a cuda target");
      return "void";
    }
    const std::string type = space() + (is_sm80() ? "Sm80TopologicalVisitor<" : "Sm90TopologicalVisitor<") +
                             cpp_type(*common) + ", cute::tuple<" + edges + ">" + list + ">";
    return alias("Graph", type, {});
  }
  // The type that a topological visitor keeps its values in: it must hold those of all parts but the last.
  [[nodiscard]] std::optional<DType> common_type(const Part& part) const {
    int integer_bits = 0, float_bits = 0;
    bool is_unsigned = false, is_signed = false;
    for (size_t i = 0; i + 1 < part.parts.size(); ++i) {
      const DType type = dag_.nodes[part.parts[i].node].type;
      if (types::is_float(type)) {
        float_bits = std::max(float_bits, std::max(32, types::bits(type)));
      } else {
        integer_bits = std::max(integer_bits, types::bits(type));
        (types::is_unsigned(type) || types::is_bool(type) ? is_unsigned : is_signed) = true;
      }
    }
    if (integer_bits == 0) return float_bits == 64 ? DType::f64 : DType::f32;
    if (float_bits > 0 || integer_bits <= 16) {
      if (integer_bits <= 16 && float_bits <= 32) return float_bits == 32 || !is_signed ? DType::f32 : DType::i32;
      if (integer_bits <= 32) return DType::f64;
      return std::nullopt;
    }
    if (integer_bits == 32) return is_unsigned && !is_signed ? DType::u32 : is_unsigned ? DType::i64 : DType::i32;
    if (is_unsigned && is_signed) return std::nullopt;
    return is_unsigned ? DType::u64 : DType::i64;
  }

  std::string node_type(uint32_t id) {
    const Node& node = dag_.nodes[id];
    const std::string prefix = space() + (is_sm80() ? "Visitor" : "Sm90");
    const std::string map = "OutputTileThreadMap";
    const bool tensor = node.kind != Kind::Compute && node.kind != Kind::Accumulator && node.kind != Kind::Number &&
                        node.kind != Kind::Immediate;
    const std::string element = tensor ? cpp_type(operand(node.operand).dtype) : cpp_type(node.type);
    const bool one_element = node.kind == Kind::Scalar || node.kind == Kind::ScalarReduce;
    // The visitors of Sm80 that see one element take an int between items.
    const std::string stride = stride_type(node.strides, is_sm80() && one_element ? "int" : "int64_t");
    if (is_sm80() &&
        (node.kind == Kind::AuxLoad || node.kind == Kind::Row || node.kind == Kind::Column || is_store(node.kind)))
      uses_map_ = true;
    switch (node.kind) {
      case Kind::Accumulator:
        return alias("Accum", prefix + "AccFetch", {});
      case Kind::Source:
        return alias("Source", prefix + "SrcFetch<" + (problem_.emit_cd ? "ElementC" : element) + ">", node.comment);
      case Kind::AuxLoad:
        return is_sm80() ? alias("Aux", prefix + "AuxLoad<" + map + ", " + element + ", " + stride + ">", node.comment)
                         : aux(node, true);
      case Kind::Store:
        return is_sm80() ? alias("Store",
                                 prefix + "AuxStore<" + map + ", " + element + ", " + rounding() + ", " + stride + ">",
                                 node.comment)
                         : aux(node, false);
      case Kind::Row:
      case Kind::Column: {
        const bool row = node.kind == Kind::Row;
        if (is_sm80())
          return alias(row ? "Row" : "Column",
                       prefix + (row ? "RowBroadcast<" : "ColBroadcast<") + map + ", " + element + ", " + stride + ">",
                       node.comment);
        if (row)
          used_.emplace_back("row " + operand(node.operand).name,
                             (problem_.tile[1] * types::byte_size(operand(node.operand).dtype) + 15) / 16 * 16);
        return alias(row ? "Row" : "Column",
                     prefix + (row ? "RowBroadcast<" : "ColBroadcast<") +
                         "0, typename EpilogueDescriptor::TileShape, " + element + ", " + cpp_type(node.type) + ", " +
                         stride + ">",
                     node.comment);
      }
      case Kind::Scalar:
      case Kind::Number:
      case Kind::Immediate:
        return alias("Scalar", prefix + "ScalarBroadcast<" + element + ", " + stride + ">", node.comment);
      case Kind::Compute:
        if (functor_name(node.function).starts_with("codetta_evt")) functions_.insert(node.function);
        return alias("Compute",
                     prefix + "Compute<" + functor_name(node.function) + ", " +
                         (id == dag_.root && problem_.emit_cd ? "ElementD" : cpp_type(node.type)) + ", " +
                         cpp_type(node.compute) + ", " + rounding() + ">",
                     node.comment);
      case Kind::RowReduce:
      case Kind::ColumnReduce:
      case Kind::ScalarReduce:
        return reduction(node, stride, element);
    }
    return "void";
  }

  // A full tensor beside C and D: through shared memory by TMA where its strides allow it, else element by element.
  std::string aux(const Node& node, bool load) {
    const Operand& tensor = operand(node.operand);
    const std::string element = cpp_type(tensor.dtype), stride = stride_type(node.strides);
    bool assumed = false;
    const int bits = types::bits(tensor.dtype);
    int together = access_elements(node.strides, Dim(), bits, problem_.hints, assumed);
    const bool backward = is_backward(node.strides, problem_.hints);
    const bool by_tma = together * bits >= 128 && has_tma_format(tensor.dtype) && !backward;
    if (by_tma) {
      tree_.alignments[node.operand] = 16;
    } else {
      together = access_elements(node.strides, extent_of(problem_, node.strides), bits, problem_.hints, assumed);
      in_vectors(node.operand, node.strides, together * bits / 8);
    }
    if (assumed)
      tree_.notes.push_back(
          fmt::format("{}: strides are multiples of {} bytes for the likely sizes; check others before use",
                      tensor.name, together * bits / 8));
    const std::string style = load ? "" : ", " + rounding();
    const std::string base = "cutlass::epilogue::fusion::Sm90Aux" + std::string(load ? "Load<" : "Store<");
    if (!by_tma) {
      tree_.notes.push_back(fmt::format("{}: moved element by element, since {}", tensor.name,
                                        !has_tma_format(tensor.dtype) ? "CUTLASS has no TMA format of its type"
                                        : backward                    ? "one of its strides is negative"
                                                                      : "its strides are no multiples of 16 bytes"));
      return alias(
          load ? "Aux" : "Store",
          base + "0, void, " + element + style + ", " + stride + ", void, void, " + std::to_string(together) + ">",
          node.comment);
    }
    const int stages = load ? tree_.shape.stages_c : tree_.shape.stages_d;
    full_.push_back(node.origin);
    used_.emplace_back(tensor.name,
                       int64_t{tree_.shape.tile_m} * tree_.shape.tile_n * types::byte_size(tensor.dtype) * stages);
    const std::string form = load ? "AuxLoadDescriptor" : "AuxStoreDescriptor";
    const std::string descriptor =
        alias(load ? "LoadDescriptor" : "StoreDescriptor",
              "cutlass::epilogue::collective::detail::" + std::string(problem_.arch == Arch::Sm100 ? "Sm100" : "") +
                  form + "<EpilogueDescriptor, " + stride + ", " + element + ">",
              {});
    return alias(load ? "Aux" : "Store",
                 base + descriptor + "::Stages, typename EpilogueDescriptor::EpilogueTile, typename " + descriptor +
                     "::Element" + style + ", typename " + descriptor + "::Stride, typename " + descriptor +
                     "::SmemLayoutAtom, typename " + descriptor + (load ? "::CopyOpS2R>" : "::CopyOpR2S>"),
                 node.comment);
  }

  std::string reduction(const Node& node, const std::string& stride, const std::string& element) {
    const bool atomic = is_sm80() || node.kind == Kind::ScalarReduce;
    const std::string function = node.reduce == ReduceFunction::Sum
                                     ? functor_name(types::is_float(node.compute) ? "add" : "add_int")
                                 : node.reduce == ReduceFunction::Max ? "codetta_evt::reduce_max"
                                                                      : "codetta_evt::reduce_min";
    if (node.reduce != ReduceFunction::Sum)
      functions_.insert(node.reduce == ReduceFunction::Max ? "reduce_max" : "reduce_min");
    if (node.reduce == ReduceFunction::Sum && !types::is_float(node.compute)) functions_.insert("add_int");
    const std::string in_memory =
        atomic_function(node.reduce, node.compute, is_sm80() && node.kind == Kind::ScalarReduce);
    const std::string memory = atomic ? functor_name(in_memory) : function;
    if (memory.starts_with("codetta_evt::atomic")) functions_.insert(in_memory);
    tree_.reductions.push_back(node.operand);
    tree_.reduction_kinds.push_back(node.kind);
    tree_.identities.push_back(cpp_type(node.compute) + "(" + node.immediate + ")");
    const std::string types = element + ", " + cpp_type(node.compute) + ", " + rounding() + ", " + stride;
    const std::string form = node.kind == Kind::RowReduce      ? "RowReduction<"
                             : node.kind == Kind::ColumnReduce ? "ColReduction<"
                                                               : "ScalarReduction<";
    const std::string prefix = space() + (is_sm80() ? "Visitor" : "Sm90");
    if (is_sm80()) {
      uses_map_ = true;
      return alias("Reduce", prefix + form + function + ", " + memory + ", OutputTileThreadMap, " + types + ">",
                   node.comment);
    }
    if (node.kind == Kind::ScalarReduce)
      return alias("Reduce", prefix + form + function + ", " + memory + ", " + types + ">", node.comment);
    check_row_reduction(node);
    return alias("Reduce",
                 prefix + form + function + ", " + function + ", " + memory +
                     ", 0, typename EpilogueDescriptor::TileShape, " + types + ">",
                 node.comment);
  }
  // What Sm90RowReduction relies on. Lanes of a warp halve their words of 8 bytes and hand one half over until each has
  // its share, from one word a lane on: that shares out equal numbers alone, which CUTLASS asserts in part. Warps of a
  // tile meet in the shared memory of one step of D.
  void check_row_reduction(const Node& node) {
    if (node.kind != Kind::RowReduce || failed_) return;
    const int columns = problem_.tile[1], together = 256 / static_cast<int>(types::byte_size(node.compute));
    if (columns > together && columns % together != 0) {
      failed_ =
          wrong_tile(problem_,
                     fmt::format("lanes of a warp share the columns of {} out in multiples of {}",
                                 operand(node.operand).name, together),
                     fmt::format("try {}x{}x{}", problem_.tile[0], columns / together * together, problem_.tile[2]));
      return;
    }
    if (problem_.arch != Arch::Sm90) return;
    const int64_t warps = problem_.schedule == EvtSchedule::TmaWarpSpecializedCooperative ? 8 : 4;
    const int64_t needed = problem_.tile[1] * warps * types::byte_size(node.compute);
    const int64_t there =
        int64_t{tree_.shape.tile_m} * tree_.shape.tile_n * types::byte_size(operand(*tree_.destination).dtype);
    if (needed <= there) return;
    failed_ = diag::error(diag::Code::epilogue_large,
                          fmt::format("the reduction {} has no room to meet in", operand(node.operand).name))
                  .reason(fmt::format("{} warps of {} columns need {} bytes, and one step of D {} holds {}", warps,
                                      problem_.tile[1], needed, operand(*tree_.destination).name, there))
                  .help(fmt::format("use a tile of at most {} columns, or a wider type of D",
                                    there / (warps * types::byte_size(node.compute)) / 16 * 16));
  }

  // Arguments

  [[nodiscard]] std::array<std::string, 3> collective_stride(size_t index, const std::array<Dim, 3>& strides) const {
    std::array<std::string, 3> result;
    for (size_t axis = 0; axis < 3; ++axis) result[axis] = stride_text(index, strides, axis);
    return result;
  }
  [[nodiscard]] std::string stride_text(size_t index, const std::array<Dim, 3>& strides, size_t axis) const {
    if (is_fixed(strides, axis)) return is(strides[axis], 0) ? "_0{}" : "_1{}";
    return spelling_.stride(index, static_cast<int>(axis), strides[axis]);
  }
  // "{}" where the type says all.
  [[nodiscard]] std::string strides_text(const Node& node) const {
    bool fixed = true;
    std::string text = "{";
    for (size_t axis = 0; axis < 3; ++axis) {
      fixed = fixed && is_fixed(node.strides, axis);
      const std::string stride = stride_text(node.operand, node.strides, axis);
      const bool one_element = node.kind == Kind::Scalar || node.kind == Kind::ScalarReduce;
      text += (axis > 0 ? ", " : "") +
              (is_sm80() && one_element && axis == 2 && !is(node.strides[2], 0) ? "int(" + stride + ")" : stride);
    }
    return fixed ? "{}" : text + "}";
  }
  [[nodiscard]] std::string own_arguments(uint32_t id) const {
    const Node& node = dag_.nodes[id];
    const auto pointer = [&] { return spelling_.pointer(node.operand, cpp_type(operand(node.operand).dtype)); };
    const std::string element = node.kind == Kind::Immediate || node.kind == Kind::Number ||
                                        node.kind == Kind::Compute || node.kind == Kind::Accumulator
                                    ? cpp_type(node.type)
                                    : cpp_type(operand(node.operand).dtype);
    switch (node.kind) {
      case Kind::Accumulator:
      case Kind::Source:
      case Kind::Compute:
        return "{}";
      case Kind::Number:
        return "{{" + element + "(" + spelling_.number(node.operand) + ")}}";
      case Kind::Immediate:
        return "{{" + element + "(" + node.immediate + ")}}";
      case Kind::Scalar: {
        const std::string strides = strides_text(node);
        return "{{}, {" + pointer() + "}" +
               (strides == "{}" ? ""
                : is_sm80()     ? ", " + strides
                                : ", {" + strides + "}") +
               "}";
      }
      case Kind::AuxLoad:
        return "{" + pointer() + ", " + element + "(0), " + strides_text(node) + "}";
      case Kind::Row:
      case Kind::Column:
        return "{" + pointer() + ", " + element + "(0), " + strides_text(node) + "}";
      case Kind::Store:
        return "{" + pointer() + ", " + strides_text(node) + "}";
      case Kind::RowReduce:
      case Kind::ColumnReduce:
      case Kind::ScalarReduce:
        return "{" + pointer() + ", " + cpp_type(node.compute) + "(" + node.immediate + "), " + strides_text(node) +
               "}";
    }
    return "{}";
  }
  void add_arguments(const Part& part, size_t depth) {
    std::string& text = tree_.arguments;
    text.append(2 * depth, ' ');
    const std::string& name = dag_.nodes[part.node].comment;
    const std::string comment = name.empty() ? "" : " /* " + name + " */";
    if (part.form == Part::Form::Leaf) {
      text += own_arguments(part.node) + "," + comment;
      return;
    }
    text += "{" + (part.form == Part::Form::Graph ? "" : comment) + "\n";
    for (const Part& child : part.parts) {
      add_arguments(child, depth + 1);
      text += "\n";
    }
    if (part.form == Part::Form::Tree) text.append(2 * depth + 2, ' ') += own_arguments(part.node) + ",\n";
    text.append(2 * depth, ' ') += depth == 0 ? "}" : "},";
  }

  const Problem& problem_;
  const Spelling& spelling_;
  const Dag& dag_;
  bool uses_map_ = false;
  Tree tree_;
  std::vector<std::pair<std::string, int64_t>> used_;  // shared memory, by operand
  std::vector<ir::NodeId> full_;                       // what reads or makes operands in shared memory, but C and D
  std::optional<Error> failed_;
  base::CodeWriter out_, aliases_;
  std::map<std::string, std::string> names_;
  std::map<std::string, int> counts_;
  std::set<std::string> functions_;
};

}  // namespace

Result<Tree> emit_tree(const Problem& problem, const Spelling& spelling) {
  CODETTA_CHECK_OK(check_types(problem));
  CODETTA_TRY(const Dag dag, lower(problem));
  if (nesting_of(dag) > most_walked) return too_nested(problem, dag, fmt::format("more than {}", most_nested));
  const Part part = shape_tree(dag);
  if (const int nesting = nesting_of(part); nesting > most_nested)
    return too_nested(problem, dag, std::to_string(nesting));
  return Printer(problem, spelling, dag).run(part);
}

std::string cpp_text(const Dim& dim) {
  std::string text = dim.to_string();
  for (size_t at = text.find("//"); at != std::string::npos; at = text.find("//", at + 1)) text.erase(at, 1);
  for (const char* word : {"min(", "max("}) {
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 20)) {
      if (at > 0 && (std::isalnum(static_cast<unsigned char>(text[at - 1])) || text[at - 1] == '_')) continue;
      text.replace(at, 4, "std::" + std::string(word, 3) + "<int64_t>(");
    }
  }
  return text;
}

}  // namespace codetta::emit::evt

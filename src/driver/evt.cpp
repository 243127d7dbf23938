// SPDX-License-Identifier: Apache-2.0
// emit_evt and emit_cutlass: examples become a bound graph, the passes run, emit/evt prints.
#include "codetta/evt.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/default_floats.hpp"
#include "diag/diagnostic.hpp"
#include "driver/evt.hpp"
#include "driver/problem.hpp"
#include "ir/analyses.hpp"
#include "types/dtype.hpp"

namespace codetta {
namespace driver {
namespace {

using emit::evt::Dim;
using emit::evt::Operand;

// Pointers and strides as Inductor's templates have them.
class TextSpelling {
 public:
  TextSpelling(const std::vector<Operand>& operands, const EvtOptions& options)
      : operands_(operands), options_(options) {}

  emit::evt::Spelling spelling() {
    return {[this](size_t i, const std::string& type) { return pointer(i, type); },
            [this](size_t i) { return number(i); },
            [](size_t, int, const Dim& stride) { return emit::evt::cpp_text(stride); }};
  }
  std::vector<std::pair<std::string, std::string>> renames;
  std::vector<std::string> notes;

 private:
  // A number's own name, where it can be one in C++.
  std::string number(size_t index) {
    const std::string& text = operands_[index].value;
    if (text != operands_[index].name || emit::host::public_name_defect(text).empty()) return text;
    const std::string spelled = fmt::format("{}Number{}", options_.prefix, index);
    const std::string note = fmt::format("{} stands for the number {}, which is no name in C++", spelled, text);
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
    return spelled;
  }
  std::string pointer(size_t index, const std::string& type) {
    const std::string& variable = operands_[index].name;
    const auto named = std::find_if(options_.buffers.begin(), options_.buffers.end(),
                                    [&](const auto& item) { return item.first == variable; });
    const std::string& buffer = named == options_.buffers.end() ? variable : named->second;
    auto renamed = std::find_if(renames.begin(), renames.end(), [&](const auto& item) { return item.first == buffer; });
    if (renamed == renames.end()) {
      renames.emplace_back(buffer, "ptr_" + std::to_string(renames.size()));
      renamed = renames.end() - 1;
    }
    const std::string& name = renamed->second;
    return options_.offsets ? fmt::format("({}*) ({} + {}_offset)", type, name, name)
                            : fmt::format("({}*) {}", type, name);
  }
  const std::vector<Operand>& operands_;
  const EvtOptions& options_;
};

std::vector<Dim> dims_of(const Dims& dims) {
  std::vector<Dim> result;
  for (int i = 0; i < dims.rank(); ++i) result.push_back(Dim::constant(dims[i]));
  return result;
}

EvtText evt_text_of(emit::evt::Tree tree, const std::vector<Operand>& operands, const EvtOptions& options) {
  EvtText text;
  text.name = options.name;
  text.types = std::move(tree.types);
  text.functors = std::move(tree.functors);
  text.arguments = std::move(tree.arguments);
  if (tree.source) text.source = operands[*tree.source].name;
  if (tree.destination) text.destination = operands[*tree.destination].name;
  text.element_c = tree.element_c;
  text.element_d = tree.element_d;
  text.stride_c = tree.stride_c;
  text.stride_d = tree.stride_d;
  text.c_strides = tree.source_stride;
  text.d_strides = tree.destination_stride;
  text.epilogue_tile_m = tree.shape.tile_m;
  text.epilogue_tile_n = tree.shape.tile_n;
  text.stages_c = tree.shape.stages_c;
  text.stages_d = tree.shape.stages_d;
  text.reuses_c = tree.shape.reuses_c;
  text.shared_bytes = tree.shared_bytes;
  text.cutlass = emit::evt::supported_versions;
  text.notes = std::move(tree.notes);
  return text;
}

// Does the text that a tree is part of have another thing of that name?
bool is_taken(std::string_view name, std::string_view prefix) {
  constexpr std::string_view taken[] = {"ElementA",
                                        "ElementB",
                                        "ElementC",
                                        "ElementD",
                                        "StrideA",
                                        "StrideB",
                                        "StrideC",
                                        "StrideD",
                                        "TileShape",
                                        "ClusterShape",
                                        "EpilogueDescriptor",
                                        "EpilogueSchedule",
                                        "KernelSchedule",
                                        "WarpShape",
                                        "CollectiveEpilogue",
                                        "CollectiveMainloop",
                                        "ElementAccumulator",
                                        "ThreadblockShape",
                                        "Gemm",
                                        "OutputTileThreadMap",
                                        "GemmKernel",
                                        "Arch",
                                        "BoundTensor",
                                        "arguments_of",
                                        "check",
                                        "check_sizes",
                                        "failed",
                                        "fill",
                                        "fill_elements",
                                        "fill_reductions",
                                        "is_empty",
                                        "last_error",
                                        "tensor_count",
                                        "tensor_table",
                                        "cudaStream_t",
                                        "dim3",
                                        "cudaError_t",
                                        "std",
                                        "cute",
                                        "cutlass",
                                        "codetta_evt"};
  if (std::find(std::begin(taken), std::end(taken), name) != std::end(taken)) return true;
  const size_t digits = name.find_last_not_of("0123456789") + 1;  // EvtCompute3
  return name.starts_with(prefix) && digits < name.size() && digits > prefix.size();
}

Error taken(const std::string& name) {
  return diag::error(diag::Code::public_name, fmt::format("'{}' cannot be the name of a tree", name))
      .reason("the emitted text has another thing of that name")
      .help("use another name, such as EVTD");
}

Result<void> check_name(const std::string& name, const char* what) {
  const std::string defect = emit::host::public_name_defect(name);
  if (defect.empty()) return {};
  return diag::error(diag::Code::public_name, fmt::format("'{}' cannot be the {}", name, what))
      .reason(defect)
      .help("use letters, digits and underscores, and no word of C++");
}

// Buffers belong to tensors of the epilogue, and are told in comments.
Result<void> check_buffers(const EvtOptions& options, const std::vector<Operand>& operands) {
  std::vector<std::string> known;
  for (const Operand& operand : operands) {
    if (!operand.is_scalar) known.push_back(operand.name);
  }
  std::set<std::string> seen;
  for (const auto& [variable, buffer] : options.buffers) {
    if (std::find(known.begin(), known.end(), variable) == known.end()) {
      const std::string near = diag::nearest(variable, known);
      return diag::error(diag::Code::argument_unexpected,
                         fmt::format("a buffer is given for '{}', which is no tensor of the epilogue", variable))
          .reason(known.empty() ? std::string("it has none") : fmt::format("it has {}", fmt::join(known, ", ")))
          .help(near.empty() ? "leave it out" : "did you mean " + near + "?");
    }
    if (!seen.insert(variable).second) {
      return diag::error(diag::Code::argument_unexpected, fmt::format("two buffers are given for '{}'", variable))
          .reason("a tensor lies in one")
          .help("leave one out");
    }
    const bool unfit = std::any_of(buffer.begin(), buffer.end(),
                                   [](char c) { return c == '\\' || c == 127 || static_cast<unsigned char>(c) < 32; });
    if (buffer.empty() || unfit) {
      return diag::error(diag::Code::public_name, fmt::format("the buffer of '{}' has a name that is none", variable))
          .reason("it is empty, or holds a control character or a backslash")
          .help("use letters, digits and underscores");
    }
  }
  return {};
}

// What both calls share: the graph after the passes, and the problem around it.
Result<EvtText> emit_bound(const ir::Graph& graph, emit::evt::Problem problem, const EvtOptions& options) {
  problem.graph = &graph;
  CODETTA_CHECK_OK(apply(options, problem));
  TextSpelling spelling(problem.operands, options);
  CODETTA_TRY(emit::evt::Tree tree, emit::evt::emit_tree(problem, spelling.spelling()));
  EvtText text = evt_text_of(std::move(tree), problem.operands, options);
  text.renames = std::move(spelling.renames);
  text.notes.insert(text.notes.end(), spelling.notes.begin(), spelling.notes.end());
  return text;
}

// Sizes that are expressions, with their likely values.
class Sizes {
 public:
  static Result<Sizes> make(const EvtOptions& options) {
    Sizes sizes;
    for (const auto& [name, value] : options.hints) {
      if (value < 2 || !sizes.hints.emplace(name, value).second) {
        return diag::error(diag::Code::symbol_unbound, fmt::format("the hint {}={} cannot be used", name, value))
            .reason(value < 2 ? "a size that is known only at run time is taken to be at least 2: 1 would broadcast"
                              : "it is given twice")
            .help("give every name of a size one likely value of at least 2");
      }
    }
    return sizes;
  }
  Result<Dim> dim(const std::string& text, const std::string& owner) const {
    types::DimSyntaxError wrong;
    const auto dim = types::parse_dim(text, &wrong);
    if (!dim) {
      return diag::error(diag::Code::symbol_unbound, fmt::format("'{}' of {} is not a size", text, owner))
          .reason(wrong.reason)
          .help("write a number, or an expression such as 8*s0 or s0 // 2");
    }
    if (!dim->evaluate(hints)) {
      return diag::error(diag::Code::symbol_unbound, fmt::format("'{}' of {} has no likely value", text, owner))
          .reason(dim->symbols().empty()
                      ? "it has no value"
                      : "there is a name without a hint: " + fmt::format("{}", fmt::join(dim->symbols(), ", ")))
          .help("give EvtOptions::hints a value for each name");
    }
    return *dim;
  }
  Result<std::vector<Dim>> dims(const std::vector<EvtSize>& sizes, const std::string& owner) const {
    std::vector<Dim> result;
    for (const EvtSize& size : sizes) {
      CODETTA_TRY(const Dim one, dim(size.text(), owner));
      result.push_back(one);
    }
    return result;
  }
  std::map<std::string, int64_t> hints;
};

// The factors that such an accumulator usually comes from: binding asks for them, the tree does not.
DType usual_factor(DType accumulator) {
  return accumulator == DType::f64 ? DType::f64 : types::is_integer(accumulator) ? DType::i8 : DType::f16;
}

struct Examples {
  emit::evt::Problem problem;
  ir::GemmFacts facts;
  std::vector<ir::BoundArgument> arguments;
};

Result<void> add_tensor(Examples& examples, const EvtTensor& tensor, const Sizes& sizes, bool is_output) {
  Operand operand{tensor.name, false, is_output, tensor.dtype, {}, {}, {}};
  CODETTA_TRY(operand.shape, sizes.dims(tensor.shape, tensor.name));
  if (tensor.strides.empty()) {
    operand.strides = emit::evt::row_major_strides(operand.shape);
  } else {
    CODETTA_TRY(operand.strides, sizes.dims(tensor.strides, tensor.name));
  }
  if (operand.strides.size() != operand.shape.size() || operand.shape.size() > 3) {
    return diag::error(diag::Code::family_layout, fmt::format("Cannot create example tensor for {}", tensor.name))
        .reason(fmt::format("its shape has {} sizes and {} strides", operand.shape.size(), operand.strides.size()))
        .help("give at most [batch, M, N], and a stride for each size or none at all");
  }
  ir::BoundArgument argument;
  argument.name = tensor.name;
  argument.dtype = tensor.dtype;
  for (const Dim& size : operand.shape) argument.shape.push_back(*size.evaluate(sizes.hints));
  examples.problem.operands.push_back(std::move(operand));
  examples.arguments.push_back(std::move(argument));
  return {};
}

Result<Examples> gather_examples(const ir::EpilogueFunction& function, const std::vector<EvtTensor>& tensors,
                                 const std::vector<EvtScalar>& scalars, const EvtOptions& options) {
  CODETTA_TRY(const Sizes sizes, Sizes::make(options));
  Examples examples;
  examples.problem.hints = sizes.hints;
  const auto accum = std::find_if(tensors.begin(), tensors.end(), [](const EvtTensor& t) { return t.name == "accum"; });
  if (accum == tensors.end()) {
    return diag::error(diag::Code::argument_missing, "Example input for accum is not provided.")
        .reason("the shape of the accumulator is what everything else broadcasts to")
        .help("add a tensor named accum, [M, N] or [batch, M, N], of the accumulator's type");
  }
  CODETTA_TRY(const std::vector<Dim> shape, sizes.dims(accum->shape, "accum"));
  if (shape.size() != 2 && shape.size() != 3) {
    return diag::error(
               diag::Code::family_layout,
               fmt::format("Expect example inputs for 'accum' be a rank-2 or rank-3 tensor. Got {}.", to_string(shape)))
        .reason(fmt::format("it has {} dimensions", shape.size()))
        .help("give [M, N], or [batch, M, N]");
  }
  examples.problem.shape = shape;
  examples.problem.accumulator = accum->dtype;
  ir::GemmFacts& facts = examples.facts;
  facts.a = facts.b = usual_factor(accum->dtype);
  facts.accumulator = accum->dtype;
  facts.batched = shape.size() == 3;
  if (facts.batched) facts.batch = *shape[0].evaluate(sizes.hints);
  facts.m = *shape[shape.size() - 2].evaluate(sizes.hints);
  facts.n = *shape[shape.size() - 1].evaluate(sizes.hints);
  facts.k = 64;
  facts.round_as_unfused = options.rounding == Rounding::AsUnfused;
  const auto is_output = [&](const std::string& name) {
    return std::any_of(function.outputs.begin(), function.outputs.end(),
                       [&](const ir::Output& o) { return o.name == name; });
  };
  for (const EvtTensor& tensor : tensors) {
    if (&tensor != &*accum || is_output("accum"))
      CODETTA_CHECK_OK(add_tensor(examples, tensor, sizes, is_output(tensor.name)));
  }
  for (const EvtScalar& scalar : scalars) {
    ir::BoundArgument argument;
    argument.name = scalar.name;
    argument.is_scalar = true;
    argument.dtype = scalar.dtype;
    examples.arguments.push_back(argument);
    examples.problem.operands.push_back(
        {scalar.name, true, false, scalar.dtype, {}, {}, scalar.text.empty() ? scalar.name : scalar.text});
  }
  return examples;
}

}  // namespace

Result<void> apply(const EvtOptions& options, emit::evt::Problem& problem) {
  if (options.target.backend != Backend::cutlass) {
    return diag::error(diag::Code::target_architecture,
                       "target '" + options.target.to_string() + "' has no visitor trees")
        .reason("visitor trees are CUTLASS's")
        .help("use cutlass:sm_80, cutlass:sm_90a or cutlass:sm_100a");
  }
  CODETTA_TRY(problem.arch, emit::evt::arch_of(options.target));
  CODETTA_CHECK_OK(check_name(options.name, "name of a tree"));
  CODETTA_CHECK_OK(check_name(options.prefix, "prefix of a tree's types"));
  if (is_taken(options.name, options.prefix)) return taken(options.name);
  CODETTA_CHECK_OK(check_buffers(options, problem.operands));
  problem.schedule = options.schedule;
  problem.tile = options.tile;
  problem.cluster = options.cluster;
  problem.deterministic = options.deterministic;
  problem.emit_cd = options.emit_cd;
  problem.name = options.name;
  problem.prefix = options.prefix;
  problem.shared_capacity = emit::evt::shared_capacity(options.target.arch);
  if (!problem.shape.empty() && problem.shape.back().as_constant() == 0) {
    return diag::error(diag::Code::family_size, "CUTLASS's kernels are not chosen by a problem without columns")
        .reason("N is 0, and rows of no elements do not say how far apart rows lie")
        .help("give sizes that it will run with: what is emitted for these takes N = 0, too");
  }
  return emit::evt::check_tile(problem);
}

Result<EvtProblem> make_evt_problem(const GemmArguments& arguments) {
  EvtProblem result;
  CODETTA_TRY(result.gemm, make_problem(arguments));
  const Problem& gemm = result.gemm;
  CODETTA_TRY(opt::Optimized optimized, optimize_problem(gemm, {}));
  result.graph = std::move(optimized.graph);
  emit::evt::Problem& problem = result.evt;
  problem.accumulator = gemm.facts.accumulator;
  problem.a = gemm.facts.a;
  problem.b = gemm.facts.b;
  const int64_t m = gemm.facts.m, n = gemm.facts.n;
  problem.shape = {Dim::constant(m), Dim::constant(n)};
  if (gemm.facts.batched) problem.shape.insert(problem.shape.begin(), Dim::constant(gemm.facts.batch));
  // The graph counts in symbols; the tree compares with what tensors have.
  for (size_t i = 2; i < result.graph.inputs().size(); ++i) {
    const ir::GraphInput& input = result.graph.inputs()[i];
    Operand operand{input.name, input.is_scalar, false, result.graph.type(input.node).dtype, {}, {}, input.name};
    if (!input.is_scalar) {
      const TensorView& view = gemm.tensors.at(input.name);
      operand.shape = dims_of(view.shape());
      operand.strides = dims_of(view.strides());
    }
    problem.operands.push_back(std::move(operand));
  }
  for (const ir::GraphOutput& output : result.graph.outputs()) {
    const TensorView& view = gemm.tensors.at(output.name);
    problem.operands.push_back(
        {output.name, false, true, output.dtype, dims_of(view.shape()), dims_of(view.strides()), {}});
  }
  return result;
}

Result<emit::evt::KernelText> emit_whole(EvtProblem& problem, const EvtOptions& options, const std::string& name) {
  CODETTA_CHECK_OK(check_name(name, "name of a kernel"));
  if (options.name.starts_with(name + "_")) return taken(options.name);
  problem.evt.graph = &problem.graph;
  CODETTA_CHECK_OK(apply(options, problem.evt));
  const plan::GemmShape& shape = problem.gemm.shape;
  return emit::evt::emit_kernel({problem.evt,
                                 name,
                                 {shape.a_batch_stride, shape.a_row_stride, shape.a_k_stride},
                                 {shape.b_batch_stride, shape.b_k_stride, shape.b_col_stride},
                                 problem.gemm.facts.k,
                                 problem.gemm.strict,
                                 problem.gemm.math,
                                 options.target.arch});
}

}  // namespace driver

Result<EvtText> emit_evt(const Epilogue& epilogue, const std::vector<EvtTensor>& tensors,
                         const std::vector<EvtScalar>& scalars, const EvtOptions& options) {
  const base::DefaultFloats floats;
  CODETTA_TRY(driver::Examples examples, driver::gather_examples(*epilogue.function(), tensors, scalars, options));
  CODETTA_TRY(const ir::Graph bound, ir::bind_epilogue(*epilogue.function(), examples.arguments, examples.facts));
  CODETTA_TRY(opt::Optimized optimized, opt::optimize(bound));
  const ir::Graph& graph = ir::matmuls(optimized.graph).empty() ? bound : optimized.graph;
  return driver::emit_bound(graph, std::move(examples.problem), options);
}

Result<EvtText> emit_evt(const GemmArguments& arguments, const EvtOptions& options) {
  const base::DefaultFloats floats;
  CODETTA_TRY(driver::EvtProblem problem, driver::make_evt_problem(arguments));
  return driver::emit_bound(problem.graph, std::move(problem.evt), options);
}

Result<CutlassSource> emit_cutlass(const GemmArguments& arguments, const EvtOptions& options, const std::string& name) {
  const base::DefaultFloats floats;
  CODETTA_TRY(driver::EvtProblem problem, driver::make_evt_problem(arguments));
  EvtOptions whole = options;
  whole.emit_cd = true;
  CODETTA_TRY(emit::evt::KernelText text, driver::emit_whole(problem, whole, name));
  CutlassSource result;
  result.source = std::move(text.source);
  result.header = std::move(text.header);
  result.flags = std::move(text.flags);
  result.evt = driver::evt_text_of(std::move(text.tree), problem.evt.operands, whole);
  return result;
}

}  // namespace codetta

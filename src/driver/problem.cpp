// SPDX-License-Identifier: Apache-2.0
// Arguments of a GEMM checked and bound.
#include "driver/problem.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/kept.hpp"
#include "ir/analyses.hpp"
#include "runtime/checks.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta {

std::optional<DType> default_accumulator(DType a, DType b) { return ir::default_accumulator(a, b); }

Result<std::vector<OutputShape>> output_shapes(const GemmArguments& arguments) {
  CODETTA_TRY(const driver::Problem problem, driver::gather_problem(arguments));
  CODETTA_TRY(const auto outputs, ir::epilogue_outputs(*problem.function, problem.arguments, problem.facts));
  std::vector<OutputShape> shapes;
  for (const ir::EpilogueOutput& output : outputs) shapes.push_back({output.name, output.dtype, output.shape});
  return shapes;
}

}  // namespace codetta

namespace codetta::driver {
namespace {

Result<void> check_factor(const char* name, const TensorView& view) {
  if (view.rank() == 2 || view.rank() == 3) return {};
  return diag::error(diag::Code::gemm_size, fmt::format("{} must have 2 or 3 dimensions, not {}", name, view.rank()))
      .about(name)
      .reason(fmt::format("{} is {}", name, view.describe()))
      .help("pass [rows, columns], or [batch, rows, columns]");
}

Result<void> check_shapes(const TensorView& a, const TensorView& b) {
  CODETTA_CHECK_OK(check_factor("A", a));
  CODETTA_CHECK_OK(check_factor("B", b));
  const int64_t ka = a.size(a.rank() - 1), kb = b.size(b.rank() - 2);
  if (ka != kb) {
    const bool a_lies = a.size(a.rank() - 2) == kb, b_lies = b.size(b.rank() - 1) == ka;
    return diag::error(diag::Code::matmul_shape, fmt::format("A has {} columns but B has {} rows", ka, kb))
        .about("B")
        .reason(fmt::format("A is {}, B is {}", a.describe(), b.describe()))
        .help(std::string("A must be [M, K] and B [K, N]; ") + (a_lies && !b_lies
                                                                    ? "pass A.transposed() if A lies as [K, M]"
                                                                    : "pass B.transposed() if B lies as [N, K]"));
  }
  if (a.rank() == 3 && b.rank() == 3 && a.size(0) != b.size(0) && a.size(0) != 1 && b.size(0) != 1) {
    return diag::error(diag::Code::matmul_shape, fmt::format("A has {} batch items but B has {}", a.size(0), b.size(0)))
        .about("B")
        .reason(fmt::format("A is {}, B is {}", a.describe(), b.describe()))
        .help("give both the same batch size, or pass one matrix of rank 2 for all batch items");
  }
  return {};
}

}  // namespace

Result<void> check_enum(const char* option, int value, int last) {
  if (value >= 0 && value <= last) return {};
  return diag::error(diag::Code::option_range, fmt::format("{} is no value of `{}`", value, option))
      .reason(fmt::format("they are numbered 0 to {}", last))
      .help("pass one of the enum's names");
}

namespace {

// Only a view that was never made, or was moved from, has elements and no memory.
Result<void> check_memory(const std::string& name, const TensorView& view) {
  if (view.data() != nullptr || view.empty()) return {};
  return diag::error(diag::Code::tensor_null, fmt::format("{} is bound to a view without memory", name))
      .about(name)
      .reason(
          fmt::format("it is {}, as a default-made view is, or one of a tensor that was moved from", view.describe()))
      .help("make the view with TensorView::make, and bind a tensor that still owns its memory");
}

// A number that only f64 holds would be infinite for the kernel.
Result<void> check_number(const NamedArgument& argument, DType accumulator) {
  const auto* number = std::get_if<double>(&argument.value.value());
  if (number == nullptr || accumulator == DType::f64 || !std::isfinite(*number)) return {};
  if (std::isfinite(static_cast<float>(*number))) return {};
  return diag::error(diag::Code::symbol_conflict, fmt::format("{} is {} but numbers are f32 here", argument.name,
                                                              types::to_string(types::Scalar::from_f64(*number))))
      .about(argument.name)
      .reason("it is out of range, and would be infinite; the accumulator decides the type of numbers")
      .help("bind a number that f32 holds (inf says infinity), or let the accumulator be f64");
}

// The same matrix, or matrices, for every item of the batch: what the graph declares and the oracle reads.
Result<TensorView> over_batch(const TensorView& view, int64_t batch) {
  const int rank = view.rank();
  const int64_t stride = rank == 3 && view.size(0) != 1 ? view.stride(0) : 0;
  return TensorView::make(view.data(), view.dtype(), {batch, view.size(rank - 2), view.size(rank - 1)},
                          {stride, view.stride(rank - 2), view.stride(rank - 1)});
}

// Of an address, as far as kernels care.
int32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  return address == 0 ? 16 : static_cast<int32_t>(std::min<uintptr_t>(address & (~address + 1), 16));
}

bool unit_stride(const TensorView& view) {
  const int rank = view.rank();
  return rank == 0 || view.size(rank - 1) <= 1 || view.stride(rank - 1) == 1;
}
bool column_major(const TensorView& view) {
  const int rank = view.rank();
  return rank > 1 && !unit_stride(view) && view.size(rank - 2) > 1 && view.stride(rank - 2) == 1;
}

// Of the epilogue's tensors with rows and columns: addresses, and strides but that of the dim whose elements are side
// by side.
int32_t epilogue_alignment(const std::map<std::string, TensorView>& tensors) {
  uint64_t met = 16;
  for (const auto& [name, view] : tensors) {
    const int rank = view.rank();
    if (rank < 2 || view.size(rank - 1) <= 1) continue;
    met |= reinterpret_cast<uintptr_t>(view.data());
    const int fast = column_major(view) ? rank - 2 : rank - 1;
    for (int dim = 0; dim < rank; ++dim) {
      if (dim == fast || view.size(dim) <= 1) continue;
      if (view.stride(dim) <= 0) return 1;  // no tensor map goes backwards, or stays
      met |= static_cast<uint64_t>(view.stride(dim) * dtype_size(view.dtype()));
    }
  }
  return static_cast<int32_t>(met & (~met + 1));
}

int64_t batch_stride(const TensorView& view) { return view.rank() == 3 && view.size(0) != 1 ? view.stride(0) : 0; }

plan::GemmShape shape_of(const TensorView& a, const TensorView& b, const ir::GemmFacts& facts) {
  plan::GemmShape shape;
  shape.batch = facts.batch;
  shape.m = facts.m;
  shape.n = facts.n;
  shape.k = facts.k;
  shape.a = facts.a;
  shape.b = facts.b;
  shape.accumulator = facts.accumulator;
  shape.a_batch_stride = batch_stride(a);
  shape.a_row_stride = a.stride(a.rank() - 2);
  shape.a_k_stride = a.stride(a.rank() - 1);
  shape.b_batch_stride = batch_stride(b);
  shape.b_k_stride = b.stride(b.rank() - 2);
  shape.b_col_stride = b.stride(b.rank() - 1);
  shape.a_alignment = alignment_of(a.data());
  shape.b_alignment = alignment_of(b.data());
  return shape;
}

std::vector<plan::ArgumentLayout> layouts_of(const ir::Graph& graph, const std::map<std::string, TensorView>& tensors) {
  std::vector<plan::ArgumentLayout> layouts;
  const auto add = [&](const std::string& name) {
    plan::ArgumentLayout& layout = layouts.emplace_back();
    const auto tensor = tensors.find(name);
    if (tensor == tensors.end()) return;
    const TensorView& view = tensor->second;
    layout.unit_stride = unit_stride(view);
    layout.column_major = column_major(view);
    for (int dim = 0; dim < view.rank(); ++dim) layout.strides.push_back(view.size(dim) == 1 ? 0 : view.stride(dim));
  };
  for (size_t i = 2; i < graph.inputs().size(); ++i) add(graph.inputs()[i].name);
  for (const ir::GraphOutput& output : graph.outputs()) add(output.name);
  return layouts;
}

// A text that nobody has written: messages must not point into it.
Result<Epilogue> plain_product() {
  CODETTA_TRY(const Epilogue parsed, Epilogue::parse("def plain_product(accum):\n    D = accum\n    return D\n", ""));
  ir::EpilogueFunction function = *parsed.function();
  for (ir::Parameter& parameter : function.parameters) parameter.span = {};
  for (ir::Value& value : function.values) value.span = {};
  for (ir::Output& output : function.outputs) output.span = {};
  return Epilogue(std::make_shared<const ir::EpilogueFunction>(std::move(function)));
}

Result<std::shared_ptr<const ir::EpilogueFunction>> epilogue_function(const EpilogueArguments& arguments) {
  if (arguments.epilogue()) return arguments.epilogue()->function();
  static const auto& plain = base::kept(plain_product());
  if (!plain) return plain.error();
  return plain->function();
}

}  // namespace

DType scalar_dtype(const ArgumentValue& value, DType accumulator) {
  if (std::holds_alternative<bool>(value.value())) return DType::boolean;
  if (const auto* integer = std::get_if<int64_t>(&value.value())) {
    return *integer >= INT32_MIN && *integer <= INT32_MAX ? DType::i32 : DType::i64;
  }
  if (std::holds_alternative<uint64_t>(value.value())) return DType::u64;
  return accumulator == DType::f64 ? DType::f64 : DType::f32;
}

codetta::cpu::ScalarValue scalar_value(const ArgumentValue& value, DType dtype) {
  codetta::cpu::ScalarValue result{};
  if (const auto* flag = std::get_if<bool>(&value.value())) {
    result.u = *flag ? 1 : 0;
  } else if (const auto* integer = std::get_if<int64_t>(&value.value())) {
    result.i = *integer;
  } else if (const auto* large = std::get_if<uint64_t>(&value.value())) {
    result.u = *large;
  } else if (const auto* number = std::get_if<double>(&value.value())) {
    if (dtype == DType::f64) {
      result.d = *number;
    } else {
      result.f = static_cast<float>(*number);
    }
  }
  return result;
}

namespace {

Result<void> gather(Problem& problem, const GemmArguments& arguments) {
  if (arguments.packed_B != nullptr && !arguments.packed_B->holds_weights())
    return nothing_held("packed B", "Kernel::pack, or PackedTensor::deserialize");
  CODETTA_CHECK_OK(check_enum("rounding", static_cast<int>(arguments.rounding), static_cast<int>(Rounding::AsUnfused)));
  CODETTA_CHECK_OK(
      check_enum("math", static_cast<int>(arguments.math), static_cast<int>(MathMode::Fp8TwoLevelAccumulation)));
  if (arguments.accumulator)
    CODETTA_CHECK_OK(check_enum("accumulator", static_cast<int>(*arguments.accumulator), dtype_count - 1));
  problem.strict = arguments.strict;
  problem.math = arguments.math;
  CODETTA_CHECK_OK(check_shapes(arguments.A, arguments.B));
  problem.a = arguments.A;
  problem.b = arguments.B;
  CODETTA_TRY(problem.function, epilogue_function(arguments.epilogue));

  ir::GemmFacts& facts = problem.facts;
  facts.a = arguments.A.dtype();
  facts.b = arguments.B.dtype();
  const std::optional<DType> natural = ir::default_accumulator(facts.a, facts.b);
  facts.accumulator = arguments.accumulator ? *arguments.accumulator : natural.value_or(DType::f32);
  facts.batched = arguments.A.rank() == 3 || arguments.B.rank() == 3;
  const int64_t batch_a = arguments.A.rank() == 3 ? arguments.A.size(0) : 1;
  const int64_t batch_b = arguments.B.rank() == 3 ? arguments.B.size(0) : 1;
  facts.batch = batch_a == 1 ? batch_b : batch_a;
  if (facts.batched) {
    CODETTA_TRY(problem.a, over_batch(arguments.A, facts.batch));
    CODETTA_TRY(problem.b, over_batch(arguments.B, facts.batch));
  }
  facts.m = arguments.A.size(arguments.A.rank() - 2);
  facts.k = arguments.A.size(arguments.A.rank() - 1);
  facts.n = arguments.B.size(arguments.B.rank() - 1);
  facts.round_as_unfused = arguments.rounding == Rounding::AsUnfused;

  const auto add = [&](const std::string& name, const ArgumentValue& value) {
    ir::BoundArgument argument;
    argument.name = name;
    if (const TensorView* tensor = value.tensor()) {
      argument.dtype = tensor->dtype();
      argument.shape = tensor->shape();
      problem.tensors.emplace(name, *tensor);
    } else {
      argument.is_scalar = true;
      argument.dtype = scalar_dtype(value, facts.accumulator);
      problem.scalars.emplace(name, value);
    }
    problem.arguments.push_back(std::move(argument));
  };
  for (const NamedArgument& argument : arguments.epilogue.arguments()) {
    if (argument.value.tensor() != nullptr) CODETTA_CHECK_OK(check_memory(argument.name, *argument.value.tensor()));
    CODETTA_CHECK_OK(check_number(argument, facts.accumulator));
    add(argument.name, argument.value);
  }
  if (arguments.out) {
    CODETTA_CHECK_OK(check_memory("out", *arguments.out));
    facts.has_out = true;
    facts.out = arguments.out->dtype();
    facts.out_shape = arguments.out->shape();
    const auto d = problem.tensors.find("D");
    if (d == problem.tensors.end()) {
      problem.tensors.emplace("D", *arguments.out);
    } else if (!(d->second == *arguments.out)) {
      return diag::error(diag::Code::output_d, "out and the bound D are different tensors")
          .about("D")
          .reason("where D is returned both name one view; " +
                  runtime::places_of("out", *arguments.out, "D", d->second))
          .help("bind D only once: leave out `out`, or leave out D");
    }
  }
  problem.shape = shape_of(problem.a, problem.b, facts);
  problem.shape.epilogue_alignment = epilogue_alignment(problem.tensors);
  problem.shape.math = arguments.math;
  for (const auto& [name, value] : problem.scalars) {
    const double* number = std::get_if<double>(&value.value());
    if (number != nullptr && static_cast<float>(*number) != 0) problem.shape.nonzero_scalars.push_back(name);
  }
  problem.shape.b_packed = arguments.packed_B != nullptr;
  return {};
}

}  // namespace

void place(Diagnostic& diagnostic, const diag::SourceRef& source, diag::Span span) {
  const Diagnostic at = diag::error(diag::Code::internal, "a place").at(source, span).diagnostic();
  diagnostic.where = at.where;
  diagnostic.notes.insert(diagnostic.notes.end(), at.notes.begin(), at.notes.end());
}

Error placed(const Error& error, const ir::Function& function) {
  std::vector<Diagnostic> diagnostics = error.diagnostics();
  for (Diagnostic& diagnostic : diagnostics) {
    if (diagnostic.argument.empty() || diagnostic.where.line != 0 || !function.source) continue;
    const auto named = [&](const auto& one) { return one.name == diagnostic.argument; };
    const auto parameter = std::find_if(function.parameters.begin(), function.parameters.end(), named);
    const auto output = std::find_if(function.outputs.begin(), function.outputs.end(), named);
    diag::Span span;
    if (output != function.outputs.end()) {
      span = output->span;
    } else if (parameter != function.parameters.end()) {
      span = parameter->span;
    }
    if (span.known()) place(diagnostic, function.source, span);
  }
  return Error(std::move(diagnostics));
}

Result<Problem> gather_problem(const GemmArguments& arguments) {
  Problem problem;
  if (auto gathered = gather(problem, arguments); !gathered)
    return problem.function ? placed(gathered.error(), *problem.function) : std::move(gathered).error();
  return problem;
}

Result<void> bind_problem(Problem& problem) {
  CODETTA_TRY(problem.bound, ir::bind_epilogue(*problem.function, problem.arguments, problem.facts));
  problem.layouts = layouts_of(problem.bound, problem.tensors);
  return {};
}

Result<Problem> make_problem(const GemmArguments& arguments) {
  CODETTA_TRY(Problem problem, gather_problem(arguments));
  CODETTA_CHECK_OK(bind_problem(problem));
  return problem;
}

Result<opt::Optimized> optimize_problem(const Problem& problem, const opt::RunOptions& options) {
  CODETTA_TRY(opt::Optimized optimized, opt::optimize(problem.bound, options));
  if (ir::matmuls(optimized.graph).empty()) {
    optimized.graph = problem.bound;
    optimized.passes.clear();
  }
  return optimized;
}

bool binds_alike(const Problem& bound, const Problem& other) {
  const auto same_layouts = [&] {
    const auto layouts = layouts_of(bound.bound, other.tensors);
    return std::equal(layouts.begin(), layouts.end(), bound.layouts.begin(), bound.layouts.end(),
                      [](const auto& x, const auto& y) { return x.unit_stride == y.unit_stride; });
  };
  return bound.function == other.function && bound.facts == other.facts && bound.arguments == other.arguments &&
         bound.strict == other.strict && bound.math == other.math && same_layouts();
}

}  // namespace codetta::driver

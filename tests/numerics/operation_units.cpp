// SPDX-License-Identifier: Apache-2.0
// The matrix: operation x dtype x operand form. An operation is an expression over x (of the form under test), y (one
// value an element) and p (as x, positive). Reductions and conversions take every form too; moves of elements are the
// same loads and stores at other places, so they take values of their own, of a batch and the accumulator.
#include <algorithm>
#include <array>
#include <functional>
#include <string_view>

#include <fmt/format.h>

#include "types/dtype.hpp"
#include "unit.hpp"

namespace codetta::numerics {
namespace {

enum class Kind : uint8_t {
  Arithmetic,  // in the operands' own type
  Real,        // integers become f32
  Truth        // gives bool
};
enum class Takes : uint8_t { All, Numbers, Floats, Truths };

struct Operation {
  std::string_view name;
  std::string_view expression;
  Kind kind;
  Takes takes = Takes::All;
};

constexpr Operation arithmetic[] = {
    {"add", "x + y", Kind::Arithmetic},
    {"sub", "y - x", Kind::Arithmetic},
    {"mul", "x * y", Kind::Arithmetic},
    {"div", "y / x", Kind::Real},
    {"floordiv", "y // x", Kind::Arithmetic, Takes::Numbers},
    {"mod", "y % x", Kind::Arithmetic, Takes::Numbers},
    {"neg", "-x", Kind::Arithmetic, Takes::Numbers},
    {"one_of", "x ** 0", Kind::Arithmetic, Takes::Numbers},
    {"square", "x ** 2", Kind::Arithmetic, Takes::Numbers},
    {"cube", "x ** 3", Kind::Arithmetic, Takes::Numbers},
    {"seventh", "x ** 7", Kind::Arithmetic, Takes::Numbers},
    {"power", "p ** y", Kind::Arithmetic, Takes::Floats},
    {"inverse_square", "p ** -2", Kind::Arithmetic, Takes::Floats},
    {"root", "p ** 0.5", Kind::Arithmetic, Takes::Floats},
    {"multiply_add", "multiply_add(x, y, x)", Kind::Arithmetic},
    {"minimum", "minimum(x, y)", Kind::Arithmetic, Takes::Numbers},
    {"maximum", "maximum(y, x)", Kind::Arithmetic, Takes::Numbers},
    {"clamp", "clamp(y, -p, x)", Kind::Arithmetic, Takes::Numbers},
    {"bounded", "clamp(x, min=1, max=20)", Kind::Arithmetic, Takes::Numbers},
    {"abs", "abs(x)", Kind::Arithmetic, Takes::Numbers},
    {"sign", "sign(x)", Kind::Arithmetic, Takes::Numbers},
    {"floor", "floor(x)", Kind::Arithmetic, Takes::Numbers},
    {"ceil", "ceil(x)", Kind::Arithmetic, Takes::Numbers},
    {"round", "round(x)", Kind::Arithmetic, Takes::Numbers},
    {"trunc", "trunc(x)", Kind::Arithmetic, Takes::Numbers},
    {"relu", "relu(x)", Kind::Arithmetic, Takes::Numbers},
    {"drelu", "drelu(x)", Kind::Arithmetic, Takes::Numbers},
    {"eq", "x == y", Kind::Truth},
    {"ne", "x != y", Kind::Truth},
    {"lt", "x < y", Kind::Truth},
    {"le", "x <= y", Kind::Truth},
    {"gt", "x > y", Kind::Truth},
    {"ge", "x >= y", Kind::Truth},
    {"both", "(x > 0) & (y > 0)", Kind::Truth, Takes::Numbers},
    {"either", "x | y", Kind::Truth, Takes::Truths},
    {"one", "x ^ y", Kind::Truth, Takes::Truths},
    {"and_", "x & y", Kind::Truth, Takes::Truths},
    {"none", "~x", Kind::Truth, Takes::Truths},
    {"choice", "where(x > y, x, y)", Kind::Arithmetic, Takes::Numbers},
    {"pick", "where(x, y, x)", Kind::Truth, Takes::Truths},
    {"literal", "x + 3", Kind::Arithmetic, Takes::Numbers},
};

constexpr Operation reals[] = {
    {"exp", "exp(x)", Kind::Real},
    {"exp2", "exp2(x)", Kind::Real},
    {"expm1", "expm1(x)", Kind::Real},
    {"log", "log(p)", Kind::Real},
    {"log2", "log2(p)", Kind::Real},
    {"log1p", "log1p(p)", Kind::Real},
    {"sqrt", "sqrt(p)", Kind::Real},
    {"rsqrt", "rsqrt(p)", Kind::Real},
    {"reciprocal", "reciprocal(x)", Kind::Real},
    {"sin", "sin(x)", Kind::Real},
    {"cos", "cos(x)", Kind::Real},
    {"tanh", "tanh(x)", Kind::Real},
    {"erf", "erf(x)", Kind::Real},
    {"sigmoid", "sigmoid(x)", Kind::Real},
    {"silu", "silu(x)", Kind::Real},
    {"gelu", "gelu(x)", Kind::Real},
    {"gelu_tanh", "gelu(x, approximate=\"tanh\")", Kind::Real},
    {"softplus", "softplus(x)", Kind::Real},
    {"softplus_beta", "softplus(x, beta=2.0, threshold=3.0)", Kind::Real},
    {"elu", "elu(x, alpha=0.5)", Kind::Real},
    {"leaky_relu", "leaky_relu(x, negative_slope=0.1)", Kind::Real},
    {"hardswish", "hardswish(x)", Kind::Real},
    {"hardsigmoid", "hardsigmoid(x)", Kind::Real},
    {"hardtanh", "hardtanh(x, min_val=-0.5, max_val=0.75)", Kind::Real},
    {"relu6", "relu6(x * 4.0)", Kind::Real},
    {"mish", "mish(x)", Kind::Real},
    {"dsigmoid", "dsigmoid(x)", Kind::Real},
    {"dtanh", "dtanh(x)", Kind::Real},
    {"dsilu", "dsilu(x)", Kind::Real},
    {"dgelu", "dgelu(x)", Kind::Real},
    {"dgelu_tanh", "dgelu(x, approximate=\"tanh\")", Kind::Real},
    {"mixed", "sigmoid(x) * y", Kind::Real},
    {"dropout", "dropout(x, 0.25, 7)", Kind::Real},
    {"dropout_none", "dropout(x, 0.0, 7)", Kind::Real},
    {"dropout_all", "dropout(x, 1.0, 7)", Kind::Real},
};

enum class Form : uint8_t { Full, Row, Column, Scalar, Batch, Accumulator, Pair };
constexpr std::array<std::string_view, 7> form_names = {"full",  "row",         "column", "scalar",
                                                        "batch", "accumulator", "pair"};
constexpr Form operand_forms[] = {Form::Full, Form::Row, Form::Column, Form::Scalar, Form::Batch};
constexpr Form accumulator_forms[] = {Form::Accumulator, Form::Pair};

bool is_accumulator(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64;
}

constexpr int64_t m_size = 7, n_size = 42, k_size = 5, batch_size = 3;

bool takes(Takes what, DType dtype) {
  switch (what) {
    case Takes::All:
      return true;
    case Takes::Numbers:
      return dtype != DType::boolean;
    case Takes::Floats:
      return types::is_float(dtype);
    case Takes::Truths:
      return dtype == DType::boolean;
  }
  return false;
}

DType result_of(Kind kind, DType dtype) {
  switch (kind) {
    case Kind::Truth:
      return DType::boolean;
    case Kind::Real:
      return dtype == DType::f64 ? DType::f64 : DType::f32;
    case Kind::Arithmetic:
      break;
  }
  return dtype == DType::boolean ? DType::i32 : types::compute_dtype(dtype);
}

// Whether the expression mentions the one-letter name.
bool mentions(std::string_view expression, char name) {
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (size_t i = 0; i < expression.size(); ++i) {
    const bool starts = i == 0 || !is_word(expression[i - 1]),
               ends = i + 1 == expression.size() || !is_word(expression[i + 1]);
    if (expression[i] == name && starts && ends) return true;
  }
  return false;
}

DType factor_of(DType accumulator) {
  switch (accumulator) {
    case DType::i32:
      return DType::i8;
    case DType::i64:
      return DType::i16;
    default:
      return accumulator;
  }
}

// A unit without outputs: sizes, and operands x, y, p in this form.
struct Frame {
  Unit unit;
  Dims shape, full;  // of x and of an element-wise result
  std::string prelude;

  Frame(DType dtype, Form form) {
    unit.m = m_size;
    unit.n = n_size;
    unit.k = k_size;
    const bool batched = form == Form::Batch;
    unit.batch = batched ? batch_size : 0;
    full = batched ? Dims{batch_size, m_size, n_size} : Dims{m_size, n_size};
    if (form == Form::Accumulator || form == Form::Pair) {
      unit.a = unit.b = factor_of(dtype);
      shape = full = form == Form::Pair ? Dims{m_size, n_size / 2} : full;
      prelude = form == Form::Pair ? "    x, y = split(accum, 2)\n" : "    x = accum\n";
      prelude += types::is_float(dtype) ? "    p = abs(x) + 0.25\n" : "    p = abs(x) + 1\n";
      if (form == Form::Accumulator) unit.operands.push_back({"y", dtype, full});
      return;
    }
    constexpr int64_t m = m_size, n = n_size;
    shape = form == Form::Full     ? full
            : form == Form::Row    ? Dims{n}
            : form == Form::Column ? Dims{m, 1}
            : form == Form::Scalar ? Dims{1}
                                   : Dims{batch_size, 1, 1};
    unit.operands = {{"x", dtype, shape}, {"p", dtype, shape, true}, {"y", dtype, full}};
    unit.outputs.push_back({"accum", DType::f32, full});
  }

  // Leaves out what the body does not mention, and writes the text.
  Unit finish(const std::string& body) {
    const auto unused = [&](const Operand& o) { return !mentions(body, o.name[0]); };
    unit.operands.erase(std::remove_if(unit.operands.begin(), unit.operands.end(), unused), unit.operands.end());
    std::string parameters = "accum", results;
    for (const Operand& operand : unit.operands) parameters += ", " + operand.name;
    for (const Output& output : unit.outputs) results += (results.empty() ? "" : ", ") + output.name;
    unit.text = "def cell(" + parameters + "):\n" + prelude + body + "    return " + results + "\n";
    return unit;
  }
};

Unit operations(DType dtype, Form form, std::span<const Operation> list, std::string_view group) {
  Frame frame(dtype, form);
  std::string body;
  for (const Operation& operation : list) {
    if (!takes(operation.takes, dtype)) continue;
    body += fmt::format("    o_{} = {}\n", operation.name, operation.expression);
    const bool whole = mentions(operation.expression, 'y');
    frame.unit.outputs.push_back(
        {fmt::format("o_{}", operation.name), result_of(operation.kind, dtype), whole ? frame.full : frame.shape});
    ++frame.unit.operations;
  }
  frame.unit.name = fmt::format("{} {} {}", dtype_name(dtype), form_names[static_cast<size_t>(form)], group);
  return frame.finish(body);
}

void add_refused(std::vector<Unit>& units, DType dtype) {
  for (const Operation& operation : arithmetic) {
    if (operation.takes != Takes::Truths || takes(operation.takes, dtype)) continue;
    Frame frame(dtype, Form::Full);
    frame.unit.outputs.push_back({"o", DType::boolean, frame.full});
    frame.unit.name = fmt::format("{} refused {}", dtype_name(dtype), operation.name);
    frame.unit.refused = true;
    frame.unit.operations = 1;
    units.push_back(frame.finish(fmt::format("    o = {}\n", operation.expression)));
  }
}

// cast to every dtype and store to every dtype, scaled so that ranges are left.
Unit conversions(DType dtype, Form form) {
  Frame frame(dtype, form);
  std::string body;
  for (int d = 0; d < dtype_count; ++d) {
    const auto to = static_cast<DType>(d);
    const char* value = types::is_float(dtype) ? "x * 100" : "x";
    body += fmt::format("    c_{0} = cast({1}, {0})\n    s_{0} = {1}\n", dtype_name(to), value);
    frame.unit.outputs.push_back({fmt::format("c_{}", dtype_name(to)), to, frame.shape});
    frame.unit.outputs.push_back({fmt::format("s_{}", dtype_name(to)), to, frame.shape});
    frame.unit.operations += 2;
  }
  frame.unit.name = fmt::format("{} {} conversions", dtype_name(dtype), form_names[static_cast<size_t>(form)]);
  return frame.finish(body);
}

constexpr std::string_view reductions[] = {"sum", "max", "min", "mean", "amax", "sum_of_squares", "logsumexp"};

// Takes x through the product's tiles without a change of its values: work on operands alone is not fused.
constexpr std::string_view through_tiles = "    v = where(accum > -1e30, x, y)\n";

// One value an element, made of values of the form.
std::string_view value_of(Form form) {
  switch (form) {
    case Form::Full:
      return through_tiles;
    case Form::Accumulator:
      return "    v = x * 1\n";
    case Form::Pair:
      return "    v = maximum(x, y)\n";
    default:  // beside values that differ from element to element, so that no two rows or columns reduce to the same
      return "    v = where((accum > -1e30) & (col_index() >= row_index()), x, y)\n";
  }
}

Unit reduced(DType dtype, Form form, bool as_value) {
  Frame frame(dtype, form);
  const bool batched = form == Form::Batch;
  std::string body(value_of(form));
  for (const std::string_view name : reductions) {
    const bool real = name == "mean" || name == "logsumexp";
    const DType type = result_of(real ? Kind::Real : Kind::Arithmetic, dtype);
    if (dtype == DType::boolean && name != "sum" && !real) continue;
    for (const std::string_view axis : {"row", "column", "all", "item"}) {
      const std::string output = fmt::format("o_{}_{}", name, axis);
      const std::string over = axis == "item" ? "dim=(-2, -1)" : fmt::format("axis=\"{}\"", axis);
      body += fmt::format("    {} = {}{}(v, {})\n", output, as_value ? "y - " : "", name, over);
      const int64_t items = axis == "all" ? 1 : batch_size, rows = axis == "row" ? m_size : 1,
                    columns = axis == "column" ? (form == Form::Pair ? n_size / 2 : n_size) : 1;
      const Dims one = batched ? Dims{items, rows, columns} : Dims{rows, columns};
      frame.unit.outputs.push_back({output, type, as_value ? frame.full : one});
      ++frame.unit.operations;
    }
  }
  frame.unit.name = fmt::format("{} {} reductions{}", dtype_name(dtype), form_names[static_cast<size_t>(form)],
                                as_value ? " as values" : "");
  return frame.finish(body);
}

// Moves of elements, which round nothing: outputs keep the dtype.
Unit layout(DType dtype, Form form, std::string_view name, const std::string& body, const Dims& shape) {
  Frame frame(dtype, form);
  frame.unit.outputs = {{"o", dtype, shape}};
  frame.unit.operations = 1;
  frame.unit.name = fmt::format("{} {} layout {}", dtype_name(dtype), form_names[static_cast<size_t>(form)], name);
  return frame.finish(std::string(value_of(form)) + body);
}

void add_layouts(std::vector<Unit>& units, DType dtype, Form form) {
  const int64_t m = m_size, n = n_size;
  const bool batched = form == Form::Batch;
  const auto add = [&](std::string_view name, const std::string& body, const Dims& shape) {
    units.push_back(layout(dtype, form, name, body, shape));
  };
  const auto matrix = [&](int64_t rows, int64_t columns) {
    return batched ? Dims{batch_size, rows, columns} : Dims{rows, columns};
  };
  add("join", "    a, b = split(v, 2)\n    o = join(b, a)\n", matrix(m, n));
  add("interleave", "    a, b = split(v, 2)\n    o = join(b, a, interleave=True)\n", matrix(m, n));
  add("thirds", "    a, b, c = split(v, 3)\n    o = join(c, a)\n", matrix(m, n * 2 / 3));
  add("transpose", fmt::format("    o = permute(v, ({}))\n", batched ? "0, 2, 1" : "1, 0"), matrix(n, m));
  if (batched) {
    add("heads", fmt::format("    o = permute(reshape(v, ({}, -1, 2, {})), (0, 2, 1, 3))\n", batch_size, n / 2),
        {batch_size, 2, m, n / 2});
  } else {
    add("heads", fmt::format("    o = permute(reshape(v, (-1, 2, {})), (1, 0, 2))\n", n / 2), {2, m, n / 2});
  }
}

Unit positions(bool batched) {
  Frame frame(DType::f32, batched ? Form::Batch : Form::Full);
  frame.unit.outputs.push_back({"o", DType::i64, frame.full});
  frame.unit.outputs.push_back({"kept", DType::f32, frame.full});
  frame.unit.operations = 4;
  frame.unit.name = batched ? "batch positions" : "full positions";
  return frame.finish(
      "    o = (batch_index() * 100 + row_index()) * 1000 + col_index()\n"
      "    kept = dropout(where(col_index() <= row_index(), y, -y), 0.4, 123456789012)\n");
}

}  // namespace

std::vector<Unit> operation_units() {
  std::vector<Unit> units;
  const auto add_form = [&](DType dtype, Form form) {
    units.push_back(operations(dtype, form, arithmetic, "arithmetic"));
    units.push_back(operations(dtype, form, reals, "reals"));
    for (const bool as_value : {false, true}) units.push_back(reduced(dtype, form, as_value));
    units.push_back(conversions(dtype, form));
  };
  for (int d = 0; d < dtype_count; ++d) {
    const auto dtype = static_cast<DType>(d);
    for (const Form form : operand_forms) add_form(dtype, form);
    for (const Form form : {Form::Full, Form::Batch}) add_layouts(units, dtype, form);
    if (is_accumulator(dtype)) {
      for (const Form form : accumulator_forms) add_form(dtype, form);
      add_layouts(units, dtype, Form::Accumulator);
    }
    add_refused(units, dtype);
  }
  units.push_back(positions(false));
  units.push_back(positions(true));
  return units;
}

}  // namespace codetta::numerics

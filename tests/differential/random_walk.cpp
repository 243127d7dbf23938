// SPDX-License-Identifier: Apache-2.0
#include "differential/random_walk.hpp"

#include <algorithm>

namespace codetta::test {

bool broadcast(const Shape& x, const Shape& y, Shape& out) {
  out.assign(std::max(x.size(), y.size()), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t a = i < x.size() ? x[x.size() - 1 - i] : 1, b = i < y.size() ? y[y.size() - 1 - i] : 1;
    if (a != b && a != 1 && b != 1) return false;
    out[out.size() - 1 - i] = a == 1 ? b : a;
  }
  return true;
}

void Walk::run() {
  factors();
  layout_ = one_in(4);
  if (layout_) {
    spec_.fixed_n = std::array<int64_t, 6>{8, 12, 16, 24, 48, 64}[pick(6)];
    if (spec_.batched)
      spec_.fixed_batch = 2 + static_cast<int64_t>(pick(2));  // of size 1 a dim may be left out only where it is known
  }
  Value accum;
  accum.shape = {dim_m, spec_.fixed_n != 0 ? spec_.fixed_n : dim_n};
  if (spec_.batched) accum.shape.insert(accum.shape.begin(), spec_.fixed_batch != 0 ? spec_.fixed_batch : dim_batch);
  accum.kind = spec_.a == DType::i8 || spec_.a == DType::u8 ? Kind::Int : Kind::Float;
  accum.of_accum = true;
  values_.push_back(accum);
  if (layout_ && one_in(4)) pair_form();
  const size_t steps = 1 + pick(9);
  for (size_t i = 0; i < steps; ++i) step();
}

void Walk::factors() {
  const std::array<DType, 12> types = {DType::f32, DType::f32,    DType::f32,    DType::bf16, DType::bf16, DType::f16,
                                       DType::f64, DType::f8e4m3, DType::f8e5m2, DType::i8,   DType::u8,   DType::i8};
  spec_.a = spec_.b = types[pick(types.size())];
  if (spec_.a == DType::i8 || spec_.a == DType::u8) {
    spec_.b = one_in(2) ? DType::i8 : DType::u8;
  } else if (one_in(6)) {
    spec_.b = types[pick(9)];
  }
  spec_.batched = one_in(4);
}

size_t Walk::some() {
  const size_t n = values_.size();
  return one_in(3) ? pick(n) : n - 1 - pick(std::min<size_t>(n, 3));
}
size_t Walk::some_of(Kind kind, size_t otherwise) {
  for (int i = 0; i < 6; ++i) {
    const size_t id = some();
    if (values_[id].kind == kind) return id;
  }
  return otherwise;
}
size_t Walk::number() {
  const size_t id = some();
  return values_[id].kind == Kind::Bool ? 0 : id;
}

size_t Walk::add(std::string expression, std::vector<size_t> uses, Kind kind) {
  Value value;
  for (const size_t use : uses) {
    Shape shape;
    if (!broadcast(value.shape, values_[use].shape, shape)) return 0;
    value.shape = std::move(shape);
    value.of_accum = value.of_accum || values_[use].of_accum;
  }
  value.expression = std::move(expression);
  value.uses = std::move(uses);
  value.kind = kind;
  values_.push_back(std::move(value));
  return values_.size() - 1;
}
size_t Walk::add_shaped(std::string expression, size_t use, Kind kind, Shape shape) {
  const size_t id = add(std::move(expression), {use}, kind);
  values_[id].shape = std::move(shape);
  return id;
}

size_t Walk::operand(size_t like) {
  if (one_in(5)) {
    ParameterSpec parameter;
    parameter.name = "p" + std::to_string(spec_.parameters.size());
    parameter.is_number = true;
    parameter.integral = one_in(3);
    parameter.number = parameter.integral ? static_cast<double>(pick(9)) - 3 : static_cast<double>(pick(40)) / 16 - 1.0;
    if (parameter.integral && one_in(8)) parameter.number = one_in(2) ? 3e10 : -70000;  // i64 and i32 only
    Value value;
    value.kind = parameter.integral ? Kind::Int : Kind::Float;
    value.operand = static_cast<int>(spec_.parameters.size());
    spec_.parameters.push_back(std::move(parameter));
    values_.push_back(std::move(value));
    return values_.size() - 1;
  }
  DType dtype = static_cast<DType>(pick(dtype_count));
  if (one_in(2)) dtype = std::array<DType, 4>{DType::f32, DType::bf16, DType::f16, DType::f32}[pick(4)];
  Shape shape = values_[like].shape;
  if (!one_in(3)) {
    for (int64_t& dim : shape) {
      if (one_in(3)) dim = 1;
    }
    while (!shape.empty() && one_in(5)) shape.erase(shape.begin());
  }
  return operand(dtype, shape);
}
size_t Walk::operand(DType dtype, const Shape& shape) {
  ParameterSpec parameter;
  parameter.name = "p" + std::to_string(spec_.parameters.size());
  parameter.dtype = dtype;
  parameter.shape = shape;
  Value value;
  value.kind = dtype == DType::boolean ? Kind::Bool : dtype <= DType::u64 ? Kind::Int : Kind::Float;
  value.shape = shape;
  value.operand = static_cast<int>(spec_.parameters.size());
  spec_.parameters.push_back(std::move(parameter));
  values_.push_back(std::move(value));
  return values_.size() - 1;
}

std::string Walk::literal(bool real) {
  if (real) return word<8>({"0.5", "2.0", "1.5", "0.1", "3.0", "1e-3", "0.25", "-0.75"});
  if (one_in(6)) return word<5>({"200", "300", "-129", "70000", "5000000000"});  // beyond the narrow types
  return word<6>({"3", "2", "7", "5", "1", "-2"});
}
std::string Walk::literal_for(Kind kind) { return literal(kind == Kind::Float); }

void Walk::step() {
  switch (pick(layout_ ? 21 : 16)) {
    case 0:
    case 1:
      return arithmetic();
    case 2:
    case 3:
      return function();
    case 4: {
      const size_t x = number();
      add(word<10>({"relu", "abs", "sign", "floor", "ceil", "round", "trunc", "drelu", "identity", "-"}) + "(" +
              ref(x) + ")",
          {x}, values_[x].kind);
      return;
    }
    case 5:
      return comparison();
    case 6:
      return logic();
    case 7:
      return bounds();
    case 8: {
      const size_t x = some();
      const DType to = static_cast<DType>(pick(dtype_count));
      const std::string name(dtype_name(to));
      add("cast(" + ref(x) + ", " + (one_in(3) ? "\"" + name + "\"" : name) + ")", {x},
          to == DType::boolean ? Kind::Bool
          : to <= DType::u64   ? Kind::Int
                               : Kind::Float);
      return;
    }
    case 9:
    case 10:
      return reduction();
    case 11:
      return rare();
    case 12: {
      const size_t x = number(), y = other(x), z = other(x);
      add("multiply_add(" + ref(x) + ", " + ref(y) + ", " + ref(z) + ")", {x, y, z},
          joined(joined(values_[x].kind, values_[y].kind), values_[z].kind));
      return;
    }
    case 13:
      return division();
    case 14:
      return optional_arguments();
    case 15:
      return one_in(3) ? normalization() : step();
    case 16:
    case 17:
      return pair_form();
    default:
      return layout();
  }
}

void Walk::arithmetic() {
  const size_t x = number();
  if (one_in(2)) {
    const size_t y = other(x);
    add(ref(x) + word<4>({" + ", " - ", " * ", " + "}) + ref(y), {x, y}, joined(values_[x].kind, values_[y].kind));
    return;
  }
  const bool real = !one_in(3);
  const std::string op = word<4>({" * ", " + ", " - ", " * "});
  add(one_in(4) ? literal(real) + op + ref(x) : ref(x) + op + literal(real), {x}, real ? Kind::Float : values_[x].kind);
}

void Walk::function() {
  const size_t x = number();
  const std::string scale = one_in(2) ? " * 0.125" : "";
  if (one_in(16)) {
    add(word<2>({"gelu(", "dgelu("}) + ref(x) + ", approximate=\"tanh\")", {x}, Kind::Float);
    return;
  }
  const std::string name = word<29>(
      {"exp",         "exp2",     "expm1", "tanh",  "erf",   "sigmoid", "silu",  "gelu",     "mish", "hardswish",
       "hardsigmoid", "dsigmoid", "dtanh", "dsilu", "dgelu", "sin",     "cos",   "softplus", "elu",  "leaky_relu",
       "reciprocal",  "sqrt",     "log",   "log1p", "log2",  "rsqrt",   "relu6", "hardtanh", "gelu"});
  const bool keeps = name == "relu6" && scale.empty();  // an integer
  add(name + "(" + ref(x) + scale + ")", {x}, keeps ? joined(values_[x].kind, Kind::Int) : Kind::Float);
}

// Functions with further arguments, by position or by name, literals or values.
void Walk::optional_arguments() {
  const size_t x = number();
  switch (pick(5)) {
    case 0:
      add("softplus(" + ref(x) + word<3>({", beta=2.0)", ", 0.5, 10.0)", ", threshold=1.0)"}), {x}, Kind::Float);
      return;
    case 1:
      add("hardtanh(" + ref(x) + word<3>({", -2.0, 0.5)", ", max_val=3.0)", ", min_val=0.25)"}), {x}, Kind::Float);
      return;
    case 2: {
      const size_t y = other(x);
      if (values_[y].kind == Kind::Bool) return;
      add(word<2>({"elu(", "leaky_relu("}) + ref(x) + ", " + ref(y) + ")", {x, y}, Kind::Float);
      return;
    }
    case 3:
      add(one_in(2) ? "elu(" + ref(x) + ", alpha=0.5)" : "leaky_relu(" + ref(x) + ", negative_slope=0.125)", {x},
          Kind::Float);
      return;
    default: {
      const size_t y = other(x), z = other(x);
      add("clamp(" + ref(x) + ", " + ref(y) + ", max=" + ref(z) + ")", {x, y, z},
          joined(joined(values_[x].kind, values_[y].kind), values_[z].kind));
    }
  }
}

void Walk::comparison() {
  const size_t x = number(), y = other(x);
  const std::string op = word<7>({" < ", " <= ", " > ", " >= ", " == ", " != ", " > "});
  const size_t test = one_in(2) ? add(ref(x) + op + ref(y), {x, y}, Kind::Bool)
                                : add(ref(x) + op + literal(!one_in(4)), {x}, Kind::Bool);
  if (one_in(2)) choose(test);
}

void Walk::logic() {
  const size_t x = some_of(Kind::Bool, values_.size());
  if (x == values_.size()) return step();
  const size_t y = some_of(Kind::Bool, x);
  if (one_in(3)) {
    add("~" + ref(x), {x}, Kind::Bool);
  } else if (one_in(6)) {
    add(ref(x) + word<3>({" & True", " | False", " ^ True"}), {x}, Kind::Bool);
  } else {
    add(ref(x) + word<3>({" & ", " | ", " ^ "}) + ref(y), {x, y}, Kind::Bool);
  }
}

void Walk::bounds() {
  const size_t x = number(), y = other(x);
  if (one_in(2)) {
    add(word<2>({"minimum(", "maximum("}) + ref(x) + ", " + ref(y) + ")", {x, y},
        joined(values_[x].kind, values_[y].kind));
    return;
  }
  if (one_in(5)) {  // as quantization does
    add("clamp(round(" + ref(x) + " * 8.0), -128, 127)", {x}, Kind::Float);
    return;
  }
  const bool real = one_in(2);
  const std::string low = real ? "-1.5" : "-100", high = real ? "2.5" : "100";
  const std::string bounds =
      std::array<std::string, 3>{"min=" + low, "max=" + high, "min=" + low + ", max=" + high}[pick(3)];
  add("clamp(" + ref(x) + ", " + bounds + ")", {x}, real ? Kind::Float : values_[x].kind);
}

void Walk::division() {
  const size_t x = number(), y = other(x);
  const std::string op = word<3>({" / ", " // ", " % "});
  const bool by_literal = one_in(2);
  const Kind kind = op == " / " ? Kind::Float : joined(values_[x].kind, by_literal ? Kind::Int : values_[y].kind);
  if (by_literal) {
    add(ref(x) + op + literal(false), {x}, kind);
  } else {
    add(ref(x) + op + ref(y), {x, y}, kind);
  }
}

void Walk::choose(size_t test) {
  if (test == 0) return;
  const size_t x = number(), y = other(x);
  if (x == y) return;
  if (one_in(3)) {
    const std::string otherwise = one_in(5) ? word<2>({"-inf", "inf"}) : literal(true);
    add("where(" + ref(test) + ", " + ref(x) + ", " + otherwise + ")", {test, x}, Kind::Float);
  } else {
    const Kind kind = values_[x].kind == values_[y].kind ? values_[x].kind : joined(values_[x].kind, values_[y].kind);
    add("where(" + ref(test) + ", " + ref(x) + ", " + ref(y) + ")", {test, x, y}, kind);
  }
}

void Walk::rare() {
  const size_t x = number();
  const Kind kind = values_[x].kind;
  switch (pick(4)) {
    case 0:
      if (values_[x].shape != values_[0].shape) return;
      add("dropout(" + ref(x) + ", " + word<3>({"0.25", "p=0.5", "0.1"}) + ", " + (one_in(2) ? "seed=" : "seed=-") +
              std::to_string(random_() >> 2) + ")",
          {x}, Kind::Float);
      return;
    case 1: {
      if (values_[x].shape.size() < 2) return;
      // They count in the value's shape; where that has size 1, in the accumulator's.
      const size_t which = pick(values_[x].shape.size() == 3 && spec_.batched ? 3 : 2);
      const Shape& whole = values_[0].shape;
      Shape shape = values_[x].shape;
      int64_t& dim = shape[shape.size() - 1 - which];
      const int64_t own = whole[whole.size() - 1 - which];
      if (dim != 1 && dim != own) return;  // permuted: only its size says whether it is 1
      dim = own;
      const char* name = std::array<const char*, 3>{"col_index()", "row_index()", "batch_index()"}[which];
      add_shaped(ref(x) + word<2>({" + ", " * "}) + name, x, kind, shape);
      return;
    }
    case 2:
      if (values_[x].shape != values_[0].shape) return;
      add("where(col_index() <= row_index(), " + ref(x) + ", " + (kind == Kind::Float ? "-4.0" : "-4") + ")", {x},
          kind);
      return;
    default: {
      if (kind != Kind::Float || one_in(2)) {
        add(ref(x) + word<2>({" ** 2", " ** 3"}), {x}, kind);
        return;
      }
      const std::string magnitude = "abs(" + ref(x) + ")";
      const std::array<std::string, 4> forms = {magnitude + " ** 0.5", "pow(" + magnitude + ", 1.5)",
                                                "pow(2.0, " + ref(x) + " * 0.125)",
                                                "(" + magnitude + " + 0.5) ** -1.25"};
      add(forms[pick(4)], {x}, kind);
    }
  }
}

}  // namespace codetta::test

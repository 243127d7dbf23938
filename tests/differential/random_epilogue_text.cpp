// SPDX-License-Identifier: Apache-2.0
// A random walk over the language: each step makes a value of earlier ones; what no output needs is left out of the
// text.
#include "differential/random_epilogue_text.hpp"

#include <algorithm>
#include <array>
#include <random>
#include <set>

namespace codetta::test {
namespace {

using Shape = std::vector<int64_t>;
enum class Kind : uint8_t { Bool, Int, Float };

struct Value {
  std::string expression;  // "\x01" id "\x02" stands for a value; empty: an operand, accum, or a later part of a split
  std::vector<size_t> uses;
  Shape shape;
  Kind kind = Kind::Float;
  bool of_accum = false;
  int operand = -1;
  size_t parts_of = 0;  // of the later parts of a split: the first part
};

class Walk {
 public:
  explicit Walk(uint64_t seed) : random_(seed) {}

  EpilogueSpec run() {
    factors();
    layout_ = !spec_.batched && one_in(4);
    if (layout_) spec_.fixed_n = std::array<int64_t, 6>{8, 12, 16, 24, 48, 64}[pick(6)];
    Value accum;
    accum.shape = {dim_m, spec_.fixed_n != 0 ? spec_.fixed_n : dim_n};
    if (spec_.batched) accum.shape.insert(accum.shape.begin(), dim_batch);
    accum.kind = spec_.a == DType::i8 || spec_.a == DType::u8 ? Kind::Int : Kind::Float;
    accum.of_accum = true;
    values_.push_back(accum);
    const size_t steps = 1 + pick(9);
    for (size_t i = 0; i < steps; ++i) step();
    outputs();
    print();
    return std::move(spec_);
  }

 private:
  size_t pick(size_t below) { return static_cast<size_t>(random_() % below); }
  bool one_in(size_t n) { return pick(n) == 0; }
  template <size_t n>
  std::string word(const std::array<const char*, n>& words) {
    return words[pick(n)];
  }

  void factors() {
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

  static std::string ref(size_t id) {
    std::string text("\x01");
    text += std::to_string(id);
    text += '\x02';
    return text;
  }

  // Mostly what was made lately.
  size_t some() {
    const size_t n = values_.size();
    return one_in(3) ? pick(n) : n - 1 - pick(std::min<size_t>(n, 3));
  }
  size_t some_of(Kind kind, size_t otherwise) {
    for (int i = 0; i < 6; ++i) {
      const size_t id = some();
      if (values_[id].kind == kind) return id;
    }
    return otherwise;
  }
  size_t number() {  // a value that is no bool; accum at the worst
    const size_t id = some();
    return values_[id].kind == Kind::Bool ? 0 : id;
  }

  static bool broadcast(const Shape& x, const Shape& y, Shape& out) {
    out.assign(std::max(x.size(), y.size()), 1);
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t a = i < x.size() ? x[x.size() - 1 - i] : 1, b = i < y.size() ? y[y.size() - 1 - i] : 1;
      if (a != b && a != 1 && b != 1) return false;
      out[out.size() - 1 - i] = a == 1 ? b : a;
    }
    return true;
  }

  size_t add(std::string expression, std::vector<size_t> uses, Kind kind) {
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
  size_t add_shaped(std::string expression, size_t use, Kind kind, Shape shape) {
    const size_t id = add(std::move(expression), {use}, kind);
    values_[id].shape = std::move(shape);
    return id;
  }

  // A new operand that broadcasts against `like`, or a host number.
  size_t operand(size_t like) {
    ParameterSpec parameter;
    parameter.name = "p" + std::to_string(spec_.parameters.size());
    Value value;
    if (one_in(5)) {
      parameter.is_number = true;
      parameter.integral = one_in(3);
      parameter.number =
          parameter.integral ? static_cast<double>(pick(9)) - 3 : static_cast<double>(pick(40)) / 16 - 1.0;
      value.kind = parameter.integral ? Kind::Int : Kind::Float;
    } else {
      parameter.dtype = static_cast<DType>(pick(dtype_count));
      if (one_in(2)) parameter.dtype = std::array<DType, 4>{DType::f32, DType::bf16, DType::f16, DType::f32}[pick(4)];
      value.kind = parameter.dtype == DType::boolean ? Kind::Bool
                   : parameter.dtype <= DType::u64   ? Kind::Int
                                                     : Kind::Float;
      Shape shape = values_[like].shape;
      if (!one_in(3)) {
        for (int64_t& dim : shape) {
          if (one_in(3)) dim = 1;
        }
        while (!shape.empty() && one_in(5)) shape.erase(shape.begin());
      }
      parameter.shape = value.shape = shape;
    }
    value.operand = static_cast<int>(spec_.parameters.size());
    spec_.parameters.push_back(std::move(parameter));
    values_.push_back(std::move(value));
    return values_.size() - 1;
  }
  size_t other(size_t like) { return one_in(2) ? operand(like) : some(); }

  std::string literal(bool real) {
    if (real) return word<8>({"0.5", "2.0", "1.5", "0.1", "3.0", "1e-3", "0.25", "-0.75"});
    return word<6>({"3", "2", "7", "5", "1", "-2"});
  }
  static Kind joined(Kind x, Kind y) {
    if (x == Kind::Float || y == Kind::Float) return Kind::Float;
    return Kind::Int;
  }

  void step() {
    switch (pick(layout_ ? 18 : 14)) {
      case 0: {
        const size_t x = number(), y = other(x);
        add(ref(x) + word<4>({" + ", " - ", " * ", " + "}) + ref(y), {x, y}, joined(values_[x].kind, values_[y].kind));
        return;
      }
      case 1: {
        const size_t x = number();
        const bool real = !one_in(3);
        add(ref(x) + word<4>({" * ", " + ", " - ", " * "}) + literal(real), {x}, real ? Kind::Float : values_[x].kind);
        return;
      }
      case 2:
      case 3: {
        const size_t x = number();
        const std::string scale = one_in(2) ? " * 0.125" : "";
        if (one_in(16)) {
          add(word<2>({"gelu(", "dgelu("}) + ref(x) + ", approximate=\"tanh\")", {x}, Kind::Float);
          return;
        }
        add(word<29>({"exp",  "exp2",      "expm1",       "tanh",       "erf",        "sigmoid", "silu",  "gelu",
                      "mish", "hardswish", "hardsigmoid", "dsigmoid",   "dtanh",      "dsilu",   "dgelu", "sin",
                      "cos",  "softplus",  "elu",         "leaky_relu", "reciprocal", "sqrt",    "log",   "log1p",
                      "log2", "rsqrt",     "relu6",       "hardtanh",   "gelu"}) +
                "(" + ref(x) + scale + ")",
            {x}, Kind::Float);
        return;
      }
      case 4: {
        const size_t x = number();
        add(word<10>({"relu", "abs", "sign", "floor", "ceil", "round", "trunc", "drelu", "identity", "-"}) + "(" +
                ref(x) + ")",
            {x}, values_[x].kind);
        return;
      }
      case 5: {
        const size_t x = number(), y = other(x);
        const std::string op = word<7>({" < ", " <= ", " > ", " >= ", " == ", " != ", " > "});
        const size_t test = one_in(2) ? add(ref(x) + op + ref(y), {x, y}, Kind::Bool)
                                      : add(ref(x) + op + literal(true), {x}, Kind::Bool);
        if (one_in(2)) choose(test);
        return;
      }
      case 6: {
        const size_t x = some_of(Kind::Bool, values_.size());
        if (x == values_.size()) return step();
        const size_t y = some_of(Kind::Bool, x);
        if (one_in(3)) {
          add("~" + ref(x), {x}, Kind::Bool);
        } else {
          add(ref(x) + word<3>({" & ", " | ", " ^ "}) + ref(y), {x, y}, Kind::Bool);
        }
        return;
      }
      case 7: {
        const size_t x = number(), y = other(x);
        if (one_in(2)) {
          add(word<2>({"minimum(", "maximum("}) + ref(x) + ", " + ref(y) + ")", {x, y},
              joined(values_[x].kind, values_[y].kind));
        } else {
          const bool real = one_in(2);
          const std::string low = real ? "-1.5" : "-100", high = real ? "2.5" : "100";
          const std::string bounds =
              std::array<std::string, 3>{"min=" + low, "max=" + high, "min=" + low + ", max=" + high}[pick(3)];
          add("clamp(" + ref(x) + ", " + bounds + ")", {x}, real ? Kind::Float : values_[x].kind);
        }
        return;
      }
      case 8: {
        const size_t x = some();
        const DType to = static_cast<DType>(pick(dtype_count));
        add("cast(" + ref(x) + ", " + std::string(dtype_name(to)) + ")", {x},
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
      case 13: {
        const size_t x = number(), y = other(x);
        const std::string op = word<3>({" / ", " // ", " % "});
        const bool by_literal = one_in(2);
        const Kind kind = op == " / " ? Kind::Float : joined(values_[x].kind, by_literal ? Kind::Int : values_[y].kind);
        if (by_literal) {
          add(ref(x) + op + literal(false), {x}, kind);
        } else {
          add(ref(x) + op + ref(y), {x, y}, kind);
        }
        return;
      }
      default:
        return layout();
    }
  }

  void choose(size_t test) {
    if (test == 0) return;
    const size_t x = number(), y = other(x);
    if (x == y) return;
    if (one_in(3)) {
      add("where(" + ref(test) + ", " + ref(x) + ", " + literal(true) + ")", {test, x}, Kind::Float);
    } else {
      const Kind kind = values_[x].kind == values_[y].kind ? values_[x].kind : joined(values_[x].kind, values_[y].kind);
      add("where(" + ref(test) + ", " + ref(x) + ", " + ref(y) + ")", {test, x, y}, kind);
    }
  }

  void reduction() {
    const size_t x = number();
    Shape shape = values_[x].shape;
    if (shape.size() < 2) return step();
    const std::string name = word<7>({"sum", "max", "min", "mean", "amax", "sum_of_squares", "logsumexp"});
    const Kind kind = name == "mean" || name == "logsumexp" ? Kind::Float : values_[x].kind;
    std::string over;
    switch (pick(5)) {
      case 0:
      case 1:
        over = one_in(2) ? ", axis=\"row\"" : ", dim=-1";
        shape.back() = 1;
        break;
      case 2:
      case 3:
        over = one_in(2) ? ", axis=\"column\"" : ", dim=-2";
        shape[shape.size() - 2] = 1;
        break;
      default:
        over = one_in(2) ? "" : ", axis=\"all\"";
        std::fill(shape.begin(), shape.end(), 1);
    }
    const size_t id = add_shaped(name + "(" + ref(x) + over + ")", x, kind, shape);
    if (one_in(2)) add(ref(x) + word<3>({" - ", " * ", " + "}) + ref(id), {x, id}, joined(values_[x].kind, kind));
  }

  void rare() {
    const size_t x = number();
    switch (pick(4)) {
      case 0:
        if (values_[x].shape != values_[0].shape) return;
        add("dropout(" + ref(x) + ", 0.25, " + std::to_string(random_() >> 2) + ")", {x}, Kind::Float);
        return;
      case 1:
        if (values_[x].shape.size() < 2) return;
        {
          // They count in the value's shape; where that has size 1, in the accumulator's.
          const size_t which = pick(values_[x].shape.size() == 3 && spec_.batched ? 3 : 2);
          const Shape& whole = values_[0].shape;
          Shape shape = values_[x].shape;
          int64_t& dim = shape[shape.size() - 1 - which];
          const int64_t own = whole[whole.size() - 1 - which];
          if (dim != 1 && dim != own) return;  // permuted: only its size says whether it is 1
          dim = own;
          const char* name = std::array<const char*, 3>{"col_index()", "row_index()", "batch_index()"}[which];
          add_shaped(ref(x) + word<2>({" + ", " * "}) + name, x, values_[x].kind, shape);
        }
        return;
      case 2: {
        if (values_[x].shape != values_[0].shape) return;
        add("where(col_index() <= row_index(), " + ref(x) + ", " + (values_[x].kind == Kind::Float ? "-4.0" : "-4") +
                ")",
            {x}, values_[x].kind);
        return;
      }
      default:
        add(values_[x].kind == Kind::Float && one_in(2) ? "abs(" + ref(x) + ") ** 0.5"
                                                        : ref(x) + (one_in(2) ? " ** 2" : " ** 3"),
            {x}, values_[x].kind);
    }
  }

  void layout() {
    const size_t x = number();
    const Shape shape = values_[x].shape;
    if (shape.size() < 2) return step();
    const Kind kind = values_[x].kind;
    const int64_t last = shape.back();
    switch (pick(4)) {
      case 0: {
        if (last < 2 || last % 2 != 0) return step();
        const int64_t ways = last % 3 == 0 && one_in(3) ? 3 : 2;
        Shape part = shape;
        part.back() = last / ways;
        const size_t first = add_shaped("split(" + ref(x) + ", " + std::to_string(ways) + ", dim=-1)", x, kind, part);
        for (int64_t i = 1; i < ways; ++i) {
          Value later = values_[first];
          later.expression.clear();
          later.uses = {first};
          later.parts_of = first;
          values_.push_back(std::move(later));
        }
        values_[first].parts_of = first;
        if (one_in(2)) {
          add((one_in(2) ? "silu(" + ref(first) + ")" : ref(first)) + " * " + ref(first + 1), {first, first + 1},
              Kind::Float);
        } else {
          std::string parts = "tanh(" + ref(first) + ")";
          std::vector<size_t> uses{first};
          for (size_t i = 1; i < static_cast<size_t>(ways); ++i) {
            parts += ", " + ref(first + i);
            uses.push_back(first + i);
          }
          const size_t whole =
              add("join(" + parts + ", dim=-1" + (one_in(2) ? ", interleave=True)" : ")"), uses, Kind::Float);
          values_[whole].shape = shape;
        }
        return;
      }
      case 1: {
        if (shape.size() != 2 || last < 8) return step();
        const int64_t inner = one_in(2) ? 4 : 2;
        if (last % inner != 0) return step();
        Shape heads{shape[0], last / inner, inner};
        add_shaped("reshape(" + ref(x) + ", (-1, " + std::to_string(last / inner) + ", " + std::to_string(inner) + "))",
                   x, kind, heads);
        if (shape[0] != dim_m) values_.back().shape[0] = shape[0];
        return;
      }
      case 2: {
        if (shape.size() != 3 || shape[1] < 1 || last < 1) return step();
        add_shaped("reshape(" + ref(x) + ", (-1, " + std::to_string(shape[1] * last) + "))", x, kind,
                   {shape[0], shape[1] * last});
        return;
      }
      default: {
        std::vector<size_t> order(shape.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random_);
        std::string text = "permute(" + ref(x) + ", (";
        Shape to;
        for (size_t i = 0; i < order.size(); ++i) {
          text += (i == 0 ? "" : ", ") + std::to_string(order[i]);
          to.push_back(shape[order[i]]);
        }
        add_shaped(text + "))", x, kind, to);
      }
    }
  }

  void outputs() {
    std::vector<size_t> ids;
    const size_t wanted = 1 + (one_in(2) ? pick(4) : 0);
    for (size_t id = values_.size(); id-- > 0 && ids.size() < wanted;) {
      const Value& value = values_[id];
      if (value.operand >= 0 || !value.of_accum || (id == 0 && !ids.empty() && !one_in(4))) continue;
      if (ids.empty() || id == 0 || one_in(3)) ids.push_back(id);
    }
    if (ids.empty()) ids.push_back(0);
    const bool has_d = !one_in(5);
    for (size_t i = 0; i < ids.size(); ++i) {
      OutputSpec output;
      output.name = ids[i] == 0 ? "accum" : i == 0 && has_d ? "D" : "v" + std::to_string(ids[i]);
      names_.resize(values_.size());
      names_[ids[i]] = output.name;
      output.dtype = static_cast<DType>(pick(dtype_count));
      if (one_in(2)) output.dtype = std::array<DType, 3>{DType::f32, DType::bf16, spec_.a}[pick(3)];
      output.shape = values_[ids[i]].shape;
      spec_.outputs.push_back(output);
    }
    outputs_ = ids;
    if (one_in(6)) in_place();
  }

  // The first output overwrites an operand of its shape.
  void in_place() {
    OutputSpec& output = spec_.outputs[0];
    for (ParameterSpec& parameter : spec_.parameters) {
      if (parameter.is_number || parameter.shape != output.shape) continue;
      output.same_as = parameter.name;
      output.dtype = parameter.dtype;
      return;
    }
  }

  void print() {
    std::set<size_t> live;
    std::vector<size_t> work = outputs_;
    while (!work.empty()) {
      const size_t id = work.back();
      work.pop_back();
      if (!live.insert(id).second) continue;
      for (const size_t use : values_[id].uses) work.push_back(use);
      if (values_[id].parts_of == id && id != 0) {
        for (size_t other_id = id + 1; other_id < values_.size() && values_[other_id].parts_of == id; ++other_id)
          work.push_back(other_id);
      }
    }
    names_.resize(values_.size());
    std::vector<ParameterSpec> used;
    std::string head = "def epilogue(accum", body;
    names_[0] = "accum";
    for (const size_t id : live) {
      const Value& value = values_[id];
      if (value.operand >= 0) {
        used.push_back(spec_.parameters[static_cast<size_t>(value.operand)]);
        names_[id] = used.back().name;
        head += ", " + used.back().name;
      } else if (names_[id].empty()) {
        names_[id] = "v" + std::to_string(id);
      }
    }
    for (const size_t id : live) {
      const Value& value = values_[id];
      if (value.expression.empty()) continue;
      std::string left = names_[id];
      for (size_t other_id = id + 1;
           other_id < values_.size() && value.parts_of == id && values_[other_id].parts_of == id; ++other_id)
        left += ", " + names_[other_id];
      body += "    " + left + " = ";
      for (size_t at = 0; at < value.expression.size(); ++at) {
        if (value.expression[at] != '\x01') {
          body += value.expression[at];
          continue;
        }
        const size_t end = value.expression.find('\x02', at);
        body += names_[std::stoul(value.expression.substr(at + 1, end - at - 1))];
        at = end;
      }
      body += "\n";
    }
    std::string results;
    for (const OutputSpec& output : spec_.outputs) results += (results.empty() ? "" : ", ") + output.name;
    spec_.text = head + "):\n" + body + "    return " + results + "\n";
    for (OutputSpec& output : spec_.outputs) {
      const bool kept =
          std::any_of(used.begin(), used.end(), [&](const ParameterSpec& p) { return p.name == output.same_as; });
      if (!kept) output.same_as.clear();
    }
    spec_.parameters = std::move(used);
  }

  std::mt19937_64 random_;
  EpilogueSpec spec_;
  bool layout_ = false;
  std::vector<Value> values_;
  std::vector<size_t> outputs_;
  std::vector<std::string> names_;
};

}  // namespace

EpilogueSpec random_epilogue_text(uint64_t seed) { return Walk(seed).run(); }

}  // namespace codetta::test

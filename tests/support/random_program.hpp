// SPDX-License-Identifier: Apache-2.0
// Random programs as texts, with shapes that fit. Equal seeds and options give equal programs on every machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "support/random_program_options.hpp"
#include "support/random_weights.hpp"
#include "types/dim.hpp"
#include "types/dtype.hpp"

namespace codetta::test {

namespace random_programs {

using types::Dim;

struct Value {
  std::string name;
  DType dtype = DType::f32;
  std::vector<Dim> shape;
  bool parameter = false;
  bool used = false;
};

class Generator {
 public:
  Generator(uint64_t seed, const RandomProgramOptions& options) : state_(seed * 2 + 1), options_(options) {}

  RandomProgram run() {
    if (options_.symbolic) {
      for (const char* symbol : {"n", "m"}) program_.sizes.emplace_back(symbol, drawn_size(options_.largest_size));
    }
    std::vector<Dim> shape{any_size(), Dim::constant(4 + 4 * pick(3))};
    if (pick(3) == 0) shape.insert(shape.begin(), any_size());
    const bool half = pick(3) == 0;
    add_parameter(!half ? DType::f32 : options_.f16 && pick(2) == 0 ? DType::f16 : DType::bf16, shape);
    for (int attempts = 0; made_ < options_.operations && attempts < 40 * options_.operations; ++attempts) {
      if (made_ == 0) {
        options_.products ? (pick(2) == 0 ? product() : products()) : unary();
      } else {
        operation();
      }
    }
    if (made_ == 0) unary();  // nothing else fits
    finish();
    return std::move(program_);
  }

 private:
  // splitmix64: the same numbers everywhere.
  int64_t pick(int64_t n) {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<int64_t>((z ^ (z >> 31)) % static_cast<uint64_t>(n));
  }
  int64_t drawn_size(int64_t largest) { return options_.ones && pick(3) == 0 ? 1 : 1 + pick(largest); }
  Dim any_size() {
    if (program_.sizes.empty() || pick(3) == 0) return Dim::constant(drawn_size(8));
    return Dim::symbol(program_.sizes[static_cast<size_t>(pick(static_cast<int64_t>(program_.sizes.size())))].first);
  }
  [[nodiscard]] int64_t size_of(const Dim& dim) const { return dim.evaluate(program_.sizes).value_or(0); }
  [[nodiscard]] int64_t count_of(const std::vector<Dim>& shape) const {
    int64_t n = 1;
    for (const Dim& dim : shape) n *= size_of(dim);
    return n;
  }

  std::string add_parameter(DType dtype, const std::vector<Dim>& shape, int64_t index_limit = 0) {
    RandomParameter parameter{"p" + std::to_string(program_.parameters.size()), dtype, {}, index_limit};
    for (const Dim& dim : shape) parameter.shape.push_back(size_of(dim));
    parameter.donated = options_.donated > 0 && pick(100) < options_.donated;
    const std::string type = std::string(dtype_name(dtype)) + "[" + (shape.empty() ? "()" : list(shape, true)) + "]";
    parameters_ += (parameters_.empty() ? "" : ", ") + parameter.name + ": " +
                   (parameter.donated ? "donated[" + type + "]" : type);
    program_.parameters.push_back(parameter);
    program_.parameters.back().weights = types::byte_size(dtype) == 1;
    if (index_limit == 0) values_.push_back({parameter.name, dtype, shape, true, false});
    return parameter.name;
  }

  // That nothing else needs to use.
  std::string add_factor(DType dtype, const std::vector<Dim>& shape) {
    const std::string name = add_parameter(dtype, shape);
    values_.back().used = true;
    return name;
  }

  std::string add_weight(DType dtype, const std::vector<Dim>& shape) {
    const WeightSlice slice = weight_slice(shape, [&](int64_t n) { return pick(n); });
    return add_factor(dtype, slice.whole) + slice.items;
  }

  // Mostly one of the latest; by index, since operations add values.
  size_t any_value() {
    const auto n = static_cast<int64_t>(values_.size());
    return static_cast<size_t>(pick(2) == 0 ? n - 1 - pick(std::min<int64_t>(n, 3)) : pick(n));
  }
  std::string use(size_t i) {
    values_[i].used = true;
    return values_[i].name;
  }
  bool define(const std::string& expression, std::vector<Dim> shape, DType dtype = DType::f32) {
    const std::string name = "v" + std::to_string(made_++);
    body_ += "    " + name + " = " + expression + "\n";
    values_.push_back({name, dtype, std::move(shape), false, false});
    return true;
  }
  static DType widened(DType dtype) { return types::compute_dtype(dtype); }

  bool product() {
    const size_t i = any_value();
    const std::vector<Dim> shape = values_[i].shape;
    if (shape.size() < 2) return false;
    if (pick(4) == 0) {  // of a value with itself
      std::vector<Dim> out = shape;
      out.back() = shape[shape.size() - 2];
      if (count_of(out) > options_.max_elements) return false;
      const std::string x = use(i);
      return define(x + " @ transpose(" + x + ") * 0.125", out);
    }
    std::vector<Dim> weight{shape.back(), Dim::constant(2 + 2 * pick(options_.widths))}, out = shape;
    out.back() = weight[1];
    // A dim of weights that is an expression has no value of its own; its symbols have one by other parameters.
    if (count_of(out) > options_.max_elements) return false;
    const std::string x = use(i), w = add_weight(values_[i].dtype, weight);
    return define(x + " @ " + w, out);
  }

  // Of two parameters with batch dims, each of which either has, or one.
  bool product_of_items() {
    std::vector<Dim> shapes[2], out;
    const bool one_b = pick(4) == 0;
    for (int d = 0; d < 2; ++d) {
      const Dim dim = any_size();
      const int64_t form = pick(6);
      for (int i = 0; i < 2; ++i) shapes[i].push_back(form == i && !one_b ? Dim::constant(1) : dim);
      out.push_back(dim);
    }
    if (one_b) shapes[1].clear();
    const Dim rows = pick(4) == 0 ? any_size() : Dim::constant(1 + pick(4)),
              k = pick(3) == 0 ? any_size() : Dim::constant(4 * (1 + pick(3))), cols = Dim::constant(1 + pick(5));
    shapes[0].insert(shapes[0].end(), {rows, k});
    shapes[1].insert(shapes[1].end(), {k, cols});
    out.insert(out.end(), {rows, cols});
    if (count_of(out) > options_.max_elements) return false;
    std::string factors[2];
    for (int i = 0; i < 2; ++i) {
      factors[i] = add_parameter(DType::f32, shapes[i]);
      values_.back().used = true;
    }
    return define((pick(2) == 0 ? factors[0] : "tanh(" + factors[0] + ")") + " @ " + factors[1], out);
  }

  // Of parameters whose dims are rows and columns together, as they lie or from a value made of one.
  bool product_of_several_dims() {
    const Dim b = any_size(), s = any_size(), h = Dim::constant(1 + pick(3)), d = Dim::constant(4 * (1 + pick(2)));
    const Dim n = Dim::constant(2 + pick(6)), k = h * d;
    if (count_of({b, s, k}) > options_.max_elements || count_of({b, s, n}) > options_.max_elements) return false;
    std::string x = add_factor(DType::f32, pick(2) == 0 ? std::vector{b, s, k} : std::vector{b, s, h, d});
    if (pick(3) == 0) x = (define("softmax(" + x + ")", values_.back().shape), use(values_.size() - 1));
    const std::string w = add_factor(DType::f32, pick(2) == 0 ? std::vector{k, n} : std::vector{h, d, n});
    return define(as_reshaped(x, {b * s, k}) + " @ " + as_reshaped(w, {k, n}), {b * s, n});
  }

  // Heads of rows, as attention reads them: parameters of [b, s, h, d], or of [b, s, h * d], are factors as [b, h, s,
  // d], where several heads may share one; the result is put back.
  bool product_of_heads() {
    const Dim b = any_size(), s = any_size(), t = any_size(), d = Dim::constant(4 * (1 + pick(3))),
              h = Dim::constant(1 + pick(4));
    const bool apart = pick(2) == 0, shared = pick(3) == 0, both = pick(2) == 0;
    const Dim of_k = shared ? Dim::constant(1) : h;
    if (count_of({b, h, s, t}) > options_.max_elements || count_of({b, h, s, d}) > options_.max_elements) return false;
    const auto heads = [&](const std::vector<Dim>& rows, const Dim& of) {
      std::vector<Dim> whole = rows, seen = rows;
      seen.insert(seen.end(), {of, d});
      whole.push_back(of * d);
      const std::string p = add_factor(DType::f32, apart ? whole : seen);
      return "permute(" + (apart ? "reshape(" + p + ", (" + list(seen, false) + "))" : p) + ", (0, 2, 1, 3))";
    };
    const std::string k = heads({b, t}, of_k);
    if (!both) {
      const std::string w = add_factor(DType::f32, {b, h, d, s});
      return define(k + " @ " + w + " * 0.25", {b, h, t, s});
    }
    define(heads({b, s}, h) + " @ transpose(" + k + ") * 0.25", {b, h, s, t});
    const std::string p = use(values_.size() - 1), v = heads({b, t}, of_k);
    return define("reshape(permute(" + p + " @ " + v + ", (0, 2, 1, 3)), (" + list({b, s, h * d}, false) + "))",
                  {b, s, h * d});
  }

  // Products of one factor: apart, put together, or meeting at once.
  bool products() {
    const size_t i = any_value();
    const std::vector<Dim> shape = values_[i].shape;
    if (shape.size() < 2) return false;
    std::vector<Dim> weight{shape.back(), Dim::constant(2 + 2 * pick(options_.widths))}, out = shape;
    if (out.back() = weight[1]; count_of(out) > options_.max_elements) return false;
    const auto another = [&] { return use(i) + " @ " + add_weight(values_[i].dtype, weight); };
    const std::string first = another(), second = another();
    if (pick(2) == 0) return define("silu(" + first + ") * (" + second + ")", out);
    define(first, out), define(pick(2) == 0 ? second : "relu(" + second + ") - 0.5", out);
    if (pick(2) == 0) weight[1] = out.back() = Dim::constant(1 + pick(options_.widths));  // columns of its own
    const size_t one = values_.size() - 1;
    const size_t other = pick(3) != 0 ? one - 1 : (define(another() + " * 0.25", out), values_.size() - 1);
    out.back() = values_[one].shape.back() + values_[other].shape.back();
    return pick(2) == 0 || define("concat(" + use(one) + ", " + use(other) + ", dim=-1)", out);
  }

  // A product with weights of few bits: bytes, or two in a byte along either dim, scaled by column or by group of rows.
  bool quantized() {
    const size_t i = any_value();
    const std::vector<Dim> shape = values_[i].shape;
    if (shape.size() < 2 || values_[i].dtype != DType::f32) return false;
    const auto rows = shape.back().as_constant();
    const int64_t columns = 2 + 2 * pick(options_.widths);
    const Dim cols = Dim::constant(columns);
    std::vector<Dim> out = shape;
    out.back() = cols;
    if (count_of(out) > options_.max_elements) return false;
    const std::string x = use(i);
    const auto scale_of = [&](std::vector<Dim> of) { return add_factor(DType::f32, of); };
    const bool halves = rows && *rows % 2 == 0;
    std::string w;
    switch (pick(halves ? 4 : 2)) {
      case 0:
        w = "cast(" + add_parameter(DType::i8, {shape.back(), cols}, 127) + ", f32) * 0.0625";
        break;
      case 1:
        w = "transpose((cast(" + add_parameter(DType::u8, {cols, shape.back()}, 256) + ", f32) - 127.0) * 0.0625)";
        break;
      default: {
        const bool along = pick(2) == 0;
        const std::string p = add_parameter(DType::u8,
                                            along ? std::vector<Dim>{Dim::constant(*rows / 2), cols}
                                                  : std::vector<Dim>{shape.back(), Dim::constant(columns / 2)},
                                            256);
        w = "cast(join(" + p + " % 16, " + p + " // 16, dim=" + (along ? "0" : "1") +
            (pick(2) == 0 ? ", interleave=True)" : ")") + ", f32) - 8.0";
        if (pick(2) == 0) {  // two groups of rows, each with its scales
          const std::string grouped = "(2, " + std::to_string(*rows / 2) + ", " + cols.to_string() + ")";
          const std::string s = scale_of({Dim::constant(2), Dim::constant(1), cols});
          return define(x + " @ reshape(reshape(" + w + ", " + grouped + ") * " + s + ", (" + std::to_string(*rows) +
                            ", " + cols.to_string() + "))",
                        out);
        }
      }
    }
    const bool scaled = pick(2) == 0;
    return define(x + " @ (" + w + ")" + (scaled ? " * " + scale_of({cols}) : ""), out);
  }

  bool unary() {
    const size_t i = any_value();
    const std::vector<Dim> shape = values_[i].shape;
    const bool reduces = !shape.empty() && size_of(shape.back()) != 0;
    if (!shape.empty() && pick(8) == 0) return positions(i, shape);
    std::string form = unary_forms[pick(std::ssize(unary_forms) - (reduces ? 0 : 2))];
    const bool narrows = form.find("bf16") != std::string::npos;
    const std::string x = use(i);
    for (size_t at = form.find('X'); at != std::string::npos; at = form.find('X', at + x.size()))
      form.replace(at, 1, x);
    return define(form, shape, narrows ? DType::bf16 : widened(values_[i].dtype));
  }

  // Those of the last dim behind a start, which is a size of another value.
  bool positions(size_t i, const std::vector<Dim>& shape) {
    const std::vector<Dim>& other = values_[any_value()].shape;
    const Dim start = other.empty() ? Dim::constant(1) : other[static_cast<size_t>(pick(std::ssize(other)))];
    const std::string end = (start + shape.back()).to_string();
    return define(use(i) + " + cast(arange(" + end + ")[" + start.to_string() + ":], f32) * 0.125", shape,
                  widened(values_[i].dtype));
  }

  bool binary() {
    static constexpr const char* operators[] = {" + ", " - ", " * "};
    const size_t i = any_value();
    const std::vector<Dim> shape = values_[i].shape;
    const char* op = operators[pick(3)];
    for (size_t j = 0; j < values_.size() && pick(3) != 0; ++j) {
      if (j == i || values_[j].shape != shape) continue;
      const std::string x = use(i), y = use(j);
      return define(x + op + y, shape);
    }
    if (shape.empty()) return false;
    for (size_t j = 0; options_.broadcasts && j < values_.size(); ++j) {
      if (!spreads_over(values_[j].shape, shape) || pick(3) == 0) continue;
      const std::string x = use(i), y = use(j);
      return define(x + op + y, shape);
    }
    std::vector<Dim> row{shape.back()};
    if (pick(3) == 0 && shape.size() > 1) row = {shape[shape.size() - 2], Dim::constant(1)};
    const std::string x = use(i), y = add_parameter(DType::f32, row);
    values_.back().used = true;
    return define(x + op + y, shape);
  }

  bool reduction() {
    static constexpr const char* names[] = {"sum", "max", "min", "mean", "amax", "sum_of_squares"};
    const size_t i = any_value();
    std::vector<Dim> shape = values_[i].shape;
    if (shape.empty()) return false;
    const auto dim = static_cast<size_t>(pick(static_cast<int64_t>(shape.size())));
    if (size_of(shape[dim]) == 0) return false;
    const bool keep = pick(2) == 0;
    if (keep) {
      shape[dim] = Dim::constant(1);
    } else {
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dim));
    }
    const std::string x = use(i);
    return define(std::string(names[pick(6)]) + "(" + x + ", dim=" + std::to_string(dim) +
                      (keep ? ")" : ", keepdim=False)") + " * 0.5",
                  shape);
  }

  bool view() {
    const size_t i = any_value();
    std::vector<Dim> shape = values_[i].shape;
    const DType dtype = values_[i].dtype;
    const auto rank = static_cast<int64_t>(shape.size());
    switch (pick(6)) {
      case 0: {
        if (rank < 2) return false;
        const auto a = static_cast<size_t>(pick(rank)), b = static_cast<size_t>(pick(rank));
        if (a == b) return false;
        std::swap(shape[a], shape[b]);
        return define("transpose(" + use(i) + ", " + std::to_string(a) + ", " + std::to_string(b) + ")", shape, dtype);
      }
      case 1: {
        if (rank < 2) return false;
        std::vector<Dim> merged{shape[0] * shape[1]};
        merged.insert(merged.end(), shape.begin() + 2, shape.end());
        merged_.push_back({shape[0], shape[1]});
        return define("reshape(" + use(i) + ", (" + list(merged, true) + (merged.size() == 1 ? ",))" : "))"), merged,
                      dtype);
      }
      case 2: {
        if (rank > 3) return false;
        const auto at = static_cast<size_t>(pick(rank + 1));
        shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), Dim::constant(1));
        return define("unsqueeze(" + use(i) + ", " + std::to_string(at) + ")", shape, dtype);
      }
      case 3: {  // a merged dim is taken apart, also in the other order
        if (rank < 1 || rank > 3) return false;
        for (const auto& [first, second] : merged_) {
          if (!(first * second == shape[0])) continue;
          const bool swapped = pick(3) == 0;
          std::vector<Dim> parts{swapped ? second : first, swapped ? first : second};
          parts.insert(parts.end(), shape.begin() + 1, shape.end());
          return define("reshape(" + use(i) + ", (" + list(parts, false) + "))", parts, dtype);
        }
        return false;
      }
      case 4: {  // the halves of two, one behind the other
        if (rank < 1) return false;
        const auto d = static_cast<size_t>(pick(rank));
        if (shape[d].is_constant()) return false;
        std::string item;
        for (size_t k = 0; k < d; ++k) item += ":, ";
        std::vector<Dim> whole = shape;
        whole[d] = whole[d] + whole[d];
        if (count_of(whole) > options_.max_elements) return false;
        const std::string x = use(i), along = ", dim=" + std::to_string(d) + ")";
        define("concat(" + x + ", " + x + " * 0.5" + along, whole, widened(dtype));
        const size_t both = values_.size() - 1;
        const std::string a = "a" + std::to_string(made_), b = "b" + std::to_string(made_);
        body_ += "    " + a + ", " + b + " = split(" + use(both) + ", 2" + along + "\n";
        return define(a + " - " + b, shape, widened(dtype));
      }
      default: {
        if (rank > 3) return false;
        shape.insert(shape.begin(), Dim::constant(2));
        if (count_of(shape) > options_.max_elements) return false;
        return define("expand(" + use(i) + ", " + list(shape, false) + ")", shape, dtype);
      }
    }
  }

  // Other dims of as many elements: the primes of the constant ones, and the symbols, dealt out anew.
  std::vector<Dim> dealt_out(const std::vector<Dim>& shape) {
    int64_t count = 1;
    std::vector<Dim> factors;
    for (const Dim& dim : shape) {
      const auto constant = dim.as_constant();
      constant ? void(count *= *constant) : factors.push_back(dim);
    }
    for (int64_t prime = 2; count > 1; count % prime == 0 ? count /= prime : ++prime) {
      if (count % prime == 0) factors.push_back(Dim::constant(prime));
    }
    std::vector<Dim> dims(static_cast<size_t>(1 + pick(3)), Dim::constant(1));
    for (const Dim& factor : factors) {
      Dim& dim = dims[static_cast<size_t>(pick(static_cast<int64_t>(dims.size())))];
      dim = dim * factor;
    }
    return dims;
  }

  // A value by another view of its elements: as it is, transposed, in part, joined with another, reduced or multiplied.
  bool across() {
    const size_t i = any_value();
    std::vector<Dim> shape = values_[i].shape;
    const DType dtype = values_[i].dtype;
    if (shape.empty() || count_of(shape) == 0) return false;
    std::string x = use(i);
    const auto last = static_cast<int64_t>(shape.size()) - 1;
    const auto size = shape.back().as_constant();
    const int64_t form = pick(8);
    if (form == 0 && last > 0) {
      x = "transpose(" + x + ", 0, " + std::to_string(last) + ")";
      std::swap(shape.front(), shape.back());
    } else if (form == 1 && size && *size > 1) {
      x += "[..., 1:]";
      shape.back() = Dim::constant(*size - 1);
    }
    const std::vector<Dim> view = dealt_out(shape);
    x = as_reshaped(x, view);
    switch (form) {
      case 2: {
        std::vector<Dim> both = view;
        both[0] = both[0] + both[0];
        return define("concat(" + x + ", " + x + " * 0.5, dim=0)", both, widened(dtype));
      }
      case 3: {
        std::vector<Dim> rest = view;
        rest.pop_back();
        return define("sum(" + x + ", dim=-1, keepdim=False) * 0.5", rest);
      }
      case 4: {  // read in two ways
        const std::vector<Dim> other = dealt_out(shape);
        return define(x + " - " + as_reshaped("tanh(" + as_reshaped(values_[i].name, other) + ")", view), view,
                      widened(dtype));
      }
      case 5: {
        if (view.size() < 2) return define("tanh(" + x + ")", view, widened(dtype));
        std::vector<Dim> weight{view.back(), Dim::constant(2 + pick(6))}, out = view;
        out.back() = weight[1];
        if (count_of(out) > options_.max_elements) return define(x, view, dtype);
        return define(x + " @ " + add_weight(dtype, weight), out);
      }
      case 6: {  // in another function, inlined or as a branch; of f32 only, which both sides make
        if (dtype != DType::f32) return define(x, view, dtype);
        const std::string id = std::to_string(made_), of = values_[i].name;
        const std::string body = "    y = x * 0.5\n    z = exp(" + as_reshaped("y", view) + ")\n    return y, z\n\n";
        functions_ += "def whole" + id + "(x):\n" + body;
        std::string call = "whole" + id + "(" + of + ")";
        if (options_.control && pick(2) == 0) {
          const std::string p = add_parameter(DType::i32, {Dim::constant(1)}, 2);
          functions_ +=
              "def part" + id + "(x):\n    y = relu(x)\n    return y, " + as_reshaped("y", view) + " - 1.0\n\n";
          call = "cond(" + p + " > 0, whole" + id + ", part" + id + ", " + of + ")";
        }
        const std::string first = "v" + std::to_string(made_++), second = "v" + std::to_string(made_++);
        body_ += "    " + first + ", " + second + " = " + call + "\n";
        values_.push_back({first, dtype, shape, false, false});
        values_.push_back({second, dtype, view, false, false});
        return true;
      }
      case 7: {  // what a loop carries, by turns
        if (!options_.control || dtype != DType::f32) return define("abs(" + x + ")", view, widened(dtype));
        const std::string id = std::to_string(made_), name = "v" + std::to_string(made_++);
        functions_ += "def more" + id + "(i, x, s):\n    return i < " + std::to_string(pick(4)) + "\n\ndef step" + id +
                      "(i, x, s):\n    y = tanh(x) + 0.25\n    return i + 1, " +
                      as_reshaped(as_reshaped("y", view) + " * 0.5", shape) + ", s + sum(" + as_reshaped("y", view) +
                      ", dim=0)\n\n";
        std::vector<Dim> sums = view;
        sums[0] = Dim::constant(1);
        body_ += "    _, " + name + ", " + name + "s = while_loop(more" + id + ", step" + id + ", 0, " +
                 values_[i].name + ", zeros(" + list(sums, false) + "))\n";
        values_.push_back({name, dtype, shape, false, false});
        values_.push_back({name + "s", dtype, sums, false, false});
        return true;
      }
      default:
        return pick(2) == 0 ? define(x, view, dtype) : define("tanh(" + x + ")", view, widened(dtype));
    }
  }

  bool slice() {
    const size_t i = any_value();
    std::vector<Dim> shape = values_[i].shape;
    const DType dtype = values_[i].dtype;
    if (shape.empty()) return false;
    const auto dim = static_cast<size_t>(pick(static_cast<int64_t>(shape.size())));
    std::string items;
    for (size_t d = 0; d < dim; ++d) items += ":, ";
    const Dim size = shape[dim];
    if (const auto constant = size.as_constant()) {
      if (*constant < 2) return false;
      const int64_t start = pick(*constant), stop = start + 1 + pick(*constant - start), step = 1 + pick(2);
      items += std::to_string(start) + ":" + std::to_string(stop) + (step == 1 ? "" : ":2");
      shape[dim] = Dim::constant((stop - start + step - 1) / step);
    } else {
      if (!size.as_symbol()) return false;  // of expressions the bounds would have to be shown
      const Dim half = floordiv(size, Dim::constant(2));
      const bool front = pick(2) == 0;
      items += front ? ":" + half.to_string() : half.to_string() + ":";
      shape[dim] = front ? half : size - half;
    }
    return define(use(i) + "[" + items + "]", shape, dtype);
  }

  bool concat() {
    const size_t i = any_value(), j = any_value();
    std::vector<Dim> shape = values_[i].shape;
    if (!shape.empty() && pick(3) == 0) return padded(i, shape);
    const std::vector<Dim>& other = values_[j].shape;
    if (shape.empty() || shape.size() != other.size() || values_[i].dtype != values_[j].dtype) return false;
    const auto dim = static_cast<size_t>(pick(static_cast<int64_t>(shape.size())));
    for (size_t d = 0; d < shape.size(); ++d) {
      if (d != dim && !(shape[d] == other[d])) return false;
    }
    const DType dtype = values_[i].dtype;
    shape[dim] = shape[dim] + other[dim];
    if (count_of(shape) > options_.max_elements) return false;
    const std::string x = use(i), y = use(j);
    return define("concat(" + x + ", " + y + ", dim=" + std::to_string(dim) + ")", shape, dtype);
  }

  bool padded(size_t i, std::vector<Dim> shape) {
    const auto dim = static_cast<size_t>(pick(std::ssize(shape)));
    std::vector<Dim> edge = shape;
    edge[dim] = Dim::constant(1 + pick(2));
    shape[dim] = shape[dim] + edge[dim] + edge[dim];
    const std::string of_type = ", dtype=" + std::string(dtype_name(values_[i].dtype)) + ")";
    const std::string zeros = "zeros(" + list(edge, false) + of_type, dims = ", dim=" + std::to_string(dim) + ")";
    return define("concat(" + zeros + ", " + use(i) + ", " + zeros + dims, shape, values_[i].dtype);
  }

  bool indexed() {
    const size_t i = any_value();
    std::vector<Dim> shape = values_[i].shape;
    const DType dtype = values_[i].dtype;
    if (shape.empty()) return false;
    const auto dim = static_cast<size_t>(pick(static_cast<int64_t>(shape.size())));
    const int64_t limit = size_of(shape[dim]);
    if (limit == 0) return false;
    const std::string along = ", dim=" + std::to_string(dim) + ")";
    const Dim taken = Dim::constant(1 + pick(4));
    const DType index = pick(2) == 0 ? DType::i64 : DType::i32;
    std::vector<Dim> part = shape;
    part[dim] = taken;
    if (count_of(part) > options_.max_elements) return false;
    switch (pick(options_.puts ? 4 : 2)) {
      case 0: {
        const std::string x = use(i), p = add_parameter(index, {taken}, limit);
        return define("take(" + x + ", " + p + along, part, dtype);
      }
      case 1: {
        const std::string x = use(i), p = add_parameter(index, part, limit);
        return define("gather(" + x + ", " + p + along, part, dtype);
      }
      case 2: {
        const std::string x = use(i), p = add_parameter(index, {taken}, limit), v = add_parameter(dtype, part);
        values_.back().used = true;
        return define("index_put(" + x + ", " + p + ", " + v + ", dim=" + std::to_string(dim) +
                          (pick(2) == 0 ? ", accumulate=True)" : ")"),
                      shape, dtype);
      }
      default: {
        static constexpr const char* reductions[] = {"none", "sum", "max", "min"};
        const std::string x = use(i), p = add_parameter(index, part, limit), v = add_parameter(dtype, part);
        values_.back().used = true;
        return define("scatter(" + x + ", " + p + ", " + v + ", dim=" + std::to_string(dim) + ", reduce=\"" +
                          reductions[pick(4)] + "\")",
                      shape, dtype);
      }
    }
  }

  bool composite() {
    const size_t i = any_value();
    const std::vector<Dim> shape = values_[i].shape;
    if (shape.empty() || size_of(shape.back()) == 0) return false;
    const std::string x = use(i);
    if (pick(2) == 0) return define("softmax(" + x + ")", shape);
    const std::string w = add_parameter(DType::f32, {shape.back()});
    values_.back().used = true;
    return define((pick(2) == 0 ? "rms_norm(" : "layer_norm(") + x + ", " + w + ")", shape);
  }

  bool control() {
    const size_t i = any_value();
    if (values_[i].dtype != DType::f32) return false;
    const std::vector<Dim> shape = values_[i].shape;
    if (options_.inner_counts && !shape.empty() && !(shape[0] == Dim::constant(1)) && pick(2) == 0)
      return counted_inside(i);
    const std::string x = use(i), id = std::to_string(made_);
    if (pick(2) == 0) {
      const std::string p = add_parameter(DType::i32, {Dim::constant(1)}, 2);
      functions_ += "def yes" + id + "(x):\n    return relu(x) * 0.5\n\ndef no" + id + "(x):\n    return x" +
                    (pick(2) == 0 ? "" : " - 1.0") + "\n\n";
      return define("cond(" + p + " > 0, yes" + id + ", no" + id + ", " + x + ")", shape);
    }
    functions_ += "def more" + id + "(i, x):\n    return i < " + std::to_string(pick(4)) + "\n\ndef step" + id +
                  "(i, x):\n    return i + 1, tanh(x) + 0.25\n\n";
    const std::string name = "v" + std::to_string(made_);
    body_ += "    _, " + name + " = while_loop(more" + id + ", step" + id + ", 0, " + x + ")\n";
    ++made_;
    values_.push_back({name, DType::f32, shape, false, false});
    return true;
  }

  // A branch takes so many rows of a value, or none; a loop fewer in each turn.
  bool counted_inside(size_t i) {
    const std::vector<Dim> shape = values_[i].shape;
    const std::string count = number_of_rows(shape[0]);
    if (count.empty()) return false;
    const std::string x = use(i), rows = shape[0].to_string();
    const std::string name = "v" + std::to_string(made_), id = std::to_string(made_);
    std::string zeros = "zeros(" + rows + " - k";
    for (size_t d = 1; d < shape.size(); ++d) zeros += ", " + shape[d].to_string();
    if (pick(2) == 0) {
      const std::string p = add_parameter(DType::i32, {Dim::constant(1)}, 2);
      functions_ += "def yes" + id + "(x, k):\n    return concat(relu(x[:k]) * 0.5, " + zeros + "), dim=0)\n\ndef no" +
                    id + "(x, k):\n    return " + (pick(2) == 0 ? "x - 1.0" : "concat(x[k:], x[:k] + 0.5, dim=0)") +
                    "\n\n";
      return define("cond(" + p + " > 0, yes" + id + ", no" + id + ", " + x + ", " + count + ")", shape);
    }
    functions_ +=
        "def more" + id + "(i, x, k):\n    return i < " + std::to_string(pick(4)) + "\n\ndef step" + id +
        "(i, x, k):\n    j = k // (i + 1)\n    head = tanh(x[:j]) + 0.25\n    return i + 1, concat(head, x[j:]" +
        (pick(2) == 0 ? "" : " - mean(x, dim=0)") + ", dim=0), k\n\n";
    body_ += "    _, " + name + ", _ = while_loop(more" + id + ", step" + id + ", 0, " + x + ", " + count + ")\n";
    ++made_;
    values_.push_back({name, DType::f32, shape, false, false});
    return true;
  }

  // So many rows of a value, as a parameter says or as a tensor's rows have a positive element: beside the others or
  // zeros in their place, or reduced.
  bool counted() {
    const size_t i = any_value();
    std::vector<Dim> shape = values_[i].shape;
    if (shape.empty() || shape[0] == Dim::constant(1)) return false;
    const Dim rows = shape[0];
    const DType dtype = values_[i].dtype;
    const std::string count = number_of_rows(rows);
    if (count.empty()) return false;
    const std::string x = use(i), rest = rows.to_string() + " - " + count;
    if (options_.parts && pick(3) == 0) {  // returned, and used by nothing else
      parts_.push_back("q" + std::to_string(made_++));
      const std::string part = x + "[:" + count + "]", both = "concat(" + part + ", " + x + ", dim=0)";
      body_ += "    " + parts_.back() + " = relu(" + (pick(3) == 0 ? both : part) + ")\n";
      return true;
    }
    switch (pick(4)) {
      case 0:
        return define("concat(relu(" + x + "[:" + count + "]), " + x + "[" + count + ":] * 0.5, dim=0)", shape,
                      widened(dtype));
      case 1: {
        shape[0] = Dim::constant(1);
        return define("sum(tanh(" + x + "[:" + count + "]), dim=0) * 0.25", shape);
      }
      case 2: {
        if (shape.size() != 2) break;
        const Dim cols = Dim::constant(2 + 2 * pick(options_.widths));
        const std::string w = add_weight(dtype, {shape[1], cols});
        shape[1] = cols;
        if (count_of(shape) > options_.max_elements) return false;
        return define(
            "concat(" + x + "[:" + count + "] @ " + w + ", zeros(" + rest + ", " + cols.to_string() + "), dim=0)",
            shape);
      }
      default:
        break;
    }
    std::vector<Dim> behind(shape.begin() + 1, shape.end());
    return define("concat(" + x + "[:" + count + "] * 0.5, zeros(" + rest + (behind.empty() ? "" : ", ") +
                      list(behind, false) + "), dim=0)",
                  shape);
  }

  // What says how many of so many rows count; nothing where no parameter does.
  std::string number_of_rows(const Dim& rows) {
    std::string count;
    for (size_t j = 0; count.empty() && j < values_.size(); ++j) {
      const Value& of = values_[j];
      if (!of.parameter || of.shape.empty() || !(of.shape[0] == rows) || pick(3) != 0) continue;
      std::string dims;
      for (size_t d = 1; d < of.shape.size(); ++d) dims += std::to_string(d) + ", ";
      const std::string row = dims.empty() ? of.name : "max(" + of.name + ", dim=(" + dims + "), keepdim=False)";
      count = "k" + std::to_string(made_);
      body_ += "    " + count + " = sum(cast(" + row + " > 0.0, i64), keepdim=False)\n";
      use(j);
    }
    if (count.empty()) {
      if (!rows.is_constant()) return {};  // other runs have fewer rows than a number drawn for this one
      count = add_parameter(pick(2) == 0 ? DType::i64 : DType::u8, {}, size_of(rows) + 1);
    }
    return count;
  }

  void operation() {
    if (options_.counts && pick(6) == 0) {
      counted();
      return;
    }
    if (options_.across && pick(4) == 0) {
      across();
      return;
    }
    if (options_.items && pick(8) == 0) {
      pick(3) == 0 ? product_of_several_dims() : pick(2) == 0 ? product_of_items() : product_of_heads();
      return;
    }
    switch (pick(12)) {
      case 0:
      case 1:
        switch (pick(3)) {
          case 0:
            product();
            return;
          case 1:
            products();
            return;
          default:
            quantized();
        }
        return;
      case 2:
      case 3:
        unary();
        return;
      case 4:
      case 5:
        binary();
        return;
      case 6:
        reduction();
        return;
      case 7:
        view();
        return;
      case 8:
        slice();
        return;
      case 9:
        concat();
        return;
      case 10:
        options_.indices ? indexed() : binary();
        return;
      default:
        if (options_.control && pick(2) == 0) {
          control();
        } else if (options_.composites) {
          composite();
        }
    }
  }

  // Returns everything that nothing uses, and some of what is used. Each symbol that something says gets a parameter
  // with that size.
  void finish() {
    std::string returned;
    const auto give_back = [&](const std::string& name) {
      returned += (returned.empty() ? "" : ", ") + name;
      program_.outputs.push_back(name);
    };
    for (const Value& value : values_) {
      if (!value.parameter && (!value.used || (options_.across && pick(3) == 0))) give_back(value.name);
    }
    for (const std::string& name : parts_) give_back(name);
    std::string anchors;
    for (const auto& [symbol, size] : program_.sizes) {
      const Dim multiple = Dim::constant(pick(4) == 0 ? 2 : 1) * Dim::symbol(symbol);
      const std::string p = add_parameter(DType::f32, {multiple + Dim::constant(pick(4) == 0 ? 1 + pick(3) : 0)});
      const std::string name = "s" + symbol;
      anchors += "    " + name + " = " + p + " * 2.0\n";
      give_back(name);
    }
    program_.text = functions_ + "def " + options_.name + "(" + parameters_ + "):\n" + body_ + anchors + "    return " +
                    returned + "\n";
    spread_over_devices(program_.text, options_.name, state_, options_.devices);
  }

  uint64_t state_;
  RandomProgramOptions options_;
  RandomProgram program_;
  std::vector<Value> values_;
  std::vector<std::string> parts_;           // outputs of which a run computes the size
  std::vector<std::pair<Dim, Dim>> merged_;  // dims that a reshape has made one of
  std::string functions_, parameters_, body_;
  int made_ = 0;
};

}  // namespace random_programs

inline RandomProgram random_program(uint64_t seed, const RandomProgramOptions& options = {}) {
  return random_programs::Generator(seed, options).run();
}

}  // namespace codetta::test

// SPDX-License-Identifier: Apache-2.0
// Reductions and layout, and the forms that models make of them: softmax, norms, gated pairs, rotary embedding.
#include <algorithm>

#include "differential/random_walk.hpp"

namespace codetta::test {

namespace {
// Only one size of a reshape may be -1.
bool has_one_m(const Shape& shape) { return std::count(shape.begin(), shape.end(), dim_m) < 2; }
}  // namespace

void Walk::reduction() {
  const size_t x = number();
  Shape shape = values_[x].shape;
  if (shape.size() < 2) return step();
  const std::string name = word<7>({"sum", "max", "min", "mean", "amax", "sum_of_squares", "logsumexp"});
  const Kind kind = name == "mean" || name == "logsumexp" ? Kind::Float : values_[x].kind;
  const size_t rank = shape.size();
  const std::string by_place = name == "max" || name == "min" ? ", dim=" : ", ";  // max(x, 1) is refused
  std::string over;
  switch (pick(11)) {
    case 0:
    case 1:
    case 2:
    case 3:
      over = one_in(2) ? ", axis=\"row\"" : one_in(2) ? ", dim=-1" : by_place + std::to_string(rank - 1);
      shape.back() = 1;
      break;
    case 4:
    case 5:
    case 6:
    case 7:
      over = one_in(2) ? ", axis=\"column\"" : one_in(2) ? ", dim=-2" : ", dim=" + std::to_string(rank - 2);
      shape[rank - 2] = 1;
      break;
    case 8:
      if (spec_.batched && !one_in(4)) return step();          // kernels don't hold an item
      over = one_in(2) ? ", dim=(-2, -1)" : ", dim=(-1, -2)";  // of each item
      shape[rank - 2] = shape.back() = 1;
      break;
    default:
      over = one_in(2) ? "" : ", axis=\"all\"";
      std::fill(shape.begin(), shape.end(), 1);
  }
  const size_t id = add_shaped(name + "(" + ref(x) + over + ")", x, kind, shape);
  if (one_in(2)) add(ref(x) + word<3>({" - ", " * ", " + "}) + ref(id), {x, id}, joined(values_[x].kind, kind));
}

void Walk::normalization() {
  const size_t x = number();
  const Shape shape = values_[x].shape;
  if (shape.size() < 2) return step();
  const bool row = !one_in(3);
  const std::string axis = row ? ", axis=\"row\")" : ", axis=\"column\")";
  Shape reduced = shape;
  (row ? reduced.back() : reduced[shape.size() - 2]) = 1;
  if (one_in(3)) {
    const size_t total = add_shaped("logsumexp(" + ref(x) + axis, x, Kind::Float, reduced);
    add(ref(x) + " - " + ref(total), {x, total}, Kind::Float);
  } else if (one_in(2)) {
    const size_t most = add_shaped("max(" + ref(x) + axis, x, values_[x].kind, reduced);
    const size_t powers = add("exp(" + ref(x) + " - " + ref(most) + ")", {x, most}, Kind::Float);
    const size_t total = add_shaped("sum(" + ref(powers) + axis, powers, Kind::Float, reduced);
    add(ref(powers) + " / " + ref(total), {powers, total}, Kind::Float);
  } else {
    const size_t scale =
        add_shaped("rsqrt(mean(" + ref(x) + " * " + ref(x) + axis + " + 1e-5)", x, Kind::Float, reduced);
    const size_t weight = operand(one_in(2) ? DType::f32 : DType::bf16, {shape.back()});
    add(ref(x) + " * " + ref(scale) + " * " + ref(weight), {x, scale, weight}, Kind::Float);
  }
}

size_t Walk::add_layout(std::string expression, size_t use, Shape shape) {
  const size_t id = add_shaped(std::move(expression), use, values_[use].kind, std::move(shape));
  values_[id].is_layout = true;
  return id;
}

size_t Walk::split(size_t x, int64_t ways) {
  ++splits_;
  Shape part = values_[x].shape;
  part.back() /= ways;
  const size_t first = add_layout("split(" + ref(x) + ", " + std::to_string(ways) + ", dim=-1)", x, part);
  for (int64_t i = 1; i < ways; ++i) {
    Value later = values_[first];
    later.expression.clear();
    later.uses = {first};
    later.parts_of = first;
    values_.push_back(std::move(later));
  }
  values_[first].parts_of = first;
  return first;
}

// M, of which there is one at most, is written as -1.
size_t Walk::reshaped(size_t x, const Shape& shape) {
  std::string text;
  for (const int64_t dim : shape) text += (text.empty() ? "" : ", ") + std::to_string(dim == dim_m ? -1 : dim);
  return add_layout("reshape(" + ref(x) + ", (" + text + "))", x, shape);
}

void Walk::layout() {
  const size_t x = number();
  const Shape shape = values_[x].shape;
  if (shape.size() < 2) return step();
  if (one_in(2)) return reshape();
  if (one_in(2)) {
    const int64_t last = shape.back();
    if (last < 2 || last % 2 != 0 || (splits_ != 0 && !one_in(4))) return step();
    const int64_t ways = last % 3 == 0 && one_in(3) ? 3 : 2;
    const size_t first = split(x, ways);
    std::string parts = "tanh(" + ref(first) + ")";
    std::vector<size_t> uses{first};
    for (size_t i = 1; i < static_cast<size_t>(ways); ++i) {
      parts += ", " + ref(first + i);
      uses.push_back(first + i);
    }
    const size_t whole =
        add("join(" + parts + ", dim=-1" + (one_in(2) ? ", interleave=True)" : ")"), uses, Kind::Float);
    values_[whole].shape = shape;
    values_[whole].is_layout = true;
    return;
  }
  std::vector<size_t> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random_);
  std::string text = "permute(" + ref(x) + ", (";
  Shape to;
  for (size_t i = 0; i < order.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(order[i]);
    to.push_back(shape[order[i]]);
  }
  add_layout(text + "))", x, to);
}

// Columns to heads and back.
void Walk::reshape() {
  const size_t x = number();
  Shape shape = values_[x].shape;
  const int64_t last = shape.empty() ? 0 : shape.back();
  if (!has_one_m(shape)) return step();
  if (shape.size() >= 3 && shape[shape.size() - 2] > 0 && (!spec_.batched || shape.size() > 3) && !one_in(3)) {
    shape.pop_back();
    shape.back() *= last;
    if (last > 0) reshaped(x, shape);
    return;
  }
  const int64_t inner = one_in(2) ? 4 : 2;
  if (shape.size() < 2 || shape.size() > 3 || last < 8 || last % inner != 0) return step();
  shape.back() = last / inner;
  shape.push_back(inner);
  reshaped(x, shape);
}

// Gate and value are halves of the columns, or neighbours.
void Walk::pair_form() {
  const size_t x = one_in(3) ? number() : 0;
  const Shape shape = values_[x].shape;
  if (shape.size() < 2 || shape.back() < 4 || shape.back() % 2 != 0 || !has_one_m(shape)) return step();
  if (one_in(4)) return rotary();
  if (splits_ != 0 && !one_in(4)) return step();
  const bool neighbours = one_in(2);
  Shape pairs = shape;
  size_t first = x;
  if (neighbours) {
    pairs.back() /= 2;
    pairs.push_back(2);
    first = reshaped(x, pairs);
  }
  first = split(first, 2);
  const size_t gate = first + pick(2), value = first + (gate == first ? 1 : 0);
  const std::string act = word<6>({"silu", "gelu", "sigmoid", "relu", "tanh", ""});
  size_t id = add(act + "(" + ref(gate) + ") * " + ref(value), {gate, value}, Kind::Float);
  if (neighbours && !one_in(4)) {
    pairs.pop_back();
    id = reshaped(id, pairs);
  }
  if (one_in(3)) {  // a residual of the shape that is left
    const size_t residual = operand(one_in(2) ? DType::f32 : DType::bf16, values_[id].shape);
    add(ref(id) + " + " + ref(residual), {id, residual}, Kind::Float);
  }
}

void Walk::rotary() {
  const Shape shape = values_[0].shape;
  const int64_t size = shape.back() % 8 == 0 && one_in(2) ? 8 : 4;
  if (shape.back() % size != 0 || (splits_ != 0 && !one_in(4))) return step();
  Shape heads = shape;
  heads.back() /= size;
  heads.push_back(size);
  const size_t whole = reshaped(0, heads);
  const size_t x = split(whole, 2), y = x + 1;
  Shape angles = values_[x].shape;
  angles[angles.size() - 2] = 1;
  const size_t cosines = operand(DType::f32, angles), sines = operand(DType::f32, angles);
  const std::string c = ref(cosines), s = ref(sines);
  const size_t turned = add("join(" + ref(x) + " * " + c + " - " + ref(y) + " * " + s + ", " + ref(y) + " * " + c +
                                " + " + ref(x) + " * " + s + ", dim=-1" + (one_in(2) ? ", interleave=True)" : ")"),
                            {x, y, cosines, sines}, Kind::Float);
  values_[turned].shape = heads;
  values_[turned].is_layout = true;
  if (!one_in(3)) reshaped(turned, shape);
}

}  // namespace codetta::test

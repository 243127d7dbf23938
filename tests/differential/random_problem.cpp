// SPDX-License-Identifier: Apache-2.0
#include "differential/random_problem.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "codetta/fill.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta::test {
namespace {

constexpr unsigned char untouched = 0xC7;

// Offsets of the bytes that belong to the view.
std::vector<bool> own(const Buffer& buffer) {
  std::vector<bool> result(buffer.bytes.size());
  const int64_t count = buffer.view.element_count(), size = dtype_size(buffer.view.dtype());
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, offset = 0;
    for (int d = buffer.view.rank() - 1; d >= 0; --d) {
      offset += rest % buffer.view.size(d) * buffer.view.stride(d);
      rest /= buffer.view.size(d);
    }
    const auto at =
        static_cast<size_t>(static_cast<unsigned char*>(buffer.view.data()) - buffer.bytes.data() + offset * size);
    for (int64_t b = 0; b < size; ++b) result[at + static_cast<size_t>(b)] = true;
  }
  return result;
}

}  // namespace

bool Buffer::surroundings_kept() const {
  const std::vector<bool> mine = own(*this);
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (!mine[i] && bytes[i] != untouched) return false;
  }
  return true;
}

void RandomProblem::sizes() {
  const auto size = [&]() -> int64_t {
    if (one_in(many_empty ? 5 : 100)) return 0;
    if (one_in(6)) return usual_sizes ? 2 : 1;
    if (one_in(4)) return 16 * static_cast<int64_t>(1 + pick(4));
    return (usual_sizes ? 2 : 1) + static_cast<int64_t>(pick(70));
  };
  m = probe_ ? 21 : size();
  n = spec_.fixed_n != 0 ? spec_.fixed_n : probe_ ? 18 : size();
  k = probe_ ? 40 : one_in(many_empty ? 5 : 200) ? 0 : one_in(10) ? 64 + static_cast<int64_t>(pick(400)) : 1 + size();
  batch = !spec_.batched                ? 0
          : spec_.fixed_batch != 0      ? spec_.fixed_batch
          : probe_                      ? 2
          : one_in(many_empty ? 5 : 50) ? 0
                                        : (usual_sizes ? 2 : 1) + static_cast<int64_t>(pick(3));
}

Dims RandomProblem::concrete(const std::vector<int64_t>& shape) const {
  Dims result;
  for (const int64_t dim : shape)
    result.push_back(dim == dim_m ? m : dim == dim_n ? n : dim == dim_batch ? batch : dim);
  return result;
}

// Row-major, another order of the dims, padded, with gaps between elements, reversed; operands may also repeat
// memory.
Result<std::unique_ptr<Buffer>> RandomProblem::buffer(DType dtype, const Dims& shape, bool is_input) {
  auto result = std::make_unique<Buffer>();
  const int rank = shape.rank();
  std::vector<int> order;
  for (int d = rank - 1; d >= 0; --d) order.push_back(d);
  const size_t drawn = pick_form(8), kind = aligned && drawn != 1 ? 0 : drawn;  // rows or columns side by side
  const int64_t size = dtype_size(dtype), unit = aligned ? 16 / size : 1;
  if (kind == 1 && rank >= 2) std::swap(order[0], order[1]);
  if (kind == 2) std::shuffle(order.begin(), order.end(), form);
  Dims strides = shape;
  int64_t next = kind == 3 ? 2 : 1, extent = 1;
  for (const int d : order) {
    const bool repeated = is_input && kind == 4 && form_in(3), reversed = kind == 5 && form_in(2);
    strides[d] = repeated ? 0 : reversed ? -next : next;
    if (!repeated) next = next * std::max<int64_t>(shape[d], 1) + (kind == 6 ? static_cast<int64_t>(pick(5)) : 0);
    if (d == order[0]) next = (next + unit - 1) / unit * unit;
  }
  int64_t first = static_cast<int64_t>(pick(4)) * unit;
  extent = first + next + 4 * unit;
  for (int d = 0; d < rank; ++d) {
    if (strides[d] < 0 && shape[d] > 0) first -= strides[d] * (shape[d] - 1);
  }
  const auto elements = static_cast<size_t>(extent * 2 + 64);
  result->bytes.assign(elements * static_cast<size_t>(size) + 16, untouched);
  auto* base = result->bytes.data() + (16 - reinterpret_cast<uintptr_t>(result->bytes.data()) % 16) % 16;
  CODETTA_TRY(result->view, TensorView::make(static_cast<void*>(base + first * size), dtype, shape, strides));
  return result;
}

Result<TensorView> RandomProblem::input(DType dtype, const Dims& shape) {
  CODETTA_TRY(auto made, buffer(dtype, shape, true));
  const bool factor = inputs.size() < 2;
  // All of small integers: what only adds and multiplies is expected to the bit.
  if (inputs.empty()) integers_ = one_in(6);
  const auto kind = integers_              ? Distribution::Integers
                    : one_in(4)            ? Distribution::Positive
                    : one_in(6) && !factor ? Distribution::Small
                                           : Distribution::Normal;
  fill_random(made->view, random(), kind);
  const TensorView view = made->view;
  if (!probe_ && one_in(24) && types::is_float(dtype) && !view.empty()) special(view);
  inputs.push_back(std::move(made));
  return view;
}

// A few NaN, infinities, zeros, tiny and large numbers and ties, through a view of one element.
void RandomProblem::special(const TensorView& view) {
  for (int i = 0; i < 3; ++i) {
    int64_t offset = 0;
    for (int d = 0; d < view.rank(); ++d)
      offset += static_cast<int64_t>(pick(static_cast<size_t>(view.size(d)))) * view.stride(d);
    constexpr double inf = std::numeric_limits<double>::infinity();
    const double values[] = {std::numeric_limits<double>::quiet_NaN(),  inf,  -inf, -0.0, 0.0, 1e-40, -1e-42,
                             std::numeric_limits<double>::denorm_min(), 3e38, -1e4, 448,  0.5, -2.5,  65504};
    const double value = values[pick(std::size(values))];
    types::Scalar::from_f64(value, view.dtype()).store(view.as<unsigned char>() + offset * dtype_size(view.dtype()));
  }
}

Result<void> RandomProblem::arguments(const Epilogue& epilogue) {
  Dims a{m, k}, b{k, n};
  if (spec_.batched) {
    const size_t which = pick_form(3);
    if (which != 1) a = {batch, m, k};
    if (which != 2) b = {batch, k, n};
  }
  CODETTA_TRY(call.A, input(spec_.a, a));
  CODETTA_TRY(call.B, input(spec_.b, b));
  std::vector<NamedArgument> named;
  std::map<std::string, TensorView> operands;
  for (const ParameterSpec& parameter : spec_.parameters) {
    if (parameter.is_number) {
      named.push_back({parameter.name, parameter.integral ? ArgumentValue(static_cast<int64_t>(parameter.number))
                                                          : ArgumentValue(parameter.number)});
      continue;
    }
    const bool overwritten = std::any_of(spec_.outputs.begin(), spec_.outputs.end(),
                                         [&](const OutputSpec& o) { return o.same_as == parameter.name; });
    TensorView view;
    if (overwritten) {
      CODETTA_TRY(auto made, buffer(parameter.dtype, concrete(parameter.shape), false));
      fill_random(made->view, random(), integers_ ? Distribution::Integers : Distribution::Normal);
      view = made->view;
      // What it held, for the check.
      auto copy = std::make_unique<Buffer>(*made);
      const auto moved = copy->bytes.data() + (8 - reinterpret_cast<uintptr_t>(copy->bytes.data()) % 8) % 8;
      const auto base = made->bytes.data() + (8 - reinterpret_cast<uintptr_t>(made->bytes.data()) % 8) % 8;
      std::memcpy(moved, base, made->bytes.size() - 8);
      CODETTA_TRY(copy->view, TensorView::make(static_cast<void*>(moved + (view.as<unsigned char>() - base)),
                                               view.dtype(), view.shape(), view.strides()));
      before.emplace_back(parameter.name, copy->view);
      in_place_.insert({copy.get(), made.get()});
      inputs.push_back(std::move(copy));
      inputs.push_back(std::move(made));
    } else {
      // Sometimes the tensor of another operand, or A or B.
      std::vector<TensorView> same;
      for (const auto& made : inputs) {
        if (made->view.dtype() == parameter.dtype && made->view.shape() == concrete(parameter.shape) &&
            !in_place_.contains(made.get()))
          same.push_back(made->view);
      }
      if (!same.empty() && one_in(6)) {
        view = same[pick(same.size())];
      } else {
        CODETTA_TRY(view, input(parameter.dtype, concrete(parameter.shape)));
      }
    }
    operands.emplace(parameter.name, view);
    named.push_back({parameter.name, view});
  }
  for (const OutputSpec& output : spec_.outputs) {
    TensorView view;
    if (!output.same_as.empty()) {
      view = operands.at(output.same_as);
    } else {
      CODETTA_TRY(auto made, buffer(output.dtype, concrete(output.shape), false));
      fill_poison(made->view);
      view = made->view;
      outputs.push_back(std::move(made));
    }
    named.push_back({output.name, view});
  }
  call.epilogue = EpilogueArguments(epilogue, std::move(named));
  call.strict = form_in(8);
  if (form_in(10)) call.rounding = Rounding::AsUnfused;
  return {};
}

std::string RandomProblem::describe() const {
  std::string text = spec_.text;
  const auto add = [&](const std::string& name, const TensorView& view) {
    text += fmt::format("  {}: {} strides {}\n", name, view.describe(), to_string(view.strides()));
  };
  add("A", call.A);
  add("B", call.B);
  for (const NamedArgument& argument : call.epilogue.arguments()) {
    if (const TensorView* view = argument.value.tensor()) {
      add(argument.name, *view);
    } else if (const auto* real = std::get_if<double>(&argument.value.value())) {
      text += fmt::format("  {} = {}\n", argument.name, *real);
    } else if (const auto* integer = std::get_if<int64_t>(&argument.value.value())) {
      text += fmt::format("  {} = {}\n", argument.name, *integer);
    }
  }
  return text;
}

}  // namespace codetta::test

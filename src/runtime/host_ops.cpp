// SPDX-License-Identifier: Apache-2.0
#include "runtime/host_ops.hpp"

#include <array>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "package/gpu_steps.hpp"
#include "runtime/cpu/copy.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta::runtime {
namespace {

// Calls f(position, offsets in elements) for every position of `shape` in row-major order until f returns false.
template <size_t N, class F>
void each_position(const Dims& shape, const std::array<Dims, N>& strides, F f) {
  const int rank = shape.rank();
  Dims position;
  for (int i = 0; i < rank; ++i) {
    if (shape[i] == 0) return;
    position.push_back(0);
  }
  std::array<int64_t, N> at{};
  while (true) {
    if (!f(position, at)) return;
    int dim = rank - 1;
    for (; dim >= 0; --dim) {
      for (size_t v = 0; v < N; ++v) at[v] += strides[v][dim];
      if (++position[dim] < shape[dim]) break;
      for (size_t v = 0; v < N; ++v) at[v] -= strides[v][dim] * shape[dim];
      position[dim] = 0;
    }
    if (dim < 0) return;
  }
}

Dims dims_from(const Dims& dims, int first, int count) {
  Dims part;
  for (int i = 0; i < count; ++i) part.push_back(dims[first + i]);
  return part;
}

Dims joined(Dims first, const Dims& second) {
  for (int i = 0; i < second.rank(); ++i) first.push_back(second[i]);
  return first;
}

std::byte* element_of(const TensorView& view, int64_t offset) {
  return static_cast<std::byte*>(view.data()) + offset * dtype_size(view.dtype());
}

Error wrong_shape(const NamedView& view, const std::string& wanted) {
  return diag::error(diag::Code::guard_failed, fmt::format("{} has the wrong shape", view.name))
      .reason(fmt::format("it is {}; {}", view.view.describe(), wanted))
      .help("bind tensors whose sizes agree");
}

Error out_of_range(const NamedView& index, const Dims& position, int64_t offset, int64_t size) {
  const std::byte* p = element_of(index.view, offset);
  const int64_t value = types::load_i64(p, index.view.dtype());
  const std::string text =
      index.view.dtype() == DType::u64 ? std::to_string(static_cast<uint64_t>(value)) : std::to_string(value);
  return diag::error(diag::Code::index_range, fmt::format("index {} is out of range for the size {}", text, size))
      .about(index.name)
      .reason(fmt::format("it stands at {} of {}", to_string(position), index.name))
      .help(size == 0 ? std::string("there is nothing to index") : fmt::format("pass indices from 0 to {}", size - 1));
}

// The index at `offset`; nullopt where it is out of range and that is an error, or where there is nothing to index.
std::optional<int64_t> index_at(const TensorView& index, int64_t offset, int64_t size, bool checked) {
  int64_t value = types::load_i64(element_of(index, offset), index.dtype());
  if (index.dtype() == DType::u64 && value < 0) value = INT64_MAX;  // beyond 63 bits
  if (value >= 0 && value < size) return value;
  if (checked || size == 0) return std::nullopt;
  return value < 0 ? 0 : size - 1;
}

template <class T>
T combined(T a, T b, package::ScatterReduce how) {
  using package::ScatterReduce;
  if constexpr (std::is_floating_point_v<T>) {
    if (how == ScatterReduce::Min || how == ScatterReduce::Max) {
      if (std::isnan(a) || std::isnan(b)) return a + b;
    }
  }
  switch (how) {
    case ScatterReduce::None:
      return b;
    case ScatterReduce::Sum:
      return a + b;
    case ScatterReduce::Product:
      return a * b;
    case ScatterReduce::Min:
      return b < a ? b : a;
    case ScatterReduce::Max:
      return a < b ? b : a;
  }
  return b;
}

// target = target (how) source, in the compute type; integers wrap.
void combine(DType dtype, void* target, const void* source, package::ScatterReduce how) {
  if (how == package::ScatterReduce::None) {
    std::memcpy(target, source, static_cast<size_t>(dtype_size(dtype)));
  } else if (dtype == DType::f64) {
    types::store_f64(target, dtype, combined(types::load_f64(target, dtype), types::load_f64(source, dtype), how));
  } else if (types::is_float(dtype)) {
    const auto a = static_cast<float>(types::load_f64(target, dtype)),
               b = static_cast<float>(types::load_f64(source, dtype));
    types::store_f64(target, dtype, static_cast<double>(combined(a, b, how)));
  } else {
    const int64_t a = types::load_i64(target, dtype), b = types::load_i64(source, dtype);
    const bool ordered = how == package::ScatterReduce::Min || how == package::ScatterReduce::Max;
    if (ordered && types::is_signed(dtype)) {
      types::store_i64(target, dtype, combined(a, b, how));
    } else {
      types::store_i64(target, dtype,
                       static_cast<int64_t>(combined(static_cast<uint64_t>(a), static_cast<uint64_t>(b), how)));
    }
  }
}

// Elements that are combined: those of the target, or, for sums and products of narrow floats, theirs in f32, which are
// rounded once at the end.
class CombinedElements {
 public:
  CombinedElements(const TensorView& target, package::ScatterReduce how) : target_(target), how_(how) {
    const DType dtype = target.dtype();
    const bool rounds = how == package::ScatterReduce::Sum || how == package::ScatterReduce::Product;
    if (!rounds || !types::is_float(dtype) || dtype_size(dtype) >= 4) return;
    wide_.reserve(static_cast<size_t>(target.element_count()));
    strides_ = row_major_strides(target.shape());
    each_position<1>(target.shape(), {target.strides()}, [&](const Dims&, const std::array<int64_t, 1>& at) {
      wide_.push_back(static_cast<float>(types::load_f64(element_of(target_, at[0]), dtype)));
      return true;
    });
  }
  // Strides by which at() counts.
  [[nodiscard]] const Dims& strides() const { return strides_.rank() == 0 ? target_.strides() : strides_; }
  void at(int64_t offset, const void* source) {
    if (wide_.empty()) {
      combine(target_.dtype(), element_of(target_, offset), source, how_);
    } else {
      float& element = wide_[static_cast<size_t>(offset)];
      element = combined(element, static_cast<float>(types::load_f64(source, target_.dtype())), how_);
    }
  }
  void finish() const {
    size_t next = 0;
    if (wide_.empty()) return;
    each_position<1>(target_.shape(), {target_.strides()}, [&](const Dims&, const std::array<int64_t, 1>& at) {
      types::store_f64(element_of(target_, at[0]), target_.dtype(), static_cast<double>(wide_[next++]));
      return true;
    });
  }

 private:
  const TensorView& target_;
  package::ScatterReduce how_;
  Dims strides_;
  std::vector<float> wide_;
};

}  // namespace

TensorView with_rank(const TensorView& view, int rank) {
  if (view.rank() == rank) return view;
  Dims shape, strides;
  for (int i = rank; i > 0; --i) {
    const int dim = view.rank() - i;
    shape.push_back(dim < 0 ? 1 : view.size(dim));
    strides.push_back(dim < 0 ? 0 : view.stride(dim));
  }
  const auto made = TensorView::make(view.data(), view.dtype(), shape, strides);
  return made ? *made : view;
}

Result<void> copy_elements(const NamedView& source, const NamedView& target, ThreadPool& pool) {
  const TensorView &from = source.view, &to = target.view;
  if (!(from.shape() == to.shape())) return wrong_shape(source, "the copy goes to " + to.describe());
  cpu::copy({from.data(), to.data(), dtype_size(from.dtype()), from.rank(), from.shape().begin(),
             from.strides().begin(), to.strides().begin()},
            &pool);
  return {};
}

void fill_elements(const TensorView& view, uint64_t bits) {
  if (view.empty()) return;
  const auto size = static_cast<size_t>(dtype_size(view.dtype()));
  std::array<unsigned char, 8> pattern{};
  for (size_t i = 0; i < size; ++i) pattern[i] = static_cast<unsigned char>(bits >> (8 * i));
  if (package::one_byte(view.dtype(), bits) && view.is_row_major()) {
    std::memset(view.data(), pattern[0], static_cast<size_t>(view.element_count()) * size);
    return;
  }
  each_position<1>(view.shape(), {view.strides()}, [&](const Dims&, const std::array<int64_t, 1>& at) {
    std::memcpy(element_of(view, at[0]), pattern.data(), size);
    return true;
  });
}

Result<void> index_put(const NamedView& target, const std::vector<NamedView>& indices, const NamedView& values,
                       bool accumulate, bool checked) {
  const TensorView& to = target.view;
  const int indexed = static_cast<int>(indices.size()), rest = to.rank() - indexed;
  const Dims& places = indices[0].view.shape();
  for (const NamedView& index : indices) {
    if (!(index.view.shape() == places))
      return wrong_shape(index, fmt::format("{} is {}", indices[0].name, indices[0].view.describe()));
  }
  const Dims rest_shape = dims_from(to.shape(), indexed, rest);
  if (!(values.view.shape() == joined(places, rest_shape)))
    return wrong_shape(values, fmt::format("{} is wanted", to_string(joined(places, rest_shape))));
  CombinedElements elements(to, accumulate ? package::ScatterReduce::Sum : package::ScatterReduce::None);
  const Dims to_strides = elements.strides();
  const Dims to_rest = dims_from(to_strides, indexed, rest),
             from_rest = dims_from(values.view.strides(), places.rank(), rest),
             from_place = dims_from(values.view.strides(), 0, places.rank());
  std::optional<Error> failed;
  each_position<1>(places, {from_place}, [&](const Dims& position, const std::array<int64_t, 1>& from) {
    int64_t base = 0;
    for (int i = 0; i < indexed; ++i) {
      const NamedView& index = indices[static_cast<size_t>(i)];
      int64_t offset = 0;
      for (int d = 0; d < position.rank(); ++d) offset += position[d] * index.view.stride(d);
      const auto place = index_at(index.view, offset, to.size(i), checked);
      if (!place && checked) failed = out_of_range(index, position, offset, to.size(i));
      if (!place) return false;
      base += *place * to_strides[i];
    }
    each_position<2>(rest_shape, {to_rest, from_rest}, [&](const Dims&, const std::array<int64_t, 2>& at) {
      elements.at(base + at[0], element_of(values.view, from[0] + at[1]));
      return true;
    });
    return true;
  });
  elements.finish();
  if (failed) return std::move(*failed);
  return {};
}

Result<void> scatter(const NamedView& target, const NamedView& index, const NamedView& source, int dim,
                     package::ScatterReduce reduce, bool checked) {
  const TensorView& to = target.view;
  const Dims& places = index.view.shape();
  for (int i = 0; i < places.rank(); ++i) {
    if (places[i] > source.view.size(i) || (i != dim && places[i] > to.size(i)))
      return wrong_shape(index, fmt::format("it has to lie in {} and, but for dim {}, in {}", source.view.describe(),
                                            dim, to.describe()));
  }
  CombinedElements elements(to, reduce);
  Dims to_strides = elements.strides();
  const int64_t step = to_strides[dim];
  to_strides[dim] = 0;
  std::optional<Error> failed;
  each_position<3>(places, {index.view.strides(), source.view.strides(), to_strides},
                   [&](const Dims& position, const std::array<int64_t, 3>& at) {
                     const auto place = index_at(index.view, at[0], to.size(dim), checked);
                     if (!place && checked) failed = out_of_range(index, position, at[0], to.size(dim));
                     if (!place) return false;
                     elements.at(at[2] + *place * step, element_of(source.view, at[1]));
                     return true;
                   });
  elements.finish();
  if (failed) return std::move(*failed);
  return {};
}

Result<void> check_indices(const NamedView& view, int64_t size) {
  std::optional<Error> failed;
  each_position<1>(view.view.shape(), {view.view.strides()},
                   [&](const Dims& position, const std::array<int64_t, 1>& at) {
                     if (index_at(view.view, at[0], size, true)) return true;
                     failed = out_of_range(view, position, at[0], size);
                     return false;
                   });
  if (failed) return std::move(*failed);
  return {};
}

Result<void> check_numbers(const NamedView& view, bool infinity, const std::string& why) {
  std::optional<Error> failed;
  each_position<1>(view.view.shape(), {view.view.strides()},
                   [&](const Dims& position, const std::array<int64_t, 1>& at) {
                     const double value = types::load_f64(element_of(view.view, at[0]), view.view.dtype());
                     if (!std::isnan(value) && !(infinity && std::isinf(value))) return true;
                     const char* what = std::isnan(value) ? "NaN" : "an infinity";
                     failed = diag::error(diag::Code::number_invalid, fmt::format("{} holds {}", view.name, what))
                                  .reason(fmt::format("{} is {} at {}{}", view.name, value, to_string(position),
                                                      why.empty() ? "" : "; made by " + why))
                                  .help("look at the inputs of that step");
                     return false;
                   });
  if (failed) return std::move(*failed);
  return {};
}

}  // namespace codetta::runtime

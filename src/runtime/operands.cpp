// SPDX-License-Identifier: Apache-2.0
#include "runtime/operands.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "diag/diagnostic.hpp"
#include "package/factors.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta::runtime {

using package::Access;

int64_t stride_from_end(const TensorView& view, int from_end) {
  const int dim = view.rank() - 1 - from_end;
  return dim < 0 || view.size(dim) == 1 ? 0 : view.stride(dim);
}

void store_scalar(const codetta::cpu::ScalarValue& value, DType dtype, void* bytes) {
  const DType type = types::compute_dtype(dtype);
  if (type == DType::f64) {
    types::store_f64(bytes, dtype, value.d);
  } else if (types::is_float(type)) {
    types::store_f64(bytes, dtype, static_cast<double>(value.f));
  } else {
    types::store_i64(bytes, dtype, value.i);
  }
}

Result<int64_t> value_of(const types::Dim& dim, const Symbols& symbols, std::string_view what) {
  types::DimFault why = types::DimFault::none;
  if (const auto value = dim.evaluate(symbols, &why)) return *value;
  std::string known;
  for (const std::string& symbol : dim.symbols()) {
    const auto at = symbols.find(symbol);
    if (at != symbols.end()) known += fmt::format("{} {} = {}", known.empty() ? ", with" : ",", symbol, at->second);
  }
  return diag::error(diag::Code::guard_failed, fmt::format("{} has no value", what))
      .reason(fmt::format("{}: {}{}", dim.to_string(), types::to_string(why), known))
      .help(why == types::DimFault::unbound ? "bind tensors whose sizes define every symbol"
                                            : "bind tensors of sizes for which it has one");
}

Result<void> plan_operand(const package::Operand& operand, const Symbols& symbols, OperandPlan& plan) {
  plan.offsets.clear();
  plan.scales.clear();
  for (const auto& [dim, count] : operand.offsets) {
    CODETTA_TRY(const int64_t value, value_of(count, symbols, "an offset"));
    plan.offsets.emplace_back(dim, value);
  }
  for (const package::IndexTerm& term : operand.terms) {
    CODETTA_TRY(const int64_t value, value_of(term.scale, symbols, "an index"));
    plan.scales.push_back(value);
  }
  return {};
}

Result<void> plan_sizes(const package::EpilogueProgram& program, const Symbols& symbols, std::vector<int64_t>& sizes) {
  sizes.clear();
  for (const types::Dim& size : program.sizes) {
    CODETTA_TRY(const int64_t value, value_of(size, symbols, "a position"));
    sizes.push_back(value);
  }
  return {};
}

// An empty slice may begin behind the last element of what it is a part of. Only where the memory ends counts: what
// lies without gaps may be read by index arithmetic of another shape, whose offsets pass the sizes of the view's dims.
bool meets_nothing(const OperandPlan& plan, const TensorView& view) {
  if (view.empty()) return true;
  int64_t first = 0, lowest = 0, highest = 0;
  for (const auto& [dim, count] : plan.offsets) first += count * stride_from_end(view, dim);
  for (int dim = 0; dim < view.rank(); ++dim) {
    const int64_t reach = (view.size(dim) - 1) * view.stride(dim);
    (reach < 0 ? lowest : highest) += reach;
  }
  return first < lowest || first > highest;
}

codetta::cpu::Operand resolve_operand(const package::Operand& operand, const OperandPlan& plan,
                                      const TensorView& view) {
  codetta::cpu::Operand result{};
  if (meets_nothing(plan, view)) {
    alignas(16) static constexpr std::byte zeros[16] = {};
    result.data = const_cast<std::byte*>(zeros);
    return result;
  }
  int64_t offset = 0;
  for (const auto& [dim, count] : plan.offsets) offset += count * stride_from_end(view, dim);
  result.data = static_cast<std::byte*>(view.data()) + offset * dtype_size(operand.dtype);
  for (size_t i = 0; i < operand.terms.size(); ++i) {
    const package::IndexTerm& term = operand.terms[i];
    const size_t slot = operand.access == Access::Indexed ? i : static_cast<size_t>(term.axis);
    result.stride[slot] += plan.scales[i] * stride_from_end(view, term.dim);
  }
  for (size_t i = 0; i < operand.gathered.size(); ++i) {  // stride and size of each dim
    const int dim = operand.gathered[i];
    result.stride[operand.terms.size() + 2 * i] = stride_from_end(view, dim);
    result.stride[operand.terms.size() + 2 * i + 1] = dim < view.rank() ? view.size(view.rank() - 1 - dim) : 1;
  }
  return result;
}

Result<void> check_view(const package::Buffer& buffer, const TensorView& view, const Symbols& symbols) {
  const auto misfit = [&](const std::string& reason) {
    return diag::error(diag::Code::guard_failed, fmt::format("{} does not fit the kernel", buffer.name))
        .reason(reason)
        .help("bind a tensor of the declared dtype and shape, or find a kernel for this one");
  };
  if (view.dtype() != buffer.dtype)
    return misfit(fmt::format("it is {}, the kernel takes {}", view.describe(), dtype_name(buffer.dtype)));
  const int declared = static_cast<int>(buffer.shape.size());
  for (int i = 0; i < std::max(declared, view.rank()); ++i) {  // counted from the last
    int64_t wanted = 1;
    if (i < declared) {
      const types::Dim& dim = buffer.shape[static_cast<size_t>(declared - 1 - i)];
      const auto value = dim.evaluate(symbols);
      if (!value) return value_of(dim, symbols, "a size of " + buffer.name).error();
      wanted = *value;
    }
    const int64_t size = i < view.rank() ? view.size(view.rank() - 1 - i) : 1;
    if (size != wanted)
      return misfit(fmt::format("it is {}; the kernel takes {} in dim {} from the last", view.describe(), wanted, i));
  }
  if (view.data() == nullptr && !view.empty()) return misfit("its data is null");
  return {};
}

std::optional<int64_t> batch_stride(const TensorView& view) {
  int64_t stride = 0, inner = 1;  // of the innermost leading dim, and how many items lie inside of the current one
  for (int dim = view.rank() - 3; dim >= 0; --dim) {
    if (view.size(dim) == 1) continue;
    if (inner == 1) {
      stride = view.stride(dim);
    } else if (view.stride(dim) != stride * inner) {
      return std::nullopt;
    }
    inner *= view.size(dim);
  }
  return stride;
}

std::optional<items::Items> items_of(const TensorView& view) {
  items::Items items;
  if (!items::find(view.shape().begin(), view.strides().begin(), view.rank() - 2, items)) return std::nullopt;
  return items;
}

namespace {

// Of `count` elements of a dim, or of it and of those around it; none where these take several.
std::optional<int64_t> stride_as_one(const TensorView& view, int from_end, int64_t count) {
  long long step = 0;
  if (!items::as_one(view.shape().begin(), view.strides().begin(), view.rank() - 1 - from_end, count, step))
    return std::nullopt;
  return step;
}

Error not_as_one(const package::Buffer& buffer, const TensorView& view) {
  return diag::error(diag::Code::guard_failed, fmt::format("{} does not fit the kernel", buffer.name))
      .reason(fmt::format("it is {} with strides {}: dims that the product takes for one are not evenly spaced",
                          view.describe(), to_string(view.strides())))
      .help("bind a tensor whose dims lie one inside the other, such as a contiguous one");
}

// What lies unevenly has been refused when it was planned for.
Result<TensorView> view_of(const TensorView& lies, const FactorPlan& plan) {
  Dims sizes, strides;
  for (const FactorPlan::Dim& dim : plan.dims) {
    sizes.push_back(dim.size);
    const int64_t one = stride_from_end(lies, dim.dim);
    strides.push_back(dim.scale == 1 ? stride_as_one(lies, dim.dim, dim.size).value_or(one) : dim.scale * one);
  }
  return TensorView::make(static_cast<const void*>(lies.data()), lies.dtype(), sizes, strides);
}

}  // namespace

Result<void> plan_factor(const package::Buffer& buffer, const package::FactorView& view, const TensorView& lies,
                         const Symbols& symbols, FactorPlan& plan) {
  plan.dims.clear();
  if (view.empty()) return {};
  std::array<int64_t, max_rank> last{};  // the largest index that is met, by dim from the last
  const auto rank = static_cast<size_t>(lies.rank());
  bool empty = false, fits = true;
  bool even = true;
  for (const package::FactorDim& dim : view) {
    CODETTA_TRY(const int64_t scale, value_of(dim.scale, symbols, "a stride of a factor"));
    CODETTA_TRY(const int64_t size, value_of(dim.size, symbols, "a size of a factor"));
    plan.dims.push_back({dim.dim, scale, size});
    empty = empty || size == 0;
    if (size <= 1) continue;
    // Of several dims seen as one all but the outermost are met as a whole.
    int64_t left = size;
    size_t at = dim.dim;
    for (; scale == 1 && at < rank; ++at) {
      const int64_t there = lies.size(lies.rank() - 1 - static_cast<int>(at));
      if (there == 0 || left <= there || left % there != 0) break;
      last[at] += there - 1;
      left /= there;
    }
    if (at != dim.dim && !stride_as_one(lies, dim.dim, size)) even = false;
    const auto reach = base::checked_mul(scale, left - 1);
    const auto all = reach && at < rank ? base::checked_add(last[at], *reach) : std::nullopt;
    fits = fits && all && scale >= 0;
    if (fits) last[at] = *all;
  }
  for (size_t d = 0; d < rank && !empty; ++d)
    fits = fits && last[d] < std::max<int64_t>(lies.size(lies.rank() - 1 - static_cast<int>(d)), 1);
  if (fits && !empty && !even) return not_as_one(buffer, lies);
  if (fits || empty) {
    CODETTA_CHECK_OK(view_of(lies, plan));
    return {};
  }
  return diag::error(diag::Code::guard_failed, fmt::format("{} does not fit the kernel", buffer.name))
      .reason(fmt::format("it is {}, and the product would read behind its end", lies.describe()))
      .help("bind a tensor of the declared shape");
}

TensorView factor_of(const TensorView& lies, const FactorPlan& plan) {
  if (plan.dims.empty()) return lies;
  auto view = view_of(lies, plan);
  return view ? *std::move(view) : TensorView();
}

Result<void> check_agree(int64_t& inner, const items::Items& items, const package::Buffer& buffer) {
  long long both = inner;
  if (!items::agree(both, items)) {
    return diag::error(diag::Code::guard_failed, fmt::format("{} does not fit the kernel", buffer.name))
        .reason(fmt::format("{} of its items lie one way, and {} of the other factor", items.inner, inner))
        .help("bind a tensor whose leading dims lie one inside the other, such as a contiguous one");
  }
  inner = both;
  return {};
}

static Error uneven(const package::Buffer& buffer, const TensorView& view) {
  return diag::error(diag::Code::guard_failed, fmt::format("{} does not fit the kernel", buffer.name))
      .reason(fmt::format("it is {} with strides {}: its leading dims are not evenly spaced", view.describe(),
                          to_string(view.strides())))
      .help("bind a tensor whose leading dims lie one inside the other, such as a contiguous one");
}

Result<void> check_even(const package::Buffer& buffer, const TensorView& view) {
  if (view.empty() || view.rank() < 2 || items_of(view)) return {};
  return uneven(buffer, view);
}

Result<void> check_as_one(const package::Buffer& buffer, const package::DimsAsOne& dims, const TensorView& view) {
  if (view.empty() || view.rank() < dims.last + static_cast<int>(dims.count)) return {};
  int64_t elements = 1;
  for (size_t d = 0; d < dims.count; ++d) elements *= view.size(view.rank() - 1 - dims.last - static_cast<int>(d));
  if (stride_as_one(view, dims.last, elements)) return {};
  return not_as_one(buffer, view);
}

Result<void> check_callers_factors(const package::Package& package, const package::LaunchKernel& launch,
                                   const std::vector<TensorView>& tensors) {
  using Role = package::Buffer::Role;
  if (!launch.product) return {};
  const bool one_stride = package::is_vendor(package.kernels[launch.kernel].config);
  int64_t inner = 0;
  for (const uint32_t factor : package::factors_read(package, launch)) {
    const package::Buffer& buffer = package.buffers[factor];
    const TensorView& view = tensors[factor];
    const bool of_caller = buffer.role == Role::Argument || buffer.role == Role::Output;
    // What is seen otherwise has two strides at most wherever it lies, and agrees with the other factor.
    const bool seen = !(factor == launch.product->a ? launch.product->a_view : launch.product->b_view).empty();
    if (!of_caller || seen || view.data() == nullptr || view.empty()) continue;
    CODETTA_CHECK_OK(check_even(buffer, view));
    if (one_stride && !batch_stride(view)) return uneven(buffer, view);
    CODETTA_CHECK_OK(check_agree(inner, *items_of(view), buffer));
  }
  for (const package::DimsAsOne& dims : package::dims_as_one(package, launch))
    CODETTA_CHECK_OK(check_as_one(package.buffers[dims.buffer], dims, tensors[dims.buffer]));
  return {};
}

Result<void> check_factor(const package::Buffer& buffer, const TensorView& view, bool transposed, int64_t batch,
                          int64_t rows, int64_t cols) {
  if (view.rank() < 2) {
    return diag::error(diag::Code::guard_failed, fmt::format("{} does not fit the kernel", buffer.name))
        .reason(fmt::format("it is {}; a factor has two dims or more", view.describe()))
        .help("bind a matrix");
  }
  const int64_t have_rows = view.size(view.rank() - (transposed ? 1 : 2)),
                have_cols = view.size(view.rank() - (transposed ? 2 : 1));
  int64_t have_batch = 1;
  for (int dim = 0; dim + 2 < view.rank(); ++dim) have_batch *= view.size(dim);
  CODETTA_CHECK_OK(check_even(buffer, view));
  if (have_rows == rows && have_cols == cols && (have_batch == batch || have_batch == 1)) return {};
  return diag::error(diag::Code::guard_failed, fmt::format("{} does not fit the kernel", buffer.name))
      .reason(fmt::format("it is {}{}; the product takes [{}, {}] in a batch of {}", view.describe(),
                          transposed ? " transposed" : "", rows, cols, batch))
      .help("bind matrices whose sizes agree");
}

}  // namespace codetta::runtime

// SPDX-License-Identifier: Apache-2.0
#include "runtime/forms.hpp"

#include <fmt/format.h>

#include "base/checked.hpp"
#include "diag/diagnostic.hpp"

namespace codetta::runtime {

using package::Buffer;

Error size_overflow(const std::string& what) {
  return diag::error(diag::Code::tensor_overflow, fmt::format("the size of {} overflows", what))
      .reason("the product of its sizes exceeds 2^63 bytes")
      .help("use smaller sizes");
}

Error pool_overrun(const Buffer& buffer, int64_t end, uint32_t pool, int64_t pool_bytes) {
  return diag::error(diag::Code::package_damaged, "package is damaged")
      .reason(fmt::format("temporary {} ends at byte {} of pool {}, which has {}", buffer.name, end, pool, pool_bytes))
      .help("build the package again");
}

Result<Form> form_of(const package::Package& package, uint32_t index, const Symbols& symbols) {
  const Buffer& buffer = package.buffers[index];
  Form form;
  const int64_t element = dtype_size(buffer.dtype);
  bool empty = false;
  for (const types::Dim& dim : buffer.shape) {
    const auto size = dim.evaluate(symbols);
    if (!size || *size < 0) return size_overflow("temporary " + buffer.name);
    empty = empty || *size == 0;
    form.shape.push_back(*size);
  }
  if (buffer.strides.empty()) {
    std::optional<int64_t> bytes = element;
    for (int i = 0; i < form.shape.rank() && bytes; ++i) bytes = base::checked_mul(*bytes, form.shape[i]);
    if (!bytes && !empty) return size_overflow("temporary " + buffer.name);
    form.strides = row_major_strides(form.shape);
    form.bytes = empty ? 0 : *bytes;
    return form;
  }
  std::optional<int64_t> reach = 0;
  for (size_t i = 0; i < buffer.strides.size(); ++i) {
    const auto stride = buffer.strides[i].evaluate(symbols);
    if (!stride || *stride < 0) return size_overflow("temporary " + buffer.name);
    form.strides.push_back(*stride);
    const int64_t size = form.shape[static_cast<int>(i)];
    const auto step = size > 1 ? base::checked_mul(*stride, size - 1) : std::optional<int64_t>(0);
    reach = reach && step ? base::checked_add(*reach, *step) : std::nullopt;
  }
  reach = reach ? base::checked_add(*reach, int64_t{1}) : std::nullopt;
  const auto bytes = reach ? base::checked_mul(*reach, element) : std::nullopt;
  if (!bytes && !empty) return size_overflow("temporary " + buffer.name);
  form.bytes = empty ? 0 : *bytes;
  return form;
}

Result<TensorView> view_into(const package::Package& package, const std::vector<TensorView>& tensors, uint32_t index,
                             const Form& form, uint32_t source, int64_t offset) {
  const Buffer &buffer = package.buffers[index], &from = package.buffers[source];
  const TensorView& memory = tensors[source];
  const auto [first, last] = memory.byte_range();
  const auto end = base::checked_add(offset, form.bytes);
  const int64_t room = last - static_cast<const std::byte*>(memory.data());
  if (!end || offset < 0 || (form.bytes > 0 && *end > room)) {
    return diag::error(diag::Code::guard_failed, fmt::format("{} does not fit into {}", buffer.name, from.name))
        .reason(fmt::format("it takes {} bytes from byte {} on, and {} has {}", form.bytes, offset, from.name, room))
        .help("bind tensors of the declared shapes");
  }
  std::byte* data = static_cast<std::byte*>(memory.data());
  if (data != nullptr) data += offset;
  return TensorView::make(static_cast<void*>(data), buffer.dtype, form.shape, form.strides);
}

Result<StaticView> slice_of(const package::Package& package, const TensorView& source, const package::Reinterpret& step,
                            const Symbols& symbols) {
  const Buffer &buffer = package.buffers[step.buffer], &from = package.buffers[step.source];
  CODETTA_TRY(const Form form, form_of(package, step.buffer, symbols));
  StaticView view{step.buffer, StaticView::Base::Buffer, step.source, 0, form.shape, {}};
  // Leading dims of size 1 may be missing in what the caller binds.
  const int missing = form.shape.rank() - source.rank();
  for (int d = 0; d < form.shape.rank(); ++d) {
    const int64_t stride = d < missing ? 0 : source.stride(d - missing),
                  size = d < missing ? 1 : source.size(d - missing);
    const auto begin = buffer.begin[static_cast<size_t>(d)].evaluate(symbols);
    const auto end = begin ? base::checked_add(*begin, form.shape[d]) : std::nullopt;
    if (!end || *begin < 0 || *end > size) {
      return diag::error(diag::Code::guard_failed, fmt::format("{} does not fit into {}", buffer.name, from.name))
          .reason(fmt::format("it takes {} elements of dim {} from {} on, and {} is {}", form.shape[d], d,
                              begin.value_or(-1), from.name, source.describe()))
          .help("bind tensors of the declared shapes");
    }
    view.strides.push_back(stride);
    // A dim without elements may begin behind the last, and lie anyhow.
    if (form.shape[d] != 0) view.offset += *begin * stride * dtype_size(buffer.dtype);
  }
  return view;
}

Result<TensorView> slice_into(const package::Package& package, const TensorView& source, const StaticView& view) {
  std::byte* data = const_cast<std::byte*>(static_cast<const std::byte*>(source.data()));
  if (data != nullptr && !source.empty()) data += view.offset;
  return TensorView::make(static_cast<void*>(data), package.buffers[view.buffer].dtype, view.shape, view.strides);
}

}  // namespace codetta::runtime

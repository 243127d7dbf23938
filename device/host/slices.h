// SPDX-License-Identifier: Apache-2.0
// What emitted host text includes where a product reads a slice of a tensor.
#pragma once

#include "device/host/support.h"

namespace codetta::host {

// What lies from `begin` on of a tensor with as many dims, and has its strides.
template <i32 n>
Status slice(View& view, const View& source, const Number (&begin)[n], const Number* sizes, const char* name) {
  view = source;
  i64 first = 0;
  for (i32 i = 0; i < n; ++i) {
    const Number end = begin[i] + sizes[i];
    if (end.bad || begin[i].value < 0 || sizes[i].value < 0 || end.value > source.size[i])
      return fail(bad_sizes, "E0610: %s does not fit: it takes %lld elements from %lld on, and %lld are there", name,
                  static_cast<long long>(sizes[i].value), static_cast<long long>(begin[i].value),
                  static_cast<long long>(source.size[i]));
    view.size[i] = sizes[i].value;
    if (sizes[i].value != 0) first += begin[i].value * source.stride[i];
  }
  if (!source.empty()) view.data += first * dtype_bytes(view.dtype);
  return ok;
}

}  // namespace codetta::host

// SPDX-License-Identifier: Apache-2.0
// Tables and texts of the whole process, made on first use.
#pragma once

#include <utility>

namespace codetta::base {

// Moves the value to memory that is never freed: `static const auto& x = base::kept(...)`. Threads and destructors of
// the caller's own static objects may still use the library while static objects are destroyed.
template <class T>
const T& kept(T value) {
  return *new T(std::move(value));
}

}  // namespace codetta::base

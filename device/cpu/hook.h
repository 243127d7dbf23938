// SPDX-License-Identifier: Apache-2.0
// What stands in front of a kernel of the user's that hands over a result element by element, behind user.h: Hook,
// which gives each element to the kernel's Epilogue. The emitted text defines that one in front of the user's source.
#ifndef CODETTA_HOOK_H
#define CODETTA_HOOK_H

#ifndef CODETTA_USER_H
#include "device/cpu/user.h"
#endif

namespace codetta {
namespace detail {

// void store(int64_t batch, int64_t row, int64_t column, T value) const, and run(batch, row, column, const T* values,
// int64_t count): leading dims are one, row-major; a result of one dim has one row. Of this file alone, and with it all
// that takes a Hook: libraries link several such files.
namespace {
struct Epilogue;
}

// Of a tensor: its first element behind `elements`, and the stride of a dim that is counted from the last. Also of a
// size of 1: where dims are taken as one, it can be the stride of all of them.
inline int64_t step(const Given& given, int from_last) {
  return given.rank > from_last ? given.strides[given.rank - 1 - from_last] : 0;
}
inline void* behind(const Given& given, int64_t elements, int64_t bytes) {
  return static_cast<char*>(given.data) + elements * bytes;
}

}  // namespace detail

// A result with Rank dims that is not read back: every element is stored once, in any order, by any thread.
template <class T, int Rank, class Epilogue = detail::Epilogue>
struct Hook {
  const Epilogue& epilogue;
  int64_t sizes[Rank];

  int64_t size(int dim) const { return sizes[dim]; }
  // store(i, j, value): an index a dim, then the element.
  template <class... Given>
  void store(Given... given) const {
    static_assert(sizeof...(Given) == Rank + 1, "an index a dim, and then the value");
    int64_t at[Rank];
    take<0>(at, given...);
  }
  // store_run(i, j, values, count): elements side by side along the last dim, from that place on. What follows works on
  // a vector of them at once.
  template <class... Given>
  void store_run(Given... given) const {
    static_assert(sizeof...(Given) == Rank + 2, "an index a dim, and then the values and their number");
    int64_t at[Rank];
    take<0>(at, given...);
  }

 private:
  static int64_t row(const int64_t* at) { return Rank > 1 ? at[Rank > 1 ? Rank - 2 : 0] : 0; }
  int64_t batch(const int64_t* at) const {
    int64_t index = 0;
    for (int d = 0; d + 2 < Rank; ++d) index = index * sizes[d] + at[d];
    return index;
  }
  template <int Place, class First, class... Rest>
  void take(int64_t* at, First first, Rest... rest) const {
    if constexpr (Place == Rank && sizeof...(Rest) == 0) {
      epilogue.store(batch(at), row(at), at[Rank - 1], static_cast<T>(first));
    } else if constexpr (Place == Rank) {
      epilogue.run(batch(at), row(at), at[Rank - 1], first, rest...);
    } else {
      at[Place] = static_cast<int64_t>(first);
      take<Place + 1>(at, rest...);
    }
  }
};

}  // namespace codetta

using codetta::Hook;

#endif

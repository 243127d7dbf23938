// SPDX-License-Identifier: Apache-2.0
// What stands in front of a kernel of the user's that hands over a result element by element, behind user.h: Hook,
// which gives each element to the kernel's Epilogue. The emitted text defines that one in front of the user's source.
#pragma once

#include "device/gpu/fragment.h"

namespace codetta {
namespace gpu {

// What a fragment of one element is told, in the place of Params.
template <int operands, int arguments>
struct HookParams {
  struct {
    i64 batches, rows, cols;
  } problem;
  Operand operand[at_least_one(operands)];
  ScalarValue scalar[at_least_one(arguments)];
};

CODETTA_FN Tile tile_of_one(i64 batch, i64 row, i64 column) {
  Tile tile{};
  tile.batch = batch, tile.row = row, tile.col = column;
  tile.rows = tile.cols = tile.threads = 1;
  return tile;
}

}  // namespace gpu

namespace user {

// int64_t size(int dim) const, and void store(int64_t batch, int64_t row, int64_t column, T value) const: leading dims
// are one, row-major; a result of one dim has one row. A kernel takes it by value, as 8-byte words that the host fills.
// Of this file alone: nvcc may link several with -rdc=true.
namespace {
struct Epilogue;
}

}  // namespace user

// A result with Rank dims that is not read back: every element is stored once, in any order, by any thread.
template <class T, int Rank, class Epilogue = user::Epilogue>
struct Hook {
  Epilogue epilogue;

  __device__ int64_t size(int dim) const { return epilogue.size(dim); }
  // store(i, j, value): an index a dim, then the element.
  template <class... Given>
  __device__ void store(Given... given) const {
    static_assert(sizeof...(Given) == Rank + 1, "an index a dim, and then the value");
    int64_t at[Rank];
    take<0>(at, given...);
  }

 private:
  template <int Place, class First, class... Rest>
  __device__ void take(int64_t* at, First first, Rest... rest) const {
    if constexpr (sizeof...(Rest) == 0) {
      int64_t batch = 0;
      for (int d = 0; d + 2 < Rank; ++d) batch = batch * size(d) + at[d];
      epilogue.store(batch, Rank > 1 ? at[Rank > 1 ? Rank - 2 : 0] : 0, at[Rank - 1], static_cast<T>(first));
    } else {
      at[Place] = static_cast<int64_t>(first);
      take<Place + 1>(at, rest...);
    }
  }
};

namespace user {

template <class T, int Rank>
struct HookOf {
  template <class P>
  static constexpr bool fits = same<Hook<T, Rank>, P>;
};

}  // namespace user
}  // namespace codetta

using codetta::Hook;

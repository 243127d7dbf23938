// SPDX-License-Identifier: Apache-2.0
// Factors of products as launches read them: a matrix, or matrices at two strides (device/host/items.h).
#pragma once

#include <optional>
#include <vector>

#include "package/package.hpp"

namespace codetta::package {

// Buffers that the launch reads as factors where they lie: none that its own kernel or another one makes in blocks.
std::vector<uint32_t> factors_read(const Package& package, const LaunchKernel& launch);
// The B of a product as it is seen: that of the first, but for its columns where each product has a root space.
FactorView view_of_b(const Product& product, const EpilogueProgram& program, size_t of);
// Leading dims of a factor of this shape (those before the last two) that may not be 1.
std::vector<types::Dim> leading_dims(const std::vector<types::Dim>& shape);
// Buffers of factors that products read as they lie where the caller's tensors lie, and that may lie unevenly if the
// caller likes: launches take two strides for all leading dims of a factor seen as one, and those of one product take
// the second one after equally many items. By launch, each launch's in order; none without any.
std::vector<std::vector<uint32_t>> uneven_factors(const Package& package);
// Dims of a buffer, `last` from the last and those around it, that a product takes for one: each has to lie inside of
// the one in front of it.
struct DimsAsOne {
  uint32_t buffer = 0;
  uint8_t last = 0;
  size_t count = 0;  // two or more
  bool operator==(const DimsAsOne&) const = default;
};
// How many dims of this shape a view's dim goes through: more than one where it counts elements of all of them.
size_t dims_seen_as(const FactorDim& dim, const std::vector<types::Dim>& shape);
// Of the factors that a launch reads where the caller's tensors lie.
std::vector<DimsAsOne> dims_as_one(const Package& package, const LaunchKernel& launch);
// Of all launches, each once.
std::vector<DimsAsOne> dims_as_one(const Package& package);
// An output of which no part alone is filled: kernels of the user's may write it where it lies.
inline bool may_be_written_by_user(const Buffer& buffer) {
  return buffer.role == Buffer::Role::Output && buffer.filled.empty();
}
// An output that a kernel of the user's on a GPU writes where it lies, if it lies as the kernel takes it: what this
// check in front of all work is about. Another package takes tensors that fail it, also in unchecked runs. None: the
// check is of something else.
std::optional<uint32_t> written_by_user(const Package& package, const Guard& guard);
// Whether there are such outputs, for which other packages have memory of their own.
bool may_be_written_beside(const Package& package);
// Whether another package takes over where the stride of an output that this defines is negative: none of its views and
// no kernel of the user's takes that.
bool ascends(const Package& package, const DefineSymbol& define);
// Whether there are factors or dims that may, or such outputs.
bool may_be_uneven(const Package& package);

}  // namespace codetta::package

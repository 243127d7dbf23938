// SPDX-License-Identifier: Apache-2.0
// Shapes, strides and places of buffers under the symbols of a run; what both executors share.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "runtime/checks.hpp"

namespace codetta::runtime {

struct Form {
  Dims shape, strides;
  int64_t bytes = 0;  // from the first element to the end of the last; 0 without elements
};
// Errors: E0603 where sizes overflow or are negative.
Result<Form> form_of(const package::Package& package, uint32_t buffer, const Symbols& symbols);
Error size_overflow(const std::string& what);  // E0603
// E0520: a temporary would end behind its pool.
Error pool_overrun(const package::Buffer& buffer, int64_t end, uint32_t pool, int64_t pool_bytes);

// What a step makes of memory whose place is known before the run.
struct StaticView {
  uint32_t buffer = 0;
  enum class Base : uint8_t { Pools, Own, Buffer } base = Base::Pools;
  uint32_t source = 0;  // Buffer
  int64_t offset = 0;   // bytes behind the base
  Dims shape, strides;
};

// The view of `buffer` that begins `offset` bytes behind the first element of `source`. Nothing is read. Errors: E0610
// where it would leave the memory of `source`.
Result<TensorView> view_into(const package::Package& package, const std::vector<TensorView>& tensors, uint32_t buffer,
                             const Form& form, uint32_t source, int64_t offset);

// The same of a slice (Buffer::begin): it has the strides of its source. Errors: E0603, E0610.
Result<StaticView> slice_of(const package::Package& package, const TensorView& source, const package::Reinterpret& step,
                            const Symbols& symbols);
// What such a view is.
Result<TensorView> slice_into(const package::Package& package, const TensorView& source, const StaticView& view);

// Places for Allocate steps in a growing range, best fit first. Offsets are multiples of 64 and of the alignment asked
// for.
class OffsetSpace {
 public:
  // nullopt: the end overflows.
  std::optional<int64_t> take(int64_t bytes, int64_t alignment);
  void give_back(int64_t offset);  // of a range of at least one byte
  [[nodiscard]] int64_t bytes() const { return end_; }

 private:
  void insert(int64_t offset, int64_t bytes);
  std::map<int64_t, int64_t> free_;                       // offset -> bytes
  std::set<std::pair<int64_t, int64_t>> by_size_;         // (bytes, offset)
  std::map<int64_t, std::pair<int64_t, int64_t>> taken_;  // by offset handed out: (offset, bytes) of the range
  int64_t end_ = 0;
};

}  // namespace codetta::runtime

// SPDX-License-Identifier: Apache-2.0
#include "driver/rotation.hpp"

#include <algorithm>
#include <iterator>

namespace codetta::driver {

namespace {

using runtime::cuda::DeviceAddress;
using runtime::cuda::DeviceBuffer;

constexpr int64_t most_sets = 16;
constexpr int64_t caches = 8;           // that one set fills, where no second one is needed
constexpr DeviceAddress aligned = 256;  // what allocations are aligned to, and nothing relies on more

// Bytes that views share are in one range.
class Ranges {
 public:
  void add(const TensorView& view) {
    auto [first, last] = view.byte_range();
    if (first == last) return;
    Range range{reinterpret_cast<DeviceAddress>(first), reinterpret_cast<DeviceAddress>(last)};
    std::erase_if(ranges_, [&](const Range& other) {
      const bool meets = other.first < range.last && range.first < other.last;
      if (meets) range = {std::min(range.first, other.first), std::max(range.last, other.last)};
      return meets;
    });
    ranges_.push_back(range);
  }
  [[nodiscard]] int64_t bytes() const {
    int64_t sum = 0;
    for (const Range& range : ranges_) sum += static_cast<int64_t>(range.last - range.first);
    return sum;
  }
  struct Range {
    DeviceAddress first, last;
  };
  [[nodiscard]] const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

Ranges ranges_of(const GemmArguments& arguments) {
  Ranges all;
  all.add(arguments.A);
  all.add(arguments.B);
  if (arguments.out) all.add(*arguments.out);
  for (const NamedArgument& argument : arguments.epilogue.arguments()) {
    if (const TensorView* tensor = argument.value.tensor()) all.add(*tensor);
  }
  return all;
}

// One set of copies: where each range of bytes lies there.
class Places {
 public:
  void add(const Ranges::Range& range, DeviceAddress copy) { places_.push_back({range, copy}); }
  [[nodiscard]] Result<TensorView> moved(const TensorView& view) const {
    const auto data = reinterpret_cast<DeviceAddress>(view.as<const std::byte>());
    const auto begin = reinterpret_cast<DeviceAddress>(view.byte_range().first);
    for (const Place& place : places_) {
      if (view.empty() || begin < place.range.first || begin >= place.range.last) continue;
      void* const there = reinterpret_cast<void*>(place.copy + (data - place.range.first));
      return TensorView::make(there, view.dtype(), view.shape(), view.strides());
    }
    return view;
  }

 private:
  struct Place {
    Ranges::Range range;
    DeviceAddress copy;
  };
  std::vector<Place> places_;
};

Result<GemmArguments> moved(const GemmArguments& arguments, const Places& places) {
  GemmArguments made = arguments;
  CODETTA_TRY(made.A, places.moved(arguments.A));
  CODETTA_TRY(made.B, places.moved(arguments.B));
  if (arguments.out) {
    CODETTA_TRY(made.out, places.moved(*arguments.out));
  }
  std::vector<NamedArgument> named = arguments.epilogue.arguments();
  for (NamedArgument& argument : named) {
    const TensorView* const tensor = argument.value.tensor();
    if (tensor == nullptr) continue;
    CODETTA_TRY(const TensorView there, places.moved(*tensor));
    argument.value = there;
  }
  if (const auto& epilogue = arguments.epilogue.epilogue())
    made.epilogue = EpilogueArguments(*epilogue, std::move(named));
  return made;
}

}  // namespace

int64_t sets_in_turn(int64_t bytes, int64_t cache_bytes) {
  if (bytes <= 0 || cache_bytes <= 0 || bytes > caches * cache_bytes) return 1;
  return std::clamp<int64_t>((2 * cache_bytes + bytes - 1) / bytes + 1, 1, most_sets);
}

Result<Rotation> Rotation::make(const GemmArguments& arguments, const runtime::cuda::DeviceRef& device) {
  Rotation made;
  if (arguments.packed_B != nullptr) return made;
  const Ranges all = ranges_of(arguments);
  int64_t sets = sets_in_turn(all.bytes(), device->facts().l2_bytes);
  CODETTA_TRY(const auto memory, device->memory());
  // The other half is for workspaces.
  sets = std::min(sets, 1 + memory.first / 2 / std::max<int64_t>(all.bytes(), 1));
  bool room = true;
  for (int64_t set = 1; set < sets && room; ++set) {
    Places places;
    std::vector<DeviceBuffer> buffers;
    for (const Ranges::Range& range : all.ranges()) {
      const size_t bytes = range.last - range.first, offset = range.first % aligned;
      auto buffer = DeviceBuffer::make(device, bytes + offset);
      room = buffer || buffer.error().code() != static_cast<uint16_t>(diag::Code::device_memory);
      if (!room) break;
      if (!buffer) return std::move(buffer).error();
      CODETTA_CHECK_OK(device->copy(buffer->address() + offset, range.first, bytes, nullptr));
      places.add(range, buffer->address() + offset);
      buffers.push_back(*std::move(buffer));
    }
    if (!room) break;
    CODETTA_TRY(GemmArguments copy, moved(arguments, places));
    made.copies_.push_back(std::move(copy));
    std::move(buffers.begin(), buffers.end(), std::back_inserter(made.memory_));
  }
  CODETTA_CHECK_OK(device->synchronize());
  return made;
}

Result<std::vector<Execution>> Rotation::prepare(const Kernel& kernel) const {
  std::vector<Execution> executions;
  for (const GemmArguments& copy : copies_) {
    auto execution = kernel.prepare(copy);
    if (!execution) {
      if (execution.error().code() == static_cast<uint16_t>(diag::Code::device_memory)) break;
      return std::move(execution).error();
    }
    executions.push_back(*std::move(execution));
  }
  return executions;
}

}  // namespace codetta::driver

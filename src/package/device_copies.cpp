// SPDX-License-Identifier: Apache-2.0
#include "package/device_copies.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace codetta::package {
namespace {

using Clock = std::vector<uint64_t>;  // by device: how much of its work has ended

// The device whose stream a step that is no copy between devices gives work; nullopt: none. In a scope steps touch
// memory of its device alone.
struct WorkOf {
  const std::vector<Buffer>& buffers;
  uint32_t scope;
  using Answer = std::optional<uint32_t>;

  Answer operator()(const DefineSymbol& step) const {
    const bool read = step.from == DefineSymbol::From::Value && !buffers[step.buffer].is_scalar;
    return read ? Answer(buffers[step.buffer].device) : std::nullopt;
  }
  Answer operator()(const Check& step) const {
    if (const auto* nan = std::get_if<NanGuard>(&step.guard)) return buffers[nan->buffer].device;
    if (const auto* index = std::get_if<IndexGuard>(&step.guard)) return buffers[index->buffer].device;
    return std::nullopt;
  }
  Answer operator()(const LaunchKernel&) const { return scope; }
  Answer operator()(const CallExtern&) const { return scope; }
  Answer operator()(const Copy& step) const { return buffers[step.target].device; }
  Answer operator()(const Fill& step) const { return buffers[step.buffer].device; }
  Answer operator()(const IndexPut& step) const { return buffers[step.target].device; }
  Answer operator()(const Scatter& step) const { return buffers[step.target].device; }
  template <class Other>
  Answer operator()(const Other&) const {
    return std::nullopt;
  }
};

// One list. What each device is behind is counted by its clock. The wait for a copy is put off until the source's
// device has other work: the next copy to the same device has a wait that serves both, and one that comes back waits
// anyway.
class ListWalk {
 public:
  ListWalk(const std::vector<Buffer>& buffers, uint32_t devices, bool known, std::vector<DeviceCopy>& copies)
      : buffers_(buffers), clocks_(devices, Clock(devices)), open_(devices), copies_(copies) {
    if (!known) anything();
  }

  // `children`: gets the lists that steps of this one may run, with the device of these.
  void run(const StepList& steps, uint32_t around, std::vector<std::pair<uint32_t, uint32_t>>& children) {
    std::vector<uint32_t> scopes{around};
    for (const Step& step : steps) {
      if (const auto* enter = std::get_if<EnterDevice>(&step)) {
        scopes.push_back(enter->device);
      } else if (std::holds_alternative<ExitDevice>(step)) {
        scopes.pop_back();
      } else if (const auto* branch = std::get_if<If>(&step)) {
        anything();
        for (const uint32_t list : {branch->then_list, branch->else_list}) children.emplace_back(list, scopes.back());
      } else if (const auto* loop = std::get_if<While>(&step)) {
        anything();
        for (const uint32_t list : {loop->condition, loop->body}) children.emplace_back(list, scopes.back());
      } else if (const auto* one = std::get_if<Copy>(&step);
                 one != nullptr && buffers_[one->source].device != buffers_[one->target].device) {
        copy(*one);
      } else if (const auto device = std::visit(WorkOf{buffers_, scopes.back()}, step)) {
        work(*device);
      }
    }
    for (uint32_t device = 0; device < open_.size(); ++device) settle(device);
  }

 private:
  struct Open {
    size_t copy;   // of copies_
    Clock behind;  // of the target's device, the copy included
  };

  // Work on every device, in an order that is not known.
  void anything() {
    for (uint32_t device = 0; device < open_.size(); ++device) work(device);
  }
  void settle(uint32_t device) {
    if (!open_[device]) return;
    copies_[open_[device]->copy].waited_for = true;
    join(clocks_[device], open_[device]->behind);
    open_[device].reset();
  }
  void work(uint32_t device) {
    settle(device);
    ++clocks_[device][device];
  }
  void copy(const Copy& step) {
    DeviceCopy made{&step, buffers_[step.source].device, buffers_[step.target].device, true, false, false};
    made.follows = open_[made.from] && copies_[open_[made.from]->copy].to == made.to;
    if (!made.follows) settle(made.from);
    Clock& here = clocks_[made.to];
    made.waits = !holds(here, clocks_[made.from]);
    join(here, clocks_[made.from]);
    if (std::optional<Open>& own = open_[made.to]; own && holds(here, own->behind)) own.reset();
    settle(made.to);
    ++here[made.to];
    open_[made.from] = Open{copies_.size(), here};
    copies_.push_back(made);
  }
  static bool holds(const Clock& all, const Clock& part) {
    return std::equal(part.begin(), part.end(), all.begin(), std::less_equal<>());
  }
  static void join(Clock& into, const Clock& from) {
    for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
  }

  const std::vector<Buffer>& buffers_;
  std::vector<Clock> clocks_;              // by device
  std::vector<std::optional<Open>> open_;  // by device: a copy from it that it does not wait for yet
  std::vector<DeviceCopy>& copies_;
};

}  // namespace

std::vector<DeviceCopy> device_copies(const StepList& steps, const std::vector<StepList>& lists,
                                      const std::vector<Buffer>& buffers) {
  uint32_t devices = 1;
  for (const Buffer& buffer : buffers) devices = std::max(devices, buffer.device + 1);
  const auto entered = [&](const StepList& list) {
    for (const Step& step : list) {
      if (const auto* enter = std::get_if<EnterDevice>(&step)) devices = std::max(devices, enter->device + 1);
    }
  };
  entered(steps);
  for (const StepList& list : lists) entered(list);
  std::vector<DeviceCopy> copies;
  if (devices == 1) return copies;
  std::vector<std::pair<uint32_t, uint32_t>> children;
  ListWalk(buffers, devices, true, copies).run(steps, 0, children);
  for (size_t i = 0; i < children.size(); ++i) {
    const auto [list, around] = children[i];
    ListWalk(buffers, devices, false, copies).run(lists[list], around, children);
  }
  return copies;
}

std::vector<DeviceCopy> device_copies(const Package& package) {
  if (package.target.backend == Backend::cpu) return {};
  return device_copies(package.steps, package.step_lists, package.buffers);
}

std::string line_of(const DeviceCopy& copy, const StepNames& names) {
  std::string waits;
  if (copy.waits) waits = fmt::format(", {} waits for {}", copy.to, copy.from);
  if (copy.waited_for) waits += fmt::format(", then {} for {}", copy.from, copy.to);
  return fmt::format("copy {} to {}: device {} to {}{}", names.buffer(copy.step->source),
                     names.buffer(copy.step->target), copy.from, copy.to, waits);
}

}  // namespace codetta::package

// SPDX-License-Identifier: Apache-2.0
#include "package/gpu_steps.hpp"

#include <algorithm>

namespace codetta::package {

bool one_byte(DType dtype, uint64_t bits) {
  for (int64_t i = 1; i < dtype_size(dtype); ++i) {
    if ((bits >> (8 * i) & 0xFF) != (bits & 0xFF)) return false;
  }
  return true;
}

bool needs_steps_kernel(const Package& package, bool contents) {
  const auto strided = [&](uint32_t buffer) { return !package.buffers[buffer].strides.empty(); };
  // As the caller lays it out: what a loop begins with may lie where an output does.
  const auto in_pieces = [&](uint32_t buffer) {
    const Buffer::Role role = package.buffers[buffer].role;
    return strided(buffer) || role == Buffer::Role::Argument || role == Buffer::Role::Output;
  };
  const auto needs = [&](const Step& step) {
    if (const auto* fill = std::get_if<Fill>(&step)) {
      return fill->mode != ZeroMode::None &&
             (strided(fill->buffer) || !one_byte(package.buffers[fill->buffer].dtype, fill->bits));
    }
    if (const auto* copy = std::get_if<Copy>(&step)) return in_pieces(copy->source) || in_pieces(copy->target);
    if (const auto* check = std::get_if<Check>(&step)) {
      return contents &&
             (std::holds_alternative<NanGuard>(check->guard) || std::holds_alternative<IndexGuard>(check->guard));
    }
    return std::holds_alternative<IndexPut>(step) || std::holds_alternative<Scatter>(step);
  };
  if (std::any_of(package.steps.begin(), package.steps.end(), needs)) return true;
  return std::any_of(package.step_lists.begin(), package.step_lists.end(),
                     [&](const StepList& list) { return std::any_of(list.begin(), list.end(), needs); });
}

bool is_steps_kernel(const Kernel& kernel) {
  return !kernel.entries.empty() && kernel.entries.front().symbol.starts_with(step_symbol);
}

std::optional<uint32_t> steps_kernel(const Package& package) {
  for (uint32_t k = 0; k < package.kernels.size(); ++k) {
    if (is_steps_kernel(package.kernels[k])) return k;
  }
  return std::nullopt;
}

std::vector<std::vector<bool>> launched_on(const Package& package) {
  std::vector<std::vector<bool>> launched(package.device_count, std::vector<bool>(package.kernels.size()));
  std::vector<std::pair<const StepList*, uint32_t>> lists{{&package.steps, 0}};
  while (!lists.empty()) {
    const auto [list, outer] = lists.back();
    lists.pop_back();
    std::vector<uint32_t> scope{outer};
    for (const Step& step : *list) {
      if (const auto* enter = std::get_if<EnterDevice>(&step)) scope.push_back(enter->device);
      if (std::holds_alternative<ExitDevice>(step)) scope.pop_back();
      if (const auto* launch = std::get_if<LaunchKernel>(&step)) launched[scope.back()][launch->kernel] = true;
      if (const auto* branch = std::get_if<If>(&step)) {
        for (const uint32_t child : {branch->then_list, branch->else_list})
          lists.emplace_back(&package.step_lists[child], scope.back());
      }
      if (const auto* loop = std::get_if<While>(&step)) {
        for (const uint32_t child : {loop->condition, loop->body})
          lists.emplace_back(&package.step_lists[child], scope.back());
      }
    }
  }
  return launched;
}

}  // namespace codetta::package

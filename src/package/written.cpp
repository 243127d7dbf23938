// SPDX-License-Identifier: Apache-2.0
#include "package/written.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace codetta::package {
namespace {

struct Written {
  const Package& package;
  std::vector<uint32_t> buffers{};

  void operator()(const LaunchKernel& step) {
    const std::vector<Argument>& wanted = package.kernels[step.kernel].epilogue.arguments;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const uint32_t buffer = step.arguments[i];
      if (wanted[i].is_output && std::find(buffers.begin(), buffers.end(), buffer) == buffers.end())
        buffers.push_back(buffer);
    }
  }
  void operator()(const CallExtern& step) { buffers = step.outputs; }
  void operator()(const SelectOutput& step) { buffers = {step.buffer}; }
  void operator()(const Copy& step) { buffers = {step.target}; }
  void operator()(const Fill& step) {
    if (step.mode != ZeroMode::None) buffers = {step.buffer};
  }
  void operator()(const IndexPut& step) { buffers = {step.target}; }
  void operator()(const Scatter& step) { buffers = {step.target}; }
  void operator()(const LoadConstant& step) { buffers = {step.buffer}; }
  void operator()(const DefineSymbol&) {}
  void operator()(const Check&) {}
  void operator()(const Allocate&) {}
  void operator()(const AllocateFromPool&) {}
  void operator()(const Free&) {}
  void operator()(const Reuse&) {}
  void operator()(const Reinterpret&) {}
  void operator()(const DefineKernel&) {}
  void operator()(const EnterDevice&) {}
  void operator()(const ExitDevice&) {}
  void operator()(const EnterStream&) {}
  void operator()(const ExitStream&) {}
  void operator()(const RecordEvent&) {}
  void operator()(const WaitEvent&) {}
  void operator()(const EnterSubgraph&) {}
  void operator()(const ExitSubgraph&) {}
  void operator()(const If&) {}
  void operator()(const While&) {}
  void operator()(const Comment&) {}
  void operator()(const Return&) {}
};

}  // namespace

std::vector<uint32_t> buffers_written(const Package& package, const Step& step) {
  Written written{package};
  std::visit(written, step);
  return std::move(written.buffers);
}

bool writes(const Step& step) {
  return std::holds_alternative<LaunchKernel>(step) || std::holds_alternative<CallExtern>(step) ||
         std::holds_alternative<Copy>(step) || std::holds_alternative<Fill>(step) ||
         std::holds_alternative<IndexPut>(step) || std::holds_alternative<Scatter>(step);
}

std::string place_of(const Package& package, const Step& step) {
  const auto within = [&](const StepList& steps, const std::string& list) -> std::string {
    for (size_t i = 0; i < steps.size(); ++i) {
      if (&steps[i] == &step) return fmt::format("{}step {} ({})", list, i, name_of(step));
    }
    return {};
  };
  std::string place = within(package.steps, "");
  for (size_t list = 0; place.empty() && list < package.step_lists.size(); ++list)
    place = within(package.step_lists[list], fmt::format("list {}, ", list));
  return place.empty() ? std::string(name_of(step)) : place;
}

}  // namespace codetta::package

// SPDX-License-Identifier: Apache-2.0
#include "plan/explain_view.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "types/dtype.hpp"

namespace codetta::plan {

using package::Buffer;
using package::LaunchKernel;
using types::Dim;

Dim buffer_bytes(const Buffer& buffer) {
  Dim bytes = Dim::constant(types::byte_size(buffer.dtype));
  for (const Dim& dim : buffer.shape) bytes = bytes * dim;
  return bytes;
}
std::string buffer_type(const Buffer& buffer) {
  return std::string(dtype_name(buffer.dtype)) + (buffer.is_scalar ? "" : types::to_string(buffer.shape));
}

std::string listed(const std::vector<std::string>& items) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) text += (i == 0 ? "" : i + 1 == items.size() ? " and " : ", ") + items[i];
  return text;
}
std::string listed(const std::vector<size_t>& items) {
  std::vector<std::string> texts;
  for (const size_t item : items) texts.push_back(std::to_string(item));
  return listed(texts);
}

std::vector<ExplainView::Operand> ExplainView::reads_of(size_t k) const {
  const LaunchKernel& launch = *facts_.launches[k];
  std::vector<Operand> reads;
  const package::EpilogueProgram& program = plan_.kernels[k].lowered.program;
  if (launch.product) {
    if (!program.makes_a()) reads.push_back({launch.product->a, launch.product->a_transposed ? "A transposed" : "A"});
    const std::string b = launch.product->b_transposed ? "B transposed" : "B";
    const bool lies = launch.product->b_made.empty() && !program.makes_b();
    for (size_t p = 0; p < launch.product->products() && lies; ++p) reads.push_back({launch.product->factor_b(p), b});
    for (const package::Prologue& made : launch.product->b_made) {
      for (const uint32_t buffer : made.arguments) reads.push_back({buffer, "source of " + b});
    }
  }
  std::set<uint32_t> seen;
  const auto& arguments = program.arguments;
  const auto is_more_b = [&](uint32_t argument) {  // listed as a factor
    return std::any_of(program.more_b.begin(), program.more_b.end(),
                       [&](uint32_t b) { return program.operands[b].argument == argument; });
  };
  for (uint32_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].is_output && !is_more_b(i) && seen.insert(launch.arguments[i]).second)
      reads.push_back({launch.arguments[i], program.factors_read(i) ? "source of a factor" : "operand"});
  }
  return reads;
}

size_t ExplainView::caller_of(size_t k) const {
  for (size_t other = 0; other < facts_.launches.size(); ++other) {
    const LaunchKernel* launch = facts_.launches[other];
    if (launch == nullptr || !launch->product) continue;
    for (const package::Prologue& made : launch->product->b_made) {
      if (made.kernel == k) return other;
    }
  }
  return k;
}

std::vector<uint32_t> ExplainView::stores_of(size_t k) const {
  std::vector<uint32_t> stores;
  const auto& arguments = plan_.kernels[k].lowered.program.arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const uint32_t buffer = facts_.launches[k]->arguments[i];
    if (arguments[i].is_output && std::find(stores.begin(), stores.end(), buffer) == stores.end())
      stores.push_back(buffer);
  }
  return stores;
}

std::vector<size_t> ExplainView::readers_of(uint32_t buffer, size_t from) const {
  std::vector<size_t> readers;
  for (const Boundary& boundary : facts_.boundaries) {
    if (boundary.buffer == buffer && boundary.from == from && boundary.step.empty()) readers.push_back(boundary.to);
  }
  return readers;
}

std::string ExplainView::bytes_text(const Dim& bytes) const {
  const auto value = bytes.is_constant() ? std::nullopt : value_of(bytes);
  return value ? fmt::format("{} = {} bytes", bytes.to_string(), *value) : bytes.to_string() + " bytes";
}

std::string ExplainView::emitted_name(size_t kernel) const {
  return kernel < emitted_.names.size() ? emitted_.names[kernel] : std::string("not emitted");
}

std::string ExplainView::user_name(uint32_t buffer, size_t kernel) const {
  const KernelAccount& account = plan_.kernels[kernel].account;
  for (const ir::NodeId stored : account.stored) {
    // "t12", in a branch or a loop "t3_12".
    const std::string& called = plan_.buffers[buffer].name;
    const std::string number = std::to_string(stored.index());
    if (called != "t" + number && !(called.starts_with("t") && called.ends_with("_" + number))) continue;
    for (const HeldOperation& held : account.held) {
      if (held.node == stored) return held.name;
    }
  }
  return {};
}

namespace {

const HeldOperation* operation(const Plan& plan, ir::NodeId node) {
  for (const PlannedKernel& kernel : plan.kernels) {
    if (kernel.region.graph != nullptr) continue;
    for (const HeldOperation& held : kernel.account.held) {
      if (held.node == node) return &held;
    }
  }
  return nullptr;
}

}  // namespace

std::string ExplainView::value_name(ir::NodeId node) const {
  const HeldOperation* held = operation(plan_, node);
  if (held == nullptr) return fmt::format("%{}", node.index());
  const std::string what = held->name.empty() ? fmt::format("%{}", node.index()) : held->name;
  return held->line == 0 ? what : fmt::format("{} (line {})", what, held->line);
}

std::string ExplainView::shared_text(const SharedFactor& shared) const {
  std::vector<std::string> others;  // once each: slices of a tensor have its name
  for (const uint32_t other : shared.others) {
    const std::string& name = plan_.buffers[other].name;
    if (std::find(others.begin(), others.end(), name) == others.end()) others.push_back(name);
  }
  const bool makes_b = shared.is_a && std::any_of(shared.kernels.begin(), shared.kernels.end(),
                                                  [&](size_t k) { return plan_.kernels[k].lowered.program.makes_b(); });
  return fmt::format(
      "kernels {} multiply the same {} {} with {} and are not computed together{}; {} of it are read again",
      listed(shared.kernels), shared.is_a ? "A" : "B", plan_.buffers[shared.buffer].name, listed(others),
      makes_b ? ", since one that makes its B where it reads it makes that of one product" : "",
      bytes_text(shared.again));
}

}  // namespace codetta::plan

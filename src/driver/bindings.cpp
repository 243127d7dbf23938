// SPDX-License-Identifier: Apache-2.0
// From arguments by name to a package's buffers by index.
#include <fmt/format.h>

#include "driver/kernel_state.hpp"
#include "package/config_fields.hpp"
#include "package/cpu_call.hpp"
#include "runtime/launch.hpp"
#include "types/dtype.hpp"

namespace codetta::driver {

Result<runtime::Bindings> make_bindings(const package::Package& package, const Problem& problem) {
  runtime::Bindings bindings = runtime::Bindings::of(package);
  for (size_t i = 0; i < package.buffers.size(); ++i) {
    const package::Buffer& buffer = package.buffers[i];
    if (buffer.role == package::Buffer::Role::Temporary || buffer.role == package::Buffer::Role::Constant) continue;
    if (i < 2) {  // the product's factors come first
      bindings.tensors[i] = i == 0 ? problem.a : problem.b;
      continue;
    }
    if (buffer.is_scalar) {
      const auto scalar = problem.scalars.find(buffer.name);
      if (scalar != problem.scalars.end()) {
        bindings.scalars[i] = scalar_value(scalar->second, buffer.dtype);
        continue;
      }
    } else {
      const auto tensor = problem.tensors.find(buffer.name);
      if (tensor != problem.tensors.end()) {
        bindings.tensors[i] = tensor->second;
        continue;
      }
    }
    return diag::error(diag::Code::argument_missing,
                       fmt::format("Argument {} is not provided in the kwargs of the EpilogueArguments constructor",
                                   buffer.name))
        .reason(buffer.is_scalar ? "the kernel was found with a number" : "the kernel was found with a tensor")
        .help(fmt::format("bind {} to {}", buffer.name, buffer.is_scalar ? "a number" : "a tensor"));
  }
  return bindings;
}

namespace {

template <class Config>
std::vector<std::pair<std::string, int64_t>> settings(const Config& config) {
  std::vector<std::pair<std::string, int64_t>> result;
  const auto add = [&](std::string_view name, auto value) { result.emplace_back(name, static_cast<int64_t>(value)); };
  package::for_each_field(config, add, add);
  return result;
}

}  // namespace

KernelMetadata describe(const plan::Candidate& candidate, const Target& target) {
  KernelMetadata metadata;
  metadata.name = candidate.name;
  metadata.family = package::family_name(candidate.config);
  metadata.target = target;
  metadata.config = std::visit([](const auto& config) { return settings(config); }, candidate.config);
  for (const plan::CostTerm& term : candidate.terms)
    metadata.terms.push_back({term.name, term.microseconds, term.note});
  metadata.estimated_us = candidate.microseconds;
  return metadata;
}

int64_t workspace_bytes(const plan::Candidate& candidate, const package::EpilogueProgram& program,
                        const FoundState& found) {
  const auto& config = package::cpu(candidate.config);
  const plan::GemmShape& shape = found.problem.shape;
  runtime::cpu::GemmProblem problem;
  problem.batch = shape.batch, problem.m = shape.m, problem.n = shape.n, problem.k = shape.k;
  problem.a_batch = shape.a_batch_stride, problem.a_row = shape.a_row_stride, problem.a_k = shape.a_k_stride;
  problem.b_batch = shape.b_batch_stride, problem.b_k = shape.b_k_stride, problem.b_col = shape.b_col_stride;
  if (shape.b_packed) problem.packed_b = &problem;
  problem.split.ways = program.split.ways;
  problem.split.chunk = program.split.chunk.as_constant().value_or(0);
  std::vector<bool> argument_empty;
  for (const package::Argument& argument : program.arguments) {
    const auto tensor = found.problem.tensors.find(argument.name);
    argument_empty.push_back(tensor != found.problem.tensors.end() && tensor->second.empty());
  }
  const bool compiled = !found.context->options.no_compiler &&
                        (config.family == package::CpuFamily::Fused || !package::only_stores(program));
  return static_cast<int64_t>(
      runtime::scratch_bytes(config, program, problem, argument_empty, found.context->pool->size(), compiled));
}

std::string packed_layout(const void* packed) {
  return runtime::packed_layout(*static_cast<const runtime::cpu::PackedHeader*>(packed));
}

Rejection describe(const plan::Rejection& rejection) {
  Rejection described{rejection.code, rejection.kernel, rejection.text};
  for (const auto& [name, given, limit] : rejection.limits) described.limits.push_back({name, given, limit});
  return described;
}

}  // namespace codetta::driver

// SPDX-License-Identifier: Apache-2.0
// Execution: steps resolved to engine calls once, then run.
#include "runtime/execution.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "device/host/default_floats.h"
#include "diag/diagnostic.hpp"
#include "runtime/cpu/module.hpp"
#include "runtime/execution_state.hpp"

namespace codetta::runtime {

Execution::Execution(std::unique_ptr<State> state) : state_(std::move(state)) {}
Execution::Execution(Execution&&) noexcept = default;
Execution& Execution::operator=(Execution&&) noexcept = default;
Execution::~Execution() = default;

Result<Execution> Execution::make(package::PackageRef package, std::vector<KernelEntry> kernels, Bindings bindings,
                                  const ExecutionOptions& options) {
  auto state = std::make_unique<State>();
  state->package = std::move(package);
  state->kernels = std::move(kernels);
  state->bindings = std::move(bindings);
  state->options = options;
  CODETTA_CHECK_OK(package::check(*state->package));
  CODETTA_CHECK_OK(state->prepare());
  if (state->bytes() != 0) {
    CODETTA_TRY(state->own_workspace, Tensor::make(DType::u8, {state->bytes()}, *options.allocator));
  }
  if (state->late_launches.empty()) state->kernels.clear();  // launches hold what they need of it
  state->place(static_cast<std::byte*>(state->own_workspace.data()));
  return Execution(std::move(state));
}

Result<void> Execution::run() { return run(*state_->options.pool); }

Result<void> Execution::run(ThreadPool& pool) {
  const codetta::host::DefaultFloats floats;
  State& state = *state_;
  state.wrote = state.only_launches;
  if (!state.only_launches) {
    auto result = state.run_steps(pool);
    if (result) state.note_filled();
    state.end_run();
    return result;
  }
  std::byte* scratch = state.workspace == nullptr ? nullptr : state.workspace + state.temporary_bytes();
  for (Launch& launch : state.launches) launch.run(&pool, scratch);
  return {};
}

Dims Execution::filled(uint32_t buffer) const {
  for (const auto& [output, sizes] : state_->filled) {
    if (output == buffer) return sizes;
  }
  return state_->bindings.tensors[buffer].shape();
}

bool Execution::wrote() const { return state_->wrote; }

int64_t Execution::workspace_size() const { return state_->bytes(); }

Result<void> Execution::set_workspace(void* memory, int64_t bytes) {
  if (memory == nullptr && state_->bytes() != 0) {
    return diag::error(diag::Code::tensor_null, "the workspace is null")
        .about("workspace")
        .reason(fmt::format("{} bytes are needed", state_->bytes()))
        .help("pass memory of workspace_size() bytes");
  }
  if (reinterpret_cast<uintptr_t>(memory) % 64 != 0) {
    return diag::error(diag::Code::tensor_misaligned, "the workspace is not aligned to 64 bytes")
        .about("workspace")
        .reason(fmt::format("its address is {} modulo 64", reinterpret_cast<uintptr_t>(memory) % 64))
        .help("allocate it with an alignment of 64");
  }
  if (bytes < state_->bytes()) {
    return diag::error(diag::Code::workspace_small, "the workspace is too small")
        .about("workspace")
        .reason(fmt::format("{} bytes are given, {} are needed", bytes, state_->bytes()))
        .help("pass at least workspace_size() bytes");
  }
  state_->own_workspace = Tensor();
  state_->place(static_cast<std::byte*>(memory));
  return {};
}

bool Execution::interpreted() const {
  const State& state = *state_;
  return std::any_of(state.launches.begin(), state.launches.end(),
                     [](const Launch& launch) { return launch.interpreted(); }) ||
         std::any_of(state.late_launches.begin(), state.late_launches.end(),
                     [](const State::LateLaunch& late) { return late.launch && late.launch->interpreted(); });
}

}  // namespace codetta::runtime

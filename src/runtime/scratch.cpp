// SPDX-License-Identifier: Apache-2.0
#include "runtime/scratch.hpp"

#include <algorithm>

#include "package/gpu_steps.hpp"
#include "runtime/cuda/launch.hpp"
#include "runtime/cuda/step_launch.hpp"
#include "runtime/forms.hpp"
#include "runtime/launch.hpp"

namespace codetta::runtime {

namespace {

// Stand for what is compiled; none is called.
void no_epilogue(const codetta::cpu::EpilogueArgs*, const codetta::cpu::Tile*) {}
void no_kernel(const codetta::cpu::FusedArgs*) {}

bool is_fused(const package::KernelConfig& config) {
  const auto* cpu = std::get_if<package::CpuGemmConfig>(&config);
  return cpu != nullptr && cpu->family == package::CpuFamily::Fused;
}

class ScratchFinder {
 public:
  ScratchFinder(const package::Package& package, const Symbols& sizes, int64_t otherwise, int threads, bool compiled,
                int multiprocessors)
      : p_(package),
        symbols_(sizes),
        bindings_(Bindings::of(package)),
        gpu_(package.target.backend != Backend::cpu),
        threads_(threads),
        multiprocessors_(multiprocessors) {
    define(p_.steps, otherwise);
    for (const package::StepList& list : p_.step_lists) define(list, otherwise);
    for (uint32_t b = 0; b < p_.buffers.size(); ++b) {
      const auto form = p_.buffers[b].is_scalar ? std::optional<Form>() : form_if(b);
      // Never read, but distinct, aligned and not null.
      const auto at = reinterpret_cast<void*>((uintptr_t{b} + 1) << 40);
      if (!form) continue;
      if (auto view = TensorView::make(at, p_.buffers[b].dtype, form->shape, form->strides))
        bindings_.tensors[b] = *view;
    }
    for (const package::Kernel& kernel : p_.kernels) {
      KernelEntry entry;
      const bool is_code = compiled && !kernel.source.empty();
      if (is_code && is_fused(kernel.config)) entry.fused = no_kernel;
      if (is_code && !is_fused(kernel.config)) entry.function = no_epilogue;
      entries_.push_back(std::move(entry));
    }
  }

  Scratch found() && {
    walk(p_.steps);
    return std::move(result_);
  }

 private:
  void define(const package::StepList& steps, int64_t otherwise) {
    for (const package::Step& step : steps) {
      const auto* symbol = std::get_if<package::DefineSymbol>(&step);
      if (symbol == nullptr || symbols_.contains(symbol->symbol)) continue;
      const bool computed = symbol->from == package::DefineSymbol::From::Expression;
      const auto value = computed ? symbol->value.evaluate(symbols_) : std::nullopt;
      symbols_[symbol->symbol] = value.value_or(otherwise);
    }
  }
  [[nodiscard]] std::optional<Form> form_if(uint32_t buffer) const {
    auto form = form_of(p_, buffer, symbols_);
    return form ? std::optional(*std::move(form)) : std::nullopt;
  }

  // Lists of branches and loops run on the device of their step.
  void walk(const package::StepList& steps) {
    const size_t outside = devices_.size();
    for (const package::Step& step : steps) {
      if (const auto* enter = std::get_if<package::EnterDevice>(&step)) devices_.push_back(enter->device);
      if (std::holds_alternative<package::ExitDevice>(step) && devices_.size() > outside) devices_.pop_back();
      if (const auto* launch = std::get_if<package::LaunchKernel>(&step)) look(step, *launch);
      if (const auto* branch = std::get_if<package::If>(&step))
        walk(p_.step_lists[branch->then_list]), walk(p_.step_lists[branch->else_list]);
      if (const auto* loop = std::get_if<package::While>(&step))
        walk(p_.step_lists[loop->condition]), walk(p_.step_lists[loop->body]);
      const bool puts =
          std::holds_alternative<package::IndexPut>(step) || std::holds_alternative<package::Scatter>(step);
      if (gpu_ && puts && package::steps_kernel(p_)) {
        if (const auto bytes = cuda::StepLaunch::room(p_, step, bindings_, symbols_)) add(step, *bytes, 0);
      }
    }
    devices_.resize(std::min(outside, devices_.size()));
  }
  void look(const package::Step& step, const package::LaunchKernel& launch) {
    const package::KernelConfig& config = p_.kernels[launch.kernel].config;
    if (package::is_user(config)) return;
    if (package::is_vendor(config)) {
      result_.unknown.push_back(&step);
    } else if (gpu_) {
      const auto room = cuda::Launch::room(p_, launch, bindings_, symbols_, multiprocessors_);
      if (!room) return;
      result_.estimated = result_.estimated || room->estimated;
      add(step, room->workspace_bytes, room->counter_bytes);
    } else if (const auto made = Launch::make(p_, launch, bindings_, entries_, symbols_, threads_)) {
      add(step, static_cast<int64_t>(made->workspace_bytes), 0);
    }
  }
  void add(const package::Step& step, int64_t bytes, int64_t counters) {
    if (bytes + counters > 0) result_.launches.push_back({&step, bytes, counters, devices_.back()});
  }

  const package::Package& p_;
  Symbols symbols_;
  Bindings bindings_;
  std::vector<KernelEntry> entries_;
  const bool gpu_;
  const int threads_, multiprocessors_;
  std::vector<uint32_t> devices_{0};
  Scratch result_;
};

}  // namespace

int64_t Scratch::shared(uint32_t device) const {
  int64_t most = 0;
  for (const LaunchScratch& one : launches) most = one.device == device ? std::max(most, one.bytes) : most;
  return most;
}

int64_t Scratch::counters(uint32_t device) const {
  int64_t sum = 0;
  for (const LaunchScratch& one : launches) sum += one.device == device ? one.counter_bytes : 0;
  return sum;
}

Scratch scratch_of(const package::Package& package, const Symbols& sizes, int64_t otherwise, int threads, bool compiled,
                   int multiprocessors) {
  return ScratchFinder(package, sizes, otherwise, threads, compiled, multiprocessors).found();
}

}  // namespace codetta::runtime

// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/step_launch.hpp"

#include <cstring>

#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "package/gpu_steps.hpp"
#include "runtime/forms.hpp"

namespace codetta::runtime::cuda {

namespace gpu = codetta::gpu;
namespace shared = codetta::gpu::host;

Result<FaultWord> FaultWord::make(DeviceRef device) {
  FaultWord result;
  const RelaxedCapture relaxed(device->driver());
  CODETTA_TRY(void* memory, device->allocate_host(sizeof(gpu::Fault)));
  std::memset(memory, 0, sizeof(gpu::Fault));
  result.word_ = static_cast<gpu::Fault*>(memory);
  result.device_ = std::move(device);
  return result;
}

FaultWord::~FaultWord() {
  if (word_ != nullptr) device_->free_host(word_);
}

shared::StepView StepLaunch::view(uint32_t buffer, const Bindings& bindings) const {
  const TensorView& tensor = bindings.tensors[buffer];
  shared::StepView result{};
  result.name = package_->buffers[buffer].name.c_str();
  result.data = static_cast<char*>(tensor.data());
  result.dtype = static_cast<int32_t>(tensor.dtype());
  result.rank = tensor.rank();
  for (int i = 0; i < tensor.rank(); ++i) {
    result.size[i] = tensor.size(i);
    result.stride[i] = tensor.stride(i);
  }
  return result;
}

Result<void> StepLaunch::plan(const Bindings& bindings) {
  shared::Trouble trouble;
  const auto failed = [&] {
    return diag::error(static_cast<diag::Code>(trouble.code), trouble.headline)
        .reason(trouble.reason)
        .help(trouble.help);
  };
  if (const auto* put = std::get_if<package::IndexPut>(step_)) {
    shared::StepView indices[gpu::step_rank];
    const auto count = static_cast<int32_t>(put->indices.size());
    for (int32_t n = 0; n < count; ++n) indices[n] = view(put->indices[static_cast<size_t>(n)], bindings);
    auto& made = parameters_.emplace<gpu::PutParams>();
    if (!shared::plan_index_put(view(put->target, bindings), indices, count, view(put->values, bindings),
                                static_cast<int32_t>(put->accumulate ? gpu::PutHow::sum : gpu::PutHow::none), made,
                                trouble))
      return failed();
  } else if (const auto* scatter = std::get_if<package::Scatter>(step_)) {
    auto& made = parameters_.emplace<gpu::PutParams>();
    if (!shared::plan_scatter(view(scatter->target, bindings), view(scatter->index, bindings),
                              view(scatter->source, bindings), scatter->dim, static_cast<int32_t>(scatter->reduce),
                              made, trouble))
      return failed();
  } else if (const auto* copy = std::get_if<package::Copy>(step_)) {
    shared::StepView from = view(part_ == Part::Scatter ? copy->target : copy->source, bindings);
    shared::StepView to = view(part_ == Part::Gather ? copy->source : copy->target, bindings);
    if (part_ != Part::Whole) {
      shared::StepView& piece = part_ == Part::Gather ? to : from;
      piece.data = reinterpret_cast<char*>(piece_);
      int64_t stride = 1;
      for (int i = piece.rank - 1; i >= 0; --i) {
        piece.stride[i] = stride;
        stride *= piece.size[i];
      }
    }
    if (!shared::plan_move(to, &from, 0, parameters_.emplace<gpu::MoveParams>(), trouble)) return failed();
  } else if (const auto* fill = std::get_if<package::Fill>(step_)) {
    if (!shared::plan_move(view(fill->buffer, bindings), nullptr, fill->bits, parameters_.emplace<gpu::MoveParams>(),
                           trouble))
      return failed();
  } else {
    const package::Guard& guard = std::get_if<package::Check>(step_)->guard;
    const auto* nan = std::get_if<package::NanGuard>(&guard);
    const uint32_t buffer = nan != nullptr ? nan->buffer : std::get_if<package::IndexGuard>(&guard)->buffer;
    const gpu::Looks looks = nan == nullptr ? gpu::Looks::index : nan->infinity ? gpu::Looks::finite : gpu::Looks::nan;
    parameters_ = shared::plan_look(view(buffer, bindings), looks, limit_);
  }
  if (const auto* put = std::get_if<gpu::PutParams>(&parameters_)) {
    blocks_ = put->positions == 0 ? 0 : shared::put_blocks(*put);
  } else if (const auto* move = std::get_if<gpu::MoveParams>(&parameters_)) {
    blocks_ = move->count == 0 ? 0 : shared::move_blocks(*move);
  } else {
    const auto& look = *std::get_if<gpu::LookParams>(&parameters_);
    blocks_ = look.count == 0 ? 0 : shared::look_blocks(look);
  }
  return {};
}

Result<int64_t> StepLaunch::room(const package::Package& package, const package::Step& step, const Bindings& bindings,
                                 const Symbols& symbols) {
  CODETTA_TRY(const StepLaunch launch, planned(package, step, bindings, symbols, Part::Whole));
  return launch.workspace_bytes;
}

Result<StepLaunch> StepLaunch::make(const package::Package& package, const package::Step& step,
                                    const Bindings& bindings, const Symbols& symbols, const ModuleRef& module,
                                    Part part) {
  CODETTA_TRY(StepLaunch launch, planned(package, step, bindings, symbols, part));
  const package::GpuEntry& entry = package.kernels[*package::steps_kernel(package)].entries[launch.parameters_.index()];
  CODETTA_TRY(launch.function_, module->function(entry.symbol, 0, 1));
  launch.function_name_ = entry.symbol;
  return launch;
}

Result<StepLaunch> StepLaunch::planned(const package::Package& package, const package::Step& step,
                                       const Bindings& bindings, const Symbols& symbols, Part part) {
  StepLaunch launch;
  launch.part_ = part;
  launch.package_ = &package;
  launch.step_ = &step;
  if (const auto* check = std::get_if<package::Check>(&step)) {
    if (const auto* index = std::get_if<package::IndexGuard>(&check->guard)) {
      const auto size = index->size.evaluate(symbols);
      if (!size) {
        return diag::error(diag::Code::guard_failed,
                           fmt::format("the size that {} indexes has no value", package.buffers[index->buffer].name))
            .reason(fmt::format("it is {}", index->size.to_string()))
            .help("pass sizes for which it has one");
      }
      launch.limit_ = *size;
    }
  }
  CODETTA_CHECK_OK(launch.plan(bindings));
  if (const auto* put = std::get_if<gpu::PutParams>(&launch.parameters_)) {
    launch.workspace_bytes = shared::wide_bytes(*put);
    if (launch.workspace_bytes < 0) return size_overflow("the workspace");
  }
  if (part != Part::Whole) {
    const TensorView& whole = bindings.tensors[std::get_if<package::Copy>(&step)->source];
    launch.workspace_bytes = (whole.element_count() * dtype_size(whole.dtype()) + 255) / 256 * 256;
  }
  return launch;
}

Result<void> StepLaunch::resolve(const Bindings& bindings, DeviceAddress workspace, gpu::Fault* fault,
                                 uint32_t number) {
  if (part_ != Part::Whole) piece_ = workspace;
  CODETTA_CHECK_OK(plan(bindings));
  if (auto* put = std::get_if<gpu::PutParams>(&parameters_)) {
    put->wide = workspace_bytes == 0 ? nullptr : reinterpret_cast<float*>(workspace);
    put->fault = {fault, number};
  } else if (auto* look = std::get_if<gpu::LookParams>(&parameters_)) {
    look->fault = {fault, number};
  }
  return {};
}

Status StepLaunch::run(const Driver& driver, StreamHandle stream) const {
  if (blocks_ == 0) return Status::Success;
  LaunchConfig config{};
  config.grid_x = static_cast<unsigned>(blocks_);
  config.block_x = gpu::step_threads;
  config.grid_y = config.grid_z = config.block_y = config.block_z = 1;
  config.stream = stream;
  const void* one = std::visit([](const auto& p) { return static_cast<const void*>(&p); }, parameters_);
  void* parameters[] = {const_cast<void*>(one)};  // the driver copies them
  return driver.call().launch_kernel(&config, function_.handle, parameters, nullptr);
}

Error StepLaunch::error_of(const gpu::Fault& fault, const Bindings& bindings, FoundIn run) const {
  const char* const when = run == FoundIn::EarlierRun ? ", in a run that was enqueued before" : "";
  uint32_t buffer = 0;
  const int64_t size = fault.size;
  const package::NanGuard* nan = nullptr;
  if (const auto* put = std::get_if<package::IndexPut>(step_)) {
    buffer = put->indices[fault.which];
  } else if (const auto* scatter = std::get_if<package::Scatter>(step_)) {
    buffer = scatter->index;
  } else {
    const package::Guard& guard = std::get_if<package::Check>(step_)->guard;
    nan = std::get_if<package::NanGuard>(&guard);
    buffer = nan != nullptr ? nan->buffer : std::get_if<package::IndexGuard>(&guard)->buffer;
  }
  char place[200];
  shared::place_text(view(buffer, bindings), fault.offset, place, sizeof place);
  const std::string& name = package_->buffers[buffer].name;
  if (nan != nullptr) {
    return diag::error(diag::Code::number_invalid,
                       fmt::format("{} holds {}", name, fault.value == 1 ? "NaN" : "an infinity"))
        .about(name)
        .reason(fmt::format("it stands at {}{}{}{}", place, when, nan->why.empty() ? "" : "; made by ", nan->why))
        .help("look at the inputs of that step");
  }
  char index[24];
  return diag::error(diag::Code::index_range,
                     fmt::format("index {} is out of range for the size {}", shared::index_text(fault, index), size))
      .about(name)
      .reason(fmt::format("it stands at {} of {}{}", place, name, when))
      .help(size == 0 ? std::string("there is nothing to index") : fmt::format("pass indices from 0 to {}", size - 1));
}

}  // namespace codetta::runtime::cuda

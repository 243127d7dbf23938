// SPDX-License-Identifier: Apache-2.0
// A package over several devices: their streams, what orders them, and copies from one to another.
#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "runtime/cuda/execution_state.hpp"

namespace codetta::runtime::cuda {

Result<std::vector<Execution::State::Place>> Execution::State::make_places(const package::Package& package, Place first,
                                                                           std::vector<GpuOptions::Further> further) {
  std::vector<Place> places;
  places.push_back(std::move(first));
  const size_t needed = package.device_count;
  if (further.size() + 1 < needed) {
    return diag::error(diag::Code::device_missing, fmt::format("the program runs on {} devices", needed))
        .reason(fmt::format("it is given {}", further.size() + 1))
        .help("give it as many; one GPU may be given more than once");
  }
  if (needed == 1) return places;
  const RelaxedCapture relaxed(places.front().device->driver());
  for (size_t which = 1; which < needed; ++which) {
    GpuOptions::Further& other = further[which - 1];
    Place& made =
        places.emplace_back(Place{std::move(other.device), std::move(other.modules), std::move(other.vendor), {}, {}});
    made.modules.resize(package.kernels.size());
    CODETTA_TRY(made.stream, OwnedStream::make(made.device));
  }
  for (Place& place : places) {
    CODETTA_TRY(place.event, OwnedEvent::ordering(place.device));
  }
  return places;
}

std::string Execution::State::on_device(uint32_t which) const {
  if (!several()) return {};
  return fmt::format(", device = {}", device(which).facts().ordinal);
}

Result<void> Execution::State::run_all(StreamHandle stream) const {
  if (!several()) return run_list(0, stream);
  uint32_t begun = 0;
  Result<void> ran = fork(stream, begun);
  if (ran) ran = run_list(0, stream);
  // Also behind a run that fails: what it has enqueued belongs to the caller's stream, and to its capture.
  Result<void> joined = join(stream, begun);
  return ran ? std::move(joined) : std::move(ran);
}

Result<void> Execution::State::order(uint32_t earlier, uint32_t later, StreamHandle stream) const {
  const OwnedEvent& event = *(*places)[earlier].event;  // who waits has taken what it holds, so that it serves again
  CODETTA_CHECK_OK(event.record(stream_of(earlier, stream)));
  return device(later).wait(stream_of(later, stream), event.get());
}

Result<void> Execution::State::fork(StreamHandle stream, uint32_t& begun) const {
  const OwnedEvent& begin = *places->front().event;
  CODETTA_CHECK_OK(begin.record(stream));
  for (begun = 1; begun < places->size(); ++begun)
    CODETTA_CHECK_OK(device(begun).wait(stream_of(begun, stream), begin.get()));
  return {};
}

Result<void> Execution::State::join(StreamHandle stream, uint32_t begun) const {
  Result<void> joined;
  for (uint32_t which = 1; which < begun; ++which) {
    Result<void> one = order(which, 0, stream);
    if (joined) joined = std::move(one);  // the others are waited for all the same
  }
  return joined;
}

// On the target's stream, whose device is current.
Result<void> Execution::State::copy_between(const Between& copy, StreamHandle callers) const {
  const auto& [step, from_device, to_device, waits, waited_for, follows] = copy.order;
  const TensorView &source = bindings.tensors[step->source], &target = bindings.tensors[step->target];
  auto from = reinterpret_cast<DeviceAddress>(source.data()), to = reinterpret_cast<DeviceAddress>(target.data());
  const bool gathers = copy.gather >= 0;
  if (gathers) {
    if (follows) CODETTA_CHECK_OK(order(to_device, from_device, callers));
    CODETTA_TRY(const ContextGuard guard, device(from_device).enter());
    CODETTA_CHECK_OK(run_on_elements(copy.gather, stream_of(from_device, callers)));
    from = step_launches[static_cast<size_t>(copy.gather)].piece();
  }
  if (waits || gathers) CODETTA_CHECK_OK(order(from_device, to_device, callers));
  if (copy.scatter >= 0) to = step_launches[static_cast<size_t>(copy.scatter)].piece();
  const auto bytes = static_cast<size_t>(source.element_count() * dtype_size(source.dtype()));
  const StreamHandle stream = stream_of(to_device, callers);
  if (bytes != 0) CODETTA_CHECK_OK(device(to_device).copy_from(device(from_device), to, from, bytes, stream));
  if (copy.scatter >= 0) CODETTA_CHECK_OK(run_on_elements(copy.scatter, stream));
  return waited_for ? order(to_device, from_device, callers) : Result<void>();
}

}  // namespace codetta::runtime::cuda

// SPDX-License-Identifier: Apache-2.0
// Timing of executions.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "diag/diagnostic.hpp"
#include "driver/kernel_state.hpp"
#include "driver/sampler.hpp"
#include "runtime/cuda/stream.hpp"

namespace codetta {
namespace driver {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double sample_us = 200;  // what a sample lasts at least, while that takes no more runs than max_runs
constexpr double graph_us = 2000;  // of a replayed graph: its own launch costs some microseconds
constexpr int64_t max_runs = 10000, max_graph_runs = 500;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// Contents of donated tensors, which each run is to find as they are now: another run leaves anything there.
class Donations {
 public:
  // `device`: where the tensors lie; null: in host memory.
  static Result<Donations> make(std::span<const Execution> executions, const runtime::cuda::DeviceRef& device,
                                runtime::cuda::StreamHandle stream) {
    Donations made;
    for (size_t e = 0; e < executions.size(); ++e) {
      for (const TensorView& view : ExecutionState::of(executions[e]).given) {
        const auto [first, last] = view.byte_range();
        const auto bytes = static_cast<size_t>(last - first);
        if (bytes == 0) continue;
        Kept kept{e, const_cast<std::byte*>(first), bytes, {}, {}};
        if (device == nullptr) {
          CODETTA_TRY(kept.contents, Tensor::make(DType::u8, {static_cast<int64_t>(bytes)}));
          std::memcpy(kept.contents.view().data(), first, bytes);
        } else {
          CODETTA_TRY(kept.there, runtime::cuda::DeviceBuffer::make(device, bytes));
          CODETTA_CHECK_OK(device->copy(kept.there.address(), kept.address(), bytes, stream));
        }
        made.kept_.push_back(std::move(kept));
      }
    }
    made.device_ = device;
    return made;
  }
  [[nodiscard]] bool any() const { return !kept_.empty(); }
  // On the host at once.
  void restore(size_t execution) const {
    for (const Kept& kept : kept_) {
      if (kept.execution == execution) std::memcpy(kept.memory, kept.contents.view().data(), kept.bytes);
    }
  }
  // On the device, of all executions, in the order of the stream.
  Result<void> restore(runtime::cuda::StreamHandle stream) const {
    for (const Kept& kept : kept_)
      CODETTA_CHECK_OK(device_->copy(kept.address(), kept.there.address(), kept.bytes, stream));
    return {};
  }

 private:
  struct Kept {
    size_t execution;
    std::byte* memory;
    size_t bytes;
    Tensor contents;
    runtime::cuda::DeviceBuffer there;
    [[nodiscard]] runtime::cuda::DeviceAddress address() const {
      return reinterpret_cast<runtime::cuda::DeviceAddress>(memory);
    }
  };
  std::vector<Kept> kept_;
  runtime::cuda::DeviceRef device_;
};

}  // namespace

struct Sampler::State {
  virtual ~State() = default;
  virtual Result<double> sample() = 0;
};

struct Sampler::Clocked : Sampler::State {
  std::span<Execution> executions;
  Donations donations;
  int64_t repeats = 1;  // 1 where tensors are donated
  size_t turn = 0;

  Result<void> run(int64_t times) {
    for (int64_t i = 0; i < times; ++i) {
      CODETTA_CHECK_OK(ExecutionState::run_again(executions[turn]));
      if (++turn == executions.size()) turn = 0;
    }
    return {};
  }
  Result<double> sample() override {
    donations.restore(turn);
    const auto start = Clock::now();
    CODETTA_CHECK_OK(run(repeats));
    return microseconds_since(start) / static_cast<double>(repeats);
  }
  static Result<std::unique_ptr<State>> make(std::span<Execution> executions) {
    auto made = std::make_unique<Clocked>();
    made->executions = executions;
    CODETTA_TRY(made->donations, Donations::make(executions, nullptr, nullptr));
    for (size_t i = 0; i < executions.size(); ++i) {
      made->donations.restore(made->turn);
      CODETTA_CHECK_OK(made->run(1));
    }
    CODETTA_TRY(const double once, made->sample());
    if (!made->donations.any())
      made->repeats = std::clamp<int64_t>(static_cast<int64_t>(sample_us / std::max(once, 0.01)), 1, max_runs);
    return std::unique_ptr<State>(std::move(made));
  }
};

struct Sampler::Replayed : Sampler::State {
  runtime::cuda::OwnedStream stream;
  runtime::cuda::OwnedEvent begin, end;
  std::optional<runtime::cuda::OwnedGraph> graph;
  Donations donations;
  double runs = 1;  // of a replay

  Replayed(runtime::cuda::OwnedStream on, runtime::cuda::OwnedEvent first, runtime::cuda::OwnedEvent last)
      : stream(std::move(on)), begin(std::move(first)), end(std::move(last)) {}

  // Microseconds of what is enqueued, waited for.
  template <class Enqueue>
  Result<double> timed(Enqueue&& enqueue) {
    CODETTA_CHECK_OK(begin.record(stream.get()));
    CODETTA_CHECK_OK(enqueue());
    CODETTA_CHECK_OK(end.record(stream.get()));
    CODETTA_CHECK_OK(end.synchronize());
    CODETTA_TRY(const double milliseconds, end.milliseconds_since(begin));
    return milliseconds * 1e3;
  }
  Result<double> sample() override {
    CODETTA_CHECK_OK(donations.restore(stream.get()));
    CODETTA_TRY(const double microseconds, timed([&] { return graph->launch(stream.get()); }));
    return microseconds / runs;
  }
  static Result<std::unique_ptr<State>> make(std::span<Execution> executions, const runtime::cuda::DeviceRef& device) {
    CODETTA_TRY(runtime::cuda::OwnedStream stream, runtime::cuda::OwnedStream::make(device));
    CODETTA_TRY(runtime::cuda::OwnedEvent begin, runtime::cuda::OwnedEvent::make(device));
    CODETTA_TRY(runtime::cuda::OwnedEvent end, runtime::cuda::OwnedEvent::make(device));
    auto made = std::make_unique<Replayed>(std::move(stream), std::move(begin), std::move(end));
    CODETTA_CHECK_OK(device->synchronize());  // what the tensors wait for may be on any stream
    const auto count = static_cast<int64_t>(executions.size());
    const auto run_all = [&](runtime::cuda::StreamHandle on, int64_t times) -> Result<void> {
      for (int64_t i = 0; i < times; ++i)
        CODETTA_CHECK_OK(ExecutionState::run_again(executions[static_cast<size_t>(i % count)], Stream::from_cuda(on)));
      return {};
    };
    CODETTA_TRY(made->donations, Donations::make(executions, device, made->stream.get()));
    CODETTA_CHECK_OK(run_all(made->stream.get(), count));
    CODETTA_CHECK_OK(made->donations.restore(made->stream.get()));
    const int64_t trial = made->donations.any() ? count : std::max<int64_t>(count, 3);
    CODETTA_TRY(const double several, made->timed([&] { return run_all(made->stream.get(), trial); }));
    const double once = std::max(several / static_cast<double>(trial), 0.1);
    const auto wanted = std::clamp<int64_t>(static_cast<int64_t>(graph_us / once), 1, max_graph_runs);
    const int64_t runs = made->donations.any() ? count : (wanted + count - 1) / count * count;
    made->runs = static_cast<double>(runs);
    CODETTA_TRY(made->graph, runtime::cuda::OwnedGraph::capture(
                                 made->stream, [&](runtime::cuda::StreamHandle on) { return run_all(on, runs); }));
    CODETTA_TRY(const double warm, made->sample());
    (void)warm;
    return std::unique_ptr<State>(std::move(made));
  }
};

Sampler::Sampler(std::unique_ptr<State> state) : state_(std::move(state)) {}
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;
Sampler::~Sampler() = default;

Result<Sampler> Sampler::make(std::span<Execution> executions) {
  if (executions.empty())
    return diag::error(diag::Code::usage, "there is nothing to time").help("pass at least one execution");
  const auto* cuda = std::get_if<runtime::cuda::Execution>(&ExecutionState::of(executions[0]).execution);
  if (cuda == nullptr) {
    CODETTA_TRY(auto state, Clocked::make(executions));
    return Sampler(std::move(state));
  }
  CODETTA_TRY(auto state, Replayed::make(executions, cuda->device()));
  return Sampler(std::move(state));
}

Result<double> Sampler::sample() { return state_->sample(); }

}  // namespace driver

Result<Timing> measure(std::span<Execution> executions, double seconds) {
  constexpr size_t least = 5, most = 101;
  CODETTA_TRY(driver::Sampler sampler, driver::Sampler::make(executions));
  const auto start = std::chrono::steady_clock::now();
  std::vector<double> times;
  while (times.size() < least ||
         (times.size() < most && std::chrono::duration<double>(driver::Clock::now() - start).count() < seconds)) {
    CODETTA_TRY(const double microseconds, sampler.sample());
    times.push_back(microseconds);
  }
  std::sort(times.begin(), times.end());
  return Timing{times[times.size() / 2], times[times.size() / 4], times[times.size() * 3 / 4],
                static_cast<int64_t>(times.size())};
}

}  // namespace codetta

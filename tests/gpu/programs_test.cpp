// SPDX-License-Identifier: Apache-2.0
// Random programs on the GPU against the oracle, by the public interface: one context and one device for all threads.
// Each runs a second time, from a captured graph where nothing of it has to be waited for, and gives the same bits.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/files.hpp"
#include "codetta/codetta.hpp"
#include "codetta/contents.hpp"
#include "gpu/suite.hpp"
#include "runtime/cuda/device.hpp"
#include "support/device_arguments.hpp"
#include "support/random_program.hpp"

namespace codetta::gpu {
namespace {

namespace cu = runtime::cuda;

test::RandomProgramOptions options_of(uint64_t seed) {
  test::RandomProgramOptions options = test::drawn_options(seed);  // over several devices: on one GPU
  options.operations = 2 + static_cast<int>(seed % 9);
  if (options.largest_size > 9) {  // several tiles in a row or column
    options.largest_size = 150;
    options.widths = 60;
    options.max_elements = 1 << 16;
  }
  return options;
}

class Programs {
 public:
  // Of a device that is there; the driver's own calls are this test's.
  static Result<std::unique_ptr<Programs>> open() {
    auto made = std::make_unique<Programs>();
    made->folder_.emplace(*base::TemporaryDirectory::make("/tmp"));
    ContextOptions options;
    options.cache_dir = made->folder_->path() + "/cache";
    options.devices = {0, 0, 0};  // as many as programs are drawn for
    CODETTA_TRY(made->context_, Context::make(options));
    CODETTA_TRY(made->device_, Device::open(Backend::cuda, *made->context_));
    CODETTA_TRY(made->driver_, cu::Driver::load());
    CODETTA_TRY(made->primary_, cu::Device::open(made->driver_, 0));
    return made;
  }

  // A failure, or an empty text.
  std::string run(uint64_t seed) {
    const test::RandomProgram made = test::random_program(seed, options_of(seed));
    const auto failed = [&](const std::string& what) { return fmt::format("seed {}: {}\n{}", seed, what, made.text); };
    const auto program = Program::parse(made.text);
    if (!program) return failed("it does not parse: " + program.error().render());
    ++programs;
    const auto compiled = compile(*program, cuda_, made.sizes, *context_);
    if (!compiled) {
      const Diagnostic& why = compiled.error().diagnostics().front();
      if (why.code < 300 || why.code >= 400) return failed("not compiled: " + compiled.error().render());
      const std::lock_guard lock(mutex_);
      ++refused_[fmt::format("E{:04} {}", why.code, why.headline)];
      return {};
    }
    test::RandomProgram other = made;  // which the kernels were not chosen for
    for (auto& [symbol, size] : other.sizes) size = size % 5 == 0 ? 0 : size + 13;
    for (const auto* sizes : {&std::as_const(made).sizes, &std::as_const(other).sizes}) {
      if (sizes == &other.sizes && sizes->empty()) continue;
      test::IndexLimits limits;
      for (const test::RandomParameter& parameter : made.parameters)
        limits.emplace_back(parameter.name, parameter.index_limit);
      if (std::string failure = run_with(*program, *compiled, *sizes, limits, seed); !failure.empty()) {
        std::string text;
        for (const auto& [symbol, size] : *sizes) text += fmt::format("{}={} ", symbol, size);
        return failed(text + failure);
      }
    }
    return {};
  }
  void report() {
    fmt::print("{} programs, {} runs, {} of them captured and replayed, {} mistrusted, {} refused\n", programs.load(),
               runs.load(), captured.load(), mistrusted.load(), refusals());
    for (const auto& [reason, count] : refused_) fmt::print("  {} {}\n", count, reason);
  }
  [[nodiscard]] int64_t refusals() const {
    int64_t sum = 0;
    for (const auto& [reason, count] : refused_) sum += count;
    return sum;
  }
  std::atomic<int64_t> programs{0}, runs{0}, captured{0}, mistrusted{0};

 private:
  // Indices of an empty tensor, which other sizes than the program's own may make; the oracle reads none of them, as
  // what they pick is empty, too.
  static bool has_nothing_to_index(const Error& error) {
    const std::string& headline = error.diagnostics().front().headline;
    return error.code() == 618 &&
           (headline.ends_with(" is out of range for the size 0") || headline.ends_with(", and it has none"));
  }

  std::string run_with(const Program& program, const CompiledProgram& compiled,
                       const std::vector<std::pair<std::string, int64_t>>& sizes, const test::IndexLimits& limits,
                       uint64_t seed) {
    const auto made = test::device_arguments(program, sizes, *device_, seed, limits);
    if (!made) return "its tensors: " + made.error().render();
    if (!*made) return {};
    const test::DeviceArguments& data = **made;
    const auto stream = DeviceStream::make(*device_);
    if (!stream) return "its stream: " + stream.error().render();
    auto execution = compiled.prepare(data.arguments);
    if (!execution) {
      return has_nothing_to_index(execution.error()) ? "" : "not prepared: " + execution.error().render();
    }
    const auto once = [&]() -> Result<std::vector<std::string>> {
      CODETTA_CHECK_OK(execution->run(*stream));
      CODETTA_CHECK_OK(stream->synchronize());
      CODETTA_CHECK_OK(check_contents(*execution));  // else the next run tells it
      return data.results();
    };
    const auto first = once();
    if (!first && has_nothing_to_index(first.error())) return {};
    if (!first) return "not run: " + first.error().render();
    ++runs;
    const auto filled = filled_of(data, *execution);
    if (!filled) return "what is filled: " + filled.error().render();
    const auto checked = [&] {
      const std::shared_lock lock(capturing_);  // it waits for the device, which no capture would survive
      return verify(program, *filled, cuda_, data.how, *context_);
    }();
    if (!checked) return "the oracle: " + checked.error().render();
    if (checked->verdict == VerifyReport::Verdict::Fail) return checked->text;
    mistrusted += checked->verdict == VerifyReport::Verdict::Mistrusted ? 1 : 0;
    if (auto done = data.restore(); !done) return "restored: " + done.error().render();
    execution->donate_again();
    if (auto done = replayed(*execution, *stream); !done) {
      if (done.error().code() != 646) return "captured: " + done.error().render();  // E0646: the host has to wait
      execution->donate_again();
      if (const auto again = once(); !again) return "not run again: " + again.error().render();
    }
    const auto second = data.results();
    if (!second) return second.error().render();
    return *first == *second ? "" : "another run gave other bits";
  }

  // The arguments with the parts of outputs that the run has filled.
  static Result<std::vector<NamedArgument>> filled_of(const test::DeviceArguments& data, const Execution& execution) {
    std::vector<NamedArgument> filled = data.arguments;
    for (size_t i = data.inputs.size(); i < filled.size(); ++i) {
      const TensorView& whole = *filled[i].value.tensor();
      CODETTA_TRY(const Dims shape, execution.output_shape(filled[i].name));
      CODETTA_TRY(const TensorView part, TensorView::make(whole.data(), whole.dtype(), shape, whole.strides()));
      filled[i] = {filled[i].name, part};
    }
    return filled;
  }

  // The run as a graph, launched once and waited for. A capture that the run refuses stays valid, and is ended.
  Result<void> replayed(Execution& execution, const DeviceStream& stream) {
    const std::unique_lock lock(capturing_);
    CODETTA_TRY(const cu::ContextGuard current, primary_->enter());
    const auto& call = driver_->call();
    const auto handle = static_cast<cu::StreamHandle>(stream.get().handle);
    constexpr int this_thread = 1;  // what other threads do meanwhile is no matter
    const auto checked = [&](cu::Status status, std::string_view what) -> Result<void> {
      if (status == cu::Status::Success) return {};
      return driver_->failure(status, what, "a random program");
    };
    CODETTA_CHECK_OK(checked(call.stream_begin_capture(handle, this_thread), "cuStreamBeginCapture"));
    auto ran = execution.run(stream);
    cu::GraphHandle graph = nullptr;
    auto done = checked(call.stream_end_capture(handle, &graph), "cuStreamEndCapture");
    if (!done) return done;
    cu::GraphExecHandle executable = nullptr;
    if (ran) done = checked(call.graph_instantiate(&executable, graph, 0), "cuGraphInstantiate");
    (void)call.graph_destroy(graph);
    if (!ran || !done) return ran ? done : ran;
    done = checked(call.graph_launch(executable, handle), "cuGraphLaunch");
    if (done) done = stream.synchronize();
    (void)call.graph_exec_destroy(executable);
    if (done) ++captured;
    return done;
  }

  std::optional<base::TemporaryDirectory> folder_;
  std::optional<Context> context_;
  std::optional<Device> device_;
  cu::DriverRef driver_;
  cu::DeviceRef primary_;
  const Target cuda_{Backend::cuda, {}, ""};
  std::mutex mutex_;
  std::shared_mutex capturing_;
  std::map<std::string, int64_t> refused_;
};

TEST(CudaPrograms, Random) {
  if (!options().arch.empty() || !options().emulated.empty()) GTEST_SKIP() << "a real device is what this needs";
  if (gpu_or_skip() == nullptr) return;
  auto programs = Programs::open();
  ASSERT_TRUE(programs) << programs.error().render();
  in_parallel(options().count, [&](int64_t i) {
    const auto index = static_cast<uint64_t>(options().first + i);
    const std::string failure = (*programs)->run(options().seed * 1000003 + index);
    return failure.empty() ? failure
                           : fmt::format("--seed {} --first {} --count 1: {}\n", options().seed, index, failure);
  });
  (*programs)->report();
  EXPECT_GT((*programs)->runs, 0);
  EXPECT_LT((*programs)->refusals(), (*programs)->programs / 10 + 5);
  EXPECT_GT((*programs)->captured * 4 + 20, (*programs)->runs);
  EXPECT_LT((*programs)->mistrusted, (*programs)->runs / 4 + 20);
}

}  // namespace
}  // namespace codetta::gpu

// SPDX-License-Identifier: Apache-2.0
// The command line of the tests, and what they share.
#include "gpu/suite.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "emulator/compile.hpp"
#include "emulator/driver.hpp"
#include "support/slice.hpp"

namespace codetta::gpu {

Options& options() {
  static Options the_options;
  return the_options;
}

void in_parallel(int64_t count, const std::function<std::string(int64_t)>& body) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::vector<std::string> failures;
  const auto work = [&] {
    for (int64_t i = next++; i < count; i = next++) {
      if (i >= options().least && options().seconds > 0 &&
          std::chrono::duration<double>(Clock::now() - start).count() > options().seconds)
        break;
      std::string failure = body(i);
      if (failure.empty()) continue;
      const std::lock_guard lock(mutex);
      fmt::print("failed: {}\n", failure);  // at once: the run may be cut short
      std::fflush(stdout);
      failures.push_back(std::move(failure));
    }
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < options().threads; ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  std::sort(failures.begin(), failures.end());
  constexpr size_t shown = 40;
  for (size_t i = 0; i < std::min(failures.size(), shown); ++i) ADD_FAILURE() << failures[i];
  if (failures.size() > shown) ADD_FAILURE() << failures.size() << " failures, " << shown << " of them shown";
}

namespace {

Result<std::shared_ptr<Gpu>> emulated(const std::string& arch) {
  const int number = std::atoi(arch.c_str() + std::min<size_t>(arch.find('_') + 1, arch.size()));
  const bool hip = arch.starts_with("gfx");
  const emulator::Word wave = arch.starts_with("gfx9") ? 64 : 32;
  CODETTA_TRY(runtime::cuda::DeviceRef device,
              emulator::open_device(hip ? emulator::Model{.lanes = wave} : emulator::Model{number / 10, number % 10}));
  CODETTA_TRY(emulator::Compiler compiler, emulator::Compiler::find());
  emulator::set_seed(options().seed);
  const auto compile = [compiler](const std::string& source, const std::vector<std::string>& flags) {
    return compiler.compile(source, flags);
  };
  return Gpu::over(std::move(device), compile, hip ? arch : std::string());
}

}  // namespace

std::shared_ptr<Gpu> gpu_or_skip() {
  static const Result<std::shared_ptr<Gpu>> gpu =
      options().emulated.empty() ? Gpu::open(options().arch) : emulated(options().emulated);
  if (!gpu) {
    [&] { GTEST_SKIP() << gpu.error().render(); }();
    return nullptr;
  }
  return *gpu;
}

}  // namespace codetta::gpu

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  codetta::gpu::Options& options = codetta::gpu::options();
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const bool has_value = i + 1 < argc;
    if (name == "--thorough") {
      options.thorough = true;
    } else if (name == "--seed" && has_value) {
      options.seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (name == "--count" && has_value) {
      options.count = std::atoll(argv[++i]);
    } else if (name == "--problems" && has_value) {
      options.problems = std::max<uint64_t>(1, std::strtoull(argv[++i], nullptr, 10));
    } else if (name == "--compile-only" && has_value) {
      options.arch = argv[++i];
    } else if (name == "--emulate" && has_value) {
      options.emulated = argv[++i];
    } else if (name == "--slice" && has_value) {
      options.seed = codetta::test::slice_of(argv[++i]);
      fmt::print("slice of {}, seed {}\n", argv[i], options.seed);
    } else if (name == "--first" && has_value) {
      options.first = std::atoll(argv[++i]);
    } else if (name == "--seconds" && has_value) {
      options.seconds = std::atof(argv[++i]);
    } else if (name == "--least" && has_value) {
      options.least = std::atoll(argv[++i]);
    } else if (name == "--threads" && has_value) {
      options.threads = std::max(1, std::atoi(argv[++i]));
    } else if (name == "--planted" && has_value) {
      options.planted = argv[++i];
    } else if (name == "--of" && has_value) {
      options.of = std::max<uint64_t>(1, std::strtoull(argv[++i], nullptr, 10));
    } else {
      std::fputs(
          "usage: test_cuda_kernels [--seed S] [--first I] [--count N] [--problems N] [--seconds T] [--least N] "
          "[--threads T] "
          "[--of N] [--planted BUG] [--thorough] [--slice COMMIT] "
          "[--compile-only ARCH | --emulate ARCH]\n",
          stderr);
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}

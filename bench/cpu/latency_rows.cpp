// SPDX-License-Identifier: Apache-2.0
// Times around a run: compiling, finding what was compiled, starting the command, and what run() adds to its kernel.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "bench/cpu/rows.hpp"
#include "driver/kernel_state.hpp"
#include "runtime/cpu/gemm.hpp"

extern char** environ;

namespace codetta::bench {
namespace {

Context cached(const std::string& folder) {
  ContextOptions options;
  options.cache_dir = folder;
  options.threads = 1;
  return Context::make(options).value();
}

// Seconds from the arguments to a callable of relu_aux_store, with a constant of its own so that nothing is shared.
double time_to_callable(Context& context, int variant) {
  const Tensor A = random_tensor(f32, {256, 256}, 1), B = random_tensor(f32, {256, 256}, 2),
               C = random_tensor(f32, {256, 256}, 3), D = zeros(f32, {256, 256}), F = zeros(f32, {256, 256});
  const std::string text = "def relu_aux_store(accum, alpha, C):\n    F = (accum * alpha) + (C * " +
                           std::to_string(variant) + ".5)\n    D = relu(F)\n    return D, F\n";
  const double start = now(Clock::Wall);
  const GemmArguments arguments{
      .A = A, .B = B, .out = D, .epilogue = {text, {{"alpha", 0.5f}, {"C", C}, {"D", D}, {"F", F}}}};
  const KernelList kernels = find_kernels(arguments, Target::host(), {}, context).value();
  Execution execution = kernels[0].prepare(arguments).value();
  const double seconds = now(Clock::Wall) - start;
  execution.run().value();
  return seconds;
}

// Standard output of a program, and its time from start to end.
std::pair<std::string, double> output_of(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  pid_t child = 0;
  const double start = now(Clock::Wall);
  const bool started = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got; started && (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  if (started) waitpid(child, &status, 0);
  return {started && status == 0 ? text : std::string(), now(Clock::Wall) - start};
}

// What Execution::run() takes beyond the engine's call with the same configuration.
void run_overhead(Table& table) {
  constexpr int64_t size = 32;
  const Tensor A = random_tensor(f32, {size, size}, 1), B = random_tensor(f32, {size, size}, 2),
               D = zeros(f32, {size, size}), direct_D = zeros(f32, {size, size});
  const GemmArguments arguments{
      .A = A, .B = B, .out = D, .epilogue = {"def plain(accum): D = accum; return D", {{"D", D}}}};
  const KernelList kernels = find_kernels(arguments, Target::host(), {}, context(1)).value();
  Execution execution = kernels[0].prepare(arguments).value();
  const auto& config = package::cpu(driver::KernelState::of(kernels[0]).package().value()->kernels[0].config);
  runtime::cpu::GemmProblem p;
  p.m = p.n = p.k = size;
  p.a = A.data();
  p.b = B.data();
  p.a_row = p.b_k = size;
  const runtime::cpu::StoreTile store{direct_D.data(), size * size, size};
  const Tensor workspace = zeros(u8, {static_cast<int64_t>(runtime::cpu::workspace_size(config, p, 1)) + 64});
  const Race r = race({{"run", [&] { execution.run().value(); }},
                       {"direct", [&] { runtime::cpu::run(config, p, store, nullptr, workspace.data()); }}},
                      Clock::Processor, 201, 5);
  std::vector<double> differences;
  for (size_t i = 0; i < r.seconds[0].size(); ++i) differences.push_back((r.seconds[0][i] - r.seconds[1][i]) * 1e6);
  table.figure("run() at 32^3 beyond the engine's call", estimate(differences), "us", 0.5, true,
               kernels[0].metadata().name + ", " + std::to_string(static_cast<int>(r.median(0) * 1e9)) +
                   " ns in all, " + std::to_string(differences.size()) + " pairs");
}

// What a run needs beyond its operands and outputs.
void workspaces(Table& table) {
  constexpr int64_t size = 2048;
  const Tensor A = zeros(f32, {size, size}), B = zeros(f32, {size, size}), D = zeros(f32, {size, size});
  GemmArguments arguments{.A = A, .B = B, .out = D, .epilogue = {"def plain(accum): D = accum; return D", {{"D", D}}}};
  const auto figure = [&](const char* what, double most, const char* how) {
    const KernelList kernels = find_kernels(arguments, Target::host(), {}, context(1)).value();
    const auto bytes = static_cast<double>(kernels[0].prepare(arguments).value().workspace_size());
    table.figure(what, estimate({bytes / (1 << 20)}), "MiB", most, true, kernels[0].metadata().name + how);
  };
  figure("workspace of 2048^3 f32, weights as they lie", 17, ": B packed once (16 MiB) and one tile of accumulators");
  const KernelList kernels = find_kernels(arguments, Target::host(), {}, context(1)).value();
  const PackedTensor packed = kernels[0].pack(B).value();
  arguments.packed_B = &packed;
  figure("the same, weights packed beforehand", 1, ": A of a block of rows where it is packed, and a tile");
}

}  // namespace

int print_hit_time(const std::string& cache) {
  Context context = cached(cache);
  std::printf("%.3f\n", time_to_callable(context, 1) * 1e6);
  return 0;
}

Table latency_rows(const std::string& filter, const std::string& self, const std::string& command) {
  Table table("Around a run", "Wall time.");
  if (!wanted(filter, "latency")) return table;
  std::string base = std::filesystem::temp_directory_path().string() + "/codetta_bench_XXXXXX";
  if (mkdtemp(base.data()) == nullptr) return table;
  std::vector<double> cold, hit, version;
  Context context = cached(base);
  time_to_callable(context, 1);  // the compiler's own first load is apart
  for (int i = 2; i < 23; ++i) cold.push_back(time_to_callable(context, i) * 1e3);
  table.figure("cold compile of one fused kernel", estimate(cold), "ms", 100, true,
               "21 kernels never seen before, text to callable");
  for (int i = 0; i < 51; ++i) hit.push_back(std::strtod(output_of({self, "hit", base}).first.c_str(), nullptr) * 1e-3);
  table.figure("the same from the cache, in a new process", estimate(hit), "ms", 2, true,
               "51 processes; their start is not counted");
  for (int i = 0; i < 51; ++i) version.push_back(output_of({command, "--version"}).second * 1e3);
  table.figure("`codetta --version`", estimate(version), "ms", 10, true, "51 processes, start to end");
  std::filesystem::remove_all(base);
  run_overhead(table);
  workspaces(table);
  return table;
}

}  // namespace codetta::bench

// SPDX-License-Identifier: Apache-2.0
// Times every configuration of the sm_90a family that discovery keeps (or, with --all, that is legal) for a product
// with an emitted epilogue:
//   cuda_probe [--threads T] [--reps R] [--shown N] [--filter TEXT] [--all] [--pieces]
//              EPILOGUE:M,N,K ...
// EPILOGUE: plain, relu, bias_gelu, relu_aux_store, residual, swiglu, or row_sums. bf16, normal data, operands stay
// where they are between runs. Medians of `reps` groups of launches, between events.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include <fmt/format.h>

#include "codetta/fill.hpp"
#include "gpu/host_tensors.hpp"
#include "plan/families_cuda.hpp"

namespace {

using namespace codetta;
using namespace codetta::gpu;

struct Text {
  const char* text;
  std::vector<std::pair<const char*, char>> operands;  // name; r: row of N, f: full, s: number
  std::vector<std::pair<const char*, char>> outputs;   // name; f: full, h: of half the columns, c: column of f32
};
const std::map<std::string, Text> texts{
    {"plain", {"def f(accum):\n    D = accum\n    return D\n", {}, {{"D", 'f'}}}},
    {"relu", {"def f(accum):\n    D = relu(accum)\n    return D\n", {}, {{"D", 'f'}}}},
    {"bias_gelu",
     {"def f(accum, bias):\n    D = gelu(accum + bias, approximate=\"tanh\")\n    return D\n",
      {{"bias", 'r'}},
      {{"D", 'f'}}}},
    {"relu_aux_store",
     {"def f(accum, alpha, C):\n    F = (accum * alpha) + (C * 2.0)\n    D = relu(F)\n    return D, F\n",
      {{"alpha", 's'}, {"C", 'f'}},
      {{"D", 'f'}, {"F", 'f'}}}},
    {"residual", {"def f(accum, C):\n    D = accum + C\n    return D\n", {{"C", 'f'}}, {{"D", 'f'}}}},
    {"swiglu",
     {"def f(accum):\n    gate, up = split(accum, 2)\n    D = silu(gate) * up\n    return D\n", {}, {{"D", 'h'}}}},
    {"row_sums",
     {"def f(accum, C):\n    D = accum + C\n    s = sum(D * D, axis=\"row\")\n    return D, s\n",
      {{"C", 'f'}},
      {{"D", 'f'}, {"s", 'c'}}}},
};

struct Options {
  int threads = 2, reps = 7;
  size_t shown = 6;
  std::string filter;
  bool all = false;     // every legal configuration, not those that the model keeps
  bool pieces = false;  // epilogues go by way of shared memory
};

struct Row {
  package::GpuGemmConfig config;
  Compiled compiled;
  std::string error;
  double microseconds = 0;
};

Result<double> time_one(Gpu& gpu, Prepared& prepared, int reps) {
  const auto stream = prepared.stream.get();
  CODETTA_TRY(const runtime::cuda::OwnedEvent start, runtime::cuda::OwnedEvent::make(gpu.device()));
  CODETTA_TRY(const runtime::cuda::OwnedEvent end, runtime::cuda::OwnedEvent::make(gpu.device()));
  std::vector<double> times;
  constexpr int launches = 20;
  for (int rep = -1; rep < reps; ++rep) {
    CODETTA_CHECK_OK(start.record(stream));
    for (int i = 0; i < launches; ++i) CODETTA_CHECK_OK(prepared.execution.run(stream));
    CODETTA_CHECK_OK(end.record(stream));
    CODETTA_CHECK_OK(end.synchronize());
    CODETTA_TRY(const double milliseconds, end.milliseconds_since(start));
    if (rep >= 0) times.push_back(milliseconds * 1e3 / launches);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

Result<void> probe(Gpu& gpu, const std::string& what, const Options& options) {
  const size_t colon = what.find(':');
  long long m = 0, n = 0, k = 0;
  const auto found = texts.find(what.substr(0, colon));
  if (found == texts.end() || std::sscanf(what.c_str() + colon + 1, "%lld,%lld,%lld", &m, &n, &k) != 3) {
    fmt::print("{} is no problem\n", what);
    return {};
  }
  const Text& text = found->second;
  CODETTA_TRY(Epilogue epilogue, Epilogue::parse(text.text));
  HostTensors memory;
  uint64_t seed = 1;
  const auto filled = [&](const Dims& shape) -> Result<TensorView> {
    CODETTA_TRY(const TensorView view, memory.add(DType::bf16, shape));
    fill_random(view, ++seed);
    return view;
  };
  GemmArguments call;
  CODETTA_TRY(call.A, filled({m, k}));
  CODETTA_TRY(const TensorView b, filled({n, k}));
  call.B = transposed(b);
  std::vector<NamedArgument> named;
  for (const auto& [name, form] : text.operands) {
    if (form == 's') {
      named.push_back({name, 0.5});
      continue;
    }
    CODETTA_TRY(const TensorView view, filled(form == 'r' ? Dims{n} : Dims{m, n}));
    named.push_back({name, view});
  }
  for (const auto& [name, form] : text.outputs) {
    const Dims shape = form == 'c' ? Dims{m, 1} : form == 'h' ? Dims{m, n / 2} : Dims{m, n};
    CODETTA_TRY(const TensorView view, memory.add(form == 'c' ? DType::f32 : DType::bf16, shape));
    named.push_back({name, view});
  }
  call.epilogue = EpilogueArguments(std::move(epilogue), std::move(named));
  CODETTA_TRY(const Planned planned, plan_call(call, gpu.arch()));
  std::vector<Row> rows;
  std::vector<package::GpuGemmConfig> configs;
  for (const plan::Candidate& candidate : planned.plan.kernels[0].discovery.candidates)
    configs.push_back(package::gpu(candidate.config));
  if (options.all) configs = family_configs(planned, package::GpuFamily::Sm90, "sm_90a");
  for (package::GpuGemmConfig& config : configs) {
    if (!options.pieces || !config.from_registers) continue;
    config.from_registers = false;
    const auto bytes = [&] { return plan::sm90_shape(planned.program(), config).shared_bytes; };
    while (config.stages > 2 && bytes() > plan::sm90_shared_limit) --config.stages;
    config.shared_bytes = static_cast<int32_t>(bytes());
  }
  for (const package::GpuGemmConfig& config : configs) {
    if (config.family != package::GpuFamily::Sm90 || name_of(config).find(options.filter) == std::string::npos)
      continue;
    rows.push_back({config, {}, {}, 0});
  }
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < options.threads; ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < rows.size(); i = next++) {
        auto compiled = gpu.compile(planned, rows[i].config, false);
        if (compiled) {
          rows[i].compiled = *std::move(compiled);
        } else {
          rows[i].error = compiled.error().message();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (Row& row : rows) {
    if (!row.error.empty() || gpu.compiles_only()) continue;
    CODETTA_TRY(Prepared prepared, gpu.prepare(planned, row.compiled, memory.blocks()));
    CODETTA_TRY(row.microseconds, time_one(gpu, prepared, options.reps));
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& x, const Row& y) { return x.microseconds < y.microseconds; });
  fmt::print("{}: {} configurations\n", what, rows.size());
  for (size_t i = 0; i < std::min(options.shown, rows.size()); ++i) {
    const Row& row = rows[i];
    const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    fmt::print("  {:8.2f} us {:6.1f} TFLOP/s, {} registers, {} spilled, compiled in {:.2f} s: {} {}\n",
               row.microseconds, flops / row.microseconds * 1e-6, row.compiled.registers, row.compiled.spilled_bytes,
               row.compiled.seconds, name_of(row.config), row.error);
  }
  std::fflush(stdout);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::vector<std::string> problems;
  std::string arch;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const bool has_value = i + 1 < argc;
    if (name == "--all" || name == "--pieces") {
      (name == "--all" ? options.all : options.pieces) = true;
    } else if (name == "--threads" && has_value) {
      options.threads = std::max(1, std::atoi(argv[++i]));
    } else if (name == "--reps" && has_value) {
      options.reps = std::max(1, std::atoi(argv[++i]));
    } else if (name == "--shown" && has_value) {
      options.shown = static_cast<size_t>(std::atoll(argv[++i]));
    } else if (name == "--filter" && has_value) {
      options.filter = argv[++i];
    } else if (name == "--compile-only" && has_value) {
      arch = argv[++i];
    } else {
      problems.push_back(name);
    }
  }
  const auto gpu = Gpu::open(arch);
  if (!gpu) {
    fmt::print("{}", gpu.error().render());
    return 77;
  }
  int status = 0;
  for (const std::string& problem : problems) {
    if (auto done = probe(**gpu, problem, options); !done) {
      fmt::print("{}: {}", problem, done.error().render());
      status = 1;
    }
  }
  return status;
}

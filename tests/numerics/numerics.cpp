// SPDX-License-Identifier: Apache-2.0
// The runner of the numerics matrix:
//   numerics [--interpreted] [--slice COMMIT --of N] [--seed S] [--threads T] [--only TEXT] [--tails]
// A slice is every N-th unit, starting where the commit's hash says.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "base/files.hpp"
#include "support/slice.hpp"
#include "unit.hpp"

namespace {

using namespace codetta;
using namespace codetta::numerics;

struct Options {
  bool interpreted = false, tails = false;
  uint64_t slice = 0, of = 1, seed = 1;
  unsigned threads = 0;
  std::string only;
};

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--interpreted") {
      options.interpreted = true;
    } else if (name == "--tails") {
      options.tails = true;
    } else if (i + 1 == argc) {
      return false;
    } else if (const char* value = argv[++i]; name == "--slice") {
      options.seed = options.slice = test::slice_of(value);
      std::printf("slice of %s\n", value);
    } else if (name == "--of") {
      options.of = std::max<uint64_t>(1, std::strtoull(value, nullptr, 10));
    } else if (name == "--seed") {
      options.seed = std::strtoull(value, nullptr, 10);
    } else if (name == "--threads") {
      options.threads = static_cast<unsigned>(std::atoi(value));
    } else if (name == "--only") {
      options.only = value;
    } else {
      return false;
    }
  }
  return true;
}

struct Job {
  const Unit* unit = nullptr;
  CpuIsa isa = CpuIsa::generic;
  uint64_t index = 0;  // in the whole matrix; with the seed it says what the operands are
};

bool holds_bf16(const Unit& unit) {
  const auto is_bf16 = [](const auto& tensor) { return tensor.dtype == DType::bf16; };
  return std::any_of(unit.operands.begin(), unit.operands.end(), is_bf16) ||
         std::any_of(unit.outputs.begin(), unit.outputs.end(), is_bf16);
}

// Whether what is emitted for the level differs from that of the levels below. There are three vector widths, and from
// avx512_bf16 on an instruction for stores of bf16. Products differ at every level, which the tails go through; without
// a compiler the epilogue is the same code at each.
bool emits_of_its_own(CpuIsa isa, const Unit& unit) {
  return isa <= CpuIsa::avx512 || (isa == CpuIsa::avx512_bf16 && holds_bf16(unit));
}

std::vector<Job> jobs_of(const std::vector<Unit>& units, const Options& options) {
  constexpr CpuIsa levels[] = {CpuIsa::generic,     CpuIsa::neon,        CpuIsa::avx2, CpuIsa::avx512,
                               CpuIsa::avx512_vnni, CpuIsa::avx512_bf16, CpuIsa::amx};
  std::vector<Job> jobs;
  uint64_t index = 0;
  for (const Unit& unit : units) {
    for (const CpuIsa isa : levels) {
      ++index;
      if (!cpu_supports(isa) || unit.name.find(options.only) == std::string::npos) continue;
      if (!options.tails && !emits_of_its_own(isa, unit)) continue;
      if (!options.tails && (options.interpreted || unit.refused) && isa != CpuIsa::generic) continue;
      if (index / std::size(levels) % options.of == options.slice % options.of || options.of == 1)
        jobs.push_back({&unit, isa, index});
    }
  }
  return jobs;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fputs(
        "usage: numerics [--interpreted] [--tails] [--slice COMMIT] [--of N] [--seed S] [--threads T] [--only TEXT]\n",
        stderr);
    return 2;
  }
  const std::vector<Unit> units = options.tails ? tail_units() : operation_units();
  const std::vector<Job> jobs = jobs_of(units, options);
  const unsigned threads = options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  fmt::print("{} runs, slice {} of {}, seed {}, {}, {} threads\n", jobs.size(), options.slice % options.of, options.of,
             options.seed, options.interpreted ? "interpreted" : "compiled", threads);
  std::fflush(stdout);

  const auto start = std::chrono::steady_clock::now();
  const auto cache = base::TemporaryDirectory::make("/tmp", "codetta-numerics-");
  if (!cache) {
    std::fputs("no temporary folder\n", stderr);
    return 1;
  }
  std::atomic<size_t> next{0};
  std::atomic<int64_t> operations{0}, runs{0}, elements{0}, interpreted{0}, refused{0}, failed{0};
  std::mutex printing;
  const auto work = [&] {
    ContextOptions context_options;
    context_options.cache_dir = cache->path() + "/cache";
    context_options.no_compiler = options.interpreted;
    context_options.threads = 1;
    Result<Context> context = Context::make(context_options);
    if (!context) {
      ++failed;
      return;
    }
    for (size_t i = next++; i < jobs.size(); i = next++) {
      const Job& job = jobs[i];
      Target target;
      target.isa = job.isa;
      const Outcome outcome = run_unit(*job.unit, target, options.seed * 1000003 + job.index, *context);
      operations += static_cast<int64_t>(job.unit->operations);
      elements += outcome.elements;
      runs += outcome.runs;
      interpreted += outcome.interpreted;
      refused += job.unit->refused ? 1 : 0;
      if (outcome.failure.empty()) continue;
      ++failed;
      const std::lock_guard lock(printing);
      fmt::print("FAILED {}\n", outcome.failure);
      std::fflush(stdout);
    }
  };
  std::vector<std::thread> workers;
  for (unsigned t = 0; t < threads; ++t) workers.emplace_back(work);
  for (std::thread& worker : workers) worker.join();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print(
      "{} epilogues, {} operations, {} runs ({} interpreted), {} elements compared, {} refused as they should be, "
      "{} failed; {:.0f} s\n",
      jobs.size(), operations.load(), runs.load(), interpreted.load(), elements.load(), refused.load(), failed.load(),
      seconds);
  const bool idle = options.interpreted && interpreted.load() == 0;
  if (idle) std::puts("nothing was interpreted");
  return failed == 0 && runs > 0 && !idle ? 0 : 1;
}

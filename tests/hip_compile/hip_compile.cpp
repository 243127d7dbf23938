// SPDX-License-Identifier: Apache-2.0
// The gate of HIP kernels, without a GPU or ROCm: Clang and lld make a code object of every kernel, and its metadata
// tells of no spills and no scratch, and of as much LDS as was planned. Usage:
//   hip_compile [--slice COMMIT] [--count N] [--part I/N] [--only TEXT] [--jobs J] [--list] [--registers]
//               [--times] [--first] [--rounds N]
// Without --slice all are compiled; with it half of the golden cases and N others, which the text picks. --only: those
// whose label contains TEXT. --part: one of N parts, from 1 on. --times: one after the other, behind their precompiled
// headers, each with the seconds of processor time that it took, which other work on the machine changes less than
// those of a clock, and with these. --first: each as the first of its family in an empty cache, which makes that
// header, too. --rounds: all of it N times in turn, and the least of each. Exit 77: there is no Clang 19 with lld.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>

#include "base/files.hpp"
#include "compile_gate/choice.hpp"
#include "device/embedded.hpp"
#include "diag/diagnostic.hpp"
#include "toolchain/hip_builder.hpp"
#include "toolchain/run_jobs.hpp"
#include "unit.hpp"

namespace codetta::hip_compile {
namespace {

constexpr int64_t hip_lds_bytes = 65536;  // of a block, on all of them

struct Options {
  compile_gate::Choice choice;
  int jobs = 2, rounds = 1;
  bool registers = false, times = false, first = false;
};

// Whether the compiler found too few registers for a configuration: discovery estimates them, and prepare() and tune
// pass on to the next candidate then. Golden kernels and those of the examples have to fit.
bool is_ruled_out(const Unit& unit, const toolchain::HipOutput& made) {
  const auto fits = toolchain::check_remarks(made.remarks, unit.label);
  return !unit.golden && !unit.fits && !fits &&
         fits.error().code() == static_cast<uint16_t>(diag::Code::kernel_resources);
}

// Of its registers; of a stack only where it calls nothing.
Result<void> check_fit(const Unit& unit, std::vector<toolchain::PtxasRemarks> remarks) {
  for (toolchain::PtxasRemarks& kernel : remarks) kernel.stack_bytes = unit.calls ? 0 : kernel.stack_bytes;
  return toolchain::check_remarks(remarks, unit.label);
}

// What is wrong with a code object; "" when nothing is.
std::string fault_of(const Unit& unit, const toolchain::HipOutput& made) {
  if (auto fits = check_fit(unit, made.remarks); !fits) return fits.error().render();
  if (unit.entries != 0 && made.remarks.size() != unit.entries)
    return fmt::format("{} entries were emitted, and the object has {}\n", unit.entries, made.remarks.size());
  if (made.remarks.empty()) return "the object has no kernels\n";
  if (!unit.calls && made.object.find("_ZN7codetta") != std::string::npos)
    return "the object has symbols of the headers\n";
  if (!made.log.empty()) return "the compiler said: " + made.log;
  for (const toolchain::PtxasRemarks& kernel : made.remarks) {
    if (unit.registers != 0 && (kernel.registers <= 0 || kernel.registers > unit.registers))
      return fmt::format("{} has {} registers, of {} at most\n", kernel.kernel, kernel.registers, unit.registers);
    const bool planned = unit.lds_most ? kernel.shared_bytes <= unit.lds_bytes : kernel.shared_bytes == unit.lds_bytes;
    if (unit.lds_bytes != 0 && kernel.kernel == "codetta_gemm" && !planned)
      return fmt::format("{} bytes of LDS, and {} were planned\n", kernel.shared_bytes, unit.lds_bytes);
    if (kernel.shared_bytes > hip_lds_bytes)
      return fmt::format("{} has {} bytes of LDS, of {} at most\n", kernel.kernel, kernel.shared_bytes, hip_lds_bytes);
  }
  return {};
}

std::vector<toolchain::CudaHeader> device_headers() {
  static const std::vector<std::string> paths = [] {
    std::vector<std::string> all;
    for (const device::EmbeddedFile& file : device::files()) all.push_back("device/" + std::string(file.path));
    return all;
  }();
  std::vector<toolchain::CudaHeader> headers;
  for (const device::EmbeddedFile& file : device::files())
    headers.push_back({paths[headers.size()], file.text, file.digest_hex});
  return headers;
}

struct Made {
  std::optional<Result<toolchain::HipOutput>> output;  // of the last round
  double used = 1e9, clock = 1e9;                      // seconds, the least of all rounds
};

std::vector<Made> make_all(const std::vector<Unit>& units, const toolchain::HostCompiler& clang,
                           const Options& options) {
  const std::vector<toolchain::CudaHeader> headers = device_headers();
  std::vector<Made> all(units.size());
  // Each that can be is compiled in parts, however many are at once.
  const int jobs = options.times ? 1 : options.jobs, processors = 2 * jobs;
  // All families' headers stay in memory: there are more than an ordinary process has, and no cache to find them in.
  constexpr size_t most_bytes = size_t{1} << 30;
  toolchain::HipBuilder together(toolchain::Cache::disabled("kernels are compiled anew"), processors, most_bytes);
  const auto job_of = [&](size_t i) {
    return toolchain::HipJob{units[i].source, units[i].label, units[i].flags, headers, {}, !units[i].calls};
  };
  const auto make = [&](size_t i, toolchain::HipBuilder& builder) {
    const double before = compile_gate::processor_seconds(RUSAGE_CHILDREN);
    const auto begun = std::chrono::steady_clock::now();
    all[i].output = builder.compile(clang, job_of(i), {});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    all[i].clock = std::min(all[i].clock, took.count());
    all[i].used = std::min(all[i].used, compile_gate::processor_seconds(RUSAGE_CHILDREN) - before);
  };
  for (size_t i = 0; i < units.size() && options.times && !options.first; ++i)
    (void)together.prepare(clang, job_of(i), {});
  for (int round = 0; round < options.rounds; ++round) {
    toolchain::run_jobs(units.size(), jobs, [&](size_t i) {
      if (!options.first) return make(i, together);
      const auto folder = base::TemporaryDirectory::make("/tmp", "codetta-hip-first-");
      const std::string path = folder ? folder->path() + "/cache" : "";
      toolchain::HipBuilder alone(toolchain::Cache::open({.directory = path, .on_warning = {}}), processors);
      make(i, alone);
    });
  }
  return all;
}

int run(const Options& options) {
  std::string problem;
  std::vector<Unit> all = all_units(problem);
  if (!problem.empty()) {
    fmt::print("cannot emit {}\n", problem);
    return 1;
  }
  const size_t total = all.size();
  const std::vector<Unit> units = compile_gate::chosen(std::move(all), options.choice, 2);
  if (options.choice.list) {
    for (const Unit& unit : units) fmt::print("{}\n", unit.label);
    return 0;
  }
  const char* const path = std::getenv("PATH");
  const auto clang = toolchain::find_hip_clang({.wanted = {}, .path = path == nullptr ? "" : path, .memo_dir = {}});
  if (!clang) {
    fmt::print("{}", clang.error().render());
    return 77;
  }
  fmt::print("{} of {} kernels{}, {} jobs, {}\n", units.size(), total,
             options.choice.slice.empty() ? "" : ", slice of " + options.choice.slice, options.jobs, clang->version);
  std::fflush(stdout);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Made> results = make_all(units, *clang, options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  size_t failed = 0, ruled_out = 0;
  std::vector<double> used, clock;
  for (size_t i = 0; i < units.size(); ++i) {
    const auto& made = *results[i].output;
    if (made) used.push_back(options.times ? results[i].used : made->seconds);
    if (made) clock.push_back(results[i].clock);
    if (options.times)
      fmt::print("{:.3f} s, {:.3f} by the clock: {}\n", results[i].used, results[i].clock, units[i].label);
    if (made && options.registers) {
      for (const toolchain::PtxasRemarks& kernel : made->remarks) {
        fmt::print("{} {}: {} registers (estimate {}), {} of {} bytes spilled, stack {}\n", units[i].label,
                   kernel.kernel, kernel.registers, units[i].estimate, kernel.spill_store_bytes,
                   kernel.spill_load_bytes, kernel.stack_bytes);
      }
    }
    if (made && is_ruled_out(units[i], *made)) {
      ++ruled_out;
      fmt::print("ruled out by the compiler: {}\n", units[i].label);
      continue;
    }
    const std::string why = made ? fault_of(units[i], *made) : made.error().render();
    if (why.empty()) continue;
    ++failed;
    fmt::print("FAILED {}\n{}  again: hip_compile --only \"{}\"\n", units[i].label, why, units[i].label);
  }
  fmt::print("{} compiled, {} failed, {:.1f} s; a kernel {}\n", units.size(), failed, seconds,
             compile_gate::spread_of(used));
  if (options.times) fmt::print("by the clock {}\n", compile_gate::spread_of(clock));
  // An eighth at most; small slices scatter around their share.
  const size_t most = units.size() / 8 + 8;
  fmt::print("{} ruled out by the compiler, {} at most may be\n", ruled_out, most);
  return failed == 0 && ruled_out <= most && !units.empty() ? 0 : 1;
}

}  // namespace
}  // namespace codetta::hip_compile

int main(int argc, char** argv) {
  codetta::hip_compile::Options options;
  const codetta::compile_gate::Option own[] = {{"--jobs", &options.jobs},
                                               {"--rounds", &options.rounds},
                                               {"--registers", &options.registers},
                                               {"--times", &options.times},
                                               {"--first", &options.first}};
  if (!codetta::compile_gate::parse(argc, argv, options.choice, own)) {
    std::fputs(
        "usage: hip_compile [--slice COMMIT] [--count N] [--part I/N] [--only TEXT] [--jobs J] [--list] [--registers] "
        "[--times] [--first] [--rounds N]\n",
        stderr);
    return 2;
  }
  return codetta::hip_compile::run(options);
}

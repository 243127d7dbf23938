// SPDX-License-Identifier: Apache-2.0
// The gate of CUDA kernels, without a GPU: NVRTC and the assembler take every kernel without spills, stack or
// serialized matrix instructions; from sm_90 on, where a kernel may begin before the one in front of it has ended, each
// waits for that, and touches no memory before. Usage:
//   cuda_compile [--slice COMMIT] [--count N] [--part I/N] [--only TEXT] [--jobs J] [--nvrtc FOLDER] [--list]
//                [--times] [--rounds N] [--write FOLDER]
// Without --slice all are compiled; with it every golden case and N others, which the text picks. --only: those whose
// label contains TEXT. --part: one of N parts, from 1 on. --nvrtc: a toolkit's folder. --times: those that users meet
// (rows of the suite, examples, programs), one after the other, each with the seconds of processor time that it took,
// those of its longest part, which other work on the machine changes less than those of a clock, and with these.
// --rounds: all of it N times in turn, and the least of each. --write: their sources to files, instead of compiling
// them. Exit 77: there is no NVRTC.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "base/files.hpp"
#include "compile_gate/choice.hpp"
#include "device/embedded.hpp"
#include "early.hpp"
#include "toolchain/nvrtc.hpp"
#include "unit.hpp"

namespace codetta::cuda_compile {
namespace {

struct Options {
  compile_gate::Choice choice;
  std::string nvrtc, write;
  int jobs = 2, rounds = 1;
  bool times = false;
};

// Of its registers; of a stack only where it calls nothing.
Result<void> check_fit(const Unit& unit, std::vector<toolchain::PtxasRemarks> remarks) {
  for (toolchain::PtxasRemarks& kernel : remarks) kernel.stack_bytes = unit.calls ? 0 : kernel.stack_bytes;
  return toolchain::check_remarks(remarks, unit.label);
}

bool begins_early(const Unit& unit) {
  return std::any_of(unit.flags.begin(), unit.flags.end(), [](const std::string& flag) {
    return flag.find("sm_9") != std::string::npos || flag.find("sm_1") != std::string::npos;
  });
}

// Whether all were written: "suite 1 cuda_sm90_....cu", those that are compiled instead with ".1.cu" and so on.
bool write_all(const std::vector<Unit>& units, const std::string& folder) {
  return std::all_of(units.begin(), units.end(), [&](const Unit& unit) {
    std::string name = folder + "/" + unit.label;
    std::replace(name.begin() + static_cast<std::ptrdiff_t>(folder.size()) + 1, name.end(), '/', '_');
    bool written = base::write_file_atomically(name + ".cu", unit.source).has_value();
    for (size_t i = 0; i < unit.instead.size(); ++i)
      written =
          written && base::write_file_atomically(fmt::format("{}.{}.cu", name, i + 1), unit.instead[i]).has_value();
    return written;
  });
}

struct Times {
  double used = 1e9;     // processor time of all parts
  double longest = 1e9;  // of the one that takes longest: the clock of who has a processor for each
  double clock = 1e9;
};

// Of one compile, in a process that has compiled before; the least of these and of those from before.
Result<void> time_one(const toolchain::CudaJob& job, const toolchain::Nvrtc& nvrtc, Times& times) {
  const auto begun = std::chrono::steady_clock::now();
  CODETTA_CHECK_OK(nvrtc.compile(job, {}));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  times.clock = std::min(times.clock, took.count());
  std::vector<std::string> parts = toolchain::cuda_parts_of(job.source);
  if (parts.empty()) parts.push_back(job.source);
  double used = 0, longest = 0;
  toolchain::CudaJob part = job;
  part.divisible = false;
  for (const std::string& source : parts) {
    part.source = source;
    const double before = compile_gate::processor_seconds(RUSAGE_SELF);
    CODETTA_CHECK_OK(nvrtc.compile(part, {}));
    const double own = compile_gate::processor_seconds(RUSAGE_SELF) - before;
    used += own;
    longest = std::max(longest, own);
  }
  times.used = std::min(times.used, used);
  times.longest = std::min(times.longest, longest);
  return {};
}

// Whether all were compiled.
bool time_all(const std::vector<Unit>& units, const std::vector<toolchain::CudaJob>& jobs,
              const toolchain::Nvrtc& nvrtc, int rounds) {
  std::vector<Times> times(jobs.size());
  Times first;  // does not count
  if (jobs.empty() || !time_one(jobs[0], nvrtc, first)) return false;
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (const auto made = time_one(jobs[i], nvrtc, times[i]); !made) {
        fmt::print("FAILED {}\n{}", units[i].label, made.error().render());
        return false;
      }
    }
  }
  std::vector<double> used, longest, clock;
  for (size_t i = 0; i < jobs.size(); ++i) {
    used.push_back(times[i].used);
    longest.push_back(times[i].longest);
    clock.push_back(times[i].clock);
    fmt::print("{:.3f} s, {:.3f} the longest part, {:.3f} by the clock: {}\n", used[i], longest[i], clock[i],
               units[i].label);
  }
  fmt::print("a kernel {}\nthe longest part {}\nby the clock {}\n", compile_gate::spread_of(used),
             compile_gate::spread_of(longest), compile_gate::spread_of(clock));
  return true;
}

int run(const Options& options) {
  std::string problem;
  std::vector<Unit> all = options.times ? everyday_units(problem) : all_units(problem);
  if (!problem.empty()) {
    fmt::print("cannot emit {}\n", problem);
    return 1;
  }
  const size_t total = all.size();
  const std::vector<Unit> units = compile_gate::chosen(std::move(all), options.choice, 1);
  if (options.choice.list) {
    for (const Unit& unit : units) fmt::print("{}\n", unit.label);
    return 0;
  }
  if (!options.write.empty()) return write_all(units, options.write) ? 0 : 1;
  const auto nvrtc = toolchain::Nvrtc::find({.cuda_home = options.nvrtc});
  if (!nvrtc) {
    fmt::print("{}", nvrtc.error().render());
    return 77;
  }
  fmt::print("{} of {} kernels{}, {} jobs, {} (NVRTC {})\n", units.size(), total,
             options.choice.slice.empty() ? "" : ", slice of " + options.choice.slice, options.jobs, (*nvrtc)->path(),
             (*nvrtc)->version());
  std::fflush(stdout);
  std::vector<std::string> paths;
  std::vector<toolchain::CudaHeader> headers;
  const auto files = device::files();
  paths.reserve(files.size());
  for (const device::EmbeddedFile& file : files) {
    paths.push_back("device/" + std::string(file.path));
    headers.push_back({paths.back(), file.text, file.digest_hex});
  }
  std::vector<toolchain::CudaJob> jobs;
  jobs.reserve(units.size());
  for (const Unit& unit : units) {
    jobs.push_back({unit.source, unit.label, unit.flags, headers});
    jobs.back().want_ptx = !options.times && begins_early(unit);
    jobs.back().divisible = !unit.calls;  // as users' kernels are not
  }
  if (options.times) return time_all(units, jobs, **nvrtc, options.rounds) ? 0 : 1;
  const auto start = std::chrono::steady_clock::now();
  const auto results = toolchain::compile_all(**nvrtc, jobs, {}, options.jobs);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  size_t failed = 0, passed_over = 0;
  double compiling = 0, slowest = 0;
  std::string slowest_label;
  for (size_t i = 0; i < units.size(); ++i) {
    std::string why;
    Result<void> checked;
    if (results[i]) checked = check_fit(units[i], results[i]->remarks);
    for (const std::string& source : units[i].instead) {
      if (checked) break;
      ++passed_over;
      const auto next = toolchain::compile_all(
          **nvrtc, std::vector{toolchain::CudaJob{source, units[i].label, units[i].flags, headers}}, {}, 1);
      checked = next[0] ? check_fit(units[i], next[0]->remarks) : Result<void>(next[0].error());
    }
    if (!results[i]) {
      why = results[i].error().render();
    } else if (!checked) {
      why = checked.error().render();
    } else if (units[i].entries != 0 && results[i]->remarks.size() != units[i].entries) {
      why = fmt::format("{} entries were emitted, and the assembler speaks of {}\n", units[i].entries,
                        results[i]->remarks.size());
    } else if (begins_early(units[i])) {
      why = too_soon(results[i]->ptx);
    }
    if (results[i]) {
      compiling += results[i]->seconds;
      if (results[i]->seconds > slowest) {
        slowest = results[i]->seconds;
        slowest_label = units[i].label;
      }
    }
    if (why.empty()) continue;
    ++failed;
    fmt::print("FAILED {}\n{}  again: cuda_compile --only \"{}\"\n", units[i].label, why, units[i].label);
  }
  fmt::print(
      "{} compiled, {} failed, {} passed over for what spills less, {:.1f} s; {:.2f} s a kernel, the slowest {:.2f} s: "
      "{}\n",
      units.size(), failed, passed_over, seconds, units.empty() ? 0 : compiling / static_cast<double>(units.size()),
      slowest, slowest_label);
  return failed == 0 && !units.empty() ? 0 : 1;
}

}  // namespace
}  // namespace codetta::cuda_compile

int main(int argc, char** argv) {
  codetta::cuda_compile::Options options;
  const codetta::compile_gate::Option own[] = {{"--nvrtc", &options.nvrtc},
                                               {"--write", &options.write},
                                               {"--jobs", &options.jobs},
                                               {"--rounds", &options.rounds},
                                               {"--times", &options.times}};
  if (!codetta::compile_gate::parse(argc, argv, options.choice, own)) {
    std::fputs(
        "usage: cuda_compile [--slice COMMIT] [--count N] [--part I/N] [--only TEXT] [--jobs J] [--nvrtc FOLDER] "
        "[--list] [--times] [--rounds N] [--write FOLDER]\n",
        stderr);
    return 2;
  }
  return codetta::cuda_compile::run(options);
}

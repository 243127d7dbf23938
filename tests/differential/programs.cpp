// SPDX-License-Identifier: Apache-2.0
// The differential runner of programs:
//   program_differential [--count N] [--seed S | --slice COMMIT] [--first I] [--batch B] [--jobs J]
//                        [--seconds T [--at-least N]] [--like I]
// Each random program runs in process, through an emitted library, through an emitted Python module, and by the oracle.
// A failure prints the line that runs it alone: MISMATCH, or UNFINISHED where the machine killed or stopped a compiler
// or an interpreter, which fails the run as well. A slice is the part of the space that a commit's hash picks.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

#include <fmt/format.h>

#include "differential/jobs.hpp"
#include "differential/program_batch.hpp"

namespace {

using codetta::test::Clock;
using codetta::test::ProgramCounts;
using codetta::test::put;
using codetta::test::SharedKernels;
using codetta::test::SharedProgress;

struct Options : codetta::test::JobOptions {
  int64_t batch = 24;
  int64_t like = -1;  // of all batches; -1: each is like itself
};

bool parse(int argc, char** argv, Options& options) {
  options.count = 100;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (options.take(argv[i], argv[i + 1])) continue;
    if (std::string(argv[i]) == "--like") {
      options.like = std::max<int64_t>(std::atoll(argv[i + 1]), 0);
    } else if (std::string(argv[i]) == "--batch") {
      options.batch = std::max<int64_t>(std::atoll(argv[i + 1]), 1);
    } else {
      return false;
    }
  }
  return argc % 2 == 1;
}

std::string line_of(const Options& options, int64_t first, int64_t count, int64_t like) {
  return fmt::format("program_differential --seed {} --first {} --count {}", options.seed, first, count) +
         (like == first ? "" : fmt::format(" --like {}", like));
}

// A library and a Python module have a thread for each processor that they may use; hundreds a job would be made for
// products of a few elements. So each job, and the compilers that it starts, keeps to a few neighbouring processors.
void keep_to_few_processors(int job) {
#if defined(__linux__)
  constexpr int few = 4;
  cpu_set_t all, kept;
  if (::sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) <= few) return;
  std::vector<int> usable;
  for (int p = 0; p < CPU_SETSIZE; ++p) {
    if (CPU_ISSET(p, &all)) usable.push_back(p);
  }
  CPU_ZERO(&kept);
  for (int i = 0; i < few; ++i) CPU_SET(usable[static_cast<size_t>(job + i) % usable.size()], &kept);
  ::sched_setaffinity(0, sizeof kept, &kept);  // where that is not allowed, it only takes longer
#endif
}

ProgramCounts work(const Options& options, SharedProgress& shared, int job, Clock::time_point start) {
  keep_to_few_processors(job);
  ProgramCounts counts;
  SharedKernels kernels;
  for (int64_t begin = 0, end = 0; shared.take(options, start, options.batch, begin, end);) {
    shared.running[job] = begin;
    const int64_t first = options.first + begin, like = options.like < 0 ? first : options.like;
    codetta::test::run_batch({options.seed, first, end - begin, like}, kernels, counts,
                             [&](int64_t index, bool unfinished, const std::string& account) {
                               put(fmt::format("{} {}\n{}\n", unfinished ? "UNFINISHED" : "MISMATCH",
                                               line_of(options, index, 1, like), account));
                             });
    shared.running[job] = -1;
    shared.done += end - begin;
  }
  return counts;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fputs(
        "usage: program_differential [--count N] [--seed S | --slice COMMIT] [--first I] [--batch B] [--jobs J] "
        "[--seconds T [--at-least N]] [--like I]\n",
        stderr);
    return 2;
  }
  fmt::print("seed {}, programs {} to {}, {} together, {} jobs\n", options.seed, options.first,
             options.first + options.count - 1, options.batch, options.jobs);
  std::fflush(stdout);
  SharedProgress* shared = codetta::test::make_shared_progress();
  if (shared == nullptr) return 1;
  const Clock::time_point start = Clock::now();
  const auto counts = codetta::test::run_jobs<ProgramCounts>(
      options.jobs, *shared, [&](int job) { return work(options, *shared, job, start); },
      [&](int64_t begin) { return line_of(options, options.first + begin, options.batch, options.first + begin); });
  for (const auto& [reason, count] : counts.refused) fmt::print("  refused {}: {}\n", count, reason);
  fmt::print("{}", counts.summary(std::chrono::duration<double>(Clock::now() - start).count()));
  bool fine = counts.failed == 0 && counts.unfinished == 0;
  if (counts.unfinished > 0)
    fmt::print("{} programs were not finished, since the machine ended what they need; run their lines again\n",
               counts.unfinished);
  // A runner that checks little must not look fine. Short runs scatter.
  if (options.count >= 20 && (counts.runs == 0 || counts.mistrusted > counts.runs / 5 + 5 || counts.maps == 0 ||
                              counts.refusals() > counts.programs / 10)) {
    fmt::print("too few programs were checked: the generator, the planner or the oracle has become too strict\n");
    fine = false;
  }
  if (options.at_least > 0 && shared->done < std::min(options.at_least, options.count)) {
    fmt::print("{} programs are fewer than {}\n", shared->done.load(), options.at_least);
    fine = false;
  }
  return fine ? 0 : 1;
}

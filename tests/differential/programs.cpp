// SPDX-License-Identifier: Apache-2.0
// The differential runner of programs:
//   program_differential [--count N] [--seed S | --slice COMMIT] [--first I] [--batch B] [--jobs J]
//                        [--seconds T [--at-least N]]
// Each random program runs in process, through an emitted library, through an emitted Python module, and by the oracle.
// A failure prints the line that runs it alone. A slice is the part of the space that a commit's hash picks. Each job
// is a process, so that a crash is a failure with a name, too.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "differential/program_batch.hpp"
#include "differential/slices.hpp"
#include "support/slice.hpp"

namespace {

using codetta::test::ProgramCounts;
using codetta::test::put;
using Clock = std::chrono::steady_clock;

constexpr int max_jobs = 256;

struct Options {
  int64_t count = 100, first = 0, at_least = 0, batch = 24;
  uint64_t seed = 1;
  int jobs = 1;
  double seconds = 0;  // 0: no limit; else the end, once at_least programs are done
};

// Seen by all processes.
struct Shared {
  std::atomic<int64_t> next{0}, programs{0};  // program; those done
  std::atomic<int64_t> running[max_jobs];     // first program of the batch of each job, or -1
};

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--count") {
      options.count = std::atoll(value);
    } else if (name == "--seed") {
      options.seed = std::strtoull(value, nullptr, 10);
    } else if (name == "--slice") {
      options.seed = codetta::test::slice_of(value);
      fmt::print("slice of {}\n", value);
    } else if (name == "--first") {
      options.first = std::atoll(value);
    } else if (name == "--at-least") {
      options.at_least = std::atoll(value);
    } else if (name == "--batch") {
      options.batch = std::max<int64_t>(std::atoll(value), 1);
    } else if (name == "--jobs") {
      options.jobs = std::clamp(std::atoi(value), 1, max_jobs);
    } else if (name == "--seconds") {
      options.seconds = std::atof(value);
    } else {
      return false;
    }
  }
  return argc % 2 == 1;
}

std::string line_of(const Options& options, int64_t first, int64_t count) {
  return fmt::format("program_differential --seed {} --first {} --count {}", options.seed, first, count);
}

ProgramCounts work(const Options& options, Shared& shared, int job, Clock::time_point start) {
  ProgramCounts counts;
  for (int64_t begin = shared.next.fetch_add(options.batch); begin < options.count;
       begin = shared.next.fetch_add(options.batch)) {
    const bool late =
        options.seconds > 0 && std::chrono::duration<double>(Clock::now() - start).count() > options.seconds;
    if (late && begin >= options.at_least) break;
    const int64_t count = std::min(options.batch, options.count - begin);
    shared.running[job] = begin;
    codetta::test::run_batch(options.seed, options.first + begin, count, counts,
                             [&](int64_t index, const std::string& account) {
                               put(fmt::format("MISMATCH {}\n{}\n", line_of(options, index, 1), account));
                             });
    shared.running[job] = -1;
    shared.programs += count;
  }
  return counts;
}

// Runs the jobs as processes and adds up what they send.
ProgramCounts run_jobs(const Options& options, Shared& shared, Clock::time_point start) {
  ProgramCounts all;
  struct Job {
    pid_t pid = 0;
    int from = -1;
  };
  std::vector<Job> jobs;
  for (int j = 0; j < options.jobs; ++j) {
    shared.running[j] = -1;
    int ends[2];
    if (::pipe(ends) != 0) break;
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(ends[0]);
      const std::string text = work(options, shared, j, start).encode();
      const bool sent = ::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
      ::_exit(sent ? 0 : 1);
    }
    ::close(ends[1]);
    if (pid < 0) {
      ::close(ends[0]);
      break;
    }
    jobs.push_back({pid, ends[0]});
  }
  for (size_t j = 0; j < jobs.size(); ++j) {
    std::string text;
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(jobs[j].from, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<size_t>(n));
    ::close(jobs[j].from);
    int status = 0;
    ::waitpid(jobs[j].pid, &status, 0);
    if (status != 0) {
      ++all.failed;
      put(fmt::format("MISMATCH {}\nits process ended with status {:#x}\n",
                      line_of(options, options.first + shared.running[j], options.batch), status));
      continue;
    }
    all.add(ProgramCounts::decode(text));
  }
  if (jobs.empty()) ++all.failed;
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fputs(
        "usage: program_differential [--count N] [--seed S | --slice COMMIT] [--first I] [--batch B] [--jobs J] "
        "[--seconds T [--at-least N]]\n",
        stderr);
    return 2;
  }
  fmt::print("seed {}, programs {} to {}, {} together, {} jobs\n", options.seed, options.first,
             options.first + options.count - 1, options.batch, options.jobs);
  std::fflush(stdout);
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    return 1;
  }
  Shared& shared = *new (memory) Shared;
  const Clock::time_point start = Clock::now();
  const ProgramCounts counts = run_jobs(options, shared, start);
  for (const auto& [reason, count] : counts.refused) fmt::print("  refused {}: {}\n", count, reason);
  fmt::print("{}", counts.summary(std::chrono::duration<double>(Clock::now() - start).count()));
  bool fine = counts.failed == 0;
  // A runner that checks little must not look fine. Short runs scatter.
  if (options.count >= 20 && (counts.runs == 0 || counts.mistrusted > counts.runs / 5 + 5 || counts.maps == 0 ||
                              counts.refusals() > counts.programs / 10)) {
    fmt::print("too few programs were checked: the generator, the planner or the oracle has become too strict\n");
    fine = false;
  }
  if (options.at_least > 0 && shared.programs < std::min(options.at_least, options.count)) {
    fmt::print("{} programs are fewer than {}\n", shared.programs.load(), options.at_least);
    fine = false;
  }
  return fine ? 0 : 1;
}

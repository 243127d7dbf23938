// SPDX-License-Identifier: Apache-2.0
// The differential runner:
//   differential [--count N] [--seed S | --slice COMMIT] [--first I] [--problems P] [--seconds T [--at-least N]]
//   [--jobs J] [--tape]
//                [--cover]
// Cases are (seed, index); a failure prints the line that runs it alone. A slice is the part of the space that a
// commit's hash picks. Each job is a process, so that a crash is a failure with a name, too. --tape: nothing is
// compiled. --cover: every operation of the language must occur.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "differential/random_case.hpp"
#include "differential/slices.hpp"
#include "driver/context.hpp"
#include "support/slice.hpp"
#include "types/op.hpp"

namespace {

using codetta::test::CaseContexts;
using codetta::test::CaseCounts;
using codetta::test::CompiledSources;
using codetta::test::DrawnCase;
using codetta::test::mixed;
using codetta::test::put;
using Clock = std::chrono::steady_clock;

constexpr int max_jobs = 256;

struct Options {
  int64_t count = 1000, first = 0, at_least = 0;
  uint64_t seed = 1;
  int problems = 3, jobs = 1;
  double seconds = 0;  // 0: no limit; else the end, once at_least epilogues are done
  bool tape = false, cover = false;
};

// Seen by all processes.
struct Shared {
  std::atomic<int64_t> next{0};                           // case
  std::atomic<int64_t> running[max_jobs];                 // case of each job, or -1
  std::atomic<int64_t> epilogues{0}, runs{0}, failed{0};  // so far
};

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--tape" || name == "--cover") {
      (name == "--tape" ? options.tape : options.cover) = true;
      continue;
    }
    if (++i == argc) return false;
    const char* value = argv[i];
    if (name == "--count") {
      options.count = std::atoll(value);
    } else if (name == "--seed") {
      options.seed = std::strtoull(value, nullptr, 10);
    } else if (name == "--first") {
      options.first = std::atoll(value);
    } else if (name == "--at-least") {
      options.at_least = std::atoll(value);
    } else if (name == "--problems") {
      options.problems = std::atoi(value);
    } else if (name == "--jobs") {
      options.jobs = std::min(std::max(std::atoi(value), 1), max_jobs);
    } else if (name == "--seconds") {
      options.seconds = std::atof(value);
    } else if (name == "--slice") {
      options.seed = codetta::test::slice_of(value);
      fmt::print("slice of {}\n", value);
    } else {
      return false;
    }
  }
  return true;
}

std::string line_of(const Options& options, int64_t index) {
  return fmt::format("differential --seed {} --first {} --count 1 --problems {}{}", options.seed, index,
                     options.problems, options.tape ? " --tape" : "");
}

CaseCounts work(const Options& options, Shared& shared, int job, Clock::time_point start) {
  CaseCounts counts;
  std::optional<CaseContexts> contexts;
  constexpr int64_t most_together = 32;
  const int64_t most = options.tape ? 1 : std::clamp<int64_t>(options.count / options.jobs, 1, most_together);
  int64_t done = 0;
  const auto report = [&](int64_t index, const std::vector<std::string>& failures) {
    for (const std::string& failure : failures) {
      put(fmt::format("MISMATCH {}\n{}\n", line_of(options, index), failure));
      ++shared.failed;
    }
  };
  for (int64_t begin = shared.next.fetch_add(most); begin < options.count; begin = shared.next.fetch_add(most)) {
    const bool late =
        options.seconds > 0 && std::chrono::duration<double>(Clock::now() - start).count() > options.seconds;
    if (late && begin >= options.at_least) break;
    if (done == 0 || done >= 100) {
      done = 0;
      auto made = CaseContexts::make();
      if (!made) {
        put(made.error().render());
        ++counts.failed;
        break;
      }
      contexts = *std::move(made);
    }
    const int64_t end = std::min(begin + most, options.count), runs = counts.runs;
    std::vector<DrawnCase> cases;
    CompiledSources sources;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t index = options.first + i;
      shared.running[job] = index;
      // Neighbours have their flags in common, so that one call of the compiler takes them.
      const uint64_t seed = mixed(options.seed, static_cast<uint64_t>(index)),
                     flags = options.tape ? seed : mixed(~options.seed, static_cast<uint64_t>(index / most_together));
      cases.push_back(draw_case(seed, flags, options.tape, *contexts, counts));
      want_source(cases.back(), *contexts, sources);
    }
    if (!options.tape) {
      const auto& compiler = contexts->pick(false, false).shared_state()->compiler();
      if (compiler) sources.compile(*compiler);
    }
    for (int64_t i = begin; i < end; ++i) {
      const int64_t index = options.first + i;
      shared.running[job] = index;
      report(index, run_case(cases[static_cast<size_t>(i - begin)], options.problems, *contexts, sources, counts));
    }
    shared.running[job] = -1;
    done += end - begin;
    shared.epilogues += end - begin;
    shared.runs += counts.runs - runs;
  }
  return counts;
}

// Runs the jobs as processes and adds up what they send.
CaseCounts run_jobs(const Options& options, Shared& shared, Clock::time_point start) {
  CaseCounts all;
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
      put(fmt::format("MISMATCH {}\nits process ended with status {:#x}\n", line_of(options, shared.running[j]),
                      status));
      continue;
    }
    all.add(CaseCounts::decode(text));
  }
  if (jobs.empty()) ++all.failed;
  return all;
}

// Operations of the language that no epilogue had.
std::vector<std::string> missing(const CaseCounts& counts) {
  std::set<std::string> seen;
  for (const auto& [what, count] : counts.covered) seen.insert(what.substr(0, what.find(' ')));
  std::vector<std::string> result;
  for (const codetta::types::OpInfo& info : codetta::types::all_ops()) {
    const bool written = info.rule != codetta::types::OpRule::special && info.rule != codetta::types::OpRule::matmul &&
                         !info.program_only();
    if (written && seen.count(std::string(info.name)) == 0) result.emplace_back(info.name);
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fputs(
        "usage: differential [--count N] [--seed S | --slice COMMIT] [--first I] [--problems P] [--seconds T "
        "[--at-least N]] [--jobs J] [--tape] [--cover]\n",
        stderr);
    return 2;
  }
  fmt::print("seed {}, epilogues {} to {}, {} problems each, {} jobs\n", options.seed, options.first,
             options.first + options.count - 1, options.problems, options.jobs);
  std::fflush(stdout);
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    return 1;
  }
  Shared& shared = *new (memory) Shared;
  const Clock::time_point start = Clock::now();
  const CaseCounts counts = run_jobs(options, shared, start);
  for (const auto& [reason, count] : counts.reasons) fmt::print("  refused {}: {}\n", count, reason);
  if (options.count >= 100) {
    std::string last;
    for (const auto& [what, count] : counts.covered) {
      const std::string op = what.substr(0, what.find(' '));
      fmt::print("{}{}{} {}",
                 op == last     ? ""
                 : last.empty() ? "  "
                                : "\n  ",
                 op == last ? ", " : op + ":", op == last ? what.substr(op.size() + 1) : what.substr(op.size()), count);
      last = op;
    }
    fmt::print("\n  {} pairs of operation and dtype\n", counts.covered.size());
  }
  fmt::print("{}", counts.summary(std::chrono::duration<double>(Clock::now() - start).count()));
  bool fine = counts.failed == 0;
  if (options.cover) {
    for (const std::string& op : missing(counts)) {
      fmt::print("no epilogue has {}\n", op);
      fine = false;
    }
  }
  // A runner that checks little must not look fine.
  // Shares of 5 and 10 percent; a short slice scatters around them.
  constexpr int64_t scatter = 30;
  const bool enough =
      counts.runs > 0 && counts.mistrusted < counts.runs / 20 + scatter && counts.refused < counts.runs / 10 + scatter;
  if (!enough && options.count >= 100)
    fmt::print("too few cases were checked: the generator or the oracle has become too strict\n");
  if (options.at_least > 0 && shared.epilogues < std::min(options.at_least, options.count)) {
    fmt::print("{} epilogues are fewer than {}\n", shared.epilogues.load(), options.at_least);
    fine = false;
  }
  return fine && (enough || options.count < 100) ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// The differential runner:
//   differential [--count N] [--seed S | --slice COMMIT] [--first I] [--problems P] [--seconds T [--at-least N]]
//   [--jobs J] [--tape] [--empty] [--cover]
// Cases are (seed, index); a failure prints the line that runs it alone. A slice is the part of the space that a
// commit's hash picks. --tape: nothing is compiled. --empty: every fifth size is 0. --cover: every operation of the
// language must occur.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "differential/jobs.hpp"
#include "differential/random_case.hpp"
#include "differential/together.hpp"
#include "driver/context.hpp"
#include "types/op.hpp"

namespace {

using codetta::test::CaseContexts;
using codetta::test::CaseCounts;
using codetta::test::Clock;
using codetta::test::CompiledSources;
using codetta::test::DrawnCase;
using codetta::test::mixed;
using codetta::test::put;
using codetta::test::SharedProgress;

struct Options : codetta::test::JobOptions {
  int problems = 3;
  bool tape = false, empty = false, cover = false;
};

bool parse(int argc, char** argv, Options& options) {
  options.count = 1000;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--tape" || name == "--empty" || name == "--cover") {
      (name == "--tape" ? options.tape : name == "--empty" ? options.empty : options.cover) = true;
      continue;
    }
    if (++i == argc) return false;
    if (options.take(name, argv[i])) continue;
    if (name != "--problems") return false;
    options.problems = std::atoi(argv[i]);
  }
  return true;
}

std::string line_of(const Options& options, int64_t index) {
  return fmt::format("differential --seed {} --first {} --count 1 --problems {}{}{}", options.seed, index,
                     options.problems, options.tape ? " --tape" : "", options.empty ? " --empty" : "");
}

CaseCounts work(const Options& options, SharedProgress& shared, int job, Clock::time_point start) {
  CaseCounts counts;
  std::optional<CaseContexts> contexts;
  constexpr int64_t most_together = 32;
  const int64_t most = options.tape ? 1 : std::clamp<int64_t>(options.count / options.jobs, 1, most_together);
  int64_t done = 0;
  const auto report = [&](int64_t index, const std::vector<std::string>& failures) {
    for (const std::string& failure : failures) {
      put(fmt::format("{} {}\n{}\n", codetta::test::is_unfinished(failure) ? "UNFINISHED" : "MISMATCH",
                      line_of(options, index), failure));
    }
  };
  for (int64_t begin = 0, end = 0; shared.take(options, start, most, begin, end);) {
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
    std::vector<DrawnCase> cases;
    CompiledSources sources;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t index = options.first + i;
      shared.running[job] = index;
      // Neighbours have their flags in common, so that one call of the compiler takes them.
      const uint64_t seed = mixed(options.seed, static_cast<uint64_t>(index)),
                     flags = options.tape ? seed : mixed(~options.seed, static_cast<uint64_t>(index / most_together));
      cases.push_back(draw_case(seed, flags, options.tape, *contexts, counts));
      cases.back().many_empty = options.empty;
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
    shared.done += end - begin;
  }
  return counts;
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
        "[--at-least N]] [--jobs J] [--tape] [--empty] [--cover]\n",
        stderr);
    return 2;
  }
  fmt::print("seed {}, epilogues {} to {}, {} problems each, {} jobs\n", options.seed, options.first,
             options.first + options.count - 1, options.problems, options.jobs);
  std::fflush(stdout);
  SharedProgress* shared = codetta::test::make_shared_progress();
  if (shared == nullptr) return 1;
  const Clock::time_point start = Clock::now();
  const auto counts = codetta::test::run_jobs<CaseCounts>(
      options.jobs, *shared, [&](int job) { return work(options, *shared, job, start); },
      [&](int64_t index) { return line_of(options, index); });
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
  bool fine = counts.failed == 0 && counts.unfinished == 0;
  if (counts.unfinished > 0)
    fmt::print("{} runs were not finished, since the machine ended what they need; run their lines again\n",
               counts.unfinished);
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
  if (options.at_least > 0 && shared->done < std::min(options.at_least, options.count)) {
    fmt::print("{} epilogues are fewer than {}\n", shared->done.load(), options.at_least);
    fine = false;
  }
  return fine && (enough || options.count < 100) ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// The differential runner:
//   differential --count N [--seed S] [--first I] [--problems P] [--seconds T] [--slice COMMIT]
// Cases are (seed, index); a failure prints the line that runs it alone. A slice is the part of the space that a
// commit's hash picks.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "differential/random_case.hpp"

namespace {

using codetta::test::CaseContexts;
using codetta::test::CaseCounts;

struct Options {
  int64_t count = 1000, first = 0;
  uint64_t seed = 1;
  int problems = 3;
  double seconds = 0;  // 0: no limit
};

uint64_t mixed(uint64_t seed, uint64_t index) {
  uint64_t x = seed * 0xD1342543DE82EF95u + index * 0x9E3779B97F4A7C15u + 1;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// FNV-1a: any text picks a slice.
uint64_t slice_of(const char* text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (; *text != '\0'; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001B3u;
  return hash % 1000000;
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) return false;
    const std::string name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--count") {
      options.count = std::atoll(value);
    } else if (name == "--seed") {
      options.seed = std::strtoull(value, nullptr, 10);
    } else if (name == "--first") {
      options.first = std::atoll(value);
    } else if (name == "--problems") {
      options.problems = std::atoi(value);
    } else if (name == "--seconds") {
      options.seconds = std::atof(value);
    } else if (name == "--slice") {
      options.seed = slice_of(value);
      std::printf("slice of %s\n", value);
    } else {
      return false;
    }
  }
  return true;
}

void print(const CaseCounts& counts, double seconds) {
  fmt::print(
      "{} epilogues, {} runs ({} interpreted): {} passed, {} mistrusted, {} failed; {} refused, {} without a kernel; "
      "{:.0f} s\n",
      counts.epilogues, counts.runs, counts.interpreted, counts.passed, counts.mistrusted, counts.failed,
      counts.refused, counts.unplanned, seconds);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fputs("usage: differential [--count N] [--seed S] [--first I] [--problems P] [--seconds T] [--slice COMMIT]\n",
               stderr);
    return 2;
  }
  fmt::print("seed {}, epilogues {} to {}, {} problems each\n", options.seed, options.first,
             options.first + options.count - 1, options.problems);
  std::fflush(stdout);
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  CaseCounts counts;
  std::optional<CaseContexts> contexts;
  double next_report = 30;
  for (int64_t i = 0; i < options.count; ++i) {
    if (options.seconds > 0 && elapsed() > options.seconds) break;
    if (i % 100 == 0) {
      auto made = CaseContexts::make();
      if (!made) {
        std::fputs(made.error().render().c_str(), stderr);
        return 1;
      }
      contexts = *std::move(made);
    }
    for (const std::string& failure :
         run_case(mixed(options.seed, static_cast<uint64_t>(options.first + i)), options.problems, *contexts, counts)) {
      fmt::print("MISMATCH differential --seed {} --first {} --count 1 --problems {}\n{}\n", options.seed,
                 options.first + i, options.problems, failure);
      std::fflush(stdout);
    }
    if (elapsed() > next_report) {
      print(counts, elapsed());
      next_report = elapsed() + 30;
    }
  }
  for (const auto& [reason, count] : counts.reasons) fmt::print("  refused {}: {}\n", count, reason);
  print(counts, elapsed());
  // A runner that checks little must not look fine.
  const bool enough =
      counts.passed * 2 > counts.runs && counts.runs > 0 && counts.refused * 4 < counts.runs + counts.refused;
  if (!enough) std::puts("too few cases were checked: the generator or the oracle has become too strict");
  return counts.failed == 0 && (enough || options.count < 20) ? 0 : 1;
}

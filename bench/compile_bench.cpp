// SPDX-License-Identifier: Apache-2.0
// How long a program takes from its text to being callable: with an empty cache, then with what that left, each in a
// process of its own whose start is not counted. compile_bench PROGRAM.py [rounds]
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "codetta/codetta.hpp"

namespace {

struct Sample {
  double milliseconds = -1;  // below 0: it failed
  double in_compilers = 0;   // seconds, summed over kernels
  size_t kernels = 0;
};

Sample compile_once(const std::string& text, const std::string& cache_dir) {
  const auto begin = std::chrono::steady_clock::now();
  Sample sample;
  auto context = codetta::Context::make({.cache_dir = cache_dir});
  if (!context) return sample;
  const auto program = codetta::Program::parse(text);
  if (!program) return std::fprintf(stderr, "%s\n", program.error().render().c_str()), sample;
  const auto compiled = codetta::compile(*program, codetta::Target::host(), {}, *context, [&](const auto& told) {
    sample.in_compilers += told.seconds;
    sample.kernels = told.total;
  });
  if (!compiled) return std::fprintf(stderr, "%s\n", compiled.error().render().c_str()), sample;
  sample.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return sample;
}

Sample in_a_process(const std::string& text, const std::string& cache_dir) {
  int ends[2];
  Sample sample;
  if (::pipe(ends) != 0) return sample;
  const pid_t child = ::fork();
  if (child == 0) {
    sample = compile_once(text, cache_dir);
    const bool told = ::write(ends[1], &sample, sizeof sample) == sizeof sample;
    ::_exit(told ? 0 : 1);
  }
  ::close(ends[1]);
  if (child < 0 || ::read(ends[0], &sample, sizeof sample) != sizeof sample) sample = {};
  ::close(ends[0]);
  if (child > 0) ::waitpid(child, nullptr, 0);
  return sample;
}

double median(const std::vector<double>& sorted) { return sorted[sorted.size() / 2]; }

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: compile_bench PROGRAM.py [rounds]\n"), 2;
  std::ifstream file(argv[1]);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 9;
  std::vector<double> cold, warm, compilers;
  size_t kernels = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string folder = (std::filesystem::temp_directory_path() / "codetta-bench-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) return 3;
    const Sample first = in_a_process(text, folder + "/cache");
    const Sample second = in_a_process(text, folder + "/cache");
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
    if (first.milliseconds < 0 || second.milliseconds < 0) return 1;
    cold.push_back(first.milliseconds);
    compilers.push_back(first.in_compilers * 1e3);
    warm.push_back(second.milliseconds);
    kernels = first.kernels;
  }
  for (std::vector<double>* times : {&cold, &warm, &compilers}) std::sort(times->begin(), times->end());
  std::printf(
      "%zu sources; cold %.1f ms (%.1f to %.1f), of which compilers, summed, %.1f ms; warm %.2f ms (%.2f to %.2f); "
      "medians of %d\n",
      kernels, median(cold), cold.front(), cold.back(), median(compilers), median(warm), warm.front(), warm.back(),
      rounds);
  return 0;
}

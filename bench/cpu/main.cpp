// SPDX-License-Identifier: Apache-2.0
// Usage: cpu_bench <path of codetta> [filter]: all tables in Markdown on standard output, progress on standard error.
// cpu_bench ranking [filter [kernels]]: how all candidates of the rows on one core compare with what the cost model
// expects. cpu_bench hit <cache folder>: one figure, for the program itself. bench/run_cpu sets up the peers.
#include <cstdio>
#include <cstring>
#include <exception>

#include "bench/cpu/machine.hpp"
#include "bench/cpu/ours.hpp"
#include "bench/cpu/rows.hpp"

using namespace codetta::bench;

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: cpu_bench <path of codetta> [filter]\n");
    return 2;
  }
  if (argc == 3 && std::strcmp(argv[1], "hit") == 0) return print_hit_time(argv[2]);
  const std::string filter = argc > 2 ? argv[2] : "";
  if (std::strcmp(argv[1], "ranking") == 0) {
    ranking_only() = {true, argc > 3 ? argv[3] : ""};
    pin_to_one_core();
    for (const auto& make : {plain_rows, gelu_rows, two_output_rows, skinny_rows, batched_rows}) make(filter);
    return 0;
  }
  // Threads first: what follows stays on one core, peers included.
  const Table threads = thread_rows(filter);
  const Table latency = latency_rows(filter, "/proc/self/exe", argv[1]);
  pin_to_one_core();
  std::string peers;
  for (const std::string& peer : peer_versions()) peers += (peers.empty() ? "" : ", ") + peer;
  std::printf("Peers: %s.\n\n", peers.c_str());
  for (const auto& make : {plain_rows, gelu_rows, two_output_rows, skinny_rows, batched_rows}) {
    std::printf("%s", make(filter).markdown().c_str());
    std::fflush(stdout);
  }
  std::printf("%s%s", threads.markdown().c_str(), latency.markdown().c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

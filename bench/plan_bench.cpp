// SPDX-License-Identifier: Apache-2.0
// Memory planning, ordering and least cuts of large programs: time and memory by size, each size twice the last.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <random>

#include "plan/least_cut.hpp"
#include "plan/memory_check.hpp"
#include "plan/order.hpp"

namespace {

using namespace codetta;
// Of this process, so that other work on the machine does not count.
double milliseconds() { return static_cast<double>(std::clock()) * 1e3 / CLOCKS_PER_SEC; }

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// Each step reads a few of the last values, now and then an old one, and makes one.
plan::MemoryProblem program(size_t buffers, bool symbolic) {
  std::mt19937_64 random(buffers);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  plan::MemoryProblem problem;
  problem.requests.resize(buffers);
  for (size_t i = 0; i < buffers; ++i) {
    plan::MemoryRequest& r = problem.requests[i];
    const auto bytes = static_cast<int64_t>(size_t{1024} << below(8));
    r.buffer = static_cast<uint32_t>(i);
    r.bytes = types::Dim::constant(bytes);
    if (symbolic) {
      r.bytes = r.bytes * types::Dim::symbol("batch");
      r.hint = 8 * bytes;
    }
    r.first = r.last = i;
    for (size_t reads = 1 + below(3); reads > 0 && i > 0; --reads) {
      plan::MemoryRequest& read = problem.requests[i - 1 - below(std::min(i, below(50) == 0 ? 1000 : size_t{8}))];
      read.last = i;
    }
  }
  return problem;
}

void bench_planning(const char* name, bool symbolic, plan::MemoryOptions::Mode mode) {
  for (size_t buffers = 12500; buffers <= 200000; buffers *= 2) {
    const plan::MemoryProblem problem = program(buffers, symbolic);
    double best = 1e9;
    double ratio = 0;
    for (int repeat = 0; repeat < 3; ++repeat) {
      const auto start = milliseconds();
      const auto planned = plan::plan_memory(problem, {mode, 8});
      best = std::min(best, milliseconds() - start);
      if (!planned) return void(std::fprintf(stderr, "%s\n", planned.error().render().c_str()));
      ratio = static_cast<double>(planned->report.peak) / static_cast<double>(planned->report.lower_bound);
      if (repeat > 0) continue;
      const auto begin = milliseconds();
      const auto checked = plan::check_memory(problem, *planned);
      if (!checked) return void(std::fprintf(stderr, "%s\n", checked.error().render().c_str()));
      std::printf("%-28s %7zu buffers: check %8.1f ms, ", name, buffers, milliseconds() - begin);
    }
    std::printf("plan %8.1f ms, peak %.4f of the bound, process %.0f MB\n", best, ratio, peak_megabytes());
  }
}

void bench_ordering() {
  for (size_t count = 2500; count <= 40000; count *= 2) {
    std::mt19937_64 random(count);
    std::vector<plan::OrderStep> steps(count);
    std::vector<plan::OrderBuffer> buffers(count);
    for (size_t i = 0; i < count; ++i) {
      buffers[i].bytes = static_cast<int64_t>(random() % 4096);
      steps[i].makes = {static_cast<uint32_t>(i)};
      for (size_t reads = 1 + random() % 3; reads > 0 && i > 0; --reads)
        steps[i].reads.push_back(static_cast<uint32_t>(i - 1 - random() % std::min<size_t>(i, 50)));
    }
    const auto start = milliseconds();
    const auto order = plan::order_for_memory(steps, buffers);
    if (!order) return void(std::fprintf(stderr, "%s\n", order.error().render().c_str()));
    std::printf("ordering %6zu steps: %7.1f ms, peak %.4f of the written order's (%.*s)\n", count,
                milliseconds() - start, static_cast<double>(order->peak) / static_cast<double>(order->as_written),
                static_cast<int>(order->by.size()), order->by.data());
  }
}

// A chain of values behind a product, each read by the next and now and then by one further on, with tensors that both
// sides may read.
void bench_cutting() {
  for (size_t count = 2500; count <= 160000; count *= 2) {
    std::mt19937_64 random(count);
    plan::LeastCut cut;
    const uint32_t source = cut.add_vertex(), sink = cut.add_vertex();
    std::vector<std::pair<uint32_t, uint32_t>> values(count);
    for (size_t i = 0; i < count; ++i) {
      const auto [here, read] = values[i] = {cut.add_vertex(), cut.add_vertex()};
      cut.add_edge(here, read, static_cast<int64_t>(2048 << (random() % 3)));
      for (size_t reads = 1 + random() % 3; reads > 0 && i > 0; --reads) {
        const auto& from = values[i - 1 - random() % std::min<size_t>(i, random() % 20 == 0 ? 1000 : 8)];
        cut.add_edge(here, from.first, plan::LeastCut::unlimited);
        cut.add_edge(from.second, here, plan::LeastCut::unlimited);
      }
      if (i == 0) cut.add_edge(source, here, plan::LeastCut::unlimited);
      if (i + 1 == count || random() % 1000 == 0) cut.add_edge(here, sink, plan::LeastCut::unlimited);
    }
    const auto start = milliseconds();
    const auto side = cut.sink_side(source, sink);
    std::printf("cutting %6zu operations: %7.1f ms, %td behind\n", count, milliseconds() - start,
                std::count(side.begin(), side.end(), true) / 2);
  }
}

}  // namespace

int main() {
  bench_cutting();
  bench_ordering();
  bench_planning("pools, constant sizes", false, plan::MemoryOptions::Mode::Pools);
  bench_planning("guarded reuse", false, plan::MemoryOptions::Mode::Reuse);
  bench_planning("pools, a symbolic batch", true, plan::MemoryOptions::Mode::Pools);
}

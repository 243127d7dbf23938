// SPDX-License-Identifier: Apache-2.0
// Few rows, many small products, two threads.
#include "bench/cpu/machine.hpp"
#include "bench/cpu/rows.hpp"

namespace codetta::bench {
namespace {

constexpr const char* plain = "def plain(accum): D = accum; return D";

// Runs one after the other, so that each finds its weights in memory and not in a cache.
std::vector<Contender> rotate(const std::vector<std::vector<Contender>>& by_copy) {
  std::vector<Contender> result;
  for (size_t peer = 0; peer < by_copy[0].size(); ++peer) {
    std::vector<std::function<void()>> runs;
    for (const auto& copy : by_copy) {
      if (peer < copy.size()) runs.push_back(copy[peer].run);
    }
    result.push_back({by_copy[0][peer].name, [runs, turn = size_t{0}]() mutable {
                        runs[turn]();
                        if (++turn == runs.size()) turn = 0;
                      }});
  }
  return result;
}

}  // namespace

Table skinny_rows(const std::string& filter) {
  Table table("Few rows: 4096 x 4096 weights as they lie, one core",
              "The weights rotate over copies of more than 128 MiB in all. The limit is a read of the same bytes; G/s "
              "counts bytes of weights.");
  constexpr int64_t n = 4096, k = 4096;
  struct Case {
    int64_t m;
    DType a;
    Floors floors;
  };
  for (const Case& c :
       {Case{1, f32, {0, 0.85}}, Case{1, bf16, {0, 0.85}}, Case{16, f32, {3, 0}}, Case{16, bf16, {1, 0}}}) {
    const std::string what = "M = " + std::to_string(c.m) + (c.a == f32 ? " f32" : " bf16");
    if (!wanted(filter, what)) continue;
    const size_t bytes = static_cast<size_t>(n * k * dtype_size(c.a)), copies = (size_t{160} << 20) / bytes + 1;
    const Tensor A = random_tensor(c.a, {c.m, k}, 1), D = zeros(f32, {c.m, n}), peer_D = zeros(f32, {c.m, n});
    std::vector<Tensor> weights;
    std::vector<GemmArguments> turns;
    std::vector<std::vector<Contender>> peers, readers;
    for (size_t i = 0; i < copies; ++i) {
      weights.push_back(random_tensor(c.a, {k, n}, 10 + i));
      const TensorView B = weights.back();
      turns.push_back({.A = A, .B = B, .out = D, .epilogue = {plain, {{"D", D}}}});
      peers.push_back(onednn_products({c.m, n, k, c.a, c.a, f32, A.data(), B.data(), peer_D.data()}));
      if (c.a == f32) {
        for (Contender& blas : f32_products(A.view().as<float>(), B.as<float>(), peer_D.view().as<float>(), c.m, n, k))
          peers.back().push_back(std::move(blas));
      }
      readers.push_back({{"read", [data = B.data(), bytes] { read_all(data, bytes); }}});
    }
    DenseRow row{what, 0, static_cast<double>(bytes), rotate(readers)[0], static_cast<double>(bytes), c.floors};
    table.race_row(row, ours(turns, false), rotate(peers));
  }
  return table;
}

Table batched_rows(const std::string& filter) {
  Table table("10,000 small products in f32, one core", "libxsmm: its kernel for the shape, called in a loop.");
  for (const int64_t size : {16, 23, 32, 48}) {
    const std::string what = "10,000 x " + std::to_string(size) + "^3";
    if (!wanted(filter, what)) continue;
    constexpr int64_t batch = 10000;
    const Tensor A = random_tensor(f32, {batch, size, size}, 1), B = random_tensor(f32, {batch, size, size}, 2),
                 D = zeros(f32, {batch, size, size}), peer_D = zeros(f32, {batch, size, size});
    const GemmArguments arguments{.A = A, .B = B, .out = D, .epilogue = {plain, {{"D", D}}}};
    std::vector<Contender> peers;
#if defined(CODETTA_BENCH_LIBXSMM)
    if (auto run = libxsmm_batch(A.view().as<float>(), B.view().as<float>(), peer_D.view().as<float>(), batch, size,
                                 size, size))
      peers.push_back({"libxsmm", run});
#endif
    DenseRow row{what, 2.0 * batch * static_cast<double>(size * size * size), 0, {}, 0, {1.0, 0}};
    if (const PeakLoop peak = peak_loop(f32); peak.run) {
      row.limit = Contender{"peak", peak.run};
      row.limit_work = peak.operations;
    }
    table.race_row(row, ours({arguments}, false), peers);
  }
  return table;
}

Table thread_rows(const std::string& filter) {
  Table table("Two threads", "Wall time, weights packed beforehand; both take turns.");
  for (const DType a : {f32, bf16}) {
    const std::string what = std::string("two threads over one, 2048^3 ") + (a == f32 ? "f32" : "bf16");
    if (!wanted(filter, what)) continue;
    constexpr int64_t size = 2048;
    const Tensor A = random_tensor(a, {size, size}, 1), B = random_tensor(a, {size, size}, 2),
                 D = zeros(f32, {size, size});
    const GemmArguments arguments{.A = A, .B = B, .out = D, .epilogue = {plain, {{"D", D}}}};
    const Ours one = ours({arguments}, true, 1, Clock::Wall), two = ours({arguments}, true, 2, Clock::Wall);
    if (!one.ranked.run || !two.ranked.run) continue;
    const Race r = race({one.ranked, two.ranked}, Clock::Wall, 51, 12);
    table.figure(what, r.ratio(1, 0), "times", 1.9, false,
                 two.ranked.name + ", " + two.check + ", " + std::to_string(r.seconds[0].size()) + " pairs");
  }
  return table;
}

}  // namespace codetta::bench

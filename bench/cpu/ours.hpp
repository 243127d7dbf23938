// SPDX-License-Identifier: Apache-2.0
// Codetta's side of a race: the kernel that the cost model ranks first, and the fastest of the candidates when timed.
#pragma once

#include <string>
#include <vector>

#include "bench/cpu/clock.hpp"
#include "codetta/codetta.hpp"

namespace codetta::bench {

Context& context(int threads);

struct Ours {
  Contender ranked, tuned;  // tuned.run is empty where it is the ranked one
  std::string check;        // "262144 of 262144 elements right", or what is wrong
  bool right = false;
};
// Set: ours() only prints how the candidates were ranked and how fast they are, and returns none.
struct RankingOnly {
  bool on = false;
  std::string kernels;  // only those whose names contain this
};
RankingOnly& ranking_only();
// `turns`: the same problem over several copies of its operands, used one after the other so that none stays in a
// cache. prepacked: B is packed beforehand, for the kernels that read packed B.
Ours ours(const std::vector<GemmArguments>& turns, bool prepacked, int threads = 1, Clock clock = Clock::Processor);

Tensor random_tensor(DType dtype, const Dims& shape, uint64_t seed, Distribution distribution = Distribution::Normal);
Tensor zeros(DType dtype, const Dims& shape);
std::string example(const std::string& name);  // text of examples/epilogues/<name>.py

}  // namespace codetta::bench

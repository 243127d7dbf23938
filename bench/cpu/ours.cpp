// SPDX-License-Identifier: Apache-2.0
#include "bench/cpu/ours.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

namespace codetta::bench {
namespace {

struct Prepared {
  std::vector<Execution> executions;
  std::vector<PackedTensor> packed;
  size_t turn = 0;
};

std::optional<Contender> prepare(const Kernel& kernel, const std::vector<GemmArguments>& turns, bool prepacked) {
  auto state = std::make_shared<Prepared>();
  state->packed.reserve(turns.size());
  for (GemmArguments arguments : turns) {
    if (prepacked) {
      auto packed = kernel.pack(arguments.B);
      if (!packed) return std::nullopt;
      state->packed.push_back(*packed);
      arguments.packed_B = &state->packed.back();
    }
    auto execution = kernel.prepare(arguments);
    if (!execution) return std::nullopt;
    state->executions.push_back(*std::move(execution));
  }
  return Contender{kernel.metadata().name, [state] {
                     state->executions[state->turn].run().value();
                     if (++state->turn == state->executions.size()) state->turn = 0;
                   }};
}

bool verified(const Kernel& kernel, const GemmArguments& arguments, bool prepacked, std::string& text) {
  const auto outputs = arguments.epilogue.epilogue()->outputs();
  for (const NamedArgument& argument : arguments.epilogue.arguments()) {
    if (argument.value.tensor() != nullptr &&
        std::find(outputs.begin(), outputs.end(), argument.name) != outputs.end()) {
      fill_poison(*argument.value.tensor());
    }
  }
  const auto contender = prepare(kernel, {arguments}, prepacked);
  if (!contender) return false;
  contender->run();
  const auto report = verify(arguments).value();
  int64_t checked = 0, wrong = 0;
  for (const OutputCheck& output : report.outputs) {
    checked += output.checked;
    wrong += output.wrong;
  }
  text = wrong == 0 ? std::to_string(checked) + " elements right"
                    : contender->name + ": " + std::to_string(wrong) + " of " + std::to_string(checked) + " WRONG";
  return report.verdict == VerifyReport::Verdict::Pass;
}

}  // namespace

Context& context(int threads) {
  static std::map<int, Context> contexts;
  const auto found = contexts.find(threads);
  if (found != contexts.end()) return found->second;
  ContextOptions options = Context::process_default().options();
  options.threads = threads;
  return contexts.emplace(threads, Context::make(options).value()).first->second;
}

RankingOnly& ranking_only() {
  static RankingOnly value;
  return value;
}

// One line a candidate: what the model expects, what it takes, and both relative to the kernel ranked first.
static void print_ranking(const std::vector<Contender>& candidates, const std::vector<Kernel>& kernels, Clock clock) {
  const Race r = race(candidates, clock, 41, 5);
  size_t best = 0;
  for (size_t i = 1; i < candidates.size(); ++i) {
    if (r.ratio(i, best).median > 1) best = i;
  }
  if (candidates.empty()) return;
  const double expected = kernels[0].metadata().estimated_us;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const double model = kernels[i].metadata().estimated_us;
    std::printf("  %-46s model %9.1f us (%.3f)  measured %9.1f us (%.3f)%s\n", candidates[i].name.c_str(), model,
                model / expected, r.median(i) * 1e6, r.ratio(0, i).median > 0 ? 1 / r.ratio(i, 0).median : 0.0,
                i == best ? "  fastest" : "");
  }
  std::printf("  first / fastest: %.3f\n", r.ratio(best, 0).median);
  std::fflush(stdout);
}

Ours ours(const std::vector<GemmArguments>& turns, bool prepacked, int threads, Clock clock) {
  GemmArguments arguments = turns[0];
  KernelList kernels = find_kernels(arguments, Target::host(), {}, context(threads)).value();
  if (prepacked) {  // ranked anew, now that packing costs nothing
    for (const Kernel& kernel : kernels) {
      auto packed = kernel.pack(arguments.B);
      if (!packed) continue;
      const PackedTensor held = *std::move(packed);
      arguments.packed_B = &held;
      kernels = find_kernels(arguments, Target::host(), {}, context(threads)).value();
      break;
    }
  }
  std::vector<Contender> candidates;
  std::vector<Kernel> prepared;
  for (const Kernel& kernel : kernels) {
    if (candidates.size() == (ranking_only().on ? 24 : 12)) break;
    if (ranking_only().on && kernel.metadata().name.find(ranking_only().kernels) == std::string::npos) continue;
    if (auto contender = prepare(kernel, turns, prepacked)) {
      candidates.push_back(*std::move(contender));
      prepared.push_back(kernel);
    }
  }
  Ours result;
  if (candidates.empty()) {
    result.check = "no kernel could be prepared";
    return result;
  }
  if (ranking_only().on) {
    print_ranking(candidates, prepared, clock);
    return result;
  }
  result.ranked = candidates[0];
  const size_t best = fastest(candidates, clock, 1.5);
  if (best != 0) result.tuned = candidates[best];
  result.right = verified(prepared[0], turns[0], prepacked, result.check);
  if (result.right && best != 0) result.right = verified(prepared[best], turns[0], prepacked, result.check);
  return result;
}

Tensor random_tensor(DType dtype, const Dims& shape, uint64_t seed, Distribution distribution) {
  Tensor tensor = Tensor::make(dtype, shape).value();
  fill_random(tensor, seed, distribution);
  return tensor;
}
Tensor zeros(DType dtype, const Dims& shape) { return Tensor::make(dtype, shape).value(); }

std::string example(const std::string& name) {
  std::ifstream file(EPILOGUES_FOLDER "/" + name + ".py");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace codetta::bench

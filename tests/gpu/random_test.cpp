// SPDX-License-Identifier: Apache-2.0
// Random epilogues on random problems on the GPU against the oracle: the generator of tests/differential.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "differential/random_problem.hpp"
#include "differential/refusals.hpp"
#include "gpu/gpu.hpp"

namespace codetta::gpu {
namespace {

struct Counts {
  std::atomic<int64_t> epilogues{0}, runs{0}, mistrusted{0}, refused{0}, repeated{0}, spilling{0};
};

uint64_t mixed(uint64_t seed, uint64_t index) {
  uint64_t x = seed * 0xD1342543DE82EF95u + index * 0x9E3779B97F4A7C15u + 1;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

std::vector<HostBlock> blocks_of(const test::RandomProblem& problem) {
  std::vector<HostBlock> blocks;
  for (const auto* buffers : {&problem.inputs, &problem.outputs}) {
    for (const auto& buffer : *buffers) blocks.push_back({buffer->bytes.data(), buffer->bytes.size()});
  }
  return blocks;
}

// One problem on one kernel; `choice` picks the configuration.
std::string run_problem(Gpu& gpu, const test::EpilogueSpec& spec, const Epilogue& epilogue, uint64_t seed,
                        uint64_t choice, Counts& counts) {
  test::RandomProblem problem(spec, seed, false);
  problem.sizes();
  const auto failed = [&](const std::string& what) {
    return fmt::format("M={} N={} K={} batch={}{}{}: {}\n{}", problem.m, problem.n, problem.k, problem.batch,
                       problem.call.strict ? " strict" : "",
                       problem.call.rounding == Rounding::AsUnfused ? " as_unfused" : "", what, problem.describe());
  };
  if (auto made = problem.arguments(epilogue); !made) return "the test's own views: " + made.error().render();
  test::Shared shared;
  for (const test::OutputSpec& output : spec.outputs) {
    if (!output.same_as.empty()) shared.emplace_back(output.same_as, output.name);
  }
  const auto refused = [&](const Error& error) -> std::string {
    const auto bound = driver::make_problem(problem.call);
    if (!bound || !test::is_refusal_right(bound->bound, error.code(), shared))
      return failed("refused, and the test sees no reason: " + error.render());
    ++counts.refused;
    return "";
  };
  const auto planned = plan_call(problem.call, gpu.arch());
  if (!planned) return refused(planned.error());
  const auto configs = simt_configs(planned->program(), spec.a, spec.b);
  if (configs.empty()) return failed("no configuration takes it");
  const package::CudaGemmConfig& config = configs[choice % configs.size()];
  const auto compiled = gpu.compile(*planned, config, problem.call.strict);
  if (!compiled) return failed(name_of(config) + ": " + compiled.error().render());
  if (compiled->spilled_bytes > 0) {
    ++counts.spilling;
    fmt::print("{} bytes of spills, {} registers: {}\n{}", compiled->spilled_bytes, compiled->registers,
               name_of(config), spec.text);
  }
  if (gpu.compiles_only()) {
    ++counts.runs;
    return "";
  }
  const std::vector<HostBlock> blocks = blocks_of(problem);
  if (auto ran = gpu.run(*planned, *compiled, blocks); !ran) {
    return ran.error().code() / 100 == 6 && ran.error().code() < 640
               ? refused(ran.error())
               : failed(name_of(config) + ": " + ran.error().render());
  }
  ++counts.runs;
  for (const auto& buffer : problem.outputs) {
    if (!buffer->surroundings_kept()) return failed(name_of(config) + ": bytes outside an output were written");
  }
  const auto judgement = judge(*planned, config, problem.call.strict, problem.before);
  if (!judgement) return failed("the oracle: " + judgement.error().render());
  if (judgement->report.verdict == oracle::Verdict::Fail) return failed(name_of(config) + "\n" + judgement->text);
  if (judgement->report.verdict == oracle::Verdict::Mistrusted) ++counts.mistrusted;
  if (seed % 4 == 0 && problem.before.empty()) {  // the same bits again
    std::vector<std::vector<unsigned char>> first;
    for (const auto& buffer : problem.outputs) first.push_back(buffer->bytes);
    if (auto ran = gpu.run(*planned, *compiled, blocks, 2); !ran) return failed(ran.error().render());
    for (size_t i = 0; i < first.size(); ++i) {
      if (first[i] != problem.outputs[i]->bytes) return failed(name_of(config) + ": another run gave other bits");
    }
    ++counts.repeated;
  }
  return "";
}

TEST(CudaRandom, EpiloguesAgreeWithTheOracle) {
  const auto gpu = gpu_or_skip();
  if (gpu == nullptr) return;
  Counts counts;
  in_parallel(options().count, [&](int64_t i) {
    const uint64_t index = static_cast<uint64_t>(options().first + i), seed = mixed(options().seed, index);
    const test::EpilogueSpec spec = test::random_epilogue_text(seed);
    const auto epilogue = Epilogue::parse(spec.text);
    if (!epilogue) return "the text was not taken: " + epilogue.error().render() + spec.text;
    ++counts.epilogues;
    std::string failures;
    for (uint64_t p = 0; p < 3; ++p) {
      const std::string failure = run_problem(*gpu, spec, *epilogue, mixed(seed, p), seed >> 7, counts);
      if (!failure.empty())
        failures += fmt::format("--seed {} --first {} --count 1: {}\n", options().seed, index, failure);
    }
    return failures;
  });
  fmt::print("{} epilogues, {} runs, {} repeated, {} mistrusted, {} refused, {} with spills, {}\n",
             counts.epilogues.load(), counts.runs.load(), counts.repeated.load(), counts.mistrusted.load(),
             counts.refused.load(), counts.spilling.load(), gpu->statistics());
  EXPECT_GT(counts.runs, counts.epilogues);
  EXPECT_LT(counts.mistrusted, counts.runs / 4 + 20);
}

}  // namespace
}  // namespace codetta::gpu

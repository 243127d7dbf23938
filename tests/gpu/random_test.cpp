// SPDX-License-Identifier: Apache-2.0
// Random epilogues on random problems on the GPU against the oracle: the generator of tests/differential.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "differential/random_problem.hpp"
#include "differential/refusals.hpp"
#include "gpu/host_tensors.hpp"
#include "gpu/suite.hpp"
#include "types/dtype.hpp"

namespace codetta::gpu {
namespace {

struct Counts {
  std::atomic<int64_t> epilogues{0}, runs{0}, mistrusted{0}, refused{0}, left_out{0}, repeated{0}, spilling{0},
      spread{0}, float8{0};
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

// A factor as the copy engine takes it: rows or columns side by side, the others at multiples of 16 bytes; or rows that
// begin anywhere behind the first.
Result<TensorView> aligned_copy(const TensorView& view, HostTensors& memory, test::RandomProblem& problem,
                                bool anywhere = false) {
  const bool turned = !anywhere && problem.one_in(2);
  const TensorView from = turned ? transposed(view) : view;
  const int64_t size = dtype_size(view.dtype()), step = 16 / size, last = from.size(from.rank() - 1);
  const int64_t padding = anywhere ? static_cast<int64_t>(problem.pick(static_cast<size_t>(step)))
                                   : (step - last % step) % step + step * static_cast<int64_t>(problem.pick(2));
  CODETTA_TRY(const TensorView to, memory.add(view.dtype(), from.shape(), 0, padding));
  for (int64_t e = 0; e < from.element_count(); ++e) {
    int64_t rest = e, at = 0, source = 0;
    for (int d = from.rank() - 1; d >= 0; --d) {
      at += rest % from.size(d) * to.stride(d);
      source += rest % from.size(d) * from.stride(d);
      rest /= from.size(d);
    }
    std::memcpy(to.as<unsigned char>() + at * size, from.as<unsigned char>() + source * size,
                static_cast<size_t>(size));
  }
  return turned ? transposed(to) : to;
}

using package::GpuFamily;

bool is_float8(DType d) { return d == DType::f8e4m3 || d == DType::f8e5m2; }

// Whether its matrix instructions multiply 8-bit floats as other families than SIMT ask for them.
bool multiplies_float8(const std::string& arch) {
  return arch.starts_with("sm_") && std::atoi(arch.c_str() + std::strlen("sm_")) >= 89;
}

// Magnitudes: where sums keep few bits, their bound tells nothing of terms that cancel.
void make_positive(const TensorView& view) {
  for (int64_t e = 0; e < view.element_count(); ++e) {
    int64_t rest = e, at = 0;
    for (int d = view.rank() - 1; d >= 0; --d) {
      at += rest % view.size(d) * view.stride(d);
      rest /= view.size(d);
    }
    view.as<unsigned char>()[at] &= 0x7F;
  }
}

bool is_amd(GpuFamily family) { return family == GpuFamily::Mfma || family == GpuFamily::Wmma; }

// Sizes that make several tiles, and few rows for the family that is for them.
void tiled_sizes(GpuFamily family, test::RandomProblem& problem, const test::EpilogueSpec& spec) {
  const auto below = [&](size_t n) { return 1 + static_cast<int64_t>(problem.pick(n)); };
  const bool amd = is_amd(family);
  const bool many_tiles = !amd && problem.one_in(6);  // each block has several; one of AMD's has one
  problem.m = many_tiles ? 800 + below(700) : problem.one_in(3) ? 64 * below(4) : below(300);
  if (spec.fixed_n == 0) problem.n = many_tiles ? 800 + below(600) : problem.one_in(3) ? 64 * below(4) : below(300);
  if (many_tiles && spec.fixed_n != 0) problem.m *= 8;
  problem.k = problem.one_in(8) ? 500 + below(amd ? 200 : 1000) : below(200);
  // An emulator would multiply many tiles with such a K for minutes, whatever time a slice has.
  if (many_tiles && !options().emulated.empty() && options().seconds > 0) problem.k = 1 + problem.k % 64;
  if (problem.batch != 0 && spec.fixed_batch == 0) problem.batch = below(3);
  if (family == GpuFamily::Stream) problem.m = below(32);
}

// One problem on one kernel; `choice` picks the configuration.
std::string run_problem(Gpu& gpu, GpuFamily family, const test::EpilogueSpec& spec, const Epilogue& epilogue,
                        uint64_t seed, uint64_t choice, Counts& counts) {
  test::RandomProblem problem(spec, seed, false, choice);  // one form an epilogue: one compile
  problem.sizes();
  problem.aligned = family == GpuFamily::Sm90 && choice % 3 != 0;  // for the copy engine
  if (family != GpuFamily::Simt) tiled_sizes(family, problem, spec);
  // Rows of A that begin anywhere and are dealt out to items.
  const bool anywhere = family == GpuFamily::Sm90 && choice % 4 != 0 && problem.batch == 0 && problem.one_in(3);
  if (anywhere) problem.m = (problem.m + 15) / 16 * 16;
  const auto failed = [&](const std::string& what) {
    return fmt::format("M={} N={} K={} batch={}{}{}: {}\n{}", problem.m, problem.n, problem.k, problem.batch,
                       problem.call.strict ? " strict" : "",
                       problem.call.rounding == Rounding::AsUnfused ? " as_unfused" : "", what, problem.describe());
  };
  if (auto made = problem.arguments(epilogue); !made) return "the test's own views: " + made.error().render();
  HostTensors factors;
  const bool three = family == GpuFamily::Sm80 && choice % 2 != 0;
  if (family != GpuFamily::Simt && !is_amd(family) && spec.a == DType::f32)
    problem.call.math = three ? MathMode::Tf32x3 : MathMode::Tf32;
  // Fewer bits than f32 has, in one level or two.
  const bool coarse = family != GpuFamily::Simt && is_float8(spec.a) && (family == GpuFamily::Sm90 || choice % 2 == 0);
  if (coarse) problem.call.math = choice % 3 == 0 ? MathMode::Fp8FastAccumulation : MathMode::Fp8TwoLevelAccumulation;
  // Otherwise anywhere: copied in small parts or packed first.
  if (family != GpuFamily::Simt && (family == GpuFamily::Stream || choice % 4 != 0)) {
    for (TensorView* factor : {&problem.call.A, &problem.call.B}) {
      auto copy = aligned_copy(*factor, factors, problem, anywhere && factor == &problem.call.A);
      if (!copy) return "the test's own views: " + copy.error().render();
      *factor = *copy;
    }
  }
  if (coarse) make_positive(problem.call.A), make_positive(problem.call.B);
  test::Shared shared;
  for (const test::OutputSpec& output : spec.outputs) {
    if (!output.same_as.empty()) shared.emplace_back(output.same_as, output.name);
  }
  const auto refused = [&](const Error& error) -> std::string {
    const auto bound = driver::make_problem(problem.call);
    const bool full = problem.m > 0 && problem.n > 0;
    if (!bound || (full && error.code() == 610) || !test::is_refusal_right(bound->bound, error.code(), shared))
      return failed("refused, and the test sees no reason: " + error.render());
    ++counts.refused;
    return "";
  };
  const auto planned = plan_call(problem.call, gpu.arch());
  if (!planned) return refused(planned.error());
  auto configs = family == GpuFamily::Simt ? simt_configs(planned->program(), spec.a, spec.b)
                                           : family_configs(*planned, family, gpu.arch());
  const auto spread = [](const package::GpuGemmConfig& config) { return config.spread_a > 1; };
  if (std::any_of(configs.begin(), configs.end(), spread)) {
    std::erase_if(configs, [&](const auto& config) { return !spread(config); });
    ++counts.spread;
  }
  if (configs.empty()) {
    if (family == GpuFamily::Simt) return failed("no configuration takes it");
    ++counts.left_out;
    return "";
  }
  const package::GpuGemmConfig& config = configs[choice % configs.size()];
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
  std::vector<HostBlock> blocks = blocks_of(problem);
  blocks.insert(blocks.end(), factors.blocks().begin(), factors.blocks().end());
  if (auto ran = gpu.run(*planned, *compiled, blocks); !ran) {
    return ran.error().code() / 100 == 6 && ran.error().code() < 640
               ? refused(ran.error())
               : failed(name_of(config) + ": " + ran.error().render());
  }
  ++counts.runs;
  counts.float8 += is_float8(spec.a) ? 1 : 0;
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

void run_random(Gpu& gpu, GpuFamily family) {
  Counts counts;
  in_parallel(options().count, [&](int64_t i) {
    if (gpu.lost()) return std::string();  // said before, by whom it happened to
    const uint64_t index = static_cast<uint64_t>(options().first + i), seed = mixed(options().seed, index);
    test::EpilogueSpec spec = test::random_epilogue_text(seed);
    if (family != GpuFamily::Simt && !is_amd(family) && types::is_float(spec.a) && seed % 8 == 5 &&
        multiplies_float8(gpu.arch())) {
      spec.a = seed % 3 == 0 ? DType::f8e5m2 : DType::f8e4m3;
      spec.b = seed % 5 == 0 ? DType::f8e5m2 : DType::f8e4m3;
    } else if (family != GpuFamily::Simt) {
      const bool bytes = types::byte_size(spec.a) == 1 && types::byte_size(spec.b) == 1;
      if (!types::is_float(spec.a) && !bytes) return std::string();
      if (types::is_float(spec.a))
        spec.a = spec.b = seed % 7 == 0 ? DType::f32 : seed % 3 == 0 ? DType::f16 : DType::bf16;
      if (family == GpuFamily::Mfma) {
        if (spec.a == DType::bf16 && seed % 5 == 0) spec.a = spec.b = DType::f64;
        if (bytes && !types::is_float(spec.a)) spec.a = spec.b = DType::i8;
      }
      if (family == GpuFamily::Wmma && spec.a == DType::f32) spec.a = spec.b = DType::bf16;
    }
    const auto epilogue = Epilogue::parse(spec.text);
    if (!epilogue) return "the text was not taken: " + epilogue.error().render() + spec.text;
    ++counts.epilogues;
    std::string failures;
    for (uint64_t p = 0; p < options().problems; ++p) {
      const std::string failure = run_problem(gpu, family, spec, *epilogue, mixed(seed, p), seed >> 7, counts);
      if (!failure.empty())
        failures += fmt::format("--seed {} --first {} --count 1: {}\n", options().seed, index, failure);
    }
    return failures;
  });
  fmt::print("{} epilogues, {} runs, {} repeated, {} mistrusted, {} refused, {} left out, {} with spills, {}\n",
             counts.epilogues.load(), counts.runs.load(), counts.repeated.load(), counts.mistrusted.load(),
             counts.refused.load(), counts.left_out.load(), counts.spilling.load(), gpu.statistics());
  if (counts.float8 > 0) fmt::print("{} of 8-bit floats\n", counts.float8.load());
  if (counts.spread > 0) fmt::print("{} with rows of A dealt out to items\n", counts.spread.load());
  EXPECT_GT(counts.runs, 0);
  EXPECT_GT(3 * counts.runs + 20, static_cast<int64_t>(options().problems) * counts.epilogues);
  EXPECT_LT(counts.mistrusted, counts.runs / 4 + 20);
}

TEST(CudaRandom, Simt) {
  if (const auto gpu = gpu_or_skip()) run_random(*gpu, GpuFamily::Simt);
}

TEST(CudaRandom, Sm80) {
  if (const auto gpu = gpu_or_skip()) run_random(*gpu, GpuFamily::Sm80);
}

TEST(CudaRandom, Stream) {
  if (const auto gpu = gpu_or_skip()) run_random(*gpu, GpuFamily::Stream);
}

TEST(CudaRandom, Sm90) {
  const auto gpu = gpu_or_skip();
  if (gpu == nullptr) return;
  if (gpu->arch() != "sm_90a") GTEST_SKIP() << "this device is " << gpu->arch();
  run_random(*gpu, GpuFamily::Sm90);
}

TEST(CudaRandom, Sm100) {
  const auto gpu = gpu_or_skip();
  if (gpu == nullptr) return;
  if (gpu->arch() != "sm_100a" && gpu->arch() != "sm_103a") GTEST_SKIP() << "this device is " << gpu->arch();
  run_random(*gpu, GpuFamily::Sm100);
}

// Of the architecture that is emulated.
TEST(HipRandom, Matrix) {
  const auto gpu = gpu_or_skip();
  if (gpu == nullptr) return;
  if (!gpu->arch().starts_with("gfx")) GTEST_SKIP() << "this device is " << gpu->arch();
  run_random(*gpu, gpu->arch().starts_with("gfx9") ? GpuFamily::Mfma : GpuFamily::Wmma);
}

}  // namespace
}  // namespace codetta::gpu

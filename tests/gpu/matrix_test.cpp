// SPDX-License-Identifier: Apache-2.0
// The numerics matrix on the GPU: every operation x dtype x broadcast form, products of every pair of dtypes, and tails
// of M, N and K from 1 to 257 with operands at odd addresses.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstddef>
#include <random>

#include "codetta/fill.hpp"
#include "gpu/host_tensors.hpp"
#include "gpu/suite.hpp"
#include "numerics/unit.hpp"

namespace codetta::gpu {
namespace {

using numerics::Unit;

struct Form {
  bool a_transposed = false, b_transposed = false;  // stored [k, m], [n, k]
  int64_t offset = 0, padding = 0;                  // of every tensor: see HostTensors
  bool any_bits = false;                            // factors of integers from their whole ranges
};

// Everything of one unit on one kernel; what went wrong, for people.
Result<std::string> run(Gpu& gpu, const Unit& unit, const Form& form, uint64_t seed) {
  CODETTA_TRY(Epilogue epilogue, Epilogue::parse(unit.text));
  HostTensors memory;
  const auto input = [&](DType dtype, const Dims& shape, bool positive) -> Result<TensorView> {
    CODETTA_TRY(const TensorView view, memory.add(dtype, shape, form.offset, form.padding));
    fill_random(view, ++seed, positive ? Distribution::Positive : Distribution::Normal);
    return view;
  };
  const auto factor = [&](DType dtype, int64_t rows, int64_t cols, bool turned) -> Result<TensorView> {
    Dims shape = turned ? Dims{cols, rows} : Dims{rows, cols};
    if (unit.batch != 0) shape = turned ? Dims{unit.batch, cols, rows} : Dims{unit.batch, rows, cols};
    CODETTA_TRY(const TensorView view, input(dtype, shape, false));
    if (form.any_bits) {
      std::mt19937_64 random(++seed);
      auto* const bytes = view.as<std::byte>();  // without padding
      for (int64_t i = 0; i < view.element_count() * dtype_size(dtype); ++i)
        bytes[i] = static_cast<std::byte>(random());
    }
    return turned ? transposed(view) : view;
  };
  GemmArguments call;
  CODETTA_TRY(call.A, factor(unit.a, unit.m, unit.k, form.a_transposed));
  CODETTA_TRY(call.B, factor(unit.b, unit.k, unit.n, form.b_transposed));
  std::vector<NamedArgument> named;
  for (const numerics::Operand& operand : unit.operands) {
    CODETTA_TRY(const TensorView view, input(operand.dtype, operand.shape, operand.positive));
    named.push_back({operand.name, view});
  }
  for (const numerics::Output& output : unit.outputs) {
    CODETTA_TRY(const TensorView view, memory.add(output.dtype, output.shape, form.offset, form.padding));
    fill_poison(view);
    named.push_back({output.name, view});
  }
  call.epilogue = EpilogueArguments(std::move(epilogue), std::move(named));
  CODETTA_TRY(const Planned planned, plan_call(call, gpu.arch()));
  const std::vector<package::GpuGemmConfig> configs = simt_configs(planned.program(), unit.a, unit.b);
  if (configs.empty()) return std::string("no configuration takes it");
  // The same for all problems of one text and dtype, so that the kernel is compiled once.
  const size_t choice = std::hash<std::string>()(unit.text + std::to_string(static_cast<int>(unit.a))) % configs.size();
  const package::GpuGemmConfig& config = configs[choice];
  CODETTA_TRY(const Compiled compiled, gpu.compile(planned, config, false));
  if (gpu.compiles_only()) return std::string();
  CODETTA_CHECK_OK(gpu.run(planned, compiled, memory.blocks()));
  CODETTA_TRY(const Judgement judgement, judge(planned, config, false));
  std::string failure = judgement.text;
  if (!memory.surroundings_kept()) failure += "  bytes around a tensor were written\n";
  for (const oracle::OutputReport& output : judgement.report.outputs) {
    if (output.ambiguous * 50 > output.elements) failure += "  " + output.name + " is too vague\n";
    if (output.elements != output.total) failure += "  " + output.name + " was not checked whole\n";
  }
  return failure.empty() ? failure : name_of(config) + "\n" + failure;
}

std::string outcome(Gpu& gpu, const Unit& unit, const Form& form, uint64_t seed) {
  const Result<std::string> failure = run(gpu, unit, form, seed);
  if (failure && failure->empty()) return "";
  return fmt::format("{}: {} x {} x {}, batch {}, offset {}, padding {}{}{}, seed {}\n{}{}", unit.name, unit.m, unit.n,
                     unit.k, unit.batch, form.offset, form.padding, form.a_transposed ? ", A turned" : "",
                     form.b_transposed ? ", B turned" : "", seed, failure ? *failure : failure.error().render(),
                     unit.text);
}

TEST(CudaMatrix, EveryOperationTypeAndForm) {
  const auto gpu = gpu_or_skip();
  if (gpu == nullptr) return;
  std::vector<Unit> units;
  uint64_t index = 0;
  for (Unit& unit : numerics::operation_units()) {
    if (!unit.refused && index++ % options().of == options().seed % options().of) units.push_back(std::move(unit));
  }
  ASSERT_FALSE(units.empty());
  in_parallel(static_cast<int64_t>(units.size()), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    return outcome(*gpu, units[at], {false, false, i % 3, i % 2}, options().seed * 1000003 + at);
  });
}

constexpr const char* tail_text =
    "def tail(accum, row, column, whole):\n"
    "    D = accum * column + row\n"
    "    E = relu(D) - whole\n"
    "    r = sum(E, axis=\"row\")\n"
    "    c = max(D, axis=\"column\")\n"
    "    s = mean(D, axis=\"all\")\n"
    "    return D, E, r, c, s\n";

Unit tail(DType a, DType b, int64_t m, int64_t n, int64_t k) {
  Unit unit;
  unit.a = a;
  unit.b = b;
  unit.m = m;
  unit.n = n;
  unit.k = k;
  unit.name = fmt::format("{} x {} tail", dtype_name(a), dtype_name(b));
  unit.text = tail_text;
  const DType type = a == DType::f64 ? DType::f64 : DType::f32;
  unit.operands = {{"row", type, {n}}, {"column", type, {m, 1}}, {"whole", DType::bf16, {m, n}}};
  unit.outputs = {
      {"D", type, {m, n}}, {"E", DType::f16, {m, n}}, {"r", type, {m, 1}}, {"c", type, {1, n}}, {"s", type, {1, 1}}};
  return unit;
}

TEST(CudaMatrix, TailsOfEveryPairOfFactors) {
  const auto gpu = gpu_or_skip();
  if (gpu == nullptr) return;
  constexpr std::pair<DType, DType> factors[] = {
      {DType::f32, DType::f32},       {DType::f64, DType::f64},       {DType::bf16, DType::bf16},
      {DType::f16, DType::f16},       {DType::i8, DType::i8},         {DType::u8, DType::i8},
      {DType::f8e4m3, DType::f8e4m3}, {DType::f8e5m2, DType::f8e5m2}, {DType::bf16, DType::f32},
  };
  struct Job {
    Unit unit;
    Form form;
  };
  std::vector<Job> jobs;
  for (const auto& [a, b] : factors) {
    for (int64_t size = 1; size <= 257; ++size) {
      const bool wanted = size <= 4 || size % static_cast<int64_t>(options().of) == 1 || options().of == 1;
      if (!wanted) continue;
      const Form form{size % 2 == 0, size % 3 == 0, size % 5, size % 4};
      jobs.push_back({tail(a, b, size, 37, 19), form});
      jobs.push_back({tail(a, b, 13, size, 19), form});
      jobs.push_back({tail(a, b, 13, 37, size), form});
    }
    jobs.push_back({tail(a, b, 13, 37, 0), {}});
    jobs.push_back({tail(a, b, 0, 37, 5), {}});
    jobs.push_back({tail(a, b, 13, 0, 5), {}});
    jobs.push_back({tail(a, b, 300, 200, 150), {}});
  }
  in_parallel(static_cast<int64_t>(jobs.size()), [&](int64_t i) {
    const Job& job = jobs[static_cast<size_t>(i)];
    return outcome(*gpu, job.unit, job.form, options().seed * 7919 + static_cast<uint64_t>(i));
  });
}

// Products and sums beyond what doubles hold, which wrap.
TEST(CudaMatrix, WholeRangesOfIntegers) {
  const auto gpu = gpu_or_skip();
  if (gpu == nullptr) return;
  constexpr std::pair<DType, DType> factors[] = {
      {DType::i8, DType::u8},   {DType::i16, DType::i16}, {DType::i32, DType::i32}, {DType::u32, DType::i32},
      {DType::i64, DType::i64}, {DType::u64, DType::u64}, {DType::i64, DType::u8},
  };
  std::vector<Unit> units;
  for (const auto& [a, b] : factors) {
    for (const int64_t k : {1, 5, 70, 300}) {
      Unit unit;
      unit.a = a;
      unit.b = b;
      unit.m = 37;
      unit.n = 21;
      unit.k = k;
      unit.name = fmt::format("whole ranges of {} x {}", dtype_name(a), dtype_name(b));
      unit.text =
          "def wide(accum):\n    D = accum * 3 + 1\n    s = sum(accum, axis=\"row\")\n    t = max(accum, "
          "axis=\"all\")\n"
          "    return D, s, t\n";
      const DType type = dtype_size(a) == 1 ? DType::i32 : DType::i64;
      unit.outputs = {{"D", type, {37, 21}}, {"s", type, {37, 1}}, {"t", type, {1, 1}}};
      units.push_back(std::move(unit));
    }
  }
  in_parallel(static_cast<int64_t>(units.size()), [&](int64_t i) {
    return outcome(*gpu, units[static_cast<size_t>(i)], {i % 2 == 0, i % 3 == 0, 0, 0, true},
                   options().seed * 104729 + static_cast<uint64_t>(i));
  });
}

}  // namespace
}  // namespace codetta::gpu

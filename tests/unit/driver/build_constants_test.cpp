// SPDX-License-Identifier: Apache-2.0
// Constants of libraries are packed in the form that the chosen kernel reads, whichever it is.
#include "driver/build_constants.hpp"

#include <gtest/gtest.h>

#include <set>

#include "codetta/codetta.hpp"
#include "driver/program_state.hpp"
#include "emit/package.hpp"
#include "opt/passes.hpp"
#include "plan/plan.hpp"
#include "runtime/cpu/fused.hpp"

namespace codetta::driver {
namespace {

constexpr int64_t k = 64, n = 48;

class BuildConstants : public ::testing::TestWithParam<DType> {};

TEST_P(BuildConstants, ArePackedForTheKernel) {
  const std::string dtype(dtype_name(GetParam()));
  const Program parsed = Program::parse("def p(x: " + dtype + "[\"b\", 64], w: " + dtype +
                                        "[64, 48]):\n    y = relu(x @ w)\n    return y\n")
                             .value();
  Context context = Context::make({.cache_enabled = false, .threads = 1}).value();
  ContextState& state = *context.shared_state();
  const opt::Optimized optimized = opt::optimize(Program::Access::state(parsed)->graph).value();
  plan::Plan plan =
      plan::plan_program(optimized.graph, Target::host(), state.machine(Target::host()), {{"b", 512}}).value();
  const Tensor w = Tensor::make(GetParam(), {k, n}).value();
  fill_random(w.view(), 1);
  ConstantValues values;
  values.embedded.emplace("w", w.view());

  std::set<package::CpuFamily> packed;
  for (size_t c = 0; c < plan.kernels[0].discovery.candidates.size(); ++c) {
    plan.kernels[0].chosen = c;
    emit::host::Program program{.function = "p", .package = nullptr};
    program.package =
        std::make_shared<const package::Package>(emit::emit_package(plan, {.name = "p", .build_id = ""}).value());
    EmbeddedBytes bytes;
    ASSERT_TRUE(bind_constants(program, values, bytes, *state.pool));
    toolchain::LibraryJob job;
    bytes.add_to(job);
    // Tuning runs with the same bytes.
    const PackedFactors tuned = packed_constants(program.package, values, *state.pool).value();
    ASSERT_EQ(tuned.size(), 1U);
    EXPECT_EQ(tuned[0] != nullptr, !program.packed.empty());
    for (const emit::host::PackedFactor& factor : program.packed) {
      // What the engine asks when the library runs (runtime/cpu/engine.cpp).
      const package::CpuGemmConfig& config = package::cpu(program.package->kernels[0].config);
      runtime::cpu::GemmProblem problem;
      problem.m = 1, problem.n = n, problem.k = k;
      ASSERT_EQ(factor.symbol, "codetta_constant_0");
      const std::string& held = job.files[0].bytes;
      EXPECT_EQ(static_cast<size_t>(factor.bytes), held.size());
      ASSERT_NE(tuned[0], nullptr);
      EXPECT_EQ(held, std::string(static_cast<const char*>(tuned[0]->bytes.data()), tuned[0]->bytes.byte_size()));
      EXPECT_TRUE(runtime::cpu::packed_matches(held.data(), held.size(), runtime::cpu::packing_of(config), problem))
          << plan.kernels[0].discovery.candidates[c].name;
      packed.insert(config.family);
    }
  }
  EXPECT_TRUE(packed.contains(package::CpuFamily::Packed) || packed.contains(package::CpuFamily::Convert));
}

// The bytes that stand for a constant in a library, with w bound to 0, 1, 2, ... in a program that packs it for a
// product.
std::string bytes_of_w(const std::string& text) {
  const Program parsed = Program::parse(text).value();
  Context context = Context::make({.cache_enabled = false, .threads = 1}).value();
  ContextState& state = *context.shared_state();
  const opt::Optimized optimized = opt::optimize(Program::Access::state(parsed)->graph).value();
  plan::Plan plan =
      plan::plan_program(optimized.graph, Target::host(), state.machine(Target::host()), {{"b", 512}}).value();
  for (plan::PlannedKernel& kernel : plan.kernels) {
    const auto& candidates = kernel.discovery.candidates;
    for (size_t c = 0; c < candidates.size(); ++c) {
      const auto* config = std::get_if<package::CpuGemmConfig>(&candidates[c].config);
      if (config != nullptr && config->family == package::CpuFamily::Packed) kernel.chosen = c;
    }
  }
  emit::host::Program program{.function = "p", .package = nullptr};
  program.package =
      std::make_shared<const package::Package>(emit::emit_package(plan, {.name = "p", .build_id = ""}).value());
  const Tensor w = Tensor::make(DType::f32, {k, n}).value();
  for (int64_t i = 0; i < k * n; ++i) w.view().as<float>()[i] = static_cast<float>(i);
  ConstantValues values;
  values.embedded.emplace("w", w.view());
  EmbeddedBytes bytes;
  EXPECT_TRUE(bind_constants(program, values, bytes, *state.pool));
  EXPECT_EQ(program.packed.size(), 1U);
  toolchain::LibraryJob job;
  bytes.add_to(job);
  const std::string& symbol = program.constants.at(0).symbol;
  return job.files.at(static_cast<size_t>(std::stoi(symbol.substr(symbol.rfind('_') + 1)))).bytes;
}

TEST(BuildConstants, LieAsTheyAreWhereStepsReadThem) {
  const std::string head = "def p(x: f32[\"b\", 64], w: f32[64, 48]";
  const auto as_it_lies = [](const std::string& bytes) {
    const auto* values = reinterpret_cast<const float*>(bytes.data());
    bool same = bytes.size() == sizeof(float) * k * n;
    for (int64_t i = 0; same && i < k * n; ++i) same = values[i] == static_cast<float>(i);
    return same;
  };
  EXPECT_FALSE(as_it_lies(bytes_of_w(head + "):\n    y = x @ w\n    return y\n")));
  EXPECT_TRUE(as_it_lies(bytes_of_w(head + "):\n    y = x @ w\n    z = w + 1\n    return y, z\n")));
  // A copy, which no launch is.
  EXPECT_TRUE(as_it_lies(bytes_of_w(head + ", i: i64[2], v: f32[2, 48]):\n    y = x @ w\n    z = index_put(w, i, v)\n"
                                           "    return y, z\n")));
  // A branch, which has a list of its own.
  EXPECT_TRUE(as_it_lies(bytes_of_w("def one(w):\n    return w * 2\n\ndef other(w):\n    return w * 3\n\n" + head +
                                    ", flag: bool):\n    y = x @ w\n    z = cond(flag, one, other, w)\n"
                                    "    return y, z\n")));
}

INSTANTIATE_TEST_SUITE_P(DTypes, BuildConstants, ::testing::Values(DType::f32, DType::bf16, DType::f16, DType::i8),
                         [](const auto& one) { return std::string(dtype_name(one.param)); });

}  // namespace
}  // namespace codetta::driver

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
    for (const emit::host::PackedFactor& factor : program.packed) {
      // What the engine asks when the library runs (runtime/cpu/engine.cpp).
      const package::CpuGemmConfig& config = package::cpu(program.package->kernels[0].config);
      runtime::cpu::GemmProblem problem;
      problem.m = 1, problem.n = n, problem.k = k;
      ASSERT_EQ(factor.symbol, "codetta_constant_0");
      const std::string& held = job.files[0].bytes;
      EXPECT_EQ(static_cast<size_t>(factor.bytes), held.size());
      EXPECT_TRUE(runtime::cpu::packed_matches(held.data(), held.size(), runtime::cpu::packing_of(config), problem))
          << plan.kernels[0].discovery.candidates[c].name;
      packed.insert(config.family);
    }
  }
  EXPECT_TRUE(packed.contains(package::CpuFamily::Packed) || packed.contains(package::CpuFamily::Convert));
}

INSTANTIATE_TEST_SUITE_P(DTypes, BuildConstants, ::testing::Values(DType::f32, DType::bf16, DType::f16, DType::i8),
                         [](const auto& one) { return std::string(dtype_name(one.param)); });

}  // namespace
}  // namespace codetta::driver

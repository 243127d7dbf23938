// SPDX-License-Identifier: Apache-2.0
// Problems without elements: what is owed, and what stands in for the elements.
#include "runtime/empty.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "made_package.hpp"

namespace codetta::runtime {
namespace {

using package::EpilogueProgram;
using package::Inst;
using test::affine;
using test::PhaseMaker;
using types::Dim;

TEST(EmptyProblem, StoresToTensorsWithoutElementsAreDropped) {
  EpilogueProgram program;
  program.arguments.resize(2);
  program.operands = {affine(0, DType::f32, false, true, true, true), affine(1, DType::f32, false, false, true, true)};
  package::Phase phase;
  phase.insts.resize(1);
  phase.stores = {{0, 0}, {1, 0}};
  program.phases.push_back(phase);
  cpu::GemmProblem problem;
  problem.m = problem.n = 1;
  const EpilogueProgram owed = owed_stores(program, {true, false}, problem);
  ASSERT_EQ(owed.phases[0].stores.size(), 1u);
  EXPECT_EQ(owed.phases[0].stores[0].operand, 1u);
  EXPECT_TRUE(owed_stores(program, {true, true}, problem).phases[0].stores.empty());
}

TEST(EmptyProblem, StoresOfNoElementsAreDropped) {
  EpilogueProgram program;
  program.arguments.resize(2);
  program.operands = {affine(0, DType::f32, true, true, true, true), affine(1, DType::f32, false, true, false, true)};
  package::Phase phase;
  phase.insts.resize(1);
  phase.stores = {{0, 0}, {1, 0}};
  program.phases.push_back(phase);
  const auto owed = [&](int64_t batch, int64_t m, int64_t n) {
    cpu::GemmProblem problem;
    problem.batch = batch, problem.m = m, problem.n = n;
    std::vector<uint32_t> operands;  // whose stores stay
    const EpilogueProgram kept = owed_stores(program, {false, false}, problem);
    for (const package::Store& store : kept.phases[0].stores) operands.push_back(store.operand);
    return operands;
  };
  EXPECT_EQ(owed(1, 1, 1), (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(owed(2, 3, 0), (std::vector<uint32_t>{1}));
  EXPECT_EQ(owed(0, 3, 2), (std::vector<uint32_t>{1}));
  EXPECT_EQ(owed(2, 0, 4), (std::vector<uint32_t>{}));
}

TEST(EmptyProblem, ExtentsStandIn) {
  cpu::GemmProblem problem;
  problem.m = 5;
  problem.k = 7;
  problem.batch = 2;
  problem.split = {3, 0};
  EXPECT_TRUE(reduces_nothing(package::ReduceAxis::Row, problem));
  EXPECT_FALSE(reduces_nothing(package::ReduceAxis::Column, problem));
  EXPECT_TRUE(reduces_nothing(package::ReduceAxis::All, problem));
  EXPECT_TRUE(reduces_nothing(package::ReduceAxis::Item, problem));
  stand_in(problem);
  EXPECT_EQ(problem.batch, 2);
  EXPECT_EQ(problem.m, 5);
  EXPECT_EQ(problem.n, 3);
  EXPECT_EQ(problem.k, 0);
  EXPECT_EQ(problem.split.chunk, 1);
}

// L = min(accum + C, axis="row"); E = logsumexp(minimum(L, 2.0), axis="column"), for each batch item: what follows a
// reduction over no columns is a reduction over rows that are there.
TEST(EmptyProblem, AReductionOfIdentities) {
  const test::Sizes sizes{2, 4, 0, 3};
  EpilogueProgram program;
  const auto c = [](int64_t v) { return Dim::constant(v); };
  program.arguments = {{"C", DType::f32, false, false, {c(2), c(4), c(0)}},
                       {"L", DType::f32, false, true, {c(2), c(4), c(1)}},
                       {"E", DType::f32, false, true, {c(2), c(1), c(1)}}};
  program.operands = {affine(0, DType::f32, true, true, true, false), affine(1, DType::f32, true, true, false, true),
                      affine(2, DType::f32, true, false, false, true)};
  package::Reduction lowest, total;
  lowest.kind = package::ReduceKind::Min;
  total.kind = package::ReduceKind::LogSumExp;
  total.axis = package::ReduceAxis::Column;
  total.phase = 1;
  const auto phase = [&](package::Scope scope) {
    program.phases.emplace_back().scope = scope;
    program.phases.back().reads_accumulator = false;  // PhaseMaker sets it
  };
  phase(package::Scope::Tile);
  PhaseMaker first(program.phases[0]);
  lowest.value = first.op(types::Op::add, DType::f32,
                          {first.leaf(Inst::Kind::Accumulator, DType::f32), first.leaf(Inst::Kind::Load, DType::f32)});
  phase(package::Scope::RowPanel);
  PhaseMaker second(program.phases[1]);
  const uint32_t result = second.leaf(Inst::Kind::Result, DType::f32, 0);
  second.store(1, result);
  total.value = second.op(types::Op::minimum, DType::f32, {result, second.literal(DType::f32, 2)});
  phase(package::Scope::Whole);
  PhaseMaker third(program.phases[2]);
  third.store(2, third.leaf(Inst::Kind::Result, DType::f32, 1));
  program.reductions = {lowest, total};
  ASSERT_EQ(package::find_defect(program).value_or(""), "");

  std::mt19937 gen(1);
  package::CpuGemmConfig config;
  config.family = package::CpuFamily::Convert;
  const test::Made made(program, sizes, config, gen);
  const auto pool = make_thread_pool(1);
  auto execution = made.prepare(*pool);
  ASSERT_TRUE(execution.has_value()) << execution.error().render();
  ASSERT_TRUE(execution->run());
  const TensorView &l = made.bindings.tensors[3], &e = made.bindings.tensors[4];
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(l.as<float>()[i], INFINITY);
  for (int64_t i = 0; i < 2; ++i) EXPECT_NEAR(e.as<float>()[i], 2 + std::log(4.0), 1e-5);
}

}  // namespace
}  // namespace codetta::runtime

// SPDX-License-Identifier: Apache-2.0
// Problems without elements: which stores get a phase of their own.
#include "runtime/empty.hpp"

#include <gtest/gtest.h>

namespace codetta::runtime {
namespace {

using package::Access;
using package::EpilogueProgram;
using package::Inst;

// D[m, n] = accum and c[n] = 2, stored by one phase.
EpilogueProgram two_outputs(Access second, uint32_t second_value) {
  EpilogueProgram program;
  program.arguments.resize(2);
  program.operands.resize(2);
  program.operands[0].access = Access::Full;
  program.operands[1].argument = 1;
  program.operands[1].access = second;
  package::Phase phase;
  phase.insts.resize(2);
  phase.insts[0].kind = Inst::Kind::Accumulator;
  phase.insts[1].kind = Inst::Kind::Literal;
  phase.insts[1].bits = 0x40000000;
  phase.stores = {{0, 0}, {1, second_value}};
  program.phases.push_back(phase);
  return program;
}

TEST(empty_problem, row_store_moves_behind) {
  const auto apart = stores_apart(two_outputs(Access::Row, 1));
  ASSERT_TRUE(apart);
  ASSERT_EQ(apart->phases.size(), 2u);
  ASSERT_EQ(apart->phases[0].stores.size(), 1u);
  EXPECT_EQ(apart->phases[0].stores[0].operand, 0u);
  const package::Phase& moved = apart->phases[1];
  EXPECT_FALSE(moved.reads_accumulator);
  ASSERT_EQ(moved.insts.size(), 1u);  // the accumulator is not needed
  EXPECT_EQ(moved.insts[0].bits, 0x40000000u);
  ASSERT_EQ(moved.stores.size(), 1u);
  EXPECT_EQ(moved.stores[0].operand, 1u);
  EXPECT_EQ(moved.stores[0].value, 0u);
}

TEST(empty_problem, full_stores_and_accumulators_stay) {
  EXPECT_FALSE(stores_apart(two_outputs(Access::Full, 1)));
  EXPECT_FALSE(stores_apart(two_outputs(Access::Column, 0)));
}

}  // namespace
}  // namespace codetta::runtime

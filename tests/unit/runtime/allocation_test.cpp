// SPDX-License-Identifier: Apache-2.0
// What run() takes from the heap: nothing where all is known in front of it, and nothing more than in earlier runs
// where sizes are known only in it.
#include "unit/runtime/counted_new.hpp"
#include "unit/runtime/step_program.hpp"

namespace codetta::runtime::test {
namespace {

using namespace codetta::package;
using Values = std::vector<double>;

// Of one run, which must not fail.
int64_t allocations_of(Execution& execution) {
  const int64_t before = allocations;
  const auto ran = execution.run();
  const int64_t after = allocations;
  EXPECT_TRUE(ran) << ran.error().render();
  return after - before;
}

TEST(Allocations, NoneWhereAllIsKnownInFront) {
  StepProgram p;
  const uint32_t x = p.argument("x", f32, {2, 3}, {1, 2, 3, 4, 5, 6}),
                 w = p.argument("w", f32, {3, 2}, {1, 0, 0, 1, 1, 1}), y = p.output("y", f32, {2, 2});
  p.put(DefineKernel{0}, p.product(x, w, y, constant(2), constant(2), constant(3)), Return{});
  auto execution = p.prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  EXPECT_EQ(allocations_of(*execution), 0);
  EXPECT_EQ(allocations_of(*execution), 0);
  EXPECT_EQ(p.values(y), (Values{4, 5, 10, 11}));
}

// The first `count` columns of x, copied by a kernel, times as many rows of w; `count` is an element of a tensor.
struct LateSizes : StepProgram {
  uint32_t x = 0, w = 0, y = 0, count = 0;
  LateSizes() {
    x = argument("x", f32, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
    w = argument("w", f32, {4, 2}, {1, 0, 0, 1, 1, 1, 2, 3});
    y = output("y", f32, {2, 2});
    count = argument("count", i64, {}, {3});
    const Dim u = Dim::symbol("u");
    const uint32_t columns = temporary("columns", f32, {constant(2), u}),
                   rows = temporary("rows", f32, {u, constant(2)}), copy = temporary("copy", f32, {constant(2), u});
    package.buffers[columns].strides = {constant(4), constant(1)};
    put(DefineSymbol{"u", count, 0, DefineSymbol::From::Value}, Reinterpret{x, columns}, Reinterpret{w, rows},
        Allocate{copy}, DefineKernel{0});
    put(copy_kernel(columns, copy, constant(2), u));
    put(DefineKernel{1});
    put(product(copy, rows, y, constant(2), constant(2), u));
    put(Free{copy}, Return{});
  }
};

TEST(Allocations, LateSizesTakeOnlyWhatNoRunHadBefore) {
  LateSizes p;
  auto execution = p.prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  EXPECT_GT(allocations_of(*execution), 0);
  EXPECT_EQ(p.values(p.y), (Values{4, 5, 12, 13}));
  p.set(p.count, {4});
  allocations_of(*execution);
  EXPECT_EQ(p.values(p.y), (Values{12, 17, 28, 37}));
  // The same sizes, smaller ones, and all of them again.
  EXPECT_EQ(allocations_of(*execution), 0);
  const Values wanted[] = {{1, 0, 5, 0}, {1, 2, 5, 6}, {4, 5, 12, 13}, {12, 17, 28, 37}};
  for (int round = 0; round < 2; ++round) {
    for (const int size : {1, 2, 3, 4}) {
      p.set(p.count, {static_cast<double>(size)});
      EXPECT_EQ(allocations_of(*execution), 0) << size << " columns";
      EXPECT_EQ(p.values(p.y), wanted[size - 1]) << size << " columns";
    }
  }
}

// A run that fails leaves nothing that a later one takes for its own.
TEST(Allocations, SizesThatDoNotFitAreRefusedInBetween) {
  LateSizes p;
  auto execution = p.prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  for (const int size : {3, 5, 3, -1, 2}) {
    p.set(p.count, {static_cast<double>(size)});
    EXPECT_EQ(execution->run().has_value(), size >= 0 && size <= 4) << size << " columns";
  }
  EXPECT_EQ(p.values(p.y), (Values{1, 2, 5, 6}));
}

}  // namespace
}  // namespace codetta::runtime::test

// SPDX-License-Identifier: Apache-2.0
// Every kind of host step run in this process, against values worked out by hand or by plain loops, and every way in
// which a step can fail.
#include <atomic>
#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "runtime/execution_state.hpp"
#include "step_program.hpp"

namespace codetta::runtime::test {
namespace {

using namespace package;
using Values = std::vector<double>;
using From = DefineSymbol::From;
using Form = CallExtern::Form;

TEST(HostSteps, FillCopyAndMemoryOfTheirOwn) {
  StepProgram p;
  const uint32_t x = p.argument("x", f32, {2, 3}, {1, 2, 3, 4, 5, 6}), y = p.output("y", f32, {2, 3}),
                 z = p.output("z", f32, {2, 3});
  const uint32_t a = p.temporary("a", f32, {constant(2), constant(3)}),
                 b = p.temporary("b", f32, {constant(2), constant(3)});
  p.package.buffers[b].alignment = 512;
  p.put(Comment{"copies"}, EnterSubgraph{"f", {}}, Allocate{a}, Fill{a, ZeroMode::PerCall, 0x40000000}, Copy{a, z},
        Allocate{b}, Fill{b, ZeroMode::None, 0}, Copy{x, b}, Copy{b, y}, Free{b}, Free{a}, ExitSubgraph{}, Return{});
  auto execution = p.prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  for (int i = 0; i < 2; ++i) {
    p.set(y, Values(6, -1));
    p.set(z, Values(6, -1));
    ASSERT_TRUE(execution->run());
    EXPECT_EQ(p.values(y), (Values{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(p.values(z), Values(6, 2));
  }
  // The same in memory of the caller's, wherever in a page it begins.
  std::vector<std::byte> memory(static_cast<size_t>(execution->workspace_size()) + 1024);
  const auto over = reinterpret_cast<uintptr_t>(memory.data()) % 64;
  for (const size_t begin : {64 - over, 128 - over, 512 - over}) {
    ASSERT_TRUE(execution->set_workspace(memory.data() + begin, execution->workspace_size()));
    p.set(y, Values(6, -1));
    ASSERT_TRUE(execution->run());
    EXPECT_EQ(p.values(y), (Values{1, 2, 3, 4, 5, 6}));
  }
}

TEST(HostSteps, ViewsHaveStridesAndOffsets) {
  StepProgram p;
  const uint32_t x = p.argument("x", i32, {3, 4}, {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23});
  const uint32_t y = p.output("y", i32, {4, 3}), z = p.output("z", i32, {2});
  const uint32_t transposed = p.temporary("transposed", i32, {constant(4), constant(3)}),
                 column = p.temporary("column", i32, {constant(2)}),
                 copy = p.temporary("copy", i32, {constant(3), constant(4)});
  p.package.buffers[transposed].strides = {constant(1), constant(4)};
  p.package.buffers[column].strides = {constant(4)};
  p.package.buffers[column].offset = constant(5 * 4);
  p.put(Reinterpret{x, transposed}, Copy{transposed, y}, Allocate{copy}, Copy{x, copy}, Reinterpret{copy, column},
        Copy{column, z}, Free{copy});
  ASSERT_EQ(p.outcome(), "ran");
  EXPECT_EQ(p.values(y), (Values{0, 10, 20, 1, 11, 21, 2, 12, 22, 3, 13, 23}));
  EXPECT_EQ(p.values(z), (Values{11, 21}));
  p.package.buffers[column].offset = constant(9 * 4);
  EXPECT_EQ(p.outcome(), "E0610 column does not fit into copy: it takes 20 bytes from byte 36 on, and copy has 48");
  p.package.buffers[column].offset = constant(2);
  EXPECT_EQ(p.outcome().substr(0, 5), "E0605");
  p.package.buffers[column].offset = constant(0);
  p.package.buffers[column].strides = {constant(INT64_MAX / 2)};
  EXPECT_EQ(p.outcome().substr(0, 5), "E0603");
}

TEST(HostSteps, MemoryIsReused) {
  StepProgram p;
  const uint32_t x = p.argument("x", f32, {8}, {1, 2, 3, 4, 5, 6, 7, 8}), y = p.output("y", f32, {8}),
                 z = p.output("z", f32, {4}), w = p.output("w", f32, {8});
  p.package.buffers[x].donated = true;
  const uint32_t a = p.temporary("a", f32, {constant(8)}), b = p.temporary("b", f32, {constant(4)}),
                 c = p.temporary("c", f32, {constant(8)}), late = p.temporary("late", f32, {constant(8)});
  p.put(Allocate{a}, Copy{x, a}, Reuse{a, b}, Copy{b, z}, Reuse{x, c}, Copy{c, y}, Allocate{late},
        Fill{late, ZeroMode::PerCall, 0x3F800000}, Copy{c, w}, Free{late}, Free{b});
  auto execution = p.prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  ASSERT_TRUE(execution->run());
  EXPECT_EQ(p.values(y), (Values{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(p.values(w), p.values(y));
  EXPECT_EQ(p.values(z), (Values{1, 2, 3, 4}));
  EXPECT_EQ(execution->workspace_size(), 128);  // b keeps the place of a
  p.package.buffers[c].shape = {constant(9)};
  EXPECT_EQ(p.outcome(), "E0610 c does not fit into x: it takes 36 bytes from byte 0 on, and x has 32");
  p.package.buffers[c].shape = {constant(8)};
  p.bindings.tensors[x] = TensorView::make(p.bindings.tensors[x].data(), f32, {8}, {-1}).value();
  EXPECT_EQ(p.outcome(), "E0610 donated x can not be reused: it lies in pieces: its strides are [-1]");
}

TEST(HostSteps, Pools) {
  StepProgram p;
  const uint32_t x = p.argument("x", f64, {3}, {1, 2, 3}), y = p.output("y", f64, {3});
  const Dim n = Dim::symbol("n");
  const uint32_t a = p.temporary("a", f64, {n}), b = p.temporary("b", f64, {n});
  p.package.pools = {{0, n * constant(8), 64}, {0, n * constant(16) + constant(4096), 4096}};
  p.package.buffers[b].alignment = 1024;
  p.put(DefineSymbol{"n", x, 0}, AllocateFromPool{a, 0, {}}, AllocateFromPool{b, 1, constant(1024)}, Copy{x, a},
        Copy{a, b}, Copy{b, y}, Free{a}, Free{b});
  ASSERT_EQ(p.outcome(), "ran");
  EXPECT_EQ(p.values(y), (Values{1, 2, 3}));
  std::get<AllocateFromPool>(p.package.steps[1]).offset = n;
  EXPECT_EQ(p.outcome(), "E0520 package is damaged: temporary a ends at byte 27 of pool 0, which has 24");
  p.allocator.limit = 1000;
  std::get<AllocateFromPool>(p.package.steps[1]).offset = {};
  EXPECT_EQ(p.outcome().substr(0, 5), "E0606");
  EXPECT_EQ(p.allocator.live, 0u);
}

TEST(HostSteps, Constants) {
  StepProgram p;
  const uint32_t y = p.output("y", f32, {2}), z = p.output("z", f32, {2});
  package::Buffer inside{"inside", Role::Constant, f32, false, {constant(2)}, std::string("\0\0\x80?\0\0\0@", 8)};
  package::Buffer outside{"outside", Role::Constant, f32, false, {constant(2)}, {}};
  outside.external = "layer.weight";
  const auto i = static_cast<uint32_t>(p.package.buffers.size());
  p.package.buffers.push_back(inside);
  p.package.buffers.push_back(outside);
  p.put(LoadConstant{i}, LoadConstant{i + 1}, Copy{i, y}, Copy{i + 1, z});
  EXPECT_EQ(p.outcome(),
            "E0615 constant layer.weight is not provided: the program takes f32[2] of that name from outside");
  static const float weights[2] = {7, 9};
  p.options.weights = [](const std::string& name) -> std::optional<TensorView> {
    if (name != "layer.weight") return std::nullopt;
    return TensorView::make(static_cast<const void*>(weights), f32, {2}).value();
  };
  ASSERT_EQ(p.outcome(), "ran");
  EXPECT_EQ(p.values(y), (Values{1, 2}));
  EXPECT_EQ(p.values(z), (Values{7, 9}));
  p.package.buffers[i + 1].shape = {constant(3)};
  EXPECT_EQ(p.outcome().substr(0, 5), "E0610");
}

TEST(HostSteps, FilledOnce) {
  StepProgram p;
  const uint32_t y = p.output("y", i32, {1});
  const uint32_t counter = p.temporary("counter", i32, {constant(1)}), one = p.temporary("one", i32, {constant(1)}),
                 zero = p.temporary("zero", i64, {constant(1)});
  p.put(Allocate{counter}, Fill{counter, ZeroMode::Once, 5}, Allocate{one}, Fill{one, ZeroMode::PerCall, 1},
        Allocate{zero}, Fill{zero}, IndexPut{counter, {zero}, one, true}, Copy{counter, y}, Free{one}, Free{zero},
        Free{counter});
  auto execution = p.prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(execution->run());
  EXPECT_EQ(p.values(y), (Values{8}));  // what a run leaves is what the next one finds
  Tensor memory = Tensor::make(u8, {execution->workspace_size()}).value();
  ASSERT_TRUE(execution->set_workspace(memory.data(), execution->workspace_size()));
  ASSERT_TRUE(execution->run());
  EXPECT_EQ(p.values(y), (Values{6}));
}

TEST(HostSteps, SymbolsOfEveryOrigin) {
  StepProgram p;
  const uint32_t x = p.bound("x", Role::Argument, f32, {Dim::symbol("rows"), constant(4)}, {6, 4});
  const uint32_t count = p.scalar("count", i64, 12), held = p.argument("held", i32, {1}, {9});
  const auto equals = [](const char* symbol, int64_t value) {
    return StepProgram::check(EqualGuard{Dim::symbol(symbol), constant(value), "as bound"});
  };
  p.put(DefineSymbol{"rows", x, 0}, DefineSymbol{"half", x, 0, From::Size, 0, {}, constant(2)}, equals("half", 3),
        DefineSymbol{"stride", x, 0, From::Stride}, equals("stride", 4), DefineSymbol{"c", count, 0, From::Value},
        equals("c", 12), DefineSymbol{"h", held, 0, From::Value}, equals("h", 9),
        DefineSymbol{"e", 0, 0, From::Expression, 0, Dim::symbol("h") * Dim::symbol("rows"), Dim::symbol("half")},
        equals("e", 18), DefineSymbol{"h", held, 0, From::Value});
  EXPECT_EQ(p.outcome(), "ran");
  p.set(held, {10});
  EXPECT_EQ(p.outcome(), "E0610 h must equal 9: they are 10 and 9; as bound");
  p.set(held, {-1});
  EXPECT_EQ(p.outcome(), "E0610 h is negative: it is -1: held is -1");
  p.bindings.tensors[x] = TensorView::make(p.bindings.tensors[x].data(), f32, {5, 4}).value();
  EXPECT_EQ(p.outcome(), "E0610 half is no whole number: dim 0 of x is f32[5, 4], and is divided by 2 (2)");
  p.bindings.tensors[x] = TensorView::make(p.bindings.tensors[x].data(), f32, {0, 4}).value();
  EXPECT_EQ(p.outcome(), "E0610 half must equal 3: they are 0 and 3; as bound");
  p.package.steps.erase(p.package.steps.begin() + 2);
  p.set(held, {9});
  EXPECT_EQ(p.outcome(), "E0610 e is no whole number: h*rows is 0, and is divided by half (0)");
}

TEST(HostSteps, GuardsOfEveryKind) {
  StepProgram p;
  const uint32_t x = p.bound("x", Role::Argument, f32, {Dim::symbol("m"), Dim::symbol("n")}, {4, 6}),
                 index = p.argument("index", i32, {2, 2}, {0, 2, 3, 1}), empty = p.argument("empty", f32, {0, 3});
  p.put(DefineSymbol{"m", x, 0}, DefineSymbol{"n", x, 1});
  const auto checked = [&](auto guard) {
    p.package.steps.emplace_back(StepProgram::check(guard));
    const std::string outcome = p.outcome();
    p.options.checked = false;
    EXPECT_EQ(p.outcome(), "ran");
    p.options.checked = true;
    p.package.steps.pop_back();
    return outcome;
  };
  const Dim m = Dim::symbol("m"), n = Dim::symbol("n");
  EXPECT_EQ(checked(SizeGuard{x, 1, m + constant(2)}), "ran");
  EXPECT_EQ(checked(SizeGuard{x, 1, m}), "E0610 x has the wrong size: dim 1 is 6, and m (4) is wanted");
  EXPECT_EQ(checked(StrideGuard{x, 0, n}), "ran");
  EXPECT_EQ(checked(StrideGuard{x, 0, m}), "E0610 x has the wrong stride: dim 0 has stride 6, and m (4) is wanted");
  EXPECT_EQ(checked(StrideGuard{empty, 0, constant(77)}), "ran");
  EXPECT_EQ(checked(AlignmentGuard{x, 8}), "ran");
  EXPECT_EQ(checked(AlignmentGuard{x, 16}),
            "E0610 x is not aligned to 16 bytes: dim 0 has a stride of 6 elements of 4 bytes");
  const TensorView whole = p.bindings.tensors[x];
  p.bindings.tensors[x] = TensorView::make(whole.as<float>() + 1, f32, {4, 4}, {4, 1}).value();
  EXPECT_EQ(checked(AlignmentGuard{x, 16}), "E0610 x is not aligned to 16 bytes: its address is 4 modulo 16");
  p.bindings.tensors[x] = whole;
  EXPECT_EQ(checked(DivisibleGuard{n, constant(3), "threes"}), "ran");
  EXPECT_EQ(checked(DivisibleGuard{m, constant(3), "threes"}),
            "E0610 m must be a multiple of 3: they are 4 and 3; threes");
  EXPECT_EQ(checked(DivisibleGuard{m, m - constant(4), ""}), "E0610 m must be a multiple of m - 4: they are 4 and 0");
  EXPECT_EQ(checked(RangeGuard{n, m, constant(6), "fits"}), "ran");
  EXPECT_EQ(checked(RangeGuard{n, constant(0), m, "fits"}),
            "E0610 n must be 0 to m: it is 6, and 0 to 4 is wanted; fits");
  EXPECT_EQ(checked(RangeGuard{n - constant(9), constant(0), constant(INT64_MAX), ""}),
            "E0610 n - 9 must be at least 0: it is -3, and 0 or more is wanted");
  EXPECT_EQ(checked(IndexGuard{index, m}), "ran");
  EXPECT_EQ(checked(IndexGuard{index, m - constant(1)}),
            "E0618 index 3 is out of range for the size 3: it stands at [1, 0] of index");
  p.set(x, Values(24, 1));
  EXPECT_EQ(checked(NanGuard{x, true, ""}), "ran");
  whole.as<float>()[9] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(checked(NanGuard{x, false, ""}), "ran");
  EXPECT_EQ(checked(NanGuard{x, true, "exp"}),
            "E0619 x holds an infinity: x is inf at [1, 3]; made by exp, seen by step 2 (check)");
  whole.as<float>()[4] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(checked(NanGuard{x, false, ""}), "E0619 x holds NaN: x is nan at [0, 4]; made by step 2 (check)");
}

TEST(HostSteps, IndexPut) {
  StepProgram p;
  const uint32_t rows = p.argument("rows", i64, {3}, {2, 0, 2}), cols = p.argument("cols", u8, {3}, {1, 0, 1}),
                 values = p.argument("values", f16, {3, 2}, {1, 2, 3, 4, 5, 6}),
                 points = p.argument("points", f16, {3}, {7, 8, 9}), y = p.output("y", f16, {3, 2}),
                 z = p.output("z", f16, {3, 2});
  p.put(Fill{y}, IndexPut{y, {rows}, values, false}, Fill{z}, IndexPut{z, {rows, cols}, points, true},
        IndexPut{z, {rows, cols}, points, true});
  ASSERT_EQ(p.outcome(), "ran");
  EXPECT_EQ(p.values(y), (Values{3, 4, 0, 0, 5, 6}));  // of equal rows the last one wins
  EXPECT_EQ(p.values(z), (Values{16, 0, 0, 0, 0, 32}));
  p.set(rows, {2, 3, 0});
  EXPECT_EQ(p.outcome(), "E0618 index 3 is out of range for the size 3: it stands at [1] of rows");
  p.set(rows, {2, -1, 0});
  EXPECT_EQ(p.outcome(), "E0618 index -1 is out of range for the size 3: it stands at [1] of rows");
  p.set(rows, {2, -1, 5});  // where runs are not checked: the nearest that is in range
  p.options.checked = false;
  ASSERT_EQ(p.outcome(), "ran");
  p.options.checked = true;
  EXPECT_EQ(p.values(y), (Values{3, 4, 0, 0, 5, 6}));
  p.set(rows, {0, 1, 2});
  p.package.buffers[cols].shape = {constant(2)};
  p.bindings.tensors[cols] = TensorView::make(p.bindings.tensors[cols].data(), u8, {2}).value();
  EXPECT_EQ(p.outcome(), "E0610 cols has the wrong shape: it is u8[2]; rows is i64[3]");
}

// 1 + 64 * 2^-9 rounds to 1 in every single step.
TEST(HostSteps, NarrowSumsAreRoundedOnce) {
  StepProgram p;
  const uint32_t zeros = p.argument("zeros", i64, {64}, Values(64, 0)),
                 parts = p.argument("parts", bf16, {64}, Values(64, 0x1p-9)), y = p.output("y", bf16, {2}),
                 z = p.output("z", bf16, {2});
  p.put(Fill{y, ZeroMode::PerCall, 0x3F80}, IndexPut{y, {zeros}, parts, true}, Fill{z, ZeroMode::PerCall, 0x3F80},
        Scatter{z, zeros, parts, 0, ScatterReduce::Sum});
  ASSERT_EQ(p.outcome(), "ran");
  EXPECT_EQ(p.values(y), (Values{1.125, 1}));
  EXPECT_EQ(p.values(z), (Values{1.125, 1}));
}

TEST(HostSteps, ScatterOfEveryKind) {
  const auto scattered = [](DType dtype, ScatterReduce how, const Values& start) {
    StepProgram p;
    const uint32_t index = p.argument("index", i32, {2, 3}, {0, 1, 0, 3, 0, 0}),
                   source = p.argument("source", dtype, {2, 4}, {3, 5, 2, 0, 7, 1, 4, 0}),
                   first = p.argument("first", dtype, {2, 4}, start), y = p.output("y", dtype, {2, 4});
    p.put(Copy{first, y}, Scatter{y, index, source, 1, how});
    EXPECT_EQ(p.outcome(), "ran");
    return p.values(y);
  };
  const Values start{1, 2, 3, 4, 5, 6, 0, 8};
  for (const DType dtype : {f32, f64, bf16, i8, i64, u8}) {
    EXPECT_EQ(scattered(dtype, ScatterReduce::None, start), (Values{2, 5, 3, 4, 4, 6, 0, 7}));
    EXPECT_EQ(scattered(dtype, ScatterReduce::Sum, start), (Values{6, 7, 3, 4, 10, 6, 0, 15}));
    EXPECT_EQ(scattered(dtype, ScatterReduce::Product, start), (Values{6, 10, 3, 4, 20, 6, 0, 56}));
    EXPECT_EQ(scattered(dtype, ScatterReduce::Min, start), (Values{1, 2, 3, 4, 1, 6, 0, 7}));
    EXPECT_EQ(scattered(dtype, ScatterReduce::Max, start), (Values{3, 5, 3, 4, 5, 6, 0, 8}));
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Values with_nan = scattered(f32, ScatterReduce::Max, {nan, 2, 3, 4, 5, 6, 0, 8});
  EXPECT_TRUE(std::isnan(with_nan[0]));
  StepProgram p;  // along the first dim, and what does not fit
  const uint32_t index = p.argument("index", i64, {1, 2}, {1, 0}), source = p.argument("source", f32, {1, 2}, {8, 9}),
                 y = p.output("y", f32, {2, 2});
  p.put(Fill{y}, Scatter{y, index, source, 0, ScatterReduce::None});
  ASSERT_EQ(p.outcome(), "ran");
  EXPECT_EQ(p.values(y), (Values{0, 9, 8, 0}));
  p.set(index, {0, 2});
  EXPECT_EQ(p.outcome(), "E0618 index 2 is out of range for the size 2: it stands at [0, 1] of index");
  const uint32_t wide = p.argument("wide", i64, {1, 3}, {0, 0, 0});
  std::get<Scatter>(p.package.steps[1]).index = wide;
  EXPECT_EQ(
      p.outcome(),
      "E0610 wide has the wrong shape: it is i64[1, 3]; it has to lie in f32[1, 2] and, but for dim 0, in f32[2, 2]");
}

// ---- externs

int doubled(void* context, const CodettaTensor* in, int inputs, CodettaTensor* out, int outputs) {
  if (inputs != 2 || outputs != 1 || in[1].rank != 0) return 40;
  const auto factor = *static_cast<const double*>(in[1].data);
  for (int64_t i = 0; i < in[0].shape[0]; ++i)
    static_cast<float*>(out[0].data)[i * out[0].strides[0]] =
        static_cast<float>(factor) * static_cast<const float*>(in[0].data)[i * in[0].strides[0]];
  return context != nullptr ? *static_cast<int*>(context) : 0;
}

struct Nonzero {
  std::atomic<int> live{0};
  int code = 0;
};
// Two results: the positions (i64) of what is not 0, and those values (f32).
int nonzero(void* context, const CodettaTensor* in, int, CodettaTensor* out, int outputs) {
  auto& state = *static_cast<Nonzero*>(context);
  if (outputs != 2) return 41;
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < in[0].shape[0]; ++i) {
    if (static_cast<const float*>(in[0].data)[i * in[0].strides[0]] != 0) positions.push_back(i);
  }
  const auto count = positions.size();
  auto* first = new int64_t[count + 1];
  auto* second = new float[count + 1];
  for (size_t i = 0; i < count; ++i) {
    first[i] = positions[i];
    second[i] = static_cast<const float*>(in[0].data)[positions[i] * in[0].strides[0]];
  }
  for (int i = 0; i < 2; ++i) {
    out[i].rank = 1;
    out[i].shape[0] = static_cast<int64_t>(count);
    out[i].strides[0] = 1;
    out[i].owner = &state;
  }
  out[0].data = first;
  out[0].dtype = static_cast<int32_t>(i64);
  out[0].release = [](CodettaTensor* t) {
    delete[] static_cast<int64_t*>(t->data);
    --static_cast<Nonzero*>(t->owner)->live;
  };
  out[1].data = second;
  out[1].dtype = static_cast<int32_t>(f32);
  out[1].release = [](CodettaTensor* t) {
    delete[] static_cast<float*>(t->data);
    --static_cast<Nonzero*>(t->owner)->live;
  };
  state.live += 2;
  return state.code;
}

TEST(HostSteps, ExternsThatWrite) {
  StepProgram p;
  const uint32_t x = p.argument("x", f32, {4}, {1, 2, 3, 4}), factor = p.scalar("factor", f64, 0),
                 y = p.output("y", f32, {2});
  p.bindings.scalars[factor].d = 2.5;
  const uint32_t every = p.temporary("every", f32, {constant(2)});
  p.package.buffers[every].strides = {constant(2)};
  p.put(Reinterpret{x, every}, CallExtern{"doubled", {every, factor}, Form::Out, {y}});
  EXPECT_EQ(p.outcome(),
            "E0616 external function doubled is not provided: step 1 (call_extern) calls it; provided are: none");
  p.provide("other", doubled);
  EXPECT_EQ(p.outcome(),
            "E0616 external function doubled is not provided: step 1 (call_extern) calls it; provided are: other");
  p.provide("doubled", doubled);
  ASSERT_EQ(p.outcome(), "ran");
  EXPECT_EQ(p.values(y), (Values{2.5, 7.5}));
  int code = -7;
  p.options.externs.back().context = &code;
  EXPECT_EQ(p.outcome(), "E0617 external function doubled failed: step 1 (call_extern): it returned -7");
}

// y[n] = 0 but for the chosen elements, doubled: late symbols, pools, launches and externs.
struct LateProgram : StepProgram {
  Nonzero state;
  uint32_t x = 0, y = 0, m = 0;
  explicit LateProgram(std::vector<double> values) {
    const auto n = static_cast<int64_t>(values.size());
    x = argument("x", f32, {n}, values);
    y = output("y", f32, {n});
    m = output("m", f32, {1, 1});
    const Dim u = Dim::symbol("u");
    const uint32_t index = temporary("index", i64, {u}), chosen = temporary("chosen", f32, {u}),
                   twice = temporary("twice", f32, {u}), row = temporary("row", f32, {constant(1), u}),
                   column = temporary("column", f32, {u, constant(1)}), heir = temporary("heir", f32, {u}),
                   own = temporary("own", f32, {u});
    const uint32_t factor = scalar("factor", f64, 0);
    bindings.scalars[factor].d = 2;
    package.result_count = 1;
    package.pools = {{0, u * constant(4), 64}};
    put(Fill{y}, CallExtern{"nonzero", {x}, Form::Alloc, {}, 0, 2}, DefineSymbol{"u", 0, 0, From::OutputSize, 0},
        DefineSymbol{"step", 0, 0, From::OutputStride, 1}, check(EqualGuard{Dim::symbol("step"), constant(1), "dense"}),
        SelectOutput{0, 0, index}, SelectOutput{0, 1, chosen}, check(IndexGuard{index, constant(n)}),
        AllocateFromPool{twice, 0, {}}, CallExtern{"doubled", {chosen, factor}, Form::Out, {twice}}, Free{chosen},
        IndexPut{y, {index}, twice, false}, Free{index}, Reuse{twice, heir}, Allocate{own}, Copy{heir, own},
        Reinterpret{own, row}, Reinterpret{heir, column}, DefineKernel{0});
    put(product(row, column, m, constant(1), constant(1), u));
    put(Free{own}, Free{heir}, Return{});
    provide("nonzero", nonzero, &state);
    provide("doubled", doubled);
  }
};

TEST(HostSteps, SizesThatOnlyARunKnows) {
  LateProgram p({0, 3, 0, 1, 0, 0, 2, 0});
  auto execution = p.prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  ASSERT_TRUE(execution->run());
  EXPECT_EQ(p.values(p.y), (Values{0, 6, 0, 2, 0, 0, 4, 0}));
  EXPECT_EQ(p.values(p.m), (Values{36 + 4 + 16}));
  EXPECT_EQ(p.state.live, 0);
  // More, none, and the same number again: memory grows, and is kept.
  p.set(p.x, {1, 2, 3, 4, 5, 6, 7, 8});
  ASSERT_TRUE(execution->run());
  EXPECT_EQ(p.values(p.y), (Values{2, 4, 6, 8, 10, 12, 14, 16}));
  EXPECT_EQ(p.values(p.m), (Values{4 * 204}));
  p.set(p.x, Values(8, 0));
  ASSERT_TRUE(execution->run());
  EXPECT_EQ(p.values(p.y), Values(8, 0));
  EXPECT_EQ(p.values(p.m), (Values{0}));
  const int calls = p.allocator.calls;
  p.set(p.x, {8, 0, 6, 5, 4, 3, 2, 1});
  ASSERT_TRUE(execution->run());
  EXPECT_EQ(p.values(p.y), (Values{16, 0, 12, 10, 8, 6, 4, 2}));
  EXPECT_EQ(p.allocator.calls, calls);
  EXPECT_EQ(p.state.live, 0);
}

TEST(HostSteps, FailuresOfARunLeaveNothingBehind) {
  LateProgram p({0, 3, 0, 1});
  p.allocator.limit = 1 << 10;
  auto execution = p.prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  p.state.code = 3;
  auto ran = execution->run();
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().diagnostics()[0].reason, "step 1 (call_extern): it returned 3");
  EXPECT_EQ(p.state.live, 0);  // also what a failing function made
  p.state.code = 0;
  p.allocator.limit = 4;
  ran = execution->run();
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code(), 606);
  EXPECT_EQ(p.state.live, 0);
  p.allocator.limit = SIZE_MAX;
  ASSERT_TRUE(execution->run());
  EXPECT_EQ(p.values(p.y), (Values{0, 6, 0, 2}));
}

TEST(HostSteps, ResultsThatAreNotWhatIsDeclared) {
  LateProgram p({0, 3, 0, 1});
  const auto select = [&](uint32_t buffer, DType dtype, std::vector<Dim> shape) {
    p.package.buffers[buffer].dtype = dtype;
    p.package.buffers[buffer].shape = std::move(shape);
    p.package.steps.resize(7);
    return p.outcome();
  };
  const uint32_t chosen = 4;
  ASSERT_EQ(p.package.buffers[chosen].name, "chosen");
  EXPECT_EQ(
      select(chosen, f64, {Dim::symbol("u")}),
      "E0610 output 1 of nonzero is not what the program declares: it has 1 dims of f32, and chosen has 1 of f64");
  EXPECT_EQ(
      select(chosen, f32, {constant(3)}),
      "E0610 output 1 of nonzero is not what the program declares: it is f32[2]; the kernel takes 3 in dim 0 from "
      "the last");
  std::get<DefineSymbol>(p.package.steps[2]).dim = 1;
  EXPECT_EQ(p.outcome(), "E0610 output 0 of nonzero has no dim 1: it has 1 dims");
  EXPECT_EQ(p.state.live, 0);
}

// ---- control flow

TEST(HostSteps, Branches) {
  StepProgram p;
  const uint32_t flag = p.argument("flag", boolean, {1}, {1}),
                 x = p.bound("x", Role::Argument, f32, {Dim::symbol("n"), Dim::symbol("n")}, {2, 2}, {1, 2, 3, 4}),
                 y = p.output("y", f32, {2, 2});
  const Dim n = Dim::symbol("n");
  const uint32_t t = p.temporary("t", f32, {n, n});
  const auto square = p.product(x, x, y, n, n, n);
  const uint32_t then = p.list({Allocate{t}, Copy{x, t}, square, Free{t}});
  const uint32_t other = p.list({Copy{x, y}});
  p.put(DefineSymbol{"n", x, 0}, If{flag, then, other});
  auto execution = p.prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  ASSERT_TRUE(execution->run());
  EXPECT_EQ(p.values(y), (Values{7, 10, 15, 22}));
  p.set(flag, {0});
  ASSERT_TRUE(execution->run());
  EXPECT_EQ(p.values(y), (Values{1, 2, 3, 4}));
  // What does not fit in a list that is not taken does not matter.
  p.package.step_lists[then].push_back(StepProgram::check(EqualGuard{n, constant(3), "threes"}));
  auto& launch = std::get<LaunchKernel>(p.package.step_lists[then][2]);
  launch.product->k = constant(7);
  ASSERT_EQ(p.outcome(), "ran");
  p.set(flag, {1});
  EXPECT_EQ(p.outcome().substr(0, 29), "E0610 x does not fit the kern");
  launch.product->k = n;
  EXPECT_EQ(p.outcome(), "E0610 n must equal 3: they are 2 and 3; threes");
  // By a scalar.
  StepProgram q;
  const uint32_t yes = q.scalar("yes", boolean, 0), out = q.output("out", i32, {1});
  q.put(If{yes, q.list({Fill{out, ZeroMode::PerCall, 1}}), q.list({Fill{out, ZeroMode::PerCall, 2}})});
  ASSERT_EQ(q.outcome(), "ran");
  EXPECT_EQ(q.values(out), (Values{2}));
  q.bindings.scalars[yes].i = 1;
  ASSERT_EQ(q.outcome(), "ran");
  EXPECT_EQ(q.values(out), (Values{1}));
}

// in[0] > limit -> flag
int above_one(void*, const CodettaTensor* in, int, CodettaTensor* out, int) {
  *static_cast<bool*>(out[0].data) = *static_cast<const int64_t*>(in[0].data) > 1;
  return 0;
}
int collatz(void*, const CodettaTensor* in, int, CodettaTensor* out, int) {
  const int64_t v = *static_cast<const int64_t*>(in[0].data);
  *static_cast<int64_t*>(out[0].data) = v % 2 == 0 ? v / 2 : 3 * v + 1;
  return 0;
}

TEST(HostSteps, Loops) {
  StepProgram p;
  const uint32_t start = p.argument("start", i64, {1}, {6}), steps = p.output("steps", i64, {1}),
                 last = p.output("last", i64, {1}), sum = p.output("sum", f32, {1});
  const uint32_t value = p.temporary("value", i64, {constant(1)}), next = p.temporary("next", i64, {constant(1)}),
                 flag = p.temporary("flag", boolean, {constant(1)}), one = p.temporary("one", i64, {constant(1)}),
                 zero = p.temporary("zero", i64, {constant(1)}), ones = p.temporary("ones", f32, {Dim::symbol("v")}),
                 zeros = p.temporary("zeros", i64, {Dim::symbol("v")});
  const uint32_t condition = p.list({CallExtern{"above_one", {value}, Form::Out, {flag}}});
  // Adds v ones, where v is the value of this pass: the symbol is new in each.
  const uint32_t body =
      p.list({DefineSymbol{"v", value, 0, From::Value}, Allocate{ones}, Fill{ones, ZeroMode::PerCall, 0x3F800000},
              Allocate{zeros}, Fill{zeros}, IndexPut{sum, {zeros}, ones, true}, Free{ones}, Free{zeros}, Allocate{next},
              CallExtern{"collatz", {value}, Form::Out, {next}}, Copy{next, value}, Free{next},
              IndexPut{steps, {zero}, one, true}});
  p.put(Allocate{value}, Allocate{flag}, Allocate{one}, Allocate{zero}, Fill{one, ZeroMode::PerCall, 1}, Fill{zero},
        Fill{steps}, Fill{sum}, Copy{start, value}, While{condition, flag, body, 0}, Copy{value, last}, Free{value},
        Free{flag}, Free{one}, Free{zero}, Return{});
  p.provide("above_one", above_one);
  p.provide("collatz", collatz);
  auto execution = p.prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  for (const auto& [first, passes, total] :
       std::vector<std::array<double, 3>>{{6, 8, 6 + 3 + 10 + 5 + 16 + 8 + 4 + 2}, {1, 0, 0}, {4, 2, 6}}) {
    p.set(start, {first});
    ASSERT_TRUE(execution->run());
    EXPECT_EQ(p.values(steps), (Values{passes}));
    EXPECT_EQ(p.values(last), (Values{1}));
    EXPECT_EQ(p.values(sum), (Values{total}));
  }
  std::get<While>(p.package.steps[9]).limit = 8;
  p.set(start, {6});
  EXPECT_EQ(p.outcome(), "ran");
  p.set(start, {7});
  EXPECT_EQ(p.outcome(), "E0651 the loop still runs after 8 iterations: step 9 (while): flag has not become false");
}

TEST(HostSteps, AlternatesOfALoopKeepTheirMemory) {
  // A late buffer handed on in every pass: what it was must live on while its own memory is made anew.
  StepProgram p;
  const uint32_t count = p.argument("count", i64, {1}, {3}), y = p.output("y", f32, {1}),
                 flag = p.temporary("flag", boolean, {constant(1)});
  const Dim n = Dim::symbol("n");
  const uint32_t value = p.temporary("value", i64, {constant(1)}), a = p.temporary("a", f32, {n}),
                 b = p.temporary("b", f32, {n}), head = p.temporary("head", f32, {constant(1)});
  const uint32_t condition = p.list({CallExtern{"above_one", {value}, Form::Out, {flag}}});
  const uint32_t body = p.list({DefineSymbol{"n", value, 0, From::Value}, Allocate{a},
                                Fill{a, ZeroMode::PerCall, 0x40400000}, Reuse{a, b}, Reinterpret{b, head},
                                Copy{head, y}, Free{b}, CallExtern{"collatz", {value}, Form::Out, {value}}});
  p.put(Allocate{value}, Allocate{flag}, Copy{count, value}, While{condition, flag, body, 100}, Free{value},
        Free{flag});
  p.provide("above_one", above_one);
  p.provide("collatz", collatz);
  ASSERT_EQ(p.outcome(), "ran");
  EXPECT_EQ(p.values(y), (Values{3}));
}

TEST(HostSteps, DevicesAndStreamsKeepTheOrder) {
  StepProgram p;
  p.package.device_count = p.package.stream_count = p.package.event_count = 2;
  const uint32_t x = p.argument("x", f32, {2}, {1, 2}), y = p.output("y", f32, {2});
  const uint32_t there = p.temporary("there", f32, {constant(2)});
  p.package.buffers[there].device = 1;
  p.put(EnterStream{1}, EnterDevice{1}, Allocate{there}, Copy{x, there}, ExitDevice{}, RecordEvent{1}, ExitStream{},
        WaitEvent{1}, Copy{there, y}, Free{there});
  ASSERT_EQ(p.outcome(), "ran");
  EXPECT_EQ(p.values(y), (Values{1, 2}));
}

TEST(HostSteps, BoundTensorsFitTheirDeclaration) {
  StepProgram p;
  const uint32_t x = p.argument("x", f32, {2, 3}), y = p.output("y", f32, {2, 3});
  p.put(Copy{x, y});
  p.bindings.tensors[x] = TensorView::make(p.bindings.tensors[x].data(), f32, {3, 2}).value();
  EXPECT_EQ(p.outcome(), "E0610 x does not fit the kernel: it is f32[3, 2]; the kernel takes 3 in dim 0 from the last");
  // Dims of size 1 in front may be missing or more.
  StepProgram q;
  const uint32_t a = q.bound("a", Role::Argument, f32, {constant(1), constant(3)}, {3}, {1, 2, 3}),
                 b = q.bound("b", Role::Output, f32, {constant(1), constant(3)}, {1, 1, 3});
  q.put(Copy{a, b});
  ASSERT_EQ(q.outcome(), "ran");
  EXPECT_EQ(q.values(b), (Values{1, 2, 3}));
}

TEST(HostSteps, DefectsAreRefused) {
  StepProgram p;
  p.put(Free{3});
  EXPECT_EQ(p.outcome(), "E0520 package is damaged: step 0 (free): there is no buffer 3");
}

TEST(HostSteps, OnePackageInEightThreads) {
  LateProgram base({0, 3, 0, 1, 0, 0, 2, 0});
  const auto package = std::make_shared<const Package>(base.package);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const auto pool = make_thread_pool(1);
      std::vector<float> x(8), y(8), m(1);
      Bindings bindings = base.bindings;
      bindings.tensors[base.x] = TensorView::make(static_cast<void*>(x.data()), f32, {8}).value();
      bindings.tensors[base.y] = TensorView::make(static_cast<void*>(y.data()), f32, {8}).value();
      bindings.tensors[base.m] = TensorView::make(static_cast<void*>(m.data()), f32, {1, 1}).value();
      ExecutionOptions options = base.options;
      options.pool = pool.get();
      options.allocator = &default_allocator();
      auto execution = Execution::make(package, {}, bindings, options);
      if (!execution) return;
      for (int round = 0; round < 50; ++round) {
        float square = 0;
        for (int i = 0; i < 8; ++i) {
          x[static_cast<size_t>(i)] = static_cast<float>((i * (t + 1) + round) % 3);
          square += 4 * x[static_cast<size_t>(i)] * x[static_cast<size_t>(i)];
        }
        if (!execution->run()) return;
        for (size_t i = 0; i < 8; ++i) {
          if (y[i] != 2 * x[i]) return;
        }
        if (m[0] != square) return;
      }
      ++right;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 8);
  EXPECT_EQ(base.state.live, 0);
}

TEST(OffsetSpace, NoTwoLiveRangesOverlap) {
  std::mt19937 gen(11);
  for (int round = 0; round < 200; ++round) {
    OffsetSpace space;
    std::map<int64_t, int64_t> live;  // offset -> bytes
    int64_t most = 0, sum = 0;
    for (int i = 0; i < 200; ++i) {
      if (!live.empty() && gen() % 2 == 0) {
        auto at = std::next(live.begin(), static_cast<std::ptrdiff_t>(gen() % live.size()));
        space.give_back(at->first);
        sum -= at->second;
        live.erase(at);
        continue;
      }
      const int64_t bytes = 1 + static_cast<int64_t>(gen() % 5000),
                    alignment = int64_t{64} << (gen() % 4 == 0 ? gen() % 5 : 0);
      const auto offset = space.take(bytes, alignment);
      ASSERT_TRUE(offset);
      ASSERT_EQ(*offset % alignment, 0);
      const auto next = live.lower_bound(*offset);
      ASSERT_TRUE(next == live.end() || *offset + bytes <= next->first);
      ASSERT_TRUE(next == live.begin() || std::prev(next)->first + std::prev(next)->second <= *offset);
      ASSERT_LE(*offset + bytes, space.bytes());
      live[*offset] = bytes;
      sum += bytes;
      most = std::max(most, sum);
    }
    EXPECT_LE(space.bytes(), 4 * most + (1 << 16));
  }
  OffsetSpace space;
  EXPECT_FALSE(space.take(INT64_MAX - 3, 64));
  EXPECT_EQ(space.take(0, 64), 0);
}

}  // namespace
}  // namespace codetta::runtime::test

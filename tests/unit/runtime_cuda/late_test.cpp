// SPDX-License-Identifier: Apache-2.0
// What a run takes from outside and what only a run knows, over the pretended driver, whose memory is that of the test:
// functions of the caller's, weights, donated arguments, sizes in device memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "unit/runtime_cuda/step_fixture.hpp"

namespace codetta::runtime::cuda {
namespace {

using namespace package;
using runtime::test::constant;
using runtime::test::StepProgram;
using From = DefineSymbol::From;

class CudaLate : public OnPretendedDevice {
 protected:
  // "E0610 headline: reason", or "ran".
  static std::string outcome(const Result<void>& result) {
    if (result) return "ran";
    const Diagnostic& d = result.error().diagnostics().front();
    EXPECT_FALSE(d.help.empty());
    return "E0" + std::to_string(d.code) + " " + d.headline + ": " + d.reason;
  }
  std::string run() {
    auto execution = prepare();
    if (!execution) return outcome(execution.error());
    return outcome(execution->run(stream_->get()));
  }
};

// What a function saw, and what it makes.
struct Seen {
  std::vector<CodettaTensor> inputs, outputs;
  double number = 0;
  int code = 0, released = 0, rank = 1, dtype = static_cast<int>(DType::f32);
  std::vector<float> made{5, 6, 7, 8, 9};
  int64_t count = 4;
};
int look(void* context, const CodettaTensor* inputs, int input_count, CodettaTensor* outputs, int output_count) {
  Seen& seen = *static_cast<Seen*>(context);
  seen.inputs.assign(inputs, inputs + input_count);
  seen.outputs.assign(outputs, outputs + output_count);
  if (input_count > 1) std::memcpy(&seen.number, inputs[1].data, sizeof seen.number);
  return seen.code;
}
int make(void* context, const CodettaTensor*, int, CodettaTensor* outputs, int) {
  Seen& seen = *static_cast<Seen*>(context);
  seen.outputs.assign(outputs, outputs + 1);
  outputs[0].data = seen.made.data();
  outputs[0].rank = seen.rank;
  outputs[0].dtype = seen.dtype;
  outputs[0].shape[0] = seen.count;
  outputs[0].strides[0] = 1;
  outputs[0].owner = &seen.released;
  outputs[0].release = [](CodettaTensor* tensor) { ++*static_cast<int*>(tensor->owner); };
  return seen.code;
}

TEST_F(CudaLate, FunctionsGetDeviceMemoryNumbersAndTheStream) {
  Seen seen;
  const uint32_t x = p_.argument("x", DType::f32, {2, 3}), y = p_.output("y", DType::f16, {4});
  const uint32_t number = p_.scalar("number", DType::f64, 0);
  p_.bindings.scalars[number].d = 2.5;
  p_.put(CallExtern{"look", {x, number}, CallExtern::Form::Out, {y}, 0, 0}, Return{});
  EXPECT_EQ(run(), "E0616 external function look is not provided: step 0 (call_extern) calls it; provided are: none");
  p_.provide("look", look, &seen);
  ASSERT_EQ(run(), "ran");
  ASSERT_EQ(seen.inputs.size(), 2U);
  EXPECT_EQ(seen.inputs[0].data, p_.bindings.tensors[x].data());
  EXPECT_EQ(seen.inputs[0].rank, 2);
  EXPECT_EQ(seen.inputs[0].shape[1], 3);
  EXPECT_EQ(seen.inputs[0].owner, stream_->get());
  EXPECT_EQ(seen.number, 2.5);
  EXPECT_EQ(seen.inputs[1].owner, stream_->get());
  EXPECT_EQ(seen.outputs[0].data, p_.bindings.tensors[y].data());
  EXPECT_EQ(seen.outputs[0].dtype, static_cast<int32_t>(DType::f16));
  EXPECT_EQ(seen.outputs[0].owner, stream_->get());
  fake_.capturing.insert(stream_->get());
  EXPECT_EQ(run(), "ran") << "it only enqueues";
  fake_.capturing.clear();
  seen.code = 7;
  EXPECT_EQ(run(), "E0617 external function look failed: it returned 7");
}

TEST_F(CudaLate, WhatFunctionsAllocate) {
  Seen seen;
  const uint32_t y = p_.output("y", DType::f32, {4}), got = p_.temporary("got", DType::f32, {Dim::symbol("n")});
  p_.provide("make", make, &seen);
  p_.package.result_count = 1;
  p_.put(CallExtern{"make", {}, CallExtern::Form::Alloc, {}, 0, 1}, DefineSymbol{"n", 0, 0, From::OutputSize},
         SelectOutput{0, 0, got}, Copy{got, y}, Free{got}, Return{});
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  EXPECT_TRUE(execution->sizes_in_run()) << "its memory has to outlive its work";
  EXPECT_FALSE(execution->looks());
  ASSERT_EQ(outcome(execution->run(stream_->get())), "ran");
  EXPECT_EQ(p_.values(y), (std::vector<double>{5, 6, 7, 8}));
  EXPECT_EQ(seen.released, 1);
  EXPECT_EQ(seen.outputs[0].owner, stream_->get());
  seen.made[0] = 1;
  ASSERT_EQ(outcome(execution->run(stream_->get())), "ran");
  EXPECT_EQ(p_.values(y), (std::vector<double>{1, 6, 7, 8}));
  std::vector<float> moved{3, 3, 3, 3};
  seen.made.swap(moved);
  ASSERT_EQ(outcome(execution->run(stream_->get())), "ran");
  EXPECT_EQ(p_.values(y), (std::vector<double>{3, 3, 3, 3})) << "memory elsewhere";
  EXPECT_EQ(seen.released, 3);
  seen.made.resize(5);
  seen.count = 5;
  EXPECT_EQ(outcome(execution->run(stream_->get())),
            "E0610 got has the wrong shape: it is f32[5]; the copy goes to f32[4]");
  EXPECT_EQ(seen.released, 4) << "also of a run that fails";
  seen.code = 3;
  EXPECT_EQ(outcome(execution->run(stream_->get())), "E0617 external function make failed: it returned 3");
  EXPECT_EQ(seen.released, 5);
  fake_.capturing.insert(stream_->get());
  EXPECT_EQ(outcome(execution->run(stream_->get())),
            "E0646 a run whose sizes are found in it can not be captured: make allocates what the steps behind it use");
  fake_.capturing.clear();
}

TEST_F(CudaLate, ResultsThatAreNotWhatIsDeclared) {
  Seen seen;
  const uint32_t y = p_.output("y", DType::f32, {4}), got = p_.temporary("got", DType::f32, {constant(4)});
  p_.provide("make", make, &seen);
  p_.package.result_count = 1;
  p_.put(CallExtern{"make", {}, CallExtern::Form::Alloc, {}, 0, 1}, SelectOutput{0, 0, got}, Copy{got, y}, Free{got},
         Return{});
  EXPECT_EQ(run(), "ran");
  const std::string head = "E0610 output 0 of a function is not what the program declares: ";
  seen.rank = 2;
  EXPECT_EQ(run(), head + "it has 2 dims of f32, and got has 1 of f32");
  seen.rank = 1;
  seen.dtype = static_cast<int>(DType::i64);
  EXPECT_EQ(run(), head + "it has 1 dims of i64, and got has 1 of f32");
  seen.dtype = 99;
  EXPECT_EQ(run(), head + "it has 1 dims of no element type, and got has 1 of f32");
  seen.dtype = static_cast<int>(DType::f32);
  seen.count = 5;
  EXPECT_EQ(run().substr(0, head.size()), head) << run();
  EXPECT_NE(run().find("5"), std::string::npos) << run();
  p_.package.steps.clear();
  p_.put(CallExtern{"make", {}, CallExtern::Form::Alloc, {}, 0, 1}, DefineSymbol{"n", 0, 1, From::OutputSize},
         SelectOutput{0, 0, got}, Free{got}, Return{});
  EXPECT_EQ(run(), "E0610 output 0 of a function has no dim 1: it has 1 dims");
}

TEST_F(CudaLate, WhatNoGpuRuns) {
  const uint32_t flag = p_.argument("flag", DType::boolean, {1}, {1}), x = p_.argument("x", DType::f32, {2}),
                 i = p_.argument("i", DType::i64, {2}), y = p_.output("y", DType::f32, {4});
  p_.put(If{flag, 0, 1}, Return{});
  p_.package.step_lists = {{DefineSymbol{"n", x, 0, From::Size}}, {}};
  EXPECT_EQ(
      run(),
      "E0614 list 0, step 0 (define_symbol) can not run on cuda:sm_90a: symbols that a child list defines are not "
      "known before the run");
  p_.package.step_lists.clear();
  p_.package.steps.clear();
  p_.put(IndexPut{y, {i}, x, false}, Return{});
  EXPECT_EQ(run(),
            "E0614 step 0 (index_put) can not run on cuda:sm_90a: the package has no kernel for steps on elements");
}

TEST_F(CudaLate, ASizeBehindASize) {
  const uint32_t one = p_.argument("one", DType::i32, {1}, {3}), two = p_.argument("two", DType::i64, {1}, {2});
  const uint32_t x = p_.argument("x", DType::f32, {8}, {1, 2, 3, 4, 5, 6, 7, 8}), y = p_.output("y", DType::f32, {8});
  const auto n = Dim::symbol("n"), m = Dim::symbol("m");
  const uint32_t from = p_.temporary("from", DType::f32, {n}), to = p_.temporary("to", DType::f32, {n}),
                 less = p_.temporary("less", DType::f32, {m}), end = p_.temporary("end", DType::f32, {m});
  p_.put(Fill{y}, DefineSymbol{"n", one, 0, From::Value}, Reinterpret{x, from}, Reinterpret{y, to}, Copy{from, to},
         DefineSymbol{"m", two, 0, From::Value}, Reinterpret{y, less}, Reinterpret{x, end}, Fill{less}, Return{});
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  for (const auto& [first, second] : {std::pair{3, 2}, {3, 1}, {8, 1}, {8, 0}}) {
    p_.set(one, {static_cast<double>(first)});
    p_.set(two, {static_cast<double>(second)});
    ASSERT_EQ(outcome(execution->run(stream_->get())), "ran");
    for (int e = 0; e < 8; ++e)
      EXPECT_EQ(p_.values(y)[static_cast<size_t>(e)], e < second || e >= first ? 0 : e + 1) << first << " " << second;
  }
}

TEST_F(CudaLate, ASizeIsOneNumber) {
  const uint32_t count = p_.bound("count", runtime::test::Role::Argument, DType::i32, {constant(1)}, {2}, {3, 3});
  const uint32_t y = p_.output("y", DType::f32, {8}), part = p_.temporary("part", DType::f32, {Dim::symbol("n")});
  p_.put(DefineSymbol{"n", count, 0, From::Value}, Reinterpret{y, part}, Fill{part}, Return{});
  EXPECT_EQ(run(), "E0610 count does not fit the kernel: it is i32[2]; the kernel takes 1 in dim 0 from the last");
}

TEST_F(CudaLate, ASizeInDeviceMemory) {
  const uint32_t count = p_.argument("count", DType::i32, {1}, {3});
  const uint32_t x = p_.argument("x", DType::f32, {8}, {1, 2, 3, 4, 5, 6, 7, 8}), y = p_.output("y", DType::f32, {8});
  const uint32_t before = p_.temporary("before", DType::f32, {constant(8)});
  const uint32_t part = p_.temporary("part", DType::f32, {Dim::symbol("n")}),
                 own = p_.temporary("own", DType::f32, {Dim::symbol("n")}),
                 end = p_.temporary("end", DType::f32, {Dim::symbol("n")});
  p_.package.pools = {{0, constant(64), 64}, {0, Dim::symbol("n") * constant(4), 64}};
  p_.put(Fill{y}, AllocateFromPool{before, 0, {}}, Copy{x, before}, DefineSymbol{"n", count, 0, From::Value},
         Reinterpret{before, part}, AllocateFromPool{own, 1, {}}, Copy{part, own}, Reinterpret{y, end}, Copy{own, end},
         Free{own}, Return{});
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  EXPECT_EQ(execution->workspace_size(), 256) << "without what depends on the size";
  const size_t at_rest = fake_.allocations.size();
  fake_.memory_limit = 255;
  EXPECT_EQ(outcome(execution->run(stream_->get())).substr(0, 5), "E0643") << "what is behind the size needs memory";
  fake_.memory_limit = size_t{1} << 30;
  ASSERT_EQ(outcome(execution->run(stream_->get())), "ran");
  EXPECT_EQ(p_.values(y), (std::vector<double>{1, 2, 3, 0, 0, 0, 0, 0}));
  EXPECT_EQ(fake_.allocations.size(), at_rest + 1);
  fake_.calls.clear();
  ASSERT_EQ(outcome(execution->run(stream_->get())), "ran");
  EXPECT_EQ(fake_.count("cuMemAlloc_v2"), 0U) << "the same size again: nothing is allocated";
  EXPECT_EQ(fake_.count("cuStreamSynchronize"), 1U) << "for the size";
  p_.set(count, {5});
  fake_.calls.clear();
  ASSERT_EQ(outcome(execution->run(stream_->get())), "ran");
  EXPECT_EQ(p_.values(y), (std::vector<double>{1, 2, 3, 4, 5, 0, 0, 0}));
  EXPECT_EQ(fake_.allocations.size(), at_rest + 1);
  EXPECT_EQ(fake_.count("cuMemAlloc_v2"), 0U) << "what was large enough is kept";
  p_.set(count, {9});
  EXPECT_EQ(outcome(execution->run(stream_->get())).substr(0, 5), "E0610") << "it leaves the memory of the source";
  p_.set(count, {-1});
  EXPECT_EQ(outcome(execution->run(stream_->get())).substr(0, 5), "E0610");
  p_.set(count, {0});
  ASSERT_EQ(outcome(execution->run(stream_->get())), "ran");
  EXPECT_EQ(p_.values(y), (std::vector<double>(8, 0)));
  fake_.capturing.insert(stream_->get());
  EXPECT_EQ(outcome(execution->run(stream_->get())),
            "E0646 a run whose sizes are found in it can not be captured: the size n is read from device memory");
  fake_.capturing.clear();
  // Another workspace: what lies in it is found anew, once what was made for the old one is over.
  fake_.calls.clear();
  auto memory = DeviceBuffer::make(device_, 256).value();
  p_.set(count, {2});
  ASSERT_TRUE(execution->set_workspace(reinterpret_cast<void*>(memory.address()), 256));
  EXPECT_EQ(fake_.count("cuEventSynchronize"), 1U);
  ASSERT_EQ(outcome(execution->run(stream_->get())), "ran");
  EXPECT_EQ(p_.values(y), (std::vector<double>{1, 2, 0, 0, 0, 0, 0, 0}));
}

// What a turn saw, and what it says to the next one.
struct Turns {
  std::vector<int64_t> counts, seen;
  int64_t* count = nullptr;
  unsigned char* more = nullptr;
};
int turn(void* context, const CodettaTensor* inputs, int, CodettaTensor*, int) {
  Turns& turns = *static_cast<Turns*>(context);
  turns.seen.push_back(inputs[0].shape[0]);
  const bool last = turns.seen.size() == turns.counts.size();
  if (!last) *turns.count = turns.counts[turns.seen.size()];
  *turns.more = last ? 0 : 1;
  return 0;
}

TEST_F(CudaLate, BranchesAndLoopsReadSizesAnew) {
  const uint32_t more = p_.argument("more", DType::boolean, {1}, {1}),
                 count = p_.argument("count", DType::i64, {1}, {2});
  const auto n = Dim::symbol("n"), m = Dim::symbol("m");
  const uint32_t x = p_.argument("x", DType::f32, {8}, {1, 2, 3, 4, 5, 6, 7, 8}), y = p_.output("y", DType::f32, {8});
  const uint32_t part = p_.temporary("part", DType::f32, {n}), own = p_.temporary("own", DType::f32, {n}),
                 end = p_.temporary("end", DType::f32, {n}), less = p_.temporary("less", DType::f32, {m});
  const uint32_t given = p_.scalar("given", DType::i64, 0);
  p_.package.pools = {{0, n * constant(4), 64}};
  Turns turns;
  p_.provide("turn", turn, &turns);
  turns.count = p_.bindings.tensors[count].as<int64_t>();
  turns.more = p_.bindings.tensors[more].as<unsigned char>();
  const Step in_range = StepProgram::check(RangeGuard{n, constant(0), constant(8), "for the test"});
  // Another size, a number of the caller's, stands in a branch of the loop.
  p_.package.step_lists = {{},
                           {DefineSymbol{"n", count, 0, From::Value}, in_range, Reinterpret{x, part},
                            AllocateFromPool{own, 0, {}}, Copy{part, own}, Reinterpret{y, end}, Copy{own, end},
                            Free{own}, If{more, 2, 3}, CallExtern{"turn", {part}, CallExtern::Form::Out, {}, 0, 0}},
                           {DefineSymbol{"m", given, 0, From::Value}, Reinterpret{y, less}, Fill{less}},
                           {}};
  p_.put(Fill{y}, While{0, more, 1}, Return{});
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  EXPECT_TRUE(execution->sizes_in_run());
  EXPECT_EQ(execution->workspace_size(), 0) << "all memory depends on a size";
  const auto run_with = [&](std::vector<int64_t> counts) {
    turns.counts = std::move(counts);
    turns.seen.clear();
    *turns.count = turns.counts[0];
    *turns.more = 1;
    return outcome(execution->run(stream_->get()));
  };
  for (const std::vector<int64_t>& counts : {std::vector<int64_t>{2, 5, 0}, {5}, {0, 8, 8, 1}}) {
    ASSERT_EQ(run_with(counts), "ran");
    EXPECT_EQ(turns.seen, counts);
    for (int64_t e = 0; e < 8; ++e) {
      const int64_t most = *std::max_element(counts.begin(), counts.end());
      EXPECT_EQ(p_.values(y)[static_cast<size_t>(e)], e < most ? static_cast<double>(e + 1) : 0) << e;
    }
  }
  EXPECT_EQ(run_with({2, 9}).substr(0, 5), "E0610");
  EXPECT_EQ(turns.seen, (std::vector<int64_t>{2})) << "the second turn is not run";
  EXPECT_EQ(run_with({-1}), "E0610 n is negative: it is -1: count is -1");
  ASSERT_EQ(run_with({3, 3}), "ran") << "what failed leaves nothing behind";
  p_.bindings.scalars[given].i = -5;
  auto other = prepare();
  ASSERT_TRUE(other) << "whether the branch is taken is not known yet: " << other.error().render();
  *turns.more = 0;
  EXPECT_EQ(outcome(other->run(stream_->get())), "ran") << "no turn";
  *turns.more = 1;
  EXPECT_EQ(outcome(other->run(stream_->get())), "E0610 m is negative: it is -5: given is -5");
  const auto graph = Execution::make(package_, {module_}, p_.bindings,
                                     {.outside = {p_.options.externs, p_.options.weights}, .graph = true});
  ASSERT_FALSE(graph);
  EXPECT_EQ(outcome(graph.error()), "E0646 the program can not be one graph: the size n is read from device memory");
}

// What each turn gets, and whether there is another one.
struct Given {
  std::vector<int64_t> counts;
  std::vector<float> made{5, 6, 7, 8};
  size_t turn = 0;
  int released = 0, code = 0;
  unsigned char* more = nullptr;
};
int give(void* context, const CodettaTensor*, int, CodettaTensor* outputs, int count) {
  Given& given = *static_cast<Given*>(context);
  for (int o = 0; o < count; ++o) {
    outputs[o].data = given.made.data();
    outputs[o].rank = 1;
    outputs[o].dtype = static_cast<int>(DType::f32);
    outputs[o].shape[0] = given.counts[given.turn];
    outputs[o].strides[0] = 1;
    outputs[o].owner = &given.released;
    outputs[o].release = [](CodettaTensor* tensor) { ++*static_cast<int*>(tensor->owner); };
  }
  *given.more = ++given.turn == given.counts.size() ? 0 : 1;
  return given.code;
}

TEST_F(CudaLate, WhatFunctionsAllocateInEachTurnAndInABranch) {
  const uint32_t more = p_.argument("more", DType::boolean, {1}, {1});
  const auto n = Dim::symbol("n");
  const uint32_t y = p_.output("y", DType::f32, {8}), flag = p_.scalar("flag", DType::boolean, 1);
  const uint32_t got = p_.temporary("got", DType::f32, {n}), end = p_.temporary("end", DType::f32, {n});
  Given given;
  given.more = p_.bindings.tensors[more].as<unsigned char>();
  p_.provide("give", give, &given);
  p_.package.result_count = 1;
  // The second result is nobody's.
  p_.package.step_lists = {
      {},
      {If{flag, 2, 3}},
      {CallExtern{"give", {}, CallExtern::Form::Alloc, {}, 0, 2}, DefineSymbol{"n", 0, 0, From::OutputSize},
       SelectOutput{0, 0, got}, Reinterpret{y, end}, Copy{got, end}, Free{got}},
      {}};
  p_.put(Fill{y}, While{0, more, 1}, Return{});
  auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  EXPECT_TRUE(execution->sizes_in_run());
  const auto run_with = [&](std::vector<int64_t> counts) {
    given.counts = std::move(counts);
    given.turn = 0;
    given.released = 0;
    *given.more = 1;
    return outcome(execution->run(stream_->get()));
  };
  for (const std::vector<int64_t>& counts : {std::vector<int64_t>{2, 4, 1}, {3}, {0, 4, 4}}) {
    ASSERT_EQ(run_with(counts), "ran");
    EXPECT_EQ(given.turn, counts.size());
    EXPECT_EQ(given.released, static_cast<int>(2 * counts.size())) << "also what nobody takes, of each turn";
    const int64_t most = *std::max_element(counts.begin(), counts.end());
    for (int64_t e = 0; e < 8; ++e)
      EXPECT_EQ(p_.values(y)[static_cast<size_t>(e)], e < most ? static_cast<double>(e + 5) : 0) << e;
  }
  EXPECT_EQ(run_with({2, 9}).substr(0, 5), "E0610");
  EXPECT_EQ(given.released, 4) << "a turn that fails gives back what it got";
  given.code = 3;
  EXPECT_EQ(run_with({2}), "E0617 external function give failed: it returned 3");
  EXPECT_EQ(given.released, 2);
}

TEST_F(CudaLate, DonatedArguments) {
  const uint32_t x = p_.argument("x", DType::f32, {16}, {1, 2, 3, 4}), y = p_.output("y", DType::f32, {16});
  const uint32_t over = p_.temporary("over", DType::f32, {constant(16)});
  p_.package.buffers[x].donated = true;
  p_.put(Reuse{x, over}, Copy{over, y}, Free{over}, Return{});
  ASSERT_EQ(run(), "ran");
  EXPECT_EQ(p_.values(y)[3], 4);
  const TensorView whole = p_.bindings.tensors[x];
  p_.bindings.tensors[x] = TensorView::make(whole.as<float>() + 1, DType::f32, {16}).value();
  EXPECT_EQ(run(), "E0610 donated x can not be reused: its address is 4 modulo 64");
  p_.bindings.tensors[x] = TensorView::make(whole.data(), DType::f32, {16}, {2}).value();
  EXPECT_EQ(run(), "E0610 donated x can not be reused: it lies in pieces: its strides are [2]");
}

TEST_F(CudaLate, Weights) {
  Buffer weight{"w", Buffer::Role::Constant, DType::f32, false, {constant(3)}, ""};
  weight.external = "layer.weight";
  p_.package.buffers.push_back(weight);
  p_.bindings.tensors.emplace_back();
  p_.bindings.scalars.emplace_back();
  const uint32_t y = p_.output("y", DType::f32, {3});
  p_.put(LoadConstant{0}, Copy{0, y}, Return{});
  EXPECT_EQ(run(), "E0615 constant layer.weight is not provided: the program takes f32[3] of that name from outside");
  float values[] = {1, 2, 3, 4, 5, 6};
  TensorView given = TensorView::make(values, DType::f32, {3}).value();
  p_.options.weights = [&](const std::string& name) -> std::optional<TensorView> {
    return name == "layer.weight" ? std::optional(given) : std::nullopt;
  };
  ASSERT_EQ(run(), "ran");
  EXPECT_EQ(p_.values(y), (std::vector<double>{1, 2, 3}));
  given = TensorView::make(values, DType::f32, {3}, {2}).value();
  EXPECT_EQ(run(), "E0610 constant layer.weight lies in pieces: its strides are [2]");
  given = TensorView::make(values, DType::f32, {4}).value();
  EXPECT_EQ(run().substr(0, 5), "E0610");
}

TEST_F(CudaLate, ChecksOfChildListsComeWithThem) {
  const uint32_t flag = p_.argument("flag", DType::boolean, {1}, {0});
  p_.package.step_lists = {{StepProgram::check(EqualGuard{constant(1), constant(2), "for the test"})}, {}};
  p_.put(If{flag, 0, 1}, Return{});
  EXPECT_EQ(run(), "ran") << "the branch is not taken";
  p_.set(flag, {1});
  EXPECT_EQ(run().substr(0, 5), "E0610");
}

}  // namespace
}  // namespace codetta::runtime::cuda

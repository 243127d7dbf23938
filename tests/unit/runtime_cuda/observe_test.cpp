// SPDX-License-Identifier: Apache-2.0
// Runs that are observed, over the pretended driver, whose memory is that of the test: what is told and when, against
// what a CPU tells of the same steps; what may not be observed; and that a run without an observer has none of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "package/written.hpp"
#include "unit/runtime_cuda/step_fixture.hpp"

namespace codetta::runtime::cuda {
namespace {

using namespace package;
using runtime::test::constant;
using runtime::test::StepProgram;
using From = DefineSymbol::From;

// A step, and what stood in the buffers that it writes when it was told of.
struct Told {
  std::string place;
  std::vector<std::pair<std::string, std::vector<double>>> written;
  bool operator==(const Told&) const = default;
  friend void PrintTo(const Told& one, std::ostream* to) {
    *to << one.place;
    for (const auto& [name, values] : one.written) *to << " " << name << " = " << ::testing::PrintToString(values);
  }
};

class CudaObserve : public OnPretendedDevice {
 protected:
  // Temporaries lie in memory of the pretended device, which the test reads as its own.
  static Told told(const Package& package, const StepEvent& event) {
    Told result{place_of(package, *event.step), {}};
    for (const uint32_t buffer : buffers_written(package, *event.step)) {
      const TensorView& view = event.tensors[buffer];
      std::vector<double> values;
      for (int64_t i = 0; i < view.element_count(); ++i)
        values.push_back(types::load_f64(view.as<std::byte>() + i * dtype_size(view.dtype()), view.dtype()));
      result.written.emplace_back(package.buffers[buffer].name, std::move(values));
    }
    return result;
  }
  Observer watch(std::vector<Told>& into) {
    return [this, &into](const StepEvent& event, const Device& device, StreamHandle stream) -> Result<void> {
      EXPECT_EQ(&device, device_.get());
      EXPECT_EQ(stream, stream_->get());
      EXPECT_LE(event.begin_ns, event.end_ns);
      EXPECT_LE(last_end_, event.end_ns) << "a branch or a loop begins before the steps within it";
      last_end_ = event.end_ns;
      into.push_back(told(*package_, event));
      return {};
    };
  }
  std::vector<Told> on_gpu() {
    std::vector<Told> seen;
    auto execution = prepare(watch(seen));
    EXPECT_TRUE(execution) << execution.error().render();
    if (!execution) return seen;
    EXPECT_TRUE(execution->observed());
    last_end_ = 0;
    const auto ran = execution->run(stream_->get());
    EXPECT_TRUE(ran) << ran.error().render();
    return seen;
  }
  std::vector<Told> on_cpu() {
    std::vector<Told> seen;
    const auto package = std::make_shared<const Package>(p_.package);
    ExecutionOptions options = p_.options;
    options.observer = [&](const StepEvent& event) -> Result<void> {
      seen.push_back(told(*package, event));
      return {};
    };
    auto execution = runtime::Execution::make(package, p_.kernels, p_.bindings, options);
    EXPECT_TRUE(execution) << execution.error().render();
    if (!execution) return seen;
    const auto ran = execution->run();
    EXPECT_TRUE(ran) << ran.error().render();
    return seen;
  }
  // Of the steps that write something: others a CPU resolves in a run, and a GPU before it.
  static std::vector<Told> writing(std::vector<Told> all) {
    std::erase_if(all, [](const Told& one) { return one.written.empty(); });
    return all;
  }
  // "E0646 headline: reason; notes", or "ran".
  static std::string outcome(const Result<void>& result) {
    if (result) return "ran";
    const Diagnostic& d = result.error().diagnostics().front();
    EXPECT_FALSE(d.help.empty());
    std::string text = "E0" + std::to_string(d.code) + " " + d.headline + ": " + d.reason;
    for (const Note& note : d.notes) text += "; " + note.text;
    return text;
  }
  int64_t last_end_ = 0;
};

// Adds 1 to what it is given, and says whether it is less than 3: for loops.
int count_up(void*, const CodettaTensor* inputs, int, CodettaTensor* outputs, int) {
  auto& count = *static_cast<int32_t*>(outputs[0].data);
  count = *static_cast<const int32_t*>(inputs[0].data) + 1;
  *static_cast<unsigned char*>(outputs[1].data) = count < 3 ? 1 : 0;
  return 0;
}
int fail_with_7(void*, const CodettaTensor*, int, CodettaTensor*, int) { return 7; }

// The memory of each temporary is that of the one before it.
TEST_F(CudaObserve, ValuesAreThoseOfTheMomentAtWhichTheStepHasRun) {
  const std::vector<double> given{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  const uint32_t x = p_.argument("x", DType::f32, {16}, given), y = p_.output("y", DType::f32, {16}),
                 z = p_.output("z", DType::f32, {16});
  const uint32_t first = p_.temporary("first", DType::f32, {constant(16)}),
                 second = p_.temporary("second", DType::f32, {constant(16)}),
                 over = p_.temporary("over", DType::f32, {constant(16)});
  p_.package.buffers[x].donated = true;
  p_.put(Allocate{first}, Copy{x, first}, Copy{first, z}, Reuse{first, second}, Fill{second}, Copy{second, y},
         Free{second}, Reuse{x, over}, Copy{y, over}, Fill{z}, Return{});
  const auto seen = on_gpu();
  p_.set(x, given);
  EXPECT_EQ(writing(seen), writing(on_cpu()));
  ASSERT_EQ(seen.size(), 6U);
  EXPECT_EQ(seen[0].place, "step 1 (copy)");
  EXPECT_EQ(seen[0].written[0].first, "first");
  EXPECT_EQ(seen[0].written[0].second[3], 4);
  EXPECT_EQ(seen[1].written[0].second[3], 4) << "z, which is 0 in the end";
  EXPECT_EQ(seen[2].written[0].first, "second");
  EXPECT_EQ(seen[4].written[0].first, "over");
}

TEST_F(CudaObserve, BranchesAndLoopsAreToldBehindTheirSteps) {
  const uint32_t flag = p_.argument("flag", DType::boolean, {1}, {1}), x = p_.argument("x", DType::f32, {4}, {5, 6}),
                 y = p_.output("y", DType::f32, {4}), n = p_.output("n", DType::i32, {1}),
                 more = p_.output("more", DType::boolean, {1});
  p_.provide("count_up", count_up);
  p_.package.step_lists = {{Copy{x, y}},
                           {Fill{y}},
                           {CallExtern{"count_up", {n}, CallExtern::Form::Out, {n, more}, 0, 0}},
                           {Copy{x, y}, StepProgram::check(EqualGuard{constant(1), constant(1), "for the test"})}};
  While loop;
  loop.predicate = more, loop.condition = 2, loop.body = 3;
  p_.put(If{flag, 0, 1}, Fill{n}, loop, Fill{y}, Return{});
  const auto seen = on_gpu();
  EXPECT_EQ(seen, on_cpu()) << "all of them, in the same order";
  std::vector<std::string> places;
  for (const Told& one : seen) places.push_back(one.place);
  EXPECT_EQ(places,
            (std::vector<std::string>{"list 0, step 0 (copy)", "step 0 (if)", "step 1 (fill)",
                                      "list 2, step 0 (call_extern)", "list 3, step 0 (copy)", "list 3, step 1 (check)",
                                      "list 2, step 0 (call_extern)", "list 3, step 0 (copy)", "list 3, step 1 (check)",
                                      "list 2, step 0 (call_extern)", "step 2 (while)", "step 3 (fill)"}));
  EXPECT_EQ(seen[9].written[0].second, std::vector<double>{3});
}

std::vector<float> four_there{5, 6, 7, 8, 9};
int make_four(void*, const CodettaTensor*, int, CodettaTensor* outputs, int) {
  outputs[0].data = four_there.data();
  outputs[0].rank = 1;
  outputs[0].dtype = static_cast<int>(DType::f32);
  outputs[0].shape[0] = 4;
  outputs[0].strides[0] = 1;
  return 0;
}

TEST_F(CudaObserve, WhatOnlyARunKnows) {
  const uint32_t count = p_.argument("count", DType::i32, {1}, {3});
  const uint32_t x = p_.argument("x", DType::f32, {8}, {1, 2, 3, 4, 5, 6, 7, 8}), y = p_.output("y", DType::f32, {8}),
                 z = p_.output("z", DType::f32, {4});
  const uint32_t part = p_.temporary("part", DType::f32, {Dim::symbol("n")}),
                 end = p_.temporary("end", DType::f32, {Dim::symbol("n")}),
                 got = p_.temporary("got", DType::f32, {Dim::symbol("k")});
  p_.provide("make", make_four);
  p_.package.result_count = 1;
  p_.put(Fill{y}, DefineSymbol{"n", count, 0, From::Value}, Reinterpret{x, part}, Reinterpret{y, end}, Copy{part, end},
         CallExtern{"make", {}, CallExtern::Form::Alloc, {}, 0, 1}, DefineSymbol{"k", 0, 0, From::OutputSize},
         SelectOutput{0, 0, got}, Copy{got, z}, Free{got}, Return{});
  for (const int size : {3, 5}) {
    p_.set(count, {static_cast<double>(size)});
    const auto seen = on_gpu();
    EXPECT_EQ(writing(seen), writing(on_cpu()));
    ASSERT_EQ(writing(seen).size(), 4U) << "fill, copy, what was selected, copy";
    EXPECT_EQ(writing(seen)[1].written[0].second.size(), static_cast<size_t>(size));
    EXPECT_EQ(writing(seen)[2].place, "step 7 (select_output)");
    const auto cause = [](const char* place) { return [place](const Told& one) { return one.place == place; }; };
    EXPECT_EQ(std::count_if(seen.begin(), seen.end(), cause("step 1 (define_symbol)")), 1);
    EXPECT_EQ(std::count_if(seen.begin(), seen.end(), cause("step 5 (call_extern)")), 1);
  }
}

TEST_F(CudaObserve, WithoutAnObserverNothingIsWaitedFor) {
  const uint32_t x = p_.argument("x", DType::f32, {4}, {1, 2, 3, 4}), y = p_.output("y", DType::f32, {4});
  p_.put(Fill{y}, Copy{x, y}, Return{});
  auto execution = prepare({});
  ASSERT_TRUE(execution) << execution.error().render();
  EXPECT_FALSE(execution->observed());
  fake_.calls.clear();
  ASSERT_EQ(outcome(execution->run(stream_->get())), "ran");
  std::vector<std::string> calls = fake_.calls;
  std::erase_if(calls, [](const std::string& call) { return call.rfind("cuCtx", 0) == 0; });
  EXPECT_EQ(calls, (std::vector<std::string>{"cuMemsetD8Async", "cuMemcpyDtoDAsync_v2"}));

  std::vector<std::string> behind;
  auto observed = prepare([&](const StepEvent&, const Device&, StreamHandle) -> Result<void> {
    std::vector<std::string> made = fake_.calls;
    std::erase_if(made, [](const std::string& call) { return call.rfind("cuCtx", 0) == 0; });
    behind.push_back(made.at(made.size() - 2) + ", " + made.back());
    return {};
  });
  ASSERT_EQ(outcome(observed->run(stream_->get())), "ran");
  EXPECT_EQ(behind, (std::vector<std::string>{"cuMemsetD8Async, cuStreamSynchronize",
                                              "cuMemcpyDtoDAsync_v2, cuStreamSynchronize"}));
  EXPECT_EQ(fake_.capture_mode, 0) << "the thread's mode is as before";
}

TEST_F(CudaObserve, E0646ACaptureIsRefused) {
  const uint32_t y = p_.output("y", DType::f32, {4});
  p_.put(Fill{y}, Return{});
  std::vector<Told> seen;
  auto execution = prepare(watch(seen));
  ASSERT_TRUE(execution) << execution.error().render();
  fake_.capturing.insert(stream_->get());
  fake_.calls.clear();
  EXPECT_EQ(outcome(execution->run(stream_->get())),
            "E0646 a run that is observed can not be captured: each step is waited for, so that the observer sees what "
            "it wrote; a stream under capture only records, and nobody is told when the graph is launched");
  EXPECT_EQ(fake_.count("cuMemsetD8Async"), 0U) << "nothing was enqueued";
  EXPECT_TRUE(fake_.invalidated.empty()) << "the capture is still valid";
  EXPECT_TRUE(seen.empty());
  fake_.capturing.clear();
  // The default stream, while a stream that it waits for is captured.
  fake_.implicit_capture = true;
  EXPECT_EQ(outcome(execution->run(nullptr)).substr(0, 5), "E0646");
  fake_.implicit_capture = false;
  // That of another stream goes on while this one is waited for.
  const OwnedStream other = OwnedStream::make(device_).value();
  fake_.capturing.insert(other.get());
  EXPECT_EQ(outcome(execution->run(stream_->get())), "ran");
  EXPECT_TRUE(fake_.invalidated.empty());
  EXPECT_EQ(seen.size(), 1U);
  fake_.capturing.clear();
  last_end_ = 0;
  EXPECT_EQ(outcome(execution->run(stream_->get())), "ran");
  EXPECT_EQ(seen.size(), 2U);
}

TEST_F(CudaObserve, WhatTheWaitFindsIsToldOfTheStep) {
  const uint32_t x = p_.argument("x", DType::f32, {4}), y = p_.output("y", DType::f32, {4});
  p_.put(Fill{y}, Copy{x, y}, Return{});
  std::vector<Told> seen;
  auto execution = prepare([&](const StepEvent& event, const Device&, StreamHandle) -> Result<void> {
    seen.push_back(told(*package_, event));
    fake_.fail["cuStreamSynchronize"] = Status::IllegalAddress;
    return {};
  });
  ASSERT_TRUE(execution) << execution.error().render();
  const std::string failed = outcome(execution->run(stream_->get()));
  EXPECT_EQ(failed.substr(0, 5), "E0644") << failed;
  EXPECT_NE(failed.find("; seen behind step 1 (copy)"), std::string::npos) << failed;
  EXPECT_EQ(seen.size(), 1U) << "it is not told of";
  fake_.fail.clear();
  EXPECT_EQ(outcome(execution->run(stream_->get())).substr(0, 5), "E0644");
}

TEST_F(CudaObserve, AnErrorOfTheObserverEndsTheRun) {
  const uint32_t x = p_.argument("x", DType::f32, {4}), y = p_.output("y", DType::f32, {4}),
                 z = p_.output("z", DType::f32, {4});
  p_.provide("fail", fail_with_7);
  p_.put(Fill{y}, Copy{x, y}, CallExtern{"fail", {x}, CallExtern::Form::Out, {z}, 0, 0}, Fill{z}, Return{});
  int told = 0, most = 2;
  auto execution = prepare([&](const StepEvent&, const Device&, StreamHandle) -> Result<void> {
    if (++told < most) return {};
    Diagnostic own;
    own.code = 617;
    own.headline = "enough";
    own.help = "none";
    return Error(std::move(own));
  });
  ASSERT_TRUE(execution) << execution.error().render();
  EXPECT_EQ(outcome(execution->run(stream_->get())), "E0617 enough: ");
  EXPECT_EQ(told, 2);
  told = 0, most = 9;
  EXPECT_EQ(outcome(execution->run(stream_->get())), "E0617 external function fail failed: it returned 7");
  EXPECT_EQ(told, 2) << "a step that fails is not told of, nor what is behind it";
}

}  // namespace
}  // namespace codetta::runtime::cuda

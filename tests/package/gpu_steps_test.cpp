// SPDX-License-Identifier: Apache-2.0
// Libraries for a GPU whose programs work on elements, call functions of the caller's and read sizes from device
// memory, over the pretended driver.
#include <atomic>
#include <thread>

#include "device/host/gpu_steps.h"
#include "emit/gpu_steps.hpp"
#include "package/gpu_library.hpp"
#include "runtime/cuda/stream.hpp"

namespace codetta::test {
namespace {

using namespace package;  // NOLINT: all kinds of steps
using types::Dim;

class GpuLibrarySteps : public ::testing::Test {
 protected:
  void SetUp() override {
    made_.name = "f";
    made_.target = Target::parse("cuda:sm_90a").value();
  }
  uint32_t buffer(const char* name, Buffer::Role role, DType dtype, std::vector<Dim> shape) {
    Buffer b;
    b.name = name;
    b.role = role;
    b.dtype = dtype;
    b.shape = std::move(shape);
    made_.buffers.push_back(std::move(b));
    return static_cast<uint32_t>(made_.buffers.size() - 1);
  }
  // An account of what went wrong, else empty.
  std::string build(const std::string& name, bool checked = true) {
    emit::add_steps_kernel(made_);
    for (package::Kernel& kernel : made_.kernels) kernel.binary = pretended_image(kernel);
    if (const auto defect = find_defect(made_)) return *defect;
    if (std::string account = library_.build(name, {std::make_shared<const Package>(made_)}, checked); !account.empty())
      return account;
    return library_.load();
  }
  static Dim c(int64_t value) { return Dim::constant(value); }

  FakeGpu gpu_;
  Package made_;
  GpuLibrary library_;
};

TEST_F(GpuLibrarySteps, WhatKernelsFindIsToldByTheNextCall) {
  const uint32_t i = buffer("i", Buffer::Role::Argument, DType::i64, {c(3)}),
                 j = buffer("j", Buffer::Role::Argument, DType::i64, {c(3)}),
                 x = buffer("x", Buffer::Role::Argument, DType::f32, {c(3)}),
                 y = buffer("y", Buffer::Role::Output, DType::f32, {c(4), c(2)});
  Step look_step(std::in_place_type<Check>);
  std::get_if<Check>(&look_step)->guard.emplace<NanGuard>(NanGuard{x, false, ""});
  made_.steps = {IndexPut{y, {i, j}, x, false}, look_step, Return{}};
  ASSERT_EQ(build("finds"), "");
  const std::vector<TensorView> views = {gpu_.tensor(DType::i64, {3}), gpu_.tensor(DType::i64, {3}),
                                         gpu_.tensor(DType::f32, {3}), gpu_.tensor(DType::f32, {4, 2})};
  ASSERT_EQ(library_.call("f", views), 0) << library_.error();
  ASSERT_EQ(gpu_.fake.launches.size(), 2U);
  EXPECT_EQ(gpu_.fake.launches[0].function, "codetta_step_put");
  EXPECT_EQ(gpu_.fake.launches[1].function, "codetta_step_look");
  gpu::PutParams put{};
  gpu::LookParams look{};
  std::memcpy(&put, gpu_.fake.launches[0].parameters.data(), sizeof put);
  std::memcpy(&look, gpu_.fake.launches[1].parameters.data(), sizeof look);
  EXPECT_EQ(put.target, views[3].data());
  EXPECT_EQ(put.positions, 3);
  EXPECT_EQ(put.slots, 8);
  EXPECT_EQ(gpu_.fake.pinned, 1);
  // As the kernel would.
  *put.fault.fault = {2, static_cast<uint32_t>(put.fault.number), 1, 0, 2, -4, 2};
  gpu_.fake.launches.clear();
  EXPECT_NE(library_.call("f", views), 0);
  EXPECT_EQ(library_.error(),
            "E0618: index -4 is out of range for the size 2; it stands 2 elements behind the first of j, in an earlier "
            "call");
  EXPECT_TRUE(gpu_.fake.launches.empty());
  EXPECT_EQ(library_.call("f", views), 0) << "it is told once";
  *put.fault.fault = {2, static_cast<uint32_t>(put.fault.number), 0, 1, 1, -11, 4};
  EXPECT_NE(library_.call("f", views), 0);
  EXPECT_EQ(
      library_.error(),
      "E0618: index 18446744073709551605 is out of range for the size 4; it stands 1 elements behind the first of "
      "i, in an earlier call");
  *look.fault.fault = {2, static_cast<uint32_t>(look.fault.number), 0, 0, 1, 1, -1};
  EXPECT_NE(library_.call("f", views), 0);
  EXPECT_EQ(library_.error(), "E0619: x holds NaN; it stands 1 elements behind the first, in an earlier call");
  // Or without a call.
  const auto check = library_.symbol<int (*)(void*)>("_f_check_contents");
  ASSERT_NE(check, nullptr);
  EXPECT_EQ(check(nullptr), 0) << library_.error();
  *look.fault.fault = {2, static_cast<uint32_t>(look.fault.number), 0, 0, 2, 2, -1};
  EXPECT_NE(check(nullptr), 0);
  EXPECT_EQ(library_.error(), "E0619: x holds an infinity; it stands 2 elements behind the first, in an earlier call");
  EXPECT_EQ(check(nullptr), 0) << library_.error();
  library_.unload();
  EXPECT_EQ(gpu_.fake.pinned, 0) << "unloading gives it back";
}

TEST_F(GpuLibrarySteps, WhatDoesNotFit) {
  const Dim n = Dim::symbol("n"), k = Dim::symbol("k");
  const uint32_t i = buffer("i", Buffer::Role::Argument, DType::i64, {n}),
                 x = buffer("x", Buffer::Role::Argument, DType::bf16, {k}),
                 y = buffer("y", Buffer::Role::Output, DType::bf16, {c(4)});
  Step look(std::in_place_type<Check>);
  std::get_if<Check>(&look)->guard.emplace<IndexGuard>(IndexGuard{i, k * c(int64_t{1} << 61)});
  made_.steps = {DefineSymbol{"n", i, 0, DefineSymbol::From::Size}, DefineSymbol{"k", x, 0, DefineSymbol::From::Size},
                 IndexPut{y, {i}, x, true}, look, Return{}};
  ASSERT_EQ(build("misfits"), "");
  const auto call = [&](int64_t indices, int64_t values) {
    return library_.call(
        "f", {gpu_.tensor(DType::i64, {indices}), gpu_.tensor(DType::bf16, {values}), gpu_.tensor(DType::bf16, {4})});
  };
  EXPECT_EQ(call(3, 3), 0) << library_.error();
  EXPECT_NE(call(2, 3), 0);
  EXPECT_EQ(library_.error(),
            "E0610: x has the wrong shape: what is put at i into y has its shape and that of the rest");
  EXPECT_NE(call(4, 4), 0);
  EXPECT_EQ(library_.error(), "E0610: the size that i indexes has no value");
}

TEST_F(GpuLibrarySteps, AWorkspaceBeyondCounting) {
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  const uint32_t i = buffer("i", Buffer::Role::Argument, DType::i64, {c(1)}),
                 x = buffer("x", Buffer::Role::Argument, DType::bf16, {c(1), n}),
                 y = buffer("y", Buffer::Role::Output, DType::bf16, {m, n});
  made_.steps = {DefineSymbol{"m", y, 0, DefineSymbol::From::Size}, DefineSymbol{"n", y, 1, DefineSymbol::From::Size},
                 IndexPut{y, {i}, x, true}, Return{}};
  ASSERT_EQ(build("beyond", false), "");
  constexpr int64_t much = int64_t{1} << 30;
  const TensorView one = gpu_.tensor(DType::bf16, {1});
  const std::vector<TensorView> views = {gpu_.tensor(DType::i64, {1}),
                                         TensorView::make(one.data(), DType::bf16, {1, much}, {0, 0}).value(),
                                         TensorView::make(one.data(), DType::bf16, {much, much}, {0, 0}).value()};
  EXPECT_NE(library_.call("f", views), 0);
  EXPECT_EQ(library_.error(), "E0603: the size of the workspace overflows");
}

// Threads that call at once ask for the same word.
TEST(GpuLibraryFaults, AreToldToOneThreadAndWhole) {
  gpu::Fault word{};
  constexpr int64_t rounds = 20000;
  std::atomic<int64_t> told{0}, torn{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> asking;
  for (int t = 0; t < 3; ++t)
    asking.emplace_back([&] {
      gpu::Fault found{};
      while (true) {
        const bool last = over;
        if (gpu::host::take_fault(&word, found)) {
          ++told;
          torn += found.offset == found.value && found.value == found.size ? 0 : 1;
        } else if (last) {
          return;
        } else {
          std::this_thread::yield();  // on few cores the writer needs its turn
        }
      }
    });
  for (int64_t n = 1; n <= rounds; ++n) {  // as a kernel does
    uint32_t nothing = 0;
    while (!__atomic_compare_exchange_n(&word.state, &nothing, 1U, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      nothing = 0, std::this_thread::yield();
    word.offset = word.value = word.size = n;
    __atomic_store_n(&word.state, 2U, __ATOMIC_RELEASE);
  }
  over = true;
  for (std::thread& thread : asking) thread.join();
  EXPECT_EQ(told, rounds);
  EXPECT_EQ(torn, 0);
}

TEST_F(GpuLibrarySteps, AScatterWhoseIndexHasNoElementsLaunchesNothing) {
  const uint32_t i = buffer("i", Buffer::Role::Argument, DType::i64, {c(3), c(0)}),
                 x = buffer("x", Buffer::Role::Argument, DType::f32, {c(3), c(0)}),
                 y = buffer("y", Buffer::Role::Output, DType::f32, {c(4), c(0)});
  made_.steps = {Scatter{y, i, x, 0, ScatterReduce::None}, Return{}};
  ASSERT_EQ(build("nothing"), "");
  const std::vector<TensorView> views = {gpu_.tensor(DType::i64, {3, 0}), gpu_.tensor(DType::f32, {3, 0}),
                                         gpu_.tensor(DType::f32, {4, 0})};
  ASSERT_EQ(library_.call("f", views), 0) << library_.error();
  EXPECT_TRUE(gpu_.fake.launches.empty());
}

// What a function saw: the stream of each tensor, and a number.
struct Seen {
  std::vector<void*> streams, places;
  double number = 0;
  std::vector<float> made{1, 2, 3, 4};
  int released = 0;
};
struct Tensor8 {  // CodettaTensor
  void* data;
  int64_t shape[8], strides[8];
  int32_t rank, dtype, device, reserved;
  void (*release)(Tensor8* tensor);
  void* owner;
};
using Function = int (*)(void*, const Tensor8*, int, Tensor8*, int);
int look_at(void* context, const Tensor8* inputs, int input_count, Tensor8* outputs, int output_count) {
  Seen& seen = *static_cast<Seen*>(context);
  for (int i = 0; i < input_count + output_count; ++i) {
    const Tensor8& one = i < input_count ? inputs[i] : outputs[i - input_count];
    seen.streams.push_back(one.owner);
    seen.places.push_back(one.data);
  }
  std::memcpy(&seen.number, inputs[1].data, sizeof seen.number);
  return 0;
}
int make(void* context, const Tensor8*, int, Tensor8* outputs, int) {
  Seen& seen = *static_cast<Seen*>(context);
  seen.streams.push_back(outputs[0].owner);
  outputs[0].data = seen.made.data();
  outputs[0].rank = 1;
  outputs[0].dtype = static_cast<int32_t>(DType::f32);
  outputs[0].shape[0] = 4;
  outputs[0].strides[0] = 1;
  outputs[0].owner = &seen.released;
  outputs[0].release = [](Tensor8* tensor) { ++*static_cast<int*>(tensor->owner); };
  return 0;
}

TEST_F(GpuLibrarySteps, FunctionsOfTheCallersEnqueueOnTheStream) {
  const uint32_t x = buffer("x", Buffer::Role::Argument, DType::f32, {c(4)});
  const uint32_t number = buffer("number", Buffer::Role::Argument, DType::f64, {});
  made_.buffers[number].is_scalar = true;
  const uint32_t y = buffer("y", Buffer::Role::Output, DType::f32, {c(4)}),
                 z = buffer("z", Buffer::Role::Output, DType::f32, {c(4)}),
                 got = buffer("got", Buffer::Role::Temporary, DType::f32, {c(4)});
  made_.result_count = 1;
  made_.steps = {CallExtern{"look", {x, number}, CallExtern::Form::Out, {y}, 0, 0},
                 CallExtern{"make", {}, CallExtern::Form::Alloc, {}, 0, 1},
                 SelectOutput{0, 0, got},
                 Copy{got, z},
                 Free{got},
                 Return{}};
  ASSERT_EQ(build("calls"), "");
  const TensorView vx = gpu_.tensor(DType::f32, {4}), vy = gpu_.tensor(DType::f32, {4}),
                   vz = gpu_.tensor(DType::f32, {4});
  const auto stream = runtime::cuda::OwnedStream::make(gpu_.device).value();
  const auto call = [&] {
    using Call = int (*)(const void*, double, void*, void*, void*);
    return library_.symbol<Call>("_f")(vx.data(), 2.5, vy.data(), vz.data(), stream.get());
  };
  EXPECT_EQ(call(), -9);
  EXPECT_EQ(library_.error(), "E0616: external function look is not provided; pass it to calls_set_extern_look");
  Seen seen;
  using Set = int (*)(Function, void*);
  ASSERT_EQ(library_.symbol<Set>("_set_extern_look")(look_at, &seen), 0);
  ASSERT_EQ(library_.symbol<Set>("_set_extern_make")(make, &seen), 0);
  ASSERT_EQ(call(), 0) << library_.error();
  EXPECT_EQ(seen.streams, (std::vector<void*>(4, stream.get())));
  EXPECT_EQ(seen.places[0], vx.data());
  EXPECT_EQ(seen.places[2], vy.data());
  EXPECT_EQ(seen.number, 2.5);
  EXPECT_EQ(vz.as<float>()[3], 4);
  EXPECT_EQ(seen.released, 1);
  gpu_.fake.capturing.insert(stream.get());
  EXPECT_NE(call(), 0);
  EXPECT_EQ(library_.error(),
            "E0646: a call whose sizes are found in it can not be captured: make allocates what the steps behind it "
            "use");
  gpu_.fake.capturing.clear();
}

TEST_F(GpuLibrarySteps, ASizeInDeviceMemory) {
  const uint32_t count = buffer("count", Buffer::Role::Argument, DType::i32, {c(1)}),
                 x = buffer("x", Buffer::Role::Argument, DType::f32, {c(8)}),
                 y = buffer("y", Buffer::Role::Output, DType::f32, {c(8)});
  const Dim n = Dim::symbol("n");
  const uint32_t part = buffer("part", Buffer::Role::Temporary, DType::f32, {n}),
                 own = buffer("own", Buffer::Role::Temporary, DType::f32, {n}),
                 end = buffer("end", Buffer::Role::Temporary, DType::f32, {n});
  made_.pools = {{0, n * c(4), 64}};
  made_.steps = {DefineSymbol{"n", count, 0, DefineSymbol::From::Value},
                 Fill{y},
                 Reinterpret{x, part},
                 AllocateFromPool{own, 0, {}},
                 Copy{part, own},
                 Reinterpret{y, end},
                 Copy{own, end},
                 Free{own},
                 Return{}};
  ASSERT_EQ(build("sizes"), "");
  const std::vector<TensorView> views = {gpu_.tensor(DType::i32, {1}), gpu_.tensor(DType::f32, {8}),
                                         gpu_.tensor(DType::f32, {8})};
  for (int i = 0; i < 8; ++i) views[1].as<float>()[i] = static_cast<float>(i + 1);
  for (const int32_t size : {3, 8, 0}) {
    *views[0].as<int32_t>() = size;
    gpu_.fake.calls.clear();
    ASSERT_EQ(library_.call("f", views), 0) << library_.error();
    EXPECT_EQ(gpu_.fake.count("cuMemcpyDtoHAsync_v2"), 1U) << "one value for all of the call";
    for (int i = 0; i < 8; ++i) EXPECT_EQ(views[2].as<float>()[i], i < size ? static_cast<float>(i + 1) : 0);
  }
  *views[0].as<int32_t>() = -1;
  EXPECT_NE(library_.call("f", views), 0);
  EXPECT_EQ(library_.error().substr(0, 5), "E0610");
  *views[0].as<int32_t>() = 9;
  EXPECT_NE(library_.call("f", views), 0) << "it leaves the memory of x";
  EXPECT_EQ(library_.error().substr(0, 5), "E0610");
  std::vector<TensorView> two = views;
  two[0] = gpu_.tensor(DType::i32, {2});
  EXPECT_NE(library_.call("f", two), 0);
  EXPECT_EQ(library_.error().substr(0, 13), "E0610: count ") << library_.error();
  const auto stream = runtime::cuda::OwnedStream::make(gpu_.device).value();
  gpu_.fake.capturing.insert(stream.get());
  *views[0].as<int32_t>() = 3;
  EXPECT_NE(library_.call("f", views, nullptr, 0, stream.get()), 0);
  EXPECT_EQ(library_.error(),
            "E0646: a call whose sizes are found in it can not be captured: count is a size that is read from device "
            "memory");
  gpu_.fake.capturing.clear();
}

// How many elements each turn gets; the last one ends the loop.
struct Turns {
  std::vector<int64_t> counts;
  std::vector<float> made{5, 6, 7, 8};
  size_t turn = 0;
  int released = 0;
  bool* more = nullptr;
};
int give(void* context, const Tensor8*, int, Tensor8* outputs, int) {
  Turns& turns = *static_cast<Turns*>(context);
  outputs[0].data = turns.made.data();
  outputs[0].rank = 1;
  outputs[0].dtype = static_cast<int32_t>(DType::f32);
  outputs[0].shape[0] = turns.counts[turns.turn];
  outputs[0].strides[0] = 1;
  outputs[0].owner = &turns.released;
  outputs[0].release = [](Tensor8* tensor) { ++*static_cast<int*>(tensor->owner); };
  *turns.more = ++turns.turn < turns.counts.size();
  return 0;
}

TEST_F(GpuLibrarySteps, WhatFunctionsAllocateInEachTurnAndInABranch) {
  const Dim n = Dim::symbol("n");
  const uint32_t more = buffer("more", Buffer::Role::Argument, DType::boolean, {c(1)}),
                 flag = buffer("flag", Buffer::Role::Argument, DType::boolean, {c(1)}),
                 y = buffer("y", Buffer::Role::Output, DType::f32, {c(8)}),
                 got = buffer("got", Buffer::Role::Temporary, DType::f32, {n}),
                 end = buffer("end", Buffer::Role::Temporary, DType::f32, {n});
  made_.result_count = 1;
  made_.step_lists = {{},
                      {If{flag, 2, 3}},
                      {CallExtern{"give", {}, CallExtern::Form::Alloc, {}, 0, 1},
                       DefineSymbol{"n", 0, 0, DefineSymbol::From::OutputSize}, SelectOutput{0, 0, got},
                       Reinterpret{y, end}, Copy{got, end}, Free{got}},
                      {}};
  made_.steps = {Fill{y}, While{0, more, 1}, Return{}};
  ASSERT_EQ(build("turns"), "");
  const std::vector<TensorView> views = {gpu_.tensor(DType::boolean, {1}), gpu_.tensor(DType::boolean, {1}),
                                         gpu_.tensor(DType::f32, {8})};
  *views[1].as<bool>() = true;
  Turns turns;
  turns.more = views[0].as<bool>();
  const auto call = [&](std::vector<int64_t> counts) {
    turns.counts = std::move(counts);
    turns.turn = 0;
    turns.released = 0;
    *turns.more = true;
    return library_.call("f", views);
  };
  EXPECT_NE(call({1}), 0);
  EXPECT_EQ(library_.error(), "E0616: external function give is not provided; pass it to turns_set_extern_give");
  using Set = int (*)(Function, void*);
  ASSERT_EQ(library_.symbol<Set>("_set_extern_give")(give, &turns), 0);
  for (const std::vector<int64_t>& counts : {std::vector<int64_t>{2, 4, 1}, {3}, {0, 4, 4}}) {
    ASSERT_EQ(call(counts), 0) << library_.error();
    EXPECT_EQ(turns.turn, counts.size());
    EXPECT_EQ(turns.released, static_cast<int>(counts.size()));
    const int64_t most = *std::max_element(counts.begin(), counts.end());
    for (int i = 0; i < 8; ++i) EXPECT_EQ(views[2].as<float>()[i], i < most ? static_cast<float>(i + 5) : 0) << i;
  }
  EXPECT_NE(call({2, 9}), 0);
  EXPECT_EQ(library_.error().substr(0, 5), "E0610") << library_.error();
  EXPECT_EQ(turns.released, 2);
}

// The count is copied in the call, as if a kernel had made it; then a function makes as many elements.
TEST_F(GpuLibrarySteps, SizesThatTheCallComputes) {
  const uint32_t given = buffer("given", Buffer::Role::Argument, DType::i32, {}),
                 x = buffer("x", Buffer::Role::Argument, DType::f32, {c(8)}),
                 y = buffer("y", Buffer::Role::Output, DType::f32, {c(8)});
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  const uint32_t count = buffer("count", Buffer::Role::Temporary, DType::i32, {}),
                 kept = buffer("kept", Buffer::Role::Temporary, DType::f32, {c(8)}),
                 part = buffer("part", Buffer::Role::Temporary, DType::f32, {n}),
                 own = buffer("own", Buffer::Role::Temporary, DType::f32, {n}),
                 end = buffer("end", Buffer::Role::Temporary, DType::f32, {n}),
                 got = buffer("got", Buffer::Role::Temporary, DType::f32, {m}),
                 front = buffer("front", Buffer::Role::Temporary, DType::f32, {m});
  made_.pools = {{0, c(128), 64}, {0, n * c(4), 64}};
  made_.result_count = 1;
  made_.steps = {AllocateFromPool{count, 0, {}},
                 Copy{given, count},
                 AllocateFromPool{kept, 0, c(64)},
                 Copy{x, kept},
                 DefineSymbol{"n", count, 0, DefineSymbol::From::Value},
                 Check{RangeGuard{n, c(0), c(8), "`x[:n]`"}},
                 Free{count},
                 Fill{y},
                 Reinterpret{kept, part},
                 AllocateFromPool{own, 1, {}},
                 Copy{part, own},
                 Reinterpret{y, end},
                 Copy{own, end},
                 Free{own},
                 Free{kept},
                 CallExtern{"make", {}, CallExtern::Form::Alloc, {}, 0, 1},
                 DefineSymbol{"m", 0, 0, DefineSymbol::From::OutputSize},
                 SelectOutput{0, 0, got},
                 Reinterpret{y, front},
                 Copy{got, front},
                 Free{got},
                 Return{}};
  ASSERT_EQ(find_defect(made_).value_or(""), "");
  ASSERT_EQ(build("computed"), "");
  Seen seen;
  using Set = int (*)(Function, void*);
  ASSERT_EQ(library_.symbol<Set>("_set_extern_make")(make, &seen), 0);
  const std::vector<TensorView> views = {gpu_.tensor(DType::i32, {}), gpu_.tensor(DType::f32, {8}),
                                         gpu_.tensor(DType::f32, {8})};
  for (int i = 0; i < 8; ++i) views[1].as<float>()[i] = static_cast<float>(i + 11);
  for (const int32_t size : {6, 8, 4, 6}) {
    *views[0].as<int32_t>() = size;
    gpu_.fake.calls.clear();
    ASSERT_EQ(library_.call("f", views), 0) << library_.error();
    EXPECT_EQ(gpu_.fake.count("cuMemcpyDtoHAsync_v2"), 1U);
    for (int i = 4; i < 8; ++i) EXPECT_EQ(views[2].as<float>()[i], i < size ? static_cast<float>(i + 11) : 0);
    EXPECT_EQ(views[2].as<float>()[3], 4) << "of the function";
  }
  EXPECT_EQ(seen.released, 4);
  for (const int32_t size : {9, -1}) {
    *views[0].as<int32_t>() = size;
    EXPECT_NE(library_.call("f", views), 0);
    EXPECT_EQ(library_.error().substr(0, 5), "E0610") << library_.error();
  }
  const auto stream = runtime::cuda::OwnedStream::make(gpu_.device).value();
  gpu_.fake.capturing.insert(stream.get());
  gpu_.fake.calls.clear();
  *views[0].as<int32_t>() = 3;
  EXPECT_NE(library_.call("f", views, nullptr, 0, stream.get()), 0);
  EXPECT_EQ(library_.error(),
            "E0646: a call whose sizes are found in it can not be captured: count is a size that is read from device "
            "memory");
  EXPECT_EQ(gpu_.fake.count("cuMemcpyAsync"), 0U) << "nothing has been enqueued";
  gpu_.fake.capturing.clear();
}

// As many elements as a tensor in device memory says are copied to the front of an output with room for more.
TEST_F(GpuLibrarySteps, AnOutputOfWhichTheCallFillsAPart) {
  const Dim room = Dim::symbol("y_capacity"), n = Dim::symbol("n"), step = Dim::symbol("step");
  const uint32_t count = buffer("count", Buffer::Role::Argument, DType::i32, {}),
                 x = buffer("x", Buffer::Role::Argument, DType::f32, {c(8)}),
                 y = buffer("y", Buffer::Role::Output, DType::f32, {room}),
                 part = buffer("part", Buffer::Role::Temporary, DType::f32, {n}),
                 end = buffer("end", Buffer::Role::Temporary, DType::f32, {n});
  made_.buffers[y].filled = {n};
  made_.steps = {DefineSymbol{"y_capacity", y, 0, DefineSymbol::From::Size},
                 DefineSymbol{"step", y, 0, DefineSymbol::From::Stride},
                 DefineSymbol{"n", count, 0, DefineSymbol::From::Value},
                 Check{RangeGuard{n, c(0), room, "room in dim 0 of output y"}},
                 Reinterpret{x, part},
                 Reinterpret{y, end},
                 Copy{part, end},
                 Return{}};
  ASSERT_EQ(build("filled"), "");
  const auto sizes_of = library_.symbol<int (*)(int64_t*, int32_t)>("_f_output_sizes");
  ASSERT_NE(sizes_of, nullptr);
  int64_t size = -1;
  EXPECT_EQ(sizes_of(&size, 1), -1);
  EXPECT_EQ(library_.error().substr(0, 6), "E0608:") << library_.error();
  const std::vector<TensorView> views = {gpu_.tensor(DType::i32, {}), gpu_.tensor(DType::f32, {8}),
                                         gpu_.tensor(DType::f32, {6})};
  for (int i = 0; i < 8; ++i) views[1].as<float>()[i] = static_cast<float>(i + 11);
  for (const int32_t wanted : {4, 0, 6}) {
    *views[0].as<int32_t>() = wanted;
    for (int i = 0; i < 6; ++i) views[2].as<float>()[i] = -1;
    ASSERT_EQ(library_.call("f", views), 0) << library_.error();
    ASSERT_EQ(sizes_of(&size, 1), 0) << library_.error();
    EXPECT_EQ(size, wanted);
    for (int i = 0; i < 6; ++i) EXPECT_EQ(views[2].as<float>()[i], i < wanted ? static_cast<float>(i + 11) : -1);
  }
  *views[0].as<int32_t>() = 7;
  EXPECT_NE(library_.call("f", views), 0);
  EXPECT_EQ(library_.error(), "E0610: n is 7, outside of 0 to 6; room in dim 0 of output y");
  EXPECT_EQ(sizes_of(&size, 2), -1);
  EXPECT_EQ(library_.error(), "E0701: 2 sizes are asked for, and filled_f computes 1");
  EXPECT_EQ(sizes_of(nullptr, 1), -1);
  EXPECT_EQ(library_.error(), "E0604: sizes is null");
  std::vector<TensorView> wrong = views;
  wrong[2] = gpu_.tensor(DType::f64, {6});
  gpu_.fake.calls.clear();
  EXPECT_NE(library_.call("f", wrong), 0);
  EXPECT_EQ(gpu_.fake.count("cuMemcpyDtoHAsync_v2"), 0U) << "it is refused before the size is read";
}

}  // namespace
}  // namespace codetta::test

// SPDX-License-Identifier: Apache-2.0
// Plans over several devices: what lies where, what is copied between them, the scopes of the steps, and the order.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "opt/passes.hpp"
#include "plan/device_order.hpp"
#include "plan/memory_check.hpp"
#include "support/random_program.hpp"
#include "unit/plan/bind_text.hpp"
#include "unit/plan/plan_package.hpp"

namespace {

using namespace codetta;
using plan::DeviceStep;
using plan::Plan;
using test::package_of;

const Target host{Backend::cpu, CpuIsa::generic, ""};

Result<Plan> devices_plan(const std::string& text, const Target& on = host) {
  CODETTA_TRY(const ir::Graph graph, test::bind_program_text(text));
  CODETTA_TRY(const opt::Optimized optimized, opt::optimize(graph));
  return plan::plan_program(optimized.graph, on, {}, {});
}

// Where steps run, in a list: "0 copy 1 1 copy 0", without what places and frees memory.
std::string course_of(const Plan& plan, const package::StepList& list, uint32_t device = 0) {
  std::string text;
  std::vector<uint32_t> around;
  for (const package::Step& step : list) {
    std::string word;
    if (const auto* enter = std::get_if<package::EnterDevice>(&step)) {
      around.push_back(std::exchange(device, enter->device));
    } else if (std::holds_alternative<package::ExitDevice>(step)) {
      device = around.back();
      around.pop_back();
    } else if (const auto* copy = std::get_if<package::Copy>(&step)) {
      const bool between = plan.buffers[copy->source].device != plan.buffers[copy->target].device;
      word = between ? "copy" : std::to_string(device);
    } else if (std::holds_alternative<package::LaunchKernel>(step) || std::holds_alternative<package::If>(step) ||
               std::holds_alternative<package::While>(step)) {
      word = std::to_string(device);
    }
    if (!word.empty()) text += (text.empty() ? "" : " ") + word;
  }
  return text;
}
size_t scopes_in(const package::StepList& list) {
  return static_cast<size_t>(std::count_if(list.begin(), list.end(), [](const package::Step& step) {
    return std::holds_alternative<package::EnterDevice>(step);
  }));
}
uint32_t device_of(const Plan& plan, const std::string& name) {
  for (const package::Buffer& buffer : plan.buffers) {
    if (buffer.name == name) return buffer.device;
  }
  ADD_FAILURE() << name << " is not there\n" << plan::to_string(plan);
  return 0;
}
void expect_sound(const Plan& plan, const std::map<std::string, int64_t>& sizes = {}) {
  const auto defect = package::find_defect(package_of(plan));
  EXPECT_FALSE(defect) << *defect << plan::to_string(plan);
  const auto proof = plan::check_memory(plan.temporaries, plan.memory, {sizes});
  EXPECT_TRUE(proof) << proof.error().render() << plan::to_string(plan);
}

TEST(PlanDevices, WhatIsUsedOnOneDeviceLiesThere) {
  const auto plan = devices_plan(
      "def f(x: f32[8, 16], w0: f32[16, 16], w1: f32[16, 16], b: f32[16]):\n"
      "    h = relu(x @ w0 + b)\n"
      "    y = to_device(h, 1) @ to_device(w1, 1) + to_device(b, 1)\n    return y\n");
  ASSERT_TRUE(plan) << plan.error().render();
  expect_sound(*plan);
  EXPECT_EQ(device_of(*plan, "w0"), 0U);
  EXPECT_EQ(device_of(*plan, "w1"), 1U);
  EXPECT_EQ(device_of(*plan, "b"), 0U);  // it is used on both
  EXPECT_EQ(device_of(*plan, "y"), 1U);
  const std::string course = course_of(*plan, plan->steps);
  EXPECT_EQ(std::count(course.begin(), course.end(), 'c'), 2) << course;  // h and b
  EXPECT_EQ(scopes_in(plan->steps), 1U) << plan::to_string(*plan);
  EXPECT_EQ(package_of(*plan).device_count, 2U);
}

TEST(PlanDevices, OneDeviceHasNoScopes) {
  const auto plan = devices_plan("def f(x: f32[8, 16]):\n    y = to_device(relu(x), 0)\n    return y\n");
  ASSERT_TRUE(plan) << plan.error().render();
  EXPECT_EQ(course_of(*plan, plan->steps), "0");
  EXPECT_EQ(scopes_in(plan->steps), 0U);
}

// The second stage works on the first half while the first stage works on the other: between the copies both have work.
TEST(PlanDevices, StagesOverlap) {
  const auto plan = devices_plan(
      "def f(a: f32[64, 64], b: f32[64, 64], v: f32[64, 64], w: f32[64, 64]):\n"
      "    a0 = relu(a @ v)\n    b0 = relu(b @ v)\n    w1 = to_device(w, 1)\n"
      "    a1 = relu(to_device(a0, 1) @ w1)\n    b1 = relu(to_device(b0, 1) @ w1)\n    return a1, b1\n");
  ASSERT_TRUE(plan) << plan.error().render();
  expect_sound(*plan);
  const std::string course = course_of(*plan, plan->steps);
  EXPECT_TRUE(course == "0 copy 0 1 copy 1" || course == "0 copy 1 0 copy 1") << course;
}

// A kernel has one device: what would be one map, and products that would be one kernel, are two.
TEST(PlanDevices, KernelsKeepToOneDevice) {
  const auto plan = devices_plan(
      "def f(x: f32[8, 64], v: f32[64, 16], w: f32[64, 16]):\n"
      "    s = sum(x, dim=0)\n    z = to_device(x, 1)\n"
      "    a = x @ v\n    b = z @ to_device(w, 1)\n    p = arange(8) * 2 % 8\n"
      "    c = take(x, p, dim=0) + 1.0\n    d = take(z, p, dim=0) + 1.0\n    return s, a, b, c, d\n");
  ASSERT_TRUE(plan) << plan.error().render();
  expect_sound(*plan);
  for (const char* name : {"s", "a", "c"}) EXPECT_EQ(device_of(*plan, name), 0U);
  for (const char* name : {"b", "d"}) EXPECT_EQ(device_of(*plan, name), 1U);
}

TEST(PlanDevices, BranchesAndLoopsRunWhereTheirOperandsLie) {
  const auto plan = devices_plan(
      "def yes(x):\n    y = to_device(relu(to_device(x, 0)), 1)\n    return y\n"
      "def no(x):\n    return x - 1.0\n"
      "def more(i, x):\n    return i < 3\ndef turn(i, x):\n    return i + 1, tanh(x)\n"
      "def f(p: bool[1], x: f32[8, 8]):\n    x1 = to_device(x, 1)\n    y = cond(p, yes, no, x1)\n"
      "    _, z = while_loop(more, turn, 0, y)\n    return z\n");
  ASSERT_TRUE(plan) << plan.error().render();
  expect_sound(*plan);
  EXPECT_EQ(device_of(*plan, "p"), 0U);  // a predicate is read from where it lies
  EXPECT_EQ(device_of(*plan, "x"), 1U);
  EXPECT_EQ(device_of(*plan, "z"), 1U);
}

TEST(PlanDevices, SizesAreReadFromWhereTheyLie) {
  const auto plan = devices_plan(
      "def f(x: f32[\"n\", 8], k: i64[()]):\n    j = to_device(k, 1) + 0\n    z = zeros(n - j, 8)\n"
      "    y = concat(relu(x[:j]), z, dim=0)\n    return y\n");
  ASSERT_TRUE(plan) << plan.error().render();
  expect_sound(*plan, {{"n", 8}, {"j", 3}});
  EXPECT_EQ(device_of(*plan, "y"), 0U);
}

TEST(PlanDevices, DonatedMemoryStaysOnItsDevice) {
  const auto plan = devices_plan(
      "def f(a: donated[f32[64, 64]], b: donated[f32[64, 64]]):\n    x = to_device(a, 1)\n"
      "    y = softmax(x @ x) @ x\n    z = softmax(b @ b) @ b\n    return y, z\n");
  ASSERT_TRUE(plan) << plan.error().render();
  expect_sound(*plan);
  EXPECT_EQ(device_of(*plan, "a"), 1U);
}

TEST(PlanDevices, NoBytesHaveAPoolOnTheirDevice) {
  const auto plan = devices_plan(
      "def f(x: f32[0, 8], w: f32[8, 8]):\n    h = to_device(x, 1) @ to_device(w, 1)\n    y = softmax(h) @ "
      "to_device(w, 1)\n"
      "    return y\n");
  ASSERT_TRUE(plan) << plan.error().render();
  expect_sound(*plan);
}

TEST(PlanDevices, AppleGpusHaveOne) {
  const auto apple = Target::parse("metal");
  ASSERT_TRUE(apple);
  for (const char* text :
       {"def f(x: f32[8, 8], v: f32[8]):\n    y = to_device(x, 1) * 2.0\n    z = v + 1.0\n    return y, z\n",
        "def f(x: f32[8, 8]):\n    y = to_device(x * 2.0, 1)\n    return y\n"}) {
    const auto plan = devices_plan(text, *apple);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code(), 311);
    EXPECT_NE(plan.error().render().find("one GPU"), std::string::npos) << plan.error().render();
  }
}

// A block brings what it uses, each value once, and what it makes stays visible behind it.
TEST(PlanDevices, BlocksBringWhatTheyUse) {
  const auto same = [](const std::string& a, const std::string& b) {
    const auto first = test::bind_program_text(a), second = test::bind_program_text(b);
    ASSERT_TRUE(first) << first.error().render();
    ASSERT_TRUE(second) << second.error().render();
    EXPECT_EQ(ir::print(*first), ir::print(*second));
  };
  const std::string parameters = "(x: f32[8, 8], v: f32[8, 8], w: f32[8, 8]):\n    h = relu(x @ v)\n";
  same("def f" + parameters +
           "    with device(1):\n        g = h @ w\n        y = g + h\n    z = to_device(y, 0) + x\n    return y, z\n",
       "def f" + parameters +
           "    g = to_device(h, 1) @ to_device(w, 1)\n    y = g + to_device(h, 1)\n"
           "    z = to_device(y, 0) + x\n    return y, z\n");
  same("def f" + parameters +
           "    with device(1):\n        g = h * 2.0\n        with device(2): k = g @ w\n        y = g - k\n    return "
           "y\n",
       "def f" + parameters +
           "    g = to_device(h, 1) * 2.0\n    k = to_device(g, 2) @ to_device(w, 2)\n    y = g - to_device(k, 1)\n"
           "    return y\n");
  same("def f" + parameters + "    with\tdevice (1) :\n        y = h @ w\n    return y\n",
       "def f" + parameters + "    y = to_device(h, 1) @ to_device(w, 1)\n    return y\n");
  // What lies elsewhere although the block has made it.
  same("def g(a, b):\n    with device(1):\n        return a @ b\ndef f" + parameters +
           "    with device(2):\n        k = to_device(h, 0)\n        t = g(k, v)\n        y = t + k @ w\n        u = "
           "g(h, v)\n"
           "        z = u @ w\n    return y, z\n",
       "def f" + parameters +
           "    c = to_device(h, 2)\n    k = to_device(h, 0)\n    l = to_device(k, 2)\n    e = to_device(l, 1)\n"
           "    y = to_device(e @ to_device(v, 1), 2) + l @ to_device(w, 2)\n"
           "    z = to_device(to_device(c, 1) @ to_device(v, 1), 2) @ to_device(w, 2)\n    return y, z\n");
  // The same where it is used at once.
  same("def g(a, b):\n    with device(1):\n        return a @ b\ndef f" + parameters +
           "    with device(2):\n        y = relu(g(h, v)) + to_device(h, 1) @ w\n    return y\n",
       "def f" + parameters +
           "    e = to_device(to_device(h, 1) @ to_device(v, 1), 2)\n"
           "    y = relu(e) + to_device(h, 2) @ to_device(w, 2)\n    return y\n");
  // Functions run there, whether they are inlined or not.
  const std::string functions =
      "def stage(a, b):\n    y = a @ b\n    return y\ndef more(i, a):\n    return i < 2\n"
      "def turn(i, a):\n    return i + 1, tanh(a)\n";
  same(functions + "def f" + parameters +
           "    with device(3):\n        g = stage(h, w)\n        _, y = while_loop(more, turn, 0, g)\n    return y\n",
       functions + "def f" + parameters +
           "    g = stage(to_device(h, 3), to_device(w, 3))\n    _, y = while_loop(more, turn, 0, g)\n    return y\n");
}

// Functions of a loop say once more where they run: what lies there is not copied in each turn.
TEST(PlanDevices, LoopsDoNotBringWhatIsThere) {
  const auto plan = devices_plan(
      "def more(i, a, b):\n    return i < 5\n"
      "def turn(i, a, b):\n    with device(1):\n        c = relu(a)\n        d = c @ b\n    return i + 1, d, b\n"
      "def f(a: f32[8, 8], b: f32[8, 8]):\n    with device(1):\n        _, y, z = while_loop(more, turn, 0, a, b)\n"
      "        w = y + z\n    return w\n");
  ASSERT_TRUE(plan) << plan.error().render();
  expect_sound(*plan);
  for (const package::StepList& list : plan->step_lists) {
    for (const package::Step& step : list) {
      const auto* copy = std::get_if<package::Copy>(&step);
      EXPECT_TRUE(copy == nullptr || plan->buffers[copy->source].name != "b") << plan::to_string(*plan);
    }
  }
}

// What is made of no tensor may lie anywhere, but not where another device is written.
TEST(PlanDevices, WhatIsSaidToLieSomewhereDoes) {
  const auto mixed = devices_plan("def f(x: f32[4]):\n    y = to_device(cast(arange(4), f32), 1) + x\n    return y\n");
  ASSERT_FALSE(mixed);
  EXPECT_EQ(mixed.error().code(), 234) << mixed.error().render();
  const auto there =
      devices_plan("def f(x: f32[4]):\n    y = to_device(cast(arange(4), f32), 1) + to_device(x, 1)\n    return y\n");
  ASSERT_TRUE(there) << there.error().render();
  EXPECT_EQ(course_of(*there, there->steps), "1");
  const std::string branches = "def yes(s):\n    return s + 1.0\ndef no(s):\n    return s * 2.0\n";
  const auto branch = devices_plan(
      branches + "def f(p: bool[1]):\n    y = cond(p, yes, no, to_device(cast(arange(4), f32), 1))\n    return y\n");
  ASSERT_TRUE(branch) << branch.error().render();
  expect_sound(*branch);
  EXPECT_EQ(device_of(*branch, "y"), 1U);
  // where(a > 0, i, i) is i, which needs no tensors: the branch stays where it was.
  const auto stays =
      devices_plan(branches +
                   "def f(p: bool[1], x: f32[4], w: f32[4]):\n    a = to_device(x, 1)\n    i = cast(arange(4), f32)\n"
                   "    y = cond(p, yes, no, where(a > 0.0, i, i)) * to_device(w, 1)\n    return y\n");
  ASSERT_TRUE(stays) << stays.error().render();
  expect_sound(*stays);
  EXPECT_EQ(device_of(*stays, "y"), 1U);
}

// What a size is brought to is the same size.
TEST(PlanDevices, SizesAreReadWhereverTheyLie) {
  const auto plan = devices_plan(
      "def f(x: f32[8], k: i64[()]):\n    part = to_device(x, 1)[:to_device(k, 1)] * 2.0\n"
      "    y = concat(part, to_device(zeros(8 - k), 1), dim=0) + to_device(x, 1)\n    return y\n");
  ASSERT_TRUE(plan) << plan.error().render();
  expect_sound(*plan);
  EXPECT_EQ(course_of(*plan, plan->steps).find("copy"), std::string::npos) << "k is read where it is";
}

TEST(PlanDevices, RandomProgramsHaveNoDefect) {
  const uint64_t count = CODETTA_TEST_FULL ? 4000 : 120;
  const Target targets[] = {host, *Target::parse("cuda:sm_90a"), *Target::parse("hip:gfx942")};
  size_t refused = 0, copies = 0;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    test::RandomProgramOptions options = test::drawn_options(seed);
    options.operations = 4 + static_cast<int>(seed % 12);
    options.devices = 2 + static_cast<int>(seed % 4 == 0);
    const test::RandomProgram program = test::random_program(seed, options);
    const auto plan = devices_plan(program.text, targets[seed % 3]);
    if (!plan) {  // a reason, before anything is emitted
      const uint16_t code = plan.error().code();
      ASSERT_TRUE(code >= 301 && code <= 311) << "seed " << seed << "\n" << plan.error().render() << program.text;
      ++refused;
      continue;
    }
    const auto defect = package::find_defect(package_of(*plan));
    ASSERT_FALSE(defect) << "seed " << seed << ": " << *defect << "\n" << program.text << plan::to_string(*plan);
    if (options.counts) continue;  // sizes that a run computes are none of these
    const auto proof = plan::check_memory(plan->temporaries, plan->memory, {{{"n", 3}, {"m", 8}}});
    ASSERT_TRUE(proof) << "seed " << seed << "\n" << proof.error().render() << program.text;
    copies += course_of(*plan, plan->steps).find("copy") != std::string::npos;
  }
  EXPECT_GT(copies, count / 4);
  EXPECT_LT(refused, count / 10);
}

// Memory of one device for a buffer of another is told, whatever form it has.
TEST(PlanDevices, TheCheckerKnowsDevices) {
  const auto good = devices_plan(
      "def f(x: f32[64, 64], w: f32[64, 64]):\n    h = softmax(x @ w)\n    g = to_device(h, 1)\n"
      "    y = softmax(g @ g) @ g\n    z = softmax(h @ h) @ h\n    return y, z\n");
  ASSERT_TRUE(good) << good.error().render();
  size_t planted = 0;
  for (size_t i = 0; i < good->temporaries.requests.size(); ++i) {
    plan::MemoryProblem problem = good->temporaries;
    problem.requests[i].device = 1 - problem.requests[i].device;
    EXPECT_FALSE(plan::check_memory(problem, good->memory)) << i;
    ++planted;
  }
  EXPECT_GT(planted, 2U);
  package::Package package = package_of(*good);
  ASSERT_FALSE(package::find_defect(package));
  for (package::Buffer& buffer : package.buffers) {
    if (buffer.role != package::Buffer::Role::Output) continue;
    buffer.device = 1 - buffer.device;
    const auto defect = package::find_defect(package);
    ASSERT_TRUE(defect);
    EXPECT_NE(defect->find("device"), std::string::npos) << *defect;
    buffer.device = 1 - buffer.device;
  }
}

TEST(DeviceOrder, CopiesComeWhereNobodyWaits) {
  // 0: a, 1: b on device 0; 2, 3: copies of these; 4, 5: what device 1 makes of them.
  std::vector<DeviceStep> steps(6);
  for (size_t s : {0, 1}) steps[s] = {{0}, false, 10, {}};
  for (size_t s : {2, 3}) steps[s] = {{0, 1}, true, 1, {static_cast<uint32_t>(s - 2)}};
  for (size_t s : {4, 5}) steps[s] = {{1}, false, 10, {static_cast<uint32_t>(s - 2)}};
  const std::vector<uint32_t> order = plan::order_for_devices(steps);
  ASSERT_EQ(order.size(), 6U);
  EXPECT_EQ(plan::microseconds_of(steps, order), 32);
  EXPECT_EQ(plan::microseconds_of(steps, {0, 1, 2, 3, 4, 5}), 42);
}

TEST(DeviceOrder, EachBehindWhatItNeeds) {
  uint64_t state = 1;
  const auto pick = [&](uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  };
  for (int turn = 0; turn < 200; ++turn) {
    std::vector<DeviceStep> steps(1 + pick(40));
    std::vector<uint32_t> as_written;
    for (uint32_t s = 0; s < steps.size(); ++s) {
      as_written.push_back(s);
      steps[s].microseconds = static_cast<double>(1 + pick(20));
      steps[s].is_copy = pick(3) == 0;
      steps[s].devices = {static_cast<uint32_t>(pick(2))};
      if (steps[s].is_copy) steps[s].devices = {0, 1};
      for (uint32_t b = 0; b < s; ++b) {
        if (pick(6) == 0) steps[s].behind.push_back(b);
      }
    }
    const std::vector<uint32_t> order = plan::order_for_devices(steps);
    std::vector<size_t> place(steps.size(), SIZE_MAX);
    for (size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
    for (size_t s = 0; s < steps.size(); ++s) {
      ASSERT_NE(place[s], SIZE_MAX);
      for (const uint32_t before : steps[s].behind) EXPECT_LT(place[before], place[s]);
    }
    double least = 0;  // no order is shorter than what one device has to do
    for (uint32_t device : {0U, 1U}) {
      double own = 0;
      for (const DeviceStep& step : steps)
        own += std::count(step.devices.begin(), step.devices.end(), device) != 0 ? step.microseconds : 0;
      least = std::max(least, own);
    }
    EXPECT_GE(plan::microseconds_of(steps, order), least);
  }
}

TEST(DeviceOrder, StepsThatWaitForEachOtherHaveNone) {
  EXPECT_TRUE(plan::order_for_devices({{{0}, false, 1, {1}}, {{1}, false, 1, {0}}}).empty());
}

}  // namespace

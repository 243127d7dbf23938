// SPDX-License-Identifier: Apache-2.0
// Plans of programs with branches, loops and writes at indices: the packages that they make have no defect, and what
// lives across a branch or a loop keeps its place.
#include <gtest/gtest.h>

#include "plan/memory_check.hpp"
#include "support/random_program.hpp"
#include "unit/plan/bind_text.hpp"
#include "unit/plan/plan_package.hpp"

namespace {

using namespace codetta;
using plan::Plan;
using test::package_of;

const Target target{Backend::cpu, CpuIsa::generic, ""};

Result<Plan> plan_of(const std::string& text, const Target& on = target) {
  CODETTA_TRY(const ir::Graph graph, test::bind_program_text(text));
  return plan::plan_program(graph, on, {}, {});
}

std::string steps_of(const Plan& plan) {
  const std::string text = plan::to_string(plan);
  const size_t begin = text.find("steps:\n") + 7;
  return text.substr(begin, text.find("memory:\n") - begin);
}

TEST(PlanControl, RandomProgramsHaveNoDefect) {
  const uint64_t count = CODETTA_TEST_FULL ? 20000 : 400;
  size_t lists = 0, refused = 0;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    test::RandomProgramOptions options = test::drawn_options(seed);
    options.operations = 4 + static_cast<int>(seed % 12);
    options.control = true;
    options.counts = options.parts = options.inner_counts = false;  // sizes that a run computes are none of the proof's
    options.devices = 1;
    const test::RandomProgram program = test::random_program(seed, options);
    const auto plan = plan_of(program.text);
    if (!plan) {  // a reason, before anything is emitted
      const uint16_t code = plan.error().code();
      ASSERT_TRUE(code >= 301 && code <= 311) << "seed " << seed << "\n" << plan.error().render() << program.text;
      ++refused;
      continue;
    }
    const auto defect = package::find_defect(package_of(*plan));
    ASSERT_FALSE(defect) << "seed " << seed << ": " << *defect << "\n" << program.text << plan::to_string(*plan);
    const auto proof = plan::check_memory(plan->temporaries, plan->memory, {{{"n", 3}, {"m", 8}}});
    ASSERT_TRUE(proof) << "seed " << seed << "\n" << proof.error().render() << program.text;
    lists += plan->step_lists.size();
    // Equal texts give equal plans.
    ASSERT_EQ(plan::to_string(*plan), plan::to_string(*plan_of(program.text))) << "seed " << seed;
  }
  EXPECT_GT(lists, count / 4);
  EXPECT_LT(refused, count / 10);
}

// x is needed behind the branch, h only in it: h's bytes are not x's, whichever branch runs.
TEST(PlanControl, WhatLivesAcrossABranchKeepsItsPlace) {
  const auto plan = plan_of(
      "def yes(x):\n    h = relu(x @ x)\n    return h @ x\n"
      "def no(x):\n    return x - 1.0\n"
      "def f(p: bool[1], a: f32[64, 64]):\n    x = index_put(a, 3, a[0, :])\n    y = cond(p, yes, no, x)\n"
      "    z = index_put(x, 5, y[1, :])\n    return z\n");
  ASSERT_TRUE(plan) << plan.error().render();
  const auto request = [&](const std::string& name) -> const plan::MemoryRequest& {
    for (const plan::MemoryRequest& r : plan->temporaries.requests) {
      if (plan->buffers[r.buffer].name == name) return r;
    }
    ADD_FAILURE() << name << " is not there\n" << plan::to_string(*plan);
    return plan->temporaries.requests[0];
  };
  ASSERT_EQ(plan->temporaries.scopes.size(), 3U);
  std::string outer;
  for (const package::Buffer& buffer : plan->buffers) {
    if (buffer.role == package::Buffer::Role::Temporary && buffer.name.find('_') == std::string::npos &&
        buffer.shape.size() == 2 && outer.empty())
      outer = buffer.name;
  }
  const plan::MemoryRequest& x = request(outer);
  EXPECT_EQ(x.scope, 0U);
  size_t inner = 0;
  for (size_t i = 0; i < plan->temporaries.requests.size(); ++i) {
    const plan::MemoryRequest& r = plan->temporaries.requests[i];
    if (r.scope == 0) continue;
    ++inner;
    EXPECT_LT(x.first, r.first);
    EXPECT_GT(x.last, r.last);
  }
  EXPECT_GT(inner, 0U);
  EXPECT_FALSE(package::find_defect(package_of(*plan)));
}

size_t copies_in(const std::string& steps) {
  size_t copies = 0;
  for (size_t at = steps.find("copy "); at != std::string::npos; at = steps.find("copy ", at + 1)) ++copies;
  return copies;
}

TEST(PlanControl, LoopsKeepWhatTheyCarry) {
  const auto plan = plan_of(
      "def more(i, x, w):\n    return i < 4\n"
      "def turn(i, x, w):\n    return i + 1, relu(x @ w), w\n"
      "def f(x: f32[8, 8], w: f32[8, 8]):\n    i, y, w2 = while_loop(more, turn, 0, x, w)\n    return y\n");
  ASSERT_TRUE(plan) << plan.error().render();
  // The product reads all of the old value: its result is copied over. The count is written at once.
  const std::string steps = steps_of(*plan);
  const std::string loop = steps.substr(steps.find("while"));
  EXPECT_EQ(copies_in(loop), 1U) << steps;
  EXPECT_FALSE(package::find_defect(package_of(*plan)));
}

const std::vector<std::string> everywhere{"cpu:generic", "cuda:sm_90a", "hip:gfx942"};

// Tensors of the caller's are read by the branches, and outputs written by them: nothing lies in between.
TEST(PlanControl, BranchesReadAndWriteWhereTensorsLie) {
  for (const std::string& on : everywhere) {
    SCOPED_TRACE(on);
    const auto plan = plan_of(
        "def a(x, w):\n    return relu(x @ w), x * 0.5\ndef b(x, w):\n    return x + 1.0, x * 2.0\n"
        "def f(x: f32[\"m\", 8], w: f32[8, 8], go: bool):\n    y, z = cond(go, a, b, x, w)\n    return y, z\n",
        Target::parse(on).value());
    ASSERT_TRUE(plan) << plan.error().render();
    EXPECT_TRUE(plan->temporaries.requests.empty()) << plan::to_string(*plan);
    EXPECT_EQ(copies_in(steps_of(*plan)), 0U) << plan::to_string(*plan);
    ASSERT_EQ(plan->step_lists.size(), 2U);
    EXPECT_FALSE(package::find_defect(package_of(*plan)));
  }
}

// Of what a loop is given it copies what it changes, once, to where it returns it; w it reads where it lies.
TEST(PlanControl, LoopsReadWhereTensorsLie) {
  for (const std::string& on : everywhere) {
    SCOPED_TRACE(on);
    const auto plan = plan_of(
        "def more(i, x, w):\n    return i < 4\n"
        "def turn(i, x, w):\n    return i + 1, x * sum(w, dim=0), w\n"
        "def f(x: f32[\"m\", 8], w: f32[8, 8]):\n    i, y, v = while_loop(more, turn, 0, x, w)\n    return y\n",
        Target::parse(on).value());
    ASSERT_TRUE(plan) << plan.error().render();
    const std::string steps = steps_of(*plan);
    EXPECT_NE(steps.find("copy x to y"), std::string::npos) << steps;
    EXPECT_EQ(steps.find("copy w"), std::string::npos) << steps;
    EXPECT_EQ(copies_in(steps.substr(steps.find("while"))), 0U) << steps;
    for (const plan::MemoryRequest& request : plan->temporaries.requests)
      EXPECT_LE(request.hint, 256) << plan->buffers[request.buffer].name << " has the bytes of w or x\n" << steps;
    EXPECT_FALSE(package::find_defect(package_of(*plan)));
  }
}

// How many copies a plan has, and how many values lie where others ended; or what is wrong with it.
std::string copies_and_reuses(const Result<Plan>& plan) {
  if (!plan) return plan.error().render();
  if (const auto defect = package::find_defect(package_of(*plan))) return *defect;
  const auto proof = plan::check_memory(plan->temporaries, plan->memory, {{{"m", 3}}, {{"m", 0}}});
  if (!proof) return proof.error().render();
  return std::to_string(copies_in(steps_of(*plan))) + " " + std::to_string(plan->memory.report.in_place);
}

// What a branch hands on as it is costs nothing where its operand ends with the branches and the other one may write
// there.
TEST(PlanControl, BranchesMakeResultsWhereOperandsEnd) {
  for (const std::string& on : everywhere) {
    SCOPED_TRACE(on);
    const auto copies = [&](const std::string& other, const std::string& parameter = "f32[\"m\", 64]",
                            const std::string& result = "relu(z @ w)") {
      const bool donated = parameter.rfind("donated", 0) == 0;
      const auto plan =
          plan_of("def keep(p, y):\n    return y\ndef other(p, y):\n    return " + other +
                      "\ndef f(p: bool, x: " + parameter + ", w: f32[64, 64]):\n    y = " + (donated ? "x" : "x @ w") +
                      "\n    z = cond(p, keep, other, p, y)\n    v = " + result + "\n    return v\n",
                  Target::parse(on).value());
      return copies_and_reuses(plan);
    };
    EXPECT_EQ(copies("exp(y)"), "0 1");
    EXPECT_EQ(copies("index_put(y, 1, sum(y, dim=0, keepdim=False))"), "0 1");
    EXPECT_EQ(copies("zeros(m, 64)"), "0 1");
    EXPECT_EQ(copies("exp(y)", "donated[f32[\"m\", 64]]"), "0 1");
    EXPECT_EQ(copies("cond(p, keep, keep, p, y)"), "0 1");
    EXPECT_EQ(copies("y * sum(y, dim=0)"), "0 1");  // the sums are known before
    // Where the operand is read behind the branches, or by the other one while it writes, it keeps its place.
    EXPECT_EQ(copies("exp(y)", "f32[\"m\", 64]", "relu(z @ w) + y"), "1 0");
    EXPECT_EQ(copies("concat(y[:, 1:], y[:, :1], dim=1)"), "1 0");
    // Outputs are the caller's, which GPUs write by kernels.
    EXPECT_EQ(copies("exp(y)", "f32[\"m\", 64]", "z"), on.rfind("cpu", 0) == 0 ? "1 0" : "0 0");
  }
}

// One result alone takes an operand over: for another one that would be a copy.
TEST(PlanControl, BranchesOfSeveralResultsTakeAnOperandOverOnce) {
  for (const std::string& on : everywhere) {
    SCOPED_TRACE(on);
    const auto copies = [&](const std::string& one, const std::string& other) {
      const auto plan = plan_of("def one(y, x):\n    return " + one + "\ndef other(y, x):\n    return " + other +
                                    "\ndef f(p: bool, x: f32[\"m\", 64], w: f32[64, 64]):\n    y = x @ w\n"
                                    "    z = w @ w\n    a, b = cond(p, one, other, y, z)\n"
                                    "    v = relu(a @ w)\n    u = relu(b @ w)\n    return u, v\n",
                                Target::parse(on).value());
      return copies_and_reuses(plan);
    };
    EXPECT_EQ(copies("exp(y), y * 2.0", "y + 1.0, tanh(y)"), "0 1");
    EXPECT_EQ(copies("y, exp(y)", "y + 1.0, tanh(y)"), "0 1");
    EXPECT_EQ(copies("exp(y), tanh(x)", "tanh(y), x"), "0 2");
    EXPECT_EQ(copies("exp(y), y", "y, y"), "1 1");  // what both are cannot lie in one place
  }
}

// What both branches write where they read it becomes what is carried at once; not where one of them needs it behind.
TEST(PlanControl, BranchesInLoopsWriteWhatIsCarried) {
  for (const std::string& on : everywhere) {
    SCOPED_TRACE(on);
    const auto copies = [&](const std::string& other) {
      const auto plan = plan_of(
          "def more(i, s):\n    return i < 4\ndef half(s):\n    return s * 0.5\ndef other(s):\n    return " + other +
              "\ndef turn(i, s):\n    return i + 1, cond(sum(s) > 0.0, half, other, s)\n"
              "def f(x: f32[8, 8]):\n    y = exp(x)\n    i, z = while_loop(more, turn, 0, y)\n    v = z + 1.0\n    "
              "return v\n",
          Target::parse(on).value());
      if (!plan) return plan.error().render();
      if (const auto defect = package::find_defect(package_of(*plan))) return *defect;
      const std::string steps = steps_of(*plan);
      return std::to_string(copies_in(steps.substr(steps.find("while"))));
    };
    EXPECT_EQ(copies("s"), "0");
    EXPECT_EQ(copies("exp(s)"), "0");
    EXPECT_EQ(copies("s @ s"), "1");
    EXPECT_EQ(copies("transpose(s, 0, 1) + 0.0"), "1");
    EXPECT_EQ(copies("relu(exp(s) @ s) + s"), "1");
  }
}

TEST(PlanControl, NestedDeeperThanRunsIsRefused) {
  std::string chain = "def e(x):\n    return x * 0.5\ndef d0(x):\n    return x + 1.0\n";
  for (int d = 1; d <= 66; ++d) {
    chain += "def d" + std::to_string(d) + "(x):\n    y = cond(sum(x) > 0.0, d" + std::to_string(d - 1) +
             ", e, x)\n    return y\n";
  }
  chain += "def f(x: f32[4]):\n    y = d66(x)\n    return y\n";
  const auto plan = plan_of(chain);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code(), 311) << plan.error().render();
  EXPECT_NE(plan.error().render().find("nested more than 64 deep"), std::string::npos) << plan.error().render();
}

TEST(PlanControl, GpusRunBranchesLoopsAndWritesAtIndices) {
  const Target gpu{Backend::cuda, CpuIsa::generic, "sm_90a"};
  const auto loop = plan_of(
      "def more(i, x):\n    return i < 4\ndef turn(i, x):\n    return i + 1, x * 0.5\n"
      "def f(x: f32[8, 8]):\n    i, y = while_loop(more, turn, 0, x)\n    return y\n",
      gpu);
  ASSERT_TRUE(loop) << loop.error().render();
  EXPECT_FALSE(package::find_defect(package_of(*loop)));
  for (const char* body :
       {"scatter(x, i, v)", "call_extern(\"g\", x, out=\"f32[8, 8]\")", "index_put(x, 1, v[0, :])"}) {
    const auto planned = plan_of("def f(x: f32[8, 8], i: i64[2, 8], v: f32[2, 8]):\n    s = sum(v) + sum(i)\n    y = " +
                                     std::string(body) + "\n    return y, s\n",
                                 gpu);
    EXPECT_TRUE(planned) << body << planned.error().render();
  }
  // Also what a function allocates in a branch or in a turn, with a size that only it knows.
  for (const Target& of_gpu : {gpu, Target{Backend::hip, CpuIsa::generic, "gfx942"}}) {
    const auto allocated = plan_of(
        "def one(i, x):\n    return i, sum(call_extern(\"g\", x, out=\"f32[k, 8]\", form=\"alloc\"), dim=0) + x\n"
        "def other(i, x):\n    return i, x * 2.0\n"
        "def more(i, x):\n    return i < 4\n"
        "def turn(i, x):\n    j, y = cond(i % 2 == 0, one, other, i, x)\n    return j + 1, y\n"
        "def f(x: f32[8, 8]):\n    i, y = while_loop(more, turn, 0, x)\n    return y\n",
        of_gpu);
    ASSERT_TRUE(allocated) << allocated.error().render();
    EXPECT_FALSE(package::find_defect(package_of(*allocated)));
  }
}

}  // namespace

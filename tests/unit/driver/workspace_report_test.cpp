// SPDX-License-Identifier: Apache-2.0
// What reports say of the workspace is what runs take, and text and JSON say the same.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "codetta/memory.hpp"
#include "unit/driver/program_check.hpp"

namespace codetta::test {
namespace {

struct Case {
  const char* what;
  const char* text;
};
const std::vector<Case> cases{
    {"a chain",
     "def f(x: f32[\"n\", 96], a: f32[96, 64], w: f32[64, 48]):\n    h = relu(x @ a)\n    y = h @ w\n    return y\n"},
    {"reductions behind a product",
     "def f(x: f32[\"n\", 96], a: f32[96, 64], w: f32[64, 48]):\n    y = softmax((x @ a) @ w, dim=-1)\n    return y\n"},
    {"columns",
     "def f(x: f32[\"n\", 96], a: f32[96, 64], w: f32[64, 48]):\n    h = x @ a\n    s = sum(h, dim=0)\n"
     "    y = (h - s) @ w\n    return y\n"},
    {"a map with reductions of rows",
     "def f(x: f32[\"n\", 96], a: f32[96, 64], w: f32[64, 48]):\n    y = softmax(x, dim=-1) @ (a @ w)\n    return y\n"},
};

int64_t workspace_of(const CompiledProgram& program, int64_t n) {
  std::vector<Tensor> data;
  std::vector<NamedArgument> arguments;
  const std::vector<std::pair<std::string, Dims>> all{{"x", {n, 96}}, {"a", {96, 64}}, {"w", {64, 48}}, {"y", {n, 48}}};
  for (const auto& [name, shape] : all) {
    data.push_back(Tensor::make(f32, shape).value());
    arguments.push_back({name, data.back().view()});
  }
  return program.prepare(arguments).value().workspace_size();
}

TEST(WorkspaceReport, SaysWhatRunsTake) {
  for (const bool compiles : {false, true}) {
    for (const int threads : {1, 3}) {
      Context context = Context::make({.cache_enabled = false, .no_compiler = !compiles, .threads = threads}).value();
      for (const Case& one : cases) {
        for (const int64_t n : {1, 40, 333}) {
          const Program program = Program::parse(one.text, "p.py").value();
          const CompiledProgram compiled = compile(program, Target::host(), {{"n", n}}, context).value();
          const std::string said = memory_report(program, Target::host(), {{"n", n}}, true, context).value();
          const auto json = nlohmann::json::parse(said);
          const auto& place = json["workspace"]["devices"][0];
          EXPECT_EQ(place["bytes"].get<int64_t>(), workspace_of(compiled, n)) << one.what << ", n = " << n << "\n"
                                                                              << said;
          EXPECT_EQ(place["bytes"], place["temporaries"].get<int64_t>() + place["scratch"].get<int64_t>());
          int64_t most = 0;
          for (const auto& launch : json["scratch"]) {
            most = std::max(most, launch["bytes"].get<int64_t>());
            EXPECT_EQ(launch["origins"].empty(), false);
          }
          EXPECT_EQ(place["scratch"].get<int64_t>(), most);
          const std::string text = memory_report(program, Target::host(), {{"n", n}}, false, context).value();
          EXPECT_EQ(text, compiled.emit(Stage::Memory).value());
          EXPECT_EQ(text, program.emit(Stage::Memory, Target::host(), {{"n", n}}, context).value());
          const std::string line = "workspace: " + std::to_string(place["bytes"].get<int64_t>()) + " bytes";
          EXPECT_NE(text.find(line), std::string::npos) << text;
          for (const auto& launch : json["scratch"])
            EXPECT_NE(text.find(launch["kernel"].get<std::string>()), std::string::npos) << text;
          const std::string page = compiled.html_report().value();
          EXPECT_NE(page.find("The workspace takes " + std::to_string(place["bytes"].get<int64_t>()) + " bytes"),
                    std::string::npos);
        }
      }
    }
  }
}

// Of GPUs that are not there: split sums, kept accumulators and packed factors are known from sizes.
TEST(WorkspaceReport, KnowsGpusThatAreNotThere) {
  Context context = Context::make({.cache_enabled = false}).value();
  const Program program = Program::parse(
                              "def f(x: bf16[\"n\", 8192], w: bf16[8192, 512]):\n"
                              "    h = x @ w\n    m = amax(h, dim=0)\n    y = h - m\n    return y\n",
                              "p.py")
                              .value();
  for (const char* arch : {"sm_90a", "sm_80", "gfx942"}) {
    const Target target{arch[0] == 'g' ? Backend::hip : Backend::cuda, {}, arch};
    const auto said = memory_report(program, target, {{"n", 64}}, true, context);
    ASSERT_TRUE(said) << said.error().render();
    const auto json = nlohmann::json::parse(*said);
    const auto& place = json["workspace"]["devices"][0];
    EXPECT_GT(place["scratch"].get<int64_t>(), 0) << *said;
    EXPECT_EQ(place["bytes"],
              place["temporaries"].get<int64_t>() + place["scratch"].get<int64_t>() + place["counters"].get<int64_t>());
    EXPECT_EQ(json["workspace"]["symbolic"], true);
    EXPECT_NE(explain(program, target, {{"n", 64}}, true, context).value().find("\"workspace\""), std::string::npos);
  }
}

// What a branch launches takes room where it runs.
TEST(WorkspaceReport, BranchesAreOfTheDeviceOfTheirStep) {
  Context context = Context::make({.cache_enabled = false}).value();
  const Program program = Program::parse(
                              "def yes(a, b):\n    h = a @ b\n    r = h - amax(h, dim=0)\n    return r\n"
                              "def no(a, b):\n    h = a @ b\n    return h\n"
                              "def f(x: bf16[64, 8192], w: bf16[8192, 512], flag: bool):\n"
                              "    y = cond(flag, yes, no, to_device(x, 1), to_device(w, 1))\n"
                              "    z = to_device(y, 0)\n    return z\n",
                              "p.py")
                              .value();
  const auto said = memory_report(program, {Backend::cuda, {}, "sm_90a"}, {}, true, context);
  ASSERT_TRUE(said) << said.error().render();
  const auto json = nlohmann::json::parse(*said);
  const auto& places = json["workspace"]["devices"];
  ASSERT_EQ(places.size(), 2U) << *said;
  EXPECT_EQ(places[0]["bytes"].get<int64_t>(), 0) << *said;
  EXPECT_GT(places[1]["scratch"].get<int64_t>(), 0) << *said;
  EXPECT_EQ(json["scratch"].size(), 2U);
  for (const auto& launch : json["scratch"]) EXPECT_EQ(launch["device"].get<int64_t>(), 1) << *said;
}

TEST(WorkspaceReport, OfAKernel) {
  Context context = Context::make({.cache_enabled = false, .no_compiler = true, .threads = 2}).value();
  Tensor a = Tensor::make(f32, {64, 96}).value(), b = Tensor::make(f32, {96, 80}).value(),
         d = Tensor::make(f32, {64, 80}).value();
  const EpilogueArguments epilogue(
      "def f(accum):\n    s = sum(accum * accum, dim=-1)\n    D = accum / (s + 2.0)\n    return D\n",
      {{"D", d.view()}});
  const GemmArguments arguments{
      .A = a.view(), .B = b.view(), .out = d.view(), .accumulator = f32, .epilogue = epilogue};
  const KernelList kernels = find_kernels(arguments, Target::host(), {}, context).value();
  ASSERT_GT(kernels.size(), 0U);
  const auto json = nlohmann::json::parse(memory_report(kernels[0], true).value());
  const int64_t wanted = kernels[0].prepare(arguments).value().workspace_size();
  EXPECT_EQ(json["workspace"]["devices"][0]["bytes"].get<int64_t>(), wanted);
  EXPECT_EQ(memory_report(kernels[0]).value(), kernels[0].emit(Stage::Memory).value());
  EXPECT_EQ(memory_report(Kernel(), true).error().code(), 608);
}

}  // namespace
}  // namespace codetta::test

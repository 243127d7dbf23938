// SPDX-License-Identifier: Apache-2.0
// Kernels of a program are compiled once each and at the same time; a failure names its kernel; nothing is left behind.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "codetta/codetta.hpp"
#include "driver/program_state.hpp"

namespace codetta {
namespace {

const char* const layers =
    "def mlp(x: f32[\"m\", 24], w1: f32[24, 24], b1: f32[24], w2: f32[24, 24], b2: f32[24], w3: f32[24, 7]):\n"
    "    h = relu(x @ w1 + b1)\n"
    "    g = relu(h @ w2 + b2)\n"
    "    y = tanh(g @ w3)\n"
    "    return y\n";

class ProgramCompile : public testing::Test {
 protected:
  ProgramCompile() {
    std::string name = (std::filesystem::temp_directory_path() / "codetta-programs-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~ProgramCompile() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // A compiler that does `body` where a kernel is compiled.
  std::string compiler(const std::string& body) {
    const std::string path = folder_ + "/c++-" + std::to_string(++scripts_);
    std::ofstream(path) << "#!/bin/sh\ncase \"$*\" in *-shared*)\n" << body << "\n;; esac\nexec c++ \"$@\"\n";
    EXPECT_EQ(::chmod(path.c_str(), 0755), 0);
    return path;
  }
  Context context(ContextOptions options = {}) {
    options.cache_dir = folder_ + "/cache";
    options.threads = 2;
    return Context::make(options).value();
  }
  // Files in the cache that are no entries: what a writer or a compiler has left.
  std::vector<std::string> leftovers() const {
    std::vector<std::string> left;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ + "/cache")) {
      const std::string name = entry.path().filename().string();
      if (name.find("tmp") != std::string::npos || name.find("part") != std::string::npos ||
          name.find("codetta-cc") != std::string::npos)
        left.push_back(name);
    }
    return left;
  }

  std::string folder_;
  int scripts_ = 0;
};

struct Told {
  std::vector<CompileProgress> all;
  std::set<std::thread::id> threads;
  std::function<void(const CompileProgress&)> hook() {
    return [this](const CompileProgress& p) {
      all.push_back(p);
      threads.insert(std::this_thread::get_id());
    };
  }
};

TEST_F(ProgramCompile, EqualLayersCompileOnce) {
  const Program program = Program::parse(layers, "mlp.py").value();
  Told cold, warm;
  {
    Context first = context();
    ASSERT_TRUE(compile(program, Target::host(), {}, first, cold.hook()));
  }
  Context second = context();
  const auto compiled = compile(program, Target::host(), {}, second, warm.hook());
  ASSERT_TRUE(compiled) << compiled.error().render();
  ASSERT_EQ(cold.all.size(), 2U) << "two layers are one source, the third is another";
  ASSERT_EQ(warm.all.size(), 2U);
  std::set<std::string> names;
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(cold.all[i].done, i + 1);
    EXPECT_EQ(cold.all[i].total, 2U);
    EXPECT_GT(cold.all[i].seconds, 0);
    EXPECT_EQ(warm.all[i].seconds, 0) << "it was found";
    EXPECT_TRUE(names.insert(cold.all[i].kernel).second);
    EXPECT_TRUE(cold.all[i].kernel.starts_with("codetta_")) << cold.all[i].kernel;
  }
  EXPECT_EQ(cold.threads, std::set{std::this_thread::get_id()});

  // One kernel, launched twice, with its own weights each time.
  const int64_t m = 37;
  std::vector<Tensor> owned;
  std::vector<NamedArgument> arguments;
  for (const auto& [name, shape] : {std::pair<const char*, Dims>{"x", {m, 24}},
                                    {"w1", {24, 24}},
                                    {"b1", {24}},
                                    {"w2", {24, 24}},
                                    {"b2", {24}},
                                    {"w3", {24, 7}},
                                    {"y", {m, 7}}}) {
    owned.push_back(Tensor::make(f32, shape).value());
    fill_random(owned.back().view(), owned.size());
    arguments.push_back({name, owned.back().view()});
  }
  fill_poison(owned[6].view());
  const auto ran = compiled->run(arguments);
  ASSERT_TRUE(ran) << ran.error().render();
  const auto at = [&](size_t tensor, int64_t i) { return double{owned[tensor].view().as<float>()[i]}; };
  for (int64_t r = 0; r < m; ++r) {
    double h[24], g[24];
    for (int64_t c = 0; c < 24; ++c) {
      h[c] = at(2, c);
      for (int64_t k = 0; k < 24; ++k) h[c] += at(0, r * 24 + k) * at(1, k * 24 + c);
      h[c] = std::max(h[c], 0.0);
    }
    for (int64_t c = 0; c < 24; ++c) {
      g[c] = at(4, c);
      for (int64_t k = 0; k < 24; ++k) g[c] += h[k] * at(3, k * 24 + c);
      g[c] = std::max(g[c], 0.0);
    }
    for (int64_t c = 0; c < 7; ++c) {
      double y = 0;
      for (int64_t k = 0; k < 24; ++k) y += g[k] * at(5, k * 7 + c);
      ASSERT_NEAR(at(6, r * 7 + c), std::tanh(y), 1e-4) << r << ", " << c;
    }
  }
}

TEST_F(ProgramCompile, TheListingSaysWhatEachKernelStandsFor) {
  Context here = context();
  const auto compiled = compile(Program::parse(layers, "mlp.py").value(), Target::host(), {}, here);
  ASSERT_TRUE(compiled);
  const std::string listing = compiled->emit(Stage::Source).value();
  for (const char* wanted : {"// mlp.py:2: h = relu(x @ w1 + b1)\n//   not in memory: ",
                             "// mlp.py:3: g = relu(h @ w2 + b2)\n", "// mlp.py:4: y = tanh(g @ w3)\n"})
    EXPECT_NE(listing.find(wanted), std::string::npos) << wanted;
  size_t sources = 0;
  for (size_t at = listing.find("// ---- "); at != std::string::npos; at = listing.find("// ---- ", at + 1)) ++sources;
  EXPECT_EQ(sources, 2U);
  // Equal programs with other lines are one entry of the cache, and each is told its own.
  Context other = context();
  const auto moved =
      compile(Program::parse("# a line more\n" + std::string(layers), "moved.py").value(), Target::host(), {}, other);
  ASSERT_TRUE(moved);
  EXPECT_NE(moved->emit(Stage::Source)->find("// moved.py:3: h = relu(x @ w1 + b1)\n"), std::string::npos);
}

TEST_F(ProgramCompile, SeveralCompilersRunAtTheSameTime) {
  // Each waits until another one runs, for ten seconds at most.
  const std::string here = folder_ + "/running";
  std::filesystem::create_directory(here);
  ContextOptions options;
  options.compiler = compiler("touch " + here + "/$$; i=0; while [ $(ls " + here +
                              " | wc -l) -lt 2 ] && [ $i -lt 500 ]; do sleep 0.02; i=$((i+1)); done; "
                              "[ $i -lt 500 ] || exit 1");
  Context both = context(options);
  const auto compiled = compile(Program::parse(layers, "mlp.py").value(), Target::host(), {}, both);
  EXPECT_TRUE(compiled) << compiled.error().render();
}

TEST_F(ProgramCompile, AFailingKernelIsNamed) {
  ContextOptions options;
  const std::string source = folder_ + "/source-$$";  // it comes by standard input
  options.compiler =
      compiler("cat >" + source + "; grep -q ct_tanh " + source +
               " && { echo '<stdin>:1:1: error: no tanh today' >&2; exit 1; }; exec c++ \"$@\" <" + source);
  Context failing = context(options);
  const auto compiled = compile(Program::parse(layers, "mlp.py").value(), Target::host(), {}, failing);
  ASSERT_FALSE(compiled);
  EXPECT_EQ(compiled.error().code(), 504) << compiled.error().render();
  EXPECT_NE(compiled.error().render().find("codetta_tanh_"), std::string::npos) << compiled.error().render();
  EXPECT_TRUE(leftovers().empty());
  // The other kernel is there.
  Told told;
  Context again = context();
  ASSERT_TRUE(compile(Program::parse(layers, "mlp.py").value(), Target::host(), {}, again, told.hook()));
}

TEST_F(ProgramCompile, WithoutCompilingWhatIsThereServes) {
  const Program program = Program::parse(layers, "mlp.py").value();
  ContextOptions options;
  options.no_jit = true;
  {
    Context none = context(options);
    const auto compiled = compile(program, Target::host(), {}, none);
    ASSERT_FALSE(compiled);
    EXPECT_EQ(compiled.error().code(), 503);
    EXPECT_NE(compiled.error().render().find("codetta_add_relu_"), std::string::npos) << compiled.error().render();
  }
  {
    Context makes = context();
    ASSERT_TRUE(compile(program, Target::host(), {}, makes));
  }
  Context finds = context(options);
  const auto compiled = compile(program, Target::host(), {}, finds);
  EXPECT_TRUE(compiled) << compiled.error().render();
}

TEST_F(ProgramCompile, ACancelledCompileLeavesNothing) {
  std::atomic<bool> cancel = false;
  ContextOptions options;
  const std::string started = folder_ + "/started";
  options.compiler = compiler("echo $$ >>" + started + "; exec sleep 300");
  options.cancel = &cancel;
  Context cancelled = context(options);
  std::thread ends([&] {
    for (int i = 0; i < 3000 && !std::filesystem::exists(started); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    cancel = true;
  });
  const auto begin = std::chrono::steady_clock::now();
  const auto compiled = compile(Program::parse(layers, "mlp.py").value(), Target::host(), {}, cancelled);
  ends.join();
  ASSERT_FALSE(compiled);
  EXPECT_EQ(compiled.error().code(), 510) << compiled.error().render();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(100)) << "the compilers would take 300";
  EXPECT_TRUE(leftovers().empty());
  std::ifstream processes(started);
  for (pid_t process = 0; processes >> process;) EXPECT_NE(::kill(process, 0), 0) << process << " still runs";
}

TEST_F(ProgramCompile, ForSeveralSizes) {
  const Program program =
      Program::parse("def p(x: f32[\"m\", 256], w: f32[256, \"n\"]):\n    y = relu(x @ w)\n    return y\n", "p.py")
          .value();
  Context on = context();
  const Target target = Target::host();
  const auto small = compile(program, target, {{"m", 1}, {"n", 64}}, on).value();
  const auto large = compile(program, target, {{"m", 512}, {"n", 64}}, on).value();
  const auto both = compile(program, target, {{"m", 512}, {"n", 64}, {"m", 1}}, on).value();
  EXPECT_EQ(both.emit(Stage::Plan).value(), small.emit(Stage::Plan).value());
  EXPECT_NE(both.emit(Stage::Plan).value(), large.emit(Stage::Plan).value());
  for (const int64_t m : {1, 22, 23, 700}) {
    const Tensor x = Tensor::make(f32, {m, 256}).value(), w = Tensor::make(f32, {256, 64}).value();
    fill_random(x, 1), fill_random(w, 2);
    std::vector<Tensor> results;
    std::vector<int64_t> workspaces;
    for (const CompiledProgram* one : {&both, m <= 22 ? &small : &large}) {
      results.push_back(Tensor::make(f32, {m, 64}).value());
      auto execution = one->prepare({{"x", x}, {"w", w}, {"y", results.back()}});
      ASSERT_TRUE(execution) << execution.error().message();
      workspaces.push_back(execution->workspace_size());
      ASSERT_TRUE(execution->run());
    }
    EXPECT_EQ(workspaces[0], workspaces[1]) << m;
    EXPECT_EQ(std::memcmp(results[0].data(), results[1].data(), static_cast<size_t>(m) * 64 * 4), 0) << m;
  }
  // Each kernel is told once, and sizes with the kernels of others share them.
  std::set<std::string> kernels;
  size_t calls = 0, total = 0;
  const auto many =
      compile(program, target, {{"m", 1}, {"m", 100000}, {"m", 100001}, {"n", 64}}, on, [&](const CompileProgress& p) {
        kernels.insert(p.kernel);
        EXPECT_EQ(p.done, ++calls);
        total = p.total;
      });
  ASSERT_TRUE(many);
  EXPECT_EQ(kernels.size(), calls);
  EXPECT_EQ(total, calls);
  EXPECT_EQ(CompiledProgram::Access::state(*many).for_other_sizes.size(), 1U);
  EXPECT_EQ(CompiledProgram::Access::state(*many).taken, (std::vector<size_t>{0, 1, 1}));
  const Tensor w = Tensor::make(f32, {255, 64}).value();
  const auto wrong = both.prepare({{"x", w}, {"w", w}, {"y", w}});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code(), 221);
}

// Without a hint a run of few rows has kernels for those, made when it is prepared.
TEST_F(ProgramCompile, ForFewRowsWithoutHints) {
  const Program program =
      Program::parse("def p(x: f32[\"m\", 1024], w: f32[1024, 2048]):\n    y = relu(x @ w)\n    return y\n", "p.py")
          .value();
  Context on = context();
  const Target target = Target::host();
  const auto plain = compile(program, target, {}, on).value();
  const driver::CompiledProgramState& state = CompiledProgram::Access::state(plain);
  EXPECT_TRUE(state.for_rows.empty());
  const auto one = compile(program, target, {{"m", 1}}, on).value();
  const auto some = compile(program, target, {{"m", 16}}, on).value();
  const auto many = compile(program, target, {{"m", 512}}, on).value();
  EXPECT_NE(one.emit(Stage::Plan).value(), some.emit(Stage::Plan).value());
  EXPECT_NE(some.emit(Stage::Plan).value(), many.emit(Stage::Plan).value());
  const Tensor w = Tensor::make(f32, {1024, 2048}).value();
  fill_random(w, 2);
  for (const int64_t m : {200, 91, 90, 2, 1, 0}) {
    const Tensor x = Tensor::make(f32, {m, 1024}).value();
    fill_random(x, 1);
    std::vector<Tensor> results;
    std::vector<int64_t> workspaces;
    for (const CompiledProgram* which : {&plain, m <= 1 ? &one : m <= 90 ? &some : &many}) {
      results.push_back(Tensor::make(f32, {m, 2048}).value());
      auto execution = which->prepare({{"x", x}, {"w", w}, {"y", results.back()}});
      ASSERT_TRUE(execution) << execution.error().message();
      workspaces.push_back(execution->workspace_size());
      ASSERT_TRUE(execution->run());
    }
    EXPECT_EQ(workspaces[0], workspaces[1]) << m;
    EXPECT_EQ(std::memcmp(results[0].data(), results[1].data(), static_cast<size_t>(m) * 2048 * 4), 0) << m;
    EXPECT_EQ(state.for_rows.size(), m > 90 ? 0U : m > 1 ? 1U : 2U) << m;
  }
  EXPECT_NE(state.for_rows.at(1), nullptr);
  EXPECT_NE(state.for_rows.at(16), nullptr);
  EXPECT_TRUE(CompiledProgram::Access::state(many).row_symbols.empty()) << "a hint says for which";
  // What takes next to nothing is not worth a compiler's time.
  const Program little =
      Program::parse("def p(x: f32[\"m\", 16], w: f32[16, 16]):\n    y = relu(x @ w)\n    return y\n", "p.py").value();
  const auto small = compile(little, target, {}, on).value();
  const Tensor x = Tensor::make(f32, {1, 16}).value(), v = Tensor::make(f32, {16, 16}).value();
  ASSERT_TRUE(small.run({{"x", x}, {"w", v}, {"y", Tensor::make(f32, {1, 16}).value()}}));
  EXPECT_EQ(CompiledProgram::Access::state(small).for_rows.at(1), nullptr);
}

// The stages that need no compiler, of a program that nobody compiles: those of one that is compiled.
TEST_F(ProgramCompile, PlansArePrintedWithoutCompiling) {
  const Program program = Program::parse(layers, "mlp.py").value();
  ContextOptions none;
  none.no_jit = true;
  none.cache_enabled = false;
  Context plans = Context::make(none).value(), makes = context();
  const Target target = Target::host();
  const auto compiled = compile(program, target, {{"m", 64}}, makes).value();
  for (const Stage stage : {Stage::Plan, Stage::Memory, Stage::Host}) {
    const auto printed = program.emit(stage, target, {{"m", 64}}, plans);
    ASSERT_TRUE(printed) << printed.error().render();
    EXPECT_EQ(*printed, compiled.emit(stage).value());
  }
  EXPECT_EQ(program.emit(Stage::Plan, target, {{"m", 512}, {"m", 64}}, plans).value(),
            compiled.emit(Stage::Plan).value())
      << "the least of several sizes";
  EXPECT_EQ(program.emit(Stage::Graph, target, {}, plans).value(), program.emit(Stage::Graph).value());
  const auto code = [](const Result<std::string>& result) { return result ? 0 : int{result.error().code()}; };
  EXPECT_EQ(code(program.emit(Stage::Source, target, {}, plans)), 415);
  EXPECT_EQ(code(program.emit(Stage::Plan, target, {{"n", 3}}, plans)), 209);
  EXPECT_EQ(code(program.emit(Stage::Host, target, {{"n", 3}}, plans)), 209);
  EXPECT_EQ(code(program.emit(Stage::Host, Target::parse("cutlass:sm_90").value(), {}, plans)), 412);
  const Target metal = Target::parse("metal").value();
  EXPECT_EQ(program.emit(Stage::Host, metal, {}, plans).value(),
            host_text({program}, metal, {.name = "mlp"}, plans).value());
}

TEST_F(ProgramCompile, ExplainsWithoutACompiler) {
  const Program program = Program::parse(layers, "mlp.py").value();
  ContextOptions options;
  options.no_jit = true;
  Context none = context(options);
  const auto text = explain(program, Target::host(), {{"m", 8}}, false, none);
  ASSERT_TRUE(text) << text.error().render();
  for (const char* wanted : {"sizes: m = 8\n", "mlp.py:3: g = relu(h @ w2 + b2)", "codetta_add_relu_",
                             "kernels launched   3; one an operation would be 8\n", "E0308: it is factor A",
                             "kernels distinct   2, of 2 sources\n"})
    EXPECT_NE(text->find(wanted), std::string::npos) << wanted << "\n" << *text;
  EXPECT_EQ(*text, explain(program, Target::host(), {{"m", 8}}, false, none).value());
  EXPECT_EQ(explain(program, Target::host(), {{"q", 8}}, false, none).error().code(), 209);
  const auto gpu = explain(program, Target::parse("cuda:sm_90a").value(), {}, true, none);
  ASSERT_TRUE(gpu) << gpu.error().render();
  EXPECT_NE(gpu->find("\"kernels_launched\": 3"), std::string::npos);
}

}  // namespace
}  // namespace codetta

// SPDX-License-Identifier: Apache-2.0
// Emitted visitor trees against reviewed texts, and what their callers rely on. `test_evt --update` writes the texts
// anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <tuple>

#include "case.hpp"
#include "example_cases.hpp"
#include "operations.hpp"
#include "types/op.hpp"

namespace codetta::evt_tests {
namespace {

const std::string folder = CODETTA_SOURCE_DIR "/tests/evt/expected";
const std::vector<std::string> targets{"cutlass:sm_80", "cutlass:sm_90a", "cutlass:sm_100a"};

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}
std::string path_of(const Case& c, const std::string& target) {
  return folder + "/" + std::string(c.name) + "_" + target.substr(8) + ".txt";
}
// A refusal is a text, too: what an architecture cannot do is part of what is reviewed.
std::string text_of(const Case& c, const std::string& target) {
  const auto text = emit_evt(problem_of(c).arguments, options_of(c, target));
  return text ? golden_of(*text) : text.error().render();
}

class EvtGolden : public testing::TestWithParam<Case> {};
TEST_P(EvtGolden, IsAsReviewed) {
  for (const std::string& target : targets) {
    const std::string now = text_of(GetParam(), target);
    EXPECT_EQ(now, text_of(GetParam(), target)) << "two emissions differ";
    EXPECT_EQ(now, contents(path_of(GetParam(), target)))
        << "if this is meant: tools/update_golden, and review the changes";
  }
}
INSTANTIATE_TEST_SUITE_P(Cases, EvtGolden, testing::ValuesIn(all_cases().begin(), all_cases().end()),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(EvtGoldenFiles, EachBelongsToOneCase) {
  std::set<std::string> names;
  for (const Case& c : all_cases()) {
    for (const std::string& target : targets) EXPECT_TRUE(names.insert(path_of(c, target)).second);
  }
  for (const auto& file : std::filesystem::directory_iterator(folder))
    EXPECT_TRUE(names.contains(file.path().string())) << file.path();
}

// The table in docs/evt.md.
std::string operations_table() {
  std::string table = "| function | Sm80 | Sm90 | Sm100 |\n|---|---|---|---|\n";
  for (const Case& c : operation_cases()) {
    table += "| " + std::string(c.name);
    for (const std::string& target : targets) {
      EvtOptions options = options_of(c, target);
      options.deterministic = target != "cutlass:sm_80";  // there all reductions are atomic
      const auto text = emit_evt(problem_of(c).arguments, options);
      char code[32];
      std::snprintf(code, sizeof code, "[E%04u](errors/E%04u.md)", text ? 0U : text.error().code(),
                    text ? 0U : text.error().code());
      table +=
          std::string(" | ") + (!text                                                                 ? code
                                : target == "cutlass:sm_80" && types::find_op(c.name)->is_reduction() ? "emits, atomic"
                                                                                                      : "emits");
      EXPECT_TRUE(text || text.error().code() == 311 || text.error().code() == 407 || text.error().code() == 409)
          << text.error().render();
      EXPECT_TRUE(text || !text.error().diagnostics()[0].help.empty());
    }
    table += " |\n";
  }
  return table;
}
const std::string page = CODETTA_SOURCE_DIR "/docs/evt.md",
                  table_begin = "<!-- table of operations: written by tests/evt -->\n\n",
                  table_end = "\n## What ran where";

TEST(EvtOperations, ThePageSaysWhatBecomesOfEach) {
  const std::string text = contents(page);
  const size_t begin = text.find(table_begin), end = text.find(table_end);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  EXPECT_EQ(text.substr(begin + table_begin.size(), end - begin - table_begin.size()), operations_table())
      << "tools/update_golden writes it";
}

// Of the examples: a tree, or what is in the way and what to do about it. `evt_compile` compiles the trees.
TEST(EvtExamples, EachIsATreeOrSaysWhy) {
  // What refuses an example, on Sm80, and on Sm90 and Sm100.
  const std::map<std::string, std::pair<int, int>> refused{
      {"activations", {0, 419}},  // six outputs beside a tile of 128 x 128 x 64
      {"batched_scale", {311, 311}},
      {"causal_mask", {311, 311}},
      {"dropout_residual", {311, 311}},
      {"heads_first", {311, 311}},
      {"join_interleaved", {311, 311}},
      {"rms_norm", {409, 409}},
      {"rotary", {311, 311}},
      {"softmax", {409, 409}},
      {"statistics", {409, 311}},
      {"swiglu", {311, 311}},
      {"swiglu_interleaved", {311, 311}},
  };
  EXPECT_GE(example_cases().size(), 28U);
  for (const Case& c : example_cases()) {
    for (const std::string& target : targets) {
      const auto text = emit_evt(problem_of(c).arguments, options_of(c, target));
      const auto found = refused.find(std::string(c.name.substr(8)));
      const int code = found == refused.end()      ? 0
                       : target == "cutlass:sm_80" ? found->second.first
                                                   : found->second.second;
      EXPECT_EQ(text ? 0 : text.error().code(), code)
          << c.name << " " << target << (text ? "" : "\n" + text.error().render());
      if (text) continue;
      const auto& diagnostic = text.error().diagnostics()[0];
      EXPECT_FALSE(diagnostic.help.empty()) << text.error().render();
      EXPECT_GT(diagnostic.where.line, 0U) << text.error().render();
    }
  }
}

TEST(Evt, OneEmissionTakesAFewMilliseconds) {
  std::vector<double> seconds;
  for (const Case& c : all_cases()) {
    const Problem problem = problem_of(c);
    const EvtOptions options = options_of(c, "cutlass:sm_90a");
    const auto start = std::chrono::steady_clock::now();
    (void)emit_evt(problem.arguments, options);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(seconds.begin(), seconds.end());
  RecordProperty("median_us", static_cast<int>(seconds[seconds.size() / 2] * 1e6));
  RecordProperty("largest_us", static_cast<int>(seconds.back() * 1e6));
}

Epilogue epilogue_of(const std::string& text) { return Epilogue::parse(text).value(); }
EvtOptions sm90() {
  EvtOptions options;
  options.target = Target::parse("cutlass:sm_90a").value();
  return options;
}
const std::string scaled = "def f(accum, C, alpha):\n    F = accum * alpha + C\n    D = relu(F)\n    return D, F\n";

TEST(Evt, BuffersAreRenamedInTheOrderOfFirstUse) {
  EvtOptions options = sm90();
  options.buffers = {{"C", "buf7"}, {"D", "buf2"}, {"F", "buf9"}, {"X", "buf9"}};
  const auto text = emit_evt(epilogue_of("def f(accum, C, X):\n    F = accum + X\n    D = F * C\n    return D, F\n"),
                             {{"accum", DType::f32, {256, 128}},
                              {"C", DType::f16, {256, 128}},
                              {"X", DType::f16, {256, 128}},
                              {"D", DType::f16, {256, 128}},
                              {"F", DType::f16, {256, 128}}},
                             {}, options);
  ASSERT_TRUE(text.has_value()) << text.error().render();
  EXPECT_EQ(text->source, "C");
  EXPECT_EQ(text->destination, "D");
  // X and F lie in one buffer, so they are one pointer; C and D are the collective's.
  EXPECT_EQ(text->renames, (std::vector<std::pair<std::string, std::string>>{{"buf9", "ptr_0"}}));
  EXPECT_NE(text->arguments.find("(cutlass::half_t*) (ptr_0 + ptr_0_offset)"), std::string::npos) << text->arguments;
  options.offsets = false;
  options.buffers.pop_back();
  const auto plain = emit_evt(epilogue_of(scaled),
                              {{"accum", DType::f32, {256, 128}},
                               {"C", DType::f16, {256, 128}},
                               {"D", DType::f16, {256, 128}},
                               {"F", DType::f16, {256, 128}}},
                              {{"alpha", DType::f32, "2.5f"}}, options);
  ASSERT_TRUE(plain.has_value()) << plain.error().render();
  EXPECT_NE(plain->arguments.find("{(cutlass::half_t*) ptr_0, {128, _1{}, _0{}}}"), std::string::npos)
      << plain->arguments;
  EXPECT_NE(plain->arguments.find("{{float(2.5f)}}"), std::string::npos) << plain->arguments;
}

TEST(Evt, SizesMayBeExpressions) {
  EvtOptions options = sm90();
  options.hints = {{"s0", 512}, {"s1", 64}};
  const auto text = emit_evt(epilogue_of(scaled),
                             {{"accum", DType::f32, {"s0", "8*s1"}},
                              {"C", DType::f16, {"s0", "8*s1"}},
                              {"D", DType::f16, {"s0", "8*s1"}},
                              {"F", DType::f16, {"s0", "8*s1"}, {"16*s1", 1}}},
                             {{"alpha", DType::f32}}, options);
  ASSERT_TRUE(text.has_value()) << text.error().render();
  EXPECT_NE(text->arguments.find("{16*s1, _1{}, _0{}}"), std::string::npos) << text->arguments;
  EXPECT_EQ(text->c_strides[0], "8*s1");
  EXPECT_TRUE(text->notes.empty());  // 8 half numbers are 16 bytes, whatever s1 is
  options.hints.pop_back();
  const auto unknown =
      emit_evt(epilogue_of(scaled), {{"accum", DType::f32, {"s0", "8*s1"}}}, {{"alpha", DType::f32}}, options);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code(), 224) << unknown.error().render();
}

TEST(Evt, DescriptionsOfCAndDCanBeLeftOut) {
  EvtOptions options = sm90();
  options.emit_cd = false;
  const auto text = emit_evt(epilogue_of(scaled),
                             {{"accum", DType::f32, {256, 128}},
                              {"C", DType::f16, {256, 128}},
                              {"D", DType::f16, {256, 128}},
                              {"F", DType::f16, {256, 128}}},
                             {{"alpha", DType::f32}}, options);
  ASSERT_TRUE(text.has_value()) << text.error().render();
  EXPECT_EQ(text->types.find("ElementD"), std::string::npos) << text->types;
  EXPECT_NE(text->types.find("Sm90SrcFetch<cutlass::half_t>"), std::string::npos) << text->types;
  EXPECT_EQ(text->element_c, "cutlass::half_t");
}

// Names that meet where cases are lost, and such as C++ keeps for itself.
TEST(Evt, NamesOfTheTextNeverMeet) {
  const auto text =
      emit_evt(epilogue_of("def f(accum, aB, ab, c, C, operator, EVTD, ElementD, template):\n"
                           "    D = accum * aB + ab - c * C + operator * EVTD + ElementD + template\n    return D\n"),
               {{"accum", DType::f32, {256, 128}},
                {"aB", DType::f32, {128}},
                {"ab", DType::f16, {128}},
                {"c", DType::f16, {256, 128}},
                {"C", DType::f16, {256, 128}},
                {"operator", DType::f32, {256, 1}},
                {"EVTD", DType::f16, {256, 1}},
                {"ElementD", DType::f32, {256, 128}},
                {"D", DType::f16, {256, 128}}},
               {{"template", DType::f32}}, sm90());
  ASSERT_TRUE(text.has_value()) << text.error().render();
  const std::regex alias("using (\\w+) =");
  std::set<std::string> seen;
  for (std::sregex_iterator it(text->types.begin(), text->types.end(), alias), end; it != end; ++it)
    EXPECT_TRUE(seen.insert((*it)[1]).second) << (*it)[1];
  EXPECT_EQ(text->arguments.find("(template)"), std::string::npos) << text->arguments;
  EXPECT_NE(text->arguments.find("EvtNumber"), std::string::npos) << text->arguments;
  EXPECT_EQ(seen.count("EVTD"), 1U);
}

// Whoever uses what: a matrix is loaded once and stored once, on every architecture.
TEST(Evt, EveryMatrixComesAndGoesOnce) {
  std::mt19937 random(20261127);
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  const std::regex pointer("\\) (ptr_[0-9]+)[,}]");
  EvtOptions options = sm90();
  options.offsets = false;
  size_t trees = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> values{"accum", "X", "Y"}, outputs;
    std::string body;
    const size_t count = 2 + below(5);
    for (size_t i = 0; i < count; ++i) {
      const std::string name = "v" + std::to_string(i);
      const std::string left = i == 0 ? "X" : values[below(values.size())];
      const std::string right = i == 0 ? "Y + accum" : values[below(values.size())];
      body += "    " + name + " = " + (below(2) == 0 ? "tanh(" + left + ") - " : left + " * ") + right + "\n";
      values.push_back(name);
    }
    std::vector<EvtTensor> tensors{
        {"accum", DType::f32, {256, 128}}, {"X", DType::f16, {256, 128}}, {"Y", DType::f16, {256, 128}}};
    for (size_t i = 0; i < count; ++i) {  // what nobody uses, and every second one of the others
      const std::string name = "v" + std::to_string(i);
      if (std::regex_search(body, std::regex("= .*\\b" + name + "\\b")) && below(2) == 0) continue;
      outputs.push_back(name);
      tensors.push_back({name, DType::f16, {256, 128}});
    }
    std::string text = "def f(accum, X, Y):\n" + body + "    return " + outputs[0];
    for (size_t i = 1; i < outputs.size(); ++i) text += ", " + outputs[i];
    for (const std::string& target : targets) {
      options.target = Target::parse(target).value();
      options.tile = {128, 64, 32};
      const auto tree = emit_evt(epilogue_of(text + "\n"), tensors, {}, options);
      if (!tree) {
        // An output that does not depend on the accumulator, or too much shared memory.
        EXPECT_TRUE(tree.error().code() == 311 || tree.error().code() == 419) << text << "\n" << tree.error().render();
        continue;
      }
      ++trees;
      std::map<std::string, int> times;
      for (std::sregex_iterator it(tree->arguments.begin(), tree->arguments.end(), pointer), end; it != end; ++it)
        ++times[(*it)[1]];
      EXPECT_EQ(times.size(), tree->renames.size()) << text << "\n" << tree->arguments;
      for (const auto& [name, n] : times) EXPECT_EQ(n, 1) << name << " of\n" << text << "\n" << tree->arguments;
    }
  }
  EXPECT_GT(trees, 400U);
}

TEST(Evt, ATreeHasANameOfItsOwn) {
  const Case plain{"plain", "", "D=f16[M,N]", "def f(accum):\n    D = relu(accum)\n    return D\n"};
  for (const char* name : {"ElementC", "StrideD", "EpilogueDescriptor", "EvtCompute0", "EvtTree17", "std", "cutlass"}) {
    EvtOptions options = options_of(plain, "cutlass:sm_90a");
    options.name = name;
    const auto text = emit_evt(problem_of(plain).arguments, options);
    ASSERT_FALSE(text.has_value()) << name;
    EXPECT_EQ(text.error().code(), 230) << text.error().render();
  }
  for (const char* name : {"Evt", "EvtD", "Sm90Compute", "Element"}) {
    EvtOptions options = options_of(plain, "cutlass:sm_90a");
    options.name = name;
    EXPECT_TRUE(emit_evt(problem_of(plain).arguments, options).has_value()) << name;
  }
}

void expect_refused(const Case& c, const std::string& target, uint16_t code, const std::string& headline) {
  const auto text = emit_evt(problem_of(c).arguments, options_of(c, target));
  ASSERT_FALSE(text.has_value()) << c.name;
  EXPECT_EQ(text.error().code(), code) << text.error().render();
  EXPECT_NE(text.error().render().find(headline), std::string::npos) << text.error().render();
  EXPECT_FALSE(text.error().diagnostics()[0].help.empty());
}

TEST(EvtRefusals, SayWhatToDo) {
  // E0407
  expect_refused({"strided", "", "X=f16[M,N] D=f16[M,N]:ld=390", "def f(accum, X):\n    D = accum + X\n    return D\n"},
                 "cutlass:sm_90a", 407, "D cannot be moved by TMA");
  expect_refused(
      {"row_of_a_matrix", "", "X=f16[M,1]:ld=7 D=f16[M,N]", "def f(accum, X):\n    D = accum + X\n    return D\n"},
      "cutlass:sm_90a", 407,
      "Cannot create example tensor for X with non-contiguous layout, received stride: [7, 1] and shape: [256, 1]");
  expect_refused({"sixteen", "", "D=i16[M,N]", "def f(accum):\n    D = accum\n    return D\n"}, "cutlass:sm_90a", 407,
                 "CUTLASS has no TMA format of i16");
  // E0311
  expect_refused({"positions", "", "D=f16[M,N]",
                  "def f(accum):\n    D = where(col_index() <= row_index(), accum, 0.0)\n    return D\n"},
                 "cutlass:sm_90a", 311, "CUTLASS's visitors have no form of the position");
  expect_refused({"layout", "", "D=f16[N,M]", "def f(accum):\n    D = permute(relu(accum), (1, 0))\n    return D\n"},
                 "cutlass:sm_90a", 311, "");
  expect_refused({"reductions_only", "", "sums=f32[N]",
                  "def f(accum):\n    sums = sum(accum, axis=\"column\")\n    return sums\n"},
                 "cutlass:sm_90a", 311,
                 "D is expected to be a output node with 0 users to enable smem reuse between C and D, but got []");
  expect_refused({"of_operands", "", "C=f16[M,N] D=f16[M,N] F=f16[M,N]",
                  "def f(accum, C):\n    D = accum\n    F = C * 2.0\n    return D, F\n"},
                 "cutlass:sm_90a", 311, "output F does not depend on the accumulator");
  expect_refused({"wide", "", "D=f64[M,N]", "def f(accum):\n    D = accum\n    return D\n"}, "cutlass:sm_100a", 311,
                 "Sm100's collective does not store f64 as D");
  // E0409
  expect_refused({"used", "", "D=f16[M,N]",
                  "def f(accum):\n    D = accum * rsqrt(mean(accum * accum, axis=\"row\"))\n    return D\n"},
                 "cutlass:sm_90a", 409, "a reduction is used as a value");
  expect_refused(
      {"atomic", "", "D=f16[M,N] s=f32[1]", "def f(accum):\n    D = accum\n    s = sum(accum)\n    return D, s\n"},
      "cutlass:sm_90a", 409, "atomic operations");
  expect_refused({"mean", "", "D=f16[M,N] s=f32[M,1]",
                  "def f(accum):\n    D = accum\n    s = mean(accum, axis=\"row\")\n    return D, s\n"},
                 "cutlass:sm_90a", 409, "CUTLASS cannot reduce by mean");
  for (const char* narrow : {"i8", "u8", "i16", "u16"}) {
    const std::string arguments = std::string("D=f16[M,N] s=") + narrow + "[M,1]",
                      text = std::string("def f(accum):\n    D = accum\n    s = max(cast(accum, ") + narrow +
                             "), axis=\"row\")\n    return D, s\n";
    const Case c{"narrow", "nondeterministic", arguments, text};
    expect_refused(c, "cutlass:sm_80", 409, std::string("the reduction s has no atomic operations of ") + narrow);
    EXPECT_TRUE(emit_evt(problem_of(c).arguments, options_of(c, "cutlass:sm_90a")).has_value()) << narrow;
  }
  expect_refused({"wide_total", "nondeterministic", "D=f16[M,N] s=f64[1]",
                  "def f(accum):\n    D = accum\n    s = sum(cast(accum, f64))\n    return D, s\n"},
                 "cutlass:sm_90a", 409, "what fills memory for Sm90ScalarReduction has no values of 64 bits");
  // E0419
  expect_refused({"large", "", "a=f32[M,N] b=f32[M,N] c=f32[M,N] d=f32[M,N] D=f32[M,N]",
                  "def f(accum, a, b, c, d):\n    D = accum + a * b + c * d\n    return D\n"},
                 "cutlass:sm_90a", 419, "the epilogue consumes too much shared memory");
  // E0412
  expect_refused({"old", "", "D=f16[M,N]", "def f(accum):\n    D = accum\n    return D\n"}, "cutlass:sm_75", 412,
                 "Only SM80+ is supported for EVT");
  expect_refused({"sm120", "", "D=f16[M,N]", "def f(accum):\n    D = accum\n    return D\n"}, "cutlass:sm_120a", 412,
                 "there are no EVT visitors for sm_120a");
}

TEST(EvtRefusals, OfBuffers) {
  const Case scaled_source{"scaled", "", "C=f16[M,N] alpha=scalar:0.5 D=f16[M,N]",
                           "def f(accum, C, alpha):\n    D = accum * alpha + C\n    return D\n"};
  const std::vector<std::tuple<std::vector<std::pair<std::string, std::string>>, int, std::string>> refused{
      {{{"c", "buf0"}}, 209, "did you mean C?"},
      {{{"alpha", "buf0"}}, 209, "it has C, D"},
      {{{"C", "buf0"}, {"C", "buf1"}}, 209, "two buffers are given for 'C'"},
      {{{"C", ""}}, 230, "it is empty"},
      {{{"C", "buf0\nint x;"}}, 230, "a control character"},
      {{{"C", "buf0\\"}}, 230, "a backslash"},
  };
  EvtOptions options = options_of(scaled_source, "cutlass:sm_90a");
  for (const auto& [buffers, code, why] : refused) {
    options.buffers = buffers;
    const auto text = emit_evt(problem_of(scaled_source).arguments, options);
    ASSERT_FALSE(text.has_value()) << why;
    EXPECT_EQ(text.error().code(), code) << text.error().render();
    EXPECT_NE(text.error().render().find(why), std::string::npos) << text.error().render();
    EXPECT_FALSE(emit_cutlass(problem_of(scaled_source).arguments, options, "scaled").has_value()) << why;
  }
  options.buffers = {{"C", "buf0"}, {"D", "buf0"}};  // in place
  EXPECT_TRUE(emit_evt(problem_of(scaled_source).arguments, options).has_value());
}

// What a build does around nvcc, which is a script here: no toolkit is asked for.
TEST(EvtBuild, WritesWhatNvccMakesOrNothing) {
  const std::string folder = testing::TempDir() + "/evt_build";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder + "/bin");
  std::filesystem::create_directories(folder + "/cutlass/include/cutlass");
  std::ofstream(folder + "/cutlass/include/cutlass/version.h")
      << "#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 2\n#define CUTLASS_PATCH 1\n";
  const std::string nvcc = folder + "/bin/nvcc";
  const auto script = [&](const std::string& body) {
    std::ofstream(nvcc) << "#!/bin/sh\n" << body;
    std::filesystem::permissions(nvcc, std::filesystem::perms::owner_all);
  };
  ContextOptions of_context;
  of_context.cuda_home = folder;
  Context context = Context::make(of_context).value();
  const Case plain{"plain", "", "D=f16[M,N]", "def f(accum):\n    D = accum\n    return D\n"};
  CutlassBuild build{.output = folder + "/libplain.so", .cutlass_dir = folder + "/cutlass"};
  int asked = 0;
  build.before_writing = [&](const auto& places, bool) -> Result<void> {
    ++asked;
    EXPECT_EQ(places.size(), 2U);
    return {};
  };
  const auto run = [&] {
    return build_cutlass(problem_of(plain).arguments, options_of(plain, "cutlass:sm_90a"), build, context);
  };
  const auto refused = [&](int code, const std::string& text) {
    const auto built = run();
    ASSERT_FALSE(built.has_value()) << text;
    EXPECT_EQ(built.error().code(), code) << built.error().render();
    EXPECT_NE(built.error().render().find(text), std::string::npos) << built.error().render();
    EXPECT_FALSE(std::filesystem::exists(build.output)) << text;
    EXPECT_FALSE(std::filesystem::exists(folder + "/plain.h")) << text;
  };
  script("echo 'kernel.cu(7): error: no such visitor' >&2; exit 2\n");
  refused(504, "no such visitor");
  script("echo 'nvcc fatal   : Failed to preprocess host compiler properties.' >&2; exit 1\n");
  refused(501, "nvcc has no host compiler");
  script("exit 0\n");
  refused(506, "nvcc left no library");
  script("for a; do library=$source; source=$a; done\nprintf library > $library\n");
  asked = 0;
  const auto built = run();
  ASSERT_TRUE(built.has_value()) << built.error().render();
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(contents(built->library), "library");
  EXPECT_EQ(built->bytes, 7);
  EXPECT_EQ(built->version, "4.2.1");
  EXPECT_NE(contents(built->header).find("int plain_call("), std::string::npos);
  EXPECT_NE(built->kernel.find("cutlass_sm90"), std::string::npos) << built->kernel;
  std::filesystem::remove(built->library);
  std::filesystem::remove(built->header);
  build.output = folder + "/none/libplain.so";
  refused(543, "cannot be written");
  build.output = folder + "/lib7plain.so";
  refused(230, "7plain");
  std::filesystem::remove_all(folder);
}

TEST(EvtRefusals, OfTilesSchedulesAndTypes) {
  const Case plain{"plain", "", "D=f16[M,N]", "def f(accum):\n    D = accum\n    return D\n"};
  const auto headline = [&](EvtOptions options, const Case& c) {
    const auto text = emit_cutlass(problem_of(c).arguments, options, "kernel");
    return text ? "" : text.error().diagnostics()[0].headline;
  };
  for (const char* sizes : {"M=4294967296", "N=2147483648", "K=2147483648"}) {
    Case large = plain;
    large.problem = sizes;
    EXPECT_EQ(headline(options_of(plain, "cutlass:sm_90a"), large),
              "CUTLASS counts rows, columns, K and items in 32 bits")
        << sizes;
  }
  EvtOptions options = options_of(plain, "cutlass:sm_80");
  options.schedule = EvtSchedule::TmaWarpSpecialized;
  EXPECT_EQ(headline(options, plain), "Only SM90+ is supported for EVT with schedule tma_warp_specialized");
  options = options_of(plain, "cutlass:sm_90a");
  options.tile = {64, 128, 64};
  EXPECT_NE(headline(options, plain).find("tile 64x128x64 with schedule tma_warp_specialized_cooperative"),
            std::string::npos);
  options.schedule = EvtSchedule::TmaWarpSpecializedPingpong;
  EXPECT_EQ(headline(options, plain), "");
  for (const std::array<int, 3>& cluster : {std::array{17, 1, 1}, {3, 1, 1}, {8, 4, 1}, {1, 1, 2}, {-2, 1, 1}}) {
    options.cluster = cluster;
    EXPECT_EQ(headline(options, plain), "Sm90 has no cluster of " + std::to_string(cluster[0]) + "x" +
                                            std::to_string(cluster[1]) + "x" + std::to_string(cluster[2]));
  }
  options.cluster = {4, 4, 1};
  EXPECT_EQ(headline(options, plain), "");
  // Tiles that CUTLASS's static assertions refuse, with the nearest that they take.
  const auto refused = [&](const char* target, EvtSchedule schedule, const std::array<int, 3>& tile) {
    EvtOptions asked = options_of(plain, target);
    asked.schedule = schedule;
    asked.tile = tile;
    const auto text = emit_cutlass(problem_of(plain).arguments, asked, "kernel");
    return text ? "" : std::to_string(text.error().code()) + " " + text.error().diagnostics()[0].help;
  };
  EXPECT_EQ(refused("cutlass:sm_90a", EvtSchedule::Auto, {192, 128, 64}), "406 try 128x128x64");
  EXPECT_EQ(refused("cutlass:sm_100a", EvtSchedule::TmaWarpSpecialized2Sm, {128, 16, 64}), "406 try 128x32x64");
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {128, 128, 48}), "406 try 128x128x32");
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {128, 128, 128}), "406 try 128x128x64");
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {128, 160, 32}), "406 try 128x128x32");
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {128, 64, 64}), "");
  // Of 3, 6 or 9 warps, which leave rows out of a copy or do not compile.
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {128, 192, 32}), "406 try 128x128x32");
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {192, 128, 32}), "406 try 128x128x32");
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {128, 96, 64}), "406 try 128x64x64");
  // 16 columns of 32 rows are too few copies for four warps.
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {256, 16, 32}), "406 try 256x16x64");
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {256, 16, 64}), "");
  const Case rows{"rows", "A=f32 tf32", "D=f32[M,N]", plain.text};
  EvtOptions of_rows = options_of(rows, "cutlass:sm_80");
  of_rows.tile = {64, 16, 16};
  EXPECT_EQ(headline(of_rows, rows), "CUTLASS has no Sm80 epilogue for tile 64x16x16 with schedule multistage");
  of_rows.tile = {64, 32, 16};
  EXPECT_EQ(headline(of_rows, rows), "");
  // Three stages of A and B, in what the device has.
  // Of 16 warps, whose launch has too few registers.
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {256, 256, 32}), "406 try 128x256x32");
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {256, 128, 32}), "");
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {128, 256, 64}), "");
  EXPECT_EQ(refused("cutlass:sm_87", EvtSchedule::Auto, {128, 256, 64}), "");
  for (const char* smaller : {"cutlass:sm_86", "cutlass:sm_89"}) {
    EXPECT_EQ(refused(smaller, EvtSchedule::Auto, {128, 256, 64}), "419 use a smaller tile than 128x256x64");
    EXPECT_EQ(refused(smaller, EvtSchedule::Auto, {128, 256, 32}), "");
  }
  const auto stages = [&](const char* target) {
    EvtOptions asked = options_of(plain, target);
    asked.tile = {128, 128, 64};
    const std::string text = emit_cutlass(problem_of(plain).arguments, asked, "kernel")->source;
    const std::string before = "GemmIdentityThreadblockSwizzle<8>, ";
    return text.substr(text.find(before) + before.size(), 1);
  };
  EXPECT_EQ(stages("cutlass:sm_80"), "4");
  EXPECT_EQ(stages("cutlass:sm_86"), "3");
  EXPECT_EQ(refused("cutlass:sm_90a", EvtSchedule::Auto, {256, 128, 64}), "");
  const Case doubles{"doubles", "A=f64", "D=f64[M,N]", "def f(accum):\n    D = accum\n    return D\n"};
  EXPECT_EQ(headline(options_of(doubles, "cutlass:sm_90a"), doubles),
            "Unsupported arg type: f64 times f64 accumulated in f64");
  // The tree alone is refused as the whole source is, where the text says accum, and taken where both are.
  const auto tree = [&](const char* target) {
    const auto text = emit_evt(problem_of(doubles).arguments, options_of(doubles, target));
    return text ? "" : text.error().render();
  };
  EXPECT_EQ(tree("cutlass:sm_90a"), R"(error[E0405]: Unsupported arg type: f64 times f64 accumulated in f64
  --> doubles.py:1:7
1 | def f(accum):
  |       ^^^^^
note: Sm90 multiplies two of f16, two of bf16 or two of f32 (as tf32), and 8-bit floats in f32, two of i8 or two of u8, also one of each, in i32
help: convert A and B, use cutlass:sm_80, whose kernels multiply f64, or a cpu or cuda target
)");
  EXPECT_NE(tree("cutlass:sm_100a").find("E0405"), std::string::npos);
  EXPECT_EQ(tree("cutlass:sm_80"), "");
  const auto alone = emit_evt(epilogue_of(std::string(doubles.text)),
                              {{"accum", DType::f64, {256, 384}}, {"D", DType::f64, {256, 384}}}, {},
                              options_of(doubles, "cutlass:sm_90a"));
  ASSERT_FALSE(alone);
  EXPECT_NE(alone.error().message().find("Unsupported arg type: an accumulator of f64"), std::string::npos);
  EvtOptions of_doubles = options_of(doubles, "cutlass:sm_80");
  EXPECT_EQ(headline(of_doubles, doubles), "") << "with a tile of its own, too";
  of_doubles.tile = {128, 128, 32};
  EXPECT_EQ(headline(of_doubles, doubles), "CUTLASS has no Sm80 epilogue for tile 128x128x32 with schedule multistage");
  const auto source = emit_cutlass(problem_of(doubles).arguments, options_of(doubles, "cutlass:sm_80"), "kernel");
  EXPECT_NE(source->source.find("GemmShape<128, 128, 16>"), std::string::npos);
  EXPECT_NE(source->source.find("double, cutlass::layout::RowMajor, cutlass::ComplexTransform::kNone, 1,"),
            std::string::npos);
  of_doubles.tile = {256, 128, 16};  // 16 warps of 32 x 64
  EXPECT_EQ(headline(of_doubles, doubles), "CUTLASS has no Sm80 epilogue for tile 256x128x16 with schedule multistage");
  const Case singles{"singles", "A=f32", "D=f32[M,N]", "def f(accum):\n    D = accum\n    return D\n"};
  EXPECT_EQ(headline(options_of(singles, "cutlass:sm_90a"), singles), "CUTLASS multiplies f32 on tensor cores as tf32");
}

// Lanes of a warp share the columns of a tile out in multiples of one word each.
TEST(EvtRefusals, OfTilesWhoseColumnsCannotBeSummed) {
  const auto refused = [](const char* sums, std::array<int, 3> tile, const char* target = "cutlass:sm_90a") {
    const Case c{"sums", "", sums,
                 "def f(accum):\n    D = accum\n    sums = sum(D, axis=\"column\")\n    return D, sums\n"};
    EvtOptions asked = options_of(c, target);
    asked.tile = tile;
    asked.deterministic = false;
    const auto text = emit_cutlass(problem_of(c).arguments, asked, "kernel");
    return text ? "" : std::to_string(text.error().code()) + " " + text.error().diagnostics()[0].help;
  };
  for (const char* target : {"cutlass:sm_90a", "cutlass:sm_100a"}) {
    for (const int columns : {16, 32, 48, 64, 128, 192, 256})
      EXPECT_EQ(refused("D=f16[M,N] sums=f32[N]", {128, columns, 64}, target), "") << columns;
    EXPECT_EQ(refused("D=f16[M,N] sums=f32[N]", {128, 80, 64}, target), "406 try 128x64x64");
    EXPECT_EQ(refused("D=f16[M,N] sums=f32[N]", {128, 176, 64}, target), "406 try 128x128x64");
  }
  EXPECT_EQ(refused("D=f16[M,N] sums=f32[N]", {128, 64, 64}, "cutlass:sm_80"), "") << "summed in memory";
  // Eight warps meet in the shared memory of one step of D: 128 x 32 elements for 256 columns of sums each.
  EXPECT_EQ(refused("D=f16[M,N] sums=f32[N]", {128, 256, 64}), "");
  EXPECT_EQ(refused("D=f8e4m3[M,N] sums=f32[N]", {128, 256, 64}),
            "419 use a tile of at most 128 columns, or a wider type of D");
}

// What CUTLASS asks the driver for by name is linked.
TEST(EvtEmission, TotalsOfSm90AreLinkedToTheDriver) {
  const auto links = [](const char* name, const char* target) {
    const Case& c = *std::ranges::find(all_cases(), std::string_view(name), &Case::name);
    const auto text = emit_cutlass(problem_of(c).arguments, options_of(c, target), "kernel");
    EXPECT_TRUE(text.has_value()) << text.error().render();
    return text && std::ranges::count(text->flags, "-lcuda") == 1;
  };
  EXPECT_TRUE(links("scalar_amax", "cutlass:sm_90a"));
  EXPECT_TRUE(links("batched_item_sums", "cutlass:sm_100a"));
  EXPECT_FALSE(links("scalar_amax", "cutlass:sm_80"));
  EXPECT_FALSE(links("row_max_min", "cutlass:sm_90a"));
}

// Threads of Sm80 store as many elements at once as lets all lanes of a warp have some of 8 rows.
TEST(EvtEmission, StoresOfSm80DealRowsOutToAllLanes) {
  const auto access = [](const char* problem, const char* arguments, std::array<int, 3> tile) {
    const Case c{"store", problem, arguments, "def f(accum):\n    D = accum\n    return D\n"};
    EvtOptions asked = options_of(c, "cutlass:sm_80");
    asked.tile = tile;
    const auto text = emit_cutlass(problem_of(c).arguments, asked, "kernel");
    if (!text) return text.error().message();
    const std::string before = "ThreadblockShape, WarpShape, ";
    const size_t begin = text->source.find(before) + before.size();
    return text->source.substr(begin, text->source.find(">;", begin) - begin);
  };
  EXPECT_EQ(access("", "D=f16[M,N]", {128, 128, 32}), "cutlass::half_t, 8, 1");
  EXPECT_EQ(access("", "D=f16[M,N]", {128, 32, 32}), "cutlass::half_t, 8, 1");
  EXPECT_EQ(access("", "D=f16[M,N]", {128, 16, 32}), "cutlass::half_t, 4, 1");
  EXPECT_EQ(access("A=i8 b_columns", "D=i8[M,N]", {128, 128, 64}), "int8_t, 16, 1");
  EXPECT_EQ(access("A=i8 b_columns", "D=i8[M,N]", {128, 64, 64}), "int8_t, 8, 1");
  EXPECT_EQ(access("A=i8 b_columns", "D=i8[M,N]", {128, 32, 64}), "int8_t, 8, 1");
  EXPECT_EQ(access("A=i8 b_columns", "D=i8[M,N]", {128, 16, 64}), "int8_t, 4, 1");
}

TEST(EvtRefusals, OfTypesSayWhatHasToChange) {
  const auto said = [](const char* problem, const char* target, std::optional<DType> accumulator) {
    const Case c{"product", problem, "D=f32[M,N]", "def f(accum):\n    D = accum\n    return D\n"};
    GemmArguments arguments = problem_of(c).arguments;
    arguments.accumulator = accumulator;
    const auto text = emit_cutlass(arguments, options_of(c, target), "kernel");
    if (text) return std::string();
    const Diagnostic& first = text.error().diagnostics()[0];
    return std::to_string(text.error().code()) + " " + first.reason + "; " + first.help;
  };
  const std::string sm80 =
      "405 Sm80 multiplies two of f16, two of bf16 or two of f32 (as tf32) in f32, two of i8 or two of u8 in i32, and "
      "f64 in f64; ";
  for (const char* target : {"cutlass:sm_80", "cutlass:sm_90a"})
    EXPECT_TRUE(said("", target, DType::f64)
                    .ends_with("; accumulate in f32 (--accumulator f32), or use a cpu or cuda "
                               "target"))
        << said("", target, DType::f64);
  EXPECT_EQ(said("A=i8 B=u8 b_columns", "cutlass:sm_80", {}), sm80 + "convert A and B, or use a cpu or cuda target");
  EXPECT_EQ(said("A=i8 B=u8 b_columns", "cutlass:sm_90a", {}), "");
  EXPECT_EQ(said("A=f16 B=bf16", "cutlass:sm_80", {}), sm80 + "convert A and B, or use a cpu or cuda target");
}

// Sm80's instructions for bytes saturate: where that could be seen is refused, when a kernel is emitted and in calls.
TEST(EvtRefusals, OfSumsThatSaturate) {
  const auto source = [](const std::string& problem, const char* target) {
    const Case c{"sums", problem, "D=i32[M,N]", "def f(accum):\n    D = accum\n    return D\n"};
    const auto text = emit_cutlass(problem_of(c).arguments, options_of(c, target), "sums");
    return text ? text->source : text.error().render();
  };
  const std::string usual = source("A=i8 b_columns", "cutlass:sm_80");
  EXPECT_NE(usual.find("cutlass::arch::OpMultiplyAddSaturate, 1>"), std::string::npos);
  EXPECT_NE(usual.find("if (sizes[2] > 131071) return failed(-12, "), std::string::npos);
  EXPECT_EQ(source("A=f16", "cutlass:sm_80").find("Saturate"), std::string::npos);
  EXPECT_EQ(source("A=i8 b_columns", "cutlass:sm_90a").find("saturate"), std::string::npos);
  EXPECT_TRUE(source("A=i8 b_columns K=131056", "cutlass:sm_80").starts_with("// sums"));
  EXPECT_EQ(source("A=i8 b_columns K=131072", "cutlass:sm_80"),
            "error[E0406]: CUTLASS sums up to 131071 products of i8\n"
            "note: K is 131072, and Sm80's instructions for bytes saturate where a sum leaves i32, which wraps\n"
            "help: use a cuda target, or cutlass:sm_90a, whose kernels wrap\n");
  EXPECT_TRUE(source("A=u8 b_columns K=33024", "cutlass:sm_80").starts_with("// sums"));
  EXPECT_NE(source("A=u8 b_columns K=33040", "cutlass:sm_80").find("up to 33025 products of u8"), std::string::npos);
}

TEST(EvtCandidates, OfSm80HaveTheStagesOfTheirSource) {
  ContextOptions without;
  without.cache_enabled = false;
  Context context = Context::make(without).value();
  for (const char* target : {"cutlass:sm_80", "cutlass:sm_86", "cutlass:sm_89"}) {
    for (const char* problem : {"", "A=f64", "A=f32 tf32", "A=i8 b_columns"}) {
      const Case c{"candidates", problem, "D=f32[M,N]", "def f(accum):\n    D = accum\n    return D\n"};
      const GemmArguments arguments = problem_of(c).arguments;
      const auto found = find_cutlass_kernels(arguments, options_of(c, target), context);
      ASSERT_TRUE(found) << found.error().render();
      EXPECT_GE(found->kernels.size(), 4U) << target << " " << problem;
      for (const CutlassKernel& kernel : found->kernels) {
        const auto& config = kernel.metadata.config;
        const auto stages =
            std::find_if(config.begin(), config.end(), [](const auto& entry) { return entry.first == "stages"; });
        ASSERT_NE(stages, config.end());
        const auto text = emit_cutlass(arguments, kernel.options, "kernel");
        ASSERT_TRUE(text) << text.error().render();
        EXPECT_NE(text->source.find("GemmIdentityThreadblockSwizzle<8>, " + std::to_string(stages->second) + ", "),
                  std::string::npos)
            << kernel.metadata.name;
      }
    }
  }
}

// Asynchronous copies of Sm80 have 4 bytes at least.
TEST(EvtRefusals, OfRowsThatAreNotCopied) {
  const auto said = [](const char* problem) {
    const Case c{"rows", problem, "D=f32[M,N]", "def f(accum):\n    D = accum\n    return D\n"};
    const auto text = emit_cutlass(problem_of(c).arguments, options_of(c, "cutlass:sm_80"), "kernel");
    return text ? std::string() : text.error().render();
  };
  EXPECT_EQ(said("K=129"),
            "error[E0407]: A cannot be copied by cp.async\n"
            "note: its rows lie 129 elements of 2 bytes apart and its items 0: not multiples of 4 bytes\n"
            "help: pad its rows to a multiple of 4 bytes, or use a cuda target\n");
  EXPECT_NE(said("A=i8 b_columns K=130").find("not multiples of 4 bytes"), std::string::npos);
  EXPECT_EQ(said("K=130"), "");
  EXPECT_EQ(said("A=f32 tf32 K=129"), "");
  EXPECT_EQ(said("A=f64 K=129 N=385"), "");
}

TEST(EvtRefusals, OfNoColumns) {
  for (const char* target : {"cutlass:sm_80", "cutlass:sm_90a"}) {
    for (const char* problem : {"N=0", "M=0 N=0"}) {
      const Case c{"empty", problem, "D=f16[M,N]", "def f(accum):\n    D = relu(accum)\n    return D\n"};
      const auto text = emit_cutlass(problem_of(c).arguments, options_of(c, target), "kernel");
      ASSERT_FALSE(text);
      EXPECT_EQ(text.error().code(), 406);
      EXPECT_EQ(text.error().diagnostics()[0].reason,
                "N is 0, and rows of no elements do not say how far apart rows lie");
    }
    const Case rows{"empty", "M=0", "D=f16[M,N]", "def f(accum):\n    D = relu(accum)\n    return D\n"};
    EXPECT_TRUE(emit_cutlass(problem_of(rows).arguments, options_of(rows, target), "kernel"));
  }
}

int update() {
  std::filesystem::create_directories(folder);
  std::set<std::string> kept;
  for (const Case& c : all_cases()) {
    for (const std::string& target : targets) {
      const std::string path = path_of(c, target), text = text_of(c, target);
      kept.insert(path);
      if (contents(path) == text) continue;
      std::ofstream(path, std::ios::binary) << text;
      std::cout << "updated " << path.substr(folder.size() + 1) << "\n";
    }
  }
  std::string text = contents(page);
  const size_t begin = text.find(table_begin) + table_begin.size();
  text.replace(begin, text.find(table_end) - begin, operations_table());
  std::ofstream(page, std::ios::binary) << text;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (!kept.contains(file.path().string())) std::filesystem::remove(file.path());
  }
  return 0;
}

}  // namespace
}  // namespace codetta::evt_tests

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--update") == 0) return codetta::evt_tests::update();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

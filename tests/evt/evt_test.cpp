// SPDX-License-Identifier: Apache-2.0
// Emitted visitor trees against reviewed texts, and what their callers rely on. `test_evt --update` writes the texts
// anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <tuple>

#include "case.hpp"
#include "evt_test.hpp"
#include "example_cases.hpp"
#include "operations.hpp"
#include "types/op.hpp"

namespace codetta::evt_tests {
namespace {

const std::string folder = CODETTA_SOURCE_DIR "/tests/evt/expected";

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

// 5 ms at most where nothing else runs: the least of several times here, and time of the processor.
TEST(Evt, OneEmissionTakesAFewMilliseconds) {
  std::vector<double> seconds;
  for (const Case& c : all_cases()) {
    const Problem problem = problem_of(c);
    const EvtOptions options = options_of(c, "cutlass:sm_90a");
    double least = 1;
    for (int round = 0; round < 5; ++round) {
      const std::clock_t start = std::clock();
      (void)emit_evt(problem.arguments, options);
      least = std::min(least, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
    EXPECT_LE(least, 5e-3) << c.name;
    seconds.push_back(least);
  }
  std::sort(seconds.begin(), seconds.end());
  RecordProperty("median_us", static_cast<int>(seconds[seconds.size() / 2] * 1e6));
  RecordProperty("largest_us", static_cast<int>(seconds.back() * 1e6));
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

// By strides that an address alone does not show.
TEST(EvtRefusals, OfStrides) {
  const auto said = [](std::vector<EvtSize> of_c, std::vector<EvtSize> of_d, const char* target = "cutlass:sm_90a",
                       std::vector<EvtSize> shape = {256, 128}) {
    EvtOptions options = sm90();
    options.target = Target::parse(target).value();
    const auto text = emit_evt(epilogue_of("def f(accum, C):\n    D = accum + C\n    return D\n"),
                               {{"accum", DType::f32, shape},
                                {"C", DType::f16, {256, 128}, std::move(of_c)},
                                {"D", DType::f16, shape, std::move(of_d)}},
                               {}, options);
    if (!text) return std::to_string(text.error().code()) + " " + text.error().diagnostics()[0].headline;
    return text->source + (text->notes.empty() ? "" : " " + text->notes[0]);
  };
  EXPECT_EQ(said({}, {}), "C");
  // Tensor maps go forwards; threads go any way.
  EXPECT_EQ(said({}, {-128, 1}), "407 D cannot be moved by TMA");
  EXPECT_EQ(said({-128, 1}, {}), " C: moved element by element, since one of its strides is negative");
  EXPECT_EQ(said({-128, 1}, {-128, 1}, "cutlass:sm_80"), "");
  // Rows, items and all of them in one place.
  for (const char* target : {"cutlass:sm_80", "cutlass:sm_90a"}) {
    EXPECT_EQ(said({}, {8, 1}, target), "407 output D overlaps itself");
    EXPECT_EQ(said({}, {128, 128, 1}, target, {3, 256, 128}), "407 output D overlaps itself");
    EXPECT_EQ(said({}, {0, 128, 1}, target, {3, 256, 128}), "407 output D overlaps itself");
    EXPECT_EQ(said({}, {128, 384, 1}, target, {3, 256, 128}).substr(0, 3),
              std::string_view(target).ends_with("90a") ? "C" : "");
    const auto sums = [&](std::vector<EvtSize> strides) {
      EvtOptions options = sm90();
      options.target = Target::parse(target).value();
      options.deterministic = false;
      const auto text = emit_evt(epilogue_of("def f(accum):\n    D = accum\n    s = sum(D, dim=-1)\n    return D, s\n"),
                                 {{"accum", DType::f32, {3, 256, 128}},
                                  {"D", DType::f16, {3, 256, 128}},
                                  {"s", DType::f32, {3, 256, 1}, std::move(strides)}},
                                 {}, options);
      return text ? std::string() : text.error().diagnostics()[0].headline;
    };
    EXPECT_EQ(sums({256, 1, 1}), "");
    EXPECT_EQ(sums({256, 0, 1}), "output s overlaps itself");
    EXPECT_EQ(sums({1, 1, 1}), "output s overlaps itself");
  }
  // An accumulator that CUTLASS has with no factors.
  const auto wide = emit_evt(epilogue_of("def f(accum):\n    D = accum\n    return D\n"),
                             {{"accum", DType::i64, {256, 128}}, {"D", DType::i32, {256, 128}}}, {}, sm90());
  ASSERT_FALSE(wide);
  EXPECT_EQ(wide.error().code(), 405) << wide.error().render();
}

// Trees deeper than compilers follow, however long the text is, and at once; what is shared lies flat.
TEST(EvtRefusals, OfDeepTrees) {
  const auto said = [](size_t terms) {
    std::string text = "def f(accum, x):\n    D = accum";
    for (size_t i = 1; i < terms; ++i) text += " + x";
    const auto emitted =
        emit_evt(epilogue_of(text + "\n    return D\n"),
                 {{"accum", DType::f32, {256, 128}}, {"D", DType::f16, {256, 128}}}, {{"x", DType::f32}}, sm90());
    return emitted ? std::string() : emitted.error().render();
  };
  EXPECT_EQ(said(48), "");
  EXPECT_NE(said(300).find("error[E0311]: CUTLASS's visitors would lie 300 deep in one another\n  --> "),
            std::string::npos)
      << said(300);
  EXPECT_NE(said(300).find("help: compute a part of it outside"), std::string::npos);
  EXPECT_NE(said(1900).find("would lie 1900 deep"), std::string::npos) << said(1900);
  EXPECT_NE(said(3000).find("would lie more than 48 deep"), std::string::npos) << said(3000);
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

// SPDX-License-Identifier: Apache-2.0
// Programs explained: what is held, what is not fused under which code, and the bytes by hand.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "plan/explain.hpp"
#include "plan/regions.hpp"
#include "unit/plan/bind_text.hpp"

namespace codetta::plan {
namespace {

Plan plan_of(const std::string& text, const GivenSizes& sizes = {}, const char* target = "cpu:avx2") {
  const auto graph = test::bind_program_text(text);
  EXPECT_TRUE(graph) << graph.error().render();
  MachineFacts machine;
  machine.isa = CpuIsa::avx2;
  auto plan = plan_program(*graph, *Target::parse(target), machine, sizes);
  EXPECT_TRUE(plan) << plan.error().render();
  return *std::move(plan);
}

std::string program_example(const std::string& name) {
  std::ifstream file(std::string(CODETTA_SOURCE_DIR) + "/examples/programs/" + name + ".py");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

EmittedKernels names_for(const Plan& plan) {
  EmittedKernels emitted;
  for (size_t k = 0; k < plan.kernels.size(); ++k) emitted.names.push_back("k" + std::to_string(k));
  emitted.defined = emitted.compiled = plan.kernels.size();
  return emitted;
}

std::string saved(const Plan& plan) { return explained(plan).saved.to_string(); }

TEST(Explain, BytesOfASoftmaxBehindAProduct) {
  const Plan plan = plan_of("def f(x: f32[\"m\", 8], w: f32[8, \"n\"]):\n    y = softmax(x @ w)\n    return y\n");
  ASSERT_EQ(plan.kernels.size(), 1U);
  // The product and the maximum's difference are written once and read by two and one others, the exponentials by two:
  // 3 + 2 + 3 times 4 m n; two columns are written and read once: 4 times 4 m.
  EXPECT_EQ(saved(plan), "32*m*n + 16*m");
  EXPECT_EQ(explained(plan).one_an_operation, 6U) << "product, max, sub, exp, sum, div";
}

TEST(Explain, ViewsMoveNothingAndWhatIsStoredIsNotReadAgain) {
  EXPECT_EQ(saved(plan_of("def f(x: f32[\"m\", 8], w: f32[8, 64]):\n"
                          "    y = permute(reshape(x @ w, (m, 4, 16)), (1, 0, 2))\n    return y\n")),
            "0");
  // The sum is stored and doubled from where it is: one read of it less, and the product neither written nor read.
  const Plan plan = plan_of(
      "def f(x: f32[\"m\", 8], w: f32[8, 16], c: f32[\"m\", 16]):\n"
      "    r = x @ w + c\n    y = r * 2.0\n    return r, y\n");
  ASSERT_EQ(plan.kernels.size(), 1U);
  EXPECT_EQ(saved(plan), "192*m");
}

// On a GPU a launch takes longer than to compare positions, as long as there is not much to be moved.
TEST(Explain, PaddingIsOneKernelWhereLaunchesCostMore) {
  const std::string padded =
      "def f(x: f32[\"n\", 16, 16, 8], w: f32[8, 16]):\n    r = zeros(n, 1, 16, 8)\n"
      "    t = concat(r, x * 2.0, r, dim=1)\n    e = zeros(n, 18, 1, 8)\n    p = concat(e, t, e, dim=2)\n"
      "    y = p @ w\n    return y\n";
  for (const char* target : {"cuda:sm_90a", "hip:gfx942", "cpu:avx2"}) {
    const Plan plan = plan_of(padded, {{"n", 4}}, target);
    const bool gpu = target[1] != 'p';
    EXPECT_EQ(plan.kernels.size(), gpu ? 2U : 6U) << target;  // what t is made of is stored in p
    const std::string told = explain_text(plan, "f", names_for(plan), {{"n", 4}});
    EXPECT_EQ(told.find("parts selected by position: join, join\n") != std::string::npos, gpu) << told;
    EXPECT_EQ(told.find("parts stored where they belong: join\n") == std::string::npos, gpu) << told;
  }
  // Much to be moved, with arithmetic for each element: each part by itself.
  // A part that may have no elements has none to select.
  for (const int64_t n : {64, 4096}) {
    const auto kernels = [&](const std::string& k) {
      const std::string text =
          "def f(x: f32[\"n\", " + k + "]):\n    y = concat(zeros(n, 1), x * 2.0, dim=1)\n    return y\n";
      return plan_of(text, {{"n", n}, {"k", n}}, "cuda:sm_90a").kernels.size();
    };
    EXPECT_EQ(kernels(std::to_string(n)), n == 64 ? 1U : 2U);
    EXPECT_EQ(kernels("\"k\""), 2U);
  }
}

// What a kernel computes with elements that are not there other kernels make: told where sizes may come to it.
TEST(Explain, WhatIsNotMadeWithoutRows) {
  const std::string text =
      "def f(x: f32[\"m\", 8], w: f32[8, 16]):\n    y = x @ w\n    t = sum(exp(sum(y, dim=0)))\n    return y, t\n";
  const char* const line = "without rows other kernels make what it stores\n";
  const Plan plan = plan_of(text, {}, "hip:gfx942");
  ASSERT_EQ(plan.kernels.size(), 1U);
  EXPECT_EQ(not_without(plan, 0), std::vector<std::string_view>{"rows"});
  EXPECT_NE(explain_text(plan, "f", names_for(plan), {}).find(std::string("  empty    ") + line), std::string::npos);
  const auto json_of = [](const Plan& one) {
    std::string json = explain_json(one, "f", names_for(one), {});
    std::erase_if(json, [](char c) { return c == ' ' || c == '\n'; });
    return json;
  };
  EXPECT_NE(json_of(plan).find("\"not_without\":[\"rows\"]"), std::string::npos);
  EXPECT_NE(to_string(plan).find(line), std::string::npos);
  EXPECT_EQ(not_without(plan_of(text, {}, "metal:apple9"), 0), std::vector<std::string_view>{"rows"});
  std::string of_four = text;
  of_four.replace(of_four.find("\"m\""), 3, "4");
  for (const Plan& other : {plan_of(text), plan_of(of_four, {}, "hip:gfx942")}) {  // CPUs make all
    EXPECT_EQ(explain_text(other, "f", names_for(other), {}).find(line), std::string::npos);
    EXPECT_NE(json_of(other).find("\"not_without\":[]"), std::string::npos);
    EXPECT_EQ(to_string(other).find(line), std::string::npos);
  }
}

TEST(Explain, WhatSeveralKernelsComputeIsCountedOnce) {
  const Plan plan = plan_of(
      "def f(x: f32[\"m\", 8], u: f32[\"m\", 8], v: f32[8, 16], w: f32[8, 16], b: f32[16]):\n"
      "    e = exp(b)\n    y = x @ v + e\n    z = u @ w + e\n    return y, z\n");
  ASSERT_EQ(plan.kernels.size(), 2U);
  size_t repeated = 0;
  for (const PlannedKernel& kernel : plan.kernels) {
    for (const HeldOperation& held : kernel.account.held) repeated += held.repeated ? 1 : 0;
  }
  EXPECT_EQ(repeated, 1U);
  EXPECT_EQ(saved(plan), "256*m + 192") << "two products of 4 m 16, written and read; 4 * 16, written and read twice";
  EXPECT_EQ(explained(plan).one_an_operation, 5U);
}

// Notes of cuts, as codes.
std::vector<std::string> codes_of(const Plan& plan) {
  std::vector<std::string> codes;
  for (const FusionNote& note : plan.notes) codes.push_back(diag::code_text(note.why.code));
  return codes;
}

TEST(Explain, ReductionsOfLargeProductsOnAGpuAreKernelsOfTheirOwn) {
  const auto block = [](const std::string& result, int64_t rows, const char* target = "cuda:sm_90a") {
    return plan_of(
        "def f(x: bf16[\"m\", 4096], w: bf16[4096, 4096], c: bf16[\"m\", 4096]):\n"
        "    r = cast(x @ w + c, bf16)\n" +
            result,
        {{"m", rows}}, target);
  };
  const std::string norm = "    y = cast(rms_norm(r), bf16)\n    return r, y\n";
  const Plan apart = block(norm, 8192);
  ASSERT_EQ(apart.kernels.size(), 2U);
  EXPECT_EQ(codes_of(apart), std::vector<std::string>{"E0312"});
  // It reads what is stored anyway: no square, and nothing in f32.
  for (const package::Buffer& buffer : apart.buffers)
    EXPECT_NE(buffer.role, package::Buffer::Role::Temporary) << buffer.name;
  EXPECT_EQ(block(norm, 1).kernels.size(), 2U) << "one launch more instead of two";
  EXPECT_EQ(block(norm, 8192, "hip:gfx942").kernels.size(), 2U);
  EXPECT_EQ(block(norm, 8192, "cpu:avx2").kernels.size(), 1U) << "panels of a CPU stay in its caches";
  EXPECT_EQ(block("    s = sum(r, dim=-1)\n    return r, s\n", 8192).kernels.size(), 1U) << "no later phase reads it";
  EXPECT_EQ(block("    y = r - max(r, axis=\"column\")\n    return r, y\n", 8192).kernels.size(), 1U) << "not by rows";
  // softmax: what is reduced is handed over, once.
  const Plan softmax = plan_of(
      "def f(q: bf16[\"s\", 128], k: bf16[128, \"s\"]):\n    p = cast(softmax(q @ k * 0.1), bf16)\n    return p\n",
      {{"s", 8192}}, "cuda:sm_90a");
  ASSERT_EQ(softmax.kernels.size(), 2U);
  EXPECT_EQ(codes_of(softmax), std::vector<std::string>{"E0312"});
}

TEST(Explain, ItemsOfABatchArePlannedAsRows) {
  const auto shape = [](const std::string& result, int64_t b, int64_t s, const char* target = "cuda:sm_90a") {
    std::string text = "def f(x: bf16[\"b\", \"s\", 4096], w: bf16[4096, 4096]";
    const std::pair<const char*, const char*> operands[] = {{" + c", ", c: bf16[\"b\", \"s\", 4096]"},
                                                            {" + t", ", t: bf16[\"s\", 4096]"},
                                                            {" + o", ", o: bf16[\"b\", 1, 4096]"}};
    for (const auto& [use, parameter] : operands) {
      if (result.find(use) != std::string::npos) text += parameter;
    }
    const Plan plan = plan_of(text + "):\n    y = " + result + "\n    return y\n", {{"b", b}, {"s", s}}, target);
    const plan::GemmShape& of = plan.kernels[0].shape;
    return std::make_pair(of.batch, of.m);
  };
  using Pair = std::pair<int64_t, int64_t>;
  for (const char* target : {"cuda:sm_90a", "hip:gfx942", "cpu:avx2"})
    EXPECT_EQ(shape("cast(relu(x @ w) + c, bf16)", 4, 128, target), Pair(1, 512)) << target;
  EXPECT_EQ(shape("cast((x @ w) + t, bf16)", 4, 128), Pair(4, 128)) << "rows of t are read again for each item";
  EXPECT_EQ(shape("cast((x @ w) + t, bf16)", 8, 1), Pair(1, 8)) << "of one row an item it makes no difference";
  EXPECT_EQ(shape("cast((x @ w) + o, bf16)", 8, 1), Pair(8, 1)) << "its index is the item's alone";
  EXPECT_EQ(shape("permute(reshape(x @ w, (b, s, 32, 128)), (0, 2, 1, 3))", 8, 1), Pair(1, 8)) << "heads";
  EXPECT_EQ(shape("permute(reshape(x @ w, (b, s, 32, 128)), (0, 2, 1, 3))", 8, 2), Pair(8, 2));
}

// Stored values that another kernel reads: "code from -> to".
std::vector<std::string> boundaries(const Plan& plan) {
  std::vector<std::string> list;
  for (const Boundary& b : explained(plan).boundaries) {
    EXPECT_FALSE(b.text.empty());
    list.push_back((b.code == 0 ? "-" : diag::code_text(b.code)) + " " + plan.buffers[b.buffer].name.substr(0, 1) +
                   " " + std::to_string(b.from) + " " + std::to_string(b.to));
  }
  return list;
}
using List = std::vector<std::string>;

TEST(Explain, RefusalsWithTheirCodes) {
  const auto of = [](const std::string& more, const std::string& body) {
    return boundaries(plan_of("def f(x: f32[\"m\", 64], w: f32[64, 128]" + more + "):\n" + body + "    return y\n"));
  };
  const std::string v = ", v: f32[128, 64]";
  EXPECT_EQ(of("", "    y = relu((x @ w)[:, 3:67])\n"), List{"E0301 t 0 1"}) << "a slice behind the first column";
  EXPECT_EQ(of("", "    p = x @ w\n    y = p * p[:, 0:1]\n"), List{"E0301 t 0 1"}) << "the first column alone";
  EXPECT_EQ(of("", "    p = reshape(x @ w, (m, 8, 16))\n    y = p - max(p, dim=-1)\n"), List{"E0305 t 0 1"});
  EXPECT_EQ(of(v, "    y = x @ w + sum(v, dim=-1)[0:1, :]\n"), List{"E0306 t 0 1"}) << "a reduction of an operand";
  EXPECT_EQ(of(v, "    y = (x @ w) @ v\n"), List{"E0308 t 0 1"}) << "a factor";
  EXPECT_EQ(of("", "    y = (x * 2.0) @ w\n"), List{"E0310 t 0 1"}) << "work in front of a product";
  EXPECT_EQ(of(", b: f32[128]", "    y = x @ w + b\n"), List{}) << "a row";
  EXPECT_EQ(of("", "    y = permute(reshape(x @ w, (m, 8, 16)), (1, 0, 2)) * 3.0\n"), List{}) << "a permuted store";
  EXPECT_EQ(of(v, "    p = cast(relu(x @ w), bf16)\n    y = p @ cast(v, bf16)\n"), List{"E0308 t 0 2"})
      << "types change in the kernels around a product, and where B is packed";
}

TEST(Explain, AnExtraUserKeepsTheValueInMemory) {
  const Plan plan = plan_of(
      "def f(x: f32[\"m\", 64], w: f32[64, 64], v: f32[64, 64]):\n"
      "    p = relu(x @ w)\n    y = p @ v + p\n    return y, p\n");
  EXPECT_EQ(boundaries(plan), List{"E0308 p 0 1"});
  const std::string text = explain_text(plan, "f", names_for(plan), {});
  EXPECT_NE(text.find("stores   p f32[m, 64], 256*m bytes: returned and read by kernel 1"), std::string::npos) << text;
  EXPECT_NE(text.find("where each element is used 64 times"), std::string::npos) << text;
}

// Products of one B: the same words on every target, which computes products of one A together.
TEST(Explain, ProductsOfOneFactorApart) {
  for (const char* target : {"cpu:avx2", "cuda:sm_90a"}) {
    const Plan plan = plan_of(
        "def f(x: f32[\"m\", 64], z: f32[\"n\", 64], w: f32[64, 64]):\n    a = softmax(x @ w)\n"
        "    b = relu(z @ w)\n    c = relu(a @ w)\n    return b, c\n",
        {}, target);
    const ProgramExplanation facts = explained(plan);
    ASSERT_EQ(facts.shared.size(), 1U) << target;
    EXPECT_EQ(facts.shared[0].kernels.size(), 3U) << target;
    const std::string text = explain_text(plan, "f", names_for(plan), {});
    EXPECT_NE(text.find(" multiply the same B w with x, z and t"), std::string::npos) << text;
    EXPECT_NE(text.find(" and are not computed together; 32768 bytes of it are read again\n"), std::string::npos)
        << text;
    EXPECT_EQ(text.find("no kernel reads as one factor"), std::string::npos) << text;
  }
  // Of several B that are made, too: on CPUs one kernel packs them all, on GPUs each product makes its own.
  const std::string several =
      "def f(x: f32[\"m\", 512], v: i8[512, 512], w: i8[512, 512]):\n    y = relu(x @ cast(v, f32)) * (x @ cast(w, "
      "f32))\n"
      "    return y\n";
  for (const char* target : {"cpu:avx2", "cuda:sm_80", "hip:gfx942"}) {
    const std::string text =
        explain_text(plan_of(several, {}, target), "f", names_for(plan_of(several, {}, target)), {});
    EXPECT_EQ(text.find("are not computed together, since one that makes its B where it reads it makes that of one "
                        "product; ") != std::string::npos,
              target != std::string("cpu:avx2"))
        << text;
  }
  const Plan made = plan_of("def f(x: f32[\"m\", 64], w: f32[64, 64]):\n    y = relu((x * 2.0) @ w)\n    return y\n");
  const std::string text = explain_text(made, "f", names_for(made), {});
  EXPECT_NE(text.find("where each element is used 64 times; the product reads it from memory\n"), std::string::npos)
      << text;
}

TEST(Explain, TheDecoderBlock) {
  const Plan plan = plan_of(program_example("llama_block"), {{"b", 4}, {"s", 128}});
  const ProgramExplanation facts = explained(plan);
  EXPECT_EQ(facts.launched, 7U);
  EXPECT_EQ(facts.one_an_operation, 45U);
  EXPECT_EQ(facts.saved.to_string(), "320*b*s*s + 51376*b*s");
  uint32_t before = 0;
  for (const size_t k : facts.order) {
    const auto& origins = plan.kernels[k].account.origins;
    ASSERT_FALSE(origins.empty());
    EXPECT_GE(origins.front().line, before) << "in the order of the text";
    before = origins.front().line;
  }
  EXPECT_TRUE(facts.shared.empty()) << "queries, keys and values are one kernel, and so are gate and up";
  for (const Boundary& b : facts.boundaries) EXPECT_TRUE(b.code == 308 || b.code == 310) << b.text;

  const std::string text = explain_text(plan, "llama_block", names_for(plan), {{"b", 4}, {"s", 128}});
  for (const char* wanted :
       {"sizes: b = 4 and s = 128\n", "p.py:17: h = rms_norm(x, attention_weight)\n", "(h) f32[b, s, 256]",
        "1024*b*s = 524288 bytes: read by kernel 1\n", "kernels launched   7; one an operation would be 45\n",
        "3 products of one A, together s x 768 x 256, batch b\n",
        "wq f32[256, 256] as B, wk f32[256, 256] as B, wv f32[256, 256] as B",
        "2 products of one A, together s x 1536 x 256, batch b\n", "(r) f32[b, s, 256]", "max, sum"})
    EXPECT_NE(text.find(wanted), std::string::npos) << wanted << "\n" << text;
  EXPECT_EQ(text, explain_text(plan_of(program_example("llama_block"), {{"b", 4}, {"s", 128}}), "llama_block",
                               names_for(plan), {{"b", 4}, {"s", 128}}));
}

TEST(Explain, SumsOfColumnsStandInParentheses) {
  const Plan plan = plan_of(
      "def f(x: bf16[\"m\", 64], q: bf16[64, \"n\"], k: bf16[64, 16]):\n    y = x @ q\n    z = x @ k\n    return y, "
      "z\n",
      {{"m", 3}, {"n", 96}}, "cuda:sm_80");
  const std::string text = explain_text(plan, "f", names_for(plan), {{"m", 3}, {"n", 96}});
  EXPECT_NE(text.find("2 products of one A, of n and 16 columns, together m x (n + 16) x 64\n"), std::string::npos)
      << text;
}

TEST(Explain, SizesThatAreNotGivenStayExpressions) {
  const std::string text = "def f(x: f32[\"m\", 8], w: f32[8, \"n\"]):\n    y = relu(x @ w)\n    return y\n";
  const Plan plan = plan_of(text, {{"m", 3}});
  const std::string some = explain_text(plan, "f", names_for(plan), {{"m", 3}});
  EXPECT_NE(some.find("sizes: m = 3; n is not given; estimates take 512\n"), std::string::npos) << some;
  EXPECT_NE(some.find("saved    8*m*n bytes\n"), std::string::npos) << some;
  const std::string json = explain_json(plan, "f", names_for(plan), {{"m", 3}});
  EXPECT_NE(json.find("\"expression\": \"8*m*n\",\n        \"value\": null"), std::string::npos) << json;
  for (const char* part : {"\"memory\": {", "\"occupied\": ["})
    EXPECT_NE(json.find(part), std::string::npos) << part << "\n" << json;
  const std::string all = explain_json(plan, "f", names_for(plan), {{"m", 3}, {"n", 5}});
  EXPECT_NE(all.find("\"expression\": \"8*m*n\",\n        \"value\": 120"), std::string::npos) << all;
}

TEST(Explain, WhatAMapIsNotPutInto) {
  std::string text = "def f(x0: f32[\"m\", 64]):\n", results;
  for (int i = 0; i < 10; ++i) {
    const std::string x = "x" + std::to_string(i), next = "x" + std::to_string(i + 1);
    text += "    " + next + " = exp(" + x + " / sum(" + x + ", dim=-1))\n";
    results += (i == 0 ? "" : ", ") + next;
  }
  const Plan plan = plan_of(text + "    return " + results + "\n");
  EXPECT_EQ(plan.kernels.size(), 2U);
  const ProgramExplanation facts = explained(plan);
  ASSERT_EQ(facts.boundaries.size(), 1U);
  EXPECT_EQ(facts.boundaries[0].code, 419);
  EXPECT_EQ(facts.boundaries[0].text, "together with what it reads it takes 9 phases; a kernel has up to 8");
}

TEST(Explain, MapsOfOtherSpacesAreKernelsOfTheirOwn) {
  const Plan plan = plan_of(
      "def f(x: f32[\"m\", 64], z: f32[64, \"k\"]):\n    a = sum(x, dim=-2)\n"
      "    y = z * reshape(a, (64, 1))\n    return a, y\n");
  ASSERT_EQ(plan.kernels.size(), 2U);
  EXPECT_EQ(boundaries(plan), List{"E0301 a 0 1"});
  EXPECT_NE(explained(plan).boundaries[0].text.find("f32[64, k]"), std::string::npos)
      << explained(plan).boundaries[0].text;
}

TEST(Explain, BranchesAndStepsReadFromMemory) {
  const Plan plan = plan_of(
      "def yes(x):\n    r = x @ x\n    return r\n\n"
      "def no(x):\n    r = exp(x) * 2.0\n    return r\n\n"
      "def f(p: bool[1], a: f32[64, 64], w: f32[64, 64]):\n"
      "    h = relu(a @ w)\n    y = cond(p, yes, no, h)\n    z = index_put(y, 5, h[1, :] + 1.0)\n    return z\n");
  const ProgramExplanation facts = explained(plan);
  size_t nested = 0, by_steps = 0;
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    ASSERT_NE(facts.launches[k], nullptr);
    nested += facts.nested[k] ? 1 : 0;
    const KernelAccount& account = plan.kernels[k].account;
    EXPECT_TRUE(account.held.empty() || !account.origins.empty()) << "kernel " << k;
  }
  for (const Boundary& b : facts.boundaries) by_steps += b.step.empty() ? 0 : 1;
  EXPECT_EQ(nested, 2U) << "one in each branch";
  EXPECT_GE(by_steps, 1U) << "index_put reads what is put";
  const std::string text = explain_text(plan, "f", names_for(plan), {});
  for (const char* wanted :
       {"in a branch or a loop\n  p.py:2: r = x @ x\n", "  p.py:6: r = exp(x) * 2.0\n",
        "no kernel carries the step out; it reads values from memory", "runs in a branch or a loop"})
    EXPECT_NE(text.find(wanted), std::string::npos) << wanted << "\n" << text;
  EXPECT_EQ(text, explain_text(plan, "f", names_for(plan), {}));
  EXPECT_NE(explain_json(plan, "f", names_for(plan), {}).find("\"nested\": true"), std::string::npos);
}

// A plan of the smallest program there is, whole.
TEST(Explain, ReadsWell) {
  const Plan plan = plan_of(
      "def f(x: f32[\"m\", 4], w: f32[4, 16], b: f32[16]):\n    # the layer\n    h = x @ w + b\n    y = relu(h)\n"
      "    return y\n");
  std::string text = explain_text(plan, "f", names_for(plan), {});
  const size_t picked = text.find("  picked "), end = text.find("\nnot fused");  // estimates are not for here
  ASSERT_TRUE(picked != std::string::npos && end != std::string::npos) << text;
  text.erase(picked, end - picked);
  EXPECT_EQ(text,
            "f for cpu:avx2\n"
            "sizes: m is not given; estimates take 512\n"
            "\n"
            "kernel 0, k0: product m x 16 x 4\n"
            "  p.py:3: h = x @ w + b\n"
            "  p.py:4: y = relu(h)\n"
            "  reads    x f32[m, 4] as A, w f32[4, 16] as B, b f32[16]\n"
            "  stores   y f32[m, 16], 64*m bytes: returned\n"
            "  holds    the product: matmul\n"
            "           element by element: add, relu\n"
            "  saved    256*m bytes\n"
            "             matmul f32[m, 16], line 3: 128*m bytes, neither written nor read\n"
            "             h f32[m, 16], line 3: 128*m bytes, neither written nor read\n"
            "\n"
            "not fused: nothing\n"
            "\n"
            "totals\n"
            "  kernels launched   1; one an operation would be 3\n"
            "  kernels distinct   1, of 1 sources\n"
            "  bytes saved        256*m bytes\n"
            "  peak memory        0 bytes, 1.000 of its lower bound 0; 0 without sharing\n");
}

}  // namespace
}  // namespace codetta::plan

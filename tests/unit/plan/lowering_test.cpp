// SPDX-License-Identifier: Apache-2.0
// The example epilogues as programs, and what can't be lowered.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "plan/compared.hpp"
#include "plan/lower.hpp"
#include "plan/plan.hpp"
#include "unit/plan/bind_text.hpp"

namespace {

using namespace codetta;
using test::gemm_facts;
using test::scalar;
using test::tensor;

std::string lowered(const std::string& name, const std::vector<ir::BoundArgument>& arguments,
                    const ir::GemmFacts& facts) {
  const auto graph = test::bind_text(test::example(name), arguments, facts);
  if (!graph) return graph.error().render();
  const auto result = plan::lower_epilogue(*graph, test::product(*graph), {});
  if (!result) return result.error().render();
  const auto defect = package::find_defect(result->program);
  return defect ? *defect : result->program.to_string();
}

TEST(Lowering, ReluAuxStore) {
  EXPECT_EQ(lowered("relu_aux_store",
                    {scalar("alpha"), tensor("C", DType::bf16, {8, 64}), tensor("D", DType::bf16, {8, 64}),
                     tensor("F", DType::bf16, {8, 64})},
                    gemm_facts(8, 64, 16, DType::bf16)),
            R"(accumulator f32
argument alpha: f32 scalar
argument C: bf16[m, n]
argument D: bf16[m, n] output
argument F: bf16[m, n] output
phase 0: tile
  v0:f32 = accumulator
  v1:f32 = scalar alpha
  v2:f32 = mul v0 v1
  v3:f32 = load C[full, unit]
  v4:f32 = 2.0
  v5:f32 = mul v3 v4
  v6:f32 = add v2 v5
  v7:f32 = relu v6
  store D[full, unit] = v7
  store F[full, unit] = v6
)");
}

TEST(Lowering, SwigluHalves) {
  EXPECT_EQ(lowered("swiglu", {tensor("D", DType::f32, {8, 32})}, gemm_facts(8, 64, 16)), R"(accumulator f32
split columns in 2 by chunks of 32
argument D: f32[8, 32] output
phase 0: tile
  v0:f32 = accumulator part 0
  v1:f32 = accumulator part 1
  v2:f32 = silu v0
  v3:f32 = mul v2 v1
  store D[full, unit] = v3
)");
}

TEST(Lowering, SwigluInterleaved) {
  EXPECT_EQ(lowered("swiglu_interleaved", {tensor("D", DType::f32, {8, 32})}, gemm_facts(8, 64, 16)), R"(accumulator f32
split columns in 2 by chunks of 1
argument D: f32[8, 32] output
phase 0: tile
  v0:f32 = accumulator part 0
  v1:f32 = accumulator part 1
  v2:f32 = silu v0
  v3:f32 = mul v2 v1
  store D[full, unit] = v3
)");
}

TEST(Lowering, Rotary) {
  EXPECT_EQ(lowered("rotary",
                    {tensor("cosines", DType::f32, {8, 1, 8}), tensor("sines", DType::f32, {8, 1, 8}),
                     tensor("D", DType::f32, {8, 64})},
                    gemm_facts(8, 64, 16)),
            R"(accumulator f32
split columns in 2 by chunks of 8
argument cosines: f32[8, 1, 8]
argument sines: f32[8, 1, 8]
argument D: f32[8, 64] output
phase 0: tile
  v0:f32 = accumulator part 0
  v1:f32 = accumulator part 1
  v2:f32 = load cosines[indexed, row in dim -3, col % 8 in dim -1]
  v3:f32 = mul v0 v2
  v4:f32 = load sines[indexed, row in dim -3, col % 8 in dim -1]
  v5:f32 = mul v1 v4
  v6:f32 = sub v3 v5
  v7:f32 = mul v1 v2
  v8:f32 = mul v0 v4
  v9:f32 = add v7 v8
  store D[indexed, row in dim -2, col % 8 in dim -1, 16 * (col // 8) in dim -1] = v6
  store D[indexed, row in dim -2, col % 8 in dim -1, 16 * (col // 8) in dim -1, 8 in dim -1] = v9
)");
}

TEST(Lowering, HeadsFirst) {
  EXPECT_EQ(lowered("heads_first", {tensor("bias", DType::f32, {64}), tensor("D", DType::f32, {4, 8, 16})},
                    gemm_facts(8, 64, 16)),
            R"(accumulator f32
argument bias: f32[64]
argument D: f32[4, 8, 16] output
phase 0: tile
  v0:f32 = accumulator
  v1:f32 = load bias[row, unit]
  v2:f32 = add v0 v1
  store D[indexed, col // 16 in dim -3, row in dim -2, col % 16 in dim -1] = v2
)");
}

TEST(Lowering, RmsNorm) {
  EXPECT_EQ(
      lowered("rms_norm", {tensor("weight", DType::f32, {64}), scalar("epsilon"), tensor("D", DType::f32, {8, 64})},
              gemm_facts(8, 64, 16)),
      R"(accumulator f32
argument weight: f32[n]
argument epsilon: f32 scalar
argument D: f32[m, n] output
phase 0: tile
  v0:f32 = accumulator
  v1:f32 = mul v0 v0
  reduce row mean v1 -> r0
phase 1: row panel
  v0:f32 = accumulator
  v1:f32 = r0
  v2:f32 = scalar epsilon
  v3:f32 = add v1 v2
  v4:f32 = rsqrt v3
  v5:f32 = mul v0 v4
  v6:f32 = load weight[row, unit]
  v7:f32 = mul v5 v6
  store D[full, unit] = v7
)");
}

TEST(Lowering, Softmax) {
  EXPECT_EQ(lowered("softmax",
                    {scalar("inverse_temperature"), tensor("D", DType::f32, {8, 64}),
                     tensor("normalizer", DType::f32, {8, 1})},
                    gemm_facts(8, 64, 16)),
            R"(accumulator f32
argument inverse_temperature: f32 scalar
argument D: f32[m, n] output
argument normalizer: f32[m, 1] output
phase 0: tile
  v0:f32 = accumulator
  v1:f32 = scalar inverse_temperature
  v2:f32 = mul v0 v1
  reduce row logsumexp v2 -> r0
phase 1: row panel
  v0:f32 = accumulator
  v1:f32 = scalar inverse_temperature
  v2:f32 = mul v0 v1
  v3:f32 = r0
  v4:f32 = sub v2 v3
  v5:f32 = exp v4
  store D[full, unit] = v5
  store normalizer[column] = v3
)");
}

// Where a value is compared with what is made of it, phases and kernels compute it alike.
TEST(Lowering, WithoutContractionWhereAValueIsComparedWithItself) {
  const auto contracts = [](const std::string& body) {
    std::string text = "def f(x: f32[8, 64], w: f32[64, 48]";
    for (const char* vector : {"c", "limit"}) {
      if (std::regex_search(body, std::regex(std::string("\\b") + vector + "\\b")))
        text += std::string(", ") + vector + ": f32[48]";
    }
    const auto graph = test::bind_program_text(text + "):\n" + body + "    return y\n");
    EXPECT_TRUE(graph) << graph.error().render();
    if (!graph) return true;
    const auto compared = plan::compared_with_itself(*graph);
    const bool any = std::find(compared.begin(), compared.end(), true) != compared.end();
    const auto planned = plan::plan_program(*graph, Target::parse("cpu:avx2").value(), {}, {});
    EXPECT_TRUE(planned) << planned.error().render();
    bool all = true;
    if (planned) {
      for (const plan::PlannedKernel& kernel : planned->kernels) all = all && kernel.lowered.program.contracts;
    }
    EXPECT_EQ(all, !any) << body;
    return all;
  };
  for (const char* body : {
           "    t = (x @ w) * 2.0 + c\n    y = where(t >= max(t, dim=-1), t, 0.0)\n",
           "    t = x * x + 1.0\n    y = cast(min(t, dim=-1) == t, f32) @ w\n",
           "    t = softmax(x @ w)\n    y = t > mean(t, dim=-1)\n",
           "    t = gelu(x @ w)\n    y = reshape(t, (8, 48, 1)) < reshape(t, (8, 1, 48))\n",
           "    q = cast((x @ w) * 2.0 + c, i64)\n    y = q >= max(q, dim=-1)\n",  // whole numbers of what rounds
       })
    EXPECT_FALSE(contracts(body)) << body;
  for (const char* body : {
           "    t = (x @ w) * 2.0 + c\n    y = where(t >= 0.0, t, 0.0)\n",
           "    t = (x @ w) * 2.0 + c\n    y = where((t >= limit) & (c < t), t, 0.0)\n",
           "    t = x @ w\n    y = t >= max(t, dim=-1)\n",    // nothing rounds
           "    y = (x @ w) * 2.0 > exp(c) + limit * 2.0\n",  // nothing in common
           "    t = softmax(x @ w)\n    y = where(reshape(arange(8), (8, 1)) < arange(48), t, 0.0)\n",
       })
    EXPECT_TRUE(contracts(body)) << body;
}

// The outputs of a program of one product x @ w, and of nothing else that is loaded.
std::string region_of(const std::string& body, const std::string& outputs, bool sums_exponents) {
  const auto graph =
      test::bind_program_text("def f(x: bf16[8, 64], w: bf16[64, 48]):\n" + body + "    return " + outputs + "\n");
  if (!graph) return graph.error().render();
  plan::LoweringScope scope;
  scope.sums_exponents = sums_exponents;
  for (const ir::GraphOutput& output : graph->outputs())
    scope.outputs.push_back({output.node, output.name, output.dtype});
  const auto result = plan::lower_region(*graph, test::product(*graph), scope);
  if (!result) return result.error().render();
  const auto defect = package::find_defect(result->program);
  return defect ? *defect : result->program.to_string();
}

TEST(Lowering, SumsOfExponents) {
  const std::string body =
      "    h = cast(x @ w, bf16)\n    s = h * 0.5\n    m = max(s, dim=-1)\n    d = sum(exp(s - m), dim=-1)\n";
  EXPECT_EQ(region_of(body, "h, m, d", true), R"(accumulator f32
argument h: bf16[8, 48] output
argument m: f32[8, 1] output
argument d: f32[8, 1] output
phase 0: tile
  v0:f32 = accumulator
  v1:f32 = cast v0 rounded to bf16
  v2:f32 = 0.5
  v3:f32 = mul v1 v2
  store h[full, unit] = v0
  reduce row max v3 -> r0
  reduce row sumexp v3 -> r1
phase 1: row panel, no accumulator
  v0:f32 = r0
  v1:f32 = r1
  store m[column] = v0
  store d[column] = v1
)");
  // Only where it is asked for, and of nothing that is not exactly this.
  EXPECT_EQ(region_of(body, "h, m, d", false).find("sumexp"), std::string::npos);
  for (const char* other : {
           "    m = max(s, dim=-1)\n    d = sum(exp(h - m), dim=-1)\n",
           "    m = min(s, dim=-1)\n    d = sum(exp(s - m), dim=-1)\n",
           "    m = max(s, dim=-1)\n    d = sum(exp(m - s), dim=-1)\n",
           "    m = max(s, dim=-1)\n    d = mean(exp(s - m), dim=-1)\n",
           "    m = max(s, dim=-2)\n    d = sum(exp(s - m), dim=-1)\n",
           "    m = max(s, dim=-2)\n    d = sum(exp(s - m), dim=-2)\n",
           "    m = max(s, dim=(-2, -1))\n    d = sum(exp(s - m), dim=(-2, -1))\n",
       }) {
    const std::string text =
        region_of(std::string("    h = cast(x @ w, bf16)\n    s = h * 0.5\n") + other, "h, d", true);
    EXPECT_NE(text.find("reduce "), std::string::npos) << text;
    EXPECT_EQ(text.find("sumexp"), std::string::npos) << text;
  }
}

TEST(Lowering, Statistics) {
  EXPECT_EQ(lowered("statistics",
                    {tensor("total", DType::f32, {1, 1}), tensor("smallest", DType::f32, {64}),
                     tensor("largest", DType::f32, {1, 64}), tensor("average", DType::f32, {8, 1}),
                     tensor("energy", DType::f32, {})},
                    gemm_facts(8, 64, 16)),
            R"(accumulator f32
argument total: f32[1, 1] output
argument smallest: f32[1, n] output
argument largest: f32[1, n] output
argument average: f32[m, 1] output
argument energy: f32[1, 1] output
phase 0: tile
  v0:f32 = accumulator
  v1:f32 = mul v0 v0
  reduce all sum v0 -> r0
  reduce column min v0 -> r1
  reduce column max v0 -> r2
  reduce row mean v0 -> r3
  reduce all sum v1 -> r4
phase 1: whole, no accumulator
  v0:f32 = r0
  v1:f32 = r1
  v2:f32 = r2
  v3:f32 = r3
  v4:f32 = r4
  store total[scalar] = v0
  store smallest[row, unit] = v1
  store largest[row, unit] = v2
  store average[column] = v3
  store energy[scalar] = v4
)");
}

TEST(Lowering, JoinInterleaved) {
  EXPECT_EQ(lowered("join_interleaved", {tensor("D", DType::bf16, {8, 64})}, gemm_facts(8, 64, 16)), R"(accumulator f32
split columns in 2 by chunks of 32
argument D: bf16[8, 64] output
phase 0: tile
  v0:f32 = accumulator part 0
  v1:f32 = accumulator part 1
  v2:f32 = tanh v0
  v3:f32 = sigmoid v1
  store D[full, 2 * col in dim -1] = v2
  store D[full, 2 * col in dim -1, 1 in dim -1] = v3
)");
}

TEST(Lowering, EmptyProblemsHaveAProgram) {
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{0, 64}, {8, 0}, {0, 0}}) {
    const std::string text = lowered("swiglu", {tensor("D", DType::f32, {m, n / 2})}, gemm_facts(m, n, 16));
    EXPECT_EQ(text.substr(0, 15), "accumulator f32") << text;
  }
  const std::string heads = lowered(
      "heads_first", {tensor("bias", DType::f32, {64}), tensor("D", DType::f32, {4, 0, 16})}, gemm_facts(0, 64, 16));
  EXPECT_EQ(heads.substr(0, 15), "accumulator f32") << heads;
}

// Sizes are constants here, and an index over one row or column leaves no trace.
TEST(Lowering, ReducesItemsOfOneRowOrColumn) {
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{1, 16}, {8, 2}, {1, 2}}) {
    ir::GemmFacts facts = gemm_facts(m, n, 4);
    facts.batched = true;
    facts.batch = 3;
    const auto graph =
        test::bind_text("def f(accum):\n    a, b = split(accum, 2)\n    D = a - sum(a * b)\n    return D\n",
                        {tensor("D", DType::f32, {3, m, n / 2})}, facts);
    ASSERT_TRUE(graph) << graph.error().render();
    const auto result = plan::lower_epilogue(*graph, test::product(*graph), {});
    ASSERT_TRUE(result) << result.error().render();
    EXPECT_NE(result->program.to_string().find("reduce all sum"), std::string::npos) << result->program.to_string();
  }
}

std::string refused(std::string text, const std::vector<ir::BoundArgument>& arguments, int64_t m = 8, int64_t n = 64) {
  const auto graph = test::bind_text(std::move(text), arguments, gemm_facts(m, n, 16));
  if (!graph) return graph.error().message();
  const auto result = plan::lower_epilogue(*graph, test::product(*graph), {});
  if (result) return result->program.to_string();
  EXPECT_NE(result.error().diagnostics()[0].where.line, 0u);
  EXPECT_FALSE(result.error().diagnostics()[0].help.empty());
  return result.error().message();
}

TEST(LoweringErrors, HaveTheirHeadlines) {
  EXPECT_EQ(refused("def f(accum):\n    D = accum + permute(accum, (1, 0))\n    return D\n",
                    {tensor("D", DType::f32, {8, 8})}, 8, 8),
            "error[E0301]: the accumulator is needed at two positions at once");
  EXPECT_EQ(refused("def f(accum):\n    a, b = split(accum, 2, dim=0)\n    D = a * b\n    return D\n",
                    {tensor("D", DType::f32, {4, 64})}),
            "error[E0302]: this split cannot be fused");
  EXPECT_EQ(
      refused("def f(accum):\n    D = sum(permute(reshape(accum, (-1, 4, 16)), (1, 0, 2)), dim=-1)\n    return D\n",
              {tensor("D", DType::f32, {4, 8, 1})}),
      "error[E0305]: this reduction is over neither rows, columns nor everything");
  EXPECT_EQ(refused("def f(accum, C):\n    D = accum - max(C, axis=\"row\")\n    return D\n",
                    {tensor("C", DType::f32, {8, 64}), tensor("D", DType::f32, {8, 64})}),
            "error[E0306]: a reduction of an operand alone cannot be fused");
  EXPECT_EQ(
      refused("def f(accum, C, E):\n    D = accum + join(C, E, dim=-1)\n    return D\n",
              {tensor("C", DType::f32, {8, 32}), tensor("E", DType::f32, {8, 32}), tensor("D", DType::f32, {8, 64})}),
      "error[E0307]: which part of this join is needed depends on the element");
}

TEST(LoweringErrors, ReshapeAcrossDims) {  // E0304
  EXPECT_EQ(refused("def f(accum):\n    D = reshape(permute(accum, (1, 0)), (4, 128))\n    return D\n",
                    {tensor("D", DType::f32, {4, 128})})
                .substr(0, 12),
            "accumulator ");
  EXPECT_EQ(refused("def f(accum):\n    D = reshape(reshape(permute(accum, (1, 0)), (-1,)), (3, -1))\n    return D\n",
                    {tensor("D", DType::f32, {3, 192})}, 9, 64),
            "error[E0304]: this reshape cannot be followed by index arithmetic");
}

TEST(LoweringLayout, DimsOfSymbolicSizesAreMerged) {
  ir::GraphBuilder builder;
  const auto m = ir::Dim::symbol("m"), n = ir::Dim::symbol("n"), k = ir::Dim::symbol("k");
  const ir::NodeId factors[] = {builder.add_input("A", {DType::f32, false, {m, k}}),
                                builder.add_input("B", {DType::f32, false, {k, n}})};
  const auto product = builder.add(ir::Op::matmul, factors, ir::MatmulAttr{DType::f32});
  ASSERT_TRUE(product);
  const ir::NodeId from[] = {*product};
  const auto flat = builder.add(ir::Op::reshape, from, ir::ReshapeAttr{{m * n}});
  ASSERT_TRUE(flat);
  builder.add_output("D", *flat, DType::f32);
  const auto graph = std::move(builder).finish();
  ASSERT_TRUE(graph);
  const auto lowered = plan::lower_epilogue(*graph, test::product(*graph), {});
  ASSERT_TRUE(lowered) << lowered.error().render();
  // Element [row, col] lies at row * n + col.
  const auto& operands = lowered->program.operands;
  ASSERT_EQ(operands.size(), 1u);
  ASSERT_EQ(operands[0].terms.size(), 2u);
  for (const package::IndexTerm& term : operands[0].terms)
    EXPECT_EQ(term.scale, term.axis == package::Axis::Row ? n : ir::Dim::constant(1));
}

TEST(LoweringErrors, SecondProductAndFactors) {
  const auto two = test::bind_program_text("def f(x: f32[8, 8], y: f32[8, 8]):\n    z = (x @ y) @ y\n    return z\n");
  ASSERT_TRUE(two) << two.error().render();
  EXPECT_EQ(plan::lower_epilogue(*two, test::product(*two), {}).error().message(),
            "error[E0308]: a region holds one matrix product");
  const auto own = test::bind_program_text("def f(x: f32[8, 8], y: f32[8, 8]):\n    z = (x @ y) + x\n    return z\n");
  ASSERT_TRUE(own) << own.error().render();
  EXPECT_EQ(plan::lower_epilogue(*own, test::product(*own), {}).error().message(),
            "error[E0309]: a factor of the product is read by its epilogue under the same name");
}

}  // namespace

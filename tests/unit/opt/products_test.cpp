// SPDX-License-Identifier: Apache-2.0
// Products with a dim of size 1: each rule fires where its product is of that kind, only there, and keeps the meaning.
#include <gtest/gtest.h>

#include "compare.hpp"
#include "frontend/lower.hpp"
#include "ir/analyses.hpp"
#include "ir/bind.hpp"
#include "ir/print.hpp"
#include "opt/passes.hpp"
#include "opt/rules.hpp"
#include "opt/slices.hpp"

namespace codetta::opt::test {
namespace {

struct Case {
  const char* rule;  // the only one of the table that fires; null: none does
  const char* text;
  size_t products = 0;  // that are left
};
constexpr Case cases[] = {
    {"rows_of_items", "def f(x: f32[3, 1, 5], w: f32[5, 4]):\n    y = relu(x) @ w\n    return y\n", 1},
    {"rows_of_items", "def f(x: f32[2, 3, 1, 5], w: bf16[5, 4]):\n    y = relu(x) @ w + 1\n    return y\n", 1},
    {"rows_of_items", "def f(x: f32[\"b\", 1, 5], w: f32[5, 4]):\n    y = relu(x) @ w\n    return y\n", 1},
    {"rows_of_items", "def f(x: f32[3, 1, 1, 5], w: f32[5, 4]):\n    y = relu(x) @ w\n    return y\n", 1},
    {"rows_of_items", "def f(x: f32[1, 1, 5], w: f32[5, 4]):\n    y = relu(x) @ w\n    return y\n", 1},
    {"rows_of_items", "def f(x: f32[\"b\", \"c\", 1, 5], w: f32[5, 4]):\n    y = x @ w\n    return y\n", 1},
    {"mixed_items", "def f(x: f32[\"b\", \"c\", 2, 5], w: f32[5, 4]):\n    y = x @ w\n    return y\n", 1},
    {"mixed_items", "def f(x: f32[\"b\", \"c\", 2, 5], w: f32[\"b\", \"c\", 5, 3]):\n    y = x @ w\n    return y\n", 1},
    {"mixed_items", "def f(x: f32[\"b\", \"c\", 2, 5], w: f32[\"c\", 5, 3]):\n    y = relu(x @ w)\n    return y\n", 1},
    {"mixed_items", "def f(x: f32[2, 1, \"c\", 2, 5], w: f32[5, \"c\", 5, 3]):\n    y = x @ w\n    return y\n", 1},
    {"mixed_items",
     "def f(x: f32[\"b\", 1, \"m\", \"k\"], w: f32[1, \"c\", \"k\", \"n\"]):\n    y = x @ w\n    return y\n", 1},
    {"mixed_items", "def f(x: f32[1, 1, 2, 5], w: f32[\"b\", \"c\", 5, 3]):\n    y = x @ w\n    return y\n", 1},
    {"rows_of_items", "def f(x: f32[\"b\", \"c\", \"d\", 1, 5], w: f32[5, 4]):\n    y = x @ w\n    return y\n", 1},
    {"rows_of_shared_b",
     "def f(x: f32[\"b\", 3, \"n\", 5], w: f32[\"b\", 1, 5, 4]):\n    y = relu(x) @ w\n    return y\n", 1},
    {"rows_of_shared_b",
     "def f(x: f32[\"b\", 2, 3, \"n\", 5], w: f32[\"b\", 2, 1, 5, \"m\"]):\n    y = relu(x) @ w\n    return y\n", 1},
    {"rows_of_shared_b",
     "def f(x: f32[2, 3, 2, 4, 5], w: f32[2, 1, 1, 5, 4]):\n    y = relu(x) @ relu(w) + 1\n    return y\n", 1},
    {"rows_of_shared_b", "def f(x: f32[2, 4, 3, 2, 5], w: f32[4, 1, 5, 3]):\n    y = relu(x) @ relu(w)\n    return y\n",
     1},
    {"rows_of_shared_b",
     "def f(x: bf16[3, \"n\", 4, 8], w: bf16[3, \"m\", 8]):\n    y = permute(x, (0, 2, 1, 3)) @ "
     "reshape(transpose(w), (3, 1, 8, m))\n    return y\n",
     1},
    {"columns_of_shared_a",
     "def f(x: f32[\"b\", \"n\", 5], w: f32[3, 5, 4]):\n    y = unsqueeze(x, 1) @ w\n    return y\n", 1},
    {"columns_of_shared_a",
     "def f(x: f32[2, 1, 1, 6, 5], w: bf16[2, 3, 5, 4]):\n    y = relu(x) @ cast(w, f32)\n    return y\n", 1},
    // Also where the items that are left cannot be told apart by a launch.
    {"rows_of_shared_b",
     "def f(x: f32[2, \"b\", 3, \"n\", 5], w: f32[1, \"b\", 1, 5, 4]):\n    y = relu(x) @ w\n    return y\n", 1},
    {"columns_of_shared_a",
     "def f(x: f32[2, \"b\", 1, \"n\", 5], w: f32[3, 5, 4]):\n    y = relu(x) @ w\n    return y\n", 1},
    // Given in the order of the items, in place of which nothing else lies; a B of each; sizes that nobody knows.
    {nullptr, "def f(x: f32[\"b\", 3, \"n\", 5], w: f32[\"b\", 1, 5, 4]):\n    y = x @ w\n    return y\n", 1},
    {nullptr, "def f(x: f32[\"b\", 3, \"n\", 5], w: f32[\"b\", 3, 5, 4]):\n    y = relu(x) @ w\n    return y\n", 1},
    {nullptr, "def f(x: f32[\"b\", 3, \"n\", 5], w: f32[1, 1, 5, 4]):\n    y = relu(x) @ w\n    return y\n", 1},
    {nullptr, "def f(x: f32[\"b\", 1, \"n\", 5], w: f32[\"b\", 3, 5, 4]):\n    y = relu(x) @ w\n    return y\n", 1},
    {nullptr, "def f(x: f32[2, 1, 6, 5], w: f32[3, 5, \"m\"]):\n    y = relu(x) @ w\n    return y\n", 1},
    {"mixed_items", "def f(x: f32[2, \"c\", 6, 5], w: f32[2, 1, 5, 4]):\n    y = relu(x) @ w\n    return y\n", 1},
    {nullptr, "def f(x: f32[\"b\", 1, 3, 2, 5], w: f32[\"b\", 1, 3, 5, 4]):\n    y = relu(x) @ w\n    return y\n", 1},
    {nullptr, "def f(x: f32[3, 2, 5], w: f32[5, 4]):\n    y = relu(x) @ w\n    return y\n", 1},
    {nullptr, "def f(x: f32[1, 5], w: f32[5, 4]):\n    y = relu(x) @ w\n    return y\n", 1},
    {"product_of_vectors",
     "def f(q: bf16[3, 1, 8], k: bf16[3, 1, 8]):\n    y = relu(q) @ transpose(k)\n    return y\n"},
    {"product_of_vectors",
     "def f(q: f32[\"b\", 2, 1, 8], k: f32[\"b\", 1, 8, 1]):\n    y = relu(q) @ k * 0.5\n    return y\n"},
    {"product_of_vectors", "def f(q: i8[3, 1, 8], k: i8[3, 8, 1]):\n    y = abs(q) @ k\n    return y\n"},
    {"product_of_vectors", "def f(q: f32[1, 8], k: f32[3, 8, 1]):\n    y = relu(q) @ k\n    return y\n"},
    {nullptr, "def f(q: f32[1, 8], k: f32[8, 1]):\n    y = relu(q) @ k\n    return y\n", 1},
    {nullptr, "def f(q: f32[3, 1, \"k\"], k: f32[3, \"k\", 1]):\n    y = relu(q) @ k\n    return y\n", 1},
    {nullptr, "def f(q: f32[2, 1, 1025], k: f32[2, 1025, 1]):\n    y = relu(q) @ k\n    return y\n", 1},
    {nullptr, "def f(q: f32[3, 2, 8], k: f32[3, 8, 1]):\n    y = relu(q) @ k\n    return y\n", 1},
    {"product_of_one", "def f(p: f32[3, 1, 1], v: bf16[3, 1, 8]):\n    y = relu(p) @ v\n    return y\n"},
    {"product_of_one", "def f(p: i8[3, 1, 1], v: i8[3, 1, 8]):\n    y = abs(p) @ v\n    return y\n"},
    {nullptr, "def f(p: f32[3, 2, 1], v: f32[3, 1, 8]):\n    y = relu(p) @ v\n    return y\n", 1},
    {"reduction_of_one", "def f(x: f32[3, 1]):\n    y = exp(sum(x, dim=-1))\n    return y\n"},
    {"reduction_of_one", "def f(x: i8[3, 1]):\n    y = mean(x, dim=-1) * 2\n    return y\n"},
    {"reduction_of_one", "def f(x: bool[3, 1]):\n    y = sum(x, dim=-1) + 1\n    return y\n"},
    {nullptr, "def f(x: f32[3, 1]):\n    y = exp(sum_of_squares(x, dim=-1))\n    return y\n"},
    {nullptr, "def f(x: f32[3, 2]):\n    y = exp(sum(x, dim=-1))\n    return y\n"},
    {"product_of_vectors",
     "def f(a: f32[\"b\", \"c\", 1, 8], b: f32[\"b\", \"c\", 8, 1]):\n    y = relu(a @ b)\n    return y\n"},
    {"reduction_of_items",
     "def f(x: f32[3, 4, 5], w: f32[5, 6], t: f32[3, 4, 6]):\n    y = sum(x @ w - t, dim=(0, 1))\n    return y\n", 1},
    {"reduction_of_items",
     "def f(x: bf16[3, 4, 5], w: bf16[3, 5, 6]):\n    y = max(relu(x @ w) * 2, dim=(0, 1), keepdim=False)\n    return "
     "y\n",
     1},
    {"reduction_of_items",
     "def f(x: f32[\"b\", \"m\", 5], w: f32[5, 6]):\n    y = sum(tanh(x @ w), dim=(0, 1))\n    return y\n", 1},
    {"reduction_of_items", "def f(x: i8[2, 3, 4, 5], w: i8[5, 6]):\n    y = min(x @ w, dim=(0, 1, 2))\n    return y\n",
     1},
    {"reduction_of_items", "def f(x: f32[\"b\", \"m\", 5]):\n    y = sum(x * 2, dim=(0, 1))\n    return y\n"},
    {nullptr, "def f(x: f32[3, 4, 5]):\n    y = sum(x * 2, dim=(0, 1))\n    return y\n"},
    {"reduction_of_items", "def f(x: f32[3, 4, 5], w: f32[5, 6]):\n    y = mean(x @ w, dim=(0, 1))\n    return y\n", 1},
    {nullptr, "def f(x: i8[3, 4, 5], w: i8[5, 6]):\n    y = mean(x @ w, dim=(0, 1))\n    return y\n", 1},
    {nullptr, "def f(x: f32[3, 4, 5], w: f32[5, 6]):\n    y = logsumexp(x @ w, dim=(0, 1))\n    return y\n", 1},
    {nullptr, "def f(x: f32[3, 4, 5], w: f32[5, 6]):\n    y = sum(x @ w)\n    return y\n", 1},
    {"reshape_of_nothing", "def f(x: f32[3, 0, 4]):\n    y = reshape(relu(x), (0, 7))\n    return y\n"},
    {"reshape_of_nothing", "def f(x: bool[0, 5]):\n    y = where(reshape(x, (5, 0, 2)), 1.0, 2.0)\n    return y\n"},
    {"reshape_of_nothing", "def f(x: i8[\"b\", 0]):\n    y = sum(reshape(x, (0, b)) + 1, dim=0)\n    return y\n"},
    {nullptr, "def f(x: f32[\"b\", 3]):\n    y = relu(reshape(x, (3*b,)))\n    return y\n"},
    {nullptr, "def f(a: f32[0, 8], b: f32[8, 4]):\n    y = reshape(relu(a @ b), (0, 2, 2))\n    return y\n", 1},
    // An epilogue's product, which launches take as the caller gives it.
    {nullptr, "def f(a: f32[2, 3, 1, 8], b: f32[8, 4]):\n    y = relu(a @ b)\n    return y\n", 1},
    {nullptr, "def f(a: f32[3, 1, 8], b: f32[3, 8, 1]):\n    y = relu(a @ b)\n    return y\n", 1},
};

// All items are rows of one product, however many dims of size 1 lie in between.
TEST(Products, ItemsOfOneRowAreRows) {
  const auto function = frontend::parse_program(std::make_shared<const diag::SourceText>(
      "p.py", "def f(x: f32[\"b\", 1, 1, 5], w: f32[5, 4]):\n    y = relu(x) @ w\n    return y\n"));
  ASSERT_TRUE(function) << function.error().render();
  const auto optimized = optimize(ir::bind_program(*function).value());
  ASSERT_TRUE(optimized) << optimized.error().render();
  const ir::Graph& graph = optimized->graph;
  ASSERT_EQ(ir::matmuls(graph).size(), 1u);
  EXPECT_EQ(ir::to_string(graph.type(ir::matmuls(graph)[0])), "f32[b, 4]") << ir::print(graph);
}

TEST(Products, OfOneBecomeLess) {
  for (const Case& one : cases) {
    const auto function = frontend::parse_program(std::make_shared<const diag::SourceText>("p.py", one.text));
    ASSERT_TRUE(function) << one.text << function.error().render();
    const auto graph = ir::bind_program(*function);
    ASSERT_TRUE(graph) << one.text << graph.error().render();
    const auto optimized = optimize(*graph);
    ASSERT_TRUE(optimized) << one.text << optimized.error().render();
    for (const auto table : {product_rules(), behind_product_rules()}) {
      for (const Rule& rule : table) {
        uint32_t fired = 0;
        for (const Fired& f : optimized->passes[0].fired) fired += f.rule == rule.name ? f.count : 0;
        EXPECT_EQ(fired, one.rule != nullptr && rule.name == one.rule ? 1U : 0U) << rule.name << "\n" << one.text;
      }
    }
    EXPECT_EQ(ir::matmuls(optimized->graph).size(), one.products) << ir::print(optimized->graph);
    for (const ir::NodeId product : ir::matmuls(optimized->graph))
      EXPECT_FALSE(has_mixed_items(optimized->graph.type(product).shape)) << ir::print(optimized->graph);
    if (std::string_view(one.text).find('"') != std::string_view::npos && one.rule == nullptr) continue;
    for (uint64_t seed = 0; seed < 20; ++seed) EXPECT_TRUE(same_meaning(*graph, optimized->graph, seed)) << one.text;
  }
}

constexpr Case slice_cases[] = {
    {"rows_as_items",
     "def f(x: f32[\"b\", \"h\", \"w\", 5], k: f32[5, 4]):\n"
     "    y = reshape(x[:, 1:, 2:], (b * (h - 1) * (w - 2), 5)) @ k\n    return y\n",
     1},
    {"rows_as_items",
     "def f(x: f32[\"b\", 40, 9], k: f32[3, 5, 4]):\n    y = reshape(x[:, 3:35, 2:7], (b*32, 5)) @ k[1]\n    return "
     "y\n",
     1},
    {"rows_as_items",
     "def f(x: f32[3, \"s\", 5], z: f32[3, 2, 5], k: f32[5, 4]):\n"
     "    y = reshape(concat(z, relu(x), dim=1)[:, 1:1 + s], (3*s, 5)) @ k\n    return y\n",
     1},
    // Few rows an item; no slice; a slice of what is computed, which is stored as its product reads it; rows of one
    // dim.
    {nullptr, "def f(x: f32[\"b\", 40, 5], k: f32[5, 4]):\n    y = reshape(x[:, 3:34], (b*31, 5)) @ k\n    return y\n",
     1},
    {nullptr, "def f(x: f32[\"b\", \"s\", 5], k: f32[5, 4]):\n    y = reshape(x, (b*s, 5)) @ k\n    return y\n", 1},
    {nullptr,
     "def f(x: f32[\"b\", 40, 5], k: f32[5, 4]):\n    y = reshape(relu(x)[:, 3:], (b*37, 5)) @ k\n    return y\n", 1},
    {nullptr, "def f(x: f32[\"b\", \"s\", 5], k: f32[5, 4]):\n    y = x[:, -1] @ k\n    return y\n", 1},
};

// Rows that are several dims of a slice are items and rows, of what lies in memory as it is.
TEST(Products, RowsOfSlicesAreItems) {
  for (const Case& one : slice_cases) {
    const auto function = frontend::parse_program(std::make_shared<const diag::SourceText>("p.py", one.text));
    ASSERT_TRUE(function) << one.text << function.error().render();
    const ir::Graph graph = ir::bind_program(*function).value();
    std::vector<Fired> fired;
    const auto made = items_of_slices(graph, fired);
    ASSERT_TRUE(made) << one.text << made.error().render();
    uint32_t count = 0;
    for (const Fired& rule : fired) count += rule.count;
    EXPECT_EQ(count, one.rule != nullptr ? 1U : 0U) << one.text;
    const auto optimized = optimize(*made);
    ASSERT_TRUE(optimized) << one.text << optimized.error().render();
    ASSERT_EQ(ir::matmuls(optimized->graph).size(), one.products) << ir::print(optimized->graph);
    EXPECT_EQ(optimized->graph.type(ir::matmuls(optimized->graph)[0]).shape.size(), one.rule != nullptr ? 3U : 2U)
        << ir::print(optimized->graph);
    for (uint64_t seed = 0; seed < 20 && one.rule != nullptr; ++seed)
      EXPECT_TRUE(same_meaning(graph, optimized->graph, seed)) << one.text;
  }
}

// Values of more symbolic dims than a kernel has axes: of each operation what it does to dims that are merged.
TEST(Products, DimsAreMerged) {
  constexpr struct {
    const char *rule, *shape;  // of the operation on merged dims
    const char* line;
  } merges[] = {
      {"merged_elements", "f32[a*b, c, d]", "relu(x)"},
      {"merged_elements", "f32[a, b*c, d]", "x + z"},
      {"merged_elements", "f32[2, a*b*c, d]", "expand(x, 2, a, b, c, d)"},
      {"merged_reduction", "f32[a*b, c, 1]", "sum(x, dim=-1)"},
      {"merged_reduction", "f32[a, 1, c*d]", "max(x, dim=1)"},
      {"merged_reduction", "f32[1, c, d]", "mean(x, dim=(0, 1))"},
      {"merged_permutation", "f32[b, a, c*d]", "permute(x, (1, 0, 2, 3))"},
      {"merged_permutation", "f32[d, a*b, c]", "permute(x, (3, 0, 1, 2))"},
      {"merged_parts", "f32[a*b, c, d - d // 2]", "x[..., d // 2:]"},
      {"merged_parts", "f32[a, 2*b, c*d]", "concat(x, x, dim=1)"},
      {nullptr, nullptr, "permute(x, (0, 2, 1, 3))"},
      {nullptr, nullptr, "dropout(x, 0.5, 7)"},
  };
  for (const auto& one : merges) {
    const std::string text =
        std::string("def f(x: f32[\"a\", \"b\", \"c\", \"d\"], z: f32[\"a\", 1, 1, \"d\"]):\n    y = ") + one.line +
        "\n    u = z * 2.0\n    return y, u\n";
    const auto function = frontend::parse_program(std::make_shared<const diag::SourceText>("p.py", text));
    ASSERT_TRUE(function) << text << function.error().render();
    const ir::Graph graph = ir::bind_program(*function).value();
    const auto optimized = optimize(graph);
    ASSERT_TRUE(optimized) << text << optimized.error().render();
    for (const Rule& rule : dims_rules()) {
      uint32_t fired = 0;
      for (const Fired& f : optimized->passes[0].fired) fired += f.rule == rule.name ? f.count : 0;
      EXPECT_EQ(fired > 0, one.rule != nullptr && rule.name == one.rule) << rule.name << "\n" << text;
    }
    if (one.shape != nullptr) {
      EXPECT_NE(ir::print(optimized->graph).find(one.shape), std::string::npos) << one.shape << "\n"
                                                                                << ir::print(optimized->graph);
    }
    for (uint64_t seed = 0; seed < 4; ++seed) EXPECT_TRUE(same_meaning(graph, optimized->graph, seed)) << text;
  }
}

}  // namespace
}  // namespace codetta::opt::test

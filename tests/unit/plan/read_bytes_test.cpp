// SPDX-License-Identifier: Apache-2.0
// GemmShape::beside of a program's products: what is read between two readings of a B, no more of each tensor than is
// read.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "opt/passes.hpp"
#include "plan/plan.hpp"
#include "unit/plan/bind_text.hpp"

namespace codetta::plan {
namespace {

// Of the products, as the plan has them.
std::vector<double> beside(const std::string& text, const std::vector<std::pair<std::string, int64_t>>& hints = {},
                           Backend backend = Backend::cpu) {
  const ir::Graph graph = opt::optimize(test::bind_program_text(text).value()).value().graph;
  const Target target{backend, CpuIsa::avx512, backend == Backend::cuda ? "sm_90a" : ""};
  std::vector<double> bytes;
  for (const PlannedKernel& kernel : plan_program(graph, target, {}, hints).value().kernels) {
    if (kernel.region.kind == Region::Kind::Product) bytes.push_back(kernel.shape.beside);
  }
  return bytes;
}
using Bytes = std::vector<double>;

// Three layers of 16 rows: the inputs, and what lies between the layers, but for the own weights.
TEST(ReadBytes, OtherWeightsAndWhatLiesBetween) {
  const std::string text =
      "def f(x: f32[\"b\", 784], w: f32[784, 4096], c: f32[4096], u: f32[4096, 512], v: f32[512, 10]):\n"
      "    h = relu(x @ w + c)\n    g = relu(h @ u)\n    y = g @ v\n    return y\n";
  const double x = 4.0 * 16 * 784, w = 4.0 * 784 * 4096, c = 4.0 * 4096, u = 4.0 * 4096 * 512, v = 4.0 * 512 * 10;
  const double between = 4.0 * 16 * (4096 + 512), all = x + w + c + u + v + between;
  EXPECT_EQ(beside(text, {{"b", 16}}), (Bytes{all - w, all - u, all - v}));
  EXPECT_EQ(beside(text, {{"b", 16}}, Backend::cuda), (Bytes{0, 0, 0}));
}

TEST(ReadBytes, ABThatIsComputedIsNoneBesideItself) {
  const std::string text =
      "def f(x: f32[64, 256], y: f32[256, 512], z: f32[256, 512]):\n    s = x @ (y @ transpose(z))\n    return s\n";
  const double x = 4.0 * 64 * 256, y = 4.0 * 256 * 512, between = 4.0 * 256 * 256;
  EXPECT_EQ(beside(text), (Bytes{x + y + between, x + 2 * y}));
}

TEST(ReadBytes, ProductsOfOneAReadAllTheirWeights) {
  const std::string text =
      "def f(x: f32[4, 512], g: f32[512, 1024], u: f32[512, 1024], t: f32[4, 1024]):\n"
      "    y = silu(x @ g) * (x @ u) + t\n    return y\n";
  EXPECT_EQ(beside(text), (Bytes{4.0 * 4 * 512 + 4.0 * 4 * 1024}));
}

TEST(ReadBytes, RowsThatAreTakenAndSlices) {
  const double x = 4.0 * 4 * 784, table = 4.0 * 200000 * 512;
  const auto of = [&](const std::string& more, const std::string& returned) {
    return beside(
        "def f(x: f32[4, 784], w: f32[784, 2048], table: f32[200000, 512], ids: i64[4]):\n    y = relu(x @ w)\n" +
        more + "    return y, " + returned + "\n");
  };
  EXPECT_EQ(of("    e = take(table, ids, dim=0)\n", "e"), (Bytes{x + 8.0 * 4 + 4.0 * 4 * 512}));
  EXPECT_EQ(of("    e = take(table, ids, dim=0)\n    s = sum(table, dim=-1)\n", "e, s"), (Bytes{x + 8.0 * 4 + table}));
  EXPECT_EQ(of("    e = table[0:8, :] * 2.0\n    i = ids + 1\n", "e, i"), (Bytes{x + 8.0 * 4 + 4.0 * 8 * 512}));
  // More is taken than there is, and every row is read.
  EXPECT_EQ(beside("def f(x: f32[4, 64], w: f32[64, 64], t: f32[8, 64], ids: i64[4096]):\n    y = x @ w\n"
                   "    e = take(t, ids, dim=0)\n    return y, e\n"),
            (Bytes{4.0 * 4 * 64 + 8.0 * 4096 + 4.0 * 8 * 64}));
}

// A turn of a loop is what goes by between two readings there. Outside of it, one turn counts.
TEST(ReadBytes, ALoopsBodyByItself) {
  const std::string loop =
      "def more(i, a, w):\n    return i < 100\ndef step(i, a, w):\n    return i + 1, relu(a @ w), w\n"
      "def f(a: f32[4, 1600], w: f32[1600, 1600], big: f32[4, 8000000]):\n"
      "    i, y, v = while_loop(more, step, 0, a, w)\n    z = sum(big, dim=-1)\n";
  const double a = 4.0 * 4 * 1600, big = 4.0 * 4 * 8e6, w = 4.0 * 1600 * 1600;
  const Bytes within = beside(loop + "    return y, z\n");
  ASSERT_EQ(within.size(), 1U);
  EXPECT_GE(within[0], a);
  EXPECT_LT(within[0], a + 64);  // and the counter
  const Bytes both = beside(loop + "    q = y @ w\n    return q, z\n");
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(std::min(both[0], both[1]), within[0]);
  EXPECT_GE(std::max(both[0], both[1]), 2 * a + big);
  EXPECT_LT(std::max(both[0], both[1]), 2 * a + big + w);
}

// Between two readings in a branch the whole program runs.
TEST(ReadBytes, ABranchIsAPartOfTheProgram) {
  const std::string text =
      "def one(a, w, t):\n    return relu(a @ w)\ndef two(a, w, t):\n    return a + t[0:4, :]\n"
      "def f(p: bool[1], a: f32[4, 512], w: f32[512, 512], t: f32[4096, 512], big: f32[4, 100000]):\n"
      "    y = cond(p, one, two, a, w, t)\n    z = sum(big, dim=-1)\n    return y, z\n";
  const double a = 4.0 * 4 * 512, big = 4.0 * 4 * 1e5;
  EXPECT_EQ(beside(text), (Bytes{1 + a + a + big}));
}

}  // namespace
}  // namespace codetta::plan

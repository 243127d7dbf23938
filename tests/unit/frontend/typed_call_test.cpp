// SPDX-License-Identifier: Apache-2.0
// Functions with types of their own that other functions of a text call.
#include <gtest/gtest.h>

#include "frontend/lower.hpp"
#include "ir/bind.hpp"
#include "ir/graph.hpp"

namespace {

using namespace codetta;

Result<ir::Graph> graph_of(std::string text) {
  const auto function = frontend::parse_program(std::make_shared<const diag::SourceText>("p.py", std::move(text)));
  if (!function) return function.error();
  return ir::bind_program(*function);
}

// Types of the outputs, or the error.
std::string types_of(const std::string& text) {
  const auto graph = graph_of(text);
  if (!graph) return graph.error().render();
  std::string types;
  for (const ir::GraphOutput& output : graph->outputs())
    types += (types.empty() ? "" : " ") + ir::to_string(graph->type(output.node));
  return types;
}

TEST(TypedCall, SizesAreTheFunctionsOwn) {
  // n is a size of the program, too, and another one there.
  EXPECT_EQ(types_of(R"(
def half(x: f32["n", 4]):
    return concat(x[:n // 2], zeros(n, 4))

def main(x: f32["m", 4], z: f32["n", 4]):
    a = half(x)
    b = half(z)
    c = half(concat(x, z, dim=0))
    return a, b, c
)"),
            "f32[m + m // 2, 4] f32[n + n // 2, 4] f32[m + n + (m + n) // 2, 4]");
  // From a multiple, from several parameters, and in texts.
  EXPECT_EQ(types_of(R"(
def pairs(x: f32["2*h", "c"], w: f32["c + 1", "o"]):
    y = reshape(x, (h, "2*c"))
    return reshape(call_extern("f", y, w, out="f32[h, o]"), (h * o,))

def main(x: f32["4*k", 8], w: f32[9, "o"]):
    y = pairs(x, w)
    return y
)"),
            "f32[2*k*o]");
  // A function without types sees the sizes of the one that calls it, and parameters may lack types, or have any other.
  EXPECT_EQ(types_of(R"(
def wide(x):
    return concat(x, zeros(n, 1), dim=1)

def more(x: f32["n", 4], y, s: float, t: "a size"):
    return wide(x) * y * s * t

def main(x: f32["2*m", 4], y: f32[5], s: f32):
    z = more(x, y, s, 2.0)
    return z
)"),
            "f32[2*m, 5]");
}

TEST(TypedCall, SizesOfBranchesAndLoops) {
  EXPECT_EQ(types_of(R"(
def pad(x: f32["n", 2]):
    return concat(x, zeros(n, 1), dim=1)[:, :2]

def less(i, x):
    return i < 3

def turn(i: i32, x: f32["r", "c"]):
    return i + 1, pad(x) + zeros(r, c)

def one(x: f32["k", 2]):
    return pad(x)[:k]

def main(x: f32["m", 2], p: bool):
    i, y = while_loop(less, turn, 0, x)
    z = cond(p, one, one, y)
    return z
)"),
            "f32[m, 2]");
  const std::string error = types_of(R"(
def less(i, x):
    return i < 3

def turn(i: i64, x: f32["r", "c"]):
    return i + 1, x

def main(x: f32["m", 2]):
    i, y = while_loop(less, turn, 0, x)
    return y
)");
  EXPECT_NE(error.find("error[E0221]: i of turn is i32[] but is declared as i64\n  --> p.py:9:35"), std::string::npos)
      << error;
}

TEST(TypedCall, SizesThatValuesSay) {
  EXPECT_EQ(types_of(R"(
def twice(x: f32["n", 4]):
    return sum(concat(x, zeros(n, 4)), dim=0)

def main(x: f32["m", 4], count: i64):
    y = twice(x[:count])
    return y
)"),
            "f32[1, 4]");
  // In texts, too: results of functions of the caller's have them, and they add up with what is passed.
  EXPECT_EQ(types_of(R"(
def filtered(x: f32["n", 4]):
    return call_extern("g", x, out="f32[n, 4]", form="alloc") + x

def main(a: f32["m", 4], count: i64):
    y = sum(filtered(a[:count]), dim=0)
    return y
)"),
            "f32[1, 4]");
}

// A parameter of a function hides the size of that name of a function that calls it, in texts as elsewhere.
TEST(TypedCall, ParametersHideSizesAroundThem) {
  const auto text = [](const char* size) {
    return std::string("def wide(x, n):\n    return concat(x[:n], zeros(") + size +
           ", 4))\n\ndef typed(x: f32[\"n\", 4], j: i64):\n    return wide(concat(x, x), j)\n\n"
           "def main(a: f32[\"m\", 4], j: i64):\n    y = sum(typed(a, j), dim=1)\n    z = y[2 * j - 1]\n    return z\n";
  };
  EXPECT_EQ(types_of(text("\"n\"")), types_of(text("n")));
}

TEST(TypedCall, AParameterThatSaysASizeIsUsed) {
  EXPECT_EQ(types_of(R"(
def like(x: f32["n", 4], y):
    return y[:n]

def main(x: f32["m", 4], y: f32["m + 1"]):
    z = like(x, y) + x[:, 0]
    return z
)"),
            "f32[m]");
  const std::string error = types_of(R"(
def like(x: f32["n", 4], y):
    return y[1:]

def main(x: f32["m", 4], y: f32["m + 1"]):
    z = like(x, y) + x[:, 0]
    return z
)");
  EXPECT_NE(error.find("E0133"), std::string::npos) << error;
}

// The first line of the error, with its place.
std::string refused(const std::string& types, const std::string& passed) {
  const auto graph = graph_of(
      "def f(" + types +
      "):\n    return x * 2\n\ndef main(a: f32[\"m\", 4], b: bf16[\"k\", 4], c: f32[\"2*m + 1\"]):\n    y = f(" +
      passed + ") * sum(a) + sum(b) + sum(c)\n    return y\n");
  if (graph) return "";
  const Diagnostic& first = graph.error().diagnostics()[0];
  return "E0" + std::to_string(first.code) + " " + std::to_string(first.where.line) + ":" +
         std::to_string(first.where.column) + " " + first.headline + ": " + first.reason;
}

TEST(TypedCall, WhatIsPassedHasTheType) {
  EXPECT_EQ(refused("x: f32[\"n\", 4]", "a"), "");
  EXPECT_EQ(refused("x: f32", "2.0"), "");
  EXPECT_EQ(refused("x: bf16[\"n\", 4]", "a"),
            "E0221 5:11 x of f is f32[m, 4] but is declared as bf16[n, 4]: element types f32 and bf16 differ");
  EXPECT_EQ(refused("x: f32[\"n\"]", "a"),
            "E0221 5:11 x of f is f32[m, 4] but is declared as f32[n]: it has 2 dims, declared are 1");
  EXPECT_EQ(refused("x: f32", "a"),
            "E0221 5:11 x of f is f32[m, 4] but is declared as f32: a type without brackets is a number");
  EXPECT_EQ(refused("x: f32[\"n\", 5]", "a"),
            "E0221 5:11 dim 1 of x of f is 4 but is declared as 5: the two are not the same size");
  EXPECT_EQ(refused("x: f32[\"n\", \"n\"]", "a"),
            "E0221 5:11 dim 1 of x of f is 4 but is declared as n: n is m, as x says");
  EXPECT_EQ(refused("x: f32[\"2*n\"]", "c"),
            "E0221 5:11 dim 0 of x of f is 2*m + 1 but is declared as 2*n: no size n of 0 or more is known to make it "
            "2*m + 1");
  EXPECT_EQ(refused("x: f32[\"n + 8\", 4]", "a[:5]"),
            "E0221 5:11 dim 0 of x of f is 5 but is declared as n + 8: no size n of 0 or more is known to make it 5");
  EXPECT_EQ(refused("x: f32[\"n // 2\", 4]", "a"),
            "E0224 1:10 symbol n has no value: no parameter of f has a dim of n alone, as n, 2*n or n + 1 are");
  EXPECT_EQ(refused("x: f23[\"n\", 4]", "a").substr(0, 9), "E0142 1:1");
}

TEST(TypedCall, WhatIsWrongInFrontOfItIsSaidOnce) {
  const auto graph = graph_of(R"(
def f(x: f32["n", 4]):
    return x[:n]

def main(a: f32["m", 4], b: f32["k", 4]):
    c = a + b
    y = f(c) + f(a) + f(c)
    return y
)");
  ASSERT_FALSE(graph.has_value());
  ASSERT_EQ(graph.error().diagnostics().size(), 1u) << graph.error().render();
  EXPECT_EQ(graph.error().diagnostics()[0].where.line, 6u) << graph.error().render();
}

}  // namespace

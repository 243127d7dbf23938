// SPDX-License-Identifier: Apache-2.0
// Programs from text to graph: what each function becomes, and that texts and graphs are read back as they are printed.
#include <gtest/gtest.h>

#include "frontend/lower.hpp"
#include "ir/bind.hpp"
#include "ir/graph.hpp"

namespace {

using namespace codetta;

diag::SourceRef source_of(std::string text) {
  return std::make_shared<const diag::SourceText>("p.py", std::move(text));
}

ir::Graph graph_of(const std::string& text) {
  const auto function = frontend::parse_program(source_of(text));
  if (!function) {
    ADD_FAILURE() << text << "\n" << function.error().render();
    return {};
  }
  auto graph = ir::bind_program(*function);
  if (!graph) {
    ADD_FAILURE() << text << "\n" << graph.error().render();
    return {};
  }
  return *std::move(graph);
}

std::string type_of(const std::string& parameters, const std::string& expression) {
  const ir::Graph graph = graph_of("def f(" + parameters + "):\n    y = " + expression + "\n    return y\n");
  return graph.size() == 0 ? "" : ir::to_string(graph.type(graph.outputs()[0].node));
}

TEST(Program, TypesOfResults) {
  const std::string x = "x: f32[\"n\", 8]";
  EXPECT_EQ(type_of(x, "x[:, 2:5]"), "f32[n, 3]");
  EXPECT_EQ(type_of(x, "x[:, ::3]"), "f32[n, 3]");
  EXPECT_EQ(type_of(x, "x[..., -3:]"), "f32[n, 3]");
  EXPECT_EQ(type_of(x, "x[:, -1]"), "f32[n]");
  EXPECT_EQ(type_of(x, "x[:, None, 0]"), "f32[n, 1]");
  EXPECT_EQ(type_of(x, "x[None, ..., None]"), "f32[1, n, 8, 1]");
  EXPECT_EQ(type_of(x, "x[n // 2:]"), "f32[n - n // 2, 8]");
  EXPECT_EQ(type_of(x, "x[:n // 4]"), "f32[n // 4, 8]");
  EXPECT_EQ(type_of(x, "concat(x, x[:n // 2])"), "f32[n + n // 2, 8]");
  EXPECT_EQ(type_of(x, "expand(x, 3, -1, 8)"), "f32[3, n, 8]");
  EXPECT_EQ(type_of(x, "x + expand(zeros(8), n, 8)"), "f32[n, 8]");
  EXPECT_EQ(type_of(x, "x * full(2.0, n, 1)"), "f32[n, 8]");
  EXPECT_EQ(type_of(x, "x * zeros(n, 8, bf16)"), "f32[n, 8]");
  EXPECT_EQ(type_of(x, "arange(2*n) * sum(cast(x, i64), keepdim=False)"), "i64[2*n]");
  EXPECT_EQ(type_of(x, "sum(x, dim=0, keepdim=False)"), "f32[8]");
  EXPECT_EQ(type_of(x, "sum(x, axis=\"row\", keepdim=False)"), "f32[n]");
  EXPECT_EQ(type_of(x, "sum(x, dim=0)"), "f32[1, 8]");
  EXPECT_EQ(type_of(x, "transpose(x)"), "f32[8, n]");
  EXPECT_EQ(type_of(x, "transpose(unsqueeze(x, 0), 0, 2)"), "f32[8, n, 1]");
  EXPECT_EQ(type_of(x, "squeeze(unsqueeze(x, (0, -1)), 0)"), "f32[n, 8, 1]");
  EXPECT_EQ(type_of(x, "softmax(x)"), "f32[n, 8]");
  EXPECT_EQ(type_of("x: bf16[\"n\", 8]", "log_softmax(x, dim=0)"), "f32[n, 8]");
  EXPECT_EQ(type_of("x: bf16[\"n\", 8], w: bf16[8]", "rms_norm(x, w)"), "f32[n, 8]");
  EXPECT_EQ(type_of("x: f64[\"n\", 8], w: f64[8]", "layer_norm(x, w, w, eps=1e-3)"), "f64[n, 8]");
  EXPECT_EQ(type_of("x: f32[\"t\", 4, 8], c: f32[\"t\", 1, 4]", "rope(x, c, c)"), "f32[t, 4, 8]");
  EXPECT_EQ(type_of("x: f32[\"t\", 4, 8], c: f32[\"t\", 1, 4]", "rope(x, c, c, interleave=True)"), "f32[t, 4, 8]");
  EXPECT_EQ(type_of(x + ", i: i64[3, 2]", "take(x, i)"), "f32[3, 2, 8]");
  EXPECT_EQ(type_of(x + ", i: i64[3, 2]", "take(x, i, dim=1)"), "f32[n, 3, 2]");
  // One place that the program computes, beside places and parts that are known.
  EXPECT_EQ(type_of(x + ", i: i64", "x[i]"), "f32[8]");
  EXPECT_EQ(type_of(x + ", i: i64[3]", "x[:, i[1] + 1]"), "f32[n]");
  EXPECT_EQ(type_of("x: f32[2, 3, \"n\", 5], i: i64", "x[1, None, i, ..., 2:]"), "f32[1, n, 3]");
  EXPECT_EQ(type_of("x: f32[2, 3, \"n\", 5], i: i64", "x[i, :, i % 2, 4, None]"), "f32[3, 1]");
  EXPECT_EQ(type_of("t: bf16[\"v\", 8], i: i32[\"b\", \"s\"]", "embedding(t, i)"), "bf16[b, s, 8]");
  EXPECT_EQ(type_of(x + ", i: i64[\"n\", 2]", "gather(x, i, dim=1)"), "f32[n, 2]");
  EXPECT_EQ(type_of(x + ", i: i64[3], v: f32[3, 8]", "index_put(x, i, v, accumulate=True)"), "f32[n, 8]");
  EXPECT_EQ(type_of(x + ", i: i32[\"n\", 2]", "scatter(x, i, ones(n, 2), dim=1, reduce=\"max\")"), "f32[n, 8]");
  EXPECT_EQ(type_of("a: f32[\"b\", 4, \"s\", 8], k: f32[\"b\", 4, \"s\", 8]", "a @ transpose(k)"), "f32[b, 4, s, s]");
  EXPECT_EQ(type_of("a: f32[\"b\", 1, \"s\", 8], w: f32[4, 8, 8]", "a @ w"), "f32[b, 4, s, 8]");
  EXPECT_EQ(type_of("x: f32[\"2*n\", 64], z: f32[\"n\"]", "reshape(x, (n, 128)) * reshape(z, (n, 1))"), "f32[n, 128]");
  EXPECT_EQ(type_of(x, "call_extern(\"sorted\", x, out=\"f32[min(n, 4), 8]\")"), "f32[min(4, n), 8]");
  EXPECT_EQ(type_of(x, "user_kernel(\"twice\", x, out=\"bf16[2*n]\")"), "bf16[2*n]");
}

// Texts of whole programs that everything below must take.
const char* const programs[] = {
    R"(
def norm(x, w):
    scaled = rms_norm(x, w)
    return scaled, -scaled
def f(x: f32["b", "s", 64], w: f32[64], p: f32[64, 64]):
    a, b = norm(x, w)
    c, d = norm(a @ p, w)
    y = b + c * d
    return y
)",
    R"(
def up(x, y):
    return x * 2.0, y
def down(x, unused):
    return x / 2.0, zeros(3)
def f(p: bool[1, 1], x: f32["n"], y: f32[3]):
    a, b = cond(p, up, down, x, y)
    return a, b
)",
    R"(
def more(i, x, r):
    return (i < 10) & (sum(r * r) > 1e-6)
def inner(x):
    return x * 0.5
def keep(x):
    return x
def step(i, x, r):
    d = cond(i % 2 == 0, inner, keep, r)
    return i + 1, x + d, r - d
def f(b: f32["n", 1]):
    i, x, r = while_loop(more, step, 0, zeros(n, 1), b)
    y = x + i
    return y, r
)",
    R"(
def f(x: f32["n", 8], i: i64["k"], g: i64["n", 2]):
    t = take(x, i)
    s = scatter(x, g, gather(x, g, dim=1), dim=1, reduce="sum")
    u = index_put(s, i, t, accumulate=True)
    return u, t
)",
    R"(
def f(x: f32["n", 8], w: f32[8, 8]):
    a, b, _ = call_extern("my_op", x @ w, x, out=("f32[n, 8]", "i32[n // 2]", "bf16"), form="alloc")
    c = user_kernel("scale_rows", a, out="f32[n, 8]")
    h = c[n // 2:, 1:7:2]
    return h, b
)",
    R"(
def f(q: bf16["b", 4, "s", 16], k: bf16["b", 4, "t", 16], v: bf16["b", 4, "t", 16]):
    p = softmax(q @ transpose(k) * 0.25)
    o = cast(p, bf16) @ v
    y = reshape(transpose(o, 1, 2), ("b", s, -1))
    return y
)",
    R"(
def f(x: i32["n"], e: f32["v", 32]):
    h = rope(embedding(e, x), ones(n, 16), zeros(16), interleave=True)
    pos = arange(n)
    y = h * unsqueeze(cast(pos, f32), 1) + full(0.5, n, 1)
    m = max(y, dim=(0, 1), keepdim=False)
    return y, m
)"};

TEST(Program, GraphsAreReadBackAsPrinted) {
  for (const char* text : programs) {
    const ir::Graph graph = graph_of(text);
    if (graph.size() == 0) continue;
    EXPECT_TRUE(ir::verify(graph)) << ir::verify(graph).error().render();
    const std::string printed = ir::print(graph);
    const auto again = ir::parse_graph(source_of(printed));
    ASSERT_TRUE(again) << printed << again.error().render();
    EXPECT_TRUE(*again == graph) << printed << ir::print(*again);
    EXPECT_EQ(again->hash(), graph.hash()) << printed;
    EXPECT_EQ(ir::print(*again), printed);
  }
}

TEST(Program, FunctionsAreReadBackAsPrinted) {
  for (const char* text : programs) {
    const auto function = frontend::parse_program(source_of(text));
    ASSERT_TRUE(function) << text << function.error().render();
    const std::string printed = ir::print(*function);
    const auto again = frontend::parse_program(source_of(printed));
    ASSERT_TRUE(again) << printed << again.error().render();
    EXPECT_TRUE(ir::equivalent(*again, *function)) << printed << "\n" << ir::print(*again);
    const auto graph = ir::bind_program(*again);
    ASSERT_TRUE(graph) << printed << graph.error().render();
    EXPECT_TRUE(*graph == graph_of(text)) << printed << ir::print(*graph);
  }
}

TEST(Program, BlocksOfGraphs) {
  const ir::Graph graph = graph_of(
      "def g(x):\n    return relu(x)\ndef h(x):\n    return -x\n"
      "def f(p: bool[1], x: f32[\"n\"]):\n    y = cond(p, g, h, x)\n    return y\n");
  EXPECT_EQ(ir::print(graph), R"(%0:bool[1] = input "p"
%1:f32[n] = input "x"
%2:f32[n] = cond %0, %1 then {
  %0:f32[n] = input "x"
  %1:f32[n] = relu %0
  output "r0": f32 = %1
} otherwise {
  %0:f32[n] = input "x"
  %1:f32[n] = neg %0
  output "r0": f32 = %1
}
output "y": f32 = %2
)");
}

// Numbers written in one branch take the type of the other; carried numbers are i32 and f32.
TEST(Program, NumbersInBranches) {
  const ir::Graph graph = graph_of(
      "def g(x):\n    return 0\ndef h(x):\n    return squeeze(x, 0)\n"
      "def f(p: bool[1], x: f64[1]):\n    y = cond(p, g, h, x)\n    return y\n");
  EXPECT_EQ(ir::to_string(graph.type(graph.outputs()[0].node)), "f64[]");
}

// What is inlined and lowered many times over stops at the limit instead of growing with every level.
TEST(Program, CallsInCallsAreBounded) {
  std::string text = "def f0(x):\n    return x\n";
  for (int i = 1; i <= 60; ++i) {
    const std::string n = std::to_string(i), before = "f" + std::to_string(i - 1);
    text += "def f" + n + "(x):\n    a = " + before + "(x)\n    return " + before + "(a)\n";
  }
  text += "def f(x: f32[4]):\n    y = f60(x)\n    return y\n";
  EXPECT_FALSE(frontend::parse_program(source_of(text)));
  std::string branches = "def f0(x):\n    return x\n";
  for (int i = 1; i <= 60; ++i) {
    const std::string n = std::to_string(i), before = "f" + std::to_string(i - 1);
    branches += "def f" + n + "(x):\n    return cond(max(x) > 0.0, " + before + ", " + before + ", x)\n";
  }
  branches += "def f(x: f32[4]):\n    y = f60(x)\n    return y\n";
  EXPECT_FALSE(frontend::parse_program(source_of(branches)));
}

TEST(Program, BranchesHaveNoMoreResultsThanAFunctionMayReturn) {
  const auto parse = [](int count) {
    std::string values = "x", names = "y0";
    for (int i = 1; i < count; ++i) values += ", x", names += ", y" + std::to_string(i);
    return frontend::parse_program(source_of("def g(x):\n    return " + values +
                                             "\ndef f(p: bool[1], x: f32[4]):\n    " + names +
                                             " = cond(p, g, g, x)\n    return y0\n"));
  };
  EXPECT_TRUE(parse(256));
  const auto more = parse(257);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code(), 102);
  EXPECT_EQ(more.error().diagnostics()[0].headline, "g returns 257 values");
}

}  // namespace

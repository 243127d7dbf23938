// SPDX-License-Identifier: Apache-2.0
// Programs: declared types, matmul with batch broadcasting, symbols and what binds them.
#include <gtest/gtest.h>

#include "unit/ir/function_maker.hpp"

namespace codetta::ir::test {
namespace {

TypeAnnotation typed(DType dtype, std::vector<Dim> shape) { return {dtype, std::move(shape), {}}; }
Dim sym(const char* name) { return Dim::symbol(name); }
Dim num(int64_t value) { return Dim::constant(value); }

// Two layers and a mean.
ProgramFunction mlp() {
  FunctionMaker f(
      "def f(x, w1, w2):\n    h = relu(x @ w1)\n    y = h @ w2\n    m = mean(y, dim=-1)\n    return y, m\n");
  const ValueId x = f.parameter("x", typed(bf16, {sym("batch"), num(64)})),
                w1 = f.parameter("w1", typed(bf16, {num(64), sym("hidden")}));
  const ValueId w2 = f.parameter("w2", typed(bf16, {sym("hidden"), num(10)}));
  const ValueId product = f.op(Op::matmul, {x, w1}, "x @ w1", "", MatmulAttr{});
  const ValueId h = f.op(Op::relu, {product}, "relu(x @ w1)", "h");
  const ValueId y = f.op(Op::matmul, {h, w2}, "h @ w2", "y", MatmulAttr{});
  f.output("y", y);
  f.output("m", f.op(Op::reduce_mean, {y}, "mean(y, dim=-1)", "m", ReduceAttr{ReduceAxis::Dims, {-1}}));
  return f.program();
}

TEST(BindProgram, TwoLayers) {
  EXPECT_EQ(text_of(bind_program(mlp())), R"(%0:bf16[batch, 64] = input "x"
%1:bf16[64, hidden] = input "w1"
%2:bf16[hidden, 10] = input "w2"
%3:f32[batch, hidden] = matmul(f32) %0, %1
%4:f32[batch, hidden] = relu %3
%5:f32[batch, 10] = matmul(f32) %4, %2
%6:f32[batch, 1] = reduce_mean(dims=[1]) %5
output "y": f32 = %5
output "m": f32 = %6
)");
}

Result<Graph> product(TypeAnnotation a, TypeAnnotation b) {
  FunctionMaker f("def f(a, b):\n    y = a @ b\n    return y\n");
  const ValueId x = f.parameter("a", std::move(a)), w = f.parameter("b", std::move(b));
  f.output("y", f.op(Op::matmul, {x, w}, "a @ b", "y", MatmulAttr{}));
  return bind_program(f.program());
}

TEST(BindProgram, MatmulBroadcastsBatches) {
  EXPECT_EQ(text_of(product(typed(i8, {sym("b"), num(1), num(2), num(3)}), typed(u8, {sym("h"), num(3), sym("n")}))),
            "%0:i8[b, 1, 2, 3] = input \"a\"\n%1:u8[h, 3, n] = input \"b\"\n"
            "%2:i8[b, h, 2, 3] = broadcast(shape=[b, h, 2, 3]) %0\n"
            "%3:u8[b, h, 3, n] = broadcast(shape=[b, h, 3, n]) %1\n"
            "%4:i32[b, h, 2, n] = matmul(i32) %2, %3\noutput \"y\": i32 = %4\n");
  // One that lacks all leading dims, or none, stays as it is.
  EXPECT_EQ(text_of(product(typed(f32, {sym("b"), num(4), num(2), num(3)}), typed(f32, {num(1), num(3), sym("n")}))),
            "%0:f32[b, 4, 2, 3] = input \"a\"\n%1:f32[1, 3, n] = input \"b\"\n"
            "%2:f32[b, 4, 2, n] = matmul(f32) %0, %1\noutput \"y\": f32 = %2\n");
  EXPECT_EQ(text_of(product(typed(f32, {num(2), num(4)}), typed(f32, {num(3), num(5)}))),
            "error[E0220]: a has 4 columns but b has 3 rows\n"
            "  --> f.py:2:13\n"
            "2 |     y = a @ b\n"
            "  |             ^ f32[3, 5]\n"
            "note: f32[2, 4] @ f32[3, 5]: the inner sizes must be equal\n"
            "help: transpose one side with permute, or use equal sizes\n");
  EXPECT_EQ(headline_of(product(typed(f32, {sym("n")}), typed(f32, {sym("n"), num(5)}))),
            "a has 1 dim; a matrix product needs two");
  EXPECT_EQ(headline_of(product(typed(f32, {sym("p"), num(2), num(3)}), typed(f32, {sym("q"), num(3), num(5)}))),
            "a has p batch items but b has q");
  EXPECT_EQ(headline_of(product(typed(f64, {num(2), num(3)}), typed(i32, {num(3), num(5)}))),
            "f64 and i32 cannot be multiplied");
  EXPECT_EQ(headline_of(product(typed(f64, {num(-2), num(3)}), typed(f64, {num(3), num(5)}))),
            "parameter a has the size -2");
}

TEST(BindProgram, ReshapesKeepTheSymbolicCount) {
  FunctionMaker f("def f(x, w):\n    y = x @ w\n    z = reshape(y, (-1, 4, 16))\n    return z\n");
  const ValueId x = f.parameter("x", typed(f32, {sym("b"), sym("t"), num(8)})),
                w = f.parameter("w", typed(f32, {num(8), num(64)}));
  const ValueId y = f.op(Op::matmul, {x, w}, "x @ w", "y", MatmulAttr{});
  f.output("z", f.op(Op::reshape, {y}, "reshape(y, (-1, 4, 16))", "z", ReshapeAttr{{num(-1), num(4), num(16)}}));
  EXPECT_NE(text_of(bind_program(f.program())).find("%3:f32[b*t, 4, 16] = reshape(shape=[b*t, 4, 16]) %2\n"),
            std::string::npos)
      << text_of(bind_program(f.program()));
}

TEST(BindProgram, NeedsTypesAndNoIndexFunctions) {
  FunctionMaker f("def f(x):\n    y = x + row_index()\n    return y\n");
  const ValueId x = f.parameter("x", typed(f32, {num(2)}));
  f.output("y", f.op(Op::add, {x, f.op(Op::row_index, {}, "row_index()")}, "x + row_index()", "y"));
  EXPECT_EQ(headline_of(bind_program(f.program())), "row_index() is only defined in an epilogue");
  FunctionMaker g("def f(x):\n    return x\n");
  g.output("x", g.parameter("x"));
  EXPECT_EQ(headline_of(bind_program(g.program())), "parameter x has no type");
}

// Found by the fuzz target of the builders: passes merged dims whose product no size can say.
TEST(BindProgram, SizesMultiplyToASize) {
  const auto bound = [](std::vector<Dim> shape) {
    FunctionMaker f("def f(x):\n    y = relu(x)\n    return y\n");
    f.output("y", f.op(Op::relu, {f.parameter("x", typed(f32, std::move(shape)))}, "relu(x)", "y"));
    return bind_program(f.program());
  };
  const Dim n = sym("n"), large = num(int64_t{1} << 62);
  for (const std::vector<Dim>& shape :
       {std::vector{large, n, n, num(2) * n}, std::vector{num(0), large, num(2)}, std::vector{large, n}}) {
    const Result<Graph> graph = bound(shape);
    ASSERT_FALSE(graph);
    EXPECT_EQ(graph.error().code(), 603);
    EXPECT_EQ(graph.error().diagnostics()[0].headline.find("the extent of f32["), 0u);
  }
  Dim terms = n + num(1);  // whose powers have too many terms
  for (int i = 0; i < 3; ++i) terms = terms * (mod(n, num(i + 2)) + n);
  std::vector<Dim> many(8, terms);
  const Result<Graph> graph = bound(many);
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().code(), 603);
  EXPECT_TRUE(bound({num(int64_t{1} << 40), n, n, num(2) * n}));
}

std::string symbols_of(const std::vector<BoundArgument>& arguments) {
  const Result<Graph> graph = bind_program(mlp());
  const Result<SymbolBindings> bindings = bind_symbols(*graph, arguments);
  if (!bindings) return bindings.error().diagnostics()[0].headline;
  std::string out;
  for (const auto& [name, value] : bindings->values) out += name + "=" + std::to_string(value) + " ";
  return out;
}

TEST(BindSymbols, FirstDimThatNamesIt) {
  EXPECT_EQ(symbols_of({tensor("x", bf16, {3, 64}), tensor("w1", bf16, {64, 7}), tensor("w2", bf16, {7, 10})}),
            "batch=3 hidden=7 ");
  EXPECT_EQ(symbols_of({tensor("x", bf16, {3, 64}), tensor("w1", bf16, {64, 7}), tensor("w2", bf16, {8, 10})}),
            "hidden is 7 in dim 1 of w1 but 8 in dim 0 of w2");
  EXPECT_EQ(symbols_of({tensor("x", bf16, {3, 63}), tensor("w1", bf16, {64, 7}), tensor("w2", bf16, {7, 10})}),
            "dim 1 of x is 63 but is declared as 64");
  EXPECT_EQ(symbols_of({tensor("x", bf16, {64}), tensor("w1", bf16, {64, 7}), tensor("w2", bf16, {7, 10})}),
            "x has 1 dim but is declared with 2");
  EXPECT_EQ(symbols_of({tensor("x", f32, {3, 64}), tensor("w1", bf16, {64, 7}), tensor("w2", bf16, {7, 10})}),
            "x is f32[3, 64] but is declared as bf16[batch, 64]");
  EXPECT_EQ(symbols_of({tensor("x", bf16, {3, 64})}), "argument w1 is not provided");
}

TEST(BindSymbols, NumbersAreNoTensors) {
  for (const bool number : {true, false}) {
    FunctionMaker f("def f(x, a):\n    z = x * a\n    return z\n");
    TypeAnnotation type = typed(f32, {});
    type.is_scalar = number;
    const ValueId x = f.parameter("x", typed(f32, {sym("n"), num(3)})), a = f.parameter("a", type);
    f.output("z", f.op(Op::mul, {x, a}, "x * a", "z"));
    const ProgramFunction function = f.program();
    EXPECT_NE(print(function).find(number ? "a: f32)" : "a: f32[()])"), std::string::npos) << print(function);
    const Result<Graph> graph = bind_program(function);
    ASSERT_TRUE(graph);
    EXPECT_EQ(graph->inputs()[1].is_scalar, number);
    BoundArgument scalar;
    scalar.name = "a";
    scalar.is_scalar = true;
    const auto bound = [&](const BoundArgument& what) {
      return bind_symbols(*graph, {tensor("x", f32, {2, 3}), what});
    };
    EXPECT_EQ(bound(scalar).has_value(), number);
    EXPECT_EQ(bound(tensor("a", f32, {})).has_value(), !number);
    const Error error = number ? bound(tensor("a", f32, {})).error() : bound(scalar).error();
    EXPECT_EQ(error.code(), 221);
    EXPECT_NE(error.render().find(number ? "declare a: f32[()], a tensor without dims" : "declare a: f32, a number"),
              std::string::npos)
        << error.render();
  }
}

TEST(BindSymbols, ExpressionsAreCheckedOnceSymbolsAreKnown) {
  FunctionMaker f("def f(x, y):\n    z = x @ y\n    return z\n");
  const ValueId x = f.parameter("x", typed(f32, {num(2) * sym("n"), num(3)})),
                y = f.parameter("y", typed(f32, {num(3), sym("n")}));
  f.output("z", f.op(Op::matmul, {x, y}, "x @ y", "z", MatmulAttr{}));
  const Result<Graph> graph = bind_program(f.program());
  ASSERT_TRUE(graph);
  EXPECT_TRUE(bind_symbols(*graph, {tensor("x", f32, {10, 3}), tensor("y", f32, {3, 5})}));
  const Result<SymbolBindings> bad = bind_symbols(*graph, {tensor("x", f32, {11, 3}), tensor("y", f32, {3, 5})});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().diagnostics()[0].headline, "dim 0 of x is 11 but should be 10");
  EXPECT_EQ(bad.error().diagnostics()[0].reason, "dim 0 of x is declared as 2*n; n is 5 (dim 1 of y)");
}

}  // namespace
}  // namespace codetta::ir::test

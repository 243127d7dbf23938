// SPDX-License-Identifier: Apache-2.0
// Syntax trees: precedence, forms of statements, spans.
#include "frontend/parser.hpp"

#include <gtest/gtest.h>

namespace {

using namespace codetta;
using frontend::ast::print_ast;

Result<frontend::ast::Module> parse(std::string text) {
  return frontend::parse_text(std::make_shared<const diag::SourceText>("t", std::move(text)));
}

// The prefix form of an expression.
std::string tree(const std::string& expression) {
  const auto module = parse("def f(x):\n    D = " + expression + "\n");
  if (!module) return module.error().render();
  const std::string text = print_ast(*module);
  const size_t begin = text.find("D = ") + 4;
  return text.substr(begin, text.size() - begin - 1);
}

TEST(Parser, BindsAsPython) {
  EXPECT_EQ(tree("a + b * c"), "(+ a (* b c))");
  EXPECT_EQ(tree("a * b + c"), "(+ (* a b) c)");
  EXPECT_EQ(tree("a - b - c"), "(- (- a b) c)");
  EXPECT_EQ(tree("a ** b ** c"), "(** a (** b c))");
  EXPECT_EQ(tree("-a ** 2"), "(- (** a 2))");
  EXPECT_EQ(tree("2 ** -a"), "(** 2 (- a))");
  EXPECT_EQ(tree("-a * b"), "(* (- a) b)");
  EXPECT_EQ(tree("+~-a"), "(+ (~ (- a)))");
  EXPECT_EQ(tree("a // b % c @ d / e"), "(/ (@ (% (// a b) c) d) e)");
  EXPECT_EQ(tree("a | b ^ c & d"), "(| a (^ b (& c d)))");
  EXPECT_EQ(tree("a & b > c"), "(> (& a b) c)");
  EXPECT_EQ(tree("(a < b) & (c >= d)"), "(& (< a b) (>= c d))");
  EXPECT_EQ(tree("((a))"), "a");
  EXPECT_EQ(tree("f(a, b + 1, k=-2)"), "(f a (+ b 1) k=(- 2))");
  EXPECT_EQ(tree("f()"), "(f)");
  EXPECT_EQ(tree("f(a,)"), "(f a)");
  EXPECT_EQ(tree("f(x, dim=(0, 1), s=[2])"), "(f x dim=(tuple 0 1) s=(tuple 2))");
  EXPECT_EQ(tree("a, (b,), ()"), "(tuple a (tuple b) (tuple))");
  EXPECT_EQ(tree("True, None, 'a' \"b\", 1.5, 0x10"), "(tuple True None \"ab\" 1.5 16)");
}

TEST(Parser, TakesFormsOfAFunction) {
  const auto module = parse(R"(
"""Module."""
def g(a: "any", b: torch.Tensor | None) -> tuple[int, ...]:
    '''Doc.'''
    pass
    x: f32["m", 4] = a; y = z = b;
    p, q = split(x, 2)
    (r, s) = p, q
    return x, y

def one(accum): return accum
)");
  ASSERT_TRUE(module) << module.error().render();
  EXPECT_EQ(print_ast(*module),
            "function g line 3\n"
            "  parameter a: \"any\"\n"
            "  parameter b: (| (annotation torch) None)\n"
            "  assign x = a\n"
            "  assign y = b\n"
            "  assign z = y\n"
            "  assign p, q = (split x 2)\n"
            "  assign r, s = (tuple p q)\n"
            "  return (tuple x y)\n"
            "function one line 11\n"
            "  parameter accum\n"
            "  return accum\n");
}

TEST(Parser, SpansCoverWhatIsWritten) {
  const std::string text = "def f(accum):\n    D = (accum + 1) * relu( accum )\n";
  const auto module = parse(text);
  ASSERT_TRUE(module);
  const auto& product = (*module)[module->statements[0].value];
  EXPECT_EQ(module->text(product.span), "(accum + 1) * relu( accum )");
  EXPECT_EQ(module->text((*module)[product.a].span), "accum + 1");
  EXPECT_EQ(module->text((*module)[product.b].span), "relu( accum )");
}

TEST(Parser, LongChainsAreLoops) {
  std::string text = "def f(accum):\n    D = accum";
  for (int i = 0; i < 100000; ++i) text += i % 2 == 0 ? " + accum" : " * 2.0";
  const auto module = parse(text + "\n    return D\n");
  ASSERT_TRUE(module);
  EXPECT_GT(print_ast(*module).size(), 800000u);
}

TEST(Parser, TwoHundredBracketsAreRead) {
  const auto nested = [](size_t depth) {
    return parse("def f(accum):\n    D = " + std::string(depth, '(') + "accum" + std::string(depth, ')') + "\n")
        .has_value();
  };
  EXPECT_TRUE(nested(200));
  EXPECT_FALSE(nested(201));
}

TEST(Parser, GoesOnBehindASkippedBlock) {
  const auto module = parse(
      "def f(accum):\n    if accum:\n        x = (1 +\n             2)\n    elif y:\n        pass\n    else: z = 1\n   "
      " D = a.b\n    return D\n");
  ASSERT_FALSE(module);
  ASSERT_EQ(module.error().diagnostics().size(), 2u);
  EXPECT_EQ(module.error().diagnostics()[0].code, 113);
  EXPECT_EQ(module.error().diagnostics()[1].code, 118);
  EXPECT_EQ(module.error().diagnostics()[1].where.line, 8u);
}

}  // namespace

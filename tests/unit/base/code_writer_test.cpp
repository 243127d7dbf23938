// SPDX-License-Identifier: Apache-2.0
// CodeWriter texts, asserted whole; literals read back bit by bit.
#include "base/code_writer.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <random>

namespace codetta::base {
namespace {

template <class T>
concept Printable = requires(CodeWriter& writer, T piece) {
  writer.line(piece);
};
static_assert(Printable<int> && Printable<bool> && Printable<std::string> && Printable<char> && Printable<uint64_t>);

TEST(CodeWriter, LinesBlocksAndPieces) {
  CodeWriter writer;
  writer.line("#define N ", 42, ' ', -1, " ", uint64_t{18446744073709551615U}, ' ', true);
  {
    auto function = writer.block("void f(int ", std::string("a"), ")");
    auto loop = writer.block("for (;;)");
    writer.line("a++;");
    loop.end();
    writer.line();
    auto scope = writer.block();
  }
  { auto type = writer.block_with("};", "struct S"); }
  {
    auto deeper = writer.indent();
    writer.line("x");
  }
  writer.line("y");
  EXPECT_EQ(writer.str(),
            "#define N 42 -1 18446744073709551615 true\n"
            "void f(int a) {\n"
            "  for (;;) {\n"
            "    a++;\n"
            "  }\n"
            "\n"
            "  {\n"
            "  }\n"
            "}\n"
            "struct S {\n"
            "};\n"
            "  x\n"
            "y\n");
}

TEST(CodeWriter, BlankLinesDoNotPileUp) {
  CodeWriter writer;
  writer.blank();
  writer.line("a");
  writer.blank();
  writer.blank();
  {
    auto block = writer.block("b");
    writer.blank();
    writer.line("c");
    writer.blank();
  }
  writer.blank();
  EXPECT_EQ(writer.str(), "a\n\nb {\n  c\n}\n");
}

TEST(CodeWriter, SeveralLinesInOnePieceAreIndented) {
  CodeWriter writer;
  auto block = writer.block("b");
  writer.line("x\n\ny");
  writer.raw("#if 1");
  writer.raw("");
  writer.raw("#endif\n");
  block.end();
  EXPECT_EQ(writer.str(), "b {\n  x\n\n  y\n#if 1\n#endif\n}\n");
}

TEST(CodeWriter, SectionsJoinInDeclaredOrder) {
  CodeWriter writer({"includes", "helpers", "body"});
  auto body = writer.block("void f()");
  for (int i = 0; i < 2; ++i) {
    if (!writer.once("square")) continue;
    auto helpers = writer.section("helpers");
    auto helper = writer.block("int square(int a)");
    writer.line("return a * a;");
  }
  {
    auto late = writer.section("late");
    writer.line("// end");
  }
  writer.line("square(2);");
  body.end();
  EXPECT_EQ(writer.str(), "int square(int a) {\n  return a * a;\n}\n\nvoid f() {\n  square(2);\n}\n\n// end\n");
}

TEST(CodeWriter, EmptyIsEmpty) { EXPECT_EQ(CodeWriter({}).str(), ""); }

TEST(Literals, Text) {
  EXPECT_EQ(float_literal(1.5F), "0x1.8p+0f /* 1.5 */");
  EXPECT_EQ(float_literal(-0.0F), "-0x0p+0f /* -0 */");
  EXPECT_EQ(double_literal(0.1), "0x1.999999999999ap-4 /* 0.1 */");
  EXPECT_EQ(float_literal(INFINITY), "__builtin_inff()");
  EXPECT_EQ(float_literal(-INFINITY), "-__builtin_inff()");
  EXPECT_EQ(double_literal(-INFINITY), "-__builtin_inf()");
  EXPECT_EQ(double_literal(INFINITY), "__builtin_inf()");
  EXPECT_EQ(float_literal(NAN), "__builtin_nanf(\"\")");
  EXPECT_EQ(double_literal(NAN), "__builtin_nan(\"\")");
}

TEST(Literals, KeepEveryBit) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 100000; ++i) {
    const uint64_t bits = random();
    const auto single = std::bit_cast<float>(static_cast<uint32_t>(bits));
    const auto wide = std::bit_cast<double>(bits);
    if (std::isfinite(single)) {
      const float back = std::strtof(float_literal(single).c_str(), nullptr);
      ASSERT_EQ(std::bit_cast<uint32_t>(back), static_cast<uint32_t>(bits));
    }
    if (std::isfinite(wide)) {
      ASSERT_EQ(std::bit_cast<uint64_t>(std::strtod(double_literal(wide).c_str(), nullptr)), bits);
    }
  }
  EXPECT_EQ(std::strtof(float_literal(1e-45F).c_str(), nullptr), 1e-45F);
}

}  // namespace
}  // namespace codetta::base

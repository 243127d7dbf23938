// SPDX-License-Identifier: Apache-2.0
// The caret text, asserted whole.
#include <gtest/gtest.h>

#include "diag/diagnostic.hpp"

namespace codetta::diag {
namespace {

SourceRef text(std::string content, std::string name = "mlp.py") {
  return std::make_shared<const SourceText>(std::move(name), std::move(content));
}

std::string rendered(const ErrorBuilder& builder) { return Error(builder.diagnostic()).render(); }

TEST(Render, TheExampleOfTheDesign) {
  const auto source = text("def f(accum, bias):\n    \n    D = relu(accum + bias)\n    return D\n");
  const auto at = static_cast<uint32_t>(source->text().rfind("bias"));
  EXPECT_EQ(rendered(error(Code::tensor_size, "bias has 64 columns but the accumulator has 128")
                         .at(source, {at, at + 4}, "f32[64]")
                         .help("bind a bias of 128 elements, or slice `accum`")),
            "error[E0602]: bias has 64 columns but the accumulator has 128\n"
            "  --> mlp.py:3:22\n"
            "3 |     D = relu(accum + bias)\n"
            "  |                      ^^^^ f32[64]\n"
            "help: bind a bias of 128 elements, or slice `accum`\n");
}

TEST(Render, ReasonNotesAndHelpInThisOrder) {
  const auto source = text("x = 1\nx = 2\n");
  EXPECT_EQ(rendered(error(Code::tensor_size, "Variable 'x' cannot be defined twice.")
                         .help("rename one")
                         .note("first defined here", source, {0, 1})
                         .note("names are single assignment")
                         .reason("2 definitions\nthe second is refused")
                         .at(source, {6, 7})),
            "error[E0602]: Variable 'x' cannot be defined twice.\n"
            "  --> mlp.py:2:1\n"
            "2 | x = 2\n"
            "  | ^\n"
            "note: 2 definitions\n"
            "      the second is refused\n"
            "note: first defined here\n"
            "  --> mlp.py:1:1\n"
            "1 | x = 1\n"
            "  | ^\n"
            "note: names are single assignment\n"
            "help: rename one\n");
}

TEST(Render, AsASentence) {
  const auto source = text("x = 1\nx = 2\n");
  const ErrorBuilder plain = error(Code::out_of_memory, "no memory").help("use a smaller problem");
  EXPECT_EQ(sentence(plain.diagnostic()), "no memory");
  EXPECT_EQ(sentence(Error(plain)), "E0606: no memory");
  ErrorBuilder placed = error(Code::tensor_size, "it does not compile").reason("2 lines").help("look");
  EXPECT_EQ(sentence(placed.diagnostic()), "it does not compile: 2 lines");
  EXPECT_EQ(sentence(Error({placed.diagnostic(), plain.diagnostic()})), "E0602: it does not compile: 2 lines");
  placed.at(source, {6, 7});
  EXPECT_EQ(sentence(Error(placed)), "E0602: it does not compile: 2 lines") << "a place says nothing without a label";
  placed.at(source, {6, 7}, "expected a ;");
  EXPECT_EQ(sentence(Error(placed)), "E0602: it does not compile: 2 lines: mlp.py:2: expected a ;");
}

TEST(Render, WithoutPositionAndWithAFileOnly) {
  EXPECT_EQ(rendered(error(Code::out_of_memory, "no memory").help("use a smaller problem")),
            "error[E0606]: no memory\nhelp: use a smaller problem\n");
  EXPECT_EQ(rendered(error(Code::tensor_rank, "bad").in_file("a\x1b[31m.npy").help("fix")),
            "error[E0601]: bad\n  --> a\\x1b[31m.npy\nhelp: fix\n");
}

TEST(Render, WideLineNumbersMoveTheGutter) {
  std::string content;
  for (int i = 0; i < 122; ++i) content += "\n";
  const auto source = text(content + "ab");
  EXPECT_EQ(rendered(error(Code::tensor_rank, "bad").at(source, {123, 124}, "here")),
            "error[E0601]: bad\n  --> mlp.py:123:2\n123 | ab\n    |  ^ here\n");
}

TEST(Render, EmptyLineHasNoTrailingBlanks) {
  EXPECT_EQ(rendered(error(Code::tensor_rank, "bad").at(text("a\n"), {2, 2}, "expected more")),
            "error[E0601]: bad\n  --> mlp.py:2:1\n2 |\n  | ^ expected more\n");
}

TEST(Render, UnnamedTextAndZeroLength) {
  SourceLocation where;
  where.line = 4;
  where.column = 2;
  where.line_text = "abc";
  EXPECT_EQ(rendered(error(Code::tensor_rank, "bad").at(where)),
            "error[E0601]: bad\n  --> <text>:4:2\n4 | abc\n  |  ^\n");
}

TEST(Render, TabsAreOneBlank) {
  EXPECT_EQ(rendered(error(Code::tensor_rank, "bad").at(text("\tx\ty"), {3, 4})),
            "error[E0601]: bad\n  --> mlp.py:1:4\n1 |  x y\n  |    ^\n");
}

TEST(Render, CaretsFollowWideCombiningAndEscapedCharacters) {
  const auto carets = [](std::string line) {
    const auto at = static_cast<uint32_t>(line.find('x'));
    return rendered(error(Code::tensor_rank, "bad").at(text(std::move(line)), {at, at + 1}));
  };
  const std::string head = "error[E0601]: bad\n  --> mlp.py:1:";
  EXPECT_EQ(carets("\u03b1x"), head + "2\n1 | \u03b1x\n  |  ^\n");
  EXPECT_EQ(carets("\u4e2dx"), head + "2\n1 | \u4e2dx\n  |   ^\n");
  EXPECT_EQ(carets("e\u0301x"), head + "3\n1 | e\u0301x\n  |  ^\n");
  EXPECT_EQ(carets("\x1b[2Jx"), head + "5\n1 | \\x1b[2Jx\n  |        ^\n");
  EXPECT_EQ(carets("\xffx"), head + "2\n1 | \\xffx\n  |     ^\n");
  EXPECT_EQ(carets("\u202ex"), head + "2\n1 | \\u202ex\n  |       ^\n");
  EXPECT_EQ(carets(std::string("\0x", 2)), head + "2\n1 | \\x00x\n  |     ^\n");
}

TEST(Render, UnderlinesEscapesWhole) {
  EXPECT_EQ(rendered(error(Code::tensor_rank, "bad").at(text("a\xff\xfe"), {1, 3})),
            "error[E0601]: bad\n  --> mlp.py:1:2\n1 | a\\xff\\xfe\n  |  ^^^^^^^^\n");
}

TEST(Render, UnderlineEndsWithTheLine) {
  SourceLocation where{"f", 1, 2, 4000000000U, "abc", 1};
  EXPECT_EQ(rendered(error(Code::tensor_rank, "bad").at(where)), "error[E0601]: bad\n  --> f:1:2\n1 | abc\n  |  ^^\n");
  where.column = 4000000000U;
  EXPECT_EQ(rendered(error(Code::tensor_rank, "bad").at(where)),
            "error[E0601]: bad\n  --> f:1:4000000000\n1 | abc\n  |    ^\n");
}

TEST(Render, LongLinesAreCut) {
  const std::string content = std::string(300, 'a') + "x" + std::string(300, 'b');
  const std::string quoted = "..." + std::string(76, 'a') + "x" + std::string(77, 'b') + "...";
  EXPECT_EQ(rendered(error(Code::tensor_rank, "bad").at(text(content), {300, 301}, "this")),
            "error[E0601]: bad\n  --> mlp.py:1:301\n1 | " + quoted + "\n  | " + std::string(79, ' ') + "^ this\n");
  // A location made by hand is cut as well.
  EXPECT_EQ(rendered(error(Code::tensor_rank, "bad").at(SourceLocation{"mlp.py", 1, 301, 1, content, 1}, "this")),
            "error[E0601]: bad\n  --> mlp.py:1:301\n1 | " + quoted + "\n  | " + std::string(79, ' ') + "^ this\n");
}

TEST(Render, HostileTextsNeverReachTheTerminalRaw) {
  const std::string evil = "a\x1b]0;title\x07\r\x9b\u009b";
  const std::string out = rendered(error(Code::tensor_rank, evil)
                                       .at(text(evil, evil), {0, 1}, evil)
                                       .reason(evil)
                                       .note(evil, text(evil), {0, 1})
                                       .help(evil));
  for (const char c : out) EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f)) << static_cast<int>(c);
}

TEST(Render, SeveralAreSeparatedByAnEmptyLine) {
  const Error errors(std::vector<Diagnostic>{error(Code::tensor_rank, "one").help("a").diagnostic(),
                                             error(Code::tensor_size, "two").help("b").diagnostic()});
  EXPECT_EQ(errors.render(), "error[E0601]: one\nhelp: a\n\nerror[E0602]: two\nhelp: b\n");
  EXPECT_EQ(errors.code(), 601);
  EXPECT_EQ(errors.message(), "error[E0601]: one");
}

TEST(Render, AnErrorWithoutDiagnosticsIsOurFault) {
  const Error empty{std::vector<Diagnostic>{}};
  EXPECT_EQ(empty.code(), static_cast<uint16_t>(Code::internal));
  EXPECT_EQ(empty.family(), ErrorFamily::Internal);
  EXPECT_EQ(empty.render(),
            "error[E0901]: an error was reported without a diagnostic\nhelp: please report this as a bug of Codetta\n");
}

TEST(Render, ExceptionCarriesTheText) {
  Result<int> result = error(Code::tensor_rank, "bad").help("fix");
  try {
    (void)result.value();
    FAIL() << "value() of an error returned";
  } catch (const Exception& thrown) {
    EXPECT_STREQ(thrown.what(), "error[E0601]: bad\nhelp: fix\n");
    EXPECT_EQ(thrown.error().code(), 601);
  }
}

}  // namespace
}  // namespace codetta::diag

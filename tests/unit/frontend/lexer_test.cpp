// SPDX-License-Identifier: Apache-2.0
// Tokens as CPython's tokenizer gives them.
#include "frontend/lexer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace {

using namespace codetta::frontend;
namespace diag = codetta::diag;

struct Lexed {
  std::string text;  // kinds and spellings: "def f ( x ) : NL > return x NL < ."
  std::vector<Token> tokens;
  std::vector<std::string> strings;
  uint16_t code = 0;
  std::string help;
};

Lexed lex(std::string text) {
  Report report(std::make_shared<const diag::SourceText>("t", std::move(text)));
  Lexer lexer(report);
  Lexed out;
  for (;;) {
    const Token token = lexer.next();
    out.tokens.push_back(token);
    if (!out.text.empty()) out.text += ' ';
    if (token.kind == TokenKind::Newline) {
      out.text += "NL";
    } else if (token.kind == TokenKind::Indent) {
      out.text += '>';
    } else if (token.kind == TokenKind::Dedent) {
      out.text += '<';
    } else if (token.kind == TokenKind::String) {
      out.text += "S";
      out.strings.push_back(lexer.string_value(token.string));
    } else if (token.kind == TokenKind::End) {
      out.text += '.';
      break;
    } else {
      out.text += lexer.text(token.span);
    }
  }
  if (report.empty()) return out;
  const auto error = report.finish();
  out.code = error.code();
  out.help = error.diagnostics().front().help;
  return out;
}

TEST(Lexer, GivesLinesAndBlocks) {
  EXPECT_EQ(lex("def f(x):\n  a = 1\n  if a:\n    b\n  c\nd").text,
            "def f ( x ) : NL > a = 1 NL if a : NL > b NL < c NL < d NL .");
  EXPECT_EQ(lex("").text, ".");
  EXPECT_EQ(lex("\n\n  # only\n\t\n").text, ".");
  EXPECT_EQ(lex("a\n    # deep comment\nb").text, "a NL b NL .");
  EXPECT_EQ(lex("a;b").text, "a ; b NL .");
  EXPECT_EQ(lex("x:\n  y").text, "x : NL > y NL < .");
}

TEST(Lexer, TakesAllLineEnds) {
  const std::string expected = "a NL > b NL < c NL .";
  EXPECT_EQ(lex("a\n  b\nc").text, expected);
  EXPECT_EQ(lex("a\r\n  b\r\nc\r\n").text, expected);
  EXPECT_EQ(lex("a\r  b\rc\r").text, expected);
}

TEST(Lexer, JoinsLines) {
  EXPECT_EQ(lex("f(a,\n      b) # end\nc").text, "f ( a , b ) NL c NL .");
  EXPECT_EQ(lex("a + \\\n  b\nc").text, "a + b NL c NL .");
  EXPECT_EQ(lex("a + \\\r\n  b").text, "a + b NL .");
  EXPECT_EQ(lex("[\n\n# c\n]").text, "[ ] NL .");
  EXPECT_EQ(lex("a \\ b").code, 112);
  EXPECT_EQ(lex("a \\").code, 112);
  EXPECT_EQ(lex("a \\\n").code, 112);
}

TEST(Lexer, MeasuresTabsAsPython) {
  EXPECT_EQ(lex("a:\n\tb\n\tc").text, "a : NL > b NL c NL < .");
  EXPECT_EQ(lex("a:\n        b\n\tc").code, 108);
  EXPECT_EQ(lex("a:\n\tb\n        c").code, 108);
  EXPECT_EQ(lex("a:\n \tb:\n \t\tc\n").code, 0);  // deeper in both measures
  EXPECT_EQ(lex("a:\n \tb:\n\t\tc\n").code, 108);
  EXPECT_EQ(lex("a:\n  b\n c").code, 107);
  EXPECT_EQ(lex("a:\n  \x0c  b\nc").text, "a : NL > b NL < c NL .");  // a form feed starts the line anew
}

TEST(Lexer, TakesTheFirstLineAsMargin) {
  EXPECT_EQ(lex("\n    a:\n        b\n    c\n").text, "a : NL > b NL < c NL .");
  EXPECT_EQ(lex("    a\n  b").code, 107);
}

TEST(Lexer, ReadsNumbers) {
  const auto integer = [](const char* text) {
    const Lexed lexed = lex(text);
    EXPECT_EQ(lexed.tokens[0].kind, TokenKind::Int) << text;
    return lexed.tokens[0].integer;
  };
  const auto real = [](const char* text) {
    const Lexed lexed = lex(text);
    EXPECT_EQ(lexed.tokens[0].kind, TokenKind::Float) << text;
    return lexed.tokens[0].real;
  };
  EXPECT_EQ(integer("0"), 0u);
  EXPECT_EQ(integer("00_0"), 0u);
  EXPECT_EQ(integer("1_000"), 1000u);
  EXPECT_EQ(integer("0x_fF"), 255u);
  EXPECT_EQ(integer("0B1_01"), 5u);
  EXPECT_EQ(integer("0o17"), 15u);
  EXPECT_EQ(integer("9223372036854775808"), uint64_t{1} << 63);
  EXPECT_EQ(integer("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(integer("0xffff_ffff_ffff_ffff"), UINT64_MAX);
  EXPECT_EQ(real("1."), 1.0);
  EXPECT_EQ(real(".5"), 0.5);
  EXPECT_EQ(real("012.5"), 12.5);
  EXPECT_EQ(real("1_0.0_1e1_0"), 10.01e10);
  EXPECT_EQ(real("1e+3"), 1000.0);
  EXPECT_EQ(real("1E-3"), 0.001);
  EXPECT_EQ(real("0.1"), 0.1);
  EXPECT_EQ(real("1.7976931348623157e308"), std::numeric_limits<double>::max());
  EXPECT_EQ(real("5e-324"), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(real("1e-400"), 0.0);
  EXPECT_EQ(real(("0." + std::string(400, '0') + "1").c_str()), 0.0);
  EXPECT_EQ(real("0e999999999999999999999"), 0.0);
  EXPECT_EQ(real("1e-999999999999999999999"), 0.0);
  for (const char* text :
       {"1e309", "18446744073709551616", "[9223372036854775809]", "0xffffffffffffffffff", "1e999999999999999999999"}) {
    EXPECT_EQ(lex(text).code, 109) << text;
  }
  EXPECT_EQ(lex("1" + std::string(400, '0') + "e-1").code, 109);
  EXPECT_EQ(lex("0.01e320").code, 109);
  // What is shown instead of an integer is a float that can be read, of 309 digits, too.
  const std::string tail(300, '3');
  for (const std::string& digits : {"17976931" + tail, "179769312" + tail, "9223372036854775808" + tail.substr(1)}) {
    const Lexed lexed = lex(digits);
    EXPECT_EQ(lexed.code, 109);
    const std::string start = "write it as a float, with a point: ";
    const bool fits = digits.size() < 309 || digits[0] == '1';
    ASSERT_EQ(lexed.help.substr(0, start.size()) == start, fits) << digits << ": " << lexed.help;
    if (fits)
      EXPECT_NEAR(real(lexed.help.substr(start.size()).c_str()) / std::strtod(digits.c_str(), nullptr), 1, 1e-12);
    else
      EXPECT_EQ(lexed.help, "write a smaller number, or inf for infinity");
  }
  EXPECT_EQ(lex("40e9223372036854775807").code, 109);
  EXPECT_EQ(real("0.04e-9223372036854775807"), 0.0);
  for (const char* text :
       {"1__0", "1_", "0x", "0xg", "0b2", "0o8", "012", "1e", "1e+", "1._5", "1.5_", "2j", "2.5J", "3x", "0_"}) {
    EXPECT_EQ(lex(text).code, 110) << text;
  }
}

TEST(Lexer, ReadsStrings) {
  EXPECT_EQ(lex(R"('a' "b" '''c'd''' """e"f""")").strings, (std::vector<std::string>{"a", "b", "c'd", "e\"f"}));
  EXPECT_EQ(lex(R"("\n\t\\\'\"\x41\101\u00e9\U0001F600\q")").strings[0], "\n\t\\'\"AA\xc3\xa9\xf0\x9f\x98\x80\\q");
  EXPECT_EQ(lex(R"(r"\n\"" u'x')").strings, (std::vector<std::string>{"\\n\\\"", "x"}));
  EXPECT_EQ(lex("'a\\\nb'").strings[0], "ab");
  EXPECT_EQ(lex("\"\"\"two\nlines\"\"\"").strings[0], "two\nlines");
  EXPECT_EQ(lex("''").strings[0], "");
  EXPECT_EQ(lex("b'x'").tokens[0].prefix, 'b');
  EXPECT_EQ(lex("Rf'x'").tokens[0].prefix, 'f');
  EXPECT_EQ(lex("'\xc3\xa9'").strings[0], "\xc3\xa9");
  for (const char* text : {"'a", "\"a\nb\"", "'''a''", "'\\'", "'a\\"}) EXPECT_EQ(lex(text).code, 105) << text;
  for (const char* text : {R"('\x4')", R"('\u12')", R"('\ud800')", R"('\U00110000')"})
    EXPECT_EQ(lex(text).code, 112) << text;
}

TEST(Lexer, ReadsPunctuationGreedily) {
  EXPECT_EQ(lex("a**b//c->d!=e:=f<<=g...").text, "a ** b // c -> d != e := f <<= g ... NL .");
  EXPECT_EQ(lex("(").code, 106);
  EXPECT_EQ(lex(")").code, 106);
  EXPECT_EQ(lex("([)]").code, 106);
  EXPECT_EQ(lex("$").code, 104);
  EXPECT_EQ(lex("a\xc2\xa0+ b").code, 104);
  EXPECT_EQ(lex("na\xc3\xafve").code, 104);
  EXPECT_EQ(lex(std::string(255, 'a')).code, 0);
  EXPECT_EQ(lex(std::string(256, 'a')).code, 146);
}

TEST(Lexer, SkipsAByteOrderMark) {
  EXPECT_EQ(lex("\xef\xbb\xbf"
                "a")
                .text,
            "a NL .");
  EXPECT_EQ(lex("a\xef\xbb\xbf").code, 104);
}

TEST(Lexer, EndsForeverAfterAnError) {
  Report report(std::make_shared<const diag::SourceText>("t", "$ a b"));
  Lexer lexer(report);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(lexer.next().kind, TokenKind::End);
  EXPECT_TRUE(lexer.failed());
}

}  // namespace

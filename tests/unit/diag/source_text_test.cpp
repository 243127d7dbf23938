// SPDX-License-Identifier: Apache-2.0
// Spans to lines and columns, long lines, the code table and the builder.
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "diag/cut_line.hpp"
#include "diag/diagnostic.hpp"

namespace codetta::diag {
namespace {

SourceLocation location(uint32_t line, uint32_t column, uint32_t length, std::string text) {
  return {"f.py", line, column, length, std::move(text), 1};
}

TEST(SourceText, LocatesTokens) {
  const SourceText source("f.py", "a = 1\nbcd = a\n");
  EXPECT_EQ(source.locate({0, 1}), location(1, 1, 1, "a = 1"));
  EXPECT_EQ(source.locate({6, 9}), location(2, 1, 3, "bcd = a"));
  EXPECT_EQ(source.locate({12, 13}), location(2, 7, 1, "bcd = a"));
}

TEST(SourceText, PointsBehindTheTextAndIntoLineEnds) {
  const SourceText source("f.py", "ab\ncd");
  EXPECT_EQ(source.locate({2, 3}), location(1, 3, 1, "ab"));
  EXPECT_EQ(source.locate({5, 5}), location(2, 3, 1, "cd"));
  EXPECT_EQ(source.locate({100, 200}), location(2, 3, 1, "cd"));
  const SourceText ends("f.py", "ab\n");
  EXPECT_EQ(ends.locate({3, 3}), location(2, 1, 1, ""));
  const SourceText empty("f.py", "");
  EXPECT_EQ(empty.locate({0, 0}), location(1, 1, 1, ""));
}

TEST(SourceText, UnknownSpanIsTheFileAlone) {
  const SourceText source("f.py", "ab");
  EXPECT_EQ(source.locate({}), (SourceLocation{"f.py", 0, 0, 0, "", 1}));
}

TEST(SourceText, ReversedSpanIsAPoint) {
  EXPECT_EQ(SourceText("f.py", "abcd").locate({3, 1}), location(1, 4, 1, "abcd"));
}

TEST(SourceText, KnowsAllLineEnds) {
  const SourceText source("f.py", "a\r\nb\rc\n\nd");
  EXPECT_EQ(source.locate({3, 4}), location(2, 1, 1, "b"));
  EXPECT_EQ(source.locate({5, 6}), location(3, 1, 1, "c"));
  EXPECT_EQ(source.locate({7, 7}), location(4, 1, 1, ""));
  EXPECT_EQ(source.locate({8, 9}), location(5, 1, 1, "d"));
}

TEST(SourceText, CutsSpansOverSeveralLines) {
  EXPECT_EQ(SourceText("f.py", "ab(\ncd)").locate({2, 7}), location(1, 3, 1, "ab("));
}

TEST(SourceText, CountsCodePoints) {
  const std::string text = "\u03b1\u03b2 = \U0001F600 + x";
  const SourceText source("f.py", text);
  const auto at = static_cast<uint32_t>(text.find('x'));
  EXPECT_EQ(source.locate({at, at + 1}), location(1, 10, 1, text));
  EXPECT_EQ(source.locate({0, 4}), location(1, 1, 2, text));
  // Each invalid byte is a column.
  EXPECT_EQ(SourceText("f.py", "\xff\xfex").locate({2, 3}), location(1, 3, 1, "\xff\xfex"));
}

// Whatever is cut, the column still finds the marked character.
TEST(SourceText, LongLinesAreCutAroundTheSpan) {
  for (const uint32_t mark : {0U, 2U, 50U, 79U, 80U, 81U, 500U, 919U, 920U, 921U, 997U, 998U, 999U}) {
    std::string marked;
    for (uint32_t i = 0; i < 1000; ++i) marked += i == mark ? "x" : (i % 2 == 0 ? "a" : "\u00e9");
    const SourceText source("f.py", marked);
    const auto byte = static_cast<uint32_t>(marked.find('x'));
    const SourceLocation where = source.locate({byte, byte + 1});
    EXPECT_EQ(where.column, mark + 1);
    EXPECT_EQ(base::count_code_points(where.line_text), max_line_code_points);
    size_t at = 0;
    for (uint32_t i = where.text_column; i < where.column; ++i) at += base::utf8_step(where.line_text, at).length;
    EXPECT_EQ(where.line_text[at], 'x') << mark;
    EXPECT_EQ(where.line_text.starts_with("..."), where.text_column > 1) << mark;
    EXPECT_EQ(where.line_text.ends_with("..."), mark < 900) << mark;
  }
}

TEST(SourceText, LineOf160IsWhole) {
  const std::string line(160, 'a');
  EXPECT_EQ(SourceText("f.py", line).locate({100, 101}).line_text, line);
  const std::string longer(161, 'a');
  EXPECT_EQ(SourceText("f.py", longer).locate({0, 1}).line_text, std::string(157, 'a') + "...");
}

TEST(SourceText, SpanLongerThanTheWindowShowsItsBeginning) {
  const std::string line = std::string(500, 'a') + std::string(100000, 'b');
  const SourceLocation where = SourceText("f.py", line).locate({500, 100500});
  EXPECT_EQ(where.column, 501U);
  EXPECT_EQ(where.length, 100000U);
  EXPECT_EQ(where.line_text.find('b'), where.column - where.text_column);
}

TEST(Codes, TableAndText) {
  ASSERT_NE(find_code(601), nullptr);
  EXPECT_EQ(find_code(601)->name, "tensor_rank");
  EXPECT_EQ(find_code(601)->family, ErrorFamily::Program);
  EXPECT_EQ(find_code(601)->title, "tensor has too many dimensions");
  EXPECT_EQ(find_code(0), nullptr);
  EXPECT_EQ(code_text(207), "E0207");
  EXPECT_EQ(code_text(7), "E0007");
}

Result<int> fails_by_builder() { return error(Code::tensor_rank, "too deep").reason("9 > 8").help("reshape it"); }
Result<void> fails_without_value() { return error(Code::out_of_memory, "no memory"); }

TEST(ErrorBuilder, BecomesErrorAndResult) {
  const auto source = std::make_shared<const SourceText>("f.py", "abc");
  const Diagnostic made = error(Code::tensor_size, "head")
                              .at(source, {1, 2}, "label")
                              .about("C")
                              .reason("why")
                              .note("plain")
                              .note("there", source, {0, 1})
                              .help("next")
                              .diagnostic();
  EXPECT_EQ(made, (Diagnostic{602,
                              "head",
                              location(1, 2, 1, "abc"),
                              "label",
                              "C",
                              "why",
                              {{"plain", {}}, {"there", location(1, 1, 1, "abc")}},
                              "next"}));
  EXPECT_EQ(error(Code::tensor_size, "head").in_file("x.npy").diagnostic().where,
            (SourceLocation{"x.npy", 0, 0, 0, "", 1}));
  EXPECT_EQ(error(Code::tensor_size, "head").at(SourceRef(), {1, 2}).diagnostic().where, SourceLocation{});

  const Result<int> result = fails_by_builder();
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), 601);
  EXPECT_EQ(result.error().message(), "error[E0601]: too deep");
  EXPECT_EQ(fails_without_value().error().family(), ErrorFamily::Environment);
}

// The smallest part around a span tells where it comes from.
TEST(SourceText, PartsHaveOrigins) {
  const CallSite outer{"engine.cpp", 4, 2}, inner{"engine.cpp", 7, 0};
  const auto source = std::make_shared<const SourceText>(
      "<traced>", "D = relu(x)\nE = x\n",
      std::vector<SourceText::Origin>{{{4, 11}, location_of(outer)}, {{9, 10}, location_of(inner)}});
  EXPECT_EQ(source->origin({4, 8})->line, 4U);
  EXPECT_EQ(source->origin({9, 10})->line, 7U);
  EXPECT_EQ(source->origin({9, 9})->line, 7U);
  EXPECT_EQ(source->origin({12, 13}), nullptr);
  EXPECT_EQ(source->origin({}), nullptr);
  EXPECT_EQ(Error(error(Code::shape_mismatch, "no").at(source, {9, 10}).help("h").diagnostic()).render(),
            "error[E0207]: no\n"
            "  --> <traced>:1:10\n"
            "1 | D = relu(x)\n"
            "  |          ^\n"
            "note: made by this call\n"
            "  --> engine.cpp:7\n"
            "help: h\n");
  EXPECT_EQ(Error(error(Code::trace_name, "no").at(outer).at(CallSite{}).help("h").diagnostic()).render(),
            "error[E0149]: no\n"
            "  --> engine.cpp:4:2\n"
            "help: h\n");
}

TEST(Nearest, IsThatOfBase) {
  EXPECT_EQ(nearest("rellu", {"gelu", "relu"}), "relu");
  EXPECT_EQ(nearest("zzz", {"gelu", "relu"}), "");
}

}  // namespace
}  // namespace codetta::diag

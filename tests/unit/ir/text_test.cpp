// SPDX-License-Identifier: Apache-2.0
// The text form: exact round trips, and errors with a place.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "unit/ir/function_maker.hpp"

namespace codetta::ir::test {
namespace {

Result<Graph> parse(std::string text) {
  return parse_graph(std::make_shared<diag::SourceText>("g.txt", std::move(text)));
}

// "line:column: headline" of the error.
std::string refused(std::string text) {
  const Result<Graph> graph = parse(std::move(text));
  if (graph) return "no error:\n" + print(*graph);
  const Diagnostic& d = graph.error().diagnostics()[0];
  return "E0" + std::to_string(d.code) + " " + std::to_string(d.where.line) + ":" + std::to_string(d.where.column) +
         " " + d.headline;
}

TEST(GraphText, EveryAttribute) {
  const std::string text = R"(%0:bf16[batch, 2*n, 6] = input "A \"quoted\"\\ \303\251\000"
%1:bf16[6, n] = input "B"
%2:f32[] = input "alpha" scalar
%3:f32[batch, 2*n, n] = matmul(f32) %0, %1
%4:f32[batch, n, n] = split(ways=2, part=1, dim=1) %3
%5:f32[batch, n, n] = permute(order=[0, 2, 1]) %4
%6:f32[batch, n*n] = reshape(shape=[batch, n*n]) %5
%7:f32[batch, 2*n*n] = join(dim=1, interleave=true) %6, %6
%8:f32[1, 1] = reduce_logsumexp(dims=[0, 1]) %7
%9:f16[1, 1] = cast(f16) %8
%10:f32[1, 1] = mul %9, %2
%11:i64[max(1, batch // 2), 1] = row_index(shape=[max(1, batch // 2), 1])
%12:weak f64[] = literal 2.5
%13:weak f64[] = sqrt %12
%14:f32[] = cast(f32) %13
%15:f32[max(1, batch // 2), 1] = add %11, %14
output "out \"one\"": f8e4m3 = %10
output "two": i8 = %15
)";
  const Result<Graph> graph = parse(text);
  EXPECT_EQ(text_of(graph), text);
}

// Hand-written text: comments, blank lines, labels in any numbers and order; the result is canonical.
TEST(GraphText, IsCanonicalized) {
  EXPECT_EQ(text_of(parse("# a graph\n\n%7 : f32[ n ] = input \"x\"  # comment\r\n%9:f32[n] = exp %7\n%3:f32[n]=relu "
                          "%7\n%20:f32[n] = add %3 , %9\noutput \"y\":f32=%20")),
            "%0:f32[n] = input \"x\"\n%1:f32[n] = relu %0\n%2:f32[n] = exp %0\n%3:f32[n] = add %1, %2\noutput \"y\": "
            "f32 = %3\n");
}

TEST(GraphText, LiteralsByBits) {
  const uint64_t bits[] = {0,
                           0x8000000000000000u,
                           1,
                           0x000FFFFFFFFFFFFFu,
                           0x7FEFFFFFFFFFFFFFu,
                           0x7FF0000000000000u,
                           0xFFF0000000000000u,
                           0x7FF8000000000000u,
                           0xFFF8000000000123u,
                           0x7FF0000000000001u,
                           0x3FB999999999999Au,
                           0x4340000000000001u,
                           0x3FF0000000000000u};
  for (const uint64_t pattern : bits) {
    GraphBuilder builder;
    const NodeId x = builder.add_input("x", {f64, false, {}});
    const NodeId operands[] = {x, builder.add_literal({LiteralAttr::Kind::Float, 0, std::bit_cast<double>(pattern)})};
    builder.add_output("y", *builder.add(Op::add, operands), f64);
    const Result<Graph> graph = std::move(builder).finish();
    const Result<Graph> again = parse(print(*graph));
    ASSERT_TRUE(again) << again.error().render();
    EXPECT_EQ(std::bit_cast<uint64_t>(again->attr_as<LiteralAttr>(NodeId(1u)).f), pattern);
    EXPECT_TRUE(*again == *graph);
  }
}

TEST(GraphText, IntegerAndBooleanLiterals) {
  const std::string text =
      "%0:i64[] = input \"x\"\n%1:bool[] = literal true\n%2:i64[] = literal -9223372036854775808\n%3:i64[] = add %0, "
      "%2\n%4:i64[] = where %1, %3, %0\noutput \"y\": i64 = %4\n";
  EXPECT_EQ(text_of(parse(text)), text);
}

TEST(GraphText, SyntaxErrorsHaveAPlace) {
  EXPECT_EQ(refused(""), "E0160 1:1 the text has no output");
  EXPECT_EQ(refused("hello"), "E0160 1:1 expected `%`");
  EXPECT_EQ(refused("%0:f33[] = input \"x\"\n"), "E0160 1:4 `f33` is not a dtype");
  EXPECT_EQ(refused("%0:f32[n +] = input \"x\"\n").substr(0, 10), "E0160 1:11");
  EXPECT_EQ(refused("%0:f32[1,1,1,1,1,1,1,1,1] = input \"x\"\n"), "E0160 1:24 too many dims");
  EXPECT_EQ(refused("%0:f32[] = relux %0\n"), "E0160 1:12 `relux` is not an op");
  EXPECT_EQ(refused("%0:f32[] = input \"x\n\""), "E0160 1:20 expected `\"`");
  EXPECT_EQ(refused("%0:f32[] = input \"\\x41\""), "E0160 1:19 unknown escape in a name");
  EXPECT_EQ(refused("%0:f32[] = input \"\\777\""), "E0160 1:19 unknown escape in a name");
  EXPECT_EQ(refused("%0:f32[] = input \"x\"\n%1:f32[] = relu %2\n"), "E0160 2:17 %2 is not defined above");
  EXPECT_EQ(refused("%0:f32[] = input \"x\"\n%0:f32[] = input \"y\"\n"), "E0160 2:1 %0 is defined twice");
  EXPECT_EQ(refused("%99999999999999999999:f32[] = input \"x\"\n"), "E0160 1:2 expected an integer");
  EXPECT_EQ(refused("%0:f32[] = literal 1..2\n"), "E0160 1:20 literal cannot be read");
  EXPECT_EQ(refused("%0:f32[] = literal nan:0x3ff0000000000000\n"), "E0160 1:20 literal cannot be read");
  EXPECT_EQ(refused("%0:f32[] = input \"x\" junk\n"), "E0160 1:22 the line should end here");
  EXPECT_EQ(refused("%0:f32[2] = input \"x\"\n%1:f32[1] = reduce_sum(axes=[0]) %0\n"), "E0160 2:24 expected `dims=`");
  EXPECT_EQ(refused("%0:f32[2] = input \"x\"\n%1:f32[1] = split(ways=99999999999, part=0, dim=0) %0\n"),
            "E0160 2:24 number out of range");
}

TEST(GraphText, InvalidGraphsHaveAPlace) {
  const std::string x = "%0:f32[2, 3] = input \"x\"\n";
  EXPECT_EQ(refused(x + "%1:f32[3, 2] = relu %0\noutput \"y\": f32 = %1\n"), "E0161 2:1 relu is typed f32[3, 2]");
  EXPECT_EQ(refused(x + "%1:f32[2, 3] = add %0\noutput \"y\": f32 = %1\n"), "E0161 2:1 add has 1 operand");
  EXPECT_EQ(refused(x + "%1:f32[2, 1] = reduce_sum(dims=[-1]) %0\noutput \"y\": f32 = %1\n"),
            "E0161 2:1 the attribute of reduce_sum is not in normal form");
  EXPECT_EQ(refused(x + "%1:f32[2, 1] = reduce_sum(dims=[7]) %0\noutput \"y\": f32 = %1\n"),
            "E0161 2:1 reduction along dim 7, but x has 2 dims");
  EXPECT_EQ(refused(x + "%1:weak f64[] = literal 1.0\n%2:f32[2, 3] = add %0, %1\noutput \"y\": f32 = %2\n"),
            "E0161 3:1 the weak operand %1 meets a typed one");
  EXPECT_EQ(refused(x + "%1:i8[] = literal 300\n%2:f32[2, 3] = add %0, %1\noutput \"y\": f32 = %2\n"),
            "E0161 2:1 the literal 300 is typed i8[]");
  EXPECT_EQ(refused(x + "%1:f32[] = literal 3\n%2:f32[2, 3] = add %0, %1\noutput \"y\": f32 = %2\n"),
            "E0161 2:1 the literal 3 is typed f32[]");
  EXPECT_EQ(refused("%0:f32[-2] = input \"x\"\noutput \"y\": f32 = %0\n"), "E0161 1:1 a node has the size -2");
  EXPECT_EQ(refused("%0:f32[2] = input \"x\" scalar\noutput \"y\": f32 = %0\n"), "E0161 1:1 a scalar input has dims");
  EXPECT_EQ(refused("%0:f32[] = input \"x\"\noutput \"y\": f32 = %0\noutput \"y\": f16 = %0\n"),
            "E0161 1:1 two outputs are named y");
}

TEST(GraphText, HostileSizes) {
  std::string deep = "%0:f32[";
  deep.append(200000, '(');
  EXPECT_EQ(refused(deep).substr(0, 5), "E0160");
  std::string longname = "%0:f32[] = input \"";
  longname.append(1 << 20, 'x');
  EXPECT_EQ(refused(longname + "\"\n"), "E0160 2:1 the text has no output");
  std::string operands = "%0:f32[] = input \"x\"\n%1:f32[] = add %0";
  for (int i = 0; i < 100000; ++i) operands += ", %0";
  EXPECT_EQ(refused(operands + "\noutput \"y\": f32 = %1\n"), "E0161 2:1 add has 100001 operands");
  std::string dims = "%0:f32[";
  for (int i = 0; i < 5000; ++i) dims += "n" + std::to_string(i) + " * ";
  EXPECT_EQ(refused(dims + "1] = input \"x\"\n").substr(0, 5), "E0160");
}

}  // namespace
}  // namespace codetta::ir::test

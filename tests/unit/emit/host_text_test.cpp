// SPDX-License-Identifier: Apache-2.0
// Pieces of host text, the names that may be public, and steps that it has no form for.
#include "emit/host/text.hpp"

#include <gtest/gtest.h>

#include "diag/diagnostic.hpp"
#include "emit/host/cpp.hpp"

namespace codetta::emit::host {
namespace {

using types::Dim;

std::string text_of(const char* expression) {
  return number_text(*types::parse_dim(expression), [](std::string_view symbol) { return "s_" + std::string(symbol); });
}

TEST(HostText, Numbers) {
  EXPECT_EQ(text_of("7"), "Number(7)");
  EXPECT_EQ(text_of("n"), "s_n");
  EXPECT_EQ(text_of("n // 8"), "floordiv(s_n, Number(8))");
  EXPECT_EQ(text_of("n % m"), "mod(s_n, s_m)");
  EXPECT_NE(text_of("2*n + 1").find("s_n * Number(2)"), std::string::npos);
  EXPECT_NE(text_of("2*n + 1").find(" + Number(1)"), std::string::npos);
  EXPECT_NE(text_of("n*n - m").find("s_m * Number(-1)"), std::string::npos);
  EXPECT_EQ(text_of("min(n, m, 4)").substr(0, 8), "min(min(");
}

TEST(HostText, BeginsOfOperands) {
  const auto text = [](std::initializer_list<std::pair<uint8_t, const char*>> offsets) {
    package::Operand operand;
    for (const auto& [dim, count] : offsets) operand.offsets.emplace_back(dim, *types::parse_dim(count));
    return start_text(operand, 4, [](std::string_view symbol) { return std::string(symbol); });
  };
  EXPECT_EQ(text({}), "");
  EXPECT_EQ(text({{1, "n // 2"}}), "floordiv(n, Number(2)) * Number(v[4].step(1))");
  EXPECT_EQ(text({{1, "n + 3"}}), "(n + Number(3)) * Number(v[4].step(1))");
  EXPECT_EQ(text({{0, "2*n"}, {2, "n + 1"}}),
            "n * Number(2) * Number(v[4].step(0)) + (n + Number(1)) * Number(v[4].step(2))");
}

TEST(HostText, LiteralsHoldEveryByte) {
  EXPECT_EQ(literal_text("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(literal_text("?\?/"), R"("\?\?/")");  // a trigraph would be a backslash
  EXPECT_EQ(literal_text(std::string("\n\0\x7f\xff", 4)), R"("\012\000\177\377")");
}

TEST(HostText, CommentsStayOnTheirLine) {
  for (const char* hostile : {"a\nint x;", "ends with \\", "ends with \\ \\ ", "a?\?/", "\x1b[31m", "\xe2\x80\xae"}) {
    const std::string text = comment_text(hostile);
    EXPECT_EQ(text.find('\n'), std::string::npos);
    EXPECT_EQ(text.find("?\?/"), std::string::npos);
    EXPECT_FALSE(text.ends_with('\\')) << text;
    for (const char c : text) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
  }
}

TEST(HostText, PublicNames) {
  for (const char* good : {"x", "w1", "hidden_state", "Batch", "a_b_c", "stream"})
    EXPECT_EQ(public_name_defect(good), "");
  for (const char* bad : {"",
                          "1x",
                          "_x",
                          "a__b",
                          "int",
                          "double",
                          "class",
                          "nullptr",
                          "requires",
                          "NULL",
                          "a b",
                          "a-b",
                          "x;",
                          "x\n",
                          "\"",
                          "gr\xc3\xb6\xc3\x9f"
                          "e",
                          "int64_t",
                          "errno",
                          "BUFSIZ",
                          "unreachable"}) {
    EXPECT_NE(public_name_defect(bad), "") << bad;
  }
  for (const char* macro :
       {"INT64_MAX",     "UINT8_MAX",  "INT_LEAST16_MIN", "UINT_FAST32_MAX", "INT_FAST64_WIDTH", "INT8_C",
        "UINTMAX_C",     "INTPTR_MAX", "PTRDIFF_MIN",     "SIG_ATOMIC_MAX",  "SIZE_MAX",         "WCHAR_MAX",
        "WINT_MIN",      "CHAR_BIT",   "INT_MAX",         "ULLONG_MAX",      "DBL_MAX",          "int_least8_t",
        "uint_fast64_t", "ptrdiff_t",  "uintptr_t"}) {
    EXPECT_EQ(public_name_defect(macro), "it is a word of C or C++, or of their headers") << macro;
  }
  for (const char* like : {"INT64", "INT7_MAX", "Q_MAX", "INTER_MAX", "INT_FASTER8_MAX", "K_C", "_C", "int_least9_t",
                           "int_leastmost_t", "U_MAX", "null", "MAX"}) {
    EXPECT_NE(public_name_defect(like), "it is a word of C or C++, or of their headers") << like;
  }
  EXPECT_NE(public_name_defect(std::string(129, 'a')), "");
}

// A program of one step besides its return, and what check_library() says to it.
Result<void> checked(package::Step step, const Target& target = {}) {
  auto package = std::make_shared<package::Package>();
  package->target = target;
  package->buffers.push_back({"x", package::Buffer::Role::Argument, DType::f32, false, {Dim::symbol("n")}, {}});
  package->steps.push_back(package::DefineSymbol{"n", 0, 0});
  package->steps.push_back(std::move(step));
  package->steps.emplace_back(package::Return{});
  Library library;
  library.name = "lib";
  library.target = target;
  library.programs.push_back({"f", package});
  return check_library(library);
}

TEST(HostSteps, WhatHasNoFormIsRefused) {
  const auto refused = [](const Result<void>& result) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code(), static_cast<uint16_t>(diag::Code::host_feature));
  };
  for (const char* target : {"cuda:sm_90a", "hip:gfx942"}) {
    EXPECT_TRUE(checked(package::EnterDevice{1}, Target::parse(target).value()));
    // Without the kernel that such steps are launches of.
    const package::Step on_elements[] = {
        package::IndexPut{.indices = {0, 0}}, package::Scatter{.reduce = package::ScatterReduce::Product},
        package::Fill{0, package::ZeroMode::PerCall, 0x3F800000}, package::Check{package::NanGuard{}}};
    for (const package::Step& step : on_elements) refused(checked(step, Target::parse(target).value()));
  }
  for (package::Step step :
       {package::Step(package::Comment{"hello"}), package::Step(package::Free{}), package::Step(package::Fill{}),
        package::Step(package::EnterStream{}), package::Step(package::Check{package::UnitStrideGuard{}}),
        package::Step(package::Check{package::NanGuard{}}),
        package::Step(package::Check{package::RangeGuard{Dim::symbol("n"), Dim(), Dim::constant(4), {}}})}) {
    const auto result = checked(std::move(step));
    EXPECT_TRUE(result.has_value()) << result.error().render();
  }
}

}  // namespace
}  // namespace codetta::emit::host

// SPDX-License-Identifier: Apache-2.0
// Result and the macros that pass errors on.
#include "base/result.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "diag/diagnostic.hpp"

namespace codetta::diag {
namespace {

Result<std::unique_ptr<int>> made(int value) {
  if (value < 0) return error(Code::tensor_size, "negative").help("use 0");
  return std::make_unique<int>(value);
}

Result<void> checked(int value) {
  if (value > 9) return error(Code::tensor_overflow, "large").help("use 9");
  return {};
}

Result<int> sum(int a, int b) {
  CODETTA_TRY(auto x, made(a));  // move-only values pass
  CODETTA_TRY(const auto y, made(b));
  CODETTA_CHECK_OK(checked(*x + *y));
  return *x + *y;
}

Result<void> sum_ok(int a, int b) {
  CODETTA_CHECK_OK(sum(a, b));
  return {};
}

TEST(Result, PassesValuesAndErrorsOn) {
  EXPECT_EQ(*sum(4, 5), 9);
  EXPECT_EQ(sum(-1, 5).error().message(), "error[E0602]: negative");
  EXPECT_EQ(sum(1, -5).error().code(), 602);
  EXPECT_EQ(sum(5, 5).error().code(), 603);
  EXPECT_TRUE(sum_ok(1, 2));
  EXPECT_EQ(sum_ok(5, 5).error().code(), 603);
}

TEST(Result, ValueThrowsTheError) {
  EXPECT_EQ(sum(1, 2).value(), 3);
  EXPECT_THROW((void)sum(5, 5).value(), Exception);
  EXPECT_THROW(checked(10).value(), Exception);
  EXPECT_NO_THROW(checked(9).value());
}

// As std::expected: the value and the error as what the result is, const or not, kept or given away.
TEST(Result, HasTheAccessOfStdExpected) {
  using Owner = Result<std::unique_ptr<int>>;
  static_assert(std::is_same_v<decltype(std::declval<Owner&>().value()), std::unique_ptr<int>&>);
  static_assert(std::is_same_v<decltype(std::declval<const Owner&>().value()), const std::unique_ptr<int>&>);
  static_assert(std::is_same_v<decltype(std::declval<Owner>().value()), std::unique_ptr<int>>);
  static_assert(std::is_same_v<decltype(std::declval<const Owner>().value()), const std::unique_ptr<int>&&>);
  static_assert(std::is_same_v<decltype(*std::declval<const Owner>()), const std::unique_ptr<int>&&>);
  static_assert(std::is_same_v<decltype(std::declval<Owner&>().error()), Error&>);
  static_assert(std::is_same_v<decltype(std::declval<const Owner>().error()), const Error&&>);
  static_assert(std::is_same_v<decltype(std::declval<Result<void>&>().error()), Error&>);
  static_assert(std::is_same_v<decltype(std::declval<const Result<void>>().error()), const Error&&>);
  static_assert(std::is_same_v<Owner::error_type, Error>);

  const Owner kept = made(7);
  EXPECT_EQ(*kept.value(), 7);
  EXPECT_EQ(*made(8).value(), 8);
  int total = 0;  // over a value that lives as long as the loop
  for (const int i : Result<std::vector<int>>(std::vector<int>(1000, 2)).value()) total += i;
  EXPECT_EQ(total, 2000);
  const Owner failed = made(-1);
  EXPECT_THROW((void)failed.value(), Exception);
  EXPECT_THROW((void)made(-1).value(), Exception);
  Result<int> other = sum(-1, 0);
  other.error() = error(Code::tensor_overflow, "replaced").help("x");
  EXPECT_EQ(other.error().code(), 603);
  EXPECT_EQ(sum(-1, 0).value_or(5), 5);
  EXPECT_EQ(sum(1, 1).value_or(5), 2);
  EXPECT_EQ(*made(-1).value_or(std::make_unique<int>(4)), 4);
  *checked(1);
}

TEST(Result, CopiesOfAnErrorShareItsDiagnostics) {
  const Error first = Error(error(Code::tensor_size, "one").diagnostic());
  const Error second = first;  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_EQ(&first.diagnostics(), &second.diagnostics());
}

}  // namespace
}  // namespace codetta::diag

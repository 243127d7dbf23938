// SPDX-License-Identifier: Apache-2.0
// Propagation of errors inside the library.
#pragma once

#include "codetta/error.hpp"

#define CODETTA_CONCAT_(a, b) a##b
#define CODETTA_CONCAT(a, b) CODETTA_CONCAT_(a, b)

// CODETTA_TRY(auto x, expression): x = *expression, or return its error. The expression is a Result<T>.
#define CODETTA_TRY(declaration, ...)                                                            \
  auto CODETTA_CONCAT(try_, __LINE__) = (__VA_ARGS__);                                           \
  if (!CODETTA_CONCAT(try_, __LINE__)) return std::move(CODETTA_CONCAT(try_, __LINE__)).error(); \
  declaration = std::move(*CODETTA_CONCAT(try_, __LINE__))

// CODETTA_CHECK_OK(expression): return the error of a Result<void>, if any.
#define CODETTA_CHECK_OK(...)                                        \
  do {                                                               \
    auto check_ok_result = (__VA_ARGS__);                            \
    if (!check_ok_result) return std::move(check_ok_result).error(); \
  } while (false)

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "diag/diagnostic.hpp"

namespace codetta::test {

// For fixtures whose tests expect errors.
struct ExpectsErrors {
  // An error of this code, with this part in its text, and with a next step.
  template <class T>
  static void expect(const Result<T>& result, diag::Code code, std::string_view part) {
    ASSERT_FALSE(result) << part;
    const std::string text = result.error().render();
    EXPECT_EQ(result.error().code(), static_cast<uint16_t>(code)) << text;
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_NE(text.find("help: "), std::string::npos) << text;
  }
};

}  // namespace codetta::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "diag/diagnostic.hpp"

namespace codetta::runtime::test {

// The first diagnostic says this, and has a reason and a help.
template <class T>
void expect_error(const Result<T>& result, diag::Code code, const std::string& headline,
                  const std::string& reason = {}) {
  ASSERT_FALSE(result.has_value()) << headline;
  const Diagnostic& d = result.error().diagnostics().front();
  EXPECT_EQ(d.code, static_cast<uint16_t>(code)) << result.error().render();
  EXPECT_EQ(d.headline, headline);
  if (!reason.empty()) {
    EXPECT_EQ(d.reason, reason);
  }
  EXPECT_FALSE(d.reason.empty());
  EXPECT_FALSE(d.help.empty());
}

}  // namespace codetta::runtime::test

// SPDX-License-Identifier: Apache-2.0
// The pages of docs/errors, as they were when the command was built (embed_pages.cmake).
#pragma once

#include <cstddef>

namespace codetta::cli {

struct ErrorPage {
  const char *code, *text;  // "E0207" and its page, whose first line is "# E0207: shapes do not broadcast"
};
extern const ErrorPage error_pages[];
extern const size_t error_page_count;

}  // namespace codetta::cli

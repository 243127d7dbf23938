// SPDX-License-Identifier: Apache-2.0
// Words that languages keep for themselves.
#pragma once

#include <string_view>

namespace codetta::base {

// Whether it is a keyword of C (C11, C23) or of C++ (C++20), alternative tokens such as `and` among them.
bool is_c_keyword(std::string_view word);

}  // namespace codetta::base

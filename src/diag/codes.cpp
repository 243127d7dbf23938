// SPDX-License-Identifier: Apache-2.0
// The table of codes.def as data.
#include <fmt/format.h>

#include "base/kept.hpp"
#include "diag/diagnostic.hpp"

namespace codetta::diag {

const std::vector<CodeInfo>& all_codes() {
  static const auto& codes = base::kept(std::vector<CodeInfo>{
#define CODETTA_CODE(number, name, family, title) {Code::name, #name, ErrorFamily::family, title},
#include "diag/codes.def"
#undef CODETTA_CODE
  });
  return codes;
}

const CodeInfo* find_code(uint16_t number) {
  for (const CodeInfo& info : all_codes()) {
    if (static_cast<uint16_t>(info.code) == number) return &info;
  }
  return nullptr;
}

std::string code_text(uint16_t number) { return fmt::format("E{:04}", number); }

}  // namespace codetta::diag

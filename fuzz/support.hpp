// SPDX-License-Identifier: Apache-2.0
// What the fuzz targets share. A finding is an abort.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>

#include "codetta/error.hpp"
#include "diag/diagnostic.hpp"

namespace codetta::fuzz {

// Tells which of a target's demands a finding breaks.
inline void require(bool holds, std::source_location where = std::source_location::current()) {
  if (holds) return;
  std::fprintf(stderr, "%s:%u: this does not hold\n", where.file_name(), static_cast<unsigned>(where.line()));
  std::abort();
}

inline std::string_view view_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

inline diag::SourceRef source_of(std::string text) {
  return std::make_shared<const diag::SourceText>("t", std::move(text));
}

// An error that users can act on: every diagnostic has a code in [first, last], a headline and a next step, and it
// prints. Input never makes an internal error.
inline void check_error(const Error& error, uint16_t first, uint16_t last) {
  require(!error.diagnostics().empty());
  for (const Diagnostic& diagnostic : error.diagnostics()) {
    require(!diagnostic.headline.empty() && !diagnostic.help.empty());
    require(diagnostic.code >= first && diagnostic.code <= last);
  }
  require(!error.render().empty() && !error.to_json().empty());
}

// Small decisions, a byte each; zeros when the bytes are used up.
class Choices {
 public:
  explicit Choices(std::string_view bytes) : bytes_(bytes) {}
  uint8_t next() {
    if (at_ >= bytes_.size()) return 0;
    return static_cast<uint8_t>(bytes_[at_++]);
  }
  bool used_up() const { return at_ >= bytes_.size(); }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

}  // namespace codetta::fuzz

// SPDX-License-Identifier: Apache-2.0
// The diagnostics of one text: collected while it is read, handed out sorted by position.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "diag/diagnostic.hpp"

namespace codetta::frontend {

class Report {
 public:
  static constexpr size_t max_diagnostics = 20;

  explicit Report(diag::SourceRef source) : source_(std::move(source)) {}

  // A new diagnostic at `span`; fill in the rest on the returned builder before the next call. Everything after the
  // twentieth goes to a scratch builder, and so does what has the position and code of an earlier one.
  diag::ErrorBuilder& error(diag::Code code, diag::Span span, std::string headline, std::string label = {});

  // The same for C++, in which loops repeat a mistake: what has the site, the code and the headline of an earlier one
  // goes to the scratch builder.
  diag::ErrorBuilder& error(diag::Code code, const CallSite& site, std::string headline);

  // What another stage says of the text.
  void add(const Error& error);

  [[nodiscard]] bool empty() const { return entries_.empty() && added_.empty(); }
  [[nodiscard]] bool full() const { return entries_.size() >= max_diagnostics; }
  [[nodiscard]] const diag::SourceRef& source() const { return source_; }
  // All diagnostics by position, those of other stages behind them; at least one must be there.
  [[nodiscard]] Error finish() const;

 private:
  struct Entry {
    uint32_t position;
    diag::Code code;
    diag::ErrorBuilder builder;
  };
  diag::SourceRef source_;
  std::vector<Entry> entries_;
  std::vector<Diagnostic> added_;
  diag::ErrorBuilder scratch_{diag::Code::internal, {}};
};

}  // namespace codetta::frontend

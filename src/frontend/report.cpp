// SPDX-License-Identifier: Apache-2.0
// Report.
#include "frontend/report.hpp"

#include <algorithm>

namespace codetta::frontend {

diag::ErrorBuilder& Report::error(diag::Code code, diag::Span span, std::string headline, std::string label) {
  const bool known = std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return span.known() && entry.position == span.begin && entry.code == code;
  });
  if (known || full()) {
    scratch_ = diag::ErrorBuilder(code, {});
    return scratch_;
  }
  entries_.push_back({span.begin, code, diag::error(code, std::move(headline))});
  return entries_.back().builder.at(source_, span, std::move(label));
}

diag::ErrorBuilder& Report::error(diag::Code code, const CallSite& site, std::string headline) {
  const SourceLocation where = diag::location_of(site);
  const bool known = site.known() && std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
                       const Diagnostic earlier = entry.builder.diagnostic();
                       return entry.code == code && earlier.where == where && earlier.headline == headline;
                     });
  if (!known) return error(code, diag::Span{}, std::move(headline)).at(site);
  scratch_ = diag::ErrorBuilder(code, {});
  return scratch_;
}

void Report::add(const Error& error) {
  for (const Diagnostic& diagnostic : error.diagnostics()) {
    if (std::find(added_.begin(), added_.end(), diagnostic) == added_.end()) added_.push_back(diagnostic);
  }
}

Error Report::finish() const {
  std::vector<const Entry*> order;
  order.reserve(entries_.size());
  for (const Entry& entry : entries_) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(),
                   [](const Entry* a, const Entry* b) { return a->position < b->position; });
  std::vector<Diagnostic> diagnostics;
  diagnostics.reserve(order.size());
  for (const Entry* entry : order) diagnostics.push_back(entry->builder.diagnostic());
  diagnostics.insert(diagnostics.end(), added_.begin(), added_.end());
  return Error(std::move(diagnostics));
}

}  // namespace codetta::frontend

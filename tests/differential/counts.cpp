// SPDX-License-Identifier: Apache-2.0
#include "differential/counts.hpp"

#include <sstream>

#include <fmt/format.h>

namespace codetta::test {
namespace {

constexpr int64_t CaseCounts::*fields[] = {
    &CaseCounts::epilogues,   &CaseCounts::redrawn,    &CaseCounts::redrawn_problems, &CaseCounts::runs,
    &CaseCounts::passed,      &CaseCounts::mistrusted, &CaseCounts::failed,           &CaseCounts::compiled,
    &CaseCounts::interpreted, &CaseCounts::refused,    &CaseCounts::unfinished};

}  // namespace

void CaseCounts::add(const CaseCounts& other) {
  for (const auto field : fields) this->*field += other.*field;
  for (const auto& [reason, count] : other.reasons) reasons[reason] += count;
  for (const auto& [what, count] : other.covered) covered[what] += count;
}

std::string CaseCounts::encode() const {
  std::string text;
  for (const auto field : fields) text += fmt::format("{}\n", this->*field);
  for (const auto& [reason, count] : reasons) text += fmt::format("r {} {}\n", count, reason);
  for (const auto& [what, count] : covered) text += fmt::format("c {} {}\n", count, what);
  return text;
}

CaseCounts CaseCounts::decode(const std::string& text) {
  CaseCounts counts;
  std::istringstream in(text);
  for (const auto field : fields) in >> counts.*field;
  std::string kind, name;
  int64_t count = 0;
  while (in >> kind >> count && in.get() == ' ' && std::getline(in, name)) {
    (kind == "r" ? counts.reasons : counts.covered)[name] += count;
  }
  return counts;
}

std::string CaseCounts::summary(double seconds) const {
  return fmt::format(
      "{} epilogues ({} redrawn; {} problems redrawn), {} runs ({} compiled, {} interpreted): {} passed, {} mistrusted "
      "({:.2f} %), {} "
      "MISMATCHES, {} unfinished; {} refused; {:.0f} s, {:.0f} epilogues/s\n",
      epilogues, redrawn, redrawn_problems, runs, compiled, interpreted, passed, mistrusted,
      runs == 0 ? 0.0 : 100.0 * static_cast<double>(mistrusted) / static_cast<double>(runs), failed, unfinished,
      refused, seconds, static_cast<double>(epilogues) / (seconds > 0 ? seconds : 1));
}

}  // namespace codetta::test

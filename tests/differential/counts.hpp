// SPDX-License-Identifier: Apache-2.0
// What a campaign has done; workers send theirs to the parent as text.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace codetta::test {

struct CaseCounts {
  int64_t epilogues = 0;
  int64_t redrawn = 0;           // drawn again: on a problem made for it, too little could be expected of them
  int64_t redrawn_problems = 0;  // checked, nothing wrong, and drawn again: mistrusted
  int64_t runs = 0, passed = 0, mistrusted = 0, failed = 0;
  int64_t unfinished = 0;                  // is_unfinished()
  int64_t compiled = 0, interpreted = 0;   // of the runs; the others only store the accumulators
  int64_t refused = 0;                     // with a diagnostic that was proven right
  std::map<std::string, int64_t> reasons;  // of refusals
  std::map<std::string, int64_t> covered;  // "gelu_erf f32": epilogues with it

  void add(const CaseCounts& other);
  [[nodiscard]] std::string encode() const;
  static CaseCounts decode(const std::string& text);
  [[nodiscard]] std::string summary(double seconds) const;  // one line
};

}  // namespace codetta::test

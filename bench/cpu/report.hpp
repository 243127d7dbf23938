// SPDX-License-Identifier: Apache-2.0
// Rows and tables. A row falls short only if the whole interval lies below its floor.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/cpu/ours.hpp"
#include "bench/cpu/peers.hpp"

namespace codetta::bench {

struct Floors {
  double peer = 0;            // times as fast as the best peer; 0: none asked
  double share_of_limit = 0;  // of the measured peak or bandwidth; 0: none asked
};

struct DenseRow {
  std::string what;
  double operations = 0;           // of one run; 0: bytes count instead
  double bytes = 0;                // read from memory by one run
  std::optional<Contender> limit;  // the peak loop or a read of the same bytes
  double limit_work = 0;           // operations or bytes of one run of it
  Floors floors;
};

// Races our kernels against the fastest of `peers` and the limit, and adds a line to the table.
class Table {
 public:
  Table(std::string title, std::string note) : title_(std::move(title)), note_(std::move(note)) {}
  void race_row(const DenseRow& row, const Ours& ours, const std::vector<Contender>& peers,
                Clock clock = Clock::Processor, double budget = 6);
  // A single figure with a ceiling, in the given unit.
  void figure(const std::string& what, const Estimate& value, const char* unit, double target, bool at_most,
              const std::string& note);
  [[nodiscard]] std::string markdown() const;

 private:
  std::string title_, note_;
  std::vector<std::string> rows_, figures_;
};

std::string verdict(const Estimate& value, double floor);

}  // namespace codetta::bench

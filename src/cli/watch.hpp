// SPDX-License-Identifier: Apache-2.0
// What `run` shows of the single steps of a run: --values, --trap, --save-values, --trace.
#pragma once

#include <string>
#include <vector>

#include "cli/places.hpp"
#include "cli/verbs.hpp"

namespace codetta::cli {

class Watch {
 public:
  // `places`: what the command reads and writes elsewhere, which files of --save-values don't overwrite. Errors: E0701
  // (--trap), E0623 (the folder of --save-values cannot be made).
  static Result<Watch> make(const ProgramOptions& options, Places places);
  // For RunOptions; none where nothing is asked for. The watch outlives the run.
  [[nodiscard]] StepObserver observer();
  [[nodiscard]] Observed observed() const;
  // After the run, or where it ended, which `ran` says. Writes the trace. Errors: E0623.
  Result<void> finish(const std::string& program, bool ran);
  [[nodiscard]] std::string values_text() const;  // of --values: a line for each value that was written
  [[nodiscard]] std::string steps_json() const;  // an array: every step with its time, and with --values the statistics

 private:
  struct Written {
    std::string name, form;
    ValueStatistics values;
  };
  struct Seen {
    StepRecord record;
    std::vector<Written> written;
  };
  Result<void> see(const StepRecord& record);

  bool values_ = false;
  std::string trap_, folder_, trace_;
  MadeFolder made_;  // of --save-values
  Places places_;
  std::vector<Seen> steps_;
  size_t saved_ = 0;
};

}  // namespace codetta::cli

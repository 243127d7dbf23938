// SPDX-License-Identifier: Apache-2.0
#include "cli/watch.hpp"

#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

namespace codetta::cli {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

// As a file's name: what is no letter, digit, '_' or '-' becomes '_'.
std::string file_part(std::string text) {
  for (char& c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    if (!plain) c = '_';
  }
  return text;
}

}  // namespace

Result<Watch> Watch::make(const ProgramOptions& options, Places places) {
  Watch watch;
  watch.values_ = options.values;
  watch.trap_ = options.trap;
  watch.folder_ = options.save_values;
  watch.trace_ = options.trace;
  watch.places_ = std::move(places);
  if (!watch.trap_.empty() && watch.trap_ != "nan" && watch.trap_ != "inf")
    return usage_error("--trap takes nan or inf", "'" + watch.trap_ + "' is given",
                       "nan: a step that writes a NaN ends the run; inf: one that writes an infinity, too");
  if (!watch.folder_.empty()) {
    auto made = MadeFolder::make(watch.folder_);
    if (!made) return std::move(made).error();
    watch.made_ = *std::move(made);
  }
  return watch;
}

StepObserver Watch::observer() {
  StepObserver all;
  if (values_ || !folder_.empty() || !trace_.empty()) all = [this](const StepRecord& record) { return see(record); };
  // A step is shown and saved before the trap looks at it.
  if (!trap_.empty()) {
    const StepObserver trap = trap_numbers(trap_ == "inf");
    all = [all, trap](const StepRecord& record) -> Result<void> {
      if (all) {
        if (auto seen = all(record); !seen) return seen;
      }
      return trap(record);
    };
  }
  return all;
}

Observed Watch::observed() const {
  return values_ || !folder_.empty() || !trap_.empty() ? Observed::values : Observed::steps;
}

Result<void> Watch::see(const StepRecord& record) {
  Seen seen{record, {}};
  for (StepRecord::Value& value : seen.record.written) value.view = TensorView();
  std::vector<OutputFile> files;
  for (const StepRecord::Value& value : record.written) {
    Written written{value.name, value.view.describe(), {}};
    if (values_) written.values = statistics(value);
    seen.written.push_back(std::move(written));
    if (folder_.empty()) continue;
    char place[16];
    std::snprintf(place, sizeof place, "%04zu", saved_++);
    files.push_back({value.name, folder_ + "/" + place + "_" + file_part(value.name) + ".npy", value.view});
  }
  steps_.push_back(std::move(seen));
  if (files.empty()) return {};
  Places places = places_;  // which files there are is known as steps run
  for (const OutputFile& file : files) places.files.emplace_back("a value of --save-values", file.file);
  if (auto free = check_overwrites(places); !free) return free;
  return write_tensors(files);
}

Result<void> Watch::finish(const std::string& program, bool ran) {
  if (ran) made_.keep();
  if (trace_.empty()) return {};
  std::vector<StepRecord> records;
  for (const Seen& step : steps_) records.push_back(step.record);
  return write_text(trace_, chrome_trace(records, program));
}

std::string Watch::values_text() const {
  std::string text;
  if (!values_) return text;
  for (const Seen& step : steps_) {
    if (step.written.empty()) continue;
    char time[32];
    std::snprintf(time, sizeof time, "%.3f ms", static_cast<double>(step.record.end_ns - step.record.begin_ns) / 1e6);
    text += step.record.step + (step.record.kernel.empty() ? "" : "  " + step.record.kernel) + "  " + time + "\n";
    for (const std::string& origin : step.record.origins) text += "    " + origin + "\n";
    for (const Written& written : step.written) {
      const ValueStatistics& v = written.values;
      text += "    " + written.name + " = " + written.form + ": " + number(v.least) + " to " + number(v.greatest) +
              ", mean " + number(v.mean);
      if (v.zeros != 0) text += ", " + std::to_string(v.zeros) + " zeros";
      if (v.nans != 0) text += ", " + std::to_string(v.nans) + " NaN";
      if (v.infinities != 0) text += ", " + std::to_string(v.infinities) + " infinities";
      text += "\n";
    }
  }
  return text;
}

std::string Watch::steps_json() const {
  nlohmann::json steps = nlohmann::json::array();
  for (const Seen& step : steps_) {
    nlohmann::json one{{"step", step.record.step},
                       {"kernel", step.record.kernel},
                       {"origins", step.record.origins},
                       {"us", static_cast<double>(step.record.end_ns - step.record.begin_ns) / 1000},
                       {"written", nlohmann::json::array()}};
    for (const Written& written : step.written) {
      nlohmann::json value{{"name", written.name}, {"form", written.form}};
      if (values_) {
        const ValueStatistics& v = written.values;
        value.update({{"elements", v.elements},
                      {"nan", v.nans},
                      {"infinite", v.infinities},
                      {"zeros", v.zeros},
                      {"least", v.least},
                      {"greatest", v.greatest},
                      {"mean", v.mean}});
      }
      one["written"].push_back(std::move(value));
    }
    steps.push_back(std::move(one));
  }
  return steps.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace codetta::cli

// SPDX-License-Identifier: Apache-2.0
// tune: progress on a terminal, plain lines elsewhere; Ctrl-C keeps what was measured.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "cli/interrupt.hpp"
#include "cli/places.hpp"
#include "cli/session.hpp"
#include "cli/tune.hpp"
#include "cli/verbs.hpp"

namespace codetta::cli {
namespace {

std::string counted(size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// "", or ", best NAME 12.3 us".
std::string best_of(const TuneProgress& p) {
  if (p.best.empty()) return "";
  char time[32];
  std::snprintf(time, sizeof time, " %.1f us", p.best_microseconds);
  return ", best " + p.best + time;
}

}  // namespace

Result<TuneReport> tuned_with_progress(const CommonOptions& common, const TuneLimits& limits, const Timed& timed) {
  take_time_when_interrupted();
  const bool terminal = isatty(STDERR_FILENO) != 0;
  auto last = std::chrono::steady_clock::now() - std::chrono::hours(1);
  TuneOptions tuning;
  tuning.budget_seconds = limits.budget_seconds;
  tuning.trial_seconds = limits.trial_seconds;
  tuning.max_candidates = limits.candidates;
  tuning.progress = [&](const TuneProgress& p) {
    const auto now = std::chrono::steady_clock::now();
    if (terminal && !common.json) {
      std::fprintf(stderr, "\r\033[K%zu of %zu%s, now %s", p.done, p.total, best_of(p).c_str(), p.kernel.c_str());
    } else if (common.json) {
      if (now - last > std::chrono::seconds(5)) {
        std::fprintf(
            stderr, "%s\n",
            nlohmann::json{{"done", p.done}, {"total", p.total}, {"best", p.best}, {"best_us", p.best_microseconds}}
                .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                .c_str());
        last = now;
      }
    } else if (now - last > std::chrono::seconds(5)) {
      std::fprintf(stderr, "tune: %zu of %zu%s\n", p.done, p.total, best_of(p).c_str());
      last = now;
    }
    return !interrupted().load(std::memory_order_relaxed);
  };
  auto result = timed(tuning);
  if (terminal && !common.json) std::fprintf(stderr, "\r\033[K");
  return result;
}

std::string summary_of(const TuneReport& tuned) {
  const auto measured = static_cast<size_t>(
      std::count_if(tuned.results.begin(), tuned.results.end(), [](const TuneResult& r) { return r.failure.empty(); }));
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f s", tuned.seconds);
  return tuned.complete ? counted(tuned.results.size(), "candidate") + " in " + seconds
                        : std::string("stopped after ") + seconds + ", " + counted(measured, "candidate") + " measured";
}

int told_tuning(const CommonOptions& common, const TuneLimits& limits, const Timed& timed, Context& context,
                const std::function<Result<void>(const TuneReport&)>& also) {
  const auto result = tuned_with_progress(common, limits, timed);
  if (!result) return report(result.error(), common.json);
  size_t measured = 0;
  for (const TuneResult& r : result->results) measured += r.failure.empty() ? 1 : 0;
  const CacheReport cache = cache_report(context);
  if (also) {
    if (const auto done = also(*result); !done) return report(done.error(), common.json);
  }
  nlohmann::json json{{"complete", result->complete},
                      {"seconds", result->seconds},
                      {"note", result->note},
                      {"results", nlohmann::json::array()}};
  std::string call;
  for (const TuneResult& r : result->results) {
    json["results"].push_back(
        {{"kernel", r.kernel}, {"median_us", r.microseconds}, {"spread", r.spread}, {"failure", r.failure}});
    if (!r.call.empty()) json["results"].back()["call"] = r.call;
    if (common.json) continue;
    if (r.call != call) std::printf("%s\n", (call = r.call).c_str());
    if (r.failure.empty()) {
      std::printf("%-44s %12.2f us  spread %4.1f %%\n", r.kernel.c_str(), r.microseconds, r.spread * 100);
    } else {
      std::printf("%-44s out: %s\n", r.kernel.c_str(), r.failure.c_str());
    }
  }
  if (!common.json && !result->note.empty()) std::printf("note: %s\n", result->note.c_str());
  if (common.json) {
    std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    std::printf("%s; %s\n", summary_of(*result).c_str(),
                measured == 0                                                 ? "nothing to keep"
                : !cache.enabled || cache.read_only || !cache.warning.empty() ? "not kept"
                                                                              : ("kept in " + cache.directory).c_str());
  }
  const bool no_choice = result->complete && result->results.empty();  // which the note says
  return measured == 0 && !no_choice ? exit_program : exit_ok;
}

int tune(const CommonOptions& common, const GemmOptions& options, const TuneLimits& limits) {
  if (!options.kernel.empty()) return report(all_kernels("tune"), common.json);
  auto session = Session::make(common, options, true);
  if (!session) return report(session.error(), common.json);
  if (auto unwritten = writes_nothing("tune", session->problem); !unwritten)
    return report(unwritten.error(), common.json);
  const auto timed = [&](const TuneOptions& tuning) {
    return codetta::tune(session->arguments, session->target, tuning, session->context);
  };
  const auto page = [&](const TuneReport& result) -> Result<void> {
    if (options.report.empty()) return {};
    const auto made = html_report(session->arguments, session->target, &result, session->context);
    if (!made) return made.error();
    return write_text(options.report, *made);
  };
  return told_tuning(common, limits, timed, session->context, page);
}

namespace {

Result<std::string> read_text(const std::string& file) {
  constexpr size_t most = size_t{64} << 20;
  auto text = read_bytes(file, most + 1);
  if (!text && text.error().code() == 620)
    return usage_error("'" + file + "' can not be read", text.error().diagnostics().front().reason,
                       "name a file that `codetta tune --export` wrote");
  if (text && text->size() > most)
    return usage_error("'" + file + "' is too large", "a tuning file has at most 64 MiB",
                       "name a file that `codetta tune --export` wrote");
  return text;
}

}  // namespace

int exchange_tuning(const CommonOptions& common, const std::string& export_file, const std::string& import_file) {
  auto context = context_of(common);
  if (!context) return report(context.error(), common.json);
  Places places{.tensors = {}, .files = {}, .inputs = {import_file}, .takes_force = false};
  if (!export_file.empty()) places.files.emplace_back("the tuning file", export_file);
  if (auto placed = check_places(places); !placed) return report(placed.error(), common.json);
  int64_t records = 0, passed_over = 0;
  if (!import_file.empty()) {
    const auto text = read_text(import_file);
    if (!text) return report(text.error(), common.json);
    const auto taken = import_tuning(*text, *context);
    if (!taken) return report(taken.error(), common.json);
    records = taken->records;
    passed_over = taken->passed_over;
  }
  if (!export_file.empty()) {
    const auto text = export_tuning(*context);
    if (!text) return report(text.error(), common.json);
    if (const auto written = write_text(export_file, *text); !written) return report(written.error(), common.json);
  }
  if (common.json) {
    std::printf("%s\n",
                nlohmann::json{{"imported", records}, {"passed_over", passed_over}, {"exported_to", export_file}}
                    .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                    .c_str());
    return exit_ok;
  }
  if (!import_file.empty())
    std::printf("%s imported from %s, %lld of other machines passed over\n",
                counted(static_cast<size_t>(records), "problem").c_str(), import_file.c_str(),
                static_cast<long long>(passed_over));
  if (!export_file.empty()) std::printf("exported to %s\n", export_file.c_str());
  return exit_ok;
}

}  // namespace codetta::cli

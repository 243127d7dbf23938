// SPDX-License-Identifier: Apache-2.0
#include "bench/cpu/report.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace codetta::bench {
namespace {

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  return fmt::format("{:.2f} ms", seconds * 1e3);
}
std::string interval(const Estimate& e) { return fmt::format("{:.2f} [{:.2f}, {:.2f}]", e.median, e.low, e.high); }
std::string percent(const Estimate& e) {
  return fmt::format("{:.1f} % [{:.1f}, {:.1f}]", e.median * 100, e.low * 100, e.high * 100);
}

// Whether both figures are met; the words say which is not.
std::string verdicts(const Floors& floors, const Estimate& peer, const Estimate& share, bool has_peer, bool has_limit) {
  std::string text;
  const auto add = [&](const char* name, const std::string& v) { text += (text.empty() ? "" : "; ") + (name + v); };
  if (floors.share_of_limit > 0) add("limit ", has_limit ? verdict(share, floors.share_of_limit) : "not measured");
  if (floors.peer > 0) add("peer ", has_peer ? verdict(peer, floors.peer) : "not there");
  return text;
}

}  // namespace

std::string verdict(const Estimate& value, double floor) {
  if (value.median >= floor) return "met";
  return value.high >= floor ? "undecided" : "**SHORT**";
}

void Table::race_row(const DenseRow& row, const Ours& ours, const std::vector<Contender>& peers, Clock clock,
                     double budget) {
  if (ranking_only().on) {
    std::printf("%s\n", row.what.c_str());
    return;
  }
  std::fprintf(stderr, "%s\n", row.what.c_str());
  if (!ours.ranked.run) {
    rows_.push_back(fmt::format("| {} | {} | | | | | | **SHORT** |", row.what, ours.check));
    return;
  }
  std::vector<Contender> contenders{ours.ranked};
  const bool has_tuned = static_cast<bool>(ours.tuned.run), has_peer = !peers.empty();
  if (has_tuned) contenders.push_back(ours.tuned);
  const size_t peer_at = contenders.size();
  if (has_peer) contenders.push_back(peers[fastest(peers, clock)]);
  const size_t limit_at = contenders.size();
  if (row.limit) contenders.push_back(*row.limit);
  const Race r = race(contenders, clock, 61, budget);

  const double work = row.operations > 0 ? row.operations : row.bytes;
  for (size_t i = 0; i < peer_at; ++i) {
    Estimate share{}, ratio{};
    if (has_peer) ratio = r.ratio(i, peer_at);
    if (row.limit) {
      share = r.ratio(i, limit_at);
      const double scale = work / row.limit_work;
      share = {share.median * scale, share.low * scale, share.high * scale};
    }
    rows_.push_back(fmt::format(
        "| {} | {}{} | {} | {:.1f} | {} | {} | {} | {} |", i == 0 ? row.what : "\" (fastest candidate)",
        contenders[i].name, i == 0 ? ", " + ours.check : "", time_text(r.median(i)), work / r.median(i) * 1e-9,
        row.limit ? percent(share) : "",
        has_peer ? fmt::format("{} {}", contenders[peer_at].name, time_text(r.median(peer_at))) : "none",
        has_peer ? interval(ratio) : "",
        (ours.right ? "" : "**WRONG**; ") + verdicts(row.floors, ratio, share, has_peer, row.limit.has_value())));
    std::fprintf(stderr, "  %s\n", rows_.back().c_str());
  }
}

void Table::figure(const std::string& what, const Estimate& value, const char* unit, double target, bool at_most,
                   const std::string& note) {
  const bool met = at_most ? value.median <= target : value.median >= target;
  const bool possible = at_most ? value.low <= target : value.high >= target;
  figures_.push_back(fmt::format("| {} | {:.3g} {} [{:.3g}, {:.3g}] | {} {:g} {} | {} | {} |", what, value.median, unit,
                                 value.low, value.high, at_most ? "at most" : "at least", target, unit,
                                 met        ? "met"
                                 : possible ? "undecided"
                                            : "**SHORT**",
                                 note));
  std::fprintf(stderr, "  %s\n", figures_.back().c_str());
}

std::string Table::markdown() const {
  std::string text = fmt::format("## {}\n\n{}\n", title_, note_);
  if (!rows_.empty()) {
    text +=
        "\n| row | kernel ranked first; check | time | G/s | of the limit | best peer | times as fast | target "
        "|\n|---|---|---|---|---|---|---|---|\n";
    for (const std::string& row : rows_) text += row + "\n";
  }
  if (!figures_.empty()) {
    text += "\n| figure | median | target | | how |\n|---|---|---|---|---|\n";
    for (const std::string& row : figures_) text += row + "\n";
  }
  return text + "\n";
}

}  // namespace codetta::bench

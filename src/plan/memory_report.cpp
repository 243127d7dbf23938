// SPDX-License-Identifier: Apache-2.0
// A memory plan for people and for tools.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "plan/memory.hpp"
#include "plan/plan.hpp"

namespace codetta::plan {

namespace {

using Json = nlohmann::ordered_json;

std::string name_of(const BufferNames& names, uint32_t buffer) {
  return buffer < names.size() ? names[buffer] : fmt::format("buffer {}", buffer);
}

std::string place_text(const MemoryRequest& request, const Placement& placement, const BufferNames& names) {
  switch (placement.kind) {
    case Placement::Kind::Caller:
      return request.storage == MemoryRequest::Storage::Donated ? "memory of the caller, donated"
                                                                : "memory of the caller";
    case Placement::Kind::Fresh:
      return "an allocation of its own";
    case Placement::Kind::Reuse:
      return "reuses " + name_of(names, placement.of);
    case Placement::Kind::InPlace:
      return "in place of " + name_of(names, placement.of);
    case Placement::Kind::View:
      return "view of " + name_of(names, placement.of);
    case Placement::Kind::Pool:
      break;
  }
  return fmt::format("pool {} at {}", placement.pool, placement.offset.to_string());
}

std::string_view kind_name(Placement::Kind kind) {
  constexpr std::string_view names[] = {"caller", "fresh", "reuse", "in_place", "view", "pool"};
  return names[static_cast<size_t>(kind)];
}

double ratio(int64_t value, int64_t bound) {
  return bound > 0 ? static_cast<double>(value) / static_cast<double>(bound) : 1.0;
}

// Columns of at most 64 stretches of positions, each as high as its largest value.
std::vector<std::pair<int64_t, int64_t>> columns_of(const MemoryReport& report) {
  constexpr size_t most = 64;
  const size_t positions = report.live.size(), columns = std::min(positions, most);
  std::vector<std::pair<int64_t, int64_t>> result;
  for (size_t c = 0; c < columns; ++c) {
    std::pair<int64_t, int64_t> column{0, 0};
    for (size_t p = c * positions / columns; p < (c + 1) * positions / columns; ++p)
      column = {std::max(column.first, report.live[p]), std::max(column.second, report.occupied[p])};
    result.push_back(column);
  }
  return result;
}

// One character a column: # full of live bytes, + of bytes that lie between live ones or are held.
std::string drawing(const MemoryReport& report) {
  constexpr int64_t rows = 8;
  const int64_t top = std::max<int64_t>(report.peak, 1);
  const auto columns = columns_of(report);
  const size_t margin = fmt::format("{}", top).size();
  std::string text;
  for (int64_t row = rows; row >= 1; --row) {
    const double floor = static_cast<double>(top) * (static_cast<double>(row) - 0.5) / static_cast<double>(rows);
    std::string line;
    for (const auto& [live, occupied] : columns)
      line += static_cast<double>(live) >= floor ? '#' : static_cast<double>(occupied) >= floor ? '+' : ' ';
    line.erase(line.find_last_not_of(' ') + 1);
    text += fmt::format("  {:>{}} |{}\n", row == rows ? fmt::format("{}", top) : "", margin, line);
  }
  text += fmt::format("  {:>{}} +{}\n", "", margin, std::string(columns.size(), '-'));
  return text + fmt::format("  {:>{}}  steps 0 to {}\n", "", margin, report.live.empty() ? 0 : report.live.size() - 1);
}

}  // namespace

std::string to_string(const MemoryProblem& problem, const MemoryPlan& plan, const BufferNames& names) {
  const MemoryReport& report = plan.report;
  std::string text = fmt::format("temporaries: {} bytes (lower bound {}, {:.3f} of it; {} without sharing){}\n",
                                 report.peak, report.lower_bound, ratio(report.peak, report.lower_bound),
                                 report.unshared, report.symbolic ? ", with the hinted sizes" : "");
  if (problem.requests.empty()) return text;
  text += fmt::format("in place: {}, reused: {}\n", report.in_place, report.reused);
  for (size_t i = 0; i < plan.pools.size(); ++i) {
    const MemoryPool& pool = plan.pools[i];
    text += fmt::format("pool {}: device {}, {} bytes, aligned to {}\n", i, pool.device, pool.bytes.to_string(),
                        pool.alignment);
  }
  std::vector<size_t> order(problem.requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return problem.requests[a].first < problem.requests[b].first; });
  std::vector<std::array<std::string, 4>> rows{{"buffer", "bytes", "steps", "place"}};
  for (const size_t i : order) {
    const MemoryRequest& r = problem.requests[i];
    rows.push_back({name_of(names, r.buffer), r.bytes.to_string(), fmt::format("{} to {}", r.first, r.last),
                    place_text(r, plan.placements[i], names)});
  }
  std::array<size_t, 3> width{};
  for (const auto& row : rows) {
    for (size_t c = 0; c < width.size(); ++c) width[c] = std::max(width[c], std::min<size_t>(row[c].size(), 40));
  }
  for (const auto& row : rows)
    text += fmt::format("  {:<{}}  {:>{}}  {:<{}}  {}\n", row[0], width[0], row[1], width[1], row[2], width[2], row[3]);
  return text + "live bytes (#) and bytes in between (+)\n" + drawing(report);
}

std::string to_json(const MemoryProblem& problem, const MemoryPlan& plan, const BufferNames& names) {
  const MemoryReport& report = plan.report;
  Json json{{"bytes", report.peak},        {"lower_bound", report.lower_bound}, {"unshared", report.unshared},
            {"symbolic", report.symbolic}, {"in_place", report.in_place},       {"reused", report.reused},
            {"pools", Json::array()},      {"buffers", Json::array()},          {"live", report.live},
            {"occupied", report.occupied}};
  for (const MemoryPool& pool : plan.pools) {
    json["pools"].push_back({{"device", pool.device},
                             {"bytes", pool.bytes.to_string()},
                             {"hinted", pool.hinted},
                             {"alignment", pool.alignment}});
  }
  for (size_t i = 0; i < problem.requests.size(); ++i) {
    const MemoryRequest& r = problem.requests[i];
    const Placement& p = plan.placements[i];
    Json buffer{{"buffer", name_of(names, r.buffer)},
                {"bytes", r.bytes.to_string()},
                {"first", r.first},
                {"last", r.last},
                {"device", r.device},
                {"stream", r.stream},
                {"place", kind_name(p.kind)}};
    if (r.storage == MemoryRequest::Storage::Donated) buffer["donated"] = true;
    if (p.of != no_buffer) buffer["of"] = name_of(names, p.of);
    if (p.kind == Placement::Kind::Pool) buffer["pool"] = p.pool;
    if (p.kind == Placement::Kind::Pool || p.kind == Placement::Kind::Reuse) buffer["offset"] = p.offset.to_string();
    json["buffers"].push_back(std::move(buffer));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

namespace {

BufferNames buffer_names(const Plan& plan) {
  BufferNames names;
  for (const package::Buffer& buffer : plan.buffers) names.push_back(buffer.name);
  return names;
}

}  // namespace

std::string memory_text(const Plan& plan) { return to_string(plan.temporaries, plan.memory, buffer_names(plan)); }
std::string memory_json(const Plan& plan) { return to_json(plan.temporaries, plan.memory, buffer_names(plan)); }

}  // namespace codetta::plan

// SPDX-License-Identifier: Apache-2.0
#include "driver/workspace_report.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "diag/display.hpp"
#include "driver/build_id.hpp"
#include "driver/build_tune.hpp"
#include "emit/package.hpp"
#include "package/step.hpp"
#include "runtime/scratch.hpp"

namespace codetta::driver {

namespace {

using Json = nlohmann::ordered_json;

// By launch of the package: the kernel of the plan. Their launches are the same in number and order.
std::map<const package::Step*, uint32_t> kernels_by_step(const plan::Plan& plan, const package::Package& package) {
  std::vector<uint32_t> planned;
  const auto each = [](const package::StepList& steps, const std::vector<package::StepList>& lists, const auto& found) {
    const auto in = [&](const package::StepList& list) {
      for (const package::Step& step : list) {
        if (const auto* launch = std::get_if<package::LaunchKernel>(&step)) found(step, launch->kernel);
      }
    };
    in(steps);
    for (const package::StepList& list : lists) in(list);
  };
  each(plan.steps, plan.step_lists, [&](const package::Step&, uint32_t kernel) { planned.push_back(kernel); });
  std::map<const package::Step*, uint32_t> result;
  size_t next = 0;
  each(package.steps, package.step_lists, [&](const package::Step& step, uint32_t) {
    if (next < planned.size()) result.emplace(&step, planned[next++]);
  });
  return result;
}

// Sizes that a run reads from values, and strides of what functions of the caller's make.
std::set<std::string> late_symbols(const package::Package& package) {
  std::set<std::string> late;
  const auto look = [&](const package::StepList& steps) {
    for (const package::Step& step : steps) {
      const auto* symbol = std::get_if<package::DefineSymbol>(&step);
      using From = package::DefineSymbol::From;
      if (symbol == nullptr || symbol->from == From::Size || symbol->from == From::Stride) continue;
      if (symbol->from == From::Value && package.buffers[symbol->buffer].is_scalar &&
          package.buffers[symbol->buffer].role == package::Buffer::Role::Argument)
        continue;  // a number of the caller's
      const auto parts = symbol->value.symbols();
      const bool known = symbol->from == From::Expression &&
                         std::none_of(parts.begin(), parts.end(), [&](const auto& one) { return late.contains(one); });
      if (!known) late.insert(symbol->symbol);
    }
  };
  look(package.steps);
  for (const package::StepList& list : package.step_lists) look(list);
  return late;
}

int64_t rounded_up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

std::string joined(const std::vector<std::string>& origins) { return fmt::format("{}", fmt::join(origins, "; ")); }

}  // namespace

WorkspaceReport workspace_report(const plan::Plan& plan, const package::Package& package, const SizeHints& hints,
                                 ContextState& context) {
  WorkspaceReport report;
  const bool gpu = plan.target.backend != Backend::cpu;
  const int64_t unit = gpu ? 256 : 64;
  runtime::Symbols sizes(hints.begin(), hints.end());
  const plan::MachineFacts machine = context.machine(plan.target);
  const runtime::Scratch scratch = runtime::scratch_of(package, sizes, unknown_size, context.pool->size(),
                                                       !context.options.no_compiler, machine.gpu.sms);
  size_t devices = 1;
  for (const package::Buffer& buffer : package.buffers) devices = std::max<size_t>(devices, buffer.device + 1);
  report.devices.resize(devices);
  const std::set<std::string> late = late_symbols(package);
  for (const package::Pool& pool : package.pools) {
    const auto symbols = pool.bytes.symbols();
    report.symbolic = report.symbolic || !symbols.empty();
    if (std::any_of(symbols.begin(), symbols.end(), [&](const auto& symbol) { return late.contains(symbol); })) {
      report.late = true;
      continue;
    }
    const auto bytes = pool.bytes.evaluate([&](std::string_view symbol) -> std::optional<int64_t> {
      const auto known = sizes.find(std::string(symbol));
      return known != sizes.end() ? known->second : unknown_size;
    });
    report.devices[pool.device].temporaries += rounded_up(bytes.value_or(0), std::max(unit, pool.alignment));
  }
  const auto planned = kernels_by_step(plan, package);
  for (const runtime::LaunchScratch& one : scratch.launches) {
    WorkspaceReport::Launch& launch = report.launches.emplace_back();
    launch.bytes = one.bytes;
    launch.counter_bytes = one.counter_bytes;
    launch.device = one.device;
    const auto* step = std::get_if<package::LaunchKernel>(one.step);
    launch.kernel = step != nullptr ? package.kernels[step->kernel].name : std::string(package::name_of(*one.step));
    if (const auto at = planned.find(one.step); at != planned.end())
      launch.origins = plan::origin_texts(plan.kernels[at->second].account);
    if (step == nullptr) continue;
    for (const types::Dim* dim : {&step->batch, &step->m, &step->n})
      report.symbolic = report.symbolic || !dim->as_constant().has_value();
  }
  std::stable_sort(report.launches.begin(), report.launches.end(),
                   [](const auto& a, const auto& b) { return a.bytes + a.counter_bytes > b.bytes + b.counter_bytes; });
  for (size_t d = 0; d < devices; ++d) {
    report.devices[d].scratch = scratch.shared(static_cast<uint32_t>(d));
    report.devices[d].counters = scratch.counters(static_cast<uint32_t>(d));
  }
  for (const package::Step* step : scratch.unknown)
    report.unknown.push_back(package.kernels[std::get_if<package::LaunchKernel>(step)->kernel].name);
  report.estimated = scratch.estimated;
  return report;
}

Result<WorkspaceReport> workspace_report(const plan::Plan& plan, const std::string& name, const SizeHints& hints,
                                         ContextState& context) {
  CODETTA_TRY(const package::Package package, emit::emit_package(plan, {.name = name, .build_id = build_id()}));
  return workspace_report(plan, package, hints, context);
}

std::string to_string(const WorkspaceReport& report) {
  std::string text;
  for (size_t d = 0; d < report.devices.size(); ++d) {
    const WorkspaceReport::Place& place = report.devices[d];
    const std::string where = report.devices.size() > 1 ? fmt::format("device {}, ", d) : std::string();
    text += fmt::format("workspace: {}{} bytes: temporaries {}, scratch of launches {}{}{}\n", where, place.bytes(),
                        place.temporaries, place.scratch,
                        place.counters > 0 ? fmt::format(", their counters {}", place.counters) : std::string(),
                        report.symbolic ? ", with the hinted sizes" : "");
  }
  if (report.late) text += "  and temporaries of sizes that a run finds, which it takes beside that\n";
  if (report.estimated)
    text += "  slices of a persistent kernel's sums are those of a GPU that holds a block a multiprocessor\n";
  for (const std::string& kernel : report.unknown)
    text += fmt::format("  and what {} takes, which the library says when it is loaded\n", kernel);
  if (report.launches.empty()) return text;
  text +=
      "scratch: what launches need while they run, at one place, since they take turns; counters are each one's own\n";
  std::vector<std::array<std::string, 3>> rows{{"kernel", "bytes", "counters"}};
  for (const WorkspaceReport::Launch& launch : report.launches)
    rows.push_back({launch.kernel, std::to_string(launch.bytes), std::to_string(launch.counter_bytes)});
  std::array<size_t, 3> width{};
  for (const auto& row : rows) {
    for (size_t c = 0; c < width.size(); ++c) width[c] = std::max(width[c], row[c].size());
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    const std::string origin = r == 0 ? "of" : diag::displayable(joined(report.launches[r - 1].origins));
    std::string line = fmt::format("  {:<{}}  {:>{}}  {:>{}}  {}", rows[r][0], width[0], rows[r][1], width[1],
                                   rows[r][2], width[2], origin);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string memory_text(const plan::Plan& plan, const WorkspaceReport& report) {
  return plan::memory_text(plan) + to_string(report);
}

namespace {

Json memory_object(const plan::Plan& plan, const WorkspaceReport& report) {
  Json json = Json::parse(plan::memory_json(plan));
  json["scratch"] = Json::array();
  for (const WorkspaceReport::Launch& launch : report.launches) {
    json["scratch"].push_back({{"kernel", launch.kernel},
                               {"origins", launch.origins},
                               {"bytes", launch.bytes},
                               {"counter_bytes", launch.counter_bytes},
                               {"device", launch.device}});
  }
  json["workspace"] = {{"devices", Json::array()},
                       {"symbolic", report.symbolic},
                       {"late", report.late},
                       {"estimated", report.estimated},
                       {"unknown", report.unknown}};
  for (const WorkspaceReport::Place& place : report.devices) {
    json["workspace"]["devices"].push_back({{"bytes", place.bytes()},
                                            {"temporaries", place.temporaries},
                                            {"scratch", place.scratch},
                                            {"counters", place.counters}});
  }
  return json;
}

std::string dumped(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace

std::string memory_json(const plan::Plan& plan, const WorkspaceReport& report) {
  return dumped(memory_object(plan, report));
}

std::string with_workspace(const std::string& explained, const plan::Plan& plan, const WorkspaceReport& report) {
  Json json = Json::parse(explained);
  json["memory"] = memory_object(plan, report);
  return dumped(json);
}

}  // namespace codetta::driver

// SPDX-License-Identifier: Apache-2.0
// The pages of a GEMM and of a program: the decisions as they were taken, from the same records that explain prints.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/default_floats.hpp"
#include "driver/html.hpp"
#include "driver/report.hpp"

namespace codetta {
namespace {

using driver::html::Page;
using Rows = std::vector<std::vector<std::string>>;

std::string microseconds(double value) { return value > 0 ? fmt::format("{:.2f}", value) : std::string("-"); }

std::string_view text_of(const diag::SourceRef& source) {
  return source == nullptr ? std::string_view("(no text)") : source->text();
}

void add_problem(Page& page, const driver::Problem& problem, const Target& target) {
  const plan::GemmShape& shape = problem.shape;
  page.section("Problem");
  page.table({"batch", "M", "N", "K", "A", "B", "accumulator", "target"},
             {{fmt::format("{}", shape.batch), fmt::format("{}", shape.m), fmt::format("{}", shape.n),
               fmt::format("{}", shape.k), std::string(dtype_name(shape.a)), std::string(dtype_name(shape.b)),
               std::string(dtype_name(shape.accumulator)), target.to_string()}});
  page.code(text_of(problem.function->source));
  Rows rows;
  for (const auto& [name, view] : problem.tensors) rows.push_back({name, view.describe()});
  if (!rows.empty()) page.table({"bound to", "view"}, rows);
}

void add_graphs(Page& page, const ir::Graph& bound, const ir::Graph& optimized,
                const std::vector<opt::PassRecord>& passes) {
  page.section("Graph");
  page.pair("as bound", ir::print(bound), "after the passes", ir::print(optimized));
  Rows rows;
  for (const opt::PassRecord& pass : passes) {
    for (const opt::Fired& fired : pass.fired)
      rows.push_back({std::string(pass.name), std::string(fired.equation), fmt::format("{}", fired.count)});
  }
  if (rows.empty()) {
    page.text("No pass found anything to simplify.");
  } else {
    page.table({"pass", "rule", "times"}, rows);
  }
}

void add_choice(Page& page, const KernelMetadata& best) {
  page.section("Chosen kernel");
  page.text(fmt::format("{} ({}), {} {:.2f} us, workspace {} bytes", best.name, best.family,
                        best.tuned ? "measured" : "estimated", best.tuned ? best.measured_us : best.estimated_us,
                        best.workspace_bytes));
  std::vector<driver::html::Bar> bars;
  for (const CostTerm& term : best.terms) bars.push_back({term.name, term.note, term.value});
  page.drawing(driver::html::bar_chart(bars, "us"));
  Rows rows;
  for (const CostTerm& term : best.terms) rows.push_back({term.name, fmt::format("{:.3f}", term.value), term.note});
  page.table({"term", "us", "note"}, rows);
  rows.clear();
  for (const auto& [name, value] : best.config) rows.push_back({name, fmt::format("{}", value)});
  page.table({"configuration", "value"}, rows);
}

void add_candidates(Page& page, const KernelList& kernels) {
  page.section(fmt::format("Candidates ({})", kernels.size()));
  Rows rows;
  for (const Kernel& kernel : kernels) {
    const KernelMetadata& m = kernel.metadata();
    rows.push_back({m.name, m.family, microseconds(m.estimated_us), microseconds(m.measured_us),
                    fmt::format("{}", m.workspace_bytes)});
  }
  page.table({"kernel", "family", "estimated us", "measured us", "workspace bytes"}, rows);
  page.section(fmt::format("Rejections ({})", kernels.rejections().size()));
  rows.clear();
  for (const Rejection& r : kernels.rejections())
    rows.push_back({r.kernel.empty() ? "-" : r.kernel, fmt::format("E{:04}", r.code), r.text});
  page.table({"kernel", "code", "reason"}, rows);
}

void add_tuning(Page& page, const TuneReport& tuned) {
  page.section("Tuning");
  page.text(fmt::format("{} candidates in {:.1f} s{}", tuned.results.size(), tuned.seconds,
                        tuned.complete ? "" : ", stopped before the last"));
  if (!tuned.note.empty()) page.text(tuned.note);
  std::vector<driver::html::Bar> bars;
  Rows rows;
  for (const TuneResult& r : tuned.results) {
    rows.push_back({r.kernel, microseconds(r.microseconds), fmt::format("{:.1f} %", r.spread * 100), r.failure});
    if (r.failure.empty()) bars.push_back({r.kernel, "median", r.microseconds});
  }
  page.drawing(driver::html::bar_chart(bars, "us"));
  page.table({"kernel", "median us", "spread", "why it cannot win"}, rows);
}

void add_memory(Page& page, const plan::Plan& plan) {
  const plan::MemoryReport& report = plan.memory.report;
  const auto& requests = plan.temporaries.requests;
  page.text(fmt::format("Temporaries take {} bytes{}; live at once are up to {}, without sharing it would be {}.",
                        report.peak, report.symbolic ? " with the hinted sizes" : "", report.lower_bound,
                        report.unshared));
  if (requests.empty()) return;
  std::vector<driver::html::Span> spans;
  Rows rows;
  std::vector<bool> donated(plan.buffers.size());  // and what lies there: in no pool
  for (size_t i = 0; i < requests.size(); ++i) {
    const plan::MemoryRequest& r = requests[i];
    const plan::Placement& place = plan.memory.placements[i];
    const int64_t bytes = r.bytes.as_constant().value_or(r.hint.value_or(0));
    donated[r.buffer] = plan.buffers[r.buffer].donated || (place.of != plan::no_buffer && donated[place.of]);
    if (bytes > 0 && !donated[r.buffer]) {
      spans.push_back({plan.buffers[r.buffer].name, static_cast<double>(r.first), static_cast<double>(r.last),
                       static_cast<double>(place.hinted), static_cast<double>(bytes)});
    }
    rows.push_back({plan.buffers[r.buffer].name, r.bytes.to_string(), fmt::format("{} to {}", r.first, r.last),
                    place.offset.to_string(),
                    plan.buffers[r.buffer].donated ? "donated by the caller"
                    : place.of == plan::no_buffer  ? ""
                                                   : "takes over " + plan.buffers[place.of].name});
  }
  page.drawing(driver::html::timeline(spans, report.live, static_cast<double>(report.peak)));
  page.text("Boxes are temporaries over the kernels that use them; the line is the sum of live bytes.");
  page.table({"temporary", "bytes", "kernels", "offset", ""}, rows);
}

// Behind the temporaries, at one place: launches take turns.
void add_scratch(Page& page, const driver::WorkspaceReport& report) {
  for (size_t d = 0; d < report.devices.size(); ++d) {
    const driver::WorkspaceReport::Place& place = report.devices[d];
    page.text(
        fmt::format("The workspace{} takes {} bytes{}: {} for temporaries, {} that launches need while they run, "
                    "and {} for their counters.",
                    report.devices.size() > 1 ? fmt::format(" of device {}", d) : std::string(), place.bytes(),
                    report.symbolic ? " with the hinted sizes" : "", place.temporaries, place.scratch, place.counters));
  }
  if (report.launches.empty()) return;
  Rows rows;
  for (const driver::WorkspaceReport::Launch& launch : report.launches) {
    rows.push_back({launch.kernel, fmt::format("{}", launch.bytes), fmt::format("{}", launch.counter_bytes),
                    fmt::format("{}", fmt::join(launch.origins, "; "))});
  }
  page.table({"launch", "scratch bytes", "counter bytes", "lines"}, rows);
}

void add_roofline(Page& page, const driver::Roofline& roofline) {
  page.section("Roofline");
  page.text(
      fmt::format("By the estimates: memory gives {:.0f} GB/s{}. Bytes count every tensor of a kernel once, operations "
                  "2 a multiply-add and 1 an element for each other one. Caches may hold what another kernel has just "
                  "made, so that a kernel can do better than memory's roof.",
                  roofline.memory_rate,
                  roofline.peak > 0 ? fmt::format(", arithmetic {:.0f} G/s ({})", roofline.peak, roofline.peak_of)
                                    : std::string()));
  std::vector<driver::html::RoofPoint> points;
  Rows rows;
  for (const driver::RooflinePoint& p : roofline.points) {
    const double roof = roofline.roof(p.intensity());
    const std::string name = fmt::format("kernel {}", p.kernel);
    points.push_back({name, p.intensity(), p.rate()});
    rows.push_back({fmt::format("{}", p.kernel), fmt::format("{:.0f}", p.operations), fmt::format("{:.0f}", p.bytes),
                    fmt::format("{:.2f}", p.intensity()), fmt::format("{:.2f}", p.microseconds),
                    fmt::format("{:.1f}", p.rate()), roof > 0 ? fmt::format("{:.0f} %", p.rate() / roof * 100) : "-",
                    roofline.peak > 0 && roof >= roofline.peak ? "arithmetic" : "memory"});
  }
  page.drawing(driver::html::roofline(points, roofline.memory_rate, roofline.peak));
  page.table({"kernel", "operations", "bytes", "operations a byte", "estimated us", "G/s", "of the roof", "bound by"},
             rows);
}

void add_source(Page& page, std::string_view name, std::string_view source) {
  page.section("Emitted source");
  page.folded(fmt::format("{}, {} lines", name, std::count(source.begin(), source.end(), '\n')), source);
}

// One fold a kernel of source_listing().
void add_kernel_sources(Page& page, std::string_view listing) {
  constexpr std::string_view mark = "// ---- ";
  page.section("Emitted sources");
  while (listing.starts_with(mark)) {
    const size_t end = listing.find(std::string("\n") + std::string(mark), mark.size());
    const std::string_view part = listing.substr(0, end == std::string_view::npos ? end : end + 1);
    const std::string_view name = part.substr(mark.size(), part.find(" ----", mark.size()) - mark.size());
    const std::string_view source = part.substr(std::min(part.size(), part.find('\n') + 1));
    page.folded(fmt::format("{}, {} lines", name, std::count(source.begin(), source.end(), '\n')), source);
    listing.remove_prefix(part.size());
  }
}

}  // namespace

std::string driver::program_page(const ir::ProgramFunction& function, const ir::Graph& bound,
                                 const opt::Optimized& optimized, const plan::Plan& plan,
                                 const WorkspaceReport& workspace, const Roofline& roofline, std::string_view source,
                                 std::string_view explained) {
  Page page(fmt::format("Codetta: {}", function.name));
  page.section("Program");
  page.code(text_of(function.source));
  page.section(fmt::format("Kernels ({})", plan.kernels.size()));
  Rows rows;
  size_t number = 0;
  for (const plan::PlannedKernel& kernel : plan.kernels) {
    const plan::Candidate& chosen = kernel.discovery.candidates[kernel.chosen];
    rows.push_back({fmt::format("{}", number++), chosen.name,
                    fmt::format("{} x {} x {}", kernel.shape.m, kernel.shape.n, kernel.shape.k),
                    fmt::format("{:.2f}", chosen.microseconds), fmt::format("{}", kernel.discovery.candidates.size()),
                    fmt::format("{}", kernel.discovery.rejections.size())});
  }
  page.table(
      {"kernel", "configuration", "M x N x K (hints where symbolic)", "estimated us", "candidates", "rejections"},
      rows);
  for (const plan::PlannedKernel& kernel : plan.kernels) {
    const plan::Candidate& chosen = kernel.discovery.candidates[kernel.chosen];
    page.text(chosen.name);
    std::vector<html::Bar> bars;
    for (const plan::CostTerm& term : chosen.terms) bars.push_back({term.name, term.note, term.microseconds});
    page.drawing(html::bar_chart(bars, "us"));
    rows.clear();
    for (const plan::Rejection& rejection : kernel.discovery.rejections) {
      const Rejection r = describe(rejection);
      rows.push_back({r.kernel.empty() ? "-" : r.kernel, fmt::format("E{:04}", r.code), r.text});
    }
    if (!rows.empty()) page.table({"rejected", "code", "reason"}, rows);
  }
  add_roofline(page, roofline);
  page.section("What fused, and what it saves");
  page.code(explained);
  page.section("Memory");
  add_memory(page, plan);
  add_scratch(page, workspace);
  add_graphs(page, bound, optimized.graph, optimized.passes);
  page.section("Plan");
  page.code(plan::to_string(plan));
  add_kernel_sources(page, source);
  return std::move(page).finish();
}

Result<std::string> html_report(const GemmArguments& arguments, const Target& target, const TuneReport* tuned,
                                Context& context) {
  const base::DefaultFloats floats;
  CODETTA_TRY(const KernelList kernels, find_kernels(arguments, target, {}, context));
  if (kernels.empty()) return driver::none_left(kernels.rejections());
  const driver::FoundState& found = *driver::KernelState::of(kernels[0]).found;
  CODETTA_TRY(const driver::Planned* planned, found.planned());
  std::string source = "// computed by a library of the vendor's\n";
  if (kernels[0].metadata().family != "vendor") {
    CODETTA_TRY(source, kernels[0].emit(Stage::Source));
  }
  Page page(fmt::format("Codetta: {}", found.problem.function->name));
  add_problem(page, found.problem, found.target);
  add_choice(page, kernels[0].metadata());
  if (tuned != nullptr) add_tuning(page, *tuned);
  add_candidates(page, kernels);
  add_graphs(page, found.problem.bound, planned->graph, planned->passes);
  page.section("Plan");
  page.code(plan::to_string(planned->plan));
  add_source(page, kernels[0].metadata().name, source);
  return std::move(page).finish();
}

}  // namespace codetta

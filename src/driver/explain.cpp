// SPDX-License-Identifier: Apache-2.0
// explain: the decisions as they were taken, printed. There is no second code path.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/default_floats.hpp"
#include "driver/fusion.hpp"
#include "driver/kernel_state.hpp"
#include "driver/occupancy.hpp"
#include "package/cpu_call.hpp"
#include "plan/families_hip.hpp"

namespace codetta {
namespace {

using nlohmann::json;

std::string shape_line(const plan::GemmShape& shape, const Target& target) {
  const std::string batch = shape.batch == 1 ? "" : fmt::format("{} x ", shape.batch);
  return fmt::format("{}{} x {} x {} (batch, M, N, K), {} x {} accumulated in {}, target {}", batch, shape.m, shape.n,
                     shape.k, dtype_name(shape.a), dtype_name(shape.b), dtype_name(shape.accumulator),
                     target.to_string());
}

void add_indented(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    out += fmt::format("  {}\n", text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// Of the kernel that ranks first, on a GPU.
struct Launching {
  package::GpuGemmConfig config;
  plan::GpuFacts gpu;
  driver::Occupancy occupancy;
};
std::optional<Launching> launching(const driver::FoundState& found, const driver::Planned& planned,
                                   const KernelList& kernels) {
  const bool hip = found.target.backend == Backend::hip;
  if ((found.target.backend != Backend::cuda && !hip) || kernels.empty()) return std::nullopt;
  const driver::KernelState& best = driver::KernelState::of(kernels[0]);
  const plan::PlannedKernel& kernel = planned.plan.kernels[0];
  Launching result;
  const auto* config = std::get_if<package::GpuGemmConfig>(&kernel.discovery.candidates[best.candidate].config);
  if (config == nullptr) return std::nullopt;  // of the vendor's library, whose tiles are its own
  result.config = *config;
  result.gpu = hip ? plan::find_hip(found.target.arch)->facts : found.context->machine(found.target).gpu;
  const auto package = best.package();
  std::vector<toolchain::PtxasRemarks> remarks;
  if (package) {
    const package::Kernel& made = (*package)->kernels[0];
    remarks = hip ? found.context->hip.known_remarks(made) : found.context->cuda.known_remarks(made);
  }
  result.occupancy =
      driver::occupancy(result.config, kernel.shape, kernel.lowered.program.split.ways, result.gpu, remarks);
  return result;
}

std::string as_text(const driver::FoundState& found, const driver::Planned& planned, const KernelList& kernels) {
  std::string out = shape_line(found.problem.shape, found.target) + "\n";
  out += "\nwhat is fused, and how tensors are read:\n";
  for (const std::string& line : driver::fusion_lines(planned.passes, planned.plan.kernels[0]))
    out += "  " + line + "\n";
  out += "\nepilogue, fused into every candidate:\n";
  const auto& program = planned.plan.kernels[0].lowered.program;
  add_indented(out, program.to_string());
  if (found.target.backend == Backend::cpu && package::only_stores(program))
    out += "  (stored by the kernels themselves: nothing to compile)\n";
  if (!kernels.empty()) {
    const KernelMetadata& best = kernels[0].metadata();
    out += fmt::format("\nchosen: {} ({}), {} {:.1f} us\n", best.name, best.family,
                       best.tuned ? "measured" : "estimated", best.tuned ? best.measured_us : best.estimated_us);
    for (const auto& [name, value] : best.config) out += fmt::format("  {} = {}\n", name, value);
    if (const auto launch = launching(found, planned, kernels)) {
      out += fmt::format("on {}:\n", found.target.arch);
      out += driver::to_string(launch->occupancy, launch->config, launch->gpu);
    }
    out += "cost terms, microseconds:\n";
    for (const CostTerm& term : best.terms)
      out += fmt::format("  {:<24} {:>12.3f}  {}\n", term.name, term.value, term.note);
    out += fmt::format("\n{} candidates, best first:\n", kernels.size());
    for (const Kernel& kernel : kernels) {
      const KernelMetadata& metadata = kernel.metadata();
      out += fmt::format("  {:<40} {:>12.1f} us {}\n", metadata.name,
                         metadata.tuned ? metadata.measured_us : metadata.estimated_us,
                         metadata.tuned ? "measured" : "estimated");
    }
  }
  out += fmt::format("\n{} rejected:\n", kernels.rejections().size());
  for (const Rejection& rejection : kernels.rejections()) {
    out += fmt::format("  {:<24} E{:04}: {}\n", rejection.kernel.empty() ? "-" : rejection.kernel, rejection.code,
                       rejection.text);
  }
  return out;
}

json metadata_json(const KernelMetadata& metadata) {
  json terms = json::array();
  for (const CostTerm& term : metadata.terms)
    terms.push_back({{"name", term.name}, {"microseconds", term.value}, {"note", term.note}});
  json config = json::object();
  for (const auto& [name, value] : metadata.config) config[name] = value;
  return {{"name", metadata.name},
          {"family", metadata.family},
          {"target", metadata.target.to_string()},
          {"config", config},
          {"terms", terms},
          {"estimated_us", metadata.estimated_us},
          {"tuned", metadata.tuned},
          {"measured_us", metadata.measured_us}};
}

std::string as_json(const driver::FoundState& found, const driver::Planned& planned, const KernelList& kernels) {
  json out;
  const plan::GemmShape& shape = found.problem.shape;
  out["problem"] = {{"batch", shape.batch},
                    {"m", shape.m},
                    {"n", shape.n},
                    {"k", shape.k},
                    {"a", dtype_name(shape.a)},
                    {"b", dtype_name(shape.b)},
                    {"accumulator", dtype_name(shape.accumulator)},
                    {"target", found.target.to_string()}};
  out["fusion"] = driver::fusion_lines(planned.passes, planned.plan.kernels[0]);
  out["epilogue"] = planned.plan.kernels[0].lowered.program.to_string();
  if (const auto launch = launching(found, planned, kernels)) {
    const driver::Occupancy& o = launch->occupancy;
    out["launch"] = {{"blocks_per_multiprocessor", o.blocks},
                     {"limited_by", o.limited_by},
                     {"warps", o.warps},
                     {"warps_max", o.warps_max},
                     {"registers", o.registers},
                     {"tiles", o.tiles},
                     {"waves", o.waves},
                     {"multiprocessors", launch->gpu.sms}};
  }
  out["candidates"] = json::array();
  for (const Kernel& kernel : kernels) out["candidates"].push_back(metadata_json(kernel.metadata()));
  out["rejections"] = json::array();
  for (const Rejection& rejection : kernels.rejections()) {
    json limits = json::array();
    for (const auto& [name, given, limit] : rejection.limits)
      limits.push_back({{"name", name}, {"given", given}, {"limit", limit}});
    out["rejections"].push_back({{"code", fmt::format("E{:04}", rejection.code)},
                                 {"kernel", rejection.kernel},
                                 {"text", rejection.text},
                                 {"limits", limits}});
  }
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

Result<std::string> explain(const GemmArguments& arguments, const Target& target, bool json_wanted, Context& context) {
  const base::DefaultFloats floats;
  CODETTA_TRY(const KernelList kernels, find_kernels(arguments, target, {}, context));
  if (kernels.empty()) return driver::none_left(kernels.rejections());
  const driver::FoundState& found = *driver::KernelState::of(kernels[0]).found;
  CODETTA_TRY(const driver::Planned* planned, found.planned());
  return json_wanted ? as_json(found, *planned, kernels) : as_text(found, *planned, kernels);
}

}  // namespace codetta

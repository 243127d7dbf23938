// SPDX-License-Identifier: Apache-2.0
// An explained program for tools.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "plan/explain_devices.hpp"
#include "plan/explain_view.hpp"

namespace codetta::plan {

using package::Buffer;
using package::LaunchKernel;
using types::Dim;

namespace {

using Json = nlohmann::ordered_json;
using How = HeldOperation::How;

std::string_view how_name(How how) {
  constexpr std::string_view names[] = {"product", "element", "reduction", "indexed", "join", "view", "user", "select"};
  return names[static_cast<size_t>(how)];
}

class JsonPrinter : ExplainView {
 public:
  using ExplainView::ExplainView;

  std::string json() const {
    Json out{{"program", name_},
             {"target", plan_.target.to_string()},
             {"strict", plan_.numerics.strict},
             {"math", math_mode_name(plan_.numerics.math)},
             {"sizes", Json::object()}};
    for (const auto& [symbol, size] : sizes_) out["sizes"][symbol] = size;
    out["devices"] = devices_json();
    out["kernels"] = Json::array();
    for (const size_t k : facts_.order) out["kernels"].push_back(kernel_json(k));
    out["not_fused"] = Json::array();
    for (const Boundary& b : facts_.boundaries) {
      out["not_fused"].push_back({{"value", plan_.buffers[b.buffer].name},
                                  {"bytes", bytes_json(buffer_bytes(plan_.buffers[b.buffer]))},
                                  {"from", b.from},
                                  {"to", b.step.empty() ? Json(b.to) : Json()},
                                  {"step", b.step},
                                  {"code", code_json(b.code)},
                                  {"text", b.text}});
    }
    out["decisions"] = Json::array();
    for (const FusionNote& note : facts_.decisions)
      out["decisions"].push_back({{"value", value_name(note.node)},
                                  {"action", note.action},
                                  {"code", code_json(note.why.code)},
                                  {"text", note.why.text}});
    out["shared_factors"] = Json::array();
    for (const SharedFactor& shared : facts_.shared)
      out["shared_factors"].push_back({{"factor", plan_.buffers[shared.buffer].name},
                                       {"as", shared.is_a ? "A" : "B"},
                                       {"kernels", shared.kernels},
                                       {"others", names_of(shared.others)},
                                       {"bytes_again", bytes_json(shared.again)},
                                       {"code", code_json(static_cast<uint16_t>(diag::Code::second_product))},
                                       {"text", shared_text(shared)}});
    out["measured"] = Json::array();
    for (const Decision& decision : plan_.decisions) {
      if (!decision.measured) continue;
      const auto time = [](double microseconds) { return microseconds > 0 ? Json(microseconds) : Json(); };
      out["measured"].push_back(
          {{"decision", decision.key},
           {"value", decision.nested ? Json() : Json(value_name(decision.node))},
           {"picked", decision.is_apart ? "apart" : "together"},
           {"way", way_of(decision.question, decision.is_apart)},
           {"program_us", {{"together", time(decision.choice.together_us)}, {"apart", time(decision.choice.apart_us)}}},
           {"estimated_us", {{"together", decision.together}, {"apart", decision.apart}}}});
    }
    const MemoryReport& memory = plan_.memory.report;
    out["totals"] = {{"kernels_launched", facts_.launched},
                     {"kernels_distinct", emitted_.defined},
                     {"sources", emitted_.compiled},
                     {"kernels_one_an_operation", facts_.one_an_operation},
                     {"bytes_saved", bytes_json(facts_.saved)},
                     {"temporaries",
                      {{"bytes", Json::array()},
                       {"peak", memory.peak},
                       {"lower_bound", memory.lower_bound},
                       {"unshared", memory.unshared},
                       {"symbolic", memory.symbolic}}}};
    for (const package::Pool& pool : plan_.pools)
      out["totals"]["temporaries"]["bytes"].push_back(bytes_json(pool.bytes));
    out["memory"] = Json::parse(memory_json(plan_));
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }

 private:
  [[nodiscard]] Json bytes_json(const Dim& bytes) const {
    const auto value = value_of(bytes);
    return {{"expression", bytes.to_string()}, {"value", value ? Json(*value) : Json()}};
  }
  static Json code_json(uint16_t code) { return code == 0 ? Json() : Json(diag::code_text(code)); }
  // Once each: slices of a tensor have its name.
  [[nodiscard]] Json names_of(const std::vector<uint32_t>& buffers) const {
    Json names = Json::array();
    for (const uint32_t buffer : buffers) {
      const std::string& name = plan_.buffers[buffer].name;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    return names;
  }
  [[nodiscard]] Json devices_json() const {
    Json out{{"count", device_count(plan_)}, {"arguments", Json::object()}, {"copies", Json::array()}};
    for (const Buffer& buffer : plan_.buffers) {
      const bool callers = buffer.role == Buffer::Role::Argument || buffer.role == Buffer::Role::Output;
      if (callers && !buffer.is_scalar && buffer.device != 0) out["arguments"][buffer.name] = buffer.device;
    }
    for (const Transfer& transfer : transfers_of(plan_))
      out["copies"].push_back({{"value", plan_.buffers[transfer.buffer].name},
                               {"from", transfer.from},
                               {"to", transfer.to},
                               {"bytes", bytes_json(transfer.bytes)},
                               {"nested", transfer.nested}});
    return out;
  }
  [[nodiscard]] Json kernel_json(size_t k) const {
    const PlannedKernel& kernel = plan_.kernels[k];
    Json out{{"kernel", k}, {"name", emitted_name(k)}};
    out["origins"] = Json::array();
    for (const OriginLine& line : kernel.account.origins)
      out["origins"].push_back({{"file", kernel.account.file}, {"line", line.line}, {"text", line.text}});
    if (kernel.is_prologue) {
      out["kind"] = "prologue";
      out["called_by"] = caller_of(k);
    }
    if (const LaunchKernel* launch = facts_.launches[k]; launch != nullptr) {
      out["kind"] = kernel.user ? "user" : launch->product ? "product" : "map";
      out["nested"] = static_cast<bool>(facts_.nested[k]);
      out["device"] = device_of(plan_, *launch);
      if (!kernel.user) {
        out["space"] = {{"batch", launch->batch.to_string()},
                        {launch->product ? "m" : "rows", launch->m.to_string()},
                        {launch->product ? "n" : "columns", launch->n.to_string()}};
      }
      out["contracts"] = kernel.lowered.program.contracts;
      if (launch->product) {
        out["space"]["k"] = launch->product->k.to_string();
        if (launch->product->products() > 1) out["space"]["products"] = launch->product->products();
        const package::EpilogueProgram& program = kernel.lowered.program;
        for (const package::ProductSpace& space : program.spaces)
          out["space"]["columns_of_products"].push_back(
              (program.sizes[space.columns] * Dim::constant(program.split.ways)).to_string());
      }
      out["reads"] = Json::array();
      for (const Operand& read : reads_of(k)) {
        const Buffer& buffer = plan_.buffers[read.buffer];
        out["reads"].push_back({{"name", buffer.name}, {"type", buffer_type(buffer)}, {"as", read.as}});
      }
      out["stores"] = Json::array();
      for (const uint32_t store : stores_of(k)) {
        const Buffer& buffer = plan_.buffers[store];
        out["stores"].push_back({{"name", buffer.name},
                                 {"value", user_name(store, k)},
                                 {"type", buffer_type(buffer)},
                                 {"bytes", bytes_json(buffer_bytes(buffer))},
                                 {"returned", buffer.role == Buffer::Role::Output},
                                 {"read_by", readers_of(store, k)}});
      }
    }
    out["not_without"] = not_without(plan_, k);
    out["operations"] = Json::array();
    for (const HeldOperation& held : kernel.account.held) {
      out["operations"].push_back({{"op", types::op_info(held.op).name},
                                   {"how", how_name(held.how)},
                                   {"name", held.name},
                                   {"type", held.type},
                                   {"line", held.line},
                                   {"in_memory", held.in_memory},
                                   {"again", held.repeated},
                                   {"saved", bytes_json(held.saved)}});
    }
    out["bytes_saved"] = bytes_json(kernel.account.saved);
    add_choice(out, kernel);
    return out;
  }

  static void add_choice(Json& out, const PlannedKernel& kernel) {
    out["picked"] = kernel.chosen < kernel.discovery.candidates.size()
                        ? Json(kernel.discovery.candidates[kernel.chosen].name)
                        : Json();
    out["candidates"] = Json::array();
    for (const Candidate& candidate : kernel.discovery.candidates) {
      Json terms = Json::array();
      for (const CostTerm& term : candidate.terms)
        terms.push_back({{"name", term.name}, {"microseconds", term.microseconds}, {"note", term.note}});
      out["candidates"].push_back({{"name", candidate.name},
                                   {"estimated_us", candidate.microseconds},
                                   {"measured_us", candidate.measured ? Json(*candidate.measured) : Json()},
                                   {"terms", std::move(terms)}});
    }
    out["rejections"] = Json::array();
    for (const Rejection& rejection : kernel.discovery.rejections)
      out["rejections"].push_back(
          {{"code", diag::code_text(rejection.code)}, {"kernel", rejection.kernel}, {"text", rejection.text}});
  }
};

}  // namespace

std::string explain_json(const Plan& plan, std::string_view name, const EmittedKernels& emitted,
                         const GivenSizes& sizes) {
  return JsonPrinter(plan, name, emitted, sizes).json();
}

}  // namespace codetta::plan

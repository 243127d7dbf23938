// SPDX-License-Identifier: Apache-2.0
// An explained program as text and as JSON, from the same record.
#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "diag/display.hpp"
#include "plan/explain.hpp"
#include "plan/regions.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {

using package::Buffer;
using package::LaunchKernel;
using types::Dim;

namespace {

using Json = nlohmann::ordered_json;
using How = HeldOperation::How;

std::string_view name_of(How how) {
  constexpr std::string_view names[] = {"product", "element", "reduction", "indexed", "join", "view"};
  return names[static_cast<size_t>(how)];
}
// What a kernel does with such operations.
std::string_view text_of(How how) {
  constexpr std::string_view texts[] = {"the product",
                                        "element by element",
                                        "reductions",
                                        "reads at computed indices",
                                        "parts stored where they belong",
                                        "index arithmetic, nothing is moved"};
  return texts[static_cast<size_t>(how)];
}

// As users know it: "mean", not "reduce_mean".
std::string_view op_text(types::Op op) {
  const types::OpInfo& info = types::op_info(op);
  return info.is_reduction() ? info.spelling : info.name;
}

Dim bytes_of(const Buffer& buffer) {
  Dim bytes = Dim::constant(types::byte_size(buffer.dtype));
  for (const Dim& dim : buffer.shape) bytes = bytes * dim;
  return bytes;
}
std::string type_of(const Buffer& buffer) {
  return std::string(dtype_name(buffer.dtype)) + (buffer.is_scalar ? "" : types::to_string(buffer.shape));
}

template <class List>
std::string listed(const List& items) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == items.size() ? " and " : ", ", items[i]);
  return text;
}

// Symbols of the program in the order in which they are defined.
std::vector<std::string> symbols_of(const Plan& plan) {
  std::vector<std::string> symbols;
  for (const package::Step& step : plan.steps) {
    const auto* define = std::get_if<package::DefineSymbol>(&step);
    if (define != nullptr && std::find(symbols.begin(), symbols.end(), define->symbol) == symbols.end())
      symbols.push_back(define->symbol);
  }
  return symbols;
}

class Printer {
 public:
  Printer(const Plan& plan, std::string_view name, const EmittedKernels& emitted, const GivenSizes& sizes)
      : plan_(plan), name_(name), emitted_(emitted), sizes_(sizes), facts_(explained(plan)) {}

  std::string text() const {
    std::string out = fmt::format("{} for {}\n{}\n", name_, plan_.target.to_string(), sizes_text());
    for (const size_t k : facts_.order) out += "\n" + kernel_text(k);
    out += "\n" + not_fused_text() + "\n" + totals_text();
    return out;
  }

  std::string json() const {
    Json out{{"program", name_}, {"target", plan_.target.to_string()}, {"sizes", Json::object()}};
    for (const auto& [symbol, size] : sizes_) out["sizes"][symbol] = size;
    out["kernels"] = Json::array();
    for (const size_t k : facts_.order) out["kernels"].push_back(kernel_json(k));
    out["not_fused"] = Json::array();
    for (const Boundary& b : facts_.boundaries) {
      out["not_fused"].push_back({{"value", plan_.buffers[b.buffer].name},
                                  {"bytes", bytes_json(bytes_of(plan_.buffers[b.buffer]))},
                                  {"from", b.from},
                                  {"to", b.to},
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
  [[nodiscard]] std::optional<int64_t> value_of(const Dim& dim) const { return dim.evaluate(std::span(sizes_)); }
  // "1024*b*s = 131072 bytes".
  [[nodiscard]] std::string bytes_text(const Dim& bytes) const {
    const auto value = bytes.is_constant() ? std::nullopt : value_of(bytes);
    return value ? fmt::format("{} = {} bytes", bytes.to_string(), *value) : bytes.to_string() + " bytes";
  }
  [[nodiscard]] Json bytes_json(const Dim& bytes) const {
    const auto value = value_of(bytes);
    return {{"expression", bytes.to_string()}, {"value", value ? Json(*value) : Json()}};
  }
  static Json code_json(uint16_t code) { return code == 0 ? Json() : Json(diag::code_text(code)); }
  [[nodiscard]] Json names_of(const std::vector<uint32_t>& buffers) const {
    Json names = Json::array();
    for (const uint32_t buffer : buffers) names.push_back(plan_.buffers[buffer].name);
    return names;
  }
  [[nodiscard]] std::string emitted_name(size_t kernel) const {
    return kernel < emitted_.names.size() ? emitted_.names[kernel] : std::string("not emitted");
  }
  [[nodiscard]] const HeldOperation* operation(ir::NodeId node) const {
    for (const PlannedKernel& kernel : plan_.kernels) {
      for (const HeldOperation& held : kernel.account.held) {
        if (held.node == node) return &held;
      }
    }
    return nullptr;
  }
  // What the text calls a temporary that the kernel stores; temporaries themselves are called t and a number.
  [[nodiscard]] std::string user_name(uint32_t buffer, size_t kernel) const {
    const KernelAccount& account = plan_.kernels[kernel].account;
    for (const ir::NodeId stored : account.stored) {
      if (plan_.buffers[buffer].name != fmt::format("t{}", stored.index())) continue;
      for (const HeldOperation& held : account.held) {
        if (held.node == stored) return held.name;
      }
    }
    return {};
  }
  [[nodiscard]] std::string shown_name(uint32_t buffer, size_t kernel) const {
    const std::string name = user_name(buffer, kernel);
    return plan_.buffers[buffer].name + (name.empty() ? "" : " (" + diag::displayable(name) + ")");
  }
  [[nodiscard]] std::string value_name(ir::NodeId node) const {
    const HeldOperation* held = operation(node);
    if (held == nullptr) return fmt::format("%{}", node.index());
    const std::string what = held->name.empty() ? fmt::format("%{}", node.index()) : held->name;
    return held->line == 0 ? what : fmt::format("{} (line {})", what, held->line);
  }

  [[nodiscard]] std::string sizes_text() const {
    std::vector<std::string> given, open;
    for (const std::string& symbol : symbols_of(plan_)) {
      const auto at =
          std::find_if(sizes_.begin(), sizes_.end(), [&](const auto& size) { return size.first == symbol; });
      if (at == sizes_.end()) {
        open.push_back(symbol);
      } else {
        given.push_back(fmt::format("{} = {}", symbol, at->second));
      }
    }
    if (given.empty() && open.empty()) return "sizes: all are constant";
    std::string text = given.empty() ? "sizes:" : "sizes: " + listed(given);
    if (!open.empty()) {
      text += fmt::format("{} {} {} not given; estimates take 512", given.empty() ? "" : ";", listed(open),
                          open.size() == 1 ? "is" : "are");
    }
    return text;
  }

  [[nodiscard]] std::string space_text(size_t k) const {
    const LaunchKernel& launch = *facts_.launches[k];
    const std::string batch =
        launch.batch == Dim::constant(1) ? "" : fmt::format(", batch {}", launch.batch.to_string());
    if (launch.product) {
      return fmt::format("product {} x {} x {}{}", launch.m.to_string(), launch.n.to_string(),
                         launch.product->k.to_string(), batch);
    }
    return fmt::format("map over {} x {}{}", launch.m.to_string(), launch.n.to_string(), batch);
  }

  struct Operand {
    uint32_t buffer = 0;
    std::string as;  // "A", "B transposed", "operand"
  };
  [[nodiscard]] std::vector<Operand> reads_of(size_t k) const {
    const LaunchKernel& launch = *facts_.launches[k];
    std::vector<Operand> reads;
    if (launch.product) {
      reads.push_back({launch.product->a, launch.product->a_transposed ? "A transposed" : "A"});
      reads.push_back({launch.product->b, launch.product->b_transposed ? "B transposed" : "B"});
    }
    std::set<uint32_t> seen;
    const auto& arguments = plan_.kernels[k].lowered.program.arguments;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].is_output && seen.insert(launch.arguments[i]).second)
        reads.push_back({launch.arguments[i], "operand"});
    }
    return reads;
  }
  [[nodiscard]] std::vector<uint32_t> stores_of(size_t k) const {
    std::vector<uint32_t> stores;
    const auto& arguments = plan_.kernels[k].lowered.program.arguments;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const uint32_t buffer = facts_.launches[k]->arguments[i];
      if (arguments[i].is_output && std::find(stores.begin(), stores.end(), buffer) == stores.end())
        stores.push_back(buffer);
    }
    return stores;
  }
  [[nodiscard]] std::vector<size_t> readers_of(uint32_t buffer, size_t from) const {
    std::vector<size_t> readers;
    for (const Boundary& boundary : facts_.boundaries) {
      if (boundary.buffer == buffer && boundary.from == from) readers.push_back(boundary.to);
    }
    return readers;
  }

  [[nodiscard]] std::string kernel_text(size_t k) const {
    const PlannedKernel& kernel = plan_.kernels[k];
    if (facts_.launches[k] == nullptr) return fmt::format("kernel {}, {}: never launched\n", k, emitted_name(k));
    std::string out = fmt::format("kernel {}, {}: {}\n", k, emitted_name(k), space_text(k));
    for (const std::string& line : origin_texts(kernel.account)) out += "  " + diag::displayable(line) + "\n";
    std::vector<std::string> reads;
    for (const Operand& read : reads_of(k)) {
      const Buffer& buffer = plan_.buffers[read.buffer];
      reads.push_back(
          fmt::format("{} {}{}", buffer.name, type_of(buffer), read.as == "operand" ? "" : " as " + read.as));
    }
    out += fmt::format("  reads    {}\n", fmt::join(reads, ", "));
    for (const uint32_t store : stores_of(k)) {
      const Buffer& buffer = plan_.buffers[store];
      const auto readers = readers_of(store, k);
      const bool output = buffer.role == Buffer::Role::Output;
      const std::string to = readers.empty() ? ""
                                             : fmt::format("{}read by kernel{} {}", output ? " and " : "",
                                                           readers.size() == 1 ? "" : "s", listed(readers));
      out += fmt::format("  stores   {} {}, {}: {}{}\n", shown_name(store, k), type_of(buffer),
                         bytes_text(bytes_of(buffer)), output ? "returned" : "", to);
    }
    out += holds_text(kernel.account) + saved_text(kernel.account) + picked_text(kernel);
    return out;
  }

  [[nodiscard]] static std::string holds_text(const KernelAccount& account) {
    std::string out;
    for (const How how : {How::Product, How::Element, How::Reduction, How::Indexed, How::Join, How::View}) {
      std::vector<std::string> operations;
      for (const HeldOperation& held : account.held) {
        if (held.how == how) operations.push_back(std::string(op_text(held.op)) + (held.repeated ? " (again)" : ""));
      }
      if (!operations.empty())
        out += fmt::format("  {:<8} {}: {}\n", out.empty() ? "holds" : "", text_of(how), fmt::join(operations, ", "));
    }
    return out;
  }

  [[nodiscard]] std::string saved_text(const KernelAccount& account) const {
    std::string out = fmt::format("  saved    {}\n", bytes_text(account.saved));
    for (const HeldOperation& held : account.held) {
      if (held.saved.as_constant() == 0) continue;
      const std::string name = held.name.empty() ? std::string(op_text(held.op)) : held.name;
      out += fmt::format("             {} {}, line {}: {}, {}\n", diag::displayable(name), held.type, held.line,
                         bytes_text(held.saved), held.in_memory ? "not read again" : "neither written nor read");
    }
    return out;
  }

  [[nodiscard]] static std::string picked_text(const PlannedKernel& kernel) {
    const auto& candidates = kernel.discovery.candidates;
    if (kernel.chosen >= candidates.size()) return "  picked   nothing\n";
    const Candidate& chosen = candidates[kernel.chosen];
    std::string out = fmt::format("  picked   {}, {:.2f} us estimated", chosen.name, chosen.microseconds);
    const Candidate* next = nullptr;
    for (size_t c = 0; c < candidates.size() && next == nullptr; ++c) {
      if (c != kernel.chosen) next = &candidates[c];
    }
    out += next == nullptr ? "; no other candidate\n"
                           : fmt::format("; before {} with {:.2f} us, of {} candidates\n", next->name,
                                         next->microseconds, candidates.size());
    for (const CostTerm& term : chosen.terms)
      out += fmt::format("             {:.2f} us {}: {}\n", term.microseconds, term.name, term.note);
    for (const Rejection& rejection : kernel.discovery.rejections) {
      out += fmt::format("  refused  {}{}{}: {}\n", rejection.kernel, rejection.kernel.empty() ? "" : " ",
                         diag::code_text(rejection.code), rejection.text);
    }
    return out;
  }

  [[nodiscard]] std::string shared_text(const SharedFactor& shared) const {
    std::vector<std::string> others;
    for (const uint32_t other : shared.others) others.push_back(plan_.buffers[other].name);
    return fmt::format(
        "kernels {} multiply the same {} {}; a kernel computes one product, and {} are buffers of their "
        "own, which no kernel reads as one factor; {} of it are read again",
        listed(shared.kernels), shared.is_a ? "A" : "B", plan_.buffers[shared.buffer].name, listed(others),
        bytes_text(shared.again));
  }

  [[nodiscard]] std::string not_fused_text() const {
    if (facts_.boundaries.empty() && facts_.decisions.empty() && facts_.shared.empty()) return "not fused: nothing\n";
    std::string out = "not fused\n";
    const auto code = [](uint16_t number) { return number == 0 ? std::string() : diag::code_text(number) + ": "; };
    for (const Boundary& b : facts_.boundaries) {
      const Buffer& buffer = plan_.buffers[b.buffer];
      out += fmt::format("  {}, {}, kernel {} to {}: {}{}\n", shown_name(b.buffer, b.from),
                         bytes_text(bytes_of(buffer)), b.from, b.to, code(b.code), diag::displayable(b.text));
    }
    for (const FusionNote& note : facts_.decisions)
      out += fmt::format("  {} is {}: {}{}\n", value_name(note.node), note.action, code(note.why.code),
                         diag::displayable(note.why.text));
    for (const SharedFactor& shared : facts_.shared)
      out += fmt::format("  {}{}\n", code(static_cast<uint16_t>(diag::Code::second_product)), shared_text(shared));
    return out;
  }

  [[nodiscard]] std::string totals_text() const {
    const MemoryReport& memory = plan_.memory.report;
    std::string out = "totals\n";
    out += fmt::format("  kernels launched   {}; one an operation would be {}\n", facts_.launched,
                       facts_.one_an_operation);
    out += fmt::format("  kernels distinct   {}, of {} sources\n", emitted_.defined, emitted_.compiled);
    out += fmt::format("  bytes saved        {}\n", bytes_text(facts_.saved));
    for (size_t p = 0; p < plan_.pools.size(); ++p) {
      out += fmt::format("  temporaries        {}\n", bytes_text(plan_.pools[p].bytes));
    }
    const double ratio =
        memory.lower_bound == 0 ? 1 : static_cast<double>(memory.peak) / static_cast<double>(memory.lower_bound);
    out +=
        fmt::format("  peak memory        {} bytes, {:.3f} of its lower bound {}; {} without sharing{}\n", memory.peak,
                    ratio, memory.lower_bound, memory.unshared, memory.symbolic ? " (with the sizes above)" : "");
    return out;
  }

  [[nodiscard]] Json kernel_json(size_t k) const {
    const PlannedKernel& kernel = plan_.kernels[k];
    Json out{{"kernel", k}, {"name", emitted_name(k)}};
    out["origins"] = Json::array();
    for (const OriginLine& line : kernel.account.origins)
      out["origins"].push_back({{"file", kernel.account.file}, {"line", line.line}, {"text", line.text}});
    if (const LaunchKernel* launch = facts_.launches[k]; launch != nullptr) {
      out["kind"] = launch->product ? "product" : "map";
      out["space"] = {{"batch", launch->batch.to_string()},
                      {launch->product ? "m" : "rows", launch->m.to_string()},
                      {launch->product ? "n" : "columns", launch->n.to_string()}};
      if (launch->product) out["space"]["k"] = launch->product->k.to_string();
      out["reads"] = Json::array();
      for (const Operand& read : reads_of(k)) {
        const Buffer& buffer = plan_.buffers[read.buffer];
        out["reads"].push_back({{"name", buffer.name}, {"type", type_of(buffer)}, {"as", read.as}});
      }
      out["stores"] = Json::array();
      for (const uint32_t store : stores_of(k)) {
        const Buffer& buffer = plan_.buffers[store];
        out["stores"].push_back({{"name", buffer.name},
                                 {"value", user_name(store, k)},
                                 {"type", type_of(buffer)},
                                 {"bytes", bytes_json(bytes_of(buffer))},
                                 {"returned", buffer.role == Buffer::Role::Output},
                                 {"read_by", readers_of(store, k)}});
      }
    }
    out["operations"] = Json::array();
    for (const HeldOperation& held : kernel.account.held) {
      out["operations"].push_back({{"op", types::op_info(held.op).name},
                                   {"how", name_of(held.how)},
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
      out["candidates"].push_back(
          {{"name", candidate.name}, {"estimated_us", candidate.microseconds}, {"terms", std::move(terms)}});
    }
    out["rejections"] = Json::array();
    for (const Rejection& rejection : kernel.discovery.rejections)
      out["rejections"].push_back(
          {{"code", diag::code_text(rejection.code)}, {"kernel", rejection.kernel}, {"text", rejection.text}});
  }

  const Plan& plan_;
  std::string_view name_;
  const EmittedKernels& emitted_;
  const GivenSizes& sizes_;
  const ProgramExplanation facts_;
};

}  // namespace

std::string explain_text(const Plan& plan, std::string_view name, const EmittedKernels& emitted,
                         const GivenSizes& sizes) {
  return Printer(plan, name, emitted, sizes).text();
}
std::string explain_json(const Plan& plan, std::string_view name, const EmittedKernels& emitted,
                         const GivenSizes& sizes) {
  return Printer(plan, name, emitted, sizes).json();
}

}  // namespace codetta::plan

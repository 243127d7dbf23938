// SPDX-License-Identifier: Apache-2.0
// An explained program for people.
#include <algorithm>

#include <fmt/format.h>

#include "diag/display.hpp"
#include "plan/explain_devices.hpp"
#include "plan/explain_view.hpp"

namespace codetta::plan {

using package::Buffer;
using package::LaunchKernel;
using types::Dim;

namespace {

using How = HeldOperation::How;

// What a kernel does with such operations.
std::string_view how_text(How how) {
  constexpr std::string_view texts[] = {"the product",
                                        "element by element",
                                        "reductions",
                                        "reads at computed indices",
                                        "parts stored where they belong",
                                        "index arithmetic, nothing is moved",
                                        "as its source says",
                                        "parts selected by position"};
  return texts[static_cast<size_t>(how)];
}

// As users know it: "mean", not "reduce_mean".
std::string_view op_text(types::Op op) {
  const types::OpInfo& info = types::op_info(op == types::Op::result ? types::Op::user_kernel : op);
  return info.is_reduction() ? info.spelling : info.name;
}

// Sizes of the program in the order in which they are defined.
std::vector<std::string> defined_symbols(const Plan& plan) {
  std::vector<std::string> symbols;
  for (const package::Step& step : plan.steps) {
    const auto* define = std::get_if<package::DefineSymbol>(&step);
    if (define == nullptr || define->from == package::DefineSymbol::From::Stride) continue;
    if (std::find(symbols.begin(), symbols.end(), define->symbol) == symbols.end()) symbols.push_back(define->symbol);
  }
  return symbols;
}

class TextPrinter : ExplainView {
 public:
  using ExplainView::ExplainView;

  std::string text() const {
    std::string out = fmt::format("{} for {}\n{}\n", name_, plan_.target.to_string(), sizes_text());
    const bool users = std::any_of(plan_.kernels.begin(), plan_.kernels.end(),
                                   [](const PlannedKernel& kernel) { return kernel.user.has_value(); });
    if (plan_.numerics.strict)
      out += fmt::format("strict: nothing is contracted{}\n",
                         users ? " but in kernels of yours, which are compiled as they are" : "");
    if (plan_.numerics.math != MathMode::Strict) out += fmt::format("math: {}\n", math_mode_name(plan_.numerics.math));
    out += devices_text();
    for (const size_t k : facts_.order) out += "\n" + kernel_text(k);
    out += "\n" + not_fused_text() + "\n";
    if (const std::string measured = measured_text(); !measured.empty()) out += measured + "\n";
    out += totals_text();
    return out;
  }

 private:
  [[nodiscard]] std::string shown_name(uint32_t buffer, size_t kernel) const {
    const std::string name = user_name(buffer, kernel);
    return plan_.buffers[buffer].name + (name.empty() ? "" : " (" + diag::displayable(name) + ")");
  }

  [[nodiscard]] std::string sizes_text() const {
    std::vector<std::string> given, open;
    for (const std::string& symbol : defined_symbols(plan_)) {
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

  // Of a buffer that some kernel stores, with what the text calls it.
  [[nodiscard]] std::string known_name(uint32_t buffer) const {
    for (const size_t k : facts_.order) {
      const std::vector<uint32_t> stores = stores_of(k);
      if (std::find(stores.begin(), stores.end(), buffer) != stores.end()) return shown_name(buffer, k);
    }
    return plan_.buffers[buffer].name;
  }

  [[nodiscard]] std::string devices_text() const {
    const uint32_t count = device_count(plan_);
    if (count == 1) return {};
    std::string out = fmt::format("devices: {}\n", count);
    for (uint32_t device = 0; device < count; ++device) {
      const auto given = lying_on(plan_, device, Buffer::Role::Argument),
                 made = lying_on(plan_, device, Buffer::Role::Output);
      std::vector<std::string> parts;
      if (!given.empty()) parts.push_back(listed(given));
      if (!made.empty()) parts.push_back("returns " + listed(made));
      out += fmt::format("  {:<8} {}\n", device,
                         parts.empty() ? "nothing of the caller's" : fmt::format("{}", fmt::join(parts, "; ")));
    }
    Dim all = Dim::constant(0);
    for (const Transfer& transfer : transfers_of(plan_)) {
      out += fmt::format("  {} to {}   {}, {}{}\n", transfer.from, transfer.to, known_name(transfer.buffer),
                         bytes_text(transfer.bytes), transfer.nested ? ", in a branch or a loop" : "");
      all = all + transfer.bytes;
    }
    return out + fmt::format("  copied   {}\n", bytes_text(all));
  }

  // "of 4096, 1024 and 1024 columns, " where products differ in them.
  [[nodiscard]] std::string columns_text(size_t k) const {
    const package::EpilogueProgram& program = plan_.kernels[k].lowered.program;
    std::string text;
    for (size_t p = 0; p < program.spaces.size(); ++p) {
      const Dim columns = program.sizes[program.spaces[p].columns] * Dim::constant(program.split.ways);
      text += (p == 0 ? "of " : p + 1 < program.spaces.size() ? ", " : " and ") + columns.to_string();
    }
    return text.empty() ? text : text + " columns, ";
  }

  [[nodiscard]] std::string space_text(size_t k) const {
    const LaunchKernel& launch = *facts_.launches[k];
    if (const auto& user = plan_.kernels[k].user) {
      const auto& hook = plan_.kernels[k].hook;
      return "the user's " + user->name +
             (hook ? fmt::format(", which hands over {}{}", dtype_name(hook->dtype), types::to_string(hook->shape))
                   : "");
    }
    const std::string batch =
        launch.batch == Dim::constant(1) ? "" : fmt::format(", batch {}", launch.batch.to_string());
    const auto size = [](const Dim& dim) {  // a factor: sums stand in parentheses
      const std::string text = dim.to_string();
      const bool sum = text.find(" + ") != std::string::npos || text.find(" - ") != std::string::npos;
      return sum ? "(" + text + ")" : text;
    };
    if (launch.product) {
      const size_t count = launch.product->products();
      return fmt::format(
          "{} {} x {} x {}{}",
          count == 1 ? "product" : fmt::format("{} products of one A, {}together", count, columns_text(k)),
          size(launch.m), size(launch.n), size(launch.product->k), batch);
    }
    return fmt::format("map over {} x {}{}", size(launch.m), size(launch.n), batch);
  }

  [[nodiscard]] std::string kernel_text(size_t k) const {
    const PlannedKernel& kernel = plan_.kernels[k];
    if (kernel.is_prologue)
      return fmt::format("kernel {}, {}: called by kernel {} for blocks of a factor\n", k, emitted_name(k),
                         caller_of(k));
    if (facts_.launches[k] == nullptr) return fmt::format("kernel {}, {}: never launched\n", k, emitted_name(k));
    const uint32_t device = device_of(plan_, *facts_.launches[k]);
    std::string out = fmt::format("kernel {}, {}: {}{}{}\n", k, emitted_name(k), space_text(k),
                                  device != 0 ? fmt::format(", on device {}", device) : "",
                                  facts_.nested[k] ? ", in a branch or a loop" : "");
    for (const std::string& line : origin_texts(kernel.account)) out += "  " + diag::displayable(line) + "\n";
    std::vector<std::string> reads;
    for (const Operand& read : reads_of(k)) {
      const Buffer& buffer = plan_.buffers[read.buffer];
      reads.push_back(
          fmt::format("{} {}{}", buffer.name, buffer_type(buffer), read.as == "operand" ? "" : " as " + read.as));
    }
    out += fmt::format("  reads    {}\n", fmt::join(reads, ", "));
    for (const uint32_t store : stores_of(k)) {
      const Buffer& buffer = plan_.buffers[store];
      const auto readers = readers_of(store, k);
      const bool output = buffer.role == Buffer::Role::Output;
      const std::string to = readers.empty() ? ""
                                             : fmt::format("{}read by kernel{} {}", output ? " and " : "",
                                                           readers.size() == 1 ? "" : "s", listed(readers));
      out += fmt::format("  stores   {} {}, {}: {}{}\n", shown_name(store, k), buffer_type(buffer),
                         bytes_text(buffer_bytes(buffer)), output ? "returned" : "", to);
    }
    if (const auto axes = not_without(plan_, k); !axes.empty())
      out += fmt::format("  empty    without {} other kernels make what it stores\n", fmt::join(axes, " or "));
    if (!kernel.lowered.program.contracts && !plan_.numerics.strict)
      out +=
          "  rounds   each product and each sum by itself: what is compared with what is made of it has the same "
          "bits\n";
    out += holds_text(kernel.account) + saved_text(kernel.account) + picked_text(kernel);
    return out;
  }

  [[nodiscard]] static std::string holds_text(const KernelAccount& account) {
    std::string out;
    for (const How how :
         {How::User, How::Product, How::Element, How::Reduction, How::Indexed, How::Join, How::Select, How::View}) {
      std::vector<std::string> operations;
      for (const HeldOperation& held : account.held) {
        if (held.how == how) operations.push_back(std::string(op_text(held.op)) + (held.repeated ? " (again)" : ""));
      }
      if (!operations.empty())
        out += fmt::format("  {:<8} {}: {}\n", out.empty() ? "holds" : "", how_text(how), fmt::join(operations, ", "));
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

  // Of a kernel of the user's: by what was measured, the fastest first.
  [[nodiscard]] static std::string picked_configuration(const std::vector<Candidate>& candidates, size_t picked) {
    const Candidate& chosen = candidates[picked];
    if (candidates.size() == 1) return fmt::format("  picked   {}\n", chosen.name);
    if (!chosen.measured) {
      return fmt::format("  picked   {}, the first of {} configurations, none of which is measured for these sizes\n",
                         chosen.name, candidates.size());
    }
    std::vector<const Candidate*> others;
    for (const Candidate& one : candidates) {
      if (&one != &chosen && one.measured) others.push_back(&one);
    }
    std::stable_sort(others.begin(), others.end(),
                     [](const Candidate* a, const Candidate* b) { return *a->measured < *b->measured; });
    std::string out = fmt::format("  picked   {}, {:.2f} us measured, of {} configurations\n", chosen.name,
                                  *chosen.measured, candidates.size());
    for (const Candidate* one : others)
      out += fmt::format("             {}, {:.2f} us measured\n", one->name, *one->measured);
    const size_t unmeasured = candidates.size() - 1 - others.size();
    return unmeasured == 0 ? out : out + fmt::format("             not measured: {}\n", unmeasured);
  }

  // By times of the whole program, the fastest first.
  [[nodiscard]] static std::string picked_by_time(const std::vector<Candidate>& candidates, const Candidate& chosen) {
    std::vector<const Candidate*> others;
    for (const Candidate& one : candidates) {
      if (&one != &chosen && one.measured) others.push_back(&one);
    }
    std::stable_sort(others.begin(), others.end(),
                     [](const Candidate* a, const Candidate* b) { return *a->measured < *b->measured; });
    std::string out = fmt::format("  picked   {}, with which the program took {:.2f} us measured, of {} candidates\n",
                                  chosen.name, *chosen.measured, candidates.size());
    for (const Candidate* one : others)
      out += fmt::format("             {}, {:.2f} us measured\n", one->name, *one->measured);
    return out;
  }

  [[nodiscard]] static std::string picked_text(const PlannedKernel& kernel) {
    const auto& candidates = kernel.discovery.candidates;
    if (kernel.chosen >= candidates.size()) return "  picked   nothing\n";
    const Candidate& chosen = candidates[kernel.chosen];
    if (kernel.user) {  // what a source takes is not known
      return picked_configuration(candidates, kernel.chosen);
    }
    if (chosen.measured) return picked_by_time(candidates, chosen);
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

  [[nodiscard]] std::string not_fused_text() const {
    if (facts_.boundaries.empty() && facts_.decisions.empty() && facts_.shared.empty()) return "not fused: nothing\n";
    std::string out = "not fused\n";
    const auto code = [](uint16_t number) { return number == 0 ? std::string() : diag::code_text(number) + ": "; };
    for (const Boundary& b : facts_.boundaries) {
      const Buffer& buffer = plan_.buffers[b.buffer];
      const std::string to = b.step.empty() ? std::to_string(b.to) : "`" + b.step + "`";
      out += fmt::format("  {}, {}, kernel {} to {}: {}{}\n", shown_name(b.buffer, b.from),
                         bytes_text(buffer_bytes(buffer)), b.from, diag::displayable(to), code(b.code),
                         diag::displayable(b.text));
    }
    for (const FusionNote& note : facts_.decisions)
      out += fmt::format("  {} is {}: {}{}\n", value_name(note.node), note.action, code(note.why.code),
                         diag::displayable(note.why.text));
    for (const SharedFactor& shared : facts_.shared)
      out += fmt::format("  {}{}\n", code(static_cast<uint16_t>(diag::Code::second_product)), shared_text(shared));
    return out;
  }

  // Decisions that a measurement took, with the program's time either way.
  [[nodiscard]] std::string measured_text() const {
    std::string out;
    for (const Decision& decision : plan_.decisions) {
      if (!decision.measured) continue;
      const auto time = [](double microseconds) {
        return microseconds > 0 ? fmt::format("{:.2f} us", microseconds) : std::string("not measured");
      };
      const double model = decision.is_apart ? decision.together - decision.apart : decision.apart - decision.together;
      const double taken = decision.is_apart ? decision.choice.apart_us : decision.choice.together_us;
      const double other = decision.is_apart ? decision.choice.together_us : decision.choice.apart_us;
      out += fmt::format(
          "  {}{}: {}, the program {} measured; {}, {}{}\n", decision.nested ? decision.key : value_name(decision.node),
          decision.nested ? "" : fmt::format(", {}", name_of(decision.question)),
          way_of(decision.question, decision.is_apart), time(taken), way_of(decision.question, !decision.is_apart),
          time(other), model < 0 ? ". The cost model would have chosen that" : "");
    }
    return out.empty() ? out : "measured\n" + out;
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
};

}  // namespace

std::string explain_text(const Plan& plan, std::string_view name, const EmittedKernels& emitted,
                         const GivenSizes& sizes) {
  return TextPrinter(plan, name, emitted, sizes).text();
}

}  // namespace codetta::plan

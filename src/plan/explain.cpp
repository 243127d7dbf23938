// SPDX-License-Identifier: Apache-2.0
// What lies between kernels and why: from the plan alone, whose notes are the refusals as they were taken.
#include "plan/explain_view.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <type_traits>

#include <fmt/format.h>

#include "plan/regions.hpp"
#include "plan/units.hpp"

namespace codetta::plan {

using package::LaunchKernel;
using types::Dim;

namespace {

std::string root_space(const LaunchKernel& launch) {
  return fmt::format("{} x {} x {}", launch.batch.to_string(), launch.m.to_string(), launch.n.to_string());
}

class Explainer {
 public:
  explicit Explainer(const Plan& plan) : plan_(plan) {}

  ProgramExplanation run() {
    result_.launches.resize(plan_.kernels.size());
    result_.nested.resize(plan_.kernels.size());
    result_.saved = Dim::constant(0);
    collect(plan_.steps, false);
    for (const package::StepList& list : plan_.step_lists) collect(list, true);
    for (size_t k = 0; k < plan_.kernels.size(); ++k) {
      result_.order.push_back(k);
      const KernelAccount& account = plan_.kernels[k].account;
      result_.saved = result_.saved + account.saved;
      for (const HeldOperation& held : account.held) {
        if (held.how != HeldOperation::How::View && !held.repeated) ++result_.one_an_operation;
      }
    }
    std::stable_sort(result_.order.begin(), result_.order.end(),
                     [this](size_t a, size_t b) { return first_line(a) < first_line(b); });
    find_readers();
    for (size_t i = 0; i < plan_.notes.size(); ++i) notes_on_[plan_.notes[i].node].push_back(i);
    for (const size_t k : result_.order) find_boundaries(k);
    for (const FusionNote& note : plan_.notes) {
      if (told_.count(note.node) == 0) result_.decisions.push_back(note);
    }
    find_shared();
    return std::move(result_);
  }

 private:
  // A step that works on values, and the buffers that it reads.
  struct Worker {
    std::string text;
    std::set<uint32_t> buffers;
    std::optional<uint32_t> brings_to{};  // another device
  };
  void collect(const package::StepList& steps, bool nested) {
    const auto works = [](const auto& step) {
      using Step = std::decay_t<decltype(step)>;
      return std::is_same_v<Step, package::IndexPut> || std::is_same_v<Step, package::Scatter> ||
             std::is_same_v<Step, package::CallExtern> || std::is_same_v<Step, package::Copy> ||
             std::is_same_v<Step, package::If> || std::is_same_v<Step, package::While>;
    };
    for (const package::Step& step : steps) {
      if (const auto* launch = std::get_if<LaunchKernel>(&step)) {
        ++result_.launched;
        if (launch->kernel >= result_.launches.size() || result_.launches[launch->kernel] != nullptr) continue;
        result_.launches[launch->kernel] = launch;
        result_.nested[launch->kernel] = nested;
      } else if (std::visit(works, step)) {
        const package::StepNames names{[this](uint32_t buffer) { return plan_.buffers[buffer].name; }, {}};
        Worker worker{package::line_of(step, names), {}};
        package::Step named = step;
        if (const auto* copy = std::get_if<package::Copy>(&step)) {
          worker.buffers = {copy->source};
          const uint32_t from = plan_.buffers[copy->source].device, to = plan_.buffers[copy->target].device;
          if (from != to) worker.brings_to = to;
        } else if (const auto* call = std::get_if<package::CallExtern>(&step)) {
          worker.buffers = {call->inputs.begin(), call->inputs.end()};
        } else {
          each_buffer(named, [&](uint32_t& buffer) { worker.buffers.insert(buffer); });
        }
        workers_.push_back(std::move(worker));
      }
    }
  }

  [[nodiscard]] uint32_t first_line(size_t kernel) const {
    uint32_t first = UINT32_MAX;
    for (const HeldOperation& held : plan_.kernels[kernel].account.held) {
      if (held.line != 0 && !held.repeated) first = std::min(first, held.line);
    }
    return first;
  }
  [[nodiscard]] uint32_t product_line(size_t kernel) const {
    for (const HeldOperation& held : plan_.kernels[kernel].account.held) {
      if (held.how == HeldOperation::How::Product) return held.line;
    }
    return 0;
  }
  [[nodiscard]] bool is_product(size_t kernel) const { return result_.launches[kernel]->product.has_value(); }

  // Who may read a buffer, in the order in which kernels are told.
  void find_readers() {
    const auto add = [this](uint32_t buffer, size_t kernel) {
      std::vector<size_t>& readers = readers_[buffer];
      if (readers.empty() || readers.back() != kernel) readers.push_back(kernel);
    };
    for (const size_t k : result_.order) {
      const LaunchKernel* launch = result_.launches[k];
      if (launch == nullptr) continue;
      for (const uint32_t buffer : launch->arguments) add(buffer, k);
      if (!launch->product) continue;
      add(launch->product->a, k);
      for (size_t p = 0; p < launch->product->products(); ++p) add(launch->product->factor_b(p), k);
    }
    for (size_t i = 0; i < workers_.size(); ++i) {
      for (const uint32_t buffer : workers_[i].buffers) working_on_[buffer].push_back(i);
    }
  }

  void find_boundaries(size_t from) {
    const LaunchKernel* writer = result_.launches[from];
    if (writer == nullptr) return;
    const auto& arguments = plan_.kernels[from].lowered.program.arguments;
    std::set<uint32_t> seen;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const uint32_t buffer = writer->arguments[i];
      if (!arguments[i].is_output || !seen.insert(buffer).second) continue;
      for (const size_t to : readers_[buffer]) {
        if (to != from) find_boundary(buffer, from, to);
      }
      for (const size_t worker : working_on_[buffer]) {
        const std::optional<uint32_t>& device = workers_[worker].brings_to;
        const std::string why = device ? fmt::format("it is used on device {}", *device)
                                       : "no kernel carries the step out; it reads values from memory";
        result_.boundaries.push_back({buffer, from, 0, 0, why, workers_[worker].text});
      }
    }
  }

  void find_boundary(uint32_t buffer, size_t from, size_t to) {
    const LaunchKernel& reader = *result_.launches[to];
    Boundary boundary{buffer, from, to, static_cast<uint16_t>(diag::Code::second_product), {}};
    const bool as_b = reader.product && buffer != reader.product->a && reader.product->reads(buffer);
    if (reader.product && (reader.product->a == buffer || as_b)) {
      const bool a = reader.product->a == buffer;
      boundary.text = fmt::format(
          "it is factor {} of the product in line {} ({} x {} x {}), where each element is used {} times; {}",
          a ? "A" : "B", product_line(to), reader.m.to_string(), reader.n.to_string(), reader.product->k.to_string(),
          (a ? reader.n : reader.m).to_string(),
          is_product(from) ? "a kernel computes one product" : "the product reads it from memory");
      if (!is_product(from)) boundary.code = static_cast<uint16_t>(diag::Code::outside_product);
      result_.boundaries.push_back(std::move(boundary));
      return;
    }
    const package::EpilogueProgram& program = plan_.kernels[to].lowered.program;
    const auto& arguments = program.arguments;
    bool reads = false, by_factors = true;  // and by nothing else
    for (uint32_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].is_output || reader.arguments[i] != buffer) continue;
      reads = true;
      by_factors = by_factors && program.factors_read(i);
    }
    if (!reads) return;
    if (const FusionNote* note = note_on(from, to)) {
      told_.insert(note->node);
      boundary.code = note->why.code;
      boundary.text = note->why.text;
    } else if (is_product(to) && is_product(from) && by_factors) {
      boundary.text =
          fmt::format("the product in line {} makes a factor of it; a kernel computes one product", product_line(to));
    } else if (is_product(to) && is_product(from)) {
      boundary.text = fmt::format("kernel {} works behind the product in line {}; a kernel computes one product", to,
                                  product_line(to));
    } else if (result_.nested[from] != result_.nested[to]) {
      boundary.code = 0;
      boundary.text = fmt::format("kernel {} runs in a branch or a loop", result_.nested[to] ? to : from);
    } else if (plan_.kernels[from].user || plan_.kernels[to].user) {
      boundary.code = 0;
      boundary.text = beside_source(buffer, from, to);
    } else if (is_product(to) || root_space(reader) == root_space(*result_.launches[from])) {
      boundary.code = 0;
      boundary.text = "it lies in memory for others anyway";
    } else {
      boundary.code = static_cast<uint16_t>(diag::Code::position_conflict);
      boundary.text = fmt::format("kernel {} goes over {}, kernel {} over {}", from,
                                  root_space(*result_.launches[from]), to, root_space(reader));
    }
    result_.boundaries.push_back(std::move(boundary));
  }

  // Where one of the two is a kernel of the user's.
  [[nodiscard]] std::string beside_source(uint32_t buffer, size_t from, size_t to) const {
    const PlannedKernel &writer = plan_.kernels[from], &reader = plan_.kernels[to];
    if (reader.user) {
      const auto& arguments = result_.launches[to]->arguments;
      const auto operands = static_cast<std::ptrdiff_t>(reader.hook ? reader.hook->operands : arguments.size());
      const bool own =
          std::find(arguments.begin(), arguments.begin() + operands, buffer) != arguments.begin() + operands;
      return fmt::format("{}the source of {} reads it from memory", own ? "" : "what follows ", reader.user->name);
    }
    if (writer.hook) return "it lies in memory for others anyway";
    return fmt::format("the source of {} writes it, and has no hook", writer.user->name);
  }

  // The refusal that parts the two: of what is stored, of what was cut off a product, of what a map was not put into.
  [[nodiscard]] const FusionNote* note_on(size_t from, size_t to) const {
    // Notes name nodes of the program's own graph.
    if (plan_.kernels[from].region.graph != nullptr || plan_.kernels[to].region.graph != nullptr) return nullptr;
    const std::string_view behind = is_product(from) || plan_.kernels[from].hook ? action::cut_off : action::apart;
    // The first of those that fit.
    size_t found = plan_.notes.size();
    const auto look = [&](ir::NodeId node, auto fits) {
      const auto notes = notes_on_.find(node);
      if (notes == notes_on_.end()) return;
      const auto first = std::find_if(notes->second.begin(), notes->second.end(),
                                      [&](size_t i) { return fits(plan_.notes[i].action); });
      if (first != notes->second.end()) found = std::min(found, *first);
    };
    for (const ir::NodeId node : plan_.kernels[from].account.stored) {
      look(node, [](std::string_view what) {
        return what == action::in_front || what == action::stored || what == action::copied;
      });
    }
    for (const HeldOperation& held : plan_.kernels[to].account.held) {
      look(held.node, [&](std::string_view what) { return what == behind; });
    }
    return found == plan_.notes.size() ? nullptr : &plan_.notes[found];
  }

  void find_shared() {
    std::map<std::tuple<uint32_t, bool, bool>, std::vector<size_t>> by_factor;  // buffer, as A, transposed
    for (const size_t k : result_.order) {
      if (result_.launches[k] == nullptr || !is_product(k)) continue;
      const package::Product& product = *result_.launches[k]->product;
      by_factor[{product.a, true, product.a_transposed}].push_back(k);
      for (size_t p = 0; p < product.products(); ++p) {
        std::vector<size_t>& kernels = by_factor[{product.factor_b(p), false, product.b_transposed}];
        if (kernels.empty() || kernels.back() != k) kernels.push_back(k);
      }
    }
    for (auto& [key, kernels] : by_factor) {
      if (kernels.size() < 2) continue;
      SharedFactor shared{std::get<0>(key), std::get<1>(key), std::move(kernels), {}, {}};
      for (const size_t k : shared.kernels) {
        const package::Product& product = *result_.launches[k]->product;
        if (!shared.is_a) shared.others.push_back(product.a);
        for (size_t p = 0; shared.is_a && p < product.products(); ++p) shared.others.push_back(product.factor_b(p));
      }
      shared.again =
          buffer_bytes(plan_.buffers[shared.buffer]) * Dim::constant(static_cast<int64_t>(shared.kernels.size()) - 1);
      result_.shared.push_back(std::move(shared));
    }
    std::stable_sort(result_.shared.begin(), result_.shared.end(), [this](const auto& a, const auto& b) {
      return first_line(a.kernels.front()) < first_line(b.kernels.front());
    });
  }

  const Plan& plan_;
  ProgramExplanation result_;
  std::vector<Worker> workers_;
  std::map<uint32_t, std::vector<size_t>> readers_, working_on_;  // by buffer: kernels, workers
  std::map<ir::NodeId, std::vector<size_t>> notes_on_;
  std::set<ir::NodeId> told_;
};

}  // namespace

ProgramExplanation explained(const Plan& plan) { return Explainer(plan).run(); }

}  // namespace codetta::plan

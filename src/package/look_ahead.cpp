// SPDX-License-Identifier: Apache-2.0
#include "package/look_ahead.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "package/gpu_call.hpp"

namespace codetta::package {

using types::Dim;

namespace {

bool is_control(const Step& step) { return std::holds_alternative<If>(step) || std::holds_alternative<While>(step); }

// Each step of the list from `first` on, and behind a branch or a loop those of its lists.
void walk(const Package& package, const StepList& list, size_t first, const std::function<void(const Step&)>& visit) {
  for (size_t i = first; i < list.size(); ++i) {
    visit(list[i]);
    if (const auto* branch = std::get_if<If>(&list[i])) {
      for (const uint32_t inner : {branch->then_list, branch->else_list})
        walk(package, package.step_lists[inner], 0, visit);
    }
    if (const auto* loop = std::get_if<While>(&list[i])) {
      for (const uint32_t inner : {loop->condition, loop->body}) walk(package, package.step_lists[inner], 0, visit);
    }
  }
}

class Looking {
 public:
  Looking(const Package& package, size_t from) : package_(package), from_(from) {}

  LookAhead run() {
    // Where temporaries lie that have a place by then.
    const StepList& main = package_.steps;
    for (size_t i = 0; i < std::min(from_, main.size()); ++i) {
      const auto place = [&](const Step& step) {
        if (const auto known = place_of(step)) placed_.insert(known->buffer);
        if (const auto* load = std::get_if<LoadConstant>(&step)) placed_.insert(load->buffer);
      };
      const StepList one{main[i]};
      walk(package_, one, 0, place);
    }
    walk(package_, main, from_, [&](const Step& step) {
      if (const auto* define = std::get_if<DefineSymbol>(&step)) late_.insert(define->symbol);
    });
    walk(package_, main, from_, [&](const Step& step) {
      if (const auto* define = std::get_if<DefineSymbol>(&step)) add_size(*define);
    });
    walk(package_, main, from_, [&](const Step& step) {
      if (auto place = place_of(step)) places_.try_emplace(place->buffer, *std::move(place));
    });
    walk(package_, main, from_, [&](const Step& step) {
      if (const auto* launch = std::get_if<LaunchKernel>(&step)) add_look(*launch);
    });
    return std::move(made_);
  }

 private:
  [[nodiscard]] bool has_value(const Dim& dim) const {
    const std::vector<std::string> symbols = dim.symbols();
    return std::all_of(symbols.begin(), symbols.end(), [this](const std::string& symbol) {
      return late_.count(symbol) == 0 || assumed_.count(symbol) != 0;
    });
  }
  [[nodiscard]] bool is_late(const Dim& dim) const {
    const std::vector<std::string> symbols = dim.symbols();
    return std::any_of(symbols.begin(), symbols.end(),
                       [this](const std::string& symbol) { return late_.count(symbol) != 0; });
  }

  void add_size(const DefineSymbol& define) {
    using From = DefineSymbol::From;
    if (assumed_.count(define.symbol) != 0 || define.from == From::Stride || define.from == From::OutputStride) return;
    std::optional<Dim> most;
    if (define.from == From::Expression) {
      if (has_value(define.value)) most = define.value;
    } else if (define.from == From::Size) {
      const Buffer& buffer = package_.buffers[define.buffer];
      const auto dim = static_cast<size_t>(define.dim);
      if (dim < buffer.shape.size() && has_value(buffer.shape[dim])) most = buffer.shape[dim] - define.value;
    } else {
      most = bound_of(define.symbol);
    }
    if (!most) return;
    made_.sizes.emplace_back(define.symbol, *std::move(most));
    assumed_.insert(define.symbol);
  }
  [[nodiscard]] Dim bound_of(const std::string& symbol) const {
    std::optional<Dim> most;
    walk(package_, package_.steps, 0, [&](const Step& step) {
      const auto* check = std::get_if<Check>(&step);
      const auto* range = check == nullptr ? nullptr : std::get_if<RangeGuard>(&check->guard);
      if (!most && range != nullptr && range->value.as_symbol() == symbol && has_value(range->most)) most = range->most;
    });
    // Half of what it may be, so that what begins there has elements as well: launches of none ask nothing.
    return most ? floordiv(*most + Dim::constant(1), Dim::constant(2)) : Dim::constant(likely_size);
  }

  [[nodiscard]] std::optional<LookAhead::Place> place_of(const Step& step) const {
    if (const auto* own = std::get_if<Allocate>(&step)) return LookAhead::Place{own->buffer};
    if (const auto* pooled = std::get_if<AllocateFromPool>(&step)) return LookAhead::Place{pooled->buffer};
    if (const auto* reuse = std::get_if<Reuse>(&step)) return LookAhead::Place{reuse->buffer, reuse->from};
    const auto* view = std::get_if<Reinterpret>(&step);
    if (view == nullptr) return std::nullopt;
    LookAhead::Place place{view->buffer, view->source, package_.buffers[view->buffer].begin};
    for (Dim& begin : place.begin) {
      if (is_late(begin)) begin = Dim::constant(0);
    }
    return place;
  }

  // Appends where the buffer lies, and what it is a view of. Whether that is known.
  [[nodiscard]] bool find(uint32_t index, std::vector<LookAhead::Place>& places) const {
    const Buffer& buffer = package_.buffers[index];
    for (const std::vector<Dim>* dims : {&buffer.shape, &buffer.strides}) {
      if (!std::all_of(dims->begin(), dims->end(), [this](const Dim& dim) { return has_value(dim); })) return false;
    }
    if (buffer.is_scalar || buffer.role == Buffer::Role::Argument || buffer.role == Buffer::Role::Output) return true;
    const auto is_there = [&](const LookAhead::Place& one) { return one.buffer == index; };
    if (placed_.count(index) != 0 || std::any_of(places.begin(), places.end(), is_there)) return true;
    const auto place = places_.find(index);
    if (place == places_.end() || !has_value(buffer.offset)) return false;
    if (place->second.source && (*place->second.source == index || !find(*place->second.source, places))) return false;
    places.push_back(place->second);
    return true;
  }

  void add_look(const LaunchKernel& launch) {
    const Kernel& kernel = package_.kernels[launch.kernel];
    if (is_user(kernel.config)) return;
    // A map takes any tensors, and all sizes unless it owes stores that it computes with elements.
    if (!launch.product && missing_when(kernel.epilogue, false, launch.batch, launch.m, launch.n) == 0) return;
    LookAhead::Look look{&launch};
    bool known = !is_vendor(kernel.config) && has_value(launch.batch) && has_value(launch.m) && has_value(launch.n);
    const auto need = [&](uint32_t buffer) { known = known && find(buffer, look.places); };
    for (const uint32_t buffer : launch.arguments) need(buffer);
    if (launch.product) {
      known = known && has_value(launch.product->k);
      launch.product->each_buffer(need);
      for (const auto* view : {&launch.product->a_view, &launch.product->b_view}) {
        for (const FactorDim& dim : *view) known = known && has_value(dim.scale) && has_value(dim.size);
      }
    }
    const EpilogueProgram& program = kernel.epilogue;
    known = known && has_value(program.split.chunk);
    for (const Dim& size : program.sizes) known = known && has_value(size);
    for (const Operand& operand : program.operands) {
      for (const IndexTerm& term : operand.terms) known = known && has_value(term.scale);
      for (const auto& [dim, offset] : operand.offsets) known = known && has_value(offset);
    }
    look.known = known;
    made_.looks.push_back(std::move(look));
  }

  const Package& package_;
  size_t from_;
  std::set<uint32_t> placed_;
  std::set<std::string> late_, assumed_;
  std::map<uint32_t, LookAhead::Place> places_;
  LookAhead made_;
};

}  // namespace

LookAhead look_ahead(const Package& package, size_t from) { return Looking(package, from).run(); }

size_t first_control(const Package& package) {
  return static_cast<size_t>(std::find_if(package.steps.begin(), package.steps.end(), is_control) -
                             package.steps.begin());
}

}  // namespace codetta::package

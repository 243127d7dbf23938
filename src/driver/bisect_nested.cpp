// SPDX-License-Identifier: Apache-2.0
#include "driver/bisect_nested.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "driver/bisect.hpp"
#include "types/convert.hpp"

namespace codetta::driver {

AskedValues asked_values(const package::StepList& steps, const plan::Plan& plan, const package::Package& package,
                         const StepRecords& records) {
  AskedValues asked;
  std::map<ir::NodeId, std::pair<std::string, std::string>> last;  // node -> who stores it
  std::map<ir::NodeId, DType> types;
  for (const package::Step& step : steps) {
    const auto* launch = std::get_if<package::LaunchKernel>(&step);
    if (launch == nullptr) continue;
    const std::string& text = records.text_of(&step);
    const plan::PlannedKernel& kernel = plan.kernels[*records.known(text).planned];
    if (kernel.user) continue;
    for (size_t a = 0; a < launch->arguments.size() && a < kernel.lowered.argument_input.size(); ++a) {
      const size_t from = kernel.lowered.argument_input[a];
      if (from < kernel.region.inputs.size()) continue;
      const ir::NodeId node = kernel.account.stored[from - kernel.region.inputs.size()];
      const package::Buffer& buffer = package.buffers[launch->arguments[a]];
      last[node] = {text, buffer.name};
      types[node] = buffer.dtype;
    }
  }
  for (const auto& [node, at] : last) {
    asked.of_step[at] = asked.outputs.size();
    asked.outputs.emplace_back(node, types[node]);
  }
  return asked;
}

Result<ir::Graph> with_values(const ir::Graph& graph, const AskedValues& asked) {
  std::vector<ExtraOutput> extra;
  for (const auto& [node, dtype] : asked.outputs)
    extra.push_back({fmt::format("step value {}", node.index()), node, dtype});
  return with_outputs(graph, extra);
}

Result<NestedValues> NestedValues::make(const plan::Plan& plan, const package::Package& package,
                                        const StepRecords& records, const ir::Graph& program,
                                        const std::vector<oracle::OracleInput>& inputs, oracle::OracleOptions how) {
  NestedValues made(package, records, std::move(how));
  made.lists_.resize(package.step_lists.size());
  made.find_parents(std::nullopt);
  for (size_t list = 0; list < made.lists_.size(); ++list) made.find_parents(list);
  for (size_t list = 0; list < made.lists_.size() && list < plan.nested.size(); ++list) {
    const plan::NestedGraph& nested = plan.nested[list];
    made.inputs_.push_back(nested.inputs);
    if (nested.graph == nullptr) continue;
    List& one = made.lists_[list];
    one.asked = asked_values(package.step_lists[list], plan, package, records);
    if (one.asked.outputs.empty()) continue;
    CODETTA_TRY(one.graph, with_values(*nested.graph, one.asked));
  }
  made.inputs_.resize(made.lists_.size());
  made.find_sources();
  made.find_wanted();
  for (size_t b = 0; b < package.buffers.size(); ++b) {
    const auto buffer = static_cast<uint32_t>(b);
    if (package.buffers[b].role != package::Buffer::Role::Argument || !made.wanted_[b]) continue;
    for (size_t i = 0; i < program.inputs().size(); ++i) {
      if (program.inputs()[i].name != package.buffers[b].name) continue;
      if (const auto* view = std::get_if<TensorView>(&inputs[i])) {
        CODETTA_CHECK_OK(made.hold(buffer, *view));
      } else {  // a tensor without dims in there
        CODETTA_TRY(const Tensor number, Tensor::make(package.buffers[b].dtype, {}));
        std::get_if<types::Scalar>(&inputs[i])->store(number.view().data());
        CODETTA_CHECK_OK(made.hold(buffer, number.view()));
      }
    }
  }
  return made;
}

const package::StepList& NestedValues::steps_of(std::optional<size_t> list) const {
  return list ? package_->step_lists[*list] : package_->steps;
}

void NestedValues::find_parents(std::optional<size_t> list) {
  const package::StepList& steps = steps_of(list);
  for (size_t i = 0; i < steps.size(); ++i) {
    std::vector<size_t> children;
    const auto* branch = std::get_if<package::If>(&steps[i]);
    const auto* loop = std::get_if<package::While>(&steps[i]);
    if (branch != nullptr) children = {branch->then_list, branch->else_list};
    if (loop != nullptr) children = {loop->condition, loop->body};
    for (const size_t child : children) lists_[child].parent = Parent{list, i, loop != nullptr, children};
  }
}

void NestedValues::find_sources() {
  const auto look = [this](const package::StepList& steps) {
    for (const package::Step& step : steps) {
      const auto* view = std::get_if<package::Reinterpret>(&step);
      if (view != nullptr) source_of_[view->buffer] = view->source;
    }
  };
  look(package_->steps);
  for (const package::StepList& list : package_->step_lists) look(list);
}

// What lists begin with, what says a size, and all that these may come from without a step that writes.
void NestedValues::find_wanted() {
  wanted_.assign(package_->buffers.size(), false);
  for (const std::vector<uint32_t>& inputs : inputs_) {
    for (const uint32_t input : inputs) {
      if (input != plan::no_buffer) wanted_[input] = true;
    }
  }
  const auto sizes = [&](const package::StepList& steps) {
    for (const package::Step& step : steps) {
      const auto* define = std::get_if<package::DefineSymbol>(&step);
      if (define != nullptr && define->from == package::DefineSymbol::From::Value) wanted_[define->buffer] = true;
    }
  };
  sizes(package_->steps);
  for (const package::StepList& list : package_->step_lists) sizes(list);
  const auto look = [&](const package::StepList& steps) {
    bool more = false;
    for (const package::Step& step : steps) {
      const auto* reuse = std::get_if<package::Reuse>(&step);
      const auto* view = std::get_if<package::Reinterpret>(&step);
      if (reuse == nullptr && view == nullptr) continue;
      const uint32_t to = reuse != nullptr ? reuse->buffer : view->buffer;
      const uint32_t from = reuse != nullptr ? reuse->from : view->source;
      if (!wanted_[to] || wanted_[from]) continue;
      wanted_[from] = more = true;
    }
    return more;
  };
  for (bool more = true; more;) {
    more = look(package_->steps);
    for (const package::StepList& list : package_->step_lists) more = look(list) || more;
  }
}

Result<void> NestedValues::hold(uint32_t buffer, const TensorView& view) {
  Held held;
  CODETTA_TRY(held.view, held.memory.copy(view));
  view_of_buffer_.erase(buffer);
  held_.insert_or_assign(buffer, std::move(held));
  return {};
}

void NestedValues::forget(uint32_t buffer) {
  held_.erase(buffer);
  view_of_buffer_.erase(buffer);
}

// What is written through a view is written where that lies: an index_put at another dim than the first.
Result<void> NestedValues::write_through(uint32_t buffer, const TensorView& view) {
  uint32_t at = buffer;
  for (int depth = 0; depth < package::max_step_depth; ++depth) {
    const auto source = source_of_.find(at);
    if (source == source_of_.end()) break;
    at = source->second;
    if (!wanted_[at]) continue;
    const package::Buffer& form = package_->buffers[at];
    const auto shape = known_sizes(form.shape);
    const auto [first, last] = view.byte_range();
    const auto whole = shape && form.strides.empty() && form.dtype == view.dtype()
                           ? TensorView::make(static_cast<void*>(const_cast<std::byte*>(first)), form.dtype, *shape)
                           : Result<TensorView>(TensorView());
    // The memory of a view that covers it all can be read by the other's form.
    if (whole && whole->byte_range() == std::pair(first, last)) {
      CODETTA_CHECK_OK(hold(at, *whole));
    } else {
      forget(at);
    }
  }
  return {};
}

// A graph that names a size of what is around it may have no input that tells it.
void NestedValues::learn_size(const package::DefineSymbol& step) {
  if (step.from != package::DefineSymbol::From::Value) return;
  how_.sizes.erase(step.symbol);
  const auto view = view_of(step.buffer);
  const auto divisor = known_sizes({step.divisor});
  if (!view || view->empty() || !divisor || (*divisor)[0] == 0) return;
  how_.sizes[step.symbol] = types::load_i64(view->data(), package_->buffers[step.buffer].dtype) / (*divisor)[0];
}

// Those that a graph computes itself are the oracle's to find.
void NestedValues::forget_sizes_of(size_t list) {
  for (const package::Step& step : package_->step_lists[list]) {
    const auto* define = std::get_if<package::DefineSymbol>(&step);
    if (define != nullptr && define->from == package::DefineSymbol::From::Value) how_.sizes.erase(define->symbol);
  }
  for (size_t child = 0; child < lists_.size(); ++child) {
    if (lists_[child].parent && lists_[child].parent->list == list) forget_sizes_of(child);
  }
}

// A step that writes nothing. It is told of only where a size of it is known late.
void NestedValues::pass(const package::Step& step) {
  if (const auto* define = std::get_if<package::DefineSymbol>(&step)) learn_size(*define);
  if (const auto* made = std::get_if<package::Allocate>(&step)) forget(made->buffer);
  if (const auto* made = std::get_if<package::AllocateFromPool>(&step)) forget(made->buffer);
  const auto* reuse = std::get_if<package::Reuse>(&step);
  if (reuse != nullptr && wanted_[reuse->buffer]) {
    forget(reuse->buffer);
    if (const auto from = view_of(reuse->from)) static_cast<void>(hold(reuse->buffer, *from));
  }
  const auto* view = std::get_if<package::Reinterpret>(&step);
  if (view != nullptr && wanted_[view->buffer]) {
    forget(view->buffer);
    view_of_buffer_[view->buffer] = view->source;
  }
}

std::optional<Dims> NestedValues::known_sizes(const std::vector<types::Dim>& dims) const {
  Dims sizes;
  for (const types::Dim& dim : dims) {
    const auto size = dim.evaluate([this](std::string_view symbol) -> std::optional<int64_t> {
      const auto known = how_.sizes.find(symbol);
      return known == how_.sizes.end() ? std::nullopt : std::optional(known->second);
    });
    if (!size) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

std::optional<TensorView> NestedValues::view_of(uint32_t buffer, int depth) const {
  const auto held = held_.find(buffer);
  if (held != held_.end()) return held->second.view;
  const auto lies = view_of_buffer_.find(buffer);
  if (lies == view_of_buffer_.end() || depth == package::max_step_depth) return std::nullopt;
  const auto source = view_of(lies->second, depth + 1);
  const package::Buffer& form = package_->buffers[buffer];
  if (!source || form.dtype != source->dtype()) return std::nullopt;
  const auto shape = known_sizes(form.shape), strides = known_sizes(form.strides), offset = known_sizes({form.offset});
  if (!shape || !strides || !offset || !source->is_row_major()) return std::nullopt;
  std::byte* const at = source->as<std::byte>() + (*offset)[0];
  const auto made = form.strides.empty() ? TensorView::make(static_cast<void*>(at), form.dtype, *shape)
                                         : TensorView::make(static_cast<void*>(at), form.dtype, *shape, *strides);
  if (!made) return std::nullopt;
  const auto whole = source->byte_range(), part = made->byte_range();
  if (part.first < whole.first || part.second > whole.second) return std::nullopt;
  return *made;
}

void NestedValues::evaluate(List& list, const std::vector<uint32_t>& inputs) {
  list.values.clear();
  list.unknown.clear();
  if (!list.graph) return;
  std::vector<oracle::OracleInput> given;
  for (const uint32_t input : inputs) {
    const auto view = input == plan::no_buffer ? std::nullopt : view_of(input);
    if (!view) {
      list.unknown = "what it begins with is not known";
      return;
    }
    given.emplace_back(*view);
  }
  const Result<oracle::OracleResult> result = oracle::evaluate(*list.graph, given, how_);
  if (!result) {
    list.unknown = "the oracle has no value: " + diag::sentence(result.error().diagnostics().front());
    return;
  }
  const size_t own = list.graph->outputs().size() - list.asked.outputs.size();
  list.values.assign(result->outputs.begin() + static_cast<std::ptrdiff_t>(own), result->outputs.end());
}

void NestedValues::begin(size_t list) {
  List& one = lists_[list];
  ++one.turn;
  one.next = 0;
  for (List& child : lists_) {
    if (child.parent && child.parent->list == list) child.runs = false;
  }
  forget_sizes_of(list);
  evaluate(one, inputs_[list]);
}

void NestedValues::reach(std::optional<size_t> list, size_t index) {
  List& one = state(list);
  if (list && !one.runs) {
    const std::vector<size_t>& beside = one.parent->children;
    const bool first = std::none_of(beside.begin(), beside.end(), [&](size_t other) { return lists_[other].runs; });
    if (first) {
      reach(one.parent->list, one.parent->index);
      for (const size_t other : beside) lists_[other].turn = 0;
    }
    one.runs = true;
    begin(*list);
  } else if (list && index < one.next) {
    begin(*list);
  }
  const package::StepList& steps = steps_of(list);
  for (; one.next < index; ++one.next) pass(steps[one.next]);
  one.next = index + 1;
  for (List& child : lists_) {
    if (child.parent && child.parent->list == list && child.parent->index < index) child.runs = false;
  }
}

// Whether the step is a branch or a loop that has run, and is over.
bool NestedValues::ends_lists(std::optional<size_t> list, size_t index) {
  bool ends = false;
  for (List& child : lists_) {
    if (!child.parent || child.parent->list != list || child.parent->index != index) continue;
    ends = ends || child.runs;
    child.runs = false;
  }
  return ends;
}

Result<void> NestedValues::see(const StepRecord& record) {
  const StepRecords::Known& known = records_->known(record.step);
  if (ends_lists(known.list, known.index)) return {};
  reach(known.list, known.index);
  pass(steps_of(known.list)[known.index]);
  for (size_t i = 0; i < known.written.size(); ++i) {
    if (wanted_[known.written[i]]) CODETTA_CHECK_OK(hold(known.written[i], record.written[i].view));
    CODETTA_CHECK_OK(write_through(known.written[i], record.written[i].view));
  }
  return {};
}

const oracle::ExpectedOutput* NestedValues::expected(const StepRecord& record, const std::string& name) const {
  const List& list = lists_[*records_->known(record.step).list];
  const auto at = list.asked.of_step.find({record.step, name});
  if (at == list.asked.of_step.end() || at->second >= list.values.size()) return nullptr;
  return &list.values[at->second];
}

std::string NestedValues::unknown(const StepRecord& record) const {
  return lists_[*records_->known(record.step).list].unknown;
}

std::vector<int64_t> NestedValues::turns(const StepRecord& record) const {
  std::vector<int64_t> turns;
  for (std::optional<size_t> list = records_->known(record.step).list; list; list = lists_[*list].parent->list) {
    if (lists_[*list].parent->loop) turns.insert(turns.begin(), lists_[*list].turn);
  }
  return turns;
}

}  // namespace codetta::driver

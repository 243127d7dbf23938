// SPDX-License-Identifier: Apache-2.0
#include "driver/step_records.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "driver/program_kernels.hpp"
#include "package/written.hpp"

namespace codetta::driver {

namespace {

constexpr uint32_t nowhere = UINT32_MAX;  // a result that nothing takes

// One that is handed over is among them if the epilogue stores it.
std::vector<uint32_t> results_of(const package::LaunchKernel& launch, const plan::PlannedKernel& kernel,
                                 const std::vector<uint32_t>& written) {
  if (!kernel.hook) return written;
  if (!kernel.hook->kept) return {};
  std::vector<uint32_t> results;
  const size_t others = kernel.hook->operands + kernel.hook->reads + kernel.hook->stores;
  for (size_t a = others; a < launch.arguments.size(); ++a) results.push_back(launch.arguments[a]);
  const size_t place = kernel.hook->position - kernel.hook->operands;
  results.insert(results.begin() + static_cast<std::ptrdiff_t>(place), launch.arguments[*kernel.hook->kept]);
  return results;
}

// What a launch stores of an argument; nothing where that can't be said, or is all of it.
std::vector<StepRecord::Part> parts_of(const package::LaunchKernel& launch, const package::EpilogueProgram& program,
                                       uint32_t buffer, const TensorView& view,
                                       const std::map<std::string, int64_t>& symbols) {
  std::vector<StepRecord::Part> parts;
  for (const package::Operand& operand : program.operands) {
    if (!operand.is_store || launch.arguments[operand.argument] != buffer) continue;
    if (!operand.gathered.empty()) return {};
    StepRecord::Part& part = parts.emplace_back();
    int64_t extents[3] = {}, met[3] = {1, 1, 1}, elements = 1;
    const types::Dim* const axes[] = {&launch.batch, &launch.m, &launch.n};
    for (size_t a = 0; a < 3; ++a) {
      const auto extent = axes[a]->evaluate(symbols);
      if (!extent) return {};
      extents[a] = *extent;
    }
    for (const package::IndexTerm& term : operand.terms) {
      const auto scale = term.scale.evaluate(symbols);
      const auto axis = static_cast<size_t>(term.axis);
      const int64_t counted = (extents[axis] + term.div - 1) / term.div;
      if (!scale) return {};
      part.shape.push_back(term.mod == 0 ? counted : std::min(term.mod, counted));
      met[axis] *= part.shape[part.shape.rank() - 1];
      if (met[axis] > extents[axis]) return {};  // terms take it apart unevenly
      const int dim = view.rank() - 1 - term.dim;
      part.strides.push_back(dim < 0 ? 0 : *scale * view.stride(dim));
      elements *= part.shape[part.shape.rank() - 1];
    }
    for (const auto& [from_last, count] : operand.offsets) {
      const auto places = count.evaluate(symbols);
      if (!places) return {};
      if (from_last < view.rank()) part.offset += *places * view.stride(view.rank() - 1 - from_last);
    }
    int64_t last = part.offset;
    for (int d = 0; d < part.shape.rank(); ++d) last += std::max<int64_t>(part.shape[d] - 1, 0) * part.strides[d];
    const auto [begin, end] = view.byte_range();
    const int64_t there = (end - begin) / dtype_size(view.dtype());
    if (elements != 0 && (part.offset < 0 || last >= there)) return {};
    if (elements >= view.element_count()) return {};
  }
  return parts;
}

}  // namespace

TensorView nothing_taken() {
  auto none = TensorView::make(static_cast<void*>(nullptr), DType::u8, {0, 0, 0, 0, 0, 0, 0, 0});
  return none ? *none : TensorView();
}

StepRecords::StepRecords(package::PackageRef package, const plan::Plan& plan) : package_(std::move(package)) {
  const std::vector<uint32_t> planned = launched_kernels(plan.steps, plan.step_lists);
  size_t next = 0;
  add(package_->steps, std::nullopt, plan, planned, next);
  for (size_t list = 0; list < package_->step_lists.size(); ++list)
    add(package_->step_lists[list], list, plan, planned, next);
}

void StepRecords::add(const package::StepList& steps, std::optional<size_t> list, const plan::Plan& plan,
                      const std::vector<uint32_t>& launched, size_t& next) {
  struct Selected {
    std::vector<uint32_t> buffers;
    Known* last = nullptr;
    const package::CallExtern* call = nullptr;
  };
  std::map<uint32_t, const package::CallExtern*> allocates;  // by result
  std::map<uint32_t, Selected> by_result;
  for (size_t i = 0; i < steps.size(); ++i) {
    Known& known = steps_[&steps[i]];
    known.record.step = fmt::format("{}step {} ({})", list ? fmt::format("list {}, ", *list) : std::string(), i,
                                    package::name_of(steps[i]));
    known.written = package::buffers_written(*package_, steps[i]);
    known.list = list;
    known.index = i;
    if (const auto* launch = std::get_if<package::LaunchKernel>(&steps[i])) {
      known.record.kernel = package_->kernels[launch->kernel].name;
      known.planned = launched[next++];
      if (launch->product) next += launch->product->b_made.size();  // what makes B stands behind it
      known.record.origins = plan::origin_texts(plan.kernels[*known.planned].account);
      const plan::PlannedKernel& kernel = plan.kernels[*known.planned];
      if (kernel.user) known.record.function = kernel.user->name;
      if (kernel.user) known.results = results_of(*launch, kernel, known.written);
    }
    if (const auto* call = std::get_if<package::CallExtern>(&steps[i])) {
      known.record.function = call->name;
      known.results = known.written;
      if (call->form == package::CallExtern::Form::Alloc) allocates[call->result] = call;
    }
    // What a function has allocated has names, and is there to be read, behind the last of these.
    if (const auto* select = std::get_if<package::SelectOutput>(&steps[i])) {
      const auto call = allocates.find(select->result);
      if (call != allocates.end()) {
        Selected& selected = by_result[select->result];
        selected.buffers.resize(call->second->output_count, nowhere);
        selected.buffers[select->output] = select->buffer;
        selected.last = &known;
        selected.call = call->second;
      }
    }
    by_text_[known.record.step] = &known;
  }
  for (const auto& [result, selected] : by_result) {
    selected.last->record.function = selected.call->name;
    selected.last->results = selected.buffers;
  }
}

StepRecord StepRecords::record(const runtime::StepEvent& event) const {
  const Known& known = steps_.at(event.step);
  StepRecord record = started(*event.step);
  record.begin_ns = event.begin_ns;
  record.end_ns = event.end_ns;
  const auto* const launch = std::get_if<package::LaunchKernel>(event.step);
  for (const uint32_t buffer : known.written) {
    record.written.push_back({package_->buffers[buffer].name, event.tensors[buffer]});
    if (launch != nullptr && event.symbols != nullptr)
      record.written.back().parts =
          parts_of(*launch, package_->kernels[launch->kernel].epilogue, buffer, event.tensors[buffer], *event.symbols);
  }
  for (const uint32_t buffer : known.results) {
    if (buffer == nowhere) {
      record.results.push_back({{}, nothing_taken()});
    } else {
      record.results.push_back({package_->buffers[buffer].name, event.tensors[buffer]});
    }
  }
  return record;
}

}  // namespace codetta::driver

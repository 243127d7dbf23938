// SPDX-License-Identifier: Apache-2.0
#include "driver/tuning_data.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "codetta/fill.hpp"
#include "driver/agreement.hpp"
#include "driver/build_tune.hpp"
#include "driver/kernel_state.hpp"
#include "driver/program_arguments.hpp"
#include "driver/verification.hpp"
#include "ir/output_rooms.hpp"
#include "runtime/host_ops.hpp"

namespace codetta::driver {

namespace {

size_t bytes_of(const TensorView& view) { return static_cast<size_t>(view.element_count() * dtype_size(view.dtype())); }

// What the last run has filled of an output.
Dims filled_of(const Execution& execution, const std::string& output) {
  const ExecutionState& state = ExecutionState::of(execution);
  const auto& buffers = state.package->buffers;
  const auto found = std::find_if(buffers.begin(), buffers.end(), [&](const package::Buffer& buffer) {
    return buffer.role == package::Buffer::Role::Output && buffer.name == output;
  });
  const auto at = static_cast<uint32_t>(found - buffers.begin());
  return std::visit([at](const auto& ran) { return ran.filled(at); }, state.execution);
}

bool same_bits(const std::vector<Tensor>& one, const std::vector<Tensor>& other) {
  if (one.size() != other.size()) return false;
  for (size_t i = 0; i < one.size(); ++i) {
    const TensorView a = one[i].view(), b = other[i].view();
    if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
    if (bytes_of(a) != 0 && std::memcmp(a.data(), b.data(), bytes_of(a)) != 0) return false;
  }
  return true;
}

}  // namespace

Result<TuningData> TuningData::make(const Program& program, const Target& target, const SizeHints& hints,
                                    const ConstantValues& values, const std::vector<NamedArgument>& given,
                                    ContextState& context) {
  TuningData data(program, target, hints, values, given, context);
  if (runs_on_gpu(target)) {
    CODETTA_TRY(data.device_, context.gpu(target).device_for(target));
  }
  std::vector<NamedArgument> parameters;  // outputs among them are not written
  for (const ProgramParameter& parameter : program.parameters()) {
    if (const ArgumentValue* value = data.value_of(parameter.name)) parameters.push_back({parameter.name, *value});
  }
  CODETTA_TRY(data.inputs_, program.missing(parameters, hints, unknown_size));
  return data;
}

const ArgumentValue* TuningData::value_of(const std::string& name) const {
  for (const NamedArgument& argument : *given_) {
    if (argument.name == name) return &argument.value;
  }
  return nullptr;
}

const TensorView* TuningData::constant_of(const std::string& name) const {
  for (const auto* constants : {&values_->embedded, &values_->external}) {
    if (const auto found = constants->find(name); found != constants->end()) return &found->second;
  }
  return nullptr;
}

bool TuningData::is_donated(const std::string& name) const {
  const auto& inputs = Program::Access::state(*program_)->graph.inputs();
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const ir::GraphInput& input) { return input.name == name && input.donated; });
}

Result<TuningData::Memory> TuningData::placed(DType dtype, const Dims& shape) const {
  Memory memory;
  if (device_ == nullptr) {
    CODETTA_TRY(memory.host, Tensor::make(dtype, shape, *context_->allocator));
    memory.view = memory.host->view();
    return memory;
  }
  int64_t bytes = dtype_size(dtype);
  for (const int64_t size : shape) bytes *= size;
  if (bytes != 0) {
    CODETTA_TRY(memory.there, runtime::cuda::DeviceBuffer::make(device_, static_cast<size_t>(bytes)));
  }
  void* const at = bytes == 0 ? nullptr : reinterpret_cast<void*>(memory.there->address());
  CODETTA_TRY(memory.view, TensorView::make(at, dtype, shape));
  return memory;
}

Result<void> TuningData::write(const TensorView& to, const TensorView& from) const {
  const size_t bytes = bytes_of(from);
  if (bytes == 0) return {};
  if (device_ == nullptr) {
    std::memcpy(to.data(), from.data(), bytes);
    return {};
  }
  CODETTA_CHECK_OK(
      device_->upload(reinterpret_cast<runtime::cuda::DeviceAddress>(to.data()), from.data(), bytes, nullptr));
  return device_->synchronize(nullptr);
}

Result<Tensor> TuningData::read(const TensorView& from) const {
  CODETTA_TRY(Tensor tensor, Tensor::make(from.dtype(), from.shape(), *context_->allocator));
  const size_t bytes = bytes_of(from);
  if (bytes == 0) return tensor;
  if (device_ == nullptr) {
    std::memcpy(tensor.data(), from.data(), bytes);
    return tensor;
  }
  CODETTA_CHECK_OK(
      device_->download(tensor.data(), reinterpret_cast<runtime::cuda::DeviceAddress>(from.data()), bytes, nullptr));
  CODETTA_CHECK_OK(device_->synchronize(nullptr));
  return tensor;
}

Result<ArgumentValue> TuningData::number_of(const package::Buffer& buffer) const {
  if (const ArgumentValue* value = value_of(buffer.name)) return *value;
  return buffer.dtype == DType::boolean ? ArgumentValue(true) : ArgumentValue(int64_t{1});
}

// Made at first need; null for no elements.
Result<TensorView> TuningData::view_of(const package::Buffer& buffer, size_t index, const Dims& shape) {
  const bool output = buffer.role == package::Buffer::Role::Output;
  const ArgumentValue* value = output ? nullptr : value_of(buffer.name);
  const TensorView* constant = output ? nullptr : constant_of(buffer.name);
  if (constant != nullptr && device_ == nullptr) return *constant;
  if (value != nullptr && value->tensor() != nullptr && !is_donated(buffer.name)) return *value->tensor();
  const auto known = memory_.find(buffer.name);
  if (known != memory_.end()) return known->second.view;
  CODETTA_TRY(Memory memory, placed(buffer.dtype, shape));
  Tensor contents;
  if (constant != nullptr) {
    CODETTA_TRY(contents, Tensor::make(buffer.dtype, shape, *context_->allocator));
    CODETTA_CHECK_OK(runtime::copy_elements({*constant, buffer.name}, {contents.view(), buffer.name}, *context_->pool));
  } else if (value != nullptr && value->tensor() != nullptr) {  // row-major, as a donated one lies
    CODETTA_TRY(contents, read(*value->tensor()));
  } else {
    CODETTA_TRY(contents, Tensor::make(buffer.dtype, shape, *context_->allocator));
    const auto input =
        std::find_if(inputs_.begin(), inputs_.end(), [&](const ProgramInput& one) { return one.name == buffer.name; });
    fill_input(contents.view(), index + 1, input != inputs_.end() ? *input : ProgramInput{});
  }
  CODETTA_CHECK_OK(write(memory.view, contents.view()));
  if (!output && is_donated(buffer.name)) former_.emplace_back(buffer.name, std::move(contents));
  return memory_.emplace(buffer.name, std::move(memory)).first->second.view;
}

Result<runtime::Bindings> TuningData::bound(const package::PackageRef& package) {
  runtime::Bindings bindings = runtime::Bindings::of(*package);
  if (device_ == nullptr) {
    CODETTA_TRY(bindings.packed_b, packed_constants(package, *values_, *context_->pool));
  }
  const bool first = arguments_.empty();
  const auto value = [&](std::string_view symbol) -> std::optional<int64_t> {
    for (const auto& [known, size] : *hints_) {
      if (known == symbol) return size;
    }
    return unknown_size;
  };
  for (size_t b = 0; b < package->buffers.size(); ++b) {
    const package::Buffer& buffer = package->buffers[b];
    if (buffer.role != package::Buffer::Role::Argument && buffer.role != package::Buffer::Role::Output) continue;
    if (buffer.is_scalar) {
      CODETTA_TRY(const ArgumentValue one, number_of(buffer));
      CODETTA_TRY(bindings.scalars[b], declared_number(buffer, one));
      if (first) arguments_.push_back({buffer.name, one});
      continue;
    }
    Dims shape;
    for (size_t d = 0; d < buffer.shape.size(); ++d) {
      const bool computed = !buffer.filled.empty() && !(buffer.filled[d] == buffer.shape[d]);
      shape.push_back(computed ? room_for(buffer.name, d, buffer.filled[d])
                               : buffer.shape[d].evaluate(value).value_or(1));
    }
    CODETTA_TRY(bindings.tensors[b], view_of(buffer, b, shape));
    if (first) arguments_.push_back({buffer.name, bindings.tensors[b]});
  }
  return bindings;
}

namespace {

// The dim of an output that a run computes, as the graph has it; null: there is none, or it is of another kind.
const types::Dim* dim_of(const ir::Graph& graph, const std::string& output, size_t dim) {
  for (const ir::GraphOutput& one : graph.outputs()) {
    if (one.name == output && dim < graph.type(one.node).shape.size()) return &graph.type(one.node).shape[dim];
  }
  return nullptr;
}

}  // namespace

bool TuningData::may_allow(int64_t times) const {
  constexpr double most_bytes = 1 << 30;
  const ir::Graph& graph = Program::Access::state(*program_)->graph;
  const std::vector<ir::OutputRoom> rooms = ir::output_rooms(graph);
  bool any = false;
  for (size_t o = 0; o < rooms.size(); ++o) {
    const ir::GraphOutput& output = graph.outputs()[o];
    const types::Shape& shape = graph.type(output.node).shape;
    auto bytes = static_cast<double>(dtype_size(output.dtype));
    bool open = false;
    for (size_t d = 0; d < shape.size(); ++d) {
      const bool here = !rooms[o].names[d].empty() && !ir::most_of(graph, shape[d]);
      const int64_t size = room_for(output.name, d, shape[d]);
      bytes *= static_cast<double>(here ? size / room_times_ : size) * (here ? static_cast<double>(times) : 1);
      open = open || here;
    }
    if (open && bytes > most_bytes) return false;
    any = any || open;
  }
  return any;
}

// For a size that a run computes, where nothing bounds it: what it computes it of is taken to be at most the largest of
// the sizes.
int64_t TuningData::room_for(const std::string& output, size_t dim, const types::Dim& size) const {
  const ir::Graph& graph = Program::Access::state(*program_)->graph;
  const types::Dim* const declared = dim_of(graph, output, dim);
  const auto most = declared != nullptr ? ir::most_of(graph, *declared) : std::nullopt;
  const auto known_size = [&](std::string_view symbol) -> std::optional<int64_t> {
    for (const auto& [known, hinted] : *hints_) {
      if (known == symbol) return hinted;
    }
    return unknown_size;
  };
  if (most) return std::max<int64_t>(most->evaluate(known_size).value_or(0), 0);
  int64_t largest = unknown_size, room = 0;
  for (const auto& [symbol, hinted] : *hints_) largest = std::max(largest, hinted);
  for (const int64_t computed : {int64_t{0}, largest}) {
    const auto value = [&](std::string_view symbol) -> std::optional<int64_t> {
      for (const auto& [known, hinted] : *hints_) {
        if (known == symbol) return hinted;
      }
      return computed;
    };
    room = std::max(room, size.evaluate(value).value_or(0));
  }
  return room * room_times_;
}

// Results hold anything but what is right, and donated parameters what they were given with.
Result<void> TuningData::begin_checked() const {
  for (const ProgramParameter& output : program_->outputs()) {
    const auto made = memory_.find(output.name);
    if (made == memory_.end()) continue;
    CODETTA_TRY(const Tensor poison,
                Tensor::make(made->second.view.dtype(), made->second.view.shape(), *context_->allocator));
    fill_poison(poison.view());
    CODETTA_CHECK_OK(write(made->second.view, poison.view()));
  }
  for (const auto& [name, contents] : former_) CODETTA_CHECK_OK(write(memory_.at(name).view, contents.view()));
  return {};
}

Result<std::vector<Tensor>> TuningData::results(const Execution& execution) const {
  std::vector<Tensor> all;
  for (const ProgramParameter& output : program_->outputs()) {
    const TensorView& whole = memory_.at(output.name).view;
    const Dims filled = filled_of(execution, output.name);
    CODETTA_TRY(Tensor made, read(whole));
    if (filled != whole.shape()) {  // the part that it has filled
      CODETTA_TRY(const TensorView part, TensorView::make(made.data(), whole.dtype(), filled, whole.strides()));
      CODETTA_TRY(Tensor compact, Tensor::make(whole.dtype(), filled, *context_->allocator));
      CODETTA_CHECK_OK(runtime::copy_elements({part, output.name}, {compact.view(), output.name}, *context_->pool));
      made = std::move(compact);
    }
    all.push_back(std::move(made));
  }
  return all;
}

Result<VerifyReport> TuningData::verified(const Execution& execution, std::function<bool()> goes_on) const {
  std::vector<NamedArgument> arguments = arguments_;
  VerifyOptions options;
  for (NamedArgument& argument : arguments) {
    if (argument.value.tensor() == nullptr) continue;
    const auto outputs = program_->outputs();
    const bool is_output = std::any_of(outputs.begin(), outputs.end(),
                                       [&](const ProgramParameter& output) { return output.name == argument.name; });
    if (!is_output) continue;
    const Dims filled = filled_of(execution, argument.name);
    const TensorView& whole = *argument.value.tensor();
    CODETTA_TRY(const TensorView part, TensorView::make(whole.data(), whole.dtype(), filled, whole.strides()));
    argument.value = part;
  }
  std::vector<Memory> there;
  for (const auto& [name, contents] : former_) {
    TensorView view = contents.view();
    if (device_) {
      CODETTA_TRY(Memory memory, placed(view.dtype(), view.shape()));
      CODETTA_CHECK_OK(write(memory.view, view));
      view = memory.view;
      there.push_back(std::move(memory));
    }
    options.before.emplace_back(name, view);
  }
  return verify_program(*program_, arguments, target_, options, *context_, std::move(goes_on));
}

Result<bool> TuningData::is_known(const Execution& execution) {
  CODETTA_TRY(const std::vector<Tensor> made, results(execution));
  return std::any_of(right_.begin(), right_.end(),
                     [&](const std::vector<Tensor>& known) { return same_bits(known, made); });
}

Result<void> TuningData::take_as_right(const Execution& execution) {
  CODETTA_TRY(std::vector<Tensor> made, results(execution));
  right_.push_back(std::move(made));
  judged_ = true;
  return {};
}

Result<std::string> TuningData::judge(const Execution& execution, std::function<bool()> goes_on) {
  constexpr size_t most_kept = 4;
  CODETTA_TRY(std::vector<Tensor> made, results(execution));
  for (const std::vector<Tensor>& known : right_) {
    if (same_bits(known, made)) return std::string();
  }
  using Verdict = VerifyReport::Verdict;
  const Result<VerifyReport> report = verified(execution, std::move(goes_on));
  const auto failed_by = [&](diag::Code code) { return report.error().code() == static_cast<uint16_t>(code); };
  if (!report && (failed_by(diag::Code::device_failed) || failed_by(diag::Code::compile_cancelled)))
    return report.error();
  const bool passes = report && report->verdict == Verdict::Pass;
  if (report && report->verdict == Verdict::Fail) return "wrong result: " + report->text;
  if (!passes && judged_ && trusted_) {
    return "not to be judged, neither right nor wrong: " + (report ? report->text : diag::sentence(report.error()));
  }
  if (!passes && judged_) {
    for (size_t r = 0; r < made.size(); ++r) {
      if (const auto found = disagreement_of(right_[0][r].view(), made[r].view()))
        return fmt::format("its results are not those of the first that ran: {}", *found);
    }
  }
  if (!judged_) trusted_ = passes;
  judged_ = true;
  if (right_.size() < most_kept) right_.push_back(std::move(made));
  return std::string();
}

}  // namespace codetta::driver

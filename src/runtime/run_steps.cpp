// SPDX-License-Identifier: Apache-2.0
// Running steps that are more than launches: late memory and symbols, host work, externs, control flow.
#include <array>
#include <chrono>
#include <span>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "diag/diagnostic.hpp"
#include "package/written.hpp"
#include "runtime/caller_tensors.hpp"
#include "runtime/checks.hpp"
#include "runtime/cpu/module.hpp"
#include "runtime/execution_state.hpp"
#include "runtime/passive_steps.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta::runtime {

using package::Buffer;

class Execution::State::Running : PassiveSteps {
 public:
  using PassiveSteps::operator();
  Running(State& state, ThreadPool& pool)
      : s_(state),
        p_(*state.package),
        pool_(pool),
        scratch_(state.workspace == nullptr ? nullptr : state.workspace + state.temporary_bytes()) {}

  // One pass over a list.
  Result<void> list(size_t index) {
    const std::vector<uint32_t> outer = std::exchange(made_, {});
    for (const Active& active : s_.lists[index]) {
      const int64_t begin = s_.options.observer ? now() : 0;
      if (active.start >= 0) s_.starts[static_cast<size_t>(active.start)]();
      s_.wrote = s_.wrote || package::writes(*active.step);
      if (active.launch >= 0) {
        s_.launches[static_cast<size_t>(active.launch)].run(&pool_, scratch_);
      } else {
        active_ = &active;
        CODETTA_CHECK_OK(std::visit(*this, *active.step));
      }
      if (s_.options.observer)
        CODETTA_CHECK_OK(s_.options.observer({active.step, begin, now(), s_.bindings.tensors, &s_.symbols}));
    }
    for (const uint32_t result : made_) drop(result);
    made_ = outer;
    return {};
  }

  Result<void> operator()(const package::DefineSymbol& step) {
    using From = package::DefineSymbol::From;
    int64_t source = 0;
    TensorView view;
    switch (step.from) {
      case From::Size:
      case From::Stride:
        view = s_.bindings.tensors[step.buffer];
        [[fallthrough]];
      case From::Expression: {
        CODETTA_TRY(source, symbol_source(p_, step, view, s_.symbols));
        break;
      }
      case From::Value: {
        const Buffer& buffer = p_.buffers[step.buffer];
        if (buffer.is_scalar) {
          source = s_.bindings.scalars[step.buffer].i;
          break;
        }
        CODETTA_TRY(const NamedView named, view_of(step.buffer));
        source = types::load_i64(named.view.data(), buffer.dtype);
        break;
      }
      case From::OutputSize:
      case From::OutputStride: {
        const auto& results = s_.results[step.buffer];
        CODETTA_TRY(source, size_of_output(step, results.outputs[step.output], results.name));
        break;
      }
    }
    const size_t before = s_.symbols.size();
    CODETTA_CHECK_OK(define_symbol(p_, step, view, source, s_.symbols, &s_.spare_symbols));
    if (s_.symbols.size() != before) s_.defined.push_back(&step.symbol);
    return {};
  }

  Result<void> operator()(const package::Check& step) {
    if (const auto* numbers = std::get_if<package::NanGuard>(&step.guard)) {
      CODETTA_TRY(const NamedView view, view_of(numbers->buffer));
      const std::string here = s_.where(active_->step);
      return check_numbers(view, numbers->infinity, numbers->why.empty() ? here : numbers->why + ", seen by " + here);
    }
    if (const auto* indices = std::get_if<package::IndexGuard>(&step.guard)) {
      CODETTA_TRY(const NamedView view, view_of(indices->buffer));
      CODETTA_TRY(const int64_t size, value_of(indices->size, s_.symbols, "the size that is indexed"));
      return check_indices(view, size);
    }
    return check_guard(p_, step.guard, s_.bindings.tensors, s_.symbols);
  }

  // ---- late memory
  Result<void> operator()(const package::Allocate& step) {
    CODETTA_TRY(const Form form, form_of(p_, step.buffer, s_.symbols));
    CODETTA_TRY(std::byte * data, grow(s_.blocks[step.buffer], form.bytes, p_.buffers[step.buffer].alignment));
    return set_view(step.buffer, data, form);
  }
  Result<void> operator()(const package::AllocateFromPool& step) {
    const Buffer& buffer = p_.buffers[step.buffer];
    const package::Pool& pool = p_.pools[step.pool];
    CODETTA_TRY(const Form form, form_of(p_, step.buffer, s_.symbols));
    CODETTA_TRY(const int64_t offset, value_of(step.offset, s_.symbols, "an offset"));
    std::byte* base = nullptr;
    int64_t bytes = 0;
    if (s_.pool_offset[step.pool]) {
      base = s_.workspace + *s_.pool_offset[step.pool];
      bytes = s_.pool_bytes[step.pool];
    } else {
      CODETTA_TRY(bytes, value_of(pool.bytes, s_.symbols, "the size of a pool"));
      if (bytes < 0) return size_overflow("a pool");
      CODETTA_TRY(base, grow(s_.pool_blocks[step.pool], bytes, pool.alignment));
    }
    const auto end = base::checked_add(offset, form.bytes);
    if (!end || offset < 0) return size_overflow("temporary " + buffer.name);
    if (*end > bytes) return pool_overrun(buffer, *end, step.pool, bytes);
    return set_view(step.buffer, base == nullptr ? nullptr : base + offset, form);
  }
  Result<void> operator()(const package::Free& step) {  // of a result of an extern
    const auto at = selected_.find(step.buffer);
    if (at != selected_.end()) release(s_.results[at->second.first].outputs[at->second.second]);
    s_.bindings.tensors[step.buffer] = TensorView();
    return {};
  }
  Result<void> operator()(const package::Reuse& step) {
    CODETTA_TRY(const NamedView from, view_of(step.from));
    CODETTA_CHECK_OK(s_.check_donated(step));
    CODETTA_TRY(const Form form, form_of(p_, step.buffer, s_.symbols));
    CODETTA_TRY(const TensorView view, view_into(p_, s_.bindings.tensors, step.buffer, form, step.from, 0));
    // The memory goes with the name: `from` must not grow it away while `buffer` lives.
    if (const auto block = s_.blocks.find(step.from); block != s_.blocks.end())
      std::swap(block->second, s_.blocks[step.buffer]);
    s_.bindings.tensors[step.buffer] = view;
    return {};
  }
  Result<void> operator()(const package::Reinterpret& step) {
    CODETTA_TRY(const NamedView source, view_of(step.source));
    if (!p_.buffers[step.buffer].begin.empty()) {
      CODETTA_TRY(const StaticView slice, slice_of(p_, source.view, step, s_.symbols));
      CODETTA_TRY(s_.bindings.tensors[step.buffer], slice_into(p_, source.view, slice));
      return {};
    }
    CODETTA_TRY(const Form form, form_of(p_, step.buffer, s_.symbols));
    CODETTA_TRY(const int64_t offset, value_of(p_.buffers[step.buffer].offset, s_.symbols, "an offset"));
    CODETTA_TRY(s_.bindings.tensors[step.buffer],
                view_into(p_, s_.bindings.tensors, step.buffer, form, step.source, offset));
    return {};
  }

  // ---- work
  Result<void> operator()(const package::LaunchKernel& step) {
    if (package::is_user(p_.kernels[step.kernel].config)) return run_user(step);
    LateLaunch& late = s_.late_launches[static_cast<size_t>(active_->slot)];
    std::vector<int64_t>& values = s_.launch_values;
    values.clear();
    for (const std::string* symbol : s_.defined) values.push_back(s_.symbols.find(*symbol)->second);
    const auto add_form = [&](uint32_t buffer) {
      if (p_.buffers[buffer].is_scalar) return;
      const TensorView& view = s_.bindings.tensors[buffer];
      values.insert(values.end(), view.shape().begin(), view.shape().end());
      values.insert(values.end(), view.strides().begin(), view.strides().end());
    };
    if (step.product) step.product->each_buffer(add_form);
    for (const uint32_t argument : step.arguments) add_form(argument);
    if (late.launch && late.values == values && late.symbols == s_.defined) {
      late.launch->resolve(s_.bindings);
    } else {
      if (!late.launch) late.launch.emplace();
      const auto made = late.launch->set(p_, step, s_.bindings, s_.kernels, s_.symbols, s_.options.pool->size());
      if (!made) {
        late.launch.reset();
        return made;
      }
      late.values = values;
      late.symbols = s_.defined;
    }
    const auto needed = static_cast<int64_t>(late.launch->workspace_bytes);
    void* scratch = scratch_;
    if (needed > s_.engine_bytes) {
      if (static_cast<int64_t>(s_.late_scratch.byte_size()) < needed) {
        s_.late_scratch = Tensor();
        CODETTA_TRY(s_.late_scratch, Tensor::make(DType::u8, {needed}, *s_.options.allocator));
      }
      scratch = s_.late_scratch.data();
    }
    late.launch->run(&pool_, scratch);
    return {};
  }

  // Numbers are put into `scalars`, which has as many places and stays where it is.
  Result<void> add_tensors(const std::vector<uint32_t>& buffers, std::vector<std::array<std::byte, 8>>& scalars,
                           std::vector<CodettaTensor>& tensors) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      const Buffer& buffer = p_.buffers[buffers[i]];
      if (buffer.is_scalar) {
        store_scalar(s_.bindings.scalars[buffers[i]], buffer.dtype, scalars[i].data());
        tensors.push_back({});
        tensors.back().data = scalars[i].data();
        tensors.back().dtype = static_cast<int32_t>(buffer.dtype);
        continue;
      }
      CODETTA_TRY(const NamedView view, view_of(buffers[i]));
      tensors.push_back(tensor_of(view.view, buffer.device));
    }
    return {};
  }
  Result<void> run_user(const package::LaunchKernel& step) {
    const package::Kernel& kernel = p_.kernels[step.kernel];
    std::vector<std::array<std::byte, 8>> scalars(step.arguments.size());
    std::vector<CodettaTensor> tensors;
    CODETTA_CHECK_OK(add_tensors(step.arguments, scalars, tensors));
    size_t inputs = 0;
    while (inputs < tensors.size() && !kernel.epilogue.arguments[inputs].is_output) ++inputs;
    const int code = s_.kernels[step.kernel].user(nullptr, tensors.data(), static_cast<int>(inputs),
                                                  tensors.data() + inputs, static_cast<int>(tensors.size() - inputs));
    if (code == 0) return {};
    return diag::error(diag::Code::extern_failed, fmt::format("kernel {} failed", kernel.name))
        .reason(fmt::format("{}: it returned {}", s_.where(active_->step), code))
        .help("the code is the kernel's own");
  }

  Result<void> operator()(const package::CallExtern& step) {
    const ExternFunction& function = s_.externs.at(&step);
    std::vector<std::array<std::byte, 8>> scalars(step.inputs.size());
    std::vector<CodettaTensor> inputs, outputs;
    CODETTA_CHECK_OK(add_tensors(step.inputs, scalars, inputs));
    const bool allocates = step.form == package::CallExtern::Form::Alloc;
    if (allocates) outputs.resize(step.output_count);
    for (const uint32_t output : step.outputs) {
      CODETTA_TRY(const NamedView view, view_of(output));
      outputs.push_back(tensor_of(view.view, p_.buffers[output].device));
    }
    const int code = function.function(function.context, inputs.data(), static_cast<int>(inputs.size()), outputs.data(),
                                       static_cast<int>(outputs.size()));
    if (allocates) {
      s_.results[step.result] = {std::move(outputs), step.name};
      made_.push_back(step.result);
    }
    if (code == 0) return {};
    return diag::error(diag::Code::extern_failed, fmt::format("external function {} failed", step.name))
        .reason(fmt::format("{}: it returned {}", s_.where(active_->step), code))
        .help("the code is the function's own");
  }
  Result<void> operator()(const package::SelectOutput& step) {
    const auto& results = s_.results[step.result];
    CODETTA_TRY(s_.bindings.tensors[step.buffer], view_of_output(p_.buffers[step.buffer], results.outputs[step.output],
                                                                 step.output, results.name, s_.symbols));
    selected_[step.buffer] = {step.result, step.output};
    return {};
  }
  Result<void> operator()(const package::Copy& step) {
    CODETTA_TRY(const NamedView source, view_of(step.source));
    CODETTA_TRY(const NamedView target, view_of(step.target));
    return copy_elements(source, target, pool_);
  }
  Result<void> operator()(const package::Fill& step) {
    CODETTA_TRY(const NamedView target, view_of(step.buffer));
    if (step.mode == package::ZeroMode::Once) {
      OnceFill& kept = s_.once_fills[static_cast<size_t>(active_->slot)];
      const OnceFill now{target.view.data(), s_.growth, target.view.element_count()};
      if (kept == now) return {};
      kept = now;
    }
    fill_elements(target.view, step.bits);
    return {};
  }
  Result<void> operator()(const package::IndexPut& step) {
    CODETTA_TRY(const NamedView target, view_of(step.target));
    CODETTA_TRY(const NamedView values, view_of(step.values));
    std::vector<NamedView> indices;
    for (const uint32_t index : step.indices) {
      CODETTA_TRY(NamedView view, view_of(index));
      indices.push_back(std::move(view));
    }
    return index_put(target, indices, values, step.accumulate, s_.options.checked);
  }
  Result<void> operator()(const package::Scatter& step) {
    CODETTA_TRY(const NamedView target, view_of(step.target));
    CODETTA_TRY(const NamedView index, view_of(step.index));
    CODETTA_TRY(const NamedView source, view_of(step.source));
    return scatter(target, index, source, step.dim, step.reduce, s_.options.checked);
  }

  Result<void> operator()(const package::If& step) {
    CODETTA_TRY(const bool taken, holds(step.predicate));
    return list(size_t{1} + (taken ? step.then_list : step.else_list));
  }
  Result<void> operator()(const package::While& step) {
    const package::Step* loop = active_->step;
    const size_t mark = s_.defined.size();
    for (int64_t pass = 0;; ++pass) {
      s_.forget_symbols(mark);
      CODETTA_CHECK_OK(list(size_t{1} + step.condition));
      CODETTA_TRY(const bool more, holds(step.predicate));
      if (!more) return {};
      if (step.limit != 0 && pass >= step.limit)
        return endless_loop(pass, s_.where(loop) + ": ", p_.buffers[step.predicate].name);
      CODETTA_CHECK_OK(list(size_t{1} + step.body));
    }
  }

 private:
  // Since the run began.
  [[nodiscard]] int64_t now() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - began_).count();
  }
  // With exactly the declared dims; what the caller bound fits its declaration.
  Result<NamedView> view_of(uint32_t index) {
    const Buffer& buffer = p_.buffers[index];
    const TensorView& view = s_.bindings.tensors[index];
    const bool bound = buffer.role == Buffer::Role::Argument || buffer.role == Buffer::Role::Output;
    if (bound) CODETTA_CHECK_OK(check_view(buffer, view, s_.symbols));
    return NamedView{with_rank(view, static_cast<int>(buffer.shape.size())), buffer.name};
  }
  Result<bool> holds(uint32_t predicate) {
    if (p_.buffers[predicate].is_scalar) return s_.bindings.scalars[predicate].i != 0;
    CODETTA_TRY(const NamedView named, view_of(predicate));
    return *named.view.as<unsigned char>() != 0;
  }
  Result<void> set_view(uint32_t buffer, std::byte* data, const Form& form) {
    CODETTA_TRY(s_.bindings.tensors[buffer],
                TensorView::make(static_cast<void*>(data), p_.buffers[buffer].dtype, form.shape, form.strides));
    return {};
  }
  Result<std::byte*> grow(Tensor& block, int64_t bytes, int64_t unit) {
    const auto padded = base::checked_add(bytes, unit > 64 ? unit : 0);
    if (!padded || *padded > INT64_MAX / 2) return size_overflow("a temporary");
    if (static_cast<int64_t>(block.byte_size()) < *padded) {
      block = Tensor();  // its contents end here, and both together would be a higher peak
      ++s_.growth;
      CODETTA_TRY(block, Tensor::make(DType::u8, {*padded}, *s_.options.allocator));
    }
    auto* data = static_cast<std::byte*>(block.data());
    const auto over = reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(unit);
    return data == nullptr || over == 0 ? data : data + (static_cast<uintptr_t>(unit) - over);
  }
  void drop(uint32_t result) {
    const auto at = s_.results.find(result);
    if (at == s_.results.end()) return;
    for (CodettaTensor& output : at->second.outputs) release(output);
    s_.results.erase(at);
  }

  State& s_;
  const package::Package& p_;
  ThreadPool& pool_;
  std::byte* scratch_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  const Active* active_ = nullptr;
  std::vector<uint32_t> made_;                                  // results of the list that runs
  std::map<uint32_t, std::pair<uint32_t, uint32_t>> selected_;  // buffer -> result and output
};

Result<void> Execution::State::run_steps(ThreadPool& pool) { return Running(*this, pool).list(0); }

void Execution::State::note_filled() {
  for (auto& [buffer, sizes] : filled) {
    sizes = Dims();
    for (const types::Dim& dim : package->buffers[buffer].filled) sizes.push_back(dim.evaluate(symbols).value_or(0));
  }
}

void Execution::State::end_run() {
  forget_symbols(0);
  for (auto& [index, result] : results) {
    for (CodettaTensor& output : result.outputs) release(output);
  }
  results.clear();
}

void Execution::State::forget_symbols(size_t mark) {
  while (defined.size() > mark) {
    spare_symbols.push_back(symbols.extract(*defined.back()));
    defined.pop_back();
  }
}

}  // namespace codetta::runtime

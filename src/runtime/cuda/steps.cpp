// SPDX-License-Identifier: Apache-2.0
// Resolving and running the steps of a CUDA package. Streams and events keep the order of the list: everything is
// enqueued on the caller's stream.
#include <algorithm>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "diag/diagnostic.hpp"
#include "runtime/cuda/execution_state.hpp"
#include "runtime/cuda/stream.hpp"
#include "runtime/passive_steps.hpp"

namespace codetta::runtime::cuda {

using package::Buffer;

namespace {

// One byte, as often as an element has bytes.
bool one_byte(DType dtype, uint64_t bits) {
  for (int64_t i = 1; i < dtype_size(dtype); ++i) {
    if ((bits >> (8 * i) & 0xFF) != (bits & 0xFF)) return false;
  }
  return true;
}

}  // namespace

class Execution::State::Preparing : PassiveSteps {
 public:
  using PassiveSteps::operator();
  explicit Preparing(State& state) : s_(state), p_(*state.package) {}

  Result<void> walk(const package::StepList& steps, size_t list) {
    const size_t outer = std::exchange(list_, list);
    for (size_t i = 0; i < steps.size(); ++i) {
      step_ = &steps[i];
      position_ = i;
      CODETTA_CHECK_OK(std::visit(*this, steps[i]));
    }
    list_ = outer;
    return {};
  }

  Result<void> operator()(const package::DefineSymbol& step) {
    using From = package::DefineSymbol::From;
    if (list_ != 0) return refused("symbols that a child list defines are not known before the run");
    if (step.from == From::OutputSize || step.from == From::OutputStride) return refused(no_externs);
    const bool value = step.from == From::Value;
    if (value && !p_.buffers[step.buffer].is_scalar)
      return refused("a size in device memory is not known before the run; pass it as a scalar");
    const bool of_view = step.from == From::Size || step.from == From::Stride;
    const TensorView view = of_view ? s_.bindings.tensors[step.buffer] : TensorView();
    int64_t source = 0;
    if (value) {
      source = s_.bindings.scalars[step.buffer].i;
    } else {
      CODETTA_TRY(source, symbol_source(p_, step, view, s_.symbols));
    }
    return define_symbol(p_, step, view, source, s_.symbols);
  }
  Result<void> operator()(const package::Check& step) {
    if (std::holds_alternative<package::NanGuard>(step.guard) ||
        std::holds_alternative<package::IndexGuard>(step.guard))
      return refused("contents of device memory are not looked at");
    if (list_ != 0) return refused("a check in a child list would come too late to stop the kernels in front of it");
    if (!s_.checked) return {};
    return check_guard(p_, step.guard, s_.bindings.tensors, s_.symbols);
  }

  Result<void> operator()(const package::Allocate& step) {
    CODETTA_TRY(Form form, form_of(p_, step.buffer, s_.symbols));
    const auto offset = s_.own.take(form.bytes, std::max(workspace_alignment, p_.buffers[step.buffer].alignment));
    if (!offset || p_.buffers[step.buffer].alignment > workspace_alignment)
      return offset ? refused("temporaries are aligned to at most 256 bytes")
                    : Result<void>(size_overflow("temporary " + p_.buffers[step.buffer].name));
    if (form.bytes > 0) s_.own_offset[step.buffer] = *offset;
    return add_view({step.buffer, StaticView::Base::Own, 0, *offset, form.shape, form.strides});
  }
  Result<void> operator()(const package::AllocateFromPool& step) {
    const package::Pool& pool = p_.pools[step.pool];
    if (pool.alignment > workspace_alignment) return refused("pools are aligned to at most 256 bytes");
    if (!s_.pool_offset[step.pool]) {
      const auto bytes = pool.bytes.evaluate(s_.symbols);
      const auto end = bytes ? base::checked_add(s_.pools_end, *bytes) : std::nullopt;
      const auto rounded = end ? base::checked_round_up(*end, workspace_alignment) : std::nullopt;
      if (!rounded || *bytes < 0 || *rounded > INT64_MAX / 4) return size_overflow("a pool");
      s_.pool_offset[step.pool] = s_.pools_end;
      s_.pool_bytes[step.pool] = *bytes;
      s_.pools_end = *rounded;
    }
    const Buffer& buffer = p_.buffers[step.buffer];
    CODETTA_TRY(Form form, form_of(p_, step.buffer, s_.symbols));
    const auto offset = step.offset.evaluate(s_.symbols);
    const auto end = offset ? base::checked_add(*offset, form.bytes) : std::nullopt;
    if (!end || *offset < 0) return size_overflow("temporary " + buffer.name);
    if (*end > s_.pool_bytes[step.pool]) return pool_overrun(buffer, *end, step.pool, s_.pool_bytes[step.pool]);
    return add_view(
        {step.buffer, StaticView::Base::Pools, 0, *s_.pool_offset[step.pool] + *offset, form.shape, form.strides});
  }
  Result<void> operator()(const package::Free& step) {
    if (const auto at = s_.own_offset.find(step.buffer); at != s_.own_offset.end()) {
      s_.own.give_back(at->second);
      s_.own_offset.erase(at);
    }
    return {};
  }
  Result<void> operator()(const package::Reuse& step) {
    if (p_.buffers[step.from].donated) return refused("donated arguments are not reused");
    if (const auto at = s_.own_offset.find(step.from); at != s_.own_offset.end()) {
      const int64_t offset = at->second;
      s_.own_offset.erase(at);
      s_.own_offset[step.buffer] = offset;  // the place goes with the memory
    }
    CODETTA_TRY(Form form, form_of(p_, step.buffer, s_.symbols));
    return add_view({step.buffer, StaticView::Base::Buffer, step.from, 0, form.shape, form.strides});
  }
  Result<void> operator()(const package::Reinterpret& step) {
    CODETTA_TRY(Form form, form_of(p_, step.buffer, s_.symbols));
    const auto offset = p_.buffers[step.buffer].offset.evaluate(s_.symbols);
    if (!offset) return size_overflow("the offset of " + p_.buffers[step.buffer].name);
    return add_view({step.buffer, StaticView::Base::Buffer, step.source, *offset, form.shape, form.strides});
  }

  Result<void> operator()(const package::LaunchKernel& step) {
    if (package::is_user(p_.kernels[step.kernel].config)) {
      if (!step.options.maps.empty()) return refused("kernels of the user's take no tensor maps");
      CODETTA_TRY(UserLaunch made, UserLaunch::make(p_, step, s_.bindings, s_.modules[step.kernel], s_.symbols));
      s_.lists[list_].push_back({step_, -1, -1, static_cast<int32_t>(s_.user_launches.size())});
      s_.user_launches.push_back(std::move(made));
      return {};
    }
    package::LaunchOptions plain;
    plain.programmatic = step.options.programmatic;  // a hint: what does not overlap is right, too
    if (!(step.options == plain))
      return refused(
          "grids, clusters, cooperative launches, tensor maps and L2 windows are what kernels of Codetta choose");
    if (step.product && (step.product->products() > 1 || !step.product->b_made.empty()))
      return refused("kernels of GPUs compute one product, of factors in memory");
    if (package::is_vendor(p_.kernels[step.kernel].config)) {
      if (s_.vendor == nullptr) return refused("it is a kernel of the vendor's library, which is not loaded");
      CODETTA_TRY(VendorLaunch made, VendorLaunch::make(p_, step, s_.bindings, s_.vendor, s_.symbols));
      CODETTA_CHECK_OK(add_scratch(made.workspace_bytes));
      s_.lists[list_].push_back({step_, -1, static_cast<int32_t>(s_.vendor_launches.size())});
      s_.vendor_launches.push_back(std::move(made));
      return {};
    }
    CODETTA_TRY(Launch made, Launch::make(p_, step, s_.bindings, s_.modules[step.kernel], s_.symbols));
    CODETTA_CHECK_OK(add_scratch(made.workspace_bytes));
    add(static_cast<int32_t>(s_.launches.size()));
    s_.launches.push_back(std::move(made));
    return {};
  }
  Result<void> operator()(const package::Copy& step) {
    CODETTA_CHECK_OK(check_bound(step.source));
    CODETTA_CHECK_OK(check_bound(step.target));
    const TensorView &source = s_.bindings.tensors[step.source], &target = s_.bindings.tensors[step.target];
    if (source.element_count() != target.element_count()) {
      return diag::error(diag::Code::guard_failed, fmt::format("{} has the wrong shape", p_.buffers[step.source].name))
          .reason(fmt::format("it is {}; the copy goes to {}", source.describe(), target.describe()))
          .help("bind tensors whose sizes agree");
    }
    if (!source.is_row_major() || !target.is_row_major()) return refused("only contiguous tensors are copied");
    add(-1);
    return {};
  }
  Result<void> operator()(const package::Fill& step) {
    if (step.mode == package::ZeroMode::None) return {};
    CODETTA_CHECK_OK(check_bound(step.buffer));
    const TensorView& view = s_.bindings.tensors[step.buffer];
    if (!view.is_row_major() || !one_byte(view.dtype(), step.bits))
      return refused("only contiguous tensors are filled, with a value whose bytes are equal");
    if (step.mode == package::ZeroMode::Once) {
      s_.once.push_back(&step);
    } else {
      add(-1);
    }
    return {};
  }
  Result<void> operator()(const package::If& step) {
    add(-1);
    CODETTA_CHECK_OK(walk(p_.step_lists[step.then_list], step.then_list + size_t{1}));
    return walk(p_.step_lists[step.else_list], step.else_list + size_t{1});
  }
  Result<void> operator()(const package::While& step) {
    add(-1);
    CODETTA_CHECK_OK(walk(p_.step_lists[step.condition], step.condition + size_t{1}));
    return walk(p_.step_lists[step.body], step.body + size_t{1});
  }

  Result<void> operator()(const package::CallExtern&) { return refused(no_externs); }
  Result<void> operator()(const package::SelectOutput&) { return refused(no_externs); }
  Result<void> operator()(const package::IndexPut&) { return refused("indexed writes are kernels on a GPU"); }
  Result<void> operator()(const package::Scatter&) { return refused("indexed writes are kernels on a GPU"); }
  Result<void> operator()(const package::EnterDevice& step) {
    return step.device == 0 ? Result<void>() : refused("one device is used");
  }

 private:
  static constexpr const char* no_externs = "functions of the caller's are not called between kernels";

  void add(int32_t launch) { s_.lists[list_].push_back({step_, launch, -1}); }
  Result<void> add_scratch(int64_t bytes) {
    const auto sum = base::checked_add(s_.scratch_bytes, bytes);
    if (!sum || *sum > INT64_MAX / 4) return size_overflow("the workspace");
    s_.scratch_bytes = *sum;
    return {};
  }
  Result<void> add_view(StaticView view) {
    TensorView& at = s_.bindings.tensors[view.buffer];
    if (view.base == StaticView::Base::Buffer) {
      const Form form{view.shape, view.strides, bytes_of(view)};
      CODETTA_TRY(at, view_into(p_, s_.bindings.tensors, view.buffer, form, view.source, view.offset));
    } else {
      // Until place(): never read, but distinct, aligned and not null.
      const uintptr_t base = view.base == StaticView::Base::Own ? uintptr_t{1} << 44 : 4096;
      CODETTA_TRY(at, TensorView::make(reinterpret_cast<void*>(base + static_cast<uintptr_t>(view.offset)),
                                       p_.buffers[view.buffer].dtype, view.shape, view.strides));
    }
    s_.views.push_back(view);
    return {};
  }
  [[nodiscard]] int64_t bytes_of(const StaticView& view) const {
    const auto form = form_of(p_, view.buffer, s_.symbols);  // has succeeded before
    return form ? form->bytes : 0;
  }
  Result<void> check_bound(uint32_t index) const {
    const Buffer& buffer = p_.buffers[index];
    const bool bound = buffer.role == Buffer::Role::Argument || buffer.role == Buffer::Role::Output;
    return bound ? check_view(buffer, s_.bindings.tensors[index], s_.symbols) : Result<void>();
  }
  Result<void> refused(const char* why) const {
    const std::string list = list_ == 0 ? "" : fmt::format("list {}, ", list_ - 1);
    return diag::error(diag::Code::step_unsupported, fmt::format("{}step {} ({}) can not run on {}", list, position_,
                                                                 name_of(*step_), p_.target.to_string()))
        .reason(why)
        .help("docs/features.md lists what runs where");
  }

  State& s_;
  const package::Package& p_;
  size_t list_ = 0, position_ = 0;
  const package::Step* step_ = nullptr;
};

Result<void> Execution::State::prepare() {
  bindings.tensors.resize(package->buffers.size());
  bindings.scalars.resize(package->buffers.size());
  lists.resize(package->step_lists.size() + 1);
  pool_offset.resize(package->pools.size());
  pool_bytes.resize(package->pools.size());
  if (checked) CODETTA_CHECK_OK(check_places());
  CODETTA_CHECK_OK(bind_constants());
  if (checked) CODETTA_CHECK_OK(check_outputs(*package, bindings.tensors));
  return Preparing(*this).walk(package->steps, 0);
}

Result<void> Execution::State::run_list(size_t list, StreamHandle stream) const {
  for (const Active& active : lists[list]) {
    if (active.vendor >= 0) {
      const VendorLaunch& launch = vendor_launches[static_cast<size_t>(active.vendor)];
      const NvtxRange range(ranges.get(), launch.name());
      CODETTA_CHECK_OK(launch.run(stream));
      continue;
    }
    if (active.user >= 0) {
      const UserLaunch& launch = user_launches[static_cast<size_t>(active.user)];
      const NvtxRange range(ranges.get(), launch.name());
      const Status status = launch.run(stream);
      if (status == Status::Success) continue;
      return device->driver().failure(status,
                                      fmt::format("Failed to launch kernel {}: cuLaunchKernelEx", launch.name()),
                                      fmt::format("{}, stream = {}", launch.describe(), static_cast<void*>(stream)));
    }
    if (active.launch < 0) {
      CODETTA_CHECK_OK(run_step(*active.step, stream));
      continue;
    }
    const Launch& launch = launches[static_cast<size_t>(active.launch)];
    const NvtxRange range(ranges.get(), launch.name());
    const Status status = launch.run(stream);
    if (status == Status::Success) continue;
    return device->driver().failure(status, "cuLaunchKernelEx",
                                    fmt::format("{}, stream = {}", launch.name(), static_cast<void*>(stream)));
  }
  return {};
}

// What prepare lets through beside launches.
Result<void> Execution::State::run_step(const package::Step& step, StreamHandle stream) const {
  if (const auto* filled = std::get_if<package::Fill>(&step)) return fill(*filled, stream);
  if (const auto* copied = std::get_if<package::Copy>(&step)) {
    const TensorView &source = bindings.tensors[copied->source], &target = bindings.tensors[copied->target];
    const auto bytes = static_cast<size_t>(source.element_count() * dtype_size(source.dtype()));
    return device->copy(reinterpret_cast<DeviceAddress>(target.data()), reinterpret_cast<DeviceAddress>(source.data()),
                        bytes, stream);
  }
  if (const auto* branch = std::get_if<package::If>(&step)) {
    CODETTA_TRY(const bool taken, holds(branch->predicate, stream));
    return run_list(size_t{1} + (taken ? branch->then_list : branch->else_list), stream);
  }
  if (const auto* loop = std::get_if<package::While>(&step)) {
    for (int64_t pass = 0;; ++pass) {
      CODETTA_CHECK_OK(run_list(size_t{1} + loop->condition, stream));
      CODETTA_TRY(const bool more, holds(loop->predicate, stream));
      if (!more) return {};
      if (loop->limit != 0 && pass >= loop->limit)
        return endless_loop(pass, {}, package->buffers[loop->predicate].name);
      CODETTA_CHECK_OK(run_list(size_t{1} + loop->body, stream));
    }
  }
  return {};
}

Result<void> Execution::State::fill(const package::Fill& step, StreamHandle stream) const {
  const TensorView& view = bindings.tensors[step.buffer];
  if (view.empty()) return {};
  return device->fill(reinterpret_cast<DeviceAddress>(view.data()), static_cast<unsigned char>(step.bits & 0xFF),
                      static_cast<size_t>(view.element_count() * dtype_size(view.dtype())), stream);
}

// Waits for the stream.
Result<bool> Execution::State::holds(uint32_t predicate, StreamHandle stream) const {
  if (package->buffers[predicate].is_scalar) return bindings.scalars[predicate].i != 0;
  CODETTA_TRY(const bool capturing, device->capturing(stream));
  if (capturing) {
    return diag::error(diag::Code::capture_active, "a branch can not be captured")
        .reason(fmt::format("{} is read on the host to decide what runs", package->buffers[predicate].name))
        .help("run the program outside of the capture, or decide by a scalar argument");
  }
  unsigned char value = 0;
  CODETTA_CHECK_OK(
      device->download(&value, reinterpret_cast<DeviceAddress>(bindings.tensors[predicate].data()), 1, stream));
  CODETTA_CHECK_OK(device->synchronize(stream));
  return value != 0;
}

}  // namespace codetta::runtime::cuda

// SPDX-License-Identifier: Apache-2.0
// Resolving the steps of a CUDA package. Its own streams and events keep the order of the list: what runs on the first
// device is enqueued on the caller's stream.
#include <algorithm>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "diag/diagnostic.hpp"
#include "package/factors.hpp"
#include "package/gpu_call.hpp"
#include "package/gpu_steps.hpp"
#include "package/look_ahead.hpp"
#include "package/only_on_nvidia.hpp"
#include "runtime/cuda/execution_state.hpp"
#include "runtime/host_ops.hpp"
#include "runtime/passive_steps.hpp"

namespace codetta::runtime::cuda {

using package::Buffer;

class Execution::State::Preparing : PassiveSteps {
 public:
  using PassiveSteps::operator();
  explicit Preparing(State& state)
      : s_(state), p_(*state.package), copies_(package::device_copies(p_)), scope_(state.scope) {}

  Result<void> walk(const package::StepList& steps, size_t list) {
    const size_t outer = std::exchange(list_, list), scopes = scope_.size();
    for (size_t i = list == 0 ? s_.first : 0; i < steps.size(); ++i) {
      step_ = &steps[i];
      position_ = i;
      CODETTA_CHECK_OK(std::visit(*this, steps[i]));
      if (s_.late.find(list) != s_.late.end()) break;  // what is behind it is resolved in the run
      if (std::exchange(never_runs_, false)) break;
    }
    list_ = outer;
    scope_.resize(scopes);
    return {};
  }

  Result<void> operator()(const package::DefineSymbol& step) {
    using From = package::DefineSymbol::From;
    const bool value = step.from == From::Value;
    if (list_ != 0 && !value) return refused("symbols that a child list defines are not known before the run");
    // What a list that is not run says may be no size.
    if (value && (list_ != 0 || !p_.buffers[step.buffer].is_scalar)) {
      CODETTA_CHECK_OK(check_bound(step.buffer));
      wait();
      return {};
    }
    if (step.from == From::OutputSize || step.from == From::OutputStride) return define_from_output(step);
    const bool of_view = step.from == From::Size || step.from == From::Stride;
    if (step.from == From::Stride && !p_.buffers[step.buffer].filled.empty())
      CODETTA_CHECK_OK(check_bound(step.buffer));  // before anything runs
    const TensorView view = of_view ? s_.bindings.tensors[step.buffer] : TensorView();
    int64_t source = 0;
    if (value) {
      source = s_.bindings.scalars[step.buffer].i;
    } else {
      CODETTA_TRY(source, symbol_source(p_, step, view, s_.symbols));
    }
    Result<void> defined = define_symbol(p_, step, view, source, s_.symbols);
    // What a kernel of the user's would not take, another package writes.
    if (source < 0 && package::ascends(p_, step)) s_.unaligned = !defined;
    return defined;
  }
  Result<void> operator()(const package::Check& step) {
    if (const auto* nan = std::get_if<package::NanGuard>(&step.guard)) return look(nan->buffer);
    if (const auto* index = std::get_if<package::IndexGuard>(&step.guard)) return look(index->buffer);
    const bool relied = package::written_by_user(p_, step.guard).has_value();
    if ((relied || std::holds_alternative<package::UnitStrideGuard>(step.guard)) && list_ == 0) {
      Result<void> fits = check_guard(p_, step.guard, s_.bindings.tensors, s_.symbols);
      s_.unaligned = !fits;
      return fits;
    }
    // As on a CPU: where a child list begins with sizes out of range, the rest of it has none.
    if (list_ != 0 && std::holds_alternative<package::RangeGuard>(step.guard))
      never_runs_ = !check_guard(p_, step.guard, s_.bindings.tensors, s_.symbols);
    if (!s_.checked && !never_runs_) return {};
    if (list_ == 0) return check_guard(p_, step.guard, s_.bindings.tensors, s_.symbols);
    add({});  // whether a child list runs is known then
    return {};
  }

  Result<void> operator()(const package::Allocate& step) {
    CODETTA_TRY(Form form, form_of(p_, step.buffer, s_.symbols));
    const auto offset =
        memory_of(step.buffer).own.take(form.bytes, std::max(workspace_alignment, p_.buffers[step.buffer].alignment));
    if (!offset || p_.buffers[step.buffer].alignment > workspace_alignment)
      return offset ? refused("temporaries are aligned to at most 256 bytes")
                    : Result<void>(size_overflow("temporary " + p_.buffers[step.buffer].name));
    if (form.bytes > 0) s_.own_offset[step.buffer] = *offset;
    return add_view({step.buffer, StaticView::Base::Own, 0, *offset, form.shape, form.strides});
  }
  Result<void> operator()(const package::AllocateFromPool& step) {
    const package::Pool& pool = p_.pools[step.pool];
    const auto& placed = s_.pool_address[step.pool];
    if (pool.alignment > workspace_alignment) return refused("pools are aligned to at most 256 bytes");
    if (!placed && !s_.pool_offset[step.pool]) {
      const auto bytes = pool.bytes.evaluate(s_.symbols);
      int64_t& pools_end = s_.memory[pool.device].pools_end;
      const auto end = bytes ? base::checked_add(pools_end, *bytes) : std::nullopt;
      const auto rounded = end ? base::checked_round_up(*end, workspace_alignment) : std::nullopt;
      if (!rounded || *bytes < 0 || *rounded > INT64_MAX / 4) return size_overflow("a pool");
      s_.pool_offset[step.pool] = pools_end;
      s_.pool_bytes[step.pool] = *bytes;
      pools_end = *rounded;
    }
    const Buffer& buffer = p_.buffers[step.buffer];
    CODETTA_TRY(Form form, form_of(p_, step.buffer, s_.symbols));
    const auto offset = step.offset.evaluate(s_.symbols);
    const auto end = offset ? base::checked_add(*offset, form.bytes) : std::nullopt;
    if (!end || *offset < 0) return size_overflow("temporary " + buffer.name);
    if (*end > s_.pool_bytes[step.pool]) return pool_overrun(buffer, *end, step.pool, s_.pool_bytes[step.pool]);
    if (placed) {
      CODETTA_TRY(s_.bindings.tensors[step.buffer],
                  TensorView::make(reinterpret_cast<void*>(*placed + static_cast<uint64_t>(*offset)), buffer.dtype,
                                   form.shape, form.strides));
      return {};
    }
    return add_view(
        {step.buffer, StaticView::Base::Pools, 0, *s_.pool_offset[step.pool] + *offset, form.shape, form.strides});
  }
  Result<void> operator()(const package::Free& step) {
    if (s_.selected.count(step.buffer) != 0) add({});
    if (const auto at = s_.own_offset.find(step.buffer); at != s_.own_offset.end()) {
      memory_of(step.buffer).own.give_back(at->second);
      s_.own_offset.erase(at);
    }
    return {};
  }
  Result<void> operator()(const package::Reuse& step) {
    CODETTA_CHECK_OK(check_donated(step));
    if (const auto at = s_.own_offset.find(step.from); at != s_.own_offset.end()) {
      const int64_t offset = at->second;
      s_.own_offset.erase(at);
      s_.own_offset[step.buffer] = offset;  // the place goes with the memory
    }
    CODETTA_TRY(Form form, form_of(p_, step.buffer, s_.symbols));
    return add_view({step.buffer, StaticView::Base::Buffer, step.from, 0, form.shape, form.strides});
  }
  Result<void> operator()(const package::Reinterpret& step) {
    if (!p_.buffers[step.buffer].begin.empty()) {
      CODETTA_CHECK_OK(check_bound(step.source));
      CODETTA_TRY(StaticView slice, slice_of(p_, s_.bindings.tensors[step.source], step, s_.symbols));
      return add_view(std::move(slice));
    }
    CODETTA_TRY(Form form, form_of(p_, step.buffer, s_.symbols));
    const auto offset = p_.buffers[step.buffer].offset.evaluate(s_.symbols);
    if (!offset) return size_overflow("the offset of " + p_.buffers[step.buffer].name);
    return add_view({step.buffer, StaticView::Base::Buffer, step.source, *offset, form.shape, form.strides});
  }

  Result<void> operator()(const package::LaunchKernel& step) {
    if (package::is_user(p_.kernels[step.kernel].config)) {
      const std::string_view nvidia = package::only_on_nvidia(step.options);
      if (p_.target.backend == Backend::hip && !nvidia.empty())
        return refused(fmt::format("{} are of NVIDIA GPUs", nvidia).c_str());
      CODETTA_TRY(UserLaunch made, UserLaunch::make(p_, step, s_.bindings, here().modules[step.kernel], s_.symbols));
      add({.user = static_cast<int32_t>(s_.user_launches.size())});
      s_.user_launches.push_back(std::move(made));
      return {};
    }
    package::LaunchOptions plain;
    plain.programmatic = step.options.programmatic;  // a hint: what does not overlap is right, too
    if (!(step.options == plain))
      return refused(
          "grids, clusters, cooperative launches, tensor maps and L2 windows are what kernels of Codetta choose");
    const package::EpilogueProgram& program = p_.kernels[step.kernel].epilogue;
    if (step.product && !package::factors_are_inside(*step.product, program)) return refused(package::factors_outside);
    if (Result<void> even = check_callers_factors(p_, step, s_.bindings.tensors); !even) {
      s_.unaligned = true;
      return even;
    }
    if (package::is_vendor(p_.kernels[step.kernel].config)) {
      if (here().vendor == nullptr) return refused("it is a kernel of the vendor's library, which is not loaded");
      CODETTA_TRY(VendorLaunch made, VendorLaunch::make(p_, step, s_.bindings, here().vendor, s_.symbols));
      CODETTA_CHECK_OK(add_scratch(made));
      add({.vendor = static_cast<int32_t>(s_.vendor_launches.size())});
      s_.vendor_launches.push_back(std::move(made));
      return {};
    }
    CODETTA_TRY(Launch made,
                Launch::make(p_, step, s_.bindings, here().modules[step.kernel], s_.symbols, s_.unaligned));
    if (made.gathers_nothing && list_ == 0) return *made.gathers_nothing;
    CODETTA_CHECK_OK(add_scratch(made));
    add({.launch = static_cast<int32_t>(s_.launches.size())});
    s_.launches.push_back(std::move(made));
    return {};
  }
  Result<void> operator()(const package::Copy& step) {
    CODETTA_CHECK_OK(check_bound(step.source));
    CODETTA_CHECK_OK(check_bound(step.target));
    const TensorView &source = s_.bindings.tensors[step.source], &target = s_.bindings.tensors[step.target];
    if (source.element_count() != target.element_count()) return other_shape(step);
    const uint32_t from = p_.buffers[step.source].device, to = p_.buffers[step.target].device;
    if (from != to) return between(step, from, to);
    // It stands anywhere, and runs where its tensors lie.
    scope_.push_back(to);
    Result<void> added;
    if (!source.is_row_major() || !target.is_row_major()) {
      added = on_elements();
    } else {
      add({});
    }
    scope_.pop_back();
    return added;
  }
  Result<void> operator()(const package::Fill& step) {
    if (step.mode == package::ZeroMode::None) return {};
    CODETTA_CHECK_OK(check_bound(step.buffer));
    const TensorView& view = s_.bindings.tensors[step.buffer];
    const bool by_driver = view.is_row_major() && package::one_byte(view.dtype(), step.bits);
    if (step.mode == package::ZeroMode::Once) {
      s_.once.push_back({&step, -1});
      if (by_driver) return {};
      CODETTA_TRY(s_.once.back().on_elements, make_on_elements());
      return {};
    }
    if (!by_driver) return on_elements();
    add({});
    return {};
  }
  Result<void> operator()(const package::If& step) {
    add_control();
    CODETTA_CHECK_OK(walk(p_.step_lists[step.then_list], step.then_list + size_t{1}));
    return walk(p_.step_lists[step.else_list], step.else_list + size_t{1});
  }
  Result<void> operator()(const package::While& step) {
    add_control();
    CODETTA_CHECK_OK(walk(p_.step_lists[step.condition], step.condition + size_t{1}));
    return walk(p_.step_lists[step.body], step.body + size_t{1});
  }

  Result<void> operator()(const package::CallExtern& step) {
    const bool allocates = step.form == package::CallExtern::Form::Alloc;
    std::string names;
    for (const ExternFunction& known : s_.outside.externs) {
      names += (names.empty() ? "" : ", ") + known.name;
      if (known.name != step.name || known.function == nullptr) continue;
      s_.externs[&step] = known;
      for (const uint32_t buffer : step.inputs) CODETTA_CHECK_OK(check_bound(buffer));
      for (const uint32_t buffer : step.outputs) CODETTA_CHECK_OK(check_bound(buffer));
      if (allocates) {
        wait();
      } else {
        add({});
      }
      return {};
    }
    return diag::error(diag::Code::extern_missing, fmt::format("external function {} is not provided", step.name))
        .reason(fmt::format("step {} ({}) calls it; provided are: {}", position_, name_of(*step_),
                            names.empty() ? "none" : names))
        .help("pass a function of that name when preparing the program");
  }
  Result<void> operator()(const package::SelectOutput& step) {
    CODETTA_TRY(s_.bindings.tensors[step.buffer],
                view_of_output(p_.buffers[step.buffer], output_of(step.result, step.output), step.output, "a function",
                               s_.symbols));
    s_.selected[step.buffer] = {step.result, step.output};
    if (s_.watch != nullptr) add({});  // there is something to be told, but nothing to do
    return {};
  }
  Result<void> operator()(const package::IndexPut& step) {
    for (const uint32_t index : step.indices) CODETTA_CHECK_OK(check_bound(index));
    for (const uint32_t buffer : {step.target, step.values}) CODETTA_CHECK_OK(check_bound(buffer));
    return on_elements();
  }
  Result<void> operator()(const package::Scatter& step) {
    for (const uint32_t buffer : {step.target, step.index, step.source}) CODETTA_CHECK_OK(check_bound(buffer));
    return on_elements();
  }
  Result<void> operator()(const package::EnterDevice& step) {
    scope_.push_back(step.device);
    return {};
  }
  Result<void> operator()(const package::ExitDevice&) {
    scope_.pop_back();
    return {};
  }

 private:
  // The list goes on in the run, behind this step.
  void wait() {
    Late& part = *(s_.late[list_] = std::make_unique<Late>());
    part.cause = step_;
    part.list = list_;
    part.first = position_ + 1;
    part.scope = scope_;
  }
  [[nodiscard]] const Place& here() const { return (*s_.places)[scope_.back()]; }
  [[nodiscard]] Memory& memory_of(uint32_t buffer) { return s_.memory[p_.buffers[buffer].device]; }
  [[nodiscard]] const CodettaTensor& output_of(uint32_t result, uint32_t output) const {
    return (*s_.results)[result][output];  // its call stands in front, in a part that has run
  }
  Result<void> define_from_output(const package::DefineSymbol& step) {
    CODETTA_TRY(const int64_t source, size_of_output(step, output_of(step.buffer, step.output), "a function"));
    return define_symbol(p_, step, TensorView(), source, s_.symbols);
  }

  void add(Active active) {
    active.step = step_;
    active.device = scope_.back();
    s_.lists[list_].push_back(active);
  }
  // It enqueues nothing itself.
  void add_control() {
    scope_.push_back(0);
    add({});
    scope_.pop_back();
  }
  Result<void> between(const package::Copy& step, uint32_t from, uint32_t to) {
    const TensorView &source = s_.bindings.tensors[step.source], &target = s_.bindings.tensors[step.target];
    if (!(source.shape() == target.shape())) return other_shape(step);
    Between made{order_of(step)};
    const auto part = [&](uint32_t device, StepLaunch::Part what, int32_t& launch) -> Result<void> {
      scope_.push_back(device);
      const auto resolved = make_on_elements(what);
      scope_.pop_back();
      if (!resolved) return resolved.error();
      launch = *resolved;
      return {};
    };
    const bool moves = !source.empty();
    if (moves && !source.is_row_major()) CODETTA_CHECK_OK(part(from, StepLaunch::Part::Gather, made.gather));
    if (moves && !target.is_row_major()) CODETTA_CHECK_OK(part(to, StepLaunch::Part::Scatter, made.scatter));
    scope_.push_back(to);
    add({.between = static_cast<int32_t>(s_.between.size())});
    scope_.pop_back();
    s_.between.push_back(made);
    if (moves) (*s_.places)[to].device->reach(*(*s_.places)[from].device);
    return {};
  }
  [[nodiscard]] const package::DeviceCopy& order_of(const package::Copy& step) const {
    return *std::find_if(copies_.begin(), copies_.end(), [&](const auto& copy) { return copy.step == &step; });
  }
  [[nodiscard]] Error other_shape(const package::Copy& step) const {
    return diag::error(diag::Code::guard_failed, fmt::format("{} has the wrong shape", p_.buffers[step.source].name))
        .reason(fmt::format("it is {}; the copy goes to {}", s_.bindings.tensors[step.source].describe(),
                            s_.bindings.tensors[step.target].describe()))
        .help("bind tensors whose sizes agree");
  }
  // A launch of the package's kernel for such steps: its place among those of the state.
  Result<int32_t> make_on_elements(StepLaunch::Part part = StepLaunch::Part::Whole) {
    const auto kernel = package::steps_kernel(p_);
    if (!kernel || here().modules[*kernel] == nullptr) {
      const Result<void> lacking = refused("the package has no kernel for steps on elements");
      return lacking.error();
    }
    CODETTA_TRY(StepLaunch made, StepLaunch::make(p_, *step_, s_.bindings, s_.symbols, here().modules[*kernel], part));
    CODETTA_CHECK_OK(add_scratch(made));
    FaultWord& fault = s_.memory[scope_.back()].fault;
    if (s_.contents && made.looks() && fault.get() == nullptr) {
      CODETTA_TRY(fault, FaultWord::make(here().device));
    }
    s_.step_launches.push_back(std::move(made));
    return static_cast<int32_t>(s_.step_launches.size() - 1);
  }
  Result<void> on_elements() {
    CODETTA_TRY(const int32_t made, make_on_elements());
    add({.on_elements = made});
    return {};
  }
  // A check of contents: where these are not checked there is none.
  Result<void> look(uint32_t buffer) {
    if (!s_.contents) return {};
    CODETTA_CHECK_OK(check_bound(buffer));
    return on_elements();
  }
  template <class L>
  Result<void> add_scratch(L& launch) {
    launch.on_device = scope_.back();
    Memory& on = s_.memory[launch.on_device];
    if (launch.workspace_bytes > INT64_MAX / 8) return size_overflow("the workspace");
    bool shared = true;
    if constexpr (requires { launch.piece_at; }) {
      if (launch.has_piece()) {
        const auto sum = base::checked_add(on.piece_bytes, launch.workspace_bytes);
        if (!sum || *sum > INT64_MAX / 8) return size_overflow("the workspace");
        launch.piece_at = on.piece_bytes;
        on.piece_bytes = *sum;
        shared = false;
      }
    }
    if (shared) on.scratch_bytes = std::max(on.scratch_bytes, launch.workspace_bytes);
    if constexpr (requires { launch.counters_at; }) {
      const auto counted = base::checked_add(on.counter_bytes, launch.counter_bytes());
      if (!counted || *counted > INT64_MAX / 8) return size_overflow("the workspace");
      launch.counters_at = on.counter_bytes;
      on.counter_bytes = *counted;
    }
    return {};
  }
  Result<void> add_view(StaticView view) {
    TensorView& at = s_.bindings.tensors[view.buffer];
    if (!p_.buffers[view.buffer].begin.empty()) {
      CODETTA_TRY(at, slice_into(p_, s_.bindings.tensors[view.source], view));
    } else if (view.base == StaticView::Base::Buffer) {
      const Form form{view.shape, view.strides, bytes_of(view)};
      CODETTA_TRY(at, view_into(p_, s_.bindings.tensors, view.buffer, form, view.source, view.offset));
    } else {
      // Until place(): never read, but distinct, aligned and not null.
      uintptr_t base = view.base == StaticView::Base::Own ? uintptr_t{1} << 44 : 4096;
      base += uintptr_t{p_.buffers[view.buffer].device} << 48;
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
  // Memory of a donated argument lies in one piece and is aligned as what takes it over.
  Result<void> check_donated(const package::Reuse& step) const {
    const Buffer& from = p_.buffers[step.from];
    if (!from.donated) return {};
    CODETTA_CHECK_OK(check_bound(step.from));
    const TensorView& view = s_.bindings.tensors[step.from];
    const int64_t wanted = p_.buffers[step.buffer].alignment;
    const auto over = reinterpret_cast<uintptr_t>(view.data()) % static_cast<uintptr_t>(wanted);
    if (view.empty() || (view.is_row_major() && over == 0)) return {};
    return diag::error(diag::Code::guard_failed, fmt::format("donated {} can not be reused", from.name))
        .about(from.name)
        .reason(over != 0 ? fmt::format("its address is {} modulo {}", over, wanted)
                          : fmt::format("it lies in pieces: its strides are {}", to_string(view.strides())))
        .help("donate aligned memory that lies in one piece, or none");
  }
  Result<void> check_bound(uint32_t index) const {
    if (p_.buffers[index].is_scalar) return {};
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
  std::vector<package::DeviceCopy> copies_;
  size_t list_ = 0, position_ = 0;
  std::vector<uint32_t> scope_;  // devices, from the outermost: the last one's steps are resolved
  const package::Step* step_ = nullptr;
  bool never_runs_ = false;  // what is behind it in its list
};

// Dims of size 1 may stand in front of a bound view or be missing there. What has others in front fits nothing.
void Execution::State::bring_to_declared_rank() {
  for (size_t i = 0; i < package->buffers.size(); ++i) {
    const Buffer& buffer = package->buffers[i];
    TensorView& view = bindings.tensors[i];
    const int declared = static_cast<int>(buffer.shape.size());
    if (buffer.is_scalar || (buffer.role != Buffer::Role::Argument && buffer.role != Buffer::Role::Output)) continue;
    bool fits = true;
    for (int d = 0; d < view.rank() - declared; ++d) fits = fits && view.size(d) == 1;
    if (fits) view = with_rank(view, declared);
  }
}

namespace {

// Where a temporary will lie, or what is seen of one, as far as strides and alignment go. Nothing: these sizes are
// none.
std::optional<TensorView> place_ahead(const package::Package& package, const package::LookAhead::Place& place,
                                      const Bindings& bindings, const Symbols& symbols) {
  const Buffer& buffer = package.buffers[place.buffer];
  const TensorView source = place.source ? bindings.tensors[*place.source] : TensorView();
  auto address = place.source ? reinterpret_cast<uintptr_t>(source.data()) : uintptr_t{Execution::workspace_alignment};
  if (!place.begin.empty()) {
    Dims sizes, strides;
    for (size_t d = 0; d < place.begin.size(); ++d) {
      const auto begin = place.begin[d].evaluate(symbols), size = buffer.shape[d].evaluate(symbols);
      if (!begin || !size || *begin < 0 || static_cast<int>(d) >= source.rank()) return std::nullopt;
      sizes.push_back(*size);
      strides.push_back(source.stride(static_cast<int>(d)));
      address += static_cast<uintptr_t>(*begin * source.stride(static_cast<int>(d)) * dtype_size(buffer.dtype));
    }
    const auto view = TensorView::make(reinterpret_cast<void*>(address), buffer.dtype, sizes, strides);
    return view ? std::optional(*view) : std::nullopt;
  }
  const auto offset = buffer.offset.evaluate(symbols);
  const auto form = form_of(package, place.buffer, symbols);
  if (!form || !offset) return std::nullopt;
  address += place.source ? static_cast<uintptr_t>(*offset) : uintptr_t{0};
  const auto view = TensorView::make(reinterpret_cast<void*>(address), buffer.dtype, form->shape, form->strides);
  return view ? std::optional(*view) : std::nullopt;
}

}  // namespace

Result<void> Execution::State::check_late_places() {
  const Late* behind = own_late();
  const size_t from = behind != nullptr ? behind->first - 1 : package::first_control(*package);
  const package::LookAhead ahead = package::look_ahead(*package, from);
  Symbols sizes = symbols;
  for (const auto& [symbol, most] : ahead.sizes) {
    if (const auto value = most.evaluate(sizes)) sizes.insert_or_assign(symbol, *value);
  }
  for (const auto& [launch, is_known, lie] : ahead.looks) {
    const Result<void> even = check_callers_factors(*package, *launch, bindings.tensors);
    Bindings assumed = bindings;
    bool known = is_known;
    for (const package::LookAhead::Place& place : lie) {
      auto view = known ? place_ahead(*package, place, assumed, sizes) : std::nullopt;
      known = view.has_value();
      if (known) assumed.tensors[place.buffer] = *std::move(view);
    }
    bool other_may = false;
    const Result<void> taken = known ? Launch::check(*package, *launch, assumed, sizes, other_may) : Result<void>();
    unaligned = !even || other_may;  // what no other kernel takes is the run's to say
    if (unaligned) return even ? taken : even;
  }
  return {};
}

Result<void> Execution::State::prepare() {
  bindings.tensors.resize(package->buffers.size());
  bindings.scalars.resize(package->buffers.size());
  lists.resize(package->step_lists.size() + 1);
  pool_offset.resize(package->pools.size());
  pool_bytes.resize(package->pools.size());
  pool_address.resize(package->pools.size());
  memory.resize(places->size());
  const bool whole = root == 0 && first == 0;
  if (whole) {
    bring_to_declared_rank();
    if (checked) CODETTA_CHECK_OK(check_places());
    CODETTA_CHECK_OK(bind_constants());
    if (checked) CODETTA_CHECK_OK(check_outputs(*package, bindings.tensors));
  }
  CODETTA_CHECK_OK(Preparing(*this).walk(root == 0 ? package->steps : package->step_lists[root - 1], 0));
  return whole && !late.empty() ? check_late_places() : Result<void>();
}

}  // namespace codetta::runtime::cuda

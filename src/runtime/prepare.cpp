// SPDX-License-Identifier: Apache-2.0
// Resolving steps before the first run.
#include <algorithm>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "diag/diagnostic.hpp"
#include "package/factors.hpp"
#include "package/written.hpp"
#include "runtime/checks.hpp"
#include "runtime/cpu/module.hpp"
#include "runtime/execution_state.hpp"
#include "runtime/passive_steps.hpp"

namespace codetta::runtime {

using package::Buffer;

namespace {

// Memory of the workspace seems to lie here until place(): never read, but distinct, aligned and not null.
constexpr uintptr_t unplaced_pools = 1 << 12;
constexpr uintptr_t unplaced_own = uintptr_t{1} << 44;
std::byte* unplaced(uintptr_t base, int64_t offset) {
  return reinterpret_cast<std::byte*>(base + static_cast<uintptr_t>(offset));
}

bool is_bound(const Buffer& buffer) {
  return buffer.role == Buffer::Role::Argument || buffer.role == Buffer::Role::Output;
}

}  // namespace

Result<void> Execution::State::check_donated(const package::Reuse& step) const {
  const Buffer& from = package->buffers[step.from];
  const TensorView& view = bindings.tensors[step.from];
  if (!from.donated || view.empty()) return {};
  const int64_t wanted = package->buffers[step.buffer].alignment;
  const auto over = reinterpret_cast<uintptr_t>(view.data()) % static_cast<uintptr_t>(wanted);
  if (view.is_row_major() && over == 0) return {};
  return diag::error(diag::Code::guard_failed, fmt::format("donated {} can not be reused", from.name))
      .about(from.name)
      .reason(over != 0 ? fmt::format("its address is {} modulo {}", over, wanted)
                        : fmt::format("it lies in pieces: its strides are {}", to_string(view.strides())))
      .help("donate aligned memory that lies in one piece, or none");
}

// Walks the main list and, where they stand, child lists. Each visitor decides whether its step is static.
class Execution::State::Preparing : PassiveSteps {
 public:
  using PassiveSteps::operator();  // all devices are the one memory of this process
  explicit Preparing(State& state) : s_(state), p_(*state.package) {}

  Result<void> walk(const package::StepList& steps, size_t list) {
    const size_t outer = std::exchange(list_, list);
    for (const package::Step& step : steps) {
      step_ = &step;
      CODETTA_CHECK_OK(std::visit(*this, step));
      if (std::exchange(never_runs_, false)) break;
    }
    list_ = outer;
    return {};
  }

  Result<void> operator()(const package::DefineSymbol& step) {
    using From = package::DefineSymbol::From;
    bool fixed = list_ == 0 && known(step.divisor) && known(step.value);
    if (step.from == From::Size || step.from == From::Stride) fixed = fixed && is_static(step.buffer);
    // All that such an output is bound to is asked of it before anything runs.
    if (step.from == From::Stride && !p_.buffers[step.buffer].filled.empty())
      CODETTA_CHECK_OK(check_bound(step.buffer));
    const bool scalar = step.from == From::Value && p_.buffers[step.buffer].is_scalar;
    if (step.from == From::OutputSize || step.from == From::OutputStride || (step.from == From::Value && !scalar))
      fixed = false;
    if (!fixed) return later();
    const TensorView view = step.from == From::Expression || scalar ? TensorView() : s_.bindings.tensors[step.buffer];
    int64_t source = 0;
    if (scalar) {
      source = s_.bindings.scalars[step.buffer].i;
    } else {
      CODETTA_TRY(source, symbol_source(p_, step, view, s_.symbols));
    }
    Result<void> defined = define_symbol(p_, step, view, source, s_.symbols);
    if (source < 0 && s_.options.unaligned != nullptr && package::ascends(p_, step)) *s_.options.unaligned = !defined;
    return defined;
  }
  Result<void> operator()(const package::Check& step) {
    if (std::holds_alternative<package::UnitStrideGuard>(step.guard) && list_ == 0) {
      Result<void> fits = check_guard(p_, step.guard, s_.bindings.tensors, s_.symbols);
      if (!fits && s_.options.unaligned != nullptr) *s_.options.unaligned = true;
      return fits;
    }
    // Where a child list begins with sizes out of range, the rest of it has none. That it runs is refused in unchecked
    // runs, too.
    const auto* range = std::get_if<package::RangeGuard>(&step.guard);
    if (range != nullptr && list_ != 0 && Fixed{*this}(*range)) {
      never_runs_ = !check_guard(p_, step.guard, s_.bindings.tensors, s_.symbols);
      return never_runs_ || s_.options.checked ? later() : Result<void>();
    }
    if (!s_.options.checked) return {};
    const bool contents = std::holds_alternative<package::NanGuard>(step.guard) ||
                          std::holds_alternative<package::IndexGuard>(step.guard);
    if (list_ != 0 || contents || !std::visit(Fixed{*this}, step.guard)) return later();
    return check_guard(p_, step.guard, s_.bindings.tensors, s_.symbols);
  }

  Result<void> operator()(const package::Allocate& step) {
    const Buffer& buffer = p_.buffers[step.buffer];
    if (!known_form(buffer)) return late_memory(step.buffer);
    CODETTA_TRY(const Form form, form_of(p_, step.buffer, s_.symbols));
    const auto offset = s_.own.take(form.bytes, buffer.alignment);
    if (!offset) return size_overflow("temporary " + buffer.name);
    s_.alignment = std::max(s_.alignment, buffer.alignment);
    s_.homes[step.buffer] = {Place::Static, form.bytes > 0, *offset};
    return add_view({step.buffer, StaticView::Base::Own, 0, *offset, form.shape, form.strides});
  }
  Result<void> operator()(const package::AllocateFromPool& step) {
    const package::Pool& pool = p_.pools[step.pool];
    s_.alignment = std::max(s_.alignment, pool.alignment);
    if (!s_.pool_offset[step.pool] && known(pool.bytes)) {
      const auto bytes = pool.bytes.evaluate(s_.symbols);
      const auto begin = base::checked_round_up(s_.pools_end, pool.alignment);
      const auto end = bytes && begin ? base::checked_add(*begin, *bytes) : std::nullopt;
      const auto rounded = end ? base::checked_round_up(*end, 64) : std::nullopt;
      if (!rounded || *bytes < 0 || *rounded > INT64_MAX / 4) return size_overflow("a pool");
      s_.pool_offset[step.pool] = *begin;
      s_.pool_bytes[step.pool] = *bytes;
      s_.pools_end = *rounded;
    }
    const Buffer& buffer = p_.buffers[step.buffer];
    if (!s_.pool_offset[step.pool] || !known(step.offset) || !known_form(buffer)) return late_memory(step.buffer);
    CODETTA_TRY(const Form form, form_of(p_, step.buffer, s_.symbols));
    const auto offset = step.offset.evaluate(s_.symbols);
    const auto end = offset ? base::checked_add(*offset, form.bytes) : std::nullopt;
    if (!end || *offset < 0) return size_overflow("temporary " + buffer.name);
    if (*end > s_.pool_bytes[step.pool]) return pool_overrun(buffer, *end, step.pool, s_.pool_bytes[step.pool]);
    s_.homes[step.buffer].place = Place::Static;
    return add_view(
        {step.buffer, StaticView::Base::Pools, 0, *s_.pool_offset[step.pool] + *offset, form.shape, form.strides});
  }
  Result<void> operator()(const package::Free& step) {
    Home& home = s_.homes[step.buffer];
    if (home.place == Place::Extern) return later();
    if (home.own) s_.own.give_back(home.own_offset);
    home.own = false;
    return {};
  }
  Result<void> operator()(const package::Reuse& step) {
    const bool fixed = is_static(step.from) && known_form(p_.buffers[step.buffer]);
    Home& from = s_.homes[step.from];
    Home& to = s_.homes[step.buffer];
    if (from.own) to = {Place::Late, true, from.own_offset};  // the place goes with the memory
    from.own = false;
    if (!fixed) {
      to.place = Place::Late;
      return later();
    }
    to.place = Place::Static;
    CODETTA_CHECK_OK(check_bound(step.from));
    CODETTA_CHECK_OK(s_.check_donated(step));
    CODETTA_TRY(const Form form, form_of(p_, step.buffer, s_.symbols));
    return add_view({step.buffer, StaticView::Base::Buffer, step.from, 0, form.shape, form.strides});
  }
  Result<void> operator()(const package::Reinterpret& step) {
    const Buffer& buffer = p_.buffers[step.buffer];
    const bool placed = known(buffer.offset) && std::all_of(buffer.begin.begin(), buffer.begin.end(),
                                                            [&](const types::Dim& dim) { return known(dim); });
    if (!is_static(step.source) || !known_form(buffer) || !placed) {
      s_.homes[step.buffer].place = Place::Late;
      return later();
    }
    s_.homes[step.buffer].place = Place::Static;
    sliced_[step.buffer] = is_bound(p_.buffers[step.source]);
    CODETTA_CHECK_OK(check_bound(step.source));
    if (!buffer.begin.empty()) {
      CODETTA_TRY(StaticView slice, slice_of(p_, s_.bindings.tensors[step.source], step, s_.symbols));
      return add_view(std::move(slice));
    }
    CODETTA_TRY(const Form form, form_of(p_, step.buffer, s_.symbols));
    const auto offset = buffer.offset.evaluate(s_.symbols);
    if (!offset) return size_overflow("the offset of " + buffer.name);
    return add_view({step.buffer, StaticView::Base::Buffer, step.source, *offset, form.shape, form.strides});
  }

  Result<void> operator()(const package::LaunchKernel& step) {
    package::LaunchOptions plain;
    plain.programmatic = step.options.programmatic;  // a hint, and launches run one by one here
    if (!(step.options == plain)) {
      return diag::error(diag::Code::step_unsupported,
                         fmt::format("{} can not run on {}", s_.where(step_), p_.target.to_string()))
          .reason("grids, clusters, cooperative launches, tensor maps and L2 windows are of GPUs")
          .help("build the package for a GPU, or without them");
    }
    const package::Kernel& kernel = p_.kernels[step.kernel];
    if (package::is_user(kernel.config)) {
      CODETTA_CHECK_OK(check_all_bound(step.arguments));
      if (s_.kernels[step.kernel].user != nullptr) return later();
      return diag::error(diag::Code::jit_disabled, fmt::format("kernel {} is not compiled", kernel.name))
          .reason("it is a kernel of the user's, for which there is no interpreter")
          .help("allow the use of a compiler");
    }
    CODETTA_CHECK_OK(check_callers_rows(step));
    if (fixed_launch(step)) {
      auto made = Launch::make(p_, step, s_.bindings, s_.kernels, s_.symbols, s_.options.pool->size());
      if (!made && list_ == 0) return made.error();
      if (made) {  // in a child list it may be that what does not fit never runs
        s_.engine_bytes = std::max(s_.engine_bytes, static_cast<int64_t>(made->workspace_bytes));
        add({step_, static_cast<int32_t>(s_.launches.size()), -1});
        s_.launches.push_back(std::move(*made));
        return {};
      }
    }
    add({step_, -1, static_cast<int32_t>(s_.late_launches.size())});
    s_.late_launches.emplace_back();
    return {};
  }
  Result<void> operator()(const package::CallExtern& step) {
    std::string names;
    for (const ExternFunction& known : s_.options.externs) {
      if (known.name == step.name && known.function != nullptr) {
        s_.externs[&step] = known;
        CODETTA_CHECK_OK(check_all_bound(step.inputs));
        CODETTA_CHECK_OK(check_all_bound(step.outputs));
        return later();
      }
      names += (names.empty() ? "" : ", ") + known.name;
    }
    return diag::error(diag::Code::extern_missing, fmt::format("external function {} is not provided", step.name))
        .reason(fmt::format("{} calls it; provided are: {}", s_.where(step_), names.empty() ? "none" : names))
        .help("pass a function of that name when preparing the program");
  }
  Result<void> operator()(const package::SelectOutput& step) {
    s_.homes[step.buffer].place = Place::Extern;
    return later();
  }
  Result<void> operator()(const package::Copy& step) { return host_step({step.source, step.target}); }
  Result<void> operator()(const package::Fill& step) {
    if (step.mode == package::ZeroMode::None) return {};
    if (step.mode == package::ZeroMode::PerCall) return host_step({step.buffer});
    if (is_static(step.buffer)) {
      s_.static_once.push_back(&step);
      return {};
    }
    add({step_, -1, static_cast<int32_t>(s_.once_fills.size())});
    s_.once_fills.emplace_back();
    return {};
  }
  Result<void> operator()(const package::IndexPut& step) {
    CODETTA_CHECK_OK(check_all_bound(step.indices));
    return host_step({step.target, step.values});
  }
  Result<void> operator()(const package::Scatter& step) { return host_step({step.target, step.index, step.source}); }
  Result<void> operator()(const package::If& step) {
    CODETTA_CHECK_OK(check_bound(step.predicate));
    CODETTA_CHECK_OK(later());
    CODETTA_CHECK_OK(walk(p_.step_lists[step.then_list], step.then_list + size_t{1}));
    return walk(p_.step_lists[step.else_list], step.else_list + size_t{1});
  }
  Result<void> operator()(const package::While& step) {
    CODETTA_CHECK_OK(check_bound(step.predicate));
    CODETTA_CHECK_OK(later());
    CODETTA_CHECK_OK(walk(p_.step_lists[step.condition], step.condition + size_t{1}));
    return walk(p_.step_lists[step.body], step.body + size_t{1});
  }

 private:
  // Whether a guard speaks of static things only.
  struct Fixed {
    const Preparing& prepare;
    bool operator()(const package::EqualGuard& g) const { return prepare.known(g.left) && prepare.known(g.right); }
    bool operator()(const package::UnitStrideGuard& g) const { return prepare.is_static(g.buffer); }
    bool operator()(const package::NoOverlapGuard& g) const {
      const auto planned = [&](uint32_t buffer) { return !is_bound(prepare.p_.buffers[buffer]); };
      return planned(g.output) || planned(g.other) || (prepare.is_static(g.output) && prepare.is_static(g.other));
    }
    bool operator()(const package::SizeGuard& g) const { return prepare.is_static(g.buffer) && prepare.known(g.size); }
    bool operator()(const package::StrideGuard& g) const {
      return prepare.is_static(g.buffer) && prepare.known(g.stride);
    }
    // A workspace's address is not known yet.
    bool operator()(const package::AlignmentGuard& g) const { return s(prepare).homes[g.buffer].place == Place::Bound; }
    bool operator()(const package::DivisibleGuard& g) const {
      return prepare.known(g.value) && prepare.known(g.divisor);
    }
    bool operator()(const package::RangeGuard& g) const {
      return prepare.known(g.value) && prepare.known(g.least) && prepare.known(g.most);
    }
    bool operator()(const package::NanGuard&) const { return false; }
    bool operator()(const package::IndexGuard&) const { return false; }
    static const State& s(const Preparing& prepare) { return prepare.s_; }
  };

  bool known(const types::Dim& dim) const {
    if (dim.is_constant()) return true;
    for (const std::string& symbol : dim.symbols()) {
      if (!s_.symbols.contains(symbol)) return false;
    }
    return true;
  }
  bool known_form(const Buffer& buffer) const {
    const auto is_known = [&](const types::Dim& dim) { return known(dim); };
    return std::all_of(buffer.shape.begin(), buffer.shape.end(), is_known) &&
           std::all_of(buffer.strides.begin(), buffer.strides.end(), is_known);
  }
  bool is_static(uint32_t buffer) const {
    const Place place = s_.homes[buffer].place;
    return place == Place::Bound || place == Place::Static;
  }
  bool fixed_launch(const package::LaunchKernel& step) const {
    const auto fixed = [&](uint32_t buffer) {
      return p_.buffers[buffer].is_scalar || (is_static(buffer) && known_form(p_.buffers[buffer]));
    };
    if (!std::all_of(step.arguments.begin(), step.arguments.end(), fixed)) return false;
    if (const auto& product = step.product) {
      bool all = known(product->k);
      for (const package::FactorView* view : {&product->a_view, &product->b_view}) {
        for (const package::FactorDim& dim : *view) all = all && known(dim.scale) && known(dim.size);
      }
      product->each_buffer([&](uint32_t buffer) { all = all && fixed(buffer); });
      for (const package::Prologue& made : product->b_made)
        all = all && known_operands(p_.kernels[made.kernel].epilogue);
      if (!all) return false;
    }
    for (const types::Dim* dim : {&step.batch, &step.m, &step.n}) {
      if (!known(*dim)) return false;
    }
    const package::EpilogueProgram& program = p_.kernels[step.kernel].epilogue;
    return known_operands(program) && known(program.split.chunk);
  }
  bool known_operands(const package::EpilogueProgram& program) const {
    for (const package::Operand& operand : program.operands) {
      for (const package::IndexTerm& term : operand.terms) {
        if (!known(term.scale)) return false;
      }
      for (const auto& offset : operand.offsets) {
        if (!known(offset.second)) return false;
      }
    }
    return std::all_of(program.sizes.begin(), program.sizes.end(), [&](const types::Dim& size) { return known(size); });
  }

  // Where another package may take over, it is asked of a caller's factors wherever the product stands: also in a child
  // list, before anything has run.
  Result<void> check_callers_rows(const package::LaunchKernel& step) const {
    if (s_.options.unaligned == nullptr || !step.product) return {};
    Result<void> even = check_callers_factors(p_, step, s_.bindings.tensors);
    if (!even) *s_.options.unaligned = true;
    if (!even || s_.kernels[step.kernel].fused == nullptr) return even;
    const Buffer& buffer = p_.buffers[step.product->a];
    const TensorView& a = s_.bindings.tensors[step.product->a];
    const package::FactorView& view = step.product->a_view;  // k is its last dim
    if (!(is_bound(buffer) || sliced_[step.product->a]) || (view.empty() && a.rank() < 2)) return {};
    const int along_k = a.rank() - (view.empty() ? step.product->a_transposed ? 2 : 1 : view.back().dim + 1);
    if (along_k < 0) return {};  // there is one k
    const int64_t apart = view.empty() || view.back().scale == types::Dim::constant(1) ? 1 : 2;
    Result<void> fits = check_rows(buffer.name, a.size(along_k), a.stride(along_k) * apart);
    if (!fits) *s_.options.unaligned = true;
    return fits;
  }

  void add(Active active) {
    if (s_.options.starting) {
      if (std::function<void()> start = s_.options.starting(*active.step)) {
        active.start = static_cast<int32_t>(s_.starts.size());
        s_.starts.push_back(std::move(start));
      }
    }
    s_.lists[list_].push_back(active);
  }
  Result<void> later() {
    add({step_, -1, -1});
    return {};
  }
  Result<void> late_memory(uint32_t buffer) {
    s_.homes[buffer].place = Place::Late;
    return later();
  }
  Result<void> host_step(std::initializer_list<uint32_t> buffers) {
    for (const uint32_t buffer : buffers) CODETTA_CHECK_OK(check_bound(buffer));
    return later();
  }
  // What the caller bound fits its declaration, as far as that is known; in a child list that is looked at when it
  // runs.
  Result<void> check_bound(uint32_t buffer) const {
    const Buffer& b = p_.buffers[buffer];
    if (b.is_scalar || !is_bound(b) || list_ != 0 || !known_form(b)) return {};
    return check_view(b, s_.bindings.tensors[buffer], s_.symbols);
  }
  Result<void> check_all_bound(const std::vector<uint32_t>& buffers) const {
    for (const uint32_t buffer : buffers) CODETTA_CHECK_OK(check_bound(buffer));
    return {};
  }
  Result<void> add_view(StaticView view) {
    TensorView& at = s_.bindings.tensors[view.buffer];
    const DType dtype = p_.buffers[view.buffer].dtype;
    if (!p_.buffers[view.buffer].begin.empty()) {
      CODETTA_TRY(at, slice_into(p_, s_.bindings.tensors[view.source], view));
    } else if (view.base == StaticView::Base::Buffer) {
      CODETTA_TRY(const Form form, form_of(p_, view.buffer, s_.symbols));
      CODETTA_TRY(at, view_into(p_, s_.bindings.tensors, view.buffer, form, view.source, view.offset));
    } else {
      const uintptr_t base = view.base == StaticView::Base::Own ? unplaced_own : unplaced_pools;
      CODETTA_TRY(at,
                  TensorView::make(static_cast<void*>(unplaced(base, view.offset)), dtype, view.shape, view.strides));
    }
    s_.static_views.push_back(view);
    return {};
  }

  State& s_;
  const package::Package& p_;
  size_t list_ = 0;
  const package::Step* step_ = nullptr;
  bool never_runs_ = false;                                          // what is behind it in its list
  std::vector<bool> sliced_ = std::vector<bool>(p_.buffers.size());  // by buffer: a view of what the caller bound
};

Result<void> Execution::State::bind_constants() {
  for (size_t i = 0; i < package->buffers.size(); ++i) {
    const Buffer& buffer = package->buffers[i];
    if (buffer.role != Buffer::Role::Constant) continue;
    homes[i].place = Place::Bound;
    if (!buffer.external.empty()) {
      const auto view = options.weights ? options.weights(buffer.external) : std::nullopt;
      if (!view) {
        return diag::error(diag::Code::weights_missing, fmt::format("constant {} is not provided", buffer.external))
            .reason(fmt::format("the program takes {}{} of that name from outside", dtype_name(buffer.dtype),
                                types::to_string(buffer.shape)))
            .help("pass the weights file that the program was built with");
      }
      CODETTA_CHECK_OK(check_view(buffer, *view, {}));
      bindings.tensors[i] = *view;
      continue;
    }
    Dims shape;
    for (const types::Dim& dim : buffer.shape) shape.push_back(dim.as_constant().value_or(-1));
    CODETTA_TRY(const TensorView view,
                TensorView::make(static_cast<const void*>(buffer.constant.data()), buffer.dtype, shape));
    if (static_cast<uint64_t>(view.element_count() * dtype_size(buffer.dtype)) != buffer.constant.size()) {
      return diag::error(diag::Code::package_damaged, "package is damaged")
          .reason(
              fmt::format("constant {} is {} and has {} bytes", buffer.name, view.describe(), buffer.constant.size()))
          .help("build the package again");
    }
    bindings.tensors[i] = view;
  }
  return {};
}

Result<void> Execution::State::prepare() {
  const size_t buffers = package->buffers.size();
  bindings.tensors.resize(buffers);
  bindings.scalars.resize(buffers);
  homes.resize(buffers);
  kernels.resize(package->kernels.size());
  lists.resize(package->step_lists.size() + 1);
  pool_offset.resize(package->pools.size());
  pool_bytes.resize(package->pools.size());
  for (size_t i = 0; i < buffers; ++i) {
    if (is_bound(package->buffers[i])) homes[i].place = Place::Bound;
    if (!package->buffers[i].filled.empty()) filled.emplace_back(static_cast<uint32_t>(i), Dims());
  }
  CODETTA_CHECK_OK(bind_constants());
  if (options.checked) CODETTA_CHECK_OK(check_outputs(*package, bindings.tensors));
  CODETTA_CHECK_OK(Preparing(*this).walk(package->steps, 0));
  only_launches = !options.observer && starts.empty() &&
                  std::all_of(lists[0].begin(), lists[0].end(), [](const Active& a) { return a.launch >= 0; });
  return {};
}

int64_t Execution::State::bytes() const {
  return temporary_bytes() + engine_bytes + (alignment > 64 ? alignment - 64 : 0);
}

// Points static memory into `memory` and lets every launch recompute the addresses that depend on it.
void Execution::State::place(std::byte* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const auto unit = static_cast<uintptr_t>(alignment);
  workspace = memory == nullptr ? nullptr : memory + (address + unit - 1) / unit * unit - address;
  for (const StaticView& view : static_views) {
    std::byte* data = nullptr;
    switch (view.base) {
      case StaticView::Base::Pools:
        data = workspace + view.offset;
        break;
      case StaticView::Base::Own:
        data = workspace + own_begin() + view.offset;
        break;
      case StaticView::Base::Buffer:
        data = static_cast<std::byte*>(bindings.tensors[view.source].data());
        if (data != nullptr) data += view.offset;
        break;
    }
    TensorView& at = bindings.tensors[view.buffer];
    auto moved = TensorView::make(static_cast<void*>(data), at.dtype(), view.shape, view.strides);
    if (moved) at = *moved;
  }
  for (const package::Fill* fill : static_once) fill_elements(bindings.tensors[fill->buffer], fill->bits);
  for (Launch& launch : launches) launch.resolve(bindings);
}

std::string Execution::State::where(const package::Step* step) const { return package::place_of(*package, *step); }

}  // namespace codetta::runtime

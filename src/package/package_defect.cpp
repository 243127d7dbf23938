// SPDX-License-Identifier: Apache-2.0
// What makes a package consistent. decode() and every consumer of steps rest on it.
//
// One walk over the main list and, where they stand, over child lists. What the walk knows (which buffers have memory,
// which symbols are defined) is changed in place and logged, so that the end of a child list or scope looks only at
// what changed within it.
#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "package/kernel_defect.hpp"
#include "package/package.hpp"
#include "package/user_defect.hpp"
#include "types/dtype.hpp"

namespace codetta::package {
namespace {

using Defect = std::optional<std::string>;

// What a buffer is at one point of the walk.
struct BufferState {
  enum class Memory : uint8_t { None, Given, Own, View, Extern };  // Given: by caller or package
  Memory memory = Memory::None;
  uint32_t life = 0;  // counts the memories that it has had
  uint32_t root = 0;  // View: whose memory it is, in its life `root_life`
  uint32_t root_life = 0;
};

struct Change {
  uint32_t buffer = 0;
  bool was_live = false;
  BufferState before;
};

struct ResultState {
  uint32_t list = UINT32_MAX;  // that called, UINT32_MAX: not there
  std::vector<bool> selected;
};

class PackageWalk {
 public:
  explicit PackageWalk(const Package& package)
      : p_(package),
        buffers_(package.buffers.size()),
        list_seen_(package.step_lists.size()),
        defined_kernels_(package.kernels.size()),
        launched_kernels_(package.kernels.size()) {}

  Defect run() {
    if (p_.device_count < 1 || p_.stream_count < 1) return "it has no device or no stream";
    if (p_.event_count > max_counted || p_.result_count > max_counted || p_.device_count > max_counted ||
        p_.stream_count > max_counted)
      return fmt::format("it counts more than {} devices, streams, events or results", max_counted);
    events_.resize(p_.event_count);
    results_.resize(p_.result_count);
    for (size_t i = 0; i < p_.buffers.size(); ++i) {
      if (const Defect defect = defect_of(p_.buffers[i])) return fmt::format("buffer {}: {}", i, *defect);
      if (is_bound(p_.buffers[i])) buffers_[i] = {BufferState::Memory::Given, 1, 0, 0};
    }
    for (size_t i = 0; i < p_.pools.size(); ++i) {
      const Pool& pool = p_.pools[i];
      if (pool.device >= p_.device_count) return fmt::format("pool {} lies on device {}", i, pool.device);
      if (!is_alignment(pool.alignment)) return fmt::format("pool {} is aligned to {} bytes", i, pool.alignment);
      if (pool.bytes.fault() != types::DimFault::none) return fmt::format("pool {} has no size", i);
    }
    for (size_t i = 0; i < p_.kernels.size(); ++i) {
      if (const Defect defect = defect_of_kernel(p_.kernels[i], p_.target.backend))
        return fmt::format("kernel {}{}", i, *defect);
    }
    if (Defect defect = walk(p_.steps, main_list, 0)) return defect;
    for (size_t i = 0; i < list_seen_.size(); ++i) {
      if (!list_seen_[i]) return fmt::format("list {} has no parent", i);
    }
    return std::nullopt;
  }

 private:
  static constexpr uint32_t max_counted = 1 << 16;
  static constexpr uint32_t main_list = UINT32_MAX - 1;
  enum class ScopeKind : uint8_t { Device, Stream, Subgraph };
  struct OpenScope {
    ScopeKind kind;
    uint32_t outer = 0;  // device or stream around it
    size_t changes = 0;  // Subgraph: position in the log
    std::vector<uint32_t> results;
  };

  // ---- single facts
  static bool is_bound(const Buffer& b) { return b.role == Buffer::Role::Argument || b.role == Buffer::Role::Output; }
  static bool is_alignment(int64_t bytes) {
    return bytes >= 1 && bytes <= 4096 && std::has_single_bit(static_cast<uint64_t>(bytes));
  }
  Defect defect_of(const Buffer& buffer) const {
    if (!types::is_valid(buffer.dtype)) return "it has no dtype";
    if (buffer.shape.size() > static_cast<size_t>(max_rank)) return "it has too many dims";
    if (buffer.is_scalar && (!buffer.shape.empty() || buffer.role != Buffer::Role::Argument))
      return "a scalar has dims or is no argument";
    if (buffer.device >= p_.device_count) return fmt::format("it lies on device {}", buffer.device);
    if (!is_alignment(buffer.alignment)) return fmt::format("it is aligned to {} bytes", buffer.alignment);
    const bool strided = !buffer.strides.empty();
    if (strided && buffer.strides.size() != buffer.shape.size()) return "it has another number of strides than dims";
    if (buffer.role != Buffer::Role::Temporary && (strided || !(buffer.offset == Dim())))
      return "strides or an offset belong to temporaries";
    if (!buffer.begin.empty() && (buffer.role != Buffer::Role::Temporary || strided || !(buffer.offset == Dim()) ||
                                  buffer.begin.size() != buffer.shape.size()))
      return "it is a slice, and lies otherwise";
    if (buffer.role != Buffer::Role::Constant && (!buffer.constant.empty() || !buffer.external.empty()))
      return "a constant's bytes belong to constants";
    if (!buffer.constant.empty() && !buffer.external.empty()) return "its bytes are here and in a file";
    if (buffer.donated && (buffer.role != Buffer::Role::Argument || buffer.is_scalar))
      return "only tensor arguments are donated";
    if (!buffer.filled.empty() && (buffer.role != Buffer::Role::Output || buffer.filled.size() != buffer.shape.size()))
      return "what is filled is a part of an output";
    const auto faulty = [](const Dim& dim) { return dim.fault() != types::DimFault::none; };
    for (const Dim& dim : buffer.shape) {
      if (faulty(dim)) return "a size has no value";
    }
    for (const Dim& dim : buffer.strides) {
      if (faulty(dim)) return "a stride has no value";
    }
    for (const Dim& dim : buffer.begin) {
      if (faulty(dim)) return "a slice of it begins nowhere";
    }
    for (const Dim& dim : buffer.filled) {
      if (faulty(dim)) return "a size that is filled has no value";
    }
    return faulty(buffer.offset) ? Defect("its offset has no value") : std::nullopt;
  }
  std::string name(uint32_t buffer) const { return fmt::format("buffer {} ({})", buffer, p_.buffers[buffer].name); }
  bool is_live(uint32_t buffer) const {
    const BufferState& state = buffers_[buffer];
    if (state.memory != BufferState::Memory::View) return state.memory != BufferState::Memory::None;
    const BufferState& root = buffers_[state.root];
    return root.memory != BufferState::Memory::None && root.life == state.root_life;
  }
  Defect known(const Dim& dim) const {
    if (dim.is_constant()) return std::nullopt;
    if (dim.fault() != types::DimFault::none) return "a size has no value";
    for (const std::string& symbol : dim.symbols()) {
      if (!symbols_.contains(symbol)) return fmt::format("symbol {} is not defined yet", symbol);
    }
    return std::nullopt;
  }
  template <class Range>
  Defect all_known(const Range& dims) const {
    for (const Dim& dim : dims) {
      if (Defect defect = known(dim)) return defect;
    }
    return std::nullopt;
  }
  Defect exists(uint32_t buffer) const {
    if (buffer < p_.buffers.size()) return std::nullopt;
    return fmt::format("there is no buffer {}", buffer);
  }
  // The buffer has memory now; a tensor, or a scalar too.
  Defect readable(uint32_t buffer, bool scalar_ok = false, bool any_device = false) const {
    if (Defect defect = exists(buffer)) return defect;
    const Buffer& b = p_.buffers[buffer];
    if (b.is_scalar) return scalar_ok ? Defect() : fmt::format("{} is a scalar", name(buffer));
    if (!is_live(buffer)) {
      return fmt::format("{} {}", name(buffer),
                         buffers_[buffer].life == 0 ? "has no memory yet" : "is used behind its end");
    }
    if (!any_device && b.device != device_)
      return fmt::format("{} lies on device {}, and the step runs on device {}", name(buffer), b.device, device_);
    return all_known(b.shape);
  }
  Defect writable(uint32_t buffer, bool any_device = false) const {
    if (Defect defect = readable(buffer, false, any_device)) return defect;
    const Buffer& b = p_.buffers[buffer];
    const bool may = b.role == Buffer::Role::Output || b.role == Buffer::Role::Temporary || b.donated;
    return may ? Defect() : fmt::format("{} must not be written", name(buffer));
  }
  Defect integers(uint32_t buffer) const {
    return types::is_integer(p_.buffers[buffer].dtype) ? Defect() : fmt::format("{} holds no integers", name(buffer));
  }
  Defect one_element(uint32_t buffer) const {
    for (const Dim& dim : p_.buffers[buffer].shape) {
      if (!(dim == Dim::constant(1))) return fmt::format("{} is not known to hold one element", name(buffer));
    }
    return std::nullopt;
  }
  Defect predicate(uint32_t buffer) const {
    if (Defect defect = readable(buffer, true)) return defect;
    if (p_.buffers[buffer].dtype != DType::boolean) return fmt::format("{} is not a boolean", name(buffer));
    return one_element(buffer);
  }
  Defect has_dim(uint32_t buffer, int32_t dim) const {
    if (dim >= 0 && static_cast<size_t>(dim) < p_.buffers[buffer].shape.size()) return std::nullopt;
    return fmt::format("{} has no dim {}", name(buffer), dim);
  }
  Defect in_main(const char* what) const {
    return list_ == main_list ? Defect() : fmt::format("{} belongs to the main list", what);
  }

  // ---- changes
  void set(uint32_t buffer, BufferState state) {
    log_.push_back({buffer, is_live(buffer), buffers_[buffer]});
    buffers_[buffer] = state;
  }
  Defect begin(uint32_t buffer, BufferState::Memory memory) {
    if (Defect defect = exists(buffer)) return defect;
    const Buffer& b = p_.buffers[buffer];
    if (b.role != Buffer::Role::Temporary) return fmt::format("{} is not a temporary", name(buffer));
    if (buffers_[buffer].life != 0) return fmt::format("{} is given memory by two steps", name(buffer));
    if (Defect defect = all_known(b.shape)) return defect;
    if (Defect defect = all_known(b.strides)) return defect;
    if (memory != BufferState::Memory::View && !b.begin.empty())
      return fmt::format("{} is a slice, and is given memory of its own", name(buffer));
    set(buffer, {memory, buffers_[buffer].life + 1, 0, 0});
    return std::nullopt;
  }
  void end(uint32_t buffer) { set(buffer, {BufferState::Memory::None, buffers_[buffer].life, 0, 0}); }

  // What was allocated since `mark` has ended, but for `results`; views end here.
  Defect closed(size_t mark, const std::vector<uint32_t>& results) {
    const std::unordered_set<uint32_t> kept(results.begin(), results.end());
    for (size_t at = mark, stop = log_.size(); at < stop; ++at) {
      const uint32_t buffer = log_[at].buffer;
      if (!is_live(buffer) || kept.contains(buffer)) continue;
      if (buffers_[buffer].memory == BufferState::Memory::View) {
        end(buffer);
      } else if (buffers_[buffer].life != log_[at].before.life) {
        return fmt::format("{} is not freed in the scope that allocates it", name(buffer));
      }
    }
    return std::nullopt;
  }

  Defect walk_child(uint32_t list, int depth) {
    if (list >= p_.step_lists.size()) return fmt::format("there is no list {}", list);
    if (list_seen_[list]) return fmt::format("list {} has two parents", list);
    if (depth > max_step_depth) return fmt::format("lists are nested more than {} deep", max_step_depth);
    list_seen_[list] = true;
    const size_t mark = log_.size();
    if (Defect defect = walk(p_.step_lists[list], list, depth)) return defect;
    const auto at_end = [&](const std::string& text) { return fmt::format("list {}: {}", list, text); };
    if (const Defect defect = closed(mark, {})) return at_end(*defect);
    std::unordered_set<uint32_t> seen;
    for (size_t at = mark; at < log_.size(); ++at) {
      const Change& change = log_[at];
      if (seen.insert(change.buffer).second && change.was_live && !is_live(change.buffer))
        return at_end(fmt::format("{} comes from outside and ends here", name(change.buffer)));
    }
    return std::nullopt;
  }

  Defect walk(const StepList& steps, uint32_t list, int depth) {
    const auto outer_list = std::exchange(list_, list);
    const size_t outer_scopes = scopes_.size();
    for (size_t i = 0; i < steps.size(); ++i) {
      depth_ = depth;
      last_ = i + 1 == steps.size();
      Defect defect = std::visit(*this, steps[i]);
      if (!defect && scopes_.size() < outer_scopes) defect = "it ends a scope of another list";
      if (!defect) continue;
      const std::string where = list == main_list ? std::string() : fmt::format("list {}, ", list);
      return fmt::format("{}step {} ({}): {}", where, i, name_of(steps[i]), *defect);
    }
    list_ = outer_list;
    if (scopes_.size() == outer_scopes) return std::nullopt;
    return list == main_list ? std::string("a scope is not ended") : fmt::format("list {}: a scope is not ended", list);
  }

 public:
  // ---- steps
  Defect operator()(const DefineSymbol& s) {
    if (s.symbol.empty()) return "a symbol has no name";
    if (Defect defect = known(s.divisor)) return defect;
    using From = DefineSymbol::From;
    switch (s.from) {
      case From::Size:
      case From::Stride: {
        if (Defect defect = exists(s.buffer)) return defect;
        if (p_.buffers[s.buffer].is_scalar) return fmt::format("{} is a scalar", name(s.buffer));
        if (!is_live(s.buffer)) return fmt::format("{} has no memory here", name(s.buffer));
        if (Defect defect = has_dim(s.buffer, s.dim)) return defect;
        if (Defect defect = known(s.value)) return defect;
        break;
      }
      case From::Value: {
        if (Defect defect = readable(s.buffer, true)) return defect;
        if (Defect defect = integers(s.buffer)) return defect;
        if (Defect defect = one_element(s.buffer)) return defect;
        break;
      }
      case From::OutputSize:
      case From::OutputStride: {
        if (Defect defect = output_of(s.buffer, s.output)) return defect;
        if (s.dim < 0 || s.dim >= max_rank) return fmt::format("there is no dim {}", s.dim);
        break;
      }
      case From::Expression:
        if (Defect defect = known(s.value)) return defect;
        break;
    }
    if (symbols_.insert(s.symbol).second) {
      symbol_log_.push_back(s.symbol);
      symbol_list_[s.symbol] = list_;
    }
    return std::nullopt;
  }
  Defect operator()(const Check& s) { return std::visit(*this, s.guard); }
  Defect operator()(const EqualGuard& g) const {
    if (Defect defect = known(g.left)) return defect;
    return known(g.right);
  }
  // What is known of an argument without reading it is looked at from anywhere.
  Defect operator()(const UnitStrideGuard& g) const { return readable(g.buffer, false, true); }
  Defect operator()(const NoOverlapGuard& g) const {
    for (const uint32_t buffer : {g.output, g.other}) {
      if (Defect defect = exists(buffer)) return defect;
      if (p_.buffers[buffer].is_scalar) return fmt::format("{} is a scalar", name(buffer));
    }
    return std::nullopt;
  }
  Defect operator()(const SizeGuard& g) const {
    if (Defect defect = readable(g.buffer, false, true)) return defect;
    if (Defect defect = has_dim(g.buffer, g.dim)) return defect;
    return known(g.size);
  }
  Defect operator()(const StrideGuard& g) const {
    if (Defect defect = readable(g.buffer, false, true)) return defect;
    if (Defect defect = has_dim(g.buffer, g.dim)) return defect;
    return known(g.stride);
  }
  Defect operator()(const AlignmentGuard& g) const {
    if (!is_alignment(g.bytes)) return fmt::format("an alignment of {} bytes", g.bytes);
    return readable(g.buffer, false, true);
  }
  Defect operator()(const DivisibleGuard& g) const {
    if (Defect defect = known(g.value)) return defect;
    return known(g.divisor);
  }
  Defect operator()(const RangeGuard& g) const { return all_known(std::array{g.value, g.least, g.most}); }
  Defect operator()(const NanGuard& g) const {
    if (Defect defect = readable(g.buffer)) return defect;
    return types::is_float(p_.buffers[g.buffer].dtype) ? Defect() : fmt::format("{} holds no floats", name(g.buffer));
  }
  Defect operator()(const IndexGuard& g) const {
    if (Defect defect = readable(g.buffer)) return defect;
    if (Defect defect = integers(g.buffer)) return defect;
    return known(g.size);
  }

  Defect operator()(const Allocate& s) { return begin(s.buffer, BufferState::Memory::Own); }
  Defect operator()(const AllocateFromPool& s) {
    if (s.pool >= p_.pools.size()) return fmt::format("there is no pool {}", s.pool);
    const Pool& pool = p_.pools[s.pool];
    if (Defect defect = known(pool.bytes)) return defect;
    if (Defect defect = stays_in_its_list(s.pool)) return defect;
    if (Defect defect = known(s.offset)) return defect;
    if (Defect defect = begin(s.buffer, BufferState::Memory::Own)) return defect;
    const Buffer& buffer = p_.buffers[s.buffer];
    if (buffer.device != pool.device) return fmt::format("{} and pool {} lie on two devices", name(s.buffer), s.pool);
    if (buffer.alignment > pool.alignment)
      return fmt::format("{} is aligned to {} bytes, pool {} to {}", name(s.buffer), buffer.alignment, s.pool,
                         pool.alignment);
    return std::nullopt;
  }
  Defect operator()(const Free& s) {
    if (Defect defect = exists(s.buffer)) return defect;
    if (p_.buffers[s.buffer].role != Buffer::Role::Temporary)
      return fmt::format("{} is not a temporary", name(s.buffer));
    if (!is_live(s.buffer)) return fmt::format("{} has no memory", name(s.buffer));
    end(s.buffer);
    return std::nullopt;
  }
  Defect operator()(const Reuse& s) {
    if (Defect defect = readable(s.from)) return defect;
    if (Defect defect = exists(s.buffer)) return defect;
    const Buffer &from = p_.buffers[s.from], &to = p_.buffers[s.buffer];
    if (buffers_[s.from].memory != BufferState::Memory::Own && !from.donated)
      return fmt::format("{} does not own its memory", name(s.from));
    if (from.device != to.device) return fmt::format("{} and {} lie on two devices", name(s.from), name(s.buffer));
    if (!from.donated && to.alignment > from.alignment)
      return fmt::format("{} is aligned to {} bytes, {} to {}", name(s.from), from.alignment, name(s.buffer),
                         to.alignment);
    end(s.from);
    return begin(s.buffer, BufferState::Memory::Own);
  }
  Defect operator()(const Reinterpret& s) {
    if (Defect defect = readable(s.source)) return defect;
    if (s.source == s.buffer) return fmt::format("{} is a view of itself", name(s.buffer));
    if (Defect defect = begin(s.buffer, BufferState::Memory::View)) return defect;
    const Buffer& view = p_.buffers[s.buffer];
    if (view.device != p_.buffers[s.source].device)
      return fmt::format("{} and {} lie on two devices", name(s.source), name(s.buffer));
    if (Defect defect = known(view.offset)) return defect;
    if (Defect defect = all_known(view.begin)) return defect;
    const Buffer& from = p_.buffers[s.source];
    if (!view.begin.empty() && (from.shape.size() != view.begin.size() || from.dtype != view.dtype))
      return fmt::format("{} is no slice of {}", name(s.buffer), name(s.source));
    const BufferState& source = buffers_[s.source];
    const bool nested = source.memory == BufferState::Memory::View;
    BufferState& state = buffers_[s.buffer];
    state.root = nested ? source.root : s.source;
    state.root_life = buffers_[state.root].life;
    return std::nullopt;
  }
  Defect operator()(const LoadConstant& s) {
    if (Defect defect = in_main("the loading of a constant")) return defect;
    if (Defect defect = exists(s.buffer)) return defect;
    const Buffer& buffer = p_.buffers[s.buffer];
    if (buffer.role != Buffer::Role::Constant) return fmt::format("{} is not a constant", name(s.buffer));
    if (is_live(s.buffer)) return fmt::format("{} is loaded already", name(s.buffer));
    for (const Dim& dim : buffer.shape) {
      if (!dim.is_constant()) return fmt::format("{} has no constant shape", name(s.buffer));
    }
    set(s.buffer, {BufferState::Memory::Given, 1, 0, 0});
    return std::nullopt;
  }
  Defect operator()(const Copy& s) const {
    if (Defect defect = readable(s.source, false, true)) return defect;
    if (Defect defect = writable(s.target, true)) return defect;
    const Buffer &source = p_.buffers[s.source], &target = p_.buffers[s.target];
    if (s.source == s.target) return fmt::format("{} is copied to itself", name(s.source));
    if (source.dtype != target.dtype || source.shape.size() != target.shape.size())
      return fmt::format("{} and {} differ in dtype or rank", name(s.source), name(s.target));
    return std::nullopt;
  }
  Defect operator()(const Fill& s) const {
    if (Defect defect = writable(s.buffer)) return defect;
    const int64_t size = dtype_size(p_.buffers[s.buffer].dtype);
    if (size < 8 && s.bits >> (8 * size) != 0) return fmt::format("a value of more than {} bytes", size);
    if (s.mode != ZeroMode::Once) return std::nullopt;
    if (Defect defect = in_main("a fill that is done once")) return defect;
    return buffers_[s.buffer].memory == BufferState::Memory::Own
               ? Defect()
               : fmt::format("{} does not own its memory", name(s.buffer));
  }

  Defect operator()(const DefineKernel& s) {
    if (Defect defect = in_main("the definition of a kernel")) return defect;
    if (s.kernel >= p_.kernels.size()) return fmt::format("there is no kernel {}", s.kernel);
    if (defined_kernels_[s.kernel]) return fmt::format("kernel {} is defined twice", s.kernel);
    if (launched_kernels_[s.kernel]) return fmt::format("kernel {} is launched before its definition", s.kernel);
    defined_kernels_[s.kernel] = true;
    return std::nullopt;
  }
  Defect operator()(const LaunchKernel& s) {
    if (s.kernel >= p_.kernels.size()) return fmt::format("there is no kernel {}", s.kernel);
    launched_kernels_[s.kernel] = true;
    const Kernel& kernel = p_.kernels[s.kernel];
    if (is_map(kernel.config) == s.product.has_value()) return "a map has a product, or a product has none";
    if (s.product) {
      if (Defect defect = defect_of_factors(p_, s, kernel)) return defect;
      if (!kernel.epilogue.makes_a()) {
        if (Defect defect = factor(s.product->a, a_dtype(kernel.config), s.product->a_view, s.product->a_transposed))
          return defect;
      }
      if (Defect defect = factors_b(*s.product, kernel)) return defect;
      if (Defect defect = known(s.product->k)) return defect;
    }
    if (Defect defect = all_known(std::array{s.batch, s.m, s.n})) return defect;
    if (Defect defect = fits(s.arguments, kernel.epilogue, kernel.epilogue.arguments.size())) return defect;
    if (Defect defect = known(kernel.epilogue.split.chunk)) return defect;
    return s.options == LaunchOptions{} ? Defect() : options(s);
  }

  Defect operator()(const CallExtern& s) {
    if (s.name.empty()) return "an extern has no name";
    if (s.inputs.size() > max_extern_tensors || s.outputs.size() > max_extern_tensors ||
        s.output_count > max_extern_tensors)
      return fmt::format("an extern has more than {} inputs or outputs", max_extern_tensors);
    for (const uint32_t input : s.inputs) {
      if (Defect defect = readable(input, true)) return defect;
    }
    for (const uint32_t output : s.outputs) {
      if (Defect defect = writable(output)) return defect;
    }
    if (s.form == CallExtern::Form::Out)
      return s.output_count != 0 || s.result != 0 ? Defect("an out-form call has a result") : std::nullopt;
    if (!s.outputs.empty()) return "an alloc-form call writes buffers";
    if (s.result >= p_.result_count) return fmt::format("there is no result {}", s.result);
    if (results_[s.result].list != UINT32_MAX) return fmt::format("result {} is made twice", s.result);
    results_[s.result] = {list_, std::vector<bool>(s.output_count)};
    return std::nullopt;
  }
  Defect operator()(const SelectOutput& s) {
    if (Defect defect = output_of(s.result, s.output)) return defect;
    if (results_[s.result].selected[s.output]) return fmt::format("output {} is selected twice", s.output);
    results_[s.result].selected[s.output] = true;
    return begin(s.buffer, BufferState::Memory::Extern);
  }
  Defect operator()(const IndexPut& s) const {
    if (Defect defect = writable(s.target)) return defect;
    if (Defect defect = readable(s.values)) return defect;
    const Buffer &target = p_.buffers[s.target], &values = p_.buffers[s.values];
    if (s.indices.empty() || s.indices.size() > target.shape.size())
      return fmt::format("{} indices for {} dims", s.indices.size(), target.shape.size());
    for (const uint32_t index : s.indices) {
      if (Defect defect = readable(index)) return defect;
      if (Defect defect = integers(index)) return defect;
      if (p_.buffers[index].shape.size() != p_.buffers[s.indices[0]].shape.size())
        return fmt::format("{} has another rank than the first index", name(index));
      if (index == s.target) return fmt::format("{} is its own index", name(index));
    }
    const size_t rank = p_.buffers[s.indices[0]].shape.size() + target.shape.size() - s.indices.size();
    if (values.dtype != target.dtype || values.shape.size() != rank || s.values == s.target)
      return fmt::format("{} does not fit what is indexed: {} dims are wanted", name(s.values), rank);
    return std::nullopt;
  }
  Defect operator()(const Scatter& s) const {
    if (Defect defect = writable(s.target)) return defect;
    if (Defect defect = readable(s.index)) return defect;
    if (Defect defect = readable(s.source)) return defect;
    if (Defect defect = integers(s.index)) return defect;
    if (Defect defect = has_dim(s.target, s.dim)) return defect;
    const size_t rank = p_.buffers[s.target].shape.size();
    if (p_.buffers[s.index].shape.size() != rank || p_.buffers[s.source].shape.size() != rank ||
        p_.buffers[s.source].dtype != p_.buffers[s.target].dtype || s.source == s.target || s.index == s.target)
      return fmt::format("{}, {} and {} do not fit in rank or dtype", name(s.target), name(s.index), name(s.source));
    return std::nullopt;
  }

  Defect operator()(const EnterDevice& s) {
    if (s.device >= p_.device_count) return fmt::format("there is no device {}", s.device);
    scopes_.push_back({ScopeKind::Device, std::exchange(device_, s.device), 0, {}});
    return std::nullopt;
  }
  Defect operator()(const ExitDevice&) {
    if (Defect defect = top(ScopeKind::Device)) return defect;
    device_ = scopes_.back().outer;
    scopes_.pop_back();
    return std::nullopt;
  }
  Defect operator()(const EnterStream& s) {
    if (s.stream >= p_.stream_count) return fmt::format("there is no stream {}", s.stream);
    scopes_.push_back({ScopeKind::Stream, 0, 0, {}});
    return std::nullopt;
  }
  Defect operator()(const ExitStream&) {
    if (Defect defect = top(ScopeKind::Stream)) return defect;
    scopes_.pop_back();
    return std::nullopt;
  }
  Defect operator()(const RecordEvent& s) {
    if (s.event >= p_.event_count) return fmt::format("there is no event {}", s.event);
    if (!events_[s.event]) event_log_.push_back(s.event);
    events_[s.event] = true;
    return std::nullopt;
  }
  Defect operator()(const WaitEvent& s) const {
    if (s.event >= p_.event_count) return fmt::format("there is no event {}", s.event);
    return events_[s.event] ? Defect() : fmt::format("event {} is not recorded yet", s.event);
  }
  Defect operator()(const EnterSubgraph& s) {
    for (const uint32_t buffer : s.results) {
      if (Defect defect = exists(buffer)) return defect;
    }
    scopes_.push_back({ScopeKind::Subgraph, 0, log_.size(), s.results});
    return std::nullopt;
  }
  Defect operator()(const ExitSubgraph&) {
    if (Defect defect = top(ScopeKind::Subgraph)) return defect;
    const OpenScope scope = std::move(scopes_.back());
    scopes_.pop_back();
    return closed(scope.changes, scope.results);
  }

  Defect operator()(const If& s) {
    if (Defect defect = predicate(s.predicate)) return defect;
    const int depth = depth_;
    const size_t symbols = symbol_log_.size(), events = event_log_.size();
    if (Defect defect = walk_child(s.then_list, depth + 1)) return defect;
    const std::vector<std::string> then_symbols = forget_symbols(symbols);
    const std::vector<uint32_t> then_events = forget_events(events);
    if (Defect defect = walk_child(s.else_list, depth + 1)) return defect;
    std::vector<std::string> both = forget_symbols(symbols);
    std::vector<uint32_t> both_events = forget_events(events);
    const std::set<std::string> first(then_symbols.begin(), then_symbols.end());
    const std::set<uint32_t> first_events(then_events.begin(), then_events.end());
    for (std::string& symbol : both) {
      if (!first.contains(symbol) || !symbols_.insert(symbol).second) continue;
      symbol_list_[symbol] = list_;
      symbol_log_.push_back(std::move(symbol));
    }
    for (const uint32_t event : both_events) {
      if (!first_events.contains(event)) continue;
      events_[event] = true;
      event_log_.push_back(event);
    }
    return std::nullopt;
  }
  Defect operator()(const While& s) {
    const int depth = depth_;
    if (s.limit < 0) return fmt::format("a limit of {} passes", s.limit);
    if (Defect defect = walk_child(s.condition, depth + 1)) return defect;
    if (Defect defect = predicate(s.predicate)) return defect;
    const size_t symbols = symbol_log_.size(), events = event_log_.size();
    if (Defect defect = walk_child(s.body, depth + 1)) return defect;
    forget_symbols(symbols);
    forget_events(events);
    return std::nullopt;
  }
  Defect operator()(const Comment&) const { return std::nullopt; }
  Defect operator()(const Return&) const {
    if (Defect defect = in_main("the end of the program")) return defect;
    for (const Buffer& buffer : p_.buffers) {
      if (Defect defect = all_known(buffer.filled)) return defect;
    }
    return last_ ? Defect() : "steps follow the end of the program";
  }

 private:
  Defect factor(uint32_t buffer, DType dtype, const FactorView& view, bool transposed) {
    if (Defect defect = readable(buffer)) return defect;
    const Buffer& factor = p_.buffers[buffer];
    const bool form = view.empty() ? factor.shape.size() >= 2 : view.size() >= 2 && view.size() <= 4 && !transposed;
    if (factor.dtype != dtype || !form) return fmt::format("{} is no factor of the product", name(buffer));
    for (const FactorDim& dim : view) {
      if (dim.dim >= factor.shape.size()) return fmt::format("{} has no dim {} from the last", name(buffer), dim.dim);
      if (Defect defect = all_known(std::array{dim.scale, dim.size})) return defect;
    }
    return std::nullopt;
  }
  // The B of every product: a buffer, or a map that makes it.
  Defect factors_b(const Product& product, const Kernel& kernel) {
    const size_t count = product.products();
    if (count > max_products || count != kernel.epilogue.products())
      return fmt::format("{} products, and the kernel computes {}", count, kernel.epilogue.products());
    if (!product.b_made.empty() && product.b_made.size() != count)
      return fmt::format("{} prologues of {} products", product.b_made.size(), count);
    for (size_t i = 0; i < count && product.b_made.empty() && !kernel.epilogue.makes_b(); ++i) {
      if (Defect defect = factor(product.factor_b(i), b_dtype(kernel.config), product.b_view, product.b_transposed))
        return defect;
    }
    for (size_t i = 0; i < product.b_made.size(); ++i) {
      const Prologue& made = product.b_made[i];
      if (made.kernel >= p_.kernels.size()) return fmt::format("there is no kernel {}", made.kernel);
      launched_kernels_[made.kernel] = true;
      const Kernel& maker = p_.kernels[made.kernel];
      const EpilogueProgram& program = maker.epilogue;
      const bool form = is_map(maker.config) && program.phases.size() == 1 && program.reductions.empty() &&
                        program.phases[0].stores.size() == 1 && !program.arguments.empty() &&
                        program.arguments.back().is_output && program.arguments.back().dtype == b_dtype(kernel.config);
      if (!form) return fmt::format("{} makes no factor", maker.name);
      const Operand& block = program.operands[program.phases[0].stores[0].operand];
      if (block.access != Access::Full || !block.unit_stride || !block.offsets.empty())
        return fmt::format("{} makes a factor that is not in rows", maker.name);
      if (Defect defect = fits(made.arguments, program, program.arguments.size() - 1)) return defect;
      if (std::find(made.arguments.begin(), made.arguments.end(), product.factor_b(i)) == made.arguments.end())
        return fmt::format("{} is not read by what makes the factor", name(product.factor_b(i)));
    }
    return std::nullopt;
  }
  // Buffers as the first `count` arguments of a kernel.
  Defect fits(const std::vector<uint32_t>& arguments, const EpilogueProgram& program, size_t count) {
    if (arguments.size() != count)
      return fmt::format("{} arguments are given and {} are wanted", arguments.size(), count);
    for (size_t i = 0; i < arguments.size(); ++i) {
      const uint32_t buffer = arguments[i];
      const Argument& wanted = program.arguments[i];
      if (Defect defect = wanted.is_output ? writable(buffer) : readable(buffer, true)) return defect;
      const Buffer& bound = p_.buffers[buffer];
      if (bound.is_scalar != wanted.is_scalar || bound.dtype != wanted.dtype)
        return fmt::format("{} does not fit argument {} of the kernel", name(buffer), i);
    }
    for (const Operand& operand : program.operands) {
      for (const IndexTerm& term : operand.terms) {
        if (Defect defect = known(term.scale)) return defect;
      }
      for (const auto& offset : operand.offsets) {
        if (Defect defect = known(offset.second)) return defect;
      }
    }
    return all_known(program.sizes);
  }
  Defect options(const LaunchKernel& s) const {
    const LaunchOptions& o = s.options;
    for (const auto* dims : {&o.grid, &o.block}) {
      if (Defect defect = all_known(*dims)) return defect;
    }
    if (Defect defect = known(o.shared_bytes)) return defect;
    if (Defect defect = all_known(o.sizes)) return defect;
    if (auto defect = defect_of_passed(p_.kernels[s.kernel].config, s.arguments.size(), o.sizes.size())) return defect;
    for (const int32_t blocks : o.cluster) {
      if (blocks < 1 || blocks > 64) return fmt::format("a cluster of {} blocks", blocks);
    }
    std::set<uint32_t> mapped;
    const auto tensor = [&](uint32_t argument) {
      return argument < s.arguments.size() && !p_.buffers[s.arguments[argument]].is_scalar;
    };
    for (const TensorMap& map : o.maps) {
      if (!tensor(map.argument) || !mapped.insert(map.argument).second)
        return fmt::format("a tensor map walks argument {}", map.argument);
      const size_t rank = p_.buffers[s.arguments[map.argument]].shape.size();
      const bool tiled = map.kind == TensorMap::Kind::Tiled;  // fewer dims than im2col walks are no matter of files
      if (map.box.size() != (tiled ? rank : 0) || map.upper_corner.size() != map.lower_corner.size() ||
          (tiled || rank > 2 ? map.lower_corner.size() != (tiled ? 0 : rank - 2) : false) ||
          (!map.element_strides.empty() && map.element_strides.size() != rank))
        return fmt::format("a tensor map of argument {} has another rank than it", map.argument);
    }
    if (o.window && (!tensor(o.window->argument) || o.window->per_mille < 1 || o.window->per_mille > 1000))
      return "an L2 window is malformed";
    return o.window ? known(o.window->bytes) : std::nullopt;
  }
  Defect output_of(uint32_t result, uint32_t output) const {
    if (result >= results_.size() || results_[result].list != list_)
      return fmt::format("this list has no result {}", result);
    if (output >= results_[result].selected.size()) return fmt::format("result {} has no output {}", result, output);
    return std::nullopt;
  }
  // A pool whose size a child list defines is placed anew whenever that list runs, and belongs to it.
  Defect stays_in_its_list(uint32_t index) {
    for (const std::string& symbol : p_.pools[index].bytes.symbols()) {
      const uint32_t list = symbol_list_.at(symbol);
      const auto [at, fresh] = pool_lists_.try_emplace({index, symbol}, list);
      if (at->second == list) continue;
      return fmt::format("the pool's size depends on {}, which another list defines than where the pool is used first",
                         symbol);
    }
    return std::nullopt;
  }
  Defect top(ScopeKind kind) const {
    return !scopes_.empty() && scopes_.back().kind == kind ? Defect() : "it ends a scope that is not open";
  }
  std::vector<std::string> forget_symbols(size_t mark) {
    std::vector<std::string> since(symbol_log_.begin() + static_cast<std::ptrdiff_t>(mark), symbol_log_.end());
    symbol_log_.resize(mark);
    for (const std::string& symbol : since) symbols_.erase(symbol);
    return since;
  }
  std::vector<uint32_t> forget_events(size_t mark) {
    std::vector<uint32_t> since(event_log_.begin() + static_cast<std::ptrdiff_t>(mark), event_log_.end());
    event_log_.resize(mark);
    for (const uint32_t event : since) events_[event] = false;
    return since;
  }

  const Package& p_;
  std::vector<BufferState> buffers_;
  std::vector<Change> log_;
  std::unordered_set<std::string> symbols_;
  std::unordered_map<std::string, uint32_t> symbol_list_;            // where it was defined last
  std::map<std::pair<uint32_t, std::string>, uint32_t> pool_lists_;  // by pool and symbol in its size: the same
  std::vector<std::string> symbol_log_;
  std::vector<bool> events_;
  std::vector<uint32_t> event_log_;
  std::vector<ResultState> results_;
  std::vector<bool> list_seen_, defined_kernels_, launched_kernels_;
  std::vector<OpenScope> scopes_;
  uint32_t list_ = main_list;
  uint32_t device_ = 0;
  int depth_ = 0;
  bool last_ = false;
};

}  // namespace

std::optional<std::string> find_defect(const Package& package) { return PackageWalk(package).run(); }

}  // namespace codetta::package

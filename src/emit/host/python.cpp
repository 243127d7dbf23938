// SPDX-License-Identifier: Apache-2.0
#include "emit/host/python.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "emit/host/devices.hpp"
#include "emit/host/python_launches.hpp"
#include "emit/host/python_text.hpp"
#include "emit/host/steps.hpp"
#include "package/cpu_call.hpp"
#include "package/cpu_limits.hpp"
#include "package/device_copies.hpp"
#include "package/factors.hpp"
#include "package/gpu_call.hpp"
#include "package/gpu_steps.hpp"
#include "types/dtype.hpp"

namespace codetta::emit::host {
namespace {

using namespace package;  // NOLINT: all kinds of steps

class PythonPrinter : PythonLaunches {
 public:
  // `number`: of the program among those of the module. `called`: the first of them, whose sizes and strides a call
  // has.
  PythonPrinter(const Package& package, const PythonOptions& options, ModuleParts& shared, size_t number,
                const Package& called)
      : PythonLaunches(package),
        called_(called),
        o_(options),
        shared_(shared),
        number_(number),
        steps_kernel_(gpu_ ? package::steps_kernel(package) : std::nullopt),
        devices_(package),
        copies_(device_copies(package)) {}

  // Its kernels and constants join the module's.
  Result<void> join() {
    std::vector<std::string> paths = number_ == 0 ? o_.kernel_paths : std::vector<std::string>();
    paths.resize(p_.kernels.size());
    CODETTA_CHECK_OK(check_kernels(p_, paths));
    for (size_t i = 0; i < p_.kernels.size(); ++i)
      kernel_numbers_.push_back(
          shared_.kernel(gpu_ ? gpu_kernel_row(p_.kernels[i]) : cpu_kernel_row(p_.kernels[i], paths[i])));
    for (const Buffer& b : p_.buffers) {
      const bool carried = b.role == Buffer::Role::Constant && b.external.empty();
      constant_numbers_.push_back(carried ? shared_.constant(b.constant) : 0);
    }
    if (steps_kernel_) steps_kernel_ = static_cast<uint32_t>(kernel_numbers_[*steps_kernel_]);
    return {};
  }

  // What stands in front of the programs; of the first one.
  std::string head() {
    text_ = module_head(p_);
    text_ += fmt::format("\n\n# ---- the program {}\n\n", py_comment(p_.name));
    text_ += module_constants(p_, o_, shared_);
    return std::exchange(text_, {});
  }

  Result<std::string> run() {
    signature();
    indent_ = 1;
    line(fmt::format("engine = _loaded(ENGINE, KERNELS{})", gpu_ ? "" : ", ISA"));
    line("keep, pools = {}, {}");
    for (uint32_t i = 0; i < p_.buffers.size(); ++i) {
      const Buffer& b = p_.buffers[i];
      if (bound(b) && b.is_scalar) line(fmt::format("_number(a{}, {}, {})", i, static_cast<int>(b.dtype), name(i)));
      if (!bound(b) || b.is_scalar) continue;
      const char* const written = b.role == Buffer::Role::Output ? "output" : b.donated ? "donated" : "";
      line(fmt::format("v{0} = _bound(a{0}, {1}, {2}, {3}, \"{4}\")", i, py_quoted(b.name), static_cast<int>(b.dtype),
                       b.shape.size(), written));
    }
    for (uint32_t i = 0; o_.checked && gpu_ && i < p_.buffers.size(); ++i) {
      if (!bound(p_.buffers[i]) || p_.buffers[i].is_scalar) continue;
      if (devices_.several()) {
        line(fmt::format("_placed_on({}, v{}, {})", p_.buffers[i].device, i, name(i)));
      } else {
        line(fmt::format("_placed(v{}, {})", i, name(i)));
      }
    }
    for (uint32_t i = 0; o_.checked && i < p_.buffers.size(); ++i) {
      if (p_.buffers[i].role == Buffer::Role::Output) line(fmt::format("_apart_itself(engine, v{}, {})", i, name(i)));
    }
    CODETTA_CHECK_OK(list(p_.steps));
    if (!gpu_) return std::move(text_);
    line("_now.call.enqueue_all()");
    tell_filled();
    return std::move(text_);
  }

  // ---- steps
  Result<void> operator()(const DefineSymbol& s) {
    using From = DefineSymbol::From;
    std::string value;
    switch (s.from) {
      case From::Size:
        value = fmt::format("v{}.shape[{}]", s.buffer, s.dim);
        if (!(s.value == Dim())) value += " - " + expression(s.value);
        break;
      case From::Stride:
        value = fmt::format("_ascending(v{}, {}, {}{})", s.buffer, s.dim, name(s.buffer),
                            package::ascends(p_, s) ? ", True" : "");
        break;
      case From::Value:
        shaped(s.buffer);
        value = p_.buffers[s.buffer].is_scalar ? fmt::format("int(a{})", s.buffer)
                : gpu_                         ? fmt::format("_integer(v{}, {})", s.buffer, name(s.buffer))
                                               : fmt::format("int(v{}.reshape(-1)[0])", s.buffer);
        break;
      case From::OutputSize:
        value = fmt::format("r{0}[{1}].shape[_dim_of(r{0}[{1}], {2}, \"an output\")]", s.buffer, s.output, s.dim);
        break;
      case From::OutputStride:
        value = fmt::format("_stride(r{0}[{1}], _dim_of(r{0}[{1}], {2}, \"an output\"))", s.buffer, s.output, s.dim);
        break;
      case From::Expression:
        value = expression(s.value);
        break;
    }
    line(fmt::format("n{0} = _symbol(n{0}, {1}, {2}, {3})", symbol(s.symbol), value, expression(s.divisor),
                     py_quoted(s.symbol)));
    defined_.insert(s.symbol);
    return {};
  }
  Result<void> operator()(const Check& s) {
    const bool apart = gpu_ && (std::holds_alternative<UnitStrideGuard>(s.guard) ||  // it says who takes the tensor
                                package::written_by_user(p_, s.guard));
    return o_.checked || apart ? std::visit(*this, s.guard) : Result<void>();
  }
  Result<void> operator()(const EqualGuard& g) {
    line(fmt::format("_equal({}, {}, {})", expression(g.left), expression(g.right),
                     py_quoted(g.left.to_string() + " must equal " + g.right.to_string())));
    return {};
  }
  Result<void> operator()(const UnitStrideGuard& g) {
    const size_t rank = p_.buffers[g.buffer].shape.size();
    if (rank > 0 && gpu_) line(fmt::format("_side_by_side(v{}, {})", g.buffer, name(g.buffer)));
    if (rank > 0 && !gpu_) line(fmt::format("_has_stride(v{}, {}, 1, {})", g.buffer, rank - 1, name(g.buffer)));
    return {};
  }
  Result<void> operator()(const NoOverlapGuard& g) {
    if (!bound(p_.buffers[g.output]) || !bound(p_.buffers[g.other])) return {};
    const bool first = p_.buffers[g.output].donated, second = p_.buffers[g.other].donated;
    line(fmt::format("_apart(engine, v{}, v{}, {}, ({}, {}){})", g.output, g.other, g.in_place_ok ? "True" : "False",
                     name(first || !second ? g.output : g.other), name(first || !second ? g.other : g.output),
                     first || second ? ", \"donated\"" : ""));
    return {};
  }
  Result<void> operator()(const SizeGuard& g) {
    line(fmt::format("_has_size(v{}, {}, {}, {})", g.buffer, g.dim, expression(g.size), name(g.buffer)));
    return {};
  }
  Result<void> operator()(const StrideGuard& g) {
    line(fmt::format("{}(v{}, {}, {}, {})", package::written_by_user(p_, g) ? "_written" : "_has_stride", g.buffer,
                     g.dim, expression(g.stride), name(g.buffer)));
    return {};
  }
  Result<void> operator()(const AlignmentGuard& g) {
    line(fmt::format("{}(v{}, {}, {})", package::written_by_user(p_, g) ? "_written_at" : "_aligned", g.buffer, g.bytes,
                     name(g.buffer)));
    return {};
  }
  Result<void> operator()(const DivisibleGuard& g) {
    line(fmt::format("_divisible({}, {}, {})", expression(g.value), expression(g.divisor),
                     py_quoted(g.value.to_string() + " must be a multiple of " + g.divisor.to_string())));
    return {};
  }
  Result<void> operator()(const RangeGuard& g) {
    line(fmt::format("_in_range({}, {}, {}, {}{}{})", expression(g.value), expression(g.least), expression(g.most),
                     py_quoted(g.value.to_string() + " is out of range"), g.why.empty() ? "" : ", ",
                     g.why.empty() ? "" : py_quoted(g.why)));
    return {};
  }
  Result<void> operator()(const NanGuard& g) {
    if (gpu_) return look(g.buffer, g.infinity ? 2 : 1, "0");
    line(fmt::format("_numbers(v{}, {}, {}, {}, {})", g.buffer, static_cast<int>(p_.buffers[g.buffer].dtype),
                     g.infinity ? "True" : "False", told(g.buffer), py_quoted(g.why)));
    return {};
  }
  Result<void> operator()(const IndexGuard& g) {
    if (gpu_) return look(g.buffer, 0, expression(g.size));
    line(fmt::format("_indices(v{}, {}, {})", g.buffer, expression(g.size), told(g.buffer)));
    return {};
  }

  Result<void> operator()(const Allocate& s) {
    const Buffer& b = p_.buffers[s.buffer];
    line(fmt::format("keep[{}] = _memory(_span({}, {}, {}), {})", s.buffer, static_cast<int>(b.dtype), tuple(b.shape),
                     strides(b), b.alignment));
    return view(s.buffer, fmt::format("keep[{}]", s.buffer), "0");
  }
  Result<void> operator()(const AllocateFromPool& s) {
    const Pool& pool = p_.pools[s.pool];
    line(fmt::format("keep[{}] = _pool(pools, {}, {}, {})", s.buffer, s.pool, expression(pool.bytes), pool.alignment));
    return view(s.buffer, fmt::format("keep[{}]", s.buffer), expression(s.offset));
  }
  Result<void> operator()(const Free& s) {
    line(fmt::format("keep.pop({}, None)", s.buffer));
    line(fmt::format("v{} = None", s.buffer));
    return {};
  }
  Result<void> operator()(const Reuse& s) {
    line(fmt::format("keep[{0}] = keep.pop({1}, v{1})", s.buffer, s.from));
    CODETTA_CHECK_OK(view(s.buffer, fmt::format("v{}", s.from), "0"));
    line(fmt::format("v{} = None", s.from));
    return {};
  }
  Result<void> operator()(const Reinterpret& s) {
    const Buffer& b = p_.buffers[s.buffer];
    if (!b.begin.empty()) {
      shaped(s.source);
      line(fmt::format("v{} = _slice(v{}, {}, {}, {})", s.buffer, s.source, tuple(b.begin), tuple(b.shape),
                       name(s.buffer)));
      return {};
    }
    line(fmt::format("keep[{0}] = v{1}", s.buffer, s.source));
    return view(s.buffer, fmt::format("v{}", s.source), expression(p_.buffers[s.buffer].offset));
  }
  Result<void> operator()(const LoadConstant& s) {
    const Buffer& b = p_.buffers[s.buffer];
    if (devices_.moves_to(b.device)) line(fmt::format("_at({})", b.device));
    if (gpu_ && b.external.empty()) {
      line(fmt::format("keep[{}] = _constant({})", s.buffer, constant_numbers_[s.buffer]));
      return view(s.buffer, fmt::format("keep[{}]", s.buffer), "0");
    }
    if (b.external.empty()) {
      line(fmt::format("keep[{0}] = np.frombuffer(base64.b64decode(_CONSTANTS[{1}]), np.uint8)", s.buffer,
                       constant_numbers_[s.buffer]));
      return view(s.buffer, fmt::format("keep[{}]", s.buffer), "0");
    }
    once(fmt::format("_given(weights, {}, \"E0615: constant\")", py_quoted(b.external)));
    line(fmt::format("v{} = _selected(weights[{}], {}, {}, {})", s.buffer, py_quoted(b.external), name(s.buffer),
                     static_cast<int>(b.dtype), tuple(b.shape)));
    if (o_.checked && gpu_) line(fmt::format("_placed(v{}, {})", s.buffer, name(s.buffer)));
    return {};
  }
  Result<void> operator()(const Copy& s) {
    shaped(s.source);
    shaped(s.target);
    const bool strided = !(p_.buffers[s.source].strides.empty() && p_.buffers[s.target].strides.empty());
    if (is_between_devices(p_, s)) {
      if (strided && !steps_kernel_) return refused(no_steps_kernel);
      const auto order = std::find_if(copies_.begin(), copies_.end(), [&](const auto& one) { return one.step == &s; });
      line(fmt::format("_copy_between({}, {}, {}, {}, {}{}{}{})",
                       steps_kernel_ ? std::to_string(*steps_kernel_) : "None", named(s.source), order->from,
                       named(s.target), order->to, order->waits ? ", waits=True" : "",
                       order->waited_for ? ", waited_for=True" : "", order->follows ? ", follows=True" : ""));
      return {};
    }
    if (gpu_ && (strided || steps_kernel_)) {
      if (!steps_kernel_) return refused(no_steps_kernel);
      line(fmt::format("_copy_elements({}, {}, {})", *steps_kernel_, named(s.source), named(s.target)));
      return {};
    }
    line(fmt::format("_copy({}v{}, v{}, {})", gpu_ ? "" : "engine, ", s.source, s.target, name(s.source)));
    return {};
  }
  Result<void> operator()(const Fill& s) {
    shaped(s.buffer);
    const bool by_bytes = p_.buffers[s.buffer].strides.empty() && package::one_byte(p_.buffers[s.buffer].dtype, s.bits);
    if (gpu_ && s.mode != ZeroMode::None && (!by_bytes || steps_kernel_)) {
      if (!steps_kernel_) return refused(no_steps_kernel);
      line(fmt::format("_fill_elements({}, {}, {:#x})", *steps_kernel_, named(s.buffer), s.bits));
      return {};
    }
    if (s.mode != ZeroMode::None)
      line(fmt::format("_fill(v{}, {:#x})", s.buffer, s.bits));  // memory is placed anew in every call
    return {};
  }
  Result<void> operator()(const DefineKernel& s) {
    line(fmt::format("# kernel {} is {}", kernel_numbers_[s.kernel], py_comment(p_.kernels[s.kernel].name)));
    return {};
  }
  Result<void> operator()(const LaunchKernel& s) { return launch(s); }
  Result<void> operator()(const CallExtern& s) {
    std::string inputs, outputs;
    for (const uint32_t input : s.inputs) {
      shaped(input);
      inputs += p_.buffers[input].is_scalar
                    ? fmt::format("_scalar_array(a{}, {}), ", input, static_cast<int>(p_.buffers[input].dtype))
                    : fmt::format("v{}, ", input);
    }
    for (const uint32_t output : s.outputs) {
      shaped(output);
      outputs += fmt::format("v{}, ", output);
    }
    if (s.form == CallExtern::Form::Out) {
      line(fmt::format("_call_out(externs, {}, [{}], [{}])", py_quoted(s.name), inputs, outputs));
    } else {
      line(
          fmt::format("r{} = _call_alloc(externs, {}, [{}], {})", s.result, py_quoted(s.name), inputs, s.output_count));
    }
    return {};
  }
  Result<void> operator()(const SelectOutput& s) {
    const Buffer& b = p_.buffers[s.buffer];
    line(fmt::format("v{} = _selected(r{}[{}], {}, {}, {})", s.buffer, s.result, s.output, name(s.buffer),
                     static_cast<int>(b.dtype), tuple(b.shape)));
    return {};
  }
  Result<void> operator()(const IndexPut& s) {
    if (gpu_) {
      if (!steps_kernel_) return refused(no_steps_kernel);
      std::string views;
      for (const uint32_t index : s.indices) {
        shaped(index);
        views += named(index) + ", ";
      }
      shaped(s.target);
      shaped(s.values);
      line(fmt::format("_put({}, {}, [{}], {}, -1, {}, {})", *steps_kernel_, named(s.target), views, named(s.values),
                       s.accumulate ? 1 : 0, o_.checked ? looked_at(s.indices) : -1));
      return {};
    }
    if (s.accumulate && !numpy_adds(p_.buffers[s.target].dtype))
      return refused("numpy does not add elements of this type");
    std::string indices, names;
    for (const uint32_t index : s.indices) {
      shaped(index);
      indices += fmt::format("v{}, ", index);
      names += told(index) + ", ";
    }
    shaped(s.target);
    shaped(s.values);
    line(fmt::format("_index_put(v{}, [{}], [{}], v{}, {}, {}, {})", s.target, indices, names, s.values, name(s.values),
                     s.accumulate ? "True" : "False", o_.checked ? "True" : "False"));
    return {};
  }
  Result<void> operator()(const Scatter& s) {
    if (gpu_) {
      if (!steps_kernel_) return refused(no_steps_kernel);
      for (const uint32_t buffer : {s.target, s.index, s.source}) shaped(buffer);
      line(fmt::format("_put({}, {}, [{}], {}, {}, {}, {})", *steps_kernel_, named(s.target), named(s.index),
                       named(s.source), s.dim, static_cast<int>(s.reduce), o_.checked ? looked_at({s.index}) : -1));
      return {};
    }
    if (s.reduce != ScatterReduce::None && !numpy_adds(p_.buffers[s.target].dtype))
      return refused("numpy does not combine elements of this type");
    for (const uint32_t buffer : {s.target, s.index, s.source}) shaped(buffer);
    line(fmt::format("_scatter(v{}, v{}, {}, v{}, {}, {}, {})", s.target, s.index, told(s.index), s.source, s.dim,
                     static_cast<int>(s.reduce), o_.checked ? "True" : "False"));
    return {};
  }

  // On a CPU one thread keeps the order that these ask for, in the memory that all devices share.
  Result<void> operator()(const EnterDevice& s) {
    devices_.enter(s.device);
    return remark(fmt::format("device {}", s.device));
  }
  Result<void> operator()(const ExitDevice&) {
    devices_.leave();
    return {};
  }
  Result<void> operator()(const EnterStream& s) { return remark(fmt::format("stream {}", s.stream)); }
  Result<void> operator()(const ExitStream&) { return {}; }
  Result<void> operator()(const RecordEvent&) { return {}; }
  Result<void> operator()(const WaitEvent&) { return {}; }
  Result<void> operator()(const EnterSubgraph& s) { return remark("enter " + py_comment(s.name)); }
  Result<void> operator()(const ExitSubgraph&) { return remark("exit"); }
  Result<void> operator()(const If& s) {
    line(fmt::format("if {}:", predicate(s.predicate)));
    CODETTA_CHECK_OK(child(s.then_list));
    line("else:");
    return child(s.else_list);
  }
  Result<void> operator()(const While& s) {
    const int loop = loops_++;
    line(fmt::format("passes{} = 0", loop));
    line("while True:");
    ++indent_;
    std::set<std::string> fresh;
    new_symbols(p_.step_lists[s.condition], fresh);
    new_symbols(p_.step_lists[s.body], fresh);
    for (const std::string& known : fresh) line(fmt::format("n{} = None", symbol(known)));
    devices_.unknown();
    CODETTA_CHECK_OK(list(p_.step_lists[s.condition]));
    const Buffer& more = p_.buffers[s.predicate];
    if (!more.is_scalar && devices_.moves_to(more.device)) line(fmt::format("_at({})", more.device));
    line(fmt::format("if not {}:", predicate(s.predicate)));
    line("    break");
    if (s.limit != 0) {
      line(fmt::format("if passes{} == {}:", loop, s.limit));
      line(fmt::format("    _fail(\"E0651: the loop still runs after {} iterations\")", s.limit));
    }
    line(fmt::format("passes{} += 1", loop));
    CODETTA_CHECK_OK(list(p_.step_lists[s.body]));
    devices_.unknown();
    --indent_;
    return {};
  }
  Result<void> operator()(const Comment& s) { return remark(s.text); }
  Result<void> operator()(const Return&) {
    if (gpu_) return {};
    tell_filled();
    line("return");  // the last step
    return {};
  }

 private:
  static constexpr const char* no_steps_kernel = "it works on elements, and the package has no kernel for that";
  // "(v3, "name", 13)".
  [[nodiscard]] std::string named(uint32_t buffer) const {
    return fmt::format("(v{}, {}, {})", buffer, name(buffer), static_cast<int>(p_.buffers[buffer].dtype));
  }
  // What errors call it that look at its contents.
  [[nodiscard]] std::string told(uint32_t buffer) const {
    if (number_ >= o_.told.size()) return name(buffer);
    const auto found = o_.told[number_].find(buffer);
    return found != o_.told[number_].end() ? py_quoted(found->second) : name(buffer);
  }
  // The number of the first of these among what kernels look at.
  int64_t looked_at(const std::vector<uint32_t>& buffers) {
    const int64_t first = shared_.looks;
    for (const uint32_t buffer : buffers) shared_.looked += told(buffer) + ", ";
    shared_.looks += static_cast<int64_t>(buffers.size());
    return first;
  }
  Result<void> look(uint32_t buffer, int looks, const std::string& limit) {
    if (!steps_kernel_) return refused(no_steps_kernel);
    shaped(buffer);
    line(fmt::format("_look({}, {}, {}, {}, {})", *steps_kernel_, named(buffer), looks, limit, looked_at({buffer})));
    return {};
  }
  Result<void> remark(std::string_view text) {
    line(fmt::format("# {}", py_comment(text)));
    return {};
  }
  std::string strides(const Buffer& b) {
    return b.strides.empty() ? fmt::format("_row_major({})", tuple(b.shape)) : tuple(b.strides);
  }
  Result<void> view(uint32_t buffer, const std::string& memory, const std::string& offset) {
    const Buffer& b = p_.buffers[buffer];
    line(fmt::format("v{} = _view({}, {}, {}, {}, {}, {})", buffer, memory, offset, static_cast<int>(b.dtype),
                     tuple(b.shape), strides(b), name(buffer)));
    return {};
  }

  // In front of all work: what can be refused of the arguments alone is refused before anything is written.
  void check_arguments() {
    for (uint32_t b = 0; b < p_.buffers.size(); ++b) {
      const Buffer& buffer = p_.buffers[b];
      if (!bound(buffer)) continue;
      if (!buffer.is_scalar && is_known(buffer)) shaped(b);
    }
    check_steps(p_.steps);
    arguments_checked_ = true;
  }
  // What this call has filled of outputs whose sizes it computes.
  void tell_filled() {
    std::string shapes;
    for (uint32_t b = 0; b < p_.buffers.size(); ++b) {
      if (!p_.buffers[b].filled.empty()) shapes += fmt::format("{}: {}, ", name(b), tuple(p_.buffers[b].filled));
    }
    if (!shapes.empty()) line(fmt::format("_last.shapes = {{{}}}", shapes.substr(0, shapes.size() - 2)));
  }
  void once(const std::string& text) {
    if (told_.insert(text).second) line(text);
  }
  void check_steps(const StepList& steps) {
    for (const Step& step : steps) {
      if (const auto* reuse = std::get_if<Reuse>(&step); reuse != nullptr && p_.buffers[reuse->from].donated)
        once(fmt::format("_donated(v{}, {}, {})", reuse->from, p_.buffers[reuse->buffer].alignment, name(reuse->from)));
      if (const auto* call = std::get_if<CallExtern>(&step))
        once(fmt::format("_given(externs, {}, \"E0616: external function\")", py_quoted(call->name)));
      if (const auto* load = std::get_if<LoadConstant>(&step);
          load != nullptr && !p_.buffers[load->buffer].external.empty())
        once(fmt::format("_given(weights, {}, \"E0615: constant\")", py_quoted(p_.buffers[load->buffer].external)));
      if (const auto* launch = std::get_if<LaunchKernel>(&step); launch != nullptr && launch->product) {
        const Product& product = *launch->product;
        std::string uneven;
        for (const uint32_t b : package::factors_read(p_, *launch)) {
          const bool seen = !(b == product.a ? product.a_view : product.b_view).empty();
          if (bound(p_.buffers[b]) && p_.buffers[b].shape.size() > 3 && !seen)
            uneven += fmt::format("(v{}, {}), ", b, name(b));
        }
        for (const auto& [b, last, count] : package::dims_as_one(p_, *launch))
          once(fmt::format("_one_stride(v{}, {}, {}, {})", b, int{last}, count, name(b)));
        if (!uneven.empty()) once(fmt::format("_evenly_spaced({})", uneven.substr(0, uneven.size() - 2)));
        const auto* const config = std::get_if<CpuGemmConfig>(&p_.kernels[launch->kernel].config);
        if (config != nullptr && config->family == CpuFamily::Fused && bound(p_.buffers[product.a])) {
          const auto rank = static_cast<int>(p_.buffers[product.a].shape.size());
          const int last = product.a_view.empty() ? product.a_transposed ? 2 : 1 : product.a_view.back().dim + 1;
          once(fmt::format("_has_stride(v{}, {}, 1, {})", product.a, rank - last, name(product.a)));
        }
      }
      if (const auto* branch = std::get_if<If>(&step)) {
        check_steps(p_.step_lists[branch->then_list]);
        check_steps(p_.step_lists[branch->else_list]);
      }
      if (const auto* loop = std::get_if<While>(&step)) {
        check_steps(p_.step_lists[loop->condition]);
        check_steps(p_.step_lists[loop->body]);
      }
    }
  }
  std::string predicate(uint32_t buffer) const {
    if (gpu_ && !p_.buffers[buffer].is_scalar) return fmt::format("_flag(v{}, {})", buffer, name(buffer));
    return p_.buffers[buffer].is_scalar ? fmt::format("bool(a{})", buffer)
                                        : fmt::format("bool(v{}.reshape(-1)[0])", buffer);
  }
  void new_symbols(const StepList& steps, std::set<std::string>& found) const {
    for (const Step& step : steps) {
      if (const auto* define = std::get_if<DefineSymbol>(&step);
          define != nullptr && !defined_.contains(define->symbol))
        found.insert(define->symbol);
      if (const auto* branch = std::get_if<If>(&step)) {
        new_symbols(p_.step_lists[branch->then_list], found);
        new_symbols(p_.step_lists[branch->else_list], found);
      }
      if (const auto* loop = std::get_if<While>(&step)) {
        new_symbols(p_.step_lists[loop->condition], found);
        new_symbols(p_.step_lists[loop->body], found);
      }
    }
  }
  // Whether what is in front of it is enqueued then.
  [[nodiscard]] bool parts_work(const Step& step) const {
    const auto* define = std::get_if<DefineSymbol>(&step);
    if (define != nullptr && define->from == DefineSymbol::From::Value) return !p_.buffers[define->buffer].is_scalar;
    const auto* branch = std::get_if<If>(&step);
    const auto* loop = std::get_if<While>(&step);
    if (branch != nullptr || loop != nullptr) return true;
    return std::holds_alternative<CallExtern>(step);
  }
  Result<void> child(uint32_t index) {
    ++indent_;
    devices_.unknown();
    CODETTA_CHECK_OK(list(p_.step_lists[index]));
    devices_.unknown();
    line("pass");
    --indent_;
    return {};
  }
  Result<void> list(const StepList& steps) {
    for (const Step& step : steps) {
      if (!arguments_checked_ && is_work(step)) check_arguments();
      step_ = &step;
      const bool last = number_ != 0 && number_ == o_.takes_over.size();  // which no other one comes behind
      if (gpu_ && !last && &steps == &p_.steps && arguments_checked_ && !looked_ && parts_work(step)) {
        looked_ = true;
        CODETTA_CHECK_OK(look_ahead(static_cast<size_t>(&step - steps.data())));
      }
      if (const auto device = devices_.moves_for(step)) line(fmt::format("_at({})", *device));
      CODETTA_CHECK_OK(std::visit(*this, step));
    }
    return {};
  }

  [[nodiscard]] std::string with_call() const {
    return devices_.several() ? fmt::format("with _DevicesCall(stream, {}):\n", devices_.count())
                              : std::string("with _Call(stream):\n");
  }
  void signature() {
    std::string parameters, given, sizes, sizes_given;
    for (size_t i = 0; i < p_.buffers.size(); ++i) {
      if (!bound(p_.buffers[i])) continue;
      parameters += fmt::format("a{}, ", i);
    }
    for (const bool strides_only : {false, true}) {
      for (const Step& step : called_.steps) {
        const auto* define = std::get_if<DefineSymbol>(&step);
        const auto from = strides_only ? DefineSymbol::From::Stride : DefineSymbol::From::Size;
        if (define == nullptr || define->from != from || symbols_.contains(define->symbol)) continue;
        const size_t index = symbol(define->symbol);
        sizes += fmt::format("n{}=None, ", index);
        sizes_given += fmt::format("n{}, ", index);
      }
    }
    std::string donated;  // what else there is to say of call()
    for (size_t i = 0; i < p_.buffers.size(); ++i) {
      if (p_.buffers[i].donated) donated += fmt::format("{}a{}", donated.empty() ? "" : ", ", i);
    }
    if (!donated.empty()) donated = fmt::format(" Overwritten, for donated: {}.", donated);
    if (devices_.several()) donated += device_note(p_);
    const size_t passed = symbols_.size();
    std::set<std::string> others;
    new_symbols(p_.steps, others);
    for (const std::string& other : others) symbol(other);
    indent_ = 1;
    if (number_ != 0) {
      text_ += fmt::format("\n\ndef _run_{}({}{}):\n", number_, parameters, sizes_given);
      for (size_t i = passed; i < symbols_.size(); ++i) line(fmt::format("n{} = None", i));
      return;
    }
    text_ += module_functions({parameters, sizes, sizes_given, donated, gpu_ ? with_call() : "", o_.takes_over.size()});
    for (size_t i = passed; i < symbols_.size(); ++i) line(fmt::format("n{} = None", i));
  }

  const Package& called_;
  const PythonOptions& o_;
  ModuleParts& shared_;
  size_t number_;
  std::optional<uint32_t> steps_kernel_;  // in the module
  std::vector<size_t> constant_numbers_;  // in the module, by buffer of the package
  int loops_ = 0;
  bool looked_ = false;         // ahead, at launches
  std::set<std::string> told_;  // lines of checks that stand once
  DeviceTrack devices_;
  std::vector<DeviceCopy> copies_;  // between devices
};

}  // namespace

Result<std::string> emit_python(const package::Package& package, const PythonOptions& options) {
  std::vector<const package::Package*> packages{&package};
  packages.insert(packages.end(), options.takes_over.begin(), options.takes_over.end());
  ModuleParts shared;
  std::vector<PythonPrinter> printers;
  for (const package::Package* one : packages) {
    CODETTA_CHECK_OK(package::check(*one));
    printers.emplace_back(*one, options, shared, printers.size(), package);
    CODETTA_CHECK_OK(printers.back().join());
  }
  std::string text = printers.front().head();
  for (PythonPrinter& printer : printers) {
    CODETTA_TRY(const std::string program, printer.run());
    text += program;
  }
  if (package.target.backend != Backend::cpu)
    text += "\n\n# What kernels look at.\n_LOOKED = [" + shared.looked + "]\n";
  return text;
}

}  // namespace codetta::emit::host

// SPDX-License-Identifier: Apache-2.0
// Facts that compiled code relies on, checked before anything is written.
#include "runtime/checks.hpp"

#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "runtime/operands.hpp"
#include "types/view.hpp"

namespace codetta::runtime {

std::string places_of(const std::string& first, const TensorView& x, const std::string& second, const TensorView& y) {
  const auto form = [](const TensorView& view) {
    return fmt::format("{} with strides {}", view.describe(), to_string(view.strides()));
  };
  const auto a = reinterpret_cast<uintptr_t>(x.data()), b = reinterpret_cast<uintptr_t>(y.data());
  return fmt::format("{} is {}, {} is {} and begins {}", first, form(x), second, form(y),
                     a == b ? "at the same address"
                            : fmt::format("{} bytes {} it", a < b ? b - a : a - b, a < b ? "behind" : "before"));
}

namespace {

struct GuardCheck {
  const package::Package& package;
  const std::vector<TensorView>& tensors;
  const Symbols& symbols;

  Result<void> operator()(const package::EqualGuard& guard) const {
    const auto left = guard.left.evaluate(symbols), right = guard.right.evaluate(symbols);
    if (left && right && *left == *right) return {};
    return diag::error(diag::Code::guard_failed,
                       fmt::format("{} must equal {}", guard.left.to_string(), guard.right.to_string()))
        .reason(fmt::format("they are {} and {}; {}", left ? std::to_string(*left) : "out of range",
                            right ? std::to_string(*right) : "out of range", guard.why))
        .help("find a kernel for these sizes");
  }

  Result<void> operator()(const package::UnitStrideGuard& guard) const {
    const TensorView& view = tensors[guard.buffer];
    const int last = view.rank() - 1;
    if (view.empty() || view.rank() == 0 || view.size(last) <= 1 || view.stride(last) == 1) return {};
    return diag::error(diag::Code::guard_failed,
                       fmt::format("{} must be contiguous in its last dimension", package.buffers[guard.buffer].name))
        .about(package.buffers[guard.buffer].name)
        .reason(fmt::format("its stride there is {}", view.stride(last)))
        .help(
            "find a kernel with this view; a program takes other kernels once it is prepared with such tensors where "
            "it may compile");
  }

  Result<void> operator()(const package::NoOverlapGuard& guard) const {
    // Temporaries were placed by the planner, which lets those share memory that do not live at the same time.
    const auto planned = [&](uint32_t buffer) {
      return package.buffers[buffer].role == package::Buffer::Role::Temporary;
    };
    if (planned(guard.output) || planned(guard.other)) return {};
    const TensorView &output = tensors[guard.output], &other = tensors[guard.other];
    if (!types::overlaps(output, other)) return {};
    if (guard.in_place_ok && types::identical_view(output, other)) return {};
    const std::string out = package.buffers[guard.output].name, in = package.buffers[guard.other].name;
    if (package.buffers[guard.output].donated || package.buffers[guard.other].donated) {
      const bool first = package.buffers[guard.output].donated;
      return diag::error(diag::Code::overlap, fmt::format("donated {} overlaps {}", first ? out : in, first ? in : out))
          .about(first ? out : in)
          .reason(fmt::format("its memory becomes the program's own: {}", places_of(out, output, in, other)))
          .help("donate memory that nothing else lies in, or declare the parameter without donated[...]");
    }
    const bool both_written = package.buffers[guard.other].role == package::Buffer::Role::Output;
    const std::string where = places_of(out, output, in, other);
    // Nothing but the dtype may be in the way: `a @ b + c * 0.5` of a bf16 c is an f32.
    const bool other_type = !both_written && output.dtype() != other.dtype() && output.data() == other.data();
    return diag::error(diag::Code::overlap,
                       fmt::format("output {} overlaps {}{}", out, both_written ? "output " : "", in))
        .about(out)
        .reason(other_type
                    ? fmt::format("{} is {}, and an operand that is updated in place has the dtype of the output: {}",
                                  in, dtype_name(other.dtype()), where)
                : guard.in_place_ok ? fmt::format("they share memory but are not the identical view: {}", where)
                : both_written      ? fmt::format("both are written: {}", where)
                               : fmt::format("{} is still read after elements of {} are written: {}", in, out, where))
        .help(other_type          ? fmt::format("cast the result to {} for an update in place, or separate memory",
                                                dtype_name(other.dtype()))
              : guard.in_place_ok ? "bind exactly the same view to both for an update in place, or separate memory"
                                  : "give the output memory of its own");
  }

  Result<void> operator()(const package::SizeGuard& guard) const {
    const TensorView& view = tensors[guard.buffer];
    const int dim = dim_of(guard.buffer, guard.dim);
    const int64_t size = dim < 0 ? 1 : view.size(dim);
    const auto wanted = guard.size.evaluate(symbols);
    if (wanted && *wanted == size) return {};
    return failed(
        fmt::format("{} has the wrong size", name(guard.buffer)),
        fmt::format("dim {} is {}, and {} ({}) is wanted", guard.dim, size, guard.size.to_string(), text_of(wanted)));
  }
  Result<void> operator()(const package::StrideGuard& guard) const {
    const TensorView& view = tensors[guard.buffer];
    const int dim = dim_of(guard.buffer, guard.dim);
    if (dim < 0 || view.size(dim) <= 1 || view.empty()) return {};
    constexpr uintptr_t whole = 16;
    const auto address = reinterpret_cast<uintptr_t>(view.data());
    if (package.buffers[guard.buffer].role == package::Buffer::Role::Output && address % whole != 0) {
      return failed(fmt::format("{} is not aligned to {} bytes", name(guard.buffer), whole),
                    fmt::format("its address is {} modulo {}", address % whole, whole));
    }
    const auto wanted = guard.stride.evaluate(symbols);
    if (wanted && *wanted == view.stride(dim)) return {};
    return failed(fmt::format("{} has the wrong stride", name(guard.buffer)),
                  fmt::format("dim {} has stride {}, and {} ({}) is wanted", guard.dim, view.stride(dim),
                              guard.stride.to_string(), text_of(wanted)));
  }
  Result<void> operator()(const package::AlignmentGuard& guard) const {
    const TensorView& view = tensors[guard.buffer];
    if (view.empty()) return {};
    const auto address = reinterpret_cast<uintptr_t>(view.data());
    if (address % static_cast<uint64_t>(guard.bytes) != 0) {
      return failed(
          fmt::format("{} is not aligned to {} bytes", name(guard.buffer), guard.bytes),
          fmt::format("its address is {} modulo {}", address % static_cast<uint64_t>(guard.bytes), guard.bytes));
    }
    for (int i = 0; i + 1 < view.rank(); ++i) {
      // Modulo before the product: the stride in bytes may not fit 64 bits where the size is 1.
      const int64_t over = view.stride(i) % guard.bytes * dtype_size(view.dtype()) % guard.bytes;
      if (view.size(i) > 1 && over != 0) {
        return failed(
            fmt::format("{} is not aligned to {} bytes", name(guard.buffer), guard.bytes),
            fmt::format("dim {} has a stride of {} elements of {} bytes", i, view.stride(i), dtype_size(view.dtype())));
      }
    }
    return {};
  }
  Result<void> operator()(const package::DivisibleGuard& guard) const {
    const auto value = guard.value.evaluate(symbols), divisor = guard.divisor.evaluate(symbols);
    if (value && divisor && *divisor != 0 && (*divisor == -1 || *value % *divisor == 0)) return {};
    return failed(fmt::format("{} must be a multiple of {}", guard.value.to_string(), guard.divisor.to_string()),
                  fmt::format("they are {} and {}{}", text_of(value), text_of(divisor), because(guard.why)));
  }
  Result<void> operator()(const package::RangeGuard& guard) const {
    types::DimFault fault = types::DimFault::none;
    const auto value = guard.value.evaluate(symbols, &fault), least = guard.least.evaluate(symbols),
               most = guard.most.evaluate(symbols);
    if (value && least && most && *least <= *value && *value <= *most) return {};
    const bool open = guard.most.as_constant() == INT64_MAX;
    return diag::error(
               diag::Code::guard_failed,
               fmt::format("{} must be {}{}", guard.value.to_string(), open ? "at least " : "",
                           open ? guard.least.to_string() : guard.least.to_string() + " to " + guard.most.to_string()))
        .reason(fmt::format("it {}, and {} {} is wanted{}",
                            value ? "is " + text_of(value) : fmt::format("has no value ({})", types::to_string(fault)),
                            text_of(least), open ? "or more" : "to " + text_of(most), because(guard.why)))
        .help("pass values that give a size in this range; slices are never clamped");
  }
  // About contents: where the memory lies decides who looks.
  Result<void> operator()(const package::NanGuard&) const { return {}; }
  Result<void> operator()(const package::IndexGuard&) const { return {}; }

  [[nodiscard]] const std::string& name(uint32_t buffer) const { return package.buffers[buffer].name; }
  // Declared dims count from the front; a view with fewer dims has size 1 in those that it lacks (then below 0).
  [[nodiscard]] int dim_of(uint32_t buffer, int32_t dim) const {
    return dim - (static_cast<int>(package.buffers[buffer].shape.size()) - tensors[buffer].rank());
  }
  static std::string text_of(const std::optional<int64_t>& value) {
    return value ? std::to_string(*value) : "out of range";
  }
  static std::string because(const std::string& why) { return why.empty() ? "" : "; " + why; }
  static Error failed(std::string headline, std::string reason) {
    return diag::error(diag::Code::guard_failed, std::move(headline))
        .reason(std::move(reason))
        .help("find a kernel for these tensors");
  }
};

}  // namespace

namespace {

// Whether it stands for a number of u64 that no i64 holds.
bool is_beyond(const package::Package& package, const package::DefineSymbol& step, int64_t source) {
  return source < 0 && step.from == package::DefineSymbol::From::Value &&
         package.buffers[step.buffer].dtype == DType::u64;
}

// What a size is about: an operand or an output by name, and of a value of the run, whose memory has a name of the
// planner's, the size itself.
std::string subject_of(const package::Package& package, const package::DefineSymbol& step) {
  using From = package::DefineSymbol::From;
  if (step.from == From::OutputSize) return step.symbol;
  if (step.from != From::Value) return step.from == From::Size ? package.buffers[step.buffer].name : std::string();
  const package::Buffer& buffer = package.buffers[step.buffer];
  return buffer.role == package::Buffer::Role::Temporary ? step.symbol : buffer.name;
}

// "dim 1 of C is f32[1, 5, 8]"; of Value: "count is 7", and "it is 7" where the run has made it.
std::string symbol_origin(const package::Package& package, const package::DefineSymbol& step, const TensorView& view,
                          int64_t source) {
  using From = package::DefineSymbol::From;
  switch (step.from) {
    case From::Size: {
      const package::Buffer& buffer = package.buffers[step.buffer];
      const auto rank = static_cast<int>(buffer.shape.size());
      if (view.rank() == rank) {
        return fmt::format(
            "dim {} of {} is {}{}", step.dim, buffer.name, view.describe(),
            step.value == types::Dim() ? "" : ", and less " + step.value.to_string() + " is " + std::to_string(source));
      }
      return fmt::format("{} is {}, of rank {}; the program takes rank {}", buffer.name, view.describe(), view.rank(),
                         rank);
    }
    case From::Stride:
      return fmt::format("the stride of dim {} of {} is {}", step.dim, package.buffers[step.buffer].name, source);
    case From::Value: {
      const package::Buffer& buffer = package.buffers[step.buffer];
      return fmt::format(
          "{} is {}", buffer.role == package::Buffer::Role::Temporary ? "it" : buffer.name,
          is_beyond(package, step, source) ? std::to_string(static_cast<uint64_t>(source)) : std::to_string(source));
    }
    case From::OutputSize:
    case From::OutputStride:
      return fmt::format("dim {} of output {} of an extern gives {}", step.dim, step.output, source);
    case From::Expression:
      break;
  }
  return fmt::format("{} is {}", step.value.to_string(), source);
}

}  // namespace

Result<int64_t> symbol_source(const package::Package& package, const package::DefineSymbol& step,
                              const TensorView& view, const Symbols& symbols) {
  using From = package::DefineSymbol::From;
  if (step.from == From::Expression) {
    types::DimFault why = types::DimFault::none;
    if (const auto value = step.value.evaluate(symbols, &why)) return *value;
    return diag::error(diag::Code::guard_failed, fmt::format("{} has no value", step.symbol))
        .reason(fmt::format("{}: {}", step.value.to_string(), types::to_string(why)))
        .help("bind tensors whose sizes give it one");
  }
  // Dims are counted from the front here; a view with fewer dims has size 1 in those that it lacks.
  const int missing = static_cast<int>(package.buffers[step.buffer].shape.size()) - view.rank();
  const int dim = step.dim - missing;
  if (step.from == From::Stride) return dim < 0 ? 0 : view.stride(dim);
  const int64_t size = dim < 0 ? 1 : view.size(dim);
  const auto less = step.value.evaluate(symbols);
  int64_t rest = 0;
  if (less && !__builtin_sub_overflow(size, *less, &rest)) return rest;
  return diag::error(diag::Code::guard_failed, fmt::format("{} has no value", step.symbol))
      .about(subject_of(package, step))
      .reason(fmt::format("{}, and less {} is out of range", symbol_origin(package, step, view, size),
                          step.value.to_string()))
      .help("bind tensors whose sizes give it one");
}

Result<void> define_symbol(const package::Package& package, const package::DefineSymbol& step, const TensorView& view,
                           int64_t source, Symbols& symbols, std::vector<Symbols::node_type>* spare) {
  const auto origin = [&] { return symbol_origin(package, step, view, source); };
  if (is_beyond(package, step, source)) {
    return diag::error(diag::Code::guard_failed, fmt::format("{} is too large", step.symbol))
        .about(subject_of(package, step))
        .reason(fmt::format("{}, and sizes are up to {}", origin(), INT64_MAX))
        .help("pass values that give a smaller size");
  }
  int64_t value = source;
  if (step.divisor.as_constant() != 1) {
    const auto divisor = step.divisor.evaluate(symbols);
    if (!divisor || *divisor == 0 || *divisor == -1 || source % *divisor != 0) {
      return diag::error(diag::Code::guard_failed, fmt::format("{} is no whole number", step.symbol))
          .reason(fmt::format("{}, and is divided by {} ({})", origin(), step.divisor.to_string(),
                              divisor ? std::to_string(*divisor) : "out of range"))
          .help("bind tensors whose sizes are multiples");
    }
    value = source / *divisor;
  }
  if (value < 0 && step.from == package::DefineSymbol::From::Stride) {
    const std::string& name = package.buffers[step.buffer].name;
    return diag::error(diag::Code::guard_failed, fmt::format("the stride of dim {} of {} is negative", step.dim, name))
        .about(name)
        .reason(fmt::format("it is {} elements, and a kernel takes it: {}", source, view.describe()))
        .help(fmt::format("copy {} so that its elements ascend, or start from its other end", name));
  }
  if (value < 0) {  // what is known of expressions rests on symbols that are not
    const std::string from = origin(), itself = fmt::format("it is {}", value);
    return diag::error(diag::Code::guard_failed, fmt::format("{} is negative", step.symbol))
        .about(subject_of(package, step))
        .reason(from == itself ? itself : fmt::format("{}: {}", itself, from))
        .help("bind tensors whose sizes give a number of at least 0");
  }
  if (const auto at = symbols.find(step.symbol); at == symbols.end()) {
    if (spare == nullptr || spare->empty()) {
      symbols.emplace(step.symbol, value);
    } else {
      spare->back().key() = step.symbol;
      spare->back().mapped() = value;
      symbols.insert(std::move(spare->back()));
      spare->pop_back();
    }
    return {};
  } else if (at->second == value) {
    return {};
  }
  return diag::error(diag::Code::guard_failed,
                     fmt::format("{} is {} here but {} elsewhere", step.symbol, value, symbols.at(step.symbol)))
      .about(subject_of(package, step))
      .reason(origin())
      .help("bind tensors whose sizes agree");
}

Result<void> define_symbol(const package::Package& package, const package::DefineSymbol& step, const TensorView& view,
                           Symbols& symbols) {
  CODETTA_TRY(const int64_t source, symbol_source(package, step, view, symbols));
  return define_symbol(package, step, view, source, symbols);
}

Result<int64_t> size_of_output(const package::DefineSymbol& step, const CodettaTensor& output,
                               const std::string& whose) {
  if (step.dim >= output.rank) {
    return diag::error(diag::Code::guard_failed,
                       fmt::format("output {} of {} has no dim {}", step.output, whose, step.dim))
        .reason(fmt::format("it has {} dims", output.rank))
        .help("the function and the program disagree about its results");
  }
  return step.from == package::DefineSymbol::From::OutputSize ? output.shape[step.dim] : output.strides[step.dim];
}

Result<TensorView> view_of_output(const package::Buffer& buffer, const CodettaTensor& output, uint32_t number,
                                  const std::string& whose, const Symbols& symbols) {
  const auto misfit = [&](const std::string& reason) {
    return diag::error(diag::Code::guard_failed,
                       fmt::format("output {} of {} is not what the program declares", number, whose))
        .reason(reason)
        .help("the function and the program disagree about its results");
  };
  if (output.rank != static_cast<int32_t>(buffer.shape.size()) || output.dtype != static_cast<int32_t>(buffer.dtype)) {
    const bool known = output.dtype >= 0 && output.dtype < dtype_count;
    return misfit(fmt::format("it has {} dims of {}, and {} has {} of {}", output.rank,
                              known ? dtype_name(static_cast<DType>(output.dtype)) : "no element type", buffer.name,
                              buffer.shape.size(), dtype_name(buffer.dtype)));
  }
  const auto count = static_cast<size_t>(output.rank);
  const Dims shape(std::span<const int64_t>(output.shape, count)),
      strides(std::span<const int64_t>(output.strides, count));
  CODETTA_TRY(const TensorView view, TensorView::make(output.data, buffer.dtype, shape, strides));
  if (const auto fits = check_view(buffer, view, symbols); !fits)
    return misfit(fits.error().diagnostics().front().reason);
  return view;
}

Result<void> check_guard(const package::Package& package, const package::Guard& guard,
                         const std::vector<TensorView>& tensors, const Symbols& symbols) {
  return std::visit(GuardCheck{package, tensors, symbols}, guard);
}

Error endless_loop(int64_t passes, const std::string& place, const std::string& predicate) {
  return diag::error(diag::Code::loop_endless, fmt::format("the loop still runs after {} iterations", passes))
      .reason(fmt::format("{}{} has not become false", place, predicate))
      .help("carry a count, and let the condition compare it with a limit");
}

Result<void> check_output(const std::string& name, const TensorView& view) {
  if (view.read_only()) {
    return diag::error(diag::Code::output_binding, fmt::format("output {} is bound to read-only memory", name))
        .about(name)
        .reason(
            fmt::format("{} comes from const data, or from a library that does not let it be written", view.describe()))
        .help("bind memory that may be written");
  }
  if (!types::overlaps_itself(view)) return {};
  return diag::error(diag::Code::overlap, fmt::format("output {} overlaps itself", name))
      .about(name)
      .reason(fmt::format("elements of {} with strides {} share memory", view.describe(), to_string(view.strides())))
      .help("give each element of an output its own place; a result that is the same along a dim takes size 1 there");
}

Result<void> check_outputs(const package::Package& package, const std::vector<TensorView>& tensors) {
  for (size_t i = 0; i < package.buffers.size(); ++i) {
    const TensorView& view = tensors[i];
    if (package.buffers[i].donated && view.read_only()) {
      return diag::error(diag::Code::output_binding,
                         fmt::format("donated {} is bound to read-only memory", package.buffers[i].name))
          .about(package.buffers[i].name)
          .reason(fmt::format("{} comes from const data, or from a library that does not let it be written, and the "
                              "program writes to what it is given",
                              view.describe()))
          .help("bind memory that may be written, or declare the parameter without donated[...]");
    }
    if (package.buffers[i].role == package::Buffer::Role::Output)
      CODETTA_CHECK_OK(check_output(package.buffers[i].name, view));
  }
  return {};
}

}  // namespace codetta::runtime

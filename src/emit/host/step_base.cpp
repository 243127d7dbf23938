// SPDX-License-Identifier: Apache-2.0
#include "emit/host/step_base.hpp"

#include "emit/host/signature.hpp"
#include "package/factors.hpp"

namespace codetta::emit::host {

using base::CodeWriter;
using package::Buffer;
using types::Dim;

void StepBase::operator()(const package::EqualGuard& guard) {
  checked("check_equal(", number(guard.left), ", ", number(guard.right), ", ",
          literal_text(guard.left.to_string() + " must equal " + guard.right.to_string()), ", ",
          literal_text(guard.why), ")");
}
void StepBase::operator()(const package::UnitStrideGuard& guard) {
  checked("check_unit_stride(v[", guard.buffer, "], ", name_of(guard.buffer), ")");
}
void StepBase::operator()(const package::NoOverlapGuard& guard) {
  if (const std::string check = overlap_check(package_, guard); !check.empty()) checked(check);
}
void StepBase::define_size(const package::DefineSymbol& step, const std::string& head) {
  const auto factor = step.divisor.as_constant();
  if (!factor || *factor < 1) {
    const std::string less = step.value == Dim() ? std::string() : " + " + number(-step.value);
    out_.line("CODETTA_OK(define_value(", head, "Number(v[", step.buffer, "].size_from_last(", from_last(step), "))",
              less, ", ", number(step.divisor), "));");
    return;
  }
  std::string sum;
  if (*factor != 1 || !(step.value == Dim())) sum = ", " + std::to_string(*factor);
  if (!(step.value == Dim())) sum += ", " + number(step.value);
  out_.line("CODETTA_OK(define(", head, "v[", step.buffer, "], ", name_of(step.buffer), ", ", step.dim, ", ",
            package_.buffers[step.buffer].shape.size(), sum, "));");
}
void StepBase::operator()(const package::SizeGuard& guard) {
  checked("check_equal(Number(v[", guard.buffer, "].size_from_last(", from_last(guard), ")), ", number(guard.size),
          ", ", literal_text("a size of " + package_.buffers[guard.buffer].name), ", \"\")");
}
void StepBase::operator()(const package::StrideGuard& guard) {
  const char* const check = package::written_by_user(package_, guard) ? "check_written(v[" : "check_stride(v[";
  checked(check, guard.buffer, "], ", from_last(guard), ", ", number(guard.stride), ", ", name_of(guard.buffer), ")");
}
void StepBase::operator()(const package::AlignmentGuard& guard) {
  const char* const check = package::written_by_user(package_, guard) ? "check_written_at(v[" : "check_alignment(v[";
  checked(check, guard.buffer, "], ", guard.bytes, ", ", name_of(guard.buffer), ")");
}
void StepBase::operator()(const package::DivisibleGuard& guard) {
  checked("check_equal(mod(", number(guard.value), ", ", number(guard.divisor), "), Number(0), ",
          literal_text(guard.value.to_string() + " must be a multiple of " + guard.divisor.to_string()), ", ",
          literal_text(guard.why), ")");
}
void StepBase::operator()(const package::RangeGuard& guard) { checked(range_check(guard)); }
std::string StepBase::range_check(const package::RangeGuard& guard) {
  return base::CodeWriter::text_of("check_range(", number(guard.value), ", ", number(guard.least), ", ",
                                   number(guard.most), ", ", literal_text(guard.value.to_string()), ", ",
                                   literal_text(guard.why), ")");
}

void StepBase::operator()(const package::Allocate& step) {
  const Buffer& buffer = package_.buffers[step.buffer];
  const auto scope = begin_buffer(buffer);
  out_.line("i64 offset = 0;");
  out_.line("CODETTA_OK(place(frame, offset, span_bytes(", dtype_of(step.buffer), ", sizes, ", strides_of(buffer), ", ",
            buffer.shape.size(), ")));");
  out_.line("CODETTA_OK(allocate(frame, v[", step.buffer, "], ", dtype_of(step.buffer), ", Number(offset), sizes, ",
            strides_of(buffer), ", ", buffer.shape.size(), "));");
}
void StepBase::allocate_in(const std::string& frame, const package::AllocateFromPool& step) {
  const Buffer& buffer = package_.buffers[step.buffer];
  const auto scope = begin_buffer(buffer);
  out_.line("CODETTA_OK(allocate(", frame, ", v[", step.buffer, "], ", dtype_of(step.buffer), ", Number(", shared_,
            "pool_", step.pool, ") + ", number(step.offset), ", sizes, ", strides_of(buffer), ", ", buffer.shape.size(),
            "));");
}
void StepBase::operator()(const package::Reuse& step) {
  const Buffer& buffer = package_.buffers[step.buffer];
  const auto scope = begin_buffer(buffer);
  if (package_.buffers[step.from].donated) {
    out_.line("CODETTA_OK(reuse_donated(v[", step.buffer, "], v[", step.from, "], ", name_of(step.from), ", ",
              buffer.alignment, ", ", dtype_of(step.buffer), ", sizes, ", strides_of(buffer), ", ", buffer.shape.size(),
              ", ", name_of(step.buffer), "));");
    return;
  }
  out_.line("CODETTA_OK(bind(v[", step.buffer, "], v[", step.from, "].data, ", dtype_of(step.buffer), ", sizes, ",
            buffer.shape.size(), ", ", name_of(step.buffer), ", ", strides_of(buffer), "));");
}
void StepBase::operator()(const package::Reinterpret& step) {
  const Buffer& buffer = package_.buffers[step.buffer];
  if (!buffer.begin.empty()) {
    const auto view = [](uint32_t b) { return CodeWriter::text_of("v[", b, "]"); };
    return print_slice(view(step.buffer), view(step.source), step.buffer);
  }
  const auto scope = begin_buffer(buffer);
  out_.line("CODETTA_OK(reinterpret(v[", step.buffer, "], v[", step.source, "], ", number(buffer.offset), ", ",
            dtype_of(step.buffer), ", sizes, ", strides_of(buffer), ", ", buffer.shape.size(), ", ",
            name_of(step.buffer), "));");
}

void StepBase::print_slice(const std::string& slice, const std::string& whole, uint32_t buffer) {
  const auto scope = begin_buffer(package_.buffers[buffer]);
  out_.line("const Number begin[] = {", numbers(package_.buffers[buffer].begin), "};");
  out_.line("CODETTA_OK(slice(", slice, ", ", whole, ", begin, sizes, ", name_of(buffer), "));");
}

std::string StepBase::new_slice(const std::string& slice, const std::string& whole, uint32_t buffer) {
  out_.line("View ", slice, ";");
  print_slice(slice, whole, buffer);
  return slice;
}

void StepBase::print_ahead_sizes(const package::LookAhead& ahead, bool none) {
  if (ahead.sizes.empty()) return;
  const auto scope = out_.block("if (!frame.running)");
  for (const auto& [symbol, most] : ahead.sizes)
    out_.line(variables_.at(symbol), " = ", none ? std::string("Number::none()") : number(most), ";");
}

void StepBase::print_places(const package::LookAhead::Look& look) {
  for (const package::LookAhead::Place& place : look.places) {
    const Buffer& buffer = package_.buffers[place.buffer];
    const auto scope = begin_buffer(buffer);
    const std::string view = CodeWriter::text_of("v[", place.buffer, "]"),
                      source = place.source ? CodeWriter::text_of("v[", *place.source, "]") : std::string();
    if (!place.begin.empty()) {
      out_.line("const Number begin[] = {", numbers(place.begin), "};");
      out_.line("CODETTA_OK(slice(", view, ", ", source, ", begin, sizes, ", name_of(place.buffer), "));");
      continue;
    }
    std::string address = source.empty() ? "unplaced()" : source + ".data";
    if (place.source && !(buffer.offset == Dim()))
      address += CodeWriter::text_of(" + (", number(buffer.offset), ").value");
    out_.line("CODETTA_OK(bind(", view, ", ", address, ", ", dtype_of(place.buffer), ", sizes, ", buffer.shape.size(),
              ", ", name_of(place.buffer), ", ", strides_of(buffer), "));");
  }
}

void StepBase::print_widths(const package::EpilogueProgram& program) {
  out_.line("const Number widths[] = {",
            comma_list(program.spaces,
                       [&](const package::ProductSpace& space) { return number(program.sizes[space.columns]); }),
            "};");
}

std::string StepBase::seen_factor(const std::string& tensor, uint32_t buffer, const package::FactorView& view,
                                  const std::string& seen) {
  if (view.empty()) return tensor;
  out_.line("View ", seen, ";");
  const std::string dims = comma_list(view, [&](const package::FactorDim& dim) {
    return CodeWriter::text_of("{", int{dim.dim}, ", ", number(dim.scale), ", ", number(dim.size), "}");
  });
  out_.line("CODETTA_OK(see(", seen, ", ", tensor, ", {", dims, "}, ", name_of(buffer), "));");
  return seen;
}

CodeWriter::Block StepBase::begin_buffer(const Buffer& buffer) {
  if (buffer.alignment > most_alignment_)
    lacks("a buffer is aligned to more than " + std::to_string(most_alignment_) + " bytes");
  auto scope = out_.block("");
  out_.line("// ", comment_text(buffer.name), ": ", type_text(buffer));
  print_sizes(buffer);
  if (!buffer.strides.empty()) out_.line("const Number strides[] = {", numbers(buffer.strides), "};");
  return scope;
}

void StepBase::print_sizes(const Buffer& buffer) {
  out_.line("const Number sizes[] = {", buffer.shape.empty() ? "Number(1)" : numbers(buffer.shape), "};");
}

size_t StepBase::print_ranges(const package::StepList& list, std::optional<CodeWriter::Block>& in_range) {
  size_t count = 0;
  std::string all;
  for (; count < list.size(); ++count) {
    const auto* check = std::get_if<package::Check>(&list[count]);
    const auto* range = check == nullptr ? nullptr : std::get_if<package::RangeGuard>(&check->guard);
    if (range == nullptr) break;
    out_.line("if (frame.running) CODETTA_OK(", range_check(*range), ");");
    all += CodeWriter::text_of(all.empty() ? "" : " && ", "in_range(", number(range->value), ", ", number(range->least),
                               ", ", number(range->most), ")");
  }
  if (count > 0) in_range.emplace(out_.block("if (frame.running || (", all, "))"));
  return count;
}

void StepBase::name_symbols() {
  const auto name = [this](const package::StepList& list) {
    for (const package::Step& step : list) {
      if (const auto* define = std::get_if<package::DefineSymbol>(&step))
        variables_.emplace(define->symbol, CodeWriter::text_of(shared_, "n", variables_.size()));
    }
  };
  name(package_.steps);
  for (const package::StepList& list : package_.step_lists) name(list);
}

void StepBase::forget_symbols(const package::StepList& list) {
  for (const package::Step& step : list) {
    if (const auto* define = std::get_if<package::DefineSymbol>(&step))
      out_.line(variables_.at(define->symbol), " = Number::none();");
  }
}

SymbolText StepBase::symbols() const {
  return [this](std::string_view symbol) {
    const auto found = variables_.find(std::string(symbol));
    return found == variables_.end() ? std::string("Number::none()") : found->second;
  };
}

std::string StepBase::numbers(const std::vector<types::Dim>& dims) const {
  return comma_list(dims, [this](const types::Dim& dim) { return number(dim); });
}

}  // namespace codetta::emit::host

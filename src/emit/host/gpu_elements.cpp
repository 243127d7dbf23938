// SPDX-License-Identifier: Apache-2.0
// Steps on elements of a GPU as calls of device/host/gpu_elements.h, and what they look at.
#include <algorithm>

#include "emit/host/devices.hpp"
#include "emit/host/steps.hpp"
#include "emit/host/text.hpp"
#include "package/device_copies.hpp"
#include "package/gpu_steps.hpp"

namespace codetta::emit::host {

using base::CodeWriter;

namespace {

size_t place_in(const std::vector<const package::Step*>& steps, const package::Step* step) {
  return static_cast<size_t>(std::find(steps.begin(), steps.end(), step) - steps.begin());
}

}  // namespace

std::vector<const package::Step*> sizes_read_by(const package::Package& package) {
  std::vector<const package::Step*> found;
  for (const package::Step& step : package.steps) {  // what a call computes, and branches and loops, is read in the run
    const auto* define = std::get_if<package::DefineSymbol>(&step);
    if (define == nullptr || define->from != package::DefineSymbol::From::Value) continue;
    const package::Buffer& buffer = package.buffers[define->buffer];
    if (buffer.role == package::Buffer::Role::Argument && !buffer.is_scalar) found.push_back(&step);
  }
  return found;
}
bool starts_with_map(const package::Package& package) {
  for (const package::Step& step : package.steps) {
    if (const auto* launch = std::get_if<package::LaunchKernel>(&step))
      return package::is_map(package.kernels[launch->kernel].config);
    if (std::holds_alternative<package::If>(step) || std::holds_alternative<package::While>(step)) return false;
  }
  return false;
}
bool has_launches(const package::Package& package) {
  return !launches_of(package).empty() || !sizes_read_by(package).empty() || !package::device_copies(package).empty();
}

// By step, the buffers whose contents it looks at, in the order of the lists.
std::vector<std::pair<const package::Step*, uint32_t>> looked_at(const Library& library, const Program& program) {
  std::vector<std::pair<const package::Step*, uint32_t>> result;
  const package::Package& package = *program.package;
  const auto add = [&](const package::StepList& list) {
    for (const package::Step& step : list) {
      if (const auto* put = std::get_if<package::IndexPut>(&step)) {
        for (const uint32_t index : put->indices) result.emplace_back(&step, index);
      } else if (const auto* scatter = std::get_if<package::Scatter>(&step)) {
        result.emplace_back(&step, scatter->index);
      } else if (const auto* check = std::get_if<package::Check>(&step)) {
        if (const auto* nan = std::get_if<package::NanGuard>(&check->guard)) result.emplace_back(&step, nan->buffer);
        if (const auto* of = std::get_if<package::IndexGuard>(&check->guard)) result.emplace_back(&step, of->buffer);
      }
    }
  };
  if (!library.checked || package.target.backend == Backend::cpu) return result;
  add(package.steps);
  for (const package::StepList& list : package.step_lists) add(list);
  return result;
}

bool function_looks(const Library& library, size_t program_index) {
  const SizeTable* const table = table_of(library, program_index);
  const size_t first = table == nullptr ? program_index : table->first, count = table == nullptr ? 1 : table->count;
  for (size_t p = first; p < first + count; ++p) {
    if (!looked_at(library, library.programs[p]).empty()) return true;
  }
  return false;
}

void print_looked(CodeWriter& out, const Library& library, const Program& program) {
  const auto looked = looked_at(library, program);
  if (looked.empty()) return;
  const auto all = out.block_with("};", "constexpr const char* looked[] = ");
  for (const auto& [step, buffer] : looked) out.line(literal_text(told_name(program, buffer)), ",");
}

const std::string& told_name(const Program& program, uint32_t buffer) {
  const auto told = program.told.find(buffer);
  return told != program.told.end() ? told->second : program.package->buffers[buffer].name;
}

std::string ElementSteps::kernel() const {
  return kernel_symbol(program_index, package::steps_kernel(*program.package).value_or(0));
}

std::string ElementSteps::named(uint32_t buffer) const {
  return CodeWriter::text_of("v[", buffer, "], ", literal_text(program.package->buffers[buffer].name));
}

int64_t ElementSteps::number() const {
  const auto looked = looked_at(library, program);
  const auto found = std::find_if(looked.begin(), looked.end(), [&](const auto& one) { return one.first == step; });
  return found == looked.end() ? -1 : found - looked.begin();
}

void ElementSteps::index_put(const package::IndexPut& put) const {
  const auto scope = out.block("");
  std::string indices;
  for (const uint32_t index : put.indices) indices += (indices.empty() ? "{&" : ", {&") + named(index) + "}";
  out.line("const Index indices[] = {", indices, "};");
  out.line("CODETTA_OK(index_put(frame, ", kernel(), ", ", named(put.target), ", indices, ", put.indices.size(), ", ",
           named(put.values), ", ", put.accumulate ? 1 : 0, ", ", number(), "));");
}

void ElementSteps::scatter(const package::Scatter& scatter) const {
  out.line("CODETTA_OK(scatter(frame, ", kernel(), ", ", named(scatter.target), ", Index{&", named(scatter.index),
           "}, ", named(scatter.source), ", ", scatter.dim, ", ", static_cast<int>(scatter.reduce), ", ", number(),
           "));");
}

// Tensors of the caller's may have any strides; where there is a kernel for these it is at hand.
void ElementSteps::copy(const package::Copy& copy) const {
  if (is_between_devices(*program.package, copy)) {
    const auto all = package::device_copies(*program.package);
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.step == &copy; });
    const auto said = [](bool yes) { return yes ? "true" : "false"; };
    const std::string order = CodeWriter::text_of("{", found->from, ", ", found->to, ", ", said(found->waits), ", ",
                                                  said(found->waited_for), ", ", said(found->follows), "}");
    out.line("CODETTA_OK(copy_between(frame, ",
             package::steps_kernel(*program.package) ? "&" + kernel() : std::string("nullptr"), ", v[", copy.target,
             "], v[", copy.source, "], ", order, ", launches.copies[", found - all.begin(), "], ",
             literal_text(program.package->buffers[copy.target].name), "));");
    return;
  }
  const std::string on_elements = package::steps_kernel(*program.package) ? kernel() + ", " : "";
  out.line("CODETTA_OK(copy(frame, ", on_elements, "v[", copy.target, "], v[", copy.source, "], ",
           literal_text(program.package->buffers[copy.target].name), "));");
}

void ElementSteps::fill(const package::Fill& fill) const {
  if (package::steps_kernel(*program.package)) {
    out.line("CODETTA_OK(fill(frame, ", kernel(), ", v[", fill.buffer, "], ", fill.bits, "ull, ",
             literal_text(program.package->buffers[fill.buffer].name), "));");
  } else {
    out.line("CODETTA_OK(fill(frame, v[", fill.buffer, "], ", fill.bits & 0xFF, ", ",
             literal_text(program.package->buffers[fill.buffer].name), "));");
  }
}

void ElementSteps::size(const package::DefineSymbol& define, const std::string& head,
                        const std::string& divisor) const {
  const std::string value =
      CodeWriter::text_of("launches.sizes[", place_in(sizes_read_by(*program.package), step), "]");
  out.line("CODETTA_OK(read_integer(frame, ", named(define.buffer), ", ", value, "));");
  if (program.package->buffers[define.buffer].dtype == DType::u64)
    out.line("CODETTA_OK(check_size(", value, ", ", literal_text(program.package->buffers[define.buffer].name), "));");
  out.line("CODETTA_OK(define_value(", head, "Number(", value, "), ", divisor, "));");
}

void ElementSteps::look(uint32_t buffer, const char* looks, const std::string& limit) const {
  out.line("CODETTA_OK(look(frame, ", kernel(), ", ", named(buffer), ", codetta::gpu::Looks::", looks, ", ", limit,
           ", ", number(), "));");
}

}  // namespace codetta::emit::host

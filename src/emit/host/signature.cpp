// SPDX-License-Identifier: Apache-2.0
#include "emit/host/signature.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "types/symbol_source.hpp"

namespace codetta::emit::host {

using package::Buffer;

const Constant* constant_of(const Program& program, uint32_t buffer) {
  for (const Constant& constant : program.constants) {
    if (constant.buffer == buffer) return &constant;
  }
  return nullptr;
}

const package::Reinterpret* slice_step(const package::Package& package, uint32_t buffer) {
  if (package.buffers[buffer].begin.empty()) return nullptr;
  for (const package::Step& step : package.steps) {
    const auto* view = std::get_if<package::Reinterpret>(&step);
    if (view != nullptr && view->buffer == buffer) return view;
  }
  return nullptr;
}

Signature signature_of(const Program& program) {
  Signature signature;
  const auto& buffers = program.package->buffers;
  std::set<std::string> seen;
  std::vector<types::Shape> constants;
  for (const Constant& constant : program.constants) constants.push_back(buffers[constant.buffer].shape);
  const auto fixed = [&](std::string_view symbol) -> std::optional<int64_t> {
    for (const auto& [known, value] : signature.fixed) {
      if (known == symbol) return value;
    }
    return std::nullopt;
  };
  for (const types::SymbolSource& source : types::symbol_sources(constants)) {
    const int64_t size = program.constants[source.shape].shape[static_cast<int>(source.dim)];
    const auto value = types::value_from(source, size, fixed);
    if (!value) continue;  // of a value that does not fit, which is said where it is bound
    seen.insert(source.symbol);
    signature.fixed.emplace_back(source.symbol, *value);
  }
  for (uint32_t b = 0; b < buffers.size(); ++b) {
    const Buffer& buffer = buffers[b];
    if (buffer.role != Buffer::Role::Argument && buffer.role != Buffer::Role::Output) continue;
    if (constant_of(program, b) != nullptr) continue;
    signature.arguments.push_back(b);
    for (const types::Dim& dim : buffer.shape) {
      for (const std::string& symbol : dim.symbols()) {
        if (seen.insert(symbol).second) signature.symbols.push_back(symbol);
      }
    }
  }
  return signature;
}

std::string first_number(const Program& program, std::string_view symbol) {
  for (const auto& [name, value] : signature_of(program).fixed) {
    if (name == symbol) return "Number(" + std::to_string(value) + ")";
  }
  return "Number::none()";
}

std::vector<std::string> computed_inside(const package::Package& package) {
  using From = package::DefineSymbol::From;
  std::vector<std::string> symbols;
  for (const package::StepList& list : package.step_lists) {
    for (const package::Step& step : list) {
      const auto* define = std::get_if<package::DefineSymbol>(&step);
      if (define != nullptr &&
          (define->from == From::Value || define->from == From::OutputSize || define->from == From::OutputStride))
        symbols.push_back(define->symbol);
    }
  }
  return symbols;
}

std::vector<std::string> computed_sizes(const package::Package& package) {
  using From = package::DefineSymbol::From;
  std::vector<std::string> symbols;
  for (const package::Step& step : package.steps) {
    const auto* define = std::get_if<package::DefineSymbol>(&step);
    if (define == nullptr) continue;
    const bool value = define->from == From::Value && package.buffers[define->buffer].role != Buffer::Role::Argument;
    if (value || define->from == From::OutputSize || define->from == From::OutputStride)
      symbols.push_back(define->symbol);
  }
  for (std::string& symbol : computed_inside(package)) symbols.push_back(std::move(symbol));
  return symbols;
}

bool has_late_sizes(const package::Package& package) {
  if (!computed_sizes(package).empty()) return true;
  bool placed = false;
  return std::any_of(package.steps.begin(), package.steps.end(), [&](const package::Step& step) {
    placed = placed || std::holds_alternative<package::AllocateFromPool>(step) ||
             std::holds_alternative<package::If>(step) || std::holds_alternative<package::While>(step);
    const auto* define = std::get_if<package::DefineSymbol>(&step);
    return placed && define != nullptr && define->from == package::DefineSymbol::From::Value;
  });
}

std::vector<ComputedDim> computed_dims(const package::Package& package) {
  std::vector<ComputedDim> dims;
  for (uint32_t b = 0; b < package.buffers.size(); ++b) {
    const Buffer& buffer = package.buffers[b];
    for (size_t d = 0; d < buffer.filled.size(); ++d) {
      if (!(buffer.filled[d] == buffer.shape[d])) dims.push_back({b, d, buffer.filled[d]});
    }
  }
  return dims;
}

const SizeTable* table_of(const Library& library, size_t program) {
  for (const SizeTable& table : library.by_size) {
    if (program >= table.first && program < table.first + table.count) return &table;
  }
  return nullptr;
}

std::vector<size_t> functions_of(const Library& library) {
  std::vector<size_t> first;
  for (size_t p = 0; p < library.programs.size(); ++p) {
    const SizeTable* table = table_of(library, p);
    if (table == nullptr || table->first == p) first.push_back(p);
  }
  return first;
}

std::string type_text(const Buffer& buffer) {
  const std::string dtype(dtype_name(buffer.dtype));
  return buffer.is_scalar ? dtype : dtype + types::to_string(buffer.shape);
}

}  // namespace codetta::emit::host

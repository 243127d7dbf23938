// SPDX-License-Identifier: Apache-2.0
#include "emit/host/python_text.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "package/gpu_call.hpp"
#include "types/dtype.hpp"

namespace codetta::emit::host {

using namespace package;  // NOLINT: kinds of kernels

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t j = 0; j < 3; ++j) three = three << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (size_t j = 0; j < 4; ++j) text += j <= count ? digits[three >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

std::string py_quoted(std::string_view text) {
  std::string body;
  bool ascii = true;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      body += '\\';
      body += c;
    } else if (byte >= 0x20 && byte < 0x7F) {
      body += c;
    } else {
      ascii = false;
      body += fmt::format("\\x{:02x}", byte);
    }
  }
  return ascii ? "\"" + body + "\"" : "b\"" + body + "\".decode(\"utf-8\", \"replace\")";
}

std::string py_comment(std::string_view text) {
  std::string line;
  for (const char c : text) line += c >= 0x20 && c < 0x7F ? c : '?';
  return line;
}

std::string gpu_kernel_row(const package::Kernel& kernel) {
  const auto* map = std::get_if<GpuMapConfig>(&kernel.config);
  const GpuGemmConfig c = map != nullptr ? pieces_of(*map) : gpu(kernel.config);
  const EpilogueProgram& e = kernel.epilogue;
  const auto number = [](auto value) { return static_cast<int>(value); };
  bool keeps = false;
  for (size_t p = 1; p < e.phases.size(); ++p) keeps = keeps || e.phases[p].reads_accumulator;
  std::string text = fmt::format(
      "    (b\"{}\", {},\n     ({}, {}, {}, {:d}, {:d}, {:d}, {:d}, {:d}, {:d}, {:d}, {:d}, {:d}, {}, ",
      base64(kernel.binary), py_quoted(kernel.name), number(c.family), number(c.a_dtype), number(c.b_dtype),
      map == nullptr, c.a_k_major, c.b_k_major, map == nullptr && c.pack_a, map == nullptr && c.pack_b, c.persistent,
      c.stream_k, keeps, map == nullptr && rows_fold_by_slots(e), missing_when(e, map == nullptr));
  text += fmt::format("{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}),\n     (", dtype_size(c.accumulator),
                      c.tile_m, c.tile_n, c.tile_k, c.cluster_m, c.cluster_n, c.k_split, c.group, c.alignment,
                      c.piece_rows, c.piece_cols, e.split.ways, bytes_of_loads(e));
  for (const GpuEntry& entry : kernel.entries)
    text += fmt::format("({}, {}, {}, {}, {}, {}), ", number(entry.kind), entry.index, py_quoted(entry.symbol),
                        entry.threads, entry.shared_bytes, entry.results_per_block);
  text += "),\n     (";
  for (const CudaTensorMap& one : kernel.maps)
    text += fmt::format("({}, {:d}, {}, {}, {}, {}), ", number(one.source), one.column_major, one.operand, one.box_fast,
                        one.box_slow, one.swizzle_bytes);
  text += "), (";
  for (const Reduction& r : e.reductions)
    text += fmt::format("({}, {}, {}, {}), ", number(r.axis), r.phase, dtype_size(r.type),
                        r.kind == ReduceKind::LogSumExp ? 2 : 1);
  text += "), (";
  for (const Operand& operand : e.operands) {
    const auto index = static_cast<size_t>(&operand - e.operands.data());
    const package::FoldSlots slots = package::fold_slots_of(e, index);
    text += fmt::format("({}, {:d}, {:d}, {:d}), ", number(operand.dtype), operand.is_store, slots.batch, slots.row);
  }
  text += fmt::format("), {}),\n", e.arguments.size());
  return text;
}

}  // namespace codetta::emit::host

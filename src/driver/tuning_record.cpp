// SPDX-License-Identifier: Apache-2.0
// Tuning results on disk.
#include "driver/tuning_record.hpp"

#include "base/text.hpp"
#include "types/machine.hpp"

namespace codetta::driver {
namespace {

toolchain::CacheKey tuning_key(ContextState& context, const FoundState& found) {
  const plan::GemmShape& shape = found.problem.shape;
  toolchain::CacheKey key(toolchain::EntryKind::Tuning, "cpu gemm");
  key.add("epilogue", found.plan.kernels[0].lowered.program.encode());
  key.add("target", found.target.to_string());
  key.add("cpu", types::read_cpu_facts().name);
  key.add("threads", std::to_string(context.pool->size()));
  // Interpreted epilogues cost other times than compiled ones.
  key.add("compiler", !context.options.no_compiler && context.compiler() ? context.compiler()->identity : "none");
  key.add("strict", found.strict ? "1" : "0");
  for (const int64_t size : {shape.batch, shape.m, shape.n, shape.k}) key.add("size", std::to_string(size));
  for (const int64_t stride : {shape.a_batch_stride, shape.a_row_stride, shape.a_k_stride, shape.b_batch_stride,
                               shape.b_k_stride, shape.b_col_stride}) {
    key.add("stride", std::to_string(stride));
  }
  key.add("types", std::string(dtype_name(shape.a)) + " " + std::string(dtype_name(shape.b)));
  key.add("packed", shape.b_packed ? "1" : "0");
  return key;
}

}  // namespace

const double* TuningRecord::find(const std::string& kernel) const {
  for (const auto& [name, microseconds] : medians) {
    if (name == kernel) return &microseconds;
  }
  return nullptr;
}

std::string encode_tuning(const TuningRecord& record) {
  std::string text;
  for (const auto& [name, microseconds] : record.medians)
    text += name + "\t" + base::format_double(microseconds) + "\n";
  return text;
}

TuningRecord decode_tuning(std::string_view text) {
  TuningRecord record;
  while (!text.empty()) {
    const size_t tab = text.find('\t'), end = text.find('\n');
    if (tab == std::string_view::npos || end == std::string_view::npos || tab > end) break;
    const auto microseconds = base::parse_double(text.substr(tab + 1, end - tab - 1));
    if (!microseconds || !(*microseconds > 0)) break;
    record.medians.emplace_back(text.substr(0, tab), *microseconds);
    text.remove_prefix(end + 1);
  }
  return record;
}

TuningRecord load_tuning(ContextState& context, const FoundState& found) {
  if (!context.cache->enabled()) return {};
  const auto entry = context.cache->lookup(tuning_key(context, found));
  return entry ? decode_tuning(entry->payload) : TuningRecord{};
}

void save_tuning(ContextState& context, const FoundState& found, const TuningRecord& record) {
  context.cache->replace(tuning_key(context, found), {"tuning", encode_tuning(record)});
}

}  // namespace codetta::driver

// SPDX-License-Identifier: Apache-2.0
#include "driver/program_times.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/digest.hpp"
#include "ir/print.hpp"

namespace codetta::driver {

namespace {

constexpr std::string_view decision_mark = "decision ", kernel_mark = "kernel ";
constexpr std::string_view ways[] = {"together", "apart"};

std::optional<toolchain::CacheKey> key_of(ContextState& context, const ProgramState& program, const Target& target,
                                          SizeHints sizes) {
  toolchain::CacheKey key(toolchain::EntryKind::Tuning, "program");
  key.add("program", ir::print(program.graph));
  for (const plan::UserSource& source : program.user_sources) {
    key.add("kernel", source.name);
    key.add("language", std::to_string(static_cast<int>(source.language)));
    key.add("source", source.source);
    if (source.keeps_hooked) key.add("hooked", "kept");
  }
  std::sort(sizes.begin(), sizes.end());
  for (const auto& [symbol, value] : sizes) key.add("size", fmt::format("{} {}", symbol, value));
  if (program.numerics.strict) key.add("strict", "yes");
  if (program.numerics.math != MathMode::Strict) key.add("math", math_mode_name(program.numerics.math));
  key.add("target", target.to_string());
  if (!add_tuning_machine(key, context, target)) return std::nullopt;
  if (target.backend == Backend::cpu) key.add("threads", std::to_string(context.pool->size()));
  if (target.backend == Backend::cuda) key.add("vendor", context.cuda.vendor().identity(target));
  return key;
}

}  // namespace

TuningRecord load_program_times(ContextState& context, const ProgramState& program, const Target& target,
                                const SizeHints& sizes) {
  if (!context.cache->enabled() || target.backend == Backend::metal) return {};
  const auto key = key_of(context, program, target, sizes);
  const auto entry = key ? context.cache->lookup(*key) : std::nullopt;
  return entry ? decode_tuning(entry->payload) : TuningRecord{};
}

void keep_program_times(ContextState& context, const ProgramState& program, const Target& target,
                        const SizeHints& sizes, const TuningChanges& changes) {
  if (changes.empty()) return;
  if (const auto key = key_of(context, program, target, sizes)) amend_tuning(*context.cache, *key, changes);
}

// Another decision gives kernels of the same numbers that compute something else.
std::string kernel_label(const plan::Plan& plan, size_t kernel) {
  const plan::PlannedKernel& planned = plan.kernels[kernel];
  const plan::GemmShape& shape = planned.shape;
  std::string what =
      fmt::format("{} {} {} {} {} {} {} {} {}\n{}", shape.batch, shape.m, shape.n, shape.k, dtype_name(shape.a),
                  dtype_name(shape.b), shape.a_made, shape.b_made, shape.products, planned.lowered.program.encode());
  for (const int64_t columns : shape.widths) what += fmt::format(" {}", columns);
  const ir::NodeId product = planned.region.matmul;
  return fmt::format("{}{}{} {}", kernel_mark, kernel, product.valid() ? fmt::format(" %{}", product.index()) : "",
                     base::digest_of(what).hex().substr(0, 8));
}

std::string candidate_name(const plan::Plan& plan, size_t kernel, size_t candidate) {
  return kernel_label(plan, kernel) + ": " + plan.kernels[kernel].discovery.candidates[candidate].name;
}

std::string answer_name(const std::string& decision, bool apart) {
  return fmt::format("{}{}: {}", decision_mark, decision, ways[apart ? 1 : 0]);
}

plan::Choices choices_of(const TuningRecord& record) {
  plan::Choices choices;
  for (const auto& [name, microseconds] : record.medians) {
    const size_t end = name.rfind(": ");
    if (!name.starts_with(decision_mark) || end == std::string::npos || !(microseconds > 0)) continue;
    plan::Choice& choice = choices[name.substr(decision_mark.size(), end - decision_mark.size())];
    (name.substr(end + 2) == ways[1] ? choice.apart_us : choice.together_us) = microseconds;
  }
  for (auto& [key, choice] : choices)
    choice.apart = choice.apart_us > 0 && (choice.together_us == 0 || choice.apart_us < choice.together_us);
  return choices;
}

void pick_candidates(plan::Plan& plan, const TuningRecord& record) {
  if (record.medians.empty()) return;
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    plan::PlannedKernel& kernel = plan.kernels[k];
    if (kernel.user) continue;
    double best = 0;
    for (size_t c = 0; c < kernel.discovery.candidates.size(); ++c) {
      const double* microseconds = record.find(candidate_name(plan, k, c));
      if (microseconds == nullptr || !(*microseconds > 0)) continue;
      kernel.discovery.candidates[c].measured = *microseconds;
      if (best > 0 && *microseconds >= best) continue;
      best = *microseconds;
      kernel.chosen = c;
    }
  }
}

}  // namespace codetta::driver

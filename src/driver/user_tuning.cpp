// SPDX-License-Identifier: Apache-2.0
#include "driver/user_tuning.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace codetta::driver {

namespace {

// No file name: where a source lies is no difference.
std::optional<toolchain::CacheKey> key_of(ContextState& context, const plan::UserSource& source, const Target& target) {
  toolchain::CacheKey key(toolchain::EntryKind::Tuning, "user kernel");
  key.add("kernel", source.name);
  key.add("language", std::to_string(static_cast<int>(source.language)));
  key.add("source", source.source);
  key.add("target", target.to_string());
  if (!add_tuning_machine(key, context, target)) return std::nullopt;
  return key;
}

std::string type_of(DType dtype, const std::vector<types::Dim>& shape, bool is_scalar, const SizeHints& sizes) {
  if (is_scalar) return std::string(dtype_name(dtype));
  constexpr int64_t unknown = 512;
  std::vector<int64_t> values;
  for (const types::Dim& dim : shape) {
    const auto value = dim.evaluate([&](std::string_view symbol) -> std::optional<int64_t> {
      for (const auto& [name, size] : sizes) {
        if (name == symbol) return size;
      }
      return unknown;
    });
    values.push_back(value.value_or(unknown));
  }
  return fmt::format("{}[{}]", dtype_name(dtype), fmt::join(values, ", "));
}

}  // namespace

std::string call_of(const plan::PlannedKernel& kernel, const SizeHints& sizes, bool strict) {
  const plan::UserHook* hook = kernel.hook ? &*kernel.hook : nullptr;
  const std::vector<package::Argument>& arguments = kernel.lowered.program.arguments;
  std::vector<std::string> operands, results;
  for (size_t a = 0; a < arguments.size(); ++a) {
    const bool of_epilogue = hook != nullptr && a >= hook->operands && a < hook->operands + hook->reads + hook->stores;
    if (of_epilogue) continue;
    const package::Argument& argument = arguments[a];
    (argument.is_output ? results : operands)
        .push_back(type_of(argument.dtype, argument.shape, argument.is_scalar, sizes));
  }
  if (hook != nullptr) {
    const auto at = static_cast<std::ptrdiff_t>(hook->position - hook->operands);
    results.insert(results.begin() + at, type_of(hook->dtype, hook->shape, false, sizes));
  }
  return fmt::format("{}({}) -> {}{}", kernel.user->name, fmt::join(operands, ", "), fmt::join(results, ", "),
                     strict && hook != nullptr ? ", strict" : "");
}

std::string measured_name(const plan::UserConfiguration& configuration, const std::string& call) {
  std::string values;
  for (const auto& [meta, value] : configuration.values)
    values += fmt::format("{}{}={}", values.empty() ? "" : ", ", meta, value);
  return values + " of " + call;
}

TuningRecord load_user_record(ContextState& context, const plan::UserSource& source, const Target& target) {
  if (!context.cache->enabled()) return {};
  const auto key = key_of(context, source, target);
  const auto entry = key ? context.cache->lookup(*key) : std::nullopt;
  return entry ? decode_tuning(entry->payload) : TuningRecord{};
}

void keep_user_times(ContextState& context, const plan::UserSource& source, const Target& target,
                     const TuningChanges& changes) {
  if (const auto key = key_of(context, source, target)) amend_tuning(*context.cache, *key, changes);
}

UserTuning load_user_tuning(ContextState& context, const std::vector<plan::UserSource>& sources, const Target& target) {
  UserTuning tuning;
  for (const plan::UserSource& source : sources) {
    if (source.source.find("config") == std::string::npos) continue;  // one configuration
    TuningRecord record = load_user_record(context, source, target);
    if (!record.medians.empty()) tuning.emplace(source.name, std::move(record));
  }
  return tuning;
}

std::string to_string(const UserTuning& tuning) {
  std::string text;
  for (const auto& [function, record] : tuning) text += function + "\n" + encode_tuning(record);
  return text;
}

void pick_configurations(plan::Plan& plan, const SizeHints& sizes, const UserTuning& tuning) {
  for (plan::PlannedKernel& kernel : plan.kernels) {
    std::vector<plan::Candidate>& candidates = kernel.discovery.candidates;
    if (!kernel.user || candidates.size() < 2) continue;
    const auto known = tuning.find(kernel.user->name);
    if (known == tuning.end()) continue;
    const std::string call = call_of(kernel, sizes, plan.numerics.strict);
    double best = 0;
    for (size_t c = 0; c < candidates.size(); ++c) {
      const double* microseconds = known->second.find(measured_name(kernel.configurations[c], call));
      if (microseconds == nullptr || !(*microseconds > 0)) continue;
      candidates[c].measured = *microseconds;
      if (best > 0 && *microseconds >= best) continue;
      best = *microseconds;
      kernel.chosen = c;
    }
  }
}

}  // namespace codetta::driver

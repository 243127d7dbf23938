// SPDX-License-Identifier: Apache-2.0
// Tuning results on disk.
#include "driver/tuning_record.hpp"

#include "driver/build_id.hpp"
#include "driver/package_entry.hpp"

namespace codetta::driver {
namespace {

std::optional<toolchain::CacheKey> tuning_key(const FoundState& found) {
  const Backend backend = found.target.backend;
  toolchain::CacheKey key = problem_key(toolchain::EntryKind::Tuning,
                                        backend == Backend::hip    ? "hip gemm"
                                        : backend == Backend::cuda ? "cuda gemm"
                                                                   : "cpu gemm",
                                        found);
  if (!add_tuning_machine(key, *found.context, found.target)) return std::nullopt;
  if (backend == Backend::cpu) key.add("threads", std::to_string(found.context->pool->size()));
  if (backend == Backend::cuda) key.add("vendor", found.context->cuda.vendor().identity(found.target));
  return key;
}

}  // namespace

// Of a GPU: what runs the kernels and what makes them. Nothing is known of one that is not there.
bool add_tuning_machine(toolchain::CacheKey& key, ContextState& context, const Target& target) {
  if (!runs_on_gpu(target)) {
    key.add("cpu", context.cpu().name);
    key.add("build", build_id());  // kernels of one name differ from build to build
    // Interpreted epilogues cost other times than compiled ones.
    const auto* compiler = context.options.no_compiler ? nullptr : &context.compiler();
    key.add("compiler", compiler != nullptr && *compiler ? (*compiler)->identity : "none");
    return true;
  }
  const auto device = context.gpu(target).device_for(target);
  if (!device) return false;
  const runtime::cuda::DeviceFacts& facts = (*device)->facts();
  key.add("device", facts.name);
  key.add("driver", std::to_string(facts.driver_version));
  key.add("build", build_id());
  if (target.backend == Backend::hip) {
    const auto compiler = context.hip.compiler();
    key.add("compiler", compiler ? compiler->identity : "none");
    return true;
  }
  const auto compiler = context.cuda.compiler().identity();
  key.add("compiler", compiler ? (compiler->nvcc ? "nvcc " : "") + std::to_string(compiler->version) : "none");
  return true;
}

void amend_tuning(toolchain::Cache& cache, const toolchain::CacheKey& key, const TuningChanges& changes) {
  cache.amend(key, [&](const std::optional<toolchain::CacheEntry>& kept) -> toolchain::CacheEntry {
    TuningRecord record = kept ? decode_tuning(kept->payload) : TuningRecord{};
    for (const auto& [name, microseconds] : changes) {
      std::erase_if(record.medians, [&, &changed = name](const auto& known) { return known.first == changed; });
      if (microseconds) record.medians.emplace_back(name, *microseconds);
    }
    return {"tuning", encode_tuning(record)};
  });
}

const double* TuningRecord::find(const std::string& kernel) const {
  for (const auto& [name, microseconds] : medians) {
    if (name == kernel) return &microseconds;
  }
  return nullptr;
}

TuningRecord load_tuning(const FoundState& found) {
  toolchain::Cache& cache = *found.context->cache;
  if (!cache.enabled()) return {};
  const auto key = tuning_key(found);
  const auto entry = key ? cache.lookup(*key) : std::nullopt;
  return entry ? decode_tuning(entry->payload) : TuningRecord{};
}

void save_tuning(const FoundState& found, const TuningRecord& record) {
  if (const auto key = tuning_key(found)) found.context->cache->replace(*key, {"tuning", encode_tuning(record)});
}

}  // namespace codetta::driver

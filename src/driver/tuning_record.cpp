// SPDX-License-Identifier: Apache-2.0
// Tuning results on disk.
#include "driver/tuning_record.hpp"

#include "driver/build_id.hpp"
#include "driver/package_entry.hpp"

namespace codetta::driver {
namespace {

// Of a GPU: what runs the kernels and what makes them. Nothing is known of one that is not there.
std::optional<toolchain::CacheKey> gpu_key(const FoundState& found) {
  ContextState& context = *found.context;
  const auto device = context.gpu(found.target).device_for(found.target);
  if (!device) return std::nullopt;
  const runtime::cuda::DeviceFacts& facts = (*device)->facts();
  const bool hip = found.target.backend == Backend::hip;
  toolchain::CacheKey key = problem_key(toolchain::EntryKind::Tuning, hip ? "hip gemm" : "cuda gemm", found);
  key.add("device", facts.name);
  key.add("driver", std::to_string(facts.driver_version));
  key.add("build", build_id());  // kernels of one name differ from build to build
  if (hip) {
    const auto compiler = context.hip.compiler();
    key.add("compiler", compiler ? compiler->identity : "none");
    return key;
  }
  const auto compiler = context.cuda.compiler().identity();
  key.add("compiler", compiler ? std::to_string(compiler->version) : "none");
  key.add("vendor", context.cuda.vendor().identity(found.target));
  return key;
}

std::optional<toolchain::CacheKey> tuning_key(const FoundState& found) {
  if (runs_on_gpu(found.target)) return gpu_key(found);
  ContextState& context = *found.context;
  toolchain::CacheKey key = problem_key(toolchain::EntryKind::Tuning, "cpu gemm", found);
  key.add("cpu", context.cpu().name);
  key.add("build", build_id());  // kernels of one name differ from build to build
  key.add("threads", std::to_string(context.pool->size()));
  // Interpreted epilogues cost other times than compiled ones.
  const auto* compiler = context.options.no_compiler ? nullptr : &context.compiler();
  key.add("compiler", compiler != nullptr && *compiler ? (*compiler)->identity : "none");
  return key;
}

}  // namespace

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

// SPDX-License-Identifier: Apache-2.0
// Tuning results out of the cache into a file, and back.
#include <algorithm>

#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "driver/build_id.hpp"
#include "driver/context.hpp"
#include "driver/tuning_file.hpp"
#include "driver/tuning_record.hpp"

namespace codetta {
namespace {

using driver::TuningFile;

Result<toolchain::Cache*> usable(driver::ContextState& state, bool writes) {
  toolchain::Cache& cache = *state.cache;
  if (cache.enabled() && !(writes && state.options.cache_read_only)) return &cache;
  return diag::error(diag::Code::cache_unavailable, "tuning results have no place to lie: the cache is off")
      .reason(!cache.enabled() ? cache.warning() : "the cache " + cache.directory() + " is read-only")
      .help("use a cache folder that can be read and written");
}

// What the machine is of that measured, as its key says: "cpu ...", "device ..., driver ...".
std::string machine_of(const std::string& key) {
  if (const auto device = driver::field_of(key, "device"))
    return fmt::format("{}, driver {}", *device, driver::field_of(key, "driver").value_or("unknown"));
  return driver::field_of(key, "cpu").value_or("an unknown machine");
}
std::string this_machine(driver::ContextState& state, const std::string& key) {
  if (!driver::field_of(key, "device")) return state.cpu().name;
  const bool hip = driver::field_of(key, "target").value_or("").starts_with("hip");
  const auto device = (hip ? state.hip.gpu() : state.cuda.gpu()).device();
  if (!device) return "no GPU";
  return fmt::format("{}, driver {}", (*device)->facts().name, (*device)->facts().driver_version);
}

}  // namespace

Result<std::string> export_tuning(Context& context) {
  driver::ContextState& state = *context.shared_state();
  CODETTA_TRY(toolchain::Cache * cache, usable(state, false));
  TuningFile file;
  file.build = driver::build_id();
  for (const toolchain::Cache::Stored& stored : cache->entries(toolchain::EntryKind::Tuning)) {
    if (driver::field_of(stored.key, "build") != file.build) continue;
    driver::TuningRecord record = driver::decode_tuning(stored.entry.payload);
    if (!record.medians.empty()) file.records.push_back({stored.key, std::move(record.medians)});
  }
  std::sort(file.records.begin(), file.records.end(),
            [](const TuningFile::Record& a, const TuningFile::Record& b) { return a.key < b.key; });
  return driver::encode_tuning_file(file);
}

Result<TuningImport> import_tuning(std::string_view text, Context& context) {
  driver::ContextState& state = *context.shared_state();
  CODETTA_TRY(toolchain::Cache * cache, usable(state, true));
  CODETTA_TRY(const TuningFile file, driver::decode_tuning_file(text));
  const auto foreign = [](std::string reason) {
    return diag::error(diag::Code::tuning_file, "the tuning file can not be used")
        .reason(std::move(reason))
        .help("tune on this machine with this build: times of others say nothing about its kernels");
  };
  if (file.build != driver::build_id())
    return foreign(fmt::format("it was measured by build {}, and this is {}", file.build, driver::build_id()));
  TuningImport result;
  std::string other;
  for (const TuningFile::Record& record : file.records) {
    const std::string there = machine_of(record.key);
    if (driver::field_of(record.key, "build") != file.build || there != this_machine(state, record.key)) {
      ++result.passed_over;
      if (other.empty()) other = fmt::format("{}, and this is {}", there, this_machine(state, record.key));
      continue;
    }
    driver::amend_tuning(*cache, toolchain::CacheKey::of_text(toolchain::EntryKind::Tuning, record.key),
                         {record.medians.begin(), record.medians.end()});
    ++result.records;
  }
  if (result.records == 0 && result.passed_over != 0)
    return foreign(fmt::format("its {} records are of other machines: {}", result.passed_over, other));
  return result;
}

}  // namespace codetta

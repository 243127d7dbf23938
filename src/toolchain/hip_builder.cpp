// SPDX-License-Identifier: Apache-2.0
#include "toolchain/hip_builder.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/text.hpp"
#include "diag/diagnostic.hpp"
#include "toolchain/kernel_parts.hpp"
#include "toolchain/run_jobs.hpp"

namespace codetta::toolchain {
namespace {

bool has_code(const Error& error, diag::Code code) { return error.code() == static_cast<uint16_t>(code); }

// Clang starts from a precompiled prelude.
constexpr PartCosts clang_costs{.product = 60, .kernel = 10, .combine = 20, .pack = 0, .phase_bytes = 30, .start = 40};

}  // namespace

std::string_view prelude_of(std::string_view source, std::span<const CudaHeader> headers) {
  constexpr std::string_view include = "#include \"";
  size_t end = 0;
  bool only_directives = true;
  for (size_t at = 0; at < source.size();) {
    const size_t next = std::min(source.find('\n', at), source.size() - 1) + 1;
    const std::string_view line = base::trim(source.substr(at, next - at));
    at = next;
    if (line.starts_with(include)) {
      const bool ours = std::any_of(headers.begin(), headers.end(), [&](const auto& h) {
        return line.substr(include.size()) == std::string(h.path) + '"';
      });
      if (!only_directives || !ours) return {};
      end = at;
    } else if (line.starts_with("#") && line.find("include") != std::string_view::npos) {
      return {};
    } else if (!line.empty() && !line.starts_with("//") && !line.starts_with("#define ")) {
      only_directives = false;
    }
  }
  return source.substr(0, end);
}

std::vector<std::string> hip_parts_of(std::string_view source) { return parts_of(source, clang_costs); }

// What has to be made, and what decides it.
struct HipBuilder::Wanted {
  HipJob job;  // its source is the prelude without comments
  CacheKey key{EntryKind::Binary, "hip prelude"};
  std::string digest;

  Wanted(const HostCompiler& clang, const HipJob& of, std::string_view prelude)
      : job{{}, of.label, of.flags, of.headers} {
    for (const std::string_view line : base::split(prelude, '\n')) {
      if (base::trim(line).starts_with("#")) job.source += std::string(line) + '\n';
    }
    key.add("source", job.source);
    for (const CudaHeader& header : included_headers(job.source, job.headers))
      key.add("header", fmt::format("{} {}", header.path, header.digest));
    for (const std::string& flag : hip_arguments(job)) key.add("flag", flag);
    key.add("compiler", clang.identity);
    digest = key.digest_hex();
  }
};

// With what it takes to remember one that can not be made.
size_t HipBuilder::bytes_of(const Prelude& prelude) {
  constexpr size_t of_entry = 256;
  return prelude.is_made ? of_entry + (prelude.text ? prelude.text->size() : 0) : 0;
}

size_t HipBuilder::kept_bytes() {
  const std::lock_guard lock(mutex_);
  size_t sum = 0;
  for (const auto& [digest, prelude] : preludes_) sum += bytes_of(prelude);
  return sum;
}

void HipBuilder::drop_least_used() {
  size_t sum = 0;
  for (const auto& [digest, prelude] : preludes_) sum += bytes_of(prelude);
  while (sum > most_bytes_) {
    auto least = preludes_.end();
    for (auto at = preludes_.begin(); at != preludes_.end(); ++at)
      if (at->second.is_made && (least == preludes_.end() || at->second.used < least->second.used)) least = at;
    sum -= bytes_of(least->second);
    preludes_.erase(least);
  }
}

// `first`: the caller has to make it, since it is neither in memory nor in the cache nor being made.
HipBuilder::Text HipBuilder::find(const Wanted& wanted, bool& first) {
  const std::lock_guard lock(mutex_);
  const auto [at, added] = preludes_.try_emplace(wanted.digest);
  Prelude& prelude = at->second;
  prelude.used = ++uses_;
  first = false;
  if (!added) return prelude.text;
  auto kept = cache_->lookup(wanted.key);
  first = !kept;
  if (first) return nullptr;
  const Text text = std::make_shared<std::string>(std::move(kept->payload));
  prelude = {text, true, uses_};
  drop_least_used();
  return text;
}

HipBuilder::Text HipBuilder::make(const HostCompiler& clang, const Wanted& wanted, const CompileOptions& options) {
  CompileOptions quiet = options;
  quiet.keep_dir.clear();
  auto made = precompile_hip(clang, wanted.job, quiet);
  const Text text = made ? std::make_shared<std::string>(*std::move(made)) : nullptr;
  if (text) cache_->store(wanted.key, {{}, *text});
  const std::lock_guard lock(mutex_);
  if (text || !has_code(made.error(), diag::Code::compile_cancelled)) {
    preludes_[wanted.digest] = {text, true, ++uses_};
    drop_least_used();
  } else {
    preludes_.erase(wanted.digest);
  }
  return text;
}

// What Clang does not take costs each kernel a compile that fails.
void HipBuilder::refuse(const Wanted& wanted, const Text& found) {
  const std::lock_guard lock(mutex_);
  const auto at = preludes_.find(wanted.digest);
  if (at != preludes_.end() && at->second.text == found) at->second.text = nullptr;
}

// What nobody makes after all can be made later.
void HipBuilder::forget(const Wanted& wanted) {
  const std::lock_guard lock(mutex_);
  preludes_.erase(wanted.digest);
}

void HipBuilder::make_behind(const HostCompiler& clang, const Wanted& wanted, CompileOptions options) {
  options.cancel = nullptr;  // may be gone when the caller has its kernel
  const std::lock_guard lock(behind_mutex_);
  if (behind_.joinable()) behind_.join();
  behind_ = start_job([this, clang, wanted, options] { (void)make(clang, wanted, options); });
}

bool HipBuilder::prepare(const HostCompiler& clang, const HipJob& job, const CompileOptions& options) {
  const std::string_view prelude = prelude_of(job.source, job.headers);
  if (prelude.empty()) return false;
  const Wanted wanted(clang, job, prelude);
  bool first = false;
  const Text found = find(wanted, first);
  return (first ? make(clang, wanted, options) : found) != nullptr;
}

int HipBuilder::running() {
  const std::lock_guard lock(mutex_);
  return running_;
}

// Compilers of one kernel.
class HipBuilder::Running {
 public:
  Running(HipBuilder& builder, size_t count) : builder_(builder), count_(static_cast<int>(count)) {
    const std::lock_guard lock(builder_.mutex_);
    builder_.running_ += count_;
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    const std::lock_guard lock(builder_.mutex_);
    builder_.running_ -= count_;
  }
  [[nodiscard]] bool fill_processors() const {
    const std::lock_guard lock(builder_.mutex_);
    return builder_.running_ >= builder_.processors_;
  }

 private:
  HipBuilder& builder_;
  int count_;
};

Result<HipOutput> HipBuilder::compile(const HostCompiler& clang, const HipJob& job, const CompileOptions& options) {
  const std::vector<std::string> parts = job.divisible ? hip_parts_of(job.source) : std::vector<std::string>();
  std::vector<HipJob> jobs(std::max<size_t>(parts.size(), 1), job);
  for (size_t i = 0; i < parts.size(); ++i) jobs[i].source = parts[i];
  const Running running(*this, jobs.size());

  const std::string_view prelude = prelude_of(job.source, job.headers);
  bool first = false;
  Text found;
  std::optional<Wanted> wanted;
  if (!prelude.empty()) found = find(wanted.emplace(clang, job, prelude), first);
  const auto lines = static_cast<size_t>(std::count(prelude.begin(), prelude.end(), '\n'));
  for (size_t i = 0; i < jobs.size() && found; ++i) {
    jobs[i].source.replace(0, prelude.size(), lines, '\n');
    jobs[i].precompiled = *found;
  }

  const bool whole = !found && jobs.size() == 1;
  CompileOptions how = options;
  if (!whole) how.keep_dir.clear();
  std::optional<Result<HipOutput>> made;
  const auto compile = [&](size_t which) {
    if (which == 0)
      made = compile_hip(clang, jobs, how);
    else
      (void)make(clang, *wanted, options);
  };
  // Beside two parts on two processors it would take a third of the processors from what the caller waits for.
  const bool behind = jobs.size() > 1 && running.fill_processors();
  if (first && !behind)
    run_jobs(2, 2, compile);
  else
    compile(0);
  const bool cancelled = !*made && has_code(made->error(), diag::Code::compile_cancelled);
  if (first && behind && cancelled)
    forget(*wanted);
  else if (first && behind)
    make_behind(clang, *wanted, options);
  if (*made || whole || cancelled || has_code(made->error(), diag::Code::compile_timeout)) return *std::move(made);
  // Whatever it is, it is told of the whole source, or does not happen there.
  auto without = compile_hip(clang, job, options);
  if (without && found) refuse(*wanted, found);
  return without;
}

}  // namespace codetta::toolchain

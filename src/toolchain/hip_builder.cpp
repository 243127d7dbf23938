// SPDX-License-Identifier: Apache-2.0
#include "toolchain/hip_builder.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/text.hpp"
#include "diag/diagnostic.hpp"
#include "toolchain/run_jobs.hpp"

namespace codetta::toolchain {
namespace {

bool has_code(const Error& error, diag::Code code) { return error.code() == static_cast<uint16_t>(code); }

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

std::vector<std::string> parts_of(std::string_view source) {
  constexpr std::string_view kernel = "\nextern \"C\" __global__ ", end = "\n}\n";
  std::vector<std::pair<size_t, size_t>> kernels;  // first character and size
  for (size_t at = source.find(kernel); at != std::string_view::npos; at = source.find(kernel, at)) {
    const size_t last = source.find(end, at);
    if (last == std::string_view::npos) return {};
    kernels.emplace_back(at + 1, last + end.size() - at - 1);
    at = last;
  }
  if (kernels.size() < 3) return {};
  std::vector<std::string> parts(2, std::string(source));
  for (size_t i = 0; i < kernels.size(); ++i) {
    std::string& without = parts[i == 0 ? 1 : 0];
    for (size_t c = kernels[i].first; c < kernels[i].first + kernels[i].second; ++c)
      if (without[c] != '\n') without[c] = ' ';
  }
  return parts;
}

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
    for (const std::string& flag : hip_arguments(job.flags)) key.add("flag", flag);
    key.add("compiler", clang.identity);
    digest = key.digest_hex();
  }
};

// `first`: nobody has asked for it before, and the cache lacks it.
HipBuilder::Text HipBuilder::find(const Wanted& wanted, bool& first) {
  const std::lock_guard lock(mutex_);
  const auto [at, added] = made_.try_emplace(wanted.digest);
  if (added) {
    if (auto kept = cache_->lookup(wanted.key)) at->second = std::make_shared<std::string>(std::move(kept->payload));
  }
  first = added && !at->second;
  return at->second;
}

HipBuilder::Text HipBuilder::make(const HostCompiler& clang, const Wanted& wanted, const CompileOptions& options) {
  CompileOptions quiet = options;
  quiet.keep_dir.clear();
  auto made = precompile_hip(clang, wanted.job, quiet);
  const Text text = made ? std::make_shared<std::string>(*std::move(made)) : nullptr;
  if (text) cache_->store(wanted.key, {{}, *text});
  const std::lock_guard lock(mutex_);
  if (text || !has_code(made.error(), diag::Code::compile_cancelled))
    made_[wanted.digest] = text;
  else
    made_.erase(wanted.digest);
  return text;
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

// Compilers of one kernel: two where that is wanted and a processor is free for the second.
class HipBuilder::Running {
 public:
  Running(HipBuilder& builder, bool wants_two) : builder_(builder) {
    const std::lock_guard lock(builder_.mutex_);
    count_ = wants_two && builder_.running_ + 2 <= builder_.processors_ ? 2 : 1;
    builder_.running_ += count_;
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    const std::lock_guard lock(builder_.mutex_);
    builder_.running_ -= count_;
  }
  [[nodiscard]] int count() const { return count_; }

 private:
  HipBuilder& builder_;
  int count_ = 1;
};

Result<HipOutput> HipBuilder::compile(const HostCompiler& clang, const HipJob& job, const CompileOptions& options) {
  const std::vector<std::string> parts = job.divisible ? parts_of(job.source) : std::vector<std::string>();
  const Running running(*this, !parts.empty());
  std::vector<HipJob> jobs(static_cast<size_t>(running.count()), job);
  for (size_t i = 0; i < jobs.size() && jobs.size() > 1; ++i) jobs[i].source = parts[i];

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
  if (first)
    run_jobs(2, 2, compile);
  else
    compile(0);
  if (*made || whole || has_code(made->error(), diag::Code::compile_cancelled) ||
      has_code(made->error(), diag::Code::compile_timeout))
    return *std::move(made);
  // Whatever it is, it is told of the whole source, or does not happen there.
  return compile_hip(clang, job, options);
}

}  // namespace codetta::toolchain

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

Result<HipOutput> HipBuilder::compile(const HostCompiler& clang, const HipJob& job, const CompileOptions& options) {
  const std::string_view prelude = prelude_of(job.source, job.headers);
  if (prelude.empty()) return compile_hip(clang, job, options);
  const Wanted wanted(clang, job, prelude);
  bool first = false;
  const Text found = find(wanted, first);
  if (first) {
    std::optional<Result<HipOutput>> made;
    run_jobs(2, 2, [&](size_t which) {
      if (which == 0)
        made = compile_hip(clang, job, options);
      else
        (void)make(clang, wanted, options);
    });
    return *std::move(made);
  }
  if (!found) return compile_hip(clang, job, options);
  HipJob rest = job;  // with as many lines
  rest.source.replace(0, prelude.size(), static_cast<size_t>(std::count(prelude.begin(), prelude.end(), '\n')), '\n');
  rest.precompiled = *found;
  CompileOptions quiet = options;
  quiet.keep_dir.clear();
  auto made = compile_hip(clang, rest, quiet);
  if (made || has_code(made.error(), diag::Code::compile_cancelled) ||
      has_code(made.error(), diag::Code::compile_timeout))
    return made;
  // Whatever it is, without the prelude it is told of the whole source, or does not happen.
  return compile_hip(clang, job, options);
}

}  // namespace codetta::toolchain

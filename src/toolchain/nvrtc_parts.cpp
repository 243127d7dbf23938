// SPDX-License-Identifier: Apache-2.0
// Compiling with NVRTC in several threads: of several sources, and of the kernel functions of one.
#include <algorithm>
#include <optional>

#include "device/host/image_parts.h"
#include "diag/diagnostic.hpp"
#include "package/image.hpp"
#include "toolchain/kernel_parts.hpp"
#include "toolchain/nvrtc.hpp"
#include "toolchain/run_jobs.hpp"

namespace codetta::toolchain {
namespace {

// NVRTC 13.0, Zen 4. Its start is 35 ms of headers, in a second thread; a kernel that combines one reduction takes
// nearly as long.
constexpr PartCosts nvrtc_costs{
    .product = 180, .kernel = 5, .combine = 20, .pack = 110, .phase_bytes = 12, .start = 20};

// What one kernel's parts came to.
CudaOutput joined(std::vector<CudaOutput> parts) {
  CudaOutput all = std::move(parts.front());
  std::vector<std::string> files{std::move(all.cubin)};
  for (size_t i = 1; i < parts.size(); ++i) {
    CudaOutput& part = parts[i];
    files.push_back(std::move(part.cubin));
    if (!all.log.empty() && !part.log.empty()) all.log += '\n';
    all.log += part.log;
    all.remarks.insert(all.remarks.end(), part.remarks.begin(), part.remarks.end());
    all.seconds = std::max(all.seconds, part.seconds);
  }
  all.cubin = package::image_of(files);
  return all;
}

}  // namespace

std::vector<std::string> cuda_parts_of(std::string_view source) { return parts_of(source, nvrtc_costs); }

Result<CudaOutput> Nvrtc::compile(const CudaJob& job, const CudaCompileOptions& options) const {
  return std::move(compile_all(*this, {job}, options, gpu::host::most_image_parts).front());
}

std::vector<Result<CudaOutput>> compile_all(const Nvrtc& nvrtc, const std::vector<CudaJob>& jobs,
                                            const CudaCompileOptions& options, int parallel) {
  struct Part {
    size_t job;
    CudaJob what;
    bool is_whole;
    std::optional<Result<CudaOutput>> made{};
  };
  std::vector<Part> parts;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const bool divided = jobs[i].divisible && !jobs[i].want_ptx;
    std::vector<std::string> sources = divided ? cuda_parts_of(jobs[i].source) : std::vector<std::string>();
    if (sources.empty()) parts.push_back({i, jobs[i], true});
    for (std::string& source : sources) {
      parts.push_back({i, jobs[i], false});
      parts.back().what.source = std::move(source);
    }
  }
  run_jobs(parts.size(), parallel, [&](size_t p) {
    CudaCompileOptions how = options;
    if (!parts[p].is_whole) how.keep_dir.clear();
    parts[p].made = nvrtc.compile_whole(parts[p].what, how);
  });
  std::vector<Result<CudaOutput>> results;
  results.reserve(jobs.size());
  for (size_t p = 0; p < parts.size();) {
    const size_t job = parts[p].job;
    if (parts[p].is_whole) {
      results.push_back(*std::move(parts[p++].made));
      continue;
    }
    std::vector<CudaOutput> outputs;
    std::optional<Error> wrong;
    for (; p < parts.size() && parts[p].job == job; ++p) {
      if (*parts[p].made)
        outputs.push_back(*std::move(*parts[p].made));
      else if (!wrong)
        wrong = std::move(parts[p].made->error());
    }
    // What is wrong is told of the whole source, or does not happen there; what takes too long would again.
    if (wrong && wrong->code() == static_cast<uint16_t>(diag::Code::compile_timeout))
      results.push_back(*std::move(wrong));
    else if (wrong)
      results.push_back(nvrtc.compile_whole(jobs[job], options));
    else
      results.push_back(joined(std::move(outputs)));
  }
  return results;
}

}  // namespace codetta::toolchain

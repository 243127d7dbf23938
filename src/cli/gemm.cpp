// SPDX-License-Identifier: Apache-2.0
// gemm, verify and bench: running one GEMM with its epilogue.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "cli/places.hpp"
#include "cli/program_run.hpp"
#include "cli/session.hpp"
#include "cli/verbs.hpp"

namespace codetta::cli {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double operations(const GemmArguments& a) {
  const int64_t batch = a.A.rank() == 3 ? a.A.size(0) : a.B.rank() == 3 ? a.B.size(0) : 1;
  return 2.0 * static_cast<double>(batch) * static_cast<double>(a.A.size(a.A.rank() - 2)) *
         static_cast<double>(a.B.size(a.B.rank() - 1)) * static_cast<double>(a.A.size(a.A.rank() - 1));
}

// Times a prepared kernel; on a GPU with copies of its operands where they would else be read from the cache.
Result<Timing> time_kernel(Session& session, const Kernel& kernel, Execution& execution) {
  if (!session.device) return measure(execution);
  auto sets = rotation(*session.device, session.problem.arguments, operations(session.arguments));
  if (!sets) return std::move(sets).error();
  if (sets->size() == 1) return measure(execution);
  std::vector<Execution> executions;
  for (const OnDevice& set : *sets) {
    auto made = kernel.prepare(set.arguments());
    if (!made) return std::move(made).error();
    executions.push_back(*std::move(made));
  }
  return measure(executions);
}

Result<void> write_outputs(const GemmProblem& problem) {
  std::vector<OutputFile> outputs;
  for (const auto& [name, file] : problem.output_files) {
    if (problem.arguments.out) outputs.push_back({name, file, *problem.arguments.out});  // D of a plain product
    for (const NamedArgument& argument : problem.arguments.epilogue.arguments()) {
      if (argument.name == name && argument.value.tensor() != nullptr)
        outputs.push_back({name, file, *argument.value.tensor()});
    }
  }
  return write_tensors(outputs);
}

// The best kernel that has a packed form of B, where the best of all reads B where it lies.
Result<Kernel> choose_and_pack(const Session& session, std::optional<PackedTensor>& packed) {
  auto first = session.choose();
  if (!first) return first;
  std::optional<Error> unpackable;
  for (const Kernel& kernel : session.kernels) {
    auto made = kernel.pack(session.arguments.B);
    if (made) {
      packed = *std::move(made);
      return kernel;
    }
    if (made.error().code() != 416) return std::move(made).error();
    if (!unpackable) unpackable = std::move(made).error();
  }
  return *std::move(unpackable);
}

}  // namespace

int gemm(const CommonOptions& common, const GemmOptions& options, const RunFlags& flags) {
  auto session = Session::make(common, options, true);
  if (!session) return report(session.error(), common.json);
  GemmArguments arguments = session->arguments;
  std::optional<PackedTensor> packed;
  auto kernel = flags.pack ? choose_and_pack(*session, packed) : session->choose();
  if (!kernel) return report(kernel.error(), common.json);
  if (packed) arguments.packed_B = &*packed;
  const auto start = Clock::now();
  size_t chosen = 0;
  auto execution =
      options.kernel.empty() && !flags.pack ? session->kernels.prepare(arguments, &chosen) : kernel->prepare(arguments);
  if (!execution) return report(execution.error(), common.json);
  if (options.kernel.empty() && !flags.pack) kernel = session->kernels[chosen];
  const double prepare_seconds = seconds_since(start);
  if (auto ran = execution->run(); !ran) return report(ran.error(), common.json);
  if (auto done = session->fetch_outputs(); !done) return report(done.error(), common.json);

  nlohmann::json json;
  const KernelMetadata& metadata = kernel->metadata();
  json["kernel"] = metadata.name;
  json["target"] = metadata.target.to_string();
  if (session->device) json["device"] = session->device->info().name;
  json["prepare_ms"] = prepare_seconds * 1e3;
  json["interpreted"] = execution->interpreted();
  json["workspace_bytes"] = execution->workspace_size();
  const auto source = kernel->source_path();  // none where there is no cache
  if (source) json["source"] = *source;
  // On a GPU, where a size is 0 and an output has elements all the same.
  const std::vector<std::string> ran_kernels = execution->kernels();
  const bool instead = ran_kernels.size() > 1;
  if (instead) json["instead"] = ran_kernels;
  if (!common.json) {
    std::printf("kernel    %s (%s)\n", metadata.name.c_str(),
                execution->interpreted() ? "epilogue interpreted" : metadata.family.c_str());
    std::string names;
    for (const std::string& name : ran_kernels) names += (names.empty() ? "" : ", ") + name;
    if (instead) std::printf("instead   %s, since a size is 0\n", names.c_str());
    if (session->device)
      std::printf("device    %d: %s, %s\n", session->device->info().ordinal, session->device->info().name.c_str(),
                  session->device->info().arch.c_str());
    std::printf("prepare   %.1f ms, workspace %lld bytes\n", prepare_seconds * 1e3,
                static_cast<long long>(execution->workspace_size()));
    if (source) std::printf("source    %s\n", source->c_str());
  }
  int status = exit_ok;
  if (flags.check) {
    VerifyOptions how;
    how.seed = options.seed;
    how.poisoned = true;  // by build_problem
    // It computes in float64 what a kernel has done in far less time.
    const bool told = !common.json && ::isatty(STDERR_FILENO) != 0;
    if (told) std::fprintf(stderr, "\r\033[Kcomparing with the float64 oracle");
    auto checked = verify(session->arguments, session->target, how, session->context);
    if (told) std::fprintf(stderr, "\r\033[K");
    if (!checked) return report(checked.error(), common.json);
    json["check"] = nlohmann::json::parse(check_json(*checked));
    if (!common.json) std::printf("check     %s", checked->text.c_str());
    if (checked->verdict != VerifyReport::Verdict::Pass) status = exit_program;
  }
  if (flags.bench) {
    const auto timed = time_kernel(*session, *kernel, *execution);
    if (!timed) return report(timed.error(), common.json);
    const Timing& timing = *timed;
    const double gflops = operations(arguments) / timing.median_us * 1e-3;
    json["bench"] = {{"median_us", timing.median_us},
                     {"p25_us", timing.low_us},
                     {"p75_us", timing.high_us},
                     {"gflops", gflops},
                     {"samples", timing.samples}};
    if (!common.json) {
      std::printf("bench     median %.2f us (quartiles %.2f to %.2f, %lld samples), %.1f GFLOP/s\n", timing.median_us,
                  timing.low_us, timing.high_us, static_cast<long long>(timing.samples), gflops);
    }
  }
  if (auto written = write_outputs(session->problem); !written) return report(written.error(), common.json);
  if (!common.json) {
    for (const auto& [name, file] : session->problem.output_files)
      std::printf("wrote     %s to %s\n", displayable(name).c_str(), displayable(file).c_str());
  } else {
    std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  }
  return status;
}

int bench(const CommonOptions& common, const GemmOptions& options, size_t candidates) {
  auto session = Session::make(common, options, true);
  if (!session) return report(session.error(), common.json);
  if (auto unwritten = writes_nothing("bench", session->problem); !unwritten)
    return report(unwritten.error(), common.json);
  nlohmann::json rows = nlohmann::json::array();
  if (!common.json) std::printf("%-44s %12s %12s %10s\n", "kernel", "median us", "estimate us", "GFLOP/s");
  for (size_t i = 0; i < std::min(candidates, session->kernels.size()); ++i) {
    const Kernel& kernel = session->kernels[i];
    auto execution = kernel.prepare(session->arguments);
    if (!execution && is_unfit(execution.error())) {
      rows.push_back({{"kernel", kernel.metadata().name}, {"rejected", execution.error().message()}});
      if (!common.json)
        std::printf("%-44s rejected: %s\n", kernel.metadata().name.c_str(), execution.error().message().c_str());
      continue;
    }
    if (!execution) return report(execution.error(), common.json);
    const auto timed = time_kernel(*session, kernel, *execution);
    if (!timed) return report(timed.error(), common.json);
    const Timing& timing = *timed;
    const KernelMetadata& metadata = kernel.metadata();
    const double gflops = operations(session->arguments) / timing.median_us * 1e-3;
    rows.push_back({{"kernel", metadata.name},
                    {"median_us", timing.median_us},
                    {"estimated_us", metadata.estimated_us},
                    {"gflops", gflops}});
    if (!common.json)
      std::printf("%-44s %12.2f %12.2f %10.1f\n", metadata.name.c_str(), timing.median_us, metadata.estimated_us,
                  gflops);
  }
  if (common.json) std::printf("%s\n", rows.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  return exit_ok;
}

}  // namespace codetta::cli

// SPDX-License-Identifier: Apache-2.0
// Environment variables and the debug switches.
#include "driver/environment.hpp"

#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "base/options.hpp"
#include "diag/diagnostic.hpp"

namespace codetta::driver {
namespace {

constexpr std::string_view pass_names =
    "reduce_products|fold_constants|simplify_algebra|eliminate_layout|eliminate_common_subexpressions|"
    "eliminate_dead_code|merge_mixed_dims";
constexpr std::array<base::OptionRow, 5> debug_table{{
    {"dump", "graph|plan|memory|source"},  // a stage of each compile
    {"time", "passes"},                    // how long each pass and compile took
    {"explain", "fusion"},                 // how each epilogue is fused
    {"skip", pass_names},                  // leave a pass out
    {"stop", pass_names},                  // leave out the passes behind this one
}};

std::string variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read once, when a context is made
  return value == nullptr ? std::string() : std::string(value);
}

bool is_set(const char* name) {
  const std::string value = variable(name);
  return !value.empty() && value != "0";
}

}  // namespace

Environment read_environment() {
  Environment environment;
  environment.path = variable("PATH");
  if (environment.path.empty()) environment.path = "/usr/local/bin:/usr/bin:/bin";
  environment.library_path = variable("LD_LIBRARY_PATH");
  environment.nvtx_injection = variable("NVTX_INJECTION64_PATH");
  std::string base = variable("XDG_CACHE_HOME");
  if (base.empty() || base[0] != '/') {
    std::string home = variable("HOME");
    if (home.empty() || home[0] != '/') {  // services and containers run without it
      home.clear();
      std::array<char, 4096> buffer{};
      passwd entry{};
      passwd* found = nullptr;
      if (getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
        home = entry.pw_dir;
    }
    base = home.empty() ? std::string() : home + "/.cache";
  }
  if (!base.empty()) environment.default_cache_dir = base + "/codetta";
  return environment;
}

std::string cutlass_directory() { return variable("CODETTA_CUTLASS_DIR"); }

ContextOptions with_environment(ContextOptions options) {
  if (options.cache_dir.empty()) options.cache_dir = variable("CODETTA_CACHE_DIR");
  if (!options.cache_read_only) options.cache_read_only = is_set("CODETTA_CACHE_RO");
  if (!options.no_jit) options.no_jit = is_set("CODETTA_NO_JIT");
  if (options.command.empty()) options.command = variable("CODETTA_COMMAND");
  if (options.cuda_compiler.empty()) options.cuda_compiler = variable("CODETTA_CUDA_COMPILER");
  if (!options.nvtx) options.nvtx = is_set("CODETTA_NVTX");
  if (options.vendor) options.vendor = !is_set("CODETTA_NO_VENDOR");
  if (options.debug.empty()) options.debug = variable("CODETTA_DEBUG");
  return options;
}

Result<DebugSwitches> parse_debug(const std::string& text) {
  base::Options parsed(debug_table);
  if (auto ok = parsed.parse(text); !ok) {
    const auto& problem = ok.error();
    return diag::error(diag::Code::debug_unknown, problem.text)
        .reason("in the debug switches \"" + text + "\"")
        .help(problem.nearest.empty() ? "known are dump:graph, dump:plan, dump:memory, dump:source, time:passes, "
                                        "explain:fusion, skip:PASS and "
                                        "stop:PASS"
                                      : "did you mean '" + problem.nearest + "'?");
  }
  DebugSwitches switches;
  switches.dump_graph = parsed.has("dump", "graph");
  switches.dump_plan = parsed.has("dump", "plan");
  switches.dump_memory = parsed.has("dump", "memory");
  switches.dump_source = parsed.has("dump", "source");
  switches.time_passes = parsed.has("time", "passes");
  switches.explain_fusion = parsed.has("explain", "fusion");
  for (const opt::Pass& pass : opt::all_passes) {
    if (parsed.has("skip", pass.name)) switches.passes.skip.emplace_back(pass.name);
    if (parsed.has("stop", pass.name) && switches.passes.stop_after.empty()) switches.passes.stop_after = pass.name;
  }
  return switches;
}

}  // namespace codetta::driver

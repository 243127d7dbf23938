// SPDX-License-Identifier: Apache-2.0
// The `codetta` command: verbs and options.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "cli/interrupt.hpp"
#include "cli/verbs.hpp"

namespace codetta::cli {
namespace {

size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  std::string best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const size_t d = distance(word.substr(0, 64), candidate);
    if (d < best_distance) {
      best = candidate;
      best_distance = d;
    }
  }
  return best;
}

void add_common(CLI::App& app, CommonOptions& o) {
  app.add_flag("--json", o.json, "Results and diagnostics as JSON");
  app.add_option("--target", o.target,
                 "cpu, cpu:avx2, cpu:avx512, ..., cuda (the device's), cuda:sm_90a, ... (default: this CPU's best)");
  app.add_option("--device", o.device, "CUDA device to run on, as CUDA_VISIBLE_DEVICES numbers them (default: 0)")
      ->check(CLI::Range(0, 1024));
  app.add_option("--cuda-home", o.cuda_home, "Folder of a CUDA toolkit, searched before the usual places");
  app.add_option("--threads", o.threads, "Threads to use (default: all)")->check(CLI::Range(0, 4096));
  app.add_option("--cache-dir", o.cache_dir, "Cache folder (twin of CODETTA_CACHE_DIR)");
  app.add_flag("--no-cache", o.no_cache, "Neither read nor write the cache");
  app.add_flag("--no-jit", o.no_jit, "Any compile is an error (twin of CODETTA_NO_JIT)");
  app.add_flag("--no-compiler", o.no_compiler, "Interpret epilogues as if no compiler were there");
  app.add_option("--compiler", o.compiler, "Host C++ compiler: a name or an absolute path");
  app.add_option(
      "--debug", o.debug,
      "dump:graph, dump:plan, dump:memory, dump:source, time:passes, explain:fusion (twin of CODETTA_DEBUG)");
}

void add_gemm(CLI::App& app, GemmOptions& o) {
  const CLI::Range sizes(int64_t{0}, INT64_MAX - 1);  // what does not fit is read as INT64_MAX
  app.add_option("--m", o.m, "Rows of A and D")->check(sizes);
  app.add_option("--n", o.n, "Columns of B and D")->check(sizes);
  app.add_option("--k", o.k, "Columns of A, rows of B")->check(sizes);
  app.add_option("--batch", o.batch, "Batch items, 0 among them (default: no batch dimension)")->check(sizes);
  app.add_option("--dtype", o.dtype, "Type of A and B: f32, bf16, f16, f64, i8, u8, ... (default: f32, or the file's)");
  app.add_option("--b-dtype", o.b_dtype, "Type of B, if another (i8 for a u8 A)");
  app.add_option("--accumulator", o.accumulator, "f32, f64, i32 or i64");
  app.add_option("--out-dtype", o.out_dtype, "Type of D");
  app.add_option("--a", o.a_file, "A from FILE.npy or FILE.safetensors:NAME (default: random)");
  app.add_option("--b", o.b_file, "B from FILE.npy or FILE.safetensors:NAME (default: random)");
  app.add_option("--tensor", o.tensors, "Operand: NAME=FILE (.npy or .safetensors:NAME), or random data NAME=[M,N]:f32")
      ->allow_extra_args(false);
  app.add_option("--scalar", o.scalars, "Number: NAME=0.5")->allow_extra_args(false);
  app.add_option("--out", o.outputs,
                 "Output: NAME=FILE (.npy or .safetensors), NAME=[M,N]:bf16, or NAME=FILE@[M,N]:bf16")
      ->allow_extra_args(false);
  app.add_option("--epilogue", o.epilogue, "File or text of the epilogue (default: D = accum)");
  app.add_option("--function", o.function, "Which function of the text (default: the last)");
  app.add_option("--kernel", o.kernel, "Only kernels whose names contain this (not for tune, explain)");
  app.add_flag("--transpose-a", o.transpose_a, "A lies as [K, M]");
  app.add_flag("--transpose-b", o.transpose_b, "B lies as [N, K]");
  app.add_flag("--strict", o.strict, "No contraction of a * b + c");
  app.add_flag("--as-unfused", o.as_unfused, "Round between operations as separate kernels would");
  app.add_option("--seed", o.seed, "Of random data and of sampled checks")->capture_default_str();
}

int run(int argc, char** argv) {
  CLI::App app{"GEMMs with any epilogue, fused."};
  app.name("codetta");
  app.set_version_flag("--version", std::string("codetta ") + version());
  app.require_subcommand(1);
  app.fallthrough(false);
  CommonOptions common;
  GemmOptions options;
  RunFlags flags;
  ProgramOptions program;
  std::string what = "source", program_file, report_file, cache_action = "stats";
  double budget = 30;
  size_t tune_candidates = 16, bench_candidates = 4;

  const CLI::Validator budgets(
      [](const std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool good = end != text.c_str() && *end == '\0' && value >= 0.001 && value <= 1e9;  // false for NaN
        return good ? std::string() : "'" + text + "' is not a number of seconds from 0.001 to 1e9";
      },
      "SECONDS");
  const CLI::Range some(size_t{1}, size_t{1000000});

  CLI::App* gemm_verb = app.add_subcommand("gemm", "Run a GEMM with its epilogue on files or random data");
  CLI::App* verify_verb = app.add_subcommand("verify", "Run it and compare with the float64 oracle");
  CLI::App* bench_verb = app.add_subcommand("bench", "Time the best candidates");
  CLI::App* explain_verb =
      app.add_subcommand("explain", "How the epilogue is understood, which kernel is chosen, why not the others");
  CLI::App* kernels_verb = app.add_subcommand("kernels", "List candidates and rejections");
  CLI::App* emit_verb =
      app.add_subcommand("emit", "Print a stage: ast, graph, plan, memory, source, asm, ptx, sass, manifest");
  CLI::App* compile_verb = app.add_subcommand("compile", "Compile into the cache without running");
  CLI::App* tune_verb = app.add_subcommand("tune", "Time the candidates, keep the results");
  CLI::App* run_verb = app.add_subcommand("run", "Run a program of GEMMs on files");
  CLI::App* doctor_verb = app.add_subcommand("doctor", "What was looked for on this machine, and found");
  CLI::App* cache_verb = app.add_subcommand("cache", "Show or clean the cache");
  for (CLI::App* verb :
       {gemm_verb, verify_verb, bench_verb, explain_verb, kernels_verb, emit_verb, compile_verb, tune_verb}) {
    add_gemm(*verb, options);
  }
  for (CLI::App* verb : app.get_subcommands({})) add_common(*verb, common);
  // An empty text is no way to leave an option out: "--epilogue $UNSET" must not run the plain product.
  const CLI::Validator said([](const std::string& text) { return text.empty() ? "nothing is given to it" : ""; }, "");
  gemm_verb->add_flag("--check", flags.check, "Compare with the float64 oracle");
  gemm_verb->add_flag("--bench", flags.bench, "Time it");
  gemm_verb->add_flag("--pack", flags.pack, "Pack B once beforehand");
  bench_verb->add_option("--candidates", bench_candidates, "How many to time")->capture_default_str()->check(some);
  emit_verb->add_option("--what", what, "Stages, separated by commas")->capture_default_str();
  emit_verb->add_option("--program", program_file, "A program instead of an epilogue");
  explain_verb->add_option("--program", program_file, "A program instead of an epilogue");
  for (CLI::App* verb : {explain_verb, tune_verb})
    verb->add_option("--report", report_file, "Also write one self-contained HTML page: FILE.html");
  tune_verb->add_option("--budget", budget, "Seconds")->capture_default_str()->check(budgets);
  tune_verb->add_option("--candidates", tune_candidates, "How many at most")->capture_default_str()->check(some);
  run_verb->add_option("program", program.file, "File of the program")->required();
  run_verb->add_option("--tensor", program.tensors, "Parameter: NAME=FILE (.npy or .safetensors:NAME)")
      ->allow_extra_args(false);
  run_verb->add_option("--scalar", program.scalars, "Number: NAME=0.5")->allow_extra_args(false);
  run_verb->add_option("--out", program.outputs, "Output: NAME=FILE (.npy or .safetensors)")->allow_extra_args(false);
  cache_verb->add_option("action", cache_action, "stats, path, clear or evict")
      ->check(CLI::IsMember({"stats", "path", "clear", "evict"}));

  for (CLI::App* verb : app.get_subcommands({})) {
    for (CLI::Option* option : verb->get_options()) {
      if (option->get_items_expected_max() > 0) option->check(said);
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    CLI::App* verb = &app;
    for (CLI::App* parsed : app.get_subcommands()) verb = parsed;
    std::printf("%s", verb->help().c_str());
    return exit_ok;
  } catch (const CLI::CallForVersion&) {
    std::printf("codetta %s\n", version());
    return exit_ok;
  } catch (const CLI::ParseError& error) {
    CLI::App* verb = &app;
    for (CLI::App* parsed : app.get_subcommands()) verb = parsed;
    std::vector<std::string> known;
    for (const CLI::Option* option : verb->get_options()) known.push_back("--" + option->get_single_name());
    for (const CLI::App* sub : app.get_subcommands({})) known.push_back(sub->get_name());
    std::string help = "see codetta " + (verb == &app ? std::string() : verb->get_name() + " ") + "--help";
    for (const std::string& word : app.remaining(true)) {
      const std::string meant = nearest(word.substr(0, word.find('=')), known);
      if (!meant.empty()) help = "did you mean '" + meant + "'?";
    }
    if (verb == &app && argc > 1) {
      const std::string meant = nearest(argv[1], known);
      if (!meant.empty() && meant != argv[1]) help = "did you mean '" + meant + "'?";
    }
    return report(usage_error(error.what(), "", help), common.json);
  }
  if (gemm_verb->parsed()) return gemm(common, options, flags);
  if (verify_verb->parsed()) return gemm(common, options, {.check = true, .bench = false, .pack = false});
  if (bench_verb->parsed()) return bench(common, options, bench_candidates);
  if (explain_verb->parsed()) return explain(common, options, program_file, report_file);
  if (kernels_verb->parsed()) return kernels(common, options);
  if (emit_verb->parsed()) return emit(common, options, what, program_file);
  if (compile_verb->parsed()) return compile(common, options);
  if (tune_verb->parsed()) return tune(common, options, budget, tune_candidates, report_file);
  if (run_verb->parsed()) return run_program(common, program);
  if (doctor_verb->parsed()) return doctor(common);
  return cache(common, cache_action);
}

}  // namespace
}  // namespace codetta::cli

int main(int argc, char** argv) {
  codetta::cli::catch_interrupts();
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit of file sizes fails like any other, and cleans up
  try {
    const int ended = codetta::cli::run(argc, argv);
    const int interrupted = codetta::cli::interrupted_status();
    const int status = interrupted != 0 ? interrupted : ended;
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
    std::fprintf(
        stderr,
        "codetta: the results could not be written to standard output\nhelp: check that it is open and has room\n");
    return status == codetta::cli::exit_ok ? codetta::cli::exit_environment : status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "codetta: internal error: %s\nhelp: please report this with the command line\n", error.what());
    return codetta::cli::exit_internal;
  }
}

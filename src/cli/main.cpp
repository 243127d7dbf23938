// SPDX-License-Identifier: Apache-2.0
// The `codetta` command: verbs and options.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include <nlohmann/json.hpp>

#include "cli/command_line.hpp"
#include "cli/evt.hpp"
#include "cli/interrupt.hpp"
#include "cli/last_words.hpp"
#include "cli/repro.hpp"
#include "cli/verbs.hpp"
#include "codetta/device.hpp"

namespace codetta::cli {
namespace {

// An integer in decimal digits: CLI11 would take 010 and 0x10 for octal and hexadecimal, and cut other things short.
CLI::Validator decimal(int64_t low, int64_t high) {
  return CLI::Validator(
      [low, high](const std::string& text) -> std::string {
        int64_t value = 0;
        const char* const end = text.data() + text.size();
        const auto [stop, failed] = std::from_chars(text.data(), end, value);
        const bool plain = stop == end && (text.size() == 1 || text[0] != '0') && text.rfind("-0", 0) != 0;
        const std::string range = "from " + std::to_string(low) + " to " + std::to_string(high);
        if (stop != end || failed == std::errc::invalid_argument || !plain)
          return "'" + text + "' is not a whole number in decimal digits, such as 10 (" + range + ")";
        if (failed != std::errc() || value < low || value > high) return text + " is out of range: " + range;
        return {};
      },
      "");
}
constexpr int64_t any_size = INT64_MAX - 1;

// What every command takes that this one can heed.
void add_common(CLI::App& app, CommonOptions& o) {
  const std::string verb = app.get_name();
  const bool cache = verb == "cache", library = verb == "run" || verb == "build";
  app.add_flag("--json", o.json, "Results and diagnostics as JSON");
  if (verb == "help") return;
  app.add_option("--cache-dir", o.cache_dir, "Cache folder (twin of CODETTA_CACHE_DIR)");
  app.add_flag("--no-cache", o.no_cache, "Neither read nor write the cache");
  if (cache) return;
  app.add_option("--target", o.target,
                 "cpu, cpu:avx2, cpu:avx512, ..., cuda or hip (the device's), cuda:sm_90a, hip:gfx942, ... " +
                     std::string(verb == "doctor" ? "(default: look at all)" : "(default: this CPU's best)"));
  app.add_option("--device", o.device,
                 "GPU to run on, as CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES numbers them (default: 0)")
      ->check(decimal(0, 1024));
  app.add_option("--devices", o.devices,
                 "GPUs of a program over several, in its order; one may be several (0,0) (default: --device and on)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(decimal(0, 1024))
      ->excludes("--device");
  app.add_option("--cuda-home", o.cuda_home, "Folder of a CUDA toolkit, searched before the usual places");
  app.add_option("--cuda-compiler", o.cuda_compiler,
                 "nvrtc, nvcc, or the path of an nvcc (default: NVRTC, else nvcc; twin of CODETTA_CUDA_COMPILER)");
  if (!library) app.add_flag("--no-vendor", o.no_vendor, "Leave kernels of cuBLASLt out (twin of CODETTA_NO_VENDOR)");
  app.add_option("--threads", o.threads, "Threads to use (default: all)")->check(decimal(0, 4096));
  app.add_flag("--no-jit", o.no_jit, "Any compile is an error (twin of CODETTA_NO_JIT)");
  app.add_flag("--no-compiler", o.no_compiler, "Interpret epilogues as if no compiler were there");
  app.add_option("--compiler", o.compiler,
                 "Host C++ compiler, and if it is a Clang also HIP's: a name or an absolute path");
  app.add_option("--compile-timeout", o.compile_timeout, "Seconds after which a compiler is ended")
      ->capture_default_str()
      ->check(CLI::Validator(
          [](const std::string& text) {
            char* end = nullptr;
            std::strtod(text.c_str(), &end);
            const bool number = end != text.c_str() && *end == '\0';
            return number ? std::string() : "'" + text + "' is not a number of seconds, such as 60";
          },
          ""));
  if (verb == "doctor") return;
  app.add_option("--debug", o.debug,
                 "dump:graph, dump:plan, dump:memory, dump:source, time:passes, explain:fusion, skip:PASS, stop:PASS "
                 "(twin of CODETTA_DEBUG)");
}

void add_evt(CLI::App& app, EvtFlags& o) {
  app.add_option("--tile", o.tile, "CUTLASS: tile of a CTA, 128x128x64");
  app.add_option("--cluster", o.cluster, "CUTLASS: cluster, 2x1x1");
  app.add_option("--schedule", o.schedule,
                 "CUTLASS: tma_warp_specialized_cooperative, tma_warp_specialized_pingpong, tma_warp_specialized, "
                 "tma_warp_specialized_1sm, tma_warp_specialized_2sm, multistage");
  app.add_flag("--nondeterministic", o.nondeterministic, "CUTLASS: reductions by atomic operations are allowed");
}

// Of a GEMM, and of a program.
void add_numerics(CLI::App& app, GemmOptions& o) {
  app.add_flag("--strict", o.strict, "No contraction of a * b + c");
  app.add_option(
         "--math", o.math,
         "How exactly A and B are multiplied on a GPU: strict, 3xtf32, tf32, fp8_fast_accum, fp8_two_level_accum")
      ->capture_default_str();
}

void add_gemm(CLI::App& app, GemmOptions& o,
              bool names_function = true,    // false: --function and --kernel are the command's own
              bool takes_sources = false) {  // of the kernels of a program
  const CLI::Validator sizes = decimal(0, any_size);
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
  app.add_option(
         "--out", o.outputs,
         "Output: NAME=FILE (.npy or .safetensors), NAME=[M,N]:bf16, or NAME=FILE@[M,N]:bf16 (default shape: the "
         "value's)")
      ->allow_extra_args(false);
  app.add_option("--epilogue", o.epilogue, "File or text of the epilogue (default: D = accum)");
  if (names_function) app.add_option("--function", o.function, "Which function of the text (default: the last)");
  if (names_function)
    app.add_option("--kernel", o.kernel,
                   takes_sources ? "Only kernels whose names contain this (not for explain); of a program: source of a "
                                   "user_kernel that it calls, NAME=FILE.cpp"
                                 : "Only kernels whose names contain this (not for tune)")
        ->multi_option_policy(takes_sources ? CLI::MultiOptionPolicy::TakeLast : CLI::MultiOptionPolicy::Throw);
  app.add_flag("--transpose-a", o.transpose_a, "A lies as [K, M]");
  app.add_flag("--transpose-b", o.transpose_b, "B lies as [N, K]");
  add_numerics(app, o);
  app.add_flag("--as-unfused", o.as_unfused, "Round between operations as separate kernels would");
  app.add_option("--seed", o.seed, "Of random data and of sampled checks")
      ->capture_default_str()
      ->check(decimal(0, any_size));
  const std::string verb = app.get_name();
  if (verb != "bench" && verb != "kernels" && verb != "emit")  // those write no files
    app.add_flag("--force", o.force, "Let outputs overwrite files that this command reads");
}

// Also where the parser has not come to it.
bool asks_for_json(int argc, char** argv) {
  return std::any_of(argv, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
}

int run(int argc, char** argv) {
  CLI::App app{"GEMMs with any epilogue, fused."};
  app.name("codetta");
  app.set_version_flag("--version", std::string("codetta ") + version(), "Print the version and exit");
  app.require_subcommand(1);
  app.fallthrough(false);
  CommonOptions common;
  GemmOptions options;
  RunFlags flags;
  ProgramOptions program;
  BuildLibraryOptions library;
  std::string what = "source", program_file, cache_action = "stats";
  std::vector<std::string> hints;
  EvtFlags evt;
  std::string via;
  double budget = 30, trial = 0;
  size_t tune_candidates = 16, bench_candidates = 4;

  const CLI::Validator budgets(
      [](const std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool good = end != text.c_str() && *end == '\0' && value >= 0.001 && value <= 1e9;  // false for NaN
        return good ? std::string() : "'" + text + "' is not a number of seconds from 0.001 to 1e9";
      },
      "");
  const CLI::Validator some = decimal(1, 1000000);

  CLI::App* gemm_verb = app.add_subcommand("gemm", "Run a GEMM with its epilogue on files or random data");
  CLI::App* verify_verb = app.add_subcommand("verify", "Run it and compare with the float64 oracle");
  CLI::App* bench_verb = app.add_subcommand("bench", "Time the best candidates");
  CLI::App* explain_verb =
      app.add_subcommand("explain", "How the epilogue is understood, which kernel is chosen, why not the others");
  CLI::App* kernels_verb = app.add_subcommand("kernels", "List candidates and rejections");
  CLI::App* emit_verb = app.add_subcommand(
      "emit", "Print a stage: ast, graph, plan, memory, source, host, python, asm, ptx, sass, manifest, evt");
  CLI::App* compile_verb = app.add_subcommand("compile", "Compile into the cache without running");
  CLI::App* tune_verb =
      app.add_subcommand("tune", "Time the candidates of a GEMM, or of a program's kernels; keep the results");
  CLI::App* run_verb = app.add_subcommand("run", "Run a program on files or random data");
  CLI::App* build_verb = app.add_subcommand("build", "Build programs as a shared library with a C header");
  CLI::App* doctor_verb = app.add_subcommand("doctor", "What was looked for on this machine, and found");
  CLI::App* cache_verb = app.add_subcommand("cache", "Show or clean the cache");
  CLI::App* help_verb = app.add_subcommand("help", "What a command takes, or an error means");
  std::string help_of, export_file, import_file;
  help_verb->add_option("topic", help_of, "A command, an error's code such as E0207, or errors for all of them");
  for (CLI::App* verb : {gemm_verb, verify_verb, bench_verb, explain_verb, kernels_verb, emit_verb, compile_verb,
                         tune_verb, build_verb}) {
    add_gemm(*verb, options, verb != build_verb,
             verb == explain_verb || verb == emit_verb || verb == compile_verb || verb == tune_verb);
  }
  for (CLI::App* verb : app.get_subcommands({})) add_common(*verb, common);
  // An empty text is no way to leave an option out: "--epilogue $UNSET" must not run the plain product.
  const CLI::Validator said([](const std::string& text) { return text.empty() ? "nothing is given to it" : ""; }, "");
  gemm_verb->add_flag("--check", flags.check, "Compare with the float64 oracle");
  gemm_verb->add_flag("--bench", flags.bench, "Time it");
  gemm_verb->add_flag("--pack", flags.pack, "Pack B once beforehand");
  kernels_verb->add_flag("--all", options.all_kernels,
                         "Also those that are left out of the list; gemm and others take any by --kernel");
  bench_verb->add_option("--candidates", bench_candidates, "How many to time")->capture_default_str()->check(some);
  emit_verb->add_option("--what", what, "Stages, separated by commas")->capture_default_str();
  for (CLI::App* verb : {emit_verb, build_verb, explain_verb, kernels_verb}) add_evt(*verb, evt);
  emit_verb->add_option("--name", evt.name, "CUTLASS: name of the tree's alias, or of the kernel");
  emit_verb->add_option("--buffer", evt.buffers, "CUTLASS: buffer that a variable lies in: C=buf0")
      ->allow_extra_args(false);
  emit_verb->add_flag("--plain-pointers", evt.plain_pointers,
                      "CUTLASS: (T*) ptr_k instead of (T*) (ptr_k + ptr_k_offset)");
  emit_verb->add_flag("--no-cd", evt.no_cd, "CUTLASS: without the aliases of C and D");
  build_verb->add_option("--via", via, "cutlass: a GEMM's epilogue as CUTLASS kernel instead of programs")
      ->check(CLI::Validator(
          [](const std::string& word) {
            if (word == "cutlass") return std::string();
            const std::string meant = nearest_word(word, {"cutlass"});
            return "nothing is built via '" + word + "'; " +
                   (meant.empty() ? "known is cutlass" : "did you mean 'cutlass'?");
          },
          ""));
  for (CLI::App* verb : {build_verb, explain_verb, kernels_verb})
    verb->add_option("--cutlass-dir", evt.cutlass_dir, "Folder of CUTLASS (twin of CODETTA_CUTLASS_DIR)");
  for (CLI::App* verb : {emit_verb, explain_verb, compile_verb}) {
    verb->add_option("program,--program", program_file, "A program instead of an epilogue: PROGRAM.py");
    verb->add_option("--hint", hints, "A likely size of the program: batch=8")->allow_extra_args(false);
  }
  for (CLI::App* verb : {explain_verb, compile_verb, tune_verb})
    verb->add_option("--report", options.report, "Also write one self-contained HTML page: FILE.html");
  tune_verb->add_option("program,--program", program_file, "A program, whose kernels are timed: PROGRAM.py");
  tune_verb
      ->add_option("--dim", program.dims, "Of a program: a size of random parameters: batch=8 (those not said: 16)")
      ->allow_extra_args(false);
  tune_verb->add_option("--budget", budget, "Seconds")->capture_default_str()->check(budgets);
  tune_verb->add_option("--trial", trial, "Seconds for a candidate's first run (default: by its estimate, at least 10)")
      ->check(budgets);
  tune_verb->add_option("--export", export_file, "Time nothing: write all kept results to FILE")->check(said);
  tune_verb->add_option("--import", import_file, "Time nothing: keep the results that FILE has")->check(said);
  tune_verb->add_option("--candidates", tune_candidates, "How many at most")->capture_default_str()->check(some);
  add_numerics(*run_verb, options);
  run_verb->add_option("program", program.file, "File of the program")->required();
  run_verb->add_option("--function", program.function, "Which function of the text (default: the last)");
  run_verb->add_option("--tensor", program.tensors, "Parameter: NAME=FILE (.npy or .safetensors:NAME)")
      ->allow_extra_args(false);
  run_verb->add_option("--scalar", program.scalars, "Number: NAME=0.5")->allow_extra_args(false);
  run_verb->add_option("--out", program.outputs, "Output: NAME=FILE (.npy or .safetensors)")->allow_extra_args(false);
  run_verb->add_flag("--check", program.check,
                     "Compare with the float64 oracle; parameters that are not given are random");
  run_verb->add_flag("--graph", program.graph,
                     "On a GPU: capture the steps into one CUDA (or HIP) graph, and run that");
  CLI::Option* const run_tunes =
      run_verb->add_flag("--tune", program.tune, "Time what the program is made of for these sizes first, and keep it");
  run_verb->add_option("--budget", budget, "Seconds for --tune")
      ->capture_default_str()
      ->check(budgets)
      ->needs(run_tunes);
  run_verb->add_flag("--bisect", program.bisect,
                     "Compare every step with the float64 oracle, and tell the first that is wrong");
  run_verb->add_flag("--values", program.values, "Show what every step writes: least, greatest, mean, NaN, infinities");
  run_verb->add_option("--trap", program.trap,
                       "End the run at the first step that writes a NaN (nan), or an infinity (inf)");
  run_verb->add_option("--save-values", program.save_values, "Folder for a .npy file of everything that a step writes");
  run_verb->add_option("--trace", program.trace, "When each step ran, for chrome://tracing and Perfetto: FILE.json");
  run_verb->add_option("--kernel", program.kernels, "Source of a user_kernel that the program calls: NAME=FILE.cpp")
      ->allow_extra_args(false);
  run_verb->add_option("--dim", program.dims, "A size of random parameters: batch=8 (those not said: 16)")
      ->allow_extra_args(false);
  run_verb
      ->add_option("--hint", program.hints, "A likely size, for the choice of kernels: batch=8 (default: the sizes)")
      ->allow_extra_args(false);
  run_verb->add_option("--seed", program.seed, "Of random data and of sampled checks")
      ->capture_default_str()
      ->check(decimal(0, any_size));
  run_verb->add_flag("--force", program.force, "Let outputs overwrite files that this command reads");
  build_verb->add_option("program", library.program, "File of the programs");
  build_verb->add_option("-o,--output", library.output, "The library: libNAME.so")->required();
  build_verb
      ->add_option(
          "--form", library.form,
          "library; for CUDA also nvcc: -o is a folder of sources that nvcc compiles; nvrtc: a library whose kernels "
          "NVRTC compiles where it runs")
      ->capture_default_str()
      ->check(CLI::Validator(
          [](const std::string& word) {
            const std::vector<std::string> known{"library", "nvcc", "nvrtc"};
            if (std::find(known.begin(), known.end(), word) != known.end()) return std::string();
            const std::string meant = nearest_word(word, known);
            return "there is no form '" + word + "' of a library: it is library, nvcc or nvrtc" +
                   (meant.empty() ? "" : "; did you mean '" + meant + "'?");
          },
          ""));
  build_verb->add_option("--function", library.functions, "Functions of the text, one a program (default: the last)")
      ->allow_extra_args(false);
  build_verb->add_option("--name", library.name, "Prefix of what is public (default: from the library's file name)");
  build_verb->add_option("--header", library.header, "The C header (default: NAME.h beside the library)");
  build_verb->add_option("--manifest", library.manifest, "The manifest (default: NAME.json beside the library)");
  build_verb->add_option("--benchmark", library.benchmark,
                         "Also a program in Python that times the library's functions");
  build_verb->add_option("--constant", library.constants, "A parameter's value, in the library: NAME=FILE")
      ->allow_extra_args(false);
  build_verb
      ->add_option("--kernel", library.kernels,
                   "Source of a user_kernel that the programs call: NAME=FILE.cpp (with --via: as of gemm)")
      ->allow_extra_args(false);
  build_verb->add_option("--weights", library.weights, "A safetensors file with values of parameters");
  build_verb->add_flag("--embed-weights", library.embed_weights,
                       "The library carries them, instead of mapping the file");
  build_verb->add_option("--hint", library.hints, "Likely sizes; several give kernels for each: batch=8, batch=1,64")
      ->allow_extra_args(false);
  build_verb
      ->add_option(
          "--by-size", library.by_size,
          "Without --hint: programs of a function, for 512, 16, 1, 4096, 128 rows, 1 to 5 of these (default: up "
          "to 3)")
      ->check(decimal(1, 5));
  build_verb->add_flag("--tune", library.tune, "Time the candidates at the hinted sizes");
  build_verb->add_option("--budget", library.tune_budget, "Seconds for --tune, a program")
      ->capture_default_str()
      ->check(budgets);
  build_verb
      ->add_option("--trial", library.tune_trial, "Seconds that a run may take while it is tuned, where it may not end")
      ->capture_default_str()
      ->check(budgets);
  build_verb->add_flag("--no-checks", library.no_checks, "Leave guards and overlaps unchecked in calls");
  build_verb->add_option("--engine-dir", library.engine_dir,
                         "Folder of libcodetta_engine.a (default: beside libcodetta)");
  build_verb->add_option("--repro", library.repro,
                         "Name, or part of it, of a kernel: -o is a folder with it and what calls it alone");
  build_verb
      ->add_option("--dim", library.dims, "With --repro: a size of the kernel's program: batch=8 (those not said: 16)")
      ->allow_extra_args(false);
  build_verb->add_flag("--show", library.show, "Print the host text and the header, build nothing");
  cache_verb->add_option("action", cache_action, "stats, path, clear or evict")->check([](const std::string& word) {
    const std::vector<std::string> known{"stats", "path", "clear", "evict"};
    if (std::find(known.begin(), known.end(), word) != known.end()) return std::string();
    const std::string meant = nearest_word(word, known);
    return "there is no action '" + word + "' of the cache: it is stats, path, clear or evict" +
           (meant.empty() ? "" : "; did you mean '" + meant + "'?");
  });

  for (CLI::App* verb : app.get_subcommands({})) {
    for (CLI::Option* option : verb->get_options()) {
      if (option->get_items_expected_max() > 0) option->check(said);
    }
  }
  arrange(app);
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool json = asks_for_json(argc, argv);
  if (auto written = well_written(app, words); !written) return report(written.error(), json);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const CLI::App* verb = &app;
    for (const CLI::App* parsed : app.get_subcommands()) verb = parsed;
    std::printf("%s", help_text(app, *verb, json).c_str());
    return exit_ok;
  } catch (const CLI::CallForVersion&) {
    if (json) {
      std::printf("%s\n", nlohmann::json{{"version", version()}}.dump().c_str());
    } else {
      std::printf("codetta %s\n", version());
    }
    return exit_ok;
  } catch (const CLI::ParseError& error) {
    return report(misread(app, error, words), json);
  }
  if (help_verb->parsed()) {
    const auto text = help_on(app, help_of, common.json);
    if (!text) return report(text.error(), common.json);
    std::printf("%s", text->c_str());
    return exit_ok;
  }
  const auto execute = [&] {
    for (CLI::App* verb : app.get_subcommands()) {
      const bool cutlass = common.target.starts_with("cutlass") || (verb == emit_verb && what == "evt") || !via.empty();
      const bool takes_program = (!program_file.empty() || verb == build_verb) && !cutlass;
      if (auto placed = well_placed(*verb, takes_program, cutlass); !placed) return report(placed.error(), common.json);
      if (auto all = heeded(*verb, common, cutlass); !all) return report(all.error(), common.json);
    }
    const auto numerics = numerics_of(options);
    if (!numerics) return report(numerics.error(), common.json);
    program.numerics = library.numerics = *numerics;
    InspectedProgram inspected{program_file, hints, {}, *numerics, options.function};
    for (const CLI::App* verb : {explain_verb, emit_verb, compile_verb}) {
      if (verb->parsed()) inspected.kernels = verb->get_option("--kernel")->results();
    }
    if (gemm_verb->parsed()) return gemm(common, options, flags);
    if (verify_verb->parsed()) return gemm(common, options, {.check = true, .bench = false, .pack = false});
    if (bench_verb->parsed()) return bench(common, options, bench_candidates);
    if (explain_verb->parsed() && common.target.starts_with("cutlass")) return explain_cutlass(common, options, evt);
    if (explain_verb->parsed()) return explain(common, options, inspected, evt);
    if (kernels_verb->parsed() && common.target.starts_with("cutlass")) return kernels_of_cutlass(common, options, evt);
    if (kernels_verb->parsed()) return kernels(common, options, evt);
    if (emit_verb->parsed() && (common.target.starts_with("cutlass") || what == "evt"))
      return emit_for_cutlass(common, options, what, evt);
    if (emit_verb->parsed()) return emit(common, options, what, inspected);
    if (compile_verb->parsed()) return compile(common, options, inspected);
    if (tune_verb->parsed() && !(export_file + import_file).empty()) {
      if (auto all = exchanges_all(*tune_verb); !all) return report(all.error(), common.json);
      return exchange_tuning(common, export_file, import_file);
    }
    if (tune_verb->parsed() && !program_file.empty()) {
      ProgramOptions timed = program;
      timed.file = program_file;
      timed.function = options.function;
      timed.kernels = tune_verb->get_option("--kernel")->results();
      timed.tensors = options.tensors;
      timed.scalars = options.scalars;
      timed.seed = options.seed;
      timed.seeded = tune_verb->count("--seed") > 0;
      return tune_program(common, timed, {budget, trial, tune_candidates});
    }
    if (tune_verb->parsed()) return tune(common, options, {budget, trial, tune_candidates});
    program.seeded = run_verb->count("--seed") > 0;
    program.tuning = {budget, trial, tune_candidates};
    if (run_verb->parsed()) return run_program(common, program);
    if (build_verb->parsed() && !via.empty()) {
      evt.name = library.name;
      if (!library.functions.empty()) options.function = library.functions.back();
      if (!library.kernels.empty()) options.kernel = library.kernels.back();
      return build_for_cutlass(common, options, evt, library.output);
    }
    if (build_verb->parsed() && library.program.empty())
      return report(usage_error("program is required", "build makes libraries of programs",
                                "name a file, or a GEMM's epilogue with --via cutlass"),
                    common.json);
    if (build_verb->parsed()) return build_library(common, library);
    if (doctor_verb->parsed()) return doctor(common);
    return cache(common, cache_action);
  };
  int status = exit_internal;
  try {
    status = execute();
  } catch (const std::bad_alloc&) {
    Diagnostic diagnostic;
    diagnostic.code = 606;
    diagnostic.headline = "no memory for this command";
    diagnostic.help = "free memory, or give smaller tensors";
    status = report(Error(std::move(diagnostic)), common.json);
  } catch (const std::exception& error) {
    Diagnostic diagnostic;
    diagnostic.code = 901;
    diagnostic.headline = std::string("internal error: ") + error.what();
    diagnostic.help = "please report this";
    status = report(Error(std::move(diagnostic)), common.json);
  }
  if (status == exit_internal) {
    const std::string text = !program.file.empty()   ? program.file
                             : !program_file.empty() ? program_file
                                                     : options.epilogue;
    auto context = context_of(common);
    const std::string kept = keep_repro({.command = std::vector<std::string>(argv, argv + argc),
                                         .folder = context ? cache_report(*context).directory : std::string(),
                                         .text = text,
                                         .message = internal_message()});
    if (!kept.empty() && !common.json) std::fprintf(stderr, "what led here is kept in %s\n", kept.c_str());
    if (!kept.empty() && common.json) {
      const nlohmann::json line{{"repro", kept}};
      std::fprintf(stderr, "%s\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    }
  }
  return status;
}

}  // namespace
}  // namespace codetta::cli

// Tells a library that is linked into it that this is the command, which it may start for trials.
extern "C" {
extern const char codetta_is_command;
const char codetta_is_command = 1;
}

int main(int argc, char** argv) {
  // Said by the library alone, which tunes for a GPU in another process: standard input is a socket to it.
  if (argc == 2 && std::strcmp(argv[1], "--serve-trials") == 0) return codetta::serve_trials(0);
  codetta::cli::catch_interrupts();
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit of file sizes fails like any other, and cleans up
  try {
    const int ended = codetta::cli::run(argc, argv);
    const int interrupted = codetta::cli::interrupted_status();
    const int status = interrupted != 0 ? interrupted : ended;
    errno = 0;
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
    codetta::Diagnostic unwritable;
    unwritable.code = 543;
    unwritable.headline = "the results cannot be written to standard output";
    unwritable.reason = errno != 0 ? std::strerror(errno) : "a write failed";
    unwritable.help = "check that it is open and has room";
    codetta::cli::report(codetta::Error(std::move(unwritable)), codetta::cli::asks_for_json(argc, argv));
    return status == codetta::cli::exit_ok ? codetta::cli::exit_environment : status;
  } catch (const std::exception& error) {
    // There may be no memory for more than this.
    const bool json = codetta::cli::asks_for_json(argc, argv);
    char escaped[1024];
    codetta::cli::escape_json(error.what(), escaped, sizeof escaped);
    if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
      std::fprintf(
          stderr, "%s",
          json ? "{\"diagnostics\":[{\"code\":\"E0606\",\"name\":\"out_of_memory\",\"family\":\"environment\","
                 "\"headline\":\"no memory for this command\",\"file\":\"\",\"line\":0,\"column\":0,\"length\":0,"
                 "\"label\":\"\",\"reason\":\"\",\"notes\":[],\"help\":\"free memory, or give smaller tensors\"}]}\n"
               : "error[E0606]: no memory for this command\nhelp: free memory, or give smaller tensors\n");
      return codetta::cli::exit_environment;
    }
    std::fprintf(stderr,
                 json ? "{\"diagnostics\":[{\"code\":\"E0901\",\"name\":\"internal\",\"family\":\"internal\","
                        "\"headline\":\"internal error: %s\",\"file\":\"\",\"line\":0,\"column\":0,\"length\":0,"
                        "\"label\":\"\",\"reason\":\"\",\"notes\":[],\"help\":\"please report this with the command "
                        "line\"}]}\n"
                      : "codetta: internal error: %s\nhelp: please report this with the command line\n",
                 json ? escaped : error.what());
    return codetta::cli::exit_internal;
  }
}

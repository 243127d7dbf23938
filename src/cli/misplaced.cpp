// SPDX-License-Identifier: Apache-2.0
// Options that are known and would go unheeded: of other work than this, of another target, beside another option.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <initializer_list>

#include "cli/command_line.hpp"

namespace codetta::cli {
namespace {

// The first of `names` that is given to `verb`; "" for none.
std::string first_given(const CLI::App& verb, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const CLI::Option* option = verb.get_option_no_throw(name);
    if (option != nullptr && option->count() > 0) return name;
  }
  return {};
}

// Whether one of the values of `option` names a file: NAME=FILE, and not NAME=[M,N]:f32.
bool names_file(const CLI::App& verb, const char* option) {
  const CLI::Option* given = verb.get_option_no_throw(option);
  if (given == nullptr) return false;
  return std::any_of(given->results().begin(), given->results().end(), [](const std::string& value) {
    const size_t equals = value.find('=');
    return equals == std::string::npos || value.compare(equals + 1, 1, "[") != 0;
  });
}

// Whether one of the values of --tensor asks for random data: NAME=[M,N]:f32.
bool asks_for_data(const CLI::App& verb) {
  const CLI::Option* given = verb.get_option_no_throw("--tensor");
  return given != nullptr &&
         std::any_of(given->results().begin(), given->results().end(),
                     [](const std::string& value) { return value.find("=[") != std::string::npos; });
}

// Of a program it is known only when its parameters are.
Result<void> seed_heeded(const CLI::App& verb) {
  if (first_given(verb, {"--seed"}).empty() || verb.get_name() == "run") return {};
  const std::string name = verb.get_name();
  if (name != "gemm" && name != "verify" && name != "bench" && name != "tune")
    return usage_error("--seed has no effect", "this command makes no data", "leave it out");
  const bool checks = name == "verify" || !first_given(verb, {"--check"}).empty();
  if (checks || asks_for_data(verb) || first_given(verb, {"--a"}).empty() || first_given(verb, {"--b"}).empty())
    return {};
  return usage_error("--seed has no effect", "all data comes from files, and no check takes samples",
                     "leave it out" + std::string(name == "gemm" ? ", or say --check" : ""));
}

struct Needs {
  const char *option, *backends, *reason, *help;
  bool cpu, cuda, hip, metal, cutlass;
};
constexpr Needs needs[] = {
    {"--device", "a GPU that runs kernels", "it numbers devices of cuda and hip",
     "leave it out, or say --target cuda or --target hip", false, true, true, false, false},
    {"--devices", "a GPU that runs kernels", "it numbers devices of cuda and hip",
     "leave it out, or say --target cuda or --target hip", false, true, true, false, false},
    {"--graph", "a GPU that runs kernels", "it makes one launch of a program's steps",
     "leave it out, or say --target cuda or --target hip", false, true, true, false, false},
    {"--cuda-home", "CUDA", "it leads to a CUDA toolkit", "leave it out, or say --target cuda", false, true, false,
     false, true},
    {"--cuda-compiler", "CUDA", "it says what compiles CUDA kernels", "leave it out, or say --target cuda", false, true,
     false, false, false},
    {"--no-vendor", "CUDA", "it leaves kernels of cuBLASLt out", "leave it out, or say --target cuda", false, true,
     false, false, false},
    {"--pack", "CPUs", "it packs B, which kernels of GPUs read where it lies", "leave it out, or say --target cpu",
     true, false, false, false, false},
    {"--all", "Codetta's own kernels", "CUTLASS's list is as long as it is", "leave it out", true, true, true, true,
     false},
};

bool takes(const Needs& n, Backend backend) {
  switch (backend) {
    case Backend::cpu:
      return n.cpu;
    case Backend::cuda:
      return n.cuda;
    case Backend::hip:
      return n.hip;
    case Backend::metal:
      return n.metal;
    case Backend::cutlass:
      return n.cutlass;
  }
  return true;
}

}  // namespace

Result<void> heeded(const CLI::App& verb, const CommonOptions& common, bool cutlass) {
  if (!first_given(verb, {"--compiler"}).empty() && common.no_compiler)
    return usage_error("--compiler has no effect with --no-compiler", "no compiler is looked for",
                       "leave one of the two out");
  if (!first_given(verb, {"--compile-timeout"}).empty() && common.no_compiler)
    return usage_error("--compile-timeout has no effect with --no-compiler", "nothing is compiled",
                       "leave one of the two out");
  if (!first_given(verb, {"--cache-dir"}).empty() && common.no_cache)
    return usage_error("--cache-dir has no effect with --no-cache", "no cache is read or written",
                       "leave one of the two out");
  const std::string files = first_given(verb, {"--report", "--save-values", "--trace"});
  const bool writes = verb.get_name() == "build" || !files.empty() || names_file(verb, "--out");
  if (!first_given(verb, {"--force"}).empty() && !writes)
    return usage_error("--force has no effect", "this command writes no file",
                       verb.get_option_no_throw("--report") != nullptr ? "leave it out, or name a file with --report"
                                                                       : "leave it out, or name a file with --out");
  if (auto seed = seed_heeded(verb); !seed) return seed;
  if (verb.get_option_no_throw("--target") == nullptr) return {};
  // doctor looks at everything where no target is named; an unknown target is told by whoever takes it.
  if (common.target.empty() && verb.get_name() == "doctor") return {};
  const Result<Target> target = target_of(common);
  if (!target) return {};
  const Backend backend = cutlass ? Backend::cutlass : target->backend;
  const std::string named = cutlass ? "CUTLASS" : "the target " + target->to_string();
  for (const Needs& n : needs) {
    if (takes(n, backend) || first_given(verb, {n.option}).empty()) continue;
    return usage_error(std::string(n.option) + " has no effect with " + named,
                       std::string(n.reason) + ", and is for " + n.backends, n.help);
  }
  const CLI::Option* math = verb.get_option_no_throw("--math");
  if (math != nullptr && math->count() > 0 && math->results().back() != "strict" && backend != Backend::cuda &&
      backend != Backend::cutlass) {
    if (!math_mode_from_name(math->results().back())) return {};  // told with what is known
    return usage_error("--math " + math->results().back() + " has no effect with " + named,
                       std::string("it permits what NVIDIA's tensor cores do; ") +
                           (backend == Backend::cpu ? "a CPU multiplies" : "kernels of other GPUs multiply") +
                           " exactly",
                       "leave it out, or say --target cuda");
  }
  return {};
}

Result<void> well_placed(const CLI::App& verb, bool program, bool cutlass) {
  const auto given = [&](std::initializer_list<const char*> names) { return first_given(verb, names); };
  std::string evt =
      given({"--tile", "--cluster", "--schedule", "--nondeterministic", "--buffer", "--plain-pointers", "--no-cd"});
  const bool lists = !program && (verb.get_name() == "kernels" || verb.get_name() == "explain");
  if (evt.empty() && !lists) evt = given({"--cutlass-dir"});
  if (!evt.empty() && !cutlass)
    return usage_error(evt + " is for CUTLASS", "`codetta " + verb.get_name() + "` is not asked about CUTLASS here",
                       verb.get_name() == "build" ? "leave it out, or say --via cutlass"
                                                  : "leave it out, or name a target such as cutlass:sm_90");
  if (const std::string name = given({"--name"}); !name.empty() && !cutlass && verb.get_name() == "emit")
    return usage_error("--name is for CUTLASS", "other names are made from what a kernel computes", "leave it out");
  std::string gemm = given({"--m", "--n", "--k", "--batch", "--dtype", "--b-dtype", "--accumulator", "--out-dtype",
                            "--a", "--b", "--tensor", "--scalar", "--out", "--epilogue", "--seed", "--transpose-a",
                            "--transpose-b", "--as-unfused", "--force"});
  // What a program's kernels are timed on.
  const bool tunes = program && verb.get_name() == "tune";
  if (tunes && (gemm == "--tensor" || gemm == "--scalar" || gemm == "--seed"))
    gemm = given({"--m", "--n", "--k", "--batch", "--dtype", "--b-dtype", "--accumulator", "--out-dtype", "--a", "--b",
                  "--out", "--epilogue", "--transpose-a", "--transpose-b", "--as-unfused", "--force"});
  if (tunes && !given({"--report"}).empty())
    return usage_error("--report is for the tuning of a GEMM",
                       "what was measured of a program's own kernels stands on the page of the program",
                       "leave it out, and say compile PROGRAM --report FILE.html then");
  if (verb.get_name() == "run" && verb.count("--bisect") > 0) {
    const std::string other = given({"--out", "--check", "--values", "--trap", "--save-values", "--trace"});
    if (!other.empty())
      return usage_error(other + " has no effect with --bisect",
                         "every step is compared with the oracle, and what the program computes is not kept",
                         "leave one of the two out");
  }
  if (verb.get_name() == "run" && verb.count("--graph") > 0) {
    std::string watched = given({"--bisect", "--values", "--trap", "--save-values", "--trace"});
    if (watched.empty() && verb.count("--kernel") > 0) watched = given({"--check"});
    if (!watched.empty())
      return usage_error("--graph is not possible with " + watched,
                         watched == "--check"
                             ? "a check takes what kernels of yours compute as it sees them do it, and "
                               "a graph runs unseen"
                             : "it watches every step, and a graph runs unseen",
                         "leave one of the two out");
  }
  if (!program && verb.get_name() == "tune" && !given({"--dim"}).empty())
    return usage_error("--dim is for a program", "sizes of a GEMM are --m, --n, --k and --batch",
                       "leave it out, or name a program");
  if (const CLI::Option* kernel = verb.get_option_no_throw("--kernel");
      !program && verb.get_name() != "build" && verb.get_name() != "run" && kernel != nullptr && kernel->count() > 1)
    return usage_error("--kernel is given " + std::to_string(kernel->count()) + " times",
                       "the kernels of a GEMM are narrowed down by one name", "leave the others out");
  if (program && !gemm.empty())
    return usage_error(
        gemm + " is for a GEMM and its epilogue", "a program's text says sizes, types and what is computed",
        tunes ? "leave it out; sizes are said by --dim" : "leave it out; likely sizes are said by --hint");
  if (verb.get_name() == "build" && !cutlass) {
    if (verb.count("--by-size") > 0 && verb.count("--tune") > 0)
      return usage_error("--by-size has no effect with --tune", "kernels are timed for the sizes of --hint",
                         "leave it out, and say --hint batch=1,64 for kernels for both");
    const bool repro = !given({"--repro"}).empty();
    if (!repro && !given({"--dim"}).empty())
      return usage_error("--dim is for --repro", "a library takes every size; sizes that are likely are said by --hint",
                         "leave it out, say --hint, or name a kernel with --repro");
    const std::string whole =
        given({"--show", "--by-size", "--tune", "--budget", "--trial", "--constant", "--weights", "--embed-weights",
               "--header", "--manifest", "--benchmark", "--name", "--no-checks", "--form"});
    const std::string written = given({"--header", "--manifest", "--benchmark", "--engine-dir"});
    if (!written.empty() && !given({"--show"}).empty())
      return usage_error(written + " has no effect with --show", "the host text is printed, and no file is written",
                         "leave one of the two out");
    if (repro && !whole.empty())
      return usage_error(whole + " is not for --repro",
                         "a reproducer has one kernel, whose inputs are files of their own", "leave it out");
  }
  const std::string library = given({"program", "--hint", "--by-size", "--header", "--manifest", "--benchmark",
                                     "--constant", "--weights", "--embed-weights", "--tune", "--budget", "--trial",
                                     "--no-checks", "--engine-dir", "--form", "--show", "--repro", "--dim"});
  if (cutlass && !library.empty())
    return usage_error((library == "program" ? "a program" : library) + " is not for CUTLASS",
                       "CUTLASS gets a GEMM with its epilogue", "leave it out, and say --m, --n, --k and --epilogue");
  return {};
}

Result<void> exchanges_all(const CLI::App& tune) {
  for (const char* name :
       {"--m",           "--n",           "--k",      "--batch",     "--dtype",      "--b-dtype",     "--a",
        "--b",           "--tensor",      "--scalar", "--out",       "--epilogue",   "--function",    "--kernel",
        "--seed",        "--strict",      "--math",   "--out-dtype", "--as-unfused", "--accumulator", "--force",
        "--transpose-a", "--transpose-b", "--budget", "--trial",     "--candidates", "--report",      "--target",
        "--device",      "--devices",     "program",  "--no-vendor", "--cuda-home"}) {
    if (tune.count(name) == 0) continue;
    const std::string what = name == std::string_view("program") ? "a program" : name;
    return usage_error(what + " is not for " + (tune.count("--export") > 0 ? "--export" : "--import"),
                       "a tuning file carries all results that are kept, and nothing is timed", "leave it out");
  }
  return {};
}

}  // namespace codetta::cli

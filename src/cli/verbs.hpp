// SPDX-License-Identifier: Apache-2.0
// The verbs. Each returns the exit status; results go to stdout, diagnostics to stderr.
#pragma once

#include <string>
#include <vector>

#include "cli/evt.hpp"
#include "cli/options.hpp"

namespace codetta::cli {

struct RunFlags {
  bool check = false;
  bool bench = false;
  bool pack = false;  // pack B once, before the timed runs
};
int gemm(const CommonOptions& common, const GemmOptions& options, const RunFlags& flags);
int bench(const CommonOptions& common, const GemmOptions& options, size_t candidates);
// A program instead of a GEMM, where `file` is not empty, with likely sizes ("batch=8").
struct InspectedProgram {
  std::string file;
  std::vector<std::string> hints;
  std::vector<std::string> kernels;  // NAME=FILE
  Numerics numerics{};
  std::string function;  // of the text; empty: the last
};
// With options.report also one self-contained HTML page.
int explain(const CommonOptions& common, const GemmOptions& options, const InspectedProgram& program,
            const EvtFlags& evt);
int kernels(const CommonOptions& common, const GemmOptions& options, const EvtFlags& evt);
int emit(const CommonOptions& common, const GemmOptions& options, const std::string& what,
         const InspectedProgram& program);
int compile(const CommonOptions& common, const GemmOptions& options, const InspectedProgram& program);
struct TuneLimits {
  double budget_seconds = 30, trial_seconds = 0;  // as TuneOptions has them
  size_t candidates = 16;
};
int tune(const CommonOptions& common, const GemmOptions& options, const TuneLimits& limits);
int exchange_tuning(const CommonOptions& common, const std::string& export_file, const std::string& import_file);
int doctor(const CommonOptions& common);
int cache(const CommonOptions& common, const std::string& action);

struct ProgramOptions {
  std::string file;
  std::vector<std::string> tensors, scalars, outputs;  // NAME=FILE, NAME=NUMBER
  std::vector<std::string> dims, hints;                // SIZE=NUMBER: of random data; for the choice of kernels
  std::vector<std::string> kernels;                    // NAME=FILE: sources of kernels that the program calls
  Numerics numerics{};
  bool force = false;  // outputs may overwrite files that the command reads
  bool check = false;
  bool graph = false;              // on a GPU: the steps as one graph
  bool bisect = false;             // compare every step with the oracle
  bool values = false;             // statistics of what each step writes
  std::string trap;                // nan or inf: the first step that writes one ends the run
  std::string save_values, trace;  // a folder for what steps write; a file for their times
  uint64_t seed = 1;
  bool seeded = false;   // --seed was given
  std::string function;  // of the text; empty: the last
  bool tune = false;     // first, for these sizes, within `tuning`
  TuneLimits tuning{};
};
int run_program(const CommonOptions& common, const ProgramOptions& options);
// What the program is made of, and the configurations of the kernels of the user's that it calls, at most `candidates`
// of each. Parameters that are not given are random.
int tune_program(const CommonOptions& common, const ProgramOptions& options, const TuneLimits& limits);

struct BuildLibraryOptions {
  std::string program;                 // file or text
  std::vector<std::string> functions;  // of the text; empty: the last
  std::string output, name, header, manifest, benchmark, weights, engine_dir;
  std::string form = "library";        // or nvcc
  std::vector<std::string> constants;  // NAME=FILE
  std::vector<std::string> kernels;    // NAME=FILE, of user kernels
  std::vector<std::string> hints;      // SIZE=NUMBER
  Numerics numerics{};                 // of all of them
  bool embed_weights = false, no_checks = false, tune = false, show = false;
  double tune_budget = 10, tune_trial = 60;
  int by_size = 0;                // 0: as many as pay
  std::string repro;              // a kernel: the output is a folder that reproduces it
  std::vector<std::string> dims;  // SIZE=NUMBER, of the reproducer
};
int build_library(const CommonOptions& common, const BuildLibraryOptions& options);

}  // namespace codetta::cli

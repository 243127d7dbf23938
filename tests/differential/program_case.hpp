// SPDX-License-Identifier: Apache-2.0
// A random program: planned, compiled, run in process on random data of one or two choices of its sizes, and checked
// against the oracle.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "codetta/program.hpp"
#include "differential/together.hpp"
#include "package/package.hpp"
#include "runtime/execution.hpp"
#include "support/random_program.hpp"
#include "toolchain/compiler.hpp"

namespace codetta::test {

struct ProgramCounts {
  int64_t programs = 0, kernels = 0, maps = 0, runs = 0, elements = 0, mistrusted = 0, failed = 0;
  int64_t unfinished = 0;                  // is_unfinished()
  std::map<std::string, int64_t> refused;  // by reason

  void add(const ProgramCounts& other);
  [[nodiscard]] std::string encode() const;
  static ProgramCounts decode(const std::string& text);
  [[nodiscard]] int64_t refusals() const;
  [[nodiscard]] std::string summary(double seconds) const;
};

// Data for one choice of sizes.
struct ProgramRunData {
  std::vector<std::pair<std::string, int64_t>> sizes;
  std::vector<Tensor> parameters;  // of the program, in order
  std::vector<Tensor> outputs;     // what the run in process gave
  [[nodiscard]] std::string describe() const;
  [[nodiscard]] std::vector<Tensor> poisoned_outputs() const;  // of the same forms
  [[nodiscard]] std::vector<Tensor> parameter_copies() const;
  std::vector<Dims> filled;  // by output: the part of it that a run fills
  [[nodiscard]] std::vector<TensorView> filled_of(const std::vector<Tensor>& made) const;
};

// Sizes that kernels are chosen for, whichever way a program runs: plans and so bits are the same.
std::vector<std::pair<std::string, int64_t>> hints_of_programs();

class ProgramCase {
 public:
  // Draws and plans; a program that is refused has no program() then. An account of what is wrong, else empty.
  std::string make(uint64_t seed, const std::string& name, const Target& target, Context& context,
                   ProgramCounts& counts);
  [[nodiscard]] const std::optional<Program>& program() const { return program_; }
  [[nodiscard]] const package::Package& package() const { return package_; }
  [[nodiscard]] const std::vector<ProgramRunData>& runs() const { return runs_; }
  [[nodiscard]] const std::string& text() const { return made_.text; }
  [[nodiscard]] const std::string& name() const { return name_; }

  // One job a kernel with a source, and what came of them, in that order: the package then has binaries.
  [[nodiscard]] std::vector<toolchain::CompileJob> jobs(const toolchain::HostCompiler& compiler) const;
  std::string load(std::span<const Result<toolchain::CompileOutput>> outputs);
  // The same with kernels that others may have, too; one whose text they lack is an account: a library has other ones
  // than a run in process then.
  std::string load(const SharedKernels& kernels);
  // With what a Python module finds its kernels by; empty where the package carries them.
  [[nodiscard]] const std::vector<std::string>& kernel_paths() const { return kernel_paths_; }

  // What of these outputs is outside of the oracle's bounds for these parameters; empty: nothing.
  [[nodiscard]] std::string judged(const std::vector<Tensor>& parameters, const std::vector<TensorView>& actual) const;

  // In process, compiled and interpreted, against the oracle; fills runs().
  std::string run(Context& context, ProgramCounts& counts);

 private:
  std::string run_with(ProgramRunData data, Context& context, ProgramCounts& counts);
  std::optional<ProgramRunData> draw(bool other_sizes);

  std::string name_;
  Target target_;
  RandomProgram made_;
  std::mt19937_64 random_;
  std::optional<Program> program_;
  package::Package package_;
  std::vector<runtime::KernelEntry> entries_;
  std::vector<std::string> kernel_paths_;
  std::vector<ProgramRunData> runs_;
};

}  // namespace codetta::test

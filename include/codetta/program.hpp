// SPDX-License-Identifier: Apache-2.0
// Whole programs: text with typed parameters and matrix products. In this version a program of consecutive GEMMs with
// epilogues runs, one kernel a GEMM; work that belongs to no product is E0310.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codetta/kernel.hpp"

namespace codetta {

namespace driver {
struct ProgramState;
struct CompiledProgramState;
}  // namespace driver

struct ProgramParameter {
  std::string name;
  std::string type;  // "bf16[batch, 4096]"; "f32" is a number
};

// A parsed and verified program. Immutable, shared.
class CODETTA_API Program {
 public:
  // Errors: E01xx, E02xx.
  static Result<Program> parse(std::string text, std::string name = "<program>");
  [[nodiscard]] std::vector<ProgramParameter> parameters() const;
  [[nodiscard]] std::vector<ProgramParameter> outputs() const;
  [[nodiscard]] Result<std::string> emit(Stage stage) const;  // Ast, Graph

  struct Access;

 private:
  explicit Program(std::shared_ptr<const driver::ProgramState> state) : state_(std::move(state)) {}
  std::shared_ptr<const driver::ProgramState> state_;
};

// A program compiled for a target; sizes stay symbolic. Immutable, shared between threads.
class CODETTA_API CompiledProgram {
 public:
  // Every parameter and every output by name: a number for what is declared without brackets (a: f32), else a tensor.
  // Numbers are what they are now; tensors are read by each run. Errors: E0208 to E0210 (missing, unknown or double
  // names), E0213, E0221 (a type, a size or a number that does not fit the declaration), E06xx.
  [[nodiscard]] Result<Execution> prepare(const std::vector<NamedArgument>& arguments) const;
  Result<void> run(const std::vector<NamedArgument>& arguments, Stream stream = {}) const;
  [[nodiscard]] Result<std::string> emit(Stage stage) const;  // Graph, Plan, Memory, Source, Manifest
  // Graph before and after the passes, plan, kernels, when temporaries live, source: one self-contained HTML page.
  [[nodiscard]] Result<std::string> html_report() const;

  struct Access;

 private:
  explicit CompiledProgram(std::shared_ptr<const driver::CompiledProgramState> state) : state_(std::move(state)) {}
  std::shared_ptr<const driver::CompiledProgramState> state_;
};

// Plans, compiles and loads every kernel. Size hints (symbol -> value) steer the choice of kernels.
CODETTA_API Result<CompiledProgram> compile(const Program& program, const Target& target,
                                            const std::vector<std::pair<std::string, int64_t>>& size_hints = {},
                                            Context& context = Context::process_default());

}  // namespace codetta

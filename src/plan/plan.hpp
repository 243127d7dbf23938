// SPDX-License-Identifier: Apache-2.0
// Plan: fusion regions with a chosen kernel each, the ordered host steps, and where temporaries live.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codetta/numerics.hpp"
#include "ir/graph.hpp"
#include "package/package.hpp"
#include "plan/account.hpp"
#include "plan/candidates.hpp"
#include "plan/choices.hpp"
#include "plan/memory.hpp"

namespace codetta::plan {

// One product with what follows it, or work without a product: one kernel.
struct Region {
  enum class Kind : uint8_t { Product, Map };
  Kind kind = Kind::Product;
  ir::GraphRef graph;               // of a branch or a loop, where it belongs to one: nodes are its
  ir::NodeId matmul;                // Map: the first value that it stores
  std::vector<ir::NodeId> nodes;    // in graph order, the matmul first
  std::vector<ir::NodeId> inputs;   // values computed elsewhere, or graph inputs
  std::vector<ir::NodeId> outputs;  // values that other regions or the graph's outputs need
};

// The source of what user_kernel("name", ...) calls.
struct UserSource {
  enum class Language : uint8_t { Cpp, Cuda, Hip, Triton, CuteDsl };
  std::string name;
  std::string source;
  Language language = Language::Cpp;
  std::string file;  // for messages
  // What it hands over is stored as well, although nothing else reads it: who checks a run wants to see it.
  bool keeps_hooked = false;
};

// The result that a kernel of the user's hands over element by element, to an epilogue that is the kernel's program.
// The program's arguments are the operands of the call, then what the epilogue reads, what it stores, and the other
// results.
struct UserHook {
  size_t position = 0;  // among the function's parameters: operands, then results
  DType dtype = DType::f32;
  std::vector<types::Dim> shape;
  size_t operands = 0;           // of the call
  size_t reads = 0, stores = 0;  // arguments of the epilogue
  struct Size {
    std::optional<int64_t> known;
    size_t argument = 0, dim = 0;  // else
  };
  std::vector<Size> sizes;       // of the result
  std::optional<size_t> kept{};  // the argument that the epilogue stores the result in as it is
};

// One form of a kernel of the user's: its meta-parameters, which the source sees as macros, and what follows from them
// for its launch on a GPU.
struct UserConfiguration {
  std::vector<std::pair<std::string, int64_t>> values;
  package::LaunchOptions options;
};

struct PlannedKernel {
  Region region;
  Lowered lowered;
  GemmShape shape;  // constants where known, hints elsewhere
  Discovery discovery;
  size_t chosen = 0;      // index into discovery.candidates
  KernelAccount account;  // of programs: what it stands for
  std::optional<UserSource> user{};
  std::optional<UserHook> hook{};                   // of `user`
  std::vector<UserConfiguration> configurations{};  // of `user`, by candidate
  bool is_prologue = false;  // no step launches it: another kernel calls it where it reads a factor
};

// Why a value is where it is: not fused behind its product, stored in front of its user, copied.
struct FusionNote {
  ir::NodeId node;
  std::string action;
  Rejection why;
};

// What a step list carries out.
struct NestedGraph {
  ir::GraphRef graph;            // a branch, the condition of a loop, or a turn of it; null: nothing of it is needed
  std::vector<uint32_t> inputs;  // the buffers that hold its inputs when the list begins; no_buffer: none does any more
};

struct Plan {
  Target target;
  std::vector<PlannedKernel> kernels;
  std::vector<package::Buffer> buffers;
  package::StepList steps;  // LaunchKernel::kernel indexes `kernels`
  std::vector<package::StepList> step_lists;
  std::vector<NestedGraph> nested;  // by step list
  std::vector<package::Pool> pools;
  uint32_t result_count = 0;  // results of externs that allocate
  MemoryProblem temporaries;  // what was asked of the memory plan; MemoryRequest::buffer indexes `buffers`
  MemoryPlan memory;
  std::vector<FusionNote> notes;    // in the order of the decisions
  std::vector<Decision> decisions;  // by what they would take, in the order of their keys
  size_t tries = 0;                 // of kernels while they were found, in branches and loops, too
  Numerics numerics{};              // of programs; where it is strict, no epilogue contracts
};

// What kernels of GPUs may rely on that copy several elements at a time.
enum class Alignment : uint8_t {
  Hinted,  // addresses are multiples of 16 bytes, and strides where they are for the hinted sizes
  Proven,  // addresses are, and strides where all sizes say so
  Any,     // of tensors of the caller's what one element needs, anywhere; of what lies between kernels as Proven
  Uneven,  // as Any; and leading dims of what products read of the caller's may lie anywhere: that is copied first
  Empty,   // as Uneven; and where sizes are 0 each kernel makes all that it stores (package::missing_when)
};

// A graph of one GEMM with its epilogue. Buffers: A, B, then the epilogue's arguments in program order. The kernel's
// discovery may be without candidates; its rejections then say why. `layouts` belong to the program's arguments.
// Errors: E0301..E0309 (the epilogue cannot be fused), E0310 (there is no product).
Result<Plan> plan_gemm(const ir::Graph& graph, const GemmShape& shape, const std::vector<ArgumentLayout>& layouts,
                       const Target& target, const MachineFacts& machine, const Breadth& breadth = {});
// A program: one kernel a matmul, with the work that follows it where it can be fused; map kernels for the rest; steps
// for writes at indices, extern functions, branches and loops, whose graphs are planned likewise. Transposes of factors
// are folded into the launch. Symbols without a hint are taken as 512 for ranking only. Errors: E0311 where the target
// has no step for an operation, E03xx where an operation alone cannot be lowered, and the rejection of the last family
// where there is no kernel. `choices`: decisions that were measured, instead of the cost model's; those that the plan
// does not come to count for nothing.
Result<Plan> plan_program(const ir::Graph& graph, const Target& target, const MachineFacts& machine,
                          const std::vector<std::pair<std::string, int64_t>>& size_hints,
                          const std::vector<UserSource>& user_sources = {}, Alignment alignment = Alignment::Hinted,
                          const Numerics& numerics = {}, const Choices& choices = {});

// The memory plan for people, for `emit --what=memory`, and as a part of explain's JSON.
std::string memory_text(const Plan& plan);
std::string memory_json(const Plan& plan);

// What a kernel of a GPU computes some of its stores with, though they have elements where there is none: "rows",
// "columns", "batch items". Where sizes come to that, a plan of Alignment::Empty takes over.
std::vector<std::string_view> not_without(const Plan& plan, size_t kernel);

std::string to_string(const Plan& plan);  // for `emit --what=plan` and explain

}  // namespace codetta::plan

// SPDX-License-Identifier: Apache-2.0
// An epilogue as CUTLASS's epilogue visitor trees: type declarations and arguments, from a typed graph after its
// passes. Read against the headers of CUTLASS 4.2; docs/evt.md says what is emitted for what.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "codetta/evt.hpp"
#include "ir/graph.hpp"
#include "types/dim.hpp"

namespace codetta::emit::evt {

using types::Dim;

enum class Arch : uint8_t { Sm80, Sm90, Sm100 };
std::string_view name_of(Arch arch);  // "Sm90"
inline constexpr std::string_view supported_versions = "4.2 to 4.7";

// A tensor that the epilogue reads or writes, or a number of the host.
struct Operand {
  std::string name;
  bool is_scalar = false;
  bool is_output = false;
  DType dtype = DType::f32;
  std::vector<Dim> shape, strides;  // strides in elements
  std::string value{};              // of a number: C++ text
};

// How the text refers to things of whoever uses it.
struct Spelling {
  // A pointer of the C++ type `type*`.
  std::function<std::string(size_t operand, const std::string& type)> pointer;
  std::function<std::string(size_t operand)> number;  // a number of the host
  // A stride that is no constant 0 or 1 of the type; `axis` 0, 1, 2: row, column, batch.
  std::function<std::string(size_t operand, int axis, const Dim& stride)> stride;
};

struct Problem {
  const ir::Graph* graph = nullptr;  // one matmul; inputs 0 and 1 are its factors
  std::vector<Operand> operands;     // by name: inputs and outputs
  std::vector<Dim> shape;            // [M, N] or [batch, M, N] of the accumulator
  DType accumulator = DType::f32;
  std::optional<DType> a{}, b{};  // the factors, where they are known
  Arch arch = Arch::Sm90;
  EvtSchedule schedule = EvtSchedule::Auto;
  std::array<int, 3> tile{}, cluster{};
  bool deterministic = true;
  bool emit_cd = true;
  std::string name = "EVTD";
  std::string prefix = "Evt";
  std::map<std::string, int64_t> hints{};  // likely values of symbols
  int64_t shared_capacity = 0;             // of the target
};

// What the collective builders will decide, computed as they do.
struct EpilogueShape {
  int tile_m = 0, tile_n = 0;  // of one step
  int steps = 0;               // of a CTA tile
  int stages_c = 0, stages_d = 0;
  bool reuses_c = false, delays_store = false;
};

enum class Kind : uint8_t;  // nodes.hpp

// What a kernel around the tree has to know.
struct Tree {
  std::string types, functors, arguments;
  EpilogueShape shape;
  int64_t shared_bytes = 0;
  std::optional<size_t> source, destination;  // operands that are C and D; nothing: void
  std::array<std::string, 3> source_stride, destination_stride;
  std::string element_c, element_d, stride_c, stride_d;  // C++ types
  std::vector<size_t> reductions;                        // operands that take results of reductions
  std::vector<std::string> identities;                   // of these, as C++ texts
  std::vector<Kind> reduction_kinds;                     // of these
  std::vector<int> alignments;   // by operand: bytes that addresses and strides are multiples of
  std::vector<int> whole_along;  // by operand: the size that is a multiple of as many bytes, too: 0 M, 1 N, -1 none
  int elements_per_access = 0;   // Sm80
  std::string element_map;       // Sm80: the C++ type of the thread map, and of C and D to the kernel
  std::vector<std::string> notes;
};

// Errors: E0311, E0405 to E0407, E0409, E0412, E0419, located in the epilogue's text.
Result<Tree> emit_tree(const Problem& problem, const Spelling& spelling);

// The same checks of architecture, tile and schedule alone. Errors: E0406, E0412.
Result<Arch> arch_of(const Target& target);
Result<void> check_tile(Problem& problem);  // fills in what is Auto or 0
Error wrong_tile(const Problem& problem, const std::string& why, const std::string& help);  // E0406
// Of the product, as far as its types are known. Errors: E0405, located at the accumulator.
Result<void> check_types(const Problem& problem);

std::string cpp_type(DType dtype);  // "cutlass::half_t"
EpilogueShape shape_of(const Problem& problem, std::optional<DType> c, DType d, bool c_is_m_major, bool d_is_m_major);
int64_t shared_capacity(std::string_view arch);  // of a block, opted in: "sm_86"

// Kernels of Sm80. A stage is a step's A and B in shared memory; the main loop has 3 or 4 of them.
inline constexpr int least_stages_sm80 = 3;
int64_t stage_bytes_sm80(const Problem& problem);
int stages_sm80(const Problem& problem);
std::array<int, 2> warp_shape_sm80(const std::array<int, 3>& tile, std::optional<DType> a);
// How many elements of D, of `bits` each, a thread stores at once: `most`, or the next fewer with which CUTLASS's
// OutputTileOptimalThreadMap deals 8 rows of the tile out to the lanes of each warp, each element once. It asserts a
// part of that; where lanes are left over they take rows of others.
int store_access_sm80(const Problem& problem, int bits, int most);
// Whether a block's threads copy all of A's and B's tiles, each element once. k_major: rows of A, columns of B lie
// along K. Errors: E0406.
Result<void> check_copies_sm80(const Problem& problem, bool a_k_major, bool b_k_major);
// Whether its threads hand accumulators over for stores of `access` elements of D at once: there are forms of types.
bool hands_over_sm80(DType accumulator, DType d, int access);
// The most products of these types whose sum can not leave i32, where instructions saturate. Nothing: they do not.
std::optional<int64_t> longest_sum(const Problem& problem);

// A Dim as an expression of C++ over its symbols: non-negative values, so that / and % are those of C.
std::string cpp_text(const Dim& dim);

// The translation unit of a whole kernel (kernel.cpp).
struct KernelProblem {
  Problem problem;
  std::string name;                                 // of what is public, and of the kernel
  std::array<int64_t, 3> a_strides{}, b_strides{};  // [batch, M, K], [batch, K, N]
  int64_t k = 0;
  bool strict = false;
  MathMode math = MathMode::Strict;
  std::string target;  // "sm_90a"
};
struct KernelText {
  std::string source, header;
  std::vector<std::string> flags;  // of nvcc, the architecture included
  Tree tree;
};
// The headers that such a unit includes, in an order that compiles with all supported versions.
std::span<const std::string_view> includes_of(Arch arch);
Result<KernelText> emit_kernel(const KernelProblem& problem);

// Of a tensor without gaps, in elements.
std::vector<Dim> row_major_strides(const std::vector<Dim>& shape);

}  // namespace codetta::emit::evt

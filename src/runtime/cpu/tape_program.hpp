// SPDX-License-Identifier: Apache-2.0
// An EpilogueProgram prepared for interpretation: every phase cut in nests (once per tile, per block of columns, per
// row, per block of a row), values placed in scratch. A value lives in its own array of `lanes` elements.
#pragma once

#include <cstdint>
#include <vector>

#include "package/epilogue_program.hpp"
#include "runtime/cpu/tape_kernels.hpp"

namespace codetta::runtime::cpu::tape {

inline constexpr int64_t max_lanes = 128;
inline constexpr int64_t stack_bytes = 48 << 10;  // scratch of one run_tile
inline constexpr uint32_t nowhere = UINT32_MAX;

enum Varies : uint8_t { nothing = 0, by_row = 1, by_column = 2, by_both = 3 };

// One instruction. Offsets count bytes from the scratch.
struct Code {
  package::Inst::Kind kind = package::Inst::Kind::Op;
  Varies varies = nothing;
  DType type = DType::f32;  // of the value
  DType from = DType::f32;  // casts: of the operand
  DType via = DType::f32;   // casts: the dtype that rounds
  uint8_t arity = 0;
  uint32_t index = 0;
  uint64_t bits = 0;
  Kernel kernel = nullptr;  // null for casts and what is no op
  uint32_t at = nowhere;
  uint32_t in[4] = {0, 0, 0, 0};
};

struct StoreCode {
  uint32_t operand = 0;
  DType from = DType::f32;
  uint32_t at = 0;
};
struct ReduceCode {
  uint32_t reduction = 0;
  package::ReduceAxis axis = package::ReduceAxis::Row;
  int64_t bytes = 0;  // of one partial
  Fold fold = nullptr;
  uint32_t at = 0;
};

struct PhaseCode {
  std::vector<Code> tile, columns, inner;  // inner: per row; what varies by rows only takes one lane and is spread
  std::vector<StoreCode> tile_stores, column_stores, row_stores, full_stores;
  std::vector<ReduceCode> reductions;
  std::vector<uint32_t> indexed;  // operands whose column offsets are computed for each block
};

struct OperandCode {
  DType dtype = DType::f32;
  int64_t size = 4;
  package::Access access = package::Access::Full;
  bool is_store = false;
  Varies varies = nothing;
  bool has_column_terms = false;
  std::vector<package::IndexTerm> terms;
  size_t gathered = 0;         // dims whose index is a value
  uint32_t offsets = nowhere;  // Indexed: where a block's column offsets lie
};

struct ProgramCode {
  explicit ProgramCode(const package::EpilogueProgram& program);

  std::vector<PhaseCode> phases;
  std::vector<OperandCode> operands;
  std::vector<package::ReduceAxis> result_axis;  // by reduction
  std::vector<int64_t> result_size;              // bytes of an element, by reduction
  DType accumulator = DType::f32;
  int64_t accumulator_size = 4;
  int64_t lanes = max_lanes;
  uint32_t raw = 0, rounded = 0;  // two arrays of 8-byte elements for conversions
  uint32_t sums = nowhere;        // offsets of a gathered load
  int64_t scratch_bytes = 0;
};

}  // namespace codetta::runtime::cpu::tape

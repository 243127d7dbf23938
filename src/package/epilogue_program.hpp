// SPDX-License-Identifier: Apache-2.0
// EpilogueProgram: what every back end lowers from and what the tape interpreter runs. Plain serializable data, no IR.
//
// It describes the work at one element of the *root space* [batches, rows, cols]: the accumulator's space [batch, M,
// N], or, when there are `split.ways` parts (of the accumulator's columns, or of several products), [batch, M, N /
// ways]; for a map kernel, which has no accumulators, any space. Instructions
// are SSA in execution order, grouped in phases: phase p may use the results of reductions computed in phases before p.
// Later phases recompute what they need, so each phase is a straight line on its own (ValueIds are local to their
// phase).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codetta/tensor.hpp"
#include "types/dim.hpp"
#include "types/op.hpp"

namespace codetta::package {

using types::Dim;
using types::Op;

// How the address of an operand depends on the root coordinates. Strides are run-time values everywhere.
enum class Access : uint8_t {
  Full,     // row and column (and batch, with whatever stride)
  Row,      // column only: one value per column, shared by all rows
  Column,   // row only: one value per row, shared by all columns
  Scalar,   // neither (a batch stride may be there)
  Indexed,  // by `terms`: per-head reshapes, split operands with small chunks
};

enum class Axis : uint8_t { Batch, Row, Col };

inline constexpr size_t max_index_terms = 8;   // of an operand; device/cpu/abi.h has as many strides
inline constexpr int32_t max_split_ways = 64;  // parts that the columns may be split in

// index = ((axis / div) % mod), mod == 0 meaning no modulus; its stride is `scale` * (stride of tensor dim `dim`), dims
// counted from the last (0 = last), so that a [N] and a [1, N] tensor are the same operand.
struct IndexTerm {
  Axis axis = Axis::Row;
  int64_t div = 1, mod = 0;
  uint8_t dim = 0;
  Dim scale = Dim::constant(1);
  bool operator==(const IndexTerm&) const = default;
};

// A tensor argument as the epilogue reads or writes it. One argument may appear as several operands (different views).
struct Operand {
  uint32_t argument = 0;  // index into arguments
  DType dtype = DType::f32;
  Access access = Access::Full;
  bool unit_stride = true;       // consecutive columns are consecutive in memory (Full and Row); a guard of the package
  std::vector<IndexTerm> terms;  // at most max_index_terms; for the affine accesses div = 1, mod = 0
  std::vector<std::pair<uint8_t, Dim>> offsets;  // constant start: sum of count * stride(dim)
  bool is_store = false;
  // Of LoadAt: dims (counted from the last) whose index is a value of the program. Such an operand is Indexed, and has
  // at most max_index_terms - 2 * gathered.size() terms.
  std::vector<uint8_t> gathered{};
  // Full without unit_stride: consecutive rows are consecutive in memory, as far as was known. No guard of the package:
  // kernels that rely on it look at each launch.
  bool column_major = false;
  bool operator==(const Operand&) const = default;
};

struct Argument {
  std::string name;  // as in the user's text; appears only in manifests and messages
  DType dtype = DType::f32;
  bool is_scalar = false;  // host value, passed by value in its compute dtype
  bool is_output = false;
  std::vector<Dim> shape;  // of the bound tensor; sizes used by checks
  bool operator==(const Argument&) const = default;
};

// One instruction of a phase; its index is its value id. `type` is the compute dtype (never f16, bf16 or fp8).
struct Inst {
  enum class Kind : uint8_t {
    Op,           // `op` applied to `in`
    Accumulator,  // `index` = part; type is the accumulator's dtype
    Load,         // `index` = operand; widened to `type` (or integer kept)
    Scalar,       // `index` = argument that is a scalar
    Literal,      // `bits` = value in `type` (f32 bits in the low half, f64 bits, or the integer two's complement)
    Result,       // `index` = reduction of an earlier phase; access follows from its axis
    Extent,       // i64; `index` = 0 batches, 1 rows, 2 columns of the root space, 3 and on: of `sizes`
    RowIndex,
    ColIndex,
    BatchIndex,  // root coordinates, i64
    LoadAt,      // `index` = operand; `in` = i64 indices of its gathered dims: what is out of range, also below 0, is
                 // taken as the nearest that is there
  };
  Kind kind = Kind::Op;
  Op op = Op::input;
  DType type = DType::f32;
  // Op::cast: convert to aux, then widen to `type` (so a narrow aux rounds). Comparisons: what is compared, the dtype
  // of both operands. Everything else: `type`, which the operands have, too (where's condition is bool; dropout:
  // below).
  DType aux = DType::f32;
  uint32_t in[4] = {0, 0, 0,
                    0};  // dropout: x, p (rounded to f32, in `type`), seed (i64), row-major index of the element (i64)
  uint8_t arity = 0;
  uint32_t index = 0;
  uint64_t bits = 0;
  bool operator==(const Inst&) const = default;
};

// Stores whose operand is not Full write each element once: Column by the tiles with tile_col 0, Row by those with
// tile_row 0 (of the batch item; of batch item 0 where the batch stride is 0), Scalar by tile (0, 0).
struct Store {
  uint32_t operand = 0;  // is_store
  uint32_t value = 0;    // value id in its phase; converted to the operand's dtype with one rounding
  bool operator==(const Store&) const = default;
};

// SumExp: the sum of exp(x - largest x) of a row, and of nothing else; no operation of the language, but what the
// lowering may make of a softmax's sum, so that it needs no phase behind that of the largest
// (LoweringScope::sums_exponents). Rows that have a NaN, an infinity above all others or nothing but -inf have NaN, as
// exp(inf - inf) has, empty ones 0.
enum class ReduceKind : uint8_t { Sum, Max, Min, LogSumExp, SumExp };
// Of a partial result: of an exponential sum the largest value, then the sum of exp(x - largest).
constexpr int32_t values_of(ReduceKind kind) {
  return kind == ReduceKind::LogSumExp || kind == ReduceKind::SumExp ? 2 : 1;
}
// Row: over the columns of each row, one result per (batch, row). Item: over rows and columns of each batch item.
enum class ReduceAxis : uint8_t { Row, Column, All, Item };

struct Reduction {
  ReduceKind kind = ReduceKind::Sum;
  ReduceAxis axis = ReduceAxis::Row;
  bool mean = false;        // divide the final sum by the number of root elements reduced times `parts`
  int32_t parts = 1;        // values of one root element that were combined before reducing (parts of a split)
  DType type = DType::f32;  // compute dtype of value and result
  uint32_t phase = 0;
  uint32_t value = 0;  // value id in that phase
  bool operator==(const Reduction&) const = default;
};

// What a phase must have before it can run at a tile.
enum class Scope : uint8_t {
  Tile,      // nothing: runs as soon as the accumulators of a tile are finished
  RowPanel,  // row reductions of these rows
  Whole,     // column, item or all reductions
};

// A phase with reads_accumulator == false runs after all tiles of the earlier phases, whatever its scope, and needs no
// accumulators kept: this is how finished reductions reach their outputs.
struct Phase {
  Scope scope = Scope::Tile;
  bool reads_accumulator = true;
  std::vector<Inst> insts;
  std::vector<Store> stores;
  bool operator==(const Phase&) const = default;
};

// Parts of the accumulators at one root element. Several products of one A have ways / products of them each, the first
// product's first; what a part is, is said of the columns of its own product.
struct Split {
  int32_t ways = 1;
  Dim chunk = Dim::constant(
      0);  // columns per chunk: part j of root column c is (c / chunk) * chunk * ways + j * chunk + c % chunk
  int32_t products = 1;  // divides ways, which counts the parts of all; with ways == products a chunk says nothing
  [[nodiscard]] int32_t own_ways() const { return ways / products; }  // "ways" above
  [[nodiscard]] bool interleaved() const { return own_ways() > 1 && chunk == Dim::constant(1); }
  bool operator==(const Split&) const = default;
};

// One of several products of one A that share its rows alone: it has columns of its own, and so a root space, tiles,
// and stores of its own, which need no other's accumulators.
struct ProductSpace {
  uint32_t columns = 0;  // which of EpilogueProgram::sizes: columns of its root space
  uint32_t stores = 0;   // how many of phase 0, behind those of the products in front
  bool operator==(const ProductSpace&) const = default;
};

// A factor of the product that lies nowhere as a whole: a kernel for a GPU computes its elements where it reads them.
// Coordinates are the factor's own, [batch, row, column] as it is before it is transposed. One rounding, to `dtype`.
struct FactorProgram {
  enum class Which : uint8_t { A, B };
  Which which = Which::A;
  uint32_t product = 0;  // B: of which product
  DType dtype = DType::f32;
  bool batch_in_rows = false;  // rows of all items follow each other, and there is one item
  std::vector<Inst> insts;     // as of a phase, without accumulators, results and extents
  uint32_t value = 0;          // value id of the element
  bool operator==(const FactorProgram&) const = default;
};

struct EpilogueProgram {
  DType accumulator = DType::f32;
  Split split;
  std::vector<Argument> arguments;  // epilogue parameters after accum, then outputs, in the order of the text
  std::vector<Operand> operands;
  std::vector<Reduction> reductions;
  std::vector<Phase> phases;             // at least one
  std::vector<FactorProgram> factors{};  // those that are made: at most one A, and the B of every product or of none
  // Of kernels for GPUs that compute several products: the B of the second one and on as operands, whose rows are K and
  // whose columns are those of the product. The first is that of the launch.
  std::vector<uint32_t> more_b{};
  // a * b + c may be one rounding. Not where a value is compared with what is made of it: kernels and phases compute it
  // again, and have to get the same bits.
  bool contracts = true;
  // Sizes that are no axis of the root space and decide values all the same, such as where a slice of positions starts.
  // Kernels find them as integers behind the numbers among the arguments. Made factors have none.
  std::vector<Dim> sizes{};
  // Of products whose numbers of columns differ, one for each, the first of them first; else empty. `split` then speaks
  // of each of them, all being split alike, and has one product; so do columns, in operands and instructions, of the
  // product that a store is of. There is one phase, and nothing is reduced; none of its values is the number of columns
  // (Extent 2). Launches count the columns of all.
  std::vector<ProductSpace> spaces{};
  [[nodiscard]] size_t products() const { return spaces.empty() ? static_cast<size_t>(split.products) : spaces.size(); }
  [[nodiscard]] size_t scalar_count() const { return arguments.size() + sizes.size(); }
  [[nodiscard]] const FactorProgram* made(FactorProgram::Which which, uint32_t product = 0) const {
    for (const FactorProgram& factor : factors) {
      if (factor.which == which && factor.product == product) return &factor;
    }
    return nullptr;
  }
  [[nodiscard]] bool makes_a() const { return made(FactorProgram::Which::A) != nullptr; }
  [[nodiscard]] bool makes_b() const { return made(FactorProgram::Which::B) != nullptr; }
  // Whether a factor is computed from the argument, or is it.
  [[nodiscard]] bool factors_read(uint32_t argument) const;
  bool operator==(const EpilogueProgram&) const = default;

  // Flat, versioned, canonical bytes: equal programs give equal bytes. decode() checks everything (untrusted input).
  [[nodiscard]] std::string encode() const;
  static Result<EpilogueProgram> decode(std::string_view bytes);
  // For people: one line a value, as in explain and comments of emitted code.
  [[nodiscard]] std::string to_string() const;
};

// A program with spaces as one of its products has it: the same tables, and of phase 0 its own stores with what they
// need; more_b and spaces are empty.
EpilogueProgram program_of(const EpilogueProgram& program, size_t product);

// One with nothing in it, for kernels whose program is not what they do: programs have a phase.
Phase idle_phase();

// What is wrong with a program, if anything: ids, arities, types, order of phases. Every consumer may rely on what it
// checks.
std::optional<std::string> find_defect(const EpilogueProgram& program);
// The lines of to_string() for one instruction ("v3:f32 = relu v2"), store ("store D[full, unit] = v3") and reduction
// ("reduce row sum v2 -> r0").
std::string line_of(const EpilogueProgram& program, const Phase& phase, size_t inst);
// The factor as a phase without stores, for what works on phases.
Phase phase_of(const FactorProgram& factor);
// Whether what makes a factor may leave elements out of it, as the masks of an attention do: by a condition, or by a
// bias of -inf or nearly that which is loaded for each column or follows from its position.
bool may_mask(const EpilogueProgram& program, std::span<const Inst> insts);
std::string line_of(const EpilogueProgram& program, const Store& store);
std::string line_of(const EpilogueProgram& program, size_t reduction);
std::string_view name_of(ReduceKind kind);  // "sum", "max", "min", "logsumexp", "sumexp"
std::string_view name_of(ReduceAxis axis);  // "row", "column", "all", "item"
std::string_view name_of(Access access);    // "full", "row", "column", "scalar", "indexed"

}  // namespace codetta::package

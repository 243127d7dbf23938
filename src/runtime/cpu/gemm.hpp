// SPDX-License-Identifier: Apache-2.0
// The CPU GEMM engine: tiles of accumulators from the prebuilt micro-kernels, handed to an epilogue function, with
// deterministic reductions. The tile grid and every order of summation depend on the configuration and the problem
// only, so the bits of a result do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codetta/threads.hpp"
#include "device/cpu/abi.h"
#include "device/host/items.h"
#include "package/cpu_gemm.hpp"

namespace codetta::runtime::cpu {

using codetta::package::CpuFamily;
using codetta::package::CpuGemmConfig;
namespace abi = codetta::cpu;

// Columns that belong together (gated units, rotary pairs). The epilogue's column space has n / ways columns; part j of
// its column c is column (c / chunk) * (chunk * ways) + j * chunk + c % chunk of the product. chunk = n / ways: halves
// of the whole; D / 2: per head of D; 1: interleaved. chunk must divide n / ways.
struct SplitForm {
  int32_t ways = 1;
  int64_t chunk = 0;  // not read when ways == 1
  bool operator==(const SplitForm&) const = default;
};

// Parts of further products. `ways` counts those of all: product p has parts [p, p + 1) * (ways / products), and what
// is said above of columns holds for each of them on its own.

// B of one product.
struct FactorB {
  const void* data = nullptr;
  int64_t batch = 0, k = 0, col = 1;
  int64_t skip = 0;  // as GemmProblem::b_skip
};
// A kernel of one phase that computes any block of a B which lies nowhere: its one store goes to `output`, an operand
// whose address is that of the block.
struct BlockMaker {
  abi::EpilogueFunction function = nullptr;
  void (*interpret)(void* context, const abi::EpilogueArgs*, const abi::Tile*) = nullptr;  // when function is null
  void* context = nullptr;
  const abi::Operand* operands = nullptr;
  const abi::ScalarValue* scalars = nullptr;
  int32_t operand_count = 0;  // at most max_maker_operands
  int32_t output = 0;         // which of them
  bool transposed = false;    // its rows are columns of B
};
inline constexpr int max_products = 8, max_maker_operands = 32;

// Strides count elements and may be zero or negative. With packed_b set, b and its strides (but b_batch == 0) are not
// read.
struct GemmProblem {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  const void* a = nullptr;
  int64_t a_batch = 0, a_row = 0, a_k = 1;
  const void* b = nullptr;
  int64_t b_batch = 0, b_k = 0, b_col = 1;
  // More than a_batch (b_batch) per item, of each `inner` of them (device/host/items.h); inner 0: there is no more.
  int64_t inner = 0, a_skip = 0, b_skip = 0;
  const void* packed_b = nullptr;  // what pack_b() made for the same configuration, k, n and split; 64-byte aligned
  SplitForm split;
  int32_t products = 1;  // of one A; n counts the columns of all
  FactorB more_b[max_products - 1]{};
  // One a product, or null: then B is read where it lies. Of a made B, b is not read, and b_batch says whether there is
  // one for each item (anything but 0).
  const BlockMaker* makers = nullptr;
  [[nodiscard]] FactorB factor_b(int64_t product) const {
    return product == 0 ? FactorB{b, b_batch, b_k, b_col, b_skip} : more_b[product - 1];
  }
  // Whether all batch items have the same B.
  [[nodiscard]] bool one_b() const;
};

// What a phase needs before it may start.
enum class Scope : uint8_t {
  Tile,      // nothing but its tile
  RowPanel,  // the row reductions of earlier phases, for its rows
  Whole,     // every reduction of earlier phases
};
// What a phase is called over. The reduced spaces get tiles without accumulators.
enum class Space : uint8_t {
  Tiles,    // every tile
  Rows,     // once per tile row: cols = 1, col = tile_col = 0
  Columns,  // once per tile column: rows = 1, row = tile_row = 0 (implies Whole)
  Once,     // once: rows = cols = 1, everything else 0 (implies Whole)
};
struct Phase {
  Scope scope = Scope::Tile;  // Tile in the first phase
  Space space = Space::Tiles;
  bool accumulators = true;  // false: tile.acc is null
};

enum class ReductionKind : uint8_t { Sum, Max, Min, LogSumExp, SumExp };
// Row: one value per row (reduced along columns), and so on; Item: one per batch item.
enum class ReductionAxis : uint8_t { Row, Column, All, Item };
struct Reduction {
  ReductionKind kind = ReductionKind::Sum;
  ReductionAxis axis = ReductionAxis::Row;
  DType dtype = DType::f32;  // compute dtype: any integer, f32 or f64 (LogSumExp, SumExp: f32 or f64)
  bool mean = false;         // Sum only: divide by the number of reduced elements times `parts`
  int32_t phase = 0;         // the phase that writes its partials (space Tiles)
  int32_t parts = 1;         // values that the epilogue has combined into each reduced one (parts of a split)
  bool of_nothing = false;   // its results are the identity, whatever was fed to it (runtime/empty.hpp)
};

// An epilogue: either an emitted function or an interpreter with its context.
struct EpilogueCall {
  abi::EpilogueFunction function = nullptr;
  void (*interpret)(void* context, const abi::EpilogueArgs*, const abi::Tile*) = nullptr;  // used when function is null
  void* context = nullptr;
  const abi::Operand* operands = nullptr;
  const abi::ScalarValue* scalars = nullptr;
  std::span<const Phase> phases;
  std::span<const Reduction> reductions;
  // The number of operands where batch items may be taken for further rows (package::rows_fold), so that all of them
  // share one pass over B: done where their strides, those of A and a common B allow it. -1: they may not.
  int32_t folding_operands = -1;
  // Final values of the reductions go here where the pointer is not null (contiguous, as EpilogueArgs::results says),
  // otherwise into the workspace. Empty, or one pointer per reduction.
  std::span<void* const> results;
};

// The epilogue that only stores the accumulators, unchanged, into a tensor whose columns are contiguous: kernels write
// the result directly. No split.
struct StoreTile {
  void* data = nullptr;  // of the accumulator dtype
  int64_t batch_stride = 0, row_stride = 0;
};

// Bytes of 64-byte-aligned workspace for run() with pools of up to `threads` threads. Independent of pointers, but not
// of strides (they decide what must be packed) nor of whether packed_b is set.
size_t workspace_size(const CpuGemmConfig& config, const GemmProblem& problem, const EpilogueCall& epilogue,
                      int threads);
size_t workspace_size(const CpuGemmConfig& config, const GemmProblem& problem, int threads);  // with StoreTile

// Computes the problem. Allocates nothing; pool == nullptr: the calling thread alone. k == 0 makes zero accumulators;
// with an empty row or column space there are no tiles, and reductions get their identity.
void run(const CpuGemmConfig& config, const GemmProblem& problem, const EpilogueCall& epilogue, ThreadPool* pool,
         void* workspace);
void run(const CpuGemmConfig& config, const GemmProblem& problem, const StoreTile& store, ThreadPool* pool,
         void* workspace);

// --- packed weights ---
// Precedes every packed B. Plain data: a packed B can be written to a file and mapped back at a 64-byte boundary.
struct PackedHeader {
  uint64_t magic = 0;
  uint32_t version = 0;
  uint8_t product = 0;  // codetta::cpu::Product: how the bytes are laid out
  uint8_t dtype = 0;    // DType of the B that was packed
  uint8_t family = 0;   // CpuFamily of the configuration
  uint8_t isa = 0;      // CpuIsa of the configuration
  int32_t nr = 0;
  int32_t ways = 1;
  int64_t chunk = 0;
  int64_t batches = 1, k = 0, n = 0;
  uint64_t payload_bytes = 0;
  uint64_t digest = 0;  // XXH3-64 of the payload, seeded by that of this header with 0 here
  uint8_t reserved[56] = {};
  bool operator==(const PackedHeader&) const = default;
};
static_assert(sizeof(PackedHeader) == 128);

// Bytes of pack_b's output, header included; 0: this configuration reads B where it lies.
size_t packed_size(const CpuGemmConfig& config, const GemmProblem& problem);
// Packs problem.b (b_batch == 0: one matrix for all batch items) into `out`, 64-byte aligned.
void pack_b(const CpuGemmConfig& config, const GemmProblem& problem, ThreadPool* pool, void* out);
// Whether a packed B of `bytes` bytes is what run() needs for this configuration and problem; reads the header only.
bool packed_matches(const void* packed, size_t bytes, const CpuGemmConfig& config, const GemmProblem& problem);
// What a packed B that matches says of itself, but for its payload; all zeros where B is read in place.
PackedHeader packed_wanted(const CpuGemmConfig& config, const GemmProblem& problem);
// Whether the payload is what pack_b() wrote (reads all of it).
bool packed_intact(const void* packed, size_t bytes);

}  // namespace codetta::runtime::cpu

// SPDX-License-Identifier: Apache-2.0
// Running a phase over a tile: blocks of columns outside, rows inside, so that what varies by columns is computed once
// a block.
#include "runtime/cpu/tape.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "runtime/cpu/tape_program.hpp"
#include "types/dtype.hpp"

namespace codetta::runtime::cpu {

using package::Access;
using package::Axis;
using package::Inst;
using tape::Code;

struct Tape::State {
  explicit State(const package::EpilogueProgram& program) : code(program) {
    if (code.scratch_bytes > tape::stack_bytes) heap.resize(static_cast<size_t>(code.scratch_bytes) + 64);
  }
  tape::ProgramCode code;
  // Scratch of programs too large for the stack; tiles then take turns.
  std::mutex mutex;
  std::vector<std::byte> heap;
};

namespace {

namespace abi = codetta::cpu;

class TileRun {
 public:
  TileRun(const tape::ProgramCode& code, const abi::EpilogueArgs& args, const abi::Tile& tile, std::byte* scratch)
      : code_(code),
        phase_(code.phases[static_cast<size_t>(tile.phase)]),
        args_(args),
        tile_(tile),
        scratch_(scratch) {}

  void run() {
    for (const Code& code : phase_.tile) spread(code);
    for (const auto& store : phase_.tile_stores) {
      if (owns(store.operand)) put(store, 1);
    }
    for (c_ = 0; c_ < tile_.cols; c_ += code_.lanes) {
      n_ = std::min(code_.lanes, tile_.cols - c_);
      r_ = 0;
      for (const uint32_t operand : phase_.indexed) find_offsets(operand);
      for (const Code& code : phase_.columns) compute(code, n_);
      for (const auto& store : phase_.column_stores) {
        if (owns(store.operand)) put(store, n_);
      }
      for (r_ = 0; r_ < tile_.rows; ++r_) row();
    }
  }

 private:
  void row() {
    for (const Code& code : phase_.inner) {
      if (code.varies == tape::by_row)
        spread(code);
      else
        compute(code, n_);
    }
    if (c_ == 0) {
      for (const auto& store : phase_.row_stores) {
        if (owns(store.operand)) put(store, 1);
      }
    }
    for (const auto& store : phase_.full_stores) {
      if (owns(store.operand)) put(store, n_);
    }
    for (const auto& reduction : phase_.reductions) reduce(reduction);
  }

  template <class T>
  T* at(uint32_t offset) const {
    return reinterpret_cast<T*>(scratch_ + offset);
  }

  void spread(const Code& code) {
    compute(code, 1);
    tape::splat(scratch_ + code.at, types::byte_size(code.type), code_.lanes);
  }

  void compute(const Code& code, int64_t lanes) {
    std::byte* const out = scratch_ + code.at;
    switch (code.kind) {
      case Inst::Kind::Op: {
        if (code.kernel != nullptr) {
          const std::byte* const in[4] = {scratch_ + code.in[0], scratch_ + code.in[1], scratch_ + code.in[2],
                                          scratch_ + code.in[3]};
          code.kernel(out, in, lanes);
        } else if (code.via == code.type) {
          tape::convert_cast(scratch_ + code.in[0], code.from, out, code.type, lanes);
        } else {
          tape::convert_cast(scratch_ + code.in[0], code.from, scratch_ + code_.raw, code.via, lanes);
          tape::convert_cast(scratch_ + code_.raw, code.via, out, code.type, lanes);
        }
        break;
      }
      case Inst::Kind::Accumulator: {
        const int64_t first =
            r_ * tile_.acc_ld + c_ * tile_.acc_col_stride + static_cast<int64_t>(code.index) * tile_.acc_part_stride;
        tape::gather(out, static_cast<const std::byte*>(tile_.acc) + first * code_.accumulator_size,
                     code_.accumulator_size, tile_.acc_col_stride, nullptr, lanes);
        break;
      }
      case Inst::Kind::Load:
        load(code, lanes);
        break;
      case Inst::Kind::Scalar:
        scalar(code);
        break;
      case Inst::Kind::Literal:
        std::memcpy(out, &code.bits, static_cast<size_t>(types::byte_size(code.type)));
        break;
      case Inst::Kind::Result:
        result(code, lanes);
        break;
      case Inst::Kind::Extent:
        *at<int64_t>(code.at) = code.index == 0   ? args_.batches
                                : code.index == 1 ? args_.rows
                                : code.index == 2 ? args_.cols
                                                  : args_.scalars[code.index - 3].i;  // the tape counts arguments, too
        break;
      case Inst::Kind::RowIndex:
        *at<int64_t>(code.at) = tile_.row + r_;
        break;
      case Inst::Kind::ColIndex:
        for (int64_t i = 0; i < lanes; ++i) at<int64_t>(code.at)[i] = tile_.col + c_ + i;
        break;
      case Inst::Kind::BatchIndex:
        *at<int64_t>(code.at) = tile_.batch;
        break;
      case Inst::Kind::LoadAt:
        load_at(code, lanes);
        break;
    }
  }

  void scalar(const Code& code) const {
    const abi::ScalarValue& value = args_.scalars[code.index];
    std::byte* const out = scratch_ + code.at;
    if (code.type == DType::f32) {
      std::memcpy(out, &value.f, sizeof value.f);
    } else if (code.type == DType::f64) {
      std::memcpy(out, &value.d, sizeof value.d);
    } else if (code.type == DType::boolean) {
      *at<uint8_t>(code.at) = value.u != 0 ? 1 : 0;
    } else {
      std::memcpy(out, &value.u, static_cast<size_t>(types::byte_size(code.type)));  // little-endian: the low bytes
    }
  }

  void result(const Code& code, int64_t lanes) const {
    const int64_t size = code_.result_size[code.index];
    int64_t first = 0;
    if (code_.result_axis[code.index] == package::ReduceAxis::Row) first = tile_.batch * args_.rows + tile_.row + r_;
    if (code_.result_axis[code.index] == package::ReduceAxis::Column) first = tile_.batch * args_.cols + tile_.col + c_;
    if (code_.result_axis[code.index] == package::ReduceAxis::Item) first = tile_.batch;
    const auto* values = static_cast<const std::byte*>(args_.results[code.index]);
    std::memcpy(scratch_ + code.at, values + first * size, static_cast<size_t>(lanes * size));
  }

  // ---- operands ----
  static int64_t index_of(const package::IndexTerm& term, int64_t coordinate) {
    const int64_t quotient = term.div == 1 ? coordinate : coordinate / term.div;
    return term.mod == 0 ? quotient : quotient % term.mod;
  }

  void find_offsets(uint32_t operand) const {
    const tape::OperandCode& code = code_.operands[operand];
    int64_t* offsets = at<int64_t>(code.offsets);
    std::fill_n(offsets, n_, int64_t{0});
    for (size_t t = 0; t < code.terms.size(); ++t) {
      const package::IndexTerm& term = code.terms[t];
      if (term.axis != Axis::Col) continue;
      const int64_t stride = args_.operands[operand].stride[t];
      for (int64_t i = 0; i < n_; ++i) offsets[i] += stride * index_of(term, tile_.col + c_ + i);
    }
  }

  // The element that lane 0 stands for (Indexed: without its column offset).
  std::byte* element(uint32_t operand) const {
    const tape::OperandCode& code = code_.operands[operand];
    const abi::Operand& o = args_.operands[operand];
    int64_t offset = 0;
    if (code.access != Access::Indexed) {
      offset = tile_.batch * o.stride[0] + (tile_.row + r_) * o.stride[1] + (tile_.col + c_) * o.stride[2];
    } else {
      for (size_t t = 0; t < code.terms.size(); ++t) {
        const package::IndexTerm& term = code.terms[t];
        if (term.axis == Axis::Batch) offset += o.stride[t] * index_of(term, tile_.batch);
        if (term.axis == Axis::Row) offset += o.stride[t] * index_of(term, tile_.row + r_);
      }
    }
    return static_cast<std::byte*>(o.data) + offset * code.size;
  }
  const int64_t* offsets(const tape::OperandCode& code) const {
    return code.offsets == tape::nowhere ? nullptr : at<int64_t>(code.offsets);
  }

  void load(const Code& inst, int64_t lanes) const {
    const tape::OperandCode& code = code_.operands[inst.index];
    const bool raw = code.dtype != inst.type || inst.type == DType::boolean;
    std::byte* const out = scratch_ + inst.at;
    std::byte* const to = raw ? scratch_ + code_.raw : out;
    tape::gather(to, element(inst.index), code.size, args_.operands[inst.index].stride[2], offsets(code), lanes);
    if (raw) tape::convert_cast(to, code.dtype, out, inst.type, lanes);
  }

  void load_at(const Code& inst, int64_t lanes) const {
    const tape::OperandCode& code = code_.operands[inst.index];
    int64_t* const sums = at<int64_t>(code_.sums);
    const int64_t* const columns = offsets(code);
    for (int64_t i = 0; i < lanes; ++i) sums[i] = columns != nullptr ? columns[i] : 0;
    for (uint8_t j = 0; j < inst.arity; ++j) {
      const int64_t* const slot = args_.operands[inst.index].stride + code.terms.size() + 2 * static_cast<size_t>(j);
      for (int64_t i = 0; i < lanes; ++i)
        sums[i] += std::max<int64_t>(std::min(at<int64_t>(inst.in[j])[i], slot[1] - 1), 0) * slot[0];
    }
    const bool raw = code.dtype != inst.type || inst.type == DType::boolean;
    std::byte* const out = scratch_ + inst.at;
    std::byte* const to = raw ? scratch_ + code_.raw : out;
    tape::gather(to, element(inst.index), code.size, 0, sums, lanes);
    if (raw) tape::convert_cast(to, code.dtype, out, inst.type, lanes);
  }

  // Whether this tile writes a store whose operand has fewer coordinates than the root space (Store in
  // epilogue_program.hpp).
  bool owns(uint32_t operand) const {
    const tape::OperandCode& code = code_.operands[operand];
    if (code.varies == tape::by_both) return true;
    if ((code.varies & tape::by_row) == 0 && (tile_.tile_row != 0 || r_ != 0)) return false;
    if ((code.varies & tape::by_column) == 0 && (tile_.tile_col != 0 || c_ != 0)) return false;
    return tile_.batch == 0 || varies_by_batch(operand);
  }
  bool varies_by_batch(uint32_t operand) const {
    const tape::OperandCode& code = code_.operands[operand];
    if (code.access != Access::Indexed) return args_.operands[operand].stride[0] != 0;
    for (size_t t = 0; t < code.terms.size(); ++t) {
      if (code.terms[t].axis == Axis::Batch && args_.operands[operand].stride[t] != 0) return true;
    }
    return false;
  }

  void put(const tape::StoreCode& store, int64_t lanes) const {
    const tape::OperandCode& code = code_.operands[store.operand];
    if (!code.has_column_terms) lanes = 1;
    const std::byte* from = scratch_ + store.at;
    if (code.dtype != store.from) {
      tape::convert_store(from, store.from, scratch_ + code_.raw, code.dtype, lanes, scratch_ + code_.rounded);
      from = scratch_ + code_.raw;
    }
    tape::scatter(from, element(store.operand), code.size, args_.operands[store.operand].stride[2], offsets(code),
                  lanes);
  }

  void reduce(const tape::ReduceCode& code) const {
    int64_t index = 0;
    bool first = false;
    switch (code.axis) {
      case package::ReduceAxis::Row:
        index = (tile_.batch * args_.tile_cols + tile_.tile_col) * args_.rows + tile_.row + r_;
        first = c_ == 0;
        break;
      case package::ReduceAxis::Column:
        index = (tile_.batch * args_.tile_rows + tile_.tile_row) * args_.cols + tile_.col + c_;
        first = r_ == 0;
        break;
      case package::ReduceAxis::Item:
      case package::ReduceAxis::All:
        index = (tile_.batch * args_.tile_rows + tile_.tile_row) * args_.tile_cols + tile_.tile_col;
        first = c_ == 0 && r_ == 0;
        break;
    }
    code.fold(static_cast<std::byte*>(args_.partials[code.reduction]) + index * code.bytes, scratch_ + code.at, n_,
              first);
  }

  const tape::ProgramCode& code_;
  const tape::PhaseCode& phase_;
  const abi::EpilogueArgs& args_;
  const abi::Tile& tile_;
  std::byte* const scratch_;
  int64_t r_ = 0, c_ = 0, n_ = 1;
};

}  // namespace

Tape::Tape(const package::EpilogueProgram& program) : state_(std::make_unique<State>(program)) {}
Tape::~Tape() = default;

void Tape::run_tile(void* tape, const abi::EpilogueArgs* args, const abi::Tile* tile) {
  State& state = *static_cast<Tape*>(tape)->state_;
  if (state.code.scratch_bytes <= tape::stack_bytes) {
    alignas(64) std::byte scratch[tape::stack_bytes];
    TileRun(state.code, *args, *tile, scratch).run();
  } else {
    const std::lock_guard lock(state.mutex);
    auto* base = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(state.heap.data()) + 63) & ~uintptr_t{63});
    TileRun(state.code, *args, *tile, base).run();
  }
}

}  // namespace codetta::runtime::cpu

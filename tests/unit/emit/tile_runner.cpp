// SPDX-License-Identifier: Apache-2.0
#include "tile_runner.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <map>

#include "emit/nests.hpp"
#include "scalar_ops.hpp"

namespace codetta::emit {

using package::Access;
using package::Axis;
using package::Inst;
using package::ReduceAxis;
using package::ReduceKind;
using types::Scalar;

namespace {

constexpr std::byte poison{0xa5};

template <class T>
void put(std::vector<std::byte>& bytes, int64_t at, T value) {
  std::memcpy(bytes.data() + static_cast<size_t>(at) * sizeof(T), &value, sizeof value);
}

Scalar random_scalar(std::mt19937_64& random, DType dtype) {
  if (types::is_bool(dtype)) return Scalar::from_bool((random() & 1) != 0);
  if (types::is_float(dtype)) return Scalar::from_f64(std::uniform_real_distribution<double>(-2, 2)(random), dtype);
  return Scalar::from_i64(static_cast<int64_t>(random() % 15) - (types::is_unsigned(dtype) ? 0 : 7), dtype);
}

}  // namespace

GuardedBytes::GuardedBytes(size_t bytes) : size_(bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  mapped_ = (bytes + page - 1) / page * page + page;
  map_ = static_cast<std::byte*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(map_ + mapped_ - page, page, PROT_NONE);
  data_ = map_ + (mapped_ - page - bytes);
}

GuardedBytes::~GuardedBytes() { munmap(map_, mapped_); }

Problem::Problem(const package::EpilogueProgram& program, const ProblemSize& size, uint64_t seed,
                 std::vector<std::vector<int64_t>> indexed_strides)
    : program_(program), size_(size), random_(seed) {
  indexed_strides.resize(program.operands.size());
  for (uint32_t k = 0; k < program.operands.size(); ++k) {
    const package::Operand& o = program.operands[k];
    Bound bound;
    const Variation v = variation_of(o);
    if (o.access == Access::Indexed) {
      for (size_t t = 0; t < o.terms.size(); ++t) bound.operand.stride[t] = indexed_strides[k][t];
    } else {
      const int64_t step = o.unit_stride ? 1 : 3;
      const int64_t gap = size.past_caches ? (size.cols * step + 63) / 64 * 64 : size.cols * step + 5;
      const int64_t row = (v & by_column) != 0 ? gap : 2;
      bound.operand.stride[0] = (v & by_row) != 0 ? size.rows * row : (v & by_column) != 0 ? size.cols * step : 1;
      bound.operand.stride[1] = (v & by_row) != 0 ? row : 0;
      bound.operand.stride[2] = (v & by_column) != 0 ? step : 0;
    }
    bound_.push_back(std::move(bound));
    int64_t last = 0;
    for (int64_t b = 0; b < size.batches; ++b) {
      for (int64_t r = 0; r < size.rows; ++r) {
        for (int64_t c = 0; c < size.cols; ++c) last = std::max(last, address(k, b, r, c));
      }
    }
    Bound& now = bound_.back();
    now.elements = size.past_caches ? last / 64 * 64 + 64 : last + 1;
    const auto element = static_cast<size_t>(types::byte_size(o.dtype));
    now.memory = std::make_unique<GuardedBytes>(static_cast<size_t>(now.elements) * element);
    now.operand.data = now.memory->data();
    std::memset(now.memory->data(), static_cast<int>(poison), now.memory->size());
    if (!o.is_store) {
      for (int64_t i = 0; i < now.elements; ++i)
        random_scalar(random_, o.dtype).store(now.memory->data() + static_cast<size_t>(i) * element);
    }
    operands_.push_back(now.operand);
  }
  for (const package::Argument& argument : program.arguments) {
    const Scalar s = convert(random_scalar(random_, argument.dtype), types::compute_dtype(argument.dtype));
    scalar_values_.push_back(s);
    cpu::ScalarValue value{};
    if (s.dtype() == DType::f32)
      value.f = static_cast<float>(s.as_f64());
    else if (s.dtype() == DType::f64)
      value.d = s.as_f64();
    else
      value.u = s.as_u64();
    scalars_.push_back(value);
  }
  const int64_t count = program.split.ways * size.batches * size.rows * size.cols;
  for (int64_t i = 0; i < count; ++i) acc_.push_back(random_scalar(random_, program.accumulator));
  const int64_t tile_rows = (size.rows + size.tile_rows - 1) / size.tile_rows,
                tile_cols = (size.cols + size.tile_cols - 1) / size.tile_cols;
  for (const package::Reduction& r : program.reductions) {
    const int64_t finals = r.axis == ReduceAxis::Row      ? size.batches * size.rows
                           : r.axis == ReduceAxis::Column ? size.batches * size.cols
                           : r.axis == ReduceAxis::Item   ? size.batches
                                                          : 1;
    const int64_t parts = r.axis == ReduceAxis::Row      ? finals * tile_cols
                          : r.axis == ReduceAxis::Column ? finals * tile_rows
                                                         : size.batches * tile_rows * tile_cols;
    const int64_t width = package::values_of(r.kind);
    partials_.emplace_back(static_cast<size_t>(parts * width * types::byte_size(r.type)), poison);
    results_.emplace_back(static_cast<size_t>(finals * types::byte_size(r.type)), poison);
  }
  for (auto& bytes : partials_) partial_pointers_.push_back(bytes.data());
  for (auto& bytes : results_) result_pointers_.push_back(bytes.data());
  expected_results_.resize(program.reductions.size());
}

int64_t Problem::address(uint32_t operand, int64_t b, int64_t r, int64_t c) const {
  const package::Operand& o = program_.operands[operand];
  const int64_t* stride = bound_[operand].operand.stride;
  if (o.access != Access::Indexed) return b * stride[0] + r * stride[1] + c * stride[2];
  int64_t at = 0;
  for (size_t t = 0; t < o.terms.size(); ++t) {
    const int64_t axis = o.terms[t].axis == Axis::Batch ? b : o.terms[t].axis == Axis::Row ? r : c;
    const int64_t index = axis / o.terms[t].div;
    at += stride[t] * (o.terms[t].mod == 0 ? index : index % o.terms[t].mod);
  }
  return at;
}

Scalar Problem::accumulator(uint32_t part, int64_t b, int64_t r, int64_t c) const {
  return acc_[static_cast<size_t>(((part * size_.batches + b) * size_.rows + r) * size_.cols + c)];
}

void Problem::run(cpu::EpilogueFunction function) {
  const int64_t tile_rows = (size_.rows + size_.tile_rows - 1) / size_.tile_rows;
  const int64_t tile_cols = (size_.cols + size_.tile_cols - 1) / size_.tile_cols;
  const cpu::EpilogueArgs args{operands_.data(),
                               scalars_.data(),
                               partial_pointers_.data(),
                               result_pointers_.data(),
                               size_.past_caches ? int64_t{1} << 40 : size_.batches,
                               size_.rows,
                               size_.cols,
                               tile_rows,
                               tile_cols};
  const int64_t ways = program_.split.ways;
  const bool interleaved = program_.split.interleaved();
  const int64_t element = types::byte_size(program_.accumulator), line = 64 / element;
  const int64_t part_stride = interleaved ? 1 : (size_.tile_cols + line - 1) / line * line;
  const int64_t ld = interleaved ? (size_.tile_cols * ways + line - 1) / line * line : part_stride * ways;
  std::vector<std::byte> storage(static_cast<size_t>((ld * size_.tile_rows + line) * element + 64), std::byte{0xff});
  auto* const acc = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(storage.data()) + 63) / 64 * 64);
  for (uint32_t p = 0; p < program_.phases.size(); ++p) {
    for (int64_t t = 0; t < size_.batches * tile_rows * tile_cols; ++t) {
      cpu::Tile tile{};
      tile.tile_col = t % tile_cols;
      tile.tile_row = t / tile_cols % tile_rows;
      tile.batch = t / tile_cols / tile_rows;
      tile.row = tile.tile_row * size_.tile_rows;
      tile.col = tile.tile_col * size_.tile_cols;
      tile.rows = std::min(size_.tile_rows, size_.rows - tile.row);
      tile.cols = std::min(size_.tile_cols, size_.cols - tile.col);
      tile.acc = acc;
      tile.acc_ld = ld;
      tile.acc_col_stride = interleaved ? ways : 1;
      tile.acc_part_stride = part_stride;
      tile.phase = p;
      for (int64_t r = 0; r < tile.rows; ++r) {
        for (int64_t c = 0; c < tile.cols; ++c) {
          for (int64_t j = 0; j < ways; ++j) {
            accumulator(static_cast<uint32_t>(j), tile.batch, tile.row + r, tile.col + c)
                .store(acc + (r * ld + c * tile.acc_col_stride + j * part_stride) * element);
          }
        }
      }
      function(&args, &tile);
    }
    finish_reductions(p);
  }
}

void Problem::finish_reductions(uint32_t phase) {
  const int64_t tile_rows = (size_.rows + size_.tile_rows - 1) / size_.tile_rows;
  const int64_t tile_cols = (size_.cols + size_.tile_cols - 1) / size_.tile_cols;
  for (uint32_t k = 0; k < program_.reductions.size(); ++k) {
    const package::Reduction& r = program_.reductions[k];
    if (r.phase != phase) continue;
    std::map<int64_t, ScalarReducer> totals;
    const int64_t width = package::values_of(r.kind);
    const auto fold = [&](int64_t slot, int64_t partial) {
      const std::byte* p = partials_[k].data() + partial * width * types::byte_size(r.type);
      totals.try_emplace(slot, r.kind, r.type)
          .first->second.add_partial(Scalar::load(p, r.type),
                                     width == 2 ? Scalar::load(p + types::byte_size(r.type), r.type) : Scalar());
    };
    for (int64_t b = 0; b < size_.batches; ++b) {
      if (r.axis == ReduceAxis::Row) {
        for (int64_t tc = 0; tc < tile_cols; ++tc) {
          for (int64_t row = 0; row < size_.rows; ++row)
            fold(b * size_.rows + row, (b * tile_cols + tc) * size_.rows + row);
        }
      } else if (r.axis == ReduceAxis::Column) {
        for (int64_t tr = 0; tr < tile_rows; ++tr) {
          for (int64_t col = 0; col < size_.cols; ++col)
            fold(b * size_.cols + col, (b * tile_rows + tr) * size_.cols + col);
        }
      } else {
        const int64_t slot = r.axis == ReduceAxis::Item ? b : 0;
        for (int64_t t = 0; t < tile_rows * tile_cols; ++t) fold(slot, b * tile_rows * tile_cols + t);
      }
    }
    for (const auto& [slot, total] : totals) total.value().store(results_[k].data() + slot * types::byte_size(r.type));
  }
}

Scalar Problem::evaluate_op(const Inst& inst, const std::vector<Scalar>& values) const {
  std::vector<Scalar> in;
  for (int i = 0; i < inst.arity; ++i) in.push_back(values[inst.in[i]]);
  if (inst.op == types::Op::cast) return convert(convert(in[0], inst.aux), inst.type);
  return scalar_op(inst.op, types::op_info(inst.op).rule == types::OpRule::compare ? inst.aux : inst.type, in);
}

void Problem::evaluate(uint32_t phase, int64_t b, int64_t r, int64_t c, std::vector<Scalar>& values) const {
  values.clear();
  for (const Inst& inst : program_.phases[phase].insts) {
    switch (inst.kind) {
      case Inst::Kind::Op:
        values.push_back(evaluate_op(inst, values));
        break;
      case Inst::Kind::Accumulator:
        values.push_back(accumulator(inst.index, b, r, c));
        break;
      case Inst::Kind::Load: {
        const DType dtype = program_.operands[inst.index].dtype;
        const std::byte* p = bound_[inst.index].memory->data() + address(inst.index, b, r, c) * types::byte_size(dtype);
        values.push_back(convert(Scalar::load(p, dtype), inst.type));
        break;
      }
      case Inst::Kind::Scalar:
        values.push_back(scalar_values_[inst.index]);
        break;
      case Inst::Kind::Literal: {
        std::byte bytes[8];
        std::memcpy(bytes, &inst.bits, 8);
        values.push_back(Scalar::load(bytes, inst.type));
        break;
      }
      case Inst::Kind::Result: {
        const ReduceAxis axis = program_.reductions[inst.index].axis;
        const int64_t slot = axis == ReduceAxis::Row      ? b * size_.rows + r
                             : axis == ReduceAxis::Column ? b * size_.cols + c
                             : axis == ReduceAxis::Item   ? b
                                                          : 0;
        values.push_back(expected_results_[inst.index][static_cast<size_t>(slot)]);
        break;
      }
      case Inst::Kind::Extent:
        values.push_back(Scalar::from_i64(inst.index == 0 ? size_.batches : inst.index == 1 ? size_.rows : size_.cols));
        break;
      case Inst::Kind::RowIndex:
        values.push_back(Scalar::from_i64(r));
        break;
      case Inst::Kind::ColIndex:
        values.push_back(Scalar::from_i64(c));
        break;
      case Inst::Kind::BatchIndex:
        values.push_back(Scalar::from_i64(b));
        break;
      case Inst::Kind::LoadAt:  // random programs have none
        values.push_back(Scalar::from_i64(0));
        break;
    }
  }
}

void Problem::reference_reductions(uint32_t phase) {
  for (uint32_t k = 0; k < program_.reductions.size(); ++k) {
    const package::Reduction& r = program_.reductions[k];
    if (r.phase != phase) continue;
    const int64_t finals = r.axis == ReduceAxis::Row      ? size_.batches * size_.rows
                           : r.axis == ReduceAxis::Column ? size_.batches * size_.cols
                           : r.axis == ReduceAxis::Item   ? size_.batches
                                                          : 1;
    std::vector<ScalarReducer> totals(static_cast<size_t>(finals), ScalarReducer(r.kind, r.type));
    std::vector<Scalar> values;
    for (int64_t b = 0; b < size_.batches; ++b) {
      for (int64_t row = 0; row < size_.rows; ++row) {
        for (int64_t col = 0; col < size_.cols; ++col) {
          evaluate(phase, b, row, col, values);
          const int64_t slot = r.axis == ReduceAxis::Row      ? b * size_.rows + row
                               : r.axis == ReduceAxis::Column ? b * size_.cols + col
                               : r.axis == ReduceAxis::Item   ? b
                                                              : 0;
          totals[static_cast<size_t>(slot)].add(values[r.value]);
        }
      }
    }
    expected_results_[k].clear();
    for (const ScalarReducer& total : totals) expected_results_[k].push_back(total.value());
  }
}

std::string Problem::compare(double tolerance, bool discontinuous) {
  std::vector<std::map<int64_t, Scalar>> expected(program_.operands.size());
  std::vector<Scalar> values;
  for (uint32_t p = 0; p < program_.phases.size(); ++p) {
    for (int64_t b = 0; b < size_.batches; ++b) {
      for (int64_t r = 0; r < size_.rows; ++r) {
        for (int64_t c = 0; c < size_.cols; ++c) {
          evaluate(p, b, r, c, values);
          for (const package::Store& store : program_.phases[p].stores) {
            expected[store.operand][address(store.operand, b, r, c)] = values[store.value];
          }
        }
      }
    }
    reference_reductions(p);
  }
  std::string report;
  for (uint32_t k = 0; k < program_.operands.size(); ++k) {
    const package::Operand& o = program_.operands[k];
    if (!o.is_store) continue;
    const auto element = types::byte_size(o.dtype);
    int64_t wrong = 0, checked = 0;
    std::string examples;
    for (int64_t i = 0; i < bound_[k].elements; ++i) {
      const std::byte* p = bound_[k].memory->data() + i * element;
      const auto it = expected[k].find(i);
      if (it == expected[k].end()) {
        for (int64_t j = 0; j < element; ++j) {
          if (p[j] != poison) return fmt::format("operand {}: element {} was written, and should not be", k, i);
        }
        continue;
      }
      ++checked;
      const Scalar got = Scalar::load(p, o.dtype), want = store_as(it->second, o.dtype);
      if (close(got, it->second, want, tolerance)) continue;
      ++wrong;
      if (wrong < 4)
        examples += fmt::format("operand {} element {}: got {}, expected {} ({})\n", k, i, types::to_string(got),
                                types::to_string(want), types::to_string(it->second));
    }
    if (wrong > (discontinuous ? checked / 50 : 0))
      report += fmt::format("operand {}: {} of {} elements are wrong\n{}", k, wrong, checked, examples);
  }
  return report;
}

}  // namespace codetta::emit

// SPDX-License-Identifier: Apache-2.0
// Random EpiloguePrograms whose results are exact on small integers: every access class, splits, several phases and
// reductions.
#pragma once

#include "made_package.hpp"

namespace codetta::runtime::test {

class ProgramMaker {
 public:
  ProgramMaker(std::mt19937& gen, const Sizes& sizes) : gen_(gen), sizes_(sizes) {}

  EpilogueProgram run() {
    static constexpr DType accumulators[] = {DType::f32, DType::f32, DType::i32, DType::f64};
    program_.accumulator = accumulators[pick(4)];
    choose_split();
    const int inputs = pick(5);
    for (int i = 0; i < inputs; ++i) add_input(i);
    const int phases = 1 + pick(3);
    for (int p = 0; p < phases; ++p) add_phase(static_cast<uint32_t>(p));
    EXPECT_EQ(package::find_defect(program_).value_or(""), "") << program_.to_string();
    return std::move(program_);
  }

 private:
  int pick(int n) { return static_cast<int>(gen_() % static_cast<unsigned>(n)); }
  static types::Dim dim(int64_t v) { return types::Dim::constant(v); }

  void choose_split() {
    std::vector<int32_t> ways{1};
    for (int32_t w : {2, 3}) {
      if (sizes_.n % w == 0 && pick(2) == 0) ways.push_back(w);
    }
    program_.split.ways = ways[static_cast<size_t>(pick(static_cast<int>(ways.size())))];
    cols_ = sizes_.n / program_.split.ways;
    if (program_.split.ways == 1) return;
    std::vector<int64_t> chunks{1, cols_};
    for (int64_t c = 2; c < cols_; ++c) {
      if (cols_ % c == 0) chunks.push_back(c);
    }
    chunk_ = chunks[static_cast<size_t>(pick(static_cast<int>(chunks.size())))];
    program_.split.chunk = dim(chunk_);
  }

  DType any_dtype() {
    static constexpr DType types[] = {DType::f32, DType::bf16, DType::f16, DType::f8e4m3, DType::f8e5m2,
                                      DType::f64, DType::i8,   DType::i16, DType::i32,    DType::i64,
                                      DType::u8,  DType::u16,  DType::u32, DType::boolean};
    return types[pick(14)];
  }

  void add_input(int i) {
    package::Argument argument;
    argument.name = "in" + std::to_string(i);
    argument.dtype = any_dtype();
    if (pick(5) == 0) {
      argument.dtype = types::compute_dtype(argument.dtype);
      argument.is_scalar = true;
      program_.arguments.push_back(argument);
      return;
    }
    const bool batch = pick(2) == 0, row = pick(3) != 0, col = pick(3) != 0;
    argument.shape = {dim(batch ? sizes_.batch : 1), dim(row ? sizes_.m : 1), dim(col ? cols_ : 1)};
    program_.arguments.push_back(argument);
    package::Operand operand =
        affine(static_cast<uint32_t>(program_.arguments.size() - 1), argument.dtype, batch, row, col, false);
    if (col && pick(2) == 0) operand.unit_stride = false;
    if (col && cols_ % 2 == 0 && pick(4) == 0) {  // columns in another order: (c % 2) * (cols / 2) + c / 2
      operand.terms.pop_back();
      operand.terms.push_back({package::Axis::Col, 1, 2, 0, dim(cols_ / 2)});
      operand.terms.push_back({package::Axis::Col, 2, 0, 0, dim(1)});
      operand.access = package::Access::Indexed;
      operand.unit_stride = false;
    }
    program_.operands.push_back(operand);
  }

  uint32_t add_output(DType dtype, std::vector<types::Dim> shape) {
    package::Argument argument;
    argument.name = "out" + std::to_string(program_.arguments.size());
    argument.dtype = dtype;
    argument.is_output = true;
    argument.shape = std::move(shape);
    program_.arguments.push_back(argument);
    return static_cast<uint32_t>(program_.arguments.size() - 1);
  }
  uint32_t add_operand(package::Operand operand) {
    program_.operands.push_back(std::move(operand));
    return static_cast<uint32_t>(program_.operands.size() - 1);
  }

  // Values stay between -8 and 8 (or 0 and 8), so that everything is exact.
  uint32_t bounded(PhaseMaker& maker, uint32_t value) {
    const DType type = maker.type(value);
    if (types::is_bool(type)) return value;
    return maker.op(Op::clamp, type,
                    {value, maker.literal(type, types::is_signed(type) ? -8 : 0), maker.literal(type, 8)});
  }

  uint32_t random_op(PhaseMaker& maker, std::vector<uint32_t>& pool) {
    const auto any = [&] { return pool[static_cast<size_t>(pick(static_cast<int>(pool.size())))]; };
    const uint32_t x = any(), y = any();
    static constexpr DType numbers[] = {DType::f32, DType::f64, DType::i32, DType::i8,
                                        DType::u8,  DType::i64, DType::u32, DType::i16};
    const DType type = numbers[pick(8)];
    const uint32_t a = maker.as(x, type), b = maker.as(y, type);
    switch (pick(9)) {
      case 0:
        return bounded(maker, maker.op(Op::add, type, {a, b}));
      case 1:
        return bounded(maker, maker.op(Op::sub, type, {a, b}));
      case 2:
        return bounded(maker, maker.op(Op::mul, type, {a, b}));
      case 3: {
        static constexpr Op unary[] = {Op::relu, Op::abs, Op::neg, Op::sign, Op::floor, Op::drelu};
        return bounded(maker, maker.op(unary[pick(6)], type, {a}));
      }
      case 4:
        return maker.op(pick(2) == 0 ? Op::maximum : Op::minimum, type, {a, b});
      case 5: {
        static constexpr Op tests[] = {Op::lt, Op::le, Op::eq, Op::ne, Op::gt, Op::ge};
        return maker.op(Op::where, type, {maker.op(tests[pick(6)], DType::boolean, {a, b}, type), b, a});
      }
      case 6: {
        const DType narrow = any_dtype();
        return bounded(maker, maker.op(Op::cast, types::compute_dtype(narrow), {a}, narrow));
      }
      case 7:
        return bounded(maker, maker.op(Op::multiply_add, type, {a, b, a}));
      default:
        return maker.op(Op::logical_xor, DType::boolean, {maker.as(x, DType::boolean), maker.as(y, DType::boolean)});
    }
  }

  void add_phase(uint32_t p) {
    std::vector<uint32_t> usable;  // reductions that a phase of this scope may read
    program_.phases.emplace_back();
    package::Phase& phase = program_.phases.back();
    phase.reads_accumulator = false;
    if (p > 0) {
      phase.scope = pick(2) == 0 || program_.phases[p - 1].scope == package::Scope::Whole ? package::Scope::Whole
                                                                                          : package::Scope::RowPanel;
      for (uint32_t i = 0; i < program_.reductions.size(); ++i) {
        if (program_.reductions[i].axis == package::ReduceAxis::Row || phase.scope == package::Scope::Whole)
          usable.push_back(i);
      }
    }
    PhaseMaker maker(phase);
    std::vector<uint32_t> pool, parts;
    if (p == 0 || pick(3) != 0) {
      for (int32_t part = 0; part < program_.split.ways; ++part) {
        parts.push_back(
            bounded(maker, maker.leaf(Inst::Kind::Accumulator, program_.accumulator, static_cast<uint32_t>(part))));
        pool.push_back(parts.back());
      }
    }
    for (uint32_t i = 0; i < program_.operands.size(); ++i) {
      const package::Operand& operand = program_.operands[i];
      if (!operand.is_store && pick(4) != 0)
        pool.push_back(maker.leaf(Inst::Kind::Load, types::compute_dtype(operand.dtype), i));
    }
    for (uint32_t i = 0; i < program_.arguments.size(); ++i) {
      if (program_.arguments[i].is_scalar)
        pool.push_back(maker.leaf(Inst::Kind::Scalar, program_.arguments[i].dtype, i));
    }
    for (uint32_t i : usable) {
      const uint32_t value = maker.leaf(Inst::Kind::Result, program_.reductions[i].type, i);
      store_result(maker, i, value);
      pool.push_back(bounded(maker, value));
    }
    static constexpr Inst::Kind indices[] = {Inst::Kind::RowIndex, Inst::Kind::ColIndex, Inst::Kind::BatchIndex};
    pool.push_back(bounded(maker, maker.leaf(indices[pick(3)], DType::i64)));
    pool.push_back(bounded(maker, maker.leaf(Inst::Kind::Extent, DType::i64, static_cast<uint32_t>(pick(3)))));
    for (int i = pick(12); i >= 0; --i) pool.push_back(random_op(maker, pool));
    add_full_store(maker, pool);
    for (int i = pick(3); i > 0; --i) add_reduction(maker, pool, p);
  }

  void store_result(PhaseMaker& maker, uint32_t reduction, uint32_t value) {
    const package::ReduceAxis axis = program_.reductions[reduction].axis;
    const bool row = axis == package::ReduceAxis::Row, col = axis == package::ReduceAxis::Column,
               all = axis == package::ReduceAxis::All;  // an item's result varies by the batch alone
    const DType dtype = maker.type(value);
    const uint32_t out =
        add_output(dtype, {dim(all ? 1 : sizes_.batch), dim(row ? sizes_.m : 1), dim(col ? cols_ : 1)});
    maker.store(add_operand(affine(out, dtype, !all, row, col, true)), value);
  }

  void add_full_store(PhaseMaker& maker, const std::vector<uint32_t>& pool) {
    const uint32_t value = pool.back();
    if (program_.split.ways > 1 && pick(2) == 0) {  // every part into the product's own space
      const DType dtype = any_dtype();
      const uint32_t out = add_output(dtype, {dim(sizes_.batch), dim(sizes_.m), dim(sizes_.n)});
      for (int32_t part = 0; part < program_.split.ways; ++part) {
        package::Operand operand = affine(out, dtype, true, true, false, true);
        if (chunk_ == 1 || chunk_ == cols_) {
          operand.access = package::Access::Full;
          operand.terms.push_back({package::Axis::Col, 1, 0, 0, dim(chunk_ == 1 ? program_.split.ways : 1)});
        } else {
          operand.access = package::Access::Indexed;
          operand.terms.push_back({package::Axis::Col, chunk_, 0, 0, dim(chunk_ * program_.split.ways)});
          operand.terms.push_back({package::Axis::Col, 1, chunk_, 0, dim(1)});
        }
        if (part > 0) operand.offsets.emplace_back(0, dim(part * (cols_ == chunk_ ? cols_ : chunk_)));
        maker.store(add_operand(std::move(operand)),
                    pool[static_cast<size_t>((part + pick(2)) % static_cast<int>(pool.size()))]);
      }
      return;
    }
    const DType dtype = any_dtype();
    const uint32_t out = add_output(dtype, {dim(sizes_.batch), dim(sizes_.m), dim(cols_)});
    package::Operand operand = affine(out, dtype, true, true, true, true);
    operand.unit_stride = pick(2) == 0;
    maker.store(add_operand(std::move(operand)), value);
  }

  void add_reduction(PhaseMaker& maker, const std::vector<uint32_t>& pool, uint32_t p) {
    package::Reduction reduction;
    uint32_t value = pool[static_cast<size_t>(pick(static_cast<int>(pool.size())))];
    if (types::is_bool(maker.type(value))) value = maker.as(value, DType::i32);
    reduction.axis = static_cast<package::ReduceAxis>(pick(4));
    reduction.kind = static_cast<package::ReduceKind>(pick(3));
    reduction.type = maker.type(value);
    reduction.phase = p;
    reduction.value = value;
    program_.reductions.push_back(reduction);
  }

  std::mt19937& gen_;
  Sizes sizes_;
  EpilogueProgram program_;
  int64_t cols_ = 0, chunk_ = 0;
};

}  // namespace codetta::runtime::test

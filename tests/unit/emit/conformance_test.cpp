// SPDX-License-Identifier: Apache-2.0
// Every Fragment against the scalar reference: all access classes, dtypes, reductions and ops, at sizes with tails.
#include <gtest/gtest.h>

#include <optional>

#include "emit/emit.hpp"
#include "loaded_source.hpp"
#include "program_maker.hpp"
#include "support/slice.hpp"
#include "tile_runner.hpp"
#include "types/op.hpp"

namespace codetta::emit {
namespace {

using package::Access;
using package::Axis;
using package::ReduceAxis;
using package::ReduceKind;
using package::Scope;
using types::Op;
using Kind = package::Inst::Kind;

const std::vector<ProblemSize>& sizes() {
  static const std::vector<ProblemSize> all{
      {1, 1, 1, 4, 16}, {2, 5, 37, 3, 16}, {1, 7, 64, 4, 64}, {3, 4, 17, 8, 32}, {1, 3, 130, 2, 64}};
  return all;
}

struct Case {
  std::string name;
  package::EpilogueProgram program;
  double tolerance = 2e-6;
  bool discontinuous = false;
  std::vector<std::vector<int64_t>> indexed_strides = {};
  bool strict = false;
  // Of a list of cases each level has every second one, as the commit picks.
  std::optional<uint64_t> of_list = {};
};

void check(const Case& c, const std::vector<ProblemSize>& problem_sizes = sizes()) {
  SCOPED_TRACE(c.name);
  ASSERT_EQ(package::find_defect(c.program).value_or(""), "");
  uint64_t level = 0;
  for (const CpuIsa isa : runnable_isas()) {
    if (c.of_list && !test::commit_takes(*c.of_list + level++, 2)) continue;
    for (const TestCompiler& compiler : test_compilers(isa)) {
      SCOPED_TRACE(std::string(isa_name(isa)) + " " + compiler.path);
      const auto source = emit_cpu_epilogue(c.program, {isa, c.strict, true});
      ASSERT_TRUE(source.has_value()) << source.error().render();
      if (!emits_of_its_own(isa, *source)) continue;
      const LoadedSource loaded(*source, compiler);
      const auto function = reinterpret_cast<cpu::EpilogueFunction>(loaded.symbol(source->entry));
      ASSERT_NE(function, nullptr) << loaded.log() << source->text.substr(source->text.rfind("#line"));
      EXPECT_EQ(loaded.log(), "");
      EXPECT_EQ(static_cast<const char*>(loaded.symbol(std::string(entry_digest_symbol))), entry_digest_placeholder);
      uint64_t seed = 1;
      for (const ProblemSize& size : problem_sizes) {
        Problem problem(c.program, size, ++seed, c.indexed_strides);
        problem.run(function);
        const std::string report = problem.compare(c.tolerance, c.discontinuous);
        EXPECT_EQ(report, "") << size.rows << " x " << size.cols << "\n"
                              << source->text.substr(source->text.rfind("#line"));
        if (!report.empty()) return;
      }
    }
  }
}

TEST(Conformance, BiasGeluWithAuxiliaryOutput) {
  ProgramMaker m;
  const uint32_t f = m.op(Op::add, f32, {m.op(Op::mul, f32, {m.accum(), m.scalar(f32)}), m.load(bf16, Access::Row)});
  m.store(m.op(Op::gelu_tanh, f32, {f}), bf16);
  m.store(f, f32);
  check({"bias_gelu", m.program});
}

// Aligned and not, with tails, vectors of all widths.
TEST(Conformance, StoresPastTheCaches) {
  ProgramMaker m;
  const uint32_t f = m.op(Op::add, f32, {m.op(Op::mul, f32, {m.accum(), m.scalar(f32)}), m.load(f32, Access::Full)});
  for (const DType out : {f32, bf16, f16, i8, u8, i32, f8e4m3}) m.store(f, out);
  m.store(m.op(Op::relu, f32, {f}), f32);
  std::vector<ProblemSize> all;
  for (ProblemSize size : sizes()) {
    size.past_caches = true;
    all.push_back(size);
  }
  check({"past_caches", m.program}, all);
  ProgramMaker wide(f64);
  wide.store(wide.accum(), f64);
  wide.store(wide.accum(), f32);
  check({"past_caches_f64", wide.program}, all);
}

TEST(Conformance, EveryAccessClassOfEveryDtype) {
  for (int d = 0; d < dtype_count; ++d) {
    const auto dtype = static_cast<DType>(d);
    ProgramMaker m;
    const DType type = types::compute_dtype(dtype);
    uint32_t sum = 0;
    bool first = true;
    for (const Access access : {Access::Full, Access::Row, Access::Column, Access::Scalar}) {
      for (const bool unit : {true, false}) {
        if (!unit && (access == Access::Column || access == Access::Scalar)) continue;
        const uint32_t v = m.load(dtype, access, unit);
        m.store(v, dtype, access, unit);
        const uint32_t i = types::is_bool(type) ? m.cast(v, i32) : v;
        sum = first ? i : m.op(Op::add, m.type_of(i), {sum, i});
        first = false;
      }
    }
    m.store(m.op(Op::add, f32, {m.accum(), m.cast(sum, f32)}), f32);
    check({.name = std::string(types::dtype_traits(dtype).name),
           .program = m.program,
           .tolerance = 1e-5,
           .of_list = static_cast<uint64_t>(d)},
          {{2, 5, 37, 3, 16}, {1, 1, 1, 1, 1}});
  }
}

TEST(Conformance, EveryStoreConversion) {
  uint64_t which = 0;
  for (const DType from : {f32, f64, i32, i64, u8, boolean}) {
    ProgramMaker m;
    const uint32_t x = m.load(from, Access::Full);
    const uint32_t scaled = from == f32   ? m.op(Op::mul, f32, {x, m.literal(100.0f)})
                            : from == f64 ? m.op(Op::mul, f64, {x, m.literal(1000.0)})
                                          : x;
    for (int d = 0; d < dtype_count; ++d) {
      m.store(scaled, static_cast<DType>(d));
      m.store(m.cast(scaled, static_cast<DType>(d)), static_cast<DType>(d));
    }
    m.store(m.accum(), f32);
    check({.name = "from " + std::string(types::dtype_traits(from).name),
           .program = m.program,
           .tolerance = 0,
           .of_list = which++},
          {{1, 5, 37, 3, 16}});
  }
}

TEST(Conformance, ReductionsOfEveryKindAndAxis) {
  for (const DType type : {f32, f64, i32}) {
    ProgramMaker m;
    const uint32_t x = type == f32 ? m.accum() : m.load(type, Access::Full);
    std::vector<uint32_t> reductions;
    for (const ReduceKind kind : {ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min, ReduceKind::LogSumExp}) {
      if (kind == ReduceKind::LogSumExp && !types::is_float(type)) continue;
      for (const ReduceAxis axis : {ReduceAxis::Row, ReduceAxis::Column, ReduceAxis::All, ReduceAxis::Item})
        reductions.push_back(m.reduce(kind, axis, x));
    }
    if (types::is_float(type)) reductions.push_back(m.reduce(ReduceKind::SumExp, ReduceAxis::Row, x));
    if (type != f32) m.store(m.accum(), f32);
    m.next_phase(Scope::Whole, false);
    for (const uint32_t k : reductions) {
      const ReduceAxis axis = m.program.reductions[k].axis;
      m.store(m.result(k), type,
              axis == ReduceAxis::Row      ? Access::Column
              : axis == ReduceAxis::Column ? Access::Row
                                           : Access::Scalar);
    }
    check({"reductions " + std::string(types::dtype_traits(type).name), m.program, 3e-6},
          {{1, 5, 37, 3, 16}, {2, 9, 130, 4, 64}, {1, 1, 1, 1, 1}});
  }
}

TEST(Conformance, SoftmaxOverThreePhases) { check({"softmax", softmax()}); }

TEST(Conformance, SplitPartsInChunksAndInterleaved) {
  for (const bool interleaved : {false, true}) {
    ProgramMaker m;
    m.program.split.ways = 2;
    m.program.split.chunk = types::Dim::constant(interleaved ? 1 : 4096);
    m.store(m.op(Op::mul, f32, {m.op(Op::silu, f32, {m.accum(0)}), m.accum(1)}), f16);
    check({interleaved ? "interleaved" : "chunks", m.program});
  }
}

TEST(Conformance, IndexedOperandsByHead) {
  ProgramMaker m;
  const int64_t head = 24;
  const auto indexed = [&](DType dtype, bool is_store, std::vector<package::IndexTerm> terms) {
    const uint32_t k = m.operand(dtype, Access::Indexed, false, is_store);
    m.program.operands[k].terms = std::move(terms);
    return k;
  };
  const auto one = types::Dim::constant(1);
  // Heads outermost, unit stride inside a head; a table by position in the head; a table by head.
  const uint32_t x = m.load_operand(
      indexed(f32, false, {{Axis::Row, 1, 0, 1, one}, {Axis::Col, head, 0, 2, one}, {Axis::Col, 1, head, 0, one}}));
  const uint32_t table = m.load_operand(indexed(bf16, false, {{Axis::Col, 1, head, 0, one}}));
  const uint32_t by_head = m.load_operand(indexed(f32, false, {{Axis::Col, head, 0, 0, one}}));
  const uint32_t by_row = m.load_operand(indexed(f32, false, {{Axis::Row, 2, 2, 0, one}, {Axis::Batch, 1, 0, 1, one}}));
  const uint32_t y = m.op(Op::multiply_add, f32, {x, table, m.op(Op::mul, f32, {by_head, by_row})});
  const uint32_t sum = m.op(Op::add, f32, {y, m.accum()});
  const uint32_t out = indexed(f32, true,
                               {{Axis::Row, 1, 0, 1, one},
                                {Axis::Col, head, 0, 2, one},
                                {Axis::Col, 1, head, 0, one},
                                {Axis::Batch, 1, 0, 3, one}});
  m.phase().stores.push_back({out, sum});
  const int64_t rows = 9, heads = 6;
  check({"heads",
         m.program,
         4e-6,
         false,
         {{head + 2, rows * (head + 2), 1}, {3}, {2}, {5, 11}, {head, rows * head, 1, heads * rows * head}}},
        {{2, 9, 144, 4, 32}, {1, 3, 130, 2, 64}});
}

// Places that are computed, of what has an element a row, a column, or an item: stored by one tile, as what lies in
// order is.
TEST(Conformance, IndexedStoresOfReducedValues) {
  ProgramMaker m;
  const auto one = types::Dim::constant(1);
  const auto put = [&](uint32_t value, std::vector<package::IndexTerm> terms) {
    const uint32_t k = m.operand(f32, Access::Indexed, false, true);
    m.program.operands[k].terms = std::move(terms);
    m.phase().stores.push_back({k, value});
  };
  const uint32_t by_row = m.reduce(ReduceKind::Max, ReduceAxis::Row, m.accum());
  const uint32_t by_column = m.reduce(ReduceKind::Max, ReduceAxis::Column, m.accum());
  const uint32_t of_item = m.reduce(ReduceKind::Max, ReduceAxis::Item, m.accum());
  const uint32_t of_all = m.reduce(ReduceKind::Max, ReduceAxis::All, m.accum());
  m.next_phase(Scope::Whole, false);
  put(m.result(by_row), {{Axis::Batch, 1, 0, 2, one}, {Axis::Row, 4, 0, 0, one}, {Axis::Row, 1, 4, 1, one}});
  put(m.result(by_column), {{Axis::Batch, 1, 0, 2, one}, {Axis::Col, 4, 0, 0, one}, {Axis::Col, 1, 4, 1, one}});
  put(m.result(of_item), {{Axis::Batch, 2, 0, 0, one}, {Axis::Batch, 1, 2, 1, one}});
  put(m.result(of_all), {{Axis::Row, 64, 0, 1, one}});
  const std::vector<std::vector<int64_t>> strides{{64, 1, 16}, {256, 1, 64}, {1, 2}, {1}};
  check({"reduced", m.program, 0, false, strides}, {{3, 9, 144, 4, 32}, {2, 3, 130, 2, 64}, {1, 1, 1, 1, 1}});
  const auto source = emit_cpu_epilogue(m.program, {CpuIsa::generic, false, false});
  ASSERT_TRUE(source) << source.error().render();
  for (const char* owned : {"owns_column(at0)", "owns_row(at1)", "owns_scalar(at2)", "owns_column(at3)"})
    EXPECT_NE(source->text.find(owned), std::string::npos) << owned << source->text;
}

TEST(Conformance, IndicesExtentsAndDropout) {
  ProgramMaker m;
  const uint32_t r = m.index(Kind::RowIndex), c = m.index(Kind::ColIndex), b = m.index(Kind::BatchIndex);
  const uint32_t linear =
      m.op(Op::multiply_add, i64, {m.op(Op::multiply_add, i64, {b, m.extent(1), r}), m.extent(2), c});
  m.store(linear, i64);
  m.store(m.op(Op::dropout, f32, {m.accum(), m.literal(0.25f), m.scalar(i64), linear}), f32);
  const uint32_t causal = m.op_aux(Op::le, boolean, i64, {c, r});
  m.store(m.op(Op::where, f32, {causal, m.accum(), m.literal(-1.0f)}), f32);
  m.store(m.op(Op::logical_not, boolean, {causal}), boolean);
  check({"indices", m.program});
}

// Every element-wise op of the table in every type it can have.
TEST(Conformance, EveryOpInEveryType) {
  uint64_t which = 0;
  for (const DType type : {f32, f64, i8, i32, i64, u8, u16, u64}) {
    ProgramMaker m;
    const uint32_t x = m.load(type, Access::Full), y = m.load(type, Access::Full), z = m.load(type, Access::Row);
    m.store(m.accum(), f32);
    const auto positive = [&](uint32_t v) { return types::is_float(type) ? m.op(Op::abs, type, {v}) : v; };
    for (const types::OpInfo& info : types::all_ops()) {
      if (!info.elementwise() || info.rule == types::OpRule::index || info.op == Op::cast || info.op == Op::dropout)
        continue;
      if (info.rule == types::OpRule::real && !types::is_float(type)) continue;
      std::vector<uint32_t> in{x, y, z};
      if (info.op == Op::log || info.op == Op::log2 || info.op == Op::log1p || info.op == Op::sqrt ||
          info.op == Op::rsqrt)
        in[0] = positive(x);
      if (info.op == Op::pow) {
        in[0] = positive(x);
        if (!types::is_float(type)) in[1] = m.integer(type, 3);
      }
      if (info.op == Op::softplus) in = {x, m.op(Op::add, type, {positive(y), positive(y)}), positive(z)};
      in.resize(static_cast<size_t>(info.arity));
      if (info.rule == types::OpRule::compare) {
        m.store(m.op_aux(info.op, boolean, type, in), boolean);
      } else if (info.rule == types::OpRule::logical) {
        for (uint32_t& v : in) v = m.op_aux(Op::gt, boolean, type, {v, z});
        m.store(m.op(info.op, boolean, in), boolean);
      } else if (info.op == Op::where) {
        m.store(m.op(info.op, type, {m.op_aux(Op::lt, boolean, type, {x, y}), x, y}), type);
      } else {
        m.store(m.op(info.op, type, in), type);
      }
    }
    check({.name = "ops " + std::string(types::dtype_traits(type).name),
           .program = m.program,
           .tolerance = type == f64 ? 1e-13 : 1e-6,
           .discontinuous = true,
           .of_list = which++},
          {{1, 5, 37, 3, 16}});
  }
}

TEST(Conformance, RowAndColumnAndScalarStoresAreWrittenOnce) {
  ProgramMaker m;
  const uint32_t row = m.load(f32, Access::Row), column = m.load(f16, Access::Column), s = m.scalar(f32);
  m.store(m.op(Op::tanh, f32, {row}), f32, Access::Row);
  m.store(m.op(Op::mul, f32, {column, s}), f32, Access::Column);
  m.store(m.op(Op::exp, f32, {s}), f64, Access::Scalar);
  m.store(m.op(Op::add, f32, {m.accum(), m.op(Op::mul, f32, {row, column})}), f32, Access::Full, false);
  check({"classes", m.program});
}

TEST(Conformance, StrictGivesTheSeparatelyRoundedResult) {
  ProgramMaker m;
  m.store(m.op(Op::add, f32, {m.op(Op::mul, f32, {m.accum(), m.load(f32, Access::Full)}), m.load(f32, Access::Row)}),
          f32);
  check({"strict", m.program, 0, false, {}, true});
}

}  // namespace
}  // namespace codetta::emit

// SPDX-License-Identifier: Apache-2.0
// The byte form of programs: round trip, one form a program, and bytes that mean harm.
#include <gtest/gtest.h>

#include <random>

#include "package/cpu_call.hpp"
#include "package/gpu_call.hpp"
#include "unit/package/samples.hpp"

namespace {

using namespace codetta;
using package::EpilogueProgram;
using package::Inst;

TEST(EpilogueProgram, RoundTripAndText) {
  const EpilogueProgram program = test::sample_program();
  ASSERT_EQ(package::find_defect(program).value_or(""), "");
  const auto decoded = EpilogueProgram::decode(program.encode());
  ASSERT_TRUE(decoded) << decoded.error().render();
  EXPECT_EQ(*decoded, program);
  EXPECT_EQ(program.to_string(), R"(accumulator f32
split columns in 2 by chunks of 8
argument alpha: f64 scalar
argument C: bf16[m, n]
argument D: f8e4m3[m, n] output
argument norm: f32[m, 1] output
phase 0: tile
  v0:f32 = accumulator part 0
  v1:f32 = accumulator part 1
  v2:f32 = load C[full, unit]
  v3:f32 = multiply_add v0 v1 v2
  v4:f64 = scalar alpha
  v5:f32 = cast v4 rounded to bf16
  v6:f32 = mul v3 v5
  v7:f32 = 1.0
  v8:bool = gt v6 v7
  v9:f32 = where v8 v6 v7
  v10:i64 = row index
  v11:i64 = -3
  v12:i64 = add v10 v11
  v13:f32 = dropout v9 v5 v11 v12
  store D[indexed, row in dim -2, 16 * (col // 8) in dim -1, col % 8 in dim -1, 8 in dim -1] = v13
  reduce row mean v9 -> r0 (2 values each)
phase 1: row panel, no accumulator
  v0:f32 = r0
  v1:f32 = sqrt v0
  store norm[column] = v1
)");
}

TEST(EpilogueProgram, WithoutContraction) {
  EpilogueProgram program = test::sample_program();
  const std::string bytes = program.encode();
  EXPECT_EQ(program.to_string().find("no contraction\n"), std::string::npos);
  program.contracts = false;
  EXPECT_NE(program.encode(), bytes);
  const auto decoded = EpilogueProgram::decode(program.encode());
  ASSERT_TRUE(decoded) << decoded.error().render();
  EXPECT_FALSE(decoded->contracts);
  EXPECT_EQ(*decoded, program);
  EXPECT_NE(program.to_string().find("no contraction\n"), std::string::npos);
}

TEST(EpilogueProgram, SizesAsNumbers) {
  EpilogueProgram program = test::sample_program();
  const std::string bytes = program.encode();
  package::Inst size;
  size.kind = package::Inst::Kind::Extent;
  size.type = size.aux = DType::i64;
  size.index = 4;
  program.phases[1].insts.push_back(size);
  EXPECT_EQ(package::find_defect(program).value_or(""), "v2 reads extent 4, which is not there");
  program.sizes = {types::Dim::symbol("p"), types::Dim::symbol("p") * types::Dim::symbol("n")};
  EXPECT_EQ(package::find_defect(program).value_or(""), "");
  EXPECT_EQ(program.scalar_count(), program.arguments.size() + 2);
  EXPECT_NE(program.to_string().find("v2:i64 = size " + program.sizes[1].to_string() + "\n"), std::string::npos)
      << program.to_string();
  for (const bool contracts : {true, false}) {
    program.contracts = contracts;
    const auto decoded = EpilogueProgram::decode(program.encode());
    ASSERT_TRUE(decoded) << decoded.error().render();
    EXPECT_EQ(*decoded, program);
  }
  // Without them the bytes, which name kernels, are what they were.
  program = test::sample_program();
  EXPECT_EQ(program.encode(), bytes);
  std::string later = bytes;
  later[0] = 11;
  const auto refused = EpilogueProgram::decode(later);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().render().find("format 11, this library reads 3 to 10"), std::string::npos)
      << refused.error().render();
}

TEST(EpilogueProgram, WhetherItemsAreFurtherRows) {
  using package::Access;
  using package::Axis;
  using package::FoldSlots;
  const auto operand = [](Access access, std::vector<package::IndexTerm> terms) {
    package::Operand made;
    made.access = access;
    made.terms = std::move(terms);
    return made;
  };
  const auto term = [](Axis axis, uint8_t dim, int64_t div = 1, int64_t mod = 0) {
    return package::IndexTerm{axis, div, mod, dim, types::Dim::constant(1)};
  };
  const auto row = term(Axis::Row, 1), batch = term(Axis::Batch, 2), col = term(Axis::Col, 0);
  const auto head = term(Axis::Col, 2, 32), inside = term(Axis::Col, 0, 1, 32);
  // Affine accesses have the strides batch, row, column, whatever their terms are.
  EXPECT_EQ(package::fold_slots(operand(Access::Full, {row, col, batch})), (FoldSlots{0, 1}));
  EXPECT_EQ(package::fold_slots(operand(Access::Column, {row})), (FoldSlots{-1, 1}));
  EXPECT_EQ(package::fold_slots(operand(Access::Row, {col})), (FoldSlots{-1, -1}));
  EXPECT_EQ(package::fold_slots(operand(Access::Row, {col, batch})), std::nullopt) << "an item has no row to vary with";
  // Indexed ones a stride a term.
  EXPECT_EQ(package::fold_slots(operand(Access::Indexed, {head, term(Axis::Batch, 3), row, inside})),
            (FoldSlots{1, 2}));
  EXPECT_EQ(package::fold_slots(operand(Access::Indexed, {head, row, inside})), (FoldSlots{-1, 1}));
  EXPECT_EQ(package::fold_slots(operand(Access::Indexed, {row, term(Axis::Row, 2), col})), std::nullopt);
  EXPECT_EQ(package::fold_slots(operand(Access::Indexed, {term(Axis::Row, 1, 2), col})), std::nullopt);
  EXPECT_EQ(package::fold_slots(operand(Access::Indexed, {term(Axis::Batch, 2, 1, 4), row, col})), std::nullopt);

  EpilogueProgram program = test::sample_program();
  EXPECT_FALSE(package::rows_fold_by_slots(program)) << "it counts rows";
  for (package::Phase& phase : program.phases) {
    for (package::Inst& inst : phase.insts) {
      if (inst.kind == Inst::Kind::RowIndex) inst.kind = Inst::Kind::ColIndex;
    }
  }
  EXPECT_TRUE(package::rows_fold_by_slots(program));
  EXPECT_FALSE(package::rows_fold(program)) << "an operand is indexed";
  program.reductions[0].axis = package::ReduceAxis::Column;
  EXPECT_FALSE(package::rows_fold_by_slots(program)) << "columns of an item are its own";
}

// One phase for r0, another that stores what it reads of it.
TEST(EpilogueProgram, ResultsThatNoElementMade) {
  using package::Axis;
  const auto missing = [](package::ReduceAxis axis, std::vector<Axis> along) {
    EpilogueProgram program;
    package::Operand stored;
    stored.is_store = true;
    for (const Axis at : along) stored.terms.push_back({at, 1, 0, 0, types::Dim::constant(1)});
    program.operands = {stored, stored};
    program.operands[1].terms = {{Axis::Batch}, {Axis::Row}, {Axis::Col}};
    program.reductions.resize(1);
    program.reductions[0].axis = axis;
    package::Phase phase;
    phase.insts.resize(3);
    phase.insts[0].kind = Inst::Kind::Literal;
    phase.insts[1].kind = Inst::Kind::Result;
    phase.insts[2].arity = 1, phase.insts[2].in[0] = 1;
    phase.stores = {{0, 2}, {1, 0}};
    program.phases = {package::Phase{}, phase};
    return int{package::missing_when(program, true)};
  };
  // Bits: 2 the batch, 4 rows, 8 both, 16 columns, 32 and 64 those beside batch or rows, 128 all.
  EXPECT_EQ(missing(package::ReduceAxis::Row, {Axis::Batch, Axis::Row}), 0);
  EXPECT_EQ(missing(package::ReduceAxis::Row, {Axis::Batch}), 4 + 64) << "without rows, but with items";
  EXPECT_EQ(missing(package::ReduceAxis::Row, {}), 2 + 4 + 8 + 32 + 64 + 128);
  EXPECT_EQ(missing(package::ReduceAxis::Row, {Axis::Col}), 2 + 4 + 8);
  EXPECT_EQ(missing(package::ReduceAxis::Column, {}), 2 + 8 + 16 + 32 + 64 + 128);
  EXPECT_EQ(missing(package::ReduceAxis::Item, {}), 2 + 8 + 32 + 128);
  EXPECT_EQ(missing(package::ReduceAxis::All, {}), 0) << "over nothing too there is one";
}

// What depends on no element is computed beside them: by a product's own kernel, which does not run over none, or in
// rows and columns, which a batch without items has none of.
TEST(EpilogueProgram, StoresBesideElementsThatAreNot) {
  using package::Axis;
  const auto missing = [](bool in_product, std::vector<Axis> along, bool batched = true) {
    EpilogueProgram program;
    program.operands.resize(2);
    program.operands[0].is_store = true;
    if (batched) program.operands[1].terms.push_back({Axis::Batch, 1, 0, 0, types::Dim::constant(1)});
    for (const Axis at : along) program.operands[0].terms.push_back({at, 1, 0, 0, types::Dim::constant(1)});
    program.phases.resize(1);
    program.phases[0].insts.resize(1);
    program.phases[0].insts[0].kind = Inst::Kind::Literal;
    program.phases[0].stores = {{0, 0}};
    return int{package::missing_when(program, in_product)};
  };
  EXPECT_EQ(missing(true, {Axis::Batch, Axis::Row, Axis::Col}), 0);
  EXPECT_EQ(missing(true, {Axis::Col}), 2 + 4 + 8) << "a row of numbers, of a product without items or rows";
  EXPECT_EQ(missing(true, {Axis::Batch, Axis::Row}), 16);
  EXPECT_EQ(missing(true, {}), 2 + 4 + 8 + 16 + 32 + 64 + 128);
  EXPECT_EQ(missing(true, {}, false), 4 + 16 + 64);
  EXPECT_EQ(missing(true, {Axis::Row, Axis::Col}, false), 0);
  EXPECT_EQ(missing(false, {Axis::Batch, Axis::Row}), 0);
  EXPECT_EQ(missing(false, {Axis::Row, Axis::Col}), 2);
  EXPECT_EQ(missing(false, {}), 0) << "one thread looks after it";
}

// Of these, what a launch's sizes can come to.
TEST(EpilogueProgram, SizesThatAreNever0MissNothing) {
  EpilogueProgram program;
  program.operands.resize(1);
  program.operands[0].is_store = true;
  program.phases.resize(1);
  program.phases[0].insts.resize(1);
  program.phases[0].insts[0].kind = Inst::Kind::Literal;
  program.phases[0].stores = {{0, 0}};
  using types::Dim;
  const Dim n = Dim::symbol("n"), one = Dim::constant(1), none = Dim::constant(0);
  const auto missing = [&](const Dim& batch, const Dim& rows, const Dim& columns) {
    return int{package::missing_when(program, true, batch, rows, columns)};
  };
  EXPECT_EQ(missing(one, one, one), 0);
  EXPECT_EQ(missing(one, n, Dim::constant(7)), 4);
  EXPECT_EQ(missing(one, n + one, n), 16);
  EXPECT_EQ(missing(one, none, one), 4);
  EXPECT_EQ(missing(one, n, n), 4 + 16 + 64);
}

TEST(EpilogueProgram, EveryPrefixIsDamaged) {
  const std::string bytes = test::sample_program().encode();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto decoded = EpilogueProgram::decode(std::string_view(bytes).substr(0, size));
    ASSERT_FALSE(decoded) << size;
    EXPECT_EQ(decoded.error().message(), "error[E0520]: package is damaged");
  }
  EXPECT_FALSE(EpilogueProgram::decode(bytes + '\0'));
}

TEST(EpilogueProgram, WhatIsAcceptedIsSoundAndCanonical) {
  const std::string bytes = test::sample_program().encode();
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    std::string changed = bytes;
    for (uint64_t n = 1 + random() % 3; n > 0; --n) changed[random() % changed.size()] = static_cast<char>(random());
    if (random() % 4 == 0) changed.insert(random() % changed.size(), 1, static_cast<char>(random()));
    const auto decoded = EpilogueProgram::decode(changed);
    if (!decoded) continue;
    ASSERT_FALSE(package::find_defect(*decoded));
    ASSERT_EQ(decoded->encode(), changed);
    ASSERT_FALSE(decoded->to_string().empty());
  }
}

TEST(EpilogueProgram, HugeCountsAllocateNothing) {
  std::string bytes = test::sample_program().encode();
  bytes.resize(8);
  for (const size_t at : {3, 4, 5, 6, 7}) {
    std::string huge = bytes.substr(0, at) + "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01";
    EXPECT_FALSE(EpilogueProgram::decode(huge));
  }
}

// Each change makes the program contradict itself.
TEST(EpilogueProgram, Defects) {
  const auto defect = [](auto change) {
    EpilogueProgram program = test::sample_program();
    change(program);
    EXPECT_FALSE(EpilogueProgram::decode(program.encode()));
    return package::find_defect(program).value_or("accepted");
  };
  EXPECT_EQ(defect([](auto& p) { p.accumulator = DType::bf16; }), "the accumulator has no accumulator dtype");
  EXPECT_EQ(defect([](auto& p) { p.split.ways = 65; }), "the columns are split in 65 parts");
  EXPECT_EQ(defect([](auto& p) { p.split.chunk = types::Dim::constant(0); }), "a split has the wrong chunk");
  EXPECT_EQ(defect([](auto& p) {
              p.phases.clear();
              p.reductions.clear();
            }),
            "there is no phase");
  EXPECT_EQ(defect([](auto& p) { p.operands[0].argument = 9; }), "an operand reads argument 9 of 4");
  EXPECT_EQ(defect([](auto& p) { p.operands[0].argument = 0; }), "an operand is a scalar argument");
  EXPECT_EQ(defect([](auto& p) { p.operands[0].is_store = true; }), "an output is loaded or an input stored");
  EXPECT_EQ(defect([](auto& p) { p.operands[0].access = package::Access::Row; }),
            "an operand's access contradicts its index terms");
  EXPECT_EQ(defect([](auto& p) { p.operands[0].terms[0].div = 0; }), "an index term is out of range");
  EXPECT_EQ(defect([](auto& p) { p.operands[0].terms.resize(9); }), "an operand has 9 index terms");
  EXPECT_EQ(defect([](auto& p) { p.phases[0].insts[3].in[2] = 3; }), "v3 uses a value that does not come before it");
  EXPECT_EQ(defect([](auto& p) {
              p.phases[0].insts[3].arity = 2;
              p.phases[0].insts[3].in[2] = 0;
            }),
            "multiply_add has 2 operands");
  EXPECT_EQ(defect([](auto& p) { p.phases[0].insts[6].in[1] = 4; }), "mul has operands or a result of the wrong type");
  EXPECT_EQ(defect([](auto& p) { p.phases[0].insts[0].index = 2; }), "v0 reads part 2, which is not there");
  EXPECT_EQ(defect([](auto& p) { p.phases[0].insts[2].index = 1; }), "v2 reads operand 1, which is not there");
  EXPECT_EQ(defect([](auto& p) { p.phases[0].insts[4].index = 1; }), "v4 reads scalar 1, which is not there");
  EXPECT_EQ(defect([](auto& p) { p.phases[0].insts[7].bits = uint64_t{1} << 40; }), "a literal does not fit its type");
  EXPECT_EQ(defect([](auto& p) { p.phases[0].insts[3].op = types::Op::matmul; }), "matmul has 3 operands");
  EXPECT_EQ(defect([](auto& p) { p.phases[0].insts[9].type = p.phases[0].insts[9].aux = DType::f16; }),
            "a reduction has no value of its type");
  EXPECT_EQ(defect([](auto& p) { p.phases[0].stores[0].operand = 0; }), "a store writes to no output");
  EXPECT_EQ(defect([](auto& p) { p.phases[0].stores[0].value = 99; }), "a store has no value");
  EXPECT_EQ(defect([](auto& p) { p.phases[0].scope = package::Scope::Whole; }), "phase 0 has the wrong scope");
  EXPECT_EQ(defect([](auto& p) { p.phases[1].reads_accumulator = true; }),
            "phase 1 is wrong about reading the accumulator");
  EXPECT_EQ(defect([](auto& p) { p.reductions[0].axis = package::ReduceAxis::Column; }),
            "a phase reads what is not finished at its scope");
  EXPECT_EQ(defect([](auto& p) { p.reductions[0].phase = 7; }), "a reduction belongs to no phase");
  EXPECT_EQ(defect([](auto& p) { p.reductions[0].kind = package::ReduceKind::Max; }), "a mean that is no sum");
  EXPECT_EQ(defect([](auto& p) {
              p.reductions[0].kind = package::ReduceKind::SumExp;
              p.reductions[0].axis = package::ReduceAxis::Item;
              p.reductions[0].mean = false;
            }),
            "a sumexp of no rows");
  for (const auto kind : {package::ReduceKind::Sum, package::ReduceKind::LogSumExp, package::ReduceKind::SumExp}) {
    EXPECT_EQ(defect([&](auto& p) {
                auto& insts = p.phases[p.reductions[0].phase].insts;
                insts.push_back(insts[7]);  // a literal
                insts.back().type = insts.back().aux = DType::i32;
                p.reductions[0].kind = kind;  // a mean in the sample
                p.reductions[0].value = static_cast<uint32_t>(insts.size() - 1);
                p.reductions[0].type = DType::i32;
              }),
              "a mean, logsumexp or sumexp of integers");
  }
}

// Two products of one A; a sum of matrices is their A, and each B is a matrix of its own or made likewise.
EpilogueProgram with_factors(bool makes_b) {
  EpilogueProgram p = test::sample_program();
  p.split.products = 2;
  const auto one = types::Dim::constant(1);
  p.arguments.push_back({"w", DType::bf16, false, false, {types::Dim::symbol("k"), types::Dim::symbol("n")}});
  p.operands.push_back({4,
                        DType::bf16,
                        package::Access::Full,
                        false,
                        {{package::Axis::Row, 1, 0, 1, one}, {package::Axis::Col, 1, 0, 0, one}},
                        {},
                        false});
  Inst load;
  load.kind = Inst::Kind::Load;
  load.index = 3;
  Inst sum;
  sum.op = types::Op::add;
  sum.arity = 2;
  using Which = package::FactorProgram::Which;
  p.factors.push_back({Which::A, 0, DType::bf16, true, {load, sum}, 1});
  if (makes_b) {
    for (const uint32_t product : {0u, 1u}) p.factors.push_back({Which::B, product, DType::f16, false, {load}, 0});
  } else {
    p.more_b = {3};
  }
  return p;
}

// Products that differ in columns: each with stores of its own.
TEST(EpilogueProgram, ProductsWithRootSpaces) {
  const auto make = [] {
    EpilogueProgram p;
    p.phases.push_back(package::Phase{package::Scope::Tile, true, {}, {}});
    const auto one = types::Dim::constant(1);
    const auto operand = [&](const char* name, bool stored) {
      p.arguments.push_back({name, DType::f32, false, stored, {types::Dim::symbol("m"), types::Dim::symbol("n")}});
      p.operands.push_back({static_cast<uint32_t>(p.arguments.size() - 1),
                            DType::f32,
                            package::Access::Full,
                            stored,
                            {{package::Axis::Row, 1, 0, 1, one}, {package::Axis::Col, 1, 0, 0, one}},
                            {},
                            stored});
    };
    for (const char* name : {"q", "k"}) operand(name, true);
    operand("w", false);
    p.more_b = {2};
    Inst accumulator, negative, columns;
    accumulator.kind = Inst::Kind::Accumulator;
    negative.op = types::Op::neg;
    negative.arity = 1;
    columns.kind = Inst::Kind::ColIndex;
    columns.type = columns.aux = DType::i64;
    p.phases[0].insts = {accumulator, columns, negative};
    p.phases[0].stores = {{0, 2}, {1, 0}};
    p.sizes = {types::Dim::symbol("n"), types::Dim::constant(64)};
    p.spaces = {{0, 1}, {1, 1}};
    return p;
  };
  const EpilogueProgram program = make();
  EXPECT_EQ(find_defect(program), std::nullopt);
  EXPECT_EQ(EpilogueProgram::decode(program.encode()).value(), program);
  EXPECT_EQ(program.products(), 2U);
  EXPECT_NE(program.to_string().find("  product 1: 64 columns\n  store k"), std::string::npos) << program.to_string();
  const EpilogueProgram first = package::program_of(program, 0), second = package::program_of(program, 1);
  EXPECT_EQ(first.phases[0].insts.size(), 2U);
  EXPECT_EQ(first.phases[0].stores, (std::vector<package::Store>{{0, 1}}));
  EXPECT_EQ(second.phases[0].insts.size(), 1U);
  EXPECT_EQ(second.phases[0].stores, (std::vector<package::Store>{{1, 0}}));
  EXPECT_EQ(find_defect(first), std::nullopt);

  const auto wrong = [&](const auto& change) {
    EpilogueProgram p = make();
    change(p);
    const auto defect = find_defect(p);
    EXPECT_NE(defect.has_value(), EpilogueProgram::decode(p.encode()).has_value());
    return defect;
  };
  EXPECT_EQ(wrong([](auto& p) { p.spaces.resize(1); }), "there are root spaces of 1 products");
  EXPECT_EQ(wrong([](auto& p) { p.spaces.push_back({0, 0}); }), "1 further factors of 3 products");
  EXPECT_EQ(wrong([](auto& p) { p.spaces[1].columns = 2; }), "there is no size 2");
  EXPECT_EQ(wrong([](auto& p) { p.spaces[1].stores = 2; }), "3 of 2 stores are of a product");
  EXPECT_EQ(wrong([](auto& p) { p.more_b.clear(); }), "products with root spaces of their own have no further factor");
  EXPECT_EQ(wrong([](auto& p) {
              p.split = {2, types::Dim::constant(1), 2};
            }),
            "products with root spaces of their own are parts of a split, too");
  EXPECT_EQ(wrong([](auto& p) {
              p.phases[0].insts[1].kind = Inst::Kind::Extent;
              p.phases[0].insts[1].index = 2;
            }),
            "a value is the columns of several root spaces");
  EXPECT_EQ(wrong([](auto& p) {
              p.phases.push_back({package::Scope::Whole, false, {}, {}});
            }),
            "products with root spaces of their own have reductions or later phases");
}

TEST(EpilogueProgram, MadeAndFurtherFactors) {
  for (const bool makes_b : {false, true}) {
    const EpilogueProgram program = with_factors(makes_b);
    ASSERT_EQ(package::find_defect(program).value_or(""), "");
    const auto decoded = EpilogueProgram::decode(program.encode());
    ASSERT_TRUE(decoded) << decoded.error().render();
    EXPECT_EQ(*decoded, program);
    const std::string text = program.to_string();
    EXPECT_NE(text.find("made A: bf16 = v1, items as further rows\n  v0:f32 = load w[full]\n  v1:f32 = add v0 v0\n"),
              std::string::npos)
        << text;
    EXPECT_EQ(text.find("B of product 1: w\n") != std::string::npos, !makes_b) << text;
    EXPECT_EQ(text.find("made B of product 1: f16 = v0\n") != std::string::npos, makes_b) << text;
    EXPECT_TRUE(program.factors_read(4));
    EXPECT_FALSE(program.factors_read(1));
    EXPECT_TRUE(program.makes_a());
    EXPECT_EQ(program.makes_b(), makes_b);
  }
  const auto defect = [](bool makes_b, auto change) {
    EpilogueProgram program = with_factors(makes_b);
    change(program);
    EXPECT_FALSE(EpilogueProgram::decode(program.encode()));
    return package::find_defect(program).value_or("accepted");
  };
  EXPECT_EQ(defect(true, [](auto& p) { p.factors[0].product = 1; }), "a factor of product 1 is made");
  EXPECT_EQ(defect(true, [](auto& p) { p.factors[2].product = 2; }), "a factor of product 2 is made");
  EXPECT_EQ(defect(true, [](auto& p) { p.factors[2].product = 0; }), "a factor is made twice");
  EXPECT_EQ(defect(true, [](auto& p) { p.factors.pop_back(); }),
            "some of the products have a B that is made, and others not");
  EXPECT_EQ(defect(true, [](auto& p) { p.factors[0].value = 2; }), "a made factor has no value");
  EXPECT_EQ(defect(true, [](auto& p) { p.factors[0].insts[0].index = 1; }), "v0 reads operand 1, which is not there");
  EXPECT_EQ(defect(true,
                   [](auto& p) {
                     p.factors[0].insts[0].kind = Inst::Kind::Accumulator;
                     p.factors[0].insts[0].index = 0;
                   }),
            "a factor is made of what the product computes");
  EXPECT_EQ(defect(false, [](auto& p) { p.more_b.push_back(3); }), "2 further factors of 2 products");
  EXPECT_EQ(defect(false, [](auto& p) { p.more_b[0] = 0; }), "a further factor is no matrix that is read");
  EXPECT_EQ(defect(false, [](auto& p) { p.more_b[0] = 9; }), "a further factor is no matrix that is read");
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// A program and a package that use every kind of field.
#pragma once

#include "package/package.hpp"

namespace codetta::test {

inline package::EpilogueProgram sample_program() {
  using package::Access;
  using package::Axis;
  using package::Inst;
  using types::Dim;
  using types::Op;
  const auto one = Dim::constant(1);
  package::EpilogueProgram p;
  p.split.ways = 2;
  p.split.chunk = Dim::constant(8);
  p.arguments = {{"alpha", DType::f64, true, false, {}},
                 {"C", DType::bf16, false, false, {Dim::symbol("m"), Dim::symbol("n")}},
                 {"D", DType::f8e4m3, false, true, {Dim::symbol("m"), Dim::symbol("n")}},
                 {"norm", DType::f32, false, true, {Dim::symbol("m"), one}}};
  p.operands = {{1, DType::bf16, Access::Full, true, {{Axis::Row, 1, 0, 1, one}, {Axis::Col, 1, 0, 0, one}}, {}, false},
                {2,
                 DType::f8e4m3,
                 Access::Indexed,
                 false,
                 {{Axis::Row, 1, 0, 1, one}, {Axis::Col, 8, 0, 0, Dim::constant(16)}, {Axis::Col, 1, 8, 0, one}},
                 {{0, Dim::constant(8)}},
                 true},
                {3, DType::f32, Access::Column, false, {{Axis::Row, 1, 0, 1, one}}, {}, true}};
  const auto value = [](Inst::Kind kind, DType type, uint32_t index = 0, uint64_t bits = 0) {
    Inst inst;
    inst.kind = kind;
    inst.type = inst.aux = type;
    inst.index = index;
    inst.bits = bits;
    return inst;
  };
  const auto op = [](Op which, DType type, DType aux, std::initializer_list<uint32_t> in) {
    Inst inst;
    inst.kind = Inst::Kind::Op;
    inst.op = which;
    inst.type = type;
    inst.aux = aux;
    for (uint32_t i : in) inst.in[inst.arity++] = i;
    return inst;
  };
  package::Phase first;
  first.insts = {value(Inst::Kind::Accumulator, DType::f32, 0),
                 value(Inst::Kind::Accumulator, DType::f32, 1),
                 value(Inst::Kind::Load, DType::f32, 0),
                 op(Op::multiply_add, DType::f32, DType::f32, {0, 1, 2}),
                 value(Inst::Kind::Scalar, DType::f64, 0),
                 op(Op::cast, DType::f32, DType::bf16, {4}),
                 op(Op::mul, DType::f32, DType::f32, {3, 5}),
                 value(Inst::Kind::Literal, DType::f32, 0, 0x3F800000),
                 op(Op::gt, DType::boolean, DType::f32, {6, 7}),
                 op(Op::where, DType::f32, DType::f32, {8, 6, 7}),
                 value(Inst::Kind::RowIndex, DType::i64),
                 value(Inst::Kind::Literal, DType::i64, 0, static_cast<uint64_t>(-3)),
                 op(Op::add, DType::i64, DType::i64, {10, 11}),
                 op(Op::dropout, DType::f32, DType::f32, {9, 5, 11, 12})};
  first.stores = {{1, 13}};
  package::Phase second;
  second.scope = package::Scope::RowPanel;
  second.reads_accumulator = false;
  second.insts = {value(Inst::Kind::Result, DType::f32, 0), op(Op::sqrt, DType::f32, DType::f32, {0})};
  second.stores = {{2, 1}};
  p.phases = {first, second};
  p.reductions = {{package::ReduceKind::Sum, package::ReduceAxis::Row, true, 2, DType::f32, 0, 9}};
  return p;
}

inline package::Package sample_package() {
  using types::Dim;
  package::Package p;
  p.name = "sample";
  p.target = {Backend::cpu, CpuIsa::avx2, ""};
  p.build_id = "0.1.0";
  const auto m = Dim::symbol("m"), n = Dim::symbol("n"), k = Dim::symbol("k");
  using Role = package::Buffer::Role;
  p.buffers = {{"A", Role::Argument, DType::f32, false, {m, k}, {}},
               {"B", Role::Argument, DType::f32, false, {k, n}, {}},
               {"alpha", Role::Argument, DType::f64, true, {}, {}},
               {"C", Role::Argument, DType::bf16, false, {m, n}, {}},
               {"D", Role::Output, DType::f8e4m3, false, {m, n}, {}},
               {"norm", Role::Output, DType::f32, false, {m, Dim::constant(1)}, {}},
               {"t", Role::Temporary, DType::f32, false, {m, n}, {}},
               {"c", Role::Constant, DType::u8, false, {Dim::constant(3)}, std::string("\0\1\2", 3)}};
  package::Kernel kernel;
  kernel.name = "codetta_sample_01234567";
  kernel.epilogue = sample_program();
  kernel.source = "void f() {}\n";
  kernel.gcc_flags = {"-O2"};
  kernel.clang_flags = {"-O2", "-march=x86-64"};
  kernel.symbol = "f";
  kernel.binary = std::string(
      "\x7f"
      "ELF\0",
      5);
  p.kernels = {kernel};
  package::LaunchKernel launch;
  launch.b = 1;
  launch.m = m;
  launch.n = n;
  launch.k = k;
  launch.b_transposed = true;
  launch.arguments = {2, 3, 4, 5};
  p.steps.emplace_back(package::DefineSymbol{"m", 0, 0});
  p.steps.emplace_back(package::Comment{"hello"});
  package::Check equal;
  equal.guard.emplace<package::EqualGuard>(package::EqualGuard{k, k, "A and B meet"});
  package::Check unit;
  unit.guard.emplace<package::UnitStrideGuard>(package::UnitStrideGuard{4});
  package::Check overlap;
  overlap.guard.emplace<package::NoOverlapGuard>(package::NoOverlapGuard{4, 3, true});
  p.steps.emplace_back(equal);
  p.steps.emplace_back(unit);
  p.steps.emplace_back(overlap);
  p.steps.emplace_back(package::Allocate{6, m * Dim::constant(64)});
  p.steps.emplace_back(launch);
  p.steps.emplace_back(package::Free{6});
  p.steps.emplace_back(package::Return{});
  return p;
}

}  // namespace codetta::test

// SPDX-License-Identifier: Apache-2.0
// A program and a package that use every kind of field.
#pragma once

#include <utility>

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
  package::Product& product = launch.product.emplace();
  product.b = 1;
  launch.m = m;
  launch.n = n;
  product.k = k;
  product.b_transposed = true;
  launch.arguments = {2, 3, 4, 5};
  p.pools = {{0, m * Dim::constant(64) + m * n * Dim::constant(4), 64}};
  p.steps.emplace_back(package::DefineSymbol{"m", 0, 0});
  p.steps.emplace_back(package::DefineSymbol{"k", 0, 1});
  p.steps.emplace_back(package::DefineSymbol{"n", 1, 1});
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
  p.steps.emplace_back(package::AllocateFromPool{6, 0, m * Dim::constant(64)});
  p.steps.emplace_back(launch);
  p.steps.emplace_back(package::Free{6});
  p.steps.emplace_back(package::Return{});
  return p;
}

// One kernel of the sample, and every kind of step and guard around it, on two devices with two streams.
inline package::Package every_step() {
  using types::Dim;
  using Role = package::Buffer::Role;
  package::Package p = sample_package();
  const auto c = [](int64_t v) { return Dim::constant(v); };
  const auto launch = *std::get_if<package::LaunchKernel>(&p.steps[8]);
  p.device_count = p.stream_count = p.event_count = 2;
  p.result_count = 1;
  const auto add = [&](package::Buffer buffer) {
    p.buffers.push_back(std::move(buffer));
    return static_cast<uint32_t>(p.buffers.size() - 1);
  };
  const auto temporary = [&](const char* name, DType dtype, std::vector<Dim> shape) {
    return add({name, Role::Temporary, dtype, false, std::move(shape), {}});
  };
  const auto m = Dim::symbol("m"), n = Dim::symbol("n"), u = Dim::symbol("u");
  const uint32_t own = temporary("own", DType::f32, {m, n}), heir = temporary("heir", DType::f32, {m, n}),
                 view = temporary("view", DType::f32, {m}), there = temporary("there", DType::f32, {m, n}),
                 index = temporary("index", DType::i64, {u}), rows = temporary("rows", DType::f32, {u, n}),
                 picked = temporary("picked", DType::f32, {u}), flag = temporary("flag", DType::boolean, {c(1)}),
                 once = temporary("once", DType::u32, {c(4)}), square = temporary("square", DType::i32, {m, n});
  p.buffers[there].device = 1;
  p.buffers[view].strides = {n};
  p.buffers[view].offset = c(8);
  package::Buffer weights{"weights", Role::Constant, DType::f32, false, {c(3)}, {}};
  weights.external = "layers.0.weight";
  const uint32_t external = add(weights);
  package::Buffer gift{"gift", Role::Argument, DType::f32, false, {m, n}, {}};
  gift.donated = true;
  const uint32_t given = add(gift), after = temporary("after", DType::f32, {m, n});
  package::Buffer count{"count", Role::Argument, DType::i64, true, {}, {}};
  const uint32_t scalar = add(count), column = add({"column", Role::Output, DType::f32, false, {m}, {}}),
                 found = add({"found", Role::Output, DType::i64, false, {Dim::symbol("found_capacity")}, {}});
  p.buffers[found].filled = {u};

  p.steps.clear();
  const auto put = [&](auto step) { p.steps.emplace_back(std::move(step)); };
  const auto check = [&](auto guard) {
    package::Check& step = *std::get_if<package::Check>(&p.steps.emplace_back(std::in_place_type<package::Check>));
    step.guard = std::move(guard);
  };
  using From = package::DefineSymbol::From;
  put(package::DefineSymbol{"m", 0, 0});
  put(package::DefineSymbol{"k", 0, 1});
  put(package::DefineSymbol{"n", 1, 1});
  put(package::DefineSymbol{"found_capacity", found, 0});
  put(package::DefineSymbol{"s", 0, 0, From::Stride});
  put(package::DefineSymbol{"u", scalar, 0, From::Value});
  put(package::DefineSymbol{"half", 0, 0, From::Expression, 0, m + m, c(2)});
  check(package::EqualGuard{m, Dim::symbol("half"), "twice and half"});
  check(package::UnitStrideGuard{4});
  check(package::NoOverlapGuard{4, 3, true});
  check(package::SizeGuard{4, 0, m});
  check(package::StrideGuard{0, 0, Dim::symbol("s")});
  check(package::AlignmentGuard{0, 16});
  check(package::DivisibleGuard{n, c(1), "columns come in ones"});
  check(package::RangeGuard{m, c(0), c(1 << 20), "rows"});
  put(package::Comment{"every step"});
  put(package::LoadConstant{7});
  put(package::LoadConstant{external});
  put(package::DefineKernel{0});
  put(package::AllocateFromPool{6, 0, m * c(64)});
  put(package::Allocate{once});
  put(package::Fill{once, package::ZeroMode::Once, 0});
  put(package::Allocate{own});
  put(package::Fill{own, package::ZeroMode::PerCall, 0x3F800000});
  put(package::Fill{own, package::ZeroMode::None, 0});
  put(package::Reinterpret{own, view});
  put(package::Copy{view, column});
  package::LaunchKernel special = launch;
  special.options.grid = {m, n, c(1)};
  special.options.block = {c(128), c(1), c(1)};
  special.options.cluster = {2, 1, 1};
  special.options.cooperative = special.options.programmatic = true;
  special.options.shared_bytes = n * c(4);
  special.options.sizes = {m, n, Dim::symbol("s")};
  package::TensorMap map;
  map.argument = 1;
  map.box = {64, 64};
  map.swizzle = package::Swizzle::Bytes128;
  package::TensorMap image;
  image.kind = package::TensorMap::Kind::Im2col;
  image.argument = 2;
  image.lower_corner = {-1, -1};
  image.upper_corner = {-1, -1};
  image.channels = 64;
  image.pixels = 128;
  image.nan_outside = true;
  special.options.maps = {map, image};
  special.options.window = package::L2Window{1, n * c(4), 500};
  put(launch);
  put(special);
  put(package::Reuse{own, heir});
  put(package::Reuse{given, after});
  put(package::EnterSubgraph{"gather", {index}});
  put(package::CallExtern{"nonzero", {heir, scalar}, package::CallExtern::Form::Alloc, {}, 0, 2});
  put(package::DefineSymbol{"u", 0, 0, From::OutputSize, 0});
  put(package::DefineSymbol{"us", 0, 0, From::OutputStride, 0});
  put(package::SelectOutput{0, 0, index});
  put(package::SelectOutput{0, 1, picked});
  check(package::IndexGuard{index, m});
  put(package::Free{picked});
  put(package::ExitSubgraph{});
  put(package::Allocate{rows});
  put(package::CallExtern{"gather", {heir, index}, package::CallExtern::Form::Out, {rows}});
  check(package::NanGuard{rows, true, "gather"});
  put(package::IndexPut{heir, {index}, rows, true});
  put(package::Allocate{square});
  put(package::Fill{square});
  put(package::Scatter{heir, square, after, 1, package::ScatterReduce::Max});
  put(package::EnterDevice{1});
  put(package::Allocate{there});
  put(package::Copy{heir, there});
  put(package::ExitDevice{});
  put(package::EnterStream{1});
  put(package::RecordEvent{0});
  put(package::ExitStream{});
  put(package::WaitEvent{0});
  put(package::Allocate{flag});
  put(package::Fill{flag});
  p.step_lists.resize(4);
  p.step_lists[0].emplace_back(package::Copy{heir, after});
  p.step_lists[1].emplace_back(package::Comment{"nothing"});
  p.step_lists[2].emplace_back(package::Fill{flag, package::ZeroMode::PerCall, 0});
  p.step_lists[3].emplace_back(package::Fill{heir});
  put(package::If{flag, 0, 1});
  put(package::While{2, flag, 3, 100});
  put(package::Free{there});
  put(package::Free{6});
  put(package::Return{});
  return p;
}

}  // namespace codetta::test

// SPDX-License-Identifier: Apache-2.0
// Executions of hand-made packages: guards (E0610), workspaces (E0604, E0605, E0611), overlap (E0613), symbols, in
// place, empty sizes, temporaries, constants, what is interpreted.
#include "expect_error.hpp"
#include "made_package.hpp"

namespace codetta::runtime::test {
namespace {

class ExecutionTest : public testing::Test {
 protected:
  std::unique_ptr<ThreadPool> pool = make_thread_pool(1);
  std::mt19937 gen{7};
  package::CpuGemmConfig config = [] {
    package::CpuGemmConfig c;
    c.family = package::CpuFamily::Convert;
    return c;
  }();
};

package::Argument argument(const std::string& name, DType dtype, std::vector<int64_t> shape, bool output) {
  package::Argument result{name, dtype, false, output, {}};
  for (int64_t size : shape) result.shape.push_back(types::Dim::constant(size));
  return result;
}

// D = accum + C, or D = accum.
EpilogueProgram add_program(const Sizes& s, bool with_c = true, DType c = DType::f32) {
  EpilogueProgram program;
  if (with_c) program.arguments.push_back(argument("C", c, {s.batch, s.m, s.n}, false));
  program.arguments.push_back(argument("D", DType::f32, {s.batch, s.m, s.n}, true));
  for (uint32_t i = 0; i < program.arguments.size(); ++i)
    program.operands.push_back(affine(i, program.arguments[i].dtype, true, true, true, program.arguments[i].is_output));
  PhaseMaker maker(program.phases.emplace_back());
  const uint32_t accum = maker.leaf(Inst::Kind::Accumulator, DType::f32);
  if (with_c)
    maker.store(1, maker.op(Op::add, DType::f32, {accum, maker.leaf(Inst::Kind::Load, DType::f32, 0)}));
  else
    maker.store(0, accum);
  return program;
}

void guard(Made& made, package::Guard check) {
  made.package.steps.insert(made.package.steps.begin(), package::Check{std::move(check)});
}

TEST_F(ExecutionTest, PlainStoresNeedNoInterpreter) {
  const Sizes sizes{3, 20, 70, 5};
  Made plain(add_program(sizes, false), sizes, config, gen, true);
  const auto wanted = plain.expected();
  auto execution = plain.prepare(*pool);
  ASSERT_TRUE(execution.has_value()) << execution.error().render();
  EXPECT_FALSE(execution->interpreted());
  ASSERT_TRUE(execution->run());
  EXPECT_EQ(plain.differences(wanted), "");

  Made add(add_program(sizes), sizes, config, gen, true);
  const auto sums = add.expected();
  auto interpreted = add.prepare(*pool);
  ASSERT_TRUE(interpreted.has_value());
  EXPECT_TRUE(interpreted->interpreted());
  ASSERT_TRUE(interpreted->run());
  EXPECT_EQ(add.differences(sums), "");
}

TEST_F(ExecutionTest, ATransposedStoreIsNotPlain) {
  const Sizes sizes{3, 4, 5, 2};  // D[m, batch, n]
  EpilogueProgram program = add_program(sizes, false);
  program.arguments[0] = argument("D", DType::f32, {sizes.m, sizes.batch, sizes.n}, true);
  program.operands[0].terms[0].dim = 1;
  program.operands[0].terms[1].dim = 2;
  Made made(program, sizes, config, gen);
  const auto wanted = made.expected();
  auto execution = made.prepare(*pool);
  ASSERT_TRUE(execution.has_value()) << execution.error().render();
  ASSERT_TRUE(execution->run());
  EXPECT_EQ(made.differences(wanted), "");
}

TEST_F(ExecutionTest, CompiledFunctionsAreCalled) {
  const Sizes sizes{1, 4, 8, 3};
  Made made(add_program(sizes), sizes, config, gen);
  std::vector<KernelEntry> entries(1);
  entries[0].function = [](const codetta::cpu::EpilogueArgs* args, const codetta::cpu::Tile* tile) {
    for (int64_t r = 0; r < tile->rows; ++r) {
      for (int64_t c = 0; c < tile->cols; ++c)
        static_cast<float*>(args->operands[1].data)[(tile->row + r) * args->operands[1].stride[1] + tile->col + c] = 42;
    }
  };
  ExecutionOptions options;
  options.pool = pool.get();
  options.allocator = &default_allocator();
  auto execution = Execution::make(std::make_shared<package::Package>(made.package), entries, made.bindings, options);
  ASSERT_TRUE(execution.has_value());
  EXPECT_FALSE(execution->interpreted());
  ASSERT_TRUE(execution->run());
  for (int i = 0; i < 32; ++i) EXPECT_EQ(made.bindings.tensors[3].as<float>()[i], 42);
}

// A caller's A with elements apart along K is told before the first run where the fused form reads it, in a branch as
// well, so that another package takes over; what else does not fit is no reason for one.
TEST_F(ExecutionTest, TheFusedFormSaysThatItsRowsLieApart) {
  const Sizes sizes{1, 4, 8, 3};
  package::CpuGemmConfig fused = config;
  fused.family = package::CpuFamily::Fused;
  fused.nr = 16;
  std::vector<KernelEntry> entries(1);
  entries[0].fused = [](const codetta::cpu::FusedArgs*) {};
  for (const bool in_branch : {false, true}) {
    Made made(add_program(sizes), sizes, fused, gen);
    if (in_branch) {
      const auto flag = static_cast<uint32_t>(made.package.buffers.size());
      made.package.buffers.push_back({"flag", package::Buffer::Role::Argument, DType::boolean, true, {}, {}});
      made.bindings.tensors.emplace_back();
      made.bindings.scalars.emplace_back();
      made.package.step_lists = {{made.package.steps[0]}, {}};
      made.package.steps[0] = package::If{flag, 0, 1};
    }
    bool unaligned = false;
    ExecutionOptions options;
    options.pool = pool.get();
    options.allocator = &default_allocator();
    options.unaligned = &unaligned;
    const auto prepared = [&](const Bindings& bindings) {
      unaligned = false;
      return Execution::make(std::make_shared<package::Package>(made.package), entries, bindings, options);
    };
    const auto fits = prepared(made.bindings);
    EXPECT_TRUE(fits) << fits.error().render();
    Bindings apart = made.bindings;
    const Bound columns = bound(DType::f32, {1, 4, 3}, 2);
    apart.tensors[0] = columns.view;
    expect_error(prepared(apart), diag::Code::guard_failed, "A does not fit the kernel",
                 "consecutive k are 4 elements apart, and the kernel reads them side by side");
    EXPECT_TRUE(unaligned) << in_branch;
    if (in_branch) continue;  // it may be that what does not fit never runs
    Bindings small = made.bindings;
    const Bound few = bound(DType::f32, {1, 3, 3});
    small.tensors[0] = few.view;
    EXPECT_FALSE(prepared(small));
    EXPECT_FALSE(unaligned);
  }
}

TEST_F(ExecutionTest, UpdatesInPlace) {
  const Sizes sizes{2, 60, 130, 4};
  Made made(add_program(sizes), sizes, config, gen, true);
  made.bindings.tensors[3] = made.bindings.tensors[2];  // D is C
  const auto wanted = made.expected();
  guard(made, package::NoOverlapGuard{3, 2, true});
  auto execution = made.prepare(*pool);
  ASSERT_TRUE(execution.has_value()) << execution.error().render();
  ASSERT_TRUE(execution->run());
  EXPECT_EQ(made.differences(wanted), "");
}

TEST_F(ExecutionTest, RefusesOutputsThatOverlapThemselves) {
  const Sizes sizes{1, 4, 8, 3};
  Made made(add_program(sizes), sizes, config, gen);
  std::vector<float> memory(200);
  for (const Dims& strides : {Dims{0, 0, 1}, Dims{0, 8, 0}, Dims{0, 7, 1}, Dims{0, 1, 1}}) {
    made.bindings.tensors[3] = *TensorView::make(static_cast<void*>(memory.data()), DType::f32, {1, 4, 8}, strides);
    expect_error(made.prepare(*pool), diag::Code::overlap, "output D overlaps itself",
                 "elements of f32[1, 4, 8] with strides " + to_string(strides) + " share memory");
  }
  made.bindings.tensors[3] = *TensorView::make(static_cast<void*>(memory.data()), DType::f32, {1, 4, 8}, {0, 2, 10});
  EXPECT_TRUE(made.prepare(*pool).has_value());  // rows between the elements of others
}

TEST_F(ExecutionTest, RefusesOtherOverlap) {
  const Sizes sizes{1, 4, 8, 3};
  Made made(add_program(sizes), sizes, config, gen);
  std::vector<float> memory(200);
  made.bindings.tensors[2] = *TensorView::make(static_cast<void*>(memory.data()), DType::f32, {1, 4, 8});
  made.bindings.tensors[3] = *TensorView::make(static_cast<void*>(memory.data() + 8), DType::f32, {1, 4, 8});
  guard(made, package::NoOverlapGuard{3, 2, true});
  expect_error(made.prepare(*pool), diag::Code::overlap, "output D overlaps C",
               "they share memory but are not the identical view: D is f32[1, 4, 8] with strides [32, 8, 1], C is "
               "f32[1, 4, 8] with strides [32, 8, 1] and begins 32 bytes before it");
  made.bindings.tensors[3] = *TensorView::make(static_cast<void*>(memory.data() + 32), DType::f32, {1, 4, 8});
  EXPECT_TRUE(made.prepare(*pool).has_value());  // side by side
  // Interleaved rows share no element.
  made.bindings.tensors[2] = *TensorView::make(static_cast<void*>(memory.data()), DType::f32, {1, 4, 8}, {0, 16, 1});
  made.bindings.tensors[3] =
      *TensorView::make(static_cast<void*>(memory.data() + 8), DType::f32, {1, 4, 8}, {0, 16, 1});
  EXPECT_TRUE(made.prepare(*pool).has_value());

  made.bindings.tensors[3] = made.bindings.tensors[2];
  made.package.steps.erase(made.package.steps.begin());
  guard(made, package::NoOverlapGuard{3, 2, false});
  expect_error(made.prepare(*pool), diag::Code::overlap, "output D overlaps C",
               "C is still read after elements of D are written: D is f32[1, 4, 8] with strides [0, 16, 1], C is "
               "f32[1, 4, 8] with strides [0, 16, 1] and begins at the same address");
  ExecutionOptions unchecked;
  unchecked.pool = pool.get();
  unchecked.allocator = &default_allocator();
  unchecked.checked = false;
  EXPECT_TRUE(Execution::make(std::make_shared<package::Package>(made.package), std::vector<KernelEntry>(1),
                              made.bindings, unchecked)
                  .has_value());
}

// What a bf16 operand makes of the accumulator is an f32: the same memory can't hold both.
TEST_F(ExecutionTest, AnUpdateInPlaceOfAnotherDtypeSaysSo) {
  const Sizes sizes{1, 4, 8, 3};
  Made made(add_program(sizes, true, DType::bf16), sizes, config, gen);
  std::vector<float> memory(200);
  made.bindings.tensors[2] = *TensorView::make(static_cast<void*>(memory.data()), DType::bf16, {1, 4, 8});
  made.bindings.tensors[3] = *TensorView::make(static_cast<void*>(memory.data()), DType::f32, {1, 4, 8});
  guard(made, package::NoOverlapGuard{3, 2, false});
  const auto prepared = made.prepare(*pool);
  expect_error(prepared, diag::Code::overlap, "output D overlaps C",
               "C is bf16, and an operand that is updated in place has the dtype of the output: D is f32[1, 4, 8] with "
               "strides [32, 8, 1], C is bf16[1, 4, 8] with strides [32, 8, 1] and begins at the same address");
  EXPECT_NE(prepared.error().render().find("cast the result to bf16"), std::string::npos) << prepared.error().render();
}

TEST_F(ExecutionTest, ChecksGuardsAndSizes) {
  const Sizes sizes{1, 4, 8, 3};
  Made made(add_program(sizes), sizes, config, gen);
  guard(made, package::EqualGuard{types::Dim::constant(4), types::Dim::constant(5), "the kernel was made for it"});
  expect_error(made.prepare(*pool), diag::Code::guard_failed, "4 must equal 5",
               "they are 4 and 5; the kernel was made for it");
  made.package.steps.erase(made.package.steps.begin());
  guard(made, package::UnitStrideGuard{2});
  EXPECT_TRUE(made.prepare(*pool).has_value());
  std::vector<float> memory(200);
  const TensorView good = made.bindings.tensors[2];
  made.bindings.tensors[2] = *TensorView::make(static_cast<void*>(memory.data()), DType::f32, {1, 4, 8}, {0, 16, 2});
  expect_error(made.prepare(*pool), diag::Code::guard_failed, "C must be contiguous in its last dimension",
               "its stride there is 2");
  Made none(add_program({1, 0, 8, 3}), {1, 0, 8, 3}, config, gen);  // what has no element has no stride that matters
  guard(none, package::UnitStrideGuard{2});
  none.bindings.tensors[2] = *TensorView::make(static_cast<void*>(memory.data()), DType::f32, {1, 0, 8}, {0, 16, 2});
  EXPECT_TRUE(none.prepare(*pool).has_value());
  const auto misfit = [&](size_t buffer, const TensorView& view, const std::string& name, const std::string& reason) {
    const TensorView before = std::exchange(made.bindings.tensors[buffer], view);
    expect_error(made.prepare(*pool), diag::Code::guard_failed, name + " does not fit the kernel", reason);
    made.bindings.tensors[buffer] = before;
  };
  made.bindings.tensors[2] = good;
  const auto view = [&](DType dtype, const Dims& shape) {
    return *TensorView::make(static_cast<void*>(memory.data()), dtype, shape);
  };
  misfit(2, view(DType::f32, {1, 4, 7}), "C", "it is f32[1, 4, 7]; the kernel takes 8 in dim 0 from the last");
  misfit(2, view(DType::f32, {2, 4, 8}), "C", "it is f32[2, 4, 8]; the kernel takes 1 in dim 2 from the last");
  misfit(2, view(DType::i32, {1, 4, 8}), "C", "it is i32[1, 4, 8], the kernel takes f32");
  misfit(3, TensorView(), "D", "it is f32[]; the kernel takes 8 in dim 0 from the last");
  misfit(0, view(DType::f32, {1, 4, 4}), "A", "it is f32[1, 4, 4]; the kernel takes 3 in dim 0 from the last");
  made.bindings.tensors[2] = view(DType::f32, {4, 8});  // a missing dim counts as 1
  EXPECT_TRUE(made.prepare(*pool).has_value());
  made.package.buffers[0].shape = {types::Dim::constant(4), types::Dim::constant(4)};
  misfit(0, view(DType::f32, {4, 4}), "A", "it is f32[4, 4]; the product takes [4, 3] in a batch of 1");
}

TEST_F(ExecutionTest, ResolvesSymbols) {
  const Sizes sizes{1, 6, 8, 3};
  Made made(add_program(sizes), sizes, config, gen);
  const types::Dim m = types::Dim::symbol("m"), k = types::Dim::symbol("k");
  made.package.buffers[0].shape = {types::Dim::constant(1), m, k};
  for (size_t i : {size_t{2}, size_t{3}}) made.package.buffers[i].shape[1] = m;
  auto& launch = std::get<package::LaunchKernel>(made.package.steps[0]);
  launch.m = m;
  launch.product->k = k;
  auto missing = made.prepare(*pool);
  expect_error(missing, diag::Code::package_damaged, "package is damaged",
               "step 0 (launch_kernel): symbol m is not defined yet");
  std::vector<package::Step> defined{package::DefineSymbol{"m", 0, 1}, package::DefineSymbol{"k", 0, 2},
                                     package::DefineSymbol{"m", 2, 1}};
  made.package.steps.insert(made.package.steps.begin(), defined.begin(), defined.end());
  const auto wanted = made.expected();
  auto execution = made.prepare(*pool);
  ASSERT_TRUE(execution.has_value()) << execution.error().render();
  ASSERT_TRUE(execution->run());
  EXPECT_EQ(made.differences(wanted), "");
  std::vector<float> memory(200);
  made.bindings.tensors[2] = *TensorView::make(static_cast<void*>(memory.data()), DType::f32, {1, 5, 8});
  expect_error(made.prepare(*pool), diag::Code::guard_failed, "m is 5 here but 6 elsewhere",
               "dim 1 of C is f32[1, 5, 8]");
}

TEST_F(ExecutionTest, RefusesLaunchesThatACpuCanNotDo) {
  Made made(add_program({}), {}, config, gen);
  std::get<package::LaunchKernel>(made.package.steps[0]).options.cooperative = true;
  expect_error(made.prepare(*pool), diag::Code::step_unsupported, "step 0 (launch_kernel) can not run on cpu:generic");
}

TEST_F(ExecutionTest, TakesAWorkspace) {
  const Sizes sizes{1, 40, 90, 7};
  Made made(add_program(sizes), sizes, config, gen);
  const auto wanted = made.expected();
  auto execution = made.prepare(*pool);
  ASSERT_TRUE(execution.has_value());
  const int64_t size = execution->workspace_size();
  ASSERT_GT(size, 0);
  auto memory = Tensor::make(DType::u8, {size + 64});
  auto* start = static_cast<std::byte*>(memory->data());
  expect_error(execution->set_workspace(nullptr, size), diag::Code::tensor_null, "the workspace is null",
               std::to_string(size) + " bytes are needed");
  expect_error(execution->set_workspace(start + 4, size), diag::Code::tensor_misaligned,
               "the workspace is not aligned to 64 bytes", "its address is 4 modulo 64");
  expect_error(execution->set_workspace(start, size - 1), diag::Code::workspace_small, "the workspace is too small",
               std::to_string(size - 1) + " bytes are given, " + std::to_string(size) + " are needed");
  ASSERT_TRUE(execution->set_workspace(start, size).has_value());
  ASSERT_TRUE(execution->run());
  EXPECT_EQ(made.differences(wanted), "");

  Made nothing(add_program(sizes), sizes, config, gen);
  nothing.package.steps.clear();
  auto empty = nothing.prepare(*pool);
  ASSERT_TRUE(empty.has_value());
  EXPECT_EQ(empty->workspace_size(), 0);
  EXPECT_TRUE(empty->set_workspace(nullptr, 0).has_value());
  ASSERT_TRUE(empty->run());
}

TEST_F(ExecutionTest, EmptySizesRunAndReductionsGetTheirIdentity) {
  for (const Sizes& sizes : {Sizes{1, 0, 8, 3}, Sizes{2, 4, 0, 3}, Sizes{1, 4, 8, 0}}) {
    EpilogueProgram program = add_program(sizes);
    program.arguments.push_back(argument("R", DType::f32, {sizes.batch, sizes.m, 1}, true));
    program.arguments.push_back(argument("S", DType::f32, {1, 1, 1}, true));
    program.operands.push_back(affine(2, DType::f32, true, true, false, true));
    program.operands.push_back(affine(3, DType::f32, false, false, false, true));
    package::Reduction max;
    max.kind = package::ReduceKind::Max;
    max.value = 0;
    package::Reduction mean = max;
    mean.kind = package::ReduceKind::Sum;
    mean.axis = package::ReduceAxis::All;
    mean.mean = true;
    program.reductions = {max, mean};
    PhaseMaker rows(program.phases.emplace_back());
    program.phases.back().reads_accumulator = false;
    program.phases.back().scope = package::Scope::RowPanel;
    rows.store(2, rows.leaf(Inst::Kind::Result, DType::f32, 0));
    PhaseMaker whole(program.phases.emplace_back());
    program.phases.back().reads_accumulator = false;
    program.phases.back().scope = package::Scope::Whole;
    whole.store(3, whole.leaf(Inst::Kind::Result, DType::f32, 1));
    ASSERT_EQ(package::find_defect(program).value_or(""), "");
    Made made(program, sizes, config, gen);
    auto execution = made.prepare(*pool);
    ASSERT_TRUE(execution.has_value()) << execution.error().render();
    ASSERT_TRUE(execution->run());
    const TensorView &c = made.bindings.tensors[2], &d = made.bindings.tensors[3], &r = made.bindings.tensors[4],
                     &s = made.bindings.tensors[5];
    if (sizes.k == 0) {
      EXPECT_EQ(std::memcmp(c.data(), d.data(), 4 * 32), 0);  // the accumulator is 0, the epilogue still runs
      EXPECT_EQ(*s.as<float>(), 0);
    } else {
      for (int64_t i = 0; i < r.element_count(); ++i) EXPECT_EQ(r.as<float>()[i], -INFINITY);
      EXPECT_TRUE(std::isnan(*s.as<float>()));
    }
  }
}

// Two launches: T = A B, D = T B2, with T in the workspace and B2 a constant.
TEST_F(ExecutionTest, TemporariesAndConstants) {
  const Sizes sizes{1, 5, 4, 4};
  Made made(add_program(sizes, false), sizes, config, gen);
  const auto c = [](int64_t v) { return types::Dim::constant(v); };
  const std::vector<types::Dim> shape{c(1), c(5), c(4)};
  package::Buffer temporary{"T", package::Buffer::Role::Temporary, DType::f32, false, shape, {}};
  package::Buffer constant{"twice", package::Buffer::Role::Constant, DType::f32, false, {c(4), c(4)}, {}};
  float twice[16] = {};
  for (int i = 0; i < 4; ++i) twice[5 * i] = 2;
  constant.constant.assign(reinterpret_cast<const char*>(twice), sizeof twice);
  made.package.buffers.push_back(temporary);
  made.package.buffers.push_back(constant);
  auto first = std::get<package::LaunchKernel>(made.package.steps[0]), second = first;
  first.arguments = {3};
  second.product->a = 3;
  second.product->b = 4;
  second.product->k = c(4);
  made.package.pools = {{0, c(128 + 80)}};
  made.package.steps = {package::LoadConstant{4}, package::AllocateFromPool{3, 0, c(128)}, first, second,
                        package::Free{3}};
  auto wanted = made.expected();
  for (auto& element : wanted[0].elements) element.f *= 2;
  auto execution = made.prepare(*pool);
  ASSERT_TRUE(execution.has_value()) << execution.error().render();
  EXPECT_GE(execution->workspace_size(), 128 + 80);
  ASSERT_TRUE(execution->run());
  EXPECT_EQ(made.differences(wanted), "");
  auto memory = Tensor::make(DType::u8, {execution->workspace_size()});
  ASSERT_TRUE(execution->set_workspace(memory->data(), execution->workspace_size()).has_value());
  std::memset(made.bindings.tensors[2].data(), 0, 80);
  ASSERT_TRUE(execution->run());
  EXPECT_EQ(made.differences(wanted), "");

  made.package.buffers[4].constant.pop_back();
  expect_error(made.prepare(*pool), diag::Code::package_damaged, "package is damaged",
               "constant twice is f32[4, 4] and has 63 bytes");
  made.package.buffers[4].constant.assign(64, '\0');
  std::get<package::AllocateFromPool>(made.package.steps[1]).offset = c(INT64_MAX - 10);
  expect_error(made.prepare(*pool), diag::Code::tensor_overflow, "the size of temporary T overflows");
  std::get<package::AllocateFromPool>(made.package.steps[1]).offset = c(192);
  expect_error(made.prepare(*pool), diag::Code::package_damaged, "package is damaged",
               "temporary T ends at byte 272 of pool 0, which has 208");
  made.package.pools[0].bytes = c(INT64_MAX - 10);
  expect_error(made.prepare(*pool), diag::Code::tensor_overflow, "the size of a pool overflows");
}

TEST_F(ExecutionTest, RealReductionsOverSeveralTiles) {
  const Sizes sizes{2, 30, 150, 3};
  for (const DType type : {DType::f32, DType::f64}) {
    EpilogueProgram program;
    program.accumulator = type;
    PhaseMaker first(program.phases.emplace_back());
    first.leaf(Inst::Kind::Accumulator, type);
    PhaseMaker last(program.phases.emplace_back());
    program.phases.back().reads_accumulator = false;
    program.phases.back().scope = package::Scope::Whole;
    for (uint32_t i = 0; i < 8; ++i) {
      package::Reduction reduction;
      reduction.type = type;
      reduction.axis = static_cast<package::ReduceAxis>(i % 4);
      reduction.kind = i < 4 ? package::ReduceKind::LogSumExp : package::ReduceKind::Sum;
      reduction.mean = i >= 4;
      reduction.parts = i >= 4 ? 2 : 1;
      program.reductions.push_back(reduction);
      const bool row = i % 4 == 0, col = i % 4 == 1, all = i % 4 == 2;
      program.arguments.push_back(
          argument("R" + std::to_string(i), type, {all ? 1 : 2, row ? 30 : 1, col ? 150 : 1}, true));
      program.operands.push_back(affine(i, type, !all, row, col, true));
    }
    PhaseMaker maker(program.phases[1]);
    for (uint32_t i = 0; i < 8; ++i) maker.store(i, maker.leaf(Inst::Kind::Result, type, i));
    ASSERT_EQ(package::find_defect(program).value_or(""), "");
    Made made(program, sizes, config, gen);
    const auto wanted = made.expected();
    auto execution = made.prepare(*pool);
    ASSERT_TRUE(execution.has_value()) << execution.error().render();
    ASSERT_TRUE(execution->run());
    for (size_t i = 0; i < 8; ++i) {
      const auto got = array_of(made.bindings.tensors[i + 2]);
      for (size_t e = 0; e < got.elements.size(); ++e) {
        const double want = wanted[i].elements[e].f;
        EXPECT_NEAR(got.elements[e].f, want, (std::fabs(want) + 1) * (type == DType::f32 ? 1e-6 : 1e-14))
            << i << " " << e;
      }
    }
    // NaN in one element reaches its row, its column, its item and the whole, and nothing else.
    TensorView& a = made.bindings.tensors[0];
    types::store_f64(element(a, {1, 7, 0}), type, std::nan(""));
    ASSERT_TRUE(execution->run());
    for (size_t i = 0; i < 8; ++i) {
      const auto got = array_of(made.bindings.tensors[i + 2]);
      for (size_t e = 0; e < got.elements.size(); ++e) {
        const bool hit = i % 4 == 2 || (i % 4 == 0 ? e == 37 : i % 4 == 3 ? e == 1 : e >= 150);
        EXPECT_EQ(std::isnan(got.elements[e].f), hit) << i << " " << e;
      }
    }
  }
}

// More values at once than the stack has room for: narrower blocks, then scratch that tiles take turns with.
TEST_F(ExecutionTest, ManyLiveValues) {
  for (const int count : {300, 2000, 9000}) {
    const Sizes sizes{1, 3, 70, 2};
    EpilogueProgram program = add_program(sizes);
    package::Phase& phase = program.phases[0];
    phase.stores.clear();
    PhaseMaker maker(phase);
    std::vector<uint32_t> values;
    for (int i = 0; i < count; ++i)
      values.push_back(maker.op(Op::add, DType::f32, {0, maker.literal(DType::f32, i % 17)}));
    uint32_t sum = 1;
    for (size_t i = values.size(); i-- > 0;)
      sum = maker.op(i % 2 == 0 ? Op::add : Op::sub, DType::f32, {sum, values[i]});
    maker.store(1, sum);
    Made made(program, sizes, config, gen);
    const auto wanted = made.expected();
    auto two = make_thread_pool(2);
    auto execution = made.prepare(*two);
    ASSERT_TRUE(execution.has_value());
    ASSERT_TRUE(execution->run());
    EXPECT_EQ(made.differences(wanted), "") << count;
  }
}

TEST_F(ExecutionTest, RefusesWhatTheEngineCannotHold) {
  const Sizes sizes{1, 4, 8, 3};
  EpilogueProgram program = add_program(sizes);
  program.reductions.resize(65);
  Made made(program, sizes, config, gen);
  expect_error(made.prepare(*pool), diag::Code::guard_failed, "the epilogue of codetta_made is too large",
               "it has 1 phases and 65 reductions; 64 and 64 can run");
}

}  // namespace
}  // namespace codetta::runtime::test

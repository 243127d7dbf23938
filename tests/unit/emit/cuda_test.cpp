// SPDX-License-Identifier: Apache-2.0
// Emitted CUDA: deterministic text, entries in launch order, and NVRTC takes it for every generation of hardware
// without spills. Skipped where there is no NVRTC.
#include <gtest/gtest.h>

#include "device/embedded.hpp"
#include "emit/emit.hpp"
#include "loaded_source.hpp"
#include "program_maker.hpp"
#include "support/slice.hpp"
#include "toolchain/nvrtc.hpp"
#include "types/op.hpp"

namespace codetta::emit {
namespace {

using package::Access;
using package::GpuEntry;
using package::ReduceAxis;
using package::ReduceKind;
using package::Scope;
using types::Op;

struct Case {
  const char* name;
  package::EpilogueProgram program;
  DType factors = DType::bf16;
};

package::EpilogueProgram relu_aux_store() {
  ProgramMaker m;
  const uint32_t f = m.op(Op::add, f32,
                          {m.op(Op::mul, f32, {m.accum(), m.scalar(f32)}),
                           m.op(Op::mul, f32, {m.load(bf16, Access::Full), m.literal(2.0f)})});
  m.store(m.op(Op::relu, f32, {f}), bf16);
  m.store(f, bf16);
  return m.program;
}

package::EpilogueProgram every_reduction() {
  ProgramMaker m;
  std::vector<uint32_t> all;
  for (const ReduceKind kind : {ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min, ReduceKind::LogSumExp}) {
    for (const ReduceAxis axis : {ReduceAxis::Row, ReduceAxis::Column, ReduceAxis::All, ReduceAxis::Item})
      all.push_back(m.reduce(kind, axis, m.accum()));
  }
  all.push_back(m.reduce(ReduceKind::SumExp, ReduceAxis::Row, m.accum()));
  m.next_phase(Scope::Whole, false);
  for (const uint32_t k : all) {
    const ReduceAxis axis = m.program.reductions[k].axis;
    m.store(m.result(k), f32,
            axis == ReduceAxis::Row      ? Access::Column
            : axis == ReduceAxis::Column ? Access::Row
                                         : Access::Scalar);
  }
  return m.program;
}

package::EpilogueProgram interleaved_swiglu() {
  ProgramMaker m;
  m.program.split.ways = 2;
  m.program.split.chunk = types::Dim::constant(1);
  m.store(m.op(Op::mul, f32, {m.op(Op::silu, f32, {m.accum(0)}), m.accum(1)}), f16);
  return m.program;
}

package::EpilogueProgram quantize() {
  ProgramMaker m(DType::i32);
  m.store(m.op(Op::mul, f32, {m.cast(m.accum(), f32), m.load(f32, Access::Column)}), i8);
  return m.program;
}

std::vector<Case> cases() {
  return {{"relu_aux_store", relu_aux_store()},
          {"softmax", softmax()},
          {"reductions", every_reduction()},
          {"swiglu", interleaved_swiglu()},
          {"quantize", quantize(), DType::i8}};
}

package::GpuGemmConfig simt_config(const Case& c) {
  package::GpuGemmConfig config;
  config.a_dtype = config.b_dtype = c.factors;
  config.accumulator = c.program.accumulator;
  config.piece_cols = config.tile_n / c.program.split.ways;
  return config;
}

TEST(EmitCuda, TextIsDeterministicAndEntriesAreInLaunchOrder) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto source = emit_cuda_kernel(c.program, simt_config(c), {});
    const auto again = emit_cuda_kernel(c.program, simt_config(c), {});
    ASSERT_TRUE(source.has_value()) << source.error().render();
    EXPECT_EQ(source->text, again->text);
    ASSERT_FALSE(source->entries.empty());
    EXPECT_EQ(source->entries[0].kind, GpuEntry::Kind::Gemm);
    for (const GpuEntry& entry : source->entries)
      EXPECT_NE(source->text.find(" " + entry.symbol + "("), std::string::npos) << entry.symbol;
  }
  const auto entries = emit_cuda_kernel(softmax(), simt_config({"", softmax()}), {})->entries;
  std::string order;
  for (const GpuEntry& entry : entries) order += entry.symbol + " ";
  EXPECT_EQ(order, "codetta_gemm codetta_combine_0 codetta_phase_1 codetta_combine_1 codetta_phase_2 ");
}

// Rows that are finished where they are multiplied: an exponential that is only divided by its row's number, for a
// quotient that is only rounded to 16 bits, has a form of its own; one of which more becomes has not.
TEST(EmitCuda, ExponentialsThatAreOnlyDivided) {
  struct Form {
    const char* name;
    bool near;
    uint32_t (*finish)(ProgramMaker& m, uint32_t e, uint32_t quotient);
  };
  const Form forms[] = {
      {"stored", true, [](ProgramMaker&, uint32_t, uint32_t quotient) { return quotient; }},
      {"cast", true, [](ProgramMaker& m, uint32_t, uint32_t quotient) { return m.cast(quotient, bf16); }},
      {"cast and more", true,
       [](ProgramMaker& m, uint32_t, uint32_t quotient) { return m.op(Op::neg, f32, {m.cast(quotient, DType::f16)}); }},
      {"used twice", false,
       [](ProgramMaker& m, uint32_t e, uint32_t quotient) {
         return m.op(Op::add, f32, {quotient, e});
       }},
      {"a difference", false,
       [](ProgramMaker& m, uint32_t, uint32_t quotient) {
         return m.op(Op::sub, f32, {quotient, m.literal(1.0f)});
       }},
      {"quotient used twice", false,
       [](ProgramMaker& m, uint32_t, uint32_t quotient) {
         return m.op(Op::add, f32, {m.cast(quotient, bf16), quotient});
       }},
  };
  for (const Form& form : forms) {
    SCOPED_TRACE(form.name);
    ProgramMaker m;
    const uint32_t x = m.load(bf16, Access::Full), s = m.load(f32, Access::Column), d = m.load(f32, Access::Column);
    const uint32_t e = m.op(Op::exp, f32, {m.op(Op::sub, f32, {x, s})});
    const uint32_t value = form.finish(m, e, m.op(Op::div, f32, {e, d}));
    package::FactorProgram factor{package::FactorProgram::Which::A, 0, bf16, false, m.program.phases[0].insts, value};
    m.program.phases[0].insts.clear();
    m.store(m.accum(), bf16);
    m.program.factors.push_back(factor);
    package::GpuGemmConfig config = simt_config({"made rows", m.program, bf16});
    config.family = package::GpuFamily::Sm90;
    config.tile_m = config.tile_n = 128;
    config.tile_k = 64;
    config.stages = 4;
    config.lanes = 2;
    const auto source = emit_cuda_kernel(m.program, config, {.arch = "sm_90a"});
    ASSERT_TRUE(source) << source.error().render();
    EXPECT_EQ(source->text.find("ct_exp_of(quotients, ") != std::string::npos, form.near) << source->text;
    EXPECT_EQ(source->text.find("ct_quotient_of(quotients, ") != std::string::npos, form.near) << source->text;
    EXPECT_EQ(source->text.find("ct_div_by(quotients, ") == std::string::npos, form.near) << source->text;
  }
}

// B is a matrix of bytes times a number of its row; a further B lies in memory.
TEST(EmitCuda, FactorsThatAreMadeAndFurtherOnes) {
  ProgramMaker m;
  const uint32_t q = m.load(i8, Access::Full), s = m.load(f32, Access::Column);
  const uint32_t value = m.op(Op::mul, f32, {m.op(Op::cast, f32, {q}), s});
  package::FactorProgram factor{package::FactorProgram::Which::B, 0, bf16, false, m.program.phases[0].insts, value};
  m.program.phases[0].insts.clear();
  m.store(m.accum(), f32);
  package::EpilogueProgram makes = m.program;
  makes.factors = {factor};
  package::GpuGemmConfig config;
  config.a_dtype = config.b_dtype = bf16;
  const auto text = [&](const package::EpilogueProgram& program, package::GpuFamily family) {
    config.family = family;
    const auto source = emit_cuda_kernel(program, config, {.arch = "sm_90a", .comments = false});
    return source ? source->text
                  : source.error().diagnostics()[0].headline + ": " + source.error().diagnostics()[0].reason;
  };
  const std::string made = text(makes, package::GpuFamily::Simt);
  for (const char* part : {R"(
  struct MakerB {
    struct Held {
      Kept<i8v> l0;
    };
    using Vector = u16v;
    static constexpr bool batch_in_rows = false;
    template <class P>
    static __device__ __forceinline__ bool aligned(const P& params) {
      return vectorable<i8>(params.operand[0]);
    }
)",
                           R"(
    template <bool whole, class Place, class P>
    static __device__ __forceinline__ void load(const P& params, const Tile& tile, Held& held) {
      MakerFragment<whole, P> f(params, tile);
      const Ref<i8> o0 = f.template ref<i8>(0);
      held.l0 = f.template load_full<i8v>(o0);
    }
)",
                           R"(
      const f32v v1 = f.template load_column<f32v>(o1);
      const i8v l0 = held.l0;
      Made<Vector> o3;
      const i8v v0 = l0;
      const f32v v2 = convert_to<f32v>(v0);
      const f32v v3 = ct_mul(v2, v1);
      f.put_full(o3, narrow_bf16(v3));
      return o3.v;
)"})
    EXPECT_NE(made.find(part), std::string::npos) << part << made;
  // What a factor is computed from says nothing about the epilogue's vectors.
  EXPECT_NE(made.find("const bool whole = tile.cols % 4 == 0 && vectorable<f32>(params.operand[2]);"),
            std::string::npos)
      << made;
  EXPECT_EQ(text(makes, package::GpuFamily::Sm90), "this family makes no such factors: sm90");

  // By the warps that multiply: what belongs to a row is loaded once, in front of all of its vectors.
  ProgramMaker r;
  const uint32_t x = r.load(bf16, Access::Full), t = r.load(f32, Access::Column);
  const uint32_t finished = r.op(Op::div, f32, {x, t});
  package::FactorProgram rows{package::FactorProgram::Which::A, 0, bf16, false, r.program.phases[0].insts, finished};
  r.program.phases[0].insts.clear();
  r.store(r.accum(), f32);
  r.program.factors = {rows};
  EXPECT_EQ(text(r.program, package::GpuFamily::Sm90), "this family makes no such factors: sm90") << "vectors of four";
  config.lanes = 2;
  const std::string made_a = text(r.program, package::GpuFamily::Sm90);
  for (const char* part :
       {"#define CODETTA_WGMMA_MADE \", 1, 1, 1\"\n", "#include \"device/cuda/kernels/make_wgmma.h\"\n",
        "  static constexpr bool makes_a = true;\n", "    static constexpr int source = 0;\n",
        "    static constexpr bool along = false;\n", "    static constexpr bool masked = false;\n", R"(
    template <class P>
    static __device__ __forceinline__ auto at_row(const P& params, const Tile& tile) {
      RowOfA<batch_in_rows, P> f(params, tile);
      const Ref<u16> o0 = f.template ref<u16>(0);
      const Ref<f32> o1 = f.template ref<f32>(1);
      const f32v v1 = f.template load_column<f32v>(o1);
      return [=](const Held& held, const auto& f, auto& quotients) {
        const u16v l0 = held.l0;
        Made<Vector> o3;
        const f32v v0 = widen_bf16(l0);
        const f32v v2 = ct_div_by(quotients, v0, v1);
        f.put_full(o3, narrow_bf16(v2));
        return o3.v;
      };
    }
)"})
    EXPECT_NE(made_a.find(part), std::string::npos) << part << made_a;

  // What lies along K is loaded for each vector, and what a mask leaves out has quotients of its own.
  ProgramMaker k;
  const uint32_t scores = k.load(bf16, Access::Full), bias = k.load(f32, Access::Row),
                 sum = k.load(f32, Access::Column);
  const uint32_t seen = k.op(Op::gt, DType::boolean, {bias, sum});
  k.program.phases[0].insts[seen].aux = f32;  // what is compared
  const uint32_t left = k.op(Op::where, f32, {seen, scores, bias});
  const uint32_t masked = k.op(Op::div, f32, {k.op(Op::exp, f32, {left}), sum});
  package::FactorProgram along{package::FactorProgram::Which::A, 0, bf16, false, k.program.phases[0].insts, masked};
  k.program.phases[0].insts.clear();
  k.store(k.accum(), f32);
  k.program.factors = {along};
  const std::string made_along = text(k.program, package::GpuFamily::Sm90);
  const size_t vectors = made_along.find("return [=](const Held& held, const auto& f, auto& quotients) {\n");
  ASSERT_NE(vectors, std::string::npos) << made_along;
  EXPECT_NE(made_along.find("    static constexpr bool along = true;\n"), std::string::npos) << made_along;
  EXPECT_NE(made_along.find("    static constexpr bool masked = true;\n"), std::string::npos) << made_along;
  EXPECT_LT(made_along.find("load_column<f32v>(o2);"), vectors) << made_along;
  EXPECT_NE(made_along.find("load_row<f32v>(o1);", vectors), std::string::npos) << made_along;

  // A number of the column may be -inf, or far below the others; one of the row is of them all.
  for (const Access access : {Access::Row, Access::Column}) {
    ProgramMaker b;
    const uint32_t score = b.load(bf16, Access::Full), added = b.load(f32, access), total = b.load(f32, Access::Column);
    const uint32_t e = b.op(Op::exp, f32, {b.op(Op::add, f32, {score, added})});
    const uint32_t quotient = b.op(Op::div, f32, {e, total});
    package::FactorProgram biased{package::FactorProgram::Which::A, 0,       bf16, false,
                                  b.program.phases[0].insts,        quotient};
    b.program.phases[0].insts.clear();
    b.store(b.accum(), f32);
    b.program.factors = {biased};
    const std::string made_biased = text(b.program, package::GpuFamily::Sm90);
    const std::string_view masked_text = access == Access::Row ? "bool masked = true;\n" : "bool masked = false;\n";
    EXPECT_NE(made_biased.find(masked_text), std::string::npos) << made_biased;
  }

  package::EpilogueProgram products = m.program;
  products.split = {3, types::Dim::constant(1), 3};
  products.operands[0].unit_stride = false;
  products.operands.push_back(products.operands[0]);
  products.more_b = {0, 3};
  config.tile_n = 192;
  const std::string several = text(products, package::GpuFamily::Sm90);
  for (const char* part : {"  static constexpr int products = 3;\n",
                           "  static __device__ constexpr int more_b(int product) { return product == 1 ? 0 : 3; }\n",
                           "  static __device__ constexpr int more_map(int product) { return product == 1 ? 2 : 3; }\n",
                           "using Parameters = Params<4, 4, 3, 0>;\n"})
    EXPECT_NE(several.find(part), std::string::npos) << part << several;
  const std::string on_sm100 = text(products, package::GpuFamily::Sm100);
  EXPECT_NE(on_sm100.find("more_map(int product) { return product == 1 ? 2 : 3; }\n"), std::string::npos) << on_sm100;
}

TEST(EmitCuda, AFamilyWithoutABodyIsRefused) {
  package::GpuGemmConfig config = simt_config({"", relu_aux_store()});
  config.family = package::GpuFamily::Vendor;
  const auto source = emit_cuda_kernel(relu_aux_store(), config, {});
  ASSERT_FALSE(source.has_value());
  EXPECT_NE(source.error().render().find("vendor"), std::string::npos);
}

TEST(EmitCuda, EveryGenerationCompilesItWithoutSpills) {
  // Where tools/bootstrap puts it; otherwise that of the system.
  const auto nvrtc = toolchain::Nvrtc::find({.cuda_home = CODETTA_SOURCE_DIR "/build/nvrtc"});
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().render();
  std::vector<std::string> paths;
  std::vector<toolchain::CudaHeader> headers;
  const auto files = device::files();
  paths.reserve(files.size());
  for (const device::EmbeddedFile& file : files) {
    paths.push_back("device/" + std::string(file.path));
    headers.push_back({paths.back(), file.text, file.digest_hex});
  }
  // Each case for one architecture, which the current commit picks; in the full suite for all.
  uint64_t turn = test::commit_slice();
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
    for (const Case& c : cases()) {
      if (!CODETTA_TEST_FULL && turn++ % 3 != 0) continue;
      SCOPED_TRACE(std::string(c.name) + " " + arch);
      const auto source = emit_cuda_kernel(c.program, simt_config(c), {.arch = arch});
      ASSERT_TRUE(source.has_value()) << source.error().render();
      const auto compiled = (*nvrtc)->compile({source->text, c.name, source->flags, headers}, {});
      ASSERT_TRUE(compiled.has_value()) << compiled.error().render();
      EXPECT_EQ(compiled->remarks.size(), source->entries.size());
      for (const toolchain::PtxasRemarks& kernel : compiled->remarks) {
        EXPECT_EQ(kernel.spill_store_bytes + kernel.spill_load_bytes + kernel.stack_bytes, 0) << kernel.kernel;
      }
      RecordProperty(std::string(c.name) + "_" + arch + "_ms", static_cast<int>(compiled->seconds * 1000));
    }
  }
}

}  // namespace
}  // namespace codetta::emit

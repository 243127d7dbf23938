// SPDX-License-Identifier: Apache-2.0
// NaN, infinities, signed zeros and range ends through every op and conversion; emitted text itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "device/cpu/abi.h"
#include "loaded_source.hpp"
#include "program_maker.hpp"
#include "support/real_ops.hpp"
#include "types/convert.hpp"

namespace codetta::emit {

using types::Op;
namespace {

using package::Access;

// Runs a program with one row; operands are given in program order.
void run(const package::EpilogueProgram& program, CpuIsa isa, const TestCompiler& compiler,
         const std::vector<void*>& buffers, size_t columns) {
  const auto source = emit_cpu_epilogue(program, {isa});
  ASSERT_TRUE(source.has_value()) << source.error().render();
  const LoadedSource loaded(*source, compiler);
  const auto function = reinterpret_cast<cpu::EpilogueFunction>(loaded.symbol(source->entry));
  ASSERT_NE(function, nullptr) << loaded.log();
  std::vector<cpu::Operand> operands;
  for (void* buffer : buffers) operands.push_back({buffer, {0, 0, 1}});
  alignas(64) static const float accumulators[1 << 19] = {};
  cpu::EpilogueArgs args{};
  args.operands = operands.data();
  args.batches = args.rows = args.tile_rows = args.tile_cols = 1;
  args.cols = static_cast<int64_t>(columns);
  cpu::Tile tile{};
  tile.acc = accumulators;
  tile.acc_col_stride = tile.rows = 1;
  tile.cols = args.cols;
  function(&args, &tile);
}

template <class T>
const std::vector<T>& specials() {
  using L = std::numeric_limits<T>;
  static const std::vector<T> values{0,
                                     T(-0.0),
                                     1,
                                     -1,
                                     T(0.5),
                                     T(-0.5),
                                     T(1.5),
                                     T(2.5),
                                     T(-2.5),
                                     3,
                                     -3,
                                     T(0.1),
                                     T(-7.25),
                                     100,
                                     -100,
                                     T(1e4),
                                     L::infinity(),
                                     -L::infinity(),
                                     L::quiet_NaN(),
                                     L::max(),
                                     L::lowest(),
                                     L::min(),
                                     -L::min(),
                                     L::denorm_min(),
                                     -L::denorm_min(),
                                     T(88.8),
                                     T(-88.8),
                                     T(1e9),
                                     T(-1e9),
                                     T(127.5),
                                     T(255.5),
                                     T(-128.5)};
  return values;
}

// Whether a zero's sign is defined for the op at this result (semantics.md leaves it open where zeros of both signs
// meet).
bool zero_sign_is_defined(Op op) {
  switch (op) {
    case Op::minimum:
    case Op::maximum:
    case Op::clamp:
    case Op::sign:
    case Op::mod:
    case Op::floordiv:
    case Op::multiply_add:
    case Op::dsilu:
    case Op::dgelu_erf:
    case Op::dgelu_tanh:
      return false;  // sums whose terms underflow
    default:
      return true;
  }
}

template <class T>
void check_ops(DType type) {
  std::vector<T> x, y, z;
  for (const T a : specials<T>()) {
    for (const T b : specials<T>()) {
      x.push_back(a);
      y.push_back(b);
      z.push_back(T(1));
    }
  }
  ProgramMaker m;
  const uint32_t vx = m.load(type, Access::Full), vy = m.load(type, Access::Full), vz = m.load(type, Access::Full);
  std::vector<Op> ops;
  for (const types::OpInfo& info : types::all_ops()) {
    const bool plain = info.rule == types::OpRule::arith || info.rule == types::OpRule::real;
    if (!info.elementwise() || !plain || info.op == Op::dropout || info.op == Op::multiply_add ||
        info.op == Op::softplus)
      continue;
    std::vector<uint32_t> in{vx, vy, vz};
    in.resize(static_cast<size_t>(info.arity));
    m.store(m.op(info.op, type, in), type);
    ops.push_back(info.op);
  }
  m.store(m.accum(), f32);
  for (const CpuIsa isa : runnable_isas()) {
    for (const TestCompiler& compiler : test_compilers(isa)) {
      SCOPED_TRACE(std::string(isa_name(isa)) + " " + compiler.path);
      std::vector<std::vector<T>> out(ops.size(), std::vector<T>(x.size(), T(77)));
      std::vector<float> accumulators(x.size());
      std::vector<void*> buffers{x.data(), y.data(), z.data()};
      for (auto& o : out) buffers.push_back(o.data());
      buffers.push_back(accumulators.data());
      run(m.program, isa, compiler, buffers, x.size());
      for (size_t o = 0; o < ops.size(); ++o) {
        for (size_t i = 0; i < x.size(); ++i) {
          const T got = out[o][i];
          const long double exact = test::real_op<long double>(ops[o], x[i], y[i], z[i]);
          T expected = static_cast<T>(exact);
          const auto report = [&] {
            return ::testing::Message() << types::op_info(ops[o]).name << "(" << x[i] << ", " << y[i] << ") gives "
                                        << got << ", not " << expected;
          };
          // x - floor(x / y) y and floor(x / y) of numbers whose quotient leaves the format.
          if (ops[o] == Op::floordiv) expected = std::floor(x[i] / y[i]);
          ASSERT_EQ(std::isnan(got), std::isnan(expected)) << report();
          if (std::isnan(got)) continue;
          // One value is at the edge of the range: exp(88.8) and its relatives.
          if (std::isinf(got) != std::isinf(expected)) {
            ASSERT_GT(std::fabs(exact), std::numeric_limits<T>::max() *
                                            (1 - 8 * static_cast<long double>(std::numeric_limits<T>::epsilon())))
                << report();
            continue;
          }
          if (expected == 0 && got == 0 && zero_sign_is_defined(ops[o])) {
            ASSERT_EQ(std::signbit(got), std::signbit(expected)) << report();
          }
          if (std::isinf(got)) {
            ASSERT_EQ(got, expected) << report();
          }
        }
      }
    }
  }
}

TEST(SpecialValues, OpsOnF32) { check_ops<float>(f32); }
TEST(SpecialValues, OpsOnF64) { check_ops<double>(f64); }

TEST(SpecialValues, RemaindersBySubnormalsAreExact) {
  std::vector<double> x, y;
  for (const double a : {100.0, 1.0, -0.3, 1e-300, 2e-308, 11 * 0x1p-1074}) {
    for (const double b : {3 * 0x1p-1074, -7 * 0x1p-1074, 0x1.8p-1030, 0x1.5p-1022}) x.push_back(a), y.push_back(b);
  }
  ProgramMaker m;
  const uint32_t vx = m.load(f64, Access::Full), vy = m.load(f64, Access::Full);
  m.store(m.op(Op::mod, f64, {vx, vy}), f64);
  m.store(m.accum(), f32);
  for (const CpuIsa isa : runnable_isas()) {
    for (const TestCompiler& compiler : test_compilers(isa)) {
      std::vector<double> out(x.size(), 77);
      std::vector<float> accumulators(x.size());
      run(m.program, isa, compiler, {x.data(), y.data(), out.data(), accumulators.data()}, x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        double want = std::fmod(x[i], y[i]);
        if (want != 0 && (want < 0) != (y[i] < 0)) want += y[i];
        EXPECT_EQ(out[i], want) << x[i] << " modulo " << y[i];
      }
    }
  }
}

// Stores and casts of every float to every dtype, over range ends, against types::convert.
TEST(SpecialValues, Conversions) {
  for (const DType from : {f32, f64}) {
    std::vector<double> values(specials<double>());
    for (const float v : specials<float>()) values.push_back(static_cast<double>(v));
    for (const double v :
         {2147483647.0, 2147483648.0, -2147483648.0, 4294967295.0, 9.3e18,          1.9e19,    -9.3e18,
          65504.0,      65519.0,      65520.0,       448.0,        464.0,           465.0,     57344.0,
          6e4,          0x1p-24,      0x1p-25,       0x1.8p-25,    0x1p-9,          0x1p-10,   0x1.8p-10,
          0x1p-16,      0x1p-17,      0x1.01p0,      0x1.0081p0,   0x1.008000001p0, 0x1.018p0, 0x1p-133,
          0x1p-134,     0x1.8p-134,   32767.5,       65535.5,      -32768.5}) {
      values.push_back(v);
      values.push_back(-v);
    }
    std::vector<float> narrow(values.begin(), values.end());
    const size_t n = values.size();
    ProgramMaker m;
    const uint32_t x = m.load(from, Access::Full);
    for (int d = 0; d < dtype_count; ++d) m.store(x, static_cast<DType>(d));
    for (int d = 0; d < dtype_count; ++d) m.store(m.cast(x, static_cast<DType>(d)), static_cast<DType>(d));
    m.store(m.accum(), f32);
    for (const CpuIsa isa : runnable_isas()) {
      for (const TestCompiler& compiler : test_compilers(isa)) {
        SCOPED_TRACE(std::string(isa_name(isa)) + " " + compiler.path);
        std::vector<std::vector<std::byte>> out(2 * dtype_count + 1, std::vector<std::byte>(n * 8));
        std::vector<void*> buffers{from == f32 ? static_cast<void*>(narrow.data()) : values.data()};
        for (auto& o : out) buffers.push_back(o.data());
        run(m.program, isa, compiler, buffers, n);
        for (int o = 0; o < 2 * dtype_count; ++o) {
          const auto to = static_cast<DType>(o % dtype_count);
          for (size_t i = 0; i < n; ++i) {
            const double value = from == f32 ? static_cast<double>(narrow[i]) : values[i];
            const bool rounds = o < dtype_count && types::is_integer(to);
            const types::Scalar expected =
                convert(types::Scalar::from_f64(rounds ? std::nearbyint(value) : value, rounds ? f64 : from), to);
            const types::Scalar got = types::Scalar::load(
                out[static_cast<size_t>(o)].data() + i * static_cast<size_t>(types::byte_size(to)), to);
            if (types::is_float(to) && std::isnan(expected.as_f64())) {
              EXPECT_TRUE(std::isnan(got.as_f64())) << dtype_name(to);
            } else {
              EXPECT_EQ(got, expected) << (o < dtype_count ? "store of " : "cast of ") << value << " to "
                                       << dtype_name(to) << ": " << to_string(got);
            }
          }
        }
      }
    }
  }
}

// Every bf16 with every way to round to it or to its neighbour: in order of value, where whole vectors are subnormal,
// and shuffled, where single lanes are.
TEST(SpecialValues, EveryRoundingToBf16) {
  std::vector<float> values;
  for (uint32_t high = 0; high <= 0xffff; ++high) {
    for (const uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      values.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  ProgramMaker m;
  m.store(m.load(f32, Access::Full), bf16);
  m.store(m.accum(), f32);
  for (const bool shuffled : {false, true}) {
    if (shuffled) std::shuffle(values.begin(), values.end(), std::mt19937_64(7));
    for (const CpuIsa isa : runnable_isas()) {
      for (const TestCompiler& compiler : test_compilers(isa)) {
        SCOPED_TRACE(std::string(isa_name(isa)) + " " + compiler.path);
        std::vector<uint16_t> out(values.size(), 0x1234);
        std::vector<float> accumulators(values.size());
        run(m.program, isa, compiler, {values.data(), out.data(), accumulators.data()}, values.size());
        size_t wrong = 0;
        for (size_t i = 0; i < values.size(); ++i) {
          uint16_t expected = 0;
          types::convert(reinterpret_cast<const std::byte*>(&values[i]), f32, reinterpret_cast<std::byte*>(&expected),
                         bf16, 1);
          const bool nan = std::isnan(values[i]) && (out[i] & 0x7fffu) > 0x7f80u;
          if (out[i] != expected && !nan && ++wrong < 5) {
            ADD_FAILURE() << std::hexfloat << values[i] << " became " << std::hex << out[i] << ", not " << expected;
          }
        }
        EXPECT_EQ(wrong, 0u);
      }
    }
  }
}

// What the other tests of this program go by.
TEST(RunnableIsas, Bf16IsALevelOfItsOwnWhereItIsRoundedTo) {
  for (const DType to : {bf16, f16, f32}) {
    ProgramMaker m;
    m.store(m.load(f32, Access::Full), to);
    m.store(m.accum(), f32);
    for (const CpuIsa isa : {CpuIsa::generic, CpuIsa::avx512, CpuIsa::avx512_bf16}) {
      const auto source = emit_cpu_epilogue(m.program, {isa});
      ASSERT_TRUE(source.has_value()) << source.error().render();
      EXPECT_EQ(emits_of_its_own(isa, *source), isa != CpuIsa::avx512_bf16 || to == bf16) << dtype_name(to);
    }
  }
  const std::vector<CpuIsa> isas = runnable_isas();
  EXPECT_EQ(std::count(isas.begin(), isas.end(), CpuIsa::avx512_bf16), cpu_supports(CpuIsa::avx512_bf16) ? 1 : 0);
}

// A pair is compiled beside the single position, which long epilogues would pay for in time to compile.
TEST(EmittedText, LightEpiloguesStoreTwoVectorsOfBf16AtATime) {
  for (const int gelus : {0, 1, 2}) {
    for (const CpuIsa isa : {CpuIsa::avx512, CpuIsa::avx512_bf16, CpuIsa::amx}) {
      for (const DType to : {bf16, f16}) {
        ProgramMaker m;
        auto value = m.accum();
        for (int i = 0; i < gelus; ++i) value = m.op(Op::gelu_tanh, f32, {m.op(Op::add, f32, {value, m.accum()})});
        m.store(value, to);
        const auto source = emit_cpu_epilogue(m.program, {isa});
        ASSERT_TRUE(source.has_value()) << source.error().render();
        EXPECT_EQ(source->text.find("put_pair") != std::string::npos,
                  isa >= CpuIsa::avx512_bf16 && to == bf16 && gelus < 2)
            << isa_name(isa) << " " << dtype_name(to) << " " << gelus;
      }
    }
  }
}

TEST(EmittedText, IsTheSameEveryTimeAndHoldsNoUserNames) {
  ProgramMaker m;
  m.store(m.op(Op::gelu_erf, f32, {m.op(Op::add, f32, {m.accum(), m.load(bf16, Access::Row)})}), bf16);
  for (package::Argument& argument : m.program.arguments) argument.name = "evil_name\n#error */";
  for (const bool comments : {true, false}) {
    const auto first = emit_cpu_epilogue(m.program, {CpuIsa::avx512, false, comments}),
               second = emit_cpu_epilogue(m.program, {CpuIsa::avx512, false, comments});
    ASSERT_TRUE(first.has_value() && second.has_value());
    EXPECT_EQ(first->text, second->text);
    EXPECT_EQ(first->text.find("evil"), std::string::npos);
    EXPECT_EQ(first->text.find("#include"), std::string::npos);
    for (const std::string& flag : first->gcc_flags) EXPECT_NE(flag, "-ffast-math");
  }
}

// Each phase asks how the results of the one before vary: work that doubles with each would not end.
TEST(EmittedText, SixtyPhasesInARow) {
  ProgramMaker m;
  uint32_t value = m.accum();
  for (int i = 0; i < 60; ++i) {
    const uint32_t sum = m.reduce(package::ReduceKind::Sum, package::ReduceAxis::Row, value);
    m.next_phase(package::Scope::RowPanel, true);
    value = m.op(Op::sub, f32, {m.accum(), m.result(sum)});
  }
  m.store(value, f32);
  const auto source = emit_cpu_epilogue(m.program, {CpuIsa::generic});
  ASSERT_TRUE(source.has_value()) << source.error().render();
  EXPECT_NE(source->text.find("phase_60("), std::string::npos);
}

TEST(EmittedText, ABrokenProgramIsAnInternalError) {
  ProgramMaker m;
  m.store(m.accum(), f32);
  m.program.phases[0].stores[0].value = 9;
  const auto source = emit_cpu_epilogue(m.program, {});
  ASSERT_FALSE(source.has_value());
  EXPECT_EQ(source.error().code(), 901);
  EXPECT_EQ(source.error().diagnostics()[0].headline, "the epilogue program is not valid");
}

}  // namespace
}  // namespace codetta::emit

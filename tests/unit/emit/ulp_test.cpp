// SPDX-License-Identifier: Apache-2.0
// Stated accuracy (device/cpu/ulp.def) against long double: every real function, f32 and f64, every ISA, with or
// without contraction as the commit picks. f32 arguments step through all bit patterns (about 540,000 of them, of which
// each commit takes a quarter, as of random ones; with CODETTA_TEST_FULL 10^7).
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>

#include "device/cpu/abi.h"
#include "loaded_source.hpp"
#include "program_maker.hpp"
#include "support/real_ops.hpp"
#include "support/slice.hpp"
#include "support/ulps.hpp"

namespace codetta::emit {

using types::Op;
namespace {

struct Stated {
  double f32_ulp = 0.5, f32_abs = 0, f64_ulp = 0.5, f64_abs = 0;
};

std::map<Op, Stated> stated_accuracy() {
  std::map<Op, Stated> table;
#define CODETTA_ULP(name, f32_ulp, f32_abs, f64_ulp, f64_abs) table[Op::name] = {f32_ulp, f32_abs, f64_ulp, f64_abs};
#include "device/cpu/ulp.def"
#undef CODETTA_ULP
  return table;
}

// Functions of one argument, then of two and three (further arguments from the same range).
std::vector<Op> measured_ops(int arity) {
  std::vector<Op> ops;
  for (const types::OpInfo& info : types::all_ops()) {
    if (info.elementwise() && info.rule == types::OpRule::real && info.arity == arity && info.op != Op::dropout)
      ops.push_back(info.op);
  }
  if (arity == 2) ops.push_back(Op::pow);
  return ops;
}

package::EpilogueProgram program_of(const std::vector<Op>& ops, DType type, int arity) {
  ProgramMaker m;
  std::vector<uint32_t> in;
  for (int i = 0; i < arity; ++i) in.push_back(m.load(type, package::Access::Full));
  for (const Op op : ops) m.store(m.op(op, type, in), type);
  m.store(m.accum(), f32, package::Access::Full);
  return m.program;
}

template <class T>
class Measurement {
 public:
  Measurement(DType type, int arity)
      : type_(type), arity_(arity), ops_(measured_ops(arity)), program_(program_of(ops_, type, arity)) {
    accumulators_.resize(count + 16);
  }

  // In blocks: arguments[i] are the i-th operands.
  void feed(const std::vector<std::vector<T>>& arguments) {
    const size_t n = arguments[0].size();
    std::vector<std::vector<T>> results(ops_.size(), std::vector<T>(n));
    std::vector<float> accumulator_out(n);
    std::vector<cpu::Operand> operands;
    for (int i = 0; i < arity_; ++i)
      operands.push_back({const_cast<T*>(arguments[static_cast<size_t>(i)].data()), {0, 0, 1}});
    for (auto& result : results) operands.push_back({result.data(), {0, 0, 1}});
    operands.push_back({accumulator_out.data(), {0, 0, 1}});
    cpu::EpilogueArgs args{};
    args.operands = operands.data();
    args.batches = args.rows = args.tile_rows = args.tile_cols = 1;
    args.cols = static_cast<int64_t>(n);
    cpu::Tile tile{};
    tile.acc = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(accumulators_.data()) + 63) / 64 * 64);
    tile.acc_col_stride = tile.rows = 1;
    tile.cols = args.cols;
    std::vector<long double> truth;
    for (const auto& function : functions_) {
      function(&args, &tile);
      if (truth.empty()) {
        for (const Op op : ops_) {
          for (size_t i = 0; i < n; ++i) {
            const auto at = [&](size_t k) {
              return k < arguments.size() ? static_cast<long double>(arguments[k][i]) : 0.0L;
            };
            truth.push_back(test::real_op<long double>(op, at(0), at(1), at(2)));
          }
        }
      }
      for (size_t o = 0; o < ops_.size(); ++o) {
        const Stated& stated = stated_[ops_[o]];
        Worst& worst = worst_[ops_[o]];
        for (size_t i = 0; i < n; ++i) {
          const double error =
              test::error_in_ulps(results[o][i], truth[o * n + i], type_ == f32 ? stated.f32_abs : stated.f64_abs);
          if (error <= worst.ulps) continue;
          worst = {error, {}, static_cast<double>(results[o][i]), static_cast<double>(truth[o * n + i])};
          for (const auto& argument : arguments) worst.at.push_back(static_cast<double>(argument[i]));
        }
      }
    }
  }

  bool load(std::string& log) {
    uint64_t which = 0;
    for (const CpuIsa isa : runnable_isas()) {
      for (const bool strict : {false, true}) {
        const uint64_t turn = which++;
        if (!test::commit_takes(turn + turn / 2, 2)) continue;  // strict or not, another way at each level
        const auto source = emit_cpu_epilogue(program_, {isa, strict, false});
        if (!source) return false;
        if (!emits_of_its_own(isa, *source)) continue;
        loaded_.push_back(std::make_unique<LoadedSource>(*source, test_compilers()[0]));
        functions_.push_back(reinterpret_cast<cpu::EpilogueFunction>(loaded_.back()->symbol(source->entry)));
        log += loaded_.back()->log();
        if (functions_.back() == nullptr) return false;
      }
    }
    return true;
  }

  void expect_stated() {
    for (const Op op : ops_) {
      const Stated& stated = stated_[op];
      const double bound = type_ == f32 ? stated.f32_ulp : stated.f64_ulp;
      const Worst& worst = worst_[op];
      std::string at;
      for (const double x : worst.at) at += " " + std::to_string(x);
      std::printf("%-12s %s %8.3f ulp of %g\n", std::string(types::op_info(op).name).c_str(),
                  type_ == f32 ? "f32" : "f64", worst.ulps, bound);
      EXPECT_LE(worst.ulps, bound) << types::op_info(op).name << at << " gives " << worst.got << ", exact "
                                   << worst.exact;
    }
  }

  static constexpr size_t count = 8192;

 private:
  struct Worst {
    double ulps = 0;
    std::vector<double> at;
    double got = 0, exact = 0;
  };
  DType type_;
  int arity_;
  std::vector<Op> ops_;
  package::EpilogueProgram program_;
  std::map<Op, Stated> stated_ = stated_accuracy();
  std::map<Op, Worst> worst_;
  std::vector<float> accumulators_;
  std::vector<std::unique_ptr<LoadedSource>> loaded_;
  std::vector<cpu::EpilogueFunction> functions_;
};

TEST(Ulp, F32FunctionsOfOneArgument) {
  Measurement<float> measure(f32, 1);
  std::string log;
  ASSERT_TRUE(measure.load(log)) << log;
  // Every stride-th bit pattern, with a different offset in each block of the walk.
  const uint64_t stride = CODETTA_TEST_FULL != 0 ? 397 : uint64_t{7919} * 4;
  const uint64_t start = CODETTA_TEST_FULL != 0 ? 0 : 7919 * (test::commit_slice() % 4);
  std::vector<std::vector<float>> x(1);
  for (uint64_t bits = start; bits < (uint64_t{1} << 32); bits += stride) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isfinite(value)) x[0].push_back(value);
    if (x[0].size() == measure.count || bits + stride >= (uint64_t{1} << 32)) {
      measure.feed(x);
      x[0].clear();
    }
  }
  // Where the functions bend.
  std::mt19937_64 random(1);
  for (const double range : {0.01, 1.0, 5.0, 20.0, 120.0}) {
    for (int block = 0; block < 8; ++block) {
      x[0].clear();
      for (size_t i = 0; i < measure.count; ++i)
        x[0].push_back(static_cast<float>(std::uniform_real_distribution<double>(-range, range)(random)));
      if (test::commit_takes(static_cast<uint64_t>(block), 4)) measure.feed(x);
    }
  }
  measure.expect_stated();
}

TEST(Ulp, F64FunctionsOfOneArgument) {
  Measurement<double> measure(f64, 1);
  std::string log;
  ASSERT_TRUE(measure.load(log)) << log;
  std::mt19937_64 random(2);
  std::vector<std::vector<double>> x(1);
  const int blocks = CODETTA_TEST_FULL != 0 ? 200 : 12;
  for (const double range : {0.0, 1e-3, 1.0, 5.0, 40.0, 800.0}) {
    for (int block = 0; block < blocks; ++block) {
      x[0].clear();
      while (x[0].size() < measure.count) {
        const double value = range != 0 ? std::uniform_real_distribution<double>(-range, range)(random)
                                        : std::bit_cast<double>(random());
        if (std::isfinite(value)) x[0].push_back(value);
      }
      if (test::commit_takes(static_cast<uint64_t>(block), 4)) measure.feed(x);
    }
  }
  measure.expect_stated();
}

template <class T>
void measure_more_arguments(DType type, int arity) {
  Measurement<T> measure(type, arity);
  std::string log;
  ASSERT_TRUE(measure.load(log)) << log;
  std::mt19937_64 random(3);
  const int blocks = CODETTA_TEST_FULL != 0 ? 100 : 8;
  for (const double range : {1.0, 4.0, 30.0, 600.0}) {
    for (int block = 0; block < blocks; ++block) {
      std::vector<std::vector<T>> x(static_cast<size_t>(arity));
      for (size_t i = 0; i < measure.count; ++i) {
        x[0].push_back(static_cast<T>(std::uniform_real_distribution<double>(-range, range)(random)));
        for (size_t k = 1; k < x.size(); ++k)
          x[k].push_back(static_cast<T>(
              std::uniform_real_distribution<double>(k == 1 && arity == 3 ? 0.25 : -range, range)(random)));
      }
      if (test::commit_takes(static_cast<uint64_t>(block), 4)) measure.feed(x);
    }
  }
  measure.expect_stated();
}

TEST(Ulp, FunctionsOfTwoArguments) {
  measure_more_arguments<float>(f32, 2);
  measure_more_arguments<double>(f64, 2);
}

TEST(Ulp, FunctionsOfThreeArguments) {
  measure_more_arguments<float>(f32, 3);
  measure_more_arguments<double>(f64, 3);
}

}  // namespace
}  // namespace codetta::emit

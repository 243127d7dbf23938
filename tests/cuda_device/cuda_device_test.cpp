// SPDX-License-Identifier: Apache-2.0
// GEMMs with epilogues on a GPU, through the public interface, against the reference.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "cuda_device/fixture.hpp"

namespace codetta {
namespace {

using DeviceGemm = OnGpu;

TEST_F(DeviceGemm, EveryElementType) {
  struct Row {
    DType a, b, out;
  };
  const Row rows[] = {{f32, f32, f32},   {f64, f64, f64},  {f16, f16, f16},      {bf16, bf16, bf16},
                      {bf16, bf16, f32}, {i8, i8, i32},    {u8, i8, i32},        {u8, u8, i32},
                      {f16, bf16, f32},  {f32, bf16, f32}, {f8e4m3, f8e4m3, f16}};
  for (const Row& row : rows) {
    const std::string what = std::string(dtype_name(row.a)) + " x " + std::string(dtype_name(row.b)) + " -> " +
                             std::string(dtype_name(row.out));
    expect_right(problem(row.a, row.b, {130, 136, 72}, plain, {{"D", row.out, {130, 136}, true}}), what);
  }
}

TEST_F(DeviceGemm, EpiloguesOfEveryKind) {
  const int64_t m = 257, n = 192, k = 128;
  for (const DType t : {f32, bf16}) {
    const std::string type(dtype_name(t));
    expect_right(problem(t, t, {m, n, k},
                         "def relu_aux_store(accum, alpha, C):\n    F = (accum * alpha) + (C * 2.0)\n    D = relu(F)\n"
                         "    return D, F\n",
                         {{"C", t, {m, n}}, {"D", t, {m, n}, true}, {"F", t, {m, n}, true}}, {{"alpha", 0.5}}),
                 type + " relu_aux_store");
    expect_right(problem(t, t, {m, n, k}, "def f(accum, bias): D = gelu(accum + bias); return D",
                         {{"bias", t, {n}}, {"D", t, {m, n}, true}}),
                 type + " bias gelu");
    expect_right(
        problem(t, t, {m, n, k},
                "def f(accum, scale):\n    D = accum * scale\n    total = sum(D, dim=-1)\n    top = amax(accum)\n"
                "    return D, total, top\n",
                {{"scale", f32, {m, 1}}, {"D", t, {m, n}, true}, {"total", f32, {m, 1}, true}, {"top", f32, {}, true}}),
        type + " reductions");
    expect_right(problem(t, t, {m, n, k}, "def f(accum):\n    D = accum - logsumexp(accum, dim=-1)\n    return D\n",
                         {{"D", f32, {m, n}, true}}),
                 type + " log softmax");
    expect_right(
        problem(t, t, {m, n, k},
                "def f(accum):\n    gate, up = split(accum, 2, dim=-1)\n    D = silu(gate) * up\n    return D\n",
                {{"D", t, {m, n / 2}, true}}),
        type + " swiglu");
  }
}

TEST_F(DeviceGemm, LayoutsBatchesAndTails) {
  for (int way = 0; way < 4; ++way) {
    const Shape shape{70, 45, 33, 0, (way & 1) != 0, (way & 2) != 0};
    for (const DType t : {f32, f16})
      expect_right(problem(t, t, shape, plain, {{"D", t, {70, 45}, true}}), "layout " + std::to_string(way));
  }
  expect_right(problem(bf16, bf16, {40, 48, 64, 3}, plain, {{"D", bf16, {3, 40, 48}, true}}), "batched");
  for (const int64_t size : {1, 2, 15, 17, 63, 129}) {
    expect_right(product(size, 64, 32), "m = " + std::to_string(size));
    expect_right(product(16, size, 32, bf16), "n = " + std::to_string(size));
    expect_right(product(16, 64, size, bf16), "k = " + std::to_string(size));
  }
}

// sm_90a: each way of a matrix and each size of its elements, in and out, also beyond the edges of tiles.
TEST_F(DeviceGemm, ColumnMajorMatricesByTheCopyEngine) {
  const auto first = kernels(product(256, 256, 256, bf16));
  if (first[0].metadata().name.find("sm_90a") == std::string::npos) GTEST_SKIP() << "TMA stores need sm_90a";
  const std::string text =
      "def f(accum, C, X):\n    D = accum + C * permute(X, (1, 0))\n    E = D - C\n    return D, E\n";
  int tried = 0;
  for (int way = 0; way < 8; ++way) {
    const DType c = (way & 1) != 0 ? f32 : bf16, e = (way & 2) != 0 ? f32 : bf16;
    const bool swapped = (way & 4) != 0;
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>(512, 384), {1144, 872}, {72, 1000}}) {
      const Problem p = problem(bf16, bf16, {m, n, 192}, text,
                                {{"C", c, {m, n}, false, !swapped},
                                 {"X", e, {n, m}, false, swapped},
                                 {"D", bf16, {m, n}, true, swapped},
                                 {"E", e, {m, n}, true, !swapped}});
      int here = 0;
      for (const Kernel& kernel : kernels(p)) {
        if (kernel.metadata().name.find("_tma_") == std::string::npos || ++here > 3) continue;
        poison(p);
        auto execution = kernel.prepare(p.arguments);
        ASSERT_TRUE(execution) << kernel.metadata().name << "\n" << execution.error().render();
        ASSERT_TRUE(execution->run());
        check(p,
              std::to_string(way) + " " + std::to_string(m) + " x " + std::to_string(n) + " " + kernel.metadata().name);
        ++tried;
      }
    }
  }
  EXPECT_GT(tried, 24);
}

// sm_90a: sums and largest elements of columns beside stores and rows, in tiles of each kind, whole ones and such whose
// last rows and columns do not exist; the last tile of a block, which two consumers finish, among them.
TEST_F(DeviceGemm, ColumnReductionsByTheCopyEngine) {
  const auto first = kernels(product(256, 256, 256, bf16));
  if (first[0].metadata().name.find("sm_90a") == std::string::npos) GTEST_SKIP() << "TMA stores need sm_90a";
  const std::string text =
      "def f(accum, C, b):\n    D = relu(accum * b + C)\n    G = sum(D, axis=\"column\")\n"
      "    M = max(accum, axis=\"column\")\n    S = sum(D, axis=\"row\")\n    return D, G, M, S\n";
  std::map<std::string, int> tried;  // by schedule
  for (const auto& [m, n] :
       {std::pair<int64_t, int64_t>(512, 384), {1144, 872}, {72, 1000}, {129, 520}, {3001, 2008}}) {
    for (const DType c : {bf16, f32}) {
      const Problem p = problem(bf16, bf16, {m, n, 72}, text,
                                {{"C", c, {m, n}},
                                 {"b", f32, {m, 1}},
                                 {"D", bf16, {m, n}, true},
                                 {"G", f32, {n}, true},
                                 {"M", f32, {n}, true},
                                 {"S", f32, {m, 1}, true}});
      std::map<std::string, int> here;
      for (const Kernel& kernel : kernels(p)) {
        const std::string& name = kernel.metadata().name;
        const std::string schedule = name.find("_pp_") != std::string::npos     ? "in turns"
                                     : name.find("_coop_") != std::string::npos ? "cooperative"
                                                                                : "one consumer";
        if (name.find("_tma_") == std::string::npos || ++here[schedule] > 2) continue;
        poison(p);
        auto execution = kernel.prepare(p.arguments);
        ASSERT_TRUE(execution) << name << "\n" << execution.error().render();
        ASSERT_TRUE(execution->run());
        check(p, std::to_string(m) + " x " + std::to_string(n) + " " + name);
        ++tried[schedule];
      }
    }
  }
  for (const char* schedule : {"in turns", "cooperative", "one consumer"})
    EXPECT_GE(tried[schedule], 2) << schedule << " " << tried.size();
}

TEST_F(DeviceGemm, NothingToMultiply) {
  for (const DType t : {f32, bf16}) {
    expect_right(problem(t, t, {9, 12, 0}, "def f(accum, bias): D = accum + bias; return D",
                         {{"bias", f32, {12}}, {"D", f32, {9, 12}, true}}),
                 "K = 0");
    const Problem empty = product(0, 12, 16, t);
    ASSERT_TRUE(kernels(empty)[0].run(empty.arguments));
    expect_right(problem(t, t, {0, 12, 16}, "def f(accum):\n    total = sum(accum)\n    return total\n",
                         {{"total", f32, {}, true}}),
                 "an empty sum is its identity");
  }
  ASSERT_TRUE(device_->synchronize());
}

TEST_F(DeviceGemm, MisalignedPointersStillRun) {
  const int64_t m = 96, n = 128, k = 64;
  Problem p = problem(bf16, bf16, {m, n, k}, plain, {{"D", bf16, {m, n}, true}});
  const Tensor host = Tensor::make(bf16, {m * k + 1}).value();
  fill_random(host, 3);
  p.tensors.push_back(DeviceTensor::copy_of(*device_, host).value());
  p.arguments.A = TensorView::make(p.tensors.back().view().as<uint16_t>() + 1, bf16, {m, k}).value();
  expect_right(p, "an address of 2 modulo 16");
}

TEST_F(DeviceGemm, InPlace) {
  Problem p = problem(f32, f32, {64, 80, 48}, "def f(accum, C): D = accum + C; return D", {{"C", f32, {64, 80}}});
  p.arguments.out = p.tensors[2].view();
  p.arguments.epilogue =
      EpilogueArguments(*p.arguments.epilogue.epilogue(), {{"C", p.tensors[2].view()}, {"D", p.tensors[2].view()}});
  const DeviceTensor before = DeviceTensor::copy_of(*device_,
                                                    [&] {
                                                      Tensor host = Tensor::make(f32, {64, 80}).value();
                                                      EXPECT_TRUE(p.tensors[2].download(host));
                                                      return host;
                                                    }()
                                                        .view())
                                  .value();
  ASSERT_TRUE(kernels(p).prepare(p.arguments)->run());
  const auto checked = verify(p.arguments, {{"C", before.view()}}, cuda, 1, *context_).value();
  EXPECT_EQ(checked.verdict, VerifyReport::Verdict::Pass) << checked.text;
}

TEST_F(DeviceGemm, TuningChecksAndRanks) {
  const Problem p = product(512, 512, 512, bf16);
  const TuneReport report = tune(p.arguments, cuda, {.budget_seconds = 20, .max_candidates = 4}, *context_).value();
  ASSERT_FALSE(report.results.empty());
  size_t good = 0;
  for (const TuneResult& result : report.results) {
    std::printf("%-44s %9.2f us %s\n", result.kernel.c_str(), result.microseconds, result.failure.c_str());
    good += result.failure.empty() ? 1 : 0;
  }
  std::printf("tune: %zu candidates in %.2f s\n", report.results.size(), report.seconds);
  EXPECT_GT(good, 0U);
  EXPECT_TRUE(kernels(p)[0].metadata().tuned);
  check(p, "after tuning");
}

}  // namespace
}  // namespace codetta

// SPDX-License-Identifier: Apache-2.0
// Package entries: what a second process finds, what makes another entry, and damage.
#include "driver/package_entry.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/files.hpp"
#include "codetta/codetta.hpp"
#include "driver/build_id.hpp"

namespace codetta {
namespace {

constexpr const char* text = "def e(accum, alpha, C):\n    F = accum * alpha + C\n    D = relu(F)\n    return D, F\n";

struct Gemm {
  Tensor a, b, c, d, f;
  GemmArguments arguments;
  explicit Gemm(int64_t m = 70, int64_t n = 48, int64_t k = 33, DType dtype = DType::f32, const char* source = text) {
    const auto make = [](DType type, Dims shape, uint64_t seed) {
      Tensor tensor = Tensor::make(type, shape).value();
      fill_random(tensor.view(), seed);
      return tensor;
    };
    a = make(dtype, {m, k}, 1);
    b = make(dtype, {k, n}, 2);
    c = make(DType::f32, {m, n}, 3);
    d = make(DType::f32, {m, n}, 4);
    f = make(DType::f32, {m, n}, 5);
    fill_poison(d.view());
    fill_poison(f.view());
    arguments = {
        .A = a, .B = b, .out = d.view(), .epilogue = {source, {{"alpha", 0.5f}, {"C", c}, {"D", d}, {"F", f}}}};
  }
};

class PackageEntries : public ::testing::Test {
 protected:
  // A context of its own stands for a process of its own: nothing but the folder is shared.
  Context fresh(const std::string& debug = {}) {
    ContextOptions options;
    options.cache_dir = folder_.path() + "/cache";
    options.threads = 1;
    options.debug = debug;
    return Context::make(options).value();
  }
  std::vector<std::filesystem::path> entries(const std::string& suffix) const {
    std::vector<std::filesystem::path> found;
    for (const auto& at : std::filesystem::recursive_directory_iterator(folder_.path())) {
      if (at.path().extension() == suffix) found.push_back(at.path());
    }
    return found;
  }
  static void expect_right(const Gemm& gemm) {
    const auto report = verify(gemm.arguments).value();
    EXPECT_EQ(report.verdict, VerifyReport::Verdict::Pass) << report.text;
  }

  base::TemporaryDirectory folder_ = *base::TemporaryDirectory::make("/tmp", "codetta-package-");
};

void expect_equal(const KernelList& x, const KernelList& y) {
  ASSERT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const KernelMetadata &a = x[i].metadata(), &b = y[i].metadata();
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.family, b.family);
    EXPECT_EQ(a.target, b.target);
    EXPECT_EQ(a.config, b.config);
    EXPECT_EQ(a.estimated_us, b.estimated_us);
    EXPECT_EQ(a.workspace_bytes, b.workspace_bytes);
    ASSERT_EQ(a.terms.size(), b.terms.size());
    for (size_t t = 0; t < a.terms.size(); ++t) {
      EXPECT_EQ(a.terms[t].name, b.terms[t].name);
      EXPECT_EQ(a.terms[t].value, b.terms[t].value);
      EXPECT_EQ(a.terms[t].note, b.terms[t].note);
    }
  }
  ASSERT_EQ(x.rejections().size(), y.rejections().size());
  for (size_t i = 0; i < x.rejections().size(); ++i) EXPECT_EQ(x.rejections()[i].text, y.rejections()[i].text);
}

TEST_F(PackageEntries, ASecondProcessFindsWhatTheFirstMade) {
  const Gemm gemm;
  Context first = fresh();
  const KernelList made = find_kernels(gemm.arguments, Target::host(), {}, first).value();
  ASSERT_FALSE(made.empty());
  Execution cold = made[0].prepare(gemm.arguments).value();
  ASSERT_EQ(entries(".pkg").size(), 1U);

  Context second = fresh();
  const KernelList found = find_kernels(gemm.arguments, Target::host(), {}, second).value();
  expect_equal(made, found);
  Execution warm = found[0].prepare(gemm.arguments).value();
  EXPECT_EQ(warm.compile_seconds(), 0);
  EXPECT_EQ(cache_report(second).misses, 1);  // there is no tuning record
  EXPECT_EQ(cache_report(second).stored, 0);
  warm.run().value();
  expect_right(gemm);
  // What the entry doesn't hold is made when it is asked for.
  for (const Stage stage : {Stage::Ast, Stage::Graph, Stage::Plan, Stage::Memory, Stage::Source, Stage::Manifest})
    EXPECT_EQ(made[0].emit(stage).value(), found[0].emit(stage).value());
  EXPECT_EQ(explain(gemm.arguments, Target::host(), false, first).value(),
            explain(gemm.arguments, Target::host(), false, second).value());
}

TEST_F(PackageEntries, OtherKernelsHaveEntriesOfTheirOwn) {
  const Gemm gemm;
  Context first = fresh();
  const KernelList made = find_kernels(gemm.arguments, Target::host(), {}, first).value();
  ASSERT_GT(made.size(), 1U);
  ASSERT_TRUE(made[1].prepare(gemm.arguments));
  ASSERT_TRUE(made[0].prepare(gemm.arguments));
  EXPECT_EQ(entries(".pkg").size(), 2U);
  Context second = fresh();
  const KernelList found = find_kernels(gemm.arguments, Target::host(), {}, second).value();
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(found[i].emit(Stage::Source).value(), made[i].emit(Stage::Source).value());
  found[1].prepare(gemm.arguments).value().run().value();
  expect_right(gemm);
  EXPECT_EQ(cache_report(second).stored, 0);
}

TEST_F(PackageEntries, WhateverDecidesTheKernelIsInTheKey) {
  const Target target = Target::host();
  size_t expected = 0;
  const auto expect_another = [&](const GemmArguments& arguments, const char* why, const Target& wanted) {
    Context context = fresh();
    const KernelList kernels = find_kernels(arguments, wanted, {}, context).value();
    ASSERT_FALSE(kernels.empty());
    ASSERT_TRUE(kernels[0].emit(Stage::Source));
    EXPECT_EQ(entries(".pkg").size(), ++expected) << why;
  };
  Gemm base;
  expect_another(base.arguments, "the first", target);
  expect_another(Gemm(71).arguments, "M", target);
  expect_another(Gemm(70, 49).arguments, "N", target);
  expect_another(Gemm(70, 48, 34).arguments, "K", target);
  expect_another(Gemm(70, 48, 33, DType::bf16).arguments, "dtype", target);
  expect_another(Gemm(70, 48, 33, DType::f32,
                      "def e(accum, alpha, C):\n    F = accum * alpha - C\n    D = relu(F)\n    return D, F\n")
                     .arguments,
                 "operation", target);
  expect_another(base.arguments, "target", Target::parse("cpu:generic").value());
  Gemm strict;
  strict.arguments.strict = true;
  expect_another(strict.arguments, "strict", target);
  Gemm integer;
  integer.arguments.epilogue = {text, {{"alpha", 2}, {"C", integer.c}, {"D", integer.d}, {"F", integer.f}}};
  expect_another(integer.arguments, "type of a scalar", target);
  Gemm strided;
  Tensor wide = Tensor::make(DType::f32, {33, 96}).value();
  strided.arguments.B = TensorView::make(wide.data(), DType::f32, {33, 48}, {96, 1}).value();
  expect_another(strided.arguments, "leading dimension", target);
  Gemm column;
  Tensor turned = Tensor::make(DType::f32, {48, 70}).value();
  column.arguments.epilogue = {text,
                               {{"alpha", 0.5f}, {"C", turned.view().transposed()}, {"D", column.d}, {"F", column.f}}};
  expect_another(column.arguments, "layout of an operand", target);

  // The same again, with other numbers and other memory: nothing new.
  Gemm same;
  same.arguments.epilogue = {text, {{"alpha", 7.0f}, {"C", same.c}, {"D", same.d}, {"F", same.f}}};
  Context context = fresh();
  ASSERT_TRUE(find_kernels(same.arguments, target, {}, context).value()[0].prepare(same.arguments));
  EXPECT_EQ(entries(".pkg").size(), expected);
}

TEST_F(PackageEntries, ATuningRecordMakesAnother) {
  const Gemm gemm;
  Context first = fresh();
  ASSERT_TRUE(find_kernels(gemm.arguments, Target::host(), {}, first).value()[0].prepare(gemm.arguments));
  TuneOptions options;
  options.max_candidates = 2;
  const TuneReport report = tune(gemm.arguments, Target::host(), options, first).value();
  ASSERT_FALSE(report.results.empty());
  Context second = fresh();
  const KernelList tuned = find_kernels(gemm.arguments, Target::host(), {}, second).value();
  EXPECT_TRUE(tuned[0].metadata().tuned);
  EXPECT_EQ(tuned[0].metadata().name, report.results[0].kernel);
  tuned[0].prepare(gemm.arguments).value().run().value();
  expect_right(gemm);
  Context third = fresh();
  const KernelList again = find_kernels(gemm.arguments, Target::host(), {}, third).value();
  EXPECT_EQ(again[0].metadata().name, report.results[0].kernel);
  ASSERT_TRUE(again[0].prepare(gemm.arguments));
  EXPECT_EQ(cache_report(third).misses, 0);
}

TEST_F(PackageEntries, DamageHeals) {
  const Gemm gemm;
  Context first = fresh();
  ASSERT_TRUE(find_kernels(gemm.arguments, Target::host(), {}, first).value()[0].prepare(gemm.arguments));
  const auto files = entries(".pkg");
  ASSERT_EQ(files.size(), 1U);
  {
    std::fstream file(files[0], std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(files[0]) / 2));
    file.put('\x7f');
  }
  Context second = fresh();
  find_kernels(gemm.arguments, Target::host(), {}, second).value()[0].prepare(gemm.arguments).value().run().value();
  expect_right(gemm);
  EXPECT_EQ(cache_report(second).damaged, 1);
  EXPECT_EQ(cache_report(second).stored, 1);
  Context third = fresh();
  ASSERT_TRUE(find_kernels(gemm.arguments, Target::host(), {}, third).value()[0].prepare(gemm.arguments));
  EXPECT_EQ(cache_report(third).damaged, 0);
}

TEST_F(PackageEntries, DebugSwitchesSeeEveryStage) {
  const Gemm gemm;
  Context first = fresh();
  ASSERT_TRUE(find_kernels(gemm.arguments, Target::host(), {}, first).value()[0].prepare(gemm.arguments));
  std::string log;
  ContextOptions options;
  options.cache_dir = folder_.path() + "/cache";
  options.debug = "dump:graph,dump:plan,dump:source";
  options.log = [&](std::string_view line) { log += line; };
  Context second = Context::make(options).value();
  ASSERT_TRUE(find_kernels(gemm.arguments, Target::host(), {}, second).value()[0].prepare(gemm.arguments));
  for (const char* part : {"matmul", "launch", "codetta_epilogue"})
    EXPECT_NE(log.find(part), std::string::npos) << part;
}

TEST_F(PackageEntries, ArgumentsOfAnotherProgramAreStillRefused) {
  const Gemm gemm;
  Context first = fresh();
  ASSERT_TRUE(find_kernels(gemm.arguments, Target::host(), {}, first).value()[0].prepare(gemm.arguments));
  Context second = fresh();
  const KernelList kernels = find_kernels(gemm.arguments, Target::host(), {}, second).value();
  const auto expect_refused = [&](const GemmArguments& arguments) {
    const auto prepared = kernels[0].prepare(arguments);
    ASSERT_FALSE(prepared);
    EXPECT_EQ(prepared.error().code(), 414);
  };
  expect_refused(Gemm(70, 48, 33, DType::bf16).arguments);
  expect_refused(Gemm(70, 48, 33, DType::f32,
                      "def e(accum, alpha, C):\n    F = accum * alpha / C\n    D = relu(F)\n    return D, F\n")
                     .arguments);
  Gemm strict;
  strict.arguments.strict = true;
  expect_refused(strict.arguments);
  // Another text of the same meaning, and other sizes, are the same program.
  Gemm same(90, 64, 50, DType::f32, "def other(accum, alpha, C): F = accum * alpha + C; D = relu(F); return D, F");
  kernels[0].prepare(same.arguments).value().run().value();
  expect_right(same);
}

TEST_F(PackageEntries, ProgramsHaveThem) {
  const Program program =
      Program::parse("def p(x: f32[\"n\", 12], w: f32[12, 20]):\n    y = relu(x @ w)\n    return y\n").value();
  Context first = fresh();
  const CompiledProgram made = compile(program, Target::host(), {{"n", 40}}, first).value();
  EXPECT_EQ(entries(".pkg").size(), 1U);
  Context second = fresh();
  const CompiledProgram found = compile(program, Target::host(), {{"n", 40}}, second).value();
  EXPECT_EQ(cache_report(second).stored, 0);
  EXPECT_EQ(cache_report(second).misses, 1);  // there is no tuning record
  for (const Stage stage : {Stage::Plan, Stage::Memory, Stage::Source, Stage::Manifest})
    EXPECT_EQ(made.emit(stage).value(), found.emit(stage).value());
  Tensor x = Tensor::make(DType::f32, {7, 12}).value(), w = Tensor::make(DType::f32, {12, 20}).value(),
         y = Tensor::make(DType::f32, {7, 20}).value(), again = Tensor::make(DType::f32, {7, 20}).value();
  fill_random(x.view(), 1);
  fill_random(w.view(), 2);
  ASSERT_TRUE(made.run({{"x", x}, {"w", w}, {"y", y}}));
  ASSERT_TRUE(found.run({{"x", x}, {"w", w}, {"y", again}}));
  EXPECT_EQ(std::memcmp(y.data(), again.data(), y.byte_size()), 0);
  Context third = fresh();
  ASSERT_TRUE(compile(program, Target::host(), {{"n", 41}}, third));
  EXPECT_EQ(entries(".pkg").size(), 2U);
}

TEST(Ranking, RoundTripsAndRefusesEveryTruncation) {
  driver::Ranking ranking;
  KernelMetadata kernel;
  kernel.name = "cpu_x";
  kernel.family = "packed";
  kernel.target = Target::host();
  kernel.config = {{"mr", 6}, {"kc", -1}};
  kernel.terms = {{"fma", 1.25, "note"}, {"load", -0.0, ""}};
  kernel.estimated_us = 1e-300;
  kernel.workspace_bytes = int64_t{1} << 40;
  ranking.kernels = {kernel, kernel};
  ranking.rejections = {{412, "cpu_y", "too large"}};
  const std::string bytes = driver::encode_ranking(ranking);
  const auto decoded = driver::decode_ranking(bytes, Target::host());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(driver::encode_ranking(*decoded), bytes);
  EXPECT_EQ(decoded->kernels[1].workspace_bytes, int64_t{1} << 40);
  EXPECT_EQ(decoded->rejections[0].code, 412);
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(driver::decode_ranking(std::string_view(bytes).substr(0, length), Target::host())) << length;
  EXPECT_FALSE(driver::decode_ranking(bytes + "x", Target::host()));
}

TEST(BuildId, TellsBuildsOfOneVersionApart) {
  EXPECT_TRUE(driver::build_id().starts_with(version()));
  EXPECT_GT(driver::build_id().size(), std::strlen(version()) + 8) << driver::build_id();
}

}  // namespace
}  // namespace codetta

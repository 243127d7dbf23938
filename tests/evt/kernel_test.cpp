// SPDX-License-Identifier: Apache-2.0
// Whole sources around visitor trees: what they say of threads, copies and stores, what refuses a kernel, candidates
// and builds.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <tuple>

#include "evt_test.hpp"

namespace codetta::evt_tests {
namespace {

// Whatever a whole source has at the level of a tree's name; and a kernel's name may be any.
TEST(Evt, NoNameOfASourceIsATrees) {
  const Case reduced{
      "reduced", "nondeterministic", "bias=f16[N] D=f16[M,N] rows=f32[M,1]",
      "def f(accum, bias):\n    D = relu(accum + bias)\n    rows = sum(D, dim=-1)\n    return D, rows\n"};
  for (const std::string& target : targets) {
    EvtOptions options = options_of(reduced, target);
    const auto named = [&](const std::string& tree, const std::string& kernel) {
      options.name = tree;
      return emit_cutlass(problem_of(reduced).arguments, options, kernel);
    };
    const auto whole = named("EVTD", "fill");
    ASSERT_TRUE(whole) << whole.error().render();
    const std::string text = whole->source.substr(whole->source.find("\nnamespace {"));
    const std::regex declared(
        "\n(?:using|struct|constexpr|thread_local|int|bool|void|typename|__global__|extern)\\b"
        "[^\n(=\\[;{]*?(\\w+)(?: : .*| )?(?=[(=\\[;{])");
    size_t names = 0;
    for (std::sregex_iterator it(text.begin(), text.end(), declared), end; it != end; ++it) {
      const std::string name = (*it)[1];
      if (name == "EVTD") continue;
      EXPECT_FALSE(named(name, "fill")) << name;
      ++names;
    }
    EXPECT_GE(names, 20U) << text;
    for (const char* name : {"check", "fill_elements", "tensor_table", "last_error", "arguments_of", "fill_kernel"}) {
      const auto refused = named(name, "fill");
      ASSERT_FALSE(refused) << name;
      EXPECT_EQ(refused.error().code(), 230) << refused.error().render();
    }
    for (const char* kernel : {"check", "failed", "fill"}) EXPECT_TRUE(named("EVTD", kernel)) << kernel;
  }
}
// What a build does around nvcc, which is a script here: no toolkit is asked for.
TEST(EvtBuild, WritesWhatNvccMakesOrNothing) {
  const std::string folder = testing::TempDir() + "/evt_build";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder + "/bin");
  std::filesystem::create_directories(folder + "/cutlass/include/cutlass");
  std::ofstream(folder + "/cutlass/include/cutlass/version.h")
      << "#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 2\n#define CUTLASS_PATCH 1\n";
  const std::string nvcc = folder + "/bin/nvcc";
  const auto script = [&](const std::string& body) {
    std::ofstream(nvcc) << "#!/bin/sh\n" << body;
    std::filesystem::permissions(nvcc, std::filesystem::perms::owner_all);
  };
  ContextOptions of_context;
  of_context.cuda_home = folder;
  Context context = Context::make(of_context).value();
  const Case plain{"plain", "", "D=f16[M,N]", "def f(accum):\n    D = accum\n    return D\n"};
  CutlassBuild build{.output = folder + "/libplain.so", .cutlass_dir = folder + "/cutlass"};
  int asked = 0;
  build.before_writing = [&](const auto& places, bool) -> Result<void> {
    ++asked;
    EXPECT_EQ(places.size(), 2U);
    return {};
  };
  const auto run = [&] {
    return build_cutlass(problem_of(plain).arguments, options_of(plain, "cutlass:sm_90a"), build, context);
  };
  const auto refused = [&](int code, const std::string& text) {
    const auto built = run();
    ASSERT_FALSE(built.has_value()) << text;
    EXPECT_EQ(built.error().code(), code) << built.error().render();
    EXPECT_NE(built.error().render().find(text), std::string::npos) << built.error().render();
    EXPECT_FALSE(std::filesystem::exists(build.output)) << text;
    EXPECT_FALSE(std::filesystem::exists(folder + "/plain.h")) << text;
  };
  script("echo 'kernel.cu(7): error: no such visitor' >&2; exit 2\n");
  refused(504, "no such visitor");
  script("echo 'nvcc fatal   : Failed to preprocess host compiler properties.' >&2; exit 1\n");
  refused(501, "nvcc has no host compiler");
  script("exit 0\n");
  refused(506, "nvcc left no library");
  script("for a; do library=$source; source=$a; done\nprintf library > $library\n");
  asked = 0;
  const auto built = run();
  ASSERT_TRUE(built.has_value()) << built.error().render();
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(contents(built->library), "library");
  EXPECT_EQ(built->bytes, 7);
  EXPECT_EQ(built->version, "4.2.1");
  EXPECT_NE(contents(built->header).find("int plain_call("), std::string::npos);
  EXPECT_NE(built->kernel.find("cutlass_sm90"), std::string::npos) << built->kernel;
  std::filesystem::remove(built->library);
  std::filesystem::remove(built->header);
  build.output = folder + "/none/libplain.so";
  refused(543, "cannot be written");
  build.output = folder + "/lib7plain.so";
  refused(230, "7plain");
  std::filesystem::remove_all(folder);
}

TEST(EvtRefusals, OfTilesSchedulesAndTypes) {
  const Case plain{"plain", "", "D=f16[M,N]", "def f(accum):\n    D = accum\n    return D\n"};
  const auto headline = [&](EvtOptions options, const Case& c) {
    const auto text = emit_cutlass(problem_of(c).arguments, options, "kernel");
    return text ? "" : text.error().diagnostics()[0].headline;
  };
  for (const char* sizes : {"M=4294967296", "N=2147483648", "K=2147483648"}) {
    Case large = plain;
    large.problem = sizes;
    EXPECT_EQ(headline(options_of(plain, "cutlass:sm_90a"), large),
              "CUTLASS counts rows, columns, K and items in 32 bits")
        << sizes;
  }
  EvtOptions options = options_of(plain, "cutlass:sm_80");
  options.schedule = EvtSchedule::TmaWarpSpecialized;
  EXPECT_EQ(headline(options, plain), "Only SM90+ is supported for EVT with schedule tma_warp_specialized");
  options = options_of(plain, "cutlass:sm_90a");
  options.tile = {64, 128, 64};
  EXPECT_NE(headline(options, plain).find("tile 64x128x64 with schedule tma_warp_specialized_cooperative"),
            std::string::npos);
  options.schedule = EvtSchedule::TmaWarpSpecializedPingpong;
  EXPECT_EQ(headline(options, plain), "");
  for (const std::array<int, 3>& cluster : {std::array{17, 1, 1}, {3, 1, 1}, {8, 4, 1}, {1, 1, 2}, {-2, 1, 1}}) {
    options.cluster = cluster;
    EXPECT_EQ(headline(options, plain), "Sm90 has no cluster of " + std::to_string(cluster[0]) + "x" +
                                            std::to_string(cluster[1]) + "x" + std::to_string(cluster[2]));
  }
  options.cluster = {4, 4, 1};
  EXPECT_EQ(headline(options, plain), "");
  // Tiles that CUTLASS's static assertions refuse, with the nearest that they take.
  const auto refused = [&](const char* target, EvtSchedule schedule, const std::array<int, 3>& tile) {
    EvtOptions asked = options_of(plain, target);
    asked.schedule = schedule;
    asked.tile = tile;
    const auto text = emit_cutlass(problem_of(plain).arguments, asked, "kernel");
    return text ? "" : std::to_string(text.error().code()) + " " + text.error().diagnostics()[0].help;
  };
  EXPECT_EQ(refused("cutlass:sm_90a", EvtSchedule::Auto, {192, 128, 64}), "406 try 128x128x64");
  EXPECT_EQ(refused("cutlass:sm_100a", EvtSchedule::TmaWarpSpecialized2Sm, {128, 16, 64}), "406 try 128x32x64");
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {128, 128, 48}), "406 try 128x128x32");
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {128, 128, 128}), "406 try 128x128x64");
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {128, 160, 32}), "406 try 128x128x32");
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {128, 64, 64}), "");
  // Of 3, 6 or 9 warps, which leave rows out of a copy or do not compile.
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {128, 192, 32}), "406 try 128x128x32");
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {192, 128, 32}), "406 try 128x128x32");
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {128, 96, 64}), "406 try 128x64x64");
  // 16 columns of 32 rows are too few copies for four warps.
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {256, 16, 32}), "406 try 256x16x64");
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {256, 16, 64}), "");
  const Case rows{"rows", "A=f32 tf32", "D=f32[M,N]", plain.text};
  EvtOptions of_rows = options_of(rows, "cutlass:sm_80");
  of_rows.tile = {64, 16, 16};
  EXPECT_EQ(headline(of_rows, rows), "CUTLASS has no Sm80 epilogue for tile 64x16x16 with schedule multistage");
  of_rows.tile = {64, 32, 16};
  EXPECT_EQ(headline(of_rows, rows), "");
  // Three stages of A and B, in what the device has.
  // Of 16 warps, whose launch has too few registers.
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {256, 256, 32}), "406 try 128x256x32");
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {256, 128, 32}), "");
  EXPECT_EQ(refused("cutlass:sm_80", EvtSchedule::Auto, {128, 256, 64}), "");
  EXPECT_EQ(refused("cutlass:sm_87", EvtSchedule::Auto, {128, 256, 64}), "");
  for (const char* smaller : {"cutlass:sm_86", "cutlass:sm_89"}) {
    EXPECT_EQ(refused(smaller, EvtSchedule::Auto, {128, 256, 64}), "419 use a smaller tile than 128x256x64");
    EXPECT_EQ(refused(smaller, EvtSchedule::Auto, {128, 256, 32}), "");
  }
  const auto stages = [&](const char* target) {
    EvtOptions asked = options_of(plain, target);
    asked.tile = {128, 128, 64};
    const std::string text = emit_cutlass(problem_of(plain).arguments, asked, "kernel")->source;
    const std::string before = "GemmIdentityThreadblockSwizzle<8>, ";
    return text.substr(text.find(before) + before.size(), 1);
  };
  EXPECT_EQ(stages("cutlass:sm_80"), "4");
  EXPECT_EQ(stages("cutlass:sm_86"), "3");
  EXPECT_EQ(refused("cutlass:sm_90a", EvtSchedule::Auto, {256, 128, 64}), "");
  const Case doubles{"doubles", "A=f64", "D=f64[M,N]", "def f(accum):\n    D = accum\n    return D\n"};
  EXPECT_EQ(headline(options_of(doubles, "cutlass:sm_90a"), doubles),
            "Unsupported arg type: f64 times f64 accumulated in f64");
  // The tree alone is refused as the whole source is, where the text says accum, and taken where both are.
  const auto tree = [&](const char* target) {
    const auto text = emit_evt(problem_of(doubles).arguments, options_of(doubles, target));
    return text ? "" : text.error().render();
  };
  EXPECT_EQ(tree("cutlass:sm_90a"), R"(error[E0405]: Unsupported arg type: f64 times f64 accumulated in f64
  --> doubles.py:1:7
1 | def f(accum):
  |       ^^^^^
note: Sm90 multiplies two of f16, two of bf16 or two of f32 (as tf32), and 8-bit floats in f32, two of i8 or two of u8, also one of each, in i32
help: convert A and B, use cutlass:sm_80, whose kernels multiply f64, or a cpu or cuda target
)");
  EXPECT_NE(tree("cutlass:sm_100a").find("E0405"), std::string::npos);
  EXPECT_EQ(tree("cutlass:sm_80"), "");
  const auto alone = emit_evt(epilogue_of(std::string(doubles.text)),
                              {{"accum", DType::f64, {256, 384}}, {"D", DType::f64, {256, 384}}}, {},
                              options_of(doubles, "cutlass:sm_90a"));
  ASSERT_FALSE(alone);
  EXPECT_NE(alone.error().message().find("Unsupported arg type: an accumulator of f64"), std::string::npos);
  EvtOptions of_doubles = options_of(doubles, "cutlass:sm_80");
  EXPECT_EQ(headline(of_doubles, doubles), "") << "with a tile of its own, too";
  of_doubles.tile = {128, 128, 32};
  EXPECT_EQ(headline(of_doubles, doubles), "CUTLASS has no Sm80 epilogue for tile 128x128x32 with schedule multistage");
  const auto source = emit_cutlass(problem_of(doubles).arguments, options_of(doubles, "cutlass:sm_80"), "kernel");
  EXPECT_NE(source->source.find("GemmShape<128, 128, 16>"), std::string::npos);
  EXPECT_NE(source->source.find("double, cutlass::layout::RowMajor, cutlass::ComplexTransform::kNone, 1,"),
            std::string::npos);
  of_doubles.tile = {256, 128, 16};  // 16 warps of 32 x 64
  EXPECT_EQ(headline(of_doubles, doubles), "CUTLASS has no Sm80 epilogue for tile 256x128x16 with schedule multistage");
  const Case singles{"singles", "A=f32", "D=f32[M,N]", "def f(accum):\n    D = accum\n    return D\n"};
  EXPECT_EQ(headline(options_of(singles, "cutlass:sm_90a"), singles), "CUTLASS multiplies f32 on tensor cores as tf32");
  // What a mode does not name, or names more exactly, it does not permit.
  const auto with = [&](const Case& c, MathMode math, const char* target) {
    auto problem = problem_of(c);
    problem.arguments.math = math;
    const auto made = emit_cutlass(problem.arguments, options_of(c, target), "kernel");
    return made ? "" : made.error().diagnostics()[0].headline;
  };
  for (const MathMode math : {MathMode::Tf32x3, MathMode::Fp8FastAccumulation, MathMode::Fp8TwoLevelAccumulation}) {
    for (const char* target : {"cutlass:sm_80", "cutlass:sm_90a", "cutlass:sm_100a"})
      EXPECT_EQ(with(singles, math, target), "CUTLASS multiplies f32 on tensor cores as tf32") << math_mode_name(math);
  }
  EXPECT_EQ(with({"along_k", "A=f32 b_columns", "D=f32[M,N]", singles.text}, MathMode::Tf32, "cutlass:sm_90a"), "");
  const Case floats8{"floats8", "A=f8e4m3 b_columns", "D=bf16[M,N]", singles.text};
  for (const MathMode math : {MathMode::Strict, MathMode::Tf32})
    EXPECT_EQ(with(floats8, math, "cutlass:sm_90a"),
              "CUTLASS sums 128 products of 8-bit floats with 13 bits of fraction");
  EXPECT_EQ(with(floats8, MathMode::Strict, "cutlass:sm_100a"), "");
  EXPECT_EQ(with(floats8, MathMode::Fp8FastAccumulation, "cutlass:sm_90a"), "");
  EXPECT_EQ(with(floats8, MathMode::Fp8TwoLevelAccumulation, "cutlass:sm_90a"), "");
}

// Lanes of a warp share the columns of a tile out in multiples of one word each.
TEST(EvtRefusals, OfTilesWhoseColumnsCannotBeSummed) {
  const auto refused = [](const char* sums, std::array<int, 3> tile, const char* target = "cutlass:sm_90a") {
    const Case c{"sums", "", sums,
                 "def f(accum):\n    D = accum\n    sums = sum(D, axis=\"column\")\n    return D, sums\n"};
    EvtOptions asked = options_of(c, target);
    asked.tile = tile;
    asked.deterministic = false;
    const auto text = emit_cutlass(problem_of(c).arguments, asked, "kernel");
    return text ? "" : std::to_string(text.error().code()) + " " + text.error().diagnostics()[0].help;
  };
  for (const char* target : {"cutlass:sm_90a", "cutlass:sm_100a"}) {
    for (const int columns : {16, 32, 48, 64, 128, 192, 256})
      EXPECT_EQ(refused("D=f16[M,N] sums=f32[N]", {128, columns, 64}, target), "") << columns;
    EXPECT_EQ(refused("D=f16[M,N] sums=f32[N]", {128, 80, 64}, target), "406 try 128x64x64");
    EXPECT_EQ(refused("D=f16[M,N] sums=f32[N]", {128, 176, 64}, target), "406 try 128x128x64");
  }
  EXPECT_EQ(refused("D=f16[M,N] sums=f32[N]", {128, 64, 64}, "cutlass:sm_80"), "") << "summed in memory";
  // Eight warps meet in the shared memory of one step of D: 128 x 32 elements for 256 columns of sums each.
  EXPECT_EQ(refused("D=f16[M,N] sums=f32[N]", {128, 256, 64}), "");
  EXPECT_EQ(refused("D=f8e4m3[M,N] sums=f32[N]", {128, 256, 64}),
            "419 use a tile of at most 128 columns, or a wider type of D");
}

// What CUTLASS asks the driver for by name is linked.
TEST(EvtEmission, TotalsOfSm90AreLinkedToTheDriver) {
  const auto links = [](const char* name, const char* target) {
    const Case& c = *std::ranges::find(all_cases(), std::string_view(name), &Case::name);
    const auto text = emit_cutlass(problem_of(c).arguments, options_of(c, target), "kernel");
    EXPECT_TRUE(text.has_value()) << text.error().render();
    return text && std::ranges::count(text->flags, "-lcuda") == 1;
  };
  EXPECT_TRUE(links("scalar_amax", "cutlass:sm_90a"));
  EXPECT_TRUE(links("batched_item_sums", "cutlass:sm_100a"));
  EXPECT_FALSE(links("scalar_amax", "cutlass:sm_80"));
  EXPECT_FALSE(links("row_max_min", "cutlass:sm_90a"));
}

// Threads of Sm80 store as many elements at once as lets all lanes of a warp have some of 8 rows.
TEST(EvtEmission, StoresOfSm80DealRowsOutToAllLanes) {
  const auto access = [](const char* problem, const char* arguments, std::array<int, 3> tile) {
    const Case c{"store", problem, arguments, "def f(accum):\n    D = accum\n    return D\n"};
    EvtOptions asked = options_of(c, "cutlass:sm_80");
    asked.tile = tile;
    const auto text = emit_cutlass(problem_of(c).arguments, asked, "kernel");
    if (!text) return text.error().message();
    const std::string before = "ThreadblockShape, WarpShape, ";
    const size_t begin = text->source.find(before) + before.size();
    return text->source.substr(begin, text->source.find(">;", begin) - begin);
  };
  EXPECT_EQ(access("", "D=f16[M,N]", {128, 128, 32}), "cutlass::half_t, 8, 1");
  EXPECT_EQ(access("", "D=f16[M,N]", {128, 32, 32}), "cutlass::half_t, 8, 1");
  EXPECT_EQ(access("", "D=f16[M,N]", {128, 16, 32}), "cutlass::half_t, 4, 1");
  EXPECT_EQ(access("A=i8 b_columns", "D=i8[M,N]", {128, 128, 64}), "int8_t, 16, 1");
  EXPECT_EQ(access("A=i8 b_columns", "D=i8[M,N]", {128, 64, 64}), "int8_t, 8, 1");
  EXPECT_EQ(access("A=i8 b_columns", "D=i8[M,N]", {128, 32, 64}), "int8_t, 8, 1");
  EXPECT_EQ(access("A=i8 b_columns", "D=i8[M,N]", {128, 16, 64}), "int8_t, 4, 1");
}

TEST(EvtRefusals, OfTypesSayWhatHasToChange) {
  const auto said = [](const char* problem, const char* target, std::optional<DType> accumulator) {
    const Case c{"product", problem, "D=f32[M,N]", "def f(accum):\n    D = accum\n    return D\n"};
    GemmArguments arguments = problem_of(c).arguments;
    arguments.accumulator = accumulator;
    const auto text = emit_cutlass(arguments, options_of(c, target), "kernel");
    if (text) return std::string();
    const Diagnostic& first = text.error().diagnostics()[0];
    return std::to_string(text.error().code()) + " " + first.reason + "; " + first.help;
  };
  const std::string sm80 =
      "405 Sm80 multiplies two of f16, two of bf16 or two of f32 (as tf32) in f32, two of i8 or two of u8 in i32, and "
      "f64 in f64; ";
  for (const char* target : {"cutlass:sm_80", "cutlass:sm_90a"})
    EXPECT_TRUE(said("", target, DType::f64)
                    .ends_with("; accumulate in f32 (--accumulator f32), or use a cpu or cuda "
                               "target"))
        << said("", target, DType::f64);
  EXPECT_EQ(said("A=i8 B=u8 b_columns", "cutlass:sm_80", {}), sm80 + "convert A and B, or use a cpu or cuda target");
  EXPECT_EQ(said("A=i8 B=u8 b_columns", "cutlass:sm_90a", {}), "");
  EXPECT_EQ(said("A=f16 B=bf16", "cutlass:sm_80", {}), sm80 + "convert A and B, or use a cpu or cuda target");
}

// Sm80's instructions for bytes saturate: where that could be seen is refused, when a kernel is emitted and in calls.
TEST(EvtRefusals, OfSumsThatSaturate) {
  const auto source = [](const std::string& problem, const char* target) {
    const Case c{"sums", problem, "D=i32[M,N]", "def f(accum):\n    D = accum\n    return D\n"};
    const auto text = emit_cutlass(problem_of(c).arguments, options_of(c, target), "sums");
    return text ? text->source : text.error().render();
  };
  const std::string usual = source("A=i8 b_columns", "cutlass:sm_80");
  EXPECT_NE(usual.find("cutlass::arch::OpMultiplyAddSaturate, 1>"), std::string::npos);
  EXPECT_NE(usual.find("if (sizes[2] > 131071) return failed(-12, "), std::string::npos);
  EXPECT_EQ(source("A=f16", "cutlass:sm_80").find("Saturate"), std::string::npos);
  EXPECT_EQ(source("A=i8 b_columns", "cutlass:sm_90a").find("saturate"), std::string::npos);
  EXPECT_TRUE(source("A=i8 b_columns K=131056", "cutlass:sm_80").starts_with("// sums"));
  EXPECT_EQ(source("A=i8 b_columns K=131072", "cutlass:sm_80"),
            "error[E0406]: CUTLASS sums up to 131071 products of i8\n"
            "note: K is 131072, and Sm80's instructions for bytes saturate where a sum leaves i32, which wraps\n"
            "help: use a cuda target, or cutlass:sm_90a, whose kernels wrap\n");
  EXPECT_TRUE(source("A=u8 b_columns K=33024", "cutlass:sm_80").starts_with("// sums"));
  EXPECT_NE(source("A=u8 b_columns K=33040", "cutlass:sm_80").find("up to 33025 products of u8"), std::string::npos);
}

TEST(EvtCandidates, OfSm80HaveTheStagesOfTheirSource) {
  ContextOptions without;
  without.cache_enabled = false;
  Context context = Context::make(without).value();
  for (const char* target : {"cutlass:sm_80", "cutlass:sm_86", "cutlass:sm_89"}) {
    for (const char* problem : {"", "A=f64", "A=f32 tf32", "A=i8 b_columns"}) {
      const Case c{"candidates", problem, "D=f32[M,N]", "def f(accum):\n    D = accum\n    return D\n"};
      const GemmArguments arguments = problem_of(c).arguments;
      const auto found = find_cutlass_kernels(arguments, options_of(c, target), context);
      ASSERT_TRUE(found) << found.error().render();
      EXPECT_GE(found->kernels.size(), 4U) << target << " " << problem;
      for (const CutlassKernel& kernel : found->kernels) {
        const auto& config = kernel.metadata.config;
        const auto stages =
            std::find_if(config.begin(), config.end(), [](const auto& entry) { return entry.first == "stages"; });
        ASSERT_NE(stages, config.end());
        const auto text = emit_cutlass(arguments, kernel.options, "kernel");
        ASSERT_TRUE(text) << text.error().render();
        EXPECT_NE(text->source.find("GemmIdentityThreadblockSwizzle<8>, " + std::to_string(stages->second) + ", "),
                  std::string::npos)
            << kernel.metadata.name;
      }
    }
  }
}

// Asynchronous copies of Sm80 have 4 bytes at least.
TEST(EvtRefusals, OfRowsThatAreNotCopied) {
  const auto said = [](const char* problem) {
    const Case c{"rows", problem, "D=f32[M,N]", "def f(accum):\n    D = accum\n    return D\n"};
    const auto text = emit_cutlass(problem_of(c).arguments, options_of(c, "cutlass:sm_80"), "kernel");
    return text ? std::string() : text.error().render();
  };
  EXPECT_EQ(said("K=129"),
            "error[E0407]: A cannot be copied by cp.async\n"
            "note: its rows lie 129 elements of 2 bytes apart and its items 0: not multiples of 4 bytes\n"
            "help: pad its rows to a multiple of 4 bytes, or use a cuda target\n");
  EXPECT_NE(said("A=i8 b_columns K=130").find("not multiples of 4 bytes"), std::string::npos);
  EXPECT_EQ(said("K=130"), "");
  EXPECT_EQ(said("A=f32 tf32 K=129"), "");
  EXPECT_EQ(said("A=f64 K=129 N=385"), "");
}

// CUTLASS asks that vectors divide rows, and not only what lies between them (can_implement of its kernels).
TEST(EvtRefusals, OfRowsThatEndWithinAVector) {
  const auto emitted = [](const char* problem, const char* arguments, const char* target) {
    const bool has_c = std::string(arguments).starts_with("C=");
    const Case c{"padded", problem, arguments,
                 has_c ? "def f(accum, C):\n    D = accum + C\n    return D\n"
                       : "def f(accum):\n    D = relu(accum)\n    return D\n"};
    return emit_evt(problem_of(c).arguments, options_of(c, target));
  };
  for (const char* target : {"cutlass:sm_90a", "cutlass:sm_100a"}) {
    const auto refused = emitted("N=385", "D=f16[M,N]:ld=392", target);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), 407);
    const Diagnostic& first = refused.error().diagnostics()[0];
    EXPECT_EQ(first.reason,
              "its rows have 385 elements of 2 bytes: not a multiple of 16 bytes, which CUTLASS asks for however far "
              "they lie apart");
    EXPECT_EQ(first.help, "make N a multiple of 8, or use a cuda target, whose kernels take any strides");
    EXPECT_FALSE(emitted("M=129", "D=f16[M,N]:columns", target));
    // What the collective does not take as C is moved by TMA, which asks for less, or in vectors that divide the row.
    const auto loaded = emitted("N=388", "C=f16[M,N]:ld=392 D=f32[M,N]", target);
    ASSERT_TRUE(loaded) << loaded.error().render();
    EXPECT_EQ(loaded->source, "");
    EXPECT_NE(loaded->types.find("AuxLoadDescriptor<"), std::string::npos) << loaded->types;
    const auto apart = emitted("N=388", "C=f8e4m3[M,N]:ld=392 D=f32[M,N]", target);
    ASSERT_TRUE(apart) << apart.error().render();
    EXPECT_NE(apart->types.find("void, void, 4>"), std::string::npos) << apart->types;
  }
  const auto map = [&](const char* problem, const char* arguments) {
    const auto text = emitted(problem, arguments, "cutlass:sm_80");
    const std::string before = "ThreadblockShape, WarpShape, ";
    const size_t begin = text ? text->types.find(before) + before.size() : 0;
    return text ? text->types.substr(begin, text->types.find(">;", begin) - begin) : text.error().render();
  };
  EXPECT_EQ(map("N=384", "D=f16[M,N]:ld=392"), "cutlass::half_t, 8, 1");
  EXPECT_EQ(map("N=388", "D=f16[M,N]:ld=392"), "cutlass::half_t, 4, 1");
  EXPECT_EQ(map("N=385", "D=f16[M,N]:ld=392"), "cutlass::half_t, 1, 1");
  // Factors.
  const auto factors = [](int64_t k, int64_t apart, const char* target) {
    const Case c{"factors", "b_columns", "D=f16[M,N]", "def f(accum):\n    D = accum\n    return D\n"};
    GemmArguments arguments = problem_of(c).arguments;
    arguments.A = TensorView::make(arguments.A.data(), DType::f16, {256, k}, {apart, 1}).value();
    arguments.B = TensorView::make(arguments.B.data(), DType::f16, {k, 384}, {1, apart}).value();
    const auto text = emit_cutlass(arguments, options_of(c, target), "kernel");
    return text ? text->source : text.error().render();
  };
  EXPECT_EQ(
      factors(130, 136, "cutlass:sm_90a"),
      "error[E0407]: A cannot be moved by TMA\n"
      "note: it has 130 elements of 2 bytes along K: not a multiple of 16 bytes, which CUTLASS asks for however far "
      "its rows lie apart\n"
      "help: make K a multiple of 8, or use a cuda target\n");
  EXPECT_NE(factors(128, -128, "cutlass:sm_90a").find("one of its strides is negative: rows lie -128 elements apart"),
            std::string::npos)
      << factors(128, -128, "cutlass:sm_90a");
  EXPECT_NE(factors(129, 136, "cutlass:sm_80").find("A cannot be copied by cp.async"), std::string::npos);
  EXPECT_NE(factors(130, 136, "cutlass:sm_80").find("RowMajor, cutlass::ComplexTransform::kNone, 2,"),
            std::string::npos);
  // Every call asks for what the kernel was made for.
  EXPECT_NE(factors(128, 136, "cutlass:sm_90a").find("{\"A\", 2, 16, 2},\n  {\"B\", 2, 16, 2},\n  {\"D\", 2, 16, 1},"),
            std::string::npos)
      << factors(128, 136, "cutlass:sm_90a");
}

// VisitorRowBroadcast of Sm80 reads vectors as long as those that D is stored in, 16 bytes at most.
TEST(EvtEmission, ValuesByColumnOfSm80AreAlignedAsTheyAreRead) {
  const auto row_of = [](const char* arguments, const std::string& name) {
    const Case c{"row", "", arguments, "def f(accum, bias):\n    D = accum + bias\n    return D\n"};
    const std::string text =
        emit_cutlass(problem_of(c).arguments, options_of(c, "cutlass:sm_80"), "kernel").value().source;
    const size_t begin = text.find("{\"" + name + "\", ");
    return text.substr(begin, text.find('}', begin) + 1 - begin);
  };
  EXPECT_EQ(row_of("bias=f16[N] D=f16[M,N]", "bias"), "{\"bias\", 2, 16, 1}");
  EXPECT_EQ(row_of("bias=f32[N] D=f16[M,N]", "bias"), "{\"bias\", 4, 16, 1}");
  EXPECT_EQ(row_of("bias=f16[N] D=f32[M,N]", "bias"), "{\"bias\", 2, 8, 1}");
  EXPECT_EQ(row_of("bias=f32[M,1] D=f16[M,N]", "bias"), "{\"bias\", 4, 4, -1}");
  // Items whose values begin between vectors.
  EvtOptions options = sm90();
  options.target = Target::parse("cutlass:sm_80").value();
  const auto map = [&](DType dtype, int64_t apart) {
    const auto text = emit_evt(epilogue_of("def f(accum, bias):\n    D = accum + bias\n    return D\n"),
                               {{"accum", DType::f32, {2, 256, 384}},
                                {"bias", dtype, {2, 1, 384}, {apart, 384, 1}},
                                {"D", DType::f16, {2, 256, 384}}},
                               {}, options);
    const std::string before = "cutlass::half_t, ";
    const size_t begin = text->types.find(before) + before.size();
    return text->types.substr(begin, 1);
  };
  EXPECT_EQ(map(DType::f16, 392), "8");
  EXPECT_EQ(map(DType::f16, 388), "4");
  EXPECT_EQ(map(DType::f16, 385), "1");
  EXPECT_EQ(map(DType::f32, 388), "8");  // two vectors
  EXPECT_EQ(map(DType::f32, 386), "2");
}

// One column: its rows are 1 apart, and those of other sizes are not.
TEST(EvtEmission, RowsOfOneColumnAreNoPartOfTheType) {
  for (const char* problem : {"N=1", "M=1 N=1", "N=384"}) {
    const Case c{"column", problem, "D=f16[M,N]", "def f(accum):\n    D = relu(accum)\n    return D\n"};
    const auto text = emit_evt(problem_of(c).arguments, options_of(c, "cutlass:sm_80"));
    ASSERT_TRUE(text) << text.error().render();
    EXPECT_NE(text->types.find("cute::Stride<int64_t, cute::Int<1>, cute::Int<0>>"), std::string::npos) << text->types;
    const std::string apart = c.problem.ends_with("384") ? "384" : "1";
    EXPECT_NE(text->arguments.find("{" + apart + ", _1{}, _0{}}"), std::string::npos) << text->arguments;
  }
}

// Threads of Sm80 hand accumulators over for D by forms of some types and widths.
TEST(EvtEmission, StoresOfSm80HaveAFormThatHandsOver) {
  const auto map = [](const char* problem, const char* arguments) {
    const Case c{"store", problem, arguments, "def f(accum):\n    D = accum\n    return D\n"};
    const auto text = emit_cutlass(problem_of(c).arguments, options_of(c, "cutlass:sm_80"), "kernel");
    if (!text) return text.error().render();
    const std::string before = "ThreadblockShape, WarpShape, ";
    const size_t begin = text->source.find(before) + before.size();
    const std::string map = text->source.substr(begin, text->source.find(", 1>;", begin) - begin);
    const size_t comma = map.find(", ");
    EXPECT_NE(text->source.find("  " + map.substr(0, comma) + ", cutlass::layout::RowMajor" + map.substr(comma) + ", "),
              std::string::npos)
        << text->source;
    return map;
  };
  EXPECT_EQ(map("A=i8 b_columns", "D=i8[M,N]"), "int8_t, 16");
  EXPECT_EQ(map("A=i8 b_columns", "D=i8[M,N]:ld=386"), "int32_t, 2");
  EXPECT_EQ(map("A=i8 b_columns", "D=f16[M,N]"), "cutlass::half_t, 8");
  EXPECT_EQ(map("A=i8 b_columns", "D=f16[M,N]:ld=388"), "int32_t, 4");
  EXPECT_EQ(map("A=i8 b_columns", "D=i16[M,N]"), "int32_t, 4");
  EXPECT_EQ(map("A=i8 b_columns", "D=f32[M,N]:ld=386"), "float, 2");
  EXPECT_EQ(map("A=f16", "D=f8e5m2[M,N]"), "cutlass::float_e5m2_t, 16");
  EXPECT_EQ(map("A=f16", "D=f8e5m2[M,N]:ld=386"), "float, 2");
  EXPECT_EQ(map("A=f16", "D=i8[M,N]:ld=385"), "int8_t, 1");
}

// What a call looks at before CUTLASS does, by the host's compiler: no toolkit is asked for.
TEST(EvtCalls, AreCheckedBeforeAnythingIsEnqueued) {
  const Case c{"called", "b_columns", "bias=f32[M,1] D=f16[M,N]",
               "def f(accum, bias):\n    D = accum + bias\n    return D\n"};
  const std::string source =
      emit_cutlass(problem_of(c).arguments, options_of(c, "cutlass:sm_90a"), "kernel").value().source;
  const size_t begin = source.find("thread_local char last_error"), end = source.find("\n}  // namespace\n", begin);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::string base = testing::TempDir() + "/evt_calls" + std::to_string(getpid());
  std::ofstream(base + ".cpp")
      << "#include <cstdint>\n#include <cstdio>\nnamespace {\n" + source.substr(begin, end - begin) +
             "\n}\nextern \"C\" int called(int64_t const* sizes, void* const* tensors, int64_t "
             "const* strides) { last_error[0] = 0; return check(sizes, tensors, strides); }\n"
             "extern \"C\" char const* error() { return last_error; }\n";
  const std::string build = "c++ -std=c++17 -w -shared -fPIC " + base + ".cpp -o " + base + ".so";
  ASSERT_EQ(std::system(build.c_str()), 0) << build;
  void* const library = dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto called = reinterpret_cast<int (*)(const int64_t*, void* const*, const int64_t*)>(dlsym(library, "called"));
  const auto error = reinterpret_cast<const char* (*)()>(dlsym(library, "error"));
  struct Arguments {
    std::array<int64_t, 4> sizes{256, 384, 128, 1};
    std::array<void*, 4> tensors{};  // A, B, bias, D
    std::array<int64_t, 8> strides{128, 0, 128, 0, 0, 0, 384, 0};
  };
  alignas(16) static char memory[64];
  const auto said = [&](const std::function<void(Arguments&)>& change) {
    Arguments a;
    a.tensors.fill(memory);
    change(a);
    const int code = called(a.sizes.data(), a.tensors.data(), a.strides.data());
    return std::to_string(code) + " " + error();
  };
  EXPECT_EQ(said([](Arguments&) {}), "0 ");
  EXPECT_EQ(said([](Arguments& a) { a.sizes = {0, 0, 0, 0}; }), "0 ");
  EXPECT_EQ(said([](Arguments& a) { a.sizes[0] = 255; }), "0 ");
  EXPECT_EQ(said([](Arguments& a) { a.sizes[0] = -1; }), "-1 size 0 is -1: not from 0 to 2147483647");
  EXPECT_EQ(said([](Arguments& a) { a.sizes[3] = int64_t{1} << 31; }),
            "-1 size 3 is 2147483648: not from 0 to 2147483647");
  EXPECT_EQ(said([](Arguments& a) { a.tensors[1] = nullptr; }), "-2 B is null");
  EXPECT_EQ(said([](Arguments& a) { a.tensors[2] = memory + 4; }), "0 ");
  EXPECT_EQ(said([](Arguments& a) { a.tensors[2] = memory + 2; }), "-3 bias is not aligned to 4 bytes");
  EXPECT_EQ(said([](Arguments& a) { a.tensors[0] = memory + 8; }), "-3 A is not aligned to 16 bytes");
  EXPECT_EQ(said([](Arguments& a) { a.strides[6] = 388; }),
            "-4 a stride of D is 388 elements: not a multiple of 16 bytes");
  EXPECT_EQ(said([](Arguments& a) { a.strides[3] = 1; }), "-4 a stride of B is 1 elements: not a multiple of 16 bytes");
  EXPECT_EQ(said([](Arguments& a) { a.sizes[1] = 388; }),
            "-4 D has 388 elements side by side: not a multiple of 16 bytes");
  EXPECT_EQ(said([](Arguments& a) { a.sizes[2] = 130; }),
            "-4 A has 130 elements side by side: not a multiple of 16 bytes");
  dlclose(library);
  std::filesystem::remove(base + ".cpp");
  std::filesystem::remove(base + ".so");
}

TEST(EvtRefusals, OfNoColumns) {
  for (const char* target : {"cutlass:sm_80", "cutlass:sm_90a"}) {
    for (const char* problem : {"N=0", "M=0 N=0"}) {
      const Case c{"empty", problem, "D=f16[M,N]", "def f(accum):\n    D = relu(accum)\n    return D\n"};
      const auto text = emit_cutlass(problem_of(c).arguments, options_of(c, target), "kernel");
      ASSERT_FALSE(text);
      EXPECT_EQ(text.error().code(), 406);
      EXPECT_EQ(text.error().diagnostics()[0].reason,
                "N is 0, and rows of no elements do not say how far apart rows lie");
    }
    const Case rows{"empty", "M=0", "D=f16[M,N]", "def f(accum):\n    D = relu(accum)\n    return D\n"};
    EXPECT_TRUE(emit_cutlass(problem_of(rows).arguments, options_of(rows, target), "kernel"));
  }
}

}  // namespace
}  // namespace codetta::evt_tests

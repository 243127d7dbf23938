// SPDX-License-Identifier: Apache-2.0
// Kernels of a package: equal ones are one, with names that do not depend on the user's.
#include <gtest/gtest.h>

#include "emit/package.hpp"
#include "frontend/lower.hpp"
#include "ir/bind.hpp"

namespace codetta::emit {
namespace {

using package::LaunchKernel;
using package::Package;

using Hints = std::vector<std::pair<std::string, int64_t>>;
plan::Plan plan_of(std::string text, std::string_view target = "cpu:avx2", const Hints& hints = {}) {
  const auto function = frontend::parse_program(std::make_shared<const diag::SourceText>("mlp.py", std::move(text)));
  EXPECT_TRUE(function) << function.error().render();
  const auto graph = ir::bind_program(*function);
  EXPECT_TRUE(graph) << graph.error().render();
  plan::MachineFacts machine;
  machine.isa = CpuIsa::avx2;
  auto plan = plan::plan_program(*graph, *Target::parse(target), machine, hints);
  EXPECT_TRUE(plan) << plan.error().render();
  return *std::move(plan);
}
Package package_of(const plan::Plan& plan, bool origins = false, std::vector<uint32_t>* kernel_of = nullptr) {
  auto package = emit_package(plan, {.name = "f", .build_id = "test", .origins = origins}, kernel_of);
  EXPECT_TRUE(package) << package.error().render();
  EXPECT_EQ(package::find_defect(*package), std::nullopt);
  return *std::move(package);
}
template <class Step>
std::vector<Step> all(const Package& package) {
  std::vector<Step> steps;
  for (const package::Step& step : package.steps) {
    if (const auto* one = std::get_if<Step>(&step)) steps.push_back(*one);
  }
  return steps;
}

const char* const layers =
    "def mlp(x: f32[\"m\", 64], w1: f32[64, 64], b1: f32[64], w2: f32[64, 64], b2: f32[64], w3: f32[64, 64]):\n"
    "    h = relu(x @ w1 + b1)\n"
    "    g = relu(h @ w2 + b2)\n"
    "    y = tanh(g @ w3)\n"
    "    return y\n";

TEST(PackageKernels, EqualLayersAreOneKernel) {
  const plan::Plan plan = plan_of(layers);
  ASSERT_EQ(plan.kernels.size(), 3U);
  std::vector<uint32_t> kernel_of;
  const Package package = package_of(plan, false, &kernel_of);
  ASSERT_EQ(package.kernels.size(), 2U);
  EXPECT_EQ(kernel_of, (std::vector<uint32_t>{0, 0, 1}));
  const auto launches = all<LaunchKernel>(package);
  ASSERT_EQ(launches.size(), 3U);
  EXPECT_EQ(launches[0].kernel, launches[1].kernel);
  EXPECT_NE(launches[0].arguments, launches[1].arguments) << "each has its own weights and results";
  EXPECT_EQ(all<package::DefineKernel>(package), (std::vector<package::DefineKernel>{{0}, {1}}));
  EXPECT_EQ(package.kernels[0].epilogue.to_string().find("b1"), std::string::npos) << "what it reads is not b1's alone";
  const auto decoded = Package::decode(package.encode());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, package);
}

TEST(PackageKernels, NamesAreThoseOfTheSource) {
  const Package package = package_of(plan_of(layers));
  std::string renamed = layers;
  for (const auto& [from, to] : {std::pair("w1", "left"), {"b1", "offset"}, {"w3", "last"}}) {
    for (size_t at = renamed.find(from); at != std::string::npos; at = renamed.find(from)) renamed.replace(at, 2, to);
  }
  const Package other = package_of(plan_of(renamed));
  ASSERT_EQ(other.kernels.size(), 2U);
  for (size_t k = 0; k < 2; ++k) {
    EXPECT_EQ(package.kernels[k].name, other.kernels[k].name);
    EXPECT_EQ(package.kernels[k].source, other.kernels[k].source);
  }
  EXPECT_TRUE(package.kernels[0].name.starts_with("codetta_add_relu_")) << package.kernels[0].name;
  EXPECT_TRUE(package.kernels[1].name.starts_with("codetta_tanh_"));
  EXPECT_EQ(package.kernels[1].name.size(), std::string("codetta_tanh_").size() + 8);
}

TEST(PackageKernels, NamesOfPlainStoresDoNotDependOnTheUsers) {
  const auto name = [](const char* result) {
    const std::string y = result;
    return package_of(
               plan_of("def f(x: f32[\"m\", 64], w: f32[64, 64]):\n    " + y + " = x @ w\n    return " + y + "\n"))
        .kernels.at(0)
        .name;
  };
  EXPECT_EQ(name("y"), name("product"));
}

TEST(PackageKernels, ConfigurationsPartKernelsOfOneSource) {
  plan::Plan plan = plan_of(layers);
  ASSERT_GT(plan.kernels[1].discovery.candidates.size(), 1U);
  plan.kernels[1].chosen = 1;
  const Package package = package_of(plan);
  ASSERT_EQ(package.kernels.size(), 3U);
  EXPECT_FALSE(package.kernels[0].config == package.kernels[1].config);
  EXPECT_TRUE(package.kernels[0].source == package.kernels[1].source ||
              package.kernels[0].name != package.kernels[1].name);
}

TEST(PackageKernels, OriginsAreCommentsInFrontOfLaunches) {
  const plan::Plan plan = plan_of(layers);
  const Package bare = package_of(plan);
  Package package = package_of(plan, true);
  EXPECT_TRUE(all<package::Comment>(bare).empty());
  std::vector<std::string> comments;
  for (const package::Comment& comment : all<package::Comment>(package)) comments.push_back(comment.text);
  EXPECT_EQ(comments, (std::vector<std::string>{
                          "mlp.py:2: h = relu(x @ w1 + b1)", "not in memory: matmul f32[m, 64], add f32[m, 64]",
                          "mlp.py:3: g = relu(h @ w2 + b2)", "not in memory: matmul f32[m, 64], add f32[m, 64]",
                          "mlp.py:4: y = tanh(g @ w3)", "not in memory: matmul f32[m, 64]"}));
  std::erase_if(package.steps,
                [](const package::Step& step) { return std::holds_alternative<package::Comment>(step); });
  EXPECT_EQ(package, bare) << "nothing else depends on them: sources, names and binaries are the same";
}

TEST(PackageKernels, LongListsOfWhatIsGoneEnd) {
  plan::KernelAccount account;
  for (int i = 0; i < 9; ++i) {
    plan::HeldOperation held;
    held.op = types::Op::add;
    held.type = "f32";
    account.held.push_back(held);
  }
  account.held[0].in_memory = true;
  EXPECT_EQ(removed_text(account), "not in memory: add f32, add f32, add f32, add f32, add f32, add f32 and 2 more");
  EXPECT_EQ(removed_text({}), "");
}

// Clang takes long for each copy of the work of rows, and none of them may cost registers.
// The copy engine takes no three reductions of columns. Where the planned sizes are whole tiles, the other pieces ask
// as they run whether they are of whole vectors.
TEST(PackageKernels, PiecesThatAreFewHaveOneForm) {
  for (const auto& [rows, forms] : {std::pair("4096", 1), {"4001", 2}}) {
    const std::string text = std::string("def f(x: bf16[") + rows +
                             ", 1024], w: bf16[1024, 4096]):\n    y = gelu(x @ w)\n    s = sum(y, dim=0)\n"
                             "    t = max(y, dim=0)\n    u = min(y, dim=0)\n    return y, s, t, u\n";
    const Package package = package_of(plan_of(text, "cuda:sm_90a"));
    const std::string& source = package.kernels.at(0).source;
    EXPECT_NE(source.find("piece_0<true, true>("), std::string::npos) << source;
    EXPECT_NE(source.find("piece_0<false, false>("), std::string::npos) << source;
    EXPECT_EQ(source.find("piece_0<true, false>(") != std::string::npos, forms == 2) << source;
  }
}

TEST(PackageKernels, RowsOfHipAreInFewForms) {
  const auto source_of = [](std::string_view target) {
    return package_of(
               plan_of("def f(x: bf16[\"m\", \"n\"]):\n    y = cast(softmax(exp(x)), bf16)\n    return y\n", target))
        .kernels[0]
        .source;
  };
  const std::string hip = source_of("hip:gfx942"), cuda = source_of("cuda:sm_90a");
  const auto has = [](const std::string& source, std::string_view text) {
    return source.find(text) != std::string::npos;
  };
  // What the second phase keeps takes the place of what it was the last to take; vectors have 8 bytes.
  EXPECT_TRUE(has(hip, "RegisterArray<f32v, pieces> h0;")) << hip;
  EXPECT_FALSE(has(hip, "h1")) << hip;
  EXPECT_TRUE(has(hip, "#define CODETTA_LANES 4")) << hip;
  EXPECT_TRUE(has(hip, "{ long_rows(q, t, whole); }")) << hip;
  EXPECT_FALSE(has(hip, "long_rows<")) << hip;
  EXPECT_TRUE(has(cuda, "f32v h0[pieces];")) << cuda;
  EXPECT_TRUE(has(cuda, "#define CODETTA_LANES 8")) << cuda;
  EXPECT_TRUE(has(cuda, "long_rows<true>(q, t)")) << cuda;
}

TEST(PackageKernels, RowsOfCudaHaveFormsByWhatIsExpected) {
  const auto source_of = [](const std::string& columns, int64_t expected) {
    const std::string text = "def f(x: f32[\"m\", " + columns + "]):\n    y = softmax(x)\n    return y\n";
    return package_of(plan_of(text, "cuda:sm_90a", {{"m", 8192}, {"n", expected}})).kernels[0].source;
  };
  const auto has = [](const std::string& source, std::string_view text) {
    return source.find(text) != std::string::npos;
  };
  // Long rows ask for whole vectors where few columns are expected; where that is all that there is, none come.
  const std::string few = source_of("\"n\"", 128), many = source_of("\"n\"", 2048), fixed = source_of("2048", 0);
  EXPECT_TRUE(has(few, "short_rows<128, ")) << few;
  EXPECT_TRUE(has(few, "short_rows<0, ")) << few;
  EXPECT_TRUE(has(few, "{ long_rows(q, t, whole); }")) << few;
  EXPECT_TRUE(has(many, "short_rows<2048, ")) << many;
  EXPECT_TRUE(has(many, "short_rows<0, ")) << many;
  EXPECT_TRUE(has(many, "long_rows<true>(q, t)")) << many;
  EXPECT_TRUE(has(many, "piece += 2")) << many;
  EXPECT_TRUE(has(fixed, "short_rows<2048, ")) << fixed;
  EXPECT_FALSE(has(fixed, "short_rows<0, ")) << fixed;
  EXPECT_TRUE(has(fixed, "long_rows<false>(q, t)")) << fixed;
  EXPECT_FALSE(has(fixed, "piece += 2")) << fixed << "rows that are no whole vectors are rare";
}

}  // namespace
}  // namespace codetta::emit

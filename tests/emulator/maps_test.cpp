// SPDX-License-Identifier: Apache-2.0
// Programs without a product (maps: element by element, rows in one launch, reductions over columns and everything,
// reads by indices), loops, and products, as CUDA packages or as those of the AMD GPU that CODETTA_EMULATED_GFX names,
// run step by step by runtime/cuda on the emulated driver, against the oracle.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "codetta/fill.hpp"
#include "emit/package.hpp"
#include "emulator/compile.hpp"
#include "emulator/driver.hpp"
#include "emulator/faults.hpp"
#include "opt/passes.hpp"
#include "oracle/oracle.hpp"
#include "plan/plan.hpp"
#include "runtime/cuda/execution.hpp"
#include "runtime/cuda/stream.hpp"
#include "support/slice.hpp"
#include "types/convert.hpp"
#include "unit/plan/bind_text.hpp"

namespace codetta::emulator {
namespace {

class Tensors {
 public:
  ~Tensors() {
    for (void* memory : memory_) free_guarded(memory);
  }
  // `symbols`: what sizes of the program are.
  Result<TensorView> add(DType dtype, const std::vector<types::Dim>& shape,
                         const std::map<std::string, int64_t>& symbols = {}) {
    Dims sizes;
    int64_t count = dtype_size(dtype);
    for (const types::Dim& dim : shape) {
      const int64_t size = dim.evaluate(symbols).value();
      sizes.push_back(size);
      count *= size;
    }
    memory_.push_back(allocate_guarded(static_cast<size_t>(count), memory_.size() % 2 == 0));
    return TensorView::make(memory_.back(), dtype, sizes);
  }

 private:
  std::vector<void*> memory_;
};

Result<runtime::cuda::DeviceRef> open(Model model = {}) {
  if (emulated_gfx().starts_with("gfx9")) model.lanes = 64;
  return open_device(model);
}
Target target_of(const runtime::cuda::DeviceRef& device) {
  return {emulated_gfx().empty() ? Backend::cuda : Backend::hip, CpuIsa::generic,
          emulated_gfx().empty() ? device->facts().arch : emulated_gfx()};
}

// `same`: an argument whose tensor the output y takes over, or "". `sources`: takes those of the kernels, or null.
// `twice`: the source of user_kernel("twice"), which doubles each element of its operand. `symbols`: what sizes of the
// program are, which `hints` may say otherwise.
Result<std::string> run(const std::string& text, const runtime::cuda::DeviceRef& device, const Compiler& compiler,
                        const std::string& same = {}, std::string* sources = nullptr, const std::string& twice = {},
                        const std::map<std::string, int64_t>& symbols = {},
                        const std::vector<std::pair<std::string, int64_t>>& hints = {}) {
  CODETTA_TRY(const ir::Graph graph, test::bind_program_text(text));
  CODETTA_TRY(const opt::Optimized optimized, opt::optimize(graph));
  const auto language = emulated_gfx().empty() ? plan::UserSource::Language::Cuda : plan::UserSource::Language::Hip;
  CODETTA_TRY(const plan::Plan plan, plan::plan_program(optimized.graph, target_of(device), {}, hints,
                                                        {{"twice", twice, language, "twice.cu"}}));
  CODETTA_TRY(package::Package made, emit::emit_package(plan, {.strict = false, .name = "test", .build_id = ""}));
  const auto package = std::make_shared<const package::Package>(std::move(made));
  std::vector<runtime::cuda::ModuleRef> modules;
  for (const package::Kernel& kernel : package->kernels) {
    CODETTA_TRY(const std::string object, compiler.compile(kernel.source, kernel.nvrtc_flags));
    CODETTA_TRY(modules.emplace_back(), runtime::cuda::Module::load(device, object, kernel.name));
    if (sources != nullptr) *sources += kernel.source;
  }
  Tensors memory;
  std::map<std::string, TensorView> by_name;
  std::map<std::string, std::vector<types::Dim>> shapes;
  runtime::Bindings bindings;
  bindings.tensors.resize(package->buffers.size());
  bindings.scalars.resize(package->buffers.size());
  for (size_t i = 0; i < package->buffers.size(); ++i) {
    const package::Buffer& buffer = package->buffers[i];
    if (buffer.role != package::Buffer::Role::Argument && buffer.role != package::Buffer::Role::Output) continue;
    if (buffer.name == "y" && !same.empty()) {  // arguments come first
      bindings.tensors[i] = by_name.at(same);
      by_name.emplace(buffer.name, bindings.tensors[i]);
      continue;
    }
    CODETTA_TRY(bindings.tensors[i], memory.add(buffer.dtype, buffer.shape, symbols));
    by_name.emplace(buffer.name, bindings.tensors[i]);
    shapes.emplace(buffer.name, buffer.shape);
    if (buffer.role == package::Buffer::Role::Output) {
      fill_poison(bindings.tensors[i]);
    } else if (buffer.dtype == DType::i64) {
      for (int64_t e = 0; e < bindings.tensors[i].element_count(); ++e)
        bindings.tensors[i].as<int64_t>()[e] = e * 7 % 5;
    } else {
      fill_random(bindings.tensors[i], i + 1, Distribution::Normal);
    }
  }
  std::vector<oracle::OracleInput> inputs;
  for (const ir::GraphInput& input : graph.inputs()) {
    TensorView given = by_name.at(input.name);
    if (input.name == same) {
      CODETTA_TRY(const TensorView before, memory.add(given.dtype(), shapes.at(same), symbols));
      std::memcpy(before.data(), given.data(), static_cast<size_t>(given.element_count() * dtype_size(given.dtype())));
      given = before;
    }
    inputs.emplace_back(given);
  }
  CODETTA_TRY(runtime::cuda::Execution execution, runtime::cuda::Execution::make(package, modules, bindings));
  CODETTA_TRY(const runtime::cuda::OwnedStream stream, runtime::cuda::OwnedStream::make(device));
  CODETTA_CHECK_OK(execution.run(stream.get()));
  oracle::OracleOptions options;
  options.ulp = emulated_gfx().empty() ? oracle::cuda_ulp_table() : oracle::hip_ulp_table();
  options.functions["twice"] = [](std::span<const TensorView> in, std::span<const TensorView> out) -> Result<void> {
    for (int64_t i = 0; i < in[0].element_count(); ++i) {
      const auto offset = static_cast<size_t>(i * dtype_size(in[0].dtype()));
      types::store_f64(out[0].as<std::byte>() + offset, out[0].dtype(),
                       2 * types::load_f64(in[0].as<std::byte>() + offset, in[0].dtype()));
    }
    return {};
  };
  CODETTA_TRY(const oracle::OracleResult expected, oracle::evaluate(graph, inputs, options));
  std::vector<TensorView> actual;
  for (const ir::GraphOutput& output : graph.outputs()) actual.push_back(by_name.at(output.name));
  CODETTA_TRY(const oracle::CheckReport report, oracle::check(actual, expected));
  std::string wrong = report.outputs.size() == actual.size() ? "" : "not every output was checked\n";
  for (const oracle::OutputReport& output : report.outputs) {
    if (output.wrong != 0)
      wrong += fmt::format("{}: {} of {} wrong; {}\n", output.name, output.wrong, output.elements, output.worst_text);
  }
  return wrong;
}

TEST(EmulatedMaps, AgreeWithTheOracle) {
  const auto device = open();
  ASSERT_TRUE(device) << device.error().render();
  const auto compiler = Compiler::find();
  ASSERT_TRUE(compiler) << compiler.error().render();
  constexpr const char* bodies[] = {
      "y = silu(x) * c + 1.0",        "e = exp(x - max(x, dim=-1))\n    y = e / sum(e, dim=-1) + c * 0.5",
      "y = logsumexp(x + c, dim=-1)", "m = mean(x, dim=0)\n    y = (x - m) * rsqrt(mean(x * x, dim=0) + 0.001) + c",
      "y = x * c / sum(x * x)",       "y = permute(x + c, [1, 0])",
      "y = take(x + c, i, dim=0)",
  };
  constexpr const char* types[] = {"f32", "bf16", "f16", "f64"};
  size_t which = 0;
  for (const char* body : bodies) {
    for (const char* sizes : {"[37, 70]", "[64, 128]"}) {
      const std::string type = types[which % 4] + std::string(sizes);
      const size_t turn = which / 2 + which % 2;  // one of its two sizes
      ++which;
      if (!test::commit_takes(turn, 4)) continue;
      const std::string text =
          "def f(x: " + type + ", c: " + type + ", i: i64[9]):\n    " + body + "\n    z = i + 1\n    return y, z\n";
      const auto wrong = run(text, *device, *compiler);
      EXPECT_TRUE(wrong) << text << wrong.error().render();
      EXPECT_EQ(wrong ? *wrong : "", "") << text;
    }
  }
}

// Sizes that are no axis are numbers of the launch: of a map, of one that finishes rows, of one with a launch a phase,
// and of a product.
TEST(EmulatedMaps, PositionsBehindSymbolicStarts) {
  const auto device = open();
  ASSERT_TRUE(device) << device.error().render();
  const auto compiler = Compiler::find();
  ASSERT_TRUE(compiler) << compiler.error().render();
  constexpr const char* bodies[] = {
      "y = x * cast(arange(p + n)[p:], f32)",
      "y = softmax(x * 0.01 * cast(arange(p + n)[p:], f32)) + b",
      "y = x - mean(x * cast(reshape(arange(m * n), (m, n)), f32) * 0.01, dim=0) + b",
      "y = transpose(w) @ x + cast(arange(2 * p + n)[2 * p:], f32) + b",
  };
  for (size_t k = 0; k < std::size(bodies); ++k) {
    if (!test::commit_takes(k, 2)) continue;
    const std::string text = "def f(x: f32[\"m\", \"n\"], b: f32[\"p\", 1, 1], w: f32[\"m\", 24]):\n    " +
                             std::string(bodies[k]) + "\n    z = w * 2.0 + b\n    return y, z\n";
    for (const int64_t p : {1, 40}) {
      const auto wrong = run(text, *device, *compiler, {}, nullptr, {}, {{"m", 5}, {"n", 37}, {"p", p}});
      EXPECT_TRUE(wrong) << text << wrong.error().render();
      EXPECT_EQ(wrong ? *wrong : "", "") << text << p;
    }
  }
}

// Dims that are one in what the kernel goes over have an axis each, so that nothing is copied.
TEST(EmulatedMaps, DimsThatAreOneAreReadWhereTheyLie) {
  const auto device = open();
  ASSERT_TRUE(device) << device.error().render();
  const auto compiler = Compiler::find();
  ASSERT_TRUE(compiler) << compiler.error().render();
  constexpr const char* bodies[] = {
      "y = softmax(reshape(permute(x, (0, 2, 1, 3)), (m * n, 32)) * 0.5)",
      "y = sum(reshape(permute(x, (2, 0, 1, 3)), (n * m, 32)) * 2.0, dim=-1)",
      "h = reshape(permute(x, (0, 2, 1, 3)), (m * n, 32))\n    y = silu(h) * h + cast(reshape(arange(m * n), (m * n, "
      "1)), f32)",
      "h = reshape(permute(x, (0, 2, 1, 3)), (m * n, 32))\n    y = (h - mean(h, dim=0)) * 0.5",
  };
  for (size_t k = 0; k < std::size(bodies); ++k) {
    if (!test::commit_takes(k, 2)) continue;
    const std::string text = "def f(x: f32[\"m\", 4, \"n\", 8]):\n    " + std::string(bodies[k]) + "\n    return y\n";
    for (const int64_t n : {1, 37}) {
      const auto wrong = run(text, *device, *compiler, {}, nullptr, {}, {{"m", 5}, {"n", n}});
      EXPECT_TRUE(wrong) << text << wrong.error().render();
      EXPECT_EQ(wrong ? *wrong : "", "") << text << n;
    }
  }
}

// Parts of joins that are chosen by position: outside of a part its nearest element is read and not taken. Edges of
// guarded memory are next to each part.
TEST(EmulatedMaps, JoinsSelectedByPosition) {
  const auto device = open();
  ASSERT_TRUE(device) << device.error().render();
  const auto compiler = Compiler::find();
  ASSERT_TRUE(compiler) << compiler.error().render();
  constexpr const char* bodies[] = {
      // padding along a row, along two dims, of sizes that are not known
      "y = concat(zeros(m + 2, 2), silu(x), zeros(m + 2, 1), dim=1)",
      "t = concat(zeros(1, n + 1), x * b, zeros(1, n + 1), dim=0)\n    z1 = zeros(m + 4, 2)\n    y = concat(z1, t, z1, "
      "dim=1)",
      // parts with positions, indices, slices, another order, broadcasts; joins of equal parts in one of other sizes
      "y = concat(x + cast(arange(n + 1), f32), take(c, i), c[1:, :] - b, expand(b, p + 1, n + 1), dim=0)",
      "y = concat(x, concat(c, c * 2.0, dim=0), transpose(transpose(x) + 1.0)[:m + 1, :], dim=0)",
      "y = where(concat(x > 0.0, c < 0.0, dim=0), 1.0, -concat(c, x, dim=0) * b)",
      // parts of which nothing is left
      "y = concat(zeros(0, n + 1), x * b, x[:0, :], c, c[1:1, :], dim=0)",
  };
  for (size_t k = 0; k < std::size(bodies); ++k) {
    if (!test::commit_takes(k, 2)) continue;
    const std::string text =
        "def f(x: f32[\"m + 2\", \"n + 1\"], c: f32[\"p + 2\", \"n + 1\"], b: f32[1, \"n + 1\"], i: i64[7],\n"
        "      s: f32[\"m\", \"n\", \"p\"]):\n    " +
        std::string(bodies[k]) + "\n    z = c * b\n    u = i + 1\n    v = s + 1.0\n    return y, z, u, v\n";
    for (const int64_t p : {7, 28}) {
      const auto wrong = run(text, *device, *compiler, {}, nullptr, {}, {{"m", 3}, {"n", 36}, {"p", p}});
      EXPECT_TRUE(wrong) << text << wrong.error().render();
      EXPECT_EQ(wrong ? *wrong : "", "") << text << p;
    }
  }
  // Parts that turn out to have no elements, behind one that has some and in front of it.
  const std::string empty =
      "def f(x: f32[\"m\", 8], c: f32[\"p\", 8]):\n    y = concat(x * 2.0, c, dim=0)\n    z = concat(c, x + 1.0, "
      "dim=0)\n"
      "    return y, z\n";
  for (const auto& [m, p] : {std::pair<int64_t, int64_t>{5, 0}, {0, 5}, {0, 0}, {3, 2}}) {
    const auto wrong = run(empty, *device, *compiler, {}, nullptr, {}, {{"m", m}, {"p", p}});
    EXPECT_TRUE(wrong) << wrong.error().render();
    EXPECT_EQ(wrong ? *wrong : "", "") << m << " " << p;
  }
}

// Attention of one token is a map: a sum a head, and what it scales.
TEST(EmulatedMaps, AttentionOfOneToken) {
  const auto device = open();
  ASSERT_TRUE(device) << device.error().render();
  const auto compiler = Compiler::find();
  ASSERT_TRUE(compiler) << compiler.error().render();
  const std::string text =
      "def f(x: bf16[\"b\", 1, 64], w: bf16[64, 96], u: bf16[64, 96], v: bf16[64, 96]):\n"
      "    q = cast(permute(reshape(x @ w, (b, 1, 3, 32)), (0, 2, 1, 3)), bf16)\n"
      "    k = cast(permute(reshape(x @ u, (b, 1, 3, 32)), (0, 2, 1, 3)), bf16)\n"
      "    s = cast(sigmoid(q @ transpose(k) * 0.125), bf16)\n"
      "    t = permute(reshape(x @ v, (b, 1, 3, 32)), (0, 2, 1, 3))\n"
      "    y = reshape(permute(s @ cast(t, bf16), (0, 2, 1, 3)), (b, 1, 96))\n"
      "    return y\n";
  for (const int64_t items : {1, 5, 9}) {
    const auto wrong = run(text, *device, *compiler, {}, nullptr, {}, {{"b", items}}, {{"b", 8}});
    EXPECT_TRUE(wrong) << wrong.error().render();
    EXPECT_EQ(wrong ? *wrong : "", "") << items;
  }
}

// A block looks at what is owed over a root space without elements, and reads what is the same everywhere before it
// sees that there is no row; what it reads then is not there.
// Rows that a part of a warp finishes, a warp, several; kept in registers or read again by each phase; whose columns
// are whole vectors or not.
TEST(EmulatedMaps, RowsOfEveryLength) {
  const auto device = open();
  ASSERT_TRUE(device) << device.error().render();
  const auto compiler = Compiler::find();
  ASSERT_TRUE(compiler) << compiler.error().render();
  constexpr const char* bodies[] = {
      "y = softmax(x * 0.25 + c)",
      "m = mean(x, dim=-1)\n    d = x - m\n    y = d * rsqrt(mean(d * d, dim=-1) + 0.001) + x * c",
      "y = x - logsumexp(x + c, dim=-1)\n    z = sum(exp(y), dim=-1)",
  };
  constexpr const char* sizes[] = {"[3, 40]", "[700, 96]", "[5, 2056]", "[2, 3, 2, 264]", "[264, 8200]", "[264, 8201]"};
  constexpr const char* types[] = {"bf16", "f32", "f16", "f64", "f32"};
  size_t which = 0;
  for (const char* body : bodies) {
    for (const char* size : sizes) {
      const std::string type = types[which % 5] + std::string(size);
      // All that is done with rows, but each at one of their sizes.
      const size_t turn = which % std::size(sizes) + which / std::size(sizes);
      ++which;
      if (!test::commit_takes(turn, std::size(sizes))) continue;
      const std::string z = body == bodies[2] ? ", z" : "";
      const std::string text = "def f(x: " + type + ", c: " + type + "):\n    " + body + "\n    return y" + z + "\n";
      std::string sources;
      const auto wrong = run(text, *device, *compiler, {}, &sources);
      EXPECT_TRUE(wrong) << text << wrong.error().render();
      EXPECT_EQ(wrong ? *wrong : "", "") << text;
      // A GPU of 304 compute units shares long rows among blocks where there are fewer rows than that.
      const bool shared = emulated_gfx() == "gfx942" && std::string_view(size).find("82") != std::string_view::npos;
      EXPECT_EQ(sources.find("codetta_rows") != std::string::npos, !shared) << text;
    }
  }
}

// Rows whose columns are known when the kernel is compiled, of so many, fewer and more, and no whole vectors.
TEST(EmulatedMaps, RowsOfOtherLengthsThanHinted) {
  const auto device = open();
  ASSERT_TRUE(device) << device.error().render();
  const auto compiler = Compiler::find();
  ASSERT_TRUE(compiler) << compiler.error().render();
  // A 16-bit float kept as it is and made again; two of them, whose sum is kept; a row-class operand and output.
  constexpr const char* bodies[] = {
      "y = softmax(x * 0.25) + x + c * w",
      "y = softmax(x * 0.25 + c) + w",
      "m = mean(x, dim=-1)\n    d = x - m\n    y = d * rsqrt(mean(d * d, dim=-1) + 0.001) * w + c",
  };
  constexpr const char* types[] = {"bf16", "f16", "bf16"};
  constexpr int64_t hints[] = {256, 2048, 264};
  for (size_t k = 0; k < std::size(bodies); ++k) {
    if (!test::commit_takes(k, 2)) continue;
    const std::string type = types[k];
    const int64_t hint = hints[k];
    const std::string text = "def f(x: " + type + "[\"m\", \"n\"], c: " + type + "[\"m\", \"n\"], w: " + type +
                             "[\"n\"]):\n    " + bodies[k] + "\n    return y\n";
    for (const int64_t n : {hint, hint - 8, 2 * hint + 8, int64_t{37}, int64_t{0}}) {
      std::string sources;
      const auto wrong =
          run(text, *device, *compiler, {}, &sources, {}, {{"m", 5}, {"n", n}}, {{"m", 4096}, {"n", hint}});
      EXPECT_TRUE(wrong) << text << n << wrong.error().render();
      EXPECT_EQ(wrong ? *wrong : "", "") << text << n;
      // Clang takes long for each form, and HIP's kernels have one for all rows of which everything is kept.
      const bool for_hint = sources.find(fmt::format("short_rows<{}, ", hint)) != std::string::npos;
      EXPECT_EQ(for_hint, emulated_gfx().empty()) << text;
      EXPECT_NE(sources.find("short_rows<0, "), std::string::npos) << text;
    }
  }
}

// What a grid has no blocks for, those that it has do: pieces of a row, and results of reductions; of products too.
TEST(EmulatedMaps, BeyondAGrid) {
  Model small;
  small.grid_x = 2;
  const auto device = open(small);
  ASSERT_TRUE(device) << device.error().render();
  const auto compiler = Compiler::find();
  ASSERT_TRUE(compiler) << compiler.error().render();
  for (const char* text :
       {"def f(x: f32[3000]):\n    y = exp(x) * 0.5\n    return y\n",
        "def f(x: f32[150, 700]):\n    c = sum(x, dim=0)\n    r = max(x, dim=1)\n    t = sum(x * 0.25)\n"
        "    y = x * c + r * t\n    return y, c, r, t\n",
        "def f(x: f16[100, 40], w: f16[40, 8]):\n    y = x @ w\n    r = sum(y, dim=1)\n    return y, r\n"}) {
    const auto wrong = run(text, *device, *compiler);
    const bool tiles = std::string_view(text).find('@') != std::string_view::npos;
    if (tiles && !wrong) {  // of a product a block has one tile
      EXPECT_EQ(wrong.error().code(), 650) << wrong.error().render();
      EXPECT_NE(wrong.error().render().find("needs a grid of"), std::string::npos) << wrong.error().render();
      continue;
    }
    EXPECT_FALSE(tiles) << text;
    EXPECT_TRUE(wrong) << text << wrong.error().render();
    EXPECT_EQ(wrong ? *wrong : "", "") << text;
  }
}

TEST(EmulatedMaps, OverAnEmptyBatchNothingIsReadThatIsNotThere) {
  const auto device = open();
  ASSERT_TRUE(device) << device.error().render();
  const auto compiler = Compiler::find();
  ASSERT_TRUE(compiler) << compiler.error().render();
  constexpr const char* texts[] = {
      // a number of a batch item; a vector of a batch item with a reduction over everything that is owed
      "x: f32[0, 8, 16], s: f32[0, 1, 1]):\n    y = x * s + 1.0\n    z = sum(x * s)\n",
      "x: bf16[0, 8, 16], s: f64[0, 1, 1]):\n    y = cast(x, f64) / s\n    z = max(x, dim=0)\n",
      // no row, and a row of the operand that is no part of it
      "x: f32[0, 16], s: f32[0, 1]):\n    y = x * s\n    z = sum(x * s, dim=0)\n",
      // nothing is taken out of nothing
      "x: f32[0, 16], i: i64[0]):\n    y = take(x, i, dim=0) * 2.0\n    z = sum(x)\n",
      // a product, whose kernel may share K among blocks
      "a: f32[0, 8, 4096], b: f32[0, 4096, 8], s: f32[0, 1, 1]):\n    p = a @ b\n    y = p * s\n    z = sum(p * s)\n",
  };
  for (const char* arguments : texts) {
    const std::string text = std::string("def f(") + arguments + "    return y, z\n";
    const auto wrong = run(text, *device, *compiler);
    EXPECT_TRUE(wrong) << text << wrong.error().render();
    EXPECT_EQ(wrong ? *wrong : "", "") << text;
  }
}

// Results of reductions at places that are computed: one for each column, row or item, each stored once, and owed where
// there is nothing to reduce.
TEST(EmulatedMaps, ResultsAtComputedPlacesAreOwedToEmptySizes) {
  const auto device = open();
  ASSERT_TRUE(device) << device.error().render();
  const auto compiler = Compiler::find();
  ASSERT_TRUE(compiler) << compiler.error().render();
  constexpr const char* bodies[] = {// z keeps reductions from being all that a phase stores
                                    "    r = max(p, dim=-2)\n    y = permute(reshape(r, (3, 4, 16)), (0, 2, 1))\n    z "
                                    "= p - reshape(r, (3, 1, 64))\n",
                                    "    r = max(p, dim=-1)\n    y = permute(reshape(r, (3, 4, 16)), (2, 1, 0))\n    z "
                                    "= p - reshape(r, (3, 64, 1))\n",
                                    "    r = max(p, dim=[-2, -1])\n    y = permute(reshape(r, (1, 3, 1)), (1, 2, 0))\n "
                                    "   z = p - reshape(r, (3, 1, 1))\n"};
  size_t which = 0;
  for (const char* body : bodies) {
    const bool columns = std::string_view(body).find("dim=-2)") != std::string_view::npos;
    const bool rows = std::string_view(body).find("dim=-1)") != std::string_view::npos;
    for (const int64_t reduced : {0, 70}) {
      const std::string m = std::to_string(columns ? reduced : 64), n = std::to_string(rows || !columns ? reduced : 64);
      for (const std::string& k : {std::string(), std::string("0"), std::string("24")}) {  // "": a map
        if (k.empty() && !columns && !rows) continue;  // a map of an item's columns is reduced by rows
        const size_t turn = which++;
        if (!test::commit_takes(turn + turn / 3, 3)) continue;
        const std::string text =
            (k.empty() ? "def f(p: f32[3, " + m + ", " + n + "]):\n"
                       : "def f(a: f32[3, " + m + ", " + k + "], b: f32[3, " + k + ", " + n + "]):\n    p = a @ b\n") +
            body + "    return y, z\n";
        const auto wrong = run(text, *device, *compiler);
        EXPECT_TRUE(wrong) << text << wrong.error().render();
        EXPECT_EQ(wrong ? *wrong : "", "") << text;
      }
    }
  }
}

// States of what is reduced over nothing have room of their own: pairs of numbers, more than there are results.
TEST(EmulatedMaps, WideStatesOfNothingStayInTheWorkspace) {
  const auto device = open();
  ASSERT_TRUE(device) << device.error().render();
  const auto compiler = Compiler::find();
  ASSERT_TRUE(compiler) << compiler.error().render();
  constexpr const char* texts[] = {
      "def f(x: f32[0, 600]):\n    y = logsumexp(x, dim=0)\n    return y\n",
      "def f(a: f32[0, 24], b: f32[24, 600]):\n    z = a @ b\n    m = logsumexp(z, dim=0)\n"
      "    y = logsumexp(z - m, dim=0)\n    return y, z\n",
  };
  for (const char* text : texts) {
    const auto wrong = run(text, *device, *compiler);
    EXPECT_TRUE(wrong) << text << wrong.error().render();
    EXPECT_EQ(wrong ? *wrong : "", "") << text;
  }
}

// What a loop carries is updated where it lies: its counter, too. The machine tells of memory that is read as constant
// and then written.
TEST(EmulatedMaps, WhatALoopCarriesIsNoConstant) {
  const auto device = open();
  ASSERT_TRUE(device) << device.error().render();
  const auto compiler = Compiler::find();
  ASSERT_TRUE(compiler) << compiler.error().render();
  constexpr const char* texts[] = {
      "def more(i, y):\n    return i < 3\n"
      "def turn(i, y):\n    return i + 1, y * 0.5 + 1.0\n"
      "def f(x: f32[5, 12]):\n    i, y = while_loop(more, turn, 0, x)\n    return i, y\n",
      // an element that is read by an index, and taken over by what is made of it
      "def more(i, y):\n    return i < 3\n"
      "def turn(i, y):\n    return i + 1, take(y, reshape(i * 0, (1,)), dim=0) * 2.0\n"
      "def f(x: f32[1]):\n    i, y = while_loop(more, turn, 0, x + 1.0)\n    return i, y\n",
  };
  for (const char* text : texts) {
    const auto wrong = run(text, *device, *compiler);
    EXPECT_TRUE(wrong) << text << wrong.error().render();
    EXPECT_EQ(wrong ? *wrong : "", "") << text;
  }
}

// Heads of rows, which products read where they lie, by kernels of every family that there is; and a head that others
// share.
TEST(EmulatedMaps, HeadsOfRows) {
  const auto device = open();
  ASSERT_TRUE(device) << device.error().render();
  const auto compiler = Compiler::find();
  ASSERT_TRUE(compiler) << compiler.error().render();
  uint64_t which = 0;
  for (const char* type : {"f32", "bf16", "f64"}) {
    for (const char* heads : {"3", "1"}) {
      if (!test::commit_takes(which++, 3)) continue;
      const std::string text = fmt::format(
          "def f(q: {0}[2, \"s\", 96], k: {0}[2, \"t\", {1}, 32], v: {0}[2, \"t\", {1}, 32]):\n"
          "    p = permute(reshape(q, (2, s, 3, 32)), (0, 2, 1, 3)) @ permute(k, (0, 2, 3, 1))\n"
          "    y = reshape(permute(cast(p * 0.125, {0}) @ permute(v, (0, 2, 1, 3)), (0, 2, 1, 3)), (2, s, 96))\n"
          "    return y\n",
          type, heads);
      for (const int64_t s : {1, 37}) {
        if (!test::commit_takes(which + static_cast<uint64_t>(s == 1), 2)) continue;
        const auto wrong = run(text, *device, *compiler, {}, nullptr, {}, {{"s", s}, {"t", 40}}, {{"s", s}, {"t", 40}});
        EXPECT_TRUE(wrong) << text << wrong.error().render();
        EXPECT_EQ(wrong ? *wrong : "", "") << text << s;
      }
    }
  }
}

// C is D.
TEST(EmulatedMaps, AProductOverItsOperand) {
  const auto device = open();
  ASSERT_TRUE(device) << device.error().render();
  const auto compiler = Compiler::find();
  ASSERT_TRUE(compiler) << compiler.error().render();
  for (const char* type : {"f64", "f32"}) {
    for (const char* n : {"64", "37"}) {
      const std::string text = fmt::format(
          "def f(a: {0}[48, 32], b: {0}[32, {1}], c: {0}[48, {1}]):\n    y = a @ b + c * 0.5\n    return y\n", type, n);
      const auto wrong = run(text, *device, *compiler, "c");
      EXPECT_TRUE(wrong) << text << wrong.error().render();
      EXPECT_EQ(wrong ? *wrong : "", "") << text;
    }
  }
}

// A result of rows that is the same for all of them is read before there is a row.
TEST(EmulatedMaps, OfNoRowsTheSameResultIsThere) {
  const auto device = open();
  ASSERT_TRUE(device) << device.error().render();
  const auto compiler = Compiler::find();
  ASSERT_TRUE(compiler) << compiler.error().render();
  constexpr const char* texts[] = {
      "def f(x: f32[0, 16], c: f32[1, 16]):\n    y = x * sum(c, dim=-1)\n    z = sum(x * 2.0, dim=0)\n    return y, "
      "z\n",
      "def f(x: f32[0, 16], c: f32[1, 16]):\n    z = sum(x * 2.0, dim=0)\n    y = x * sum(c, dim=-1)\n    return z, "
      "y\n",
      "def f(x: f32[0, 16], c: f32[1, 16]):\n    s = sum(c, dim=-1)\n    y = x * s\n    z = sum(x * s, dim=0)\n    "
      "return y, z\n",
      "def f(a: f32[0, 64], b: f32[64, 8], c: f32[1, 8]):\n    p = a @ b\n    s = sum(c * 2.0, dim=-1)\n    y = p * "
      "s\n    z = sum(p * s)\n    return y, z\n",
  };
  for (const char* text : texts) {
    std::string sources;
    const auto wrong = run(text, *device, *compiler, {}, &sources);
    EXPECT_NE(sources.find("result_any_row"), std::string::npos) << text;
    EXPECT_TRUE(wrong) << text << wrong.error().render();
    EXPECT_EQ(wrong ? *wrong : "", "") << text;
  }
}

// A kernel of the user's hands its result over, and what follows runs inside of it: operands of every kind, several
// outputs, the result itself, other orders of dims, no elements.
TEST(EmulatedMaps, WhatFollowsAUsersKernel) {
  const auto device = open();
  ASSERT_TRUE(device) << device.error().render();
  const auto compiler = Compiler::find();
  ASSERT_TRUE(compiler) << compiler.error().render();
  const auto source = [](const std::string& type, const std::string& name) {
    return "#pragma codetta kernel(x: " + type + "[b, m, n], out y: " + type +
           "[b, m, n]) hook(y)\n#pragma codetta sizes(n, m: i32) block(32) grid(m, b)\n"
           "extern \"C\" __global__ void twice(const " +
           name + "* x, Hook<" + name +
           ", 3> y, int64_t n, int m) {\n"
           "  for (int64_t c = threadIdx.x; c < y.size(2); c += 32) {\n"
           "    const int64_t b = blockIdx.y, r = blockIdx.x;\n"
           "    y.store(b, r, c, 2 * x[(b * m + r) * n + c]);\n  }\n}\n";
  };
  constexpr const char* bodies[] = {
      "y = silu(s) * other + row * column\n",
      "y = where(s > other, s, row)\n    z = cast(y * 0.5, bf16)\n    t = transpose(s + column)\n",
      "y = s * item + cast(arange(N), f32)\n    z = dropout(s, 0.5, 3)\n",
      "y = s\n",
  };
  constexpr const char* outputs[] = {"y", "s, y, z, t", "z, y", "y"};
  const std::pair<const char*, const char*> types[] = {{"f32", "float"}, {"f64", "double"}};
  size_t which = 0;
  for (size_t b = 0; b < std::size(bodies); ++b) {
    for (const char* size : {"2, 5, 37", "1, 3, 1", "3, 0, 4"}) {
      const size_t turn = which++;
      if (!test::commit_takes(turn + b, 3)) continue;  // each of the four at one of three sizes
      const auto& [type, name] = types[turn % 2];
      const std::string sizes(size), m = sizes.substr(3, 1), n = sizes.substr(6), items = sizes.substr(0, 1);
      std::string body = bodies[b];
      if (const size_t at = body.find("arange(N)"); at != std::string::npos) body.replace(at + 7, 1, n);
      const std::string text = fmt::format(
          "def f(x: {0}[{1}], other: bf16[{1}], row: f32[{2}], column: f32[{3}, 1], item: f16[{4}, 1, 1]):\n"
          "    s = user_kernel(\"twice\", x, out=\"{0}[{1}]\")\n    u = row + sum(column) + sum(item) + sum(other)\n   "
          " "
          "{5}"
          "    return {6}, u\n",
          type, sizes, n, m, items, body, outputs[b]);
      std::string sources;
      const auto wrong = run(text, *device, *compiler, {}, &sources, source(type, name));
      EXPECT_TRUE(wrong) << text << wrong.error().render();
      EXPECT_EQ(wrong ? *wrong : "", "") << text;
      EXPECT_NE(sources.find("hook_store"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace codetta::emulator

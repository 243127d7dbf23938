// SPDX-License-Identifier: Apache-2.0
// Factors that a product makes where it reads them, and several products of one A: every candidate kernel of random
// programs on the emulated driver, against the oracle. Sizes are odd, so that every tile, slice of K and vector has a
// tail somewhere. CODETTA_EMULATED_GFX names an AMD GPU that runs them instead.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
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
#include "unit/plan/bind_text.hpp"

namespace codetta::emulator {
namespace {

struct Ran {
  std::set<package::GpuFamily> families;  // of kernels that made a factor, or computed several products
  std::string wrong;
  std::set<package::GpuFamily> whole_rows{};  // of kernels whose pieces hold whole rows
};

// How an argument lies: elements behind each row that are not its own, and whether all items of a batch are one.
struct Lies {
  int64_t gap = 0;
  bool shared = false;
};
using Layouts = std::map<std::string, Lies>;

// A program on one device. `most`: candidates of a kernel with made factors that are run.
class Runner {
 public:
  explicit Runner(runtime::cuda::DeviceRef device, const Compiler& compiler)
      : device_(std::move(device)), compiler_(compiler) {}

  // A program of one product whose sums of exponents are lowered as reductions beside the largest elements: the best
  // candidate of each family. `planned` has the same tensors, and nothing that would be cut off.
  Result<Ran> run_statistics(const std::string& text, const std::string& planned) {
    CODETTA_TRY(const ir::Graph graph, test::bind_program_text(text));
    CODETTA_TRY(const opt::Optimized optimized, opt::optimize(graph));
    const ir::Graph& plain = optimized.graph;
    const Target target = this->target();
    CODETTA_TRY(const ir::Graph other, test::bind_program_text(planned));
    CODETTA_TRY(plan::Plan plan, plan::plan_program(other, target, {}, {}));
    Ran ran;
    if (plan.kernels.size() != 1) {
      ran.wrong = "it is cut";
      return ran;
    }
    plan::PlannedKernel& kernel = plan.kernels[0];
    plan::LoweringScope scope;
    scope.sums_exponents = true;
    const ir::NodeId product = test::product(plain);
    for (const ir::GraphInput& input : plain.inputs()) {
      if (input.node != plain.operands(product)[0] && input.node != plain.operands(product)[1])
        scope.leaves.push_back({input.node, input.name});
    }
    for (const ir::GraphOutput& output : plain.outputs())
      scope.outputs.push_back({output.node, output.name, output.dtype});
    CODETTA_TRY(kernel.lowered, plan::lower_region(plain, product, scope));
    const std::string lowered = kernel.lowered.program.to_string();
    if (kernel.lowered.program.phases.size() != 2 || lowered.find("reduce row sumexp") == std::string::npos) {
      ran.wrong = lowered;
      return ran;
    }
    kernel.discovery = plan::discover(kernel.lowered.program, kernel.shape, target, {});
    return run_families(graph, plan);
  }

  // A program of one kernel: the best candidate of each family.
  Result<Ran> run_kernel(const std::string& text, const Layouts& layouts = {}) {
    CODETTA_TRY(const ir::Graph graph, test::bind_program_text(text));
    CODETTA_TRY(const opt::Optimized optimized, opt::optimize(graph));
    const Target target = this->target();
    CODETTA_TRY(plan::Plan plan, plan::plan_program(optimized.graph, target, {}, {}));
    if (plan.kernels.size() != 1) return Ran{{}, "it is cut"};
    return run_families(graph, plan, layouts);
  }

  Result<Ran> run(const std::string& text, size_t most, const Layouts& layouts = {}) {
    CODETTA_TRY(const ir::Graph graph, test::bind_program_text(text));
    CODETTA_TRY(const opt::Optimized optimized, opt::optimize(graph));
    const Target target = this->target();
    CODETTA_TRY(plan::Plan plan, plan::plan_program(optimized.graph, target, {}, {}));
    Ran ran;
    size_t candidates = 0;
    for (const plan::PlannedKernel& kernel : plan.kernels) {
      if (has_factors(kernel)) candidates = std::max(candidates, kernel.discovery.candidates.size());
    }
    // The best of each family, then others as far as `most` goes.
    std::vector<size_t> chosen;
    std::set<package::GpuFamily> seen;
    for (const bool first : {true, false}) {
      for (size_t c = 0; c < candidates; ++c) {
        for (const plan::PlannedKernel& kernel : plan.kernels) {
          if (!has_factors(kernel) || c >= kernel.discovery.candidates.size()) continue;
          const bool fresh = seen.insert(package::gpu(kernel.discovery.candidates[c].config).family).second;
          const bool taken = std::find(chosen.begin(), chosen.end(), c) != chosen.end();
          if (!taken && (first ? fresh : chosen.size() < most)) chosen.push_back(c);
        }
      }
    }
    for (const size_t c : chosen) {
      for (plan::PlannedKernel& kernel : plan.kernels) {
        if (!has_factors(kernel)) continue;
        kernel.chosen = std::min(c, kernel.discovery.candidates.size() - 1);
        ran.families.insert(package::gpu(kernel.discovery.candidates[kernel.chosen].config).family);
      }
      CODETTA_TRY(const std::string wrong, run_plan(graph, plan, layouts));
      if (!wrong.empty()) ran.wrong += fmt::format("candidate {}: {}", c, wrong);
    }
    return ran;
  }

 private:
  [[nodiscard]] Target target() const {
    return {emulated_gfx().empty() ? Backend::cuda : Backend::hip, CpuIsa::generic,
            emulated_gfx().empty() ? device_->facts().arch : emulated_gfx()};
  }
  static bool has_factors(const plan::PlannedKernel& kernel) {
    return !kernel.lowered.program.factors.empty() || !kernel.lowered.program.more_b.empty();
  }
  Result<Ran> run_families(const ir::Graph& graph, plan::Plan& plan, const Layouts& layouts = {}) {
    Ran ran;
    plan::PlannedKernel& kernel = plan.kernels[0];
    for (size_t c = 0; c < kernel.discovery.candidates.size(); ++c) {
      const package::GpuGemmConfig& config = package::gpu(kernel.discovery.candidates[c].config);
      if (!ran.families.insert(config.family).second) continue;
      if (config.whole_rows) ran.whole_rows.insert(config.family);
      kernel.chosen = c;
      CODETTA_TRY(const std::string wrong, run_plan(graph, plan, layouts));
      if (!wrong.empty()) ran.wrong += fmt::format("candidate {}: {}", c, wrong);
    }
    return ran;
  }
  Result<std::string> run_plan(const ir::Graph& graph, const plan::Plan& plan, const Layouts& layouts) {
    CODETTA_TRY(package::Package made, emit::emit_package(plan, {.strict = false, .name = "test", .build_id = ""}));
    // The file form carries the factors, too.
    CODETTA_TRY(package::Package decoded, package::Package::decode(made.encode()));
    const auto package = std::make_shared<const package::Package>(std::move(decoded));
    std::vector<runtime::cuda::ModuleRef> modules;
    for (const package::Kernel& kernel : package->kernels) {
      CODETTA_TRY(const std::string object, compiler_.compile(kernel.source, kernel.nvrtc_flags));
      CODETTA_TRY(modules.emplace_back(), runtime::cuda::Module::load(device_, object, kernel.name));
    }
    std::vector<void*> memory;
    runtime::Bindings bindings;
    bindings.tensors.resize(package->buffers.size());
    bindings.scalars.resize(package->buffers.size());
    std::map<std::string, oracle::OracleInput> given;
    std::map<std::string, TensorView> results;
    for (size_t i = 0; i < package->buffers.size(); ++i) {
      const package::Buffer& buffer = package->buffers[i];
      if (buffer.role != package::Buffer::Role::Argument && buffer.role != package::Buffer::Role::Output) continue;
      if (buffer.is_scalar) {
        bindings.scalars[i].f = 0.375f;
        given.emplace(buffer.name, oracle::OracleInput(types::Scalar::from_f64(0.375, buffer.dtype)));
        continue;
      }
      const auto lies = layouts.find(buffer.name);
      Dims sizes;
      for (const types::Dim& dim : buffer.shape) sizes.push_back(dim.as_constant().value());
      Dims strides = row_major_strides(sizes);
      int64_t elements = 1;
      for (int d = sizes.rank() - 1; d >= 0; --d) {
        strides[d] = elements;
        elements *= sizes[d];
        if (lies == layouts.end()) continue;
        if (d == sizes.rank() - 1) elements += lies->second.gap;
        if (d == 0 && sizes.rank() == 3 && lies->second.shared) elements = strides[0], strides[0] = 0;
      }
      if (lies != layouts.end()) elements -= lies->second.gap;  // none behind the last row
      memory.push_back(
          allocate_guarded(static_cast<size_t>(elements * dtype_size(buffer.dtype)), memory.size() % 2 == 0));
      CODETTA_TRY(bindings.tensors[i], TensorView::make(memory.back(), buffer.dtype, sizes, strides));
      if (buffer.role == package::Buffer::Role::Output) {
        fill_poison(bindings.tensors[i]);
        results.emplace(buffer.name, bindings.tensors[i]);
      } else {
        fill_random(bindings.tensors[i], i + 1, Distribution::Normal);
        given.emplace(buffer.name, oracle::OracleInput(bindings.tensors[i]));
      }
    }
    CODETTA_TRY(runtime::cuda::Execution execution, runtime::cuda::Execution::make(package, modules, bindings));
    CODETTA_TRY(const runtime::cuda::OwnedStream stream, runtime::cuda::OwnedStream::make(device_));
    CODETTA_CHECK_OK(execution.run(stream.get()));
    std::vector<oracle::OracleInput> inputs;
    for (const ir::GraphInput& input : graph.inputs()) inputs.push_back(given.at(input.name));
    oracle::OracleOptions options;
    options.ulp = emulated_gfx().empty() ? oracle::cuda_ulp_table() : oracle::hip_ulp_table();
    CODETTA_TRY(const oracle::OracleResult expected, oracle::evaluate(graph, inputs, options));
    std::vector<TensorView> actual;
    for (const ir::GraphOutput& output : graph.outputs()) actual.push_back(results.at(output.name));
    CODETTA_TRY(const oracle::CheckReport report, oracle::check(actual, expected));
    std::string wrong = report.outputs.size() == actual.size() ? "" : "not every output was checked\n";
    for (const oracle::OutputReport& output : report.outputs) {
      if (output.wrong != 0)
        wrong += fmt::format("{}: {} of {} wrong; {}\n", output.name, output.wrong, output.elements, output.worst_text);
    }
    for (void* place : memory) {
      if (const std::string around = surroundings_text(place); !around.empty()) wrong += around + "\n";
      free_guarded(place);
    }
    return wrong;
  }

  runtime::cuda::DeviceRef device_;
  const Compiler& compiler_;
};

using enum package::GpuFamily;

class EmulatedFactors : public ::testing::Test {
 protected:
  void SetUp() override {
    auto compiler = Compiler::find();
    ASSERT_TRUE(compiler) << compiler.error().render();
    compiler_.emplace(*std::move(compiler));
    auto device = open_device({.lanes = emulated_gfx().starts_with("gfx9") ? 64U : 32U});
    ASSERT_TRUE(device) << device.error().render();
    device_ = *std::move(device);
  }
  // Runs it and wants these families to have made factors; none: everything is made in front. On AMD's GPUs its matrix
  // instructions in the place of mma.sync.
  void expect(const std::string& text, std::set<package::GpuFamily> families, size_t most = 3,
              const Layouts& layouts = {}) {
    if (!emulated_gfx().empty()) {
      families.erase(Stream);
      if (families.erase(Sm80) != 0) families.insert(emulated_gfx().starts_with("gfx9") ? Mfma : Wmma);
    }
    const auto ran = Runner(device_, *compiler_).run(text, most, layouts);
    ASSERT_TRUE(ran) << text << ran.error().render();
    EXPECT_EQ(ran->wrong, "") << text;
    EXPECT_EQ(ran->families, families) << text;
  }
  std::optional<Compiler> compiler_;
  runtime::cuda::DeviceRef device_;
};

// What a softmax reduces of its rows, where these are stored: masked by -inf in columns, rows and both, of all sizes,
// equal, in order, and with infinities and what is no number.
TEST_F(EmulatedFactors, LargestElementsAndSumsOfExponents) {
  const std::tuple<int, int, int> sizes[] = {{70, 150, 40}, {5, 33, 64}, {64, 256, 32}};
  size_t which = 0;
  for (const char* scores : {"h * 0.25", "h * 30.0", "h * 0.0", "h * 0.0 + cast(arange(n), f32) * 0.25",
                             "h - cast(arange(n), f32) * 3.0", "where(c > 0.0, h, -inf)", "where(c * r > 0.0, h, -inf)",
                             "where(r > 1.0, -inf, h)", "where(c * r > 3.0, inf, h)", "where(c * r > 3.0, nan, h)"}) {
    const auto [m, n, k] = sizes[which++ % 3];
    if (!test::commit_takes(which, 5)) continue;
    std::string of = scores;
    if (const size_t at = of.find("arange(n)"); at != std::string::npos) of.replace(at + 7, 1, std::to_string(n));
    const auto with = [m = m, n = n, k = k, &of](const char* d) {
      return fmt::format(
          "def f(x: bf16[{0}, {2}], w: bf16[{2}, {1}], c: f32[{1}], r: f32[{0}, 1]):\n"
          "    h = cast(x @ w, bf16)\n    s = {3} + c * 0.0 + r * 0.0\n    m = max(s, dim=-1)\n"
          "    d = {4}\n    return h, m, d\n",
          m, n, k, of, d);
    };
    const std::string text = with("sum(exp(s - m), dim=-1)");
    const auto ran = Runner(device_, *compiler_).run_statistics(text, with("min(s, dim=-1)"));
    ASSERT_TRUE(ran) << text << ran.error().render();
    EXPECT_EQ(ran->wrong, "") << text;
    EXPECT_TRUE(ran->families.contains(Simt) && ran->families.contains(Sm80)) << text;
  }
}

// Reductions that are combined by one text: each has its own partial results and its own output.
TEST_F(EmulatedFactors, ReductionsOfOneFunctionBesideOthers) {
  uint64_t which = 0;
  for (const char* reductions : {"a = sum(h, dim=-1)\n    b = sum(h * 0.5 + 1.0, dim=-1)\n    return h, a, b\n",
                                 "m = max(h, dim=-1)\n    a = sum(h, dim=-1)\n    b = sum(h * 0.5 + 1.0, dim=-1)\n"
                                 "    c = sum(h * h, dim=-1)\n    l = min(h, dim=0)\n    return h, m, a, b, c, l\n"}) {
    if (!test::commit_takes(which++, 2)) continue;
    const std::string text = std::string("def f(x: bf16[70, 40], w: bf16[40, 150]):\n    h = x @ w\n    ") + reductions;
    const auto ran = Runner(device_, *compiler_).run_kernel(text);
    ASSERT_TRUE(ran) << text << ran.error().render();
    EXPECT_EQ(ran->wrong, "") << text;
    EXPECT_TRUE(ran->families.contains(Simt) && ran->families.contains(Sm80)) << text;
  }
}

// Rows that lie in one piece: what follows their reductions is in the product's own kernel. Of few and many columns, in
// parts, with phases behind phases, results of rows stored beside, and what is the same for all rows.
TEST_F(EmulatedFactors, RowsOfOnePiece) {
  const struct {
    int batch, m, n, k;
    const char* text;
  } cases[] = {
      {3, 70, 128, 40,
       "r = h * rsqrt(mean(h * h, dim=-1) + 0.001) * c\n    a, b = split(r, 2, dim=-1)\n    y = join(a - b, b + a, "
       "dim=-1)\n    return y\n"},
      {1, 33, 24, 64, "y = softmax(h + c)\n    return y\n"},
      {2, 9, 5, 17, "y = softmax(h * c)\n    l = logsumexp(h, dim=-1)\n    return y, l\n"},
      {1, 130, 100, 32,
       "m = mean(h, dim=-1)\n    d = h - m\n    v = mean(d * d, dim=-1)\n    y = d * rsqrt(v + 0.01) + c\n    return "
       "y, "
       "m, v\n"},
      {1, 40, 64, 24, "y = h / max(abs(h), dim=-1) + c\n    return y\n"},
      {1, 21, 12, 24, "y = h * c - cast(max(cast(h, f64), dim=-1), f32) - sum(h, dim=-1)\n    return y\n"},
  };
  uint64_t which = 0;
  for (const auto& [batch, m, n, k, body] : cases) {
    if (!test::commit_takes(which++, 4)) continue;
    const std::string text = fmt::format(
        "def f(x: bf16[{0}, {1}, {3}], w: bf16[{0}, {3}, {2}], c: f32[{2}]):\n    h = cast(x @ w, f32)\n    {4}", batch,
        m, n, k, body);
    const auto ran = Runner(device_, *compiler_).run_kernel(text);
    ASSERT_TRUE(ran) << text << ran.error().render();
    EXPECT_EQ(ran->wrong, "") << text;
    std::set<package::GpuFamily> expected = ran->families;
    if (n == 100) expected.erase(Simt);  // whose tiles are narrower
    EXPECT_FALSE(expected.empty()) << text;
    EXPECT_EQ(ran->whole_rows, expected) << text;
  }
}

TEST_F(EmulatedFactors, DequantizedWeights) {
  struct Case {
    const char* weights;  // type of q, which is k x n, or n x k where it is transposed
    const char* text;     // what makes B of it
    const char* suffix;   // behind B in the product
  };
  // Columns, rows and elements of scales, zero points, two numbers in a byte, along K and along N.
  const std::vector<Case> cases = {
      {"q: i8[K, N], s: bf16[N]", "cast(cast(q, bf16) * s, bf16)", ""},
      {"q: i8[N, K], s: bf16[N, 1]", "cast(cast(q, f32) * s, bf16)", ".T"},
      {"q: f8e4m3[N, K], s: f32", "cast(cast(q, f32) * s, bf16)", ".T"},
      {"q: u8[K, N], s: f32[1, N], z: u8[1, N]", "cast((cast(q, f32) - cast(z, f32)) * s, bf16)", ""},
  };
  uint64_t which = 0;
  for (const Case& one : cases) {
    for (const auto& [m, n, k] : {std::tuple{3, 48, 200}, {37, 72, 136}, {70, 33, 75}}) {
      if (!test::commit_takes(which++, 5)) continue;
      std::string parameters = one.weights;
      for (const auto& [name, size] : {std::pair{"K", k}, {"N", n}}) {
        for (size_t at; (at = parameters.find(name)) != std::string::npos;)
          parameters.replace(at, 1, std::to_string(size));
      }
      const std::string b = std::string(one.suffix).empty() ? "w" : "permute(w, [1, 0])";
      const std::string text =
          fmt::format("def f(x: bf16[{}, {}], {}):\n    w = {}\n    y = gelu(x @ {})\n    return y\n", m, k, parameters,
                      one.text, b);
      std::set<package::GpuFamily> families{Simt, Sm80};
      if (m <= 32) families.insert(Stream);
      expect(text, families);
    }
  }
}

// Numbers of four bits: two in a byte, of rows or of columns, next to each other or in halves, with scales and zero
// points for groups along K.
TEST_F(EmulatedFactors, WeightsOfFourBits) {
  struct Case {
    const char *parameters, *four;  // G: groups of eight, H: half of what is packed
    bool transposed;
  };
  const char* both = "packed % 16, packed // 16";
  const std::vector<Case> cases = {
      {"packed: u8[HK, N], s: f32[G, 1, N], z: u8[G, 1, N]", "join({}, dim=0, interleave=True)", false},
      {"packed: u8[HK, N], s: bf16[G, 1, N], z: i8[N]", "join({}, dim=0)", false},
      {"packed: u8[K, HN], s: bf16[G, 1, N], z: f32[G, 1, N]", "join({}, dim=1, interleave=True)", false},
      {"packed: i8[HK, N], s: f32[G, 1, N], z: i8[1, N]", "join({}, dim=0, interleave=True)", false},
      {"packed: u8[N, HK], s: f32[N, G, 1], z: u8[N, G, 1]", "join({}, dim=1, interleave=True)", true},
      {"packed: u8[HN, K], s: f32[N, G, 1], z: f32[N, 1, 1]", "join({}, dim=0, interleave=True)", true},
      {"packed: u8[N, HK], s: bf16[N, G, 1], z: f32[N, 1, 1]", "join({}, dim=1)", true},
  };
  uint64_t which = 0;
  for (const Case& one : cases) {
    for (const auto& [m, n, k] : {std::tuple{3, 48, 208}, {37, 72, 128}, {9, 34, 72}}) {
      if (!test::commit_takes(which++, 6)) continue;
      std::string parameters = one.parameters;
      for (const auto& [name, size] : {std::pair{"HK", k / 2}, {"HN", n / 2}, {"K", k}, {"N", n}, {"G", k / 8}}) {
        for (size_t at; (at = parameters.find(name)) != std::string::npos;)
          parameters.replace(at, std::string(name).size(), std::to_string(size));
      }
      const std::string whole = one.transposed ? fmt::format("{}, {}", n, k) : fmt::format("{}, {}", k, n);
      const std::string groups =
          one.transposed ? fmt::format("{}, {}, 8", n, k / 8) : fmt::format("{}, 8, {}", k / 8, n);
      const std::string text = fmt::format(
          "def f(x: bf16[{}, {}], {}):\n    four = {}\n"
          "    w = cast(reshape((cast(reshape(four, ({})), f32) - cast(z, f32)) * s, ({})), bf16)\n"
          "    y = x @ {} + 1.0\n    return y\n",
          m, k, parameters, fmt::format(fmt::runtime(one.four), both), groups, whole,
          one.transposed ? "permute(w, [1, 0])" : "w");
      std::set<package::GpuFamily> families{Simt, Sm80};
      if (m <= 32) families.insert(Stream);
      expect(text, families);
    }
  }
}

// Gate and up in one matrix: columns of a made B in two parts, which mma.sync takes along K alone.
TEST_F(EmulatedFactors, PartsOfAMadeB) {
  uint64_t which = 0;
  for (const int m : {7, 41}) {
    for (const bool along : {true, false}) {
      if (!test::commit_takes(which++, 2)) continue;
      const bool amd = !emulated_gfx().empty();
      std::set<package::GpuFamily> families{Simt};
      if (along || amd) families.insert(Sm80);
      if (along && m <= 32) families.insert(Stream);
      expect(fmt::format("def f(x: bf16[{}, 72], q: {}, s: {}):\n    w = cast(cast(q, f32) * s, bf16)\n"
                         "    a, b = split(x @ {}, 2, dim=-1)\n    y = silu(a) * b\n    return y\n",
                         m, along ? "i8[96, 72]" : "i8[72, 96]", along ? "f32[96, 1]" : "f32[96]",
                         along ? "permute(w, [1, 0])" : "w"),
             families);
    }
  }
}

// Elements of one and of eight bytes: units of as many as 16 and of 2.
TEST_F(EmulatedFactors, FactorsOfBytesAndOfDoubles) {
  const std::tuple<const char*, bool, bool> cases[] = {
      {"def f(x: f32[37, 83], w: i8[83, 40]):\n    a = cast(round(x * 20.0), i8)\n    y = a @ w\n    return y\n", true,
       true},
      {"def f(x: i8[37, 83], q: u8[83, 40]):\n    w = cast(cast(q, i32) - 128, i8)\n    y = x @ w\n    return y\n",
       true, true},
      {"def f(x: f32[37, 41], w: f64[41, 24]):\n    y = (cast(x, f64) * 0.3) @ w\n    return y\n", false, false},
      {"def f(x: f64[37, 41], w: f32[41, 24]):\n    y = x @ (cast(w, f64) + 0.1)\n    return y\n", false, false},
  };
  uint64_t which = 0;
  for (const auto& [text, mma, wmma] : cases) {
    if (!test::commit_takes(which++, 2)) continue;
    const bool matrix = emulated_gfx().empty() ? mma : emulated_gfx().starts_with("gfx9") || wmma;
    expect(text, matrix ? std::set{Simt, Sm80} : std::set{Simt});
  }
}

TEST_F(EmulatedFactors, ElementwiseWorkInFrontOfA) {
  struct Case {
    const char* parameters;
    const char* a;
    bool few_rows;
  };
  const std::vector<Case> cases = {
      {"x: f32[70, 75], w: bf16[75, 33]", "cast(relu(x) * 0.5, bf16)", false},
      {"x: i8[5, 136], s: f32[5, 1], w: bf16[136, 40]", "cast(cast(x, f32) * s, bf16)", true},
      {"x: bf16[96, 41], w: bf16[96, 50]", "permute(cast(silu(x), bf16), [1, 0])", false},  // transposed
      {"x: f32[37, 40], c: f32[40], w: f32[40, 24]", "x * c + 1.0", false},
      // items of a batch, and items that share one W: rows of A follow each other
      {"x: f16[3, 20, 72], w: f16[72, 32]", "cast(tanh(x), f16)", true},
      {"x: f16[2, 36, 72], s: f16[2, 36, 1], w: f16[2, 72, 32]", "cast(x * s, f16)", false},
  };
  uint64_t which = 0;
  for (const Case& one : cases) {
    if (!test::commit_takes(which++, 4)) continue;
    const std::string text =
        fmt::format("def f({}):\n    a = {}\n    y = a @ w\n    return y\n", one.parameters, one.a);
    const bool strict = std::string(one.parameters).find("x: f32[37") == 0;
    std::set<package::GpuFamily> families{Simt};
    if (!strict || emulated_gfx().starts_with("gfx9")) families.insert(Sm80);  // MFMA multiplies f32 as it is
    if (one.few_rows) families.insert(Stream);
    expect(text, families);
  }
}

TEST_F(EmulatedFactors, BothFactorsAndMoreOfTheirTensorsBehindTheProduct) {
  // x is an operand of what is behind the product, too; a number is read by both factors.
  uint64_t which = 0;
  for (const int m : {9, 48}) {
    if (!test::commit_takes(which++, 2)) continue;
    std::set<package::GpuFamily> families{Simt, Sm80};
    if (m <= 32) families.insert(Stream);
    expect(fmt::format(
               "def f(x: bf16[{0}, 64], q: i8[64, 64], s: bf16[64], alpha: f32):\n"
               "    a = cast(cast(x, f32) * alpha, bf16)\n    w = cast(cast(cast(q, f32) * alpha, bf16) * s, bf16)\n"
               "    y = relu(a @ w) + x\n    z = sum(y, dim=-1)\n    return y, z\n",
               m),
           families);
  }
}

TEST_F(EmulatedFactors, ProductsOfOneA) {
  struct Case {
    const char* parameters;
    const char* body;
    bool few_rows;
  };
  const std::vector<Case> cases = {
      {"x: bf16[70, 72], g: bf16[72, 40], u: bf16[72, 40]", "y = silu(x @ g) * (x @ u)\n    return y", false},
      {"x: bf16[5, 200], g: bf16[200, 64], u: bf16[200, 64]", "y = silu(x @ g) * (x @ u)\n    return y", true},
      {"x: bf16[7, 80], q: bf16[48, 80], k: bf16[48, 80], v: bf16[48, 80], b: f32[48]",
       "y = x @ permute(q, [1, 0]) + b\n    z = x @ permute(k, [1, 0])\n    w = relu(x @ permute(v, [1, 0]))\n"
       "    return y, z, w",
       true},
      // each in two parts of its own, and items of a batch
      {"x: bf16[40, 64], q: bf16[64, 64], k: bf16[64, 64]",
       "a, b = split(x @ q, 2, dim=-1)\n    c, d = split(x @ k, 2, dim=-1)\n    y = a * d\n    z = b + c\n    return "
       "y, z",
       false},
      {"x: f16[2, 33, 40], g: f16[2, 40, 32], u: f16[2, 40, 32]", "y = (x @ g) * (x @ u)\n    return y", false},
      // three, whose columns lie side by side
      {"x: bf16[70, 72], q: bf16[72, 48], k: bf16[72, 48], v: bf16[72, 48], b: f32[48]",
       "y = x @ q + b\n    z = x @ k\n    w = relu(x @ v)\n    return y, z, w", false},
      {"x: bf16[5, 208], q: bf16[208, 40], k: bf16[208, 40], v: bf16[208, 40]",
       "y = (x @ q) * (x @ k) + x @ v\n    z = sum(y, dim=-1)\n    return y, z", true},
      // slices of one matrix: of columns and of rows, parts of a split, of a stack, transposed, with items
      {"x: bf16[70, 72], w: bf16[72, 120]",
       "y = x @ w[:, :40]\n    z = silu(x @ w[:, 40:80]) * (x @ w[:, 80:])\n    return y, z", false},
      {"x: bf16[5, 200], w: bf16[200, 120]",
       "q, k, v = split(w, 3, dim=1)\n    y = (x @ q) * (x @ k) + x @ v\n    return y", true},
      {"x: bf16[9, 64], w: bf16[3, 64, 40]", "y = (x @ w[2]) * (x @ w[1])\n    return y", true},
      {"x: bf16[7, 80], w: bf16[96, 80], b: f32[32]",
       "y = x @ permute(w[32:64, :], [1, 0]) + b\n    z = x @ permute(w[64:, :], [1, 0])\n    return y, z", true},
      {"x: bf16[33, 40], w: bf16[96, 32]", "y = (x @ w[8:48, :]) * (x @ w[56:, :])\n    return y", false},
      {"x: f16[2, 33, 40], w: f16[2, 40, 64]", "y = (x @ w[:, :, :32]) * (x @ w[:, :, 32:])\n    return y", false},
      {"x: bf16[6, 64], w: bf16[64, 128]",  // which is read behind the products, too
       "y = (x @ w[:, :64]) * (x @ w[:, 64:]) + w[:6, 64:]\n    return y", true},
      // A is made
      {"x: f32[6, 72], g: bf16[72, 40], u: bf16[72, 40]",
       "a = cast(x * 0.5, bf16)\n    y = silu(a @ g) * (a @ u)\n    return y", true},
  };
  uint64_t which = 0;
  for (const Case& one : cases) {
    if (!test::commit_takes(which++, 3)) continue;
    std::set<package::GpuFamily> families{Simt, Sm80};
    if (one.few_rows) families.insert(Stream);
    expect(fmt::format("def f({}):\n    {}\n", one.parameters, one.body), families);
  }
}

// Products of one A that differ in columns: a tile is one product's, of which each has an epilogue, results and tails
// of its own.
TEST_F(EmulatedFactors, ProductsOfOneAThatDifferInColumns) {
  struct Case {
    const char *parameters, *body;
    bool few_rows;
    Layouts layouts{};
  };
  const std::vector<Case> cases = {
      {"x: bf16[5, 208], q: bf16[208, 96], k: bf16[208, 24], v: bf16[208, 24], b: f32[96]",
       "y = x @ q + b\n    z = cast(x @ k, f16)\n    w = relu(x @ v)\n    return y, z, w", true},
      // of 129, 17 and 1 columns, along K and across it, of few rows and of several tiles of rows
      {"x: bf16[7, 80], q: bf16[129, 80], k: bf16[17, 80], v: bf16[1, 80], c: f32[7, 1]",
       "y = x @ permute(q, [1, 0])\n    z = (x @ permute(k, [1, 0])) * c\n    w = silu(x @ permute(v, [1, 0]))\n    "
       "return w, y, z",
       true},
      {"x: bf16[70, 72], q: bf16[72, 129], k: bf16[72, 17], v: bf16[72, 1], r: bf16[70, 17]",
       "y = gelu(x @ q)\n    z = x @ k + r\n    w = x @ v\n    return y, z, w", false},
      {"x: f32[33, 40], q: f32[40, 70], k: f32[40, 6]", "y = (x @ q) * 0.5\n    z = x @ k\n    return z, y", false},
      // queries and keys are turned, values are not; keys and values go to where they are read
      {"x: bf16[6, 64], q: bf16[64, 128], k: bf16[64, 32], v: bf16[64, 32], c: f32[6, 1, 8], s: f32[6, 1, 8]",
       "a, b = split(reshape(x @ q, (6, 8, 16)), 2, dim=-1)\n    y = join(a * c - b * s, b * c + a * s, dim=-1)\n"
       "    e, g = split(reshape(x @ k, (6, 2, 16)), 2, dim=-1)\n"
       "    z = cast(permute(join(e * c - g * s, g * c + e * s, dim=-1), (1, 0, 2)), bf16)\n"
       "    w = cast(permute(reshape(x @ v, (6, 2, 16)), (1, 2, 0)), bf16)\n    return y, z, w",
       true},
      // slices of one matrix, across K and along it, and a B that is one
      {"x: bf16[9, 72], w: bf16[72, 144]",
       "y = x @ w[:, :96]\n    z = x @ w[:, 96:128] + 1.0\n    u = x @ w[:, 128:]\n    return y, z, u", true},
      {"x: bf16[40, 64], w: bf16[90, 64], g: f32[10]",
       "y = (x @ permute(w[:10, :], [1, 0])) * g\n    z = x @ permute(w[10:, :], [1, 0])\n    return y, z", false},
      // items of a batch, and items that are rows
      {"x: f16[2, 33, 40], q: f16[2, 40, 64], k: f16[2, 40, 8]", "y = x @ q\n    z = x @ k\n    return y, z", false},
      {"x: f16[3, 2, 64], q: f16[64, 48], k: f16[64, 16]", "y = x @ q\n    z = relu(x @ k)\n    return y, z", true},
      // A is made
      {"x: f32[6, 72], q: bf16[72, 88], k: bf16[72, 40]",
       "a = cast(x * 0.5, bf16)\n    y = a @ q\n    z = a @ k\n    return y, z", true},
      // one of them has no columns
      {"x: bf16[5, 64], q: bf16[64, 0], k: bf16[64, 40], v: bf16[64, 8]",
       "y = x @ q\n    z = x @ k\n    w = x @ v\n    return y, z, w", true},
      // each B has strides of its own
      {"x: bf16[5, 72], q: bf16[72, 88], k: bf16[72, 40]", "y = x @ q\n    z = x @ k\n    return y, z", true,
       Layouts{{"q", {24, false}}, {"k", {8, false}}}},
  };
  uint64_t which = 0;
  for (const Case& one : cases) {
    if (!test::commit_takes(which++, 1)) continue;
    std::set<package::GpuFamily> families{Simt};
    const bool f32 = std::string_view(one.parameters).find("q: f32") != std::string_view::npos;
    if (!f32 || emulated_gfx().starts_with("gfx9")) families.insert(Sm80);
    if (one.few_rows) families.insert(Stream);
    expect(fmt::format("def f({}):\n    {}\n", one.parameters, one.body), families, 3, one.layouts);
  }
}

// Each B has strides of its own: rows with room behind them, and one matrix for all items beside one for each, where
// items can't be taken for further rows.
TEST_F(EmulatedFactors, ProductsOfOneAWithOtherStrides) {
  const std::string two =
      "def f(x: bf16[{0}, 72], g: bf16[72, 40], u: bf16[72, 40]):\n    y = silu(x @ g) * (x @ u)\n    return y\n";
  uint64_t which = 0;
  const auto takes = [&] { return test::commit_takes(which++, 3); };
  for (const Layouts& layouts : {Layouts{{"u", {8, false}}}, Layouts{{"g", {24, false}}, {"u", {8, false}}}}) {
    if (takes()) expect(fmt::format(fmt::runtime(two), 70), {Simt, Sm80}, 3, layouts);
    if (takes()) expect(fmt::format(fmt::runtime(two), 5), {Simt, Sm80, Stream}, 3, layouts);
  }
  for (const int rows : {1, 33}) {
    const std::string items = fmt::format(
        "def f(x: f16[3, {}, 40], g: f16[3, 40, 32], u: f16[3, 40, 32]):\n"
        "    y = (x @ g) * (x @ u)\n    return y\n",
        rows);
    for (const Layouts& layouts :
         {Layouts{{"g", {0, true}}}, Layouts{{"u", {0, true}}}, Layouts{{"g", {8, true}}, {"u", {16, true}}}})
      if (takes()) expect(items, rows == 1 ? std::set{Simt, Sm80, Stream} : std::set{Simt, Sm80}, 3, layouts);
  }
}

// Of one row, or one column, nobody asks how far the next one would lie: no address is made of that.
TEST_F(EmulatedFactors, FactorsOfOneRowOrColumn) {
  struct Case {
    const char *parameters, *product;
    bool few_rows;
    Layouts layouts{};
  };
  const std::vector<Case> cases = {
      {"x: bf16[70, 72], w: bf16[72, 1]", "x @ w", false},
      {"x: bf16[72, 1], w: bf16[72, 40]", "permute(x, [1, 0]) @ w", true},
      {"x: bf16[1, 72], w: bf16[40, 72]", "x @ permute(w, [1, 0])", true, Layouts{{"x", {3, false}}}},
      // of the first of two products, of the second, and of one that has tiles of its own
      {"x: bf16[70, 72], w: bf16[1, 72], u: bf16[1, 72]", "silu(x @ permute(w, [1, 0])) * (x @ permute(u, [1, 0]))",
       false, Layouts{{"w", {3, false}}}},
      {"x: bf16[70, 72], w: bf16[1, 72], u: bf16[1, 72]", "silu(x @ permute(w, [1, 0])) * (x @ permute(u, [1, 0]))",
       false, Layouts{{"u", {5, false}}}},
      {"x: bf16[5, 72], w: bf16[40, 72], u: bf16[1, 72]", "x @ permute(w, [1, 0])\n    z = x @ permute(u, [1, 0])",
       true, Layouts{{"u", {3, false}}}},
  };
  uint64_t which = 0;
  for (const Case& one : cases) {
    if (!test::commit_takes(which++, 2)) continue;
    const std::string z = std::string_view(one.product).find("z = ") != std::string_view::npos ? ", z" : "";
    const std::string text = fmt::format("def f({}):\n    y = {}\n    return y{}\n", one.parameters, one.product, z);
    const auto ran = Runner(device_, *compiler_).run_kernel(text, one.layouts);
    ASSERT_TRUE(ran) << text << ran.error().render();
    EXPECT_EQ(ran->wrong, "") << text;
    std::set<package::GpuFamily> families{Simt, Sm80};
    if (one.few_rows) families.insert(Stream);
    if (emulated_gfx().empty()) {
      EXPECT_EQ(ran->families, families) << text;
    }
  }
}

}  // namespace
}  // namespace codetta::emulator

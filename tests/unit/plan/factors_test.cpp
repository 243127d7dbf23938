// SPDX-License-Identifier: Apache-2.0
// What GPUs make of work in front of a product and of products that share an A: decided by cost, told by notes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "opt/passes.hpp"
#include "plan/explain.hpp"
#include "support/plain_store.hpp"
#include "unit/plan/bind_text.hpp"
#include "unit/plan/gpu_discovery.hpp"

namespace codetta::plan {
namespace {

using package::GpuFamily;

Plan plan_of(const std::string& text, const std::string& arch, Backend backend = Backend::cuda) {
  const ir::Graph graph = opt::optimize(test::bind_program_text(text).value()).value().graph;
  return plan_program(graph, {backend, CpuIsa::generic, arch}, {}, {}).value();
}

std::string notes_of(const Plan& plan) {
  std::string text;
  for (const FusionNote& note : plan.notes) text += note.action + ": " + note.why.text + "\n";
  return text;
}

const package::LaunchKernel& launch_of(const Plan& plan, size_t kernel) {
  for (const package::Step& step : plan.steps) {
    const auto* launch = std::get_if<package::LaunchKernel>(&step);
    if (launch != nullptr && launch->kernel == kernel) return *launch;
  }
  static const package::LaunchKernel none;
  return none;
}

// Of the first buffer that a kernel reads and nothing has written, by the order of the steps.
std::string read_too_early(const Plan& plan) {
  std::vector<bool> there;
  for (const package::Buffer& buffer : plan.buffers) {
    there.push_back(buffer.role == package::Buffer::Role::Argument || buffer.role == package::Buffer::Role::Constant);
  }
  for (const package::Step& step : plan.steps) {
    if (const auto* view = std::get_if<package::Reinterpret>(&step)) there[view->buffer] = there[view->source];
    const auto* launch = std::get_if<package::LaunchKernel>(&step);
    if (launch == nullptr) continue;
    std::vector<uint32_t> read, written;
    if (launch->product) launch->product->each_buffer([&](uint32_t buffer) { read.push_back(buffer); });
    const auto& arguments = plan.kernels[launch->kernel].lowered.program.arguments;
    for (size_t i = 0; i < arguments.size(); ++i)
      (arguments[i].is_output ? written : read).push_back(launch->arguments[i]);
    for (const uint32_t buffer : read) {
      if (!there[buffer]) return plan.buffers[buffer].name;
    }
    for (const uint32_t buffer : written) there[buffer] = true;
  }
  return {};
}

std::string weights_only(int m) {
  return "def f(x: bf16[" + std::to_string(m) +
         ", 4096], q: i8[4096, 14336], s: bf16[14336]):\n    y = x @ cast(cast(q, bf16) * s, bf16)\n    return y\n";
}

TEST(GpuFactors, FewRowsMakeTheirWeightsWhereTheyReadThem) {
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
    const Plan plan = plan_of(weights_only(4), arch);
    ASSERT_EQ(plan.kernels.size(), 1U) << arch << notes_of(plan);
    const PlannedKernel& kernel = plan.kernels[0];
    ASSERT_EQ(kernel.lowered.program.factors.size(), 1U);
    EXPECT_TRUE(kernel.lowered.program.makes_b());
    EXPECT_TRUE(kernel.shape.b_made);
    EXPECT_EQ(kernel.shape.b_read_bytes, 1);
    EXPECT_EQ(package::gpu(kernel.discovery.candidates[0].config).family, GpuFamily::Stream) << arch;
    for (const GpuFamily family : {GpuFamily::Simt, GpuFamily::Sm80, GpuFamily::Stream})
      EXPECT_TRUE(test::has_family(kernel.discovery, family)) << arch;
    const std::string engine = "E0422: B is computed where it is read, and the copy engine brings B from memory\n";
    const std::string own = arch == std::string("sm_100a") ? "cuda_sm100" : "cuda_sm90";
    EXPECT_EQ(test::reasons_of(kernel.discovery, own), arch == std::string("sm_80") ? "" : engine);
    // q stands for the factor that is nowhere, and is among the arguments.
    const package::LaunchKernel& launch = launch_of(plan, 0);
    EXPECT_EQ(plan.buffers[launch.product->b].name, "q");
    EXPECT_NE(std::find(launch.arguments.begin(), launch.arguments.end(), launch.product->b), launch.arguments.end());
  }
}

// So do the matrix units of AMD's and Apple's GPUs, whichever way the weights lie, also in two parts.
TEST(GpuFactors, EveryMatrixUnitMakesItsWeights) {
  const std::string parts =
      "def f(x: bf16[4, 4096], q: i8[4096, 14336], s: bf16[14336]):\n"
      "    a, b = split(x @ cast(cast(q, bf16) * s, bf16), 2, dim=-1)\n    y = silu(a) * b\n    return y\n";
  const std::string along =
      "def f(x: bf16[4, 4096], q: i8[14336, 4096], s: bf16[14336, 1]):\n"
      "    y = x @ permute(cast(cast(q, bf16) * s, bf16), [1, 0])\n    return y\n";
  const std::tuple<Backend, const char*, GpuFamily> units[] = {{Backend::hip, "gfx90a", GpuFamily::Mfma},
                                                               {Backend::hip, "gfx942", GpuFamily::Mfma},
                                                               {Backend::hip, "gfx1100", GpuFamily::Wmma},
                                                               {Backend::hip, "gfx1201", GpuFamily::Wmma},
                                                               {Backend::metal, "apple9", GpuFamily::Simdgroup}};
  for (const auto& [backend, arch, family] : units) {
    for (const std::string& text : {weights_only(4), parts, along}) {
      const Plan plan = plan_of(text, arch, backend);
      ASSERT_EQ(plan.kernels.size(), 1U) << arch << text << notes_of(plan);
      EXPECT_TRUE(plan.kernels[0].lowered.program.makes_b());
      for (const GpuFamily each : {family, GpuFamily::Simt})
        EXPECT_TRUE(test::has_family(plan.kernels[0].discovery, each))
            << arch << text << test::reasons_of(plan.kernels[0].discovery, "metal_simdgroup");
      const GpuFamily chosen = package::gpu(plan.kernels[0].discovery.candidates[0].config).family;
      EXPECT_TRUE(backend == Backend::metal || chosen == family) << arch << text;
    }
  }
}

// Two numbers in a byte, however they lie: what kernels read is the bytes, and scales and points once for a group.
TEST(GpuFactors, FewRowsUnpackTheirWeightsWhereTheyReadThem) {
  struct Case {
    const char *parameters, *four, *groups, *b;
    double read_bytes;
  };
  const Case cases[] = {
      {"packed: u8[2048, 4096], s: f32[128, 1, 4096], z: u8[128, 1, 4096]", "dim=0, interleave=True", "128, 32, 4096",
       "w", 0.5 + 5.0 / 32},
      {"packed: u8[2048, 4096], s: bf16[32, 1, 4096], z: f32[4096]", "dim=0", "32, 128, 4096", "w", 0.5 + 2.0 / 128},
      {"packed: u8[4096, 2048], s: bf16[32, 1, 4096], z: f32[4096]", "dim=1, interleave=True", "32, 128, 4096", "w",
       0.5 + 2.0 / 128},
      {"packed: u8[4096, 2048], s: bf16[4096, 32, 1], z: f32[4096, 1, 1]", "dim=1, interleave=True", "4096, 32, 128",
       "permute(w, (1, 0))", 0.5 + 2.0 / 128},
  };
  for (const Case& one : cases) {
    const std::string text =
        std::string("def f(x: bf16[8, 4096], ") + one.parameters + "):\n    four = join(packed % 16, packed // 16, " +
        one.four + ")\n    groups = (cast(reshape(four, (" + one.groups +
        ")), f32) - cast(z, f32)) * s\n    w = cast(reshape(groups, (4096, 4096)), bf16)\n    y = x @ " + one.b +
        "\n    return y\n";
    for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
      const Plan plan = plan_of(text, arch);
      ASSERT_EQ(plan.kernels.size(), 1U) << arch << text << notes_of(plan);
      const PlannedKernel& kernel = plan.kernels[0];
      EXPECT_TRUE(kernel.lowered.program.makes_b());
      EXPECT_NEAR(kernel.shape.b_read_bytes, one.read_bytes, 1e-6) << text;
      EXPECT_EQ(package::gpu(kernel.discovery.candidates[0].config).family, GpuFamily::Stream) << arch << text;
      EXPECT_TRUE(test::has_family(kernel.discovery, GpuFamily::Sm80)) << arch << text;
    }
  }
}

// Queries, keys and values of one width: with neighbouring columns side by side as well as with neighbours along K.
TEST(GpuFactors, ThreeProductsOfOneAHaveTensorCores) {
  for (const char* arch : {"sm_80", "sm_86", "sm_89"}) {
    for (const int rows : {4, 16, 64}) {
      for (const bool along_k : {false, true}) {
        const std::string b = along_k ? "permute(W, (1, 0))" : "W";
        std::string text = "def f(x: bf16[" + std::to_string(rows) +
                           ", 4096], q: bf16[4096, 4096], k: bf16[4096, 4096], v: bf16[4096, 4096]):\n";
        for (const char* name : {"q", "k", "v"}) {
          std::string factor = b;
          factor.replace(factor.find('W'), 1, name);
          text += "    " + std::string(name) + "2 = x @ " + factor + "\n";
        }
        const Plan plan = plan_of(text + "    return q2, k2, v2\n", arch);
        ASSERT_EQ(plan.kernels.size(), 1U) << arch << text << notes_of(plan);
        EXPECT_EQ(plan.kernels[0].lowered.program.split.products, 3);
        EXPECT_TRUE(test::has_family(plan.kernels[0].discovery, GpuFamily::Sm80)) << arch << text;
        if (rows == 64) {
          EXPECT_NE(package::gpu(plan.kernels[0].discovery.candidates[0].config).family, GpuFamily::Simt);
        }
      }
    }
  }
}

// Rows of scores are finished by the warps that multiply them, where the copy engine brings the scores; what reduces
// them is computed where they are stored.
TEST(GpuFactors, RowsAreFinishedWhereTheyAreMultiplied) {
  const std::string text =
      "def f(q: bf16[128, 2048, 128], k: bf16[128, 2048, 128], v: bf16[128, 2048, 128]):\n"
      "    scores = cast(q @ transpose(k), bf16)\n    p = cast(softmax(scores * 0.0884), bf16)\n"
      "    y = cast(p @ v, bf16)\n    return y\n";
  const Plan plan = plan_of(text, "sm_90a");
  ASSERT_EQ(plan.kernels.size(), 2U) << notes_of(plan);
  const package::EpilogueProgram& rows = plan.kernels[0].lowered.program;
  ASSERT_EQ(rows.reductions.size(), 2U) << rows.to_string();
  EXPECT_EQ(rows.reductions[0].kind, package::ReduceKind::Max);
  EXPECT_EQ(rows.reductions[1].kind, package::ReduceKind::SumExp);
  EXPECT_EQ(rows.reductions[0].value, rows.reductions[1].value);
  ASSERT_EQ(rows.phases.size(), 2U);
  EXPECT_FALSE(rows.phases[1].reads_accumulator);
  EXPECT_TRUE(package::gpu(plan.kernels[0].discovery.candidates[0].config).copied);
  const PlannedKernel& product = plan.kernels[1];
  ASSERT_TRUE(product.lowered.program.makes_a()) << notes_of(plan);
  EXPECT_EQ(package::gpu(product.discovery.candidates[0].config).family, GpuFamily::Sm90);
  // That they had been cut off in the first place is no more so, and nobody is told.
  EXPECT_EQ(notes_of(plan).find("takes less time"), std::string::npos) << notes_of(plan);
  const std::vector<Boundary> between = explained(plan).boundaries;
  ASSERT_EQ(between.size(), 3U);
  for (const Boundary& boundary : between) EXPECT_EQ(boundary.code, 308) << boundary.text;
  for (size_t i : {1U, 2U})
    EXPECT_EQ(between[i].text, "the product in line 4 makes a factor of it; a kernel computes one product");
  // Elsewhere it costs more to make them again for every tile than to store them.
  const Plan without = plan_of(text, "sm_100a");
  for (const PlannedKernel& kernel : without.kernels) EXPECT_FALSE(kernel.lowered.program.makes_a());
  EXPECT_NE(notes_of(without).find(" us for reductions of its rows; stored in front "), std::string::npos)
      << notes_of(without);
}

// Reductions that are read by others too lie in memory for them where the product makes them; but what comes before
// them, or reads the rows, has a map in any case.
TEST(GpuFactors, RowsThatOthersReduceTooAreReducedWhereTheyAreStored) {
  const std::pair<const char*, bool> all[] = {
      {"", true},      {", m", true},  {", d", true},     {", m, d", true},   {", highest", true}, {", both", true},
      {", lse", true}, {", e", false}, {", e, m", false}, {", means", false}, {", twice", false},  {", row", false},
  };
  for (const auto& [others, expected] : all) {
    const Plan plan =
        plan_of(std::string("def f(q: bf16[128, 2048, 128], k: bf16[128, 2048, 128], v: bf16[128, 2048, 128]):\n"
                            "    s = cast(q @ transpose(k), bf16)\n    t = s * 0.125\n    m = max(t, dim=-1)\n"
                            "    e = exp(t - m)\n    d = sum(e, dim=-1)\n    highest = max(m)\n    both = d + m\n"
                            "    lse = m + log(d)\n    means = mean(s, dim=-1)\n    twice = e * 2.0\n    row = t - m\n"
                            "    y = cast(cast(e / d, bf16) @ v, bf16)\n    return y") +
                    others + "\n",
                "sm_90a");
    const PlannedKernel* made_by = nullptr;
    for (const PlannedKernel& kernel : plan.kernels) {
      const package::EpilogueProgram& program = kernel.lowered.program;
      if (program.phases[0].reads_accumulator && !program.reductions.empty()) made_by = &kernel;
    }
    ASSERT_EQ(made_by != nullptr, expected) << others << "\n" << notes_of(plan);
    if (!expected) continue;
    EXPECT_EQ(made_by->lowered.program.reductions.size(), 2U) << others;
  }
}

// Masks and biases, of any form: what is stored are the scores of 16 bits, and nothing takes longer than without them
// but for what they are themselves.
TEST(GpuFactors, MaskedScoresAreStoredAsOthers) {
  const std::string causal = "reshape(arange(s), (1, s)) <= reshape(arange(s), (s, 1))";
  const auto planned = [&](const std::string& form, const std::string& arch) {
    const Backend backend = arch[0] == 'g' ? Backend::hip : Backend::cuda;
    const std::string text =
        "def f(q: bf16[\"b\", \"s\", 64], k: bf16[\"b\", \"s\", 64], v: bf16[\"b\", \"s\", 64], c: f32[\"s\"]):\n"
        "    h = cast(q @ transpose(k), bf16)\n    t = " +
        form + "\n    y = cast(cast(softmax(t), bf16) @ v, bf16)\n    u = c * 2.0\n    return y, u\n";

    const ir::Graph graph = opt::optimize(test::bind_program_text(text).value()).value().graph;
    return plan_program(graph, {backend, CpuIsa::generic, arch}, {}, {{"b", 64}, {"s", 4096}}).value();
  };
  const auto microseconds = [](const Plan& plan) {
    double sum = 0;
    for (const PlannedKernel& kernel : plan.kernels) sum += kernel.discovery.candidates[0].microseconds;
    return sum;
  };
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a", "gfx942"}) {
    const Plan without = planned("h * 0.125", arch);
    for (const std::string& form :
         {std::string("h + c"), std::string("h * 0.125 + c"), "where(" + causal + ", h * 0.125, -inf)",
          std::string("where(c > 0.0, h * 0.125, -inf)")}) {
      const Plan plan = planned(form, arch);
      for (const package::Buffer& buffer : plan.buffers) {
        const bool wide = buffer.dtype == DType::f32 && !(buffer.shape.back() == types::Dim::constant(1));
        EXPECT_FALSE(buffer.role == package::Buffer::Role::Temporary && wide) << arch << ": " << form;
      }
      // sm_90a and gfx942 do the operations of the mask twice; sm_80 makes an A in smaller tiles where it reads columns
      // for that.
      const std::string_view of = arch;
      const double most = of == "sm_90a" ? 1.18 : of == "sm_80" ? 1.21 : of == "gfx942" ? 1.05 : 1.01;
      EXPECT_LT(microseconds(plan), microseconds(without) * most) << arch << ": " << form << "\n"
                                                                  << notes_of(plan) << notes_of(without);
    }
  }
  const Plan plan = planned("where(" + causal + ", h * 0.125, -inf)", "sm_90a");
  EXPECT_TRUE(package::gpu(plan.kernels[0].discovery.candidates[0].config).copied);
  EXPECT_EQ(plan.kernels[0].lowered.program.reductions.size(), 2U) << notes_of(plan);
  EXPECT_TRUE(plan.kernels[1].lowered.program.makes_a()) << notes_of(plan);
}

// A map that reads them again takes less where results of few columns have launches of their own.
TEST(GpuFactors, RowsAreReducedByAMapWhereThatIsLess) {
  const Plan plan = plan_of(
      "def f(q: bf16[128, 256, 128], k: bf16[128, 256, 128], v: bf16[128, 256, 128]):\n"
      "    scores = cast(q @ transpose(k), bf16)\n    p = cast(softmax(scores * 0.0884), bf16)\n"
      "    y = cast(p @ v, bf16)\n    return y\n",
      "sm_90a");
  const auto makes = std::any_of(plan.kernels.begin(), plan.kernels.end(),
                                 [](const PlannedKernel& kernel) { return kernel.lowered.program.makes_a(); });
  EXPECT_TRUE(makes) << notes_of(plan);
  EXPECT_EQ(plan.kernels.size(), 3U) << notes_of(plan);
  EXPECT_NE(notes_of(plan).find("a kernel of its own takes less time: behind the product, "), std::string::npos)
      << notes_of(plan);
  // Not that of the first trial, with all that follows the rows.
  EXPECT_EQ(notes_of(plan).find("behind the product about "), std::string::npos) << notes_of(plan);
}

// Whatever else reads a row's largest element, its sum, or what lies between: there is a plan, and what a kernel reads
// has been written.
TEST(GpuFactors, AttentionsWithFurtherReadersArePlanned) {
  constexpr std::array readers{"m",
                               "d",
                               "e",
                               "cast(e, bf16)",
                               "max(m)",
                               "m + log(d)",
                               "sum(t, dim=-1)",
                               "max(d) * m",
                               "max(e, dim=-1)",
                               "sum(s, dim=-2)",
                               "logsumexp(t, dim=-1)",
                               "cast(s @ v, bf16)"};
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
    for (size_t first = 0; first < readers.size(); ++first) {
      for (const std::string shape : {"[\"b\", \"s\", 64]", "[128, 2048, 64]"}) {
        const std::string text = "def f(q: bf16" + shape + ", k: bf16" + shape + ", v: bf16" + shape +
                                 "):\n    s = cast(q @ transpose(k), bf16)\n    t = s * 0.125\n"
                                 "    m = max(t, dim=-1)\n    e = exp(t - m)\n    d = sum(e, dim=-1)\n"
                                 "    y = cast(cast(e / d, bf16) @ v, bf16)\n    o = " +
                                 readers[first] + "\n    u = " + readers[(first * 5 + 3) % readers.size()] +
                                 "\n    return y, o, u\n";
        const ir::Graph graph = opt::optimize(test::bind_program_text(text).value()).value().graph;
        const auto plan = plan_program(graph, {Backend::cuda, CpuIsa::generic, arch}, {}, {{"b", 128}, {"s", 2048}});
        ASSERT_TRUE(plan) << arch << "\n" << text << plan.error().render();
        EXPECT_EQ(read_too_early(*plan), "") << arch << "\n" << text;
      }
    }
  }
}

// What others read of the reductions is computed in any case, and no price of making A.
TEST(GpuFactors, ReductionsThatOthersReadCostNothing) {
  for (const auto& [others, priced] : {std::pair("", true), {", d", true}, {", m, d", false}}) {
    const std::string text = std::string(
                                 "def f(q: bf16[128, 2048, 128], k: bf16[128, 2048, 128], v: bf16[128, 2048, 128]):\n"
                                 "    s = cast(q @ transpose(k), bf16)\n    m = max(s, dim=-1)\n"
                                 "    e = exp(s - m)\n    d = sum(e, dim=-1)\n"
                                 "    y = cast(cast(e / d, bf16) @ v, bf16)\n    return y") +
                             others + "\n";
    const std::string notes = notes_of(plan_of(text, "sm_100a"));
    EXPECT_NE(notes.find("made by the product, again for each tile that reads it, "), std::string::npos) << notes;
    EXPECT_EQ(notes.find(" us for reductions of its rows; ") != std::string::npos, priced) << others << notes;
  }
}

// Of two matrices, of 8-bit elements or down its columns, A does not come by the copy engine.
TEST(GpuFactors, E0422OtherThanTheEngineBrings) {
  for (const auto& [parameter, a, reason] :
       {std::array{"z: bf16[512, 512]", "cast(exp(x + z), bf16)", "of other than one matrix of 16-bit elements"},
        std::array{"z: i8[512, 512]", "cast(exp(cast(z, f32)), bf16) * cast(x[0:1, 0:1], bf16)",
                   "of other than one matrix"},
        std::array{"z: bf16[1, 512]", "transpose(cast(exp(x - z), bf16))", "and not along its rows"}}) {
    const Plan plan = plan_of("def f(x: bf16[512, 512], " + std::string(parameter) +
                                  ", w: bf16[512, 512]):\n    y = (" + a + ") @ w\n    return y\n",
                              "sm_90a");
    std::string reasons;
    for (const PlannedKernel& kernel : plan.kernels) {
      if (kernel.lowered.program.makes_a()) reasons += test::reasons_of(kernel.discovery, "cuda_sm90");
    }
    EXPECT_NE(reasons.find(reason), std::string::npos) << a << ": " << reasons << notes_of(plan);
  }
}

TEST(GpuFactors, ManyRowsReadThemFromMemory) {
  const Plan plan = plan_of(weights_only(4096), "sm_90a");
  ASSERT_EQ(plan.kernels.size(), 2U);
  EXPECT_TRUE(plan.kernels[1].lowered.program.factors.empty());
  EXPECT_EQ(package::gpu(plan.kernels[1].discovery.candidates[0].config).family, GpuFamily::Sm90);
  const std::string notes = notes_of(plan);
  for (const char* part : {"computed in front of the product: ", "again for each tile that reads it, ",
                           "stored in front ", "us for the product of it (cuda_sm90"})
    EXPECT_NE(notes.find(part), std::string::npos) << notes;
}

// Two elements of a vector share nothing there of what is the same in a row, such as a norm's scale.
TEST(GpuFactors, NormsOfManyRowsAreStored) {
  for (const int m : {512, 8192}) {
    const Plan plan = plan_of("def f(x: bf16[" + std::to_string(m) +
                                  ", 4096], w: bf16[4096], g: bf16[4096, 14336], u: bf16[4096, 14336]):\n"
                                  "    n = cast(rms_norm(x, w), bf16)\n    y = silu(n @ g) * (n @ u)\n    return y\n",
                              "sm_90a");
    ASSERT_EQ(plan.kernels.size(), 2U);
    EXPECT_EQ(plan.kernels[1].lowered.program.split.products, 2U) << m << notes_of(plan);
    EXPECT_FALSE(plan.kernels[1].lowered.program.makes_a()) << m << notes_of(plan);
  }
}

// One element along K: rows lie one element apart, however aligned the kernel for the hinted single row is.
TEST(GpuFactors, ColumnsOfOneElementAreNotAligned) {
  for (const char* text : {"def f(x: f32['n', 12], w: f32[1, 10]):\n    y = x[:, 11:12] @ w[:, 2:8]\n    return y\n",
                           "def f(x: f32['n', 12], p: f32[1, 6], w: f32[1, 10]):\n    v = x[:, 11:12]\n"
                           "    y = silu(v @ p) * (v @ w[:, 2:8])\n    return y\n",
                           "def f(x: f32[1, 'n'], w: f32[1, 8]):\n    y = transpose(x) @ w\n    return y\n"}) {
    const ir::Graph graph = opt::optimize(test::bind_program_text(text).value()).value().graph;
    for (const char* arch : {"sm_80", "sm_90a"}) {
      for (const auto alignment : {Alignment::Proven, Alignment::Any, Alignment::Uneven, Alignment::Empty}) {
        const Plan plan =
            plan_program(graph, {Backend::cuda, CpuIsa::generic, arch}, {}, {{"n", 1}}, {}, alignment).value();
        for (const PlannedKernel& kernel : plan.kernels) {
          if (kernel.discovery.candidates.empty() || kernel.lowered.program.split.products == 0) continue;
          const auto* config = std::get_if<package::GpuGemmConfig>(&kernel.discovery.candidates[0].config);
          if (config == nullptr || kernel.lowered.program.makes_a()) continue;
          EXPECT_TRUE(config->family == GpuFamily::Simt || config->pack_a || config->alignment <= 4)
              << text << kernel.discovery.candidates[0].name << " for " << arch;
        }
      }
    }
  }
}

TEST(GpuFactors, WhatCannotBeMade) {
  // What is read by two products, reduced, or taken by indices is stored in front.
  const Plan plan = plan_of(
      "def f(x: bf16[4, 256], q: i8[256, 64], i: i64[256]):\n"
      "    w = cast(q, bf16)\n    v = cast(w / sum(w, dim=0), bf16)\n    y = x @ v\n"
      "    u = cast(take(w, i, dim=0) * 0.5, bf16)\n    z = x @ u\n    return y, z\n",
      "sm_80");
  for (const PlannedKernel& kernel : plan.kernels) EXPECT_TRUE(kernel.lowered.program.factors.empty());
  const std::string notes = notes_of(plan);
  EXPECT_NE(notes.find("it reduces, and a block of the factor does not hold what it needs"), std::string::npos)
      << notes;
  EXPECT_NE(notes.find("it reads by indices, which are looked at in front"), std::string::npos) << notes;
  // One A for all items of the other factor, in items of its own.
  const Plan items = plan_of(
      "def f(x: f32[2, 3, 8, 16], w: bf16[3, 16, 8]):\n    a = relu(x)\n    y = reshape(a, (6, 8, 16)) @ "
      "reshape(expand(reshape(w, (1, 3, 16, 8)), (2, 3, 16, 8)), (6, 16, 8))\n    return y\n",
      "sm_80");
  EXPECT_FALSE(items.kernels.empty());
}

// A tensor that tiles make a factor of is not overwritten by the product.
TEST(GpuFactors, NoOutputTakesThePlaceOfAFactorsTensor) {
  const Plan plan = plan_of("def f(x: f32[64, 64], w: f32[64, 64]):\n    y = relu(x) @ w + x\n    return y\n", "sm_80");
  ASSERT_EQ(plan.kernels.size(), 1U) << notes_of(plan);
  ASSERT_TRUE(plan.kernels[0].lowered.program.makes_a());
  bool found = false;
  for (const package::Step& step : plan.steps) {
    const auto* check = std::get_if<package::Check>(&step);
    const auto* overlap = check != nullptr ? std::get_if<package::NoOverlapGuard>(&check->guard) : nullptr;
    if (overlap == nullptr) continue;
    EXPECT_FALSE(overlap->in_place_ok) << plan.buffers[overlap->other].name;
    found = true;
  }
  EXPECT_TRUE(found);
}

TEST(GpuProducts, OfOneAAreOneKernel) {
  const std::string gate =
      "def f(x: bf16[\"m\", 4096], g: bf16[4096, 14336], u: bf16[4096, 14336]):\n"
      "    y = silu(x @ g) * (x @ u)\n    return y\n";
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a", "gfx90a", "gfx942", "gfx1100", "gfx1201", "apple9"}) {
    const Backend backend = arch[0] == 'g' ? Backend::hip : arch[0] == 'a' ? Backend::metal : Backend::cuda;
    const Plan plan = plan_of(gate, arch, backend);
    ASSERT_EQ(plan.kernels.size(), 1U) << arch << notes_of(plan);
    const package::EpilogueProgram& program = plan.kernels[0].lowered.program;
    EXPECT_EQ(program.split.products, 2);
    ASSERT_EQ(program.more_b.size(), 1U);
    EXPECT_EQ(program.arguments[program.operands[program.more_b[0]].argument].name, "u");
    const package::LaunchKernel& launch = launch_of(plan, 0);
    ASSERT_EQ(launch.product->more_b.size(), 1U);
    EXPECT_EQ(plan.buffers[launch.product->more_b[0]].name, "u");
  }
}

// Where no family makes the B of several products, it says so, and no kernel is offered that could not be emitted.
TEST(GpuProducts, E0422SeveralReadTheirBFromMemory) {
  for (const auto& [backend, arch] : {std::pair(Backend::cuda, "sm_80"), std::pair(Backend::cuda, "sm_90a"),
                                      std::pair(Backend::cuda, "sm_100a"), std::pair(Backend::hip, "gfx942")}) {
    GemmShape shape = test::gpu_shape(4, 128, 64, DType::bf16);
    shape.products = 2;
    shape.b_made = true;
    package::EpilogueProgram program = test::plain_store(DType::f32, DType::bf16);
    program.split = {2, types::Dim::constant(1), 2};
    const Discovery discovery = discover(program, shape, {backend, CpuIsa::generic, arch}, {});
    EXPECT_TRUE(discovery.candidates.empty()) << arch;
    const std::string simt = backend == Backend::hip ? "hip_simt" : "cuda_simt";
    EXPECT_EQ(test::reasons_of(discovery, simt),
              "E0422: B is computed where it is read, and kernels of 2 products read each B from memory\n")
        << arch;
    shape.b_made = false;
    EXPECT_FALSE(discover(program, shape, {backend, CpuIsa::generic, arch}, {}).candidates.empty()) << arch;
  }
  // The planner doesn't ask for it.
  for (const int m : {1, 64, 4096}) {
    const std::string rows = std::to_string(m);
    const Plan plan = plan_of("def f(x: bf16[" + rows +
                                  ", 256], g: i8[256, 64], u: i8[256, 64]):\n    y = (x @ cast(g, bf16)) * (x @ "
                                  "cast(u, bf16))\n    return y\n",
                              "sm_90a");
    for (const PlannedKernel& kernel : plan.kernels)
      EXPECT_FALSE(kernel.lowered.program.makes_b() && kernel.lowered.program.split.products > 1) << m;
  }
}

// Apart, each of them reads an A that is stored once: no kernel makes it again.
TEST(GpuProducts, OfAMadeAArePricedAsTheyAreEmitted) {
  size_t as_one = 0, one_by_one = 0;
  // The last five are those where the two prices differ.
  const int sizes[][3] = {{4, 4096, 4096},     {64, 512, 4096},    {512, 4096, 4096},
                          {4096, 14336, 4096}, {8, 14336, 16384},  {96, 4096, 16384},
                          {1024, 128, 16384},  {2048, 128, 16384}, {4096, 128, 4096}};
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
    for (const auto& [m, n, k] : sizes) {
      const std::string rows = std::to_string(m), cols = std::to_string(n), depth = std::to_string(k);
      const std::string x = "x: bf16[" + rows + ", " + depth + "]", b = ": bf16[" + depth + ", " + cols + "]";
      const std::string what = std::string(arch) + ", " + rows + " x " + cols + " x " + depth;
      const Plan plan = plan_of("def f(" + x + ", g" + b + ", u" + b +
                                    "):\n    a = cast(relu(x), bf16)\n    y = silu(a @ g) * (a @ u)\n    return y\n",
                                arch);
      const PlannedKernel& last = plan.kernels.back();
      if (last.lowered.program.split.products != 2) {
        ++one_by_one;
        for (const PlannedKernel& kernel : plan.kernels)
          EXPECT_TRUE(kernel.lowered.program.factors.empty()) << what << "\n" << notes_of(plan);
        continue;
      }
      if (!last.lowered.program.makes_a()) continue;
      ++as_one;
      const Candidate& together = last.discovery.candidates[0];
      const auto time_of = [&](const std::string& text) {
        return plan_of(text, arch).kernels.at(0).discovery.candidates[0].microseconds;
      };
      double apart = time_of("def f(" + x + "):\n    a = cast(relu(x), bf16)\n    return a\n") +
                     2 * time_of("def f(" + x + ", g" + b + "):\n    y = x @ g\n    return y\n");
      for (const CostTerm& term : together.terms) apart += term.name == "epilogue" ? term.microseconds : 0;
      EXPECT_LE(together.microseconds, apart * 1.000001) << what << ": " << together.name << notes_of(plan);
    }
  }
  EXPECT_GT(as_one, 0U);
  EXPECT_GT(one_by_one, 0U);
}

TEST(GpuProducts, OfOtherTypesStayApart) {
  // Another batch; other dtypes and a B that is made where it is read.
  for (const char* text : {"def f(x: bf16[8, 256], g: bf16[256, 64], u: bf16[2, 256, 64]):\n"
                           "    y = x @ g\n    z = x @ u\n    return y, z\n",
                           "def f(x: bf16[8, 256], g: bf16[256, 64], u: i8[256, 64]):\n"
                           "    y = x @ g\n    z = x @ cast(u, bf16)\n    return y, z\n"}) {
    const Plan plan = plan_of(text, "sm_80");
    EXPECT_EQ(plan.kernels.size(), 2U) << text;
    for (const PlannedKernel& kernel : plan.kernels) EXPECT_EQ(kernel.lowered.program.split.products, 1) << text;
  }
}

TEST(GpuProducts, WhereThereIsNoMatrixInstruction) {
  const Plan plan =
      plan_of("def f(x: f64[4, 64], g: f64[64, 64], u: f64[64, 64]):\n    y = (x @ g) * (x @ u)\n    return y\n",
              "gfx1100", Backend::hip);
  ASSERT_EQ(plan.kernels.size(), 1U) << notes_of(plan);
  EXPECT_EQ(plan.kernels[0].lowered.program.split.products, 2);
}

}  // namespace
}  // namespace codetta::plan

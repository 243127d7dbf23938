// SPDX-License-Identifier: Apache-2.0
// Runs emitted Metal kernels on the CPU, on fresh random data, against the oracle with its derived bound; outputs are
// poisoned first. Usage: metal_run [--seed S] [--random N] [--shapes N] [--part I/N] [--only TEXT] [--verbose 1]
// --random: epilogues of tests/support/random_epilogue.hpp, small, rich in layouts and reductions. --shapes: random
// shapes for each everyday epilogue and dtype, with every configuration of both families in turn. --part: one of N
// parts of these, from 1 on. Exit 77: there is no clang++.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "codetta/fill.hpp"
#include "launch.hpp"
#include "opt/passes.hpp"
#include "oracle/oracle.hpp"
#include "plan/families_metal.hpp"
#include "plan/plan.hpp"
#include "support/random_epilogue.hpp"
#include "types/dtype.hpp"
#include "unit/plan/bind_text.hpp"

namespace codetta::metal_run {
namespace {

constexpr oracle::UlpRow metal_ulp[] = {
#define CODETTA_ULP(op, f32_ulp, f32_abs, f64_ulp, f64_abs) {types::Op::op, f32_ulp, f32_abs, f64_ulp, f64_abs},
#include "device/metal/ulp.def"
#undef CODETTA_ULP
};

struct Options {
  uint64_t seed = 1;
  int random = 20, shapes = 1;
  std::string only;
  uint64_t part = 1, parts = 1;
  bool verbose = false;
};

struct Counts {
  int runs = 0, failed = 0, refused = 0, mistrusted = 0;
};

struct Tensor {
  std::vector<unsigned char> bytes;
  TensorView view;
};

// Row-major, or with the last two dims the other way round; `slack` bytes off alignment.
Tensor make_tensor(DType dtype, const std::vector<int64_t>& shape, uint64_t seed, size_t slack, bool turned) {
  Tensor tensor;
  Dims dims;
  int64_t count = 1;
  for (const int64_t size : shape) dims.push_back(size), count *= size;
  tensor.bytes.assign(static_cast<size_t>(std::max<int64_t>(count, 1) * dtype_size(dtype)) + 64, 0xC7);
  const auto at = reinterpret_cast<uintptr_t>(tensor.bytes.data());
  unsigned char* const data =
      tensor.bytes.data() + (32 - at % 32) % 32 + slack * static_cast<size_t>(dtype_size(dtype));
  if (turned && shape.size() >= 2) {
    Dims strides;
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t stride = i + 2 < shape.size()    ? shape[shape.size() - 1] * shape[shape.size() - 2]
                       : i + 2 == shape.size() ? 1
                                               : shape[shape.size() - 2];
      for (size_t j = i + 1; j + 2 < shape.size(); ++j) stride *= shape[j];
      strides.push_back(stride);
    }
    tensor.view = *TensorView::make(data, dtype, dims, strides);
  } else {
    tensor.view = *TensorView::make(data, dtype, dims);
  }
  if (seed == 0)
    fill_poison(tensor.view);
  else
    fill_random(tensor.view, seed, Distribution::Normal);
  return tensor;
}

std::vector<int64_t> sizes_of(const std::vector<types::Dim>& shape) {
  std::vector<int64_t> sizes;
  for (const types::Dim& dim : shape) sizes.push_back(dim.as_constant().value_or(1));
  return sizes;
}

class Runner {
 public:
  explicit Runner(const Options& options) : options_(options) {}

  // One bound graph on configuration `choice` of the family.
  void run(const std::string& label, const ir::Graph& bound, package::GpuFamily family, uint64_t seed) {
    if (asked_++ % options_.parts != options_.part - 1 || label.find(options_.only) == std::string::npos) return;
    std::mt19937_64 random(seed);
    const auto optimized = opt::optimize(bound);
    if (!optimized) return fail(label, optimized.error().render());
    const ir::Graph& graph = optimized->graph;
    const ir::NodeId matmul = test::product(graph);
    const auto shape_a = sizes_of(graph.type(graph.operands(matmul)[0]).shape);
    const auto shape_b = sizes_of(graph.type(graph.operands(matmul)[1]).shape);
    const bool turn_a = random() % 2 == 0, turn_b = random() % 2 == 0;
    const size_t slack = random() % 3 == 0 ? 1 : 0;
    plan::GemmShape shape;
    shape.batch = shape_a.size() == 3 ? shape_a[0] : 1;
    shape.m = shape_a[shape_a.size() - 2], shape.k = shape_a.back(), shape.n = shape_b.back();
    shape.a = graph.type(graph.operands(matmul)[0]).dtype, shape.b = graph.type(graph.operands(matmul)[1]).dtype;
    shape.accumulator = graph.type(matmul).dtype;
    shape.a_row_stride = turn_a ? 1 : shape.k, shape.a_k_stride = turn_a ? shape.m : 1;
    shape.b_k_stride = turn_b ? 1 : shape.n, shape.b_col_stride = turn_b ? shape.k : 1;
    auto plan = plan::plan_gemm(graph, shape, {}, {Backend::metal, CpuIsa::generic, "apple9"}, {});
    if (!plan) {
      ++counts_.refused;
      if (options_.verbose) std::printf("%s: %s\n", label.c_str(), plan.error().render().c_str());
      return;
    }
    const package::EpilogueProgram& program = plan->kernels[0].lowered.program;
    const plan::GpuFacts gpu = plan::metal_facts("apple9");
    const plan::GpuProblem problem{program, shape, gpu};
    std::vector<package::GpuGemmConfig> configs;
    for (const plan::GpuFamilyInfo& info : plan::metal_families()) {
      if (info.family == family && !info.refuse(problem)) configs = info.configurations(problem);
    }
    if (configs.empty()) {
      ++counts_.refused;
      return;
    }
    package::GpuGemmConfig config = configs[random() % configs.size()];
    if (random() % 3 == 0 && shape.k > config.tile_k) config.k_split = 2 + static_cast<int>(random() % 3);
    const std::string name = label + " " + plan::metal_kernel_name(config, gpu.arch);
    const auto source = emit::emit_metal_kernel(program, config, {});
    if (!source) return fail(name, source.error().render());

    std::vector<Tensor> inputs, outputs;
    std::vector<oracle::OracleInput> given;
    std::vector<TensorView> actual;
    uint64_t data = seed;
    for (size_t i = 0; i < bound.inputs().size(); ++i) {
      const ir::GraphInput& input = bound.inputs()[i];
      const auto& type = bound.type(input.node);
      if (input.is_scalar) {
        inputs.emplace_back();
        given.emplace_back(types::is_float(type.dtype) ? types::Scalar::from_f64(0.75, type.dtype)
                                                       : types::Scalar::from_i64(3, type.dtype));
        continue;
      }
      inputs.push_back(make_tensor(type.dtype, sizes_of(type.shape), ++data, i < 2 ? slack : random() % 2,
                                   (i == 0 && turn_a) || (i == 1 && turn_b)));
      given.emplace_back(inputs.back().view);
    }
    for (const ir::GraphOutput& output : bound.outputs())
      outputs.push_back(make_tensor(output.dtype, sizes_of(bound.type(output.node).shape), 0, random() % 2, false));
    Call call{program, config};
    call.batch = shape.batch, call.m = shape.m, call.n = shape.n, call.k = shape.k;
    call.a = inputs[0].view, call.b = inputs[1].view, call.seed = seed;
    for (const package::Argument& argument : program.arguments) {
      TensorView view;
      for (size_t i = 0; i < bound.inputs().size(); ++i) {
        if (bound.inputs()[i].name == argument.name && !argument.is_output) view = inputs[i].view;
      }
      for (size_t i = 0; i < bound.outputs().size(); ++i) {
        if (bound.outputs()[i].name == argument.name && argument.is_output) view = outputs[i].view;
      }
      call.tensors.push_back(view);
      call.scalars.push_back(types::is_float(argument.dtype) ? 0.75 : 3);
    }
    Library library;
    if (const std::string why = library.load(emit::whole_metal_text(source->text)); !why.empty())
      return fail(name, why);
    if (const std::string why = library.run(source->entries, call); !why.empty()) return fail(name, why);
    ++counts_.runs;
    oracle::OracleOptions judge;
    types::AccumulationModel model = types::accumulation_model(CpuIsa::avx2, DType::f32);
    model.extra_roundings = config.k_split;
    judge.accumulation = model;
    judge.ulp = metal_ulp;
    judge.isa = CpuIsa::avx2;
    const auto expected = oracle::evaluate(bound, given, judge);
    if (!expected) return fail(name, expected.error().render());
    for (Tensor& output : outputs) actual.push_back(output.view);
    const auto report = oracle::check(actual, *expected, {.max_zeros = 1});
    if (!report) return fail(name, report.error().render());
    if (report->verdict == oracle::Verdict::Mistrusted) ++counts_.mistrusted;
    if (options_.verbose)
      std::printf("%s: %s\n", name.c_str(), std::string(oracle::to_string(report->verdict)).c_str());
    if (report->verdict != oracle::Verdict::Fail) return;
    std::string text;
    for (const oracle::OutputReport& output : report->outputs)
      text += output.name + ": " + std::to_string(output.wrong) + " of " + std::to_string(output.elements) +
              " wrong, " + output.worst_text + "\n";
    fail(name, text + program.to_string());
  }

  [[nodiscard]] const Counts& counts() const { return counts_; }

  void fail(const std::string& label, const std::string& why) {
    ++counts_.failed;
    std::printf("FAILED %s\n%s\n", label.c_str(), why.c_str());
    std::fflush(stdout);
  }

 private:
  Options options_;
  Counts counts_;
  uint64_t asked_ = 0;  // problems so far, of all parts
};

using test::scalar;
using test::tensor;

struct Everyday {
  const char* name;
  bool pairs;  // N is even
  std::vector<ir::BoundArgument> (*arguments)(int64_t m, int64_t n, DType type);
};
const Everyday everyday[] = {
    {"relu_aux_store", false,
     [](int64_t m, int64_t n, DType t) {
       return std::vector{tensor("C", t, {m, n}), scalar("alpha"), tensor("D", t, {m, n}), tensor("F", t, {m, n})};
     }},
    {"bias_gelu_tanh", false,
     [](int64_t m, int64_t n, DType t) {
       return std::vector{tensor("bias", t, {1, n}), tensor("D", t, {m, n}), tensor("Z", t, {m, n})};
     }},
    {"swiglu", true,
     [](int64_t m, int64_t n, DType t) {
       return std::vector{tensor("D", t, {m, n / 2})};
     }},
    {"residual_row_sums", false,
     [](int64_t m, int64_t n, DType t) {
       return std::vector{tensor("residual", t, {m, n}), tensor("D", t, {m, n}), tensor("row_sums", DType::f32, {m, 1}),
                          tensor("row_squares", DType::f32, {m, 1})};
     }},
    {"gelu_backward", false,
     [](int64_t m, int64_t n, DType t) {
       return std::vector{tensor("Z", t, {m, n}), tensor("D", t, {m, n}), tensor("bias_gradient", DType::f32, {n})};
     }},
    {"softmax", false,
     [](int64_t m, int64_t n, DType t) {
       return std::vector{scalar("inverse_temperature"), tensor("D", t, {m, n}),
                          tensor("normalizer", DType::f32, {m, 1})};
     }},
    {"quantize_fp8_amax", false,
     [](int64_t m, int64_t n, DType) {
       return std::vector{scalar("scale"), tensor("D", DType::f8e4m3, {m, n}), tensor("largest", DType::f32, {1})};
     }},
};

// Copies and fills of host text (device/metal/kernels/bytes.h), by byte: odd lengths and places, grids of fewer threads
// than bytes. "" or what is wrong.
std::string run_bytes(uint64_t seed) {
  Library library;
  const std::string loaded = library.load(emit::whole_metal_text("#include \"device/metal/kernels/bytes.h\"\n"));
  if (!loaded.empty()) return loaded;
  struct {  // as MetalBytes of device/host/metal.h
    unsigned char* to;
    const unsigned char* from;
    int64_t count;
    uint64_t value, width;
  } parameters{};
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20; ++round) {
    std::vector<unsigned char> from(3000), to(3000, 0xC7), wanted;
    for (unsigned char& byte : from) byte = static_cast<unsigned char>(random());
    wanted = to;
    const size_t at = random() % 64, width = size_t{1} << random() % 4, count = width * (1 + random() % 300);
    const bool copies = round % 2 == 0;
    parameters = {to.data() + at, copies ? from.data() + at / 2 : nullptr, static_cast<int64_t>(count), random(),
                  width};
    for (size_t i = 0; i < count; ++i) {
      wanted[at + i] = copies ? from[at / 2 + i] : static_cast<unsigned char>(parameters.value >> (8 * (i % width)));
    }
    const auto groups = static_cast<unsigned>(1 + random() % 3);
    const std::string failure = library.run_alone("codetta_bytes", &parameters, groups, 256);
    if (!failure.empty()) return failure;
    if (to != wanted) return (copies ? "a copy of " : "a fill of ") + std::to_string(count) + " bytes is wrong";
  }
  return {};
}

// Results of reductions at places that are computed, which are owed where there is nothing to reduce, too.
void run_computed_places(Runner& runner, uint64_t seed) {
  struct {
    const char* axis;
    Dims shape;
  } const cases[] = {{"column", {1, 4, 16}}, {"row", {4, 16, 1}}};
  for (const auto& [axis, shape] : cases) {
    for (const int64_t reduced : {0, 70}) {
      for (const package::GpuFamily family : {package::GpuFamily::Simt, package::GpuFamily::Simdgroup}) {
        const bool columns = shape[0] == 1;
        const int64_t m = columns ? reduced : 64, n = columns ? 64 : reduced;
        const std::string text = std::string("def e(accum):\n    r = max(accum, axis=\"") + axis +
                                 "\")\n    F = accum - r\n    D = permute(reshape(r, " +
                                 (columns ? "(1, 16, 4)), (0, 2, 1))" : "(16, 4, 1)), (1, 0, 2))") +
                                 "\n    return F, D\n";
        const auto graph = test::bind_text(text, {tensor("F", DType::f32, {m, n}), tensor("D", DType::f32, shape)},
                                           test::gemm_facts(m, n, 24, DType::f32));
        const std::string label = std::string("computed places of a ") + axis + " of " + std::to_string(reduced);
        if (!graph)
          runner.fail(label, graph.error().render());
        else
          runner.run(label, *graph, family, ++seed);
      }
    }
  }
}

int run_all(const Options& options) {
  if (!has_compiler()) {
    std::printf("no clang++\n");
    return 77;
  }
  Runner runner(options);
  if (const std::string failure = run_bytes(options.seed); !failure.empty()) runner.fail("copies and fills", failure);
  for (int i = 0; i < options.random; ++i) {
    const uint64_t seed = options.seed * 1000003 + static_cast<uint64_t>(i);
    auto graph = test::EpilogueMaker(seed).run();
    if (!graph) continue;
    const auto family = i % 2 == 0 ? package::GpuFamily::Simt : package::GpuFamily::Simdgroup;
    runner.run("random " + std::to_string(i), *graph, family, seed);
  }
  run_computed_places(runner, options.seed);
  std::mt19937_64 random(options.seed);
  for (int s = 0; s < options.shapes; ++s) {
    for (const Everyday& epilogue : everyday) {
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f8e4m3}) {
        const auto below = [&](uint64_t n) { return static_cast<int64_t>(1 + random() % n); };
        const bool whole = random() % 3 == 0;
        const int64_t m = whole ? 64 * below(2) : below(150),
                      n = whole            ? 128
                          : epilogue.pairs ? 2 * below(70)
                                           : below(140),
                      k = whole               ? 64
                          : random() % 8 == 0 ? 1
                                              : below(120);
        const uint64_t seed = random();
        const auto family = random() % 3 == 0 ? package::GpuFamily::Simt : package::GpuFamily::Simdgroup;
        const DType stored = dtype == DType::f8e4m3 ? DType::bf16 : dtype;
        const auto graph = test::bind_text(test::example(epilogue.name), epilogue.arguments(m, n, stored),
                                           test::gemm_facts(m, n, k, dtype));
        const std::string label = std::string(epilogue.name) + " " + std::string(dtype_name(dtype)) + " " +
                                  std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
        if (!graph)
          runner.fail(label, graph.error().render());
        else
          runner.run(label, *graph, family, seed);
      }
    }
  }
  const Counts& c = runner.counts();
  std::printf("seed %llu: %d ran, %d failed, %d refused, %d mistrusted\n",
              static_cast<unsigned long long>(options.seed), c.runs, c.failed, c.refused, c.mistrusted);
  return c.failed == 0 && c.runs > 0 ? 0 : 1;
}

}  // namespace
}  // namespace codetta::metal_run

int main(int argc, char** argv) {
  codetta::metal_run::Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--seed") {
      options.seed = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (name == "--random") {
      options.random = std::atoi(argv[i + 1]);
    } else if (name == "--shapes") {
      options.shapes = std::atoi(argv[i + 1]);
    } else if (name == "--part") {
      char* slash = nullptr;
      options.part = std::strtoull(argv[i + 1], &slash, 10);
      options.parts = *slash == '/' ? std::strtoull(slash + 1, nullptr, 10) : 0;
      if (options.part < 1 || options.part > options.parts) return std::fputs("--part is I/N\n", stderr), 2;
    } else if (name == "--only") {
      options.only = argv[i + 1];
    } else if (name == "--verbose") {
      options.verbose = std::atoi(argv[i + 1]) != 0;
    } else {
      std::fputs("usage: metal_run [--seed S] [--random N] [--shapes N] [--part I/N] [--only TEXT] [--verbose 1]\n",
                 stderr);
      return 2;
    }
  }
  return codetta::metal_run::run_all(options);
}

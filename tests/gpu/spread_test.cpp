// SPDX-License-Identifier: Apache-2.0
// Rows of A that begin anywhere, dealt out to the items of a batch and read where they lie (GpuGemmConfig::spread_a):
// what is in front of a row and behind it is never a number, and no other row's element may meet a B.
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include <fmt/format.h>

#include "codetta/fill.hpp"
#include "gpu/host_tensors.hpp"
#include "gpu/suite.hpp"
#include "types/dtype.hpp"

namespace codetta::gpu {
namespace {

struct FormOperand {
  const char* name;
  DType dtype;
  int64_t rows, cols;   // 0: those of D
  bool turned = false;  // its rows lie side by side
};
struct SpreadForm {
  const char* name;
  const char* text;
  std::vector<FormOperand> inputs, outputs;
  int ways = 1;  // columns of the product for one of D
};

const std::vector<SpreadForm>& forms() {
  constexpr DType bf16 = DType::bf16, f32 = DType::f32;
  static const std::vector<SpreadForm> all = {
      {"plain", "def plain(accum):\n    D = accum\n    return D\n", {}, {{"D", bf16, 0, 0}}},
      {"bias",
       "def bias_relu(accum, bias):\n    D = relu(accum + bias)\n    return D\n",
       {{"bias", bf16, 1, 0}},
       {{"D", bf16, 0, 0}}},
      {"residual and a column",
       "def residual(accum, C, scale):\n    D = accum * scale + C\n    return D\n",
       {{"C", bf16, 0, 0}, {"scale", f32, 0, 1}},
       {{"D", bf16, 0, 0}}},
      {"two outputs",
       "def two(accum, bias):\n    Z = accum + bias\n    D = relu(Z) * 2.0\n    return D, Z\n",
       {{"bias", f32, 1, 0}},
       {{"D", bf16, 0, 0}, {"Z", f32, 0, 0}}},
      {"sums of rows",
       "def rows(accum, C):\n    D = accum + C\n    s = sum(D, axis=\"row\")\n    return D, s\n",
       {{"C", bf16, 0, 0}},
       {{"D", bf16, 0, 0}, {"s", f32, 0, 1}}},
      {"largest of all",
       "def all(accum):\n    D = accum * 0.5\n    s = max(abs(D), axis=\"all\")\n    return D, s\n",
       {},
       {{"D", bf16, 0, 0}, {"s", f32, 1, 1}}},
      {"softmax",
       "def softmax_of(accum):\n    m = max(accum, axis=\"row\")\n    e = exp(accum - m)\n    D = e / sum(e, "
       "axis=\"row\")\n"
       "    return D\n",
       {},
       {{"D", bf16, 0, 0}}},
      {"halves",
       "def halves(accum):\n    g, u = split(accum, 2, dim=-1)\n    D = silu(g) * u\n    return D\n",
       {},
       {{"D", bf16, 0, 0}},
       2},
      {"columns side by side",
       "def turned(accum, C):\n    D = accum + C\n    return D\n",
       {{"C", bf16, 0, 0, true}},
       {{"D", bf16, 0, 0, true}}},
  };
  return all;
}

struct SpreadCase {
  const SpreadForm* form;
  DType dtype = DType::bf16;
  int64_t m = 0, n = 0, k = 0, stride = 0;  // elements between rows of A
  int b = 0;                                // 0: along N, 1: along N and to be packed, 2: along K
  bool infinite = false;                    // some of A's elements are, at the ends of rows
};

// An A whose memory ends with its last element; what is not an element is NaN.
Result<TensorView> add_a(const SpreadCase& one, std::vector<unsigned char>& memory, uint64_t seed) {
  const auto size = static_cast<size_t>(dtype_size(one.dtype));
  const auto bytes = static_cast<size_t>((one.m - 1) * one.stride + one.k) * size;
  memory.assign(bytes + 1024, 0xFF);
  const size_t first = 512 + (256 - reinterpret_cast<uintptr_t>(memory.data()) % 256) % 256;
  memory.resize(first + bytes, 0xFF);
  CODETTA_TRY(const TensorView view, TensorView::make(static_cast<void*>(memory.data() + first), one.dtype,
                                                      Dims{one.m, one.k}, Dims{one.stride, 1}));
  fill_random(view, seed);
  if (!one.infinite) return view;
  const uint16_t infinity = one.dtype == DType::bf16 ? 0x7F80 : 0x7C00;
  for (int64_t row = 0; row < one.m; ++row) {
    if (row % 5 == 1) view.as<uint16_t>()[row * one.stride + one.k - 1] = infinity;
    if (row % 5 == 3) view.as<uint16_t>()[row * one.stride] = infinity;
  }
  return view;
}

// Of every `step`-th configuration what went wrong, for people; `ran` counts them.
Result<std::string> run_spread(Gpu& gpu, const SpreadCase& one, size_t first, size_t step, uint64_t seed,
                               std::atomic<int>& ran) {
  CODETTA_TRY(Epilogue epilogue, Epilogue::parse(one.form->text));
  std::vector<unsigned char> memory;
  HostTensors tensors;
  GemmArguments call;
  CODETTA_TRY(call.A, add_a(one, memory, ++seed));
  const int64_t columns = one.n * one.form->ways;
  const bool along_k = one.b == 2;
  CODETTA_TRY(TensorView b,
              tensors.add(one.dtype, along_k ? Dims{columns, one.k} : Dims{one.k, columns}, 0, one.b == 1 ? 1 : 0));
  fill_random(b, ++seed);
  call.B = along_k ? transposed(b) : b;
  std::vector<NamedArgument> named;
  for (const auto* list : {&one.form->inputs, &one.form->outputs}) {
    for (const FormOperand& operand : *list) {
      const int64_t rows = operand.rows == 0 ? one.m : operand.rows, cols = operand.cols == 0 ? one.n : operand.cols;
      CODETTA_TRY(TensorView view, tensors.add(operand.dtype, operand.turned ? Dims{cols, rows} : Dims{rows, cols}));
      if (list == &one.form->outputs) {
        fill_poison(view);
      } else {
        fill_random(view, ++seed);
      }
      if (operand.turned) view = transposed(view);
      if (operand.rows == 1 && operand.cols == 0) {
        CODETTA_TRY(view, TensorView::make(view.data(), operand.dtype, Dims{cols}));
      }
      named.push_back({operand.name, view});
    }
  }
  call.epilogue = EpilogueArguments(std::move(epilogue), std::move(named));
  CODETTA_TRY(const Planned planned, plan_call(call, gpu.arch()));
  std::vector<package::GpuGemmConfig> configs = family_configs(planned, package::GpuFamily::Sm90, gpu.arch());
  std::erase_if(configs, [](const package::GpuGemmConfig& config) { return config.spread_a == 1; });
  if (configs.empty()) return std::string("no configuration spreads its rows");
  const int64_t items = 16 / std::gcd(int64_t{16}, one.stride * dtype_size(one.dtype));
  std::string failure;
  std::vector<HostBlock> blocks = tensors.blocks();
  blocks.push_back({memory.data(), memory.size()});
  for (size_t i = first % configs.size(); i < configs.size() && failure.empty() && !gpu.lost(); i += step) {
    const package::GpuGemmConfig& config = configs[i];
    if (config.spread_a != items) failure += fmt::format("spread by {} instead of {}\n", config.spread_a, items);
    CODETTA_TRY(const Compiled compiled, gpu.compile(planned, config, false));
    if (compiled.spilled_bytes > 0) failure += fmt::format("{} bytes of spills\n", compiled.spilled_bytes);
    ++ran;
    if (gpu.compiles_only()) continue;
    for (const auto& [name, view] : planned.problem.tensors) {
      const bool output = std::any_of(one.form->outputs.begin(), one.form->outputs.end(),
                                      [&, which = name](const FormOperand& operand) { return operand.name == which; });
      if (output) fill_poison(view);
    }
    CODETTA_CHECK_OK(gpu.run(planned, compiled, blocks));
    CODETTA_TRY(const Judgement judgement, judge(planned, config, false));
    if (!judgement.text.empty()) failure += judgement.text;
    if (!tensors.surroundings_kept()) failure += "bytes around a tensor were written\n";
    for (const oracle::OutputReport& output : judgement.report.outputs) {
      if (output.ambiguous * 50 > output.elements) failure += output.name + " is too vague\n";
    }
    if (!failure.empty()) failure = name_of(config) + "\n" + failure;
  }
  return failure;
}

std::string outcome_of(Gpu& gpu, const SpreadCase& one, size_t first, size_t step, uint64_t seed,
                       std::atomic<int>& ran) {
  const Result<std::string> failure = run_spread(gpu, one, first, step, seed, ran);
  if (failure && failure->empty()) return "";
  return fmt::format("{}, {}: {} x {} x {}, rows {} apart, B {}{}, seed {}: {}", one.form->name, dtype_name(one.dtype),
                     one.m, one.n, one.k, one.stride, one.b, one.infinite ? ", infinite" : "", seed,
                     failure ? *failure : failure.error().render());
}

// Of case i every `step`-th configuration from i * apart on.
void run_cases(const std::vector<SpreadCase>& cases, size_t step, size_t apart = 7) {
  const auto gpu = gpu_or_skip();
  if (gpu == nullptr) return;
  if (gpu->arch() != "sm_90a") GTEST_SKIP() << "this device is " << gpu->arch();
  std::atomic<int> ran{0};
  in_parallel(static_cast<int64_t>(cases.size()), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    return outcome_of(*gpu, cases[at], apart * at, step, options().seed * 1000003 + at, ran);
  });
  fmt::print("{} cases, {} runs, {}\n", cases.size(), ran.load(), gpu->statistics());
  EXPECT_GE(ran, options().seconds > 0 ? 1 : static_cast<int>(cases.size()));
}

// Every epilogue; rows of 2, 4 and 8 bytes' alignment; rows of a tile and more that are no multiple of one.
TEST(CudaSpread, EveryEpilogue) {
  std::vector<SpreadCase> cases;
  for (const SpreadForm& form : forms()) {
    for (const auto& [k, stride, m] : {std::tuple(479, 479, 8 * 131), std::tuple(130, 134, 4 * 130),
                                       std::tuple(77, 84, 2 * 321), std::tuple(13, 13, 16 * 67)}) {
      const auto at = static_cast<int>(cases.size());
      cases.push_back({&form, at % 3 == 0 ? DType::f16 : DType::bf16, m, 136, k, stride, at % 3});
    }
  }
  run_cases(cases, 11);
}

// Every sixth configuration, tails of K around a stage's, and rows next to what is infinite.
TEST(CudaSpread, TailsOfRows) {
  std::vector<SpreadCase> cases;
  for (const int64_t k : {1, 2, 7, 9, 57, 58, 63, 65, 71, 127, 129, 191, 193, 255}) {
    for (const bool infinite : {false, true}) {
      const auto at = static_cast<int>(cases.size());
      const int64_t stride = at % 4 < 2 ? k + (k % 2 == 0 ? 1 : 0) : k + 7 + k % 2;
      if (stride * 2 % 16 == 0 || stride == 1) continue;  // nothing to deal out; rows side by side
      cases.push_back({&forms()[at % 2], DType::bf16, 16 * (at % 5 == 0 ? 1 : 40 + at), 64 + 8 * (at % 3), k, stride,
                       at % 3, infinite});
    }
  }
  run_cases(cases, 17);
}

// Rows that follow each other, the ends of which are infinite: what is of one row stays in its row. Each case takes
// other configurations, all together every one (--of 1), or one of some.
TEST(CudaSpread, EveryConfiguration) {
  std::vector<SpreadCase> cases;
  for (size_t i = 0; i < 16; ++i)
    cases.push_back({&forms()[1], DType::bf16, 8 * 40, 256, 223, 223, i % 2 == 0 ? 0 : 2, true});
  run_cases(cases, std::max<size_t>(16, 2 * options().of), 1);
}

}  // namespace
}  // namespace codetta::gpu

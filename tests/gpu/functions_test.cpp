// SPDX-License-Identifier: Apache-2.0
// Functions on the GPU: their stated accuracy (device/gpu/ulp.def) against long double, and all 16- and 8-bit
// arguments of every function of one argument and of every conversion against the oracle.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>

#include <fmt/format.h>

#include "codetta/fill.hpp"
#include "device/gpu/abi.h"
#include "gpu/host_tensors.hpp"
#include "gpu/suite.hpp"
#include "runtime/cuda/stream.hpp"
#include "support/real_ops.hpp"
#include "support/ulps.hpp"
#include "types/dtype.hpp"
#include "unit/emit/program_maker.hpp"

namespace codetta::gpu {
namespace {

namespace cuda = runtime::cuda;
namespace abi = codetta::gpu;
using types::Op;

struct Stated {
  double f32_ulp = 0.5, f32_abs = 0, f64_ulp = 0.5, f64_abs = 0;
};
std::map<Op, Stated> stated_accuracy() {
  std::map<Op, Stated> table;
  for (const oracle::UlpRow& row : oracle::cuda_ulp_table())
    table[row.op] = {row.f32_ulp, row.f32_abs, row.f64_ulp, row.f64_abs};
  return table;
}

std::vector<Op> measured_ops(int arity) {
  std::vector<Op> ops;
  for (const types::OpInfo& info : types::all_ops()) {
    if (info.elementwise() && info.rule == types::OpRule::real && info.arity == arity && info.op != Op::dropout)
      ops.push_back(info.op);
  }
  if (arity == 2) ops.push_back(Op::pow);
  return ops;
}

constexpr int64_t columns = 256;  // of the matrices that the arguments are laid out in

// The functions of one arity in T as one kernel of [rows, columns] matrices.
template <class T>
class Functions {
 public:
  Functions(Gpu& gpu, std::vector<Op> ops, int arity, bool strict)
      : gpu_(gpu), ops_(std::move(ops)), arity_(arity), strict_(strict) {}

  Result<void> compile() {
    constexpr DType type = sizeof(T) == 8 ? DType::f64 : DType::f32;
    emit::ProgramMaker m;
    std::vector<uint32_t> in;
    for (int i = 0; i < arity_; ++i) in.push_back(m.load(type, package::Access::Full));
    for (const Op op : ops_) m.store(m.op(op, type, in), type);
    m.store(m.accum(), DType::f32, package::Access::Full);
    package::GpuGemmConfig config;
    config.piece_cols = config.tile_n;
    CODETTA_TRY(const emit::CudaSource source,
                emit::emit_cuda_kernel(m.program, config, {.arch = gpu_.arch(), .strict = strict_}));
    CODETTA_TRY(module_, gpu_.load(source));
    if (gpu_.compiles_only()) return {};
    CODETTA_TRY(function_, module_->function(source.entries[0].symbol, 0, 1));
    operands_ = m.program.operands.size();
    arguments_ = m.program.arguments.size();
    return {};
  }

  // arguments[i]: the i-th operands; a multiple of 64 * columns. Results by op.
  Result<std::vector<std::vector<T>>> evaluate(const std::vector<std::vector<T>>& arguments) const {
    const auto count = static_cast<int64_t>(arguments[0].size()), rows = count / columns;
    CODETTA_TRY(const cuda::OwnedStream stream, cuda::OwnedStream::make(gpu_.device()));
    const cuda::Device& device = *gpu_.device();
    const size_t bytes = arguments[0].size() * sizeof(T);
    std::vector<cuda::DeviceBuffer> memory;
    abi::Problem p{};
    p.batches = 1;
    p.m = p.rows = rows;
    p.n = p.cols = p.chunk = columns;
    p.tiles_m = p.pieces_m = rows / 64;
    p.tiles_n = p.pieces_n = columns / 64;
    p.k_split = 1;
    p.k_slice = 16;
    p.group = 8;
    std::vector<abi::Operand> operands(operands_);
    for (size_t i = 0; i < operands_; ++i) {
      CODETTA_TRY(cuda::DeviceBuffer buffer, cuda::DeviceBuffer::make(gpu_.device(), bytes));
      if (i < arguments.size()) {
        CODETTA_CHECK_OK(device.upload(buffer.address(), arguments[i].data(), bytes, stream.get()));
      } else {
        CODETTA_CHECK_OK(device.fill(buffer.address(), 0xA5, bytes, stream.get()));
      }
      operands[i].data = reinterpret_cast<void*>(buffer.address());
      operands[i].stride[1] = columns;
      operands[i].stride[2] = 1;
      memory.push_back(std::move(buffer));
    }
    std::vector<unsigned char> parameters(sizeof(abi::TensorMap));
    const auto put = [&](const void* data, size_t size) {
      const auto* from = static_cast<const unsigned char*>(data);
      parameters.insert(parameters.end(), from, from + size);
    };
    put(&p, sizeof p);
    put(operands.data(), operands.size() * sizeof(abi::Operand));
    parameters.resize((parameters.size() + arguments_ * sizeof(abi::ScalarValue) + sizeof(abi::ReductionBuffers) + 63) /
                      64 * 64);
    cuda::LaunchConfig launch{};
    launch.grid_x = static_cast<unsigned>(p.tiles_m * p.tiles_n);
    launch.grid_y = launch.grid_z = launch.block_y = launch.block_z = 1;
    launch.block_x = 256;
    launch.stream = stream.get();
    void* pointers[] = {parameters.data()};
    {
      CODETTA_TRY(const cuda::ContextGuard guard, device.enter());
      CODETTA_CUDA(device.driver(), "cuLaunchKernelEx", "functions",
                   device.driver().call().launch_kernel(&launch, function_.handle, pointers, nullptr));
    }
    std::vector<std::vector<T>> results(ops_.size(), std::vector<T>(arguments[0].size()));
    for (size_t o = 0; o < ops_.size(); ++o) {
      CODETTA_CHECK_OK(device.download(results[o].data(), memory[arguments.size() + o].address(), bytes, stream.get()));
    }
    CODETTA_CHECK_OK(device.synchronize(stream.get()));
    return results;
  }
  [[nodiscard]] const std::vector<Op>& ops() const { return ops_; }

 private:
  Gpu& gpu_;
  std::vector<Op> ops_;
  int arity_;
  bool strict_;
  size_t operands_ = 0, arguments_ = 0;
  cuda::ModuleRef module_;
  cuda::Function function_;
};

// The largest error of each function over all blocks of arguments, printed and held against what is stated.
template <class T>
class Measurement {
 public:
  explicit Measurement(int arity) : arity_(arity) {}
  // block(i): the arguments of the i-th block; all threads ask.
  void run(Gpu& gpu, int64_t blocks, const std::function<std::vector<std::vector<T>>(int64_t)>& block) {
    const std::vector<Op> all = measured_ops(arity_);
    std::vector<Functions<T>> kernels;
    for (size_t first = 0; first < all.size(); first += 5) {
      const std::vector<Op> part(all.begin() + static_cast<std::ptrdiff_t>(first),
                                 all.begin() + static_cast<std::ptrdiff_t>(std::min(first + 5, all.size())));
      for (const bool strict : {false, true}) kernels.emplace_back(gpu, part, arity_, strict);
    }
    in_parallel(static_cast<int64_t>(kernels.size()), [&](int64_t i) {
      const auto compiled = kernels[static_cast<size_t>(i)].compile();
      return compiled ? std::string() : compiled.error().render();
    });
    if (::testing::Test::HasFailure() || gpu.compiles_only()) return;
    in_parallel(blocks, [&](int64_t i) -> std::string {
      const std::vector<std::vector<T>> arguments = block(i);
      std::map<Op, std::vector<long double>> truth;
      for (const Functions<T>& kernel : kernels) {
        const auto results = kernel.evaluate(arguments);
        if (!results) return results.error().render();
        for (size_t o = 0; o < kernel.ops().size(); ++o) {
          std::vector<long double>& exact = truth[kernel.ops()[o]];
          if (exact.empty()) exact = exact_values(kernel.ops()[o], arguments);
          compare(kernel.ops()[o], arguments, (*results)[o], exact);
        }
      }
      return "";
    });
  }
  void expect_stated() {
    for (const auto& [op, worst] : worst_) {
      const Stated& stated = stated_[op];
      const double bound = sizeof(T) == 4 ? stated.f32_ulp : stated.f64_ulp;
      std::string at;
      for (const T x : worst.at) at += fmt::format(" {:a}", x);
      fmt::print("{:12} {} {:8.3f} ulp of {}, at{}\n", types::op_info(op).name, sizeof(T) == 4 ? "f32" : "f64",
                 worst.ulps, bound, at);
      EXPECT_LE(worst.ulps, bound) << types::op_info(op).name << at << " gives " << worst.got << ", exact "
                                   << static_cast<double>(worst.exact);
    }
  }

 private:
  struct Worst {
    double ulps = 0;
    std::vector<T> at;
    T got = 0;
    long double exact = 0;
  };
  static std::vector<long double> exact_values(Op op, const std::vector<std::vector<T>>& arguments) {
    std::vector<long double> exact(arguments[0].size());
    for (size_t i = 0; i < exact.size(); ++i) {
      const auto at = [&](size_t k) { return k < arguments.size() ? static_cast<long double>(arguments[k][i]) : 0.0L; };
      exact[i] = test::real_op<long double>(op, at(0), at(1), at(2));
    }
    return exact;
  }
  void compare(Op op, const std::vector<std::vector<T>>& arguments, const std::vector<T>& results,
               const std::vector<long double>& exact) {
    const Stated& stated = stated_.at(op);
    Worst worst;
    for (size_t i = 0; i < results.size(); ++i) {
      const double error = test::error_in_ulps(results[i], exact[i], sizeof(T) == 4 ? stated.f32_abs : stated.f64_abs);
      if (error <= worst.ulps) continue;
      worst = {error, {}, results[i], exact[i]};
      for (const auto& argument : arguments) worst.at.push_back(argument[i]);
    }
    const std::lock_guard lock(mutex_);
    if (worst.ulps >= worst_[op].ulps) worst_[op] = worst;
  }
  int arity_;
  std::mutex mutex_;
  std::map<Op, Worst> worst_;
  std::map<Op, Stated> stated_ = [] {
    std::map<Op, Stated> table = stated_accuracy();
    for (int n = 1; n <= 3; ++n) {
      for (const Op op : measured_ops(n)) table.try_emplace(op);
    }
    return table;
  }();
};

constexpr size_t block_size = 64 * columns * 4;

TEST(CudaFunctions, F32OfOneArgument) {
  const auto gpu = gpu_or_skip();
  if (gpu == nullptr) return;
  Measurement<float> measure(1);
  // Every stride-th bit pattern, then where the functions bend.
  const uint64_t stride = options().thorough ? 397 : 7919, patterns = (uint64_t{1} << 32) / stride + 1;
  const auto walks = static_cast<int64_t>(patterns / block_size + 1);
  constexpr double ranges[] = {0.01, 1.0, 5.0, 20.0, 120.0};
  measure.run(*gpu, walks + 5, [&](int64_t i) {
    std::vector<std::vector<float>> x(1, std::vector<float>(block_size));
    std::mt19937_64 random(options().seed + static_cast<uint64_t>(i));
    const double range = i < walks ? 1 : ranges[i - walks];
    std::uniform_real_distribution<double> near(-range, range);
    for (size_t j = 0; j < block_size; ++j) {
      const uint64_t pattern = (static_cast<uint64_t>(i) * block_size + j) * stride + options().seed;
      const float value = std::bit_cast<float>(static_cast<uint32_t>(pattern));
      x[0][j] = i < walks && std::isfinite(value) ? value : static_cast<float>(near(random));
    }
    return x;
  });
  measure.expect_stated();
}

TEST(CudaFunctions, F64OfOneArgument) {
  const auto gpu = gpu_or_skip();
  if (gpu == nullptr) return;
  Measurement<double> measure(1);
  constexpr double ranges[] = {0.0, 1e-3, 1.0, 5.0, 40.0, 800.0};
  measure.run(*gpu, options().thorough ? 48 : 6, [&](int64_t i) {
    std::vector<std::vector<double>> x(1, std::vector<double>(block_size));
    std::mt19937_64 random(options().seed * 7 + static_cast<uint64_t>(i));
    const double range = ranges[i % 6];
    for (double& value : x[0]) {
      do {
        value = range != 0 ? std::uniform_real_distribution<double>(-range, range)(random)
                           : std::bit_cast<double>(random());
      } while (!std::isfinite(value));
    }
    return x;
  });
  measure.expect_stated();
}

template <class T>
void measure_more_arguments(Gpu& gpu, int arity) {
  Measurement<T> measure(arity);
  constexpr double ranges[] = {1.0, 4.0, 30.0, 600.0};
  measure.run(gpu, options().thorough ? 16 : 4, [&](int64_t i) {
    std::vector<std::vector<T>> x(static_cast<size_t>(arity), std::vector<T>(block_size));
    std::mt19937_64 random(options().seed * 11 + static_cast<uint64_t>(i));
    const double range = ranges[i % 4];
    for (size_t k = 0; k < x.size(); ++k) {
      const double low = k == 1 && arity == 3 ? 0.25 : -range;
      for (T& value : x[k]) value = static_cast<T>(std::uniform_real_distribution<double>(low, range)(random));
    }
    return x;
  });
  measure.expect_stated();
}

TEST(CudaFunctions, OfTwoAndThreeArguments) {
  const auto gpu = gpu_or_skip();
  if (gpu == nullptr) return;
  for (const int arity : {2, 3}) {
    measure_more_arguments<float>(*gpu, arity);
    measure_more_arguments<double>(*gpu, arity);
  }
}

constexpr std::string_view unary[] = {
    "exp(x)",
    "exp2(x)",
    "expm1(x)",
    "log(x)",
    "log2(x)",
    "log1p(x)",
    "sqrt(x)",
    "rsqrt(x)",
    "reciprocal(x)",
    "sin(x)",
    "cos(x)",
    "tanh(x)",
    "erf(x)",
    "sigmoid(x)",
    "silu(x)",
    "gelu(x)",
    "softplus(x)",
    "elu(x)",
    "hardswish(x)",
    "mish(x)",
    "hardsigmoid(x)",
    "dsigmoid(x)",
    "dtanh(x)",
    "dsilu(x)",
    "dgelu(x)",
    "relu(x)",
    "drelu(x)",
    "abs(x)",
    "sign(x)",
    "floor(x)",
    "ceil(x)",
    "round(x)",
    "trunc(x)",
    "-x",
    "leaky_relu(x)",
    "hardtanh(x)",
    "relu6(x)",
    "x * x",
    "gelu(x, approximate=\"tanh\")",
    "dgelu(x, approximate=\"tanh\")",
};

// All values of a dtype of 8 or 16 bits as x [rows, cols], and `expressions` of it as outputs.
std::string exhaust(Gpu& gpu, DType dtype, const std::vector<std::pair<std::string, DType>>& expressions,
                    size_t choice) {
  const int64_t rows = dtype_size(dtype) == 2 ? 256 : 16;
  HostTensors memory;
  const auto test = [&]() -> Result<std::string> {
    std::string text = "def f(accum, x):\n", names = "accum";
    GemmArguments call;
    CODETTA_TRY(call.A, memory.add(DType::f32, {rows, 0}));
    CODETTA_TRY(call.B, memory.add(DType::f32, {0, rows}));
    CODETTA_TRY(const TensorView x, memory.add(dtype, {rows, rows}));
    for (int64_t i = 0; i < rows * rows; ++i) {
      if (dtype_size(dtype) == 2) {
        x.as<uint16_t>()[i] = static_cast<uint16_t>(i);
      } else {
        x.as<uint8_t>()[i] = static_cast<uint8_t>(i);
      }
    }
    std::vector<NamedArgument> named{{"x", x}};
    CODETTA_TRY(const TensorView accum, memory.add(DType::f32, {rows, rows}));
    fill_poison(accum);
    named.push_back({"accum", accum});
    for (size_t i = 0; i < expressions.size(); ++i) {
      const std::string name = fmt::format("o{}", i);
      text += fmt::format("    {} = {}\n", name, expressions[i].first);
      names += ", " + name;
      CODETTA_TRY(const TensorView out, memory.add(expressions[i].second, {rows, rows}));
      fill_poison(out);
      named.push_back({name, out});
    }
    text += "    return " + names + "\n";
    CODETTA_TRY(Epilogue epilogue, Epilogue::parse(text));
    call.epilogue = EpilogueArguments(std::move(epilogue), std::move(named));
    CODETTA_TRY(const Planned planned, plan_call(call, gpu.arch()));
    const auto configs = simt_configs(planned.program(), DType::f32, DType::f32);
    const package::GpuGemmConfig& config = configs[choice % configs.size()];
    CODETTA_TRY(const Compiled compiled, gpu.compile(planned, config, false));
    if (gpu.compiles_only()) return std::string();
    CODETTA_CHECK_OK(gpu.run(planned, compiled, memory.blocks()));
    CODETTA_TRY(const Judgement judgement, judge(planned, config, false));
    return judgement.text.empty()
               ? ""
               : fmt::format("{} {}\n{}{}", dtype_name(dtype), name_of(config), judgement.text, text);
  };
  const Result<std::string> result = test();
  return result ? *result : result.error().render();
}

TEST(CudaFunctions, EverySmallArgument) {
  const auto gpu = gpu_or_skip();
  if (gpu == nullptr) return;
  struct Job {
    DType dtype;
    std::vector<std::pair<std::string, DType>> expressions;
  };
  std::vector<Job> jobs;
  for (int d = 0; d < dtype_count; ++d) {
    const auto dtype = static_cast<DType>(d);
    if (dtype == DType::boolean || dtype_size(dtype) > 2) continue;
    if (types::is_float(dtype)) {
      for (size_t first = 0; first < std::size(unary); first += 8) {
        Job job{dtype, {}};
        for (size_t i = first; i < std::min(first + 8, std::size(unary)); ++i)
          job.expressions.emplace_back(unary[i], DType::f32);
        jobs.push_back(std::move(job));
      }
    }
    Job conversions{dtype, {}};
    for (int to = 0; to < dtype_count; ++to) {
      const auto target = static_cast<DType>(to);
      conversions.expressions.emplace_back(fmt::format("cast(x, {})", dtype_name(target)), target);
      conversions.expressions.emplace_back("x", target);
      if (types::is_float(dtype)) conversions.expressions.emplace_back("x * 1.0078125", target);
    }
    for (size_t first = 0; first < conversions.expressions.size(); first += 14) {
      const auto begin = conversions.expressions.begin() + static_cast<std::ptrdiff_t>(first);
      const auto end = conversions.expressions.begin() +
                       static_cast<std::ptrdiff_t>(std::min(first + 14, conversions.expressions.size()));
      jobs.push_back({dtype, {begin, end}});
    }
  }
  in_parallel(static_cast<int64_t>(jobs.size()), [&](int64_t i) {
    const Job& job = jobs[static_cast<size_t>(i)];
    return exhaust(*gpu, job.dtype, job.expressions, static_cast<size_t>(i) * 37 + options().seed);
  });
}

}  // namespace
}  // namespace codetta::gpu

// SPDX-License-Identifier: Apache-2.0
// What `codetta build --target metal:...` writes, compiled and run without a Mac: host text, header and kernels.
// Results are judged by the oracle.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "base/files.hpp"
#include "codetta/codetta.hpp"
#include "metal_host/host_runner.hpp"
#include "support/random_program.hpp"
#include "support/slice.hpp"
#include "types/convert.hpp"

namespace codetta {
namespace {

struct MetalTensor {
  void* buffer;
  uint64_t offset;
};

class MetalLibrary : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!metal_host::missing().empty()) GTEST_SKIP() << metal_host::missing();
    ASSERT_EQ(metal_host::broken(), "");
    metal().log();
    folder_.emplace(*base::TemporaryDirectory::make("/tmp", "codetta-metal-library-"));
    ContextOptions options;
    options.cache_enabled = false;
    options.threads = 1;
    context_.emplace(Context::make(options).value());
  }
  void TearDown() override {
    if (!metal_host::missing().empty() || !metal_host::broken().empty()) return;
    for (void* buffer : buffers_) metal().release(buffer);
    metal().fail(nullptr);
  }
  static const MetalControl& metal() { return metal_host::metal(); }

  // Builds the program for a family and loads it, under another name each time. Why it could not, else empty.
  std::string load(const Program& program, BuildOptions options = {}, const char* family = "apple9") {
    program_ = program;
    name_ = "unit" + std::to_string(count_++);
    options.output = folder_->path() + "/" + name_;
    const auto built = build({program}, Target{Backend::metal, {}, family}, options, *context_);
    if (!built) return built.error().render();
    path_ = options.output;
    // The caller is C: what it passes is what the header says.
    std::string text =
        "#include \"" + name_ + ".h\"\n__attribute__((visibility(\"default\"))) int caller(const " + name_ +
        "_tensor* t, const double* s, const int64_t* q, void* commands) {\n  (void)t, (void)s, (void)q;\n"
        "  return " +
        built->functions.at(0) + "(";
    const std::set<std::string> constants = constants_of(options);
    int tensors = 0, numbers = 0;
    for (const auto& parameters : {program.parameters(), program.outputs()}) {
      for (const ProgramParameter& parameter : parameters) {
        if (constants.count(parameter.name) != 0) continue;
        const bool tensor = parameter.type.find('[') != std::string::npos;
        text += (tensor ? "t[" + std::to_string(tensors++) : "s[" + std::to_string(numbers++)) + "], ";
      }
    }
    const std::string header = *base::read_file(path_ + "/" + name_ + ".h", 1 << 20);
    for (int q = 0; header.find("int64_t q" + std::to_string(q)) != std::string::npos; ++q)
      text += "q[" + std::to_string(q) + "], ";
    std::ofstream(path_ + "/caller.c") << text << "commands);\n}\n";
    std::string why;
    void* const handle = metal_host::load_library(path_, name_, why);
    handle_ = handle;
    if (handle == nullptr) return why;
    caller_ = reinterpret_cast<decltype(caller_)>(::dlsym(handle, "caller"));
    init_ = reinterpret_cast<int (*)()>(::dlsym(handle, (name_ + "_init").c_str()));
    error_ = reinterpret_cast<const char* (*)()>(::dlsym(handle, (name_ + "_get_last_error").c_str()));
    check_ = reinterpret_cast<int (*)(void*)>(::dlsym(handle, (name_ + "_check").c_str()));
    return caller_ != nullptr && init_ != nullptr && error_ != nullptr && check_ != nullptr ? ""
                                                                                            : "functions are missing";
  }

  // What a call gets: every parameter and output in memory of a buffer, at an offset.
  struct Call {
    std::vector<NamedArgument> arguments;  // all of them, for the oracle
    std::vector<MetalTensor> tensors;
    std::vector<double> numbers;
    std::vector<int64_t> sizes;
  };
  // Random parameters for these sizes; `given` ones, which the library has inside, are not passed.
  std::optional<Call> arguments(const std::vector<std::pair<std::string, int64_t>>& sizes, uint64_t seed,
                                const std::vector<NamedArgument>& given = {}) {
    Call call;
    call.arguments = given;
    const auto inputs = program_->missing(given, sizes, 4);
    if (!inputs) return {};
    for (const ProgramInput& input : *inputs) {
      if (input.is_number) {
        call.numbers.push_back(types::is_float(input.dtype) ? 0.5 : 2);
        call.arguments.push_back(types::is_float(input.dtype) ? NamedArgument{input.name, 0.5}
                                                              : NamedArgument{input.name, int64_t{2}});
        continue;
      }
      const TensorView view = place(call, input.dtype, input.shape, seed);
      fill_random(view, seed + call.tensors.size());
      if (input.index_limit != 0 || !types::is_float(input.dtype)) {
        const auto limit = static_cast<uint64_t>(std::max<int64_t>(input.index_limit, 1));
        for (int64_t e = 0; e < view.element_count(); ++e)
          types::store_i64(view.as<std::byte>() + e * dtype_size(input.dtype), input.dtype,
                           static_cast<int64_t>((static_cast<uint64_t>(e) * 7 + seed) % limit));
      }
      call.arguments.push_back({input.name, view});
    }
    const auto shapes = program_->shapes(call.arguments);
    if (!shapes) return {};
    for (const ProgramShapes::Output& output : shapes->outputs) {
      const TensorView view = place(call, output.dtype, output.shape, seed);
      fill_poison(view);
      call.arguments.push_back({output.name, view});
    }
    // Sizes in the order of the header, which names them behind the tensors.
    const std::string header = *base::read_file(path_ + "/" + name_ + ".h", 1 << 20);
    for (int q = 0;; ++q) {
      const std::string mark = "; q" + std::to_string(q) + " ";
      const size_t at = header.find(mark);
      if (at == std::string::npos) break;
      const size_t from = at + mark.size();
      const std::string symbol = header.substr(from, header.find_first_of("; ", from) - from);
      for (const auto& [name, size] : shapes->symbols) {
        if (name == symbol) call.sizes.push_back(size);
      }
      if (call.sizes.size() != static_cast<size_t>(q) + 1) return {};
    }
    return call;
  }

  int run(const Call& call, void* commands = nullptr) {
    return caller_(call.tensors.data(), call.numbers.data(), call.sizes.data(), commands);
  }
  // "" where the oracle agrees with what lies in the outputs.
  std::string judge(const Call& call) {
    const auto checked =
        verify(*program_, call.arguments, {Backend::cpu, CpuIsa::generic, {}}, {.poisoned = true}, *context_);
    if (!checked) return checked.error().render();
    return checked->verdict == VerifyReport::Verdict::Fail ? checked->text : "";
  }
  void expect_runs(const std::vector<std::pair<std::string, int64_t>>& sizes, uint64_t seed = 1,
                   const std::vector<NamedArgument>& given = {}) {
    const auto call = arguments(sizes, seed, given);
    ASSERT_TRUE(call);
    ASSERT_EQ(run(*call), 0) << error_();
    EXPECT_EQ(judge(*call), "");
  }

  int (*weights_loader() const)(const char*) {
    return reinterpret_cast<int (*)(const char*)>(::dlsym(handle_, (name_ + "_load_weights").c_str()));
  }

  static std::set<std::string> constants_of(const BuildOptions& options) {
    std::set<std::string> names;
    for (const NamedArgument& constant : options.constants) names.insert(constant.name);
    if (!options.weights.empty()) {
      for (const auto& [name, tensor] : read_safetensors(options.weights).value()) names.insert(name);
    }
    return names;
  }
  TensorView place(Call& call, DType dtype, const Dims& shape, uint64_t seed) {
    int64_t count = 1;
    for (int i = 0; i < shape.rank(); ++i) count *= shape[i];
    const auto size = static_cast<size_t>(dtype_size(dtype));
    const size_t offset = size * (seed % 2 == 0 ? 16 : 1 + call.tensors.size() % 3);
    void* const buffer = metal().buffer(offset + static_cast<size_t>(count) * size);
    buffers_.push_back(buffer);
    call.tensors.push_back({buffer, offset});
    return TensorView::make(static_cast<char*>(metal().contents(buffer)) + offset, dtype, shape).value();
  }

  std::optional<base::TemporaryDirectory> folder_;
  std::optional<Context> context_;
  std::optional<Program> program_;
  std::string name_, path_;
  std::vector<void*> buffers_;
  int (*caller_)(const MetalTensor*, const double*, const int64_t*, void*) = nullptr;
  int (*init_)() = nullptr;
  const char* (*error_)() = nullptr;
  int (*check_)(void*) = nullptr;
  void* handle_ = nullptr;
  static int count_;
};
int MetalLibrary::count_ = 0;

TEST_F(MetalLibrary, SeveralKernelsAndSizesOfTheCall) {
  const Program program = Program::parse(
                              "def mlp(x: f16[\"rows\", 32], w: f16[32, 64], b: f32[64], v: f16[64, 16], scale: f32):\n"
                              "    h = gelu(x @ w + b)\n    y = softmax((h @ v) * scale, dim=-1)\n    total = sum(y)\n "
                              "   return y, total\n")
                              .value();
  ASSERT_EQ(load(program), "");
  for (const int64_t rows : {64, 5, 1, 0}) {
    SCOPED_TRACE(rows);
    expect_runs({{"rows", rows}}, static_cast<uint64_t>(rows));
  }
  const std::string log = metal().log();
  EXPECT_EQ(log.find("without a barrier"), std::string::npos) << log;
  EXPECT_EQ(log.find("fast math"), std::string::npos) << log;
  EXPECT_EQ(log.find("behind the first dispatch"), std::string::npos) << log;
}

// Without rows t is 4 times exp(0) and e is exp(0), which the product's kernel has no rows for: other kernels make
// them.
TEST_F(MetalLibrary, MakesWhatHasElementsOfSizesOf0) {
  const Program program = Program::parse(
                              "def none(x: f32[\"m\", 8], w: f32[8, 4]):\n    y = x @ w\n    c = exp(sum(y, dim=0))\n"
                              "    t = sum(c)\n    e = max(c, dim=1)\n    return y, t, e\n")
                              .value();
  ASSERT_EQ(load(program), "");
  for (const int64_t rows : {2, 0, 5, 0}) {
    SCOPED_TRACE(rows);
    expect_runs({{"m", rows}}, static_cast<uint64_t>(rows));
  }
  const auto call = arguments({{"m", 0}}, 1);
  ASSERT_TRUE(call);
  Call wrong = *call;  // refused by the first for another reason, and so not tried again
  wrong.tensors[1].buffer = nullptr;
  EXPECT_EQ(run(wrong), -1);
  EXPECT_NE(std::string(error_()).find("E0604: w is null"), std::string::npos) << error_();
  void* const commands = metal().command_buffer();
  ASSERT_EQ(run(*call, commands), 0) << error_();
  metal().finish(commands);
  EXPECT_EQ(judge(*call), "");
}

// 0 / 0, in a map, in its later phases, and behind a product.
TEST_F(MetalLibrary, MeansOfNothing) {
  for (const char* text :
       {"def f(x: f32[\"m\", 8]):\n    u = mean(x, dim=0)\n    v = mean(x) * 0.5\n    return u, v\n",
        "def f(x: bf16[4, \"m\"]):\n    u = mean(x, dim=1)\n    v = mean(x) * 0.5\n    return u, v\n",
        "def f(x: f32[\"m\", 8], w: f32[8, 4]):\n    y = x @ w\n    u = mean(y, dim=0) + 1.0\n    v = mean(y)\n    "
        "return "
        "u, v\n"}) {
    SCOPED_TRACE(text);
    ASSERT_EQ(load(Program::parse(text).value()), "");
    for (const int64_t size : {3, 0}) expect_runs({{"m", size}}, 3);
  }
}

// Kernels without a product, reductions over rows, columns and everything, gathers, a copy, and shapes with batch dims.
TEST_F(MetalLibrary, Maps) {
  const Program program =
      Program::parse(
          "def f(x: f32[\"b\", \"s\", 24], i: i64[5], w: bf16[24]):\n"
          "    n = x * rsqrt(mean(x * x, dim=-1) + 0.001) * w\n    columns = max(x, dim=1)\n    total = sum(n)\n"
          "    t = permute(n, (1, 0, 2))\n    p = take(x, i, dim=2)\n    return n, columns, total, t, p\n")
          .value();
  ASSERT_EQ(load(program), "");
  expect_runs({{"b", 3}, {"s", 7}}, 1);
  expect_runs({{"b", 1}, {"s", 1}}, 2);
  expect_runs({{"b", 2}, {"s", 40}}, 3);
}

TEST_F(MetalLibrary, BatchesAndEveryFamily) {
  const Program program =
      Program::parse(
          "def f(q: f16[\"b\", \"s\", 32], k: f16[\"b\", \"t\", 32], r: f32[\"b\", 1, \"t\"]):\n"
          "    scores = q @ transpose(k) * 0.17 + r\n    p = softmax(scores, dim=-1)\n    y = p @ k\n    return y\n")
          .value();
  for (const char* family : {"apple7", "metal3"}) {
    ASSERT_EQ(load(program, {}, family), "");
    expect_runs({{"b", 2}, {"s", 33}, {"t", 48}}, 1);
    expect_runs({{"b", 1}, {"s", 64}, {"t", 64}}, 2);
  }
}

// Factors that kernels make where they read them, and several B of one A: in all layouts, along K and along N, in
// parts, of items, of matrices of a SIMD group and of single threads.
TEST_F(MetalLibrary, MadeFactorsAndSeveralB) {
  const char* const texts[] = {
      "def f(x: f16[\"m\", 72], q: i8[72, 40], s: f16[40]):\n    y = gelu(x @ (cast(q, f16) * s))\n    return y\n",
      "def f(x: bf16[\"m\", 75], q: i8[33, 75], s: bf16[33, 1]):\n"
      "    w = cast(cast(q, f32) * s, bf16)\n    y = x @ permute(w, [1, 0])\n    return y\n",
      "def f(x: f32[\"m\", 37], w: f32[37, 24], c: f32[37]):\n    y = (x * c + 1.0) @ w\n    return y\n",
      "def f(x: f16[2, \"m\", 40], s: f16[2, \"m\", 1], w: f16[2, 40, 32]):\n"
      "    y = cast(x * s, f16) @ w\n    return y\n",
      "def f(x: bf16[41, \"m\"], w: bf16[41, 24]):\n"
      "    y = permute(cast(silu(x), bf16), [1, 0]) @ w\n    return y\n",
      "def f(x: f16[\"m\", 40], q: u8[40, 56], s: f16[56]):\n    w = (cast(q, f16) - 128.0) * s\n"
      "    a, b = split(x @ cast(w, f16), 2, dim=-1)\n    y = silu(a) * b\n    return y\n",
      "def f(x: f16[\"m\", 40], q: i8[48, 40], s: f16[48, 1]):\n    w = cast(cast(q, f16) * s, f16)\n"
      "    a, b = split(x @ permute(w, [1, 0]), 2, dim=-1)\n    y = silu(a) * b\n    return y\n",
      "def f(x: bf16[\"m\", 72], g: bf16[72, 40], u: bf16[72, 40]):\n    y = silu(x @ g) * (x @ u)\n    return y\n",
      "def f(x: f16[\"m\", 33], q: f16[24, 33], k: f16[24, 33], v: f16[24, 33]):\n"
      "    y = x @ permute(q, [1, 0])\n    z = x @ permute(k, [1, 0])\n    w = relu(x @ permute(v, [1, 0]))\n"
      "    return y, z, w\n",
      "def f(x: f32[2, \"m\", 40], g: f32[2, 40, 32], u: f32[2, 40, 32]):\n"
      "    y = (x @ g) * (x @ u)\n    return y\n",
      "def f(x: f32[\"m\", 72], g: bf16[72, 40], u: bf16[72, 40]):\n    a = cast(x * 0.5, bf16)\n"
      "    y = silu(a @ g) * (a @ u)\n    return y\n",
      "def f(x: f16[\"m\", 64], q: f16[64, 64], k: f16[64, 64]):\n    a, b = split(x @ q, 2, dim=-1)\n"
      "    c, d = split(x @ k, 2, dim=-1)\n    y = a * d\n    z = b + c\n    return y, z\n",
  };
  uint64_t which = 0;
  size_t by_matrices = 0, by_threads = 0;
  for (const char* text : texts) {
    for (const char* family : {"apple9", "metal3"}) {
      if (!test::commit_takes(which++, 5)) continue;
      SCOPED_TRACE(std::string(family) + "\n" + text);
      ASSERT_EQ(load(Program::parse(text).value(), {}, family), "");
      const std::string host = *base::read_file(path_ + "/" + name_ + ".mm", size_t{1} << 22);
      EXPECT_EQ(host.find("codetta_kernel_1"), std::string::npos) << "more kernels than one";
      EXPECT_TRUE(host.find("gemm.products = ") != std::string::npos ||
                  host.find(", true, false};") != std::string::npos ||
                  host.find(", false, true};") != std::string::npos);
      for (const auto& file : std::filesystem::directory_iterator(path_)) {
        if (file.path().extension() != ".metal") continue;
        const std::string kernel = *base::read_file(file.path().string(), size_t{1} << 22);
        (kernel.find("Codetta: simdgroup kernel") != std::string::npos ? by_matrices : by_threads) += 1;
      }
      for (const int64_t rows : {7, 64}) expect_runs({{"m", rows}}, static_cast<uint64_t>(rows));
    }
  }
  EXPECT_TRUE(by_matrices > 0 && by_threads > 0) << by_matrices << " and " << by_threads;
}

// Parameters that have their value in the library: carried by it, or in a file beside it.
TEST_F(MetalLibrary, Constants) {
  const Program program = Program::parse(
                              "def f(x: f32[\"rows\", 12], w: f32[12, \"n\"], b: f32[\"n\"]):\n"
                              "    y = relu(x @ w + b)\n    return y\n")
                              .value();
  Tensor w = Tensor::make(f32, {12, 20}).value(), b = Tensor::make(f32, {20}).value();
  fill_random(w, 3), fill_random(b, 4);
  const std::string weights = folder_->path() + "/model.safetensors";
  ASSERT_TRUE(write_safetensors(weights, {{"w", w.view()}, {"b", b.view()}}));
  const std::vector<NamedArgument> given{{"w", w.view()}, {"b", b.view()}};
  BuildOptions carried;
  carried.weights = weights;
  carried.embed_weights = true;
  ASSERT_EQ(load(program, carried), "");
  EXPECT_TRUE(base::read_file(path_ + "/" + name_ + ".constants.safetensors", 1 << 20));
  expect_runs({{"rows", 9}}, 1, given);
  expect_runs({{"rows", 3}}, 2, given);

  BuildOptions beside;
  beside.weights = weights;
  ASSERT_EQ(load(program, beside), "");
  EXPECT_EQ(init_(), -7);  // nobody has put it there
  EXPECT_NE(std::string(error_()).find("E0620: the weights"), std::string::npos) << error_();
  const auto elsewhere = weights_loader();
  ASSERT_NE(elsewhere, nullptr);
  EXPECT_EQ(elsewhere(nullptr), -1);
  EXPECT_EQ(elsewhere((folder_->path() + "/none.safetensors").c_str()), -7);
  EXPECT_EQ(elsewhere(weights.c_str()), 0) << error_();
  EXPECT_EQ(elsewhere(weights.c_str()), -7);
  EXPECT_NE(std::string(error_()).find("loaded already"), std::string::npos) << error_();
  expect_runs({{"rows", 5}}, 3, given);

  BuildOptions mixed = beside;
  mixed.constants = {{"b", b.view()}};
  ASSERT_EQ(load(program, mixed), "");
  const std::string bytes = *base::read_file(weights, 1 << 20);
  std::ofstream(path_ + "/model.safetensors", std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  EXPECT_EQ(init_(), -7);
  EXPECT_NE(std::string(error_()).find("E0621"), std::string::npos) << error_();
  std::ofstream(path_ + "/model.safetensors", std::ios::binary) << bytes;
  metal().fail("buffer");
  EXPECT_EQ(init_(), -4);
  EXPECT_NE(std::string(error_()).find("E0606: no memory on"), std::string::npos) << error_();
  expect_runs({{"rows", 5}}, 4, given);

  BuildOptions clash;
  clash.constants = {{"b", b.view()}};
  clash.weights = folder_->path() + "/unit" + std::to_string(count_) + ".constants.safetensors";
  ASSERT_TRUE(write_safetensors(clash.weights, {{"w", w.view()}}));
  EXPECT_NE(load(program, clash).find("the weights, which stay outside, have that name, too"), std::string::npos);
}

// More tensors than the parameters of one launch name.
TEST_F(MetalLibrary, ManyTensors) {
  std::string parameters, sum = "a0";
  for (int i = 0; i < 60; ++i) {
    parameters += ", a" + std::to_string(i) + ": f32[\"n\", 8]";
    if (i > 0) sum += " + a" + std::to_string(i);
  }
  const Program program = Program::parse("def f(x: f32[\"n\", 4], w: f32[4, 8]" + parameters + "):\n    y = x @ w + " +
                                         sum + "\n    z = " + sum + "\n    return y, z\n")
                              .value();
  ASSERT_EQ(load(program), "");
  expect_runs({{"n", 5}}, 1);
}

// The library only encodes into a command buffer of the caller's, and says afterwards how its work ended.
TEST_F(MetalLibrary, CommandBuffersOfTheCaller) {
  const Program program = Program::parse("def f(x: f32[\"n\", 8]):\n    y = exp(x)\n    return y\n").value();
  ASSERT_EQ(load(program), "");
  const auto first = arguments({{"n", 6}}, 1), second = arguments({{"n", 9}}, 2);
  ASSERT_TRUE(first && second);
  void* const commands = metal().command_buffer();
  ASSERT_EQ(run(*first, commands), 0) << error_();
  ASSERT_EQ(run(*second, commands), 0) << error_();
  EXPECT_NE(judge(*first), "");  // nothing has run
  metal().finish(commands);
  EXPECT_EQ(check_(commands), 0);
  EXPECT_EQ(judge(*first), "");
  EXPECT_EQ(judge(*second), "");
  void* const failing = metal().command_buffer();
  ASSERT_EQ(run(*first, failing), 0) << error_();
  metal().fail("commands");
  metal().finish(failing);
  EXPECT_EQ(check_(failing), -8);
  EXPECT_STREQ(error_(), ("E0644: " + name_ + " failed on a processor, code 3: Caused GPU Hang Error").c_str());
  EXPECT_EQ(check_(nullptr), -1);
  metal().fail("commands");
  EXPECT_EQ(run(*first), -8);
  EXPECT_NE(std::string(error_()).find("code 3: Caused GPU Hang Error"), std::string::npos) << error_();
}

// What Metal may refuse, each with a text that names it; the call after it works.
TEST_F(MetalLibrary, Failures) {
  const Program program = Program::parse(
                              "def f(x: f16[\"n\", 32], w: f16[32, 32]):\n    y = relu(x @ w)\n"
                              "    z = y / sum(y, dim=0)\n    return z\n")
                              .value();
  ASSERT_EQ(load(program), "");
  const auto call = arguments({{"n", 40}}, 1);
  ASSERT_TRUE(call);
  const auto refused = [&](const char* what, int code, const std::string& text) {
    metal().fail(what);
    EXPECT_EQ(run(*call), code) << what;
    EXPECT_NE(std::string(error_()).find(text), std::string::npos) << what << ": " << error_();
  };
  refused("device", -6, "E0403: there is no Metal device");
  refused("family", -6, "E0403: these kernels are made for apple9, which a processor is not");
  refused("queue", -8, "E0644: a processor gives no command queue");
  refused("library", -8, "E0504: ");
  refused("function", -8, "E0508: ");
  refused("pipeline", -8, "makes no pipeline: Compiler encountered an internal error");
  refused("width", -6, "needs SIMD groups of 32 threads");
  refused("threads", -6, "threads and registers for");
  refused("memory", -6, "bytes of threadgroup memory, a processor has 32768");
  refused("buffer", -4, "bytes of workspace cannot be allocated");
  refused("encoder", -8, "E0644: the command buffer takes no compute work");
  ASSERT_EQ(run(*call), 0) << error_();
  EXPECT_EQ(judge(*call), "");

  Call wrong = *call;
  wrong.tensors[0].buffer = nullptr;
  EXPECT_EQ(run(wrong), -1);
  EXPECT_NE(std::string(error_()).find("E0604: x is null; it has to be f16[40, 32]"), std::string::npos) << error_();
  wrong = *call;
  wrong.tensors[0].offset += 64;
  EXPECT_EQ(run(wrong), -1);
  EXPECT_NE(std::string(error_()).find("E0610: the buffer of x has"), std::string::npos) << error_();
  wrong = *call;
  wrong.sizes[0] = -1;
  EXPECT_NE(run(wrong), 0);
  wrong = *call;  // the output lies where x does
  wrong.tensors.back() = wrong.tensors[0];
  EXPECT_NE(run(wrong), 0);
  ASSERT_EQ(run(*call), 0) << error_();
}

// A product without steps needs no memory for its factors, however many rows it has; a grid ends.
TEST_F(MetalLibrary, MoreTilesThanAGridHas) {
  const Program program =
      Program::parse("def f(x: f32[\"m\", \"k\"], w: f32[\"k\", 64]):\n    t = sum(x @ w)\n    return t\n").value();
  ASSERT_EQ(load(program), "");
  const auto many = arguments({{"m", int64_t{1} << 40}, {"k", 0}}, 1);
  ASSERT_TRUE(many);
  EXPECT_EQ(run(*many), -2);
  EXPECT_NE(std::string(error_()).find("E0650: "), std::string::npos) << error_();
  EXPECT_NE(std::string(error_()).find("threadgroups for 1099511627776 x 64 in 1 batch items"), std::string::npos)
      << error_();
  expect_runs({{"m", 70}, {"k", 0}}, 2);
}

// A tensor without elements has none that indices could pick; what is read of it beside others is not looked at.
TEST_F(MetalLibrary, ReadsTensorsWithoutElements) {
  ASSERT_EQ(load(Program::parse("def f(x: f32[\"m\", 8], i: i64[4]):\n    t = take(x, i, dim=0) * 2.0\n    return t\n")
                     .value()),
            "");
  expect_runs({{"m", 3}}, 1);
  const auto call = arguments({{"m", 0}}, 1);
  ASSERT_TRUE(call);
  EXPECT_NE(run(*call), 0);
  EXPECT_NE(std::string(error_()).find("E0618: elements of x are taken by indices, and it has none"), std::string::npos)
      << error_();
  ASSERT_EQ(load(Program::parse("def f(x: f32[\"m\", 8], y: f32[3, 8]):\n    c = concat(x, y, dim=0) * 2.0\n"
                                "    s = sum(concat(y, x, dim=0), dim=0)\n    return c, s\n")
                     .value()),
            "");
  for (const int64_t rows : {2, 0}) expect_runs({{"m", rows}}, 2);
}

// Random programs, also of nothing: of the full suite's those from where the commit picks, until one without products
// and one with them has run.
TEST_F(MetalLibrary, RandomPrograms) {
  constexpr uint64_t count = 60;
  const uint64_t begin = CODETTA_TEST_FULL ? 0 : test::commit_slice() % count;
  uint64_t ran = 0;
  bool with[2] = {};
  for (uint64_t turn = 0; turn < count; ++turn) {
    const uint64_t seed = 1 + (begin + turn) % count;
    if (!CODETTA_TEST_FULL && with[seed % 2]) continue;
    test::RandomProgramOptions options = test::drawn_options(seed);
    options.operations = 4;
    options.puts = false;
    options.products = seed % 2 == 0;
    options.donated = 0;  // verify() wants what was there before
    options.counts = options.parts = options.inner_counts = false;
    options.devices = 1;
    const test::RandomProgram made = test::random_program(seed, options);
    SCOPED_TRACE(made.text);
    const Program program = Program::parse(made.text).value();
    const std::string refused = load(program);
    if (refused.find("E0311") != std::string::npos) continue;  // a value of f64
    ASSERT_EQ(refused, "");
    for (const bool empty : {false, true}) {
      std::vector<std::pair<std::string, int64_t>> sizes;
      for (const auto& [symbol, size] : made.sizes) sizes.emplace_back(symbol, empty ? 0 : size);
      const auto call = arguments(sizes, seed);
      if (!call) continue;
      const int status = run(*call);
      // Of an empty tensor there is nothing to take.
      if (empty && status != 0 && std::string(error_()).find(", and it has none") != std::string::npos) continue;
      ASSERT_EQ(status, 0) << error_();
      EXPECT_EQ(judge(*call), "");
      ++ran;
      with[seed % 2] = true;
    }
  }
  EXPECT_GT(ran, CODETTA_TEST_FULL ? count / 2 : 1);
}

}  // namespace
}  // namespace codetta

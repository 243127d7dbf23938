// SPDX-License-Identifier: Apache-2.0
// Kernels of the user's on a real GPU: fresh random operands, poisoned results, each against what the processor says.
#include <algorithm>
#include <cmath>
#include <random>

#include "cuda_device/fixture.hpp"

namespace codetta {
namespace {

class DeviceUser : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    seed_ = std::random_device{}();
    RecordProperty("seed", std::to_string(seed_));
  }
  static Program program(const std::string& text, const std::string& name, const std::string& kernel) {
    const auto parsed = Program::parse(text, "p.py");
    EXPECT_TRUE(parsed) << parsed.error().render();
    const auto with = parsed->with_kernels({{name, kernel, UserKernel::Language::cuda, name + ".cu"}});
    EXPECT_TRUE(with) << with.error().render();
    return *with;
  }
  // A tensor here and its copy there.
  struct Pair {
    Tensor host;
    DeviceTensor device;
    float* data() { return host.view().as<float>(); }
  };
  Pair random(DType dtype, const Dims& shape) {
    Pair made{Tensor::make(dtype, shape).value(), {}};
    fill_random(made.host, seed_++, Distribution::Normal);
    made.device = DeviceTensor::copy_of(*device_, made.host).value();
    return made;
  }
  Pair poisoned(DType dtype, const Dims& shape) {
    Pair made{Tensor::make(dtype, shape).value(), {}};
    fill_poison(made.host);
    made.device = DeviceTensor::copy_of(*device_, made.host).value();
    return made;
  }
  bool has_clusters() const { return std::stoi(device_->info().arch.substr(3)) >= 90; }  // "sm_100a"
  // Runs twice with poison in between, so that the second run, too, is right.
  void run(const Program& of, const std::vector<NamedArgument>& arguments, std::vector<Pair*> results) {
    const auto compiled = compile(of, cuda, {}, *context_);
    ASSERT_TRUE(compiled) << compiled.error().render();
    auto execution = compiled->prepare(arguments);
    ASSERT_TRUE(execution) << execution.error().render();
    for (int pass = 0; pass < 2; ++pass) {
      for (Pair* one : results) ASSERT_TRUE(one->device.fill_bytes(0xFF));
      const auto ran = execution->run();
      ASSERT_TRUE(ran) << ran.error().render();
      ASSERT_TRUE(device_->synchronize());
      for (Pair* one : results) {
        const auto read = one->device.download(one->host);
        ASSERT_TRUE(read) << read.error().render();
      }
    }
  }
  void expect_near(Pair& got, const std::vector<float>& wanted, float tolerance) {
    ASSERT_EQ(static_cast<size_t>(got.host.view().element_count()), wanted.size());
    size_t wrong = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const float difference = std::fabs(got.data()[i] - wanted[i]);
      if (!(difference <= tolerance * std::max(1.0F, std::fabs(wanted[i]))) && ++wrong < 4)
        ADD_FAILURE() << "seed " << seed_ << ", element " << i << ": " << got.data()[i] << ", wanted " << wanted[i];
    }
    EXPECT_EQ(wrong, 0U);
  }

  uint64_t seed_ = 0;
};

constexpr const char* running_sums_text =
    "def f(x: f32[\"m\", \"n\"], decay: f32):\n"
    "    y = user_kernel(\"running_sums\", x, decay, out=\"f32[m, n]\")\n"
    "    return y\n";
// A warp a row stages it in dynamic shared memory, and its first lane sums.
constexpr const char* running_sums =
    "#pragma codetta kernel(x: f32[m, n], decay: f32, out sums: f32[m, n])\n"
    "#pragma codetta sizes(m: i32, n, stride(x, 0)) config(ROWS = 4)\n"
    "#pragma codetta block(32, ROWS) grid(ceil_div(m, ROWS)) shared(4 * n * ROWS)\n"
    "extern \"C\" __global__ void running_sums(const float* x, float decay, float* sums, int m, int64_t n,\n"
    "                                          int64_t stride) {\n"
    "  extern __shared__ float staged[];\n"
    "  const int r = blockIdx.x * ROWS + threadIdx.y;\n"
    "  float* row = staged + threadIdx.y * n;\n"
    "  if (r < m) for (int64_t c = threadIdx.x; c < n; c += 32) row[c] = x[r * stride + c];\n"
    "  __syncwarp();\n"
    "  if (r < m && threadIdx.x == 0) {\n"
    "    float sum = 0;\n"
    "    for (int64_t c = 0; c < n; ++c) sums[r * n + c] = sum = row[c] + decay * sum;\n"
    "  }\n"
    "}\n";

std::vector<float> sums_of(const float* x, int64_t m, int64_t n, int64_t stride, float decay) {
  std::vector<float> sums(static_cast<size_t>(m * n));
  for (int64_t r = 0; r < m; ++r) {
    float sum = 0;
    for (int64_t c = 0; c < n; ++c) sums[static_cast<size_t>(r * n + c)] = sum = x[r * stride + c] + decay * sum;
  }
  return sums;
}

TEST_F(DeviceUser, SharedMemoryAndSizesFollowTheShapes) {
  const Program one = program(running_sums_text, "running_sums", running_sums);
  // The last one needs more shared memory than 48 KiB.
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{1, 1}, {5, 33}, {131, 700}, {7, 5000}}) {
    Pair x = random(f32, {m, n}), y = poisoned(f32, {m, n});
    run(one, {{"x", x.device.view()}, {"decay", 0.75}, {"y", y.device.view()}}, {&y});
    expect_near(y, sums_of(x.data(), m, n, n, 0.75F), 1e-5F);
  }
}

TEST_F(DeviceUser, RowsMayBeApart) {
  Pair wide = random(f32, {9, 64}), y = poisoned(f32, {9, 40});
  const TensorView x = TensorView::make(wide.device.data(), f32, {9, 40}, {64, 1}).value();
  run(program(running_sums_text, "running_sums", running_sums), {{"x", x}, {"decay", 0.5}, {"y", y.device.view()}},
      {&y});
  expect_near(y, sums_of(wide.data(), 9, 40, 64, 0.5F), 1e-5F);
}

// The kernel writes the output itself where that lies as it takes it, and a temporary else; nothing beside is touched.
TEST_F(DeviceUser, OutputsLieAnywhere) {
  constexpr int64_t m = 9, n = 40, room = 2048;
  const Program one = program(running_sums_text, "running_sums", running_sums);
  const struct {
    int64_t first, row, column;
  } places[] = {{0, n, 1}, {64, n, 1}, {1, n, 1}, {4, n + 8, 1}, {0, 1, m + 3}, {0, 2 * n, 2}, {(m - 1) * n, -n, 1}};
  for (const auto& place : places) {
    SCOPED_TRACE(std::to_string(place.first) + ", " + std::to_string(place.row) + ", " + std::to_string(place.column));
    Pair x = random(f32, {m, n}), y = poisoned(f32, {room});
    const TensorView out =
        TensorView::make(static_cast<float*>(y.device.data()) + place.first, f32, {m, n}, {place.row, place.column})
            .value();
    run(one, {{"x", x.device.view()}, {"decay", 0.75}, {"y", out}}, {&y});
    const std::vector<float> wanted = sums_of(x.data(), m, n, n, 0.75F);
    int64_t beside = room;
    for (int64_t r = 0; r < m; ++r) {
      for (int64_t c = 0; c < n; ++c) {
        const float got = y.data()[place.first + r * place.row + c * place.column];
        const float value = wanted[static_cast<size_t>(r * n + c)];
        ASSERT_NEAR(got, value, 1e-5F * std::max(1.0F, std::fabs(value))) << r << ", " << c << ", seed " << seed_;
      }
    }
    for (int64_t i = 0; i < room; ++i) beside -= std::isnan(y.data()[i]) ? 0 : 1;
    EXPECT_EQ(beside, room - m * n) << "all else is as it was";
  }
}

TEST_F(DeviceUser, NothingAndTooMuch) {
  const Program one = program(running_sums_text, "running_sums", running_sums);
  const auto compiled = compile(one, cuda, {}, *context_);
  ASSERT_TRUE(compiled) << compiled.error().render();
  const DeviceTensor none = DeviceTensor::make(*device_, f32, {0, 8}).value();
  const auto ran = compiled->run({{"x", none.view()}, {"decay", 1.0}, {"y", none.view()}});
  EXPECT_TRUE(ran) << ran.error().render();
  const DeviceTensor much = DeviceTensor::make(*device_, f32, {1, 100000}).value();
  const DeviceTensor as_much = DeviceTensor::make(*device_, f32, {1, 100000}).value();
  const auto refused = compiled->prepare({{"x", much.view()}, {"decay", 1.0}, {"y", as_much.view()}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), 650);
  EXPECT_NE(refused.error().render().find("Failed to set the allowed dynamic shared memory size to 1600000"),
            std::string::npos)
      << refused.error().render();
}

// A product in front of the kernel and one behind it, 16-bit elements, a loop.
TEST_F(DeviceUser, BetweenProductsAndInALoop) {
  const std::string text =
      "def more(i, s):\n    return i < 3\n"
      "def turn(i, s):\n    return i + 1, user_kernel(\"halve\", s, out=\"bf16[m, 32]\")\n"
      "def f(x: bf16[\"m\", 64], w: bf16[64, 32], v: bf16[32, 16]):\n"
      "    h = cast(x @ w, bf16)\n"
      "    i, s = while_loop(more, turn, 0, h)\n"
      "    y = cast(s @ v, f32)\n"
      "    return y\n";
  const std::string halve =
      "#pragma codetta kernel(x: bf16[m, n], out y: bf16[m, n]) sizes(m * n) config(BLOCK = 96)\n"
      "#pragma codetta block(BLOCK) grid(ceil_div(m * n, BLOCK))\n"
      "extern \"C\" __global__ void halve(const bfloat16* __restrict__ x, bfloat16* __restrict__ y, int64_t count) {\n"
      "  const int64_t i = int64_t(blockIdx.x) * BLOCK + threadIdx.x;\n"
      "  if (i < count) y[i] = bfloat16(0.5f * float(x[i]));\n"
      "}\n";
  constexpr int64_t m = 37;
  Pair x = random(bf16, {m, 64}), w = random(bf16, {64, 32}), v = random(bf16, {32, 16}), y = poisoned(f32, {m, 16});
  const std::vector<NamedArgument> arguments{
      {"x", x.device.view()}, {"w", w.device.view()}, {"v", v.device.view()}, {"y", y.device.view()}};
  run(program(text, "halve", halve), arguments, {&y});
  const std::vector<float> with_kernel(y.data(), y.data() + m * 16);
  // Halving is exact, so the same program with a multiplication in its place has the same bits.
  std::string without = text;
  const std::string call = "user_kernel(\"halve\", s, out=\"bf16[m, 32]\")";
  without.replace(without.find(call), call.size(), "cast(s * 0.5, bf16)");
  run(Program::parse(without, "q.py").value(), arguments, {&y});
  expect_near(y, with_kernel, 1e-6F);
}

TEST_F(DeviceUser, BlocksOfACooperativeKernelMeet) {
  // Every block adds its part, all wait for each other, then each divides by the whole: wrong unless they run at once.
  const std::string text =
      "def f(x: f32[\"n\"]):\n"
      "    y, partial, count = user_kernel(\"share\", x, zeros(1, dtype=i32), out=(\"f32[n]\", \"f32[64]\", "
      "\"i32[1]\"))\n"
      "    return y, partial, count\n";
  const std::string share =
      "#pragma codetta kernel(x: f32[n], zero: i32[1], out y: f32[n], out partial: f32[64], out count: i32[1])\n"
      "#pragma codetta sizes(n) block(128) grid(64) cooperative\n"
      "__device__ unsigned arrived = 0;\n"
      "__device__ void meet() {\n"
      "  __syncthreads();\n"
      "  if (threadIdx.x == 0) {\n"
      "    __threadfence();\n"
      "    const unsigned ticket = atomicAdd(&arrived, 1u), goal = (ticket / gridDim.x + 1) * gridDim.x;\n"
      "    while (*(volatile unsigned*)&arrived < goal) {}\n"
      "    __threadfence();\n"
      "  }\n"
      "  __syncthreads();\n"
      "}\n"
      "extern \"C\" __global__ void share(const float* x, const int* zero, float* y, float* partial, int* count,\n"
      "                                   int64_t n) {\n"
      "  __shared__ float sums[128];\n"
      "  float sum = 0;\n"
      "  for (int64_t i = blockIdx.x * 128 + threadIdx.x; i < n; i += 64 * 128) sum += fabsf(x[i]);\n"
      "  sums[threadIdx.x] = sum;\n"
      "  __syncthreads();\n"
      "  if (threadIdx.x == 0) {\n"
      "    for (int t = 1; t < 128; ++t) sum += sums[t];\n"
      "    *(volatile float*)&partial[blockIdx.x] = sum;\n"
      "    if (blockIdx.x == 0) *count = *zero + gridDim.x;\n"
      "  }\n"
      "  meet();\n"
      "  float all = 0;\n"
      "  for (int b = 0; b < 64; ++b) all += *(volatile float*)&partial[b];\n"
      "  for (int64_t i = blockIdx.x * 128 + threadIdx.x; i < n; i += 64 * 128) y[i] = x[i] / all;\n"
      "}\n";
  constexpr int64_t n = 30011;
  Pair x = random(f32, {n}), y = poisoned(f32, {n}), partial = poisoned(f32, {64}), count = poisoned(i32, {1});
  run(program(text, "share", share),
      {{"x", x.device.view()},
       {"y", y.device.view()},
       {"partial", partial.device.view()},
       {"count", count.device.view()}},
      {&y, &partial, &count});
  double all = 0;
  for (int64_t i = 0; i < n; ++i) all += std::fabs(static_cast<double>(x.data()[i]));
  std::vector<float> wanted;
  for (int64_t i = 0; i < n; ++i) wanted.push_back(static_cast<float>(static_cast<double>(x.data()[i]) / all));
  expect_near(y, wanted, 1e-5F);
  EXPECT_EQ(count.host.view().as<int32_t>()[0], 64);

  std::string many = share;
  many.replace(many.find("grid(64)"), 8, "grid(1000000)");
  const auto compiled = compile(program(text, "share", many), cuda, {}, *context_);
  ASSERT_TRUE(compiled) << compiled.error().render();
  const auto refused = compiled->prepare({{"x", x.device.view()},
                                          {"y", y.device.view()},
                                          {"partial", partial.device.view()},
                                          {"count", count.device.view()}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), 650);
  EXPECT_NE(refused.error().render().find("of its 1000000 x 1 x 1 blocks at the same time"), std::string::npos);
}

// Blocks of a cluster read each other's shared memory: the neighbour's row, and with `cooperative` all run at once.
void cluster_kernel(std::string& text, std::string& kernel, const std::string& more) {
  text =
      "def f(x: f32[\"m\", 64]):\n"
      "    y, ranks = user_kernel(\"rotate\", x, out=(\"f32[m, 64]\", \"i32[m]\"))\n"
      "    return y, ranks\n";
  kernel =
      "#pragma codetta kernel(x: f32[m, 64], out y: f32[m, 64], out ranks: i32[m]) block(64) grid(m)\n"
      "#pragma codetta cluster(4) " +
      more +
      "\n"
      "extern \"C\" __global__ void rotate(const float* x, float* y, int* ranks) {\n"
      "  __shared__ float row[64];\n"
      "  row[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];\n"
      "  unsigned rank, blocks, here, there;\n"
      "  asm volatile(\"mov.u32 %0, %%cluster_ctarank;\" : \"=r\"(rank));\n"
      "  asm volatile(\"mov.u32 %0, %%cluster_nctarank;\" : \"=r\"(blocks));\n"
      "  asm volatile(\"barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\" ::: \"memory\");\n"
      "  here = static_cast<unsigned>(__cvta_generic_to_shared(&row[threadIdx.x]));\n"
      "  asm volatile(\"mapa.shared::cluster.u32 %0, %1, %2;\" : \"=r\"(there) : \"r\"(here), \"r\"((rank + 1) % "
      "blocks));\n"
      "  float value;\n"
      "  asm volatile(\"ld.shared::cluster.f32 %0, [%1];\" : \"=f\"(value) : \"r\"(there) : \"memory\");\n"
      "  y[blockIdx.x * 64 + threadIdx.x] = value;\n"
      "  if (threadIdx.x == 0) ranks[blockIdx.x] = rank + 100 * blocks;\n"
      "  asm volatile(\"barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\" ::: \"memory\");\n"
      "}\n";
}

TEST_F(DeviceUser, BlocksOfAClusterShareMemory) {
  if (!has_clusters()) GTEST_SKIP() << "clusters need sm_90";
  for (const char* more : {"", "cooperative"}) {
    std::string text, kernel;
    cluster_kernel(text, kernel, more);
    constexpr int64_t m = 60;
    Pair x = random(f32, {m, 64}), y = poisoned(f32, {m, 64}), ranks = poisoned(i32, {m});
    run(program(text, "rotate", kernel),
        {{"x", x.device.view()}, {"y", y.device.view()}, {"ranks", ranks.device.view()}}, {&y, &ranks});
    for (int64_t r = 0; r < m; ++r) {
      const int64_t from = r / 4 * 4 + (r + 1) % 4;
      ASSERT_EQ(ranks.host.view().as<int32_t>()[r], 400 + r % 4) << more;
      for (int64_t c = 0; c < 64; ++c) ASSERT_EQ(y.data()[r * 64 + c], x.data()[from * 64 + c]) << more << r;
    }
  }
}

// The second kernel may begin early and waits; what it reads is what the first has stored, late.
TEST_F(DeviceUser, ADependentKernelWaits) {
  if (!has_clusters()) GTEST_SKIP() << "programmatic dependent launch needs sm_90";
  const std::string text =
      "def f(x: f32[\"n\"]):\n"
      "    y = user_kernel(\"late\", user_kernel(\"late\", user_kernel(\"late\", x, out=\"f32[n]\"), out=\"f32[n]\"), "
      "out=\"f32[n]\")\n"
      "    return y\n";
  const std::string late =
      "#pragma codetta kernel(x: f32[n], out y: f32[n]) sizes(n) block(128) grid(ceil_div(n, 128)) dependent\n"
      "extern \"C\" __global__ void late(const float* x, float* y, int64_t n) {\n"
      "  asm volatile(\"griddepcontrol.launch_dependents;\");\n"
      "  asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
      "  const int64_t i = int64_t(blockIdx.x) * 128 + threadIdx.x;\n"
      "  const long long begin = clock64();\n"
      "  while (clock64() - begin < 200000) {}\n"
      "  if (i < n) y[i] = 2.0f * *(volatile const float*)&x[i] + 1.0f;\n"
      "}\n";
  constexpr int64_t n = 20000;
  Pair x = random(f32, {n}), y = poisoned(f32, {n});
  run(program(text, "late", late), {{"x", x.device.view()}, {"y", y.device.view()}}, {&y});
  std::vector<float> wanted;
  for (int64_t i = 0; i < n; ++i) wanted.push_back(8.0F * x.data()[i] + 7.0F);
  expect_near(y, wanted, 1e-5F);
}

// The window is an attribute of the launch: results are what they are without it, and later launches have none.
TEST_F(DeviceUser, AWindowOfL2ChangesNoResult) {
  const std::string text = "def f(x: f32[\"n\"]):\n    y = user_kernel(\"twice\", x, out=\"f32[n]\")\n    return y\n";
  const std::string twice =
      "#pragma codetta kernel(x: f32[n], out y: f32[n]) sizes(n) block(256) grid(ceil_div(n, 256))\n"
      "#pragma codetta window(x, percent = 80)\n"
      "extern \"C\" __global__ void twice(const float* x, float* y, int64_t n) {\n"
      "  const int64_t i = int64_t(blockIdx.x) * 256 + threadIdx.x;\n"
      "  if (i < n) y[i] = x[i] + x[n - 1 - i];\n"
      "}\n";
  for (const int64_t n : {int64_t{1}, int64_t{100003}, int64_t{40} << 20}) {  // the last one is larger than L2
    Pair x = random(f32, {n}), y = poisoned(f32, {n});
    run(program(text, "twice", twice), {{"x", x.device.view()}, {"y", y.device.view()}}, {&y});
    std::vector<float> wanted;
    for (int64_t i = 0; i < n; ++i) wanted.push_back(x.data()[i] + x.data()[n - 1 - i]);
    expect_near(y, wanted, 0);
  }
}

// What all kernels that copy by tensor maps begin with: a barrier, and a wait for what has been asked of it.
constexpr const char* copying =
    "__device__ unsigned at(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }\n"
    "__device__ void expect(unsigned long long* bar, unsigned bytes) {\n"
    "  asm volatile(\"mbarrier.init.shared::cta.b64 [%0], 1;\" ::\"r\"(at(bar)) : \"memory\");\n"
    "  asm volatile(\"fence.mbarrier_init.release.cluster;\" ::: \"memory\");\n"
    "  asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\" ::\"r\"(at(bar)), \"r\"(bytes) : "
    "\"memory\");\n"
    "}\n"
    "__device__ void wait(unsigned long long* bar) {\n"
    "  unsigned done = 0;\n"
    "  while (done == 0) {\n"
    "    asm volatile(\"{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; "
    "}\"\n"
    "                 : \"=r\"(done) : \"r\"(at(bar)) : \"memory\");\n"
    "  }\n"
    "}\n";

// Boxes of a matrix whose rows are apart, also beyond its edges, where zeros are read; with and without a swizzle.
TEST_F(DeviceUser, TiledMapsCopyBoxes) {
  if (!has_clusters()) GTEST_SKIP() << "tensor maps need sm_90";
  const std::string text =
      "def f(x: f32[\"m\", \"n\"]):\n    y = user_kernel(\"boxes\", x, out=\"f32[48, 64]\")\n    return y\n";
  for (const int swizzle : {0, 128}) {
    const std::string boxes =
        "#pragma codetta kernel(x: f32[m, n], out y: f32[48, 64]) sizes(stride(x, 0)) block(128) grid(2, 3)\n"
        "#pragma codetta map(x, box(16, 32), swizzle(" +
        std::to_string(swizzle) + "))\n#define SWIZZLE " + std::to_string(swizzle) + "\n" + copying +
        "extern \"C\" __global__ void boxes(const __grid_constant__ TensorMap x, float* y, int64_t) {\n"
        "  __shared__ alignas(1024) float box[16 * 32];\n"
        "  __shared__ unsigned long long bar;\n"
        "  if (threadIdx.x == 0) {\n"
        "    expect(&bar, sizeof box);\n"
        "    asm volatile(\"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, "
        "{%2, "
        "%3}], [%4];\"\n"
        "                 ::\"r\"(at(box)), \"l\"(&x), \"r\"(int(blockIdx.x) * 32), \"r\"(int(blockIdx.y) * 16), "
        "\"r\"(at(&bar)) : \"memory\");\n"
        "  }\n"
        "  __syncthreads();\n"
        "  wait(&bar);\n"
        "  for (int i = threadIdx.x; i < 512; i += 128) {\n"
        "    const int r = i / 32, c = i % 32;\n"
        "    const int from = SWIZZLE ? r * 32 + (((c / 4) ^ (r % 8)) * 4 + c % 4) : i;\n"
        "    y[(blockIdx.y * 16 + r) * 64 + blockIdx.x * 32 + c] = box[from];\n"
        "  }\n"
        "}\n";
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{48, 64}, {41, 50}, {1, 1}}) {
      Pair wide = random(f32, {m, 68}), y = poisoned(f32, {48, 64});
      const TensorView x = TensorView::make(wide.device.data(), f32, {m, n}, {68, 1}).value();
      run(program(text, "boxes", boxes), {{"x", x}, {"y", y.device.view()}}, {&y});
      for (int64_t r = 0; r < 48; ++r) {
        for (int64_t c = 0; c < 64; ++c)
          ASSERT_EQ(y.data()[r * 64 + c], r < m && c < n ? wide.data()[r * 68 + c] : 0.0F)
              << swizzle << ": " << m << " x " << n << " at " << r << ", " << c;
      }
    }
  }
  const Pair odd = random(f32, {8, 9});
  const auto compiled = compile(
      program(text, "boxes",
              std::string(
                  "#pragma codetta kernel(x: f32[m, n], out y: f32[48, 64]) sizes(stride(x, 0)) block(128) grid(1)\n"
                  "#pragma codetta map(x, box(16, 32))\n"
                  "extern \"C\" __global__ void boxes(const __grid_constant__ TensorMap x, float* y, int64_t) {}\n")),
      cuda, {}, *context_);
  ASSERT_TRUE(compiled) << compiled.error().render();
  const Pair y = poisoned(f32, {48, 64});
  const auto refused = compiled->prepare({{"x", odd.device.view()}, {"y", y.device.view()}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), 649) << refused.error().render();
}

// Every tap of a convolution over every output, against indices computed here.
TEST_F(DeviceUser, Im2colMapsWalkConvolutions) {
  if (!has_clusters()) GTEST_SKIP() << "tensor maps need sm_90";
  struct Convolution {
    int filter, padding, dilation, stride;
  };
  for (const Convolution& k : {Convolution{3, 1, 1, 1},
                               {3, 0, 1, 1},
                               {3, 2, 2, 1},
                               {3, 1, 1, 2},
                               {5, 2, 1, 3},
                               {1, 0, 1, 1},
                               {3, 0, 2, 2},
                               {2, 3, 3, 1}}) {
    constexpr int64_t batch = 2, height = 9, width = 11, channels = 8;
    const auto outputs = [&](int64_t size) {
      return (size + 2 * k.padding - k.dilation * (k.filter - 1) - 1) / k.stride + 1;
    };
    const int64_t oh = outputs(height), ow = outputs(width), pixels = batch * oh * ow, taps = k.filter * k.filter;
    const std::string type = "f32[" + std::to_string(taps) + ", " + std::to_string(pixels) + ", 8]";
    const std::string text = "def f(x: f32[\"b\", \"h\", \"w\", 8]):\n    y = user_kernel(\"taps\", x, out=\"" + type +
                             "\")\n    return y\n";
    const std::string taps_source =
        "#pragma codetta kernel(x: f32[b, h, w, 8], out y: f32[t, p, 8])\n"
        "#pragma codetta config(F = " +
        std::to_string(k.filter) + ", P = " + std::to_string(k.padding) + ", D = " + std::to_string(k.dilation) +
        ", S = " + std::to_string(k.stride) +
        ")\n"
        "#pragma codetta sizes(p: i32, (h + 2 * P - D * (F - 1) - 1) / S + 1: i32, (w + 2 * P - D * (F - 1) - 1) / S + "
        "1: i32)\n"
        "#pragma codetta im2col(x, filter(F, F), padding(P, P), dilation(D, D), stride(S, S), channels(8), "
        "pixels(32))\n"
        "#pragma codetta block(64) grid(ceil_div(p, 32), t)\n" +
        std::string(copying) +
        "extern \"C\" __global__ void taps(const __grid_constant__ TensorMap x, float* y, int p, int oh, int ow) {\n"
        "  __shared__ alignas(128) float box[32 * 8];\n"
        "  __shared__ unsigned long long bar;\n"
        "  const int first = blockIdx.x * 32, tap = blockIdx.y;\n"
        "  if (threadIdx.x == 0) {\n"
        "    expect(&bar, sizeof box);\n"
        "    const int w = first % ow * S - P, h = first / ow % oh * S - P, n = first / (ow * oh);\n"
        "    const unsigned short fw = tap % F * D, fh = tap / F * D;\n"
        "    asm volatile(\"cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], "
        "[%1, "
        "{%2, %3, %4, %5}], [%6], {%7, %8};\"\n"
        "                 ::\"r\"(at(box)), \"l\"(&x), \"r\"(0), \"r\"(w), \"r\"(h), \"r\"(n), \"r\"(at(&bar)), "
        "\"h\"(fw), \"h\"(fh) : \"memory\");\n"
        "  }\n"
        "  __syncthreads();\n"
        "  wait(&bar);\n"
        "  for (int i = threadIdx.x; i < 256; i += 64) {\n"
        "    if (first + i / 8 < p) y[(int64_t(tap) * p + first + i / 8) * 8 + i % 8] = box[i];\n"
        "  }\n"
        "}\n";
    SCOPED_TRACE("filter, padding, dilation, stride " + std::to_string(k.filter) + ", " + std::to_string(k.padding) +
                 ", " + std::to_string(k.dilation) + ", " + std::to_string(k.stride));
    Pair x = random(f32, {batch, height, width, channels}), y = poisoned(f32, {taps, pixels, 8});
    run(program(text, "taps", taps_source), {{"x", x.device.view()}, {"y", y.device.view()}}, {&y});
    size_t wrong = 0;
    for (int64_t tap = 0; tap < taps; ++tap) {
      for (int64_t p = 0; p < pixels; ++p) {
        const int64_t w = p % ow * k.stride - k.padding + tap % k.filter * k.dilation,
                      h = p / ow % oh * k.stride - k.padding + tap / k.filter * k.dilation, n = p / (ow * oh);
        const bool inside = w >= 0 && w < width && h >= 0 && h < height;
        for (int64_t c = 0; c < channels; ++c) {
          const float wanted = inside ? x.data()[((n * height + h) * width + w) * channels + c] : 0.0F;
          wrong += y.data()[(tap * pixels + p) * 8 + c] == wanted ? 0 : 1;
        }
      }
    }
    EXPECT_EQ(wrong, 0U) << "of " << taps * pixels * 8;
  }
}

TEST_F(DeviceUser, WhatTheCompilerSaysNamesTheLine) {
  const std::string text = "def f(x: f32[\"n\"]):\n    y = user_kernel(\"k\", x, out=\"f32[n]\")\n    return y\n";
  const std::string head = "#pragma codetta kernel(x: f32[n], out y: f32[n]) block(32) grid(1)\n";
  const auto error_of = [&](const std::string& source) {
    const auto compiled = compile(program(text, "k", head + source), cuda, {}, *context_);
    EXPECT_FALSE(compiled);
    return compiled ? std::string() : compiled.error().render();
  };
  EXPECT_NE(error_of("extern \"C\" __global__ void k(const float* x, float* y) {\n  y[0] = z;\n}\n").find("k.cu:3"),
            std::string::npos);
  EXPECT_NE(
      error_of("extern \"C\" __global__ void k(const float* x, double* y) {}\n").find("void k(const float*, float*)"),
      std::string::npos);
  EXPECT_NE(error_of("__global__ void k(const float* x, float* y) {}\n").find("linkage specification"),
            std::string::npos);
}

}  // namespace
}  // namespace codetta

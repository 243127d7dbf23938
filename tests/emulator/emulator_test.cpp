// SPDX-License-Identifier: Apache-2.0
// The emulator itself: threads that meet, what it finds when they don't, memory, and small floats.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "emulator/compile.hpp"
#include "emulator/faults.hpp"
#include "emulator/formats.hpp"
#include "emulator/object.hpp"
#include "types/convert.hpp"

namespace codetta::emulator {
namespace {

constexpr const char* kernels = R"(
#include "device/gpu/builtins.h"
using codetta::gpu::u32;
using codetta::gpu::group_barrier;

extern "C" __global__ void sums(const u32* in, u32* out) {
  __shared__ u32 held[128];
  held[threadIdx.x] = in[blockIdx.x * 128 + threadIdx.x];
  for (u32 half = 64; half >= 1; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) held[threadIdx.x] += held[threadIdx.x + half];
  }
  if (threadIdx.x == 0) out[blockIdx.x] = held[0];
}
extern "C" __global__ void sums_that_race(const u32* in, u32* out) {
  __shared__ u32 held[128];
  held[threadIdx.x] = in[blockIdx.x * 128 + threadIdx.x];
  for (u32 half = 64; half >= 1; half /= 2) {
    if (half != 32) __syncthreads();
    if (threadIdx.x < half) held[threadIdx.x] += held[threadIdx.x + half];
  }
  if (threadIdx.x == 0) out[blockIdx.x] = held[0];
}
extern "C" __global__ void order(u32* count, u32* out) {
  out[blockIdx.x + blockIdx.y * gridDim.x] = atomicAdd(count, 1);
}
extern "C" __global__ void lanes(u32* out) {
  const u32 lane = threadIdx.x % 32;
  u32 x = codetta::gpu::shuffle_xor(~0u, threadIdx.x, 5);
  if (lane < 8) x += 1000 * codetta::gpu::shuffle_xor(0xffu, lane, 3);
  else x += 100000 * __shfl_sync(0xffffff00u, lane, 9);
  __syncwarp(~0u);
  out[threadIdx.x] = x;
}
extern "C" __global__ void groups(u32* out) {
  __shared__ u32 held[128];
  const u32 group = threadIdx.x / 64, other = group * 64 + 63 - threadIdx.x % 64;
  for (u32 i = 0; i < 10 + group * 7; ++i) {  // they go on independently
    held[threadIdx.x] = threadIdx.x + i;
    group_barrier(1 + group, 64);
    out[threadIdx.x] = held[other];
    group_barrier(1 + group, 64);
  }
}
extern "C" __global__ void two_barriers(u32*) {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
extern "C" __global__ void half_a_barrier(u32*) {
  if (threadIdx.x < 16) __syncthreads();
}
extern "C" __global__ void leaves_early(u32* out) {
  if (threadIdx.x == 40) return;
  __syncthreads();
  out[threadIdx.x] = 1;
}
extern "C" __global__ void lane_missing(u32* out) {
  if (threadIdx.x != 7) out[threadIdx.x] = codetta::gpu::shuffle_xor(~0u, threadIdx.x, 1);
}
extern "C" __global__ void lane_not_named(u32* out) { out[threadIdx.x] = __shfl_sync(0xffff0000u, 1u, 16); }
extern "C" __global__ void from_outside(u32* out) {
  if (threadIdx.x < 8) out[threadIdx.x] = codetta::gpu::shuffle_xor(0xffu, threadIdx.x, 16);
}
extern "C" __global__ void different_operations(u32* out) {
  if (threadIdx.x == 3) __syncwarp(~0u);
  else out[threadIdx.x] = codetta::gpu::shuffle_xor(~0u, threadIdx.x, 1);
}
extern "C" __global__ void reads_behind(const u32* in, u32* out) { out[threadIdx.x] = in[threadIdx.x + 1]; }
extern "C" __global__ void writes_before(u32* out) { out[(int)threadIdx.x - 1] = 1; }
extern "C" __global__ void far_away(u32* out) { ((volatile u32*)0)[threadIdx.x] = 1; out[0] = 1; }
extern "C" __global__ void updates_constants(u32* out) { out[threadIdx.x] = __ldg(out + threadIdx.x) + 1; }
extern "C" __global__ void unaligned(char* out) { codetta::gpu::store_two(out + 4, 1, 2); }
extern "C" __global__ void unset(float* out) {
  __shared__ float held[64];
  if (threadIdx.x != 5) held[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = held[threadIdx.x];
}
static __device__ __attribute__((noinline)) u32 deep(u32 n, u32* out) {
  volatile u32 held[1000];
  held[n % 1000] = n;
  *out = held[(n + 1) % 1000];
  return n == 0 ? 0 : deep(n - 1, out) + held[n % 1000];
}
extern "C" __global__ void too_deep(u32* out) { out[0] = deep(100000, out); }
struct alignas(64) Wide {
  unsigned long long word[8];
};
extern "C" __global__ void wide(Wide w, u32* out) { out[threadIdx.x] = (u32)w.word[threadIdx.x]; }
extern "C" __global__ void counts(u32* count) { atomicAdd(count, 1); }
extern "C" __global__ void claims(u32* word) {
  if (!codetta::gpu::claim(word)) return;
  word[1] += 1;
  codetta::gpu::give_back(word);
}
extern "C" __global__ void divides(const u32* in, u32* out) { out[0] = 7 / in[0]; }
)";

class Emulator : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto compiler = Compiler::find();
    ASSERT_TRUE(compiler) << compiler.error().render();
    const auto object = compiler->compile(kernels, {"--gpu-architecture=sm_80"});
    ASSERT_TRUE(object) << object.error().render();
    auto loaded = Object::load(*object);
    ASSERT_TRUE(loaded) << loaded.error().render();
    the_object() = *std::move(loaded);
  }
  static Object& the_object() {
    static Object object;
    return object;
  }
  // "" or the failure.
  template <class... P>
  static std::string run(const std::string& name, Index blocks, Word threads, uint64_t seed, P*... parameters) {
    Grid grid;
    grid.blocks = blocks;
    grid.threads = {threads, 1, 1};
    grid.seed = seed;
    const void* addresses[] = {&parameters..., nullptr};
    const Kernel kernel = the_object().kernel(name);
    if (kernel.run == nullptr) return "no such kernel";
    return launch(kernel, grid, addresses).value_or("");
  }
};

constexpr Word blocks = 5;

// Wrong sums of the blocks.
int wrong_sums(const std::vector<Word>& in, const std::vector<Word>& out) {
  int wrong = 0;
  for (Word b = 0; b < blocks; ++b) {
    const auto begin = in.begin() + b * 128;
    wrong += std::accumulate(begin, begin + 128, Word{0}) == out[b] ? 0 : 1;
  }
  return wrong;
}

TEST_F(Emulator, ThreadsMeetAtBarriers) {
  std::vector<Word> in(128 * blocks);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<Word>(i * i + 7);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    std::vector<Word> out(blocks);
    EXPECT_EQ(run("sums", {blocks, 1, 1}, 128, seed, in.data(), out.data()), "");
    EXPECT_EQ(wrong_sums(in, out), 0) << "seed " << seed;
  }
}

TEST_F(Emulator, AMissingBarrierIsSeen) {
  std::vector<Word> in(128 * blocks);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<Word>(i * i + 7);
  int seen = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    std::vector<Word> out(blocks);
    EXPECT_EQ(run("sums_that_race", {blocks, 1, 1}, 128, seed, in.data(), out.data()), "");
    seen += wrong_sums(in, out) != 0 ? 1 : 0;
  }
  EXPECT_GE(seen, 8);
}

TEST_F(Emulator, EveryBlockRunsOnceInAnOrderOfTheSeed) {
  std::vector<std::vector<Word>> orders;
  for (const uint64_t seed : {0, 0, 1, 1, 2}) {
    std::vector<Word> out(12, ~0u);
    Word count = 0;
    EXPECT_EQ(run("order", {4, 3, 1}, 1, seed, &count, out.data()), "");
    orders.push_back(out);
    std::sort(out.begin(), out.end());
    for (Word i = 0; i < 12; ++i) EXPECT_EQ(out[i], i);
  }
  EXPECT_TRUE(std::is_sorted(orders[0].begin(), orders[0].end()));
  EXPECT_EQ(orders[0], orders[1]);
  EXPECT_EQ(orders[2], orders[3]);
  EXPECT_NE(orders[2], orders[4]);
  EXPECT_NE(orders[2], orders[0]);
}

TEST_F(Emulator, LanesExchangeUnderMasks) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    std::vector<Word> out(64);
    EXPECT_EQ(run("lanes", {1, 1, 1}, 64, seed, out.data()), "");
    for (Word t = 0; t < 64; ++t) {
      const Word lane = t % 32, more = lane < 8 ? 1000 * (lane ^ 3) : 900000;
      EXPECT_EQ(out[t], (t ^ 5) + more) << "thread " << t << ", seed " << seed;
    }
  }
}

TEST_F(Emulator, NamedBarriersAreIndependent) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    std::vector<Word> out(128);
    EXPECT_EQ(run("groups", {1, 1, 1}, 128, seed, out.data()), "");
    for (Word t = 0; t < 128; ++t) EXPECT_EQ(out[t], t / 64 * 64 + 63 - t % 64 + (t < 64 ? 9 : 16));
  }
}

TEST_F(Emulator, SaysWhoDoesNotMeet) {
  std::vector<Word> out(64);
  const auto text = [&](const std::string& name) { return run(name, {1, 1, 1}, 64, 3, out.data()); };
  const auto expect = [&](const std::string& name, const std::string& part) {
    const std::string said = text(name);
    EXPECT_NE(said.find(part), std::string::npos) << name << ": " << said;
  };
  expect("two_barriers", "threads of one block are at different barriers");
  expect("half_a_barrier", "threads 0-15 wait for a barrier");
  expect("half_a_barrier", "threads 16-63 have ended");
  expect("leaves_early", "threads 40 have ended");
  expect("lane_missing", "wait for the other lanes");
  expect("lane_not_named", "is none of the mask");
  expect("from_outside", "a value is taken from a lane that gives none");
  expect("different_operations", "lanes of a warp are at different operations");
  // What failed leaves nothing behind.
  EXPECT_EQ(run("lanes", {1, 1, 1}, 64, 1, out.data()), "");
}

TEST_F(Emulator, FindsAccessesOutsideOfTensors) {
  const auto expect = [&](const std::string& said, const std::string& part) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  auto* const at_end = static_cast<Word*>(allocate_guarded(64 * sizeof(Word), false));
  auto* const at_begin = static_cast<Word*>(allocate_guarded(64 * sizeof(Word), true));
  ASSERT_TRUE(at_end != nullptr && at_begin != nullptr);
  expect(run("reads_behind", {1, 1, 1}, 64, 1, at_end, at_begin), "0 bytes behind an allocation of 256 bytes");
  expect(run("writes_before", {1, 1, 1}, 64, 1, at_begin), "4 bytes before an allocation of 256 bytes");
  const std::string far_away = run("far_away", {1, 1, 1}, 64, 1, at_end);
  expect(far_away, "an access of no memory, at 0x0, by ");
  expect(far_away, "far_away+0x");  // or what it was inlined into
  expect(run("updates_constants", {1, 1, 1}, 64, 1, at_end), "memory that was read as constant was written, 4 bytes");
  EXPECT_EQ(surroundings_text(at_end), "");
  EXPECT_EQ(run("writes_before", {1, 1, 1}, 64, 1, at_end), "");
  EXPECT_EQ(surroundings_text(at_end), "a write 4 bytes before an allocation of 256");
  expect(run("unaligned", {1, 1, 1}, 32, 1, at_end), "a store that is not aligned");
  Word zero = 0;
  expect(run("divides", {1, 1, 1}, 32, 1, &zero, at_end), "a division by 0");
  expect(run("too_deep", {1, 1, 1}, 32, 1, at_end), "more stack than there is");
  free_guarded(at_end);
  free_guarded(at_begin);
}

// A driver takes a parameter from wherever it lies, also one whose type asks for more.
TEST_F(Emulator, ParametersLieAnywhere) {
  alignas(64) unsigned char memory[128] = {};
  for (const size_t offset : {0, 8, 16, 33}) {
    for (unsigned long long i = 0; i < 8; ++i) std::memcpy(memory + offset + 8 * i, &i, sizeof i);
    Word out[8] = {}, *const pointer = out;
    const void* addresses[] = {memory + offset, &pointer};
    Grid grid;
    grid.threads = {8, 1, 1};
    EXPECT_EQ(launch(the_object().kernel("wide"), grid, addresses).value_or(""), "") << offset;
    for (Word i = 0; i < 8; ++i) EXPECT_EQ(out[i], i) << offset;
  }
}

// PCIe need not have atomics: kernels update words of the device's memory only.
TEST_F(Emulator, UpdatesOfTheHostsMemoryAreRefused) {
  for (const bool of_host : {false, true}) {
    auto* const words = static_cast<Word*>(allocate_guarded(2 * sizeof(Word), true, of_host));
    ASSERT_NE(words, nullptr);
    EXPECT_EQ(is_of_host(words + 1), of_host);
    EXPECT_FALSE(is_of_host(words + 2));
    for (const std::string name : {"counts", "claims"}) {
      words[0] = words[1] = 0;
      const std::string said = run(name, {3, 1, 1}, 32, 1, words);
      EXPECT_EQ(said.find("an atomic update of the host's memory") != std::string::npos, of_host) << said;
      EXPECT_EQ(words[0], of_host || name == "claims" ? 0 : 96);
      EXPECT_EQ(words[1], of_host || name == "counts" ? 0 : 96);
    }
    free_guarded(words);
  }
}

TEST_F(Emulator, SharedMemoryBeginsAsNan) {
  for (int times = 0; times < 2; ++times) {
    std::vector<float> out(64);
    EXPECT_EQ(run("unset", {3, 1, 1}, 64, 1, out.data()), "");
    for (size_t t = 0; t < 64; ++t) EXPECT_EQ(out[t] != out[t], t == 5);
  }
}

TEST_F(Emulator, LimitsOfALaunch) {
  Grid grid;
  grid.threads = {2000, 1, 1};
  const Kernel kernel = the_object().kernel("order");
  EXPECT_EQ(launch(kernel, grid, nullptr).value_or(""), "a block of 2000 threads");
  grid.threads = {32, 1, 1};
  grid.dynamic_shared = 1 << 20;
  EXPECT_NE(launch(kernel, grid, nullptr).value_or("").find("dynamic shared memory"), std::string::npos);
}

TEST(EmulatorFormats, AreThoseOfTheLibrary) {
  const auto compare = [](auto format, DType dtype, Word codes) {
    using Format = decltype(format);
    const bool saturates = dtype_size(dtype) == 1;
    int wrong = 0;
    for (Word code = 0; code < codes; ++code) {
      const double mine = Format::widened(code), theirs = types::load_f64(&code, dtype);
      wrong += mine == theirs || (mine != mine && theirs != theirs) ? 0 : 1;
      // The number, the middle between it and the next one, and what lies beside that.
      const double next = Format::widened(code + 1), middle = (mine + next) / 2;
      for (const double x : {mine, middle, middle * (1 + 0x1p-40), middle * (1 - 0x1p-40), mine * 1e30}) {
        Word expected = 0;
        types::store_f64(&expected, dtype, x);
        const Word got = Format::narrowed(x, saturates);
        wrong += got == expected || x != x ? 0 : 1;
        if (x != x) wrong += Format::widened(got) != Format::widened(got) ? 0 : 1;
      }
    }
    EXPECT_EQ(wrong, 0) << dtype_name(dtype);
  };
  compare(Half(), DType::f16, 1u << 16);
  compare(Brain(), DType::bf16, 1u << 16);
  compare(E4m3(), DType::f8e4m3, 1u << 8);
  compare(E5m2(), DType::f8e5m2, 1u << 8);
}

}  // namespace
}  // namespace codetta::emulator

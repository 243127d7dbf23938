// SPDX-License-Identifier: Apache-2.0
// Copies between tensors that lie anyhow, against one element at a time.
#include "runtime/cpu/copy.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace codetta::runtime::cpu::test {
namespace {

// A tensor somewhere in memory of its own.
struct Placed {
  std::vector<int64_t> strides;
  int64_t first = 0, elements = 1;  // of the memory, and which of them is the one at 0, 0, ...
};

// Dims in any order from the closest on, with gaps and some backwards; `repeats`: some have one element for all.
Placed place(const std::vector<int64_t>& sizes, bool repeats, std::mt19937& random) {
  const auto pick = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (pick(2) == 0) std::reverse(order.begin(), order.end());
  if (pick(2) == 0) std::shuffle(order.begin(), order.end(), random);
  Placed placed;
  placed.strides.resize(sizes.size());
  int64_t step = pick(4) == 0 ? 2 : 1;
  for (const size_t d : order) {
    if (repeats && pick(6) == 0) continue;
    placed.strides[d] = step;
    placed.elements += step * std::max<int64_t>(sizes[d] - 1, 0);
    if (pick(6) == 0 && sizes[d] > 0) {
      placed.strides[d] = -step;
      placed.first += step * (sizes[d] - 1);
    }
    step = step * std::max<int64_t>(sizes[d], 1) + (pick(4) == 0 ? pick(5) : 0);
  }
  return placed;
}

void check(const std::vector<int64_t>& sizes, int64_t bytes, ThreadPool* pool, std::mt19937& random) {
  const Placed from = place(sizes, true, random), to = place(sizes, false, random);
  std::vector<unsigned char> source(static_cast<size_t>(from.elements * bytes));
  for (unsigned char& byte : source) byte = static_cast<unsigned char>(random());
  std::vector<unsigned char> target(static_cast<size_t>(to.elements * bytes), 0xA5), wanted = target;
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, a = from.first, b = to.first;
    for (size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) {
      a += rest % sizes[d] * from.strides[d];
      b += rest % sizes[d] * to.strides[d];
    }
    std::copy_n(source.data() + a * bytes, bytes, wanted.data() + b * bytes);
  }
  copy({source.data() + from.first * bytes, target.data() + to.first * bytes, bytes, static_cast<int>(sizes.size()),
        sizes.data(), from.strides.data(), to.strides.data()},
       pool);
  EXPECT_EQ(target, wanted) << count << " elements of " << bytes << " bytes in " << sizes.size() << " dims";
}

TEST(Copies, OfAnyShapeAndOrder) {
  const auto pool = make_thread_pool(3);
  std::mt19937 random(17);
  for (int round = 0; round < 400; ++round) {
    std::vector<int64_t> sizes(random() % 6);
    const int64_t most = sizes.size() < 3 ? 40 : 7;
    for (int64_t& size : sizes) size = static_cast<int64_t>(random() % static_cast<uint64_t>(most + 1));
    check(sizes, int64_t{1} << (random() % 4), round % 2 == 0 ? pool.get() : nullptr, random);
  }
}

TEST(Copies, LargeOnesOnSeveralThreads) {
  const auto pool = make_thread_pool(3);
  std::mt19937 random(18);
  const std::vector<std::vector<int64_t>> shapes{{300007},        {2, 150001},        {150001, 2},  {513, 517},
                                                 {3, 129, 7, 65}, {17, 3, 1, 5, 211}, {33, 1000, 9}};
  for (const auto& shape : shapes) {
    for (const int64_t bytes : {1, 2, 4, 8}) {
      for (int round = 0; round < 4; ++round) check(shape, bytes, pool.get(), random);
    }
  }
}

// Tasks are as many as there are threads, and the small is nobody else's.
TEST(Copies, SmallOnesStayOnTheCallingThread) {
  struct Counting final : ThreadPool {
    int runs = 0;
    [[nodiscard]] int size() const override { return 4; }
    void run(int tasks, void (*fn)(void*, int), void* context) override {
      ++runs;
      EXPECT_LE(tasks, 4);
      for (int i = 0; i < tasks; ++i) fn(context, i);
    }
  } pool;
  std::mt19937 random(19);
  check({100, 100}, 4, &pool, random);
  EXPECT_EQ(pool.runs, 0);
  check({200, 200}, 4, &pool, random);
  check({400000}, 2, &pool, random);
  EXPECT_EQ(pool.runs, 2);
}

}  // namespace
}  // namespace codetta::runtime::cpu::test

// SPDX-License-Identifier: Apache-2.0
// Eight threads call one library from C++, with its own threads, the caller's, and another allocator; every result has
// the bits of the first.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "digits.h"

namespace {

std::atomic<int> allocations{0}, releases{0}, runs{0};

void* allocate(void*, size_t bytes, size_t alignment) {
  ++allocations;
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
void release(void*, void* memory, size_t, size_t) {
  ++releases;
  std::free(memory);
}
void run(void*, int32_t tasks, void (*task)(void*, int32_t), void* context) {
  ++runs;
  for (int32_t i = tasks; i-- > 0;) task(context, i);
}

}  // namespace

int main() {
  constexpr int64_t rows = 700;
  std::vector<float> images(rows * 64), expected(rows * 10);
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>((i * 2654435761u >> 7) % 1000) / 997.0f;
  if (digits_classifier(images.data(), expected.data(), rows, nullptr) != 0) {
    std::fprintf(stderr, "%s\n", digits_get_last_error());
    return 1;
  }
  std::atomic<int> wrong{0};
  const auto all = [&] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 40; ++i) {
          const int64_t count = 1 + (i * 97 + t * 131) % rows;
          std::vector<float> scores(static_cast<size_t>(count) * 10 + 1, -1.0f);
          if (digits_classifier(images.data(), scores.data(), count, nullptr) != 0) ++wrong;
          if (std::memcmp(scores.data(), expected.data(), static_cast<size_t>(count) * 40) != 0) ++wrong;
          if (scores.back() != -1.0f) ++wrong;
          if (digits_classifier(nullptr, scores.data(), t + 1, nullptr) == 0) ++wrong;
          char text[32];
          std::snprintf(text, sizeof text, "f32[%d, 64]", t + 1);  // each thread reads its own error
          if (std::strstr(digits_get_last_error(), text) == nullptr) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  all();
  if (digits_set_allocator(allocate, release, nullptr) != 0 || digits_set_thread_pool(3, run, nullptr) != 0) return 1;
  all();
  if (digits_set_allocator(nullptr, nullptr, nullptr) != 0 || digits_set_thread_pool(0, nullptr, nullptr) != 0)
    return 1;
  all();
  std::printf("%d wrong; %d allocations, %d releases, %d runs of the caller's threads\n", wrong.load(),
              allocations.load(), releases.load(), runs.load());
  return wrong != 0 || allocations == 0 || allocations != releases || runs == 0;
}

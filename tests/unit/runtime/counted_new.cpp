// SPDX-License-Identifier: Apache-2.0
// Operators new that count; in a file of their own, so that no compiler sees through half of a pair.
#include "unit/runtime/counted_new.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace codetta::runtime::test {

std::atomic<int64_t> allocations{0};

}  // namespace codetta::runtime::test

namespace {

void* counted(size_t bytes, size_t alignment) {
  ++codetta::runtime::test::allocations;
  void* memory = alignment <= alignof(std::max_align_t)
                     ? std::malloc(bytes == 0 ? 1 : bytes)
                     : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return counted(bytes, 1); }
void* operator new[](size_t bytes) { return counted(bytes, 1); }
void* operator new(size_t bytes, std::align_val_t alignment) { return counted(bytes, static_cast<size_t>(alignment)); }
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

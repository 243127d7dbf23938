// SPDX-License-Identifier: Apache-2.0
// Stacks of their own for the threads of a block, and changing from one to another within a thread of the host.
#pragma once

#include <cstddef>
#include <vector>

namespace codetta::emulator {

// Where an execution stands that another one has taken over from: of a fiber, or of who runs fibers.
struct Context {
  void* stack_pointer = nullptr;
  void* lowest = nullptr;  // of its stack; null: the host's own
  size_t bytes = 0;
  void* shadow = nullptr;  // AddressSanitizer's
};

// Leaves `from` standing here and goes on where `to` stands. `ends`: nobody comes back to `from`.
void change(Context& from, Context& to, bool ends = false);
// What a fiber begins with; `host` is where it was changed to from.
void arrived(Context& host);

// Stacks with a page below each that nothing may touch. They are kept for the next blocks. Not thread safe.
class Stacks {
 public:
  static constexpr size_t stack_bytes = 192 * 1024;
  Stacks() = default;
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks();
  // At least `count` of them. False: the system has no memory for them.
  bool reserve(size_t count);
  // A context on stack `index` that calls `entry` once it is changed to; `entry` doesn't return.
  [[nodiscard]] Context start(size_t index, void (*entry)()) const;
  // The end of the stack that the address is in, or in the page below of; null: of none.
  [[nodiscard]] char* top_of(const void* address) const;
  // Whether the address is in the page below a stack.
  [[nodiscard]] bool overflows(const void* address) const;

 private:
  static constexpr size_t together = 64;
  std::vector<char*> groups_;
};

}  // namespace codetta::emulator

// SPDX-License-Identifier: Apache-2.0
#include "emulator/fibers.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#define CODETTA_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CODETTA_ADDRESS_SANITIZER 1
#endif
#endif
#ifdef CODETTA_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#define CODETTA_BY_UCONTEXT 1
#endif

namespace codetta::emulator {
namespace {

size_t page_bytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

#ifndef CODETTA_BY_UCONTEXT

// The registers that a call keeps lie on the stack of who stands.
extern "C" void codetta_emulator_change(void** from, void* to);
#ifdef __x86_64__
asm(R"(
.text
.type codetta_emulator_change, @function
codetta_emulator_change:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size codetta_emulator_change, . - codetta_emulator_change
)");
constexpr size_t frame_words = 8;  // six registers, the way back, and one that keeps the stack's alignment
constexpr size_t way_back = 6;
#else
asm(R"(
.text
.type codetta_emulator_change, @function
codetta_emulator_change:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size codetta_emulator_change, . - codetta_emulator_change
)");
constexpr size_t frame_words = 20;
constexpr size_t way_back = 11;
#endif

namespace {

void exchange_stacks(Context& from, Context& to) { codetta_emulator_change(&from.stack_pointer, to.stack_pointer); }

void* first_frame(char* lowest, size_t bytes, void (*entry)()) {
  auto* const top = reinterpret_cast<void**>(lowest + bytes);
  void** const frame = top - frame_words - 2;
  std::memset(frame, 0, (frame_words + 2) * sizeof(void*));
  frame[way_back] = reinterpret_cast<void*>(entry);
  return frame;
}

}  // namespace

#else

namespace {

// The context itself lies at the end of its stack.
void exchange_stacks(Context& from, Context& to) {
  ucontext_t here;
  from.stack_pointer = &here;
  ::swapcontext(&here, static_cast<ucontext_t*>(to.stack_pointer));
}

void* first_frame(char* lowest, size_t bytes, void (*entry)()) {
  const size_t own = (sizeof(ucontext_t) + 63) / 64 * 64;
  auto* const context = reinterpret_cast<ucontext_t*>(lowest + bytes - own);
  ::getcontext(context);
  context->uc_stack.ss_sp = lowest;
  context->uc_stack.ss_size = bytes - own;
  context->uc_link = nullptr;
  ::makecontext(context, entry, 0);
  return context;
}

}  // namespace

#endif

void change(Context& from, Context& to, bool ends) {
#ifdef CODETTA_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(ends ? nullptr : &from.shadow, to.lowest, to.bytes);
  exchange_stacks(from, to);
  __sanitizer_finish_switch_fiber(from.shadow, nullptr, nullptr);
#else
  (void)ends;
  exchange_stacks(from, to);
#endif
}

void arrived(Context& host) {
#ifdef CODETTA_ADDRESS_SANITIZER
  const void* lowest = nullptr;
  __sanitizer_finish_switch_fiber(nullptr, &lowest, &host.bytes);
  host.lowest = const_cast<void*>(lowest);
#else
  (void)host;
#endif
}

Stacks::~Stacks() {
  for (char* group : groups_) ::munmap(group, together * (stack_bytes + page_bytes()));
}

bool Stacks::reserve(size_t count) {
  const size_t page = page_bytes(), step = stack_bytes + page;
  while (groups_.size() * together < count) {
    void* const memory =
        ::mmap(nullptr, together * step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    auto* const first = static_cast<char*>(memory);
    for (size_t i = 0; i < together; ++i) ::mprotect(first + i * step, page, PROT_NONE);
    groups_.push_back(first);
  }
  return true;
}

Context Stacks::start(size_t index, void (*entry)()) const {
  const size_t page = page_bytes();
  char* const lowest = groups_[index / together] + index % together * (stack_bytes + page) + page;
  Context context;
  context.lowest = lowest;
  context.bytes = stack_bytes;
  context.stack_pointer = first_frame(lowest, stack_bytes, entry);
  return context;
}

char* Stacks::top_of(const void* address) const {
  const size_t step = stack_bytes + page_bytes();
  const auto* const at = static_cast<const char*>(address);
  for (char* group : groups_) {
    if (at >= group && at < group + together * step) return group + (static_cast<size_t>(at - group) / step + 1) * step;
  }
  return nullptr;
}

bool Stacks::overflows(const void* address) const {
  const size_t page = page_bytes(), step = stack_bytes + page;
  const auto* const at = static_cast<const char*>(address);
  for (const char* group : groups_) {
    if (at >= group && at < group + together * step) return static_cast<size_t>(at - group) % step < page;
  }
  return false;
}

}  // namespace codetta::emulator

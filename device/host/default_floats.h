// SPDX-License-Identifier: Apache-2.0
// The floating-point environment of a thread while it computes: what docs/semantics.md says holds in the default one,
// and callers may have another. Includes nothing.
#pragma once

namespace codetta::host {

// While it lives the calling thread rounds to nearest, keeps subnormals and traps nothing; then it is as the caller had
// it. Flags that were raised meanwhile stay raised. A few nanoseconds where nothing has to be changed.
class DefaultFloats {
 public:
#if defined(__x86_64__)
  DefaultFloats() : vectors_(__builtin_ia32_stmxcsr()) {
    asm volatile("fnstcw %0" : "=m"(x87_));
    if ((vectors_ & vector_control) != default_vectors)
      __builtin_ia32_ldmxcsr((vectors_ & ~vector_control) | default_vectors);
    if (x87_ != default_x87) load_x87(default_x87);
  }
  ~DefaultFloats() {
    if ((vectors_ & vector_control) != default_vectors)
      __builtin_ia32_ldmxcsr((vectors_ & vector_control) | (__builtin_ia32_stmxcsr() & ~vector_control));
    if (x87_ != default_x87) load_x87(x87_);
  }

 private:
  // Flush to zero, rounding, masks of exceptions, denormals are zeros; below are the flags.
  static constexpr unsigned vector_control = 0xFFC0, default_vectors = 0x1F80;
  static constexpr unsigned short default_x87 = 0x037F;  // 64 bits of fraction
  // A flag that is raised would trap at once where the new word traps it.
  static void load_x87(unsigned short word) { asm volatile("fnclex\n\tfldcw %0" : : "m"(word)); }
  unsigned vectors_;
  unsigned short x87_ = default_x87;
#elif defined(__aarch64__)
  DefaultFloats() {
    asm volatile("mrs %0, fpcr" : "=r"(control_));
    if (control_ != 0) asm volatile("msr fpcr, %0" : : "r"(0ul));
  }
  ~DefaultFloats() {
    if (control_ != 0) asm volatile("msr fpcr, %0" : : "r"(control_));
  }

 private:
  unsigned long control_ = 0;
#else
  DefaultFloats() {}
  ~DefaultFloats() {}

 private:
#endif
  DefaultFloats(const DefaultFloats&) = delete;
  DefaultFloats& operator=(const DefaultFloats&) = delete;
};

}  // namespace codetta::host

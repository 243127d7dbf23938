// SPDX-License-Identifier: Apache-2.0
// Linked to every test program, with --wrap for the constructor of what becomes an error. Rejections of kernels are no
// errors yet: the tests that read them record them.
#include "support/code_recorder.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "diag/diagnostic.hpp"

namespace codetta::test {

void record_code(uint16_t code) {
  static std::atomic<bool> seen[1000] = {};
  const char* const folder = std::getenv("CODETTA_CODES");
  if (folder == nullptr || code >= std::size(seen) || seen[code].exchange(true)) return;
  const std::string path = std::string(folder) + "/" + std::to_string(getpid());
  if (std::FILE* const file = std::fopen(path.c_str(), "a")) {
    std::fprintf(file, "E%04d\n", code);
    std::fclose(file);
  }
}

}  // namespace codetta::test

// The names as compilers spell them; a program that links the shared library has no use for them.
extern "C" {
using Text = std::string;
[[gnu::weak]] void
__real__ZN7codetta4diag12ErrorBuilderC1ENS0_4CodeENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(
    codetta::diag::ErrorBuilder* builder, codetta::diag::Code code, Text* headline);
void __wrap__ZN7codetta4diag12ErrorBuilderC1ENS0_4CodeENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(
    codetta::diag::ErrorBuilder* builder, codetta::diag::Code code, Text* headline) {
  if (!headline->empty()) codetta::test::record_code(static_cast<uint16_t>(code));
  __real__ZN7codetta4diag12ErrorBuilderC1ENS0_4CodeENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(builder, code,
                                                                                                         headline);
}
}

// SPDX-License-Identifier: Apache-2.0
// Ranges reach a profiler that is injected, and nobody where there is none.
#include "runtime/cuda/nvtx.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace codetta::runtime::cuda {
namespace {

TEST(Nvtx, TheInjectedProfilerIsTold) {
  const NvtxRef nvtx = Nvtx::attach(CODETTA_FAKE_PROFILER);
  ASSERT_NE(nvtx, nullptr);
  void* const library = ::dlopen(CODETTA_FAKE_PROFILER, RTLD_NOW);
  ASSERT_NE(library, nullptr);
  char* const told = reinterpret_cast<char* (*)()>(::dlsym(library, "codetta_told"))();
  told[0] = 0;
  {
    const NvtxRange outer(nvtx.get(), "outer");
    const NvtxRange inner(nvtx.get(), "inner");
  }
  EXPECT_STREQ(told, "<outer<inner>>");
  { const NvtxRange silent(nullptr, "silent"); }
  EXPECT_STREQ(told, "<outer<inner>>");
}

TEST(Nvtx, WithoutAProfilerThereAreNone) {
  EXPECT_EQ(Nvtx::attach("/nonexistent/injection.so"), nullptr);
  EXPECT_EQ(Nvtx::attach(CODETTA_FAKE_DRIVER), nullptr) << "a library without the entry point";
}

}  // namespace
}  // namespace codetta::runtime::cuda

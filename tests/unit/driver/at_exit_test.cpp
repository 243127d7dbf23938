// SPDX-License-Identifier: Apache-2.0
// A program of its own: static objects of the caller use the library while static objects are destroyed.
#include <gtest/gtest.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <cstdio>

#include "codetta/codetta.hpp"

namespace {

using namespace codetta;

// From text to results and messages, with interpreted epilogues.
bool works() {
  const auto context = Context::make({.cache_enabled = false, .no_compiler = true, .threads = 2});
  auto a = Tensor::make(f32, {20, 16}), b = Tensor::make(f32, {16, 24}), d = Tensor::make(f32, {20, 24});
  if (!context || !a || !b || !d) return false;
  for (const char* text : {"", "def e(accum):\n    D = gelu(accum) + 1.0\n    return D\n"}) {
    GemmArguments arguments{.A = *a, .B = *b, .out = d->view()};
    if (*text != '\0') {
      auto epilogue = EpilogueArguments::make(text, {});
      if (!epilogue) return false;
      arguments.epilogue = *std::move(epilogue);
    }
    Context used = *context;
    const auto kernels = find_kernels(arguments, Target::host(), {}, used);
    if (!kernels || kernels->empty() || !kernels->prepare(arguments) || !(*kernels)[0].run(arguments)) return false;
    if (d->view().as<float>()[7] != (*text == '\0' ? 0.0f : 1.0f)) return false;
    const auto verified = verify(arguments, Target::host(), VerifyOptions{.poisoned = true}, used);
    if (!verified || verified->verdict == VerifyReport::Verdict::Fail) return false;
    if (!explain(arguments, Target::host(), true, used)) return false;
  }
  const auto refused = Epilogue::parse("def e(accum):\n    D = accu\n    return D\n");
  return !refused && !refused.error().render().empty() && Target::parse("cpu:generic").has_value() &&
         !Target::parse("none:none") && Kernel().metadata().name.empty() && PackedTensor().layout().empty() &&
         !KernelList()[3].compile();
}

// Made before anything of the library, thus destroyed after it.
struct Last {
  ~Last() {
    if (!armed || works()) return;
    std::fputs("the library does not work while static objects are destroyed\n", stderr);
    _exit(1);
  }
  bool armed = false;
} last;

TEST(AtExit, StaticObjectsMayUseTheLibrary) {
#ifdef __GLIBC__
  mallopt(M_PERTURB, 0xa5);  // what is freed does not look as before
#endif
  EXPECT_TRUE(works());
  last.armed = true;
}

}  // namespace

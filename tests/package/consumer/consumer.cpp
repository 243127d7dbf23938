// SPDX-License-Identifier: Apache-2.0
// Every public header without exceptions, and the library used through Result only; the exit status says whether it
// behaved.
#include <codetta/build.hpp>
#include <codetta/codetta.hpp>
#include <codetta/contents.hpp>
#include <codetta/device.hpp>
#include <codetta/diagnose.hpp>
#include <codetta/epilogue.hpp>
#include <codetta/error.hpp>
#include <codetta/evt.hpp>
#include <codetta/fill.hpp>
#include <codetta/gemm.hpp>
#include <codetta/graph.hpp>
#include <codetta/io.hpp>
#include <codetta/kernel.hpp>
#include <codetta/math_mode.hpp>
#include <codetta/observe.hpp>
#include <codetta/program.hpp>
#include <codetta/reproducer.hpp>
#include <codetta/target.hpp>
#include <codetta/tensor.hpp>
#include <codetta/threads.hpp>
#include <codetta/trace.hpp>
#include <codetta/version.hpp>
#include <cstdio>
#include <cstring>

int main() {
  static_assert(CODETTA_HAS_EXCEPTIONS == 0);
  if (std::strcmp(codetta::version(), "0.1.0") != 0) return 1;

  float memory[6] = {};
  const codetta::Result<codetta::TensorView> good = codetta::TensorView::make(memory, codetta::f32, {2, 3});
  if (!good || good->element_count() != 6) return 2;

  const codetta::Result<codetta::TensorView> bad = codetta::TensorView::make(memory, codetta::f32, {2, -3});
  if (bad || bad.error().code() != 602 || bad.error().family() != codetta::ErrorFamily::Program) return 3;
  std::printf("%s", bad.error().render().c_str());
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Every public header without exceptions, and the library used through Result only; the exit status says whether it
// behaved.
#include <cmath>
#include <codetta/build.hpp>
#include <codetta/call_site.hpp>
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
#include <codetta/memory.hpp>
#include <codetta/numerics.hpp>
#include <codetta/observe.hpp>
#include <codetta/program.hpp>
#include <codetta/reproducer.hpp>
#include <codetta/target.hpp>
#include <codetta/tensor.hpp>
#include <codetta/threads.hpp>
#include <codetta/trace.hpp>
#include <codetta/traced.hpp>
#include <codetta/version.hpp>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

using codetta::TensorView;

constexpr int64_t m = 5, n = 7, k = 3;
constexpr const char* text =
    "def scaled(accum, alpha):\n"
    "    D = relu(alpha * accum)\n"
    "    return D\n";

bool passes(const codetta::Result<codetta::VerifyReport>& report) {
  return report && report->verdict == codetta::VerifyReport::Verdict::Pass;
}

// 0, or which step went wrong.
int gemm(codetta::Context& context) {
  std::vector<float> a(m * k), b(k * n), d(m * n), traced_d(m * n);
  const auto A = TensorView::make(a.data(), codetta::f32, {m, k}), B = TensorView::make(b.data(), codetta::f32, {k, n}),
             D = TensorView::make(d.data(), codetta::f32, {m, n}),
             E = TensorView::make(traced_d.data(), codetta::f32, {m, n});
  if (!A || !B || !D || !E) return 1;
  codetta::fill_random(*A, 1);
  codetta::fill_random(*B, 2);
  codetta::fill_poison(*D);
  codetta::fill_poison(*E);

  auto epilogue = codetta::EpilogueArguments::make(text, {{"alpha", 1.5f}});
  if (!epilogue) return 2;
  codetta::GemmArguments arguments;
  arguments.A = *A;
  arguments.B = *B;
  arguments.out = *D;
  arguments.epilogue = *std::move(epilogue);
  const auto kernels = codetta::find_kernels(arguments, codetta::Target::host(), {}, context);
  if (!kernels || kernels->empty()) return 3;
  auto execution = kernels->prepare(arguments);
  if (!execution || !execution->run()) return 4;
  if (!passes(codetta::verify(arguments, codetta::Target::host(), {.poisoned = true}, context))) return 5;

  const auto traced =
      codetta::Epilogue::trace([](codetta::EpilogueTracer& e) { e.output("D", relu(e.input("alpha") * e.accum())); });
  if (!traced) return 6;
  arguments.out = *E;
  arguments.epilogue = codetta::EpilogueArguments(*traced, {{"alpha", 1.5f}});
  const auto again = codetta::find_kernels(arguments, codetta::Target::host(), {}, context);
  if (!again || again->empty() || !(*again)[0].run(arguments)) return 7;
  if (std::memcmp(d.data(), traced_d.data(), d.size() * sizeof(float)) != 0) return 8;

  const auto packed = (*again)[0].pack(*B);
  if (packed && packed->byte_size() <= 0) return 9;
  if (!packed && packed.error().code() != 416) return 9;  // a kernel that reads B as it lies

  const auto unbound = codetta::EpilogueArguments::make(text, {});
  if (!unbound) return 10;
  arguments.epilogue = *unbound;
  const auto none = codetta::find_kernels(arguments, codetta::Target::host(), {}, context);
  return !none && none.error().code() == 208 ? 0 : 11;
}

int program(codetta::Context& context) {
  const auto parsed = codetta::Program::parse(
      "def layer(x: f32[\"rows\", 3], w: f32[3, 7]):\n"
      "    y = relu(x @ w)\n"
      "    return y\n");
  if (!parsed) return 1;
  const auto compiled = codetta::compile(*parsed, codetta::Target::host(), {}, context);
  if (!compiled) return 2;
  std::vector<float> x(m * k, 2.0f), w(k * n, 0.5f), y(m * n);
  const auto X = TensorView::make(x.data(), codetta::f32, {m, k}), W = TensorView::make(w.data(), codetta::f32, {k, n}),
             Y = TensorView::make(y.data(), codetta::f32, {m, n});
  if (!X || !W || !Y) return 3;
  codetta::fill_poison(*Y);
  const std::vector<codetta::NamedArgument> arguments = {{"x", *X}, {"w", *W}, {"y", *Y}};
  if (!compiled->run(arguments)) return 4;
  if (!passes(codetta::verify(*parsed, arguments, codetta::Target::host(), {.poisoned = true}, context))) return 5;
  for (const float value : y) {
    if (std::fabs(value - 3.0f) > 1e-5f) return 6;
  }
  return 0;
}

}  // namespace

int main() {
  static_assert(CODETTA_HAS_EXCEPTIONS == 0);
  if (std::strcmp(codetta::version(), "0.1.0") != 0) return 1;

  float memory[6] = {};
  const codetta::Result<TensorView> good = TensorView::make(memory, codetta::f32, {2, 3});
  if (!good || good->element_count() != 6) return 2;

  const codetta::Result<TensorView> bad = TensorView::make(memory, codetta::f32, {2, -3});
  if (bad || bad.error().code() != 602 || bad.error().family() != codetta::ErrorFamily::Program) return 3;
  std::printf("%s", bad.error().render().c_str());

  codetta::ContextOptions options;
  options.cache_enabled = false;
  auto context = codetta::Context::make(options);
  if (!context) return 4;
  if (const int step = gemm(*context); step != 0) return 10 + step;
  if (const int step = program(*context); step != 0) return 30 + step;
  return 0;
}

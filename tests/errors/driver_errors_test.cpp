// SPDX-License-Identifier: Apache-2.0
// The codes of the driver, each provoked through the public interface.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>

#include "codetta/codetta.hpp"
#include "support/code_recorder.hpp"

namespace codetta {
namespace {

std::string code_of(const Rejection& rejection) {
  test::record_code(rejection.code);
  return "E0" + std::to_string(rejection.code);
}

class DriverErrors : public ::testing::Test {
 protected:
  Context context(ContextOptions options = {.cache_enabled = false, .threads = 1}) {
    return Context::make(options).value();
  }

  // D = tanh(A @ B) of the given dtype.
  GemmArguments arguments(DType dtype, const char* text = "def f(accum):\n    D = tanh(accum)\n    return D\n") {
    tensors_.clear();
    const Dims shapes[] = {{m_, k_}, {k_, n_}, {m_, n_}};
    for (const Dims& shape : shapes) tensors_.push_back(Tensor::make(dtype, shape).value());
    fill_random(tensors_[0], 1);
    fill_random(tensors_[1], 2);
    GemmArguments result;
    result.A = tensors_[0];
    result.B = tensors_[1];
    result.out = tensors_[2].view();
    result.epilogue = EpilogueArguments::make(text, {}).value();
    return result;
  }
  static void expect(const Error& error, std::string_view code, std::string_view headline) {
    EXPECT_TRUE(error.message().starts_with("error[" + std::string(code) + "]")) << error.render();
    EXPECT_NE(error.render().find(headline), std::string::npos) << error.render();
    EXPECT_NE(error.render().find("help: "), std::string::npos) << error.render();
    // The shared library made it, where the linker's wrap does not reach.
    if (!HasFailure()) test::record_code(static_cast<uint16_t>(std::stoi(std::string(code.substr(1)))));
  }

  int64_t m_ = 100, n_ = 96, k_ = 64;
  std::vector<Tensor> tensors_;
};

TEST_F(DriverErrors, E0414AnotherKernelIsNeeded) {
  Context plain = context();
  const auto kernels = find_kernels(arguments(DType::f32), Target::host(), {}, plain).value();
  ASSERT_FALSE(kernels.empty());
  const auto prepared = kernels[0].prepare(arguments(DType::bf16));
  ASSERT_FALSE(prepared);
  expect(prepared.error(), "E0414", "these arguments need another kernel");
  GemmArguments other = arguments(DType::f32);
  other.math = MathMode::Tf32;
  expect(kernels[0].prepare(other).error(), "E0414", "these arguments need another kernel");
}

// With more operands and with fewer, so that the product has another place in the graph.
TEST_F(DriverErrors, E0414AnotherEpilogue) {
  Context plain = context();
  const Tensor full = Tensor::make(f32, {m_, n_}).value(), row = Tensor::make(f32, {n_}).value();
  const GemmArguments product = arguments(DType::f32);
  const auto with = [&](const char* text, std::vector<NamedArgument> named) {
    GemmArguments result = product;
    result.epilogue = EpilogueArguments::make(text, std::move(named)).value();
    return result;
  };
  const GemmArguments programs[] = {
      with("def f(accum): D = accum; return D", {}),
      with("def f(accum): D = relu(accum); return D", {}),
      with("def f(accum, C): D = accum + C; return D", {{"C", full}}),
      with("def f(accum, C): D = accum + C; return D", {{"C", row}}),
      with("def f(accum, C): D = accum + C; return D", {{"C", 2.0f}}),
      with("def f(accum, C): D = accum + C; return D", {{"C", 2}}),
      with("def f(accum, a, b, c, d): D = accum + a * b - c * d; return D",
           {{"a", full}, {"b", row}, {"c", full}, {"d", row}}),
  };
  for (const GemmArguments& one : programs) {
    const auto kernels = find_kernels(one, Target::host(), {}, plain).value();
    for (const GemmArguments& other : programs) {
      const auto prepared = kernels[0].prepare(other);
      ASSERT_EQ(prepared.has_value(), &one == &other);
      if (!prepared) expect(prepared.error(), "E0414", "these arguments need another kernel");
    }
  }
}

TEST_F(DriverErrors, APlainProductHasNoTextToPointInto) {
  Context plain = context();
  GemmArguments call = arguments(DType::f32);
  call.epilogue = {};
  EXPECT_TRUE(find_kernels(call, Target::host(), {}, plain));
  call.out = tensors_[0].view();
  const Error error = find_kernels(call, Target::host(), {}, plain).error();
  expect(error, "E0212", "D is bound as [100, 64] but its value has shape [100, 96]");
  EXPECT_EQ(error.render().find("-->"), std::string::npos) << error.render();
  call = arguments(DType::f32);
  call.epilogue = {};
  call.accumulator = DType::i32;
  const Error accumulator = find_kernels(call, Target::host(), {}, plain).error();
  EXPECT_EQ(accumulator.render().find("plain"), std::string::npos) << accumulator.render();
}

TEST_F(DriverErrors, AListWithoutKernelsSaysWhy) {
  constexpr int reductions = 65;  // a kernel holds 64
  GemmArguments call = arguments(DType::f32);
  std::string text = "def f(accum):\n", names;
  std::vector<NamedArgument> outputs;
  for (int i = 0; i < reductions; ++i) {
    const std::string name = "R" + std::to_string(i);
    text += "    " + name + " = sum(accum * " + std::to_string(i) + ".5, axis=\"row\")\n";
    names += (i == 0 ? "" : ", ") + name;
    tensors_.push_back(Tensor::make(DType::f32, {m_, 1}).value());
    outputs.push_back({name, tensors_.back().view()});
  }
  call.out.reset();
  call.epilogue = EpilogueArguments::make(text + "    return " + names + "\n", outputs).value();
  Context plain = context();
  const auto kernels = find_kernels(call, Target::host(), {}, plain).value();
  ASSERT_TRUE(kernels.empty());
  ASSERT_FALSE(kernels.rejections().empty());
  const std::string code = code_of(kernels.rejections().front());
  for (const Error& error :
       {kernels.prepare(call).error(), explain(call, Target::host(), false, plain).error(),
        html_report(call, Target::host(), nullptr, plain).error(), tune(call, Target::host(), {}, plain).error()}) {
    expect(error, code, "no kernel can do this");
    expect(error, code, "65 reductions");
  }
}

TEST_F(DriverErrors, E0503AssemblyWithoutCompilers) {
  for (const bool no_jit : {false, true}) {
    Context plain =
        Context::make(
            {.cache_enabled = false, .no_jit = no_jit, .no_compiler = !no_jit, .compiler = "/nonexistent/c++"})
            .value();
    const auto kernels = find_kernels(arguments(DType::f32), Target::host(), {}, plain).value();
    const auto assembly = kernels[0].emit(Stage::Asm);
    ASSERT_FALSE(assembly);
    expect(assembly.error(), "E0503", "switched off");
    EXPECT_TRUE(kernels[0].emit(Stage::Source));
  }
}

TEST_F(DriverErrors, E0415StageIsNotThere) {
  Context plain = context();
  const auto kernels = find_kernels(arguments(DType::f32), Target::host(), {}, plain).value();
  const auto host = kernels[0].emit(Stage::Host);
  ASSERT_FALSE(host);
  expect(host.error(), "E0415", "a CPU kernel has no host code of its own");
  EXPECT_NE(host.error().render().find("help: ask for ast, graph, plan, memory, source, asm or manifest\n"),
            std::string::npos)
      << host.error().render();
}

// What the help of a refused stage names is not refused for the same reason.
TEST_F(DriverErrors, E0415NamesStagesThatAreThere) {
  const std::pair<std::string, Stage> named[] = {
      {"ast", Stage::Ast},       {"graph", Stage::Graph},       {"plan", Stage::Plan},    {"memory", Stage::Memory},
      {"source", Stage::Source}, {"asm", Stage::Asm},           {"ptx", Stage::Ptx},      {"sass", Stage::Sass},
      {"host", Stage::Host},     {"manifest", Stage::Manifest}, {"python", Stage::Python}};
  Context plain = context();
  for (const char* target : {"cpu", "cuda:sm_90a", "hip:gfx942", "metal:apple9"}) {
    const auto kernels = find_kernels(arguments(DType::f32), Target::parse(target).value(), {}, plain).value();
    std::set<Stage> refused, advised;
    for (const auto& [name, stage] : named) {
      const auto text = kernels[0].emit(stage);
      if (text || text.error().code() != 415) continue;
      refused.insert(stage);
      const std::string shown = text.error().render();
      const std::string help = shown.substr(shown.find("help: ask for "));
      for (const auto& [word, advice] : named) {
        for (const char* end : {",", " or", "\n"}) {
          if (help.find(" " + word + end) != std::string::npos) advised.insert(advice);
        }
      }
    }
    EXPECT_TRUE(refused.contains(Stage::Host)) << target;
    EXPECT_EQ(advised.size() + refused.size(), std::size(named)) << target;
    for (const Stage stage : refused) EXPECT_FALSE(advised.contains(stage)) << target;
  }
}

TEST_F(DriverErrors, E0416InPlaceKernelsPackNothing) {
  Context plain = context();
  const GemmArguments call = arguments(DType::f32);
  DiscoveryOptions in_place;
  in_place.filter = [](const KernelMetadata& kernel) { return kernel.family == "in_place"; };
  const auto kernels = find_kernels(call, Target::host(), in_place, plain).value();
  ASSERT_FALSE(kernels.empty());
  const auto packed = kernels[0].pack(call.B);
  ASSERT_FALSE(packed);
  expect(packed.error(), "E0416", "this kernel reads B where it lies");
}

TEST_F(DriverErrors, E0417AndE0418AreRejections) {
  Context plain = context();
  const GemmArguments call = arguments(DType::f32);
  const auto all = find_kernels(call, Target::host(), {}, plain).value();
  ASSERT_GT(all.size(), 1U);
  const auto none =
      find_kernels(call, Target::host(), {.filter = [](const KernelMetadata&) { return false; }}, plain).value();
  EXPECT_TRUE(none.empty());
  const auto refused = std::count_if(none.rejections().begin(), none.rejections().end(),
                                     [](const Rejection& r) { return code_of(r) == "E0417"; });
  EXPECT_EQ(static_cast<size_t>(refused), all.size());
  EXPECT_EQ(none.prepare(call).error().diagnostics()[0].help, "let the filter keep one of them");
  const auto one = find_kernels(call, Target::host(), {.max_candidates = 1}, plain).value();
  ASSERT_EQ(one.size(), 1U);
  const auto ranked = std::find_if(one.rejections().begin(), one.rejections().end(),
                                   [](const Rejection& r) { return code_of(r) == "E0418"; });
  ASSERT_NE(ranked, one.rejections().end());
  EXPECT_EQ(ranked->text, std::to_string(all.size() - 1) + " more candidates rank behind the 1 that were asked for");
}

TEST_F(DriverErrors, E0419TooManyReductions) {
  Context plain = context();
  const auto rejections_of = [&](int reductions) {
    std::string text = "def f(accum):\n", names;
    std::vector<NamedArgument> bound;
    std::vector<Tensor> sums;
    for (int i = 0; i < reductions; ++i) {
      const std::string name = "s" + std::to_string(i);
      text += "    " + name + " = sum(accum * " + std::to_string(i + 1) + ".0, axis=\"row\")\n";
      names += (i == 0 ? "" : ", ") + name;
      sums.push_back(Tensor::make(DType::f32, {m_, 1}).value());
      bound.push_back({name, sums.back().view()});
    }
    GemmArguments call = arguments(DType::f32);
    call.out.reset();
    call.epilogue = EpilogueArguments::make(text + "    return " + names + "\n", bound).value();
    const auto kernels = find_kernels(call, Target::host(), {}, plain).value();
    if (!kernels.empty()) {
      EXPECT_TRUE(kernels[0].run(call));
    }
    return std::pair(kernels.empty(), kernels.rejections());
  };
  EXPECT_FALSE(rejections_of(64).first);
  const auto [none, rejections] = rejections_of(65);
  EXPECT_TRUE(none);
  ASSERT_FALSE(rejections.empty());
  for (const Rejection& rejection : rejections) {
    if (rejection.kernel == "cpu_packed") {
      EXPECT_EQ(code_of(rejection), "E0419") << rejection.text;
      EXPECT_TRUE(rejection.text.starts_with("the epilogue has 65 reductions in ")) << rejection.text;
    }
  }
}

TEST_F(DriverErrors, E0419TooManyOperations) {
  Context plain = context({.cache_enabled = false, .no_compiler = true, .threads = 1});
  const auto kernels_for = [&](int steps) {
    std::string text = "def f(accum):\n    v0 = accum * 1.5\n";
    for (int i = 1; i < steps; ++i) text += "    v" + std::to_string(i) + " = v" + std::to_string(i - 1) + " * accum\n";
    text += "    D = relu(v" + std::to_string(steps - 1) + ")\n    return D\n";
    return find_kernels(arguments(f32, text.c_str()), Target::host(), {}, plain).value();
  };
  EXPECT_FALSE(kernels_for(16000).empty());
  const KernelList none = kernels_for(16400);
  EXPECT_TRUE(none.empty());
  ASSERT_FALSE(none.rejections().empty());
  EXPECT_TRUE(std::any_of(none.rejections().begin(), none.rejections().end(), [](const Rejection& r) {
    return code_of(r) == "E0419" && r.text.find("operations, and a kernel holds 16384") != std::string::npos;
  }));
}

TEST_F(DriverErrors, E0608ObjectsThatHoldNothing) {
  Context plain = context();
  const GemmArguments call = arguments(DType::f32);
  Kernel kernel;
  Execution execution;
  PackedTensor packed;
  for (const Error& error : {kernel.prepare(call).error(), kernel.run(call).error(), kernel.pack(call.B).error(),
                             kernel.emit(Stage::Source).error(), kernel.source_path().error()})
    expect(error, "E0608", "the kernel holds nothing");
  EXPECT_EQ(kernel.metadata().name, "");
  expect(KernelList()[0].run(call).error(), "E0608", "the kernel holds nothing");
  for (const Error& error : {execution.run().error(), execution.set_workspace(nullptr, 0).error()})
    expect(error, "E0608", "the execution holds nothing");
  EXPECT_EQ(execution.workspace_size(), 0);
  EXPECT_EQ(execution.compile_seconds(), 0);
  EXPECT_FALSE(execution.interpreted());
  EXPECT_EQ(packed.byte_size(), 0);
  EXPECT_EQ(packed.layout() + packed.serialize(), "");
  GemmArguments with_nothing = call;
  with_nothing.packed_B = &packed;
  expect(find_kernels(with_nothing, Target::host(), {}, plain).error(), "E0608", "the packed B holds nothing");
  const auto kernels = find_kernels(call, Target::host(), {}, plain).value();
  expect(kernels[0].prepare(with_nothing).error(), "E0608", "the packed B holds nothing");
}

TEST_F(DriverErrors, E0607NoSuchElementType) {
  float memory[4] = {};
  for (const auto& made : {TensorView::make(memory, static_cast<DType>(77), {2}),
                           TensorView::make(memory, static_cast<DType>(dtype_count), {2}, {1})}) {
    ASSERT_FALSE(made);
    expect(made.error(), "E0607", "does not exist");
  }
  expect(Tensor::make(static_cast<DType>(255), {2}).error(), "E0607", "element type number 255 does not exist");
}

TEST_F(DriverErrors, E0213ReadOnlyMemoryIsNoOutput) {
  Context plain = context();
  GemmArguments call = arguments(DType::f32);
  const auto kernels = find_kernels(call, Target::host(), {}, plain).value();
  const void* memory = tensors_[2].data();
  call.out = TensorView::make(memory, DType::f32, {m_, n_}).value();
  const auto none = find_kernels(call, Target::host(), {}, plain);
  ASSERT_FALSE(none);
  expect(none.error(), "E0213", "output D is bound to read-only memory");
  const auto prepared = kernels[0].prepare(call);
  ASSERT_FALSE(prepared);
  expect(prepared.error(), "E0213", "output D is bound to read-only memory");
  call = arguments(DType::f32);
  call.A = call.A.as_read_only();
  EXPECT_TRUE(kernels[0].prepare(call));
}

TEST_F(DriverErrors, E0703ThreadsWithoutEnd) {
  for (const int threads : {1000000, 4097, -1}) {
    const auto made = Context::make({.cache_enabled = false, .threads = threads});
    ASSERT_FALSE(made) << threads;
    expect(made.error(), "E0703", std::to_string(threads) + " threads are too ");
  }
}

TEST_F(DriverErrors, E0703NoPathHasANulByte) {
  const std::string path("/tmp/a\0b", 8);
  std::string ContextOptions::*const paths[] = {
      &ContextOptions::cache_dir, &ContextOptions::compiler, &ContextOptions::cuda_home,   &ContextOptions::cuda_driver,
      &ContextOptions::nvrtc,     &ContextOptions::cublaslt, &ContextOptions::hip_runtime, &ContextOptions::hiprtc};
  for (const auto member : paths) {
    ContextOptions options;
    options.cache_enabled = false;
    options.*member = path;
    const auto made = Context::make(options);
    ASSERT_FALSE(made);
    expect(made.error(), "E0703", "has a NUL byte\nnote: it is byte 7 of 8");
  }
}

TEST_F(DriverErrors, E0210ArgumentsOfAProgramAreGivenOnce) {
  Context plain = context();
  const auto program =
      Program::parse("def p(x: f32[100, 64], w: f32[64, 96]):\n    y = x @ w\n    return y\n", "p.py").value();
  const auto compiled = compile(program, Target::host(), {}, plain).value();
  (void)arguments(DType::f32);
  std::vector<NamedArgument> bound{{"x", tensors_[0].view()}, {"w", tensors_[1].view()}, {"y", tensors_[2].view()}};
  EXPECT_TRUE(compiled.prepare(bound));
  bound.push_back({"x", tensors_[0].view()});
  const auto twice = compiled.prepare(bound);
  ASSERT_FALSE(twice);
  expect(twice.error(), "E0210", "argument x is provided twice");
}

TEST_F(DriverErrors, ProgramsKnowTheirShapesAndHints) {
  Context plain = context();
  const auto program =
      Program::parse(
          "def p(x: f32[\"b\", 6], w: f32[6, \"n\"]):\n    h = x @ w\n    gate, up = split(h, 2, dim=-1)\n"
          "    y = relu(gate) * up\n    z = sum(h, dim=-1)\n    return y, z\n",
          "p.py")
          .value();
  const Tensor x = Tensor::make(f32, {5, 6}).value(), w = Tensor::make(f32, {6, 8}).value();
  const auto shapes = program.shapes({{"x", x.view()}, {"w", w.view()}}).value();
  ASSERT_EQ(shapes.outputs.size(), 2U);
  EXPECT_EQ(shapes.outputs[0].shape, (Dims{5, 4}));
  EXPECT_EQ(shapes.outputs[1].shape, (Dims{5, 1}));
  EXPECT_EQ(shapes.symbols, (std::vector<std::pair<std::string, int64_t>>{{"b", 5}, {"n", 8}}));
  expect(program.shapes({{"x", x.view()}}).error(), "E0208", "p.py:1:");
  expect(program.shapes({{"x", x.view()}, {"w", w.view()}, {"v", w.view()}}).error(), "E0209",
         "no parameter or output v");
  expect(program.shapes({{"x", w.view()}, {"w", w.view()}}).error(), "E0221", "");

  const auto plain_program =
      Program::parse("def p(x: f32[\"b\", 6], w: f32[6, \"n\"]):\n    y = x @ w\n    return y\n", "p.py").value();
  const auto hinted = [&](std::vector<std::pair<std::string, int64_t>> hints) {
    return compile(plain_program, Target::host(), hints, plain);
  };
  EXPECT_TRUE(hinted({{"b", 5}, {"n", 8}}));
  expect(hinted({{"batch", 5}}).error(), "E0209", "the program has no size batch");
  expect(hinted({{"b", 5}, {"n", 8}, {"b", 5}}).error(), "E0210", "as 5 both times");
  EXPECT_TRUE(hinted({{"b", 5}, {"b", 6}}));
  std::vector<std::pair<std::string, int64_t>> many;
  for (int64_t size = 1; size <= 6; ++size) many.insert(many.end(), {{"b", size}, {"n", size}});
  expect(hinted(many).error(), "E0703", "more than 16 combinations");
  const auto explained = explain(plain_program, Target::host(), {{"b", 5}, {"b", 6}}, false, plain);
  expect(explained.error(), "E0210", "give each size one value");
  expect(hinted({{"b", -1}}).error(), "E0602", "the hint for size b is -1");
  const auto compiled = hinted({}).value();
  const Tensor y = Tensor::make(f32, {5, 8}).value();
  std::vector<NamedArgument> bound{{"x", x.view()}, {"w", w.view()}};
  EXPECT_EQ(compiled.shapes(bound).value().outputs[0].shape, (Dims{5, 8}));
  const auto missing = compiled.prepare(bound);
  ASSERT_FALSE(missing);
  expect(missing.error(), "E0208", "p.py:2:");
  bound.push_back({"y", y.view()});
  EXPECT_TRUE(compiled.prepare(bound));
  bound.push_back({"extra", y.view()});
  const auto extra = compiled.prepare(bound);
  ASSERT_FALSE(extra);
  expect(extra.error(), "E0209", "no parameter or output extra");
}

TEST_F(DriverErrors, E0211TwoViewsOfD) {
  Context plain = context();
  GemmArguments call = arguments(f32);
  std::vector<float> memory(static_cast<size_t>(m_ * n_ + 4));
  const auto view = [&](size_t first) { return TensorView::make(&memory[first], f32, {m_, n_}).value(); };
  call.out = view(0);
  call.epilogue = EpilogueArguments::make("def f(accum): D = accum; return D", {{"D", view(4)}}).value();
  const Error error = find_kernels(call, Target::host(), {}, plain).error();
  expect(error, "E0211", "out and the bound D are different tensors");
  expect(error, "E0211", "D is f32[100, 96] with strides [96, 1] and begins 16 bytes behind it");
  call.epilogue = EpilogueArguments::make("def f(accum): D = accum; return D", {{"D", view(0)}}).value();
  EXPECT_TRUE(find_kernels(call, Target::host(), {}, plain));
}

TEST_F(DriverErrors, HintsAndTrialsOfLibraries) {
  Context plain = context();
  const std::vector<Program> two = {
      Program::parse("def p(x: f32[\"b\", 6], w: f32[6, 8]):\n    y = x @ w\n    return y\n", "p.py").value(),
      Program::parse("def q(x: f32[\"batch\", 6], w: f32[6, 8]):\n    y = x @ w\n    return y\n", "q.py").value()};
  BuildOptions options;
  options.output = "/tmp/libtwo.so";
  options.size_hints = {{"batch", 3}, {"b", 4}};
  EXPECT_TRUE(host_text(two, Target::host(), options, plain));
  options.size_hints = {{"bach", 3}};
  for (const char* target : {"cpu", "metal", "cuda:sm_80"}) {
    const Error error = host_text(two, Target::parse(target).value(), options, plain).error();
    expect(error, "E0209", "no program has a size bach");
    expect(error, "E0209", "did you mean batch?");
  }
  options.size_hints = {{"b", 3}, {"b", 3}};
  expect(host_text(two, Target::host(), options, plain).error(), "E0210", "the size b is hinted at twice");
  options.size_hints = {{"b", 3}, {"b", 4}};
  EXPECT_TRUE(host_text(two, Target::host(), options, plain));
  expect(host_text(two, Target::parse("metal").value(), options, plain).error(), "E0210", "give each size one value");
  options.size_hints = {{"b", -3}};
  expect(host_text(two, Target::host(), options, plain).error(), "E0602", "the hint for size b is -3");
  options.size_hints = {};
  for (const char* target : {"cpu", "metal", "cuda:sm_80"}) {
    for (const int programs : {-1, 6}) {
      options.programs_by_size = programs;
      expect(host_text(two, Target::parse(target).value(), options, plain).error(), "E0703",
             std::to_string(programs) + " programs by size are asked for");
    }
  }
  options.programs_by_size = 2;
  expect(host_text(two, Target::parse("metal").value(), options, plain).error(), "E0440",
         "libraries for Metal have one program of a function");
  options.programs_by_size = 0;
  options.tune_seconds = 1;
  options.trial_seconds = 0;
  expect(build(two, Target::host(), options, plain).error(), "E0703", "0 seconds are no time for a run");
  options.trial_seconds = 60;
  // Outside of loops and inside of them.
  for (const char* text :
       {"def p(x: f32[\"b\", 6], w: f32[6, 6]):\n    y = call_extern(\"twice\", x @ w, out=\"f32[b, 6]\")\n"
        "    return y\n",
        "def more(i, y):\n    return i < 3\n"
        "def turn(i, y):\n    z = call_extern(\"twice\", y, out=\"f32[b, 6]\")\n    return i + 1, z\n"
        "def p(x: f32[\"b\", 6], w: f32[6, 6]):\n    i, y = while_loop(more, turn, 0, x @ w)\n"
        "    return y\n"}) {
    const Error error = build({Program::parse(text, "p.py").value()}, Target::host(), options, plain).error();
    expect(error, "E0616", "external function twice is not provided");
    expect(error, "E0616", "tuning runs p, which calls it");
    expect(error, "E0616", "build it without `tune_seconds`");
  }
}

// The first run of each of eight candidates at most, in a process of its own, and the first one here are fast.
TEST_F(DriverErrors, E0618NamesWhatTheTextCallsTheIndices) {
  Context plain = context();
  const auto program = Program::parse(
                           "def p(x: f32['n', 8], i: i32['m']):\n    j = i * 2\n    y = take(x, j)\n"
                           "    z = relu(y)\n    return z\n",
                           "p.py")
                           .value();
  const CompiledProgram compiled = compile(program, Target::host(), {}, plain).value();
  const Tensor x = Tensor::make(DType::f32, {4, 8}).value(), i = Tensor::make(DType::i32, {3}).value(),
               z = Tensor::make(DType::f32, {3, 8}).value();
  i.view().as<int32_t>()[2] = 5;
  const auto ran = compiled.run({{"x", x}, {"i", i}, {"z", z}});
  ASSERT_FALSE(ran);
  expect(ran.error(), "E0618", "index 10 is out of range for the size 4");
  expect(ran.error(), "E0618", "it stands at [2] of j");
  expect(ran.error(), "E0618", "p.py:2:9");
  const auto direct =
      Program::parse("def p(x: f32['n', 8], i: i32['m']):\n    z = take(x, i)\n    return z\n", "p.py").value();
  const auto given = compile(direct, Target::host(), {}, plain).value().run({{"x", x}, {"i", i}, {"z", z}});
  ASSERT_FALSE(given);
  expect(given.error(), "E0618", "it stands at [2] of i");
  expect(given.error(), "E0618", "p.py:1:");
  const auto inside =
      Program::parse(
          "def doubled(x, i):\n    j = i * 2\n    return take(x, j)\ndef plain(x, i):\n    return take(x, i)\n"
          "def p(x: f32['n', 8], i: i32['m'], c: f32):\n    z = cond(c > 0.0, doubled, plain, x, i)\n    return z\n",
          "p.py")
          .value();
  const auto branch =
      compile(inside, Target::host(), {}, plain).value().run({{"x", x}, {"i", i}, {"c", 1.0F}, {"z", z}});
  ASSERT_FALSE(branch);
  expect(branch.error(), "E0618", "it stands at [2] of j");
  expect(branch.error(), "E0618", "p.py:2:9");
  // Sizes that contradict each other because a tensor has another rank.
  const Tensor flat = Tensor::make(DType::f32, {24}).value();
  const auto other = compiled.run({{"x", x}, {"i", i}, {"z", flat}});
  ASSERT_FALSE(other);
  expect(other.error(), "E0610", "z is f32[24], of rank 1; the program takes rank 2");
}

TEST_F(DriverErrors, E0543OutputsAreFilesOfTheirOwn) {
  const auto folder = std::filesystem::temp_directory_path() / ("codetta_places_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string here = folder.string();
  const Tensor w = Tensor::make(DType::f32, {4, 4}).value();
  ASSERT_TRUE(write_safetensors(here + "/w.so", {{"w", w.view()}}));
  const auto before = std::filesystem::file_size(folder / "w.so");
  std::filesystem::create_symlink("/dev/null", folder / "null.so");
  const std::vector<Program> programs = {
      Program::parse("def f(x: f32['n', 4], w: f32[4, 4]):\n    y = x @ w\n    return y\n").value()};
  Context plain = context();
  BuildOptions how;
  how.output = here + "/w.so";
  how.weights = here + "/../" + folder.filename().string() + "/w.so";
  auto made = build(programs, Target::host(), how, plain);
  ASSERT_FALSE(made);
  expect(made.error(), "E0543", "which is read");
  how.weights.clear();
  how.output = here + "/null.so";
  made = build(programs, Target::host(), how, plain);
  ASSERT_FALSE(made);
  expect(made.error(), "E0543", "a device");
  EXPECT_FALSE(std::filesystem::exists(folder / "null.h"));
  how.output = here + "/l.so";
  how.header = here + "/./l.so";
  made = build(programs, Target::host(), how, plain);
  ASSERT_FALSE(made);
  expect(made.error(), "E0543", "would be one file");
  // The caller's own refusal ends it, and is told all three.
  how.header.clear();
  std::vector<std::string> asked;
  how.before_writing = [&](const std::vector<std::pair<std::string, std::string>>& files, bool next) -> Result<void> {
    EXPECT_FALSE(next);
    for (const auto& [what, path] : files) asked.push_back(path);
    Diagnostic refusal;
    refusal.code = 543;
    refusal.headline = "not there";
    return Error(std::move(refusal));
  };
  made = build(programs, Target::host(), how, plain);
  ASSERT_FALSE(made);
  EXPECT_EQ(asked, (std::vector<std::string>{here + "/l.so", here + "/l.h", here + "/l.json"}));
  EXPECT_FALSE(std::filesystem::exists(folder / "l.h"));
  EXPECT_EQ(std::filesystem::file_size(folder / "w.so"), before);
  std::filesystem::remove_all(folder);
}

TEST_F(DriverErrors, ATunedKernelThatIsSlowLater) {
  Context plain = context();
  const char* const text =
      "def p(x: f32[4, 6], w: f32[6, 6]):\n    s = user_kernel(\"slow\", x @ w, out=\"f32[4, 6]\")\n    y = s * 2.0\n"
      "    return y\n";
  const char* const kernel =
      "#include <unistd.h>\n"
      "static int runs = 0;\n"
      "void slow(Tensor<const float, 2> x, Tensor<float, 2> y) {\n"
      "  if (runs++ >= 8) usleep(1500000);\n"
      "  for (int64_t i = 0; i < 24; ++i) y(i / 6, i % 6) = x(i / 6, i % 6);\n"
      "}\n";
  BuildOptions options;
  options.output = "/tmp/libslow.so";
  options.tune_seconds = 0.1;
  options.trial_seconds = 1;
  const auto program = Program::parse(text, "p.py").value().with_kernels({{"slow", kernel}});
  const Error error = build({*program}, Target::host(), options, plain).error();
  expect(error, "E0651", "a run of p takes longer than 1 s");
  expect(error, "E0651", "tuning ran it once on data of the sizes that it is tuned for");
}

TEST_F(DriverErrors, VerifyNeedsWhatWasOverwritten) {
  Context plain = context();
  GemmArguments call = arguments(f32);
  call.epilogue = EpilogueArguments::make("def f(accum, C):\n    D = accum + C\n    return D\n",
                                          {{"C", tensors_[2].view()}, {"D", tensors_[2].view()}})
                      .value();
  call.out.reset();
  fill_random(tensors_[2], 3);
  const Tensor former = Tensor::make(f32, {m_, n_}).value();
  std::copy_n(static_cast<const float*>(tensors_[2].data()), m_ * n_, static_cast<float*>(former.data()));
  ASSERT_TRUE(find_kernels(call, Target::host(), {}, plain).value()[0].run(call));
  expect(verify(call, {}, Target::host(), 1, plain).error(), "E0208", "the former contents of C are not given");
  expect(verify(call, {{"E", former.view()}}, Target::host(), 1, plain).error(), "E0209", "no operand of that name");
  expect(verify(call, {{"C", former.view()}, {"C", former.view()}}, Target::host(), 1, plain).error(), "E0210",
         "former contents of 'C' are given twice");
  EXPECT_EQ(verify(call, {{"C", former.view()}}, Target::host(), 1, plain).value().verdict,
            VerifyReport::Verdict::Pass);
}

// Of small integers one result alone is right, to the last bit, in every type that holds it.
TEST_F(DriverErrors, IntegersOfDataAreExact) {
  Context plain = context();
  for (const DType type : {f32, f16, bf16, f8e4m3, f8e5m2}) {
    Tensor a(type, {48, 96}), b(type, {96, 40}), d(f32, {48, 40}), s(f32, {1, 1});
    fill_random(a, 5, Distribution::Integers);
    fill_random(b, 6, Distribution::Integers);
    const GemmArguments call{
        .A = a,
        .B = b,
        .out = d.view(),
        .epilogue =
            EpilogueArguments("def f(accum):\n    D = accum * 0.5\n    s = sum(relu(accum) - accum)\n    return D, s\n",
                              {{"D", d.view()}, {"s", s.view()}})};
    ASSERT_TRUE(find_kernels(call, Target::host(), {}, plain).value()[0].run(call));
    const auto right = verify(call, {}, Target::host(), 1, plain).value();
    EXPECT_EQ(right.verdict, VerifyReport::Verdict::Pass) << right.text;
    EXPECT_EQ(right.outputs[0].max_error, 0);
    EXPECT_EQ(right.outputs[1].max_error, 0);
    float& sum = *s.view().as<float>();
    sum = std::nextafter(sum, 0.0f);
    const auto wrong = verify(call, {}, Target::host(), 1, plain).value();
    EXPECT_EQ(wrong.outputs[0].wrong, 0);
    EXPECT_EQ(wrong.outputs[1].wrong, 1) << wrong.text;
  }
  Tensor bytes(u8, {1000}), signed_bytes(i8, {1000});
  fill_random(bytes, 1, Distribution::Integers);
  fill_random(signed_bytes, 1, Distribution::Integers);
  const auto* low = signed_bytes.view().as<int8_t>();
  EXPECT_LE(*std::max_element(bytes.view().as<uint8_t>(), bytes.view().as<uint8_t>() + 1000), 4);
  EXPECT_EQ(*std::min_element(low, low + 1000), -4);
  EXPECT_EQ(*std::max_element(low, low + 1000), 4);
}

TEST_F(DriverErrors, ZerosThatMustBe) {
  Context plain = context();
  k_ = 0;
  GemmArguments call = arguments(f32, "def f(accum):\n    D = accum\n    return D\n");
  ASSERT_TRUE(find_kernels(call, Target::host(), {}, plain).value()[0].run(call));
  EXPECT_EQ(verify(call, {}, Target::host(), 1, plain).value().verdict, VerifyReport::Verdict::Pass);
  k_ = 64;
  call = arguments(f32, "def f(accum):\n    D = minimum(accum * accum, 0.0)\n    return D\n");
  ASSERT_TRUE(find_kernels(call, Target::host(), {}, plain).value()[0].run(call));
  const auto mistrusted = verify(call, {}, Target::host(), 1, plain).value();
  EXPECT_EQ(mistrusted.verdict, VerifyReport::Verdict::Mistrusted);
  EXPECT_NE(mistrusted.text.find("must be 0, more than 90 %"), std::string::npos) << mistrusted.text;
  VerifyOptions options;
  options.poisoned = true;
  EXPECT_EQ(verify(call, Target::host(), options, plain).value().verdict, VerifyReport::Verdict::Pass);
}

TEST_F(DriverErrors, OperandsMayBeCalledLikeFactors) {
  Context plain = context();
  for (const char* name : {"A", "B"}) {
    GemmArguments call = arguments(f32);
    const Tensor other = Tensor::make(f32, {m_, n_}).value();
    fill_random(other, 4);
    call.epilogue = EpilogueArguments::make(
                        std::string("def f(accum, ") + name + "):\n    D = accum * " + name + "\n    return D\n",
                        {{name, other.view()}})
                        .value();
    ASSERT_TRUE(find_kernels(call, Target::host(), {}, plain).value()[0].run(call));
    const auto report = verify(call, {}, Target::host(), 1, plain);
    ASSERT_TRUE(report) << report.error().render();
    EXPECT_EQ(report->verdict, VerifyReport::Verdict::Pass) << report->text;
  }
}

TEST_F(DriverErrors, E0703OptionsWithoutMeaning) {
  for (const double seconds : {0.0, -1.0, 1e9}) {
    const auto made = Context::make({.cache_enabled = false, .compile_timeout_seconds = seconds});
    ASSERT_FALSE(made) << seconds;
    expect(made.error(), "E0703", "seconds are no time to compile in");
  }
  const auto shrunk = Context::make({.cache_bytes = -1});
  ASSERT_FALSE(shrunk);
  expect(shrunk.error(), "E0703", "a cache of -1 bytes cannot be");
  Context plain = context();
  TuneOptions options;
  options.budget_seconds = -1;
  expect(tune(arguments(f32), Target::host(), options, plain).error(), "E0703", "-1 seconds are no time to tune in");
  options = {};
  options.max_candidates = 0;
  expect(tune(arguments(f32), Target::host(), options, plain).error(), "E0703", "0 candidates are none to tune");
}

TEST_F(DriverErrors, E0505TheCompilerHasATimeLimit) {
  Context hasty = context({.cache_enabled = false, .compile_timeout_seconds = 0.001, .threads = 1});
  const GemmArguments call = arguments(f32);
  const auto prepared = find_kernels(call, Target::host(), {}, hasty).value()[0].prepare(call);
  ASSERT_FALSE(prepared);
  expect(prepared.error(), "E0505", "did not finish");
}

TEST_F(DriverErrors, E0501CompilingNeedsACompiler) {
  Context without = context({.cache_enabled = false, .no_compiler = true, .threads = 1});
  const auto kernels = find_kernels(arguments(f32), Target::host(), {}, without).value();
  expect(kernels[0].compile().error(), "E0501", "no C++ compiler may be used");
  EXPECT_TRUE(kernels[0].prepare(arguments(f32)).value().interpreted());
}

TEST_F(DriverErrors, ListsCanBeTheCallersOwn) {
  Context plain = context();
  const auto all = find_kernels(arguments(f32), Target::host(), {}, plain).value();
  ASSERT_GT(all.size(), 1U);
  const KernelList turned({all[1], all[0]}, all.rejections());
  size_t chosen = 9;
  EXPECT_TRUE(turned.prepare(arguments(f32), &chosen));
  EXPECT_EQ(chosen, 0U);
  EXPECT_EQ(turned[0].metadata().name, all[1].metadata().name);
}

TEST(Words, NearestIsNeverTheSame) {
  EXPECT_EQ(nearest_word("gem", {"gemm", "emit"}), "gemm");
  EXPECT_EQ(nearest_word("gemm", {"gemm", "gems"}), "");
  EXPECT_EQ(nearest_word("explain", {"gemm"}), "");
  EXPECT_EQ(displayable("a\x1b[31m"), "a\\x1b[31m");
}

TEST_F(DriverErrors, E0510TheCallerEndsCompilers) {
  std::atomic<bool> cancel{true};
  Context cancelled = context({.cache_enabled = false, .threads = 1, .cancel = &cancel});
  const GemmArguments call = arguments(DType::f32);
  const auto kernels = find_kernels(call, Target::host(), {}, cancelled).value();
  const auto prepared = kernels[0].prepare(call);
  ASSERT_FALSE(prepared);
  expect(prepared.error(), "E0510", "was cancelled");
  cancel = false;
  EXPECT_TRUE(kernels[0].prepare(call));
}

TEST_F(DriverErrors, E0503CompilingIsSwitchedOff) {
  Context strict = context({.cache_enabled = false, .no_jit = true, .threads = 1});
  const GemmArguments call = arguments(DType::f32);
  const auto kernels = find_kernels(call, Target::host(), {}, strict).value();
  const auto prepared = kernels[0].prepare(call);
  ASSERT_FALSE(prepared);
  expect(prepared.error(), "E0503", "compiling at run time is switched off");
}

TEST_F(DriverErrors, E0511CacheIsOff) {
  Context plain = context();
  const auto cleared = cache_clear(plain);
  ASSERT_FALSE(cleared);
  expect(cleared.error(), "E0511", "there is no cache to work on");
  const auto kernels = find_kernels(arguments(DType::f32), Target::host(), {}, plain).value();
  const auto path = kernels[0].source_path();
  ASSERT_FALSE(path);
  expect(path.error(), "E0511", "the emitted source has no place to lie: the cache is off");
}

TEST_F(DriverErrors, E0612PackedBytesAreChecked) {
  Context plain = context();
  const GemmArguments call = arguments(DType::f32);
  DiscoveryOptions packing;
  packing.filter = [](const KernelMetadata& kernel) { return kernel.family == "packed"; };
  const auto kernels = find_kernels(call, Target::host(), packing, plain).value();
  ASSERT_FALSE(kernels.empty());
  const std::string bytes = kernels[0].pack(call.B).value().serialize();
  ASSERT_TRUE(PackedTensor::deserialize(bytes));
  for (const size_t length : {size_t{0}, size_t{1}, size_t{63}, bytes.size() / 2, bytes.size() - 1}) {
    const auto cut = PackedTensor::deserialize(bytes.substr(0, length));
    ASSERT_FALSE(cut) << length;
    expect(cut.error(), "E0612", "packed weights are damaged");
  }
  for (size_t at = 0; at < bytes.size(); at += 97) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    EXPECT_FALSE(PackedTensor::deserialize(changed)) << at;
  }
}

TEST_F(DriverErrors, E0702UnknownDebugSwitch) {
  const auto made = Context::make({.cache_enabled = false, .debug = "dump:grph"});
  ASSERT_FALSE(made);
  expect(made.error(), "E0702", "");
  EXPECT_NE(made.error().render().find("did you mean"), std::string::npos) << made.error().render();
}

}  // namespace
}  // namespace codetta

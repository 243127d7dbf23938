// SPDX-License-Identifier: Apache-2.0
// Kernels of the user's that hand a result over element by element: what follows runs inside of them, against the
// oracle; what cannot follow, and why; declarations that are none.
#include <cstring>
#include <sstream>
#include <tuple>

#include "support/slice.hpp"
#include "unit/driver/user_program.hpp"

namespace codetta::test {
namespace {

// twice(x) = 2 * x, exactly.
Result<void> twice(std::span<const TensorView> in, std::span<const TensorView> out) {
  const auto size = static_cast<int64_t>(dtype_size(in[0].dtype()));
  for (size_t o = 0; o < out.size(); ++o) {
    for (int64_t i = 0; i < in[0].element_count(); ++i) {
      auto* to = static_cast<std::byte*>(out[o].data()) + i * size;
      const auto* from = static_cast<const std::byte*>(in[0].data()) + i * size;
      if (types::is_bool(in[0].dtype())) {
        std::memcpy(to, from, 1);
      } else if (types::is_float(in[0].dtype())) {
        types::store_f64(to, in[0].dtype(), 2 * types::load_f64(from, in[0].dtype()));
      } else {
        types::store_i64(to, in[0].dtype(), 2 * types::load_i64(from, in[0].dtype()));
      }
    }
  }
  return {};
}

class ProgramHook : public UserProgram {
 protected:
  ProgramHook() { meaning_.functions["twice"] = twice; }
  static Program parse(const std::string& text, const std::string& source, const std::string& name = "twice",
                       UserKernel::Language language = UserKernel::Language::cpp) {
    return UserProgram::parse(text, {{name, source, language}});
  }
  // Over random data; so many launches.
  void fused(const std::string& text, const std::string& source, const std::vector<ProgramInput>& inputs,
             size_t count = 1) {
    const ProgramOutcome outcome = run_checked(parse(text, source), text, inputs, context_, meaning_);
    EXPECT_TRUE(outcome.checked) << text;
    EXPECT_EQ(launches(outcome.plan), count) << text << outcome.plan;
  }
  // A line of what explains the program.
  void expect_told(const Program& program, const std::string& code, const std::string& part,
                   const Target& target = Target::host()) {
    const auto told = explain(program, target, {}, false, context_);
    ASSERT_TRUE(told) << told.error().render();
    std::istringstream lines(*told);
    bool found = false;
    for (std::string line; std::getline(lines, line);)
      found = found || (line.find(code) != std::string::npos && line.find(part) != std::string::npos);
    EXPECT_TRUE(found) << code << ", " << part << "\n" << *told;
  }
  static size_t launches(const std::string& plan) {
    size_t count = 0;
    for (size_t at = plan.find("  launch "); at != std::string::npos; at = plan.find("  launch ", at + 1)) ++count;
    return count;
  }

  oracle::OracleOptions meaning_;
};

const std::string rows =
    "void twice(Tensor<const float, 2> x, Hook<float, 2> y) {\n"
    "  for (int64_t c = y.size(1); c-- > 0;)\n"
    "    for (int64_t r = 0; r < y.size(0); ++r) y.store(r, c, 2 * x(r, c));\n}\n";

TEST_F(ProgramHook, OperandsOfEveryShape) {
  const std::string text =
      "def f(x: f32[\"m\", \"n\"], row: f32[\"n\"], column: bf16[\"m\", 1], other: f16[\"m\", \"n\"], scale: f32, one: "
      "f32[()]):\n"
      "    s = user_kernel(\"twice\", x, out=\"f32[m, n]\")\n"
      "    y = maximum(s * scale + row, 0.0) * column + where(other > 0.0, other, one)\n    return y\n";
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{5, 19}, {1, 1}, {33, 16}, {2, 67}, {0, 5}, {4, 0}}) {
    fused(text, rows,
          {random_input("x", f32, {m, n}, 1), random_input("row", f32, {n}, 2), random_input("column", bf16, {m, 1}, 3),
           random_input("other", f16, {m, n}, 4), number_input("scale", 0.75), random_input("one", f32, {}, 5)});
  }
}

TEST_F(ProgramHook, SeveralOutputsAndTheResult) {
  fused(
      "def f(x: f32[\"m\", 24], bias: f32[24]):\n    s = user_kernel(\"twice\", x, out=\"f32[m, 24]\")\n"
      "    y = relu(s + bias)\n    z = cast(y * s, bf16)\n    t = transpose(y)\n    return s, y, z, t\n",
      rows, {random_input("x", f32, {7, 24}, 1), random_input("bias", f32, {24}, 2)});
}

TEST_F(ProgramHook, NothingFollows) {
  fused("def f(x: f32[\"m\", 24]):\n    s = user_kernel(\"twice\", x, out=\"f32[m, 24]\")\n    return s\n", rows,
        {random_input("x", f32, {7, 24}, 1)});
}

// The places in [m, n] that elements of [m * n] have are not known by divisions: it is the other way around.
TEST_F(ProgramHook, ReshapedOverSymbolicSizes) {
  const std::string text =
      "def f(x: f32[\"m\", \"n\"], b: f32[\"k\"]):\n    s = user_kernel(\"twice\", x, out=\"f32[m, n]\")\n"
      "    y = reshape(s, (m * n,)) * 3.0\n    z = tanh(b)\n    return y, z\n";
  std::string plain = rows;
  for (const auto& [hook, tensor] :
       {std::pair{"Hook<float, 2>", "Tensor<float, 2>"}, {"y.store(r, c, ", "(y(r, c) = "}})
    plain.replace(plain.find(hook), std::string_view(hook).size(), tensor);
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{5, 19}, {1, 1}, {1, 7}, {33, 16}, {0, 5}, {4, 0}}) {
    for (const std::string& source : {rows, plain})
      fused(text, source, {random_input("x", f32, {m, n}, 1), random_input("b", f32, {m * n}, 2)}, 3);
  }
}

TEST_F(ProgramHook, IndicesAndDropout) {
  fused(
      "def f(x: f32[\"m\", 9], p: f32, seed: i64):\n    s = user_kernel(\"twice\", x, out=\"f32[m, 9]\")\n"
      "    y = dropout(s, p, seed) + cast(arange(9), f32)\n    return y\n",
      rows, {random_input("x", f32, {6, 9}, 1), number_input("p", 0.5), number_input("seed", int64_t{7})});
}

TEST_F(ProgramHook, AnyRank) {
  const std::string one =
      "void twice(Tensor<const float, 1> x, Hook<float, 1> y) {\n"
      "  for (int64_t i = 0; i < x.size(0); ++i) y.store(i, 2 * x(i));\n}\n";
  fused(
      "def f(x: f32[\"n\"], other: f32[\"n\"]):\n    s = user_kernel(\"twice\", x, out=\"f32[n]\")\n"
      "    y = s * s + other\n    return y\n",
      one, {random_input("x", f32, {13}, 1), random_input("other", f32, {13}, 2)});
  const std::string four =
      "void twice(Tensor<const float, 4> x, Hook<float, 4> y) {\n"
      "  for (int64_t b = 0; b < x.size(0); ++b)\n    for (int64_t h = 0; h < x.size(1); ++h)\n"
      "      for (int64_t r = 0; r < x.size(2); ++r)\n        for (int64_t c = 0; c < x.size(3); ++c)\n"
      "          y.store(b, h, r, c, 2 * x(b, h, r, c));\n}\n";
  fused(
      "def f(x: f32[\"b\", 3, \"m\", 5], mask: f32[\"b\", 1, 1, 5], scale: f32[3, 1, 1]):\n"
      "    s = user_kernel(\"twice\", x, out=\"f32[b, 3, m, 5]\")\n    y = s * scale + mask\n    return y\n",
      four,
      {random_input("x", f32, {2, 3, 4, 5}, 1), random_input("mask", f32, {2, 1, 1, 5}, 2),
       random_input("scale", f32, {3, 1, 1}, 3)});
}

TEST_F(ProgramHook, EveryElementType) {
  const std::pair<DType, const char*> types[] = {
      {f32, "float"},    {f64, "double"},   {bf16, "bfloat16"}, {f16, "float16"}, {i8, "int8_t"},
      {i16, "int16_t"},  {i32, "int32_t"},  {i64, "int64_t"},   {u8, "uint8_t"},  {u16, "uint16_t"},
      {u32, "uint32_t"}, {u64, "uint64_t"}, {boolean, "bool"}};
  uint64_t which = 0;
  for (const auto& [dtype, name] : types) {
    if (!test::commit_takes(which++, 3)) continue;
    const bool flag = dtype == boolean;
    const std::string type(dtype_name(dtype)), cpp(name);
    const std::string value = flag ? "x(r, c)" : "static_cast<" + cpp + ">(x(r, c) + x(r, c))";
    const std::string source = "void twice(Tensor<const " + cpp + ", 2> x, Hook<" + cpp + ", 2> y) {\n  " + cpp +
                               " run[37];\n  for (int64_t r = 0; r < x.size(0); ++r) {\n"
                               "    for (int64_t c = 0; c < x.size(1); ++c) run[c] = " +
                               value + ";\n    y.store(r, 0, run[0]);\n    y.store_run(r, 1, run + 1, 36);\n  }\n}\n";
    const std::string text =
        "def f(x: " + type + "[\"m\", 37], w: " + type + "[37]):\n    s = user_kernel(\"twice\", x, out=\"" + type +
        "[m, 37]\")\n    y = " + (flag ? "s & w" : "s + w") +
        "\n    z = " + (flag ? "where(s, 2.0, 3.0)" : "cast(s, f32) * 0.5") + "\n    return y, z\n";
    fused(text, source,
          {index_input("x", dtype, {3, 37}, flag ? 2 : 9, 1), index_input("w", dtype, {37}, flag ? 2 : 9, 2)});
  }
  // Of 8-bit floats there are the bits.
  const std::string bits =
      "void twice(Tensor<const float8_e4m3, 2> x, Hook<float8_e4m3, 2> y) {\n"
      "  for (int64_t r = 0; r < x.size(0); ++r)\n    for (int64_t c = 0; c < x.size(1); ++c) y.store(r, c, x(r, "
      "c));\n}\n";
  meaning_.functions["twice"] = [](std::span<const TensorView> in, std::span<const TensorView> out) -> Result<void> {
    std::memcpy(out[0].data(), in[0].data(), static_cast<size_t>(in[0].element_count()));
    return {};
  };
  fused(
      "def f(x: f8e4m3[\"m\", 37], k: f8e5m2):\n    s = user_kernel(\"twice\", x, out=\"f8e4m3[m, 37]\")\n"
      "    y = cast(s, f32) * k\n    return y\n",
      bits, {random_input("x", f8e4m3, {3, 37}, 1), number_input("k", 1.5)});
}

// One of two results is handed over: what needs the other one as well is a kernel behind it.
TEST_F(ProgramHook, OneOfTwoResults) {
  const std::string source =
      "void twice(Tensor<const float, 2> x, Tensor<float, 2> plain, Hook<float, 2> y) {\n"
      "  for (int64_t r = 0; r < x.size(0); ++r)\n    for (int64_t c = 0; c < x.size(1); ++c) {\n"
      "      plain(r, c) = 2 * x(r, c);\n      y.store(r, c, 2 * x(r, c));\n    }\n}\n";
  const std::string call =
      "def f(x: f32[\"m\", 6], b: f32[6]):\n    p, s = user_kernel(\"twice\", x, out=(\"f32[m, 6]\", \"f32[m, 6]\"))\n";
  const std::vector<ProgramInput> inputs{random_input("x", f32, {5, 6}, 1), random_input("b", f32, {6}, 2)};
  fused(call + "    y = exp(s) + b\n    return p, y\n", source, inputs);
  // The hook's elements go nowhere.
  fused(call + "    y = exp(p) + b\n    return y\n", source, inputs, 2);
  const std::string both = call + "    y = exp(s) + b\n    z = y * p\n    return z\n";
  const ProgramOutcome outcome = run_checked(parse(both, source), both, inputs, context_, meaning_);
  EXPECT_TRUE(outcome.checked);
  EXPECT_EQ(launches(outcome.plan), 2U) << outcome.plan;
}

// What needs more than one element is cut off, with its reason.
TEST_F(ProgramHook, WhatCannotFollow) {
  const struct {
    const char *line, *code;
  } cases[] = {{"    y = s / sum(s, dim=1)\n", "E0305"},
               {"    a, b = split(s, 2, dim=1)\n    y = a * b\n", "E0302"},
               {"    y = concat(s, s, dim=1)\n", "E0307"},
               {"    y = s + take(s, arange(6), dim=1)\n", "E0301"},
               {"    y = s + big\n", "E0301"},
               {"    y = s[:, 1:] + 1.0\n", "E0301"},
               {"    y = s + cast(arange(6 + m)[m:], f32)\n", "E0303"}};
  for (const auto& one : cases) {
    const std::string text =
        "def f(x: f32[\"m\", 6], big: f32[3, \"m\", 6]):\n    s = user_kernel(\"twice\", x, out=\"f32[m, 6]\")\n    e "
        "= exp(s)\n" +
        std::string(one.line) + "    g = big * 2.0\n    return y, e, g\n";
    const Program program = parse(text, rows);
    const ProgramOutcome outcome = run_checked(
        program, text, {random_input("x", f32, {5, 6}, 1), random_input("big", f32, {3, 5, 6}, 2)}, context_, meaning_);
    EXPECT_TRUE(outcome.checked) << text;
    EXPECT_GT(launches(outcome.plan), 1U) << text << outcome.plan;
    const auto told = explain(program, Target::host(), {}, false, context_);
    ASSERT_TRUE(told);
    EXPECT_NE(told->find(one.code), std::string::npos) << text << *told;
  }
}

// Dims of symbolic sizes that are merged have no place at an element; sizes that no tensor has cannot be told: what
// follows is behind the kernel then.
TEST_F(ProgramHook, PlacesAndSizesThatSymbolsDecide) {
  const std::string merged =
      "def f(x: f32[\"m\", \"n\"]):\n    s = user_kernel(\"twice\", x, out=\"f32[m, n]\")\n"
      "    y = reshape(s * 3.0, (m * n,))\n    return y\n";
  fused(merged, rows, {random_input("x", f32, {5, 6}, 1)}, 2);
  expect_told(parse(merged, rows), "E0303", "symbolic sizes");
  const std::string pairs =
      "def f(x: f32[\"m\", 8]):\n    s = user_kernel(\"twice\", x, out=\"f32[2*m, 4]\")\n"
      "    y = reshape(exp(s), (8 * m,))\n    return y\n";
  const std::string source =
      "void twice(Tensor<const float, 2> x, Hook<float, 2> y) {\n  for (int64_t r = 0; r < y.size(0); ++r)\n"
      "    for (int64_t c = 0; c < 4; ++c) y.store(r, c, 2 * x(r / 2, r % 2 * 4 + c));\n}\n";
  fused(pairs, source, {random_input("x", f32, {5, 8}, 1)}, 2);
  expect_told(parse(pairs, source), "E0303", "no tensor of the kernel has all sizes of f32[2*m, 4]");
}

// A launch on a GPU passes so many addresses and strides; on a CPU there is no such limit.
TEST_F(ProgramHook, MoreThanALaunchPasses) {
  std::string parameters, sum;
  std::vector<ProgramInput> inputs{random_input("x", f32, {3, 6}, 1)};
  for (int i = 0; i < 42; ++i) {
    const std::string name = "a" + std::to_string(i);
    parameters += ", " + name + ": f32[\"m\", 6]";
    sum += " + " + name;
    inputs.push_back(random_input(name, f32, {3, 6}, static_cast<uint64_t>(i) + 2));
  }
  const std::string text = "def f(x: f32[\"m\", 6]" + parameters +
                           "):\n    s = user_kernel(\"twice\", x, out=\"f32[m, 6]\")\n    y = s" + sum +
                           "\n    return y\n";
  fused(text, rows, inputs);
  const std::string cuda =
      "#pragma codetta kernel(x: f32[m, n], out y: f32[m, n]) hook(y) block(32) grid(m)\n"
      "extern \"C\" __global__ void twice(const float* x, Hook<float, 2> y) {}\n";
  expect_told(parse(text, cuda, "twice", UserKernel::Language::cuda), "E0419",
              "a kernel of the user's passes up to 128", Target::parse("cuda:sm_90a").value());
}

// Leading dims are counted as one: only the first may have a size that is not known.
TEST_F(ProgramHook, LeadingDimsThatCannotBeToldApart) {
  const Error error = compile_error(
      parse("def f(x: f32[\"b\", \"h\", \"m\", 6]):\n    s = user_kernel(\"twice\", x, out=\"f32[b, h, m, 6]\")\n"
            "    y = s + 1.0\n    return y\n",
            "void twice(Tensor<const float, 4> x, Hook<float, 4> y) {}\n"));
  EXPECT_EQ(error.code(), 303);
  EXPECT_NE(error.render().find("the leading dims of what this kernel hands over"), std::string::npos)
      << error.render();
}

// Numbers of every type, beside those that the call takes.
TEST_F(ProgramHook, NumbersOfEveryType) {
  uint64_t which = 0;
  for (const DType dtype : {f32, f64, bf16, f16, i8, i16, i32, i64, u8, u16, u32, u64}) {
    if (!test::commit_takes(which++, 3)) continue;
    const std::string type(dtype_name(dtype));
    const ArgumentValue value = types::is_float(dtype) ? ArgumentValue(1.5) : ArgumentValue(int64_t{3});
    fused("def f(x: f32[\"m\", 5], k: " + type +
              "):\n    s = user_kernel(\"twice\", x, out=\"f32[m, 5]\")\n"
              "    y = s * cast(k, f32)\n    z = where(s > 0.25, k, k + k)\n    return y, z\n",
          rows, {random_input("x", f32, {4, 5}, 1), number_input("k", value)});
  }
  fused(
      "def f(x: f32[\"m\", 5], k: bool):\n    s = user_kernel(\"twice\", x, out=\"f32[m, 5]\")\n"
      "    y = where(k, s, 0.5)\n    z = (s > 0.25) & k\n    return y, z\n",
      rows, {random_input("x", f32, {4, 5}, 1), number_input("k", true)});
}

// What the emitted text calls its own things is free.
TEST_F(ProgramHook, NamesOfTheKernel) {
  for (const std::string name :
       {"out", "operands", "scalars", "args", "epilogue", "value", "tensor", "status", "hook_store"}) {
    std::string source = rows;
    source.replace(source.find("twice"), 5, name);
    meaning_.functions[name] = twice;
    const std::string text = "def f(x: f32[\"m\", 5], k: f32):\n    s = user_kernel(\"" + name +
                             "\", x, out=\"f32[m, 5]\")\n    y = s * k\n    return y\n";
    EXPECT_TRUE(run_checked(parse(text, source, name), text,
                            {random_input("x", f32, {4, 5}, 1), number_input("k", 0.5)}, context_, meaning_)
                    .checked)
        << name;
  }
}

// The kernel reads its operands as it likes: nothing of what follows lies over them.
TEST_F(ProgramHook, OperandsThatFollowAsWell) {
  const std::string source =
      "void back(Tensor<const float, 2> x, Hook<float, 2> y) {\n  const int64_t m = x.size(0), n = x.size(1);\n"
      "  for (int64_t r = 0; r < m; ++r)\n    for (int64_t c = 0; c < n; ++c) y.store(r, c, x(m - 1 - r, n - 1 - "
      "c));\n}\n";
  meaning_.functions["back"] = [](std::span<const TensorView> in, std::span<const TensorView> out) -> Result<void> {
    const int64_t count = in[0].element_count();
    for (int64_t i = 0; i < count; ++i) out[0].as<float>()[i] = in[0].as<float>()[count - 1 - i];
    return {};
  };
  const std::string text =
      "def f(x: f32[\"m\", 8], w: f32[8, 8]):\n    t = x @ w\n    s = user_kernel(\"back\", t, out=\"f32[m, 8]\")\n"
      "    y = s + t\n    u = user_kernel(\"back\", y, out=\"f32[m, 8]\")\n    z = relu(u) * y\n    v = z @ w\n"
      "    n = rms_norm(u + z)\n    return v, n\n";
  EXPECT_TRUE(run_checked(parse(text, source, "back"), text,
                          {index_input("x", f32, {5, 8}, 5, 1), index_input("w", f32, {8, 8}, 3, 2)}, context_,
                          meaning_)
                  .checked);
}

TEST_F(ProgramHook, InALoop) {
  const std::string text =
      "def more(i, x):\n    return i < 3\n\ndef step(i, x):\n    s = user_kernel(\"twice\", x, out=\"f32[m, 6]\")\n"
      "    return i + 1, s * 0.25 + 1.0\n\ndef f(x: f32[\"m\", 6]):\n    i, y = while_loop(more, step, 0, x)\n    "
      "return y\n";
  const ProgramOutcome outcome =
      run_checked(parse(text, rows), text, {random_input("x", f32, {5, 6}, 1)}, context_, meaning_);
  EXPECT_TRUE(outcome.checked);
}

// A result that nobody reads is stored as others are, and a check is given it.
TEST_F(ProgramHook, VerifiedWithoutAReader) {
  const std::string loops =
      "  for (int64_t r = 0; r < x.size(0); ++r)\n    for (int64_t c = 0; c < x.size(1); ++c) {\n"
      "      plain(r, c) = 2 * x(r, c);\n      y.store(r, c, 3 * x(r, c));\n    }\n}\n";
  const std::pair<const char*, std::string> cases[] = {
      {"p, s", "void twice(Tensor<const float, 2> x, Tensor<float, 2> plain, Hook<float, 2> y) {\n" + loops},
      {"s, p", "void twice(Tensor<const float, 2> x, Hook<float, 2> y, Tensor<float, 2> plain) {\n" + loops}};
  for (const auto& [results, source] : cases) {
    const Program program = parse("def f(x: f32[\"m\", 6]):\n    " + std::string(results) +
                                      " = user_kernel(\"twice\", x, out=(\"f32[m, 6]\", \"f32[m, 6]\"))\n"
                                      "    y = exp(p)\n    return y\n",
                                  source)
                                .with_hooked_results();
    const ProgramInput x = random_input("x", f32, {5, 6}, 1);
    Tensor y = Tensor::make(f32, {5, 6}).value();
    const std::vector<NamedArgument> arguments{{"x", x.view()}, {"y", y.view()}};
    const auto compiled = compile(program, Target::host(), {}, context_);
    ASSERT_TRUE(compiled) << compiled.error().render();
    KeptResults kept;
    RunOptions watched;
    watched.observer = keep_results(kept);
    ASSERT_TRUE(compiled->run(arguments, {}, watched));
    ASSERT_EQ(kept.calls.size(), 1U);
    ASSERT_EQ(kept.calls[0].results.size(), 2U);
    const size_t hooked = results[0] == 's' ? 0 : 1;
    for (int64_t i = 0; i < 30; ++i) {
      ASSERT_EQ(kept.calls[0].results[hooked].as<float>()[i], 3 * x.view().as<float>()[i]) << i;
      ASSERT_EQ(kept.calls[0].results[1 - hooked].as<float>()[i], 2 * x.view().as<float>()[i]) << i;
    }
    VerifyOptions options;
    options.given = kept.calls;
    const auto report = verify(program, arguments, Target::host(), options, context_);
    ASSERT_TRUE(report) << report.error().render();
    EXPECT_EQ(report->verdict, VerifyReport::Verdict::Pass) << report->text;
  }
}

// Leading dims are counted as one, with the stride of the last of them, whose size may be 1.
TEST_F(ProgramHook, AnUnreadResultOfFourDims) {
  const Program program = parse(
      "def f(x: f32[\"b\", \"h\", \"m\", 3]):\n"
      "    p, s = user_kernel(\"twice\", x, out=(\"f32[m]\", \"f32[b, h, m, 3]\"))\n    return p\n",
      "void twice(Tensor<const float, 4> x, Tensor<float, 1> p, Hook<float, 4> y) {\n"
      "  for (int64_t r = 0; r < p.size(0); ++r) p(r) = 1;\n  for (int64_t b = 0; b < x.size(0); ++b)\n"
      "    for (int64_t h = 0; h < x.size(1); ++h)\n      for (int64_t r = 0; r < x.size(2); ++r)\n"
      "        for (int64_t c = 0; c < 3; ++c) y.store(b, h, r, c, 2 * x(b, h, r, c));\n}\n");
  const auto compiled = compile(program, Target::host(), {}, context_);
  ASSERT_TRUE(compiled) << compiled.error().render();
  for (const auto& [b, h, m] : {std::tuple(4, 1, 2), {2, 3, 1}, {1, 5, 4}}) {
    const ProgramInput x = random_input("x", f32, {b, h, m, 3}, 1);
    Tensor p = Tensor::make(f32, {m}).value();
    KeptResults kept;
    RunOptions watched;
    watched.observer = keep_results(kept);
    ASSERT_TRUE(compiled->run(std::vector<NamedArgument>{{"x", x.view()}, {"p", p.view()}}, {}, watched));
    ASSERT_EQ(kept.calls.size(), 1U);
    for (int64_t i = 0; i < x.view().element_count(); ++i)
      ASSERT_EQ(kept.calls[0].results[1].as<float>()[i], 2 * x.view().as<float>()[i]) << b << h << m << " at " << i;
  }
}

// A check has to see what was handed over: it is stored as well, and what follows is fused all the same.
TEST_F(ProgramHook, VerifiedWithKeptResults) {
  const Program program = parse(
      "def f(x: f32[\"m\", 24], bias: f32[24]):\n    s = user_kernel(\"twice\", x, out=\"f32[m, 24]\")\n"
      "    y = relu(s + bias)\n    return y\n",
      rows);
  const ProgramInput x = random_input("x", f32, {5, 24}, 1), bias = random_input("bias", f32, {24}, 2);
  for (const bool keeps : {false, true}) {
    const Program checked = keeps ? program.with_hooked_results() : program;
    const auto compiled = compile(checked, Target::host(), {}, context_);
    ASSERT_TRUE(compiled) << compiled.error().render();
    Tensor y = Tensor::make(f32, {5, 24}).value();
    const std::vector<NamedArgument> arguments{{"x", x.view()}, {"bias", bias.view()}, {"y", y.view()}};
    KeptResults kept;
    RunOptions watched;
    watched.observer = keep_results(kept);
    ASSERT_TRUE(compiled->run(arguments, {}, watched));
    ASSERT_EQ(kept.calls.size(), keeps ? 1U : 0U);
    VerifyOptions options;
    options.given = kept.calls;
    const auto report = verify(checked, arguments, Target::host(), options, context_);
    if (!keeps) {
      EXPECT_EQ(report.error().code(), 311);
      continue;
    }
    ASSERT_TRUE(report) << report.error().render();
    EXPECT_EQ(report->verdict, VerifyReport::Verdict::Pass) << report->text;
    y.view().as<float>()[3] += 1;
    EXPECT_EQ(verify(checked, arguments, Target::host(), options, context_)->verdict, VerifyReport::Verdict::Fail);
  }
}

TEST_F(ProgramHook, Explained) {
  const Program program = parse(
      "def f(x: f32[\"m\", 24], bias: f32[24]):\n    s = user_kernel(\"twice\", x, out=\"f32[m, 24]\")\n"
      "    y = relu(s + bias)\n    return y\n",
      rows);
  const auto text = explain(program, Target::host(), {}, false, context_);
  ASSERT_TRUE(text);
  EXPECT_NE(text->find("element by element: add, relu"), std::string::npos) << *text;
  EXPECT_NE(text->find("p.py:3"), std::string::npos) << *text;
  EXPECT_NE(text->find("kernel 0, "), std::string::npos) << *text;
  EXPECT_EQ(text->find("kernel 1, "), std::string::npos) << *text;
}

TEST_F(ProgramHook, WhatIsNoHook) {
  const std::string text =
      "def f(x: f32[\"m\", 24]):\n    s = user_kernel(\"twice\", x, out=\"f32[m, 24]\")\n    y = s + 1.0\n    return "
      "y\n";
  const std::string body = " {}\n";
  const struct {
    std::string source, says;
    uint16_t code;
  } cases[] = {
      {"void twice(Hook<float, 2> x, Tensor<float, 2> y)" + body, "parameter 1 is a hook", 231},
      {"void twice(Hook<float, 2> x, Hook<float, 2> y)" + body, "parameters 1 and 2 are hooks", 231},
      {"void twice(Tensor<const float, 2> x, int, Hook<float, 2> y)" + body, "parameter 3 is a hook", 231},
      {"void twice(Tensor<const float, 2> x, Hook<double, 2> y)" + body,
       "error[E0231]: the launch of kernel twice is not described as it has to be\n"
       "  --> twice.cpp:1:38\n"
       "1 | void twice(Tensor<const float, 2> x, Hook<double, 2> y) {}\n"
       "  |                                      ^^^^^^^^^^^^^^^\n"
       "note: result 0 of the call is f32[m, 24], and this takes 2 dims of double\nhelp: write Hook<float, 2>\n",
       231},
      {"void twice(Tensor<const float, 2> x, const codetta::Hook<codetta::bfloat16, 2>& y)" + body, "Hook<float, 2>",
       231},
      {"void twice(Tensor<const float, 2> x, Hook<float, 3> y)" + body, "this takes 3 dims of float", 231},
      {"using H = Hook<float, 2>;\nvoid twice(Tensor<const float, 2> x, H y)" + body, "twice.cpp:1:11", 231},
      {"using H = codetta::Hook<float, 2>;\nvoid twice(Tensor<const float, 2> x, H& y)" + body, "twice takes one as H",
       231},
      {"typedef Hook<float, 2> H;\nvoid twice(Tensor<const float, 2> x, H y)" + body, "twice takes one as H", 231},
      {"#define H Hook<float, 2>\nvoid twice(Tensor<const float, 2> x, H y)" + body, "twice takes one as H", 231},
      {"using T = double;\nvoid twice(Tensor<const float, 2> x, Hook<T, 2> y)" + body, "twice", 313},
      {"void twice(Tensor<const float, 2> x, Hook<float, 2> y) { y.store(1, 2.0f); }\n", "an index a dim", 313},
      {"void twice(Tensor<const float, 2> x, Hook<float, 2> y) { y(0, 0) = 1; }\n", "twice", 313},
      {"void twice(Tensor<const float, 2> x, Hook<float, 2> y) { y.store_run(0, 0, x.data); }\n", "and their number",
       313},
      {"void twice(Tensor<const float, 2> x, Hook<float, 2> y) { const double v = 1; y.store_run(0, 0, &v, 1); }\n",
       "double", 313},
  };
  for (const auto& one : cases) {
    const Error error = compile_error(parse(text, one.source));
    EXPECT_EQ(error.code(), one.code) << one.source << error.render();
    EXPECT_NE(error.render().find(one.says), std::string::npos) << one.source << error.render();
    // Also what is wrong in a template of ours, for it is the user's line that asks for it.
    if (one.source.find("{ ") != std::string::npos) {
      EXPECT_EQ(error.diagnostics().front().where.file, "twice.cpp") << error.render();
    }
  }
  // Sizes that are computed, in front of it; a type of the source's own that is called so; hooks of others in the
  // source, by any name, and none at all.
  for (const char* source :
       {"void twice(Tensor<const float, (3 > 2 ? 2 : 1)> x, Hook<float, (2 < 3) + 1> y) {\n"
        "  for (int64_t i = 0; i < y.size(0) * y.size(1); ++i) y.store(i / 24, i % 24, 2 * x(i / 24, i % 24));\n}\n",
        "template <class T> struct Hook { T twice(T v) const { return v + v; } };\n"
        "void twice(Tensor<const float, 2> x, Tensor<float, 2> y) {\n"
        "  for (int64_t i = 0; i < y.size(0) * y.size(1); ++i)\n"
        "    y(i / 24, i % 24) = Hook<float>().twice(x(i / 24, i % 24));\n}\n",
        "using H = Hook<float, 2>;\n"
        "template <class T, int rank> void put(Hook<T, rank>& y, int64_t r, int64_t c, T v) { y.store(r, c, v); }\n"
        "void put(Tensor<float, 2>& y, int64_t r, int64_t c, float v) { y(r, c) = v; }\n"
        "void other(Tensor<const float, 2> x, H y) { put(y, 0, 0, x(0, 0)); }\n"
        "void twice(Tensor<const float, 2> x, Tensor<float, 2> y) {\n  const char* h = \"Hook<float, 2>\";\n"
        "  for (int64_t i = 0; i < y.size(0) * y.size(1); ++i) put(y, i / 24, i % 24, (h ? 2 : 1) * x(i / 24, i % "
        "24));\n}\n"}) {
    run_checked(parse(text, source), text, {random_input("x", f32, {7, 24}, 1)}, context_, meaning_);
  }
  // What is called as a type of the source hides it.
  const struct {
    std::string source, says;
  } names[] = {
      {"void twice(Tensor<const float, 2> Hook, Tensor<float, 2> y)" + body,
       "error[E0228]: Hook cannot name parameter 1 of kernel twice\n"
       "  --> twice.cpp:1:35\n"
       "1 | void twice(Tensor<const float, 2> Hook, Tensor<float, 2> y) {}\n"
       "  |                                   ^^^^\n"
       "note: it is a type that is declared in front of every kernel's source\nhelp: rename the parameter\n"},
      {"void twice(Tensor<const float, 2> x, Tensor<float, 2>& Tensor)" + body, "Tensor cannot name parameter 2"},
      {"void twice(const Tensor<const float, 2>\n  int64_t, Hook<float, 2> y)" + body,
       "int64_t cannot name parameter 1"},
      {"void twice(Tensor<const float, 2> std, Hook<float, 2> y)" + body, "it is the name of C++'s own namespace"},
      {"void twice(Tensor<const float, 2> CODETTA_FOUND, Hook<float, 2> y)" + body, "belong to Codetta"},
  };
  for (const auto& one : names) {
    const Error error = compile_error(parse(text, one.source));
    EXPECT_EQ(error.code(), 228) << one.source << error.render();
    EXPECT_NE(error.render().find(one.says), std::string::npos) << one.source << error.render();
  }
  const auto cuda = explain(parse(text,
                                  "#pragma codetta kernel(x: f32[m, n], out y: f32[m, n]) block(32) grid(m)\n"
                                  "extern \"C\" __global__ void twice(const float* x, float* blockIdx) {}\n",
                                  "twice", UserKernel::Language::cuda),
                            Target::parse("cuda:sm_90a").value(), {}, false, context_);
  ASSERT_FALSE(cuda);
  EXPECT_EQ(cuda.error().code(), 228) << cuda.error().render();
  // Types without a name, and what a call computes, are no names.
  EXPECT_TRUE(compile(parse(text,
                            "int twice(int64_t, const int64_t, ::int64_t) { return 1; }\n"
                            "void twice(Tensor<const float, 2> x, Tensor<float, 2> y) { y.data[0] = twice(1, 2, "
                            "x.size(0) * INT64_MAX); }\n"),
                      Target::host(), {}, context_));
  // A comment, a call and another function say nothing.
  const std::string plain =
      "// void twice(Tensor<const float, 2> x, Hook<float, 2> y)\n"
      "/* twice(Hook) */\nvoid twice_more(int Hook) {}\n"
      "void twice(Tensor<const float, 2> x, Tensor<float, 2> y) { twice_more(1); }\n";
  EXPECT_TRUE(compile(parse(text, plain), Target::host(), {}, context_));
  const Program none =
      parse("def f(x: f32[\"m\", 24]):\n    s = user_kernel(\"twice\", x, out=\"f32\")\n    return s\n",
            "void twice(Tensor<const float, 2> x, Hook<float, 0> y) {}\n");
  const Error error = compile_error(none);
  EXPECT_EQ(error.code(), 231);
  EXPECT_NE(error.render().find("has no dims"), std::string::npos) << error.render();
}

TEST_F(ProgramHook, WhatIsNoClause) {
  const std::string text =
      "def f(x: f32[\"m\", 24]):\n    s = user_kernel(\"twice\", x, out=\"f32[m, 24]\")\n    y = s + 1.0\n    return "
      "y\n";
  const std::string kernel = "#pragma codetta kernel(x: f32[m, n], out y: f32[m, n]) block(32) grid(m) ";
  const std::string function = "\nextern \"C\" __global__ void twice(const float* x, Hook<float, 2> y) {}\n";
  const struct {
    const char *clause, *says;
  } cases[] = {{"hook", "the hook names no result"},
               {"hook()", "the hook names no result"},
               {"hook(y, x)", "the hook names no result"},
               {"hook(x)", "x is no result of the call"},
               {"hook(z)", "z is no parameter of the kernel"},
               {"hook(y) hook(y)", "there are two hooks"},
               {"hook(y) if(ROWS == 4) config(ROWS = 4)", "does not depend on its configuration"},
               {"hook(y) sizes(stride(y, 0))", "y is handed over element by element"},
               {"hook(y) window(y)", "y is handed over element by element"},
               {"hook(y) map(y, box(8, 8))", "y is handed over element by element"}};
  for (const auto& one : cases) {
    const Program program = parse(text, kernel + one.clause + function, "twice", UserKernel::Language::cuda);
    const auto told = explain(program, Target::parse("cuda:sm_90a").value(), {}, false, context_);
    ASSERT_FALSE(told) << one.clause;
    EXPECT_EQ(told.error().code(), 231) << one.clause;
    EXPECT_NE(told.error().render().find(one.says), std::string::npos) << one.clause << told.error().render();
  }
}

}  // namespace
}  // namespace codetta::test

// SPDX-License-Identifier: Apache-2.0
// Kernels whose source the user gives: alone, between products, in loops, with all element types; and what is refused.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/files.hpp"
#include "unit/driver/user_program.hpp"

namespace codetta::test {
namespace {

using ProgramUser = UserProgram;

std::string file_text(const std::string& name) {
  std::ifstream file(std::string(CODETTA_SOURCE_DIR) + "/examples/user_kernel/" + name);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST_F(ProgramUser, ExampleBetweenTwoProducts) {
  const Program program = parse(file_text("program.py"), {{"running_sums", file_text("running_sums.cc")}});
  oracle::OracleOptions meaning;
  meaning.functions["running_sums"] = [](std::span<const TensorView> in,
                                         std::span<const TensorView> out) -> Result<void> {
    for (int64_t r = 0; r < in[0].size(0); ++r) {
      float sum = 0;
      for (int64_t c = 0; c < in[0].size(1); ++c) {
        const int64_t at = r * in[0].size(1) + c;
        sum = in[0].as<float>()[at] + *in[1].as<float>() * sum;
        out[0].as<float>()[at] = sum;
      }
    }
    return {};
  };
  // The kernel rounds on its way, and its operand is only known within a bound: small integers make both exact.
  std::vector<ProgramInput> inputs;
  inputs.push_back(index_input("x", f32, {5, 16}, 3, 1));
  inputs.push_back(index_input("w", f32, {16, 24}, 3, 2));
  inputs.push_back(number_input("decay", 0.5));
  inputs.push_back(index_input("v", f32, {24, 8}, 3, 3));
  const ProgramOutcome outcome = run_checked(program, "the example", inputs, context_, meaning);
  EXPECT_TRUE(outcome.checked);
}

TEST_F(ProgramUser, ExplainedWithItsKernels) {
  const Program program = parse(file_text("program.py"), {{"running_sums", file_text("running_sums.cc")}});
  for (const bool json : {false, true}) {
    const auto text = explain(program, Target::host(), {}, json, context_);
    ASSERT_TRUE(text) << text.error().render();
    EXPECT_NE(text->find("running_sums"), std::string::npos) << *text;
  }
}

// The report of a run whose kernels' results are taken as given.
VerifyReport report_of_run(const Program& program, std::vector<NamedArgument> arguments, Context& context) {
  const auto compiled = compile(program, Target::host(), {}, context);
  EXPECT_TRUE(compiled) << compiled.error().render();
  const auto shapes = program.shapes(arguments);
  EXPECT_TRUE(shapes) << shapes.error().render();
  std::vector<Tensor> outputs;
  for (const auto& output : shapes->outputs) {
    outputs.push_back(Tensor::make(output.dtype, output.shape).value());
    arguments.push_back({output.name, outputs.back().view()});
  }
  KeptResults kept;
  RunOptions watched;
  watched.observer = keep_results(kept);
  EXPECT_TRUE(compiled->run(arguments, {}, watched));
  VerifyOptions options;
  options.given = kept.calls;
  auto report = verify(program, arguments, Target::host(), options, context);
  EXPECT_TRUE(report) << report.error().render();
  return report ? *std::move(report) : VerifyReport{};
}

// What is the kernel's result as it is was compared with itself: it does not count as checked, nor decide anything,
// though it be 0 throughout.
TEST_F(ProgramUser, ResultsThatAreOutputsAreNotChecked) {
  const Program program = parse(
      "def f(x: f32[\"m\", 6]):\n    k, t = user_kernel(\"lost\", x, out=(\"f32[m, 6]\", \"f32[m, 6]\"))\n"
      "    y = t * 2.0\n    return k, t, y\n",
      {{"lost",
        "void lost(Tensor<const float, 2> x, Tensor<float, 2> k, Tensor<float, 2> t) {\n"
        "  for (int64_t r = 0; r < x.size(0); ++r)\n    for (int64_t c = 0; c < 6; ++c) t(r, c) = x(r, c), k(r, c) = "
        "0;\n"
        "}\n"}});
  const ProgramInput x = random_input("x", f32, {20, 6}, 1);
  const VerifyReport report = report_of_run(program, {{"x", x.view()}}, context_);
  EXPECT_EQ(report.verdict, VerifyReport::Verdict::Pass) << report.text;
  ASSERT_EQ(report.outputs.size(), 3U);
  for (const OutputCheck& output : report.outputs) {
    const bool made = output.name == "y";
    EXPECT_EQ(output.checked, made ? 120 : 0) << output.name;
    EXPECT_EQ(output.note, made ? "" : "its values are taken as the run left them") << output.name;
    EXPECT_EQ(output.mistrust, "") << output.name;
  }
  EXPECT_NE(report.text.find("k: 0 of 120 elements checked"), std::string::npos) << report.text;
}

// Reshaped, or handed on by a branch or a loop, it is the same; and where nothing else was compared, the check proves
// nothing. What moves, converts or changes elements is compared.
TEST_F(ProgramUser, ACheckOfNothingButAKernelsResultsProvesNothing) {
  const std::string kernel =
      "void k(Tensor<const float, 2> x, Tensor<float, 2> y) {\n"
      "  for (int64_t r = 0; r < x.size(0); ++r)\n"
      "    for (int64_t c = 0; c < 6; ++c) y(r, c) = x(r, c) + 1;\n}\n";
  const std::string call = "user_kernel(\"k\", x, out=\"f32[m, 6]\")";
  const std::string branch = "def yes(x):\n    return " + call +
                             "\ndef no(x):\n    return x * 2.0\n"
                             "def f(x: f32[\"m\", 6], flag: bool):\n    y = cond(flag, yes, no, x)\n    return y\n";
  const std::string loop =
      "def more(i: i32, x: f32[\"m\", 6]):\n    return i < 1\n"
      "def step(i: i32, x: f32[\"m\", 6]):\n    y = " +
      call +
      "\n    return i + 1, y\n"
      "def f(x: f32[\"m\", 6]):\n    i, y = while_loop(more, step, 0, x)\n    return y\n";
  const std::string head = "def f(x: f32[\"m\", 6]):\n    y = " + call + "\n";
  struct Form {
    std::string name, text;
    int flag;         // -1: it has none
    int64_t checked;  // of the last output
  };
  const Form forms[] = {
      {"alone", head + "    return y\n", -1, 0},
      {"reshaped", head + "    z = reshape(y, (6 * m,))\n    return y, z\n", -1, 0},
      {"a branch", branch, 1, 0},
      {"the other branch", branch, 0, 30},
      {"a loop", loop, -1, 0},
      {"moved", head + "    z = transpose(y)\n    return y, z\n", -1, 30},
      {"changed", head + "    z = reshape(y, (6 * m,)) * 3.0\n    return y, z\n", -1, 30},
  };
  const ProgramInput x = random_input("x", f32, {5, 6}, 1);
  for (const Form& form : forms) {
    std::vector<NamedArgument> arguments{{"x", x.view()}};
    if (form.flag >= 0) arguments.push_back({"flag", form.flag == 1});
    const VerifyReport report = report_of_run(parse(form.text, {{"k", kernel}}), arguments, context_);
    EXPECT_EQ(report.verdict, form.checked == 0 ? VerifyReport::Verdict::Mistrusted : VerifyReport::Verdict::Pass)
        << form.name << "\n"
        << report.text;
    ASSERT_FALSE(report.outputs.empty()) << form.name;
    EXPECT_EQ(report.outputs.back().checked, form.checked) << form.name;
    EXPECT_EQ(report.outputs.back().mistrust,
              form.checked == 0 ? "no element of any output was compared with anything but itself" : "")
        << form.name;
  }
}

// What a compiler says of a meta-parameter is said where the source uses it.
TEST_F(ProgramUser, MetaParametersAreRefusedInTheUsersLines) {
  const Program program =
      parse("def f(x: f32[\"m\", 6]):\n    y = user_kernel(\"k\", x, out=\"f32[m, 6]\")\n    return y\n",
            {{"k",
              "#pragma codetta config(WAY = 0)\nvoid k(Tensor<const float, 2>, Tensor<float, 2>) {\n"
              "  static_assert(WAY, \"not zero\");\n}\n"}});
  const auto compiled = compile(program, Target::host(), {}, context_);
  ASSERT_FALSE(compiled);
  const std::string said = compiled.error().render();
  EXPECT_EQ(compiled.error().code(), 313) << said;
  EXPECT_EQ(compiled.error().family(), ErrorFamily::Program);
  EXPECT_EQ(compiled.error().diagnostics()[0].where.line, 3U) << said;
  EXPECT_NE(said.find("static_assert(WAY, "), std::string::npos) << said;
  EXPECT_EQ(said.find("user.h"), std::string::npos) << said;
}

// What the kernel computed in the run is taken as given; everything made of it is compared.
TEST_F(ProgramUser, VerifiedWithGivenResults) {
  const Program program = parse(file_text("program.py"), {{"running_sums", file_text("running_sums.cc")}});
  const auto compiled = compile(program, Target::host(), {}, context_);
  ASSERT_TRUE(compiled) << compiled.error().render();
  const ProgramInput x = random_input("x", f32, {5, 16}, 1), w = random_input("w", f32, {16, 24}, 2),
                     v = random_input("v", f32, {24, 8}, 3);
  Tensor y = Tensor::make(f32, {5, 8}).value();
  const std::vector<NamedArgument> arguments{
      {"x", x.view()}, {"w", w.view()}, {"decay", 0.5}, {"v", v.view()}, {"y", y.view()}};
  KeptResults kept;
  int told = 0;
  RunOptions watched;
  watched.observer = keep_results(kept, [&](const StepRecord& record) -> Result<void> {
    told += record.function == "running_sums";
    return {};
  });
  ASSERT_TRUE(compiled->run(arguments, {}, watched));
  ASSERT_EQ(kept.calls.size(), 1u);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(kept.calls[0].function, "running_sums");
  EXPECT_EQ(kept.calls[0].results[0].shape(), (Dims{5, 24}));
  const auto checked = [&](const std::vector<GivenResults>& given) {
    VerifyOptions options;
    options.given = given;
    return verify(program, arguments, Target::host(), options, context_);
  };
  const auto right = checked(kept.calls);
  ASSERT_TRUE(right) << right.error().render();
  EXPECT_EQ(right->verdict, VerifyReport::Verdict::Pass) << right->text;
  EXPECT_EQ(right->given, std::vector<std::string>{"running_sums"});
  EXPECT_NE(right->text.find("running_sums: its results are taken"), std::string::npos) << right->text;
  y.view().as<float>()[3] += 1;
  EXPECT_EQ(checked(kept.calls)->verdict, VerifyReport::Verdict::Fail);
  // Step by step, too.
  BisectOptions steps;
  const auto bisected = [&] { return bisect(program, arguments, Target::host(), {}, steps, context_); };
  const auto unknown = bisected();
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), 311);
  EXPECT_NE(unknown.error().render().find("BisectOptions"), std::string::npos) << unknown.error().render();
  steps.given = kept.calls;
  const auto fine = bisected();
  ASSERT_TRUE(fine) << fine.error().render();
  EXPECT_EQ(fine->first_wrong, -1) << fine->text;
  size_t compared = 0, given = 0;
  for (const BisectedStep& step : fine->steps) {
    for (const OutputCheck& value : step.values) compared += static_cast<size_t>(value.checked);
    given += step.unchecked == "it is code of the caller's, taken as given" ? 1 : 0;
  }
  EXPECT_EQ(compared, 5U * 24 + 5U * 8) << fine->text;
  EXPECT_EQ(given, 1U) << fine->text;
  kept.memory[0].view().as<float>()[3] += 1;
  const auto wrong = bisected();
  ASSERT_TRUE(wrong) << wrong.error().render();
  ASSERT_GE(wrong->first_wrong, 0) << "what is made of other results is not that";
  EXPECT_EQ(wrong->steps[static_cast<size_t>(wrong->first_wrong)].values[0].name, "y");
  kept.memory[0].view().as<float>()[3] -= 1;

  EXPECT_EQ(checked({}).error().code(), 311);
  EXPECT_EQ(checked({kept.calls[0], kept.calls[0]}).error().code(), 311);
  GivenResults other = kept.calls[0];
  other.results[0] = x.view();
  EXPECT_EQ(checked({other}).error().code(), 221);
  other.results.clear();
  EXPECT_EQ(checked({other}).error().code(), 221);
}

TEST_F(ProgramUser, NothingButKernels) {
  const std::string text =
      "def f(x: bf16[\"n\"], flags: bool[\"n\"], k: i64, t: f64[()]):\n"
      "    y, count = user_kernel(\"mix\", x, flags, k, t, out=(\"f16[n]\", \"i32\"))\n    return y, count\n";
  const std::string source =
      "void mix(Tensor<const bfloat16, 1> x, Tensor<const bool, 1> flags, int64_t k, double t, Tensor<float16, 1> y,\n"
      "         Tensor<int32_t, 0> count) {\n"
      "  count() = 0;\n"
      "  for (int64_t i = 0; i < x.size(0); ++i) {\n"
      "    y(i) = flags(i) ? float(x(i)) * float(k) : float(t);\n"
      "    count() += flags(i);\n"
      "  }\n"
      "}\n";
  const Program program = parse(text, {{"mix", source}});
  oracle::OracleOptions meaning;
  meaning.functions["mix"] = [](std::span<const TensorView> in, std::span<const TensorView> out) -> Result<void> {
    int32_t count = 0;
    for (int64_t i = 0; i < in[0].element_count(); ++i) {
      const bool flag = in[1].as<unsigned char>()[i] != 0;
      const double x = types::load_f64(in[0].as<std::byte>() + 2 * i, bf16);
      types::store_f64(out[0].as<std::byte>() + 2 * i, f16,
                       flag ? x * static_cast<double>(*in[2].as<int64_t>()) : *in[3].as<double>());
      count += flag;
    }
    *out[1].as<int32_t>() = count;
    return {};
  };
  const ProgramOutcome outcome = run_checked(program, text,
                                             {random_input("x", bf16, {37}, 1), random_input("flags", boolean, {37}, 2),
                                              number_input("k", int64_t{3}), random_input("t", f64, {}, 4)},
                                             context_, meaning);
  EXPECT_TRUE(outcome.checked);
}

TEST_F(ProgramUser, InALoopWithACodeOfItsOwn) {
  const std::string text =
      "def more(i, x):\n    return i < 4\n"
      "def turn(i, x):\n    return i + 1, user_kernel(\"half\", x, out=\"f32[n]\") + 1.0\n"
      "def f(x: f32[\"n\"]):\n    i, y = while_loop(more, turn, 0, x)\n    return y\n";
  const std::string source =
      "int half(Tensor<const float, 1> x, Tensor<float, 1> y) {\n"
      "  for (int64_t i = 0; i < x.size(0); ++i) y(i) = x(i) * 0.5f;\n"
      "  return x.size(0) == 13 ? 5 : 0;\n}\n";
  const Program program = parse(text, {{"half", source}});
  oracle::OracleOptions meaning;
  meaning.functions["half"] = [](std::span<const TensorView> in, std::span<const TensorView> out) -> Result<void> {
    for (int64_t i = 0; i < in[0].element_count(); ++i) out[0].as<float>()[i] = in[0].as<float>()[i] * 0.5F;
    return {};
  };
  EXPECT_TRUE(run_checked(program, text, {index_input("x", f32, {12}, 9, 1)}, context_, meaning).checked);
  const auto compiled = compile(program, Target::host(), {}, context_);
  ASSERT_TRUE(compiled);
  const ProgramInput x = random_input("x", f32, {13}, 1);
  Tensor y = Tensor::make(f32, {13}).value();
  const auto ran = compiled->run({{"x", x.view()}, {"y", y.view()}});
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code(), 617) << ran.error().render();
  EXPECT_NE(ran.error().render().find("it returned 5"), std::string::npos) << ran.error().render();
}

TEST_F(ProgramUser, MistakesInTheSourceAreSaidInItsLines) {
  const std::string text = "def f(x: f32[8]):\n    y = user_kernel(\"k\", x, out=\"f32[8]\")\n    return y\n";
  UserKernel broken{"k",
                    "void k(Tensor<const float, 1> x, Tensor<float, 1> y) {\n  y(0) = x(0);\n  y(1) = nonsense;\n}\n"};
  broken.file = "mine.cpp";
  const Error error = compile_error(parse(text, {broken}));
  EXPECT_EQ(error.code(), 313) << error.render();
  EXPECT_NE(error.render().find("mine.cpp:3"), std::string::npos) << error.render();
  EXPECT_NE(error.render().find("nonsense"), std::string::npos) << error.render();
  EXPECT_EQ(error.diagnostics().front().where.line_text, "  y(1) = nonsense;");
  const Error mismatch = compile_error(parse(text, {{"k", "void k(Tensor<const double, 1>, Tensor<float, 1>) {}\n"}}));
  EXPECT_EQ(mismatch.code(), 313) << mismatch.render();
}

TEST_F(ProgramUser, FilesThatASourceIncludesAreCollected) {
  const std::string text = "def f(x: f32[8]):\n    y = user_kernel(\"k\", x, out=\"f32[8]\")\n    return y\n";
  const auto temporary = base::TemporaryDirectory::make("/tmp", "codetta-user-test-");
  ASSERT_TRUE(temporary);
  const std::string folder = temporary->path();
  const auto write = [&](const std::string& name, const std::string& source) {
    std::ofstream(folder + "/" + name) << source;
  };
  std::filesystem::create_directory(folder + "/more");
  write("sums.h",
        "#pragma once\n#include \"more/scale.h\"\nstatic float sum(float a, float b) { return scale(a) + b; }\n");
  // Includes itself and the one that includes it, behind a guard, and ends without a line's end.
  write("more/scale.h",
        "#ifndef SCALE\n#define SCALE\n#include \"scale.h\"\n#include \"../sums.h\"\n"
        "static float scale(float a) { return FACTOR * a; }\n#endif");
  UserKernel kernel{"k",
                    "#pragma codetta config(FACTOR = 3)\n#include \"sums.h\"\n#  include  \"sums.h\" // twice\n"
                    "// #include \"absent.h\"\n#if 0\n#include \"absent.h\"\n#endif\n#include <cstddef>\n"
                    "void k(Tensor<const float, 1> x, Tensor<float, 1> y) {\n"
                    "  for (int64_t i = 0; i < 8; ++i) y(i) = sum(x(i), 1.0f);\n}\n"};
  kernel.file = folder + "/k.cpp";
  const auto whole = with_includes(kernel);
  ASSERT_TRUE(whole) << whole.error().render();
  EXPECT_EQ(whole->included, (std::vector<std::string>{folder + "/sums.h", folder + "/more/scale.h"}));
  Tensor x = Tensor::make(DType::f32, {8}).value(), y = Tensor::make(DType::f32, {8}).value();
  fill_random(x.view(), 3);
  const auto compiled = compile(parse(text, {*whole}), Target::host(), {}, context_);
  ASSERT_TRUE(compiled) << compiled.error().render();
  std::filesystem::rename(folder + "/sums.h", folder + "/away.h");  // nothing is looked for any more
  ASSERT_TRUE(compiled->run({{"x", x.view()}, {"y", y.view()}}));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(y.view().as<float>()[i], 3 * x.view().as<float>()[i] + 1);
  std::filesystem::rename(folder + "/away.h", folder + "/sums.h");

  // Places are those of the files.
  const auto place = [&](const UserKernel& wrong) {
    const auto made = with_includes(wrong);
    EXPECT_TRUE(made) << made.error().render();
    const Error error = compile_error(parse(text, {*made}));
    return std::pair(error.code(), error.render());
  };
  UserKernel wrong = kernel;
  wrong.source += "void other() { nonsense(); }\n";
  const auto [own_code, own] = place(wrong);
  EXPECT_EQ(own_code, 313);
  EXPECT_NE(own.find("/k.cpp:12:"), std::string::npos) << own;
  wrong.source = kernel.source + "#pragma codetta config(\n";
  const auto [clause_code, clause] = place(wrong);
  EXPECT_EQ(clause_code, 231);
  EXPECT_NE(clause.find("/k.cpp:12:"), std::string::npos) << clause;
  write("more/scale.h", "static float scale(float a) {\n  return nonsense * a;\n}\n");
  const auto [helper_code, helper] = place(kernel);
  EXPECT_EQ(helper_code, 313);
  EXPECT_NE(helper.find("/more/scale.h:2:"), std::string::npos) << helper;
  // What is not there is the compiler's to look for.
  wrong.source = "\n#include \"absent.h\"\n";
  const auto [absent_code, absent] = place(wrong);
  EXPECT_EQ(absent_code, 313);
  EXPECT_NE(absent.find("/k.cpp:2:"), std::string::npos) << absent;
  EXPECT_TRUE(with_includes(wrong)->included.empty());
  wrong.source = "const char* text = R\"(\n#include \"sums.h\"\n#if 0\n)\";\n#include \"more/scale.h\"\n";
  EXPECT_EQ(with_includes(wrong)->included, std::vector<std::string>{folder + "/more/scale.h"}) << "a string";
  // What is wanted once stands there once, however many include it; what a condition leaves out may come later.
  std::string before;
  for (int i = 0; i < 24; ++i) {
    const std::string name = "once" + std::to_string(i) + ".h";
    write(name, "#pragma once\n" + before + "static float once" + std::to_string(i) + "(float a) { return a; }\n");
    before += "#include \"" + name + "\"\n";
  }
  wrong = kernel;
  wrong.source = "#if 1 > 2\n#include \"once23.h\"\n#endif\n" + before +
                 "void k(Tensor<const float, 1> x, Tensor<float, 1> y) {\n"
                 "  for (int64_t i = 0; i < 8; ++i) y(i) = once0(once23(x(i)));\n}\n";
  const auto many = with_includes(wrong);
  ASSERT_TRUE(many) << many.error().render();
  EXPECT_EQ(many->included.size(), 24U);
  size_t copies = 0;
  for (size_t at = 0; (at = many->source.find("float once0(", at)) != std::string::npos; ++at) ++copies;
  EXPECT_EQ(copies, 2U) << "behind the condition, and for all";
  EXPECT_TRUE(compile(parse(text, {*many}), Target::host(), {}, context_));
  // No end: each file is there twice, and twice in each of these.
  for (int i = 0; i < 40; ++i) {
    const std::string next = "#include \"deep" + std::to_string(i + 1) + ".h\"\n";
    write("deep" + std::to_string(i) + ".h", next + next + "//" + std::string(100000, '-') + "\n");
  }
  wrong.source = "#include \"deep0.h\"\n";
  const auto large = with_includes(wrong);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code(), 102) << large.error().render();
  wrong.source = "#include \"more\"\n";  // a folder
  const auto unreadable = with_includes(wrong);
  ASSERT_FALSE(unreadable);
  EXPECT_EQ(unreadable.error().code(), 620) << unreadable.error().render();
}

TEST_F(ProgramUser, WhatIsRefused) {
  const std::string text = "def f(x: f32[8]):\n    y = user_kernel(\"k\", x, out=\"f32[8]\")\n    return y\n";
  const Error missing = compile_error(parse(text, {}));
  EXPECT_EQ(missing.code(), 311);
  EXPECT_NE(missing.render().find("no source was given for k"), std::string::npos) << missing.render();
  EXPECT_NE(missing.render().find("codetta run --kernel k=FILE"), std::string::npos) << missing.render();
  for (const auto& [language, name] : {std::pair(UserKernel::Language::cuda, "CUDA C++"),
                                       {UserKernel::Language::triton, "Triton"},
                                       {UserKernel::Language::cute_dsl, "CuTe DSL"}}) {
    const Error other = compile_error(parse(text, {{"k", "__global__ void k() {}", language}}));
    EXPECT_EQ(other.code(), 311);
    EXPECT_NE(other.render().find(name), std::string::npos) << other.render();
  }
  const auto program = Program::parse(text, "p.py");
  ASSERT_TRUE(program);
  EXPECT_EQ(program->with_kernels({{"other", ""}}).error().code(), 209);
  EXPECT_EQ(program->with_kernels({{"k", ""}, {"k", ""}}).error().code(), 210);
  Context without = Context::make({.cache_enabled = false, .no_compiler = true, .threads = 1}).value();
  const auto none =
      compile(parse(text, {{"k", "void k(Tensor<const float, 1>, Tensor<float, 1>) {}"}}), Target::host(), {}, without);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), 503) << none.error().render();
}

}  // namespace
}  // namespace codetta::test

// SPDX-License-Identifier: Apache-2.0
// Compiling with every real compiler of the machine.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "compilers.hpp"

namespace codetta::toolchain {
namespace {

const std::string answer_source = "extern \"C\" int answer() { return 42; }\n";

CompileJob job(std::string source, std::vector<std::string> flags = {"-O2"}) {
  return {std::move(source), std::move(flags), "epilogue_0"};
}

class Compile : public CompilerTest {
 protected:
  Compile() { options.work_dir = folder(); }
  CompileOptions options;
};

TEST_F(Compile, TheObjectRunsAndNothingIsLeft) {
  for (const HostCompiler& compiler : real_compilers()) {
    const auto output = compile(compiler, job(answer_source), options);
    ASSERT_TRUE(output) << output.error().render();
    EXPECT_GT(output->seconds, 0.0);
    EXPECT_EQ(output->log, "");
    EXPECT_TRUE(base::list_directory(folder())->empty());
    const std::string file = path("answer.so");
    ASSERT_TRUE(base::write_file_atomically(file, output->object));
    void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle, nullptr) << ::dlerror();
    EXPECT_EQ(reinterpret_cast<int (*)()>(::dlsym(handle, "answer"))(), 42);
    ::dlclose(handle);
    // Not kept by unique symbols.
    EXPECT_EQ(::dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
    ASSERT_TRUE(base::remove_file(file));
  }
}

TEST_F(Compile, LibraryCallsAndHelpersAreResolved) {
  // memset by the optimizer, fmodf by the source, __builtin conversions by the compiler's own library.
  const std::string source =
      "extern \"C\" void fill(char* p, long n) { for (long i = 0; i < n; ++i) p[i] = 7; }\n"
      "extern \"C\" float rest(float a, float b) { return __builtin_fmodf(a, b); }\n"
      "extern \"C\" __int128 wide(__int128 a, __int128 b) { return a / b; }\n";
  for (const HostCompiler& compiler : real_compilers()) {
    const auto output = compile(compiler, job(source), options);
    ASSERT_TRUE(output) << output.error().render();
    const std::string file = path("helpers.so");
    ASSERT_TRUE(base::write_file_atomically(file, output->object));
    void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle, nullptr) << ::dlerror();
    EXPECT_EQ(reinterpret_cast<float (*)(float, float)>(::dlsym(handle, "rest"))(7.5F, 2.0F), 1.5F);
    std::string bytes(1000, 'x');
    reinterpret_cast<void (*)(char*, long)>(::dlsym(handle, "fill"))(bytes.data(), 1000);
    EXPECT_EQ(bytes, std::string(1000, '\7'));
    EXPECT_EQ(reinterpret_cast<__int128 (*)(__int128, __int128)>(::dlsym(handle, "wide"))(100, 7), 14);
    ::dlclose(handle);
    ASSERT_TRUE(base::remove_file(file));
  }
}

TEST_F(Compile, SameSourceSameBytes) {
  for (const HostCompiler& compiler : real_compilers()) {
    const auto first = compile(compiler, job(answer_source), options);
    CompileOptions elsewhere;
    const auto second = compile(compiler, job(answer_source), elsewhere);
    ASSERT_TRUE(first && second);
    EXPECT_EQ(first->object, second->object);
  }
}

TEST_F(Compile, RejectedSourcesCarryTheCompilersMessages) {
  options.keep_dir = path("kept");
  for (const HostCompiler& compiler : real_compilers()) {
    const std::string source = "int a;\nextern \"C\" int f() {\n  return qqqq_1;\n}\nint b = zzzz_9;\n";
    const auto output = compile(compiler, job(source), options);
    ASSERT_FALSE(output);
    EXPECT_EQ(output.error().message(), "error[E0504]: the compiler rejected the source of 'epilogue_0'");
    const Diagnostic& diagnostic = output.error().diagnostics().front();
    EXPECT_EQ(diagnostic.where.line, 3U);
    EXPECT_EQ(diagnostic.where.column, 10U);
    EXPECT_EQ(diagnostic.where.line_text, "  return qqqq_1;");
    EXPECT_NE(diagnostic.label.find("qqqq_1"), std::string::npos);
    EXPECT_NE(diagnostic.reason.find("2 errors"), std::string::npos) << diagnostic.reason;
    ASSERT_FALSE(diagnostic.notes.empty());
    EXPECT_EQ(diagnostic.notes.front().where.line, 5U);
    EXPECT_EQ(*base::read_file(diagnostic.where.file, 1 << 20), source);
    EXPECT_NE(output.error().render().find("the command was: " + compiler.path), std::string::npos);
    EXPECT_FALSE(diagnostic.help.empty());
  }
  // Without a place to keep it there is no file to name.
  options.keep_dir.clear();
  const auto output = compile(real_compilers().front(), job("int x = ;"), options);
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().diagnostics().front().where.file, "<source>");
}

TEST_F(Compile, UnknownFlagsAndMissingSymbolsOfTheLinkerAreToldApart) {
  for (const HostCompiler& compiler : real_compilers()) {
    const auto output = compile(compiler, job(answer_source, {"-fno-such-flag"}), options);
    ASSERT_FALSE(output);
    EXPECT_EQ(output.error().code(), 504);
    EXPECT_NE(output.error().render().find("-fno-such-flag"), std::string::npos);
  }
}

TEST_F(Compile, FlagsThatChangeTheThreadsArithmeticAreRefused) {
  for (const char* flag : {"-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-ffinite-math-only"}) {
    const auto output = compile(real_compilers().front(), job(answer_source, {flag}), options);
    ASSERT_FALSE(output);
    EXPECT_EQ(output.error().message(), std::string("error[E0901]: ") + flag + " is among the flags of 'epilogue_0'");
  }
}

TEST_F(Compile, ArgumentsHoldTheFlagsAndNoFileNames) {
  for (const HostCompiler& compiler : real_compilers()) {
    const auto arguments = compile_arguments(compiler, {"-march=native", "-O3"});
    EXPECT_NE(std::find(arguments.begin(), arguments.end(), "-march=native"), arguments.end());
    EXPECT_EQ(std::find(arguments.begin(), arguments.end(), "-ffast-math"), arguments.end());
    // Whoever wrote the source says these, and nobody else.
    for (const std::string& argument : arguments) {
      EXPECT_FALSE(argument.starts_with("-std=") || argument == "-fno-rtti" || argument == "-nostdlib") << argument;
    }
    EXPECT_EQ(std::find(arguments.begin(), arguments.end(), "-o"), arguments.end());
  }
}

TEST_F(Compile, Assembly) {
  for (const HostCompiler& compiler : real_compilers()) {
    const auto text = assembly(compiler, job(answer_source), options);
    ASSERT_TRUE(text) << text.error().render();
    EXPECT_NE(text->find("answer"), std::string::npos);
    EXPECT_NE(text->find("42"), std::string::npos);
  }
}

TEST_F(Compile, ManyInOrder) {
  const auto compilers = real_compilers();
  ASSERT_FALSE(compilers.empty());
  std::vector<CompileJob> jobs;
  for (int i = 0; i < 7; ++i) {
    jobs.push_back(i == 3 ? job("nonsense") : job("extern \"C\" int f" + std::to_string(i) + "() { return 0; }"));
  }
  for (const int parallel : {0, 1, 3, 100}) {
    const auto results = compile_all(compilers.front(), jobs, options, parallel);
    ASSERT_EQ(results.size(), jobs.size());
    for (size_t i = 0; i < jobs.size(); ++i) {
      ASSERT_EQ(results[i].has_value(), i != 3) << i;
      if (results[i]) {
        EXPECT_NE(results[i]->object.find("f" + std::to_string(i)), std::string::npos);
      }
    }
  }
  EXPECT_TRUE(compile_all(compilers.front(), {}, options, 4).empty());
}

TEST_F(Compile, TypicalEpilogueIsQuick) {
  std::string source = "typedef float v __attribute__((vector_size(64), aligned(4)));\n";
  source += "extern \"C\" void f(const float* a, float* d, long n) {\n  for (long i = 0; i + 16 <= n; i += 16) {\n";
  source += "    v v0 = *(const v*)(a + i);\n";
  for (int i = 0; i < 12; ++i) {
    source +=
        "    v v" + std::to_string(i + 1) + " = v" + std::to_string(i) + " * 0.5f + " + std::to_string(i) + ".0f;\n";
  }
  source += "    *(v*)(d + i) = v12;\n  }\n}\n";
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto output = compile(real_compilers().front(), job(source), CompileOptions{});
    ASSERT_TRUE(output) << output.error().render();
    best = std::min(best, output->seconds);
  }
  EXPECT_LT(best, 0.5) << "a start-up file or a header has crept in";
}

}  // namespace
}  // namespace codetta::toolchain

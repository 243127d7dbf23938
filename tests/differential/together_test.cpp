// SPDX-License-Identifier: Apache-2.0
// Kernels and host texts that are compiled together keep their names, macros and meaning.
#include "differential/together.hpp"

#include <dlfcn.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "driver/context.hpp"
#include "emit/emit.hpp"
#include "toolchain/library.hpp"

namespace codetta::test {
namespace {

const toolchain::HostCompiler& compiler() {
  static Context context = [] {
    ContextOptions options;
    options.cache_enabled = false;
    return Context::make(options).value();
  }();
  return context.shared_state()->compiler().value();
}

// A function that returns the number, by way of a macro and of a function that all units call the same.
driver::KernelUnit unit_of(int number, const std::string& function) {
  std::string source = fmt::format(
      "#define NUMBER {}\n#define TWICE(x) ((x) * 2)\nstatic int number() {{ return NUMBER; }}\nextern \"C\" "
      "__attribute__((visibility(\"default\"))) int entry() {{ return TWICE(number()); }}\n",
      number);
  source += fmt::format(
      "extern \"C\" __attribute__((visibility(\"default\"))) const char {0}[33];\nconst char {0}[33] = \"{1}\";\n",
      emit::entry_digest_symbol, emit::entry_digest_placeholder);
  const std::vector<std::string> flags{"-std=c++17", "-O1", "-nostdlib"};
  return {source, flags, flags, "entry", function};
}

int call(const SharedKernels& kernels, const driver::KernelUnit& unit) {
  const SharedKernel* kernel = kernels.find(unit.source, unit.gcc_flags);
  if (kernel == nullptr) return -1;
  EXPECT_EQ(kernel->function, unit.function);
  void* symbol = kernel->module->symbol(kernel->function);
  return symbol == nullptr ? -2 : reinterpret_cast<int (*)()>(symbol)();
}

TEST(Together, KernelsAreCompiledOnce) {
  SharedKernels kernels;
  const auto one = unit_of(1, "one"), two = unit_of(2, "two"), three = unit_of(3, "three");
  EXPECT_EQ(call(kernels, one), -1);
  ASSERT_EQ(kernels.compile({one, two}, compiler()), "");
  EXPECT_EQ(call(kernels, one), 2);
  EXPECT_EQ(call(kernels, two), 4);
  const std::vector<std::string> first = kernels.objects({one, two});
  EXPECT_EQ(first.size(), 1u);
  ASSERT_EQ(kernels.compile({two, three}, compiler()), "");
  EXPECT_EQ(call(kernels, three), 6);
  EXPECT_EQ(kernels.objects({one, two}), first) << "they are not compiled again";
  EXPECT_EQ(kernels.objects({two, three}).size(), 2u);
  const std::vector<std::string> other_flags{"-std=c++17", "-O2", "-nostdlib"};
  EXPECT_EQ(kernels.find(one.source, other_flags), nullptr);
}

// A library would call whichever came first.
TEST(Together, OneNameIsOneText) {
  SharedKernels kernels;
  const auto one = unit_of(1, "kernel"), other = unit_of(5, "kernel");
  ASSERT_EQ(kernels.compile({one}, compiler()), "");
  ASSERT_EQ(kernels.compile({other}, compiler()), "");
  EXPECT_EQ(call(kernels, other), 10);
  EXPECT_EQ(call(kernels, one), -1);
}

TEST(Together, WhatDoesNotCompileIsTold) {
  SharedKernels kernels;
  const auto one = unit_of(1, "one");
  auto wrong = unit_of(2, "wrong");
  wrong.source += "int broken = unknown_name;\n";
  EXPECT_NE(kernels.compile({one, wrong}, compiler()).find("unknown_name"), std::string::npos);
  EXPECT_EQ(call(kernels, one), -1);
  ASSERT_EQ(kernels.compile({one}, compiler()), "");
  EXPECT_EQ(call(kernels, one), 2);
}

// The library builds, and its functions return these.
void expect_calls(const toolchain::LibraryJob& job, const std::vector<std::pair<const char*, int>>& calls) {
  const auto built = toolchain::build_library(compiler(), job, {}, 1);
  ASSERT_TRUE(built) << built.error().render();
  const auto folder = base::TemporaryDirectory::make("/tmp", "codetta-together-");
  ASSERT_TRUE(folder);
  const std::string path = folder->path() + "/" + job.name;
  ASSERT_TRUE(base::write_file_atomically(path, built->bytes));
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << ::dlerror();
  for (const auto& [name, wanted] : calls) {
    void* symbol = ::dlsym(handle, name);
    ASSERT_NE(symbol, nullptr) << name;
    EXPECT_EQ(reinterpret_cast<int (*)()>(symbol)(), wanted) << name;
  }
  ::dlclose(handle);
}

TEST(Together, HostTextsKeepToThemselves) {
  const auto text_of = [](int number) {
    return fmt::format(
        "#include \"device/host.h\"\n\nextern \"C\" int outside(int);\nnamespace codetta::host {{\nnamespace {{\nint "
        "steps(const View& view) {{ return view.size * {0}; }}\n}}\n}}\nusing namespace codetta::host;\nextern \"C\" "
        "{{\n"
        "__attribute__((visibility(\"default\"))) int call_{0}() {{ return steps(codetta::host::View{{{0}}}) + "
        "static_cast<int>(sizeof(codetta::cpu::Number)); }}\n}}\n",
        number);
  };
  const std::vector<toolchain::CompileJob> units{{text_of(3), {}, "a"}, {text_of(4), {}, "b"}};
  toolchain::LibraryJob job;
  job.name = "libtogether.so";
  job.units = {{host_texts_together(units, {}), {"-std=c++20", "-O0"}, "together"}};
  job.files = {
      {"device/host.h",
       "#pragma once\nnamespace codetta::cpu {\nusing Number = char;\n}\nnamespace codetta::host {\nstruct View "
       "{\n  int size;\n};\n}\n"}};
  job.exports = "{ global: call_*; local: *; };\n";
  expect_calls(job, {{"call_3", 10}, {"call_4", 17}});
}

// Two programs whose files share a header each, with the same names in it.
TEST(Together, FilesOfAProgramShareWhatTheirHeaderSays) {
  std::vector<toolchain::CompileJob> units;
  toolchain::LibraryJob job;
  for (const int number : {3, 4}) {
    const std::string name = fmt::format("f{}_steps.h", number);
    job.files.push_back(
        {name, fmt::format("#pragma once\n#include \"device/host.h\"\nnamespace codetta::host {{\ninline "
                           "namespace program_{0} {{\nstruct Shared {{\n  int n = {0};\n}};\nint "
                           "steps_1(Shared& s);\n}}\n}}\n",
                           number)});
    const std::string begin = fmt::format("#include \"{}\"\n", name);
    units.push_back(
        {begin + fmt::format("namespace codetta::host {{\ninline namespace program_{0} {{\nint steps() {{\n  "
                             "Shared s;\n  return steps_1(s);\n}}\n}}\n}}\nusing namespace "
                             "codetta::host;\nextern \"C\" {{\n__attribute__((visibility(\"default\"))) int "
                             "call_{0}() {{ return steps(); }}\n}}\n",
                             number),
         {},
         "first"});
    units.push_back(
        {begin + fmt::format("namespace codetta::host {{\ninline namespace program_{0} {{\nint steps_1(Shared& "
                             "s) {{\n  return s.n * {0} + static_cast<int>(sizeof(View));\n}}\n}}\n}}\n",
                             number),
         {},
         "second"});
  }
  job.name = "libshared.so";
  job.units = {{host_texts_together(units, job.files), {"-std=c++20", "-O0"}, "together"}};
  job.files.push_back(
      {"device/host.h", "#pragma once\nnamespace codetta::host {\nstruct View {\n  char size;\n};\n}\n"});
  job.exports = "{ global: call_*; local: *; };\n";
  expect_calls(job, {{"call_3", 10}, {"call_4", 17}});
}

// A function with several programs has a text for each, and one that calls them.
TEST(Together, HostTextsCallEachOther) {
  const std::vector<toolchain::CompileJob> units{
      {"#include \"device/host.h\"\nnamespace codetta::host {\nint call_7(View view) {\n  return view.size + "
       "1;\n}\n}\n",
       {},
       "a"},
      {"#include \"device/host.h\"\nnamespace codetta::host {\nint call_7(View view);\n}\nusing namespace "
       "codetta::host;\nextern \"C\" __attribute__((visibility(\"default\"))) int chosen() { return "
       "call_7(codetta::host::View{41}); }\n",
       {},
       "b"}};
  toolchain::LibraryJob job;
  job.name = "libchosen.so";
  job.units = {{host_texts_together(units, {}), {"-std=c++20", "-O0"}, "together"}};
  job.files = {{"device/host.h", "#pragma once\nnamespace codetta::host {\nstruct View {\n  int size;\n};\n}\n"}};
  job.exports = "{ global: chosen; local: *; };\n";
  expect_calls(job, {{"chosen", 42}});
}

// A compiler that the machine ends says nothing about what it was given.
TEST(Together, WhatTheMachineEndsIsNoFaultOfTheText) {
  const auto folder = base::TemporaryDirectory::make("/tmp", "codetta-together-");
  ASSERT_TRUE(folder);
  const auto account = [&](const std::string& command, const std::string& source, double seconds) {
    toolchain::HostCompiler stands_in = compiler();
    if (!command.empty()) {
      base::WriteOptions how;
      how.mode = 0755;
      stands_in.path = folder->path() + "/c++";
      EXPECT_TRUE(base::write_file_atomically(stands_in.path, "#!/bin/sh\n" + command + "\n", how));
    }
    toolchain::CompileOptions options;
    options.timeout_seconds = seconds;
    const auto output = toolchain::compile(stands_in, {source, {"-std=c++17"}, "a kernel"}, options);
    return output ? std::string("it compiles") : output.error().render();
  };
  const std::string text = "extern \"C\" int one() { return 1; }\n";
  EXPECT_TRUE(is_unfinished(account("kill -9 $$", text, 60)));
  EXPECT_TRUE(is_unfinished(account("exec sleep 60", text, 0.1)));
  EXPECT_TRUE(is_unfinished(
      account("echo 'c++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1", text, 60)));
  EXPECT_TRUE(is_unfinished(account("echo 'x.cpp: error: No space left on device' >&2; exit 1", text, 60)));
  EXPECT_FALSE(is_unfinished(account("", "int one( { return 1; }\n", 60)));
  EXPECT_FALSE(is_unfinished(account("kill -11 $$", text, 60))) << "a crash may be what the text did";
  EXPECT_FALSE(is_unfinished("with n=5: output 0 differs at element 3"));
  EXPECT_FALSE(is_unfinished("error[E0610]: \"timed out after\" is no size")) << "a text may say anything";
  const auto ends = [](const std::string& command, std::chrono::milliseconds timeout) {
    base::ProcessRequest request;
    request.program = "/bin/sh";
    request.arguments = {"-c", command};
    request.timeout = timeout;
    const auto result = base::run_process(request);
    EXPECT_TRUE(result);
    return result && is_unfinished(*result);
  };
  using namespace std::chrono_literals;
  EXPECT_TRUE(ends("exec sleep 60", 100ms));
  EXPECT_TRUE(ends("kill -9 $$", 60s));
  EXPECT_FALSE(ends("kill -11 $$", 60s));
  EXPECT_FALSE(ends("echo 'timed out after 2 s, signal 9'; exit 1", 60s));
}

}  // namespace
}  // namespace codetta::test

// SPDX-License-Identifier: Apache-2.0
// The device headers alone, and every op alone: the parts that are copied for it are all that it needs.
#include <gtest/gtest.h>

#include "base/files.hpp"
#include "base/process.hpp"
#include "device/embedded.hpp"
#include "emit/parts.hpp"
#include "loaded_source.hpp"
#include "program_maker.hpp"
#include "support/slice.hpp"
#include "types/op.hpp"

namespace codetta::emit {
namespace {

using types::Op;

std::string compile_log(const std::string& compiler, std::vector<std::string> arguments, const std::string& text) {
  base::ProcessRequest request;
  request.program = compiler;
  for (const char* argument : {"-std=c++17", "-x", "c++", "-c", "-o", "/dev/null", "-"})
    arguments.emplace_back(argument);
  request.arguments = std::move(arguments);
  request.environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"};
  request.input = text;
  const auto result = base::run_process(request);
  if (!result) return "the compiler did not start";
  return result->success() && result->errors.empty() ? "" : result->errors + result->summary();
}

TEST(DeviceHeaders, CompileAloneWithEveryCompilerAndIsa) {
  std::vector<std::pair<std::string, std::vector<std::vector<std::string>>>> targets;
  const std::vector<std::vector<std::string>> x86{
      {}, {"-mavx2", "-mfma", "-mf16c"}, {"-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mf16c"}};
#if defined(__x86_64__)
  for (const TestCompiler& compiler : test_compilers()) targets.emplace_back(compiler.path, x86);
#else
  for (const TestCompiler& compiler : test_compilers()) targets.push_back({compiler.path, {{}}});
#endif
  if (const auto cross = base::find_executable("aarch64-linux-gnu-g++", "/usr/bin")) targets.push_back({*cross, {{}}});
  for (const auto& [compiler, flag_sets] : targets) {
    for (const auto& flags : flag_sets) {
      for (const device::EmbeddedFile& file : device::files()) {
        if (!file.path.ends_with(".h") || !file.path.starts_with("cpu/")) continue;
        std::vector<std::string> arguments = flags;
        for (const char* flag : {"-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-I" CODETTA_SOURCE_DIR})
          arguments.emplace_back(flag);
        EXPECT_EQ(compile_log(compiler, arguments, "#include \"device/" + std::string(file.path) + "\"\n"), "")
            << compiler << ' ' << file.path;
      }
    }
  }
}

TEST(Parts, EveryOpNeedsNoMoreThanItsParts) {
  const CpuIsa isa = runnable_isas().back();
  uint64_t turn = 0;
  for (const DType type : {f32, f64, i32}) {
    uint64_t which = turn++;
    for (const types::OpInfo& info : types::all_ops()) {
      const bool plain = info.rule == types::OpRule::arith || info.rule == types::OpRule::real;
      if (!info.elementwise() || !plain || (info.rule == types::OpRule::real && !types::is_float(type))) continue;
      if (!test::commit_takes(which++, 3)) continue;  // each type has others
      ProgramMaker m;
      const uint32_t x = m.load(type, package::Access::Full);
      std::vector<uint32_t> in(static_cast<size_t>(info.arity), x);
      if (info.op == Op::dropout) in = {x, x, m.integer(i64, 1), m.integer(i64, 2)};
      m.store(m.op(info.op, type, in), type);
      m.store(m.accum(), f32);
      const auto source = emit_cpu_epilogue(m.program, {isa});
      ASSERT_TRUE(source.has_value()) << source.error().render();
      // What is missing is told without optimization, too.
      std::vector<std::string> flags = source->gcc_flags;
      flags.emplace_back("-O0");
      EXPECT_EQ(compile_log(test_compilers()[0].path, flags, source->text), "") << info.name << ' ' << dtype_name(type);
    }
  }
}

TEST(Parts, AMissingNameIsAnInternalError) {
  const auto library = PartLibrary::make({{"cpu/vec.h"}});
  ASSERT_TRUE(library.has_value());
  const auto text = library->text_for({{"no_such_function", Domain::Common}});
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().diagnostics()[0].headline, "the device function 'no_such_function' is missing");
  EXPECT_FALSE(PartLibrary::make({{"cpu/no_such_file.h"}}).has_value());
}

TEST(Parts, AreSelectedWithWhatTheyMention) {
  const auto library = PartLibrary::make({{"cpu/vec.h"}, {"cpu/convert.h"}});
  ASSERT_TRUE(library.has_value());
  const auto text = library->text_for({{"widen_bf16", Domain::Common}});
  ASSERT_TRUE(text.has_value());
  EXPECT_NE(text->find("f32v widen_bf16(u16v raw)"), std::string::npos);
  EXPECT_NE(text->find("To extend(V x)"), std::string::npos);
  EXPECT_EQ(text->find("narrow_bf16"), std::string::npos);
  EXPECT_NE(text->find("#line "), std::string::npos);
}

}  // namespace
}  // namespace codetta::emit

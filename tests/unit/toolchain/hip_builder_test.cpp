// SPDX-License-Identifier: Apache-2.0
// HIP kernels from precompiled headers: what of a source they stand for, the same bits, and whatever is wrong with
// them.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>

#include "base/text.hpp"
#include "compilers.hpp"
#include "diag/diagnostic.hpp"
#include "toolchain/hip_builder.hpp"

namespace codetta::toolchain {
namespace {

constexpr std::array<CudaHeader, 2> headers{
    {{"device/outer.h",
      "#pragma once\n#include \"device/inner.h\"\n"
      "template <class T>\ninline __attribute__((device)) T halved(T x) { return x / (T)CODETTA_LANES; }\n",
      "1"},
     {"device/inner.h", "#pragma once\nusing Number = float;\n", "2"}}};
constexpr const char* source =
    "// Generated.\n#define CODETTA_LANES 2\n#include \"device/outer.h\"\n\n"
    "extern \"C\" __attribute__((global)) void half(Number* p) { *p = halved(*p); }\n";
HipJob job_of(std::string text) { return {std::move(text), "half", {"--offload-arch=gfx942", "-O2"}, headers}; }

class HipBuilds : public CompilerTest {
 protected:
  void SetUp() override {
    if (!clang()) GTEST_SKIP() << clang().error().render();
  }
  static const Result<HostCompiler>& clang() {
    static const Result<HostCompiler> found = find_hip_clang({.wanted = {}, .path = system_path, .memo_dir = {}});
    return found;
  }
  // Clang, which writes down its arguments first; `otherwise` is what it does with those of a precompiled header.
  [[nodiscard]] HostCompiler watched(const std::string& otherwise = "") const {
    HostCompiler compiler = *clang();
    compiler.path =
        script("watched", "echo \"$*\" >> " + path("log") +
                              "\nout=\nlast=\nfor a in \"$@\"; do [ \"$last\" = -o ] && "
                              "out=$a; last=$a; done\ncase \"$*\" in *-emit-pch*) " +
                              (otherwise.empty() ? ":" : otherwise) + ";; esac\nexec " + clang()->path + " \"$@\"\n");
    return compiler;
  }
  [[nodiscard]] size_t runs_with(const std::string& argument) const {
    const auto log = base::read_file(path("log"), size_t{1} << 20);
    size_t count = 0;
    for (const std::string_view line : base::split(log ? *log : "", '\n'))
      count += line.find(argument) != std::string_view::npos ? 1 : 0;
    return count;
  }
  [[nodiscard]] std::shared_ptr<Cache> cache() const {
    return Cache::open({.directory = path("cache"), .on_warning = {}});
  }
  static std::shared_ptr<Cache> none() { return Cache::disabled("no cache"); }
};

TEST(HipPrelude, IsWhatASourceBeginsWith) {
  EXPECT_EQ(prelude_of(source, headers), "// Generated.\n#define CODETTA_LANES 2\n#include \"device/outer.h\"\n");
  EXPECT_EQ(prelude_of("#include \"device/inner.h\"", headers), "#include \"device/inner.h\"");
  EXPECT_EQ(prelude_of("#include \"device/inner.h\"\n#define LATER 1\n", headers), "#include \"device/inner.h\"\n");
  for (const char* other : {"", "int x;\n", "#include \"elsewhere.h\"\n", "#include <device/inner.h>\n",
                            "#include \"device/inner.h\"\n#include <vector>\n", "int x;\n#include \"device/inner.h\"\n",
                            "#include \"device/inner.h\"\nint x;\n#include \"device/outer.h\"\n",
                            "#include \"device/inner.h\"\n# include \"x.h\"\n",
                            "#pragma once\n#include \"device/inner.h\"\n", "#include \"device/inner.h"})
    EXPECT_EQ(prelude_of(other, headers), "") << other;
}

TEST_F(HipBuilds, ThePreludeIsCompiledOnceAndChangesNoBit) {
  const auto plain = compile_hip(*clang(), job_of(source), {});
  ASSERT_TRUE(plain) << plain.error().render();
  {
    HipBuilder builder(cache());
    for (int i = 0; i < 3; ++i) {
      const auto made = builder.compile(watched(), job_of(source), {});
      ASSERT_TRUE(made) << made.error().render();
      EXPECT_EQ(made->object, plain->object);
    }
    EXPECT_EQ(runs_with("-emit-pch"), 1U);
    EXPECT_EQ(runs_with("-include-pch"), 2U);
    // Other macros, other flags: another one.
    std::string other = source;
    other.replace(other.find("LANES 2"), 7, "LANES 4");
    const auto four = builder.compile(watched(), job_of(other), {});
    ASSERT_TRUE(four) << four.error().render();
    EXPECT_NE(four->object, plain->object);
    HipJob flags = job_of(source);
    flags.flags.emplace_back("-ffp-contract=off");
    ASSERT_TRUE(builder.compile(watched(), flags, {}));
    EXPECT_EQ(runs_with("-emit-pch"), 3U);
  }
  // Another process finds it in the cache.
  HipBuilder later(cache());
  const auto made = later.compile(watched(), job_of(source), {});
  ASSERT_TRUE(made) << made.error().render();
  EXPECT_EQ(made->object, plain->object);
  EXPECT_EQ(runs_with("-emit-pch"), 3U);
  EXPECT_EQ(runs_with("-include-pch"), 3U);
}

TEST_F(HipBuilds, ThePreludeIsMadeAheadWhereItIsAskedFor) {
  HipBuilder builder(none());
  EXPECT_TRUE(builder.prepare(watched(), job_of(source), {}));
  EXPECT_TRUE(builder.prepare(watched(), job_of(source), {}));
  EXPECT_FALSE(builder.prepare(watched(), job_of("int x;\n"), {}));
  EXPECT_EQ(runs_with("-emit-pch"), 1U);
  ASSERT_TRUE(builder.compile(watched(), job_of(source), {}));
  EXPECT_EQ(runs_with("-include-pch"), 1U);
}

// A source without one, one that can not be made, and one that is damaged: the kernel is compiled as without.
TEST_F(HipBuilds, WithoutAPreludeKernelsAreCompiledAllTheSame) {
  const auto plain = compile_hip(*clang(), job_of(source), {});
  ASSERT_TRUE(plain) << plain.error().render();
  for (const char* otherwise : {"exit 1", "exit 0", "echo damaged > $out; exit 0", "kill -9 $$"}) {
    const HostCompiler compiler = watched(otherwise);
    HipBuilder builder(none());
    for (int i = 0; i < 2; ++i) {
      const auto made = builder.compile(compiler, job_of(source), {});
      ASSERT_TRUE(made) << otherwise << made.error().render();
      EXPECT_EQ(made->object, plain->object) << otherwise;
    }
  }
  EXPECT_EQ(runs_with("-emit-pch"), 4U);
  EXPECT_EQ(runs_with("-include-pch"), 1U);  // the damaged one
}

// What is wrong with a source is told as ever: its own lines, with the kept source.
TEST_F(HipBuilds, ErrorsAreThoseOfTheWholeSource) {
  std::string wrong = source;
  wrong.replace(wrong.find("*p = halved"), 11, "*p = nosuch");
  HipBuilder builder(none());
  ASSERT_TRUE(builder.prepare(watched(), job_of(source), {}));
  CompileOptions options;
  options.keep_dir = folder();
  const auto plain = compile_hip(*clang(), job_of(wrong), options);
  const auto made = builder.compile(*clang(), job_of(wrong), options);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), static_cast<uint16_t>(diag::Code::compile_rejected));
  const auto until_command = [](const Result<HipOutput>& failed) {
    const std::string text = failed.error().render();
    return text.substr(0, text.find("-I/"));  // a folder of each run
  };
  EXPECT_EQ(until_command(made), until_command(plain));
  EXPECT_NE(made.error().render().find("nosuch"), std::string::npos) << made.error().render();
}

// A cancelled prelude can be made later; a compile that is cancelled is not tried again.
TEST_F(HipBuilds, CancelledAndLateOnes) {
  std::atomic<bool> cancel = true;
  CompileOptions cancelled;
  cancelled.cancel = &cancel;
  HipBuilder builder(none());
  EXPECT_FALSE(builder.prepare(watched(), job_of(source), cancelled));
  EXPECT_TRUE(builder.prepare(watched(), job_of(source), {}));
  const auto made = builder.compile(watched(), job_of(source), cancelled);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), static_cast<uint16_t>(diag::Code::compile_cancelled)) << made.error().render();
  CompileOptions late;
  late.timeout_seconds = 0.001;
  const auto never = builder.compile(watched(), job_of(source), late);
  ASSERT_FALSE(never);
  EXPECT_EQ(never.error().code(), static_cast<uint16_t>(diag::Code::compile_timeout)) << never.error().render();
}

}  // namespace
}  // namespace codetta::toolchain

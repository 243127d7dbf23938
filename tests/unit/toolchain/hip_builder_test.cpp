// SPDX-License-Identifier: Apache-2.0
// HIP kernels from precompiled headers: what of a source they stand for, the same bits, and whatever is wrong with
// them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>

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

// Three kernel functions, as Codetta writes them; Clang leaves the constant outside of them, in each part.
std::string three() {
  std::string text =
      "#define CODETTA_LANES 2\n#include \"device/outer.h\"\n#define __global__ __attribute__((global))\n"
      "template <class T>\nconstexpr bool exact = false;\ntemplate <>\nconstexpr bool exact<float> = true;\n";
  for (const char* body : {"codetta_gemm(Number* p) {\n  __attribute__((shared)) static Number s[64];\n"
                           "  s[__builtin_amdgcn_workitem_id_x()] = *p;\n  __builtin_amdgcn_s_barrier();\n  *p = s[3];",
                           "codetta_combine_0(Number* p) {\n  *p = halved(*p);",
                           "codetta_phase_1(Number* p) {\n  if (exact<Number>) {\n    p[1] = p[0] * p[2];\n  }"})
    text += "\nextern \"C\" __global__ void " + std::string(body) + "\n}\n";
  return text;
}
HipJob divisible_job(std::string text) {
  HipJob job = job_of(std::move(text));
  job.divisible = true;
  return job;
}

// The machine code of each function of an ELF file, by name.
std::map<std::string, std::string> functions_of(const std::string& object) {
  const auto number = [&](size_t at, size_t size) {
    uint64_t value = 0;
    std::memcpy(&value, object.data() + at, size);
    return static_cast<size_t>(value);
  };
  const size_t table = number(40, 8);
  const auto section = [&](size_t i) { return table + 64 * i; };
  std::map<std::string, std::string> found;
  for (size_t i = 0; i < number(60, 2); ++i) {
    if (number(section(i) + 4, 4) != 2) continue;  // SHT_SYMTAB
    const size_t names = number(section(number(section(i) + 40, 4)) + 24, 8), first = number(section(i) + 24, 8);
    for (size_t s = first; s < first + number(section(i) + 32, 8); s += 24) {
      if ((object[s + 4] & 0xf) != 2) continue;  // STT_FUNC
      const size_t in = section(number(s + 6, 2));
      const size_t at = number(s + 8, 8) - number(in + 16, 8) + number(in + 24, 8);
      found[object.c_str() + names + number(s, 4)] = object.substr(at, number(s + 16, 8));
    }
  }
  return found;
}

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
    const std::string text = log ? *log : "";
    size_t count = 0;
    for (const std::string_view line : base::split(text, '\n'))
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
    HipBuilder builder(cache(), 1);
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
  HipBuilder later(cache(), 1);
  const auto made = later.compile(watched(), job_of(source), {});
  ASSERT_TRUE(made) << made.error().render();
  EXPECT_EQ(made->object, plain->object);
  EXPECT_EQ(runs_with("-emit-pch"), 3U);
  EXPECT_EQ(runs_with("-include-pch"), 3U);
}

TEST_F(HipBuilds, ThePreludeIsMadeAheadWhereItIsAskedFor) {
  HipBuilder builder(none(), 1);
  EXPECT_TRUE(builder.prepare(watched(), job_of(source), {}));
  EXPECT_TRUE(builder.prepare(watched(), job_of(source), {}));
  EXPECT_FALSE(builder.prepare(watched(), job_of("int x;\n"), {}));
  EXPECT_EQ(runs_with("-emit-pch"), 1U);
  ASSERT_TRUE(builder.compile(watched(), job_of(source), {}));
  EXPECT_EQ(runs_with("-include-pch"), 1U);
}

// More families than may be kept in memory, on several threads: the last used stay, the others are in the cache or made
// again, and whoever compiles with one that goes is not disturbed.
TEST_F(HipBuilds, PreludesInMemoryAreBounded) {
  constexpr size_t families = 6;
  std::vector<HipJob> jobs;
  std::vector<std::string> objects;
  size_t one = 0;
  for (size_t f = 0; f < families; ++f) {
    std::string text = source;
    text.replace(text.find("LANES 2"), 7, "LANES " + std::to_string(3 + f));
    jobs.push_back(job_of(std::move(text)));
    const auto plain = compile_hip(*clang(), jobs.back(), {});
    ASSERT_TRUE(plain) << plain.error().render();
    objects.push_back(plain->object);
  }
  {
    HipBuilder builder(none(), 1);
    ASSERT_TRUE(builder.prepare(*clang(), jobs[0], {}));
    one = builder.kept_bytes();
    ASSERT_GT(one, 10'000U);
    ASSERT_TRUE(builder.prepare(*clang(), jobs[1], {}));
    EXPECT_GT(builder.kept_bytes(), one + one / 2);
  }
  for (const bool cached : {true, false}) {
    const size_t most = 2 * one + one / 2;  // two of them
    HipBuilder builder(cached ? cache() : none(), 1, most);
    std::atomic<bool> ended = false;
    std::jthread watch([&] {
      while (!ended) {
        EXPECT_LE(builder.kept_bytes(), most);
        std::this_thread::yield();
      }
    });
    {
      std::vector<std::jthread> threads;
      for (size_t t = 0; t < 3; ++t) {
        threads.emplace_back([&, t] {
          for (size_t i = 0; i < families; ++i) {
            const size_t f = (i * (t + 1) + t) % families;
            const auto made = builder.compile(*clang(), jobs[f], {});
            ASSERT_TRUE(made) << made.error().render();
            EXPECT_EQ(made->object, objects[f]);
          }
        });
      }
    }
    ended = true;
    watch.join();
    EXPECT_GT(builder.kept_bytes(), one);  // two, of which none is much smaller
    // The last used are there, the one before them is not, unless the cache has it.
    for (const size_t f : {0, 1, 2}) EXPECT_TRUE(builder.prepare(*clang(), jobs[f], {}));
    const size_t before = runs_with("-emit-pch");
    for (const size_t f : {2, 1}) ASSERT_TRUE(builder.compile(watched(), jobs[f], {}));
    EXPECT_EQ(runs_with("-emit-pch"), before);
    ASSERT_TRUE(builder.compile(watched(), jobs[0], {}));
    EXPECT_EQ(runs_with("-emit-pch"), before + (cached ? 0 : 1));
  }
  // One that alone is too large is used and not kept.
  HipBuilder little(cache(), 1, one / 2);
  const auto made = little.compile(watched(), jobs[0], {});
  ASSERT_TRUE(made) << made.error().render();
  EXPECT_EQ(made->object, objects[0]);
  EXPECT_EQ(little.kept_bytes(), 0U);
}

// So are those that can not be made: they are tried again when they have been forgotten.
TEST_F(HipBuilds, WhatCanNotBePrecompiledIsForgottenToo) {
  const HostCompiler compiler = watched("exit 1");
  constexpr size_t most = 600;  // two of them
  HipBuilder builder(none(), 1, most);
  for (int lanes = 1; lanes <= 4; ++lanes) {
    std::string text = source;
    text.replace(text.find("LANES 2"), 7, "LANES " + std::to_string(lanes));
    for (int i = 0; i < 2; ++i) EXPECT_FALSE(builder.prepare(compiler, job_of(text), {}));
    EXPECT_LE(builder.kept_bytes(), most);
    EXPECT_GT(builder.kept_bytes(), 0U);
  }
  EXPECT_EQ(runs_with("-emit-pch"), 4U);
  EXPECT_FALSE(builder.prepare(compiler, job_of(source), {}));  // of two lanes, the second
  EXPECT_EQ(runs_with("-emit-pch"), 5U);
}

// A source without one, one that can not be made, and one that is damaged: the kernel is compiled as without.
TEST_F(HipBuilds, OnlyOurOwnKernelsAreCompiledWithOptionsOfLlvmAndByAClangThatKnowsThem) {
  const std::string option = "-mllvm";
  HipJob job{"extern \"C\" __attribute__((global)) void nothing() {}\n", "nothing", {"--offload-arch=gfx942"}, {}};
  ASSERT_TRUE(compile_hip(watched(), job, {}));
  EXPECT_EQ(runs_with(option), 0u);
  job.divisible = true;
  HostCompiler newer = watched();
  newer.major = 99;
  ASSERT_TRUE(compile_hip(newer, job, {}));
  EXPECT_EQ(runs_with(option), 0u);
  ASSERT_TRUE(compile_hip(watched(), job, {}));
  EXPECT_EQ(runs_with(option), 1u);
  // Arrays of registers that have an index.
  job.source += "template <class V> class RegisterArray {};\nRegisterArray<int>* none();\n";
  for (const auto& [arch, runs] : {std::pair("gfx942", 0u), {"gfx90a", 1u}}) {
    job.flags = {std::string("--offload-arch=") + arch};
    ASSERT_TRUE(compile_hip(watched(), job, {}));
    EXPECT_EQ(runs_with("-enable-post-misched=false"), runs) << arch;
  }
}

TEST_F(HipBuilds, WithoutAPreludeKernelsAreCompiledAllTheSame) {
  const auto plain = compile_hip(*clang(), job_of(source), {});
  ASSERT_TRUE(plain) << plain.error().render();
  for (const char* otherwise : {"exit 1", "exit 0", "echo damaged > $out; exit 0", "kill -9 $$"}) {
    const HostCompiler compiler = watched(otherwise);
    HipBuilder builder(none(), 1);
    for (int i = 0; i < 3; ++i) {
      const auto made = builder.compile(compiler, job_of(source), {});
      ASSERT_TRUE(made) << otherwise << made.error().render();
      EXPECT_EQ(made->object, plain->object) << otherwise;
    }
  }
  EXPECT_EQ(runs_with("-emit-pch"), 4U);
  EXPECT_EQ(runs_with("-include-pch"), 1U);  // the damaged one, once
}

// What is wrong with a source is told as ever: its own lines, with the kept source.
TEST_F(HipBuilds, ErrorsAreThoseOfTheWholeSource) {
  std::string wrong = source;
  wrong.replace(wrong.find("*p = halved"), 11, "*p = nosuch");
  HipBuilder builder(none(), 1);
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
  HipBuilder builder(none(), 1);
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

TEST(HipParts, AreTheFirstKernelFunctionAndTheOthers) {
  const std::string text = three();
  const std::vector<std::string> parts = hip_parts_of(text);
  ASSERT_EQ(parts.size(), 2U);
  for (const std::string& part : parts) {
    EXPECT_EQ(part.size(), text.size());
    EXPECT_EQ(std::count(part.begin(), part.end(), '\n'), std::count(text.begin(), text.end(), '\n'));
    EXPECT_NE(part.find("constexpr bool exact<float> = true;\n"), std::string::npos);
  }
  for (const auto& [name, first] : {std::pair("codetta_gemm", true),
                                    {"s[3]", true},
                                    {"codetta_combine_0", false},
                                    {"halved(*p)", false},
                                    {"codetta_phase_1", false}}) {
    EXPECT_EQ(parts[0].find(name) != std::string::npos, first) << name;
    EXPECT_EQ(parts[1].find(name) != std::string::npos, !first) << name;
  }
  EXPECT_TRUE(hip_parts_of("").empty());
  EXPECT_TRUE(hip_parts_of(text.substr(0, text.find("codetta_phase_1"))).empty());  // one that does not end
  EXPECT_TRUE(hip_parts_of(text.substr(0, text.rfind("\nextern"))).empty());        // two of which the second is short
}

// Of a product, two phases and what combines their results, whose costs the texts tell.
TEST(HipParts, TakeAboutAsLongAsEachOther) {
  const auto phase = [](int number, size_t characters) {
    return fmt::format("  static void piece_{0}(int x) {{\n//{1}\n  }}\n  static void phase_{0}(int x) {{\n  }}\n",
                       number, std::string(characters, '.'));
  };
  const auto kernel = [](const std::string& name, const std::string& calls) {
    return "\nextern \"C\" __global__ void " + name + "(Parameters params) {\n  " + calls + "\n}\n";
  };
  const auto names_in = [](const std::string& part) {
    std::vector<std::string> found;
    for (const char* name :
         {"codetta_gemm", "codetta_combine_0", "codetta_phase_1", "codetta_combine_1", "codetta_phase_2"})
      if (part.find(name) != std::string::npos) found.emplace_back(name);
    return found;
  };
  const std::string product = kernel("codetta_gemm", "gemm_simt<Config, Epilogue>(params);");
  const std::string combine_0 = kernel("codetta_combine_0", "if (y == 0) combine<Axis::Row, SumState>(params);");
  const std::string others = combine_0 + kernel("codetta_phase_1", "Epilogue::phase_1<Parameters>(q, t);") +
                             kernel("codetta_combine_1", "if (y == 0) combine<Axis::Row, SumState>(params);") +
                             kernel("codetta_phase_2", "Epilogue::phase_2<Parameters>(q, t);");
  using Names = std::vector<std::string>;
  auto parts = hip_parts_of(phase(0, 1200) + phase(1, 2000) + phase(2, 2000) + product + others);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(names_in(parts[0]), (Names{"codetta_gemm", "codetta_combine_0", "codetta_combine_1"}));
  EXPECT_EQ(names_in(parts[1]), (Names{"codetta_phase_1", "codetta_phase_2"}));
  parts = hip_parts_of(phase(0, 300) + phase(1, 9000) + phase(2, 900) + product + others);  // one phase takes longest
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(names_in(parts[1]), Names{"codetta_phase_1"});
  // Of two kernel functions the second is worth the start of Clang where it combines several reductions.
  EXPECT_TRUE(hip_parts_of(product + combine_0).empty());
  parts = hip_parts_of(product + kernel("codetta_combine_0",
                                        "if (y == 0) combine<Axis::Row, MaxState>(params);\n  if (y == "
                                        "1) combine<Axis::Row, SumExpState>(params);"));
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(names_in(parts[1]), Names{"codetta_combine_0"});
}

TEST_F(HipBuilds, PartsHaveTheSameInstructionsAndOneNote) {
  for (const char* arch : {"gfx90a", "gfx942", "gfx1100", "gfx1201"}) {
    HipJob job = divisible_job(three());
    job.flags.front() = std::string("--offload-arch=") + arch;
    const auto whole = compile_hip(*clang(), job, {});
    ASSERT_TRUE(whole) << whole.error().render();
    HipBuilder builder(none(), 3);
    std::string first;
    for (int i = 0; i < 2; ++i) {  // without a precompiled prelude, and with it
      const auto made = builder.compile(watched(), job, {});
      ASSERT_TRUE(made) << made.error().render();
      EXPECT_TRUE(first.empty() || made->object == first);
      first = made->object;
      EXPECT_EQ(functions_of(made->object), functions_of(whole->object));
      EXPECT_EQ(functions_of(made->object).size(), 3U);
      ASSERT_EQ(made->remarks.size(), 3U);
      for (size_t k = 0; k < 3; ++k) {
        EXPECT_EQ(made->remarks[k].kernel, whole->remarks[k].kernel);
        EXPECT_EQ(made->remarks[k].registers, whole->remarks[k].registers);
        EXPECT_EQ(made->remarks[k].shared_bytes, whole->remarks[k].shared_bytes);
      }
      EXPECT_EQ(made->remarks[0].shared_bytes, 256);
    }
  }
  EXPECT_EQ(runs_with("-emit-pch"), 4U);
  EXPECT_EQ(runs_with("-include-pch"), 8U);
  EXPECT_EQ(runs_with("/kernel1.o"), 8U);
}

// Where both parts fill the processors, the prelude is made when they have ended, and nobody waits for it but the
// builder's end; the caller's flag may be gone by then.
TEST_F(HipBuilds, APreludeIsMadeBehindPartsThatFillTheProcessors) {
  HostCompiler compiler = watched("while [ ! -e " + path("go") + " ]; do sleep 0.01; done");
  {
    HipBuilder builder(cache(), 2);
    {
      std::atomic<bool> cancel = false;
      CompileOptions options;
      options.cancel = &cancel;
      EXPECT_TRUE(builder.compile(compiler, divisible_job(three()), options));
      cancel = true;
    }
    EXPECT_EQ(builder.running(), 0);
    EXPECT_TRUE(builder.compile(compiler, divisible_job(three()), {}));  // meanwhile: without
    EXPECT_EQ(runs_with("-include-pch"), 0U);
    EXPECT_EQ(builder.kept_bytes(), 0U);
    ASSERT_TRUE(base::write_file_atomically(path("go"), ""));
  }
  EXPECT_EQ(runs_with("-emit-pch"), 1U);
  HipBuilder later(cache(), 2);
  EXPECT_TRUE(later.compile(compiler, divisible_job(three()), {}));
  EXPECT_EQ(runs_with("-emit-pch"), 1U);
  EXPECT_EQ(runs_with("-include-pch"), 2U);
}

// Where the kernel's compile is cancelled, nothing goes on behind it, and the prelude can be made later.
TEST_F(HipBuilds, NoPreludeIsMadeBehindWhatIsCancelled) {
  HipBuilder builder(none(), 2);
  std::atomic<bool> cancel = true;
  CompileOptions options;
  options.cancel = &cancel;
  const auto made = builder.compile(watched(), divisible_job(three()), options);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), static_cast<uint16_t>(diag::Code::compile_cancelled)) << made.error().render();
  EXPECT_EQ(builder.kept_bytes(), 0U);
  EXPECT_EQ(runs_with("-emit-pch"), 0U);
  EXPECT_TRUE(builder.prepare(watched(), divisible_job(three()), {}));
}

// A kernel that must not be divided, and one that is not worth it; others are, whatever else runs.
TEST_F(HipBuilds, OtherKernelsAreCompiledWhole) {
  HipBuilder builder(none(), 1);
  ASSERT_TRUE(builder.compile(watched(), job_of(three()), {}));
  ASSERT_TRUE(builder.compile(watched(), divisible_job(source), {}));
  EXPECT_EQ(runs_with("/kernel1.o"), 0U);
  ASSERT_TRUE(builder.compile(watched(), divisible_job(three()), {}));
  EXPECT_EQ(runs_with("/kernel1.o"), 1U);
}

// Parts that can not be compiled, joined or linked: the whole source is compiled, and told of.
TEST_F(HipBuilds, WherePartsFailTheWholeIsCompiled) {
  const auto whole = compile_hip(*clang(), job_of(three()), {});
  ASSERT_TRUE(whole) << whole.error().render();
  HostCompiler linker = *clang();
  linker.linker = script("lld", "case \"$*\" in *muldefs*) exit 1;; esac\nexec " + clang()->linker + " \"$@\"\n");
  HostCompiler damaged = *clang();
  damaged.path = script("damaged",
                        "for a in \"$@\"; do last=$out; out=$a; case $last:$a in -o:*/kernel1.o) echo x > $a; "
                        "exit 0;; esac; done\nexec " +
                            clang()->path + " \"$@\"\n");
  for (const HostCompiler& compiler : {linker, damaged}) {
    const auto made = HipBuilder(none(), 2).compile(compiler, divisible_job(three()), {});
    ASSERT_TRUE(made) << made.error().render();
    EXPECT_EQ(made->object, whole->object);
  }
  std::string wrong = three();
  wrong.replace(wrong.find("halved(*p)"), 6, "nosuch");
  const auto failed = HipBuilder(none(), 2).compile(*clang(), divisible_job(wrong), {});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code(), static_cast<uint16_t>(diag::Code::compile_rejected));
  EXPECT_EQ(failed.error().diagnostics().front().where.line,
            compile_hip(*clang(), job_of(wrong), {}).error().diagnostics().front().where.line);
}

TEST_F(HipBuilds, MetadataIsJoinedOrLeftAlone) {
  for (const std::string& bytes : {std::string(), std::string("\177ELF"), std::string(200, '\0')}) {
    std::string one = bytes, other = bytes;
    EXPECT_FALSE(join_metadata(one, other));
    EXPECT_EQ(one, bytes);
    EXPECT_EQ(other, bytes);
  }
  const auto made = compile_hip(*clang(), job_of(three()), {});
  ASSERT_TRUE(made) << made.error().render();
  std::string one = made->object, other = made->object;
  ASSERT_TRUE(join_metadata(one, other));
  const auto joined = read_code_object(one, "joined");
  ASSERT_TRUE(joined) << joined.error().render();
  ASSERT_EQ(joined->size(), 6U);
  EXPECT_EQ((*joined)[5].kernel, "codetta_phase_1");
  EXPECT_FALSE(read_code_object(other, "emptied"));
  for (size_t at = 0; at < made->object.size(); at += 3) {
    std::string broken = made->object;
    other = made->object;
    broken[at] = static_cast<char>(~broken[at]);
    (void)join_metadata(broken, other);
  }
}

}  // namespace
}  // namespace codetta::toolchain

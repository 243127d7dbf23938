// SPDX-License-Identifier: Apache-2.0
// The compiler of HIP kernels: found or not, what it makes, and code objects that are damaged.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include "compilers.hpp"
#include "diag/diagnostic.hpp"
#include "support/users_source.hpp"
#include "toolchain/hip_clang.hpp"

namespace codetta::toolchain {
namespace {

class HipClang : public CompilerTest {
 protected:
  // A Clang 19 with lld on this machine's usual path, if there is one.
  static const Result<HostCompiler>& clang() {
    static const Result<HostCompiler> found = find_hip_clang({.wanted = {}, .path = system_path, .memo_dir = {}});
    return found;
  }
};

constexpr const char* kernel_source =
    "extern \"C\" __attribute__((global)) void twice(float* p) {\n"
    "  __attribute__((shared)) static float held[64];\n"
    "  const int i = __builtin_amdgcn_workitem_id_x();\n"
    "  held[i] = p[i];\n"
    "  __builtin_amdgcn_s_barrier();\n"
    "  p[i] = 2 * held[63 - i];\n"
    "}\n";

TEST_F(HipClang, WithoutClangItSaysWhatItLookedFor) {
  const auto none = find_hip_clang({.wanted = {}, .path = folder(), .memo_dir = {}});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), static_cast<uint16_t>(diag::Code::hip_compiler_missing));  // E0536
  EXPECT_NE(none.error().render().find("clang++-19"), std::string::npos);
  EXPECT_NE(none.error().render().find(folder()), std::string::npos);
  const auto named = find_hip_clang({.wanted = "/nowhere/clang", .path = folder(), .memo_dir = {}});
  ASSERT_FALSE(named);
  EXPECT_EQ(named.error().code(), 536);
}

TEST_F(HipClang, WhatIsNoClang19CanNotBeUsed) {
  const std::string old = script("clang++-19",
                                 "case \"$*\" in\n*-dM*) echo '#define __clang_major__ 14'; echo '#define "
                                 "__x86_64__ 1';;\n*) echo clang version 14;;\nesac\n");
  const auto found = find_hip_clang({.wanted = old, .path = folder(), .memo_dir = {}});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), static_cast<uint16_t>(diag::Code::hip_compiler_unusable));  // E0537
  EXPECT_NE(found.error().render().find("is Clang 14"), std::string::npos) << found.error().render();
}

TEST_F(HipClang, OneThatHangsIsEndedInTime) {
  const std::string hanging = script("clang++-19", "exec /bin/sleep 60\n");
  // By name, and where it is the only one; and one that hangs only when it is asked for its linker.
  const std::string mute =
      script("mute",
             "case \"$*\" in\n*-dM*) echo '#define __clang_major__ 19';;\n*lld*) exec /bin/sleep 60;;\n"
             "*) echo clang version 19;;\nesac\n");
  for (const std::string& wanted : {hanging, mute}) {
    const auto found = find_hip_clang({.wanted = wanted, .path = folder(), .memo_dir = {}, .timeout_seconds = 0.3});
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code(), static_cast<uint16_t>(diag::Code::compile_timeout)) << found.error().render();
    EXPECT_NE(found.error().render().find("timed out after 0."), std::string::npos) << found.error().render();
  }
}

TEST_F(HipClang, ACompilerWithoutLldIsMissingItsLinker) {
  const std::string bare = script("clang++-19",
                                  "case \"$*\" in\n*-dM*) echo '#define __clang_major__ 19'; echo '#define "
                                  "__x86_64__ 1';;\n*lld*) echo lld;;\n*) echo clang version 19;;\nesac\n");
  const auto found = find_hip_clang({.wanted = bare, .path = folder(), .memo_dir = {}});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), 536);
  EXPECT_NE(found.error().render().find("looked for lld"), std::string::npos) << found.error().render();
}

TEST_F(HipClang, AKernelBecomesACodeObjectWhoseMetadataIsRead) {
  if (!clang()) GTEST_SKIP() << clang().error().render();
  for (const char* arch : {"gfx90a", "gfx942", "gfx1100", "gfx1201"}) {
    const auto made =
        compile_hip(*clang(), {kernel_source, "twice", {std::string("--offload-arch=") + arch, "-O2"}, {}}, {});
    ASSERT_TRUE(made) << made.error().render();
    ASSERT_EQ(made->remarks.size(), 1u);
    EXPECT_EQ(made->remarks[0].kernel, "twice");
    EXPECT_EQ(made->remarks[0].shared_bytes, 256);
    EXPECT_EQ(made->remarks[0].stack_bytes, 0);
    EXPECT_GT(made->remarks[0].registers, 0);
    EXPECT_TRUE(check_remarks(made->remarks, "twice"));
    // Twice the same bytes.
    const auto again =
        compile_hip(*clang(), {kernel_source, "twice", {std::string("--offload-arch=") + arch, "-O2"}, {}}, {});
    ASSERT_TRUE(again);
    EXPECT_EQ(made->object, again->object);
  }
}

TEST_F(HipClang, TheSearchCanBeCancelled) {
  const std::string hanging = script("clang++-19", "exec /bin/sleep 60\n");
  const std::atomic<bool> cancel = true;
  for (const auto& [wanted, path] : {std::pair(hanging, std::string()), {std::string(), folder()}}) {
    const auto found = find_hip_clang({.wanted = wanted, .path = path, .memo_dir = {}, .cancel = &cancel});
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code(), static_cast<uint16_t>(diag::Code::compile_cancelled)) << found.error().render();
  }
  if (!clang()) return;  // one that is remembered is asked for its linker alone
  const std::string memo = folder() + "/memo";
  ASSERT_TRUE(base::make_private_directory(memo));
  FindOptions options{.wanted = clang()->path, .path = "/usr/bin:/bin", .memo_dir = memo};
  ASSERT_TRUE(find_hip_clang(options));
  options.cancel = &cancel;
  const auto linker = find_hip_clang(options);
  ASSERT_FALSE(linker);
  EXPECT_EQ(linker.error().code(), static_cast<uint16_t>(diag::Code::compile_cancelled)) << linker.error().render();
}

TEST_F(HipClang, AssemblyAndErrorsOfTheSource) {
  if (!clang()) GTEST_SKIP() << clang().error().render();
  const auto text = hip_assembly(*clang(), {kernel_source, "twice", {"--offload-arch=gfx942", "-O2"}, {}}, {});
  ASSERT_TRUE(text) << text.error().render();
  EXPECT_NE(text->find("global_store"), std::string::npos);
  const auto wrong = compile_hip(*clang(), {"int x = y;\n", "wrong", {"--offload-arch=gfx942"}, {}}, {});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code(), static_cast<uint16_t>(diag::Code::compile_rejected));
  EXPECT_NE(wrong.error().render().find("'y'"), std::string::npos) << wrong.error().render();
}

// The linker is a program of its own: what it refuses, and that it makes nothing, is told as of the compiler.
TEST_F(HipClang, ALinkerThatFails) {
  if (!clang()) GTEST_SKIP() << clang().error().render();
  const std::string calls =
      "extern \"C\" __attribute__((device)) int elsewhere();\n"
      "extern \"C\" __attribute__((global)) void calls(int* p) { *p = elsewhere(); }\n";
  const auto undefined = compile_hip(*clang(), {calls, "calls", {"--offload-arch=gfx942", "-O2"}, {}}, {});
  ASSERT_FALSE(undefined);
  EXPECT_EQ(undefined.error().code(), static_cast<uint16_t>(diag::Code::compile_rejected));
  EXPECT_NE(undefined.error().render().find("elsewhere"), std::string::npos) << undefined.error().render();
  // In a kernel of the user's it is the mistake of that line.
  const auto users =
      compile_hip(*clang(), {test::users_source("own.hip", calls), "calls", {"--offload-arch=gfx942", "-O2"}, {}}, {});
  ASSERT_FALSE(users);
  EXPECT_EQ(users.error().code(), static_cast<uint16_t>(diag::Code::user_source)) << users.error().render();
  EXPECT_EQ(users.error().diagnostics().front().where.line, 2U) << users.error().render();
  // In what stands around one it is not.
  const std::string around = test::users_source("own.hip", "", calls);
  const auto ours = compile_hip(*clang(), {around, "calls", {"--offload-arch=gfx942", "-O2"}, {}}, {});
  ASSERT_FALSE(ours);
  EXPECT_EQ(ours.error().code(), static_cast<uint16_t>(diag::Code::compile_rejected)) << ours.error().render();
  HostCompiler broken = *clang();
  for (const auto& [text, part] : {std::pair("exit 0\n", "made no object"), {"kill -9 $$\n", "ended with signal 9"}}) {
    broken.linker = script("lld", text);
    const auto made = compile_hip(broken, {kernel_source, "twice", {"--offload-arch=gfx942", "-O2"}, {}}, {});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code(), static_cast<uint16_t>(diag::Code::compiler_failed)) << made.error().render();
    EXPECT_NE(made.error().render().find(part), std::string::npos) << made.error().render();
  }
  // One that can not wait for the objects is run behind the compiler; a compiler that writes to a file of its own.
  const auto made = compile_hip(*clang(), {kernel_source, "twice", {"--offload-arch=gfx942", "-O2"}, {}}, {});
  ASSERT_TRUE(made) << made.error().render();
  HostCompiler other = *clang();
  other.linker = script("lld", "case \"$*\" in *@/dev/stdin*) exit 1;; esac\nexec " + clang()->linker + " \"$@\"\n");
  other.path =
      script("clang", "for a in \"$@\"; do last=$out; out=$a; if [ \"$last\" = -o ]; then rm \"$a\"; fi; done\nexec " +
                          clang()->path + " \"$@\"\n");
  const auto behind = compile_hip(other, {kernel_source, "twice", {"--offload-arch=gfx942", "-O2"}, {}}, {});
  ASSERT_TRUE(behind) << behind.error().render();
  EXPECT_EQ(behind->object, made->object);
  broken.linker = folder() + "/none";
  const auto none = compile_hip(broken, {kernel_source, "twice", {"--offload-arch=gfx942", "-O2"}, {}}, {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), static_cast<uint16_t>(diag::Code::compiler_failed));
}

TEST_F(HipClang, HeadersOfTheWorkingDirectoryAreNotTaken) {
  if (!clang()) GTEST_SKIP() << clang().error().render();
  ASSERT_EQ(::mkdir((folder() + "/device").c_str(), 0700), 0);
  ASSERT_TRUE(base::write_file_atomically(folder() + "/device/twice.h", "#error of another Codetta\n"));
  const std::string here = std::filesystem::current_path();
  std::filesystem::current_path(folder());
  const auto made = compile_hip(*clang(),
                                {"#include \"device/twice.h\"\n" + std::string(kernel_source),
                                 "twice",
                                 {"--offload-arch=gfx942", "-O2"},
                                 std::array<CudaHeader, 1>{{{"device/twice.h", "#pragma once\n", "1"}}}},
                                {});
  std::filesystem::current_path(here);
  EXPECT_TRUE(made) << made.error().render();
}

TEST_F(HipClang, DamagedObjectsAreErrorsAndNothingElse) {
  for (const std::string& bytes : {std::string(), std::string("\177ELF"), std::string(200, '\0')}) {
    const auto read = read_code_object(bytes, "x");
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code(), static_cast<uint16_t>(diag::Code::compiler_failed));
  }
  if (!clang()) return;
  const auto made = compile_hip(*clang(), {kernel_source, "twice", {"--offload-arch=gfx942", "-O2"}, {}}, {});
  ASSERT_TRUE(made) << made.error().render();
  for (size_t size = 0; size < made->object.size(); size += 7)
    (void)read_code_object(std::string_view(made->object).substr(0, size), "x");
  for (size_t at = 0; at < made->object.size(); ++at) {
    std::string bytes = made->object;
    bytes[at] = static_cast<char>(~bytes[at]);
    const auto read = read_code_object(bytes, "x");
    if (read) {
      EXPECT_LE(read->size(), 65536u);
    }
  }
}

}  // namespace
}  // namespace codetta::toolchain

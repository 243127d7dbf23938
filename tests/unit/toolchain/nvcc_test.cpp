// SPDX-License-Identifier: Apache-2.0
// nvcc as it is called for CUTLASS's kernels, and everything that can go wrong with it. The compilers are scripts.
#include "toolchain/nvcc.hpp"

#include <algorithm>
#include <thread>

#include "compilers.hpp"
#include "diag/diagnostic.hpp"

namespace codetta::toolchain {
namespace {

const CutlassHeaders cutlass{"/opt/cutlass/include", "4.2.0"};

class Nvcc : public CompilerTest {
 protected:
  Result<std::string> compile(const std::string& body, NvccOptions options = {}) {
    options.path = system_path;
    return compile_cutlass(script("nvcc", body), cutlass, "int source;\n", {"-arch=sm_90a"}, options);
  }
  static void expect(const Result<std::string>& made, diag::Code code, const std::string& text) {
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code(), static_cast<uint16_t>(code)) << made.error().render();
    EXPECT_NE(made.error().render().find(text), std::string::npos) << made.error().render();
    EXPECT_FALSE(made.error().diagnostics()[0].help.empty());
  }
  // Its last two arguments: where the library goes, and the source.
  const std::string last = "for a; do library=$source; source=$a; done\n";
};

TEST_F(Nvcc, IsToldOfHeadersFlagsAndFiles) {
  const auto made = compile(last + "echo \"$@\" > $library; cat $source >> $library\n");
  ASSERT_TRUE(made.has_value()) << made.error().render();
  for (const char* word : {"-arch=sm_90a ", "-shared ", "-Xcompiler=-fPIC ", "-I/opt/cutlass/include ", "int source;"})
    EXPECT_NE(made->find(word), std::string::npos) << *made;
}

TEST_F(Nvcc, TellsWhatItRejects) {
  const auto made = compile(
      "echo 'remark: nothing' >&2; for i in 1 2 3 4 5 6 7; do echo \"kernel.cu($i): error: of line $i\" >&2; done; "
      "exit 2\n");
  expect(made, diag::Code::compile_rejected, "kernel.cu(5): error: of line 5");
  EXPECT_EQ(made.error().render().find("line 6"), std::string::npos) << "five lines are enough";
  EXPECT_EQ(made.error().render().find("remark"), std::string::npos) << made.error().render();
  expect(compile("echo 'out of luck' >&2; exit 1\n"), diag::Code::compile_rejected, "out of luck");
}

TEST_F(Nvcc, WithoutAHostCompilerIsNoMistakeOfTheSource) {
  for (const char* said :
       {"gcc: No such file or directory\nnvcc fatal   : Failed to preprocess host compiler properties.",
        "nvcc fatal   : Cannot find compiler 'g++' in PATH (cannot find compiler)",
        "host_config.h:147:2: error: #error -- unsupported GNU version! using an unsupported host "
        "compiler may cause compilation failure"})
    expect(compile("printf '%s\\n' \"" + std::string(said) + "\" >&2; exit 1\n"), diag::Code::compiler_missing,
           "nvcc has no host compiler that it can use");
}

TEST_F(Nvcc, ThatLeavesNothingOrDoesNotStart) {
  expect(compile("exit 0\n"), diag::Code::compiler_failed, "nvcc left no library");
  expect(compile_cutlass(path("none"), cutlass, "", {}, {}), diag::Code::compiler_failed, "nvcc could not be started");
}

TEST_F(Nvcc, ThatTakesTooLongOrIsCancelled) {
  NvccOptions options;
  options.timeout_seconds = 0.2;
  expect(compile("exec sleep 60\n", options), diag::Code::compile_timeout, "nvcc took longer than 0 s");
  std::atomic<bool> cancel = false;
  options = {};
  options.cancel = &cancel;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    cancel = true;
  });
  expect(compile("exec sleep 60\n", options), diag::Code::compile_cancelled, "was cancelled");
  later.join();
}

TEST_F(Nvcc, IsFoundInTheNamedToolkitFirst) {
  ASSERT_EQ(::mkdir(path("bin").c_str(), 0755), 0);
  ASSERT_EQ(::mkdir(path("other").c_str(), 0755), 0);
  const std::string named = script("bin/nvcc", "exit 0\n"), other = script("other/nvcc", "exit 0\n");
  EXPECT_EQ(*find_nvcc({.cuda_home = folder(), .path = path("other")}), named);
  EXPECT_EQ(*find_nvcc({.cuda_home = path("nowhere"), .path = path("other")}), other);
}

}  // namespace
}  // namespace codetta::toolchain

// SPDX-License-Identifier: Apache-2.0
// nvcc as the compiler of CUDA kernels: found or not, and everything that can go wrong with it, by scripts; and one
// kernel by an nvcc of this machine, where there is one.
#include "toolchain/cuda_nvcc.hpp"

#include <unistd.h>

#include <atomic>

#include "compilers.hpp"
#include "diag/diagnostic.hpp"

namespace codetta::toolchain {
namespace {

using diag::Code;

class CudaByNvcc : public CompilerTest {
 protected:
  // Answers as nvcc 13.0 does, and compiles by `body`, whose $out is the file that is wanted.
  [[nodiscard]] std::string nvcc(const std::string& body, const std::string& version = "release 13.0, V13.0.88") const {
    return script("nvcc", "case \"$1\" in\n--version) echo 'Cuda compilation tools, " + version +
                              "'; exit;;\n--dryrun) echo '#$ _HERE_=" + folder() +
                              "/real' >&2; echo '#$ CICC_PATH=" + folder() +
                              "/real' >&2; exit;;\nesac\nall=\"$*\"\nwhile [ $# -gt 0 ]; do [ \"$1\" != -o ] || "
                              "out=$2; shift; done\n" +
                              body);
  }
  [[nodiscard]] Result<CudaNvccRef> find(const std::string& file, const std::atomic<bool>* cancel = nullptr) const {
    return CudaNvcc::find({.file = file, .cuda_home = {}, .path = system_path, .library_path = {}, .cancel = cancel});
  }
  [[nodiscard]] Result<CudaOutput> compile(const std::string& body, CudaJob job, double timeout = 20) const {
    const auto found = find(nvcc(body));
    EXPECT_TRUE(found) << found.error().render();
    if (!found) return found.error();
    return (*found)->compile(job, {.timeout_seconds = timeout, .keep_dir = folder() + "/kept"});
  }
  [[nodiscard]] Result<CudaOutput> compile(const std::string& body, double timeout = 20) const {
    return compile(body, job(), timeout);
  }
  static CudaJob job() {
    CudaJob made;
    made.source = "#include \"cuda/x.h\"\n\n__global__ void f() { y(); }\n";
    made.label = "a_kernel";
    made.flags = {"--gpu-architecture=sm_90a", "--std=c++17", "--device-as-default-execution-space", "--fmad=true"};
    made.headers = headers;
    return made;
  }
  static constexpr CudaHeader headers[] = {{"cuda/x.h", "#include \"cuda/y.h\"\n", "1"},
                                           {"cuda/y.h", "// nothing\n__device__ void y(int);\n", "2"},
                                           {"cuda/z.h", "#error\n", "3"}};
  template <class T>
  static void expect(const Result<T>& made, Code code, const std::string& text) {
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code(), static_cast<uint16_t>(code)) << made.error().render();
    EXPECT_NE(made.error().render().find(text), std::string::npos) << made.error().render();
    EXPECT_FALSE(made.error().diagnostics()[0].help.empty()) << made.error().render();
  }
};

TEST_F(CudaByNvcc, IsFoundAndKnownByItsParts) {
  expect(find(path("nothing")), Code::cuda_compiler_missing, "there is no program " + path("nothing"));
  const auto usual = CudaNvcc::find({.cuda_home = folder(), .path = folder()});
  if (!usual)  // no toolkit here
    expect(usual, Code::cuda_compiler_missing, "looked in " + folder() + "/bin:" + folder() + ":/usr/local/cuda/bin");
  expect(find(script("mute", "exit 3\n")), Code::cuda_compiler_unusable, "is no nvcc");
  expect(find(script("chatty", "echo release soon\n")), Code::cuda_compiler_unusable, "exit status 0");
  expect(find(nvcc("", "release 11.8, V11.8.89")), Code::cuda_compiler_unusable,
         "is nvcc 11.8, and 12.0 is the oldest that is supported");
  const std::atomic<bool> cancel = true;
  expect(find(nvcc(""), &cancel), Code::compile_cancelled, "the search for a CUDA compiler was cancelled");

  ASSERT_TRUE(base::make_private_directory(path("real")));
  (void)script("real/ptxas", "exit 0\n");
  (void)script("real/cicc", "exit 0\n");
  const auto found = find(nvcc(""));
  ASSERT_TRUE(found) << found.error().render();
  EXPECT_EQ((*found)->version(), 13000);
  const std::vector<std::string> parts{path("nvcc"), path("real/ptxas"), path("real/cicc")};
  EXPECT_EQ((*found)->identity_files(), parts);
  const std::string identity = (*found)->identity();
  EXPECT_EQ(find(path("nvcc")).value()->identity(), identity);
  (void)script("real/ptxas", "exit 1\n");
  EXPECT_NE((*found)->identity(), identity) << "another assembler makes other code";
  EXPECT_NE(find(nvcc("", "release 13.1, V13.1.1")).value()->identity(), identity);
  ASSERT_TRUE(base::remove_tree(path("real")));
  EXPECT_EQ((*found)->identity(), "") << "a part is gone";
}

TEST_F(CudaByNvcc, IsToldOfFlagsAndHeaders) {
  CudaJob wanted = job();
  wanted.want_ptx = true;
  const auto made = compile(
      "echo \"ptxas info    : Compiling entry function 'f' for 'sm_90a'\" >&2\n"
      "echo 'ptxas info    : Function properties for f' >&2\n"
      "echo '    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads' >&2\n"
      "echo 'ptxas info    : Used 40 registers, used 1 barriers' >&2\n"
      "echo $all > $out; cat kernel.cu cuda/x.h cuda/y.h >> $out; ls cuda >> $out\n",
      wanted);
  ASSERT_TRUE(made.has_value()) << made.error().render();
  for (const char* word : {"--expt-relaxed-constexpr ", "--ptxas-options=-v ", "--gpu-architecture=sm_90a ", "-cubin ",
                           " kernel.cu\n", "void f()", "__device__ void y(int);"})
    EXPECT_NE(made->cubin.find(word), std::string::npos) << word << made->cubin;
  EXPECT_EQ(made->cubin.find("--device-as-default-execution-space"), std::string::npos) << "NVRTC's own";
  EXPECT_EQ(made->cubin.find("z.h"), std::string::npos) << "what is not included is not written";
  EXPECT_NE(made->ptx.find("-ptx "), std::string::npos) << made->ptx;
  ASSERT_EQ(made->remarks.size(), 1U);
  EXPECT_EQ(made->remarks[0].registers, 40);
  EXPECT_EQ(made->remarks[0].spill_load_bytes, 12);
  EXPECT_GT(made->seconds, 0);
}

TEST_F(CudaByNvcc, TellsWhatItRejectsAndWhere) {
  const auto made = compile(
      "here=$(pwd); echo \"$here/cuda/y.h(2): error: too few arguments\" >&2\n"
      "echo 'kernel.cu(3): error: identifier \"y\" is undefined' >&2; exit 2\n");
  expect(made, Code::compile_rejected, "nvcc 13.0 found 2 errors");
  const std::string told = made.error().render();
  EXPECT_NE(told.find("cuda/y.h:2:"), std::string::npos) << told;
  EXPECT_NE(told.find("__device__ void y(int);"), std::string::npos) << "the line is shown: " << told;
  EXPECT_NE(told.find("/kept/kernel-"), std::string::npos) << "in the kept source: " << told;
  EXPECT_EQ(told.find("/dev/shm"), std::string::npos) << "not in a folder that is gone: " << told;
}

TEST_F(CudaByNvcc, WhatElseGoesWrong) {
  expect(compile("exit 0\n"), Code::compiler_failed, "it made no binary");
  expect(compile("kill -9 $$\n"), Code::compiler_failed, "crashed on 'a_kernel'");
  expect(compile("exec sleep 20\n", 0.2), Code::compile_timeout, "'a_kernel' in time");
  expect(compile("echo \"nvcc fatal   : Unsupported gpu architecture 'compute_90a'\" >&2; exit 1\n"),
         Code::cuda_architecture, "nvcc 13.0 does not know the architecture sm_90a");
  expect(compile("echo 'nvcc fatal   : Failed to preprocess host compiler properties.' >&2; exit 1\n"),
         Code::compiler_missing, "no host compiler");
  expect(compile("echo 'x.ii: No space left on device' >&2; exit 1\n"), Code::compile_folder, "No space left");
  std::atomic<bool> cancel = false;
  const auto found = find(nvcc("touch " + path("runs") + "; exec sleep 20\n"), &cancel);
  ASSERT_TRUE(found);
  cancel = true;
  expect((*found)->compile(job(), {}), Code::compile_cancelled, "the compile of 'a_kernel' was cancelled");
  const auto gone = find(nvcc("exit 0\n"));
  ASSERT_TRUE(gone);
  ASSERT_EQ(::unlink(path("nvcc").c_str()), 0);
  expect((*gone)->compile(job(), {}), Code::compiler_failed, "could not be started");
}

TEST_F(CudaByNvcc, SeveralAtOnceInTheirOrder) {
  const auto found = find(nvcc("grep -q bad kernel.cu && exit 1; cat kernel.cu > $out\n"));
  ASSERT_TRUE(found);
  std::vector<CudaJob> jobs(5, job());
  for (size_t i = 0; i < jobs.size(); ++i) jobs[i].source += (i == 3 ? "bad" : "// " + std::to_string(i));
  const auto made = compile_all(**found, jobs, {}, 3);
  ASSERT_EQ(made.size(), 5U);
  for (size_t i = 0; i < made.size(); ++i) EXPECT_EQ(made[i].has_value(), i != 3) << i;
  EXPECT_NE(made[4]->cubin.find("// 4"), std::string::npos);
}

// Without a GPU: the machine's own nvcc makes a cubin with remarks.
TEST_F(CudaByNvcc, CompilesHere) {
  const auto found = CudaNvcc::find({.path = system_path});
  if (!found && found.error().code() == static_cast<uint16_t>(Code::cuda_compiler_missing))
    GTEST_SKIP() << found.error().render();
  ASSERT_TRUE(found) << found.error().render();
  EXPECT_GE((*found)->identity_files().size(), 3U);
  EXPECT_NE((*found)->identity(), "");
  CudaJob small = job();
  small.source =
      "extern \"C\" __global__ void scale(float* x, float by) { x[threadIdx.x] = x[threadIdx.x] * by + 1.0f; }\n";
  const auto made = (*found)->compile(small, {});
  if (!made && made.error().code() == static_cast<uint16_t>(Code::compiler_missing)) GTEST_SKIP() << "no host compiler";
  ASSERT_TRUE(made) << made.error().render();
  EXPECT_EQ(made->cubin.substr(1, 3), "ELF");
  ASSERT_EQ(made->remarks.size(), 1U);
  EXPECT_EQ(made->remarks[0].kernel, "scale");
  EXPECT_GT(made->remarks[0].registers, 0);
}

}  // namespace
}  // namespace codetta::toolchain

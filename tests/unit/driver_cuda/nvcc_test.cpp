// SPDX-License-Identifier: Apache-2.0
// nvcc in the place of NVRTC, over the pretended driver: a script that makes the binaries which the driver wants.
#include <sys/stat.h>

#include "unit/driver_cuda/fixture.hpp"

namespace codetta {
namespace {

class CudaNvccApi : public CudaApi {
 protected:
  // Answers as nvcc of `version` does; each compile adds a line to `runs`, and fails where the source has `refused`.
  ContextOptions by_nvcc(const std::string& version = "13.0", const std::string& refused = "no such text") {
    const std::string text =
        "#!/bin/sh\n[ \"$1\" != --version ] || { echo 'release " + version + ", V" + version +
        ".1'; exit; }\n[ \"$1\" != --dryrun ] || exit 0\necho run >> " + runs() +
        "\nptx=; while [ $# -gt 0 ]; do [ \"$1\" != -o ] || out=$2; [ \"$1\" != -ptx ] || ptx=1; shift; done\n"
        "if grep -q '" +
        refused +
        "' kernel.cu; then echo 'kernel.cu(2): error: it is refused' >&2; exit 2; fi\n"
        "names=$(sed -n 's/.*__global__ void __launch_bounds__([^)]*) \\([A-Za-z0-9_]*\\)(.*/\\1 /p' kernel.cu | tr -d "
        "'\\n')\n"
        "if [ -n \"$ptx\" ]; then echo \".entry $names\" > $out; else printf '\\177ELF%s' \"$names\" > $out; head -c "
        "256 /dev/zero >> $out; fi\n"
        "for name in $names; do echo \"ptxas info    : Compiling entry function '$name' for 'sm_90a'\"; "
        "echo 'ptxas info    : Used 33 registers, used 1 barriers'; done >&2\n";
    EXPECT_TRUE(base::write_file_atomically(nvcc(), text));
    EXPECT_EQ(::chmod(nvcc().c_str(), 0755), 0);
    ContextOptions made = options();
    made.cuda_compiler = nvcc();
    return made;
  }
  [[nodiscard]] std::string nvcc() const { return folder_->path() + "/nvcc"; }
  [[nodiscard]] std::string runs() const { return folder_->path() + "/runs"; }
  [[nodiscard]] size_t compiles() const {
    const auto text = base::read_file(runs(), 1 << 20);
    return text ? static_cast<size_t>(std::count(text->begin(), text->end(), '\n')) : 0;
  }
};

TEST_F(CudaNvccApi, CompilesRunsAndIsKept) {
  Context c = Context::make(by_nvcc()).value();
  const Problem p = problem(c);
  const KernelList found = kernels(p, c);
  Execution execution = found.prepare(p.arguments).value();
  EXPECT_GT(execution.compile_seconds(), 0);
  ASSERT_TRUE(execution.run());
  EXPECT_EQ(verify(p.arguments, {}, {Backend::cuda, {}, ""}, 1, c)->verdict, VerifyReport::Verdict::Pass);
  EXPECT_EQ(nvrtc_.compiles, 0) << "NVRTC is not asked";
  EXPECT_EQ(compiles(), 1U);
  const std::string told = explain(p.arguments, {Backend::cuda, {}, ""}, false, c).value();
  EXPECT_NE(told.find("33 registers"), std::string::npos) << told;
  EXPECT_NE(found[0].emit(Stage::Ptx)->find(".entry codetta_gemm"), std::string::npos);
  const size_t before = compiles();
  Context later = Context::make(by_nvcc()).value();
  ASSERT_TRUE(kernels(p, later).prepare(p.arguments));
  EXPECT_EQ(compiles(), before) << "found";
  // Another nvcc, or NVRTC, makes other binaries.
  Context newer = Context::make(by_nvcc("13.1")).value();
  ASSERT_TRUE(kernels(p, newer).prepare(p.arguments));
  EXPECT_EQ(compiles(), before + 1);
  Context usual = context();
  ASSERT_TRUE(kernels(p, usual).prepare(p.arguments));
  EXPECT_EQ(nvrtc_.compiles, 1);
}

TEST_F(CudaNvccApi, SeveralSideBySide) {
  Context c = Context::make(by_nvcc()).value();
  const auto program = Program::parse(
                           "def two(x: f32[\"rows\", 17], v: f32[17, 20], w: f32[20, 8]):\n"
                           "    y = sum(relu(x @ v), dim=0) @ w\n"
                           "    return y\n",
                           "two.py")
                           .value();
  const auto compiled = compile(program, {Backend::cuda, {}, "sm_80"}, {{"rows", 33}}, c, {}, true);
  ASSERT_TRUE(compiled) << compiled.error().render();
  EXPECT_GE(compiles(), 2U);
  EXPECT_EQ(nvrtc_.compiles, 0);
}

TEST_F(CudaNvccApi, WhatGoesWrong) {
  Context good = context();
  const Problem p = problem(good);
  Context c = Context::make(by_nvcc("13.0", "codetta_gemm")).value();
  const auto refused = kernels(p, c)[0].prepare(p.arguments);
  expect(refused, diag::Code::compile_rejected, "nvcc 13.0 found 1 error");
  EXPECT_NE(refused.error().render().find("/cache/kernel-"), std::string::npos) << refused.error().render();
  Context old = Context::make(by_nvcc("11.8")).value();
  expect(kernels(p, old)[0].prepare(p.arguments), diag::Code::cuda_compiler_unusable, "is nvcc 11.8");
  ContextOptions made = options();
  for (const char* name : {"clang", "./nvcc", "NVCC"}) {
    made.cuda_compiler = name;
    expect(Context::make(made), diag::Code::option_range, std::string("no CUDA compiler is called '") + name + "'");
  }
  made.cuda_compiler = "nvrtc";
  made.nvrtc = "/nonexistent/libnvrtc.so.13";
  Context none = Context::make(made).value();
  expect(kernels(p, none)[0].prepare(p.arguments), diag::Code::cuda_compiler_missing, "/nonexistent/libnvrtc.so.13");
  made = by_nvcc();
  made.no_jit = true;
  Context frozen = Context::make(made).value();
  expect(kernels(p, frozen)[0].prepare(p.arguments), diag::Code::jit_disabled, "is not in the cache");
}

TEST_F(CudaApi, EmissionAssumesAnArchitectureWhereNoDeviceIs) {
  Context here = context();
  EXPECT_EQ(emission_target({Backend::cuda, {}, ""}, here)->to_string(), "cuda:sm_90a") << "the device's";
  EXPECT_EQ(emission_target({Backend::cuda, {}, "sm_80"}, here)->to_string(), "cuda:sm_80");
  EXPECT_EQ(emission_target({Backend::cpu, CpuIsa::avx2, ""}, here)->to_string(), "cpu:avx2");
  ContextOptions without = options();
  without.cuda_driver = "/nonexistent/libcuda.so.1";
  without.hip_runtime = "/nonexistent/libamdhip64.so";
  Context none = Context::make(without).value();
  EXPECT_EQ(emission_target({Backend::cuda, {}, ""}, none)->to_string(), "cuda:sm_90a");
  EXPECT_EQ(emission_target({Backend::hip, {}, ""}, none)->to_string(), "hip:gfx942");
  EXPECT_EQ(emission_target({Backend::cuda, {}, "sm_100a"}, none)->to_string(), "cuda:sm_100a");
  EXPECT_EQ(emission_target({Backend::metal, {}, ""}, none)->to_string(), "metal:apple7");
  without.device = 3;
  Context third = Context::make(without).value();
  expect(emission_target({Backend::cuda, {}, ""}, third), diag::Code::driver_missing, "/nonexistent/libcuda.so.1");
}

}  // namespace
}  // namespace codetta

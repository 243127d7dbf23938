// SPDX-License-Identifier: Apache-2.0
// NVRTC: found or not, compiled or rejected. Compiling needs the library (no GPU, no driver); without it those tests
// are skipped.
#include "toolchain/nvrtc.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.hpp"
#include "diag/diagnostic.hpp"
#include "package/image.hpp"
#include "support/users_source.hpp"
#include "toolchain/nvrtc_failure.hpp"

namespace codetta::toolchain {
namespace {

using diag::Code;

template <class T>
void expect(const Result<T>& result, Code code, std::string_view part) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), static_cast<uint16_t>(code)) << result.error().render();
  EXPECT_NE(result.error().render().find(part), std::string::npos) << result.error().render();
  EXPECT_NE(result.error().render().find("help: "), std::string::npos) << result.error().render();
}

TEST(NvrtcFinding, MissingLibrary) {
  expect(Nvrtc::find({.file = "/nonexistent/libnvrtc.so"}), Code::cuda_compiler_missing, "/nonexistent/libnvrtc.so");
}

TEST(NvrtcFinding, AnotherLibraryAndDamage) {
  expect(Nvrtc::find({.file = "libm.so.6"}), Code::cuda_compiler_unusable, "lacks nvrtcVersion");
  const auto folder = base::TemporaryDirectory::make("/tmp");
  ASSERT_TRUE(folder);
  const std::string file = folder->path() + "/libnvrtc.so";
  ASSERT_TRUE(base::write_file_atomically(file, "this is no library"));
  expect(Nvrtc::find({.file = file}), Code::cuda_compiler_unusable, file);
}

TEST(NvrtcHeaders, AreFoundThroughOthers) {
  const CudaHeader headers[] = {{"cuda/a.h", "#include \"cuda/b.h\"\n", "1"},
                                {"cuda/b.h", "  #  include \"cuda/a.h\"\n", "2"},
                                {"cuda/c.h", "", "3"}};
  const auto found = included_headers("// #include \"cuda/c.h\"\n#include \"cuda/a.h\"\n", headers);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].path, "cuda/a.h");
  EXPECT_EQ(found[1].path, "cuda/b.h");
  EXPECT_TRUE(included_headers("int x;", headers).empty());
}

TEST(NvrtcMessages, AreTakenApart) {
  const auto messages = parse_cuda_messages(
      "kernel.cu(3): error: identifier \"x\" is undefined\n    y = x;\n        ^\n\n"
      "cuda/a.h(17): warning #177-D: variable \"z\" was declared but never referenced\n"
      "kernel.cu(9): catastrophic error: cannot open source file \"no.h\"\n"
      "ptxas fatal   : (C7600) Register allocation failed\n1 error detected\n");
  ASSERT_EQ(messages.size(), 4U);
  EXPECT_EQ(messages[0].file, "kernel.cu");
  EXPECT_EQ(messages[0].line, 3U);
  EXPECT_EQ(messages[0].text, "identifier \"x\" is undefined");
  EXPECT_FALSE(messages[1].is_error);
  EXPECT_EQ(messages[1].line, 17U);
  EXPECT_TRUE(messages[2].is_error);
  EXPECT_TRUE(messages[3].is_error);
  EXPECT_EQ(messages[3].line, 0U);
}

// An error in a template of a header is the mistake of whoever asks for that.
TEST(CudaMessages, TemplatesAreAskedForByTheUsersText) {
  const auto messages = parse_cuda_messages(
      "device/gpu/hook.h(50): error: static assertion failed with \"an index a dim\"\n      static_assert(...);\n      "
      "^\n"
      "          detected during instantiation of \"void Hook<T>::store(Given...) [with T=float]\" at line 4 of "
      "mine.cu\n"
      "\n"
      "device/gpu/hook.h(63): error: invalid type conversion\n          detected during:\n"
      "            instantiation of \"void Hook<T>::take<Place>(int64_t *) [with T=float]\" at line 64\n"
      "            instantiation of \"void Hook<T>::store(Given...) [with T=float]\" at line 5 of mine.cu\n\n"
      "device/gpu/hook.h(70): error: of nobody's\n          detected during instantiation of \"f\" at line x of "
      "mine.cu\n");
  ASSERT_EQ(messages.size(), 3U);
  const std::string source = test::users_source("mine.cu", "");
  const UsersText users = *UsersText::in(source);
  EXPECT_EQ(in_users_text(messages[0], users).file, "mine.cu");
  EXPECT_EQ(in_users_text(messages[0], users).line, 4U);
  EXPECT_EQ(in_users_text(messages[1], users).file, "mine.cu");
  EXPECT_EQ(in_users_text(messages[1], users).line, 5U);
  EXPECT_EQ(in_users_text(messages[2], users).file, "device/gpu/hook.h");
  EXPECT_EQ(in_users_text(messages[2], users).line, 70U);
}

TEST(PtxasRemarks, DamagedOnesAreKeptAsWell) {
  std::string log = "ptxas info    : Compiling entry function 'a b' for 'sm_90'\n";
  for (int i = 0; i < 3; ++i)
    log += "ptxas info    : 9223372036854775807 bytes stack frame, 9223372036854775807 bytes spill stores\n";
  log += "ptxas warning\t: tabs\tinside\n";
  const auto remarks = parse_ptxas_remarks(log);
  ASSERT_EQ(remarks.size(), 1U);
  EXPECT_EQ(remarks[0].kernel, "");
  EXPECT_GT(remarks[0].spill_store_bytes, remarks[0].stack_bytes);
  EXPECT_EQ(remarks[0].lines, std::vector<std::string>{"ptxas warning : tabs inside"});
  EXPECT_EQ(decode_remarks(encode_remarks(remarks)), remarks);
}

TEST(PtxasRemarks, AreParsedAndKept) {
  const auto remarks = parse_ptxas_remarks(
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to x in "
      "function 'two'\n"
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'one' for 'sm_90a'\n"
      "ptxas info    : Function properties for one\n"
      "ptxas         .     256 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 9 barriers, 256 bytes cumulative stack size, 1024 bytes smem\n"
      "ptxas info    : Compile time = 23.110 ms\n"
      "ptxas info    : Compiling entry function 'two' for 'sm_90a'\n"
      "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 32 registers, used 0 barriers\n");
  ASSERT_EQ(remarks.size(), 2U);
  EXPECT_EQ(remarks[0].kernel, "one");
  EXPECT_EQ(remarks[0].registers, 168);
  EXPECT_EQ(remarks[0].barriers, 9);
  EXPECT_EQ(remarks[0].shared_bytes, 1024);
  EXPECT_EQ(remarks[0].stack_bytes, 256);
  EXPECT_EQ(remarks[0].spill_store_bytes, 24);
  EXPECT_EQ(remarks[0].spill_load_bytes, 32);
  EXPECT_FALSE(remarks[0].serialized);
  EXPECT_TRUE(remarks[1].serialized);
  EXPECT_EQ(remarks[1].lines.size(), 1U);
  EXPECT_EQ(decode_remarks(encode_remarks(remarks)), remarks);
  EXPECT_TRUE(decode_remarks("one 1 2 x").empty());

  expect(check_remarks(remarks, "label"), Code::kernel_resources, "24 bytes stored and 32 loaded");
  expect(check_remarks({remarks[1]}, "label"), Code::kernel_resources, "C7510");
  PtxasRemarks clean = remarks[1];
  clean.serialized = false;
  EXPECT_TRUE(check_remarks({clean}, "label"));
  clean.stack_bytes = 8;
  expect(check_remarks({clean}, "label"), Code::kernel_resources, "stack of 8 bytes");
}

class NvrtcCompiling : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* home = CODETTA_NVRTC_HOME;  // what tools/bootstrap nvrtc fetched, if it did
    auto found = Nvrtc::find({.cuda_home = home});
    if (!found) GTEST_SKIP() << found.error().message();
    nvrtc_ = *std::move(found);
  }
  static CudaJob job(std::string source, const char* arch = "sm_90a") {
    CudaJob made;
    made.source = std::move(source);
    made.label = "test";
    made.flags = {std::string("--gpu-architecture=") + arch, "--std=c++17"};
    return made;
  }
  NvrtcRef nvrtc_;
};

constexpr const char* plain = "extern \"C\" __global__ void k(float* p) { p[threadIdx.x] *= 2.0f; }\n";

TEST_F(NvrtcCompiling, MakesBinaryAndPtx) {
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
    CudaJob wanted = job(plain, arch);
    wanted.want_ptx = true;
    const auto output = nvrtc_->compile(wanted, {});
    if (!output && output.error().code() == static_cast<uint16_t>(Code::cuda_architecture)) continue;
    ASSERT_TRUE(output) << output.error().render();
    EXPECT_TRUE(
        output->cubin.starts_with("\x7f"
                                  "ELF"));
    EXPECT_NE(output->ptx.find(".entry k"), std::string::npos);
    ASSERT_EQ(output->remarks.size(), 1U) << output->log;
    EXPECT_EQ(output->remarks[0].kernel, "k");
    EXPECT_GT(output->remarks[0].registers, 0);
    EXPECT_TRUE(check_remarks(output->remarks, "k"));
  }
}

TEST_F(NvrtcCompiling, IsRepeatable) {
  const auto first = nvrtc_->compile(job(plain), {}), second = nvrtc_->compile(job(plain), {});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->cubin, second->cubin);
}

TEST_F(NvrtcCompiling, FindsHeadersInMemory) {
  const CudaHeader headers[] = {{"cuda/a.h", "#pragma once\n#include \"cuda/b.h\"\n", "1"},
                                {"cuda/b.h", "#pragma once\n#define FACTOR 3.0f\n", "2"}};
  CudaJob wanted =
      job("#include \"cuda/a.h\"\nextern \"C\" __global__ void k(float* p) { p[threadIdx.x] *= FACTOR; }\n");
  wanted.headers = headers;
  EXPECT_TRUE(nvrtc_->compile(wanted, {}));
}

TEST_F(NvrtcCompiling, ReportsSpillsOfTheKernel) {
  std::string source =
      "extern \"C\" __global__ void __launch_bounds__(1024) k(float* p, int n) {\n  float a[128];\n"
      "#pragma unroll\n  for (int i = 0; i < 128; ++i) a[i] = p[i * n];\n  __syncthreads();\n"
      "#pragma unroll\n  for (int i = 0; i < 128; ++i) p[i * n + 1] = a[127 - i] * a[i];\n}\n";
  const auto output = nvrtc_->compile(job(source), {});
  ASSERT_TRUE(output) << output.error().render();
  expect(check_remarks(output->remarks, "k"), Code::kernel_resources, "k does not fit the registers");
}

TEST_F(NvrtcCompiling, RejectionPointsIntoTheKeptSource) {
  const auto folder = base::TemporaryDirectory::make("/tmp");
  ASSERT_TRUE(folder);
  const auto output = nvrtc_->compile(job("extern \"C\" __global__ void k(float* p) {\n  p[0] = missing;\n}\n"),
                                      {.timeout_seconds = 60, .keep_dir = folder->path()});
  expect(output, Code::compile_rejected, "identifier \"missing\" is undefined");
  const Diagnostic& diagnostic = output.error().diagnostics().front();
  EXPECT_EQ(diagnostic.where.line, 2U);
  EXPECT_EQ(diagnostic.where.line_text, "  p[0] = missing;");
  EXPECT_TRUE(std::filesystem::exists(diagnostic.where.file)) << diagnostic.where.file;
}

// What a kernel of the user's calls and nobody defines is found by the assembler, which knows no lines; what Codetta's
// text calls is no mistake of the user's.
TEST_F(NvrtcCompiling, WhatIsDefinedNowhereIsShownInTheUsersText) {
  const std::string calls =
      "__device__ float missing(float);\n"
      "extern \"C\" __global__ void k(float* p) {\n  p[0] = missing(1.0f);\n}\n";
  const auto output = nvrtc_->compile(job(test::users_source("own.cu", calls)), {});
  expect(output, Code::user_source, "uses what is not defined: missing(float)");
  const Diagnostic& diagnostic = output.error().diagnostics().front();
  EXPECT_EQ(diagnostic.where.file, "own.cu");
  EXPECT_EQ(diagnostic.where.line, 3U);
  expect(nvrtc_->compile(job(test::users_source("own.cu", "", calls)), {}), Code::compile_rejected, "missing");
}

TEST_F(NvrtcCompiling, UnknownArchitecture) {
  expect(nvrtc_->compile(job(plain, "sm_20"), {}), Code::cuda_architecture, "sm_20");
}

TEST_F(NvrtcCompiling, WrongFlag) {
  CudaJob wanted = job(plain);
  wanted.flags.emplace_back("--no-such-flag");
  expect(nvrtc_->compile(wanted, {}), Code::compile_rejected, "no-such-flag");
}

TEST_F(NvrtcCompiling, EndsWhenTimeIsUp) {
  if (nvrtc_->version() < 12080) GTEST_SKIP() << "this NVRTC can not be ended";
  expect(nvrtc_->compile(job(plain), {.timeout_seconds = 0, .keep_dir = {}}), Code::compile_timeout, "after");
}

TEST_F(NvrtcCompiling, SeveralAtOnceKeepTheirOrder) {
  std::vector<CudaJob> jobs;
  for (int i = 0; i < 6; ++i) {
    jobs.push_back(job("extern \"C\" __global__ void k" + std::to_string(i) + "(float* p) { p[0] = 1; }\n"));
  }
  jobs[3].source = "wrong";
  const auto results = compile_all(*nvrtc_, jobs, {}, 3);
  ASSERT_EQ(results.size(), jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    ASSERT_EQ(results[i].has_value(), i != 3);
    if (i != 3) {
      EXPECT_EQ(results[i]->remarks[0].kernel, "k" + std::to_string(i));
    }
  }
}

constexpr const char* packed_first =
    "struct P { float* x; };\n"
    "template <class T> __device__ void pack_factor(P p) { p.x[threadIdx.x] += 1.0f; }\n"
    "\nextern \"C\" __global__ void __launch_bounds__(64, 1) codetta_pack(const __grid_constant__ P p) {\n"
    "  pack_factor<short>(p);\n}\n"
    "\nextern \"C\" __global__ void __launch_bounds__(64, 1) codetta_gemm(const __grid_constant__ P p) {\n"
    "  p.x[threadIdx.x] *= 2.0f;\n}\n";

TEST(CudaParts, HaveTheProductAndWhatRunsBesideIt) {
  const std::string text = packed_first;
  const auto parts = cuda_parts_of(text);
  ASSERT_EQ(parts.size(), 2U);
  for (const auto& [name, first] : {std::pair("codetta_gemm", true), {"codetta_pack", false}}) {
    EXPECT_EQ(parts[0].find(name) != std::string::npos, first) << name;
    EXPECT_EQ(parts[1].find(name) != std::string::npos, !first) << name;
  }
  EXPECT_TRUE(cuda_parts_of(plain).empty());
  EXPECT_TRUE(cuda_parts_of(text.substr(0, text.rfind("\nextern"))).empty());
}

TEST_F(NvrtcCompiling, PartsHaveTheBytesOfTheirOwnAndOneImage) {
  CudaJob wanted = job(packed_first);
  const auto whole = nvrtc_->compile(wanted, {});
  wanted.divisible = true;
  const auto made = nvrtc_->compile(wanted, {});
  ASSERT_TRUE(whole && made);
  EXPECT_EQ(package::files_of(whole->cubin).size(), 1U);
  const auto files = package::files_of(made->cubin);
  ASSERT_EQ(files.size(), 2U);
  EXPECT_NE(files[0].find("codetta_gemm"), std::string::npos);
  EXPECT_EQ(files[0].find("codetta_pack"), std::string::npos);
  EXPECT_NE(files[1].find("codetta_pack"), std::string::npos);
  ASSERT_EQ(made->remarks.size(), 2U);
  EXPECT_EQ(made->remarks[0].kernel, "codetta_gemm");
  EXPECT_EQ(made->remarks[1].kernel, "codetta_pack");
  // Whatever else runs.
  for (const int parallel : {1, 3}) {
    const auto again = compile_all(*nvrtc_, {wanted, job(plain), wanted}, {}, parallel);
    ASSERT_TRUE(again[0] && again[1] && again[2]);
    EXPECT_EQ(again[0]->cubin, made->cubin);
    EXPECT_EQ(again[1]->remarks[0].kernel, "k");
    EXPECT_EQ(again[2]->cubin, made->cubin);
  }
  wanted.want_ptx = true;
  const auto text = nvrtc_->compile(wanted, {});
  ASSERT_TRUE(text);
  EXPECT_NE(text->ptx.find(".entry codetta_pack"), std::string::npos);
  EXPECT_NE(text->ptx.find(".entry codetta_gemm"), std::string::npos);
}

TEST_F(NvrtcCompiling, WhatIsWrongInAPartIsToldOfTheWhole) {
  const auto folder = base::TemporaryDirectory::make("/tmp");
  ASSERT_TRUE(folder);
  CudaJob wanted = job(packed_first);
  wanted.source.replace(wanted.source.find("*= 2.0f"), 7, "*= none");
  wanted.divisible = true;
  const auto made = nvrtc_->compile(wanted, {.timeout_seconds = 60, .keep_dir = folder->path()});
  expect(made, Code::compile_rejected, "identifier \"none\" is undefined");
  const auto kept = base::read_file(made.error().diagnostics().front().where.file, size_t{1} << 20);
  ASSERT_TRUE(kept);
  EXPECT_NE(kept->find("codetta_pack"), std::string::npos);
  if (nvrtc_->version() >= 12080)
    expect(nvrtc_->compile(wanted, {.timeout_seconds = 0, .keep_dir = {}}), Code::compile_timeout, "after");
}

TEST_F(NvrtcCompiling, HasAnIdentity) {
  const std::string identity = nvrtc_->identity();
  EXPECT_EQ(identity.size(), 32U);
  EXPECT_EQ(nvrtc_->identity(), identity);
  EXPECT_EQ(nvrtc_->identity_files().size(), 2U);
}

}  // namespace
}  // namespace codetta::toolchain

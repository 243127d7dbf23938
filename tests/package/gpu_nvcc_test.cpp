// SPDX-License-Identifier: Apache-2.0
// The form for nvcc: libraries whose kernels a pretended CUDA runtime loads, and the folder of sources.
#include <cstdlib>
#include <filesystem>
#include <set>

#include <nlohmann/json.hpp>

#include "codetta/build.hpp"
#include "package/gpu_library.hpp"

namespace codetta::test {
namespace {

namespace fs = std::filesystem;
using runtime::cuda::Status;

class NvccForm : public OneGpuLibrary<NvccForm> {
 public:
  static constexpr const char* target = "cuda:sm_90a";
  static constexpr bool registered = true;
};

TEST_F(NvccForm, KernelsAreFoundOnceAContext) {
  ASSERT_EQ(library->init(), 0) << library->error();
  const size_t found = gpu.fake.count("cuModuleGetFunction");
  EXPECT_GT(found, 0U);
  EXPECT_EQ(library->call("f", views), 0) << library->error();
  EXPECT_EQ(gpu.fake.launches.size(), 1U);
  EXPECT_EQ(gpu.fake.count("cuModuleGetFunction"), found);
  const auto other = runtime::cuda::Device::open(runtime::cuda::Driver::load(CODETTA_FAKE_DRIVER).value(), 1).value();
  gpu.fake.contexts().push_back(other->context());
  EXPECT_EQ(library->init(), 0) << library->error();
  EXPECT_EQ(gpu.fake.count("cuModuleGetFunction"), 2 * found);
  EXPECT_EQ(gpu.fake.contexts().size(), 1U);
  gpu.fake.contexts().clear();
}

TEST_F(NvccForm, WhatTheRuntimeRefuses) {
  gpu.fake.fail["cuModuleLoadData"] = Status::NoBinaryForGpu;
  expect(-6, "E0430: the kernels are compiled for another architecture");
  gpu.fake.fail["cuModuleLoadData"] = Status::OutOfMemory;
  expect(-4, "E0643");
  gpu.fake.fail.clear();
  ::setenv("CODETTA_PRETENDED_CUDART", "98", 1);
  expect(-6,
         "E0430: the kernels are compiled for another architecture than the device's: the CUDA runtime has no code");
  ::setenv("CODETTA_PRETENDED_CUDART", "35", 1);
  expect(-6, "E0641: the GPU's driver is too old: it is older than the CUDA runtime");
  ::setenv("CODETTA_PRETENDED_CUDART", "999", 1);
  expect(-8, "E0647: asking the CUDA runtime for a kernel failed with error: ");
  ::unsetenv("CODETTA_PRETENDED_CUDART");
  EXPECT_EQ(library->call("f", views), 0) << "a failure leaves all as it was: " << library->error();
}

TEST_F(NvccForm, ChecksOfTheTextStay) {
  gpu.fake.major = 8;
  expect(-6, "this library is made for sm_90a, and Pretended GPU 0 has compute capability 8.0");
  gpu.fake.major = 9;
  const TensorView y = views[2];
  views[2] = TensorView::make(views[0].data(), DType::f32, {4096, 512}).value();
  expect(-3, "output y");
  views[2] = y;
  gpu.fake.fail["cuLaunchKernelEx"] = Status::LaunchOutOfResources;
  expect(-8, "Failed to launch kernel codetta_");
}

TEST_F(NvccForm, TwoHundredLoadsLeaveNothing) { expect_loads_leave_nothing(); }

// ---- the folder ----

std::set<std::string> files_below(const std::string& folder) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.insert(fs::relative(entry.path(), folder).string());
  }
  return files;
}

class NvccFolder : public ::testing::Test {
 protected:
  static Context context() {
    ContextOptions options;
    options.cache_enabled = false;
    options.nvrtc = "/nowhere/libnvrtc.so";  // what is there or not shall make no difference here
    return *Context::make(options);
  }
  static Program program() {
    return Program::parse(
               "def f(x: bf16['m', 256], w: bf16[256, 512], c: f32[512]):\n    y = relu(x @ w + c) @ permute(w, [1, "
               "0])\n"
               "    return y\n",
               "program.py")
        .value();
  }
  void SetUp() override {
    options_.output = work_.path() + "/libmodel";
    options_.form = BuildForm::Nvcc;
    constant_ = Tensor::make(DType::f32, {512}).value();
    options_.constants.push_back({"c", constant_.view()});
  }
  Result<BuildReport> build(const char* target = "cuda:sm_90a") {
    Context made = context();
    return codetta::build({program()}, Target::parse(target).value(), options_, made);
  }
  void expect_refused(const Result<BuildReport>& built, int code, const std::string& part) {
    ASSERT_FALSE(built);
    EXPECT_EQ(built.error().code(), code) << built.error().render();
    EXPECT_NE(built.error().render().find(part), std::string::npos) << built.error().render();
    EXPECT_TRUE(fs::is_empty(work_.path())) << "nothing is left";
  }

  base::TemporaryDirectory work_ = *base::TemporaryDirectory::make("/tmp", "codetta-nvcc-test-");
  BuildOptions options_;
  Tensor constant_;
};

TEST_F(NvccFolder, HasAllThatItsFilesInclude) {
  std::vector<std::string> said;
  options_.progress = [&](std::string_view line) { said.emplace_back(line); };
  const auto built = build();
  ASSERT_TRUE(built) << built.error().render();
  EXPECT_EQ(said, std::vector<std::string>{"there is no NVRTC: kernels are not looked at for spilled registers"});
  EXPECT_EQ(built->library, options_.output + "/libmodel.so");
  EXPECT_EQ(built->functions, std::vector<std::string>{"model_f"});
  const std::set<std::string> files = files_below(options_.output);
  for (const char* name :
       {"model.h", "model.json", "model.map", "model_library.cpp", "model_f.cpp", "model_constants.cpp",
        "constant_0.bin", "build.sh", "runtime/cpu/values.cpp", "types/overlap.cpp"})
    EXPECT_TRUE(files.count(name)) << name;
  const auto read = [&](const std::string& name) { return *base::read_file(options_.output + "/" + name, 1 << 24); };
  const std::string script = read("build.sh");
  const auto manifest = nlohmann::json::parse(read("model.json"));
  std::set<std::string> sources;
  for (const auto& source : manifest["nvcc"]["sources"]) {
    sources.insert(source["file"].get<std::string>());
    EXPECT_NE(script.find(" -c " + source["file"].get<std::string>() + " -o "), std::string::npos) << source;
  }
  std::string programs;
  for (const std::string& name : files) programs += name.starts_with("model_f") ? read(name) : std::string();
  for (const std::string& kernel : built->kernels) {
    ASSERT_TRUE(sources.count(kernel + ".cu")) << kernel;
    const std::string text = read(kernel + ".cu");
    EXPECT_NE(text.find("extern \"C\" int " + kernel + "_function(int entry, void** handle) {"), std::string::npos);
    EXPECT_NE(text.find("cudaGetFuncBySymbol(&found, entries[entry])"), std::string::npos);
    EXPECT_NE(text.find("#define codetta_gemm " + kernel + "_gemm"), std::string::npos) << text.substr(0, 400);
    EXPECT_NE(programs.find(", " + kernel + "_function};"), std::string::npos);
  }
  EXPECT_EQ(built->kernels.size(), 8U)
      << "for 512 rows and for fewer a kernel for each product, and another for tensors that lie anywhere";
  EXPECT_NE(script.find("-gencode=arch=compute_90a,code=sm_90a --expt-relaxed-constexpr --std=c++17"),
            std::string::npos);
  // Files that are listed, and files that are there.
  std::set<std::string> listed = manifest["nvcc"]["files"].get<std::set<std::string>>();
  listed.insert("model.json");
  EXPECT_EQ(listed, files);
  for (const std::string& name : files) {
    if (name.ends_with(".bin") || name.ends_with(".json")) continue;
    const std::string text = read(name);
    for (size_t at = text.find("#include \""); at != std::string::npos; at = text.find("#include \"", at + 1)) {
      const size_t from = at + 10;
      const std::string included = text.substr(from, text.find('"', from) - from);
      EXPECT_TRUE(files.count(included)) << name << " includes " << included;
    }
  }
  EXPECT_NE(fs::status(options_.output + "/build.sh").permissions() & fs::perms::owner_exec, fs::perms::none);
  const std::string before = read("model_f.cpp");
  ASSERT_TRUE(build()) << "over what is there";
  EXPECT_EQ(read("model_f.cpp"), before);
}

// A name that another file has, and user kernels of one name.
TEST_F(NvccFolder, NamesOfTheirOwn) {
  const char* text = "def library(x: f32['m', 4]):\n    y = user_kernel('mix', x, out='f32[m, 4]')\n    return y\n";
  const auto source = [](int block) {
    return "#pragma codetta kernel(x: f32[m, 4], out y: f32[m, 4]) block(" + std::to_string(block) +
           ") grid(m)\nextern \"C\" __global__ void mix(const float* x, float* y) {}\n";
  };
  const auto with = [&](int block) {
    return Program::parse(text, "p.py")
        .value()
        .with_kernels({{"mix", source(block), UserKernel::Language::cuda, "mix.cu"}})
        .value();
  };
  options_.constants.clear();
  Context made = context();
  const Target target = Target::parse("cuda:sm_80").value();
  const auto built = codetta::build({with(64)}, target, options_, made);
  ASSERT_TRUE(built) << built.error().render();
  EXPECT_TRUE(files_below(options_.output).count("model_library_2.cpp"));
  const auto texts_of = [&](const BuildReport& report) {
    std::string all;
    for (const std::string& kernel : report.kernels)
      all += *base::read_file(options_.output + "/" + kernel + ".cu", 1 << 20);
    return all;
  };
  EXPECT_EQ(texts_of(*built).find("#define mix"), std::string::npos) << "it is alone";
  options_.output = work_.path() + "/two";
  const auto other = Program::parse("def other" + std::string(text).substr(11), "p.py")
                         .value()
                         .with_kernels({{"mix", source(32), UserKernel::Language::cuda, "mix.cu"}})
                         .value();
  const auto two = codetta::build({with(64), other}, target, options_, made);
  ASSERT_TRUE(two) << two.error().render();
  size_t mixes = 0;  // beside what copies tensors of any strides
  for (const std::string& kernel : two->kernels) {
    if (!kernel.starts_with("codetta_mix_")) continue;
    ++mixes;
    EXPECT_NE(texts_of(*two).find("#define mix " + kernel + "_mix"), std::string::npos) << kernel;
  }
  EXPECT_EQ(mixes, 2U);
}

TEST_F(NvccFolder, IsRefusedWithoutATarget) {
  expect_refused(build("cpu:avx2"), 440, "there are no sources for nvcc for cpu:avx2");
  expect_refused(build("hip:gfx942"), 440, "nvcc compiles for NVIDIA GPUs");
  expect_refused(build("metal:apple9"), 440, "nvcc compiles for NVIDIA GPUs");
  Context made = context();
  const auto shown = host_text({program()}, Target::parse("cpu:avx2").value(), options_, made);
  ASSERT_FALSE(shown);
  EXPECT_EQ(shown.error().code(), 440);
  options_.header = work_.path() + "/model.h";
  expect_refused(build(), 440, "a header elsewhere is asked for");
  options_.header.clear();
  options_.manifest = work_.path() + "/model.json";
  expect_refused(build(), 440, "a manifest elsewhere is asked for");
  options_.manifest.clear();
  options_.benchmark = work_.path() + "/bench.py";
  expect_refused(build(), 440, "sources for nvcc come without a benchmark");
  options_.benchmark.clear();
}

TEST_F(NvccFolder, ThatCannotBeWritten) {
  const std::string whole = options_.output;
  options_.output = work_.path() + "/none/model";
  expect_refused(build(), 543, "No such file or directory");
  options_.output.clear();
  expect_refused(build(), 543, "it names no folder");
  options_.output = whole;
  options_.before_writing = [](const auto& files, bool) -> Result<void> {
    EXPECT_GT(files.size(), 10U);
    return driver::unwritable(files.front().second, "the caller says so");
  };
  expect_refused(build(), 543, "the caller says so");
  options_.before_writing = {};
  std::ofstream(whole) << "a file";
  const auto on_file = build();
  ASSERT_FALSE(on_file);
  EXPECT_NE(on_file.error().render().find("it is no folder"), std::string::npos) << on_file.error().render();
  fs::remove(whole);
  // A file cannot take the place of a folder: none is written, and only what was there stays.
  fs::create_directories(whole + "/build.sh");
  const auto blocked = build();
  ASSERT_FALSE(blocked);
  EXPECT_EQ(blocked.error().code(), 543) << blocked.error().render();
  EXPECT_TRUE(files_below(whole).empty());
  EXPECT_EQ(std::distance(fs::directory_iterator(whole), fs::directory_iterator()), 1);
}

TEST_F(NvccFolder, ItsTextDiffersInWhereKernelsComeFrom) {
  Context made = context();
  const Target target = Target::parse("cuda:sm_90a").value();
  const auto nvcc = host_text({program()}, target, options_, made);
  options_.form = BuildForm::Library;
  options_.output += ".so";
  const auto library = host_text({program()}, target, options_, made);
  ASSERT_TRUE(nvcc && library);
  std::vector<std::string> a, b;
  std::istringstream first(*nvcc), second(*library);
  for (std::string line; std::getline(first, line);) a.push_back(line);
  for (std::string line; std::getline(second, line);) b.push_back(line);
  ASSERT_EQ(a.size(), b.size());
  size_t differ = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    ++differ;
    EXPECT_NE(a[i].find("_function"), std::string::npos) << a[i] << "\n" << b[i];
    EXPECT_NE(b[i].find("image_of_"), std::string::npos) << b[i];
  }
  EXPECT_EQ(differ, 16U) << "a declaration and a row for each of eight kernels";
}

}  // namespace
}  // namespace codetta::test

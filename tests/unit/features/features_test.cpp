// SPDX-License-Identifier: Apache-2.0
// docs/features.md is what the backends really say: every feature is offered to each of them, and the page must hold
// the answers. With --gtest_also_run_disabled_tests --gtest_filter=*Print* the page is printed.
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "emit/host/cpp.hpp"
#include "emit/host/metal.hpp"
#include "emit/host/nvcc.hpp"
#include "emit/host/python.hpp"
#include "feature_packages.hpp"
#include "gpu_packages.hpp"
#include "package/cpu_call.hpp"
#include "package/written.hpp"
#include "runtime/cuda/execution.hpp"
#include "runtime/hip/driver.hpp"
#include "support/code_object.hpp"
#include "unit/runtime_cuda/fake_hip.hpp"

namespace codetta::features {
namespace {

template <class T>
std::string cell(const Result<T>& result) {
  return result ? "runs" : "E0" + std::to_string(result.error().code());
}

std::string in_process_cpu(const Feature& feature) {
  auto execution = feature.program->prepare();
  if (!execution) return cell(execution);
  // What only a function of the caller's could make true is no matter of the backend.
  const auto ran = execution->run();
  const std::set<uint16_t> of_the_extern{610};
  return !ran && of_the_extern.contains(ran.error().code()) ? "runs" : cell(ran);
}

const Target cuda_target{Backend::cuda, CpuIsa::generic, "sm_90a"};
const Target hip_target{Backend::hip, CpuIsa::generic, "gfx942"};

// The steps that write something, as observers of a run are told of them: "step 3 (copy): y".
using Told = std::vector<std::string>;
void tell(Told& told, const package::Package& package, const runtime::StepEvent& event) {
  std::string names;
  for (const uint32_t buffer : package::buffers_written(package, *event.step))
    names += " " + package.buffers[buffer].name;
  if (!names.empty()) told.push_back(package::place_of(package, *event.step) + ":" + names);
}

// Over a pretended driver: CUDA's, or AMD's runtime over that.
std::string in_process_gpu(const Feature& feature, const Target& target, bool inside = true, Told* told = nullptr) {
  using namespace runtime::cuda;
  const bool hip = target.backend == Backend::hip;
  test::FakeDriver& fake = test::fake_driver(hip ? CODETTA_FAKE_LIBCUDA : CODETTA_FAKE_DRIVER);
  fake.reset();
  fake.parameter_bytes = 0;  // nothing here looks at them
  fake.managed = true;
  if (hip) test::fake_hip(CODETTA_FAKE_HIP).reset();
  const DriverRef driver =
      hip ? runtime::hip::load(CODETTA_FAKE_HIP).value() : Driver::load(CODETTA_FAKE_DRIVER).value();
  const DeviceRef device = Device::open(driver, 0).value();
  std::string image =
      "\x7f"
      "ELFgemm codetta_step_put codetta_step_move codetta_step_look";
  image.resize(256);
  if (hip) image = test::make_code_object({{"gemm"}}, image);
  const ModuleRef module = Module::load(device, image, "test").value();
  const auto package = std::make_shared<const package::Package>(gpu_package(feature, target, inside));
  std::vector<ModuleRef> modules(std::max<size_t>(package->kernels.size(), 1), module);
  const DeviceRef second = Device::open(driver, 1).value();
  const ModuleRef there = Module::load(second, image, "test").value();
  std::vector<ModuleRef> further(modules.size(), there);
  GpuOptions options{.further = {{second, std::move(further)}},
                     .outside = {feature.program->options.externs, feature.program->options.weights}};
  if (told != nullptr) {
    options.observer = [&](const runtime::StepEvent& event, const Device&, StreamHandle) -> Result<void> {
      tell(*told, *package, event);
      return {};
    };
  }
  auto execution = Execution::make(package, std::move(modules), feature.program->bindings, std::move(options));
  if (!execution) return cell(execution);
  // What only a function of the caller's could make true is no matter of the backend.
  const auto ran = execution->run(nullptr);
  return !ran && ran.error().code() == 610 ? "runs" : cell(ran);
}

emit::host::Library gpu_library(const Feature& feature, const Target& target, bool inside = true) {
  emit::host::Library library;
  library.name = "library";
  emit::host::Program program;
  program.function = "f";
  program.package = std::make_shared<const package::Package>(gpu_package(feature, target, inside));
  library.target = program.package->target;
  library.programs.push_back(std::move(program));
  return library;
}

// tests/package/gpu_library_test.cpp runs these, those for HIP too.
std::string host_gpu(const Feature& feature, const Target& target, bool inside = true) {
  return cell(emit::host::check_library(gpu_library(feature, target, inside)));
}

std::string host_cpp(const Feature& feature) {
  emit::host::Program program;
  program.function = "f";
  program.package = std::make_shared<const package::Package>(feature.program->package);
  for (const package::Kernel& kernel : feature.program->package.kernels)
    program.functions.push_back(
        {package::is_map(kernel.config) ? kernel.name : "", "", package::is_user(kernel.config) ? kernel.name : ""});
  emit::host::Library library;
  library.name = "library";
  library.target = feature.program->package.target;
  library.programs.push_back(std::move(program));
  return cell(emit::host::check_library(library));
}

std::string host_python(const Feature& feature) {
  emit::host::PythonOptions options;
  for (const package::Kernel& kernel : feature.program->package.kernels)
    options.kernel_paths.push_back(package::is_map(kernel.config) || package::is_user(kernel.config) ||
                                           !package::only_stores(kernel.epilogue)
                                       ? "kernel.so"
                                       : "");
  return cell(emit::host::emit_python(feature.program->package, options));
}

// tests/package/gpu_python_test.cpp runs these.
std::string host_python_cuda(const Feature& feature, bool inside = true) {
  package::Package package = gpu_package(feature, cuda_target, inside);
  for (package::Kernel& kernel : package.kernels) kernel.binary = "a cubin";
  return cell(emit::host::emit_python(package, {}));
}

// tests/metal_host/features_test.cpp runs these.
std::string host_metal(const Feature& feature) {
  package::Package package = gpu_package(feature, {Backend::metal, CpuIsa::generic, "apple9"});
  emit::host::Library library;
  library.name = "library";
  library.target = package.target;
  emit::host::Program program;
  program.function = "f";
  program.package = std::make_shared<const package::Package>(std::move(package));
  library.programs.push_back(std::move(program));
  return cell(emit::host::check_metal_library(library));
}

std::string page() {
  std::ostringstream text;
  text
      << "# What runs where\n\n"
         "Every kind of host step, every check and every feature of a launch, against what executes them. *runs*: a "
         "test\n"
         "runs it; a code: it is refused with that [diagnostic](errors) before anything runs. The page is written by\n"
         "`tests/unit/features`, which asks each backend. C++ text is what libraries built ahead of time are made of\n"
         "([aot.md](aot.md)), for CUDA through the driver with the compiled kernels inside, for HIP over its runtime "
         "with code\nobjects inside; Python text is a module over numpy and the engine's shared library, for CUDA over "
         "cuda.bindings. What nvcc compiles (`--form nvcc`) has\nthe column of C++ text, CUDA: its host text differs "
         "in "
         "where the handles of kernels come from. So has what NVRTC compiles where a library runs\n(`--form nvrtc`), "
         "whose programs are the same text. Metal text\nis Objective-C++ ([metal.md](metal.md)). CUTLASS EVT "
         "takes "
         "epilogues, not steps: [evt.md](evt.md).\n\n"
         "CUDA's columns run over a pretended driver in these tests, and on NVIDIA GPUs by `tools/gpu_check`. HIP's "
         "run "
         "over a pretended\nruntime, and whole programs in process on the emulator of the tests; nothing has run on an "
         "AMD "
         "GPU ([hip.md](hip.md)). Metal's\ntexts run over a framework of the tests' own, and have not been on a Mac. "
         "On GPUs launches with a grid, a cluster, ... of their own are of kernels of the user's "
         "([language.md](language.md)).\nWhat runs in process can be watched step by step there, on CPUs, CUDA and HIP "
         "([debugging.md](debugging.md)).\n";
  std::string group;
  for (const Feature& feature : all_features()) {
    if (feature.group != group) {
      group = feature.group;
      text << "\n## " << group
           << "\n\n| feature | in process, CPU | in process, CUDA | in process, HIP | C++ text, CPU | C++ text, CUDA | "
              "C++ "
              "text, HIP | Python text, CPU | Python text, CUDA | Metal text "
              "|\n|---|---|---|---|---|---|---|---|---|---|\n";
    }
    text << "| " << feature.row << " | " << in_process_cpu(feature) << " | " << in_process_gpu(feature, cuda_target)
         << " | " << in_process_gpu(feature, hip_target) << " | " << host_cpp(feature) << " | "
         << host_gpu(feature, cuda_target) << " | " << host_gpu(feature, hip_target) << " | " << host_python(feature)
         << " | " << host_python_cuda(feature) << " | " << host_metal(feature) << " |\n";
  }
  return text.str();
}

TEST(Features, EveryStepAndGuardHasARow) {
  std::set<size_t> steps, guards;
  for (const Feature& feature : all_features()) {
    EXPECT_EQ(find_defect(feature.program->package).value_or("none"), "none") << feature.row;
    for (const size_t step : feature.steps) {
      steps.insert(step);
      const auto& list = feature.program->package.steps;
      EXPECT_TRUE(std::any_of(list.begin(), list.end(), [&](const package::Step& s) { return s.index() == step; }) ||
                  std::any_of(feature.program->package.step_lists.begin(), feature.program->package.step_lists.end(),
                              [&](const package::StepList& l) { return !l.empty() && l[0].index() == step; }))
          << feature.row;
    }
    guards.insert(feature.guards.begin(), feature.guards.end());
  }
  EXPECT_EQ(steps.size(), std::variant_size_v<package::Step>);
  EXPECT_EQ(guards.size(), std::variant_size_v<package::Guard>);
}

// Whatever a GPU runs it runs while it is watched, too, and tells what a CPU tells.
TEST(Features, RunsAreObservedOnGpusAsOnCpus) {
  size_t compared = 0;
  for (const Feature& feature : all_features()) {
    SCOPED_TRACE(feature.row);
    Told here;
    const auto package = std::make_shared<const package::Package>(feature.program->package);
    runtime::ExecutionOptions options = feature.program->options;
    options.observer = [&](const runtime::StepEvent& event) -> Result<void> {
      tell(here, *package, event);
      return {};
    };
    auto on_cpu =
        runtime::Execution::make(package, feature.program->kernels, feature.program->bindings, std::move(options));
    const bool runs_here = on_cpu && on_cpu->run();
    for (const Target& target : {cuda_target, hip_target}) {
      Told there;
      const std::string outcome = in_process_gpu(feature, target, true, &there);
      EXPECT_EQ(outcome, in_process_gpu(feature, target)) << "watched or not";
      if (outcome != "runs" || !runs_here) continue;
      EXPECT_EQ(there, here);
      compared += here.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(compared, 24U);
}

// With CODETTA_UPDATE_GOLDEN set the page is written; review the difference before you commit it.
TEST(Features, ThePageSaysWhatTheBackendsDo) {
  if (std::getenv("CODETTA_UPDATE_GOLDEN") != nullptr) std::ofstream(CODETTA_SOURCE_DIR "/docs/features.md") << page();
  std::ifstream file(CODETTA_SOURCE_DIR "/docs/features.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), page());
}

// Beside nvcc's kernels stands the text of the column for CUDA, but for what finds a kernel; what that text lacks, this
// lacks.
TEST(Features, HostTextForNvccIsThatForCuda) {
  size_t with_kernels = 0;
  for (const Feature& feature : all_features()) {
    SCOPED_TRACE(feature.row);
    emit::host::Library inside = gpu_library(feature, cuda_target), beside = inside;
    for (const package::Kernel& kernel : inside.programs[0].package->kernels)
      inside.programs[0].images.push_back("image_of_" + kernel.name);
    const auto units = emit::host::print_nvcc_kernels(beside);
    EXPECT_EQ(cell(emit::host::check_library(beside)), cell(emit::host::check_library(inside)));
    if (!emit::host::check_library(inside)) continue;
    with_kernels += units.empty() ? 0 : 1;
    EXPECT_EQ(emit::host::print_header(beside), emit::host::print_header(inside));
    const auto a = emit::host::print_cpp(beside), b = emit::host::print_cpp(inside);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      std::istringstream one(a[i].text), other(b[i].text);
      std::string left, right;
      while (std::getline(one, left)) {
        ASSERT_TRUE(std::getline(other, right));
        if (left == right) continue;
        EXPECT_NE(left.find("_function"), std::string::npos) << left << "\n" << right;
        EXPECT_NE(right.find("image_of_"), std::string::npos) << left << "\n" << right;
      }
      EXPECT_FALSE(std::getline(other, right)) << right;
    }
  }
  EXPECT_GT(with_kernels, 10U);
}

// Programs whose kernels NVRTC compiles where they run are the text of the column for CUDA; the library's own text says
// what compiles them.
TEST(Features, HostTextForNvrtcIsThatForCuda) {
  size_t seen = 0;
  for (const Feature& feature : all_features()) {
    SCOPED_TRACE(feature.row);
    emit::host::Library compiled = gpu_library(feature, cuda_target);
    for (const package::Kernel& kernel : compiled.programs[0].package->kernels)
      compiled.programs[0].images.push_back("image_of_" + kernel.name);
    emit::host::Library sources = compiled;
    sources.headers = "headers_of_all";
    EXPECT_EQ(cell(emit::host::check_library(sources)), cell(emit::host::check_library(compiled)));
    if (!emit::host::check_library(compiled)) continue;
    ++seen;
    const auto a = emit::host::print_cpp(sources), b = emit::host::print_cpp(compiled);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 1; i < a.size(); ++i) EXPECT_EQ(a[i].text, b[i].text);
    EXPECT_NE(a[0].text.find("#include \"device/host/gpu_nvrtc.h\"\n"), std::string::npos);
    EXPECT_NE(a[0].text.find(", compile_kernel, compile_kernels, headers_of_all, "), std::string::npos) << a[0].text;
    EXPECT_EQ(b[0].text.find("compile_kernel"), std::string::npos);
  }
  EXPECT_GT(seen, 30U);
}

// A launch for a CPU names factors that a GPU's kernel does not have among its operands.
TEST(Features, FactorsThatAGpusKernelDoesNotHave) {
  size_t seen = 0;
  for (const Feature& feature : all_features()) {
    if (feature.row != "several products of one A" && feature.row != "factor that is made where it is read") continue;
    ++seen;
    EXPECT_EQ(in_process_gpu(feature, cuda_target, false), "E0614") << feature.row;
    EXPECT_EQ(host_gpu(feature, cuda_target, false), "E0440") << feature.row;
    EXPECT_EQ(host_python_cuda(feature, false), "E0614") << feature.row;
  }
  EXPECT_EQ(seen, 2U);
}

}  // namespace
}  // namespace codetta::features

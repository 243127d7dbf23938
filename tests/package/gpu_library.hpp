// SPDX-License-Identifier: Apache-2.0
// Libraries for a GPU made of programs' texts, with pretended kernels, and loaded over the pretended driver of
// tests/unit/runtime_cuda.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/files.hpp"
#include "base/process.hpp"
#include "codetta/program.hpp"
#include "device/embedded.hpp"
#include "device/gpu/step_abi.h"
#include "driver/build_nvcc.hpp"
#include "driver/context.hpp"
#include "driver/program_state.hpp"
#include "emit/host/cpp.hpp"
#include "emit/host/nvcc.hpp"
#include "emit/package.hpp"
#include "opt/passes.hpp"
#include "package/gpu_steps.hpp"
#include "package/image.hpp"
#include "plan/plan.hpp"
#include "runtime/cuda/execution.hpp"
#include "runtime/cuda/launch.hpp"
#include "toolchain/library.hpp"
#include "unit/runtime_cuda/fake_driver.hpp"

namespace codetta::test {

using Sizes = std::vector<std::pair<std::string, int64_t>>;

// As the headers of libraries declare it.
struct HostTensor {
  void* data = nullptr;
  int32_t dtype = 0, rank = 0;
  int64_t shape[8] = {}, strides[8] = {};
};
inline HostTensor host_tensor(const TensorView& view) {
  HostTensor made{view.data(), static_cast<int32_t>(view.dtype()), view.rank(), {}, {}};
  for (int d = 0; d < view.rank(); ++d) {
    made.shape[d] = view.size(d);
    made.strides[d] = view.stride(d);
  }
  return made;
}

// Names the kernels of an image, and how many bytes of parameters each has; as compiled in two parts where there are
// several, every other one in the second, or `whole` as nvcc compiles them.
inline std::string pretended_image(const package::Kernel& kernel, bool whole = false) {
  const bool user = package::is_user(kernel.config);  // its parameters are told to the pretended driver by the test
  const size_t bytes = user ? 8
                            : static_cast<size_t>(gpu::host::parameter_bytes(
                                  runtime::cuda::KernelTables(kernel, !package::is_map(kernel.config)).get()));
  const std::string elf =
      "\x7f"
      "ELF.";
  std::vector<std::string> files{elf};
  for (const package::GpuEntry& entry : kernel.entries) {
    const size_t steps[] = {sizeof(gpu::PutParams), sizeof(gpu::MoveParams), sizeof(gpu::LookParams)};
    const bool packs = entry.kind == package::GpuEntry::Kind::Pack;
    if (!user && !whole && &entry - kernel.entries.data() == 1) files.push_back(elf);
    files[static_cast<size_t>(&entry - kernel.entries.data()) % files.size()] +=
        entry.symbol + ":" +
        std::to_string(package::is_steps_kernel(kernel) ? steps[entry.index]
                       : packs                          ? sizeof(gpu::PackParams)
                                                        : bytes) +
        " ";
  }
  for (std::string& file : files) file.resize(std::max<size_t>(file.size() + 1, 64));
  return package::image_of(files);
}

// A source for the pretended runtime (pretended_cudart) with the entry points of a kernel, which do nothing.
inline std::string pretended_source(const package::Kernel& kernel) {
  std::string text = "// " + kernel.name + "\nconst unsigned char image[] = {";
  for (const char byte : pretended_image(kernel, true)) text += std::to_string(static_cast<unsigned char>(byte)) + ",";
  text = "namespace {\n" + text + "0};\n}\n";
  const bool user = package::is_user(kernel.config);
  const std::string open = user ? "" : "namespace codetta::gpu {\n", close = user ? "" : "}\n";
  for (const package::GpuEntry& entry : kernel.entries) {
    text += open + "extern \"C\" void " + entry.symbol + "();\nextern \"C\" void " + entry.symbol + "() {}\n" + close;
    text += "static const PretendedKernel pretended_" + std::to_string(&entry - kernel.entries.data()) +
            "{reinterpret_cast<const void*>(&" + (user ? "" : "codetta::gpu::") + entry.symbol + "), image, \"" +
            entry.symbol + "\"};\n";
  }
  return text;
}

// A program planned for a GPU that is not there. Its error where the planner refuses it.
inline Result<package::Package> planned(const Program& program, const Target& target, const Sizes& hints,
                                        Context& context, plan::Alignment alignment = plan::Alignment::Hinted) {
  const driver::ProgramState& state = *Program::Access::state(program);
  CODETTA_TRY(const opt::Optimized optimized, opt::optimize(state.graph));
  plan::MachineFacts machine = context.shared_state()->machine(target);
  machine.gpu.vendor = nullptr;
  CODETTA_TRY(const plan::Plan plan,
              plan::plan_program(optimized.graph, target, machine, hints, state.user_sources, alignment));
  CODETTA_TRY(package::Package package, emit::emit_package(plan, {.name = state.function.name, .build_id = "test"}));
  for (package::Kernel& kernel : package.kernels) kernel.binary = pretended_image(kernel);
  return package;
}

// Flags of host text that need not be fast.
inline const std::vector<std::string> host_flags{
    "-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti"};

// Runs the compiler with `flags` and `more`; what it makes lies in a folder that is there until the process ends.
inline std::string compiled_once(const toolchain::HostCompiler& compiler, const std::vector<std::string>& flags,
                                 const std::vector<std::string>& more, const std::string& name) {
  static const auto folder = base::TemporaryDirectory::make("/tmp", "codetta-gpu-library-");
  if (!folder) return {};
  const std::string path = folder->path() + "/" + name;
  base::ProcessRequest request;
  request.program = compiler.path;
  request.arguments = flags;
  for (const char* flag :
       {"-fPIC", "-fno-lto", "-fno-gnu-unique", "-I", CODETTA_SOURCE_DIR, "-I", CODETTA_SOURCE_DIR "/src"})
    request.arguments.emplace_back(flag);
  request.arguments.insert(request.arguments.end(), more.begin(), more.end());
  request.arguments.insert(request.arguments.end(), {"-o", path});
  request.environment = {"PATH=/usr/local/bin:/usr/bin:/bin"};
  const auto done = base::run_process(request);
  return done && done->success() ? path : "";
}

// device/host/gpu.h, with which every unit begins, compiled: GCC takes it where it lies beside the header and fits the
// flags. Empty where it can't be made. `#pragma once` in what is compiled by itself is what -w is about.
inline const std::string& compiled_header(const toolchain::HostCompiler& compiler) {
  static const std::string bytes = [&] {
    const std::string path =
        compiled_once(compiler, host_flags,
                      {"-Wno-error", "-w", "-x", "c++-header", CODETTA_SOURCE_DIR "/device/host/gpu.h"}, "gpu.h.gch");
    const auto read = base::read_file(path, size_t{64} << 20);
    return read ? *read : std::string();
  }();
  return bytes;
}

// `name` is the prefix of what the library exports, and its functions are named as the packages are.
class GpuLibrary {
 public:
  bool registered = false;  // the form for nvcc, over a pretended CUDA runtime
  size_t files = 0;         // of its host text

  GpuLibrary() = default;
  // An account of what went wrong, else empty.
  std::string build(const std::string& name, const std::vector<package::PackageRef>& packages, bool checked = true) {
    name_ = name;
    emit::host::Library library;
    library.name = name;
    library.version = "0";
    library.checked = checked;
    toolchain::LibraryJob job;
    std::string images;
    for (size_t p = 0; p < packages.size(); ++p) {
      library.target = packages[p]->target;
      emit::host::Program program;
      program.function = packages[p]->name;
      program.package = registered ? with_pretended_sources(*packages[p]) : packages[p];
      for (size_t k = 0; k < packages[p]->kernels.size(); ++k) {
        program.images.push_back("image_" + std::to_string(p) + "_" + std::to_string(k));
        images += bytes_text(program.images.back(), packages[p]->kernels[k].binary);
      }
      for (uint32_t b = 0; b < packages[p]->buffers.size(); ++b) {
        const package::Buffer& buffer = packages[p]->buffers[b];
        if (buffer.role != package::Buffer::Role::Constant) continue;
        Dims shape;
        for (const types::Dim& dim : buffer.shape) shape.push_back(dim.as_constant().value_or(0));
        if (!buffer.external.empty()) {
          library.weights_file = "weights.safetensors";
          program.constants.push_back({b, shape, {}, buffer.external});
          continue;
        }
        const std::string symbol = "constant_" + std::to_string(p) + "_" + std::to_string(b);
        images += bytes_text(symbol, buffer.constant);
        program.constants.push_back({b, shape, symbol, {}});
      }
      library.programs.push_back(std::move(program));
    }
    if (const auto good = emit::host::check_library(library); !good) return good.error().render();
    toolchain::FindOptions find;
    find.path = "/usr/local/bin:/usr/bin:/bin";
    const auto compiler = toolchain::find_host_compiler(find);
    if (!compiler) return compiler.error().render();
    if (registered) {
      if (std::string why = add_units_for_nvcc(library, job, *compiler); !why.empty()) return why;
    }
    header_ = emit::host::print_header(library);
    job.name = "lib" + name + ".so";
    job.exports = emit::host::print_exports(library);
    for (const device::EmbeddedFile& file : device::files())
      job.files.push_back({"device/" + std::string(file.path), std::string(file.text)});
    for (const emit::host::File& file : emit::host::print_cpp(library)) {
      ++files;
      if (file.is_header()) {
        job.files.push_back({file.name, file.text});
      } else {
        job.units.push_back({file.text, host_flags, file.name});
      }
    }
    job.units.push_back({images, {"-std=c++20"}, "images"});
    if (!registered)
      job.archives = {CODETTA_ENGINE_DIR "/libcodetta_engine.a", CODETTA_ENGINE_DIR "/libcodetta_table_generic.a"};
    if (const std::string& header = compiled_header(*compiler); !header.empty())
      job.files.push_back({"device/host/gpu.h.gch", header});
    const auto built = toolchain::build_library(*compiler, job, {}, 2);
    if (!built) return built.error().render();
    auto folder = base::TemporaryDirectory::make("/tmp", "codetta-gpu-library-");
    if (!folder) return "there is no temporary folder";
    folder_ = std::make_unique<base::TemporaryDirectory>(std::move(*folder));
    std::ofstream(path(), std::ios::binary) << built->bytes;
    return {};
  }
  std::string load() {
    handle_ = ::dlopen(path().c_str(), RTLD_NOW | RTLD_LOCAL);
    return handle_ != nullptr ? "" : ::dlerror();
  }
  void unload() {
    if (handle_ != nullptr) ::dlclose(handle_);
    handle_ = nullptr;
  }
  ~GpuLibrary() { unload(); }
  GpuLibrary(const GpuLibrary&) = delete;
  GpuLibrary& operator=(const GpuLibrary&) = delete;

  [[nodiscard]] std::string path() const { return folder_->path() + "/lib" + name_ + ".so"; }
  [[nodiscard]] std::string folder() const { return folder_->path(); }
  [[nodiscard]] const std::string& header() const { return header_; }
  template <class F>
  [[nodiscard]] F symbol(const std::string& suffix) const {
    return reinterpret_cast<F>(::dlsym(handle_, (name_ + suffix).c_str()));
  }
  int call(const std::string& function, const std::vector<TensorView>& views, void* workspace = nullptr,
           int64_t bytes = 0, void* stream = nullptr) const {
    std::vector<HostTensor> tensors;
    for (const TensorView& view : views) tensors.push_back(host_tensor(view));
    using Function = int (*)(const HostTensor*, int32_t, void*, int64_t, void*);
    return symbol<Function>("_" + function + "_tensors")(tensors.data(), static_cast<int32_t>(tensors.size()),
                                                         workspace, bytes, stream);
  }
  int init() const { return symbol<int (*)()>("_init")(); }
  std::string error() const { return symbol<const char* (*)()>("_get_last_error")(); }

 private:
  static package::PackageRef with_pretended_sources(const package::Package& package) {
    package::Package changed = package;
    for (package::Kernel& kernel : changed.kernels) kernel.source = pretended_source(kernel);
    return std::make_shared<const package::Package>(std::move(changed));
  }
  // The .cu files by the C++ compiler, and what is linked instead of the engine.
  static std::string add_units_for_nvcc(emit::host::Library& library, toolchain::LibraryJob& job,
                                        const toolchain::HostCompiler& compiler) {
    const std::vector<std::string> flags = {"-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"};
    std::vector<std::string> in_front = flags;
    in_front.insert(in_front.end(), {"-include", "pretended_cudart.h"});
    for (const emit::host::NvccUnit& unit : emit::host::print_nvcc_kernels(library))
      job.units.push_back({unit.text, in_front, unit.file});
    const std::string runtime = CODETTA_PRETENDED_CUDART, header = runtime.substr(0, runtime.size() - 3) + "h";
    job.files.push_back({"pretended_cudart.h", *base::read_file(header, 1 << 20)});
    // The rest is the same for every library.
    static const std::vector<std::string> objects = [&] {
      std::vector<std::string> made;
      std::vector<std::string> sources{runtime};
      for (const device::EmbeddedFile& file : device::engine_values())
        if (file.path.ends_with(".cpp")) sources.push_back(CODETTA_SOURCE_DIR "/src/" + std::string(file.path));
      for (const std::string& source : sources)
        made.push_back(compiled_once(compiler, flags, {"-c", source}, std::to_string(made.size()) + ".o"));
      return made;
    }();
    for (const std::string& object : objects)
      if (object.empty()) return "what each library for nvcc needs does not compile";
    job.archives = objects;
    return {};
  }
  static std::string bytes_text(const std::string& symbol, const std::string& bytes) {
    std::string text = "extern \"C\" const unsigned char " + symbol + "[];\nconst unsigned char " + symbol + "[] = {";
    for (const char byte : bytes) text += std::to_string(static_cast<unsigned char>(byte)) + ",";
    return text + "0};\n";
  }

  std::string name_, header_;
  std::unique_ptr<base::TemporaryDirectory> folder_;
  void* handle_ = nullptr;
};

// The pretended driver with its device, for runs in process.
class FakeGpu {
 public:
  FakeGpu() {
    fake.reset();
    fake.max_threads = 1024;
    device = runtime::cuda::Device::open(runtime::cuda::Driver::load(CODETTA_FAKE_DRIVER).value(), 0).value();
  }
  TensorView tensor(DType dtype, const Dims& shape) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    memory_.push_back(
        runtime::cuda::DeviceBuffer::make(device, static_cast<size_t>(std::max<int64_t>(count, 1) * dtype_size(dtype)))
            .value());
    return TensorView::make(reinterpret_cast<void*>(memory_.back().address()), dtype, shape).value();
  }
  Result<runtime::cuda::Execution> prepare(const package::PackageRef& package, const std::vector<TensorView>& views,
                                           bool checked = true) {
    std::vector<runtime::cuda::ModuleRef> modules;
    for (const package::Kernel& kernel : package->kernels) {
      CODETTA_TRY(runtime::cuda::ModuleRef module, runtime::cuda::Module::load(device, kernel.binary, kernel.name));
      modules.push_back(std::move(module));
    }
    runtime::Bindings bindings;
    bindings.tensors.resize(package->buffers.size());
    bindings.scalars.resize(package->buffers.size());
    std::copy(views.begin(), views.end(), bindings.tensors.begin());
    return runtime::cuda::Execution::make(package, std::move(modules), std::move(bindings), {.checked = checked});
  }

  FakeDriver& fake = fake_driver(CODETTA_FAKE_DRIVER);
  runtime::cuda::DeviceRef device;

 private:
  std::vector<runtime::cuda::DeviceBuffer> memory_;
};

// Where the parameters say what faults are told in: host memory of each side's own, by its own numbers. Behind the end
// where they don't.
inline size_t fault_offset(const FakeLaunch& launch) {
  if (launch.function == "codetta_step_put") return offsetof(gpu::PutParams, fault);
  return launch.function == "codetta_step_look" ? offsetof(gpu::LookParams, fault) : launch.parameters.size();
}

// Whether what a map clears begins, or how much it is, is said here: a run in process leaves its counters cleared, a
// library's call is given memory of any contents.
inline bool tells_clearing(const FakeLaunch& launch, size_t at) {
  constexpr size_t problem = sizeof(gpu::TensorMap);  // behind one that is not used
  const auto is = [&](size_t member) { return at / 8 * 8 == problem + member; };
  return launch.function != "codetta_gemm" &&
         (is(offsetof(gpu::Problem, counters)) || is(offsetof(gpu::Problem, clears)));
}

// Where two lists of launches differ; empty: nowhere.
inline std::string difference(const std::vector<FakeLaunch>& expected, const std::vector<FakeLaunch>& actual) {
  if (expected.size() != actual.size())
    return std::to_string(actual.size()) + " launches, in process " + std::to_string(expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const FakeLaunch &a = expected[i], &b = actual[i];
    const std::string which = "launch " + std::to_string(i) + " of " + a.function + ": ";
    if (a.function != b.function) return which + "is of " + b.function;
    const auto geometry = [](const FakeLaunch& l) {
      return std::to_string(l.config.grid_x) + " x " + std::to_string(l.config.grid_y) + " x " +
             std::to_string(l.config.grid_z) + " blocks of " + std::to_string(l.config.block_x) + " x " +
             std::to_string(l.config.block_y) + " x " + std::to_string(l.config.block_z) + " with " +
             std::to_string(l.config.dynamic_shared) + " bytes";
    };
    if (geometry(a) != geometry(b)) return which + geometry(b) + ", in process " + geometry(a);
    if (a.attributes.size() != b.attributes.size()) return which + "other attributes";
    for (size_t j = 0; j < a.attributes.size(); ++j) {
      if (a.attributes[j].id != b.attributes[j].id ||
          std::memcmp(&a.attributes[j].value, &b.attributes[j].value, sizeof a.attributes[j].value) != 0)
        return which + "attribute " + std::to_string(j);
    }
    if (a.each != b.each) return which + "other parameters";
    if (a.parameters.size() != b.parameters.size()) return which + "other sizes of parameters";
    const size_t fault = fault_offset(a);
    for (size_t at = 0; at < a.parameters.size(); ++at) {
      if (a.parameters[at] == b.parameters[at] || (at >= fault && at < fault + sizeof(gpu::StepFault)) ||
          tells_clearing(a, at))
        continue;
      uint64_t left = 0, right = 0;
      std::memcpy(&left, a.parameters.data() + at / 8 * 8, 8);
      std::memcpy(&right, b.parameters.data() + at / 8 * 8, 8);
      return which + "parameters at byte " + std::to_string(at / 8 * 8) + " of " + std::to_string(a.parameters.size()) +
             ": " + std::to_string(right) + ", in process " + std::to_string(left);
    }
  }
  return {};
}

inline Context uncached() {
  ContextOptions options;
  options.cache_enabled = false;
  return *Context::make(options);
}

inline package::PackageRef package_of(const std::string& text, const char* target = "cuda:sm_90a",
                                      const Sizes& hints = {{"m", 4096}}) {
  Context context = uncached();
  const auto program = Program::parse(text, "program.py").value();
  auto made = planned(program, Target::parse(target).value(), hints, context);
  EXPECT_TRUE(made) << made.error().render();
  return std::make_shared<const package::Package>(*std::move(made));
}

// y = relu(x @ w) of 4096 x 256 x 512 as one library for all tests of `Suite`, which each load it anew. Its target is
// Suite::target.
template <class Suite>
class OneGpuLibrary : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    FakeGpu gpu;
    library = std::make_unique<GpuLibrary>();
    library->registered = Suite::registered;
    ASSERT_EQ(library->build("one", {package_of(plain_text, Suite::target)}), "");
  }
  static void TearDownTestSuite() { library.reset(); }
  void SetUp() override {
    ASSERT_NE(library, nullptr);
    ASSERT_EQ(library->load(), "");
    views = new_views();
  }
  void TearDown() override { library->unload(); }
  static constexpr bool registered = false;
  std::vector<TensorView> new_views() {
    return {gpu.tensor(DType::bf16, {4096, 256}), gpu.tensor(DType::bf16, {256, 512}),
            gpu.tensor(DType::f32, {4096, 512})};
  }
  void expect(int status, const std::string& part) {
    EXPECT_EQ(library->call("f", views), status) << library->error();
    EXPECT_NE(library->error().find(part), std::string::npos) << library->error();
    EXPECT_TRUE(gpu.fake.contexts().empty()) << "the thread has its context back";
  }
  void expect_loads_leave_nothing() {
    library->unload();
    const auto alive = [&] {
      return std::tuple(gpu.fake.allocations.size(), gpu.fake.modules, gpu.fake.retained, gpu.fake.streams.size(),
                        gpu.fake.contexts().size());
    };
    const auto before = alive();
    for (int i = 0; i < 200; ++i) {
      ASSERT_EQ(library->load(), "");
      ASSERT_EQ(library->call("f", views), 0) << library->error();
      library->unload();
      ASSERT_EQ(alive(), before) << "after load " << i;
    }
    ASSERT_EQ(library->load(), "");
  }
  static constexpr const char* plain_text =
      "def f(x: bf16['m', 256], w: bf16[256, 512]):\n    y = relu(x @ w)\n    return y\n";
  FakeGpu gpu;
  std::vector<TensorView> views;
  inline static std::unique_ptr<GpuLibrary> library;
};

}  // namespace codetta::test

// SPDX-License-Identifier: Apache-2.0
// What libraries for a GPU say when something is wrong, what they keep, and that they give all of it back.
#include <cstdlib>

#include "package/gpu_library.hpp"
#include "runtime/cuda/stream.hpp"

namespace codetta::test {
namespace {

using runtime::cuda::Status;

class GpuLibraryErrors : public OneGpuLibrary<GpuLibraryErrors> {
 public:
  static constexpr const char* target = "cuda:sm_90a";
};

TEST_F(GpuLibraryErrors, SharedMemory) {
  gpu.fake.fail["cuFuncSetAttribute"] = Status::InvalidValue;
  expect(-8, "Failed to set the allowed dynamic shared memory size to ");
  EXPECT_NE(library->error().find("CUDA_ERROR_OTHER (1): another error"), std::string::npos) << library->error();
  gpu.fake.fail.clear();
  EXPECT_EQ(library->call("f", views), 0) << "a failure leaves all as it was: " << library->error();
  const size_t set = gpu.fake.count("cuFuncSetAttribute");
  EXPECT_EQ(library->call("f", views), 0);
  EXPECT_EQ(gpu.fake.count("cuFuncSetAttribute"), set) << "once a context";
}

TEST_F(GpuLibraryErrors, Launches) {
  gpu.fake.fail["cuLaunchKernelEx"] = Status::LaunchOutOfResources;
  expect(-8, "Failed to launch kernel codetta_");
  EXPECT_NE(library->error().find("(701)"), std::string::npos) << library->error();
  EXPECT_NE(library->error().find("bytes of dynamic shared memory"), std::string::npos) << library->error();
}

TEST_F(GpuLibraryErrors, TensorMaps) {
  ASSERT_EQ(library->call("f", views), 0) << library->error();
  ASSERT_GE(gpu.fake.tensor_maps.size(), 2U) << "the kernel copies with tensor maps";
  gpu.fake.fail["cuTensorMapEncodeTiled"] = Status::InvalidValue;
  expect(-8, "Failed to initialize the TMA descriptor of x with error: CUDA_ERROR_OTHER (1)");
  gpu.fake.fail.clear();
  views[0] = TensorView::make(static_cast<std::byte*>(views[0].data()) + 2, DType::bf16, {100, 256}).value();
  views[2] = TensorView::make(views[2].data(), DType::f32, {100, 512}).value();
  expect(-2, "x does not fit the kernel: its address is no multiple of 16 bytes");
}

TEST_F(GpuLibraryErrors, Machines) {
  gpu.fake.major = 8;
  expect(-6, "this library is made for sm_90a, and Pretended GPU 0 has compute capability 8.0");
  gpu.fake.major = 9;
  EXPECT_EQ(library->call("f", views), 0) << library->error();
}
TEST_F(GpuLibraryErrors, NoDevice) {
  gpu.fake.devices = 0;
  expect(-6, "E0642: the NVIDIA driver finds no device");
}
TEST_F(GpuLibraryErrors, KernelsThatDoNotLoad) {
  gpu.fake.fail["cuModuleLoadData"] = Status::NoBinaryForGpu;
  expect(-6, "E0430");
  gpu.fake.fail["cuModuleLoadData"] = Status::InvalidImage;
  expect(-8, "E0508: a compiled kernel can not be loaded: loading codetta_");
}

TEST_F(GpuLibraryErrors, Arguments) {
  std::vector<float> host(size_t{4096} * 512);
  const TensorView y = views[2];
  views[2] = TensorView::make(host.data(), DType::f32, {4096, 512}).value();
  expect(-1, "y does not lie on device 0");
  views[2] = TensorView::make(y.data(), DType::f32, {4095, 512}).value();
  expect(-2, "4095");
  views[2] = TensorView::make(views[0].data(), DType::f32, {4096, 512}).value();
  expect(-3, "output y");
  views[2] = y;
  ASSERT_EQ(library->call("f", views), 0) << library->error();
}

TEST_F(GpuLibraryErrors, NothingIsLaunchedForNothing) {
  gpu.fake.launches.clear();
  const std::vector<TensorView> none = {TensorView::make(views[0].data(), DType::bf16, {0, 256}).value(), views[1],
                                        TensorView::make(views[2].data(), DType::f32, {0, 512}).value()};
  EXPECT_EQ(library->call("f", none), 0) << library->error();
  EXPECT_TRUE(gpu.fake.launches.empty());
}

TEST_F(GpuLibraryErrors, ContextsAndStreams) {
  // The thread's own context, else that of the stream, else the primary one.
  ASSERT_EQ(library->init(), 0) << library->error();
  EXPECT_EQ(gpu.fake.retained, 2) << "the test's, and the library's";
  runtime::cuda::ContextHandle second = nullptr;
  const auto other = runtime::cuda::Device::open(runtime::cuda::Driver::load(CODETTA_FAKE_DRIVER).value(), 1).value();
  second = other->context();
  const int modules = gpu.fake.modules;
  gpu.fake.contexts().push_back(second);
  EXPECT_EQ(library->init(), 0) << library->error();
  EXPECT_EQ(gpu.fake.modules, 2 * modules) << "another context has modules of its own";
  EXPECT_EQ(gpu.fake.contexts().size(), 1U);
  EXPECT_EQ(library->call("f", views), -1) << "tensors of device 0";
  EXPECT_NE(library->error().find("memory of device 0"), std::string::npos) << library->error();
  gpu.fake.contexts().clear();
}

TEST_F(GpuLibraryErrors, TwoHundredLoadsLeaveNothing) { expect_loads_leave_nothing(); }

// ---- workspaces, constants, branches ----

int64_t handed_out = 0;
void* allocate(void*, size_t bytes, size_t alignment) {
  EXPECT_EQ(alignment, 256U);
  ++handed_out;
  return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
}
void release(void*, void* memory, size_t, size_t) {
  --handed_out;
  std::free(memory);
}

TEST(GpuLibraryMemory, WorkspacesAllocatorsAndCaptures) {
  FakeGpu gpu;
  GpuLibrary library;
  ASSERT_EQ(library.build("memory", {package_of("def f(x: f32['m', 64], w: f32[64, 32], u: f32[32, 16]):\n"
                                                "    y = relu(x @ w) @ u\n    return y\n")}),
            "");
  ASSERT_EQ(library.load(), "");
  const std::vector<TensorView> views = {gpu.tensor(DType::f32, {100, 64}), gpu.tensor(DType::f32, {64, 32}),
                                         gpu.tensor(DType::f32, {32, 16}), gpu.tensor(DType::f32, {100, 16})};
  const auto size = library.symbol<int64_t (*)(int64_t)>("_f_workspace_size");
  const int64_t bytes = size(100);
  ASSERT_GE(bytes, 100 * 32 * 4) << library.error();
  EXPECT_LT(size(-1), 0);
  const size_t before = gpu.fake.allocations.size();
  ASSERT_EQ(library.call("f", views), 0) << library.error();
  EXPECT_EQ(gpu.fake.allocations.size(), before + 1) << "a workspace";
  ASSERT_EQ(library.call("f", views), 0);
  EXPECT_EQ(gpu.fake.allocations.size(), before + 1) << "is kept for the next call";
  library.symbol<void (*)()>("_release_memory")();
  EXPECT_EQ(gpu.fake.allocations.size(), before);

  const auto own = runtime::cuda::DeviceBuffer::make(gpu.device, static_cast<size_t>(bytes) + 512).value();
  auto* memory = reinterpret_cast<char*>(own.address());
  EXPECT_EQ(library.call("f", views, memory, bytes), 0) << library.error();
  EXPECT_EQ(library.call("f", views, memory, bytes - 1), -5);
  EXPECT_NE(library.error().find("E0611"), std::string::npos);
  EXPECT_EQ(library.call("f", views, memory + 64, bytes), -5);
  EXPECT_NE(library.error().find("aligned to 256"), std::string::npos);

  using SetAllocator = int (*)(decltype(&allocate), decltype(&release), void*);
  const auto set = library.symbol<SetAllocator>("_set_allocator");
  EXPECT_EQ(set(allocate, nullptr, nullptr), -1);
  ASSERT_EQ(set(allocate, release, nullptr), 0);
  EXPECT_EQ(library.call("f", views), 0) << library.error();
  EXPECT_EQ(handed_out, 1);
  ASSERT_EQ(set(nullptr, nullptr, nullptr), 0);
  EXPECT_EQ(handed_out, 0);
  gpu.fake.memory_limit = 16;
  EXPECT_EQ(library.call("f", views), -4);
  EXPECT_NE(library.error().find("E0643"), std::string::npos) << library.error();
  gpu.fake.memory_limit = size_t{1} << 30;

  const auto stream = runtime::cuda::OwnedStream::make(gpu.device).value();
  gpu.fake.capturing.insert(stream.get());
  EXPECT_EQ(library.call("f", views, nullptr, 0, stream.get()), -1);
  EXPECT_NE(library.error().find("E0646"), std::string::npos) << library.error();
  EXPECT_TRUE(gpu.fake.invalidated.empty()) << "the capture stays valid";
  gpu.fake.captured.clear();
  EXPECT_EQ(library.call("f", views, memory, bytes, stream.get()), 0) << library.error();
  EXPECT_FALSE(gpu.fake.captured.empty());
  EXPECT_TRUE(gpu.fake.invalidated.empty());
  gpu.fake.capturing.clear();
}

// A branch on a flag in device memory, and a constant of the program's.
TEST(GpuLibraryMemory, BranchesCopiesAndConstants) {
  FakeGpu gpu;
  using namespace package;  // NOLINT: all kinds of steps
  Package made;
  made.name = "f";
  made.target = Target::parse("cuda:sm_90a").value();
  const auto buffer = [&](const char* name, Buffer::Role role, std::vector<types::Dim> shape, DType dtype) {
    Buffer b;
    b.name = name;
    b.role = role;
    b.dtype = dtype;
    b.shape = std::move(shape);
    made.buffers.push_back(b);
  };
  const types::Dim four = types::Dim::constant(4);
  buffer("flag", Buffer::Role::Argument, {types::Dim::constant(1)}, DType::boolean);
  buffer("x", Buffer::Role::Argument, {four}, DType::f32);
  buffer("y", Buffer::Role::Output, {four}, DType::f32);
  buffer("c", Buffer::Role::Constant, {four}, DType::f32);
  buffer("again", Buffer::Role::Argument, {types::Dim::constant(1)}, DType::boolean);
  made.buffers[4].donated = true;  // written by the loop
  const float values[] = {1, 2, 3, 4};
  made.buffers[3].constant.assign(reinterpret_cast<const char*>(values), sizeof values);
  made.step_lists = {{Copy{1, 2}}, {Copy{3, 2}}, {Comment{"as before"}}, {Fill{4, ZeroMode::PerCall, 0}}};
  made.steps = {LoadConstant{3}, If{0, 0, 1}, While{2, 4, 3, 10}, Return{}};
  ASSERT_EQ(find_defect(made).value_or(""), "");
  const auto package = std::make_shared<const Package>(made);
  GpuLibrary library;
  ASSERT_EQ(library.build("branches", {package}), "");
  ASSERT_EQ(library.load(), "");
  std::vector<TensorView> views = {gpu.tensor(DType::boolean, {1}), gpu.tensor(DType::f32, {4}),
                                   gpu.tensor(DType::f32, {4}), gpu.tensor(DType::boolean, {1})};
  float x[] = {5, 6, 7, 8};
  std::memcpy(views[1].data(), x, sizeof x);
  for (const bool flag : {false, true, false}) {
    *views[0].as<bool>() = flag;
    *views[3].as<bool>() = true;
    ASSERT_EQ(library.call("f", views), 0) << library.error();
    EXPECT_EQ(std::memcmp(views[2].data(), flag ? x : values, sizeof x), 0);
    EXPECT_FALSE(*views[3].as<bool>()) << "the loop has run once";
  }
  EXPECT_EQ(gpu.fake.count("cuMemcpyHtoDAsync_v2"), 1U) << "the constant goes to the device once";
  const auto stream = runtime::cuda::OwnedStream::make(gpu.device).value();
  gpu.fake.capturing.insert(stream.get());
  EXPECT_EQ(library.call("f", views, nullptr, 0, stream.get()), -1);
  EXPECT_NE(library.error().find("a branch can not be captured: flag"), std::string::npos) << library.error();
  gpu.fake.capturing.clear();
  gpu.fake.fail["cuMemcpyDtoHAsync_v2"] = Status::IllegalAddress;
  EXPECT_EQ(library.call("f", views), -8);
  EXPECT_NE(library.error().find("CUDA_ERROR_ILLEGAL_ADDRESS (700)"), std::string::npos) << library.error();
}

// Packages made by hand, over `n` numbers: x is argument 0, y argument 1.
package::Package copies_of(std::vector<types::Dim> shape) {
  package::Package made;
  made.name = "f";
  made.target = Target::parse("cuda:sm_90a").value();
  const auto buffer = [&](const char* name, package::Buffer::Role role) {
    package::Buffer b;
    b.name = name;
    b.role = role;
    b.dtype = DType::f32;
    b.shape = shape;
    made.buffers.push_back(b);
  };
  buffer("x", package::Buffer::Role::Argument);
  buffer("y", package::Buffer::Role::Output);
  return made;
}

// The file lies beside the library, or where NAME_load_weights says.
TEST(GpuLibraryMemory, ConstantsOfAWeightsFile) {
  using namespace package;  // NOLINT: all kinds of steps
  FakeGpu gpu;
  Package made = copies_of({types::Dim::constant(4)});
  Buffer weight = made.buffers[0];
  weight.name = "w";
  weight.role = Buffer::Role::Constant;
  weight.external = "layer.w";
  made.buffers.push_back(weight);
  made.steps = {LoadConstant{2}, Copy{2, 1}, Return{}};
  ASSERT_EQ(find_defect(made).value_or(""), "");
  GpuLibrary library;
  ASSERT_EQ(library.build("weights", {std::make_shared<const Package>(made)}), "");
  ASSERT_EQ(library.load(), "");
  const std::vector<TensorView> views = {gpu.tensor(DType::f32, {4}), gpu.tensor(DType::f32, {4})};
  EXPECT_EQ(library.call("f", views), -7);
  EXPECT_NE(library.error().find("weights.safetensors"), std::string::npos) << library.error();
  const auto write = [&](const std::string& name, const std::string& shape, const std::vector<float>& values) {
    const std::string header = "{\"layer.w\":{\"dtype\":\"F32\",\"shape\":[" + shape + "],\"data_offsets\":[0," +
                               std::to_string(values.size() * sizeof(float)) + "]}}";
    std::ofstream file(library.folder() + "/" + name, std::ios::binary);
    const uint64_t length = header.size();
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file << header;
    file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * 4));
  };
  write("other.safetensors", "2", {1, 2});
  const auto load = library.symbol<int (*)(const char*)>("_load_weights");
  EXPECT_EQ(load((library.folder() + "/other.safetensors").c_str()), -7);
  EXPECT_NE(library.error().find("layer.w"), std::string::npos) << library.error();
  const std::vector<float> values = {9, 8, 7, 6};
  write("weights.safetensors", "4", values);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(library.call("f", views), 0) << library.error();
    EXPECT_EQ(std::memcmp(views[1].data(), values.data(), 16), 0);
  }
  EXPECT_EQ(gpu.fake.count("cuMemcpyHtoDAsync_v2"), 1U) << "the weights go to the device once";
  library.unload();
  EXPECT_EQ(gpu.fake.count("cuMemFree_v2"), 1U) << "of the weights";
  ASSERT_EQ(library.load(), "");
  write("third.safetensors", "4", {1, 2, 3, 4});
  ASSERT_EQ(library.symbol<int (*)(const char*)>("_load_weights")((library.folder() + "/third.safetensors").c_str()),
            0);
  ASSERT_EQ(library.call("f", views), 0) << library.error();
  EXPECT_EQ(*views[1].as<float>(), 1.0f);
}

TEST(GpuLibraryMemory, DonatedArguments) {
  using namespace package;  // NOLINT: all kinds of steps
  FakeGpu gpu;
  Package made = copies_of({types::Dim::constant(4)});
  made.buffers[0].donated = true;
  Buffer taken = made.buffers[0];
  taken.name = "taken";
  taken.role = Buffer::Role::Temporary;
  taken.donated = false;
  made.buffers.push_back(taken);
  made.steps = {Copy{0, 1}, Reuse{0, 2}, Fill{2}, Return{}};
  ASSERT_EQ(find_defect(made).value_or(""), "");
  GpuLibrary library;
  ASSERT_EQ(library.build("donated", {std::make_shared<const Package>(made)}), "");
  ASSERT_EQ(library.load(), "");
  const std::vector<TensorView> views = {gpu.tensor(DType::f32, {4}), gpu.tensor(DType::f32, {4})};
  const float x[] = {5, 6, 7, 8};
  std::memcpy(views[0].data(), x, sizeof x);
  ASSERT_EQ(library.call("f", views), 0) << library.error();
  EXPECT_EQ(std::memcmp(views[1].data(), x, sizeof x), 0);
  EXPECT_EQ(*views[0].as<float>(), 0.0f) << "the temporary lies where x lay";
  EXPECT_EQ(library.symbol<int64_t (*)()>("_f_workspace_size")(), 0);
}

// A number that the caller passes is a size; of any integer type, and never below 0.
TEST(GpuLibraryMemory, SizesThatAreNumbers) {
  using namespace package;  // NOLINT: all kinds of steps
  for (const DType dtype : {DType::i32, DType::i64, DType::u32}) {
    FakeGpu gpu;
    Package made = copies_of({types::Dim::symbol("n")});
    Buffer count = made.buffers[0];
    count.name = "count";
    count.is_scalar = true;
    count.dtype = dtype;
    count.shape.clear();
    made.buffers.insert(made.buffers.begin() + 1, count);
    Buffer rows = made.buffers[0];
    rows.name = "rows";
    rows.role = Buffer::Role::Temporary;
    rows.shape = {types::Dim::symbol("c"), types::Dim::constant(64)};
    made.buffers.push_back(rows);
    made.pools = {{0, types::Dim::symbol("c") * types::Dim::constant(256), 256}};
    made.steps = {DefineSymbol{"n", 0, 0},
                  DefineSymbol{"c", 1, 0, DefineSymbol::From::Value},
                  Check{RangeGuard{types::Dim::symbol("c"), types::Dim::constant(0), types::Dim::symbol("n"), "rows"}},
                  AllocateFromPool{3, 0, {}},
                  Fill{3},
                  Copy{0, 2},
                  Free{3},
                  Return{}};
    ASSERT_EQ(find_defect(made).value_or(""), "");
    const auto package = std::make_shared<const Package>(made);
    GpuLibrary library;
    ASSERT_EQ(library.build("numbers", {package}), "");
    ASSERT_EQ(library.load(), "");
    const TensorView x = gpu.tensor(DType::f32, {5}), y = gpu.tensor(DType::f32, {5});
    const runtime::cuda::DeviceBuffer workspace = runtime::cuda::DeviceBuffer::make(gpu.device, 1024).value();
    auto* memory = reinterpret_cast<void*>(workspace.address());
    const auto call = [&](int64_t value, int64_t bytes) {
      const TensorView number = TensorView::make(&value, dtype, {}).value();
      return library.call("f", {x, number, y}, memory, bytes);
    };
    EXPECT_EQ(call(3, 768), 0) << library.error();
    EXPECT_EQ(call(3, 767), -5) << "3 rows of 256 bytes";
    EXPECT_EQ(call(0, 0), 0) << library.error();
    EXPECT_EQ(call(6, 1024), -2);
    EXPECT_NE(library.error().find("outside of 0 to 5"), std::string::npos) << library.error();
    if (dtype != DType::u32) {
      EXPECT_EQ(call(-1, 1024), -2);
      EXPECT_NE(library.error().find("E0610"), std::string::npos) << library.error();
    }
    EXPECT_LT(library.symbol<int64_t (*)(int64_t)>("_f_workspace_size")(5), 0);
    EXPECT_NE(library.error().find("depends on the number count; pass no workspace"), std::string::npos)
        << library.error();
  }
}

}  // namespace
}  // namespace codetta::test

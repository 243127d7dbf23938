// SPDX-License-Identifier: Apache-2.0
// Host steps of all kinds that C++ host text has, in packages made by hand: printed, compiled, linked with the engine's
// archives, loaded and called.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>

#include "base/files.hpp"
#include "device/embedded.hpp"
#include "emit/host/cpp.hpp"
#include "runtime/host_ops.hpp"
#include "toolchain/library.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta {
namespace {

using package::Buffer;
using package::Package;
using types::Dim;

const Dim n = Dim::symbol("n");

Buffer buffer(const char* name, Buffer::Role role, std::vector<Dim> shape, DType dtype = DType::f32) {
  Buffer b;
  b.name = name;
  b.role = role;
  b.dtype = dtype;
  b.shape = std::move(shape);
  return b;
}

class Loaded {
 public:
  explicit Loaded(std::shared_ptr<const Package> package) {
    emit::host::Library library;
    library.name = "made";
    library.version = "0";
    library.programs.push_back({"f", std::move(package)});
    const auto good = emit::host::check_library(library);
    EXPECT_TRUE(good.has_value()) << good.error().render();
    toolchain::LibraryJob job;
    job.name = "libmade.so";
    job.exports = emit::host::print_exports(library);
    for (const device::EmbeddedFile& file : device::files())
      job.files.push_back({"device/" + std::string(file.path), std::string(file.text)});
    for (const emit::host::File& file : emit::host::print_cpp(library)) {
      if (file.is_header()) {
        job.files.push_back({file.name, file.text});
        continue;
      }
      job.units.push_back(
          {file.text,
           {"-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti"},
           file.name});
    }
    job.archives = {CODETTA_ENGINE_DIR "/libcodetta_engine.a", CODETTA_ENGINE_DIR "/libcodetta_table_generic.a"};
    toolchain::FindOptions find;
    find.path = "/usr/local/bin:/usr/bin:/bin";
    const auto compiler = toolchain::find_host_compiler(find);
    EXPECT_TRUE(compiler.has_value()) << compiler.error().render();
    const auto built = toolchain::build_library(*compiler, job, {}, 2);
    EXPECT_TRUE(built.has_value()) << built.error().render();
    if (!built) return;
    auto folder = base::TemporaryDirectory::make("/tmp", "codetta-host-steps-");
    const std::string path = folder->path() + "/libmade.so";
    std::ofstream(path, std::ios::binary) << built->bytes;
    handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(handle_, nullptr) << ::dlerror();
  }
  ~Loaded() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  template <class... Arguments>
  int operator()(Arguments... arguments) const {
    using Function = int (*)(Arguments..., void*);
    return reinterpret_cast<Function>(::dlsym(handle_, "made_f"))(arguments..., nullptr);
  }
  struct Tensor {  // as the header declares it
    const void* data;
    int32_t dtype, rank;
    int64_t shape[8], strides[8];
  };
  [[nodiscard]] int tensors(std::vector<Tensor> list) const {
    using Function = int (*)(const Tensor*, int32_t, void*, int64_t, void*);
    return reinterpret_cast<Function>(::dlsym(handle_, "made_f_tensors"))(
        list.data(), static_cast<int32_t>(list.size()), nullptr, 0, nullptr);
  }
  // By the function that takes tensors.
  [[nodiscard]] int call(const std::vector<TensorView>& views) const {
    struct Given {
      void* data;
      int32_t dtype, rank;
      int64_t shape[8], strides[8];
    };
    std::vector<Given> list;
    for (const TensorView& view : views) {
      Given given{view.data(), static_cast<int32_t>(view.dtype()), view.rank(), {}, {}};
      for (int d = 0; d < view.rank(); ++d) {
        given.shape[d] = view.size(d);
        given.strides[d] = view.stride(d);
      }
      list.push_back(given);
    }
    using Function = int (*)(const Given*, int32_t, void*, int64_t, void*);
    return reinterpret_cast<Function>(::dlsym(handle_, "made_f_tensors"))(
        list.data(), static_cast<int32_t>(list.size()), nullptr, 0, nullptr);
  }
  [[nodiscard]] std::string error() const {
    return reinterpret_cast<const char* (*)()>(::dlsym(handle_, "made_get_last_error"))();
  }
  [[nodiscard]] int64_t workspace(int64_t size) const {
    return reinterpret_cast<int64_t (*)(int64_t)>(::dlsym(handle_, "made_f_workspace_size"))(size);
  }

 private:
  void* handle_ = nullptr;
};

TEST(HostSteps, MemoryAndViews) {
  auto package = std::make_shared<Package>();
  package->buffers = {buffer("x", Buffer::Role::Argument, {n, Dim::constant(4)}),
                      buffer("y", Buffer::Role::Output, {n, Dim::constant(4)}),
                      buffer("z", Buffer::Role::Output, {n, Dim::constant(2)}),
                      buffer("own", Buffer::Role::Temporary, {n, Dim::constant(4)}),
                      buffer("pooled", Buffer::Role::Temporary, {n, Dim::constant(4)}),
                      buffer("reused", Buffer::Role::Temporary, {n, Dim::constant(2)}),
                      buffer("half", Buffer::Role::Temporary, {n, Dim::constant(2)})};
  package->buffers[6].strides = {Dim::constant(4), Dim::constant(1)};
  package->buffers[6].offset = Dim::constant(8);  // bytes: columns 2 and 3
  package->pools = {{0, n * Dim::constant(16) + Dim::constant(64), 64}};
  package->steps = {package::DefineSymbol{"n", 0, 0},
                    package::Check{package::SizeGuard{0, 1, Dim::constant(4)}},
                    package::Check{package::StrideGuard{0, 0, Dim::constant(4)}},
                    package::Check{package::AlignmentGuard{0, 16}},
                    package::Check{package::DivisibleGuard{n, Dim::constant(2), "rows come in pairs"}},
                    package::Check{package::RangeGuard{n, Dim::constant(0), Dim::constant(100), "that is enough"}},
                    package::Comment{"a comment \\"},
                    package::EnterSubgraph{"inner"},
                    package::EnterStream{0},
                    package::Allocate{3},
                    package::AllocateFromPool{4, 0, Dim::constant(64)},
                    package::Copy{0, 3},
                    package::Fill{4, package::ZeroMode::PerCall, 0x40400000},
                    package::Reinterpret{3, 6},
                    package::Copy{3, 1},
                    package::Copy{6, 2},
                    package::Reuse{4, 5},
                    package::Copy{5, 6},
                    package::Free{6},
                    package::ExitStream{},
                    package::ExitSubgraph{},
                    package::Copy{3, 1},
                    package::Return{}};
  const Loaded f(package);
  for (const int64_t rows : {0, 2, 6}) {
    std::vector<float> memory(64), y(64, -1.0f), z(64, -1.0f);
    float* x = memory.data() + (16 - reinterpret_cast<uintptr_t>(memory.data()) % 16) % 16 / 4;
    for (int64_t i = 0; i < rows * 4; ++i) x[i] = static_cast<float>(i);
    ASSERT_EQ(f(x, y.data(), z.data(), rows), 0) << f.error();
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < 4; ++c) EXPECT_EQ(y[static_cast<size_t>(r * 4 + c)], c < 2 ? x[r * 4 + c] : 3.0f);
      for (int64_t c = 0; c < 2; ++c) EXPECT_EQ(z[static_cast<size_t>(r * 2 + c)], x[r * 4 + 2 + c]);
    }
    EXPECT_EQ(y[static_cast<size_t>(rows * 4)], -1.0f);
    EXPECT_EQ(f(x + 1, y.data(), z.data(), int64_t{2}), -2);
    EXPECT_NE(f.error().find("aligned to 16 bytes"), std::string::npos) << f.error();
    EXPECT_EQ(f(x, y.data(), z.data(), int64_t{3}), -2);
    EXPECT_NE(f.error().find("rows come in pairs"), std::string::npos) << f.error();
    EXPECT_EQ(f(x, y.data(), z.data(), int64_t{102}), -2);
    EXPECT_NE(f.error().find("outside of 0 to 100"), std::string::npos) << f.error();
  }
  EXPECT_EQ(f.workspace(6), 128 + 192);  // 96 bytes of its own, 160 in the pool, in lines of 64
}

TEST(HostSteps, BranchesAndLoops) {
  auto package = std::make_shared<Package>();
  package->buffers = {buffer("x", Buffer::Role::Argument, {n}),
                      buffer("choose", Buffer::Role::Argument, {}, DType::boolean),
                      buffer("again", Buffer::Role::Argument, {Dim::constant(1)}, DType::boolean),
                      buffer("y", Buffer::Role::Output, {n}), buffer("t", Buffer::Role::Temporary, {n})};
  package->buffers[1].is_scalar = true;
  package->step_lists = {
      {package::Allocate{4}, package::Copy{0, 4}, package::Copy{4, 3}, package::Free{4}},
      {package::Fill{3, package::ZeroMode::PerCall, 0x3f800000}},
      {package::Comment{"nothing to compute"}},
      {package::DefineSymbol{"m", 0, 0, package::DefineSymbol::From::Expression, 0, n * Dim::constant(2),
                             Dim::constant(2)},
       package::Allocate{4}, package::Fill{3, package::ZeroMode::PerCall, 0x40000000}},
  };
  package->steps = {package::DefineSymbol{"n", 0, 0}, package::If{1, 0, 1}, package::While{2, 2, 3, 5},
                    package::Return{}};
  const Loaded f(package);
  const std::vector<float> x = {5, 6, 7};
  std::vector<float> y(3);
  bool again = false;
  ASSERT_EQ(f(x.data(), true, &again, y.data(), int64_t{3}), 0) << f.error();
  EXPECT_EQ(y, x);
  ASSERT_EQ(f(x.data(), false, &again, y.data(), int64_t{3}), 0) << f.error();
  EXPECT_EQ(y, std::vector<float>(3, 1.0f));
  again = true;
  EXPECT_EQ(f(x.data(), true, &again, y.data(), int64_t{3}), -2);
  EXPECT_NE(f.error().find("E0651: the loop still runs after 5 iterations"), std::string::npos) << f.error();
  EXPECT_EQ(y, std::vector<float>(3, 2.0f));
  EXPECT_EQ(f.workspace(3), 64);  // branch and loop body take the same place
}

TEST(HostSteps, DonatedMemoryLiesInOnePiece) {
  auto package = std::make_shared<Package>();
  const Dim four = Dim::constant(4);
  package->buffers = {buffer("x", Buffer::Role::Argument, {four, four}),
                      buffer("y", Buffer::Role::Output, {four, four}),
                      buffer("t", Buffer::Role::Temporary, {four, four})};
  package->buffers[0].donated = true;
  package->steps = {package::Copy{0, 1}, package::Reuse{0, 2}, package::Fill{2, package::ZeroMode::PerCall, 0x3f800000},
                    package::Free{2}, package::Return{}};
  const Loaded f(package);
  alignas(64) float x[64], y[16];
  const auto call = [&](int64_t offset, std::vector<int64_t> shape, std::vector<int64_t> strides) {
    std::fill_n(x, 64, -1.0f);
    Loaded::Tensor given{x + offset, 13, static_cast<int32_t>(shape.size()), {}, {}};
    std::copy(shape.begin(), shape.end(), given.shape);
    std::copy(strides.begin(), strides.end(), given.strides);
    return f.tensors({given, {y, 13, 2, {4, 4}, {4, 1}}});
  };
  EXPECT_EQ(call(0, {4, 4}, {4, 1}), 0) << f.error();
  EXPECT_EQ(x[15], 1.0f);
  EXPECT_EQ(x[16], -1.0f);
  for (const auto& [offset, step] : {std::pair(0, 8), std::pair(0, 0), std::pair(1, 4)}) {
    EXPECT_EQ(call(offset, {4, 4}, {step, 1}), -2) << step;
    EXPECT_NE(f.error().find("can not be reused"), std::string::npos) << f.error();
    EXPECT_EQ(std::count(x, x + 64, -1.0f), 64);
  }
}

// A stride is what the tensor says, as in process, also where it is never taken.
TEST(HostSteps, StridesOfOneElement) {
  auto package = std::make_shared<Package>();
  const Dim s = Dim::symbol("s"), one = Dim::constant(1), four = Dim::constant(4);
  package->buffers = {buffer("x", Buffer::Role::Argument, {one, four}), buffer("y", Buffer::Role::Output, {one, four})};
  package->steps = {package::DefineSymbol{"s", 0, 0, package::DefineSymbol::From::Stride},
                    package::Check{package::RangeGuard{s, Dim::constant(8), Dim::constant(8), "rows are lines"}},
                    package::Copy{0, 1}, package::Return{}};
  const Loaded f(package);
  const float x[] = {1, 2, 3, 4};
  float y[4] = {};
  EXPECT_EQ(f.tensors({{x, 13, 2, {1, 4}, {8, 1}}, {y, 13, 2, {1, 4}, {4, 1}}}), 0) << f.error();
  EXPECT_EQ(y[3], 4.0f);
  EXPECT_EQ(f.tensors({{x, 13, 2, {1, 4}, {4, 1}}, {y, 13, 2, {1, 4}, {4, 1}}}), -2);
}

TEST(HostSteps, SizesOfValues) {
  auto package = std::make_shared<Package>();
  const Dim k = Dim::symbol("k");
  package->buffers = {buffer("count", Buffer::Role::Argument, {Dim::constant(1)}, DType::i32),
                      buffer("x", Buffer::Role::Argument, {n}), buffer("y", Buffer::Role::Output, {n})};
  package->steps = {package::DefineSymbol{"n", 1, 0},
                    package::DefineSymbol{"k", 0, 0, package::DefineSymbol::From::Value, 0, {}, Dim::constant(2)},
                    package::Check{package::RangeGuard{k, Dim::constant(1), n, "k picks a row"}}, package::Copy{1, 2},
                    package::Return{}};
  const Loaded f(package);
  const std::vector<float> x = {5, 6, 7};
  std::vector<float> y(3);
  for (const auto& [count, status] :
       {std::pair(2, 0), std::pair(6, 0), std::pair(8, -2), std::pair(3, -2), std::pair(-2, -2)}) {
    const int32_t value = count;
    EXPECT_EQ(f(&value, x.data(), y.data(), int64_t{3}), status) << count << " " << f.error();
  }
}

// Values at indices of two dims, and combined along one, of every element type: the bits of runs in process. One
// library for all of them.
TEST(HostSteps, WritesAtIndices) {
  using package::ScatterReduce;
  constexpr ScatterReduce reductions[] = {ScatterReduce::None, ScatterReduce::Sum, ScatterReduce::Product,
                                          ScatterReduce::Min, ScatterReduce::Max};
  constexpr size_t outputs = 2 + std::size(reductions);
  const Dims shape = {3, 4, 2}, put_shape = {5, 2}, places = {5}, index_shape = {3, 3, 2};
  const auto dims = [](const Dims& sizes) {
    std::vector<Dim> result;
    for (const int64_t size : sizes) result.push_back(Dim::constant(size));
    return result;
  };
  auto package = std::make_shared<Package>();
  std::vector<Tensor> memory;
  std::mt19937 random(7);
  const auto add = [&](const std::string& name, Buffer::Role role, const Dims& sizes, DType dtype, int64_t most) {
    package->buffers.push_back(buffer("", role, dims(sizes), dtype));
    package->buffers.back().name = name;
    memory.push_back(Tensor::make(dtype, sizes).value());
    auto* bytes = static_cast<std::byte*>(memory.back().data());
    for (int64_t i = 0; i < memory.back().view().element_count(); ++i) {
      const double value = most > 0 ? static_cast<double>(random() % static_cast<uint32_t>(most))
                                    : (static_cast<double>(random() % 2001) - 1000.0) / 37.0;
      types::store_f64(bytes + i * dtype_size(dtype), dtype, value);
    }
    return static_cast<uint32_t>(package->buffers.size() - 1);
  };
  const uint32_t i = add("i", Buffer::Role::Argument, places, DType::i32, 3),
                 j = add("j", Buffer::Role::Argument, places, DType::u8, 4),
                 p = add("p", Buffer::Role::Argument, index_shape, DType::i64, 4);
  std::vector<uint32_t> xs;
  for (int d = 0; d < dtype_count; ++d) {
    const auto dtype = static_cast<DType>(d);
    const std::string tail = "_" + std::string(dtype_name(dtype));
    xs.push_back(add("x" + tail, Buffer::Role::Argument, shape, dtype, 0));
    const uint32_t put = add("v" + tail, Buffer::Role::Argument, put_shape, dtype, 0),
                   source = add("s" + tail, Buffer::Role::Argument, shape, dtype, 0);
    for (size_t o = 0; o < outputs; ++o) {
      const uint32_t y = add("y" + std::to_string(o) + tail, Buffer::Role::Output, shape, dtype, 1);
      package->steps.emplace_back(package::Copy{xs.back(), y});
      if (o < 2) {
        package->steps.emplace_back(package::IndexPut{y, {i, j}, put, o == 1});
      } else {
        package->steps.emplace_back(package::Scatter{y, p, source, 1, reductions[o - 2]});
      }
    }
  }
  package->steps.emplace_back(package::Return{});
  const Loaded f(package);
  std::vector<TensorView> views;
  for (Tensor& tensor : memory) views.push_back(tensor.view());
  ASSERT_EQ(f.call(views), 0) << f.error();
  const auto named = [&](uint32_t b, const TensorView& view) {
    return runtime::NamedView{view, package->buffers[b].name};
  };
  for (const uint32_t x : xs) {
    for (size_t o = 0; o < outputs; ++o) {
      const uint32_t y = x + 3 + static_cast<uint32_t>(o);
      Tensor expected = Tensor::make(views[x].dtype(), shape).value();
      const auto bytes = static_cast<size_t>(views[x].element_count() * dtype_size(views[x].dtype()));
      std::memcpy(expected.data(), views[x].data(), bytes);
      const auto target = named(y, expected.view());
      const auto done =
          o < 2 ? runtime::index_put(target, {named(i, views[i]), named(j, views[j])}, named(x + 1, views[x + 1]),
                                     o == 1, true)
                : runtime::scatter(target, named(p, views[p]), named(x + 2, views[x + 2]), 1, reductions[o - 2], true);
      ASSERT_TRUE(done) << done.error().render();
      EXPECT_EQ(std::memcmp(expected.data(), views[y].data(), bytes), 0) << package->buffers[y].name;
    }
  }
  views[j].as<uint8_t>()[3] = 4;
  EXPECT_EQ(f.call(views), -1);
  EXPECT_NE(f.error().find("E0618: index 4 is out of range for the size 4; it stands at [3] of j"), std::string::npos)
      << f.error();
}

// NaN and infinities, of every float type, where they stand; views without elements hold none.
TEST(HostSteps, ChecksNumbers) {
  struct Kind {
    DType dtype;
    uint64_t nan, infinity;  // 0: it has none
  };
  const Kind kinds[] = {{DType::f8e4m3, 0xFF, 0},
                        {DType::f8e5m2, 0x7D, 0xFC},
                        {DType::f16, 0x7E01, 0xFC00},
                        {DType::bf16, 0xFFC0, 0x7F80},
                        {DType::f32, 0x7F800001, 0xFF800000},
                        {DType::f64, 0x7FF0000000000001, 0x7FF0000000000000}};
  auto package = std::make_shared<Package>();
  for (const Kind& kind : kinds) {
    for (const bool infinity : {false, true}) {
      package->buffers.push_back(
          buffer(infinity ? "finite" : "number", Buffer::Role::Argument, {n, Dim::constant(3)}, kind.dtype));
      package->buffers.back().name += std::to_string(package->buffers.size());
    }
  }
  package->steps.push_back(package::DefineSymbol{"n", 0, 0});
  for (uint32_t b = 0; b < package->buffers.size(); ++b)
    package->steps.push_back(package::Check{package::NanGuard{b, b % 2 == 1, b == 1 ? "step 7" : ""}});
  package->steps.emplace_back(package::Return{});
  const Loaded f(package);
  std::vector<std::vector<uint64_t>> memory(package->buffers.size(), std::vector<uint64_t>(8));
  std::vector<TensorView> views;
  for (size_t b = 0; b < memory.size(); ++b)
    views.push_back(TensorView::make(memory[b].data(), package->buffers[b].dtype, {2, 3}).value());
  EXPECT_EQ(f.call(views), 0) << f.error();
  for (size_t b = 0; b < memory.size(); ++b) {
    const Kind& kind = kinds[b / 2];
    const size_t bytes = static_cast<size_t>(dtype_size(kind.dtype));
    auto* const at = reinterpret_cast<char*>(memory[b].data()) + 4 * bytes;  // [1, 1]
    const uint64_t greatest =
        (kind.infinity == 0 ? 0x7E : (kind.infinity & ((uint64_t{1} << (8 * bytes - 1)) - 1)) - 1);
    std::memcpy(at, &greatest, bytes);
    EXPECT_EQ(f.call(views), 0) << f.error();
    std::memcpy(at, &kind.nan, bytes);
    EXPECT_EQ(f.call(views), -1);
    EXPECT_EQ(f.error(), "E0619: " + package->buffers[b].name + " holds NaN; it stands at [1, 1]" +
                             (b == 1 ? "; made by step 7" : ""));
    std::memcpy(at, &kind.infinity, bytes);
    EXPECT_EQ(f.call(views), b % 2 == 1 && kind.infinity != 0 ? -1 : 0) << f.error();
    std::memset(at, 0, bytes);
  }
  memory[0].assign(8, ~uint64_t{0});
  for (size_t b = 0; b < memory.size(); ++b)
    views[b] = TensorView::make(memory[b].data(), package->buffers[b].dtype, {0, 3}).value();
  EXPECT_EQ(f.call(views), 0) << f.error();
}

}  // namespace
}  // namespace codetta

// SPDX-License-Identifier: Apache-2.0
// Tensor maps of kernels of the user's over the pretended driver: what it is asked for, and every constraint by name.
#include <cstring>

#include "device/host/user_maps.h"
#include "unit/driver_cuda/fixture.hpp"

namespace codetta {
namespace {

using diag::Code;
namespace host = codetta::gpu::host;

class CudaUserMaps : public CudaApi {
 protected:
  void SetUp() override {
    CudaApi::SetUp();
    fake_.parameter_bytes = 0;
    fake_.computes = false;
    fake_.parameter_sizes["walk"] = {128, 8};
  }
  static Program program(const std::string& type, const std::string& clauses, const std::string& dims) {
    const std::string text =
        "def f(x: " + type + "):\n    y = user_kernel(\"walk\", x, out=\"f32[4]\")\n    return y\n";
    const std::string dtype = type.substr(0, type.find('['));
    const std::string source = "#pragma codetta kernel(x: " + dtype + "[" + dims + "], out y: f32[4])\n" +
                               "#pragma codetta block(32) grid(1) " + clauses +
                               "\nextern \"C\" __global__ void __launch_bounds__(32) walk("
                               "const __grid_constant__ TensorMap x, float* y) {}\n";
    return Program::parse(text, "p.py")
        .value()
        .with_kernels({{"walk", source, UserKernel::Language::cuda, "walk.cu"}})
        .value();
  }
  // `x`: where it lies is chosen here; only its sizes and strides count.
  Result<void> run(Context& context, const Program& of, DType dtype, const Dims& shape, const Dims& strides,
                   int64_t shift = 0) {
    const Device device = Device::open(context).value();
    int64_t span = 1;
    for (size_t d = 0; d < static_cast<size_t>(shape.rank()); ++d)
      span += (shape[static_cast<int>(d)] - 1) * strides[static_cast<int>(d)];
    memory_.push_back(DeviceTensor::make(device, u8, {std::max<int64_t>(span, 1) * dtype_size(dtype) + 64}).value());
    memory_.push_back(DeviceTensor::make(device, f32, {4}).value());
    x_ = static_cast<char*>(memory_[memory_.size() - 2].data()) + shift;
    CODETTA_TRY(const TensorView x, TensorView::make(x_, dtype, shape, strides));
    CODETTA_TRY(const CompiledProgram compiled, compile(of, {Backend::cuda, {}, ""}, {}, context));
    CODETTA_TRY(Execution execution, compiled.prepare({{"x", x}, {"y", memory_.back().view()}}));
    return execution.run();
  }
  std::vector<DeviceTensor> memory_;
  void* x_ = nullptr;
};

TEST_F(CudaUserMaps, TiledMapsReachTheDriver) {
  Context c = context();
  const auto ran = run(
      c,
      program("bf16[\"b\", \"m\", \"n\"]",
              "config(ROWS = 16) map(x, box(1, ROWS, 64), steps(1, 2, 1), swizzle(128), promotion(256))", "b, m, n"),
      bf16, {3, 20, 72}, {20 * 80, 80, 1});
  ASSERT_TRUE(ran) << ran.error().render();
  ASSERT_EQ(fake_.tensor_maps.size(), 1U);
  const test::FakeTensorMap& map = fake_.tensor_maps[0];
  EXPECT_FALSE(map.im2col);
  EXPECT_EQ(map.dtype, 9);
  EXPECT_EQ(map.rank, 3U);
  EXPECT_EQ(map.address, x_);
  EXPECT_EQ(map.sizes, (std::vector<uint64_t>{72, 20, 3}));
  EXPECT_EQ(map.strides, (std::vector<uint64_t>{160, 3200}));
  EXPECT_EQ(map.box, (std::vector<uint32_t>{64, 16, 1}));
  EXPECT_EQ(map.steps, (std::vector<uint32_t>{1, 2, 1}));
  EXPECT_EQ(map.swizzle, 3);
  EXPECT_EQ(map.interleave, 0);
  EXPECT_EQ(map.promotion, 3);
  EXPECT_EQ(map.fill, 0);
  // The map is what the kernel gets in the tensor's place.
  ASSERT_FALSE(fake_.launches.empty());
  ASSERT_EQ(fake_.launches[0].function, "walk");
  uint64_t begin = 0;
  std::memcpy(&begin, fake_.launches[0].each.at(0).data(), sizeof begin);
  EXPECT_EQ(begin, reinterpret_cast<uintptr_t>(x_));
}

TEST_F(CudaUserMaps, SmallTensorsAndRanks) {
  Context c = context();
  // One dim; NaN outside.
  ASSERT_TRUE(run(c, program("f32[\"n\"]", "map(x, box(8), nan)", "n"), f32, {100}, {1}));
  EXPECT_EQ(fake_.tensor_maps.back().rank, 1U);
  EXPECT_EQ(fake_.tensor_maps.back().fill, 1);
  // A stride that is never taken is none of the driver's business.
  ASSERT_TRUE(run(c, program("f32[\"m\", \"n\"]", "map(x, box(1, 4))", "m, n"), f32, {1, 6}, {7, 1}));
  EXPECT_EQ(fake_.tensor_maps.back().strides, (std::vector<uint64_t>{32}));
  ASSERT_TRUE(run(
      c, program("u8[2, 2, 2, 2, \"n\"]", "map(x, box(1, 1, 1, 1, 32), interleave(32), swizzle(32))", "2, 2, 2, 2, n"),
      u8, {2, 2, 2, 2, 64}, {512, 256, 128, 64, 1}));
  EXPECT_EQ(fake_.tensor_maps.back().rank, 5U);
  EXPECT_EQ(fake_.tensor_maps.back().interleave, 2);
}

// Corners against what a convolution visits: for every filter, padding, dilation and stride the positions between them
// are as many as the convolution has, and begin where its first tap lies.
TEST_F(CudaUserMaps, Im2colCornersForEveryConvolution) {
  Context c = context();
  const auto axis = [&](int64_t size, int64_t filter, int64_t before, int64_t after, int64_t dilation, int64_t stride) {
    const std::string clause = "im2col(x, filter(" + std::to_string(filter) + "), padding(" + std::to_string(before) +
                               "), padding_after(" + std::to_string(after) + "), dilation(" + std::to_string(dilation) +
                               "), stride(" + std::to_string(stride) + "), channels(8), pixels(16))";
    fake_.tensor_maps.clear();
    const auto ran = run(c, program("f32[\"b\", \"w\", 8]", clause, "b, w, 8"), f32, {2, size, 8}, {size * 8, 8, 1});
    const int64_t reach = size + before + after - dilation * (filter - 1);
    if (reach < 1) {
      expect(ran, Code::tensor_map, "no position is within the corners");
      return;
    }
    ASSERT_TRUE(ran) << ran.error().render();
    const test::FakeTensorMap& map = fake_.tensor_maps.at(0);
    const int64_t outputs = (reach - 1) / stride + 1;
    int64_t visited = 0;
    for (int64_t at = map.lower[0]; at <= size - 1 + map.upper[0]; at += map.steps[1]) ++visited;
    EXPECT_EQ(visited, outputs) << clause;
    EXPECT_EQ(map.lower[0], -before) << clause;
  };
  for (const int64_t filter : {1, 2, 3, 5}) {
    for (const int64_t padding : {0, 1, 2}) {
      for (const int64_t dilation : {1, 2, 3}) axis(9, filter, padding, padding, dilation, 1 + (filter + padding) % 2);
    }
  }
  axis(9, 3, 2, 0, 1, 1);
  axis(9, 3, 0, 2, 2, 3);
  axis(4, 3, 0, 0, 2, 1);
}

TEST_F(CudaUserMaps, Im2colMapsReachTheDriver) {
  Context c = context();
  const auto ran = run(c,
                       program("bf16[\"b\", \"h\", \"w\", 64]",
                               "im2col(x, filter(3, 5), padding(1, 4), dilation(1, 2), stride(2, 1), channels(64), "
                               "pixels(128), swizzle(128))",
                               "b, h, w, 64"),
                       bf16, {2, 14, 20, 64}, {14 * 20 * 64, 20 * 64, 64, 1});
  ASSERT_TRUE(ran) << ran.error().render();
  const test::FakeTensorMap& map = fake_.tensor_maps.at(0);
  EXPECT_TRUE(map.im2col);
  EXPECT_EQ(map.sizes, (std::vector<uint64_t>{64, 20, 14, 2}));
  EXPECT_EQ(map.strides, (std::vector<uint64_t>{128, 2560, 35840}));
  EXPECT_EQ(map.lower, (std::vector<int>{-4, -1}));
  EXPECT_EQ(map.upper, (std::vector<int>{4 - 2 * 4, 1 - 2}));
  EXPECT_EQ(map.steps, (std::vector<uint32_t>{1, 1, 2, 1}));
  EXPECT_EQ(map.channels, 64U);
  EXPECT_EQ(map.pixels, 128U);
  EXPECT_EQ(map.swizzle, 3);
}

// With tensors: E0649, before the driver is asked.
TEST_F(CudaUserMaps, TensorsThatNoMapCanWalk) {
  Context c = context();
  const Program one = program("f32[\"m\", \"n\"]", "map(x, box(8, 8))", "m, n");
  expect(run(c, one, f32, {8, 8}, {8, 1}, 8), Code::tensor_map, "its address is 8 modulo 16");
  expect(run(c, one, f32, {8, 8}, {10, 1}), Code::tensor_map, "the stride of dim 0 is 40 bytes");
  expect(run(c, one, f32, {8, 8}, {8, 2}), Code::tensor_map, "elements of its last dim are 2 apart");
  expect(run(c, one, f32, {8, 0}, {8, 1}), Code::tensor_map, "dim 1 has 0 elements");
  EXPECT_TRUE(fake_.tensor_maps.empty());
  fake_.fail["cuTensorMapEncodeTiled"] = runtime::cuda::Status::InvalidValue;
  expect(run(c, one, f32, {8, 8}, {8, 1}), Code::driver_call, "Failed to initialize the TMA descriptor");
}

// With the source alone: E0231, when the program is compiled.
TEST_F(CudaUserMaps, MapsThatNoTensorFits) {
  Context c = context();
  const auto refused = [&](const std::string& type, const std::string& clauses, const std::string& dims,
                           std::string_view part) {
    expect(compile(program(type, clauses, dims), {Backend::cuda, {}, ""}, {}, c), Code::kernel_launch, part);
  };
  const std::string two = "f32[\"m\", \"n\"]", four = "bf16[\"b\", \"h\", \"w\", \"c\"]";
  refused(two, "map(x, box(8, 257))", "m, n", "the box has 257 elements in dim 1");
  refused(two, "map(x, box(0, 8))", "m, n", "the box has 0 elements in dim 0");
  refused(two, "map(x, box(8))", "m, n", "box has 1 values, and x wants 2");
  refused(two, "map(x)", "m, n", "the box has 0 elements");
  refused(two, "map(x, box(8, 3))", "m, n", "a row of its box has 12 bytes");
  refused(two, "map(x, box(8, 16), swizzle(32))", "m, n", "64 bytes, more than the swizzle's 32");
  refused(two, "map(x, box(8, 16), swizzle(96))", "m, n", "a swizzle, an interleave or a promotion");
  refused(two, "map(x, box(8, 16), interleave(16))", "m, n", "interleaved maps have 3 to 5");
  refused(two, "map(x, box(8, 16), steps(9, 1))", "m, n", "every 9-th element of dim 0");
  refused(two, "map(x, box(8, 16), steps(1, 2))", "m, n", "every 2-th element of its last dim");
  refused(two, "map(x, box(8, 16), channels(9))", "m, n", "channels is nothing of map");
  refused(two, "map(x, box(8, 16), box(8, 16))", "m, n", "box is said twice");
  refused(two, "map(x, box(8, 16)) map(x, box(8, 8))", "m, n", "two maps of x hold");
  refused(two, "im2col(x, channels(8), pixels(8))", "m, n", "im2col maps have 3 to 5");
  refused("f32[2, 2, 2, 2, 2, \"n\"]", "map(x, box(1, 1, 1, 1, 1, 8))", "2, 2, 2, 2, 2, n", "it has 6 dims");
  refused("f32[2, 2, \"n\"]", "map(x, box(1, 1, 8), interleave(32))", "2, 2, n", "needs a swizzle of 32 bytes");
  refused("i32[\"m\", \"n\"]", "map(x, box(8, 16), nan)", "m, n", "its type has none");
  refused(four, "im2col(x, filter(3, 3), channels(257), pixels(8))", "b, h, w, c", "257 channels");
  refused(four, "im2col(x, filter(3, 3), channels(8), pixels(1025))", "b, h, w, c", "1025 pixels");
  refused(four, "im2col(x, filter(3, 3), padding(129, 0), channels(8), pixels(8))", "b, h, w, c",
          "a corner of dim 1 is -129");
  refused(four, "im2col(x, filter(3), channels(8), pixels(8))", "b, h, w, c", "filter has 1 values, and x wants 2");
  refused(four, "im2col(x, filter(3, 3), channels(4), pixels(8))", "b, h, w, c", "a row of its box has 8 bytes");
  const auto filters = [&](const std::string& said, std::string_view part) {
    refused(four, "im2col(x, " + said + ", channels(8), pixels(8))", "b, h, w, c", part);
  };
  filters("filter(0, 3)", "filter is 0; it is 1 at least");
  filters("filter(3, -3)", "filter is -3; it is 1 at least");
  filters("filter(3, 3), dilation(1, 0)", "dilation is 0; it is 1 at least");
  filters("filter(4097, 3), dilation(1048576, 1)", "a corner of dim 1 is -4294967296, beyond 32 bits");
  filters("filter(1048577, 3)", "1048577 is out of all bounds");
  filters("filter(3, 3), padding(0, -1048577)", "-1048577 is out of all bounds");
}

TEST_F(CudaUserMaps, PaddingMayBeNegative) {
  Context c = context();
  const auto ran =
      run(c, program("f32[\"b\", \"w\", 8]", "im2col(x, filter(3), padding(-1), channels(8), pixels(16))", "b, w, 8"),
          f32, {2, 9, 8}, {72, 8, 1});
  ASSERT_TRUE(ran) << ran.error().render();
  EXPECT_EQ(fake_.tensor_maps.at(0).lower, (std::vector<int>{1}));
  EXPECT_EQ(fake_.tensor_maps.at(0).upper, (std::vector<int>{-3}));
}

TEST_F(CudaUserMaps, DevicesAndTargetsWithoutThem) {
  const Program tiled = program("f32[\"m\", \"n\"]", "map(x, box(8, 8))", "m, n");
  const Program pixels = program("f32[\"b\", \"w\", 8]", "im2col(x, channels(8), pixels(16))", "b, w, 8");
  Context c = context();
  const Target older{Backend::cuda, {}, "sm_80"};
  expect(compile(tiled, older, {}, c), Code::kernel_launch,
         "tensor maps need compute capability 9.0, and the target is sm_80");
  expect(compile(pixels, older, {}, c), Code::kernel_launch, "or leave out im2col");
  for (const char* arch : {"sm_90", "sm_120"}) EXPECT_TRUE(compile(tiled, {Backend::cuda, {}, arch}, {}, c)) << arch;
  // One that says it has none, whatever its number.
  fake_.has_tensor_maps = false;
  Context lacking = context();
  expect(run(lacking, tiled, f32, {8, 8}, {8, 1}), Code::launch_limits,
         "it takes tensor maps, and Pretended GPU 0 of compute capability 9 has none");
  EXPECT_TRUE(fake_.tensor_maps.empty());
}

// The rest of the constraints, on the plain structs.
TEST(UserMaps, EveryConstraintHasAName) {
  host::UserMap map{};
  map.box[0] = 8, map.box[1] = map.box[2] = 4;
  for (int& step : map.steps) step = 1;
  host::UserMapView view{"x", static_cast<uint8_t>(f32), 4096, 3, {64, 32, 16}, {1, 64, 2048}};
  const auto reason = [](const host::UserMap& m, const host::UserMapView& v) {
    host::UserMapArguments call;
    host::Trouble trouble;
    if (host::user_map(m, v, call, trouble)) return std::string("none");
    EXPECT_EQ(trouble.code, 649);
    EXPECT_STREQ(trouble.headline, "the tensor map of x breaks a constraint");
    return std::string(trouble.reason);
  };
  EXPECT_EQ(reason(map, view), "none");
  const auto with = [&](auto change) {
    host::UserMap m = map;
    host::UserMapView v = view;
    change(m, v);
    return reason(m, v);
  };
  using M = host::UserMap;
  using V = host::UserMapView;
  EXPECT_NE(with([](M&, V& v) { v.size[2] = (int64_t{1} << 32) + 1; }).find("sizes go from 1 to 2^32"),
            std::string::npos);
  EXPECT_EQ(with([](M&, V& v) { v.size[2] = int64_t{1} << 32; }), "none");
  EXPECT_NE(with([](M&, V& v) { v.stride[2] = int64_t{1} << 38; }).find("below 2^40 bytes"), std::string::npos);
  EXPECT_NE(with([](M&, V& v) { v.stride[2] = -2048; }).find("strides are positive"), std::string::npos);
  EXPECT_NE(with([](M& m, V& v) { m.interleave = 2, m.swizzle = 1, v.address = 16; }).find("multiples of 32"),
            std::string::npos);
  EXPECT_NE(with([](M& m, V& v) {
              m.interleave = 2, m.swizzle = 1, v.stride[1] = 68;
            }).find("272 bytes; strides are multiples of 32"),
            std::string::npos);
  EXPECT_NE(with([](M& m, V&) { m.steps[1] = 0; }).find("every 0-th element"), std::string::npos);
  EXPECT_NE(with([](M& m, V&) { m.steps[0] = 2; }).find("its last dim is taken; that dim is taken whole"),
            std::string::npos)
      << "the driver would ignore it";
  EXPECT_EQ(with([](M& m, V&) { m.steps[0] = 2, m.interleave = 1; }), "none") << "then it does not";
}

}  // namespace
}  // namespace codetta

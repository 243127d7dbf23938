// SPDX-License-Identifier: Apache-2.0
// DLPack: round trips without copies, and what cannot be used (E0624).
#include "io_support.hpp"

#include "runtime/io/dlpack_abi.hpp"

namespace codetta::runtime::test {
namespace {

TEST(DLPack, RoundTripsEveryDtypeWithoutCopying) {
  for (const DType dtype : all_dtypes) {
    for (const Dims& shape : {Dims{}, Dims{3}, Dims{2, 3, 4}, Dims{0, 2}}) {
      const Tensor tensor = random_tensor(dtype, shape, 3);
      const auto exported = to_dlpack(tensor);
      ASSERT_TRUE(exported.has_value());
      const auto back = from_dlpack(*exported);
      ASSERT_TRUE(back.has_value()) << back.error().render();
      EXPECT_TRUE(*back == tensor.view()) << tensor.view().describe();
      (*exported)->deleter(*exported);
    }
  }
  const Tensor tensor = random_tensor(DType::f32, {2, 3}, 3);
  const auto exported = to_dlpack(tensor.view().transposed());
  ASSERT_TRUE(exported.has_value());
  EXPECT_EQ((*exported)->version.major, 1u);
  EXPECT_EQ((*exported)->dl_tensor.strides[0], 1);
  EXPECT_TRUE(*from_dlpack(*exported) == tensor.view().transposed());
  (*exported)->deleter(*exported);
}

TEST(DLPack, ExportsMemoryOnly) {
  expect_error(to_dlpack(TensorView()), diag::Code::dlpack_unusable, "the view cannot be exported over DLPack",
               "it has no memory");
  const auto nothing = to_dlpack(*TensorView::make(nullptr, DType::f32, {0, 3}));
  ASSERT_TRUE(nothing.has_value());  // no element has to lie anywhere
  (*nothing)->deleter(*nothing);
}

struct Case {
  float memory[16] = {};
  int64_t shape[2] = {2, 3};
  int64_t strides[2] = {3, 1};
  DLManagedTensorVersioned versioned{};
  Case() { reset(); }
  Case(const Case&) = delete;
  void reset() {
    versioned.version = {1, 0};
    versioned.dl_tensor = {memory, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  }
  void refused(const std::string& reason) const {
    expect_error(from_dlpack(&versioned), diag::Code::dlpack_unusable, "the DLPack tensor cannot be used", reason);
  }
};

TEST(DLPack, ImportsOffsetsAndDefaultStrides) {
  Case c;
  EXPECT_EQ(from_dlpack(&c.versioned)->strides(), (Dims{3, 1}));
  c.versioned.dl_tensor.byte_offset = 8;
  c.strides[0] = 5;
  c.versioned.dl_tensor.strides = c.strides;
  const auto view = from_dlpack(&c.versioned);
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->data(), c.memory + 2);
  EXPECT_EQ(view->strides(), (Dims{5, 1}));
  c.versioned.dl_tensor.device.device_type = 3;  // pinned host memory
  EXPECT_TRUE(from_dlpack(&c.versioned).has_value());
  DLManagedTensor old{c.versioned.dl_tensor, nullptr, nullptr};
  EXPECT_TRUE(*from_dlpack(&old) == *view);
}

TEST(DLPack, ReadOnlyStaysSo) {
  Case c;
  EXPECT_FALSE(from_dlpack(&c.versioned)->read_only());
  c.versioned.flags = io::dl_flag_read_only;
  const auto view = from_dlpack(&c.versioned);
  ASSERT_TRUE(view.has_value());
  EXPECT_TRUE(view->read_only());
  EXPECT_TRUE(view->transposed().read_only());
  const auto exported = to_dlpack(*view);
  ASSERT_TRUE(exported.has_value());
  EXPECT_EQ((*exported)->flags, io::dl_flag_read_only);
  (*exported)->deleter(*exported);
}

TEST(DLPack, RefusesWhatItCannotUse) {
  const std::string headline = "the DLPack tensor cannot be used";
  expect_error(from_dlpack(static_cast<const DLManagedTensor*>(nullptr)), diag::Code::dlpack_unusable, headline,
               "the pointer is null");
  expect_error(from_dlpack(static_cast<const DLManagedTensorVersioned*>(nullptr)), diag::Code::dlpack_unusable,
               headline, "the pointer is null");
  Case c;
  c.versioned.version.major = 2;
  c.refused("it has version 2.0; 1.x is known");
  c.reset();
  c.versioned.dl_tensor.device.device_type = 2;
  c.refused("it lies on a device of type 2");
  c.reset();
  c.versioned.dl_tensor.dtype.lanes = 4;
  c.refused("its elements are vectors of 4 lanes");
  c.reset();
  c.versioned.dl_tensor.dtype = {5, 64, 1};
  c.refused("its dtype has code 5 and 64 bits");
  c.reset();
  c.versioned.dl_tensor.ndim = 9;
  c.refused("it has 9 dims; 0 to 8 are possible");
  c.reset();
  c.versioned.dl_tensor.ndim = -1;
  c.refused("it has -1 dims; 0 to 8 are possible");
  c.reset();
  c.versioned.dl_tensor.shape = nullptr;
  c.refused("its shape is null");
  c.reset();
  c.versioned.dl_tensor.byte_offset = 2;
  EXPECT_EQ(from_dlpack(&c.versioned).error().code(), 624);  // misaligned
  c.versioned.dl_tensor.byte_offset = UINT64_MAX - 3;
  c.refused("its byte offset overflows");
  c.reset();
  c.versioned.dl_tensor.data = nullptr;
  EXPECT_EQ(from_dlpack(&c.versioned).error().code(), 624);
  int64_t bad[2] = {-1, 3};
  c.reset();
  c.versioned.dl_tensor.shape = bad;
  EXPECT_EQ(from_dlpack(&c.versioned).error().code(), 624);
}

}  // namespace
}  // namespace codetta::runtime::test

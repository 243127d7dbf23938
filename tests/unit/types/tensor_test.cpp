// SPDX-License-Identifier: Apache-2.0
// Tensor views and owned tensors, and errors E0601 to E0606.
#include "codetta/tensor.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "diag/diagnostic.hpp"

// The allocators of the sanitizers abort on sizes that malloc refuses.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CODETTA_TEST_HUGE_ALLOCATION 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CODETTA_TEST_HUGE_ALLOCATION 0
#endif
#endif
#ifndef CODETTA_TEST_HUGE_ALLOCATION
#define CODETTA_TEST_HUGE_ALLOCATION 1
#endif

namespace codetta {
namespace {

constexpr int64_t int64_least = std::numeric_limits<int64_t>::min(), int64_most = std::numeric_limits<int64_t>::max();
alignas(64) float memory[64];

void expect_error(const Result<TensorView>& result, diag::Code code, const std::string& headline) {
  ASSERT_FALSE(result.has_value()) << headline;
  EXPECT_EQ(result.error().code(), static_cast<uint16_t>(code));
  const Diagnostic& d = result.error().diagnostics().front();
  EXPECT_EQ(d.headline, headline);
  EXPECT_FALSE(d.reason.empty());
  EXPECT_FALSE(d.help.empty());
}

TEST(TensorView, HoldsWhatItIsGiven) {
  const auto v = TensorView::make(memory, f32, {2, 3});
  ASSERT_TRUE(v.has_value());
  EXPECT_EQ(v->strides(), (Dims{3, 1}));
  EXPECT_EQ(v->element_count(), 6);
  EXPECT_EQ(v->describe(), "f32[2, 3]");
  EXPECT_TRUE(v->is_row_major());
  EXPECT_EQ(v->as<float>(), memory);
  const TensorView t = v->transposed();
  EXPECT_EQ(t.shape(), (Dims{3, 2}));
  EXPECT_EQ(t.strides(), (Dims{1, 3}));
  EXPECT_FALSE(t.is_row_major());
  EXPECT_TRUE(t.transposed() == *v);
  const auto scalar = TensorView::make(memory, f32, {});
  ASSERT_TRUE(scalar.has_value());
  EXPECT_EQ(scalar->element_count(), 1);
  EXPECT_EQ(scalar->describe(), "f32[]");
  const float read_only[4] = {};
  EXPECT_TRUE(TensorView::make(read_only, f32, {4}).has_value());
}

TEST(TensorView, RowMajorIgnoresStridesOfSizeOne) {
  EXPECT_TRUE(TensorView::make(memory, f32, {1, 4}, {77, 1})->is_row_major());
  EXPECT_TRUE(TensorView::make(memory, f32, {4, 1}, {1, 99})->is_row_major());
  EXPECT_FALSE(TensorView::make(memory, f32, {2, 4}, {8, 1})->is_row_major());
  EXPECT_FALSE(TensorView::make(memory, f32, {4}, {0})->is_row_major());
  EXPECT_TRUE(TensorView::make(memory, f32, {0, 4}, {0, 0})->is_row_major());
}

TEST(TensorView, ByteRange) {
  const auto* base = reinterpret_cast<const std::byte*>(memory);
  const auto range = [&](const TensorView& v) {
    const auto [first, last] = v.byte_range();
    return std::pair(first - base, last - base);
  };
  EXPECT_EQ(range(*TensorView::make(memory, f32, {2, 3})), std::pair(0L, 24L));
  EXPECT_EQ(range(*TensorView::make(memory + 8, f32, {3, 2}, {-2, 1})), std::pair(16L, 40L));
  EXPECT_EQ(range(*TensorView::make(memory, f32, {3, 5}, {0, 0})), std::pair(0L, 4L));
  EXPECT_EQ(range(*TensorView::make(memory + 1, f32, {3, 0})), std::pair(4L, 4L));
  EXPECT_EQ(TensorView().byte_range().first, nullptr);
}

TEST(TensorView, EmptyNeedsNoMemoryAndNoAlignment) {
  for (const Dims& shape : {Dims{0}, Dims{3, 0}, Dims{0, int64_most}, Dims{int64_most, int64_most, 0}}) {
    const auto v = TensorView::make(nullptr, f64, shape);
    ASSERT_TRUE(v.has_value()) << to_string(shape);
    EXPECT_TRUE(v->empty());
    EXPECT_EQ(v->element_count(), 0);
    EXPECT_FALSE(v->read_only());
  }
}

TEST(TensorView, E0601Rank) {
  expect_error(TensorView::make(memory, f32, {1, 1, 1, 1, 1, 1, 1, 1, 1}), diag::Code::tensor_rank,
               "a tensor has more than 8 dimensions");
  EXPECT_TRUE(TensorView::make(memory, f32, {1, 1, 1, 1, 1, 1, 1, 1}).has_value());
  expect_error(TensorView::make(memory, f32, {2, 2}, {1}), diag::Code::tensor_rank,
               "a tensor of 2 dimensions has 1 strides");
  const std::vector<int64_t> many(20, 1);
  expect_error(TensorView::make(memory, f32, Dims(many)), diag::Code::tensor_rank,
               "a tensor has more than 8 dimensions");
}

TEST(TensorView, E0602Size) {
  expect_error(TensorView::make(memory, f32, {2, -1}), diag::Code::tensor_size,
               "dimension 1 of a tensor has the negative size -1");
  expect_error(TensorView::make(memory, f32, {int64_least, 0}), diag::Code::tensor_size,
               "dimension 0 of a tensor has the negative size -9223372036854775808");
  EXPECT_EQ(TensorView::make(memory, f32, {2, -1}).error().diagnostics()[0].reason, "the shape is [2, -1]");
}

TEST(TensorView, E0603Overflow) {
  const auto code = diag::Code::tensor_overflow;
  expect_error(TensorView::make(memory, f32, {int64_most}), code, "the extent of f32[9223372036854775807] overflows");
  expect_error(TensorView::make(memory, f32, {int64_t{1} << 32, int64_t{1} << 32}), code,
               "the extent of f32[4294967296, 4294967296] overflows");
  // 2^61 elements of 4 bytes are exactly 2^63 bytes.
  expect_error(TensorView::make(memory, f32, {int64_t{1} << 61}), code,
               "the extent of f32[2305843009213693952] overflows");
  expect_error(TensorView::make(memory, f32, {2}, {int64_most}), code, "the extent of f32[2] overflows");
  expect_error(TensorView::make(memory, f32, {2}, {int64_least}), code, "the extent of f32[2] overflows");
  expect_error(TensorView::make(memory, i8, {3}, {int64_least / 2}), code, "the extent of i8[3] overflows");
  // A repeated element: the extent is small, the count is not.
  expect_error(TensorView::make(memory, f32, {int64_t{1} << 40, int64_t{1} << 40}, {0, 0}), code,
               "the extent of f32[1099511627776, 1099511627776] overflows");
  EXPECT_EQ(TensorView::make(memory, f32, {int64_t{1} << 61, 1}, {0, 0}).error().diagnostics()[0].reason,
            "its elements of 4 bytes, each counted, would take 2^63 bytes or more");
  EXPECT_EQ(TensorView::make(memory, f32, {2}, {int64_most}).error().diagnostics()[0].reason,
            "with strides [9223372036854775807] and elements of 4 bytes, the last element lies 2^63 bytes or more from "
            "the first");
  // Fits in 63 bits, but not between this pointer and an end of the address space.
  expect_error(TensorView::make(memory, f32, {2}, {-(int64_t{1} << 60)}), code,
               "the elements of f32[2] would lie outside of the address space");
  EXPECT_TRUE(TensorView::make(memory, f32, {1}, {int64_most}).has_value());
}

// Weights are often const, and their size is known: spans say both.
TEST(TensorView, IsMadeOfSpans) {
  std::vector<float> weights(6);
  const auto view = TensorView::make(std::span(weights), {2, 3});
  ASSERT_TRUE(view);
  EXPECT_EQ(view->describe(), "f32[2, 3]");
  EXPECT_FALSE(view->read_only());
  EXPECT_EQ(view->as<float>(), weights.data());
  const std::vector<int8_t> codes(8);
  const auto read = TensorView::make(std::span(codes), {2, 3}, {4, 1});
  ASSERT_TRUE(read);
  EXPECT_EQ(read->dtype(), i8);
  EXPECT_TRUE(read->read_only());
  const std::span<const std::byte> bytes(std::as_bytes(std::span(weights)));
  const auto halves = TensorView::make(bytes, bf16, {3, 4});
  ASSERT_TRUE(halves);
  EXPECT_TRUE(halves->read_only());
  EXPECT_FALSE(TensorView::make(std::as_writable_bytes(std::span(weights)), f16, {12})->read_only());
  EXPECT_TRUE(TensorView::make(std::span<float>(), {0, 3}));
  EXPECT_TRUE(TensorView::make(std::span(weights), {4, 3}, {0, 1})) << "repeated rows stay within";
  static_assert(dtype_of<long>() == i64 && dtype_of<long long>() == i64 && dtype_of<const bool>() == boolean &&
                dtype_of<unsigned char>() == u8 && dtype_of<int16_t>() == i16 && dtype_of<double>() == f64);
}

TEST(TensorView, E0609DoesNotFitItsMemory) {
  const std::vector<float> weights(6);
  const std::span<const float> span(weights);
  expect_error(TensorView::make(span, {2, 4}), diag::Code::tensor_memory,
               "f32[2, 4] does not fit into the 24 bytes of its memory");
  expect_error(TensorView::make(span, {2, 3}, {4, 1}), diag::Code::tensor_memory,
               "f32[2, 3] does not fit into the 24 bytes of its memory");
  const auto backwards = TensorView::make(span, {6}, {-1});
  expect_error(backwards, diag::Code::tensor_memory, "f32[6] does not fit into the 24 bytes of its memory");
  EXPECT_EQ(backwards.error().diagnostics()[0].reason, "with strides [-1] its elements lie in bytes -20 to 4");
  expect_error(TensorView::make(std::as_bytes(span), f64, {4}), diag::Code::tensor_memory,
               "f64[4] does not fit into the 24 bytes of its memory");
  expect_error(TensorView::make(std::span<const float>(), {1}), diag::Code::tensor_null, "the data of f32[1] is null");
}

TEST(TensorView, E0604Null) {
  expect_error(TensorView::make(nullptr, f32, {2, 3}), diag::Code::tensor_null, "the data of f32[2, 3] is null");
}

TEST(TensorView, E0605Misaligned) {
  auto* bytes = reinterpret_cast<std::byte*>(memory);
  expect_error(TensorView::make(static_cast<void*>(bytes + 2), f32, {2}), diag::Code::tensor_misaligned,
               "the data of f32[2] is misaligned");
  EXPECT_TRUE(TensorView::make(static_cast<void*>(bytes + 2), bf16, {2}).has_value());
  EXPECT_TRUE(TensorView::make(static_cast<void*>(bytes + 1), f8e4m3, {2}).has_value());
}

#if CODETTA_HAS_EXCEPTIONS
TEST(TensorView, ConstructorThrows) {
  EXPECT_EQ(TensorView(memory, f32, {2, 2}).element_count(), 4);
  EXPECT_THROW(TensorView(memory, f32, {-2}), Exception);
  const float constants[4] = {};
  EXPECT_TRUE(TensorView(constants, f32, {2, 2}).read_only());
  EXPECT_TRUE(TensorView(constants, f32, {2, 2}, {1, 2}).read_only());
  EXPECT_TRUE(TensorView(std::span(constants), {4}).read_only());
  EXPECT_FALSE(TensorView(nullptr, f32, {0}).read_only());
  EXPECT_THROW(TensorView(std::span(constants), {5}), Exception);
  EXPECT_EQ(Tensor(f32, {2, 3}).view().element_count(), 6);
  EXPECT_THROW(Tensor(f32, {-1}), Exception);
}
#endif

class CountingAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes, size_t alignment) override {
    if (refuse) return nullptr;
    ++live;
    alignment_seen = alignment;
    void* p = default_allocator().allocate(bytes + alignment, alignment);
    return static_cast<std::byte*>(p) + shift;
  }
  void free(void* p, size_t bytes, size_t alignment) override {
    --live;
    default_allocator().free(static_cast<std::byte*>(p) - shift, bytes + alignment, alignment);
  }
  bool refuse = false;
  size_t shift = 0;  // off the alignment that is asked for
  int live = 0;
  size_t alignment_seen = 0;
};

TEST(Tensor, OwnsZeroedAlignedMemory) {
  CountingAllocator allocator;
  {
    auto made = Tensor::make(bf16, {3, 5}, allocator);
    ASSERT_TRUE(made.has_value());
    Tensor a = std::move(*made);
    EXPECT_EQ(a.byte_size(), 30u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data()) % 64, 0u);
    EXPECT_EQ(allocator.alignment_seen, 64u);
    for (int i = 0; i < 15; ++i) EXPECT_EQ(a.view().as<uint16_t>()[i], 0);
    EXPECT_EQ(allocator.live, 1);
    const void* data = a.data();
    Tensor b = std::move(a);
    EXPECT_EQ(b.data(), data);
    EXPECT_EQ(a.data(), nullptr);  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(a.byte_size(), 0u);
    b = std::move(*Tensor::make(f32, {2}, allocator));
    EXPECT_EQ(allocator.live, 1);
    Tensor& self = b;
    b = std::move(self);
    EXPECT_EQ(b.view().describe(), "f32[2]");
  }
  EXPECT_EQ(allocator.live, 0);
}

TEST(Tensor, EmptyAllocatesNothing) {
  CountingAllocator allocator;
  allocator.refuse = true;
  const auto t = Tensor::make(f32, {0, 7}, allocator);
  ASSERT_TRUE(t.has_value());
  EXPECT_EQ(t->byte_size(), 0u);
  EXPECT_TRUE(t->view().empty());
}

TEST(Tensor, Errors) {
  EXPECT_EQ(Tensor::make(f32, {-1}).error().code(), 602);
  EXPECT_EQ(Tensor::make(f32, {int64_t{1} << 40, int64_t{1} << 40}).error().code(), 603);
  EXPECT_EQ(Tensor::make(f32, {1, 1, 1, 1, 1, 1, 1, 1, 1}).error().code(), 601);
  CountingAllocator allocator;
  allocator.refuse = true;
  const auto refused = Tensor::make(f32, {4, 4}, allocator);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), static_cast<uint16_t>(diag::Code::out_of_memory));
  EXPECT_EQ(refused.error().diagnostics()[0].headline, "no memory for f32[4, 4]");
  EXPECT_EQ(refused.error().family(), ErrorFamily::Environment);
  allocator.refuse = false;
  EXPECT_EQ(Tensor::make(static_cast<DType>(99), {4, 4}, allocator).error().code(), 607);
  allocator.shift = 2;
  EXPECT_EQ(Tensor::make(f32, {4, 4}, allocator).error().code(), 605);
  EXPECT_EQ(allocator.live, 0);  // what was no good is given back
#if CODETTA_TEST_HUGE_ALLOCATION
  // The default allocator refuses, and does not throw, what no machine has.
  const auto huge = Tensor::make(f32, {int64_t{1} << 59});
  ASSERT_FALSE(huge.has_value());
  EXPECT_EQ(huge.error().code(), 606);
#endif
}

}  // namespace
}  // namespace codetta

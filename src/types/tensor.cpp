// SPDX-License-Identifier: Apache-2.0
// Element type names, checked tensor views and owned tensors (codetta/tensor.hpp).
#include "codetta/tensor.hpp"

#include <cstring>
#include <limits>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "base/result.hpp"
#include "diag/diagnostic.hpp"
#include "types/dtype.hpp"

namespace codetta {
namespace {

constexpr int64_t int64_max = std::numeric_limits<int64_t>::max();
constexpr size_t tensor_alignment = 64;  // a cache line and a zmm register

std::string describe_tensor(DType dtype, const Dims& shape) {
  return std::string(dtype_name(dtype)) + to_string(shape);
}

// Casts and the other side of an ABI make enums of anything.
Result<void> check_dtype(DType dtype) {
  if (static_cast<unsigned>(dtype) < static_cast<unsigned>(dtype_count)) return {};
  return diag::error(diag::Code::tensor_dtype,
                     "element type number " + std::to_string(static_cast<unsigned>(dtype)) + " does not exist")
      .reason("they are numbered 0 to " + std::to_string(dtype_count - 1))
      .help("pass one of the enum codetta::DType");
}

Result<void> check_rank(const Dims& shape, const Dims& strides) {
  for (const Dims* dims : {&shape, &strides}) {
    if (dims->rank() > max_rank) {
      return diag::error(diag::Code::tensor_rank, "a tensor has more than " + std::to_string(max_rank) + " dimensions")
          .reason(std::string(dims == &shape ? "the shape begins" : "the strides begin") + " with " + to_string(*dims))
          .help("merge dimensions that lie next to each other in memory, or pass batches one by one");
    }
  }
  if (shape.rank() != strides.rank()) {
    return diag::error(diag::Code::tensor_rank, "a tensor of " + std::to_string(shape.rank()) + " dimensions has " +
                                                    std::to_string(strides.rank()) + " strides")
        .reason("the shape is " + to_string(shape) + ", the strides are " + to_string(strides))
        .help("give one stride, in elements, for each dimension; or none for a row-major tensor");
  }
  return {};
}

Result<void> check_sizes(const Dims& shape) {
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] >= 0) continue;
    return diag::error(diag::Code::tensor_size, "dimension " + std::to_string(i) +
                                                    " of a tensor has the negative size " + std::to_string(shape[i]))
        .reason("the shape is " + to_string(shape))
        .help("sizes are 0 or more; a size of 0 makes an empty tensor");
  }
  return {};
}

bool has_zero_size(const Dims& shape) {
  for (int64_t n : shape) {
    if (n == 0) return true;
  }
  return false;
}

// The distances in elements of the lowest and the highest element from `data`, and the count of elements.
struct Extent {
  int64_t below = 0;
  int64_t above = 0;
  int64_t count = 1;
};

// Whether the whole span fits, in bytes, in 63 bits.
bool reaches(DType dtype, const Dims& shape, const Dims& strides, Extent& e) {
  int64_t total_bytes = dtype_size(dtype);
  for (int i = 0; i < shape.rank(); ++i) {
    int64_t reach = 0, reach_bytes = 0;
    if (__builtin_mul_overflow(strides[i], shape[i] - 1, &reach) ||
        __builtin_mul_overflow(reach, dtype_size(dtype), &reach_bytes) ||
        reach_bytes == std::numeric_limits<int64_t>::min() ||
        __builtin_add_overflow(total_bytes, reach_bytes < 0 ? -reach_bytes : reach_bytes, &total_bytes)) {
      return false;
    }
    (reach < 0 ? e.below : e.above) += reach;
  }
  return true;
}

// Fails when the whole span or the count does not fit, in bytes, in 63 bits.
std::optional<Extent> extent_of(DType dtype, const Dims& shape, const Dims& strides) {
  Extent e;
  if (has_zero_size(shape)) {
    e.count = 0;
    return e;
  }
  if (!reaches(dtype, shape, strides, e)) return std::nullopt;
  for (int64_t n : shape) {
    if (__builtin_mul_overflow(e.count, n, &e.count)) return std::nullopt;
  }
  if (e.count > int64_max / dtype_size(dtype)) return std::nullopt;
  return e;
}

Error overflow_error(DType dtype, const Dims& shape, const Dims& strides) {
  Extent e;
  const std::string size = std::to_string(dtype_size(dtype)) + " bytes";
  return diag::error(diag::Code::tensor_overflow, "the extent of " + describe_tensor(dtype, shape) + " overflows")
      .reason(reaches(dtype, shape, strides, e)
                  ? "its elements of " + size + ", each counted, would take 2^63 bytes or more"
                  : "with strides " + to_string(strides) + " and elements of " + size +
                        ", the last element lies 2^63 bytes or more from the first")
      .help("check the sizes and strides; both count elements, not bytes");
}

// Checks a row-major tensor. Row-major strides wrap where the element count does, so the count is tested first.
Result<Extent> check_row_major(DType dtype, const Dims& shape) {
  const Dims strides = row_major_strides(shape);
  CODETTA_CHECK_OK(check_rank(shape, strides));
  CODETTA_CHECK_OK(check_sizes(shape));
  int64_t count = has_zero_size(shape) ? 0 : 1;
  for (int64_t n : shape) {
    if (__builtin_mul_overflow(count, n, &count)) return overflow_error(dtype, shape, strides);
  }
  const auto extent = extent_of(dtype, shape, strides);
  if (!extent) return overflow_error(dtype, shape, strides);
  return *extent;
}

Result<void> check_address(const void* data, DType dtype, const Dims& shape, const Extent& extent) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  const auto size = static_cast<uintptr_t>(dtype_size(dtype));
  if (data == nullptr) {
    return diag::error(diag::Code::tensor_null, "the data of " + describe_tensor(dtype, shape) + " is null")
        .reason("it holds " + std::to_string(extent.count) + " elements, and only an empty tensor may have no memory")
        .help("pass the address of the first element");
  }
  if (address % size != 0) {
    return diag::error(diag::Code::tensor_misaligned, "the data of " + describe_tensor(dtype, shape) + " is misaligned")
        .reason("its address ends in " + std::to_string(address % 64) + " (modulo 64) and is no multiple of " +
                std::to_string(size) + ", the size of " + std::string(dtype_name(dtype)))
        .help("align the memory to the element size, or copy it to a Tensor, which is aligned to 64 bytes");
  }
  const auto below = static_cast<uintptr_t>(-extent.below) * size;
  const auto above = static_cast<uintptr_t>(extent.above) * size + size;
  if (below > address || above > std::numeric_limits<uintptr_t>::max() - address) {
    return diag::error(diag::Code::tensor_overflow,
                       "the elements of " + describe_tensor(dtype, shape) + " would lie outside of the address space")
        .reason("they reach from " + std::to_string(below) + " bytes below the data pointer to " +
                std::to_string(above) + " bytes above it")
        .help("check the pointer, the sizes and the strides; the pointer is the address of element [0, 0, ...]");
  }
  return {};
}

// From 2 MiB on at multiples of 2 MiB, and huge pages are asked for.
class OperatorNewAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes, size_t alignment) override {
    void* memory = ::operator new (bytes, std::align_val_t{aligned_for(bytes, alignment)}, std::nothrow);
#ifdef __linux__
    // A tile reads and writes short runs of many rows, each on a page of its own. Advice: a failure changes nothing.
    if (memory != nullptr && bytes >= huge_page) (void)::madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    return memory;
  }
  void free(void* memory, size_t bytes, size_t alignment) override {
    ::operator delete (memory, std::align_val_t{aligned_for(bytes, alignment)});
  }

 private:
  static constexpr size_t huge_page = size_t{2} << 20;  // of x86-64, and of AArch64 with pages of 4 KiB
  static size_t aligned_for(size_t bytes, size_t alignment) {
    return bytes >= huge_page && alignment < huge_page ? huge_page : alignment;
  }
};

}  // namespace

std::string_view dtype_name(DType dtype) {
  return types::is_valid(dtype) ? types::dtype_traits(dtype).name : "invalid";
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (int i = 0; i < dtype_count; ++i) {
    if (types::dtype_table[static_cast<size_t>(i)].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

int64_t dtype_size(DType dtype) { return types::is_valid(dtype) ? types::byte_size(dtype) : 1; }

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (const int64_t& v : dims) {
    if (&v != dims.begin()) text += ", ";
    text += std::to_string(v);
  }
  if (dims.rank() > max_rank) text += ", ...";
  return text + "]";
}

Dims row_major_strides(const Dims& shape) {
  Dims strides = shape;
  uint64_t stride = 1;
  const int rank = shape.rank() > max_rank ? max_rank : shape.rank();
  for (int i = rank - 1; i >= 0; --i) {
    strides[i] = static_cast<int64_t>(stride);
    stride *= static_cast<uint64_t>(shape[i]);
  }
  return strides;
}

Result<TensorView> TensorView::make(void* data, DType dtype, const Dims& shape) {
  CODETTA_CHECK_OK(check_dtype(dtype));
  CODETTA_CHECK_OK(check_row_major(dtype, shape));
  return make(data, dtype, shape, row_major_strides(shape));
}

Result<TensorView> TensorView::make(void* data, DType dtype, const Dims& shape, const Dims& strides) {
  CODETTA_CHECK_OK(check_dtype(dtype));
  CODETTA_CHECK_OK(check_rank(shape, strides));
  CODETTA_CHECK_OK(check_sizes(shape));
  const auto extent = extent_of(dtype, shape, strides);
  if (!extent) return overflow_error(dtype, shape, strides);
  if (extent->count != 0) CODETTA_CHECK_OK(check_address(data, dtype, shape, *extent));
  TensorView view;
  view.data_ = data;
  view.dtype_ = dtype;
  view.shape_ = shape;
  view.strides_ = strides;
  return view;
}

Result<TensorView> TensorView::make(const void* data, DType dtype, const Dims& shape) {
  CODETTA_TRY(const TensorView view, make(const_cast<void*>(data), dtype, shape));
  return view.as_read_only();
}

Result<TensorView> TensorView::make(const void* data, DType dtype, const Dims& shape, const Dims& strides) {
  CODETTA_TRY(const TensorView view, make(const_cast<void*>(data), dtype, shape, strides));
  return view.as_read_only();
}

Result<TensorView> TensorView::make(std::nullptr_t, DType dtype, const Dims& shape) {
  return make(static_cast<void*>(nullptr), dtype, shape);
}

Result<TensorView> TensorView::make(std::nullptr_t, DType dtype, const Dims& shape, const Dims& strides) {
  return make(static_cast<void*>(nullptr), dtype, shape, strides);
}

Result<TensorView> TensorView::within(const void* memory, size_t bytes, bool read_only, DType dtype, const Dims& shape,
                                      const Dims* strides) {
  auto* data = const_cast<void*>(memory);
  CODETTA_TRY(TensorView view, strides == nullptr ? make(data, dtype, shape) : make(data, dtype, shape, *strides));
  const auto [first, last] = view.byte_range();
  const auto* begin = static_cast<const std::byte*>(memory);
  if (first < begin || static_cast<size_t>(last - begin) > bytes) {
    return diag::error(diag::Code::tensor_memory,
                       view.describe() + " does not fit into the " + std::to_string(bytes) + " bytes of its memory")
        .reason("with strides " + to_string(view.strides()) + " its elements lie in bytes " +
                std::to_string(first - begin) + " to " + std::to_string(last - begin))
        .help("check the sizes and the strides, or pass more memory; the memory begins with element [0, 0, ...]");
  }
  view.read_only_ = read_only;
  return view;
}

int64_t TensorView::element_count() const {
  if (has_zero_size(shape_)) return 0;
  int64_t count = 1;
  for (int64_t n : shape_) count *= n;
  return count;
}

bool TensorView::is_row_major() const {
  if (empty()) return true;
  int64_t expected = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (shape_[i] == 1) continue;  // never stepped along
    if (strides_[i] != expected) return false;
    expected *= shape_[i];
  }
  return true;
}

TensorView TensorView::transposed() const {
  TensorView view = *this;
  if (rank() < 2) return view;
  const int a = rank() - 2, b = rank() - 1;
  std::swap(view.shape_[a], view.shape_[b]);
  std::swap(view.strides_[a], view.strides_[b]);
  return view;
}

std::pair<const std::byte*, const std::byte*> TensorView::byte_range() const {
  const auto* base = static_cast<const std::byte*>(data_);
  if (data_ == nullptr || empty()) return {base, base};
  int64_t below = 0, above = 0;
  for (int i = 0; i < rank(); ++i) {
    const int64_t reach = strides_[i] * (shape_[i] - 1);
    (reach < 0 ? below : above) += reach;
  }
  const int64_t size = dtype_size(dtype_);
  return {base + below * size, base + (above + 1) * size};
}

std::string TensorView::describe() const { return describe_tensor(dtype_, shape_); }

bool TensorView::operator==(const TensorView& o) const {
  return data_ == o.data_ && dtype_ == o.dtype_ && shape_ == o.shape_ && strides_ == o.strides_;
}

Allocator& default_allocator() {
  static auto& allocator = *new OperatorNewAllocator;  // never destroyed: tensors may outlive static objects
  return allocator;
}

Result<Tensor> Tensor::make(DType dtype, const Dims& shape, Allocator& allocator) {
  CODETTA_CHECK_OK(check_dtype(dtype));
  CODETTA_TRY(const Extent extent, check_row_major(dtype, shape));
  Tensor tensor;
  tensor.bytes_ = static_cast<size_t>(extent.count * dtype_size(dtype));
  void* memory = nullptr;  // enough for an empty tensor
  if (tensor.bytes_ != 0) {
    memory = allocator.allocate(tensor.bytes_, tensor_alignment);
    if (memory == nullptr) {
      return diag::error(diag::Code::out_of_memory, "no memory for " + describe_tensor(dtype, shape))
          .reason(std::to_string(tensor.bytes_) + " bytes at an alignment of " + std::to_string(tensor_alignment) +
                  " were refused by the allocator")
          .help("free memory, use smaller tensors, or bind views of memory that you already have");
    }
  }
  auto view = TensorView::make(memory, dtype, shape);
  if (!view) {  // an allocator that aligns to less than an element
    allocator.free(memory, tensor.bytes_, tensor_alignment);
    return std::move(view).error();
  }
  tensor.view_ = *view;
  if (memory == nullptr) return tensor;
  std::memset(memory, 0, tensor.bytes_);
  tensor.allocator_ = &allocator;
  return tensor;
}

Tensor::Tensor(Tensor&& other) noexcept
    : view_(std::exchange(other.view_, TensorView())),
      allocator_(std::exchange(other.allocator_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  if (this == &other) return *this;
  if (allocator_ != nullptr) allocator_->free(view_.data(), bytes_, tensor_alignment);
  view_ = std::exchange(other.view_, TensorView());
  allocator_ = std::exchange(other.allocator_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

Tensor::~Tensor() {
  if (allocator_ != nullptr) allocator_->free(view_.data(), bytes_, tensor_alignment);
}

}  // namespace codetta

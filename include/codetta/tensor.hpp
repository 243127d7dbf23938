// SPDX-License-Identifier: Apache-2.0
// Element types and tensor views. Shapes and strides count elements, never bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "codetta/error.hpp"

namespace codetta {

// Element types. The values are part of file formats: append only.
enum class DType : uint8_t {
  boolean = 0,  // one byte, 0 or 1
  i8 = 1,
  i16 = 2,
  i32 = 3,
  i64 = 4,
  u8 = 5,
  u16 = 6,
  u32 = 7,
  u64 = 8,
  f8e4m3 = 9,   // OCP E4M3FN: no infinity, max 448
  f8e5m2 = 10,  // OCP E5M2: infinities, max 57344
  f16 = 11,
  bf16 = 12,
  f32 = 13,
  f64 = 14,
};
using enum DType;
inline constexpr int dtype_count = 15;

// "f32", "bf16", "bool", "i8", "f8e4m3", ... as in text, manifests and messages.
CODETTA_API std::string_view dtype_name(DType dtype);
CODETTA_API std::optional<DType> dtype_from_name(std::string_view name);
CODETTA_API int64_t dtype_size(DType dtype);  // bytes per element

namespace detail {
template <class T>
constexpr bool has_dtype() {
  using E = std::remove_const_t<T>;
  // A char may hold anything, and the others of its size are characters.
  constexpr bool character = std::is_same_v<E, char> || std::is_same_v<E, wchar_t> || std::is_same_v<E, char8_t> ||
                             std::is_same_v<E, char16_t> || std::is_same_v<E, char32_t>;
  return std::is_same_v<E, float> || std::is_same_v<E, double> || (std::is_integral_v<E> && !character);
}
}  // namespace detail

// The element type whose memory a C++ type has: float, double, bool, and integers of 8 to 64 bits. 16- and 8-bit floats
// have no C++ type here: pass their bytes, or their address, and a DType.
template <class T>
requires(detail::has_dtype<T>()) constexpr DType dtype_of() {
  using E = std::remove_const_t<T>;
  if constexpr (std::is_same_v<E, bool>) {
    return DType::boolean;
  } else if constexpr (std::is_floating_point_v<E>) {
    return std::is_same_v<E, float> ? DType::f32 : DType::f64;
  } else if constexpr (std::is_signed_v<E>) {
    return sizeof(E) == 1 ? DType::i8 : sizeof(E) == 2 ? DType::i16 : sizeof(E) == 4 ? DType::i32 : DType::i64;
  } else {
    return sizeof(E) == 1 ? DType::u8 : sizeof(E) == 2 ? DType::u16 : sizeof(E) == 4 ? DType::u32 : DType::u64;
  }
}

inline constexpr int max_rank = 8;

// Shape or strides of a tensor: up to max_rank signed 64-bit values, no allocation.
class Dims {
 public:
  constexpr Dims() = default;
  constexpr Dims(std::initializer_list<int64_t> values) : rank_(static_cast<int>(values.size())) {
    if (rank_ > max_rank) rank_ = max_rank + 1;  // remembered as invalid; TensorView::make reports it
    int i = 0;
    for (int64_t v : values) {
      if (i < max_rank) v_[static_cast<size_t>(i++)] = v;
    }
  }
  explicit Dims(std::span<const int64_t> values) : rank_(static_cast<int>(values.size())) {
    if (values.size() > static_cast<size_t>(max_rank)) rank_ = max_rank + 1;
    for (size_t i = 0; i < values.size() && i < static_cast<size_t>(max_rank); ++i) v_[i] = values[i];
  }

  [[nodiscard]] constexpr int rank() const { return rank_; }
  constexpr int64_t operator[](int i) const { return v_[static_cast<size_t>(i)]; }  // 0 <= i < max_rank, not checked
  constexpr int64_t& operator[](int i) { return v_[static_cast<size_t>(i)]; }
  [[nodiscard]] constexpr const int64_t* begin() const { return v_.data(); }
  [[nodiscard]] constexpr const int64_t* end() const { return v_.data() + (rank_ > max_rank ? max_rank : rank_); }
  constexpr void push_back(int64_t v) {
    if (rank_ < max_rank) v_[static_cast<size_t>(rank_)] = v;
    if (rank_ <= max_rank) ++rank_;
  }
  constexpr bool operator==(const Dims& o) const {
    if (rank_ != o.rank_) return false;
    for (int i = 0; i < rank_ && i < max_rank; ++i) {
      if ((*this)[i] != o[i]) return false;
    }
    return true;
  }

 private:
  std::array<int64_t, max_rank> v_{};
  int rank_ = 0;
};

// "[2, 3]".
CODETTA_API std::string to_string(const Dims& dims);
// Row-major strides of a shape (elements); wraps silently on overflow, which TensorView::make then reports.
CODETTA_API Dims row_major_strides(const Dims& shape);

// Memory that somebody else owns, seen as a tensor. A plain value; copying copies the view. The memory must outlive
// every call that is handed the view. Inputs are never written.
class CODETTA_API TensorView {
 public:
  TensorView() = default;

  // Checks: rank <= 8, sizes >= 0, the extent (sum of |stride| * (size - 1), in bytes) below 2^63, data not null unless
  // some size is 0, data aligned to the element size. Strides default to row-major. A view of const data is read-only:
  // an operand, never an output (E0213).
  // Errors: E0601 (rank), E0602 (size), E0603 (overflow), E0604 (null), E0605 (misaligned), E0607 (no such dtype).
  static Result<TensorView> make(void* data, DType dtype, const Dims& shape);
  static Result<TensorView> make(void* data, DType dtype, const Dims& shape, const Dims& strides);
  static Result<TensorView> make(const void* data, DType dtype, const Dims& shape);
  static Result<TensorView> make(const void* data, DType dtype, const Dims& shape, const Dims& strides);
  // Of no elements; writable.
  static Result<TensorView> make(std::nullptr_t, DType dtype, const Dims& shape);
  static Result<TensorView> make(std::nullptr_t, DType dtype, const Dims& shape, const Dims& strides);
  // Of memory whose size is known: every element has to lie within it. Errors: as above, and E0609 (one does not).
  template <class T, size_t N>
  requires(detail::has_dtype<T>()) static Result<TensorView> make(std::span<T, N> data, const Dims& shape) {
    return within(data.data(), data.size_bytes(), std::is_const_v<T>, dtype_of<T>(), shape, nullptr);
  }
  template <class T, size_t N>
  requires(detail::has_dtype<T>()) static Result<TensorView> make(std::span<T, N> data, const Dims& shape,
                                                                  const Dims& strides) {
    return within(data.data(), data.size_bytes(), std::is_const_v<T>, dtype_of<T>(), shape, &strides);
  }
  // Of bytes, such as those of a mapped file.
  static Result<TensorView> make(std::span<const std::byte> bytes, DType dtype, const Dims& shape) {
    return within(bytes.data(), bytes.size(), true, dtype, shape, nullptr);
  }
  static Result<TensorView> make(std::span<std::byte> bytes, DType dtype, const Dims& shape) {
    return within(bytes.data(), bytes.size(), false, dtype, shape, nullptr);
  }
#if CODETTA_HAS_EXCEPTIONS
  TensorView(void* data, DType dtype, const Dims& shape) : TensorView(make(data, dtype, shape).value()) {}
  TensorView(void* data, DType dtype, const Dims& shape, const Dims& strides)
      : TensorView(make(data, dtype, shape, strides).value()) {}
  TensorView(const void* data, DType dtype, const Dims& shape) : TensorView(make(data, dtype, shape).value()) {}
  TensorView(const void* data, DType dtype, const Dims& shape, const Dims& strides)
      : TensorView(make(data, dtype, shape, strides).value()) {}
  TensorView(std::nullptr_t, DType dtype, const Dims& shape) : TensorView(make(nullptr, dtype, shape).value()) {}
  template <class T, size_t N>
  requires(detail::has_dtype<T>()) TensorView(std::span<T, N> data, const Dims& shape)
      : TensorView(make(data, shape).value()) {}
  template <class T, size_t N>
  requires(detail::has_dtype<T>()) TensorView(std::span<T, N> data, const Dims& shape, const Dims& strides)
      : TensorView(make(data, shape, strides).value()) {}
  TensorView(std::span<const std::byte> bytes, DType dtype, const Dims& shape)
      : TensorView(make(bytes, dtype, shape).value()) {}
  TensorView(std::span<std::byte> bytes, DType dtype, const Dims& shape)
      : TensorView(make(bytes, dtype, shape).value()) {}
#endif

  [[nodiscard]] void* data() const { return data_; }
  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_);
  }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] bool read_only() const { return read_only_; }  // no output may be bound to it (E0213)
  [[nodiscard]] TensorView as_read_only() const {
    TensorView view = *this;
    view.read_only_ = true;
    return view;
  }
  [[nodiscard]] const Dims& shape() const { return shape_; }
  [[nodiscard]] const Dims& strides() const { return strides_; }
  [[nodiscard]] int rank() const { return shape_.rank(); }
  [[nodiscard]] int64_t size(int dim) const { return shape_[dim]; }      // 0 <= dim < rank(), which is not checked
  [[nodiscard]] int64_t stride(int dim) const { return strides_[dim]; }  // likewise
  [[nodiscard]] int64_t element_count() const;                           // product of the sizes
  [[nodiscard]] bool empty() const { return element_count() == 0; }
  [[nodiscard]] bool is_row_major() const;      // contiguous, last dim fastest
  [[nodiscard]] TensorView transposed() const;  // the last two dims swapped; rank >= 2
  // First and one-past-last byte that the view can touch (handles negative strides); {p, p} when empty.
  [[nodiscard]] std::pair<const std::byte*, const std::byte*> byte_range() const;
  [[nodiscard]] std::string describe() const;  // "f32[2, 3]"
  // Same pointer, dtype, shape and strides, whether read-only or not.
  bool operator==(const TensorView& o) const;

 private:
  static Result<TensorView> within(const void* memory, size_t bytes, bool read_only, DType dtype, const Dims& shape,
                                   const Dims* strides);
  void* data_ = nullptr;
  DType dtype_ = DType::f32;
  bool read_only_ = false;
  Dims shape_{};
  Dims strides_{};
};

// Memory for tensors, replaceable by the caller. Thread safety: allocate and free may be called from any thread.
class CODETTA_API Allocator {
 public:
  virtual ~Allocator() = default;
  // At least `bytes` bytes at a multiple of `alignment` (a power of two), or nullptr.
  virtual void* allocate(size_t bytes, size_t alignment) = 0;
  virtual void free(void* memory, size_t bytes, size_t alignment) = 0;
};
CODETTA_API Allocator& default_allocator();  // aligned operator new; stateless

// A tensor that owns its memory: row-major, 64-byte aligned, zero-filled unless stated. Move-only.
class CODETTA_API Tensor {
 public:
  Tensor() = default;
  // Errors: E0601, E0602, E0603, E0606 (out of memory), E0607.
  static Result<Tensor> make(DType dtype, const Dims& shape, Allocator& allocator = default_allocator());
#if CODETTA_HAS_EXCEPTIONS
  Tensor(DType dtype, const Dims& shape, Allocator& allocator = default_allocator())
      : Tensor(make(dtype, shape, allocator).value()) {}
#endif
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor&& other) noexcept;
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor();

  [[nodiscard]] const TensorView& view() const { return view_; }
  operator const TensorView&() const { return view_; }  // NOLINT(google-explicit-constructor)
  [[nodiscard]] void* data() const { return view_.data(); }
  [[nodiscard]] size_t byte_size() const { return bytes_; }

 private:
  TensorView view_{};
  Allocator* allocator_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace codetta

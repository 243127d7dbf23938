// SPDX-License-Identifier: Apache-2.0
// Files and tensors of the tests of reading and writing.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "codetta/io.hpp"
#include "expect_error.hpp"

namespace codetta::runtime::test {

inline constexpr DType all_dtypes[] = {DType::boolean, DType::i8,  DType::i16,  DType::i32, DType::i64,
                                       DType::u8,      DType::u16, DType::u32,  DType::u64, DType::f8e4m3,
                                       DType::f8e5m2,  DType::f16, DType::bf16, DType::f32, DType::f64};

class IoTest : public testing::Test {
 protected:
  void SetUp() override {
    auto folder = base::TemporaryDirectory::make(testing::TempDir(), "codetta-io-");
    ASSERT_TRUE(folder.has_value());
    folder_.emplace_back(*std::move(folder));
  }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.front().path() + "/" + name; }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  [[nodiscard]] std::vector<base::DirectoryEntry> files() const {
    return *base::list_directory(folder_.front().path());
  }

 private:
  std::vector<base::TemporaryDirectory> folder_;
};

inline Tensor random_tensor(DType dtype, const Dims& shape, unsigned seed) {
  auto made = Tensor::make(dtype, shape);
  EXPECT_TRUE(made.has_value());
  std::mt19937 gen(seed);
  auto* bytes = static_cast<uint8_t*>(made->data());
  for (int64_t i = 0; i < made->view().element_count() * dtype_size(dtype); ++i)
    bytes[i] = static_cast<uint8_t>(dtype == DType::boolean ? gen() % 2 : gen());
  return *std::move(made);
}
inline bool same_bytes(const Tensor& a, const Tensor& b) {
  const TensorView &x = a, &y = b;
  return x.dtype() == y.dtype() && x.shape() == y.shape() &&
         (x.empty() ||
          std::memcmp(x.data(), y.data(), static_cast<size_t>(x.element_count() * dtype_size(x.dtype()))) == 0);
}

}  // namespace codetta::runtime::test

// SPDX-License-Identifier: Apache-2.0
// How a matrix, or a batch of them, lies in memory.
#pragma once

#include <cstdint>
#include <optional>

#include "codetta/tensor.hpp"

namespace codetta::types {

enum class MatrixOrder : uint8_t {
  RowMajor,     // columns lie next to each other; rows are leading_dimension >= columns apart
  ColumnMajor,  // rows lie next to each other; columns are leading_dimension >= rows apart
  General,      // any other strides: both above 1, zero, negative, or rows that overlap
};

// Strides in elements. The stride of a dimension of size 1, which nothing steps along, is that of a contiguous matrix
// in the order found, and 0 for General.
struct MatrixLayout {
  int64_t batch = 1, rows = 0, columns = 0;
  int64_t batch_stride = 0;  // 0 when batch is 1
  int64_t row_stride = 0;
  int64_t column_stride = 0;
  MatrixOrder order = MatrixOrder::General;
  int64_t leading_dimension = 0;  // 0 for General; at least 1 otherwise

  bool operator==(const MatrixLayout&) const = default;
};

// Of a view of rank 2 or 3 ([batch, rows, columns]); nullopt for other ranks. What is both orders (a vector, an empty
// matrix) counts as row-major.
std::optional<MatrixLayout> matrix_layout(const TensorView& view);

}  // namespace codetta::types

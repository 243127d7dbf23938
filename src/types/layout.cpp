// SPDX-License-Identifier: Apache-2.0
#include "types/layout.hpp"

#include <algorithm>

namespace codetta::types {

std::optional<MatrixLayout> matrix_layout(const TensorView& view) {
  const int rank = view.rank();
  if (rank != 2 && rank != 3) return std::nullopt;
  MatrixLayout m;
  m.rows = view.size(rank - 2);
  m.columns = view.size(rank - 1);
  m.row_stride = view.stride(rank - 2);
  m.column_stride = view.stride(rank - 1);
  if (rank == 3) {
    m.batch = view.size(0);
    m.batch_stride = m.batch > 1 ? view.stride(0) : 0;
  }
  const bool one_row = m.rows <= 1, one_column = m.columns <= 1;
  const int64_t least_row_step = std::max<int64_t>(m.columns, 1), least_column_step = std::max<int64_t>(m.rows, 1);
  // With one element a row, rows of any positive distance are row-major: the distance is the leading dimension.
  if ((one_column || m.column_stride == 1) && (one_row || m.row_stride >= least_row_step)) {
    m.order = MatrixOrder::RowMajor;
    m.leading_dimension = one_row ? least_row_step : m.row_stride;
    m.row_stride = m.leading_dimension;
    m.column_stride = 1;
  } else if ((one_row || m.row_stride == 1) && (one_column || m.column_stride >= least_column_step)) {
    m.order = MatrixOrder::ColumnMajor;
    m.leading_dimension = one_column ? least_column_step : m.column_stride;
    m.column_stride = m.leading_dimension;
    m.row_stride = 1;
  } else {
    if (one_row) m.row_stride = 0;
    if (one_column) m.column_stride = 0;
  }
  return m;
}

}  // namespace codetta::types

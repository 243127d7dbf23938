// SPDX-License-Identifier: Apache-2.0
// Copies of operands in the order the kernels read them.
#pragma once

#include "runtime/cpu/layout.hpp"

namespace codetta::runtime::cpu {

// Writes panel `panel` of part `part` of the B of a batch item (l.panel_bytes, padding included) to `out`.
void pack_panel(const Layout& l, const GemmProblem& p, int64_t batch, int64_t panel, int64_t part, std::byte* out);
// The same for k [k_begin, k_end), both at multiples of the group, or at the padded end; without compensation.
void pack_panel_k(const Layout& l, const GemmProblem& p, int64_t batch, int64_t panel, int64_t part, int64_t k_begin,
                  int64_t k_end, std::byte* out);

// Elements of a made B as they are stored: `rows` x `cols` from (row, col) of the made space, `ld` elements a row.
void make_block(const Layout& l, const GemmProblem& p, int64_t product, int64_t batch, int64_t row, int64_t col,
                int64_t rows, int64_t cols, std::byte* out, int64_t ld);

// Copies rows [row, row + rows) and k [k0, k0 + count) of one A matrix, converted, to `out` with l.a_pack_ld bytes a
// row; k is zero-padded to the set's unit, rows to l.mr where the set is padded.
void pack_rows(const Layout& l, const GemmProblem& p, const void* a, int64_t row, int64_t rows, int64_t k0,
               int64_t count, std::byte* out);

}  // namespace codetta::runtime::cpu

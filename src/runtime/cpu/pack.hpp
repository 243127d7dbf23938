// SPDX-License-Identifier: Apache-2.0
// Copies of operands in the order the kernels read them.
#pragma once

#include "runtime/cpu/layout.hpp"

namespace codetta::runtime::cpu {

// Writes panel `panel` of part `part` of one B matrix (l.panel_bytes, padding included) to `out`.
void pack_panel(const Layout& l, const GemmProblem& p, const void* b, int64_t panel, int64_t part, std::byte* out);

// Copies rows [row, row + rows) and k [k0, k0 + count) of one A matrix, converted, to `out` with l.a_pack_ld bytes a
// row; k is zero-padded to the set's unit, rows to l.mr where the set is padded.
void pack_rows(const Layout& l, const GemmProblem& p, const void* a, int64_t row, int64_t rows, int64_t k0,
               int64_t count, std::byte* out);

}  // namespace codetta::runtime::cpu

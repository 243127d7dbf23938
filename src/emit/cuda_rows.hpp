// SPDX-License-Identifier: Apache-2.0
// The text of maps in which threads finish whole rows (device/gpu/kernels/map.h), and what else prints phases by how
// much they do.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "base/code_writer.hpp"
#include "base/result.hpp"
#include "emit/dialect.hpp"
#include "package/epilogue_program.hpp"
#include "plan/families_cuda.hpp"

namespace codetta::emit {

// Of device/gpu/reduce.h.
std::string_view state_name(package::ReduceKind kind);
// What combines partials of a reduction is told: state, whether it is a mean, parts of the split, element.
std::string reduction_text(const package::Reduction& r);

// The members `short_rows`, which keeps what later phases take, `long_rows` and `rows`, which picks one of them, of
// struct Epilogue; forms that no row can have are left out. `threads`: of a block, layout.across of which share a row.
// `few_forms`, for a slow compiler: what is only likely has no form of its own, and long rows ask at run time whether
// they are whole vectors, as they do elsewhere where few columns are expected. Gives how many blocks share a
// multiprocessor at least. Errors: as print_phase.
Result<int> print_rows_of_map(base::CodeWriter& out, const package::EpilogueProgram& program,
                              const package::GpuMapConfig& config, const plan::PieceLayout& layout, int threads,
                              bool comments, bool few_forms, std::set<PartLibrary::Request>& needs);

}  // namespace codetta::emit

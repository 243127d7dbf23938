// SPDX-License-Identifier: Apache-2.0
// What an emitted kernel for Metal says of its factors, where they are more than A and B in memory.
#pragma once

#include "base/code_writer.hpp"
#include "base/result.hpp"
#include "package/epilogue_program.hpp"

namespace codetta::emit {

// " && ..." for each operand that is loaded as vectors where its rows are aligned so: those of the epilogue's phases,
// or with `factor` those that it is made of.
std::string metal_aligned_text(const package::EpilogueProgram& program, const package::FactorProgram* factor = nullptr);
// Where the B of a further product is found (device/metal/tile.h).
void print_metal_products(base::CodeWriter& out, const package::EpilogueProgram& program);
// MakerA or MakerB (device/metal/make.h). Errors: E0901.
Result<void> print_metal_maker(base::CodeWriter& out, const package::EpilogueProgram& program,
                               const package::FactorProgram& factor, bool comments);

}  // namespace codetta::emit

// SPDX-License-Identifier: Apache-2.0
// What an emitted kernel of CUDA or HIP says of its factors, where they are more than A and B in memory.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/code_writer.hpp"
#include "base/result.hpp"
#include "package/epilogue_program.hpp"
#include "package/gpu_gemm.hpp"

namespace codetta::emit {

// Whether a kernel of the configuration makes the program's factors, if it has any.
bool makes_factors(const package::EpilogueProgram& program, const package::GpuGemmConfig& config);
// Whether a made factor is computed from the operand.
bool is_of_factor(const package::EpilogueProgram& program, uint32_t operand);
// " && ..." for each of these operands that can be loaded as vectors: that all of its rows are aligned so.
std::string aligned_text(const package::EpilogueProgram& program, const std::function<bool(uint32_t)>& operand);
// Whether a phase loads or stores the operand.
bool touches(const package::Phase& phase, uint32_t operand);
// Where the B of a further product is found (device/gpu/tile.h), and the columns of each where these differ.
// `maps`: the kernel's, among which there are further ones of B if there are any.
void print_products(base::CodeWriter& out, const package::EpilogueProgram& program,
                    const std::vector<package::CudaTensorMap>& maps);
// MakerA or MakerB (device/gpu/make.h): the factor printed as a phase whose one store is into registers. `brought`: the
// operand that the copy engine brings (device/cuda/kernels/make_wgmma.h). Errors: E0901.
Result<void> print_maker(base::CodeWriter& out, const package::EpilogueProgram& program,
                         const package::FactorProgram& factor, std::optional<uint32_t> brought, bool comments);

}  // namespace codetta::emit

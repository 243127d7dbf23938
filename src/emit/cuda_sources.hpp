// SPDX-License-Identifier: Apache-2.0
// The kernel bodies of device/ as the sources of kernels name them.
#pragma once

#include <string_view>
#include <vector>

#include "base/code_writer.hpp"
#include "package/epilogue_program.hpp"
#include "package/gpu_gemm.hpp"

namespace codetta::emit {

// Where a family's kernel body is, and what its source needs besides.
struct FamilySource {
  package::GpuFamily family;
  std::string_view header, function;
  bool waits_itself;                                                    // for the kernel before it, where it must
  void (*defines)(base::CodeWriter&, const package::GpuGemmConfig&);    // before the first include
  void (*constants)(base::CodeWriter&, const package::GpuGemmConfig&);  // of Config
  void (*maps)(const package::EpilogueProgram&, const package::GpuGemmConfig&,
               std::vector<package::CudaTensorMap>&);  // of A and B
};
// Null: the family has no body.
const FamilySource* find_source(package::GpuFamily family);
const FamilySource& source_of_maps();

// struct Config of a kernel's text.
void print_cuda_config(base::CodeWriter& out, const package::EpilogueProgram& program,
                       const package::GpuGemmConfig& config, const FamilySource& family, std::string_view arch,
                       int warp_rows);

// The tensor maps of a product's kernel in the order of its parameters: A, B, what the copy engine copies of the
// epilogue, further Bs, the further items of A. Of products with root spaces of their own what is copied follows each
// B. Empty for families without any.
std::vector<package::CudaTensorMap> maps_of(const FamilySource& family, const package::EpilogueProgram& program,
                                            const package::GpuGemmConfig& config);

}  // namespace codetta::emit

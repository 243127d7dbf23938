// SPDX-License-Identifier: Apache-2.0
// Products that the vendor's library computes: which of its fixed epilogues an EpilogueProgram equals, and what the
// library proposes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/families_cuda.hpp"

namespace codetta::plan {

// Where the library's functions are those of docs/semantics.md; false where that is not known of its version on this
// architecture. Measured with tests/cuda_device/vendor_test.cpp (bench/NOTES.md, section cuBLASLt).
struct VendorTraits {
  bool relu_keeps_nan = false;  // with factors of 16 bits
  bool gelu_is_exact = false;   // and its derivative: to some ulp, also where 1 + tanh cancels
};

// What of the library there is to ask. The driver fills it in; nothing here loads or calls anything else.
struct VendorMenu {
  std::string absent;   // why it cannot be asked; empty where it can
  std::string version;  // "13.0.0": part of the kernels' names, since proposals belong to a version
  VendorTraits traits{};
  std::function<Result<std::vector<package::VendorProposal>>(const package::VendorProblem&)> propose{};
};

// Which entry of the library's menu the program is, exactly as docs/semantics.md defines both; else why it is none.
struct VendorMatch {
  package::CudaVendorConfig config;  // without rank and workspace
  DType d = DType::f32, bias = DType::f32, aux = DType::f32;
  std::string obstacle;  // empty: it matches
};
VendorMatch match_vendor(const package::EpilogueProgram& epilogue, const GemmShape& shape, const VendorTraits& traits);

// Adds the library's proposals, or a rejection. Nothing where nobody asks for them.
void discover_vendor(const GpuProblem& problem, Discovery& discovery);

}  // namespace codetta::plan

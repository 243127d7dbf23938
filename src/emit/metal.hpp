// SPDX-License-Identifier: Apache-2.0
// From an EpilogueProgram to a Metal library's source. Public to the driver and to tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "package/epilogue_program.hpp"
#include "package/kernel_config.hpp"

namespace codetta::emit {

struct MetalEmitOptions {
  std::string family = "apple7";  // named in the text
  bool strict = false;            // no contraction of a * b + c
  bool comments = true;           // the program's line beside each value
};

// A translation unit in the Metal Shading Language 3. It includes embedded files as "device/" + their virtual path, and
// holds: the configuration as constants, the phases of the epilogue, and one kernel function an entry. Every kernel
// gets the parameters of device/gpu/abi.h in constant buffer 0 (tensors by their gpuAddress), and
// `GpuEntry::shared_bytes` of threadgroup memory at index 0.
struct MetalSource {
  std::string text;
  std::vector<std::string> flags;          // of `xcrun metal`
  std::vector<package::GpuEntry> entries;  // in dispatch order
};
// Errors: E0901 if the program contradicts itself, or the configuration is none of a family.
Result<MetalSource> emit_metal_kernel(const package::EpilogueProgram& program, const package::GpuGemmConfig& config,
                                      const MetalEmitOptions& options);
// The same for a map: its phases over the root space, and the reductions between them.
Result<MetalSource> emit_metal_map(const package::EpilogueProgram& program, const package::GpuMapConfig& config,
                                   const MetalEmitOptions& options);

// What `xcrun metal` is told of every text; strict: no contraction of a * b + c.
std::vector<std::string> metal_flags(bool strict);

// The text with everything embedded that it includes in its place, each file once: what Metal compiles on a machine
// that has no Codetta.
std::string whole_metal_text(std::string_view text);

}  // namespace codetta::emit

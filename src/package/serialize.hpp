// SPDX-License-Identifier: Apache-2.0
// What the byte forms of program and package share. Private to this room.
#pragma once

#include <string_view>
#include <vector>

#include "package/bytes.hpp"
#include "package/epilogue_program.hpp"
#include "package/kernel_config.hpp"
#include "package/step.hpp"

namespace codetta::package {

inline constexpr uint64_t max_name_bytes = 4 << 20;
inline constexpr uint64_t max_items = 1 << 24;  // of any list; the bytes that are left bound it, too

void write(ByteWriter& out, const std::vector<Dim>& shape);
std::vector<Dim> read_shape(ByteReader& in);
void write(ByteWriter& out, const EpilogueProgram& program);
EpilogueProgram read_program(ByteReader& in);  // checked: in.ok() means that find_defect() found nothing

// Sizes are held to what plan/ may choose: those who run a configuration trust it.
void write_config(ByteWriter& out, const KernelConfig& config);
KernelConfig read_config(ByteReader& in);
void write_entries(ByteWriter& out, const std::vector<GpuEntry>& entries);
std::vector<GpuEntry> read_entries(ByteReader& in);
void write_maps(ByteWriter& out, const std::vector<CudaTensorMap>& maps);
std::vector<CudaTensorMap> read_maps(ByteReader& in);

void write(ByteWriter& out, const StepList& steps);
StepList read_steps(ByteReader& in);

Error damaged(std::string_view reason);  // E0520

}  // namespace codetta::package

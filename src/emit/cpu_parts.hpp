// SPDX-License-Identifier: Apache-2.0
// The namespace of emitted code for CPUs: device parts and what is printed against them. Private to the room.
#pragma once

#include <set>
#include <string>

#include "base/code_writer.hpp"
#include "base/result.hpp"
#include "codetta/target.hpp"
#include "emit/parts.hpp"

namespace codetta::emit {

int cpu_vector_bytes(CpuIsa isa);

// `head`, then device/cpu/abi.h, the parts that `needs` asks for and `body`, in namespace codetta::cpu.
// Errors: E0901 where the device sources lack one.
Result<std::string> cpu_parts_text(std::string head, const std::set<PartLibrary::Request>& needs, int lanes,
                                   const base::CodeWriter& body);

}  // namespace codetta::emit

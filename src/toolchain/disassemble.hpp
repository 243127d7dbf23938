// SPDX-License-Identifier: Apache-2.0
// The machine code of a cubin as text (SASS), by NVIDIA's disassembler.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace codetta::toolchain {

struct DisassembleOptions {
  std::string program{};    // exactly this one, nvdisasm or cuobjdump by its name; "" = looked for
  std::string path{};       // PATH to search (the library reads no environment)
  std::string cuda_home{};  // folder of a toolkit, whose bin is looked through first
  std::string work_dir{};   // where temporaries go, in a private folder; "" = /dev/shm, /tmp or /var/tmp
  double timeout_seconds = 60;
};
// nvdisasm, or cuobjdump where that is missing.
struct Disassembler {
  std::string program;  // absolute path
  std::string option;   // code only: no data sections, no raw bytes
};
// Errors: E0534 neither was found (what was looked for and where).
Result<Disassembler> find_disassembler(const DisassembleOptions& options);
// By the one that is found. Errors: E0534, E0505 timeout, E0506 it failed, E0507 no room or no permission for
// temporaries.
Result<std::string> disassemble(std::string_view cubin, const DisassembleOptions& options);

}  // namespace codetta::toolchain

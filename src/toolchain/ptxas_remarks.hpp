// SPDX-License-Identifier: Apache-2.0
// What the assembler says about a kernel (ptxas -v), taken apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace codetta::toolchain {

struct PtxasRemarks {
  std::string kernel;
  int registers = 0;  // per thread
  int barriers = 0;
  int64_t shared_bytes = 0;  // static
  int64_t stack_bytes = 0;   // per thread, of the kernel and what it calls
  int64_t spill_store_bytes = 0, spill_load_bytes = 0;
  bool serialized = false;         // C7510 to C7519: asynchronous matrix instructions run one after the other
  std::vector<std::string> lines;  // warnings, and remarks with a number such as (C7510)
  bool operator==(const PtxasRemarks&) const = default;
};

// By kernel, in the order of the log.
std::vector<PtxasRemarks> parse_ptxas_remarks(std::string_view log);

// Whether a kernel may be used: no spills, no stack, nothing serialized. Errors: E0533 with the numbers.
Result<void> check_remarks(const std::vector<PtxasRemarks>& remarks, const std::string& label);

// For the metadata of cache entries: one line a kernel, and back. Unreadable text gives an empty list.
std::string encode_remarks(const std::vector<PtxasRemarks>& remarks);
std::vector<PtxasRemarks> decode_remarks(std::string_view text);

}  // namespace codetta::toolchain

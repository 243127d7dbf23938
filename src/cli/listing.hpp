// SPDX-License-Identifier: Apache-2.0
// Candidates and rejections as kernels and explain tell them.
#pragma once

#include <string>
#include <vector>

#include "codetta/kernel.hpp"

namespace codetta::cli {

std::string code_text(uint16_t code);  // "E0405"

// What kernels prints: a line each, or one JSON object.
void print_listing(const std::vector<KernelMetadata>& kernels, const std::vector<Rejection>& rejections, bool json);

// What explain says as JSON, with more of its `candidates` and `rejections`.
std::string with_listing(const std::string& explained, const std::vector<KernelMetadata>& kernels,
                         const std::vector<Rejection>& rejections);

}  // namespace codetta::cli

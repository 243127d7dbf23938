// SPDX-License-Identifier: Apache-2.0
// Private to the room: a source of several kernel functions as two that compile at the same time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace codetta::toolchain {

// About how many milliseconds a compiler takes, measured, for a product without its first phase, for another kernel
// function without what it calls, for a reduction that is combined, for the packing of factors, and for its own start.
struct PartCosts {
  size_t product, kernel, combine, pack;
  size_t phase_bytes;  // of a phase's text, each of which takes a millisecond
  size_t start;
};

// The source twice, with the product (the first kernel function where there is none) and with others that take about as
// long, each of as many lines. Empty where it has less than three and the second part would not be worth the start.
std::vector<std::string> parts_of(std::string_view source, const PartCosts& costs);

}  // namespace codetta::toolchain

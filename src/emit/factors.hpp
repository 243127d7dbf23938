// SPDX-License-Identifier: Apache-2.0
// What emitted kernels of all GPUs say of factors that are more than A and B in memory.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "emit/phase_printer.hpp"

namespace codetta::emit {

// Whether a factor is computed from the operand.
bool reads_operand(const package::FactorProgram& factor, uint32_t operand);

// A factor printed as a phase whose one store, of operand `made`, is into registers.
struct MakerText {
  PhaseText phase;
  uint32_t made = 0;
};
// Errors: as print_phase.
Result<MakerText> maker_text(const package::EpilogueProgram& program, const package::FactorProgram& factor,
                             const Dialect& dialect, bool comments, std::set<PartLibrary::Request>& needs);

// A constexpr function of `product` that gives value(i) for the i-th of the further products, from 0 on. `head`: what
// stands in front of its name.
std::string product_choice(const package::EpilogueProgram& program, std::string_view head, std::string_view name,
                           const std::function<size_t(size_t)>& value);

}  // namespace codetta::emit

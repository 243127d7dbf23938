// SPDX-License-Identifier: Apache-2.0
// Texts together with what their parameters are bound to, as bytes: the text, a zero, and a byte a decision. Random
// epilogues of the differential tests are written in this form, so that mutation starts from problems that are planned
// to the end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/bind.hpp"
#include "ir/function.hpp"
#include "plan/plan.hpp"

namespace codetta::fuzz {

struct Bindings {
  ir::GemmFacts facts;
  std::vector<ir::BoundArgument> arguments;  // any for parameters that the choices leave out
  Target target;
};

// Text and choices of an input.
std::pair<std::string_view, std::string_view> parts_of(std::string_view input);
Bindings bindings_of(const ir::Function& function, std::string_view choices);
// The shape that planning needs, with row-major factors; nothing where they would not fit the address space.
std::optional<plan::GemmShape> shape_of(const ir::GemmFacts& facts);

// A random epilogue with its bindings, as an input.
std::string random_input(uint64_t seed);
// Checks everything between a bound graph and its plan that must hold whatever the input is, and returns the plan.
std::optional<plan::Plan> checked_plan(const ir::Graph& bound, const Bindings& bindings);

}  // namespace codetta::fuzz

// SPDX-License-Identifier: Apache-2.0
// The tables that all_cases() puts together.
#pragma once

#include "case.hpp"

namespace codetta::golden {

const std::vector<Case>& elementwise_cases();
const std::vector<Case>& type_cases();
const std::vector<Case>& reduction_cases();
const std::vector<Case>& cuda_cases();
const std::vector<Case>& hip_cases();
const std::vector<Case>& metal_cases();

}  // namespace codetta::golden

// SPDX-License-Identifier: Apache-2.0
// The HTML page of a program, from what its compilation decided.
#pragma once

#include "driver/kernel_state.hpp"
#include "driver/roofline.hpp"
#include "driver/workspace_report.hpp"

namespace codetta::driver {

// `source`: what was emitted for all kernels; `explained`: the text of plan/explain.hpp.
std::string program_page(const ir::ProgramFunction& function, const ir::Graph& bound, const opt::Optimized& optimized,
                         const plan::Plan& plan, const WorkspaceReport& workspace, const Roofline& roofline,
                         std::string_view source, std::string_view explained);

}  // namespace codetta::driver

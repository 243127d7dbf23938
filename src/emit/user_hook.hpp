// SPDX-License-Identifier: Apache-2.0
// The epilogue of a kernel of the user's that hands a result over, as text around the user's source: the phase printed
// over a fragment of one element. Private to the room.
#pragma once

#include <string>

#include "base/result.hpp"
#include "emit/emit.hpp"
#include "package/epilogue_program.hpp"
#include "plan/plan.hpp"

namespace codetta::emit {

struct HookText {
  std::string before;    // the element types and the user's source: what Hook::store calls
  std::string between;   // them
  std::string entry;     // lines in the function that calls the user's
  std::string argument;  // what that passes
};
// Errors: E0901 if the program contradicts itself.
Result<HookText> cpu_hook(const package::EpilogueProgram& program, const plan::UserHook& hook,
                          const CpuEmitOptions& options);

// Of a GPU: `between` is everything, and there is nothing to call.
Result<HookText> gpu_hook(const package::EpilogueProgram& program, const plan::UserHook& hook, bool comments);

}  // namespace codetta::emit

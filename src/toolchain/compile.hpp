// SPDX-License-Identifier: Apache-2.0
// Private to the room: what compiles of kernels and of libraries share, and a compile that another thread can end.
#pragma once

#include <atomic>

#include "toolchain/compiler.hpp"

namespace codetta::toolchain {

Result<CompileOutput> compile_cancellable(const HostCompiler& compiler, const CompileJob& job,
                                          const CompileOptions& options, const std::atomic<bool>* cancel);

// The flags, behind what every loadable object needs and how the compiler shall talk. Language, target, optimization
// and what is linked belong to whoever wrote the source.
std::vector<std::string> code_arguments(const HostCompiler& compiler, const std::vector<std::string>& flags);
// Errors: E0901 for flags that change the meaning of floating point in whoever loads the object.
Result<void> check_flags(const CompileJob& job);

}  // namespace codetta::toolchain

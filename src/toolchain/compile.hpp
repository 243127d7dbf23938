// SPDX-License-Identifier: Apache-2.0
// Private to the room: a compile that another thread can end.
#pragma once

#include <atomic>

#include "toolchain/compiler.hpp"

namespace codetta::toolchain {

Result<CompileOutput> compile_cancellable(const HostCompiler& compiler, const CompileJob& job,
                                          const CompileOptions& options, const std::atomic<bool>* cancel);

}  // namespace codetta::toolchain

// SPDX-License-Identifier: Apache-2.0
// Everything: GEMMs with any epilogue, fused.
#pragma once

#include "codetta/build.hpp"      // IWYU pragma: export
#include "codetta/device.hpp"     // IWYU pragma: export
#include "codetta/diagnose.hpp"   // IWYU pragma: export
#include "codetta/epilogue.hpp"   // IWYU pragma: export
#include "codetta/error.hpp"      // IWYU pragma: export
#include "codetta/fill.hpp"       // IWYU pragma: export
#include "codetta/gemm.hpp"       // IWYU pragma: export
#include "codetta/graph.hpp"      // IWYU pragma: export
#include "codetta/io.hpp"         // IWYU pragma: export
#include "codetta/kernel.hpp"     // IWYU pragma: export
#include "codetta/math_mode.hpp"  // IWYU pragma: export
#include "codetta/memory.hpp"     // IWYU pragma: export
#include "codetta/numerics.hpp"   // IWYU pragma: export
#include "codetta/observe.hpp"    // IWYU pragma: export
#include "codetta/program.hpp"    // IWYU pragma: export
#include "codetta/target.hpp"     // IWYU pragma: export
#include "codetta/tensor.hpp"     // IWYU pragma: export
#include "codetta/threads.hpp"    // IWYU pragma: export
#include "codetta/version.hpp"    // IWYU pragma: export

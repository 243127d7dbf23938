// SPDX-License-Identifier: Apache-2.0
// The machine instructions that the epilogue's headers use, by name: each target has its own file of them.
#pragma once

#if defined(__METAL_VERSION__)
#include "device/metal/builtins.h"
#elif defined(__HIP_PLATFORM_AMD__)
#include "device/hip/builtins.h"
#else
#include "device/cuda/builtins.h"
#endif

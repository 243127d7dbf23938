// SPDX-License-Identifier: Apache-2.0
// All element-wise functions of the CPU: ct_<op> for every element-wise op of types/ops.def.
#pragma once

#include "device/cpu/math_basic.h"
#include "device/cpu/math_f32.h"
#include "device/cpu/math_f64.h"
#include "device/cpu/math_int.h"
#include "device/cpu/math_more.h"

// SPDX-License-Identifier: Apache-2.0
// A CUDA driver that runs kernels on the host: the table that runtime/cuda calls, over memory of this process and
// objects of emulator::Compiler. Everything that is enqueued runs at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/result.hpp"
#include "emulator/machine.hpp"
#include "runtime/cuda/device.hpp"

namespace codetta::emulator {

// The device that the driver shows. Architecture-specific features begin with 9.0.
struct Model {
  int major = 8, minor = 0;
  int multiprocessors = 4;  // few: persistent kernels have several tiles a block
  Word lanes = 32;          // of a warp, which is a wave where kernels are AMD's
  int grid_x = 0x7fffffff;  // blocks of a grid along x
};

// The architecture of AMD's that the environment names; "": none, the device is NVIDIA's.
inline std::string emulated_gfx() {
  const char* const named = std::getenv("CODETTA_EMULATED_GFX");
  return named != nullptr ? named : "";
}

// A driver of one such device: the first call says which, for the whole process. Errors: none that are expected.
Result<runtime::cuda::DeviceRef> open_device(const Model& model);

// The order of blocks and threads of the launches from now on (Grid::seed).
void set_seed(uint64_t seed);
// What went wrong in the last launch of this thread of the host; "" if nothing.
const std::string& last_failure();

}  // namespace codetta::emulator

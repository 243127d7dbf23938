// SPDX-License-Identifier: Apache-2.0
// What orders the copies between a package's devices. Each device works on one stream, and a copy is work of its
// target's. What a list of steps means (step.hpp) needs two waits a copy at most: the target's device for what the
// source's has in front of it, and that one for the copy before it goes on. Which of them are needed is decided here,
// once, for everyone who runs or prints steps.
#pragma once

#include <cstdint>
#include <vector>

#include "package/package.hpp"

namespace codetta::package {

struct DeviceCopy {
  const Copy* step = nullptr;  // in the lists that were asked about
  uint32_t from = 0, to = 0;   // devices
  bool waits = true;           // `to` waits, in front of the copy, for all that `from` has so far
  bool waited_for = true;      // `from` waits, behind the copy, for all that `to` has so far
  // A copy in front of it, between the same two, leaves the wait of `from` to this one. Who has to gather the source's
  // elements first, which is work of `from`, lets `from` wait for `to` in front of that, and `to` for `from` behind it.
  bool follows = false;
};

// The main list's, then those of the child lists that its steps run, and of theirs. A run begins with all devices
// behind the same, and at the end of every list no wait is left out that is needed behind it. Copies without elements
// keep their waits. Everything that comes from one of the four consumers' own needs (fills of counters, memory that is
// allocated on a stream) is used on its device alone. On a CPU there are none. The package has no defect, and outlives
// what is returned.
std::vector<DeviceCopy> device_copies(const StepList& steps, const std::vector<StepList>& lists,
                                      const std::vector<Buffer>& buffers);
std::vector<DeviceCopy> device_copies(const Package& package);

// "copy h to rows: device 0 to 1, 1 waits for 0, then 0 for 1"
std::string line_of(const DeviceCopy& copy, const StepNames& names);

}  // namespace codetta::package

// SPDX-License-Identifier: Apache-2.0
// Our own Metal on a CPU (framework.mm), as the tests see it. Libraries of Codetta link none of it: they find its
// classes by name, as they find those of macOS.
#pragma once

#include <stddef.h>

extern "C" {
// What the framework has its runner do; the test program defines them (host_runner.cpp).
// A library of kernels for a text of the Metal language, or null and in `why` what the compiler said.
void* codetta_metal_compile(const char* text, char* why, size_t room);
void* codetta_metal_function(void* library, const char* name);
// Function constants of the library: false where it has none of this index.
bool codetta_metal_constant(void* library, unsigned long index, bool value);
// Runs every threadgroup. Null, or what went wrong.
const char* codetta_metal_dispatch(void* function, const void* parameters, unsigned threadgroup_bytes,
                                   const unsigned groups[3], unsigned threads);

// What tests ask of the framework.
struct MetalControl {
  void* (*buffer)(size_t bytes);         // an id<MTLBuffer>, filled with 0x7f
  void* (*contents)(void* buffer);       // where the host sees it
  void (*release)(void* buffer);         // as its last owner
  void* (*command_buffer)();             // of a queue of the caller's own
  void (*finish)(void* command_buffer);  // commits and waits
  void (*fail)(const char* what);        // the next of these goes wrong: device, family, queue, buffer, encoder,
                                         // commands, library, function, pipeline, width, threads, memory; null: none
  const char* (*log)();                  // what happened since the last call, a line each
};
const MetalControl* codetta_metal_control(void);
}

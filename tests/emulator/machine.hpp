// SPDX-License-Identifier: Apache-2.0
// What a kernel's object and the emulator know of each other: which thread runs, and the calls by which threads meet.
// Header-free, since every kernel is compiled with it.
#pragma once

namespace codetta::emulator {

using Word = unsigned int;
using Bits = unsigned long long;
inline constexpr int max_lanes = 64;

struct Index {
  Word x, y, z;
};

// Where in a kernel's text a thread is.
struct Site {
  const char* file;
  int line;
};

// The thread that runs, as its kernel sees it.
struct Thread {
  Index thread, block, block_size, grid_size;
  Word lane, lanes;  // in its warp, and how many a warp has
  Word linear;       // in its block
};

// One for each thread of the host; a kernel's calls go through it.
struct Machine {
  const Thread* current;
  // Waits until `count` threads of the block (0: all of them) are at barrier `id`.
  void (*barrier)(Word id, Word count, Site site);
  // Arrives at it without waiting.
  void (*arrive)(Word id, Word count, Site site);
  // Waits until all lanes of `mask` called it with the same mask and `kind`; the values that they gave, by lane. They
  // stay until the thread's next exchange. `words` of 8 bytes each lane, at most 8; those of lane l begin at l * words.
  const Bits* (*exchange)(Bits mask, Word kind, const Bits* values, Word words, Site site);
  // Copies `bytes` to `to`, the first `valid` of them from `from` and zeros behind, now or when the thread waits for
  // it.
  void (*copy_async)(void* to, const void* from, Word bytes, Word valid);
  void (*copy_commit)();
  // Waits until all but the newest `groups` groups of the thread's copies are there.
  void (*copy_wait)(Word groups);
  // The thread has read these bytes, at most 16, as memory that nobody writes while the kernel runs.
  void (*read_constant)(const void* from, Word bytes, Site site);
  // The thread reads and writes this word at once, which a device need not be able to in the host's memory.
  void (*update)(const void* word, Site site);
  // Ends the launch with a message. Does not return.
  void (*fail)(const char* what, Bits number, Site site);
  unsigned char* shared;  // dynamic shared memory of the block, and its size
  Bits shared_bytes;
};

}  // namespace codetta::emulator

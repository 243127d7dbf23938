// SPDX-License-Identifier: Apache-2.0
// What Codetta finds on this machine, and its cache.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codetta/kernel.hpp"

namespace codetta {

// "Did you mean": the candidate nearest to `word` by edits (insert, delete, replace, swap of neighbours) over lower
// case, at most a third of the longer one's length away; the first of several. "" when there is none, or `word` is one
// of the candidates or longer than 64 bytes.
CODETTA_API std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

// Text as it may go to a terminal: control characters, invalid bytes and invisible or bidirectional marks become "\n",
// "\x1b", "\u202e"; a tab becomes one blank.
CODETTA_API std::string displayable(std::string_view text);

// One thing that was looked for.
struct Finding {
  std::string what;    // "host compiler"
  bool ok = false;     // it is there and can be used
  std::string detail;  // what was found, or what was looked for and where
  std::string help;    // what to do when it is not ok; empty else
  bool needed = true;  // false: that it is not there is no fault
};
// Processor and ISA levels, caches and threads, host compiler, NVIDIA driver, devices, CUDA compiler, vendor's kernels,
// HIP, cache. GPUs and their compilers are not needed, unless ContextOptions::device names one that is not there. Never
// fails; may start the compiler to ask what it is.
CODETTA_API std::vector<Finding> diagnose(Context& context = Context::process_default());
// The same for one target: first whether it can run here, then everything, of which only what this target needs is
// needed.
CODETTA_API std::vector<Finding> diagnose(const Target& target, Context& context = Context::process_default());

struct CacheReport {
  std::string directory;
  bool enabled = false;
  bool read_only = false;  // nothing in it is changed
  std::string warning;     // why not, if not; or the first thing that failed since, or a folder of it that fails
  int64_t entries = 0, bytes = 0, capacity_bytes = 0;
  int64_t hits = 0, misses = 0, damaged = 0, io_errors = 0, stored = 0, evicted = 0;  // of this process
};
CODETTA_API CacheReport cache_report(Context& context = Context::process_default());
// Removes every entry, kept source and memo. Errors: E0511 when the cache is off or read-only.
CODETTA_API Result<void> cache_clear(Context& context = Context::process_default());
// Removes the least recently used entries above the capacity, and orphaned temporaries. Errors: E0511.
CODETTA_API Result<void> cache_evict(Context& context = Context::process_default());

}  // namespace codetta

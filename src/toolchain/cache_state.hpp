// SPDX-License-Identifier: Apache-2.0
// Private to cache*.cpp: what a Cache holds, and its folder on disk:
//   ab/ab<30 hex>.bin .pkg .tune .memo   entries, by the first two digits of their names
//   ab/.tmp-*                            being written, or left over by a writer that was killed
//   locks/<name>                         held (flock) while an entry is being made; an empty file
//   usage.log                            sizes of the entries that came and went, 8 bytes each, since the last scan
//   codetta_*.cpp .cu                    sources as they were compiled, for people
//   kernel-*.cpp .cu                     sources that a compiler has refused
//   compiler-*.memo                      what a compiler is (probe.hpp)
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/files.hpp"
#include "base/single_flight.hpp"
#include "toolchain/cache.hpp"

namespace codetta::toolchain {

class KeyLock;

struct Cache::State {
  CacheOptions options;
  const base::SystemCalls* calls = nullptr;
  base::FileDescriptor root;  // invalid: disabled

  std::mutex mutex;  // of warning and swept
  std::string warning;
  std::atomic<bool> warned = false;
  std::unordered_set<std::string> swept;  // folders whose leftovers this process has looked for

  std::atomic<int64_t> hits = 0, misses = 0, damaged = 0, io_errors = 0, stored = 0, evicted = 0;
  base::SingleFlight<std::string, Result<CacheEntry>> making;

  // A lookup that is not counted.
  std::optional<CacheEntry> find(const CacheKey& key);
  // The entry of that name and kind, if it is sound and its key is the wanted one.
  std::optional<CacheEntry> read(const std::string& name, EntryKind kind,
                                 const std::function<bool(std::string_view key_text)>& wanted);
  // The first one stays.
  void warn(const std::string& text);
  void io_error(const base::SystemError& error);
  void lock_error(const KeyLock& lock);
  [[nodiscard]] std::string why(const base::SystemError& error) const;  // with what helps

  // An entry's folder; made when `make`.
  base::Expected<base::FileDescriptor> folder_of(const std::string& name, bool make) const;
  void sweep_leftovers(const base::FileDescriptor& folder, const std::string& folder_name);
  // Adds to the usage log; true when it is time for a scan.
  bool account(int64_t bytes);
  // Scans, and removes down to nine tenths of the capacity when there is more than it. False: another process does it.
  bool scan_and_evict();
};

inline constexpr const char* lock_folder = "locks";
std::string entry_name(const CacheKey& key);
std::string_view suffix_of(EntryKind kind);  // ".bin"
// A source or memo: a file of the folder itself that counts as an entry does.
bool is_loose_file(const std::string& name);
// A temporary whose writer is gone: its process does not run any more, or it is older than an hour.
bool is_orphan(const std::string& temporary_name, int64_t age_seconds);

// An advisory lock on a key, over all processes; destroyed = released. Where locks do not work there is none, and
// things are only slower.
class KeyLock {
 public:
  KeyLock(const base::FileDescriptor& root, const std::string& name, const base::SystemCalls& calls);
  ~KeyLock();
  // Why the folder of locks is not used, where that is to be mended.
  [[nodiscard]] const std::optional<base::SystemError>& refused() const { return refused_; }
  KeyLock(const KeyLock&) = delete;
  KeyLock& operator=(const KeyLock&) = delete;

 private:
  const base::SystemCalls& calls_;
  std::string name_;
  base::FileDescriptor folder_;
  base::FileDescriptor file_;
  std::optional<base::SystemError> refused_;
};

}  // namespace codetta::toolchain

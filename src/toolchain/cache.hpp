// SPDX-License-Identifier: Apache-2.0
// The disk cache: entries of several kinds, one file each, named by what decides them. A damaged entry is a miss that
// heals itself; an I/O error is a miss; no cache failure fails a compile.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.hpp"
#include "base/files.hpp"
#include "base/result.hpp"

namespace codetta::toolchain {

enum class EntryKind : uint8_t { Binary = 1, Package = 2, Tuning = 3, Memo = 4 };

// Everything that decides an entry, as text: it is stored in the entry and compared on lookup; its XXH3-128 names the
// file.
class CacheKey {
 public:
  CacheKey(EntryKind kind, std::string_view what);
  static CacheKey of_text(EntryKind kind, std::string text);     // the text of another one
  CacheKey& add(std::string_view name, std::string_view value);  // length-prefixed
  [[nodiscard]] EntryKind kind() const { return kind_; }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::string digest_hex() const;  // 32 hex digits

 private:
  explicit CacheKey(EntryKind kind) : kind_(kind) {}
  EntryKind kind_;
  std::string text_;
};
std::string digest_hex_of(EntryKind kind, std::string_view key_text);

struct CacheEntry {
  std::string metadata;  // small, free form
  std::string payload;
};

struct CacheOptions {
  // Made with mode 0700 if absent. Refused unless this user owns it (read-only: or root) and neither group nor others
  // may write to it. That they may list it (0755) is accepted: its files are 0600.
  std::string directory;
  bool read_only = false;
  int64_t capacity_bytes = int64_t{1} << 30;
  // Called once, with the first thing that keeps the cache from working: when it is opened, or at an I/O error later.
  std::function<void(const std::string&)> on_warning{};
  const base::SystemCalls* calls = nullptr;  // tests: failing system calls
};

struct CacheStatistics {
  int64_t hits = 0, misses = 0, damaged = 0, io_errors = 0, stored = 0, evicted = 0;
  int64_t entries = 0, bytes = 0;  // in the folder, kept sources and memos among them
};

// Thread safe; several processes may share a folder.
class Cache {
 public:
  // Never fails: a folder that cannot be used gives a cache that always misses, and warning() says why.
  static std::shared_ptr<Cache> open(const CacheOptions& options);
  static std::shared_ptr<Cache> disabled(std::string reason);
  [[nodiscard]] bool enabled() const;
  [[nodiscard]] const std::string& warning() const;
  [[nodiscard]] const std::string& directory() const;

  std::optional<CacheEntry> lookup(const CacheKey& key);
  struct Kept {
    CacheEntry entry;
    std::string digest_hex;  // of its key
  };
  // Offers the sound entries whose key texts begin like one of `keys`, which are of one kind, to `take`, those that
  // were made or used last first, until it takes one: whether it did. Looks at every entry of the kind.
  bool find_like(std::span<const CacheKey> keys, const std::function<bool(const Kept&)>& take);
  struct Stored {
    std::string key;  // its text
    CacheEntry entry;
  };
  // Every sound entry of a kind, in no order.
  std::vector<Stored> entries(EntryKind kind);
  void store(const CacheKey& key, const CacheEntry& entry);
  // Removes the entry, if any, and stores this one: for tuning records, the only ones whose content may change.
  void replace(const CacheKey& key, const CacheEntry& entry);
  // Replaces an entry by what `change` makes of it, of nothing where there is none or a damaged one; one at a time,
  // over all processes (advisory lock with timeout).
  void amend(const CacheKey& key, const std::function<CacheEntry(const std::optional<CacheEntry>&)>& change);
  // Single flight, in this process and across processes (advisory lock with timeout): lookup, else make and store.
  // `make` runs at most once at a time per key; its own result is used whatever the publication outcome.
  Result<CacheEntry> get_or_make(const CacheKey& key, const std::function<Result<CacheEntry>()>& make,
                                 bool* was_hit = nullptr);

  // Keeps a source for people to read, in the folder itself and with mode 0600; the name is codetta_*.cpp or .cu. Its
  // path, or nothing when the cache is off, read-only (and the source not there already) or does not work. Such files
  // count, and go, as entries do.
  std::optional<std::string> keep_source(const std::string& name, std::string_view text);
  // For a file of the folder that CompileOptions::keep_dir led to.
  void account_for(int64_t bytes);

  [[nodiscard]] CacheStatistics statistics();
  void evict();  // down to the capacity, least recently used first; sweeps orphaned temporaries
  void clear();
  // Which of its folders, of entries or locks, cannot be used, and why; "" where all that are there can, or it is off.
  [[nodiscard]] std::string defect() const;
  // Path of an entry's file, for messages.
  [[nodiscard]] std::string path_of(const CacheKey& key) const;

 private:
  struct State;
  explicit Cache(std::unique_ptr<State> state);
  void publish(const CacheKey& key, const CacheEntry& entry, base::Publish how);
  std::unique_ptr<State> state_;

 public:
  ~Cache();
};

}  // namespace codetta::toolchain

// SPDX-License-Identifier: Apache-2.0
// Capacity, leftovers, statistics: whatever looks at all entries.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <vector>

#include "base/text.hpp"
#include "toolchain/cache_state.hpp"
#include "toolchain/entry_format.hpp"

namespace codetta::toolchain {

namespace {

constexpr int64_t orphan_age_seconds = 3600;
constexpr size_t max_log_bytes = 4096 * sizeof(int64_t);
constexpr const char* log_name = "usage.log";
constexpr const char* scan_lock_name = "scan";

struct Found {
  int64_t modified = 0;  // ns
  int64_t size = 0;
  uint16_t folder = 0;  // of folder_name(), or root_folder
  std::string name;
};

constexpr std::string_view hex_digits = "0123456789abcdef";

constexpr size_t root_folder = 256;

std::string folder_name(size_t index) { return {hex_digits[index / 16], hex_digits[index % 16]}; }

bool is_entry_name(std::string_view name) {
  return name.size() > 33 && name[32] == '.' &&
         name.substr(0, 32).find_first_not_of(hex_digits) == std::string_view::npos;
}

// What counts: entries two levels down, sources and memos in the root.
bool counts(size_t folder, const std::string& name) {
  return folder == root_folder ? is_loose_file(name) : is_entry_name(name);
}

int64_t modified_ns(const struct stat& info) {
#if defined(__APPLE__)
  const struct timespec& modified = info.st_mtimespec;
#else
  const struct timespec& modified = info.st_mtim;
#endif
  return int64_t{modified.tv_sec} * 1'000'000'000 + modified.tv_nsec;
}

bool any_file(size_t, const std::string&) { return true; }

// Calls visit(folder descriptor, index, name, stat) for every file two levels down, then for those of the root, if
// wanted(index, name). What can't be looked at is passed over.
template <class Visit, class Wanted = bool (*)(size_t, const std::string&)>
void for_each_file(const base::FileDescriptor& root, const base::SystemCalls& calls, Visit&& visit,
                   const Wanted& wanted = any_file) {
  const auto look = [&](const base::FileDescriptor& folder, size_t index) {
    const auto entries = base::list_directory_at(folder, calls);
    if (!entries) return;
    for (const base::DirectoryEntry& entry : *entries) {
      struct stat info {};
      if (index == root_folder && entry.kind == base::EntryKind::Folder) continue;
      if (!wanted(index, entry.name)) continue;
      if (calls.fstatat(folder.get(), entry.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
      visit(folder, index, entry.name, info);
    }
  };
  for (size_t i = 0; i < root_folder; ++i) {
    if (const auto folder = base::open_file_at(root, folder_name(i), O_RDONLY | O_DIRECTORY, 0, calls))
      look(*folder, i);
  }
  look(root, root_folder);
}

// The entries of a kind, and when they were made or used last; no other file is looked at.
std::vector<std::pair<int64_t, std::string>> entries_of(EntryKind kind, const base::FileDescriptor& root,
                                                        const base::SystemCalls& calls) {
  std::vector<std::pair<int64_t, std::string>> names;
  for_each_file(
      root, calls,
      [&](const base::FileDescriptor&, size_t, const std::string& name, const struct stat& info) {
        names.emplace_back(modified_ns(info), name);
      },
      [&](size_t folder, const std::string& name) {
        return folder != root_folder && is_entry_name(name) && name.substr(32) == suffix_of(kind);
      });
  return names;
}

// Lock files of makers that were killed: nobody holds them.
void sweep_locks(const base::FileDescriptor& root, const base::SystemCalls& calls) {
  const auto folder = base::open_file_at(root, "locks", O_RDONLY | O_DIRECTORY, 0, calls);
  if (!folder) return;
  const auto entries = base::list_directory_at(*folder, calls);
  if (!entries) return;
  for (const base::DirectoryEntry& entry : *entries) {
    if (entry.kind != base::EntryKind::File || entry.name == scan_lock_name) continue;
    const auto file = base::open_file_at(*folder, entry.name, O_RDWR, 0, calls);
    if (file && calls.flock(file->get(), LOCK_EX | LOCK_NB) == 0) {
      (void)base::remove_file_at(*folder, entry.name, calls);
    }
  }
}

// Starts the log anew with what a scan has found.
void restart_log(const base::FileDescriptor& root, int64_t total, const base::SystemCalls& calls) {
  std::string bytes(sizeof total, '\0');
  std::memcpy(bytes.data(), &total, sizeof total);
  base::WriteOptions options;
  options.mode = 0600;
  options.sync = false;
  (void)base::write_file_atomically_at(root, log_name, bytes, options, calls);
}

}  // namespace

bool Cache::find_like(std::span<const CacheKey> keys, const std::function<bool(const Kept&)>& take) {
  if (!enabled() || keys.empty()) return false;
  State& state = *state_;
  const EntryKind kind = keys.front().kind();
  auto names = entries_of(kind, state.root, *state.calls);
  std::sort(names.rbegin(), names.rend());
  return std::any_of(names.begin(), names.end(), [&](const auto& one) {
    const std::string digest = one.second.substr(0, 32);
    auto entry = state.read(one.second, kind, [&](std::string_view text) {
      return std::any_of(keys.begin(), keys.end(), [&](const CacheKey& key) { return text.starts_with(key.text()); }) &&
             digest_hex_of(kind, text) == digest;
    });
    if (!entry || !take({std::move(*entry), digest})) return false;
    ++state.hits;
    return true;
  });
}

std::vector<Cache::Stored> Cache::entries(EntryKind kind) {
  std::vector<Stored> result;
  if (!enabled()) return result;
  State& state = *state_;
  for (const auto& [when, name] : entries_of(kind, state.root, *state.calls)) {
    std::string key;
    auto entry = state.read(name, kind, [&](std::string_view text) {
      key = text;
      return digest_hex_of(kind, text) == name.substr(0, 32);
    });
    if (entry) result.push_back({std::move(key), *std::move(entry)});
  }
  return result;
}

bool is_loose_file(const std::string& name) {
  const bool source = name.ends_with(".cpp") || name.ends_with(".cu");
  if (name.find('/') != std::string::npos) return false;
  return (source && (name.starts_with("codetta_") || name.starts_with("kernel-"))) ||
         (name.starts_with("compiler-") && name.ends_with(".memo"));
}

bool is_orphan(const std::string& temporary_name, int64_t age_seconds) {
  if (age_seconds > orphan_age_seconds) return true;
  // .tmp-<name>-<process id>-<ticks>-<attempt>
  const auto parts = base::split(temporary_name, '-');
  if (parts.size() < 4) return false;
  const std::string_view text = parts[parts.size() - 3];
  unsigned process = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), process, 16);
  if (failed != std::errc{} || end != text.data() + text.size() || process == 0) return false;
  // A number that runs elsewhere (a container, another host) looks gone too: its writer then fails to publish, no more.
  return ::kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH;
}

void Cache::State::sweep_leftovers(const base::FileDescriptor& folder, const std::string& folder_name_text) {
  {
    const std::lock_guard lock(mutex);
    if (!swept.insert(folder_name_text).second) return;
  }
  const auto entries = base::list_directory_at(folder, *calls);
  if (!entries) return;
  for (const base::DirectoryEntry& entry : *entries) {
    if (!entry.name.starts_with(base::temporary_prefix)) continue;
    struct stat info {};
    if (calls->fstatat(folder.get(), entry.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (is_orphan(entry.name, ::time(nullptr) - info.st_mtime)) (void)base::remove_file_at(folder, entry.name, *calls);
  }
}

bool Cache::State::account(int64_t bytes) {
  // Only a scan makes the log: without one, what is in the folder is unknown.
  const auto log = base::open_file_at(root, log_name, O_RDWR | O_APPEND, 0, *calls);
  if (!log) return true;
  std::string record(sizeof bytes, '\0');
  std::memcpy(record.data(), &bytes, sizeof bytes);
  if (!base::write_all(*log, record, *calls)) return true;
  const auto all = base::read_file_at(root, log_name, max_log_bytes, *calls);
  // A scan leaves one record; a log without it was damaged.
  if (!all || all->size() % sizeof bytes != 0 || all->size() <= sizeof bytes) return true;
  int64_t total = 0;
  for (size_t at = 0; at < all->size(); at += sizeof bytes) {
    int64_t one = 0;
    std::memcpy(&one, all->data() + at, sizeof one);
    if (one < 0 || __builtin_add_overflow(total, one, &total)) return true;
  }
  return total > options.capacity_bytes;
}

bool Cache::State::scan_and_evict() {
  base::FileDescriptor lock;
  if (auto locks = base::make_private_directory_at(root, "locks", *calls)) {
    if (auto file = base::open_file_at(*locks, scan_lock_name, O_RDWR | O_CREAT, 0600, *calls)) {
      if (calls->flock(file->get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
      lock = std::move(*file);
    }
  }
  std::vector<Found> entries;
  int64_t total = 0;
  const int64_t now = ::time(nullptr);
  for_each_file(root, *calls, [&](const auto& folder, size_t index, const std::string& name, const struct stat& info) {
    if (name.starts_with(base::temporary_prefix)) {
      if (is_orphan(name, now - info.st_mtime)) (void)base::remove_file_at(folder, name, *calls);
    } else if (counts(index, name)) {
      entries.push_back({modified_ns(info), info.st_size, static_cast<uint16_t>(index), name});
      total += info.st_size;
    }
  });
  sweep_locks(root, *calls);
  if (total > options.capacity_bytes) {
    const int64_t wanted = options.capacity_bytes - options.capacity_bytes / 10;  // so that not every store comes here
    std::sort(entries.begin(), entries.end(), [](const Found& a, const Found& b) {
      return a.modified != b.modified ? a.modified < b.modified : a.name < b.name;
    });
    for (const Found& entry : entries) {
      if (total <= wanted) break;
      if (entry.folder == root_folder) {
        if (!base::remove_file_at(root, entry.name, *calls)) continue;
      } else {
        const auto folder = base::open_file_at(root, folder_name(entry.folder), O_RDONLY | O_DIRECTORY, 0, *calls);
        if (!folder || !base::remove_file_at(*folder, entry.name, *calls)) continue;
      }
      total -= entry.size;
      ++evicted;
    }
  }
  restart_log(root, total, *calls);
  return true;
}

void Cache::evict() {
  if (enabled() && !state_->options.read_only) (void)state_->scan_and_evict();
}

void Cache::clear() {
  if (!enabled() || state_->options.read_only) return;
  for_each_file(state_->root, *state_->calls,
                [&](const auto& folder, size_t index, const std::string& name, const struct stat& info) {
                  const bool ours = counts(index, name) || (name.starts_with(base::temporary_prefix) &&
                                                            is_orphan(name, ::time(nullptr) - info.st_mtime));
                  if (ours) (void)base::remove_file_at(folder, name, *state_->calls);
                });
  sweep_locks(state_->root, *state_->calls);
  restart_log(state_->root, 0, *state_->calls);
}

std::string Cache::defect() const {
  if (!enabled()) return {};
  const bool written = !state_->options.read_only;
  if (written) {
    if (const auto may = base::check_writable(state_->root, state_->options.directory, *state_->calls); !may)
      return may.error().message() + "; kernels are compiled but not kept";
  }
  const auto defect_of = [&](const base::Expected<base::FileDescriptor>& folder, const std::string& name) {
    if (!folder) return state_->why(folder.error());
    const auto may = written ? base::check_writable(*folder, state_->options.directory + "/" + name, *state_->calls)
                             : base::Expected<void>();
    return may ? std::string() : may.error().message();
  };
  std::string first;
  size_t more = 0;
  for (size_t i = 0; i < root_folder; ++i) {
    struct stat info {};
    const std::string name = folder_name(i);
    if (state_->calls->fstatat(state_->root.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    std::string why = defect_of(state_->folder_of(name, written), name);
    if (why.empty()) continue;
    if (first.empty()) {
      first = std::move(why);
    } else {
      ++more;
    }
  }
  struct stat info {};
  if (first.empty() && written &&
      state_->calls->fstatat(state_->root.get(), lock_folder, &info, AT_SYMLINK_NOFOLLOW) == 0) {
    const auto locks = base::make_private_directory_at(state_->root, lock_folder, *state_->calls);
    if (const std::string why = defect_of(locks, lock_folder); !why.empty())
      return fmt::format("{}; processes that need the same kernel at once compile it each", why);
  }
  if (first.empty()) return {};
  const std::string others = more == 0   ? std::string()
                             : more == 1 ? ", and another of its folders cannot be used"
                                         : fmt::format(", and {} more of its folders cannot be used", more);
  return fmt::format("{}{}; kernels that belong there are compiled but not kept", first, others);
}

CacheStatistics Cache::statistics() {
  const State& state = *state_;
  CacheStatistics result;
  result.hits = state.hits;
  result.misses = state.misses;
  result.damaged = state.damaged;
  result.io_errors = state.io_errors;
  result.stored = state.stored;
  result.evicted = state.evicted;
  if (enabled()) {
    for_each_file(state.root, *state.calls,
                  [&](const auto&, size_t index, const std::string& name, const struct stat& info) {
                    if (!counts(index, name)) return;
                    ++result.entries;
                    result.bytes += info.st_size;
                  });
  }
  return result;
}

}  // namespace codetta::toolchain

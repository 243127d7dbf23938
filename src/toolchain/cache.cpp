// SPDX-License-Identifier: Apache-2.0
// Lookup, publication and single flight.
#include "toolchain/cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "base/kept.hpp"
#include "toolchain/cache_state.hpp"
#include "toolchain/entry_format.hpp"
#include "toolchain/folder.hpp"

namespace codetta::toolchain {

namespace {

constexpr int64_t touch_interval_seconds = 3600;
constexpr std::string_view kind_suffix[] = {"", ".bin", ".pkg", ".tune", ".memo"};

// Two names for one file: a publication between its link and its unlink, or one that was killed there. Any other second
// name is somebody else's.
bool is_publication(const base::FileDescriptor& folder, const struct stat& info, const base::SystemCalls& calls) {
  const auto entries = base::list_directory_at(folder, calls);
  if (!entries) return false;
  for (const base::DirectoryEntry& entry : *entries) {
    if (!entry.name.starts_with(base::temporary_prefix)) continue;
    struct stat other {};
    if (calls.fstatat(folder.get(), entry.name.c_str(), &other, AT_SYMLINK_NOFOLLOW) == 0 &&
        other.st_ino == info.st_ino) {
      return true;
    }
  }
  return false;
}

// Who besides the owner.
std::string writers_of(const std::string& folder) {
  struct stat info {};
  const mode_t mode = ::stat(folder.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
  const char* who = (mode & 022) == 020 ? "its group" : (mode & 022) == 002 ? "others" : "its group and others";
  return fmt::format("{} (mode {:o})", who, mode);
}

// Unless it has been replaced meanwhile.
void remove_damaged(const base::FileDescriptor& folder, const std::string& name, const struct stat& info,
                    const base::SystemCalls& calls) {
  struct stat now {};
  if (calls.fstatat(folder.get(), name.c_str(), &now, AT_SYMLINK_NOFOLLOW) != 0 || now.st_ino != info.st_ino) return;
  (void)base::remove_file_at(folder, name, calls);
}

}  // namespace

std::string_view suffix_of(EntryKind kind) { return kind_suffix[static_cast<size_t>(kind)]; }

std::string entry_name(const CacheKey& key) { return key.digest_hex() + std::string(suffix_of(key.kind())); }

void Cache::State::warn(const std::string& text) {
  {
    const std::lock_guard lock(mutex);
    if (warned.load()) return;
    warning = text;
    warned.store(true, std::memory_order_release);
  }
  if (options.on_warning) options.on_warning(text);
}

std::string Cache::State::why(const base::SystemError& error) const {
  const std::string folder = options.directory + "/" + error.path;
  if (error.call == "check owner") return fmt::format("{} belongs to another user", folder);
  if (error.call == "check mode")
    return fmt::format("{} may write to {} (chmod 700 closes it)", writers_of(folder), folder);
  if (error.call == "open" && (error.errno_value == ENOTDIR || error.errno_value == ELOOP))
    return fmt::format("{} is no folder", folder);
  return error.message();
}

void Cache::State::io_error(const base::SystemError& error) {
  ++io_errors;
  warn(fmt::format("the cache in {} does not work: {}; kernels are compiled but not kept", options.directory,
                   why(error)));
}

void Cache::State::lock_error(const KeyLock& lock) {
  if (lock.refused())
    warn(fmt::format("the cache in {} has no locks: {}; processes that need the same kernel at once compile it each",
                     options.directory, why(*lock.refused())));
}

base::Expected<base::FileDescriptor> Cache::State::folder_of(const std::string& name, bool make) const {
  const std::string folder = name.substr(0, 2);
  if (make) return base::make_private_directory_at(root, folder, *calls);
  return base::open_file_at(root, folder, O_RDONLY | O_DIRECTORY, 0, *calls);
}

Cache::Cache(std::unique_ptr<State> state) : state_(std::move(state)) {}
Cache::~Cache() = default;

std::shared_ptr<Cache> Cache::open(const CacheOptions& options) {
  auto state = std::make_unique<State>();
  state->options = options;
  state->calls = options.calls != nullptr ? options.calls : &base::SystemCalls::real();
  auto root =
      open_trusted_folder(options.directory, options.read_only ? FolderUse::Read : FolderUse::Write, *state->calls);
  if (root) {
    state->root = std::move(*root);
  } else {
    const base::SystemError& error = root.error();
    std::string why = error.message();
    if (error.call == "check owner") why = "the folder belongs to another user";
    struct stat info {};
    const bool link = ::lstat(options.directory.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
    if (link && (error.errno_value == ENOTDIR || error.errno_value == ELOOP))
      why = "it is a symbolic link; name the folder that it leads to";
    if (error.call == "check mode")
      why = writers_of(options.directory) + " may write to the folder (chmod 700 closes it)";
    state->warn(fmt::format("the cache in {} is not used: {}", options.directory, why));
  }
  return std::shared_ptr<Cache>(new Cache(std::move(state)));
}

std::shared_ptr<Cache> Cache::disabled(std::string reason) {
  auto state = std::make_unique<State>();
  state->calls = &base::SystemCalls::real();
  if (!reason.empty()) state->warn(reason);
  return std::shared_ptr<Cache>(new Cache(std::move(state)));
}

bool Cache::enabled() const { return state_->root.valid(); }

const std::string& Cache::warning() const {
  static const auto& none = base::kept(std::string());
  return state_->warned.load(std::memory_order_acquire) ? state_->warning : none;
}

const std::string& Cache::directory() const { return state_->options.directory; }

std::string Cache::path_of(const CacheKey& key) const {
  const std::string name = entry_name(key);
  return state_->options.directory + "/" + name.substr(0, 2) + "/" + name;
}

std::optional<CacheEntry> Cache::lookup(const CacheKey& key) {
  if (!enabled()) return std::nullopt;
  auto found = state_->find(key);
  ++(found ? state_->hits : state_->misses);
  return found;
}

std::optional<CacheEntry> Cache::State::find(const CacheKey& key) {
  return read(entry_name(key), key.kind(), [&](std::string_view text) { return text == key.text(); });
}

std::optional<CacheEntry> Cache::State::read(const std::string& name, EntryKind kind,
                                             const std::function<bool(std::string_view)>& wanted) {
  const auto miss = [&](const base::SystemError* error) -> std::optional<CacheEntry> {
    if (error != nullptr && error->errno_value != ENOENT) io_error(*error);
    return std::nullopt;
  };
  const auto folder = folder_of(name, false);
  if (!folder) return miss(&folder.error());
  const auto file = base::open_file_at(*folder, name, O_RDONLY, 0, *calls);
  if (!file && file.error().errno_value == ELOOP) {  // a link is never followed
    ++damaged;
    if (!options.read_only) (void)base::remove_file_at(*folder, name, *calls);
    return std::nullopt;
  }
  if (!file) return miss(&file.error());
  struct stat info {};
  if (calls->fstat(file->get(), &info) != 0) {
    const base::SystemError error{errno, "fstat", name};
    return miss(&error);
  }
  const auto drop = [&] {
    ++damaged;
    if (!options.read_only) remove_damaged(*folder, name, info, *calls);
    return miss(nullptr);
  };
  const bool trusted_owner = info.st_uid == ::geteuid() || (options.read_only && info.st_uid == 0);
  if (!S_ISREG(info.st_mode) || !trusted_owner || (info.st_mode & 022) != 0) return drop();
  if (info.st_nlink > 1 && !is_publication(*folder, info, *calls)) {
    // The publication may have ended between the two looks.
    if (calls->fstat(file->get(), &info) != 0 || info.st_nlink > 1) return drop();
  }
  if (info.st_size < 0 || static_cast<uint64_t>(info.st_size) > max_entry_bytes) return drop();
  const auto bytes = base::read_descriptor(*file, max_entry_bytes, *calls);
  if (!bytes) return miss(&bytes.error());
  const auto entry = decode_entry(*bytes);
  if (!entry) return drop();
  if (entry->kind != kind || !wanted(entry->key)) return miss(nullptr);  // another key of the same name

  if (!options.read_only && ::time(nullptr) - info.st_mtime > touch_interval_seconds) {
    (void)calls->futimens(file->get(), nullptr);
  }
  return CacheEntry{std::string(entry->metadata), std::string(entry->payload)};
}

void Cache::store(const CacheKey& key, const CacheEntry& entry) { publish(key, entry, base::Publish::KeepExisting); }
void Cache::replace(const CacheKey& key, const CacheEntry& entry) { publish(key, entry, base::Publish::Replace); }

void Cache::amend(const CacheKey& key, const std::function<CacheEntry(const std::optional<CacheEntry>&)>& change) {
  if (!enabled() || state_->options.read_only) return;
  const KeyLock lock(state_->root, entry_name(key), *state_->calls);
  state_->lock_error(lock);
  replace(key, change(state_->find(key)));
}

void Cache::publish(const CacheKey& key, const CacheEntry& entry, base::Publish how) {
  State& state = *state_;
  if (!enabled() || state.options.read_only) return;
  const std::string bytes = encode_entry(key, entry);
  // One that would push out all others, or that no reader would take, is not worth keeping.
  if (bytes.size() > max_entry_bytes || static_cast<int64_t>(bytes.size()) > state.options.capacity_bytes) return;
  const std::string name = entry_name(key);
  const auto folder = state.folder_of(name, true);
  if (!folder) return state.io_error(folder.error());
  state.sweep_leftovers(*folder, name.substr(0, 2));
  base::WriteOptions options;
  options.publish = how;
  options.mode = 0600;
  const auto published = base::write_file_atomically_at(*folder, name, bytes, options, *state.calls);
  if (!published) return state.io_error(published.error());
  if (!*published) return;  // another was first: as good as ours
  ++state.stored;
  if (state.account(static_cast<int64_t>(bytes.size()))) (void)state.scan_and_evict();
}

std::optional<std::string> Cache::keep_source(const std::string& name, std::string_view text) {
  State& state = *state_;
  if (!enabled() || !is_loose_file(name)) return std::nullopt;
  const std::string path = directory() + (directory().ends_with('/') ? "" : "/") + name;
  if (const auto there = base::open_file_at(state.root, name, O_RDONLY, 0, *state.calls)) {
    const auto known = base::read_descriptor(*there, max_entry_bytes, *state.calls);
    if (known && *known == text) {
      if (!state.options.read_only) (void)state.calls->futimens(there->get(), nullptr);
      return path;
    }
  }
  if (state.options.read_only) return std::nullopt;
  base::WriteOptions options;
  options.mode = 0600;
  options.sync = false;
  const auto written = base::write_file_atomically_at(state.root, name, text, options, *state.calls);
  if (!written) {
    state.io_error(written.error());
    return std::nullopt;
  }
  account_for(static_cast<int64_t>(text.size()));
  return path;
}

void Cache::account_for(int64_t bytes) {
  if (enabled() && !state_->options.read_only && state_->account(bytes)) (void)state_->scan_and_evict();
}

Result<CacheEntry> Cache::get_or_make(const CacheKey& key, const std::function<Result<CacheEntry>()>& make,
                                      bool* was_hit) {
  State& state = *state_;
  bool made_here = false;
  auto found = lookup(key);
  std::optional<Result<CacheEntry>> result;
  if (found) {
    result = std::move(*found);
  } else {
    auto outcome = state.making.run(entry_name(key), [&]() -> Result<CacheEntry> {
      std::optional<KeyLock> lock;
      if (enabled() && !state.options.read_only) {
        lock.emplace(state.root, entry_name(key), *state.calls);
        state.lock_error(*lock);
        if (auto meanwhile = state.find(key)) return std::move(*meanwhile);
      }
      made_here = true;
      auto made = make();
      if (made) store(key, *made);
      return made;
    });
    result = std::move(outcome.value);
  }
  if (was_hit != nullptr) *was_hit = !made_here;
  return std::move(*result);
}

}  // namespace codetta::toolchain

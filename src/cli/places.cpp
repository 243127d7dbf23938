// SPDX-License-Identifier: Apache-2.0
#include "cli/places.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "cli/interrupt.hpp"
#include "cli/options.hpp"
#include "cli/specs.hpp"

namespace codetta::cli {
namespace {

Error unwritable(const std::string& file, const std::string& reason) {
  Diagnostic diagnostic;
  diagnostic.code = 623;
  diagnostic.headline = "cannot write " + file;
  diagnostic.reason = reason;
  diagnostic.help = "check that the folder exists, is writable and has room; nothing was left behind";
  return Error(std::move(diagnostic));
}

Error interrupted_before(const std::string& file) {
  Diagnostic diagnostic;
  diagnostic.code = 510;
  diagnostic.headline = file + " is not written";
  diagnostic.reason = "the command was interrupted";
  diagnostic.help = "start it again when you want it";
  return Error(std::move(diagnostic));
}

// Where a file is written: beside `target` first, which it then replaces, or, into a pipe or a device, directly.
struct Place {
  bool replaced = true;
  std::string target;
  mode_t mode = 0666;  // who could not read or write the file before can't afterwards
};
// Where a link leads to that leads to no file yet; `file` itself where it is no link.
std::string behind_links(const std::string& file) {
  namespace fs = std::filesystem;
  constexpr int most = 40;  // as the system follows
  std::error_code failed;
  fs::path at = file;
  for (int link = 0; link < most && fs::is_symlink(fs::symlink_status(at, failed)); ++link) {
    const fs::path to = fs::read_symlink(at, failed);
    if (failed) break;
    at = at.parent_path() / to;  // `to` alone where it is absolute
  }
  return at.string();
}

// Looks at what is there, as far as that can be told before writing. Errors: E0623.
Result<Place> place_of(const std::string& file) {
  using std::filesystem::file_type;
  std::error_code failed;
  const file_type kind = std::filesystem::status(file, failed).type();  // of what a link leads to
  if (kind == file_type::directory) return unwritable(file, "it is a folder");
  // Links in a circle, a name that is too long, a folder that may not be entered.
  if (kind == file_type::none) return unwritable(file, failed.message());
  Place place{true, file};
  if (kind == file_type::not_found) place.target = behind_links(file);
  if (kind != file_type::regular && kind != file_type::not_found) place.replaced = false;
  if (kind == file_type::regular) {
    if (::access(file.c_str(), W_OK) != 0) return unwritable(file, std::strerror(errno));
    // The file behind a link is replaced, not the link.
    if (const auto real = std::filesystem::canonical(file, failed); !failed) place.target = real.string();
    place.mode &= static_cast<mode_t>(std::filesystem::status(file, failed).permissions());
  }
  if (!place.replaced) return place;
  std::string folder = std::filesystem::path(place.target).parent_path().string();
  if (folder.empty()) folder = ".";
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return unwritable(file, folder + ": " + std::strerror(errno));
  return place;
}

// Files that appear together or not at all: each is written beside its place, and all are moved once all are there.
// What is no file (a device, a pipe) is written to where it is, before any file is moved.
class FileSet {
 public:
  using Write = std::function<Result<void>(const std::string& place)>;

  FileSet() = default;
  FileSet(const FileSet&) = delete;
  FileSet& operator=(const FileSet&) = delete;
  ~FileSet() {
    std::error_code ignored;
    for (const Part& part : parts_) std::filesystem::remove(part.path, ignored);
  }

  Result<void> add(const std::string& file, Write write) {
    if (given_up()) return interrupted_before(file);
    auto place = place_of(file);
    if (!place) return std::move(place).error();
    if (!place->replaced) {
      others_.emplace_back(file, std::move(write));
      return {};
    }
    const Patience patience;  // what is written goes again only where the write comes back
    auto made = make_part(*place);
    if (!made) return unwritable(file, std::strerror(errno));
    const std::string part = *std::move(made);
    parts_.push_back({part, std::move(place->target), file, RemovedWhenEnded(part)});
    auto written = write(part);
    if (written) return {};
    Diagnostic diagnostic = written.error().diagnostics().front();
    for (std::string* text : {&diagnostic.headline, &diagnostic.reason, &diagnostic.where.file}) {
      const size_t at = text->find(part);
      if (at != std::string::npos) text->replace(at, part.size(), file);
    }
    return Error(std::move(diagnostic));
  }

  Result<void> publish() {
    for (const auto& [place, write] : others_) {
      if (auto written = write(place); !written) return written;
    }
    if (given_up() && !parts_.empty()) return interrupted_before(parts_.front().file);
    const Patience patience;  // all of them appear, or none
    for (const Part& part : parts_) {
      std::error_code failed;
      std::filesystem::rename(part.path, part.target, failed);
      if (failed) return unwritable(part.file, failed.message());
    }
    parts_.clear();
    return {};
  }

 private:
  // An empty file beside the place, which nobody else has and whose name is no longer than names may be; nullopt with
  // errno.
  static std::optional<std::string> make_part(const Place& place) {
    const std::filesystem::path target(place.target);
    for (int attempt = 0;; ++attempt) {
      const std::string name = target.filename().string().substr(0, 64) + ".part-" + std::to_string(::getpid()) + "-" +
                               std::to_string(attempt);
      const std::string part = (target.parent_path() / name).string();
      const int made = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, place.mode);
      if (made >= 0) return ::close(made), part;
      if (errno != EEXIST || attempt == 1000) return std::nullopt;
    }
  }

  struct Part {
    std::string path, target, file;  // where it is written, where it goes, what it was called
    RemovedWhenEnded gone;
  };
  std::vector<Part> parts_;
  std::vector<std::pair<std::string, Write>> others_;
};

}  // namespace

namespace {

// One spelling for a file, whether it is there or not: "D.npy" of "./D.npy" and of links to it.
std::string spelled(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path whole =
      std::filesystem::weakly_canonical(std::filesystem::absolute(behind_links(path), failed), failed);
  return failed ? path : whole.string();
}

}  // namespace

Result<void> check_formats(const std::vector<std::pair<std::string, std::string>>& outputs) {
  for (const auto& [output, file] : outputs) {
    if (!archive_of(file).first.empty()) continue;
    const std::filesystem::path name = std::filesystem::path(file).filename();
    if (!name.has_extension() || name.extension() == ".npy") continue;
    const std::string stem = std::filesystem::path(file).replace_extension().string();
    return usage_error("no tensor is written as " + name.extension().string(), "--out gives " + file + " for " + output,
                       "write --out " + output + "=" + stem + ".npy or " + stem + ".safetensors");
  }
  return {};
}

namespace {

std::string file_of(const std::string& place) {
  const std::string path = archive_of(place).first;
  return path.empty() ? typed_file(place).first : path;
}

// Nothing is lost in a pipe or a device, such as /dev/stdout, and outputs follow each other there.
bool is_replaced(const std::string& path) {
  std::error_code failed;
  const auto status = std::filesystem::status(path, failed);
  return !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
}

}  // namespace

Result<void> check_overwrites(const Places& places) {
  struct Output {
    std::string name, given, path, entry;  // entry: of an archive
  };
  std::vector<Output> all;
  for (const auto& [output, file] : places.tensors) {
    const auto [path, name] = archive_of(file);
    all.push_back({output, file, path.empty() ? file : path, path.empty() ? "" : name.empty() ? output : name});
  }
  for (const auto& [output, file] : places.files) all.push_back({output, file, file, ""});
  std::erase_if(all, [](const Output& output) { return !is_replaced(output.path); });
  for (const auto& [output, given, path, entry] : all) {
    for (const std::string& input : places.inputs) {
      std::error_code absent;
      if (places.force || !std::filesystem::equivalent(path, file_of(input), absent) || absent) continue;
      return usage_error(output + " would overwrite " + input, input + " is read by this command",
                         places.takes_force ? "give another file, or say --force" : "give another file");
    }
  }
  std::map<std::string, std::vector<const Output*>> taken;  // by file
  for (const Output& output : all) {
    std::vector<const Output*>& there = taken[spelled(output.path)];
    for (const Output* other : there) {
      const bool entries = !other->entry.empty() && !output.entry.empty();
      if (entries && other->entry != output.entry) continue;
      return usage_error(
          other->name + " and " + output.name + " would be written to the same place", "both go to " + output.given,
          entries ? "give each a name of its own: FILE.safetensors:NAME" : "give each a file of its own");
    }
    there.push_back(&output);
  }
  return {};
}

Result<void> check_places(const Places& places) {
  if (auto ok = check_overwrites(places); !ok) return ok;
  for (const Places::Items* items : {&places.tensors, &places.files}) {
    for (const auto& [output, file] : *items) {
      if (auto place = place_of(items == &places.files ? file : file_of(file)); !place) return std::move(place).error();
    }
  }
  return {};
}

WriteGuard guard_of(Places places) {
  const auto patience = std::make_shared<std::optional<Patience>>();
  return [places = std::move(places), patience](const Places::Items& files, bool next) mutable -> Result<void> {
    places.files = files;
    if (auto ok = check_overwrites(places); !ok || !next) return ok;
    if (given_up()) return interrupted_before(files.front().second);
    patience->emplace();
    return {};
  };
}

Result<void> write_tensors(const std::vector<OutputFile>& outputs) {
  std::vector<std::pair<std::string, std::vector<std::pair<std::string, TensorView>>>> archives;
  FileSet files;
  for (const OutputFile& output : outputs) {
    const auto [path, name] = archive_of(output.file);
    if (path.empty()) {
      auto written = files.add(output.file, [&](const std::string& part) { return write_npy(part, output.view); });
      if (!written) return written;
      continue;
    }
    size_t at = 0;
    while (at < archives.size() && spelled(archives[at].first) != spelled(path)) ++at;
    if (at == archives.size()) archives.push_back({path, {}});
    archives[at].second.emplace_back(name.empty() ? output.name : name, output.view);
  }
  for (const auto& [path, tensors] : archives) {
    auto written = files.add(path, [&](const std::string& part) { return write_safetensors(part, tensors); });
    if (!written) return written;
  }
  return files.publish();
}

Result<MadeFolder> MadeFolder::make(const std::string& folder) {
  namespace fs = std::filesystem;
  MadeFolder made;
  std::error_code failed;
  for (fs::path part = fs::path(folder).lexically_normal(); !part.empty() && !fs::exists(part, failed);
       part = part.parent_path())
    made.made_.push_back(part.string());
  fs::create_directories(folder, failed);
  if (failed) return unwritable(folder, failed.message());
  return made;
}

MadeFolder::~MadeFolder() {
  for (const std::string& folder : made_) ::rmdir(folder.c_str());  // one that holds something stays
}

Result<void> write_text(const std::string& file, const std::string& text) {
  FileSet files;
  auto written = files.add(file, [&](const std::string& part) -> Result<void> {
    std::ofstream out(part, std::ios::binary);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    out.close();
    if (out) return {};
    return unwritable(part, std::strerror(errno));
  });
  if (!written) return written;
  return files.publish();
}

}  // namespace codetta::cli

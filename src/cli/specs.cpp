// SPDX-License-Identifier: Apache-2.0
// Values of options that name data.
#include "cli/specs.hpp"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "cli/options.hpp"

namespace codetta::cli {
namespace {

constexpr std::string_view archive = ".safetensors";

// "x.safetensors:w" -> ("x.safetensors", "w"); ("", "") for any other file.
std::pair<std::string, std::string> archive_of(const std::string& file) {
  const size_t mark = file.rfind(archive);
  if (mark == std::string::npos) return {};
  const size_t end = mark + archive.size();
  if (end == file.size()) return {file, ""};
  if (file[end] != ':') return {};
  return {file.substr(0, end), file.substr(end + 1)};
}

Error form_error(const std::string& item, size_t at, std::string headline, const std::string& option) {
  Diagnostic diagnostic;
  diagnostic.code = 701;
  diagnostic.headline = std::move(headline);
  diagnostic.where = {
      .file = option, .line = 1, .column = static_cast<uint32_t>(at + 1), .length = 1, .line_text = item};
  diagnostic.help = "write [sizes]:type, such as [M,N]:f32 or [4,8]:bf16";
  return Error(std::move(diagnostic));
}

}  // namespace

Result<Form> parse_form(const std::string& item, size_t at, const std::string& option) {
  const size_t close = item.find(']', at);
  if (close == std::string::npos) {
    const size_t colon = item.find(':', at);
    return form_error(item, colon == std::string::npos ? item.size() : colon, "the shape has no closing ']'", option);
  }
  Form form;
  form.shape = item.substr(at + 1, close - at - 1);
  for (size_t term = at + 1; term < close;) {
    const size_t end = std::min(item.find(',', term), close);
    if (item.find_first_not_of(' ', term) >= end) return form_error(item, term, "a size is missing", option);
    if (end + 1 == close) return form_error(item, close, "a size is missing", option);
    term = end + 1;
  }
  if (close + 1 == item.size()) return form;
  if (item[close + 1] != ':') return form_error(item, close + 1, "a ':' and a type were expected here", option);
  const size_t type = close + 2, colon = item.find(':', type);
  form.dtype = item.substr(type, colon == std::string::npos ? colon : colon - type);
  if (form.dtype.empty()) return form_error(item, type, "the type is missing", option);
  if (colon == std::string::npos) return form;
  form.data = item.substr(colon + 1);
  if (form.data != "normal" && form.data != "positive" && form.data != "tiny")
    return form_error(item, colon + 1, "the data is none of normal, positive and tiny", option);
  return form;
}

namespace {

Error unwritable(const std::string& file, const std::string& reason) {
  Diagnostic diagnostic;
  diagnostic.code = 623;
  diagnostic.headline = "cannot write " + file;
  diagnostic.reason = reason;
  diagnostic.help = "check that the folder exists, is writable and has room; nothing was left behind";
  return Error(std::move(diagnostic));
}

// Where a file is written: beside `target` first, which it then replaces, or, into a pipe or a device, directly.
struct Place {
  bool replaced = true;
  std::string target;
};
// Looks at what is there, as far as that can be told before writing. Errors: E0623.
Result<Place> place_of(const std::string& file) {
  using std::filesystem::file_type;
  std::error_code failed;
  const file_type kind = std::filesystem::status(file, failed).type();  // of what a link leads to
  if (kind == file_type::directory) return unwritable(file, "it is a folder");
  Place place{true, file};
  if (kind != file_type::regular && kind != file_type::not_found && kind != file_type::none) place.replaced = false;
  if (kind == file_type::regular) {
    if (::access(file.c_str(), W_OK) != 0) return unwritable(file, std::strerror(errno));
    // The file behind a link is replaced, not the link.
    if (const auto real = std::filesystem::canonical(file, failed); !failed) place.target = real.string();
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
    auto place = place_of(file);
    if (!place) return std::move(place).error();
    if (!place->replaced) {
      others_.emplace_back(file, std::move(write));
      return {};
    }
    const std::string target = std::move(place->target);
    const std::string part = target + ".part-" + std::to_string(getpid()) + "-" + std::to_string(parts_.size());
    parts_.push_back({part, target, file});
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
    for (const Part& part : parts_) {
      std::error_code failed, ignored;
      // Who could not read the file before can't now.
      if (const auto old = std::filesystem::status(part.target, ignored); std::filesystem::exists(old)) {
        const auto mode = std::filesystem::status(part.path, ignored).permissions() & old.permissions();
        std::filesystem::permissions(part.path, mode, ignored);
      }
      std::filesystem::rename(part.path, part.target, failed);
      if (failed) return unwritable(part.file, failed.message());
    }
    parts_.clear();
    return {};
  }

 private:
  struct Part {
    std::string path, target, file;  // where it is written, where it goes, what it was called
  };
  std::vector<Part> parts_;
  std::vector<std::pair<std::string, Write>> others_;
};

}  // namespace

Result<std::pair<std::string, std::string>> split_item(const std::string& item, const std::string& option) {
  const size_t equals = item.find('=');
  std::string name = item.substr(0, equals), value = equals == std::string::npos ? "" : item.substr(equals + 1);
  if (!name.empty() && !value.empty()) return std::pair(std::move(name), std::move(value));
  const std::string what = option == "--scalar" ? "number" : "file or shape";
  const std::string shown = name.empty() ? option == "--scalar" ? "a" : option == "--out" ? "D" : "C" : name;
  return usage_error(name.empty() ? "'" + item + "' names nothing" : "no " + what + " is given for " + name,
                     "given to " + option,
                     "write " + option + " " + shown + "=" + (option == "--scalar" ? "0.5" : shown + ".npy"));
}

Result<std::pair<std::string, int64_t>> parse_size(const std::string& item, const std::string& option) {
  const size_t equals = item.find('=');
  int64_t value = -1;
  if (equals != std::string::npos && equals > 0) {
    const char* const end = item.data() + item.size();
    const auto [stop, failed] = std::from_chars(item.data() + equals + 1, end, value);
    if (stop != end || failed != std::errc()) value = -1;
  }
  if (value >= 0) return std::pair(item.substr(0, equals), value);
  return usage_error("'" + item + "' gives no size", "given to " + option, "write " + option + " batch=8");
}

Result<ArgumentValue> parse_scalar(const std::string& name, const std::string& text) {
  if (text == "true" || text == "True") return ArgumentValue(true);
  if (text == "false" || text == "False") return ArgumentValue(false);
  // A leading '+' is a number's in every language but that of from_chars.
  const size_t sign = text.size() > 1 && text[0] == '+' && text[1] != '-' ? 1 : 0;
  const char *const first = text.data() + sign, *const last = text.data() + text.size();
  int64_t integer = 0;
  if (const auto [end, error] = std::from_chars(first, last, integer); error == std::errc() && end == last)
    return ArgumentValue(integer);
  double value = 0;
  const auto [end, error] = std::from_chars(first, last, value);
  if (error == std::errc::result_out_of_range && end == last) {
    value = std::strtod(std::string(first, last).c_str(), nullptr);  // too small is 0, as in a text
    if (std::isinf(value))
      return usage_error("'" + text + "' does not fit", "the largest number is 1.7976931348623157e308",
                         "pass " + name + (value < 0 ? "=-inf for minus infinity" : "=inf for infinity"));
  } else if (error != std::errc() || end != last) {
    return usage_error("'" + text + "' is not a number", "given for the scalar " + name,
                       "pass a number such as " + name + "=0.5, or true, false");
  }
  return ArgumentValue(value);
}

Result<Tensor> read_tensor(const std::string& file) {
  const auto [path, name] = archive_of(file);
  if (path.empty()) return read_npy(file);
  auto tensors = read_safetensors(path);
  if (!tensors) return std::move(tensors).error();
  if (name.empty() && tensors->size() == 1) return std::move(tensors->front().second);
  std::string names;
  for (auto& [known, tensor] : *tensors) {
    if (known == name) return std::move(tensor);
    names += (names.empty() ? "" : ", ") + known;
  }
  return usage_error(name.empty() ? "which tensor of " + path + " is meant?" : path + " has no tensor '" + name + "'",
                     "it holds " + (names.empty() ? "none" : names), "write " + path + ":NAME");
}

namespace {

// One spelling for a file, whether it is there or not: "D.npy" of "./D.npy" and of links to it.
std::string spelled(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path whole =
      std::filesystem::weakly_canonical(std::filesystem::absolute(path, failed), failed);
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
  return path.empty() ? place : path;
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
      return usage_error(output + " would overwrite " + input, "which is read by this command",
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

Result<void> make_folder(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) return unwritable(folder, failed.message());
  return {};
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

// SPDX-License-Identifier: Apache-2.0
#include "cli/repro.hpp"

#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>

namespace codetta::cli {
namespace {

namespace fs = std::filesystem;

bool write(const fs::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  return static_cast<bool>(out);
}

std::string keep(const Repro& repro, const fs::path& parent) {
  std::error_code failed;
  char when[32] = "";
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  if (gmtime_r(&now, &utc) != nullptr) std::strftime(when, sizeof when, "%Y%m%d-%H%M%S", &utc);
  const fs::path folder = parent / ("repro-" + std::string(when) + "-" + std::to_string(getpid()));
  if (!fs::create_directory(folder, failed) || failed) return {};
  fs::permissions(folder, fs::perms::owner_all, failed);
  std::string command;
  for (const std::string& argument : repro.command) command += (command.empty() ? "" : " ") + shell_word(argument);
  bool whole = write(folder / "command.txt", command + "\n") && write(folder / "message.txt", repro.message);
  whole = whole &&
          write(folder / "version.txt", std::string("codetta ") + version() + "\n" + Target::host().to_string() + "\n");
  if (!repro.text.empty()) {
    if (const auto source = read_source(repro.text, TextOf::Epilogue))
      whole = whole && write(folder / "epilogue.py", source->text);
  }
  if (whole) return folder.string();
  fs::remove_all(folder, failed);
  return {};
}

}  // namespace

std::string keep_repro(const Repro& repro) noexcept {
  try {
    std::string kept;
    if (!repro.folder.empty()) kept = keep(repro, repro.folder);
    std::error_code failed;
    if (kept.empty()) kept = keep(repro, fs::temp_directory_path(failed));
    return kept;
  } catch (...) {
    return {};
  }
}

}  // namespace codetta::cli

// SPDX-License-Identifier: Apache-2.0
// The memo of a probe: lines of text, the last of which is the digest of the others.
#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "base/text.hpp"
#include "toolchain/folder.hpp"
#include "toolchain/probe.hpp"

namespace codetta::toolchain {

namespace {

constexpr std::string_view heading = "codetta compiler memo 2";
constexpr size_t max_memo_bytes = size_t{1} << 16;

std::string memo_name(const std::string& path) { return "compiler-" + base::digest_of(path).hex() + ".memo"; }

bool one_line(std::string_view text) { return text.find('\n') == std::string_view::npos; }

template <class T>
bool take_number(std::string_view& line, T& number) {
  const auto [end, failed] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (failed != std::errc{} || end == line.data() + line.size() || *end != ' ') return false;
  line.remove_prefix(static_cast<size_t>(end - line.data()) + 1);
  return true;
}

std::optional<Probe> parse(std::string_view text, const std::string& path) {
  const size_t last = text.rfind("\ncheck ");
  if (last == std::string_view::npos) return std::nullopt;
  const std::string_view content = text.substr(0, last + 1);
  if (text.substr(last + 1) != "check " + base::digest_of(content).hex() + "\n") return std::nullopt;
  const auto lines = base::split(content.substr(0, content.size() - 1), '\n');
  if (lines.size() < 9 || lines[0] != heading || lines[1] != path) return std::nullopt;

  Probe probe;
  HostCompiler& compiler = probe.compiler;
  compiler.path = path;
  std::string_view numbers = lines[2];
  int kind = 0;
  if (!take_number(numbers, kind) || !take_number(numbers, compiler.major)) return std::nullopt;
  compiler.kind = kind == 0 ? CompilerKind::Gcc : CompilerKind::Clang;
  probe.architecture = lines[3];
  compiler.linker = lines[4];
  compiler.runtime = lines[5];
  compiler.version = lines[6];
  compiler.identity = lines[7];
  for (size_t i = 8; i < lines.size(); ++i) {
    std::string_view line = lines[i];
    FileStamp stamp;
    if (!take_number(line, stamp.size) || !take_number(line, stamp.modified_ns) || !take_number(line, stamp.inode)) {
      return std::nullopt;
    }
    stamp.path = line;
    probe.files.push_back(std::move(stamp));
  }
  return probe;
}

}  // namespace

std::optional<Probe> recall_probe(const std::string& memo_dir, const std::string& path) {
  if (memo_dir.empty()) return std::nullopt;
  const auto folder = open_trusted_folder(memo_dir, FolderUse::Read);
  if (!folder) return std::nullopt;
  const auto text = base::read_file_at(*folder, memo_name(path), max_memo_bytes);
  if (!text) return std::nullopt;
  auto probe = parse(*text, path);
  if (!probe) return std::nullopt;
  for (const FileStamp& known : probe->files) {
    if (stamp_of(known.path) != known) return std::nullopt;
  }
  for (const std::string* tool : {&probe->compiler.linker, &probe->compiler.runtime}) {
    if (!tool->empty() && !stamp_of(*tool)) return std::nullopt;
  }
  return probe;
}

void remember_probe(const std::string& memo_dir, const Probe& probe) {
  const HostCompiler& compiler = probe.compiler;
  if (memo_dir.empty() || !one_line(compiler.path) || !one_line(compiler.linker) || !one_line(compiler.runtime)) {
    return;
  }
  std::string text = fmt::format("{}\n{}\n{} {} \n{}\n{}\n{}\n{}\n{}\n", heading, compiler.path,
                                 static_cast<int>(compiler.kind), compiler.major, probe.architecture, compiler.linker,
                                 compiler.runtime, compiler.version, compiler.identity);
  for (const FileStamp& file : probe.files) {
    if (!one_line(file.path)) return;
    text += fmt::format("{} {} {} {}\n", file.size, file.modified_ns, file.inode, file.path);
  }
  text += "check " + base::digest_of(text).hex() + "\n";
  const auto folder = open_trusted_folder(memo_dir, FolderUse::Write);
  if (!folder) return;
  base::WriteOptions options;
  options.mode = 0600;
  options.sync = false;  // the digest finds a torn one
  (void)base::write_file_atomically_at(*folder, memo_name(compiler.path), text, options);
}

}  // namespace codetta::toolchain

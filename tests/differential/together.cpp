// SPDX-License-Identifier: Apache-2.0
#include "differential/together.hpp"

#include <algorithm>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "emit/emit.hpp"

namespace codetta::test {
namespace {

constexpr size_t most_kept = 6000;    // kernels; about 100 MB of objects
constexpr double patience_s = 600.0;  // hundreds of kernels on a machine that has other work on every core

base::Digest128 digest_of(const std::string& source, const std::vector<std::string>& flags) {
  base::Hasher hasher;
  hasher.add(source);
  for (const std::string& flag : flags) hasher.add(flag);
  return hasher.digest();
}

template <class Work>
void each_line(const std::string& text, const Work& work) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) work(line);
}

// A kernel's text under the names that it has in the library, its namespaces and macros kept from the others'.
std::string apart(const driver::KernelUnit& unit, size_t number) {
  std::set<std::string> macros{unit.entry, std::string(emit::entry_digest_symbol)};
  each_line(unit.source, [&](const std::string& line) {
    constexpr std::string_view define = "#define ";
    if (!line.starts_with(define)) return;
    const size_t end = line.find_first_of(" (", define.size());
    macros.insert(line.substr(define.size(), end == std::string::npos ? end : end - define.size()));
  });
  std::string text = fmt::format("#define {} {}\n#define {} {}_digest\nnamespace kernel_{} {{\n{}}}\n", unit.entry,
                                 unit.function, emit::entry_digest_symbol, unit.function, number, unit.source);
  for (const std::string& macro : macros) text += "#undef " + macro + "\n";
  return text;
}

}  // namespace

std::string host_texts_together(std::span<const toolchain::CompileJob> units,
                                std::span<const toolchain::LibraryFile> files) {
  std::set<std::string> includes;
  // What a text calls of another one, `int call_1(`, is one function in all namespaces.
  const std::regex shared("^(int|i64) (call|tensors|workspace_size)_[0-9]+\\(");
  struct Group {
    std::string header;  // of a program's own, which its files share; "" where it has one file
    std::string text;
  };
  std::vector<Group> groups;
  const auto add = [&](Group& group, const std::string& text) {
    // The engine's headers are read once, in front; here their includes say nothing any more.
    each_line(text, [&](const std::string& line) {
      if (line.starts_with("#pragma once")) return;
      if (line.starts_with("#include ")) {
        if (group.header.empty() || line != group.header) includes.insert(line);
        return;
      }
      group.text += (std::regex_search(line, shared) ? "extern \"C\" " : "") + line + "\n";
    });
  };
  for (const toolchain::CompileJob& unit : units) {
    Group one;
    const toolchain::LibraryFile* own = nullptr;
    each_line(unit.source, [&](const std::string& line) {
      for (const toolchain::LibraryFile& file : files) {
        if (file.path.starts_with("device/") || line != "#include \"" + file.path + "\"") continue;
        one.header = line;
        own = &file;
      }
    });
    const auto known = std::find_if(groups.begin(), groups.end(),
                                    [&](const Group& group) { return own != nullptr && group.header == one.header; });
    if (known != groups.end()) {
      add(*known, unit.source);
      continue;
    }
    if (own != nullptr) add(one, own->bytes);
    add(one, unit.source);
    groups.push_back(std::move(one));
  }
  std::string all;
  for (const std::string& include : includes) all += include + "\n";
  for (size_t i = 0; i < groups.size(); ++i) {
    all += fmt::format(
        "namespace text_{} {{\nnamespace codetta {{\nusing namespace ::codetta;\nnamespace host {{\nusing namespace "
        "::codetta::host;\n}}\n}}\n{}}}\n",
        i, groups[i].text);
  }
  return all;
}

bool is_unfinished(std::string_view account) {
  // What is said of a compiler that was killed, and by compilers of what they have started. Times have a code.
  constexpr std::string_view ends[] = {"signal 9", "Killed signal"};
  const auto says = [&](std::string_view text) { return account.find(text) != std::string_view::npos; };
  const auto has = [&](diag::Code code) {
    return says(fmt::format("error[{}]", diag::code_text(static_cast<uint16_t>(code))));
  };
  return has(diag::Code::compile_timeout) || has(diag::Code::compile_folder) ||
         std::any_of(std::begin(ends), std::end(ends), says);
}

bool is_unfinished(const base::ProcessResult& result) {
  constexpr int kill_signal = 9;
  return result.end == base::ProcessEnd::TimedOut ||
         (result.end == base::ProcessEnd::Signaled && result.signal == kill_signal);
}

std::string SharedKernels::compile(const std::vector<driver::KernelUnit>& units,
                                   const toolchain::HostCompiler& compiler) {
  if (!folder_) {
    auto folder = base::TemporaryDirectory::make("/tmp", "codetta-kernels-");
    if (!folder) return "there is no temporary folder";
    folder_ = *std::move(folder);
  }
  // A library finds a kernel by its name, so one name is one text.
  const bool clash = std::any_of(units.begin(), units.end(), [&](const driver::KernelUnit& unit) {
    const auto known = functions_.find(unit.function);
    return known != functions_.end() && known->second != digest_of(unit.source, unit.gcc_flags);
  });
  if (clash || known_.size() > most_kept) forget();
  std::map<std::vector<std::string>, std::vector<Unit>> groups;
  for (const driver::KernelUnit& unit : units) {
    if (!functions_.contains(unit.function)) groups[unit.gcc_flags].push_back(&unit);
  }
  for (const auto& [flags, group] : groups) {
    if (std::string failure = compile_group(group, compiler); !failure.empty()) return failure;
  }
  return {};
}

std::string SharedKernels::compile_group(const std::vector<Unit>& group, const toolchain::HostCompiler& compiler) {
  std::string text;
  for (size_t i = 0; i < group.size(); ++i) text += apart(*group[i], i);
  toolchain::CompileOptions options;
  options.timeout_seconds = patience_s;
  const auto output =
      toolchain::compile(compiler, {std::move(text), group.front()->gcc_flags, "kernels of programs"}, options);
  if (!output) return output.error().render();
  const std::string path = fmt::format("{}/kernels_{}.so", folder_->path(), made_++);
  base::WriteOptions how;
  how.sync = false;
  if (const auto written = base::write_file_atomically(path, output->object, how); !written)
    return written.error().message();
  const auto module = runtime::cpu::Module::load(output->object, group.front()->function + "_digest",
                                                 std::string(emit::entry_digest_placeholder));
  if (!module) return module.error().render();
  for (const Unit unit : group) {
    const base::Digest128 digest = digest_of(unit->source, unit->gcc_flags);
    known_.emplace(digest, SharedKernel{unit->function, path, *module});
    functions_.emplace(unit->function, digest);
  }
  return {};
}

void SharedKernels::forget() {
  known_.clear();
  functions_.clear();
}

const SharedKernel* SharedKernels::find(const std::string& source, const std::vector<std::string>& flags) const {
  const auto known = known_.find(digest_of(source, flags));
  return known == known_.end() ? nullptr : &known->second;
}

std::vector<std::string> SharedKernels::objects(const std::vector<driver::KernelUnit>& units) const {
  std::set<std::string> paths;
  for (const driver::KernelUnit& unit : units) {
    if (const SharedKernel* known = find(unit.source, unit.gcc_flags)) paths.insert(known->path);
  }
  return {paths.begin(), paths.end()};
}

}  // namespace codetta::test

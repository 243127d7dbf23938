// SPDX-License-Identifier: Apache-2.0
// The gate of Metal kernels, without a Mac: Clang takes every kernel as C++ against our stub of Metal's headers, with
// device, constant and threadgroup memory as address spaces of their own and without them, and the text has nothing
// that Metal's language lacks. Usage:
//   metal_compile [--slice COMMIT] [--count N] [--part I/N] [--only TEXT] [--list] [--write FOLDER]
// Without --slice all are compiled; with it half of the golden cases and N others, which the text picks. --only: those
// whose label contains TEXT. --part: one of N parts, from 1 on. --write: their texts, as unit<N>.metal. Exit 77: there
// is no clang++.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>
#include <regex>
#include <string>

#include "base/files.hpp"
#include "base/process.hpp"
#include "compile_gate/choice.hpp"
#include "unit.hpp"

namespace codetta::metal_compile {
namespace {

// What Metal's language lacks and C++ has: looked for in what is left after preprocessing, so that neither comments nor
// lines for other machines count.
std::string foreign_word(const std::string& preprocessed) {
  static const std::regex words(
      R"(\[[=&]\]|\bdouble\b|\blong long\b|\b\d+u?ll\b|\bstruct \w+ : |\bvirtual\b|\bnoexcept\b|\bgoto\b|\bthread_local\b|\bdynamic_cast\b)");
  // The stub's own lines are not Metal's.
  bool ours = false;
  size_t at = 0;
  while (at < preprocessed.size()) {
    const size_t end = preprocessed.find('\n', at);
    const std::string line = preprocessed.substr(at, end - at);
    at = end == std::string::npos ? preprocessed.size() : end + 1;
    if (line.starts_with("# ")) {
      ours = line.find("metal_stub") == std::string::npos && line.find('<') == std::string::npos;
    } else if (std::smatch match; ours && std::regex_search(line, match, words)) {
      return match.str() + " in: " + line;
    }
  }
  return {};
}

int run(const compile_gate::Choice& choice, const std::string& folder) {
  std::string problem;
  std::vector<Unit> all = all_units(problem);
  if (!problem.empty()) {
    std::printf("cannot emit %s\n", problem.c_str());
    return 1;
  }
  const size_t total = all.size();
  const std::vector<Unit> units = compile_gate::chosen(std::move(all), choice, 2);
  if (choice.list) {
    for (const Unit& unit : units) std::printf("%s\n", unit.label.c_str());
    return 0;
  }
  std::optional<std::string> compiler;
  for (const char* name : {"clang++-19", "clang++-20", "clang++"}) {
    if (!compiler) compiler = base::find_executable(name, "/usr/local/bin:/usr/bin:/bin");
  }
  if (!compiler) {
    std::printf("no clang++\n");
    return 77;
  }
  const auto temporary = base::TemporaryDirectory::make("/tmp", "codetta-metal-");
  if (!temporary) return 1;
  std::printf("%zu of %zu kernels, %s\n", units.size(), total, compiler->c_str());
  const auto compile = [&](const std::string& file, std::vector<std::string> more) {
    base::ProcessRequest request;
    request.program = *compiler;
    request.arguments = {"-x",
                         "c++",
                         "-std=c++14",
                         "-D__METAL_VERSION__=310",
                         "-I" CODETTA_SOURCE_DIR "/tests/metal_stub",
                         "-Wall",
                         "-Wextra",
                         "-Werror",
                         "-Wno-c++17-extensions",
                         "-Wno-unknown-attributes",
                         "-Wno-unused-function",
                         "-Wno-unused-const-variable"};
    for (std::string& one : more) request.arguments.push_back(std::move(one));
    request.arguments.push_back(file);
    request.environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"};
    request.max_output_bytes = size_t{16} << 20;
    request.timeout = std::chrono::seconds(120);
    return base::run_process(request);
  };
  size_t failed = 0;
  double seconds = 0;
  for (const Unit& unit : host_units(problem)) {
    if (unit.label.find(choice.only) == std::string::npos) continue;
    const bool header = unit.label.ends_with(".h");
    const std::string file = temporary->path() + (header ? "/host.h" : "/host.mm");
    std::ofstream(file, std::ios::binary) << unit.source;
    if (!folder.empty()) std::ofstream(folder + (header ? "/host.h" : "/host.mm"), std::ios::binary) << unit.source;
    base::ProcessRequest request;
    request.program = *compiler;
    request.arguments = {"-x",
                         header ? "c" : "objective-c++",
                         header ? "-std=c11" : "-std=c++20",
                         "-fsyntax-only",
                         "-Wall",
                         "-Wextra",
                         "-Werror",
                         "-Wno-unused-function",
                         "-Wno-unused-const-variable",
                         "-I" CODETTA_SOURCE_DIR "/tests/metal_stub"};
    if (!header) {
      for (const char* flag : {"-fobjc-arc", "-fobjc-runtime=macosx-13", "-fblocks"})
        request.arguments.emplace_back(flag);
    } else {
      request.arguments.emplace_back("-Wno-pragma-once-outside-header");
    }
    request.arguments.push_back(file);
    request.environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"};
    request.timeout = std::chrono::seconds(120);
    const auto done = base::run_process(request);
    if (done && done->success() && done->errors.empty()) continue;
    ++failed;
    std::printf("FAILED %s\n%s\n", unit.label.c_str(), done ? done->errors.substr(0, 4000).c_str() : "not started");
  }
  if (!problem.empty()) {
    std::printf("cannot emit %s\n", problem.c_str());
    return 1;
  }
  for (size_t i = 0; i < units.size(); ++i) {
    const std::string file = temporary->path() + "/unit.metal";
    std::ofstream(file, std::ios::binary) << units[i].source;
    if (!folder.empty())
      std::ofstream(folder + "/unit" + std::to_string(i) + ".metal", std::ios::binary) << units[i].source;
    std::string why;
    const auto judge = [&](const auto& done) {
      if (!done) {
        why = "clang++ was not started";
      } else {
        seconds += done->seconds;
        if (!done->success() || !done->errors.empty()) why = done->summary() + "\n" + done->errors.substr(0, 4000);
      }
      return why.empty();
    };
    if (judge(compile(file, {"-fsyntax-only", "-DCODETTA_METAL_ADDRESS_SPACES"})) &&
        judge(compile(file, {"-fsyntax-only"}))) {
      const auto text = compile(file, {"-E"});
      if (judge(text)) why = foreign_word(text->output);
    }
    if (why.empty()) continue;
    ++failed;
    std::printf("FAILED %s\n%s\n  again: metal_compile --only \"%s\"\n", units[i].label.c_str(), why.c_str(),
                units[i].label.c_str());
  }
  std::printf("%zu compiled, %zu failed, %.2f s a kernel\n", units.size(), failed,
              units.empty() ? 0 : seconds / static_cast<double>(units.size()));
  return failed == 0 && !units.empty() ? 0 : 1;
}

}  // namespace
}  // namespace codetta::metal_compile

int main(int argc, char** argv) {
  codetta::compile_gate::Choice choice;
  std::string folder;
  const codetta::compile_gate::Option own[] = {{"--write", &folder}};
  if (!codetta::compile_gate::parse(argc, argv, choice, own)) {
    std::fputs(
        "usage: metal_compile [--slice COMMIT] [--count N] [--part I/N] [--only TEXT] [--list] [--write FOLDER]\n",
        stderr);
    return 2;
  }
  return codetta::metal_compile::run(choice, folder);
}

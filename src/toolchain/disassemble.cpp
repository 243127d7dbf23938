// SPDX-License-Identifier: Apache-2.0
#include "toolchain/disassemble.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "diag/diagnostic.hpp"

namespace codetta::toolchain {
namespace {

constexpr size_t max_text_bytes = size_t{256} << 20;
constexpr const char* tools_folder = "/usr/local/cuda/bin";

struct Tool {
  const char* name;
  const char* option;  // code only: no data sections, no raw bytes
};
constexpr std::array tools{Tool{"nvdisasm", "--print-code"}, Tool{"cuobjdump", "--dump-sass"}};

std::string folders_of(const DisassembleOptions& options) {
  std::string folders = options.cuda_home.empty() ? "" : options.cuda_home + "/bin:";
  if (!options.path.empty()) folders += options.path + ":";
  return folders + tools_folder;
}

Error failed(diag::Code code, const std::string& program, const std::string& why) {
  return diag::error(code, "the machine code could not be printed")
      .reason(program + " " + why)
      .help("its version should be that of the CUDA compiler or newer; --what=ptx needs no disassembler");
}

}  // namespace

Result<Disassembler> find_disassembler(const DisassembleOptions& options) {
  const std::string folders = folders_of(options);
  for (const Tool& candidate : tools) {
    if (!options.program.empty() && !options.program.ends_with(candidate.name)) continue;
    const std::string wanted = options.program.empty() ? candidate.name : options.program;
    if (auto found = base::find_executable(wanted, folders)) return Disassembler{*found, candidate.option};
  }
  return diag::error(diag::Code::disassembler_missing, "no CUDA disassembler was found")
      .reason(options.program.empty() ? fmt::format("looked for {} and {} in {}", tools[0].name, tools[1].name, folders)
                                      : options.program + " is no program of that name that can be executed")
      .help(
          "install nvdisasm (the package cuda-nvdisasm of the toolkit, or pip install nvidia-cuda-nvdisasm) and put "
          "its folder on PATH; --what=ptx needs none");
}

Result<std::string> disassemble(std::string_view cubin, const DisassembleOptions& options) {
  CODETTA_TRY(const Disassembler tool, find_disassembler(options));
  std::vector<std::string> parents{options.work_dir};
  if (options.work_dir.empty()) parents = {"/dev/shm", "/tmp", "/var/tmp"};
  std::string why;
  for (const std::string& parent : parents) {
    const auto folder = base::TemporaryDirectory::make(parent, "codetta-sass-");
    if (!folder) {
      why = folder.error().message();
      continue;
    }
    const std::string file = folder->path() + "/kernel.cubin";
    if (const auto written = base::write_file_atomically(file, cubin, {.mode = 0600, .sync = false}); !written) {
      why = written.error().message();
      continue;
    }
    base::ProcessRequest request;
    request.program = tool.program;
    request.arguments = {tool.option, file};
    request.environment = {"PATH=" + folders_of(options), "LC_ALL=C", "TMPDIR=" + folder->path()};
    request.max_output_bytes = max_text_bytes;
    request.timeout = std::chrono::milliseconds(static_cast<int64_t>(std::max(options.timeout_seconds, 0.001) * 1000));
    const auto ran = base::run_process(request);
    if (!ran)
      return failed(diag::Code::compiler_failed, tool.program, "could not be started: " + ran.error().message());
    if (ran->end == base::ProcessEnd::TimedOut)
      return failed(diag::Code::compile_timeout, tool.program, ran->summary());
    if (!ran->success()) {
      const std::string_view said = base::trim(ran->errors.empty() ? ran->output : ran->errors);
      return failed(diag::Code::compiler_failed, tool.program,
                    fmt::format("ended with {}: {}", ran->summary(), said.substr(0, 400)));
    }
    return std::move(ran->output);
  }
  return diag::error(diag::Code::compile_folder, "no folder for the temporary files of the disassembler")
      .reason(fmt::format("{} (tried {})", why, base::join(parents, ", ")))
      .help("make one of these folders writable, or choose a work folder that is");
}

}  // namespace codetta::toolchain

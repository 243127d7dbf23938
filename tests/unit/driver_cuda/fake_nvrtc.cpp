// SPDX-License-Identifier: Apache-2.0
// A pretended NVRTC: its binaries are the names of the source's kernels, as the pretended driver wants them. As
// NVRTC 12.9 does beside a driver, it keeps what it made where `--no-cache` is not given, and then says nothing of it.
#include "unit/driver_cuda/fake_nvrtc.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <regex>
#include <set>
#include <vector>

namespace {

codetta::test::FakeNvrtc state;
std::set<std::string> kept;  // sources
std::mutex recording;        // kernels of one call are compiled side by side

struct Program {
  std::string source, cubin, ptx, log;
};

int size_of(const std::string& text, size_t* bytes) {
  *bytes = text.size();
  return 0;
}
int copy(const std::string& text, char* to) {
  std::memcpy(to, text.data(), text.size());
  return 0;
}

}  // namespace

extern "C" {

codetta::test::FakeNvrtc* codetta_fake_nvrtc() { return &state; }

int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
int nvrtcGetNumSupportedArchs(int* count) {
  *count = 3;
  return 0;
}
int nvrtcGetSupportedArchs(int* archs) {
  archs[0] = 80;
  archs[1] = 90;
  archs[2] = 100;
  return 0;
}
const char* nvrtcGetErrorString(int) { return "an error"; }
int nvrtcCreateProgram(Program** program, const char* source, const char*, int, const char* const*,
                       const char* const*) {
  *program = new Program{source, {}, {}, {}};
  return 0;
}
int nvrtcDestroyProgram(Program** program) {
  delete *program;
  return 0;
}
int nvrtcCompileProgram(Program* program, int count, const char* const* flags) {
  bool known = false;
  {
    const std::lock_guard lock(recording);
    ++state.compiles;
    state.sources.push_back(program->source);
    const auto is_no_cache = [](const char* flag) { return std::strcmp(flag, "--no-cache") == 0; };
    if (std::none_of(flags, flags + count, is_no_cache)) known = !kept.insert(program->source).second;
  }
  const bool spills = !state.spills_if.empty() && program->source.find(state.spills_if) != std::string::npos;
  program->cubin =
      "\x7f"
      "ELF";
  static const std::regex kernel(R"(__global__ void __launch_bounds__\([^)]*\) (\w+)\()");
  for (std::sregex_iterator at(program->source.begin(), program->source.end(), kernel), end; at != end; ++at) {
    const std::string name = (*at)[1];
    program->cubin += name + " ";
    program->ptx += ".entry " + name + "\n";
    program->log += "ptxas info    : Compiling entry function '" + name + "' for 'sm_90a'\n" +
                    "ptxas         .     0 bytes stack frame, " + (spills ? "72" : "0") + " bytes spill stores, " +
                    (spills ? "80" : "0") + " bytes spill loads\n" +
                    "ptxas info    : Used 168 registers, used 1 barriers\n";
  }
  if (known) program->log.clear();
  program->cubin.resize(std::max<size_t>(program->cubin.size() + 1, 256));
  return 0;
}
int nvrtcGetCUBINSize(Program* program, size_t* bytes) { return size_of(program->cubin, bytes); }
int nvrtcGetCUBIN(Program* program, char* to) { return copy(program->cubin, to); }
int nvrtcGetPTXSize(Program* program, size_t* bytes) { return size_of(program->ptx, bytes); }
int nvrtcGetPTX(Program* program, char* to) { return copy(program->ptx, to); }
int nvrtcGetProgramLogSize(Program* program, size_t* bytes) { return size_of(program->log, bytes); }
int nvrtcGetProgramLog(Program* program, char* to) { return copy(program->log, to); }

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
#include "host_runner.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <vector>

#include "base/files.hpp"
#include "base/process.hpp"
#include "metal_run/launch.hpp"

namespace codetta::metal_host {
namespace {

struct Machine {
  std::optional<base::TemporaryDirectory> folder;
  const MetalControl* control = nullptr;
  std::string missing, broken;
};

std::string compiler() {
  for (const char* name : {"clang++-19", "clang++-20", "clang++"}) {
    if (auto found = base::find_executable(name, "/usr/local/bin:/usr/bin:/bin")) return *found;
  }
  return "";
}
// Of GCC: where Clang looks for no library by itself, among the compiler's own files. Empty: it is not there.
std::string runtime_folder() {
  for (const char* version : {"12", "13", "14", "15"}) {
    const std::string folder = std::string("/usr/lib/gcc/x86_64-linux-gnu/") + version;
    if (::access((folder + "/libobjc.so").c_str(), R_OK) == 0) return folder;
  }
  return "";
}

std::string clang(std::vector<std::string> arguments) {
  base::ProcessRequest request;
  request.program = compiler();
  request.arguments = std::move(arguments);
  request.arguments.insert(request.arguments.end(),
                           {"-O0", "-fPIC", "-Wall", "-Wno-unused-const-variable", "-Wno-unused-variable", "-Werror"});
  request.environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"};
  request.timeout = std::chrono::seconds(200);
  const auto done = base::run_process(request);
  if (!done) return "clang++ was not started";
  return done->success() ? "" : done->errors.substr(0, 4000);
}
// Objective-C++ and objects as a shared library. "" or what the compiler said.
std::string link_library(const std::string& source, const std::vector<std::string>& objects,
                         const std::string& library) {
  std::vector<std::string> arguments = objects;
  arguments.insert(arguments.end(), {"-x", "objective-c++", "-std=c++20", "-fobjc-runtime=gcc", "-fblocks", "-shared",
                                     "-I" CODETTA_SOURCE_DIR "/tests/metal_stub", source, "-o", library,
                                     "-L" + runtime_folder(), "-lobjc"});
  return clang(std::move(arguments));
}

Machine start() {
  Machine machine;
  if (compiler().empty()) machine.missing = "there is no clang++";
  if (runtime_folder().empty()) machine.missing = "there is no Objective-C runtime: libobjc-12-dev";
  if (!machine.missing.empty()) return machine;
  auto folder = base::TemporaryDirectory::make("/tmp", "codetta-metal-host-");
  if (!folder) {
    machine.broken = "no temporary folder";
    return machine;
  }
  machine.folder.emplace(*std::move(folder));
  const std::string library = machine.folder->path() + "/libmetal.so";
  machine.broken = link_library(CODETTA_SOURCE_DIR "/tests/metal_host/framework.mm", {}, library);
  if (!machine.broken.empty()) return machine;
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    machine.broken = ::dlerror();
    return machine;
  }
  machine.control = reinterpret_cast<const MetalControl* (*)()>(::dlsym(handle, "codetta_metal_control"))();
  return machine;
}

const Machine& machine() {
  static const Machine only = start();
  return only;
}

}  // namespace

const std::string& missing() { return machine().missing; }
const std::string& broken() { return machine().broken; }
const MetalControl& metal() { return *machine().control; }

void* load_library(const std::string& folder, const std::string& name, std::string& why) {
  const std::string library = folder + "/lib" + name + ".so";
  const std::string caller = folder + "/caller.o";
  why = clang({"-x", "c", "-std=c11", "-c", folder + "/caller.c", "-o", caller});
  if (why.empty()) why = link_library(folder + "/" + name + ".mm", {caller}, library);
  if (!why.empty()) return nullptr;
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) why = ::dlerror();
  return handle;
}

}  // namespace codetta::metal_host

using codetta::metal_run::compile_kernels;

void* codetta_metal_compile(const char* text, char* why, size_t room) {
  std::string reason;
  void* const handle = compile_kernels(text, reason);
  std::snprintf(why, room, "%s", reason.c_str());
  return handle;
}
void* codetta_metal_function(void* library, const char* name) { return ::dlsym(library, name); }
bool codetta_metal_constant(void* library, unsigned long index, bool value) {
  void* const constant = index > 1 ? nullptr : ::dlsym(library, index == 0 ? "codetta_whole" : "codetta_aligned");
  if (constant != nullptr) *static_cast<bool*>(constant) = value;
  return constant != nullptr;
}
const char* codetta_metal_dispatch(void* function, const void* parameters, unsigned threadgroup_bytes,
                                   const unsigned groups[3], unsigned threads) {
  static std::string wrong;
  static uint64_t seed = 1;
  const unsigned grid[3] = {groups[0], groups[1], groups[2]};
  alignas(64) char aligned[4096];
  std::memcpy(aligned, parameters, sizeof aligned);
  wrong = codetta::metal_run::run_groups(function, aligned, threadgroup_bytes, grid, static_cast<int>(threads), seed++);
  return wrong.empty() ? nullptr : wrong.c_str();
}

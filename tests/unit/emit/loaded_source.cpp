// SPDX-License-Identifier: Apache-2.0
#include "loaded_source.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <fstream>

#include "base/files.hpp"
#include "base/process.hpp"
#include "support/slice.hpp"

namespace codetta::emit {

const std::vector<TestCompiler>& test_compilers() {
  static const std::vector<TestCompiler> compilers = [] {
    std::vector<TestCompiler> out;
    const auto add = [&](const char* name, bool clang) {
      const auto path = base::find_executable(name, "/usr/local/bin:/usr/bin:/bin");
      if (path) out.push_back({*path, clang});
      return path.has_value();
    };
    add("g++", false);
    for (const char* name : {"clang++-19", "clang++-18", "clang++-17", "clang++-16"}) {
      if (add(name, true)) break;
    }
    return out;
  }();
  return compilers;
}

std::vector<TestCompiler> test_compilers(CpuIsa isa) {
  const std::vector<TestCompiler>& all = test_compilers();
  if (CODETTA_TEST_FULL || all.size() < 2) return all;
  return {all[(static_cast<size_t>(isa) + test::commit_slice()) % all.size()]};
}

LoadedSource::LoadedSource(const EmittedSource& source, const TestCompiler& compiler) {
  auto folder = base::TemporaryDirectory::make("/tmp", "codetta-emit-test-");
  if (!folder) {
    log_ = "no temporary folder";
    return;
  }
  const std::string text = folder->path() + "/epilogue.cpp", object = folder->path() + "/epilogue.so";
  std::ofstream(text, std::ios::binary) << source.text;
  base::ProcessRequest request;
  request.program = compiler.path;
  request.arguments = compiler.clang ? source.clang_flags : source.gcc_flags;
  for (const char* flag : {"-shared", "-fPIC", "-x", "c++"}) request.arguments.emplace_back(flag);
  for (const std::string& argument : {std::string("-o"), object, text}) request.arguments.push_back(argument);
  request.environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"};
  request.timeout = std::chrono::seconds(120);
  const auto result = base::run_process(request);
  if (!result) {
    log_ = "the compiler did not start";
    return;
  }
  seconds_ = result->seconds;
  log_ = result->errors;
  if (!result->success()) return;
  handle_ = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) log_ += dlerror();
}

LoadedSource::~LoadedSource() {
  if (handle_ != nullptr) dlclose(handle_);
}

void* LoadedSource::symbol(const std::string& name) const {
  return handle_ == nullptr ? nullptr : dlsym(handle_, name.c_str());
}

std::vector<CpuIsa> runnable_isas() {
  std::vector<CpuIsa> out;
  for (const CpuIsa isa : {CpuIsa::generic, CpuIsa::avx2, CpuIsa::avx512, CpuIsa::avx512_bf16}) {
    if (cpu_supports(isa)) out.push_back(isa);
  }
  return out;
}

bool emits_of_its_own(CpuIsa isa, const EmittedSource& source) {
  return isa != CpuIsa::avx512_bf16 || source.text.find("narrow_bf16(") != std::string::npos;
}

}  // namespace codetta::emit

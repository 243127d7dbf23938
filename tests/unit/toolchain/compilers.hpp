// SPDX-License-Identifier: Apache-2.0
// Real compilers of the machine, and fake ones that are small shell scripts.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "base/files.hpp"
#include "toolchain/compiler.hpp"

namespace codetta::toolchain {

inline const std::string system_path = "/usr/local/bin:/usr/bin:/bin";

inline const std::vector<HostCompiler>& real_compilers() {
  static std::vector<HostCompiler> found;
  if (!found.empty()) return found;
  for (const char* name : {"g++", "clang++-19", "clang++"}) {
    FindOptions options;
    options.wanted = name;
    options.path = system_path;
    auto compiler = find_host_compiler(options);
    if (compiler && (found.empty() || found.back().kind != compiler->kind)) found.push_back(std::move(*compiler));
  }
  return found;
}

class CompilerTest : public testing::Test {
 protected:
  CompilerTest() : folder_(std::move(*base::TemporaryDirectory::make(testing::TempDir()))) {}

  // An executable script; returns its path.
  [[nodiscard]] std::string script(const std::string& name, const std::string& body) const {
    const std::string file = path(name);
    EXPECT_TRUE(base::write_file_atomically(file, "#!/bin/sh\n" + body));
    EXPECT_EQ(::chmod(file.c_str(), 0755), 0);
    return file;
  }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  [[nodiscard]] std::string folder() const { return folder_.path(); }

 private:
  base::TemporaryDirectory folder_;
};

}  // namespace codetta::toolchain

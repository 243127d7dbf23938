// SPDX-License-Identifier: Apache-2.0
// Which disassembler is called, how, and what is said when it is missing, hangs or fails. Small scripts stand in for
// it.
#include "toolchain/disassemble.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "compilers.hpp"
#include "diag/diagnostic.hpp"

namespace codetta::toolchain {
namespace {

class Disassembling : public CompilerTest {
 protected:
  Disassembling() {
    std::filesystem::create_directory(path("bin"));
    options.cuda_home = folder();
    options.work_dir = folder();
  }
  void expect(diag::Code code, const std::string& part) const {
    const auto text = disassemble("cubin", options);
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().code(), static_cast<uint16_t>(code)) << text.error().render();
    EXPECT_NE(text.error().render().find(part), std::string::npos) << text.error().render();
  }
  DisassembleOptions options;
};

TEST_F(Disassembling, NvdisasmFirstThenCuobjdump) {
  (void)script("bin/cuobjdump", "echo \"$1\"; /bin/cat \"$2\"\n");
  options.program = path("bin/cuobjdump");
  EXPECT_EQ(disassemble("bytes\n", options).value(), "--dump-sass\nbytes\n");
  options.program.clear();
  (void)script("bin/nvdisasm", "echo \"$1\"; /bin/cat \"$2\"\n");
  EXPECT_EQ(disassemble("bytes\n", options).value(), "--print-code\nbytes\n");
  // Nothing stays behind.
  size_t left = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) left += entry.path().filename() != "bin";
  EXPECT_EQ(left, 0U);
}

TEST_F(Disassembling, SaysWhatIsMissingOrFails) {
  options.program = path("bin/nvdisasm");
  expect(diag::Code::disassembler_missing, "pip install nvidia-cuda-nvdisasm");
  options.program.clear();
  (void)script("bin/nvdisasm", "echo 'not an ELF file' >&2; exit 3\n");
  expect(diag::Code::compiler_failed, "exit status 3: not an ELF file");
  (void)script("bin/nvdisasm", "/bin/sleep 20\n");
  options.timeout_seconds = 0.1;
  expect(diag::Code::compile_timeout, "timed out");
  options.work_dir = path("bin/nvdisasm/folder");  // below a file: nobody makes it, root included
  expect(diag::Code::compile_folder, "bin/nvdisasm/folder");
}

}  // namespace
}  // namespace codetta::toolchain

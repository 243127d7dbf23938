// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as a package and as an epilogue program: refused, or exactly what encode() gives for what was read,
// and fit for printing.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/digest.hpp"
#include "package/package.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using codetta::package::EpilogueProgram;
  using codetta::package::Package;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto program = EpilogueProgram::decode(bytes)) {
    if (program->encode() != bytes || find_defect(*program) || program->to_string().empty()) std::abort();
  }
  // The digest hides what lies before it from random bytes: the same with a right one.
  const std::string whole = std::string(bytes) + codetta::base::digest_of(bytes).hex();
  if (const auto package = Package::decode(whole)) {
    if (package->encode() != whole || package->manifest_json().empty()) std::abort();
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as a tuning file: refused, or exactly what is written for what was read; and as the key of a record.
#include <string>

#include "base/digest.hpp"
#include "driver/tuning_file.hpp"
#include "support.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace codetta;
  const std::string_view bytes = fuzz::view_of(data, size);
  const auto check = [](std::string_view text) {
    const auto file = driver::decode_tuning_file(text);
    if (file) fuzz::require(driver::encode_tuning_file(*file) == text);
  };
  check(bytes);
  // The check hides what lies behind it from random bytes: the same with a right one.
  std::string repaired(bytes);
  if (!repaired.empty() && repaired.back() != '\n') repaired += '\n';
  check(repaired + "check " + base::digest_of(repaired).hex() + "\n");
  for (const char* name : {"codetta", "build", "device"}) (void)driver::field_of(bytes, name);
  return 0;
}

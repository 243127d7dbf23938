// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as a cache entry: refused, or exactly what encode_entry gives for what was read. And as what package
// and tuning entries hold.
#include <string>

#include "driver/package_entry.hpp"
#include "driver/tuning_record.hpp"
#include "support.hpp"
#include "toolchain/entry_format.hpp"

namespace {

using codetta::fuzz::require;

// The views lie inside of the bytes, in order and without a gap.
void check(const codetta::toolchain::EntryView& entry, std::string_view bytes) {
  using codetta::toolchain::entry_checksum_bytes;
  using codetta::toolchain::entry_header_bytes;
  require(entry.key.data() == bytes.data() + entry_header_bytes &&
          entry.metadata.data() == entry.key.data() + entry.key.size() &&
          entry.payload.data() == entry.metadata.data() + entry.metadata.size() &&
          entry.payload.data() + entry.payload.size() == bytes.data() + bytes.size() - entry_checksum_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace codetta;
  using toolchain::decode_entry;
  const std::string_view bytes = fuzz::view_of(data, size);
  if (const auto entry = decode_entry(bytes)) check(*entry, bytes);
  // The checksum hides what lies behind it from random bytes: the same with a right one.
  std::string repaired(bytes);
  if (toolchain::repair_checksum(repaired)) {
    if (const auto entry = decode_entry(repaired)) check(*entry, repaired);
  }
  if (const auto ranking = driver::decode_ranking(bytes, Target{})) require(driver::encode_ranking(*ranking) == bytes);
  const driver::TuningRecord record = driver::decode_tuning(bytes);
  const std::string written = driver::encode_tuning(record);
  require(driver::encode_tuning(driver::decode_tuning(written)) == written);
  return 0;
}

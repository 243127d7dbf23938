// SPDX-License-Identifier: Apache-2.0
// Tuning results as one file for people and machines: what `codetta tune --export` writes and `--import` reads. Lines
// of text, but for the keys, which have the length that stands before them:
//   codetta tuning 1
//   build <build id of the library that measured>
//   record <bytes of the key> <kernels>
//   <key: every field that decides the record, as in the cache>
//   <kernel><TAB><microseconds>              as many as was said, the fastest need not be first
//   ...
//   check <XXH3-128 of everything before this line, 32 hex digits>
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace codetta::driver {

struct TuningFile {
  struct Record {
    std::string key;  // text of a CacheKey
    std::vector<std::pair<std::string, double>> medians;
    bool operator==(const Record&) const = default;
  };
  std::string build;
  std::vector<Record> records;
  bool operator==(const TuningFile&) const = default;
};

std::string encode_tuning_file(const TuningFile& file);
// Takes arbitrary bytes; exactly what encode_tuning_file gives. Errors: E0653 with the line that is wrong.
Result<TuningFile> decode_tuning_file(std::string_view text);

// The value of a field of a key's text; nullopt where it has none, or is no key.
std::optional<std::string> field_of(std::string_view key, std::string_view name);

}  // namespace codetta::driver

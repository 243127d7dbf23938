// SPDX-License-Identifier: Apache-2.0
// Choosing the parts of embedded device headers that a kernel needs (device/cpu/vec.h tells how parts are marked).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace codetta::emit {

// Which overload of a name is meant: the file of that domain is asked before those common to all.
enum class Domain : uint8_t { Common, F32, F64, Int };

struct PartFile {
  std::string_view path;  // virtual, as embedded
  Domain domain = Domain::Common;
};

// The parts of some files, in the order of the files. Immutable; `files` are cut once.
class PartLibrary {
 public:
  // Errors: E0901 when a file is not embedded.
  static Result<PartLibrary> make(const std::vector<PartFile>& files);

  using Request = std::pair<std::string, Domain>;
  // The text of the requested parts and all that they mention, each behind a #line directive, in file order.
  // Errors: E0901 when a requested name is in no part.
  [[nodiscard]] Result<std::string> text_for(const std::set<Request>& requests) const;
  [[nodiscard]] bool has(std::string_view name, Domain domain) const { return !find(name, domain).empty(); }

 private:
  struct Part {
    std::string_view path, text;
    uint32_t line = 0;  // of the first line of text
    Domain domain = Domain::Common;
    std::vector<Request> mentions;  // by its heading
  };
  [[nodiscard]] std::vector<uint32_t> find(std::string_view name, Domain domain) const;
  void cut(const PartFile& file, std::string_view text);
  [[nodiscard]] std::vector<Request> mentions(const Part& part) const;

  std::vector<Part> parts_;
  std::multimap<std::string, uint32_t, std::less<>> by_name_;
};

}  // namespace codetta::emit

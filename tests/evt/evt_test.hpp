// SPDX-License-Identifier: Apache-2.0
// What tests of emitted texts share.
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "case.hpp"

namespace codetta::evt_tests {

inline const std::vector<std::string> targets{"cutlass:sm_80", "cutlass:sm_90a", "cutlass:sm_100a"};

inline std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}
inline Epilogue epilogue_of(const std::string& text) { return Epilogue::parse(text).value(); }
inline EvtOptions sm90() {
  EvtOptions options;
  options.target = Target::parse("cutlass:sm_90a").value();
  return options;
}

}  // namespace codetta::evt_tests

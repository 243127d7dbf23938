// SPDX-License-Identifier: Apache-2.0
// What emulator::Compiler has made, loaded.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "emulator/block.hpp"
#include "runtime/cpu/module.hpp"

namespace codetta::emulator {

class Object {
 public:
  // Errors: E0508, E0509.
  static Result<Object> load(std::string_view bytes);
  // Null functions where it has no such kernel. Valid while the object is.
  [[nodiscard]] Kernel kernel(const std::string& name) const;

 private:
  std::shared_ptr<const runtime::cpu::Module> module_;
};

}  // namespace codetta::emulator

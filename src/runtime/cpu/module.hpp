// SPDX-License-Identifier: Apache-2.0
// Loading a shared object from bytes. It is written to a sealed memfd (a private unlinked file where the kernel refuses
// that) and opened by a path spelling never used before in this process: glibc matches loaded objects by path string,
// so a reused spelling would silently return an earlier library. After loading, the entry digest that the object
// exports is compared.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/system_calls.hpp"
#include "device/cpu/abi.h"

namespace codetta::runtime::cpu {

class Module {
 public:
  // `digest_symbol` names an exported char array that must equal `digest`. Errors: E0508 (cannot be loaded, with the
  // reason of the loader), E0509 (digest differs, symbol missing).
  static Result<std::shared_ptr<const Module>> load(std::string_view bytes, const std::string& digest_symbol,
                                                    const std::string& digest,
                                                    const base::SystemCalls& calls = base::SystemCalls::real());
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  [[nodiscard]] void* symbol(const std::string& name) const;  // nullptr when absent

 private:
  explicit Module(void* handle) : handle_(handle) {}
  void* handle_;
};

}  // namespace codetta::runtime::cpu

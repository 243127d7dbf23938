// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfenv>

namespace codetta::base {

// While it lives the calling thread rounds to nearest, keeps subnormals and traps nothing, whatever the caller has set
// (docs/semantics.md); then the caller's environment is back. For what is not run in a loop: that takes some 100 ns,
// and runs have codetta::host::DefaultFloats of device/host/default_floats.h, which touches nothing that is so already.
class DefaultFloats {
 public:
  DefaultFloats() {
    (void)std::fegetenv(&given_);
    (void)std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloats() { (void)std::fesetenv(&given_); }
  DefaultFloats(const DefaultFloats&) = delete;
  DefaultFloats& operator=(const DefaultFloats&) = delete;

 private:
  std::fenv_t given_{};
};

}  // namespace codetta::base

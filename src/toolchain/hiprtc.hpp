// SPDX-License-Identifier: Apache-2.0
// hiprtc, AMD's HIP compiler as a library: loaded when first needed, for machines that have ROCm's runtime and no
// Clang.
#pragma once

#include <memory>
#include <string>

#include "toolchain/hip_clang.hpp"

namespace codetta::toolchain {

// The loaded library. Immutable; compile() may be called from several threads.
class Hiprtc {
 public:
  // Exactly `file`, or "" = by the loader. Errors: E0536 none found (what was looked for), E0537 found but unusable.
  static Result<std::shared_ptr<const Hiprtc>> find(const std::string& file);
  [[nodiscard]] const std::string& path() const { return path_; }        // the library's file
  [[nodiscard]] const std::string& version() const { return version_; }  // "6.3"
  // Content digest of the library and of ROCm's comgr, which it calls; "" when one can't be read.
  [[nodiscard]] std::string identity() const;
  // Ends on its own: it can be neither cancelled nor timed. Errors: E0504 rejected (messages parsed), E0313 for the
  // user's source, E0506 it failed, or made no code object.
  [[nodiscard]] Result<HipOutput> compile(const HipJob& job, const std::string& keep_dir) const;

 private:
  struct Functions;
  Hiprtc() = default;
  std::shared_ptr<const Functions> functions_;
  std::string path_, comgr_, version_;
};
using HiprtcRef = std::shared_ptr<const Hiprtc>;

}  // namespace codetta::toolchain

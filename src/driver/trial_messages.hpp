// SPDX-License-Identifier: Apache-2.0
// What a tuning and the command that runs its trials on a GPU say to each other, a frame each. Behind the greeting each
// frame is an execution (runtime/cuda/detached.hpp), which gets two answers: when it is made (the time of the run
// counts from there), and when it has run. Only Made is followed by another.
#pragma once

#include <string>
#include <string_view>

#include "codetta/target.hpp"

namespace codetta::driver {

inline constexpr std::string_view trial_verb = "--serve-trials";  // the command's only argument

struct TrialHello {
  Backend backend = Backend::cuda;
  std::string driver{};  // ContextOptions::cuda_driver or hip_runtime
  int device = 0;
  std::string build{};  // which has to be that of the command
  [[nodiscard]] std::string encode() const;
  static TrialHello decode(std::string_view frame);  // what is damaged has no build
};

struct TrialAnswer {
  enum class Kind : uint8_t {
    Made,    // it is about to run; of the greeting: the device is open
    Ran,     // it came to its end, or to an error that harms nothing
    Unable,  // it could not be made there: `text` says why
    Lost,    // the device's context is lost, by what `text` says
  } kind = Kind::Unable;
  std::string text{};
  [[nodiscard]] std::string encode() const;
  static TrialAnswer decode(std::string_view frame);  // Unable for what is damaged
};

}  // namespace codetta::driver

// SPDX-License-Identifier: Apache-2.0
// What is kept of a command that ended in an error of Codetta's own (exit status 70), so that it can be repeated.
#pragma once

#include <string>
#include <vector>

#include "cli/options.hpp"

namespace codetta::cli {

struct Repro {
  std::vector<std::string> command;  // argv
  std::string folder;                // wanted for the bundle: the cache's; "" where there is none
  std::string text;                  // of --epilogue or of the program: a file's name or the text itself
  std::string message;               // the error as it was shown
};
// A folder "repro-<time>-<process>" with command.txt, version.txt, message.txt and, where there is a text,
// epilogue.py; in the wanted folder, else in that of temporary files. Its path, or "" when none can be made: what went
// wrong before must not be hidden by this.
std::string keep_repro(const Repro& repro) noexcept;

}  // namespace codetta::cli

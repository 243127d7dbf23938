// SPDX-License-Identifier: Apache-2.0
// Calls of a random program's function in a library, on the data of its runs in process.
#pragma once

#include <string>

#include "differential/program_case.hpp"

namespace codetta::test {

std::string bytes_of(const Tensor& tensor);
// Where the bytes of an output differ from those of the run in process; empty: nowhere.
std::string difference(const std::string& name, const Tensor& expected, const std::string& actual);

// Each run with tensors in one piece, whose outputs must have the bits of the run in process, and with tensors that lie
// anywhere, whose outputs the oracle judges. `error` is the library's get_last_error. Empty, or what is wrong.
std::string call_library(void* handle, const char* (*error)(), const ProgramCase& one);

}  // namespace codetta::test

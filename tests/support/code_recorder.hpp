// SPDX-License-Identifier: Apache-2.0
// Which codes of errors a test program has made: tools/run_tests asks at the end whether all of codes.def were.
#pragma once

#include <cstdint>

namespace codetta::test {

// Once for each code, to a file of the process in the folder that CODETTA_CODES names; nowhere without it.
void record_code(uint16_t code);

}  // namespace codetta::test

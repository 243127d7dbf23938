// SPDX-License-Identifier: Apache-2.0
// Problems without elements: no tile runs, but results of rows, of columns and of everything are still owed.
#pragma once

#include <optional>

#include "package/epilogue_program.hpp"

namespace codetta::runtime {

// The program with the stores that some tile would do on the side of its elements (Row, Column, Scalar) in phases of
// their own, which run over rows, columns or once. Empty when the program has none.
std::optional<package::EpilogueProgram> stores_apart(const package::EpilogueProgram& program);

}  // namespace codetta::runtime

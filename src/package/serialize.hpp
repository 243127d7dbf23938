// SPDX-License-Identifier: Apache-2.0
// What the byte forms of program and package share. Private to this room.
#pragma once

#include <string_view>
#include <vector>

#include "package/bytes.hpp"
#include "package/epilogue_program.hpp"

namespace codetta::package {

inline constexpr uint64_t max_name_bytes = 4 << 20;

void write(ByteWriter& out, const std::vector<Dim>& shape);
std::vector<Dim> read_shape(ByteReader& in);
void write(ByteWriter& out, const EpilogueProgram& program);
EpilogueProgram read_program(ByteReader& in);  // checked: in.ok() means that find_defect() found nothing

Error damaged(std::string_view reason);  // E0520

}  // namespace codetta::package

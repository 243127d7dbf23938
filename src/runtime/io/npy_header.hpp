// SPDX-License-Identifier: Apache-2.0
// The header of a .npy file: a Python dictionary of literals, of which exactly the form that the format prescribes is
// read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace codetta::runtime::io {

// Says in a file what bf16 and the 8-bit floats are, for which NumPy has no name: it stands behind the dictionary.
inline constexpr std::string_view dtype_comment = "# codetta_dtype: ";

struct NpyHeader {
  std::string descr;
  bool structured = false;  // descr is no string
  bool fortran_order = false;
  std::vector<int64_t> shape;
  std::optional<std::string> codetta_dtype;  // of the comment behind the dictionary, or, in older files, an entry
};

// Nullopt: *problem says what is wrong and at which byte of `text`.
std::optional<NpyHeader> parse_npy_header(std::string_view text, std::string* problem);

}  // namespace codetta::runtime::io

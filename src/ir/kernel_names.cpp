// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel_names.hpp"

#include <algorithm>
#include <iterator>

namespace codetta::ir {
namespace {

constexpr std::string_view prelude_types[] = {"Tensor",   "Hook",        "TensorMap",  "float16",
                                              "bfloat16", "float8_e4m3", "float8_e5m2"};
constexpr std::string_view launch_names[] = {"threadIdx", "blockIdx", "blockDim", "gridDim",
                                             "warpSize",  "dim3",     "uint3"};
constexpr std::string_view header_names[] = {
    "size_t",   "ptrdiff_t", "nullptr_t",   "wint_t",      "intptr_t",       "uintptr_t",
    "intmax_t", "uintmax_t", "NULL",        "SIZE_MAX",    "WCHAR_MAX",      "WCHAR_MIN",
    "WINT_MAX", "WINT_MIN",  "PTRDIFF_MAX", "PTRDIFF_MIN", "SIG_ATOMIC_MAX", "SIG_ATOMIC_MIN"};

bool is_one_of(const auto& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// int8_t, uint_fast16_t, UINT64_MAX, INT32_C: what <stdint.h> has of every width.
bool has_a_width(std::string_view name) {
  const bool macro = name.starts_with("INT") || name.starts_with("UINT");
  if (!macro && !name.starts_with("int") && !name.starts_with("uint")) return false;
  name.remove_prefix(name[0] == 'u' || name[0] == 'U' ? 4 : 3);
  for (const std::string_view kind : {"_fast", "_least", "_FAST", "_LEAST"}) {
    if (name.starts_with(kind)) name.remove_prefix(kind.size());
  }
  for (const std::string_view width : {"8", "16", "32", "64", "MAX", "PTR"}) {
    if (!name.starts_with(width)) continue;
    const std::string_view rest = name.substr(width.size());
    if (macro ? rest == "_MAX" || rest == "_MIN" || rest == "_C" || rest == "_WIDTH" : rest == "_t") return true;
  }
  return false;
}

}  // namespace

std::string_view taken_in_kernels(std::string_view name) {
  if (name == "std") return "it is the name of C++'s own namespace";
  if (name.starts_with("codetta") || name.starts_with("CODETTA")) return "names that begin so belong to Codetta";
  if (is_one_of(prelude_types, name)) return "it is a type that is declared in front of every kernel's source";
  if (is_one_of(launch_names, name)) return "it is a name of CUDA and HIP";
  if (is_one_of(header_names, name) || has_a_width(name)) return "it is a name of C's headers";
  return {};
}

}  // namespace codetta::ir

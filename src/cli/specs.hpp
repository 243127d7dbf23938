// SPDX-License-Identifier: Apache-2.0
// What the values of --a, --b, --tensor, --scalar and --out say: shapes with a type, numbers, and files of tensors.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codetta/codetta.hpp"

namespace codetta::cli {

struct Form {  // [M,N/2]:bf16:tiny
  std::string shape, dtype, data;
};
// "[M,N]:f32" (type and data may be missing), the part of `item` from `at` on. Errors: E0701, at the column.
Result<Form> parse_form(const std::string& item, size_t at, const std::string& option);
// NAME=VALUE of --tensor, --scalar or --out; both are there. Errors: E0701.
Result<std::pair<std::string, std::string>> split_item(const std::string& item, const std::string& option);
// "batch=8" of --dim: a size from 0 on. Errors: E0701.
Result<std::pair<std::string, int64_t>> parse_size(const std::string& item, const std::string& option);
// "batch=8" or "batch=1,64,512" of --hint. Errors: E0701.
Result<std::vector<std::pair<std::string, int64_t>>> parse_sizes(const std::string& item, const std::string& option);
// "0.5", "+3", "-1e-3", "inf", "true". Errors: E0701.
Result<ArgumentValue> parse_scalar(const std::string& name, const std::string& text);

// "bf16", by our name. Errors: E0701, with ours where NumPy, PyTorch or C have another.
Result<DType> parse_dtype(const std::string& name);

// FILE.npy, FILE.npy:TYPE where its header cannot say what the elements are, FILE.safetensors:NAME, or FILE.safetensors
// when it holds one tensor. Errors: E0620 to E0622, E0701.
Result<Tensor> read_tensor(const std::string& file);

// "x.safetensors:w" -> ("x.safetensors", "w"); ("", "") for any other file.
std::pair<std::string, std::string> archive_of(const std::string& file);
// "x.npy:bf16" -> ("x.npy", "bf16"); (file, "") for any other file.
std::pair<std::string, std::string> typed_file(const std::string& file);

}  // namespace codetta::cli

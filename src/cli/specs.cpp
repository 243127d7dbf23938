// SPDX-License-Identifier: Apache-2.0
// Values of options that name data.
#include "cli/specs.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <vector>

#include "cli/options.hpp"

namespace codetta::cli {
namespace {

Error form_error(const std::string& item, size_t at, std::string headline, const std::string& option) {
  Diagnostic diagnostic;
  diagnostic.code = 701;
  diagnostic.headline = std::move(headline);
  diagnostic.where = {
      .file = option, .line = 1, .column = static_cast<uint32_t>(at + 1), .length = 1, .line_text = item};
  diagnostic.help = "write [sizes]:type, such as [M,N]:f32 or [4,8]:bf16";
  return Error(std::move(diagnostic));
}

}  // namespace

std::pair<std::string, std::string> archive_of(const std::string& file) {
  constexpr std::string_view archive = ".safetensors";
  const size_t mark = file.rfind(archive);
  if (mark == std::string::npos) return {};
  const size_t end = mark + archive.size();
  if (end == file.size()) return {file, ""};
  if (file[end] != ':') return {};
  return {file.substr(0, end), file.substr(end + 1)};
}

std::pair<std::string, std::string> typed_file(const std::string& file) {
  constexpr std::string_view end = ".npy";
  const size_t colon = file.rfind(':');
  if (colon == std::string::npos || !file.substr(0, colon).ends_with(end)) return {file, {}};
  const std::string type = file.substr(colon + 1);
  std::error_code failed;
  const bool whole = !dtype_from_name(type) && std::filesystem::exists(file, failed);  // which is called so
  return whole ? std::pair(file, std::string()) : std::pair(file.substr(0, colon), type);
}

Result<Form> parse_form(const std::string& item, size_t at, const std::string& option) {
  const size_t close = item.find(']', at);
  if (close == std::string::npos) {
    const size_t colon = item.find(':', at);
    return form_error(item, colon == std::string::npos ? item.size() : colon, "the shape has no closing ']'", option);
  }
  Form form;
  form.shape = item.substr(at + 1, close - at - 1);
  for (size_t term = at + 1; term < close;) {
    const size_t end = std::min(item.find(',', term), close);
    if (item.find_first_not_of(' ', term) >= end) return form_error(item, term, "a size is missing", option);
    if (end + 1 == close) return form_error(item, close, "a size is missing", option);
    term = end + 1;
  }
  if (close + 1 == item.size()) return form;
  if (item[close + 1] != ':') return form_error(item, close + 1, "a ':' and a type were expected here", option);
  const size_t type = close + 2, colon = item.find(':', type);
  form.dtype = item.substr(type, colon == std::string::npos ? colon : colon - type);
  if (form.dtype.empty()) return form_error(item, type, "the type is missing", option);
  if (colon == std::string::npos) return form;
  form.data = item.substr(colon + 1);
  if (form.data != "normal" && form.data != "positive" && form.data != "tiny" && form.data != "integers")
    return form_error(item, colon + 1, "the data is none of normal, positive, tiny and integers", option);
  return form;
}

Result<std::pair<std::string, std::string>> split_item(const std::string& item, const std::string& option) {
  const size_t equals = item.find('=');
  std::string name = item.substr(0, equals), value = equals == std::string::npos ? "" : item.substr(equals + 1);
  if (!name.empty() && !value.empty()) return std::pair(std::move(name), std::move(value));
  const std::string what = option == "--scalar" ? "number" : "file or shape";
  const std::string shown = name.empty() ? option == "--scalar" ? "a" : option == "--out" ? "D" : "C" : name;
  return usage_error(name.empty() ? "'" + item + "' names nothing" : "no " + what + " is given for " + name,
                     "given to " + option,
                     "write " + option + " " + shown + "=" + (option == "--scalar" ? "0.5" : shown + ".npy"));
}

Result<std::pair<std::string, int64_t>> parse_size(const std::string& item, const std::string& option) {
  const size_t equals = item.find('=');
  int64_t value = -1;
  if (equals != std::string::npos && equals > 0) {
    const char* const end = item.data() + item.size();
    const auto [stop, failed] = std::from_chars(item.data() + equals + 1, end, value);
    if (stop != end || failed != std::errc()) value = -1;
  }
  if (value >= 0) return std::pair(item.substr(0, equals), value);
  return usage_error("'" + item + "' gives no size", "given to " + option, "write " + option + " batch=8");
}

Result<std::vector<std::pair<std::string, int64_t>>> parse_sizes(const std::string& item, const std::string& option) {
  std::vector<std::pair<std::string, int64_t>> sizes;
  const std::string name = item.substr(0, item.find('='));
  size_t at = std::min(item.size(), name.size() + 1);
  for (;;) {
    const size_t comma = item.find(',', at);
    auto size = parse_size(name + "=" + item.substr(at, comma == std::string::npos ? comma : comma - at), option);
    if (!size)
      return usage_error("'" + item + "' gives no size", "given to " + option,
                         "write " + option + " batch=8, or batch=1,64 for kernels for both");
    sizes.push_back(*std::move(size));
    if (comma == std::string::npos) return sizes;
    at = comma + 1;
  }
}

Result<ArgumentValue> parse_scalar(const std::string& name, const std::string& text) {
  if (text == "true" || text == "True") return ArgumentValue(true);
  if (text == "false" || text == "False") return ArgumentValue(false);
  // A leading '+' is a number's in every language but that of from_chars.
  const size_t sign = text.size() > 1 && text[0] == '+' && text[1] != '-' ? 1 : 0;
  const char *const first = text.data() + sign, *const last = text.data() + text.size();
  int64_t integer = 0;
  if (const auto [end, error] = std::from_chars(first, last, integer); end == last) {
    if (error == std::errc()) return ArgumentValue(integer);
    uint64_t large = 0;
    if (std::from_chars(first, last, large).ec == std::errc()) return ArgumentValue(large);
    if (error == std::errc::result_out_of_range)
      return usage_error("'" + text + "' does not fit",
                         "whole numbers have 64 bits: -9223372036854775808 to 18446744073709551615",
                         "for a float write it with a point: " + name + "=" + text + ".0");
  }
  double value = 0;
  const auto [end, error] = std::from_chars(first, last, value);
  if (error == std::errc::result_out_of_range && end == last) {
    value = std::strtod(std::string(first, last).c_str(), nullptr);  // too small is 0, as in a text
    if (std::isinf(value))
      return usage_error("'" + text + "' does not fit", "the largest number is 1.7976931348623157e308",
                         "pass " + name + (value < 0 ? "=-inf for minus infinity" : "=inf for infinity"));
  } else if (error != std::errc() || end != last) {
    const bool tensor = text.starts_with('[') || text.ends_with(".npy") || !archive_of(text).first.empty();
    return usage_error(
        "'" + text + "' is not a number", "given for the scalar " + name,
        tensor ? "write --tensor " + name + "=" + text : "pass a number such as " + name + "=0.5, or true, false");
  }
  return ArgumentValue(value);
}

Result<DType> parse_dtype(const std::string& name) {
  if (const auto dtype = dtype_from_name(name)) return *dtype;
  // As NumPy, PyTorch and C call them.
  static const std::map<std::string, std::string> elsewhere{
      {"float", "f32"},
      {"float32", "f32"},
      {"fp32", "f32"},
      {"double", "f64"},
      {"float64", "f64"},
      {"fp64", "f64"},
      {"half", "f16"},
      {"float16", "f16"},
      {"fp16", "f16"},
      {"bfloat16", "bf16"},
      {"float8_e4m3fn", "f8e4m3"},
      {"fp8", "f8e4m3"},
      {"e4m3", "f8e4m3"},
      {"float8_e5m2", "f8e5m2"},
      {"e5m2", "f8e5m2"},
      {"int8", "i8"},
      {"s8", "i8"},
      {"uint8", "u8"},
      {"int16", "i16"},
      {"uint16", "u16"},
      {"int", "i32"},
      {"int32", "i32"},
      {"s32", "i32"},
      {"uint32", "u32"},
      {"int64", "i64"},
      {"long", "i64"},
      {"uint64", "u64"},
      {"boolean", "bool"},
  };
  std::vector<std::string> known;
  for (int i = 0; i < dtype_count; ++i) known.emplace_back(dtype_name(static_cast<DType>(i)));
  const auto same = elsewhere.find(name);
  return unknown_word("element type", name, "", known, same == elsewhere.end() ? std::string() : same->second);
}

Result<Tensor> read_tensor(const std::string& file) {
  const auto [path, name] = archive_of(file);
  if (path.empty()) {
    const auto [array, type] = typed_file(file);
    if (array.size() == file.size()) return read_npy(file);
    const auto as = parse_dtype(type);
    return as ? read_npy(array, *as) : as.error();
  }
  std::error_code failed;
  std::string names;
  if (std::filesystem::is_fifo(path, failed)) {  // can be read only once
    auto tensors = read_safetensors(path);
    if (!tensors) return std::move(tensors).error();
    for (auto& [known, tensor] : *tensors) {
      if (known == name || (name.empty() && tensors->size() == 1)) return std::move(tensor);
      names += (names.empty() ? "" : ", ") + known;
    }
  } else {
    auto held = list_safetensors(path);
    if (!held) return std::move(held).error();
    for (const SafetensorsEntry& entry : *held) {
      if (entry.name == name || (name.empty() && held->size() == 1)) return read_safetensor(path, entry.name);
      names += (names.empty() ? "" : ", ") + entry.name;
    }
  }
  return usage_error(name.empty() ? "which tensor of " + path + " is meant?" : path + " has no tensor '" + name + "'",
                     "it holds " + (names.empty() ? "none" : names), "write " + path + ":NAME");
}

}  // namespace codetta::cli

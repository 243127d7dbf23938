// SPDX-License-Identifier: Apache-2.0
#include "example_cases.hpp"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

namespace codetta::evt_tests {
namespace {

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

// What stands behind `bind:`, by name.
std::vector<std::pair<std::string, std::string>> bindings_of(const std::string& text) {
  const std::string mark = "# bind: ";
  const size_t begin = text.find(mark);
  if (begin == std::string::npos) throw std::runtime_error("an example without a line of bindings");
  std::vector<std::pair<std::string, std::string>> result;
  for (const std::string& word :
       parts_of(text.substr(begin + mark.size(), text.find('\n', begin) - begin - mark.size()), ' '))
    result.emplace_back(word.substr(0, word.find('=')), word.substr(word.find('=') + 1));
  return result;
}

std::string element_type(const std::vector<std::pair<std::string, std::string>>& bindings) {
  std::vector<std::string> types{"f32"};
  for (const auto& [name, value] : bindings) {
    if (name == "types") types = parts_of(value, ',');
  }
  for (const std::string wanted : {"f16", "bf16", "i8", "u8"}) {
    if (std::find(types.begin(), types.end(), wanted) != types.end()) return wanted;
  }
  return types[0];
}

// "N/2" with N: a number, as a Case writes sizes.
std::string size_of(const std::string& size, const std::map<std::string, int64_t>& sizes) {
  const size_t divided = size.find('/');
  const std::string name = size.substr(0, divided);
  int64_t value = sizes.contains(name) ? sizes.at(name) : std::stoll(name);
  if (divided != std::string::npos) value /= std::stoll(size.substr(divided + 1));
  return std::to_string(value);
}

std::vector<Case> read_examples() {
  static std::deque<std::string> texts;
  const auto keep = [&](std::string text) -> std::string_view { return texts.emplace_back(std::move(text)); };
  std::vector<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(CODETTA_SOURCE_DIR "/examples/epilogues")) {
    if (file.path().extension() == ".py") files.push_back(file.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Case> cases;
  for (const auto& file : files) {
    std::ifstream stream(file);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    const auto bindings = bindings_of(text);
    const std::string type = element_type(bindings);
    const bool bytes = type == "u8" || type == "i8";
    std::map<std::string, int64_t> sizes{{"M", 256}, {"N", 384}, {"K", 128}};
    std::string problem = "nondeterministic A=" + type, arguments;
    if (type == "u8") problem += " B=i8";
    if (type == "f32") problem += " tf32";
    for (const auto& [name, value] : bindings) {
      if (sizes.contains(name) || name == "batch") problem += " " + name + "=" + value, sizes[name] = std::stoll(value);
    }
    for (const auto& [name, value] : bindings) {
      const size_t open = value.find('['), close = value.find(']');
      if (value.starts_with("scalar:")) arguments += " " + name + "=" + value;
      if (open == std::string::npos) continue;
      std::string shape;
      for (const std::string& size : parts_of(value.substr(open + 1, close - open - 1), ','))
        shape += (shape.empty() ? "" : ",") + size_of(size, sizes);
      std::string dtype = parts_of(value.substr(close + 1), ':').at(0);
      dtype = dtype == "T" ? type : dtype == "acc" ? (bytes ? "i32" : "f32") : dtype;
      arguments += " " + name + "=" + dtype + "[" + shape + "]";
    }
    cases.push_back({keep("example_" + file.stem().string()), keep(problem), keep(arguments), keep(text)});
  }
  return cases;
}

}  // namespace

const std::vector<Case>& example_cases() {
  static const std::vector<Case> cases = read_examples();
  return cases;
}

}  // namespace codetta::evt_tests

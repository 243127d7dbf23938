// SPDX-License-Identifier: Apache-2.0
// Spreads a random program over devices: each of its statements is computed on one, and brings there what lies
// elsewhere. Sizes and predicates are read from wherever they lie.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace codetta::test {

class DeviceSpreader {
 public:
  DeviceSpreader(uint64_t seed, int devices) : state_(seed * 2 + 1), devices_(devices) {}

  // `text` ends with the function `name`, one statement a line.
  std::string run(const std::string& text, const std::string& name) {
    const size_t begin = text.find("def " + name + "("), body = text.find(":\n", begin) + 2;
    find_parameters(text.substr(begin, body - begin));
    std::string out = text.substr(0, body);
    for (size_t at = body; at < text.size();) {
      const size_t end = text.find('\n', at) + 1;
      out += statement(text.substr(at, end - at));
      at = end;
    }
    return out;
  }

 private:
  int pick(int n) {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<int>((z ^ (z >> 31)) % static_cast<uint64_t>(n));
  }
  static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

  void find_parameters(const std::string& header) {
    for (size_t at = header.find('p'); at != std::string::npos; at = header.find('p', at + 1)) {
      if (is_word(header[at - 1])) continue;
      size_t end = at;
      while (is_word(header[end])) ++end;
      if (header[end] != ':') continue;
      const std::string parameter = header.substr(at, end - at), type = header.substr(end + 2, 16);
      device_of_[parameter] = 0;
      if (type.find("i64[()]") < 9 || type.find("u8[()]") < 9) sizes_.insert(parameter);
    }
  }

  std::string statement(const std::string& line) {
    const size_t assigned = line.find(" = ");
    if (assigned == std::string::npos) return line;
    if (pick(3) == 0) device_ = pick(devices_);
    const size_t branch = line.find("cond("), comma = line.find(',', branch == std::string::npos ? 0 : branch);
    const bool control = branch != std::string::npos || line.find("while_loop(") != std::string::npos;
    const bool leaves_predicate = branch != std::string::npos && pick(2) == 0;
    std::string out = line.substr(0, assigned + 3);
    for (size_t at = assigned + 3; at < line.size();) {
      size_t end = at;
      while (end < line.size() && is_word(line[end])) ++end;
      if (end == at) {
        out += line[at++];
        continue;
      }
      const std::string word = line.substr(at, end - at);
      const bool size = !control && (sizes_.contains(word) || word[0] == 'k');
      const bool predicate = leaves_predicate && at > branch && at < comma;
      out += size || predicate || line[end] == '=' || line[end] == '(' ? word : brought(word);
      at = end;
    }
    for (size_t at = 0; at < assigned;) {  // what is assigned
      size_t end = at;
      while (end < assigned && is_word(line[end])) ++end;
      if (end > at) device_of_[line.substr(at, end - at)] = device_;
      at = std::max(end, at + 1);
    }
    return out;
  }

  std::string brought(const std::string& word) {
    const auto known = device_of_.find(word);
    if (known == device_of_.end()) return word;
    const std::string there = ", " + std::to_string(device_) + ")";
    if (known->second == device_ && pick(8) != 0) return word;
    if (pick(8) == 0) return "to_device(to_device(" + word + ", " + std::to_string(pick(devices_)) + ")" + there;
    return "to_device(" + word + there;
  }

  uint64_t state_;
  int devices_, device_ = 0;
  std::map<std::string, int> device_of_;
  std::set<std::string> sizes_;
};

inline void spread_over_devices(std::string& text, const std::string& name, uint64_t seed, int devices) {
  if (devices > 1) text = DeviceSpreader(seed, devices).run(text, name);
}

}  // namespace codetta::test

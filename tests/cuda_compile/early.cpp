// SPDX-License-Identifier: Apache-2.0
#include "early.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace codetta::cuda_compile {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r{");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r;") + 1 - begin);
}

// "ld.volatile.global.v2.f32" in parts; "shared::cta" is one of them.
std::vector<std::string_view> parts_of(std::string_view opcode) {
  std::vector<std::string_view> parts;
  while (!opcode.empty()) {
    const size_t dot = std::min(opcode.find('.'), opcode.size());
    parts.push_back(opcode.substr(0, dot));
    opcode.remove_prefix(std::min(dot + 1, opcode.size()));
  }
  return parts;
}

}  // namespace

bool touches_memory(std::string_view instruction) {
  instruction = trimmed(instruction);
  if (instruction.starts_with('@')) {
    const size_t predicate = instruction.find_first_of(" \t");
    if (predicate == std::string_view::npos) return false;
    instruction = trimmed(instruction.substr(predicate));
  }
  const auto parts = parts_of(instruction.substr(0, instruction.find_first_of(" \t")));
  const auto has = [&](std::string_view name) { return std::find(parts.begin(), parts.end(), name) != parts.end(); };
  if (parts.empty() || has("prefetch")) return false;
  const std::string_view what = parts[0];
  if (has("global")) return what != "prefetch" && what != "prefetchu" && what != "isspacep" && what != "cvta";
  if (what == "multimem") return true;
  if (what != "ld" && what != "ldu" && what != "st" && what != "atom" && what != "red") return false;
  return std::none_of(parts.begin(), parts.end(), [](std::string_view part) {
    const std::string_view space = part.substr(0, part.find("::"));
    return space == "param" || space == "shared" || space == "local" || space == "const";
  });
}

std::string too_soon(std::string_view ptx) {
  constexpr std::string_view wait = "griddepcontrol.wait";
  for (size_t at = ptx.find(".entry"); at != std::string_view::npos; at = ptx.find(".entry", at + 1)) {
    const std::string_view entry = ptx.substr(at, ptx.find("\n}", at) - at);
    const std::string_view name = entry.substr(7, entry.find('(') - 7);
    const size_t waits = entry.find(wait);
    if (waits == std::string_view::npos) return fmt::format("{} does not wait for the kernel in front of it\n", name);
    std::string_view text = entry.substr(0, waits);
    while (!text.empty()) {
      // Lines of inline PTX hold several instructions, some with labels in front.
      const size_t end = std::min(text.find_first_of("\n;"), text.size());
      if (const std::string_view instruction = text.substr(0, end); touches_memory(instruction))
        return fmt::format("{} touches memory before it waits for the kernel in front of it: {}\n", name,
                           trimmed(instruction));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  return {};
}

}  // namespace codetta::cuda_compile

// SPDX-License-Identifier: Apache-2.0
#include "compile_gate/choice.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdlib>

namespace codetta::compile_gate {

bool parse(int argc, char** argv, Choice& choice, std::span<const Option> own) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    const auto option = std::find_if(own.begin(), own.end(), [&](const Option& o) { return o.name == name; });
    const bool is_own = option != own.end();
    if (is_own && std::holds_alternative<bool*>(option->value)) {
      *std::get<bool*>(option->value) = true;
      continue;
    }
    if (name == "--list") {
      choice.list = true;
      continue;
    }
    if (i + 1 == argc) return false;
    const char* value = argv[++i];
    if (is_own) {
      if (int* const* number = std::get_if<int*>(&option->value))
        **number = std::max(1, std::atoi(value));
      else
        *std::get<std::string*>(option->value) = value;
    } else if (name == "--slice") {
      choice.slice = value;
    } else if (name == "--only") {
      choice.only = value;
    } else if (name == "--count") {
      choice.count = std::strtoull(value, nullptr, 10);
    } else if (name == "--part") {
      char* slash = nullptr;
      choice.part = std::strtoull(value, &slash, 10);
      choice.parts = *slash == '/' ? std::strtoull(slash + 1, nullptr, 10) : 0;
      if (choice.part < 1 || choice.part > choice.parts) return false;
    } else {
      return false;
    }
  }
  return true;
}

uint64_t hash_of(std::string_view text, uint64_t seed) {
  for (const char c : text) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return seed;
}

double processor_seconds(int who) {
  rusage used{};
  ::getrusage(who, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

std::string spread_of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&](double share) {
    return seconds.empty() ? 0 : seconds[static_cast<size_t>(share * static_cast<double>(seconds.size() - 1))];
  };
  return fmt::format("{:.3f} s (median), {:.3f} s (nine of ten), {:.3f} s (all), {} above 0.3 s", at(0.5), at(0.9),
                     at(1), std::count_if(seconds.begin(), seconds.end(), [](double t) { return t > 0.3; }));
}

}  // namespace codetta::compile_gate

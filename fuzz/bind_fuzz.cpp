// SPDX-License-Identifier: Apache-2.0
// A text with what its parameters are bound to, through typing and the passes to a plan: refused with a diagnostic, or
// a graph that verifies and prints and reads back, and an epilogue program without defect.
#include <random>

#include "frontend/lower.hpp"
#include "opt/passes.hpp"
#include "plan/memory_check.hpp"
#include "problem.hpp"
#include "support.hpp"

namespace {

using namespace codetta;
using namespace codetta::fuzz;

void try_program(const diag::SourceRef& source) {
  const auto program = frontend::parse_program(source);
  if (!program) return;
  const auto bound = ir::bind_program(*program);
  if (!bound) return check_error(bound.error(), 200, 299);
  require(ir::verify(*bound).has_value());
  const auto optimized = opt::optimize(*bound);
  require(optimized.has_value());
  const auto plan = plan::plan_program(optimized->graph, Target{}, {}, {});
  if (!plan) return check_error(plan.error(), 300, 603);  // E0603: temporaries beyond 2^63 bytes
  require(plan::check_memory(plan->temporaries, plan->memory).has_value());
  require(!plan::to_string(*plan).empty() && !plan::memory_json(*plan).empty());
}

// Lines are what epilogues are made of: one of `from`, somewhere into `text`.
std::string splice(std::string_view text, std::string_view from, std::minstd_rand& random) {
  const auto line_start = [&](std::string_view s) {
    const size_t at = s.find('\n', s.empty() ? 0 : random() % s.size());
    return at == std::string_view::npos ? size_t{0} : at + 1;
  };
  const size_t begin = line_start(from), to = line_start(text);
  const std::string_view line = from.substr(begin, from.find('\n', begin) - begin);
  std::string result(text.substr(0, to));
  result += line;
  result += '\n';
  result += text.substr(random() % 3 == 0 ? std::min(text.size(), text.find('\n', to)) : to);
  return result;
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// Text and choices are mutated apart; now and then a new random epilogue or one of its lines comes in.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  std::minstd_rand random(seed);
  std::string made;
  const auto [text, choices] = parts_of(view_of(data, size));
  const auto mutate = [&](std::string_view old) {
    std::string bytes(old);
    const size_t used = bytes.size();
    bytes.resize(used + 64);
    bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(bytes.data()), used, bytes.size()));
    return bytes;
  };
  const unsigned way = random() % 32;
  if (way == 0) {
    made = random_input(random());
  } else if (way < 12) {
    made = std::string(text) + '\0' + mutate(choices);
  } else if (way < 16) {
    const std::string other = random_input(random());
    made = splice(text, parts_of(other).first, random) + '\0' + std::string(choices);
  } else {
    made = mutate(text) + '\0' + std::string(choices);
  }
  made.resize(std::min(made.size(), max_size));
  std::copy(made.begin(), made.end(), data);
  return made.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto [text, choices] = parts_of(view_of(data, size));
  const diag::SourceRef source = source_of(std::string(text));
  const auto function = frontend::parse_epilogue(source);
  if (!function) {
    try_program(source);
    return 0;
  }
  const Bindings bindings = bindings_of(*function, choices);
  const auto bound = ir::bind_epilogue(*function, bindings.arguments, bindings.facts);
  if (!bound) {
    check_error(bound.error(), 200, 299);
    return 0;
  }
  (void)checked_plan(*bound, bindings);
  return 0;
}

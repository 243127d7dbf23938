// SPDX-License-Identifier: Apache-2.0
// Targets as text: cpu[:isa] | cuda[:sm_NN[a|f]] | hip:gfxN | metal[:family] | cutlass:sm_NN.
#include "codetta/target.hpp"

#include <algorithm>
#include <vector>

#include "base/kept.hpp"
#include "diag/diagnostic.hpp"
#include "types/machine.hpp"

namespace codetta {
namespace {

struct BackendInfo {
  Backend backend;
  std::string_view name;
  bool needs_architecture;
  std::string_view grammar;  // of what follows the colon
  std::vector<std::string> examples;
};

const std::vector<BackendInfo>& backends() {
  static const auto& table = base::kept(std::vector<BackendInfo>{
      {Backend::cpu, "cpu", false, "an instruction set", {}},
      {Backend::cuda,
       "cuda",
       false,
       "sm_NN, sm_NNa or sm_NNf",
       {"sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_100f", "sm_103a", "sm_120a",
        "sm_120f"}},
      {Backend::hip,
       "hip",
       false,
       "gfx and a number",
       {"gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1151", "gfx1200", "gfx1201"}},
      {Backend::metal,
       "metal",
       false,
       "a family of GPUs",
       {"apple7", "apple8", "apple9", "apple10", "metal3", "metal4", "mac2"}},
      {Backend::cutlass,
       "cutlass",
       true,
       "sm_NN or sm_NNa",
       {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_120a"}},
  });
  return table;
}

const BackendInfo& info_of(Backend backend) {  // casts make enums of anything
  const auto i = static_cast<size_t>(backend);
  return backends()[i < backends().size() ? i : 0];
}

bool is_arch_digit(char c) { return c >= '0' && c <= '9'; }

// User text in a message: short, and one line.
std::string shown(std::string_view text) {
  std::string out(text.substr(0, 60));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  if (text.size() > 60) out += "...";
  return out;
}

template <class Range, class F>
std::string list_of(const Range& range, F&& name) {
  std::string text;
  for (const auto& item : range) {
    if (!text.empty()) text += ", ";
    text += name(item);
  }
  return text;
}

// sm_90, sm_90a, sm_100f: two or three digits; `a` since 90, `f` since 100.
bool is_sm(std::string_view arch, bool family_allowed) {
  if (!arch.starts_with("sm_")) return false;
  arch.remove_prefix(3);
  int number = 0;
  size_t digits = 0;
  while (digits < arch.size() && digits < 4 && is_arch_digit(arch[digits]))
    number = number * 10 + (arch[digits++] - '0');
  if (digits < 2 || digits > 3 || arch[0] == '0') return false;
  const std::string_view suffix = arch.substr(digits);
  return suffix.empty() || (suffix == "a" && number >= 90) || (suffix == "f" && family_allowed && number >= 100);
}

// gfx90a, gfx942, gfx1100: decimal major, then minor and stepping in hexadecimal.
bool is_gfx(std::string_view arch) {
  if (!arch.starts_with("gfx") || arch.size() < 6 || arch.size() > 7) return false;
  const auto hex = [](char c) { return is_arch_digit(c) || (c >= 'a' && c <= 'f'); };
  const std::string_view number = arch.substr(3);
  return is_arch_digit(number[0]) && is_arch_digit(number[number.size() - 3]) &&
         std::all_of(number.begin(), number.end(), hex);
}

bool is_architecture(const BackendInfo& backend, std::string_view arch) {
  switch (backend.backend) {
    case Backend::cuda:
      return is_sm(arch, true);
    case Backend::cutlass:
      return is_sm(arch, false);
    case Backend::hip:
      return is_gfx(arch);
    default:
      return std::find(backend.examples.begin(), backend.examples.end(), arch) != backend.examples.end();
  }
}

Error unknown_target(std::string_view name) {
  std::vector<std::string> names;
  for (const BackendInfo& b : backends()) names.emplace_back(b.name);
  auto e = diag::error(diag::Code::target_unknown, "unknown target '" + shown(name) + "'");
  e.reason("targets are cpu[:isa], cuda[:sm_NN], hip[:gfxN], metal[:family] and cutlass:sm_NN");
  const std::string near = diag::nearest(name.substr(0, 60), names);
  return near.empty() ? e.help("use 'cpu' for the best instruction set of this machine")
                      : e.help("did you mean '" + near + "'?");
}

Error unknown_architecture(const BackendInfo& backend, std::string_view arch, const std::vector<std::string>& known) {
  const bool is_cpu = backend.backend == Backend::cpu;
  const std::string target(backend.name);
  auto e = arch.empty() ? diag::error(diag::Code::target_architecture,
                                      "target '" + target + "' needs " +
                                          (is_cpu ? "an instruction set" : "an architecture") + " after the colon")
                        : diag::error(diag::Code::target_architecture,
                                      std::string("unknown ") + (is_cpu ? "instruction set" : "architecture") + " '" +
                                          shown(arch) + "' of target '" + target + "'");
  e.reason(target + " takes " + std::string(backend.grammar) + ", such as " +
           list_of(known, [](const std::string& s) { return s; }));
  std::string near = diag::nearest(arch.substr(0, 60), known);
  const auto contains = [&](const std::string& name) {
    return arch.size() > 2 && name.find(arch) != std::string::npos;
  };
  if (const auto longer = std::find_if(known.begin(), known.end(), contains); near.empty() && longer != known.end())
    near = *longer;  // vnni for avx512_vnni
  if (!near.empty()) return e.help("did you mean '" + target + ":" + near + "'?");
  return e.help(backend.needs_architecture ? "write '" + target + ":" + known.front() + "', say"
                                           : "write '" + target + "' alone, or one of the names above");
}

}  // namespace

Result<Target> Target::parse(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const auto& table = backends();
  const auto backend =
      std::find_if(table.begin(), table.end(), [name](const BackendInfo& b) { return b.name == name; });
  if (backend == table.end()) return unknown_target(name);
  const bool has_arch = colon != std::string_view::npos;
  const std::string_view arch = has_arch ? text.substr(colon + 1) : std::string_view();
  Target target;
  target.backend = backend->backend;
  if (backend->backend == Backend::cpu) {
    if (!has_arch) return host();
    std::vector<std::string> names;
    for (const types::IsaInfo& isa : types::all_isas()) {
      if (isa.name == arch) {
        target.isa = isa.isa;
        return target;
      }
      names.emplace_back(isa.name);
    }
    return unknown_architecture(*backend, arch, names);
  }
  if (!has_arch && !backend->needs_architecture) return target;
  if (!is_architecture(*backend, arch)) return unknown_architecture(*backend, arch, backend->examples);
  target.arch = arch;
  return target;
}

Target Target::host() {
  Target target;
  for (const types::IsaInfo& isa : types::all_isas()) {
    if (cpu_supports(isa.isa)) target.isa = isa.isa;
  }
  return target;
}

std::string Target::to_string() const {
  std::string text(info_of(backend).name);
  if (backend == Backend::cpu) {
    text += ":";
    text += isa_name(isa);
  } else if (!arch.empty()) {
    text += ":";
    text += arch;
  }
  return text;
}

Result<void> types::cpu_target_runs(const Target& target) {
  if (cpu_supports(target.isa)) return {};
  const types::CpuFacts facts = types::read_cpu_facts();
  const types::IsaInfo& wanted = types::isa_info(target.isa);
  const std::string has = list_of(facts.isas, [](CpuIsa isa) { return std::string(isa_name(isa)); });
  return diag::error(diag::Code::target_unavailable,
                     "this CPU lacks the instruction set '" + std::string(wanted.name) + "'")
      .reason("it needs " + std::string(wanted.has) + "; " + facts.name + " has " + has)
      .help("use '" + Target::host().to_string() + "', or run on a machine that has it");
}

}  // namespace codetta

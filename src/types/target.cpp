// SPDX-License-Identifier: Apache-2.0
// Targets as text: cpu[:isa] | cuda[:sm_NN[a|f]] | hip:gfxN | metal[:family] | cutlass:sm_NN.
#include "codetta/target.hpp"

#include <algorithm>
#include <vector>

#include "diag/diagnostic.hpp"
#include "types/machine.hpp"

namespace codetta {
namespace {

struct BackendInfo {
  Backend backend;
  std::string_view name;
  bool needs_architecture;
  std::string_view grammar;  // of what follows the colon
};

constexpr BackendInfo backends[] = {
    {Backend::cpu, "cpu", false, "an instruction set"},     {Backend::cuda, "cuda", false, "sm_NN, sm_NNa or sm_NNf"},
    {Backend::hip, "hip", false, "gfx and a number"},       {Backend::metal, "metal", false, "a family of GPUs"},
    {Backend::cutlass, "cutlass", true, "sm_NN or sm_NNa"},
};

struct Architecture {
  Backend backend;
  std::string_view name;
  bool example;  // named where another one is refused
};

constexpr Architecture architectures[] = {
#define CODETTA_ARCHITECTURE(backend, name, example) {Backend::backend, #name, example},
#include "types/architectures.def"
#undef CODETTA_ARCHITECTURE
};

// What may follow the colon, the examples first. CUTLASS has kernels for NVIDIA's, but none for a family.
struct Names {
  std::vector<std::string> examples, others;
};
Names names_of(Backend backend) {
  Names names;
  if (backend == Backend::cpu) {
    for (const types::IsaInfo& isa : types::all_isas()) names.examples.emplace_back(isa.name);
  }
  const bool cutlass = backend == Backend::cutlass;
  for (const Architecture& one : architectures) {
    if (one.backend != (cutlass ? Backend::cuda : backend) || (cutlass && one.name.ends_with('f'))) continue;
    const bool example = one.example && !(cutlass && one.name == "sm_75");  // its visitors begin with sm_80
    (example ? names.examples : names.others).emplace_back(one.name);
  }
  return names;
}

// The most alike; of several, the one that begins most alike.
std::string nearest_of(const Names& names, std::string_view arch) {
  std::vector<std::string> known = names.examples;
  known.insert(known.end(), names.others.begin(), names.others.end());
  const auto alike = [&](const std::string& name) {
    return std::mismatch(name.begin(), name.end(), arch.begin(), arch.end()).first - name.begin();
  };
  std::stable_sort(known.begin(), known.end(),
                   [&](const std::string& a, const std::string& b) { return alike(a) > alike(b); });
  const std::string near = diag::nearest(arch.substr(0, 60), known);
  if (!near.empty() || arch.size() <= 2) return near;
  const auto longer = std::find_if(known.begin(), known.end(), [&](const std::string& name) {
    return name.find(arch) != std::string::npos;  // avx512_vnni for vnni
  });
  return longer == known.end() ? std::string() : *longer;
}

const BackendInfo& info_of(Backend backend) {  // casts make enums of anything
  const auto i = static_cast<size_t>(backend);
  return backends[i < std::size(backends) ? i : 0];
}

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

Error unknown_target(std::string_view name) {
  std::vector<std::string> names;
  for (const BackendInfo& b : backends) names.emplace_back(b.name);
  auto e = diag::error(diag::Code::target_unknown, "unknown target '" + shown(name) + "'");
  e.reason("targets are cpu[:isa], cuda[:sm_NN], hip[:gfxN], metal[:family] and cutlass:sm_NN");
  const std::string near = diag::nearest(name.substr(0, 60), names);
  return near.empty() ? e.help("use 'cpu' for the best instruction set of this machine")
                      : e.help("did you mean '" + near + "'?");
}

Error unknown_architecture(const BackendInfo& backend, std::string_view arch, const Names& names) {
  const bool is_cpu = backend.backend == Backend::cpu;
  const std::string target(backend.name);
  auto e = arch.empty() ? diag::error(diag::Code::target_architecture,
                                      "target '" + target + "' needs " +
                                          (is_cpu ? "an instruction set" : "an architecture") + " after the colon")
                        : diag::error(diag::Code::target_architecture,
                                      std::string("unknown ") + (is_cpu ? "instruction set" : "architecture") + " '" +
                                          shown(arch) + "' of target '" + target + "'");
  e.reason(target + " takes " + std::string(backend.grammar) + ", such as " +
           list_of(names.examples, [](const std::string& s) { return s; }));
  // A HIP processor that exists but has no kernels would be refused next.
  const std::string near = nearest_of(backend.backend == Backend::hip ? Names{names.examples, {}} : names, arch);
  if (!near.empty()) return e.help("did you mean '" + target + ":" + near + "'?");
  return e.help(backend.needs_architecture ? "write '" + target + ":" + names.examples.front() + "', say"
                                           : "write '" + target + "' alone, or one of the names above");
}

}  // namespace

Result<Target> Target::parse(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const auto* const backend =
      std::find_if(std::begin(backends), std::end(backends), [name](const BackendInfo& b) { return b.name == name; });
  if (backend == std::end(backends)) return unknown_target(name);
  Target target;
  target.backend = backend->backend;
  if (colon == std::string_view::npos && !backend->needs_architecture)
    return target.backend == Backend::cpu ? host() : target;
  const std::string_view arch = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  const Names names = names_of(target.backend);
  const auto holds = [&](const std::vector<std::string>& some) {
    return std::find(some.begin(), some.end(), arch) != some.end();
  };
  if (!holds(names.examples) && !holds(names.others)) return unknown_architecture(*backend, arch, names);
  if (target.backend != Backend::cpu) {
    target.arch = arch;
    return target;
  }
  for (const types::IsaInfo& isa : types::all_isas()) {
    if (isa.name == arch) target.isa = isa.isa;
  }
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

// SPDX-License-Identifier: Apache-2.0
#include "differential/compiled_sources.hpp"

#include <algorithm>

#include "emit/emit.hpp"
#include "runtime/cpu/module.hpp"

namespace codetta::test {
namespace {

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

}  // namespace

void CompiledSources::want(const package::Kernel& kernel) {
  if (kernel.source.empty()) return;
  std::vector<Wanted>& group = wanted_[kernel.gcc_flags];
  const bool known =
      std::any_of(group.begin(), group.end(), [&](const Wanted& w) { return w.source == kernel.source; });
  const bool is_fused = package::cpu(kernel.config).family == package::CpuFamily::Fused;
  if (!known) group.push_back({kernel.source, kernel.symbol, is_fused});
}

void CompiledSources::compile(const toolchain::HostCompiler& compiler) {
  for (const auto& [flags, group] : wanted_) {
    if (group.size() < 2 || compiler.kind != toolchain::CompilerKind::Gcc) continue;
    const std::string digest(emit::entry_digest_symbol);
    std::string text;
    for (size_t i = 0; i < group.size(); ++i) {
      const std::string number = std::to_string(i);
      std::string one = group[i].source;
      replace_all(one, group[i].symbol + "(", group[i].symbol + "_" + number + "(");
      replace_all(one, digest, digest + "_" + number);
      text += "#undef CODETTA_LANES\n#undef CODETTA_FN\n#undef CODETTA_MEMBER\nnamespace epilogue_" + number + " {\n" +
              one + "}\n";
    }
    const auto output = toolchain::compile(compiler, {std::move(text), flags, "several epilogues"}, {});
    if (!output) continue;
    const auto module =
        runtime::cpu::Module::load(output->object, digest + "_0", std::string(emit::entry_digest_placeholder));
    if (!module) continue;
    for (size_t i = 0; i < group.size(); ++i) {
      runtime::KernelEntry entry;
      entry.module = *module;
      void* symbol = (*module)->symbol(group[i].symbol + "_" + std::to_string(i));
      if (symbol == nullptr) continue;
      if (group[i].is_fused) {
        entry.fused = reinterpret_cast<cpu::FusedFunction>(symbol);
      } else {
        entry.function = reinterpret_cast<cpu::EpilogueFunction>(symbol);
      }
      made_.emplace(std::pair(flags, group[i].source), std::move(entry));
    }
  }
  wanted_.clear();
}

const runtime::KernelEntry* CompiledSources::find(const package::Kernel& kernel) const {
  const auto at = made_.find({kernel.gcc_flags, kernel.source});
  return at == made_.end() ? nullptr : &at->second;
}

}  // namespace codetta::test

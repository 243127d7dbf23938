// SPDX-License-Identifier: Apache-2.0
// Discovery: every family answers with candidates or a reason; ranking by the cost model.
#include "plan/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/families.hpp"

namespace codetta::plan {

Discovery discover(const package::EpilogueProgram& epilogue, const GemmShape& shape, const Target& target,
                   const MachineFacts& machine) {
  Discovery discovery;
  const auto refuse_all = [&](diag::Code code, std::string text) {
    discovery.rejections.push_back({static_cast<uint16_t>(code), {}, std::move(text), {}});
    return std::move(discovery);
  };
  if (target.backend != Backend::cpu) {
    return refuse_all(diag::Code::target_without_families,
                      fmt::format("{} has no kernel families in this version; cpu has", target.to_string()));
  }
  if (shape.accumulator != DType::f32 && shape.accumulator != DType::f64 && shape.accumulator != DType::i32) {
    return refuse_all(diag::Code::accumulator_unsupported,
                      fmt::format("{} x {} accumulates in {}; CPU kernels accumulate in f32, f64 or i32",
                                  dtype_name(shape.a), dtype_name(shape.b), dtype_name(shape.accumulator)));
  }
  MachineFacts facts = machine;
  facts.isa = target.isa;
  const codetta::cpu::MicroTable* table = codetta::cpu::micro_table(target.isa);
  if (table == nullptr)
    table = codetta::cpu::micro_table(
        CpuIsa::generic);  // another architecture: its blocks are those of the generic kernels
  for (const CpuFamilyInfo& family : cpu_families()) {
    FamilyProblem problem{epilogue, shape, facts, family, table};
    if (auto no = refuse(problem)) {
      discovery.rejections.push_back(*std::move(no));
      continue;
    }
    for (const CpuGemmConfig& config : configurations(problem)) {
      Candidate candidate{config, kernel_name(problem, config), cost_terms(problem, config), 0};
      for (const CostTerm& term : candidate.terms) candidate.microseconds += term.microseconds;
      discovery.candidates.push_back(std::move(candidate));
    }
  }
  std::stable_sort(discovery.candidates.begin(), discovery.candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     if (a.microseconds != b.microseconds) return a.microseconds < b.microseconds;
                     const auto family = [](const Candidate& c) { return package::cpu(c.config).family; };
                     if (family(a) != family(b)) return family(a) < family(b);
                     return a.name < b.name;
                   });
  return discovery;
}

}  // namespace codetta::plan

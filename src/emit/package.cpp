// SPDX-License-Identifier: Apache-2.0
// Plan -> Package.
#include "emit/package.hpp"

#include <map>

#include "base/digest.hpp"
#include "diag/diagnostic.hpp"
#include "emit/emit.hpp"

namespace codetta::emit {

bool is_plain_store(const package::EpilogueProgram& program) {
  if (program.phases.size() != 1 || program.split.ways != 1 || !program.reductions.empty() ||
      program.operands.size() != 1)
    return false;
  const package::Phase& phase = program.phases[0];
  if (phase.insts.size() != 1 || phase.insts[0].kind != package::Inst::Kind::Accumulator || phase.stores.size() != 1)
    return false;
  const package::Operand& out = program.operands[0];
  return out.access == package::Access::Full && out.unit_stride && out.dtype == program.accumulator &&
         out.offsets.empty();
}

namespace {

// "add_relu_cast": what the epilogue does, in a few words.
std::string summary(const package::EpilogueProgram& program) {
  constexpr size_t limit = 4;
  std::string result;
  size_t words = 0;
  for (const package::Phase& phase : program.phases) {
    for (const package::Inst& inst : phase.insts) {
      if (inst.kind != package::Inst::Kind::Op || words == limit) continue;
      result += std::string(types::op_info(inst.op).name) + "_";
      ++words;
    }
  }
  return result.empty() ? "store_" : result;
}

}  // namespace

Result<package::Package> emit_package(const plan::Plan& plan, const PackageOptions& options) {
  package::Package result;
  result.name = options.name;
  result.target = plan.target;
  result.buffers = plan.buffers;
  result.steps = plan.steps;
  result.step_lists = plan.step_lists;
  result.pools = plan.pools;
  result.build_id = options.build_id;
  std::map<std::string, std::string> named;  // name -> source: a clash of the short names would mix up kernels
  for (const plan::PlannedKernel& planned : plan.kernels) {
    package::Kernel kernel;
    kernel.config = planned.discovery.candidates[planned.chosen].config;
    kernel.epilogue = planned.lowered.program;
    if (const auto* cuda = std::get_if<package::CudaGemmConfig>(&kernel.config)) {
      CODETTA_TRY(CudaSource source,
                  emit_cuda_kernel(kernel.epilogue, *cuda, {.arch = plan.target.arch, .strict = options.strict}));
      kernel.source = std::move(source.text);
      kernel.nvrtc_flags = std::move(source.flags);
      kernel.entries = std::move(source.entries);
      kernel.maps = std::move(source.maps);
    } else if (const auto* map = std::get_if<package::CudaMapConfig>(&kernel.config)) {
      CODETTA_TRY(CudaSource source,
                  emit_cuda_map(kernel.epilogue, *map, {.arch = plan.target.arch, .strict = options.strict}));
      kernel.source = std::move(source.text);
      kernel.nvrtc_flags = std::move(source.flags);
      kernel.entries = std::move(source.entries);
    } else if (const auto* config = std::get_if<package::CpuGemmConfig>(&kernel.config);
               config != nullptr && config->family == package::CpuFamily::Fused) {
      CODETTA_TRY(FusedSource source, emit_cpu_fused(kernel.epilogue, config->a_dtype, config->b_dtype,
                                                     {.isa = plan.target.isa, .strict = options.strict}));
      kernel.source = std::move(source.text);
      kernel.gcc_flags = std::move(source.gcc_flags);
      kernel.clang_flags = std::move(source.clang_flags);
      kernel.symbol = std::move(source.entry);
    } else if (!is_plain_store(kernel.epilogue)) {
      CODETTA_TRY(EmittedSource source,
                  emit_cpu_epilogue(kernel.epilogue, {.isa = config != nullptr ? config->isa : plan.target.isa,
                                                      .strict = options.strict}));
      kernel.source = std::move(source.text);
      kernel.gcc_flags = std::move(source.gcc_flags);
      kernel.clang_flags = std::move(source.clang_flags);
      kernel.symbol = std::move(source.entry);
    }
    const std::string digest = base::digest_of(kernel.source.empty() ? kernel.epilogue.encode() : kernel.source).hex();
    kernel.name = "codetta_" + summary(kernel.epilogue) + digest.substr(0, 8);
    const auto [at, fresh] = named.emplace(kernel.name, kernel.source);
    if (!fresh && at->second != kernel.source) {
      return diag::error(diag::Code::internal, "two kernels of one package have the same name")
          .reason(kernel.name + " names two different sources")
          .help("change the program slightly, and report this");
    }
    result.kernels.push_back(std::move(kernel));
  }
  return result;
}

}  // namespace codetta::emit

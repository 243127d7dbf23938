// SPDX-License-Identifier: Apache-2.0
#include "driver/build_apart.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/digest.hpp"
#include "driver/program_kernels.hpp"
#include "emit/emit.hpp"
#include "emit/package.hpp"

namespace codetta::driver {

namespace {

using package::Buffer;

// Of one kernel of the package, from all its launches.
struct Callers {
  std::set<size_t> operands;  // taken to lie side by side, of tensors that the caller lays out
  bool rows = false;          // it reads rows of an A of the caller's, and nothing else: the fused form
};

std::vector<Callers> callers_of(const emit::host::Program& program, const plan::Plan& plan,
                                const std::vector<uint32_t>& kernel_of, const ConstantValues& values) {
  std::vector<Callers> all(program.package->kernels.size());
  const auto of_caller = [&](uint32_t b) {
    const Buffer& buffer = plan.buffers[b];
    if (buffer.is_scalar || buffer.role == Buffer::Role::Temporary) return false;
    return buffer.role == Buffer::Role::Output ||
           (buffer.role == Buffer::Role::Argument && !is_constant(values, buffer.name));
  };
  const auto add = [&](uint32_t kernel, const std::vector<uint32_t>& arguments) {
    const package::EpilogueProgram& epilogue = plan.kernels[kernel].lowered.program;
    for (size_t i = 0; i < epilogue.operands.size(); ++i) {
      const package::Operand& operand = epilogue.operands[i];
      if (operand.unit_stride && operand.argument < arguments.size() && of_caller(arguments[operand.argument]))
        all[kernel_of[kernel]].operands.insert(i);
    }
  };
  const auto look = [&](const package::StepList& list) {
    std::map<uint32_t, uint32_t> whole;  // by slice: what it is of
    for (const package::Step& step : list) {
      const auto* view = std::get_if<package::Reinterpret>(&step);
      if (view != nullptr && !plan.buffers[view->buffer].begin.empty()) whole[view->buffer] = view->source;
      const auto* launch = std::get_if<package::LaunchKernel>(&step);
      if (launch == nullptr) continue;
      add(launch->kernel, launch->arguments);
      if (!launch->product) continue;
      for (const package::Prologue& made : launch->product->b_made) add(made.kernel, made.arguments);
      const uint32_t k = kernel_of[launch->kernel];
      const auto* config = std::get_if<package::CpuGemmConfig>(&program.package->kernels[k].config);
      const auto slice = whole.find(launch->product->a);
      if (config != nullptr && config->family == package::CpuFamily::Fused)
        all[k].rows = all[k].rows || of_caller(slice == whole.end() ? launch->product->a : slice->second);
    }
  };
  look(plan.steps);
  for (const package::StepList& list : plan.step_lists) look(list);
  return all;
}

}  // namespace

Result<void> add_apart(emit::host::Program& program, const plan::Plan& plan, const ConstantValues& values,
                       std::vector<KernelUnit>& units) {
  const std::vector<uint32_t> kernel_of = kernels_of(plan, *program.package);
  const std::vector<Callers> callers = callers_of(program, plan, kernel_of, values);
  const auto loosen = [](package::EpilogueProgram& epilogue, const Callers& of) {
    for (const size_t operand : of.operands) epilogue.operands[operand].unit_stride = false;
  };
  // A kernel of the user's is emitted with what it hands its result over to.
  plan::Plan loose;
  std::vector<uint32_t> loose_kernel;
  const auto& kernels = program.package->kernels;
  for (size_t k = 0; k < kernels.size(); ++k) {
    emit::host::KernelFunctions& functions = program.apart.emplace_back();
    if (callers[k].operands.empty() && !callers[k].rows) continue;
    KernelUnit unit;
    if (package::is_user(kernels[k].config)) {
      if (loose_kernel.empty()) {
        loose = plan;
        for (size_t p = 0; p < loose.kernels.size(); ++p)
          loosen(loose.kernels[p].lowered.program, callers[kernel_of[p]]);
      }
      CODETTA_TRY(package::Package package, emit::emit_package(loose, {}, &loose_kernel));
      const auto at = static_cast<size_t>(std::find(kernel_of.begin(), kernel_of.end(), k) - kernel_of.begin());
      package::Kernel& kernel = package.kernels[loose_kernel[at]];
      functions.user = add_unit(units, {std::move(kernel.source), std::move(kernel.gcc_flags),
                                        std::move(kernel.clang_flags), std::move(kernel.symbol), kernel.name});
      continue;
    }
    package::EpilogueProgram epilogue = kernels[k].epilogue;
    loosen(epilogue, callers[k]);
    const auto* config = std::get_if<package::CpuGemmConfig>(&kernels[k].config);
    CODETTA_TRY(emit::EmittedSource source,
                emit::emit_cpu_epilogue(epilogue, {.isa = config != nullptr ? config->isa : program.package->target.isa,
                                                   .strict = !epilogue.contracts}));
    const std::string& name = kernels[k].name;
    functions.tiles = add_unit(
        units, {source.text, std::move(source.gcc_flags), std::move(source.clang_flags), std::move(source.entry),
                name.substr(0, name.size() - 8) + base::digest_of(source.text).hex().substr(0, 8)});
  }
  return {};
}

}  // namespace codetta::driver

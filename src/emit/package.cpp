// SPDX-License-Identifier: Apache-2.0
// Plan -> Package.
#include "emit/package.hpp"

#include <algorithm>
#include <map>

#include "base/digest.hpp"
#include "diag/diagnostic.hpp"
#include "emit/emit.hpp"
#include "emit/gpu_steps.hpp"
#include "emit/metal.hpp"
#include "package/cpu_call.hpp"
#include "plan/families_metal.hpp"

namespace codetta::emit {

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

// Names and declared sizes of arguments decide nothing in a kernel.
package::EpilogueProgram without_names(package::EpilogueProgram program) {
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    program.arguments[i].name = "a" + std::to_string(i);
    program.arguments[i].shape.clear();
  }
  return program;
}

Result<package::Kernel> emit_kernel(const plan::PlannedKernel& planned, const Target& target, bool all_strict) {
  const bool strict = all_strict || !planned.lowered.program.contracts;
  package::Kernel kernel;
  kernel.config = planned.discovery.candidates[planned.chosen].config;
  kernel.epilogue = planned.lowered.program;
  if (const auto* gpu = std::get_if<package::GpuUserConfig>(&kernel.config)) {
    const plan::UserConfiguration& chosen = planned.configurations[planned.chosen];
    CODETTA_TRY(EmittedSource source,
                emit_gpu_user(*planned.user, kernel.epilogue, planned.hook ? &*planned.hook : nullptr, chosen, *gpu,
                              {.arch = target.arch, .strict = strict}));
    kernel.source = std::move(source.text);
    kernel.nvrtc_flags = std::move(source.gcc_flags);
    kernel.entries.push_back({package::GpuEntry::Kind::Phase, 0, std::move(source.entry), 1, 0, 1});
    kernel.name = "codetta_" + planned.user->name + "_" + base::digest_of(kernel.source).hex().substr(0, 8);
    return kernel;
  }
  if (planned.user) {
    CODETTA_TRY(EmittedSource source,
                emit_cpu_user(*planned.user, kernel.epilogue, planned.hook ? &*planned.hook : nullptr,
                              planned.configurations[planned.chosen], {.isa = target.isa, .strict = strict}));
    kernel.source = std::move(source.text);
    kernel.gcc_flags = std::move(source.gcc_flags);
    kernel.clang_flags = std::move(source.clang_flags);
    kernel.symbol = std::move(source.entry);
    kernel.name = "codetta_" + planned.user->name + "_" + base::digest_of(kernel.source).hex().substr(0, 8);
    return kernel;
  }
  if (package::is_vendor(kernel.config)) {  // nothing to emit
    kernel.name = "codetta_vendor_" + base::digest_of(without_names(kernel.epilogue).encode()).hex().substr(0, 8);
    return kernel;
  }
  if (target.backend == Backend::metal) {
    const auto* gemm = std::get_if<package::GpuGemmConfig>(&kernel.config);
    const auto* map = std::get_if<package::GpuMapConfig>(&kernel.config);
    const MetalEmitOptions options{.family = std::string(plan::metal_facts(target.arch).arch), .strict = strict};
    CODETTA_TRY(MetalSource source, gemm != nullptr ? emit_metal_kernel(kernel.epilogue, *gemm, options)
                                                    : emit_metal_map(kernel.epilogue, *map, options));
    kernel.source = std::move(source.text);
    kernel.nvrtc_flags = std::move(source.flags);
    kernel.entries = std::move(source.entries);
  } else if (const auto* cuda = std::get_if<package::GpuGemmConfig>(&kernel.config)) {
    CODETTA_TRY(CudaSource source, emit_cuda_kernel(kernel.epilogue, *cuda, {.arch = target.arch, .strict = strict}));
    kernel.source = std::move(source.text);
    kernel.nvrtc_flags = std::move(source.flags);
    kernel.entries = std::move(source.entries);
    kernel.maps = std::move(source.maps);
  } else if (const auto* map = std::get_if<package::GpuMapConfig>(&kernel.config)) {
    CODETTA_TRY(CudaSource source, emit_cuda_map(kernel.epilogue, *map, {.arch = target.arch, .strict = strict}));
    kernel.source = std::move(source.text);
    kernel.nvrtc_flags = std::move(source.flags);
    kernel.entries = std::move(source.entries);
  } else if (const auto* config = std::get_if<package::CpuGemmConfig>(&kernel.config);
             config != nullptr && config->family == package::CpuFamily::Fused) {
    CODETTA_TRY(FusedSource source, emit_cpu_fused(kernel.epilogue, config->a_dtype, config->b_dtype,
                                                   {.isa = target.isa, .strict = strict}));
    kernel.source = std::move(source.text);
    kernel.gcc_flags = std::move(source.gcc_flags);
    kernel.clang_flags = std::move(source.clang_flags);
    kernel.symbol = std::move(source.entry);
  } else if (!package::only_stores(kernel.epilogue)) {
    CODETTA_TRY(
        EmittedSource source,
        emit_cpu_epilogue(kernel.epilogue, {.isa = config != nullptr ? config->isa : target.isa, .strict = strict}));
    kernel.source = std::move(source.text);
    kernel.gcc_flags = std::move(source.gcc_flags);
    kernel.clang_flags = std::move(source.clang_flags);
    kernel.symbol = std::move(source.entry);
  }
  const std::string digest =
      base::digest_of(kernel.source.empty() ? without_names(kernel.epilogue).encode() : kernel.source).hex();
  kernel.name = "codetta_" + summary(kernel.epilogue) + digest.substr(0, 8);
  return kernel;
}

// The kernels of a package as they come, each once.
class KernelTable {
 public:
  // Errors: E0901 where the short name of the kernel is that of another source.
  Result<uint32_t> add(package::Kernel kernel) {
    const auto [named, fresh_name] = sources_.emplace(kernel.name, kernel.source);
    if (!fresh_name && named->second != kernel.source) {
      return diag::error(diag::Code::internal, "two kernels of one package have the same name")
          .reason(kernel.name + " names two different sources")
          .help("change the program slightly, and report this");
    }
    package::EpilogueProgram nameless = without_names(kernel.epilogue);
    std::vector<uint32_t>& alike = by_contents_[kernel.source + nameless.encode()];
    for (const uint32_t k : alike) {
      if (!(kernels_[k].config == kernel.config)) continue;
      if (!(kernels_[k].epilogue == kernel.epilogue)) kernels_[k].epilogue = std::move(nameless);
      return k;
    }
    alike.push_back(static_cast<uint32_t>(kernels_.size()));
    kernels_.push_back(std::move(kernel));
    return alike.back();
  }
  std::vector<package::Kernel> take() { return std::move(kernels_); }

 private:
  std::vector<package::Kernel> kernels_;
  std::map<std::string, std::string> sources_;                // by name
  std::map<std::string, std::vector<uint32_t>> by_contents_;  // of different configurations
};

package::StepList with_kernels(const package::StepList& steps, const plan::Plan& plan,
                               const std::vector<uint32_t>& kernel_of, bool origins) {
  package::StepList result;
  for (const package::Step& step : steps) {
    const auto* launch = std::get_if<package::LaunchKernel>(&step);
    if (launch == nullptr) {
      result.push_back(step);
      continue;
    }
    if (origins) {
      const plan::KernelAccount& account = plan.kernels[launch->kernel].account;
      for (std::string& line : plan::origin_texts(account)) result.emplace_back(package::Comment{std::move(line)});
      if (std::string gone = removed_text(account); !gone.empty())
        result.emplace_back(package::Comment{std::move(gone)});
    }
    result.push_back(step);
    auto& named = *std::get_if<package::LaunchKernel>(&result.back());
    named.kernel = kernel_of[launch->kernel];
    const plan::PlannedKernel& planned = plan.kernels[launch->kernel];
    if (!planned.configurations.empty()) named.options = planned.configurations[planned.chosen].options;
    if (!named.product) continue;
    for (package::Prologue& made : named.product->b_made) made.kernel = kernel_of[made.kernel];
  }
  return result;
}

// Behind symbols and checks, in front of all that may launch.
void define_kernels(package::StepList& steps, size_t kernels) {
  size_t at = 0;
  while (at < steps.size() && (std::holds_alternative<package::DefineSymbol>(steps[at]) ||
                               std::holds_alternative<package::Check>(steps[at])))
    ++at;
  package::StepList defined;
  for (uint32_t k = 0; k < kernels; ++k) defined.emplace_back(package::DefineKernel{k});
  steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(at), defined.begin(), defined.end());
}

}  // namespace

std::string removed_text(const plan::KernelAccount& account) {
  constexpr size_t most = 6;
  std::vector<std::string> gone;
  for (const plan::HeldOperation& held : account.held) {
    if (held.in_memory || held.how == plan::HeldOperation::How::View) continue;
    gone.push_back((held.name.empty() ? std::string(types::op_info(held.op).name) : held.name) + " " + held.type);
  }
  if (gone.empty()) return {};
  std::string text = "not in memory: ";
  for (size_t i = 0; i < std::min(gone.size(), most); ++i) text += (i == 0 ? "" : ", ") + gone[i];
  return gone.size() > most ? text + " and " + std::to_string(gone.size() - most) + " more" : text;
}

Result<package::Package> emit_package(const plan::Plan& plan, const PackageOptions& options,
                                      std::vector<uint32_t>* kernel_of) {
  package::Package result;
  result.name = options.name;
  result.target = plan.target;
  result.buffers = plan.buffers;
  result.pools = plan.pools;
  result.result_count = plan.result_count;
  for (const package::Buffer& buffer : plan.buffers)
    result.device_count = std::max(result.device_count, buffer.device + 1);
  result.build_id = options.build_id;
  KernelTable table;
  std::vector<uint32_t> places;
  for (const plan::PlannedKernel& planned : plan.kernels) {
    CODETTA_TRY(package::Kernel kernel, emit_kernel(planned, plan.target, options.strict));
    CODETTA_TRY(const uint32_t place, table.add(std::move(kernel)));
    places.push_back(place);
  }
  result.kernels = table.take();
  result.steps = with_kernels(plan.steps, plan, places, options.origins);
  for (const package::StepList& list : plan.step_lists)
    result.step_lists.push_back(with_kernels(list, plan, places, options.origins));
  add_steps_kernel(result, options.checks_contents);
  if (plan.kernels.size() > 1) define_kernels(result.steps, result.kernels.size());
  if (kernel_of != nullptr) *kernel_of = std::move(places);
  return result;
}

}  // namespace codetta::emit

// SPDX-License-Identifier: Apache-2.0
#include "package/kernel_defect.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace codetta::package {

using Defect = std::optional<std::string>;

// What is copied by tensor maps must be there: operands, and all further Bs or none.
static Defect defect_of_maps(const Kernel& kernel) {
  std::vector<uint32_t> more;
  const auto* gemm = std::get_if<GpuGemmConfig>(&kernel.config);
  const auto items = static_cast<uint32_t>(gemm != nullptr ? gemm->spread_a : 1);
  uint32_t next = 0;  // of A: one for each item, the first in front of all others, the last ones behind them
  for (const CudaTensorMap& map : kernel.maps) {
    const bool further = map.source == CudaTensorMap::Source::MoreB;
    if (map.source == CudaTensorMap::Source::A) {
      const size_t at = static_cast<size_t>(&map - kernel.maps.data());
      if (map.operand != next || at != (next == 0 ? 0 : kernel.maps.size() - items + next))
        return fmt::format("A's map {} is not where {} items have it", map.operand, items);
      ++next;
    }
    if (map.source == CudaTensorMap::Source::A || map.source == CudaTensorMap::Source::B) continue;
    if (map.operand >= kernel.epilogue.operands.size()) return fmt::format("there is no operand {}", map.operand);
    if (further) more.push_back(map.operand);
  }
  if (items > 1 && next != items) return fmt::format("{} items of A's rows have {} maps", items, next);
  if (more.empty() || more == kernel.epilogue.more_b) return std::nullopt;
  return "its maps are not those of its further factors";
}

// What is handed to the library must be there, and be what the library takes it for.
static Defect defect_of_vendor(const Kernel& kernel) {
  const auto* config = std::get_if<CudaVendorConfig>(&kernel.config);
  if (config == nullptr) return std::nullopt;
  const auto has = [](const auto& list, int32_t index) {
    return index < 0 || static_cast<size_t>(index) < list.size();
  };
  const EpilogueProgram& program = kernel.epilogue;
  for (const int32_t operand : {config->d, config->c, config->bias, config->aux, config->scale_a, config->scale_b}) {
    if (!has(program.operands, operand)) return fmt::format("there is no operand {}", operand);
  }
  for (const int32_t argument : {config->alpha_argument, config->beta_argument}) {
    if (!has(program.arguments, argument)) return fmt::format("there is no argument {}", argument);
    if (argument >= 0 && !program.arguments[static_cast<size_t>(argument)].is_scalar)
      return fmt::format("argument {} is no scalar", argument);
  }
  if (config->d < 0 || !program.operands[static_cast<size_t>(config->d)].is_store) return "it stores nothing";
  using Activation = CudaVendorConfig::Activation;
  const bool reads = config->activation == Activation::Dgelu, may = reads || config->activation == Activation::Gelu;
  if ((config->aux >= 0 && !may) || (config->aux < 0 && reads)) return "its second matrix belongs to no activation";
  if (config->aux >= 0 && program.operands[static_cast<size_t>(config->aux)].is_store == reads)
    return "its second matrix is read where it is written, or written where it is read";
  return std::nullopt;
}

Defect defect_of_kernel(const Kernel& kernel, Backend backend) {
  if (is_gpu(kernel.config) != (backend != Backend::cpu)) return " is not for the package's target";
  if (std::holds_alternative<GpuUserConfig>(kernel.config) && kernel.entries.size() != 1)
    return fmt::format(" is of the user's and has {} entry points", kernel.entries.size());
  Defect defect = defect_of_vendor(kernel);
  if (!defect) defect = defect_of_maps(kernel);
  if (defect) return ": " + *defect;
  return std::nullopt;
}

Defect defect_of_factors(const Package& package, const LaunchKernel& s, const Kernel& kernel) {
  const EpilogueProgram& program = kernel.epilogue;
  for (size_t i = 0; i < program.more_b.size(); ++i) {
    const auto* config = std::get_if<GpuGemmConfig>(&kernel.config);
    if (config == nullptr || !shares_a(config->family)) return fmt::format("{} computes one product", kernel.name);
    const uint32_t argument = program.operands[program.more_b[i]].argument;
    if (i >= s.product->more_b.size() || argument >= s.arguments.size() ||
        s.arguments[argument] != s.product->more_b[i])
      return fmt::format("B of product {} is not what the kernel reads", i + 1);
  }
  if (const auto* config = std::get_if<GpuGemmConfig>(&kernel.config);
      !program.spaces.empty() && (config == nullptr || !has_spaces(config->family)))
    return fmt::format("{} computes products of equal columns", kernel.name);
  if (program.factors.empty()) return std::nullopt;
  const auto* config = std::get_if<GpuGemmConfig>(&kernel.config);
  if (!s.product->b_made.empty()) return fmt::format("{} has its factor made twice", kernel.name);
  for (const FactorProgram& made : program.factors) {
    const bool is_a = made.which == FactorProgram::Which::A;
    if (config == nullptr || !makes_factor(config->family, is_a))
      return fmt::format("{} makes no factors", kernel.name);
    if (made.product >= s.product->products()) return fmt::format("there is no product {}", made.product);
    const uint32_t buffer = is_a ? s.product->a : s.product->factor_b(made.product);
    if (made.dtype != (is_a ? config->a_dtype : config->b_dtype))
      return fmt::format("{} makes a factor of another type", kernel.name);
    if (std::find(s.arguments.begin(), s.arguments.end(), buffer) == s.arguments.end())
      return fmt::format("buffer {} ({}) is not read by what makes the factor", buffer, package.buffers[buffer].name);
  }
  return std::nullopt;
}

}  // namespace codetta::package

// SPDX-License-Identifier: Apache-2.0
#include "package/factors.hpp"

#include <algorithm>

namespace codetta::package {

std::vector<uint32_t> factors_read(const Package& package, const LaunchKernel& launch) {
  std::vector<uint32_t> read;
  if (!launch.product) return read;
  const Product& product = *launch.product;
  const EpilogueProgram& program = package.kernels[launch.kernel].epilogue;
  if (!program.makes_a()) read.push_back(product.a);
  if (program.makes_b() || !product.b_made.empty()) return read;
  for (size_t i = 0; i < product.products(); ++i) read.push_back(product.factor_b(i));
  return read;
}

bool leads_by_several(const std::vector<types::Dim>& shape) {
  if (shape.size() < 4) return false;
  const auto may_be_several = [](const types::Dim& dim) { return !(dim == types::Dim::constant(1)); };
  return std::count_if(shape.begin(), shape.end() - 2, may_be_several) > 1;
}

std::vector<uint32_t> uneven_factors(const Package& package) {
  std::vector<uint32_t> found;
  const auto of_caller = [&](uint32_t b) {
    const Buffer& buffer = package.buffers[b];
    return (buffer.role == Buffer::Role::Argument || buffer.role == Buffer::Role::Output) &&
           leads_by_several(buffer.shape);
  };
  const auto look = [&](const StepList& list) {
    for (const Step& step : list) {
      const auto* launch = std::get_if<LaunchKernel>(&step);
      if (launch == nullptr) continue;
      for (const uint32_t b : factors_read(package, *launch))
        if (of_caller(b)) found.push_back(b);
    }
  };
  look(package.steps);
  for (const StepList& list : package.step_lists) look(list);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

bool may_be_uneven(const Package& package) { return !uneven_factors(package).empty(); }

}  // namespace codetta::package

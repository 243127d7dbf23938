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

bool may_be_uneven(const Package& package) {
  const auto of_caller = [&](uint32_t b) {
    const Buffer& buffer = package.buffers[b];
    return (buffer.role == Buffer::Role::Argument || buffer.role == Buffer::Role::Output) &&
           leads_by_several(buffer.shape);
  };
  const auto reads = [&](const Step& step) {
    const auto* launch = std::get_if<LaunchKernel>(&step);
    if (launch == nullptr) return false;
    const std::vector<uint32_t> factors = factors_read(package, *launch);
    return std::any_of(factors.begin(), factors.end(), of_caller);
  };
  const auto any = [&](const StepList& list) { return std::any_of(list.begin(), list.end(), reads); };
  return any(package.steps) || std::any_of(package.step_lists.begin(), package.step_lists.end(), any);
}

}  // namespace codetta::package

// SPDX-License-Identifier: Apache-2.0
#include "package/factors.hpp"

#include <algorithm>
#include <optional>

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

FactorView view_of_b(const Product& product, const EpilogueProgram& program, size_t of) {
  FactorView view = product.b_view;
  if (!view.empty() && !program.spaces.empty())
    view.back().size = program.sizes[program.spaces[of].columns] * types::Dim::constant(program.split.ways);
  return view;
}

std::vector<types::Dim> leading_dims(const std::vector<types::Dim>& shape) {
  std::vector<types::Dim> leading;
  for (size_t d = 0; d + 2 < shape.size(); ++d) {
    if (!(shape[d] == types::Dim::constant(1))) leading.push_back(shape[d]);
  }
  return leading;
}

std::vector<std::vector<uint32_t>> uneven_factors(const Package& package) {
  std::vector<std::vector<uint32_t>> found;
  const auto of_caller = [&](uint32_t b) {
    const Buffer& buffer = package.buffers[b];
    return buffer.role == Buffer::Role::Argument || buffer.role == Buffer::Role::Output;
  };
  const auto look = [&](const StepList& list) {
    for (const Step& step : list) {
      const auto* launch = std::get_if<LaunchKernel>(&step);
      if (launch == nullptr || !launch->product) continue;
      std::vector<uint32_t> several;
      bool uneven = false;
      std::optional<types::Dim> inner;
      for (const uint32_t b : factors_read(package, *launch)) {
        const bool seen = !(b == launch->product->a ? launch->product->a_view : launch->product->b_view).empty();
        const std::vector<types::Dim> leading = leading_dims(package.buffers[b].shape);
        if (!of_caller(b) || seen || leading.size() < 2) continue;
        several.push_back(b);
        uneven = uneven || leading.size() > 2 || (inner && !(*inner == leading.back()));
        inner = leading.back();
      }
      std::sort(several.begin(), several.end());
      several.erase(std::unique(several.begin(), several.end()), several.end());
      if (uneven) found.push_back(std::move(several));
    }
  };
  look(package.steps);
  for (const StepList& list : package.step_lists) look(list);
  return found;
}

size_t dims_seen_as(const FactorDim& dim, const std::vector<types::Dim>& shape) {
  const types::Dim one = types::Dim::constant(1);
  if (dim.dim >= shape.size() || !(dim.scale == one)) return 1;
  types::Dim elements = one;
  size_t several = 0;  // of more than one element
  for (size_t count = 1; count + dim.dim <= shape.size(); ++count) {
    const types::Dim& size = shape[shape.size() - dim.dim - count];
    elements = elements * size;
    several += size == one ? 0 : 1;
    if (elements == dim.size) return several > 1 ? count : 1;
  }
  return 1;  // a part of it
}

std::vector<DimsAsOne> dims_as_one(const Package& package, const LaunchKernel& launch) {
  std::vector<DimsAsOne> found;
  const EpilogueProgram& program = package.kernels[launch.kernel].epilogue;
  const bool makes_b = program.makes_b() || (launch.product && !launch.product->b_made.empty());
  for (const uint32_t b : factors_read(package, launch)) {
    const Buffer& buffer = package.buffers[b];
    if (buffer.role != Buffer::Role::Argument && buffer.role != Buffer::Role::Output) continue;
    // One tensor may be A and B, and be seen in two ways.
    const Product& product = *launch.product;
    const auto look = [&](const FactorView& view) {
      for (const FactorDim& dim : view) {
        const DimsAsOne one{b, dim.dim, dims_seen_as(dim, buffer.shape)};
        if (one.count > 1 && std::find(found.begin(), found.end(), one) == found.end()) found.push_back(one);
      }
    };
    if (b == product.a && !program.makes_a()) look(product.a_view);
    for (size_t i = 0; i < product.products() && !makes_b; ++i) {
      if (product.factor_b(i) == b) look(view_of_b(product, program, i));
    }
  }
  return found;
}

std::vector<DimsAsOne> dims_as_one(const Package& package) {
  std::vector<DimsAsOne> found;
  const auto look = [&](const StepList& list) {
    for (const Step& step : list) {
      const auto* launch = std::get_if<LaunchKernel>(&step);
      if (launch == nullptr || !launch->product) continue;
      for (const DimsAsOne& one : dims_as_one(package, *launch)) {
        if (std::find(found.begin(), found.end(), one) == found.end()) found.push_back(one);
      }
    }
  };
  look(package.steps);
  for (const StepList& list : package.step_lists) look(list);
  return found;
}

std::optional<uint32_t> written_by_user(const Package& package, const Guard& guard) {
  const bool gpu = package.target.backend == Backend::cuda || package.target.backend == Backend::hip;
  const auto* stride = std::get_if<StrideGuard>(&guard);
  const auto* alignment = std::get_if<AlignmentGuard>(&guard);
  if (!gpu || (stride == nullptr && alignment == nullptr)) return std::nullopt;
  const uint32_t buffer = stride != nullptr ? stride->buffer : alignment->buffer;
  return may_be_written_by_user(package.buffers[buffer]) ? std::optional(buffer) : std::nullopt;
}

bool may_be_written_beside(const Package& package) {
  return std::any_of(package.steps.begin(), package.steps.end(), [&](const Step& step) {
    const auto* check = std::get_if<Check>(&step);
    return check != nullptr && written_by_user(package, check->guard);
  });
}

bool may_be_uneven(const Package& package) {
  return !uneven_factors(package).empty() || !dims_as_one(package).empty() || may_be_written_beside(package) ||
         std::any_of(package.steps.begin(), package.steps.end(), [&](const Step& step) {
           const auto* define = std::get_if<DefineSymbol>(&step);
           return define != nullptr && ascends(package, *define);
         });
}

bool ascends(const Package& package, const DefineSymbol& define) {
  const Backend backend = package.target.backend;
  return define.from == DefineSymbol::From::Stride && backend != Backend::metal &&
         may_be_written_by_user(package.buffers[define.buffer]);
}

}  // namespace codetta::package

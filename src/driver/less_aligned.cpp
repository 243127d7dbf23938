// SPDX-License-Identifier: Apache-2.0
#include "driver/less_aligned.hpp"

#include <algorithm>
#include <utility>

#include "driver/problem.hpp"
#include "driver/program_arguments.hpp"
#include "ir/bind.hpp"
#include "package/factors.hpp"
#include "runtime/checks.hpp"
#include "runtime/operands.hpp"

namespace codetta::driver {

namespace {

// How tensors are that few programs are planned for.
struct Unusual {
  bool empty = false;  // some have no elements
  // Dims of a factor that are seen as one have no strides that its product takes, or an output none that a kernel of
  // the user's takes.
  bool uneven = false;
};

// Outputs that kernels of the user's do not write where they lie.
bool lie_otherwise(const package::Package& package, const std::vector<TensorView>& tensors, runtime::Symbols symbols) {
  for (const package::Step& step : package.steps) {
    const auto* define = std::get_if<package::DefineSymbol>(&step);
    if (define != nullptr && define->from == package::DefineSymbol::From::Stride) {
      if (!runtime::define_symbol(package, *define, tensors[define->buffer], symbols)) return true;
    }
    const auto* check = std::get_if<package::Check>(&step);
    if (check != nullptr && package::written_by_user(package, check->guard) &&
        !runtime::check_guard(package, check->guard, tensors, symbols))
      return true;
  }
  return false;
}

Unusual unusual(const package::Package& package, const ir::Graph& graph, const std::vector<NamedArgument>& arguments) {
  Unusual found;
  const auto tensor_of = [&](const package::Buffer& buffer) -> const TensorView* {
    const auto named = std::find_if(arguments.begin(), arguments.end(),
                                    [&](const NamedArgument& argument) { return argument.name == buffer.name; });
    return named == arguments.end() ? nullptr : named->value.tensor();
  };
  for (const NamedArgument& argument : arguments) {
    const TensorView* tensor = argument.value.tensor();
    found.empty = found.empty || (tensor != nullptr && tensor->empty());
  }
  for (const std::vector<uint32_t>& factors : package::uneven_factors(package)) {
    int64_t inner = 0;
    for (const uint32_t b : factors) {
      const package::Buffer& buffer = package.buffers[b];
      const TensorView* tensor = tensor_of(buffer);
      if (tensor == nullptr || tensor->empty()) continue;
      const auto items = runtime::items_of(*tensor);
      found.uneven = found.uneven || !items || !runtime::check_agree(inner, *items, buffer);
    }
  }
  for (const package::DimsAsOne& dims : package::dims_as_one(package)) {
    const package::Buffer& buffer = package.buffers[dims.buffer];
    const TensorView* tensor = tensor_of(buffer);
    found.uneven = found.uneven || (tensor != nullptr && !runtime::check_as_one(buffer, dims, *tensor));
  }
  std::vector<TensorView> tensors;
  for (const package::Buffer& buffer : package.buffers) {
    const TensorView* tensor = tensor_of(buffer);
    tensors.push_back(tensor == nullptr ? TensorView() : *tensor);
  }
  runtime::Symbols sizes;
  if (const auto bound = ir::bind_symbols(graph, bound_arguments(arguments)))
    sizes.insert(bound->values.begin(), bound->values.end());
  found.uneven = found.uneven || lie_otherwise(package, tensors, std::move(sizes));
  return found;
}

}  // namespace

std::optional<plan::Alignment> less_than(const CompiledProgramState& state,
                                         const std::vector<NamedArgument>& arguments) {
  using plan::Alignment;
  const Alignment alignment = state.alignment;
  const bool on_gpu = runs_on_gpu(state.target);
  const Unusual tensors = unusual(*state.package, state.program->graph, arguments);
  if (on_gpu && tensors.empty && alignment < Alignment::Empty) return Alignment::Empty;
  if (tensors.uneven && alignment < Alignment::Uneven) return Alignment::Uneven;
  if (alignment == Alignment::Hinted && on_gpu) return Alignment::Proven;
  if (alignment < Alignment::Any) return Alignment::Any;
  return on_gpu && alignment < Alignment::Empty ? std::optional(Alignment::Empty) : std::nullopt;
}

}  // namespace codetta::driver

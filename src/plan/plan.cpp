// SPDX-License-Identifier: Apache-2.0
// plan_gemm: one product, one kernel.
#include "plan/plan.hpp"

#include "ir/analyses.hpp"
#include "plan/families_metal.hpp"
#include "plan/guards.hpp"
#include "plan/items.hpp"

namespace codetta::plan {

using package::Buffer;

Result<Plan> plan_gemm(const ir::Graph& graph, const GemmShape& shape, const std::vector<ArgumentLayout>& layouts,
                       const Target& target, const MachineFacts& machine, const Breadth& breadth) {
  const std::vector<ir::NodeId> products = ir::matmuls(graph);
  if (products.empty()) {
    return diag::error(diag::Code::outside_product, "there is no matrix product")
        .reason("a GEMM kernel computes A @ B and its epilogue")
        .help("use `accum`, or `@` in a program");
  }
  if (target.backend == Backend::metal) CODETTA_CHECK_OK(check_for_metal(graph));
  const ir::NodeId matmul = products[0];
  PlannedKernel kernel;
  CODETTA_TRY(kernel.lowered, lower_epilogue(graph, matmul, layouts));
  kernel.shape = shape_of_run(shape, kernel.lowered, layouts, target.backend);
  kernel.discovery = discover(kernel.lowered.program, kernel.shape, target, machine, breadth);
  kernel.region.matmul = matmul;
  const std::vector<bool> behind = ir::reachable_from(graph, matmul);
  for (size_t i = 0; i < graph.size(); ++i) {
    if (behind[i]) kernel.region.nodes.emplace_back(i);
  }
  for (const ir::GraphInput& input : graph.inputs()) kernel.region.inputs.push_back(input.node);
  for (const ir::GraphOutput& output : graph.outputs()) kernel.region.outputs.push_back(output.node);

  Plan plan;
  plan.target = target;
  const auto operands = graph.operands(matmul);
  const auto factor_name = [&](ir::NodeId node) {
    for (const ir::GraphInput& input : graph.inputs()) {
      if (input.node == node) return input.name;
    }
    return std::string();
  };
  for (ir::NodeId factor : operands) {
    const std::string name = factor_name(factor);
    if (name.empty()) {
      return diag::error(diag::Code::outside_product, "a factor of the product is not an argument")
          .at(graph.source(), graph.span(factor))
          .reason(ir::to_string(graph.type(factor)) + " would have to be computed before the product")
          .help("compile it as a program");
    }
    plan.buffers.push_back(
        {name, Buffer::Role::Argument, graph.type(factor).dtype, false, graph.type(factor).shape, {}});
  }
  package::LaunchKernel launch;
  package::Product& product = launch.product.emplace();
  product.b = 1;
  const auto& a = graph.type(operands[0]).shape;
  const auto& result = graph.type(matmul).shape;
  launch.m = result[result.size() - 2];
  launch.n = result.back();
  product.k = a.back();
  if (result.size() > 2) launch.batch = result[0];
  for (const package::Argument& argument : kernel.lowered.program.arguments) {
    launch.arguments.push_back(static_cast<uint32_t>(plan.buffers.size()));
    plan.buffers.push_back({argument.name,
                            argument.is_output ? Buffer::Role::Output : Buffer::Role::Argument,
                            argument.dtype,
                            argument.is_scalar,
                            argument.shape,
                            {}});
  }
  define_symbols(plan.buffers, plan.steps);
  const bool batched = !(launch.batch == types::Dim::constant(1));
  add_guards(plan.buffers, {{launch.product, batched, &kernel.lowered.program, &launch.arguments}}, plan.steps);
  plan.steps.emplace_back(std::move(launch));
  plan.steps.emplace_back(package::Return{});
  plan.kernels.push_back(std::move(kernel));
  return plan;
}

}  // namespace codetta::plan

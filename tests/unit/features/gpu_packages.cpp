// SPDX-License-Identifier: Apache-2.0
#include "gpu_packages.hpp"

#include "emit/gpu_steps.hpp"
#include "package/cpu_call.hpp"

namespace codetta::features {
namespace {

// Launches that say more than Codetta's own kernels take are of a kernel of the user's on a GPU.
void make_user(package::Package& package, package::LaunchKernel& launch) {
  package::Kernel& kernel = package.kernels[launch.kernel];
  package::LaunchOptions& o = launch.options;
  package::LaunchOptions plain;
  plain.programmatic = o.programmatic;
  if (!package::is_user(kernel.config) && o == plain) return;
  launch.product.reset();
  package::GpuUserConfig config;
  if (kernel.name == hands_over) {  // both tensors and a size
    config.hook = config.hook_first = 0;
    config.hook_arguments = 2;
    config.hook_sizes = 1;
    o.sizes = {types::Dim::constant(4)};
  }
  kernel.config = config;
  kernel.entries = {{package::GpuEntry::Kind::Phase, 0, "gemm", 1, 0, 1}};
  if (o.grid == plain.grid) o.grid = {types::Dim::constant(4), types::Dim::constant(1), types::Dim::constant(1)};
  if (o.block == plain.block) o.block = {types::Dim::constant(32), types::Dim::constant(1), types::Dim::constant(1)};
}

// What a CPU's product is told beside its kernel, a GPU's kernel has inside: the B of further products as operands, and
// a factor that is made as a part of its program.
void take_factors_inside(package::Package& package, package::LaunchKernel& launch) {
  using namespace package;
  if (!launch.product) return;
  Product& product = *launch.product;
  EpilogueProgram& program = package.kernels[launch.kernel].epilogue;
  const auto add = [&](uint32_t buffer, Operand operand) {
    operand.argument = static_cast<uint32_t>(program.arguments.size());
    program.arguments.push_back({"w", package.buffers[buffer].dtype, false, false, package.buffers[buffer].shape});
    launch.arguments.push_back(buffer);
    program.operands.push_back(std::move(operand));
    return static_cast<uint32_t>(program.operands.size() - 1);
  };
  Operand matrix;
  matrix.unit_stride = false;
  matrix.terms = {{package::Axis::Row, 1, 0, 1}, {package::Axis::Col, 1, 0, 0}};
  for (const uint32_t b : product.more_b) program.more_b.push_back(add(b, matrix));
  for (const Prologue& made : product.b_made) {
    const EpilogueProgram& maker = package.kernels[made.kernel].epilogue;
    FactorProgram factor{FactorProgram::Which::B,        0, f32, false, maker.phases[0].insts,
                         maker.phases[0].stores[0].value};
    for (Inst& inst : factor.insts) {
      const Operand& operand = maker.operands[inst.index];
      if (inst.kind == Inst::Kind::Load) inst.index = add(made.arguments[operand.argument], operand);
    }
    program.factors.push_back(std::move(factor));
  }
  product.b_made.clear();
}

}  // namespace

package::Package gpu_package(const Feature& feature, const Target& target, bool inside) {
  package::Package package = feature.program->package;
  package.target = target;
  const int shared_bytes = target.backend == Backend::cuda ? 65536 : 0;  // LDS is part of a code object
  for (package::Kernel& kernel : package.kernels) {
    if (package::is_user(kernel.config)) continue;
    if (package::is_map(kernel.config)) {
      kernel.config = package::GpuMapConfig{};
      kernel.entries = {{package::GpuEntry::Kind::Phase, 0, "gemm", 256, 0, 1}};
      continue;
    }
    package::GpuGemmConfig config;
    config.tile_m = config.tile_n = 128;
    config.tile_k = 32;
    config.piece_cols = 32;
    kernel.config = config;
    kernel.entries = {{package::GpuEntry::Kind::Gemm, 0, "gemm", 256, shared_bytes, 1}};
  }
  for (package::Step& step : package.steps) {
    auto* launch = std::get_if<package::LaunchKernel>(&step);
    if (launch == nullptr) continue;
    if (inside) take_factors_inside(package, *launch);
    make_user(package, *launch);
  }
  if (target.backend != Backend::metal) emit::add_steps_kernel(package);
  return package;
}

}  // namespace codetta::features

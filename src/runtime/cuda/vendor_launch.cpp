// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/vendor_launch.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "diag/diagnostic.hpp"

namespace codetta::runtime::cuda {

using package::CudaVendorConfig;
using package::VendorProblem;

namespace {

// Bytes that an address is a multiple of, at most 16: what the library is told, when it is planned for and when it
// runs.
int32_t alignment_of(const void* data) {
  const uint64_t bits = reinterpret_cast<uintptr_t>(data) | 16;
  return static_cast<int32_t>(bits & (~bits + 1));
}

Error beside_library(const std::string& kernel, const std::string& reason) {
  return diag::error(diag::Code::guard_failed, "the product does not fit what cuBLASLt computes")
      .reason(kernel + ": " + reason)
      .help("find a kernel for these arguments");
}

}  // namespace

codetta::cpu::Operand VendorLaunch::operand(int32_t index, const Bindings& bindings) const {
  if (index < 0) return {};
  const auto at = static_cast<size_t>(index);
  const package::Operand& operand = kernel_->epilogue.operands[at];
  return resolve_operand(operand, plans_[at], bindings.tensors[step_->arguments[operand.argument]]);
}

double VendorLaunch::scalar(int32_t argument, double otherwise, const Bindings& bindings) const {
  if (argument < 0) return otherwise;
  const codetta::cpu::ScalarValue value = bindings.scalars[step_->arguments[static_cast<size_t>(argument)]];
  return config_->accumulator == DType::f64 ? value.d : static_cast<double>(value.f);
}

VendorProblem VendorLaunch::describe(const Bindings& bindings) const {
  const package::Product& product = *step_->product;
  const TensorView &a = bindings.tensors[product.a], &b = bindings.tensors[product.b];
  VendorProblem p;
  p.config = *config_;
  p.batch = batch_, p.m = m_, p.n = n_, p.k = k_;
  p.a_batch = batch_stride(a).value_or(0);
  p.a_row = a.stride(a.rank() - (product.a_transposed ? 1 : 2));
  p.a_k = a.stride(a.rank() - (product.a_transposed ? 2 : 1));
  p.b_batch = batch_stride(b).value_or(0);
  p.b_k = b.stride(b.rank() - (product.b_transposed ? 1 : 2));
  p.b_col = b.stride(b.rank() - (product.b_transposed ? 2 : 1));
  const codetta::cpu::Operand d = operand(config_->d, bindings), c = operand(config_->c, bindings),
                              bias = operand(config_->bias, bindings), aux = operand(config_->aux, bindings);
  p.d_batch = d.stride[0], p.d_row = d.stride[1];
  p.c_batch = c.stride[0], p.c_row = c.stride[1];
  p.aux_batch = aux.stride[0], p.aux_row = aux.stride[1];
  p.bias_batch = bias.stride[0];
  package::fold_batch(p);
  const auto dtype = [&](int32_t index, DType otherwise) {
    return index < 0 ? otherwise : kernel_->epilogue.operands[static_cast<size_t>(index)].dtype;
  };
  p.d_dtype = dtype(config_->d, DType::f32);
  p.bias_dtype = dtype(config_->bias, p.d_dtype);
  p.aux_dtype = dtype(config_->aux, p.d_dtype);
  p.a_alignment = alignment_of(a.data());
  p.b_alignment = alignment_of(b.data());
  p.d_alignment = alignment_of(d.data);
  p.c_alignment = config_->c >= 0 ? alignment_of(c.data) : p.d_alignment;
  return p;
}

Result<VendorLaunch> VendorLaunch::make(const package::Package& package, const package::LaunchKernel& step,
                                        const Bindings& bindings, const CublasLtHandleRef& handle,
                                        const Symbols& symbols) {
  VendorLaunch launch;
  launch.step_ = &step;
  launch.kernel_ = &package.kernels[step.kernel];
  launch.config_ = std::get_if<CudaVendorConfig>(&launch.kernel_->config);
  const package::EpilogueProgram& program = launch.kernel_->epilogue;
  const CudaVendorConfig& config = *launch.config_;
  const package::Product& product = *step.product;
  CODETTA_TRY(launch.batch_, value_of(step.batch, symbols, "the batch"));
  CODETTA_TRY(launch.m_, value_of(step.m, symbols, "M"));
  CODETTA_TRY(launch.n_, value_of(step.n, symbols, "N"));
  CODETTA_TRY(launch.k_, value_of(product.k, symbols, "K"));
  CODETTA_CHECK_OK(check_view(package.buffers[product.a], bindings.tensors[product.a], symbols));
  CODETTA_CHECK_OK(check_view(package.buffers[product.b], bindings.tensors[product.b], symbols));
  CODETTA_CHECK_OK(check_factor(package.buffers[product.a], bindings.tensors[product.a], product.a_transposed,
                                launch.batch_, launch.m_, launch.k_));
  CODETTA_CHECK_OK(check_factor(package.buffers[product.b], bindings.tensors[product.b], product.b_transposed,
                                launch.batch_, launch.k_, launch.n_));
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    const package::Buffer& buffer = package.buffers[step.arguments[i]];
    if (!buffer.is_scalar) CODETTA_CHECK_OK(check_view(buffer, bindings.tensors[step.arguments[i]], symbols));
  }
  for (const package::Operand& operand : program.operands) {
    CODETTA_CHECK_OK(plan_operand(operand, symbols, launch.plans_.emplace_back()));
  }
  if (launch.batch_ == 0 || launch.m_ == 0 || launch.n_ == 0) return launch;
  const std::string& name = launch.kernel_->name;
  if (launch.k_ == 0) return beside_library(name, "K is 0, which the library does not take");
  for (const int32_t argument : {config.alpha_argument, config.beta_argument}) {
    if (argument < 0 || launch.scalar(argument, 1, bindings) != 0) continue;
    return beside_library(name, fmt::format("{} is 0, and times 0 the library does not read the other factor",
                                            program.arguments[static_cast<size_t>(argument)].name));
  }
  const VendorProblem problem = launch.describe(bindings);
  const std::pair<int32_t, const char*> vectors[] = {
      {config.d, "D"}, {config.c, "C"}, {config.bias, "the bias"}, {config.aux, "the second matrix"}};
  for (const auto& [index, what] : vectors) {
    if (index < 0 || launch.n_ <= 1 || launch.operand(index, bindings).stride[2] == 1) continue;
    return beside_library(name, fmt::format("neighbouring columns of {} are not adjacent", what));
  }
  if (problem.batch > 1 && problem.d_batch == 0)
    return beside_library(name, "the items of the batch write the same elements");
  CODETTA_TRY(launch.product_, VendorProduct::make(handle, problem));
  const auto rank = static_cast<size_t>(config.rank);
  if (rank >= launch.product_->proposals().size()) {
    return diag::error(diag::Code::kernel_resources, "cuBLASLt has no such kernel for these sizes")
        .reason(fmt::format("{} is its proposal {}, and it has {} for M = {}, N = {}, K = {}", name, rank,
                            launch.product_->proposals().size(), launch.m_, launch.n_, launch.k_))
        .help("choose another kernel of the list");
  }
  launch.workspace_bytes = static_cast<int64_t>((launch.product_->proposals()[rank].workspace + 255) / 256 * 256);
  return launch;
}

Result<void> VendorLaunch::resolve(const Bindings& bindings, DeviceAddress workspace) {
  if (!product_) return {};
  workspace_ = workspace_bytes == 0 ? nullptr : reinterpret_cast<void*>(workspace);
  VendorProduct::Addresses at;
  at.a = bindings.tensors[step_->product->a].data();
  at.b = bindings.tensors[step_->product->b].data();
  at.d = operand(config_->d, bindings).data;
  at.c = operand(config_->c, bindings).data;
  at.bias = operand(config_->bias, bindings).data;
  at.aux = operand(config_->aux, bindings).data;
  at.scale_a = operand(config_->scale_a, bindings).data;
  at.scale_b = operand(config_->scale_b, bindings).data;
  return product_->bind(static_cast<size_t>(config_->rank), at,
                        scalar(config_->alpha_argument, config_->alpha, bindings),
                        scalar(config_->beta_argument, config_->beta, bindings));
}

Result<void> VendorLaunch::run(StreamHandle stream) const {
  if (!product_) return {};
  const lt::Status status = product_->run(workspace_, stream);
  if (status == lt::Status::Success) return {};
  const CublasLtHandle& handle = product_->handle();
  return handle.library().failure(status, "cublasLtMatmul",
                                  fmt::format("{}, stream = {}, device = {}", kernel_->name, static_cast<void*>(stream),
                                              handle.device()->facts().ordinal));
}

}  // namespace codetta::runtime::cuda

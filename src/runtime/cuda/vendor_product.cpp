// SPDX-License-Identifier: Apache-2.0
// One product as cuBLASLt sees it. The library stores matrices by columns, so it is asked for the transposed product:
// with D' = D^T [n, m] by columns, A' = B^T and B' = A^T, rows of D are columns of D', and a bias along n is the
// vector along the rows of D' that the library adds.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "runtime/cuda/cublaslt.hpp"

namespace codetta::runtime::cuda {

using package::CudaVendorConfig;
using package::VendorProblem;
using Activation = CudaVendorConfig::Activation;

namespace {

std::optional<lt::Type> type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return lt::Type::F32;
    case DType::f64:
      return lt::Type::F64;
    case DType::f16:
      return lt::Type::F16;
    case DType::bf16:
      return lt::Type::Bf16;
    case DType::i8:
      return lt::Type::I8;
    case DType::i32:
      return lt::Type::I32;
    case DType::f8e4m3:
      return lt::Type::F8e4m3;
    case DType::f8e5m2:
      return lt::Type::F8e5m2;
    default:
      return std::nullopt;
  }
}

// A matrix [rows, cols] by columns, perhaps stored as its transpose.
struct Stored {
  bool transposed = false;
  int64_t rows = 0, cols = 0, leading = 0;  // as it lies
};
std::optional<Stored> stored(int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride) {
  const auto fits = [](int64_t fast, int64_t slow, int64_t stride) {
    return slow <= 1 || stride >= std::max<int64_t>(fast, 1);
  };
  if ((row_stride == 1 || rows <= 1) && fits(rows, cols, col_stride))
    return Stored{false, rows, cols, cols <= 1 ? std::max<int64_t>(rows, 1) : col_stride};
  if ((col_stride == 1 || cols <= 1) && fits(cols, rows, row_stride))
    return Stored{true, cols, rows, rows <= 1 ? std::max<int64_t>(cols, 1) : row_stride};
  return std::nullopt;
}
// B^T [n, k] and A^T [k, m].
std::optional<Stored> first_factor(const VendorProblem& p) { return stored(p.n, p.k, p.b_col, p.b_k); }
std::optional<Stored> second_factor(const VendorProblem& p) { return stored(p.k, p.m, p.a_k, p.a_row); }

uint32_t epilogue_of(const CudaVendorConfig& config) {
  uint32_t bits = 0;
  if (config.activation == Activation::Relu) bits |= lt::epilogue_relu;
  if (config.activation == Activation::Gelu) bits |= lt::epilogue_gelu;
  if (config.activation == Activation::Dgelu) bits |= lt::epilogue_dgelu;
  if (config.bias >= 0) bits |= lt::epilogue_bias;
  if (config.aux >= 0) bits |= lt::epilogue_aux;
  return bits == 0 ? lt::epilogue_none : bits;
}

}  // namespace

std::string vendor_obstacle(const VendorProblem& p) {
  for (const DType dtype : {p.config.a_dtype, p.config.b_dtype, p.d_dtype, p.bias_dtype, p.aux_dtype}) {
    if (!type_of(dtype)) return fmt::format("the library has no {}", dtype_name(dtype));
  }
  if (p.batch < 1 || p.m < 1 || p.n < 1 || p.k < 1)
    return fmt::format("{} x {} x {} in {} batch items has nothing to multiply", p.m, p.n, p.k, p.batch);
  if (p.batch > INT32_MAX) return fmt::format("{} batch items are more than the library counts", p.batch);
  if (!second_factor(p))
    return fmt::format("neither rows nor columns of A are adjacent: strides {} and {}", p.a_row, p.a_k);
  if (!first_factor(p))
    return fmt::format("neither rows nor columns of B are adjacent: strides {} and {}", p.b_k, p.b_col);
  const std::pair<const char*, int64_t> stored_by_rows[] = {{"D", p.d_row},
                                                            {"C", p.config.c >= 0 ? p.c_row : p.n},
                                                            {"the second matrix", p.config.aux >= 0 ? p.aux_row : p.n}};
  for (const auto& [name, row] : stored_by_rows) {
    if (p.m > 1 && row < p.n) return fmt::format("rows of {} are {} apart and {} long", name, row, p.n);
  }
  return {};
}

Result<VendorProduct> VendorProduct::make(CublasLtHandleRef handle, const VendorProblem& problem) {
  if (std::string obstacle = vendor_obstacle(problem); !obstacle.empty()) {
    return diag::error(diag::Code::guard_failed, "the product does not fit what cuBLASLt computes")
        .reason(std::move(obstacle))
        .help("find a kernel with these views");
  }
  VendorProduct made;
  made.handle_ = std::move(handle);
  made.problem_ = problem;
  CODETTA_TRY(const ContextGuard guard, made.handle_->device()->enter());
  const RelaxedCapture relaxed(made.handle_->device()->driver());
  CODETTA_CHECK_OK(made.describe(problem));
  CODETTA_CHECK_OK(made.ask(problem));
  return made;
}

namespace {
// Of a call with this handle, whose device it names.
Error vendor_failure(const CublasLtHandle& handle, lt::Status status, std::string_view call,
                     const std::string& argument) {
  const int ordinal = handle.device()->facts().ordinal;
  return handle.library().failure(status, call,
                                  fmt::format("{}{}device = {}", argument, argument.empty() ? "" : ", ", ordinal));
}
}  // namespace

Result<void> VendorProduct::set(int attribute, const void* value, size_t bytes, const char* name) {
  const CublasLt& library = handle_->library();
  const lt::Status status = library.call().descriptor_set(descriptor_, attribute, value, bytes);
  if (status == lt::Status::Success) return {};
  return vendor_failure(*handle_, status, "cublasLtMatmulDescSetAttribute", name);
}

Result<void> VendorProduct::describe(const VendorProblem& p) {
  const CublasLt& library = handle_->library();
  const CudaVendorConfig& config = p.config;
  const bool is_f64 = config.accumulator == DType::f64, is_i32 = config.accumulator == DType::i32;
  const bool tf32 = config.a_dtype == DType::f32 && config.math == MathMode::Tf32;
  const lt::Compute compute = is_f64   ? lt::Compute::F64
                              : is_i32 ? lt::Compute::I32
                              : tf32   ? lt::Compute::F32FastTf32
                                       : lt::Compute::F32;
  const lt::Type scale = is_f64 ? lt::Type::F64 : is_i32 ? lt::Type::I32 : lt::Type::F32;
  lt::Status status = library.call().descriptor_create(&descriptor_, compute, scale);
  if (status != lt::Status::Success)
    return vendor_failure(*handle_, status, "cublasLtMatmulDescCreate",
                          fmt::format("compute = {}", static_cast<int>(compute)));
  const Stored a = *first_factor(p), b = *second_factor(p);  // there is no obstacle
  const struct {
    DType dtype;
    int64_t rows, cols, leading, batch_stride;
  } matrices[] = {{config.b_dtype, a.rows, a.cols, a.leading, p.b_batch},
                  {config.a_dtype, b.rows, b.cols, b.leading, p.a_batch},
                  {p.d_dtype, p.n, p.m,
                   p.m <= 1        ? p.n
                   : config.c >= 0 ? p.c_row
                                   : p.d_row,
                   config.c >= 0 ? p.c_batch : p.d_batch},
                  {p.d_dtype, p.n, p.m, p.m <= 1 ? p.n : p.d_row, p.d_batch}};
  for (size_t i = 0; i < 4; ++i) {
    const auto& matrix = matrices[i];
    status = library.call().layout_create(&layouts_[i], *type_of(matrix.dtype), static_cast<uint64_t>(matrix.rows),
                                          static_cast<uint64_t>(matrix.cols), matrix.leading);
    const auto count = static_cast<int32_t>(p.batch);
    if (status == lt::Status::Success && p.batch > 1)
      status = library.call().layout_set(layouts_[i], lt::layout_batch_count, &count, sizeof count);
    if (status == lt::Status::Success && p.batch > 1)
      status = library.call().layout_set(layouts_[i], lt::layout_batch_stride, &matrix.batch_stride,
                                         sizeof matrix.batch_stride);
    if (status != lt::Status::Success)
      return vendor_failure(*handle_, status, "cublasLtMatrixLayoutCreate",
                            fmt::format("{} x {}, leading dimension {}", matrix.rows, matrix.cols, matrix.leading));
  }
  const int32_t ta = a.transposed ? lt::transpose_yes : lt::transpose_none,
                tb = b.transposed ? lt::transpose_yes : lt::transpose_none;
  CODETTA_CHECK_OK(set(lt::product_transpose_a, &ta, sizeof ta, "transpose A"));
  CODETTA_CHECK_OK(set(lt::product_transpose_b, &tb, sizeof tb, "transpose B"));
  const uint32_t epilogue = epilogue_of(config);
  CODETTA_CHECK_OK(set(lt::product_epilogue, &epilogue, sizeof epilogue, "epilogue"));
  if (config.bias >= 0) {
    const auto type = static_cast<int32_t>(*type_of(p.bias_dtype));
    CODETTA_CHECK_OK(set(lt::product_bias_type, &type, sizeof type, "type of the bias"));
    if (p.batch > 1)
      CODETTA_CHECK_OK(
          set(lt::product_bias_batch_stride, &p.bias_batch, sizeof p.bias_batch, "batch stride of the bias"));
  }
  if (config.aux >= 0) {
    const auto type = static_cast<int32_t>(*type_of(p.aux_dtype));
    const int64_t leading = p.m <= 1 ? p.n : p.aux_row;
    if (p.aux_dtype != p.d_dtype)
      CODETTA_CHECK_OK(set(lt::product_aux_type, &type, sizeof type, "type of the second matrix"));
    CODETTA_CHECK_OK(set(lt::product_aux_leading, &leading, sizeof leading, "leading dimension of the second matrix"));
    if (p.batch > 1)
      CODETTA_CHECK_OK(
          set(lt::product_aux_batch_stride, &p.aux_batch, sizeof p.aux_batch, "batch stride of the second matrix"));
  }
  if (config.math == MathMode::Fp8FastAccumulation && dtype_size(config.a_dtype) == 1 && !is_i32) {
    const int8_t fast = 1;
    CODETTA_CHECK_OK(set(lt::product_fast_accumulation, &fast, sizeof fast, "fast accumulation"));
  }
  // The library looks at which pointers are there; the true ones come with bind().
  const void* const somewhere = reinterpret_cast<const void*>(uintptr_t{256});
  if (config.bias >= 0) CODETTA_CHECK_OK(set(lt::product_bias_pointer, &somewhere, sizeof somewhere, "bias"));
  if (config.aux >= 0) CODETTA_CHECK_OK(set(lt::product_aux_pointer, &somewhere, sizeof somewhere, "second matrix"));
  if (config.scale_b >= 0) CODETTA_CHECK_OK(set(lt::product_scale_a_pointer, &somewhere, sizeof somewhere, "scale"));
  if (config.scale_a >= 0) CODETTA_CHECK_OK(set(lt::product_scale_b_pointer, &somewhere, sizeof somewhere, "scale"));
  return {};
}

Result<void> VendorProduct::ask(const VendorProblem& p) {
  const CublasLt& library = handle_->library();
  const lt::Table& call = library.call();
  lt::Preference preference = nullptr;
  lt::Status status = call.preference_create(&preference);
  if (status != lt::Status::Success) return vendor_failure(*handle_, status, "cublasLtMatmulPreferenceCreate", "");
  const uint64_t workspace = package::max_vendor_workspace;
  const uint32_t reductions = lt::reductions_exact;
  const std::array<uint32_t, 4> alignments{static_cast<uint32_t>(p.b_alignment), static_cast<uint32_t>(p.a_alignment),
                                           static_cast<uint32_t>(p.config.c >= 0 ? p.c_alignment : p.d_alignment),
                                           static_cast<uint32_t>(p.d_alignment)};
  constexpr std::array<int, 4> names{lt::preference_alignment_a, lt::preference_alignment_b, lt::preference_alignment_c,
                                     lt::preference_alignment_d};
  status = call.preference_set(preference, lt::preference_workspace, &workspace, sizeof workspace);
  if (status == lt::Status::Success)
    status = call.preference_set(preference, lt::preference_reductions, &reductions, sizeof reductions);
  for (size_t i = 0; i < 4 && status == lt::Status::Success; ++i)
    status = call.preference_set(preference, names[i], &alignments[i], sizeof alignments[i]);
  int found = 0;
  proposals_.resize(package::max_vendor_proposals);
  if (status == lt::Status::Success) {
    status = call.propose(handle_->get(), descriptor_, layouts_[0], layouts_[1], layouts_[2], layouts_[3], preference,
                          package::max_vendor_proposals, proposals_.data(), &found);
  }
  (void)call.preference_destroy(preference);
  if (status == lt::Status::NotSupported || status == lt::Status::InvalidValue) found = 0;  // it has nothing for this
  if (status != lt::Status::Success && found != 0)
    return vendor_failure(*handle_, status, "cublasLtMatmulAlgoGetHeuristic",
                          fmt::format("{} x {} x {} in {} batch items", p.m, p.n, p.k, p.batch));
  proposals_.resize(static_cast<size_t>(std::clamp(found, 0, package::max_vendor_proposals)));
  std::erase_if(proposals_, [](const lt::Proposal& proposal) {
    return proposal.state != lt::Status::Success || proposal.workspace > package::max_vendor_workspace;
  });
  return {};
}

Result<void> VendorProduct::bind(size_t proposal, const Addresses& addresses, double alpha, double beta) {
  chosen_ = proposal;
  at_ = addresses;
  const CudaVendorConfig& config = problem_.config;
  if (config.accumulator == DType::f64) {
    alpha_.d = alpha, beta_.d = beta;
  } else if (config.accumulator == DType::i32) {
    alpha_.i = static_cast<int32_t>(alpha), beta_.i = static_cast<int32_t>(beta);
  } else {
    alpha_.f = static_cast<float>(alpha), beta_.f = static_cast<float>(beta);
  }
  if (config.bias >= 0) CODETTA_CHECK_OK(set(lt::product_bias_pointer, &at_.bias, sizeof at_.bias, "bias"));
  if (config.aux >= 0) CODETTA_CHECK_OK(set(lt::product_aux_pointer, &at_.aux, sizeof at_.aux, "second matrix"));
  if (config.scale_b >= 0)
    CODETTA_CHECK_OK(set(lt::product_scale_a_pointer, &at_.scale_b, sizeof at_.scale_b, "scale of B"));
  if (config.scale_a >= 0)
    CODETTA_CHECK_OK(set(lt::product_scale_b_pointer, &at_.scale_a, sizeof at_.scale_a, "scale of A"));
  return {};
}

lt::Status VendorProduct::run(void* workspace, StreamHandle stream) const {
  const lt::Proposal& proposal = proposals_[chosen_];
  return handle_->library().call().multiply(handle_->get(), descriptor_, &alpha_, at_.b, layouts_[0], at_.a,
                                            layouts_[1], &beta_, at_.c != nullptr ? at_.c : at_.d, layouts_[2], at_.d,
                                            layouts_[3], &proposal.algorithm, workspace, proposal.workspace, stream);
}

void VendorProduct::swap(VendorProduct& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(layouts_, other.layouts_);
  std::swap(proposals_, other.proposals_);
  std::swap(chosen_, other.chosen_);
  std::swap(at_, other.at_);
  std::swap(alpha_, other.alpha_);
  std::swap(beta_, other.beta_);
  std::swap(problem_, other.problem_);
}
VendorProduct::VendorProduct(VendorProduct&& other) noexcept { swap(other); }
VendorProduct& VendorProduct::operator=(VendorProduct&& other) noexcept {
  swap(other);
  return *this;
}
VendorProduct::~VendorProduct() {
  if (!handle_) return;
  const lt::Table& call = handle_->library().call();
  for (lt::Layout layout : layouts_) {
    if (layout != nullptr) (void)call.layout_destroy(layout);
  }
  if (descriptor_ != nullptr) (void)call.descriptor_destroy(descriptor_);
}

}  // namespace codetta::runtime::cuda

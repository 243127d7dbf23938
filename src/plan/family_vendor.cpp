// SPDX-License-Identifier: Apache-2.0
// Candidates of the vendor's library: one for each of its proposals.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/refusals.hpp"
#include "plan/vendor.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {
namespace {

using package::CudaVendorConfig;
using package::VendorProblem;
using package::VendorProposal;

Rejection no(diag::Code code, std::string text) { return cuda_rejection(GpuFamily::Vendor, code, std::move(text)); }

// Element types that the library multiplies, and what it stores them as.
bool multiplies(DType a, DType b, DType d, DType accumulator) {
  const auto is = [](DType x, std::initializer_list<DType> any) {
    return std::find(any.begin(), any.end(), x) != any.end();
  };
  if (accumulator == DType::f64) return a == DType::f64 && b == DType::f64 && d == DType::f64;
  if (accumulator == DType::i32) return a == DType::i8 && b == DType::i8 && d == DType::i32;
  if (accumulator != DType::f32) return false;
  if (is(a, {DType::f8e4m3, DType::f8e5m2}) && is(b, {DType::f8e4m3, DType::f8e5m2}))
    return (a == DType::f8e4m3 || b == DType::f8e4m3) && is(d, {DType::bf16, DType::f16, DType::f32});
  return a == b && ((is(a, {DType::bf16, DType::f16}) && is(d, {a, DType::f32})) || (a == DType::f32 && d == a));
}

// Multiply-adds of a multiprocessor and clock: of the matrix instructions, or of its lanes.
double rate(const GpuFacts& gpu, const CudaVendorConfig& config) {
  const int arch = arch_number(gpu.arch);
  if (config.accumulator == DType::f64) return arch == 80 || arch == 90 || arch == 100 ? 128 : 2;
  if (config.a_dtype == DType::f32 && config.math != MathMode::Tf32) return 128;
  const double of_16_bits = arch >= 100 && arch < 120 ? 4096 : arch == 90 ? 2048 : arch == 80 ? 1024 : 512;
  return of_16_bits * 2 / static_cast<double>(types::byte_size(config.a_dtype));
}

// A library's kernel is a little slower than its proposal before it; where the cost model sees no difference to a
// kernel of our own, ours comes first.
constexpr double vendor_efficiency = 0.8, of_rank = 0.03, prologue_us = 4;

// Factors of 16-bit floats that 16 bytes at a time cannot be read of are multiplied by kernels for older devices, in
// steps of this many along K and at a fraction of the rate (an H100, cuBLASLt 13.1: bench/NOTES.md). Others were not
// measured.
constexpr double unaligned_rate = 1.0 / 6, unaligned_step = 64;

bool is_unaligned(const VendorProblem& asked) {
  if (types::byte_size(asked.config.a_dtype) != 2) return false;
  const auto apart = [](DType dtype, int64_t alignment, int64_t row, int64_t k, int64_t batch) {
    const auto size = static_cast<int64_t>(types::byte_size(dtype));
    return alignment % 16 != 0 || (row != 1 && row * size % 16 != 0) || (k != 1 && k * size % 16 != 0) ||
           batch * size % 16 != 0;
  };
  return apart(asked.config.a_dtype, asked.a_alignment, asked.a_row, asked.a_k, asked.a_batch) ||
         apart(asked.config.b_dtype, asked.b_alignment, asked.b_col, asked.b_k, asked.b_batch);
}

std::vector<CostTerm> cost_terms(const GpuProblem& p, const VendorProblem& asked, const VendorProposal& proposal,
                                 int32_t rank) {
  const auto batch = static_cast<double>(asked.batch), m = static_cast<double>(asked.m),
             n = static_cast<double>(asked.n), k = static_cast<double>(asked.k);
  const auto bytes = [](DType dtype, double elements) {
    return static_cast<double>(types::byte_size(dtype)) * elements;
  };
  const bool unaligned = is_unaligned(asked);
  const double steps = unaligned ? std::ceil(k / unaligned_step) * unaligned_step : k;
  const double clocks =
      batch * m * n * steps / (rate(p.gpu, asked.config) * (unaligned ? unaligned_rate : 1) * std::max(p.gpu.sms, 1));
  // The last wave takes as long as a full one.
  const double waves = proposal.waves > 0 ? std::ceil(proposal.waves) / proposal.waves : 1;
  const double multiply = clocks / (p.gpu.ghz * 1000) / vendor_efficiency * std::min(waves, 4.0);
  const double matrices = 1 + (asked.config.c >= 0 ? 1 : 0) + (asked.config.aux >= 0 ? 1 : 0);
  const double all = bytes(asked.config.a_dtype, (asked.a_batch == 0 ? 1 : batch) * m * k) +
                     bytes(asked.config.b_dtype, (asked.b_batch == 0 ? 1 : batch) * n * k) +
                     matrices * bytes(asked.d_dtype, batch * m * n);
  const double memory = all / p.gpu.memory_rate / 1000;
  std::vector<CostTerm> terms{{"multiply", multiply,
                               fmt::format("{:.2f} waves by the library's estimate{}", proposal.waves,
                                           unaligned ? ", rows are not of 16 bytes" : "")}};
  if (memory > multiply) terms.push_back({"memory beyond", memory - multiply, fmt::format("{:.1f} MB", all / 1e6)});
  if (rank > 0)
    terms.push_back({"rank", of_rank * rank * std::max(memory, multiply), "further down the library's proposals"});
  terms.push_back({"prologue", prologue_us, "launch, first copies, last stores"});
  return terms;
}

VendorProblem problem_of(const GpuProblem& p, const VendorMatch& match) {
  const GemmShape& s = p.shape;
  VendorProblem asked;
  asked.config = match.config;
  // Of items that are rows the batch: whether they are rows of the library's, too, it has conditions of its own for.
  const bool rows = s.items > 1;
  asked.batch = rows ? s.items : s.batch, asked.m = s.m / s.items, asked.n = s.n, asked.k = s.k;
  asked.a_row = s.a_row_stride, asked.a_k = s.a_k_stride;
  asked.a_batch = rows ? asked.m * s.a_row_stride : s.a_batch_stride;
  asked.b_batch = s.b_batch_stride, asked.b_k = s.b_k_stride, asked.b_col = s.b_col_stride;
  const auto strides = [&](int32_t operand) -> GemmShape::Strides {
    const auto index = static_cast<size_t>(operand);
    if (operand >= 0 && index < s.operands.size()) return s.operands[index];
    return {asked.m * s.n, s.n};  // not known: without gaps
  };
  const CudaVendorConfig& config = match.config;
  asked.d_batch = strides(config.d).item, asked.d_row = strides(config.d).row;
  asked.c_batch = strides(config.c).item, asked.c_row = strides(config.c).row;
  asked.aux_batch = strides(config.aux).item, asked.aux_row = strides(config.aux).row;
  if (config.bias >= 0 && !s.operands.empty()) asked.bias_batch = strides(config.bias).item;
  package::fold_batch(asked);
  asked.d_dtype = match.d, asked.bias_dtype = match.bias, asked.aux_dtype = match.aux;
  asked.a_alignment = s.a_alignment, asked.b_alignment = s.b_alignment;
  return asked;
}

}  // namespace

void discover_vendor(const GpuProblem& problem, Discovery& discovery) {
  if (problem.gpu.vendor == nullptr) return;
  const VendorMenu& menu = *problem.gpu.vendor;
  const auto refuse = [&](diag::Code code, std::string text) {
    discovery.rejections.push_back(no(code, std::move(text)));
  };
  if (!menu.absent.empty()) return refuse(diag::Code::vendor_absent, menu.absent);
  const GemmShape& s = problem.shape;
  if (auto nothing = nothing_to_multiply(problem, no)) return discovery.rejections.push_back(*std::move(nothing));
  const VendorMatch match = match_vendor(problem.epilogue, s, menu.traits);
  if (!match.obstacle.empty()) return refuse(diag::Code::vendor_menu, match.obstacle);
  if (!multiplies(s.a, s.b, match.d, s.accumulator))
    return refuse(diag::Code::family_dtypes,
                  fmt::format("the library has no {} x {} into {} that is stored as {}", dtype_name(s.a),
                              dtype_name(s.b), dtype_name(s.accumulator), dtype_name(match.d)));
  if (s.inner != 0)
    return refuse(diag::Code::family_layout, "leading dims of a factor have two strides, and the library takes one");
  const VendorProblem asked = problem_of(problem, match);
  if (types::is_fp8(s.a) && product_rounding(s.math, s.a, s.b).each == 0)
    return refuse(diag::Code::family_dtypes,
                  fmt::format("the library sums 128 products of 8-bit floats with 13 bits of fraction, and the "
                              "program's math is {}; fp8_two_level_accum permits it",
                              math_mode_name(s.math)));
  const auto proposals = menu.propose(asked);
  if (!proposals) {
    const Diagnostic& why = proposals.error().diagnostics().front();
    const bool layout = why.code == static_cast<uint16_t>(diag::Code::guard_failed);
    return refuse(layout ? diag::Code::family_layout : diag::Code::vendor_absent, why.reason);
  }
  if (proposals->empty())
    return refuse(diag::Code::vendor_absent,
                  fmt::format("cuBLASLt {} proposes nothing for {} x {} into {}, M = {}, N = {}, K = {}", menu.version,
                              dtype_name(s.a), dtype_name(s.b), dtype_name(match.d), s.m, s.n, s.k));
  for (size_t i = 0; i < proposals->size(); ++i) {
    CudaVendorConfig config = match.config;
    config.rank = static_cast<int32_t>(i);
    config.workspace = static_cast<int32_t>((*proposals)[i].workspace);
    discovery.candidates.push_back({config, fmt::format("cuda_vendor_{}_{}_{}", menu.version, i, problem.gpu.arch),
                                    cost_terms(problem, asked, (*proposals)[i], config.rank), 0});
  }
}

}  // namespace codetta::plan

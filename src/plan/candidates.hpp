// SPDX-License-Identifier: Apache-2.0
// Kernel families and configurations as data, the cost model, and ranking. Never compiles, never measures.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codetta/target.hpp"
#include "package/epilogue_program.hpp"
#include "package/kernel_config.hpp"
#include "plan/lower.hpp"

namespace codetta::plan {

// The GEMM as the families see it. Strides in elements.
struct GemmShape {
  struct Strides {
    int64_t item = 0, row = 0;
    bool operator==(const Strides&) const = default;
  };
  bool operator==(const GemmShape&) const = default;
  int64_t batch = 1, m = 0, n = 0, k = 0;
  DType a = DType::f32, b = DType::f32, accumulator = DType::f32;
  int64_t a_batch_stride = 0, a_row_stride = 0, a_k_stride = 1;
  int64_t b_batch_stride = 0, b_k_stride = 0, b_col_stride = 1;
  // Of items a batch stride apart (device/host/items.h); 0: all of them, whatever the caller passes.
  int64_t inner = 0, a_skip = 0, b_skip = 0;
  [[nodiscard]] bool one_a() const { return a_batch_stride == 0 && a_skip == 0; }
  [[nodiscard]] bool one_b() const { return b_batch_stride == 0 && b_skip == 0; }
  bool b_packed = false;                               // a PackedTensor is given
  package::MathMode math = package::MathMode::Strict;  // how f32 may be multiplied (CUDA)
  int32_t a_alignment = 16, b_alignment = 16;          // bytes that the addresses are multiples of, if less than 16
  bool a_made = false, b_made = false;        // the factor lies nowhere: blocks of it are computed where they are read
  double a_clocks = 0, b_clocks = 0;          // then: vector clocks of a vector of its elements
  double a_unshared_clocks = 0;               // of A where elements share nothing of what is the same in a row
  double a_read_bytes = 0, b_read_bytes = 0;  // and bytes that an element is computed from
  int32_t products = 1;                       // of one A, each with a B of its own; n counts the columns of all
  // Of products with root spaces of their own (EpilogueProgram::spaces): the columns of each; else none.
  std::vector<int64_t> widths{};
  int32_t epilogue_alignment = 16;  // the same of the epilogue's tensors with rows and columns, their strides included
  // Host scalars, by name, that are known not to be 0: a library that multiplies by 0 may leave the other factor alone.
  std::vector<std::string> nonzero_scalars{};
  double beside = 0;  // bytes that a program, or loop, reads between two readings of this B, of shared caches (CPU)
  // A power of two, up to 16, that the number of rows is a multiple of, whatever symbolic sizes are; 0: that of m.
  int32_t m_multiple = 0;
  bool any_m = false;               // the number of rows is a symbol's, and m a likely one
  bool any_n = false;               // the same of columns
  int64_t items = 1;                // of a batch that are rows of one product here: m counts the rows of all
  std::vector<Strides> operands{};  // of the epilogue's program, as they are bound, before that; nothing: not known
};

// What a math mode may cost in accuracy, whichever kernel computes: the relative error of each f32 factor.
// TF32 has 10 bits of fraction, and wgmma cuts what is below them; three products of it leave 2^-21 of each.
double factor_rounding(MathMode math, DType factors);
// What each product may cost of the sum of magnitudes of its run (OracleOptions::product_rounding), and how many are in
// one.
struct ProductRounding {
  double each = 0;
  int64_t run = 0;  // 0: all
};
ProductRounding product_rounding(MathMode math, DType a, DType b);
// The mode as far as it says something of factors of these types; where it speaks of others, strict.
MathMode math_of(MathMode math, DType a, DType b);

struct VendorMenu;  // plan/vendor.hpp

// What the cost model knows of a GPU: of the device, or of the architecture's usual product when there is none to ask.
struct GpuFacts {
  std::string arch = "sm_80";                                 // "sm_90a", ...
  int sms = 108;                                              // streaming multiprocessors
  double ghz = 1.4;                                           // sustained under matrix load
  int64_t shared_per_block = 166912, shared_per_sm = 167936;  // bytes, the former with the opt-in
  int64_t l2 = 40 << 20;                                      // bytes
  double memory_rate = 1500;                                  // bytes per nanosecond, of the device
  double l2_rate = 4000;
  std::shared_ptr<const VendorMenu> vendor{};  // null: nobody asks for kernels of the vendor's
};
// Of an architecture's usual product (sm_90a: H100); of the newest known one before it where it is unknown itself.
GpuFacts gpu_facts(std::string_view arch);
// 16-bit multiply-adds a clock of one multiprocessor's matrix units, dense, at full rate; 0 where it is not known.
double matrix_rate(std::string_view arch);

// What the cost model knows of the machine. Frequencies in GHz, sizes in bytes, rates in bytes per nanosecond per core.
struct MachineFacts {
  CpuIsa isa = CpuIsa::generic;
  int cores = 1;
  double ghz = 3.0;
  double fma_vectors_per_clock = 2;  // full-width FMAs a clock
  int64_t l1 = 32768, l2 = 1 << 20, l3 = 32 << 20;
  double l2_rate = 100, l3_rate = 50, memory_rate = 20;
  GpuFacts gpu{};  // where the target is one
};

struct CostTerm {
  std::string name;
  double microseconds = 0;
  std::string note;  // "24 FMA x 2048 steps at 1 a clock"
};

struct Candidate {
  package::KernelConfig config;
  std::string name;  // "cpu_packed_6x64_avx512"
  std::vector<CostTerm> terms;
  double microseconds = 0;           // their sum
  std::optional<double> measured{};  // of a kernel of the user's: what tuning has measured, in microseconds
};

struct Discovery {
  std::vector<Candidate> candidates;  // best first; ties broken by family, then name
  std::vector<Rejection> rejections;  // in family order
};

// Which configurations of GPU families are candidates beside those that are kept of each: variants of their tiles, such
// as other clusters, ways of the epilogue and raster groups, and tiles that are expected to be slower.
struct Breadth {
  bool all = false;                 // every one
  std::vector<std::string> also{};  // those with these names; others are nobody's
  bool operator==(const Breadth&) const = default;
};

// Every family answers: candidates or a reason. Deterministic. For cuda targets machine.gpu describes the device;
// where its arch is another than the target's, the usual product of the target's is assumed.
Discovery discover(const package::EpilogueProgram& epilogue, const GemmShape& shape, const Target& target,
                   const MachineFacts& machine, const Breadth& breadth = {});

// Whether both are of one family of a GPU and make the same tiles of the same slices of K by the same schedule.
bool same_tile(const package::KernelConfig& a, const package::KernelConfig& b);
// How far two configurations of one family of a GPU are apart: 1 for each of cluster, way of the epilogue, slices of K,
// schedule, raster group and stages that differs, 2 where factors are read otherwise, and 4 for twice as many rows or
// columns (128 and 160: 2), or half as many. Nothing for others.
std::optional<int> steps_between(const package::KernelConfig& a, const package::KernelConfig& b);
// A bit for each of these respects, and for rows, columns and K of a tile, in which they differ; 0 for others.
uint32_t respects_between(const package::KernelConfig& a, const package::KernelConfig& b);
// Whether both are of one family of a GPU and their consumers take turns, or share tiles, alike.
bool same_schedule(const package::KernelConfig& a, const package::KernelConfig& b);

}  // namespace codetta::plan

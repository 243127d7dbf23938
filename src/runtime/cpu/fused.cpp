// SPDX-License-Identifier: Apache-2.0
// Tasks of a fully fused kernel: blocks of rows by panels of columns, each finished by one call.
#include "runtime/cpu/fused.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/cpu/layout.hpp"
#include "runtime/cpu/units.hpp"

namespace codetta::runtime::cpu {

CpuGemmConfig packing_of(const CpuGemmConfig& config) {
  CpuGemmConfig packing = config;
  if (config.family == CpuFamily::Fused) packing.family = CpuFamily::Packed;
  return packing;
}

size_t fused_workspace_size(const CpuGemmConfig& config, const GemmProblem& problem) {
  return problem.packed_b != nullptr ? 0 : packed_size(packing_of(config), problem);
}

namespace {

struct Job {
  const CpuGemmConfig& config;
  const GemmProblem& problem;
  abi::FusedFunction function;
  abi::EpilogueArgs args{};
  const std::byte* panels = nullptr;
  int64_t panel_elements = 0, item_bytes = 0;
  int64_t a_size = 4, b_size = 4;
  int64_t row_blocks = 0, column_panels = 0;

  void run_task(int64_t task) const {
    // Rows vary fastest, so that threads share the panel that is in the caches.
    const int64_t row_block = task % row_blocks, panel = task / row_blocks % column_panels,
                  batch = task / (row_blocks * column_panels);
    abi::FusedArgs fused{};
    fused.args = &args;
    abi::Tile& tile = fused.tile;
    tile.batch = batch;
    tile.row = row_block * config.tile_rows;
    tile.col = panel * config.nr;
    tile.rows = std::min<int64_t>(config.tile_rows, problem.m - tile.row);
    tile.cols = std::min<int64_t>(config.nr, problem.n - tile.col);
    tile.tile_row = row_block;
    tile.tile_col = panel;
    fused.a = static_cast<const std::byte*>(problem.a) +
              (items::place(batch, problem.a_batch, problem.a_skip, problem.inner) + tile.row * problem.a_row) * a_size;
    fused.a_row_stride = problem.a_row;
    fused.b = panels + batch * item_bytes + panel * panel_elements * b_size;
    fused.b_panel_stride = panel_elements;
    fused.k = problem.k;
    function(&fused);
  }
};

}  // namespace

void run_fused(const CpuGemmConfig& config, const GemmProblem& problem, abi::FusedFunction function,
               const abi::Operand* operands, const abi::ScalarValue* scalars, ThreadPool* pool, void* workspace) {
  if (problem.batch == 0 || problem.m == 0 || problem.n == 0) return;
  const void* packed = problem.packed_b;
  if (packed == nullptr) {
    pack_b(packing_of(config), problem, pool, workspace);
    packed = workspace;
  }
  PackedHeader header;
  std::memcpy(&header, packed, sizeof header);
  const Layout layout = resolve(packing_of(config), problem);
  Job job{config, problem, function};
  job.a_size = dtype_bytes(config.a_dtype);
  job.b_size = dtype_bytes(config.b_dtype);
  job.row_blocks = ceil_div(problem.m, config.tile_rows);
  job.column_panels = ceil_div(problem.n, config.nr);
  job.args = {operands,  scalars,   nullptr,        nullptr,          problem.batch,
              problem.m, problem.n, job.row_blocks, job.column_panels};
  job.panels = static_cast<const std::byte*>(packed) + sizeof(PackedHeader);
  job.panel_elements = layout.panel_bytes / job.b_size;
  job.item_bytes = header.batches == 1 ? 0 : layout.packed_bytes;
  const int64_t tasks = problem.batch * job.row_blocks * job.column_panels;
  const double work = static_cast<double>(problem.m) * static_cast<double>(problem.n) * static_cast<double>(problem.k) *
                      static_cast<double>(problem.batch);
  constexpr double least_parallel = 150e3;  // multiply-adds below which waking threads costs more than it saves
  if (work < least_parallel) pool = nullptr;
  for_units(pool, pool == nullptr ? 1 : pool->size(), tasks, [&](int64_t task, int) { job.run_task(task); });
}

}  // namespace codetta::runtime::cpu

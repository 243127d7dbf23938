// SPDX-License-Identifier: Apache-2.0
// Epilogues in several phases: row panels, whole-problem phases, reduced spaces, results for any number of threads.
#include <atomic>
#include <cmath>

#include "tests/unit/runtime_cpu/harness.hpp"

namespace codetta::runtime::cpu::test {
namespace {

constexpr int64_t batch = 2, m = 45, n = 150, k = 20;

// Reductions, in this order: row sum, row max, row log-sum-exp, column sum, all mean.
const std::vector<Reduction> reductions{
    {ReductionKind::Sum, ReductionAxis::Row, DType::f32, false, 0},
    {ReductionKind::Max, ReductionAxis::Row, DType::f32, false, 0},
    {ReductionKind::LogSumExp, ReductionAxis::Row, DType::f32, false, 0},
    {ReductionKind::Sum, ReductionAxis::Column, DType::f32, false, 0},
    {ReductionKind::Sum, ReductionAxis::All, DType::f32, true, 0},
};

struct Context {
  const std::vector<Phase>* phases;
  std::vector<double> panel = std::vector<double>(static_cast<size_t>(batch * m * n), NAN);  // acc - row max
  std::vector<double> whole = panel;                                                         // acc - column sum - mean
  std::vector<double> row_out = std::vector<double>(static_cast<size_t>(batch * m), NAN);
  std::vector<double> col_out = std::vector<double>(static_cast<size_t>(batch * n), NAN);
  double mean_out = NAN;
  std::atomic<int> once{0};
};

float* partial(const abi::EpilogueArgs* e, int i) { return static_cast<float*>(e->partials[i]); }
const float* result(const abi::EpilogueArgs* e, int i) { return static_cast<const float*>(e->results[i]); }

void write_partials(const abi::EpilogueArgs* e, const abi::Tile* t) {
  const auto* acc = static_cast<const float*>(t->acc);
  std::vector<float> column(static_cast<size_t>(t->cols), 0.0f);
  float all = 0;
  for (int64_t r = 0; r < t->rows; ++r) {
    float sum = 0, max = -INFINITY, exps = 0;
    for (int64_t c = 0; c < t->cols; ++c) {
      const float v = acc[r * t->acc_ld + c];
      sum += v;
      max = std::max(max, v);
      column[static_cast<size_t>(c)] += v;
    }
    for (int64_t c = 0; c < t->cols; ++c) exps += std::exp(acc[r * t->acc_ld + c] - max);
    const int64_t at = (t->batch * e->tile_cols + t->tile_col) * e->rows + t->row + r;
    partial(e, 0)[at] = sum;
    partial(e, 1)[at] = max;
    partial(e, 2)[2 * at] = max;
    partial(e, 2)[2 * at + 1] = exps;
    all += sum;
  }
  for (int64_t c = 0; c < t->cols; ++c) {
    partial(e, 3)[(t->batch * e->tile_rows + t->tile_row) * e->cols + t->col + c] = column[static_cast<size_t>(c)];
  }
  partial(e, 4)[(t->batch * e->tile_rows + t->tile_row) * e->tile_cols + t->tile_col] = all;
}

// Each phase does what its scope and space allow.
void epilogue_of(void* context, const abi::EpilogueArgs* e, const abi::Tile* t) {
  auto& self = *static_cast<Context*>(context);
  const Phase& ph = (*self.phases)[static_cast<size_t>(t->phase)];
  EXPECT_EQ(t->acc != nullptr, ph.accumulators && ph.space == Space::Tiles);
  if (t->phase == 0) {
    write_partials(e, t);
    return;
  }
  const auto* acc = static_cast<const float*>(t->acc);
  switch (ph.space) {
    case Space::Tiles:
      for (int64_t r = 0; r < t->rows && acc != nullptr; ++r) {
        for (int64_t c = 0; c < t->cols; ++c) {
          const auto row = t->batch * m + t->row + r;
          const auto i = static_cast<size_t>(row * n + t->col + c);
          const double v = static_cast<double>(acc[r * t->acc_ld + c]);
          if (ph.scope == Scope::RowPanel) self.panel[i] = v - static_cast<double>(result(e, 1)[row]);
          if (ph.scope == Scope::Whole) {
            self.whole[i] =
                v - static_cast<double>(result(e, 3)[t->batch * n + t->col + c]) - static_cast<double>(result(e, 4)[0]);
          }
        }
      }
      break;
    case Space::Rows:
      for (int64_t r = 0; r < t->rows; ++r) {
        const auto row = t->batch * m + t->row + r;
        self.row_out[static_cast<size_t>(row)] =
            static_cast<double>(result(e, 0)[row]) + static_cast<double>(result(e, 2)[row]);
      }
      break;
    case Space::Columns:
      for (int64_t c = 0; c < t->cols; ++c) {
        const auto col = t->batch * n + t->col + c;
        self.col_out[static_cast<size_t>(col)] = static_cast<double>(result(e, 3)[col]);
      }
      break;
    case Space::Once:
      ++self.once;
      self.mean_out = static_cast<double>(result(e, 4)[0]);
      break;
  }
}

struct Shape {
  const char* name;
  std::vector<Phase> phases;
};
const std::vector<Shape> shapes{
    {"panel",
     {{Scope::Tile, Space::Tiles, true}, {Scope::RowPanel, Space::Tiles, true}, {Scope::RowPanel, Space::Rows, false}}},
    {"whole",
     {{Scope::Tile, Space::Tiles, true}, {Scope::Whole, Space::Tiles, true}, {Scope::Tile, Space::Rows, false}}},
    {"outputs",
     {{Scope::Tile, Space::Tiles, true},
      {Scope::Whole, Space::Rows, false},
      {Scope::Whole, Space::Columns, false},
      {Scope::Whole, Space::Once, false}}},
    {"mixed",
     {{Scope::Tile, Space::Tiles, true},
      {Scope::RowPanel, Space::Tiles, true},
      {Scope::Whole, Space::Once, false},
      {Scope::Whole, Space::Tiles, true},
      {Scope::Whole, Space::Columns, false},
      {Scope::RowPanel, Space::Rows, false}}},
    {"without accumulators", {{Scope::Tile, Space::Tiles, true}, {Scope::Whole, Space::Tiles, false}}},
};

void check_shape(const Shape& shape, CpuFamily family, int k_split, int threads, bool packed) {
  SCOPED_TRACE(std::string(shape.name) + " family " + std::to_string(static_cast<int>(family)) + " k_split " +
               std::to_string(k_split) + " threads " + std::to_string(threads) + (packed ? " packed" : ""));
  Case c;
  c.config.family = family;
  c.config.isa = usable_isas().back();
  c.config.tile_rows = 12;
  c.config.tile_cols = 64;
  c.config.k_split = k_split;
  c.batch = batch;
  c.m = m;
  c.n = n;
  c.k = k;
  c.packed = packed;
  const Problem p(c, 11);
  Context context{&shape.phases};
  EpilogueCall call;
  call.interpret = &epilogue_of;
  call.context = &context;
  call.phases = shape.phases;
  call.reductions = reductions;
  std::vector<float> rows(static_cast<size_t>(batch * m), NAN);
  std::vector<void*> results(reductions.size(), nullptr);
  results[0] = rows.data();  // one result goes to the caller's memory
  call.results = results;
  const auto pool = make_thread_pool(threads);
  const Buffer workspace(workspace_size(c.config, p.problem, call, threads));
  run(c.config, p.problem, call, threads > 1 ? pool.get() : nullptr, workspace.data());

  const std::vector<double> acc = p.expected();
  std::vector<double> row_sum(static_cast<size_t>(batch * m)), row_max(row_sum.size(), -INFINITY),
      col_sum(static_cast<size_t>(batch * n));
  double total = 0;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const double v = acc[static_cast<size_t>((b * m + i) * n + j)];
        row_sum[static_cast<size_t>(b * m + i)] += v;
        row_max[static_cast<size_t>(b * m + i)] = std::max(row_max[static_cast<size_t>(b * m + i)], v);
        col_sum[static_cast<size_t>(b * n + j)] += v;
        total += v;
      }
    }
  }
  const double mean = static_cast<double>(static_cast<float>(total / static_cast<double>(batch * m * n)));
  const auto has = [&](Scope scope, Space space, bool accumulators) {
    for (size_t i = 1; i < shape.phases.size(); ++i) {
      const Phase& ph = shape.phases[i];
      if (ph.scope == scope && ph.space == space && ph.accumulators == accumulators) return true;
    }
    return false;
  };
  const bool rows_out = has(Scope::RowPanel, Space::Rows, false) || has(Scope::Whole, Space::Rows, false) ||
                        has(Scope::Tile, Space::Rows, false);
  for (size_t i = 0; i < acc.size(); ++i) {
    const size_t row = i / n;
    const size_t col = i / (m * n) * n + i % n;
    if (has(Scope::RowPanel, Space::Tiles, true)) {
      ASSERT_EQ(context.panel[i], acc[i] - row_max[row]) << i;
    }
    if (has(Scope::Whole, Space::Tiles, true)) {
      ASSERT_EQ(context.whole[i], acc[i] - col_sum[col] - mean) << i;
    }
  }
  for (size_t r = 0; r < row_sum.size(); ++r) {
    ASSERT_EQ(static_cast<double>(rows[r]), row_sum[r]) << r;
    double exps = 0;
    for (size_t j = 0; j < n; ++j) exps += std::exp(acc[r * n + j] - row_max[r]);
    if (rows_out) {
      ASSERT_NEAR(context.row_out[r], row_sum[r] + row_max[r] + std::log(exps), 1e-3) << r;
    }
  }
  for (size_t j = 0; j < col_sum.size() && has(Scope::Whole, Space::Columns, false); ++j) {
    ASSERT_EQ(context.col_out[j], col_sum[j]) << j;
  }
  EXPECT_EQ(context.once.load(), has(Scope::Whole, Space::Once, false) ? 1 : 0);
  if (has(Scope::Whole, Space::Once, false)) {
    EXPECT_EQ(context.mean_out, mean);
  }
}

TEST(Phases, EveryShapeFamilyAndThreadCount) {
  for (const Shape& shape : shapes) {
    for (CpuFamily family : {CpuFamily::Packed, CpuFamily::InPlace}) {
      for (int k_split : {1, 2}) {
        for (int threads : {1, 3}) {
          for (bool packed : {false, true}) check_shape(shape, family, k_split, threads, packed);
        }
      }
    }
  }
}

TEST(Phases, EmptyProblemsGiveIdentities) {
  for (int which : {0, 1}) {
    Case c;
    c.config.isa = usable_isas().back();
    c.m = which == 0 ? 0 : 4;
    c.n = which == 0 ? 4 : 0;
    c.k = 3;
    const Problem p(c, 1);
    const std::vector<Reduction> two{{ReductionKind::Sum, ReductionAxis::Row, DType::f32, false, 0},
                                     {ReductionKind::Max, ReductionAxis::All, DType::f32, false, 0}};
    struct Seen {
      int once = 0, rows = 0, tiles = 0;
      float max = 0;
    } seen;
    const std::vector<Phase> phases{
        {Scope::Tile, Space::Tiles, true}, {Scope::Whole, Space::Rows, false}, {Scope::Whole, Space::Once, false}};
    EpilogueCall call;
    call.interpret = [](void* context, const abi::EpilogueArgs* e, const abi::Tile* t) {
      auto& s = *static_cast<Seen*>(context);
      if (t->phase == 0) ++s.tiles;
      for (int64_t r = 0; t->phase == 1 && r < t->rows; ++r) s.rows += result(e, 0)[t->row + r] == 0.0f ? 1 : 0;
      if (t->phase == 2) {
        ++s.once;
        s.max = result(e, 1)[0];
      }
    };
    call.context = &seen;
    call.phases = phases;
    call.reductions = two;
    const Buffer workspace(workspace_size(c.config, p.problem, call, 1));
    run(c.config, p.problem, call, nullptr, workspace.data());
    EXPECT_EQ(seen.tiles, 0);
    EXPECT_EQ(seen.rows, which == 0 ? 0 : 4);
    EXPECT_EQ(seen.once, 1);
    EXPECT_EQ(seen.max, -INFINITY);
  }
}

// Matrices of one element, repeated: what a run needs for them is more than any machine has, and never wraps to less.
TEST(Phases, WorkspacesThatNoMachineHasDoNotWrap) {
  const std::vector<Phase> sums{Phase{}}, kept{Phase{}, {Scope::Whole, Space::Tiles, true}};
  const std::vector<Reduction> one{{ReductionKind::Sum, ReductionAxis::All, DType::f32, false, 0}};
  for (const int64_t cols : {int64_t{1} << 30, int64_t{1} << 40, int64_t{1} << 60}) {
    for (const int64_t rows : {int64_t{1} << 40, int64_t{1} << 50, int64_t{1} << 60}) {
      for (const int64_t depth : {int64_t{1}, int64_t{1} << 60}) {
        GemmProblem problem;
        problem.m = rows, problem.n = cols, problem.k = depth;
        problem.a_row = problem.a_k = problem.b_k = problem.b_col = 0;
        CpuGemmConfig config;
        for (const auto& phases : {sums, kept}) {
          EpilogueCall call;
          call.phases = phases;
          call.reductions = one;
          EXPECT_GE(workspace_size(config, problem, call, 2), size_t{1} << 50) << rows << " " << cols << " " << depth;
          EXPECT_LE(workspace_size(config, problem, call, 2), size_t{1} << 60) << rows << " " << cols << " " << depth;
        }
      }
    }
  }
}

TEST(Phases, TilesAreAlignedAndReadableToTheNextLine) {
  for (CpuIsa isa : usable_isas()) {
    for (CpuFamily family : {CpuFamily::Packed, CpuFamily::InPlace}) {
      for (int64_t cols : {1, 17, 70}) {
        for (int ways : {1, 2}) {
          Case c;
          c.config.family = family;
          c.config.isa = isa;
          c.config.nr = 16;
          c.config.tile_cols = 32;
          c.m = 7;
          c.n = cols * ways;
          c.k = 5;
          if (ways == 2) c.split = {2, cols};
          const Problem p(c, 1);
          EpilogueCall call;
          call.interpret = [](void* sink, const abi::EpilogueArgs*, const abi::Tile* t) {
            EXPECT_EQ(reinterpret_cast<uintptr_t>(t->acc) % 64, 0u);
            if (t->acc_col_stride != 1) return;
            EXPECT_EQ(t->acc_ld * 4 % 64, 0);
            EXPECT_EQ(t->acc_part_stride * 4 % 64, 0);
            const auto* acc = static_cast<const uint32_t*>(t->acc);
            for (int64_t r = 0; r < t->rows; ++r) {
              for (int64_t j = 0; j < (t->cols + 15) / 16 * 16; ++j)
                *static_cast<volatile uint32_t*>(sink) = acc[r * t->acc_ld + j];
            }
          };
          uint32_t sink = 0;
          call.context = &sink;
          call.phases = one_phase;
          const Buffer workspace(workspace_size(c.config, p.problem, call, 1));
          run(c.config, p.problem, call, nullptr, workspace.data());
        }
      }
    }
  }
}

}  // namespace
}  // namespace codetta::runtime::cpu::test

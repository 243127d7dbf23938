// SPDX-License-Identifier: Apache-2.0
// device/host/engine.h over the engine: what emitted libraries link. Nothing here computes; it only translates.
#include "device/host/engine.h"

#include <cstring>
#include <new>

#include "codetta/target.hpp"
#include "device/host/default_floats.h"
#include "runtime/cpu/copy.hpp"
#include "runtime/cpu/fused.hpp"
#include "runtime/cpu/layout.hpp"
#include "runtime/cpu/map.hpp"
#include "runtime/cpu/thread_pool.hpp"
#include "runtime/cpu/workspace.hpp"

namespace codetta::host {
namespace {

namespace engine = runtime::cpu;

engine::CpuGemmConfig config_of(const GemmConfig& c) {
  engine::CpuGemmConfig config;
  config.family = static_cast<package::CpuFamily>(c.family);
  config.isa = static_cast<CpuIsa>(c.isa);
  config.a_dtype = static_cast<DType>(c.a_dtype);
  config.b_dtype = static_cast<DType>(c.b_dtype);
  config.accumulator = static_cast<DType>(c.accumulator);
  config.mr = c.mr;
  config.nr = c.nr;
  config.tile_rows = c.tile_rows;
  config.tile_cols = c.tile_cols;
  config.kc = c.kc;
  config.mc = c.mc;
  config.nc = c.nc;
  config.k_split = c.k_split;
  config.pack_a = c.pack_a;
  return config;
}

package::CpuMapConfig config_of(const MapConfig& c) { return {static_cast<CpuIsa>(c.isa), c.tile_rows, c.tile_cols}; }

// The engine's form of a product, and of what makes its factors.
struct Problem : engine::GemmProblem {
  explicit Problem(const Gemm& g) {
    batch = g.batch, m = g.m, n = g.n, k = g.k;
    a = g.a, a_batch = g.a_batch, a_row = g.a_row, a_k = g.a_k;
    b = g.b, b_batch = g.b_batch, b_k = g.b_k, b_col = g.b_col;
    inner = g.inner, a_skip = g.a_skip, b_skip = g.b_skip;
    packed_b = g.packed_b;
    split = {g.split_ways, g.split_chunk};
    products = g.products > 1 ? g.products : 1;
    for (i32 i = 0; i + 1 < products; ++i) {
      const FactorB& b_of = g.more_b[i];
      more_b[i] = {b_of.data, b_of.batch, b_of.k, b_of.col, b_of.skip};
    }
    for (i32 i = 0; g.makers != nullptr && i < products; ++i) {
      const Maker& maker = g.makers[i];
      made_[i] = {maker.tiles,         nullptr,      nullptr,         maker.operands, maker.scalars,
                  maker.operand_count, maker.output, maker.transposed};
    }
    if (g.makers != nullptr) makers = made_;
  }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

 private:
  engine::BlockMaker made_[max_products];
};
static_assert(max_products == engine::max_products);

// The caller's threads as the engine knows them.
class CallersPool final : public ThreadPool {
 public:
  explicit CallersPool(const Threads& threads) : threads_(threads) {}
  [[nodiscard]] int size() const override { return threads_.size; }
  void run(int tasks, void (*fn)(void*, int), void* context) override {
    threads_.run(threads_.self, tasks, fn, context);
  }

 private:
  const Threads& threads_;
};

// Phases and reductions of a call in the engine's form.
struct Call {
  explicit Call(const Epilogue& e) {
    for (i32 i = 0; i < e.phase_count; ++i) {
      phases[i] = {static_cast<engine::Scope>(e.phases[i].scope), static_cast<engine::Space>(e.phases[i].space),
                   e.phases[i].accumulators};
    }
    for (i32 i = 0; i < e.reduction_count; ++i) {
      const Reduction& r = e.reductions[i];
      reductions[i] = {static_cast<engine::ReductionKind>(r.kind),
                       static_cast<engine::ReductionAxis>(r.axis),
                       static_cast<DType>(r.dtype),
                       r.mean,
                       r.phase,
                       r.parts,
                       r.of_nothing};
    }
    call.function = e.tiles;
    call.operands = e.operands;
    call.scalars = e.scalars;
    call.folding_operands = e.folds - 1;
    call.phases = {phases, static_cast<size_t>(e.phase_count)};
    call.reductions = {reductions, static_cast<size_t>(e.reduction_count)};
  }
  engine::Phase phases[engine::max_phases];
  engine::Reduction reductions[engine::max_reductions];
  engine::EpilogueCall call;
};

}  // namespace

static_assert(sizeof(engine::PackedHeader) == packed_header_bytes);

extern "C" {

i64 codetta_engine_workspace(const GemmConfig* config, const Gemm* gemm, const Epilogue* epilogue, i32 threads) {
  const engine::CpuGemmConfig c = config_of(*config);
  const Problem p(*gemm);
  if (epilogue->fused != nullptr) return static_cast<i64>(engine::fused_workspace_size(c, p));
  if (epilogue->tiles == nullptr) return static_cast<i64>(engine::workspace_size(engine::packing_of(c), p, threads));
  return static_cast<i64>(engine::workspace_size(engine::packing_of(c), p, Call(*epilogue).call, threads));
}

void codetta_engine_run(const GemmConfig* config, const Gemm* gemm, const Epilogue* epilogue, const Threads* threads,
                        void* workspace) {
  const DefaultFloats floats;
  const engine::CpuGemmConfig c = config_of(*config);
  const Problem p(*gemm);
  CallersPool pool(*threads);
  if (epilogue->fused != nullptr) {
    engine::run_fused(c, p, epilogue->fused, epilogue->operands, epilogue->scalars, &pool, workspace);
  } else if (epilogue->tiles == nullptr) {
    engine::run(engine::packing_of(c), p, engine::StoreTile{epilogue->out, epilogue->out_batch, epilogue->out_row},
                &pool, workspace);
  } else {
    const Call call(*epilogue);
    engine::run(engine::packing_of(c), p, call.call, &pool, workspace);
  }
}

i64 codetta_engine_map_workspace(const MapConfig* config, const Gemm* space, const Epilogue* epilogue) {
  return static_cast<i64>(
      engine::map_workspace_size(config_of(*config), {space->batch, space->m, space->n}, Call(*epilogue).call));
}

void codetta_engine_map_run(const MapConfig* config, const Gemm* space, const Epilogue* epilogue,
                            const Threads* threads, void* workspace) {
  const DefaultFloats floats;
  CallersPool pool(*threads);
  const Call call(*epilogue);
  engine::run_map(config_of(*config), {space->batch, space->m, space->n}, call.call, &pool, workspace);
}

i64 codetta_engine_packed_size(const GemmConfig* config, const Gemm* gemm) {
  return static_cast<i64>(engine::packed_size(engine::packing_of(config_of(*config)), Problem(*gemm)));
}

void codetta_engine_pack(const GemmConfig* config, const Gemm* gemm, const Threads* threads, void* out) {
  const DefaultFloats floats;
  CallersPool pool(*threads);
  engine::pack_b(engine::packing_of(config_of(*config)), Problem(*gemm), &pool, out);
}

bool codetta_engine_packed_matches(const void* packed, i64 bytes, const GemmConfig* config, const Gemm* gemm) {
  return engine::packed_matches(packed, static_cast<size_t>(bytes), engine::packing_of(config_of(*config)),
                                Problem(*gemm));
}

void codetta_engine_copy(const Extent* target, const Extent* source, const Threads* threads) {
  CallersPool pool(*threads);
  engine::CopyProblem problem;
  problem.source = source->data;
  problem.target = const_cast<void*>(target->data);
  problem.element_bytes = source->element_bytes;
  int64_t sizes[engine::max_copied_dims], from[engine::max_copied_dims], to[engine::max_copied_dims];
  problem.rank = source->rank;
  for (i32 i = 0; i < source->rank; ++i) {
    sizes[i] = source->sizes[i];
    from[i] = source->strides[i];
    to[i] = target->strides[i];
  }
  problem.sizes = sizes;
  problem.source_strides = from;
  problem.target_strides = to;
  engine::copy(problem, &pool);
}

bool codetta_engine_runs(i32 isa) { return cpu_supports(static_cast<CpuIsa>(isa)); }

void* codetta_engine_threads_make(i32 threads) try {
  return make_thread_pool(threads).release();
} catch (const std::bad_alloc&) {
  return nullptr;
}

void codetta_engine_threads_free(void* pool) { delete static_cast<ThreadPool*>(pool); }

i32 codetta_engine_threads_size(void* pool) { return static_cast<ThreadPool*>(pool)->size(); }

void codetta_engine_threads_run(void* pool, i32 tasks, void (*task)(void* context, i32 index), void* context) {
  static_cast<ThreadPool*>(pool)->run(tasks, task, context);
}

i32 codetta_engine_processors() { return engine::usable_processors(); }

}  // extern "C"

}  // namespace codetta::host

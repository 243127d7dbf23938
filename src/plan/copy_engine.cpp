// SPDX-License-Identifier: Apache-2.0
#include "plan/copy_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "plan/families.hpp"
#include "plan/refusals.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {
namespace {

// Whether a map can have the dim of `size` elements `stride` elements apart.
bool stride_fits(int64_t size, int64_t stride, int64_t element) {
  return size <= 1 || (stride > 0 && stride < map_stride / element && stride * element % map_alignment == 0);
}

// Whether consecutive k are the fast dim of the map, if either dim can be.
std::optional<bool> k_major(const FactorLayout& f, int64_t element) {
  const auto fits = [&](int64_t fast, int64_t fast_stride, int64_t slow, int64_t slow_stride) {
    return (fast <= 1 || fast_stride == 1) && stride_fits(slow, slow_stride, element);
  };
  if (fits(f.k, f.k_stride, f.other, f.other_stride)) return true;
  if (fits(f.other, f.other_stride, f.k, f.k_stride)) return false;
  return std::nullopt;
}

}  // namespace

std::array<FactorLayout, 2> factors_of(const GpuProblem& p) {
  const GemmShape& s = p.shape;
  return {FactorLayout{s.k, s.a_k_stride, s.m, s.a_row_stride, s.batch, s.a_batch_stride, s.a_skip, s.a_alignment},
          FactorLayout{s.k, s.b_k_stride, s.n / s.products, s.b_col_stride, s.batch, s.b_batch_stride, s.b_skip,
                       s.b_alignment}};
}

Reading reading_of(const FactorLayout& f, int64_t element, bool along_k) {
  const std::optional<bool> lies = k_major(f, element);
  const bool batch_fits = f.skip == 0 && (f.batch_stride == 0 || stride_fits(f.batch, f.batch_stride, element));
  if (lies && (*lies || !along_k) && batch_fits && f.address_alignment % map_alignment == 0) return {*lies, false};
  // As it lies, where elements are side by side; along K otherwise.
  return {along_k || f.k_stride == 1 || f.other_stride != 1 || f.k <= 1, true};
}

Reading reading_of_b(const GpuProblem& p, const FactorLayout& f, int64_t element, bool along_k) {
  const Reading b = reading_of(f, element, along_k);
  if (p.ways() == 1 || b.k_major || p.chunk() * element % map_alignment == 0) return b;
  return {true, true};
}

bool is_position(const package::Inst& inst) {
  using Kind = package::Inst::Kind;
  const bool moved =
      inst.kind == Kind::Op && (inst.op == types::Op::add || inst.op == types::Op::sub || inst.op == types::Op::mul ||
                                inst.op == types::Op::floordiv || inst.op == types::Op::mod);
  return inst.type == DType::i64 && (inst.kind == Kind::RowIndex || inst.kind == Kind::ColIndex ||
                                     inst.kind == Kind::BatchIndex || inst.kind == Kind::Literal || moved);
}

std::optional<ColumnRuns> column_runs(const package::Operand& o) {
  using package::Axis;
  const auto undivided = [](const package::IndexTerm& term, Axis axis) { return term.axis == axis && term.div == 1; };
  const std::vector<package::IndexTerm>& terms = o.terms;
  if (o.access != package::Access::Indexed || !o.gathered.empty() || terms.size() < 2 || terms.size() > 3)
    return std::nullopt;
  if (!undivided(terms[0], Axis::Row) || terms[0].mod != 0 || !undivided(terms[1], Axis::Col) || terms[1].mod <= 0 ||
      terms[1].dim != 0 || !(terms[1].scale == types::Dim::constant(1)))
    return std::nullopt;
  ColumnRuns runs{terms[1].mod, 0};
  if (terms.size() == 2) return runs;
  const auto step = terms[2].scale.as_constant();
  if (terms[2].axis != Axis::Col || terms[2].div != runs.run || terms[2].mod != 0 || terms[2].dim != 0 || !step ||
      *step < runs.run)
    return std::nullopt;
  runs.step = *step;
  return runs;
}

namespace {

constexpr int64_t least_piece = 32;  // columns of a piece (copies.h), which lie side by side

// Whether the pieces of an indexed operand lie within runs that begin at multiples of 16 bytes. Of a store, a run is a
// part of a split, in a row of all parts: then its matrix has as many columns as B.
bool runs_fit(const package::EpilogueProgram& epilogue, const package::Operand& o) {
  const auto runs = column_runs(o);
  const int64_t size = types::byte_size(o.dtype);
  if (!runs || runs->run % least_piece != 0 || (size != 2 && size != 4)) return false;
  const bool of_split =
      epilogue.split.chunk == types::Dim::constant(runs->run) && runs->step == runs->run * epilogue.split.own_ways();
  if (o.is_store ? !of_split : runs->step != 0) return false;
  return std::all_of(o.offsets.begin(), o.offsets.end(), [&](const auto& offset) {
    const auto count = offset.second.as_constant();
    return offset.first != 0 || (count && *count * size % map_alignment == 0);
  });
}

}  // namespace

std::vector<uint32_t> tables_of(const package::EpilogueProgram& epilogue) {
  std::vector<uint32_t> tables;
  for (const package::Inst& inst : epilogue.phases[0].insts) {
    if (inst.kind != package::Inst::Kind::Load || epilogue.operands[inst.index].access != package::Access::Indexed ||
        std::find(tables.begin(), tables.end(), inst.index) != tables.end())
      continue;
    tables.push_back(inst.index);
  }
  return tables;
}

std::optional<int32_t> run_of_copies(const package::EpilogueProgram& epilogue) {
  std::optional<int32_t> common;
  const auto meet = [&](uint32_t k) {
    if (const auto runs = column_runs(epilogue.operands[k]))
      common = static_cast<int32_t>(std::gcd(int64_t{common.value_or(0)}, runs->run));
  };
  for (const package::Store& store : epilogue.phases[0].stores) meet(store.operand);
  for (const uint32_t k : tables_of(epilogue)) meet(k);
  return common;
}

std::optional<Copies> copies_of(const package::EpilogueProgram& epilogue) {
  using Kind = package::Inst::Kind;
  constexpr size_t most = 4;
  constexpr int most_column_sums = 2;  // of a tile, in what stages leave
  if (!epilogue.spaces.empty()) {
    Copies all;
    for (size_t p = 0; p < epilogue.spaces.size(); ++p) {
      const auto own = copies_of(package::program_of(epilogue, p));
      if (!own) return std::nullopt;
      all.loads.insert(all.loads.end(), own->loads.begin(), own->loads.end());
      all.stores.insert(all.stores.end(), own->stores.begin(), own->stores.end());
    }
    return all;
  }
  const auto fits = [&](uint32_t k) {
    const package::Operand& o = epilogue.operands[k];
    const int64_t size = types::byte_size(o.dtype);
    if (size != 2 && size != 4) return false;
    if (o.access == package::Access::Indexed) return runs_fit(epilogue, o);
    return o.access == package::Access::Full && (o.unit_stride || o.column_major);
  };
  Copies copies;
  for (const package::Inst& inst : epilogue.phases[0].insts) {
    if (inst.kind == Kind::LoadAt || (inst.kind == Kind::Op && inst.op == types::Op::dropout)) return std::nullopt;
    const bool load = inst.kind == Kind::Load;
    const package::Access access = load ? epilogue.operands[inst.index].access : package::Access::Full;
    // A lane has one number of 64 bits for each of its two rows, such as the column of a row's label.
    const bool of_row = access == package::Access::Column && inst.type == DType::i64;
    if (types::byte_size(inst.type) == 8 && !is_position(inst) && !of_row) return std::nullopt;
    if (!load) continue;
    if ((access == package::Access::Indexed || access == package::Access::Full) && !fits(inst.index))
      return std::nullopt;
    if (access == package::Access::Full &&
        std::find(copies.loads.begin(), copies.loads.end(), inst.index) == copies.loads.end())
      copies.loads.push_back(inst.index);
  }
  for (const package::Store& store : epilogue.phases[0].stores) {
    if (!fits(store.operand)) return std::nullopt;
    copies.stores.push_back(store.operand);
  }
  for (const package::Reduction& r : epilogue.reductions) {
    if (r.phase != 0 || types::byte_size(r.type) == 8) return std::nullopt;
    if (r.axis == package::ReduceAxis::Row) continue;
    // Lanes exchange halves of their columns, whose states are of one value.
    if (r.axis != package::ReduceAxis::Column || types::byte_size(r.type) != 4 || package::values_of(r.kind) != 1 ||
        ++copies.column_sums > most_column_sums)
      return std::nullopt;
  }
  // Rows whose exponents are summed are combined a thread each, columns by several.
  if (copies.column_sums > 0 && sums_exponents(epilogue)) return std::nullopt;
  for (size_t i = 1; i < epilogue.phases.size(); ++i) {
    const package::Phase& phase = epilogue.phases[i];  // of finished reductions only
    if (phase.reads_accumulator || std::any_of(phase.insts.begin(), phase.insts.end(),
                                               [](const package::Inst& inst) { return inst.kind != Kind::Result; }))
      return std::nullopt;
  }
  const size_t count = copies.loads.size() + copies.stores.size() + tables_of(epilogue).size();
  // Without any, rows are reduced where the accumulators are.
  if ((count == 0 && epilogue.reductions.empty()) || count > most) return std::nullopt;
  return copies;
}

CopySlots copy_slots(const package::EpilogueProgram& epilogue) {
  CopySlots slots;
  const auto add = [&](const package::EpilogueProgram& program) {
    const Copies copies = copies_of(program).value_or(Copies{});
    const auto meet = [&](const std::vector<uint32_t>& list, std::vector<int64_t>& sizes) {
      sizes.resize(std::max(sizes.size(), list.size()));
      for (size_t i = 0; i < list.size(); ++i)
        sizes[i] = std::max<int64_t>(sizes[i], types::byte_size(program.operands[list[i]].dtype));
    };
    meet(copies.loads, slots.loads), meet(copies.stores, slots.stores);
  };
  if (epilogue.spaces.empty()) add(epilogue);
  for (size_t p = 0; p < epilogue.spaces.size(); ++p) add(package::program_of(epilogue, p));
  return slots;
}

std::optional<uint32_t> brought_for_a(const package::EpilogueProgram& epilogue) {
  using Kind = package::Inst::Kind;
  const package::FactorProgram* a = epilogue.made(package::FactorProgram::Which::A);
  if (a == nullptr || types::byte_size(a->dtype) != 2) return std::nullopt;
  std::optional<uint32_t> brought;
  for (const package::Inst& inst : a->insts) {
    if (inst.kind == Kind::LoadAt || (inst.kind == Kind::Op && inst.op == types::Op::dropout)) return std::nullopt;
    if (inst.kind != Kind::Load) continue;
    const package::Operand& o = epilogue.operands[inst.index];
    if (o.access == package::Access::Indexed) return std::nullopt;
    if (o.access != package::Access::Full) continue;
    if (brought || !o.unit_stride || o.column_major || !o.offsets.empty() || types::byte_size(o.dtype) != 2)
      return std::nullopt;
    brought = inst.index;
  }
  return brought;
}

std::optional<Rejection> refuse_copied(const GpuProblem& p, GpuFamily family) {
  const GemmShape& s = p.shape;
  const auto no = [&](diag::Code code, std::string text) { return cuda_rejection(family, code, std::move(text)); };
  if (auto nothing = nothing_to_multiply(p, no)) return nothing;
  for (const int64_t size : {s.m, s.n, s.k, s.batch}) {
    if (size > max_extent)
      return no(diag::Code::family_size, fmt::format("a size of {} is beyond the copy engine's 2^31", size))
          .limited("size", size, max_extent);
  }
  if (p.epilogue.split.interleaved()) {
    return no(
        diag::Code::family_split,
        fmt::format("the {} parts of the split alternate by column, and a copy brings neighbouring columns", p.ways()));
  }
  return std::nullopt;
}

Rejection no_tile_for_split(const GpuProblem& p, GpuFamily family) {
  if (p.ways() == 1) {
    auto [code, why] = no_tile(p, false);
    return cuda_rejection(family, code, std::move(why));
  }
  return cuda_rejection(family, diag::Code::family_split,
                        fmt::format("no tile of up to 256 columns holds {} parts in chunks of {} columns", p.ways(),
                                    p.epilogue.split.chunk.to_string()));
}

}  // namespace codetta::plan

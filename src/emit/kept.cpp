// SPDX-License-Identifier: Apache-2.0
#include "emit/kept.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "emit/nests.hpp"

namespace codetta::emit {

using package::Inst;

namespace {

// Equal instructions over equal values have one number, in whichever phase they are.
class Numbers {
 public:
  std::vector<uint32_t> of(const package::Phase& phase) {
    std::vector<uint32_t> numbers;
    for (const Inst& inst : phase.insts) {
      std::vector<uint64_t> key{static_cast<uint64_t>(inst.kind),
                                static_cast<uint64_t>(inst.op),
                                static_cast<uint64_t>(inst.type),
                                static_cast<uint64_t>(inst.aux),
                                inst.index,
                                inst.bits};
      for (int i = 0; i < inst.arity; ++i) key.push_back(numbers[inst.in[i]]);
      numbers.push_back(known_.emplace(std::move(key), static_cast<uint32_t>(known_.size())).first->second);
    }
    return numbers;
  }

 private:
  std::map<std::vector<uint64_t>, uint32_t> known_;
};

struct Lifetime {
  uint32_t phase = 0, value = 0;  // where it is computed
  uint32_t last = 0;              // phase
};

// The operations that are done again rather than their result kept; others take more than what half a register saves.
bool is_cheap(types::Op op) {
  using types::Op;
  constexpr std::array cheap{Op::add, Op::sub, Op::mul, Op::multiply_add, Op::neg, Op::abs, Op::minimum, Op::maximum};
  return std::find(cheap.begin(), cheap.end(), op) != cheap.end();
}
constexpr int most_done_again = 2;

// The load of 16-bit floats that a value is made of by cheap operations with what is the same along a row; none: it is
// made of more. `done`: operations so far.
std::optional<uint32_t> narrow_source(const package::EpilogueProgram& program, const package::Phase& phase,
                                      const Nests& nests, uint32_t id, int& done) {
  const Inst& inst = phase.insts[id];
  if (inst.type != DType::f32 || nests.variation[id] != by_both) return std::nullopt;
  if (inst.kind == Inst::Kind::Load) {
    const package::Operand& o = program.operands[inst.index];
    const bool whole_vectors =
        o.access == package::Access::Indexed || (o.access == package::Access::Full && o.unit_stride);
    if (whole_vectors && (o.dtype == DType::bf16 || o.dtype == DType::f16)) return id;
    return std::nullopt;
  }
  if (inst.kind != Inst::Kind::Op || !is_cheap(inst.op) || ++done > most_done_again) return std::nullopt;
  std::optional<uint32_t> source;
  for (int i = 0; i < inst.arity; ++i) {
    if ((nests.variation[inst.in[i]] & by_column) == 0) continue;
    const auto of_operand = narrow_source(program, phase, nests, inst.in[i], done);
    if (!of_operand || (source && source != of_operand)) return std::nullopt;
    source = of_operand;
  }
  return source;
}

}  // namespace

Result<KeptValues> keep_values(const package::EpilogueProgram& program) {
  KeptValues kept;
  kept.program = program;
  kept.program.accumulator = DType::f32;
  kept.program.split.ways = package::max_split_ways;  // as many as there may be, until they are counted
  kept.saved.resize(program.phases.size());
  kept.loads.resize(program.phases.size());
  Numbers numbers;
  std::map<uint32_t, Lifetime> computed;  // by number
  std::map<uint32_t, uint32_t> slots, load_slots;
  for (uint32_t p = 0; p < program.phases.size(); ++p) {
    package::Phase& phase = kept.program.phases[p];
    const std::vector<uint32_t> number = numbers.of(program.phases[p]);
    CODETTA_TRY(const Nests nests, make_nests(program, p));
    std::vector<uint32_t> open;
    for (const uint32_t i : nests.full_stores) open.push_back(phase.stores[i].value);
    for (const uint32_t k : nests.reductions) open.push_back(program.reductions[k].value);
    std::set<uint32_t> seen;
    while (!open.empty()) {
      const uint32_t id = open.back();
      open.pop_back();
      if (!seen.insert(id).second) continue;
      Inst& inst = phase.insts[id];
      const bool keeps = nests.variation[id] == by_both && inst.type == DType::f32;
      const auto before = computed.find(number[id]);
      const bool again = keeps && before != computed.end() && before->second.phase < p;
      int done = 0;
      if (const auto source = again ? narrow_source(program, program.phases[p], nests, id, done) : std::nullopt) {
        Lifetime& life = computed.at(number[*source]);
        const auto [slot, fresh] = load_slots.emplace(number[*source], static_cast<uint32_t>(load_slots.size()));
        if (fresh) {
          kept.load_slots.push_back(program.operands[program.phases[p].insts[*source].index].dtype);
          kept.loads[life.phase].push_back({life.value, slot->second, true});
        }
        const auto is_there = [&](const KeptLoad& load) { return load.slot == slot->second; };
        if (std::none_of(kept.loads[p].begin(), kept.loads[p].end(), is_there))
          kept.loads[p].push_back({*source, slot->second, false});
        life.last = p;
        continue;
      }
      if (again && slots.size() < package::max_split_ways) {
        const auto slot = slots.emplace(number[id], static_cast<uint32_t>(slots.size())).first->second;
        before->second.last = p;
        inst = Inst{};
        inst.kind = Inst::Kind::Accumulator;
        inst.type = inst.aux = DType::f32;
        inst.index = slot;
        continue;
      }
      if (keeps) computed.emplace(number[id], Lifetime{p, id, p});
      for (int i = 0; i < inst.arity; ++i) open.push_back(inst.in[i]);
    }
  }
  kept.last.resize(slots.size());
  for (const auto& [number, slot] : slots) {
    const Lifetime& life = computed.at(number);
    kept.saved[life.phase].emplace_back(life.value, slot);
    kept.last[slot] = life.last;
  }
  for (uint32_t p = 0; p < program.phases.size(); ++p) {
    double live = 0, held = 0;
    const auto add = [&](const std::map<uint32_t, uint32_t>& these, double registers) {
      for (const auto& [number, slot] : these) {
        const Lifetime& life = computed.at(number);
        live += life.phase <= p && life.last > p ? registers : 0;
        held += life.phase <= p && life.last >= p ? registers : 0;
      }
    };
    add(slots, 1);
    add(load_slots, 0.5);
    kept.most_live = std::max(kept.most_live, live);
    kept.most_held = std::max(kept.most_held, held);
  }
  kept.slots = static_cast<uint32_t>(slots.size());
  kept.program.split.ways = std::max(static_cast<int32_t>(kept.slots), 1);
  return kept;
}

}  // namespace codetta::emit

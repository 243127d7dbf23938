// SPDX-License-Identifier: Apache-2.0
#include "emit/kept.hpp"

#include <algorithm>
#include <map>
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

}  // namespace

Result<KeptValues> keep_values(const package::EpilogueProgram& program) {
  KeptValues kept;
  kept.program = program;
  kept.program.accumulator = DType::f32;
  kept.program.split.ways = package::max_split_ways;  // as many as there may be, until they are counted
  kept.saved.resize(program.phases.size());
  Numbers numbers;
  std::map<uint32_t, Lifetime> computed;  // by number
  std::map<uint32_t, uint32_t> slots;
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
      if (keeps && before != computed.end() && before->second.phase < p && slots.size() < package::max_split_ways) {
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
  for (const auto& [number, slot] : slots) {
    const Lifetime& life = computed.at(number);
    kept.saved[life.phase].emplace_back(life.value, slot);
  }
  for (uint32_t p = 0; p + 1 < program.phases.size(); ++p) {
    int live = 0;
    for (const auto& [number, slot] : slots) {
      const Lifetime& life = computed.at(number);
      live += life.phase <= p && life.last > p ? 1 : 0;
    }
    kept.most_live = std::max(kept.most_live, live);
  }
  kept.slots = static_cast<uint32_t>(slots.size());
  kept.program.split.ways = std::max(static_cast<int32_t>(kept.slots), 1);
  return kept;
}

}  // namespace codetta::emit

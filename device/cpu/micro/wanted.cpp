// SPDX-License-Identifier: Apache-2.0
// The tables of an emitted library, of the sets in its list. It is linked in front of table.cpp, which has them all.
#include "device/cpu/micro/sets.hpp"
#include "device/cpu/micro/table.hpp"

extern "C" const codetta::cpu::WantedSet codetta_wanted_sets[];

namespace codetta::cpu {

namespace {

constexpr int levels = static_cast<int>(CpuIsa::amx) + 1;

struct Tables {
  MicroTable of[levels];
  bool there[levels] = {};
};

Tables made() {
  Tables tables;
  for (const WantedSet* one = codetta_wanted_sets; one->what != nullptr; ++one) {
    MicroTable& table = tables.of[one->isa];
    tables.there[one->isa] = true;
    switch (one->kind) {
      case WantedSet::Kind::packed:
        table.packed[one->index] = *static_cast<const KernelSet*>(one->what);
        break;
      case WantedSet::Kind::in_place:
        table.in_place[one->index] = *static_cast<const KernelSet*>(one->what);
        break;
      case WantedSet::Kind::dot:
        table.dot[one->index] = *static_cast<const DotSet*>(one->what);
        break;
      case WantedSet::Kind::packers:
        table.packers = static_cast<const Packers*>(one->what);
        break;
      case WantedSet::Kind::enter:
        table.enter = reinterpret_cast<void (*)()>(const_cast<void*>(one->what));
        break;
      case WantedSet::Kind::leave:
        table.leave = reinterpret_cast<void (*)()>(const_cast<void*>(one->what));
        break;
    }
  }
  return tables;
}

}  // namespace

const MicroTable* micro_table(CpuIsa isa) {
  static const Tables tables = made();
  const int at = static_cast<int>(isa);
  return at < levels && tables.there[at] ? &tables.of[at] : nullptr;
}

}  // namespace codetta::cpu

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "package/epilogue_program.hpp"

namespace codetta::test {

// D = accum: the accumulators stored to one argument D[m, n] of dtype `out`, at strides that only a run knows.
inline package::EpilogueProgram plain_store(DType accumulator, DType out, const types::Dim& m = types::Dim::symbol("m"),
                                            const types::Dim& n = types::Dim::symbol("n")) {
  package::EpilogueProgram program;
  program.accumulator = accumulator;
  program.arguments.push_back({"D", out, false, true, {m, n}});
  package::Operand store;
  store.dtype = out;
  store.is_store = true;
  store.terms = {{package::Axis::Row, 1, 0, 1, types::Dim::constant(1)},
                 {package::Axis::Col, 1, 0, 0, types::Dim::constant(1)}};
  program.operands.push_back(store);
  package::Inst inst;
  inst.kind = package::Inst::Kind::Accumulator;
  inst.type = inst.aux = accumulator;
  program.phases.push_back({package::Scope::Tile, true, {inst}, {{0, 0}}});
  return program;
}

}  // namespace codetta::test

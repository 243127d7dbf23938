// SPDX-License-Identifier: Apache-2.0
// What a run must check before the first kernel, as steps; shared by plan_gemm and plan_program.
#pragma once

#include <vector>

#include "package/package.hpp"

namespace codetta::plan {

// One kernel as its guards see it: its factors, if any, and the buffers of the program's arguments. Or another step:
// all buffers that it touches.
struct KernelUse {
  std::optional<package::Product> product;
  bool batched = false;                                // may run over more than one batch item
  const package::EpilogueProgram* epilogue = nullptr;  // null: no kernel
  const std::vector<uint32_t>* arguments = nullptr;
  bool apart = false;  // what it touches is never updated in place: it is no kernel, or may run again
  std::vector<const package::EpilogueProgram*> makers{};  // by b_made of the product
  // One of the program's own list, where it stands there.
  bool in_order = false;
  std::vector<uint32_t> touched{};        // all that it reads and makes
  std::vector<package::Copy> copies{};    // in front of its other steps: what these update begins as the source
  std::vector<uint32_t> behind_copies{};  // what the other steps name
};

// DefineSymbol for every tensor dim that is a symbol: the first defines it, the others are checked against it.
void define_symbols(const std::vector<package::Buffer>& buffers, std::vector<package::Step>& steps);
// Unit strides, and no overlap of outputs with anything but what may be updated in place, nor of what is donated with
// anything. Temporaries need neither.
void add_guards(const std::vector<package::Buffer>& buffers, const std::vector<KernelUse>& kernels,
                std::vector<package::Step>& steps);
// May `input` and `output` (arguments of one program) be the identical view? Every load of the input must hit an
// element that the same root element stores, in that phase or before.
bool may_be_in_place(const package::EpilogueProgram& program, bool batched, uint32_t input, uint32_t output);
// The same of a kernel without a product whose root has one element: one thread loads all that there is before it
// stores anything, so equal types and shapes are enough.
bool may_be_in_place_of_one(const package::EpilogueProgram& program, uint32_t input, uint32_t output);

}  // namespace codetta::plan

// SPDX-License-Identifier: Apache-2.0
#include "plan/guards.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/checked.hpp"
#include "types/symbol_source.hpp"

namespace codetta::plan {

using package::Buffer;
using package::EpilogueProgram;
using package::Operand;

void define_symbols(const std::vector<Buffer>& buffers, std::vector<package::Step>& steps) {
  const auto define = [&](std::string symbol, size_t buffer, size_t dim, types::Dim less, int64_t factor) {
    steps.emplace_back(package::DefineSymbol{std::move(symbol), static_cast<uint32_t>(buffer),
                                             static_cast<int32_t>(dim), package::DefineSymbol::From::Size, 0,
                                             std::move(less), types::Dim::constant(factor)});
  };
  const auto define_alone = [&](Buffer::Role role) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i].is_scalar || buffers[i].role != role) continue;
      for (size_t d = 0; d < buffers[i].shape.size(); ++d) {
        if (const auto symbol = buffers[i].shape[d].as_symbol()) define(std::string(*symbol), i, d, {}, 1);
      }
    }
  };
  define_alone(Buffer::Role::Argument);
  // What no argument has alone is what its first sum there says, whatever outputs have; it may rest on what is defined.
  std::vector<types::Shape> read(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!buffers[i].is_scalar && buffers[i].role == Buffer::Role::Argument) read[i] = buffers[i].shape;
  }
  for (types::SymbolSource& source : types::symbol_sources(read)) {
    if (!source.is_alone())
      define(std::move(source.symbol), source.shape, source.dim, std::move(source.rest), source.factor);
  }
  define_alone(Buffer::Role::Output);
}

namespace {

// Is each element of the operand met by one root element only?
bool covers_elements(const Operand& operand, bool batched) {
  // The digits of a place on the axis, from the last one on: place % 4 and place // 4, but not place % 4 alone, which
  // comes round again.
  const auto uses = [&](package::Axis axis) {
    std::vector<const package::IndexTerm*> digits;
    for (const package::IndexTerm& term : operand.terms) {
      if (term.axis == axis) digits.push_back(&term);
    }
    std::sort(digits.begin(), digits.end(), [](const auto* a, const auto* b) { return a->div < b->div; });
    int64_t next = 1;  // what the digits so far tell apart; 0: all places
    for (const package::IndexTerm* digit : digits) {
      if (next == 0 || digit->div != next) return false;
      const auto whole = digit->mod == 0 ? std::optional<int64_t>(0) : base::checked_mul(next, digit->mod);
      if (!whole) return false;
      next = *whole;
    }
    return !digits.empty() && next == 0;
  };
  return uses(package::Axis::Row) && uses(package::Axis::Col) && (!batched || uses(package::Axis::Batch));
}

// Do they touch the same element for the same root element? Two identical views have equal sizes, so where the load's
// dim is 1 the store's is, too, and terms there add nothing.
bool same_element(const EpilogueProgram& program, const Operand& load, const Operand& store) {
  const auto& shape = program.arguments[load.argument].shape;
  const auto is_one = [&](uint8_t dim) {
    return dim < shape.size() && shape[shape.size() - 1 - dim] == types::Dim::constant(1);
  };
  auto terms = store.terms;
  std::erase_if(terms, [&](const package::IndexTerm& term) { return is_one(term.dim); });
  return terms == load.terms && load.offsets == store.offsets && load.dtype == store.dtype;
}

}  // namespace

bool may_be_in_place(const EpilogueProgram& program, bool batched, uint32_t input, uint32_t output) {
  if (program.factors_read(input)) return false;  // by all tiles
  if (!program.spaces.empty()) {                  // what is one element in a product's tile is another one in another's
    const auto touches = [&](const EpilogueProgram& own, uint32_t argument) {
      const package::Phase& phase = own.phases[0];
      return std::any_of(
                 phase.stores.begin(), phase.stores.end(),
                 [&](const package::Store& store) { return own.operands[store.operand].argument == argument; }) ||
             std::any_of(phase.insts.begin(), phase.insts.end(), [&](const package::Inst& inst) {
               return (inst.kind == package::Inst::Kind::Load || inst.kind == package::Inst::Kind::LoadAt) &&
                      own.operands[inst.index].argument == argument;
             });
    };
    bool written = false;
    for (size_t p = 0; p < program.spaces.size(); ++p) {
      const EpilogueProgram own = package::program_of(program, p);
      const bool reads = touches(own, input), writes = touches(own, output);
      if (reads && !writes) return false;
      if (writes && (std::exchange(written, true) || !may_be_in_place(own, batched, input, output))) return false;
    }
    return true;
  }
  std::vector<const Operand*> stores;
  size_t first_store = program.phases.size();
  for (size_t p = 0; p < program.phases.size(); ++p) {
    for (const package::Store& store : program.phases[p].stores) {
      const Operand& operand = program.operands[store.operand];
      if (operand.argument != output) continue;
      if (!covers_elements(operand, batched)) return false;  // written by some tiles, read by all
      stores.push_back(&operand);
      first_store = std::min(first_store, p);
    }
  }
  for (size_t p = 0; p < program.phases.size(); ++p) {
    for (const package::Inst& inst : program.phases[p].insts) {
      const bool loads = inst.kind == package::Inst::Kind::Load || inst.kind == package::Inst::Kind::LoadAt;
      if (!loads || program.operands[inst.index].argument != input) continue;
      if (inst.kind == package::Inst::Kind::LoadAt) return false;
      const Operand& load = program.operands[inst.index];
      const bool same = std::any_of(stores.begin(), stores.end(),
                                    [&](const Operand* store) { return same_element(program, load, *store); });
      if (!same || p > first_store) return false;
    }
  }
  return true;
}

bool may_be_in_place_of_one(const EpilogueProgram& program, uint32_t input, uint32_t output) {
  const auto &from = program.arguments[input], &to = program.arguments[output];
  const auto is_one = [](const types::Dim& dim) { return dim == types::Dim::constant(1); };
  return program.phases.size() == 1 && program.spaces.empty() && !program.factors_read(input) && to.is_output &&
         from.dtype == to.dtype && from.shape == to.shape && std::all_of(to.shape.begin(), to.shape.end(), is_one);
}

namespace {

// Made in place: GCC 12 warns of uninitialized members when a variant of variants is moved.
template <class G>
void check(std::vector<package::Step>& steps, G guard) {
  package::Check& step = *std::get_if<package::Check>(&steps.emplace_back(std::in_place_type<package::Check>));
  step.guard.emplace<G>(guard);
}

bool has(const std::vector<uint32_t>& list, uint32_t buffer) {
  return std::find(list.begin(), list.end(), buffer) != list.end();
}

// May a step that touches both find them to be the identical view?
bool may_be_one_in(const KernelUse& kernel, uint32_t input, uint32_t output) {
  if (kernel.epilogue == nullptr) {
    const auto begins = [&](const package::Copy& copy) { return copy.source == input && copy.target == output; };
    const auto to_output = [&](const package::Copy& copy) { return copy.target == output; };
    return std::count_if(kernel.copies.begin(), kernel.copies.end(), to_output) == 1 &&
           std::any_of(kernel.copies.begin(), kernel.copies.end(), begins) && !has(kernel.behind_copies, input);
  }
  bool factor = false;
  if (kernel.product) kernel.product->each_buffer([&](uint32_t buffer) { factor = factor || buffer == input; });
  const std::vector<uint32_t>& arguments = *kernel.arguments;
  if (factor || kernel.apart || std::count(arguments.begin(), arguments.end(), input) != 1 ||
      std::count(arguments.begin(), arguments.end(), output) != 1)
    return false;
  const auto place = [&](uint32_t buffer) {
    return static_cast<uint32_t>(std::find(arguments.begin(), arguments.end(), buffer) - arguments.begin());
  };
  return may_be_in_place(*kernel.epilogue, kernel.batched, place(input), place(output));
}

}  // namespace

void add_guards(const std::vector<Buffer>& buffers, const std::vector<KernelUse>& kernels,
                std::vector<package::Step>& steps) {
  const auto is_bound = [&](uint32_t b) {
    return !buffers[b].is_scalar &&
           (buffers[b].role == Buffer::Role::Argument || buffers[b].role == Buffer::Role::Output);
  };
  std::set<uint32_t> unit;
  const auto add_units = [&](const EpilogueProgram& program, const std::vector<uint32_t>& arguments) {
    for (const Operand& operand : program.operands) {
      if (operand.argument >= arguments.size()) continue;  // of a maker: the factor, which lies nowhere
      const uint32_t buffer = arguments[operand.argument];
      if (operand.unit_stride && is_bound(buffer)) unit.insert(buffer);
    }
  };
  for (const KernelUse& kernel : kernels) {
    if (kernel.epilogue != nullptr) add_units(*kernel.epilogue, *kernel.arguments);
    for (size_t p = 0; p < kernel.makers.size(); ++p) add_units(*kernel.makers[p], kernel.product->b_made[p].arguments);
  }
  for (uint32_t buffer : unit) check(steps, package::UnitStrideGuard{buffer});

  struct Use {
    size_t kernel = 0;
    uint32_t argument = 0;  // the first of the kernel's that it is
  };
  std::vector<std::vector<Use>> uses(buffers.size());
  std::vector<bool> of_product(buffers.size());
  for (size_t k = 0; k < kernels.size(); ++k) {
    const std::vector<uint32_t>& arguments = *kernels[k].arguments;
    for (uint32_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i] >= uses.size()) continue;  // a result that nobody takes
      std::vector<Use>& known = uses[arguments[i]];
      if (known.empty() || known.back().kernel != k) known.push_back({k, i});
    }
    if (kernels[k].product) kernels[k].product->each_buffer([&](uint32_t buffer) { of_product[buffer] = true; });
  }
  // Everything that touches the input is done when the output is begun, but for one step, which may do so where they
  // are one: a kernel that updates in place, or one that begins with a copy of the input, which is none then.
  struct Turn {
    std::optional<size_t> first, last;  // what touches the buffer
    bool in_order = true;
  };
  std::vector<Turn> turns(buffers.size());
  for (size_t k = 0; k < kernels.size(); ++k) {
    for (const uint32_t buffer : kernels[k].touched) {
      Turn& turn = turns[buffer];
      if (!turn.first) turn.first = k;
      turn.last = k;
      turn.in_order = turn.in_order && kernels[k].in_order;
    }
  }
  const auto one_after_other = [&](uint32_t input, uint32_t output) {
    const Turn &read = turns[input], &written = turns[output];
    if (!read.last || !written.first || !read.in_order || !written.in_order ||
        buffers[input].device != buffers[output].device || buffers[input].dtype != buffers[output].dtype ||
        !(buffers[input].shape == buffers[output].shape))
      return false;
    return *read.last < *written.first ||
           (*read.last == *written.first && may_be_one_in(kernels[*read.last], input, output));
  };
  // Every kernel that touches one of them touches both, and may do so where they are one.
  const auto may_be_one = [&](uint32_t input, uint32_t output) {
    if (of_product[input]) return false;
    if (kernels.size() == 1 && uses[input].empty()) return uses[output].empty() || !kernels[0].apart;
    return std::equal(uses[input].begin(), uses[input].end(), uses[output].begin(), uses[output].end(),
                      [&](const Use& in, const Use& out) {
                        const KernelUse& kernel = kernels[in.kernel];
                        return in.kernel == out.kernel && !kernel.apart &&
                               may_be_in_place(*kernel.epilogue, kernel.batched, in.argument, out.argument);
                      });
  };
  for (uint32_t output = 0; output < buffers.size(); ++output) {
    if (buffers[output].role != Buffer::Role::Output) continue;
    for (uint32_t other = 0; other < buffers.size(); ++other) {
      const bool later_output = buffers[other].role == Buffer::Role::Output && other > output;
      if (!is_bound(other) || (buffers[other].role == Buffer::Role::Output && !later_output)) continue;
      const bool ok = buffers[other].role == Buffer::Role::Argument && !buffers[other].donated &&
                      buffers[output].filled.empty() && (may_be_one(other, output) || one_after_other(other, output));
      check(steps, package::NoOverlapGuard{output, other, ok});
    }
  }
  // Whatever the plan makes of donated memory: nothing else that the caller passes may lie there.
  for (uint32_t given = 0; given < buffers.size(); ++given) {
    if (!buffers[given].donated) continue;
    for (uint32_t other = 0; other < buffers.size(); ++other) {
      const bool seen = buffers[other].donated && other <= given;
      if (is_bound(other) && buffers[other].role == Buffer::Role::Argument && !seen)
        check(steps, package::NoOverlapGuard{given, other, false});
    }
  }
}

}  // namespace codetta::plan

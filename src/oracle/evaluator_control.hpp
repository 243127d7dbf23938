// SPDX-License-Identifier: Apache-2.0
// Branches, loops, and code of the user. Where a condition is only known to be perhaps true, both ways are admissible.
#pragma once

#include "oracle/evaluator_indexed.hpp"

namespace codetta::oracle {

template <class T>
void widen_all(std::vector<Block<T>>& blocks, const std::vector<Block<T>>& others) {
  for (size_t b = 0; b < blocks.size(); ++b) {
    blocks[b].given = blocks[b].given && others[b].given;
    for (size_t i = 0; i < blocks[b].reals.size() + blocks[b].ints.size(); ++i) widen(blocks[b], i, others[b], i);
  }
}

enum class Truth : uint8_t { No, Perhaps, Yes };
template <class T>
Truth truth_of(const Block<T>& predicate) {
  const Int& x = predicate.ints[0];
  return x.lo != x.hi ? Truth::Perhaps : x.lo != 0 ? Truth::Yes : Truth::No;
}

// With the sizes that its values give.
template <class T>
Result<std::vector<Block<T>>> Evaluator<T>::run_child(const ir::Graph& child, const std::vector<Block<T>>& inputs) {
  ir::SymbolBindings symbols = problem_.symbols;
  const SizeOf size_of = [&](const ir::Graph& alone, const ir::SymbolBindings& known) -> Result<SizeRange> {
    CODETTA_TRY(const std::vector<Block<T>> size, run_with(alone, inputs, known));
    return SizeRange{size[0].ints[0].lo, size[0].ints[0].hi, {}};
  };
  CODETTA_CHECK_OK(add_sizes(child, problem_.options, size_of, symbols));
  return run_with(child, inputs, std::move(symbols));
}

template <class T>
Result<std::vector<Block<T>>> Evaluator<T>::run_with(const ir::Graph& child, const std::vector<Block<T>>& inputs,
                                                     ir::SymbolBindings symbols) {
  CODETTA_TRY(const Problem problem, make_child_problem(child, problem_, std::move(symbols)));
  const Picks everything;
  Evaluator<T> evaluator(problem, everything);
  evaluator.give(inputs);
  std::vector<ir::NodeId> roots;
  for (const ir::GraphOutput& output : child.outputs()) roots.push_back(output.node);
  CODETTA_CHECK_OK(evaluator.run(roots));
  std::vector<Block<T>> results;
  for (const ir::NodeId root : roots) results.push_back(evaluator.block(root));
  return results;
}

template <class T>
Result<std::vector<Block<T>>> Evaluator<T>::run_cond(ir::NodeId id) {
  const std::span<const ir::NodeId> operands = graph_.operands(id);
  const auto& attr = graph_.attr_as<ir::CondAttr>(id);
  std::vector<Block<T>> inputs;
  for (const ir::NodeId operand : operands.subspan(1)) inputs.push_back(blocks_[operand.index()]);
  const Truth truth = truth_of(blocks_[operands[0].index()]);
  if (truth == Truth::No) return run_child(*attr.otherwise, inputs);
  Result<std::vector<Block<T>>> results = run_child(*attr.then, inputs);
  if (truth == Truth::Yes) return results;
  Result<std::vector<Block<T>>> others = run_child(*attr.otherwise, inputs);
  // A run that took a branch which ends with an error has no results: those that there are come from the other one,
  // also where only the oracle does not know that one.
  if (!results) {
    const bool ended = others || !ends_runs(others.error());
    return ended && ends_runs(results.error()) ? std::move(others) : std::move(results);
  }
  if (!others) return ends_runs(others.error()) ? std::move(results) : std::move(others);
  widen_all(*results, *others);
  return results;
}

template <class T>
Result<std::vector<Block<T>>> Evaluator<T>::run_while(ir::NodeId id) {
  const auto& attr = graph_.attr_as<ir::WhileAttr>(id);
  std::vector<Block<T>> carried;
  for (const ir::NodeId operand : graph_.operands(id)) carried.push_back(blocks_[operand.index()]);
  std::vector<Block<T>> admissible;  // values with which the loop may have ended
  // A turn that ends every run that takes it: the loop has ended in front of it, where it may have.
  const auto ended = [&](const Error& error) -> Result<std::vector<Block<T>>> {
    if (admissible.empty() || !ends_runs(error)) return error;
    return admissible;
  };
  for (int64_t i = 0; i <= problem_.options.max_iterations; ++i) {
    const Result<std::vector<Block<T>>> test = run_child(*attr.condition, carried);
    if (!test) return ended(test.error());
    const Truth truth = truth_of((*test)[0]);
    if (truth != Truth::Yes) {
      if (admissible.empty()) {
        admissible = carried;
      } else {
        widen_all(admissible, carried);
      }
    }
    if (truth == Truth::No) return admissible;
    Result<std::vector<Block<T>>> next = run_child(*attr.body, carried);
    if (!next) return ended(next.error());
    carried = *std::move(next);
  }
  return loop_error(graph_, id, problem_.options.max_iterations);
}

template <class T>
Result<std::vector<Block<T>>> Evaluator<T>::run_external(ir::NodeId id) {
  const ir::Attr& attr = graph_.attr(id);
  const auto* external = std::get_if<ir::ExternAttr>(&attr);
  const std::string& name = external != nullptr ? external->symbol : std::get_if<ir::UserKernelAttr>(&attr)->name;
  const auto found = problem_.options.functions.find(name);
  if (found == problem_.options.functions.end()) {
    return unknown_function_error(graph_, id, name);
  }
  const auto shape_of = [](const Sizes& sizes) {
    Dims shape;
    for (const int64_t size : sizes) shape.push_back(size);
    return shape;
  };
  // bool and integers are payloads; both fit eight bytes.
  std::vector<std::vector<unsigned char>> memory;
  std::vector<TensorView> operands, views;
  for (const ir::NodeId operand : graph_.operands(id)) {
    const Block<T>& block = blocks_[operand.index()];
    const auto width = static_cast<size_t>(types::byte_size(block.dtype));
    auto& bytes = memory.emplace_back(static_cast<size_t>(block.axes.count()) * width + 8);
    for (size_t i = 0; i < block.reals.size(); ++i)
      types::store_f64(&bytes[i * width], block.dtype, static_cast<double>(block.reals[i].middle()));
    for (size_t i = 0; i < block.ints.size(); ++i) types::store_i64(&bytes[i * width], block.dtype, block.ints[i].lo);
    CODETTA_TRY(const TensorView view, TensorView::make(bytes.data(), block.dtype, shape_of(block.axes.full)));
    operands.push_back(view);
  }
  std::vector<Block<T>> results;
  std::vector<size_t> first;  // of each result, in memory
  for (const ir::TensorType& type : ir::result_types(attr)) {
    Block<T>& block = results.emplace_back();
    block.dtype = type.dtype;
    block.given = problem_.options.functions_given;
    for (const ir::Dim& dim : type.shape) {
      const auto size = dim.evaluate(problem_.symbols.values);
      block.axes.full.push_back(size && *size > 0 ? *size : 0);
      block.axes.picks.emplace_back();
    }
    const auto count = static_cast<size_t>(block.axes.count());
    first.push_back(memory.size());
    auto& bytes = memory.emplace_back(count * static_cast<size_t>(types::byte_size(type.dtype)) + 8);
    CODETTA_TRY(const TensorView view, TensorView::make(bytes.data(), type.dtype, shape_of(block.axes.full)));
    views.push_back(view);
  }
  CODETTA_CHECK_OK(found->second(operands, views));
  for (size_t r = 0; r < results.size(); ++r) {
    Block<T>& block = results[r];
    const auto width = static_cast<size_t>(types::byte_size(block.dtype));
    for (size_t i = 0; i < static_cast<size_t>(block.axes.count()); ++i) {
      const unsigned char* at = &memory[first[r]][i * width];
      if (block.real()) {
        block.reals.push_back(Real<T>::point(T(types::load_f64(at, block.dtype))));
      } else {
        block.ints.push_back(Int::point(types::is_bool(block.dtype) ? int64_t{types::load_i64(at, block.dtype) != 0}
                                                                    : types::load_i64(at, block.dtype)));
      }
    }
  }
  return results;
}

template <class T>
void Evaluator<T>::set_results(ir::NodeId id, Result<std::vector<Block<T>>> results, Block<T>& out) {
  if (!results) {
    failure_ = std::move(results).error();
    return;
  }
  out = (*results)[0];
  if (results->size() > 1) results_[id.index()] = std::move(*results);
}

template <class T>
void Evaluator<T>::control(ir::NodeId id, Block<T>& out) {
  const Op op = graph_.node(id).op;
  if (op == Op::cond) return set_results(id, run_cond(id), out);
  if (op == Op::while_loop) return set_results(id, run_while(id), out);
  if (op == Op::to_device) {
    out = blocks_[graph_.operands(id)[0].index()];
    return;
  }
  const auto index = static_cast<size_t>(graph_.attr_as<ir::ResultAttr>(id).index);
  out = results_.at(graph_.operands(id)[0].index())[index];
}

template <class T>
void Evaluator<T>::external(ir::NodeId id, Block<T>& out) {
  set_results(id, run_external(id), out);
}

}  // namespace codetta::oracle

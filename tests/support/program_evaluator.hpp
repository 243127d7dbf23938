// SPDX-License-Identifier: Apache-2.0
// An EpilogueProgram computed root element by root element, phase by phase, over contiguous arguments.
#pragma once

#include <string>
#include <vector>

#include "package/epilogue_program.hpp"
#include "support/graph_evaluator.hpp"

namespace codetta::test {

class ProgramEvaluator {
 public:
  // `accumulator`: [batch, M, N] or [M, N]. `inputs` by argument (outputs: ignored).
  ProgramEvaluator(const package::EpilogueProgram& program, const Array& accumulator, const std::vector<Array>& inputs,
                   GraphEvaluator::Symbols symbols)
      : program_(program),
        accumulator_(accumulator),
        arguments_(inputs),
        symbols_(std::move(symbols)),
        written_(inputs.size()) {
    const Sizes& shape = accumulator.shape;
    batches_ = shape.size() > 2 ? shape[0] : 1;
    rows_ = shape[shape.size() - 2];
    cols_ = shape.back() / program.split.ways;
    for (size_t i = 0; i < program.arguments.size(); ++i) {
      if (!program.arguments[i].is_output) continue;
      Sizes sizes;
      for (const types::Dim& dim : program.arguments[i].shape) sizes.push_back(dim.evaluate(symbols_).value_or(-1));
      arguments_[i] = {sizes, std::vector<Element>(static_cast<size_t>(count_of(sizes)))};
      written_[i].assign(arguments_[i].elements.size(), 0);
    }
  }

  // Problems found while running: out of range, written twice or never. Empty: none.
  std::string run() {
    for (size_t p = 0; p < program_.phases.size(); ++p) run_phase(static_cast<uint32_t>(p));
    for (size_t i = 0; i < written_.size(); ++i) {
      for (int times : written_[i]) {
        if (times != 1)
          complain(program_.arguments[i].name + " has an element that is written " + std::to_string(times) + " times");
      }
    }
    return problem_;
  }
  const Array& output(size_t argument) const { return arguments_[argument]; }
  // By element of an output.
  const std::vector<int>& times_written(size_t argument) const { return written_[argument]; }

 private:
  struct Root {
    int64_t batch, row, col;
    [[nodiscard]] int64_t on(package::Axis axis) const {
      return axis == package::Axis::Batch ? batch : axis == package::Axis::Row ? row : col;
    }
  };

  void complain(std::string text) {
    if (problem_.empty()) problem_ = std::move(text);
  }

  [[nodiscard]] int64_t known(const types::Dim& dim) const { return dim.evaluate(symbols_).value_or(-1); }

  size_t address(const package::Operand& operand, const Root& root) {
    const Sizes& shape = arguments_[operand.argument].shape;
    Sizes strides(shape.size(), 1);
    for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
    const auto stride = [&](uint8_t dim) { return strides[shape.size() - 1 - dim]; };
    int64_t at = 0;
    for (const auto& [dim, start] : operand.offsets) at += known(start) * stride(dim);
    for (const package::IndexTerm& term : operand.terms) {
      int64_t index = root.on(term.axis) / term.div;
      if (term.mod != 0) index %= term.mod;
      at += index * known(term.scale) * stride(term.dim);
    }
    if (at >= 0 && at < count_of(shape)) return static_cast<size_t>(at);
    complain("address " + std::to_string(at) + " of " + program_.arguments[operand.argument].name);
    return 0;
  }

  // Elements that don't depend on an axis are written at its first coordinate.
  static bool writes_here(const package::Operand& operand, const Root& root) {
    for (package::Axis axis : {package::Axis::Batch, package::Axis::Row, package::Axis::Col}) {
      bool used = false;
      for (const package::IndexTerm& term : operand.terms) used = used || term.axis == axis;
      if (!used && root.on(axis) != 0) return false;
    }
    return true;
  }

  Element accumulator(const Root& root, uint32_t part) {
    int64_t col = root.col;
    const int64_t own = program_.split.own_ways();  // products lie side by side
    if (own > 1) {
      const int64_t chunk = *program_.split.chunk.as_constant();
      col = root.col / chunk * chunk * own + part % own * chunk + root.col % chunk;
    }
    col += part / own * (cols_ * own);
    return accumulator_
        .elements[static_cast<size_t>((root.batch * rows_ + root.row) * (cols_ * program_.split.ways) + col)];
  }

  size_t result_at(package::ReduceAxis axis, const Root& root) const {
    if (axis == package::ReduceAxis::Row) return static_cast<size_t>(root.batch * rows_ + root.row);
    if (axis == package::ReduceAxis::Item) return static_cast<size_t>(root.batch);
    return axis == package::ReduceAxis::Column ? static_cast<size_t>(root.batch * cols_ + root.col) : 0;
  }

  Element value(const package::Inst& inst, const std::vector<Element>& v, const Root& root) {
    using Kind = package::Inst::Kind;
    switch (inst.kind) {
      case Kind::Op: {
        if (inst.op == types::Op::cast) return convert(convert(v[inst.in[0]], inst.aux), inst.type);
        std::vector<Element> x;
        for (uint8_t i = 0; i < inst.arity; ++i) x.push_back(v[inst.in[i]]);
        return apply(inst.op, inst.type, x);
      }
      case Kind::Accumulator:
        return accumulator(root, inst.index);
      case Kind::Load: {
        const package::Operand& operand = program_.operands[inst.index];
        return arguments_[operand.argument].elements[address(operand, root)];
      }
      case Kind::Scalar:
        return arguments_[inst.index].elements[0];
      case Kind::Literal:
        if (inst.type == DType::f32)
          return real_element(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(inst.bits))), inst.type);
        if (inst.type == DType::f64) return real_element(std::bit_cast<double>(inst.bits), inst.type);
        return integer_element(static_cast<int64_t>(inst.bits), inst.type);
      case Kind::Result:
        return results_[inst.index][result_at(program_.reductions[inst.index].axis, root)];
      case Kind::Extent:
        if (inst.index > 2) return integer_element(known(program_.sizes[inst.index - 3]), DType::i64);
        return integer_element(inst.index == 0 ? batches_ : inst.index == 1 ? rows_ : cols_, DType::i64);
      case Kind::RowIndex:
        return integer_element(root.row, DType::i64);
      case Kind::ColIndex:
        return integer_element(root.col, DType::i64);
      case Kind::BatchIndex:
        return integer_element(root.batch, DType::i64);
      case Kind::LoadAt: {
        const package::Operand& operand = program_.operands[inst.index];
        const package::Argument& argument = program_.arguments[operand.argument];
        if (arguments_[operand.argument].elements.empty()) return {};  // whatever is read is not taken
        size_t at = address(operand, root);
        for (uint8_t i = 0; i < inst.arity; ++i) {
          int64_t stride = 1;
          for (uint8_t d = 0; d < operand.gathered[i]; ++d)
            stride *= known(argument.shape[argument.shape.size() - 1 - d]);
          const int64_t size = known(argument.shape[argument.shape.size() - 1 - operand.gathered[i]]);
          at += static_cast<size_t>(stride * std::max<int64_t>(std::min(v[inst.in[i]].i, size - 1), 0));
        }
        return arguments_[operand.argument].elements[at];
      }
    }
    return {};
  }

  void run_phase(uint32_t p) {
    const package::Phase& phase = program_.phases[p];
    results_.resize(program_.reductions.size());
    std::vector<std::vector<std::vector<Element>>> gathered(program_.reductions.size());
    const auto space = [&](package::ReduceAxis axis) {
      return static_cast<size_t>(axis == package::ReduceAxis::Row      ? batches_ * rows_
                                 : axis == package::ReduceAxis::Column ? batches_ * cols_
                                 : axis == package::ReduceAxis::Item   ? batches_
                                                                       : 1);
    };
    for (size_t r = 0; r < gathered.size(); ++r) gathered[r].resize(space(program_.reductions[r].axis));
    for (int64_t n = 0; n < batches_ * rows_ * cols_; ++n) {
      const Root root{n / (rows_ * cols_), n / cols_ % rows_, n % cols_};
      std::vector<Element> v;
      for (const package::Inst& inst : phase.insts) v.push_back(value(inst, v, root));
      for (const package::Store& store : phase.stores) {
        const package::Operand& operand = program_.operands[store.operand];
        if (!writes_here(operand, root)) continue;
        const size_t at = address(operand, root);
        const DType type = phase.insts[store.value].type;
        arguments_[operand.argument].elements[at] = convert(convert(v[store.value], operand.dtype), type);
        ++written_[operand.argument][at];
      }
      for (size_t r = 0; r < program_.reductions.size(); ++r) {
        const package::Reduction& reduction = program_.reductions[r];
        if (reduction.phase == p) gathered[r][result_at(reduction.axis, root)].push_back(v[reduction.value]);
      }
    }
    for (size_t r = 0; r < program_.reductions.size(); ++r) {
      if (program_.reductions[r].phase != p) continue;
      for (const auto& elements : gathered[r]) results_[r].push_back(combined(program_.reductions[r], elements));
    }
  }

  static Element combined(const package::Reduction& reduction, const std::vector<Element>& elements) {
    using package::ReduceKind;
    using types::Op;
    if (package::values_of(reduction.kind) == 2) {
      double high = -INFINITY, sum = 0;
      for (const Element& x : elements) high = std::isnan(x.f) || std::isnan(high) ? NAN : std::max(high, x.f);
      if (reduction.kind == ReduceKind::SumExp) {
        for (const Element& x : elements) sum += std::exp(x.f - high);
        return real_element(sum, reduction.type);
      }
      if (std::isinf(high) || std::isnan(high)) return real_element(high, reduction.type);
      for (const Element& x : elements) sum += std::exp(x.f - high);
      return real_element(high + std::log(sum), reduction.type);
    }
    Element sum = elements[0];
    const Op op = reduction.kind == ReduceKind::Sum   ? Op::add
                  : reduction.kind == ReduceKind::Max ? Op::maximum
                                                      : Op::minimum;
    for (size_t i = 1; i < elements.size(); ++i) sum = apply(op, reduction.type, {{sum, elements[i]}});
    if (reduction.mean) sum.f /= static_cast<double>(elements.size()) * reduction.parts;
    return sum;
  }

  const package::EpilogueProgram& program_;
  const Array& accumulator_;
  std::vector<Array> arguments_;
  GraphEvaluator::Symbols symbols_;
  std::vector<std::vector<int>> written_;
  std::vector<std::vector<Element>> results_;
  int64_t batches_ = 1, rows_ = 0, cols_ = 0;
  std::string problem_;
};

}  // namespace codetta::test

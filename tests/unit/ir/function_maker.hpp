// SPDX-License-Identifier: Apache-2.0
// Untyped functions written by hand over a text, so that spans are those a parser would give.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ir/bind.hpp"
#include "ir/function.hpp"

namespace codetta::ir::test {

class FunctionMaker {
 public:
  explicit FunctionMaker(std::string text) : text_(text) {
    f_.name = "f";
    f_.source = std::make_shared<diag::SourceText>("f.py", std::move(text));
  }
  // The span of the first `piece` at or behind the piece found last.
  diag::Span find(const std::string& piece) {
    const size_t at = text_.find(piece, from_);
    if (at == std::string::npos) throw std::logic_error("'" + piece + "' is not in the text");
    return {static_cast<uint32_t>(at), static_cast<uint32_t>(at + piece.size())};
  }
  ValueId parameter(const std::string& name, std::optional<TypeAnnotation> type = std::nullopt) {
    const diag::Span span = find(name);
    from_ = span.end;
    const InputAttr attr{static_cast<uint32_t>(f_.parameters.size())};
    f_.parameters.push_back({name, span, std::move(type)});
    return push({Op::input, {}, attr, span, name});
  }
  ValueId op(Op op, std::vector<ValueId> operands, const std::string& piece, std::string name = {}, Attr attr = {}) {
    return push({op, std::move(operands), std::move(attr), find(piece), std::move(name)});
  }
  ValueId real(double value, const std::string& piece) {
    return op(Op::literal, {}, piece, {}, LiteralAttr{LiteralAttr::Kind::Float, 0, value});
  }
  ValueId integer(int64_t value, const std::string& piece) {
    return op(Op::literal, {}, piece, {}, LiteralAttr{LiteralAttr::Kind::Int, value, 0});
  }
  void output(const std::string& name, ValueId value) {
    const size_t at = text_.find("return");
    const size_t place = text_.find(name, at);
    f_.outputs.push_back({name, value, {static_cast<uint32_t>(place), static_cast<uint32_t>(place + name.size())}});
  }
  EpilogueFunction epilogue() const { return EpilogueFunction{f_}; }
  ProgramFunction program() const { return ProgramFunction{f_}; }

 private:
  ValueId push(Value value) {
    f_.values.push_back(std::move(value));
    return ValueId(f_.values.size() - 1);
  }
  std::string text_;
  size_t from_ = 0;
  Function f_;
};

inline BoundArgument tensor(std::string name, DType dtype, Dims shape) {
  return {std::move(name), false, dtype, shape};
}
inline BoundArgument scalar(std::string name, DType dtype) { return {std::move(name), true, dtype, {}}; }

inline GemmFacts gemm(int64_t m, int64_t n, int64_t k, DType dtype = DType::f32) {
  GemmFacts facts;
  facts.a = facts.b = dtype;
  facts.accumulator = default_accumulator(dtype, dtype).value_or(DType::f32);
  facts.m = m;
  facts.n = n;
  facts.k = k;
  return facts;
}

// The printed graph, or the rendered error.
inline std::string text_of(const Result<Graph>& graph) { return graph ? print(*graph) : graph.error().render(); }
inline std::string headline_of(const Result<Graph>& graph) {
  return graph ? "no error:\n" + print(*graph) : graph.error().diagnostics().front().headline;
}

}  // namespace codetta::ir::test

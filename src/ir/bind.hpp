// SPDX-License-Identifier: Apache-2.0
// Binding: an untyped function plus what its parameters are gives a typed Graph. Shape and dtype errors come from here.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codetta/tensor.hpp"
#include "ir/function.hpp"
#include "ir/graph.hpp"

namespace codetta::ir {

// What an epilogue parameter or output is bound to: a tensor (its view's dtype, shape, strides) or a host scalar.
struct BoundArgument {
  std::string name;
  bool is_scalar = false;
  DType dtype = DType::f32;  // of the tensor, or what the scalar is taken as (docs/semantics.md, literals)
  Dims shape;
  bool operator==(const BoundArgument&) const = default;
};

// What A times B accumulates in unless asked otherwise: f32 for floats up to f32, f64 if one is f64, i32 for 8-bit
// integers, i64 for wider ones. Nullopt where no GEMM multiplies the two (bool, a float with an integer).
std::optional<DType> default_accumulator(DType a, DType b);

// The problem that the epilogue follows. Rank 3 accumulators ([batch, M, N]) when batched, else [M, N].
struct GemmFacts {
  DType a = DType::f32, b = DType::f32, accumulator = DType::f32;
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool batched = false;
  bool has_out = false;  // GemmArguments::out is given: output D must be returned and has out's dtype and shape
  DType out = DType::f32;
  Dims out_shape;
  bool round_as_unfused = false;
  bool operator==(const GemmFacts&) const = default;
};

// Graph of matmul(A, B) followed by the epilogue. Inputs: "A", "B" typed [batch, m, k] and [batch, k, n], then the
// epilogue's tensor and scalar parameters in the order of the text. Dims are the symbols batch, m, n, k where the
// function has no layout op (operand dims equal to them become the symbol); with layout ops all dims are constants.
// Outputs: in return order, with the dtype of what they are bound to. Errors (positions in the function's source):
// missing or extra argument, D rules, broadcast mismatch (with the help for a vector of length M), reduction axis
// missing, dtype rules, unused operand.
Result<Graph> bind_epilogue(const EpilogueFunction& function, const std::vector<BoundArgument>& arguments,
                            const GemmFacts& facts);

// An output of an epilogue as its value is, whatever it is bound to.
struct EpilogueOutput {
  std::string name;
  DType dtype = DType::f32;
  Dims shape;
};
// The outputs in return order; of `arguments` only operands count. Errors: those of bind_epilogue but for outputs.
Result<std::vector<EpilogueOutput>> epilogue_outputs(const EpilogueFunction& function,
                                                     const std::vector<BoundArgument>& arguments,
                                                     const GemmFacts& facts);

// Graph of a program with its declared types; symbols stay symbols. Outputs take their computed dtype unless annotated.
Result<Graph> bind_program(const ProgramFunction& function);

// Shape checks against actual tensors: binds every symbol from the first dim that names it; errors name the two places.
// A parameter that is a number takes a scalar of any dtype: whether the value fits is the caller's to check.
struct SymbolBindings {
  std::vector<std::pair<std::string, int64_t>> values;
};
Result<SymbolBindings> bind_symbols(const Graph& graph, const std::vector<BoundArgument>& arguments);
// The same where the arguments stand in the order of the graph's inputs, whatever their names: the factors of a product
// are called A and B, and so may operands of its epilogue be. `known`: of symbols that no dim is alone, as in the graph
// of a branch whose operand has 2*n rows. Errors also: E0208 for another count.
Result<SymbolBindings> bind_symbols_in_order(const Graph& graph, const std::vector<BoundArgument>& arguments,
                                             const std::map<std::string, int64_t, std::less<>>& known = {});

}  // namespace codetta::ir

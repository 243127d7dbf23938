// SPDX-License-Identifier: Apache-2.0
// What a front end produces: an untyped SSA function, of an epilogue or of a program. Names, single assignment, arity
// and presence are already checked; dtypes and shapes come with binding (bind.hpp).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "codetta/call_site.hpp"
#include "codetta/tensor.hpp"
#include "diag/diagnostic.hpp"
#include "ir/attr.hpp"
#include "types/op.hpp"

namespace codetta::ir {

using types::Op;
using ValueId = base::Id<struct ValueTag>;

struct TypeAnnotation {
  DType dtype = DType::f32;
  std::vector<Dim> shape;  // symbols for names in strings
  diag::Span span;
  bool is_scalar = false;  // no brackets: a number; f32[()] is a tensor without dims
  bool donated = false;    // donated[f32["n"]]: the caller gives its memory up
};

struct Parameter {
  std::string name;
  diag::Span span;
  std::optional<TypeAnnotation> type;  // programs: required; epilogues: ignored
  CallSite site{};                     // in C++ that traced or built it
};

// Calls to other functions of the text are already inlined; calls of composite spellings (hardtanh, relu6,
// gelu(approximate=)) are already ops of ops.def with all operands present.
struct Value {
  Op op = Op::input;
  std::vector<ValueId> operands;
  Attr attr;
  diag::Span span;   // of the expression
  std::string name;  // of the variable it was assigned to, "" for inner expressions
  CallSite site{};   // in C++ that traced or built it
  // What gives their values to symbols in the attribute that no parameter has: size_value, call_extern.
  std::vector<ValueId> sizes{};
};

struct Output {
  std::string name;
  ValueId value;
  diag::Span span;  // in the return statement
  CallSite site{};  // in C++ that traced or built it
};

// Values are in definition order: operands come before users. Parameters are values 0..n-1 (Op::input with InputAttr).
struct Function {
  std::string name;
  diag::SourceRef source;  // the text; for traced functions the printed function
  std::vector<Parameter> parameters;
  std::vector<Value> values;
  std::vector<Output> outputs;

  [[nodiscard]] const Value& operator[](ValueId id) const { return values[id.index()]; }
  [[nodiscard]] bool is_epilogue() const { return !parameters.empty() && parameters[0].name == "accum"; }
};

// An epilogue: parameter 0 is `accum`; every parameter is used; at least one output depends on a parameter.
// The C++ tracer and the parser give equal EpilogueFunctions for equal math (equality ignores spans, source and sites).
struct EpilogueFunction : Function {};
// A program: every parameter has a type.
struct ProgramFunction : Function {};

bool equivalent(const Function& a, const Function& b);  // ignores spans, sites, source, and names of inner values
bool same_body(const Function& a, const Function& b);   // as equivalent, and ignores the functions' names
// `printed` is `made` read back from its text: that text, with the places in C++ that made its parts.
diag::SourceRef with_sites(const Function& printed, const Function& made);
std::string print(
    const Function& function);  // Python syntax, one assignment a value; parses back to an equivalent function

}  // namespace codetta::ir

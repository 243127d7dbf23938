// SPDX-License-Identifier: Apache-2.0
// What differs between targets when an EpilogueProgram is printed: names of types and of conversions.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "emit/parts.hpp"
#include "types/dtype.hpp"

namespace codetta::emit {

// One row per DType.
struct TypeNames {
  std::string_view value;    // what an instruction of this compute dtype holds: "f32v"; empty for storage-only dtypes
  std::string_view raw;      // the vector a load gives: "u16v"
  std::string_view element;  // of the tensor in memory: "u16"
};

struct Dialect {
  std::string_view name;
  const TypeNames* types;                         // by DType
  std::string_view templated = "f.";              // before a method of the fragment that takes template arguments
  std::string_view scalars = "f.args.scalars";    // where the fragment has host scalars,
  std::string_view operands = "f.args.operands";  // operands
  std::string_view extents = "f.args.";           // and the extents of the root space
  bool registers = false;  // reductions of columns live in registers, and values by column are computed once a column
  bool says_written = false;          // loads are told of memory that the kernel may write afterwards
  bool divides_by_one = false;        // ct_div_by: a divisor that is the same along a row
  std::string_view quotients = "";    // first argument of ct_div_by: told where quotients are not right
  bool closures = true;               // there are lambdas; otherwise structs with a call operator
  bool doubles = true;                // there is f64
  bool streams = true;                // wide outputs may go past the caches: who calls orders such stores
  bool runs = false;                  // what is the same in runs of columns is held once (device/gpu/make.h)
  bool pairs = false;                 // bf16 is stored two vectors at a time where positions can be paired
  std::string_view memory = "";       // in front of the element type of a pointer to a tensor
  std::string_view long_long = "ll";  // behind a literal of 64 bits
  [[nodiscard]] const TypeNames& type(DType d) const { return types[static_cast<size_t>(d)]; }
};
const Dialect& cpu_dialect();
const Dialect& cuda_dialect();
const Dialect& metal_dialect();

Domain domain_of(DType compute);

// Prints conversions and records the device functions they call. All texts are expressions.
class Conversions {
 public:
  Conversions(const Dialect& dialect, std::set<PartLibrary::Request>& needs) : dialect_(dialect), needs_(needs) {}

  std::string call(std::string_view function, DType domain, std::string_view arguments);
  std::string templated(std::string_view function, DType to, std::string_view arguments);
  // Between compute dtypes. Float to integer rounds to nearest even unless `truncate`.
  std::string convert(std::string text, DType from, DType to, bool truncate);
  // From a loaded raw vector of `stored` to the compute dtype `to`.
  std::string widen(std::string text, DType stored, DType to);
  // To the raw vector of `stored`, with one rounding.
  std::string narrow(std::string text, DType from, DType stored);
  // `text` of compute dtype `from` as if stored in `through` and loaded again, then as `to`.
  std::string round_trip(std::string text, DType from, DType through, DType to, bool truncate);

 private:
  const Dialect& dialect_;
  std::set<PartLibrary::Request>& needs_;
};

}  // namespace codetta::emit

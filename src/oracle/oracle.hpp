// SPDX-License-Identifier: Apache-2.0
// The truth about a graph: what every output element may be, as an interval that contains each result which a kernel
// that follows docs/semantics.md can give. The interval comes from the arithmetic (roundings, the length of products,
// the stated accuracy of functions), never from tuning; where nothing rounds it is one value, and results must match it
// bit for bit.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ir/graph.hpp"
#include "oracle/ulp.hpp"
#include "types/convert.hpp"
#include "types/machine.hpp"

namespace codetta::oracle {

// By graph input. A scalar of another dtype is converted as a host scalar is.
using OracleInput = std::variant<TensorView, types::Scalar>;

// Code of the user: operands in the graph's types (of floats the middle of what is admissible), results to be filled;
// all row-major without gaps.
using OracleFunction =
    std::function<Result<void>(std::span<const TensorView> operands, std::span<const TensorView> results)>;

struct OracleOptions {
  CpuIsa isa = CpuIsa::generic;  // the accumulation model of matrix products (types/targets.def)
  std::optional<types::AccumulationModel> accumulation;  // of floats, instead: for targets that are no CPU
  double product_rounding = 0;  // of each product of 8-bit floats, of the sum of their magnitudes, if less than f32
  int64_t product_run = 0;      // such sums are of so many products each, and are added as f32 is; 0: of all
  double factor_rounding = 0;   // relative, of each f32 factor of a product before it is multiplied
  std::span<const UlpRow> ulp = cpu_ulp_table();
  bool contraction = true;  // x * y + z may be one rounding
  uint64_t seed = 1;        // of sampling
  // Multiply-adds, and elements of values (weighed 64), up to which everything is evaluated; beyond, whole rows and
  // columns are sampled. What can't be sampled (a sum of everything) is evaluated up to 32 times as much.
  int64_t max_work = int64_t{1} << 29;
  int64_t sampled_rows =
      96;  // of each axis that is sampled, at least 64; the first and the last 16 are always among them
  // What call_extern and user_kernel stand for, by name; their results count as exact. Without one such a node is an
  // error.
  std::map<std::string, OracleFunction, std::less<>> functions;
  bool functions_given = false;  // they hand out what the run left, which says nothing of it
  // That no input has: what values of the program give, which is evaluated where it is not here; of a branch's graph
  // those of the program around it.
  std::map<std::string, int64_t, std::less<>> sizes;
  bool clamp_indices = false;                 // an index out of range is taken as the nearest one; else an error
  int64_t max_iterations = int64_t{1} << 16;  // of one loop
  std::function<bool()> goes_on{};            // asked now and then, about each millisecond; false ends with E0510
};

// One element of an output, as stored. Integers and bool: exact_low..exact_high (payloads of types::Scalar); floats:
// low..high.
struct ExpectedElement {
  double value = 0;  // the expectation before it is stored: the middle of its interval
  double bound = 0;  // half of the interval, before it is stored
  double low = 0, high = 0;
  int64_t exact_low = 0, exact_high = 0;
  bool may_be_nan = false;  // low and high hold for what is not NaN; both NaN: must be NaN
  bool ambiguous = false;   // a comparison, a rounding or a pole lies inside the bound: both sides are within low..high
};

struct ExpectedOutput {
  std::string name;
  DType dtype = DType::f32;  // as stored
  std::vector<int64_t> shape;
  std::vector<int64_t> at;  // row-major indices of the elements; empty when `whole`
  bool whole = true;
  // Of OracleOptions::functions_given: a result as it is, also reshaped or handed on by a branch or a loop. What a run
  // left is compared with itself there.
  bool given = false;
  std::vector<ExpectedElement> elements;  // none when left out
  std::string note;                       // what was sampled, or why it was left out: "64 of 4096 rows"
  [[nodiscard]] bool left_out() const { return !whole && elements.empty(); }
};

struct OracleResult {
  std::vector<ExpectedOutput> outputs;  // in the graph's order
};

// `inputs` by graph input. Errors: E0208 (count), E0221 (shape or dtype does not fit), E0606 (the problem is too large
// for memory), E0610 (a size from a value) and E0618 (an index out of range), both where every admissible way meets it,
// E0510 (goes_on() said no), E0651 (a loop that does not end), E0311 (an extern function without a meaning, a size that
// is not certain).
Result<OracleResult> evaluate(const ir::Graph& graph, std::span<const OracleInput> inputs,
                              const OracleOptions& options = {});

struct CheckOptions {
  double max_ambiguous = 0.01;  // a larger part of the elements, and more than one of several: mistrusted
  // Likewise of elements whose bound is infinite, or wider than the results of this output are on average so that it
  // holds 0; but bounds of at most `tiny` never are, since results may be 0 but for roundings.
  double max_vague = 0.05;
  double tiny = 0x1p-10;
  // A larger part of the expected elements is 0 (64 elements at least): mistrusted, since memory that was never written
  // to looks like that. 1 where the outputs held something else before the run, or zeros are the answer by definition.
  double max_zeros = 0.9;
  bool signed_zeros = false;  // an expectation of one zero asks for its sign, too
};

enum class Verdict : uint8_t { Pass, Fail, Mistrusted };
std::string_view to_string(Verdict verdict);  // "pass", ...

struct OutputReport {
  std::string name;
  int64_t elements = 0, total = 0;  // checked (none of a given one), and what the output has
  int64_t wrong = 0, ambiguous = 0, vague = 0, zeros = 0;
  double max_error = 0;    // from the middle of low..high, over elements where that is finite
  double max_ratio = 0;    // error / half of low..high; infinite for an error where one value alone is right
  int64_t worst = -1;      // row-major index of a wrong element, the worst; else of the largest ratio
  std::string worst_text;  // "[3, 17]: 1.5, expected 1.2499 to 1.2501"
  std::string note;
  std::string mistrust;             // why right elements prove nothing; "" when they do
  Verdict verdict = Verdict::Pass;  // Mistrusted too when the output was left out
};

struct CheckReport {
  std::vector<OutputReport> outputs;
  Verdict verdict = Verdict::Pass;  // the worst
};

// Given outputs decide nothing; where they are all there is, they are mistrusted.
// `actual` by output; shapes may differ from the expected ones in dims of size 1. Errors: E0212 (shape), E0213 (dtype).
Result<CheckReport> check(std::span<const TensorView> actual, const OracleResult& expected,
                          const CheckOptions& options = {});

}  // namespace codetta::oracle

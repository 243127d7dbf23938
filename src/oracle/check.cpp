// SPDX-License-Identifier: Apache-2.0
// check(): actual outputs against expectations.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "oracle/cell.hpp"
#include "oracle/oracle.hpp"

namespace codetta::oracle {
namespace {

std::vector<int64_t> squeezed(std::span<const int64_t> shape) {
  std::vector<int64_t> result;
  for (const int64_t s : shape) {
    if (s != 1) result.push_back(s);
  }
  return result;
}

// Byte position of the element with row-major index `index` of a view.
const unsigned char* element(const TensorView& view, int64_t index) {
  int64_t offset = 0;
  for (int d = view.rank() - 1; d >= 0; --d) {
    offset += index % view.size(d) * view.stride(d);
    index /= view.size(d);
  }
  return static_cast<const unsigned char*>(view.data()) + offset * types::byte_size(view.dtype());
}

struct Outcome {
  bool right = false;
  double error = 0;  // from the middle of what is admissible; nan and inf count as infinite when wrong
  double actual = 0;
};

// Of an interval of stored values, which may be one.
double middle_of(double low, double high) { return low == high ? low : low / 2 + high / 2; }

// From the middle of low..high, which may be no f64: of two values side by side, either is half of a step away.
double distance_from_middle(double actual, double low, double high) {
  const double twice = (actual - low) - (high - actual);
  if (std::isfinite(twice)) return std::abs(twice) / 2;
  const double middle = middle_of(low, high);
  return actual == middle ? 0 : std::abs(actual - middle);
}

Outcome judge_float(const ExpectedElement& e, double actual, const CheckOptions& options) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  Outcome o{false, 0, actual};
  if (actual != actual) return {e.may_be_nan, e.may_be_nan ? 0 : inf, actual};
  if (e.low != e.low) return {false, inf, actual};
  o.right = actual >= e.low && actual <= e.high;
  if (o.right && options.signed_zeros && e.low == 0 && e.high == 0 && std::signbit(e.low) == std::signbit(e.high) &&
      !e.ambiguous) {
    o.right = std::signbit(actual) == std::signbit(e.low);
  }
  o.error = distance_from_middle(actual, e.low, e.high);
  return o;
}

Outcome judge_int(const ExpectedElement& e, int64_t payload, DType dtype) {
  const Wide x = widened(payload, dtype), low = widened(e.exact_low, dtype), high = widened(e.exact_high, dtype);
  const Wide twice = 2 * x - low - high;
  return {x >= low && x <= high, static_cast<double>(twice < 0 ? -twice : twice) / 2, static_cast<double>(x)};
}

// Half of what is admissible for a stored element.
double bound_of(const ExpectedElement& e, DType dtype) {
  if (types::is_float(dtype)) return e.low == e.high ? 0 : e.high / 2 - e.low / 2;
  return static_cast<double>(widened(e.exact_high, dtype) - widened(e.exact_low, dtype)) / 2;
}

// How much of its bound an error is: infinitely much, where nothing but one value is right. No error is a part of an
// infinite bound: such elements are counted as vague.
double ratio_of(double error, double bound) {
  if (error == 0 || !(bound < std::numeric_limits<double>::infinity())) return 0;
  return bound == 0 ? std::numeric_limits<double>::infinity() : error / bound;
}

// What may be there; NaN where only that may.
struct Interval {
  double low, high;
};
Interval interval_of(const ExpectedElement& e, DType dtype) {
  if (types::is_float(dtype)) return {e.low, e.high};
  return {static_cast<double>(widened(e.exact_low, dtype)), static_cast<double>(widened(e.exact_high, dtype))};
}

// The mean size of what is expected where that is finite.
double typical_size(const ExpectedOutput& expected) {
  double total = 0, count = 0;
  for (const ExpectedElement& e : expected.elements) {
    const Interval x = interval_of(e, expected.dtype);
    const double middle = middle_of(x.low, x.high);
    if (!std::isfinite(middle)) continue;
    const double mean = total / std::max(count, 1.0);  // a running mean: a sum may overflow
    count += 1;
    total = (mean + (std::abs(middle) - mean) / count) * count;
    if (!std::isfinite(total)) return std::numeric_limits<double>::max();
  }
  return count == 0 ? 0 : total / count;
}

// An interval that any memory may lie in: one without an end, or one around 0 that is wider than the results are large.
// A result near 0 among larger ones is not vague, nor one that rounding errors below `tiny` blur.
bool is_vague(const Interval& x, double typical, double tiny) {
  if (x.low == x.high || x.low != x.low) return false;
  if (std::isinf(x.low) || std::isinf(x.high)) return true;
  const double bound = x.high / 2 - x.low / 2;
  return x.low <= 0 && x.high >= 0 && bound > tiny && bound >= typical;
}

// Why an output without a wrong element proves nothing; "" when it does.
std::string mistrust(const OutputReport& report, const ExpectedOutput& expected, const CheckOptions& options) {
  const auto count = static_cast<double>(report.elements);
  if (expected.left_out()) return "nothing was compared";
  // One of several says nothing of the others.
  const auto too_many = [&](int64_t some, double part) {
    return static_cast<double>(some) > part * count && (some > 1 || some == report.elements);
  };
  if (too_many(report.ambiguous, options.max_ambiguous)) {
    return fmt::format("{} of {} elements lie where a comparison or a rounding may go either way, more than {:g} %",
                       report.ambiguous, report.elements, options.max_ambiguous * 100);
  }
  if (too_many(report.vague, options.max_vague)) {
    return fmt::format(
        "{} of {} elements have a bound that is infinite or larger than the results, more than {:g} %: 0 would pass, "
        "too",
        report.vague, report.elements, options.max_vague * 100);
  }
  if (report.elements >= 64 && static_cast<double>(report.zeros) > options.max_zeros * count) {
    return fmt::format(
        "{} of {} elements must be 0, more than {:g} %: memory that nothing was written to looks the same",
        report.zeros, report.elements, options.max_zeros * 100);
  }
  return {};
}

std::string place(int64_t index, const std::vector<int64_t>& shape) {
  std::string text;
  for (size_t d = shape.size(); d-- > 0;) {
    const int64_t size = std::max<int64_t>(shape[d], 1);
    text = fmt::format("{}{}{}", index % size, text.empty() ? "" : ", ", text);
    index /= size;
  }
  return "[" + text + "]";
}

std::string expectation(const ExpectedElement& e, DType dtype) {
  if (!types::is_float(dtype)) {
    const auto text = [&](int64_t x) {
      return dtype == DType::u64 ? fmt::format("{}", static_cast<uint64_t>(x)) : fmt::format("{}", x);
    };
    return e.exact_low == e.exact_high ? text(e.exact_low)
                                       : fmt::format("{} to {}", text(e.exact_low), text(e.exact_high));
  }
  if (e.low != e.low) return "nan";
  if (e.low == e.high) return fmt::format("{}", e.low);
  return fmt::format("{} to {}{}", e.low, e.high, e.may_be_nan ? " or nan" : "");
}

OutputReport check_output(const TensorView& view, const ExpectedOutput& expected, const CheckOptions& options) {
  OutputReport report;
  report.name = expected.name;
  report.note = expected.note;
  report.total = view.element_count();
  report.elements = static_cast<int64_t>(expected.elements.size());
  const bool integral = !types::is_float(expected.dtype);
  const double typical = typical_size(expected);
  double worst_error = -1, worst_ratio = -1;
  Outcome shown;
  size_t shown_at = 0;
  for (size_t i = 0; i < expected.elements.size(); ++i) {
    const ExpectedElement& e = expected.elements[i];
    const int64_t index = expected.whole ? static_cast<int64_t>(i) : expected.at[i];
    const unsigned char* p = element(view, index);
    const Outcome o = integral ? judge_int(e, types::load_i64(p, expected.dtype), expected.dtype)
                               : judge_float(e, types::load_f64(p, expected.dtype), options);
    report.ambiguous += e.ambiguous ? 1 : 0;
    report.vague += is_vague(interval_of(e, expected.dtype), typical, options.tiny) ? 1 : 0;
    report.zeros += e.low == 0 && e.high == 0 ? 1 : 0;
    if (std::isfinite(o.error)) report.max_error = std::max(report.max_error, o.error);
    const double ratio = std::isfinite(o.error) || !o.right ? ratio_of(o.error, bound_of(e, expected.dtype)) : 0;
    report.max_ratio = std::max(report.max_ratio, ratio);
    if (!o.right) {
      ++report.wrong;
      if (o.error <= worst_error) continue;
      worst_error = o.error;
    } else {
      if (report.wrong > 0 || ratio <= worst_ratio) continue;
      worst_ratio = ratio;
    }
    report.worst = index;
    shown = o;
    shown_at = i;
  }
  if (report.worst >= 0) {
    report.worst_text = fmt::format("{}: {}, expected {}", place(report.worst, expected.shape), shown.actual,
                                    expectation(expected.elements[shown_at], expected.dtype));
  }
  if (expected.given) {
    report.elements = report.ambiguous = report.vague = report.zeros = 0;
    report.max_error = report.max_ratio = 0;
    report.note = "its values are taken as the run left them";
  } else {
    report.mistrust = mistrust(report, expected, options);
  }
  if (!report.mistrust.empty()) report.verdict = Verdict::Mistrusted;
  if (report.wrong > 0) report.verdict = Verdict::Fail;
  return report;
}

// Where no element of any output was compared, given ones prove nothing.
void mistrust_given(const OracleResult& expected, CheckReport& report) {
  const auto& all = report.outputs;
  if (std::any_of(all.begin(), all.end(), [](const OutputReport& output) { return output.elements > 0; })) return;
  for (size_t i = 0; i < all.size(); ++i) {
    OutputReport& output = report.outputs[i];
    if (!expected.outputs[i].given || output.total == 0) continue;
    output.mistrust = "no element of any output was compared with anything but itself";
    if (output.verdict == Verdict::Pass) output.verdict = Verdict::Mistrusted;
  }
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::Pass:
      return "pass";
    case Verdict::Fail:
      return "fail";
    case Verdict::Mistrusted:
      break;
  }
  return "mistrusted";
}

Result<CheckReport> check(std::span<const TensorView> actual, const OracleResult& expected,
                          const CheckOptions& options) {
  if (actual.size() != expected.outputs.size()) {
    return diag::error(diag::Code::output_shape,
                       fmt::format("{} outputs are given for {} expectations", actual.size(), expected.outputs.size()))
        .reason("each expected output is compared with one tensor")
        .help("pass the outputs in the order of the return statement");
  }
  CheckReport report;
  for (size_t i = 0; i < actual.size(); ++i) {
    const ExpectedOutput& output = expected.outputs[i];
    const TensorView& view = actual[i];
    if (view.dtype() != output.dtype) {
      return diag::error(diag::Code::output_binding, fmt::format("{} is {} but {} is expected", output.name,
                                                                 dtype_name(view.dtype()), dtype_name(output.dtype)))
          .reason("expectations are those of values after they are stored")
          .help(fmt::format("pass a tensor of {}", dtype_name(output.dtype)));
    }
    if (squeezed({view.shape().begin(), view.shape().end()}) != squeezed(output.shape)) {
      return diag::error(diag::Code::output_shape, fmt::format("{} is {} but {} is expected", output.name,
                                                               view.describe(), to_string(Dims(output.shape))))
          .reason("shapes may differ in dims of size 1 only")
          .help("pass the tensor that the kernel wrote");
    }
    report.outputs.push_back(check_output(view, output, options));
  }
  mistrust_given(expected, report);
  for (const OutputReport& output : report.outputs) {
    if (output.verdict == Verdict::Pass || report.verdict == Verdict::Fail) continue;
    report.verdict = output.verdict;
  }
  return report;
}

}  // namespace codetta::oracle

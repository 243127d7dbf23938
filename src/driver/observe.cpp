// SPDX-License-Identifier: Apache-2.0
// Ready-made observers: statistics of values, the trap for what is no number, traces for timeline viewers.
#include "codetta/observe.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/default_floats.hpp"
#include "base/result.hpp"
#include "diag/diagnostic.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta {
namespace {

double number_at(const TensorView& view, int64_t offset) {
  const auto* element =
      static_cast<const std::byte*>(view.data()) + offset * static_cast<int64_t>(dtype_size(view.dtype()));
  if (types::is_float(view.dtype())) return types::load_f64(element, view.dtype());
  const int64_t value = types::load_i64(element, view.dtype());
  return view.dtype() == DType::u64 ? static_cast<double>(static_cast<uint64_t>(value)) : static_cast<double>(value);
}

// Visits the offsets of all elements in row-major order until visit(position, offset) is false.
template <class Visit>
void each_element(const TensorView& view, Visit&& visit) {
  if (view.empty()) return;
  std::vector<int64_t> at(static_cast<size_t>(view.rank()), 0);
  for (;;) {
    int64_t offset = 0;
    for (int d = 0; d < view.rank(); ++d) offset += at[static_cast<size_t>(d)] * view.stride(d);
    if (!visit(at, offset)) return;
    int d = view.rank() - 1;
    for (; d >= 0; --d) {
      if (++at[static_cast<size_t>(d)] < view.size(d)) break;
      at[static_cast<size_t>(d)] = 0;
    }
    if (d < 0) return;
  }
}

// The same of what a step has written of a value: `position` is that in the value's view.
template <class Visit>
void each_written(const StepRecord::Value& value, Visit&& visit) {
  if (value.parts.empty()) return each_element(value.view, visit);
  std::vector<int> by_stride;  // dims that have a place of their own, the widest first
  for (int d = 0; d < value.view.rank(); ++d) {
    if (value.view.size(d) > 1 && value.view.stride(d) > 0) by_stride.push_back(d);
  }
  std::sort(by_stride.begin(), by_stride.end(),
            [&](int a, int b) { return value.view.stride(a) > value.view.stride(b); });
  std::vector<int64_t> place(static_cast<size_t>(value.view.rank()), 0);
  for (const StepRecord::Part& part : value.parts) {
    const auto elements = TensorView::make(value.view.data(), value.view.dtype(), part.shape, part.strides);
    if (!elements) continue;
    bool goes_on = true;
    each_element(*elements, [&](const std::vector<int64_t>&, int64_t offset) {
      int64_t rest = offset + part.offset;
      for (const int d : by_stride) {
        place[static_cast<size_t>(d)] = rest / value.view.stride(d);
        rest %= value.view.stride(d);
      }
      return goes_on = visit(place, offset + part.offset);
    });
    if (!goes_on) return;
  }
}

}  // namespace

ValueStatistics statistics(const TensorView& values) { return statistics(StepRecord::Value{{}, values}); }

ValueStatistics statistics(const StepRecord::Value& values) {
  const base::DefaultFloats floats;
  ValueStatistics result;
  double sum = 0;
  int64_t finite = 0;
  each_written(values, [&](const std::vector<int64_t>&, int64_t offset) {
    const double value = number_at(values.view, offset);
    ++result.elements;
    if (std::isnan(value)) {
      ++result.nans;
    } else if (std::isinf(value)) {
      ++result.infinities;
    } else {
      result.zeros += value == 0;
      result.least = finite == 0 ? value : std::min(result.least, value);
      result.greatest = finite == 0 ? value : std::max(result.greatest, value);
      ++finite;
      sum += (value - sum) / static_cast<double>(finite);
    }
    return true;
  });
  result.mean = sum;
  return result;
}

StepObserver trap_numbers(bool infinities, StepObserver next) {
  return [infinities, next = std::move(next)](const StepRecord& record) -> Result<void> {
    for (const StepRecord::Value& value : record.written) {
      if (!types::is_float(value.view.dtype())) continue;
      std::optional<std::string> found;
      bool nan = false;
      each_written(value, [&](const std::vector<int64_t>& at, int64_t offset) {
        const double number = number_at(value.view, offset);
        nan = std::isnan(number);
        if (!nan && !(infinities && std::isinf(number))) return true;
        // The sign of a NaN says nothing.
        const std::string shown = nan ? std::string("NaN") : fmt::format("{}", number);
        found = fmt::format("{} at [{}]", shown, fmt::join(at, ", "));
        return false;
      });
      if (!found) continue;
      const std::string by =
          record.kernel.empty() ? record.step : fmt::format("{}, kernel {}", record.step, record.kernel);
      return diag::error(diag::Code::number_invalid,
                         fmt::format("{} holds {}", value.name, nan ? "NaN" : "an infinity"))
          .reason(fmt::format(
              "{} wrote {}{}", by, *found,
              record.origins.empty() ? std::string() : fmt::format(", for {}", fmt::join(record.origins, "; "))))
          .help("no step before it wrote one: look at what this step reads");
    }
    return next ? next(record) : Result<void>();
  };
}

StepObserver keep_results(KeptResults& into, StepObserver next) {
  return [&into, next = std::move(next)](const StepRecord& record) -> Result<void> {
    if (!record.results.empty()) {
      GivenResults call{record.function, {}};
      for (const StepRecord::Value& value : record.results) {
        CODETTA_TRY(Tensor copy, Tensor::make(value.view.dtype(), value.view.shape()));
        const auto size = static_cast<size_t>(dtype_size(value.view.dtype()));
        auto* to = static_cast<std::byte*>(copy.data());
        each_element(value.view, [&](const std::vector<int64_t>&, int64_t offset) {
          std::memcpy(to, static_cast<const std::byte*>(value.view.data()) + offset * static_cast<int64_t>(size), size);
          to += size;
          return true;
        });
        call.results.push_back(copy.view());
        into.memory.push_back(std::move(copy));
      }
      into.calls.push_back(std::move(call));
    }
    return next ? next(record) : Result<void>();
  };
}

std::string chrome_trace(std::span<const StepRecord> steps, const std::string& program) {
  nlohmann::json events = nlohmann::json::array();
  events.push_back({{"ph", "M"}, {"pid", 1}, {"tid", 1}, {"name", "process_name"}, {"args", {{"name", program}}}});
  for (const StepRecord& step : steps) {
    nlohmann::json written = nlohmann::json::array();
    for (const StepRecord::Value& value : step.written) written.push_back(value.name);
    events.push_back({{"ph", "X"},
                      {"pid", 1},
                      {"tid", 1},
                      {"name", step.kernel.empty() ? step.step : step.kernel},
                      {"cat", step.kernel.empty() ? "step" : "kernel"},
                      {"ts", static_cast<double>(step.begin_ns) / 1000},
                      {"dur", static_cast<double>(step.end_ns - step.begin_ns) / 1000},
                      {"args", {{"step", step.step}, {"origins", step.origins}, {"writes", written}}}});
  }
  const nlohmann::json document{{"traceEvents", events}, {"displayTimeUnit", "ns"}};
  return document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace codetta

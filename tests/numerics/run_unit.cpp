// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/result.hpp"
#include "codetta/fill.hpp"
#include "unit.hpp"

namespace codetta::numerics {
namespace {

constexpr unsigned char untouched = 0xC7;
constexpr size_t margin = 64;  // bytes before and behind

// A row-major tensor with bytes around it that nothing may write.
struct Watched {
  std::vector<unsigned char> bytes;
  TensorView view;

  static Result<Watched> make(DType dtype, const Dims& shape) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    Watched result;
    const auto payload = static_cast<size_t>(count * dtype_size(dtype));
    result.bytes.assign(payload + 2 * margin + 8, untouched);
    CODETTA_TRY(result.view, TensorView::make(static_cast<void*>(result.start()), dtype, shape));
    return result;
  }
  unsigned char* start() {
    const auto at = reinterpret_cast<uintptr_t>(bytes.data()) + margin;
    return bytes.data() + margin + (8 - at % 8) % 8;
  }
  bool kept() {
    const size_t before = static_cast<size_t>(start() - bytes.data());
    const auto payload = static_cast<size_t>(view.element_count() * dtype_size(view.dtype()));
    const auto is_untouched = [](unsigned char byte) { return byte == untouched; };
    return std::all_of(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(before), is_untouched) &&
           std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(before + payload), bytes.end(), is_untouched);
  }
};

// The lines of outputs that are not right. A verdict of mistrust that only many zeros brought about is none here:
// comparisons give zeros, and outputs were poisoned before.
std::string judged(const VerifyReport& report) {
  std::string failure;
  size_t begin = 0;
  for (const OutputCheck& output : report.outputs) {
    const size_t end = report.text.find('\n', begin);
    if (output.wrong != 0 || output.ambiguous * 100 > output.checked || output.checked != output.total)
      failure += "  " + report.text.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  if (failure.empty() && report.verdict == VerifyReport::Verdict::Fail) failure = report.text;
  return failure;
}

Result<Outcome> run(const Unit& unit, const Target& target, uint64_t seed, Context& context) {
  CODETTA_TRY(Epilogue epilogue, Epilogue::parse(unit.text));
  std::vector<Watched> memory;
  const auto input = [&](DType dtype, const Dims& shape, bool positive) -> Result<TensorView> {
    CODETTA_TRY(Watched made, Watched::make(dtype, shape));
    fill_random(made.view, ++seed, positive ? Distribution::Positive : Distribution::Normal);
    memory.push_back(std::move(made));
    return memory.back().view;
  };
  GemmArguments call;
  CODETTA_TRY(call.A, input(unit.a, unit.batch == 0 ? Dims{unit.m, unit.k} : Dims{unit.batch, unit.m, unit.k}, false));
  CODETTA_TRY(call.B, input(unit.b, unit.batch == 0 ? Dims{unit.k, unit.n} : Dims{unit.batch, unit.k, unit.n}, false));
  std::vector<NamedArgument> named;
  for (const Operand& operand : unit.operands) {
    CODETTA_TRY(const TensorView view, input(operand.dtype, operand.shape, operand.positive));
    named.push_back({operand.name, view});
  }
  const size_t first_output = memory.size();
  for (const Output& output : unit.outputs) {
    CODETTA_TRY(Watched made, Watched::make(output.dtype, output.shape));
    named.push_back({output.name, made.view});
    memory.push_back(std::move(made));
  }
  call.epilogue = EpilogueArguments(std::move(epilogue), std::move(named));
  CODETTA_TRY(const KernelList kernels, find_kernels(call, target, {}, context));

  Outcome outcome;
  std::set<std::string> families;
  for (const Kernel& kernel : kernels) {
    if (!families.insert(kernel.metadata().family).second) continue;
    if (families.size() > 1 && !unit.every_family) break;
    for (size_t i = first_output; i < memory.size(); ++i) fill_poison(memory[i].view);
    CODETTA_TRY(Execution execution, kernel.prepare(call));
    CODETTA_CHECK_OK(execution.run());
    ++outcome.runs;
    outcome.interpreted += execution.interpreted() ? 1 : 0;
    std::string failure;
    for (size_t i = first_output; i < memory.size(); ++i) {
      if (!memory[i].kept()) failure += "bytes around " + unit.outputs[i - first_output].name + " were written\n";
    }
    CODETTA_TRY(const VerifyReport report, verify(call, {}, target));
    for (const OutputCheck& output : report.outputs) outcome.elements += output.checked;
    failure += judged(report);
    if (!failure.empty()) outcome.failure += kernel.metadata().name + ":\n" + failure;
  }
  if (outcome.runs == 0) outcome.failure = "there is no kernel\n";
  return outcome;
}

}  // namespace

Outcome run_unit(const Unit& unit, const Target& target, uint64_t seed, Context& context) {
  const Result<Outcome> result = run(unit, target, seed, context);
  Outcome outcome = result ? *result : Outcome{};
  if (unit.refused) {
    const uint16_t code = result ? uint16_t{0} : result.error().code();
    outcome.failure.clear();
    if (result) outcome.failure = "it was taken, but the language does not have it\n";
    if (!result && (code < 200 || code >= 300)) outcome.failure = result.error().render();
  } else if (!result) {
    outcome.failure = result.error().render();
  }
  if (!outcome.failure.empty()) {
    outcome.failure = fmt::format("{} on {}: {} x {} x {}, batch {}\n{}{}", unit.name, target.to_string(), unit.m,
                                  unit.n, unit.k, unit.batch, outcome.failure, unit.text);
  }
  return outcome;
}

}  // namespace codetta::numerics

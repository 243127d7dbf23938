// SPDX-License-Identifier: Apache-2.0
// Tuning of what becomes a library.
#include "driver/build_tune.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "diag/diagnostic.hpp"
#include "driver/product_tuning.hpp"
#include "driver/user_tuning.hpp"

namespace codetta::driver {

namespace {

using List = nlohmann::ordered_json;

Error no_extern(const std::string& name, const std::string& function) {
  return diag::error(diag::Code::extern_missing, fmt::format("external function {} is not provided", function))
      .reason(
          fmt::format("tuning runs {}, which calls it, and a library gets its functions only when it is used", name))
      .help("build it without `tune_seconds`");
}

// The configurations that the kernels of the user's have in a plan of the same program.
void take_configurations(const plan::Plan& from, plan::Plan& to, const SizeHints& hints) {
  for (plan::PlannedKernel& kernel : to.kernels) {
    if (!kernel.user) continue;
    const std::string call = call_of(kernel, hints, to.numerics.strict);
    for (const plan::PlannedKernel& known : from.kernels) {
      if (known.user && call_of(known, hints, from.numerics.strict) == call) kernel.chosen = known.chosen;
    }
  }
}

}  // namespace

bool is_cancelled(const ContextState& context) {
  return context.options.cancel != nullptr && context.options.cancel->load();
}

Error tuning_cancelled(const std::string& name) {
  return diag::error(diag::Code::compile_cancelled, fmt::format("the tuning of {} was cancelled", name))
      .reason("the context's cancel flag was set")
      .help("start it again when you want it");
}

Result<std::string> tune_plan(plan::Plan& plan, const Program& program, const SizeHints& hints,
                              const ConstantValues& values, const BuildOptions& options, ContextState& context,
                              const std::function<Result<plan::Plan>(const plan::Choices&)>& planned) {
  const std::string& name = Program::Access::state(program)->function.name;
  CODETTA_CHECK_OK(context.check_runs(plan.target));
  if (!(options.trial_seconds > 0)) {
    return diag::error(diag::Code::option_range,
                       fmt::format("{:g} seconds are no time for a run", options.trial_seconds))
        .reason("the limit has to be above 0 seconds")
        .help("leave out `trial_seconds`: it is 60");
  }
  if (const package::CallExtern* call = extern_in(plan)) return no_extern(name, call->name);
  const std::vector<NamedArgument> none;
  ProductTuning how{program, hints, values, none, options.tune_seconds, options.trial_seconds};
  const plan::Plan& as_planned = plan;
  if (planned) {
    how.planned = [&](const plan::Choices& choices) -> Result<plan::Plan> {
      CODETTA_TRY(plan::Plan other, planned(choices));
      take_configurations(as_planned, other, hints);
      return other;
    };
  }
  how.goes_on = [&](const std::string&, double) { return !is_cancelled(context); };
  how.tell = options.progress;
  CODETTA_TRY(ProductTimes times, tune_products(plan, how, context));
  if (!times.complete) return tuning_cancelled(name);
  if (!times.note.empty() && options.progress) options.progress(fmt::format("{}: {}", name, times.note));
  List result{{"sizes", List::object()}, {"products", List::parse(times.products)}};
  if (!times.decisions.empty()) result["decisions"] = List::parse(times.decisions);
  for (const auto& [symbol, size] : hints) result["sizes"][symbol] = size;
  return result.dump();
}

}  // namespace codetta::driver

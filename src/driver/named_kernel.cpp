// SPDX-License-Identifier: Apache-2.0
#include "driver/named_kernel.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "driver/program_arguments.hpp"
#include "driver/program_state.hpp"

namespace codetta::driver {
namespace {

constexpr int64_t size_unsaid = 16;  // of what no size is given for

struct Place {
  size_t program = 0;
  uint32_t kernel = 0;
};

// That one, or one for each name that `wanted` is a part of. Of a part, names of the first program come before those
// of programs that take over for it or have other sizes.
std::vector<Place> places_of(const std::vector<emit::host::Program>& programs, const std::string& wanted) {
  std::vector<Place> found;
  std::set<std::string> names;
  for (size_t p = 0; p < programs.size(); ++p) {
    const auto& kernels = programs[p].package->kernels;
    const auto exact = std::find_if(kernels.begin(), kernels.end(), [&](const auto& k) { return k.name == wanted; });
    if (exact != kernels.end()) return {{p, static_cast<uint32_t>(exact - kernels.begin())}};
  }
  for (size_t p = 0; p < programs.size(); ++p) {
    const auto& kernels = programs[p].package->kernels;
    for (uint32_t k = 0; k < kernels.size(); ++k) {
      if (kernels[k].name.find(wanted) != std::string::npos && names.insert(kernels[k].name).second)
        found.push_back({p, k});
    }
    if (p == 0 && !found.empty()) break;
  }
  return found;
}

// Sizes for which a call takes the program, or the one that it takes over for soonest; none where all sizes take it.
SizeHints sizes_of_program(const emit::host::SizeTable& table, size_t program) {
  std::optional<size_t> found;
  size_t least = SIZE_MAX;  // programs in front of it
  for (size_t place = 0; place < table.chosen.size(); ++place) {
    size_t before = 0;
    for (std::optional<size_t> at = table.chosen[place]; at; at = table.takes_over(*at), ++before) {
      if (table.first + *at != program || before >= least) continue;
      found = place;
      least = before;
    }
  }
  if (!found) return {};
  SizeHints sizes;
  size_t rest = *found;
  for (auto axis = table.axes.rbegin(); axis != table.axes.rend(); rest /= axis->sizes.size(), ++axis)
    sizes.emplace_back(axis->symbol, axis->sizes[rest % axis->sizes.size()]);
  return sizes;
}

Error not_one(const std::string& wanted, const std::set<std::string>& names, size_t found) {
  return diag::error(diag::Code::argument_unexpected,
                     found == 0 ? fmt::format("the program has no kernel {}", wanted)
                                : fmt::format("{} kernels of the program are called {}", found, wanted))
      .reason(names.empty() ? std::string("it has none")
                            : fmt::format("{} {}", found == 0 ? "it has" : "they are", fmt::join(names, ", ")))
      .help("name one of them, or a part of its name that no other has");
}

}  // namespace

Result<NamedKernel> find_kernel(const Program& program, const Target& target, const ReproducerOptions& options,
                                ContextState& context) {
  const ir::Graph& graph = Program::Access::state(program)->graph;
  CODETTA_TRY(SizeHints sizes, all_sizes(graph, options.sizes, size_unsaid));
  BuildOptions for_sizes;
  for_sizes.output = for_sizes.name = "reproducer";
  for_sizes.engine_dir = options.engine_dir;
  for_sizes.size_hints = sizes;
  for_sizes.programs_by_size = 1;
  BuildOptions table = for_sizes;
  table.size_hints = options.size_hints;
  table.programs_by_size = 0;
  if (!options.size_hints.empty()) {
    CODETTA_CHECK_OK(check_hints(graph, options.size_hints, Hinted::ForSeveralSizes));
    CODETTA_TRY(const SizeSets sets, size_sets(options.size_hints));
    for_sizes.size_hints = sets.sets[sets.pick(sizes)];
  }

  std::set<std::string> names;
  const auto look = [&](const Program& one, const BuildOptions& build) -> Result<std::optional<NamedKernel>> {
    CODETTA_TRY(LibraryPlan planned, plan_library({one}, target, build, context, true, false));
    const std::vector<Place> found = places_of(planned.host.programs, options.kernel);
    if (found.size() == 1)
      return std::optional(NamedKernel{std::move(planned), found[0].program, found[0].kernel, sizes});
    if (!found.empty()) {
      names.clear();
      for (const Place& at : found) names.insert(planned.host.programs[at.program].package->kernels[at.kernel].name);
      return not_one(options.kernel, names, found.size());
    }
    for (const emit::host::Program& has : planned.host.programs) {
      for (const package::Kernel& kernel : has.package->kernels) names.insert(kernel.name);
    }
    return std::optional<NamedKernel>();
  };
  CODETTA_TRY(std::optional<NamedKernel> found, look(program, for_sizes));
  if (found) return *std::move(found);
  CODETTA_TRY(found, look(program.with_hooked_results(), for_sizes));
  if (found) return *std::move(found);
  CODETTA_TRY(found, look(program, table));
  if (!found) return not_one(options.kernel, names, 0);
  for (const emit::host::SizeTable& by_size : found->planned.host.by_size) {
    SizeHints given = options.sizes;
    for (auto& size : sizes_of_program(by_size, found->program)) {
      const bool said =
          std::any_of(given.begin(), given.end(), [&](const auto& one) { return one.first == size.first; });
      if (!said) given.push_back(std::move(size));
    }
    CODETTA_TRY(found->sizes, all_sizes(graph, given, size_unsaid));
  }
  return *std::move(found);
}

}  // namespace codetta::driver

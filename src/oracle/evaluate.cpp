// SPDX-License-Identifier: Apache-2.0
// evaluate(): everything where that is affordable, else whole rows, columns or items of every output.
#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <set>

#include "ir/analyses.hpp"
#include "oracle/problem.hpp"
#include "oracle/ulp.hpp"

namespace codetta::oracle {
namespace {

using ir::NodeId;

uint64_t next_random(uint64_t& state) {  // splitmix64
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// `count` of 0..size-1, sorted: both ends (tails of tiles lie there), the rest at random.
IndexList sample(int64_t size, int64_t count, uint64_t& random) {
  std::set<int64_t> picked;
  const int64_t edge = std::min<int64_t>(16, count / 4);
  for (int64_t i = 0; i < edge; ++i) picked.insert({i, size - 1 - i});
  while (static_cast<int64_t>(picked.size()) < count)
    picked.insert(static_cast<int64_t>(next_random(random) % static_cast<uint64_t>(size)));
  return std::make_shared<const std::vector<int64_t>>(picked.begin(), picked.end());
}

struct Pass {
  AxisClass axis = 0;
  std::vector<size_t> outputs;
  Picks picks;
};

class Sampler {
 public:
  Sampler(const Problem& problem)
      : problem_(problem), random_(problem.options.seed), count_(std::max<int64_t>(64, problem.options.sampled_rows)) {
    for (const ir::GraphOutput& output : problem.graph->outputs())
      mixed_.push_back(mixed_classes(problem, output.node));
  }

  // One pass for each axis along which some output can be sampled: its rows, columns or items.
  std::vector<Pass> passes() {
    std::vector<Pass> passes;
    for (size_t o = 0; o < mixed_.size(); ++o) {
      const std::vector<AxisClass> axes = axes_of_output(o);
      for (size_t i = axes.size(); i-- > 0;) {
        if (!can_sample(o, axes[i])) continue;
        const size_t from_end = axes.size() - 1 - i;
        // Leading dims are sampled alone only where neither rows nor columns can be.
        if (from_end >= 2 && covered(passes, o)) continue;
        add(passes, axes[i], o);
      }
    }
    for (Pass& pass : passes) shrink(pass);
    return passes;
  }
  [[nodiscard]] bool affordable(const Pass& pass) const { return work(pass) <= work_limit(); }
  // Of what can't be made smaller.
  [[nodiscard]] double work_limit() const { return 32 * static_cast<double>(problem_.options.max_work); }
  [[nodiscard]] double work(const Pass& pass) const { return work_of(problem_, roots(pass.outputs), pass.picks); }
  [[nodiscard]] std::vector<NodeId> roots(const std::vector<size_t>& outputs) const {
    std::vector<NodeId> nodes;
    for (const size_t o : outputs) nodes.push_back(problem_.graph->outputs()[o].node);
    return nodes;
  }

 private:
  [[nodiscard]] const std::vector<AxisClass>& axes_of_output(size_t o) const {
    return problem_.axes[problem_.graph->outputs()[o].node.index()];
  }
  [[nodiscard]] bool can_sample(size_t o, AxisClass axis) const {
    return !mixed_[o][axis] && size_of(o, axis) > count_;
  }
  [[nodiscard]] int64_t size_of(size_t o, AxisClass axis) const {
    const std::vector<AxisClass>& axes = axes_of_output(o);
    const auto found = std::find(axes.begin(), axes.end(), axis);
    return found == axes.end()
               ? 0
               : problem_.size(problem_.graph->outputs()[o].node)[static_cast<size_t>(found - axes.begin())];
  }
  static bool covered(const std::vector<Pass>& passes, size_t o) {
    return std::any_of(passes.begin(), passes.end(), [o](const Pass& p) {
      return std::find(p.outputs.begin(), p.outputs.end(), o) != p.outputs.end();
    });
  }
  void add(std::vector<Pass>& passes, AxisClass axis, size_t o) {
    for (Pass& pass : passes) {
      if (pass.axis != axis) continue;
      if (std::find(pass.outputs.begin(), pass.outputs.end(), o) == pass.outputs.end()) pass.outputs.push_back(o);
      return;
    }
    passes.push_back({axis, {o}, {{axis, sample(size_of(o, axis), count_, random_)}}});
  }
  // Further axes that all outputs of the pass share, outermost first, until it is affordable.
  void shrink(Pass& pass) {
    const std::vector<AxisClass> axes = axes_of_output(pass.outputs[0]);
    for (const AxisClass axis : axes) {
      if (work(pass) <= static_cast<double>(problem_.options.max_work)) return;
      const int64_t least = axis == axes.front() && axes.size() > 2 ? 8 : count_;
      if (pass.picks.contains(axis) || size_of(pass.outputs[0], axis) <= least) continue;
      const bool shared = std::all_of(pass.outputs.begin(), pass.outputs.end(),
                                      [&](size_t o) { return !mixed_[o][axis] && size_of(o, axis) > 0; });
      if (shared) pass.picks[axis] = sample(size_of(pass.outputs[0], axis), least, random_);
    }
  }

  const Problem& problem_;
  uint64_t random_;
  int64_t count_;
  std::vector<std::vector<bool>> mixed_;
};

Result<std::vector<PassOutput>> run(const Problem& problem, const std::vector<size_t>& outputs, const Picks& picks) {
  return problem.wide ? run_pass<long double>(problem, outputs, picks) : run_pass<double>(problem, outputs, picks);
}

// Beyond the limit of work for the sake of memory: a value of as many elements takes about a gigabyte.
constexpr int64_t max_whole_elements = int64_t{1} << 24;

// Of what is held whole.
int64_t largest_value(const Problem& problem, NodeId root) {
  int64_t largest = 0;
  const NodeId roots[] = {root};
  const std::vector<bool> parts = read_in_parts(problem, roots, {});
  for (const NodeId id : ir::topological_order(*problem.graph, roots)) {
    if (!parts[id.index()]) largest = std::max(largest, axes_of(problem, id, {}).count());
  }
  return largest;
}

// Names the limit that is exceeded, and only that.
std::string left_out_text(double work, double work_limit, int64_t largest) {
  std::string text = "left out: it depends on every element, ";
  if (work > work_limit) {
    text += fmt::format("which takes {:.3g} steps, and {:.3g} are allowed", work, work_limit);
    if (largest > max_whole_elements) text += "; ";
  }
  if (largest > max_whole_elements)
    text += fmt::format("of a value of {} elements, and {} are allowed", largest, max_whole_elements);
  return text;
}

std::string picks_text(const Axes& axes) {
  std::string text;
  for (size_t d = 0; d < axes.rank(); ++d) {
    if (!axes.picks[d]) continue;
    const size_t from_end = axes.rank() - 1 - d;
    const char* noun = from_end == 0 ? "columns" : from_end == 1 ? "rows" : "items";
    text += fmt::format("{}{} of {} {}", text.empty() ? "" : " by ", axes.local(d), axes.full[d], noun);
  }
  return text;
}

// Appends what earlier passes don't have.
void collect(const PassOutput& part, std::vector<Axes>& seen, ExpectedOutput& output) {
  std::vector<std::vector<std::vector<bool>>> has;  // by earlier pass, dim, index
  for (const Axes& axes : seen) {
    auto& dims = has.emplace_back();
    for (size_t d = 0; d < axes.rank(); ++d) {
      auto& flags = dims.emplace_back(axes.picks[d] ? static_cast<size_t>(axes.full[d]) : 0);
      for (const int64_t i : axes.picks[d] ? *axes.picks[d] : std::vector<int64_t>{})
        flags[static_cast<size_t>(i)] = true;
    }
  }
  const Axes& axes = part.axes;
  Sizes global(axes.rank());
  for_each_row(axes.locals(), [&](int64_t position, const Sizes& at) {
    const size_t last = axes.rank() - 1;
    for (size_t d = 0; d < last; ++d) global[d] = axes.global(d, at[d]);
    for (int64_t j = 0; j < axes.local(last); ++j) {
      global[last] = axes.global(last, j);
      const bool known = std::any_of(has.begin(), has.end(), [&](const auto& dims) {
        for (size_t d = 0; d < dims.size(); ++d) {
          if (!dims[d].empty() && !dims[d][static_cast<size_t>(global[d])]) return false;
        }
        return true;
      });
      if (known) continue;
      int64_t index = 0;
      for (size_t d = 0; d < axes.rank(); ++d) index = index * axes.full[d] + global[d];
      output.at.push_back(index);
      output.elements.push_back(part.elements[static_cast<size_t>(position + j)]);
    }
  });
  seen.push_back(axes);
  output.note += fmt::format("{}{}", output.note.empty() ? "" : ", ", picks_text(axes));
}

}  // namespace

std::span<const UlpRow> cpu_ulp_table() {
  static constexpr UlpRow table[] = {
#define CODETTA_ULP(op, f32_ulp, f32_abs, f64_ulp, f64_abs) {types::Op::op, f32_ulp, f32_abs, f64_ulp, f64_abs},
#include "device/cpu/ulp.def"
#undef CODETTA_ULP
  };
  return table;
}

std::span<const UlpRow> cuda_ulp_table() {
  static constexpr UlpRow table[] = {
#define CODETTA_ULP(op, f32_ulp, f32_abs, f64_ulp, f64_abs) {types::Op::op, f32_ulp, f32_abs, f64_ulp, f64_abs},
#include "device/gpu/ulp.def"
#undef CODETTA_ULP
  };
  return table;
}

std::span<const UlpRow> sm90a_ulp_table() {
  static const std::vector<UlpRow> table = [] {
    const std::span<const UlpRow> all = cuda_ulp_table();
    std::vector<UlpRow> rows(all.begin(), all.end());
    const auto instead = [&](types::Op op, double ulp, double ln) {
      for (UlpRow& row : rows) {
        if (row.op == op) row.f32_ulp = ulp, row.f32_ln = ln;
      }
    };
#define CODETTA_ULP(op, f32_ulp, f32_abs, f64_ulp, f64_abs)
#define CODETTA_ULP_SM90A(op, f32_ulp, f32_ln) instead(types::Op::op, f32_ulp, f32_ln);
#include "device/gpu/ulp.def"
#undef CODETTA_ULP_SM90A
#undef CODETTA_ULP
    return rows;
  }();
  return table;
}

std::span<const UlpRow> hip_ulp_table() {
  static constexpr UlpRow table[] = {
#define CODETTA_ULP(op, f32_ulp, f32_abs, f64_ulp, f64_abs) {types::Op::op, f32_ulp, f32_abs, f64_ulp, f64_abs},
#include "device/hip/ulp.def"
#undef CODETTA_ULP
  };
  return table;
}

namespace {

Result<OracleResult> evaluate_all(const ir::Graph& graph, std::span<const OracleInput> inputs,
                                  const OracleOptions& options) {
  CODETTA_TRY(const Problem problem, make_problem(graph, inputs, options));
  OracleResult result;
  std::vector<size_t> all;
  std::vector<NodeId> roots;
  for (const ir::GraphOutput& output : graph.outputs()) {
    ExpectedOutput& expected = result.outputs.emplace_back();
    expected.name = output.name;
    expected.dtype = output.dtype;
    expected.shape = problem.size(output.node);
    all.push_back(all.size());
    roots.push_back(output.node);
  }
  const auto affordable = static_cast<double>(options.max_work);
  if (work_of(problem, roots, {}) <= affordable) {
    CODETTA_TRY(std::vector<PassOutput> parts, run(problem, all, {}));
    for (PassOutput& part : parts) {
      result.outputs[part.output].elements = std::move(part.elements);
      result.outputs[part.output].given = part.given;
    }
    return result;
  }
  Sampler sampler(problem);
  std::vector<std::vector<Axes>> seen(all.size());
  std::vector<bool> done(all.size(), false);
  for (ExpectedOutput& output : result.outputs) output.whole = false;
  for (const Pass& pass : sampler.passes()) {
    if (!sampler.affordable(pass)) continue;
    CODETTA_TRY(const std::vector<PassOutput> parts, run(problem, pass.outputs, pass.picks));
    for (const PassOutput& part : parts) {
      collect(part, seen[part.output], result.outputs[part.output]);
      result.outputs[part.output].given = part.given;
      done[part.output] = true;
    }
  }
  // What can't be sampled is computed whole, as a sum of everything must be.
  for (size_t o = 0; o < all.size(); ++o) {
    if (done[o]) continue;
    ExpectedOutput& output = result.outputs[o];
    const double work = work_of(problem, std::span(roots).subspan(o, 1), {});
    if (work <= sampler.work_limit() && largest_value(problem, roots[o]) <= max_whole_elements) {
      CODETTA_TRY(std::vector<PassOutput> parts, run(problem, {o}, {}));
      output.elements = std::move(parts[0].elements);
      output.given = parts[0].given;
      output.whole = true;
    } else {
      output.note = left_out_text(work, sampler.work_limit(), largest_value(problem, roots[o]));
    }
  }
  return result;
}

}  // namespace

Result<OracleResult> evaluate(const ir::Graph& graph, std::span<const OracleInput> inputs,
                              const OracleOptions& options) try {
  return evaluate_all(graph, inputs, options);
} catch (const std::bad_alloc&) {
  return diag::error(diag::Code::out_of_memory, "no memory to evaluate the problem")
      .reason(fmt::format("{:.3g} steps are allowed (max_work), and the values of several nodes are kept at once",
                          static_cast<double>(options.max_work)))
      .help("allow fewer steps, so that rows and columns are sampled, or check a smaller problem");
}

}  // namespace codetta::oracle

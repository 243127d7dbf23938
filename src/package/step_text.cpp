// SPDX-License-Identifier: Apache-2.0
// Steps for people: what `emit --what=plan` prints.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "package/package.hpp"

namespace codetta::package {
namespace {

constexpr std::string_view step_names[] = {"define_symbol",
                                           "check",
                                           "allocate",
                                           "free",
                                           "launch_kernel",
                                           "comment",
                                           "return",
                                           "allocate_from_pool",
                                           "reuse",
                                           "reinterpret",
                                           "load_constant",
                                           "copy",
                                           "fill",
                                           "define_kernel",
                                           "call_extern",
                                           "select_output",
                                           "index_put",
                                           "scatter",
                                           "enter_device",
                                           "exit_device",
                                           "enter_stream",
                                           "exit_stream",
                                           "record_event",
                                           "wait_event",
                                           "enter_subgraph",
                                           "exit_subgraph",
                                           "if",
                                           "while"};
static_assert(std::size(step_names) == std::variant_size_v<Step>);

std::string indexed(const char* what, uint32_t index) { return fmt::format("{} {}", what, index); }

struct StepLine {
  const StepNames& names;

  [[nodiscard]] std::string name(uint32_t buffer) const { return names.buffer(buffer); }
  [[nodiscard]] std::string all(const std::vector<uint32_t>& buffers) const {
    std::string text;
    for (uint32_t buffer : buffers) text += (text.empty() ? "" : ", ") + name(buffer);
    return text;
  }
  static std::string because(const std::string& why) { return why.empty() ? "" : ": " + why; }

  // ---- guards
  std::string operator()(const EqualGuard& g) const {
    return fmt::format("check {} == {}{}", g.left.to_string(), g.right.to_string(), because(g.why));
  }
  std::string operator()(const UnitStrideGuard& g) const {
    return fmt::format("check {} has stride 1 in its last dim", name(g.buffer));
  }
  std::string operator()(const NoOverlapGuard& g) const {
    return fmt::format("check {} does not overlap {}{}", name(g.output), name(g.other),
                       g.in_place_ok ? ", or is the same view" : "");
  }
  std::string operator()(const SizeGuard& g) const {
    return fmt::format("check {} has size {} in dim {}", name(g.buffer), g.size.to_string(), g.dim);
  }
  std::string operator()(const StrideGuard& g) const {
    return fmt::format("check {} has stride {} in dim {}", name(g.buffer), g.stride.to_string(), g.dim);
  }
  std::string operator()(const AlignmentGuard& g) const {
    return fmt::format("check {} is aligned to {} bytes", name(g.buffer), g.bytes);
  }
  std::string operator()(const DivisibleGuard& g) const {
    return fmt::format("check {} is a multiple of {}{}", g.value.to_string(), g.divisor.to_string(), because(g.why));
  }
  std::string operator()(const RangeGuard& g) const {
    const bool open = g.most.as_constant() == INT64_MAX;
    return fmt::format("check {} <= {}{}{}", g.least.to_string(), g.value.to_string(),
                       open ? "" : " <= " + g.most.to_string(), because(g.why));
  }
  std::string operator()(const NanGuard& g) const {
    return fmt::format("check {} holds no NaN{}{}", name(g.buffer), g.infinity ? " and no infinity" : "",
                       because(g.why));
  }
  std::string operator()(const IndexGuard& g) const {
    return fmt::format("check {} indexes {} elements", name(g.buffer), g.size.to_string());
  }

  // ---- steps
  std::string operator()(const DefineSymbol& s) const {
    std::string from;
    switch (s.from) {
      case DefineSymbol::From::Size:
        from = fmt::format("size of {} in dim {}", name(s.buffer), s.dim);
        if (!(s.value == Dim())) from = fmt::format("{} less {}", from, s.value.to_string());
        break;
      case DefineSymbol::From::Stride:
        from = fmt::format("stride of {} in dim {}", name(s.buffer), s.dim);
        break;
      case DefineSymbol::From::Value:
        from = fmt::format("value of {}", name(s.buffer));
        break;
      case DefineSymbol::From::OutputSize:
        from = fmt::format("size of output {} of result {} in dim {}", s.output, s.buffer, s.dim);
        break;
      case DefineSymbol::From::OutputStride:
        from = fmt::format("stride of output {} of result {} in dim {}", s.output, s.buffer, s.dim);
        break;
      case DefineSymbol::From::Expression:
        from = s.value.to_string();
        break;
    }
    if (!(s.divisor == Dim::constant(1))) from = fmt::format("({}) / ({})", from, s.divisor.to_string());
    return fmt::format("define {} = {}", s.symbol, from);
  }
  std::string operator()(const Check& s) const { return std::visit(*this, s.guard); }
  std::string operator()(const Allocate& s) const { return "allocate " + name(s.buffer); }
  std::string operator()(const AllocateFromPool& s) const {
    return fmt::format("allocate {} in pool {} at {}", name(s.buffer), s.pool, s.offset.to_string());
  }
  std::string operator()(const Free& s) const { return "free " + name(s.buffer); }
  std::string operator()(const Reuse& s) const { return fmt::format("reuse {} as {}", name(s.from), name(s.buffer)); }
  std::string operator()(const Reinterpret& s) const {
    return fmt::format("view {} of {}", name(s.buffer), name(s.source));
  }
  std::string operator()(const LoadConstant& s) const { return "load constant " + name(s.buffer); }
  std::string operator()(const Copy& s) const { return fmt::format("copy {} to {}", name(s.source), name(s.target)); }
  std::string operator()(const Fill& s) const {
    constexpr std::string_view modes[] = {"leave {} as it is", "fill {} with {}", "fill {} with {}, once"};
    return fmt::format(fmt::runtime(modes[static_cast<size_t>(s.mode)]), name(s.buffer),
                       s.bits == 0 ? "0" : fmt::format("bits {:#x}", s.bits));
  }
  std::string operator()(const DefineKernel& s) const { return "define " + names.kernel(s.kernel); }

  static std::string dims(const std::array<Dim, 3>& sizes) {
    return fmt::format("{} x {} x {}", sizes[0].to_string(), sizes[1].to_string(), sizes[2].to_string());
  }
  [[nodiscard]] std::string options(const LaunchKernel& s) const {
    const LaunchOptions& o = s.options;
    const LaunchOptions none;
    std::string text;
    if (!(o.grid == none.grid)) text += ", grid " + dims(o.grid);
    if (!(o.block == none.block)) text += ", block " + dims(o.block);
    if (o.cluster != none.cluster) text += fmt::format(", cluster {}", fmt::join(o.cluster, " x "));
    if (o.cooperative) text += ", cooperative";
    if (o.programmatic) text += ", programmatic dependent";
    if (!(o.shared_bytes == none.shared_bytes)) text += fmt::format(", {} shared bytes", o.shared_bytes.to_string());
    if (!o.sizes.empty()) text += ", sizes " + types::to_string(o.sizes);
    for (const TensorMap& map : o.maps) {
      text += fmt::format(", {} map of {}", map.kind == TensorMap::Kind::Tiled ? "tiled" : "im2col",
                          name(s.arguments[map.argument]));
    }
    if (o.window) {
      text += fmt::format(", {} bytes of {} persist in L2", o.window->bytes.to_string(),
                          name(s.arguments[o.window->argument]));
    }
    return text;
  }
  // " as [8 of dim -2, s of dim -3, 64 of dim -1]"
  static std::string seen(const FactorView& view) {
    std::string text;
    for (const FactorDim& dim : view) {
      text += text.empty() ? " as [" : ", ";
      text += fmt::format("{} of dim -{}", dim.size.to_string(), dim.dim + 1);
      if (!(dim.scale == Dim::constant(1))) text += " by " + dim.scale.to_string();
    }
    return text.empty() ? text : text + "]";
  }
  std::string operator()(const LaunchKernel& s) const {
    if (!s.product) {
      return fmt::format("launch {} over {} x {}, batch {} with [{}]{}", names.kernel(s.kernel), s.m.to_string(),
                         s.n.to_string(), s.batch.to_string(), all(s.arguments), options(s));
    }
    const Product& product = *s.product;
    std::string factors;
    for (size_t p = 0; p < product.products(); ++p) {
      if (p > 0) factors += ", ";
      factors += p < product.b_made.size()
                     ? fmt::format("{}({})", names.kernel(product.b_made[p].kernel), all(product.b_made[p].arguments))
                     : name(product.factor_b(p));
      if (product.b_transposed) factors += " transposed";
      factors += seen(product.b_view);
    }
    if (product.products() > 1) factors = "[" + factors + "]";
    return fmt::format("launch {} on {}{} @ {} ({} x {} x {}, batch {}) with [{}]{}", names.kernel(s.kernel),
                       name(product.a), (product.a_transposed ? " transposed" : "") + seen(product.a_view), factors,
                       s.m.to_string(), s.n.to_string(), product.k.to_string(), s.batch.to_string(), all(s.arguments),
                       options(s));
  }
  std::string operator()(const CallExtern& s) const {
    const std::string result = s.form == CallExtern::Form::Out
                                   ? fmt::format("into [{}]", all(s.outputs))
                                   : fmt::format("as result {} of {} outputs", s.result, s.output_count);
    return fmt::format("call {} with [{}] {}", s.name, all(s.inputs), result);
  }
  std::string operator()(const SelectOutput& s) const {
    return fmt::format("select {} = output {} of result {}", name(s.buffer), s.output, s.result);
  }
  std::string operator()(const IndexPut& s) const {
    return fmt::format("put {} into {} at [{}]{}", name(s.values), name(s.target), all(s.indices),
                       s.accumulate ? ", added" : "");
  }
  std::string operator()(const Scatter& s) const {
    constexpr std::string_view how[] = {"", ", added", ", multiplied", ", minimum", ", maximum"};
    return fmt::format("scatter {} into {} at {} along dim {}{}", name(s.source), name(s.target), name(s.index), s.dim,
                       how[static_cast<size_t>(s.reduce)]);
  }
  std::string operator()(const EnterDevice& s) const { return indexed("enter device", s.device); }
  std::string operator()(const ExitDevice&) const { return "exit device"; }
  std::string operator()(const EnterStream& s) const { return indexed("enter stream", s.stream); }
  std::string operator()(const ExitStream&) const { return "exit stream"; }
  std::string operator()(const RecordEvent& s) const { return indexed("record event", s.event); }
  std::string operator()(const WaitEvent& s) const { return indexed("wait for event", s.event); }
  std::string operator()(const EnterSubgraph& s) const {
    return fmt::format("enter {}{}", s.name, s.results.empty() ? "" : fmt::format(" returning [{}]", all(s.results)));
  }
  std::string operator()(const ExitSubgraph&) const { return "exit"; }
  std::string operator()(const If& s) const { return fmt::format("if {}:", name(s.predicate)); }
  std::string operator()(const While& s) const {
    return fmt::format("while {}{}:", name(s.predicate), s.limit == 0 ? "" : fmt::format(", at most {}", s.limit));
  }
  std::string operator()(const Comment& s) const { return "# " + s.text; }
  std::string operator()(const Return&) const { return "return"; }
};

}  // namespace

std::string_view name_of(const Step& step) { return step_names[step.index()]; }

std::string line_of(const Step& step, const StepNames& names) { return std::visit(StepLine{names}, step); }

std::string list_steps(const StepList& steps, const std::vector<StepList>& children, const StepNames& names,
                       std::string_view indent) {
  std::string text;
  std::string scopes;  // of subgraphs
  const auto put = [&](std::string_view line) { text += fmt::format("{}{}{}\n", indent, scopes, line); };
  const auto child = [&](uint32_t list, std::string_view deeper) {
    text += list_steps(children[list], children, names, fmt::format("{}{}{}", indent, scopes, deeper));
  };
  for (const Step& step : steps) {
    if (std::holds_alternative<ExitSubgraph>(step) && !scopes.empty()) scopes.resize(scopes.size() - 2);
    put(line_of(step, names));
    if (std::holds_alternative<EnterSubgraph>(step)) scopes += "  ";
    if (const auto* branch = std::get_if<If>(&step)) {
      child(branch->then_list, "  ");
      if (children[branch->else_list].empty()) continue;
      put("else:");
      child(branch->else_list, "  ");
    } else if (const auto* loop = std::get_if<While>(&step)) {
      put("  condition:");
      child(loop->condition, "    ");
      put("  body:");
      child(loop->body, "    ");
    }
  }
  return text;
}

std::string list_steps(const Package& package) {
  return list_steps(package.steps, package.step_lists,
                    {[&](uint32_t buffer) { return package.buffers[buffer].name; },
                     [&](uint32_t kernel) { return package.kernels[kernel].name; }});
}

}  // namespace codetta::package

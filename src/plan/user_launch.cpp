// SPDX-License-Identifier: Apache-2.0
// What the clauses of a source say for one configuration and call: expressions, conditions, launch options, maps.
#include "plan/user_launch.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "device/host/user_launch.h"
#include "device/host/user_maps.h"
#include "diag/diagnostic.hpp"
#include "package/plain_map.hpp"
#include "plan/user_expressions.hpp"
#include "plan/user_pragmas.hpp"

namespace codetta::plan {

using diag::Span;
using types::Dim;

namespace {

constexpr size_t most_configurations = 256;
constexpr int64_t most_threads = 1024;
using codetta::gpu::host::most_cluster;

std::string text_of(const std::vector<Token>& tokens) {
  std::string text;
  for (const Token& token : tokens) text += std::string(token.text) + " ";
  return text;
}

// The order in which they are written is no difference.
bool same_values(Values a, Values b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

class Launch : LaunchExpressions {
 public:
  Launch(const UserSource& source, const std::vector<package::Argument>& arguments, const LaunchTarget& target,
         const std::function<Dim(size_t, int32_t)>& stride, std::optional<size_t> hook)
      : LaunchExpressions(source, arguments, stride, hook), user_(source), target_(target) {}

  Result<BoundLaunch> bind() {
    CODETTA_TRY(clauses_, pragmas_.clauses());
    CODETTA_CHECK_OK(declare());
    for (const Clause& clause : clauses_) {
      // `cooperative(0)` reads as if it said something else than `cooperative`.
      if ((clause.word == "cooperative" || clause.word == "dependent") && clause.inside.size() > 1)
        return wrong(clause.inside[0].span, fmt::format("{} takes no value", clause.word),
                     fmt::format("write {} alone, with if(...) behind it where a condition decides", clause.word));
    }
    CODETTA_TRY(const std::vector<const Clause*> configs, configs_of_source());
    BoundLaunch bound;
    for (size_t c = 0; c < std::max<size_t>(configs.size(), 1); ++c) {
      UserConfiguration one;
      values_ = &one.values;  // a value may use those in front of it, of this configuration alone
      asked_.clear();
      if (!configs.empty()) CODETTA_CHECK_OK(meta(*configs[c], one.values));
      const auto same = [&](const UserConfiguration& known) { return same_values(known.values, one.values); };
      if (std::any_of(bound.configurations.begin(), bound.configurations.end(), same)) continue;
      CODETTA_CHECK_OK(options(one.options));
      bound.narrow = 0;
      CODETTA_CHECK_OK(sizes(one.options.sizes, bound.narrow));
      assume(bound, one.options);
      bound.configurations.push_back(std::move(one));
    }
    values_ = nullptr;
    return bound;
  }

  // Without a launch.
  Result<std::vector<UserConfiguration>> configurations_alone() {
    CODETTA_TRY(clauses_, pragmas_.clauses());
    for (const Clause& clause : clauses_) {
      if (clause.word != "config")
        return wrong(clause.span, fmt::format("{} is about launches on a GPU", clause.word),
                     "leave it out: a source for a CPU has configurations only");
    }
    CODETTA_TRY(const std::vector<const Clause*> configs, configs_of_source());
    std::vector<UserConfiguration> known;
    for (const Clause* clause : configs) {
      UserConfiguration one;
      values_ = &one.values;
      CODETTA_CHECK_OK(meta(*clause, one.values));
      const auto same = [&](const UserConfiguration& other) { return same_values(other.values, one.values); };
      if (std::none_of(known.begin(), known.end(), same)) known.push_back(std::move(one));
    }
    values_ = nullptr;
    if (known.empty()) known.emplace_back();
    return known;
  }

 private:
  // ---- clauses
  Result<std::vector<const Clause*>> configs_of_source() const {
    std::vector<const Clause*> configs = all("config");
    if (configs.size() <= most_configurations) return configs;
    return wrong(configs[most_configurations]->span,
                 fmt::format("there are more than {} configurations", most_configurations), "leave some out");
  }
  std::vector<const Clause*> all(std::string_view word) const {
    std::vector<const Clause*> found;
    for (const Clause& clause : clauses_) {
      if (clause.word == word) found.push_back(&clause);
    }
    return found;
  }
  // The one that holds for this configuration: that with most conditions. Null: none.
  Result<const Clause*> chosen(std::string_view word) const {
    std::vector<const Clause*> met;
    const Clause* best = nullptr;
    for (const Clause* clause : all(word)) {
      CODETTA_TRY(const bool holds_here, holds(*clause));
      if (!holds_here) continue;
      met.push_back(clause);
      if (best == nullptr || best->conditions < clause->conditions) best = clause;
    }
    // Only those that are as specific as the best can contradict it.
    for (const Clause* clause : met) {
      if (clause->conditions == best->conditions && text_of(best->inside) != text_of(clause->inside))
        return wrong(clause->span,
                     fmt::format("two clauses {} with {} conditions hold{}", word, clause->conditions, configuration()),
                     "let one of them have a further condition: the more specific one counts");
    }
    return best;
  }
  Result<bool> holds(const Clause& clause) const {
    if (clause.condition.empty()) return true;
    size_t at = 0;
    for (bool all_hold = true;;) {
      CODETTA_TRY(const int64_t left, constant(clause.condition, at, "a condition"));
      const Token sign = clause.condition[at++];
      constexpr std::string_view comparisons[] = {"==", "!=", "<", "<=", ">", ">="};
      const auto* found = std::find(std::begin(comparisons), std::end(comparisons), sign.text);
      if (found == std::end(comparisons))
        return wrong(sign.span, "a comparison is expected here", "write if(ROWS == 4 && COLS > 8)");
      CODETTA_TRY(const int64_t right, constant(clause.condition, at, "a condition"));
      const bool results[] = {left == right, left != right, left<right, left <= right, left> right, left >= right};
      all_hold = all_hold && results[found - std::begin(comparisons)];
      if (clause.condition[at].kind == Token::Kind::End) return all_hold;
      if (clause.condition[at++].text != "&&")
        return wrong(clause.condition[at - 1].span, "&& is expected here", "write if(ROWS == 4 && COLS > 8)");
    }
  }

  // kernel(x: f32[m, n], decay: f32, out y: f32[m, n]) against the call.
  Result<void> declare() {
    const auto found = all("kernel");
    if (found.size() != 1 || found[0]->inside.empty() || !found[0]->condition.empty()) {
      const Span where = found.size() > 1 ? found[1]->span : found.empty() ? Span{0, 0} : found[0]->span;
      return wrong(where,
                   found.size() > 1 ? "its parameters are declared twice"
                                    : "the source does not declare the kernel's parameters",
                   "write #pragma codetta kernel(x: f32[m, n], k: i32, out y: f32[m, n]) once: operands, then results");
    }
    const std::vector<Token>& in = found[0]->inside;
    size_t at = 0;
    for (size_t p = 0;; ++p) {
      const bool result = in[at].text == "out" && in[at + 1].kind == Token::Kind::Name;
      if (result) ++at;
      const Token name = in[at];
      if (name.kind != Token::Kind::Name) return wrong(name.span, "a parameter is expected here", "write x: f32[m, n]");
      ++at;
      if (in[at].text != ":") return wrong(in[at].span, "a colon and a type are expected here", "write x: f32[m, n]");
      const Token type = in[++at];
      const auto dtype = dtype_from_name(type.text);
      if (!dtype)
        return wrong(type.span, fmt::format("{} is no element type", type.text),
                     "use f32, bf16, i32, ... as for parameters of a program");
      ++at;
      if (p >= arguments_.size())
        return wrong(name.span,
                     fmt::format("{} is parameter {}, and the call has {} operands and results", name.text, p + 1,
                                 arguments_.size()),
                     "declare what the call passes: its operands, then its results");
      for (const std::string& known : names_) {
        if (known == name.text) return wrong(name.span, fmt::format("{} is declared twice", name.text), "rename one");
      }
      names_.emplace_back(name.text);
      const package::Argument& argument = arguments_[p];
      if (result != argument.is_output)
        return wrong(name.span,
                     fmt::format("{} is declared as {}, and the call has {} there", name.text,
                                 result ? "a result" : "an operand", argument.is_output ? "a result" : "an operand"),
                     argument.is_output ? "write out in front of results" : "operands come first, without out");
      if (*dtype != argument.dtype)
        return wrong(type.span,
                     fmt::format("{} is {}, and the call passes {}", name.text, type.text, dtype_name(argument.dtype)),
                     "declare the type that is passed, or cast in the program");
      const bool tensor = in[at].text == "[";
      if (tensor == argument.is_scalar)
        return wrong(
            name.span,
            fmt::format("{} is {}, and the call passes {}", name.text, tensor ? "a tensor" : "a number",
                        argument.is_scalar ? "a number" : "a tensor"),
            argument.is_scalar ? "write its type alone: k: i32" : "write its dims: x: f32[m, n]; x: f32[] has none");
      if (tensor) {
        CODETTA_CHECK_OK(dims(in, at, p));
      }
      if (in[at].kind == Token::Kind::End) break;
      if (in[at].text != ",") return wrong(in[at].span, "a comma is expected here", "separate parameters by commas");
      ++at;
    }
    if (names_.size() < arguments_.size())
      return wrong(found[0]->span,
                   fmt::format("it declares {} parameters, and the call has {} operands and results", names_.size(),
                               arguments_.size()),
                   "declare what the call passes: its operands, then its results");
    return {};
  }
  Result<void> dims(const std::vector<Token>& in, size_t& at, size_t p) {
    const std::vector<Dim>& shape = arguments_[p].shape;
    const Token open = in[at++];
    size_t d = 0;
    for (; in[at].text != "]"; ++d) {
      if (d > 0) {
        if (in[at].text != ",") return wrong(in[at].span, "a comma is expected here", "separate dims by commas");
        ++at;
      }
      if (d >= shape.size()) break;
      const Token first = in[at];
      const bool alone = first.kind == Token::Kind::Name && (in[at + 1].text == "," || in[at + 1].text == "]");
      if (alone && symbols_.find(first.text) == symbols_.end()) {
        symbols_.emplace(first.text, shape[d]);
        ++at;
        continue;
      }
      CODETTA_TRY(const Dim wanted, expression(in, at, 0));
      if (wanted == shape[d]) continue;
      return wrong(first.span,
                   fmt::format("dim {} of {} is {}, and the call passes {}", d, names_[p], wanted.to_string(),
                               shape[d].to_string()),
                   "let the sizes of the call be equal as expressions, or give the dim a name of its own");
    }
    if (in[at].text != "]" || d != shape.size())
      return wrong(open.span,
                   fmt::format("{} is declared with {} dims, and the call passes {}", names_[p],
                               d >= shape.size() && in[at].text != "]" ? "more" : std::to_string(d), shape.size()),
                   "declare a dim for each that is passed");
    ++at;
    return {};
  }

  Result<void> meta(const Clause& clause, Values& values) const {
    const std::vector<Token>& in = clause.inside;
    const std::string help = "write config(ROWS = 4, COLS = 32)";
    if (in.empty()) return wrong(clause.span, "a configuration has no meta-parameters", help);
    if (!clause.condition.empty()) return wrong(clause.span, "a configuration has no condition", help);
    for (size_t at = 0;;) {
      const Token name = in[at++];
      if (name.kind != Token::Kind::Name || in[at].text != "=")
        return wrong(name.span, "a meta-parameter and its value are expected here", help);
      if (symbols_.find(name.text) != symbols_.end() ||
          std::find(names_.begin(), names_.end(), name.text) != names_.end())
        return wrong(name.span, fmt::format("{} is a parameter or a size of the kernel, too", name.text), "rename one");
      const std::string hidden =
          name.text == user_.name ? fmt::format("{} is the kernel's name", name.text) : not_a_macro(name.text);
      if (!hidden.empty())
        return wrong(name.span, hidden,
                     "meta-parameters are macros of the source: name them as macros are, such as ROWS");
      if (std::any_of(values.begin(), values.end(), [&](const auto& v) { return v.first == name.text; }))
        return wrong(name.span, fmt::format("{} has two values", name.text), help);
      ++at;
      CODETTA_TRY(const int64_t value, constant(in, at, "a meta-parameter"));
      values.emplace_back(name.text, value);
      if (in[at].kind == Token::Kind::End) return {};
      if (in[at++].text != ",") return wrong(in[at - 1].span, "a comma is expected here", help);
    }
  }

  // sizes(m: i32, n, stride(x, 0)): integers behind the arguments.
  Result<void> sizes(std::vector<Dim>& sizes, int32_t& narrow) {
    const auto found = all("sizes");
    if (found.empty()) return {};
    const std::string help = "write sizes(m, n: i32, stride(x, 0)): each is passed as int64_t, or as int32_t";
    if (found.size() > 1) return wrong(found[1]->span, "the sizes are declared twice", help);
    const std::vector<Token>& in = found[0]->inside;
    if (in.empty() || !found[0]->condition.empty()) return wrong(found[0]->span, "there are no sizes", help);
    for (size_t at = 0;; ++at) {
      const Token first = in[at];
      if (sizes.size() == package::max_user_sizes)
        return wrong(first.span, fmt::format("more than {} sizes", package::max_user_sizes), "pass fewer");
      in_sizes_ = true;
      CODETTA_TRY(Dim size, expression(in, at, 0));
      in_sizes_ = false;
      if (in[at].text == ":") {
        const Token type = in[++at];
        if (type.text != "i32" && type.text != "i64")
          return wrong(type.span, fmt::format("a size is i32 or i64, not {}", type.text), help);
        if (type.text == "i32") narrow |= int32_t{1} << sizes.size();
        ++at;
      }
      sizes.push_back(std::move(size));
      if (in[at].kind == Token::Kind::End) return {};
      if (in[at].text != ",") return wrong(in[at].span, "a comma is expected here", help);
    }
  }

  // Strides that neither a size of the kernel nor a map is: as row-major tensors have them, behind those that are.
  void assume(BoundLaunch& bound, const package::LaunchOptions& options) const {
    for (size_t a = 0; a < arguments_.size(); ++a) {
      const std::vector<Dim>& shape = arguments_[a].shape;
      const bool mapped =
          std::any_of(options.maps.begin(), options.maps.end(), [&](const auto& map) { return map.argument == a; });
      if (arguments_[a].is_scalar || mapped || a == hook_) continue;
      Dim step = Dim::constant(1);
      for (size_t d = shape.size(); d-- > 0;) {
        const auto dim = static_cast<int32_t>(d);
        const bool asked = std::find(asked_.begin(), asked_.end(), std::pair(a, dim)) != asked_.end();
        const auto known = [&](const BoundLaunch::Assumed& one) {
          return one.argument == a && one.dim == dim && one.stride == step;
        };
        if (!asked && std::none_of(bound.assumed.begin(), bound.assumed.end(), known))
          bound.assumed.push_back({a, dim, step});
        step = (asked ? stride_(a, dim) : step) * shape[d];
      }
    }
  }

  Result<void> options(package::LaunchOptions& o) const {
    CODETTA_CHECK_OK(three("block", o.block));
    CODETTA_CHECK_OK(three("grid", o.grid));
    CODETTA_TRY(const Clause* shared, chosen("shared"));
    if (shared != nullptr) {
      CODETTA_TRY(const std::vector<Dim> bytes, list(*shared, 1));
      o.shared_bytes = bytes[0];
      const auto known = bytes[0].as_constant();
      if (known && (*known < 0 || *known > target_.shared_bytes))
        return wrong(shared->span, fmt::format("a block has {} bytes of dynamic shared memory", *known),
                     fmt::format("use 0 to {} bytes", target_.shared_bytes));
    }
    CODETTA_TRY(const Clause* cluster, chosen("cluster"));
    if (cluster != nullptr) {
      CODETTA_CHECK_OK(of_nvidia(*cluster, "clusters"));
      if (!target_.sm_90)
        return wrong(cluster->span,
                     fmt::format("clusters need compute capability 9.0, and the target is {}", target_.arch),
                     "compile for sm_90 or newer, or leave out cluster");
      CODETTA_TRY(const std::vector<Dim> blocks, list(*cluster, 3));
      int64_t all_blocks = 1;
      for (size_t i = 0; i < blocks.size(); ++i) {
        const auto known = blocks[i].as_constant();
        if (known && *known >= 1 && *known <= most_cluster) all_blocks *= *known;
        if (!known || *known < 1 || *known > most_cluster || all_blocks > most_cluster)
          return wrong(cluster->span, fmt::format("dim {} of the cluster is {}", i, blocks[i].to_string()),
                       fmt::format("clusters have 1 to {} blocks, known when the program is compiled", most_cluster));
        o.cluster[i] = static_cast<int32_t>(*known);
      }
    }
    CODETTA_TRY(const Clause* cooperative, chosen("cooperative"));
    CODETTA_TRY(const Clause* dependent, chosen("dependent"));
    if (dependent != nullptr) CODETTA_CHECK_OK(of_nvidia(*dependent, "launches that overlap with the kernel in front"));
    o.cooperative = cooperative != nullptr;
    o.programmatic = dependent != nullptr;
    // As instruction, as function of the CUDA runtime, or as one of libcu++.
    constexpr std::string_view waits[] = {"griddepcontrol.wait", "griddepcontrol_wait",
                                          "cudaGridDependencySynchronize"};
    if (dependent != nullptr && std::none_of(std::begin(waits), std::end(waits),
                                             [&](std::string_view word) { return pragmas_.has_code(word); }))
      return wrong(dependent->span,
                   "the source never waits for the kernel in front of it, whose results it could then read too early",
                   "wait with asm volatile(\"griddepcontrol.wait;\" ::: \"memory\") before anything of the kernel in "
                   "front is read, or leave out dependent");
    CODETTA_CHECK_OK(window(o));
    return maps(o);
  }
  Result<void> of_nvidia(const Clause& clause, std::string_view what) const {
    if (!target_.amd) return {};
    return wrong(clause.span, fmt::format("{} are of NVIDIA GPUs, and the target is {}", what, target_.arch),
                 fmt::format("leave out {} for AMD GPUs", clause.word));
  }
  Result<void> three(std::string_view word, std::array<Dim, 3>& dims) const {
    CODETTA_TRY(const Clause* clause, chosen(word));
    if (clause == nullptr)
      return wrong(
          Span{0, 0}, fmt::format("there is no {} that holds{}", word, configuration()),
          fmt::format("write #pragma codetta {}", word == "grid" ? "grid(ceil_div(n, 256), m)" : "block(256)"));
    CODETTA_TRY(const std::vector<Dim> given, list(*clause, 3));
    int64_t product = 1;
    for (size_t i = 0; i < 3; ++i) {
      dims[i] = i < given.size() ? given[i] : Dim::constant(1);
      const auto known = dims[i].as_constant();
      if (known && *known <= 0 && !(*known == 0 && launches_nothing()))
        return wrong(clause->span, fmt::format("dim {} of the {} is {}{}", i, word, *known, configuration()),
                     "use expressions that are at least 1 where there is work");
      product = known && product <= most_threads ? product * std::min(*known, most_threads + 1) : product;
    }
    if (word == "block" && product > most_threads)
      return wrong(
          clause->span,
          fmt::format("a block of {} x {} x {} threads", dims[0].to_string(), dims[1].to_string(), dims[2].to_string()),
          fmt::format("blocks have up to {} threads", most_threads));
    return {};
  }
  // No result can have elements, so that nothing is ever launched.
  [[nodiscard]] bool launches_nothing() const {
    return std::none_of(arguments_.begin(), arguments_.end(), [](const package::Argument& argument) {
      return argument.is_output && std::none_of(argument.shape.begin(), argument.shape.end(),
                                                [](const Dim& size) { return size.as_constant() == 0; });
    });
  }
  Result<void> window(package::LaunchOptions& o) const {
    CODETTA_TRY(const Clause* clause, chosen("window"));
    if (clause == nullptr) return {};
    CODETTA_CHECK_OK(of_nvidia(*clause, "windows of L2"));
    const std::string help = "write window(x), or window(x, bytes = 4 * n, percent = 60)";
    const std::vector<Token>& in = clause->inside;
    if (in.empty()) return wrong(clause->span, "the window names no tensor", help);
    size_t at = 0;
    package::L2Window made;
    CODETTA_TRY(const size_t argument, memory(in, at));
    made.argument = static_cast<uint32_t>(argument);
    made.bytes = Dim::constant(dtype_size(arguments_[argument].dtype));
    for (const Dim& size : arguments_[argument].shape) made.bytes = made.bytes * size;
    while (in[at].kind != Token::Kind::End) {
      if (in[at].text != ",") return wrong(in[at].span, "a comma is expected here", help);
      const Token name = in[++at];
      if (in[at].kind == Token::Kind::End || in[at + 1].text != "=")
        return wrong(name.span, "bytes or percent and a value are expected here", help);
      at += 2;
      if (name.text == "bytes") {
        CODETTA_TRY(made.bytes, expression(in, at, 0));
      } else if (name.text == "percent") {
        CODETTA_TRY(const int64_t percent, constant(in, at, "the part of accesses"));
        if (percent < 1 || percent > 100)
          return wrong(name.span, fmt::format("{} percent of accesses", percent), "use 1 to 100");
        made.per_mille = static_cast<int32_t>(percent * 10);
      } else {
        return wrong(name.span, fmt::format("a window has bytes and percent, no {}", name.text), help);
      }
    }
    CODETTA_CHECK_OK(sound(made.bytes, in[0]));
    o.window = made;
    return {};
  }

  // ---- tensor maps
  // Of each tensor the clause that holds with most conditions.
  Result<void> maps(package::LaunchOptions& o) const {
    std::vector<std::pair<const Clause*, package::TensorMap>> met;
    for (const Clause& clause : clauses_) {
      if (clause.word != "map" && clause.word != "im2col") continue;
      CODETTA_TRY(const bool holds_here, holds(clause));
      if (!holds_here) continue;
      CODETTA_CHECK_OK(of_nvidia(clause, "tensor maps"));
      if (!target_.sm_90)
        return wrong(clause.span,
                     fmt::format("tensor maps need compute capability 9.0, and the target is {}", target_.arch),
                     fmt::format("compile for sm_90 or newer, or leave out {}", clause.word));
      CODETTA_TRY(package::TensorMap made, map(clause));
      met.emplace_back(&clause, std::move(made));
    }
    std::vector<size_t> most;  // conditions, of each map that is taken
    for (const auto& [clause, made] : met) {
      size_t at = 0;
      while (at < o.maps.size() && o.maps[at].argument != made.argument) ++at;
      if (at == o.maps.size()) {
        o.maps.push_back(made);
        most.push_back(clause->conditions);
      } else if (clause->conditions > most[at]) {
        o.maps[at] = made;
        most[at] = clause->conditions;
      }
    }
    for (const auto& [clause, made] : met) {
      size_t at = 0;
      while (o.maps[at].argument != made.argument) ++at;
      if (clause->conditions == most[at] && !(o.maps[at] == made))
        return wrong(clause->span, fmt::format("two maps of {} hold{}", names_[made.argument], configuration()),
                     "a kernel takes one map of a tensor; let one have a further condition");
    }
    return {};
  }
  // Dims are written as the tensor's are, and kept from the fastest.
  Result<package::TensorMap> map(const Clause& clause) const {
    const bool im2col = clause.word == "im2col";
    const std::string help = im2col ? "write im2col(x, filter(3, 3), padding(1, 1), channels(64), pixels(128))"
                                    : "write map(x, box(64, 32), swizzle(64))";
    const std::vector<Token>& in = clause.inside;
    if (in.empty()) return wrong(clause.span, "the map names no tensor", help);
    size_t at = 0;
    CODETTA_TRY(const size_t argument, memory(in, at));
    package::TensorMap made;
    made.kind = im2col ? package::TensorMap::Kind::Im2col : package::TensorMap::Kind::Tiled;
    made.argument = static_cast<uint32_t>(argument);
    const size_t rank = arguments_[argument].shape.size(), spatial = rank > 2 ? rank - 2 : 0;
    std::map<std::string_view, std::vector<int64_t>> given;
    while (in[at].kind != Token::Kind::End) {
      if (in[at].text != ",") return wrong(in[at].span, "a comma is expected here", help);
      const Token word = in[++at];
      ++at;
      if (word.text == "nan") {
        made.nan_outside = true;
        continue;
      }
      struct Known {
        std::string_view name;
        size_t count;
        bool tiled, im2col;
      };
      const Known known[] = {{"box", rank, true, false},         {"steps", rank, true, false},
                             {"swizzle", 1, true, true},         {"interleave", 1, true, true},
                             {"promotion", 1, true, true},       {"filter", spatial, false, true},
                             {"padding", spatial, false, true},  {"padding_after", spatial, false, true},
                             {"dilation", spatial, false, true}, {"stride", spatial, false, true},
                             {"channels", 1, false, true},       {"pixels", 1, false, true}};
      const auto* found = std::find_if(std::begin(known), std::end(known), [&](const Known& k) {
        return k.name == word.text && (im2col ? k.im2col : k.tiled);
      });
      if (found == std::end(known))
        return wrong(word.span, fmt::format("{} is nothing of {}", word.text, clause.word), help);
      std::vector<int64_t>& values = given[found->name];
      if (!values.empty()) return wrong(word.span, fmt::format("{} is said twice", word.text), help);
      CODETTA_CHECK_OK(expect(in, at, "("));
      for (;; ++at) {
        CODETTA_TRY(const int64_t value, constant(in, at, "what is said of a map"));
        if (value < -(1 << 20) || value > 1 << 20)
          return wrong(word.span, fmt::format("{} is out of all bounds", value), help);
        if (value < 1 && (word.text == "filter" || word.text == "dilation"))
          return wrong(word.span,
                       fmt::format("{} is {}; it is 1 at least, as only padding may be negative", word.text, value),
                       help);
        values.push_back(value);
        if (in[at].text != ",") break;
      }
      CODETTA_CHECK_OK(expect(in, at, ")"));
      if (values.size() != found->count)
        return wrong(
            word.span,
            fmt::format("{} has {} values, and {} wants {}", word.text, values.size(), names_[argument], found->count),
            help);
      std::reverse(values.begin(), values.end());
    }
    const auto of = [&](std::string_view name, size_t i, int64_t otherwise) {
      const auto found = given.find(name);
      return static_cast<int32_t>(found == given.end() ? otherwise : found->second[i]);
    };
    for (size_t d = 0; d < rank && !im2col; ++d) made.box.push_back(of("box", d, 0));
    for (size_t d = 0; d < rank && given.contains("steps"); ++d) made.element_strides.push_back(of("steps", d, 1));
    for (size_t i = 0; i < spatial && im2col; ++i) {
      // A filter's first tap goes from -padding on; its last position is such that its last tap is within the padding
      // behind the tensor: size - 1 + padding - dilation * (filter - 1).
      const int64_t before = of("padding", i, 0), behind = of("padding_after", i, before);
      const int64_t last = behind - int64_t{of("dilation", i, 1)} * (int64_t{of("filter", i, 1)} - 1);
      if (last < INT32_MIN)
        return wrong(clause.span, fmt::format("a corner of dim {} is {}, beyond 32 bits", rank - 2 - i, last),
                     "use a smaller filter, or a smaller dilation");
      made.lower_corner.push_back(static_cast<int32_t>(-before));
      made.upper_corner.push_back(static_cast<int32_t>(last));
    }
    if (given.contains("stride")) {
      made.element_strides.assign(rank, 1);
      for (size_t i = 0; i < spatial; ++i) made.element_strides[i + 1] = of("stride", i, 1);
    }
    made.channels = of("channels", 0, 0);
    made.pixels = of("pixels", 0, 0);
    const auto choice = [&](std::string_view name, std::initializer_list<int32_t> bytes, int32_t otherwise) {
      const auto* found = std::find(bytes.begin(), bytes.end(), of(name, 0, otherwise));
      return found == bytes.end() ? -1 : static_cast<int>(found - bytes.begin());
    };
    const int swizzle = choice("swizzle", {0, 32, 64, 128}, 0), interleave = choice("interleave", {0, 16, 32}, 0),
              promotion = choice("promotion", {0, 64, 128, 256}, 128);
    if (swizzle < 0 || interleave < 0 || promotion < 0)
      return wrong(clause.span, "it has a swizzle, an interleave or a promotion that does not exist",
                   "swizzle(0), 32, 64 or 128; interleave(0), 16 or 32; promotion(0), 64, 128 or 256: bytes");
    made.swizzle = static_cast<package::Swizzle>(swizzle);
    made.interleave = static_cast<package::Interleave>(interleave);
    made.promotion = static_cast<package::L2Promotion>(promotion);
    return sound_map(clause, made, argument);
  }
  // What no tensor could change; the rest is looked at when there is one.
  Result<package::TensorMap> sound_map(const Clause& clause, package::TensorMap made, size_t argument) const {
    namespace host = codetta::gpu::host;
    const std::vector<Dim>& shape = arguments_[argument].shape;
    host::UserMapView view{};
    view.name = names_[argument].c_str();
    view.dtype = static_cast<codetta::gpu::u8>(arguments_[argument].dtype);
    view.rank = static_cast<codetta::gpu::i32>(shape.size());
    constexpr int64_t any_size = int64_t{1} << 31;
    for (size_t d = 0; d < shape.size() && d < std::size(view.size); ++d) {
      view.size[d] = std::max<int64_t>(shape[shape.size() - 1 - d].as_constant().value_or(any_size), 1);
      view.stride[d] = d == 0 ? 1 : 32;
    }
    host::Trouble trouble;
    host::UserMapArguments call;
    if (!host::user_map(package::plain_map<host::UserMap>(made, shape.size()), view, call, trouble))
      return wrong(clause.span, trouble.reason, trouble.help);
    return made;
  }

  const UserSource& user_;
  const LaunchTarget& target_;
  std::vector<Clause> clauses_;
};

}  // namespace

Result<BoundLaunch> bind_launch(const UserSource& source, const std::vector<package::Argument>& arguments,
                                const LaunchTarget& target, const std::function<Dim(size_t, int32_t)>& stride,
                                std::optional<size_t> hook) {
  return Launch(source, arguments, target, stride, hook).bind();
}

Result<std::vector<UserConfiguration>> bind_configurations(const UserSource& source) {
  static const std::vector<package::Argument> none;
  return Launch(
             source, none, {}, [](size_t, int32_t) { return Dim(); }, std::nullopt)
      .configurations_alone();
}

}  // namespace codetta::plan

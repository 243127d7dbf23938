// SPDX-License-Identifier: Apache-2.0
// Parameters that a caller has not given: their shapes, and which of them pick elements by their values.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "driver/program_arguments.hpp"
#include "ir/analyses.hpp"
#include "ir/graph.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"
#include "types/op.hpp"
#include "types/symbol_source.hpp"

namespace codetta::driver {
namespace {

using Values = std::map<std::string, int64_t>;

// The input whose elements `node` holds, moved around at most.
std::optional<ir::NodeId> elements_of(const ir::Graph& graph, ir::NodeId node) {
  for (;;) {
    switch (graph.node(node).op) {
      case types::Op::input:
        return node;
      case types::Op::cast:
      case types::Op::reshape:
      case types::Op::permute:
      case types::Op::broadcast:
      case types::Op::slice:
      case types::Op::to_device:
        node = graph.operands(node)[0];
        break;
      default:
        return std::nullopt;
    }
  }
}

int32_t dim_of(const ir::Attr& attr) {
  if (const auto* take = std::get_if<ir::TakeAttr>(&attr)) return take->dim;
  if (const auto* put = std::get_if<ir::IndexPutAttr>(&attr)) return put->dim;
  if (const auto* scatter = std::get_if<ir::ScatterAttr>(&attr)) return scatter->dim;
  return -1;
}

// What reading an input as an index, or as the right factor of a product, says about it.
struct Uses {
  std::map<ir::NodeId, int64_t> limits;   // the smallest dim that its values are indices of, or what they size, and 1
  std::map<ir::NodeId, int64_t> leasts;   // what they size is this at least
  std::map<ir::NodeId, int64_t> lengths;  // K of the first product that multiplies by it
};

// The sizes in the check that are drawn, too; with a bit each the corners of where they lie can be counted.
std::vector<std::string> others_in(const ir::SizeCheck& check, const std::string& symbol, const Values& values) {
  constexpr size_t most_corners = 8;
  std::set<std::string> found;
  for (const ir::Dim* dim : {&check.value, &check.least, &check.most}) {
    for (std::string& other : dim->symbols()) {
      if (other != symbol && values.count(other) == 0) found.insert(std::move(other));
    }
  }
  if (found.size() > most_corners) return {};
  return {found.begin(), found.end()};
}

// A value that is a size is at most what it bounds, and where two bound a slice the first is in its lower half; one
// that bounds nothing is small, unless no small one is allowed. Of other checks of the size alone the values are tried.
// In arithmetic of several, as x[a:a + b], each is drawn up to a number with which the check holds, whatever the others
// up to that number are.
void limit_size(const ir::Graph& graph, const std::string& symbol, const Values& values, int64_t& limit,
                int64_t& least) {
  constexpr int64_t small = 16, most_tried = 1024;
  const auto at_most = [&](int64_t most) { limit = limit == 0 ? most + 1 : std::min(limit, most + 1); };
  const std::vector<ir::SizeCheck> checks = ir::size_checks(graph);
  for (const ir::SizeCheck& check : checks) {
    const auto most = check.most.evaluate(values);
    if (!most || *most == INT64_MAX) continue;
    const bool two = check.least.as_symbol().has_value() && check.value.as_symbol().has_value();
    if (check.value.as_symbol() == symbol) {
      at_most(*most);
      if (two && values.count(std::string(*check.least.as_symbol())) == 0) least = std::max(least, *most / 2);
    } else if (two && check.least.as_symbol() == symbol) {
      at_most(*most / 2);
    }
  }
  bool bounded = limit != 0;
  if (!bounded) limit = small + 1;
  for (const ir::SizeCheck& check : checks) {
    Values with = values;
    const auto holds = [&] {
      const auto v = check.value.evaluate(with), from = check.least.evaluate(with), to = check.most.evaluate(with);
      return !v || !from || !to || (*from <= *v && *v <= *to);
    };
    const auto allowed = [&](int64_t value) {
      with[symbol] = value;
      return holds();
    };
    // One that is bounded by a size, or bounds one, is limited above.
    const bool alone = check.value.as_symbol() == symbol || (check.value.as_symbol() && check.least.as_symbol());
    const std::vector<std::string> others = alone ? std::vector<std::string>() : others_in(check, symbol, values);
    if (!others.empty()) {
      const auto whatever = [&](int64_t most) {
        bool all = true;
        for (size_t corner = 0; all && corner >> others.size() == 0; ++corner) {
          for (size_t i = 0; i < others.size(); ++i) with[others[i]] = (corner >> i & 1) != 0 ? most : 0;
          all = allowed(least) && allowed(most);
        }
        return all;
      };
      int64_t most = least;
      while (most + 1 < std::min(limit, least + most_tried) && whatever(most + 1)) ++most;
      limit = most + 1;
      continue;
    }
    int64_t end = std::min(limit, least + most_tried);
    int64_t first = least;
    while (first < end && !allowed(first)) ++first;
    if (first == end && !bounded) {
      while (first < least + most_tried && !allowed(first)) ++first;
      if (first < least + most_tried) end = limit = first + small + 1;
    }
    bounded = true;
    if (first >= end) continue;  // the run says why none will do
    int64_t last = first + 1;
    while (last < end && allowed(last)) ++last;
    least = first;
    if (last < end || end < limit) limit = last;
  }
}

using Outer = std::map<ir::NodeId, ir::NodeId>;  // by input of a graph, the program's whose elements it holds

// Integers of the text, whatever moves them.
std::optional<int64_t> integer_of(const ir::Graph& graph, ir::NodeId node) {
  while (graph.node(node).op == types::Op::cast || graph.node(node).op == types::Op::broadcast ||
         graph.node(node).op == types::Op::reshape)
    node = graph.operands(node)[0];
  const auto* literal = std::get_if<ir::LiteralAttr>(&graph.attr(node));
  constexpr int64_t large = int64_t{1} << 40;  // sums with it have 64 bits
  if (literal == nullptr || literal->kind != ir::LiteralAttr::Kind::Int) return std::nullopt;
  return literal->i > -large && literal->i < large ? std::optional(literal->i) : std::nullopt;
}

// What values have to lie in, down to the inputs that are drawn for it: through what hands elements on as they are or
// chooses between them, bounds, and arithmetic with integers of the text. What else is made of inputs says nothing of
// them.
class Range {
 public:
  Range(const ir::Graph& graph, const Outer& outer, Uses& uses) : graph_(graph), outer_(outer), uses_(uses) {}

  // The elements of `node` are to lie in [low, high).
  void draw(ir::NodeId node, int64_t low, int64_t high) {
    if (low < high) add(node, low, high);
  }

  // Operands stand before what reads them: from the last node on, each is followed once, with all that is wanted of it.
  void spread() {
    while (!wanted_.empty()) {
      const auto last = std::prev(wanted_.end());
      const auto [node, ends] = *last;
      wanted_.erase(last);
      follow(node, ends.low, ends.high);
    }
  }

 private:
  static constexpr int64_t most_divided = int64_t{1} << 31;  // products of two have 64 bits
  struct Ends {
    int64_t low = 0;
    int64_t high = 0;
  };
  // The quotient, at least.
  static int64_t rounded_up(int64_t value, int64_t by) { return value / by + (value % by > 0 ? 1 : 0); }

  // Of several ranges the tightest ends; one without a number from 0 on says nothing where another one has some.
  void add(ir::NodeId node, int64_t low, int64_t high) {
    const auto [at, fresh] = wanted_.emplace(node, Ends{low, high});
    if (fresh) return;
    Ends& ends = at->second;
    if ((high > 0) != (ends.high > 0)) {
      if (high > 0) ends = {low, high};
      return;
    }
    ends = {std::max(ends.low, low), std::min(ends.high, high)};
  }

  void follow(ir::NodeId node, int64_t low, int64_t high) {
    const auto operands = graph_.operands(node);
    const auto each = [&](std::initializer_list<size_t> which) {
      for (const size_t i : which) add(operands[i], low, high);
    };
    switch (graph_.node(node).op) {
      case types::Op::input:
        if (const auto at = outer_.find(node); at != outer_.end()) limit(at->second, low, high);
        break;
      case types::Op::cast:
      case types::Op::reshape:
      case types::Op::permute:
      case types::Op::broadcast:
      case types::Op::slice:
      case types::Op::split:
      case types::Op::to_device:
      case types::Op::clamp:
      case types::Op::relu:
      case types::Op::take:
      case types::Op::gather:
        each({0});
        break;
      case types::Op::minimum:
      case types::Op::maximum:
        each({0, 1});
        break;
      case types::Op::where:
        each({1, 2});
        break;
      case types::Op::index_put:
      case types::Op::scatter:
        each({0, 2});
        break;
      case types::Op::join:
        for (const ir::NodeId part : operands) add(part, low, high);
        break;
      case types::Op::add:
      case types::Op::sub:
        if (const auto by = integer_of(graph_, operands[1])) {
          const int64_t moved = graph_.node(node).op == types::Op::add ? -*by : *by;
          add(operands[0], low + moved, high + moved);
        } else if (const auto first = integer_of(graph_, operands[0]);
                   first && graph_.node(node).op == types::Op::add) {
          add(operands[1], low - *first, high - *first);
        } else if (first) {  // 5 - x
          add(operands[1], *first - high + 1, *first - low + 1);
        }
        break;
      case types::Op::mul:
        for (const size_t side : {size_t{0}, size_t{1}}) {
          if (const auto by = integer_of(graph_, operands[side]); by && *by > 0)
            add(operands[1 - side], rounded_up(low, *by), rounded_up(high, *by));
        }
        break;
      case types::Op::floordiv:
        if (const auto by = integer_of(graph_, operands[1]);
            by && *by > 0 && low > -most_divided && high < most_divided && *by < most_divided)
          add(operands[0], low * *by, high * *by);
        break;
      default:
        break;
    }
  }

  void limit(ir::NodeId input, int64_t low, int64_t high) {
    if (high <= 0) return;
    const auto [at, fresh] = uses_.limits.emplace(input, high);
    if (!fresh) at->second = std::min(at->second, high);
    const auto [least, first] = uses_.leasts.emplace(input, low);
    if (!first) least->second = std::max(least->second, low);
  }

  const ir::Graph& graph_;
  const Outer& outer_;
  Uses& uses_;
  std::map<ir::NodeId, Ends> wanted_;
};

// The size along which the value counts positions, if it is nothing but that.
std::optional<int64_t> positions_of(const ir::Graph& graph, ir::NodeId node, const Values& values) {
  while (graph.node(node).op == types::Op::cast || graph.node(node).op == types::Op::broadcast ||
         graph.node(node).op == types::Op::reshape || graph.node(node).op == types::Op::permute)
    node = graph.operands(node)[0];
  if (types::op_info(graph.node(node).op).rule != types::OpRule::index) return std::nullopt;
  std::optional<int64_t> size = 1;
  for (const ir::Dim& dim : graph.type(node).shape) {
    const auto one = dim.evaluate(values);
    size = one && size ? std::optional(std::max(*size, *one)) : std::nullopt;
  }
  return size;
}

// Integers that are compared with positions, as the lengths of a mask are, are such positions; or, of an order, the
// number of all of them: else most masks would take everything or nothing.
void draw_compared(const ir::Graph& graph, ir::NodeId node, const Values& values, Range& range) {
  if (types::op_info(graph.node(node).op).rule != types::OpRule::compare) return;
  const bool equality = graph.node(node).op == types::Op::eq || graph.node(node).op == types::Op::ne;
  const auto operands = graph.operands(node);
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const auto size = positions_of(graph, operands[side], values);
    if (!size || *size == 0) continue;
    const bool first_below = graph.node(node).op == (side == 0 ? types::Op::lt : types::Op::gt);
    range.draw(operands[1 - side], first_below ? 1 : 0, equality ? *size : *size + 1);
  }
}

// `outer`: by input of `graph`, the input of the program whose elements it holds. Branches and loops are looked into;
// what a loop changes is taken to stay what it began with.
void collect_uses(const ir::Graph& graph, const Outer& outer, const Values& values, Uses& uses) {
  Range range(graph, outer, uses);
  const auto program_input = [&](ir::NodeId node) -> std::optional<ir::NodeId> {
    const auto input = elements_of(graph, node);
    const auto at = input ? outer.find(*input) : outer.end();
    return at == outer.end() ? std::nullopt : std::optional(at->second);
  };
  for (uint32_t n = 0; n < graph.size(); ++n) {
    const ir::NodeId id(n);
    const ir::Attr& attr = graph.attr(id);
    const auto operands = graph.operands(id);
    if (const int32_t dim = dim_of(attr); dim >= 0) {
      const auto size = graph.type(operands[0]).shape[static_cast<size_t>(dim)].evaluate(values);
      if (size) range.draw(operands[1], 0, *size);
    } else if (graph.node(id).op == types::Op::matmul) {
      const auto length = graph.type(operands[0]).shape.back().evaluate(values);
      const auto input = program_input(operands[1]);
      if (input && length) uses.lengths.emplace(*input, *length);
    } else if (const auto* size = std::get_if<ir::SizeAttr>(&attr)) {
      if (const auto input = program_input(operands[0]))
        limit_size(graph, size->symbol, values, uses.limits[*input], uses.leasts[*input]);
    } else {
      draw_compared(graph, id, values, range);
    }
    for (const ir::GraphRef& child : ir::children(attr)) {
      const size_t predicate = graph.node(id).op == types::Op::cond ? 1 : 0;
      std::map<ir::NodeId, ir::NodeId> inner;
      for (size_t i = 0; i < child->inputs().size(); ++i) {
        if (const auto input = program_input(operands[predicate + i])) inner.emplace(child->inputs()[i].node, *input);
      }
      collect_uses(*child, inner, values, uses);
    }
  }
  range.spread();
}

// Sizes that numbers of the caller's are, in the graph and inside of it.
void add_given_sizes(const ir::Graph& graph, const std::map<ir::NodeId, int64_t>& numbers, Values& values) {
  for (uint32_t n = 0; n < graph.size(); ++n) {
    const ir::NodeId id(n);
    const ir::Attr& attr = graph.attr(id);
    const auto operands = graph.operands(id);
    const auto number_of = [&](size_t operand) {
      const auto input = elements_of(graph, operands[operand]);
      return input ? numbers.find(*input) : numbers.end();
    };
    if (const auto* size = std::get_if<ir::SizeAttr>(&attr)) {
      if (const auto number = number_of(0); number != numbers.end() && number->second >= 0)
        values.emplace(size->symbol, number->second);
    }
    if (graph.node(id).op != types::Op::cond) continue;  // a loop may change what it carries
    for (const ir::GraphRef& child : ir::children(attr)) {
      std::map<ir::NodeId, int64_t> inner;
      for (size_t i = 0; i < child->inputs().size(); ++i) {
        if (const auto number = number_of(1 + i); number != numbers.end())
          inner.emplace(child->inputs()[i].node, number->second);
      }
      add_given_sizes(*child, inner, values);
    }
  }
}

// Of the given tensors first, then what the caller says.
Values values_of(const ir::Graph& graph, const std::vector<NamedArgument>& given, const SizeHints& sizes,
                 int64_t otherwise) {
  Values values;
  std::vector<std::pair<const types::Shape*, const TensorView*>> tensors;
  for (const ir::GraphInput& input : graph.inputs()) {
    const auto at =
        std::find_if(given.begin(), given.end(), [&](const NamedArgument& one) { return one.name == input.name; });
    const TensorView* tensor = at == given.end() ? nullptr : at->value.tensor();
    const auto& shape = graph.type(input.node).shape;
    if (tensor == nullptr || tensor->rank() != static_cast<int>(shape.size())) continue;
    tensors.emplace_back(&shape, tensor);
    for (size_t d = 0; d < shape.size(); ++d) {
      if (const auto symbol = shape[d].as_symbol())
        values.emplace(std::string(*symbol), tensor->size(static_cast<int>(d)));
    }
  }
  const auto value_of = [&](std::string_view symbol) -> std::optional<int64_t> {
    const auto known = values.find(std::string(symbol));
    return known == values.end() ? std::nullopt : std::optional(known->second);
  };
  // What no dim is alone: from sums such as n + 2. Where a size says none, the call itself does.
  const auto learn = [&] {
    const auto is_known = [&](std::string_view symbol) { return value_of(symbol).has_value(); };
    for (bool more = true; std::exchange(more, false);) {
      for (const auto& [shape, tensor] : tensors) {
        for (size_t d = 0; d < shape->size(); ++d) {
          const auto source = types::as_source((*shape)[d], is_known);
          const auto value =
              source ? types::value_from(*source, tensor->size(static_cast<int>(d)), value_of) : std::nullopt;
          if (value) more = values.emplace(source->symbol, *value).second || more;
        }
      }
    }
  };
  learn();
  values.insert(sizes.begin(), sizes.end());
  learn();  // what rests on sizes that the caller says
  for (const ir::GraphInput& input : graph.inputs()) {
    for (const ir::Dim& dim : graph.type(input.node).shape) {
      for (const std::string& symbol : dim.symbols()) values.emplace(symbol, otherwise);
    }
  }
  return values;
}

}  // namespace

Result<std::vector<ProgramInput>> missing_inputs(const ir::Graph& graph, const std::vector<NamedArgument>& given,
                                                 const SizeHints& sizes, int64_t otherwise) {
  CODETTA_CHECK_OK(check_known(graph, given));
  CODETTA_CHECK_OK(check_sizes(graph, sizes));
  Values values = values_of(graph, given, sizes, otherwise);
  std::map<ir::NodeId, int64_t> numbers;
  for (const ir::GraphInput& input : graph.inputs()) {
    const auto at =
        std::find_if(given.begin(), given.end(), [&](const NamedArgument& one) { return one.name == input.name; });
    const auto* number = at == given.end() ? nullptr : std::get_if<int64_t>(&at->value.value());
    if (number != nullptr) numbers.emplace(input.node, *number);
  }
  add_given_sizes(graph, numbers, values);
  std::map<ir::NodeId, ir::NodeId> inputs;
  for (const ir::GraphInput& input : graph.inputs()) inputs.emplace(input.node, input.node);
  Uses uses;
  collect_uses(graph, inputs, values, uses);
  std::vector<ProgramInput> missing;
  for (const ir::GraphInput& input : graph.inputs()) {
    if (std::any_of(given.begin(), given.end(), [&](const NamedArgument& one) { return one.name == input.name; }))
      continue;
    const ir::TensorType& type = graph.type(input.node);
    ProgramInput one;
    one.name = input.name;
    one.dtype = type.dtype;
    one.is_number = input.is_scalar;
    if (const auto limit = uses.limits.find(input.node); limit != uses.limits.end()) one.index_limit = limit->second;
    // What its type holds.
    if (const auto most = types::is_integer(one.dtype) ? types::max_int(one.dtype) : 0; most < INT64_MAX && most > 0)
      one.index_limit = std::min(one.index_limit, static_cast<int64_t>(most) + 1);
    if (const auto least = uses.leasts.find(input.node); least != uses.leasts.end())
      one.index_least =
          std::min(std::max(least->second, types::min_int(one.dtype)), std::max<int64_t>(one.index_limit - 1, 0));
    if (const auto length = uses.lengths.find(input.node); length != uses.lengths.end()) one.terms = length->second;
    for (const ir::Dim& dim : type.shape) {
      types::DimFault why{};
      const std::optional<int64_t> size = dim.evaluate(values, &why);
      if (!size || *size < 0) {
        return diag::error(diag::Code::symbol_conflict,
                           fmt::format("size {} of parameter {} cannot be", dim.to_string(), input.name))
            .at(graph.source(), graph.span(input.node))
            .reason(size ? fmt::format("it is {}", *size) : std::string(types::to_string(why)))
            .help("choose other sizes");
      }
      one.shape.push_back(*size);
    }
    missing.push_back(std::move(one));
  }
  return missing;
}

void wrap_integers(const TensorView& view, int64_t size, int64_t least) {
  if (types::is_float(view.dtype()) || types::is_bool(view.dtype())) return;
  auto* at = view.as<std::byte>();
  for (int64_t i = 0; i < view.element_count(); ++i, at += dtype_size(view.dtype())) {
    const int64_t value = types::load_i64(at, view.dtype()) % (size - least);
    types::store_i64(at, view.dtype(), least + (value < 0 ? value + size - least : value));
  }
}

}  // namespace codetta::driver

// SPDX-License-Identifier: Apache-2.0
// The text form of a graph; parse.cpp reads it back exactly.
#include "ir/print.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/text.hpp"

namespace codetta::ir {
namespace {

std::string numbers_text(const std::vector<int32_t>& numbers) { return fmt::format("[{}]", fmt::join(numbers, ", ")); }

std::string types_text(const std::vector<TensorType>& types) {
  std::vector<std::string> texts;
  for (const TensorType& type : types) texts.push_back(to_string(type));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

struct AttrText {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(const LiteralAttr& a) const { return " " + literal_text(a); }
  std::string operator()(const CastAttr& a) const { return fmt::format("({})", dtype_name(a.dtype)); }
  std::string operator()(const ReduceAttr& a) const { return fmt::format("(dims={})", numbers_text(a.dims)); }
  std::string operator()(const PermuteAttr& a) const { return fmt::format("(order={})", numbers_text(a.order)); }
  std::string operator()(const ReshapeAttr& a) const { return fmt::format("(shape={})", types::to_string(a.shape)); }
  std::string operator()(const SplitAttr& a) const {
    return fmt::format("(ways={}, part={}, dim={})", a.ways, a.part, a.dim);
  }
  std::string operator()(const JoinAttr& a) const {
    return fmt::format("(dim={}, interleave={})", a.dim, a.interleave);
  }
  std::string operator()(const MatmulAttr& a) const { return fmt::format("({})", dtype_name(a.accumulator)); }
  std::string operator()(const InputAttr&) const { return ""; }
  std::string operator()(const SliceAttr& a) const {
    return fmt::format("(dim={}, start={}, count={}, step={}{})", a.dim, a.start.to_string(), a.count.to_string(),
                       a.step, a.checked ? ", checked" : "");
  }
  std::string operator()(const TakeAttr& a) const { return fmt::format("(dim={})", a.dim); }
  std::string operator()(const IndexPutAttr& a) const {
    return fmt::format("(dim={}, accumulate={})", a.dim, a.accumulate);
  }
  std::string operator()(const ScatterAttr& a) const {
    return fmt::format("(dim={}, reduce={})", a.dim, to_string(a.reduce));
  }
  std::string operator()(const CondAttr&) const { return ""; }
  std::string operator()(const WhileAttr&) const { return ""; }
  std::string operator()(const ResultAttr& a) const { return fmt::format("(index={})", a.index); }
  std::string operator()(const ExternAttr& a) const {
    return fmt::format("(symbol=\"{}\", form={}, results={})", base::escape_c(a.symbol),
                       a.form == ExternForm::Out ? "out" : "alloc", types_text(a.results));
  }
  std::string operator()(const SizeAttr& a) const { return fmt::format("(symbol={})", a.symbol); }
  std::string operator()(const DeviceAttr& a) const { return fmt::format("(device={})", a.device); }
  std::string operator()(const UserKernelAttr& a) const {
    return fmt::format("(name=\"{}\", results={})", base::escape_c(a.name), types_text(a.results));
  }
};

// " then {", the graph two columns in, "} otherwise {", "}".
std::string block_text(const Attr& attr) {
  const std::vector<GraphRef> graphs = children(attr);
  if (graphs.size() != 2) return "";
  const bool loop = std::holds_alternative<WhileAttr>(attr);
  std::string text;
  for (size_t i = 0; i < 2; ++i) {
    text += fmt::format("{} {} {{\n", i == 0 ? "" : "}",
                        i == 0 ? (loop ? "condition" : "then")
                        : loop ? "body"
                               : "otherwise");
    const std::string inner = print(*graphs[i]);
    for (size_t at = 0; at < inner.size();) {
      const size_t end = inner.find('\n', at) + 1;
      text += "  ";
      text.append(inner, at, end - at);
      at = end;
    }
  }
  return text + "}";
}

std::string input_text(const GraphInput& input) {
  return fmt::format(" \"{}\"{}{}{}", base::escape_c(input.name), input.is_scalar ? " scalar" : "",
                     input.donated ? " donated" : "", input.device != 0 ? fmt::format(" on {}", input.device) : "");
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

struct Printer {
  const Graph& graph;
  std::string out;
  std::vector<diag::Span> lines;

  void line(std::string_view text) {
    const size_t first = std::min(text.find('\n'), text.size());  // of a node with blocks
    lines.push_back({static_cast<uint32_t>(out.size()), static_cast<uint32_t>(out.size() + first)});
    out += text;
    out += '\n';
  }

  void nodes() {
    for (size_t i = 0; i < graph.size(); ++i) {
      const NodeId id(i);
      const Node& node = graph.node(id);
      std::string text = fmt::format("%{}:{} = ", i, to_string(graph.type(id)));
      if (node.op == Op::input) {
        const auto* input = std::get_if<InputAttr>(&graph.attr(id));  // the verifier prints what is broken, too
        const bool declared = input != nullptr && input->parameter < graph.inputs().size();
        text += "input" + (declared ? input_text(graph.inputs()[input->parameter]) : " ?");
      } else {
        text += node_text(node.op, graph.operands(id), graph.attr(id));
      }
      line(text);
    }
  }

  void outputs() {
    for (const GraphOutput& output : graph.outputs()) {
      out += fmt::format("output \"{}\": {} = %{}\n", base::escape_c(output.name), dtype_name(output.dtype),
                         output.node.index());
    }
  }
};

}  // namespace

std::string_view to_string(ScatterReduce reduce) {
  switch (reduce) {
    case ScatterReduce::None:
      return "none";
    case ScatterReduce::Sum:
      return "sum";
    case ScatterReduce::Max:
      return "max";
    case ScatterReduce::Min:
      break;
  }
  return "min";
}

std::string literal_text(const LiteralAttr& literal) {
  switch (literal.kind) {
    case LiteralAttr::Kind::Bool:
      return literal.i != 0 ? "true" : "false";
    case LiteralAttr::Kind::Int:
      return std::to_string(literal.i);
    case LiteralAttr::Kind::Float:
      break;
  }
  if (std::isnan(literal.f)) return fmt::format("nan:{:#018x}", std::bit_cast<uint64_t>(literal.f));
  return base::format_real(literal.f);
}

std::string attr_text(const Attr& attr) { return std::visit(AttrText{}, attr); }

std::string node_text(Op op, std::span<const NodeId> operands, const Attr& attr) {
  std::string text(types::op_info(op).name);
  text += attr_text(attr);
  for (size_t i = 0; i < operands.size(); ++i) text += fmt::format("{}%{}", i == 0 ? " " : ", ", operands[i].index());
  return text + block_text(attr);
}

std::string print(const Graph& graph) {
  Printer printer{graph, {}, {}};
  printer.nodes();
  printer.outputs();
  return std::move(printer.out);
}

PrintedGraph print_with_lines(const Graph& graph, std::string_view extra) {
  Printer printer{graph, {}, {}};
  printer.nodes();
  if (!extra.empty()) printer.line(extra);
  printer.outputs();
  return {std::make_shared<diag::SourceText>("<graph>", std::move(printer.out)), std::move(printer.lines)};
}

diag::Span narrow(const diag::SourceRef& source, diag::Span span, std::string_view name) {
  if (!source || !span.known() || name.empty()) return span;
  const std::string_view text = source->text();
  const size_t end = std::min<size_t>(span.end, text.size());
  for (size_t at = text.find(name, span.begin); at != std::string_view::npos && at + name.size() <= end;
       at = text.find(name, at + 1)) {
    const bool starts = at == 0 || !is_word(text[at - 1]);
    const size_t after = at + name.size();
    if (starts && (after == text.size() || !is_word(text[after])))
      return {static_cast<uint32_t>(at), static_cast<uint32_t>(after)};
  }
  return span;
}

}  // namespace codetta::ir

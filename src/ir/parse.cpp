// SPDX-License-Identifier: Apache-2.0
// Reads the text form of a graph. The text is untrusted: every error has a place, and only graphs inside of graphs
// recurse, up to a limit.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "base/text.hpp"
#include "ir/print.hpp"
#include "ir/verify.hpp"

namespace codetta::ir {
namespace {

using diag::Code;
using diag::Span;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

class Parser {
 public:
  explicit Parser(const diag::SourceRef& source) : source_(source), text_(source->text()), builder_(source) {}

  Result<Graph> run() {
    CODETTA_TRY(Graph graph, graph_until('\0'));
    if (const std::optional<Violation> violation = find_violation(graph)) {
      const Span place =
          violation->node.valid() && violation->node.index() < graph.size() ? graph.span(violation->node) : Span{};
      return diag::error(Code::graph_text_invalid, violation->complaint.headline)
          .at(source_, place)
          .reason(violation->complaint.reason)
          .help("write the line as print() would; types and attributes follow from the operands");
    }
    return graph;
  }

 private:
  static constexpr int max_depth = 100;  // of graphs inside of graphs

  // Statements up to `end`, which is passed, or up to the end of the text.
  Result<Graph> graph_until(char end) {
    for (skip_blank_lines(); at_ < text_.size() && (end == '\0' || text_[at_] != end); skip_blank_lines()) {
      CODETTA_CHECK_OK(statement());
      blanks();
      if (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '#')
        return fail("the line should end here", "one node or output a line");
    }
    if (!has_output_) return fail("the text has no output", "end it with `output \"D\": f32 = %3`");
    if (end != '\0') CODETTA_CHECK_OK(expect(end));
    return std::move(builder_).finish();
  }

  // `then { ... }`: a graph of its own; the numbers outside mean nothing inside.
  Result<GraphRef> block(std::string_view name) {
    blanks();
    if (!accept_word(name)) return fail(fmt::format("expected `{} {{`", name), "print() shows the form of a block");
    CODETTA_CHECK_OK(expect('{'));
    if (depth_ == max_depth) return fail("blocks are nested too deeply", fmt::format("at most {} are read", max_depth));
    GraphBuilder builder(source_);
    std::unordered_map<int64_t, NodeId> nodes;
    bool has_output = false;
    const auto exchange = [&] {
      std::swap(builder, builder_);
      std::swap(nodes, nodes_);
      std::swap(has_output, has_output_);
    };
    ++depth_;
    exchange();
    Result<Graph> graph = graph_until('}');
    exchange();
    --depth_;
    if (!graph) return std::move(graph).error();
    return std::make_shared<const Graph>(*std::move(graph));
  }
  Result<Attr> blocks(Op op) {
    if (op == Op::cond) {
      CondAttr attr;
      CODETTA_TRY(attr.then, block("then"));
      CODETTA_TRY(attr.otherwise, block("otherwise"));
      return Attr(std::move(attr));
    }
    WhileAttr attr;
    CODETTA_TRY(attr.condition, block("condition"));
    CODETTA_TRY(attr.body, block("body"));
    return Attr(std::move(attr));
  }

  diag::ErrorBuilder fail_at(size_t begin, size_t end, std::string headline, std::string help) const {
    return diag::error(Code::graph_text, std::move(headline))
        .at(source_, {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)})
        .reason("a graph is text such as `%2:f32[m, n] = add %0, %1`")
        .help(std::move(help));
  }
  diag::ErrorBuilder fail(std::string headline, std::string help) const {
    return fail_at(at_, at_ + 1, std::move(headline), std::move(help));
  }

  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }
  void skip_blank_lines() {
    for (blanks(); at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '#'); blanks()) {
      if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        ++at_;
      }
    }
  }
  bool accept(char c) {
    blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Result<void> expect(char c) {
    if (accept(c)) return {};
    return fail(fmt::format("expected `{}`", c), "see docs/errors/E0160.md for the form of a line");
  }
  std::string_view word() {
    blanks();
    const size_t begin = at_;
    while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  bool accept_word(std::string_view expected) {
    const size_t saved = at_;
    if (word() == expected) return true;
    at_ = saved;
    return false;
  }

  Result<int64_t> integer() {
    blanks();
    const size_t begin = at_;
    if (at_ < text_.size() && text_[at_] == '-') ++at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    const std::optional<int64_t> value = base::parse_int64(text_.substr(begin, at_ - begin));
    if (!value) return fail_at(begin, at_ + 1, "expected an integer", "write a decimal number that fits 64 bits");
    return *value;
  }
  Result<int32_t> small_integer() {
    blanks();
    const size_t begin = at_;
    CODETTA_TRY(const int64_t value, integer());
    if (value < INT32_MIN || value > INT32_MAX)
      return fail_at(begin, at_, "number out of range", "it must fit 32 bits");
    return static_cast<int32_t>(value);
  }
  Result<int64_t> label() {
    CODETTA_CHECK_OK(expect('%'));
    return integer();
  }
  Result<NodeId> node_reference() {
    blanks();
    const size_t begin = at_;
    CODETTA_TRY(const int64_t number, label());
    const auto found = nodes_.find(number);
    if (found == nodes_.end())
      return fail_at(begin, at_, fmt::format("%{} is not defined above", number), "operands come before their users");
    return found->second;
  }
  Result<DType> dtype() {
    const size_t begin = (blanks(), at_);
    const std::string_view name = word();
    const std::optional<DType> found = dtype_from_name(name);
    if (!found)
      return fail_at(begin, std::max(at_, begin + 1), fmt::format("`{}` is not a dtype", name),
                     "such as f32, bf16, i8, bool");
    return *found;
  }

  // The inside of a string as base::escape_c writes it.
  Result<std::string> string() {
    CODETTA_CHECK_OK(expect('"'));
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') {
      if (text_[at_] != '\\') {
        out += text_[at_++];
        continue;
      }
      const std::string_view rest = text_.substr(at_ + 1, 3);
      const auto octal = [&](size_t i) {
        return i < rest.size() && rest[i] >= '0' && rest[i] <= '7' ? rest[i] - '0' : -1;
      };
      if (!rest.empty() && std::string_view("\"\\?nt").find(rest[0]) != std::string_view::npos) {
        out += rest[0] == 'n' ? '\n' : rest[0] == 't' ? '\t' : rest[0];
        at_ += 2;
      } else if (octal(0) >= 0 && octal(0) < 4 && octal(1) >= 0 && octal(2) >= 0) {
        out += static_cast<char>(octal(0) * 64 + octal(1) * 8 + octal(2));
        at_ += 4;
      } else {
        return fail("unknown escape in a name", "use \\\", \\\\, \\?, \\n, \\t or three octal digits");
      }
    }
    CODETTA_CHECK_OK(expect('"'));
    return out;
  }

  // Up to a comma or a closing bracket.
  Result<Dim> size() {
    blanks();
    const size_t begin = at_;
    for (int depth = 0; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
      if (depth == 0 && (text_[at_] == ',' || text_[at_] == ']' || text_[at_] == ')')) break;
      depth += text_[at_] == '(' ? 1 : text_[at_] == ')' ? -1 : 0;
    }
    types::DimSyntaxError error;
    const std::optional<Dim> dim = types::parse_dim(text_.substr(begin, at_ - begin), &error);
    if (!dim)
      return fail_at(begin + error.begin, begin + std::max(error.end, error.begin + 1),
                     "size cannot be read: " + error.reason, "such as 64, n, 2*n or n // 8");
    return *dim;
  }
  Result<std::vector<Dim>> shape() {
    CODETTA_CHECK_OK(expect('['));
    std::vector<Dim> dims;
    if (accept(']')) return dims;
    do {
      blanks();
      const size_t begin = at_;
      CODETTA_TRY(Dim dim, size());
      if (dims.size() == static_cast<size_t>(max_rank))
        return fail_at(begin, at_, "too many dims", fmt::format("a tensor has at most {}", max_rank));
      dims.push_back(std::move(dim));
    } while (accept(','));
    CODETTA_CHECK_OK(expect(']'));
    return dims;
  }
  Result<std::vector<TensorType>> types_list() {
    CODETTA_CHECK_OK(expect('['));
    std::vector<TensorType> types;
    if (accept(']')) return types;
    do {
      TensorType type;
      CODETTA_TRY(type.dtype, dtype());
      CODETTA_TRY(type.shape, shape());
      types.push_back(std::move(type));
    } while (accept(','));
    CODETTA_CHECK_OK(expect(']'));
    return types;
  }
  // One of `words`, by index.
  Result<size_t> choice(std::initializer_list<std::string_view> words) {
    blanks();
    const size_t begin = at_;
    const std::string_view said = word();
    const auto* const found = std::find(words.begin(), words.end(), said);
    if (found != words.end()) return static_cast<size_t>(found - words.begin());
    return fail_at(begin, std::max(at_, begin + 1), fmt::format("`{}` is not expected here", said),
                   fmt::format("write one of {}", fmt::join(words, ", ")));
  }
  Result<std::vector<int32_t>> numbers() {
    CODETTA_CHECK_OK(expect('['));
    std::vector<int32_t> out;
    if (accept(']')) return out;
    do {
      if (out.size() == static_cast<size_t>(max_rank))
        return fail("too many dims", fmt::format("a tensor has at most {}", max_rank));
      CODETTA_TRY(const int32_t number, small_integer());
      out.push_back(number);
    } while (accept(','));
    CODETTA_CHECK_OK(expect(']'));
    return out;
  }
  Result<void> key(std::string_view name) {
    blanks();
    if (!accept_word(name))
      return fail(fmt::format("expected `{}=`", name), "attributes are written in the order that print() uses");
    return expect('=');
  }
  Result<bool> boolean() {
    if (accept_word("true")) return true;
    if (accept_word("false")) return false;
    return fail("expected true or false", "write true or false");
  }

  Result<LiteralAttr> literal() {
    blanks();
    const size_t begin = at_;
    using Kind = LiteralAttr::Kind;
    while (at_ < text_.size() &&
           (is_name_char(text_[at_]) || std::string_view("+-.:").find(text_[at_]) != std::string_view::npos))
      ++at_;
    const std::string_view number = text_.substr(begin, at_ - begin);
    if (number == "true" || number == "false") return LiteralAttr{Kind::Bool, number == "true", 0};
    if (number.starts_with("nan:0x") && number.size() == 22) {
      uint64_t bits = 0;
      bool hex = true;
      for (const char c : number.substr(6)) {
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        hex = hex && digit >= 0;
        bits = bits << 4 | static_cast<uint64_t>(digit & 15);
      }
      const auto value = std::bit_cast<double>(bits);
      if (hex && value != value) return LiteralAttr{Kind::Float, 0, value};
    } else if (const std::optional<int64_t> i = base::parse_int64(number)) {
      return LiteralAttr{Kind::Int, *i, 0};
    } else if (const std::optional<double> f = base::parse_double(number); f && *f == *f) {
      return LiteralAttr{Kind::Float, 0, *f};
    }
    return fail_at(begin, std::max(at_, begin + 1), "literal cannot be read",
                   "such as 2, 0.5, 1e-3, -inf, true, nan:0x7ff8000000000000");
  }

  Result<void> key_after_comma(std::string_view name) {
    CODETTA_CHECK_OK(expect(','));
    return key(name);
  }

  // What stands in parentheses behind the names of ops that only programs have.
  Result<Attr> program_attribute(Op op) {
    if (op == Op::call_extern) {
      ExternAttr attr;
      CODETTA_CHECK_OK(key("symbol"));
      CODETTA_TRY(attr.symbol, string());
      CODETTA_CHECK_OK(key_after_comma("form"));
      CODETTA_TRY(const size_t form, choice({"out", "alloc"}));
      attr.form = static_cast<ExternForm>(form);
      CODETTA_CHECK_OK(key_after_comma("results"));
      CODETTA_TRY(attr.results, types_list());
      return Attr(std::move(attr));
    }
    if (op == Op::user_kernel) {
      UserKernelAttr attr;
      CODETTA_CHECK_OK(key("name"));
      CODETTA_TRY(attr.name, string());
      CODETTA_CHECK_OK(key_after_comma("results"));
      CODETTA_TRY(attr.results, types_list());
      return Attr(std::move(attr));
    }
    if (op == Op::size_value) {
      CODETTA_CHECK_OK(key("symbol"));
      return Attr(SizeAttr{std::string(word())});
    }
    if (op == Op::to_device) {
      CODETTA_CHECK_OK(key("device"));
      CODETTA_TRY(const int32_t device, small_integer());
      return Attr(DeviceAttr{static_cast<uint32_t>(device)});
    }
    if (op == Op::result) {
      CODETTA_CHECK_OK(key("index"));
      CODETTA_TRY(const int32_t index, small_integer());
      return Attr(ResultAttr{index});
    }
    CODETTA_CHECK_OK(key("dim"));
    CODETTA_TRY(const int32_t dim, small_integer());
    if (op == Op::slice) {
      SliceAttr attr;
      attr.dim = dim;
      CODETTA_CHECK_OK(key_after_comma("start"));
      CODETTA_TRY(attr.start, size());
      CODETTA_CHECK_OK(key_after_comma("count"));
      CODETTA_TRY(attr.count, size());
      CODETTA_CHECK_OK(key_after_comma("step"));
      CODETTA_TRY(attr.step, integer());
      if (accept(',')) {
        CODETTA_TRY(const size_t checked, choice({"checked"}));
        attr.checked = checked == 0;
      }
      return Attr(std::move(attr));
    }
    if (op == Op::index_put) {
      CODETTA_CHECK_OK(key_after_comma("accumulate"));
      CODETTA_TRY(const bool accumulate, boolean());
      return Attr(IndexPutAttr{dim, accumulate});
    }
    if (op == Op::scatter) {
      CODETTA_CHECK_OK(key_after_comma("reduce"));
      CODETTA_TRY(const size_t reduce, choice({"none", "sum", "max", "min"}));
      return Attr(ScatterAttr{dim, static_cast<ScatterReduce>(reduce)});
    }
    return Attr(TakeAttr{dim});
  }

  Result<Attr> attribute(Op op) {
    const types::OpRule rule = types::op_info(op).rule;
    if (op == Op::literal) {
      CODETTA_TRY(const LiteralAttr value, literal());
      return Attr(value);
    }
    const bool has_one = rule == types::OpRule::index || rule == types::OpRule::cast || rule == types::OpRule::reduce ||
                         rule == types::OpRule::layout || rule == types::OpRule::matmul ||
                         rule == types::OpRule::indexed || rule == types::OpRule::external || op == Op::result ||
                         op == Op::size_value || op == Op::to_device;
    if (!has_one) return Attr();
    CODETTA_CHECK_OK(expect('('));
    Attr attr;
    if (types::op_info(op).program_only() && op != Op::broadcast) {
      CODETTA_TRY(attr, program_attribute(op));
      CODETTA_CHECK_OK(expect(')'));
      return attr;
    }
    if (rule == types::OpRule::cast) {
      CODETTA_TRY(const DType to, dtype());
      attr = CastAttr{to};
    } else if (rule == types::OpRule::matmul) {
      CODETTA_TRY(const DType accumulator, dtype());
      attr = MatmulAttr{accumulator};
    } else if (rule == types::OpRule::reduce) {
      CODETTA_CHECK_OK(key("dims"));
      CODETTA_TRY(std::vector<int32_t> dims, numbers());
      attr = ReduceAttr{ReduceAxis::Dims, std::move(dims)};
    } else if (op == Op::permute) {
      CODETTA_CHECK_OK(key("order"));
      CODETTA_TRY(std::vector<int32_t> order, numbers());
      attr = PermuteAttr{std::move(order)};
    } else if (op == Op::split) {
      SplitAttr split;
      CODETTA_CHECK_OK(key("ways"));
      CODETTA_TRY(split.ways, small_integer());
      CODETTA_CHECK_OK(expect(','));
      CODETTA_CHECK_OK(key("part"));
      CODETTA_TRY(split.part, small_integer());
      CODETTA_CHECK_OK(expect(','));
      CODETTA_CHECK_OK(key("dim"));
      CODETTA_TRY(split.dim, small_integer());
      attr = split;
    } else if (op == Op::join) {
      JoinAttr join;
      CODETTA_CHECK_OK(key("dim"));
      CODETTA_TRY(join.dim, small_integer());
      CODETTA_CHECK_OK(expect(','));
      CODETTA_CHECK_OK(key("interleave"));
      CODETTA_TRY(join.interleave, boolean());
      attr = join;
    } else {
      CODETTA_CHECK_OK(key("shape"));
      CODETTA_TRY(std::vector<Dim> sizes, shape());
      attr = ReshapeAttr{std::move(sizes)};
    }
    CODETTA_CHECK_OK(expect(')'));
    return attr;
  }

  Result<void> output() {
    CODETTA_TRY(std::string name, string());
    CODETTA_CHECK_OK(expect(':'));
    CODETTA_TRY(const DType stored, dtype());
    CODETTA_CHECK_OK(expect('='));
    CODETTA_TRY(const NodeId node, node_reference());
    builder_.add_output(std::move(name), node, stored);
    has_output_ = true;
    return {};
  }

  Result<void> statement() {
    const size_t begin = at_;
    if (accept_word("output")) return output();
    CODETTA_TRY(const int64_t number, label());
    const size_t label_end = at_;
    CODETTA_CHECK_OK(expect(':'));
    TensorType type;
    type.weak = accept_word("weak");
    CODETTA_TRY(type.dtype, dtype());
    CODETTA_TRY(type.shape, shape());
    CODETTA_CHECK_OK(expect('='));
    blanks();
    const size_t op_begin = at_;
    const std::string_view name = word();
    const types::OpInfo* info = types::find_op(name);
    if (info == nullptr)
      return fail_at(op_begin, std::max(at_, op_begin + 1), fmt::format("`{}` is not an op", name),
                     "use a name of types/ops.def, such as add, relu or reduce_sum");
    if (nodes_.contains(number))
      return fail_at(begin, label_end, fmt::format("%{} is defined twice", number), "number the nodes in order");

    if (info->op == Op::input) {
      CODETTA_TRY(std::string input, string());
      const bool scalar = accept_word("scalar");
      const bool donated = !scalar && accept_word("donated");
      uint32_t device = 0;
      blanks();
      const size_t place = at_;
      if (!scalar && accept_word("on")) {
        CODETTA_TRY(const int32_t given, small_integer());
        device = static_cast<uint32_t>(given);
        if (device >= max_devices)
          return fail_at(place, at_, fmt::format("there is no device {}", given),
                         fmt::format("count devices from 0, to {} at most", max_devices - 1));
      }
      nodes_[number] = builder_.add_input(std::move(input), std::move(type), scalar, line_span(begin));
      if (donated) builder_.donate(nodes_[number]);
      builder_.lay_on(nodes_[number], device);
      return {};
    }
    CODETTA_TRY(Attr attr, attribute(info->op));
    std::vector<NodeId> operands;
    blanks();
    if (at_ < text_.size() && text_[at_] == '%') {
      do {
        CODETTA_TRY(const NodeId operand, node_reference());
        operands.push_back(operand);
      } while (accept(','));
    }
    if (info->op == Op::cond || info->op == Op::while_loop) {
      CODETTA_TRY(attr, blocks(info->op));
    }
    nodes_[number] = builder_.add_unchecked(info->op, operands, std::move(attr), std::move(type), line_span(begin));
    return {};
  }
  Span line_span(size_t begin) const { return {static_cast<uint32_t>(begin), static_cast<uint32_t>(at_)}; }

  const diag::SourceRef& source_;
  std::string_view text_;
  size_t at_ = 0;
  GraphBuilder builder_;
  std::unordered_map<int64_t, NodeId> nodes_;
  bool has_output_ = false;
  int depth_ = 0;
};

}  // namespace

Result<Graph> parse_graph(const diag::SourceRef& text) {
  if (text->text().size() >= UINT32_MAX) {
    return diag::error(Code::graph_text, "the text is too long")
        .in_file(text->name())
        .reason("positions have 32 bits")
        .help("split the graph");
  }
  return Parser(text).run();
}

}  // namespace codetta::ir

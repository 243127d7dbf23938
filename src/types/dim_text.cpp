// SPDX-License-Identifier: Apache-2.0
// The text form of symbolic integers: printer and parser of one grammar.
#include <limits>
#include <string>

#include "types/dim.hpp"
#include "types/dim_node.hpp"

namespace codetta::types {
namespace {

std::string atom_text(const Atom& atom);

// One term without its sign: "2*n*(m // 8)".
std::string product_text(const Term& t, bool print_coefficient) {
  std::string text;
  if (print_coefficient) text = std::to_string(t.coefficient);
  for (const AtomRef& f : t.factors) {
    if (!text.empty()) text += "*";
    const bool infix = f->kind == AtomKind::floordiv || f->kind == AtomKind::mod;
    if (infix && (print_coefficient || t.factors.size() > 1)) {
      text += "(";
      text += atom_text(*f);
      text += ")";
    } else {
      text += atom_text(*f);
    }
  }
  return text;
}

// An operand of // or %: names, plain numbers and, on the left, products stand alone.
std::string operand_text(const Dim& d, bool is_left) {
  const auto* node = DimBuilder::node(d);
  const bool plain = node == nullptr ? *d.as_constant() >= 0
                                     : d.as_symbol().has_value() ||
                                           (is_left && node->terms.size() == 1 && node->terms[0].coefficient > 0);
  if (plain) return d.to_string();
  std::string text = "(";
  text += d.to_string();
  text += ")";
  return text;
}

std::string atom_text(const Atom& atom) {
  if (atom.kind == AtomKind::symbol) return atom.name;
  if (atom.kind == AtomKind::floordiv || atom.kind == AtomKind::mod) {
    std::string text = operand_text(atom.args[0], true);
    text += atom.kind == AtomKind::floordiv ? " // " : " % ";
    text += operand_text(atom.args[1], false);
    return text;
  }
  std::string text = atom.kind == AtomKind::min ? "min(" : "max(";
  for (size_t i = 0; i < atom.args.size(); ++i) {
    if (i != 0) text += ", ";
    text += atom.args[i].to_string();
  }
  text += ")";
  return text;
}

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Recursive descent. A failed parse leaves the first error and returns zeros.
class Parser {
 public:
  Parser(std::string_view text, DimSyntaxError& error) : text_(text), error_(error) {}

  std::optional<Dim> parse() {
    Dim d = sum();
    if (ok_ && at_ < text_.size()) fail(at_, at_ + 1, "expected an operator or the end");
    if (!ok_) return std::nullopt;
    return d;
  }

 private:
  static constexpr int max_depth = 100;

  void fail(size_t begin, size_t end, std::string reason) {
    if (ok_) error_ = {begin, end, std::move(reason)};
    ok_ = false;
  }
  // Fails where the arithmetic did: at the operator's whole expression.
  Dim checked(Dim d, size_t begin) {
    // Every operation copies the expression so far; this bounds the product of the two.
    if (++operations_ > max_dim_nodes) fail(begin, at_, "more than " + std::to_string(max_dim_nodes) + " operations");
    if (d.fault() != DimFault::none) fail(begin, at_, std::string(to_string(d.fault())) + " in this expression");
    return ok_ ? d : Dim();
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool accept(std::string_view token) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  Dim sum() {
    skip_spaces();
    const size_t begin = at_;
    Dim left = product();
    while (ok_) {
      if (accept("+")) {
        left = checked(left + product(), begin);
      } else if (accept("-")) {
        left = checked(left - product(), begin);
      } else {
        break;
      }
    }
    skip_spaces();
    return left;
  }

  Dim product() {
    skip_spaces();
    const size_t begin = at_;
    Dim left = unary();
    while (ok_) {
      if (accept("//")) {
        left = checked(floordiv(left, unary()), begin);
      } else if (accept("%")) {
        left = checked(mod(left, unary()), begin);
      } else if (accept("*")) {
        left = checked(left * unary(), begin);
      } else {
        skip_spaces();
        if (at_ < text_.size() && text_[at_] == '/') fail(at_, at_ + 1, "sizes divide with //, which rounds down");
        break;
      }
    }
    return left;
  }

  Dim unary() {
    skip_spaces();
    const size_t begin = at_;
    if (++depth_ > max_depth) {
      fail(at_, at_ + 1, "nested deeper than " + std::to_string(max_depth) + " levels");
      return {};
    }
    // "-9223372036854775808" is one number: its magnitude alone does not fit.
    Dim d;
    if (accept("-")) {
      skip_spaces();
      d = at_ < text_.size() && is_digit(text_[at_]) ? number(begin, true) : checked(-unary(), begin);
    } else {
      d = primary();
    }
    --depth_;
    return d;
  }

  Dim primary() {
    const size_t begin = at_;
    if (at_ >= text_.size()) {
      fail(begin, begin, "expected a size here: a number or a name");
      return {};
    }
    const char c = text_[at_];
    if (is_digit(c)) return number(begin, false);
    if (is_name_start(c)) return name();
    if (accept("(")) {
      Dim d = sum();
      if (ok_ && !accept(")")) fail(begin, begin + 1, "this parenthesis is not closed");
      return d;
    }
    fail(begin, begin + 1, "expected a size here: a number or a name");
    return {};
  }

  Dim number(size_t begin, bool negative) {
    int64_t value = 0;
    bool fits = true;
    while (at_ < text_.size() && is_digit(text_[at_])) {
      const int64_t digit = negative ? '0' - text_[at_] : text_[at_] - '0';
      fits =
          fits && !__builtin_mul_overflow(value, int64_t{10}, &value) && !__builtin_add_overflow(value, digit, &value);
      ++at_;
    }
    if (!fits) fail(begin, at_, "the number does not fit in 64 bits");
    if (at_ < text_.size() && (is_name_start(text_[at_]) || text_[at_] == '.')) {
      fail(begin, at_ + 1, "a size is an integer or a name that begins with a letter");
    }
    return Dim::constant(value);
  }

  Dim name() {
    const size_t begin = at_;
    while (at_ < text_.size() && (is_name_start(text_[at_]) || is_digit(text_[at_]))) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (!accept("(")) return Dim::symbol(std::string(word));
    if (word != "min" && word != "max") {
      fail(begin, begin + word.size(), "sizes know the functions min and max only");
      return {};
    }
    Dim d = sum();
    int arguments = 1;
    while (ok_ && accept(",")) {
      const Dim next = sum();
      d = checked(word == "min" ? min(d, next) : max(d, next), begin);
      ++arguments;
    }
    if (ok_ && !accept(")")) fail(begin, at_, "this call is not closed");
    if (ok_ && arguments < 2) fail(begin, at_, std::string(word) + " takes two or more sizes");
    return d;
  }

  std::string_view text_;
  DimSyntaxError& error_;
  size_t at_ = 0;
  int depth_ = 0;
  int operations_ = 0;
  bool ok_ = true;
};

}  // namespace

std::string Dim::to_string() const {
  if (fault_ != DimFault::none) {
    std::string text = "<";
    text += types::to_string(fault_);
    text += ">";
    return text;
  }
  if (node_ == nullptr) return std::to_string(constant_);
  std::string text;
  for (const Term& t : node_->terms) {
    const bool first = text.empty();
    // The least integer has no positive twin; it keeps its sign.
    const bool minus = t.coefficient < 0 && t.coefficient != std::numeric_limits<int64_t>::min();
    Term positive = t;
    if (minus) positive.coefficient = -t.coefficient;
    if (first) {
      text += minus ? "-" : "";
    } else {
      text += minus ? " - " : " + ";
    }
    const bool print_coefficient = positive.coefficient != 1 || t.factors.empty() || (minus && first && [&t] {
                                     const AtomKind kind = t.factors[0]->kind;
                                     return kind == AtomKind::floordiv || kind == AtomKind::mod;
                                   }());
    text += product_text(positive, print_coefficient);
  }
  return text;
}

std::optional<Dim> parse_dim(std::string_view text, DimSyntaxError* error) {
  DimSyntaxError ignored;
  return Parser(text, error != nullptr ? *error : ignored).parse();
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (const Dim& d : shape) {
    if (text.size() > 1) text += ", ";
    text += d.to_string();
  }
  text += "]";
  return text;
}

}  // namespace codetta::types

// SPDX-License-Identifier: Apache-2.0
#include "emit/host/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/code_writer.hpp"
#include "base/keywords.hpp"
#include "diag/display.hpp"
#include "types/dim_node.hpp"

namespace codetta::emit::host {

using types::Atom;
using types::AtomKind;
using types::Dim;

namespace {

std::string atom_text(const Atom& atom, const SymbolText& symbol) {
  const auto call = [&](std::string_view function, const std::string& left, const Dim& right) {
    return std::string(function) + "(" + left + ", " + number_text(right, symbol) + ")";
  };
  switch (atom.kind) {
    case AtomKind::symbol:
      return symbol(atom.name);
    case AtomKind::floordiv:
      return call("floordiv", number_text(atom.args[0], symbol), atom.args[1]);
    case AtomKind::mod:
      return call("mod", number_text(atom.args[0], symbol), atom.args[1]);
    case AtomKind::min:
    case AtomKind::max:
      break;
  }
  std::string text = number_text(atom.args[0], symbol);
  for (size_t i = 1; i < atom.args.size(); ++i)
    text = call(atom.kind == AtomKind::min ? "min" : "max", text, atom.args[i]);
  return text;
}

// Macros and types of the usual headers and compilers, and what a program has; sorted.
constexpr std::array kept_words = {"BUFSIZ",       "CHAR_BIT",     "EDOM",      "EILSEQ",   "EOF",        "ERANGE",
                                   "EXIT_FAILURE", "EXIT_SUCCESS", "FILE",      "HUGE_VAL", "INFINITY",   "MB_CUR_MAX",
                                   "NAN",          "NULL",         "assert",    "errno",    "i386",       "int16_t",
                                   "int32_t",      "int64_t",      "int8_t",    "intmax_t", "intptr_t",   "linux",
                                   "main",         "max_align_t",  "nullptr_t", "offsetof", "ptrdiff_t",  "size_t",
                                   "stderr",       "stdin",        "stdout",    "uint16_t", "uint32_t",   "uint64_t",
                                   "uint8_t",      "uintmax_t",    "uintptr_t", "unix",     "unreachable"};

// Macros and types of <stdint.h>, <limits.h> and <float.h> that are made alike: INT64_MAX, UINT_FAST8_WIDTH, DBL_MIN,
// INT16_C, uint_least32_t.
bool is_limit_or_width(std::string_view name) {
  const auto without = [](std::string_view text, std::string_view begin) {
    return text.starts_with(begin) ? text.substr(begin.size()) : text;
  };
  const auto counts_bits = [](std::string_view text) {
    return text == "8" || text == "16" || text == "32" || text == "64";
  };
  const auto sized = [&](std::string_view text) {  // INT8, UINT_FAST16
    text = without(text, "U");
    if (!text.starts_with("INT")) return false;
    return counts_bits(without(without(text.substr(3), "_LEAST"), "_FAST"));
  };
  constexpr std::array kinds = {"BOOL",       "CHAR",  "DBL",   "FLT",    "INT",     "INTMAX",  "INTPTR",
                                "LDBL",       "LLONG", "LONG",  "MB_LEN", "PTRDIFF", "SCHAR",   "SHRT",
                                "SIG_ATOMIC", "SIZE",  "SSIZE", "UCHAR",  "UINT",    "UINTMAX", "UINTPTR",
                                "ULLONG",     "ULONG", "USHRT", "WCHAR",  "WINT"};
  for (const std::string_view end : {"_MIN", "_MAX", "_WIDTH"}) {
    if (!name.ends_with(end)) continue;
    const std::string_view kind = name.substr(0, name.size() - end.size());
    return sized(kind) || std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
  }
  if (name.ends_with("_C")) {
    const std::string_view kind = name.substr(0, name.size() - 2);
    return sized(kind) || kind == "INTMAX" || kind == "UINTMAX";
  }
  for (const std::string_view begin : {"int_least", "int_fast", "uint_least", "uint_fast"}) {
    if (name.starts_with(begin) && name.ends_with("_t"))
      return counts_bits(name.substr(begin.size(), name.size() - begin.size() - 2));
  }
  return false;
}

}  // namespace

std::string number_text(const Dim& dim, const SymbolText& symbol) {
  if (const auto value = dim.as_constant()) return "Number(" + std::to_string(*value) + ")";
  std::string text;
  for (const types::Term& term : types::DimBuilder::terms(dim)) {
    std::string product;
    for (const types::AtomRef& atom : term.factors)
      product += (product.empty() ? "" : " * ") + atom_text(*atom, symbol);
    if (product.empty()) {
      product = "Number(" + std::to_string(term.coefficient) + ")";
    } else if (term.coefficient != 1) {
      product += " * Number(" + std::to_string(term.coefficient) + ")";
    }
    text += (text.empty() ? "" : " + ") + product;
  }
  return text;
}

std::string start_text(const package::Operand& operand, uint32_t buffer, const SymbolText& symbol) {
  std::string text;
  for (const auto& [dim, count] : operand.offsets) {
    const bool is_sum = types::DimBuilder::terms(count).size() > 1;
    const std::string factor = number_text(count, symbol);
    text += (text.empty() ? "" : " + ") + (is_sum ? "(" + factor + ")" : factor) + " * Number(v[" +
            std::to_string(buffer) + "].step(" + std::to_string(static_cast<int>(dim)) + "))";
  }
  return text;
}

std::string literal_text(std::string_view bytes) {
  std::string text = "\"";
  for (const char c : bytes) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || c == '?') {  // ? for trigraphs
      text += '\\';
      text += c;
    } else if (u < 0x20 || u >= 0x7f) {  // three octal digits end by themselves
      text += '\\';
      for (const int shift : {6, 3, 0}) text += static_cast<char>('0' + (u >> shift & 7));
    } else {
      text += c;
    }
  }
  return text + "\"";
}

std::string comment_text(std::string_view text) {
  std::string shown = diag::displayable(text.substr(0, 400));
  for (size_t at = shown.find("?\?"); at != std::string::npos; at = shown.find("?\?")) shown.replace(at, 2, "? ?");
  while (!shown.empty() && (shown.back() == '\\' || shown.back() == ' ')) shown.pop_back();
  return shown;
}

std::string_view c_type(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return "bool";
    case DType::i8:
      return "int8_t";
    case DType::i16:
      return "int16_t";
    case DType::i32:
      return "int32_t";
    case DType::i64:
      return "int64_t";
    case DType::u8:
    case DType::f8e4m3:
    case DType::f8e5m2:
      return "uint8_t";
    case DType::u16:
    case DType::f16:
    case DType::bf16:
      return "uint16_t";
    case DType::u32:
      return "uint32_t";
    case DType::u64:
      return "uint64_t";
    case DType::f32:
      return "float";
    case DType::f64:
      break;
  }
  return "double";
}

std::string runs_once(const package::Package& package) {
  const auto calls = [](const package::Step& step) { return std::holds_alternative<package::CallExtern>(step); };
  bool once = std::any_of(package.buffers.begin(), package.buffers.end(),
                          [](const package::Buffer& buffer) { return buffer.donated; }) ||
              std::any_of(package.steps.begin(), package.steps.end(), calls);
  for (const package::StepList& list : package.step_lists) once = once || std::any_of(list.begin(), list.end(), calls);
  if (once) return "true";
  std::string in_place;
  for (const package::Step& step : package.steps) {
    const auto* check = std::get_if<package::Check>(&step);
    const auto* apart = check == nullptr ? nullptr : std::get_if<package::NoOverlapGuard>(&check->guard);
    if (apart == nullptr || !apart->in_place_ok) continue;
    if (!in_place.empty()) in_place += " || ";
    in_place += base::CodeWriter::text_of("v[", apart->output, "].data == v[", apart->other, "].data");
  }
  return in_place;
}

std::string overlap_check(const package::Package& package, const package::NoOverlapGuard& guard) {
  const package::Buffer &output = package.buffers[guard.output], &other = package.buffers[guard.other];
  using Role = package::Buffer::Role;
  if (output.role == Role::Temporary || other.role == Role::Temporary) return {};
  const auto text = [&](const char* check, uint32_t first, uint32_t second) {
    return base::CodeWriter::text_of(check, "(v[", first, "], ", literal_text(package.buffers[first].name), ", v[",
                                     second, "], ", literal_text(package.buffers[second].name));
  };
  if (output.donated) return text("check_donated", guard.output, guard.other) + ")";
  if (other.donated) return text("check_donated", guard.other, guard.output) + ")";
  return text("check_no_overlap", guard.output, guard.other) + (guard.in_place_ok ? ", true)" : ", false)");
}

std::string public_name_defect(std::string_view name) {
  if (name.empty()) return "it is empty";
  if (name.size() > 128) return "it has more than 128 bytes";
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  for (const char c : name) {
    if (!letter(c) && !(c >= '0' && c <= '9')) return "it holds something that is no ASCII letter, digit or underscore";
  }
  if (!letter(name.front())) return "it begins with a digit";
  if (name.front() == '_' || name.find("__") != std::string_view::npos)
    return "names that begin with an underscore or hold two in a row belong to compilers";
  if (base::is_c_keyword(name) || std::find(kept_words.begin(), kept_words.end(), name) != kept_words.end() ||
      is_limit_or_width(name))
    return "it is a word of C or C++, or of their headers";
  return {};
}

}  // namespace codetta::emit::host

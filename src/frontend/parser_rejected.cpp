// SPDX-License-Identifier: Apache-2.0
// Statements of Python that the language leaves out: one diagnostic each, then their blocks are skipped.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/parser_impl.hpp"

namespace codetta::frontend {

using diag::Code;
using diag::Span;

namespace {

bool one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

void Parser::report_control_flow(std::string_view word) {
  const bool loop = word == "for" || word == "while" || word == "break" || word == "continue";
  const bool branch = one_of(word, {"if", "elif", "else"});
  report_.error(Code::control_flow, token_.span, fmt::format("'{}' is not part of the language", word))
      .reason(branch ? "a condition is a tensor: both branches are computed for every element"
              : loop ? "every statement is computed once for every element"
                     : "a function has no side effects and can not fail")
      .help(branch ? "write where(condition, a, b)"
            : loop ? "write the terms one by one, or use a reduction such as sum(x, axis=\"row\")"
                   : "remove the statement");
}

// At a statement that is rejected as a whole: reports it, skips it with its blocks, and returns true.
bool Parser::rejected_statement(bool in_function) {
  if (in_function && at("@")) {
    report_.error(Code::decorator, token_.span, "decorators are not part of the language")
        .reason("nothing runs when the text is read")
        .help("remove the decorator");
    complete_ = false;
    skip_line();
    return true;
  }
  if (token_.kind != TokenKind::Name) return false;
  const std::string_view word = lexer_.text(token_.span);
  if (one_of(word, {"if", "elif", "else", "for", "while", "break", "continue", "try", "except", "finally", "with",
                    "raise", "assert"})) {
    if (in_function) {
      report_control_flow(word);
    } else {  // such as: if __name__ == "__main__"
      report_.error(Code::statement_unsupported, token_.span, fmt::format("'{}' outside of a function", word))
          .reason("a text is a list of functions, and nothing runs when it is read")
          .help("remove the statement; what Python is to run belongs into a file of its own");
    }
  } else if (word == "def") {
    report_.error(Code::statement_unsupported, token_.span, "a function inside a function is not part of the language")
        .reason("it would hide names of the function around it")
        .help("write it beside this function, with all it needs as parameters; calls are inlined");
  } else if (one_of(word, {"import", "from"})) {
    report_.error(Code::statement_unsupported, token_.span, fmt::format("'{}' is not part of the language", word))
        .reason("all functions of the language are built in")
        .help("remove the line, and call functions by their bare name: relu(x)");
  } else if (one_of(word, {"class", "global", "nonlocal", "del", "async"})) {
    report_.error(Code::statement_unsupported, token_.span, fmt::format("'{}' is not part of the language", word))
        .reason("a text is a list of functions, and a function a list of assignments")
        .help("remove the statement");
  } else if (!in_function && one_of(word, {"return", "pass"})) {
    report_.error(Code::statement_unsupported, token_.span, fmt::format("'{}' outside of a function", word))
        .reason("a text is a list of functions")
        .help("indent it into the body of a function");
  } else {
    return false;
  }
  complete_ = false;
  skip_line();
  skip_block();
  while (token_.kind == TokenKind::Name && one_of(lexer_.text(token_.span), {"elif", "else", "except", "finally"})) {
    skip_line();
    skip_block();
  }
  return true;
}

}  // namespace codetta::frontend

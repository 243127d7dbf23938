// SPDX-License-Identifier: Apache-2.0
// Epilogues: what follows a matrix product, as text or as a traced C++ function.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codetta/error.hpp"
#include "codetta/trace.hpp"

namespace codetta {

namespace ir {
struct EpilogueFunction;
}

// A checked epilogue whose operands are not bound yet. Immutable; copies share. Any thread.
class CODETTA_API Epilogue {
 public:
  // The text of one or more functions in the language of docs/language.md; `function` names the entry, by default the
  // last one. `name` is what messages call the text, such as its file. Errors: E0101 to E0156.
  static Result<Epilogue> parse(std::string text, std::string name = "<epilogue>", std::string_view function = {});

  // The epilogue that `define(EpilogueTracer&)` describes. Errors: as parse, and E0148, E0149, E0156.
  template <class F>
  requires std::invocable<F&, EpilogueTracer&>
  static Result<Epilogue> trace(F&& define, CallSite at = CallSite::current()) {
    EpilogueTracer tracer;
    define(tracer);
    return finish(tracer, at);
  }
#if CODETTA_HAS_EXCEPTIONS
  // parse() and trace() that throw codetta::Exception.
  explicit Epilogue(std::string text, std::string name = "<epilogue>", std::string_view function = {})
      : Epilogue(parse(std::move(text), std::move(name), function).value()) {}
  template <class F>
  requires std::invocable<F&, EpilogueTracer&>
  explicit Epilogue(F&& define, CallSite at = CallSite::current())
      : Epilogue(trace(std::forward<F>(define), at).value()) {}
#endif

  [[nodiscard]] const std::string& name() const;              // of the function; "epilogue" when traced
  [[nodiscard]] std::vector<std::string> parameters() const;  // in order; the first is "accum"
  [[nodiscard]] std::vector<std::string> outputs() const;     // in the order of return
  [[nodiscard]] std::string to_string() const;                // text that parses back to an equivalent epilogue

  Epilogue(const Epilogue&) = default;  // and moves copy, so that one that was moved from still works
  Epilogue& operator=(const Epilogue&) = default;
  // For the library's own use.
  explicit Epilogue(std::shared_ptr<const ir::EpilogueFunction> function) : function_(std::move(function)) {}
  [[nodiscard]] const std::shared_ptr<const ir::EpilogueFunction>& function() const { return function_; }

 private:
  static Result<Epilogue> finish(const EpilogueTracer& tracer, CallSite at);
  std::shared_ptr<const ir::EpilogueFunction> function_;
};

}  // namespace codetta

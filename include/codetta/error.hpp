// SPDX-License-Identifier: Apache-2.0
// Errors and results. Codetta never prints, exits or aborts: every fallible call returns Result<T>.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define CODETTA_HAS_EXCEPTIONS 1
#include <stdexcept>
#else
#define CODETTA_HAS_EXCEPTIONS 0
#endif

#define CODETTA_API __attribute__((visibility("default")))

namespace codetta {

// Which of the three families a failure belongs to; they never mix.
enum class ErrorFamily : uint8_t {
  Program,      // the user's text, graph, shapes or arguments are wrong (exit status 1)
  Usage,        // the command line or an option is wrong (exit status 2)
  Environment,  // the machine lacks something: compiler, ISA, folder, file (exit status 3)
  Internal,     // Codetta is wrong (exit status 70)
};

// A place in a text: the user's source, a printed graph, a file name without a line, or nowhere (line == 0). Of the
// caller's C++ (call_site.hpp) line_text is empty and length 0: the library does not read it.
struct SourceLocation {
  std::string file;       // display name, "<epilogue>" for strings
  uint32_t line = 0;      // 1-based; 0 = no position
  uint32_t column = 0;    // 1-based, counted in code points; 0 where a C++ compiler does not tell it
  uint32_t length = 0;    // code points to underline, at least 1 when line_text is known
  std::string line_text;  // the line itself, without its end; long lines are cut, "..." standing for three code points
  uint32_t text_column = 1;  // the column at which line_text begins (above 1 when its front was cut)

  bool operator==(const SourceLocation&) const = default;
};

struct Note {
  std::string text;
  SourceLocation where;

  bool operator==(const Note&) const = default;
};

// One message. `code` is stable: 207 prints as E0207 and has a page in docs/errors/E0207.md.
struct Diagnostic {
  uint16_t code = 0;
  std::string headline;     // one sentence, lower case unless a kept headline, no full stop
  SourceLocation where;     // what the caret points at
  std::string label;        // text right of the caret, such as "f32[64]"
  std::string argument;     // the operand, output or workspace that it is about, by name; empty where it is about none
  std::string reason;       // why, with numbers; may be empty when the headline says it
  std::vector<Note> notes;  // further places
  std::string help;         // the next step; never empty

  bool operator==(const Diagnostic&) const = default;
};

// One or more diagnostics. Cheap to move; copies share.
class CODETTA_API Error {
 public:
  explicit Error(Diagnostic diagnostic);
  explicit Error(std::vector<Diagnostic> diagnostics);  // at least one

  [[nodiscard]] uint16_t code() const;  // of the first diagnostic
  [[nodiscard]] ErrorFamily family() const;
  [[nodiscard]] const std::vector<Diagnostic>& diagnostics() const { return *diagnostics_; }
  [[nodiscard]] std::string message() const;  // "error[E0207]: headline"
  [[nodiscard]] std::string render() const;   // caret text of all diagnostics, ends with a newline
  [[nodiscard]] std::string to_json() const;  // {"diagnostics":[...]}, one line

 private:
  std::shared_ptr<const std::vector<Diagnostic>> diagnostics_;
};

#if CODETTA_HAS_EXCEPTIONS
// What the throwing convenience wrappers throw; what() is Error::render().
class Exception : public std::runtime_error {
 public:
  explicit Exception(Error error) : std::runtime_error(error.render()), error_(std::move(error)) {}
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  Error error_;
};
#endif

// A value or an Error, with the members of std::expected. `*r` and `r->` need has_value(), error() its opposite;
// value() throws Exception where there is none (absent under -fno-exceptions).
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  using error_type = Error;
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& operator*() & { return *std::get_if<0>(&state_); }
  const T& operator*() const& { return *std::get_if<0>(&state_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&state_)); }
  const T&& operator*() const&& { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }
  [[nodiscard]] Error& error() & { return *std::get_if<1>(&state_); }
  [[nodiscard]] const Error& error() const& { return *std::get_if<1>(&state_); }
  [[nodiscard]] Error&& error() && { return std::move(*std::get_if<1>(&state_)); }
  [[nodiscard]] const Error&& error() const&& { return std::move(*std::get_if<1>(&state_)); }
  template <class U>
  [[nodiscard]] T value_or(U&& otherwise) const& {
    return has_value() ? **this : static_cast<T>(std::forward<U>(otherwise));
  }
  template <class U>
  [[nodiscard]] T value_or(U&& otherwise) && {
    return has_value() ? std::move(**this) : static_cast<T>(std::forward<U>(otherwise));
  }
#if CODETTA_HAS_EXCEPTIONS
  T& value() & {
    if (!has_value()) throw Exception(error());
    return **this;
  }
  const T& value() const& {
    if (!has_value()) throw Exception(error());
    return **this;
  }
  // A value, so that `for (const Kernel& kernel : find_kernels(...).value())` does not walk over what has gone.
  T value() && {
    if (!has_value()) throw Exception(std::move(error()));
    return std::move(**this);
  }
  const T&& value() const&& {
    if (!has_value()) throw Exception(error());
    return std::move(**this);
  }
#endif

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  using error_type = Error;
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  void operator*() const {}
  [[nodiscard]] Error& error() & { return *error_; }
  [[nodiscard]] const Error& error() const& { return *error_; }
  [[nodiscard]] Error&& error() && { return std::move(*error_); }
  [[nodiscard]] const Error&& error() const&& { return std::move(*error_); }
#if CODETTA_HAS_EXCEPTIONS
  void value() const {
    if (!has_value()) throw Exception(error());
  }
#endif

 private:
  std::optional<Error> error_;
};

}  // namespace codetta

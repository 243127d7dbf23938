// SPDX-License-Identifier: Apache-2.0
// How base reports failures: below diagnostics, as plain data that callers map to their own codes.
#pragma once

#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace codetta::base {

// A system call that failed, or a check of ours that would have made one fail.
struct SystemError {
  int errno_value = 0;
  std::string call;  // "open", "check owner"
  std::string path;  // may be empty

  // "open /x/y: No such file or directory"
  [[nodiscard]] std::string message() const;
  bool operator==(const SystemError&) const = default;
};

// A value or the reason why there is none.
template <class T, class E = SystemError>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Expected(E error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& operator*() & { return *std::get_if<0>(&state_); }
  const T& operator*() const& { return *std::get_if<0>(&state_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }
  [[nodiscard]] const E& error() const { return *std::get_if<1>(&state_); }

 private:
  std::variant<T, E> state_;
};

template <class E>
class [[nodiscard]] Expected<void, E> {
 public:
  Expected() = default;
  Expected(E error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  [[nodiscard]] const E& error() const { return *error_; }

 private:
  std::optional<E> error_;
};

}  // namespace codetta::base

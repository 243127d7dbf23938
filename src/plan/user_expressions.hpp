// SPDX-License-Identifier: Apache-2.0
// Expressions in the clauses of a source: sizes of the call, meta-parameters of a configuration, and functions of them.
// Private to the room.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/user_pragmas.hpp"
#include "types/dim.hpp"

namespace codetta::plan {

using Values = std::vector<std::pair<std::string, int64_t>>;  // of meta-parameters

class LaunchExpressions {
 protected:
  LaunchExpressions(const UserSource& source, const std::vector<package::Argument>& arguments,
                    const std::function<types::Dim(size_t, int32_t)>& stride, std::optional<size_t> hook)
      : pragmas_(source), arguments_(arguments), stride_(stride), hook_(hook) {}

  [[nodiscard]] Error wrong(diag::Span span, std::string reason, std::string help) const;
  // " for A=1, B=2": the one that is looked at, or "".
  [[nodiscard]] std::string configuration() const;
  // The values of a clause, of which it has at most so many.
  Result<std::vector<types::Dim>> list(const Clause& clause, size_t most) const;
  // `depth`: of the expression that it stands in.
  Result<int64_t> constant(const std::vector<Token>& in, size_t& at, std::string_view what, int depth = 0) const;
  Result<types::Dim> expression(const std::vector<Token>& in, size_t& at, int depth) const;
  Result<void> expect(const std::vector<Token>& in, size_t& at, std::string_view sign) const;
  // The tensor that is named.
  Result<size_t> tensor(const std::vector<Token>& in, size_t& at) const;
  // The same, which has to lie in memory.
  Result<size_t> memory(const std::vector<Token>& in, size_t& at) const;
  Result<void> sound(const types::Dim& value, const Token& where) const;

  Pragmas pragmas_;
  const std::vector<package::Argument>& arguments_;
  const std::function<types::Dim(size_t, int32_t)>& stride_;
  std::optional<size_t> hook_;                              // the argument that is handed over
  std::vector<std::string> names_;                          // of parameters
  std::map<std::string, types::Dim, std::less<>> symbols_;  // sizes, as the call has them
  const Values* values_ = nullptr;                          // of the configuration that is looked at
  bool in_sizes_ = false;
  mutable std::vector<std::pair<size_t, int32_t>> asked_;  // strides that are among its sizes

 private:
  Result<types::Dim> term(const std::vector<Token>& in, size_t& at, int depth) const;
  Result<types::Dim> factor(const std::vector<Token>& in, size_t& at, int depth) const;
  Result<types::Dim> call(const Token& function, const std::vector<Token>& in, size_t& at, int depth) const;
};

}  // namespace codetta::plan

// SPDX-License-Identifier: Apache-2.0
// What values of traced epilogues (trace.hpp) and of built programs (graph.hpp) have in common: they are known when a
// kernel runs, so what C++ does with a number at once fails to compile, and the message says what to write.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "codetta/call_site.hpp"

namespace codetta::detail {

template <class...>
inline constexpr bool never = false;

class Traced {
 public:
  // if, while, ?:, &&, ||, !, std::max, static_cast<float>: whatever asks for the number.
  template <class T>
  requires std::is_arithmetic_v<T>
  explicit operator T() const {
    static_assert(never<T>,
                  "a traced value has no value here, only when the kernel runs: write where(condition, a, b) for if "
                  "and ?:, & | ~ for && || !, maximum and minimum for std::max and std::min, cast for a conversion");
    return T();
  }
};

template <class X>
concept TracedValue = std::derived_from<std::remove_cvref_t<X>, Traced>;

// A comparison: V, but a < b < c does not compile.
template <class V>
class Comparison : public V {
 public:
  explicit Comparison(V value) : V(std::move(value)) {}
  Comparison& operator=(const V& value) {
    static_cast<V&>(*this) = value;
    return *this;
  }
};
template <class V, class Y>
void refuse_chain() {
  static_assert(never<V, Y>,
                "a < b < c would compare the result of a < b with c: write (a < b) & (b < c); a comparison that is "
                "meant to be compared gets a name first");
}
template <class V, class Y>
V operator<(Comparison<V>&&, const Y&) {
  return refuse_chain<V, Y>(), V();
}
template <class V, class Y>
V operator<=(Comparison<V>&&, const Y&) {
  return refuse_chain<V, Y>(), V();
}
template <class V, class Y>
V operator>(Comparison<V>&&, const Y&) {
  return refuse_chain<V, Y>(), V();
}
template <class V, class Y>
V operator>=(Comparison<V>&&, const Y&) {
  return refuse_chain<V, Y>(), V();
}

// A value as an operand of an operator, with the place where it stands: operators take no default arguments.
template <class V>
struct Operand {
  template <class X>
  requires std::convertible_to<X, V> Operand(X&& x, CallSite at = CallSite::current())  // NOLINT
      : value(made(std::forward<X>(x), at)), site(at) {}
  V value;
  CallSite site;

 private:
  template <class X>
  static V made(X&& x, CallSite at) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<X>>) {
      return V(x, at);  // the number's place, not this line
    } else {
      return std::forward<X>(x);
    }
  }
};

template <class Y>
void refuse_assignment() {
  static_assert(never<Y>, "a traced value is not changed in place: write x = x + y for x += y");
}

}  // namespace codetta::detail

namespace codetta {

template <detail::TracedValue X, class Y>
void operator+=(X&, const Y&) {
  detail::refuse_assignment<Y>();
}
template <detail::TracedValue X, class Y>
void operator-=(X&, const Y&) {
  detail::refuse_assignment<Y>();
}
template <detail::TracedValue X, class Y>
void operator*=(X&, const Y&) {
  detail::refuse_assignment<Y>();
}
template <detail::TracedValue X, class Y>
void operator/=(X&, const Y&) {
  detail::refuse_assignment<Y>();
}
template <detail::TracedValue X>
void operator++(X&) {
  detail::refuse_assignment<X>();
}
template <detail::TracedValue X>
void operator++(X&, int) {
  detail::refuse_assignment<X>();
}
template <detail::TracedValue X>
void operator--(X&) {
  detail::refuse_assignment<X>();
}
template <detail::TracedValue X>
void operator--(X&, int) {
  detail::refuse_assignment<X>();
}

}  // namespace codetta

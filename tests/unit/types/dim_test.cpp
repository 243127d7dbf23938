// SPDX-License-Identifier: Apache-2.0
// Symbolic integers: canonical forms, exact simplification, text, faults; and random expressions against evaluation of
// the expression as written.
#include "types/dim.hpp"
#include "types/dim_substitute.hpp"
#include "types/symbol_source.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace codetta::types {
namespace {

constexpr int64_t least = std::numeric_limits<int64_t>::min(), greatest = std::numeric_limits<int64_t>::max();

Dim c(int64_t v) { return Dim::constant(v); }
Dim parse(std::string_view text) {
  DimSyntaxError error;
  const auto d = parse_dim(text, &error);
  EXPECT_TRUE(d.has_value()) << text << ": " << error.reason;
  return d.value_or(Dim::faulty(DimFault::overflow));
}
std::string canonical(std::string_view text) { return parse(text).to_string(); }

std::string fmt_text(const SymbolSource& source) {
  return std::to_string(source.factor) + " " + source.symbol + " " + source.rest.to_string();
}

TEST(Dim, SumsThatGiveASymbolItsValue) {
  const auto text_of = [](const Dim& dim, const std::string& known = "") {
    const auto source = as_source(dim, [&](std::string_view symbol) { return symbol == known; });
    return source ? fmt_text(*source) : std::string();
  };
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m"), two = Dim::constant(2);
  EXPECT_EQ(text_of(n), "1 n 0");
  EXPECT_EQ(text_of(two * n + n), "3 n 0");
  EXPECT_EQ(text_of(n + two), "1 n 2");
  EXPECT_EQ(text_of(two * n - two), "2 n -2");
  EXPECT_EQ(text_of(n + two * m + two, "n"), "2 m n + 2");
  EXPECT_EQ(text_of(m + floordiv(n, two), "n"), "1 m n // 2");
  const Dim none[] = {
      two, n * m, n * n, n + m, -n, two - n, floordiv(n, two), two * floordiv(n, two), max(n, Dim::constant(1)) + n};
  for (const Dim& other : none) EXPECT_EQ(text_of(other), "") << other.to_string();
  EXPECT_EQ(text_of(n * m, "n"), "") << "n may be 0";
}

TEST(Dim, SymbolsHaveTheirValuesFromShapes) {
  const auto text_of = [](const std::vector<std::vector<const char*>>& texts,
                          const std::vector<std::string>& known = {}) {
    std::vector<Shape> shapes;
    for (const auto& dims : texts) {
      Shape& shape = shapes.emplace_back();
      for (const char* dim : dims) shape.push_back(parse(dim));
    }
    std::string text;
    for (const SymbolSource& source : symbol_sources(shapes, known))
      text += fmt_text(source) + " in " + std::to_string(source.shape) + "." + std::to_string(source.dim) + "; ";
    return text;
  };
  EXPECT_EQ(text_of({{"2*n", "m"}, {"n", "m"}}), "1 m 0 in 0.1; 1 n 0 in 1.0; ") << "what is alone first";
  EXPECT_EQ(text_of({{"n + m"}, {"2*n + 1"}}), "2 n 1 in 1.0; 1 m n in 0.0; ");
  EXPECT_EQ(text_of({{"k + m"}, {"n + m"}, {"n"}}), "1 n 0 in 2.0; 1 m n in 1.0; 1 k m in 0.0; ");
  EXPECT_EQ(text_of({{"n + m"}}), "");
  EXPECT_EQ(text_of({{"n + m"}}, {"n"}), "1 m n in 0.0; ");
}

TEST(Dim, ASizeGivesAValueOrSaysWhyNot) {
  const SymbolSource source = *as_source(parse("2*h + n - 1"), [](std::string_view symbol) { return symbol == "n"; });
  const auto value = [&](int64_t size, int64_t n) {
    std::string why;
    const auto found = value_from(
        source, size, [&](std::string_view) { return std::optional(n); }, &why);
    return found ? std::to_string(*found) : why;
  };
  EXPECT_EQ(value(9, 4), "3");
  EXPECT_EQ(value(0, 1), "0");
  EXPECT_EQ(value(0, 0), "0 and 1 more is no multiple of 2");
  EXPECT_EQ(value(8, 4), "8 less 3 is no multiple of 2");
  EXPECT_EQ(value(2, 4), "2 less 3 is negative, and sizes are 0 or more");
  EXPECT_EQ(value(-1, INT64_MAX), "-1 less 9223372036854775806 is negative, and sizes are 0 or more");
}

TEST(Dim, CanonicalForms) {
  const std::pair<const char*, const char*> cases[] = {
      {"2*n + 1", "2*n + 1"},
      {"1 + n*2", "2*n + 1"},
      {"n - n", "0"},
      {"n*m - m*n + 3", "3"},
      {"(n + 1)*(n - 1)", "n*n - 1"},
      {"b + a*2 - 3", "2*a + b - 3"},
      {"-n", "-n"},
      {"1 - n", "-n + 1"},
      {"n // 8", "n // 8"},
      {"n // 1", "n"},
      {"n % 1", "0"},
      {"8*n // 8", "n"},
      {"8*n % 8", "0"},
      {"(8*n + 3) // 8", "n"},
      {"(8*n + 3) % 8", "3"},
      {"(8*n + 11) // 8", "n + 1"},
      {"(8*n - 1) // 8", "n - 1"},
      {"(8*n - 1) % 8", "7"},
      {"(16*n + m) // 8", "2*n + m // 8"},
      {"(16*n + m) % 8", "m % 8"},
      {"4*n // 8", "n // 2"},
      {"4*n % 8", "4*(n % 2)"},
      {"(4*n + 3) // 8", "n // 2"},
      {"(4*n + 3) % 8", "4*(n % 2) + 3"},
      {"n // 4 // 2", "n // 8"},
      {"(n // 4 + 3) // 2", "(n + 4) // 8 + 1"},
      {"n % 8 // 8", "0"},
      {"n % 8 % 8", "n % 8"},
      {"n % 16 % 8", "n % 8"},
      {"n % 4 % 8", "n % 4"},
      {"-n // 2", "-n + n // 2"},
      {"n // -2", "-n + n // 2"},
      {"-7 // 2", "-4"},
      {"-7 % 2", "1"},
      {"7 % -2", "-1"},
      {"n // m", "n // m"},
      {"n*m // m", "m*n // m"},
      {"(n + 1)*(m + 1) // (m + 1)", "(m*n + m + n + 1) // (m + 1)"},
      {"5*(m + 1) // (m + 1)", "5"},
      {"n % (n + 1)", "n"},
      {"m % (n + 1)", "m % (n + 1)"},
      {"min(n, n + 1)", "n"},
      {"max(n, n + 1)", "n + 1"},
      {"max(n, 0)", "n"},
      {"min(n, 0)", "0"},
      {"min(m, n)", "min(m, n)"},
      {"min(n, min(m, 4))", "min(4, m, n)"},
      {"max(max(n, 4), max(m, 8))", "max(8, m, n)"},
      {"min(n % 8, 7)", "n % 8"},
      {"-(n // 8)", "-1*(n // 8)"},
      {"n // 8 * 8", "8*(n // 8)"},
      {"((((n))))", "n"},
      {"--n", "n"},
      {"_a1 * B", "B*_a1"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"9223372036854775807", "9223372036854775807"},
  };
  for (const auto& [text, want] : cases) {
    EXPECT_EQ(canonical(text), want) << text;
    EXPECT_EQ(parse(canonical(text)), parse(text)) << text;
  }
}

TEST(Dim, EqualityAndOrder) {
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  EXPECT_EQ((n + m) * c(2), c(2) * m + n + n);
  EXPECT_FALSE(n == m);
  EXPECT_EQ(Dim(), c(0));
  const Dim all[] = {c(-1), c(0), c(7), m, n, n + c(1), n * n, floordiv(n, c(8)), mod(n, c(8)), min(n, m)};
  for (const Dim& a : all) {
    for (const Dim& b : all) {
      EXPECT_EQ(Dim::order(a, b) == 0, a == b);
      EXPECT_EQ(Dim::order(a, b) < 0, Dim::order(b, a) > 0);
    }
  }
}

TEST(Dim, Queries) {
  const Dim n = Dim::symbol("n");
  EXPECT_EQ(c(7).as_constant(), 7);
  EXPECT_EQ(n.as_constant(), std::nullopt);
  EXPECT_EQ(n.as_symbol(), "n");
  EXPECT_EQ((n + c(1)).as_symbol(), std::nullopt);
  EXPECT_EQ((c(2) * n).as_symbol(), std::nullopt);
  EXPECT_EQ(n.lower_bound(), 0);
  EXPECT_EQ(n.upper_bound(), std::nullopt);
  EXPECT_EQ((-n).upper_bound(), 0);
  EXPECT_EQ(mod(n, c(8)).upper_bound(), 7);
  EXPECT_EQ((n * n + c(3)).lower_bound(), 3);
  EXPECT_EQ(parse("b*(a // c) + min(a, d)").symbols(), (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_TRUE(c(3).symbols().empty());
}

TEST(Dim, FaultsAreKeptAndNeverWrap) {
  const Dim n = Dim::symbol("n");
  EXPECT_EQ((c(greatest) + c(1)).fault(), DimFault::overflow);
  EXPECT_EQ((c(least) - c(1)).fault(), DimFault::overflow);
  EXPECT_EQ((-c(least)).fault(), DimFault::overflow);
  EXPECT_EQ((c(greatest) * n + n).fault(), DimFault::overflow);
  EXPECT_EQ((c(int64_t{1} << 32) * n * c(int64_t{1} << 31)).fault(), DimFault::overflow);
  EXPECT_EQ(floordiv(c(least), c(-1)).fault(), DimFault::overflow);
  EXPECT_EQ(floordiv(n, c(0)).fault(), DimFault::division_by_zero);
  EXPECT_EQ(mod(n, c(0)).fault(), DimFault::division_by_zero);
  const Dim bad = c(greatest) + c(1);
  EXPECT_EQ((bad * c(0) + n).fault(), DimFault::overflow);
  EXPECT_EQ(min(n, bad).fault(), DimFault::overflow);
  EXPECT_FALSE(bad == bad);
  EXPECT_FALSE(bad.is_constant());
  EXPECT_EQ(bad.to_string(), "<overflow>");
  EXPECT_EQ(exact_quotient(bad, n), std::nullopt);
  Dim power = n + c(1);
  for (int i = 0; i < 40; ++i) power = power * (power + Dim::symbol("s" + std::to_string(i)));
  EXPECT_EQ(power.fault(), DimFault::too_large);
  Dim nested = n;
  for (int i = 0; i < 5000; ++i) nested = mod(nested + Dim::symbol("m"), nested + c(1));
  EXPECT_EQ(nested.fault(), DimFault::too_large);
}

TEST(Dim, Evaluate) {
  DimFault why = DimFault::none;
  const std::map<std::string, int64_t> values = {{"n", 10}, {"m", 0}, {"big", int64_t{1} << 62}};
  EXPECT_EQ(parse("2*n + 1").evaluate(values), 21);
  EXPECT_EQ(parse("n // 4 + n % 4").evaluate(values), 4);
  EXPECT_EQ(parse("max(n, m, 3) - min(n, 5)").evaluate(values), 5);
  EXPECT_EQ(parse("n // m").evaluate(values, &why), std::nullopt);
  EXPECT_EQ(why, DimFault::division_by_zero);
  EXPECT_EQ(parse("n + k").evaluate(values, &why), std::nullopt);
  EXPECT_EQ(why, DimFault::unbound);
  EXPECT_EQ(parse("big + big").evaluate(values, &why), std::nullopt);
  EXPECT_EQ(why, DimFault::overflow);
  EXPECT_EQ(parse("big*big*big*m + n").evaluate(values, &why), 10);
  EXPECT_EQ(why, DimFault::none);
  EXPECT_EQ(parse("4*big - 3*big").evaluate(values), int64_t{1} << 62);
  const std::vector<std::pair<std::string, int64_t>> pairs = {{"n", 3}};
  EXPECT_EQ(parse("n*n").evaluate(pairs), 9);
  EXPECT_EQ((c(greatest) + c(1)).evaluate(values, &why), std::nullopt);
  EXPECT_EQ(why, DimFault::overflow);
}

TEST(Dim, SymbolsAreSubstituted) {
  const auto with = [](const char* text) {
    return substitute(parse(text), [](std::string_view symbol) -> std::optional<Dim> {
      if (symbol == "n") return parse("2*k + 1");
      if (symbol == "m") return c(0);
      return std::nullopt;
    });
  };
  EXPECT_EQ(with("n*n + 3*k"), parse("4*k*k + 7*k + 1"));
  EXPECT_EQ(with("(n + 7) // 2 + n % 2 + j"), parse("k + 5 + j"));
  EXPECT_EQ(with("max(min(n, j), 4) + m*n"), parse("max(min(2*k + 1, j), 4)"));
  EXPECT_EQ(with("17"), c(17));
  EXPECT_EQ(with("n // m").fault(), DimFault::division_by_zero);
}

TEST(Dim, ExactQuotient) {
  const auto quotient = [](const char* a, const char* b) {
    const auto q = exact_quotient(parse(a), parse(b));
    return q ? q->to_string() : "none";
  };
  EXPECT_EQ(quotient("batch*4096", "batch*32"), "128");
  EXPECT_EQ(quotient("n*n*m", "n"), "m*n");
  EXPECT_EQ(quotient("4*n*m + 8*n", "4*n"), "m + 2");
  EXPECT_EQ(quotient("4*n*m + 6*n", "4*n"), "none");
  EXPECT_EQ(quotient("n", "m"), "none");
  EXPECT_EQ(quotient("n", "n*n"), "none");
  EXPECT_EQ(quotient("3*n + 6", "n + 2"), "3");
  EXPECT_EQ(quotient("n + 3", "n + 2"), "none");
  EXPECT_EQ(quotient("0", "n"), "0");
  EXPECT_EQ(quotient("n", "0"), "none");
  EXPECT_EQ(quotient("-9223372036854775808", "-1"), "none");
}

TEST(Dim, SyntaxErrorsHavePositions) {
  struct Case {
    const char* text;
    size_t begin, end;
    const char* reason;
  };
  const Case cases[] = {
      {"", 0, 0, "expected a size here: a number or a name"},
      {"n +", 3, 3, "expected a size here: a number or a name"},
      {"n n", 2, 3, "expected an operator or the end"},
      {"n / 2", 2, 3, "sizes divide with //, which rounds down"},
      {"(n + 1", 0, 1, "this parenthesis is not closed"},
      {"2*abs(n)", 2, 5, "sizes know the functions min and max only"},
      {"min(n)", 0, 6, "min takes two or more sizes"},
      {"max(n, 2", 0, 8, "this call is not closed"},
      {"1.5*n", 0, 2, "a size is an integer or a name that begins with a letter"},
      {"2n", 0, 2, "a size is an integer or a name that begins with a letter"},
      {"99999999999999999999", 0, 20, "the number does not fit in 64 bits"},
      {"1 + n // 0", 4, 10, "division by zero in this expression"},
      {"9223372036854775807 + 1", 0, 23, "overflow in this expression"},
      {"n + \xff", 4, 5, "expected a size here: a number or a name"},
  };
  for (const Case& x : cases) {
    DimSyntaxError error;
    EXPECT_FALSE(parse_dim(x.text, &error).has_value()) << x.text;
    EXPECT_EQ(error.reason, x.reason) << x.text;
    EXPECT_EQ(error.begin, x.begin) << x.text;
    EXPECT_EQ(error.end, x.end) << x.text;
  }
}

TEST(Dim, HostileTextEndsSoon) {
  for (const char* unit : {"(", "-", "min(", "n+", "n*", "(n+1)*", "n//", "1-("}) {
    std::string text;
    while (text.size() < 300000) text += unit;
    DimSyntaxError error;
    EXPECT_FALSE(parse_dim(text, &error).has_value()) << unit;
    EXPECT_FALSE(error.reason.empty());
  }
  std::string many = "s0";
  for (int i = 1; i < 100000; ++i) many += "+s" + std::to_string(i % 900);
  EXPECT_FALSE(parse_dim(many).has_value());
  const std::string long_name(1 << 20, 'x');
  EXPECT_EQ(parse(long_name).as_symbol(), long_name);
}

TEST(Shape, Text) {
  EXPECT_EQ(to_string(Shape{Dim::symbol("batch"), c(4096)}), "[batch, 4096]");
  EXPECT_EQ(to_string(Shape{}), "[]");
  EXPECT_EQ(to_string(Shape{c(2) * Dim::symbol("n"), parse("n // 8")}), "[2*n, n // 8]");
}

// An expression as written, evaluated in 128 bits by the definitions.
struct Written {
  Dim dim;
  std::function<std::optional<__int128>(const std::map<std::string, int64_t>&)> value;
};

__int128 floored(__int128 a, __int128 b) {
  const __int128 q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

Written random_expression(std::mt19937_64& random, int depth) {
  if (depth == 0 || random() % 6 == 0) {
    if (random() % 2 == 0) {
      const int64_t v = static_cast<int64_t>(random() % 21) - 8;
      return {c(v), [v](const auto&) { return std::optional<__int128>(v); }};
    }
    const std::string name(1, static_cast<char>('a' + random() % 3));
    return {Dim::symbol(name), [name](const auto& values) { return std::optional<__int128>(values.at(name)); }};
  }
  const Written x = random_expression(random, depth - 1), y = random_expression(random, depth - 1);
  const auto both = [&](Dim dim, auto f) {
    return Written{std::move(dim), [x, y, f](const auto& values) -> std::optional<__int128> {
                     const auto p = x.value(values), q = y.value(values);
                     constexpr __int128 limit = __int128{1} << 60;
                     if (!p || !q || *p > limit || *p < -limit || *q > limit || *q < -limit) return std::nullopt;
                     return f(*p, *q);
                   }};
  };
  using Value = std::optional<__int128>;
  switch (random() % 8) {
    case 0:
      return both(x.dim + y.dim, [](auto p, auto q) -> Value { return p + q; });
    case 1:
      return both(x.dim - y.dim, [](auto p, auto q) -> Value { return p - q; });
    case 2:
      return both(x.dim * y.dim, [](auto p, auto q) -> Value { return p * q; });
    case 3:
    case 4:
      return both(floordiv(x.dim, y.dim), [](auto p, auto q) -> Value { return q == 0 ? Value() : floored(p, q); });
    case 5:
      return both(mod(x.dim, y.dim), [](auto p, auto q) -> Value { return q == 0 ? Value() : p - floored(p, q) * q; });
    case 6:
      return both(min(x.dim, y.dim), [](auto p, auto q) -> Value { return p < q ? p : q; });
    default:
      return both(max(x.dim, y.dim), [](auto p, auto q) -> Value { return p > q ? p : q; });
  }
}

TEST(DimProperty, RandomExpressionsKeepTheirValues) {
  std::mt19937_64 random(2026);
  int64_t compared = 0;
  for (int i = 0; i < 20000; ++i) {
    const Written e = random_expression(random, 1 + static_cast<int>(random() % 5));
    if (e.dim.fault() != DimFault::none) continue;
    const std::string text = e.dim.to_string();
    const auto again = parse_dim(text);
    ASSERT_TRUE(again.has_value()) << text;
    ASSERT_EQ(*again, e.dim) << text << " reads back as " << again->to_string();
    for (int k = 0; k < 8; ++k) {
      const uint64_t span = k < 6 ? 12 : 1000;
      std::map<std::string, int64_t> values;
      for (const char* name : {"a", "b", "c"}) values[name] = static_cast<int64_t>(random() % span);
      const auto want = e.value(values);
      if (!want) continue;  // a division by zero, or too large for the reference
      DimFault why = DimFault::none;
      const auto got = e.dim.evaluate(values, &why);
      if (!got && why == DimFault::overflow) continue;  // the canonical form's own terms may leave 64 bits
      ASSERT_TRUE(got.has_value()) << text << " " << to_string(why);
      ASSERT_TRUE(static_cast<__int128>(*got) == *want)
          << text << " a=" << values["a"] << " b=" << values["b"] << " c=" << values["c"];
      const auto low = e.dim.lower_bound(), high = e.dim.upper_bound();
      ASSERT_TRUE(!low || *low <= *got) << text;
      ASSERT_TRUE(!high || *high >= *got) << text;
      ++compared;
    }
  }
  EXPECT_GT(compared, 80000);
}

TEST(DimProof, TwoFloorsAreCompared) {
  const Dim n = Dim::symbol("n");
  const auto floor = [&](int64_t add, int64_t by) { return floordiv(n + c(add), c(by)); };
  EXPECT_TRUE(is_non_negative(floor(0, 8) - floor(0, 16)));
  EXPECT_TRUE(is_non_negative(floor(0, 8) - c(2) * floor(0, 16)));
  EXPECT_TRUE(is_non_negative(floor(2, 3) - floor(1, 16)));
  EXPECT_TRUE(is_non_negative(floor(0, 4) + floor(0, 8) - floor(0, 16)));
  EXPECT_FALSE(is_non_negative(floor(0, 16) - floor(0, 8)));
  EXPECT_FALSE(is_non_negative(floor(0, 8) - c(3) * floor(0, 16)));
  EXPECT_FALSE(is_non_negative(floor(1, 3) - floor(2, 3)));
}

// Processors trap where the least integer is divided by -1.
TEST(DimProperty, ExtremeNumbersNeitherTrapNorWrap) {
  const int64_t extremes[] = {INT64_MIN, INT64_MIN + 1, -2, -1, 0, 1, 2, INT64_MAX - 1, INT64_MAX};
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  std::vector<Dim> dims;
  for (const int64_t x : extremes) {
    for (const int64_t y : extremes) {
      dims.push_back(c(x) * n + c(y));
      dims.push_back(c(x) * n + c(y) * m);
    }
  }
  const std::map<std::string, int64_t> values{{"n", 3}, {"m", 1}};
  int quotients = 0;
  for (const Dim& a : dims) {
    for (const Dim& b : dims) {
      for (const Dim& d : {a + b, a - b, a * b, floordiv(a, b), mod(a, b), min(a, b), max(a, b)}) {
        (void)d.evaluate(values);
        EXPECT_TRUE(!is_non_negative(d) || d.evaluate(values).value_or(0) >= 0) << d.to_string();
      }
      const auto q = exact_quotient(a, b);
      if (!q) continue;
      EXPECT_EQ(*q * b, a) << a.to_string() << " / " << b.to_string();
      ++quotients;
    }
  }
  EXPECT_GT(quotients, 100);
  EXPECT_FALSE(exact_quotient(c(INT64_MIN) * n, c(1) - n));
  EXPECT_FALSE(exact_quotient(c(INT64_MIN) * n, c(-1)));
}

}  // namespace
}  // namespace codetta::types

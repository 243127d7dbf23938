// SPDX-License-Identifier: Apache-2.0
// Programs of kernels without a product, next to products: compiled and interpreted, against loops in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "codetta/codetta.hpp"
#include "support/slice.hpp"

namespace codetta {
namespace {

using Values = std::vector<double>;

class ProgramMaps : public ::testing::TestWithParam<bool> {
 protected:
  ProgramMaps() : context_(Context::make({.cache_enabled = false, .no_compiler = GetParam(), .threads = 2}).value()) {}
  // Interpreted they all run; compiled every second one.
  void SetUp() override {
    if (!GetParam() &&
        !test::commit_takes(test::slice_of(testing::UnitTest::GetInstance()->current_test_info()->name()), 2))
      GTEST_SKIP() << "compiled by other commits";
  }

  Tensor random(const Dims& shape) {
    Tensor tensor = Tensor::make(f32, shape).value();
    fill_random(tensor.view(), ++seed_);
    return tensor;
  }
  static Values values(const Tensor& tensor) {
    Values result;
    for (int64_t i = 0; i < tensor.view().element_count(); ++i) result.push_back(double{tensor.view().as<float>()[i]});
    return result;
  }
  // Runs with a poisoned output y of this shape.
  Values run(const std::string& text, std::vector<NamedArgument> arguments, const Dims& shape, bool checked = true) {
    const auto program = Program::parse(text, "p.py");
    EXPECT_TRUE(program) << program.error().render();
    if (!program) return {};
    const auto compiled = codetta::compile(*program, Target::host(), {}, context_);
    EXPECT_TRUE(compiled) << compiled.error().render();
    if (!compiled) return {};
    Tensor y = Tensor::make(f32, shape).value();
    fill_poison(y.view());
    arguments.push_back({"y", y.view()});
    RunOptions options;
    options.checked = checked;
    const auto ran = compiled->run(arguments, {}, options);
    EXPECT_TRUE(ran) << ran.error().render();
    return values(y);
  }
  static void expect_near(const Values& have, const Values& want, double bound) {
    ASSERT_EQ(have.size(), want.size());
    for (size_t i = 0; i < have.size(); ++i)
      ASSERT_NEAR(have[i], want[i], bound * std::max(1.0, std::abs(want[i]))) << "element " << i;
  }
  static Values softmax(Values x, size_t cols) {
    for (size_t r = 0; r < x.size(); r += cols) {
      double most = -INFINITY, sum = 0;
      for (size_t c = 0; c < cols; ++c) most = std::max(most, x[r + c]);
      for (size_t c = 0; c < cols; ++c) sum += x[r + c] = std::exp(x[r + c] - most);
      for (size_t c = 0; c < cols; ++c) x[r + c] /= sum;
    }
    return x;
  }
  static Values product(const Values& a, const Values& b, size_t batch, size_t m, size_t n, size_t k) {
    Values result(batch * m * n);
    for (size_t i = 0; i < batch * m * n; ++i) {
      const size_t item = i / (m * n), r = i / n % m, c = i % n;
      for (size_t j = 0; j < k; ++j) result[i] += a[(item * m + r) * k + j] * b[(item * k + j) * n + c];
    }
    return result;
  }

  Context context_;
  uint64_t seed_ = 100;
};

TEST_P(ProgramMaps, SoftmaxOfRowsOfAnySize) {
  for (const auto& [m, n] : {std::pair{1, 1}, {3, 7}, {33, 512}, {2, 40000}, {700, 17}}) {
    const Tensor x = random({m, n});
    expect_near(run("def f(x: f32[\"m\", \"n\"]):\n    e = exp(x - max(x, dim=-1))\n    y = e / sum(e, dim=-1)\n"
                    "    return y\n",
                    {{"x", x.view()}}, {m, n}),
                softmax(values(x), static_cast<size_t>(n)), 1e-5);
  }
}

// Of one row, one column, one element, and without dims.
TEST_P(ProgramMaps, ProductsOfOneRowOrColumn) {
  for (const auto& [m, n] : {std::pair{1, 1}, {1, 5}, {5, 1}}) {
    const Tensor x = random({m, 7}), w = random({7, n});
    Values want = product(values(x), values(w), 1, static_cast<size_t>(m), static_cast<size_t>(n), 7);
    for (double& v : want) v = v * 0.5 + 1;
    const std::string head = "def f(x: f32[" + std::to_string(m) + ", 7], w: f32[7, " + std::to_string(n) + "]):\n";
    const std::vector<NamedArgument> arguments = {{"x", x.view()}, {"w", w.view()}};
    expect_near(run(head + "    y = (x @ w) * 0.5 + 1.0\n    return y\n", arguments, {m, n}), want, 1e-5);
    expect_near(run(head + "    y = reshape((x @ w) * 0.5 + 1.0, (-1,))\n    return y\n", arguments, {m * n}), want,
                1e-5);
    if (m * n == 1)
      expect_near(run(head + "    y = reshape((x @ w) * 0.5 + 1.0, ())\n    return y\n", arguments, {}), want, 1e-5);
  }
}

TEST_P(ProgramMaps, ReductionsOverAnyDims) {
  const int a = 4, b = 5, c = 6, d = 70;
  const Tensor x = random({a, b, c, d});
  const Values v = values(x);
  for (const std::vector<int>& dims : {std::vector<int>{3},
                                       {0},
                                       {1},
                                       {2},
                                       {0, 1},
                                       {2, 3},
                                       {1, 3},
                                       {0, 3},
                                       {0, 2},
                                       {0, 1, 2},
                                       {0, 1, 2, 3},
                                       {1, 2, 3}}) {
    std::string list;
    Dims shape{a, b, c, d};
    for (const int dim : dims) {
      list += (list.empty() ? "" : ", ") + std::to_string(dim);
      shape[dim] = 1;
    }
    const int sizes[] = {a, b, c, d};
    Values want(static_cast<size_t>(shape[0] * shape[1] * shape[2] * shape[3]));
    for (size_t i = 0; i < v.size(); ++i) {
      size_t at = 0, rest = i;
      size_t index[4];
      for (int k = 3; k >= 0; --k) {
        index[k] = rest % static_cast<size_t>(sizes[k]);
        rest /= static_cast<size_t>(sizes[k]);
      }
      for (int k = 0; k < 4; ++k) at = at * static_cast<size_t>(shape[k]) + (shape[k] == 1 ? 0 : index[k]);
      want[at] += v[i];
    }
    expect_near(run("def f(x: f32[4, 5, 6, 70]):\n    y = sum(x, dim=(" + list + ",))\n    return y\n",
                    {{"x", x.view()}}, shape),
                want, 1e-4);
    if (HasFatalFailure()) FAIL() << list;
  }
}

TEST_P(ProgramMaps, AttentionOverHeads) {
  const int b = 2, h = 3, s = 9, d = 8;
  const Tensor q = random({b, s, h * d}), k = random({b, s, h * d}), v = random({b, s, h * d});
  const auto heads = [&](const Tensor& t) {  // [b, h, s, d]
    const Values from = values(t);
    Values to(from.size());
    for (int i = 0; i < b * h * s * d; ++i) {
      const int item = i / (h * s * d), head = i / (s * d) % h, row = i / d % s, col = i % d;
      to[static_cast<size_t>(i)] = from[static_cast<size_t>(((item * s) + row) * h * d + head * d + col)];
    }
    return to;
  };
  const Values qh = heads(q), kh = heads(k), vh = heads(v);
  Values kt(kh.size());
  for (int i = 0; i < b * h; ++i) {
    for (int r = 0; r < s; ++r) {
      for (int c = 0; c < d; ++c)
        kt[static_cast<size_t>((i * d + c) * s + r)] = kh[static_cast<size_t>((i * s + r) * d + c)];
    }
  }
  Values scores = product(qh, kt, b * h, s, s, d);
  for (double& x : scores) x /= std::sqrt(8.0);
  const Values out = product(softmax(scores, s), vh, b * h, s, d, s);
  Values want(out.size());
  for (int i = 0; i < b * s * h * d; ++i) {
    const int item = i / (s * h * d), row = i / (h * d) % s, head = i / d % h, col = i % d;
    want[static_cast<size_t>(i)] = out[static_cast<size_t>(((item * h + head) * s + row) * d + col)];
  }
  expect_near(run("def f(q: f32[2, 9, 24], k: f32[2, 9, 24], v: f32[2, 9, 24]):\n"
                  "    qh = permute(reshape(q, [2, 9, 3, 8]), [0, 2, 1, 3])\n"
                  "    kh = permute(reshape(k, [2, 9, 3, 8]), [0, 2, 1, 3])\n"
                  "    vh = permute(reshape(v, [2, 9, 3, 8]), [0, 2, 1, 3])\n"
                  "    z = qh @ permute(kh, [0, 1, 3, 2]) * 0.35355339\n"
                  "    e = exp(z - max(z, dim=-1))\n"
                  "    p = e / sum(e, dim=-1)\n"
                  "    y = reshape(permute(p @ vh, [0, 2, 1, 3]), [2, 9, 24])\n"
                  "    return y\n",
                  {{"q", q.view()}, {"k", k.view()}, {"v", v.view()}}, {b, s, h * d}),
              want, 1e-5);
}

TEST_P(ProgramMaps, NormsAroundAProduct) {
  const int m = 21, n = 40, o = 12;
  const Tensor x = random({m, n}), g = random({n}), w = random({n, o});
  const Values xv = values(x), gv = values(g), wv = values(w);
  Values normed(xv.size());
  for (size_t r = 0; r < m; ++r) {
    double squares = 0;
    for (size_t c = 0; c < n; ++c) squares += xv[r * n + c] * xv[r * n + c];
    for (size_t c = 0; c < n; ++c) normed[r * n + c] = xv[r * n + c] / std::sqrt(squares / n + 1e-5) * gv[c];
  }
  Values want = product(normed, wv, 1, m, o, n);
  for (double& z : want) z = z / (1 + std::exp(-z));
  expect_near(run("def f(x: f32[\"m\", 40], g: f32[40], w: f32[40, 12]):\n"
                  "    r = x * rsqrt(mean(x * x, dim=-1) + 0.00001) * g\n    y = silu(r @ w)\n    return y\n",
                  {{"x", x.view()}, {"g", g.view()}, {"w", w.view()}}, {m, o}),
              want, 1e-4);
}

TEST_P(ProgramMaps, PartsAndIndices) {
  const Tensor x = random({6, 10}), t = random({7, 4});
  const Values xv = values(x), tv = values(t);
  Values want;
  for (size_t r = 0; r < 6; ++r) {
    for (size_t c = 0; c < 10; ++c) want.push_back(c < 5 ? -xv[r * 10 + c + 5] : xv[r * 10 + c - 5]);
  }
  expect_near(run("def f(x: f32[6, 10]):\n    y = join(-x[:, 5:10], x[:, 0:5], dim=-1)\n    return y\n",
                  {{"x", x.view()}}, {6, 10}),
              want, 1e-6);
  Tensor i = Tensor::make(i64, {5}).value();
  const int64_t indices[] = {3, -2, 6, 70, 1};  // out of range: the nearest that is there
  std::copy_n(indices, 5, i.view().as<int64_t>());
  want.clear();
  for (const int64_t index : indices) {
    for (size_t c = 0; c < 4; ++c)
      want.push_back(2 * tv[static_cast<size_t>(std::clamp<int64_t>(index, 0, 6)) * 4 + c]);
  }
  expect_near(run("def f(t: f32[7, 4], i: i64[5]):\n    y = take(t, i, dim=0) * 2.0\n    return y\n",
                  {{"t", t.view()}, {"i", i.view()}}, {5, 4}, false),
              want, 1e-6);
  Tensor u = Tensor::make(u64, {2}).value();
  u.view().as<uint64_t>()[0] = UINT64_MAX - 4;
  u.view().as<uint64_t>()[1] = 2;
  want.clear();
  for (const size_t index : {size_t{6}, size_t{2}}) {
    for (size_t c = 0; c < 4; ++c) want.push_back(tv[index * 4 + c]);
  }
  expect_near(run("def f(t: f32[7, 4], i: u64[2]):\n    y = take(t, i, dim=0)\n    return y\n",
                  {{"t", t.view()}, {"i", u.view()}}, {2, 4}, false),
              want, 1e-6);
}

// The position of an element is that in the value's own shape, whatever its product's rows and columns are called.
TEST_P(ProgramMaps, SymbolicSizesDropTheSameElements) {
  const auto dropped = [&](const std::string& x, const std::string& expression, const Tensor& a, const Dims& shape) {
    const Tensor w = Tensor::make(f32, {7, 8}).value();
    fill_random(w.view(), 5);
    return run("def f(x: f32[" + x + "], w: f32[7, 8]):\n    y = dropout(" + expression + ", 0.5, 7)\n    return y\n",
               {{"x", a.view()}, {"w", w.view()}}, shape);
  };
  const Tensor flat = random({5, 7}), batched = random({2, 5, 7});
  EXPECT_EQ(dropped("\"m\", 7", "transpose(x @ w)", flat, {8, 5}), dropped("5, 7", "transpose(x @ w)", flat, {8, 5}));
  EXPECT_EQ(dropped("\"m\", 7", "x @ w", flat, {5, 8}), dropped("5, 7", "x @ w", flat, {5, 8}));
  for (const char* x : {"\"b\", 5, 7", "\"b\", \"m\", 7"}) {
    for (const auto& [order, shape] :
         {std::pair<std::string, Dims>{"(1, 0, 2)", {5, 2, 8}}, {"(2, 1, 0)", {8, 5, 2}}}) {
      const std::string moved = "permute(x @ w, " + order + ")";
      EXPECT_EQ(dropped(x, moved, batched, shape), dropped("2, 5, 7", moved, batched, shape)) << x << " " << order;
    }
  }
}

TEST_P(ProgramMaps, SizesOfDimsThatFoldIntoOneAxis) {
  const Tensor x = random({3, 2, 5, 7}), w = random({3, 2, 7, 8});
  const auto dropped = [&](const std::string& batch) {
    return run("def f(x: f32[" + batch + ", 2, 5, 7], w: f32[" + batch +
                   ", 2, 7, 8]):\n    y = dropout(permute(x @ w, (1, 0, 2, 3)), 0.5, 3)\n    return y\n",
               {{"x", x.view()}, {"w", w.view()}}, {2, 3, 5, 8});
  };
  EXPECT_EQ(dropped("\"b\""), dropped("3"));
}

TEST_P(ProgramMaps, SizesThatAreNoneForWhatIsTakenForAnUnknownOne) {
  const Tensor x = random({610, 3}), y = random({10, 3}), w = random({3, 4});
  Values want = values(y);
  for (double& v : want) v = std::max(v, 0.0) + 1;
  expect_near(run("def f(x: f32[\"n\", 3], z: f32[\"n - 600\", 3]):\n    y = relu(z) + 1.0\n    s = sum(x)\n"
                  "    return y, s\n",
                  {{"x", x.view()}, {"z", y.view()}, {"s", random({1, 1}).view()}}, {10, 3}),
              want, 1e-6);
  expect_near(run("def f(x: f32[\"n\", 3], z: f32[\"n - 600\", 3], w: f32[3, 4]):\n    y = (relu(z) + 1.0) @ w\n"
                  "    s = sum(x)\n    return y, s\n",
                  {{"x", x.view()}, {"z", y.view()}, {"w", w.view()}, {"s", random({1, 1}).view()}}, {10, 4}),
              product(want, values(w), 1, 10, 4, 3), 1e-5);
}

// More reductions in a row than a kernel holds: cut where one value is all that goes on.
TEST_P(ProgramMaps, LongChainsAreCutAtTheirWaist) {
  // Two kernels of 64 reductions compile for 10 s: every second of the commits that SetUp lets through has them, by a
  // number that says nothing of theirs.
  if (!GetParam() && !test::commit_takes(test::commit_slice() / 2, 2)) GTEST_SKIP() << "compiled by other commits";
  constexpr int turns = 70;
  std::string text = "def f(x: f32[\"n\", 16]):\n    h0 = x\n";
  for (int i = 0; i < turns; ++i) text += fmt::format("    h{} = softmax(h{}) + h{} * 0.5\n", i + 1, i, i);
  text += fmt::format("    y = h{}\n    return y\n", turns);
  const Tensor x = random({5, 16});
  Values want = values(x);
  for (int i = 0; i < turns; ++i) {
    const Values s = softmax(want, 16);
    for (size_t e = 0; e < want.size(); ++e) want[e] = s[e] + want[e] * 0.5;
  }
  expect_near(run(text, {{"x", x.view()}}, {5, 16}), want, 1e-5);
  const auto compiled = codetta::compile(*Program::parse(text, "p.py"), Target::host(), {}, context_);
  ASSERT_TRUE(compiled);
  const std::string plan = *compiled->emit(Stage::Plan);
  int kernels = 0;
  for (size_t at = plan.find("\nkernel "); at != std::string::npos; at = plan.find("\nkernel ", at + 1)) ++kernels;
  EXPECT_LE(kernels, 8) << plan;  // 140 reductions, of which a kernel holds 64
  EXPECT_GE(kernels, 3);
}

TEST_P(ProgramMaps, PartsThatLieInMemoryAnyway) {
  const Tensor x = random({5, 7}), w = random({7, 4});
  const Values p = product(values(x), values(w), 1, 5, 4, 7);
  for (const char* body : {"y = join(x @ w, x @ w * 2.0, dim=0)", "y = concat(x @ w, x @ w * 2.0, dim=0)"}) {
    Values want = p;
    for (const double v : p) want.push_back(2 * v);
    expect_near(run(std::string("def f(x: f32[\"m\", 7], w: f32[7, 4]):\n    ") + body + "\n    return y\n",
                    {{"x", x.view()}, {"w", w.view()}}, {10, 4}),
                want, 1e-5);
  }
  Values nested;  // a part that is a join itself
  for (int i = 0; i < 4; ++i) {
    for (const double v : p) nested.push_back((i % 2 == 0 ? v : 2 * v) + (i < 2 ? 0 : 1));
  }
  expect_near(run("def f(x: f32[\"m\", 7], w: f32[7, 4]):\n    p = x @ w\n    c = concat(p, p * 2.0, dim=0)\n"
                  "    y = concat(c, c + 1.0, dim=0)\n    return y\n",
                  {{"x", x.view()}, {"w", w.view()}}, {20, 4}),
              nested, 1e-5);
}

// What is joined to a product and is the same along what is reduced is there once, however long that is.
TEST_P(ProgramMaps, AJoinedPartThatIsTheSameAlongAnAxisCountsOnce) {
  const Tensor x = random({5, 7}), w = random({7, 4}), column = random({5, 1}), row = random({1, 4});
  const Values p = product(values(x), values(w), 1, 5, 4, 7), b = values(column), r = values(row);
  struct Case {
    const char* name;
    std::function<double(const Values&)> of;
  };
  const auto sum_exp = [](const Values& v) {
    return std::accumulate(v.begin(), v.end(), 0.0, [](double sum, double e) { return sum + std::exp(e); });
  };
  const Case cases[] = {
      {"sum(j, dim={})", [](const Values& v) { return std::accumulate(v.begin(), v.end(), 0.0); }},
      {"mean(j, dim={})",
       [](const Values& v) { return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size()); }},
      {"logsumexp(j, dim={})", [&](const Values& v) { return std::log(sum_exp(v)); }},
      {"max(j, dim={})", [](const Values& v) { return *std::max_element(v.begin(), v.end()); }},
      {"sum(softmax(j, dim={0}) * j, dim={0})", [&](const Values& v) {
         double result = 0;
         for (const double e : v) result += std::exp(e) * e / sum_exp(v);
         return result;
       }}};
  for (const Case& one : cases) {
    for (const int dim : {0, 1}) {
      Values want;
      for (size_t i = 0; i < (dim == 0 ? 4U : 5U); ++i) {
        Values line;
        for (size_t j = 0; j < (dim == 0 ? 5U : 4U); ++j) line.push_back(dim == 0 ? p[j * 4 + i] : p[i * 4 + j]);
        line.push_back(dim == 0 ? r[i] : b[i]);
        want.push_back(one.of(line));
      }
      const std::string text = fmt::format(
          "def f(x: f32[5, 7], w: f32[7, 4], c: f32[{}]):\n    j = concat(x @ w, c, dim={})\n    y = {}\n    return "
          "y\n",
          dim == 0 ? "1, 4" : "5, 1", dim, fmt::format(fmt::runtime(one.name), dim));
      expect_near(run(text, {{"x", x.view()}, {"w", w.view()}, {"c", (dim == 0 ? row : column).view()}},
                      dim == 0 ? Dims{1, 4} : Dims{5, 1}),
                  want, 1e-4);
    }
  }
}

// A copy that lies without gaps is read by index arithmetic of its new shape, whose offsets pass the old one's sizes.
TEST_P(ProgramMaps, SlicesOfANewShape) {
  const Tensor x = random({8, 12}), flat = random({96}), square = random({4, 24});
  const Values a = values(x), f = values(flat), s = values(square);
  Values tail, middle;
  for (size_t i = 34; i < 96; ++i) tail.push_back(a[i] * f[i]);
  expect_near(run("def f(x: f32[8, 12], w: f32[96]):\n    p = reshape(x, (96,)) * w\n    y = p[34:96]\n    return y\n",
                  {{"x", x.view()}, {"w", flat.view()}}, {62}),
              tail, 1e-6);
  for (size_t r = 1; r < 3; ++r) {
    for (size_t c = 5; c < 20; ++c) middle.push_back(a[r * 24 + c] * s[r * 24 + c]);
  }
  expect_near(run("def f(x: f32[8, 12], w: f32[4, 24]):\n    p = reshape(x, (4, 24)) * w\n    y = p[1:3, 5:20]\n"
                  "    return y\n",
                  {{"x", x.view()}, {"w", square.view()}}, {2, 15}),
              middle, 1e-6);
}

TEST_P(ProgramMaps, ConcatOfPartsOfAnySize) {
  const std::string text = "def p(x: f32['n', 8], z: f32['m', 8]):\n    y = concat(x, z)\n    return y\n";
  for (const int64_t n : {0, 1, 2, 3}) {
    for (const int64_t m : {0, 1, 2}) {
      const Tensor x = random({n, 8}), z = random({m, 8});
      Values want = values(x);
      const Values more = values(z);
      want.insert(want.end(), more.begin(), more.end());
      expect_near(run(text, {{"x", x.view()}, {"z", z.view()}}, {n + m, 8}), want, 0);
    }
  }
  // Parts along the columns, made of a product and of sums.
  const std::string wide =
      "def p(x: f32['n', 'k'], w: f32['k', 'm'], b: f32['n', 1]):\n    h = x @ w\n"
      "    y = concat(h, b, sum(h, dim=-1), dim=1)\n    return y\n";
  for (const int64_t n : {0, 1, 2}) {
    for (const int64_t m : {0, 1, 3}) {
      for (const int64_t k : {0, 2}) {
        const Tensor x = random({n, k}), w = random({k, m}), b = random({n, 1});
        const Values vx = values(x), vw = values(w), vb = values(b);
        Values want;
        for (int64_t i = 0; i < n; ++i) {
          double sum = 0;
          for (int64_t j = 0; j < m; ++j) {
            double h = 0;
            for (int64_t l = 0; l < k; ++l)
              h += vx[static_cast<size_t>(i * k + l)] * vw[static_cast<size_t>(l * m + j)];
            want.push_back(h);
            sum += h;
          }
          want.push_back(vb[static_cast<size_t>(i)]);
          want.push_back(sum);
        }
        expect_near(run(wide, {{"x", x.view()}, {"w", w.view()}, {"b", b.view()}}, {n, m + 2}), want, 1e-4);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Both, ProgramMaps, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "interpreted" : "compiled"; });

}  // namespace
}  // namespace codetta

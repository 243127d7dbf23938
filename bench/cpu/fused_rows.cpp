// SPDX-License-Identifier: Apache-2.0
// Epilogues that no peer fuses whole, against the best peer with the best of its ways: a product and a loop, or a
// product with the part that it fuses and a loop for the rest.
#include <iterator>

#include "bench/cpu/machine.hpp"
#include "bench/cpu/rows.hpp"
#include "bench/cpu/tails.hpp"

namespace codetta::bench {
namespace {

struct Shape {
  int64_t m, n, k;
  DType a;
  double floor;
};

std::string text_of(const Shape& s) {
  const std::string size = s.m == s.n && s.n == s.k
                               ? std::to_string(s.m) + "^3"
                               : std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
  return size + (s.a == u8 ? " u8s8" : s.a == bf16 ? " bf16" : " f32");
}

DenseRow describe(const std::string& what, const Shape& s) {
  DenseRow row{what, 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k),
               0,    {},
               0,    {s.floor, 0}};
  if (const PeakLoop peak = peak_loop(s.a); peak.run) {
    row.limit = Contender{"peak", peak.run};
    row.limit_work = peak.operations;
  }
  return row;
}

// Every peer's product, followed by `tail`.
void then(std::vector<Contender>& all, std::vector<Contender> products, const char* how,
          const std::function<void()>& tail) {
  for (Contender& c : products) all.push_back({c.name + how, [run = std::move(c.run), tail] { run(), tail(); }});
}

struct Operands {
  Shape s;
  DType b, d;
  Tensor A, B, C, D, F, product;
  explicit Operands(const Shape& shape)
      : s(shape),
        b(s.a == u8 ? i8 : s.a),
        d(s.a == u8 ? i8 : s.a),
        A(random_tensor(s.a, {s.m, s.k}, 1)),
        B(random_tensor(b, {s.k, s.n}, 2)),
        C(random_tensor(s.a == u8 ? f32 : s.a, {s.m, s.n}, 3)),
        D(zeros(d, {s.m, s.n})),
        F(zeros(d, {s.m, s.n})),
        product(zeros(s.a == u8 ? i32 : f32, {s.m, s.n})) {}
  [[nodiscard]] OneDnnProblem onednn(DType out, const void* to) const {
    OneDnnProblem problem{s.m, s.n, s.k, s.a, b, out, A.data(), B.data(), const_cast<void*>(to)};
    problem.prepacked = true;
    return problem;
  }
  [[nodiscard]] std::vector<Contender> products() const {
    std::vector<Contender> all = onednn_products(onednn(product.view().dtype(), product.data()));
    if (s.a == f32) {
      auto blas = f32_products(A.view().as<float>(), B.view().as<float>(), product.view().as<float>(), s.m, s.n, s.k);
      all.insert(all.end(), std::make_move_iterator(blas.begin()), std::make_move_iterator(blas.end()));
    }
    return all;
  }
};

template <class T>
void relu_aux_row(Table& table, const std::string& what, const Shape& s) {
  const Operands o(s);
  constexpr float alpha = 0.5f;
  const GemmArguments arguments{
      .A = o.A,
      .B = o.B,
      .out = o.D,
      .epilogue = {example("relu_aux_store"), {{"alpha", alpha}, {"C", o.C}, {"D", o.D}, {"F", o.F}}}};
  const Tensor peer_D = zeros(o.d, {s.m, s.n}), peer_F = zeros(o.d, {s.m, s.n});
  const int64_t count = s.m * s.n;
  T *D = peer_D.view().as<T>(), *F = peer_F.view().as<T>();
  const T* C = o.C.view().as<T>();
  const float* product = o.product.view().as<float>();
  std::vector<Contender> peers;
  then(peers, o.products(), " + loop", [=] { tail_relu_aux(product, C, alpha, D, F, count); });
  // F fused: alpha * accum / 2 + C, doubled.
  OneDnnProblem fused = o.onednn(o.d, peer_F.data());
  fused.steps = {{OneDnnStep::Kind::Scale, nullptr, f32, 1, 1, alpha / 2, 0},
                 {OneDnnStep::Kind::Add, o.C.data(), o.d, s.m, s.n},
                 {OneDnnStep::Kind::Scale, nullptr, f32, 1, 1, 2, 0}};
  then(peers, onednn_products(fused), " with F + loop", [=] { tail_relu(F, D, count); });
  table.race_row(describe(what, s), ours({arguments}, true), peers);
}

template <class T>
void row_sums_row(Table& table, const std::string& what, const Shape& s) {
  const Operands o(s);
  const Tensor sums = zeros(f32, {s.m, 1}), squares = zeros(f32, {s.m, 1});
  const GemmArguments arguments{
      .A = o.A,
      .B = o.B,
      .out = o.D,
      .epilogue = {example("residual_row_sums"),
                   {{"residual", o.C}, {"D", o.D}, {"row_sums", sums}, {"row_squares", squares}}}};
  const Tensor peer_D = zeros(o.d, {s.m, s.n}), peer_sums = zeros(f32, {s.m, 1}), peer_squares = zeros(f32, {s.m, 1});
  T* D = peer_D.view().as<T>();
  const T* C = o.C.view().as<T>();
  float *s1 = peer_sums.view().as<float>(), *s2 = peer_squares.view().as<float>();
  const float* product = o.product.view().as<float>();
  std::vector<Contender> peers;
  then(peers, o.products(), " + loop", [=] { tail_row_sums(product, C, D, s1, s2, s.m, s.n); });
  OneDnnProblem fused = o.onednn(o.d, peer_D.data());
  fused.steps = {{OneDnnStep::Kind::Add, o.C.data(), o.d, s.m, s.n}};
  then(peers, onednn_products(fused), " with D + loop", [=] { tail_row_sums_of(D, s1, s2, s.m, s.n); });
  table.race_row(describe(what, s), ours({arguments}, true), peers);
}

void requantize_row(Table& table, const std::string& what, const Shape& s) {
  const Operands o(s);
  const Tensor rows = random_tensor(f32, {s.m, 1}, 4, Distribution::Small),
               columns = random_tensor(f32, {s.n}, 5, Distribution::Small), bias = random_tensor(f32, {s.n}, 6);
  const GemmArguments arguments{
      .A = o.A,
      .B = o.B,
      .out = o.D,
      .epilogue = {example("requantize_int8"),
                   {{"row_scale", rows}, {"column_scale", columns}, {"bias", bias}, {"D", o.D}}}};
  const Tensor peer_D = zeros(i8, {s.m, s.n});
  const auto* product = o.product.view().as<int32_t>();
  const float *r = rows.view().as<float>(), *c = columns.view().as<float>(), *b = bias.view().as<float>();
  auto* D = peer_D.view().as<int8_t>();
  std::vector<Contender> peers;
  then(peers, o.products(), " + loop", [=] { tail_requantize(product, r, c, b, D, s.m, s.n); });
  // All of it as three binary post-operations, the store to i8 saturating.
  OneDnnProblem fused = o.onednn(i8, peer_D.data());
  fused.steps = {{OneDnnStep::Kind::Multiply, rows.data(), f32, s.m, 1},
                 {OneDnnStep::Kind::Multiply, columns.data(), f32, 1, s.n},
                 {OneDnnStep::Kind::Add, bias.data(), f32, 1, s.n}};
  then(peers, onednn_products(fused), " fused by post-ops", [] {});
  table.race_row(describe(what, s), ours({arguments}, true), peers);
}

}  // namespace

Table two_output_rows(const std::string& filter) {
  Table table("Epilogues that no peer fuses whole, one core, weights packed beforehand",
              std::string("Peers take the faster of two ways: a plain product and one vectorized loop (") +
                  tail_instructions() + "), or what they fuse and a loop for the rest.");
  const Shape floats[] = {{512, 3072, 64, f32, 1.3},
                          {4096, 512, 32, bf16, 1.3},
                          {1024, 1024, 1024, f32, 1.03},
                          {1024, 1024, 1024, bf16, 1.03}};
  for (const Shape& s : floats) {
    const std::string aux = "relu_aux_store " + text_of(s), sums = "residual + row sums " + text_of(s);
    if (wanted(filter, aux)) s.a == f32 ? relu_aux_row<float>(table, aux, s) : relu_aux_row<uint16_t>(table, aux, s);
    if (wanted(filter, sums)) s.a == f32 ? row_sums_row<float>(table, sums, s) : row_sums_row<uint16_t>(table, sums, s);
  }
  for (const Shape& s : {Shape{256, 256, 256, u8, 1.3}, Shape{1024, 1024, 1024, u8, 1.03}}) {
    const std::string what = "dequantize + bias + clamp to i8 " + text_of(s);
    if (wanted(filter, what)) requantize_row(table, what, s);
  }
  return table;
}

}  // namespace codetta::bench

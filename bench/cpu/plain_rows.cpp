// SPDX-License-Identifier: Apache-2.0
// Products without an epilogue, and with bias and GELU: what the peers can do as well.
#include "bench/cpu/machine.hpp"
#include "bench/cpu/rows.hpp"

namespace codetta::bench {

bool wanted(const std::string& filter, const std::string& row) { return row.find(filter) != std::string::npos; }

namespace {

struct Shape {
  int64_t m, n, k;
  [[nodiscard]] std::string text() const {
    if (m == n && n == k) return std::to_string(m) + "^3";
    return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  }
  [[nodiscard]] double operations() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

const char* name_of(DType a) { return a == u8 ? "u8s8" : a == bf16 ? "bf16" : "f32"; }

DenseRow describe(const std::string& what, const Shape& s, DType a, const Floors& floors) {
  DenseRow row{what, s.operations(), 0, {}, 0, floors};
  if (const PeakLoop peak = peak_loop(a); peak.run) {
    row.limit = Contender{"peak", peak.run};
    row.limit_work = peak.operations;
  }
  return row;
}

struct Operands {
  DType a, b;
  Tensor A, B, D, peer_D;
  Operands(const Shape& s, DType dtype, DType d)
      : a(dtype),
        b(dtype == u8 ? i8 : dtype),
        A(random_tensor(a, {s.m, s.k}, 1)),
        B(random_tensor(b, {s.k, s.n}, 2)),
        D(zeros(d, {s.m, s.n})),
        peer_D(zeros(d, {s.m, s.n})) {}
};

}  // namespace

Table plain_rows(const std::string& filter) {
  Table table("Plain products, one core, weights packed beforehand",
              "D in the accumulator's type. The limit is a loop of multiply-adds from registers.");
  for (const Shape& s : {Shape{2048, 2048, 2048}, Shape{512, 3072, 768}}) {
    for (const DType a : {f32, bf16, u8}) {
      const std::string what = std::string("plain ") + s.text() + " " + name_of(a);
      if (!wanted(filter, what)) continue;
      const DType d = a == u8 ? i32 : f32;
      const Operands o(s, a, d);
      const GemmArguments arguments{
          .A = o.A, .B = o.B, .out = o.D, .epilogue = {"def plain(accum): D = accum; return D", {{"D", o.D}}}};
      OneDnnProblem problem{s.m, s.n, s.k, o.a, o.b, d, o.A.data(), o.B.data(), o.peer_D.data()};
      problem.prepacked = true;
      std::vector<Contender> peers = onednn_products(problem);
      if (a == f32) {
        for (Contender& c :
             f32_products(o.A.view().as<float>(), o.B.view().as<float>(), o.peer_D.view().as<float>(), s.m, s.n, s.k))
          peers.push_back(std::move(c));
      }
      table.race_row(describe(what, s, a, {1.0, 0.95}), ours({arguments}, true), peers);
    }
  }
  return table;
}

Table gelu_rows(const std::string& filter) {
  Table table("Bias and GELU, one core, weights packed beforehand",
              "GELU in its tanh form; oneDNN fuses both. D in the type of A, for u8s8 in f32 with a scale.");
  struct Case {
    Shape shape;
    DType a;
    double floor;
  };
  const Case cases[] = {{{512, 3072, 768}, f32, 1.0}, {{512, 3072, 768}, bf16, 1.1}, {{512, 3072, 768}, u8, 1.0},
                        {{128, 128, 128}, bf16, 1.3}, {{256, 256, 256}, bf16, 1.2},  {{256, 256, 256}, u8, 1.2}};
  for (const Case& c : cases) {
    const Shape& s = c.shape;
    const std::string what = "bias + GELU " + s.text() + " " + name_of(c.a);
    if (!wanted(filter, what)) continue;
    const DType d = c.a == u8 ? f32 : c.a;
    const Operands o(s, c.a, d);
    const Tensor bias = random_tensor(f32, {s.n}, 3);
    constexpr float scale = 1e-4f;
    GemmArguments arguments{.A = o.A, .B = o.B, .out = o.D};
    OneDnnProblem problem{s.m, s.n, s.k, o.a, o.b, d, o.A.data(), o.B.data(), o.peer_D.data()};
    if (c.a == u8) {
      arguments.epilogue = {
          "def scaled_bias_gelu(accum, scale, bias): D = gelu(accum * scale + bias, approximate=\"tanh\"); return D",
          {{"scale", scale}, {"bias", bias}, {"D", o.D}}};
      problem.steps = {{OneDnnStep::Kind::Scale, nullptr, f32, 1, 1, scale, 0},
                       {OneDnnStep::Kind::Add, bias.data(), f32, 1, s.n}};
    } else {
      arguments.epilogue = {"def bias_gelu(accum, bias): D = gelu(accum + bias, approximate=\"tanh\"); return D",
                            {{"bias", bias}, {"D", o.D}}};
      problem.bias = bias.data();
    }
    problem.steps.push_back({OneDnnStep::Kind::GeluTanh, nullptr, f32, 1, 1, 0, 0});
    problem.prepacked = true;
    table.race_row(describe(what, s, c.a, {c.floor, 0}), ours({arguments}, true), onednn_products(problem));
  }
  return table;
}

}  // namespace codetta::bench

// SPDX-License-Identifier: Apache-2.0
// Each rule fires on its own example and keeps the meaning; what looks like a rule but isn't exact stays; runner.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "compare.hpp"
#include "opt/passes.hpp"
#include "opt/rules.hpp"

namespace codetta::opt::test {
namespace {

// A graph over x: f32[4, 6], y: f32[4, 6], i: i32[4, 6], b: bool[4, 6], h: bf16[4, 6].
struct Sketch {
  ir::GraphBuilder builder;
  NodeId x, y, i, b, h;
  Sketch() {
    const std::vector<ir::Dim> shape = oracle::test::dims({4, 6});
    x = builder.add_input("x", {DType::f32, false, shape});
    y = builder.add_input("y", {DType::f32, false, shape});
    i = builder.add_input("i", {DType::i32, false, shape});
    b = builder.add_input("b", {DType::boolean, false, shape});
    h = builder.add_input("h", {DType::bf16, false, shape});
  }
  NodeId operator()(Op op, std::vector<NodeId> operands, ir::Attr attr = {}) {
    Result<NodeId> node = builder.add(op, operands, std::move(attr));
    EXPECT_TRUE(node) << node.error().render();
    return *node;
  }
  NodeId real(double v) { return builder.add_literal({ir::LiteralAttr::Kind::Float, 0, v}); }
  NodeId f32(double v) { return builder.add_literal({ir::LiteralAttr::Kind::Float, 0, v}, DType::f32); }
  NodeId integer(int64_t v) { return builder.add_literal({ir::LiteralAttr::Kind::Int, v, 0}); }
  NodeId boolean(bool v) { return builder.add_literal({ir::LiteralAttr::Kind::Bool, v ? 1 : 0, 0}); }
  NodeId to(NodeId n, DType d) { return (*this)(Op::cast, {n}, ir::CastAttr{d}); }
  NodeId permute(NodeId n) { return (*this)(Op::permute, {n}, ir::PermuteAttr{{1, 0}}); }
  NodeId reshape(NodeId n, std::vector<int64_t> s) {
    return (*this)(Op::reshape, {n}, ir::ReshapeAttr{oracle::test::dims(s)});
  }
  NodeId split(NodeId n, int part) { return (*this)(Op::split, {n}, ir::SplitAttr{2, part, 1}); }
  NodeId rows(NodeId n, int64_t count) {
    return (*this)(Op::slice, {n},
                   ir::SliceAttr{.dim = 0, .start = ir::Dim::constant(0), .count = ir::Dim::constant(count)});
  }
  ir::Graph finish(NodeId node) {
    builder.add_output("D", node, builder.type(node).dtype);
    Result<ir::Graph> graph = std::move(builder).finish();
    EXPECT_TRUE(graph) << graph.error().render();
    return *graph;
  }
};
using Draw = std::function<NodeId(Sketch&)>;

uint32_t times(const Optimized& optimized, std::string_view rule) {
  uint32_t count = 0;
  for (const PassRecord& record : optimized.passes) {
    for (const Fired& f : record.fired) count += f.rule == rule ? f.count : 0;
  }
  return count;
}

// The outermost sign keeps the output from being an input.
const std::multimap<std::string_view, Draw>& examples() {
  static const std::multimap<std::string_view, Draw> rows = {
      {"mul_one",
       [](Sketch& s) {
         return s(Op::sin, {s(Op::mul, {s.x, s.real(1)})});
       }},
      {"mul_one",
       [](Sketch& s) {
         return s(Op::mul, {s.real(1), s.h});
       }},
      {"mul_one",
       [](Sketch& s) {
         return s(Op::mul, {s.i, s.integer(1)});
       }},
      {"div_one",
       [](Sketch& s) {
         return s(Op::div, {s.i, s.real(1)});
       }},
      {"div_one",
       [](Sketch& s) {
         return s(Op::floordiv, {s.i, s.integer(1)});
       }},
      {"pow_one",
       [](Sketch& s) {
         return s(Op::pow, {s.i, s.integer(1)});
       }},
      {"sub_zero",
       [](Sketch& s) {
         return s(Op::div, {s.real(1), s(Op::sub, {s.x, s.real(0)})});
       }},
      {"add_zero",
       [](Sketch& s) {
         return s(Op::div, {s.real(1), s(Op::add, {s.real(-0.0), s.x})});
       }},
      {"add_zero",
       [](Sketch& s) {
         return s(Op::add, {s.i, s.integer(0)});
       }},
      {"neg_neg", [](Sketch& s) { return s(Op::neg, {s(Op::neg, {s.i})}); }},
      {"not_not", [](Sketch& s) { return s(Op::logical_not, {s(Op::logical_not, {s.b})}); }},
      {"add_neg",
       [](Sketch& s) {
         return s(Op::add, {s.x, s(Op::neg, {s.y})});
       }},
      {"sub_neg",
       [](Sketch& s) {
         return s(Op::sub, {s.i, s(Op::neg, {s.i})});
       }},
      {"mul_neg_neg",
       [](Sketch& s) {
         return s(Op::mul, {s(Op::neg, {s.x}), s(Op::neg, {s.y})});
       }},
      {"abs_neg", [](Sketch& s) { return s(Op::abs, {s(Op::neg, {s.x})}); }},
      {"idempotent", [](Sketch& s) { return s(Op::relu, {s(Op::relu, {s.x})}); }},
      {"idempotent", [](Sketch& s) { return s(Op::round, {s(Op::round, {s.x})}); }},
      {"integer_rounding", [](Sketch& s) { return s(Op::floor, {s.i}); }},
      {"equal_operands",
       [](Sketch& s) {
         return s(Op::maximum, {s.x, s.x});
       }},
      {"logical_neutral",
       [](Sketch& s) {
         return s(Op::logical_and, {s.b, s.boolean(true)});
       }},
      {"logical_neutral",
       [](Sketch& s) {
         return s(Op::logical_xor, {s.boolean(false), s.b});
       }},
      {"where_known",
       [](Sketch& s) {
         return s(Op::where, {s.boolean(false), s.x, s.y});
       }},
      {"where_same",
       [](Sketch& s) {
         return s(Op::where, {s.b, s.x, s.x});
       }},
      {"where_not",
       [](Sketch& s) {
         return s(Op::where, {s(Op::logical_not, {s.b}), s.x, s.y});
       }},
      {"not_equal",
       [](Sketch& s) {
         return s(Op::logical_not, {s(Op::eq, {s.x, s.y})});
       }},
      {"not_ordered",
       [](Sketch& s) {
         return s(Op::logical_not, {s(Op::lt, {s.i, s.integer(3)})});
       }},
      {"cast_same", [](Sketch& s) { return s.to(s.x, DType::f32); }},
      {"cast_there_and_back", [](Sketch& s) { return s.to(s.to(s.h, DType::f32), DType::bf16); }},
      {"permute_identity", [](Sketch& s) { return s.permute(s.permute(s.x)); }},
      {"permute_permute", [](Sketch& s) { return s.permute(s.permute(s.x)); }},
      {"reshape_identity",
       [](Sketch& s) {
         return s.reshape(s.x, {4, 6});
       }},
      {"reshape_reshape",
       [](Sketch& s) {
         return s.reshape(s.reshape(s.x, {2, 12}), {8, 3});
       }},
      {"split_join",
       [](Sketch& s) {
         return s.split(s(Op::join, {s.x, s.y}, ir::JoinAttr{1, false}), 1);
       }},
      {"join_split",
       [](Sketch& s) {
         return s(Op::join, {s.split(s.x, 0), s.split(s.x, 1)}, ir::JoinAttr{1, false});
       }},
      {"join_empty",
       [](Sketch& s) {
         return s(Op::join, {s.rows(s.y, 0), s.x, s.rows(s.x, 0)}, ir::JoinAttr{0, false});
       }},
      {"join_empty",
       [](Sketch& s) {
         return s(Op::join, {s.x, s.rows(s.y, 0), s.rows(s.y, 3)}, ir::JoinAttr{0, false});
       }},
      {"permute_through",
       [](Sketch& s) {
         return s.permute(s(Op::add, {s.permute(s.x), s.permute(s.y)}));
       }},
      {"permute_through",
       [](Sketch& s) {
         return s.permute(s(Op::where, {s.permute(s.b), s.permute(s.x), s.real(2)}));
       }},
      {"reshape_through",
       [](Sketch& s) {
         return s.reshape(s(Op::mul, {s.reshape(s.x, {24}), s.real(3)}), {4, 6});
       }},
      {"fold_arithmetic",
       [](Sketch& s) {
         return s(Op::mul, {s.x, s(Op::div, {s.f32(1), s.f32(3)})});
       }},
      {"fold_arithmetic",
       [](Sketch& s) {
         return s(Op::add, {s.i, s(Op::mul, {s.to(s.integer(1 << 30), DType::i32), s.to(s.integer(6), DType::i32)})});
       }},
      {"fold_cast",
       [](Sketch& s) {
         return s(Op::mul, {s.x, s.to(s.f32(2.7), DType::i8)});
       }},
      {"fold_spread_cast",
       [](Sketch& s) {
         const NodeId spread = s(Op::broadcast, {s.real(2.7)}, ir::ReshapeAttr{oracle::test::dims({4, 6})});
         return s(Op::mul, {s.x, s.to(spread, DType::f32)});
       }},
      {"fold_spread_cast",
       [](Sketch& s) {
         const NodeId spread = s(Op::broadcast, {s.real(-300.5)}, ir::ReshapeAttr{oracle::test::dims({4, 6})});
         return s(Op::add, {s.i, s.to(spread, DType::i8)});
       }},
      {"fold_comparison",
       [](Sketch& s) {
         return s(Op::where, {s(Op::lt, {s.f32(1), s.f32(2)}), s.x, s.y});
       }},
      {"fold_logical",
       [](Sketch& s) {
         return s(Op::where, {s(Op::logical_not, {s(Op::lt, {s.f32(1), s.f32(2)})}), s.x, s.y});
       }},
      {"common_subexpression",
       [](Sketch& s) {
         return s(Op::div, {s(Op::add, {s.x, s.y}), s(Op::add, {s.y, s.x})});
       }},
  };
  return rows;
}

TEST(Rules, EachFiresAndKeepsTheMeaning) {
  for (const auto& [rule, draw] : examples()) {
    Sketch sketch;
    const ir::Graph graph = sketch.finish(draw(sketch));
    const Result<Optimized> optimized = optimize(graph);
    ASSERT_TRUE(optimized) << rule << optimized.error().render();
    EXPECT_GT(times(*optimized, rule), 0u) << rule << "\n" << ir::print(graph);
    for (uint64_t seed = 0; seed < 20; ++seed) EXPECT_TRUE(same_meaning(graph, optimized->graph, seed)) << rule;
    EXPECT_LE(optimized->graph.size(), graph.size()) << rule << "\n" << ir::print(graph) << ir::print(optimized->graph);
  }
}

TEST(Rules, AllHaveAnExample) {
  for (const auto table : {algebra_rules(), layout_rules(), fold_rules(), mixed_dims_rules()}) {
    for (const Rule& rule : table) {
      const bool elsewhere = rule.name == "loop_invariant" || rule.name == "reshape_mixed";  // programs_test.cpp
      EXPECT_TRUE(elsewhere || examples().contains(rule.name)) << rule.name;
    }
  }
}

TEST(Rules, InexactIdentitiesStay) {
  const Draw rows[] = {
      [](Sketch& s) {
        return s(Op::mul, {s.x, s.real(0)});
      },
      [](Sketch& s) {
        return s(Op::add, {s.x, s.real(0.0)});
      },
      [](Sketch& s) {
        return s(Op::sub, {s.x, s.real(-0.0)});
      },
      [](Sketch& s) {
        return s(Op::sub, {s.x, s.x});
      },
      [](Sketch& s) {
        return s(Op::logical_not, {s(Op::lt, {s.x, s.y})});
      },
      [](Sketch& s) { return s.to(s.to(s.x, DType::bf16), DType::f32); },
      [](Sketch& s) { return s.to(s.to(s.i, DType::f32), DType::i32); },
      [](Sketch& s) { return s(Op::exp, {s.f32(1)}); },
      [](Sketch& s) { return s(Op::abs, {s(Op::neg, {s.to(s.x, DType::u16)})}); },
      [](Sketch& s) {
        return s.permute(s(Op::dropout, {s.permute(s.x), s.real(0.5), s.integer(1)}));
      },
      [](Sketch& s) {
        return s.permute(s(Op::add, {s.x, s.y}));
      },
      [](Sketch& s) {
        return s(Op::join, {s.split(s.x, 1), s.split(s.x, 0)}, ir::JoinAttr{1, false});
      },
  };
  for (const Draw& draw : rows) {
    Sketch sketch;
    const ir::Graph graph = sketch.finish(draw(sketch));
    const Result<Optimized> optimized = optimize(graph);
    ASSERT_TRUE(optimized);
    EXPECT_TRUE(optimized->graph == graph) << ir::print(graph) << ir::print(optimized->graph);
  }
}

// The formula holds for a probability that a pass computes, whatever it is; one that is written must be a probability.
TEST(Runner, ComputedProbabilities) {
  const auto graph = [] {
    Sketch s;
    return s.finish(s(Op::dropout, {s.x, s(Op::div, {s.f32(6), s.f32(2)}), s.integer(1)}));
  }();
  const Result<Optimized> all = optimize(graph);
  ASSERT_TRUE(all) << all.error().render();
  EXPECT_EQ(times(*all, "fold_arithmetic"), 1u);
}

// What algebra leaves of literals is folded, too.
TEST(Runner, LeavesNoWorkForASecondRun) {
  const auto graph = [] {
    Sketch s;
    return s.finish(s(Op::mul, {s.x, s.to(s(Op::round, {s.integer(1)}), DType::f32)}));
  }();
  const Result<Optimized> all = optimize(graph);
  ASSERT_TRUE(all) << all.error().render();
  const Result<Optimized> again = optimize(all->graph);
  ASSERT_TRUE(again) << again.error().render();
  EXPECT_EQ(again->graph, all->graph) << ir::print(all->graph);
  EXPECT_EQ(times(*all, "mul_one"), 1u);
}

TEST(Runner, StopsSkipsAndDumps) {
  const auto graph = [] {
    Sketch s;
    return s.finish(s(Op::mul, {s(Op::mul, {s.x, s.real(1)}), s(Op::div, {s.f32(1), s.f32(4)})}));
  }();
  Result<Optimized> all = optimize(graph, {"", {}, true, true});
  ASSERT_TRUE(all);
  ASSERT_EQ(all->passes.size(), 7u);
  EXPECT_TRUE(all->passes[1].changed);
  EXPECT_NE(all->passes[1].dump.find("0.25"), std::string::npos);
  EXPECT_EQ(all->passes[5].dump, "(unchanged)");
  EXPECT_LT(all->passes[2].nodes_after, all->passes[2].nodes_before);
  EXPECT_EQ(optimize(graph, {"fold_constants", {}, false, true})->passes.size(), 2u);
  Result<Optimized> skipped = optimize(graph, {"", {"simplify_algebra"}, false, true});
  ASSERT_TRUE(skipped);
  EXPECT_TRUE(skipped->passes[2].skipped);
  EXPECT_EQ(times(*skipped, "mul_one"), 0u);
  Result<Optimized> unknown = optimize(graph, {"fold_constant", {}, false, true});
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().render().find("did you mean fold_constants?"), std::string::npos);
}

// As one that is written: it was told as a mistake of the pass.
TEST(Runner, AnIndexThatFoldingMakesIsChecked) {
  for (const bool outside : {true, false}) {
    Sketch s;
    const NodeId n = s.builder.add_input("z", {DType::f32, false, {ir::Dim::symbol("n"), ir::Dim::constant(4)}});
    const NodeId index = s.to(outside ? s.real(-3e18) : s.real(7.5), DType::i8);
    const Result<Optimized> optimized = optimize(s.finish(s(Op::take, {n, index}, ir::TakeAttr{0})));
    ASSERT_EQ(bool(optimized), !outside);
    if (!outside) continue;
    const Diagnostic& told = optimized.error().diagnostics()[0];
    EXPECT_EQ(told.code, 218);
    EXPECT_EQ(told.headline, "index -128 is out of range for dim 0 of z, whose size is n");
    EXPECT_EQ(told.help, "use an index from 0 on");
  }
}

}  // namespace
}  // namespace codetta::opt::test

// SPDX-License-Identifier: Apache-2.0
// The table of functions: complete, documented, and the only way from text to an op.
#include "frontend/functions.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>

#include "codetta/tensor.hpp"
#include "frontend/lower.hpp"
#include "frontend/recipes.hpp"

namespace {

using namespace codetta;
using frontend::all_functions;
using frontend::FunctionInfo;
using frontend::ParameterKind;

std::set<types::Op> ops_of(const std::string& text, bool program) {
  const auto source = std::make_shared<const diag::SourceText>("t", text);
  std::set<types::Op> ops;
  const auto collect = [&](const auto& function) {
    if (!function) {
      ADD_FAILURE() << text << "\n" << function.error().render();
      return;
    }
    for (const ir::Value& value : function->values) ops.insert(value.op);
  };
  if (program) {
    collect(frontend::parse_program(source));
  } else {
    collect(frontend::parse_epilogue(source));
  }
  return ops;
}

// A call of the function with an argument of the right kind for each parameter.
std::string call_of(const FunctionInfo& info) {
  std::string out(info.name);
  out += '(';
  for (const auto& parameter : info.all_parameters()) {
    if (parameter.kind == ParameterKind::Axis) continue;  // says the same as dim
    if (out.back() != '(') out += ", ";
    const bool named = (info.variadic() && parameter.kind != ParameterKind::Rest) ||
                       parameter.kind == ParameterKind::Dims || parameter.name == "keepdim";
    if (named) out += std::string(parameter.name) + "=";
    switch (parameter.kind) {
      case ParameterKind::Value:
      case ParameterKind::Bound:
        out += "accum";
        break;
      case ParameterKind::Rest:
        out += "accum, accum";
        break;
      case ParameterKind::Text:
        out += '"' + std::string(parameter.text) + '"';
        break;
      case ParameterKind::Integer:
        out += parameter.name == "dim" ? "-1" : "2";
        break;
      case ParameterKind::Integers:
        out += "(1, 0)";
        break;
      case ParameterKind::Dims:
        out += "(0, -1)";
        break;
      case ParameterKind::Shape:
        out += "(-1, 64)";
        break;
      case ParameterKind::Flag:
        out += "True";
        break;
      case ParameterKind::DType:
        out += "bf16";
        break;
      case ParameterKind::Axis:
      case ParameterKind::Sizes:
      case ParameterKind::Function:
      case ParameterKind::Types:
        break;
    }
  }
  return out + ")";
}

TEST(Functions, EveryOpWithASpellingIsReachableFromText) {
  std::set<types::Op> reached;
  for (const FunctionInfo& info : all_functions()) {
    if (info.lowering == frontend::Lowering::Unavailable || info.program_only()) continue;
    const std::string call = call_of(info);
    const std::string text = info.lowering == frontend::Lowering::Split
                                 ? "def f(accum):\n    a, D = " + call + "\n    F = relu(accum)\n    return D, F\n"
                                 : "def f(accum):\n    D = " + call + "\n    F = relu(accum)\n    return D, F\n";
    const auto ops = ops_of(text, false);
    const bool identity = info.lowering == frontend::Lowering::Identity;
    EXPECT_TRUE(identity || ops.contains(info.op)) << call;
    reached.insert(ops.begin(), ops.end());
  }
  for (const char* name : {"gelu", "dgelu"}) {
    const auto ops =
        ops_of("def f(accum): D = " + std::string(name) + "(accum, approximate=\"tanh\"); return D", false);
    reached.insert(ops.begin(), ops.end());
  }
  for (const types::OpInfo& info : types::all_ops()) {
    const std::string spelling(info.spelling);
    if (spelling.empty() || std::isalpha(static_cast<unsigned char>(spelling[0])) != 0) continue;
    const std::string expression = info.arity == 1 ? spelling + "accum" : "accum " + spelling + " accum";
    const auto ops = info.op == types::Op::matmul ? ops_of("def f(accum: f32[4, 4]): D = accum @ accum; return D", true)
                                                  : ops_of("def f(accum): D = " + expression + "; return D", false);
    EXPECT_TRUE(ops.contains(info.op)) << spelling;
    reached.insert(ops.begin(), ops.end());
  }
  reached.insert(types::Op::literal);
  for (const types::OpInfo& info : types::all_ops()) {
    EXPECT_TRUE(info.program_only() || reached.contains(info.op)) << info.name;
  }
}

TEST(Functions, NamesAgreeWithTheOpTable) {
  for (const types::OpInfo& info : types::all_ops()) {
    const std::string spelling(info.spelling);
    if (spelling.empty() || std::isalpha(static_cast<unsigned char>(spelling[0])) == 0) continue;
    EXPECT_NE(frontend::find_function(spelling), nullptr) << spelling;
  }
}

TEST(Functions, AreUniqueAndDocumented) {
  std::set<std::string_view> names;
  for (const FunctionInfo& info : all_functions()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_FALSE(info.doc.empty() && types::op_info(info.op).doc.empty()) << info.name;
    EXPECT_FALSE(dtype_from_name(info.name).has_value()) << info.name;
  }
}

TEST(Functions, TheLanguagePageNamesAll) {
  std::ifstream file(std::string(CODETTA_SOURCE_DIR) + "/docs/language.md");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  ASSERT_FALSE(page.empty());
  for (const FunctionInfo& info : all_functions()) {
    if (info.lowering == frontend::Lowering::Unavailable || info.program_only()) continue;
    EXPECT_TRUE(page.find("`" + std::string(info.name) + "(") != std::string::npos ||
                page.find("`" + std::string(info.name) + "`") != std::string::npos)
        << info.name;
  }
}

TEST(Functions, HaveSignatures) {
  const auto signature = [](const char* name) { return frontend::signature(*frontend::find_function(name)); };
  EXPECT_EQ(signature("gelu"), "gelu(x, approximate=\"none\")");
  EXPECT_EQ(signature("softplus"), "softplus(x, beta=1.0, threshold=20.0)");
  EXPECT_EQ(signature("clamp"), "clamp(x, min=None, max=None)");
  EXPECT_EQ(signature("join"), "join(x, ..., dim=-1, interleave=False)");
  EXPECT_EQ(signature("row_index"), "row_index()");
  EXPECT_EQ(signature("hardtanh"), "hardtanh(x, min_val=-1.0, max_val=1.0)");
}

TEST(Functions, SuggestTheNearest) {
  EXPECT_EQ(frontend::nearest_function("rleu"), "relu");
  EXPECT_EQ(frontend::nearest_function("swish"), "silu");
  EXPECT_EQ(frontend::nearest_function("clip"), "clamp");
  EXPECT_EQ(frontend::nearest_function("quite_something_else"), "");
}

// What is told of functions that are none of the language's is something that it takes.
TEST(Functions, RecipesAreOfTheLanguage) {
  std::set<std::string_view> names;
  size_t read = 0;
  for (const frontend::Recipe& recipe : frontend::all_recipes()) {
    EXPECT_EQ(frontend::find_function(recipe.name), nullptr) << recipe.name;
    EXPECT_TRUE(names.insert(recipe.name).second) << recipe.name;
    const std::string text(recipe.text);
    const bool prose = text.find("with ") != std::string::npos || text.find("...") != std::string::npos ||
                       text.find("of ") != std::string::npos || text.find(" or ") != std::string::npos ||
                       text.find(": ") != std::string::npos;
    if (prose) continue;
    ++read;
    const auto wrong_in = [&](const auto& parsed) {
      for (const Diagnostic& wrong : parsed ? std::vector<Diagnostic>() : parsed.error().diagnostics()) {
        const bool of_the_test = wrong.code == 133 || wrong.code == 134;  // a parameter is not used, or none of them
        EXPECT_TRUE(of_the_test) << recipe.name << ": " << text << "\n" << parsed.error().render();
      }
    };
    wrong_in(frontend::parse_program(std::make_shared<const diag::SourceText>(
        "p.py",
        "def f(x: f32[\"n\", \"m\"], y: f32[\"n\", \"m\"], w: f32[8, 8], a: f32[8, 8], b: f32[8], t: f32, weight: f32, "
        "mask: bool, value: f32, center: f32, variance: f32, eps: f32, bias: f32, start: f32, step: f32, k: i64, "
        "label: "
        "i64[\"n\"]):\n    out = " +
            text + "\n    return out\n")));
    if (!recipe.everywhere) continue;
    wrong_in(frontend::parse_epilogue(std::make_shared<const diag::SourceText>(
        "e.py", "def f(accum, y, t, weight, mask, value):\n    x = accum\n    D = " + text + "\n    return D\n")));
  }
  EXPECT_GT(read, 40U);
}

TEST(Functions, AliasesNameDTypes) {
  for (const char* name : {"float32", "float16", "bfloat16", "float64", "int8", "uint8", "float8_e4m3fn", "half"}) {
    const auto alias = frontend::dtype_alias(name);
    EXPECT_TRUE(dtype_from_name(alias).has_value()) << name;
    EXPECT_FALSE(dtype_from_name(name).has_value()) << name;
  }
  EXPECT_EQ(frontend::dtype_alias("f32"), "");
}

}  // namespace

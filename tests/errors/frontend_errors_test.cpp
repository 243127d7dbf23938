// SPDX-License-Identifier: Apache-2.0
// The exact message of every mistake that a text can hold. The cases are in tests/errors/frontend/E0NNN.txt: a text
// behind
// "=== epilogue" (with a name: the entry that is asked for) or "=== program", its message behind "=== message". With
// CODETTA_UPDATE_GOLDEN set in the environment the files are rewritten, to be reviewed as any change.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "codetta/epilogue.hpp"
#include "frontend/lower.hpp"
#include "ir/bind.hpp"

namespace {

using codetta::Error;
namespace diag = codetta::diag;
namespace frontend = codetta::frontend;
namespace fs = std::filesystem;

struct Case {
  std::string head;
  std::string text;
  std::string message;
};

std::vector<Case> read_cases(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string all((std::istreambuf_iterator<char>(file)), {});
  std::vector<Case> cases;
  size_t at = 0;
  while (at < all.size()) {
    Case one;
    const size_t head_end = all.find('\n', at);
    one.head = all.substr(at + 4, head_end - at - 4);
    const size_t text_end = all.find("\n=== message\n", head_end);
    if (text_end == std::string::npos) break;
    one.text = text_end == head_end ? std::string() : all.substr(head_end + 1, text_end - head_end - 1);
    const size_t message = text_end + 13;
    size_t next = all.find("\n=== ", message);
    next = next == std::string::npos ? all.size() : next + 1;
    one.message = all.substr(message, next - message);
    cases.push_back(std::move(one));
    at = next;
  }
  return cases;
}

diag::SourceRef source_of(std::string text) {
  return std::make_shared<const diag::SourceText>("<epilogue>", std::move(text));
}

std::string render(const std::string& head, const std::string& text) {
  if (head == "program") {
    const auto program = frontend::parse_program(source_of(text));
    if (!program) return program.error().render();
    const auto graph = codetta::ir::bind_program(*program);
    return graph ? "accepted\n" : graph.error().render();
  }
  const std::string entry = head.size() > 9 ? head.substr(9) : std::string();
  const auto epilogue = frontend::parse_epilogue(source_of(text), entry);
  return epilogue ? "accepted\n" : epilogue.error().render();
}

class MessagesOf : public testing::TestWithParam<const char*> {};

TEST_P(MessagesOf, AreExact) {
  const fs::path path =
      fs::path(CODETTA_SOURCE_DIR) / "tests" / "errors" / "frontend" / (std::string(GetParam()) + ".txt");
  std::vector<Case> cases = read_cases(path);
  ASSERT_FALSE(cases.empty()) << path;
  const bool update = std::getenv("CODETTA_UPDATE_GOLDEN") != nullptr;
  for (Case& one : cases) {
    const std::string message = render(one.head, one.text);
    EXPECT_NE(message.find("error[" + std::string(GetParam()) + "]: "), std::string::npos) << one.text << "\n"
                                                                                           << message;
    if (!update) {
      EXPECT_EQ(message, one.message) << one.text;
    }
    one.message = message;
  }
  if (!update) return;
  std::ofstream file(path, std::ios::binary);
  for (const Case& one : cases) file << "=== " << one.head << '\n' << one.text << "\n=== message\n" << one.message;
}

INSTANTIATE_TEST_SUITE_P(Frontend, MessagesOf,
                         testing::Values("E0101", "E0104", "E0105", "E0106", "E0107", "E0108", "E0109", "E0110",
                                         "E0112", "E0113", "E0114", "E0115", "E0116", "E0117", "E0118", "E0119",
                                         "E0120", "E0121", "E0122", "E0123", "E0124", "E0125", "E0126", "E0127",
                                         "E0128", "E0129", "E0130", "E0131", "E0132", "E0133", "E0134", "E0135",
                                         "E0136", "E0137", "E0138", "E0139"),
                         [](const auto& param_info) { return std::string(param_info.param); });
INSTANTIATE_TEST_SUITE_P(FrontendMore, MessagesOf,
                         testing::Values("E0140", "E0141", "E0142", "E0143", "E0144", "E0145", "E0147", "E0150",
                                         "E0151", "E0153", "E0154", "E0155", "E0216", "E0218", "E0224", "E0225",
                                         "E0226", "E0227", "E0228", "E0233", "E0234", "E0235"),
                         [](const auto& param_info) { return std::string(param_info.param); });

// The pages of docs/errors show a text in a python block (entry=NAME: which function is asked for) and behind it what
// is said of it.
TEST(Pages, ShowWhatIsSaid) {
  const bool update = std::getenv("CODETTA_UPDATE_GOLDEN") != nullptr;
  int shown = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(CODETTA_SOURCE_DIR) / "docs" / "errors")) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string page((std::istreambuf_iterator<char>(file)), {});
    const size_t python = page.find("```python"), message = page.find("```\nerror[");
    if (python == std::string::npos || page.find("```sh") != std::string::npos) continue;  // sh: pages_test.py
    ASSERT_NE(message, std::string::npos) << entry.path();
    const size_t text = page.find('\n', python) + 1, text_end = page.find("```\n", text);
    const std::string form = page.substr(python, text - python);
    const size_t asked = form.find("entry=");
    const std::string source = page.substr(text, text_end - text),
                      named = asked == std::string::npos ? "" : form.substr(asked + 6, form.size() - asked - 7);
    const size_t begin = message + 4, end = page.find("```\n", begin);
    const std::string wanted = page.substr(begin, end - begin), head = "error[" + entry.path().stem().string() + "]: ";
    std::string said = render("epilogue " + named, source);
    if (!said.starts_with(head)) said = render("program", source);
    EXPECT_TRUE(said.starts_with(head)) << entry.path() << "\n" << said;
    ++shown;
    if (update) {
      std::ofstream(entry.path(), std::ios::binary) << page.substr(0, begin) << said << page.substr(end);
    } else {
      EXPECT_EQ(said, wanted) << entry.path();
    }
  }
  EXPECT_GE(shown, 40);
}

// Kept word for word: users of the CUTLASS Python interfaces look for them.
TEST(Frontend, KeepsHeadlinesThatUsersKnow) {
  const auto headline = [](const std::string& text) {
    const auto epilogue = frontend::parse_epilogue(source_of(text));
    return epilogue ? std::string() : epilogue.error().diagnostics()[0].headline;
  };
  EXPECT_EQ(headline("def f(alpha): D = relu(alpha); return D"), "accum must be an input to the epilogue function");
  EXPECT_EQ(headline("def f(accum): tmp = relu(accum); tmp = tanh(tmp); D = tmp; return D"),
            "Variable 'tmp' cannot be defined twice.");
  EXPECT_EQ(headline("def f(accum): D = accum * x; return D"), "Variable 'x' is undefined.");
  EXPECT_EQ(headline("def f(accum): return relu(accum)"), "Return value cannot be an expression");
  EXPECT_EQ(headline("def f(accum): return 1"), "Return value cannot be a constant");
}

TEST(Frontend, ReportsSeveralMistakesByPosition) {
  const auto epilogue =
      frontend::parse_epilogue(source_of("def f(accum, unused):\n"
                                         "    a = rleu(accum) + x.T\n"
                                         "    b = gelu(a, fast=True) * nothing\n"
                                         "    D = a + b + missing + \"text\"\n"
                                         "    return D, F\n"));
  ASSERT_FALSE(epilogue);
  std::vector<std::string> found;
  for (const auto& each : epilogue.error().diagnostics()) {
    found.push_back(std::to_string(each.code) + "@" + std::to_string(each.where.line));
  }
  EXPECT_EQ(found, (std::vector<std::string>{"135@2", "118@2", "136@3", "130@3", "130@4", "120@4", "130@5"}));
}

TEST(Frontend, ReportsAtMostTwenty) {
  std::string text = "def f(accum):\n";
  for (int i = 0; i < 100; ++i) text += "    v" + std::to_string(i) + " = u" + std::to_string(i) + "\n";
  const auto epilogue = frontend::parse_epilogue(source_of(text + "    return v1\n"));
  ASSERT_FALSE(epilogue);
  EXPECT_EQ(epilogue.error().diagnostics().size(), 20u);
}

// Hostile texts: an answer within a second, and no deep recursion.
struct Hostile {
  const char* name;
  diag::Code code;
  std::string text;
};

std::string repeated(std::string_view part, size_t count) {
  std::string out;
  out.reserve(part.size() * count);
  for (size_t i = 0; i < count; ++i) out += part;
  return out;
}

std::string body(const std::string& expression) { return "def f(accum):\n    D = " + expression + "\n    return D\n"; }

// Of one processor: many times what any text takes, and a small part of what steps that are quadratic would.
constexpr double hostile_seconds = 60;

TEST(Frontend, AnswersHostileTextsFast) {
  using diag::Code;
  const size_t n = 100000;
  std::string doubling = "def g0(x):\n    return x * x\n";
  std::string chain = doubling;
  for (int i = 1; i < 200; ++i) {
    const std::string head = "def g" + std::to_string(i) + "(x):\n    return ";
    const std::string call = "g" + std::to_string(i - 1) + "(x)";
    if (i < 40) doubling += head + call + " + " + call + "\n";
    chain += head + call + "\n";
  }
  std::string undefined = "def f(accum):\n", parameters = "def f(accum", outputs = "def f(accum):\n", returned, unknown;
  for (int i = 0; i < 20000; ++i) {
    const std::string number = std::to_string(i), name = "v" + number;
    undefined += "    " + name + " = zzz" + number + " * 2.0\n";
    parameters += ", " + name;
    outputs += "    " + name + " = accum * " + number + ".0\n";
    returned += (i == 0 ? "" : ", ") + name;
    unknown += "rellu" + number + "(accum) + ";
  }
  const std::vector<Hostile> texts = {
      {"undefined names", Code::name_undefined, undefined + "    return v0\n"},
      {"parameters", Code::text_too_large, parameters + "):\n    D = accum\n    return D\n"},
      {"outputs", Code::text_too_large, outputs + "    return " + returned + "\n"},
      {"unknown functions", Code::function_unknown, body(unknown + unknown + "accum")},
      {"one name on a line", Code::name_defined_twice, body(repeated("D = ", n) + "accum")},
      {"one name in a tuple", Code::name_defined_twice, body("0; " + repeated("a, ", n) + "a = accum")},
      {"one name by statements", Code::name_defined_twice, body("accum; " + repeated("x = accum; ", n) + "y = x")},
      {"one name of parameters", Code::name_defined_twice,
       "def f(accum" + repeated(", x", n) + "):\n    return accum\n"},
      {"parentheses", Code::too_deep, body(repeated("(", n) + "accum" + repeated(")", n))},
      {"brackets", Code::too_deep, body(repeated("[", n) + "accum" + repeated("]", n))},
      {"minus", Code::too_deep, body(repeated("-", n) + "accum")},
      {"not", Code::boolean_operator, body(repeated("not ", n) + "accum")},
      {"power", Code::too_deep, body(repeated("accum ** ", n) + "accum")},
      {"calls", Code::too_deep, body(repeated("relu(", n) + "accum" + repeated(")", n))},
      {"lambda", Code::lambda_or_comprehension, body(repeated("lambda x: ", n) + "accum")},
      {"conditional", Code::too_deep, body(repeated("accum if accum else ", n) + "accum")},
      {"attributes", Code::attribute_access, body("accum" + repeated(".T", n))},
      {"subscripts", Code::subscript, body("accum" + repeated("[0]", n))},
      {"indentation", Code::too_deep,
       "def f(accum):\n" +
           [] {
             std::string lines;
             for (size_t i = 1; i < 3000; ++i) lines += std::string(i, ' ') + "if x:\n";
             return lines;
           }()},
      {"long name", Code::name_too_long,
       "def f(accum):\n    " + std::string(1000000, 'D') + " = accum\n    return D\n"},
      {"long parameter", Code::name_too_long, "def f(accum, " + std::string(1000000, 'C') + "): return accum\n"},
      {"long number", Code::number_overflow, body("accum * 1" + std::string(1000000, '0'))},
      {"long digits", Code::number_malformed, body("accum * " + std::string(1000000, '9') + "x")},
      {"long string", Code::string_unterminated, body("\"" + std::string(1000000, 'x'))},
      {"doubling calls", Code::text_too_large, doubling + body("g39(accum)")},
      {"nested calls", Code::too_deep, chain + body("g199(accum)")},
      {"17 MB", Code::text_too_large, body("accum") + std::string(size_t{17} << 20, '#')},
      {"many expressions", Code::text_too_large, body(repeated("accum+", 1500000) + "accum")},
      {"invalid UTF-8", Code::text_encoding, "def f(accum):\n    D = relu(accum)  # caf\xe9\n    return D\n"},
      {"NUL", Code::text_character, body(std::string("accum \0 C", 9))},
  };
  for (const Hostile& hostile : texts) {
    const std::clock_t begin = std::clock();  // of the processor: others may be busy on it
    const auto epilogue = frontend::parse_epilogue(source_of(hostile.text));
    const std::string message = epilogue ? std::string() : epilogue.error().render();
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    ASSERT_FALSE(epilogue) << hostile.name;
    bool there = false;
    for (const auto& each : epilogue.error().diagnostics()) there |= each.code == static_cast<uint16_t>(hostile.code);
    EXPECT_TRUE(there) << hostile.name << "\n" << message.substr(0, 2000);
    EXPECT_LT(seconds, hostile_seconds) << hostile.name;  // never quadratic
    EXPECT_LT(message.size(), 20000u) << hostile.name;
  }
}

TEST(Frontend, NamesTheByteThatIsNoUtf8) {
  const auto epilogue = frontend::parse_epilogue(source_of("def f(accum):\n    D = relu(accum)  # caf\xe9\n"));
  ASSERT_FALSE(epilogue);
  EXPECT_EQ(epilogue.error().code(), 103);
  EXPECT_EQ(epilogue.error().diagnostics()[0].headline, "byte 40 is not valid UTF-8");
  EXPECT_EQ(epilogue.error().diagnostics()[0].where.line, 2u);
  EXPECT_EQ(epilogue.error().diagnostics()[0].where.column, 27u);
}

// The tracer's own mistakes have no position in a text, but one in C++.
std::string without_column(std::string text) {
  const std::string file = __FILE__;
  for (size_t at = text.find(file); at != std::string::npos; at = text.find(file, at + 1)) {
    const size_t line = at + file.size() + 1, end = text.find('\n', at), column = text.find(':', line);
    if (column < end) text.erase(column, end - column);
  }
  return text;
}
std::string at_line(uint32_t line) { return std::string("  --> ") + __FILE__ + ":" + std::to_string(line) + "\n"; }

TEST(Trace, RejectsExpressionsOfAnotherTracer) {
  codetta::Expr kept;
  uint32_t line = 0;
  const auto first = codetta::Epilogue::trace([&](codetta::EpilogueTracer& e) {
    kept = e.input("C");
    line = __LINE__ - 1;
    e.output("D", e.accum() + kept);
  });
  ASSERT_TRUE(first);
  const auto second = codetta::Epilogue::trace([&](codetta::EpilogueTracer& e) { e.output("D", e.accum() + kept); });
  ASSERT_FALSE(second);
  EXPECT_EQ(without_column(second.error().render()),
            "error[E0148]: operand 'C' of another tracer is used\n" + at_line(line) +
                "note: accum and operands belong to the tracer they were asked from\n"
                "help: ask the tracer that the function is called with\n");
}

TEST(Trace, RejectsNamesThatTextCouldNotHave) {
  for (const char* name : {"max", "2x", "lambda", "f32", "inf", "", "a b", "epilogue", "_", "accum"}) {
    const auto epilogue =
        codetta::Epilogue::trace([&](codetta::EpilogueTracer& e) { e.output("D", e.accum() + e.input(name)); });
    ASSERT_FALSE(epilogue) << name;
    EXPECT_EQ(epilogue.error().message(), "error[E0149]: operand can not be named '" + std::string(name) + "'");
  }
}

TEST(Trace, RejectsEmptyExpressions) {
  uint32_t line = 0;
  const auto epilogue = codetta::Epilogue::trace([&](codetta::EpilogueTracer& e) {
    const codetta::Expr bias;
    line = __LINE__ + 1;
    e.output("D", relu(e.accum() + bias));
    e.output("F", codetta::Expr());
  });
  ASSERT_FALSE(epilogue);
  EXPECT_EQ(without_column(epilogue.error().render()), "error[E0156]: an operand holds no value\n" + at_line(line) +
                                                           "note: a default-made Expr stands for nothing\n"
                                                           "help: assign it before its first use\n\n"
                                                           "error[E0156]: output 'F' holds no value\n" +
                                                           at_line(line + 1) +
                                                           "note: a default-made Expr stands for nothing\n"
                                                           "help: assign it before its first use\n");
}

TEST(Trace, ReportsWhatTextReports) {
  using codetta::EpilogueTracer;
  const auto code = [](auto&& define) {
    const auto epilogue = codetta::Epilogue::trace(define);
    return epilogue ? 0 : epilogue.error().code();
  };
  EXPECT_EQ(code([](EpilogueTracer&) {}), 126);
  EXPECT_EQ(code([](EpilogueTracer& e) { e.output("D", relu(e.accum())), e.output("D", e.accum()); }), 128);
  EXPECT_EQ(code([](EpilogueTracer& e) { e.output("D", relu(e.input("C"))); }), 133);
  EXPECT_EQ(code([](EpilogueTracer& e) { (void)e.input("C"), e.output("D", relu(e.accum())); }), 133);
  EXPECT_EQ(code([](EpilogueTracer& e) { e.output("D", relu(e.accum())), e.output("F", codetta::Expr(2.0)); }), 134);
  EXPECT_EQ(code([](EpilogueTracer& e) { e.output("C", e.accum() + e.input("C")); }), 155);
  EXPECT_EQ(code([](EpilogueTracer& e) { e.output("accum", relu(e.accum())); }), 155);
  EXPECT_EQ(code([](EpilogueTracer& e) { e.output("D", gelu(e.accum(), "fast")); }), 139);
  EXPECT_EQ(code([](EpilogueTracer& e) { e.output("D", codetta::join({})); }), 138);
  EXPECT_EQ(code([](EpilogueTracer& e) { e.output("D", split(e.accum(), 1)[0]); }), 139);
  EXPECT_EQ(code([](EpilogueTracer& e) { e.output("D", permute(e.accum(), {0, 2})); }), 139);
  EXPECT_EQ(code([](EpilogueTracer& e) { e.output("D", sum(e.accum(), {0, 0})); }), 139);
  EXPECT_EQ(code([](EpilogueTracer& e) { e.output("D", e.accum() * (e.literal(UINT64_MAX) + 1)); }), 109);
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// The JSON form: exact text once, then validity for any bytes by a parser that isn't ours.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "diag/diagnostic.hpp"

namespace codetta::diag {
namespace {

TEST(Json, IsAsDocumented) {
  const auto source = std::make_shared<const SourceText>("f.py", "a\nbc\n");
  const Error made(error(Code::tensor_rank, "say \"no\"")
                       .at(source, {2, 4}, "here")
                       .about("x")
                       .reason("9 > 8")
                       .note("and", source, {0, 1})
                       .help("fix")
                       .diagnostic());
  EXPECT_EQ(made.to_json(),
            R"({"diagnostics":[{"code":"E0601","name":"tensor_rank","family":"program","headline":"say \"no\"",)"
            R"("file":"f.py","line":2,"column":1,"length":2,"label":"here","argument":"x","reason":"9 > 8",)"
            R"("notes":[{"text":"and","file":"f.py","line":1,"column":1,"length":1}],"help":"fix"}]})");
}

TEST(Json, NamesFamilies) {
  const auto family = [](uint16_t code) {
    Diagnostic diagnostic;
    diagnostic.code = code;
    const auto json = nlohmann::json::parse(Error(diagnostic).to_json());
    return json["diagnostics"][0]["family"].get<std::string>() + " " +
           json["diagnostics"][0]["name"].get<std::string>();
  };
  EXPECT_EQ(family(601), "program tensor_rank");
  EXPECT_EQ(family(606), "environment out_of_memory");
  EXPECT_EQ(family(901), "internal internal");
  EXPECT_EQ(family(1), "internal unknown");
}

TEST(Json, KeepsTextAndReplacesInvalidBytes) {
  const auto headline = [](std::string text) {
    return nlohmann::json::parse(Error(error(Code::tensor_rank, std::move(text)).diagnostic()).to_json())
        .at("diagnostics")
        .at(0)
        .at("headline")
        .get<std::string>();
  };
  const std::string text = "tab\t line\n \x1b \x7f \\ \" / \u00e9 \U0001F600";
  EXPECT_EQ(headline(text), text);
  EXPECT_EQ(headline("a\xff"
                     "b\xed\xa0\x80"),
            "a\ufffd"
            "b\ufffd\ufffd\ufffd");
  EXPECT_EQ(headline(std::string("\0", 1)), std::string("\0", 1));
}

TEST(Json, IsValidAndOneLineForAnyBytes) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 40, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const auto source = std::make_shared<const SourceText>(bytes, bytes);
    const std::string json = Error(error(Code::tensor_rank, bytes)
                                       .at(source, {1, 3}, bytes)
                                       .reason(bytes)
                                       .note(bytes)
                                       .help(bytes)
                                       .diagnostic())
                                 .to_json();
    EXPECT_TRUE(nlohmann::json::accept(json));
    EXPECT_EQ(json.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace codetta::diag

// SPDX-License-Identifier: Apache-2.0
// Every code of codes.def has its page in docs/errors and a test that names it; the table itself is in order.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "diag/diagnostic.hpp"

namespace {

using codetta::diag::all_codes;
using codetta::diag::code_text;
using codetta::diag::CodeInfo;
namespace fs = std::filesystem;

const fs::path root = CODETTA_SOURCE_DIR;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string number_text(const CodeInfo& info) { return code_text(static_cast<uint16_t>(info.code)); }

TEST(ErrorCodes, AreSortedAndInTheRangeOfTheirFamily) {
  uint16_t previous = 0;
  for (const CodeInfo& info : all_codes()) {
    const auto number = static_cast<uint16_t>(info.code);
    EXPECT_GT(number, previous) << info.name;
    previous = number;
    EXPECT_GE(number, 100) << info.name;
    EXPECT_LE(number, 999) << info.name;
    EXPECT_EQ(number / 100 == 9, info.family == codetta::ErrorFamily::Internal) << info.name;
    EXPECT_FALSE(info.title.empty()) << info.name;
    EXPECT_FALSE(info.title.ends_with('.')) << info.name;
  }
}

TEST(ErrorCodes, EachHasAPage) {
  for (const CodeInfo& info : all_codes()) {
    const fs::path page = root / "docs" / "errors" / (number_text(info) + ".md");
    if (!fs::is_regular_file(page)) {
      ADD_FAILURE() << "missing " << page;
      continue;
    }
    const std::string text = read(page);
    EXPECT_EQ(text.substr(0, text.find('\n')), "# " + number_text(info) + ": " + std::string(info.title)) << page;
    // When it happens, an example, how to fix it: a title alone helps nobody.
    EXPECT_GE(std::count(text.begin(), text.end(), '\n'), 8) << page;
    EXPECT_NE(text.find("error[" + number_text(info) + "]: "), std::string::npos) << page << " shows no message";
  }
}

TEST(ErrorCodes, EachPageHasACode) {
  for (const auto& entry : fs::directory_iterator(root / "docs" / "errors")) {
    const std::string name = entry.path().filename().string();
    std::smatch match;
    if (!std::regex_match(name, match, std::regex("E(\\d{4})\\.md"))) continue;
    EXPECT_NE(codetta::diag::find_code(static_cast<uint16_t>(std::stoi(match[1]))), nullptr) << name;
  }
}

// The text without comments and Python's docstrings: naming a code there provokes nothing.
std::string without_comments(const std::string& text, bool python) {
  std::string kept;
  for (size_t i = 0; i < text.size();) {
    const auto at = [&](const char* what) { return text.compare(i, std::char_traits<char>::length(what), what) == 0; };
    if (python && (at("\"\"\"") || at("'''"))) {
      i = std::min(text.find(text.substr(i, 3), i + 3), text.size() - 3) + 3;
    } else if (text[i] == '"' || text[i] == '\'') {
      const char quote = text[i];
      const size_t begin = i++;
      while (i < text.size() && text[i] != quote && text[i] != '\n') i += text[i] == '\\' ? 2 : 1;
      i = std::min(i + 1, text.size());
      kept += text.substr(begin, i - begin);
    } else if (python ? at("#") : at("//")) {
      i = std::min(text.find('\n', i), text.size());
    } else if (!python && at("/*")) {
      i = std::min(text.find("*/", i), text.size() - 2) + 2;
    } else {
      kept += text[i++];
    }
  }
  return kept;
}

TEST(ErrorCodes, CommentsAreNoTests) {
  EXPECT_EQ(without_comments("a // E0101\nb /* E0102 */ \"// E0103\" '\"' // '\n", false),
            "a \nb  \"// E0103\" '\"' \n");
  EXPECT_EQ(without_comments("a # E0101\n\"\"\"E0102\"\"\" 'x # E0103'\n", true), "a \n 'x # E0103'\n");
}

// That each of them also expects the message is for reviewers to see.
TEST(ErrorCodes, EachIsNamedByTheCodeOfATest) {
  std::set<std::string> mentioned;
  const std::regex mention("\\bE0\\d{3}\\b|\\bCode::[a-z0-9_]+");
  for (const auto& entry : fs::recursive_directory_iterator(root / "tests")) {
    const bool is_test = entry.path().extension() == ".cpp" || entry.path().extension() == ".py";
    if (!is_test || entry.path().filename() == "docs_and_tests_test.cpp") continue;
    const std::string text = without_comments(read(entry.path()), entry.path().extension() == ".py");
    for (auto at = std::sregex_iterator(text.begin(), text.end(), mention); at != std::sregex_iterator(); ++at) {
      mentioned.insert(at->str());
    }
  }
  for (const CodeInfo& info : all_codes()) {
    EXPECT_TRUE(mentioned.contains(number_text(info)) || mentioned.contains("Code::" + std::string(info.name)))
        << number_text(info) << " (" << info.name << ") is in no test";
  }
}

}  // namespace

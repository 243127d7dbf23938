// SPDX-License-Identifier: Apache-2.0
// Compares what is emitted for every case with what was reviewed, byte for byte. `test_golden --update` writes the new
// texts instead, for review.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

#include "base/files.hpp"
#include "base/process.hpp"
#include "base/result.hpp"
#include "case.hpp"
#include "host_case.hpp"
#include "types/op.hpp"

namespace codetta::golden {
namespace {

const std::string folder = CODETTA_SOURCE_DIR "/tests/golden/expected";
template <class AnyCase>
std::string path_of(const AnyCase& c) {
  return folder + "/" + std::string(c.name) + ".txt";
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> result;
  std::stringstream stream(text);
  for (std::string line; std::getline(stream, line);) result.push_back(line);
  return result;
}

// The lines that differ, with two lines around them: "-" was expected, "+" is there now.
std::string difference(const std::string& expected, const std::string& now) {
  const std::vector<std::string> a = lines_of(expected), b = lines_of(now);
  std::vector<std::vector<uint32_t>> common(a.size() + 1, std::vector<uint32_t>(b.size() + 1));
  for (size_t i = a.size(); i-- > 0;) {
    for (size_t j = b.size(); j-- > 0;)
      common[i][j] = a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
  }
  std::vector<std::string> all;
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      all.push_back("  " + a[i]);
      ++i, ++j;
    } else if (j == b.size() || (i < a.size() && common[i + 1][j] >= common[i][j + 1])) {
      all.push_back("- " + a[i++]);
    } else {
      all.push_back("+ " + b[j++]);
    }
  }
  std::string result;
  bool gap = false;
  for (size_t k = 0; k < all.size(); ++k) {
    bool near = false;
    for (size_t n = k < 2 ? 0 : k - 2; n < std::min(all.size(), k + 3); ++n) near |= all[n][0] != ' ';
    if (near) result += (gap ? "  ...\n" : "") + all[k] + "\n";
    gap = !near;
  }
  return result.empty() ? "(only the end of the last line differs)\n" : result;
}

Result<std::string> text_of(const Case& c) {
  CODETTA_TRY(const Emitted emitted, emit_case(c));
  return emitted.golden;
}
Result<std::string> text_of(const HostCase& c) {
  CODETTA_TRY(const HostText emitted, emit_host_case(c));
  return emitted.golden;
}

template <class AnyCase>
void expect_as_reviewed(const AnyCase& c) {
  const auto emitted = text_of(c);
  ASSERT_TRUE(emitted.has_value()) << emitted.error().render();
  const auto again = text_of(c);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(*emitted, *again) << "two emissions in one process differ";
  const std::string expected = contents(path_of(c));
  if (expected == *emitted) return;
  ADD_FAILURE() << c.name << (expected.empty() ? " has no expected text" : " is not what was reviewed") << "\n"
                << difference(expected, *emitted) << "If this is meant: tools/update_golden, and review the "
                << "changes of tests/golden/expected.";
}

class Golden : public testing::TestWithParam<Case> {};
TEST_P(Golden, IsAsReviewed) { expect_as_reviewed(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Cases, Golden, testing::ValuesIn(all_cases().begin(), all_cases().end()),
                         [](const auto& instance) { return std::string(instance.param.name); });

class HostGolden : public testing::TestWithParam<HostCase> {};
TEST_P(HostGolden, IsAsReviewed) { expect_as_reviewed(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Cases, HostGolden, testing::ValuesIn(host_cases().begin(), host_cases().end()),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(GoldenFiles, EachBelongsToOneCase) {
  std::set<std::string> names;
  for (const HostCase& c : host_cases()) EXPECT_TRUE(names.insert(path_of(c)).second) << c.name;
  for (const Case& c : all_cases()) EXPECT_TRUE(names.insert(path_of(c)).second) << c.name;
  EXPECT_GE(names.size(), 40U);
  for (const auto& file : std::filesystem::directory_iterator(folder))
    EXPECT_TRUE(names.contains(file.path().string())) << file.path() << " belongs to no case";
}

// Whatever the language can say appears in some case.
TEST(GoldenFiles, EveryOperationIsInOne) {
  std::string all;
  for (const Case& c : all_cases()) all += contents(path_of(c));
  for (const types::OpInfo& info : types::all_ops())
    EXPECT_TRUE(info.program_only() || all.find(" = " + std::string(info.name)) != std::string::npos) << info.name;
  for (const char* word : {"[full", "[row", "[column", "[scalar", "[indexed", "reduce row sum", "reduce column max",
                           "reduce all min", "reduce row logsumexp", "phase 2", "split columns"})
    EXPECT_NE(all.find(word), std::string::npos) << word;
}

// Every step that a program can have is in a text of each backend that has it (docs/features.md).
TEST(GoldenFiles, EveryStepIsInHostText) {
  std::map<std::string, std::set<std::string>> found;
  for (const HostCase& c : host_cases()) {
    const auto emitted = emit_host_case(c);
    ASSERT_TRUE(emitted.has_value()) << c.name;
    const std::string backend(c.target.substr(0, c.target.find(':')));
    found[c.form == HostCase::Form::Python ? "python " + backend : backend].insert(emitted->steps.begin(),
                                                                                   emitted->steps.end());
  }
  const std::set<std::string> usual{"define_symbol", "check", "launch_kernel", "allocate_from_pool", "free", "return"};
  const std::set<std::string> more{"while", "if", "reuse", "copy", "reinterpret"};
  for (const char* backend : {"cpu", "cuda", "hip", "metal", "python cpu", "python cuda"}) {
    for (const std::string& kind : usual) EXPECT_TRUE(found[backend].contains(kind)) << backend << " " << kind;
    if (std::string_view(backend) == "metal") continue;
    for (const std::string& kind : more) EXPECT_TRUE(found[backend].contains(kind)) << backend << " " << kind;
  }
  for (const char* backend : {"cpu", "cuda", "python cpu", "python cuda"}) {
    for (const char* kind : {"index_put", "scatter"})
      EXPECT_TRUE(found[backend].contains(kind)) << backend << " " << kind;
  }
  for (const char* backend : {"cpu", "cuda", "python cpu"}) {
    for (const char* kind : {"call_extern", "select_output"})
      EXPECT_TRUE(found[backend].contains(kind)) << backend << " " << kind;
  }
}

TEST(GoldenSources, CompileAlone) {
  const auto compiler = base::find_executable("g++", "/usr/local/bin:/usr/bin:/bin");
  if (!compiler) GTEST_SKIP() << "no g++";
  const auto temporary = base::TemporaryDirectory::make("/tmp", "codetta-golden-");
  ASSERT_TRUE(temporary.has_value());
  std::map<std::vector<std::string>, std::vector<std::string>> files;  // by flags: one compiler call each
  for (const Case& c : all_cases()) {
    const auto emitted = emit_case(c);
    ASSERT_TRUE(emitted.has_value()) << c.name;
    for (const Emitted::Source& source : emitted->sources) {
      if (source.is_gpu) continue;  // tests/cuda_compile
      auto& group = files[source.flags];
      const std::string file =
          temporary->path() + "/" + std::string(c.name) + "_" + std::to_string(group.size()) + ".cpp";
      std::ofstream(file, std::ios::binary) << source.text;
      group.push_back(file);
    }
  }
  for (const auto& [flags, group] : files) {
    base::ProcessRequest request;
    request.program = *compiler;
    request.arguments = flags;
    for (const char* flag : {"-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-x", "c++"})
      request.arguments.emplace_back(flag);
    for (const std::string& file : group) request.arguments.push_back(file);
    request.environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"};
    request.timeout = std::chrono::seconds(240);
    const auto done = base::run_process(request);
    ASSERT_TRUE(done.has_value());
    EXPECT_TRUE(done->success()) << done->errors;
    EXPECT_EQ(done->errors, "");
  }
}

// Returns the exit status.
int update() {
  std::set<std::string> kept;
  int status = 0;
  std::filesystem::create_directories(folder);
  const auto accept = [&](const auto& c) {
    kept.insert(path_of(c));
    const auto emitted = text_of(c);
    if (!emitted) {
      std::cerr << c.name << ": " << emitted.error().render();
      status = 1;
    } else if (contents(path_of(c)) != *emitted) {
      std::ofstream(path_of(c), std::ios::binary) << *emitted;
      std::cout << "updated " << c.name << "\n";
    }
  };
  for (const Case& c : all_cases()) accept(c);
  for (const HostCase& c : host_cases()) accept(c);
  std::vector<std::filesystem::path> stale;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (!kept.contains(file.path().string())) stale.push_back(file.path());
  }
  for (const auto& path : stale) {
    std::filesystem::remove(path);
    std::cout << "removed " << path.filename().string() << "\n";
  }
  return status;
}

}  // namespace
}  // namespace codetta::golden

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--update") == 0) return codetta::golden::update();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

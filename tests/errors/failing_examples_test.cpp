// SPDX-License-Identifier: Apache-2.0
// Every text of examples/epilogues/failing, bound through the public API exactly as its `# bind:` line says, gives the
// headline of its `# expect:` line.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "codetta/codetta.hpp"

namespace codetta {
namespace {

std::string line_after(const std::string& text, const std::string& mark) {
  const size_t at = text.find("# " + mark + ": ");
  if (at == std::string::npos) return {};
  const size_t begin = at + mark.size() + 4;
  std::string line = text.substr(begin, text.find('\n', begin) - begin);
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

std::string headline_of(const std::string& text) {
  constexpr int64_t m = 5, n = 7, k = 3;
  std::vector<float> memory(m * n * 8, 1.0f);
  size_t used = 0;
  GemmArguments call;
  call.A = TensorView(memory.data(), f32, {m, k});
  call.B = TensorView(memory.data(), f32, {k, n});
  std::vector<NamedArgument> arguments;
  const std::string bind = line_after(text, "bind");
  const std::regex item("(\\w+)=(tensor|out)\\[([MN,]+)\\]:T");
  for (auto at = std::sregex_iterator(bind.begin(), bind.end(), item); at != std::sregex_iterator(); ++at) {
    used += m * n;
    const TensorView view(memory.data() + used, f32, (*at)[3] == "N" ? Dims{n} : Dims{m, n});
    if ((*at)[1] == "D") call.out = view;
    if ((*at)[1] != "D" || (*at)[2] != "out") arguments.push_back({(*at)[1], view});
  }
  auto epilogue = EpilogueArguments::make(text, std::move(arguments));
  if (!epilogue) return epilogue.error().diagnostics().front().headline;
  call.epilogue = *std::move(epilogue);
  const auto kernels = find_kernels(call, Target::host());
  return kernels ? "no error" : kernels.error().diagnostics().front().headline;
}

TEST(FailingExamples, SayWhatTheyPromise) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(CODETTA_SOURCE_DIR) + "/examples/epilogues/failing")) {
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const std::string expected = line_after(text, "expect");
    ASSERT_FALSE(expected.empty()) << entry.path();
    EXPECT_TRUE(headline_of(text).starts_with(expected)) << entry.path() << ": " << headline_of(text);
    ++count;
  }
  EXPECT_GE(count, 7);
}

}  // namespace
}  // namespace codetta

// SPDX-License-Identifier: Apache-2.0
// Errors of the command line, and how every error is shown and becomes an exit status.
#include <cstdio>

#include "cli/options.hpp"

namespace codetta::cli {

Error usage_error(std::string headline, std::string reason, std::string help) {
  Diagnostic diagnostic;
  diagnostic.code = 701;
  diagnostic.headline = std::move(headline);
  diagnostic.reason = std::move(reason);
  diagnostic.help = std::move(help);
  return Error(std::move(diagnostic));
}

Error all_kernels(const std::string& command) {
  return usage_error("--kernel is not for " + command, "it looks at all kernels",
                     "leave it out; gemm, bench, emit, compile, kernels and verify take it");
}

Result<void> writes_nothing(const std::string& command, const GemmProblem& problem) {
  if (problem.output_files.empty()) return {};
  const auto& [name, file] = problem.output_files.front();
  return usage_error("--out " + name + "=" + file + " would not be written", command + " keeps no results",
                     "name a form alone, such as --out " + name + "=[M,N]:f32, or say gemm");
}

namespace {

// The library speaks of its own names; here they are options.
struct Wording {
  const char *in_c, *here;
};
constexpr Wording wordings[] = {
    {"pass A.transposed() if A lies", "--transpose-a is for an A that lies"},
    {"pass B.transposed() if B lies", "--transpose-b is for a B that lies"},
    {"pack with a kernel of the packed family; metadata().family says which it is",
     "leave out --pack, or say --kernel packed"},
    {"`compile_timeout_seconds`", "--compile-timeout"},
    {"`cuda_compiler`", "--cuda-compiler"},
    {"`trial_seconds`", "--trial"},
    {"`tune_seconds`", "--tune"},
    {"`no_jit`", "--no-jit"},
    {"`no_compiler`", "--no-compiler"},
    {"the option no_compiler forbids it", "--no-compiler forbids it"},
    {"the context's cancel flag was set", "the command was interrupted"},
};

Error in_options(const Error& error) {
  std::vector<Diagnostic> diagnostics = error.diagnostics();
  for (Diagnostic& diagnostic : diagnostics) {
    for (std::string* text : {&diagnostic.reason, &diagnostic.help}) {
      for (const auto& [in_c, here] : wordings) {
        const std::string_view said = in_c, told = here;
        for (size_t at = text->find(said); at != std::string::npos; at = text->find(said, at + told.size()))
          text->replace(at, said.size(), told);
      }
    }
  }
  return Error(std::move(diagnostics));
}

}  // namespace

std::string& internal_message() {
  static std::string message;
  return message;
}

int report(const Error& said, bool json) {
  const Error error = in_options(said);
  const std::string text = json ? error.to_json() + "\n" : error.render();
  std::fwrite(text.data(), 1, text.size(), stderr);
  switch (error.family()) {
    case ErrorFamily::Program:
      return exit_program;
    case ErrorFamily::Usage:
      return exit_usage;
    case ErrorFamily::Environment:
      return exit_environment;
    case ErrorFamily::Internal:
      break;
  }
  internal_message() = error.render();
  return exit_internal;
}

}  // namespace codetta::cli

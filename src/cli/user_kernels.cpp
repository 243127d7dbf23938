// SPDX-License-Identifier: Apache-2.0
#include "cli/user_kernels.hpp"

#include "cli/options.hpp"
#include "cli/specs.hpp"

namespace codetta::cli {

Result<UserKernel> read_kernel(const std::string& item) {
  auto parts = split_item(item, "--kernel");
  if (!parts) return std::move(parts).error();
  const std::string& file = parts->second;
  auto source = read_source(file, TextOf::Kernel);
  if (!source) return std::move(source).error();
  UserKernel::Language language = UserKernel::Language::cpp;
  if (file.ends_with(".cu")) language = UserKernel::Language::cuda;
  if (file.ends_with(".hip")) language = UserKernel::Language::hip;
  const bool python = file.ends_with(".py"), cute = source->text.find("cutlass") != std::string::npos;
  if (python) language = cute ? UserKernel::Language::cute_dsl : UserKernel::Language::triton;
  UserKernel kernel{parts->first, source->text, language, file};
  if (python) return kernel;
  auto whole = with_includes(std::move(kernel));
  if (whole || whole.error().code() != 620) return whole;
  return usage_error(whole.error().message(), whole.error().diagnostics().front().reason,
                     "let the files that a kernel includes be readable");
}

Result<Program> with_sources(const Program& program, const std::vector<std::string>& items) {
  if (items.empty()) return program;
  std::vector<UserKernel> kernels;
  for (const std::string& item : items) {
    auto kernel = read_kernel(item);
    if (!kernel) return std::move(kernel).error();
    kernels.push_back(*std::move(kernel));
  }
  return program.with_kernels(std::move(kernels));
}

std::vector<std::string> kernel_files(const std::vector<std::string>& items) {
  std::vector<std::string> files = files_of(items);
  for (const std::string& item : items) {
    const auto kernel = read_kernel(item);  // what is wrong with it is told where it is used
    if (kernel) files.insert(files.end(), kernel->included.begin(), kernel->included.end());
  }
  return files;
}

std::vector<std::string> files_of(const std::vector<std::string>& items) {
  std::vector<std::string> files;
  for (const std::string& item : items) files.push_back(item.substr(item.find('=') + 1));
  return files;
}

}  // namespace codetta::cli

// SPDX-License-Identifier: Apache-2.0
#include "differential/library_call.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>

#include <fmt/format.h>

#include "support/layouts.hpp"

namespace codetta::test {
namespace {

// A tensor as the header of a library declares it.
struct HostTensor {
  void* data = nullptr;
  int32_t dtype = 0, rank = 0;
  int64_t shape[8] = {}, strides[8] = {};
};

HostTensor host_tensor(const TensorView& view) {
  HostTensor made{view.data(), static_cast<int32_t>(view.dtype()), view.rank(), {}, {}};
  for (int d = 0; d < view.rank(); ++d) {
    made.shape[d] = view.size(d);
    made.strides[d] = view.stride(d);
  }
  return made;
}

using Function = int (*)(const HostTensor*, int32_t, void*, int64_t, void*);

std::string hex(const std::string& bytes, size_t at, size_t count) {
  std::string text;
  for (size_t i = count; i-- > 0;) text += fmt::format("{:02x}", static_cast<unsigned char>(bytes[at + i]));
  return text;
}

// The same values in tensors that lie anywhere; what is donated lies in one piece.
std::string call_with_layouts(Function function, const char* (*error)(), const ProgramCase& one,
                              const ProgramRunData& run) {
  std::mt19937_64 random(std::hash<std::string>{}(one.text()));
  std::vector<Laid> given, outputs;
  const std::vector<Tensor> copies = run.parameter_copies(), values = run.parameter_copies();
  const std::vector<ProgramParameter> parameters = one.program()->parameters();
  std::vector<HostTensor> tensors;
  std::string layouts;
  // Sizes that a run computes are those of the run in process: values are not repeated there.
  const auto& buffers = one.package().buffers;
  const bool repeats = std::ranges::all_of(buffers, [](const auto& buffer) { return buffer.filled.empty(); });
  const auto add = [&](const TensorView& view) {
    tensors.push_back(host_tensor(view));
    layouts += fmt::format("{} with strides {}\n", view.describe(), to_string(view.strides()));
  };
  for (size_t i = 0; i < copies.size(); ++i) {
    const TensorView dense = copies[i].view();
    if (parameters[i].donated) {
      add(dense);
      continue;
    }
    given.push_back(laid(dense.dtype(), dense.shape(), random, repeats));
    // Of a dim that has one element for all: what lies there in the end.
    copy_elements(dense, given.back().view);
    copy_elements(given.back().view, values[i].view());
    add(given.back().view);
  }
  for (const Tensor& output : run.outputs) {
    const bool whole = buffers[copies.size() + outputs.size()].filled.empty();
    outputs.push_back(laid(output.view().dtype(), output.view().shape(), random, false, whole));
    add(outputs.back().view);
  }
  const int status = function(tensors.data(), static_cast<int32_t>(tensors.size()), nullptr, 0, nullptr);
  if (status != 0)
    return fmt::format("laid somewhere: the library's function returns {}: {}\n{}", status, error(), layouts);
  std::vector<Tensor> gathered;
  for (const Laid& output : outputs) {
    gathered.push_back(Tensor::make(output.view.dtype(), output.view.shape()).value());
    copy_elements(output.view, gathered.back().view());
    if (!output.gaps_untouched()) return fmt::format("the library writes beside an output\n{}", layouts);
  }
  const std::string account = one.judged(values, run.filled_of(gathered));
  return account.empty() ? account : fmt::format("laid somewhere: the library's outputs:\n{}{}", account, layouts);
}

}  // namespace

std::string bytes_of(const Tensor& tensor) {
  const TensorView view = tensor.view();
  return {static_cast<const char*>(view.data()), static_cast<size_t>(view.element_count() * dtype_size(view.dtype()))};
}

std::string difference(const std::string& name, const Tensor& expected, const std::string& actual) {
  const std::string wanted = bytes_of(expected);
  if (wanted == actual) return {};
  const auto size = static_cast<size_t>(dtype_size(expected.view().dtype()));
  if (wanted.size() != actual.size())
    return fmt::format("{} has {} bytes, in process {}", name, actual.size(), wanted.size());
  int64_t differing = 0;
  size_t first = wanted.size();
  for (size_t at = 0; at < wanted.size(); at += size) {
    if (std::memcmp(wanted.data() + at, actual.data() + at, size) == 0) continue;
    ++differing;
    first = std::min(first, at);
  }
  return fmt::format("{}: {} of {} elements differ, the first at {}: {}, in process {}", name, differing,
                     wanted.size() / size, first / size, hex(actual, first, size), hex(wanted, first, size));
}

std::string call_library(void* handle, const char* (*error)(), const ProgramCase& one) {
  const auto function = reinterpret_cast<Function>(::dlsym(handle, ("batch_" + one.name() + "_tensors").c_str()));
  if (function == nullptr) return "the library lacks its function";
  for (const ProgramRunData& run : one.runs()) {
    const std::vector<Tensor> outputs = run.poisoned_outputs();
    std::vector<HostTensor> tensors;
    const std::vector<Tensor> given = run.parameter_copies();
    for (const Tensor& parameter : given) tensors.push_back(host_tensor(parameter.view()));
    for (const Tensor& output : outputs) tensors.push_back(host_tensor(output.view()));
    const int status = function(tensors.data(), static_cast<int32_t>(tensors.size()), nullptr, 0, nullptr);
    if (status != 0)
      return fmt::format("with {}: the library's function returns {}: {}", run.describe(), status, error());
    for (size_t o = 0; o < outputs.size(); ++o) {
      const std::string account = difference(fmt::format("output {}", o), run.outputs[o], bytes_of(outputs[o]));
      if (!account.empty()) return fmt::format("with {}: the library's {}", run.describe(), account);
    }
    std::string account = call_with_layouts(function, error, one, run);
    if (!account.empty()) return fmt::format("with {}, {}", run.describe(), account);
  }
  return {};
}

}  // namespace codetta::test

// SPDX-License-Identifier: Apache-2.0
// A tensor on a device for every parameter and output of a program: random values, indices in range, poisoned outputs.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "codetta/codetta.hpp"
#include "types/convert.hpp"

namespace codetta::test {

struct DeviceArguments {
  std::vector<Tensor> host;           // what `there` holds before a run
  std::vector<DeviceTensor> there;    // parameters in order, then outputs
  std::vector<DeviceTensor> before;   // copies of donated parameters
  std::vector<NamedArgument> inputs;  // the parameters on the host, numbers included
  std::vector<NamedArgument> arguments;
  VerifyOptions how;  // with `before`
  size_t parameters = 0;

  // As before a run: poison in outputs, donated parameters whole.
  Result<void> restore() const {
    for (size_t i = 0; i < there.size(); ++i) {
      if (auto done = there[i].upload(host[i]); !done) return done;
    }
    return {};
  }
  // The bytes of every output, once all work on the device is done.
  Result<std::vector<std::string>> results() const {
    std::vector<std::string> bytes;
    for (size_t i = parameters; i < there.size(); ++i) {
      Tensor copy = Tensor::make(there[i].view().dtype(), there[i].view().shape()).value();
      if (auto done = there[i].download(copy); !done) return std::move(done).error();
      bytes.emplace_back(static_cast<const char*>(copy.data()), copy.byte_size());
    }
    return bytes;
  }
};

// Of tensors by name, below what their integers lie where the program does not say it.
using IndexLimits = std::vector<std::pair<std::string, int64_t>>;

// nullopt: under these sizes the program has no shapes. Errors: those of the device's memory.
inline Result<std::optional<DeviceArguments>> device_arguments(
    const Program& program, const std::vector<std::pair<std::string, int64_t>>& sizes, const Device& device,
    uint64_t seed, const IndexLimits& limits = {}) {
  DeviceArguments made;
  made.how.poisoned = true;
  const auto inputs = program.missing({}, sizes, 4);
  if (!inputs) return std::optional<DeviceArguments>();
  const std::vector<ProgramParameter> parameters = program.parameters();
  for (const ProgramInput& input : *inputs) {
    if (input.is_number) {
      made.inputs.push_back({input.name, 0.5});
      made.arguments.push_back({input.name, 0.5});
      continue;
    }
    made.host.push_back(Tensor::make(input.dtype, input.shape).value());
    const TensorView view = made.host.back().view();
    fill_random(view, seed + made.host.size());
    int64_t below = input.index_limit;
    for (const auto& [name, limit] : limits) {
      if (name == input.name && below == 0) below = limit;
    }
    if (below > 0) {
      const auto limit = static_cast<uint64_t>(below);
      for (int64_t e = 0; e < view.element_count(); ++e)
        types::store_i64(view.as<std::byte>() + e * dtype_size(input.dtype), input.dtype,
                         static_cast<int64_t>((static_cast<uint64_t>(e) * 7 + seed) % limit));
    }
    CODETTA_TRY(DeviceTensor copy, DeviceTensor::copy_of(device, made.host.back()));
    made.there.push_back(std::move(copy));
    const bool donated = std::any_of(parameters.begin(), parameters.end(), [&](const ProgramParameter& parameter) {
      return parameter.donated && parameter.name == input.name;
    });
    if (donated) {
      CODETTA_TRY(DeviceTensor kept, DeviceTensor::copy_of(device, made.host.back()));
      made.before.push_back(std::move(kept));
      made.how.before.emplace_back(input.name, made.before.back().view());
    }
    made.inputs.push_back({input.name, view});
    made.arguments.push_back({input.name, made.there.back().view()});
  }
  made.parameters = made.there.size();
  const auto shapes = program.shapes(made.inputs);
  if (!shapes) return std::optional<DeviceArguments>();
  for (const ProgramShapes::Output& output : shapes->outputs) {
    made.host.push_back(Tensor::make(output.dtype, output.shape).value());
    fill_poison(made.host.back());
    CODETTA_TRY(DeviceTensor copy, DeviceTensor::copy_of(device, made.host.back()));
    made.there.push_back(std::move(copy));
    made.arguments.push_back({output.name, made.there.back().view()});
  }
  return std::optional<DeviceArguments>(std::move(made));
}

}  // namespace codetta::test

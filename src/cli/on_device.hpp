// SPDX-License-Identifier: Apache-2.0
// A command's tensors on the GPU: copies of what lies in host memory, with the same shapes and strides.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/options.hpp"

namespace codetta::cli {

class OnDevice {
 public:
  // Copies every tensor, outputs with their poison too.
  static Result<OnDevice> make(const Device& device, const GemmArguments& host);
  static Result<OnDevice> make(const Device& device, const std::vector<NamedArgument>& host);
  // On the devices that the program's parameters and outputs lie on.
  static Result<OnDevice> make(const Program& program, const ProgramShapes& shapes, Backend backend, Context& context,
                               const std::vector<NamedArgument>& host);
  // The same arguments over the copies.
  [[nodiscard]] const GemmArguments& arguments() const { return arguments_; }
  [[nodiscard]] const std::vector<NamedArgument>& named() const { return named_; }
  [[nodiscard]] int64_t byte_size() const;
  // Copies the tensor of this name back to where it came from; the work that writes it is done.
  [[nodiscard]] Result<void> download(const std::string& name) const;

 private:
  using DeviceOf = std::function<Result<Device>(const std::string& name)>;
  static Result<OnDevice> make_each(const std::vector<NamedArgument>& host, const DeviceOf& device_of);
  Result<TensorView> copy(const Device& device, const std::string& name, const TensorView& host);

  struct Copy {
    std::string name;
    TensorView host;
    DeviceTensor tensor;
    int ordinal = 0;
  };
  std::vector<Copy> copies_;
  GemmArguments arguments_;
  std::vector<NamedArgument> named_;
};

// So many copies of all operands that none is in the L2 cache when its turn comes again, where reading them is what
// takes the time; else one.
Result<std::vector<OnDevice>> rotation(const Device& device, const GemmArguments& host, double operations);

inline bool on_gpu(const Target& target) { return target.backend == Backend::cuda || target.backend == Backend::hip; }

}  // namespace codetta::cli

// SPDX-License-Identifier: Apache-2.0
// What the text of a step is made of in a Python module (device/host/program.py, program_cuda.py), and the texts of
// launches. `vN` is the array of buffer N, `aN` what the caller passed for it, `nN` the value of a symbol.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "emit/host/python_text.hpp"
#include "package/package.hpp"

namespace codetta::emit::host {

class PythonLaunches {
 protected:
  using Buffer = package::Buffer;
  using Dim = types::Dim;

  // The package lives as long as this.
  explicit PythonLaunches(const package::Package& package)
      : p_(package), gpu_(package.target.backend != Backend::cpu) {}

  Result<void> launch(const package::LaunchKernel& s);
  // In front of this step of the main list, behind which part of the work is done: whether launches from there on take
  // their tensors and sizes, while another program may take over.
  Result<void> look_ahead(size_t step);

  void line(std::string_view text);
  static bool bound(const Buffer& b) { return b.role == Buffer::Role::Argument || b.role == Buffer::Role::Output; }
  [[nodiscard]] std::string name(uint32_t buffer) const { return py_quoted(p_.buffers[buffer].name); }
  size_t symbol(const std::string& symbol_name) { return symbols_.emplace(symbol_name, symbols_.size()).first->second; }

  std::string expression(const Dim& dim);
  std::string tuple(const std::vector<Dim>& dims);
  // What the caller passed fits its declaration.
  void shaped(uint32_t buffer);
  [[nodiscard]] bool is_known(const Buffer& buffer) const;  // its sizes are
  [[nodiscard]] Error refused(const char* why) const;       // the current step

  const package::Package& p_;
  bool gpu_;
  std::vector<size_t> kernel_numbers_;  // in the module, by kernel of the package
  std::string text_;
  int indent_ = 0;
  std::map<std::string, size_t> symbols_;
  std::set<std::string> defined_;  // symbols that have a value here
  std::set<uint32_t> checked_;     // arguments whose sizes are checked in front of all work
  bool arguments_checked_ = false;
  const package::Step* step_ = nullptr;

 private:
  // What a launch passes beside sizes and factors, as items of Python lists.
  struct Tables {
    std::string phases, reductions, operands, scalars;
  };
  Tables tables_of(const package::LaunchKernel& s, const package::EpilogueProgram& program);
  // A kernel of the user's: its operands in order, then its results.
  Result<void> user_launch(const package::LaunchKernel& s, const package::Kernel& kernel);
  Result<void> gpu_launch(const package::LaunchKernel& s, const package::Kernel& kernel, const Tables& tables);
  void map_launch(const package::LaunchKernel& s, const package::Kernel& kernel, const Tables& tables);
  void product_launch(const package::LaunchKernel& s, const package::Kernel& kernel, const Tables& tables);
  // (kernel, operands, scalars, transposed): what makes a factor.
  std::string maker(const package::Prologue& made, bool transposed);
  // A factor's tensor, or what the product sees of it.
  std::string seen(uint32_t buffer, const package::FactorView& view);
};

}  // namespace codetta::emit::host

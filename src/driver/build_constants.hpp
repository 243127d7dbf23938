// SPDX-License-Identifier: Apache-2.0
// Parameters of a program that have their value when a library is built: checked, read, packed.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codetta/build.hpp"
#include "driver/context.hpp"
#include "emit/host/cpp.hpp"
#include "ir/graph.hpp"
#include "plan/plan.hpp"
#include "runtime/execution.hpp"
#include "toolchain/library.hpp"

namespace codetta::driver {

// The values that the options give, by name. Views point into `owned` and into the options.
struct ConstantValues {
  std::vector<std::pair<std::string, Tensor>> owned;  // of the weights file
  std::map<std::string, TensorView> embedded, external;
};
// Errors: E0210 given twice, E0213 a number, E06xx.
Result<ConstantValues> constant_values(const BuildOptions& options);
// Every constant is a parameter of one of the programs. Errors: E0209.
Result<void> check_used(const ConstantValues& values, const BuildOptions& options,
                        const std::vector<emit::host::Program>& programs);

// Whether a parameter of that name has its value in the library, or in its weights.
bool is_constant(const ConstantValues& values, const std::string& name);

// What the library carries, by symbol.
class EmbeddedBytes {
 public:
  // A symbol for these bytes; equal bytes share one.
  std::string add(std::string bytes);
  [[nodiscard]] int64_t byte_size() const { return bytes_; }
  [[nodiscard]] const std::vector<std::string>& contents() const { return contents_; }
  static std::string symbol(size_t content);                                   // of contents()[content]
  [[nodiscard]] const std::string& content_of(std::string_view symbol) const;  // that add() returned
  // Their files, and the translation unit that includes them; no units when there are none.
  void add_to(toolchain::LibraryJob& job) const;

 private:
  std::vector<std::string> contents_;
  std::map<std::string, size_t> by_digest_;
  int64_t bytes_ = 0;
};

// Binds the constants of a program and packs those that are factors in the form that their kernels read. What the
// library carries goes to `bytes`. Errors: E0221 dtype or shape.
Result<void> bind_constants(emit::host::Program& program, const ConstantValues& values, EmbeddedBytes& bytes,
                            ThreadPool& pool);

// Products of a CPU whose B are constants are ranked anew: such a B is packed once, not in every run, so that kernels
// that read packed B cost no packing.
void rank_for_constants(plan::Plan& plan, const plan::MachineFacts& machine, const ConstantValues& values);

// B of a product of constants as its kernel reads it best, by kernel of the package; null: as it lies, or the kernel is
// launched several times. Errors: E0221, E0606.
using PackedFactors = std::vector<std::shared_ptr<const runtime::cpu::PackedB>>;
Result<PackedFactors> packed_constants(const package::PackageRef& package, const ConstantValues& values,
                                       ThreadPool& pool);

// Whether the library would grow by much if it had `more` next to `before`: packed constants that `before` has no use
// for, or those that it has only packed as they lie, of over a quarter of all constants and over a MiB.
Result<bool> wants_other_forms(const package::Package& more, const package::Package& before,
                               const ConstantValues& values);

// Sizes that the constants fix, as hints for planning. Errors: E0221.
Result<std::vector<std::pair<std::string, int64_t>>> constant_hints(const ir::Graph& graph,
                                                                    const ConstantValues& values);

}  // namespace codetta::driver

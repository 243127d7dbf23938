// SPDX-License-Identifier: Apache-2.0
// Packages of steps made by hand, with what is bound to them.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/execution.hpp"
#include "support/plain_store.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta::runtime::test {

using package::Step;
using package::StepList;
using types::Dim;
using Role = package::Buffer::Role;

inline Dim constant(int64_t value) { return Dim::constant(value); }

// An allocator that counts, and refuses from a given number of bytes on.
struct CountingAllocator : Allocator {
  size_t limit = SIZE_MAX, live = 0;
  int calls = 0;
  void* allocate(size_t bytes, size_t alignment) override {
    ++calls;
    if (bytes > limit) return nullptr;
    live += bytes;
    return default_allocator().allocate(bytes, alignment);
  }
  void free(void* memory, size_t bytes, size_t alignment) override {
    live -= bytes;
    default_allocator().free(memory, bytes, alignment);
  }
};

class StepProgram {
 public:
  package::Package package;
  Bindings bindings;
  ExecutionOptions options;
  std::vector<KernelEntry> kernels;  // compiled ones, by kernel; may be shorter
  CountingAllocator allocator;
  std::unique_ptr<ThreadPool> pool = make_thread_pool(1);

  StepProgram() {
    package.name = "steps";
    options.pool = pool.get();
    options.allocator = &allocator;
  }

  uint32_t temporary(const std::string& name, DType dtype, std::vector<Dim> shape) {
    return add({name, Role::Temporary, dtype, false, std::move(shape), {}});
  }
  // A bound tensor with row-major memory of these sizes.
  uint32_t bound(const std::string& name, Role role, DType dtype, std::vector<Dim> shape, const Dims& sizes,
                 const std::vector<double>& values = {}) {
    const uint32_t index = add({name, role, dtype, false, std::move(shape), {}});
    int64_t count = 1;
    for (int i = 0; i < sizes.rank(); ++i) count *= sizes[i];
    auto& memory = memory_.emplace_back(static_cast<size_t>(std::max<int64_t>(count, 1) * dtype_size(dtype) + 64));
    const auto over = reinterpret_cast<uintptr_t>(memory.data()) % 64;
    void* data = memory.data() + (over == 0 ? 0 : 64 - over);
    std::fill(memory.begin(), memory.end(), std::byte{0x5b});
    bindings.tensors[index] = TensorView::make(data, dtype, sizes).value();
    set(index, values);
    return index;
  }
  uint32_t argument(const std::string& name, DType dtype, const Dims& sizes, const std::vector<double>& values = {}) {
    return bound(name, Role::Argument, dtype, shape_of(sizes), sizes, values);
  }
  uint32_t output(const std::string& name, DType dtype, const Dims& sizes) {
    return bound(name, Role::Output, dtype, shape_of(sizes), sizes);
  }
  uint32_t scalar(const std::string& name, DType dtype, int64_t value) {
    const uint32_t index = add({name, Role::Argument, dtype, true, {}, {}});
    bindings.scalars[index].i = value;
    return index;
  }
  // D[m, n] = A[m, k] @ B[k, n], stored by the engine.
  package::LaunchKernel product(uint32_t a, uint32_t b, uint32_t d, const Dim& m, const Dim& n, const Dim& k) {
    package::LaunchKernel launch;
    launch.kernel = static_cast<uint32_t>(package.kernels.size());
    launch.product = package::Product{a, b, false, false, k};
    launch.m = m;
    launch.n = n;
    launch.arguments = {d};
    package::Kernel kernel;
    kernel.name = "product_" + std::to_string(launch.kernel);
    package::CpuGemmConfig config;
    config.family = package::CpuFamily::Convert;
    kernel.config = config;
    kernel.epilogue = codetta::test::plain_store(DType::f32, DType::f32, m, n);
    package.kernels.push_back(std::move(kernel));
    return launch;
  }

  // D[m, n] = X[m, n], by a kernel without a product.
  package::LaunchKernel copy_kernel(uint32_t x, uint32_t d, const Dim& m, const Dim& n) {
    package::LaunchKernel launch = product(x, x, d, m, n, n);
    launch.product.reset();
    launch.arguments = {x, d};
    package::Kernel& kernel = package.kernels.back();
    kernel.name = "copy_" + std::to_string(launch.kernel);
    kernel.config = package::CpuMapConfig{};
    package::EpilogueProgram& program = kernel.epilogue;
    program.arguments.insert(program.arguments.begin(), {"X", DType::f32, false, false, {m, n}});
    package::Operand load = program.operands[0];
    load.is_store = false;
    program.operands[0].argument = 1;
    program.operands.insert(program.operands.begin(), load);
    package::Phase& phase = program.phases[0];
    phase.reads_accumulator = false;
    phase.insts[0].kind = package::Inst::Kind::Load;
    phase.stores = {{1, 0}};
    return launch;
  }

  void set(uint32_t buffer, const std::vector<double>& values) {
    const TensorView& view = bindings.tensors[buffer];
    for (size_t i = 0; i < values.size(); ++i)
      types::store_f64(view.as<std::byte>() + static_cast<int64_t>(i) * dtype_size(view.dtype()), view.dtype(),
                       values[i]);
  }
  [[nodiscard]] std::vector<double> values(uint32_t buffer) const {
    const TensorView& view = bindings.tensors[buffer];
    std::vector<double> result;
    for (int64_t i = 0; i < view.element_count(); ++i)
      result.push_back(types::load_f64(view.as<std::byte>() + i * dtype_size(view.dtype()), view.dtype()));
    return result;
  }

  template <class... S>
  void put(S... steps) {
    (package.steps.emplace_back(std::move(steps)), ...);
  }
  template <class G>
  static Step check(G guard) {
    Step step(std::in_place_type<package::Check>);
    std::get_if<package::Check>(&step)->guard.emplace<G>(std::move(guard));
    return step;
  }
  uint32_t list(StepList steps) {
    package.step_lists.push_back(std::move(steps));
    return static_cast<uint32_t>(package.step_lists.size() - 1);
  }
  void provide(const std::string& name, CodettaExtern function, void* context = nullptr) {
    options.externs.push_back({name, function, context});
  }

  [[nodiscard]] Result<Execution> prepare() const {
    return Execution::make(std::make_shared<package::Package>(package), kernels, bindings, options);
  }
  [[nodiscard]] Result<void> run() const {
    auto execution = prepare();
    if (!execution) return execution.error();
    return execution->run();
  }
  // "E0610 headline: reason", or "ran".
  [[nodiscard]] std::string outcome() const {
    const auto ran = run();
    if (ran) return "ran";
    const Diagnostic& d = ran.error().diagnostics().front();
    EXPECT_FALSE(d.help.empty());
    return "E0" + std::to_string(d.code) + " " + d.headline + ": " + d.reason;
  }

 private:
  static std::vector<Dim> shape_of(const Dims& sizes) {
    std::vector<Dim> shape;
    for (int i = 0; i < sizes.rank(); ++i) shape.push_back(Dim::constant(sizes[i]));
    return shape;
  }
  uint32_t add(package::Buffer buffer) {
    package.buffers.push_back(std::move(buffer));
    bindings.tensors.resize(package.buffers.size());
    bindings.scalars.resize(package.buffers.size());
    return static_cast<uint32_t>(package.buffers.size() - 1);
  }
  std::deque<std::vector<std::byte>> memory_;
};

}  // namespace codetta::runtime::test

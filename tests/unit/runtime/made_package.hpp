// SPDX-License-Identifier: Apache-2.0
// Packages of one kernel, made by hand, with tensors of small random integers bound to them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/execution.hpp"
#include "support/program_evaluator.hpp"
#include "types/convert.hpp"

namespace codetta::runtime::test {

using package::EpilogueProgram;
using package::Inst;
using types::Op;

// Writes the instructions of a phase.
class PhaseMaker {
 public:
  explicit PhaseMaker(package::Phase& phase) : phase_(phase) {}
  uint32_t add(Inst inst) {
    if (inst.kind == Inst::Kind::Accumulator) phase_.reads_accumulator = true;
    phase_.insts.push_back(inst);
    return static_cast<uint32_t>(phase_.insts.size() - 1);
  }
  uint32_t leaf(Inst::Kind kind, DType type, uint32_t index = 0, uint64_t bits = 0) {
    Inst inst;
    inst.kind = kind;
    inst.type = inst.aux = type;
    inst.index = index;
    inst.bits = bits;
    return add(inst);
  }
  uint32_t op(Op name, DType type, std::vector<uint32_t> in, DType aux) {
    Inst inst;
    inst.op = name;
    inst.type = type;
    inst.aux = aux;
    inst.arity = static_cast<uint8_t>(in.size());
    for (size_t i = 0; i < in.size(); ++i) inst.in[i] = in[i];
    return add(inst);
  }
  uint32_t op(Op name, DType type, std::vector<uint32_t> in) { return op(name, type, std::move(in), type); }
  uint32_t literal(DType type, double value) {
    std::byte bytes[8] = {};
    types::store_f64(bytes, type, value);
    if (type == DType::f32) {
      uint32_t bits = 0;
      std::memcpy(&bits, bytes, 4);
      return leaf(Inst::Kind::Literal, type, 0, bits);
    }
    uint64_t bits = 0;
    if (type == DType::f64)
      std::memcpy(&bits, bytes, 8);
    else
      bits = static_cast<uint64_t>(types::load_i64(bytes, type));
    return leaf(Inst::Kind::Literal, type, 0, bits);
  }
  uint32_t as(uint32_t value, DType type) {
    return this->type(value) == type ? value : op(Op::cast, type, {value}, type);
  }
  DType type(uint32_t value) const { return phase_.insts[value].type; }
  void store(uint32_t operand, uint32_t value) { phase_.stores.push_back({operand, value}); }

 private:
  package::Phase& phase_;
};

inline package::IndexTerm term(package::Axis axis, uint8_t dim) { return {axis, 1, 0, dim, types::Dim::constant(1)}; }

// One of the four affine accesses to an argument of shape [batch, M, N] with sizes of 1 where it is repeated.
inline package::Operand affine(uint32_t argument, DType dtype, bool batch, bool row, bool col, bool store) {
  package::Operand operand;
  operand.argument = argument;
  operand.dtype = dtype;
  operand.is_store = store;
  if (batch) operand.terms.push_back(term(package::Axis::Batch, 2));
  if (row) operand.terms.push_back(term(package::Axis::Row, 1));
  if (col) operand.terms.push_back(term(package::Axis::Col, 0));
  operand.access = row && col ? package::Access::Full
                   : col      ? package::Access::Row
                   : row      ? package::Access::Column
                              : package::Access::Scalar;
  operand.unit_stride = col;
  return operand;
}

// A tensor with its memory. `spread`: memory with gaps and swapped dims, where the package allows it.
struct Bound {
  std::unique_ptr<std::byte[]> memory;
  TensorView view;
};
inline Bound bound(DType dtype, const Dims& shape, int spread = 0) {
  Dims strides = row_major_strides(shape);
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  if (spread == 1 && shape.rank() >= 2) {  // padded rows
    const int64_t row = shape[shape.rank() - 1] + 3;
    strides[shape.rank() - 2] = row;
    count = row * shape[shape.rank() - 2];
    for (int d = shape.rank() - 3; d >= 0; --d) {
      strides[d] = count;
      count *= shape[d];
    }
  } else if (spread == 2 && shape.rank() >= 2) {  // column-major
    const int last = shape.rank() - 1;
    strides[last] = shape[last - 1];
    strides[last - 1] = 1;
  }
  Bound result;
  const auto bytes = static_cast<size_t>(std::max<int64_t>(count, 1) * dtype_size(dtype));
  result.memory = std::make_unique<std::byte[]>(bytes);
  std::fill_n(result.memory.get(), bytes, std::byte{0x5b});
  auto view = TensorView::make(static_cast<void*>(result.memory.get()), dtype, shape, strides);
  EXPECT_TRUE(view.has_value());
  if (view) result.view = *view;
  return result;
}
inline std::byte* element(const TensorView& view, const std::vector<int64_t>& index) {
  int64_t at = 0;
  for (size_t d = 0; d < index.size(); ++d) at += index[d] * view.stride(static_cast<int>(d));
  return static_cast<std::byte*>(view.data()) + at * dtype_size(view.dtype());
}
inline std::vector<int64_t> sizes_of(const TensorView& view) { return {view.shape().begin(), view.shape().end()}; }

inline void fill_small(const TensorView& view, std::mt19937& gen, int low = -3, int high = 3) {
  if (view.dtype() == DType::boolean) high = 1;
  if (!types::is_signed(view.dtype())) low = 0;
  for (int64_t i = 0; i < view.element_count(); ++i) {
    const int value = low + static_cast<int>(gen() % static_cast<unsigned>(high - low + 1));
    types::store_f64(element(view, codetta::test::unravel(i, sizes_of(view))), view.dtype(), value);
  }
}
inline codetta::test::Array array_of(const TensorView& view) {
  codetta::test::Array array{sizes_of(view), {}};
  for (int64_t i = 0; i < view.element_count(); ++i) {
    const std::byte* p = element(view, codetta::test::unravel(i, array.shape));
    const DType type = types::compute_dtype(view.dtype());
    array.elements.push_back(types::is_float(type)
                                 ? codetta::test::real_element(types::load_f64(p, view.dtype()), type)
                                 : codetta::test::integer_element(types::load_i64(p, view.dtype()), type));
  }
  return array;
}

struct Sizes {
  int64_t batch = 1, m = 4, n = 8, k = 3;
};

// A package of one kernel and everything that is bound to it.
struct Made {
  package::Package package;
  std::vector<Bound> memory;  // by buffer
  Bindings bindings;
  Sizes sizes;

  Made(EpilogueProgram program, const Sizes& s, package::CpuGemmConfig config, std::mt19937& gen, bool spread = false)
      : sizes(s) {
    const auto constant = [](int64_t value) { return types::Dim::constant(value); };
    config.accumulator = program.accumulator;
    config.a_dtype = config.b_dtype = program.accumulator == DType::i32 ? DType::i8 : program.accumulator;
    package.name = "made";
    package.buffers.push_back({"A",
                               package::Buffer::Role::Argument,
                               config.a_dtype,
                               false,
                               {constant(s.batch), constant(s.m), constant(s.k)},
                               {}});
    package.buffers.push_back({"B",
                               package::Buffer::Role::Argument,
                               config.b_dtype,
                               false,
                               {constant(s.batch), constant(s.k), constant(s.n)},
                               {}});
    package::LaunchKernel launch;
    package::Product& product = launch.product.emplace();
    product.b = 1;
    launch.batch = constant(s.batch);
    launch.m = constant(s.m);
    launch.n = constant(s.n);
    product.k = constant(s.k);
    for (const package::Argument& argument : program.arguments) {
      launch.arguments.push_back(static_cast<uint32_t>(package.buffers.size()));
      package.buffers.push_back({argument.name,
                                 argument.is_output ? package::Buffer::Role::Output : package::Buffer::Role::Argument,
                                 argument.dtype,
                                 argument.is_scalar,
                                 argument.shape,
                                 {}});
    }
    for (size_t i = 0; i < package.buffers.size(); ++i) {
      const package::Buffer& buffer = package.buffers[i];
      codetta::cpu::ScalarValue scalar{};
      if (buffer.is_scalar) {
        memory.emplace_back();
        const int value = static_cast<int>(gen() % 4);
        if (buffer.dtype == DType::f64)
          scalar.d = value;
        else if (types::is_float(buffer.dtype))
          scalar.f = static_cast<float>(value);
        else
          scalar.i = buffer.dtype == DType::boolean ? value % 2 : value;
      } else {
        Dims shape;
        for (const types::Dim& dim : buffer.shape) shape.push_back(*dim.as_constant());
        const bool unit = i < 2 || needs_unit_stride(program, static_cast<uint32_t>(i - 2));
        memory.push_back(bound(buffer.dtype, shape,
                               !spread          ? 0
                               : unit && i >= 2 ? static_cast<int>(gen() % 2)
                                                : static_cast<int>(gen() % 3)));
        if (buffer.role == package::Buffer::Role::Argument) fill_small(memory.back().view, gen);
      }
      bindings.tensors.push_back(memory.back().view);
      bindings.scalars.push_back(scalar);
    }
    package::Kernel kernel;
    kernel.name = "codetta_made";
    kernel.config = config;
    kernel.epilogue = std::move(program);
    package.kernels.push_back(std::move(kernel));
    package.steps.emplace_back(launch);
    package.steps.emplace_back(package::Return{});
  }

  static bool needs_unit_stride(const EpilogueProgram& program, uint32_t argument) {
    for (const package::Operand& operand : program.operands) {
      if (operand.argument == argument && operand.unit_stride) return true;
    }
    return false;
  }

  [[nodiscard]] Result<Execution> prepare(ThreadPool& pool) const {
    ExecutionOptions options;
    options.pool = &pool;
    options.allocator = &default_allocator();
    return Execution::make(std::make_shared<package::Package>(package), std::vector<KernelEntry>(1), bindings, options);
  }

  // The product in the accumulator's type, exact for the small integers that are bound.
  [[nodiscard]] codetta::test::Array accumulators() const {
    codetta::test::Array result{{sizes.batch, sizes.m, sizes.n}, {}};
    for (int64_t i = 0; i < sizes.batch * sizes.m * sizes.n; ++i) {
      const int64_t b = i / (sizes.m * sizes.n), r = i / sizes.n % sizes.m, c = i % sizes.n;
      double sum = 0;
      for (int64_t k = 0; k < sizes.k; ++k) {
        sum += types::load_f64(element(bindings.tensors[0], {b, r, k}), bindings.tensors[0].dtype()) *
               types::load_f64(element(bindings.tensors[1], {b, k, c}), bindings.tensors[1].dtype());
      }
      const DType type = program().accumulator;
      result.elements.push_back(types::is_float(type)
                                    ? codetta::test::real_element(sum, type)
                                    : codetta::test::integer_element(static_cast<int64_t>(sum), type));
    }
    return result;
  }
  [[nodiscard]] const EpilogueProgram& program() const { return package.kernels[0].epilogue; }

  // What direct evaluation says; call before run() where something is updated in place.
  [[nodiscard]] std::vector<codetta::test::Array> expected() const {
    std::vector<codetta::test::Array> inputs;
    for (size_t i = 0; i < program().arguments.size(); ++i) {
      const package::Argument& argument = program().arguments[i];
      if (argument.is_scalar) {
        const codetta::cpu::ScalarValue& value = bindings.scalars[i + 2];
        const DType type = types::compute_dtype(argument.dtype);
        inputs.push_back({{},
                          {type == DType::f32   ? codetta::test::real_element(static_cast<double>(value.f), type)
                           : type == DType::f64 ? codetta::test::real_element(value.d, type)
                                                : codetta::test::integer_element(value.i, type)}});
      } else {
        inputs.push_back(array_of(bindings.tensors[i + 2]));
      }
    }
    const codetta::test::Array accumulator = accumulators();
    codetta::test::ProgramEvaluator evaluator(program(), accumulator, inputs, {});
    EXPECT_EQ(evaluator.run(), "");
    std::vector<codetta::test::Array> result;
    for (size_t i = 0; i < program().arguments.size(); ++i) result.push_back(evaluator.output(i));
    return result;
  }

  // Bit-exact. Returns the first difference, or nothing.
  [[nodiscard]] std::string differences(const std::vector<codetta::test::Array>& wanted) const {
    for (size_t i = 0; i < program().arguments.size(); ++i) {
      const package::Argument& argument = program().arguments[i];
      if (!argument.is_output) continue;
      const TensorView& view = bindings.tensors[i + 2];
      for (int64_t at = 0; at < view.element_count(); ++at) {
        const codetta::test::Element& want = wanted[i].elements[static_cast<size_t>(at)];
        std::byte bytes[8] = {};
        if (types::is_float(want.type))
          types::store_f64(bytes, view.dtype(), types::is_integer(view.dtype()) ? std::nearbyint(want.f) : want.f);
        else
          types::convert(&want.i, DType::i64, bytes, view.dtype(), 1);
        const auto index = codetta::test::unravel(at, sizes_of(view));
        const double got = types::load_f64(element(view, index), view.dtype()),
                     right = types::load_f64(bytes, view.dtype());
        if (got == right || (std::isnan(got) && std::isnan(right))) continue;
        return argument.name + "[" + std::to_string(at) + "] is " + std::to_string(got) + ", not " +
               std::to_string(right) + "\n" + program().to_string();
      }
    }
    return {};
  }
};

}  // namespace codetta::runtime::test

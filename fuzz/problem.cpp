// SPDX-License-Identifier: Apache-2.0
#include "problem.hpp"

#include <algorithm>
#include <array>

#include "differential/random_epilogue_text.hpp"
#include "opt/passes.hpp"
#include "plan/memory_check.hpp"
#include "support.hpp"

namespace codetta::fuzz {
namespace {

enum ArgumentKind : uint8_t { tensor, real_number, integer_number, truth, left_out, argument_kinds };

// 0, 1 and 2 are M, N and the batch; from 3 on the small sizes, then these.
constexpr uint8_t first_size = 3, sizes = 200;
constexpr std::array<int64_t, 12> odd_sizes = {256,
                                               300,
                                               1024,
                                               4096,
                                               65536,
                                               int64_t{1} << 20,
                                               int64_t{1} << 31,
                                               (int64_t{1} << 31) - 1,
                                               int64_t{1} << 40,
                                               int64_t{1} << 62,
                                               INT64_MAX,
                                               -1};

int64_t size_of(uint8_t choice) {
  if (choice < sizes) return choice;
  return odd_sizes[static_cast<size_t>(choice - sizes) % odd_sizes.size()];
}

int64_t dim_of(uint8_t choice, const ir::GemmFacts& facts) {
  switch (choice) {
    case 0:
      return facts.m;
    case 1:
      return facts.n;
    case 2:
      return facts.batch;
    default:
      return size_of(static_cast<uint8_t>(choice - first_size));
  }
}

DType dtype_of(uint8_t choice) { return static_cast<DType>(choice % dtype_count); }

// Bytes that bindings_of reads back.
std::string choices_of(const test::EpilogueSpec& spec, uint64_t seed) {
  std::string bytes;
  const auto put = [&](int64_t value) { bytes += static_cast<char>(static_cast<unsigned char>(value)); };
  put(0);  // facts are as they are by default
  put(static_cast<int64_t>(spec.a));
  put(static_cast<int64_t>(spec.b));
  put(spec.batched ? 1 + static_cast<int64_t>(seed % 3) : 0);
  put(1 + static_cast<int64_t>(seed / 3 % 64));
  put(spec.fixed_n != 0 ? spec.fixed_n : 1 + static_cast<int64_t>(seed / 192 % 64));
  put(static_cast<int64_t>(seed / 12288 % 100));
  const auto put_tensor = [&](DType dtype, const std::vector<int64_t>& shape) {
    put(tensor);
    put(static_cast<int64_t>(dtype));
    put(static_cast<int64_t>(shape.size()));
    for (const int64_t dim : shape)
      put(dim == test::dim_m ? 0 : dim == test::dim_n ? 1 : dim == test::dim_batch ? 2 : dim + first_size);
  };
  for (const test::ParameterSpec& parameter : spec.parameters) {
    if (parameter.is_number) {
      put(parameter.integral ? integer_number : real_number);
    } else {
      put_tensor(parameter.dtype, parameter.shape);
    }
  }
  for (const test::OutputSpec& output : spec.outputs) put_tensor(output.dtype, output.shape);
  return bytes;
}

}  // namespace

std::pair<std::string_view, std::string_view> parts_of(std::string_view input) {
  const size_t end = input.find('\0');
  if (end == std::string_view::npos) return {input, {}};
  return {input.substr(0, end), input.substr(end + 1)};
}

Bindings bindings_of(const ir::Function& function, std::string_view bytes) {
  Choices choices(bytes);
  Bindings result;
  ir::GemmFacts& facts = result.facts;
  const uint8_t flags = choices.next();
  facts.a = choices.used_up() ? DType::f32 : dtype_of(choices.next());
  facts.b = choices.used_up() ? DType::f32 : dtype_of(choices.next());
  const uint8_t batch = choices.next();
  facts.batched = batch != 0;
  facts.batch = batch == 0 ? 1 : size_of(batch);
  facts.m = choices.used_up() ? 21 : size_of(choices.next());
  facts.n = choices.used_up() ? 24 : size_of(choices.next());
  facts.k = choices.used_up() ? 40 : size_of(choices.next());
  // A view can't have other sizes.
  for (int64_t* size : {&facts.batch, &facts.m, &facts.n, &facts.k}) *size = std::max<int64_t>(*size, 0);
  facts.accumulator = ir::default_accumulator(facts.a, facts.b).value_or(DType::f32);
  facts.round_as_unfused = (flags & 1) != 0;
  if ((flags & 2) != 0) facts.accumulator = dtype_of(choices.next());
  const auto next_shape = [&] {
    Dims shape;
    for (int rank = choices.next() % (max_rank + 1); rank > 0; --rank) shape.push_back(dim_of(choices.next(), facts));
    return shape;
  };
  if ((flags & 4) != 0) {
    facts.has_out = true;
    facts.out = dtype_of(choices.next());
    facts.out_shape = next_shape();
  }
  result.target = (flags & 8) != 0 ? Target{Backend::cuda, CpuIsa::generic, (flags & 16) != 0 ? "sm_90a" : "sm_80"}
                                   : Target{Backend::cpu, static_cast<CpuIsa>((flags >> 5) % 7), ""};

  const auto add = [&](const std::string& name, bool is_output) {
    const uint8_t kind = is_output && choices.used_up() ? uint8_t{tensor} : choices.next() % argument_kinds;
    if (kind == left_out) return;
    ir::BoundArgument argument;
    argument.name = name;
    argument.is_scalar = kind != tensor;
    if (kind == tensor) {
      const bool by_default = choices.used_up();
      argument.dtype = by_default ? DType::f32 : dtype_of(choices.next());
      argument.shape = by_default ? Dims{facts.m, facts.n} : next_shape();
    } else {
      argument.dtype = kind == truth         ? DType::boolean
                       : kind == real_number ? (facts.accumulator == DType::f64 ? DType::f64 : DType::f32)
                                             : DType::i32;
    }
    result.arguments.push_back(std::move(argument));
  };
  for (size_t i = 1; i < function.parameters.size(); ++i) add(function.parameters[i].name, false);
  for (const ir::Output& output : function.outputs) add(output.name, true);
  if (choices.next() == 255) add("more", false);
  return result;
}

std::optional<plan::GemmShape> shape_of(const ir::GemmFacts& facts) {
  plan::GemmShape shape;
  const auto fits = [](int64_t x, int64_t y, int64_t z) {
    int64_t product = 0;
    return !__builtin_mul_overflow(x, y, &product) && !__builtin_mul_overflow(product, z, &product) &&
           product < (int64_t{1} << 59);
  };
  if (!fits(facts.m, facts.k, facts.batch) || !fits(facts.k, facts.n, facts.batch)) return std::nullopt;
  shape.batch = facts.batch;
  shape.m = facts.m;
  shape.n = facts.n;
  shape.k = facts.k;
  shape.a = facts.a;
  shape.b = facts.b;
  shape.accumulator = facts.accumulator;
  shape.a_batch_stride = facts.m * facts.k;
  shape.a_row_stride = facts.k;
  shape.b_batch_stride = facts.k * facts.n;
  shape.b_k_stride = facts.n;
  return shape;
}

std::string random_input(uint64_t seed) {
  const test::EpilogueSpec spec = test::random_epilogue_text(seed);
  return spec.text + '\0' + choices_of(spec, seed);
}

std::optional<plan::Plan> checked_plan(const ir::Graph& bound, const Bindings& bindings) {
  require(ir::verify(bound).has_value());
  const auto read = ir::parse_graph(source_of(ir::print(bound)));
  require(read.has_value() && *read == bound && read->hash() == bound.hash());
  const auto optimized = opt::optimize(bound);
  require(optimized.has_value());
  const auto shape = shape_of(bindings.facts);
  if (!shape) return std::nullopt;
  auto plan = plan::plan_gemm(optimized->graph, *shape, {}, bindings.target, {.isa = bindings.target.isa});
  if (!plan) {
    check_error(plan.error(), 300, 499);
    return std::nullopt;
  }
  for (const plan::PlannedKernel& kernel : plan->kernels) {
    const package::EpilogueProgram& program = kernel.lowered.program;
    require(!package::find_defect(program));
    const auto again = package::EpilogueProgram::decode(program.encode());
    require(again.has_value() && *again == program);
  }
  require(plan::check_memory(plan->temporaries, plan->memory).has_value());
  require(!plan::to_string(*plan).empty() && !plan::memory_json(*plan).empty());
  return *std::move(plan);
}

}  // namespace codetta::fuzz

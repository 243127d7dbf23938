// SPDX-License-Identifier: Apache-2.0
#include "plan/parameters.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace codetta::plan {
namespace {

struct Part {
  const char *one, *several;
  size_t count, bytes;  // bytes of each
};

// One of each kind lies there even where there are none; further products have a map for their B.
std::array<Part, 4> parts_of(const package::EpilogueProgram& program) {
  const auto places = [](size_t count) { return std::max<size_t>(count, 1); };
  return {
      {{"operand", "operands", places(program.operands.size()), sizeof(codetta::gpu::Operand)},
       {"argument", "arguments", places(program.scalar_count()), sizeof(codetta::gpu::ScalarValue)},
       {"place for a reduction", "reductions", places(program.reductions.size()),
        sizeof(codetta::gpu::ReductionBuffers)},
       {"further product's map", "further products' maps", program.products() - 1, sizeof(codetta::gpu::TensorMap)}}};
}

}  // namespace

int64_t parameter_bytes(const package::EpilogueProgram& program) {
  size_t bytes = 0;
  for (const Part& part : parts_of(program)) bytes += part.count * part.bytes;
  return static_cast<int64_t>(bytes);
}

std::string too_many_parameters(const package::EpilogueProgram& program, int64_t free) {
  std::string parts;
  for (const Part& part : parts_of(program)) {
    if (part.count == 0) continue;
    parts += fmt::format("{}{} bytes for {} {}", parts.empty() ? "" : ", ", part.count * part.bytes, part.count,
                         part.count == 1 ? part.one : part.several);
  }
  return fmt::format("{} bytes of a launch's parameters are needed: {}; {} are free", parameter_bytes(program), parts,
                     free);
}

}  // namespace codetta::plan

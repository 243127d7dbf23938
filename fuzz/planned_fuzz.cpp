// SPDX-License-Identifier: Apache-2.0
// What package_fuzz does, where mutation starts from packages of random epilogues as they are planned.
#include "frontend/lower.hpp"
#include "packages.hpp"
#include "problem.hpp"

namespace {

using namespace codetta;
using namespace codetta::fuzz;
using package::Package;

// The package of a random epilogue without its digest, or its epilogue program alone; "" when it has no plan.
std::string random_bytes(uint64_t seed) {
  const std::string input = random_input(seed);
  const auto [text, choices] = parts_of(input);
  const auto function = frontend::parse_epilogue(source_of(std::string(text)));
  if (!function) return {};
  const Bindings bindings = bindings_of(*function, choices);
  const auto bound = ir::bind_epilogue(*function, bindings.arguments, bindings.facts);
  if (!bound) return {};
  const auto plan = checked_plan(*bound, bindings);
  if (!plan || plan->kernels[0].discovery.candidates.empty()) return {};
  const plan::PlannedKernel& planned = plan->kernels[0];
  if (seed % 2 == 0) return planned.lowered.program.encode();
  Package result;
  result.name = "p";
  result.target = plan->target;
  result.buffers = plan->buffers;
  result.steps = plan->steps;
  package::Kernel kernel;
  kernel.name = "k";
  kernel.config = planned.discovery.candidates[seed / 2 % planned.discovery.candidates.size()].config;
  kernel.epilogue = planned.lowered.program;
  result.kernels.push_back(std::move(kernel));
  return bytes_of(result);
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return begin_anew(data, size, max_size, seed, 512, LLVMFuzzerMutate, random_bytes);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  read_package(view_of(data, size));
  return 0;
}

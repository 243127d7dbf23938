// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as a package and as an epilogue program: refused, or exactly what encode() gives for what was read,
// and fit for printing. Mutation starts from packages of random epilogues.
#include <algorithm>
#include <random>

#include "base/digest.hpp"
#include "frontend/lower.hpp"
#include "package/package.hpp"
#include "problem.hpp"
#include "support.hpp"

namespace {

using namespace codetta;
using namespace codetta::fuzz;
using package::EpilogueProgram;
using package::Package;

constexpr size_t digest_digits = 32;

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
  std::string bytes = result.encode();
  const auto again = Package::decode(bytes);
  require(again.has_value() && *again == result);
  bytes.resize(bytes.size() - digest_digits);
  return bytes;
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  std::minstd_rand random(seed);
  if (random() % 512 != 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string bytes = random_bytes(random());
  if (bytes.empty() || bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = view_of(data, size);
  if (const auto program = EpilogueProgram::decode(bytes)) {
    require(program->encode() == bytes && !find_defect(*program) && !program->to_string().empty());
  } else {
    check_error(program.error(), 500, 599);
  }
  // The digest hides what lies before it from random bytes: the same with a right one.
  const std::string whole = std::string(bytes) + base::digest_of(bytes).hex();
  if (const auto package = Package::decode(whole)) {
    require(package->encode() == whole && !package->manifest_json().empty());
  } else {
    check_error(package.error(), 500, 599);
  }
  return 0;
}

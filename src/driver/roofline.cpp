// SPDX-License-Identifier: Apache-2.0
#include "driver/roofline.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "types/dtype.hpp"
#include "types/machine.hpp"

namespace codetta::driver {

namespace {

constexpr int64_t usual_size = 512;  // of symbols without a hint, as plan_program() takes them

class Sizes {
 public:
  explicit Sizes(const SizeHints& sizes) : known_(sizes.begin(), sizes.end()) {}
  double operator()(const types::Dim& dim) {
    for (const std::string& symbol : dim.symbols()) known_.emplace(symbol, usual_size);
    return static_cast<double>(std::max<int64_t>(dim.evaluate(known_).value_or(0), 0));
  }

 private:
  std::map<std::string, int64_t> known_;
};

void set_machine(Roofline& found, const Target& target, const plan::MachineFacts& machine) {
  if (target.backend == Backend::cpu) {
    found.memory_rate = machine.memory_rate * machine.cores;
    const double lanes = types::isa_info(machine.isa).vector_bytes / 4.0;
    found.peak = 2 * lanes * machine.fma_vectors_per_clock * machine.ghz * machine.cores;
    found.peak_of = "multiply-adds of f32 in vectors, all cores";
    return;
  }
  found.memory_rate = machine.gpu.memory_rate;
  found.peak = 2 * plan::matrix_rate(machine.gpu.arch) * machine.gpu.sms * machine.gpu.ghz;
  found.peak_of = "16-bit multiply-adds of the matrix units";
}

}  // namespace

double Roofline::roof(double intensity) const {
  const double by_memory = intensity * memory_rate;
  return peak > 0 ? std::min(peak, by_memory) : by_memory;
}

Roofline roofline(const plan::Plan& plan, const plan::MachineFacts& machine, const SizeHints& sizes) {
  Roofline found;
  set_machine(found, plan.target, machine);
  Sizes size_of(sizes);
  std::vector<bool> seen(plan.kernels.size());
  const auto look = [&](const package::StepList& list) {
    for (const package::Step& step : list) {
      const auto* launch = std::get_if<package::LaunchKernel>(&step);
      if (launch == nullptr || seen[launch->kernel]) continue;
      seen[launch->kernel] = true;
      const plan::PlannedKernel& kernel = plan.kernels[launch->kernel];
      if (kernel.chosen >= kernel.discovery.candidates.size() || kernel.user) continue;  // a source: not known
      RooflinePoint point{.kernel = launch->kernel,
                          .microseconds = kernel.discovery.candidates[kernel.chosen].microseconds};
      const double elements = size_of(launch->batch) * size_of(launch->m) * size_of(launch->n);
      if (launch->product) point.operations += 2 * elements * size_of(launch->product->k);
      for (const plan::HeldOperation& held : kernel.account.held) {
        using How = plan::HeldOperation::How;
        if (held.how == How::Element || held.how == How::Reduction) point.operations += elements;
      }
      std::set<uint32_t> buffers(launch->arguments.begin(), launch->arguments.end());
      if (launch->product) launch->product->each_buffer([&](uint32_t b) { buffers.insert(b); });
      for (const uint32_t b : buffers) {
        double bytes = plan.buffers[b].is_scalar ? 0 : static_cast<double>(types::byte_size(plan.buffers[b].dtype));
        for (const types::Dim& dim : plan.buffers[b].shape) bytes *= size_of(dim);
        point.bytes += bytes;
      }
      found.points.push_back(point);
    }
  };
  look(plan.steps);
  for (const package::StepList& list : plan.step_lists) look(list);
  std::sort(found.points.begin(), found.points.end(),
            [](const RooflinePoint& a, const RooflinePoint& b) { return a.kernel < b.kernel; });
  return found;
}

}  // namespace codetta::driver

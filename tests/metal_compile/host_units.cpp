// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "emit/host/metal.hpp"
#include "emit/package.hpp"
#include "opt/passes.hpp"
#include "unit.hpp"
#include "unit/plan/bind_text.hpp"

namespace codetta::metal_compile {

std::vector<Unit> host_units(std::string& problem) {
  static constexpr const char* texts[] = {
      R"(
def mlp(x: bf16["batch", 64], w1: bf16[64, 128], b1: f32[128], w2: bf16[128, 32], scale: f32):
    hidden = gelu(x @ w1 + b1)
    y = hidden @ w2 * scale
    return y
)",
      R"(
def norm(x: f32["rows", "cols"], w: f32["cols"]):
    m = mean(x, dim=-1)
    d = x - m
    y = d * rsqrt(mean(d * d, dim=-1) + 0.001) * w
    total = sum(y)
    return y, total
)",
      R"(
def gated(x: f16["batch", "k"], w: f16["k", 512], residual: f16["batch", 256]):
    gate, up = split(x @ w, 2, dim=-1)
    y = silu(gate) * up + residual
    rows = sum(y, dim=-1)
    return y, rows
)",
  };
  emit::host::Library library;
  library.name = "units";
  library.target = {Backend::metal, CpuIsa::generic, "apple7"};
  library.version = "0";
  library.carried_file = "units.constants.safetensors";
  library.weights_file = "weights.safetensors";
  for (const char* text : texts) {
    const auto graph = test::bind_program_text(text);
    const auto optimized = graph ? opt::optimize(*graph) : Result<opt::Optimized>(graph.error());
    const auto plan = optimized ? plan::plan_program(optimized->graph, library.target, {}, {{"batch", 100}, {"k", 64}})
                                : Result<plan::Plan>(optimized.error());
    auto package = plan ? emit::emit_package(*plan, {.name = "unit", .build_id = "test", .origins = true})
                        : Result<package::Package>(plan.error());
    if (!package) {
      problem = std::string(text) + package.error().render();
      return {};
    }
    // A copy and a fill between steps of the plan, which makes neither of these texts: their host text is looked at
    // too.
    const auto is_return = [](const package::Step& step) { return std::holds_alternative<package::Return>(step); };
    const auto end = std::find_if(package->steps.begin(), package->steps.end(), is_return);
    const auto output = std::find_if(package->buffers.begin(), package->buffers.end(),
                                     [](const package::Buffer& b) { return b.role == package::Buffer::Role::Output; });
    const auto written = static_cast<uint32_t>(output - package->buffers.begin());
    const auto at = package->steps.insert(end, package::Fill{written, package::ZeroMode::PerCall, 0x3f800000});
    package->steps.insert(at, package::Copy{written, written});
    emit::host::Program program;
    program.function = "program_" + std::to_string(library.programs.size());
    // Weights, which the library carries or finds beside it.
    for (uint32_t b = 0; b < package->buffers.size(); ++b) {
      const std::string& name = package->buffers[b].name;
      if (name == "w1") program.constants.push_back({b, {64, 128}, "codetta_constant_0", {}});
      if (name == "b1") program.constants.push_back({b, {128}, {}, "b1"});
    }
    program.package = std::make_shared<const package::Package>(*std::move(package));
    library.programs.push_back(std::move(program));
  }
  if (const auto fine = emit::host::check_metal_library(library); !fine) {
    problem = fine.error().render();
    return {};
  }
  std::vector<Unit> units;
  for (const emit::host::File& file : emit::host::print_metal(library)) {
    if (file.name.ends_with(".mm") || file.name.ends_with(".h"))
      units.push_back({"host " + file.name, file.text, true});
  }
  return units;
}

}  // namespace codetta::metal_compile

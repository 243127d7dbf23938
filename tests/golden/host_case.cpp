// SPDX-License-Identifier: Apache-2.0
#include "host_case.hpp"

#include <array>
#include <memory>
#include <vector>

#include "emit/host/nvcc.hpp"
#include "emit/package.hpp"
#include "frontend/lower.hpp"
#include "ir/bind.hpp"
#include "opt/passes.hpp"
#include "plan/plan.hpp"

namespace codetta::golden {
namespace {

bool has_word(std::string_view words, std::string_view word) {
  const std::string all = " " + std::string(words) + " ";
  return all.find(" " + std::string(word) + " ") != std::string::npos;
}

constexpr const char* chain = R"(
def chain(x: bf16["m", 4096], w: bf16[4096, 4096], b: bf16[4096], v: bf16[4096, 1024], alpha: f32):
    hidden = gelu(x @ w + b)
    y = hidden @ v * alpha
    return y
)";

}  // namespace

std::span<const HostCase> host_cases() {
  static constexpr std::array cases = {
      HostCase{"host_classifier", "cpu:avx2", "", "", R"(
def classifier(x: f32["batch", 64], w1: f32[64, 128], b1: f32[128], w2: f32[128, 10], b2: f32[10]):
    hidden = relu(x @ w1 + b1)
    scores = hidden @ w2 + b2
    return scores
)"},
      HostCase{"host_constants", "cpu:avx512", "w1 b1", "w2", R"(
def classifier(x: f32["batch", 64], w1: f32[64, 128], b1: f32[128], w2: f32[128, "classes"]):
    hidden = relu(x @ w1 + b1)
    scores = hidden @ w2
    return scores
)"},
      HostCase{"host_reductions", "cpu:avx2", "", "", R"(
def statistics(x: f32["m", "k"], w: f32["k", "n"], scale: f32, C: f32["m", "n"]):
    D = x @ w * scale + C
    row_sums = sum(D, dim=-1)
    largest = max(D, dim=-1)
    return D, row_sums, largest
)"},
      HostCase{"host_sizes", "cpu:generic", "", "", R"(
def sizes(x: bf16["n", "k"], w: bf16["k", "2*n"], v: f32["2*n"]):
    y = silu(x @ w) * v
    return y
)"},
      HostCase{"host_maps", "cpu:avx2", "", "", R"(
def maps(q: f32["heads", "s", 64], k: f32["heads", "t", 64], ids: i64["s"], table: f32[100, 64]):
    scores = softmax(q @ transpose(k) * 0.125)
    largest = max(scores, dim=0, keepdim=False)
    rows = take(table, ids)[:s // 2]
    return scores, largest, rows
)"},
      HostCase{"host_cuda_chain", "cuda:sm_90a", "", "", chain},
      HostCase{"host_hip_chain", "hip:gfx942", "", "", chain},
      HostCase{"host_nvcc_chain", "cuda:sm_90a", "", "", chain, true},
      HostCase{"host_cuda_constants", "cuda:sm_80", "w1 b1", "w2", R"(
def classifier(x: f32["batch", 64], w1: f32[64, 128], b1: f32[128], w2: f32[128, "classes"]):
    hidden = relu(x @ w1 + b1)
    scores = hidden @ w2
    return scores
)"},
      HostCase{"host_cuda_maps", "cuda:sm_90a", "", "", R"(
def maps(q: f16["heads", "s", 64], k: f16["heads", "t", 64], ids: i64["s"], table: f32[100, 64]):
    scores = softmax(q @ transpose(k) * 0.125)
    rows = take(table, ids)[:s // 2]
    return scores, rows
)"},
      HostCase{"host_cuda_factors", "cuda:sm_80", "", "", R"(
def factors(x: f32["m", 64], g: bf16[64, 128], u: bf16[64, 128], q: i8[128, 96], s: bf16[96]):
    a = cast(x * 0.5, bf16)
    h = cast(silu(a @ g) * (a @ u), bf16)
    y = h @ cast(cast(q, bf16) * s, bf16)
    return y
)"},
      HostCase{"host_cuda_branch", "cuda:sm_90a", "", "", R"(
def left(t: f32["m", "n"]):
    return relu(t)

def right(t: f32["m", "n"]):
    return t * 0.5

def branch(x: f32["m", "k"], w: f32["k", "n"], flag: bool[1]):
    t = x @ w
    y = cond(flag, left, right, t)
    return y
)"},
  };
  return cases;
}

Result<std::string> emit_host_case(const HostCase& c) {
  CODETTA_TRY(const Target target, Target::parse(c.target));
  CODETTA_TRY(const ir::ProgramFunction function,
              frontend::parse_program(std::make_shared<const diag::SourceText>("program.py", std::string(c.text))));
  CODETTA_TRY(const ir::Graph graph, ir::bind_program(function));
  CODETTA_TRY(const opt::Optimized optimized, opt::optimize(graph));
  plan::MachineFacts machine;
  machine.isa = target.isa;
  CODETTA_TRY(const plan::Plan plan, plan::plan_program(optimized.graph, target, machine, {}));
  CODETTA_TRY(package::Package made, emit::emit_package(plan, {.name = function.name, .build_id = "golden"}));

  emit::host::Program program;
  program.function = function.name;
  program.package = std::make_shared<const package::Package>(std::move(made));
  for (const package::Kernel& kernel : program.package->kernels) {
    program.origins.emplace_back("program.py: " + kernel.name);
    if (target.backend != Backend::cpu) {
      program.images.push_back("image_of_" + kernel.name);
      continue;
    }
    const auto* product = std::get_if<package::CpuGemmConfig>(&kernel.config);
    const bool fused = product != nullptr && product->family == package::CpuFamily::Fused;
    const std::string function_name = kernel.source.empty() ? "" : kernel.name;
    program.functions.push_back({fused ? "" : function_name, fused ? function_name : ""});
  }
  for (uint32_t b = 0; b < program.package->buffers.size(); ++b) {
    const package::Buffer& buffer = program.package->buffers[b];
    const bool embedded = has_word(c.constants, buffer.name);
    if (!embedded && !has_word(c.weights, buffer.name)) continue;
    Dims shape;
    for (const types::Dim& dim : buffer.shape) shape.push_back(dim.as_constant().value_or(10));
    program.constants.push_back({b, shape, embedded ? "codetta_constant_" + buffer.name : "", buffer.name});
  }
  for (size_t s = 0; s < program.package->steps.size(); ++s) {
    const auto* launch = std::get_if<package::LaunchKernel>(&program.package->steps[s]);
    if (launch == nullptr || !launch->product || target.backend != Backend::cpu) continue;
    const auto family = package::cpu(program.package->kernels[launch->kernel].config).family;
    if (family != package::CpuFamily::Packed && family != package::CpuFamily::Fused) continue;
    for (const emit::host::Constant& constant : program.constants) {
      if (constant.buffer == launch->product->b)
        program.packed.push_back({s, constant.symbol.empty() ? "" : constant.symbol + "_packed", 4096});
    }
  }
  emit::host::Library library;
  library.name = "golden";
  library.target = target;
  library.version = "0";
  library.programs.push_back(std::move(program));
  if (!c.weights.empty()) library.weights_file = "weights.safetensors";
  CODETTA_CHECK_OK(emit::host::check_library(library));
  std::string beside;
  if (c.nvcc) {
    const auto units = emit::host::print_nvcc_kernels(library);
    for (const emit::host::NvccUnit& unit : units) {
      std::string file = unit.text;
      for (const package::Kernel& kernel : library.programs[0].package->kernels) {
        if (const size_t at = file.find(kernel.source); at != std::string::npos)
          file.replace(at, kernel.source.size(), "... the kernel ...\n");
      }
      beside += "\n== " + unit.file + "\n" + file;
    }
    beside += "\n== build.sh\n" + emit::host::nvcc_script(library, units, "libgolden.so");
  }
  std::string text = "== header\n" + emit::host::print_header(library);
  for (const emit::host::File& file : emit::host::print_cpp(library)) text += "\n== " + file.name + "\n" + file.text;
  return text + beside;
}

}  // namespace codetta::golden

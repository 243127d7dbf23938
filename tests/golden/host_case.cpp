// SPDX-License-Identifier: Apache-2.0
#include "host_case.hpp"

#include <array>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "device/embedded.hpp"
#include "emit/gpu_steps.hpp"
#include "emit/host/metal.hpp"
#include "emit/host/nvcc.hpp"
#include "emit/host/python.hpp"
#include "emit/package.hpp"
#include "frontend/lower.hpp"
#include "ir/bind.hpp"
#include "opt/passes.hpp"
#include "plan/plan.hpp"
#include "support/second_device.hpp"

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

constexpr const char* maps = R"(
def maps(q: f32["heads", "s", 64], k: f32["heads", "t", 64], ids: i64["s"], table: f32[100, 64]):
    scores = softmax(q @ transpose(k) * 0.125)
    largest = max(scores, dim=0, keepdim=False)
    rows = take(table, ids)[:s // 2]
    return scores, largest, rows
)";

// A loop with a branch in it, a number, and an operand that is given up.
constexpr const char* control = R"(
def more(i, x, w, most):
    return (i < most) & (sum(x) < 100.0)

def twice(x):
    return x * 2.0

def less(x):
    return x - 1.0

def turn(i, x, w, most):
    y = cond(max(x, dim=(0, 1)) > 0.5, twice, less, x)
    return i + 1, relu(y @ w), w, most

def control(x: donated[f32["n", 16]], w: f32[16, 16], most: i32):
    i, y, _, _ = while_loop(more, turn, 0, x * 0.5, w, most)
    return i, y
)";

constexpr const char* writes = R"(
def writes(t: f32["v", 8], places: i64["r"], rows: f32["r", 8], i: i32["r", 8]):
    y = index_put(t, places, rows, accumulate=True)
    z = scatter(y * 0.5, i, rows, dim=0, reduce="max")
    return y, z
)";

// A size that a run computes, of a product's rows and of an output.
constexpr const char* computed = R"(
def computed(x: f32["n", 16], w: f32[16, 8]):
    k = sum(cast(max(x, dim=1, keepdim=False) > 0.0, i64), keepdim=False)
    head = x[:k] @ w
    y = concat(relu(head), zeros(n - k, 8), dim=0)
    return y, head
)";

constexpr const char* externs = R"(
def externs(x: f32["m", 8], alpha: f32):
    h = call_extern("filter", x, alpha, out="f32[m, 8]")
    values, places = call_extern("largest", h * 2.0, out=("f32[m, 3]", "i64[m, 3]"), form="alloc")
    y = values + 1.0
    return y, places
)";

constexpr const char* own = R"(
def own_kernel(x: f32["m", 64], w: f32[64, 64], scale: f32):
    h = relu(x @ w)
    s = user_kernel("own", h, scale, out="f32[m, 64]")
    y = s @ w
    return y
)";
constexpr const char* own_source = R"(
#pragma codetta kernel(x: f32[m, n], scale: f32, out y: f32[m, n])
#pragma codetta sizes(m: i32, n, stride(x, 0)) config(ROWS = 4)
#pragma codetta block(32, ROWS) grid(2 * ceil_div(m, 2 * ROWS)) shared(4 * n * ROWS) cluster(2) dependent
#pragma codetta map(x, box(ROWS, 32), swizzle(128)) window(y, bytes = 4 * n * m, percent = 60)
extern "C" __global__ void own(const __grid_constant__ TensorMap x, float scale, float* y, int m, int64_t n, int64_t stride) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
)";

constexpr const char* convolution = R"(
def convolution(x: bf16["b", 14, 14, 64]):
    y = user_kernel("own", x, out="f32[b, 14, 14]")
    return y
)";
constexpr const char* cooperative_source = R"(
#pragma codetta kernel(x: bf16[b, h, w, c], out y: f32[b, h, w])
#pragma codetta im2col(x, filter(3, 3), padding(1, 2), padding_after(2, 1), dilation(2, 1), stride(1, 2), channels(64), pixels(64))
#pragma codetta block(128) grid(b) cooperative
extern "C" __global__ void own(const __grid_constant__ TensorMap x, float* y) {}
)";

constexpr HostCase placed(HostCase c) {
  c.places = true;
  return c;
}
constexpr HostCase on_two(HostCase c) {
  c.two_devices = true;
  return placed(c);
}

// Queries, keys and values of grouped heads: products of one A that differ in columns.
constexpr std::string_view heads = R"(
def heads(x: bf16[4, 256], wq: bf16[256, 512], wk: bf16[256, "n"], wv: bf16[256, 128], b: f32[512]):
    q = x @ wq + b
    k = x @ wk
    v = cast(x @ wv, f16)
    return q, k, v
)";

// The same of many rows, for the copy engine: what it brings and takes of each product's epilogue.
constexpr std::string_view heads_copied = R"(
def heads_copied(x: bf16[512, 4096], wq: bf16[4096, 4096], wk: bf16[4096, 1024], r: bf16[512, 1024]):
    q = cast(x @ wq, bf16)
    k = cast(x @ wk, bf16) + r
    return q, k
)";
// As parts of one tensor.
constexpr std::string_view heads_joined = R"(
def heads_joined(x: bf16["m", 2048], wq: bf16[2048, 2048], wk: bf16[2048, 512], wv: bf16[2048, 512], b: f32[512]):
    qkv = concat(cast(x @ wq, bf16), cast(x @ wk + b, bf16), cast(x @ wv, bf16), dim=1)
    return qkv
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
      HostCase{"host_maps", "cpu:avx2", "", "", maps},
      placed(HostCase{"host_control", "cpu:avx2", "", "", control}),
      placed(HostCase{"host_writes", "cpu:avx2", "", "", writes}),
      placed(HostCase{"host_computed", "cpu:avx2", "", "", computed}),
      placed(HostCase{"host_externs", "cpu:avx2", "", "", externs}),
      placed(HostCase{"host_own_kernel", "cpu:avx2", "", "", own, HostCase::Form::Cpp, R"(
void own(Tensor<const float, 2> x, float scale, Tensor<float, 2> y) {
  for (int64_t r = 0; r < x.size(0); ++r)
    for (int64_t c = 0; c < 64; ++c) y(r, c) = scale * x(r, c);
}
)"}),
      HostCase{"host_cuda_chain", "cuda:sm_90a", "", "", chain},
      HostCase{"host_hip_chain", "hip:gfx942", "", "", chain},
      HostCase{"host_nvcc_chain", "cuda:sm_90a", "", "", chain, HostCase::Form::Nvcc},
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
      HostCase{"kernels_cuda_join", "cuda:sm_90a", "", "", R"(
def join_by_position(x: f32["m + 1", 60], c: f32["p + 1", 60], b: f32[60], s: f32["m", "p"]):
    y = concat(zeros(m + 1, 2), silu(x) + b, zeros(m + 1, 2), dim=1)
    z = concat(x * 2.0, zeros(0, 60), c, dim=0)
    t = s + 1.0
    return y, z, t
)",
               HostCase::Form::Kernels},
      HostCase{"host_cuda_factors", "cuda:sm_80", "", "", R"(
def factors(x: f32["m", 64], g: bf16[64, 128], u: bf16[64, 128], q: i8[128, 96], s: bf16[96]):
    a = cast(x * 0.5, bf16)
    h = cast(silu(a @ g) * (a @ u), bf16)
    y = h @ cast(cast(q, bf16) * s, bf16)
    return y
)"},
      HostCase{"kernels_cuda_heads", "cuda:sm_90a", "", "", heads, HostCase::Form::Kernels},
      HostCase{"kernels_cuda_heads_copied", "cuda:sm_90a", "", "", heads_copied, HostCase::Form::Kernels},
      HostCase{"host_cuda_heads_joined", "cuda:sm_90a", "", "", heads_joined},
      HostCase{"host_hip_heads", "hip:gfx942", "", "", heads},
      placed(HostCase{"host_python_cuda_heads", "cuda:sm_80", "", "", heads, HostCase::Form::Python}),
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
      placed(HostCase{"host_cuda_control", "cuda:sm_80", "", "", control}),
      placed(HostCase{"host_cuda_writes", "cuda:sm_80", "", "", writes}),
      placed(HostCase{"host_hip_writes", "hip:gfx942", "", "", writes}),
      placed(HostCase{"host_cuda_computed", "cuda:sm_80", "", "", computed}),
      placed(HostCase{"host_cuda_externs", "cuda:sm_80", "", "", externs}),
      // All that a launch can ask for, but what no two of can be asked for at once: host_cuda_cooperative has the rest.
      placed(HostCase{"host_cuda_own_kernel", "cuda:sm_90a", "", "", own, HostCase::Form::Cpp, own_source}),
      placed(HostCase{"host_cuda_cooperative", "cuda:sm_90a", "", "", convolution, HostCase::Form::Cpp,
                      cooperative_source}),
      placed(HostCase{"host_hip_own_kernel", "hip:gfx942", "", "", own, HostCase::Form::Cpp, R"(
#pragma codetta kernel(x: f32[m, n], scale: f32, out y: f32[m, n])
#pragma codetta sizes(m: i32, n, stride(x, 0)) config(ROWS = 4)
#pragma codetta block(64, ROWS) grid(ceil_div(m, ROWS)) shared(4 * n * ROWS) cooperative
extern "C" __global__ void own(const float* x, float scale, float* y, int m, int64_t n, int64_t stride) {}
)"}),
      placed(HostCase{"host_hip_control", "hip:gfx1100", "", "", control}),
      on_two(HostCase{"host_cuda_devices", "cuda:sm_80", "", "", chain}),
      on_two(HostCase{"host_nvcc_devices", "cuda:sm_80", "", "", chain, HostCase::Form::Nvcc}),
      on_two(HostCase{"host_hip_devices", "hip:gfx942", "", "", chain}),
      on_two(HostCase{"host_python_cuda_devices", "cuda:sm_80", "", "", chain, HostCase::Form::Python}),
      placed(HostCase{"host_metal_chain", "metal:apple9", "", "", chain, HostCase::Form::Metal}),
      placed(HostCase{"host_metal_maps", "metal:apple7", "", "", maps, HostCase::Form::Metal}),
      placed(HostCase{"host_python_maps", "cpu:avx2", "", "", maps, HostCase::Form::Python}),
      placed(HostCase{"host_python_control", "cpu:avx2", "", "", control, HostCase::Form::Python}),
      placed(HostCase{"host_python_writes", "cpu:avx2", "", "", writes, HostCase::Form::Python}),
      placed(HostCase{"host_python_computed", "cpu:avx2", "", "", computed, HostCase::Form::Python}),
      placed(HostCase{"host_python_cuda_computed", "cuda:sm_80", "", "", computed, HostCase::Form::Python}),
      placed(HostCase{"host_python_externs", "cpu:avx2", "", "", externs, HostCase::Form::Python}),
      placed(HostCase{"host_python_cuda_chain", "cuda:sm_90a", "", "", chain, HostCase::Form::Python}),
      placed(HostCase{"host_python_cuda_control", "cuda:sm_80", "", "", control, HostCase::Form::Python}),
      placed(HostCase{"host_python_cuda_writes", "cuda:sm_80", "", "", writes, HostCase::Form::Python}),
      placed(HostCase{"host_python_cuda_own_kernel", "cuda:sm_90a", "", "", own, HostCase::Form::Python, own_source}),
      placed(HostCase{"host_python_cuda_cooperative", "cuda:sm_90a", "", "", convolution, HostCase::Form::Python,
                      cooperative_source}),
  };
  return cases;
}

namespace {

// The user's kernel, if there is one.
std::vector<plan::UserSource> sources_of(const HostCase& c, const Target& target) {
  using Language = plan::UserSource::Language;
  if (c.kernel.empty()) return {};
  const Language language = target.backend == Backend::cpu    ? Language::Cpp
                            : target.backend == Backend::cuda ? Language::Cuda
                                                              : Language::Hip;
  return {{"own", std::string(c.kernel.substr(1)), language, "own.txt"}};
}

std::set<std::string> steps_of(const package::Package& package) {
  std::set<std::string> kinds;
  const auto add = [&](const package::StepList& list) {
    for (const package::Step& step : list) kinds.emplace(package::name_of(step));
  };
  add(package.steps);
  for (const package::StepList& list : package.step_lists) add(list);
  return kinds;
}

Result<std::string> python_text(package::Package package) {
  for (package::Kernel& kernel : package.kernels) kernel.binary = "code of " + kernel.name;
  CODETTA_TRY(std::string text, emit::host::emit_python(package, {}));
  for (const char* file :
       {"host/program.py", "host/program_cuda.py", "host/program_cuda_devices.py", "host/program_cuda_user.py"}) {
    const std::string_view begin = device::find_file(file)->text;
    if (const size_t at = text.find(begin); at != std::string::npos)
      text.replace(at, begin.size(), std::string("... ") + file + " ...\n");
  }
  return text;
}

// Without the headers that stand in front of a text, and without the kernels.
std::string metal_part(const emit::host::File& file) {
  std::string text = file.text;
  if (file.name.ends_with(".metal")) text = "... the kernel ...\n";
  const size_t headers = text.find("// ---- device/"),
               part = text.find("namespace codetta::host {\nnamespace {\nconstexpr");
  if (headers < part && part != std::string::npos) text.replace(headers, part - headers, "... host/metal.h ...\n");
  return "== " + file.name + "\n" + text + "\n";
}

std::string without_source(std::string text, const package::Package& package) {
  for (const package::Kernel& kernel : package.kernels) {
    if (kernel.source.empty()) continue;
    if (const size_t at = text.find(kernel.source); at != std::string::npos)
      text.replace(at, kernel.source.size(), "... the kernel ...\n");
  }
  return text;
}

}  // namespace

Result<HostText> emit_host_case(const HostCase& c) {
  CODETTA_TRY(const Target target, Target::parse(c.target));
  CODETTA_TRY(const ir::ProgramFunction function,
              frontend::parse_program(std::make_shared<const diag::SourceText>("program.py", std::string(c.text))));
  CODETTA_TRY(const ir::Graph graph, ir::bind_program(function));
  CODETTA_TRY(const opt::Optimized optimized, opt::optimize(graph));
  plan::MachineFacts machine;
  machine.isa = target.isa;
  CODETTA_TRY(const plan::Plan plan, plan::plan_program(optimized.graph, target, machine, {}, sources_of(c, target)));
  CODETTA_TRY(package::Package made, emit::emit_package(plan, {.name = function.name, .build_id = "golden"}));

  if (c.two_devices) {
    test::move_last_product(made);
    emit::add_steps_kernel(made);
    CODETTA_CHECK_OK(package::check(made));
  }
  for (size_t k = 0; c.places && k < made.kernels.size(); ++k) {
    const std::string called = made.kernels[k].name, place = fmt::format("codetta_kernel_{}", k);
    for (std::string* text : {&made.kernels[k].name, &made.kernels[k].symbol}) {
      if (*text == called) *text = place;
    }
  }
  HostText result{{}, steps_of(made)};
  if (c.form == HostCase::Form::Kernels) {
    for (const package::Kernel& kernel : made.kernels) result.golden += "== " + kernel.name + "\n" + kernel.source;
    return result;
  }
  if (c.form == HostCase::Form::Python) {
    CODETTA_TRY(result.golden, python_text(std::move(made)));
    return result;
  }
  emit::host::Program program;
  program.function = function.name;
  program.package = std::make_shared<const package::Package>(std::move(made));
  for (const package::Kernel& kernel : program.package->kernels) {
    program.origins.emplace_back("program.py: " + kernel.name);
    if (target.backend != Backend::cpu) {
      program.images.push_back("image_of_" + kernel.name);
      continue;
    }
    if (package::is_user(kernel.config)) {
      program.functions.push_back({"", "", kernel.name});
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
  const package::Package& package = *library.programs[0].package;
  if (c.form == HostCase::Form::Metal) {
    CODETTA_CHECK_OK(emit::host::check_metal_library(library));
    for (const emit::host::File& file : emit::host::print_metal(library)) result.golden += metal_part(file);
    return result;
  }
  CODETTA_CHECK_OK(emit::host::check_library(library));
  std::string beside;
  if (c.form == HostCase::Form::Nvcc) {
    const auto units = emit::host::print_nvcc_kernels(library);
    for (const emit::host::NvccUnit& unit : units)
      beside += "\n== " + unit.file + "\n" + without_source(unit.text, package);
    beside += "\n== build.sh\n" + emit::host::nvcc_script(library, units, "libgolden.so");
  }
  result.golden = "== header\n" + emit::host::print_header(library);
  for (const emit::host::File& file : emit::host::print_cpp(library))
    result.golden += "\n== " + file.name + "\n" + file.text;
  result.golden += beside;
  return result;
}

}  // namespace codetta::golden

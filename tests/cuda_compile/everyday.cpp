// SPDX-License-Identifier: Apache-2.0
// The kernels that users meet, as they are picked for sm_90a: of the rows of bench/gpu/rows.py, of every epilogue
// among the examples, by its `# bind:` line, and of the programs there.
#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "base/files.hpp"
#include "diag/diagnostic.hpp"
#include "emit/emit.hpp"
#include "emit/package.hpp"
#include "opt/passes.hpp"
#include "plan/families_cuda.hpp"
#include "plan/plan.hpp"
#include "types/dtype.hpp"
#include "unit.hpp"
#include "unit/plan/bind_text.hpp"

namespace codetta::cuda_compile {
namespace {

constexpr const char* arch = "sm_90a";
constexpr size_t most_candidates = 4;  // that are tried where the first ones spill

struct Product {
  int64_t m, n, k;
  DType type = DType::bf16;
  bool a_columns = false, b_columns = false;  // A lies as [K, M], B as [N, K]
};

struct Row {
  int number;  // of the suite; from 101 on of what it runs beside that
  Product product;
  const char* bind;
  const char* text;
};
constexpr const char* plain = "def f(accum): D = accum; return D";
constexpr const char* bias_relu = "def f(accum, bias): D = relu(accum + bias); return D";
constexpr const char* bias_gelu = "def f(accum, bias): D = gelu(accum + bias, approximate=\"tanh\"); return D";
constexpr const char* aux = "def f(accum, C): F = accum * 0.5 + C * 2.0; D = relu(F); return D, F";
constexpr const char* residual = "def f(accum, C): D = accum + C; return D";
constexpr const char* squares = "def f(accum, C): D = accum + C; S = sum_of_squares(D, dim=-1); return D, S";
constexpr const char* swiglu = "def f(accum): g, u = split(accum, 2, dim=-1); D = silu(g) * u; return D";
constexpr const char* rope =
    "def f(accum, cosines, sines): x, y = split(reshape(accum, (-1, 48, 128)), 2, dim=-1); "
    "turned = reshape(join(x * cosines - y * sines, y * cosines + x * sines, dim=-1), (-1, 6144)); "
    "D = where(col_index() < 5120, turned, accum); return D";
constexpr const char* one_result = "D=out[M,N]:T";
constexpr const char* with_bias = "bias=tensor[N]:T D=out[M,N]:T";
constexpr const char* with_matrix = "C=tensor[M,N]:T D=out[M,N]:T";
constexpr const char* with_squares = "C=tensor[M,N]:T D=out[M,N]:T S=out[M,1]:f32";
constexpr const char* halved = "D=out[M,N/2]:T";
constexpr const char* with_angles = "cosines=tensor[M,1,64]:f32 sines=tensor[M,1,64]:f32 D=out[M,N]:T";
constexpr auto b16 = DType::bf16;
constexpr Row rows[] = {
    {1, {8192, 8192, 8192}, one_result, plain},
    {101, {4096, 4096, 4096}, one_result, plain},
    {102, {1024, 1024, 1024}, one_result, plain},
    {103, {4096, 2112, 7168, b16, false, true}, one_result, plain},
    {2, {4096, 4096, 4096, b16, false, true}, with_bias, bias_gelu},
    {3, {1024, 1024, 1024, b16, false, true}, with_bias, bias_relu},
    {104, {4096, 4096, 4096, b16, false, true}, "C=tensor[M,N]:T D=out[M,N]:T F=out[M,N]:T", aux},
    {105, {1024, 1024, 1024, b16, false, true}, "C=tensor[M,N]:T D=out[M,N]:T F=out[M,N]:T", aux},
    {4, {4096, 6144, 4096, b16, false, true}, with_angles, rope},
    {5, {4096, 4096, 4096, b16, false, true}, with_squares, squares},
    {6, {4096, 28672, 4096, b16, false, true}, halved, swiglu},
    {7, {4096, 4096, 14336, b16, false, true}, with_squares, squares},
    {8,
     {512, 128256, 4096, b16, false, true},
     "target=tensor[M,1]:i64 L=out[M,1]:f32 T=out[M,1]:f32",
     "def f(accum, target): L = logsumexp(accum, axis=\"row\"); "
     "T = sum(where(col_index() == target, accum, 0.0), axis=\"row\"); return L, T"},
    {9, {1, 6144, 4096, b16, false, true}, with_angles, rope},
    {10, {16, 28672, 4096, b16, false, true}, halved, swiglu},
    {11, {16, 4096, 14336, b16, false, true}, with_squares, squares},
    {12, {64, 28672, 4096, b16, false, true}, halved, swiglu},
    {13, {128, 4096, 4096, b16, false, true}, with_squares, squares},
    {106, {16, 14336, 4096, b16, false, true}, one_result, plain},
    {15, {2048, 57344, 8192, b16, false, true}, halved, swiglu},
    {16, {2048, 8192, 28672, b16, false, true}, with_squares, squares},
    {17, {32, 7168, 8192, b16, false, true}, halved, swiglu},
    {18, {32, 8192, 3584, b16, false, true}, with_matrix, residual},
    {119,
     {2048, 57344, 8192, DType::f8e4m3, false, true},
     "r=tensor[M,1]:f32 c=tensor[N]:f32 D=out[M,N/2]:T L=out[1]:f32",
     "def f(accum, r, c): g, u = split(accum * r * c, 2, dim=-1); y = silu(g) * u; L = amax(y); D = y * 8.0; "
     "return D, L"},
    {120,
     {16, 57344, 8192, DType::f8e4m3, false, true},
     "r=tensor[M,1]:f32 c=tensor[N]:f32 D=out[M,N/2]:T",
     "def f(accum, r, c): g, u = split(accum * r * c, 2, dim=-1); D = silu(g) * u * 8.0; return D"},
    {30,
     {4096, 4096, 1024, b16, false, true},
     "bias=tensor[N]:T D=out[M,N]:T Z=out[M,N]:T",
     "def f(accum, bias): Z = accum + bias; D = gelu(Z, approximate=\"tanh\"); return D, Z"},
    {31,
     {4096, 4096, 1024},
     "Z=tensor[M,N]:T D=out[M,N]:T G=out[N]:f32",
     "def f(accum, Z): D = accum * dgelu(Z, approximate=\"tanh\"); G = sum(D, axis=\"column\"); return D, G"},
    {32,
     {4096, 768, 3072, b16, false, true},
     "bias=tensor[N]:T C=tensor[M,N]:T D=out[M,N]:T S=out[M,1]:f32 Q=out[M,1]:f32",
     "def f(accum, bias, C): D = dropout(accum + bias, 0.1, 7) + C; S = sum(D, dim=-1); Q = sum_of_squares(D, dim=-1); "
     "return D, S, Q"},
    {33, {12608, 4096, 1024, b16, false, true}, with_bias, bias_gelu},
    {34,
     {12608, 1024, 4096, b16, false, true},
     "bias=tensor[N]:T scale=tensor[N]:T C=tensor[M,N]:T D=out[M,N]:T",
     "def f(accum, bias, scale, C): D = (accum + bias) * scale + C; return D"},
    {35,
     {4096, 1024, 12608, b16, true, false},
     "C=tensor[M,N]:f32 D=out[M,N]:f32",
     "def f(accum, C): D = C + accum; return D"},
    {36, {65536, 512, 13, b16, false, true}, with_bias, bias_relu},
    {37, {65536, 1024, 479, b16, false, true}, with_bias, bias_relu},
    {38, {65536, 1, 256, b16, false, true}, with_bias, "def f(accum, bias): D = sigmoid(accum + bias); return D"},
    {39, {4096, 4096, 4096, DType::f32, false, true}, with_bias, bias_relu},
    {40,
     {4096, 4096, 4096, DType::i8, false, true},
     "r=tensor[M,1]:f32 c=tensor[N]:f32 bias=tensor[N]:f32 D=out[M,N]:bf16",
     "def f(accum, r, c, bias): D = accum * r * c + bias; return D"},
};

// What a bind line says: arguments in its order, and sizes and types beside them.
struct Bound {
  std::vector<ir::BoundArgument> arguments;
  std::map<std::string, int64_t> sizes;
  DType type;
};
Bound bound(const std::string& line, const Product& product) {
  Bound result{{}, {{"M", product.m}, {"N", product.n}, {"K", product.k}}, product.type};
  std::vector<std::pair<std::string, std::string>> words;
  std::stringstream stream(line);
  for (std::string word; stream >> word;) {
    const size_t equal = word.find('=');
    const std::string name = word.substr(0, equal), value = word.substr(equal + 1);
    if (name == "types") {
      const bool has = value.find(dtype_name(product.type)) != std::string::npos;
      if (!has) result.type = dtype_from_name(value.substr(0, value.find(','))).value();
    } else if (value.find_first_not_of("0123456789") == std::string::npos) {
      result.sizes[name] = std::stoll(value);
    } else {
      words.emplace_back(name, value);
    }
  }
  const auto type_of = [&](const std::string& name) {
    if (name == "T") return result.type;
    if (name == "acc") return ir::default_accumulator(result.type, result.type).value();
    return dtype_from_name(name).value();
  };
  for (const auto& [name, value] : words) {
    const size_t open = value.find('['), close = value.find(']');
    if (open == std::string::npos) {  // a scalar
      const bool fraction = value.find('.') != std::string::npos;
      result.arguments.push_back(test::scalar(name, fraction ? DType::f32 : DType::i64));
      continue;
    }
    Dims shape;
    std::stringstream sizes(value.substr(open + 1, close - open - 1));
    for (std::string size; std::getline(sizes, size, ',');) {
      const size_t slash = size.find('/');
      const auto known = result.sizes.find(size.substr(0, slash));
      const int64_t whole = known == result.sizes.end() ? std::stoll(size) : known->second;
      shape.push_back(slash == std::string::npos ? whole : whole / std::stoll(size.substr(slash + 1)));
    }
    const std::string type = value.substr(close + 2, value.find(':', close + 2) - close - 2);
    result.arguments.push_back(test::tensor(name, type_of(type), shape));
  }
  return result;
}

plan::ArgumentLayout layout_of(const Dims& shape) {
  plan::ArgumentLayout layout;
  layout.contiguous = true;
  layout.strides.resize(static_cast<size_t>(shape.rank()));
  int64_t stride = 1;
  for (int d = shape.rank(); d-- > 0; stride *= shape[d])
    layout.strides[static_cast<size_t>(d)] = shape[d] == 1 ? 0 : stride;
  return layout;
}

Result<Unit> unit_of(const std::string& label, const std::string& text, const std::string& bind, Product product) {
  const Bound all = bound(bind, product);
  product.n = all.sizes.at("N");
  const auto facts = [&] {
    ir::GemmFacts made = test::gemm_facts(product.m, product.n, product.k, all.type);
    made.batched = all.sizes.contains("batch");
    if (made.batched) made.batch = all.sizes.at("batch");
    return made;
  }();
  CODETTA_TRY(const ir::Graph graph, test::bind_text(text, all.arguments, facts));
  CODETTA_TRY(const opt::Optimized optimized, opt::optimize(graph));
  std::vector<plan::ArgumentLayout> layouts;
  const auto add_layout = [&](const std::string& name) {
    const auto found =
        std::find_if(all.arguments.begin(), all.arguments.end(), [&](auto& a) { return a.name == name; });
    layouts.push_back(layout_of(found == all.arguments.end() ? Dims{} : found->shape));
  };
  for (size_t i = 2; i < optimized.graph.inputs().size(); ++i) add_layout(optimized.graph.inputs()[i].name);
  for (const ir::GraphOutput& output : optimized.graph.outputs()) add_layout(output.name);
  plan::GemmShape shape;
  shape.batch = facts.batch;
  shape.m = facts.m, shape.n = facts.n, shape.k = facts.k;
  shape.a = facts.a, shape.b = facts.b, shape.accumulator = facts.accumulator;
  if (all.type == DType::f32) shape.math = package::MathMode::Tf32;
  if (types::is_fp8(all.type)) shape.math = package::MathMode::Fp8TwoLevelAccumulation;
  shape.a_batch_stride = facts.batched ? facts.m * facts.k : 0;
  shape.b_batch_stride = facts.batched ? facts.k * facts.n : 0;
  shape.a_row_stride = product.a_columns ? 1 : facts.k;
  shape.a_k_stride = product.a_columns ? facts.m : 1;
  shape.b_k_stride = product.b_columns ? 1 : facts.n;
  shape.b_col_stride = product.b_columns ? facts.k : 1;
  plan::MachineFacts machine;
  machine.gpu = plan::gpu_facts(arch);
  CODETTA_TRY(const plan::Plan plan,
              plan::plan_gemm(optimized.graph, shape, layouts, {Backend::cuda, CpuIsa::generic, arch}, machine));
  const plan::PlannedKernel& kernel = plan.kernels.at(0);
  if (kernel.discovery.candidates.empty())
    return diag::error(diag::Code::internal, "no kernel takes " + label)
        .reason("each has one")
        .help("look at the plan");
  Unit unit;
  for (const plan::Candidate& candidate : kernel.discovery.candidates) {
    CODETTA_TRY(const emit::CudaSource source,
                emit::emit_cuda_kernel(kernel.lowered.program, package::gpu(candidate.config), {.arch = arch}));
    if (!unit.label.empty()) {
      unit.instead.push_back(source.text);
      if (unit.instead.size() + 1 == most_candidates) break;
      continue;
    }
    unit = {label + " " + candidate.name, source.text, source.flags, source.entries.size()};
  }
  unit.everyday = true;
  return unit;
}

Result<std::vector<Unit>> units_of_program(const std::string& name, const std::string& text,
                                           const std::vector<std::pair<std::string, int64_t>>& sizes) {
  CODETTA_TRY(const ir::Graph graph, test::bind_program_text(text));
  CODETTA_TRY(const opt::Optimized optimized, opt::optimize(graph));
  plan::MachineFacts machine;
  machine.gpu = plan::gpu_facts(arch);
  CODETTA_TRY(plan::Plan plan,
              plan::plan_program(optimized.graph, {Backend::cuda, CpuIsa::generic, arch}, machine, sizes));
  std::vector<Unit> units;
  std::vector<uint32_t> kernel_of;
  for (size_t c = 0; c < most_candidates; ++c) {
    for (plan::PlannedKernel& kernel : plan.kernels)
      kernel.chosen = std::min(c, std::max<size_t>(kernel.discovery.candidates.size(), 1) - 1);
    CODETTA_TRY(const package::Package package, emit::emit_package(plan, {}, &kernel_of));
    for (size_t k = 0; k < plan.kernels.size(); ++k) {
      const package::Kernel& kernel = package.kernels[kernel_of[k]];
      if (c > 0) {
        units[k].instead.push_back(kernel.source);
        continue;
      }
      units.push_back(
          {"program " + name + " " + kernel.name, kernel.source, kernel.nvrtc_flags, kernel.entries.size()});
      units.back().everyday = true;
    }
  }
  return units;
}

std::vector<std::filesystem::path> files_of(const char* folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".py") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<Unit> everyday_units(std::string& problem) {
  constexpr size_t most_bytes = size_t{1} << 16;
  std::vector<Unit> units;
  const auto add = [&](Result<Unit> unit, const std::string& label) {
    if (unit)
      units.push_back(*std::move(unit));
    else
      problem = label + ": " + unit.error().render();
  };
  for (const Row& row : rows) {
    const std::string label = "suite " + std::to_string(row.number);
    add(unit_of(label, row.text, row.bind, row.product), label);
  }
  for (const std::filesystem::path& file : files_of(CODETTA_SOURCE_DIR "/examples/epilogues")) {
    const std::string label = "example " + file.stem().string(), text = test::example(file.stem().string());
    const std::string start = "# bind: ";
    const size_t at = text.find(start) + start.size();
    const std::string bind = text.substr(at, text.find('\n', at) - at);
    const bool bytes = bind.find("types=i8") != std::string::npos || bind.find(",i8") != std::string::npos;
    add(unit_of(label, text, bind, {4096, 4096, 4096, bytes ? DType::i8 : DType::bf16}), label);
  }
  for (const std::filesystem::path& file : files_of(CODETTA_SOURCE_DIR "/examples/programs")) {
    const auto text = base::read_file(file.string(), most_bytes);
    for (const int64_t s : {2048, 128}) {
      auto made = units_of_program(file.stem().string(), text ? *text : "", {{"b", 2}, {"s", s}});
      if (!made) {
        problem = file.string() + ": " + made.error().render();
        break;
      }
      for (Unit& unit : *made) {
        const bool seen = std::any_of(units.begin(), units.end(), [&](auto& u) { return u.source == unit.source; });
        if (!seen) units.push_back(std::move(unit));
      }
    }
  }
  return units;
}

}  // namespace codetta::cuda_compile

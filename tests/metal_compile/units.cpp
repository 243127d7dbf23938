// SPDX-License-Identifier: Apache-2.0
// Every golden Metal case; every configuration of every family with a plain store, in every layout; made factors and
// several products of one A; the epilogues of
// everyday use with the configurations that discovery offers for them; random epilogues; maps; and the kernels of the
// programs among the examples.
#include "unit.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "base/files.hpp"
#include "compile_gate/factors.hpp"
#include "compile_gate/products.hpp"
#include "emit/metal.hpp"
#include "emit/package.hpp"
#include "golden/case.hpp"
#include "opt/passes.hpp"
#include "plan/families_metal.hpp"
#include "support/plain_store.hpp"
#include "support/random_kernel.hpp"
#include "types/dtype.hpp"
#include "unit/plan/bind_text.hpp"

namespace codetta::metal_compile {
namespace {

using compile_gate::Epilogue;
using compile_gate::Layout;
using compile_gate::layouts;
using compile_gate::shape_of;
using compile_gate::Size;
using package::GpuGemmConfig;
using plan::GemmShape;

constexpr Size sizes[] = {{1024, 1024, 1024}, {16, 4096, 16384}};

class Collector {
 public:
  explicit Collector(std::string& problem) : problem_(problem) {}

  void add_golden() {
    for (const golden::Case& c : golden::all_cases()) {
      if (!c.target.starts_with("metal")) continue;
      const auto emitted = golden::emit_case(c);
      if (!emitted) {
        problem_ = std::string(c.name) + ": " + emitted.error().render();
        continue;
      }
      for (const golden::Emitted::Source& source : emitted->sources)
        units_.push_back(
            {"golden " + std::string(c.name) + " " + std::string(c.target), emit::whole_metal_text(source.text), true});
    }
  }

  void add(const std::string& what, const package::EpilogueProgram& program, const GpuGemmConfig& config) {
    const auto source = emit::emit_metal_kernel(program, config, {});
    if (!source) {
      problem_ = what + ": " + source.error().render();
      return;
    }
    // src/plan and the kernel compute the same threadgroup memory.
    const std::string shape = config.family == package::GpuFamily::Simt ? "SimtShape" : "SimdgroupShape";
    const std::string text = source->text + "static_assert(codetta::gpu::" + shape +
                             "<codetta::gpu::Config, codetta::gpu::Epilogue>::shared_bytes == " +
                             std::to_string(plan::metal_shared_bytes(program, config)) + ", \"\");\n";
    if (!seen_.insert(text).second) return;
    units_.push_back({what + " " + plan::metal_kernel_name(config, plan::default_metal_family),
                      emit::whole_metal_text(text),
                      config.family == package::GpuFamily::Simt && always_.insert(config.accumulator).second});
  }

  void add_plain(DType a, DType b, std::optional<DType> accumulator = std::nullopt) {
    if (!accumulator) accumulator = ir::default_accumulator(a, b);
    if (!accumulator || *accumulator == DType::f64) return;
    const plan::GpuFacts gpu = plan::metal_facts(plan::default_metal_family);
    for (const Size& size : sizes) {
      for (const Layout& layout : layouts) {
        const GemmShape shape = shape_of(size, a, b, *accumulator, layout);
        const package::EpilogueProgram program = test::plain_store(*accumulator, a);
        const plan::GpuProblem problem{program, shape, gpu};
        for (const plan::GpuFamilyInfo& family : plan::metal_families()) {
          if (family.refuse(problem)) continue;
          for (GpuGemmConfig config : family.configurations(problem)) {
            config.k_split = std::min(config.k_split, 2);
            if (config.family == package::GpuFamily::Simt && &layout != layouts) continue;  // its layouts are run-time
            add(std::string("plain ") + std::string(dtype_name(a)) + " " + std::string(dtype_name(b)) + " " +
                    layout.name,
                program, config);
          }
        }
      }
    }
  }

  // Factors that are made, and several products of one A.
  template <class F>
  void add_factors(const std::string& what, const package::EpilogueProgram& program, DType dtype, F change) {
    for (const Size& size : sizes) {
      for (const Layout& layout : layouts) {
        GemmShape shape = shape_of(size, dtype, dtype, *ir::default_accumulator(dtype, dtype), layout);
        change(shape);
        const plan::Discovery found = plan::discover(program, shape, {Backend::metal, CpuIsa::generic, "apple9"}, {});
        std::set<package::GpuFamily> seen;
        for (const plan::Candidate& candidate : found.candidates) {
          GpuGemmConfig config = package::gpu(candidate.config);
          if (!seen.insert(config.family).second && &layout != layouts) continue;
          config.k_split = std::min(config.k_split, 2);
          add(what + " " + std::string(dtype_name(dtype)) + " " + layout.name, program, config);
        }
      }
    }
  }
  void add_made(DType dtype, bool a, bool b, bool heavy) {
    const std::string what = std::string("made ") + (a ? "A" : "") + (b ? "B" : "") + (heavy ? " heavy" : "");
    const DType accumulator = *ir::default_accumulator(dtype, dtype);
    add_factors(what, compile_gate::made_factors(dtype, accumulator, a, b, heavy), dtype, [&](GemmShape& shape) {
      shape.a_made = a, shape.b_made = b;
      shape.a_clocks = shape.b_clocks = heavy ? 20 : 2;
      shape.a_read_bytes = shape.b_read_bytes = 1 + (heavy ? static_cast<double>(types::byte_size(dtype)) : 0);
    });
  }
  void add_products(DType dtype, int32_t count) {
    const DType accumulator = *ir::default_accumulator(dtype, dtype);
    add_factors(std::to_string(count) + " products", compile_gate::products_of_one_a(dtype, accumulator, count), dtype,
                [&](GemmShape& shape) {
                  shape.products = count;
                  shape.n *= count;
                });
  }

  void add_epilogue(const Epilogue& epilogue, DType dtype) {
    for (const Size& size : sizes) {
      const auto facts = test::gemm_facts(size.m, size.n, size.k, dtype);
      const auto graph =
          test::bind_text(test::example(epilogue.name), epilogue.arguments(size.m, size.n, dtype), facts);
      const auto lowered =
          graph ? plan::lower_epilogue(*graph, test::product(*graph), {}) : Result<plan::Lowered>(graph.error());
      if (!lowered) {
        problem_ = std::string(epilogue.name) + ": " + lowered.error().render();
        return;
      }
      const GemmShape shape = shape_of(size, dtype, dtype, facts.accumulator, layouts[1]);
      const plan::Discovery found =
          plan::discover(lowered->program, shape, {Backend::metal, CpuIsa::generic, "apple9"}, {});
      for (size_t i = 0; i < std::min<size_t>(6, found.candidates.size()); ++i)
        add(epilogue.name + (" " + std::string(dtype_name(dtype))), lowered->program,
            package::gpu(found.candidates[i].config));
    }
  }

  // Epilogues of random layout ops and reductions, each with one of the candidates that discovery offers for it.
  void add_random(uint64_t seed) {
    const auto plan = test::random_kernel(seed, {Backend::metal, CpuIsa::generic, "apple9"});
    if (!plan) return;  // what can not be fused: tests/unit/plan
    const plan::PlannedKernel& kernel = plan->kernels[0];
    const auto& candidates = kernel.discovery.candidates;
    add("random " + std::to_string(seed), kernel.lowered.program,
        package::gpu(candidates[seed % candidates.size()].config));
    ++random_;
  }
  [[nodiscard]] size_t random() const { return random_; }

  // Kernels without a product: element by element, rows in one launch, columns, items and everything; parts of joins,
  // reads by indices.
  void add_maps() {
    static constexpr const char* bodies[] = {
        "y = silu(x) * c + 1.0",        "e = exp(x - max(x, dim=-1))\n    y = e / sum(e, dim=-1) + c * 0.0",
        "y = logsumexp(x + c, dim=-1)", "m = mean(x, dim=0)\n    y = (x - m) * rsqrt(mean(x * x, dim=0) + 0.001) + c",
        "y = x * c / sum(x * x)",       "y = join(-x[:, 64:128], c[:, 0:64], dim=-1)",
        "y = permute(x + c, [1, 0])",   "y = take(x + c, i, dim=0)",
    };
    for (const char* type : {"f32", "bf16", "f16"}) {
      for (const char* body : bodies) {
        const std::string text = std::string("def f(x: ") + type + "[256, 128], c: " + type +
                                 "[256, 128], i: i64[40]):\n    " + body + "\n    z = i + 1\n    return y, z\n";
        const auto graph = test::bind_program_text(text);
        const auto plan = graph ? plan::plan_program(*graph, {Backend::metal, CpuIsa::generic, "apple7"}, {}, {})
                                : Result<plan::Plan>(graph.error());
        if (!plan) {
          problem_ = text + plan.error().render();
          return;
        }
        for (const plan::PlannedKernel& kernel : plan->kernels) {
          const auto& config = package::gpu_map(kernel.discovery.candidates[0].config);
          const auto source = emit::emit_metal_map(kernel.lowered.program, config, {});
          if (!source) {
            problem_ = text + source.error().render();
            return;
          }
          if (seen_.insert(source->text).second)
            units_.push_back({"map " + std::string(type) + " " + kernel.discovery.candidates[0].name + " of " + body,
                              emit::whole_metal_text(source->text), false});
        }
      }
    }
  }

  // All kernels of the programs among the examples, of usual sizes and of small ones, for a family with matrices of a
  // SIMD group and one without; steps that Metal has no form of are refused.
  void add_programs() {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(CODETTA_SOURCE_DIR "/examples/programs"))
      files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    size_t planned = 0;
    for (const std::filesystem::path& file : files) {
      const auto text = base::read_file(file.string(), size_t{1} << 16);
      const auto bound = test::bind_program_text(text ? *text : "");
      const auto graph = bound ? opt::optimize(*bound) : Result<opt::Optimized>(bound.error());
      for (const char* family : {"apple9", "mac2"}) {
        for (const auto& hints :
             std::vector<std::vector<std::pair<std::string, int64_t>>>{{}, {{"b", 2}, {"s", 128}}}) {
          const auto plan = graph
                                ? plan::plan_program(graph->graph, {Backend::metal, CpuIsa::generic, family}, {}, hints)
                                : Result<plan::Plan>(graph.error());
          if (!plan && plan.error().code() == static_cast<uint16_t>(diag::Code::target_lacks)) continue;
          const auto package = plan ? emit::emit_package(*plan, {}) : Result<package::Package>(plan.error());
          if (!package) {
            problem_ = file.string() + ": " + package.error().render();
            return;
          }
          ++planned;
          for (const package::Kernel& kernel : package->kernels) {
            if (seen_.insert(kernel.source).second)
              units_.push_back({"program " + file.stem().string() + " " + kernel.name + " " + family,
                                emit::whole_metal_text(kernel.source), false});
          }
        }
      }
    }
    if (planned < 2 * files.size()) problem_ = "most programs among the examples have no form for Metal";
  }

  std::vector<Unit> take() { return std::move(units_); }

 private:
  std::string& problem_;
  size_t random_ = 0;
  std::vector<Unit> units_;
  std::set<std::string> seen_;
  std::set<DType> always_;
};

}  // namespace

std::vector<Unit> all_units(std::string& problem) {
  Collector collector(problem);
  collector.add_golden();
  for (int d = 0; d < dtype_count; ++d) collector.add_plain(static_cast<DType>(d), static_cast<DType>(d));
  collector.add_plain(DType::bf16, DType::i8);
  collector.add_plain(DType::i8, DType::i8, DType::i64);
  collector.add_plain(DType::f8e4m3, DType::f8e5m2);
  for (const DType dtype : {DType::bf16, DType::f32, DType::i8}) {
    for (const bool heavy : {false, true}) {
      collector.add_made(dtype, true, false, heavy);
      collector.add_made(dtype, false, true, heavy);
    }
    collector.add_made(dtype, true, true, false);
    for (const int32_t count : {2, 3}) collector.add_products(dtype, count);
  }
  for (const Epilogue& epilogue : compile_gate::everyday_epilogues()) {
    for (const DType dtype : {DType::bf16, DType::f32}) collector.add_epilogue(epilogue, dtype);
  }
  constexpr size_t random_kernels = 1000;
  for (uint64_t seed = 1; collector.random() < random_kernels && seed <= 2 * random_kernels; ++seed)
    collector.add_random(seed);
  if (collector.random() < random_kernels && problem.empty())
    problem = "most random epilogues: only " + std::to_string(collector.random()) + " of them can be fused";
  collector.add_maps();
  collector.add_programs();
  std::vector<Unit> units = collector.take();
  units.push_back({"copies and fills", emit::whole_metal_text("#include \"device/metal/kernels/bytes.h\"\n"), true});
  return units;
}

}  // namespace codetta::metal_compile

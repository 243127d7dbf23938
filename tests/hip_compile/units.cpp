// SPDX-License-Identifier: Apache-2.0
// Every golden HIP case; every configuration of every family with a plain store; made factors and several products of
// one A; the epilogues of everyday use with
// the configurations that discovery offers for them; random epilogues; maps; the kernels of the programs among the
// examples; and the kernel of host steps; for all four architectures.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/files.hpp"
#include "compile_gate/factors.hpp"
#include "compile_gate/products.hpp"
#include "emit/emit.hpp"
#include "emit/gpu_steps.hpp"
#include "emit/package.hpp"
#include "golden/cases.hpp"
#include "opt/passes.hpp"
#include "plan/families_cuda.hpp"
#include "plan/families_hip.hpp"
#include "support/plain_store.hpp"
#include "support/random_kernel.hpp"
#include "types/dtype.hpp"
#include "unit.hpp"
#include "unit/plan/bind_text.hpp"

namespace codetta::hip_compile {
namespace {

using compile_gate::Epilogue;
using compile_gate::Layout;
using compile_gate::layouts;
using compile_gate::shape_of;
using compile_gate::Size;
using package::GpuGemmConfig;
using plan::GemmShape;

constexpr Size sizes[] = {{4096, 4096, 4096}, {64, 2048, 8192}, {16, 4096, 16384}};

class Collector {
 public:
  explicit Collector(std::string& problem) : problem_(problem) {}

  void add_golden() {
    for (const golden::Case& c : golden::hip_cases()) {
      const auto emitted = golden::emit_case(c);
      if (!emitted) {
        problem_ = std::string(c.name) + ": " + emitted.error().render();
        continue;
      }
      for (const golden::Emitted::Source& source : emitted->sources)
        units_.push_back({"golden " + std::string(c.name) + " " + std::string(c.target), source.text, source.flags, 0,
                          0, 0, 0, true});
    }
  }

  // `shape`: of what the product is planned for, which factors are made.
  void add(const std::string& what, const package::EpilogueProgram& program, const GpuGemmConfig& config,
           const plan::HipArchitecture& arch, const GemmShape& shape = {}) {
    const auto source = emit::emit_cuda_kernel(program, config, {.arch = arch.facts.arch});
    if (!source) {
      problem_ = what + ": " + source.error().render();
      return;
    }
    const bool matrix = config.family != package::GpuFamily::Simt;
    Unit unit{
        what + " " + plan::hip_kernel_name(config, arch.facts.arch),
        source->text,
        source->flags,
        source->entries.size(),
        matrix ? plan::hip_shared_bytes(program, config) : plan::simt_shared_bytes({program, {}, arch.facts}, config),
        arch.registers,
        matrix ? plan::hip_registers(plan::hip_matrix_family(config.family), arch, config, {program, shape, arch.facts})
               : 0};
    unit.lds_most = !matrix;
    // Of each type of accumulators one kernel is in every slice.
    unit.golden = !matrix && always_.insert({arch.facts.arch, config.accumulator}).second;
    if (seen_.insert(arch.facts.arch + unit.source).second) units_.push_back(std::move(unit));
  }

  // All configurations of the matrix families in every layout; of SIMT in the first.
  void add_plain(DType a, DType b, int64_t pad = 0, std::optional<DType> accumulator = std::nullopt) {
    if (!accumulator) accumulator = ir::default_accumulator(a, b);
    if (!accumulator) return;
    for (const plan::HipArchitecture& arch : plan::hip_architectures()) {
      for (const Size& size : sizes) {
        for (const Layout& layout : layouts) {
          const GemmShape shape = shape_of(size, a, b, *accumulator, layout, pad);
          const package::EpilogueProgram program = test::plain_store(*accumulator, a);
          const plan::GpuProblem problem{program, shape, arch.facts};
          for (const plan::GpuFamilyInfo& family : plan::hip_families()) {
            const bool simt = family.family == package::GpuFamily::Simt;
            if (simt && (&layout != layouts || pad != 0)) continue;
            if (!family.concerns(problem) || family.refuse(problem)) continue;
            for (GpuGemmConfig config : family.configurations(problem)) {
              config.k_split = std::min(config.k_split, 2);
              if (config.k_split > 1 && &layout != layouts) continue;
              add("plain " + std::string(dtype_name(a)) + " " + std::string(dtype_name(b)) + " " + layout.name +
                      (pad != 0 ? " unaligned by " + std::to_string(pad) : std::string()),
                  program, config, arch);
            }
          }
        }
      }
    }
  }

  // Factors that are made, and several products of one A: in all layouts the configurations of the matrix families that
  // take them, in each but the first the best of each size.
  void add_factors(const std::string& what, const package::EpilogueProgram& program, DType dtype, DType accumulator,
                   const std::function<void(GemmShape&)>& change) {
    for (const plan::HipArchitecture& arch : plan::hip_architectures()) {
      for (const Size& size : sizes) {
        for (const Layout& layout : layouts) {
          GemmShape shape = shape_of(size, dtype, dtype, accumulator, layout);
          change(shape);
          const plan::Discovery found =
              plan::discover(program, shape, {Backend::hip, CpuIsa::generic, arch.facts.arch}, {});
          std::set<package::GpuFamily> seen;
          for (const plan::Candidate& candidate : found.candidates) {
            GpuGemmConfig config = package::gpu(candidate.config);
            const bool first = seen.insert(config.family).second;
            if (!first && (config.family == package::GpuFamily::Simt || &layout != layouts)) continue;
            config.k_split = std::min(config.k_split, 2);
            add(what + " " + std::string(dtype_name(dtype)) + " " + layout.name, program, config, arch, shape);
          }
        }
      }
    }
  }
  void add_made(DType dtype, DType accumulator, bool a, bool b, bool heavy) {
    const std::string what = std::string("made ") + (a ? "A" : "") + (b ? "B" : "") + (heavy ? " heavy" : "");
    add_factors(
        what, compile_gate::made_factors(dtype, accumulator, a, b, heavy), dtype, accumulator, [&](GemmShape& shape) {
          shape.a_made = a, shape.b_made = b;
          shape.a_clocks = shape.b_clocks = heavy ? 20 : 2;
          shape.a_read_bytes = shape.b_read_bytes = 1 + (heavy ? static_cast<double>(types::byte_size(dtype)) : 0);
        });
  }
  void add_products(DType dtype, DType accumulator, int32_t count) {
    add_factors(std::to_string(count) + " products", compile_gate::products_of_one_a(dtype, accumulator, count), dtype,
                accumulator, [&](GemmShape& shape) {
                  shape.products = count;
                  shape.n *= count;
                });
  }
  void add_spaces(DType dtype, DType accumulator, bool turned) {
    add_factors(turned ? "turned products with spaces" : "products with spaces",
                compile_gate::products_with_spaces(dtype, accumulator, turned), dtype, accumulator,
                [&](GemmShape& shape) {
                  const int64_t columns = shape.n / (turned ? 2 : 1);
                  shape.products = 3;
                  shape.widths = {columns, columns / 4, columns / 4};
                  shape.n += shape.n / 4 * 2;
                });
  }

  // The candidates that discovery puts first.
  void add_epilogue(const Epilogue& epilogue, DType dtype) {
    for (const plan::HipArchitecture& arch : plan::hip_architectures()) {
      for (const Size& size : sizes) {
        const auto facts = test::gemm_facts(size.m, size.n, size.k, dtype);
        const auto graph =
            test::bind_text(test::example(epilogue.name), epilogue.arguments(size.m, size.n, dtype), facts);
        if (!graph) {
          problem_ = std::string(epilogue.name) + ": " + graph.error().render();
          return;
        }
        const auto lowered = plan::lower_epilogue(*graph, test::product(*graph), {});
        if (!lowered) {
          problem_ = std::string(epilogue.name) + ": " + lowered.error().render();
          return;
        }
        const GemmShape shape = shape_of(size, dtype, dtype, facts.accumulator, layouts[0]);
        const plan::Discovery found =
            plan::discover(lowered->program, shape, {Backend::hip, CpuIsa::generic, arch.facts.arch}, {});
        for (size_t i = 0; i < std::min<size_t>(3, found.candidates.size()); ++i)
          add(epilogue.name + (" " + std::string(dtype_name(dtype))), lowered->program,
              package::gpu(found.candidates[i].config), arch);
      }
    }
  }

  // Epilogues of random layout ops and reductions, each with one of the candidates that discovery offers for it.
  void add_random(uint64_t seed) {
    for (const plan::HipArchitecture& arch : plan::hip_architectures()) {
      const auto plan = test::random_kernel(seed, {Backend::hip, CpuIsa::generic, arch.facts.arch});
      if (!plan) continue;  // what can not be fused: tests/unit/plan
      const plan::PlannedKernel& kernel = plan->kernels[0];
      const auto& candidates = kernel.discovery.candidates;
      add(fmt::format("random {}", seed), kernel.lowered.program,
          package::gpu(candidates[seed % candidates.size()].config), arch);
      ++random_;
    }
  }
  [[nodiscard]] size_t random() const { return random_; }

  // Kernels without a product.
  void add_maps() {
    static constexpr const char* bodies[] = {
        "y = silu(x) * c + 1.0",        "e = exp(x - max(x, dim=-1))\n    y = e / sum(e, dim=-1) + c * 0.0",
        "y = logsumexp(x + c, dim=-1)", "m = mean(x, dim=0)\n    y = (x - m) * rsqrt(mean(x * x, dim=0) + 0.001) + c",
        "y = x * c / sum(x * x)",       "y = join(-x[:, 64:128], c[:, 0:64], dim=-1)",
        "y = permute(x + c, [1, 0])",   "y = take(x + c, i, dim=0)",
    };
    for (const plan::HipArchitecture& arch : plan::hip_architectures()) {
      for (const char* type : {"f32", "bf16", "f64"}) {
        for (const char* body : bodies) {
          const std::string text = std::string("def f(x: ") + type + "[256, 128], c: " + type +
                                   "[256, 128], i: i64[40]):\n    " + body + "\n    z = i + 1\n    return y, z\n";
          const auto graph = test::bind_program_text(text);
          const auto plan = graph ? plan::plan_program(*graph, {Backend::hip, CpuIsa::generic, arch.facts.arch}, {}, {})
                                  : Result<plan::Plan>(graph.error());
          if (!plan) {
            problem_ = text + plan.error().render();
            return;
          }
          for (const plan::PlannedKernel& kernel : plan->kernels) {
            const auto& config = package::gpu_map(kernel.discovery.candidates[0].config);
            const auto source = emit::emit_cuda_map(kernel.lowered.program, config, {.arch = arch.facts.arch});
            if (!source) {
              problem_ = text + source.error().render();
              return;
            }
            if (seen_.insert(arch.facts.arch + source->text).second)
              units_.push_back({"map " + std::string(type) + " " + kernel.discovery.candidates[0].name + " of " + body,
                                source->text, source->flags, source->entries.size(), 0, arch.registers});
          }
        }
      }
    }
  }

  // All kernels of the programs among the examples, of usual sizes and of small ones.
  void add_programs() {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(CODETTA_SOURCE_DIR "/examples/programs"))
      files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const std::filesystem::path& file : files) {
      for (const plan::HipArchitecture& arch : plan::hip_architectures()) {
        add_program(file, arch, {});
        add_program(file, arch, {{"b", 2}, {"s", 128}});
      }
    }
  }
  void add_program(const std::filesystem::path& file, const plan::HipArchitecture& arch,
                   const std::vector<std::pair<std::string, int64_t>>& sizes) {
    const auto text = base::read_file(file.string(), size_t{1} << 16);
    const auto graph = test::bind_program_text(text ? *text : "");
    const auto optimized = graph ? opt::optimize(*graph) : Result<opt::Optimized>(graph.error());
    const auto plan =
        optimized ? plan::plan_program(optimized->graph, {Backend::hip, CpuIsa::generic, arch.facts.arch}, {}, sizes)
                  : Result<plan::Plan>(optimized.error());
    const auto package = plan ? emit::emit_package(*plan, {}) : Result<package::Package>(plan.error());
    if (!package) {
      problem_ = file.string() + ": " + package.error().render();
      return;
    }
    for (const package::Kernel& kernel : package->kernels) {
      if (package::is_steps_kernel(kernel) || !seen_.insert(arch.facts.arch + kernel.source).second) continue;
      Unit unit{fmt::format("program {} {} {}", file.stem().string(), kernel.name, arch.facts.arch),
                kernel.source,
                kernel.nvrtc_flags,
                kernel.entries.size(),
                0,
                arch.registers};
      unit.fits = true;
      units_.push_back(std::move(unit));
    }
  }

  // The one kernel of all host steps.
  void add_steps() {
    for (const plan::HipArchitecture& arch : plan::hip_architectures()) {
      const package::Kernel kernel = emit::emit_steps_kernel({Backend::hip, CpuIsa::generic, arch.facts.arch});
      units_.push_back({"host steps " + arch.facts.arch, kernel.source, kernel.nvrtc_flags, kernel.entries.size(), 0,
                        arch.registers, 0, true, true});
    }
  }

  std::vector<Unit> take() { return std::move(units_); }

 private:
  std::string& problem_;
  size_t random_ = 0;
  std::vector<Unit> units_;
  std::set<std::string> seen_;
  std::set<std::pair<std::string, DType>> always_;
};

}  // namespace

std::vector<Unit> all_units(std::string& problem) {
  Collector collector(problem);
  collector.add_golden();
  for (int d = 0; d < dtype_count; ++d) collector.add_plain(static_cast<DType>(d), static_cast<DType>(d));
  collector.add_plain(DType::bf16, DType::i8);
  collector.add_plain(DType::u8, DType::i8);
  for (const int64_t pad : {1, 2, 4}) collector.add_plain(DType::bf16, DType::bf16, pad);
  collector.add_plain(DType::i8, DType::i8, 1);
  collector.add_plain(DType::i8, DType::i8, 0, DType::i64);
  collector.add_plain(DType::bf16, DType::bf16, 0, DType::f64);
  for (const auto& [dtype, accumulator] : {std::pair(DType::bf16, DType::f32), {DType::i8, DType::i32}}) {
    for (const bool heavy : {false, true}) {
      collector.add_made(dtype, accumulator, true, false, heavy);
      collector.add_made(dtype, accumulator, false, true, heavy);
    }
    collector.add_made(dtype, accumulator, true, true, false);
    for (const int32_t count : {2, 3}) collector.add_products(dtype, accumulator, count);
    for (const bool turned : {false, true}) collector.add_spaces(dtype, accumulator, turned);
  }
  for (const auto& [dtype, accumulator] : {std::pair(DType::f32, DType::f32), {DType::f64, DType::f64}}) {
    collector.add_made(dtype, accumulator, true, true, false);
    collector.add_products(dtype, accumulator, 2);
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
  collector.add_steps();
  return collector.take();
}

}  // namespace codetta::hip_compile

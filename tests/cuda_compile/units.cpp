// SPDX-License-Identifier: Apache-2.0
// Every golden CUDA case; every configuration of every family with a plain store; the epilogues of everyday use
// with the configurations that discovery offers for them; and the kernel of host steps.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "compile_gate/factors.hpp"
#include "compile_gate/products.hpp"
#include "emit/emit.hpp"
#include "emit/gpu_steps.hpp"
#include "golden/case.hpp"
#include "plan/families_cuda.hpp"
#include "support/plain_store.hpp"
#include "types/dtype.hpp"
#include "unit.hpp"
#include "unit/plan/bind_text.hpp"

namespace codetta::cuda_compile {
namespace {

using compile_gate::Epilogue;
using compile_gate::Layout;
using compile_gate::layouts;
using compile_gate::shape_of;
using compile_gate::Size;
using package::GpuGemmConfig;
using plan::GemmShape;

constexpr const char* architectures[] = {"sm_80", "sm_90a", "sm_100a"};
constexpr const char* with_few[] = {"sm_75", "sm_89"};  // instructions that are not there yet; 8-bit floats
constexpr const char* with_variants[] = {"sm_80", "sm_90a", "sm_100a", "sm_103a"};  // the last: tcgen05 kernels only

constexpr Size sizes[] = {{4096, 4096, 4096}, {1024, 1024, 1024}, {128, 2048, 8192}, {16, 4096, 16384}};

class Collector {
 public:
  explicit Collector(std::string& problem) : problem_(problem) {}

  void add_golden() {
    for (const golden::Case& c : golden::all_cases()) {
      if (!c.target.starts_with("cuda")) continue;
      const auto emitted = golden::emit_case(c);
      if (!emitted) {
        problem_ = std::string(c.name) + ": " + emitted.error().render();
        continue;
      }
      for (const golden::Emitted::Source& source : emitted->sources) {
        Unit unit{"golden " + std::string(c.name) + " " + std::string(c.target), source.text, source.flags, 0, true};
        units_.push_back(std::move(unit));
      }
    }
  }

  void add(const std::string& what, const package::EpilogueProgram& program, const GpuGemmConfig& config,
           const std::string& arch) {
    const auto source = emit::emit_cuda_kernel(program, config, {.arch = arch});
    if (!source) {
      problem_ = what + ": " + source.error().render();
      return;
    }
    Unit unit{what + " " + plan::cuda_kernel_name(config, arch), source->text, source->flags, source->entries.size()};
    // src/plan and the kernel compute the same geometry.
    const auto equal = [&](const char* room, const char* name, int64_t value) {
      unit.source += "static_assert(codetta::gpu::" + std::string(room) +
                     "::Shape<codetta::gpu::Config, codetta::gpu::Epilogue>::" + name + " == " + std::to_string(value) +
                     ");\n";
    };
    const auto copied = [&](const char* room, const auto& shape) {
      equal(room, "shared_bytes", shape.shared_bytes);
      equal(room, "stage_bytes", shape.stage_bytes);
      equal(room, "piece_bytes", shape.piece_bytes);
      equal(room, "scratch_bytes", shape.scratch_bytes);
      equal(room, "a_boxes", shape.a_boxes);
      equal(room, "b_boxes", shape.b_boxes);
    };
    if (config.family == package::GpuFamily::Sm90) {
      const plan::Sm90Shape shape = plan::sm90_shape(program, config);
      copied("sm90", shape);
      equal("sm90", "a_box_rows", shape.a_box_rows);
      equal("sm90", "b_box_rows", shape.b_box_rows);
      equal("sm90", "sets", shape.multiplied / shape.accumulators);
    }
    if (config.family == package::GpuFamily::Sm100) {
      const plan::Sm100Shape shape = plan::sm100_shape(program, config);
      copied("sm100", shape);
      equal("sm100", "b_box_cols", shape.b_box_cols);
      equal("sm100", "columns", shape.tensor_columns);
    }
    if (config.family == package::GpuFamily::Sm80)
      equal("sm80", "shared_bytes", plan::sm80_shared_bytes(program, config));
    if (config.family == package::GpuFamily::Stream)
      equal("stream", "shared_bytes", plan::stream_shape(program, config).shared_bytes);
    // Of each type of accumulators one kernel is in every slice.
    unit.golden = config.family == package::GpuFamily::Simt && always_.insert({arch, config.accumulator}).second;
    if (seen_.insert(arch + unit.source).second) units_.push_back(std::move(unit));
  }

  // All configurations of all families, in bf16 (wgmma: every layout, and once in f16). What differs in loads or
  // conversions only is compiled in less: other dtypes, other architectures, the number of slices of K, clusters.
  void add_plain(DType a, DType b, package::MathMode math = package::MathMode::Strict,
                 std::optional<DType> accumulator = std::nullopt) {
    if (!accumulator) accumulator = ir::default_accumulator(a, b);
    if (!accumulator) return;
    for (const char* arch : with_variants) {
      const plan::GpuFacts gpu = plan::gpu_facts(arch);
      for (const Size& size : sizes) {
        for (const Layout& layout : layouts) {
          GemmShape shape = shape_of(size, a, b, *accumulator, layout);
          shape.math = math;
          const package::EpilogueProgram program = test::plain_store(*accumulator, a);
          const plan::GpuProblem problem{program, shape, gpu};
          for (const plan::GpuFamilyInfo& family : plan::cuda_families()) {
            const bool tensor = family.family == package::GpuFamily::Sm100;
            if ((arch == with_variants[3] && !tensor) || !family.concerns(problem) || family.refuse(problem)) continue;
            for (GpuGemmConfig config : family.configurations(problem)) {
              config.k_split = std::min(config.k_split, 2);
              if (!worth(config, arch == architectures[0], &layout == layouts)) continue;
              const std::string into =
                  *accumulator == ir::default_accumulator(a, b) ? "" : " to " + std::string(dtype_name(*accumulator));
              add(std::string("plain ") + std::string(dtype_name(a)) + " " + std::string(dtype_name(b)) + into + " " +
                      layout.name,
                  program, config, arch);
            }
          }
        }
      }
    }
  }

  static bool worth(const GpuGemmConfig& c, bool first_arch, bool first_layout) {
    using package::GpuFamily;
    const bool usual = c.a_dtype == DType::bf16, split = c.k_split > 1, cluster = c.cluster_m * c.cluster_n > 1;
    if (c.family == GpuFamily::Sm90) return usual ? first_layout || !cluster : first_layout && !cluster && !split;
    if (c.family == GpuFamily::Sm100) {
      const bool simple = c.consumers == 1 && c.persistent && !split;
      return usual || c.a_dtype == DType::f8e4m3 ? first_layout || simple : first_layout && (cluster || simple);
    }
    if (c.family == GpuFamily::Simt) {
      const bool sums = usual || c.accumulator != DType::f32;
      return first_layout && (first_arch ? sums || !split : !split && c.tile_m != 32);
    }
    const bool float8 = c.a_dtype == DType::f8e4m3;
    if (usual) return first_arch ? first_layout || !split : first_layout && !split;
    return first_layout && !split && (first_arch || float8) && c.a_dtype != DType::f16;
  }

  // Factors that are made: all configurations that make them.
  void add_made(DType dtype, bool a, bool b, bool heavy) {
    const package::EpilogueProgram program = compile_gate::made_factors(dtype, DType::f32, a, b, heavy);
    const std::string what = std::string("made ") + (a ? "A" : "") + (b ? "B " : " ") + (heavy ? "heavy " : "") +
                             std::string(dtype_name(dtype));
    add_all(
        what, program,
        [&](GemmShape& shape) {
          shape.a_made = a, shape.b_made = b;
          shape.a_clocks = shape.b_clocks = heavy ? 20 : 2;
          shape.a_read_bytes = shape.b_read_bytes = 1 + (heavy ? static_cast<double>(types::byte_size(dtype)) : 0);
        },
        dtype);
  }
  // An A whose rows are finished where they are multiplied: exp(x * w - s) / t of a matrix, two numbers of each row
  // and, along K, one of each column.
  void add_made_rows(DType dtype, bool along) {
    using package::Inst;
    package::EpilogueProgram program = test::plain_store(DType::f32, dtype);
    package::FactorProgram& factor = program.factors.emplace_back();
    factor.which = package::FactorProgram::Which::A;
    factor.dtype = dtype;
    const auto value = [&](Inst inst) {
      factor.insts.push_back(inst);
      return static_cast<uint32_t>(factor.insts.size() - 1);
    };
    const auto load = [&](const char* name, DType type, package::Access access) {
      const auto index = static_cast<uint32_t>(program.arguments.size());
      program.arguments.push_back({name, type, false, false, {types::Dim::symbol("r"), types::Dim::symbol("c")}});
      package::Operand operand;
      operand.argument = index;
      operand.dtype = type;
      operand.access = access;
      operand.unit_stride = access != package::Access::Column;
      if (access != package::Access::Row) operand.terms.push_back({package::Axis::Row, 1, 0, 1});
      if (access != package::Access::Column) operand.terms.push_back({package::Axis::Col, 1, 0, 0});
      program.operands.push_back(operand);
      Inst inst;
      inst.kind = Inst::Kind::Load;
      inst.index = static_cast<uint32_t>(program.operands.size() - 1);
      inst.type = inst.aux = DType::f32;
      return value(inst);
    };
    const auto op = [&](types::Op what, uint32_t x, uint32_t y, uint8_t arity) {
      Inst inst;
      inst.op = what;
      inst.in[0] = x, inst.in[1] = y;
      inst.arity = arity;
      return value(inst);
    };
    uint32_t x = load("x", dtype, package::Access::Full);
    if (along) x = op(types::Op::mul, x, load("w", dtype, package::Access::Row), 2);
    x = op(types::Op::exp, op(types::Op::sub, x, load("s", DType::f32, package::Access::Column), 2), 0, 1);
    factor.value = op(types::Op::div, x, load("t", DType::f32, package::Access::Column), 2);
    add_all(
        std::string("made rows ") + (along ? "along K " : "") + std::string(dtype_name(dtype)), program,
        [&](GemmShape& shape) {
          shape.a_made = true;
          shape.a_clocks = 20;
          shape.a_read_bytes = 2;
        },
        dtype);
  }
  // What a softmax needs of its rows, beside the values as they are stored.
  void add_statistics(DType dtype) {
    using package::Inst;
    package::EpilogueProgram program = test::plain_store(DType::f32, dtype);
    Inst cast;
    cast.op = types::Op::cast;
    cast.aux = dtype;
    cast.arity = 1;
    program.phases[0].insts.push_back(cast);
    package::Phase last;
    last.scope = package::Scope::RowPanel;
    last.reads_accumulator = false;
    for (const package::ReduceKind kind : {package::ReduceKind::Max, package::ReduceKind::SumExp}) {
      const auto k = static_cast<uint32_t>(program.reductions.size());
      program.reductions.push_back({kind, package::ReduceAxis::Row, false, 1, DType::f32, 0, 1});
      program.arguments.push_back(
          {std::string(name_of(kind)), DType::f32, false, true, {types::Dim::symbol("m"), types::Dim::constant(1)}});
      package::Operand operand;
      operand.argument = static_cast<uint32_t>(program.arguments.size() - 1);
      operand.dtype = DType::f32;
      operand.access = package::Access::Column;
      operand.is_store = true;
      operand.unit_stride = false;
      operand.terms = {{package::Axis::Row, 1, 0, 1}};
      last.stores.push_back({static_cast<uint32_t>(program.operands.size()), k});
      program.operands.push_back(operand);
      Inst inst;
      inst.kind = Inst::Kind::Result;
      inst.index = k;
      last.insts.push_back(inst);
    }
    program.phases.push_back(last);
    for (const char* arch : {"sm_80", "sm_90a"}) {
      const GemmShape shape = shape_of(sizes[0], dtype, dtype, DType::f32, layouts[0]);
      const plan::Discovery found = plan::discover(program, shape, {Backend::cuda, CpuIsa::generic, arch}, {});
      std::map<std::pair<package::GpuFamily, bool>, int> count;
      for (const plan::Candidate& candidate : found.candidates) {
        const GpuGemmConfig& config = package::gpu(candidate.config);
        if (++count[{config.family, config.copied}] <= (config.copied ? 8 : 1))
          add("statistics of rows " + std::string(dtype_name(dtype)), program, config, arch);
      }
    }
  }
  // Several products of one A.
  void add_products(DType dtype, int32_t count) {
    const package::EpilogueProgram program = compile_gate::products_of_one_a(dtype, DType::f32, count);
    add_all(
        std::to_string(count) + " products " + std::string(dtype_name(dtype)), program,
        [&](GemmShape& shape) {
          shape.products = count;
          shape.n *= count;
        },
        dtype);
  }
  // The same of columns that differ: a large product, and two small ones.
  void add_spaces(DType dtype, bool turned) {
    const package::EpilogueProgram program = compile_gate::products_with_spaces(dtype, DType::f32, turned);
    add_all(
        std::string(turned ? "turned " : "") + "products with spaces " + std::string(dtype_name(dtype)), program,
        [&](GemmShape& shape) {
          const int64_t columns = shape.n / (turned ? 2 : 1);
          shape.products = 3;
          shape.widths = {columns, columns / 4, columns / 4};
          shape.n += shape.n / 4 * 2;
        },
        dtype);
  }
  // Of all sizes and layouts, the configurations of every family that takes the problem; those of tcgen05, which have
  // not run, all of them.
  template <class F>
  void add_all(const std::string& what, const package::EpilogueProgram& program, F change, DType dtype) {
    for (const char* arch : architectures) {
      const plan::GpuFacts gpu = plan::gpu_facts(arch);
      for (const Size& size : sizes) {
        for (const Layout& layout : layouts) {
          GemmShape shape = shape_of(size, dtype, dtype, DType::f32, layout);
          if (dtype == DType::f32) shape.math = package::MathMode::Tf32;
          change(shape);
          const bool every = std::string_view(arch).starts_with("sm_10");
          const plan::Discovery found =
              plan::discover(program, shape, {Backend::cuda, CpuIsa::generic, arch}, {}, {.all = every});
          std::set<package::GpuFamily> seen;
          for (const plan::Candidate& candidate : found.candidates) {
            GpuGemmConfig config = package::gpu(candidate.config);
            const bool first = seen.insert(config.family).second, sm100 = config.family == package::GpuFamily::Sm100;
            if (!first && (arch != std::string(architectures[0]) || &layout != layouts) &&
                config.family != package::GpuFamily::Stream && config.family != package::GpuFamily::Sm90 &&
                (!sm100 || &layout != layouts))
              continue;
            if (!first && config.family == package::GpuFamily::Sm90 && (config.k_split > 1 || &layout != layouts))
              continue;
            config.k_split = std::min(config.k_split, 2);
            add(what + " " + layout.name, program, config, arch);
          }
        }
      }
    }
  }

  // Copies of 2, 4 and 8 bytes.
  void add_unaligned(int64_t pad) {
    for (const char* arch : {"sm_80", "sm_90a"}) {
      const plan::GpuFacts gpu = plan::gpu_facts(arch);
      for (const Layout& layout : layouts) {
        if ((arch != std::string("sm_80") || pad > 1) && &layout != layouts) continue;
        GemmShape shape = shape_of(sizes[0], DType::bf16, DType::bf16, DType::f32, layout);
        (layout.a_k_major ? shape.a_row_stride : shape.a_k_stride) += pad;
        (layout.b_k_major ? shape.b_col_stride : shape.b_k_stride) += pad;
        const package::EpilogueProgram program = test::plain_store(DType::f32, DType::bf16);
        for (const GpuGemmConfig& config : plan::sm80_configurations({program, shape, gpu}))
          add("unaligned by " + std::to_string(2 * pad) + " " + layout.name, program, config, arch);
        if (arch != std::string("sm_90a")) continue;
        // The product is that of aligned factors; what differs is that they are packed first, or how rows begin.
        int packed = 0, spread = 0;
        for (const GpuGemmConfig& config : plan::sm90_configurations({program, shape, gpu})) {
          const bool wanted = config.spread_a == 1 ? ++packed <= 2 : pad == 1 || ++spread <= 2;
          const char* how = config.spread_a == 1 ? "packed from " : "spread from ";
          if (wanted) add(how + std::to_string(2 * pad) + " " + layout.name, program, config, arch);
        }
      }
    }
  }

  // The candidates that discovery puts first.
  void add_epilogue(const Epilogue& epilogue, DType dtype) {
    std::vector<const char*> archs(std::begin(architectures), std::end(architectures));
    archs.insert(archs.end(), std::begin(with_few), std::end(with_few));
    for (const char* arch : archs) {
      const bool few = std::find(std::begin(with_few), std::end(with_few), arch) != std::end(with_few);
      for (const Size& size : sizes) {
        if (few && &size != sizes) continue;
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
            plan::discover(lowered->program, shape, {Backend::cuda, CpuIsa::generic, arch}, {});
        // Of architectures with families of their own, more than of the others.
        const size_t first = few ? 1 : arch == architectures[0] ? 2 : 5;
        for (size_t i = 0; i < std::min(first, found.candidates.size()); ++i)
          add(epilogue.name + (" " + std::string(dtype_name(dtype))), lowered->program,
              package::gpu(found.candidates[i].config), arch);
      }
    }
  }

  // The same where A's rows begin anywhere and are dealt out to items.
  void add_spread(const Epilogue& epilogue, DType dtype) {
    const Size size{65536, 1024, 479};
    const auto facts = test::gemm_facts(size.m, size.n, size.k, dtype);
    const auto graph = test::bind_text(test::example(epilogue.name), epilogue.arguments(size.m, size.n, dtype), facts);
    const auto lowered = graph ? plan::lower_epilogue(*graph, test::product(*graph), {}) : graph.error();
    if (!lowered) {
      problem_ = std::string(epilogue.name) + ": " + lowered.error().render();
      return;
    }
    const GemmShape shape = shape_of(size, dtype, dtype, facts.accumulator, layouts[0]);
    const plan::Discovery found =
        plan::discover(lowered->program, shape, {Backend::cuda, CpuIsa::generic, "sm_90a"}, {});
    int count = 0;
    for (const plan::Candidate& candidate : found.candidates) {
      const GpuGemmConfig& config = package::gpu(candidate.config);
      if (config.spread_a > 1 && ++count <= 6)
        add(std::string("spread ") + epilogue.name + " " + std::string(dtype_name(dtype)), lowered->program, config,
            "sm_90a");
    }
  }

  // Kernels without a product: element by element, rows in one launch, columns, items and everything; parts of joins,
  // reads by indices.
  void add_maps() {
    static constexpr const char* bodies[] = {
        "y = silu(x) * c + 1.0",        "e = exp(x - max(x, dim=-1))\n    y = e / sum(e, dim=-1) + c * 0.0",
        "y = logsumexp(x + c, dim=-1)", "m = mean(x, dim=0)\n    y = (x - m) * rsqrt(mean(x * x, dim=0) + 0.001) + c",
        "y = x * c / sum(x * x)",       "y = join(-x[:, 64:128], c[:, 0:64], dim=-1)",
        "y = permute(x + c, [1, 0])",   "y = take(x + c, i, dim=0)",
    };
    // Rows that threads keep, of a number of columns that is fixed, hinted, or no multiple of a vector's.
    std::vector<std::pair<std::string, std::string_view>> cases;
    for (const char* body : bodies) cases.emplace_back(body, "[256, 128]");
    for (const std::string_view shape : {"[4096, 2048]", "[4096, \"n\"]", "[4096, 1000]", "[4096, 333]"}) {
      for (const char* body : {"y = softmax(x * 0.125) + c", "y = softmax(x + c)",
                               "m = mean(x, dim=-1)\n    d = x - m\n    y = d * "
                               "rsqrt(mean(d * d, dim=-1) + 0.001) + c",
                               "y = x * rsqrt(mean(x * x, dim=-1) + 0.001) * c"})
        cases.emplace_back(body, shape);
    }
    for (const char* arch : architectures) {
      for (const char* type : {"f32", "bf16", "f16", "f64"}) {
        for (const auto& [body, shape] : cases) {
          const std::string text = fmt::format(
              "def f(x: {0}{1}, c: {0}{1}, i: i64[40]):\n    {2}\n    z = i + 1\n    return y, z\n", type, shape, body);
          const auto graph = test::bind_program_text(text);
          const auto plan = graph
                                ? plan::plan_program(*graph, {Backend::cuda, CpuIsa::generic, arch}, {}, {{"n", 2048}})
                                : Result<plan::Plan>(graph.error());
          if (!plan) {
            problem_ = text + plan.error().render();
            return;
          }
          for (const plan::PlannedKernel& kernel : plan->kernels) {
            std::optional<Unit> unit;
            for (const plan::Candidate& candidate : kernel.discovery.candidates) {
              const auto& config = package::gpu_map(candidate.config);
              const auto source = emit::emit_cuda_map(kernel.lowered.program, config, {.arch = arch});
              if (!source) {
                problem_ = text + source.error().render();
                return;
              }
              if (unit) {
                unit->instead.push_back(source->text);
                continue;
              }
              unit = Unit{"map " + std::string(type) + std::string(shape) + " " + candidate.name + " of " + body,
                          source->text, source->flags, source->entries.size()};
            }
            if (unit && seen_.insert(arch + unit->source).second) units_.push_back(std::move(*unit));
          }
        }
      }
    }
  }

  // Attentions with masks and biases: products with statistics of masked rows, products whose A is finished of them,
  // and the maps where neither is.
  void add_masked() {
    const std::string causal = "reshape(arange(s), (1, s)) <= reshape(arange(s), (s, 1))";
    const std::string recent = "(reshape(arange(s), (s, 1)) - reshape(arange(s), (1, s)) < 512) & (" + causal + ")";
    const std::pair<const char*, std::string> forms[] = {{"bias of columns", "h * 0.125 + c"},
                                                         {"causal", "where(" + causal + ", h * 0.125, -inf)"},
                                                         {"window", "where((" + recent + "), h * 0.125, -inf)"},
                                                         {"padding", "where(c > 0.0, h * 0.125 + c, -inf)"},
                                                         {"mask", "h * 0.125 + g"}};
    for (const char* arch : architectures) {
      for (const auto& [what, form] : forms) {
        const std::string text =
            "def f(q: bf16[\"b\", \"s\", 128], k: bf16[\"b\", \"s\", 128], v: bf16[\"b\", \"s\", 128], c: "
            "f32[\"s\"], g: bf16[\"s\", \"s\"]):\n    h = cast(q @ transpose(k), bf16)\n    t = " +
            form +
            "\n    m = max(t, dim=-1)\n    e = exp(t - m)\n    d = sum(e, dim=-1)\n    y = cast(cast(e / d, bf16) @ v, "
            "bf16)\n    u = c * 2.0\n    w = g * 2.0\n    l = m + log(d)\n    return y, u, w, l\n";
        const auto graph = test::bind_program_text(text);
        const auto plan =
            graph ? plan::plan_program(*graph, {Backend::cuda, CpuIsa::generic, arch}, {}, {{"b", 128}, {"s", 2048}})
                  : Result<plan::Plan>(graph.error());
        if (!plan) {
          problem_ = text + plan.error().render();
          return;
        }
        for (const plan::PlannedKernel& kernel : plan->kernels) {
          int by_engine = 0;  // with copies, or of a made A, whose first one is the one that fits
          for (const plan::Candidate& candidate : kernel.discovery.candidates) {
            const auto* config = std::get_if<GpuGemmConfig>(&candidate.config);
            if (config == nullptr) continue;
            const bool engine = config->copied || kernel.lowered.program.makes_a();
            const bool counts = engine && config->family == package::GpuFamily::Sm90 &&
                                ++by_engine <= (kernel.lowered.program.makes_a() ? 1 : 3);
            if (counts || &candidate == &kernel.discovery.candidates[0])
              add(std::string("attention, ") + what, kernel.lowered.program, *config, arch);
          }
        }
      }
    }
  }

  // Weights of four bits, two in a byte of rows, of columns and of K, with scales for groups: all that discovery
  // offers.
  void add_four_bits() {
    struct Form {
      const char *what, *weights, *dim, *groups, *b;
    };
    const Form forms[] = {
        {"rows", "packed: u8[2048, 4096], s: f32[128, 1, 4096], z: u8[128, 1, 4096]", "dim=0, interleave=True",
         "128, 32, 4096", "w"},
        {"halves", "packed: u8[2048, 4096], s: bf16[32, 1, 4096], z: f32[4096]", "dim=0", "32, 128, 4096", "w"},
        {"columns", "packed: u8[4096, 2048], s: bf16[32, 1, 4096], z: f32[4096]", "dim=1, interleave=True",
         "32, 128, 4096", "w"},
        {"along K", "packed: u8[4096, 2048], s: bf16[4096, 32, 1], z: f32[4096, 1, 1]", "dim=1, interleave=True",
         "4096, 32, 128", "permute(w, (1, 0))"}};
    for (const char* arch : {"sm_80", "sm_90a"}) {
      for (const Form& form : forms) {
        for (const int rows : {1, 16, 64}) {
          const std::string text = fmt::format(
              "def f(x: bf16[{}, 4096], {}):\n    four = join(packed % 16, packed // 16, {})\n"
              "    g = (cast(reshape(four, ({})), f32) - cast(z, f32)) * s\n"
              "    w = cast(reshape(g, (4096, 4096)), bf16)\n    y = x @ {}\n    return y\n",
              rows, form.weights, form.dim, form.groups, form.b);
          const auto graph = test::bind_program_text(text);
          const auto plan = graph ? plan::plan_program(*graph, {Backend::cuda, CpuIsa::generic, arch}, {}, {})
                                  : Result<plan::Plan>(graph.error());
          if (!plan) {
            problem_ = text + plan.error().render();
            return;
          }
          for (const plan::PlannedKernel& kernel : plan->kernels) {
            if (!kernel.lowered.program.makes_b()) continue;
            for (const plan::Candidate& candidate : kernel.discovery.candidates) {
              if (const auto* config = std::get_if<GpuGemmConfig>(&candidate.config))
                add(std::string("made B of four bits, ") + form.what, kernel.lowered.program, *config, arch);
            }
          }
        }
      }
    }
  }

  // The one kernel of all host steps.
  void add_steps() {
    for (const char* arch : architectures) {
      const package::Kernel kernel = emit::emit_steps_kernel({Backend::cuda, CpuIsa::generic, arch});
      units_.push_back(
          {std::string("host steps ") + arch, kernel.source, kernel.nvrtc_flags, kernel.entries.size(), true, true});
    }
  }

  void add_everyday() {
    for (Unit& unit : everyday_units(problem_)) {
      if (seen_.insert("sm_90a" + unit.source).second) units_.push_back(std::move(unit));
    }
  }

  std::vector<Unit> take() { return std::move(units_); }

 private:
  std::string& problem_;
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
  collector.add_plain(DType::f8e4m3, DType::f8e5m2);
  collector.add_plain(DType::u8, DType::i8);
  for (const auto& [type, wider] : {std::pair{DType::i8, DType::i64}, {DType::bf16, DType::f64}})
    collector.add_plain(type, type, package::MathMode::Strict, wider);
  for (const auto math : {package::MathMode::Tf32, package::MathMode::Tf32x3})
    collector.add_plain(DType::f32, DType::f32, math);
  for (const DType second : {DType::f8e4m3, DType::f8e5m2}) {
    collector.add_plain(DType::f8e4m3, second, package::MathMode::Fp8FastAccumulation);
    collector.add_plain(DType::f8e4m3, second, package::MathMode::Fp8TwoLevelAccumulation);
  }
  for (const int64_t pad : {1, 2, 4}) collector.add_unaligned(pad);
  for (const Epilogue& epilogue : compile_gate::everyday_epilogues()) {
    for (const DType dtype : {DType::bf16, DType::f32}) collector.add_epilogue(epilogue, dtype);
    collector.add_spread(epilogue, DType::bf16);
  }
  for (const DType dtype : {DType::bf16, DType::f32}) {
    collector.add_made(dtype, false, true, false);
    collector.add_made(dtype, true, false, true);
    collector.add_products(dtype, 2);
  }
  collector.add_made(DType::bf16, true, true, false);
  for (const bool along : {false, true}) collector.add_made_rows(DType::bf16, along);
  collector.add_made_rows(DType::f16, false);
  collector.add_statistics(DType::bf16);
  collector.add_statistics(DType::f16);
  collector.add_made(DType::bf16, false, true, true);
  collector.add_products(DType::bf16, 3);
  for (const bool turned : {false, true}) collector.add_spaces(DType::bf16, turned);
  collector.add_spaces(DType::f32, false);
  collector.add_four_bits();
  collector.add_masked();
  collector.add_maps();
  collector.add_steps();
  collector.add_everyday();
  return collector.take();
}

}  // namespace codetta::cuda_compile

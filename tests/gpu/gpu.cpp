// SPDX-License-Identifier: Apache-2.0
#include "gpu/gpu.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "device/embedded.hpp"
#include "driver/kernel_state.hpp"
#include "emit/package.hpp"
#include "plan/families_cuda.hpp"
#include "plan/families_hip.hpp"
#include "runtime/cuda/stream.hpp"
#include "types/machine.hpp"

namespace codetta::gpu {
namespace {

namespace cuda = runtime::cuda;

constexpr size_t kept_modules = 512;

bool holds(const HostBlock& block, const TensorView& view) {
  const auto* data = static_cast<const unsigned char*>(view.data());
  return !view.empty() && data >= block.data && data < block.data + block.bytes;
}

// The bytes from the first element of each view to its last; those of views that overlap are one block.
std::vector<HostBlock> extents_of(const std::vector<TensorView>& views) {
  std::vector<std::pair<unsigned char*, unsigned char*>> extents;
  for (const TensorView& view : views) {
    if (view.empty() || view.data() == nullptr) continue;
    const int64_t size = dtype_size(view.dtype());
    int64_t low = 0, high = size;
    for (int d = 0; d < view.rank(); ++d) {
      const int64_t last = (view.size(d) - 1) * view.stride(d) * size;
      (last < 0 ? low : high) += last;
    }
    auto* const data = static_cast<unsigned char*>(view.data());
    extents.emplace_back(data + low, data + high);
  }
  std::sort(extents.begin(), extents.end());
  std::vector<HostBlock> blocks;
  for (const auto& [begin, end] : extents) {
    if (blocks.empty() || begin >= blocks.back().data + blocks.back().bytes) {
      blocks.push_back({begin, static_cast<size_t>(end - begin)});
    } else {
      blocks.back().bytes = std::max(blocks.back().bytes, static_cast<size_t>(end - blocks.back().data));
    }
  }
  return blocks;
}

// Sums of the matrix instructions that the configuration multiplies with.
types::AccumulationModel accumulation_of(const package::GpuGemmConfig& config) {
  types::AccumulationModel model = types::accumulation_model(CpuIsa::avx2, DType::f32);  // one multiply-add a product
  model.extra_roundings = config.k_split > 1 ? config.k_split : 0;
  // Tensor cores line products up by the largest exponent of a step and cuts what falls off, once a product, then
  // rounds the sum towards zero: two units of 2^-24 a product are above both.
  if (config.family != package::GpuFamily::Simt) model.roundings = 2;
  return model;
}

types::Scalar scalar_for_oracle(const ArgumentValue& value, DType dtype) {
  if (const auto* flag = std::get_if<bool>(&value.value())) return types::Scalar::from_i64(*flag ? 1 : 0, dtype);
  if (const auto* integer = std::get_if<int64_t>(&value.value())) return types::Scalar::from_i64(*integer, dtype);
  return types::Scalar::from_f64(std::get<double>(value.value()), dtype);
}

}  // namespace

Result<Mirror> Mirror::make(const cuda::DeviceRef& device, std::span<const HostBlock> blocks,
                            cuda::StreamHandle stream) {
  Mirror mirror;
  for (const HostBlock& block : blocks) {
    const size_t offset = reinterpret_cast<uintptr_t>(block.data) % 256;
    CODETTA_TRY(cuda::DeviceBuffer memory, cuda::DeviceBuffer::make(device, offset + std::max<size_t>(block.bytes, 1)));
    mirror.places_.push_back({block, memory.address() + offset});
    CODETTA_CHECK_OK(device->upload(mirror.places_.back().address, block.data, block.bytes, stream));
    mirror.memory_.push_back(std::move(memory));
  }
  return mirror;
}

Result<TensorView> Mirror::on_device(const TensorView& view) const {
  if (view.empty()) return view;
  const auto* data = static_cast<const unsigned char*>(view.data());
  for (const Place& place : places_) {
    if (data < place.block.data || data >= place.block.data + place.block.bytes) continue;
    const uint64_t at = place.address + static_cast<uint64_t>(data - place.block.data);
    return TensorView::make(reinterpret_cast<void*>(at), view.dtype(), view.shape(), view.strides());
  }
  return diag::error(diag::Code::internal, "a view of the test lies in none of its blocks")
      .reason(view.describe())
      .help("name the block");
}

Result<Planned> plan_call(const GemmArguments& call, const std::string& arch) {
  Planned result;
  CODETTA_TRY(result.problem, driver::make_problem(call));
  CODETTA_TRY(opt::Optimized optimized, opt::optimize(result.problem.bound));
  Target target;
  target.backend = arch.starts_with("gfx") ? Backend::hip : Backend::cuda;
  target.arch = arch;
  CODETTA_TRY(result.plan, plan::plan_gemm(optimized.graph, result.problem.shape, result.problem.layouts, target, {}));
  return result;
}

Result<std::shared_ptr<Gpu>> Gpu::open(const std::string& arch) {
  auto gpu = std::make_shared<Gpu>();
  gpu->arch_ = arch;
  if (gpu->arch_.empty()) {
    CODETTA_TRY(cuda::DriverRef driver, cuda::Driver::load());
    CODETTA_TRY(gpu->device_, cuda::Device::open(std::move(driver), 0));
    gpu->arch_ = gpu->device_->facts().arch;
  }
  CODETTA_TRY(gpu->nvrtc_, toolchain::Nvrtc::find({}));
  const auto files = device::files();
  gpu->paths_.reserve(files.size());
  for (const device::EmbeddedFile& file : files) {
    gpu->paths_.push_back("device/" + std::string(file.path));
    gpu->headers_.push_back({gpu->paths_.back(), file.text, file.digest_hex});
  }
  return gpu;
}

std::shared_ptr<Gpu> Gpu::over(cuda::DeviceRef device, CompileSource compile, std::string arch) {
  auto gpu = std::make_shared<Gpu>();
  gpu->arch_ = arch.empty() ? device->facts().arch : std::move(arch);
  gpu->device_ = std::move(device);
  gpu->compile_source_ = std::move(compile);
  return gpu;
}

Result<toolchain::CudaOutput> Gpu::compile_source(const std::string& source, const std::string& label,
                                                  const std::vector<std::string>& flags) {
  if (compile_source_) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    toolchain::CudaOutput output;
    CODETTA_TRY(output.cubin, compile_source_(source, flags));
    output.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return output;
  }
  return nvrtc_->compile({source, label, flags, toolchain::included_headers(source, headers_), false}, {});
}

Result<Compiled> Gpu::compile(const Planned& planned, const package::GpuGemmConfig& config, bool strict) {
  plan::Plan plan = planned.plan;
  plan.kernels[0].discovery.candidates.assign(1, {config, name_of(config), {}, 0});
  plan.kernels[0].chosen = 0;
  CODETTA_TRY(package::Package package, emit::emit_package(plan, {.strict = strict, .name = "test", .build_id = ""}));
  const package::Kernel& kernel = package.kernels[0];
  std::string key = kernel.source;
  for (const std::string& flag : kernel.nvrtc_flags) key += "\n" + flag;
  Compiled compiled;
  bool known = false;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = modules_.find(key); found != modules_.end()) compiled = found->second, known = true;
  }
  if (!known) {
    CODETTA_TRY(const toolchain::CudaOutput output, compile_source(kernel.source, kernel.name, kernel.nvrtc_flags));
    for (const toolchain::PtxasRemarks& remarks : output.remarks) {
      compiled.registers = std::max<int64_t>(compiled.registers, remarks.registers);
      compiled.spilled_bytes =
          std::max<int64_t>(compiled.spilled_bytes, remarks.spill_store_bytes + remarks.spill_load_bytes);
      compiled.stack_bytes = std::max<int64_t>(compiled.stack_bytes, remarks.stack_bytes);
    }
    compiled.seconds = output.seconds;
    if (device_ != nullptr) {
      CODETTA_TRY(compiled.module, cuda::Module::load(device_, output.cubin, kernel.name));
    }
    const std::lock_guard lock(mutex_);
    if (modules_.size() >= kept_modules) modules_.clear();
    modules_.emplace(std::move(key), compiled);
    ++compiles_;
    compile_seconds_ += output.seconds;
  }
  compiled.package = std::make_shared<const package::Package>(std::move(package));
  return compiled;
}

std::string Gpu::statistics() {
  const std::lock_guard lock(mutex_);
  return fmt::format("{} compiled in {:.1f} s", compiles_, compile_seconds_);
}

Result<cuda::ModuleRef> Gpu::load(const emit::CudaSource& source) {
  CODETTA_TRY(const toolchain::CudaOutput output, compile_source(source.text, "test", source.flags));
  if (device_ == nullptr) return cuda::ModuleRef();
  return cuda::Module::load(device_, output.cubin, "test");
}

Result<Prepared> Gpu::prepare(const Planned& planned, const Compiled& compiled, std::span<const HostBlock> blocks) {
  CODETTA_TRY(cuda::OwnedStream stream, cuda::OwnedStream::make(device_));
  CODETTA_TRY(runtime::Bindings bindings, driver::make_bindings(*compiled.package, planned.problem));
  std::vector<HostBlock> exact;
  if (compile_source_) {
    exact = extents_of(bindings.tensors);
    blocks = exact;
  }
  CODETTA_TRY(Mirror mirror, Mirror::make(device_, blocks, stream.get()));
  for (size_t i = 0; i < bindings.tensors.size(); ++i) {
    if (compiled.package->buffers[i].is_scalar) continue;
    CODETTA_TRY(bindings.tensors[i], mirror.on_device(bindings.tensors[i]));
  }
  CODETTA_TRY(cuda::Execution execution,
              cuda::Execution::make(compiled.package, {compiled.module}, std::move(bindings)));
  CODETTA_CHECK_OK(device_->synchronize(stream.get()));
  return Prepared{std::move(stream), std::move(mirror), std::move(execution)};
}

Result<void> Gpu::run(const Planned& planned, const Compiled& compiled, std::span<const HostBlock> blocks, int times) {
  CODETTA_TRY(Prepared prepared, prepare(planned, compiled, blocks));
  const cuda::OwnedStream& stream = prepared.stream;
  {
    const std::lock_guard alone(running_);  // so that a kernel that fails is named
    const bool was_lost = lost_;
    Result<void> done;
    for (int i = 0; i < times && done; ++i) done = prepared.execution.run(stream.get());
    if (done) done = device_->synchronize(stream.get());
    if (!done && was_lost) return {};
    if (!done) {
      lost_ = !compile_source_;
      return std::move(done).error();
    }
  }
  for (const Mirror::Place& place : prepared.mirror.places()) {
    const HostBlock& block = place.block;
    std::vector<unsigned char> now(block.bytes);
    CODETTA_CHECK_OK(device_->download(now.data(), place.address, block.bytes, stream.get()));
    CODETTA_CHECK_OK(device_->synchronize(stream.get()));
    bool written = false;
    for (const ir::GraphOutput& output : planned.problem.bound.outputs())
      written = written || holds(block, planned.problem.tensors.at(output.name));
    if (written) {
      std::copy(now.begin(), now.end(), block.data);
    } else if (!std::equal(now.begin(), now.end(), block.data)) {
      return diag::error(diag::Code::internal, "memory that is no output was written").reason("").help("");
    }
  }
  return {};
}

Result<Judgement> judge(const Planned& planned, const package::GpuGemmConfig& config, bool strict,
                        const std::vector<std::pair<std::string, TensorView>>& before, bool all_lines) {
  const driver::Problem& problem = planned.problem;
  std::vector<oracle::OracleInput> inputs;
  for (size_t i = 0; i < problem.bound.inputs().size(); ++i) {
    const ir::GraphInput& input = problem.bound.inputs()[i];
    if (i < 2) {
      inputs.emplace_back(i == 0 ? problem.a : problem.b);
    } else if (input.is_scalar) {
      inputs.emplace_back(scalar_for_oracle(problem.scalars.at(input.name), problem.bound.type(input.node).dtype));
    } else {
      TensorView view = problem.tensors.at(input.name);
      for (const auto& [name, former] : before) {
        if (name == input.name) view = former;
      }
      inputs.emplace_back(view);
    }
  }
  oracle::OracleOptions options;
  options.isa = CpuIsa::avx2;  // f64: one multiply-add a product
  options.accumulation = accumulation_of(config);
  options.ulp = planned.plan.target.backend == Backend::hip ? oracle::hip_ulp_table() : oracle::cuda_ulp_table();
  options.factor_rounding = plan::factor_rounding(config.math, config.a_dtype);
  const auto products = plan::product_rounding(config.math, config.a_dtype, config.b_dtype);
  options.product_rounding = products.each;
  options.product_run = products.run;
  options.contraction = !strict;
  CODETTA_TRY(const oracle::OracleResult expected, oracle::evaluate(problem.bound, inputs, options));
  std::vector<TensorView> actual;
  for (const ir::GraphOutput& output : problem.bound.outputs()) actual.push_back(problem.tensors.at(output.name));
  Judgement judgement;
  CODETTA_TRY(judgement.report, oracle::check(actual, expected));
  for (const oracle::OutputReport& output : judgement.report.outputs) {
    if (output.wrong == 0 && !all_lines) continue;
    judgement.text +=
        fmt::format("  {}: {} of {} wrong, {} ambiguous, largest error {:.3g}, at most {:.3g} of what is allowed; {}\n",
                    output.name, output.wrong, output.elements, output.ambiguous, output.max_error, output.max_ratio,
                    output.worst_text);
  }
  return judgement;
}

std::string name_of(const package::GpuGemmConfig& c) {
  return fmt::format("{} {}x{}x{} stages {} cluster {}x{} consumers {}{}{} k_split {} pieces {}x{} lanes {}",
                     package::name_of(c.family), c.tile_m, c.tile_n, c.tile_k, c.stages, c.cluster_m, c.cluster_n,
                     c.consumers, c.pingpong ? " pingpong" : "", c.from_registers ? " registers" : "", c.k_split,
                     c.piece_rows, c.piece_cols, c.lanes);
}

std::vector<package::GpuGemmConfig> simt_configs(const package::EpilogueProgram& program, DType a, DType b) {
  std::vector<package::GpuGemmConfig> result;
  const int ways = program.split.ways;
  for (const int tile_m : {16, 32, 64, 128}) {
    for (const int columns : {32, 64, 96, 128}) {
      const int step = ways % 4 == 0 ? ways : ways % 2 == 0 ? 2 * ways : 4 * ways;  // a multiple of 4 and of the parts
      const int tile_n = std::max(columns / step, 1) * step;
      const int threads = tile_m / 4 * (tile_n / 4);
      if (threads % 32 != 0 || threads < 64 || threads > 512 || tile_n > 4 * tile_m) continue;
      for (const int tile_k : {8, 16, 24}) {
        if (tile_m * tile_k % threads != 0 || tile_n * tile_k % threads != 0) continue;
        if (tile_k == 24 && tile_n % 3 != 0) continue;
        for (const int piece_rows : {16, tile_m}) {
          for (const int lanes : {1, 2, 4, 8}) {
            package::GpuGemmConfig config;
            config.a_dtype = a;
            config.b_dtype = b;
            config.accumulator = program.accumulator;
            config.tile_m = tile_m;
            config.tile_n = tile_n;
            config.tile_k = tile_k;
            config.piece_rows = piece_rows;
            config.piece_cols = tile_n / ways;
            config.lanes = lanes;
            config.threads = threads;
            const bool fits = piece_rows * (tile_n + 4) * dtype_size(program.accumulator) <= 40000;
            if (!fits || config.piece_cols > lanes * threads || (lanes > 1 && lanes > config.piece_cols)) continue;
            for (const int k_split : {1, 3}) {
              config.k_split = k_split;
              result.push_back(config);
            }
          }
        }
      }
    }
  }
  return result;
}

std::vector<package::GpuGemmConfig> family_configs(const Planned& planned, package::GpuFamily family,
                                                   const std::string& arch) {
  std::vector<package::GpuGemmConfig> result;
  const plan::HipArchitecture* const hip = plan::find_hip(arch);
  plan::GpuFacts facts = hip != nullptr ? hip->facts : plan::gpu_facts(arch);
  const auto families = hip != nullptr ? plan::hip_families() : plan::cuda_families();
  const auto info = std::find_if(families.begin(), families.end(), [&](const auto& f) { return f.family == family; });
  if (info == families.end()) return result;
  const int real = facts.sms;
  for (const int sms : {real, 1}) {  // many: slices of K; one: schedules for many tiles
    facts.sms = sms;
    const plan::GpuProblem problem{planned.program(), planned.plan.kernels[0].shape, facts};
    if (!info->concerns(problem) || info->refuse(problem)) continue;
    for (const package::GpuGemmConfig& config : info->configurations(problem)) {
      if (std::find(result.begin(), result.end(), config) == result.end()) result.push_back(config);
    }
  }
  return result;
}

}  // namespace codetta::gpu

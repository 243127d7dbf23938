// SPDX-License-Identifier: Apache-2.0
#include "launch.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>

#include "base/files.hpp"
#include "base/process.hpp"
#include "device/gpu/abi.h"
#include "fibers.hpp"
#include "types/dtype.hpp"

namespace codetta::metal_run {
namespace {

namespace abi = codetta::gpu;

std::optional<std::string> compiler() {
  for (const char* name : {"clang++-19", "clang++-20", "clang++"}) {
    if (auto found = base::find_executable(name, "/usr/local/bin:/usr/bin:/bin")) return found;
  }
  return std::nullopt;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct alignas(16) Index3 {
  unsigned x, y, z;
};

// Stride of the dim counted from the last; 0 where the view lacks it or has one element in it.
int64_t step(const TensorView& view, int from_last) {
  const int dim = view.rank() - 1 - from_last;
  return dim < 0 || view.size(dim) == 1 ? 0 : view.stride(dim);
}

abi::Operand resolved(const package::Operand& operand, const TensorView& view) {
  abi::Operand result{};
  int64_t start = 0;
  for (const auto& [dim, count] : operand.offsets) start += count.as_constant().value_or(0) * step(view, dim);
  result.data = view.as<unsigned char>() + start * dtype_size(operand.dtype);
  for (size_t t = 0; t < operand.terms.size(); ++t) {
    const package::IndexTerm& term = operand.terms[t];
    const size_t slot = operand.access == package::Access::Indexed ? t : static_cast<size_t>(term.axis);
    result.stride[slot] += term.scale.as_constant().value_or(1) * step(view, term.dim);
  }
  for (size_t g = 0; g < operand.gathered.size(); ++g) {
    const int dim = operand.gathered[g];
    result.stride[operand.terms.size() + 2 * g] = step(view, dim);
    result.stride[operand.terms.size() + 2 * g + 1] = dim < view.rank() ? view.size(view.rank() - 1 - dim) : 1;
  }
  return result;
}

struct Space {
  abi::Problem problem{};
  bool empty = false;
  std::vector<std::unique_ptr<char[]>> memory;

  void* room(int64_t bytes) {
    const auto count = static_cast<size_t>(std::max<int64_t>(bytes, 1)) + 256;
    memory.push_back(std::make_unique<char[]>(count));
    std::memset(memory.back().get(), 0x7f, count);
    const auto at = reinterpret_cast<uintptr_t>(memory.back().get());
    return memory.back().get() + (256 - at % 256) % 256;
  }
};

}  // namespace

bool has_compiler() { return compiler().has_value(); }

Library::~Library() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

void* compile_kernels(const std::string& source, std::string& why) {
  const auto temporary = base::TemporaryDirectory::make("/tmp", "codetta-metal-run-");
  if (!temporary) {
    why = "no temporary folder";
    return nullptr;
  }
  const std::string file = temporary->path() + "/kernel.metal", object = temporary->path() + "/kernel.so";
  std::ofstream(file, std::ios::binary) << source;
  base::ProcessRequest request;
  request.program = *compiler();
  request.arguments = {"-x",
                       "c++",
                       "-std=c++14",
                       "-D__METAL_VERSION__=310",
                       "-I" CODETTA_SOURCE_DIR "/tests/metal_stub",
                       "-O1",
                       "-fPIC",
                       "-shared",
                       "-fvisibility=default",
                       "-ffp-contract=on",
                       "-mfma",
                       "-mf16c",
                       "-w",
                       file,
                       "-o",
                       object,
                       "-lm"};
  request.environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"};
  request.timeout = std::chrono::seconds(200);
  const auto done = base::run_process(request);
  if (!done || !done->success()) {
    why = done ? done->errors.substr(0, 4000) : "clang++ was not started";
    return nullptr;
  }
  void* const handle = ::dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) why = ::dlerror();
  return handle;
}

std::string run_groups(void* function, const void* parameters, size_t shared_bytes, const unsigned (&grid)[3],
                       int threads, uint64_t seed) {
  const auto kernel = reinterpret_cast<void (*)(const void*, char*, Index3, Index3, unsigned)>(function);
  constexpr int guard = 256;
  std::vector<char> shared(shared_bytes + 2 * guard + 256);
  char* const memory = shared.data() + guard + (256 - (reinterpret_cast<uintptr_t>(shared.data()) + guard) % 256) % 256;
  const Index3 groups{grid[0], grid[1], grid[2]};
  Index3 group{};
  for (group.z = 0; group.z < groups.z; ++group.z) {
    for (group.y = 0; group.y < groups.y; ++group.y) {
      for (group.x = 0; group.x < groups.x; ++group.x) {
        std::fill(shared.begin(), shared.end(), static_cast<char>(0x7f));
        const std::string failure = run_threads(threads, seed + group.x * 7 + group.y, [&](int thread) {
          kernel(parameters, memory, group, groups, static_cast<unsigned>(thread));
        });
        if (!failure.empty()) return failure;
        const auto spoilt = [&](const char* begin, const char* end) {
          return std::any_of(begin, end, [](char c) { return c != 0x7f; });
        };
        if (spoilt(shared.data(), memory) || spoilt(memory + shared_bytes, shared.data() + shared.size()))
          return "it writes outside of its " + std::to_string(shared_bytes) + " bytes of threadgroup memory";
      }
    }
  }
  return {};
}

std::string Library::load(const std::string& source) {
  std::string why;
  handle_ = compile_kernels(source, why);
  return why;
}

std::string Library::run(const std::vector<package::GpuEntry>& entries, const Call& call) {
  const package::EpilogueProgram& program = call.program;
  const package::GpuGemmConfig& config = call.config;
  Space space;
  abi::Problem& p = space.problem;
  const int64_t ways = program.split.ways, accumulator = dtype_size(config.accumulator);
  p.batches = call.batch, p.m = call.m, p.n = call.n, p.k = call.k;
  p.rows = p.m, p.cols = p.n / ways;
  p.chunk = ways == 1 ? std::max<int64_t>(p.cols, 1) : program.split.chunk.as_constant().value_or(p.cols);
  p.a = call.a.data();
  p.a_batch = call.a.rank() == 3 && call.a.size(0) > 1 ? call.a.stride(0) : 0;
  p.a_row = call.a.stride(call.a.rank() - 2), p.a_k = call.a.stride(call.a.rank() - 1);
  p.b = call.b.data();
  p.b_batch = call.b.rank() == 3 && call.b.size(0) > 1 ? call.b.stride(0) : 0;
  p.b_k = call.b.stride(call.b.rank() - 2), p.b_col = call.b.stride(call.b.rank() - 1);
  p.tiles_m = ceil_div(p.rows, config.tile_m);
  p.tiles_n = ceil_div(p.cols, config.tile_n / ways);
  p.pieces_m = ceil_div(p.rows, config.piece_rows);
  p.pieces_n = ceil_div(p.cols, config.piece_cols);
  p.k_slice = std::max<int64_t>(ceil_div(ceil_div(p.k, config.k_split), config.tile_k), 1) * config.tile_k;
  p.k_split = std::max<int64_t>(ceil_div(p.k, p.k_slice), 1);
  p.group = static_cast<abi::u64>(config.group);
  space.empty = p.batches == 0 || p.rows == 0 || p.cols == 0;
  const int64_t kept = p.batches * ways * p.rows * p.cols * accumulator;
  p.accumulators = space.room(kept);
  p.slices = space.room(kept * p.k_split);
  // Params of the ABI: one unused map, then the rest, each at least one entry.
  const auto at_least_one = [](size_t n) { return std::max<size_t>(n, 1); };
  std::vector<char> params(sizeof(abi::TensorMap) + sizeof p +
                               at_least_one(program.operands.size()) * sizeof(abi::Operand) +
                               at_least_one(program.arguments.size()) * sizeof(abi::ScalarValue) +
                               at_least_one(program.reductions.size()) * sizeof(abi::ReductionBuffers) + 128,
                           0);
  char* const first = params.data() + (64 - reinterpret_cast<uintptr_t>(params.data()) % 64) % 64;
  size_t at = sizeof(abi::TensorMap);
  const auto put = [&](const auto& value) {
    std::memcpy(first + at, &value, sizeof value);
    at += sizeof value;
  };
  put(p);
  for (const package::Operand& operand : program.operands) put(resolved(operand, call.tensors[operand.argument]));
  if (program.operands.empty()) put(abi::Operand{});
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    abi::ScalarValue value{};
    const DType held = types::compute_dtype(program.arguments[i].dtype);
    if (program.arguments[i].is_scalar && held == DType::f32) {
      value.f = static_cast<float>(call.scalars[i]);
    } else if (program.arguments[i].is_scalar) {
      value.i = static_cast<abi::i64>(call.scalars[i]);
    }
    put(value);
  }
  if (program.arguments.empty()) put(abi::ScalarValue{});
  for (const package::Reduction& r : program.reductions) {
    const int64_t width = package::values_of(r.kind) * dtype_size(r.type);
    const int64_t pieces_m = std::max<int64_t>(p.pieces_m, 1), pieces_n = std::max<int64_t>(p.pieces_n, 1);
    const int64_t pieces = r.axis == package::ReduceAxis::Row      ? pieces_n * p.rows
                           : r.axis == package::ReduceAxis::Column ? pieces_m * p.cols
                                                                   : pieces_m * pieces_n;
    const int64_t results = r.axis == package::ReduceAxis::Row      ? p.rows
                            : r.axis == package::ReduceAxis::Column ? p.cols
                                                                    : 1;
    put(abi::ReductionBuffers{space.room(std::max<int64_t>(p.batches, 1) * pieces * width),
                              space.room((p.batches + 1) * results * width)});
  }
  // What the host finds out about the call's sizes (device/metal/kernels/simdgroup.h).
  if (auto* whole = static_cast<bool*>(::dlsym(handle_, "codetta_whole")); whole != nullptr) {
    *whole = p.m % config.tile_m == 0 && p.cols % (config.tile_n / ways) == 0 && p.k % config.tile_k == 0 &&
             p.k % p.k_slice == 0;
    const int64_t size = dtype_size(config.a_dtype);
    const auto aligned = [&](const void* data, int64_t batch, int64_t fast, int64_t slow) {
      return reinterpret_cast<uintptr_t>(data) % 16 == 0 && batch * size % 16 == 0 && slow * size % 16 == 0 &&
             fast == 1;
    };
    *static_cast<bool*>(::dlsym(handle_, "codetta_aligned")) =
        aligned(p.a, p.a_batch, config.a_k_major ? p.a_k : p.a_row, config.a_k_major ? p.a_row : p.a_k) &&
        aligned(p.b, p.b_batch, config.b_k_major ? p.b_k : p.b_col, config.b_k_major ? p.b_col : p.b_k);
  }
  for (const package::GpuEntry& entry : entries) {
    void* const kernel = ::dlsym(handle_, entry.symbol.c_str());
    if (kernel == nullptr) return entry.symbol + " is not there";
    int64_t grid[3] = {1, 1, 1};
    if (entry.kind == package::GpuEntry::Kind::Gemm) {
      if (space.empty) continue;
      grid[0] = p.tiles_m * p.tiles_n * p.k_split * p.batches;
    } else if (entry.kind == package::GpuEntry::Kind::Combine) {
      int64_t largest = 0, count = 0;
      for (const package::Reduction& r : program.reductions) {
        if (r.phase != entry.index) continue;
        ++count;
        largest = std::max<int64_t>(largest, r.axis == package::ReduceAxis::Row      ? p.batches * p.rows
                                             : r.axis == package::ReduceAxis::Column ? p.batches * p.cols
                                             : r.axis == package::ReduceAxis::Item ? p.batches * entry.results_per_block
                                                                                   : 1);
      }
      if (largest == 0) continue;
      grid[0] = ceil_div(largest, int64_t{entry.results_per_block}), grid[1] = count;
    } else {
      // Fewer threadgroups than pieces at times, so that the loops over what lies beyond the grid run.
      grid[0] = std::max<int64_t>(p.pieces_n, 1);
      grid[1] = std::max<int64_t>(p.pieces_m - static_cast<int64_t>(call.seed % 2), 1);
      grid[2] = std::max<int64_t>(p.batches, 1);
    }
    const unsigned groups[3] = {static_cast<unsigned>(grid[0]), static_cast<unsigned>(grid[1]),
                                static_cast<unsigned>(grid[2])};
    const std::string failure =
        run_groups(kernel, first, static_cast<size_t>(entry.shared_bytes), groups, entry.threads, call.seed);
    if (!failure.empty()) return entry.symbol + ": " + failure;
  }
  return {};
}

std::string Library::run_alone(const std::string& symbol, const void* parameters, unsigned groups, unsigned threads) {
  void* const kernel = ::dlsym(handle_, symbol.c_str());
  if (kernel == nullptr) return symbol + " is not there";
  return run_groups(kernel, parameters, 16, {groups, 1, 1}, static_cast<int>(threads), 1);
}

}  // namespace codetta::metal_run

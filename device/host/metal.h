// SPDX-License-Identifier: Apache-2.0
// What emitted Objective-C++ host text includes: a device, libraries of kernels beside the text's own library,
// pipelines made when they are first needed, and dispatches. Views hold GPU addresses in place of pointers, so that
// sizes, checks and the placing of temporaries are those of every other library (support.h).
#pragma once

#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include <dlfcn.h>
#include <pthread.h>

#include "device/gpu/abi.h"
#include "device/host/support.h"

// Extents of row-major tensors: they share memory where the spans of bytes do.
extern "C" inline bool codetta_engine_overlap(const codetta::host::Extent* a, const codetta::host::Extent* b) {
  const auto span = [](const codetta::host::Extent& e) {
    long long elements = 1;
    for (int i = 0; i < e.rank; ++i) elements += (e.sizes[i] - 1) * e.strides[i];
    for (int i = 0; i < e.rank; ++i) elements = e.sizes[i] == 0 ? 0 : elements;
    return elements * e.element_bytes;
  };
  const char* const first = static_cast<const char*>(a->data);
  const char* const second = static_cast<const char*>(b->data);
  return first < second + span(*b) && second < first + span(*a) && span(*a) != 0 && span(*b) != 0;
}

namespace codetta::host {

inline constexpr Status device_failed = static_cast<Status>(-8);  // Metal refused something, or a kernel has failed

// A tensor as the header declares it: an id<MTLBuffer> and where in it the first element lies, in bytes.
struct MetalTensor {
  void* buffer;
  u64 offset;
};

// One kernel function, as package::GpuEntry has it.
struct MetalEntry {
  const char* symbol;
  u8 kind;  // 0 product, 1 combine, 2 phase, 4 panels
  i32 index, threads, threadgroup_bytes, results_per_group;
};
struct MetalReduction {
  u8 axis;  // row, column, all, item
  i32 phase, value_bytes;
};
// A library of kernels and what its configuration says. Pipelines are kept by entry and by what the function constants
// say of a call.
struct MetalKernel {
  const char* file;  // beside this library, without .metallib
  const MetalEntry* entries;
  i32 entry_count;
  const MetalReduction* reductions;
  i32 reduction_count;
  bool specialised;  // has the function constants of device/metal/kernels/simdgroup.h
  bool product, keeps_accumulators, a_k_major, b_k_major;
  i32 tile_m, tile_n, tile_k, k_split, group, piece_rows, piece_cols, ways, factor_bytes, accumulator_bytes;
  u8 missing_when = 0;                    // as that of gpu_plan.h
  bool makes_a = false, makes_b = false;  // computes A, B where it reads them: nothing lies in memory
};

struct MetalLibraryState {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  id<MTLDevice> device = nil;
  id<MTLCommandQueue> queue = nil;
  NSMutableDictionary* libraries = nil;  // by file
  NSMutableDictionary* pipelines = nil;  // by file, symbol and variant
  NSMutableDictionary* kept = nil;       // constants (metal_constants.h)
  bool loaded = false;                   // they are there
};
inline MetalLibraryState metal;

struct MetalLock {
  MetalLock() { pthread_mutex_lock(&metal.lock); }
  ~MetalLock() { pthread_mutex_unlock(&metal.lock); }
  MetalLock(const MetalLock&) = delete;
  MetalLock& operator=(const MetalLock&) = delete;
};

inline const char* text_of(NSError* error) {
  return error == nil ? "no reason is given" : [[error localizedDescription] UTF8String];
}

// A call on its way: `encoder` is there while it runs.
struct MetalFrame : Frame {
  id<MTLComputeCommandEncoder> encoder = nil;
};

// Once. `family`: the number of an MTLGPUFamily that the kernels were made for.
inline Status start_metal(long family, const char* family_name) {
  const MetalLock locked;
  if (metal.queue != nil) return ok;
  id<MTLDevice> device = MTLCreateSystemDefaultDevice();
  if (device == nil) return fail(wrong_machine, "E0403: there is no Metal device");
  if (![device supportsFamily:static_cast<MTLGPUFamily>(family)])
    return fail(wrong_machine, "E0403: these kernels are made for %s, which %s is not", family_name,
                [[device name] UTF8String]);
  metal.libraries = [[NSMutableDictionary alloc] init];
  metal.pipelines = [[NSMutableDictionary alloc] init];
  metal.kept = [[NSMutableDictionary alloc] init];
  metal.queue = [device newCommandQueue];
  if (metal.queue == nil) return fail(device_failed, "E0644: %s gives no command queue", [[device name] UTF8String]);
  metal.device = device;
  return ok;
}

// FILE.metallib beside the library that holds this function, or FILE.metal, which the system compiles then.
inline Status load_kernels(const char* file, id<MTLLibrary> __strong& library) {
  NSString* const key = [NSString stringWithUTF8String:file];
  library = [metal.libraries objectForKey:key];
  if (library != nil) return ok;
  Dl_info info{};
  char path[1024], source[1032];
  const char* folder = "";
  if (dladdr(reinterpret_cast<const void*>(&load_kernels), &info) != 0 && info.dli_fname != nullptr)
    folder = info.dli_fname;
  const char* const slash = strrchr(folder, '/');
  const int kept = slash == nullptr ? 0 : static_cast<int>(slash - folder) + 1;
  if (snprintf(path, sizeof path, "%.*s%s.metallib", kept, folder, file) >= static_cast<int>(sizeof path))
    return fail(bad_argument, "E0620: the path of %s is too long", file);
  snprintf(source, sizeof source, "%.*s%s.metal", kept, folder, file);
  NSError* error = nil;
  NSString* const compiled = [NSString stringWithUTF8String:path];
  if ([[NSFileManager defaultManager] fileExistsAtPath:compiled]) {
    library = [metal.device newLibraryWithURL:[NSURL fileURLWithPath:compiled] error:&error];
    if (library == nil) return fail(device_failed, "E0508: %s cannot be loaded: %s", path, text_of(error));
  } else {
    NSString* const text = [NSString stringWithContentsOfFile:[NSString stringWithUTF8String:source]
                                                     encoding:NSUTF8StringEncoding
                                                        error:&error];
    if (text == nil)
      return fail(device_failed, "E0508: neither %s nor %s can be read: %s", path, source, text_of(error));
    MTLCompileOptions* const options = [[MTLCompileOptions alloc] init];
    [options setFastMathEnabled:NO];
    library = [metal.device newLibraryWithSource:text options:options error:&error];
    if (library == nil) return fail(device_failed, "E0504: %s cannot be compiled: %s", source, text_of(error));
  }
  [metal.libraries setObject:library forKey:key];
  return ok;
}

// `variant`: bit 0 whole tiles, bit 1 aligned rows.
inline Status pipeline_of(const MetalKernel& kernel, const MetalEntry& entry, int variant,
                          id<MTLComputePipelineState> __strong& pipeline) {
  const MetalLock locked;
  char name[256];
  snprintf(name, sizeof name, "%s %s %d", kernel.file, entry.symbol, variant);
  NSString* const key = [NSString stringWithUTF8String:name];
  pipeline = [metal.pipelines objectForKey:key];
  if (pipeline != nil) return ok;
  id<MTLLibrary> library = nil;
  CODETTA_OK(load_kernels(kernel.file, library));
  MTLFunctionConstantValues* const values = [[MTLFunctionConstantValues alloc] init];
  for (unsigned long i = 0; kernel.specialised && i < 2; ++i) {
    const bool value = (variant >> i & 1) != 0;
    [values setConstantValue:&value type:MTLDataTypeBool atIndex:i];
  }
  NSError* error = nil;
  id<MTLFunction> function = [library newFunctionWithName:[NSString stringWithUTF8String:entry.symbol]
                                           constantValues:values
                                                    error:&error];
  if (function == nil)
    return fail(device_failed, "E0508: %s has no function %s: %s", kernel.file, entry.symbol, text_of(error));
  pipeline = [metal.device newComputePipelineStateWithFunction:function error:&error];
  if (pipeline == nil)
    return fail(device_failed, "E0533: %s of %s makes no pipeline: %s", entry.symbol, kernel.file, text_of(error));
  if ([pipeline threadExecutionWidth] != 32)
    return fail(wrong_machine, "E0650: %s needs SIMD groups of 32 threads, %s has %lu", entry.symbol,
                [[metal.device name] UTF8String], static_cast<unsigned long>([pipeline threadExecutionWidth]));
  if ([pipeline maxTotalThreadsPerThreadgroup] < static_cast<unsigned long>(entry.threads))
    return fail(wrong_machine, "E0650: %s has threadgroups of %d threads and registers for %lu", entry.symbol,
                entry.threads, static_cast<unsigned long>([pipeline maxTotalThreadsPerThreadgroup]));
  const unsigned long needed =
      [pipeline staticThreadgroupMemoryLength] + static_cast<unsigned long>(entry.threadgroup_bytes);
  if (needed > [metal.device maxThreadgroupMemoryLength])
    return fail(wrong_machine, "E0650: %s needs %lu bytes of threadgroup memory, %s has %lu", entry.symbol, needed,
                [[metal.device name] UTF8String],
                static_cast<unsigned long>([metal.device maxThreadgroupMemoryLength]));
  [metal.pipelines setObject:pipeline forKey:key];
  return ok;
}

inline i64 rounded_up(i64 a, i64 unit) { return (a + unit - 1) / unit; }
inline i64 at_least(i64 a, i64 least) { return a < least ? least : a; }
// Along a dim of a grid: positions of threads have 32 bits.
inline i64 most_groups(const MetalEntry& entry) { return 0xffffffffll / entry.threads; }

// What a launch needs of the workspace, all in one piece behind the temporaries.
struct MetalRoom {
  i64 end = 0;
  bool overflow = false;
  i64 add(Number bytes) {
    const i64 at = end;
    const Number next = Number(at) + round_up(bytes, 256);
    overflow = overflow || next.bad || next.value > int64_max / 4;
    end = overflow ? at : next.value;
    return at;
  }
};

// What is read of a tensor without elements: as many bytes as an element has, always the same, whose values no result
// needs. `gathers`: by indices, none of which would be in range.
inline Status read_nothing(const MetalFrame& frame, cpu::Operand& operand, const View& view, const char* name,
                           bool gathers, const Gemm& gemm) {
  if (!is_nowhere(view, operand)) return ok;
  if (gathers && gemm.batch != 0 && gemm.m != 0 && gemm.n != 0)
    return fail(bad_argument, "E0618: elements of %s are taken by indices, and it has none", name);
  operand = cpu::Operand{};
  // The workspace: a launch has 256 bytes at least.
  if (frame.running) operand.data = frame.memory + round_up(Number(frame.temporary_bytes), 256).value;
  return ok;
}

// A kernel over a product (`gemm.a` is there) or a root space. `operands`, `scalars`: as the kernel's program has them.
inline Status launch(MetalFrame& frame, const MetalKernel& kernel, const Gemm& gemm, const cpu::Operand* operands,
                     i32 operand_count, const cpu::ScalarValue* scalars, i32 scalar_count) {
  gpu::Problem p{};
  p.batches = gemm.batch, p.m = gemm.m, p.n = gemm.n, p.k = gemm.k;
  p.rows = p.m, p.cols = p.n / kernel.ways;
  p.chunk = kernel.ways > 1 ? gemm.split_chunk : at_least(p.cols, 1);
  p.a = gemm.a, p.a_batch = gemm.a_batch, p.a_row = gemm.a_row, p.a_k = gemm.a_k;
  p.b = gemm.b, p.b_batch = gemm.b_batch, p.b_k = gemm.b_k, p.b_col = gemm.b_col;
  p.inner = gemm.inner, p.a_skip = gemm.a_skip, p.b_skip = gemm.b_skip;
  p.tiles_m = rounded_up(p.rows, kernel.tile_m);
  p.tiles_n = rounded_up(p.cols, at_least(kernel.tile_n / kernel.ways, 1));
  p.pieces_m = rounded_up(p.rows, kernel.piece_rows);
  p.pieces_n = rounded_up(p.cols, kernel.piece_cols);
  p.k_slice = at_least(rounded_up(rounded_up(p.k, kernel.k_split), kernel.tile_k), 1) * kernel.tile_k;
  p.k_split = at_least(rounded_up(p.k, p.k_slice), 1);
  p.group = static_cast<u64>(at_least(kernel.group, 1));
  const bool empty = p.batches == 0 || p.rows == 0 || p.cols == 0;
  const int sizes_of_0 = (p.batches == 0 ? 1 : 0) + (p.rows == 0 ? 2 : 0) + (p.cols == 0 ? 4 : 0);
  if ((kernel.missing_when >> sizes_of_0 & 1) != 0) {
    unaligned = true;
    return fail(bad_sizes, "E0610: an output has elements that %s computes with each %s, and there is none",
                kernel.file,
                p.batches == 0 ? "batch item"
                : p.rows == 0  ? "row"
                               : "column");
  }

  MetalRoom room;
  const Number kept =
      Number(p.batches) * Number(kernel.ways) * Number(p.rows) * Number(p.cols) * Number(kernel.accumulator_bytes);
  const i64 accumulators = kernel.keeps_accumulators ? room.add(kept) : 0;
  const i64 slices = kernel.k_split > 1 ? room.add(kept * Number(p.k_split)) : 0;
  gpu::ReductionBuffers buffers[64] = {};
  if (kernel.reduction_count > 64) return fail(bad_sizes, "E0650: %s has more than 64 reductions", kernel.file);
  i64 at[64][2] = {};
  for (i32 i = 0; i < kernel.reduction_count; ++i) {
    const MetalReduction& r = kernel.reductions[i];
    // One piece without elements is walked over an empty root space (device/metal/phase.h): its state has room, too.
    const Number items = Number(at_least(p.batches, 1)) * Number(r.value_bytes);
    const Number pieces_m = Number(at_least(p.pieces_m, 1)), pieces_n = Number(at_least(p.pieces_n, 1));
    const Number pieces = r.axis == 0   ? pieces_n * Number(p.rows)
                          : r.axis == 1 ? pieces_m * Number(p.cols)
                                        : pieces_m * pieces_n;
    at[i][0] = room.add(items * pieces);
    at[i][1] = room.add(items * Number(r.axis == 0 ? p.rows : r.axis == 1 ? p.cols : 1) + Number(r.value_bytes));
  }
  if (room.overflow) return fail(bad_sizes, "E0603: the workspace of %s exceeds 2^61 bytes", kernel.file);
  if (room.end + 256 > frame.engine_bytes) frame.engine_bytes = room.end + 256;

  const Number tiles = Number(p.tiles_m) * Number(p.tiles_n) * Number(p.k_split) * Number(p.batches);
  for (i32 e = 0; e < kernel.entry_count; ++e) {
    if (kernel.entries[e].kind != 0 || (!tiles.bad && tiles.value <= most_groups(kernel.entries[e]))) continue;
    return fail(bad_sizes, "E0650: %s needs a grid of more than %lld threadgroups for %lld x %lld in %lld batch items",
                kernel.file, static_cast<long long>(most_groups(kernel.entries[e])), static_cast<long long>(p.m),
                static_cast<long long>(p.n), static_cast<long long>(p.batches));
  }
  const u64 params_bytes = sizeof(gpu::TensorMap) + sizeof p +
                           static_cast<u64>(at_least(operand_count, 1)) * sizeof(gpu::Operand) +
                           static_cast<u64>(at_least(scalar_count, 1)) * sizeof(gpu::ScalarValue) +
                           static_cast<u64>(at_least(kernel.reduction_count, 1)) * sizeof(gpu::ReductionBuffers);
  alignas(64) char params[4096] = {};
  if ((params_bytes + 63) / 64 * 64 > sizeof params)
    return fail(bad_sizes, "E0650: %s has %llu bytes of parameters; 4096 can be passed", kernel.file,
                static_cast<unsigned long long>(params_bytes));

  const bool whole = p.rows % kernel.tile_m == 0 && p.cols % at_least(kernel.tile_n / kernel.ways, 1) == 0 &&
                     p.k % kernel.tile_k == 0 && p.k % p.k_slice == 0;
  const auto in_lines = [&](const void* data, i64 batch, i64 skip, i64 slow, i64 fast) {
    return fast == 1 && ((reinterpret_cast<u64>(data) | static_cast<u64>((batch | skip) * kernel.factor_bytes) |
                          static_cast<u64>(slow * kernel.factor_bytes)) &
                         15) == 0;
  };
  // Further products have a B each.
  const auto each_b = [&](auto holds) {
    bool all = kernel.makes_b || holds(FactorB{p.b, p.b_batch, p.b_k, p.b_col, p.b_skip});
    for (i32 i = 1; i < gemm.products; ++i) all = all && holds(gemm.more_b[i - 1]);
    return all;
  };
  const bool aligned =
      (kernel.makes_a ||
       in_lines(p.a, p.a_batch, p.a_skip, kernel.a_k_major ? p.a_row : p.a_k, kernel.a_k_major ? p.a_k : p.a_row)) &&
      each_b([&](const FactorB& b) {
        return in_lines(b.data, b.batch, b.skip, kernel.b_k_major ? b.col : b.k, kernel.b_k_major ? b.k : b.col);
      });
  if (kernel.specialised && !empty) {  // what the kernel was made to rely on
    const bool a_fits = kernel.makes_a || p.k <= 1 || p.m <= 1 || (kernel.a_k_major ? p.a_k : p.a_row) == 1;
    i64 apart = a_fits ? 1 : kernel.a_k_major ? p.a_k : p.a_row;
    const bool b_fits = p.k <= 1 || columns_of_one(gemm) <= 1 || each_b([&](const FactorB& b) {
                          const i64 step = kernel.b_k_major ? b.k : b.col;
                          if (a_fits && step != 1) apart = step;
                          return step == 1;
                        });
    if (!a_fits || !b_fits)
      return fail(bad_sizes, "E0610: %s reads elements of %s that lie side by side; here they are %lld apart",
                  kernel.file, a_fits ? "B" : "A", static_cast<long long>(apart));
  }
  if (!frame.running) {  // pipelines and their limits are known before anything is written
    for (i32 e = 0; e < kernel.entry_count; ++e) {
      id<MTLComputePipelineState> pipeline = nil;
      if (!frame.sizes_only)
        CODETTA_OK(pipeline_of(kernel, kernel.entries[e], (whole ? 1 : 0) | (aligned ? 2 : 0), pipeline));
    }
    return ok;
  }

  char* const workspace = frame.memory + round_up(Number(frame.temporary_bytes), 256).value;
  p.accumulators = workspace + accumulators;
  p.slices = workspace + slices;
  char* to = params + sizeof(gpu::TensorMap);
  const auto put = [&to](const void* from, u64 bytes, u64 room_for) {
    if (bytes != 0) memcpy(to, from, bytes);
    to += room_for;
  };
  put(&p, sizeof p, sizeof p);
  static_assert(sizeof(gpu::Operand) == sizeof(cpu::Operand) && sizeof(gpu::ScalarValue) == sizeof(cpu::ScalarValue));
  put(operands, static_cast<u64>(operand_count) * sizeof(gpu::Operand),
      static_cast<u64>(at_least(operand_count, 1)) * sizeof(gpu::Operand));
  put(scalars, static_cast<u64>(scalar_count) * sizeof(gpu::ScalarValue),
      static_cast<u64>(at_least(scalar_count, 1)) * sizeof(gpu::ScalarValue));
  for (i32 i = 0; i < kernel.reduction_count; ++i) buffers[i] = {workspace + at[i][0], workspace + at[i][1]};
  put(buffers, static_cast<u64>(kernel.reduction_count) * sizeof(gpu::ReductionBuffers), 0);

  for (i32 e = 0; e < kernel.entry_count; ++e) {
    const MetalEntry& entry = kernel.entries[e];
    i64 grid[3] = {1, 1, 1};
    if (entry.kind == 0) {
      if (empty) continue;
      grid[0] = tiles.value;
    } else if (entry.kind == 1) {
      i64 largest = 0, count = 0;
      for (i32 i = 0; i < kernel.reduction_count; ++i) {
        const MetalReduction& r = kernel.reductions[i];
        if (r.phase != entry.index) continue;
        ++count;
        const i64 results = r.axis == 0   ? p.batches * p.rows
                            : r.axis == 1 ? p.batches * p.cols
                            : r.axis == 3 ? p.batches * entry.results_per_group
                                          : 1;
        largest = at_least(results, largest);
      }
      if (largest == 0) continue;
      grid[0] = rounded_up(largest, entry.results_per_group), grid[1] = count;
      if (grid[0] > most_groups(entry)) {
        grid[2] = rounded_up(grid[0], most_groups(entry));
        grid[0] = most_groups(entry);
      }
    } else {  // what lies beyond is walked by loops
      grid[0] = entry.kind == 4 ? 1 : at_least(p.pieces_n < most_groups(entry) ? p.pieces_n : most_groups(entry), 1);
      grid[1] = at_least(p.pieces_m < 65535 ? p.pieces_m : 65535, 1);
      grid[2] = at_least(p.batches < 65535 ? p.batches : 65535, 1);
    }
    id<MTLComputePipelineState> pipeline = nil;
    CODETTA_OK(pipeline_of(kernel, entry, (whole ? 1 : 0) | (aligned ? 2 : 0), pipeline));
    [frame.encoder setComputePipelineState:pipeline];
    [frame.encoder setBytes:params length:(params_bytes + 63) / 64 * 64 atIndex:0];
    [frame.encoder setThreadgroupMemoryLength:static_cast<unsigned long>(entry.threadgroup_bytes) atIndex:0];
    [frame.encoder
         dispatchThreadgroups:MTLSizeMake(static_cast<unsigned long>(grid[0]), static_cast<unsigned long>(grid[1]),
                                          static_cast<unsigned long>(grid[2]))
        threadsPerThreadgroup:MTLSizeMake(static_cast<unsigned long>(entry.threads), 1, 1)];
    // The next kernel reads what this one wrote.
    [frame.encoder memoryBarrierWithScope:MTLBarrierScopeBuffers];
  }
  return ok;
}

// The parameters of device/metal/kernels/bytes.h, whose text lies beside the library where its programs copy or fill.
struct MetalBytes {
  u64 to, from;
  i64 count;
  u64 value, width;
};
inline constexpr MetalEntry bytes_entries[] = {{"codetta_bytes", 0, 0, 256, 0, 0}};
inline constexpr MetalKernel bytes_kernel = {
    "codetta_bytes", bytes_entries, 1, nullptr, 0, false, false, false, false, false, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

inline Status move_bytes(const MetalFrame& frame, const View& to, const void* from, u64 value) {
  i64 count = dtype_bytes(to.dtype);  // check_memory has looked
  for (i32 i = 0; i < to.rank; ++i) count *= to.size[i];
  id<MTLComputePipelineState> pipeline = nil;
  CODETTA_OK(pipeline_of(bytes_kernel, bytes_entries[0], 0, pipeline));
  if (!frame.running || count == 0) return ok;
  const MetalBytes params = {reinterpret_cast<u64>(to.data), reinterpret_cast<u64>(from), count, value,
                             static_cast<u64>(dtype_bytes(to.dtype))};
  const i64 groups = rounded_up(count, 256);
  [frame.encoder setComputePipelineState:pipeline];
  [frame.encoder setBytes:&params length:sizeof params atIndex:0];
  [frame.encoder setThreadgroupMemoryLength:16 atIndex:0];
  [frame.encoder dispatchThreadgroups:MTLSizeMake(static_cast<unsigned long>(groups < 65536 ? groups : 65536), 1, 1)
                threadsPerThreadgroup:MTLSizeMake(256, 1, 1)];
  [frame.encoder memoryBarrierWithScope:MTLBarrierScopeBuffers];
  return ok;
}
// Both are contiguous: the text was printed for such buffers only.
inline Status copy(const MetalFrame& frame, const View& target, const View& source, const char* name) {
  bool same = target.dtype == source.dtype && target.rank == source.rank;
  for (i32 i = 0; same && i < target.rank; ++i) same = target.size[i] == source.size[i];
  if (!same)
    return fail(bad_sizes, "E0610: %s is copied from a tensor of another form: %s from %s", name, describe(target),
                describe(source));
  return target.data == source.data ? ok : move_bytes(frame, target, source.data, 0);
}
inline Status fill(const MetalFrame& frame, const View& view, u64 bits) {
  return move_bytes(frame, view, nullptr, bits);
}

// An argument: its address on the GPU, once the buffer is known to hold all of it.
inline Status bind_buffer(View& view, const MetalTensor& tensor, i32 dtype, const Number* sizes, i32 rank,
                          const char* name) {
  CODETTA_OK(bind(view, unplaced(), dtype, sizes, rank, name));
  if (view.empty()) return ok;
  if (tensor.buffer == nullptr) return fail(bad_argument, "E0604: %s is null; it has to be %s", name, describe(view));
  id<MTLBuffer> buffer = (__bridge id<MTLBuffer>)tensor.buffer;
  const Number bytes = span_bytes(dtype, sizes, nullptr, rank);
  const u64 length = [buffer length];
  if (bytes.bad || tensor.offset > length || static_cast<u64>(bytes.value) > length - tensor.offset)
    return fail(bad_argument, "E0610: the buffer of %s has %llu bytes, and %s at offset %llu needs %lld", name,
                static_cast<unsigned long long>(length), describe(view), static_cast<unsigned long long>(tensor.offset),
                static_cast<long long>(bytes.value));
  return bind(view, reinterpret_cast<void*>([buffer gpuAddress] + tensor.offset), dtype, sizes, rank, name);
}

// What a command buffer that has ended says.
inline Status status_of(id<MTLCommandBuffer> commands, const char* program) {
  if ([commands status] != MTLCommandBufferStatusError) return ok;
  NSError* const error = [commands error];
  return fail(device_failed, "E0644: %s failed on %s, code %ld: %s", program, [[metal.device name] UTF8String],
              error == nil ? 0l : static_cast<long>([error code]), text_of(error));
}

// Checks, measures, and encodes into the caller's command buffer (it then only enqueues), or into one of its own, which
// it commits and waits for.
inline Status run_metal(Status (*steps)(MetalFrame& frame), View* views, const cpu::ScalarValue* scalars,
                        const MetalTensor* const* tensors, i32 tensor_count, void* command_buffer,
                        const char* program) {
  MetalFrame frame;
  frame.views = views;
  frame.scalars = scalars;
  CODETTA_OK(steps(frame));
  const u64 bytes = static_cast<u64>(round_up(Number(frame.temporary_bytes), 256).value + frame.engine_bytes);
  id<MTLBuffer> workspace = nil;
  if (bytes != 0) {
    workspace = [metal.device newBufferWithLength:bytes options:MTLResourceStorageModePrivate];
    if (workspace == nil)
      return fail(no_memory, "E0606: %llu bytes of workspace cannot be allocated",
                  static_cast<unsigned long long>(bytes));
    frame.memory = reinterpret_cast<char*>([workspace gpuAddress]);
  }
  const bool own = command_buffer == nullptr;
  id<MTLCommandBuffer> commands = own ? [metal.queue commandBuffer] : (__bridge id<MTLCommandBuffer>)command_buffer;
  frame.encoder = [commands computeCommandEncoder];
  if (frame.encoder == nil) return fail(device_failed, "E0644: the command buffer takes no compute work");
  // Kernels find memory by address: Metal has to be told what they touch.
  for (i32 i = 0; i < tensor_count; ++i) {
    if (tensors[i]->buffer == nullptr) continue;
    [frame.encoder useResource:(__bridge id<MTLBuffer>)tensors[i]->buffer
                         usage:MTLResourceUsageRead | MTLResourceUsageWrite];
  }
  if (workspace != nil) [frame.encoder useResource:workspace usage:MTLResourceUsageRead | MTLResourceUsageWrite];
  frame.running = true;
  const Status status = steps(frame);
  [frame.encoder endEncoding];
  if (status != ok) return status;
  if (!own) {  // the workspace lives until the work has ended
    [commands addCompletedHandler:^(id<MTLCommandBuffer>) {
      (void)[workspace length];
    }];
    return ok;
  }
  [commands commit];
  [commands waitUntilCompleted];
  return status_of(commands, program);
}

}  // namespace codetta::host

// SPDX-License-Identifier: Apache-2.0
// Speed of the bare CPU engine against what the machine can do: a register-only multiply-add loop, and the read
// bandwidth. Usage: cpu_probe [filter | runs]. One line per shape; "peak" is measured beside each row.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cpu/gemm.hpp"

namespace {

using namespace codetta;
using namespace codetta::runtime::cpu;
// Processor time of this thread, so that other load on the machine does not count; wall time for rows with threads.
bool wall_clock = false;
double now() {
  timespec t{};
  clock_gettime(wall_clock ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
double seconds(const std::function<void()>& f) {
  const double start = now();
  f();
  return now() - start;
}
// Best of several runs, each long enough to time.
double best(const std::function<void()>& f, double budget = 0.6) {
  f();
  const double once = std::max(seconds(f), 1e-7);
  const int inner = std::max(1, static_cast<int>(2e-3 / once));
  const int outer = std::clamp(static_cast<int>(budget / (once * inner)), 3, 200);
  double least = 1e30;
  for (int i = 0; i < outer; ++i) {
    least = std::min(least, seconds([&] {
                              for (int j = 0; j < inner; ++j) f();
                            }) / inner);
  }
  return least;
}

// Operations a second of a loop of twelve independent 512-bit instructions; `work` operations in each.
#define CODETTA_TWELVE(I) I(0) I(1) I(2) I(3) I(4) I(5) I(6) I(7) I(8) I(9) I(10) I(11)
#if defined(__x86_64__)
enum class Instruction { f32, f64, bf16, int8 };
double peak(Instruction which) {
  constexpr int64_t steps = 2'000'000;
  double least = 1e30;
  const double work = which == Instruction::f32    ? 32
                      : which == Instruction::f64  ? 16
                      : which == Instruction::bf16 ? 64
                                                   : 128;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const double t = seconds([&] {
#define CODETTA_F32(i) "vfmadd231ps %%zmm30, %%zmm31, %%zmm" #i "\n"
#define CODETTA_F64(i) "vfmadd231pd %%zmm30, %%zmm31, %%zmm" #i "\n"
#define CODETTA_BF16(i) "vdpbf16ps %%zmm30, %%zmm31, %%zmm" #i "\n"
#define CODETTA_INT8(i) "vpdpbusd %%zmm30, %%zmm31, %%zmm" #i "\n"
      for (int64_t i = 0; i < steps; ++i) {
        switch (which) {
          case Instruction::f32:
            asm volatile(CODETTA_TWELVE(CODETTA_F32)::: "memory");
            break;
          case Instruction::f64:
            asm volatile(CODETTA_TWELVE(CODETTA_F64)::: "memory");
            break;
          case Instruction::bf16:
            asm volatile(CODETTA_TWELVE(CODETTA_BF16)::: "memory");
            break;
          case Instruction::int8:
            asm volatile(CODETTA_TWELVE(CODETTA_INT8)::: "memory");
            break;
        }
      }
    });
    least = std::min(least, t);
  }
  return static_cast<double>(steps) * 12 * work / least;
}
#endif

struct AlignedBuffer {
  explicit AlignedBuffer(size_t bytes) : data(std::aligned_alloc(64, (bytes + 127) / 64 * 64)) {
    std::memset(data, 0, bytes);
  }
  ~AlignedBuffer() { std::free(data); }
  AlignedBuffer(AlignedBuffer&& o) noexcept : data(std::exchange(o.data, nullptr)) {}
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  void* data;
};

AlignedBuffer random_bytes(DType d, int64_t count) {
  std::mt19937 gen(7);
  std::normal_distribution<float> normal;
  AlignedBuffer out(static_cast<size_t>(count * dtype_size(d)));
  for (int64_t i = 0; i < count; ++i) {
    const float v = normal(gen);
    switch (d) {
      case DType::f32:
        reinterpret_cast<float*>(out.data)[i] = v;
        break;
      case DType::f64:
        reinterpret_cast<double*>(out.data)[i] = v;
        break;
      case DType::bf16:
      case DType::f16: {
        uint32_t bits;
        std::memcpy(&bits, &v, 4);
        reinterpret_cast<uint16_t*>(out.data)[i] =
            d == DType::bf16 ? static_cast<uint16_t>(bits >> 16) : static_cast<uint16_t>(0x3000 + (gen() & 0x87ff));
        break;
      }
      default:
        reinterpret_cast<uint8_t*>(out.data)[i] = static_cast<uint8_t>(gen());
    }
  }
  return out;
}

struct Row {
  const char* name;
  CpuGemmConfig config;
  int64_t m, n, k, batch = 1;
  bool packed = true;      // weights packed ahead
  bool b_columns = false;  // B column-major
  int threads = 1;
  int rotate = 1;  // copies of the weights, to read them from memory
};

void measure(const Row& row) {
  const CpuGemmConfig& c = row.config;
  const auto a = random_bytes(c.a_dtype, row.batch * row.m * row.k);
  const int64_t b_elements = row.n * row.k * row.batch;
  const auto b = random_bytes(c.b_dtype, b_elements * row.rotate);
  AlignedBuffer out(static_cast<size_t>(row.batch * row.m * row.n * (c.accumulator == DType::f64 ? 8 : 4)));
  GemmProblem p;
  p.batch = row.batch;
  p.m = row.m;
  p.n = row.n;
  p.k = row.k;
  p.a = a.data;
  p.a_batch = row.batch > 1 ? row.m * row.k : 0;
  p.a_row = row.k;
  p.b = b.data;
  p.b_batch = row.batch > 1 ? row.n * row.k : 0;
  p.b_k = row.b_columns ? 1 : row.n;
  p.b_col = row.b_columns ? row.k : 1;
  const StoreTile store{out.data, row.m * row.n, row.n};
  AlignedBuffer packed(row.packed ? packed_size(c, p) : 64);
  double pack_time = 0;
  if (row.packed) {
    pack_time = best([&] { pack_b(c, p, nullptr, packed.data); }, 0.1);
    p.packed_b = packed.data;
  }
  wall_clock = row.threads > 1;
  auto pool = make_thread_pool(row.threads);
  AlignedBuffer workspace(workspace_size(c, p, row.threads));
  int turn = 0;
  const double t = best([&] {
    if (row.rotate > 1)
      p.b = static_cast<const std::byte*>(b.data) + (turn++ % row.rotate) * b_elements * dtype_size(c.b_dtype);
    run(c, p, store, row.threads > 1 ? pool.get() : nullptr, workspace.data);
  });
  const double ops =
      2.0 * static_cast<double>(row.batch) * static_cast<double>(row.m * row.n) * static_cast<double>(row.k);
  double limit = 0;
  wall_clock = false;
#if defined(__x86_64__)
  const bool int8 = c.accumulator == DType::i32;
  limit = peak(int8                          ? Instruction::int8
               : c.accumulator == DType::f64 ? Instruction::f64
               : c.a_dtype == DType::bf16    ? Instruction::bf16
                                             : Instruction::f32) *
          row.threads;
#endif
  std::printf("%-34s %10.2f us %8.1f G/s  %5.1f %% of peak %7.1f   B %6.1f GB/s", row.name, t * 1e6, ops / t * 1e-9,
              limit > 0 ? 100 * ops / t / limit : 0, limit * 1e-9,
              static_cast<double>(b_elements * dtype_size(c.b_dtype)) / t * 1e-9);
  if (row.packed) std::printf("   (pack %.0f us)", pack_time * 1e6);
  std::printf("\n");
  std::fflush(stdout);
}

void read_bandwidth() {
  const size_t bytes = size_t{256} << 20;
  std::vector<uint64_t> data(bytes / 8, 1);
  uint64_t sink = 0;
  const double t = best([&] {
    typedef uint64_t V __attribute__((vector_size(64), aligned(8)));
    V s0{}, s1{}, s2{}, s3{};
    const V* p = reinterpret_cast<const V*>(data.data());
    for (size_t i = 0; i < bytes / 64; i += 4) {
      s0 += p[i];
      s1 += p[i + 1];
      s2 += p[i + 2];
      s3 += p[i + 3];
    }
    s0 += s1 + s2 + s3;
    sink += s0[0] + s0[7];
  });
  std::printf("read bandwidth, one core: %.1f GB/s (%d)\n", static_cast<double>(bytes) / t * 1e-9,
              static_cast<int>(sink & 1));
}

#if defined(__x86_64__)
// A matrix far larger than the caches, written past them and read, tile by tile: how much the length of a tile's rows
// matters.
void runs() {
  typedef float V __attribute__((vector_size(16)));
  constexpr int64_t rows = 5376, width = 12288, tile_rows = 24, lengths[] = {128, 256, 512, 1024, 2048, 4096, width};
  AlignedBuffer matrix(static_cast<size_t>(rows * width));
  V sum{};
  const auto over_tiles = [&](int64_t length, auto&& vector) {
    return seconds([&] {
      for (int64_t row = 0; row < rows; row += tile_rows) {
        for (int64_t column = 0; column < width; column += length) {
          for (int64_t r = row; r < row + tile_rows; ++r) {
            auto* at = reinterpret_cast<V*>(static_cast<std::byte*>(matrix.data) + r * width + column);
            for (int64_t i = 0; i < length / 16; ++i) vector(at + i);
          }
        }
      }
      __builtin_ia32_sfence();
    });
  };
  std::vector<double> past(std::size(lengths), 1e30), read(std::size(lengths), 1e30);
  for (int repeat = 0; repeat < 9; ++repeat) {  // taking turns
    for (size_t i = 0; i < std::size(lengths); ++i) {
      past[i] = std::min(past[i], over_tiles(lengths[i], [&](V* at) {
                           __builtin_ia32_movntps(reinterpret_cast<float*>(at), V{1, 2, 3, 4});
                         }));
      read[i] = std::min(read[i], over_tiles(lengths[i], [&](V* at) { sum += *at; }));
    }
  }
  for (size_t i = 0; i < std::size(lengths); ++i) {
    constexpr double bytes = static_cast<double>(rows * width) * 1e-9;
    std::printf("tiles of %lld rows of %5lld bytes: stores past the caches %5.1f GB/s, reads %5.1f GB/s%s\n",
                static_cast<long long>(tile_rows), static_cast<long long>(lengths[i]), bytes / past[i], bytes / read[i],
                sum[0] < 0 ? " " : "");
  }
}
#endif

CpuGemmConfig make(CpuFamily family, DType a, DType b, DType acc, int mr, int nr, int tile_rows, int tile_cols, int kc,
                   bool pack_a = false) {
  CpuGemmConfig c;
  c.family = family;
  c.isa = CpuIsa::avx512_bf16;
  c.a_dtype = a;
  c.b_dtype = b;
  c.accumulator = acc;
  c.mr = mr;
  c.nr = nr;
  c.tile_rows = tile_rows;
  c.tile_cols = tile_cols;
  c.kc = kc;
  c.pack_a = pack_a;
  return c;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string filter = argc > 1 ? argv[1] : "";
  const auto f32 = [](int mr, int nr, int tr, int tc, int kc, bool pack_a = false) {
    return make(CpuFamily::Packed, DType::f32, DType::f32, DType::f32, mr, nr, tr, tc, kc, pack_a);
  };
  const auto bf16 = [](int mr, int nr, int tr, int tc, int kc, bool pack_a = false) {
    return make(CpuFamily::Packed, DType::bf16, DType::bf16, DType::f32, mr, nr, tr, tc, kc, pack_a);
  };
  const auto u8s8 = [](int mr, int nr, int tr, int tc, int kc, bool pack_a = false) {
    return make(CpuFamily::Packed, DType::u8, DType::i8, DType::i32, mr, nr, tr, tc, kc, pack_a);
  };
  const auto in_place = [](DType d, int nr, int tr, int tc, int kc) {
    return make(CpuFamily::InPlace, d, d, DType::f32, 16, nr, tr, tc, kc, tr > 1 && tr < 48);
  };
  const std::vector<Row> rows{
      {"f32 2048^3", f32(6, 64, 48, 64, 512), 2048, 2048, 2048},
      {"f32 2048^3 pack A", f32(6, 64, 48, 64, 512, true), 2048, 2048, 2048},
      {"f32 2048^3 unpacked B", f32(6, 64, 48, 64, 512, true), 2048, 2048, 2048, 1, false},
      {"f32 2048^3 2 threads", f32(6, 64, 48, 64, 512, true), 2048, 2048, 2048, 1, true, false, 2},
      {"f32 512x3072x768", f32(6, 64, 48, 64, 512), 512, 3072, 768},
      {"f32 512x3072x768 pack A", f32(6, 64, 48, 64, 512, true), 512, 3072, 768},
      {"f32 512x3072x64", f32(6, 64, 48, 64, 512), 512, 3072, 64},
      {"f32 1024^3", f32(6, 64, 48, 64, 512), 1024, 1024, 1024},
      {"f32 128^3", f32(6, 64, 48, 64, 512), 128, 128, 128},
      {"bf16 2048^3", bf16(6, 64, 48, 64, 1024), 2048, 2048, 2048},
      {"bf16 2048^3 pack A", bf16(6, 64, 48, 64, 1024, true), 2048, 2048, 2048},
      {"bf16 512x3072x768", bf16(6, 64, 48, 64, 1024), 512, 3072, 768},
      {"bf16 256^3", bf16(6, 64, 48, 64, 1024), 256, 256, 256},
      {"bf16 128^3", bf16(6, 64, 48, 64, 1024), 128, 128, 128},
      {"u8s8 2048^3", u8s8(6, 64, 48, 64, 2048), 2048, 2048, 2048},
      {"u8s8 2048^3 pack A", u8s8(6, 64, 48, 64, 2048, true), 2048, 2048, 2048},
      {"u8s8 512x3072x768", u8s8(6, 64, 48, 64, 2048), 512, 3072, 768},
      {"u8s8 256^3", u8s8(6, 64, 48, 64, 2048), 256, 256, 256},
      {"M=1 f32 4096^2 rows kc8", in_place(DType::f32, 64, 1, 4096, 8), 1, 4096, 4096, 1, false, false, 1, 3},
      {"M=1 f32 4096^2 rows kc16", in_place(DType::f32, 64, 1, 4096, 16), 1, 4096, 4096, 1, false, false, 1, 3},
      {"M=1 f32 4096^2 rows kc4", in_place(DType::f32, 64, 1, 4096, 4), 1, 4096, 4096, 1, false, false, 1, 3},
      {"M=1 f32 4096^2 columns", in_place(DType::f32, 64, 1, 4096, 4096), 1, 4096, 4096, 1, false, true, 1, 3},
      {"M=1 bf16 4096^2 rows kc8", in_place(DType::bf16, 64, 1, 4096, 8), 1, 4096, 4096, 1, false, false, 1, 4},
      {"M=1 bf16 4096^2 columns", in_place(DType::bf16, 64, 1, 4096, 4096), 1, 4096, 4096, 1, false, true, 1, 4},
      {"M=16 f32 4096^2 rows nr16 kc128 1024", in_place(DType::f32, 16, 16, 1024, 128), 16, 4096, 4096, 1, false, false,
       1, 3},
      {"M=16 f32 4096^2 columns", in_place(DType::f32, 64, 16, 64, 4096), 16, 4096, 4096, 1, false, true, 1, 3},
      {"M=16 bf16 4096^2 rows kc16", in_place(DType::bf16, 64, 16, 1024, 16), 16, 4096, 4096, 1, false, false, 1, 4},
      {"10000 x 16^3 f32", in_place(DType::f32, 64, 64, 64, 512), 16, 16, 16, 10000, false},
      {"10000 x 23^3 f32", in_place(DType::f32, 64, 64, 64, 512), 23, 23, 23, 10000, false},
      {"10000 x 32^3 f32", in_place(DType::f32, 64, 64, 64, 512), 32, 32, 32, 10000, false},
      {"10000 x 48^3 f32", in_place(DType::f32, 64, 64, 64, 512), 48, 48, 48, 10000, false},
      {"1 x 16^3 f32", in_place(DType::f32, 64, 64, 64, 512), 16, 16, 16, 1, false},
      {"1 x 32^3 f32", in_place(DType::f32, 64, 64, 64, 512), 32, 32, 32, 1, false},
      {"1 x 64^3 f32", in_place(DType::f32, 64, 64, 64, 512), 64, 64, 64, 1, false},
  };
  if (filter.empty()) read_bandwidth();
#if defined(__x86_64__)
  if (filter.empty() || filter == "runs") runs();
#endif
  for (const Row& row : rows) {
    if (filter.empty() || std::string(row.name).find(filter) != std::string::npos) measure(row);
  }
  return 0;
}

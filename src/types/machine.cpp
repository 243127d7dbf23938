// SPDX-License-Identifier: Apache-2.0
// Detection of instruction sets, cores and caches, and the tables of targets.def.
#include "types/machine.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "types/cpuid.hpp"
#include "types/dtype.hpp"

namespace codetta::types {
namespace {

constexpr IsaInfo isa_table[] = {
#define CODETTA_ISA(name, architecture, vector_bytes, vector_registers, has) \
  {CpuIsa::name, #name, CpuArchitecture::architecture, vector_bytes, vector_registers, has},
#define CODETTA_ACCUMULATION(name, accumulator, roundings, extra, flushes, doc)
#include "types/targets.def"
#undef CODETTA_ISA
#undef CODETTA_ACCUMULATION
};
constexpr size_t isa_count = std::size(isa_table);

enum class Model : uint8_t {
#define CODETTA_ISA(name, architecture, vector_bytes, vector_registers, has)
#define CODETTA_ACCUMULATION(name, accumulator, roundings, extra, flushes, doc) name,
#include "types/targets.def"
#undef CODETTA_ISA
#undef CODETTA_ACCUMULATION
};
constexpr AccumulationModel model_table[] = {
#define CODETTA_ISA(name, architecture, vector_bytes, vector_registers, has)
#define CODETTA_ACCUMULATION(name, accumulator, roundings, extra, flushes, doc) \
  {#name,                                                                       \
   DType::accumulator,                                                          \
   roundings,                                                                   \
   extra,                                                                       \
   flushes,                                                                     \
   doc,                                                                         \
   unit_roundoff(DType::accumulator),                                           \
   (flushes) ? min_normal(DType::f32) : 0.0},
#include "types/targets.def"
#undef CODETTA_ISA
#undef CODETTA_ACCUMULATION
};

#if CODETTA_X86
std::string processor_name() {
  char text[49] = {};
  for (unsigned i = 0; i < 3; ++i) {
    const Cpuid r = cpuid(0x80000002u + i, 0);
    std::memcpy(text + 16 * i, &r, 16);
  }
  std::string name(text);
  name.erase(name.find_last_not_of(' ') + 1);
  name.erase(0, name.find_first_not_of(' '));
  return name.empty() ? "x86" : name;
}
#else
std::string processor_name() {
#if defined(__aarch64__)
  return "AArch64";
#else
  return "this architecture";
#endif
}
#endif

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Bytes of the data or unified cache of each level (1 to 4) as the system tells; 0 where it does not.
using CacheSizes = std::array<int64_t, 5>;
CacheSizes caches_from_sys() {
  CacheSizes sizes{};
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    const std::string type = read_line(folder + "type");
    if (type.empty()) break;
    if (type == "Instruction") continue;
    const std::string level = read_line(folder + "level"), size = read_line(folder + "size");
    if (level.size() != 1 || level[0] < '1' || level[0] > '4') continue;
    int64_t& known = sizes[static_cast<size_t>(level[0] - '0')];
    if (known != 0) continue;
    char* end = nullptr;
    const int64_t value = std::strtoll(size.c_str(), &end, 10);  // "48K", "32768K"
    known = *end == 'K' ? value << 10 : *end == 'M' ? value << 20 : value;
  }
  return sizes;
}

// Virtual machines report 0 and, at times, nonsense: what lies outside of [low, high] is not believed. Where two
// sources disagree the smaller counts: sysconf() adds up the last-level caches of all core complexes.
int64_t cache_size(int64_t told, int name, int64_t low, int64_t high, int64_t otherwise) {
  int64_t least = 0;
  for (const int64_t size : {name >= 0 ? static_cast<int64_t>(sysconf(name)) : 0, told}) {
    if (size >= low && size <= high && (least == 0 || size < least)) least = size;
  }
  return least != 0 ? least : otherwise;
}

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  // More processors than cpu_set_t holds.
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace

std::span<const IsaInfo> all_isas() { return isa_table; }

const IsaInfo& isa_info(CpuIsa isa) {
  const auto i = static_cast<size_t>(isa);
  return isa_table[i < isa_count ? i : 0];
}

const AccumulationModel& accumulation_model(CpuIsa isa, DType operand) {
  const auto model = [](Model m) -> const AccumulationModel& { return model_table[static_cast<size_t>(m)]; };
  if (!is_float(operand)) return model(Model::exact_i32);
  if (isa == CpuIsa::generic) return model(operand == DType::f64 ? Model::mul_add_f64 : Model::mul_add_f32);
  if (operand == DType::f64) return model(Model::fma_f64);
  if (operand == DType::bf16 && isa == CpuIsa::amx) return model(Model::amx_bf16);
  if (operand == DType::bf16 && isa == CpuIsa::avx512_bf16) return model(Model::dot2_bf16);
  return model(Model::fma_f32);
}

CpuFacts read_cpu_facts() {
  CpuFacts facts;
  facts.name = processor_name();
  for (size_t i = 0; i < isa_count; ++i) {
    if (cpu_supports(static_cast<CpuIsa>(i))) facts.isas.push_back(static_cast<CpuIsa>(i));
  }
  facts.best = facts.isas.back();
  facts.cores = available_cores();
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  constexpr int l1 = _SC_LEVEL1_DCACHE_SIZE, l2 = _SC_LEVEL2_CACHE_SIZE, l3 = _SC_LEVEL3_CACHE_SIZE;
#else
  constexpr int l1 = -1, l2 = -1, l3 = -1;
#endif
  const CacheSizes told = caches_from_sys();
  facts.l1d = cache_size(told[1], l1, 4 << 10, 1 << 20, facts.l1d);
  facts.l2 = cache_size(told[2], l2, 64 << 10, 256 << 20, facts.l2);
  facts.l3 = cache_size(told[3], l3, 256 << 10, int64_t{4} << 30, facts.l3);
  return facts;
}

}  // namespace codetta::types

namespace codetta {

std::string_view isa_name(CpuIsa isa) { return types::isa_info(isa).name; }

}  // namespace codetta

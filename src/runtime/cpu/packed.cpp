// SPDX-License-Identifier: Apache-2.0
// Packed weights: header, packing ahead of time, checks.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

#include "runtime/cpu/pack.hpp"
#include "runtime/cpu/units.hpp"

namespace codetta::runtime::cpu {
namespace {

constexpr uint64_t packed_magic = 0x4b435041'54544443;  // "CDTTAPCK"
constexpr uint32_t packed_version = 2;

PackedHeader header_for(const CpuGemmConfig& config, const GemmProblem& p, const Layout& l, int64_t batches) {
  PackedHeader h;
  h.magic = packed_magic;
  h.version = packed_version;
  h.product = static_cast<uint8_t>(l.product);
  h.dtype = static_cast<uint8_t>(config.b_dtype);
  h.family = static_cast<uint8_t>(config.family);
  h.isa = static_cast<uint8_t>(config.isa);
  h.nr = static_cast<int32_t>(l.nr);
  h.ways = static_cast<int32_t>(l.ways);
  h.chunk = l.chunk;
  h.batches = batches;
  h.k = p.k;
  h.n = p.n;
  h.payload_bytes = static_cast<uint64_t>(times(l.packed_bytes, batches));
  return h;
}

int64_t batches_of(const GemmProblem& p) { return p.one_b() ? 1 : p.batch; }

Layout resolve_unpacked(const CpuGemmConfig& config, GemmProblem p) {
  p.packed_b = nullptr;
  return resolve(config, p);
}

}  // namespace

bool GemmProblem::one_b() const {
  bool one = b_batch == 0 && b_skip == 0;
  for (int32_t i = 1; i < products && makers == nullptr; ++i)
    one = one && more_b[i - 1].batch == 0 && more_b[i - 1].skip == 0;
  return one;
}

size_t packed_size(const CpuGemmConfig& config, const GemmProblem& problem) {
  const Layout l = resolve_unpacked(config, problem);
  if (l.form != Form::Panels) return 0;
  return sizeof(PackedHeader) + static_cast<size_t>(times(l.packed_bytes, batches_of(problem)));
}

// Of the header, too: a changed size would otherwise pass for a healthy one.
static uint64_t digest_of(PackedHeader h, const std::byte* payload) {
  h.digest = 0;
  return XXH3_64bits_withSeed(payload, h.payload_bytes, XXH3_64bits(&h, sizeof h));
}

void pack_b(const CpuGemmConfig& config, const GemmProblem& problem, ThreadPool* pool, void* out) {
  const Layout l = resolve_unpacked(config, problem);
  const int64_t per_item = l.panels * l.ways, batches = batches_of(problem);
  std::byte* const payload = static_cast<std::byte*>(out) + sizeof(PackedHeader);
  if (per_item * batches * l.panel_bytes < 65536) pool = nullptr;
  for_units(pool, pool == nullptr ? 1 : pool->size(), per_item * batches, [&](int64_t u, int) {
    const int64_t panel = u % per_item;
    // Padding between the panel and its compensation row is written too: the bytes of a packed B are repeatable.
    std::memset(payload + u * l.panel_bytes + (l.panel_bytes - line), 0, static_cast<size_t>(line));
    pack_panel(l, problem, u / per_item, panel / l.ways, panel % l.ways, payload + u * l.panel_bytes);
  });
  PackedHeader h = header_for(config, problem, l, batches);
  h.digest = digest_of(h, payload);
  std::memcpy(out, &h, sizeof h);
}

bool packed_matches(const void* packed, size_t bytes, const CpuGemmConfig& config, const GemmProblem& problem) {
  if (packed == nullptr || bytes < sizeof(PackedHeader)) return false;
  PackedHeader have;
  std::memcpy(&have, packed, sizeof have);
  const Layout l = resolve_unpacked(config, problem);
  if (l.form != Form::Panels || have.batches != batches_of(problem)) return false;
  PackedHeader want = header_for(config, problem, l, have.batches);
  want.digest = have.digest;
  want.family = have.family;  // the layout decides, not who asked for it
  want.isa = have.isa;
  return have == want && bytes >= sizeof(PackedHeader) + have.payload_bytes;
}

PackedHeader packed_wanted(const CpuGemmConfig& config, const GemmProblem& problem) {
  const Layout l = resolve_unpacked(config, problem);
  return l.form == Form::Panels ? header_for(config, problem, l, batches_of(problem)) : PackedHeader{};
}

bool packed_intact(const void* packed, size_t bytes) {
  if (packed == nullptr || bytes < sizeof(PackedHeader)) return false;
  PackedHeader h;
  std::memcpy(&h, packed, sizeof h);
  if (h.magic != packed_magic || h.version != packed_version || h.payload_bytes != bytes - sizeof(PackedHeader))
    return false;
  return digest_of(h, static_cast<const std::byte*>(packed) + sizeof(PackedHeader)) == h.digest;
}

}  // namespace codetta::runtime::cpu

// SPDX-License-Identifier: Apache-2.0
// Guarded reuse: the newest of the freed allocations that fit, the one whose gap is the least full, and only where the
// peak of the scope stays. One line of positions serves all scopes, so that no scope's estimate is asked about
// another's.
#include "plan/memory_reuse.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "plan/memory_tree.hpp"

namespace codetta::plan {

using Kind = Placement::Kind;
using Storage = MemoryRequest::Storage;

namespace {

class ReusePlanner {
 public:
  ReusePlanner(const MemoryProblem& problem, const Blocks& all, const std::vector<uint32_t>& devices,
               std::vector<std::vector<int64_t>> live, size_t candidates)
      : problem_(problem), all_(all), devices_(devices), live_(std::move(live)), candidates_(candidates) {
    for (const auto& bytes : live_) trees_.emplace_back(bytes);
    reused_.assign(all.blocks.size(), no_buffer);
    donated_.assign(all.blocks.size(), false);
  }

  MemoryPlan run() {
    std::vector<uint32_t> begins(all_.blocks.size()), ends(all_.blocks.size());
    std::iota(begins.begin(), begins.end(), 0U);
    ends = begins;
    const auto by = [&](auto member) {
      return [&, member](uint32_t a, uint32_t b) {
        const Block &x = all_.blocks[a], &y = all_.blocks[b];
        return x.*member != y.*member ? x.*member < y.*member : owner(a).buffer < owner(b).buffer;
      };
    };
    std::sort(begins.begin(), begins.end(), by(&Block::first));
    std::sort(ends.begin(), ends.end(), by(&Block::last));
    size_t over = 0;
    for (const uint32_t b : begins) {
      for (; over < ends.size() && all_.blocks[ends[over]].last < all_.blocks[b].first; ++over) give(ends[over]);
      if (!all_.blocks[b].of_caller && !(all_.blocks[b].bytes == types::Dim::constant(0))) take(b);
    }
    return finish();
  }

 private:
  // Device, stream, dtype, size (a class where symbolic), alignment, scope.
  using Key = std::tuple<uint32_t, uint32_t, uint8_t, bool, int64_t, int64_t, uint32_t>;

  [[nodiscard]] const MemoryRequest& owner(uint32_t block) const {
    return problem_.requests[all_.blocks[block].members[0]];
  }

  Key key_of(uint32_t block) {
    const MemoryRequest& r = owner(block);
    const auto constant = r.bytes.as_constant();
    const int64_t size = constant ? *constant : sizes_.emplace(r.bytes, sizes_.size()).first->second;
    return {r.device, r.stream, static_cast<uint8_t>(r.dtype), !constant, size, r.alignment, r.scope};
  }

  void give(uint32_t block) {
    const MemoryRequest& r = owner(block);
    const bool callers = r.storage == Storage::Input || r.storage == Storage::Output;
    const auto& members = all_.blocks[block].members;
    // What ends in an inner scope is freed there, if that scope runs at all.
    const bool one_scope =
        std::all_of(members.begin(), members.end(), [&](uint32_t m) { return problem_.requests[m].scope == r.scope; });
    if (callers || !one_scope || all_.blocks[block].bytes == types::Dim::constant(0)) return;
    const Key key = key_of(block);
    freed_[key].push_back(block);
    auto& streams = streams_[r.device];
    if (std::find(streams.begin(), streams.end(), r.stream) == streams.end()) streams.push_back(r.stream);
  }

  void take(uint32_t block) {
    Key key = key_of(block);
    if (take_from(key, block)) return;
    const uint32_t own = std::get<1>(key);
    for (const uint32_t stream : streams_[std::get<0>(key)]) {
      std::get<1>(key) = stream;
      if (stream != own && take_from(key, block)) return;
    }
  }

  bool take_from(const Key& key, uint32_t block) {
    const auto list = freed_.find(key);
    if (list == freed_.end()) return false;
    const Block& late = all_.blocks[block];
    const MemoryRequest& r = owner(block);
    const size_t device = device_of(late.device);
    RangeMaxTree& tree = trees_[device];
    const bool unknown = !r.bytes.is_constant() && !r.hint && !r.bytes.upper_bound();
    const int64_t limit = peak_of(device, r.scope);
    std::vector<uint32_t>& freed = list->second;
    size_t best = SIZE_MAX;
    int64_t least = INT64_MAX;
    for (size_t looked = 0; looked < std::min(candidates_, freed.size()); ++looked) {
      const size_t at = freed.size() - 1 - looked;
      const Block& early = all_.blocks[freed[at]];
      if (early.last >= late.first || !comes_after(all_, early, late)) continue;
      const bool adjacent = early.last + 1 == late.first || donated(freed[at]);
      if (unknown && !adjacent) continue;
      const auto full = adjacent ? std::optional<int64_t>(INT64_MIN) : tree.max(early.last + 1, late.first);
      if (!full || (!adjacent && (*full > limit || late.hinted > limit - *full)) || *full >= least) continue;
      best = at;
      least = *full;
      if (adjacent) break;
    }
    if (best == SIZE_MAX) return false;
    const uint32_t early = freed[best];
    freed.erase(freed.begin() + static_cast<std::ptrdiff_t>(best));
    reused_[block] = early;
    if (donated(early)) {
      donated_[block] = true;
      tree.add(late.first, late.last + 1, -late.hinted);  // the caller's bytes
    } else {
      tree.add(all_.blocks[early].last + 1, late.first, late.hinted);
    }
    return true;
  }

  // Whether the block lies in the caller's memory, directly or through others.
  [[nodiscard]] bool donated(uint32_t block) const {
    return owner(block).storage == Storage::Donated || donated_[block];
  }

  [[nodiscard]] size_t device_of(uint32_t device) const {
    return static_cast<size_t>(std::lower_bound(devices_.begin(), devices_.end(), device) - devices_.begin());
  }

  // The peak of a scope without any reuse.
  int64_t peak_of(size_t device, uint32_t scope) {
    const auto known = peaks_.find({device, scope});
    if (known != peaks_.end()) return known->second;
    size_t begin = 0, end = all_.positions;
    if (!problem_.scopes.empty()) {
      begin = problem_.scopes[scope].begin;
      end = problem_.scopes[scope].end;
    }
    int64_t most = 0;
    for (size_t p = begin; p < end; ++p) most = std::max(most, live_[device][p]);
    peaks_.emplace(std::make_pair(device, scope), most);
    return most;
  }

  // The buffer that has the allocation in the end.
  [[nodiscard]] uint32_t last_holder(uint32_t block) const {
    uint32_t holder = no_buffer;
    for (const uint32_t i : all_.blocks[block].members) {
      if (all_.base[i] == i) holder = problem_.requests[i].buffer;
    }
    return holder;
  }

  MemoryPlan finish() {
    MemoryPlan plan;
    plan.placements.resize(problem_.requests.size());
    for (uint32_t b = 0; b < all_.blocks.size(); ++b) {
      for (const uint32_t i : all_.blocks[b].members) {
        Placement& placement = plan.placements[i];
        if (place_in_others(problem_, all_, i, placement)) continue;
        if (all_.blocks[b].of_caller) {
          placement.kind = Kind::Caller;
        } else if (reused_[b] != no_buffer) {
          placement.kind = Kind::Reuse;
          placement.of = last_holder(reused_[b]);
          ++plan.report.reused;
        }
      }
    }
    plan.report.occupied.assign(all_.positions, 0);
    for (size_t d = 0; d < devices_.size(); ++d) {
      int64_t most = 0;
      for (size_t p = 0; p < all_.positions; ++p) {
        const int64_t bytes = trees_[d].max(p, p + 1).value_or(0);
        most = std::max(most, bytes);
        plan.report.occupied[p] += bytes;
      }
      plan.report.peak += most;
    }
    return plan;
  }

  struct BySize {
    bool operator()(const types::Dim& a, const types::Dim& b) const { return types::Dim::order(a, b) < 0; }
  };

  const MemoryProblem& problem_;
  const Blocks& all_;
  const std::vector<uint32_t>& devices_;
  std::vector<std::vector<int64_t>> live_;
  size_t candidates_;
  std::vector<RangeMaxTree> trees_;  // by device
  std::map<types::Dim, int64_t, BySize> sizes_;
  std::map<Key, std::vector<uint32_t>> freed_;
  std::map<uint32_t, std::vector<uint32_t>> streams_;  // by device: those that freed something
  std::map<std::pair<size_t, uint32_t>, int64_t> peaks_;
  std::vector<uint32_t> reused_;  // by block: whose allocation it has
  std::vector<bool> donated_;
};

}  // namespace

Result<MemoryPlan> plan_reuse(const MemoryProblem& problem, const Blocks& all, const std::vector<uint32_t>& devices,
                              std::vector<std::vector<int64_t>> live, size_t candidates) {
  return ReusePlanner(problem, all, devices, std::move(live), candidates).run();
}

}  // namespace codetta::plan

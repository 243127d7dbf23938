// SPDX-License-Identifier: Apache-2.0
#include "driver/tune_search.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace codetta::driver {
namespace {

constexpr size_t at_once = 4;         // of the second step: more would not learn from each other
constexpr double worth_trying = 1.5;  // of the fastest's estimate
constexpr double near_enough = 1.2;   // of the best estimate, for the first one of another schedule

// Null where it cannot be planned any more, which preparing it will say.
const plan::Candidate* candidate_of(const Kernel& kernel) {
  const KernelState& state = KernelState::of(kernel);
  const auto planned = state.found->planned();
  return planned ? &(*planned)->plan.kernels[0].discovery.candidates.at(state.candidate) : nullptr;
}

bool is_vendors(const plan::Candidate* candidate) {
  return candidate != nullptr && package::is_vendor(candidate->config);
}

bool has_variants(const plan::Candidate* candidate) {
  return candidate != nullptr && std::holds_alternative<package::GpuGemmConfig>(candidate->config);
}

}  // namespace

TuneSearch::TuneSearch(KernelList listed, size_t most, std::function<Result<KernelList>()> all)
    : listed_(std::move(listed)),
      most_(most),
      find_all_(std::move(all)),
      gpu_(!listed_.empty() && runs_on_gpu(listed_[0].metadata().target)),
      first_(gpu_ ? std::min(most, std::max<size_t>(2, (most + 1) / 2)) : most) {}

void TuneSearch::measured(const Kernel& kernel, double microseconds) {
  if (fastest_us_ > 0 && microseconds >= fastest_us_) return;
  if (gpu_ && !has_variants(candidate_of(kernel))) return;
  fastest_ = kernel;
  fastest_us_ = microseconds;
}

const plan::Candidate* TuneSearch::centre() const { return fastest_us_ > 0 ? candidate_of(fastest_) : nullptr; }

void TuneSearch::take(const Kernel& kernel, std::vector<Kernel>& to) {
  tried_.insert(kernel.metadata().name);
  to.push_back(kernel);
}

const Kernel* TuneSearch::other_schedule() const {
  // The first that has variants: the vendor's may rank before it.
  const auto first = std::find_if(tiles_.begin(), tiles_.end(), has_variants);
  if (first == tiles_.end()) return nullptr;
  const plan::Candidate* const best = *first;
  for (const plan::Candidate* tile : tiles_)
    if (has_variants(tile) && !plan::same_schedule(best->config, tile->config)) return nullptr;
  const auto other = std::find_if(listed_.begin(), listed_.end(), [&](const Kernel& kernel) {
    const plan::Candidate* const candidate = candidate_of(kernel);
    return has_variants(candidate) && !plan::same_schedule(best->config, candidate->config) &&
           candidate->microseconds <= near_enough * best->microseconds;
  });
  return other == listed_.end() ? nullptr : &*other;
}

void TuneSearch::take_tiles(size_t count, std::vector<Kernel>& to) {
  const bool ends = tried_.size() + count >= first_;
  for (const Kernel& kernel : listed_) {
    if (to.size() == count) return;
    if (ends && to.size() + 1 == count) {
      if (const Kernel* const other = other_schedule()) {
        tiles_.push_back(candidate_of(*other));
        return take(*other, to);
      }
    }
    if (tried_.contains(kernel.metadata().name)) continue;
    if (gpu_) {
      const plan::Candidate* const candidate = candidate_of(kernel);
      const auto same = [&](const plan::Candidate* tile) { return plan::same_tile(tile->config, candidate->config); };
      if (candidate != nullptr && std::any_of(tiles_.begin(), tiles_.end(), same)) continue;
      if (is_vendors(candidate) && vendors_++ >= std::max<size_t>(1, first_ / 4)) continue;
      if (candidate != nullptr) tiles_.push_back(candidate);
    }
    take(kernel, to);
  }
}

Result<void> TuneSearch::take_nearest(size_t count, std::vector<Kernel>& to) {
  if (!all_) {
    CODETTA_TRY(all_, find_all_());
  }
  const plan::Candidate* const from = centre();
  // Of what is equally near and differs in the same respect, the how many-th: one of each is tried before the second of
  // any, since how far its variants are apart is not the same for a raster group and a cluster.
  std::map<std::tuple<bool, int, uint32_t>, int> met;
  using Place = std::tuple<bool, int, int, double, std::string>;
  std::vector<std::pair<Place, const Kernel*>> near;
  for (const Kernel& kernel : *all_) {
    const KernelMetadata& metadata = kernel.metadata();
    const plan::Candidate* const candidate = candidate_of(kernel);
    if (from == nullptr || candidate == nullptr || tried_.contains(metadata.name)) continue;
    const auto steps = plan::steps_between(from->config, candidate->config);
    if (!steps || candidate->microseconds > worth_trying * from->microseconds) continue;
    near.push_back({{metadata.tuned, *steps, 0, candidate->microseconds, metadata.name}, &kernel});
  }
  std::sort(near.begin(), near.end());
  for (auto& [place, kernel] : near) {
    auto& [tuned, steps, turn, estimate, name] = place;
    turn = met[{tuned, steps, plan::respects_between(from->config, candidate_of(*kernel)->config)}]++;
  }
  std::sort(near.begin(), near.end());
  for (const auto& [place, kernel] : near) {
    if (to.size() < count) take(*kernel, to);
  }
  return {};
}

Result<std::vector<Kernel>> TuneSearch::next(size_t count) {
  std::vector<Kernel> result;
  const size_t given = tried_.size();
  if (given < first_) take_tiles(std::min(count, first_ - given), result);
  if (!result.empty() || given >= most_) return result;
  first_ = 0;
  count = std::min({count, most_ - given, gpu_ ? at_once : count});
  if (gpu_) CODETTA_CHECK_OK(take_nearest(count, result));
  for (const Kernel& kernel : listed_) {
    if (result.size() < count && !tried_.contains(kernel.metadata().name)) take(kernel, result);
  }
  return result;
}

}  // namespace codetta::driver

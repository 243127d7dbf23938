// SPDX-License-Identifier: Apache-2.0
// Stacking in max-plus form: an offset is the largest of a few sums, and a sum is a constant and how often each
// symbolic size is in it. Sums that another one is proven to reach are dropped, so that most offsets are one sum.
#include "plan/memory_symbolic.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "plan/memory_blocks.hpp"

namespace codetta::plan {

using types::Dim;

namespace {

struct Sum {
  int64_t constant = 0;
  std::vector<std::pair<uint32_t, int64_t>> counts;  // of size classes, ascending
  int64_t hinted = 0;
  bool operator==(const Sum& o) const { return constant == o.constant && counts == o.counts; }
  bool operator<(const Sum& o) const { return std::tie(constant, counts) < std::tie(o.constant, o.counts); }
};
using Top = std::vector<Sum>;  // the largest of them; never empty, sorted

// Buffers of one symbolic size. Rounded up to the alignment it is an opaque expression, so bounds that are plain
// polynomials are kept for proofs; all are 0 where the size is.
struct SizeClass {
  Dim rounded;
  Dim low;   // the size itself
  Dim high;  // x <= rounded_up(x, a) <= (a / g) * x for multiples x of g, where g divides a
  int64_t hinted = 0;

  static SizeClass make(const Dim& bytes, int64_t alignment, int64_t hinted) {
    int64_t divisor = alignment;
    while (divisor > 1 && !exact_quotient(bytes, Dim::constant(divisor))) divisor /= 2;
    return {rounded_up(bytes, alignment), bytes, bytes * Dim::constant(alignment / divisor), hinted};
  }
};

class Stack {
 public:
  // More sums than `most` in one offset are replaced by upper bounds of several.
  Stack(const std::vector<Dim>& sizes, const std::vector<SearchItem>& items, int64_t alignment, size_t most)
      : items_(items), most_(most) {
    std::map<Dim, uint32_t, bool (*)(const Dim&, const Dim&)> classes(
        [](const Dim& a, const Dim& b) { return Dim::order(a, b) < 0; });
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i].is_constant()) {
        class_of_.push_back(UINT32_MAX);
        continue;
      }
      const auto [at, added] = classes.emplace(sizes[i], static_cast<uint32_t>(classes_.size()));
      if (added) classes_.push_back(SizeClass::make(sizes[i], alignment, items[i].bytes));
      class_of_.push_back(at->second);
    }
    tops_.push_back({Sum{}});
    ids_.emplace(tops_[0], 0U);
  }

  SymbolicOffsets run(const std::vector<uint32_t>& order, const Conflicts* conflicts) {
    SymbolicOffsets result;
    result.terms.resize(items_.size());
    result.at.resize(items_.size());
    result.hinted.resize(items_.size());
    std::vector<uint32_t> top_of(items_.size(), 0);
    std::vector<bool> placed(items_.size(), false);
    std::map<size_t, uint32_t> skyline{{0, 0}};  // from this position on, the top so far
    std::vector<uint32_t> below, all;
    for (const uint32_t i : order) {
      below.clear();
      if (conflicts != nullptr) {
        for (const uint32_t other : conflicts->of(i)) {
          if (placed[other]) below.push_back(top_of[other]);
        }
      } else {
        for (auto at = std::prev(skyline.upper_bound(items_[i].first));
             at != skyline.end() && at->first <= items_[i].last; ++at)
          below.push_back(at->second);
      }
      const uint32_t under = join(below);
      const uint32_t top = above(under, i);
      const Dims& dims = dims_of(under);
      result.terms[i] = dims.terms;
      result.at[i] = dims.largest;
      result.hinted[i] = hinted(tops_[under]);
      top_of[i] = top;
      placed[i] = true;
      all.push_back(top);
      if (conflicts == nullptr) cover(skyline, items_[i].first, items_[i].last, top);
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    const uint32_t end = join(all);
    result.bytes = dims_of(end).largest;
    result.hinted_bytes = hinted(tops_[end]);
    return result;
  }

 private:
  struct Dims {
    std::vector<Dim> terms;
    Dim largest;
  };

  static int64_t hinted(const Top& top) {
    int64_t most = 0;
    for (const Sum& sum : top) most = std::max(most, sum.hinted);
    return most;
  }

  static void cover(std::map<size_t, uint32_t>& skyline, size_t first, size_t last, uint32_t top) {
    const auto after = skyline.upper_bound(last);
    const uint32_t behind = std::prev(after)->second;
    const bool ends_there = after != skyline.end() && after->first == last + 1;
    skyline.erase(skyline.lower_bound(first), after);
    skyline.emplace(first, top);
    if (!ends_there) skyline.emplace(last + 1, behind);
  }

  uint32_t id_of(Top top) {
    const auto known = ids_.find(top);
    if (known != ids_.end()) return known->second;
    const auto id = static_cast<uint32_t>(tops_.size());
    ids_.emplace(top, id);
    tops_.push_back(std::move(top));
    return id;
  }

  uint32_t above(uint32_t under, uint32_t item) {
    const auto key =
        std::make_pair(under, class_of_[item] == UINT32_MAX ? -1 - items_[item].bytes : int64_t{class_of_[item]});
    const auto known = above_.find(key);
    if (known != above_.end()) return known->second;
    Top top = tops_[under];
    for (Sum& sum : top) add(sum, item);
    std::sort(top.begin(), top.end());
    const uint32_t id = id_of(std::move(top));
    above_.emplace(key, id);
    return id;
  }

  void add(Sum& sum, uint32_t item) const {
    if (class_of_[item] == UINT32_MAX) {
      sum.hinted += items_[item].bytes;
      sum.constant += items_[item].bytes;
      return;
    }
    sum.hinted += classes_[class_of_[item]].hinted;
    const auto at = std::lower_bound(sum.counts.begin(), sum.counts.end(), std::make_pair(class_of_[item], int64_t{0}));
    if (at != sum.counts.end() && at->first == class_of_[item]) {
      ++at->second;
    } else {
      sum.counts.insert(at, {class_of_[item], 1});
    }
  }

  // The largest of several tops.
  uint32_t join(std::vector<uint32_t>& tops) {
    std::sort(tops.begin(), tops.end());
    tops.erase(std::unique(tops.begin(), tops.end()), tops.end());
    if (tops.empty()) return 0;
    uint32_t all = tops[0];
    for (size_t i = 1; i < tops.size(); ++i) {
      const auto key = std::minmax(all, tops[i]);
      const auto known = joined_.find(key);
      if (known != joined_.end()) {
        all = known->second;
        continue;
      }
      Top top = tops_[all];
      top.insert(top.end(), tops_[tops[i]].begin(), tops_[tops[i]].end());
      const uint32_t id = id_of(reduced(std::move(top)));
      joined_.emplace(key, id);
      all = id;
    }
    return all;
  }

  Top reduced(Top top) {
    prune(top);
    while (top.size() > most_) {
      std::sort(top.begin(), top.end(),
                [](const Sum& a, const Sum& b) { return a.hinted != b.hinted ? a.hinted < b.hinted : a < b; });
      top[1] = bound_of(top[0], top[1]);  // the two that matter least with the hints
      top.erase(top.begin());
      prune(top);
    }
    std::sort(top.begin(), top.end());
    return top;
  }

  void prune(Top& top) {
    Top kept;
    for (const Sum& sum : top) {
      if (std::any_of(kept.begin(), kept.end(), [&](const Sum& k) { return at_most(sum, k); })) continue;
      std::erase_if(kept, [&](const Sum& k) { return at_most(k, sum); });
      kept.push_back(sum);
    }
    top = std::move(kept);
  }

  // Each size as often as in either: reached by neither, and still no more than every buffer on its own.
  [[nodiscard]] Sum bound_of(const Sum& a, const Sum& b) const {
    Sum result;
    result.constant = std::max(a.constant, b.constant);
    auto x = a.counts.begin(), y = b.counts.begin();
    while (x != a.counts.end() || y != b.counts.end()) {
      if (y == b.counts.end() || (x != a.counts.end() && x->first < y->first)) {
        result.counts.push_back(*x++);
      } else if (x == a.counts.end() || y->first < x->first) {
        result.counts.push_back(*y++);
      } else {
        result.counts.emplace_back(x->first, std::max(x->second, y->second));
        ++x, ++y;
      }
    }
    result.hinted = result.constant;
    for (const auto& [size, count] : result.counts) result.hinted += count * classes_[size].hinted;
    return result;
  }

  // a <= b for all symbols, as far as it can be told. What both have in common is left out first.
  bool at_most(const Sum& a, const Sum& b) {
    if (a.hinted > b.hinted) return false;
    Sum x, y;
    x.constant = std::max<int64_t>(a.constant - b.constant, 0);
    y.constant = std::max<int64_t>(b.constant - a.constant, 0);
    auto p = a.counts.begin(), q = b.counts.begin();
    while (p != a.counts.end() || q != b.counts.end()) {
      if (q == b.counts.end() || (p != a.counts.end() && p->first < q->first)) {
        x.counts.push_back(*p++);
      } else if (p == a.counts.end() || q->first < p->first) {
        y.counts.push_back(*q++);
      } else {
        if (p->second > q->second) x.counts.emplace_back(p->first, p->second - q->second);
        if (q->second > p->second) y.counts.emplace_back(q->first, q->second - p->second);
        ++p, ++q;
      }
    }
    if (x.constant == 0 && x.counts.empty()) return true;
    if (y.counts.empty()) return false;  // nothing symbolic is below a constant, and 0 is above no constant but 0
    auto key = std::make_pair(x, y);
    const auto known = proven_.find(key);
    if (known != proven_.end()) return known->second;
    const bool proven = proves(x, y);
    proven_.emplace(std::move(key), proven);
    return proven;
  }

  [[nodiscard]] bool proves(Sum x, Sum y) const {
    if (proven_at_most(dim_of(x, &SizeClass::high), dim_of(y, &SizeClass::low)) ||
        proven_at_most(dim_of(x, &SizeClass::rounded), dim_of(y, &SizeClass::rounded)))
      return true;
    // Rounding up keeps the order of sizes, so each size may be paired with one that is never below it.
    for (auto& [small, count] : x.counts) {
      for (auto& [large, room] : y.counts) {
        const int64_t paired = std::min(count, room);
        if (paired == 0 || !proven_at_most(classes_[small].low, classes_[large].low)) continue;
        count -= paired;
        room -= paired;
      }
    }
    const auto used_up = [](const auto& entry) { return entry.second == 0; };
    std::erase_if(x.counts, used_up);
    std::erase_if(y.counts, used_up);
    if (x.constant == 0 && x.counts.empty()) return true;
    return proven_at_most(dim_of(x, &SizeClass::high), dim_of(y, &SizeClass::low));
  }

  [[nodiscard]] Dim dim_of(const Sum& sum, Dim SizeClass::*form) const {
    Dim result = Dim::constant(sum.constant);
    for (const auto& [size, count] : sum.counts) result = result + classes_[size].*form * Dim::constant(count);
    return result;
  }

  const Dims& dims_of(uint32_t id) {
    const auto known = dims_.find(id);
    if (known != dims_.end()) return known->second;
    Dims dims;
    for (const Sum& sum : tops_[id]) {
      dims.terms.push_back(dim_of(sum, &SizeClass::rounded));
      dims.largest = dims.terms.size() == 1 ? dims.terms[0] : max(dims.largest, dims.terms.back());
    }
    return dims_.emplace(id, std::move(dims)).first->second;
  }

  const std::vector<SearchItem>& items_;
  size_t most_;
  std::vector<uint32_t> class_of_;  // by item: symbolic sizes that are equal; UINT32_MAX: constant
  std::vector<SizeClass> classes_;
  std::vector<Top> tops_;  // each once; the first is 0
  std::map<Top, uint32_t> ids_;
  std::map<std::pair<uint32_t, int64_t>, uint32_t> above_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> joined_;
  std::map<std::pair<Sum, Sum>, bool> proven_;
  std::map<uint32_t, Dims> dims_;
};

}  // namespace

SymbolicOffsets stack_in_order(const std::vector<Dim>& sizes, const std::vector<SearchItem>& items, int64_t alignment,
                               const std::vector<uint32_t>& order, const Conflicts* conflicts) {
  // Expressions have a largest size; one sum for each offset is the least that can be said.
  SymbolicOffsets result;
  for (const size_t most : {size_t{12}, size_t{4}, size_t{1}}) {
    result = Stack(sizes, items, alignment, most).run(order, conflicts);
    const auto faulty = [](const Dim& dim) { return dim.fault() == types::DimFault::too_large; };
    if (!faulty(result.bytes) && std::none_of(result.at.begin(), result.at.end(), faulty)) break;
  }
  return result;
}

}  // namespace codetta::plan

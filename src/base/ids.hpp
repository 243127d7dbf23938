// SPDX-License-Identifier: Apache-2.0
// Strong 32-bit ids and the flat stores that they index.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace codetta::base {

// An index that can't be mixed up with another kind of index: `struct NodeTag; using NodeId = base::Id<NodeTag>;`.
// The default is invalid and orders behind every valid id.
template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  template <std::integral T>
  explicit constexpr Id(T index) : index_(static_cast<uint32_t>(index)) {}

  [[nodiscard]] constexpr bool valid() const { return index_ != invalid_index; }
  [[nodiscard]] constexpr uint32_t index() const { return index_; }
  constexpr auto operator<=>(const Id&) const = default;

 private:
  static constexpr uint32_t invalid_index = UINT32_MAX;
  uint32_t index_ = invalid_index;
};

// A vector indexed by its own kind of id; push_back() hands out ids in order.
template <class IdT, class T>
class IdVector {
 public:
  IdVector() = default;
  explicit IdVector(size_t size, const T& value = T()) : values_(size, value) {}

  IdT push_back(T value) {
    values_.push_back(std::move(value));
    return IdT(values_.size() - 1);
  }
  decltype(auto) operator[](IdT id) { return values_[id.index()]; }
  decltype(auto) operator[](IdT id) const { return values_[id.index()]; }
  [[nodiscard]] bool contains(IdT id) const { return id.index() < values_.size(); }
  [[nodiscard]] size_t size() const { return values_.size(); }
  [[nodiscard]] bool empty() const { return values_.empty(); }
  void resize(size_t size, const T& value = T()) { values_.resize(size, value); }
  void reserve(size_t size) { values_.reserve(size); }
  void clear() { values_.clear(); }
  [[nodiscard]] const std::vector<T>& values() const { return values_; }
  auto begin() { return values_.begin(); }
  auto end() { return values_.end(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  bool operator==(const IdVector&) const = default;

 private:
  std::vector<T> values_;
};

// Equal values get the same id, in order of first sight (so ids don't depend on hashes). Copyable. intern() may move
// the stored values: keep ids, not references.
template <class IdT, class T, class Hash = std::hash<T>, class Equal = std::equal_to<T>>
class Interner {
 public:
  IdT intern(T value) {
    const size_t hash = Hash{}(value);
    if (const auto found = find_hashed(hash, value)) return *found;
    const IdT id = values_.push_back(std::move(value));
    by_hash_.emplace(hash, id);
    return id;
  }
  [[nodiscard]] std::optional<IdT> find(const T& value) const { return find_hashed(Hash{}(value), value); }
  const T& operator[](IdT id) const { return values_[id]; }
  [[nodiscard]] bool contains(IdT id) const { return values_.contains(id); }
  [[nodiscard]] size_t size() const { return values_.size(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

 private:
  [[nodiscard]] std::optional<IdT> find_hashed(size_t hash, const T& value) const {
    const auto [first, last] = by_hash_.equal_range(hash);
    for (auto at = first; at != last; ++at) {
      if (Equal{}(values_[at->second], value)) return at->second;
    }
    return std::nullopt;
  }

  IdVector<IdT, T> values_;
  std::unordered_multimap<size_t, IdT> by_hash_;
};

}  // namespace codetta::base

template <class Tag>
struct std::hash<codetta::base::Id<Tag>> {
  size_t operator()(codetta::base::Id<Tag> id) const noexcept { return std::hash<uint32_t>{}(id.index()); }
};

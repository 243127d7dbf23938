// SPDX-License-Identifier: Apache-2.0
// Equivalence of untyped functions, by numbering their values structurally.
#include "ir/function.hpp"

#include "ir/hashing.hpp"

namespace codetta::ir {
namespace {

// Equal numbers mean equal values: same op, attribute and operand numbers. One numbering serves both functions.
class Numbering {
 public:
  std::vector<uint32_t> number(const Function& function) {
    std::vector<uint32_t> numbers;
    numbers.reserve(function.values.size());
    for (const Value& value : function.values) {
      Key key{value.op, without_accumulator(value.op, value.attr), {}};
      for (const ValueId operand : value.operands) key.operands.push_back(numbers[operand.index()]);
      for (const ValueId size : value.sizes) key.operands.push_back(numbers[size.index()]);
      numbers.push_back(intern(std::move(key)));
    }
    return numbers;
  }

 private:
  struct Key {
    Op op;
    Attr attr;
    std::vector<uint32_t> operands;
    bool operator==(const Key&) const = default;
  };
  // matmul's accumulator is chosen at binding, so it is no part of the function.
  static Attr without_accumulator(Op op, const Attr& attr) { return op == Op::matmul ? Attr(MatmulAttr{}) : attr; }
  uint32_t intern(Key key) {
    uint64_t hash = mix(static_cast<uint64_t>(key.op), hash_of(key.attr));
    for (const uint32_t operand : key.operands) hash = mix(hash, operand);
    const uint32_t fresh = static_cast<uint32_t>(keys_.size());
    const uint32_t found = index_.find_or_insert(hash, fresh, [&](uint32_t i) { return keys_[i] == key; });
    if (found == fresh) keys_.push_back(std::move(key));
    return found;
  }
  std::vector<Key> keys_;
  HashIndex index_;
};

bool same_parameter(const Parameter& a, const Parameter& b) {
  if (a.name != b.name || a.type.has_value() != b.type.has_value()) return false;
  return !a.type || (a.type->dtype == b.type->dtype && a.type->shape == b.type->shape &&
                     a.type->is_scalar == b.type->is_scalar && a.type->donated == b.type->donated);
}

}  // namespace

diag::SourceRef with_sites(const Function& printed, const Function& made) {
  std::vector<diag::SourceText::Origin> origins;
  const auto add = [&](diag::Span span, const CallSite& site) {
    if (span.known() && site.known()) origins.push_back({span, diag::location_of(site)});
  };
  for (size_t i = 0; i < printed.parameters.size() && i < made.parameters.size(); ++i)
    add(printed.parameters[i].span, made.parameters[i].site);
  for (size_t i = 0; i < printed.outputs.size() && i < made.outputs.size(); ++i)
    add(printed.outputs[i].span, made.outputs[i].site);
  // Values are matched by what they compute: the text holds the literals elsewhere, and parts of a split together.
  Numbering numbering;
  const std::vector<uint32_t> in_made = numbering.number(made), in_printed = numbering.number(printed);
  std::vector<const CallSite*> sites;
  for (size_t i = 0; i < in_made.size(); ++i) {
    if (sites.size() <= in_made[i]) sites.resize(in_made[i] + size_t{1}, nullptr);
    if (sites[in_made[i]] == nullptr) sites[in_made[i]] = &made.values[i].site;
  }
  for (size_t i = printed.parameters.size(); i < in_printed.size(); ++i) {
    if (in_printed[i] < sites.size() && sites[in_printed[i]] != nullptr)
      add(printed.values[i].span, *sites[in_printed[i]]);
  }
  const diag::SourceText& text = *printed.source;
  return std::make_shared<const diag::SourceText>(text.name(), std::string(text.text()), std::move(origins));
}

bool equivalent(const Function& a, const Function& b) { return a.name == b.name && same_body(a, b); }

bool same_body(const Function& a, const Function& b) {
  if (a.parameters.size() != b.parameters.size() || a.outputs.size() != b.outputs.size()) return false;
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    if (!same_parameter(a.parameters[i], b.parameters[i])) return false;
  }
  Numbering numbering;
  const std::vector<uint32_t> in_a = numbering.number(a), in_b = numbering.number(b);
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    const Output &x = a.outputs[i], &y = b.outputs[i];
    if (x.name != y.name || in_a[x.value.index()] != in_b[y.value.index()]) return false;
  }
  return true;
}

}  // namespace codetta::ir

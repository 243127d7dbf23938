// SPDX-License-Identifier: Apache-2.0
// Outputs of a walk, what they are bound to, and the text.
#include "differential/random_epilogue_text.hpp"

#include <algorithm>
#include <array>

#include "differential/random_walk.hpp"

namespace codetta::test {
namespace {

class Drawing {
 public:
  explicit Drawing(uint64_t seed) : walk_(seed), random_(seed ^ 0xA0761D6478BD642Fu) {}

  EpilogueSpec run() {
    walk_.run();
    outputs();
    print_epilogue(walk_.values(), outputs_, names_, random_, walk_.spec());
    return std::move(walk_.spec());
  }

  // Where nothing is moved, every operand must broadcast to the accumulator.
  [[nodiscard]] static bool binds(const EpilogueSpec& spec, const Shape& accumulator, bool moves) {
    return moves || std::all_of(spec.parameters.begin(), spec.parameters.end(), [&](const ParameterSpec& p) {
             Shape shape;
             return p.is_number || (broadcast(p.shape, accumulator, shape) && shape == accumulator);
           });
  }
  [[nodiscard]] const Walk& walk() const { return walk_; }
  // Whether what the outputs need moves anything.
  [[nodiscard]] bool moves() const {
    std::vector<bool> live(walk_.values().size());
    for (const size_t id : outputs_) live[id] = true;
    for (size_t id = live.size(); id-- > 0;) {
      if (!live[id]) continue;
      if (walk_.values()[id].is_layout) return true;
      for (const size_t use : walk_.values()[id].uses) live[use] = true;
    }
    return false;
  }

 private:
  size_t pick(size_t below) { return static_cast<size_t>(random_() % below); }
  bool one_in(size_t n) { return pick(n) == 0; }

  void outputs() {
    const std::vector<Value>& values = walk_.values();
    EpilogueSpec& spec = walk_.spec();
    std::vector<size_t>& ids = outputs_;
    const size_t wanted = 1 + (one_in(2) ? pick(4) : 0);
    for (size_t id = values.size(); id-- > 0 && ids.size() < wanted;) {
      const Value& value = values[id];
      if (value.operand >= 0 || !value.of_accum || (id == 0 && !ids.empty() && !one_in(4))) continue;
      if (ids.empty() || id == 0 || one_in(3)) ids.push_back(id);
    }
    if (ids.empty()) ids.push_back(0);
    if (one_in(3)) std::reverse(ids.begin(), ids.end());
    const size_t d = one_in(5) ? ids.size() : pick(ids.size());
    names_.resize(values.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      OutputSpec output;
      output.name = ids[i] == 0 ? "accum" : i == d ? "D" : "v" + std::to_string(ids[i]);
      names_[ids[i]] = output.name;
      output.dtype = static_cast<DType>(pick(dtype_count));
      if (one_in(2)) output.dtype = std::array<DType, 3>{DType::f32, DType::bf16, spec.a}[pick(3)];
      output.shape = values[ids[i]].shape;
      // Leading dims of size 1 may be left out.
      while (!output.shape.empty() && output.shape.front() == 1 && one_in(2)) output.shape.erase(output.shape.begin());
      spec.outputs.push_back(output);
    }
    if (one_in(5)) in_place();
  }

  // An output overwrites an operand of its shape.
  void in_place() {
    EpilogueSpec& spec = walk_.spec();
    OutputSpec& output = spec.outputs[pick(spec.outputs.size())];
    for (ParameterSpec& parameter : spec.parameters) {
      if (parameter.is_number || parameter.shape != output.shape || one_in(4)) continue;
      output.same_as = parameter.name;
      output.dtype = parameter.dtype;
      return;
    }
  }

  Walk walk_;
  std::mt19937_64 random_;
  std::vector<size_t> outputs_;
  std::vector<std::string> names_;
};

}  // namespace

EpilogueSpec random_epilogue_text(uint64_t seed) {
  for (;; seed += 0x9E3779B97F4A7C15u) {
    Drawing drawing(seed);
    EpilogueSpec spec = drawing.run();
    if (Drawing::binds(spec, drawing.walk().values()[0].shape, drawing.moves())) return spec;
  }
}

}  // namespace codetta::test

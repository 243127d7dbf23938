// SPDX-License-Identifier: Apache-2.0
// A random walk over the language: each step makes values of earlier ones. Which of them are needed is settled
// afterwards, by the outputs.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "differential/random_epilogue_text.hpp"

namespace codetta::test {

using Shape = std::vector<int64_t>;
enum class Kind : uint8_t { Bool, Int, Float };

struct Value {
  std::string expression;  // "\x01" id "\x02" stands for a value; empty: an operand, accum, or a later part of a split
  std::vector<size_t> uses;
  Shape shape;
  Kind kind = Kind::Float;
  bool of_accum = false;
  bool is_layout = false;
  int operand = -1;
  size_t parts_of = 0;  // of the parts of a split: the first part
};

class Walk {
 public:
  explicit Walk(uint64_t seed) : random_(seed) {}
  // Value 0 is accum.
  void run();
  [[nodiscard]] const std::vector<Value>& values() const { return values_; }
  [[nodiscard]] EpilogueSpec& spec() { return spec_; }

 private:
  size_t pick(size_t below) { return static_cast<size_t>(random_() % below); }
  bool one_in(size_t n) { return pick(n) == 0; }
  template <size_t n>
  std::string word(const std::array<const char*, n>& words) {
    return words[pick(n)];
  }
  static std::string ref(size_t id) { return '\x01' + std::to_string(id) + '\x02'; }

  void factors();
  void step();  // random_walk.cpp: element-wise
  void arithmetic();
  void function();
  void optional_arguments();
  void comparison();
  void logic();
  void bounds();
  void division();
  void rare();
  void choose(size_t test);

  void reduction();  // random_forms.cpp
  void normalization();
  void layout();
  void reshape();
  void pair_form();
  void rotary();

  size_t some();  // mostly what was made lately
  size_t some_of(Kind kind, size_t otherwise);
  size_t number();              // a value that is no bool; accum at the worst
  size_t operand(size_t like);  // a new one that broadcasts against `like`, or a host number
  size_t operand(DType dtype, const Shape& shape);
  size_t other(size_t like) { return one_in(2) ? operand(like) : some(); }
  std::string literal(bool real);
  std::string literal_for(Kind kind);
  size_t add(std::string expression, std::vector<size_t> uses, Kind kind);
  size_t add_shaped(std::string expression, size_t use, Kind kind, Shape shape);
  size_t add_layout(std::string expression, size_t use, Shape shape);
  // The first of `ways` parts; the others follow it.
  size_t split(size_t x, int64_t ways);
  size_t reshaped(size_t x, const Shape& shape);

  std::mt19937_64 random_;
  EpilogueSpec spec_;
  bool layout_ = false;
  int splits_ = 0;  // kernels cut columns in one way; others are refused
  std::vector<Value> values_;
};

inline Kind joined(Kind x, Kind y) { return x == Kind::Float || y == Kind::Float ? Kind::Float : Kind::Int; }
// False when the shapes do not broadcast.
bool broadcast(const Shape& x, const Shape& y, Shape& out);

// The text of what `outputs` need; names holds those of the outputs. Parameters of the spec that nothing needs are
// dropped. Drawn at random: expressions inside others, helper functions, one line, comments.
void print_epilogue(const std::vector<Value>& values, const std::vector<size_t>& outputs,
                    std::vector<std::string> names, std::mt19937_64& random, EpilogueSpec& spec);

}  // namespace codetta::test

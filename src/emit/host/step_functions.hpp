// SPDX-License-Identifier: Apache-2.0
// The steps of a large program as several functions, each for a file of its own: compilers take more than twice as long
// for a function of twice the length, and files are compiled side by side. A function ends where its text has reached a
// bound, between two steps of the main list, or of a long list of a branch or a loop, which then has functions of its
// own. What steps of several functions use, all take as one struct `s`. Private to the room.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/code_writer.hpp"
#include "emit/host/steps.hpp"
#include "package/package.hpp"

namespace codetta::emit::host {

// What a function's steps may weigh: what runs kernels or functions weighs 4, all else 1, some 300 bytes of text. A
// program of no more is one function: two files of half the bound take longer to compile than one, since each reads the
// headers.
inline constexpr size_t most_step_weight = 160;
// Of all steps.
size_t weight_of(const package::Package& package);

// "steps_3".
std::string step_function(size_t index);

class StepFunctions {
 public:
  // In sections of `out` that have the functions' names. `head`: lines that each begins with.
  StepFunctions(base::CodeWriter& out, const package::Package& package, std::string frame_type,
                std::vector<std::string> head)
      : out_(out), package_(package), frame_type_(std::move(frame_type)), head_(std::move(head)) {}

  // "steps_3(frame, s)": the call of the function that begins next.
  [[nodiscard]] std::string next_call() const { return step_function(begun_ + 1) + "(frame, s)"; }
  // Begins a function, of a list; `parts` that are open in front of it stay open behind it.
  void begin(const package::StepList& list, size_t parts);
  void end();
  // Whether a step of the list belongs into another function than the one in front of it.
  [[nodiscard]] bool is_full(const package::StepList& list, size_t step) const;
  void add(const package::StepList& list, size_t step);
  // The same of what is printed of a launch in front of the step: whether it belongs into another function.
  [[nodiscard]] bool add_look();
  // Whether a list of a branch or a loop has functions of its own.
  [[nodiscard]] bool is_apart(const package::StepList& list) const;
  [[nodiscard]] size_t parts() const { return open_.back().parts; }
  [[nodiscard]] size_t count() const { return begun_; }
  [[nodiscard]] const std::string& frame_type() const { return frame_type_; }

 private:
  struct Open {
    base::CodeWriter::Section section;
    base::CodeWriter::Block block;  // ends in its section, in front of which it is destroyed
    const package::StepList* list;
    size_t parts;
    size_t weight;  // so far
  };
  [[nodiscard]] size_t weight(const package::Step& step) const;

  base::CodeWriter& out_;
  const package::Package& package_;
  std::string frame_type_;
  std::vector<std::string> head_;
  std::vector<Open> open_;
  size_t begun_ = 0;
};

// "struct Shared {...};": sizes (by symbol, "s.n0"), places of pools, results of functions, frames of parts.
void print_shared_steps(base::CodeWriter& out, const Program& program, const std::map<std::string, std::string>& sizes,
                        size_t parts, const std::string& frame_type);

// Several texts by one writer, each in a section of its own that begins with its name: all of them, in their order.
// What stands in front of the first name is the first text, without a name.
void begin_text(base::CodeWriter& out, const std::string& name);
std::vector<File> texts_of(const base::CodeWriter& out);
// What StepPrinter::print_divided() has written: the first function, the others, and "shared".
DividedSteps steps_in(const base::CodeWriter& out, std::string frame_type);

}  // namespace codetta::emit::host

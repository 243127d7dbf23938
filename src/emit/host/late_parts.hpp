// SPDX-License-Identifier: Apache-2.0
// What is behind a size that a call computes: a function that is measured and run when the size is known, and so on.
// Sizes that are read one behind the other are known to the same one.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/code_writer.hpp"
#include "package/package.hpp"

namespace codetta::emit::host {

class LateParts {
 public:
  // `frame_type`: of GPUs, "GpuFrame" or "DevicesFrame"; on a CPU "Frame". `divided`: the steps are several functions
  // (step_functions.hpp), which find earlier frames in what they share.
  LateParts(base::CodeWriter& out, const package::Package& package, std::string frame_type, bool divided = false);

  // Whether a size is read behind another one without work between them: it is known to the same function.
  [[nodiscard]] bool joins_last() { return std::exchange(at_once_, true); }
  void worked() { at_once_ = false; }
  // Whether this step of the main list is or has the first of these sizes. What is behind it is too late to find that a
  // kernel does not take tensors or sizes: another program could not take over when part of the work is done. So all is
  // looked at in front of it.
  [[nodiscard]] bool comes_first(const package::Step& step);
  // There, that tensors of the caller's lie as products take them; `print_fits` says that one has its declared dims.
  void look_at_factors(const std::function<void(uint32_t)>& print_fits);
  // In front of reading a size. `inside`: in a list of a branch or a loop, where the function ends with the list.
  // `fitted`: what has been checked by then.
  void wait(bool inside, const std::set<uint32_t>& fitted);
  // Behind it.
  void open();
  // The end of a list of a branch or a loop that began with so many of its own: runs those since, and gives back what
  // had been checked in front of them. All run that stand in the main list.
  [[nodiscard]] size_t depth() const { return inside_.size(); }
  void close(size_t outer, std::set<uint32_t>& fitted);
  void close_all();
  // The end of one of several functions of the main list, or of a list of its own that began with so many: the next one
  // goes on in what is open.
  void end_function(size_t outer);
  [[nodiscard]] size_t count() const { return parts_.size(); }
  // That have ever been open at once: those of a branch or a loop end with it.
  [[nodiscard]] size_t most() const { return most_; }
  [[nodiscard]] bool open_parts() const { return !parts_.empty(); }

  // Pools of packages with such sizes are placed one by one, each in the memory of the part that uses it first:
  // `place` is called for those that a step and its lists use, and whose bytes are known.
  void place_used(const package::Step& step, const std::function<void(uint32_t)>& place);
  // "frame", or the name of an earlier one; where there are several devices, its part of that of the pool.
  [[nodiscard]] std::string frame_of(uint32_t pool) const;
  void define(const std::string& symbol) { known_.insert(symbol); }

 private:
  [[nodiscard]] bool several() const { return frame_type_ == "DevicesFrame"; }
  [[nodiscard]] bool has_bytes(const package::Pool& pool) const;
  [[nodiscard]] std::string run_text(size_t part) const;
  void look_at_factors(const package::LaunchKernel& launch, const std::function<void(uint32_t)>& print_fits);

  base::CodeWriter& out_;
  const package::Package& package_;
  std::string frame_type_;
  bool divided_;
  bool at_once_ = false;  // nothing has run since the last of these sizes
  // The functions; none where the text goes on in another function than the one that it is of.
  std::vector<std::optional<base::CodeWriter::Block>> parts_;
  size_t most_ = 0;
  struct Inside {  // of a list of a branch or a loop
    base::CodeWriter::Block running;
    std::set<uint32_t> fitted;
  };
  std::vector<Inside> inside_;
  std::map<uint32_t, size_t> part_of_pool_;
  std::set<std::string> inner_, known_;  // symbols: that branches and loops define; with a value by now
  std::set<std::string> late_;           // that the main list computes
  std::set<std::string> looked_;         // texts of what has been looked at ahead
  bool is_ahead_ = true;                 // of the first of these sizes
};

}  // namespace codetta::emit::host

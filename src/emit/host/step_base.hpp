// SPDX-License-Identifier: Apache-2.0
// What printers of steps as C++ have in common, whatever the library is for: sizes as numbers of the text, guards of
// sizes and places, and memory under names.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/code_writer.hpp"
#include "emit/host/text.hpp"
#include "package/look_ahead.hpp"
#include "package/package.hpp"

namespace codetta::emit::host {

class StepBase {
 public:
  // What this backend lacks; empty: nothing.
  [[nodiscard]] const std::string& missing() const { return missing_; }

  // ---- checks of what the caller passes, before anything runs
  void operator()(const package::EqualGuard& guard);
  void operator()(const package::UnitStrideGuard& guard);
  void operator()(const package::NoOverlapGuard& guard);
  void operator()(const package::SizeGuard& guard);
  void operator()(const package::StrideGuard& guard);
  void operator()(const package::AlignmentGuard& guard);
  void operator()(const package::DivisibleGuard& guard);
  void operator()(const package::RangeGuard& guard);

  // ---- memory
  void operator()(const package::Allocate& step);
  void operator()(const package::AllocateFromPool& step) { allocate_in("frame", step); }
  void operator()(const package::Reuse& step);
  void operator()(const package::Reinterpret& step);

 protected:
  // Buffers that are aligned to more than `most_alignment` bytes are lacking.
  StepBase(base::CodeWriter& out, const package::Package& package, int64_t most_alignment)
      : out_(out), package_(package), most_alignment_(most_alignment) {}

  void lacks(const std::string& what) {
    if (missing_.empty()) missing_ = what;
  }
  // Dims of steps count from the first, those of views from the last.
  template <class Step>
  size_t from_last(const Step& step) const {
    return package_.buffers[step.buffer].shape.size() - 1 - static_cast<size_t>(step.dim);
  }
  // A symbol from a dim of a view. `head`: its variable and its name.
  void define_size(const package::DefineSymbol& step, const std::string& head);
  // The view `slice`, which is declared, becomes what the buffer is of the view `whole`.
  void print_slice(const std::string& slice, const std::string& whole, uint32_t buffer);
  // Declares it, too, and gives its name.
  std::string new_slice(const std::string& slice, const std::string& whole, uint32_t buffer);
  // While sizes are measured: sizes that the call computes as large as they may be, or `none` of them again.
  void print_ahead_sizes(const package::LookAhead& ahead, bool none = false);
  // Likewise: temporaries as they will lie.
  void print_places(const package::LookAhead::Look& look);
  // "const Number widths[] = {...};": the columns of each product that has a root space of its own.
  void print_widths(const package::EpilogueProgram& program);
  // From `pool_N`, which is placed in the memory of `frame`.
  void allocate_in(const std::string& frame, const package::AllocateFromPool& step);
  // Opens a scope that says what the buffer is, with `sizes` and, where it is not row-major, `strides`.
  base::CodeWriter::Block begin_buffer(const package::Buffer& buffer);
  void print_sizes(const package::Buffer& buffer);
  static std::string strides_of(const package::Buffer& buffer) {
    return buffer.strides.empty() ? "nullptr" : "strides";
  }

  [[nodiscard]] SymbolText symbols() const;
  [[nodiscard]] std::string number(const types::Dim& dim) const { return number_text(dim, symbols()); }
  [[nodiscard]] std::string numbers(const std::vector<types::Dim>& dims) const;
  // The text of a factor: that of its tensor, or of `seen`, which is declared here then.
  std::string seen_factor(const std::string& tensor, uint32_t buffer, const package::FactorView& view,
                          const std::string& seen);
  [[nodiscard]] std::string name_of(uint32_t buffer) const { return literal_text(package_.buffers[buffer].name); }
  [[nodiscard]] int dtype_of(uint32_t buffer) const { return static_cast<int>(package_.buffers[buffer].dtype); }

  std::string range_check(const package::RangeGuard& guard);
  // What a list of a branch or a loop begins with, and how many steps that is. Sizes of a list that is not run may be
  // out of range: it is not measured then, and refused where it runs, without checks, too.
  size_t print_ranges(const package::StepList& list, std::optional<base::CodeWriter::Block>& in_range);
  // Gives each symbol a variable, "n0" behind `shared_`.
  void name_symbols();
  // Symbols of a loop are new in every pass.
  void forget_symbols(const package::StepList& list);
  template <class... Pieces>
  void checked(const Pieces&... pieces) {
    out_.line("if (frame.checking()) CODETTA_OK(", pieces..., ");");
  }

  base::CodeWriter& out_;
  const package::Package& package_;
  std::map<std::string, std::string> variables_;  // of symbols
  std::string shared_;  // in front of what several functions of the steps use: "s.", or nothing where there is one

 private:
  int64_t most_alignment_;
  std::string missing_;
};

}  // namespace codetta::emit::host

// SPDX-License-Identifier: Apache-2.0
// What the text and the JSON of an explained program have in common: names, and who reads and stores what.
#pragma once

#include <string>
#include <vector>

#include "plan/explain.hpp"

namespace codetta::plan {

types::Dim buffer_bytes(const package::Buffer& buffer);
std::string buffer_type(const package::Buffer& buffer);  // "f32[m, 64]"

std::string listed(const std::vector<std::string>& items);  // "1, 2 and 3"
std::string listed(const std::vector<size_t>& items);

class ExplainView {
 public:
  ExplainView(const Plan& plan, std::string_view name, const EmittedKernels& emitted, const GivenSizes& sizes)
      : plan_(plan), name_(name), emitted_(emitted), sizes_(sizes), facts_(explained(plan)) {}

 protected:
  struct Operand {
    uint32_t buffer = 0;
    std::string as;  // "A", "B transposed", "operand"
  };
  [[nodiscard]] std::vector<Operand> reads_of(size_t kernel) const;
  // Of a prologue: the kernel that calls it.
  [[nodiscard]] size_t caller_of(size_t kernel) const;
  [[nodiscard]] std::vector<uint32_t> stores_of(size_t kernel) const;
  [[nodiscard]] std::vector<size_t> readers_of(uint32_t buffer, size_t from) const;
  [[nodiscard]] std::optional<int64_t> value_of(const types::Dim& dim) const { return dim.evaluate(std::span(sizes_)); }
  [[nodiscard]] std::string bytes_text(const types::Dim& bytes) const;  // "1024*b*s = 131072 bytes"
  [[nodiscard]] std::string emitted_name(size_t kernel) const;
  // What the text calls a temporary that the kernel stores; temporaries themselves are called t and a number.
  [[nodiscard]] std::string user_name(uint32_t buffer, size_t kernel) const;
  [[nodiscard]] std::string value_name(ir::NodeId node) const;  // of the program's own graph: "scores (line 21)"
  [[nodiscard]] std::string shared_text(const SharedFactor& shared) const;

  const Plan& plan_;
  const std::string_view name_;
  const EmittedKernels& emitted_;
  const GivenSizes& sizes_;
  const ProgramExplanation facts_;
};

}  // namespace codetta::plan

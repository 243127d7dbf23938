// SPDX-License-Identifier: Apache-2.0
// Steps that work on elements in host memory: copies, fills, indexed writes, checks of contents. Views may have any
// strides; names are for messages. All of it but copies runs in row-major order on the calling thread.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "codetta/tensor.hpp"
#include "codetta/threads.hpp"
#include "package/step.hpp"

namespace codetta::runtime {

// A view as a step speaks of it.
struct NamedView {
  TensorView view;
  std::string name;
};

// The same memory with exactly `rank` dims: dims of size 1 are put in front or left out there. The view fits its
// declared shape.
TensorView with_rank(const TensorView& view, int rank);

// On threads of the pool where that is large. Errors: E0610 where the shapes differ.
Result<void> copy_elements(const NamedView& source, const NamedView& target, ThreadPool& pool);
// Low bits first, as many bytes as an element has.
void fill_elements(const TensorView& view, uint64_t bits);
// Indices are those of docs/semantics.md: checked, or taken as the nearest that is in range. Sums and products of
// floats below 32 bits are formed in f32 and rounded once. Errors: E0618 an index, E0610 a shape.
Result<void> index_put(const NamedView& target, const std::vector<NamedView>& indices, const NamedView& values,
                       bool accumulate, bool checked);
Result<void> scatter(const NamedView& target, const NamedView& index, const NamedView& source, int dim,
                     package::ScatterReduce reduce, bool checked);

// Every integer i of the view has 0 <= i < size. Errors: E0618.
Result<void> check_indices(const NamedView& view, int64_t size);
// Errors: E0619. `why`: which step has made it, or "".
Result<void> check_numbers(const NamedView& view, bool infinity, const std::string& why);

}  // namespace codetta::runtime

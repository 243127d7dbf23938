// SPDX-License-Identifier: Apache-2.0
// What kernels on a GPU find wrong with the contents of tensors: indices out of range, and numbers where a check wants
// none.
#pragma once

#include "codetta/kernel.hpp"

namespace codetta {

// Kernels of a checked run tell of an index out of range in a word that the host reads, so that a run only enqueues and
// may be captured; the index is taken as the nearest one. This asks for what runs before have found, once, without
// waiting: certain when the stream is idle. The next run() asks, too, and then enqueues nothing. Not to be called while
// another thread runs the execution. Errors: E0618 an index, E0619 NaN or an infinity. On a CPU run() itself has told,
// and of an execution that holds nothing there is nothing to tell.
CODETTA_API Result<void> check_contents(const Execution& execution);

}  // namespace codetta

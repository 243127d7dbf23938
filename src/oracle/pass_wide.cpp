// SPDX-License-Identifier: Apache-2.0
// The evaluator in long double.
#include "oracle/evaluator_run.hpp"

namespace codetta::oracle {

template Result<std::vector<PassOutput>> run_pass<long double>(const Problem&, std::span<const size_t>, const Picks&);

}  // namespace codetta::oracle

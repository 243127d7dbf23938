// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.hpp"
#include "package/package.hpp"

namespace codetta::runtime {

// The steps in which a run in this process has nothing to do: constants are bound before all steps and kernels are
// loaded; one thread, or one stream, keeps the order that streams and events ask for. The others are for readers.
struct PassiveSteps {
  Result<void> operator()(const package::LoadConstant&) const { return {}; }
  Result<void> operator()(const package::DefineKernel&) const { return {}; }
  Result<void> operator()(const package::EnterDevice&) const { return {}; }
  Result<void> operator()(const package::ExitDevice&) const { return {}; }
  Result<void> operator()(const package::EnterStream&) const { return {}; }
  Result<void> operator()(const package::ExitStream&) const { return {}; }
  Result<void> operator()(const package::RecordEvent&) const { return {}; }
  Result<void> operator()(const package::WaitEvent&) const { return {}; }
  Result<void> operator()(const package::EnterSubgraph&) const { return {}; }
  Result<void> operator()(const package::ExitSubgraph&) const { return {}; }
  Result<void> operator()(const package::Comment&) const { return {}; }
  Result<void> operator()(const package::Return&) const { return {}; }
};

}  // namespace codetta::runtime

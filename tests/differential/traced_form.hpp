// SPDX-License-Identifier: Apache-2.0
// An epilogue said again with the C++ functions.
#pragma once

#include "codetta/epilogue.hpp"

namespace codetta::test {

// Errors: those of Epilogue::trace.
Result<Epilogue> traced_form(const Epilogue& epilogue);

}  // namespace codetta::test

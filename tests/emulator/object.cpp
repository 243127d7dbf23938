// SPDX-License-Identifier: Apache-2.0
#include "emulator/object.hpp"

#include "emit/emit.hpp"

namespace codetta::emulator {

Result<Object> Object::load(std::string_view bytes) {
  Object object;
  CODETTA_TRY(object.module_, runtime::cpu::Module::load(bytes, std::string(emit::entry_digest_symbol),
                                                         std::string(emit::entry_digest_placeholder)));
  return object;
}

Kernel Object::kernel(const std::string& name) const {
  const auto find = [&](auto& function, const std::string& symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(module_->symbol(symbol));
    return function != nullptr;
  };
  Kernel kernel;
  const bool found = find(kernel.run, "codetta_emulated_run_" + name) && find(kernel.bind, "codetta_emulated_bind") &&
                     find(kernel.dynamic, "codetta_emulated_dynamic");
  return found ? kernel : Kernel();
}

}  // namespace codetta::emulator

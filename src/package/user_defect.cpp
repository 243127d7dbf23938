// SPDX-License-Identifier: Apache-2.0
#include "package/user_defect.hpp"

#include <fmt/format.h>

namespace codetta::package {

std::optional<std::string> defect_of_passed(const KernelConfig& config, size_t arguments, size_t sizes) {
  const auto* user = std::get_if<GpuUserConfig>(&config);
  const size_t of_hook = user != nullptr ? static_cast<size_t>(user->hook_sizes) : 0;
  if (sizes > max_user_sizes + of_hook) return fmt::format("{} sizes are passed", sizes);
  if (sizes < of_hook) return fmt::format("a hook takes {} of {} sizes", of_hook, sizes);
  if (user == nullptr || user->hook < 0) return std::nullopt;
  const auto all = static_cast<int32_t>(arguments), last = all - user->hook_arguments;
  const bool inside =
      user->hook_arguments > 0 && user->hook_first <= last && user->hook >= user->hook_first && user->hook <= last;
  if (inside) return std::nullopt;
  return fmt::format("a hook is parameter {} and takes {} of {} arguments", user->hook, user->hook_arguments, all);
}

}  // namespace codetta::package

// SPDX-License-Identifier: Apache-2.0
#include "driver/gpu_headers.hpp"

#include "device/embedded.hpp"

namespace codetta::driver {

GpuHeaders::GpuHeaders(std::string_view folder) {
  const auto files = device::files();
  paths.reserve(files.size());
  for (const device::EmbeddedFile& file : files) {
    if (!file.path.starts_with(folder) && !file.path.starts_with("gpu/")) continue;
    paths.push_back("device/" + std::string(file.path));
    headers.push_back({paths.back(), file.text, file.digest_hex});
  }
}

}  // namespace codetta::driver

// SPDX-License-Identifier: Apache-2.0
// Images of compiled kernels of GPUs: one file of the device's compiler, or several (device/host/image_parts.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace codetta::package {

// One image of one to gpu::host::most_image_parts files; of one it is that file.
std::string image_of(const std::vector<std::string>& files);
// The files of an image; empty where its table is damaged. What is no table is one file, whatever it is.
std::vector<std::string_view> files_of(std::string_view image);

}  // namespace codetta::package

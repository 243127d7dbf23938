// SPDX-License-Identifier: Apache-2.0
#include "package/image.hpp"

#include <algorithm>
#include <cstring>

#include "device/host/image_parts.h"

namespace codetta::package {

using gpu::host::image_alignment;
using gpu::host::image_mark;
using gpu::host::ImageTable;
using gpu::host::most_image_parts;

std::string image_of(const std::vector<std::string>& files) {
  if (files.size() == 1) return files.front();
  ImageTable table{};
  std::copy_n(image_mark, sizeof image_mark, table.mark);
  std::string image(sizeof table, '\0');
  for (const std::string& file : files) {
    image.resize((image.size() + image_alignment - 1) / image_alignment * image_alignment, '\0');
    table.part[table.count++] = {image.size(), file.size()};
    image += file;
  }
  std::memcpy(image.data(), &table, sizeof table);
  return image;
}

std::vector<std::string_view> files_of(std::string_view image) {
  if (!image.starts_with(std::string_view(image_mark, sizeof image_mark))) return {image};
  ImageTable table;
  if (image.size() < sizeof table) return {};
  std::memcpy(&table, image.data(), sizeof table);
  if (table.count < 1 || table.count > most_image_parts) return {};
  std::vector<std::string_view> files;
  for (uint64_t i = 0; i < table.count; ++i) {
    const auto [begin, bytes] = table.part[i];
    if (begin % image_alignment != 0 || begin > image.size() || bytes > image.size() - begin) return {};
    files.push_back(image.substr(begin, bytes));
  }
  return files;
}

}  // namespace codetta::package

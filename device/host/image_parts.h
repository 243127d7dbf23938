// SPDX-License-Identifier: Apache-2.0
// What the image of a compiled kernel is: one file of the device's compiler (a cubin or a code object), or several,
// each with some of the kernel's functions, behind a table that says where they begin. For runs in process and emitted
// host text alike. No standard C++ headers.
#pragma once

#include <stdint.h>
#include <string.h>

namespace codetta::gpu::host {

inline constexpr int most_image_parts = 2;
inline constexpr uint64_t image_alignment = 64;  // of parts within an image: files are read where they lie
inline constexpr char image_mark[8] = {'c', 'o', 'd', 'e', 't', 't', 'a', '2'};

struct ImageTable {
  char mark[8];
  uint64_t count;
  struct {
    uint64_t begin, bytes;
  } part[most_image_parts];
  uint64_t reserved[2];
};
static_assert(sizeof(ImageTable) == image_alignment);

// How many files an image has, and where they begin. It is one that this library or its text was built with.
inline int image_parts(const void* image, const void* (&parts)[most_image_parts]) {
  parts[0] = image;
  ImageTable table;
  if (memcmp(image, image_mark, sizeof image_mark) != 0) return 1;
  memcpy(&table, image, sizeof table);
  int count = 0;
  for (; count < most_image_parts && static_cast<uint64_t>(count) < table.count; ++count)
    parts[count] = static_cast<const char*>(image) + table.part[count].begin;
  return count;
}

}  // namespace codetta::gpu::host

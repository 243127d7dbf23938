/* SPDX-License-Identifier: Apache-2.0
 * Loads, calls and unloads a library many times; nothing may stay: no mapping, descriptor, thread or memory.
 * libc and the loader keep some kilobytes of their own, as much after many loads as after a few (thread caches, tables of the
 * loader); what a load leaves behind is at least one block of malloc, 32 bytes, each time.
 * Usage: leaks <library> <times> */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int entries(const char* folder) {
  DIR* dir = opendir(folder);
  int n = 0;
  while (dir != NULL && readdir(dir) != NULL) ++n;
  if (dir != NULL) closedir(dir);
  return n;
}

static int mapped(const char* name) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[4096];
  int n = 0;
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) n += strstr(line, name) != NULL;
  if (maps != NULL) fclose(maps);
  return n;
}

static int once(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  int (*call)(const float*, float*, int64_t, void*) = NULL;
  const char* (*error)(void) = NULL;
  int (*threads)(int32_t, void*, void*) = NULL;
  *(void**)&call = dlsym(library, "digits_classifier");
  *(void**)&error = dlsym(library, "digits_get_last_error");
  *(void**)&threads = dlsym(library, "digits_set_thread_pool");
  static float images[256 * 64], scores[256 * 10];
  int failed = threads(2, NULL, NULL) || call(images, scores, 256, NULL) || call(images, scores, 1, NULL);
  failed = failed || call(NULL, scores, 1, NULL) == 0;
  if (failed) fprintf(stderr, "%s\n", error());
  return dlclose(library) != 0 || failed;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int times = atoi(argv[2]);
  for (int i = 0; i < 3; ++i) {  /* what the loader and libc keep for themselves */
    if (once(argv[1])) return 1;
  }
  const int files = entries("/proc/self/fd"), tasks = entries("/proc/self/task");
  const size_t used = mallinfo2().uordblks;
  for (int i = 0; i < times; ++i) {
    if (once(argv[1])) return 1;
  }
  const int64_t grown = (int64_t)mallinfo2().uordblks - (int64_t)used;
  const char* name = strrchr(argv[1], '/') != NULL ? strrchr(argv[1], '/') + 1 : argv[1];
  const int left = mapped(name), more_files = entries("/proc/self/fd") - files,
            more_tasks = entries("/proc/self/task") - tasks;
  printf("%d loads: %d mappings left, %d descriptors, %d threads, %lld bytes more\n", times, left, more_files,
         more_tasks, (long long)grown);
  return left != 0 || more_files != 0 || more_tasks != 0 || grown > 16 * (int64_t)times;
}

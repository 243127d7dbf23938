// SPDX-License-Identifier: Apache-2.0
// Emitted libraries for CUDA that carry their kernels as sources: NVRTC, which is loaded when the first kernel is
// needed, compiles them for the device of the call. What it makes is kept for the process, for all contexts of devices
// of one compute capability.
#pragma once

#include <unistd.h>

#include "device/host/gpu_state.h"

namespace codetta::host {

using NvrtcProgram = struct OpaqueNvrtcProgram*;
// Functions of libnvrtc; nvrtcResult is 0 where all is well.
#define CODETTA_NVRTC_CALLS(X)                                                                                 \
  X(version, "nvrtcVersion", (int* major, int* minor))                                                         \
  X(arch_count, "nvrtcGetNumSupportedArchs", (int* count))                                                     \
  X(archs, "nvrtcGetSupportedArchs", (int* archs))                                                             \
  X(create, "nvrtcCreateProgram",                                                                              \
    (NvrtcProgram * program, const char* text, const char* name, int header_count, const char* const* headers, \
     const char* const* header_names))                                                                         \
  X(destroy, "nvrtcDestroyProgram", (NvrtcProgram * program))                                                  \
  X(compile, "nvrtcCompileProgram", (NvrtcProgram program, int option_count, const char* const* options))      \
  X(cubin_size, "nvrtcGetCUBINSize", (NvrtcProgram program, size_t * bytes))                                   \
  X(cubin, "nvrtcGetCUBIN", (NvrtcProgram program, char* cubin))                                               \
  X(log_size, "nvrtcGetProgramLogSize", (NvrtcProgram program, size_t * bytes))                                \
  X(log, "nvrtcGetProgramLog", (NvrtcProgram program, char* log))

// What was compiled, by kernel and by the device's capability; goes with the library.
struct CompiledKernel {
  CompiledKernel* next;
  i32 kernel, capability;  // 86: of 8.6
  char* cubin;
};
struct Nvrtc {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // of all this; not held while anything is compiled
  int ready = 0;
  int major = 0, minor = 0;
#define CODETTA_NVRTC_MEMBER(member, name, parameters) int(*member) parameters = nullptr;
  CODETTA_NVRTC_CALLS(CODETTA_NVRTC_MEMBER)
#undef CODETTA_NVRTC_MEMBER
  const char* (*error_string)(int) = nullptr;
  CompiledKernel* kernels = nullptr;
};
inline Nvrtc nvrtc;

// Loaded once, and never unloaded: it keeps data of threads.
inline Status load_nvrtc() {
  const Locked locked(nvrtc.lock);
  if (nvrtc.ready != 0) return ok;
  static const char* const libraries[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                          "/usr/local/cuda/lib64/libnvrtc.so"};
  void* handle = nullptr;
  char refused[400] = "";  // what the loader says of one that is there
  for (const char* library : libraries) {
    if (handle == nullptr) handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const char* said = handle == nullptr ? dlerror() : nullptr;
    if (said == nullptr || refused[0] != 0) continue;
    const bool absent = strncmp(said, library, strlen(library)) == 0 && strstr(said, "No such file") != nullptr;
    if (!absent) snprintf(refused, sizeof refused, "%s", said);
  }
  if (handle == nullptr && refused[0] != 0)
    return fail(wrong_machine, "E0531: the CUDA compiler can not be used: %s", refused);
  if (handle == nullptr)
    return fail(
        wrong_machine,
        "E0530: no CUDA compiler was found: the library carries its kernels as sources, and NVRTC compiles them: "
        "looked for %s, %s and %s among the loader's folders, and for %s",
        libraries[0], libraries[1], libraries[2], libraries[3]);
  const char* missing = nullptr;
#define CODETTA_NVRTC_LOOK_UP(member, name, parameters)                         \
  nvrtc.member = reinterpret_cast<decltype(nvrtc.member)>(dlsym(handle, name)); \
  if (nvrtc.member == nullptr && missing == nullptr) missing = name;
  CODETTA_NVRTC_CALLS(CODETTA_NVRTC_LOOK_UP)
#undef CODETTA_NVRTC_LOOK_UP
  nvrtc.error_string = reinterpret_cast<decltype(nvrtc.error_string)>(dlsym(handle, "nvrtcGetErrorString"));
  dlclose(handle);  // of the count only
  if (missing != nullptr)
    return fail(wrong_machine,
                "E0531: the CUDA compiler can not be used: libnvrtc lacks %s; 12.0 is the oldest that does", missing);
  (void)nvrtc.version(&nvrtc.major, &nvrtc.minor);
  if (nvrtc.major < 12)
    return fail(wrong_machine,
                "E0531: the CUDA compiler can not be used: it is NVRTC %d.%d, and 12.0 is the oldest that is supported",
                nvrtc.major, nvrtc.minor);
  nvrtc.ready = 1;
  return ok;
}

// Whether it compiles for this capability; all where it does not say.
inline bool nvrtc_knows(int capability) {
  int archs[256], count = 0;
  if (nvrtc.arch_count(&count) != 0 || count <= 0 || count > 256 || nvrtc.archs(archs) != 0) return true;
  for (int i = 0; i < count; ++i) {
    if (archs[i] == capability) return true;
  }
  return false;
}

// Texts of the library, each ended by a zero, and all by an empty one.
inline i32 texts_at(const char* from, const char** texts, i32 most) {
  i32 count = 0;
  for (; *from != 0 && count < most; from += strlen(from) + 1) texts[count++] = from;
  return count;
}

// The kernel as NVRTC is asked for it. Its bytes in the library: flags but for the architecture, an empty text, and the
// source. The library's headers: path and text in turn.
struct KernelSource {
  static constexpr i32 most_flags = 32, most_headers = 256;
  const char* flags[most_flags + 1] = {};
  const char* headers[2 * most_headers] = {};
  const char *paths[most_headers] = {}, *texts[most_headers] = {};
  i32 flag_count = 0, header_count = 0;
  const char* text = nullptr;
  char architecture[64] = "";

  KernelSource(const GpuKernel& kernel, int capability) {
    const char* at = reinterpret_cast<const char*>(kernel.image);
    flag_count = texts_at(at, flags, most_flags);
    for (i32 i = 0; i < flag_count; ++i) at += strlen(at) + 1;
    text = at + 1;
    // One architecture alone is what it is compiled for; else the device's own, of which this is an earlier one.
    const char* const wanted = gpu_facts.architecture;
    const size_t length = strlen(wanted);
    const bool plain = length > 0 && wanted[length - 1] >= '0' && wanted[length - 1] <= '9';
    if (plain) {
      snprintf(architecture, sizeof architecture, "--gpu-architecture=sm_%d", capability);
    } else {
      snprintf(architecture, sizeof architecture, "--gpu-architecture=%.32s", wanted);
    }
    flags[flag_count++] = architecture;
    header_count = texts_at(reinterpret_cast<const char*>(gpu_facts.headers), headers, 2 * most_headers) / 2;
    for (i32 i = 0; i < header_count; ++i) {
      paths[i] = headers[2 * i];
      texts[i] = headers[2 * i + 1];
    }
  }
};

inline char* known_cubin(const GpuKernel& kernel, i32 capability) {
  const Locked locked(nvrtc.lock);
  for (const CompiledKernel* one = nvrtc.kernels; one != nullptr; one = one->next) {
    if (one->kernel == kernel.index && one->capability == capability) return one->cubin;
  }
  return nullptr;
}

// What the compiler said, of which errors tell the beginning.
inline Status fail_compile(NvrtcProgram program, const GpuKernel& kernel, const char* architecture, int status) {
  char log[640] = "";
  size_t bytes = 0;
  if (nvrtc.log_size(program, &bytes) == 0 && bytes > 1) {
    char* all = static_cast<char*>(malloc(bytes));
    if (all != nullptr && nvrtc.log(program, all) == 0) snprintf(log, sizeof log, "%s", all);
    free(all);
  }
  const char* text = status == 0                     ? "it made no binary"
                     : nvrtc.error_string != nullptr ? nvrtc.error_string(status)
                                                     : nullptr;
  constexpr int builtins_missing = 7;
  if (status == builtins_missing)
    return fail(wrong_machine, "E0531: the CUDA compiler can not be used: NVRTC finds its builtins not: %s", log);
  return fail(gpu_failed, "E0504: the compiler rejected a kernel: NVRTC %d.%d of %s, %s: %s (%d): %s", nvrtc.major,
              nvrtc.minor, kernel.table.name, architecture, text != nullptr ? text : "an error", status, log);
}

// The kernel's code for a capability: what was made before, or now. Several threads may compile at once.
inline Status compiled_for(const GpuKernel& kernel, int capability, const void** cubin) {
  if ((*cubin = known_cubin(kernel, capability)) != nullptr) return ok;
  CODETTA_OK(load_nvrtc());
  if (!nvrtc_knows(capability))
    return fail(wrong_machine, "E0532: the CUDA compiler does not know the architecture: NVRTC %d.%d has no sm_%d",
                nvrtc.major, nvrtc.minor, capability);
  const KernelSource source(kernel, capability);
  struct Program {
    NvrtcProgram handle = nullptr;
    ~Program() {
      if (handle != nullptr) (void)nvrtc.destroy(&handle);
    }
  } program;
  int status = nvrtc.create(&program.handle, source.text, "kernel.cu", source.header_count, source.texts, source.paths);
  if (status != 0)
    return fail(gpu_failed, "E0504: the compiler rejected a kernel: NVRTC takes no source of %s (%d)",
                kernel.table.name, status);
  status = nvrtc.compile(program.handle, source.flag_count, source.flags);
  if (status != 0) return fail_compile(program.handle, kernel, source.architecture, status);
  size_t bytes = 0;
  status = nvrtc.cubin_size(program.handle, &bytes);
  auto* made = static_cast<CompiledKernel*>(malloc(sizeof(CompiledKernel)));
  char* code = static_cast<char*>(malloc(bytes + 64));
  if (made == nullptr || code == nullptr) {
    free(made), free(code);
    return fail(no_memory, "E0606: no memory for the code of %s", kernel.table.name);
  }
  if (status == 0) status = nvrtc.cubin(program.handle, code);
  if (status != 0 || bytes == 0) {
    free(made), free(code);
    return fail_compile(program.handle, kernel, source.architecture, status);
  }
  const Locked locked(nvrtc.lock);
  *made = {nvrtc.kernels, kernel.index, capability, code};
  nvrtc.kernels = made;
  *cubin = code;
  return ok;
}

inline i32 capability_of(const GpuDevice& device) { return 10 * device.major + device.minor; }

// GpuLibraryFacts::compile.
inline Status compile_kernel(const GpuDevice& device, const GpuKernel& kernel, const StreamHandle* stream,
                             const void** cubin) {
  if ((*cubin = known_cubin(kernel, capability_of(device))) != nullptr) return ok;
  if (stream != nullptr && is_captured(*stream))
    return fail(bad_argument,
                "E0535: a kernel would have to be compiled while a stream is captured: %s has not been compiled for a "
                "device like %s yet; the capture is still valid: call %s before it begins",
                kernel.table.name, device.name, gpu_facts.init);
  return compiled_for(kernel, capability_of(device), cubin);
}

// GpuLibraryFacts::compile_all: those that are not there yet, in as many threads as there are processors, whichever
// devices they are for.
inline Status compile_kernels(const DevicesAlike* kinds, i32 count, const u64* used) {
  struct Work {
    const DevicesAlike* kinds;
    i32 count;
    const u64* used;
    i32 next = 0;
    i32 status = ok;  // of the first that failed; under the lock
    char text[sizeof error_text] = "";
    static void* run(void* self) {
      auto& work = *static_cast<Work*>(self);
      for (;;) {
        const i32 at = __atomic_fetch_add(&work.next, 1, __ATOMIC_RELAXED);
        const i32 k = at % gpu_facts.kernel_count, kind = at / gpu_facts.kernel_count;
        if (kind >= work.count || __atomic_load_n(&work.status, __ATOMIC_RELAXED) != ok) return nullptr;
        if (work.used != nullptr && (work.used[k] & work.kinds[kind].devices) == 0) continue;
        const void* cubin = nullptr;
        const Status status = compiled_for(*gpu_facts.kernels[k], capability_of(*work.kinds[kind].one), &cubin);
        if (status == ok) continue;
        const Locked locked(nvrtc.lock);
        if (work.status != ok) return nullptr;
        memcpy(work.text, error_text, sizeof work.text);
        __atomic_store_n(&work.status, static_cast<i32>(status), __ATOMIC_RELAXED);
      }
    }
  } work{kinds, count, used};
  if (gpu_facts.kernel_count == 0) return ok;
  constexpr i32 most = 16;
  pthread_t threads[most];
  i32 started = 0;
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  while (started + 1 < most && started + 1 < processors && started + 1 < count * gpu_facts.kernel_count &&
         pthread_create(&threads[started], nullptr, &Work::run, &work) == 0)
    ++started;
  (void)Work::run(&work);
  for (i32 i = 0; i < started; ++i) (void)pthread_join(threads[i], nullptr);
  if (work.status != ok) memcpy(error_text, work.text, sizeof work.text);
  return static_cast<Status>(work.status);
}

// When the library is unloaded.
[[gnu::destructor]] inline void release_compiled() {
  while (nvrtc.kernels != nullptr) {
    CompiledKernel* one = nvrtc.kernels;
    nvrtc.kernels = one->next;
    free(one->cubin);
    free(one);
  }
}

}  // namespace codetta::host

// SPDX-License-Identifier: Apache-2.0
// What compiles CUDA kernels of a context, NVRTC or nvcc: found when something has to be compiled, and known by content
// without being loaded or started before that.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "toolchain/cache.hpp"
#include "toolchain/cuda_nvcc.hpp"
#include "toolchain/nvrtc.hpp"

namespace codetta::driver {

struct ContextState;

// Facts of a file that change when its content does; "" when it is no regular file.
std::string file_stamp(const std::string& path);
// What a search for `library` depends on: the file that was asked for by name ("": none), the toolkit's folder, where
// the loader looks.
toolchain::CacheKey library_memo_key(const ContextState& context, std::string_view library, const std::string& file);

// Thread safe.
class CudaCompiler {
 public:
  explicit CudaCompiler(ContextState& context) : context_(context) {}

  struct Identity {
    std::string digest;  // of the content of what compiles
    int version = 0;     // 13000 = 13.0
    bool nvcc = false;   // else NVRTC
    bool operator==(const Identity&) const = default;
  };
  // From the memo in the cache, whose files must be unchanged; else NVRTC is loaded (18 ms) and read (50 ms), or nvcc
  // asked and read (100 ms). Only success is kept. Errors: E0510, E0530, E0531.
  Result<Identity> identity();
  // What compiles is there, loaded if it is a library. When it is another than the one that identity() told of,
  // identity() tells of it from now on. Errors: as identity().
  Result<void> load();
  // Errors: those of load(), and of Nvrtc::compile or CudaNvcc::compile.
  Result<toolchain::CudaOutput> compile(const toolchain::CudaJob& job, const toolchain::CudaCompileOptions& options);
  // Several in up to `parallel` threads or processes, in job order, after load().
  std::vector<Result<toolchain::CudaOutput>> compile_all(const std::vector<toolchain::CudaJob>& jobs,
                                                         const toolchain::CudaCompileOptions& options, int parallel);
  // nvcc, whatever compiles. Errors: those of CudaNvcc::find.
  [[nodiscard]] Result<toolchain::CudaNvccRef> find_nvcc() const { return toolchain::CudaNvcc::find(nvcc_options()); }
  // The device sources that emitted kernels include.
  static std::span<const toolchain::CudaHeader> headers();

 private:
  struct Known {
    Identity identity;
    std::string path;  // of the library, or of nvcc
  };
  [[nodiscard]] bool wants_nvrtc() const;  // or has no wish
  [[nodiscard]] bool falls_back() const;   // to nvcc, where there is no NVRTC
  [[nodiscard]] toolchain::CudaNvccOptions nvcc_options() const;
  [[nodiscard]] toolchain::CacheKey memo_key(bool nvcc) const;
  Result<void> find();
  Result<Known> read(Known known, const std::vector<std::string>& files) const;
  [[nodiscard]] std::optional<Known> recall(bool nvcc) const;
  [[nodiscard]] std::optional<Known> recall() const;
  void remember(const Known& known, const std::vector<std::string>& files) const;

  ContextState& context_;
  std::mutex mutex_;
  toolchain::NvrtcRef nvrtc_;  // one of both, once it is found
  toolchain::CudaNvccRef nvcc_;
  std::optional<Known> known_;
};

}  // namespace codetta::driver

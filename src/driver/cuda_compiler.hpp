// SPDX-License-Identifier: Apache-2.0
// NVRTC of a context: loaded when something has to be compiled, and known by content without being loaded before that.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "toolchain/cache.hpp"
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
    std::string digest;  // of the library's and its builtins' content
    int version = 0;     // 13000 = 13.0
    bool operator==(const Identity&) const = default;
  };
  // From the memo in the cache, whose files must be unchanged; else the library is loaded (18 ms) and read (50 ms).
  // Only success is kept. Errors: E0530, E0531.
  Result<Identity> identity();
  // The loaded library. When it is another than the one that identity() told of, identity() tells of it from now on.
  Result<toolchain::NvrtcRef> library();
  // The device sources that emitted kernels include.
  static std::span<const toolchain::CudaHeader> headers();

 private:
  struct Known {
    Identity identity;
    std::string path;  // of the library
  };
  Result<Known> read(const toolchain::Nvrtc& nvrtc) const;
  [[nodiscard]] std::optional<Known> recall() const;
  void remember(const Known& known, const std::vector<std::string>& files) const;

  ContextState& context_;
  std::mutex mutex_;
  toolchain::NvrtcRef nvrtc_;
  std::optional<Known> known_;
};

}  // namespace codetta::driver

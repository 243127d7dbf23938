// SPDX-License-Identifier: Apache-2.0
#include "emulator/compile.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "emit/emit.hpp"
#include "support/slice.hpp"

namespace codetta::emulator {
namespace {

// What a block of any device may have.
constexpr int most_dynamic_shared = 232448;

bool is_word(char c) { return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Value of "--name=value" among the flags.
std::string_view value_of(const std::vector<std::string>& flags, std::string_view name) {
  for (const std::string& flag : flags) {
    if (flag.size() > name.size() && flag.starts_with(name) && flag[name.size()] == '=')
      return std::string_view(flag).substr(name.size() + 1);
  }
  return {};
}

// "float staged" of a kernel of the user's: its dynamic shared memory, as it declares it; empty: it has none.
std::string_view dynamic_of_user(std::string_view source) {
  constexpr std::string_view mark = "extern __shared__ ";
  const size_t at = source.find("/user.h\"") == std::string_view::npos ? source.size() : source.find(mark);
  if (at >= source.size()) return {};
  source.remove_prefix(at + mark.size());
  return source.substr(0, source.find('['));
}

// Without matrix instructions, which are emulated element by element.
bool runs_short(std::string_view source) {
  for (const std::string_view header : {"kernels/simt.h\"", "kernels/map.h\"", "kernels/steps.h\""}) {
    if (source.find(header) != std::string_view::npos) return true;
  }
  return false;
}

// What the driver looks up in an object, behind the source itself.
std::string exports_of(const std::string& source) {
  const bool dynamic =
      source.find("extern __shared__") != std::string::npos ||
      (source.find("kernels/simt.h\"") == std::string::npos && source.find("kernels/map.h\"") == std::string::npos &&
       source.find("kernels/steps.h\"") == std::string::npos && source.find("device/hip/") == std::string::npos);
  std::string text = "\nnamespace codetta::emulator {\nthread_local Machine* machine;\n}\n";
  std::string address = dynamic ? "shared" : "nullptr";
  if (const std::string_view of_user = dynamic_of_user(source); !of_user.empty()) {
    text += fmt::format("alignas(1024) thread_local {}[65536];\n", of_user);
    address = fmt::format("reinterpret_cast<unsigned char*>(::{})", of_user.substr(of_user.find_last_of(" *&") + 1));
  } else if (dynamic) {
    text += fmt::format("namespace codetta::gpu {{\nalignas(1024) thread_local unsigned char shared[{}];\n}}\n",
                        most_dynamic_shared);
  }
  text += "namespace codetta::gpu {\n";
  text += "#pragma GCC visibility push(default)\nextern \"C\" {\n";
  text += "void codetta_emulated_bind(codetta::emulator::Machine* m) { codetta::emulator::machine = m; }\n";
  text += fmt::format("unsigned char* codetta_emulated_dynamic() {{ return {}; }}\n", address);
  text += fmt::format("extern const char {}[] = \"{}\";\n", emit::entry_digest_symbol, emit::entry_digest_placeholder);
  for (const std::string& entry : entries_of(source)) {
    text += fmt::format("void codetta_emulated_run_{0}(const void* const* p) {{ codetta::emulator::call({0}, p); }}\n",
                        entry);
  }
  return text + "}\n}\n";
}

// What was compiled before in this process: a third of what tests of programs ask for, since many have kernels in
// common.
class Made {
 public:
  static Made& of_process() {
    static Made made;
    return made;
  }
  using Key = std::pair<std::string, std::vector<std::string>>;  // source, flags
  std::optional<std::string> find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto at = objects_.find(key);
    return at == objects_.end() ? std::nullopt : std::optional(at->second);
  }
  void add(Key key, const std::string& object) {
    const std::lock_guard lock(mutex_);
    if (bytes_ + object.size() > most_bytes) return;  // campaigns of random kernels, of which none comes again
    if (objects_.emplace(std::move(key), object).second) bytes_ += object.size();
  }

 private:
  static constexpr size_t most_bytes = size_t{64} << 20;
  std::mutex mutex_;
  std::map<Key, std::string> objects_;
  size_t bytes_ = 0;
};

}  // namespace

std::vector<std::string> entries_of(std::string_view source) {
  std::vector<std::string> names;
  constexpr std::string_view mark = "__global__ void ", bounds = "__launch_bounds__(";
  for (size_t at = source.find(mark); at != std::string_view::npos; at = source.find(mark, at)) {
    at += mark.size();
    if (source.substr(at).starts_with(bounds)) at = source.find(") ", at) + 2;
    size_t end = at;
    while (end < source.size() && is_word(source[end])) ++end;
    std::string name(source.substr(at, end - at));  // a text about the kernel may say its name again
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

Result<Compiler> Compiler::find() {
  Compiler result;
  toolchain::FindOptions options;
  const char* path = std::getenv("PATH");
  options.path = path == nullptr ? "" : path;
  CODETTA_TRY(result.compiler_, toolchain::find_host_compiler(options));
  return result;
}

Result<std::string> Compiler::compile(const std::string& source, const std::vector<std::string>& flags) const {
  toolchain::CompileJob job;
  job.source = source + exports_of(source);
  job.label = "an emulated kernel";
  const std::string_view arch = value_of(flags, "--gpu-architecture");
  int number = std::atoi(std::string(arch.substr(std::min<size_t>(arch.find('_') + 1, arch.size()))).c_str());
  const bool is_strict = value_of(flags, "--fmad") == "false" || value_of(flags, "-ffp-contract") == "off";
  // Kernels of few threads compile for longer than they run. As the commit picks, one of four of them is contracted and
  // optimized.
  const bool is_optimized = !runs_short(source) || (test::slice_of(source.c_str()) + test::commit_slice()) % 4 == 0;
  const std::string root = CODETTA_SOURCE_DIR;
  job.flags = {"-std=c++20",
               is_optimized ? "-O1" : "-O0",
               "-w",
               "-fno-strict-aliasing",
               "-fwrapv",
               "-fvisibility=hidden",
               "-fno-math-errno",
               fmt::format("-DCODETTA_EMULATED_ARCH={}", number * 10),
               "-include",
               root + "/tests/emulator/cuda.hpp",
               "-I" + root + "/tests/emulator/include",
               "-I" + root + "/tests",
               "-I" + root,
               is_strict ? "-ffp-contract=off" : "-ffp-contract=fast"};
  for (const std::string& flag : flags) {
    const size_t at = flag.find("gfx");
    if (at == std::string::npos) continue;
    job.flags.emplace_back("-D__HIP_PLATFORM_AMD__");
    job.flags.emplace_back(fmt::format("-D__{}__", flag.substr(at)));
  }
  if (compiler_.kind == toolchain::CompilerKind::Gcc) {
    for (const char* flag : {"-fno-gnu-unique", "-fno-extern-tls-init", "-Wno-psabi"}) job.flags.emplace_back(flag);
  }
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    job.flags.emplace_back("-mavx2");
    job.flags.emplace_back("-mfma");
  }
#endif
  job.flags.emplace_back("-lm");
  Made::Key key{job.source, job.flags};
  if (auto object = Made::of_process().find(key)) return *std::move(object);
  CODETTA_TRY(toolchain::CompileOutput output, toolchain::compile(compiler_, job, {}));
  Made::of_process().add(std::move(key), output.object);
  return std::move(output.object);
}

}  // namespace codetta::emulator

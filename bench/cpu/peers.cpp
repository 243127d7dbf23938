// SPDX-License-Identifier: Apache-2.0
// BLAS libraries, loaded by name: two of them in one process share their symbols' names.
#include "bench/cpu/peers.hpp"

#include <dlfcn.h>

namespace codetta::bench {

std::vector<std::string> onednn_versions();

namespace {

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
using SetThreads = void (*)(int);

struct Blas {
  std::string name;
  Sgemm sgemm = nullptr;
};

Blas load(const char* name, std::initializer_list<const char*> files, const char* set_threads) {
  for (const char* file : files) {
    void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (library == nullptr) continue;
    if (const auto set = reinterpret_cast<SetThreads>(dlsym(library, set_threads))) set(1);
    std::string full = name;
    if (const auto config = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_config"))) {
      const std::string text = config();
      full = text.substr(0, text.find(' ', text.find(' ') + 1));
    } else if (const auto version = reinterpret_cast<const char* (*)()>(dlsym(library, "bli_info_get_version_str"))) {
      full += std::string(" ") + version();
    }
    return {full, reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"))};
  }
  return {name, nullptr};
}

const std::vector<Blas>& libraries() {
  static const std::vector<Blas> loaded{
      load("OpenBLAS", {"libopenblas.so.0"}, "openblas_set_num_threads"),
      load("BLIS", {"/usr/lib/x86_64-linux-gnu/blis-openmp/libblis.so.4", "libblis.so.4"},
           "bli_thread_set_num_threads"),
  };
  return loaded;
}

}  // namespace

std::vector<Contender> f32_products(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
  std::vector<Contender> result;
  for (const Blas& blas : libraries()) {
    if (blas.sgemm == nullptr) continue;
    result.push_back({blas.name, [sgemm = blas.sgemm, a, b, c, m = static_cast<int>(m), n = static_cast<int>(n),
                                  k = static_cast<int>(k)] { sgemm(101, 111, 111, m, n, k, 1, a, k, b, n, 0, c, n); }});
  }
#if defined(CODETTA_BENCH_EIGEN)
  result.push_back({"Eigen", [=] { eigen_sgemm(a, b, c, m, n, k); }});
#endif
  return result;
}

std::vector<std::string> peer_versions() {
  std::vector<std::string> result = onednn_versions();
  for (const Blas& blas : libraries()) result.push_back(blas.sgemm != nullptr ? blas.name : blas.name + " not found");
#if defined(CODETTA_BENCH_EIGEN)
  result.emplace_back("Eigen 3.4");
#endif
#if defined(CODETTA_BENCH_LIBXSMM)
  result.emplace_back("libxsmm 1.17");
#endif
  return result;
}

}  // namespace codetta::bench

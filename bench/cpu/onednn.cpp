// SPDX-License-Identifier: Apache-2.0
// oneDNN through its C interface. PyPI's current version runs on the CPU through SYCL, which costs tens of microseconds
// a call; the last plain one is older. Both are tried, and the faster one counts.
#include <dlfcn.h>

#include "bench/cpu/peers.hpp"

#if defined(CODETTA_BENCH_ONEDNN)
#include <oneapi/dnnl/dnnl.h>

namespace codetta::bench {
namespace {

// clang-format off: clang-format 14 gives this list another shape each time
#define CODETTA_DNNL(X)                   \
  X(dnnl_version)                         \
  X(dnnl_engine_create)                   \
  X(dnnl_stream_create)                   \
  X(dnnl_stream_wait)                     \
  X(dnnl_memory_desc_create_with_strides) \
  X(dnnl_memory_desc_create_with_tag)     \
  X(dnnl_matmul_primitive_desc_create)    \
  X(dnnl_primitive_attr_create)           \
  X(dnnl_post_ops_create)                 \
  X(dnnl_post_ops_append_eltwise)         \
  X(dnnl_post_ops_append_binary)          \
  X(dnnl_primitive_attr_set_post_ops)     \
  X(dnnl_primitive_create)                \
  X(dnnl_primitive_execute)               \
  X(dnnl_primitive_desc_query_md)         \
  X(dnnl_memory_create)                   \
  X(dnnl_reorder_primitive_desc_create)
// clang-format on
struct Library {
  std::string name;
  dnnl_engine_t engine = nullptr;
  dnnl_stream_t stream = nullptr;
#define CODETTA_MEMBER(f) decltype(&::f) f = nullptr;
  CODETTA_DNNL(CODETTA_MEMBER)
};

bool load(const char* file, Library& lib) {
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (library == nullptr) return false;
#define CODETTA_FIND(f)                                         \
  lib.f = reinterpret_cast<decltype(&::f)>(dlsym(library, #f)); \
  if (lib.f == nullptr) return false;
  CODETTA_DNNL(CODETTA_FIND)
  if (lib.dnnl_engine_create(&lib.engine, dnnl_cpu, 0) != dnnl_success) return false;
  if (lib.dnnl_stream_create(&lib.stream, lib.engine, dnnl_stream_default_flags) != dnnl_success) return false;
  const dnnl_version_t* v = lib.dnnl_version();
  lib.name = "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor);
  return true;
}

const std::vector<Library>& libraries() {
  static const std::vector<Library> loaded = [] {
    std::vector<Library> result;
    for (const char* file : {"libdnnl.so.3.13", "libdnnl.so.3.2"}) {
      Library lib;
      if (load(file, lib)) result.push_back(lib);
    }
    return result;
  }();
  return loaded;
}

dnnl_data_type_t type_of(DType d) {
  switch (d) {
    case DType::bf16:
      return dnnl_bf16;
    case DType::u8:
      return dnnl_u8;
    case DType::i8:
      return dnnl_s8;
    case DType::i32:
      return dnnl_s32;
    default:
      return dnnl_f32;
  }
}

struct Failed {};
void check(dnnl_status_t status) {
  if (status != dnnl_success) throw Failed{};
}

// Objects live until the end of the process, as the libraries do.
struct Builder {
  const Library& lib;
  std::vector<dnnl_exec_arg_t> args;

  [[nodiscard]] dnnl_memory_desc_t matrix(int64_t rows, int64_t cols, DType d, bool any = false) const {
    const dnnl_dims_t dims = {rows, cols}, strides = {cols, 1};
    dnnl_memory_desc_t md = nullptr;
    check(any ? lib.dnnl_memory_desc_create_with_tag(&md, 2, dims, type_of(d), dnnl_format_tag_any)
              : lib.dnnl_memory_desc_create_with_strides(&md, 2, dims, type_of(d), strides));
    return md;
  }
  dnnl_memory_t bind(int argument, const_dnnl_memory_desc_t md, const void* data) {
    dnnl_memory_t memory = nullptr;
    check(lib.dnnl_memory_create(&memory, md, lib.engine,
                                 data == nullptr ? DNNL_MEMORY_ALLOCATE : const_cast<void*>(data)));
    if (argument != 0) args.push_back({argument, memory});
    return memory;
  }
  void run(const_dnnl_primitive_t primitive, const std::vector<dnnl_exec_arg_t>& list) const {
    check(lib.dnnl_primitive_execute(primitive, lib.stream, static_cast<int>(list.size()), list.data()));
    check(lib.dnnl_stream_wait(lib.stream));
  }

  std::function<void()> build(const OneDnnProblem& p) {
    dnnl_post_ops_t ops = nullptr;
    check(lib.dnnl_post_ops_create(&ops));
    int index = 0;
    for (const OneDnnStep& s : p.steps) {
      using Kind = OneDnnStep::Kind;
      if (s.kind == Kind::Multiply || s.kind == Kind::Add) {
        dnnl_memory_desc_t md = matrix(s.rows, s.cols, s.dtype);
        check(lib.dnnl_post_ops_append_binary(ops, s.kind == Kind::Multiply ? dnnl_binary_mul : dnnl_binary_add, md));
        bind(DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | DNNL_ARG_SRC_1, md, s.data);
      } else {
        const dnnl_alg_kind_t alg = s.kind == Kind::Scale      ? dnnl_eltwise_linear
                                    : s.kind == Kind::GeluTanh ? dnnl_eltwise_gelu_tanh
                                    : s.kind == Kind::GeluErf  ? dnnl_eltwise_gelu_erf
                                                               : dnnl_eltwise_clip_v2;
        check(lib.dnnl_post_ops_append_eltwise(ops, alg, s.alpha, s.beta));
      }
      ++index;
    }
    dnnl_primitive_attr_t attributes = nullptr;
    check(lib.dnnl_primitive_attr_create(&attributes));
    check(lib.dnnl_primitive_attr_set_post_ops(attributes, ops));
    dnnl_memory_desc_t a = matrix(p.m, p.k, p.a), b = matrix(p.k, p.n, p.b), d = matrix(p.m, p.n, p.d), bias = nullptr;
    if (p.bias != nullptr) bias = matrix(1, p.n, DType::f32);
    dnnl_primitive_desc_t pd = nullptr;
    check(lib.dnnl_matmul_primitive_desc_create(&pd, lib.engine, a, p.prepacked ? matrix(p.k, p.n, p.b, true) : b, bias,
                                                d, attributes));
    dnnl_primitive_t primitive = nullptr;
    check(lib.dnnl_primitive_create(&primitive, pd));
    bind(DNNL_ARG_SRC, a, p.A);
    bind(DNNL_ARG_DST, d, p.D);
    if (bias != nullptr) bind(DNNL_ARG_BIAS, bias, p.bias);
    if (p.prepacked) {
      const_dnnl_memory_desc_t wanted = lib.dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
      dnnl_memory_t from = bind(0, b, p.B), to = bind(DNNL_ARG_WEIGHTS, wanted, nullptr);
      dnnl_primitive_desc_t reorder_pd = nullptr;
      dnnl_primitive_t reorder = nullptr;
      check(lib.dnnl_reorder_primitive_desc_create(&reorder_pd, b, lib.engine, wanted, lib.engine, nullptr));
      check(lib.dnnl_primitive_create(&reorder, reorder_pd));
      run(reorder, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    } else {
      bind(DNNL_ARG_WEIGHTS, b, p.B);
    }
    run(primitive, args);
    return [&lib = lib, primitive, args = args] {
      lib.dnnl_primitive_execute(primitive, lib.stream, static_cast<int>(args.size()), args.data());
      lib.dnnl_stream_wait(lib.stream);
    };
  }
};

}  // namespace

std::vector<Contender> onednn_products(const OneDnnProblem& problem) {
  std::vector<Contender> result;
  for (const Library& lib : libraries()) {
    try {
      result.push_back({lib.name, Builder{lib, {}}.build(problem)});
    } catch (const Failed&) {  // this version does not take the problem
    }
  }
  return result;
}

std::vector<std::string> onednn_versions() {
  std::vector<std::string> result;
  for (const Library& lib : libraries()) result.push_back(lib.name + "." + std::to_string(lib.dnnl_version()->patch));
  if (result.empty()) result.emplace_back("oneDNN not loaded");
  return result;
}

}  // namespace codetta::bench
#else
namespace codetta::bench {
std::vector<Contender> onednn_products(const OneDnnProblem&) { return {}; }
std::vector<std::string> onednn_versions() { return {"oneDNN not found"}; }
}  // namespace codetta::bench
#endif

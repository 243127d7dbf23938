// SPDX-License-Identifier: Apache-2.0
// Epilogues as CUTLASS epilogue visitor trees (EVT), for whoever already launches CUTLASS kernels: types and arguments
// as C++ text, or a whole translation unit with a C ABI, or that compiled. Emission needs neither CUTLASS nor a GPU.
// docs/evt.md says what is emitted for what, and for which versions of CUTLASS.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "codetta/build.hpp"
#include "codetta/epilogue.hpp"
#include "codetta/gemm.hpp"
#include "codetta/kernel.hpp"
#include "codetta/target.hpp"

namespace codetta {

// A size or stride: a number, or an expression over names of the caller's C++ text ("s0", "8*s1", "s0 // 2"), which the
// emitted text repeats. Values are those of EvtOptions::hints.
class EvtSize {
 public:
  EvtSize(int64_t value) : text_(std::to_string(value)) {}           // NOLINT(google-explicit-constructor)
  EvtSize(int value) : text_(std::to_string(value)) {}               // NOLINT(google-explicit-constructor)
  EvtSize(std::string expression) : text_(std::move(expression)) {}  // NOLINT(google-explicit-constructor)
  EvtSize(const char* expression) : text_(expression) {}             // NOLINT(google-explicit-constructor)
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// An example of what a name is bound to. `accum` stands for the accumulator: [M, N] or [batch, M, N].
struct EvtTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<EvtSize> shape;
  std::vector<EvtSize> strides{};  // in elements; none: row-major
};
// A number of the host, given at run time: `text` is what the arguments say, "" the name itself.
struct EvtScalar {
  std::string name;
  DType dtype = DType::f32;
  std::string text{};
};

enum class EvtSchedule : uint8_t {
  Auto,
  Multistage,                     // Sm80
  TmaWarpSpecialized,             // Sm90
  TmaWarpSpecializedPingpong,     // Sm90
  TmaWarpSpecializedCooperative,  // Sm90
  TmaWarpSpecialized1Sm,          // Sm100
  TmaWarpSpecialized2Sm,          // Sm100
};

struct EvtOptions {
  Target target{};               // cutlass:sm_80, sm_90 (sm_90a), sm_100a
  std::array<int, 3> tile{};     // M, N, K of a CTA (of an MMA on Sm100); 0: chosen
  std::array<int, 3> cluster{};  // 0: chosen
  EvtSchedule schedule = EvtSchedule::Auto;
  bool emit_cd = true;  // the aliases ElementC, StrideC, ElementD, StrideD; without them the caller's text has their
                        // types in place
  bool offsets = true;  // pointers as (T*) (ptr_k + ptr_k_offset); else (T*) ptr_k
  bool deterministic = true;  // no atomic operations
  Rounding rounding = Rounding::Fused;
  std::string name = "EVTD";                             // of the tree's alias
  std::string prefix = "Evt";                            // of all others
  std::vector<std::pair<std::string, int64_t>> hints{};  // name in sizes -> likely value, at least 2
  std::vector<std::pair<std::string, std::string>>
      buffers{};  // variable -> buffer; without one the variable is its buffer
};

struct EvtText {
  std::string name;       // of the alias to hand to the collective
  std::string types;      // declarations, the last of which is `name`
  std::string functors;   // structs that the types name, at namespace scope; may be empty
  std::string arguments;  // of type `name`::Arguments
  std::vector<std::pair<std::string, std::string>> renames;  // buffer -> "ptr_0", in the order of first use
  std::string source, destination;                           // variables that are C and D of the collective; "": none
  std::string element_c, element_d, stride_c, stride_d;      // C++ types
  std::array<std::string, 3> c_strides, d_strides;           // as C++ text
  int epilogue_tile_m = 0, epilogue_tile_n = 0, stages_c = 0, stages_d = 0;  // as the builders choose them
  bool reuses_c = false;                                                     // C and D share their memory
  int64_t shared_bytes = 0;                                                  // of the epilogue
  std::string cutlass;                                                       // versions that the text is for
  std::vector<std::string> notes;                                            // what the text relies on
};

// Errors: E0208 (a name without an example), E0402, E0311, E0405 to E0407, E0409, E0412, E0419, and those of binding.
CODETTA_API Result<EvtText> emit_evt(const Epilogue& epilogue, const std::vector<EvtTensor>& tensors,
                                     const std::vector<EvtScalar>& scalars, const EvtOptions& options);
// The same for a problem with its tensors: their shapes and strides are the examples, their memory is not looked at.
CODETTA_API Result<EvtText> emit_evt(const GemmArguments& arguments, const EvtOptions& options);

// A whole translation unit for nvcc, and a C header that says in which order its functions take what.
struct CutlassSource {
  std::string source, header;
  std::vector<std::string> flags;  // of nvcc, without the folder of CUTLASS; libraries to link (-lcuda) among them
  EvtText evt;
};
// Errors: those of emit_evt; E0405 where CUTLASS multiplies these types differently or not at all.
CODETTA_API Result<CutlassSource> emit_cutlass(const GemmArguments& arguments, const EvtOptions& options,
                                               const std::string& name);

// A configuration of CUTLASS's collectives as a candidate, ranked by the cost model of our own kernels.
struct CutlassKernel {
  KernelMetadata metadata;   // family "cutlass"; config: tile, cluster, stages, shared memory of the epilogue
  EvtOptions options;        // of emit_evt, emit_cutlass and build_cutlass, for this one
  int64_t shared_bytes = 0;  // of the epilogue
};
struct CutlassKernels {
  std::vector<CutlassKernel> kernels;  // best first
  std::vector<Rejection> rejections;   // by configuration, or of "cutlass" where they are the same for all
};
// What is given in `options` (tile, cluster, schedule) is kept, the rest is chosen from. Nothing is compiled, and no
// CUTLASS is needed. Errors: those of emit_cutlass, where no configuration is left: that of the first.
CODETTA_API Result<CutlassKernels> find_cutlass_kernels(const GemmArguments& arguments, const EvtOptions& options,
                                                        Context& context = Context::process_default());
// The version of the CUTLASS in `folder` ("" = CODETTA_CUTLASS_DIR); "" where neither names one. Errors: E0531.
CODETTA_API Result<std::string> cutlass_version(const std::string& folder = {});

struct CutlassBuild {
  std::string output{};       // path of the library: "out/libepilogue.so"; the header lies beside it
  std::string name{};         // of what is public; "" = the file's name without "lib" and what follows a dot
  std::string cutlass_dir{};  // a checkout (with include/) or a folder of headers; "" = CODETTA_CUTLASS_DIR
  WriteGuard before_writing{};
};
struct CutlassReport {
  std::string library, header, version;  // of CUTLASS
  std::string kernel;                    // the candidate that was built: "cutlass_sm90_128x128x64_cooperative_c1x1"
  int64_t bytes = 0;
  double seconds = 0;
};
// Errors also: E0531 (no CUTLASS there, or a version that the text is not for), E0530 (no nvcc), E0501 (no host
// compiler for nvcc), E0504 to E0507, E0510, E0543.
CODETTA_API Result<CutlassReport> build_cutlass(const GemmArguments& arguments, const EvtOptions& options,
                                                const CutlassBuild& build,
                                                Context& context = Context::process_default());

}  // namespace codetta

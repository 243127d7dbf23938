// SPDX-License-Identifier: Apache-2.0
// A translation unit around a visitor tree: collective builders (or the 2.x kernel), arguments, and functions in C.
#include <algorithm>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "base/code_writer.hpp"
#include "emit/evt/views.hpp"
#include "emit/host/text.hpp"
#include "plan/candidates.hpp"
#include "types/dtype.hpp"

namespace codetta::emit::evt {
namespace {

struct Factor {
  std::string element, layout, stride;  // C++ types; stride: of 3.x
  int alignment = 0;                    // elements
  int along = 0;                        // the size of what lies side by side: 0 M, 1 N, 2 K
  bool k_major = false;
};

class KernelWriter {
 public:
  explicit KernelWriter(const KernelProblem& kernel) : kernel_(kernel), problem_(kernel.problem) {}

  Result<KernelText> run() {
    CODETTA_CHECK_OK(check_types(problem_));
    CODETTA_CHECK_OK(check_math());
    CODETTA_TRY(a_, factor("A", *problem_.a, kernel_.a_strides[1], kernel_.a_strides[2], kernel_.a_strides[0]));
    CODETTA_TRY(b_, factor("B", *problem_.b, kernel_.b_strides[2], kernel_.b_strides[1], kernel_.b_strides[0]));
    CODETTA_CHECK_OK(check_majors());
    if (is_sm80()) CODETTA_CHECK_OK(check_copies_sm80(problem_, a_.k_major, b_.k_major));
    CODETTA_CHECK_OK(check_sum());
    CODETTA_CHECK_OK(check_sizes());
    number_arguments();
    const Spelling spelling{[this](size_t i, const std::string& type) {
                              return fmt::format("static_cast<{}*>(tensors[{}])", type, tensor_of(i));
                            },
                            [this](size_t i) {
                              return fmt::format("*static_cast<{} const*>(numbers[{}])",
                                                 cpp_type(problem_.operands[i].dtype), number_of(i));
                            },
                            [this](size_t i, int axis, const Dim&) {
                              return fmt::format("strides[{}]", 2 * tensor_of(i) + (axis == 2 ? 1 : 0));
                            }};
    CODETTA_TRY(text_.tree, emit_tree(problem_, spelling));
    print();
    text_.source = out_.str();
    text_.header = header();
    text_.flags = {"-std=c++17", "-O3", "-DNDEBUG", "-w", "--expt-relaxed-constexpr", "-arch=" + nvcc_arch()};
    if (kernel_.strict) text_.flags.emplace_back("-fmad=false");
    // CUTLASS has the driver set what Sm90ScalarReduction adds to, by its functions' names.
    if (!is_sm80() && std::ranges::count(text_.tree.reduction_kinds, Kind::ScalarReduce) > 0)
      text_.flags.emplace_back("-lcuda");
    return std::move(text_);
  }

 private:
  [[nodiscard]] bool is_sm80() const { return problem_.arch == Arch::Sm80; }
  [[nodiscard]] std::string nvcc_arch() const {
    return is_sm80() ? kernel_.target : kernel_.target.back() == 'a' ? kernel_.target : kernel_.target + "a";
  }
  // Beside what the tree's own check refuses.
  Result<void> check_math() const {
    const std::string_view mode = math_mode_name(kernel_.math);
    if (*problem_.a == DType::f32 && kernel_.math != MathMode::Tf32) {
      return diag::error(diag::Code::family_dtypes, "CUTLASS multiplies f32 on tensor cores as tf32")
          .reason(
              fmt::format("each factor loses what is below 10 bits of fraction, which math={} does not permit", mode))
          .help("permit it with math=tf32 (--math tf32), or use a cuda target, whose kernels multiply f32 as it is");
    }
    if (problem_.arch == Arch::Sm90 && types::is_fp8(*problem_.a) &&
        plan::product_rounding(kernel_.math, *problem_.a, *problem_.b).each == 0) {
      return diag::error(diag::Code::family_dtypes,
                         "CUTLASS sums 128 products of 8-bit floats with 13 bits of fraction")
          .reason(fmt::format("so do the tensor cores of sm_90a, and math={} does not permit it", mode))
          .help(
              "permit it with math=fp8_two_level_accum (--math fp8_two_level_accum), or use a cuda target, whose "
              "kernels sum 8-bit floats as f32");
    }
    return {};
  }
  // `outer`, `k`: strides of rows (columns of B) and along K; one of them is 1.
  Result<Factor> factor(const char* name, DType dtype, int64_t outer, int64_t k, int64_t batch) const {
    Factor result;
    result.element = cpp_type(dtype);
    result.k_major = k == 1;
    const bool is_a = name[0] == 'A';
    result.layout = (result.k_major == is_a) ? "cutlass::layout::RowMajor" : "cutlass::layout::ColumnMajor";
    result.stride = result.k_major ? "cute::Stride<int64_t, cute::Int<1>, int64_t>"
                                   : "cute::Stride<cute::Int<1>, int64_t, int64_t>";
    if (outer != 1 && k != 1) {
      return diag::error(
                 diag::Code::family_layout,
                 fmt::format("Cannot create example tensor for {} with non-contiguous "
                             "layout, received stride: [{}, {}, {}] and shape: {}",
                             name, batch, is_a ? outer : k, is_a ? k : outer, is_a ? "[batch, M, K]" : "[batch, K, N]"))
          .reason("neither its rows nor its columns lie in consecutive elements")
          .help("make a contiguous copy of it, or use a cuda target");
    }
    bool assumed = false;
    const std::array<Dim, 3> strides{Dim::constant(result.k_major ? outer : 1), Dim::constant(result.k_major ? 1 : k),
                                     Dim::constant(batch)};
    result.along = result.k_major ? 2 : is_a ? 0 : 1;
    if (!is_sm80() && is_backward(strides, {})) {
      return diag::error(diag::Code::family_layout, fmt::format("{} cannot be moved by TMA", name))
          .reason(
              fmt::format("one of its strides is negative: rows lie {} elements apart and items {}; tensor maps have "
                          "no such",
                          result.k_major ? outer : k, batch))
          .help("make a contiguous copy of it, or use a cuda target");
    }
    const char axis = "MNK"[result.along];
    const Dim extent =
        result.k_major ? Dim::constant(kernel_.k) : problem_.shape[problem_.shape.size() - (is_a ? 2 : 1)];
    result.alignment = access_elements(strides, extent, types::bits(dtype), {}, assumed);
    if (dtype == DType::f64) result.alignment = 1;  // as CUTLASS's copies of f64 go
    const int least = is_sm80() ? 4 : 16;
    if (result.alignment * types::bits(dtype) < 8 * least) {
      auto error = diag::error(diag::Code::family_layout,
                               fmt::format("{} cannot be {}", name, is_sm80() ? "copied by cp.async" : "moved by TMA"));
      if (access_elements(strides, Dim(), types::bits(dtype), {}, assumed) * types::bits(dtype) >= 8 * least) {
        return error
            .reason(
                fmt::format("it has {} elements of {} bytes along {}: not a multiple of {} bytes, which CUTLASS asks "
                            "for however far its rows lie apart",
                            extent.to_string(), types::bits(dtype) / 8, axis, least))
            .help(fmt::format("make {} a multiple of {}, or use a cuda target", axis, 8 * least / types::bits(dtype)));
      }
      return error
          .reason(fmt::format("its rows lie {} elements of {} bytes apart and its items {}: not multiples of {} bytes",
                              result.k_major ? outer : k, types::bits(dtype) / 8, batch, least))
          .help(fmt::format("pad its rows to a multiple of {} bytes, or use a cuda target", least));
    }
    return result;
  }
  Result<void> check_majors() const {
    const bool wide = types::bits(*problem_.a) == 16 || (*problem_.a == DType::f64) ||
                      (*problem_.a == DType::f32 && is_sm80()) ||
                      (types::bits(*problem_.a) == 8 && problem_.arch == Arch::Sm100);
    if (wide || (a_.k_major && b_.k_major)) return {};
    return diag::error(diag::Code::family_layout,
                       fmt::format("{} must lie along K for {}", a_.k_major ? "B" : "A", dtype_name(*problem_.a)))
        .reason("matrix instructions of types other than 16-bit ones read both factors along K")
        .help(a_.k_major ? "pass B as a transposed view of [N, K] (--transpose-b)" : "pass A as [M, K] row by row");
  }

  Result<void> check_sum() const {
    const std::optional<int64_t> longest = longest_sum(problem_);
    if (!longest || kernel_.k <= *longest) return {};
    return diag::error(diag::Code::family_size,
                       fmt::format("CUTLASS sums up to {} products of {}", *longest, dtype_name(*problem_.a)))
        .reason(fmt::format("K is {}, and Sm80's instructions for bytes saturate where a sum leaves i32, which wraps",
                            kernel_.k))
        .help("use a cuda target, or cutlass:sm_90a, whose kernels wrap");
  }

  // As every call does.
  Result<void> check_sizes() const {
    std::vector<Dim> sizes = problem_.shape;
    sizes.push_back(Dim::constant(kernel_.k));
    for (const Dim& size : sizes) {
      if (const auto known = size.as_constant(); known && *known > std::numeric_limits<int32_t>::max())
        return diag::error(diag::Code::family_size, "CUTLASS counts rows, columns, K and items in 32 bits")
            .reason(fmt::format("a size is {}, and the largest is {}", *known, std::numeric_limits<int32_t>::max()))
            .help("divide the product, or use a cuda target");
    }
    return {};
  }

  // tensors: A, B, then operands in their order; an operand that is read and written has its place once.
  void number_arguments() {
    for (size_t i = 0; i < problem_.operands.size(); ++i)
      (problem_.operands[i].is_scalar ? numbers_ : tensors_).push_back(i);
  }
  [[nodiscard]] size_t tensor_of(size_t operand) const {
    return 2 + static_cast<size_t>(std::find(tensors_.begin(), tensors_.end(), operand) - tensors_.begin());
  }
  [[nodiscard]] size_t number_of(size_t operand) const {
    return static_cast<size_t>(std::find(numbers_.begin(), numbers_.end(), operand) - numbers_.begin());
  }

  // Text

  void print() {
    const Tree& tree = text_.tree;
    out_.line("// ", kernel_.name, ": emitted by Codetta for CUTLASS ", std::string(supported_versions), ", ",
              kernel_.target, ".");
    for (const std::string& note : tree.notes) out_.line("// ", host::comment_text(note));
    print_includes();
    out_.raw(tree.functors);
    out_.blank();
    out_.line("namespace {");
    out_.blank();
    out_.line("using cute::_0;");
    out_.line("using cute::_1;");
    out_.blank();
    if (is_sm80()) {
      print_sm80_shapes();
    } else {
      print_shapes();
    }
    out_.raw(tree.types);
    out_.blank();
    if (is_sm80()) {
      print_sm80_kernel();
    } else {
      print_kernel();
    }
    out_.blank();
    print_host();
    out_.blank();
    out_.line("}  // namespace");
    out_.blank();
    print_entries();
  }
  void print_includes() {
    out_.line("#include <cstdint>");
    out_.line("#include <cstdio>");
    out_.blank();
    for (const std::string_view file : includes_of(problem_.arch)) out_.line("#include \"", file, "\"");
    out_.blank();
  }
  static std::string three(const std::array<int, 3>& shape) {
    return fmt::format("cute::Shape<cute::Int<{}>, cute::Int<{}>, cute::Int<{}>>", shape[0], shape[1], shape[2]);
  }
  void print_shapes() {
    const bool sm100 = problem_.arch == Arch::Sm100;
    const std::string arch(name_of(problem_.arch));
    out_.line("using ElementA = ", a_.element, ";");
    out_.line("using StrideA = ", a_.stride, ";");
    out_.line("using ElementB = ", b_.element, ";");
    out_.line("using StrideB = ", b_.stride, ";");
    out_.line("using ElementAccumulator = ", cpp_type(problem_.accumulator), ";");
    out_.line("using TileShape = ", three(problem_.tile), ";");
    out_.line("using ClusterShape = ", three(problem_.cluster), ";");
    std::string mainloop, epilogue;
    switch (problem_.schedule) {
      case EvtSchedule::TmaWarpSpecializedCooperative:
        mainloop = "KernelTmaWarpSpecializedCooperative";
        epilogue = "TmaWarpSpecializedCooperative";
        break;
      case EvtSchedule::TmaWarpSpecializedPingpong:
        mainloop = "KernelTmaWarpSpecializedPingpong";
        epilogue = "TmaWarpSpecialized";
        break;
      case EvtSchedule::TmaWarpSpecialized2Sm:
        mainloop = "KernelTmaWarpSpecialized2SmSm100";
        epilogue = "TmaWarpSpecialized2Sm";
        break;
      case EvtSchedule::TmaWarpSpecialized1Sm:
        mainloop = "KernelTmaWarpSpecialized1SmSm100";
        epilogue = "TmaWarpSpecialized1Sm";
        break;
      default:
        mainloop = "KernelTmaWarpSpecialized";
        epilogue = "TmaWarpSpecialized";
        break;
    }
    out_.line("using KernelSchedule = cutlass::gemm::", mainloop, ";");
    out_.line("using EpilogueSchedule = cutlass::epilogue::", epilogue, ";");
    out_.line("using Arch = cutlass::arch::", arch, ";");
    if (sm100) out_.line("// tiles are those of an MMA");
    out_.blank();
  }
  void print_kernel() {
    const Tree& tree = text_.tree;
    const int d = 128 / types::bits(problem_.operands[*tree.destination].dtype);
    const int c = tree.source ? 128 / types::bits(problem_.operands[*tree.source].dtype) : d;
    out_.line("using CollectiveEpilogue = typename cutlass::epilogue::collective::CollectiveBuilder<");
    out_.line(
        "  Arch, cutlass::arch::OpClassTensorOp, TileShape, ClusterShape, "
        "cutlass::epilogue::collective::EpilogueTileAuto,");
    out_.line("  ElementAccumulator, ElementAccumulator, ElementC, StrideC, ", c, ", ElementD, StrideD, ", d, ",");
    out_.line("  EpilogueSchedule, ", problem_.name, ">::CollectiveOp;");
    out_.line("using CollectiveMainloop = typename cutlass::gemm::collective::CollectiveBuilder<");
    out_.line("  Arch, cutlass::arch::OpClassTensorOp, ElementA, StrideA, ", a_.alignment, ", ElementB, StrideB, ",
              b_.alignment, ", ElementAccumulator,");
    out_.line("  TileShape, ClusterShape,");
    out_.line(
        "  cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename "
        "CollectiveEpilogue::SharedStorage))>,");
    out_.line("  KernelSchedule>::CollectiveOp;");
    {
      const auto body = out_.block_with("};", "struct ", kernel_.name,
                                        "_kernel : cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, "
                                        "int>, CollectiveMainloop, CollectiveEpilogue>");
    }
    out_.line("using Gemm = cutlass::gemm::device::GemmUniversalAdapter<", kernel_.name, "_kernel>;");
    out_.blank();
    const auto body = out_.block(
        "typename Gemm::Arguments arguments_of(int64_t const* sizes, void* const* tensors, int64_t const* strides, "
        "void const* const* numbers)");
    out_.line("typename Gemm::Arguments arguments;");
    out_.line("arguments.mode = cutlass::gemm::GemmUniversalMode::kGemm;");
    out_.line("arguments.problem_shape = {int(sizes[0]), int(sizes[1]), int(sizes[2]), int(sizes[3])};");
    const auto stride = [](const Factor& factor, int index) {
      return factor.k_major ? fmt::format("{{strides[{}], _1{{}}, strides[{}]}}", 2 * index, 2 * index + 1)
                            : fmt::format("{{_1{{}}, strides[{}], strides[{}]}}", 2 * index, 2 * index + 1);
    };
    out_.line("arguments.mainloop.ptr_A = static_cast<ElementA const*>(tensors[0]);");
    out_.line("arguments.mainloop.dA = ", stride(a_, 0), ";");
    out_.line("arguments.mainloop.ptr_B = static_cast<ElementB const*>(tensors[1]);");
    out_.line("arguments.mainloop.dB = ", stride(b_, 1), ";");
    out_.line("typename ", problem_.name, "::Arguments fusion =");
    out_.raw(indented(tree.arguments) + ";\n");
    out_.line("arguments.epilogue.thread = fusion;");
    const auto list = [](const std::array<std::string, 3>& s) { return "{" + s[0] + ", " + s[1] + ", " + s[2] + "}"; };
    if (tree.source) {
      out_.line("arguments.epilogue.ptr_C = static_cast<ElementC const*>(tensors[", tensor_of(*tree.source), "]);");
      out_.line("arguments.epilogue.dC = ", list(tree.source_stride), ";");
    }
    out_.line("arguments.epilogue.ptr_D = static_cast<ElementD*>(tensors[", tensor_of(*tree.destination), "]);");
    out_.line("arguments.epilogue.dD = ", list(tree.destination_stride), ";");
    out_.line("int device = 0;  // current in this thread: CUTLASS asks the driver for tensor maps");
    out_.line("cudaGetDevice(&device);");
    out_.line("cudaSetDevice(device);");
    out_.line("arguments.hw_info.device_id = device;");
    out_.line("arguments.hw_info.sm_count = cutlass::KernelHardwareInfo::query_device_multiprocessor_count(device);");
    if (problem_.arch == Arch::Sm100) {
      out_.line("arguments.hw_info.cluster_shape = dim3(", problem_.cluster[0], ", ", problem_.cluster[1], ", 1);");
      out_.line("arguments.hw_info.cluster_shape_fallback = dim3(", problem_.cluster[0], ", ", problem_.cluster[1],
                ", 1);");
    }
    out_.line("return arguments;");
  }
  static std::string indented(const std::string& text) {
    std::string result;
    size_t begin = 0;
    while (begin < text.size()) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      result += (begin > 0 ? "\n" : "") + ("    " + text.substr(begin, end - begin));
      begin = end + 1;
    }
    return result;
  }

  void print_sm80_shapes() {
    const auto [m, n, k] = problem_.tile;
    const auto [warp_m, warp_n] = warp_shape_sm80(problem_.tile, problem_.a);
    out_.line("using ThreadblockShape = cutlass::gemm::GemmShape<", m, ", ", n, ", ", k, ">;");
    out_.line("using WarpShape = cutlass::gemm::GemmShape<", warp_m, ", ", warp_n, ", ", k, ">;");
    out_.blank();
  }
  void print_sm80_kernel() {
    const Tree& tree = text_.tree;
    const DType a = *problem_.a;
    const char* instruction = a == DType::f64       ? "8, 8, 4"
                              : a == DType::f32     ? "16, 8, 8"
                              : types::bits(a) == 8 ? "16, 8, 32"
                                                    : "16, 8, 16";
    // CUTLASS has saturating instructions alone for bytes; check_sum() keeps sums from where that shows.
    const char* operation = longest_sum(problem_) ? "OpMultiplyAddSaturate" : "OpMultiplyAdd";
    const std::string accumulator = cpp_type(problem_.accumulator);
    out_.line("using GemmKernel = typename cutlass::gemm::kernel::DefaultGemmWithVisitor<");
    out_.line("  ", a_.element, ", ", a_.layout, ", cutlass::ComplexTransform::kNone, ", a_.alignment, ",");
    out_.line("  ", b_.element, ", ", b_.layout, ", cutlass::ComplexTransform::kNone, ", b_.alignment, ",");
    out_.line("  ", tree.element_map, ", cutlass::layout::RowMajor, ", tree.elements_per_access, ", ", accumulator,
              ", ", accumulator, ",");
    out_.line("  cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, ThreadblockShape, WarpShape,");
    out_.line("  cutlass::gemm::GemmShape<", instruction, ">, ", problem_.name, ",");
    out_.line("  cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<8>, ", stages_sm80(problem_),
              ", cutlass::arch::", operation, ", 1>::GemmKernel;");
    { const auto body = out_.block_with("};", "struct ", kernel_.name, "_kernel : GemmKernel"); }
    out_.line("using Gemm = cutlass::gemm::device::GemmUniversalAdapter<", kernel_.name, "_kernel>;");
    out_.blank();
    const auto body = out_.block(
        "typename Gemm::Arguments arguments_of(int64_t const* sizes, void* const* tensors, int64_t const* strides, "
        "void const* const* numbers)");
    out_.line("typename ", problem_.name, "::Arguments fusion =");
    out_.raw(indented(tree.arguments) + ";\n");
    out_.line("return typename Gemm::Arguments(");
    out_.line("  sizes[3] > 1 ? cutlass::gemm::GemmUniversalMode::kBatched : cutlass::gemm::GemmUniversalMode::kGemm,");
    out_.line(
        "  {int(sizes[0]), int(sizes[1]), int(sizes[2])}, int(sizes[3]), fusion, tensors[0], tensors[1], nullptr, "
        "nullptr,");
    out_.line("  strides[1], strides[3], 0, 0, strides[0], strides[2], 0, 0);");
  }

  // Results of atomic operations begin at their identity; with empty M or N that is what they are.
  void print_host() {
    out_.line("thread_local char last_error[512];");
    out_.blank();
    out_.line("template <class... Values>");
    {
      const auto body = out_.block("int failed(int code, char const* format, Values... values)");
      out_.line("std::snprintf(last_error, sizeof last_error, format, values...);");
      out_.line("return code;");
    }
    if (!text_.tree.reductions.empty()) {
      out_.blank();
      out_.line("template <class T>");
      {
        const auto body = out_.block(
            "__global__ void fill_elements(T* place, T value, int64_t count, int64_t items, int64_t stride)");
        out_.line("int64_t const all = count * items;");
        out_.line(
            "for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < all; i += int64_t(gridDim.x) * "
            "blockDim.x)");
        out_.line("  place[i % count + i / count * stride] = value;");
      }
      out_.line("template <class T>");
      {
        const auto body = out_.block(
            "void fill(void* place, T value, int64_t count, int64_t items, int64_t stride, cudaStream_t stream)");
        out_.line("if (stride == 0) items = 1;");
        out_.line(
            "if (count * items > 0) fill_elements<T><<<64, 256, 0, stream>>>(static_cast<T*>(place), value, count, "
            "items, stride);");
      }
      {
        const auto body = out_.block(
            "void fill_reductions(int64_t const* sizes, void* const* tensors, int64_t const* strides, cudaStream_t "
            "stream)");
        for (size_t i = 0; i < text_.tree.reductions.size(); ++i) {
          const size_t operand = text_.tree.reductions[i], at = tensor_of(operand);
          const Kind kind = text_.tree.reduction_kinds[i];
          const char* count = kind == Kind::ScalarReduce ? "1" : kind == Kind::RowReduce ? "sizes[1]" : "sizes[0]";
          out_.line("fill(tensors[", at, "], ", cpp_type(problem_.operands[operand].dtype), "(",
                    text_.tree.identities[i], "), ", count, ", sizes[3], strides[", 2 * at + 1, "], stream);");
        }
      }
    }
    out_.blank();
    out_.line("struct BoundTensor {  // cute has a Tensor");
    out_.line("  char const* name;");
    out_.line("  int64_t bytes, alignment;  // of an element; of addresses and strides");
    out_.line("  int along;                 // the size that is as well, which lies side by side; -1: none");
    out_.line("};");
    {
      const auto body = out_.block_with("};", "constexpr BoundTensor tensor_table[] =");
      const auto row = [&](const std::string& name, DType dtype, int64_t alignment, int along) {
        out_.line("{", host::literal_text(name), ", ", types::byte_size(dtype), ", ", alignment, ", ", along, "},");
      };
      row("A", *problem_.a, a_.alignment * types::byte_size(*problem_.a), a_.along);
      row("B", *problem_.b, b_.alignment * types::byte_size(*problem_.b), b_.along);
      for (const size_t i : tensors_)
        row(problem_.operands[i].name, problem_.operands[i].dtype, text_.tree.alignments[i], text_.tree.whole_along[i]);
    }
    out_.line("constexpr int tensor_count = ", tensors_.size() + 2, ";");
    out_.blank();
    {
      const auto body = out_.block("int check_sizes(int64_t const* sizes)");
      out_.line("for (int i = 0; i < 4; ++i) {");
      out_.line(
          "  if (sizes[i] < 0 || sizes[i] > 2147483647) return failed(-1, \"size %d is %lld: not from 0 to "
          "2147483647\", i, (long long)sizes[i]);");
      out_.line("}");
      out_.line("return 0;");
    }
    out_.line("bool is_empty(int64_t const* sizes) { return sizes[0] == 0 || sizes[1] == 0 || sizes[3] == 0; }");
    {
      const auto body = out_.block("int check(int64_t const* sizes, void* const* tensors, int64_t const* strides)");
      out_.line("if (int const wrong = check_sizes(sizes)) return wrong;");
      out_.line("for (int i = 0; i < tensor_count; ++i) {");
      out_.line("  BoundTensor const& t = tensor_table[i];");
      out_.line("  if (tensors[i] == nullptr) return failed(-2, \"%s is null\", t.name);");
      out_.line(
          "  if (reinterpret_cast<uintptr_t>(tensors[i]) % t.alignment != 0) return failed(-3, \"%s is not aligned to "
          "%lld bytes\", t.name, (long long)t.alignment);");
      out_.line("  if (t.along >= 0 && sizes[t.along] * t.bytes % t.alignment != 0)");
      out_.line(
          "    return failed(-4, \"%s has %lld elements side by side: not a multiple of %lld bytes\", t.name, (long "
          "long)sizes[t.along], (long long)t.alignment);");
      out_.line("  for (int s = 2 * i; s < 2 * i + 2; ++s) {");
      out_.line("    if (strides[s] * t.bytes % t.alignment != 0)");
      out_.line(
          "      return failed(-4, \"a stride of %s is %lld elements: not a multiple of %lld bytes\", t.name, (long "
          "long)strides[s], (long long)t.alignment);");
      out_.line("  }");
      out_.line("}");
      out_.line("return 0;");
    }
  }

  void print_entries() {
    const std::string& name = kernel_.name;
    out_.line("extern \"C\" char const* ", name, "_get_last_error() { return last_error; }");
    out_.blank();
    {
      const auto body = out_.block("extern \"C\" int ", name, "_init()");
      out_.line("int device = 0, major = 0;");
      out_.line("cudaError_t status = cudaGetDevice(&device);");
      out_.line("if (status == cudaSuccess) status = cudaSetDevice(device);");
      out_.line("if (status != cudaSuccess) return failed(-10, \"no CUDA device: %s\", cudaGetErrorString(status));");
      out_.line("cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);");
      const int major = problem_.arch == Arch::Sm80 ? 8 : problem_.arch == Arch::Sm90 ? 9 : 10;
      out_.line("if (major ", is_sm80() ? "<" : "!=", " ", major, ") return failed(-11, \"compiled for ",
                kernel_.target, ", but the device has compute capability %d.x\", major);");
      out_.line("return 0;");
    }
    out_.blank();
    {
      const auto body = out_.block("extern \"C\" int ", name,
                                   "_workspace(int64_t const* sizes, void* const* tensors, int64_t const* strides, "
                                   "void const* const* numbers, int64_t* bytes)");
      out_.line("last_error[0] = 0;");
      out_.line("*bytes = 0;");
      out_.line("if (int const wrong = check_sizes(sizes)) return wrong;");
      out_.line(
          "if (!is_empty(sizes)) *bytes = int64_t(Gemm::get_workspace_size(arguments_of(sizes, tensors, strides, "
          "numbers)));");
      out_.line("return 0;");
    }
    out_.blank();
    const auto body =
        out_.block("extern \"C\" int ", name,
                   "_call(int64_t const* sizes, void* const* tensors, int64_t const* strides, void const* const* "
                   "numbers, void* workspace, int64_t workspace_bytes, void* stream_handle)");
    out_.line("last_error[0] = 0;");
    out_.line("auto const stream = static_cast<cudaStream_t>(stream_handle);");
    out_.line("if (int const wrong = check(sizes, tensors, strides)) return wrong;");
    const bool fills = !text_.tree.reductions.empty();
    out_.line("if (is_empty(sizes)) {");
    if (fills) out_.line("  fill_reductions(sizes, tensors, strides, stream);");
    out_.line("  return 0;");
    out_.line("}");
    out_.line("if (sizes[2] == 0) return failed(-5, \"k is 0: CUTLASS's main loop needs at least one step\");");
    if (const auto longest = longest_sum(problem_))
      out_.line("if (sizes[2] > ", *longest, ") return failed(-12, \"k is %lld: sums of more than ", *longest,
                " products saturate\", (long long)sizes[2]);");
    out_.line("typename Gemm::Arguments const arguments = arguments_of(sizes, tensors, strides, numbers);");
    out_.line("int64_t const needed = int64_t(Gemm::get_workspace_size(arguments));");
    out_.line(
        "if (workspace_bytes < needed) return failed(-6, \"the workspace has %lld bytes, %lld are needed\", (long "
        "long)workspace_bytes, (long long)needed);");
    out_.line("Gemm gemm;");
    out_.line("cutlass::Status status = gemm.can_implement(arguments);");
    out_.line(
        "if (status != cutlass::Status::kSuccess) return failed(-7, \"CUTLASS cannot do this: %s\", "
        "cutlassGetStatusString(status));");
    if (fills && is_sm80()) out_.line("fill_reductions(sizes, tensors, strides, stream);");
    out_.line("status = gemm.initialize(arguments, workspace, stream);");
    out_.line(
        "if (status != cutlass::Status::kSuccess) return failed(-8, \"CUTLASS did not start: %s\", "
        "cutlassGetStatusString(status));");
    out_.line("status = gemm.run(stream);");
    out_.line(
        "if (status != cutlass::Status::kSuccess) return failed(-9, \"the launch failed: %s (%s)\", "
        "cutlassGetStatusString(status), cudaGetErrorString(cudaGetLastError()));");
    out_.line("return 0;");
  }

  [[nodiscard]] std::string header() const {
    base::CodeWriter out;
    const std::string& name = kernel_.name;
    out.line("// ", name, ": a GEMM with its epilogue, ", kernel_.target, ". Emitted by Codetta.");
    out.line("#ifndef ", name, "_h");
    out.line("#define ", name, "_h");
    out.line("#include <stdint.h>");
    out.line("#ifdef __cplusplus");
    out.line("extern \"C\" {");
    out.line("#endif");
    out.blank();
    out.line("// sizes: m, n, k, batch (1 without one).");
    out.line(
        "// tensors: device memory; strides: two for each, that between rows (columns where these are dense) and that "
        "between");
    out.line("// items of the batch, in elements; 0 where there is none.");
    const auto line = [&](size_t i, const std::string& tensor, DType dtype, const std::string& what) {
      out.line("//   tensors[", i, "] ", host::comment_text(tensor), ": ", std::string(dtype_name(dtype)), ", ", what);
    };
    line(0, "A", *problem_.a, a_.k_major ? "rows of k" : "columns of m");
    line(1, "B", *problem_.b, b_.k_major ? "columns of k" : "rows of n");
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const Operand& operand = problem_.operands[tensors_[i]];
      line(i + 2, operand.name, operand.dtype, (operand.is_output ? "written, " : "read, ") + to_string(operand.shape));
    }
    if (!numbers_.empty()) out.line("// numbers: addresses of");
    for (size_t i = 0; i < numbers_.size(); ++i) {
      const Operand& operand = problem_.operands[numbers_[i]];
      out.line("//   numbers[", i, "] ", host::comment_text(operand.name), ": ",
               std::string(dtype_name(operand.dtype)));
    }
    out.line("// All return 0, or a negative code with a text in get_last_error, which is of the calling thread.");
    out.line(
        "// Is the current device one that this is compiled for? As every call does, it makes that device's primary "
        "context");
    out.line("// current in the calling thread.");
    out.line("int ", name, "_init(void);");
    out.line("int ", name,
             "_workspace(const int64_t* sizes, void* const* tensors, const int64_t* strides, const void* const* "
             "numbers, int64_t* bytes);");
    out.line("// Enqueues on the stream (a cudaStream_t), allocates nothing, waits for nothing.");
    out.line("int ", name,
             "_call(const int64_t* sizes, void* const* tensors, const int64_t* strides, const void* const* numbers, "
             "void* workspace,");
    out.line("    int64_t workspace_bytes, void* stream);");
    out.line("const char* ", name, "_get_last_error(void);");
    out.blank();
    out.line("#ifdef __cplusplus");
    out.line("}");
    out.line("#endif");
    out.line("#endif");
    return out.str();
  }

  const KernelProblem& kernel_;
  const Problem& problem_;
  Factor a_, b_;
  std::vector<size_t> tensors_, numbers_;
  base::CodeWriter out_;
  KernelText text_;
};

}  // namespace

std::span<const std::string_view> includes_of(Arch arch) {
  // visitors.hpp names the output tile's thread map, which only the kernel's header declares.
  static constexpr std::string_view sm80[] = {
      "cutlass/cutlass.h",
      "cute/tensor.hpp",
      "cutlass/gemm/device/gemm_universal_adapter.h",
      "cutlass/gemm/kernel/default_gemm_universal_with_visitor.h",
      "cutlass/epilogue/threadblock/fusion/visitors.hpp",
  };
  static constexpr std::string_view sm90[] = {
      "cutlass/cutlass.h",
      "cute/tensor.hpp",
      "cutlass/epilogue/collective/collective_builder.hpp",
      "cutlass/epilogue/collective/default_epilogue.hpp",
      "cutlass/epilogue/fusion/sm90_visitor_compute_tma_warpspecialized.hpp",
      "cutlass/epilogue/fusion/sm90_visitor_load_tma_warpspecialized.hpp",
      "cutlass/epilogue/fusion/sm90_visitor_store_tma_warpspecialized.hpp",
      "cutlass/epilogue/fusion/sm90_visitor_tma_warpspecialized.hpp",
      "cutlass/gemm/collective/collective_builder.hpp",
      "cutlass/gemm/device/gemm_universal_adapter.h",
      "cutlass/gemm/kernel/gemm_universal.hpp",
  };
  if (arch == Arch::Sm80) return sm80;
  return sm90;
}

Result<KernelText> emit_kernel(const KernelProblem& problem) { return KernelWriter(problem).run(); }

}  // namespace codetta::emit::evt

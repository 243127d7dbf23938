// SPDX-License-Identifier: Apache-2.0
// Host steps: what happens around the kernels, as a closed set of small structs. Steps run in list order. Four
// consumers are total over them: execution in this process, C++ text, Python text, and the listing for people.
//
// Buffers, kernels, pools, lists, streams, events and results are indices into the package. Sizes are expressions over
// its symbols; strides and offsets count elements, everything else counts what its name says. find_defect() in
// package/package.hpp says what makes a list of steps valid; nothing here checks itself.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "codetta/tensor.hpp"
#include "types/dim.hpp"

namespace codetta::package {

using types::Dim;

// ---- memory -----------------------------------------------------------------------------------------------------

// A buffer is given its memory by one step only (which may stand in a loop).
//
// Memory of its own for a Temporary, aligned as the buffer says; its contents are arbitrary. Lives until Free, Reuse,
// or the end of the run. Where it lies is the executor's choice; it never overlaps another live buffer.
struct Allocate {
  uint32_t buffer = 0;
  bool operator==(const Allocate&) const = default;
};
// A Temporary at `offset` bytes in a pool: the planner's choice, which has proven that no two live buffers overlap. The
// pool exists before its first use, and until the run ends.
struct AllocateFromPool {
  uint32_t buffer = 0;
  uint32_t pool = 0;
  Dim offset{};
  bool operator==(const AllocateFromPool&) const = default;
};
// The end of a Temporary, of a result of an extern (its memory goes back to the extern) or of a view of another buffer
// (nothing but the view ends).
struct Free {
  uint32_t buffer = 0;
  bool operator==(const Free&) const = default;
};
// `buffer` takes over the memory of `from`, which ends: a Temporary with memory, or a donated argument. It must not
// need more bytes or alignment than `from` has, and finds its contents.
struct Reuse {
  uint32_t from = 0;
  uint32_t buffer = 0;
  bool operator==(const Reuse&) const = default;
};
// `buffer` is another view of the memory of `source`: its own shape, strides and dtype at Buffer::offset. It owns
// nothing and ends with its source. Errors: E0610 where it would leave the source's memory.
struct Reinterpret {
  uint32_t source = 0;
  uint32_t buffer = 0;
  bool operator==(const Reinterpret&) const = default;
};
// Makes a Constant readable on its device: bytes of the package, or the tensor that Buffer::external names in the
// weights file. Done once, in prepare. Errors: E0615 where the caller has no such tensor.
struct LoadConstant {
  uint32_t buffer = 0;
  bool operator==(const LoadConstant&) const = default;
};
// target = source, element by element: equal dtypes and sizes, any strides, also between devices. They do not overlap.
struct Copy {
  uint32_t source = 0;
  uint32_t target = 0;
  bool operator==(const Copy&) const = default;
};
enum class ZeroMode : uint8_t {
  None,     // the buffer may hold anything: said for readers, nothing is done
  PerCall,  // filled here in every run
  Once,     // filled when its memory is placed, which nothing else shares; kernels leave it as they found it (counters)
};
// Every element becomes the value whose bit pattern (in the buffer's dtype, low bits first) is `bits`.
struct Fill {
  uint32_t buffer = 0;
  ZeroMode mode = ZeroMode::PerCall;
  uint64_t bits = 0;
  bool operator==(const Fill&) const = default;
};

// ---- kernels ----------------------------------------------------------------------------------------------------

// From here on the kernel may be launched: compiled, loaded, and its attributes set. At most once a kernel; one without
// a definition is defined before the first step.
struct DefineKernel {
  uint32_t kernel = 0;
  bool operator==(const DefineKernel&) const = default;
};

// How the copy engine of a GPU walks a tensor for a kernel of the user's. Dims are counted from the fastest. Sizes and
// strides come from the bound tensor; everything here is checked against the driver's rules before it is asked.
enum class Swizzle : uint8_t { None, Bytes32, Bytes64, Bytes128 };
enum class Interleave : uint8_t { None, Bytes16, Bytes32 };
enum class L2Promotion : uint8_t { None, Bytes64, Bytes128, Bytes256 };
struct TensorMap {
  enum class Kind : uint8_t { Tiled, Im2col };
  Kind kind = Kind::Tiled;
  uint32_t argument = 0;                 // which entry of LaunchKernel::arguments is walked; passed as a map instead
  std::vector<int32_t> box;              // Tiled: elements of a box, by dim
  std::vector<int32_t> element_strides;  // every n-th element of a dim is taken; empty: all
  std::vector<int32_t> lower_corner, upper_corner;  // Im2col: of the spatial dims (rank - 2), fastest first
  int32_t channels = 0, pixels = 0;                 // Im2col: elements a column and columns a box
  Swizzle swizzle = Swizzle::None;
  Interleave interleave = Interleave::None;
  L2Promotion promotion = L2Promotion::Bytes128;
  bool nan_outside = false;  // floats: elements outside of the tensor read as NaN, else as 0
  bool operator==(const TensorMap&) const = default;
};
// The part of L2 that this launch keeps for a tensor; an attribute of the launch on its stream, over when it ends.
struct L2Window {
  uint32_t argument = 0;     // entry of LaunchKernel::arguments
  Dim bytes;                 // from its first byte; more than the device allows is clamped
  int32_t per_mille = 1000;  // of accesses that persist, 1 to 1000; the others stream
  bool operator==(const L2Window&) const = default;
};
// What a launch adds to its kernel's configuration. All defaults: nothing.
struct LaunchOptions {
  std::array<Dim, 3> grid{}, block{};         // blocks and threads, x first; all 0: the configuration's own
  std::array<int32_t, 3> cluster{{1, 1, 1}};  // blocks of a cluster
  bool cooperative = false;                   // all blocks run at the same time
  bool programmatic = false;                  // may begin before the kernel in front ends; the kernel itself waits
  Dim shared_bytes;                           // dynamic shared memory of a block, on top of the configuration's
  std::vector<Dim> sizes;                     // integers passed behind the arguments: shapes, then strides
  std::vector<TensorMap> maps;                // at most one an argument
  std::optional<L2Window> window;
  bool operator==(const LaunchOptions&) const = default;
};
// A factor that lies nowhere as a whole: a map computes blocks of it where the product's kernel reads them. The map's
// last argument is its one output, [k, n] of B as it is seen before a transposition, which no buffer holds.
struct Prologue {
  uint32_t kernel = 0;              // of map configuration; one phase, no reductions
  std::vector<uint32_t> arguments;  // buffers of its arguments but the last
  bool operator==(const Prologue&) const = default;
};
// A dim of a factor as its product sees it: `size` matrices, rows or columns, each `scale` elements of a dim of the
// buffer (and with `scale` 1 of those around it, whole, where it has fewer) behind the one in front; 0: it is the same
// again.
struct FactorDim {
  uint8_t dim = 0;  // from the last
  Dim scale = Dim::constant(1);
  Dim size = Dim::constant(1);
  bool operator==(const FactorDim&) const = default;
};
// None: as the buffer lies. Else a dim of items or several, rows, columns.
using FactorView = std::vector<FactorDim>;
inline constexpr size_t max_products = 8;  // of one launch

// A[batch, m, k] @ B[batch, k, n], each as it lies, or with its last two dims swapped, or as a view of its buffer says.
// More than one leading dim counts as one batch dim, which they must fold to, or to two (device/host/items.h; E0610); a
// leading size of 1 serves every item.
//
// Several products of one A are one launch: each has a B of its own, all of one dtype and size, and n counts the
// columns of all (EpilogueProgram::split says which accumulators are whose). Where the kernel has a root space for each
// (EpilogueProgram::spaces), their columns may differ, and b_view has those of the first (view_of_b of factors.hpp).
struct Product {
  uint32_t a = 0, b = 0;  // buffers
  bool a_transposed = false, b_transposed = false;
  Dim k = Dim::constant(0);
  std::vector<uint32_t> more_b{};  // of the second product and on; transposed as the first is
  // None, or one a product: what makes its B. Then b and more_b each name a buffer that this reads. A kernel for a GPU
  // makes factors itself (EpilogueProgram::factors); a or b then names a tensor among its arguments.
  std::vector<Prologue> b_made{};
  FactorView a_view{}, b_view{};  // the latter of the B of every product; neither is transposed besides
  // Calls f for every buffer that is read, some of them more than once.
  template <class F>
  void each_buffer(F&& f) const {
    f(a), f(b);
    for (const uint32_t buffer : more_b) f(buffer);
    for (const Prologue& made : b_made) {
      for (const uint32_t buffer : made.arguments) f(buffer);
    }
  }
  [[nodiscard]] bool reads(uint32_t buffer) const {
    bool found = false;
    each_buffer([&](uint32_t read) { found = found || read == buffer; });
    return found;
  }
  [[nodiscard]] size_t products() const { return more_b.size() + 1; }
  [[nodiscard]] uint32_t factor_b(size_t product) const { return product == 0 ? b : more_b[product - 1]; }
  bool operator==(const Product&) const = default;
};
// One kernel over its arguments: a product with its epilogue, or without one a map over a root space of its own.
struct LaunchKernel {
  uint32_t kernel = 0;
  std::optional<Product> product;
  Dim batch = Dim::constant(1), m = Dim::constant(0), n = Dim::constant(0);  // the product's, or the map's root space
  std::vector<uint32_t> arguments;                                           // buffer of each EpilogueProgram argument
  LaunchOptions options{};
  bool operator==(const LaunchKernel&) const = default;
};

inline constexpr uint32_t max_extern_tensors = 256;  // inputs, and outputs, of one call

// ---- other work -------------------------------------------------------------------------------------------------

// A function of the caller's, found by name (include/codetta/extern.h). Out-form: it writes the buffers `outputs`.
// Alloc-form: it returns `output_count` tensors of its own, to which SelectOutput gives names in the same list; those
// not freed go back to it when that list's pass ends. Errors: E0616 not there (in prepare), E0617 it failed, with its
// code.
struct CallExtern {
  enum class Form : uint8_t { Out, Alloc };
  std::string name;
  std::vector<uint32_t> inputs;  // buffers; scalars are passed as tensors of rank 0
  Form form = Form::Out;
  std::vector<uint32_t> outputs;  // Out
  uint32_t result = 0;            // Alloc: which of the package's results the call defines
  uint32_t output_count = 0;      // Alloc
  bool operator==(const CallExtern&) const = default;
};
// `buffer` (a Temporary) is output `output` of a result, each output at most once. Its dtype and rank must agree
// (E0610); where the buffer's sizes are already known they must agree, too.
struct SelectOutput {
  uint32_t result = 0;
  uint32_t output = 0;
  uint32_t buffer = 0;
  bool operator==(const SelectOutput&) const = default;
};
// target[i0[s], i1[s], ..., rest] = values[s, rest] for every position s of the index tensors, which have one shape;
// += where `accumulate`. Of equal indices the last in row-major order wins; sums of narrow floats are taken in f32 and
// rounded once. Errors: E0618 an index outside of 0 to size - 1; where runs are not checked the nearest one is meant.
struct IndexPut {
  uint32_t target = 0;
  std::vector<uint32_t> indices;  // for the leading dims, integer tensors
  uint32_t values = 0;
  bool accumulate = false;
  bool operator==(const IndexPut&) const = default;
};
enum class ScatterReduce : uint8_t { None, Sum, Product, Min, Max };
// target[p with p[dim] = index[p]] = source[p], or combined with what is there, for every position p of `index`, which
// lies within source, and within target but for `dim`. Order and errors as for IndexPut. Min and Max propagate NaN.
struct Scatter {
  uint32_t target = 0;
  uint32_t index = 0;
  uint32_t source = 0;
  int32_t dim = 0;
  ScatterReduce reduce = ScatterReduce::None;
  bool operator==(const Scatter&) const = default;
};

// ---- symbols and checks -----------------------------------------------------------------------------------------

// symbol = what `from` says, divided by `divisor`. A symbol that has a value already must get the same (E0610), but for
// those that the body of a While defines: they are new in every pass. Errors: E0610 where the divisor is 0 or leaves a
// remainder, or the value is below 0.
struct DefineSymbol {
  enum class From : uint8_t {
    Size,          // of dim `dim` of `buffer`, less `value`
    Stride,        // of dim `dim` of `buffer`, in elements
    Value,         // the one integer that `buffer` holds: read when the step runs; on a GPU this waits for the stream
    OutputSize,    // of dim `dim` of output `output` of result `buffer` of an extern
    OutputStride,  // likewise
    Expression,    // `value`
  };
  std::string symbol;
  uint32_t buffer = 0;
  int32_t dim = 0;
  From from = From::Size;
  uint32_t output = 0;
  Dim value{};
  Dim divisor = Dim::constant(1);
  bool operator==(const DefineSymbol&) const = default;
};

// Facts that the code relies on. Those about shapes, strides and addresses are checked before anything is written, as
// soon as their symbols are known; those about contents where they stand. A buffer without elements passes all that
// speak of its memory. A failing guard is E0610 with the offending value, unless stated.
struct EqualGuard {  // left == right
  Dim left, right;
  std::string why{};
  bool operator==(const EqualGuard&) const = default;
};
struct UnitStrideGuard {  // the buffer's last dim has stride 1 (or size <= 1)
  uint32_t buffer = 0;
  bool operator==(const UnitStrideGuard&) const = default;
};
struct NoOverlapGuard {  // the output shares no byte with the other buffer, unless they are the identical view and
                         // in_place_ok (E0613)
  uint32_t output = 0, other = 0;
  bool in_place_ok = false;  // other is read only at the element written
  bool operator==(const NoOverlapGuard&) const = default;
};
struct SizeGuard {  // the size of a dim
  uint32_t buffer = 0;
  int32_t dim = 0;
  Dim size;
  bool operator==(const SizeGuard&) const = default;
};
struct StrideGuard {  // the stride of a dim, in elements (or its size is <= 1); an output begins at 16 bytes' multiples
  uint32_t buffer = 0;
  int32_t dim = 0;
  Dim stride;
  bool operator==(const StrideGuard&) const = default;
};
struct AlignmentGuard {  // the address is a multiple of `bytes`, and so are the strides of all dims but the last
  uint32_t buffer = 0;
  int64_t bytes = 1;
  bool operator==(const AlignmentGuard&) const = default;
};
struct DivisibleGuard {  // value % divisor == 0, and divisor != 0
  Dim value, divisor;
  std::string why{};
  bool operator==(const DivisibleGuard&) const = default;
};
struct RangeGuard {  // least <= value <= most
  Dim value, least, most;
  std::string why{};
  bool operator==(const RangeGuard&) const = default;
};
struct NanGuard {  // contents: no NaN, and with `infinity` no infinity either; a debug check (E0619 names the step)
  uint32_t buffer = 0;
  bool infinity = false;
  std::string why{};  // the step that has made the buffer, for the message
  bool operator==(const NanGuard&) const = default;
};
struct IndexGuard {  // contents: every integer i of the buffer has 0 <= i < size (E0618)
  uint32_t buffer = 0;
  Dim size;
  bool operator==(const IndexGuard&) const = default;
};
// File forms number these by position: append only.
using Guard = std::variant<EqualGuard, UnitStrideGuard, NoOverlapGuard, SizeGuard, StrideGuard, AlignmentGuard,
                           DivisibleGuard, RangeGuard, NanGuard, IndexGuard>;
struct Check {
  Guard guard;
  bool operator==(const Check&) const = default;
};

// ---- devices, streams and scopes --------------------------------------------------------------------------------

// Steps up to the matching exit belong to this device, counted from the package's first. Scopes of devices, streams and
// subgraphs nest and end in the list that began them. On a CPU device and stream scopes keep the order of the list.
//
// Every buffer lies on its Buffer::device, and steps in a scope touch buffers of its device alone, but for Copy, which
// stands anywhere. Steps of one device run in the order of the list; those of two at the same time, as long as no Copy
// between the two comes in between: it begins when the steps in front of it have ended on both, and both go on behind
// it. A run begins on all devices behind what the caller's stream had to do; that stream goes on when all have ended.
struct EnterDevice {
  uint32_t device = 0;
  bool operator==(const EnterDevice&) const = default;
};
struct ExitDevice {
  bool operator==(const ExitDevice&) const = default;
};
// Stream 0 is the caller's; the others are the executor's own, and joined to it at the end of a run.
struct EnterStream {
  uint32_t stream = 0;
  bool operator==(const EnterStream&) const = default;
};
struct ExitStream {
  bool operator==(const ExitStream&) const = default;
};
struct RecordEvent {  // everything that the current stream holds so far
  uint32_t event = 0;
  bool operator==(const RecordEvent&) const = default;
};
struct WaitEvent {  // the current stream waits for it; recorded before
  uint32_t event = 0;
  bool operator==(const WaitEvent&) const = default;
};
// The steps of a called function: a range in listings and profiles. Buffers that it allocates end in it, but for those
// that it returns to what is around it.
struct EnterSubgraph {
  std::string name;
  std::vector<uint32_t> results{};  // buffers that outlive the scope
  bool operator==(const EnterSubgraph&) const = default;
};
struct ExitSubgraph {
  bool operator==(const ExitSubgraph&) const = default;
};

// ---- control flow -----------------------------------------------------------------------------------------------

// Runs one of two child lists of the package. `predicate`: a bool scalar, or a bool tensor of one element, read when
// the step runs (on a GPU this waits for the stream). What a child list allocates ends in it, and it frees nothing from
// outside: its results go to buffers from outside. Symbols and events are there behind it where both lists define them.
struct If {
  uint32_t predicate = 0;
  uint32_t then_list = 0;
  uint32_t else_list = 0;
  bool operator==(const If&) const = default;
};
// Runs the list `condition`, ends when `predicate` then is false, else runs the list `body`, and again. Both are child
// lists as those of If; what a pass hands to the next lies in buffers from outside. Symbols of the condition are there
// in the body and behind the loop, those of the body are not.
struct While {
  uint32_t condition = 0;  // list
  uint32_t predicate = 0;  // as of If
  uint32_t body = 0;       // list
  int64_t limit = 0;       // passes allowed, 0: any number. Errors: E0651 where one more would be made
  bool operator==(const While&) const = default;
};

struct Comment {
  std::string text;  // one line
  bool operator==(const Comment&) const = default;
};
// The end of the program: the last step of the main list, nowhere else.
struct Return {
  bool operator==(const Return&) const = default;
};

// File forms number these by position: append only.
using Step = std::variant<DefineSymbol, Check, Allocate, Free, LaunchKernel, Comment, Return, AllocateFromPool, Reuse,
                          Reinterpret, LoadConstant, Copy, Fill, DefineKernel, CallExtern, SelectOutput, IndexPut,
                          Scatter, EnterDevice, ExitDevice, EnterStream, ExitStream, RecordEvent, WaitEvent,
                          EnterSubgraph, ExitSubgraph, If, While>;
using StepList = std::vector<Step>;

// "allocate_from_pool", "launch_kernel", ...: the kind in manifests, listings and docs/features.md.
std::string_view name_of(const Step& step);

}  // namespace codetta::package

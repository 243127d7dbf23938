// SPDX-License-Identifier: Apache-2.0
// The byte form of steps. Each kind lists its fields once, for both directions.
#include <utility>

#include "package/serialize.hpp"

namespace codetta::package {
namespace {

struct StepFieldWriter {
  ByteWriter& out;
  void index(uint32_t value, std::string_view) { out.number(value); }
  void integer(int64_t value) { out.integer(value); }
  void bits(uint64_t value) { out.number(value); }
  void small(int32_t value, int32_t, int32_t, std::string_view) { out.integer(value); }
  void flag(bool value) { out.flag(value); }
  void dim(const Dim& value) { out.dim(value); }
  void text(const std::string& value, std::string_view) { out.text(value); }
  template <class Enum>
  void choice(Enum value, uint64_t, std::string_view) {
    out.choice(value);
  }
  template <class T, class Field>
  void list(std::vector<T>& values, std::string_view, Field field) {
    out.number(values.size());
    for (T& value : values) field(value);
  }
};

struct StepFieldReader {
  ByteReader& in;
  void index(uint32_t& value, std::string_view what) { value = in.index(what); }
  void integer(int64_t& value) { value = in.integer(); }
  void bits(uint64_t& value) { value = in.number(); }
  void small(int32_t& value, int32_t least, int32_t most, std::string_view what) {
    value = in.small(least, most, what);
  }
  void flag(bool& value) { value = in.flag(); }
  void dim(Dim& value) { value = in.dim(); }
  void text(std::string& value, std::string_view what) { value = in.text(max_name_bytes, what); }
  template <class Enum>
  void choice(Enum& value, uint64_t count, std::string_view what) {
    value = in.choice<Enum>(count, what);
  }
  template <class T, class Field>
  void list(std::vector<T>& values, std::string_view what, Field field) {
    for (size_t n = in.count(max_items, what); n > 0 && in.ok(); --n) field(values.emplace_back());
  }
};

template <class Archive>
struct StepFields {
  Archive& a;

  void buffers(std::vector<uint32_t>& values, std::string_view what) const {
    a.list(values, what, [&](uint32_t& value) { a.index(value, "buffer"); });
  }
  void integers(std::vector<int32_t>& values) const {
    a.list(values, "number of dims", [&](int32_t& value) { a.small(value, INT32_MIN, INT32_MAX, "size"); });
  }
  template <class Variant, size_t... I>
  void alternative(Variant& value, uint64_t index, std::index_sequence<I...>) const {
    if constexpr (requires { a.in; }) {
      static_cast<void>(((index == I && (value.template emplace<I>(), true)) || ...));
    }
    std::visit(*this, value);
  }
  // A variant: which alternative, then its fields.
  template <class Variant>
  void one_of(Variant& value, std::string_view what) const {
    uint64_t index = value.index();
    if constexpr (requires { a.in; }) {
      index = a.in.number_up_to(std::variant_size_v<Variant> - 1, what);
    } else {
      a.bits(index);
    }
    alternative(value, index, std::make_index_sequence<std::variant_size_v<Variant>>());
  }

  void operator()(Allocate& s) const { a.index(s.buffer, "buffer"); }
  void operator()(AllocateFromPool& s) const {
    a.index(s.buffer, "buffer");
    a.index(s.pool, "pool");
    a.dim(s.offset);
  }
  void operator()(Free& s) const { a.index(s.buffer, "buffer"); }
  void operator()(Reuse& s) const {
    a.index(s.from, "buffer");
    a.index(s.buffer, "buffer");
  }
  void operator()(Reinterpret& s) const {
    a.index(s.source, "buffer");
    a.index(s.buffer, "buffer");
  }
  void operator()(LoadConstant& s) const { a.index(s.buffer, "buffer"); }
  void operator()(Copy& s) const {
    a.index(s.source, "buffer");
    a.index(s.target, "buffer");
  }
  void operator()(Fill& s) const {
    a.index(s.buffer, "buffer");
    a.choice(s.mode, 3, "zero mode");
    a.bits(s.bits);
  }
  void operator()(DefineKernel& s) const { a.index(s.kernel, "kernel"); }
  void operator()(TensorMap& s) const {
    a.choice(s.kind, 2, "kind of a tensor map");
    a.index(s.argument, "argument");
    for (auto* sizes : {&s.box, &s.element_strides, &s.lower_corner, &s.upper_corner}) integers(*sizes);
    a.small(s.channels, 0, INT32_MAX, "channels");
    a.small(s.pixels, 0, INT32_MAX, "pixels");
    a.choice(s.swizzle, 4, "swizzle");
    a.choice(s.interleave, 3, "interleave");
    a.choice(s.promotion, 4, "promotion");
    a.flag(s.nan_outside);
  }
  void operator()(LaunchOptions& s) const {
    for (auto* dims : {&s.grid, &s.block}) {
      for (Dim& dim : *dims) a.dim(dim);
    }
    for (int32_t& blocks : s.cluster) a.small(blocks, 1, INT32_MAX, "cluster");
    a.flag(s.cooperative);
    a.flag(s.programmatic);
    a.dim(s.shared_bytes);
    a.list(s.sizes, "number of sizes", [&](Dim& dim) { a.dim(dim); });
    a.list(s.maps, "number of tensor maps", [&](TensorMap& map) { (*this)(map); });
    bool window = s.window.has_value();
    a.flag(window);
    if (!window) return;
    if (!s.window) s.window.emplace();
    a.index(s.window->argument, "argument");
    a.dim(s.window->bytes);
    a.small(s.window->per_mille, 1, 1000, "part of accesses");
  }
  void operator()(LaunchKernel& s) const {
    a.index(s.kernel, "kernel");
    bool has_product = s.product.has_value();
    a.flag(has_product);
    if (has_product) {
      Product& product = s.product ? *s.product : s.product.emplace();
      a.index(product.a, "buffer");
      a.index(product.b, "buffer");
      a.flag(product.a_transposed);
      a.flag(product.b_transposed);
      for (FactorView* view : {&product.a_view, &product.b_view}) {
        a.list(*view, "number of dims", [&](FactorDim& dim) {
          int32_t of = dim.dim;
          a.small(of, 0, UINT8_MAX, "dim");
          if constexpr (requires { a.in; }) dim.dim = static_cast<uint8_t>(of);
          a.dim(dim.scale);
          a.dim(dim.size);
        });
      }
      a.dim(product.k);
      buffers(product.more_b, "number of further products");
      a.list(product.b_made, "number of prologues", [&](Prologue& prologue) {
        a.index(prologue.kernel, "kernel");
        buffers(prologue.arguments, "number of arguments");
      });
    }
    for (Dim* dim : {&s.batch, &s.m, &s.n}) a.dim(*dim);
    buffers(s.arguments, "number of arguments");
    bool plain = s.options == LaunchOptions{};
    a.flag(plain);
    if (plain) return;
    (*this)(s.options);
    if constexpr (requires { a.in; }) {
      if (s.options == LaunchOptions{}) a.in.damage("options of a launch say nothing");  // one form a value
    }
  }
  void operator()(CallExtern& s) const {
    a.text(s.name, "length of a name");
    buffers(s.inputs, "number of inputs");
    a.choice(s.form, 2, "form of an extern");
    buffers(s.outputs, "number of outputs");
    a.index(s.result, "result");
    a.index(s.output_count, "number of outputs");
  }
  void operator()(SelectOutput& s) const {
    a.index(s.result, "result");
    a.index(s.output, "output");
    a.index(s.buffer, "buffer");
  }
  void operator()(IndexPut& s) const {
    a.index(s.target, "buffer");
    buffers(s.indices, "number of indices");
    a.index(s.values, "buffer");
    a.flag(s.accumulate);
  }
  void operator()(Scatter& s) const {
    a.index(s.target, "buffer");
    a.index(s.index, "buffer");
    a.index(s.source, "buffer");
    a.small(s.dim, 0, max_rank - 1, "dim");
    a.choice(s.reduce, 5, "reduction of a scatter");
  }
  void operator()(DefineSymbol& s) const {
    a.text(s.symbol, "length of a symbol");
    a.index(s.buffer, "buffer");
    a.small(s.dim, 0, max_rank - 1, "dim");
    a.choice(s.from, 6, "origin of a symbol");
    a.index(s.output, "output");
    a.dim(s.value);
    a.dim(s.divisor);
  }
  void why(std::string& text) const { a.text(text, "length of a reason"); }
  void operator()(EqualGuard& s) const {
    a.dim(s.left);
    a.dim(s.right);
    why(s.why);
  }
  void operator()(UnitStrideGuard& s) const { a.index(s.buffer, "buffer"); }
  void operator()(NoOverlapGuard& s) const {
    a.index(s.output, "buffer");
    a.index(s.other, "buffer");
    a.flag(s.in_place_ok);
  }
  void operator()(SizeGuard& s) const {
    a.index(s.buffer, "buffer");
    a.small(s.dim, 0, max_rank - 1, "dim");
    a.dim(s.size);
  }
  void operator()(StrideGuard& s) const {
    a.index(s.buffer, "buffer");
    a.small(s.dim, 0, max_rank - 1, "dim");
    a.dim(s.stride);
  }
  void operator()(AlignmentGuard& s) const {
    a.index(s.buffer, "buffer");
    a.integer(s.bytes);
  }
  void operator()(DivisibleGuard& s) const {
    a.dim(s.value);
    a.dim(s.divisor);
    why(s.why);
  }
  void operator()(RangeGuard& s) const {
    for (Dim* dim : {&s.value, &s.least, &s.most}) a.dim(*dim);
    why(s.why);
  }
  void operator()(NanGuard& s) const {
    a.index(s.buffer, "buffer");
    a.flag(s.infinity);
    why(s.why);
  }
  void operator()(IndexGuard& s) const {
    a.index(s.buffer, "buffer");
    a.dim(s.size);
  }
  void operator()(Check& s) const { one_of(s.guard, "guard"); }
  void operator()(EnterDevice& s) const { a.index(s.device, "device"); }
  void operator()(ExitDevice&) const {}
  void operator()(EnterStream& s) const { a.index(s.stream, "stream"); }
  void operator()(ExitStream&) const {}
  void operator()(RecordEvent& s) const { a.index(s.event, "event"); }
  void operator()(WaitEvent& s) const { a.index(s.event, "event"); }
  void operator()(EnterSubgraph& s) const {
    a.text(s.name, "length of a name");
    buffers(s.results, "number of results");
  }
  void operator()(ExitSubgraph&) const {}
  void operator()(If& s) const {
    a.index(s.predicate, "buffer");
    a.index(s.then_list, "list");
    a.index(s.else_list, "list");
  }
  void operator()(While& s) const {
    a.index(s.condition, "list");
    a.index(s.predicate, "buffer");
    a.index(s.body, "list");
    a.integer(s.limit);
  }
  void operator()(Comment& s) const { a.text(s.text, "length of a comment"); }
  void operator()(Return&) const {}
};

}  // namespace

void write(ByteWriter& out, const StepList& steps) {
  StepFieldWriter writer{out};
  out.number(steps.size());
  for (const Step& step : steps) {
    Step copy = step;  // both directions share the list of fields, which reading writes to
    StepFields<StepFieldWriter>{writer}.one_of(copy, "step");
  }
}

StepList read_steps(ByteReader& in) {
  StepFieldReader reader{in};
  StepList steps;
  for (size_t n = in.count(max_items, "number of steps"); n > 0 && in.ok(); --n)
    StepFields<StepFieldReader>{reader}.one_of(steps.emplace_back(), "step");
  return steps;
}

}  // namespace codetta::package

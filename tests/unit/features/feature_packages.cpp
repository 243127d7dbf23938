// SPDX-License-Identifier: Apache-2.0
#include "feature_packages.hpp"

#include <functional>

namespace codetta::features {
namespace {

using namespace package;
using runtime::test::StepProgram;

template <class S, class V, size_t I = 0>
constexpr size_t index_in() {
  if constexpr (std::is_same_v<S, std::variant_alternative_t<I, V>>) {
    return I;
  } else {
    return index_in<S, V, I + 1>();
  }
}

Dim c(int64_t value) { return Dim::constant(value); }

int nothing(void*, const CodettaTensor*, int, CodettaTensor*, int) { return 0; }

// Buffers that all packages have.
struct Base {
  StepProgram& p;
  uint32_t x, y, index, flag, one, a, b;
};

struct Maker {
  std::vector<Feature> features;
  std::string group;

  template <class... S>
  void add(const std::string& row, const std::function<void(Base&)>& build) {
    Feature feature{group, row, {index_in<S, Step>()...}, {}, std::make_unique<StepProgram>()};
    StepProgram& p = *feature.program;
    Base base{p,
              p.argument("x", f32, {4, 4}),
              p.output("y", f32, {4, 4}),
              p.argument("index", i32, {4, 4}, std::vector<double>(16, 0)),
              p.argument("flag", boolean, {1}, {0}),
              p.argument("one", i64, {1}, {1}),
              p.temporary("a", f32, {c(4), c(4)}),
              p.temporary("b", f32, {c(4), c(4)})};
    p.provide("nothing", nothing);
    p.package.device_count = p.package.stream_count = p.package.event_count = p.package.result_count = 2;
    build(base);
    features.push_back(std::move(feature));
  }
  template <class G>
  void guard(const std::string& row, G guard) {
    add<Check>(row, [&](Base& base) { base.p.put(StepProgram::check(guard)); });
    features.back().guards.push_back(index_in<G, Guard>());
  }
  void launch(const std::string& row, const std::function<void(LaunchKernel&)>& change) {
    add<LaunchKernel>(row, [&](Base& base) {
      LaunchKernel step = base.p.product(base.x, base.x, base.y, c(4), c(4), c(4));
      change(step);
      base.p.put(step);
    });
  }
};

void memory(Maker& m) {
  m.group = "Memory";
  m.add<Allocate, Free>("allocate, free", [](Base& s) { s.p.put(Allocate{s.a}, Free{s.a}); });
  m.add<AllocateFromPool>("allocate from a pool", [](Base& s) {
    s.p.package.pools = {{0, c(64), 64}};
    s.p.put(AllocateFromPool{s.a, 0, {}}, Free{s.a});
  });
  m.add<AllocateFromPool>("memory whose size a run computes", [](Base& s) {
    s.p.package.buffers[s.a].shape = {Dim::symbol("n")};
    s.p.package.pools = {{0, Dim::symbol("n") * c(4), 64}};
    s.p.put(DefineSymbol{"n", s.one, 0, DefineSymbol::From::Value}, AllocateFromPool{s.a, 0, {}}, Free{s.a});
  });
  m.add<DefineSymbol, Reinterpret>("output whose size a run computes", [](Base& s) {
    s.p.package.buffers[s.y].shape = {Dim::symbol("y_capacity"), c(4)};
    s.p.package.buffers[s.y].filled = s.p.package.buffers[s.a].shape = {Dim::symbol("n"), c(4)};
    s.p.package.buffers[s.a].strides = {Dim::symbol("row"), c(1)};
    s.p.put(DefineSymbol{"y_capacity", s.y, 0}, DefineSymbol{"row", s.y, 0, DefineSymbol::From::Stride},
            DefineSymbol{"n", s.one, 0, DefineSymbol::From::Value}, Reinterpret{s.y, s.a}, Fill{s.a}, Return{});
  });
  m.add<Reuse>("reuse", [](Base& s) { s.p.put(Allocate{s.a}, Reuse{s.a, s.b}, Free{s.b}); });
  m.add<Reuse>("reuse of a donated argument", [](Base& s) {
    s.p.package.buffers[s.x].donated = true;
    s.p.package.buffers[s.a].alignment = 4;  // a caller's memory is aligned as its elements
    s.p.put(Reuse{s.x, s.a});
  });
  m.add<Reuse, Reinterpret>("views of memory that was donated", [](Base& s) {
    s.p.package.buffers[s.x].donated = true;
    s.p.package.buffers[s.a].alignment = 4;
    s.p.put(Reuse{s.x, s.a}, Reinterpret{s.a, s.b}, Fill{s.b}, Free{s.b});
  });
  m.add<Reinterpret>("view with strides and an offset", [](Base& s) {
    s.p.package.buffers[s.a].shape = {c(3)};
    s.p.package.buffers[s.a].strides = {c(4)};
    s.p.package.buffers[s.a].offset = c(8);
    s.p.put(Reinterpret{s.x, s.a});
  });
  const auto constant = [](Base& s, bool inside) {
    Buffer buffer{"w", Buffer::Role::Constant, f32, false, {c(1)}, inside ? std::string(4, '\0') : ""};
    if (!inside) buffer.external = "weight";
    s.p.package.buffers.push_back(buffer);
    static const float value = 1;
    s.p.options.weights = [](const std::string&) -> std::optional<TensorView> {
      return TensorView::make(static_cast<const void*>(&value), f32, {1}).value();
    };
    s.p.put(LoadConstant{static_cast<uint32_t>(s.p.package.buffers.size() - 1)});
  };
  m.add<LoadConstant>("constant in the package", [&](Base& s) { constant(s, true); });
  m.add<LoadConstant>("constant in a weights file", [&](Base& s) { constant(s, false); });
  m.add<Copy>("copy", [](Base& s) { s.p.put(Copy{s.x, s.y}); });
  m.add<Copy>("copy of a strided view", [](Base& s) {
    s.p.package.buffers[s.a].strides = {c(1), c(4)};
    s.p.put(Reinterpret{s.x, s.a}, Copy{s.a, s.y});
  });
  m.add<Copy>("copy between devices", [](Base& s) {
    s.p.package.buffers[s.a].device = 1;
    s.p.put(EnterDevice{1}, Allocate{s.a}, Copy{s.x, s.a}, ExitDevice{}, Free{s.a});
  });
  m.add<Fill>("fill with zeros", [](Base& s) { s.p.put(Fill{s.y}); });
  m.add<Fill>("fill with any value", [](Base& s) { s.p.put(Fill{s.y, ZeroMode::PerCall, 0x3F800000}); });
  m.add<Fill>("fill once", [](Base& s) { s.p.put(Allocate{s.a}, Fill{s.a, ZeroMode::Once}, Free{s.a}); });
}

void kernels(Maker& m) {
  m.group = "Kernels";
  m.launch("launch", [](LaunchKernel&) {});
  m.add<LaunchKernel>("launch without a product", [](Base& s) { s.p.put(s.p.copy_kernel(s.x, s.y, c(4), c(4))); });
  m.add<LaunchKernel>("several products of one A", [](Base& s) {
    LaunchKernel step = s.p.product(s.x, s.x, s.y, c(4), c(8), c(4));
    step.product->more_b = {s.x};
    EpilogueProgram& program = s.p.package.kernels.back().epilogue;
    program.split = {2, c(1), 2};
    program.arguments[0].shape = {c(4), c(4)};
    std::vector<Inst>& insts = program.phases[0].insts;
    insts.push_back(insts[0]);
    insts[1].index = 1;
    Inst sum;
    sum.op = types::Op::add;
    sum.type = sum.aux = f32;
    sum.in[1] = 1;
    sum.arity = 2;
    insts.push_back(sum);
    program.phases[0].stores[0].value = 2;
    s.p.put(step);
  });
  m.add<LaunchKernel>("factor that is made where it is read", [](Base& s) {
    const uint32_t maker = s.p.copy_kernel(s.x, s.y, c(4), c(4)).kernel;
    LaunchKernel step = s.p.product(s.x, s.x, s.y, c(4), c(4), c(4));
    step.product->b_made = {{maker, {s.x}}};
    s.p.put(step);
  });
  m.add<LaunchKernel>("kernel of the user's", [](Base& s) {
    LaunchKernel step = s.p.copy_kernel(s.x, s.y, c(4), c(4));
    package::Kernel& kernel = s.p.package.kernels.back();
    kernel.config = CpuUserConfig{};
    kernel.source = "int codetta_user() { return 0; }";
    kernel.epilogue.arguments.back().is_output = true;
    s.p.kernels.resize(s.p.package.kernels.size());
    s.p.kernels.back().user = nothing;
    s.p.put(step);
  });
  m.add<LaunchKernel>("kernel of the user's that hands a result over", [](Base& s) {
    LaunchKernel step = s.p.copy_kernel(s.x, s.y, c(4), c(4));
    package::Kernel& kernel = s.p.package.kernels.back();
    kernel.config = CpuUserConfig{};
    kernel.name = hands_over;
    kernel.source = "int codetta_user() { return 1; }";
    kernel.epilogue.arguments.back().is_output = true;
    s.p.kernels.resize(s.p.package.kernels.size());
    s.p.kernels.back().user = nothing;
    s.p.put(step);
  });
  m.add<DefineKernel>("definition", [](Base& s) {
    s.p.put(DefineKernel{0});
    s.p.put(s.p.product(s.x, s.x, s.y, c(4), c(4), c(4)));
  });
  m.launch("programmatic dependent launch", [](LaunchKernel& l) { l.options.programmatic = true; });
  m.launch("grid and block of its own", [](LaunchKernel& l) {
    l.options.grid = {c(1), c(1), c(1)};
    l.options.block = {c(32), c(1), c(1)};
  });
  m.launch("cluster", [](LaunchKernel& l) { l.options.cluster = {2, 1, 1}; });
  m.launch("cooperative launch", [](LaunchKernel& l) { l.options.cooperative = true; });
  m.launch("more dynamic shared memory", [](LaunchKernel& l) { l.options.shared_bytes = c(1024); });
  m.launch("sizes as arguments", [](LaunchKernel& l) { l.options.sizes = {c(4)}; });
  m.launch("tiled tensor map", [](LaunchKernel& l) { l.options.maps.emplace_back().box = {4, 4}; });
  m.add<LaunchKernel>("im2col tensor map", [](Base& s) {
    LaunchKernel step = s.p.copy_kernel(s.x, s.y, c(4), c(4));
    step.arguments[0] = s.p.argument("image", f32, {1, 4, 4, 8});
    TensorMap map;
    map.kind = TensorMap::Kind::Im2col;
    map.lower_corner = map.upper_corner = {-1, -1};
    map.channels = map.pixels = 8;
    step.options.maps.push_back(map);
    s.p.put(step);
  });
  m.launch("L2 window", [](LaunchKernel& l) { l.options.window = L2Window{0, c(64), 1000}; });
}

void other_work(Maker& m) {
  m.group = "Other work";
  m.add<CallExtern>("extern that writes its outputs", [](Base& s) {
    s.p.put(CallExtern{"nothing", {s.x}, CallExtern::Form::Out, {s.y}});
  });
  m.add<CallExtern, SelectOutput>("extern that allocates its outputs", [](Base& s) {
    s.p.put(CallExtern{"nothing", {s.x}, CallExtern::Form::Alloc, {}, 0, 1}, SelectOutput{0, 0, s.a}, Free{s.a});
  });
  m.add<IndexPut>("index_put", [](Base& s) { s.p.put(IndexPut{s.y, {s.index, s.index}, s.x, true}); });
  m.add<Scatter>("scatter", [](Base& s) { s.p.put(Scatter{s.y, s.index, s.x, 1, ScatterReduce::Sum}); });
}

void symbols(Maker& m) {
  using From = DefineSymbol::From;
  m.group = "Symbols";
  m.add<DefineSymbol>("size", [](Base& s) { s.p.put(DefineSymbol{"n", s.x, 0}); });
  m.add<DefineSymbol>("stride", [](Base& s) { s.p.put(DefineSymbol{"n", s.x, 0, From::Stride}); });
  m.add<DefineSymbol>("expression, divided", [](Base& s) {
    s.p.put(DefineSymbol{"n", 0, 0, From::Expression, 0, c(8), c(2)});
  });
  m.add<DefineSymbol>("scalar argument", [](Base& s) {
    const uint32_t scalar = s.p.scalar("count", i64, 4);
    s.p.put(DefineSymbol{"n", scalar, 0, From::Value});
  });
  m.add<DefineSymbol>("value of a tensor", [](Base& s) { s.p.put(DefineSymbol{"n", s.one, 0, From::Value}); });
  m.add<DefineSymbol>("value that the run computes", [](Base& s) {
    const uint32_t count = s.p.temporary("count", i64, {});
    s.p.put(Allocate{count}, Fill{count}, DefineSymbol{"n", count, 0, From::Value});
    s.p.package.buffers[s.a].shape = {Dim::symbol("n")};
    s.p.package.pools = {{0, Dim::symbol("n") * c(4), 64}};
    s.p.put(AllocateFromPool{s.a, 0, {}}, Free{s.a});
  });
  m.add<DefineSymbol>("size of an extern's output", [](Base& s) {
    s.p.put(CallExtern{"nothing", {}, CallExtern::Form::Alloc, {}, 0, 1}, DefineSymbol{"n", 0, 0, From::OutputSize});
  });
}

void checks(Maker& m) {
  m.group = "Checks";
  m.guard("equal sizes", EqualGuard{c(1), c(1), "one"});
  m.guard("unit stride", UnitStrideGuard{0});
  m.guard("no overlap", NoOverlapGuard{1, 0, false});
  m.add<Check>("no overlap of a donated argument", [](Base& base) {
    base.p.package.buffers[base.x].donated = true;
    base.p.put(StepProgram::check(NoOverlapGuard{base.x, base.index, false}));
  });
  m.guard("size of a dim", SizeGuard{0, 0, c(4)});
  m.guard("stride of a dim", StrideGuard{0, 0, c(4)});
  m.guard("alignment", AlignmentGuard{0, 16});
  m.guard("divisibility", DivisibleGuard{c(4), c(2), ""});
  m.guard("range", RangeGuard{c(1), c(0), c(2), ""});
  m.guard("NaN and infinity", NanGuard{0, true, ""});
  m.guard("indices in range", IndexGuard{2, c(4)});
}

void scopes(Maker& m) {
  m.group = "Scopes and control flow";
  m.add<EnterDevice, ExitDevice>("first device", [](Base& s) { s.p.put(EnterDevice{0}, ExitDevice{}); });
  m.add<EnterDevice, ExitDevice>("further devices", [](Base& s) { s.p.put(EnterDevice{1}, ExitDevice{}); });
  m.add<EnterStream, ExitStream, RecordEvent, WaitEvent>("streams and events, in list order", [](Base& s) {
    s.p.put(EnterStream{1}, RecordEvent{0}, ExitStream{}, WaitEvent{0});
  });
  m.add<EnterSubgraph, ExitSubgraph>("called functions", [](Base& s) {
    s.p.put(EnterSubgraph{"f", {}}, ExitSubgraph{});
  });
  m.add<If>("if", [](Base& s) { s.p.put(If{s.flag, s.p.list({Fill{s.y}}), s.p.list({})}); });
  m.add<While>("while", [](Base& s) { s.p.put(While{s.p.list({}), s.flag, s.p.list({Fill{s.y}}), 1}); });
  m.add<If, Check>("check in a child list", [](Base& s) {
    s.p.put(If{s.flag, s.p.list({StepProgram::check(EqualGuard{c(1), c(1), ""})}), s.p.list({})});
  });
  m.add<If, DefineSymbol>("size that a branch or loop computes", [](Base& s) {
    s.p.package.buffers[s.a].shape = {Dim::symbol("n")};
    s.p.package.pools = {{0, Dim::symbol("n") * c(4), 64}};
    s.p.put(If{s.flag,
               s.p.list({DefineSymbol{"n", s.one, 0, DefineSymbol::From::Value}, AllocateFromPool{s.a, 0, {}},
                         Fill{s.a}, Free{s.a}}),
               s.p.list({})});
  });
  m.add<Comment, Return>("comment, return", [](Base& s) { s.p.put(Comment{"words"}, Return{}); });
}

}  // namespace

std::vector<Feature> all_features() {
  Maker maker;
  memory(maker);
  kernels(maker);
  other_work(maker);
  symbols(maker);
  checks(maker);
  scopes(maker);
  return std::move(maker.features);
}

}  // namespace codetta::features

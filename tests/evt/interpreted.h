// SPDX-License-Identifier: Apache-2.0
// CUTLASS's visitors as functions of one element, so that emitted trees run on the host: the same templates and
// Arguments, CUTLASS's own numbers, converters and functionals, and none of its kernels. What each does is read in the
// headers of CUTLASS 4.2 (epilogue/fusion/sm90_visitor_*.hpp, epilogue/threadblock/fusion/visitor_*.hpp).
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cute/int_tuple.hpp"
#include "cute/stride.hpp"
#include "cutlass/array.h"
#include "cutlass/functional.h"
#include "cutlass/gemm/gemm.h"
#include "cutlass/numeric_conversion.h"
#include "cutlass/numeric_types.h"

// The functions of a device that emitted functors call.
template <class To, class From>
To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}
inline float __double2float_rz(double x) {
  float const f = static_cast<float>(x);
  return std::fabs(static_cast<double>(f)) > std::fabs(x) ? std::nextafterf(f, 0.0f) : f;
}
inline int __float_as_int(float x) { return same_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }
inline float __int_as_float(int x) { return same_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return same_bits<float>(x); }
inline long long __double_as_longlong(double x) { return same_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return same_bits<double>(x); }
// With the types that CUDA has them for, and no others.
#define INTERPRETED_ATOMICS(T)                                                                             \
  inline T atomicMin(T* place, T value) { return std::exchange(*place, *place < value ? *place : value); } \
  inline T atomicMax(T* place, T value) { return std::exchange(*place, *place > value ? *place : value); }
INTERPRETED_ATOMICS(int)
INTERPRETED_ATOMICS(unsigned)
INTERPRETED_ATOMICS(long long)
INTERPRETED_ATOMICS(unsigned long long)
#undef INTERPRETED_ATOMICS
#define INTERPRETED_SUM(T) \
  inline T atomicAdd(T* place, T value) { return std::exchange(*place, *place + value); }
INTERPRETED_SUM(int)
INTERPRETED_SUM(unsigned)
INTERPRETED_SUM(unsigned long long)
INTERPRETED_SUM(float)
INTERPRETED_SUM(double)
#undef INTERPRETED_SUM
inline struct { unsigned x = 0; } threadIdx;

namespace interpreted {

using cutlass::FloatRoundStyle;

// Two lanes, as fragments have several: functions of fragments are what trees call.
template <class T>
using Fragment = cutlass::Array<T, 2>;
template <class To, FloatRoundStyle Round = FloatRoundStyle::round_to_nearest, class From>
Fragment<To> converted(Fragment<From> const& x) {
  // Those of arrays are written for devices, and give the same; so are those to integers, which saturate there.
  cutlass::NumericConverter<To, From, Round> const converter;
  Fragment<To> result;
  for (int i = 0; i < 2; ++i) {
    if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
      using Limits = std::numeric_limits<To>;
      if (!(x[i] < static_cast<From>(Limits::max()))) {
        result[i] = x[i] == x[i] ? Limits::max() : To(0);
        continue;
      }
      if (x[i] <= static_cast<From>(Limits::min())) {
        result[i] = Limits::min();
        continue;
      }
    }
    result[i] = converter(x[i]);
  }
  return result;
}
template <class T>
Fragment<T> filled(T x) {
  Fragment<T> fragment;
  fragment.fill(x);
  return fragment;
}

// An element, with what the kernel has there.
template <class Accumulator>
struct Place {
  int64_t m, n, l;
  Accumulator accumulator;
  void const* source;  // C of the collective
  int64_t source_strides[3];
};
template <class P>
int64_t offset(P const& place, int64_t m, int64_t n, int64_t l) {
  return place.m * m + place.n * n + place.l * l;
}
template <class P, class Stride>
int64_t offset(P const& place, Stride const& stride) {
  return offset(place, int64_t(cute::get<0>(stride)), int64_t(cute::get<1>(stride)), int64_t(cute::get<2>(stride)));
}

struct AccFetch {
  struct Arguments {};
  AccFetch(Arguments const&) {}
  template <class A>
  Fragment<A> visit(Place<A> const& place) {
    return filled(place.accumulator);
  }
  void commit() {}
  void finish() {}
};

template <class Element>
struct SrcFetch {
  struct Arguments {};
  SrcFetch(Arguments const&) {}
  template <class P>
  Fragment<Element> visit(P const& place) {
    auto const* s = place.source_strides;
    return filled(static_cast<Element const*>(place.source)[offset(place, s[0], s[1], s[2])]);
  }
  void commit() {}
  void finish() {}
};

// Of full tensors, rows and columns. Result: what the visitor's fragments hold.
template <class Element, class Result, class Stride>
struct Load {
  struct Arguments {
    Element const* pointer = nullptr;
    Element null_default = Element(0);
    Stride stride = {};
  };
  Load(Arguments const& arguments) : arguments(arguments) {}
  template <class P>
  Fragment<Result> visit(P const& place) {
    return converted<Result>(filled(arguments.pointer[offset(place, arguments.stride)]));
  }
  void commit() {}
  void finish() {}
  Arguments arguments;
};

template <class Element, class Stride>
struct ScalarBroadcast {
  struct Arguments {
    Element scalars[1] = {};
    Element const* scalar_ptrs[1] = {};
    Stride dScalar[1] = {};
  };
  ScalarBroadcast(Arguments const& arguments) : arguments(arguments) {}
  template <class P>
  Fragment<Element> visit(P const& place) {
    if (arguments.scalar_ptrs[0] == nullptr) return filled(arguments.scalars[0]);
    return filled(arguments.scalar_ptrs[0][place.l * int64_t(cute::get<2>(arguments.dScalar[0]))]);
  }
  void commit() {}
  void finish() {}
  Arguments arguments;
};

template <template <class> class Function, class Output, class Compute, FloatRoundStyle Round>
struct ComputeNode {
  struct Arguments {};
  ComputeNode(Arguments const&) {}
  template <class P, class... Inputs>
  Fragment<Output> visit(P const&, Fragment<Inputs> const&... inputs) {
    return converted<Output, Round>(Function<Fragment<Compute>>{}(converted<Compute, Round>(inputs)...));
  }
  void commit() {}
  void finish() {}
};

template <class Element, FloatRoundStyle Round, class Stride>
struct AuxStore {
  struct Arguments {
    Element* pointer = nullptr;
    Stride stride = {};
  };
  AuxStore(Arguments const& arguments) : arguments(arguments) {}
  template <class P, class Input>
  Fragment<Input> visit(P const& place, Fragment<Input> const& input) {
    at = offset(place, arguments.stride);
    value = converted<Element, Round>(input)[1];
    return input;
  }
  // Behind all loads of the element, as kernels store.
  void commit() { arguments.pointer[at] = value; }
  void finish() {}
  Arguments arguments;
  int64_t at = 0;
  Element value;
};

// CUTLASS's atomic operations are there for devices only: theirs are taken to do what the function of registers does.
template <template <class> class Function>
struct IsOfDevice : std::false_type {};
template <>
struct IsOfDevice<cutlass::atomic_add> : std::true_type {};
template <>
struct IsOfDevice<cutlass::atomic_maximum> : std::true_type {};

template <template <class> class Function, template <class> class InMemory, class Output, class Compute,
          FloatRoundStyle Round, class Stride>
struct Reduction {
  struct Arguments {
    Output* pointer = nullptr;
    Compute identity = 0;
    Stride stride = {};
  };
  Reduction(Arguments const& arguments) : arguments(arguments) {}
  template <class P, class Input>
  Fragment<Input> visit(P const& place, Fragment<Input> const& input) {
    Compute const value = converted<Compute, Round>(input)[1];
    int64_t const at = offset(place, arguments.stride);
    auto const [found, is_first] = sums.try_emplace(at, arguments.identity);
    if constexpr (in_memory) {
      if (is_first) arguments.pointer[at] = Output(arguments.identity);
      InMemory<Output>{}(arguments.pointer + at, Output(value));
    }
    found->second = Function<Compute>{}(found->second, value);
    return input;
  }
  void commit() {}
  void finish() {
    if constexpr (in_memory) return;
    for (auto const& [at, sum] : sums) arguments.pointer[at] = cutlass::NumericConverter<Output, Compute, Round>{}(sum);
  }
  static constexpr bool in_memory = cutlass::is_atomic<InMemory<Output>>::value && !IsOfDevice<InMemory>::value;
  Arguments arguments;
  std::map<int64_t, Compute> sums;
};

// Sm80's of everything: each lane of a warp calls the function of memory with the sum of all (`end_epilogue` of CUTLASS
// 4.2 asks no lane), here with that of one element.
template <template <class> class Function, template <class> class InMemory, class Output, class Compute,
          FloatRoundStyle Round, class Stride>
struct ReductionByEachLane : Reduction<Function, InMemory, Output, Compute, Round, Stride> {
  using Base = Reduction<Function, InMemory, Output, Compute, Round, Stride>;
  using Base::Base;
  static_assert(!std::is_same_v<InMemory<Output>, cutlass::atomic_add<Output>>, "it would add 32 times what it has");
  template <class P, class Input>
  Fragment<Input> visit(P const& place, Fragment<Input> const& input) {
    if constexpr (!Base::in_memory) return Base::visit(place, input);
    Compute const value = converted<Compute, Round>(input)[1];
    Output* const at = this->arguments.pointer + offset(place, this->arguments.stride);
    if (this->sums.try_emplace(at - this->arguments.pointer, value).second) *at = Output(this->arguments.identity);
    for (threadIdx.x = 0; threadIdx.x < 32; ++threadIdx.x) InMemory<Output>{}(at, Output(value));
    return input;
  }
};

// Up to four ops are a plain struct.
template <class... Ops>
struct ArgumentsOf {
  using type = cute::tuple<typename Ops::Arguments...>;
  template <size_t I>
  static auto get(type const& arguments) {
    return cute::get<I>(arguments);
  }
};
template <class A>
struct ArgumentsOf<A> {
  struct type {
    typename A::Arguments op_0;
  };
  template <size_t I>
  static auto get(type const& a) {
    return a.op_0;
  }
};
template <class A, class B>
struct ArgumentsOf<A, B> {
  struct type {
    typename A::Arguments op_0;
    typename B::Arguments op_1;
  };
  template <size_t I>
  static auto get(type const& a) {
    if constexpr (I == 0) return a.op_0;
    if constexpr (I == 1) return a.op_1;
  }
};
template <class A, class B, class C>
struct ArgumentsOf<A, B, C> {
  struct type {
    typename A::Arguments op_0;
    typename B::Arguments op_1;
    typename C::Arguments op_2;
  };
  template <size_t I>
  static auto get(type const& a) {
    if constexpr (I == 0) return a.op_0;
    if constexpr (I == 1) return a.op_1;
    if constexpr (I == 2) return a.op_2;
  }
};
template <class A, class B, class C, class D>
struct ArgumentsOf<A, B, C, D> {
  struct type {
    typename A::Arguments op_0;
    typename B::Arguments op_1;
    typename C::Arguments op_2;
    typename D::Arguments op_3;
  };
  template <size_t I>
  static auto get(type const& a) {
    if constexpr (I == 0) return a.op_0;
    if constexpr (I == 1) return a.op_1;
    if constexpr (I == 2) return a.op_2;
    if constexpr (I == 3) return a.op_3;
  }
};

template <class... Ops>
struct Several {
  using Form = ArgumentsOf<Ops...>;
  using Arguments = typename Form::type;
  Several(Arguments const& arguments) : Several(arguments, std::index_sequence_for<Ops...>{}) {}
  void commit() {
    std::apply([](auto&... op) { (op.commit(), ...); }, ops);
  }
  void finish() {
    std::apply([](auto&... op) { (op.finish(), ...); }, ops);
  }
  std::tuple<Ops...> ops;

 private:
  template <size_t... I>
  Several(Arguments const& arguments, std::index_sequence<I...>) : ops(Form::template get<I>(arguments)...) {}
};

// Children, then the node that takes their values.
template <class Node, class... Children>
struct Tree : Several<Children..., Node> {
  using Several<Children..., Node>::Several;
  template <class P>
  auto visit(P const& place) {
    return visit(place, std::index_sequence_for<Children...>{});
  }

 private:
  template <class P, size_t... I>
  auto visit(P const& place, std::index_sequence<I...>) {
    auto values = std::tuple{std::get<I>(this->ops).visit(place)...};
    return std::get<sizeof...(I)>(this->ops).visit(place, std::get<I>(values)...);
  }
};

template <class Compute, class Edges, class... Ops>
struct Graph : Several<Ops...> {
  static_assert(cute::rank(Edges{}) == sizeof...(Ops));
  using Several<Ops...>::Several;
  template <class P>
  auto visit(P const& place) {
    constexpr size_t last = sizeof...(Ops) - 1;
    Fragment<Compute> values[last];
    visit_first(place, values, std::make_index_sequence<last>{});
    return one<last>(place, values, cute::get<last>(Edges{}));
  }

 private:
  template <class P, size_t... I>
  void visit_first(P const& place, Fragment<Compute>* values, std::index_sequence<I...>) {
    ((values[I] = converted<Compute>(one<I>(place, values, cute::get<I>(Edges{})))), ...);
  }
  template <size_t I, class P, int... Inputs>
  auto one(P const& place, Fragment<Compute> const* values, cute::seq<Inputs...>) {
    static_assert(((Inputs < int(I)) && ...), "an input that comes later");
    return std::get<I>(this->ops).visit(place, values[Inputs]...);
  }
};

}  // namespace interpreted

namespace cutlass::arch {
struct OpClassTensorOp;
}
namespace cutlass::epilogue {
struct TmaWarpSpecialized;
struct TmaWarpSpecializedCooperative;
struct TmaWarpSpecialized1Sm;
struct TmaWarpSpecialized2Sm;
}  // namespace cutlass::epilogue
namespace cutlass::epilogue::collective {
struct EpilogueTileAuto;
namespace detail {
template <class Tile, class Auto, class C, class D, class Schedule>
struct EpilogueDescriptor {
  using TileShape = Tile;
  using EpilogueTile = Auto;
};
template <class Op, class Tile, class Auto, class Accumulator, class C, class D, class Schedule, class StrideC,
          class StrideD, bool, bool>
struct Sm100EpilogueDescriptor : EpilogueDescriptor<Tile, Auto, C, D, Schedule> {};
template <class Descriptor, class Stride_, class Element_>
struct AuxLoadDescriptor {
  static constexpr int Stages = 1;
  using Element = Element_;
  using Stride = Stride_;
  using SmemLayoutAtom = void;
  using CopyOpS2R = void;
  using CopyOpR2S = void;
};
template <class Descriptor, class Stride, class Element>
using AuxStoreDescriptor = AuxLoadDescriptor<Descriptor, Stride, Element>;
template <class Descriptor, class Stride, class Element>
using Sm100AuxLoadDescriptor = AuxLoadDescriptor<Descriptor, Stride, Element>;
template <class Descriptor, class Stride, class Element>
using Sm100AuxStoreDescriptor = AuxLoadDescriptor<Descriptor, Stride, Element>;
}  // namespace detail
}  // namespace cutlass::epilogue::collective

namespace cutlass::epilogue::fusion {
using Sm90AccFetch = interpreted::AccFetch;
template <class Element>
using Sm90SrcFetch = interpreted::SrcFetch<Element>;
template <int Stages, class EpilogueTile, class Element, class Stride, class Atom, class Copy, int Alignment = 0>
using Sm90AuxLoad = interpreted::Load<Element, Element, Stride>;
template <int Stages, class Tile, class Element, class Compute, class Stride>
using Sm90RowBroadcast = interpreted::Load<Element, Compute, Stride>;
template <int Stages, class Tile, class Element, class Compute, class Stride>
using Sm90ColBroadcast = interpreted::Load<Element, Compute, Stride>;
template <class Element, class Stride>
using Sm90ScalarBroadcast = interpreted::ScalarBroadcast<Element, Stride>;
template <template <class> class Function, class Output, class Compute, FloatRoundStyle Round>
using Sm90Compute = interpreted::ComputeNode<Function, Output, Compute, Round>;
template <int Stages, class EpilogueTile, class Element, FloatRoundStyle Round, class Stride, class Atom, class Copy,
          int Alignment = 0>
using Sm90AuxStore = interpreted::AuxStore<Element, Round, Stride>;
template <template <class> class InRegisters, template <class> class InWarp, template <class> class InMemory,
          int Stages, class Tile, class Output, class Compute, FloatRoundStyle Round, class Stride>
using Sm90RowReduction = interpreted::Reduction<InRegisters, InMemory, Output, Compute, Round, Stride>;
template <template <class> class InRegisters, template <class> class InWarp, template <class> class InMemory,
          int Stages, class Tile, class Output, class Compute, FloatRoundStyle Round, class Stride>
using Sm90ColReduction = interpreted::Reduction<InRegisters, InMemory, Output, Compute, Round, Stride>;
template <template <class> class InRegisters, template <class> class InMemory, class Output, class Compute,
          FloatRoundStyle Round, class Stride>
using Sm90ScalarReduction = interpreted::Reduction<InRegisters, InMemory, Output, Compute, Round, Stride>;
template <class Node, class... Children>
using Sm90EVT = interpreted::Tree<Node, Children...>;
template <class Compute, class Edges, class... Ops>
using Sm90TopologicalVisitor = interpreted::Graph<Compute, Edges, Ops...>;
}  // namespace cutlass::epilogue::fusion

namespace cutlass::epilogue::threadblock {
template <class Block, class Warp, class Element, int Together, int Stages>
struct OutputTileThreadLayout;
using VisitorAccFetch = interpreted::AccFetch;
template <class Map, class Element, class Stride>
using VisitorAuxLoad = interpreted::Load<Element, Element, Stride>;
template <class Map, class Element, class Stride>
using VisitorRowBroadcast = interpreted::Load<Element, Element, Stride>;
template <class Map, class Element, class Stride>
using VisitorColBroadcast = interpreted::Load<Element, Element, Stride>;
// Its Arguments have one stride, not an array of them.
template <class Element, class Stride>
struct VisitorScalarBroadcast {
  struct Arguments {
    Element scalars[1] = {};
    Element const* scalar_ptrs[1] = {};
    Stride dScalar = {};
  };
  VisitorScalarBroadcast(Arguments const& arguments) : arguments(arguments) {}
  template <class P>
  interpreted::Fragment<Element> visit(P const& place) {
    if (arguments.scalar_ptrs[0] == nullptr) return interpreted::filled(arguments.scalars[0]);
    return interpreted::filled(arguments.scalar_ptrs[0][place.l * int64_t(cute::get<2>(arguments.dScalar))]);
  }
  void commit() {}
  void finish() {}
  Arguments arguments;
};
template <template <class> class Function, class Output, class Compute, FloatRoundStyle Round>
using VisitorCompute = interpreted::ComputeNode<Function, Output, Compute, Round>;
template <class Map, class Element, FloatRoundStyle Round, class Stride>
using VisitorAuxStore = interpreted::AuxStore<Element, Round, Stride>;
template <template <class> class InRegisters, template <class> class InMemory, class Map, class Output, class Compute,
          FloatRoundStyle Round, class Stride>
using VisitorRowReduction = interpreted::Reduction<InRegisters, InMemory, Output, Compute, Round, Stride>;
template <template <class> class InRegisters, template <class> class InMemory, class Map, class Output, class Compute,
          FloatRoundStyle Round, class Stride>
using VisitorColReduction = interpreted::Reduction<InRegisters, InMemory, Output, Compute, Round, Stride>;
template <template <class> class InRegisters, template <class> class InMemory, class Map, class Output, class Compute,
          FloatRoundStyle Round, class Stride>
using VisitorScalarReduction = interpreted::ReductionByEachLane<InRegisters, InMemory, Output, Compute, Round, Stride>;
template <class Node, class... Children>
using Sm80EVT = interpreted::Tree<Node, Children...>;
template <class Compute, class Edges, class... Ops>
using Sm80TopologicalVisitor = interpreted::Graph<Compute, Edges, Ops...>;
}  // namespace cutlass::epilogue::threadblock

namespace interpreted {

// What a case's functions take: sizes m, n and batch; the accumulators row by row.
struct Call {
  int64_t m, n, batch;
  void const* accumulators;
  void** pointers;  // in the order of the renames
  void const* source;
  void* destination;
  int64_t source_strides[3], destination_strides[3];
};

template <class Evt, class Accumulator, class ElementD>
void run(typename Evt::Arguments const& arguments, Call const& call) {
  Evt evt(arguments);
  auto const* accumulator = static_cast<Accumulator const*>(call.accumulators);
  for (int64_t l = 0; l < call.batch; ++l)
    for (int64_t m = 0; m < call.m; ++m)
      for (int64_t n = 0; n < call.n; ++n) {
        Place<Accumulator> const place{
            m,           n,
            l,           *accumulator++,
            call.source, {call.source_strides[0], call.source_strides[1], call.source_strides[2]}};
        auto const value = evt.visit(place);
        evt.commit();
        if constexpr (!std::is_void_v<ElementD>) {
          // The collective stores fragments as they are.
          static_assert(std::is_same_v<typename std::remove_cv_t<decltype(value)>::Element, ElementD>);
          auto const* s = call.destination_strides;
          static_cast<ElementD*>(call.destination)[offset(place, s[0], s[1], s[2])] = value[1];
        }
      }
  evt.finish();
}

}  // namespace interpreted

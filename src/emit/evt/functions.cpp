// SPDX-License-Identifier: Apache-2.0
#include "emit/evt/functions.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/code_writer.hpp"
#include "types/dtype.hpp"

namespace codetta::emit::evt {
namespace {

struct Function {
  std::string_view name;
  int operands;
  std::string_view text;
};
constexpr Function functions[] = {
#define CODETTA_EVT_FUNCTION(name, operands, ...) {#name, operands, #__VA_ARGS__},
#include "emit/evt/functions.def"
#undef CODETTA_EVT_FUNCTION
};

struct Upstream {
  std::string_view function, name;
};
// Element by element, IEEE, and nothing else: the meaning is the same.
constexpr Upstream upstream[] = {{"add", "cutlass::plus"},
                                 {"sub", "cutlass::minus"},
                                 {"mul", "cutlass::multiplies"},
                                 {"div", "cutlass::divides"},
                                 {"atomic_add", "cutlass::atomic_add"},
                                 {"atomic_max", "cutlass::atomic_maximum"}};

const Function* find(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(functions), std::end(functions), [&](const Function& f) { return f.name == name; });
  return found == std::end(functions) ? nullptr : found;
}
bool mentions(const std::set<std::string>& used, std::string_view word) {
  return std::any_of(used.begin(), used.end(), [&](const std::string& name) {
    const Function* function = find(name);
    return function != nullptr && function->text.find(word) != std::string_view::npos;
  });
}

// What the structs call.
void print_helpers(base::CodeWriter& out, const std::set<std::string>& used) {
  const auto is_wide = [](const std::string& name) { return name.starts_with("atomic_") && name.ends_with("_wide"); };
  if (mentions(used, "word(") || std::any_of(used.begin(), used.end(), is_wide)) {
    out.line("using word = unsigned long long;");
    out.blank();
  }
  if (mentions(used, "bounded(")) {
    out.line("// NaN is 0.");
    out.line("template <class T>");
    const auto body = out.block("CUTLASS_HOST_DEVICE T bounded(T x, T low, T high)");
    out.line("return x > low ? x < high ? x : high : x == x ? low : T(0);");
  }
  if (mentions(used, "odd_float(")) {
    out.blank();
    out.line("CUTLASS_HOST_DEVICE float odd_float(float x) { return x; }");
    out.line("// Toward zero with a sticky last bit: rounding that to fewer bits is one rounding of x.");
    const auto body = out.block("CUTLASS_DEVICE float odd_float(double x)");
    out.line("float const f = __double2float_rz(x);");
    out.line("return double(f) == x || x != x ? f : __int_as_float(__float_as_int(f) | 1);");
  }
  if (mentions(used, "quiet_nan(")) {
    out.blank();
    out.line("CUTLASS_HOST_DEVICE float quiet_nan(float) { return __builtin_nanf(\"\"); }");
    out.line("CUTLASS_HOST_DEVICE double quiet_nan(double) { return __builtin_nan(\"\"); }");
    out.line("template <class T>");
    out.line("CUTLASS_HOST_DEVICE T quiet_nan(T x) { return x; }");
  }
}

// The least of what is there and a value; upstream has the largest only. Positive floats order as integers do, negative
// ones the other way round as unsigned integers.
void print_atomic_min(base::CodeWriter& out) {
  out.line("template <class T>");
  {
    const auto body = out.block_with("};", "struct atomic_min_of");
    out.line("CUTLASS_DEVICE T operator()(T* place, T value) const { return atomicMin(place, value); }");
  }
  out.line("template <>");
  const auto body = out.block_with("};", "struct atomic_min_of<float>");
  const auto call = out.block("CUTLASS_DEVICE float operator()(float* place, float value) const");
  out.line("if (::signbit(value)) return __uint_as_float(atomicMax((unsigned*)place, __float_as_uint(value)));");
  out.line("return __int_as_float(atomicMin((int*)place, __float_as_int(value)));");
}

// VisitorScalarReduction lets each lane of a warp add the sum of all of them (CUTLASS 4.2: its `is_writing_thread` is
// not asked).
void print_atomic_add_once(base::CodeWriter& out, std::string_view name) {
  out.line("// All lanes of a warp have its sum and call this.");
  out.line("template <class T>");
  const auto body = out.block_with("};", "struct ", name);
  const bool wide = name.ends_with("_wide");
  out.line("CUTLASS_DEVICE void operator()(T* place, T value) const { if (threadIdx.x % 32 == 0) ",
           wide ? "atomicAdd((word*)place, word(value));" : "atomicAdd(place, value);", " }");
}

// Of 64 bits, which upstream has none of but sums of doubles; CUDA's integers are long long.
void print_atomic_wide(base::CodeWriter& out, std::string_view name) {
  const auto one = [&](const std::string& type, const std::string& function, const std::string& word) {
    out.line("CUTLASS_DEVICE ", type, " operator()(", type, "* place, ", type, " value) const { return ", type, "(",
             function, "((", word, "*)place, ", word, "(value))); }");
  };
  out.line("template <class T>");
  if (name == "atomic_add_wide") {
    const auto body = out.block_with("};", "struct ", name);
    return one("T", "atomicAdd", "word");
  }
  const bool is_min = name == "atomic_min_wide";
  const std::string same = is_min ? "atomicMin" : "atomicMax", other = is_min ? "atomicMax" : "atomicMin";
  {
    const auto body = out.block_with("};", "struct ", name);
    out.line("using whole = long long;  // T is int64_t");
    one("T", same, "whole");
  }
  out.line("template <>");
  {
    const auto body = out.block_with("};", "struct ", name, "<uint64_t>");
    one("uint64_t", same, "word");
  }
  out.line("template <>");
  const auto body = out.block_with("};", "struct ", name, "<double>");
  const auto call = out.block("CUTLASS_DEVICE double operator()(double* place, double value) const");
  out.line("long long const bits = __double_as_longlong(value);");
  out.line("if (::signbit(value)) return __longlong_as_double(", other, "((word*)place, word(bits)));");
  out.line("return __longlong_as_double(", same, "((long long*)place, bits));");
}

}  // namespace

std::string function_for(types::Op op, DType type) {
  std::string name(types::op_info(op).name);
  if (!types::is_float(type)) {
    if (find(name + "_int") != nullptr) return name + "_int";
    return name;
  }
  return name;
}

std::string atomic_function(ReduceFunction reduce, DType type, bool by_each_lane) {
  const bool is_wide = types::bits(type) == 64;
  if (reduce == ReduceFunction::Sum)
    return std::string(by_each_lane ? "atomic_add_once" : "atomic_add") +
           (is_wide && !types::is_float(type) ? "_wide" : "");
  if (reduce == ReduceFunction::Max) return is_wide ? "atomic_max_wide" : "atomic_max";
  return is_wide ? "atomic_min_wide" : "atomic_min_of";
}

std::string functor_name(const std::string& function) {
  for (const Upstream& u : upstream) {
    if (u.function == function) return std::string(u.name);
  }
  return "codetta_evt::" + function;
}

std::string functor_text(const std::set<std::string>& used) {
  base::CodeWriter out;
  bool any = false;
  out.line("namespace codetta_evt {");
  out.blank();
  print_helpers(out, used);
  out.blank();
  out.line("// An element-wise function of fragments.");
  out.line("template <template <class> class Function, class T, int N>");
  {
    const auto body = out.block_with("};", "struct Fragmentwise");
    out.line("template <class... More>");
    const auto call = out.block(
        "CUTLASS_HOST_DEVICE cutlass::Array<T, N> operator()(cutlass::Array<T, N> const& x, More const&... more) "
        "const");
    out.line("cutlass::Array<T, N> result;");
    out.line("Function<T> function;");
    out.line("CUTLASS_PRAGMA_UNROLL");
    out.line("for (int i = 0; i < N; ++i) result[i] = function(x[i], more[i]...);");
    out.line("return result;");
  }
  for (const Function& function : functions) {
    if (!used.contains(std::string(function.name))) continue;
    any = true;
    out.blank();
    out.line("template <class T>");
    {
      const auto body = out.block_with("};", "struct ", function.name);
      const std::string_view parameters = function.operands == 1   ? "T x"
                                          : function.operands == 2 ? "T x, T y"
                                                                   : "T x, T y, T z";
      out.line("CUTLASS_HOST_DEVICE T operator()(", parameters, ") const { ", function.text, " }");
    }
    out.line("template <class T, int N>");
    out.line("struct ", function.name, "<cutlass::Array<T, N>> : Fragmentwise<", function.name, ", T, N> {};");
  }
  std::vector<std::string> atomics;
  for (const std::string& name : used) {
    if (name.starts_with("atomic_")) atomics.push_back(name);
  }
  for (const std::string& name : atomics) {
    any = true;
    out.blank();
    if (name == "atomic_min_of") {
      print_atomic_min(out);
    } else if (name.starts_with("atomic_add_once")) {
      print_atomic_add_once(out, name);
    } else {
      print_atomic_wide(out, name);
    }
  }
  out.blank();
  out.line("}  // namespace codetta_evt");
  for (const std::string& name : atomics) {
    out.blank();
    out.line("template <class T>");
    out.line("struct cutlass::is_atomic<codetta_evt::", name, "<T>> : cutlass::platform::true_type {};");
  }
  return any ? out.str() : std::string();
}

std::string zero_text(DType type) { return type == DType::f32 ? "0.0f" : type == DType::f64 ? "0.0" : "0"; }

std::string limit_text(DType type, bool of_min) {
  if (type == DType::f32) return of_min ? "__builtin_inff()" : "-__builtin_inff()";
  if (type == DType::f64) return of_min ? "__builtin_inf()" : "-__builtin_inf()";
  if (of_min)
    return types::is_unsigned(type) ? std::to_string(types::max_int(type)) + "u" : std::to_string(types::max_int(type));
  if (type == DType::i64) return "(-9223372036854775807 - 1)";
  return type == DType::i32 ? "(-2147483647 - 1)" : std::to_string(types::min_int(type));
}

}  // namespace codetta::emit::evt

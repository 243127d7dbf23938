// SPDX-License-Identifier: Apache-2.0
// Products with emitted epilogues on NEON: the engine, its micro-kernels, and the epilogues' code over the NEON
// fragment, against the intervals that make_cases.cpp has written on the build machine.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "codetta/tensor.hpp"
#include "device/host/engine.h"

namespace {

using namespace codetta::host;
using codetta::DType;
namespace cpu = codetta::cpu;

struct Output {
  const char* name;
  const void* data;
  DType dtype;
  i64 count;
  const u64 *low, *high;  // the bits of doubles; of integers their values
  const unsigned char* may_be_nan;
};
struct Case {
  const char *name, *kernel;
  GemmConfig config;
  Gemm gemm;
  Epilogue epilogue;
  const Output* outputs;
  int output_count;
};

#include "cases.inc"

template <class T>
T at(const void* data, i64 i) {
  T value;
  std::memcpy(&value, static_cast<const unsigned char*>(data) + static_cast<size_t>(i) * sizeof(T), sizeof value);
  return value;
}

double real(u64 bits) { return at<double>(&bits, 0); }

// An 8-bit float of 3 or 2 bits of fraction.
double real_of(unsigned char bits, bool three) {
  const int fraction_bits = three ? 3 : 2, bias = three ? 7 : 15, most = three ? 15 : 31;
  const int exponent = (bits & 0x7f) >> fraction_bits, fraction = bits & ((1 << fraction_bits) - 1);
  double magnitude = std::ldexp((exponent == 0 ? 0 : 1 << fraction_bits) + fraction,
                                (exponent == 0 ? 1 : exponent) - bias - fraction_bits);
  if (three && (bits & 0x7f) == 0x7f) magnitude = NAN;
  if (!three && exponent == most) magnitude = fraction == 0 ? INFINITY : NAN;
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

template <class T>
bool integer_right(const Output& o, i64 i, double& got) {
  using Wide = std::conditional_t<std::is_signed_v<T>, i64, u64>;
  const Wide value = at<T>(o.data, i);
  got = static_cast<double>(value);
  return value >= static_cast<Wide>(o.low[i]) && value <= static_cast<Wide>(o.high[i]);
}

// Whether the element is admissible; `got` is for the message.
bool right(const Output& o, i64 i, double& got) {
  switch (o.dtype) {
    case DType::f64:
      got = at<double>(o.data, i);
      break;
    case DType::f32:
      got = static_cast<double>(at<float>(o.data, i));
      break;
    case DType::bf16: {
      const uint32_t bits = static_cast<uint32_t>(at<uint16_t>(o.data, i)) << 16;
      got = static_cast<double>(at<float>(&bits, 0));
      break;
    }
    case DType::f16:
      got = static_cast<double>(at<__fp16>(o.data, i));
      break;
    case DType::f8e4m3:
    case DType::f8e5m2:
      got = real_of(at<unsigned char>(o.data, i), o.dtype == DType::f8e4m3);
      break;
    case DType::i8:
      return integer_right<int8_t>(o, i, got);
    case DType::i16:
      return integer_right<int16_t>(o, i, got);
    case DType::i32:
      return integer_right<int32_t>(o, i, got);
    case DType::i64:
      return integer_right<i64>(o, i, got);
    case DType::u8:
    case DType::boolean:
      return integer_right<uint8_t>(o, i, got);
    case DType::u16:
      return integer_right<uint16_t>(o, i, got);
    case DType::u32:
      return integer_right<uint32_t>(o, i, got);
    case DType::u64:
      return integer_right<u64>(o, i, got);
  }
  if (std::isnan(got)) return o.may_be_nan[i] != 0;
  return got >= real(o.low[i]) && got <= real(o.high[i]);
}

void run_all(void*, i32 tasks, void (*task)(void*, i32), void* context) {
  for (i32 i = 0; i < tasks; ++i) task(context, i);
}

}  // namespace

int main() {
  const Threads threads{1, run_all, nullptr};
  i64 checked = 0, wrong = 0;
  for (const Case& c : cases) {
    const i64 bytes = codetta_engine_workspace(&c.config, &c.gemm, &c.epilogue, threads.size);
    void* workspace = std::aligned_alloc(64, static_cast<size_t>((bytes + 64) / 64 * 64));
    codetta_engine_run(&c.config, &c.gemm, &c.epilogue, &threads, workspace);
    std::free(workspace);
    for (int i = 0; i < c.output_count; ++i) {
      const Output& output = c.outputs[i];
      for (i64 e = 0; e < output.count; ++e) {
        double got = 0;
        ++checked;
        if (right(output, e, got) || ++wrong > 20) continue;
        std::printf("FAILED %s (%s): %s[%lld] is %g, expected %g to %g\n", c.name, c.kernel, output.name,
                    static_cast<long long>(e), got, real(output.low[e]), real(output.high[e]));
      }
    }
  }
  std::printf("%lld elements of %zu epilogues checked, %lld wrong\n", static_cast<long long>(checked),
              sizeof cases / sizeof cases[0], static_cast<long long>(wrong));
  return wrong == 0 && checked > 2000 ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// All element-wise functions of CUDA kernels: ct_<op> for every element-wise op of types/ops.def. The emitted text
// defines CODETTA_F64 and CODETTA_INT where it computes in those types; f32 is always there.
#pragma once

#include "device/gpu/math_basic.h"
#include "device/gpu/math_f32.h"
#ifdef CODETTA_F64
#include "device/gpu/math_f64.h"
#endif
#ifdef CODETTA_INT
#include "device/gpu/math_int.h"
#endif

#ifndef CODETTA_EACH_ROUND  // a target that compiles slowly rolls these loops
#define CODETTA_EACH_ROUND _Pragma("unroll")
#endif
#ifndef CODETTA_EACH_WARP
#define CODETTA_EACH_WARP
#endif

namespace codetta::gpu {
namespace one {

template <class T>
CODETTA_FN T reciprocal(T x) {
  return (T)1 / x;
}
// log1p(exp(b)) = max(b, 0) + log1p(exp(-|b|)), which does not overflow.
template <class T>
CODETTA_FN T softplus(T x, T beta, T threshold) {
  const T b = beta * x;
  return b > threshold ? x : (maximum(b, (T)0) + log1p(exp(-abs(b)))) / beta;
}
template <class T>
CODETTA_FN T elu(T x, T alpha) {
  return x > 0 ? x : alpha * expm1(x);
}
template <class T>
CODETTA_FN T leaky_relu(T x, T slope) {
  return x > 0 ? x : slope * x;
}
// clamp(x + 3, 0, 6); NaN stays.
template <class T>
CODETTA_FN T hard_step(T x) {
  return clamp(x + (T)3, (T)0, (T)6);
}
template <class T>
CODETTA_FN T hardswish(T x) {
  return x * sixth(hard_step(x));
}
template <class T>
CODETTA_FN T hardsigmoid(T x) {
  return sixth(hard_step(x));
}
// tanh(log1p(e)) = e (e + 2) / (e (e + 2) + 2), which is 1 long before e overflows.
template <class T>
CODETTA_FN T mish(T x) {
  const T e = exp(minimum(x, (T)40));
  const T w = e * (e + (T)2);
  return x * divided(w, w + (T)2);
}
// e / (1 + e)^2 with e = exp(-|x|): no difference of near values.
template <class T>
CODETTA_FN T dsigmoid(T x) {
  const T e = exp(-abs(x)), d = (T)1 + e;
  return divided(e, d * d);
}
template <class T>
CODETTA_FN T dtanh(T x) {
  const T e = exp((T)-2 * abs(x)), d = (T)1 + e;
  return divided((T)4 * e, d * d);
}
template <class T>
CODETTA_FN T dsilu(T x) {
  return sigmoid(x) + x * dsigmoid(x);
}
template <class T, typename Choose<is_float<T>, int, void>::type = 0>
CODETTA_FN T floordiv(T x, T y) {
  return floor(x / y);
}
// Python's: fmod, moved by y where the signs differ.
template <class T, typename Choose<is_float<T>, int, void>::type = 0>
CODETTA_FN T mod(T x, T y) {
  const T r = remainder_of(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

}  // namespace one

CODETTA_UNARY(floor)
CODETTA_UNARY(ceil)
CODETTA_UNARY(round)
CODETTA_UNARY(trunc)
CODETTA_BINARY(pow)
CODETTA_BINARY(floordiv)
CODETTA_BINARY(mod)
CODETTA_UNARY(exp)
CODETTA_UNARY(exp2)
CODETTA_UNARY(expm1)
CODETTA_UNARY(log)
CODETTA_UNARY(log2)
CODETTA_UNARY(log1p)
CODETTA_UNARY(sqrt)
CODETTA_UNARY(rsqrt)
CODETTA_UNARY(reciprocal)
CODETTA_UNARY(sin)
CODETTA_UNARY(cos)
CODETTA_UNARY(tanh)
CODETTA_UNARY(erf)
CODETTA_UNARY(sigmoid)
CODETTA_UNARY(silu)
CODETTA_UNARY(gelu_erf)
CODETTA_UNARY(gelu_tanh)
CODETTA_TERNARY(softplus)
CODETTA_BINARY(elu)
CODETTA_BINARY(leaky_relu)
CODETTA_UNARY(hardswish)
CODETTA_UNARY(hardsigmoid)
CODETTA_UNARY(mish)
CODETTA_UNARY(dsigmoid)
CODETTA_UNARY(dtanh)
CODETTA_UNARY(dsilu)
CODETTA_UNARY(dgelu_erf)
CODETTA_UNARY(dgelu_tanh)

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): counter (low, high word of
// `block`, 0, 0), key (seed low, seed high).
struct PhiloxWords {
  u32 c0, c1, c2, c3;
  CODETTA_MEMBER PhiloxWords(u64 seed, u64 block) : c0((u32)block), c1((u32)(block >> 32)), c2(0), c3(0) {
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
    CODETTA_EACH_ROUND
    for (int round = 0; round < 10; ++round) {
      const u64 a = (u64)c0 * 0xd2511f53u, b = (u64)c2 * 0xcd9e8d57u;
      c0 = (u32)(b >> 32) ^ c1 ^ k0;
      c1 = (u32)b;
      c2 = (u32)(a >> 32) ^ c3 ^ k1;
      c3 = (u32)a;
      k0 += 0x9e3779b9u;
      k1 += 0xbb67ae85u;
    }
  }
  CODETTA_MEMBER u32 word(u32 i) const { return (i & 2) != 0 ? ((i & 1) != 0 ? c3 : c2) : (i & 1) != 0 ? c1 : c0; }
};
// Of each lane word index % 4 of block index / 4. Lanes mostly are elements that follow each other, in blocks of their
// own; else each has its block by itself. Either way a turn makes one block and the first lanes' words, which go behind
// the others: compilers take long for a block, so that there is one text of it.
CODETTA_FN u32v philox_words(u64 seed, u64v index) {
  constexpr int side = lanes < 4 ? lanes : 4;
  bool in_order = index.e[0] % side == 0;
  CODETTA_EACH_LANE(in_order = in_order && index.e[i] == index.e[0] + (u64)i);
  u32v words;
  CODETTA_EACH_LANE(words.e[i] = 0);
#pragma unroll 1
  for (int done = 0; done < lanes; done += in_order ? side : 1) {
    const PhiloxWords block(seed, index.e[0] / 4);
    const u32 first = (u32)index.e[0];
    if (in_order) {
#pragma unroll
      for (int i = 0; i < lanes - side; ++i) {
        words.e[i] = words.e[i + side];
        index.e[i] = index.e[i + side];
      }
#pragma unroll
      for (int i = 0; i < side; ++i) words.e[lanes - side + i] = block.word(side == 4 ? (u32)i : first + (u32)i);
    } else {
#pragma unroll
      for (int i = 1; i < lanes; ++i) {
        words.e[i - 1] = words.e[i];
        index.e[i - 1] = index.e[i];
      }
      words.e[lanes - 1] = block.word(first);
    }
  }
  return words;
}

// x / d for all lanes. Zeros, which others before this one leave, are no reason to divide each by itself.
template <class V>
CODETTA_FN V scaled_up(V x, element<V> d) {
#ifndef __METAL_VERSION__
  if constexpr (sizeof(element<V>) == 4) {
    const f32 r = 1.0f / d;
    f32 big = one::abs(x.e[0]);
#pragma unroll
    for (int i = 1; i < lanes; ++i) big = one::larger(big, one::abs(x.e[i]));
    if (!divides(d) || big >= 0x1p100f) return divided_in_turn(x, d);
    CODETTA_EACH_LANE(x.e[i] = one::quotient(x.e[i], d, r));
    return x;
  }
#endif
  CODETTA_EACH_LANE(x.e[i] = x.e[i] / d);
  return x;
}
// Kept where (word >> 8) 2^-24 >= p. There is one p and one seed.
template <class V>
CODETTA_FN V ct_dropout(V x, f32v p, u64v seed, u64v index) {
  const u32v words = philox_words(seed.e[0], index);
  x = scaled_up(x, (element<V>)(1.0f - p.e[0]));
  CODETTA_EACH_LANE(x.e[i] = (f32)(words.e[i] >> 8) * 0x1p-24f >= p.e[0] ? x.e[i] : (element<V>)0);
  return x;
}

}  // namespace codetta::gpu

// SPDX-License-Identifier: Apache-2.0
// Functions of vectors that take another way than an element at a time would: bit for bit what each element has.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "emulator/compile.hpp"
#include "emulator/object.hpp"
#include "oracle/oracle.hpp"
#include "support/slice.hpp"
#include "types/convert.hpp"

namespace codetta::emulator {
namespace {

constexpr const char* dialects[] = {"--gpu-architecture=sm_80", "--offload-arch=gfx942"};

// A kernel "probe" of one thread with so many lanes.
Result<Object> load(int lanes, const std::string& body, const char* dialect) {
  CODETTA_TRY(const Compiler compiler, Compiler::find());
  CODETTA_TRY(
      const std::string object,
      compiler.compile(fmt::format("#define CODETTA_LANES {}\n#include \"device/gpu/phase.h\"\n"
                                   "#include \"device/gpu/kernels/map.h\"\nnamespace codetta::gpu {{\n"
                                   "extern \"C\" __global__ void probe(void* in, void* out, int count) {{\n{}}}\n}}\n",
                                   lanes, body),
                       {dialect}));
  return Object::load(object);
}

std::string run(const Object& object, const void* in, void* out, int count) {
  const void* addresses[] = {&in, &out, &count};
  return launch(object.kernel("probe"), Grid{}, addresses).value_or("");
}

std::string shown(float x) { return fmt::format("{:a} ({:08x})", x, std::bit_cast<uint32_t>(x)); }

// Quotients by one divisor, whichever other elements share the vector: zeros and their signs, the smallest and largest
// numbers, both sides of the limits between which a reciprocal is used, infinities, NaN.
TEST(EmulatedFunctions, QuotientsOfARowAreThoseOfADivision) {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> special{0.0f,
                             inf,
                             0x1p-149f,
                             0x1.fffffcp-127f,
                             0x1p-126f,
                             0x1.8p-120f,
                             0x1p-100f,
                             0x1.fffffep-101f,
                             0x1.000002p-100f,
                             0x1.fffffep+99f,
                             0x1p+100f,
                             0x1.234568p+100f,
                             0x1.fffffep+127f,
                             1.0f,
                             0x1.fffffep-1f,
                             3.0f,
                             0x1.555556p-2f,
                             7.0f,
                             0x1.fffffep-24f,
                             0x1p-23f,
                             0x1.000002p-23f,
                             0x1.fffffep+21f,
                             0x1p+22f,
                             0x1.000002p+22f};
  uint32_t state = 1;
  for (int i = 0; i < 24; ++i) {
    state = state * 1664525u + 1013904223u;
    special.push_back(std::bit_cast<float>((state >> 9) | ((100u + state % 54u) << 23)));
  }
  const size_t positive = special.size();
  for (size_t i = 0; i < positive; ++i) special.push_back(-special[i]);
  special.push_back(nan);
  for (const int lanes : {1, 2, 4, 8}) {
    // Each number alone among ones, among its like, and among others.
    std::vector<float> in;
    for (const float d : special) {
      for (size_t k = 0; k < special.size(); ++k) {
        for (const int kind : {0, 1, 2}) {
          in.push_back(d);
          for (int i = 0; i < lanes; ++i) {
            const bool own = kind == 1 || i == static_cast<int>(k) % lanes;
            in.push_back(own         ? special[k]
                         : kind == 0 ? 1.5f
                                     : special[(k + static_cast<size_t>(7 * i)) % special.size()]);
          }
        }
      }
    }
    const auto row = static_cast<size_t>(lanes) + 1;
    std::vector<float> out(in.size(), 5.0f);
    for (const char* dialect : dialects) {
      const auto object = load(lanes, R"(
  for (int k = 0; k < count; ++k) {
    const float* p = (const float*)in + k * (lanes + 1);
    f32v x;
    CODETTA_EACH_LANE(x.e[i] = p[1 + i]);
    const f32v q = ct_div_by(x, splat<f32v>(p[0]));
    CODETTA_EACH_LANE(((float*)out)[k * (lanes + 1) + 1 + i] = q.e[i]);
  }
)",
                               dialect);
      ASSERT_TRUE(object) << object.error().render();
      EXPECT_EQ(run(*object, in.data(), out.data(), static_cast<int>(in.size() / row)), "");
      size_t wrong = 0;
      for (size_t at = 0; at < in.size(); ++at) {
        if (at % row == 0) continue;
        const float d = in[at - at % row], expected = in[at] / d;
        const bool same = std::isnan(expected) ? std::isnan(out[at])
                                               : std::bit_cast<uint32_t>(expected) == std::bit_cast<uint32_t>(out[at]);
        if (same || ++wrong > 5) continue;
        ADD_FAILURE() << dialect << ", " << lanes << " lanes: " << shown(in[at]) << " / " << shown(d) << " is "
                      << shown(expected) << ", not " << shown(out[at]);
      }
      EXPECT_EQ(wrong, 0u) << dialect << ", " << lanes << " lanes";
    }
  }
}

// What is only divided by a number of its row: near exp(x) / d where it says so, as near as device/gpu/ulp.def states
// of an exponential (2.25 ulp are the instruction's, which is half of one off here) and one ulp of the quotient; and it
// does not where that is out of bounds, infinite or NaN. Otherwise it is the exponential and the quotient that all
// have.
TEST(EmulatedFunctions, ExponentialsThatAreOnlyDivided) {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> all{0.0f,   -0.0f, inf,   -inf,    nan,   -nan,   69.0f,   -69.0f,  69.5f,
                         -69.5f, 88.7f, 88.8f, -104.0f, 1e30f, -1e30f, -105.0f, -106.0f, -3e38f};
  for (float x = -70.0f; x < 70.0f; x += 0.0371f) all.push_back(x);
  struct Result {
    float near, plain, masked;
    int32_t right, masked_right;
  };
  const auto table = oracle::sm90a_ulp_table();
  const oracle::UlpRow& stated =
      *std::find_if(table.begin(), table.end(), [](const oracle::UlpRow& row) { return row.op == types::Op::exp; });
  for (const char* dialect : dialects) {
    const auto object = load(1, R"(
  struct Result { float near, plain, masked; i32 right, masked_right; };
  for (int k = 0; k < count; ++k) {
    f32v x, d;
    x.e[0] = ((const float*)in)[2 * k], d.e[0] = ((const float*)in)[2 * k + 1];
    Quotients quotients;
    MaskedQuotients left_out;
    Ordinarily any;
    const f32v q = ct_quotient_of(quotients, ct_exp_of(quotients, x), d);
    const f32v m = ct_quotient_of(left_out, ct_exp_of(left_out, x), d);
    const f32v p = ct_quotient_of(any, ct_exp_of(any, x), d);
    ((Result*)out)[k] = {q.e[0], p.e[0], m.e[0], quotients.right() ? 1 : 0, left_out.right() ? 1 : 0};
  }
)",
                             dialect);
    ASSERT_TRUE(object) << object.error().render();
    for (const float d : {1.0f, 3.7f, 2048.0f, 0.25f, 0.0f, inf, nan, 0x1p+30f}) {
      std::vector<float> in;
      for (const float x : all) in.insert(in.end(), {x, d});
      std::vector<Result> out(all.size());
      EXPECT_EQ(run(*object, in.data(), out.data(), static_cast<int>(all.size())), "");
      for (size_t i = 0; i < all.size(); ++i) {
        const double e = std::exp(static_cast<double>(all[i])), want = e / static_cast<double>(d);
        const bool inside = e >= 0x1.00001p-100 && e < 0x1.ffffp+99 && d >= 0x1p-23f && d < 0x1p+22f;
        if (inside || (e < 0x1.ffffp-101 || e > 0x1.0001p+100 || !(d < 0x1p+22f) || d == 0.0f || std::isnan(e))) {
          EXPECT_EQ(out[i].right != 0, inside) << shown(all[i]) << " by " << shown(d);
        }
        // `ulps`: of the exponential.
        const auto near = [&](float x, double ulps) {
          if (std::isnan(want) || std::isinf(static_cast<float>(e)) || e < 0x1p-126 || want < 0x1p-126 ||
              std::isinf(static_cast<float>(want)))
            return true;
          const auto spacing = [](double y) { return std::ldexp(1.0, std::ilogb(y) - 23); };
          return std::abs(static_cast<double>(x) - want) <= ulps * spacing(e) / static_cast<double>(d) + spacing(want);
        };
        EXPECT_TRUE(near(out[i].plain, 2)) << shown(all[i]) << " by " << shown(d) << ": " << shown(out[i].plain);
        EXPECT_TRUE(out[i].right == 0 || near(out[i].near, stated.f32_ulp - 1.75 + stated.f32_ln * std::abs(all[i])))
            << shown(all[i]) << " by " << shown(d) << ": " << shown(out[i].near);
        // Where a mask may be, nothing but 0 is right as well, of what is 0, and bounds are numbers of x.
        const bool none = all[i] <= -105.0f;
        EXPECT_EQ(out[i].masked_right != 0, d >= 0x1p-23f && d < 0x1p+22f && (none || std::abs(all[i]) <= 69.0f))
            << shown(all[i]) << " by " << shown(d);
        if (out[i].masked_right == 0) continue;
        if (none)
          EXPECT_EQ(std::bit_cast<uint32_t>(out[i].masked), 0u) << shown(all[i]) << " by " << shown(d);
        else
          EXPECT_EQ(out[i].masked, out[i].near) << shown(all[i]) << " by " << shown(d);
      }
    }
  }
}

// Word index % 4 of Philox's block index / 4 (Salmon et al., SC 2011), as docs/semantics.md has it.
uint32_t philox_word(uint64_t seed, uint64_t index) {
  uint32_t c[4] = {static_cast<uint32_t>(index >> 2), static_cast<uint32_t>(index >> 34), 0, 0};
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round, key[0] += 0x9e3779b9u, key[1] += 0xbb67ae85u) {
    const uint64_t a = uint64_t{c[0]} * 0xd2511f53u, b = uint64_t{c[2]} * 0xcd9e8d57u;
    const uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(b),
                              static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(a)};
    std::copy(std::begin(next), std::end(next), std::begin(c));
  }
  return c[index & 3];
}

// Elements that follow each other from a block's first on, from within one, with gaps, backwards, and beyond 2^34;
// among them numbers that are too large for a quotient by a reciprocal.
TEST(EmulatedFunctions, DropoutTakesTheWordsOfItsElements) {
  constexpr uint64_t seed = 0x123456789abcdefull;
  uint64_t state = 20261129;
  const auto any = [&] { return state = state * 6364136223846793005u + 1442695040888963407u, state >> 24; };
  uint64_t which = 0;
  for (const int lanes : {1, 2, 4, 8}) {
    if (!test::commit_takes(which++, 2)) continue;
    const auto many = static_cast<size_t>(lanes);
    std::vector<uint64_t> in;  // indices of a vector's lanes, then their numbers' bits
    for (int k = 0; k < 400; ++k) {
      const uint64_t first = k % 5 == 0 ? any() % 1000 * 4 : k % 5 == 1 ? any() : any() % 5000;
      const uint64_t step = k % 5 < 3 ? 1 : k % 5 == 3 ? any() % 9 : ~uint64_t{0};
      for (uint64_t i = 0; i < many; ++i) in.push_back(first + 100 + i * step);
      for (size_t i = 0; i < many; ++i) {
        const float x = (static_cast<float>(any() % 2001) - 1000.0f) * (k % 7 == 0 && i % 3 == 0 ? 0x1p110f : 0.37f);
        in.push_back(std::bit_cast<uint32_t>(x));
      }
    }
    const size_t count = in.size() / (2 * many);
    for (const char* dialect : dialects) {
      const auto object = load(lanes, R"(
  for (int k = 0; k < count; ++k) {
    const u64* p = (const u64*)in + k * 2 * lanes;
    u64v index;
    f32v x;
    CODETTA_EACH_LANE(index.e[i] = p[i]);
    CODETTA_EACH_LANE(x.e[i] = bits_to_float((u32)p[lanes + i]));
    x = ct_dropout(x, splat<f32v>(0.3f), splat<u64v>(0x123456789abcdefull), index);
    CODETTA_EACH_LANE(((float*)out)[k * lanes + i] = x.e[i]);
  }
)",
                               dialect);
      ASSERT_TRUE(object) << object.error().render();
      std::vector<float> out(count * many, 5.0f);
      EXPECT_EQ(run(*object, in.data(), out.data(), static_cast<int>(count)), "");
      size_t wrong = 0;
      for (size_t at = 0; at < out.size(); ++at) {
        const uint64_t* const p = in.data() + at / many * 2 * many;
        const bool kept = static_cast<float>(philox_word(seed, p[at % many]) >> 8) * 0x1p-24f >= 0.3f;
        const auto x = std::bit_cast<float>(static_cast<uint32_t>(p[many + at % many]));
        const float expected = kept ? x / (1.0f - 0.3f) : 0.0f;
        if (std::bit_cast<uint32_t>(expected) == std::bit_cast<uint32_t>(out[at]) || ++wrong > 5) continue;
        ADD_FAILURE() << dialect << ", " << lanes << " lanes: of " << shown(x) << " at " << p[at % many] << " "
                      << shown(expected) << ", not " << shown(out[at]);
      }
      EXPECT_EQ(wrong, 0u) << dialect << ", " << lanes << " lanes";
    }
  }
}

// Every bf16 and f16, whichever its place in the vector.
TEST(EmulatedFunctions, NarrowFloatsWidenWhereverTheyLie) {
  uint64_t which = 0;
  for (const auto& [type, dtype] : {std::pair{"bf16", DType::bf16}, std::pair{"f16", DType::f16}}) {
    for (const int lanes : {1, 2, 4, 8}) {
      if (!test::commit_takes(which++, 3)) continue;
      std::vector<uint16_t> in;
      for (uint32_t i = 0; i < 65536 + 8; ++i) in.push_back(static_cast<uint16_t>(i * 40503u));
      for (const char* dialect : dialects) {
        std::vector<float> out(in.size(), 5.0f);
        const auto object = load(lanes,
                                 fmt::format(R"(
  for (int k = 0; k < count; ++k) {{
    u16v raw;
    CODETTA_EACH_LANE(raw.e[i] = ((const u16*)in)[k * lanes + i]);
    const f32v x = widen_{}(raw);
    CODETTA_EACH_LANE(((float*)out)[k * lanes + i] = x.e[i]);
  }}
)",
                                             type),
                                 dialect);
        ASSERT_TRUE(object) << object.error().render();
        EXPECT_EQ(run(*object, in.data(), out.data(), static_cast<int>(in.size()) / lanes), "");
        size_t wrong = 0;
        for (size_t i = 0; i < in.size(); ++i) {
          const auto expected = static_cast<float>(types::load_f64(&in[i], dtype));
          const bool same = std::isnan(expected) ? std::isnan(out[i])
                                                 : std::bit_cast<uint32_t>(expected) == std::bit_cast<uint32_t>(out[i]);
          wrong += same ? 0 : 1;
        }
        EXPECT_EQ(wrong, 0u) << type << ", " << dialect << ", " << lanes << " lanes";
      }
    }
  }
}

}  // namespace
}  // namespace codetta::emulator

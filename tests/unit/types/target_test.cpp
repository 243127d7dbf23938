// SPDX-License-Identifier: Apache-2.0
// Targets as text, errors E0401 to E0403, and the facts of this machine.
#include "codetta/target.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "diag/diagnostic.hpp"
#include "types/dtype.hpp"
#include "types/machine.hpp"

namespace codetta {
namespace {

TEST(Target, RoundTrips) {
  for (const char* text : {"cpu:generic",     "cpu:neon",    "cpu:avx2",     "cpu:avx512",    "cpu:avx512_vnni",
                           "cpu:avx512_bf16", "cpu:amx",     "cuda",         "cuda:sm_80",    "cuda:sm_90a",
                           "cuda:sm_100f",    "cuda:sm_121", "hip",          "hip:gfx90a",    "hip:gfx942",
                           "hip:gfx1100",     "metal",       "metal:apple9", "cutlass:sm_90", "cutlass:sm_90a"}) {
    const auto t = Target::parse(text);
    ASSERT_TRUE(t.has_value()) << text << t.error().message();
    EXPECT_EQ(t->to_string(), text);
    EXPECT_TRUE(*Target::parse(t->to_string()) == *t);
  }
  EXPECT_EQ(Target::parse("cpu:avx2")->isa, CpuIsa::avx2);
  EXPECT_EQ(Target::parse("cuda:sm_90a")->arch, "sm_90a");
  EXPECT_TRUE(*Target::parse("cpu") == Target::host());
}

struct BadTarget {
  const char* text;
  diag::Code code;
  const char* headline;
  const char* help;
};

TEST(Target, E0401AndE0402) {
  const BadTarget cases[] = {
      {"cpuu", diag::Code::target_unknown, "unknown target 'cpuu'", "did you mean 'cpu'?"},
      {"", diag::Code::target_unknown, "unknown target ''", "use 'cpu' for the best instruction set of this machine"},
      {"CUDA", diag::Code::target_unknown, "unknown target 'CUDA'", "did you mean 'cuda'?"},
      {"vulkan", diag::Code::target_unknown, "unknown target 'vulkan'",
       "use 'cpu' for the best instruction set of this machine"},
      {"cpu:avx512_bf1", diag::Code::target_architecture, "unknown instruction set 'avx512_bf1' of target 'cpu'",
       "did you mean 'cpu:avx512_bf16'?"},
      {"cpu:", diag::Code::target_architecture, "target 'cpu' needs an instruction set after the colon",
       "write 'cpu' alone, or one of the names above"},
      {"cpu:vnni", diag::Code::target_architecture, "unknown instruction set 'vnni' of target 'cpu'",
       "did you mean 'cpu:avx512_vnni'?"},
      {"cpu: avx2", diag::Code::target_architecture, "unknown instruction set ' avx2' of target 'cpu'",
       "did you mean 'cpu:avx2'?"},
      {"cuda:sm90a", diag::Code::target_architecture, "unknown architecture 'sm90a' of target 'cuda'",
       "did you mean 'cuda:sm_90a'?"},
      {"cuda:sm_80a", diag::Code::target_architecture, "unknown architecture 'sm_80a' of target 'cuda'",
       "did you mean 'cuda:sm_80'?"},
      {"cuda:sm_91", diag::Code::target_architecture, "unknown architecture 'sm_91' of target 'cuda'",
       "did you mean 'cuda:sm_90'?"},
      {"cuda:sm_12", diag::Code::target_architecture, "unknown architecture 'sm_12' of target 'cuda'",
       "did you mean 'cuda:sm_120'?"},
      {"cuda:sm_90f", diag::Code::target_architecture, "unknown architecture 'sm_90f' of target 'cuda'",
       "did you mean 'cuda:sm_90'?"},
      {"cutlass:sm_91", diag::Code::target_architecture, "unknown architecture 'sm_91' of target 'cutlass'",
       "did you mean 'cutlass:sm_90'?"},
      {"hip:gfx9999", diag::Code::target_architecture, "unknown architecture 'gfx9999' of target 'hip'",
       "write 'hip' alone, or one of the names above"},  // not gfx909, which has no kernels
      {"hip:", diag::Code::target_architecture, "target 'hip' needs an architecture after the colon",
       "write 'hip' alone, or one of the names above"},
      {"cutlass", diag::Code::target_architecture, "target 'cutlass' needs an architecture after the colon",
       "write 'cutlass:sm_80', say"},
      {"hip:gfx94", diag::Code::target_architecture, "unknown architecture 'gfx94' of target 'hip'",
       "did you mean 'hip:gfx942'?"},
      {"cutlass:sm_100f", diag::Code::target_architecture, "unknown architecture 'sm_100f' of target 'cutlass'",
       "did you mean 'cutlass:sm_100'?"},
      {"metal:apple99", diag::Code::target_architecture, "unknown architecture 'apple99' of target 'metal'",
       "did you mean 'metal:apple9'?"},
  };
  for (const BadTarget& x : cases) {
    const auto t = Target::parse(x.text);
    ASSERT_FALSE(t.has_value()) << x.text;
    EXPECT_EQ(t.error().code(), static_cast<uint16_t>(x.code)) << x.text;
    EXPECT_EQ(t.error().family(), ErrorFamily::Usage);
    const Diagnostic& d = t.error().diagnostics()[0];
    EXPECT_EQ(d.headline, x.headline);
    EXPECT_EQ(d.help, x.help) << x.text;
    EXPECT_FALSE(d.reason.empty());
  }
}

TEST(Target, HostileText) {
  for (const std::string& text :
       {std::string(1 << 20, 'x'), "cpu:" + std::string(1 << 20, 'a'), std::string("cpu\0:avx2", 9),
        std::string("\xff\xfe"), std::string("cuda:sm_99999999999999"), std::string("::::"), std::string("cuda:sm_090"),
        std::string("hip:gfxzzz"), std::string("cpu:\n\x1b[31m")}) {
    const auto t = Target::parse(text);
    ASSERT_FALSE(t.has_value());
    EXPECT_LT(t.error().diagnostics()[0].headline.size(), 200u);
    EXPECT_EQ(t.error().diagnostics()[0].headline.find('\n'), std::string::npos);
  }
}

TEST(Target, E0403NamesWhatThisCpuHas) {
  EXPECT_TRUE(types::cpu_target_runs(Target::host()).has_value());
  bool refused = false;
  for (const types::IsaInfo& isa : types::all_isas()) {
    Target t;
    t.isa = isa.isa;
    const auto r = types::cpu_target_runs(t);
    EXPECT_EQ(r.has_value(), cpu_supports(isa.isa)) << isa.name;
    if (r) continue;
    refused = true;
    EXPECT_EQ(r.error().code(), static_cast<uint16_t>(diag::Code::target_unavailable));
    EXPECT_EQ(r.error().family(), ErrorFamily::Environment);
    const Diagnostic& d = r.error().diagnostics()[0];
    EXPECT_EQ(d.headline, "this CPU lacks the instruction set '" + std::string(isa.name) + "'");
    EXPECT_NE(d.reason.find(" has generic"), std::string::npos) << d.reason;
    EXPECT_NE(d.help.find(Target::host().to_string()), std::string::npos);
  }
  EXPECT_TRUE(refused);  // no CPU is both x86 and arm
}

TEST(Machine, IsaLevels) {
  EXPECT_TRUE(cpu_supports(CpuIsa::generic));
  size_t i = 0;
  for (const types::IsaInfo& isa : types::all_isas()) {
    EXPECT_EQ(static_cast<size_t>(isa.isa), i++);  // the table is in the order of the enumeration
    EXPECT_EQ(isa_name(isa.isa), isa.name);
    for (const types::IsaInfo& lower : types::all_isas()) {
      // Each level of an architecture has what the ones before it have.
      if (cpu_supports(isa.isa) && isa.architecture == lower.architecture && lower.isa < isa.isa) {
        EXPECT_TRUE(cpu_supports(lower.isa)) << isa.name << " without " << lower.name;
      }
    }
  }
}

TEST(Machine, AgreesWithTheCompilersDetection) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  EXPECT_EQ(cpu_supports(CpuIsa::avx2), __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  EXPECT_EQ(cpu_supports(CpuIsa::avx512), __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                              __builtin_cpu_supports("avx512dq") &&
                                              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"));
  EXPECT_EQ(cpu_supports(CpuIsa::avx512_vnni), cpu_supports(CpuIsa::avx512) && __builtin_cpu_supports("avx512vnni"));
  EXPECT_EQ(cpu_supports(CpuIsa::avx512_bf16),
            cpu_supports(CpuIsa::avx512_vnni) && __builtin_cpu_supports("avx512bf16"));
#else
  EXPECT_FALSE(cpu_supports(CpuIsa::avx2));
#endif
}

TEST(Machine, Facts) {
  const types::CpuFacts facts = types::read_cpu_facts();
  EXPECT_GE(facts.cores, 1);
  EXPECT_GE(facts.l1d, 4 << 10);
  EXPECT_GE(facts.l2, facts.l1d);
  EXPECT_EQ(facts.best, Target::host().isa);
  EXPECT_FALSE(facts.name.empty());
}

TEST(Machine, AccumulationModels) {
  using types::accumulation_model;
  EXPECT_EQ(accumulation_model(CpuIsa::avx2, f32).name, "fma_f32");
  EXPECT_EQ(accumulation_model(CpuIsa::avx512, bf16).name, "fma_f32");
  EXPECT_EQ(accumulation_model(CpuIsa::avx512_bf16, bf16).name, "dot2_bf16");
  EXPECT_EQ(accumulation_model(CpuIsa::amx, bf16).name, "amx_bf16");
  EXPECT_EQ(accumulation_model(CpuIsa::amx, f16).name, "fma_f32");
  EXPECT_EQ(accumulation_model(CpuIsa::amx, u8).name, "exact_i32");
  EXPECT_EQ(accumulation_model(CpuIsa::neon, f64).name, "fma_f64");
  EXPECT_EQ(accumulation_model(CpuIsa::generic, f32).roundings, 2);
  EXPECT_EQ(accumulation_model(CpuIsa::generic, f64).unit_roundoff, 0x1p-53);
  EXPECT_EQ(accumulation_model(CpuIsa::amx, bf16).flush_below, 0x1p-126);
  EXPECT_EQ(accumulation_model(CpuIsa::avx2, i8).unit_roundoff, 0.0);
}

}  // namespace
}  // namespace codetta

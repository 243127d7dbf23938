// SPDX-License-Identifier: Apache-2.0
#include "early.hpp"

#include <gtest/gtest.h>

namespace codetta::cuda_compile {
namespace {

TEST(TooSoon, KnowsWhatTouchesGlobalMemory) {
  for (const char* text :
       {"ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1]", "\tst.global.u32 [%rd1], %r1", "\tld.u32 %r1, [%rd1]",
        "\tld.f32 %f1, [%rd1]", "\tld.v2.b32 {%r1, %r2}, [%rd1]", "\tst.b16 [%rd1], %rs1", "@%p1 ld.u32 %r1, [%rd1]",
        "\t@!%p1 st.f32 [%rd1], %f1", "ld.relaxed.gpu.u32 %r1, [%rd1]", "ld.acquire.gpu.global.u32 %r1, [%rd1]",
        "ld.volatile.global.u32 %r1, [%rd1]", " atom.add.u32 %r1, [%rd1], 1", "red.global.add.f32 [%rd1], %f1",
        "@%p2 red.release.gpu.add.u32 [%rd1], 1", "cp.async.ca.shared.global [%r1], [%rd1], 16",
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier [%r1], [%rd1]",
        "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 16", "ldu.b32 %r1, [%rd1]", "{ ld.b32 %r1, [%rd1]"})
    EXPECT_TRUE(touches_memory(text)) << text;
  for (const char* text : {"ld.param.u64 %rd1, [f_param_0]",
                           "ld.shared.f32 %f1, [%r1]",
                           "@%p1 st.shared::cta.v4.b32 [%r1], {%r2}",
                           "ld.local.u32 %r1, [%rd1]",
                           "ld.const.u32 %r1, [table]",
                           "ld.volatile.shared.u32 %r1, [%r2]",
                           "atom.shared.add.u32 %r1, [%r2], 1",
                           "red.async.relaxed.cluster.shared::cluster.add.u32 [%r1], 1",
                           "prefetch.global.L2 [%rd1]",
                           "cp.async.bulk.prefetch.L2.global [%rd1], 128",
                           "prefetch.tensormap [%rd1]",
                           "cvta.to.global.u64 %rd2, %rd1",
                           "mov.u32 %r1, %tid.x",
                           "@%p1 bra $L__BB0_2",
                           "mbarrier.init.shared.b64 [%r1], 1",
                           "",
                           "\t.reg .b32 %r<5>",
                           "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5]",
                           "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r1], {%r2}",
                           "$L__BB0_1:"})
    EXPECT_FALSE(touches_memory(text)) << text;
}

TEST(TooSoon, LooksAtEveryEntryUpToItsWait) {
  const auto entry = [](const std::string& name, const std::string& body) {
    return ".visible .entry " + name + "(\n\t.param .u64 " + name + "_param_0\n)\n{\n" + body + "\n}\n";
  };
  const std::string wait = "\tgriddepcontrol.wait;\n", loads = "\t@%p1 ld.f32 %f1, [%rd1];\n";
  EXPECT_EQ(too_soon(entry("f", "\tld.param.u64 %rd1, [f_param_0];\n" + wait + loads)), "");
  EXPECT_EQ(too_soon(entry("f", loads + wait)),
            "f touches memory before it waits for the kernel in front of it: @%p1 ld.f32 %f1, [%rd1]\n");
  EXPECT_EQ(too_soon(entry("f", wait) + entry("g", "\tmov.u32 %r1, 0; st.b32 [%rd1], %r1;\n" + wait)),
            "g touches memory before it waits for the kernel in front of it: st.b32 [%rd1], %r1\n");
  EXPECT_EQ(too_soon(entry("f", wait) + entry("g", "\tret;\n")), "g does not wait for the kernel in front of it\n");
}

}  // namespace
}  // namespace codetta::cuda_compile

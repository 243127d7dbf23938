// SPDX-License-Identifier: Apache-2.0
// Programs on an AMD GPU that is none take tensors of the caller's however they lie, and write nothing beside them.
#include "support/layouts.hpp"

#include <gtest/gtest.h>

#include "emulator/hip_context.hpp"
#include "support/slice.hpp"

namespace codetta {
namespace {

using HipLayouts = EmulatedHip;

TEST_F(HipLayouts, EveryKernelTakesThem) {
  std::mt19937_64 random(7);
  uint64_t which = 0;
  for (const test::LayoutProgram& one : test::layout_programs()) {
    if (!test::commit_takes(which++, 8)) continue;
    const Program program = Program::parse(one.text, "p.py").value();
    // With kernels that rely on alignment where the sizes allow it.
    const auto compiled = compile(program, hip_, one.sizes, *context_);
    ASSERT_TRUE(compiled) << one.text << compiled.error().render();
    for (int turn = 0; turn < 3; ++turn) {
      std::vector<NamedArgument> arguments;
      std::vector<test::Laid> outputs;
      std::vector<DeviceTensor> there;
      std::string layouts;
      const auto add = [&](const std::string& name, const test::Laid& host) {
        there.push_back(DeviceTensor::copy_of(*device_, host.memory.view()).value());
        const auto offset =
            static_cast<const std::byte*>(host.view.data()) - static_cast<const std::byte*>(host.memory.data());
        arguments.push_back({name, TensorView::make(static_cast<std::byte*>(there.back().data()) + offset,
                                                    host.view.dtype(), host.view.shape(), host.view.strides())
                                       .value()});
        layouts += name + " " + host.view.describe() + " strides " + to_string(host.view.strides()) + "\n";
      };
      const auto missing = program.missing({}, one.sizes, 4);
      ASSERT_TRUE(missing) << missing.error().render();
      for (const ProgramInput& input : *missing) {
        Tensor dense = Tensor::make(input.dtype, input.shape).value();
        fill_random(dense, random());
        for (int64_t e = 0; input.dtype == i64 && e < dense.view().element_count(); ++e)
          dense.view().as<int64_t>()[e] = dense.view().element_count() - 1 - e;
        const test::Laid host = test::laid(input.dtype, input.shape, random, true);
        test::copy_elements(dense, host.view);
        add(input.name, host);
      }
      const auto shapes = program.shapes(arguments);
      ASSERT_TRUE(shapes) << shapes.error().render();
      for (const ProgramShapes::Output& output : shapes->outputs) {
        outputs.push_back(test::laid(output.dtype, output.shape, random, false));
        add(output.name, outputs.back());
      }
      const auto ran = compiled->run(arguments);
      ASSERT_TRUE(ran) << one.text << layouts << ran.error().render();
      const auto verdict = verify(program, arguments, hip_, {.poisoned = true}, *context_);
      ASSERT_TRUE(verdict) << one.text << verdict.error().render();
      EXPECT_NE(verdict->verdict, VerifyReport::Verdict::Fail) << one.text << layouts << verdict->text;
      for (size_t o = 0; o < outputs.size(); ++o) {
        ASSERT_TRUE(there[there.size() - outputs.size() + o].download(outputs[o].memory.view()));
        EXPECT_TRUE(outputs[o].gaps_untouched()) << one.text << layouts;
      }
    }
  }
}

}  // namespace
}  // namespace codetta

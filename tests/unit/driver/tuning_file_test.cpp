// SPDX-License-Identifier: Apache-2.0
// Tuning results as a file: exact both ways, refused when it is damaged or foreign, and of use in another cache.
#include "driver/tuning_file.hpp"

#include <gtest/gtest.h>

#include "base/digest.hpp"
#include "base/files.hpp"
#include "codetta/codetta.hpp"
#include "diag/diagnostic.hpp"

namespace codetta {
namespace {

using driver::TuningFile;

TuningFile sample() {
  return {"0.1 abc",
          {{"7 4 codetta test\n", {{"kernel_a", 12.5}, {"kernel_b", 0.1}}}, {"a key\nof two lines", {{"c", 1e9}}}}};
}
std::string with_check(std::string text) { return text + "check " + base::digest_of(text).hex() + "\n"; }
template <class T>
void expect_refused(const Result<T>& result, std::string_view part) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), static_cast<uint16_t>(diag::Code::tuning_file));
  EXPECT_NE(result.error().render().find(part), std::string::npos) << result.error().render();
}

TEST(TuningFiles, ComeBackAsTheyWere) {
  const std::string text = driver::encode_tuning_file(sample());
  EXPECT_EQ(driver::decode_tuning_file(text).value(), sample());
  EXPECT_NE(text.find("kernel_a\t12.5\n"), std::string::npos) << "people can read it";
  const TuningFile empty{"b", {}};
  EXPECT_EQ(driver::decode_tuning_file(driver::encode_tuning_file(empty)).value(), empty);
}

TEST(TuningFiles, AnyDamageIsRefused) {
  const std::string text = driver::encode_tuning_file(sample());
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(driver::decode_tuning_file(changed)) << "byte " << i;
    EXPECT_FALSE(driver::decode_tuning_file(text.substr(0, i))) << i << " bytes";
  }
  expect_refused(driver::decode_tuning_file(""), "no tuning file");
  expect_refused(driver::decode_tuning_file(text + "x"), "behind its check");
  std::string changed = text;
  changed.replace(changed.find("12.5"), 4, "13.5");
  expect_refused(driver::decode_tuning_file(changed), "has been changed");
  // Right checks, wrong contents.
  const std::string head = "codetta tuning 1\nbuild b\n";
  expect_refused(driver::decode_tuning_file(with_check("codetta tuning 2\nbuild b\n")), "another version");
  expect_refused(driver::decode_tuning_file(with_check(head + "nonsense\n")), "no record begins");
  expect_refused(driver::decode_tuning_file(with_check(head + "record 99999999999999999999 1\n")), "no record begins");
  expect_refused(driver::decode_tuning_file(with_check(head + "record 5000000000 1\nk\n")), "cut off");
  expect_refused(driver::decode_tuning_file(with_check(head + "record 1 1\nk\nname\t-3\n")), "no time");
}

class TuningExchange : public ::testing::Test {
 protected:
  Context context(const std::string& name) {
    return Context::make({.cache_dir = folder_.path() + "/" + name, .no_compiler = true, .threads = 1}).value();
  }
  GemmArguments problem() {
    GemmArguments arguments;
    arguments.A = a_.view();
    arguments.B = b_.view();
    arguments.out = d_.view();
    return arguments;
  }
  base::TemporaryDirectory folder_ = *base::TemporaryDirectory::make("/tmp");
  Tensor a_ = Tensor::make(f32, {40, 24}).value(), b_ = Tensor::make(f32, {24, 32}).value(),
         d_ = Tensor::make(f32, {40, 32}).value();
};

TEST_F(TuningExchange, AnotherCacheRanksByIt) {
  fill_random(a_, 1);
  fill_random(b_, 2);
  Context first = context("first"), second = context("second");
  TuneOptions tuning;
  tuning.max_candidates = 2;
  ASSERT_TRUE(tune(problem(), Target::host(), tuning, first));
  const std::string text = export_tuning(first).value();
  const auto is_tuned = [&](Context& c) {
    return find_kernels(problem(), Target::host(), {}, c).value()[0].metadata().tuned;
  };
  EXPECT_TRUE(is_tuned(first));
  EXPECT_FALSE(is_tuned(second));
  const TuningImport taken = import_tuning(text, second).value();
  EXPECT_EQ(taken.records, 1);
  EXPECT_EQ(taken.passed_over, 0);
  EXPECT_TRUE(is_tuned(second));
  EXPECT_EQ(export_tuning(second).value(), text);
}

TEST_F(TuningExchange, ForeignFilesAreRefused) {
  fill_random(a_, 1);
  fill_random(b_, 2);
  Context c = context("one");
  TuneOptions tuning;
  tuning.max_candidates = 1;
  ASSERT_TRUE(tune(problem(), Target::host(), tuning, c));
  TuningFile file = driver::decode_tuning_file(export_tuning(c).value()).value();
  ASSERT_EQ(file.records.size(), 1U);
  const std::string cpu = driver::field_of(file.records[0].key, "cpu").value();
  TuningFile other = file;
  std::string& key = other.records[0].key;
  const size_t at = key.find(cpu);
  ASSERT_NE(at, std::string::npos);
  key[at] = key[at] == 'X' ? 'Y' : 'X';
  expect_refused(import_tuning(driver::encode_tuning_file(other), c), "of other machines");
  other.records.push_back(file.records[0]);
  EXPECT_EQ(import_tuning(driver::encode_tuning_file(other), c).value().passed_over, 1) << "the others are taken";
  other = file;
  other.build = "another";
  expect_refused(import_tuning(driver::encode_tuning_file(other), c), "measured by build another");
  expect_refused(import_tuning("\x7f"
                               "ELF",
                               c),
                 "no tuning file");
  Context off = Context::make({.cache_enabled = false, .threads = 1}).value();
  EXPECT_EQ(import_tuning(driver::encode_tuning_file(file), off).error().code(),
            static_cast<uint16_t>(diag::Code::cache_unavailable));
  EXPECT_FALSE(export_tuning(off));
}

}  // namespace
}  // namespace codetta

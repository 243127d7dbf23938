// SPDX-License-Identifier: Apache-2.0
// Loading compiled objects from bytes: never a stale one, nothing of the thread changed, nothing left behind.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <clocale>
#include <cstring>
#include <thread>

#include "base/files.hpp"
#include "runtime/cpu/module.hpp"
#include "toolchain/compiler.hpp"

namespace codetta::runtime::cpu {
namespace {

const std::string placeholder(32, 'x');

std::string compile_object(const std::string& flags = "-O2") {
  toolchain::FindOptions find;
  find.path = "/usr/local/bin:/usr/bin:/bin";
  const auto compiler = toolchain::find_host_compiler(find);
  EXPECT_TRUE(compiler);
  if (!compiler) return {};
  const std::string source = "extern \"C\" { extern const char entry_digest[]; const char entry_digest[] = \"" +
                             placeholder +
                             "\";\nint first() { return *static_cast<const volatile char*>(entry_digest); }\nfloat "
                             "half(float x) { return x * 0.5f; } }\n";
  const auto output = toolchain::compile(*compiler, {source, {flags}, "module"}, {});
  EXPECT_TRUE(output) << output.error().render();
  return output ? output->object : std::string();
}

// The object with another digest in it.
std::string with_digest(std::string object, const std::string& digest) {
  for (size_t at = object.find(placeholder); at != std::string::npos; at = object.find(placeholder, at)) {
    object.replace(at, digest.size(), digest);
  }
  return object;
}

std::string digest_of(int number) {
  std::string text = std::to_string(number);
  return std::string(1, static_cast<char>('a' + number % 26)) + std::string(31 - text.size(), '0') + text;
}

size_t open_descriptors() { return base::list_directory("/proc/self/fd")->size(); }

class Modules : public testing::Test {
 protected:
  void SetUp() override {
    object_ = compile_object();
    ASSERT_NE(object_.find(placeholder), std::string::npos);
  }
  [[nodiscard]] Result<std::shared_ptr<const Module>> load(
      int number, const base::SystemCalls& calls = base::SystemCalls::real()) const {
    return Module::load(with_digest(object_, digest_of(number)), "entry_digest", digest_of(number), calls);
  }
  static int first(const Module& module) { return reinterpret_cast<int (*)()>(module.symbol("first"))(); }
  std::string object_;
};

TEST_F(Modules, LoadsAndFindsSymbols) {
  const auto module = load(3);
  ASSERT_TRUE(module) << module.error().render();
  EXPECT_EQ(first(**module), 'd');
  EXPECT_EQ(reinterpret_cast<float (*)(float)>((*module)->symbol("half"))(5.0F), 2.5F);
  EXPECT_EQ((*module)->symbol("absent"), nullptr);
}

TEST_F(Modules, NeverAStaleOneAndNothingLeaks) {
  constexpr int count = CODETTA_TEST_FULL ? 10'000 : 400;
  std::vector<std::shared_ptr<const Module>> kept;
  const size_t before = open_descriptors();
  for (int i = 0; i < count; ++i) {
    auto module = load(i);
    ASSERT_TRUE(module) << module.error().render();
    ASSERT_EQ(first(**module), 'a' + i % 26) << i;
    if (i % 4 != 0) kept.push_back(std::move(*module));
    if (i % 100 == 99) kept.erase(kept.begin(), kept.begin() + 20);
  }
  EXPECT_EQ(open_descriptors(), before);
  for (const auto& module : kept) EXPECT_NE(module->symbol("first"), nullptr);
}

TEST_F(Modules, ManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const auto module = load(t * 1000 + i);
        if (!module || first(**module) != 'a' + (t * 1000 + i) % 26) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Modules, WithoutMemoryFilesAPrivateFileServes) {
  for (const int failure : {ENOSYS, EACCES}) {
    base::SystemCalls calls = base::SystemCalls::real();
    calls.memfd_create = [failure](const char*, unsigned) { return errno = failure, -1; };
    for (int i = 0; i < 20; ++i) {
      const auto module = load(i, calls);
      ASSERT_TRUE(module) << module.error().render();
      EXPECT_EQ(first(**module), 'a' + i % 26);
    }
    const auto left = base::list_directory("/dev/shm");
    for (const auto& entry : *left) EXPECT_FALSE(entry.name.starts_with("codetta-load-"));
  }
}

TEST_F(Modules, AnotherDigestIsRefused) {
  const auto other = Module::load(with_digest(object_, digest_of(1)), "entry_digest", digest_of(2));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message(), "error[E0509]: a loaded kernel is not the one that was asked for");
  EXPECT_NE(other.error().render().find(digest_of(1)), std::string::npos);
  const auto prefix = Module::load(object_, "entry_digest", placeholder.substr(1));
  EXPECT_FALSE(prefix);
  const auto missing = Module::load(object_, "no_such_digest", placeholder);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), 509);
  EXPECT_NE(missing.error().render().find("no_such_digest"), std::string::npos);
}

TEST_F(Modules, WhatIsNoObjectIsRefused) {
  for (const std::string& bytes :
       {std::string(), std::string("text"), std::string(5000, '\0'), object_.substr(0, 70)}) {
    const auto module = Module::load(bytes, "entry_digest", placeholder);
    ASSERT_FALSE(module);
    EXPECT_EQ(module.error().message(), "error[E0508]: a compiled kernel can not be loaded");
  }
  // Cut anywhere: an error, or the sections beyond the last segment were all that is missing.
  for (size_t size = 64; size < object_.size(); size += 97)
    (void)Module::load(object_.substr(0, size), "entry_digest", placeholder);
}

TEST_F(Modules, UndefinedSymbolsAreNamed) {
  toolchain::FindOptions find;
  find.path = "/usr/local/bin:/usr/bin:/bin";
  const auto compiler = toolchain::find_host_compiler(find);
  ASSERT_TRUE(compiler);
  const auto output = toolchain::compile(
      *compiler, {"extern \"C\" { int absent_function(); int f() { return absent_function(); } }", {}, "m"}, {});
  ASSERT_TRUE(output);
  const auto module = Module::load(output->object, "entry_digest", placeholder);
  ASSERT_FALSE(module);
  EXPECT_EQ(module.error().code(), 508);
  EXPECT_EQ(
      module.error().diagnostics().front().reason,
      "the object: undefined symbol: absent_function; from /dev/shm: the same; from /tmp: the same; from /var/tmp: "
      "the same");
}

TEST_F(Modules, TheThreadStaysAsItWas) {
#if defined(__x86_64__)
  const unsigned before = __builtin_ia32_stmxcsr();
#endif
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  const std::string locale = std::setlocale(LC_ALL, nullptr);
  for (const char* flags : {"-O2", "-O3"}) {
    const auto module = Module::load(compile_object(flags), "entry_digest", placeholder);
    ASSERT_TRUE(module);
    EXPECT_EQ(std::fegetround(), FE_UPWARD);
  }
  ASSERT_EQ(std::fesetround(FE_TONEAREST), 0);
  EXPECT_EQ(locale, std::setlocale(LC_ALL, nullptr));
#if defined(__x86_64__)
  EXPECT_EQ(__builtin_ia32_stmxcsr() & 0xffc0U, before & 0xffc0U);
#endif
}

}  // namespace
}  // namespace codetta::runtime::cpu

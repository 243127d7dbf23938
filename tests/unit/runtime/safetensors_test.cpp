// SPDX-License-Identifier: Apache-2.0
// safetensors: round trips and files that lie (E0620 to E0623).
#include "io_support.hpp"

#include <cstdlib>
#include <filesystem>

namespace codetta::runtime::test {
namespace {

using Safetensors = IoTest;

std::string file_of(const std::string& header, const std::string& data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i));
  return bytes + header + data;
}

TEST_F(Safetensors, RoundTripsEveryDtypeInFileOrder) {
  std::vector<Tensor> tensors;
  std::vector<std::pair<std::string, TensorView>> named;
  const Dims shapes[] = {{}, {7}, {3, 5}, {0, 4}, {2, 3, 4}};
  unsigned seed = 0;
  for (const DType dtype : all_dtypes) {
    for (const Dims& shape : shapes) tensors.push_back(random_tensor(dtype, shape, ++seed));
  }
  for (size_t i = 0; i < tensors.size(); ++i)
    named.emplace_back("z" + std::to_string(97 - i) + " \"layer\\.\n\xc3\xa9", tensors[i]);
  ASSERT_TRUE(write_safetensors(path("a.safetensors"), named).has_value());
  const auto back = read_safetensors(path("a.safetensors"));
  ASSERT_TRUE(back.has_value()) << back.error().render();
  ASSERT_EQ(back->size(), named.size());
  for (size_t i = 0; i < named.size(); ++i) {
    EXPECT_EQ((*back)[i].first, named[i].first);
    EXPECT_TRUE(same_bytes((*back)[i].second, tensors[i]));
  }
  ASSERT_TRUE(write_safetensors(path("empty.safetensors"), {}).has_value());
  EXPECT_TRUE(read_safetensors(path("empty.safetensors"))->empty());
  const Tensor matrix = random_tensor(DType::u8, {3, 2}, 9);
  ASSERT_TRUE(write_safetensors(path("t.safetensors"), {{"t", matrix.view().transposed()}}).has_value());
  const auto turned = read_safetensors(path("t.safetensors"));
  ASSERT_TRUE(turned.has_value());
  const auto* have = turned->front().second.view().as<uint8_t>();
  const auto* from = matrix.view().as<uint8_t>();
  for (int i = 0; i < 6; ++i) EXPECT_EQ(have[i], from[i % 3 * 2 + i / 3]);
}

TEST_F(Safetensors, ListsAndReadsOneWithoutTheOthers) {
  const Tensor first = random_tensor(DType::bf16, {3, 5}, 4), second = random_tensor(DType::f64, {2, 1, 4}, 5);
  const std::string file = path("two.safetensors");
  ASSERT_TRUE(write_safetensors(file, {{"first", first}, {"second", second}}).has_value());
  const auto held = list_safetensors(file);
  ASSERT_TRUE(held.has_value()) << held.error().render();
  ASSERT_EQ(held->size(), 2u);
  EXPECT_EQ((*held)[0].name, "first");
  EXPECT_EQ((*held)[1].dtype, DType::f64);
  EXPECT_EQ((*held)[1].shape, second.view().shape());
  const auto one = read_safetensor(file, "second");
  ASSERT_TRUE(one.has_value()) << one.error().render();
  EXPECT_TRUE(same_bytes(*one, second));
  expect_error(read_safetensor(file, "third"), diag::Code::file_unreadable, file + " has no tensor 'third'",
               "it holds first, second");
  expect_error(list_safetensors(path("none")), diag::Code::file_unreadable, "cannot read " + path("none"));
  expect_error(read_safetensor(path("none"), "a"), diag::Code::file_unreadable, "cannot read " + path("none"));
  // 2^40 bytes are said to be there, of which only the header is: that of a tensor is never asked for.
  const std::string large = write(
      "large.safetensors", file_of(R"({"a":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]},)"
                                   R"("b":{"dtype":"U8","shape":[1],"data_offsets":[1099511627776,1099511627777]}})",
                                   ""));
  std::error_code failed;
  std::filesystem::resize_file(large, std::filesystem::file_size(large) + (uintmax_t{1} << 40) + 1, failed);
  if (failed) return;  // a file system without holes
  const auto small = read_safetensor(large, "b");
  ASSERT_TRUE(small.has_value()) << small.error().render();
  EXPECT_EQ(*small->view().as<uint8_t>(), 0);
  EXPECT_EQ(list_safetensors(large)->front().shape[0], int64_t{1} << 40);
}

TEST_F(Safetensors, TakesWhatTheFormatAllows) {
  const auto read = read_safetensors(write(
      "m.safetensors",
      file_of(
          R"({"__metadata__": {"format": "pt"}, "b": {"data_offsets": [1, 3], "shape": [2], "dtype": "BOOL"}, "a": {"dtype":"U8","shape":[],"data_offsets":[0,1]}}   )",
          std::string("\x05\x02\x00", 3))));
  ASSERT_TRUE(read.has_value()) << read.error().render();
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ((*read)[0].first, "b");
  EXPECT_EQ(std::memcmp((*read)[0].second.data(), "\1\0", 2), 0);
  EXPECT_EQ(*(*read)[1].second.view().as<uint8_t>(), 5);
}

TEST_F(Safetensors, RefusesFilesThatLie) {
  const auto expect = [&](const std::string& bytes, const std::string& what, const std::string& reason = {}) {
    const std::string file = write("x.safetensors", bytes);
    expect_error(read_safetensors(file), diag::Code::file_malformed, file + " " + what, reason);
  };
  const auto header = [&](const std::string& text, const std::string& reason = {}) {
    expect(file_of(text, "12345678"), "has a malformed header", reason);
  };
  const std::string t = R"("dtype":"U8","shape":[8],"data_offsets":[0,8])";
  expect("", "is no .safetensors file", "it has 0 bytes, a header takes more");
  expect(std::string(8, '\xff'), "has a lying header");
  expect(file_of("{}", "").substr(0, 9), "has a lying header");
  header("", "it does not begin with '{'");
  header(" {}", "it does not begin with '{'");
  header("{", "it is no JSON at byte 2");
  header("{\"a\": 1}", "a number stands where none belongs");
  header("{\"a\": null}", "null stands where none belongs");
  header("{\"a\": [[[[[[", "a list stands where none belongs");
  header("{\"a\":{" + t + "},\"a\":{" + t + "}}", "'a' is there twice");
  header(R"({"a":{"dtype":"U8","dtype":"U8","shape":[8],"data_offsets":[0,8]}})", "tensor 'a' has dtype twice");
  header(R"({"a":{"dtype":"U8","shape":[8]}})", "tensor 'a' lacks dtype, shape or data_offsets");
  header(R"({"a":{"dtype":"U8","shape":[-8],"data_offsets":[0,8]}})", "a size or offset is negative");
  header(R"({"a":{"dtype":"U8","shape":[8.5],"data_offsets":[0,8]}})",
         "a size or offset is no integer or exceeds 64 bits");
  header(R"({"a":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,8]}})",
         "a size or offset is no integer or exceeds 64 bits");
  header(R"({"a":{"dtype":"U8","shape":[true],"data_offsets":[0,8]}})", "a truth value stands where none belongs");
  header(R"({"a":{"dtype":"U8","shape":"8","data_offsets":[0,8]}})", "a string stands where none belongs");
  header("{\"a\":{" + t + ",\"more\":1}}", "tensor 'a' has the unknown key 'more'");
  header("{\"a\":{" + t + ",\"x\":{}}}", "tensor 'a' has the unknown key 'x'");
  header(R"({"__metadata__": {"a": 1}})", "a number stands where none belongs");
  header(R"({"__metadata__": {"a": {"b": "c"}}})", "an object stands where none belongs");
  header("{\"a\":{" + t + "}} x");
  header("{\"\xff\":{" + t + "}}");
  const auto tensor = [&](const std::string& fields, const std::string& what, const std::string& reason = {}) {
    expect(file_of("{\"a\":{" + fields + "}}", "12345678"), what, reason);
  };
  tensor(R"("dtype":"U8","shape":[7],"data_offsets":[0,8])", "lies about tensor 'a'",
         "u8[7] takes 7 bytes, data_offsets give it 8");
  tensor(R"("dtype":"U8","shape":[9],"data_offsets":[0,9])", "lies about tensor 'a'",
         "its data_offsets are [0, 9] of 8 bytes");
  tensor(R"("dtype":"U8","shape":[0],"data_offsets":[8,4])", "lies about tensor 'a'");
  tensor(R"("dtype":"U8","shape":[8],"data_offsets":[0,8,8])", "lies about tensor 'a'",
         "data_offsets has 3 numbers, not 2");
  tensor(R"("dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,8])", "lies about tensor 'a'",
         "a size exceeds 2^63");
  tensor(R"("dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,8])", "lies about tensor 'a'");
  tensor(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,8],"data_offsets":[0,8])", "lies about tensor 'a'",
         "it has 9 dims; at most 8 are possible");
  tensor(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])", "has bytes after its data",
         "the tensors end at byte 4 of 8");
  tensor(R"("dtype":"U8","shape":[4],"data_offsets":[4,8])", "has a hole between its tensors");
  tensor(R"("dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[1],"data_offsets":[7,8])",
         "has tensors that overlap");
  const std::string odd =
      write("odd.safetensors", file_of(R"({"a":{"dtype":"F4","shape":[8],"data_offsets":[0,8]}})", "12345678"));
  expect_error(read_safetensors(odd), diag::Code::file_dtype, odd + " holds 'a' with elements of type 'F4'");
  expect_error(read_safetensors(path("none")), diag::Code::file_unreadable, "cannot read " + path("none"));
}

TEST_F(Safetensors, NestingAndLongNamesAreHarmless) {
  const std::string deep = write("deep.safetensors", file_of("{\"a\":" + std::string(1'000'000, '['), ""));
  EXPECT_EQ(read_safetensors(deep).error().code(), 621);
  const std::string name(1'000'000, 'n');
  const auto long_name = read_safetensors(write(
      "n.safetensors", file_of("{\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", "x")));
  ASSERT_TRUE(long_name.has_value());
  EXPECT_EQ(long_name->front().first, name);
}

TEST_F(Safetensors, WritingRefusesBadNames) {
  const Tensor tensor = random_tensor(DType::f32, {4}, 1);
  const std::string file = path("w.safetensors");
  expect_error(write_safetensors(file, {{"a", tensor}, {"a", tensor}}), diag::Code::argument_duplicate,
               "two tensors are called 'a'", "they were to be written to " + file);
  expect_error(write_safetensors(file, {{"__metadata__", tensor}}), diag::Code::argument_unexpected,
               "a tensor can not be written as '__metadata__'", "safetensors files keep remarks under that name");
  expect_error(write_safetensors(file, {{"\xff", tensor}}), diag::Code::argument_unexpected,
               "a tensor can not be written as '\xff'", "it is not valid UTF-8");
  EXPECT_TRUE(files().empty());
}

TEST_F(Safetensors, AgreesWithTheReference) {
  const std::string python = CODETTA_TEST_PYTHON " -B ";
  if (std::system((python + "-c 'import numpy' >/dev/null 2>&1").c_str()) != 0) GTEST_SKIP() << "no Python with NumPy";
  const std::string script = write("make.py", R"(
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import codetta_dtypes as c
values = {d: (np.arange(12).reshape(3, 4) % (2 if d == "bool" else 9), d) for d in c.DTYPES}
if sys.argv[3] == "write":
    c.write_safetensors(sys.argv[2] + "/py.safetensors", values)
else:
    back = c.read_safetensors(sys.argv[2] + "/back.safetensors")
    assert list(back) == list(values)
    assert all(back[d][1] == d and np.array_equal(back[d][0], values[d][0]) for d in values)
)");
  const std::string run = python + script + " " CODETTA_SOURCE_DIR "/python " + path("") + " ";
  ASSERT_EQ(std::system((run + "write").c_str()), 0);
  const auto read = read_safetensors(path("py.safetensors"));
  ASSERT_TRUE(read.has_value()) << read.error().render();
  std::vector<std::pair<std::string, TensorView>> views;
  for (const auto& [name, tensor] : *read) views.emplace_back(name, tensor);
  EXPECT_EQ(views.size(), 15u);
  ASSERT_TRUE(write_safetensors(path("back.safetensors"), views).has_value());
  EXPECT_EQ(std::system((run + "check").c_str()), 0);
}

}  // namespace
}  // namespace codetta::runtime::test

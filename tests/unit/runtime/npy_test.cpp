// SPDX-License-Identifier: Apache-2.0
// .npy: round trips, headers of every allowed form, and files that lie (E0620 to E0623).
#include "io_support.hpp"

#include <sys/stat.h>

#include <cstdlib>

namespace codetta::runtime::test {
namespace {

using Npy = IoTest;

std::string file_of(const std::string& header, const std::string& data, int version = 1) {
  std::string bytes("\x93NUMPY", 6);
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) bytes += static_cast<char>(header.size() >> (8 * i));
  return bytes + header + data;
}
std::string header_of(const std::string& descr, const std::string& order, const std::string& shape,
                      const std::string& more = "") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", " + more + "}\n";
}

TEST_F(Npy, RoundTripsEveryDtypeAndShape) {
  const Dims shapes[] = {{}, {1}, {5}, {3, 4}, {0}, {3, 0, 2}, {2, 3, 4}, {1, 1, 1, 1, 1, 1, 1, 2}};
  unsigned seed = 0;
  for (const DType dtype : all_dtypes) {
    for (const Dims& shape : shapes) {
      const Tensor tensor = random_tensor(dtype, shape, ++seed);
      ASSERT_TRUE(write_npy(path("a.npy"), tensor).has_value());
      auto back = read_npy(path("a.npy"));
      ASSERT_TRUE(back.has_value()) << back.error().render();
      EXPECT_TRUE(same_bytes(tensor, *back)) << tensor.view().describe();
      auto bytes = base::read_file(path("a.npy"), 1 << 20);
      const size_t header = static_cast<size_t>((*bytes)[8]) | static_cast<size_t>((*bytes)[9]) << 8;
      EXPECT_EQ((header + 10) % 64, 0u);
    }
  }
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(Npy, WritesStridedViewsRowMajor) {
  const Tensor tensor = random_tensor(DType::f32, {3, 5, 2}, 1);
  const auto view = TensorView::make(static_cast<void*>(tensor.view().as<float>() + 29), DType::f32, Dims{5, 3, 2},
                                     Dims{-2, -10, -1});
  ASSERT_TRUE(view.has_value());
  ASSERT_TRUE(write_npy(path("a.npy"), *view).has_value());
  auto back = read_npy(path("a.npy"));
  ASSERT_TRUE(back.has_value());
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 2; ++k) {
        EXPECT_EQ(std::memcmp(back->view().as<float>() + i * 6 + j * 2 + k,
                              tensor.view().as<float>() + 29 - 2 * i - 10 * j - k, 4),
                  0);
      }
    }
  }
}

TEST_F(Npy, ReadsFortranOrderAndAllVersions) {
  std::string data;
  for (int16_t i = 0; i < 24; ++i) data.append(reinterpret_cast<const char*>(&i), 2);
  for (int version = 1; version <= 3; ++version) {
    auto t = read_npy(write("f.npy", file_of(header_of("<i2", "True", "(2, 3, 4)"), data, version)));
    ASSERT_TRUE(t.has_value()) << t.error().render();
    EXPECT_TRUE(t->view().is_row_major());
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 3; ++j) {
        for (int k = 0; k < 4; ++k) EXPECT_EQ(t->view().as<int16_t>()[i * 12 + j * 4 + k], i + 2 * j + 6 * k);
      }
    }
  }
}

TEST_F(Npy, TakesTheHeaderFormsOfTheFormat) {
  const std::string two(2, 'a');
  const std::string headers[] = {"{\"shape\": (2,), \"descr\": \"|u1\", 'fortran_order':False}",
                                 "{'descr':'|u1','fortran_order':True,'shape':(2,),}   \n",
                                 "{'descr': '<u1', 'fortran_order': False, 'shape': (2 , 1 ), }",
                                 "{'descr': '>u1', 'fortran_order': False, 'shape': (1, 2)}"};
  for (const std::string& header : headers) {
    const auto t = read_npy(write("h.npy", file_of(header, two)));
    EXPECT_TRUE(t.has_value()) << header << t.error().render();
  }
  const auto truth =
      read_npy(write("b.npy", file_of(header_of("|b1", "False", "(3,)"), std::string("\x00\x07\xff", 3))));
  ASSERT_TRUE(truth.has_value());
  EXPECT_EQ(std::memcmp(truth->data(), "\0\1\1", 3), 0);
}

TEST_F(Npy, ReadsOpaqueTypesAsToldTo) {
  const std::string bytes = file_of(header_of("<V2", "False", "(2,)"), "\x80\x3f\x00\x40");
  const auto as = read_npy(write("v.npy", bytes), DType::bf16);
  EXPECT_FALSE(as.has_value());  // a C string ends at its NUL: truncated
  std::string data("\x80\x3f\x00\x40", 4);
  const std::string whole = write("v.npy", file_of(header_of("<V2", "False", "(2,)"), data));
  const auto read = read_npy(whole, DType::bf16);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->view().dtype(), DType::bf16);
  expect_error(read_npy(whole), diag::Code::file_dtype, whole + " holds elements of type '<V2'");
  expect_error(read_npy(whole, DType::f32), diag::Code::file_dtype, whole + " holds elements of type '<V2', not f32");
  EXPECT_TRUE(read_npy(write("u.npy", file_of(header_of("<u2", "False", "(2,)"), data)), DType::f16).has_value());
  const std::string f2 = write("f2.npy", file_of(header_of("<f2", "False", "(2,)"), data));
  expect_error(read_npy(f2, DType::bf16), diag::Code::file_dtype, f2 + " holds elements of type '<f2', not bf16",
               "the file says what they are, and that is not bf16");
  expect_error(read_npy(f2, DType::f32), diag::Code::file_dtype, f2 + " holds elements of type '<f2', not f32",
               "they have 2 bytes; f32 has 4");
}

// What is no type of NumPy's is said in a comment behind the dictionary, and was said by an entry of it.
TEST_F(Npy, ReadsTheElementTypeFromCommentAndEntry) {
  const std::string data("\x80\x3f\x00\x40", 4);
  for (const std::string& header : {header_of("<V2", "False", "(2,)") + " # codetta_dtype: bf16",
                                    header_of("<V2", "False", "(2,)") + "  # codetta_dtype: bf16   \n",
                                    header_of("<V2", "False", "(2,)", "'codetta_dtype': 'bf16', ")}) {
    const auto read = read_npy(write("c.npy", file_of(header, data)));
    ASSERT_TRUE(read.has_value()) << header << read.error().render();
    EXPECT_EQ(read->view().dtype(), DType::bf16);
  }
}

TEST_F(Npy, RefusesWhatItCannotRead) {
  expect_error(read_npy(path("none.npy")), diag::Code::file_unreadable, "cannot read " + path("none.npy"));
  ASSERT_EQ(mkdir(path("folder").c_str(), 0700), 0);
  expect_error(read_npy(path("folder")), diag::Code::file_unreadable, "cannot read " + path("folder"),
               "it is a folder");
  expect_error(read_npy(std::string("a\0b", 3)), diag::Code::file_unreadable, "cannot read a path with a NUL byte");
  for (const char* descr : {"<c8", "|O", "<U4", "|S3", "<M8", "<f16", "V", "<i3", "float32", ""}) {
    const std::string file = write("d.npy", file_of(header_of(descr, "False", "(2,)"), std::string(64, '\0')));
    expect_error(read_npy(file), diag::Code::file_dtype, file + " holds elements of type '" + descr + "'");
  }
  const std::string big = write("big.npy", file_of(header_of(">f4", "False", "(1,)"), std::string(4, '\0')));
  expect_error(read_npy(big), diag::Code::file_dtype, big + " holds big-endian elements ('>f4')");
  const std::string records =
      write("r.npy", file_of("{'descr': [('a', '<f4'), ('b', '<i4', (2, 3))], 'fortran_order': False, 'shape': (1,), }",
                             std::string(28, '\0')));
  expect_error(read_npy(records), diag::Code::file_dtype, records + " holds records");
}

TEST_F(Npy, RefusesFilesThatLie) {
  const std::string good = header_of("<f4", "False", "(2, 3)");
  const auto expect = [&](const std::string& bytes, const std::string& what, const std::string& reason = {}) {
    const std::string file = write("x.npy", bytes);
    expect_error(read_npy(file), diag::Code::file_malformed, file + " " + what, reason);
  };
  const std::string data(24, '\0');
  expect(file_of(good, data.substr(1)), "is truncated or lies about its shape",
         "f32[2, 3] takes 24 bytes; 23 are there");
  expect(file_of(good, data + "x"), "has bytes after its data", "f32[2, 3] takes 24 bytes; 25 are there");
  expect("", "is no .npy file", "it has 0 bytes, a header takes more");
  expect("PK\x03\x04 a zip archive", "is no .npy file", "it does not begin with \\x93NUMPY");
  expect(file_of(good, data, 4), "has an unknown version", "it says 4.0; 1.0 to 3.0 are known");
  expect(file_of(good, data).substr(0, 30), "has a lying header");
  std::string huge = file_of(good, data, 2);
  huge[11] = '\x7f';
  expect(huge, "has a lying header");
  expect(file_of(header_of("<f4", "False", "(4294967296, 4294967296)"), data), "has an impossible shape",
         "the size of f32[4294967296, 4294967296] overflows");
  expect(file_of(header_of("<f4", "False", "(9223372036854775807,)"), data), "has an impossible shape");
  expect(file_of(header_of("<f4", "False", "(4611686018427387904, 0)"), data), "has bytes after its data");
  expect(file_of(header_of("<f4", "False", "(1, 1, 1, 1, 1, 1, 1, 1, 6)"), data), "has too many dimensions",
         "9; at most 8 are possible");
  expect(file_of(header_of("<V2", "False", "(2,)", "'codetta_dtype': 'f8e4m3', "), data),
         "contradicts itself about its element type");
  expect(file_of(header_of("<f4", "False", "(2,)", "'codetta_dtype': 'i32', "), data),
         "contradicts itself about its element type");
  expect(file_of(header_of("<V2", "False", "(2,)") + " # codetta_dtype: f8e4m3 \n", data),
         "contradicts itself about its element type");
  expect(file_of(header_of("<V2", "False", "(2,)", "'codetta_dtype': 'bf16', ") + " # codetta_dtype: bf16\n", data),
         "has a malformed header", "byte 84 of the header: the element type is given twice");
  const std::string bad_headers[] = {"",
                                     "{",
                                     "{}",
                                     "{'descr': '<f4'}",
                                     "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3)}",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': (6)}",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': [6]}",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616,)}",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} + 1",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} # codetta_dtype: f32 f32",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} # a comment",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'shape': (6,)}",
                                     "{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (6,)}",
                                     "{'descr': __import__('os'), 'fortran_order': False, 'shape': (6,)}",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'x': 1}",
                                     "{'descr': '<f4, 'fortran_order': False, 'shape': (6,)}",
                                     "{'descr': [[[[, 'fortran_order': False, 'shape': (6,)}",
                                     "{'descr': '<f4' 'fortran_order': False, 'shape': (6,)}"};
  expect(file_of(bad_headers[6], data), "has a malformed header", "byte 51 of the header: a size is negative");
  for (const std::string& header : bad_headers) expect(file_of(header, data), "has a malformed header");
}

TEST_F(Npy, EveryCutIsRefused) {
  const Tensor tensor = random_tensor(DType::f64, {3, 2}, 5);
  ASSERT_TRUE(write_npy(path("a.npy"), tensor).has_value());
  const std::string bytes = *base::read_file(path("a.npy"), 1 << 20);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto read = read_npy(write("cut.npy", bytes.substr(0, size)));
    ASSERT_FALSE(read.has_value()) << size;
    EXPECT_EQ(read.error().code(), 621);
  }
}

TEST_F(Npy, WritingFailsWhole) {
  const Tensor tensor = random_tensor(DType::f32, {4}, 1);
  expect_error(write_npy(path("no/such/folder.npy"), tensor), diag::Code::file_unwritable,
               "cannot write " + path("no/such/folder.npy"));
  ASSERT_EQ(mkdir(path("d").c_str(), 0700), 0);
  expect_error(write_npy(path("d"), tensor), diag::Code::file_unwritable, "cannot write " + path("d"));
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(Npy, ViewsWithoutMemoryAreNotWritten) {
  const auto code = [](const auto& result) { return result.has_value() ? 0 : static_cast<int>(result.error().code()); };
  EXPECT_EQ(code(write_npy(path("n.npy"), TensorView())), 604);
  EXPECT_EQ(code(write_safetensors(path("n.safetensors"), {{"x", TensorView()}})), 604);
  Tensor moved = random_tensor(DType::f32, {}, 1);
  const Tensor there = std::move(moved);
  EXPECT_EQ(code(write_npy(path("n.npy"), moved)), 604);  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(files().empty());
}

TEST_F(Npy, AgreesWithTheReference) {
  const std::string python = CODETTA_TEST_PYTHON " -B ";
  if (std::system((python + "-c 'import numpy' >/dev/null 2>&1").c_str()) != 0) GTEST_SKIP() << "no Python with NumPy";
  const std::string script = write("make.py", R"(
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import codetta_dtypes as c
folder = sys.argv[2]
for dtype in c.DTYPES:
    values = np.arange(12).reshape(3, 4) % (2 if dtype == "bool" else 9)
    if sys.argv[3] == "write":
        c.write_npy(f"{folder}/{dtype}.npy", values, dtype)
        if c.numpy_dtype(dtype) is not None:
            np.save(f"{folder}/{dtype}_f.npy", np.asfortranarray(values.astype(c.numpy_dtype(dtype))))
    else:
        assert np.array_equal(c.read_npy(f"{folder}/{dtype}_back.npy", dtype), values), dtype
        loaded = np.load(f"{folder}/{dtype}_back.npy")  # NumPy itself opens all of them
        assert loaded.shape == values.shape and loaded.tobytes() == c.encode(values, dtype), dtype
)");
  const std::string run = python + script + " " CODETTA_SOURCE_DIR "/python " + path("") + " ";
  ASSERT_EQ(std::system((run + "write").c_str()), 0);
  for (const DType dtype : all_dtypes) {
    const std::string name(dtype_name(dtype));
    auto tensor = read_npy(path(name + ".npy"));
    ASSERT_TRUE(tensor.has_value()) << tensor.error().render();
    EXPECT_EQ(tensor->view().dtype(), dtype);
    EXPECT_EQ(tensor->view().shape(), (Dims{3, 4}));
    ASSERT_TRUE(write_npy(path(name + "_back.npy"), *tensor).has_value());
    if (dtype == DType::bf16 || dtype == DType::f8e4m3 || dtype == DType::f8e5m2) continue;
    auto fortran = read_npy(path(name + "_f.npy"));
    ASSERT_TRUE(fortran.has_value()) << fortran.error().render();
    EXPECT_TRUE(same_bytes(*tensor, *fortran)) << name;
  }
  EXPECT_EQ(std::system((run + "check").c_str()), 0);
}

}  // namespace
}  // namespace codetta::runtime::test

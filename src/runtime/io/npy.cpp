// SPDX-License-Identifier: Apache-2.0
#include "runtime/io/npy.hpp"

#include <cstring>

#include <fmt/format.h>

#include "base/result.hpp"
#include "codetta/io.hpp"
#include "runtime/io/npy_header.hpp"
#include "types/dtype.hpp"

namespace codetta::runtime::io {
namespace {

constexpr std::string_view magic("\x93NUMPY", 6);
constexpr uint64_t largest_npy_header =
    1 << 20;  // a header is some 128 bytes; this bounds what is allocated for a lying one

// What "<f4" and so on say; the size for void and fp8 descriptors, whose dtype is said elsewhere.
struct Descr {
  std::optional<DType> dtype;
  int64_t size = 0;
  bool opaque = false;  // V2, V1 and f1
  bool big_endian = false;
};
std::optional<Descr> describe(std::string_view text) {
  Descr descr;
  if (text.size() != 3 || text[2] < '1' || text[2] > '8') return std::nullopt;
  const char order = text[0], kind = text[1];
  descr.size = text[2] - '0';
  if (order != '<' && order != '>' && order != '|' && order != '=') return std::nullopt;
  descr.big_endian = order == '>' && descr.size > 1;
  const auto of = [&](DType one, DType two, DType four, DType eight) -> std::optional<DType> {
    switch (descr.size) {
      case 1:
        return one;
      case 2:
        return two;
      case 4:
        return four;
      case 8:
        return eight;
      default:
        return std::nullopt;
    }
  };
  switch (kind) {
    case 'b':
      if (descr.size == 1) descr.dtype = DType::boolean;
      break;
    case 'i':
      descr.dtype = of(DType::i8, DType::i16, DType::i32, DType::i64);
      break;
    case 'u':
      descr.dtype = of(DType::u8, DType::u16, DType::u32, DType::u64);
      break;
    case 'f':
      descr.opaque = descr.size == 1;
      if (descr.size != 1) descr.dtype = of(DType::f16, DType::f16, DType::f32, DType::f64);
      break;
    case 'V':
      descr.opaque = descr.size <= 2;
      break;
    default:
      return std::nullopt;
  }
  if (!descr.dtype && !descr.opaque) return std::nullopt;
  return descr;
}

Result<DType> dtype_of(const Source& source, const NpyHeader& header, std::optional<DType> as) {
  const auto descr = header.structured ? std::nullopt : describe(header.descr);
  if (!descr) {
    return unsupported_dtype(
               source, header.structured ? "records" : fmt::format("elements of type '{}'", header.descr.substr(0, 40)))
        .reason("Codetta reads bool, integers and floats of 1 to 8 bytes")
        .help("convert the array before saving it, for example with numpy.astype('float32')");
  }
  if (descr->big_endian) {
    return unsupported_dtype(source, fmt::format("big-endian elements ('{}')", header.descr))
        .reason("only little-endian arrays are read")
        .help("save array.astype(array.dtype.newbyteorder('<'))");
  }
  if (header.codetta_dtype) {
    const auto named = dtype_from_name(*header.codetta_dtype);
    if (!named || dtype_size(*named) != descr->size || (!descr->opaque && *named != descr->dtype)) {
      return malformed(source, "contradicts itself about its element type")
          .reason(
              fmt::format("descr is '{}', codetta_dtype is '{}'", header.descr, header.codetta_dtype->substr(0, 40)));
    }
    if (!as) return *named;
  }
  if (as) {
    if (dtype_size(*as) == descr->size && (descr->opaque || *as == descr->dtype || types::is_unsigned(*descr->dtype)))
      return *as;
    return unsupported_dtype(source, fmt::format("elements of type '{}', not {}", header.descr, dtype_name(*as)))
        .reason(dtype_size(*as) == descr->size
                    ? fmt::format("the file says what they are, and that is not {}", dtype_name(*as))
                    : fmt::format("they have {} bytes; {} has {}", descr->size, dtype_name(*as), dtype_size(*as)))
        .help("only opaque or unsigned elements of the same size can be read as another type; leave it out and cast");
  }
  if (descr->opaque) {
    return unsupported_dtype(source, fmt::format("elements of type '{}'", header.descr))
        .reason("NumPy has no name for bf16 and the 8-bit floats, and the header has no \"codetta_dtype\"")
        .help(fmt::format("say what they are: FILE.npy:{0} on the command line, read_npy(path, codetta::{0}) in C++",
                          descr->size == 1 ? "f8e4m3" : "bf16"));
  }
  return *descr->dtype;
}

}  // namespace

Result<Tensor> read_npy(const Source& source, std::optional<DType> as) {
  unsigned char start[12] = {};
  const uint64_t size = source.size();
  if (size < 10)
    return malformed(source, "is no .npy file").reason(fmt::format("it has {} bytes, a header takes more", size));
  CODETTA_CHECK_OK(source.read(0, start, size < 12 ? 10 : 12));
  if (std::memcmp(start, magic.data(), magic.size()) != 0) {
    return malformed(source, "is no .npy file").reason("it does not begin with \\x93NUMPY");
  }
  if (start[6] < 1 || start[6] > 3 || start[7] != 0) {
    return malformed(source, "has an unknown version")
        .reason(fmt::format("it says {}.{}; 1.0 to 3.0 are known", start[6], start[7]));
  }
  uint64_t length = start[8] | uint64_t{start[9]} << 8, begin = 10;
  if (start[6] > 1) {
    length |= uint64_t{start[10]} << 16 | uint64_t{start[11]} << 24;
    begin = 12;
  }
  if (begin > size || length > size - begin || length > largest_npy_header) {
    return malformed(source, "has a lying header")
        .reason(fmt::format("its header is said to have {} bytes; the file has {}", length, size));
  }
  std::string text(static_cast<size_t>(length), '\0');
  CODETTA_CHECK_OK(source.read(begin, text.data(), text.size()));
  std::string problem;
  const auto header = parse_npy_header(text, &problem);
  if (!header) return malformed(source, "has a malformed header").reason(problem);
  if (header->shape.size() > static_cast<size_t>(max_rank)) {
    return malformed(source, "has too many dimensions")
        .reason(fmt::format("{}; at most {} are possible", header->shape.size(), max_rank));
  }
  CODETTA_TRY(const DType dtype, dtype_of(source, *header, as));

  const Dims shape{std::span<const int64_t>(header->shape)};
  const auto bytes = byte_count(shape, dtype);
  const uint64_t data = begin + length, there = size - data;
  if (!bytes)
    return malformed(source, "has an impossible shape")
        .reason(fmt::format("the size of {}{} overflows", dtype_name(dtype), to_string(shape)));
  if (static_cast<uint64_t>(*bytes) != there) {
    return malformed(source, there < static_cast<uint64_t>(*bytes) ? "is truncated or lies about its shape"
                                                                   : "has bytes after its data")
        .reason(fmt::format("{}{} takes {} bytes; {} are there", dtype_name(dtype), to_string(shape), *bytes, there));
  }
  if (!header->fortran_order || shape.rank() < 2) return read_tensor(source, data, dtype, shape);

  Dims reversed, strides = shape;
  for (int d = shape.rank() - 1; d >= 0; --d) reversed.push_back(shape[d]);
  CODETTA_TRY(const Tensor stored, read_tensor(source, data, dtype, reversed));
  for (int d = 0; d < shape.rank(); ++d) strides[d] = stored.view().stride(shape.rank() - 1 - d);
  CODETTA_TRY(Tensor tensor, Tensor::make(dtype, shape));
  if (*bytes == 0) return tensor;
  CODETTA_TRY(const TensorView view, TensorView::make(static_cast<const void*>(stored.data()), dtype, shape, strides));
  const std::string rows = row_major_bytes(view);
  std::memcpy(tensor.data(), rows.data(), rows.size());
  return tensor;
}

std::string npy_bytes(const TensorView& view) {
  const DType dtype = view.dtype();
  const bool named = dtype == DType::bf16 || types::is_fp8(dtype);
  const char kind = named                       ? 'V'
                    : types::is_bool(dtype)     ? 'b'
                    : types::is_float(dtype)    ? 'f'
                    : types::is_unsigned(dtype) ? 'u'
                                                : 'i';
  const int64_t size = dtype_size(dtype);
  std::string shape;
  for (int64_t dim : view.shape()) shape += fmt::format("{}, ", dim);
  if (view.rank() > 1) shape.resize(shape.size() - 2);
  if (view.rank() == 1) shape.pop_back();
  std::string header = fmt::format("{{'descr': '{}{}{}', 'fortran_order': False, 'shape': ({})", size == 1 ? '|' : '<',
                                   kind, size, shape);
  header += ", }";
  if (named) header += fmt::format(" {}{}", dtype_comment, dtype_name(dtype));
  header.append((64 - (header.size() + 11) % 64) % 64, ' ');
  header.push_back('\n');
  std::string bytes(magic);
  bytes += {'\x01', '\x00', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  return bytes + header + row_major_bytes(view);
}

}  // namespace codetta::runtime::io

namespace codetta {

Result<Tensor> read_npy(const std::string& path, std::optional<DType> as) {
  CODETTA_TRY(const runtime::io::Source source, runtime::io::Source::open(path));
  return runtime::io::read_npy(source, as);
}

Result<void> write_npy(const std::string& path, const TensorView& tensor) {
  CODETTA_CHECK_OK(runtime::io::check_memory(tensor));
  const auto written = base::write_file_atomically(path, runtime::io::npy_bytes(tensor));
  if (!written) return runtime::io::unwritable(path, written.error().message());
  return {};
}

}  // namespace codetta
